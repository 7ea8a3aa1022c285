# ---
# title: "The encoder: a block, repeated"
# promise: "Build the Transformer block, and see why deep stacks learn."
# part: "I. Build it"
# map: [norm, residual, mlp]
# recall:
#   "01.3": "Patches come from `images.reshape(B, N, P*P*3)`. All shapes fit, and the loss falls. What is wrong, if anything?"
#   "03.1": "A model without position embeddings reads an image, then the same patches in another order. What stays equal?"
#   "04.2": "A model of width 192 has three heads. Which number divides q·k before the softmax?"
# goals:
#   - "Compute a layer norm by hand, and say how it differs from a batch norm."
#   - "Write the MLP of a block, with GELU, and with dropout in the right places."
#   - "Explain the residual stream, what each branch adds to it, and how the gradient reaches the first layer."
#   - "Write equations 2 and 3, and train stacks with and without the norm and the residual."
#   - "For the curious: drop path, pre-norm against post-norm, GELU against ReLU."
# ---

# %% [markdown]
# ## 1. Attention is done. Why not stack twelve layers of it?
#
# After one layer of attention each token has gathered from all others. Now it should *think* about what it got. A small
# network, the **MLP** (multi-layer perceptron), works on each token by itself. Then the tokens gather again, and think again.
# The paper repeats this pair L = 12 to 32 times. The stack is the **encoder**.
#
# Let us try the simplest stack, one layer after the other and nothing else. We send 64 images through it and measure after
# each layer how different they still are. From the tokens $x$ of each image we subtract the mean $\bar{x}$ over all images. The
# measure is the length of what is left, divided by the length of the whole:
#
# $$\frac{\lVert x - \bar{x} \rVert}{\lVert x \rVert}$$
#
# 0 % means that all images have become the same. Then we do the same inside one image, with the mean over its tokens.
#
# > **Predict.** How different are the images after twelve untrained layers of attention and MLP? More than at the start, about
# > the same, or less?

# %%
import torch
from torch import nn

from vit_classroom import check, plots, table
from vit_classroom.exhibits.block_figures import gradient_paths, norm_groups
from vit_classroom.exhibits.deep_stacks import (
    difference_table,
    differences,
    make_stack,
    memorise,
    stream_gradients,
)
from vit_classroom.numbers import number
from vit_course import encoder
from vit_course.attention import MultiHeadAttention
from vit_course.data import normalize, shapes10
from vit_course.patches import PatchEmbed

shapes = shapes10(train=64, test=10)
images = normalize(shapes.train_images, *shapes.channel_stats())
torch.manual_seed(0)
tokens = PatchEmbed(img_size=32, patch_size=8, in_chans=3, embed_dim=64)(images).detach()  # (B, T, D)


