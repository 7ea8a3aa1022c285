# ---
# title: "Self-attention, many heads"
# promise: "You build the step in which tokens look at each other, and you watch your own attention light up a face."
# part: "I. Build it"
# map: [attention]
# goals:
#   - "Compute the attention of four tokens on paper, then write it for any number of tokens."
#   - "Say why the scores are divided by sqrt(d), and what happens without it."
#   - "Split tokens into heads and put them together again without mixing tokens."
#   - "Write multi-head attention, and see with which matrices it finds a face."
#   - "Say what attention costs, and from which length on T² is the larger part."
#   - "For the curious: what saturates without the scale, one module per head, PyTorch's own attention, its time."
# recall: ["01.2", "02.1", "03.1"]
# ---

# %% [markdown]
# ## 1. How can one patch know about another?
#
# An eye is an eye because there is a nose beside it. But a token holds one patch, and a linear layer works on each token
# by itself. Test it: change token 3 of five tokens, and see which outputs change.

# %%
import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vit_classroom import check, plots, table
from vit_classroom.exhibits.attention_table import edit_attention
from vit_classroom.numbers import number, percent


def tokens_that_change(layer):
    """Change token 3 of five tokens, and list the tokens whose output is different now."""
    before = torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(0))
    after = before.clone()
    after[0, 3] += 1.0
    moved = (layer(after) - layer(before)).abs().amax(dim=-1)[0] > 1e-6
    return moved.nonzero().flatten().tolist()


torch.manual_seed(0)
print("nn.Linear: outputs that change:", tokens_that_change(nn.Linear(8, 8)))

# %% [markdown] claim="tokens_that_change(nn.Linear(8, 8)) == [3]" always
# Only token 3 itself, so a stack of such layers never compares two patches. We need a step that *mixes* tokens.
#
# The bluntest mixture is the mean of all tokens. But then every token receives the same, and an eye should listen to the
# nose, not to the sky. So each token gets a mean of its own, with its own **weights**, and the weights depend on what the
# tokens contain. This is **self-attention**: "self", because the tokens of one image attend to each other.
#
# To find the weights, three learned matrices turn every token into three vectors:
#
# - its **query** q: what am I looking for?
# - its **key** k: what do I have to offer?
# - its **value** v: what do I hand over to those who listen to me?
#
# The paper writes this in one line (appendix A, equation 5):
#
# $$[q, k, v] = z\,U_{qkv}, \qquad U_{qkv} \in \mathbb{R}^{D \times 3d}$$
#
# Here z holds the T = N + 1 tokens of one image, (T, D); q, k and v are (T, d) each. The paper calls d $D_h$, the width of a
# head. What a head is comes in section 5.

# %%
torch.manual_seed(0)
tokens = torch.randn(2, 65, 192)  # (B, T, D): 64 patches and CLS
to_query, to_key, to_value = (nn.Linear(192, 64) for _ in range(3))
for name, view in [("queries", to_query), ("keys   ", to_key), ("values ", to_value)]:
    print(name, tuple(view(tokens).shape))

# %% [markdown]
# ## 2. What does one token receive? Four tokens on paper
#
# Take a picture of four patches: the left ear of a cat, the right ear, grass and sky. Let d = 4, and let the four numbers of a
# query or key stand for *fur, pointed, green, blue*. (A trained model finds numbers without names.) Values have two numbers.
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
# 3. **Softmax**: make weights that are positive and sum to 1. Take $e^2, e^2, e^1, e^0$: 7.4, 7.4, 2.7, 1. Their sum is
#    18.5. Divide by it: 0.40, 0.40, 0.15, 0.05.
# 4. **Sum the values** with these weights: 0.40·(10, 0) + 0.40·(20, 0) + 0.15·(0, 10) + 0.05·(0, 20), about (12, 2.5).
#
# The left ear listens to the *other* ear as much as to itself, and it did not need to know where that ear is.
#
# > **Predict.** Compute the row of the sky on paper, before you run the cell. To whom does the sky listen most, and who is next?

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
rows = [[name, *row.tolist()] for name, row in zip(names, torch.cat([weights, received], dim=1), strict=True)]
table(
    rows,
    ["query of", *names, "value 0", "value 1"],
    caption="Weights over the keys, and what each query receives",
)

