# ---
# title: "Position: where is this patch?"
# promise: "You show that a Transformer cannot see the order of its tokens, you add places, and train with and without them."
# part: "I. Build it"
# map: [position]
# goals:
#   - "Measure whether a model can see the order of its tokens."
#   - "Write the learned table of positions, and add it to the tokens."
#   - "Train a model without positions and one with them, and say what the difference proves."
#   - "For the curious: compute positions from sines and cosines, and stretch trained ones to a larger picture."
# recall: ["01.1", "02.1", "02.2"]
# ---

# %% [markdown]
# ## 1. Does a Transformer see that this is a puzzle?
#
# Here are the patches of a photo, shuffled. A person sees at once that something is wrong. Does the model?

# %%
from dataclasses import replace

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vit_classroom import check, plots, table
from vit_classroom.numbers import percent
from vit_course.data import shapes10
from vit_course.embeddings import prepend_cls_token
from vit_course.encoder import Encoder
from vit_course.training.profiles import get_profile
from vit_course.patches import PatchEmbed, patchify, unpatchify
from vit_course.train import TrainConfig, train

photo = plots.sample_photo((224, 224))[None]  # (1, 3, 224, 224)
order = torch.randperm(49, generator=torch.Generator().manual_seed(0))
puzzle = unpatchify(patchify(photo, 32)[:, order], 32, (7, 7))
titles = ["49 patches in order", "the same patches, shuffled"]
figure = plots.image_row([photo[0], puzzle[0]], titles, "Are these two pictures the same?")
plots.show(figure, "Left a portrait, right the same 49 square patches in random order.")

# %% [markdown]
# We ask an **encoder**, the stack of Transformer layers that you will build in lessons 04 and 05. Today it is a closed box:
# tokens (B, T, D) go in, tokens (B, T, D) come out. T is the number of tokens: N patches and one CLS token (lesson 02).
#
# Both pictures go through the same box, and we read the CLS token at the end, 96 numbers. They are float64, so that
# rounding cannot hide or fake a difference.
#
# > **Predict.** How many of the 96 agree for the portrait and the puzzle: all, about half, none?

# %%
torch.manual_seed(0)
embed = PatchEmbed(img_size=224, patch_size=32, in_chans=3, embed_dim=96).double()
cls_token = torch.randn(1, 1, 96).double()
encoder = Encoder(depth=3, dim=96, num_heads=3).double().eval()

with torch.no_grad():
    tokens = prepend_cls_token(embed(photo.double() / 127.5 - 1), cls_token)  # (1, 50, 96)
    shuffled = prepend_cls_token(embed(puzzle.double() / 127.5 - 1), cls_token)
    answer, answer_to_puzzle = encoder(tokens)[0, 0], encoder(shuffled)[0, 0]
agree = (answer - answer_to_puzzle).abs() < 1e-12
print(f"{agree.sum().item()} of {len(agree)} numbers agree. The first six:")
table([["photo", *answer[:6].tolist()], ["puzzle", *answer_to_puzzle[:6].tolist()]], ["CLS of", *range(6)])

# %% [markdown] claim="agree.all()" always
# All of them. Why? Some steps inside the box treat every token by itself. The other kind, attention, takes weighted sums
# over all tokens, and a sum does not depend on the order of its terms.
#
# > **Key idea.** Without positions a Transformer reads a bag of patches: a portrait and its puzzle are the same to it.
#
# Shuffle the input, and the output is shuffled in the same way. The name for this is **permutation equivariance**:
#
# $$f(x_\pi) = f(x)_\pi$$
#
# Here $x$ holds the tokens, shape (B, T, D), $f$ is the encoder, and $\pi$ is a **permutation**: a list of T indices, the new
# order. $x_\pi$ is `x[:, permutation]`. CLS stayed at index 0, so its output did not change at all; that is called **invariance**.
#
# **Your task.** Write `equivariance_gap`, the shuffle experiment. It computes both sides of the equation and returns their
# largest absolute difference, as a plain number.

# %% exercise="vit_course.interpret:equivariance_gap" difficulty=1 minutes=8 hint="You need two results: the encoder on shuffled tokens, and the encoder on the tokens in order, shuffled afterwards. Tokens are axis 1." hint2="`tokens[:, permutation]` shuffles the tokens of every image. Use the same index on the result of the second way. Then take the difference, its absolute values, and the largest of them as a plain number with `.item()`."
from vit_course.interpret import equivariance_gap

