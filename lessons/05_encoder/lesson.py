# ---
# title: "The encoder: a block, repeated"
# promise: "You build the block that every Transformer repeats, and you see what lets a deep stack of blocks learn."
# part: "I. Build it"
# map: [norm, residual, mlp]
# recall: ["01.3", "03.1", "04.2"]
# goals:
#   - "Compute a layer norm by hand, and say how it differs from a batch norm."
#   - "Write the MLP of a block, with GELU, and with dropout in the right places."
#   - "Explain the residual stream: what each branch adds, and how the gradient reaches the first layer."
#   - "Write equations 2 and 3, and train stacks with and without what they add."
#   - "For the curious: drop path, why the norm stands inside the branch, GELU against ReLU."
# ---

# %% [markdown]
# ## 1. Attention is done. Why not stack twelve layers of it?
#
# After one layer of attention each token has gathered from all others. Now it should *think* about what it got: a small
# network, the **MLP** (multi-layer perceptron), works on each token by itself. Then gather again, think again. The
# paper repeats this pair L = 12 to 32 times. The stack is the **encoder**.
#
# Let us try the first idea that comes to mind: one layer after the other, nothing else. We send 64 different pictures
# through it and ask after each layer how different they still are. So we subtract the mean of all pictures: what is left, as
# a share of the whole, is what the pictures have of their own. 0 % means that all pictures have become the same. We do
# the same for the tokens inside a picture.
#
# > **Predict.** Twelve layers of attention and MLP, with random weights. How different are the pictures at the end: more
# > than at the start, as much, or less?

# %%
import torch
import torch.nn.functional as F
from IPython.display import display
from torch import nn

from vit_course import encoder
from vit_course.attention import MultiHeadAttention
from vit_classroom import check, plots, table
from vit_classroom.numbers import number, percent
from vit_course.data import normalize, shapes10
from vit_course.patches import PatchEmbed, patchify, unpatchify
from vit_course.training.profiles import get_profile
from vit_course.training.device import get_device

shapes = shapes10(train=64, test=10)
images = normalize(shapes.train_images, *shapes.channel_stats())
torch.manual_seed(0)
tokens = PatchEmbed(img_size=32, patch_size=8, in_chans=3, embed_dim=64)(images).detach()
print("tokens:", tuple(tokens.shape), "= (B, T, D)")