# %% [markdown] claim="weights[3].argsort(descending=True)[:2].tolist() == [3, 2] and weights[0, 0] == weights[0, 1]" always
# The sky listens to itself most, then to the grass. Now choose a query, go through its steps, and edit a number of q or k.
# What must the sky's query be, for the sky to listen to hardly anything but the grass?

# %% tags=["nbval-ignore-output"]
edit_attention(queries, keys, values, names)

# %% [markdown]
# A row of the weights reads: "the left ear gives 0.40 of its attention to the right ear". This T x T table is called an
# **attention map**.
#
# ## 3. How do we compute all rows at once?
#
# The score of query i and key j is the product of row i of q with row j of k. All of them together are one matrix product,
# $qk^\top$. With the weighted sum of the values these are equations 6 and 7 of the paper:
#
# $$A = \mathrm{softmax}\!\left(\frac{q k^\top}{\sqrt{d}}\right), \qquad \mathrm{SA}(z) = A\,v$$
#
# The softmax turns each *row* of scaled scores into weights. A v has one vector for each query, as wide as a value.

# %% fold
plots.show(
    plots.attention_diagram(),
    "Six matrices in a row: queries (T, d) times transposed keys (d, T) give scores (T, T); divided by the root of d, a "
    "softmax of each row makes the weights (T, T); times the values (T, e) they give the output (T, e). One row is "
    "coloured throughout: it belongs to one query.",
)

# %% [markdown]
# **Your task.** Write `scaled_dot_product_attention(q, k, v)`. It returns two things: the output and the weights. It should
# work with any axes in front, (T, d) as well as (B, h, T, d), so count axes from the end: -1 is the last.

# %% exercise="vit_course.attention:scaled_dot_product_attention" difficulty=2 minutes=10 hint="Three lines: the scores, the softmax, the weighted sum. `k.transpose(-2, -1)` swaps the last two axes of k, whatever stands in front of them." hint2="`@` multiplies the last two axes: (..., T, d) @ (..., d, S) is (..., T, S). Divide by `q.shape[-1] ** 0.5`. `scores.softmax(dim=...)`: which axis counts the keys? One more `@` makes (..., T, S) and v into (..., T, e)."
from vit_course.attention import scaled_dot_product_attention

scaled_dot_product_attention = check(scaled_dot_product_attention)

# %% [markdown]
# > **Predict.** Each row of the weights sums to 1. Does each column?

# %%
output, attended = scaled_dot_product_attention(queries, keys, values)
print("as on paper:", torch.allclose(output, received), torch.allclose(attended, weights))
sums = {"row": attended.sum(dim=-1), "column": attended.sum(dim=-2)}
table([[name, *row.tolist()] for name, row in sums.items()], ["sum of the", *names])

# %% [markdown] claim=["torch.allclose(sums['row'], torch.ones(4))", "sums['column'].argmin() == 3", "torch.allclose(output, received)"] always
# Each row does, columns do not: every query spends one unit of attention, and a column sum says how much a token is *listened
# to*. Here the sky gets the least.
#
# > **Trap.** Softmax along the wrong axis keeps the shape right. Then each *key* would spread one unit over the queries, and
# > a token that nobody looks for would still be forced on someone.
#
# ## 4. Why divide by sqrt(d)?
#
# A score is a sum of d products. Let the numbers of q and k be independent, with mean 0 and variance 1. Then each product has
# variance 1, and the sum of d products has variance d. With d = 64 the scores have a standard deviation of 8, and two
# scores that differ by 8 give weights that differ by a factor $e^8$, about 3,000.
#
# We give random queries 65 random keys. How large is the largest weight of a query? If it looked at all keys equally, each
# weight would be 1.5 %. A popular mistake is the root of D, the width of the whole token, in place of d. We try it too, with
# D = 12·d, as in the paper's model Base (Table 1: D = 768, 12 heads, so d = 64).
#
# > **Predict.** Dividing by sqrt(D) is dividing by too much. Do the weights get more peaked, or flatter?

