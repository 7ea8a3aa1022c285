# ---
# title: "Self-attention, many heads"
# promise: "You build the step in which tokens look at each other, and you watch your own attention light up a face."
# part: "I. Build it"
# minutes: 75
# goals:
#   - "Compute the attention of four tokens on paper, then write it for any number of tokens."
#   - "Say why the scores are divided by sqrt(d), and show what happens without it."
#   - "Split tokens into heads and put them together again without mixing tokens."
#   - "Write multi-head attention and prove it equal to PyTorch's."
#   - "Say what attention costs in operations, time and memory."
# ---

# %% [markdown]
# ## 1. How can one patch know about another?
#
# An eye is an eye because there is a nose beside it. But a token holds one patch, and a linear layer works on each token
# by itself. Test it: change one of five tokens and look which outputs change.

# %%
import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vit_course.classroom import check, plots


def tokens_that_change(layer):
    """Change token 3 of five tokens, and list the tokens whose output is different now."""
    before = torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(0))
    after = before.clone()
    after[0, 3] += 1.0
    moved = (layer(after) - layer(before)).abs().amax(dim=-1)[0] > 1e-6
    return moved.nonzero().flatten().tolist()


torch.manual_seed(0)
print("nn.Linear: outputs that change:", tokens_that_change(nn.Linear(8, 8)))

# %% [markdown]
# Only token 3 itself. No stack of such layers will ever compare two patches. We need a step that *mixes* tokens.
#
# The bluntest mixture is the mean of all tokens. But then every token receives the same. An eye should listen to the
# nose, and not to the sky. So each token gets a mean of its own, with its own **weights**, and the weights depend on what
# the tokens contain. This is **self-attention**: "self", because the tokens of one image attend to each other.
#
# To find the weights, every token is turned into three vectors, by three matrices that are learned:
#
# - its **query** q: what am I looking for?
# - its **key** k: what do I have to offer?
# - its **value** v: what do I hand over to those who listen to me?
#
# Three views of the same token. The paper writes them in one line (appendix A, equation 5):
#
# $$[q, k, v] = z\,U_{qkv}, \qquad U_{qkv} \in \mathbb{R}^{D \times 3d}$$
#
# Here z is the matrix of the T tokens of one image, (T, D); T = N + 1, the patches and the CLS token. q, k and v are
# (T, d) each. The paper calls d $D_h$, the width of a head. What a head is comes in section 5.

# %%
torch.manual_seed(0)
tokens = torch.randn(2, 65, 192)  # (B, T, D): 64 patches and CLS
to_query, to_key, to_value = (nn.Linear(192, 64) for _ in range(3))
for name, view in [("queries", to_query), ("keys   ", to_key), ("values ", to_value)]:
    print(name, tuple(view(tokens).shape))

# %% [markdown]
# ## 2. What does one token receive? Four tokens on paper
#
# Take a picture of four patches: the left ear of a cat, the right ear, grass and sky. Let d = 4. To make it readable, we
# give names to the four numbers of queries and keys: *fur, pointed, green, blue*. (A trained model finds numbers without
# names.) The values have two numbers.
#
# | token | query q | key k | value v |
# |---|---|---|---|
# | left ear | 2 2 0 0 | 1 1 0 0 | 10 0 |
# | right ear | 0 4 0 0 | 1 1 0 0 | 20 0 |
# | grass | 0 0 4 0 | 0 1 1 0 | 0 10 |
# | sky | 0 0 2 4 | 0 0 0 1 | 0 20 |
#
# What does the left ear receive? It looks for fur and for pointed things. Four steps:
#
# 1. **Scores**: its query times each key, number by number, then the sum (a dot product). With the left ear 2·1 + 2·1 = 4,
#    with the right ear 4, with grass 2 (grass is pointed too), with the sky 0.
# 2. **Scale**: divide by $\sqrt{d} = 2$. This gives 2, 2, 1, 0. (Why? Section 4.)
# 3. **Softmax**: make weights that are positive and sum to 1. Take $e^{score}$: 7.4, 7.4, 2.7, 1. Their sum is 18.5.
#    Divide by it: 0.40, 0.40, 0.15, 0.05.
# 4. **Sum the values** with these weights: 0.40·(10, 0) + 0.40·(20, 0) + 0.15·(0, 10) + 0.05·(0, 20), about (12, 2.5).
#    (Without rounding on the way, the last number is 2.6.)
#
# The left ear listens to the *other* ear as much as to itself, and it did not need to know where that ear is. Here are the
# same steps in code. Before you run them, compute the row of the sky on paper.

