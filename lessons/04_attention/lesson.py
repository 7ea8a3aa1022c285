# ---
# title: "Self-attention, many heads"
# promise: "Write multi-head attention, and watch it find a face."
# part: "I. Build it"
# map: [attention]
# goals:
#   - "Compute the attention of four tokens on paper, then write it for any number of tokens."
#   - "Say why the scores are divided by sqrt(d), and what happens without it."
#   - "Split queries, keys and values into heads, and merge the results without mixing tokens."
#   - "Write multi-head attention in two steps, and see with which matrices it finds a face."
#   - "Say what attention costs, and at what length the T² term dominates."
#   - "For the curious: gradients without the scale, one module per head, PyTorch's own attention, its time."
# recall:
#   "01.2": "Each of N patches with P²·C numbers is multiplied by the matrix E. Somebody calls the result N x D x P². What is its shape?"
#   "02.1": "D = 192, and an image has 64 patches. What is the shape of a batch once CLS has joined it?"
#   "03.1": "A model has no position embedding, and you shuffle the patches of an image. Which output does not change?"
# ---

# %% [markdown]
# ## 1. How can one patch know about another?
#
# An eye is an eye because there is a nose beside it. But a token holds one patch, and a linear layer works on each token
# by itself. `tokens_that_change` tests it. It changes token 3 of five tokens, and lists the outputs that change.

# %%
import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vit_classroom import check, plots, table
from vit_classroom.exhibits.attention_table import edit_attention
from vit_classroom.exhibits.heads import describe_patches, tokens_that_change
from vit_classroom.numbers import number

print("nn.Linear: outputs that change:", tokens_that_change(nn.Linear(8, 8)))

# %% [markdown] claim="tokens_that_change(nn.Linear(8, 8)) == [3]" always
# Only the output of token 3 changes, so a stack of such layers never compares two patches. We need a step that *mixes* tokens.
#
# The mean of all tokens would give every token the same, and an eye should listen to the nose, not to the sky. So each token
# gets a weighted mean of its own, and the weights depend on what the tokens contain. This is **self-attention**, because the
# tokens of one image attend to each other. Three learned matrices turn every token into three vectors.
#
# - Its **query** q asks "What am I looking for?"
# - Its **key** k answers "What do I have to offer?"
# - Its **value** v is what the token hands over to those who listen to it.
#
# The paper writes this in one line (appendix A, equation 5):
#
# $$[q, k, v] = z\,U_{qkv}, \qquad U_{qkv} \in \mathbb{R}^{D \times 3d}$$
#
# Here z holds the T = N + 1 tokens of one image, (T, D), and q, k and v are (T, d) each.
#
# ## 2. What does one token receive? Four tokens on paper
#
# Take an image of four patches, the left ear of a cat, the right ear, grass and sky. Let d = 4, and let the four
# numbers of a query or key stand for *fur, pointed, green, blue*. (In a trained model these numbers have no names.)
# Values have two numbers.
#
# | token | query q | key k | value v |
# |---|---|---|---|
# | left ear | 2 2 0 0 | 1 1 0 0 | 10 0 |
# | right ear | 0 4 0 0 | 1 1 0 0 | 20 0 |
# | grass | 0 0 4 0 | 0 1 1 0 | 0 10 |
# | sky | 0 0 2 4 | 0 0 0 1 | 0 20 |
#
# What does the left ear receive? It looks for fur and for pointed things.
#
# 1. **Scores.** Multiply its query with each key, number by number, and take the sum (a dot product). With the left ear
#    this is 2·1 + 2·1 = 4, with the right ear 4, with the grass 2 (grass is pointed too), and with the sky 0.
# 2. **Scale.** Divide by $\sqrt{d} = 2$. This gives 2, 2, 1, 0. Section 4 says why.
# 3. **Softmax.** Make weights that are positive and sum to 1. Take $e^2, e^2, e^1, e^0$, which are 7.4, 7.4, 2.7 and 1, and
#    divide them by their sum, 18.5. The weights are 0.40, 0.40, 0.15 and 0.05.
# 4. **Sum the values** with these weights. 0.40·(10, 0) + 0.40·(20, 0) + 0.15·(0, 10) + 0.05·(0, 20) is about (12, 2.5).
#
# The left ear listens to the *other* ear as much as to itself, and it did not need to know where that ear is.
#
# > **Predict.** Compute the row of the sky on paper. To whom does the sky listen most, and who is next?