class Bare(nn.Module):
    """Attention, then a small network for each token, one after the other."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.attn = MultiHeadAttention(dim, num_heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        return self.mlp(self.attn(x))


def make_stack(kind, depth, seed=0):
    """Make a list of untrained blocks of one kind, of width 64, with 4 heads."""
    torch.manual_seed(seed)
    return nn.ModuleList(kind(dim=64, num_heads=4) for _ in range(depth))


@torch.no_grad()
def differences(kind):
    """Show what pictures, and tokens, still have of their own after some layers, and return it for all layers."""
    x, own = tokens, {"pictures": [], "tokens of a picture": []}
    for block in [nn.Identity(), *make_stack(kind, 12)]:
        x = block(x)
        for axis, shares in enumerate(own.values()):
            shares.append(((x - x.mean(dim=axis, keepdim=True)).norm() / x.norm()).item())
    depths = (0, 1, 2, 4, 12)
    rows = [[name, *(percent(shares[depth]) for depth in depths)] for name, shares in own.items()]
    display(table(rows, ["share that differs from the mean, after layer", *depths]))
    return own


bare = differences(Bare)

# %% [markdown] claim=["bare['pictures'][4] < 0.01", "bare['tokens of a picture'][2] < 0.01"] always
# After four layers all pictures look the same to the model, so nothing can be learned from them. Two parts repair it, and
# this lesson is about them: the **norm** and the **residual** (the plus signs below). Norm and attention make one **branch**,
# norm and MLP the other. Read the picture from left to right.

# %%
figure = plots.block_diagram()
plots.show(
    figure,
    "A thick line, the residual stream, runs from z of layer l-1 on the left to z of layer l on the right. Two "
    "branches leave it and come back at a plus sign: layer norm and attention, then layer norm and MLP.",
)

# %% [markdown]
# ## 2. Who keeps the numbers at a steady size?
#
# The D numbers of a token are called its **features**. **Layer norm** looks at one token: it subtracts the mean of the features
# and divides by their standard deviation. Then each of the D features gets a learned scale and a learned shift:
#
# $$\mathrm{LN}(x) = \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta, \qquad
# \mu = \frac{1}{D}\sum_{i=1}^{D} x_i, \qquad \sigma^2 = \frac{1}{D}\sum_{i=1}^{D} (x_i - \mu)^2$$
#
# Here x is one token, (D,). μ and σ² are its mean and its variance, one number each. γ (the weight) and β (the bias)
# are learned, (D,) each. ⊙ multiplies number by number. ε is tiny, and keeps us from dividing by 0. By hand:

# %%
token = torch.tensor([1.0, 3.0, 5.0, 7.0])
mean = token.sum() / 4
variance = ((token - mean) ** 2).sum() / 4
print("mean", mean.item(), " variance", variance.item())
print("normed:", [round(value, 3) for value in ((token - mean) / variance.sqrt()).tolist()])

# %% [markdown]
# You may know **batch norm** from convolutional networks. It divides in the same way, but it takes the mean and the variance
# of one feature over *all tokens of all pictures*. In the picture below, cells of one colour share a mean and a variance.

# %% fold
by_token = torch.arange(12)[:, None].expand(12, 8)
by_feature = torch.arange(8)[None].expand(12, 8)
figure = plots.heat_maps(
    [by_token, by_feature],
    ["layer norm: one group per token", "batch norm: one group per feature"],
    "Which numbers share a mean and a variance?",
    "number of the group",
)
figure.axes[2].set_yticks(range(0, 12, 2))
for axis in figure.axes[:2]:
    axis.set(xlabel="feature, 0 to D-1", ylabel="token (3 pictures of 4)")
    axis.set(xticks=range(8), yticks=range(0, 12, 2))
    for line in (3.5, 7.5):
        axis.axhline(line, color="white", linestyle="-", linewidth=2)
plots.show(
    figure,
    "Two tables of 12 tokens by 8 features. Layer norm: each row has its own colour. Batch norm: each column has its own "
    "colour, through all three pictures.",
)

# %% [markdown]
# So with layer norm a picture gets the same result whatever else is in the batch, in training and in evaluation.
#
# **Your task.** Write `layer_norm` for tokens of shape (..., D). The equation above is the full description.
#
# > **Trap.** Three details cause trouble: where ε stands; whether the variance divides by D or by D - 1; and the axis
# > that a mean takes away. `x.mean(dim=-1, keepdim=True)` keeps it, so that (B, T, 1) fits (B, T, D).

# %% exercise="vit_course.encoder:layer_norm" difficulty=1 minutes=8 hint="Mean and variance are taken over the last axis only. `torch.var` divides by D - 1 unless you tell it not to." hint2="`x.var(dim=-1, unbiased=False, keepdim=True)` is the variance that divides by D. Add eps to it *before* you take the root. Weight and bias have shape (D,), so `*` and `+` fit them to every token."
from vit_course.encoder import layer_norm

layer_norm = check(layer_norm)

# %% [markdown]
# What does a norm do to a *picture*? In the model, tokens are normed, not pixels. But patches of pixels can be normed too,
# and then we can look at the result.

# %%
photo = plots.sample_photo((224, 224))[None].float() / 255
pieces = patchify(photo, 16)  # (1, 196, 768)
normed = layer_norm(pieces, torch.ones(768), torch.zeros(768))
print("same as nn.LayerNorm:", torch.allclose(normed, nn.LayerNorm(768, eps=1e-6)(pieces), atol=1e-4))
loudness = {name: x.norm(dim=-1) for name, x in (("before", pieces), ("after", normed))}
for name, lengths in loudness.items():
    print(f"longest patch vector / shortest, {name}: {number(lengths.max() / lengths.min())}")

# %% fold
figure = plots.image_row(
    [photo[0], unpatchify(normed, 16, (14, 14))[0] / 5 + 0.5],
    ["the photo", "every patch normed by itself"],
    "What becomes of dark patches?",
    height=3,
)
plots.show(
    figure, "Left the portrait. Right the same, each patch normed: faint texture in dark areas is now strong."
)

# %% [markdown] claim="loudness['after'].max() < 1.1 * loudness['after'].min() and loudness['before'].max() > 5 * loudness['before'].min()" always
# After the norm a dark patch speaks as loudly as a bright one.
#
# ## 3. Where does a token think?
#
# In the MLP. It expands the token from D to 4D numbers, applies a nonlinearity, and projects it back to D:
#
# $$\mathrm{MLP}(x) = \mathrm{GELU}(x W_1 + b_1)\, W_2 + b_2$$
#
# x is a token, (D,). $W_1$ is (D, 4D) with a bias $b_1$ (4D,), $W_2$ is (4D, D) with $b_2$ (D,). In code the two are
# `fc1` and `fc2`. Without the **activation function** between them, two matrices in a row would be only one matrix.
#
# The paper's is **GELU**: x times the probability that a standard normal number is below x. It looks like ReLU,
# max(0, x), with a soft corner. (The authors' code computes it by an approximation with a tanh, which differs by less
# than .001. We use the exact one. Section 9 compares GELU and ReLU.)

# %% fold
x = torch.linspace(-4, 3, 141)
series = {name: (x.tolist(), act(x).tolist()) for name, act in (("GELU", F.gelu), ("ReLU", F.relu))}
figure = plots.curves(
    series, "What does the activation make of a number?", "input x of the unit", "output of the unit"
)
plots.show(
    figure, "Two curves that nearly agree: ReLU has a corner at 0, GELU dips slightly below 0 and is smooth."
)

# %% [markdown]
# **Dropout** sets each number to 0 with probability p, in training only, and divides the others by 1 - p, so that the mean stays.
# So no unit can rely on a single other one. Where does it go? The paper says (appendix B.1): after every dense layer *except* the
# qkv projections, and right after adding positions. In a block these are three places: after $W_O$ in the attention, after `fc1`
# with its GELU, and after `fc2`. Its p is .1 for training on ImageNet and ImageNet-21k, and 0 on JFT, its largest set of pictures
# (Table 3).
#
# **Your task.** Write the class `Mlp`, with `__init__` and `forward`. Use the exact GELU: `nn.GELU()` without arguments.

# %% exercise="vit_course.encoder:Mlp" difficulty=1 minutes=8 hint="Five steps in `forward`: fc1, GELU, dropout, fc2, dropout. `nn.Dropout` knows by itself whether the model is training." hint2="`__init__` begins with `super().__init__()`, then it makes two `nn.Linear(in, out)`, an `nn.GELU()` and an `nn.Dropout(drop)`. One dropout layer can be called in two places. In `forward`, call the parts one inside the other: `self.act(self.fc1(x))` is the beginning."
from vit_course.encoder import Mlp

Mlp = check(Mlp)

# %%
torch.manual_seed(0)
mlp = Mlp(192, 4 * 192, drop=0.1).eval()
row = torch.randn(1, 5, 192)
changed = row.clone()
changed[0, 3] += 1
moved = (mlp(changed) - mlp(row)).abs().amax(dim=-1)[0] > 1e-6
print("change token 3, and these outputs change:", moved.nonzero().flatten().tolist())
sizes = {"MLP": mlp, "attention": MultiHeadAttention(192, 3)}
sizes = {name: sum(p.numel() for p in part.parameters()) for name, part in sizes.items()}
table([[name, size] for name, size in sizes.items()], ["part of a block", "parameters, D = 192"])

# %% [markdown] claim=["moved.nonzero().flatten().tolist() == [3]", "abs(sizes['MLP'] / sum(sizes.values()) - 2 / 3) < 0.01"] always
# Attention moves information *between* tokens, the MLP works *inside* each. Two thirds of a block's parameters are in the MLP.
#
# The paper draws a conclusion from this (section 3.1): in a ViT, only the MLP layers are local and translationally
# equivariant. *Local*: a result depends on a small neighbourhood, in the MLP on one patch. *Equivariant*: a patch that moves
# takes its result along. Self-attention is global. In a CNN every layer is local and equivariant.
#
# ## 4. How does the gradient reach the first layer?
#
# The norm keeps the size of the numbers. Is that enough? Let us put norms in front of attention and MLP, still one after the other.


# %%
class NormOnly(Bare):
    """Attention and MLP with a norm in front of each, one after the other."""

    def __init__(self, dim, num_heads):
        super().__init__(dim, num_heads)
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)

    def forward(self, x):
        return self.mlp(self.norm2(self.attn(self.norm1(x))))


norm_only = differences(NormOnly)

# %% [markdown] claim=["norm_only['pictures'][12] > 0.2", "norm_only['tokens of a picture'][4] < 0.01"] always
# The pictures stay apart, but after a few layers all *tokens* of a picture are the same: attention takes means of means.
# Where the eye was, nobody knows any more. The cure is one plus sign. A layer F does not replace its input, it adds to it:
#
# $$z_{out} = z + F(z), \qquad \frac{\partial z_{out}}{\partial z} = I + \frac{\partial F}{\partial z}$$
#
# z and F(z) are (T, D), and I is the identity. This sum is a **residual connection**. A layer that has
# nothing to say can say 0, and the old content stays. On the way back the gradient passes through the I unchanged, however
# many layers there are. The line that everything is added to is the **residual stream**.
#
# The finished block of this lesson, `encoder.Block`, has norms and residuals. We send a gradient back through twelve layers
# of each kind, and compare it at every depth with the gradient at the end: by **cosine similarity**, 1 for the same direction
# and 0 for a right angle (lesson 03).
#
# > **Predict.** Three stacks: nothing; norms alone; norms and residuals. In which does the first layer still hear what the
# > loss wants?


# %%
def scores_of(stack, x, head):
    """Send tokens through a stack and a last norm, take the mean token, and return its class scores."""
    for block in stack:
        x = block(x)
    return head(F.layer_norm(x, (64,)).mean(dim=1))


def gradients_of(stack):
    """Return the gradient of a loss with respect to the stream: at the input of each layer, and at the end."""
    streams = [tokens.clone().requires_grad_()]
    for block in stack:
        streams.append(block(streams[-1]))
        streams[-1].retain_grad()
    F.cross_entropy(scores_of([], streams[-1], nn.Linear(64, 10)), shapes.train_labels).backward()
    return [stream.grad for stream in streams]


own = differences(encoder.Block)
kinds = {"no norm, no residual": Bare, "norm, no residual": NormOnly, "norm and residual": encoder.Block}
sizes, similar = {}, {}
for name, kind in kinds.items():
    gradients = gradients_of(make_stack(kind, 12))
    sizes[name] = [gradient.norm().item() for gradient in gradients]
    similar[name] = [F.cosine_similarity(g, gradients[-1], -1, 1e-30).mean().item() for g in gradients]
table(
    [[name, number(sizes[name][0]), number(sizes[name][-1]), round(similar[name][0], 2)] for name in kinds],
    ["stack", "size of the gradient before layer 1", "after layer 12", "similarity of the two"],
)

# %% fold
figure = plots.curves(
    {name: (list(range(13)), values) for name, values in similar.items()},
    "Does the gradient keep its direction on its way back?",
    "depth: after this many layers",
    "cosine similarity with the last gradient",
)
plots.show(
    figure,
    "Three lines over 13 depths, read from right to left. With residuals the similarity falls slowly from 1 to 0.3. Without "
    "them it is near 0 one layer before the end, and stays there.",
)

# %% [markdown] claim=["sizes['no norm, no residual'][0] < 1e-10", "max(abs(value) for name in list(kinds)[:2] for value in similar[name][:-1]) < 0.2", "similar['norm and residual'][0] > 0.2", "own['tokens of a picture'][12] > 0.2"] always
# With neither, almost no gradient reaches the first layer. With the norm alone the gradient keeps its *size*, but a single
# layer turns it by a right angle: what reaches earlier layers points somewhere else. With residuals tokens stay different (the
# table on top), the gradient also passes along the plus signs, and twelve layers down a part of it still points the same way.
#
# The real test is learning. Each stack gets 32 pictures to memorise, with a linear layer on top. (Adam is an *optimiser*: it moves
# the weights against the gradient, a little in each step. Lesson 06 writes this loop.) A loss of ln 10 = 2.3 means guessing;
# knowing only how many of the 32 are in each class gives 2.2.

# %% tags=["nbval-ignore-output"]
steps, device = get_profile().pick(smoke=3, cpu=40, gpu=40), get_device()


def memorise(stack):
    """Train a stack on 32 pictures with Adam, and return the loss before each step."""
    model = nn.ModuleDict({"stack": stack, "head": nn.Linear(64, 10)}).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, labels, losses = tokens[:32].to(device), shapes.train_labels[:32].to(device), []
    for _ in range(steps):
        loss = F.cross_entropy(scores_of(stack, x, model["head"]), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


print(f"profile {get_profile().name}: three stacks of 12 layers, {steps} steps each, under a minute")
losses = {name: memorise(make_stack(kind, 12)) for name, kind in kinds.items()}
table([[name, number(values[-1])] for name, values in losses.items()], ["stack", "loss at the last step"])

# %% fold tags=["nbval-ignore-output"]
figure = plots.curves(
    {name: (list(range(steps)), values) for name, values in losses.items()},
    "Which stack can memorise 32 pictures?",
    "step",
    "loss (nats)",
)
plots.show(figure, "The loss over the steps. Only the stack with residuals falls, almost to 0.")

# %% [markdown] claim=["losses['norm and residual'][-1] < 0.3", "min(losses['norm, no residual'][-1], losses['no norm, no residual'][-1]) > 1.7", "(lambda known: round(known, 1) == 2.2 and abs(losses['no norm, no residual'][-1] - known) < 0.05)(torch.distributions.Categorical(shapes.train_labels[:32].bincount() / 32).entropy().item())"]
# The block memorises its pictures. The stack with neither learns how frequent each class is and nothing else, and the norm alone
# brings little more. (The profile `smoke` takes too few steps to show it; the solved notebook has the full run.)
#
# > **Key idea.** The norm keeps the size of the numbers, the residual keeps their content and carries the gradient. A block
# > has both.
#
# ## 5. What does one block do, line by line?
#
# Now all parts are there. The paper writes
#
# $$z'_\ell = \mathrm{MSA}(\mathrm{LN}(z_{\ell-1})) + z_{\ell-1} \quad (2) \qquad
# z_\ell = \mathrm{MLP}(\mathrm{LN}(z'_\ell)) + z'_\ell \quad (3)$$
#
# $z_{\ell-1}$, $z'_\ell$ and $z_\ell$ are the stream before, inside and after block number ℓ = 1 ... L, (T, D) each for one
# picture, T = N + 1. MSA is multi-head self-attention, lesson 04. The two LN are two layers, each with its own γ and β.
#
# > **Trap.** Where does the plus stand? MSA(LN(z) + z) is another function: no way leads around the attention. And what is
# > added *to* is z itself, not the normed z.
#
# **Your task.** Write `Block.forward`; `__init__` is given. It is equations 2 and 3. One thing is not in the paper: each branch
# goes through `drop_path(branch, self.drop_path_rate, self.training)` before it is added. That function is given; outside
# training, or with a rate of 0, it returns the branch as it is (section 7). With `return_attention=True`, return a pair: the
# tokens, and the weights of `self.attn`, which has the same switch.

# %% exercise="vit_course.encoder:Block.forward" difficulty=2 minutes=10 hint="One line for each equation first, then `drop_path`, then the pair." hint2="The part after `x +` is a branch: put it into `drop_path(branch, self.drop_path_rate, self.training)`, in both lines. For the pair, call `self.attn(self.norm1(x), return_attention)` in a line before: it returns the branch, or with True the branch and the weights."
from vit_course.encoder import Block

Block = check(Block)

# %% [markdown]
# Let us watch the stream through twelve untrained blocks of yours. How long is a token as a vector? And how long
# is what each branch adds?

# %%
x, lengths = tokens, {"the stream": [], "attention adds": [], "MLP adds": []}
with torch.no_grad():
    for block in make_stack(Block, 12):
        middle = x + block.attn(block.norm1(x))
        after = block(x)
        for name, part in zip(lengths, (x, middle - x, after - middle), strict=True):
            lengths[name].append(part.norm(dim=-1).mean().item())
        x = after
table(
    [[name, *(number(values[block - 1]) for block in (1, 4, 8, 12))] for name, values in lengths.items()],
    ["mean length of a token's vector", "block 1", "block 4", "block 8", "block 12"],
)

# %% fold
figure = plots.curves(
    {name: (list(range(1, 13)), values) for name, values in lengths.items()},
    "What grows from block to block?",
    "block",
    "length of a token's vector (mean)",
)
plots.show(
    figure, "Over 12 blocks the stream's length rises steadily; what the two branches add stays at one level."
)

# %% [markdown] claim=["lengths['the stream'][-1] > 2 * lengths['the stream'][0]", "lengths['attention adds'][-1] < 1.5 * lengths['attention adds'][0]", "lengths['MLP adds'][-1] < 1.5 * lengths['MLP adds'][0]"] always
# Each branch reads a *normed* copy of the stream, so it sees numbers of the same size at every depth, and what it adds stays
# at one level. Nobody norms the stream itself, so it grows. This is why the model has one more layer norm at the very end
# (equation 4, lesson 06).
#
# ## 6. What is the encoder?
#
# L blocks, one after the other. Nothing is new but the loop inside `Encoder`:

# %% tolerance=0
stack = encoder.Encoder(depth=12, dim=192, num_heads=3)
out, attentions = stack(torch.randn(2, 65, 192), return_attention=True)
print("in and out:", (2, 65, 192), tuple(out.shape))
print("attention:", len(attentions), "layers of", tuple(attentions[0].shape), "= (B, h, T, T)")
one, total = (sum(p.numel() for p in part.parameters()) for part in (stack[0], stack))
print(f"parameters: {number(one)} in a block, {number(total)} in all")

# %% [markdown] claim="tuple(out.shape) == (2, 65, 192) and total == 12 * one" always
# The shape never changes, so blocks can be stacked as high as you like.

# %% [markdown] curious
# ## 7. Can a block skip a branch?
#
# Since each branch only adds something, the model still works when one is missing. **Drop path** (stochastic
# depth) makes use of it: in training, each picture loses each branch with probability p. It is dropout for
# whole branches. The paper of 2020 does not use it; today's recipes for small data do, with p of about 0.1.
#
# $$z_{out} = z + \frac{m}{1-p}\,F(z), \qquad m = 0 \text{ with probability } p, \text{ else } 1$$
#
# m is one number for each picture. The division keeps the expected value: $(1-p) \cdot \frac{1}{1-p} F(z) + p \cdot 0 = F(z)$.
#
# **Your task.** Write `drop_path`. It gets the *branch*, x = F(z), of shape (B, ...), and returns m/(1-p) · x. Draw one m for
# each picture. The lines for the case outside training are given.

# %% exercise="vit_course.encoder:drop_path" difficulty=2 minutes=9 hint="You need B random numbers in a shape that broadcasts against x: (B, 1, 1) for x of shape (B, T, D). Which of them mean keep?" hint2="`(x.shape[0],) + (1,) * (x.ndim - 1)` is the shape for any number of axes. `torch.rand(shape, device=x.device)` is below `rate` with probability `rate`: those are dropped. A comparison gives True and False, and these multiply x like 1 and 0. Do not forget the division."
from vit_course.encoder import drop_path

drop_path = check(drop_path)

# %% [markdown]
# The first layers make what all later layers read, so they are dropped less: p grows in a straight line, from 0 in the
# first block to its full value in the last. Each column below is one branch, each row one picture.


# %%
def draw_survivors(rate):
    """Show for 16 pictures which branches of 12 blocks survive, and by what they are multiplied."""
    torch.manual_seed(0)
    rates = torch.linspace(0, rate, 12).repeat_interleave(2).tolist()
    factors = torch.cat([drop_path(torch.ones(16, 1), p, training=True) for p in rates], dim=1)
    title = f"p up to {rate}: on average {(factors > 0).sum(1).float().mean():.0f} of 24 branches run"
    figure = plots.heat_maps([factors], [""], title, "factor of the branch (0: dropped)")
    figure.set_size_inches(6.4, 3.6)
    figure.axes[0].set(
        xlabel="branch: attention and MLP of 12 blocks in turn",
        ylabel="picture",
        xticks=range(0, 24, 4),
        aspect="auto",
    )
    plots.show(figure, f"A table of pictures by branches at rate {rate}; more cells are 0 towards the right.")


draw_survivors(0.5)

# %% tags=["nbval-ignore-output"]
plots.slider(draw_survivors, rate=[0.1, 0.3, 0.5, 0.7])

# %% [markdown]
# Every picture passes through its own, shallower model. The mean over many draws is the branch itself:

# %%
torch.manual_seed(0)
branch = torch.tensor([[2.0, -1.0, 0.5]])
many = drop_path(branch.expand(20_000, 3), 0.5, training=True)
print("one draw is one of:", (many + 0.0).unique(dim=0).tolist())  # + 0.0 makes 0.0 of -0.0
print(
    "mean of 20,000 draws within 5 % of the branch:", torch.allclose(many.mean(dim=0), branch[0], rtol=0.05)
)
print("in evaluation the branch itself:", torch.equal(drop_path(branch, 0.5, training=False), branch))

# %% [markdown] claim=["torch.allclose(many.mean(dim=0), branch[0], rtol=0.05)", "len(many.unique(dim=0)) == 2"] always
# So a model that was trained with drop path can be used without it.

# %% [markdown] curious
# ## 8. Why is the norm inside the branch?
#
# The Transformer of 2017 had it outside: add first, then norm the sum. This is **post-norm**; ours is **pre-norm**. Two
# lines differ:


# %%
class PostNormBlock(Block):
    """The same parts, normed after each sum."""

    def forward(self, x):
        x = self.norm1(x + self.attn(x))
        x = self.norm2(x + self.mlp(x))
        return x


# %% [markdown]
# In post-norm the stream itself goes through a norm twice a block, so no path around all the layers is left. Does it matter?
# We build deep stacks of both, untrained, and measure the gradient of `fc2` in every layer. Weights are Xavier's (they keep
# the size of numbers steady), as in the study of Xiong et al. (2020); we take means over four seeds.


# %%
def xavier(module):
    """Draw the weights of a linear layer so that the size of its numbers is kept; biases are 0."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)