# %%
widths = [4, 16, 64, 256, 1024]
scales = {
    "nothing": lambda d: 1.0,
    "sqrt(d)": lambda d: d**-0.5,
    "sqrt(D), D = 12 d": lambda d: (12 * d) ** -0.5,
}
largest = {name: [] for name in scales}
for name, scale in scales.items():
    for d in widths:
        torch.manual_seed(0)
        q, k = torch.randn(400, d), torch.randn(65, d)
        row = (q @ k.T * scale(d)).softmax(dim=-1)
        largest[name].append(row.amax(dim=-1).mean().item())
table(
    [[name, *map(percent, shares)] for name, shares in largest.items()],
    ["divided by", *(f"d = {d}" for d in widths)],
    caption="The largest of a query's 65 weights, mean of 400 queries",
)

# %% [markdown] claim=["largest['nothing'][-1] > 0.9", "max(largest['sqrt(d)']) < 0.2", "max(largest['sqrt(D), D = 12 d']) < min(largest['sqrt(d)']) / 2"] always
# Without a scale, a wide head sees little but one key. The softmax **saturates**: a small change of the scores changes little,
# so the query hardly learns to look elsewhere (section 9 measures the gradient). With sqrt(d) the width hardly matters. With
# sqrt(D) the weights get *flatter*, nearer to the plain mean, which we wanted to leave behind.
#
# ## 5. Why many heads?
#
# One softmax gives each token one set of weights, so one kind of question. But an eye may want to know about the other eye
# *and* about the skin around it. One weighted mean would blend both answers into one vector.
#
# So a layer has h small attentions, its **heads**. Each head has three matrices of its own, D x d with d = D/h, and a
# T x T table of its own. The h query matrices, side by side, are one matrix D x D: it gives each token D numbers of q, and
# slice i of them is the query of head i.

# %% fold
plots.show(
    plots.heads_diagram(),
    "One token of 6 numbers becomes q, k and v of 6 numbers each. Each is cut into 3 slices in the colours of 3 heads. "
    "Every head gets one slice of q, of k and of v. Their results stand side by side, and W_O makes 6 numbers of them.",
)

# %% [markdown]
# > **Key idea.** The *token* is never cut: each head reads all its D numbers, through matrices of its own. What is cut is
# > q, k and v.
#
# In shapes: q, k and v are (B, T, D) and become (B, h, T, d), so that the matrix products on the last two axes serve all
# images and all heads at once. A bare `view` or `reshape` gives this shape too. To see what it does, we write into every
# number of q the token that it belongs to.
#
# > **Predict.** 4 tokens of 6 numbers, 3 heads. Which tokens do the 4 rows of head 0 come from, after a bare `view`?

# %%
origin = torch.arange(4).repeat_interleave(6).reshape(1, 4, 6).float()  # (B, T, D), token t is full of t
right = torch.stack([origin[0, :, 2 * i : 2 * i + 2] for i in range(3)])  # (h, T, d), slice by slice
bare = origin.reshape(1, 3, 4, 2)[0]  # (h, T, d), brackets only

# %% fold
figure = plots.number_tables(
    [right[0], bare[0]],
    ["right", "bare view"],
    "Which tokens does head 0 see?",
    rows=[f"row {t}" for t in range(4)],
    columns=["number 0", "number 1"],
    shared_scale=True,
)
plots.show(
    figure,
    "Two small tables of token numbers. Cut correctly, the rows come from token 0, 1, 2 and 3. With a bare view: three rows "
    "come from token 0 and one from token 1.",
)

# %% [markdown] claim=["bare[0].unique().tolist() == [0, 1]", "right[0].unique().tolist() == [0, 1, 2, 3]"] always
# > **Trap.** With the bare view, tokens 2 and 3 do not reach head 0 at all, for the reason you know from lesson 01: it moves
# > nothing. Every shape is right, so a training would run. Nothing tells you.
#
# **Your task.** Write `split_heads` and its exact inverse `merge_heads`. They work on any (B, T, D). Head 0 gets the first d
# numbers of every row, head 1 the next d, and so on. The line that refuses a width that h does not divide is given.