# %%
names = ["left ear", "right ear", "grass", "sky"]
queries = torch.tensor([[2.0, 2, 0, 0], [0, 4, 0, 0], [0, 0, 4, 0], [0, 0, 2, 4]])
keys = torch.tensor([[1.0, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]])
values = torch.tensor([[10.0, 0], [20, 0], [0, 10], [0, 20]])


def attend_one(query):
    """Steps 1 to 4 for one query: its weights over the keys, and what it receives."""
    scores = torch.stack([(query * key).sum() for key in keys])
    powers = (scores / 2).exp()
    weights = powers / powers.sum()
    return weights, sum(weight * value for weight, value in zip(weights, values, strict=True))


weights, received = (torch.stack(results) for results in zip(*map(attend_one, queries), strict=True))
both = torch.cat([weights, received], dim=1)
rows = [[name, *row.tolist()] for name, row in zip(names, both, strict=True)]
table(rows, ["query of", *names, "receives 0", "receives 1"], caption="Weights over the keys, and the result")

# %% [markdown] claim="weights[3].argsort(descending=True)[:2].tolist() == [3, 2] and weights[0, 0] == weights[0, 1]" always
# The sky listens to itself most, then to the grass. This T x T table of weights is called an **attention map**. One
# entry reads "the left ear gives 0.40 of its attention to the right ear".
#
# Now choose a query and edit it. What must the sky's query be, so that the sky listens to almost nothing but the grass?

# %% tags=["nbval-ignore-output"]
edit_attention(queries, keys, values, names)

# %% [markdown] claim="round(100 * attend_one(torch.tensor([0.0, 0, 9, 0]))[0][2].item()) == 97" always
# Only the key of the grass has a number at *green*, so the sky must ask for green and for nothing else. With the query
# (0, 0, 9, 0) the grass gets 97 % of the sky's attention.
#
# ## 3. How do we compute all rows at once?
#
# All scores together are one matrix product, $qk^\top$, with queries in its rows and keys in its columns (equations 6 and 7):
#
# $$A = \mathrm{softmax}\!\left(\frac{q k^\top}{\sqrt{d}}\right), \qquad \mathrm{SA}(z) = A\,v$$
#
# The softmax turns each *row* of scaled scores into weights. $A\,v$ has one vector for each query.

# %% fold
plots.show(
    plots.attention_diagram(),
    "Six matrices in a row: queries (T, d) times transposed keys (d, T) give scores (T, T); divided by the root of d, a "
    "softmax of each row makes the weights (T, T); times the values (T, e) they give the output (T, e). One row is "
    "coloured throughout: it belongs to one query.",
)

# %% [markdown]
# **Your task.** Write `scaled_dot_product_attention(q, k, v)`. It returns the output and the weights. It should work with any
# axes in front, (T, d) as well as (B, h, T, d), so count axes from the end. The last axis is -1.

# %% exercise="vit_course.attention:scaled_dot_product_attention" difficulty=2 minutes=10 hint="There are three steps, the scores, the softmax and the weighted sum. All of them work on the last two axes, so it does not matter how many axes come before them." hint2="Before every query can meet every key, the last two axes of k must change places, and `transpose(-2, -1)` does that. The d under the root is the length of an axis of q. And which axis of the scores counts the keys?"
from vit_course.attention import scaled_dot_product_attention

scaled_dot_product_attention = check(scaled_dot_product_attention)

# %% [markdown]
# > **Predict.** Each row of the weights sums to 1. Does each column?

# %%
output, attended = scaled_dot_product_attention(queries, keys, values)
print("as on paper:", torch.allclose(output, received))
sums = {"row": attended.sum(dim=-1), "column": attended.sum(dim=-2)}
table([[name, *row.tolist()] for name, row in sums.items()], ["sum of the", *names])