equivariance_gap = check(equivariance_gap)

# %% [markdown]
# Let us test three black boxes. The running sum adds to each token all tokens before it. The convolution mixes each
# token with its two neighbours in the list.
#
# > **Predict.** Which of the three see the order?

# %%
permutation = torch.cat([torch.tensor([0]), 1 + order])  # CLS keeps its place
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
# The encoder is the only one that does not see the order.
#
# ## 2. How do we tell a token its place?
#
# The paper gives every position a vector of its own, and *adds* it to the token. This completes equation 1:
#
# $$z_0 = [\,x_{class};\; x_p^1 E;\; \cdots;\; x_p^N E\,] + E_{pos}, \qquad E_{pos} \in \mathbb{R}^{(N+1) \times D}$$
#
# - $x_{class}$ (1, D) is the CLS token, $x_p^i$ (1, P²C) is patch i, $E$ (P²C, D) is the patch embedding;
# - $E_{pos}$ is the **position embedding**: one row for each of the N + 1 tokens, CLS included, all learned;
# - $z_0$ (N + 1, D) is what enters the first layer. The sum has the same width D as its parts.
#
# Nobody tells the model that patch 7 lies below patch 0: the rows are numbered along the list, and at the start they are
# random. What a row has to say about its place is learned from pictures. The numbers start small, with a standard
# deviation (std) of 0.02, so that at first they hide nothing of the patches.
#
# **Your task.** Write `learned_positions`, which makes this table. Lesson 02 told you what it must be so that the
# optimiser knows it.

# %% exercise="vit_course.embeddings:learned_positions" difficulty=1 minutes=6 hint="One random vector of D numbers for each of the T tokens, and an axis of size 1 in front, for the batch. What makes a tensor something that a model learns?" hint2="`torch.randn(1, num_tokens, dim)` has standard deviation 1: multiply it by `std`. Then wrap it in `nn.Parameter(...)`."
from vit_course.embeddings import learned_positions

learned_positions = check(learned_positions)

# %% [markdown]
# One table serves the whole batch: in (B, T, D) plus (1, T, D) PyTorch repeats the axis of size 1 for every image. This is
# called *broadcasting*.
#
# > **Trap.** A table of shape (1, 1, D) would be repeated as well. Then all tokens get the same vector, without a word,
# > and the model is blind again. So the first lines of `add_position`, which you are given, compare the shapes. And put
# > CLS in front *before* you add: the table has N + 1 rows, one for CLS.
#
# **Your task.** Write `add_position`.

# %% exercise="vit_course.embeddings:add_position" difficulty=1 minutes=4 hint="Which operation of equation 1 stands in front of E_pos? Nothing has to be repeated by hand." hint2="One plus sign between the two tensors: (B, T, D) and (1, T, D). Return the sum."
from vit_course.embeddings import add_position

add_position = check(add_position)

# %% [markdown]
# Does it help? We put your positions in front of the encoder of section 1 and shuffle again. And we look at a grey image,
# whose 49 patches are all equal.

# %%
pos_embed = learned_positions(50, 96).double()


def encoder_with_positions(x):
    return encoder(add_position(x, pos_embed))


gap = equivariance_gap(encoder_with_positions, tokens, permutation)
print(f"with positions: gap {gap:.3f}, sees the order: {gap > 1e-12}")
grey = torch.zeros(1, 3, 224, 224).double()
with torch.no_grad():
    plain = prepend_cls_token(embed(grey), cls_token)
    placed = add_position(plain, pos_embed)
print("patches 3 and 40 of a grey image: equal before", torch.equal(plain[0, 4], plain[0, 41]), end=", ")
print("equal after", torch.equal(placed[0, 4], placed[0, 41]))

# %% [markdown] claim=["gap > 1e-12", "torch.equal(plain[0, 4], plain[0, 41])", "not torch.equal(placed[0, 4], placed[0, 41])"] always
# Now the order matters, even before any training: two equal patches at two places are two different tokens.
#
# ## 3. What can a model not learn without positions?
#
# Here is a question about place. Each picture shows a shape of Shapes-10, in grey, in one of the four corners. *Which
# corner is it?* A child answers at once. Every shape appears in all four corners, so the shape itself gives nothing away.

# %%
small = shapes10(train=300, test=100, image_size=16)
corners = ("top left", "top right", "bottom left", "bottom right")


