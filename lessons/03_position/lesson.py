# ---
# title: "Position: where is this patch?"
# promise: "Show that a Transformer cannot see patch order, then add positions."
# part: "I. Build it"
# map: [position]
# goals:
#   - "Measure whether a model sees the order of its tokens."
#   - "Write the learned table of positions, and the module that makes the input of the encoder."
#   - "Explain exactly what a model without positions can reach, and why no training helps."
#   - "Name the only two places where a Vision Transformer knows that an image has rows and columns."
#   - "For the curious: stretch trained positions to a larger image."
# recall:
#   "01.1": "A program loops over `num_patches ** 2` patches of a 64x64 image, where `num_patches = (64 // 8) ** 2`. How many patches are there really?"
#   "02.1": "B images of 64 patches are embedded with D = 192, and CLS is put in front. Which shape do their tokens have now?"
#   "02.2": "A trained model gives two images different answers. Which CLS token was nevertheless equal for both?"
# ---

# %% [markdown]
# ## 1. Does a Transformer see that this is a puzzle?
#
# At the end of lesson 02 you shuffled the patches of an image, and the CLS token gave the same answer. Why? Here are the patches
# of a photo, and the same patches in another order. A person sees at once that something is wrong.

# %%
from dataclasses import replace

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vit_classroom import check, plots, table
from vit_classroom.numbers import percent
from vit_classroom.profiles import get_profile
from vit_course.data import shapes10
from vit_course.embeddings import prepend_cls_token
from vit_course.encoder import Encoder
from vit_course.patches import PatchEmbed, patchify, unpatchify
from vit_course.train import TrainConfig, train

photo = plots.sample_photo((224, 224))[None]  # (1, 3, 224, 224)
order = torch.randperm(49, generator=torch.Generator().manual_seed(0))
puzzle = unpatchify(patchify(photo, 32)[:, order], 32, (7, 7))
titles = ["49 patches in order", "the same patches, shuffled"]
figure = plots.image_row([photo[0], puzzle[0]], titles, "Are these two images the same?")
plots.show(figure, "On the left a portrait, on the right the same 49 square patches in random order.")

# %% [markdown]
# The CLS token is only one of the tokens that leave the encoder. What happens to the others? The encoder is still a closed
# box. Tokens (B, T, D) go in, and tokens (B, T, D) come out. T is the number of tokens, here 49 patches and CLS. The numbers are
# float64, so that rounding cannot hide a difference.
#
# > **Predict.** The first patch of the puzzle comes from another place of the photo. What comes out for it? Is it what the photo
# > gives for its own first patch, for the patch at that other place, or neither?

# %%
torch.manual_seed(0)
embed = PatchEmbed(img_size=224, patch_size=32, in_chans=3, embed_dim=96).double()
cls_token = torch.randn(1, 1, 96).double()
encoder = Encoder(depth=3, dim=96, num_heads=3).double().eval()

with torch.no_grad():
    tokens = prepend_cls_token(embed(photo.double() / 127.5 - 1), cls_token)  # (1, 50, 96)
    shuffled = prepend_cls_token(embed(puzzle.double() / 127.5 - 1), cls_token)
    out, out_puzzle = encoder(tokens)[0], encoder(shuffled)[0]  # (50, 96)

moved = order[0].item()  # the patch of the photo that is first in the puzzle
pairs = {
    "CLS of the puzzle, CLS of the photo": (out_puzzle[0], out[0]),
    "patch 0 of the puzzle, patch 0 of the photo": (out_puzzle[1], out[1]),
    f"patch 0 of the puzzle, patch {moved} of the photo": (out_puzzle[1], out[1 + moved]),
}
differences = [(one - other).abs().max().item() for one, other in pairs.values()]
rows = [[name, f"{gap:.3f}"] for name, gap in zip(pairs, differences, strict=True)]
table(rows, ["outputs", "largest difference"])