# %% [markdown] claim=["torch.allclose(sums['row'], torch.ones(4))", "sums['column'].argmin() == 3", "torch.allclose(output, received)"] always
# Each row does, and the columns do not. Every query spends one unit of attention, and here the sky gets the least of it.
#
# > **Trap.** Softmax along the wrong axis keeps the shape right, but then each *column* sums to 1. Every key hands
# > out one unit of attention, even if no query looks for it.
#
# ## 4. Why divide by sqrt(d)?
#
# A score is a sum of d products. Let the numbers of q and k be independent, with mean 0 and variance 1. Then each product has
# variance 1, and the sum has variance d.
#
# > **Predict.** With d = 64, how large is the standard deviation of the scores? If two scores differ by that much, by what
# > factor do their weights differ after the softmax?

# %%
print("standard deviation", 64**0.5, "  factor of two weights", round(math.exp(64**0.5)))

# %% [markdown] claim="round(math.exp(8)) == 2981" always
# The standard deviation is 8, and the factor is $e^8$, about 3,000.
#
# So without the scale, a wide head attends almost entirely to one key. The softmax **saturates**, which means that a
# small change of the scores changes almost nothing, and the query hardly learns to look elsewhere. Divided by sqrt(d),
# the scores have a standard deviation of 1 for every d. Section 9 measures this.
#
# ## 5. Why many heads?
#
# One softmax gives each token one set of weights, so it can ask one question. But an eye may want to know about the other eye
# *and* about the skin around it, and one weighted mean would blend both answers.
#
# So a layer has h small attentions, its **heads**. Each has three matrices of its own, D x d with d = D/h, and its own T x T
# table. The h query matrices, side by side, are one matrix D x D. It gives each token D numbers, and slice i is the query of
# head i.

# %% fold
plots.show(
    plots.heads_diagram(),
    "One token of 6 numbers becomes q, k and v of 6 numbers each. Each is cut into 3 slices in the colours of 3 heads. "
    "Every head gets one slice of q, of k and of v. Their results stand side by side, and W_O makes 6 numbers of them.",
)

# %% [markdown] claim="torch.arange(4).repeat_interleave(6).reshape(3, 4, 2)[0, :, 0].tolist() == [0, 0, 0, 1]" always
# > **Key idea.** The *token* is never cut. Each head reads all its D numbers, through matrices of its own. What is cut is
# > q, k and v.
#
# In shapes, q, k and v are (B, T, D) and become (B, h, T, d), so that one matrix product serves all images and all heads.
#
# > **Trap.** A bare `reshape` gives this shape too, but it cuts the row of numbers in the wrong places. With 4 tokens and 3
# > heads of width 2, the four rows of head 0 come from tokens 0, 0, 0 and 1. Every shape is right, so nothing warns you.
#
# **Your task.** Write `split_heads` and its exact inverse `merge_heads`. They work on any (B, T, D). Head 0 gets the first d
# numbers of every row, head 1 the next d, and so on. The check that h divides D is given.

# %% exercise="vit_course.attention:split_heads, vit_course.attention:merge_heads" difficulty=2 minutes=8 hint="The axis D is really two axes, `(h d)`, the head outside and the d numbers inside. Give both a name, then say in which order you want the four axes." hint2="With einops, the pattern begins `'b t (h d) -> …'`, and `rearrange` needs to know h. Without einops, make (B, T, h, d) first, then swap two axes. For `merge_heads` go the same way backwards."
from vit_course.attention import merge_heads, split_heads

split_heads = check(split_heads)
merge_heads = check(merge_heads)

# %% [markdown]
# ## 6. How do heads become a layer?
#
# In two steps. The first step has no weights of its own, and you have written all its parts.
#
# **Your task.** Write `attend_in_heads(q, k, v, num_heads)`. It takes queries, keys and values, (B, T, D) each. It splits,
# attends and merges. It returns the merged output (B, T, D), and the weights of all heads, (B, h, T, T).

# %% exercise="vit_classroom.exhibits.heads:attend_in_heads" difficulty=1 minutes=5 hint="Write down the shape after each of the three steps. Which of your functions changes which shape?" hint2="All three, q, k and v, are split in the same way. Your attention function already returns a pair, and only the first of the two is merged."
from vit_classroom.exhibits.heads import attend_in_heads

attend_in_heads = check(attend_in_heads)