# %% exercise="vit_course.attention:split_heads, vit_course.attention:merge_heads" difficulty=2 minutes=8 hint="The axis D is really two axes, `(h d)`: the head outside, the d numbers inside. Name them, then say in which order you want the four axes." hint2="The pattern begins `'b t (h d) -> …'`, and `h=num_heads` is given to `rearrange`. Without einops: `reshape` to (B, T, h, d), then swap two axes. For `merge_heads` read it from right to left."
from vit_course.attention import merge_heads, split_heads

split_heads = check(split_heads)
merge_heads = check(merge_heads)

# %%
heads = split_heads(tokens, 3)
print("tokens", tuple(tokens.shape), "-> heads", tuple(heads.shape), "= (B, h, T, d)")
print("head 1 of row 5 is the second slice of that row:", torch.equal(heads[0, 1, 5], tokens[0, 5, 64:128]))
print("merged again, nothing lost:", torch.equal(merge_heads(heads), tokens))

# %% [markdown]
# ## 6. What is left? One big matrix in, one matrix out
#
# **In.** All query, key and value matrices side by side are one matrix, D x 3D. So there is one `nn.Linear(D, 3 * D)` for
# everything, called `qkv`. Its result is cut into q, k and v, in this order, D numbers each. The order is a convention, but
# trained weights depend on it. Some programs keep a list of h modules, one per head, with three `nn.Linear(D, d)` each. That
# is the same function with the same numbers, stored in other pieces; section 10 runs both.
#
# **Out.** What head 0 found stands in slice 0, what head 1 found in slice 1. One more matrix lets every head write to the
# whole token (equation 8, where MSA means multi-head self-attention):
#
# $$\mathrm{MSA}(z) = [\,\mathrm{SA}_1(z);\ \mathrm{SA}_2(z);\ \cdots;\ \mathrm{SA}_h(z)\,]\;U_{msa}, \qquad U_{msa} \in \mathbb{R}^{h d \times D}$$
#
# $\mathrm{SA}_i(z)$ is the output of head i, (T, d); $U_{msa}$ is the **output projection**, which most texts call $W_O$. D
# goes in and D comes out, because the output is *added* to the tokens (lesson 05).
#
# **Your task.** Write `MultiHeadAttention.forward(x, return_attention=False)`. `__init__` is given. Use the three functions
# you wrote.
#
# 1. Cut `self.qkv(x)` into q, k and v, and split each into `self.num_heads` heads.
# 2. Attend.
# 3. **Dropout** sets a random share of numbers to zero *while the model trains* (lesson 05). Here it hits the weights:
#    `F.dropout(weights, dropout)` times v is what the heads hand on. The rate `dropout` is given: outside training it is 0.
# 4. Merge the heads, then `self.proj`, then `self.proj_drop`.
# 5. Return the result; with `return_attention=True` the pair (result, weights), the weights from *before* the dropout.

# %% exercise="vit_course.attention:MultiHeadAttention.forward" difficulty=3 minutes=10 hint="`self.qkv(x).chunk(3, dim=-1)` gives three tensors (B, T, D). `split_heads` makes each (B, h, T, d). Your attention function handles the two axes in front already." hint2="`q, k, v = (split_heads(part, self.num_heads) for part in ...)` splits all three. Your function returns (output, weights); because of step 3 you need the weights alone, and multiply the dropped ones with v yourself. Then `merge_heads`, `self.proj` and `self.proj_drop`, in this order."
from vit_course.attention import MultiHeadAttention

MultiHeadAttention = check(MultiHeadAttention)

# %% [markdown] tags=["solution-only"]
# The cell above is the finished version of the course: where nobody asks for the weights, it calls PyTorch's **fused**
# function, which gives the result without writing the T x T table down (section 10). Here is the layer with the three functions
# of this lesson alone, probably like yours.


# %% tags=["solution-only"]
class StepByStep(MultiHeadAttention):
    """The same layer, with the functions of this lesson in every case."""

    def forward(self, x, return_attention=False):
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        weights = scaled_dot_product_attention(q, k, v)[1]
        dropout = self.attn_drop if self.training else 0.0
        heads = F.dropout(weights, dropout) @ v
        out = self.proj_drop(self.proj(merge_heads(heads)))
        return (out, weights) if return_attention else out


torch.manual_seed(0)
fused, steps = (kind(dim=192, num_heads=3).eval() for kind in (MultiHeadAttention, StepByStep))
steps.load_state_dict(fused.state_dict())
print(
    "step by step and fused, same weights: equal up to rounding:",
    torch.allclose(steps(tokens), fused(tokens), atol=1e-5),
)