def layer_gradients(kind, depth, seed):
    """Return for every layer the size of the gradient of `fc2.weight`, untrained."""
    stack = make_stack(kind, depth, seed).apply(xavier)
    scores = scores_of(stack, tokens[:16], nn.Linear(64, 10))
    F.cross_entropy(scores, shapes.train_labels[:16]).backward()
    return torch.stack([block.mlp.fc2.weight.grad.norm() for block in stack])


series, last = {}, {}
for name, kind in (("pre-norm", Block), ("post-norm", PostNormBlock)):
    for depth in (6, 24):
        sizes = torch.stack([layer_gradients(kind, depth, seed) for seed in range(4)]).mean(dim=0)
        series[f"{name}, {depth} layers"] = (list(range(1, depth + 1)), sizes.tolist())
        last[name, depth] = sizes[-1].item()
        print(f"{name:9} {depth:2} layers: gradient in the last layer {sizes[-1]:.1f}")

# %% fold
figure = plots.curves(
    series, "In which layers is the gradient large?", "layer", "size of the gradient of fc2"
)
plots.show(
    figure,
    "Gradient size over layers. Post-norm stays level, at the same height for 6 and 24 layers. Pre-norm falls "
    "from the first layer to the last, and with 24 layers its last gradients are half of those with 6.",
)