# %% [markdown] claim="differences[0] < 1e-12 and differences[1] > 0.1 and differences[2] < 1e-12" always
# It is what the photo gives for the patch at that other place. Every output moves along with its patch. CLS did not move, and it
# is the same for the photo and for the puzzle.
#
# Why? Some steps inside the box treat every token by itself. The other step, attention, takes weighted sums over all tokens, and a
# sum does not depend on the order of its terms.
#
# > **Key idea.** Without positions a Transformer reads a bag of patches. A portrait and its puzzle are the same to it.
#
# This property is called **permutation equivariance**.
#
# $$f(x_\pi) = f(x)_\pi$$
#
# Here $x$ holds the tokens, with the shape (B, T, D), and $f$ is the encoder. A **permutation** $\pi$ is a list of T indices,
# the new order, and $x_\pi$ is `x[:, permutation]`. So it makes no difference whether we shuffle before or after the encoder.
#
# **Your task.** Write `equivariance_gap`, the shuffle experiment. It computes both sides of the equation and returns their
# largest absolute difference, as a plain number.

# %% exercise="vit_course.interpret:equivariance_gap" difficulty=1 minutes=8 hint="You need two results. One is the encoder on shuffled tokens. The other is the encoder on the tokens in order, and its result is shuffled afterwards. Tokens are axis 1." hint2="`tokens[:, permutation]` shuffles the tokens of every image, and the same index shuffles a result. A tensor with one number becomes a plain number by `.item()`."
from vit_course.interpret import equivariance_gap

equivariance_gap = check(equivariance_gap)

# %% [markdown]
# Test three boxes. The running sum adds to each token all tokens before it. The convolution mixes each token with its two
# neighbours in the list.
#
# > **Predict.** Which of the three see the order?

# %%
permutation = torch.cat([torch.tensor([0]), 1 + order])  # CLS keeps its index
neighbours = nn.Conv1d(96, 96, kernel_size=3, padding=1).double()
boxes = {
    "encoder": encoder,
    "running sum": lambda x: x.cumsum(dim=1),
    "convolution": lambda x: neighbours(x.transpose(1, 2)).transpose(1, 2),
}
gaps = {name: equivariance_gap(box, tokens, permutation) for name, box in boxes.items()}
rows = [[name, round(gap, 3), "yes" if gap > 1e-12 else "no"] for name, gap in gaps.items()]
table(rows, ["box", "gap", "sees the order"])

# %% [markdown] claim="[name for name, gap in gaps.items() if gap < 1e-12] == ['encoder']" always
# The encoder is the only one that does not see the order. So we write the order into the tokens before they enter it.
#
# ## 2. How do we tell a token where it is?
#
# The paper gives every position a vector of its own, and *adds* it to the token. This completes equation 1, the input of the
# encoder.
#
# $$z_0 = [\,x_{class};\; x_p^1 E;\; \cdots;\; x_p^N E\,] + E_{pos}, \qquad E_{pos} \in \mathbb{R}^{(N+1) \times D}$$
#
# - $x_{class}$ is the CLS token, and $x_p^i E$ is the token of patch i. Each has D numbers.
# - $E_{pos}$ is the **position embedding**, a table with one row for each of the N + 1 tokens. CLS has a row too.
# - $z_0$, of shape (N + 1, D), enters the encoder. The sum has the same width D as its two parts.
#
# Each row of the table is *learned*. It starts with small random numbers, with a standard deviation (std) of 0.02, so that at
# first it hides nothing of the patch.
#
# **Your task.** Write `learned_positions`, which makes this table. Lesson 02 told you what a tensor must be so that the optimiser
# gets it.

# %% exercise="vit_course.embeddings:learned_positions" difficulty=1 minutes=6 hint="Draw one random vector of D numbers for each of the T tokens, and keep an axis of size 1 in front, for the batch. What makes a tensor something that a model learns?" hint2="`torch.randn` draws numbers with a standard deviation of 1. What must you multiply them by? An `nn.Parameter` must be made last, because a number times a parameter is a plain tensor again."
from vit_course.embeddings import learned_positions