class Bare(nn.Module):
    """Attention, then a small network for each token, one after the other."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.attn = MultiHeadAttention(dim, num_heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        return self.mlp(self.attn(x))


bare = differences(make_stack(Bare, 12), tokens)
difference_table(bare)

# %% [markdown] claim=["bare['images'][4] < 0.01", "bare['tokens of an image'][2] < 0.01"] always
# After four layers all images look the same to the model, so it cannot learn to classify them. Two parts repair this, the
# **norm** and the **residual** (the plus signs below). Norm and attention make one **branch**, norm and MLP the other. Read the
# figure from left to right.

# %% fold
figure = plots.block_diagram()
plots.show(
    figure,
    "A thick line, the residual stream, runs from z of layer l-1 on the left to z of layer l on the right. Two "
    "branches leave it and come back at a plus sign: layer norm and attention, then layer norm and MLP.",
)

# %% [markdown]
# ## 2. Who keeps the numbers at a steady size?
#
# The norm does. The D numbers of a token are called its **features**. **Layer norm** looks at one token. It subtracts the mean
# of the features and divides by their standard deviation. Then each feature gets a learned scale and a learned shift:
#
# $$\mathrm{LN}(x) = \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta, \qquad
# \mu = \frac{1}{D}\sum_{i=1}^{D} x_i, \qquad \sigma^2 = \frac{1}{D}\sum_{i=1}^{D} (x_i - \mu)^2$$
#
# Here x is one token, (D,). Its mean μ and its variance σ² are one number each. γ (the weight) and β (the bias) are learned,
# (D,) each. ⊙ multiplies number by number. ε is tiny, and prevents a division by 0.
#
# > **Predict.** Norm the token (1, 3, 5, 7) on paper, with γ = 1 and β = 0. Its mean is 4. What is its variance?

# %%
token = torch.tensor([1.0, 3.0, 5.0, 7.0])
mean = token.sum() / 4
variance = ((token - mean) ** 2).sum() / 4
print("mean", mean.item(), " variance", variance.item())
print("normed:", [round(value, 3) for value in ((token - mean) / variance.sqrt()).tolist()])

# %% [markdown]
# You may know **batch norm** from convolutional networks. It divides in the same way, but it takes the mean and the variance
# of one feature over *all tokens of all images*.

# %% fold
plots.show(
    norm_groups(),
    "Two tables of 12 tokens by 8 features, three images of four tokens. Layer norm: one row is coloured, one token of one "
    "image. Batch norm: one column is coloured, through all three images.",
)

# %% [markdown] claim="variance == 5 and mean == 4" always
# So with layer norm an image gets the same result whatever else is in the batch, in training and in evaluation.
#
# **Your task.** Write `layer_norm` for tokens of shape (..., D). The equation above is the full description.
#
# > **Trap.** Three details cause trouble. Where is ε? Does the variance divide by D or by D - 1? And which axis does a mean
# > remove? `x.mean(dim=-1, keepdim=True)` keeps the axis, so that (B, T, 1) fits (B, T, D).

# %% exercise="vit_course.encoder:layer_norm" difficulty=1 minutes=8 hint="Mean and variance are taken over the last axis only. `torch.var` divides by D - 1 unless you tell it not to." hint2="`var` has an argument `unbiased`, and like `mean` it can keep its axis. ε is added to the variance *before* the root is taken. Weight and bias have shape (D,), so `*` and `+` fit them to every token."
from vit_course.encoder import layer_norm

layer_norm = check(layer_norm)

# %%
sizes = tokens * torch.linspace(0.1, 10, 16)[:, None]  # tokens of very different length
normed = layer_norm(sizes, torch.ones(64), torch.zeros(64))
print("same as nn.LayerNorm:", torch.allclose(normed, nn.LayerNorm(64, eps=1e-6)(sizes), atol=1e-4))
ratios = [(x.norm(dim=-1).max() / x.norm(dim=-1).min()).item() for x in (sizes, normed)]
print("longest token / shortest token: before", number(ratios[0]), " after", number(ratios[1]))

# %% [markdown] claim="ratios[0] > 50 and ratios[1] < 1.1" always
# After the norm every token is about as long as every other.
#
# ## 3. Where does a token think?
#
# In the MLP. It expands the token from D to 4D numbers, applies a nonlinearity, and projects it back to D:
#
# $$\mathrm{MLP}(x) = \mathrm{GELU}(x W_1 + b_1)\, W_2 + b_2$$
#
# x is a token, (D,). $W_1$ is (D, 4D) with a bias $b_1$ (4D,), and $W_2$ is (4D, D) with $b_2$ (D,). In code the two layers are
# `fc1` and `fc2`. Without the **activation function** between them, the two linear layers would be no more than one.
#
# The paper's activation function is **GELU**, x times the probability that a standard normal number is below x. It looks like
# ReLU, max(0, x), with a soft corner. We use the exact GELU. The authors' code uses an approximation that differs by less than
# 0.001.
#
# **Dropout** sets each number to 0 with probability p, in training only, and divides the others by 1 - p, so that the
# mean stays the same. So the model cannot rely on any single number. In a block it has three places, after $W_O$ in the
# attention, after the GELU, and after `fc2`. The paper uses p = 0.1 for training on ImageNet (appendix B, Table 3).
#
# **Your task.** Write the class `Mlp`, with `__init__` and `forward`. Use the exact GELU, `nn.GELU()` without arguments.

# %% exercise="vit_course.encoder:Mlp" difficulty=1 minutes=8 hint="`forward` has five steps, fc1, GELU, dropout, fc2 and dropout. `nn.Dropout` knows by itself whether the model is training." hint2="`__init__` begins with `super().__init__()`, then it makes the parts, two linear layers, a GELU and a dropout. One dropout layer can be called in two places. `forward` only calls the parts, one inside the other or line by line."
from vit_course.encoder import Mlp

Mlp = check(Mlp)

# %%
mlp = Mlp(192, 4 * 192, drop=0.1).eval()
row = torch.randn(1, 5, 192)
changed = row.index_fill(1, torch.tensor([3]), 1.0)
moved = ((mlp(changed) - mlp(row)).abs().amax(dim=-1)[0] > 1e-6).nonzero().flatten().tolist()
print("change token 3, and these outputs change:", moved)
weights = {"MLP": mlp, "attention": MultiHeadAttention(192, 3)}
weights = {name: sum(p.numel() for p in part.parameters()) for name, part in weights.items()}
table([[name, count] for name, count in weights.items()], ["part of a block", "parameters, D = 192"])

# %% [markdown] claim=["moved == [3]", "abs(weights['MLP'] / sum(weights.values()) - 2 / 3) < 0.01"] always
# Attention moves information *between* tokens, and the MLP works *inside* each token. Two thirds of a block's parameters are
# in the MLP.
#
# ## 4. How does the gradient reach the first layer?
#
# The norm keeps the size of the numbers. Is that enough? We put norms in front of attention and MLP, still one layer after the
# other.


# %%
class NormOnly(Bare):
    """Attention and MLP with a norm in front of each, one after the other."""

    def __init__(self, dim, num_heads):
        super().__init__(dim, num_heads)
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)

    def forward(self, x):
        return self.mlp(self.norm2(self.attn(self.norm1(x))))


norm_only = differences(make_stack(NormOnly, 12), tokens)
difference_table(norm_only)

# %% [markdown] claim=["norm_only['images'][12] > 0.2", "norm_only['tokens of an image'][4] < 0.01"] always
# The images stay different, but after a few layers all *tokens* of an image are the same, because attention takes means of
# means. Nothing in them shows where the eye was. The cure is one plus sign. A layer F does not replace its input but adds to it:
#
# $$z_{out} = z + F(z), \qquad \frac{\partial z_{out}}{\partial z} = I + \frac{\partial F}{\partial z}$$
#
# z and F(z) are (T, D), and I is the identity. This sum is a **residual connection**. A layer that has nothing to add can add
# 0, and the old content stays. The line that everything is added to is the **residual stream**. On the way back the gradient
# passes along the I unchanged, however many layers there are.

# %% fold
plots.show(
    gradient_paths(),
    "Above, twelve layers one after the other. The gradient goes back through each of them, and its arrow gets thinner. Below, the "
    "layers are branches of a stream with a plus sign after each. One thick arrow goes back along the stream from the loss to the "
    "start, and dotted arrows go through the layers.",
)

# %% [markdown]
# The finished block of this lesson, `encoder.Block`, has norms and residuals. We send a gradient back through twelve layers of
# each kind, and compare the gradient before layer 1 with the one after layer 12. Their **cosine similarity** is 1 for the same
# direction and 0 for a right angle (lesson 03).
#
# > **Predict.** In which stack does a useful gradient reach the first layer, with neither part, with norms alone, or with norms
# > and residuals?

# %%
kinds = {"no norm, no residual": Bare, "norm, no residual": NormOnly, "norm and residual": encoder.Block}
rows = []
for name, kind in kinds.items():
    first, *_, last = stream_gradients(make_stack(kind, 12), tokens, shapes.train_labels)
    similarity = torch.cosine_similarity(first, last, -1, 1e-30).mean().item()
    rows.append([name, first.norm().item(), last.norm().item(), round(similarity, 2)])
table(rows, ["stack", "size of the gradient before layer 1", "after layer 12", "similarity of the two"])

# %% [markdown] claim=["rows[0][1] < 1e-10", "max(abs(row[3]) for row in rows[:2]) < 0.2 < rows[2][3]", "rows[1][1] > 0.01"] always
# Only with residuals. With neither part, almost no gradient reaches the first layer. With the norm alone the gradient keeps its
# *size*, but it is nearly at a right angle to the gradient that the loss sent. With residuals a part of it still points the
# same way after twelve layers.
#
# The real test is learning. Each stack gets 32 images to memorise, with a linear layer on top. How training works comes in
# lesson 06. Here it is a closed box that returns the **loss** of every step, and a smaller loss means better answers.
#
# You can work out one number in advance. A stack in which all images are the same can only learn how frequent each
# class is. If class k has the share $p_k$ of the 32 images, the smallest loss that it can reach is the mean of $-\ln$
# of these shares over the images, $-\sum_k p_k \ln p_k$.

# %% tags=["nbval-ignore-output"]
from vit_classroom.profiles import get_profile

shares = shapes.train_labels[:32].bincount() / 32
frequencies_alone = -(shares * shares.log()).sum().item()
steps = get_profile().pick(smoke=3, cpu=40, gpu=40)
losses = {
    name: memorise(make_stack(kind, 12), tokens[:32], shapes.train_labels[:32], steps)
    for name, kind in kinds.items()
}
print("loss that the frequencies alone can reach:", number(frequencies_alone))
table([[name, number(values[-1])] for name, values in losses.items()], ["stack", "loss at the last step"])

# %% fold tags=["nbval-ignore-output"]
figure = plots.curves(
    {name: (list(range(steps)), values) for name, values in losses.items()},
    f"Which stack can memorise 32 images? (profile {get_profile().name})",
    "step",
    "loss (nats)",
)
plots.show(figure, "The loss over the steps. Only the stack with residuals falls, almost to 0.")

# %% [markdown] claim=["losses['norm and residual'][-1] < 0.3", "min(losses['norm, no residual'][-1], losses['no norm, no residual'][-1]) > 1.7", "abs(losses['no norm, no residual'][-1] - frequencies_alone) < 0.05"]
# The block memorises its images. The stack with neither part learns how frequent each class is and nothing else, as the
# arithmetic said. The norm alone helps little. (The profile `smoke` takes too few steps to show it.)
#
# > **Key idea.** The norm keeps the size of the numbers. The residual keeps their content and carries the gradient. A block
# > has both.
#
# ## 5. What does one block do, line by line?
#
# Now all parts are there. The paper writes
#
# $$z'_\ell = \mathrm{MSA}(\mathrm{LN}(z_{\ell-1})) + z_{\ell-1} \quad (2) \qquad
# z_\ell = \mathrm{MLP}(\mathrm{LN}(z'_\ell)) + z'_\ell \quad (3)$$
#
# $z_{\ell-1}$, $z'_\ell$ and $z_\ell$ are the stream before, inside and after block number ℓ, (T, D) each for one image. MSA is
# multi-head self-attention, lesson 04. The two LN are two layers, each with its own γ and β.
#
# > **Trap.** Where is the plus? MSA(LN(z) + z) is another function, in which no path bypasses the attention. And the branch is
# > added to z itself, not to the normed z.
#
# **Your task.** Write `Block.forward`, which is equations 2 and 3. `__init__` is given. Its `drop_path_rate` is for section 7, so
# leave it alone here. With `return_attention=True`, return the pair of the tokens and the weights of `self.attn`, which has the
# same switch.

# %% exercise="vit_course.encoder:Block.forward" difficulty=2 minutes=10 hint="Write one line for each equation first, then add the pair." hint2="Each line has the form x + branch, and a branch is a norm and then a part. For the pair, call `self.attn` in a line before, with its own `return_attention`. Then its result is a branch, or a branch and the weights."
from vit_course.encoder import Block

Block = check(Block)

# %% [markdown]
# Watch the stream through twelve untrained blocks of yours.
#
# > **Predict.** How long is a token as a vector, and how long is what each branch adds? Which of them grow from block to block?

# %%
x, lengths = tokens, {"the stream": [], "attention adds": [], "MLP adds": []}
with torch.no_grad():
    for block in make_stack(Block, 12):
        middle = x + block.attn(block.norm1(x))
        after = block(x)
        for name, part in zip(lengths, (x, middle - x, after - middle), strict=True):
            lengths[name].append(part.norm(dim=-1).mean().item())
        x = after
rows_of_lengths = [
    [name, *(values[block - 1] for block in (1, 4, 8, 12))] for name, values in lengths.items()
]
table(rows_of_lengths, ["mean length of a token's vector", "block 1", "block 4", "block 8", "block 12"])

# %% [markdown] claim=["lengths['the stream'][-1] > 2 * lengths['the stream'][0]", "lengths['attention adds'][-1] < 1.5 * lengths['attention adds'][0]", "lengths['MLP adds'][-1] < 1.5 * lengths['MLP adds'][0]"] always
# Only the stream grows. Each branch reads a *normed* copy of the stream, so it sees numbers of the same size at every depth, and
# what it adds stays at one level. The stream itself is never normed. This is why the model has one more layer norm at the very
# end (equation 4, lesson 06).
#
# ## 6. What is the encoder?
#
# L blocks, one after the other. Nothing is new but the loop inside `Encoder`.

# %%
stack = encoder.Encoder(depth=12, dim=192, num_heads=3)
out, attentions = stack(torch.randn(2, 65, 192), return_attention=True)
print("in and out:", (2, 65, 192), tuple(out.shape))
print("attention:", len(attentions), "layers of", tuple(attentions[0].shape), "= (B, h, T, T)")
one, total = (sum(p.numel() for p in part.parameters()) for part in (stack[0], stack))
print(f"parameters: {number(one)} in a block, {number(total)} in all")

# %% [markdown] claim="tuple(out.shape) == (2, 65, 192) and total == 12 * one" always
# The shape never changes, so you can stack as many blocks as you like.

# %% [markdown] curious
# ## 7. Can a block skip a branch?
#
# Since each branch only adds something, the model still works when one is missing. **Drop path** (stochastic depth) makes use
# of this. In training, each image loses each branch with probability p. It is dropout for whole branches. The paper of 2020
# does not use it. Today's recipes for small data do, with p of about 0.1.
#
# $$z_{out} = z + \frac{m}{1-p}\,F(z), \qquad m = 0 \text{ with probability } p, \text{ else } 1$$
#
# m is one number for each image. The division keeps the expected value, $(1-p) \cdot \frac{1}{1-p} F(z) + p \cdot 0 = F(z)$.
#
# **Your task.** Write `drop_path`. It gets the *branch*, x = F(z), of shape (B, ...), and returns m/(1-p) · x. Draw one m for
# each image. The lines for the case outside training are given.

# %% exercise="vit_course.encoder:drop_path" difficulty=2 minutes=9 hint="You need B random numbers in a shape that broadcasts against x, which is (B, 1, 1) for x of shape (B, T, D). Which of them mean keep?" hint2="For any number of axes, the shape is B and then a 1 for each other axis. `torch.rand` gives a number below `rate` with probability `rate`, so compare. True and False multiply x like 1 and 0. And what must the branches that stay be divided by?"
from vit_course.encoder import drop_path

drop_path = check(drop_path)

# %% [markdown]
# Is the mean over many draws the branch itself?

# %%
torch.manual_seed(0)
branch = torch.tensor([[2.0, -1.0, 0.5]])
many = drop_path(branch.expand(20_000, 3), 0.5, training=True)
print("one draw is one of:", (many + 0.0).unique(dim=0).tolist())  # + 0.0 makes 0.0 of -0.0
print(
    "mean of 20,000 draws within 5 % of the branch:", torch.allclose(many.mean(dim=0), branch[0], rtol=0.05)
)

# %% [markdown] claim=["torch.allclose(many.mean(dim=0), branch[0], rtol=0.05)", "len(many.unique(dim=0)) == 2"] always
# It is. So a model that was trained with drop path can be used without it.
#
# **Now add it to your block.** In `Block.forward` (section 5), give each branch to `drop_path(branch, self.drop_path_rate,
# self.training)` before it is added, and run the check of the block again. The check tests drop path as soon as your block
# uses it.
#
# The first layers make what all later layers read, so they are dropped less. In `Encoder`, p grows in a straight line, from 0
# in the first block to its full value in the last. In the figure each column is one branch, and each row is one image.


# %% fold
def draw_survivors(rate):
    """Show for 16 images which branches of 12 blocks survive, and by what they are multiplied."""
    torch.manual_seed(0)
    rates = torch.linspace(0, rate, 12).repeat_interleave(2).tolist()
    factors = torch.cat([drop_path(torch.ones(16, 1), p, training=True) for p in rates], dim=1)
    title = f"p up to {rate}: on average {(factors > 0).sum(1).float().mean():.0f} of 24 branches run"
    figure = plots.heat_maps([factors], [""], title, "factor of the branch (0: dropped)")
    figure.set_size_inches(6.4, 3.6)
    figure.axes[0].set(
        xlabel="branch: attention and MLP of 12 blocks in turn",
        ylabel="image",
        xticks=range(0, 24, 4),
        aspect="auto",
    )
    plots.show(figure, f"A table of images by branches at rate {rate}; more cells are 0 towards the right.")


draw_survivors(0.5)

# %% tags=["nbval-ignore-output"]
plots.slider(draw_survivors, rate=[0.1, 0.3, 0.5, 0.7])

# %% [markdown] curious
# ## 8. Why is the norm inside the branch?
#
# The Transformer of 2017 had it outside. It added first, and then normed the sum. This is **post-norm**, and ours is
# **pre-norm**. Two lines differ:


# %%
class PostNormBlock(Block):
    """The same parts, normed after each sum."""

    def forward(self, x):
        x = self.norm1(x + self.attn(x))
        x = self.norm2(x + self.mlp(x))
        return x


# %% [markdown]
# In post-norm the stream itself goes through a norm twice in every block, so no path bypasses all layers. Does it matter? We
# build untrained stacks of both, and measure the gradient of `fc2` in every layer. The weights are Xavier's, which keep the
# size of numbers steady, as in the study of Xiong et al. (2020). We take means over four seeds.
#
# > **Predict.** Compare the last layer of 6 with the last layer of 24. In which of the two designs does its gradient depend on
# > the depth?

# %%
from vit_classroom.exhibits.deep_stacks import layer_gradients, xavier

series, last = {}, {}
for name, kind in (("pre-norm", Block), ("post-norm", PostNormBlock)):
    for depth in (6, 24):
        sizes = torch.stack(
            [
                layer_gradients(
                    make_stack(kind, depth, seed).apply(xavier), tokens[:16], shapes.train_labels[:16]
                )
                for seed in range(4)
            ]
        ).mean(dim=0)
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
# In the pre-norm model with four times as many layers, the gradient of the last layer is about half as large. It shrinks like
# $1/\sqrt{L}$, as Xiong et al. predict. In the post-norm model it does not shrink. Adam, a common optimiser, moves every weight
# by about the same amount, so in a deep post-norm model the last layers change too much at the start of training. This is one
# reason why post-norm models need a slow **warm-up** (lesson 07).
#
# Now repeat the test of section 4, with 24 layers.

# %% tags=["nbval-ignore-output"]
depth = get_profile().pick(smoke=4, cpu=24, gpu=24)
norms = {"pre-norm": Block, "post-norm": PostNormBlock}
deep = {
    name: memorise(make_stack(kind, depth).apply(xavier), tokens[:32], shapes.train_labels[:32], steps)
    for name, kind in norms.items()
}
table([[name, number(values[-1])] for name, values in deep.items()], ["stack", "loss at the last step"])

# %% fold tags=["nbval-ignore-output"]
figure = plots.curves(
    {name: (list(range(steps)), values) for name, values in deep.items()},
    f"32 images to memorise: {depth} layers, no warm-up",
    "step",
    "loss (nats)",
)
plots.show(figure, "Loss over training steps for pre-norm and post-norm: pre-norm falls faster.")

# %% [markdown] claim="deep['pre-norm'][-1] < 0.5 * deep['post-norm'][-1]"
# With 24 layers pre-norm memorises faster than post-norm, without warm-up and with these initial weights. Pre-norm asks for less
# care, and the ViT uses it. Try six layers.

# %% [markdown] curious
# ## 9. GELU or ReLU?
#
# A hidden number of the MLP is called a **unit**. It learns from the slope of its activation function. Here are both
# functions and their slopes.

# %% fold
panels = {}
for name, act in (("GELU", nn.functional.gelu), ("ReLU", nn.functional.relu)):
    x = torch.linspace(-4, 3, 141, requires_grad=True)
    (slope,) = torch.autograd.grad(act(x).sum(), x)
    panels[name] = (x.tolist(), act(x).tolist())
    panels[f"slope of {name}"] = (x.tolist(), slope.tolist())
figure = plots.curves(
    panels, "Where does a unit still have a slope?", "input x of the unit", "output, and its slope"
)
plots.show(
    figure,
    "Four curves. The outputs of GELU and ReLU nearly agree. ReLU's slope jumps from 0 to 1 at 0; GELU's runs smoothly, dips "
    "below 0 left of -0.75, and fades out.",
)

# %% [markdown]
# If a ReLU unit is below 0 for *every* token, its slope is 0 for every token, and its own weights get no gradient. It
# is a **dead unit**. It can come back if earlier layers change its input. Suppose one bad step has pushed all units
# down by 1.5.

# %%
torch.manual_seed(0)
units = nn.Linear(64, 256)
inputs = nn.functional.layer_norm(tokens, (64,))
dead = {}
for name, act in (("ReLU", nn.functional.relu), ("GELU", nn.functional.gelu)):
    units.zero_grad()
    act(units(inputs) - 1.5).sum().backward()
    dead[name] = (units.weight.grad.abs().sum(dim=1) == 0).sum().item()
    print(f"{name}: {dead[name]} of 256 units get no gradient from any of {inputs[..., 0].numel():,} tokens")

# %% [markdown] claim="dead['ReLU'] > 0 and dead['GELU'] == 0" always
# ReLU has dead units here, and GELU has none. This is an argument, not a proof that GELU trains better. We use GELU because the
# paper does, and because trained weights expect it.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# Over which numbers does layer norm take its mean, for x of shape (B, T, D)?
#
# - [ ] the T tokens of an image :: That would mix the tokens, and mixing is attention's work.
# - [x] the D numbers of one token :: Each token is normed by itself, whatever else is in the batch.
# - [ ] all B images :: That is batch norm, where an image's result depends on the other images.

# %% [markdown] quiz
# A text writes equation 2 as z' = MSA(LN(z) + z). What is wrong?
#
# - [ ] nothing, because a sum may come before a layer or after it :: A sum before a layer is another function.
# - [x] attention replaces the stream :: The plus must come *after* MSA. Here no path bypasses the attention, and the old content is lost, as in section 4 of lesson 05.
# - [ ] this is post-norm :: Post-norm is LN(MSA(z) + z).

# %% [markdown] quiz
# Dropout with p = 0.25, in training. By what are the numbers that stay multiplied?
#
# - [ ] 0.75 :: Then the sums would shrink twice.
# - [ ] 1 :: Without the scale the sums would be larger in evaluation, when nothing is dropped.
# - [x] 1.33 :: 1 / (1 - 0.25), so that 0.75 · 1.33 = 1 on average.

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
# | hidden layer of the MLP | (B, T, 4D) | (B, 65, 768) |
#
# - Layer norm keeps the size of the numbers. The residual keeps their content and carries the gradient.
# - Attention works between tokens, and the MLP works inside each token.
# - A branch reads a normed copy of the stream, and adds its result to the stream itself.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), equations 2 and 3, and appendix B.1 for dropout. Section 3.1
#   says that in a ViT only the MLP layers are local and translationally equivariant.
# - Xiong et al., *On Layer Normalization in the Transformer Architecture* (ICML 2020): pre-norm against post-norm.
#   Their curves over the layers, of a translation model, look different from ours.
# - Huang et al., *Deep Networks with Stochastic Depth* (ECCV 2016). In torchvision: `stochastic_depth` with mode "row".
# - Ba et al., *Layer Normalization* (2016), and Hendrycks and Gimpel, *Gaussian Error Linear Units* (2016).
#
# **Next.** You have nearly all the parts, and no model. Will one of your own find the star that the linear classifier
# lost? Lesson 06 puts your parts together, from the image to the answer, and trains them.