# %% [markdown]
# The second step adds the weights that learn.
#
# **In.** The query, key and value matrices of all heads, side by side, are one matrix, D x 3D. So one layer `qkv`, an
# `nn.Linear(D, 3 * D)`, computes q, k and v, in this order. The order is a convention, but trained weights depend on it.
#
# **Out.** Head 0 wrote its result into slice 0, head 1 into slice 1. One more matrix lets every head write to the whole token
# (equation 8, where MSA means multi-head self-attention):
#
# $$\mathrm{MSA}(z) = [\,\mathrm{SA}_1(z);\ \mathrm{SA}_2(z);\ \cdots;\ \mathrm{SA}_h(z)\,]\;U_{msa}, \qquad U_{msa} \in \mathbb{R}^{h d \times D}$$
#
# $\mathrm{SA}_i(z)$ is the output of head i, (T, d). $U_{msa}$ is the **output projection**, which most texts call
# $W_O$. Here the semicolons of the paper mean *side by side*, so the bracket has the shape (T, h·d).
#
# **Your task.** Write `MultiHeadAttention.forward(x, return_attention=False)`. `__init__` is given. It also prepares
# dropout, which lesson 05 explains. The first line of the body is for it, and you can leave it as it is.
#
# 1. Cut `self.qkv(x)` into q, k and v.
# 2. Give them to your `attend_in_heads`.
# 3. Send the output through `self.proj`, which is $W_O$.
# 4. Return the result, or with `return_attention=True` the pair (result, weights).

# %% exercise="vit_course.attention:MultiHeadAttention.forward" difficulty=2 minutes=5 hint="`chunk(3, dim=-1)` cuts a tensor (B, T, 3D) into three of (B, T, D). The number of heads is `self.num_heads`." hint2="Follow the shapes: (B, T, 3D), then three times (B, T, D), then (B, T, D) and (B, h, T, T). Only the first of these last two goes through `self.proj`."
from vit_course.attention import MultiHeadAttention

MultiHeadAttention = check(MultiHeadAttention)

# %% [markdown] tags=["solution-only"]
# The cell above is the finished version of the course. It can do two things more than the exercise asks for. It has
# **dropout** (lesson 05). And where nobody asks for the weights, it calls PyTorch's **fused** function, which gives the result
# without writing the T x T table down (section 10). Here is the layer as the exercise asks for it.


# %% tags=["solution-only"]
class StepByStep(MultiHeadAttention):
    """The same layer with the functions of this lesson, without dropout."""

    def forward(self, x, return_attention=False):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        heads, weights = attend_in_heads(q, k, v, self.num_heads)
        out = self.proj(heads)
        return (out, weights) if return_attention else out


torch.manual_seed(0)
fused, steps = (kind(dim=192, num_heads=3).eval() for kind in (MultiHeadAttention, StepByStep))
steps.load_state_dict(fused.state_dict())
x = torch.randn(2, 65, 192)
print("equal up to rounding:", torch.allclose(steps(x), fused(x), atol=1e-5))

# %%
torch.manual_seed(0)
tokens = torch.randn(2, 65, 192)  # (B, T, D): 64 patches and CLS
attention = MultiHeadAttention(dim=192, num_heads=3).eval()
out, weights = attention(tokens, return_attention=True)
print("output", tuple(out.shape), "  weights", tuple(weights.shape))
changed = tokens_that_change(MultiHeadAttention(8, 2).eval())
print("attention: outputs that change:", changed)

# %% [markdown] claim="changed == [0, 1, 2, 3, 4] and weights.shape == (2, 3, 65, 65)" always
# Now all five outputs change, because every token has heard of token 3. With a CLS token in front, row 0 of the weights says
# how much CLS reads from each token.
#
# ## 7. What does it look at?
#
# An untrained layer gives nearly equal weights to all tokens. Here we *choose* the matrices, and run **your** layer on
# 28 x 28 patches of a photo. It shows Grace Hopper, who wrote one of the first compilers.
#
# Each token has 192 numbers, 64 for each of three descriptions of its patch: its mean colour, its detail (how much its
# pixels differ), and its place. Every description has length 1, so the product of two is 1 if they agree, and less if
# they do not.
#
# Queries and keys are the tokens themselves, so every patch looks for patches *like itself*. Head i compares description i. The
# queries are also multiplied by a sharpness. The larger it is, the fewer patches get most of the weight.
#
# > **Predict.** A patch of the cheek asks. What will the colour head light up, and what the place head?