learned_positions = check(learned_positions)

# %% [markdown]
# One table serves all images of the batch. When PyTorch adds (B, T, D) and (1, T, D), it uses the axis of size 1 again for every
# image. This is called **broadcasting**.
#
# > **Trap.** A table of shape (1, 1, D) would be broadcast as well. All tokens would silently get the same vector, and the model
# > would again see no positions.
#
# Why add the vector, and not put it beside the token? **Concatenation**, putting vectors side by side, would make every token
# wider, and every matrix that multiplies it. Adding is cheaper, and it loses little. Among D directions, training can use some for
# the content of a patch and others for its position.
#
# **Your task.** Write the class `EncoderInput`, all of equation 1 after the patch embedding.
#
# - After `super().__init__()`, `__init__` makes `self.cls_token` and `self.pos_embed`. How many rows does the table
#   need for N patches?
# - `forward` turns patch tokens (B, N, D) into $z_0$, of shape (B, N + 1, D). Which comes first, the CLS token or the sum?
#
# The lines that reject another number of patches are given.

# %% exercise="vit_classroom.exhibits.encoder_input:EncoderInput" difficulty=2 minutes=10 hint="Read equation 1 from left to right. The brackets join CLS and the patches, and the sum comes after the brackets. So what has N + 1 rows, and what still has N?" hint2="In `__init__` you need two things that you have written before, the parameter of lesson 02 and the table of `learned_positions`. In `forward`, `prepend_cls_token` makes (B, N + 1, D), and one sum is left."
from vit_classroom.exhibits.encoder_input import EncoderInput

EncoderInput = check(EncoderInput)

# %% [markdown]
# Does it help? Put your module in front of the encoder, and ask whether the two together see the order of the patches. A grey
# image is a second test, because all its patches are equal.
#
# > **Predict.** Are the tokens of two grey patches still equal after your module?

# %%
enter = EncoderInput(49, 96).double()
patch_tokens = tokens[:, 1:]  # (1, 49, 96)
gap = equivariance_gap(lambda x: encoder(enter(x))[:, 1:], patch_tokens, order)
print(f"with positions: gap {gap:.3f}, sees the order: {gap > 1e-12}")
with torch.no_grad():
    grey = embed(torch.zeros(1, 3, 224, 224).double())
    placed = enter(grey)[:, 1:]
print(
    "patches 3 and 40 of a grey image, before:",
    "equal" if torch.equal(grey[0, 3], grey[0, 40]) else "different",
)
print("after the positions are added:", "equal" if torch.equal(placed[0, 3], placed[0, 40]) else "different")

# %% [markdown] claim=["gap > 1e-12", "torch.equal(grey[0, 3], grey[0, 40]) and not torch.equal(placed[0, 3], placed[0, 40])"] always
# They are different. Two equal patches at two places are two different tokens, so the order matters even before any training.
#
# Two learned vectors meet at index 0, the CLS token and its position.
#
# > **Predict.** They are always added. Do their gradients differ?

# %%
loss = (encoder(enter(patch_tokens))[:, 0] * torch.randn(96).double()).sum()  # reads CLS on its way out
loss.backward()
same_gradient = torch.allclose(enter.cls_token.grad[0, 0], enter.pos_embed.grad[0, 0])
print("CLS token and position 0 get the same gradient:", same_gradient)

# %% [markdown] claim="same_gradient and enter.cls_token.grad.abs().max() > 0" always
# They do not differ. So if you forget to make the CLS token a parameter, position 0 learns in its place, and the loss falls as
# usual. This is why that mistake can stay hidden for months.
#
# ## 3. What can a model not learn without positions?
#
# Ask a question about place. Each image shows a shape of Shapes-10, in grey, in one of the four corners. *Which corner is it?*
# A child answers at once. Every shape appears in all four corners, so the shape itself gives nothing away.