def in_corners(images):
    """Put each picture into the four corners of a black one twice as large; the label is the corner."""
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
    provenance=f"{small.provenance}; each picture in four corners, in grey",
)
print("training pictures", tuple(train_images.shape), " test pictures", tuple(test_images.shape))

# %% fold
figure = plots.image_row(
    list(test_images[::100]), corners, "One shape, four pictures: where is it?", height=1.5
)
plots.show(
    figure, "The same small grey shape four times on black, each time in another corner of the picture."
)

# %% [markdown]
# The model below is as small as can be, and made of parts that you know: patches of 8x8 (lesson 01), CLS (lesson 02), your
# positions if it is asked for them, a closed box of two layers, a head.


# %%
class CornerReader(nn.Module):
    """Names the corner, with positions or without."""

    def __init__(self, with_positions):
        super().__init__()
        self.embed = PatchEmbed(img_size=32, patch_size=8, in_chans=1, embed_dim=64)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, 64))
        self.pos_embed = learned_positions(17, 64) if with_positions else None
        self.encoder = Encoder(depth=2, dim=64, num_heads=2)
        self.head = nn.Linear(64, 4)

    def forward(self, images):
        tokens = prepend_cls_token(self.embed(images), self.cls_token)  # (B, 17, 64)
        if self.pos_embed is not None:
            tokens = add_position(tokens, self.pos_embed)
        return self.head(self.encoder(tokens)[:, 0])


# %% [markdown]
# > **Predict.** Both are trained in the same way. Guessing is right 25 % of the time. What will each of them reach on new
# > pictures?

# %% tags=["nbval-ignore-output"]
epochs = get_profile().pick(smoke=1, cpu=8, gpu=8)
config = TrainConfig(epochs=epochs, batch_size=50, lr=3e-3, device="cpu", precision="float32")
readers = {}
for name, with_positions in {"without positions": False, "with positions": True}.items():
    torch.manual_seed(0)
    readers[name] = CornerReader(with_positions)
start = readers["with positions"].pos_embed[0, 1:].detach().clone()  # 16 random vectors
histories = {name: train(reader, task, config) for name, reader in readers.items()}
accuracy = {name: history.test_accuracy for name, history in histories.items()}
table([[name, percent(value)] for name, value in accuracy.items()], ["model", "right on new pictures"])

# %% [markdown] claim=["abs(accuracy['without positions'] - 0.25) < 0.01", "accuracy['with positions'] > 0.9"]
# Without positions the model is left guessing, and with them it names nearly every corner. (The profile `smoke` stops too
# early.) The 25 % are not bad luck: a shape in the four corners makes four pictures of the *same patches*, so the model gives
# the same answer four times, and one of the four is right. No training can change this.

# %% fold tags=["nbval-ignore-output"]
losses = {name: (list(range(len(h.step_loss))), h.step_loss) for name, h in histories.items()}
figure = plots.curves(losses, "Which model learns where the shape is?", "training step", "loss")
plots.show(
    figure,
    "Two curves of the training loss. Without positions it stays near guessing; with them it begins there too, then falls.",
)

# %% [markdown]
# What did the table learn? Ask each position which others are like it, by **cosine similarity**: 1 if two vectors point the
# same way, 0 at a right angle, -1 if they are opposite. For this task the four patches of a corner mean the same.
#
# > **Predict.** Which of the 16 positions will be like the one in the top left?


# %% tags=["nbval-ignore-output"]
def similarity(vectors):
    """Cosine similarity of every pair of rows, (T, D) -> (T, T)."""
    unit = F.normalize(vectors.detach().float(), dim=-1)
    return unit @ unit.T