# %%
photo = plots.sample_photo((224, 224))
photo_tokens = describe_patches(photo)  # (1, 784, 192)
sharpness = torch.tensor([30.0, 80.0, 15.0]) * 64**0.5  # times sqrt(d), since attention divides by it
torch.manual_seed(0)
by_hand = MultiHeadAttention(dim=192, num_heads=3).eval()
with torch.no_grad():
    _, untrained = by_hand(photo_tokens, return_attention=True)
    by_hand.qkv.bias.zero_()
    queries_sharper = torch.diag(sharpness.repeat_interleave(64))
    by_hand.qkv.weight.copy_(torch.cat([queries_sharper, torch.eye(192), torch.eye(192)]))
    _, photo_table = by_hand(photo_tokens, return_attention=True)
for name, maps in [("untrained", untrained), ("by hand", photo_table)]:
    print(f"{name}: the largest weight is {number((maps.max() / maps.mean()).item())} times the mean")

# %% fold
head_names = ["colour", "detail", "place"]
spots = {"cheek": (13, 11), "uniform": (23, 5), "flag": (6, 2), "wall": (5, 25)}  # (row, column) in the grid


def maps_of(query):
    """Return the three maps (28, 28) of one patch: what each head looks at from there."""
    row, column = spots[query]
    return list(rearrange(photo_table[0, :, row * 28 + column], "h (r c) -> h r c", r=28))


figure = plots.attention_maps(
    photo,
    maps_of("cheek"),
    [f"head {i}: {name}" for i, name in enumerate(head_names)],
    "A patch of the cheek asks three heads: who is like me?",
    query=spots["cheek"],
)
figure.set_size_inches(0.85 * figure.get_size_inches())
plots.show(
    figure,
    "The portrait with a frame around a patch of the cheek, and three maps: the colour head lights up the face, the detail "
    "head patches about as uneven as the cheek, the place head a small disc around the patch.",
)

# %% [markdown] claim=["untrained.max() < 2 * untrained.mean()", "photo_table.max() > 20 * photo_table.mean()", "maps_of('cheek')[0][8:18, 9:17].sum() > 0.5"] always
# The colour head asked for patches of the same colour, and it found the face. It does not know what a face is. A softmax over
# products of vectors was enough. A trained ViT runs the same code, with tokens and matrices that it has learned (lessons 06
# and 09).
#
# Choose a head and the patch that asks.


# %% fold tags=["nbval-ignore-output"]
def draw_head(head, query):
    """Show where one head looks from one patch."""
    name = head_names[head]
    figure = plots.attention_maps(
        photo, [maps_of(query)[head]], [f"head {head}: {name}"], f"Patch of the {query}", query=spots[query]
    )
    plots.show(figure, f"The portrait, and the map of head {head} ({name}) for a patch of the {query}.")


plots.slider(draw_head, head=[0, 1, 2], query=["uniform", "cheek", "flag", "wall"])

# %% [markdown]
# ## 8. What does it cost?
#
# We count **floating-point operations** (FLOPs), each multiplication and each addition. A product of an (a, b) and a (b, c)
# matrix has 2·a·b·c of them. One layer of attention contains these products:
#
# - The projections to q, k, v and back by $W_O$ are four products of (T, D) and (D, D), so 8·T·D².
# - The scores and the weighted sum, over all heads, are 2·T²·D each, so 4·T²·D.
#
# > **Predict.** Everyone talks about the T² cost. With D = 192, at what length T is the T² part the larger one?

# %% [markdown] claim=["4 * 384**2 * 192 == 8 * 384 * 192**2", "round(65 / (65 + 2 * 192), 2) == 0.14"] always
# Only from T = 2·D = 384 tokens on. With 65 tokens, the famous quadratic cost is 14 % of attention's cost. But this
# part grows fast when patches shrink or images grow. Section 11 measures it.