# %%
names = ["left ear", "right ear", "grass", "sky"]
queries = torch.tensor([[2.0, 2, 0, 0], [0, 4, 0, 0], [0, 0, 4, 0], [0, 0, 2, 4]])
keys = torch.tensor([[1.0, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]])
values = torch.tensor([[10.0, 0], [20, 0], [0, 10], [0, 20]])


def attend_one(query):
    """Steps 1 to 4 for one query: its scores, scaled scores, weights and what it receives."""
    scores = torch.stack([(query * key).sum() for key in keys])
    scaled = scores / 2
    weights = scaled.exp() / scaled.exp().sum()
    received = sum(weight * value for weight, value in zip(weights, values, strict=True))
    return scores, scaled, weights, received


for name, query in zip(names, queries, strict=True):
    _, _, weights, received = attend_one(query)
    print(f"{name:9}  weights", [f"{w:.2f}" for w in weights], " receives", [f"{r:.1f}" for r in received])

# %%
scores, scaled, weights, received = (
    torch.stack(step) for step in zip(*map(attend_one, queries), strict=True)
)
figure = plots.number_tables(
    [scores, scaled, weights],
    ["1. scores", "2. divided by 2", "3. softmax: weights"],
    "One row for each query: who listens to whom?",
    rows=names,
    columns=names,
)
plots.show(
    figure,
    "Three 4 by 4 tables with a row for each query and a column for each key: the scores, half of them, and the weights, "
    "whose rows sum to 1. The left ear's weights are 0.40, 0.40, 0.15 and 0.05.",
)

# %% [markdown]
# Read the third table along a row: "the left ear gives 0.40 of its attention to the right ear". This T x T table is what
# people call an **attention map**.
#
# ## 3. How do we compute all rows at once?
#
# The score of query i and key j is the product of row i of q with row j of k. All of them together are one matrix product,
# $qk^\top$. This is equation 6 of the paper, and 7 is the weighted sum:
#
# $$A = \mathrm{softmax}\!\left(\frac{q k^\top}{\sqrt{d}}\right), \qquad \mathrm{SA}(z) = A\,v$$
#
# - q, k and v are (T, d), so $k^\top$ is (d, T), and $qk^\top$ is (T, T), a row for each query;
# - the softmax turns each *row* into weights: $A_{ij} = e^{s_{ij}} / \sum_{j'} e^{s_{ij'}}$, where $s_{ij}$ is the scaled score;
# - A v is (T, d): one vector for each query.
#
# **Your task.** Write `scaled_dot_product_attention(q, k, v)`. It returns two things: the output and the weights.
#
# - It should work with any axes in front, (T, d) as well as (B, h, T, d). So count axes from the end: -1 is the last.
# - The width d is the last axis of q.
# - There may be more keys than queries. Keys and values are always equally many.

# %% exercise="vit_course.attention:scaled_dot_product_attention" difficulty=2 minutes=10 hint="Three lines: the scores, the softmax, the weighted sum. `k.transpose(-2, -1)` swaps the last two axes of k, whatever stands in front of them." hint2="`@` multiplies the last two axes: (..., T, d) @ (..., d, S) is (..., T, S). Divide by `q.shape[-1] ** 0.5`. `scores.softmax(dim=...)`: which axis counts the keys? One more `@` makes (..., T, S) and v into (..., T, e)."
from vit_course.attention import scaled_dot_product_attention

scaled_dot_product_attention = check(scaled_dot_product_attention)