row, column = torch.arange(16) // 4, torch.arange(16) % 4
corner = 2 * (row // 2) + column // 2  # of each of the 16 patches
together = (corner[:, None] == corner) & ~torch.eye(16, dtype=torch.bool)
apart = corner[:, None] != corner
learned = similarity(readers["with positions"].pos_embed[0, 1:])
print(f"same corner {learned[together].mean():.2f}, another corner {learned[apart].mean():.2f}")

# %% fold tags=["nbval-ignore-output"]
figure = plots.heat_maps(
    [similarity(start)[0].reshape(4, 4), learned[0].reshape(4, 4)],
    ["before training", "after training"],
    "How similar is each position to the one in the top left?",
    "cosine similarity",
    xlabel="column",
    ylabel="row",
)
plots.show(
    figure,
    "Two maps of 4 by 4 positions. Before training the top left is like itself alone. After training it is also like "
    "the other positions of its corner.",
)

# %% [markdown] claim="learned[together].mean() > learned[apart].mean() + 0.2"
# Positions of the same corner have become alike. Nobody told the table that the grid has rows and columns: it learned what
# the task asked for. In the paper's model, which names things, whole rows and columns appear (Figure 7, centre). Lesson 09
# looks at two models of this course: one has learned rows, the other border and middle.
#
# The paper also tried other kinds of positions: tables for rows and columns, or offsets. Lesson 10 compares them.

# %% [markdown] curious
# ## 4. Why add, and not put side by side?
#
# Adding looks like a loss: two things go into one vector. **Concatenation**, putting them side by side, seems cleaner.
# But look at what the sum is. Write the number of a position as a **one-hot** vector: all zeros, and a single 1. Put it
# after the pixels of the patch, and multiply by one tall matrix: E on top, $E_{pos}$ below.

# %%
torch.manual_seed(0)
patches, E, E_pos = torch.rand(49, 48), torch.randn(48, 96), torch.randn(49, 96)
side_by_side = torch.cat([patches, torch.eye(49)], dim=1)  # (49, 48 + 49)
tall = torch.cat([E, E_pos], dim=0)  # (48 + 49, 96)
same = torch.allclose(side_by_side @ tall, patches @ E + E_pos, atol=1e-4)
print("patch and one-hot place side by side, times one matrix = patch·E + E_pos:", same)

# %% [markdown]
# So adding *after* E is the same as concatenating *before* it. Concatenating after E would cost width: a second half for the
# position doubles D, and the matrices of every layer, D x D or a multiple, become four times as large. And content and
# place need not disturb each other. D directions leave room, and training decides which serve what.

# %% [markdown] curious
# ## 5. Can we compute positions instead of learning them?
#
# Think of a clock. The second hand tells neighbouring moments apart, the hour hand tells morning from noon. The
# Transformer of 2017 used such hands: sines and cosines of many **frequencies** (how much the angle grows per step). Here
# they are carried over to rows and columns:
#
# $$[\,\sin(r\,w),\; \cos(r\,w),\; \sin(c\,w),\; \cos(c\,w)\,], \qquad w_k = \tau^{-k/(D/4)}$$
#
# $r$ and $c$ are the row and column of the patch, counted from 0. $w$ (D/4,) holds the frequencies, k = 0 ... D/4 - 1.
# $\tau$ is the *temperature*, 10000 as a rule. Each of the four parts is one quarter of the D numbers. This formula is not in
# the ViT paper, which learns its positions; later work uses it (MoCo v3; MAE, the column first).

# %% fold
steps = torch.linspace(0, 7, 100)
waves = {f"w = {w:g}": (steps.tolist(), (steps * w).sin().tolist()) for w in (1.0, 0.4, 0.1)}
title = "Which wave tells neighbours apart, which tells far from near?"
figure = plots.curves(waves, title, "row r", "sin(r·w)")
plots.show(figure, "Three sine waves over rows 0 to 7: about one period, about half a period, a slow rise.")

# %% [markdown]
# The fast wave tells a row from the next; the slow one tells the top from the bottom.
#
# **Your task.** Write `sincos_2d`. The result has one row for each patch, in reading order, without CLS. Test your code in
# your head on a grid of 2 rows and 3 columns. The line that refuses a D that 4 does not divide is given.

# %% exercise="vit_course.embeddings:sincos_2d" difficulty=3 minutes=18 hint="Make two lists of N numbers: the row of each patch and the column of each patch, in reading order. For 2 rows and 3 columns they are 0 0 0 1 1 1 and 0 1 2 0 1 2. Then every number meets every frequency: (N, 1) * (D/4,) is (N, D/4)." hint2="`frequencies = temperature ** (-torch.arange(dim // 4) / (dim // 4))`. `torch.arange(rows).repeat_interleave(columns)` gives 0 0 0 1 1 1, `torch.arange(columns).repeat(rows)` gives 0 1 2 0 1 2. Join the four quarters with `torch.cat(..., dim=1)`."
from vit_course.embeddings import sincos_2d

sincos_2d = check(sincos_2d)

# %% [markdown]
# Is the table a good map? For this table the similarity of section 3 depends on the *offset* alone, not on the place, since
# $\sin a \sin b + \cos a \cos b = \cos(a - b)$.

# %%
computed = sincos_2d((8, 8), 96)  # (64, 96)
likeness = rearrange(similarity(computed), "(r c) (h w) -> r c h w", r=8, h=8)
offsets = {"one row down": (1, 0), "three columns right": (0, 3)}
rows = [
    [name, *(likeness[r, c, r + down, c + right].item() for r, c in ((0, 0), (2, 4), (6, 1)))]
    for name, (down, right) in offsets.items()
]
table(rows, ["offset", "from (0, 0)", "from (2, 4)", "from (6, 1)"])

# %% fold
torch.manual_seed(0)
fresh = learned_positions(64, 96)[0]
figure = plots.map_grid(
    [rearrange(similarity(x), "(r c) (h w) -> r c h w", r=8, h=8) for x in (computed, fresh)],
    ["sines and cosines", "learned positions before training"],
    "How similar is each position of an 8x8 grid to all others?",
    "cosine similarity",
)
plots.show(
    figure,
    "Two 8 by 8 grids of small maps. Left each map is bright around its own place, with arms along row and column. "
    "Right each map is one bright point in noise.",
)

# %% [markdown]
# The small map in row 2, column 5 shows how similar each of the 64 positions is to position (2, 5). On the left you see
# a bright place with arms along its row and its column: the table knows its neighbours from the start. (Look at the bars:
# the darkest on the left is still above 0.7, so all places are rather alike.) On the right, each position is like itself alone.

# %% [markdown] curious
# ## 6. A larger picture: where do the new positions come from?
#
# A model trained on 32x32 pixels with P = 4 has a grid of 8x8 and 65 position vectors. Now we want to continue on 48x48
# pixels. The patch stays 4x4, so E still fits, and attention takes any number of tokens. But the grid is now 12x12:

# %%
trained = torch.cat([torch.zeros(1, 1, 96), sincos_2d((8, 8), 96)[None]], dim=1)  # stands for a trained table
try:
    add_position(torch.zeros(1, 145, 96), trained)
except Exception as error:
    print(f"{type(error).__name__}: {error}".replace("): ", "):\n"))

# %% [markdown]
# The paper's answer (section 3.2): stretch the trained table like a picture. Lay the N vectors out as a grid; they form an
# image of D channels. Enlarge this image by **interpolation**, values computed between known values. CLS has no place in the
# grid, so its vector is kept apart and put back in front.
#
# (1, 1 + N, D) → CLS (1, 1, D) and grid (1, D, rows, columns) → (1, D, rows', columns') → (1, 1 + N', D)
#
# `F.interpolate` does the middle step. It gets a picture and the wanted `size`, and three settings: `mode="bicubic"`
# draws smooth curves between the known values ("bilinear" straight lines), `antialias=True` averages where a grid
# *shrinks*, and `align_corners=False` keeps the edges of the picture in place.
#
# > **Trap.** Interpolate the positions, not the photo, and not the list: the last patch of a row and the first of the next
# > are neighbours in the list alone.
#
# **Your task.** Write `resample_pos_embed`, with these settings; its arguments `mode` and `antialias` are passed on.

# %% exercise="vit_course.embeddings:resample_pos_embed" difficulty=3 minutes=18 hint="Four steps: lay `grid` out as (1, D, rows, columns); interpolate; lay it flat again as (1, N', D); join with the prefix. A `reshape` alone cannot move the axis D to the front." hint2="`rearrange(grid, '1 (h w) d -> 1 d h w', h=rows)` makes the picture; the pattern read from right to left makes a list of it again. `F.interpolate` gets the picture, `size=tuple(new_grid)`, `mode=mode`, `antialias=antialias` and `align_corners=False`. `torch.cat` joins along axis 1."
from vit_course.embeddings import resample_pos_embed

resample_pos_embed = check(resample_pos_embed)

# %%
larger = resample_pos_embed(trained, (8, 8), (12, 12))
wide = resample_pos_embed(trained, (8, 8), (8, 14))
print("8x8:", tuple(trained.shape), " 12x12:", tuple(larger.shape), " 8x14:", tuple(wide.shape))
print("CLS untouched:", torch.equal(larger[:, 0], trained[:, 0]))

# %% [markdown]
# Is the stretched table still a map? For comparison we also stretch the plain *list* of 64 vectors to 144, as if the grid
# were one long row.
#
# > **Predict.** What does the map of one position look like when the list was stretched?

# %%
as_list = F.interpolate(trained[:, 1:].transpose(1, 2), size=144, mode="linear").transpose(1, 2)

# %% fold
figure = plots.heat_maps(
    [
        similarity(trained[0, 1:])[8 * 2 + 5].reshape(8, 8),
        similarity(larger[0, 1:])[12 * 3 + 8].reshape(12, 12),
        similarity(as_list[0])[12 * 3 + 8].reshape(12, 12),
    ],
    ["8x8, seen from (2, 5)", "12x12 in 2-D, from (3, 8)", "12x12 as a list, from (3, 8)"],
    "How similar are all positions to one of them, before and after?",
    "cosine similarity",
    xlabel="column",
    ylabel="row",
)
plots.show(
    figure,
    "Three similarity maps. The first two show one bright place with arms along row and column. In the third "
    "the place is torn into bright horizontal bands.",
)

# %% [markdown]
# Stretched in 2-D the map stays a map. Stretched as a list its columns are torn: the 8 vectors of an old row now fill 18
# places of the list, but a new row has only 12.
#
# Load the same weights in two libraries, enlarge the picture, and the outputs differ a little. Nobody made a mistake; the
# settings differ:
#
# | who | curve | align_corners | antialias |
# |---|---|---|---|
# | JAX code of the paper | bilinear | True | no |
# | torchvision | bicubic | True | no |
# | MAE, DeiT | bicubic | False | no |
# | timm, and this course | bicubic | False | yes |
#
# So with trained weights, use the convention they were made with, and write yours down.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# A ViT without positions reads a photo and its puzzle. Which of its outputs are the same?
#
# - [x] the CLS token :: CLS takes sums over all patches, and a sum has no order.
# - [ ] the tokens of the patches, index by index :: Each patch keeps its vector, but the vectors stand at other indices: they are shuffled as the input was.
# - [ ] none of them :: That would need positions.

# %% [markdown] quiz
# 64 patches, one CLS token, D = 192. What is the shape of a learned `pos_embed`?
#
# - [x] (1, 65, 192) :: One vector for each token, CLS included.
# - [ ] (1, 64, 192) :: This forgets CLS, which has a vector of its own too.
# - [ ] (64, 65, 192) :: The same table serves every image; nothing in it depends on the batch or on pairs.

# %% [markdown] quiz
# A classmate makes the table with shape (1, 1, D) and writes `tokens + table`. What happens?
#
# - [ ] an error: 65 tokens, one vector :: An axis of size 1 is repeated without a word.
# - [x] it runs, and the order stays invisible :: All tokens get the same vector, so it cannot tell one place from another.
# - [ ] it learns places, but more slowly :: One vector for all says nothing about any place.

# %% [markdown] quiz
# A larger picture needs 145 positions, and you have 65. You stretch the list, CLS and all, by computing values between
# neighbours. What happens?
#
# - [x] it runs, and patch 0 gets a part of CLS :: In a list the two are neighbours, so they are mixed, and all places move.
# - [ ] an error: the number of vectors does not fit :: As a list any length can be reached; nothing complains.
# - [ ] nothing that matters: it is one vector among many :: It is not only one: every patch gets a vector of another place.

# %% [markdown] quiz
# The model without positions of section 3 trains ten times as long. What does it reach on new pictures?
#
# - [x] 25 %, as before :: The four pictures of a shape hold the same patches, so it gives them one answer, and one of four is right.
# - [ ] more than 25 %, since it has learned the shapes :: It may know every shape. But each shape is in every corner, so that is no help.
# - [ ] less than 25 %, since it memorises :: Whatever it memorises, its answers to the four pictures of a shape are equal.

# %% [markdown]
# ## Recap
#
# | what | shape | 32x32 colour, P = 4, D = 192 |
# |---|---|---|
# | tokens with CLS | (B, N + 1, D) | (B, 65, 192) |
# | learned positions | (1, N + 1, D) | (1, 65, 192) |
# | what enters the encoder | (B, N + 1, D) | (B, 65, 192) |
#
# - Without positions the encoder reads a bag of patches: shuffle them, and CLS stays the same.
# - One learned vector is added to each token, CLS included. It starts small, std 0.02.
# - Where place alone gives the answer, a model without positions can only guess, however long it trains.
# - For the curious: positions can be computed, and trained ones can be stretched as a picture of D channels.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), equation 1, section 3.2, Figure 7.
# - Vaswani et al., *Attention Is All You Need* (2017), section 3.5: the first sines and cosines.
# - Chu et al., *Conditional Positional Encodings for Vision Transformers* (2021): positions made from the neighbours.