# %% [markdown] curious
# ## 9. What exactly saturates without the scale?
#
# We give random queries 65 random keys, and vary the width d of the head. Three measures show what the scale does.
#
# - The **variance** of the scores.
# - The **entropy** of a row of weights, $-\sum_j A_{ij} \ln A_{ij}$. It is ln 65 = 4.17 if a query looks at all keys equally,
#   and 0 if it looks at a single one. (The unit is called nat.)
# - The **gradient** that reaches the scores through the softmax, for a typical query (the median).
#
# A popular mistake is to divide by the root of D, the width of the whole token. We try it too, with D = 12·d, as in the
# paper's model Base (Table 1: D = 768, 12 heads, so d = 64).
#
# > **Predict.** Dividing by sqrt(D) is dividing by too much. Do the weights get more peaked, or flatter?

# %%
widths = [4, 16, 64, 256, 1024]
scales = {
    "nothing": lambda d: 1.0,
    "sqrt(d)": lambda d: d**-0.5,
    "sqrt(D), D = 12 d": lambda d: (12 * d) ** -0.5,
}
panels = {name: {} for name in ("score variance", "entropy (nats)", "gradient size")}
for name, scale in scales.items():
    results = []
    for d in widths:
        torch.manual_seed(0)
        q, k, upstream = torch.randn(400, d), torch.randn(65, d), torch.randn(400, 65)
        scaled = (q @ k.T * scale(d)).requires_grad_()
        row = scaled.softmax(dim=-1)
        row.backward(upstream)
        entropy = -(row * row.clamp_min(1e-30).log()).sum(dim=-1).mean()
        results.append((scaled.var().item(), entropy.item(), scaled.grad.norm(dim=-1).median().item()))
    for panel, measured in zip(panels.values(), zip(*results, strict=True), strict=True):
        panel[name] = (widths, list(measured))

# %% fold
figure = plots.curve_panels(
    panels,
    "What does a head of width d see, and what can it learn?",
    "width d of a head",
    log_y=("score variance", "gradient size"),
)
plots.show(
    figure,
    "Three panels over d. Without a scale the variance grows like d, the entropy falls towards 0 and the gradient falls "
    "by three powers of ten. With sqrt(d) all three stay level. With sqrt(D) they stay level too, but the entropy is near its maximum.",
)

# %% [markdown] claim=["panels['gradient size']['nothing'][1][-1] < 0.01 * panels['gradient size']['sqrt(d)'][1][-1]", "panels['entropy (nats)']['nothing'][1][-1] < 0.5", "0.5 < panels['gradient size']['nothing'][1][2] / panels['gradient size']['sqrt(d)'][1][2] < 0.8 and widths[2] == 64", "min(panels['entropy (nats)']['sqrt(D), D = 12 d'][1]) > max(panels['entropy (nats)']['sqrt(d)'][1])"] always
# Without a scale, the gradient of a typical query is smaller than with sqrt(d) at d = 64, the width of ViT-B's heads,
# and almost gone at d = 1024. There a typical query hardly learns. With sqrt(D) the weights get *flatter*, nearer to
# the plain mean, which we wanted to leave behind.

# %% [markdown] curious
# ## 10. Is it the same as one module per head, and as PyTorch's?
#
# Some programs keep a list of h modules, one per head, with three `nn.Linear(D, d)` each. Is that the same function? We copy
# the slices of the big matrix into three such heads. (`nn.Linear` stores its weight transposed, so columns of $U_{qkv}$ are
# rows there.)

# %%
one_by_one = [{name: nn.Linear(192, 64) for name in "qkv"} for _ in range(3)]
slices = list(
    zip(attention.qkv.weight.split(64), attention.qkv.bias.split(64), strict=True)
)  # q of all heads, k, v
with torch.no_grad():
    for i, head in enumerate(one_by_one):
        for j, name in enumerate("qkv"):
            weight, bias = slices[3 * j + i]
            head[name].weight.copy_(weight)
            head[name].bias.copy_(bias)
found = [scaled_dot_product_attention(*(head[name](tokens) for name in "qkv"))[0] for head in one_by_one]
apart = attention.proj(torch.cat(found, dim=-1))
print("one module per head, difference below 1e-5:", (apart - out).abs().max().item() < 1e-5)

# %% [markdown] claim="(apart - out).abs().max() < 1e-5" always
# It is the same function. Nine small layers and one large one hold the same numbers.
#
# PyTorch has attention twice, as the function `F.scaled_dot_product_attention` and as the module `nn.MultiheadAttention`. If
# our layer is right, copied weights must give equal results.