# %%
output, table = scaled_dot_product_attention(queries, keys, values)
print("as on paper:", torch.allclose(output, received), torch.allclose(table, weights))
print("rows sum to   ", [f"{s:.2f}" for s in table.sum(dim=-1)])
print("columns sum to", [f"{s:.2f}" for s in table.sum(dim=-2)])

# %% [markdown]
# Each row sums to 1: every query spends exactly one unit of attention. The columns do not. A column sum says how much a
# token is *listened to*. Here the sky gets the least.
#
# Softmax along the wrong axis is a favourite bug, because the shape stays right. Then each *key* would spread one unit over
# the queries, and a token that nobody looks for would still be forced on someone.
#
# ## 4. Why divide by sqrt(d)?
#
# A score is a sum of d products. Let the numbers of q and k be independent, with mean 0 and variance 1. Then each product has
# variance 1, and the sum of d products has variance d. So with d = 64 the scores have a standard deviation of 8. Two scores that
# differ by 8 give weights that differ by a factor $e^8$, about 3,000.
#
# We measure three things for growing d, with 65 keys, and with three ways to scale:
#
# - the **variance** of the scores;
# - the **entropy** of a row of weights, $-\sum_j A_{ij} \ln A_{ij}$. It says how widely a query looks: ln 65 = 4.17 if it
#   looks at all keys alike, 0 if it sees a single one. (The unit is called nat.)
# - the **gradient** that reaches the scores through the softmax, for a typical query (the median).
#
# The third way, the root of D, is a popular mistake: D is the width of the whole token, not of a head. We take D =
# 12·d, as in the paper's model Base (Table 1: D = 768, 12 heads, so d = 64).

# %%
widths = [4, 16, 64, 256, 1024]
ways = {
    "no scale": lambda d: 1.0,
    "sqrt(d)": lambda d: d**-0.5,
    "sqrt(D), D = 12 d": lambda d: (12 * d) ** -0.5,
}
panels = {
    name: {} for name in ("variance of the scores", "entropy of a row (nats)", "gradient at the scores")
}
for name, scale in ways.items():
    results = []
    for d in widths:
        torch.manual_seed(0)
        q, k, upstream = torch.randn(400, d), torch.randn(65, d), torch.randn(400, 65)
        scaled = (q @ k.T * scale(d)).requires_grad_()
        row = scaled.softmax(dim=-1)
        row.backward(upstream)
        entropy = -(row * row.clamp_min(1e-30).log()).sum(dim=-1).mean()
        results.append((scaled.var().item(), entropy.item(), scaled.grad.norm(dim=-1).median().item()))
    for panel, numbers in zip(panels.values(), zip(*results, strict=True), strict=True):
        panel[name] = (widths, list(numbers))
    print(f"d = 64, {name:17}  variance {results[2][0]:6.2f}, entropy {results[2][1]:.2f} nats")
figure = plots.curve_panels(
    panels,
    "Without the scale, a wide head sees a single key and learns nothing from it",
    "width d of a head",
    log_y=("variance of the scores", "gradient at the scores"),
)
plots.show(
    figure,
    "Three panels over d. Without a scale the variance grows like d, the entropy falls towards 0 and the gradient falls "
    "by three powers of ten. With sqrt(d) all three stay level. With sqrt(D) they stay level too, but the entropy is near its maximum.",
)