# %%
small = shapes10(train=300, test=100, image_size=16)
corners = ("top left", "top right", "bottom left", "bottom right")


def in_corners(images):
    """Put each image into the four corners of a black one twice as large; the label is the corner."""
    first = F.pad(images.float().mean(dim=1, keepdim=True).to(torch.uint8), (0, 16, 0, 16))
    moves = ((0, 0), (0, 16), (16, 0), (16, 16))  # down, right
    labels = torch.arange(4).repeat_interleave(len(images))
    return torch.cat([first.roll(move, dims=(2, 3)) for move in moves]), labels


train_images, train_labels = in_corners(small.train_images)
test_images, test_labels = in_corners(small.test_images)
task = replace(
    small,
    train_images=train_images,
    train_labels=train_labels,
    test_images=test_images,
    test_labels=test_labels,
    classes=corners,
    provenance=f"{small.provenance}; each image in four corners, in grey",
)
print("training images", tuple(train_images.shape), " test images", tuple(test_images.shape))

# %% fold
figure = plots.image_row(
    list(test_images[::100]), corners, "One shape in four images: in which corner is it?", height=1.5
)
plots.show(figure, "The same small grey shape four times on black, each time in another corner of the image.")

# %% [markdown]
# The model is made of parts that you know, with the closed box of two layers between them. Without positions, the table holds
# zeros and does not learn. Adding zeros changes nothing.


# %%
class CornerReader(nn.Module):
    """Reads in which corner the shape is, with positions or without."""

    def __init__(self, with_positions):
        super().__init__()
        self.embed = PatchEmbed(img_size=32, patch_size=8, in_chans=1, embed_dim=64)
        self.enter = EncoderInput(16, 64)
        if not with_positions:
            nn.init.zeros_(self.enter.pos_embed).requires_grad_(False)
        self.encoder = Encoder(depth=2, dim=64, num_heads=2)
        self.head = nn.Linear(64, 4)

    def forward(self, images):
        return self.head(self.encoder(self.enter(self.embed(images)))[:, 0])


# %% [markdown]
# > **Predict.** Both models are trained in the same way. A model that guesses is right on 25 % of the images. How often will
# > each model be right on new images?

# %% tags=["nbval-ignore-output"]
epochs = get_profile().pick(smoke=1, cpu=8, gpu=8)
config = TrainConfig(epochs=epochs, batch_size=50, lr=3e-3, device="cpu", precision="float32", quiet=True)


def train_reader(with_positions, data=task):
    """Train a model on the corners; return it and its test accuracy."""
    torch.manual_seed(0)
    reader = CornerReader(with_positions)
    return reader, train(reader, data, config).test_accuracy


_, blind = train_reader(with_positions=False)
reader, sighted = train_reader(with_positions=True)
table(
    [["without positions", percent(blind)], ["with positions", percent(sighted)]],
    ["model", "right on new images"],
)

# %% [markdown] claim=["abs(blind - 0.25) < 0.01", "sighted > 0.9"]
# With positions the model finds nearly every corner. Without them it is right on exactly 25 % of the images.
#
# The 25 % is not bad luck. The four images of a shape contain the *same patches*, so the model gives the same answer to all four,
# and exactly one of the four is right. No training can change this.
#
# ## 4. Does the model know that an image has rows and columns?
#
# The table is numbered along the list of patches. Nothing in it says that patch 4 is below patch 0, because its rows
# start as random numbers. If that is true, the model should not care *how* the patches are numbered. So we shuffle the
# patches of every image, training and test, in one and the same order. A person can hardly see the corner any more.

# %% fold
fixed = torch.randperm(16, generator=torch.Generator().manual_seed(1))


def scramble(images):
    """Shuffle the patches of each image, in the same order for all."""
    return unpatchify(patchify(images, 8)[:, fixed], 8, (4, 4))