# %%
q, k, v = (split_heads(part, 3) for part in attention.qkv(tokens).chunk(3, dim=-1))
ours, theirs = scaled_dot_product_attention(q, k, v)[0], F.scaled_dot_product_attention(q, k, v)
print("the function, difference below 1e-5:", (ours - theirs).abs().max().item() < 1e-5)

module = nn.MultiheadAttention(192, 3, batch_first=True).eval()
with torch.no_grad():
    module.in_proj_weight.copy_(attention.qkv.weight)
    module.in_proj_bias.copy_(attention.qkv.bias)
    module.out_proj.weight.copy_(attention.proj.weight)
    module.out_proj.bias.copy_(attention.proj.bias)
their_out, their_table = module(tokens, tokens, tokens, average_attn_weights=False)
print("the module, difference below 1e-5:  ", (out - their_out).abs().max().item() < 1e-5)
print("its weights, difference below 1e-5: ", (weights - their_table).abs().max().item() < 1e-5)

# %% [markdown] claim=["(ours - theirs).abs().max() < 1e-5", "(out - their_out).abs().max() < 1e-5", "(weights - their_table).abs().max() < 1e-5"] always
# All results are equal up to rounding. Each weight has its counterpart, `in_proj` for `qkv` and `out_proj` for `proj`. In
# lesson 06 you copy the weights of a whole ViT in this way.
#
# PyTorch's function returns the result alone. Where it can, it runs a **fused kernel**, one program on the chip that works
# through the keys in pieces and never writes down the T x T table. That needs less memory, and there are no weights to look
# at. The finished version in `vit_course` calls this function, unless somebody asks for the attention.

# %% [markdown] curious
# ## 11. What does it cost on your machine?
#
# Here is section 8 as a figure. `attention_flops` adds up all products of one layer.

# %%
from vit_course.attention import attention_flops

lengths = [16, 65, 197, 384, 1025, 4097, 16385, 50177]
projections = [8 * t * 192**2 for t in lengths]
quadratic = [attention_flops(t, 192) - p for t, p in zip(lengths, projections, strict=True)]

# %% fold
figure = plots.curves(
    {
        "all of attention": (lengths, [attention_flops(t, 192) for t in lengths]),
        "projections, 8·T·D²": (lengths, projections),
        "scores and sum, 4·T²·D": (lengths, quadratic),
    },
    "From which length on is the quadratic part the larger one?",
    "tokens T",
    "FLOPs for one image, one layer (D = 192)",
    log="xy",
)
plots.show(
    figure,
    "Three rising lines on logarithmic axes: the projections grow with T, scores and sum with T squared; they cross at 384 "
    "tokens, and at 4,097 tokens the quadratic part is nine tenths of the whole.",
)

# %% [markdown] claim="[q >= p for p, q in zip(projections, quadratic)] == [t >= 384 for t in lengths]" always
# The lines cross at 384 tokens. The paper timed its models too (appendix D, Figure 12). There the T² part hardly
# showed, even with large images.
#
# The tables need memory too, h·T² numbers of 4 bytes per image and layer. The next table has the 12 heads of the paper's model
# Base.

# %%
cuts = {
    "32x32, P = 4": 65,
    "224x224, P = 16": 197,
    "448x448, P = 16": 785,
    "224x224, P = 4": 3137,
    "224x224, every pixel": 50177,
}
rows = [[name, num_tokens, 12 * num_tokens**2 * 4 / 1e6] for name, num_tokens in cuts.items()]
table(rows, ["image", "tokens T", "12 tables, MB"])

# %% [markdown]
# Now measure the time of the step-by-step version, which writes the table down, and of PyTorch's fused one.
#
# > **Predict.** With twice the tokens, the T² part needs four times the operations. Does it also take four times as long?

# %% tags=["nbval-ignore-output"]
import time

from vit_classroom.profiles import get_profile
from vit_course.training.device import get_device


def milliseconds(function, *inputs):
    """Run for a tenth of a second, but at least three times, and return the fastest run in milliseconds."""
    times = []
    while len(times) < 3 or sum(times) < 100:
        start = time.perf_counter()
        function(*inputs)[0].flatten()[0].item()  # reading a number waits until the device is done
        times.append(1000 * (time.perf_counter() - start))
    return min(times)