# %% [markdown] claim=["last['pre-norm', 24] < 0.7 * last['pre-norm', 6]", "last['post-norm', 24] > 0.8 * last['post-norm', 6]"] always
# Look at the last layer. In pre-norm, four times the layers give about half the gradient: it shrinks like $1/\sqrt{L}$. In
# post-norm it stays as large, however deep the stack is. The common way of training, Adam, moves every weight by about the
# same amount, so in post-norm the same step in the late layers changes the result more. (Post-norm is often said to make
# gradients *vanish*. In this measurement it does not.)
#
# This law for the last layer is that of Xiong et al. Their curves *over the layers* look different from ours: in their
# translation model pre-norm is level, and post-norm grows towards the last layer.
#
# Now the test of section 4 again, with 24 layers.

# %% tags=["nbval-ignore-output"]
depth = get_profile().pick(smoke=4, cpu=24, gpu=24)
print(f"profile {get_profile().name}: two stacks of {depth} layers, {steps} steps each, under a minute")
norms = {"pre-norm": Block, "post-norm": PostNormBlock}
deep = {name: memorise(make_stack(kind, depth).apply(xavier)) for name, kind in norms.items()}
table([[name, number(values[-1])] for name, values in deep.items()], ["stack", "loss at the last step"])

# %% fold tags=["nbval-ignore-output"]
figure = plots.curves(
    {name: (list(range(steps)), values) for name, values in deep.items()},
    f"32 pictures to memorise: {depth} layers, no warm-up",
    "step",
    "loss (nats)",
)
plots.show(figure, "Loss over training steps for pre-norm and post-norm: pre-norm falls faster.")