# %% [markdown]
# Without a scale the softmax **saturates**: one weight is close to 1, all others close to 0, and a small change of the scores
# changes nothing. The gradient vanishes, and the query cannot learn to look elsewhere. With sqrt(d), width does not matter.
#
# And with sqrt(D)? The weights do not get more peaked, as many guess. They get *flatter*: nearly the plain mean of all tokens,
# which we wanted to leave behind.
#
# ## 5. Why many heads?
#
# A softmax gives each token one set of weights, so one kind of question. But an eye may want to know about the other eye,
# *and* about the skin around it. One weighted mean would blend both answers into one vector.
#
# So a layer has h small attentions, its **heads**. Each head has three matrices of its own, D x d with d = D/h, and a
# T x T table of its own. It reads the *whole* token, all D numbers, through its matrices. The token is never cut.
#
# What is cut is what the matrices make. Put the h query matrices side by side: together they are one matrix D x D. It
# gives each token D numbers of q, and slice i of them is the query of head i. With k and v it is the same.
#
#     q of one token, D = 6       [ a a | b b | c c ]       h = 3 heads, d = 2
#
#     head 0: (T, 2)  the a of every q, k, v  -> attends ->  (T, 2)
#     head 1: (T, 2)  the b of every q, k, v  -> attends ->  (T, 2)   -> side by side: (T, 6)
#     head 2: (T, 2)  the c of every q, k, v  -> attends ->  (T, 2)
#
# In shapes: q, k and v are (B, T, D) and become (B, h, T, d). Then the matrix products work on the last two axes, for
# all images and all heads at once. A bare `view` or `reshape` gives this shape too, and it is wrong, for the reason you
# know from lesson 01: it moves nothing. To see it, write into every number of q the token that it belongs to.

# %%
origin = torch.arange(4).repeat_interleave(6).reshape(1, 4, 6).float()  # (B, T, D), token t is full of t
right = torch.stack([origin[0, :, 2 * i : 2 * i + 2] for i in range(3)])  # (h, T, d), slice by slice
bare = origin.reshape(1, 3, 4, 2)[0]  # (h, T, d), brackets only
figure = plots.number_tables(
    [right[0], bare[0]],
    ["right", "bare `view`"],
    "With a bare view, head 0 never sees tokens 2 and 3",
    rows=[f"row {t}" for t in range(4)],
    columns=["number 0", "number 1"],
    shared_scale=True,
)
plots.show(
    figure,
    "Two small tables of token numbers. Right: the rows come from token 0, 1, 2 and 3. With a bare view: three rows "
    "come from token 0 and one from token 1.",
)

# %% [markdown]
# With the bare view, head 0 attends from token 0 to token 0. Tokens 2 and 3 do not reach it at all. Every shape is
# right, so a training would run. Nothing tells you.
#
# **Your task.** Write `split_heads` and its exact inverse `merge_heads`. They work on any (B, T, D): in the layer on q,
# k and v, in the cell below on the tokens of section 1, to try them. Head 0 gets the first d numbers of every row, head
# 1 the next d, and so on. Begin `split_heads` with `check_heads(x.shape[-1], num_heads)`: it raises a clear
# `ValueError` when h does not divide D.

# %% exercise="vit_course.attention:split_heads, vit_course.attention:merge_heads" difficulty=2 minutes=8 hint="The axis D is really two axes, `(h d)`: the head outside, the d numbers inside. Name them, then say in which order you want the four axes." hint2="`rearrange(x, 'b t (h d) -> b h t d', h=num_heads)`, or `x.reshape(B, T, h, d).transpose(1, 2)`. For `merge_heads` read the pattern from right to left."
from vit_course.attention import merge_heads, split_heads

split_heads = check(split_heads)
merge_heads = check(merge_heads)

# %%
heads = split_heads(tokens, 3)
print("tokens", tuple(tokens.shape), "-> heads", tuple(heads.shape), "= (B, h, T, d)")
print("head 1 of token 5 is its second slice:", torch.equal(heads[0, 1, 5], tokens[0, 5, 64:128]))
print("merged again, nothing lost:", torch.equal(merge_heads(heads), tokens))

# %% [markdown]
# ## 6. What is left? One big matrix in, one matrix out
#
# **In.** h heads need h query matrices, h key matrices and h value matrices, each D x d. Side by side they are one matrix,
# D x 3D. So there is one `nn.Linear(D, 3 * D)` for everything, called `qkv`. One large product is faster than 3·h small ones. The
# result is cut into q, k and v, in this order, D numbers each. The order is a convention, but trained weights depend on it.
#
# Some programs write the heads as a list of modules: an `nn.ModuleList` of h attentions, each with three `nn.Linear(D,
# d)`. That is the paper's appendix A to the letter. With the same numbers in the matrices it gives the same result.

