# ---
# title: "Patches: an image as a sentence"
# promise: "Cut an image into patches, and turn each into a token."
# part: "I. Build it"
# map: [patches, embed]
# goals:
#   - "Say why a Vision Transformer reads patches and not pixels, with numbers."
#   - "Cut a batch of images into patches, without a loop, and, for the curious, put it back together."
#   - "See at once when a `reshape` has scrambled an image."
#   - "Explain why a strided convolution is the same as cutting and multiplying, and test it."
#   - "Choose a patch size and know what it costs."
# ---

# %% [markdown]
# ## 1. What are the words of an image?
#
# A Transformer reads a *sequence*. A sentence is a list of words, and each word becomes one **token**, a vector of D numbers.
# An image has no words. What should its tokens be?
#
# Take a photo of the computer scientist Grace Hopper. Here are four pieces of it, from one pixel to the whole.
#
# > **Predict.** Which is the smallest piece that means something to you?

# %%
import torch
from einops import rearrange
from torch import nn

from vit_classroom import check, plots, table

photo = plots.sample_photo((224, 224))  # (3, 224, 224), uint8

# %% fold
lined = photo.clone()
lined[:, torch.arange(224) % 16 == 0] = 255  # white lines between patches of 16x16 pixels
lined[:, :, torch.arange(224) % 16 == 0] = 255
pieces = [photo[:, 72:73, 6:7], photo[:, 64:80, :16], photo[:, 56:112, :56], lined]
titles = [
    "a pixel, 1 of 50,176",
    "16x16 pixels, 1 of 196",
    "56x56 pixels, 1 of 16",
    "all 196 pieces of 16x16",
]
figure = plots.image_row(pieces, titles, "How much does a piece of an image say?")
plots.show(
    figure,
    "A white square, the points of a star, some stars on blue cloth, and a portrait before a flag under a grid of white lines.",
)

# %% [markdown]
# A pixel is only a colour. A piece of 16x16 pixels already shows a part of a star. The Vision Transformer (ViT)
# therefore cuts the image into squares of P x P pixels, the **patches**, and makes each patch one token. This gave the
# paper its title, *An image is worth 16x16 words*.
#
# The other reason is the cost. In self-attention (lesson 04) every token looks at every token. So N tokens need tables
# of N x N numbers, 4 bytes each.