# %% [markdown] claim="deep['pre-norm'][-1] < 0.5 * deep['post-norm'][-1]"
# With 24 layers pre-norm memorises faster. Post-norm lags behind, but it is not hopeless. Try six layers, a smaller learning
# rate, or a slow start (warm-up, lesson 07). The size of the effect also depends on the initial weights. Pre-norm asks for
# less care, and the ViT uses it.

# %% [markdown] curious
# ## 9. GELU or ReLU?
#
# The slope of its activation is what a unit learns from. Here are the slopes of both:

# %% fold
x, series = torch.linspace(-4, 3, 141, requires_grad=True), {}
for name, act in (("GELU", F.gelu), ("ReLU", F.relu)):
    (slope,) = torch.autograd.grad(act(x).sum(), x)
    series[name] = (x.tolist(), slope.tolist())
figure = plots.curves(
    series, "Where does a unit still have a slope?", "input x of the unit", "slope of the output"
)
plots.show(
    figure,
    "ReLU's slope jumps from 0 to 1 at 0; GELU's runs smoothly, dips below 0 left of -0.75, and fades out.",
)

# %% [markdown]
# If a ReLU unit is below 0 for *every* token, its slope is 0 for every token, and its own weights get no gradient. It is a
# **dead unit**. (It can come back only if earlier layers, which still move, change what it receives.) Suppose one bad step
# has pushed all units down by 1.5:

# %%
torch.manual_seed(0)
units = nn.Linear(64, 256)
inputs = F.layer_norm(tokens, (64,))
dead = {}
for name, act in (("ReLU", F.relu), ("GELU", F.gelu)):
    units.zero_grad()
    act(units(inputs) - 1.5).sum().backward()
    dead[name] = (units.weight.grad.abs().sum(dim=1) == 0).sum().item()
    print(f"{name}: {dead[name]} of 256 units get no gradient from any of {inputs[..., 0].numel():,} tokens")

# %% [markdown] claim="dead['ReLU'] > 0 and dead['GELU'] == 0" always
# ReLU has dead units here, and GELU has none. This is an argument, not a proof that GELU trains better. So let a small
# encoder learn Shapes-10 with each, from the same initial weights, Xavier's again. (We borrow the whole model from lesson 06.)

# %% tags=["nbval-ignore-output"]
from vit_course.vit import VisionTransformer

count, epochs, seeds = get_profile().pick(smoke=(200, 1, 1), cpu=(3000, 5, 2), gpu=(8000, 10, 3))
dataset = shapes10(train=count, test=1000)
stats = dataset.channel_stats()
train_images, test_images = (
    normalize(part, *stats).to(device) for part in (dataset.train_images, dataset.test_images)
)
train_labels, test_labels = dataset.train_labels.to(device), dataset.test_labels.to(device)