device = get_device()
ways = {"step by step": scaled_dot_product_attention, "fused": F.scaled_dot_product_attention}
timed = get_profile().pick(
    smoke=[64, 128, 256], cpu=[64, 128, 256, 512, 1024, 2048], gpu=[256, 512, 1024, 2048, 4096, 8192]
)
measured = {name: [] for name in ways}
for t in timed:
    q, k, v = torch.randn(3, 1, 3, t, 64, device=device)
    for name, attend in ways.items():
        measured[name].append(milliseconds(attend, q, k, v))
table(list(zip(timed, *measured.values(), strict=True)), ["tokens T", *(f"{name}, ms" for name in ways)])

# %% fold tags=["nbval-ignore-output"]
figure = plots.curves(
    {name: (timed, times) for name, times in measured.items()},
    f"Time of one attention, three heads, on {device.type} (profile {get_profile().name})",
    "tokens T",
    "milliseconds",
    log="xy",
)
plots.show(
    figure, "Time in milliseconds over the number of tokens, both axes logarithmic, step by step and fused."
)

# %% [markdown]
# How much longer does the last doubling take? The step-by-step version must write and read the whole T x T table, and
# the fused version never does.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# Your table of weights has columns that sum to 1, and rows that do not. What happened?
#
# - [x] the softmax ran over the queries :: Rows belong to queries and columns to keys. The softmax must run along a row, over the keys, with `dim=-1`.
# - [ ] nothing, because both ways are in use :: Then a query may receive far more or less than one unit.
# - [ ] the scale by sqrt(d) is missing :: The scale changes how peaked a row is, never its sum.

# %% [markdown] quiz
# D = 192, h = 3. By what are the scores divided?
#
# - [x] 8 :: d = 192/3 = 64, and its root is 8.
# - [ ] about 13.9 :: This is the root of D, and the weights get too flat.
# - [ ] 64 :: Here the root is forgotten, and the weights get flatter still.

# %% [markdown] quiz
# An image has 64 patches, and CLS is in front. The weights A of one head are (65, 65). What does A[0, 5] say?
#
# - [x] how much CLS reads from the fifth patch :: Row 0 is the query of CLS. The patches begin at index 1, so column 5 is the fifth patch.
# - [ ] how much the first patch reads from the fifth :: The first patch has row 1, because index 0 is CLS.
# - [ ] how much the fifth patch reads from CLS :: That is A[5, 0]. Rows are queries, and columns are keys.

# %% [markdown] quiz
# T = 65 tokens, D = 192. You double T, with smaller patches. By what factor do the FLOPs of attention, 8·T·D² + 4·T²·D, grow?
#
# - [x] a little more than 2 :: The projections double. The scores and sums grow four times, and at this length they are the smaller part.
# - [ ] 4, because attention is quadratic :: Only two of its products are. With T far above 2·D = 384 the factor comes near 4.
# - [ ] 2, because each token costs the same :: Each token also looks at twice as many others.

# %% [markdown]
# ## Recap
#
# | what | shape | D = 192, h = 3, T = 65 |
# |---|---|---|
# | tokens, in and out | (B, T, D) | (B, 65, 192) |
# | q, k, v and output of the heads | (B, h, T, d) | (B, 3, 65, 64) |
# | scores, weights A | (B, h, T, T) | (B, 3, 65, 65) |
#
# - A token looks at the others through q, k and v, by softmax(q kᵀ / sqrt(d)) v.
# - Each query spreads a weight of 1 over the keys, along the last axis.
# - Each head reads the whole token through its own matrices, and $W_O$ mixes what the heads found.
#
# ## Further reading
#
# - Vaswani et al., *Attention Is All You Need* (2017), section 3.2: the scale, and the reason for it in a footnote.
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), appendix A: equations 5 to 8. Appendix D.5 and Figure 12:
#   measured speed.
# - Dao et al., *FlashAttention* (2022): how a fused kernel avoids the table.
#
# **Next.** Put twelve of these layers one after the other, and all images come out the same. Lesson 05 asks why, and adds what
# is missing.