# %% fold
rows = []
for name, num_tokens in [("pixels of 224x224", 224 * 224), ("patches of 16x16", (224 // 16) ** 2)]:
    rows.append([name, num_tokens, num_tokens**2, num_tokens**2 * 4 / 1e6])
table(rows, ["one token for each of the", "tokens", "numbers in one table", "MB"])

# %% [markdown] claim="rows[0][3] > 10_000 and 0.15 < rows[1][3] < 0.16" always
# With pixels, *one* table would need ten gigabytes. With patches it needs about 0.15 megabytes.
#
# How long is the sentence? An image of H x W pixels has H/P rows and W/P columns of patches. Section 3.1 of the paper writes
#
# $$N = \frac{H \cdot W}{P^2}$$
#
# Here P is the side of a patch in pixels, and N is the number of patches.
#
# **Your task.** Write `count_patches`. A size may be one number, for a square, or a pair (height, width). The line
# with `grid_size` is given. `grid_size` returns the number of rows and columns of patches, which is `(4, 6)` for an
# image of 32x48 pixels and P = 8, and raises an error if the patches do not fit exactly. Your function returns one
# number.

# %% exercise="vit_course.patches:count_patches" difficulty=1 minutes=3 hint="How many patches fit from top to bottom? How many fit from left to right? `rows` and `columns` are exactly these two numbers." hint2="Draw a table with 4 rows and 6 columns. How do you count its cells without counting one by one?"
from vit_course.patches import count_patches

count_patches = check(count_patches)

# %%
print("CIFAR-10, P = 4:", count_patches(32, 4))
print("ImageNet, P = 16:", count_patches(224, 16))
print("an image of 32x48 pixels, P = 8:", count_patches((32, 48), 8))

# %% [markdown]
# So the words of an image are its patches, and it has N = H·W / P² of them.
#
# ## 2. Can `reshape` cut an image?
#
# We want to turn images (B, C, H, W) into patches (B, N, P·P·C). Each patch becomes one flat row of P·P·C numbers. Why not
# use `reshape`? Try it on a tiny grey image whose pixels are numbered 0 to 15, with patches of 2x2.
#
# > **Predict.** Which four numbers belong in the upper left patch? And which four will `reshape` put there?

# %%
tiny = torch.arange(16).reshape(1, 1, 4, 4)
print("the image:")
print(tiny[0, 0])
print("reshape to 4 patches of 4 numbers:")
print(tiny.reshape(1, 4, 4)[0])

# %% [markdown]
# The numbers 0, 1, 4, 5 belong there, but `reshape` puts 0, 1, 2, 3, which is one *row* of the image.
#
# > **Key idea.** `reshape` never moves a number. It reads the numbers in the old order, the last axis fastest, and puts new
# > brackets around them.
#
# On a real image the mistake is hard to notice. The shape is right, the program runs, and a model would even learn a little.
# Only a look at the patches shows it.

# %%
portrait = plots.sample_photo((32, 32))[None]  # (1, 3, 32, 32)
wrong = portrait.reshape(1, 16, 8 * 8 * 3)

# %% fold
wrong_patches = [rearrange(row, "(p1 p2 c) -> c p1 p2", p1=8, p2=8) for row in wrong[0, :6]]
right_patches = [
    portrait[0, :, 8 * row : 8 * row + 8, 8 * i : 8 * i + 8]
    for row, i in ((0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2))
]
titles = [f"reshape: patch {i}" for i in range(6)] + [f"real: patch {i}" for i in (1, 2, 5, 6, 9, 10)]
figure = plots.image_row(
    wrong_patches + right_patches, titles, "Six patches by reshape alone, and six real ones", height=1.5
)
plots.show(
    figure,
    "Above, six squares of coloured noise and grey runs, in which nothing can be seen. Below, six real pieces from the middle of the "
    "portrait, with parts of a hat, a face and a collar.",
)

# %% [markdown]
# So `reshape` cannot cut an image. Its "patch 0" has 192 numbers, but one row of one channel has only 32. So it contains six
# rows of *red*, and no green or blue.
#
# ## 3. How do we cut an image?
#
# Patches are read from left to right and from top to bottom. Inside a patch the order is **(row, column, channel)**, so the
# three colours of one pixel stay together.

# %% fold
figure = plots.patch_grid(portrait[0], 8, "In which order are the patches read?")
plots.show(
    figure, "The portrait cut into 4 by 4 numbered patches, 0 at the upper left, 15 at the lower right."
)

# %% [markdown]
# How do we bring the numbers into this order? Group the height into rows of the grid and rows inside a patch. In einops you
# write this as `(h p1)`, one long axis that *is* two axes, and the first varies slowly. The width is `(w p2)`.
#
#     images    b  c  (h p1)  (w p2)
#     patches   b  (h w)  (p1 p2 c)
#
# To cut means to bring the two grid axes h and w together, and after them the axes inside a patch. Here are the six axes one
# by one. The 4x4 image becomes a 2x2 grid of 2x2 patches.

# %%
grid = rearrange(tiny, "b c (h p1) (w p2) -> b h w p1 p2 c", p1=2, p2=2)
print("shape (B, h, w, p1, p2, C):", tuple(grid.shape))
print("the patch in row 0, column 1 of the grid:", grid[0, 0, 1, :, :, 0].tolist())

# %% [markdown]
# **Your task.** Write `patchify`. The lines that reject wrong sizes are given. Any way that gives the right numbers is right,
# for example `rearrange`, `reshape` with `permute`, or `Tensor.unfold`. If something is scrambled, the check tells you *how*.

# %% exercise="vit_course.patches:patchify" difficulty=2 minutes=12 hint="Start from the pattern with six axes above, `b h w p1 p2 c`. Which of these axes count patches, and which are inside one patch?" hint2="The right side has two pairs of brackets, one for the axes that count patches and one for the axes inside a patch. The docstring says in which order. einops needs to know p1 and p2, and it works out h and w by itself."
from vit_course.patches import patchify

patchify = check(patchify)

# %%
patches = patchify(portrait, 8)
print("patches:", tuple(patches.shape), "= (B, N, P·P·C)")

# %% [markdown]
# So one `rearrange` cuts a whole batch. The model receives the patches as a list. It is *not* told that patch 4 is below
# patch 0 (lesson 03).
#
# ## 4. Why does the ViT of lesson 00 stumble every 4 pixels?
#
# It made mistakes when a drawing was moved by 2 or 6 pixels, but few when it was moved by 4 or 8. Its patches have P = 4.
# Move the portrait to the right and count how many of the moved image's 64 patches also occur in the original.
#
# > **Predict.** How many patches are the same after a move by 1, 2, 3 and 4 pixels?

# %%
before = patchify(portrait, 4)[0]  # (64, 48)
counts = []
for shift in range(9):
    after = patchify(portrait.roll(shift, dims=-1), 4)[0]
    same = (after[:, None] == before).all(dim=2).any(dim=1)  # (64,), whether a patch occurs before
    counts.append(same.sum().item())
    print(f"moved by {shift} pixels: {counts[-1]:2} of 64 patches are the same")

# %% [markdown] claim=["counts == [0 if shift % 4 else 64 for shift in range(9)]"] always
# After a move by 4 or 8 pixels all 64 patches are the same. They only have other places in the list. After any other move,
# every patch is new, because the grid cuts the image at other pixels. So a move by P changes the places of the words, and a
# move by less changes the words themselves. This is why the curve of lesson 00 repeats every 4 pixels.

# %% [markdown] curious
# ## 5. Can we get the image back?
#
# If `unpatchify` undoes `patchify` exactly, no pixel is lost and none is in the wrong place. Lesson 09 uses
# `unpatchify` to hide patches, and lesson 13 to fill in missing ones. If you skip this section, both use the finished
# one.
#
# **Your task.** Write `unpatchify`. A list of 12 patches may come from a grid of 3 x 4 or of 2 x 6, so the grid is an
# argument. The number of channels follows from the length of a patch. The lines that reject wrong sizes are given.

# %% exercise="vit_course.patches:unpatchify" difficulty=2 minutes=8 hint="Read the einops pattern of `patchify` from right to left. Its result is now the input." hint2="A bracket on the left can be split when all its letters but one are known. Which letters do you know from `grid_size` and `patch_size`? einops works out the last one."
from vit_course.patches import unpatchify

unpatchify = check(unpatchify)

# %%
back = unpatchify(patches, 8, grid_size=(4, 4))
print("every pixel is back:", torch.equal(back, portrait))

# %% [markdown]
# So no pixel is lost. Between the two functions we can change the patches. Here the list is shuffled. A person sees at once
# that something is wrong. Would the model? Keep the question for lesson 03.

# %% fold
words = patchify(photo[None], 32)
shuffled = words[:, torch.randperm(words.shape[1], generator=torch.Generator().manual_seed(0))]
figure = plots.image_row(
    [photo, unpatchify(shuffled, 32, (7, 7))[0]],
    ["49 patches in order", "the same 49 patches, shuffled"],
    "The same patches, another order",
)
plots.show(figure, "Left the portrait, right the same 49 patches in random order, like a puzzle.")

# %% [markdown]
# ## 6. How does a patch become a token?
#
# A patch is a row of P·P·C numbers, for example 48 numbers for P = 4 and three channels. The Transformer works with tokens of
# width D, and we choose D. It is 768 in the smallest model of the paper. One matrix E, the same for every patch, turns a row
# of P·P·C numbers into a token of D numbers. This is the first half of equation 1 of the paper:
#
# $$[\,x_p^1 E;\; x_p^2 E;\; \cdots;\; x_p^N E\,], \qquad E \in \mathbb{R}^{(P^2 C) \times D}$$
#
# - $x_p^i$ is patch number i, a row of P²·C numbers.
# - E is the **patch embedding** matrix. It is learned like every other weight.
# - $x_p^i E$ is the token, a row of D numbers.

# %% fold
from vit_classroom.exhibits.patch_matrix import patch_times_matrix

random_matrix = torch.randn(192, 48, generator=torch.Generator().manual_seed(0))
figure = patch_times_matrix(portrait[0], patches[0], random_matrix, followed=6)
plots.show(
    figure,
    "A portrait cut into 16 patches, and patch 6 is marked. A matrix of 16 rows and 192 columns, and row 6 is marked. Times a matrix E of "
    "192 rows and 48 columns, this gives a matrix of 16 rows and 48 columns. Its row 6 is token 6.",
)

# %% [markdown]
# A row of the patch matrix times E gives one token. All patches use the same E, and no patch sees another one here.
#
# Language models use `nn.Embedding` in this place. It is a *table* with one row for each word of a fixed vocabulary. Patches
# have no vocabulary, because a 4x4 patch in colour can have $256^{48}$ different values. Also, nearly equal patches should
# get nearly equal tokens. A matrix does this by itself.
#
# So a patch becomes a token by one multiplication with E.
#
# ## 7. Why do most implementations use a convolution?
#
# Most ViTs contain no `patchify`, but `nn.Conv2d(3, D, kernel_size=P, stride=P)`. So is a ViT really a model without
# convolutions?
#
# The kernel of this convolution is as large as a patch. It starts at the upper left patch, multiplies the P·P·C numbers
# by D sets of weights, and writes D numbers. Then it moves on by its stride of P pixels, to the next patch. This *is*
# "cut into patches, multiply each by E". The kernel contains E in another order, and the layer adds a bias, which
# equation 1 leaves out.
#
# > **Trap.** The convolution returns a grid, (B, D, rows, columns). A `reshape` alone to (B, N, D) scrambles the
# > numbers, as in section 2.
#
# **Your task.** Write the class `PatchEmbed`.
#
# - `__init__` begins with `super().__init__()`. It keeps `self.img_size`, `self.patch_size` and `self.grid_size` as pairs (`as_pair(4)` is `(4, 4)`),
#   and `self.num_patches`. It also makes `self.proj`, the convolution, with its bias.
# - `forward` projects, and turns the grid (B, D, rows, columns) into a sequence (B, N, D). The line that rejects wrong shapes
#   is given.

# %% exercise="vit_course.patches:PatchEmbed" difficulty=2 minutes=15 hint="The convolution returns (B, D, rows, columns). Which axis must come last? A `reshape` alone cannot move it there." hint2="In `__init__`, the convolution has `in_chans` channels in and `embed_dim` channels out, and both its kernel and its stride are the patch size. In `forward`, first make one axis of rows and columns, then let it change places with D."
from vit_course.patches import PatchEmbed

PatchEmbed = check(PatchEmbed)

# %% [markdown]
# Is it really the same? Copy the weights of the convolution into a linear layer. The kernel has the axes (D, C, P, P), and a
# patch is flattened as (P, P, C).

# %%
embed = PatchEmbed(img_size=32, patch_size=4, in_chans=3, embed_dim=192)
linear = nn.Linear(4 * 4 * 3, 192)
with torch.no_grad():
    linear.weight.copy_(rearrange(embed.proj.weight, "d c p1 p2 -> d (p1 p2 c)"))
    linear.bias.copy_(embed.proj.bias)
images = torch.rand(8, 3, 32, 32)
with torch.no_grad():
    tokens, by_patches = embed(images), linear(patchify(images, 4))
difference = (tokens - by_patches).abs().max().item()
print("equal up to rounding (below 0.00001):", difference < 1e-5)

# %% [markdown] claim="difference < 1e-5" always
# Both do the same work. Implementations use the convolution because it is a single call.
#
# A convolution with overlapping windows mixes neighbours. Does this one? Paint one patch black, and see which tokens change.
#
# > **Predict.** How many of the 64 tokens will change?

# %%
painted = images.clone()
painted[:, :, 8:12, 20:24] = 0  # row 2, column 5 of the grid
with torch.no_grad():
    changed = (embed(painted) - tokens).abs().amax(dim=2) > 1e-3  # (8, 64)
print("tokens that change in image 0:", changed[0].nonzero().flatten().tolist())

# %% [markdown] claim="changed.nonzero()[:, 1].tolist() == [2 * 8 + 5] * 8" always
# Only token 21 changes, because 2·8 + 5 = 21. So a token knows its own patch and nothing else.
#
# ## 8. Which patch size?
#
# P changes the length of the sentence, N = H·W / P², and with it the attention table of N x N numbers. It also changes the
# size of E, which has P²·C·D numbers.
#
# > **Predict.** You halve P. How many times larger does the attention table become: 2, 4, 8 or 16 times?

# %%
sides = [1, 2, 4, 8, 16, 32]
num_tokens = [count_patches(32, side) for side in sides]
rows = [[side, n, n * n, side * side * 3 * 192] for side, n in zip(sides, num_tokens, strict=True)]
table(rows, ["P", "tokens N", "attention table N²", "numbers in E (D = 192)"])

# %% [markdown] claim="all(small[2] == 16 * large[2] for small, large in zip(rows, rows[1:]))" always
# It becomes 16 times larger, because there are four times the number of tokens, and the table is their square. Some texts
# call this growth "exponential". It is a power, which is bad enough.
#
# So small patches show more detail and cost more. The paper uses P = 14, 16 or 32 on images of 224 pixels, this course mostly
# 4 or 8. Lesson 10 measures which size is worth its cost.

# %% [markdown] curious
# ## 9. What is left of an image at one colour for each patch?
#
# A mosaic replaces every patch by its mean colour. A token has far more numbers than that.


# %% fold
def draw_mosaic(patch_side):
    """Show the photo with every patch replaced by its mean colour, and the numbers that go with it."""
    from vit_classroom.numbers import number

    colours = rearrange(patchify(photo[None].float(), patch_side), "b n (p c) -> b n p c", c=3)
    mean = colours.mean(dim=2, keepdim=True).expand_as(colours)
    side, count = 224 // patch_side, count_patches(224, patch_side)
    mosaic = unpatchify(rearrange(mean, "b n p c -> b n (p c)"), patch_side, (side, side))
    titles = ["the photo", f"P = {patch_side}, N = {count:,}, N² = {number(count**2)}"]
    figure = plots.image_row([photo, mosaic[0] / 255], titles, "What is left at one colour for each patch?")
    plots.show(figure, f"The photo, and the photo as a mosaic of {count} squares of one colour.")


draw_mosaic(16)

# %% [markdown]
# At P = 16 you still see a person. Move the slider. At which size does she disappear?

# %% fold tags=["nbval-ignore-output"]
plots.slider(draw_mosaic, patch_side=[8, 14, 16, 28, 32, 56])

# %% [markdown]
# Patches need not be square, and images need not have colours. Your functions take (height, width), and `in_chans=1` makes a
# model for grey images. If a size does not fit, the error names the numbers.

# %%
from textwrap import fill

wide_grey = torch.rand(2, 1, 24, 40)
print(tuple(PatchEmbed(img_size=(24, 40), patch_size=8, in_chans=1, embed_dim=64)(wide_grey).shape))

for attempt in [lambda: count_patches((30, 32), 4), lambda: embed(torch.rand(1, 1, 32, 32))]:
    try:
        attempt()
    except ValueError as error:
        print(fill(f"ValueError: {error}", 90))

# %% [markdown] curious
# ## 10. Who had tried attention on images before?
#
# Several groups had, and all met the same problem. With one token for each pixel, the attention table is too large. They
# solved it in three ways:
#
# - Each pixel attends to a part of the image only. In the **Image Transformer** (2018) and **stand-alone self-attention**
#   (2019) it is the neighbourhood, in **axial attention** (2019) the row and the column.
# - The image becomes smaller. **iGPT** (2020) also reduced the number of colours, and predicted the image pixel by pixel.
# - Patches become tokens. **Cordonnier and others** (2020) used patches of 2x2 pixels, which is enough for small images only.
#
# The ViT kept the patches, made them larger, left the Transformer unchanged, and trained on far more images.

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
    "Five grids with a white token near the middle. It sees a square of neighbours, a cross of row and column, all that "
    "comes before it in reading order, and twice everything, in patches of 2 by 2 and of 4 by 4 pixels.",
)

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# An image of 64x64 pixels, P = 8. A program sets `num_patches = (64 // 8) ** 2` and then makes a token for each of
# `num_patches ** 2` patches. How many patches does the image have?
#
# - [ ] 8 :: That is the number along one side, W/P. The grid has H/P rows too.
# - [x] 64 :: The grid is 8 x 8, so N = H·W/P².
# - [ ] 4,096 :: The program makes this many. `num_patches` is a square already, and the program squares it once more.

# %% [markdown] quiz
# Somebody writes: "The embedded image has the shape N x D x P²." What is its shape, and what became of P²?
#
# - [ ] N x D x P², as it is written :: That would keep the pixels beside the D numbers, but E has used them up.
# - [x] N x D, because the pixels of a patch are summed up with weights :: Each of the D numbers is a weighted sum of all P²·C numbers of a patch.
# - [ ] N x P², because the embedding keeps all the pixels of a patch :: That is the shape of the patches before E, of a grey image.

# %% [markdown] quiz
# A classmate writes `images.reshape(B, N, P*P*3)`. The shapes are right and the loss goes down. What is wrong?
#
# - [ ] nothing, because the loss goes down :: A model can learn a little even from scrambled input. A falling loss proves nothing.
# - [x] each "patch" is a run of rows :: `reshape` keeps the order of reading, row after row and channel after channel, so most "patches" hold numbers of one channel only.
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
# - [x] there are about four times as many tokens as before :: The windows move by half a patch in both directions, so neighbours share pixels. Some later models do this on purpose.
# - [ ] each token contains a quarter of the pixels it had :: The kernel still covers P x P pixels. The stride says how far it moves.
# - [ ] the convolution stops with an error about its shapes :: A convolution takes any stride. Only `num_patches` does not fit any more.

# %% [markdown]
# ## Recap
#
# | tensor | shape | 32x32 colour, P = 4, D = 192 |
# |---|---|---|
# | images | (B, C, H, W) | (B, 3, 32, 32) |
# | patches, flattened | (B, N, P·P·C) | (B, 64, 48) |
# | E | (P·P·C, D) | (48, 192) |
# | output of the convolution | (B, D, H/P, W/P) | (B, 192, 8, 8) |
# | tokens | (B, N, D) | (B, 64, 192) |
#
# - `reshape` groups numbers and does not move them. To cut patches, axes must move.
# - One matrix E turns patches into tokens. A convolution with stride P does the same in one call.
# - A token knows its own patch and nothing else.
#
# ## Further reading
#
# - Cordonnier, Loukas and Jaggi, *On the Relationship between Self-Attention and Convolutional Layers* (ICLR 2020), and Chen
#   et al., *Generative Pretraining from Pixels* (ICML 2020): see section 10 above.
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), section 3.1 and equation 1. The paper does not state the
#   order inside a patch. Its notation P²·C suggests ours, and the authors' weights are stored as (P, P, C, D).
# - The einops tutorial, *Einops basics*: pictures for every pattern.
# - Trockman and Kolter, *Patches Are All You Need?* (2022): how far the patches alone carry.
#
# **Next.** Ask a token what the whole image shows, and it cannot know. It has seen 1 patch of 64. Who speaks for the image?
# Lesson 02 adds a token for this task.
