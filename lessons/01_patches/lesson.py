# ---
# title: "Patches: an image as a sentence"
# promise: "You cut an image into patches and turn each patch into a token that a Transformer can read."
# part: "I. Build it"
# map: [patches, embed]
# goals:
#   - "Say why a Vision Transformer reads patches and not pixels, with numbers."
#   - "Cut a batch of images into patches, without a loop, and, for the curious, put it back together."
#   - "See at once when a `reshape` has scrambled a picture."
#   - "Explain why a strided convolution is the same as cutting and multiplying, and test it."
#   - "Choose a patch size and know what it costs."
# ---

# %% [markdown]
# ## 1. Why not one token for every pixel?
#
# A Transformer reads a *sequence*. For text this is natural: a sentence is a list of words, and each word (or piece of a
# word) becomes one **token**, a vector of D numbers. An image has no words. What should its tokens be?
#
# The first idea: one token for each pixel. What does it cost? In self-attention (lesson 04) every token looks at every
# token: N tokens make a table of N x N numbers of 4 bytes, and every layer has several such tables.

# %%
from textwrap import fill

import torch
from einops import rearrange
from torch import nn

from vit_classroom import check, plots, table
from vit_classroom.numbers import number, percent

rows = []
for name, num_tokens in [("pixels of 224x224", 224 * 224), ("patches of 16x16", (224 // 16) ** 2)]:
    rows.append([name, num_tokens, num_tokens**2, num_tokens**2 * 4 / 1e6])
table(rows, ["one token for each of the", "tokens", "numbers in one table", "MB"])

# %% [markdown]
# The pixels would need ten gigabytes for *one* such table, the patches about 0.15 megabytes.
# The Vision Transformer (ViT) therefore cuts the image into squares of P x P pixels, the **patches**, and makes each
# patch one token. This is the title of the paper: *an image is worth 16x16 words*.
#
# Here is a photo cut in four ways. Small patches are many and show little each; large ones are few and show much.

# %% fold
photo = plots.sample_photo((224, 224))  # (3, 224, 224), uint8
cuts = []
for side in (112, 56, 32, 16):
    lined = photo.clone()
    lined[:, torch.arange(224) % side < 2] = 255
    lined[:, :, torch.arange(224) % side < 2] = 255
    cuts.append(lined)
titles = [f"P = {side}: N = {(224 // side) ** 2}" for side in (112, 56, 32, 16)]
figure = plots.image_row(cuts, titles, "The same photo as 4, 16, 49 and 196 words")
plots.show(figure, "One portrait four times, cut by white lines into 4, 16, 49 and 196 square patches.")

# %% [markdown]
# How many patches are there? An image of H x W pixels holds H/P rows and W/P columns of patches, so the paper writes (section 3.1)
#
# $$N = \frac{H \cdot W}{P^2}$$
#
# where P is the side of a patch in pixels, and N is the number of patches: the length of the sentence.
#
# **Your task.** Write `count_patches`. A size can be a number (a square) or a pair (height, width); `as_pair` makes a pair of
# both. The call of `grid_size` is given: it counts both ways, `grid_size((32, 48), 8)` is `(4, 6)`, and refuses patches that
# leave a remainder.

# %% exercise="vit_course.patches:count_patches" difficulty=1 minutes=3 hint="How many patches fit from top to bottom? How many from left to right? `rows` and `columns` are exactly these two numbers." hint2="The number of cells in a table with so many rows and columns is their product."
from vit_course.patches import count_patches

count_patches = check(count_patches)

# %%
print("CIFAR-10, P = 4:", count_patches(32, 4))
print("ImageNet, P = 16:", count_patches(224, 16))
print("a 32x48 picture, P = 8:", count_patches((32, 48), 8))

# %% [markdown]
# ## 2. What does `reshape` really cut?
#
# We want a tensor of patches: from images (B, C, H, W) to patches (B, N, P·P·C). Each patch becomes one flat row of P·P·C numbers.
#
# The shapes suggest a shortcut. The numbers are all there, so why not `reshape`? Try it on a tiny grey image whose pixels
# are numbered 0 to 15, with patches of 2x2.
#
# > **Predict.** Which four numbers belong in the upper left patch? And which four will `reshape` put there?

# %%
tiny = torch.arange(16).reshape(1, 1, 4, 4)
print("the image:")
print(tiny[0, 0])
print("reshape to 4 patches of 4 numbers:")
print(tiny.reshape(1, 4, 4)[0])

# %% [markdown]
# 0, 1, 4, 5 belong there, but `reshape` made 0, 1, 2, 3: one *row* of the image.
#
# > **Key idea.** `reshape` never moves a number. It reads them in the old order, the last axis fastest, and puts new
# > brackets around them.
#
# On a real picture it looks like this. The shape is correct, the program runs, a model would even train a little. Only the
# picture tells you that it is wrong: this is why we look at pictures so often.

# %%
portrait = plots.sample_photo((32, 32))[None]  # (1, 3, 32, 32)
wrong = portrait.reshape(1, 16, 8 * 8 * 3)
print("shape, as it should be:", tuple(wrong.shape))

# %% fold
wrong_patches = [rearrange(row, "(p1 p2 c) -> c p1 p2", p1=8, p2=8) for row in wrong[0, :6]]
right_patches = [
    portrait[0, :, 8 * row : 8 * row + 8, 8 * i : 8 * i + 8]
    for row, i in ((0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1))
]
titles = [f"{kind}: patch {i}" for kind in ("reshape", "real") for i in range(6)]
figure = plots.image_row(
    wrong_patches + right_patches, titles, "Six patches by reshape alone, and the six real ones", height=1.5
)
plots.show(
    figure,
    "Above, six squares of coloured noise and grey runs: what reshape cuts has nothing to do with patches. Below, six real "
    "pieces of the portrait, from the upper left, in reading order.",
)

# %% [markdown]
# "Patch 0" of `reshape` holds 192 numbers. One row of one channel has 32, so it is six rows of *red*, and nothing of green
# and blue. (The plot shows three reds in a row as the red, green and blue of one pixel.)
#
# ### The slow, clear way
#
# Before the fast version, a slow one that you can read: two loops that walk over the image in reading order, left to right and then
# down. Inside a patch, our order is **(row, column, channel)**: the three colours of one pixel stand side by side. So each
# piece (B, C, P, P) is turned to (B, P, P, C) and then flattened. (The paper states no order. Its notation P²·C, in
# section 3.1, suggests this one, and the authors' weights are stored as (P, P, C, D).)


# %%
from vit_course.patches import as_pair, grid_size


def patchify_loops(images, patch_size):
    """Cut images (B, C, H, W) into flat patches (B, N, P·P·C), patch by patch."""
    p1, p2 = as_pair(patch_size)
    grid_size(images.shape[-2:], patch_size)  # a ValueError if the patches leave a remainder
    rows = []
    for y in range(0, images.shape[2], p1):
        for x in range(0, images.shape[3], p2):
            piece = images[:, :, y : y + p1, x : x + p2]  # (B, C, P, P), one patch of every image
            rows.append(piece.permute(0, 2, 3, 1).flatten(1))  # (B, P·P·C)
    return torch.stack(rows, dim=1)  # (B, N, P·P·C)


# %%
print("patch 0 of the numbered image:", patchify_loops(tiny, 2)[0, 0].tolist())
print("all four patches:", patchify_loops(tiny, 2)[0].tolist())

# %% [markdown]
# ## 3. How do we cut without a loop?
#
# Group the height: H = (rows of the grid) x (rows inside a patch). In einops you write this as `(h p1)`: a long axis that
# *is* two axes, the slow one first. The width is `(w p2)`.
#
#     images    b  c  (h p1)  (w p2)
#     patches   b  (h w)  (p1 p2 c)
#
# Cutting means: bring the two grid axes h and w together, and what is inside a patch after them. You name the axes, einops
# does the moving. First with the axes one by one: the 4x4 image becomes a 2x2 grid of 2x2 patches.

# %%
grid = rearrange(tiny, "b c (h p1) (w p2) -> b h w p1 p2 c", p1=2, p2=2)
print("shape (B, h, w, p1, p2, C):", tuple(grid.shape))
print("the patch in row 0, column 1 of the grid:")
print(grid[0, 0, 1, :, :, 0])

# %% [markdown]
# **Your task.** Write `patchify`; the lines that refuse wrong sizes are given. Any way that gives the right numbers is right:
# `rearrange`, `reshape` with `permute`, `Tensor.unfold`. The docstring is the full description. Images need not be square. If
# something is scrambled, the check tells you *how* it is scrambled.

# %% exercise="vit_course.patches:patchify" difficulty=2 minutes=12 hint="Start from the six-axis pattern above: `b h w p1 p2 c`. Which of these axes count patches, and which are inside one patch?" hint2="Two pairs of brackets on the right side: one of the axes that count patches, one of the axes inside a patch, in the order of the docstring. einops needs to know p1 and p2; it works out h and w by itself, so non-square images cost nothing."
from vit_course.patches import patchify

patchify = check(patchify)

# %%
patches = patchify(portrait, 8)
print("images  ", tuple(portrait.shape))
print("patches ", tuple(patches.shape), "= (B, N, P·P·C)")
print("same as the loop:", torch.equal(patches, patchify_loops(portrait, 8)))

# %% fold
figure = plots.patch_grid(portrait[0], 8, "In which order are they read?")
plots.show(
    figure, "The portrait cut into 4 by 4 numbered patches, 0 at the upper left, 15 at the lower right."
)

# %% [markdown]
# The model receives the patches as a list. It is *not* told that patch 4 lies below patch 0. Lesson 03 shows how it learns this.

# %% [markdown] curious
# ## 4. Can we get the picture back?
#
# If `unpatchify` undoes `patchify` exactly, no pixel is lost and none is in the wrong place. Later lessons use it,
# ready-made: you will call it in lesson 09, to hide patches, and in lesson 13 a model paints missing ones.
#
# **Your task.** Write `unpatchify`. A list of 12 patches may come from a grid of 3 x 4 or of
# 2 x 6, so you are told the grid. The number of channels follows from the length of a patch. The lines that refuse wrong
# sizes are given.

# %% exercise="vit_course.patches:unpatchify" difficulty=2 minutes=8 hint="Write the einops pattern of `patchify` from right to left: what was the result is now the input." hint2="The left side is `b (h w) (p1 p2 c)`. A bracket can be split when all its letters but one are known: give einops h and w (`rows` and `columns`), p1 and p2, and it computes c by itself."
from vit_course.patches import unpatchify

unpatchify = check(unpatchify)

# %%
back = unpatchify(patches, 8, grid_size=(4, 4))
print("every pixel is back:", torch.equal(back, portrait))

# %% [markdown]
# Between the two we can change the patches. Here the list is shuffled. A person sees at once that something is wrong.
# Would the model? Keep the question for lesson 03.

# %%
pieces = patchify(photo[None], 32)
shuffled = pieces[:, torch.randperm(pieces.shape[1], generator=torch.Generator().manual_seed(0))]

# %% fold
figure = plots.image_row(
    [photo, unpatchify(shuffled, 32, (7, 7))[0]],
    ["49 patches in order", "the same 49 patches, shuffled"],
    "The same patches, another order",
)
plots.show(figure, "Left the portrait, right the same 49 patches in random order: a puzzle.")

# %% [markdown]
# ## 5. From a patch to a token: why `nn.Linear`?
#
# A patch is a row of P·P·C numbers: 48 for P = 4 and three channels. The Transformer works with tokens of width D, and D
# is our choice (16 to 192 in these lessons, 768 in the smallest model of the paper). One matrix E, the same for
# every patch, turns the one into the other. This is the first half of equation 1 of the paper:
#
# $$[\,x_p^1 E;\; x_p^2 E;\; \cdots;\; x_p^N E\,], \qquad E \in \mathbb{R}^{(P^2 C) \times D}$$
#
# Here $x_p^i$ is patch number i as a row of P²·C numbers, E is the **patch embedding** matrix, learned like every other
# weight, and $x_p^i E$ is a row of D numbers: the token.
#
# In language models this place is taken by `nn.Embedding`. Why not here? Because `nn.Embedding` is a *table*: it has one
# row per word of a fixed vocabulary, and a word number picks a row. (It is a linear layer for inputs that are zero except
# for a single 1.) Patches have no vocabulary. A 4x4 colour patch can hold $256^{48}$ different values, more than there are
# atoms in the universe; no table has so many rows. Also, two patches that differ in one shade of grey should get nearly
# the same token. A matrix does this by itself, a table does not.

# %%
torch.manual_seed(0)
vocabulary = nn.Embedding(num_embeddings=5, embedding_dim=3)
print("nn.Embedding: word 2 picks row 2 ", torch.equal(vocabulary(torch.tensor(2)), vocabulary.weight[2]))

project = nn.Linear(48, 192)
one_patch = torch.rand(48)
slightly_brighter = one_patch + 1 / 255
step = (project(slightly_brighter) - project(one_patch)).norm() / project(one_patch).norm()
print(f"nn.Linear: one shade brighter moves the token by {percent(step.item())} of its length")

tokens = project(patchify(torch.rand(2, 3, 32, 32), 4))
print("tokens:", tuple(tokens.shape), "= (B, N, D)")

# %% [markdown]
# ## 6. Why do most implementations use a convolution?
#
# In most ViTs you will find no `patchify`, but `nn.Conv2d(3, D, kernel_size=P, stride=P)`. It confuses nearly everybody
# once: was the idea not to do *without* convolutions?
#
# Its kernel has the size of a patch. It starts at the upper left patch, multiplies the P·P·C numbers with D sets of
# weights, and writes D numbers. Then it moves on by its stride, P pixels: to the next patch, without overlap. This *is*
# "cut into patches, multiply each by E". The kernel holds E in another order (and the layer adds a bias, which equation 1 leaves out).
#
# > **Trap.** The convolution returns a grid, (B, D, rows, columns). Turning it into (B, N, D) is where the trap of section
# > 2 waits again.
#
# **Your task.** Write the class `PatchEmbed`.
#
# - `__init__` begins with `super().__init__()`. It keeps `self.img_size`, `self.patch_size` and `self.grid_size` as pairs,
#   `self.num_patches`, and makes `self.proj`, the convolution, with its bias.
# - `forward` projects, and turns the grid (B, D, rows, columns) into a sequence (B, N, D). The line that refuses wrong shapes
#   is given.

# %% exercise="vit_course.patches:PatchEmbed" difficulty=2 minutes=15 hint="The convolution returns (B, D, rows, columns). Which axis must come last? A `reshape` alone cannot move it there." hint2="In `__init__`: `self.proj = nn.Conv2d(in_chans, embed_dim, kernel_size=self.patch_size, stride=self.patch_size)`. In `forward`: make one axis of rows and columns (`flatten`, or brackets in einops), then let it change places with D (`transpose`)."
from vit_course.patches import PatchEmbed

PatchEmbed = check(PatchEmbed)

# %% [markdown]
# Now a test: we copy the numbers of the convolution into a linear layer. The kernel has the axes (D, C, P, P), a patch
# is flattened as (P, P, C): axes are moved, and nothing else is done.

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

# %% [markdown] claim="difference < 1e-5" always
# Both do the same work. The convolution is used because it is one call. It is the ViT's only convolution, and it never mixes
# two patches.
#
# Each of the D outputs has its own P x P x C weights, and these can be shown as a small colour picture.

# %% fold
kernels = embed.proj.weight[:8].detach()
scaled = [(k - k.min()) / (k.max() - k.min()) for k in kernels]
figure = plots.image_row(
    scaled, [f"output {i}" for i in range(8)], "What does E look for, before it is trained?", height=1.1
)
plots.show(figure, "Eight 4 by 4 colour squares without any structure.")

# %% [markdown]
# Nothing yet: before training it is noise. In lesson 09 you will look at trained ones.
#
# ## 7. Which patch size?
#
# P changes the length of the sentence, N = H·W / P², and with it the table of attention, N x N. It also changes the size of
# E, P²·C·D numbers, a small part of the model.
#
# > **Predict.** You halve P. How many times larger does the table of attention become: 2, 4, 8 or 16 times?

# %%
sides = [1, 2, 4, 8, 16, 32]
num_tokens = [count_patches(32, side) for side in sides]
rows = [[side, n, n * n, side * side * 3 * 192] for side, n in zip(sides, num_tokens, strict=True)]
table(rows, ["P", "tokens N", "attention table N²", "numbers in E (D = 192)"])

# %% [markdown] claim="all(small[2] == 16 * large[2] for small, large in zip(rows, rows[1:]))" always
# 16 times: four times the tokens, and the table is their square. This growth is *polynomial*. Some texts say that the cost
# grows "exponentially" with the resolution. It does not; polynomial is bad enough.
#
# This course uses P = 8 (16 tokens) or P = 4 (64 tokens), as a rule; the paper P = 14, 16 or 32 on pictures of 224 pixels.
# Lesson 10 measures what each size gains.

# %% [markdown] curious
# ## 8. And grids of other kinds?
#
# Move the slider to see how fine each grid is: every patch is replaced by its mean colour; a token carries far more.


# %% fold tags=["nbval-ignore-output"]
def draw_mosaic(patch_side):
    """Show the photo with every patch replaced by its mean colour, and the numbers that go with it."""
    colours = rearrange(patchify(photo[None].float(), patch_side), "b n (p c) -> b n p c", c=3)
    mean = colours.mean(dim=2, keepdim=True).expand_as(colours)
    side, count = 224 // patch_side, count_patches(224, patch_side)
    mosaic = unpatchify(rearrange(mean, "b n p c -> b n (p c)"), patch_side, (side, side))
    titles = ["the photo", f"P = {patch_side}, N = {count:,}, N² = {number(count**2)}"]
    figure = plots.image_row([photo, mosaic[0] / 255], titles, "What is left at one colour per patch?")
    plots.show(figure, f"The photo, and the photo as a mosaic of {count} squares of one colour.")


plots.slider(draw_mosaic, patch_side=[8, 14, 16, 28, 32, 56])

# %% [markdown]
# Nothing in the cutting needs a square. Your functions take (height, width), and `in_chans=1` makes a model for grey
# pictures. If a size does not fit, the error names the numbers.

# %%
wide_grey = torch.rand(2, 1, 24, 40)
print(tuple(PatchEmbed(img_size=(24, 40), patch_size=8, in_chans=1, embed_dim=64)(wide_grey).shape))

for attempt in [lambda: count_patches((30, 32), 4), lambda: embed(torch.rand(1, 1, 32, 32))]:
    try:
        attempt()
    except ValueError as error:
        print(fill(f"ValueError: {error}", 90))

# %% [markdown] curious
# ## 9. Who had tried attention on images before?
#
# Several groups had, and each found its own way around the table of N x N weights. The **Image Transformer** (2018) and
# **stand-alone self-attention** (2019) let a pixel look only at its neighbourhood; **axial attention** (2019) at its row and its
# column. **Cordonnier and others** (2020) cut images into patches of 2x2 pixels and let each look at all: the ViT's idea, at a
# patch size that suits small images only. **iGPT** (2020) made images smaller and their colours fewer, and predicted them pixel
# by pixel. The ViT changed little: larger patches, the Transformer as it was for text, and far more images to learn from.

# %% fold
row, column = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
seen = {
    "its neighbours\n(stand-alone attention)": ((row - 8).abs() <= 2) & ((column - 8).abs() <= 2),
    "its row and column\n(axial attention)": (row == 8) | (column == 8),
    "the pixels before it\n(iGPT)": 16 * row + column <= 16 * 8 + 8,
    "all patches of 2x2\n(Cordonnier)": torch.ones(16, 16, dtype=torch.bool),
    "all patches of 4x4\n(here; ViT: 16x16)": torch.ones(16, 16, dtype=torch.bool),
}
masks = []
for mask, side in zip(seen.values(), (1, 1, 1, 2, 4), strict=True):
    cells = torch.where(mask, 0.75, 0.25).repeat_interleave(8, 0).repeat_interleave(8, 1)
    cells[:: 8 * side], cells[:, :: 8 * side] = 0.5, 0.5
    start = 8 // side * side * 8
    cells[start + 1 : start + 8 * side, start + 1 : start + 8 * side] = 1
    masks.append(cells[None])
figure = plots.image_row(
    masks, list(seen), "What may the white token look at? (light: yes, dark: no)", height=1.6
)
plots.show(
    figure,
    "Five grids with a white token near the middle. It sees a square of neighbours; a cross of row and column; all that "
    "comes before it in reading order; and twice everything, in patches of 2 by 2 and of 4 by 4 pixels.",
)

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# An image of 64x64 pixels, P = 8. A program sets `num_patches = (64 // 8) ** 2` and then makes a token for each of
# `num_patches ** 2` patches. How many patches does the image have?
#
# - [ ] 8 :: That is the number along one side, W/P. The grid has H/P rows too.
# - [x] 64 :: The grid is 8 x 8, so N = H·W/P².
# - [ ] 4,096 :: That is what the program makes: its number is a square already, and it squares it once more.

# %% [markdown] quiz
# Somebody writes: "The embedding matrix of the ViT has the shape (N, D, P²)." What is its shape?
#
# - [ ] (N, D, P²), a matrix for each place :: It would learn an edge anew at each place, and would fit one size of picture only.
# - [ ] (P², D), the same for all patches :: This leaves out the channels: it would fit a grey picture alone.
# - [x] (P²·C, D), one for all patches :: Each patch is a row of P²·C numbers, and the same E multiplies them all.

# %% [markdown] quiz
# A classmate writes `images.reshape(B, N, P*P*3)`. The shapes are right and the loss goes down. What is wrong?
#
# - [ ] nothing, since the loss goes down :: A model can learn a little even from scrambled input: a falling loss proves nothing.
# - [x] each "patch" is a run of rows :: `reshape` keeps the order of reading: row after row, and channel after channel, so mostly of one colour.
# - [ ] the patches are in column order :: For that an axis would have to move, and `reshape` moves none.

# %% [markdown] quiz
# Why is `nn.Embedding` not used for patches?
#
# - [ ] its rows cannot be trained :: They are trained like any weight.
# - [ ] it is slower than a linear layer :: A look-up is faster than a product.
# - [x] patches have no vocabulary :: It looks rows up by a whole number, and no table has a row for each possible patch.

# %% [markdown] quiz
# The patch convolution has kernel size P. Somebody sets its stride to P/2. What happens?
#
# - [x] there are about four times as many tokens :: The windows move by half a patch in both directions, so neighbours share pixels. Some later models do this on purpose.
# - [ ] each token holds a quarter of the pixels :: The kernel still covers P x P pixels; the stride says how far it moves.
# - [ ] the convolution stops with an error about its shapes :: A convolution takes any stride. Only `num_patches` does not fit any more.

# %% [markdown]
# ## Recap
#
# | what | shape | 32x32 colour, P = 4, D = 192 |
# |---|---|---|
# | images | (B, C, H, W) | (B, 3, 32, 32) |
# | patches, flattened | (B, N, P·P·C) | (B, 64, 48) |
# | E, as a matrix | (P·P·C, D) | (48, 192) |
# | E, as a convolution kernel | (D, C, P, P) | (192, 3, 4, 4) |
# | output of the convolution | (B, D, H/P, W/P) | (B, 192, 8, 8) |
# | tokens | (B, N, D) | (B, 64, 192) |
#
# - `reshape` groups numbers, it does not move them. Cutting patches needs axes to be moved.
# - One matrix E turns patches into tokens. A convolution with stride P does the same in one call.
#
# ## Further reading
#
# - Cordonnier, Loukas and Jaggi, *On the Relationship between Self-Attention and Convolutional Layers* (ICLR 2020), and Chen et
#   al., *Generative Pretraining from Pixels* (ICML 2020): see section 9 above.
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), section 3.1 and equation 1.
# - The einops tutorial, *Einops basics*: pictures for every pattern.
# - Trockman and Kolter, *Patches Are All You Need?* (2022): how far the patches alone carry.