scrambled = replace(task, train_images=scramble(train_images), test_images=scramble(test_images))
figure = plots.image_row(
    list(scrambled.test_images[::100]), corners, "The same four images, all shuffled in one order", height=1.5
)
plots.show(
    figure, "Four black images with the parts of a grey shape, spread over the image in four different ways."
)

# %% [markdown]
# > **Predict.** We train the model with positions on these puzzles. Will its accuracy be near 25 %, as high as before, or
# > between?

# %% tags=["nbval-ignore-output"]
_, puzzled = train_reader(True, scrambled)
print(f"in order: {percent(sighted)}, shuffled in one order: {percent(puzzled)} right on new images")

# %% [markdown] claim="puzzled > 0.9"
# As high as before. The puzzle is as easy as the image, because to this model the numbers of the patches are only
# names. The model must learn from images which positions belong together.
#
# Has it? We compare the position vectors of the model that saw the images in order. **Cosine similarity** is 1 if two
# vectors point the same way, 0 if they are at a right angle, and -1 if they are opposite. For this task the four patches of a
# corner mean the same.
#
# > **Predict.** Which of the 16 positions will be similar to the one at the top left?


# %% tags=["nbval-ignore-output"]
def similarity(vectors):
    """Cosine similarity of every pair of rows, (T, D) -> (T, T)."""
    unit = F.normalize(vectors.detach().float(), dim=-1)
    return unit @ unit.T