# %%
torch.manual_seed(0)
qkv = nn.Linear(192, 3 * 192)
q, k, v = qkv(tokens).chunk(3, dim=-1)  # each (B, T, D)
only_keys = F.linear(tokens, qkv.weight[192:384], qkv.bias[192:384])
print("rows 192 to 383 of the matrix make the keys:", torch.allclose(k, only_keys, atol=1e-5))
output, table = scaled_dot_product_attention(*(split_heads(part, 3) for part in (q, k, v)))
print("output of the heads", tuple(output.shape), " weights", tuple(table.shape))

# %% [markdown]
# **Out.** What head 0 found stands in slice 0, what head 1 found in slice 1. One more matrix lets every head write to the
# whole token (equation 8):
#
# $$\mathrm{MSA}(z) = [\,\mathrm{SA}_1(z);\ \mathrm{SA}_2(z);\ \cdots;\ \mathrm{SA}_h(z)\,]\;U_{msa}, \qquad U_{msa} \in \mathbb{R}^{h d \times D}$$
#
# $\mathrm{SA}_i(z)$ is the output of head i, (T, d); the brackets put the heads side by side, (T, h·d); $U_{msa}$ is the **output
# projection**, which most texts call $W_O$. MSA means multi-head self-attention.
#
# D goes in and D comes out. This is on purpose: the output is *added* to the tokens (lesson 05), and the next layer can
# then be of the same kind. And since d = D/h, twelve heads have as many weights as one.
#
# **Your task.** Write `MultiHeadAttention.forward(x, return_attention=False)`. `__init__` is given. Use the three functions you wrote.
#
# 1. Cut `self.qkv(x)` into q, k and v, and split each into `self.num_heads` heads.
# 2. Attend.
# 3. Dropout. It sets a random share of numbers to zero *while the model trains*, so that the model cannot rely on a few
#    (lesson 05). Here it hits the weights: `F.dropout(weights, self.attn_drop, self.training)` times v is what the heads hand on.
# 4. Merge the heads, then `self.proj`, then `self.proj_drop`.
# 5. Return the result; with `return_attention=True` the pair (result, weights), and these are the weights from *before* the dropout.

# %% exercise="vit_course.attention:MultiHeadAttention.forward" difficulty=3 minutes=12 hint="`self.qkv(x).chunk(3, dim=-1)` gives three tensors (B, T, D). `split_heads` makes each (B, h, T, d). Your attention function handles the two axes in front already." hint2="`q, k, v = (split_heads(part, self.num_heads) for part in ...)` splits all three. Your function returns (output, weights); because of step 3 you need the weights too, and multiply the dropped ones with v yourself. Then `merge_heads`, `self.proj` and `self.proj_drop`, in this order."
from vit_course.attention import MultiHeadAttention

MultiHeadAttention = check(MultiHeadAttention)

# %%
torch.manual_seed(0)
attention = MultiHeadAttention(dim=192, num_heads=3).eval()
out, table = attention(tokens, return_attention=True)
print(
    "in ", tuple(tokens.shape), "  out", tuple(out.shape), "  weights", tuple(table.shape), "= (B, h, T, T)"
)
print("every row of every head sums to 1:", torch.allclose(table.sum(dim=-1), torch.ones(2, 3, 65)))
print("attention: outputs that change:", tokens_that_change(MultiHeadAttention(8, 2).eval()))

# %% [markdown]
# Compare the last line with section 1. Now one token changes, and all five outputs change: every token has heard of it.
#
# ## 7. Is it the same as PyTorch's?
#
# PyTorch has this step twice: as the function `F.scaled_dot_product_attention` and as the module `nn.MultiheadAttention`. If ours
# is right, copied weights must give equal results.

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
print("its weights, difference below 1e-5: ", (table - their_table).abs().max().item() < 1e-5)

