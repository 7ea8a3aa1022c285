# ---
# title: "Patches: an image as a sentence"
# promise: "You cut an image into patches and turn each patch into a token that a Transformer can read."
# part: "I. Build it"
# minutes: 60
# map: [patches, embed]
# goals:
#   - "Say why a Vision Transformer reads patches and not pixels, with numbers."
#   - "Cut a batch of images into patches and put it back together, without a loop."
#   - "See at once when a `reshape` has scrambled a picture."
#   - "Explain why a strided convolution is the same as cutting and multiplying, and prove it."
#   - "Choose a patch size and know what it costs."
# ---

# %% [markdown]
# ## 1. Why not one token for every pixel?
#
# A Transformer reads a *sequence*. For text this is natural: a sentence is a list of words, and each word (or piece of a
# word) becomes one **token**, a vector of D numbers. An image has no words. What should its tokens be?
#
# The first idea is one token for each pixel. Let us count what this costs. In self-attention (lesson 04) every token
# looks at every token, so N tokens need a table of N x N weights in every head of every layer.

# %%
import torch
from einops import rearrange
from torch import nn

from vit_course.classroom import check, plots

for name, num_tokens in [("pixels of 224x224", 224 * 224), ("patches of 16x16", (224 // 16) ** 2)]:
    table = num_tokens**2
    print(f"{name:18} {num_tokens:6,} tokens, {table:13,} weights in one table, {table * 4 / 1e6:9,.1f} MB")

# %% [markdown]
# 50,176 tokens would need ten gigabytes for *one* table of *one* head. 196 tokens need about a seventh of a megabyte.
# The Vision Transformer (ViT) therefore cuts the image into squares of P x P pixels, the **patches**, and makes each
# patch one token. This is the title of the paper: *an image is worth 16x16 words*.
#
# Here is a photo cut in four ways. A small patch shows little, but there are many of them. A large patch shows much, but
# there are few.

# %%
photo = plots.sample_photo((224, 224))  # (3, 224, 224), uint8
cuts = []
for side in (112, 56, 32, 16):
    lined = photo.clone()
    lined[:, ::side] = 255
    lined[:, :, ::side] = 255
    cuts.append(lined)
figure = plots.image_row(
    cuts,
    [f"P = {side}: N = {(224 // side) ** 2}" for side in (112, 56, 32, 16)],
    "The smaller the patch, the longer the sentence",
)
plots.show(figure, "One portrait four times, cut by white lines into 4, 16, 49 and 196 square patches.")

# %% [markdown]
# How many patches are there? An image of H x W pixels holds H/P rows and W/P columns of patches, so the paper writes
# (section 3.1)
#
# $$N = \frac{H \cdot W}{P^2}$$
#
# where H and W are the height and width of the image in pixels, P is the side of a patch in pixels, and N is the number
# of patches: the length of the sentence.
#
# **Your task.** Write `count_patches`. Two details make it useful for real images:
#
# - A size can be a number (a square) or a pair (height, width). `as_pair` turns both into a pair.
# - If the patches do not fill the image exactly, raise a `ValueError` that names the numbers. `grid_size` does this
#   for you if you use it: `grid_size((32, 48), 8)` is `(4, 6)`.

# %% exercise="vit_course.patches:count_patches" difficulty=1 minutes=5 hint="How many patches fit from top to bottom? How many from left to right? `grid_size(img_size, patch_size)` returns exactly these two numbers." hint2="`rows, columns = grid_size(img_size, patch_size)`. The number of cells in a table with so many rows and columns is their product."
from vit_course.patches import count_patches

count_patches = check(count_patches)

# %%
print("CIFAR-10, P = 4:", count_patches(32, 4))
print("ImageNet, P = 16:", count_patches(224, 16))
print("a 32x48 picture, P = 8:", count_patches((32, 48), 8))

# %% [markdown]
# ## 2. What does `reshape` really cut?
#
# We want a tensor of patches: from images (B, C, H, W) to patches (B, N, P·P·C). B is the number of images, C the number
# of channels (3 for red, green, blue). Each patch becomes one flat row of P·P·C numbers.
#
# The shapes suggest a shortcut. The numbers are all there, so why not `reshape`? Try it on a tiny grey image whose pixels
# are numbered 0 to 15, with patches of 2x2.

# %%
tiny = torch.arange(16).reshape(1, 1, 4, 4)
print("the image:")
print(tiny[0, 0])
print("reshape to 4 patches of 4 numbers:")
print(tiny.reshape(1, 4, 4)[0])

# %% [markdown]
# The upper left patch should hold the pixels 0, 1, 4, 5. But `reshape` made 0, 1, 2, 3: one *row* of the image. `reshape`
# never changes the order in which numbers are read, the last axis fastest. It only puts new brackets around them, and the
# rows of an image are read one after the other.
#
# On a real picture the result looks like this. The shape is correct, the program runs, a model would even train a little.
# Only the picture tells you that it is wrong, and this is why we look at pictures so often in this course.

# %%
portrait = plots.sample_photo((32, 32))[None]  # (1, 3, 32, 32)
wrong = portrait.reshape(1, 16, 8 * 8 * 3)
wrong_patches = [rearrange(row, "(p1 p2 c) -> c p1 p2", p1=8, p2=8) for row in wrong[0, :6]]
right_patches = [portrait[0, :, :8, 8 * i : 8 * i + 8] for i in range(4)] + [
    portrait[0, :, 8:16, 8 * i : 8 * i + 8] for i in range(2)
]
titles = [f"patch {i}" for i in range(6)]
figure = plots.image_row(
    wrong_patches, titles, "reshape alone: a 'patch' is a run of rows, nearly always of one channel"
)
plots.show(figure, "Six squares of noise-like stripes: what reshape cuts has nothing to do with patches.")
figure = plots.image_row(right_patches, titles, "the first six real patches of the same picture")
plots.show(figure, "Six recognisable pieces of the portrait, from the upper left, in reading order.")

# %% [markdown]
# "Patch 0" of `reshape` holds 192 numbers. One row of one channel has 32, so it is six rows of *red*, and nothing of green
# and blue. (The picture is coloured all the same: three reds in a row are shown as the red, green and blue of one pixel.)
# With P = 4 it would be one and a half rows of red.
#
# ### The slow, clear way
#
# Before the fast version, the honest one: two loops that walk over the image in reading order, left to right and then
# down. `images[:, :, y : y + p1, x : x + p2]` cuts one patch out of every image of the batch.
#
# Inside a patch, our order is **(row, column, channel)**: the three colours of one pixel stand side by side. So each
# piece (B, C, P, P) is turned to (B, P, P, C) and then flattened. (The paper states no order. Its notation P²·C, in
# section 3.1, suggests this one, and the authors' weights are stored as (P, P, C, D).)
#
# **Fill in the loop (about 8 minutes).** The two `for` lines are there; cut, turn and keep one patch inside them, and join
# all patches at the end. The check is the same as for the fast version that follows, and if you would rather go on, leave
# it: the finished version takes over.
#
# <details><summary>Hint</summary>
#
# `piece.permute(0, 2, 3, 1).flatten(1)` makes one row of P·P·C numbers of each piece; append it to `rows`. At the end
# `torch.stack(rows, dim=1)` puts the rows side by side: dim 1 is the new axis N.
#
# </details>


# %%
from vit_course.patches import as_pair, grid_size


def patchify_loops(images, patch_size):
    """Cut images (B, C, H, W) into flat patches (B, N, P·P·C), patch by patch."""
    p1, p2 = as_pair(patch_size)
    grid_size(images.shape[-2:], patch_size)  # a ValueError if the patches leave a rest
    rows = []
    for y in range(0, images.shape[2], p1):
        for x in range(0, images.shape[3], p2):
            piece = images[:, :, y : y + p1, x : x + p2]  # (B, C, P, P)  # SOLUTION
            rows.append(piece.permute(0, 2, 3, 1).flatten(1))  # (B, P·P·C)  # SOLUTION
    # all patches together, in one tensor
    return torch.stack(rows, dim=1)  # (B, N, P·P·C)  # SOLUTION


patchify_loops = check(patchify_loops, "patchify")

# %%
print("patch 0 of the numbered image:", patchify_loops(tiny, 2)[0, 0].tolist())
print("all four patches:", patchify_loops(tiny, 2)[0].tolist())

# %% [markdown]
# ## 3. How do we cut without a loop?
#
# Think of the height axis H. It is a list of rows of pixels. Group it: H = (rows of the grid) x (rows inside a patch). In
# einops you write this as `(h p1)`: a long axis that *is* two axes, the slow one first. The width is `(w p2)`.
#
#     images    b  c  (h p1)  (w p2)
#                      |  \     |  \
#     patches   b  (h  w)  (p1  p2  c)
#
# Cutting means: bring the two grid axes h and w together, and the rest, what is inside a patch, behind them. You name the
# axes, einops does the moving.
#
# Look at the axes one by one first. The 4x4 image becomes a 2x2 grid of 2x2 patches:

# %%
grid = rearrange(tiny, "b c (h p1) (w p2) -> b h w p1 p2 c", p1=2, p2=2)
print("shape (B, h, w, p1, p2, C):", tuple(grid.shape))
print("the patch in row 0, column 1 of the grid:")
print(grid[0, 0, 1, :, :, 0])

# %% [markdown]
# **Your task.** Write `patchify`. Any way that gives the right numbers is right: `rearrange`, `reshape` with `permute`,
# `unfold`. The docstring is the full description. Think about images that are not square: the number of rows and
# of columns may differ.
#
# The check tries several shapes. If something is scrambled, it tells you *how* it is scrambled.

# %% exercise="vit_course.patches:patchify" difficulty=2 minutes=10 hint="Start from the six-axis pattern above: `b h w p1 p2 c`. Which of these axes count patches, and which are inside one patch?" hint2="Two pairs of brackets on the right side: one of the axes that count patches, one of the axes inside a patch, in the order of the docstring. einops needs to know p1 and p2; it works out h and w by itself, so non-square images cost nothing. `p1, p2 = as_pair(patch_size)`."
from vit_course.patches import patchify

patchify = check(patchify)

# %%
patches = patchify(portrait, 8)
print("images  ", tuple(portrait.shape))
print("patches ", tuple(patches.shape), "= (B, N, P·P·C)")
print("same as the loop:", torch.equal(patches, patchify_loops(portrait, 8)))
figure = plots.patch_grid(
    portrait[0], 8, "The 16 patches of a 32x32 picture, in the order the model reads them"
)
plots.show(
    figure, "The portrait cut into 4 by 4 numbered patches, 0 at the upper left, 15 at the lower right."
)

# %% [markdown]
# Read the numbers of the patches like words on a page. The model will receive them as a list. It will *not* be told that
# patch 4 lies below patch 0. How it learns that is the subject of lesson 03.
#
# ## 4. Can we get the picture back?
#
# A good test of any cutting is to put the pieces together again. If `unpatchify` undoes `patchify` exactly, no pixel is
# lost and none is in the wrong place. You will need it again in lesson 13, where a model paints missing patches.
#
# The list of patches does not know the shape of its grid: 12 patches may be 3 x 4, or 2 x 6. So `unpatchify` must be told.
#
# **Your task.** Write `unpatchify`. The number of channels is not given; work it out from the length of a patch.

# %% exercise="vit_course.patches:unpatchify" difficulty=2 minutes=8 hint="Write the einops pattern of `patchify` from right to left: what was the result is now the input." hint2="The left side is `b (h w) (p1 p2 c)`. A bracket can be split when all its letters but one are known: give einops h and w (`rows, columns = grid_size`), p1 and p2, and it computes c by itself."
from vit_course.patches import unpatchify

unpatchify = check(unpatchify)

# %%
back = unpatchify(patches, 8, grid_size=(4, 4))
print("every pixel is back:", torch.equal(back, portrait))

# %% [markdown]
# With both directions at hand we can do something with the patches in between. Here the list is shuffled, then put
# together. A person sees at once that something is wrong. Would the model? Keep the question for lesson 03.

# %%
large = plots.sample_photo((224, 224))[None]
pieces = patchify(large, 32)
shuffled = pieces[:, torch.randperm(pieces.shape[1], generator=torch.Generator().manual_seed(0))]
figure = plots.image_row(
    [large[0], unpatchify(shuffled, 32, (7, 7))[0]],
    ["49 patches in order", "the same 49 patches, shuffled"],
    "The same patches, another order",
)
plots.show(figure, "Left the portrait, right the same 49 patches in random order: a puzzle.")

# %% [markdown]
# ## 5. From a patch to a token: why `nn.Linear`?
#
# A patch is a row of P·P·C numbers: 48 for P = 4 and three channels. The Transformer works with tokens of width D, and D
# is our choice (192 in the small models here, 768 in the paper's Base model). One matrix E, the same for every patch,
# takes the one to the other. This is the first half of equation 1 of the paper:
#
# $$[\,x_p^1 E;\; x_p^2 E;\; \cdots;\; x_p^N E\,], \qquad E \in \mathbb{R}^{(P^2 C) \times D}$$
#
# Here $x_p^i$ is patch number i as a row of P²·C numbers, E is the **patch embedding** matrix, learned like every other
# weight, and $x_p^i E$ is a row of D numbers: the token.
#
# In language models this place is taken by `nn.Embedding`. Why not here? Because `nn.Embedding` is a *table*: it has one
# row per word of a fixed vocabulary, and a word number picks a row. Patches have no vocabulary. A 4x4 colour patch can hold
# $256^{48}$ different values, more than there are atoms in the universe; no table has so many rows. Also, two patches that
# differ in one shade of grey should get nearly the same token. A matrix does this by itself, a table does not.

# %%
torch.manual_seed(0)
vocabulary = nn.Embedding(num_embeddings=5, embedding_dim=3)
print("nn.Embedding: word 2 picks row 2 ", torch.equal(vocabulary(torch.tensor(2)), vocabulary.weight[2]))

project = nn.Linear(48, 192)
one_patch = torch.rand(48)
slightly_brighter = one_patch + 1 / 255
step = (project(slightly_brighter) - project(one_patch)).norm() / project(one_patch).norm()
print(f"nn.Linear: one shade brighter moves the token by {step:.1%}")

tokens = project(patchify(torch.rand(2, 3, 32, 32), 4))
print("tokens:", tuple(tokens.shape), "= (B, N, D)")

# %% [markdown]
# (The two are relatives: `nn.Embedding` is a linear layer for inputs that are zero except for a single 1.)
#
# ## 6. Why do most implementations use a convolution?
#
# Open most ViTs on the internet and you will find no `patchify`. You find
# `nn.Conv2d(3, D, kernel_size=P, stride=P)`. It confuses nearly everybody once: was the idea not to do *without*
# convolutions?
#
# Look at what this convolution does. Its kernel has the size of a patch. It starts at the upper left patch, multiplies the
# P·P·C pixels with D sets of weights, and writes D numbers. Then it moves on by its stride, P pixels: to the next patch,
# without overlap. This *is* "cut into patches, multiply each by E". The kernel holds the numbers of E in another order.
#
# **Your task.** Write the class `PatchEmbed`.
#
# - `__init__` keeps `self.img_size`, `self.patch_size` and `self.grid_size` as pairs, `self.num_patches`, and makes
#   `self.proj`, the convolution.
# - `forward` first calls `check_images(images, self.proj.in_channels, self.img_size)`, which refuses wrong shapes with a
#   clear `ValueError`. Then it projects, and turns the grid (B, D, rows, columns) into a sequence (B, N, D).
#
# Careful: the same trap as in section 2 waits in the last step.

# %% exercise="vit_course.patches:PatchEmbed" difficulty=2 minutes=12 hint="The convolution returns (B, D, rows, columns). Which axis must come last? A `reshape` alone cannot move it there." hint2="In `__init__`: `self.proj = nn.Conv2d(in_chans, embed_dim, kernel_size=self.patch_size, stride=self.patch_size)`. In `forward`: make one axis of rows and columns (`flatten`, or brackets in einops), then let it change places with D (`transpose`)."
from vit_course.patches import PatchEmbed

PatchEmbed = check(PatchEmbed)

# %% [markdown]
# Now the proof. We make a linear layer and copy the numbers of the convolution into it. The kernel has the axes
# (D, C, P, P); a patch is flattened as (P, P, C); so the axes are moved, and nothing else is done.

# %%
torch.manual_seed(0)
embed = PatchEmbed(img_size=32, patch_size=4, in_chans=3, embed_dim=192)
linear = nn.Linear(4 * 4 * 3, 192)
with torch.no_grad():
    linear.weight.copy_(rearrange(embed.proj.weight, "d c p1 p2 -> d (p1 p2 c)"))
    linear.bias.copy_(embed.proj.bias)

images = torch.rand(8, 3, 32, 32)
by_convolution = embed(images)
by_patches = linear(patchify(images, 4))
difference = (by_convolution - by_patches).abs().max().item()
print("convolution      ", tuple(by_convolution.shape))
print("patchify + linear", tuple(by_patches.shape))
print("equal up to rounding (below 0.00001):", difference < 1e-5)

# %% [markdown]
# Both do the same work. The convolution is used because it is one call, and because every framework has a fast one. There
# is no other reason: the ViT has no other convolution, and this one never mixes two patches.
#
# What does such a kernel look like? Each of the D outputs has its own P x P x C weights, and these can be shown as a small
# colour picture. At the start they are noise. In lesson 09 you will look at trained ones.

# %%
kernels = embed.proj.weight[:8].detach()
scaled = [(k - k.min()) / (k.max() - k.min()) for k in kernels]
figure = plots.image_row(
    scaled, [f"output {i}" for i in range(8)], "Untrained patch filters are noise", height=1.3
)
plots.show(figure, "Eight 4 by 4 colour squares without any structure.")

# %% [markdown]
# ## 7. Which patch size?
#
# P changes three things at once, and it pays to know them apart:
#
# - the length of the sentence, N = H·W / P²;
# - the size of E, P²·C·D numbers: it grows with P², but it is a small part of the model;
# - the cost of attention, which grows with N². Halve P, and N becomes 4 times and the attention table 16 times as large.
#
# This growth is *polynomial*. Some texts say that the cost grows "exponentially" with the resolution. It does not: twice the
# image side means four times the tokens and 16 times the table, and this is bad enough.

# %%
sides = [1, 2, 4, 8, 16, 32]
num_tokens = [count_patches(32, side) for side in sides]
figure = plots.curves(
    {
        "tokens N": (sides, num_tokens),
        "numbers in E (D = 192)": (sides, [side * side * 3 * 192 for side in sides]),
        "attention table N²": (sides, [n * n for n in num_tokens]),
    },
    "Halving the patch makes the attention table 16 times as large (32x32 picture)",
    "patch side P in pixels",
    "count",
    log="xy",
)
plots.show(
    figure,
    "Three lines over the patch side, both axes logarithmic: tokens fall with the square of P, the attention "
    "table with the fourth power, and the size of the patch embedding matrix rises with the square.",
)

# %% [markdown]
# Move the slider and see the same photo as the model would read it: every patch replaced by its mean colour. It is far from
# all that a token carries, but it shows how fine the grid is.


# %%
def draw_mosaic(patch_side):
    """Show the photo with every patch replaced by its mean colour, and the numbers that go with it."""
    small = patchify(large.float(), patch_side)
    mean = (
        rearrange(small, "b n (p c) -> b n p c", c=3)
        .mean(dim=2, keepdim=True)
        .expand(-1, -1, patch_side**2, -1)
    )
    side = 224 // patch_side
    mosaic = unpatchify(rearrange(mean, "b n p c -> b n (p c)"), patch_side, (side, side))
    count = count_patches(224, patch_side)
    figure = plots.image_row(
        [large[0], mosaic[0] / 255],
        ["the photo", f"P = {patch_side}, N = {count}, N² = {count**2:,}"],
        "What is left at one colour per patch",
    )
    plots.show(figure, f"The photo, and the photo as a mosaic of {count} squares of one colour.")


draw_mosaic(16)

# %% tags=["nbval-ignore-output"]
plots.slider(draw_mosaic, patch_side=[16, 8, 14, 28, 32, 56])

# %% [markdown]
# For 32x32 pictures this course uses P = 8 (16 tokens) in the short runs of lessons 00 to 06, and P = 4 (64 tokens) for the
# large ones on a GPU. The paper uses P = 14, 16 or 32 on pictures of 224 pixels. In lesson 10 we measure what each size gains.
#
# ## 8. And if the picture is not square, or grey?
#
# Nothing in the cutting needs a square. Your functions take (height, width), and `in_chans=1` makes a model for grey
# pictures. If a size does not fit, the error names the numbers.

# %%
wide_grey = torch.rand(2, 1, 24, 40)
print(tuple(PatchEmbed(img_size=(24, 40), patch_size=8, in_chans=1, embed_dim=64)(wide_grey).shape))

for attempt in [lambda: count_patches((30, 32), 4), lambda: embed(torch.rand(1, 1, 32, 32))]:
    try:
        attempt()
    except ValueError as error:
        print("ValueError:", error)

# %% [markdown]
# ## Check yourself
#
# **1.** An image of 64x64 pixels, P = 8. A program sets `num_patches = (64 // 8) ** 2` and then makes a token for each
# of `num_patches ** 2` patches. How many patches are there? (a) 8 (b) 64 (c) 4,096
#
# <details><summary>Answer</summary>
#
# **(b)** 64. The grid is 8 x 8. (a) is the number along one side: W/P, not H·W/P². (c) is what the program makes: its
# number is a square already, and it squares it once more.
#
# </details>
#
# **2.** Somebody writes: "The embedding matrix of the ViT has the shape (N, D, P²)." What is its shape? (a) (N, D, P²),
# a matrix for each patch (b) (P², D) for a colour picture (c) (P²·C, D), one for all patches
#
# <details><summary>Answer</summary>
#
# **(c)** Each patch is a row of P²·C numbers, and the same E multiplies them all. (a) would learn an edge anew at each
# place, and would fit one size of picture only. (b) leaves out the channels.
#
# </details>
#
# **3.** A classmate writes `images.reshape(B, N, P*P*3)`. The shapes are right and the loss goes down. What is wrong? (a) nothing (b) each "patch" is a
# run of rows, mostly of one colour (c) the patches are in column order
#
# <details><summary>Answer</summary>
#
# **(b)** `reshape` keeps the order of reading, and there rows come behind rows and channels behind channels. (a): a model can learn a
# little even from scrambled input, so a falling loss proves nothing. (c) would need an axis to be moved, and `reshape` moves none.
#
# </details>
#
# **4.** Why is `nn.Embedding` not used for patches? (a) it cannot be trained (b) it is slower (c) it looks up rows by an integer, and patches have no numbering
#
# <details><summary>Answer</summary>
#
# **(c)** A table needs a finite vocabulary. (a): its rows are trained like any weight. (b): a look-up is faster than a product.
#
# </details>
#
# **5.** The patch convolution has stride P. What happens with stride P/2? (a) nothing (b) patches overlap and there are about four times as many tokens
# (c) an error
#
# <details><summary>Answer</summary>
#
# **(b)** The windows move by half a patch, so neighbours share pixels. Some later models do this on purpose. It is not the ViT of the paper.
#
# </details>
#
# ## Recap
#
# | what | shape | 32x32 colour, P = 4, D = 192 |
# |---|---|---|
# | images | (B, C, H, W) | (B, 3, 32, 32) |
# | patches, flattened | (B, N, P·P·C) | (B, 64, 48) |
# | E, as a linear layer | (P·P·C, D) | (48, 192) |
# | E, as a convolution kernel | (D, C, P, P) | (192, 3, 4, 4) |
# | output of the convolution | (B, D, H/P, W/P) | (B, 192, 8, 8) |
# | tokens | (B, N, D) | (B, 64, 192) |
#
# - A patch is a word, the image is a sentence of N = H·W/P² words.
# - `reshape` groups numbers, it does not move them. Cutting patches needs axes to be moved.
# - One matrix E turns patches into tokens. A convolution with stride P does the same in one call.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), section 3.1 and equation 1.
# - The einops tutorial, *Einops basics*: pictures for every pattern.
# - Trockman and Kolter, *Patches Are All You Need?* (2022): how far the patches alone carry.