torch.manual_seed(0)
before = similarity(
    CornerReader(True).enter.pos_embed[0, 1:]
)  # the same random table as at the start of training
after = similarity(reader.enter.pos_embed[0, 1:])  # (16, 16)
row, column = torch.arange(16) // 4, torch.arange(16) % 4
corner = 2 * (row // 2) + column // 2  # of each of the 16 patches
together = (corner[:, None] == corner) & ~torch.eye(16, dtype=torch.bool)
apart = corner[:, None] != corner
print(f"same corner {after[together].mean():.2f}, another corner {after[apart].mean():.2f}")

# %% fold tags=["nbval-ignore-output"]
figure = plots.heat_maps(
    [before[0].reshape(4, 4), after[0].reshape(4, 4)],
    ["before training", "after training"],
    "How similar is each position to the one at the top left?",
    "cosine similarity",
    xlabel="column",
    ylabel="row",
)
plots.show(
    figure,
    "Two maps of 4 by 4 positions. Before training the top left is similar only to itself. After training it is also similar to "
    "the other positions of its corner.",
)

# %% [markdown] claim="after[together].mean() > after[apart].mean() + 0.2 and before[together].mean().abs() < 0.2"
# Positions in the same corner have become similar. The model learned only what this task needs. In the paper's image classifier
# the pattern is richer. Each position resembles the others in its row and column (Figure 7, centre). In lesson 09 you will make
# the same plot for two models of this course.
#
# So where does a Vision Transformer know that an image has two dimensions? In two places only, as the paper says.
#
# 1. **Patches.** We cut squares, so the pixels of one token are neighbours in the image.
# 2. **Interpolation.** When a trained model gets a larger image, there are more patches than position vectors. The table is laid
#    out as a grid and stretched in two dimensions (section 5).
#
# Everything else about space is learned. A position can also be *computed* from its row and column. Think of a clock. The
# second hand tells neighbouring moments apart, and the hour hand tells morning from noon. The Transformer of 2017 used such hands,
# sines and cosines of several frequencies. The function `sincos_2d` does this for rows and columns, and needs no training.

# %%
from vit_course.embeddings import sincos_2d

torch.manual_seed(0)
learned, computed = learned_positions(64, 96)[0], sincos_2d((8, 8), 96)  # (64, 96) each, for 8x8 patches

# %% fold
figure = plots.map_grid(
    [rearrange(similarity(x), "(r c) (h w) -> r c h w", r=8, h=8) for x in (learned, computed)],
    ["learned positions before training", "sines and cosines"],
    "How similar is each position of an 8x8 grid to all others?",
    "cosine similarity",
)
plots.show(
    figure,
    "Two grids of 8 by 8 small maps. On the left each map is one bright point in noise. On the right each map is bright around "
    "its own place, with arms along its row and column.",
)

# %% [markdown] claim=["similarity(learned)[0, 1:].abs().max() < 0.5", "similarity(computed)[0, 1] > similarity(computed)[0, 5] and 0.7 < similarity(computed).min() < 0.8"] always
# The small map in row 2, column 5 shows how similar all 64 positions are to position (2, 5). Computed positions know
# their neighbours from the start. The two colour scales differ, because even the least similar computed positions are
# above 0.7. The paper's learned positions know nothing at the start, and still they learn what they need. Lesson 10
# compares the two kinds.

# %% [markdown] curious
# ## 5. A larger image: where do the new positions come from?
#
# A model trained on 32x32 pixels with P = 4 has 8x8 patches. On 48x48 pixels there are 12x12. E still fits, and
# attention takes any number of tokens. But the table has 65 rows, and we need 145.
#
# The paper stretches the trained table (section 3.2). The N position vectors become an image of D channels, and this image is
# enlarged by **interpolation**, which computes new values between known ones. CLS has no place in the image, so its vector is
# kept apart and put back in front.
#
# (1, 1 + N, D) → CLS (1, 1, D) and grid (1, D, rows, columns) → (1, D, rows', columns') → (1, 1 + N', D)
#
# `F.interpolate` does the middle step. It takes an image and the wanted `size`. With `mode="bicubic"` it draws smooth curves between
# the known values, `antialias=True` averages where a grid shrinks, and `align_corners=False` keeps the edges in place.
#
# > **Trap.** Do not interpolate the list. The last patch of a row and the first of the next row are neighbours only in the list.
#
# **Your task.** Write `resample_pos_embed`, with these settings. Pass on its arguments `mode` and `antialias`.

# %% exercise="vit_course.embeddings:resample_pos_embed" difficulty=3 minutes=18 hint="There are four steps. Turn `grid` into an image (1, D, rows, columns), interpolate, turn it back into a list (1, N', D), and join it with the prefix. A `reshape` alone cannot move the axis D to the front." hint2="`rearrange` can do the first step with one pattern, in which the axis of positions is written as `(h w)`. The third step is the same pattern read from right to left. Which number must you give so that einops can split the axis?"
from vit_course.embeddings import resample_pos_embed

resample_pos_embed = check(resample_pos_embed)

# %% [markdown]
# Is the stretched table still a map? For comparison we also stretch the plain *list* of 64 vectors to 144. The table of sines and
# cosines stands for a trained one.
#
# > **Predict.** What does the map of one position look like if the list is stretched?

# %%
trained = torch.cat([torch.zeros(1, 1, 96), computed[None]], dim=1)  # (1, 65, 96)
larger = resample_pos_embed(trained, (8, 8), (12, 12))  # (1, 145, 96)
as_list = F.interpolate(computed.T[None], size=144, mode="linear")[0].T  # (144, 96)

# %% fold
figure = plots.heat_maps(
    [
        similarity(computed)[8 * 2 + 5].reshape(8, 8),
        similarity(larger[0, 1:])[12 * 3 + 8].reshape(12, 12),
        similarity(as_list)[12 * 3 + 8].reshape(12, 12),
    ],
    ["8x8, seen from (2, 5)", "12x12 as an image, from (3, 8)", "12x12 as a list, from (3, 8)"],
    "How similar are all positions to one of them, before and after?",
    "cosine similarity",
    xlabel="column",
    ylabel="row",
)
plots.show(
    figure,
    "Three similarity maps. The first two show one bright place with arms along its row and column. In the third the place is "
    "torn into bright horizontal bands.",
)

# %% [markdown] claim="similarity(larger[0, 1:])[44, 56] > similarity(as_list)[44, 56] + 0.02" always
# Stretched as an image, the map stays a map. Stretched as a list, its columns are torn, because the 8 vectors of an old row now
# fill 18 places of the list, and a new row has only 12.
#
# If you load the same weights in two libraries and enlarge the image, the outputs differ slightly. This is not a bug. The
# libraries interpolate in different ways.
#
# | library | curve | `align_corners` | `antialias` |
# |---|---|---|---|
# | JAX code of the paper | bilinear | True | False |
# | torchvision | bicubic | True | False |
# | MAE, DeiT | bicubic | False | False |
# | timm, and this course | bicubic | False | True |
#
# When you use published weights, use the settings they were trained with.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# A ViT without positions reads a photo and its puzzle. Which of its outputs are the same?
#
# - [x] the CLS token :: CLS takes sums over all patches, and a sum has no order.
# - [ ] the tokens of the patches, index by index :: Each patch keeps its vector, but the vectors are at other indices. They are shuffled as the input was.
# - [ ] none of them :: That would need positions.

# %% [markdown] quiz
# An image has 64 patches and one CLS token, and D = 192. What is the shape of a learned `pos_embed`?
#
# - [x] (1, 65, 192) :: There is one vector for each token, and CLS is one of them.
# - [ ] (1, 64, 192) :: This forgets CLS, which has a vector of its own too.
# - [ ] (64, 65, 192) :: The same table serves every image. Nothing in it depends on the batch or on pairs.

# %% [markdown] quiz
# A classmate makes the table with shape (1, 1, D) and writes `tokens + table`. What happens?
#
# - [ ] it stops, because 65 tokens meet one vector :: An axis of size 1 is broadcast, and nothing warns you.
# - [x] it runs, and the order stays invisible :: All tokens get the same vector, so it cannot tell one place from another.
# - [ ] it learns positions, but more slowly :: One vector for all tokens says nothing about any place.

# %% [markdown] quiz
# A larger image needs 145 positions, and you have 65. You stretch the list, with CLS in it, by computing values between
# neighbours. What happens?
#
# - [x] it runs, and patch 0 gets a part of CLS :: In a list the two are neighbours, so they are mixed, and all places move.
# - [ ] it stops, because the number of vectors does not fit :: A list can be stretched to any length, and nothing complains.
# - [ ] nothing that matters, because CLS is one vector among many :: It is not only one. Every patch gets a vector of another place.

# %% [markdown] quiz
# The model without positions of section 3 trains ten times as long. What does it reach on new images?
#
# - [x] 25 %, as before :: The four images of a shape contain the same patches, so it gives them one answer, and one of four is right.
# - [ ] more than 25 %, because it has learned the shapes :: It may know every shape. But each shape is in every corner, so that is no help.
# - [ ] less than 25 %, because it memorises :: Whatever it memorises, its answers to the four images of a shape are equal.

# %% [markdown]
# ## Recap
#
# | tensor | shape | 32x32 colour, P = 4, D = 192 |
# |---|---|---|
# | patch tokens | (B, N, D) | (B, 64, 192) |
# | learned positions | (1, N + 1, D) | (1, 65, 192) |
# | $z_0$, which enters the encoder | (B, N + 1, D) | (B, 65, 192) |
#
# - Without positions the encoder reads a bag of patches. Shuffle them, and CLS stays the same.
# - One learned vector is added to each token, CLS included. It starts small, with std 0.02.
# - Where only the place gives the answer, a model without positions can only guess, however long it trains.
# - A ViT knows rows and columns only by its patches and when its positions are stretched. It learns the rest.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), equation 1, sections 3.1 and 3.2, Figure 7.
# - Vaswani et al., *Attention Is All You Need* (2017), section 3.5: the first sines and cosines.
# - Chu et al., *Conditional Positional Encodings for Vision Transformers* (2021): positions made from the neighbours.
#
# **Next.** Every token now knows where it is. But which token has heard of another? Only inside the closed box do tokens exchange
# what they know, and a linear layer alone never compares two patches. Lesson 04 opens the box.