# %%
torch.manual_seed(0)
attention = MultiHeadAttention(dim=192, num_heads=3).eval()
out, weights = attention(tokens, return_attention=True)
print("in ", tuple(tokens.shape), "  out", tuple(out.shape))
print("weights", tuple(weights.shape), "= (B, h, T, T)")
print("every row of every head sums to 1:", torch.allclose(weights.sum(dim=-1), torch.ones(2, 3, 65)))
changed = tokens_that_change(MultiHeadAttention(8, 2).eval())
print("attention: outputs that change:", changed)

# %% [markdown] claim="changed == [0, 1, 2, 3, 4]" always
# Compare the last line with section 1: now all five outputs change. Every token has heard of it.

# %% [markdown]
# ## 7. What does it look at?
#
# An untrained layer gives nearly equal weights to all tokens, so there is little to see. Trained maps come in lessons 06 and
# 09. Here we *choose* the matrices by hand, and run **your** layer on a photo of 28 x 28 = 784 patches.
#
# Each token has D = 192 numbers, 64 for each of three descriptions of its patch: its mean colour, its detail (how much its
# pixels differ), and its place (a table in which near places have similar vectors; lesson 03, section 5). Every description
# is brought to length 1. So the product of two descriptions is 1 if they agree, and less if not.

# %%
from vit_course.embeddings import sincos_2d
from vit_course.patches import patchify

photo = plots.sample_photo((224, 224))
pixels = rearrange(patchify(photo[None] / 255, 8)[0], "n (p c) -> n p c", c=3)  # (784, 64, 3)


def unit_vector(description):
    """Standardise over all patches, append a 1, scale to length 1 and fill up to 64 numbers."""
    standard = (description - description.mean(dim=0)) / description.std(dim=0)
    with_one = F.pad(standard, (0, 1), value=1.0)
    return F.pad(F.normalize(with_one, dim=-1), (0, 64 - with_one.shape[-1]))


colour = unit_vector(pixels.mean(dim=1))
detail = unit_vector(pixels.std(dim=1).mean(dim=1)[:, None])
place = F.normalize(sincos_2d((28, 28), 64), dim=-1)
photo_tokens = torch.cat([colour, detail, place], dim=-1)[None]
print("tokens:", tuple(photo_tokens.shape))

# %% [markdown]
# The matrices are as plain as can be: queries and keys are the tokens themselves, so every patch looks for patches *like
# itself*, and slice i of q and k is description i. The queries are also multiplied by a sharpness per head: the larger it
# is, the pickier the softmax.
#
# > **Predict.** A patch of the cheek asks. What will the colour head light up, and what the place head?

# %%
sharpness = torch.tensor([30.0, 80.0, 15.0]) * 64**0.5  # times sqrt(d), since attention divides by it
torch.manual_seed(0)
by_hand = MultiHeadAttention(dim=192, num_heads=3).eval()
with torch.no_grad():
    _, untrained = by_hand(photo_tokens, return_attention=True)
    by_hand.qkv.bias.zero_()
    queries_sharper = torch.diag(sharpness.repeat_interleave(64))
    by_hand.qkv.weight.copy_(torch.cat([queries_sharper, torch.eye(192), torch.eye(192)]))
    _, photo_table = by_hand(photo_tokens, return_attention=True)
print("weights:", tuple(photo_table.shape), "= (B, h, T, T)")
for name, maps in [("untrained", untrained), ("by hand", photo_table)]:
    print(f"{name}: the largest weight is {number((maps.max() / maps.mean()).item())} times the mean")

# %%
head_names = ["colour", "detail", "place"]
spots = {"cheek": (13, 11), "uniform": (23, 5), "flag": (6, 2), "wall": (5, 25)}  # (row, column) in the grid


def maps_of(query):
    """Return the three maps (28, 28) of one patch: what each head looks at from there."""
    row, column = spots[query]
    return list(rearrange(photo_table[0, :, row * 28 + column], "h (r c) -> h r c", r=28))