def accuracy_with(act, seed):
    """Train a three-layer ViT whose MLPs use `act`, and return its accuracy on the test pictures."""
    torch.manual_seed(seed)
    model = VisionTransformer(patch_size=8, embed_dim=64, depth=3, num_heads=4, global_pool="avg")
    for block in model.blocks:
        block.mlp.act = act()
    model = model.apply(xavier).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for batch in torch.randperm(count).split(50):
            loss = F.cross_entropy(model(train_images[batch]), train_labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        return (model.eval()(test_images).argmax(dim=1) == test_labels).float().mean().item()


print(
    f"profile {get_profile().name}: {epochs} epochs of {count} pictures, {seeds} seeds, about a minute or less"
)
print(dataset.provenance)
found = [
    [act.__name__, *(percent(accuracy_with(act, seed)) for seed in range(seeds))]
    for act in (nn.GELU, nn.ReLU)
]
table(found, ["activation", *(f"seed {seed}" for seed in range(seeds))])

# %% [markdown]
# Compare the two rows, then the numbers inside a row (the smoke profile has only one). Two seeds of the *same* activation
# may differ as much as the two activations do, and ReLU may well be ahead. From so few runs nobody can name a winner. We
# use GELU because the paper does, and because trained weights expect it.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# Over which numbers does layer norm take its mean, for x of shape (B, T, D)?
#
# - [ ] the T tokens of a picture :: That would mix the tokens, and mixing is attention's work.
# - [x] the D numbers of one token :: Each token by itself, whatever stands beside it.
# - [ ] all B pictures :: That is batch norm's way: then a picture's result depends on the other pictures.

# %% [markdown] quiz
# A text writes equation 2 as z' = MSA(LN(z) + z). What is wrong?
#
# - [ ] nothing: a sum may stand before a layer or after it :: A sum before a layer is another function.
# - [x] attention replaces the stream :: The plus must stand *after* MSA. Here no way leads around the attention, and the old content is lost, as in section 4.
# - [ ] this is post-norm :: Post-norm is LN(MSA(z) + z).

# %% [markdown] quiz
# Dropout with p = 0.25, in training. What are the numbers that stay multiplied by?
#
# - [ ] 0.75 :: Then the sums would shrink twice.
# - [ ] 1 :: Without the scale the sums would be larger in evaluation, when nothing is dropped.
# - [x] 1.33 :: 1 / (1 - 0.25), so that 0.75 · 1.33 = 1 on average.

# %% [markdown] quiz
# A model uses a single `nn.LayerNorm(D)` in front of every attention, in front of every MLP and at the end. What follows?
#
# - [x] all of them share one γ and one β :: Each norm should have a scale and a shift of its own to learn; the paper's model has 2L + 1 layer norms.
# - [ ] an error, since one layer cannot be called twice :: A layer may be called as often as you like. Every shape fits, and it trains.
# - [ ] nothing :: That is true of mean and variance only.

# %% [markdown] quiz
# Why does a pre-norm model need a norm after its last block?
#
# - [ ] for the softmax in the attention of the last block :: Attention has its own norm in front.
# - [ ] it does not need one :: Equation 4 has it. Without it the head gets numbers whose size depends on the depth.
# - [x] the stream has grown and was never normed :: Only the branches read normed copies.

# %% [markdown]
# ## Recap
#
# | what | shape | D = 192, 65 tokens |
# |---|---|---|
# | stream before, inside and after a block | (B, T, D) | (B, 65, 192) |
# | mean and variance of layer norm | (B, T, 1) | (B, 65, 1) |
# | γ and β of one layer norm | (D,) | (192,) |
# | hidden layer of the MLP | (B, T, 4D) | (B, 65, 768) |
# | what a branch adds | (B, T, D) | (B, 65, 192) |
#
# - Layer norm keeps the size, the residual keeps the content and carries the gradient.
# - Attention works between tokens, the MLP inside each token.
# - Pre-norm: a branch reads a normed copy, and adds to the stream as it is.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), equations 2 and 3, and appendix B.1 for dropout.
# - Xiong et al., *On Layer Normalization in the Transformer Architecture* (ICML 2020): pre-norm against post-norm.
# - Huang et al., *Deep Networks with Stochastic Depth* (ECCV 2016). In torchvision: `stochastic_depth` with mode "row".
# - Ba et al., *Layer Normalization* (2016), and Hendrycks and Gimpel, *Gaussian Error Linear Units* (2016).