# %% [markdown]
# The weights go over one to one: `in_proj` is `qkv`, `out_proj` is `proj`. In lesson 06 you copy those of a whole ViT.
#
# PyTorch's function gives the result alone. Where it can, it runs a **fused kernel**: one program on the chip that
# works through the keys in pieces and never writes down the T x T table. That needs less memory, and there are no
# weights to look at. (Where no fused kernel fits the inputs, the function falls back on a version that does write the
# table.) The finished version in `vit_course` uses this function, unless somebody asks for the attention.
#
# ## 8. What does it cost?
#
# Count the operations. A product of an (a, b) with a (b, c) matrix needs a·b·c multiplications and as many additions, so 2·a·b·c
# **floating-point operations** (FLOPs). Multi-head attention on one image contains these products:
#
# - the projections to q, k, v and back by $W_O$: four times (T, D) by (D, D);
# - the scores: in each of h heads (T, d) by (d, T);
# - the weighted sum: in each of h heads (T, T) by (T, d).
#
# **Your task.** Add them up in `attention_flops(num_tokens, dim)`. Leave out softmax, scale and biases: they are small. Remember h·d = D.

# %%
from vit_course.attention import attention_flops

# %%
lengths = [16, 64, 197, 384, 785, 1025, 4096, 16384, 50177]
projections = [8 * t * 192**2 for t in lengths]
figure = plots.curves(
    {
        "all of attention": (lengths, [attention_flops(t, 192) for t in lengths]),
        "projections, 8·T·D²": (lengths, projections),
        "scores and sum, 4·T²·D": (
            lengths,
            [attention_flops(t, 192) - p for t, p in zip(lengths, projections, strict=True)],
        ),
    },
    "The quadratic part takes over at T = 2·D = 384 tokens",
    "tokens T",
    "FLOPs for one image, one layer (D = 192)",
    log="xy",
)
plots.show(
    figure,
    "Three rising lines on logarithmic axes: the projections grow with T, scores and sum with T squared; they cross at 384 "
    "tokens, and from there on the quadratic part is nearly everything.",
)

# %% [markdown]
# Two lessons from this picture. With 65 or 197 tokens, the famous quadratic cost is the *smaller* part. And it takes
# over fast when patches shrink or pictures grow. The paper timed its models and saw the same (appendix D.5, Figure 12):
# the quadratic part begins to show only for the largest models on the largest pictures.
#
# The tables also need memory, h·T² numbers of 4 bytes per image and layer. With the 12 heads of the paper's model Base:

# %%
for what, num_tokens in [
    ("32x32, P = 4", 65),
    ("224x224, P = 16", 197),
    ("448x448, P = 16", 785),
    ("224x224, P = 4", 3137),
    ("224x224, every pixel", 50177),
]:
    megabytes = 12 * num_tokens**2 * 4 / 1e6
    print(f"{what:21} T = {num_tokens:6,}   12 tables: {megabytes:11,.1f} MB")

# %% [markdown]
# Now measure it on your machine: the step-by-step version that writes the table down, and the fused one. Twice the tokens
# should take four times the time, once T is large enough.

# %% tags=["nbval-ignore-output"]
import time

from vit_course.machinery.profiles import get_profile
from vit_course.machinery.device import get_device


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


lengths = get_profile().pick(
    smoke=[64, 128, 256], cpu=[64, 128, 256, 512, 1024, 2048], gpu=[256, 512, 1024, 2048, 4096, 8192]
)
measured = {name: [] for name in ways}
for t in lengths:
    q, k, v = torch.randn(3, 1, 3, t, 64, device=device)
    for name, attend in ways.items():
        measured[name].append(milliseconds(attend, q, k, v))
    print(f"T = {t:5}  " + "  ".join(f"{name} {times[-1]:8.3f} ms" for name, times in measured.items()))
figure = plots.curves(
    {name: (lengths, times) for name, times in measured.items()},
    f"Time of one attention, three heads, on {device.type} (profile {get_profile().name})",
    "tokens T",
    "milliseconds",
    log="xy",
)
plots.show(
    figure, "Time in milliseconds over the number of tokens, both axes logarithmic, step by step and fused."
)