# %% fold
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
# The colour head asked for patches of the same colour, and found the face. Nobody told it what a face is: a softmax over
# products of vectors was enough. A trained ViT runs the same code. Only its tokens and matrices are learned, and its
# questions are harder to name.
#
# Move the sliders: choose the head, and the patch that asks.


# %% fold
def draw_head(head, query):
    """Show where one head looks from one patch."""
    name = head_names[head]
    figure = plots.attention_maps(
        photo, [maps_of(query)[head]], [f"head {head}: {name}"], f"Patch of the {query}", query=spots[query]
    )
    plots.show(figure, f"The portrait, and the map of head {head} ({name}) for a patch of the {query}.")


draw_head(0, "uniform")

# %% tags=["nbval-ignore-output"]
plots.slider(draw_head, head=[0, 1, 2], query=list(spots))

# %% [markdown]
# ## 8. What does it cost?
#
# Multiplying an (a, b) by a (b, c) matrix takes a·b·c multiplications and as many additions: 2·a·b·c **floating-point
# operations** (FLOPs). Multi-head attention on one image contains these products:
#
# - the projections to q, k, v and back by $W_O$: four times (T, D) by (D, D), so 8·T·D²;
# - the scores, in each of h heads (T, d) by (d, T): since h·d = D, together 2·T²·D;
# - the weighted sum, in each of h heads (T, T) by (T, d): another 2·T²·D.
#
# `attention_flops` adds them up. Softmax, scale and biases are small and left out.
#
# > **Predict.** Everybody speaks of the cost T². For D = 192, from how many tokens on is that part the larger one: 16, 65,
# > 197, or later?

# %%
from vit_course.attention import attention_flops

lengths = [16, 65, 197, 384, 1025, 4097, 16385, 50177]
projections = [8 * t * 192**2 for t in lengths]
quadratic = [attention_flops(t, 192) - p for t, p in zip(lengths, projections, strict=True)]
rows = [[t, p, q, percent(q / (p + q), 0)] for t, p, q in zip(lengths, projections, quadratic, strict=True)]
table(rows[:6], ["tokens T", "8·T·D²", "4·T²·D", "quadratic share"], caption="FLOPs of one layer, D = 192")

# %% [markdown] claim="[q >= p for p, q in zip(projections, quadratic)] == [t >= 384 for t in lengths]" always
# Only from 2·D = 384 tokens on: with 65 or 197 tokens, the famous quadratic cost is the *smaller* part. The paper timed its
# models and saw the same (appendix D.5, Figure 12). But it takes over fast when patches shrink or pictures grow.

# %% [markdown] curious
# ## 9. What exactly saturates without the scale?
#
# Section 4 looked at the largest weight. Three more measures say why it matters:
#
# - the **variance** of the scores;
# - the **entropy** of a row of weights, $-\sum_j A_{ij} \ln A_{ij}$. It says how widely a query looks: ln 65 = 4.17 if it
#   looks at all keys equally, 0 if it sees a single one. (The unit is called nat.)
# - the **gradient** that reaches the scores through the softmax, for a typical query (the median).

# %%
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

# %% [markdown] claim=["panels['gradient size']['nothing'][1][-1] < 0.01 * panels['gradient size']['sqrt(d)'][1][-1]", "panels['entropy (nats)']['nothing'][1][-1] < 0.5", "0.5 < panels['gradient size']['nothing'][1][2] / panels['gradient size']['sqrt(d)'][1][2] < 0.8 and widths[2] == 64"] always
# Without a scale a typical query's gradient is smaller at d = 64, the width of ViT-B's heads, and all but gone at d = 1024:
# there a typical query hardly learns.

# %% [markdown] curious
# ## 10. Is it the same as one module per head, and as PyTorch's?
#
# First the list of modules of section 6: three heads, each with three small linear layers of its own. We copy the slices of
# the big matrix into them. (`nn.Linear` stores its weight transposed, so columns of $U_{qkv}$ are rows there.)

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
print(
    "one module per head and one big matrix, difference below 1e-5:", (apart - out).abs().max().item() < 1e-5
)