# %% [markdown]
# ## 9. What does it look at?
#
# An untrained layer gives nearly equal weights to all tokens, so there is little to see (the next cells measure it). Trained
# maps come in lesson 09. Here nothing is trained: we *choose* the matrices by hand, so that we know what each head should look
# for, and then run **your** layer on a photo.
#
# The photo is cut into 28 x 28 = 784 patches. Each token has D = 256 numbers. We write four descriptions of the patch
# into them, 64 numbers each: its mean colour, its brightness, its detail (how much its pixels differ), and its place
# (the sin-cos table of lesson 03). `direction` makes each description a vector of length 1, so that similar patches
# have a large product.

# %%
from vit_course.embeddings import sincos_2d
from vit_course.patches import patchify

photo = plots.sample_photo((224, 224))
pixels = rearrange(patchify(photo[None] / 255, 8)[0], "n (p c) -> n p c", c=3)  # (784, 64, 3)


def direction(description):
    """Standardise over all patches, add a constant, scale to length 1 and fill up to 64 numbers."""
    standard = (description - description.mean(dim=0)) / description.std(dim=0)
    with_one = F.pad(standard, (0, 1), value=1.0)
    return F.pad(F.normalize(with_one, dim=-1), (0, 64 - with_one.shape[-1]))


colour = direction(pixels.mean(dim=1))
brightness = direction(pixels.mean(dim=(1, 2))[:, None])
detail = direction(pixels.std(dim=1).mean(dim=1)[:, None])
place = F.normalize(sincos_2d((28, 28), 64), dim=-1)
photo_tokens = torch.cat([colour, brightness, detail, place], dim=-1)[None]
print("tokens:", tuple(photo_tokens.shape))

# %% [markdown]
# The matrices are as plain as they can be: queries and keys are the tokens themselves, so every patch looks for patches *like itself*.
# Slice i of q and k is then description i of the token. Trained matrices mix all numbers of a token into each slice.
# The queries are also multiplied by a sharpness per head: the larger it is, the pickier the softmax.

# %%
sharpness = torch.tensor([30.0, 60.0, 80.0, 15.0]) * 64**0.5  # times sqrt(d), since attention divides by it
torch.manual_seed(0)
by_hand = MultiHeadAttention(dim=256, num_heads=4).eval()
with torch.no_grad():
    by_hand.qkv.bias.zero_()
    by_hand.qkv.weight.copy_(
        torch.cat([torch.diag(sharpness.repeat_interleave(64)), torch.eye(256), torch.eye(256)])
    )
    _, photo_table = by_hand(photo_tokens, return_attention=True)
    _, untrained = MultiHeadAttention(dim=256, num_heads=4).eval()(photo_tokens, return_attention=True)
print("weights:", tuple(photo_table.shape), "= (B, h, T, T)")
for name, weights in [("untrained", untrained), ("by hand", photo_table)]:
    times = (weights.max() / weights.mean()).item()
    print(f"{name}: is any weight more than twice the mean?", times > 2)

head_names = ["colour", "brightness", "detail", "place"]
spots = {"cheek": (13, 11), "uniform": (23, 5), "flag": (6, 2), "wall": (5, 25)}  # (row, column) in the grid


def maps_of(query):
    """Return the four maps (28, 28) of one patch: what each head looks at from there."""
    row, column = spots[query]
    return list(rearrange(photo_table[0, :, row * 28 + column], "h (r c) -> h r c", r=28))


figure = plots.attention_maps(
    photo,
    maps_of("cheek"),
    [f"head {i}: {name}" for i, name in enumerate(head_names)],
    "One patch of the cheek asks: four heads, four answers",
    query=spots["cheek"],
)
plots.show(
    figure,
    "The portrait with a frame around a patch of the cheek, and four maps: the colour head lights up the face, the "
    "brightness head everything as bright as skin, the detail head patches about as uneven as "
    "the cheek, the place head a small disc around the patch.",
)

# %% [markdown]
# The colour head asked for patches of the same colour, and found the face. Nobody told it what a face is: a softmax over
# products of vectors was enough. A trained ViT works with the same code. Only its tokens and matrices are learned, and its
# questions are harder to name.
#
# Move the sliders: choose the head, and the patch that asks.


# %%
def draw_head(head, query):
    """Show where one head looks from one patch."""
    name = head_names[head]
    figure = plots.attention_maps(
        photo, [maps_of(query)[head]], [f"head {head}: {name}"], f"Patch of the {query}", query=spots[query]
    )
    plots.show(figure, f"The portrait, and the map of head {head} ({name}) for a patch of the {query}.")


draw_head(0, "uniform")

# %% tags=["nbval-ignore-output"]
plots.slider(draw_head, head=[0, 1, 2, 3], query=list(spots))

# %% [markdown]
# ## Check yourself
#
# **1.** Your table of weights has columns that sum to 1, and rows that do not. What happened? (a) nothing, both are fine (b) the softmax ran
# over the queries (c) the scale is missing
#
# <details><summary>Answer</summary>
#
# **(b)** Rows belong to queries, columns to keys, and the softmax must run along a row, over the keys: `dim=-1`. (a): then a
# query may receive far more or less than one unit. (c): the scale changes how peaked a row is, never its sum.
#
# </details>
#
# **2.** D = 192, h = 3. By what are the scores divided? (a) 8 (b) about 13.9 (c) 64
#
# <details><summary>Answer</summary>
#
# **(a)** d = 192/3 = 64, and its root is 8. (b) is the root of D: too flat. (c) forgets the root: flatter still.
#
# </details>
#
# **3.** A model of width 192 gets 6 heads instead of 3. How many more weights has the layer? (a) twice as many (b) none (c) half as many
#
# <details><summary>Answer</summary>
#
# **(b)** The heads share the width, d becomes 32. The matrices stay D x 3D and D x D. (a) would need heads that keep d = 64.
# (c): a head is half as wide, but there are twice as many.
#
# </details>
#
# **4.** Why not `x.view(B, h, T, d)`? (a) it needs a copy (b) it is slower (c) a head then gets whole tokens, and misses others
#
# <details><summary>Answer</summary>
#
# **(c)** The numbers stay in their old order, token by token. First `view(B, T, h, d)`, then swap T and h. (a) and (b):
# a view copies nothing, and it is fast. It is only wrong.
#
# </details>
#
# **5.** The tokens are shuffled before the layer. What happens to its output? (a) it is shuffled in the same way (b) nothing
# (c) it is something else altogether
#
# <details><summary>Answer</summary>
#
# **(a)** Each query still meets the same keys and values, and a weighted sum has no order. This is why lesson 03 had to add
# positions. (b) is true for a mean over all tokens. (c) is true only with a position in the tokens or in the scores.
#
# </details>
#
# ## Recap
#
# | what | shape | D = 192, h = 3, T = 65 |
# |---|---|---|
# | tokens | (B, T, D) | (B, 65, 192) |
# | after `qkv` | (B, T, 3D) | (B, 65, 576) |
# | q, k, v in heads | (B, h, T, d) | (B, 3, 65, 64) |
# | scores, weights A | (B, h, T, T) | (B, 3, 65, 65) |
# | output of the heads, A v | (B, h, T, d) | (B, 3, 65, 64) |
# | merged | (B, T, h·d) | (B, 65, 192) |
# | after $W_O$ | (B, T, D) | (B, 65, 192) |
#
# - A query asks, keys answer, values are handed over: softmax(q kᵀ / sqrt(d)) v.
# - Each query spreads a weight of 1 over the keys: softmax along the last axis.
# - Each head reads the whole token through its own matrices: its slice of q, k and v. Splitting needs an axis to be
#   moved, and $W_O$ mixes what the heads found.
# - The table costs T² per head. T grows with the square of the image side.
#
# ## Further reading
#
# - Vaswani et al., *Attention Is All You Need* (2017), section 3.2: the scale, and the reason for it in a footnote.
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), appendix A: equations 5 to 8.
# - Dao et al., *FlashAttention* (2022): how a fused kernel avoids the table.