# %% [markdown] claim="(apart - out).abs().max() < 1e-5" always
# They are equal: nine small layers and one large one hold the same numbers.
#
# PyTorch has attention twice: as the function `F.scaled_dot_product_attention` and as the module `nn.MultiheadAttention`. If
# ours is right, copied weights must give equal results.

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
# The weights go over one to one: `in_proj` is `qkv`, `out_proj` is `proj`. In lesson 06 you copy those of a whole ViT.
#
# PyTorch's function gives the result alone. Where it can, it runs a **fused kernel**: one program on the chip that
# works through the keys in pieces and never writes down the T x T table. That needs less memory, and there are no
# weights to look at. (Where no fused kernel fits the inputs, the function falls back on a version that does write the
# table.) The finished version in `vit_course` calls this function, unless somebody asks for the attention.

# %% [markdown] curious
# ## 11. What does it cost on your machine?
#
# Section 8 as a picture, for more tokens:

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

# %% [markdown]
# The tables need memory too, h·T² numbers of 4 bytes per image and layer. With the 12 heads of the paper's model Base:

# %%
pictures = {
    "32x32, P = 4": 65,
    "224x224, P = 16": 197,
    "448x448, P = 16": 785,
    "224x224, P = 4": 3137,
    "224x224, every pixel": 50177,
}
rows = [[name, num_tokens, 12 * num_tokens**2 * 4 / 1e6] for name, num_tokens in pictures.items()]
table(rows, ["picture", "tokens T", "12 tables, MB"])

# %% [markdown]
# Now the time: the step-by-step version that writes the table down, and the fused one of PyTorch. Twice the tokens are four
# times the operations. And the time?

# %% tags=["nbval-ignore-output"]
import time

from vit_course.training.device import get_device
from vit_course.training.profiles import get_profile


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
# ## Check yourself

# %% [markdown] quiz
# Your table of weights has columns that sum to 1, and rows that do not. What happened?
#
# - [x] the softmax ran over the queries :: Rows belong to queries, columns to keys, and the softmax must run along a row, over the keys: `dim=-1`.
# - [ ] nothing: both ways are in use :: Then a query may receive far more or less than one unit.
# - [ ] the scale by sqrt(d) is missing :: The scale changes how peaked a row is, never its sum.

# %% [markdown] quiz
# D = 192, h = 3. By what are the scores divided?
#
# - [x] 8 :: d = 192/3 = 64, and its root is 8.
# - [ ] about 13.9 :: The root of D: the weights get too flat.
# - [ ] 64 :: The root is forgotten: flatter still.

# %% [markdown] quiz
# A model of width 192 gets 6 heads instead of 3. How does the number of its parameters change?
#
# - [x] not at all :: The heads share the width, d becomes 32. The matrices stay D x 3D and D x D.
# - [ ] it doubles :: That would need heads that keep d = 64.
# - [ ] it is halved :: A head is half as wide, but there are twice as many.

# %% [markdown] quiz
# T = 65 tokens, D = 192. You double T, with smaller patches. By what factor do the FLOPs of attention, 8·T·D² + 4·T²·D, grow?
#
# - [x] a little more than 2 :: The projections double, the scores and sums get four times as many, and at this length those are the smaller part.
# - [ ] 4: attention is quadratic :: Only two of its products are. With T far above 2·D = 384 the factor comes near 4.
# - [ ] 2: each token costs the same :: Each token also looks at twice as many others.

# %% [markdown] quiz
# The tokens are shuffled before the layer. What happens to its output?
#
# - [x] it is shuffled in the same way :: Each query still meets the same keys and values, and a weighted sum has no order. This is why lesson 03 had to add positions.
# - [ ] nothing, a sum has no order :: True for a mean over all tokens. Here each token has a sum of its own, and it moves with its token.
# - [ ] it becomes something else altogether :: Only with a position in the scores, or one added after the shuffle.

# %% [markdown]
# ## Recap
#
# | what | shape | D = 192, h = 3, T = 65 |
# |---|---|---|
# | tokens | (B, T, D) | (B, 65, 192) |
# | after `qkv` | (B, T, 3D) | (B, 65, 576) |
# | q, k, v and output of the heads | (B, h, T, d) | (B, 3, 65, 64) |
# | scores, weights A | (B, h, T, T) | (B, 3, 65, 65) |
# | merged; after $W_O$ | (B, T, D) | (B, 65, 192) |
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
