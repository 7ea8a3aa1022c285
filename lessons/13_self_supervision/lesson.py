# ---
# title: "Self-supervision"
# promise: "Train a ViT without labels by predicting hidden patches."
# part: "III. Beyond"
# map: [patches]
# recall: ["03.1", "10.1", "12.3"]
# goals:
#   - "Say what a model can learn from pictures that nobody has labelled, and where this idea comes from."
#   - "Score predictions of hidden patches on the right ones, and against guesses that need no learning."
#   - "Give an encoder only the visible patches, as a masked autoencoder does."
#   - "Put everything back into its place, and paint what was hidden with a decoder of your own."
#   - "Read whether pre-training without labels helped, by the rule of lesson 10."
# ---

# %% [markdown]
# ## 1. Can a picture teach without a label?
#
# Somebody looked at each of the 50,000 training pictures of CIFAR-10 and gave it one of ten names. That costs money. Pictures
# *without* labels are everywhere. Can a model learn from them?
#
# A text model, BERT (Devlin et al., 2018), takes a sentence, hides some words and asks for them:
#
# > The cat drinks ▢ from a ▢.
#
# You can fill the gaps because you know cats, cups and grammar. A model that learns to fill them must learn something about
# all three, and the right answers cost nothing: they were in the text. This is **self-supervised learning**, learning from
# a task whose answers are part of the data. Here is the same game with a picture.

# %%
from dataclasses import replace
from statistics import fmean
from textwrap import fill

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vit_course.attention import attention_flops
from vit_course.extensions import masked
from vit_classroom import check, plots, table
from vit_classroom.numbers import percent
from vit_course.data import normalize, shapes10
from vit_classroom.evidence.records import caption, load_beside, load_records
from vit_classroom.evidence.statistics import difference_in_words, result_table
from vit_course.training.profiles import get_profile
from vit_course.patches import patchify, unpatchify
from vit_course.recipes import RECIPES, build_model
from vit_course.train import train

photo = plots.sample_photo((64, 64))[None]  # (1, 3, 64, 64), uint8
patches = patchify(photo / 255, 8)  # (1, 64, 192): 64 patches, 192 numbers each
torch.manual_seed(1)
hidden = torch.rand(1, 64).argsort(dim=1) < 32  # 32 of 64 at random
holes = torch.where(hidden[..., None], 0.5, patches)
figure = plots.image_row(
    [photo[0], unpatchify(holes, 8, (8, 8))[0]],
    ["the picture", "32 of 64 patches hidden"],
    "What was in the grey squares? You have an idea",
)
plots.show(figure, "The portrait, and the same portrait with a random half of its 64 patches grey.")

# %% [markdown]
# To guess a square well you must know that skin goes on as skin, and that a cap has an edge. That is knowledge about
# pictures, and it needed no label.
#
# The paper tries this in section 4.6 and appendix B.1.2, under the name **masked patch prediction**:
#
# 1. **Pre-train** the body of a ViT to predict hidden patches, on many pictures without labels.
# 2. **Fine-tune** (lesson 12): throw the prediction layer away, put a new head on the body, and train with labels.
#
# ## 2. What exactly do we hide?
#
# Let $x^i E$ be the token of patch i, a vector of D numbers. M is a random half of the N patches, drawn anew for every
# picture and every step. The patches in M are **corrupted**: each of them meets one of three fates.
#
# $$\tilde{x}^i = \begin{cases} \texttt{[mask]} & \text{with probability } 0.8 \\ x^j E,\; j \ne i & \text{with probability } 0.1 \\
# x^i E & \text{with probability } 0.1 \end{cases}$$
#
# `[mask]` is *one* learned vector of D numbers, the same for all patches and pictures. Why not use it always?
#
# - No mask token ever appears in fine-tuning. A model that has learned "think hard at a mask, sleep elsewhere" is of little use then.
# - With 10 % **other** patches, no visible token can be trusted. The model has to check each one against its neighbours.
# - With 10 % **left as they are**, it also pays to believe a token that fits.
#
# In all three cases the model has to say what was there. And corruption comes *before* the positions are added, so a mask
# token still says "I am the third patch in row five". `masked.corrupt` is given. The pixels of a patch are a vector too, so it
# can corrupt a *picture*, with grey for the mask token.

# %%
grey, shares = torch.full((1, 1, patches.shape[-1]), 0.5), (0.15, 0.5, 0.75)
torch.manual_seed(4)
views = [unpatchify(masked.corrupt(patches, grey, share)[0], 8, (8, 8))[0] for share in shares]

# %% fold
plots.show(
    plots.image_row(
        [photo[0], *views],
        ["the picture", *(f"{100 * share:.0f} % corrupted" for share in shares)],
        "How much is left at 15, 50 and 75 %?",
    ),
    "The portrait, then with 15, 50 and 75 percent of its 64 patches corrupted: most of those are grey, a few are "
    "copies of other patches.",
)

# %% [markdown]
# Squares that are not grey and yet wrong are the swapped ones. At 15 %, as in BERT, nearly every hole is surrounded by its
# answer. Neighbouring patches resemble each other much more than neighbouring words do. The paper hides 50 %.
#
# ## 3. What should be predicted?
#
# All the pixels, with a squared error? If a hole is either blue sky or red roof, the smallest squared error is at the mean of
# the two: violet, which is never right. With **classes** the model can say "half blue, half red", and cross-entropy rewards it.
#
# The paper's classes are coarse: the mean colour of the patch, with **3 bits** for each channel. Let $m_c$ be the mean of
# channel c over the P·P pixels, in 0..255. Three bits make 8 levels, each 32 grey values wide. Three digits to the base
# 8 make one number, one of $8^3 = 512$ classes:
#
# $$\ell_c = \lfloor m_c / 32 \rfloor \in \{0, \dots, 7\}, \qquad k = 64\,\ell_{red} + 8\,\ell_{green} + \ell_{blue}$$
#
# `colour_classes` does that, and `class_colours` goes back, to the middle of each level.


# %%
def paint(classes, patch_size, grid):
    """Paint classes (B, N) as pictures (B, 3, H, W): every patch in the colour of its class."""
    colours = rearrange(masked.class_colours(classes), "b (h w) c -> b c h w", h=grid[0])
    return colours.repeat_interleave(patch_size, dim=2).repeat_interleave(patch_size, dim=3)


# %% fold
sides = (8, 4, 2)
figure = plots.image_row(
    [photo[0], *(paint(masked.colour_classes(photo, P), P, (64 // P, 64 // P))[0] for P in sides)],
    [
        "the picture",
        *(f"P = {P}: {len(masked.colour_classes(photo, P).unique())} classes occur" for P in sides),
    ],
    "Every patch in the colour of its class",
)
plots.show(
    figure,
    "The portrait, and three versions in which every patch of 8, 4 or 2 pixels has the colour of its class: the finer "
    "the patches, the clearer the face.",
)

# %% [markdown]
# > **Predict.** Training code holds *normalised* images: mean 0, deviation 1. Somebody feeds these to `colour_classes`,
# > and nothing complains. How many different classes does the photo have then?

# %%
stats = torch.tensor([0.5, 0.4, 0.4]), torch.tensor([0.25, 0.25, 0.25])
given = {"pixels in 0..255": photo, "normalised": normalize(photo, *stats), "in 0..1": photo / 255}
rows = [[name, len(masked.colour_classes(images, 4).unique())] for name, images in given.items()]
table(rows, ["what is fed", "different classes at P = 4"])

# %% [markdown] always claim="rows[1][1] < 10 and rows[2][1] == 1 and rows[0][1] > 5 * rows[1][1]"
# > **Trap.** With normalised images there is next to nothing to predict. The loss falls to about 0 at once, it looks like a
# > triumph, and the model learns nothing. `MaskedPatches`, which you train below, undoes the normalisation.
#
# ## 4. Which patches count?
#
# A linear layer, `predict`, reads the output token of *every* patch and gives K = 512 logits. Which of them enter the
# loss? The corrupted ones: all of them, and no others.
#
# $$\mathcal{L} = -\frac{1}{|M|} \sum_{i \in M} \log p_i(k_i)$$
#
# M holds the corrupted patches of the whole batch, $|M|$ is their number, $k_i$ is the right class of patch i, and
# $p_i$ the softmax of its 512 logits.
#
# The other patches are in plain sight: copying them would lower the loss and teach nothing. And if only mask tokens counted, a
# visible token would never be questioned.
#
# **Your task.** Write `masked_loss`. Pictures may differ in the number of their corrupted patches; each *patch* weighs the same.

# %% exercise="vit_course.extensions.masked:masked_loss" difficulty=2 minutes=6 hint="`F.cross_entropy` can give one loss for each patch (`reduction='none'`), or you select the corrupted patches first: `logits[chosen]` is (number of corrupted, K)." hint2="`F.cross_entropy(logits[chosen], classes[chosen])` is right. `torch.compile` prefers shapes that do not depend on data: losses (B, N) with `reduction='none'` and `logits.transpose(1, 2)`, then `mean_over_chosen(losses, chosen)`, which the cell imports."
from vit_course.extensions.masked import masked_loss

masked_loss = check(masked_loss)

# %%
torch.manual_seed(0)
chosen = torch.rand(2, 64).argsort(dim=1) < 32
classes = torch.randint(0, 512, (2, 64))
knows_nothing = torch.zeros(2, 64, 512)
copies = torch.where(chosen[..., None], 0.0, 20.0 * F.one_hot(classes, 512))
rows = [
    ["ln 512", torch.tensor(512.0).log().item()],
    ["all classes alike", masked_loss(knows_nothing, classes, chosen).item()],
    ["right where it can copy, nowhere else", masked_loss(copies, classes, chosen).item()],
    ["the same, if all patches counted", masked_loss(copies, classes, torch.ones_like(chosen)).item()],
]
table(rows, ["", "loss"])

# %% [markdown] always claim="abs(rows[2][1] - rows[0][1]) < 0.01 and abs(rows[3][1] / rows[0][1] - 0.5) < 0.01"
# The last line shows the harm: half of the loss is gone, and nothing was learned.
#
# ## 5. How good is a guess without learning?
#
# A score means nothing until you know what is easy. Two rivals learn nothing about shapes:
#
# - always the most common class of the training pictures;
# - the mean colour of the uncorrupted patches among the eight neighbours.
#
# From here on we use Shapes-10: we may show its pictures, and they are made in seconds. Nobody looks at its labels.
#
# > **Predict.** Which rival is better, and does it do better at P = 4 or at P = 8?

# %% tags=["nbval-ignore-output"]
profile = get_profile()
shapes = shapes10(
    train=profile.pick(smoke=320, cpu=5_000, gpu=20_000), test=profile.pick(smoke=100, cpu=500, gpu=2_000)
)


def guesses(dataset, patch_size):
    """Score both rivals on the corrupted patches of the test pictures: shares of right classes."""
    wanted = masked.colour_classes(dataset.test_images, patch_size)
    commonest = masked.colour_classes(dataset.train_images, patch_size).flatten().mode().values
    _, chosen = masked.corrupt_repeatably(torch.zeros(*wanted.shape, 1), torch.zeros(1, 1, 1))
    around = masked.neighbour_guess(dataset.test_images, patch_size, chosen)
    right = {"most common class": wanted == commonest, "mean of the neighbours": around == wanted}
    return {name: hits[chosen].float().mean().item() for name, hits in right.items()}


found = {P: guesses(shapes, P) for P in (4, 8)}
rows = [[name, *(percent(found[P][name]) for P in found)] for name in found[4]]
table(
    [*rows, ["one class of 512 by chance", *[percent(1 / 512)] * 2]], ["guess", *(f"P = {P}" for P in found)]
)

# %% [markdown] claim="all(found[P]['mean of the neighbours'] > found[P]['most common class'] for P in found) and found[4]['mean of the neighbours'] > found[8]['mean of the neighbours']" always
# The neighbours are the better rival, and the closer they are, the more they tell.
#
# ## 6. Can a ViT do better?
#
# `MaskedPatches` puts the parts together. Its forward pass, with the shapes for `Nano/8`, which has 16 patches and D = 96:
#
# | step | shape |
# |---|---|
# | embed the patches | (B, 16, 96) |
# | `corrupt`: some tokens become [mask] or another patch | (B, 16, 96) |
# | CLS token in front, positions added | (B, 17, 96) |
# | encoder, final norm, CLS left out | (B, 16, 96) |
# | `predict`, a linear layer | (B, 16, 512) |
# | `masked_loss` against `colour_classes` | a scalar |
#
# In evaluation the corruption comes from a fixed seed, so scores repeat. `masked_objective` tells `train` to take loss and hits
# from the model and not to look at labels. The optimizer is AdamW.

# %% tags=["nbval-ignore-output"]
model_name = profile.pick(smoke="Nano/8", cpu="Nano/8", gpu="Nano/4")
torch.manual_seed(0)
pretrainer = masked.MaskedPatches(build_model(model_name, shapes), *shapes.channel_stats())
recipe = replace(
    RECIPES["adamw"],
    epochs=profile.pick(smoke=1, cpu=15, gpu=60),
    batch_size=profile.pick(smoke=64, cpu=64, gpu=256),
    lr=2e-3,
    quiet=True,
)
history = train(pretrainer, shapes, recipe, objective=masked.masked_objective)

# %% tags=["nbval-ignore-output"]
P = pretrainer.vit.patch_embed.patch_size[0]
rivals = guesses(shapes, P)
rows = [["the model", percent(history.test_accuracy)], *([name, percent(x)] for name, x in rivals.items())]
table(rows, ["", "right classes among corrupted test patches"])

# %% fold tags=["nbval-ignore-output"]
epochs = list(range(1, len(history.train_accuracy) + 1))
lines = {"the model, on training pictures": (epochs, [100 * hits for hits in history.train_accuracy])}
lines["the model, on test pictures"] = ([epochs[-1]], [100 * history.test_accuracy])
lines |= {f"{name}, on test pictures": ([0, epochs[-1]], [100 * share] * 2) for name, share in rivals.items()}
figure = plots.curves(
    lines, "Does the model beat the guesses without learning?", "epoch", "right colour classes in percent"
)
top = max(max(y) for _, y in lines.values())
figure.axes[0].set_ylim(0, 1.6 * top)  # room for the legend above the lines
plots.show(
    figure,
    "Share of corrupted patches whose class is right, over the epochs of pre-training, with a level line for each of "
    "the two guesses without learning.",
)

# %% [markdown] claim="history.test_accuracy > max(rivals.values()) + 0.02"
# The model beats both rivals. Part of its lead is free: one drawn patch in ten is left as it is. It cannot come near 100 %: a
# hole may hide what the rest of the picture does not tell, and a colour near the border of two levels is a coin toss.
#
# Which of its errors would you make too?

# %% fold tags=["nbval-ignore-output"]
looked_at = shapes.test_images[:4]
pixels = patchify(looked_at / 255, P)
grid = pretrainer.vit.patch_embed.grid_size
device = next(pretrainer.parameters()).device
shade = torch.full((1, 1, pixels.shape[-1]), 0.5)
seen, chosen = (x.cpu() for x in masked.corrupt_repeatably(pixels.to(device), shade.to(device)))
with torch.no_grad():
    logits, model_chosen = pretrainer.guess(normalize(looked_at, *shapes.channel_stats()).to(device))
assert torch.equal(chosen, model_chosen.cpu())  # same seed: what is drawn here is what the model saw


def filled(classes):
    """Show the corrupted patches in the colour of a class, the others as they are."""
    painted = patchify(paint(classes, P, grid) / 255, P)
    return unpatchify(torch.where(chosen[..., None], painted, pixels), P, grid)


sheets = [unpatchify(x, P, grid) for x in (pixels, seen)]
sheets += [filled(logits.argmax(dim=-1).cpu()), filled(masked.colour_classes(looked_at, P))]
sheets = [plots.image_grid(F.pad(sheet, (1, 1, 1, 1), value=1.0), columns=2) for sheet in sheets]
figure = plots.image_row(
    sheets,
    ["pictures", "what the model sees", "what it predicts", "the right classes"],
    "What does the model put into the holes?",
    height=2.1,
)
plots.show(
    figure,
    "Four pictures of Shapes-10, four times: untouched; with half of the patches corrupted; with those patches in the colour "
    "that the model predicts; and in the colour of the right class.",
)

# %% [markdown]
# ## 7. Did it learn to see?
#
# The aim is a body that needs fewer *labels*. Two minutes of training would be too little, so we read recorded runs: the same task
# on all 50,000 pictures of CIFAR-10, then fine-tuning with 1 or 10 percent of the labels. The **control** starts from scratch and
# takes as many steps as both parts together, on the labelled pictures again and again. A second start from scratch, of lesson 08,
# takes fewer steps.
#
# > **Predict.** By how many points will the pre-trained body be ahead? Or behind?

# %% tags=["nbval-ignore-output"]
WAYS = {
    "colours": "masked patches first",
    "nothing": "from scratch, as many steps",
    "vit": "from scratch, fewer steps",
    "linear": "one matrix on raw pixels",
}
records = load_records("masked")
shares = sorted({record["fraction"] for record in records})
curves, rates = {way: {} for way in WAYS.values()}, {}
for run in records + [run for run in load_beside(records, "fractions-first") if run["fraction"] in shares]:
    if way := WAYS.get(run["step"].rsplit("-", 1)[0]):
        curves[way].setdefault(100 * run["fraction"], []).append(100 * run["test_accuracy"])
        rates[way] = f"{run['config']['lr']:g}"
print(caption(records) if records else "No records are here yet: python -m experiments masked")
rows, fewer = [], []
for share in (100 * share for share in shares):
    here = {way: by[share] for way, by in curves.items() if share in by}
    read, columns = result_table(here, WAYS["nothing"], {"AdamW, rate": rates})
    rows += [[f"{share:g} %", *row] for row in read]
    fewer.append(difference_in_words("masked first", here[WAYS["colours"]], "fewer steps", here[WAYS["vit"]]))
    print(fill(f"{share:g} %: {fewer[-1]}", 90))
if records:
    hidden_right = fmean(
        record["pretraining"]["test_accuracy"] for record in records if "pretraining" in record
    )
    print(f"right classes of hidden patches, new pictures: {percent(hidden_right)}")
table(rows, ["labels", *columns]) if rows else None

# %% fold tags=["nbval-ignore-output"]
if records:
    figure = plots.seed_curves(
        curves,
        "Does pre-training without labels help?",
        "share of the labels in percent",
        "test accuracy in percent",
        log=True,
    )
    plots.show(
        figure,
        "Test accuracy over the share of labels, with masked patches first and from scratch; a dot for each seed.",
    )

# %% [markdown] always claim=["[row[-2] for row in rows] == 2 * ['undecided', '', 'undecided', 'worse']", "['undecided' in line for line in fewer] == [False, False] and '+5' in fewer[0] and '-1' in fewer[1]", "0.35 < hidden_right < 0.42", "['undecided' in difference_in_words('', [a - b for a, b in zip(curves[WAYS['colours']][10], curves[WAYS[other]][10])], '', [0, 0, 0]) for other in ('nothing', 'vit')] == [False, True]"]
# Nearly four in ten hidden patches get the right class. Whether learning this helps is **not decided**. With 1 percent of the
# labels the pre-trained body is ahead of the control by three to four points, with 10 percent it is half a point behind, and
# both intervals hold 0.
#
# Against the start with *fewer* steps, the lines above the table, it is decided: five points up, one point down. A report
# without the control would say "self-supervision helps where labels are few". Ours says: perhaps, and more seeds are needed.
#
# Two cautions. Fine-tuning ran at half the rate of the control (.001 and .002), and neither was searched. And of eight
# comparisons chance alone decides .4. (Seed s picks the same pictures in every row. In pairs, the pre-trained body with 10
# percent would be behind the control, and undecided against fewer steps.)
#
# ## 8. Why should the encoder read what is hidden?
#
# Four in ten of the tokens above were mask tokens, 80 % of one half: so much work went into a vector that never comes again.
# **MAE** (masked autoencoders; He et al., 2022) leaves the hidden patches out.

# %% fold
plots.show(
    plots.masking_diagram(),
    "Left, the paper: eight patches, of which four were drawn; two are masks, one is a copy of another patch, one is as it "
    "was; the encoder reads all eight, and a linear layer predicts the four. Right, MAE: two of eight patches go through "
    "the encoder; its two results go back to their places, mask tokens fill the other six, and a small Transformer "
    "predicts these six.",
)

# %% [markdown]
# | | the paper | MAE |
# |---|---|---|
# | hidden | 50 %, of these 80 / 10 / 10 | 75 %, all of them left out |
# | the encoder reads | all N tokens, mask tokens too | only the visible quarter |
# | who predicts | one linear layer | a small Transformer, the *decoder*, thrown away later |
# | target | class of the mean colour | all pixels, each patch normalised by its own mean and deviation |
#
# Two things must be right. The tokens get their positions *before* the others are dropped: afterwards nobody knows
# where they came from. And there must be a way back, since the decoder reads N tokens in reading order.
#
# **Your task.** Write `keep_visible`. It draws which patches stay, hands over their tokens, and returns the way back. (Draw a
# random order of the patches. What is the inverse of an order?) Counting and the error are given.

# %% exercise="vit_course.extensions.masked:keep_visible" difficulty=2 minutes=8 hint="Sorting random numbers gives a random order: `argsort` says which patch stands at place i. What does `argsort` of that order say?" hint2="`order = torch.rand(B, N, device=tokens.device).argsort(dim=1)`, and `order.argsort(dim=1)` is its inverse. `tokens.gather(1, index[..., None].expand(-1, -1, D))` with `index = order[:, :K]` fetches the tokens."
from vit_course.extensions.masked import keep_visible

keep_visible = check(keep_visible)

# %% [markdown]
# Your function on the pixels of the portrait: 16 of 64 patches in random order, then all of them, back in their places.

# %%
torch.manual_seed(3)
visible, restore = keep_visible(patches)  # (1, 16, 192) and (1, 64)
row = torch.cat([visible, grey.expand(1, 64 - 16, -1)], dim=1)  # visible ones first, then the holes
back = row.gather(1, restore[..., None].expand_as(row))  # in reading order
print("visible", tuple(visible.shape), " row", tuple(row.shape), " back in place", tuple(back.shape))
print("patches in their own place:", (back == patches).all(dim=-1).sum().item(), "of 64")

# %% fold
sheets = [photo[0], unpatchify(visible, 8, (4, 4))[0], unpatchify(back, 8, (8, 8))[0]]
plots.show(
    plots.image_row(
        sheets, ["the picture", "the visible ones, as drawn", "put back"], "A quarter of the portrait"
    ),
    "The portrait; its 16 visible patches in random order, as a small square; and the same patches in their places, with "
    "grey between them.",
)

# %% [markdown] always claim="(back == patches).all(dim=-1).sum() == 16"
# All sixteen are where they belong.
#
# > **Predict.** A quarter of the tokens: is it a quarter of the encoder's work, more, or less?

# %%
work = {}  # GFLOP of ViT-B/16: attention (lesson 04) and the two layers of the MLP, in 12 blocks of width 768
for read in (196, 49):
    work[read] = 12 * (attention_flops(read + 1, 768) + 16 * (read + 1) * 768**2) / 1e9
    print(f"{read} patches and CLS: {work[read]:.1f} GFLOP, {percent(work[read] / work[196])} of the work")

# %% [markdown] always claim="0.2 < work[49] / work[196] < 50 / 197"
# A little less: attention grows with the square of the tokens, so the work falls further than their number.
#
# > **Key idea.** An encoder that never meets a mask token cannot miss it later, and it does a quarter of the work. So MAE can
# > train longer, and use larger models.
#
# ## 9. Who paints the holes?
#
# The mask tokens come in only now, after the encoder. The **decoder** is a small Transformer with its own width W and its own
# positions. For K visible of N patches:
#
# | step | shape |
# |---|---|
# | results of the encoder, without CLS | (B, K, D) |
# | `embed`, a linear layer | (B, K, W) |
# | N - K mask tokens after them | (B, N, W) |
# | back into reading order, by `restore` | (B, N, W) |
# | positions added, blocks, norm | (B, N, W) |
# | `predict`, a linear layer | (B, N, P²C) |
#
# > **Trap.** All mask tokens are equal. What makes one paint sky and another grass? The position, which must be that of its
# > *patch*. So first back into reading order, then the positions.
#
# **Your task.** Write the `forward` of `PixelDecoder`.

# %% exercise="vit_course.extensions.masked:PixelDecoder.forward" difficulty=2 minutes=10 hint="Follow the table from top to bottom. `self.mask_token.expand(B, N - K, -1)` makes many of one; `torch.cat` along axis 1 puts them after the visible ones." hint2="`row.gather(1, restore[..., None].expand_as(row))` puts the row into reading order: it fetches, for each patch, what stands at its place. Then `+ self.pos_embed`, a loop over `self.blocks`, and `self.predict(self.norm(...))`."
from vit_course.extensions.masked import PixelDecoder

PixelDecoder = check(PixelDecoder)

# %% [markdown]
# Your two parts and a ViT make a masked autoencoder. It predicts the pixels themselves, so that we can look; the loss is the
# squared error on the *hidden* patches. (MAE normalises each patch first, which makes better features and worse pictures.)
#
# > **Predict.** A quarter of each picture is visible. What will be painted well, and what not?


# %% tags=["nbval-ignore-output"]
class MaskedAutoencoder(nn.Module):
    """An encoder that reads the visible patches, and a decoder that predicts all."""

    def __init__(self, vit, decoder):
        super().__init__()
        self.vit, self.decoder = vit, decoder

    def forward(self, images):
        """Return the predicted pixels (B, N, P·P·C), and which patches were hidden (B, N)."""
        tokens = self.vit.patch_embed(images) + self.vit.pos_embed[:, 1:]  # positions first
        visible, restore = keep_visible(tokens)
        cls = (self.vit.cls_token + self.vit.pos_embed[:, :1]).expand(len(images), -1, -1)
        z = torch.cat([cls, visible], dim=1)
        for block in self.vit.blocks:
            z = block(z)
        return self.decoder(self.vit.norm(z)[:, 1:], restore), restore >= visible.shape[1]


def paint_objective(forward, images, targets):
    """Return the squared error on the hidden patches, and the share of their variance that is explained."""
    pixels, hidden = forward(images)
    wanted = patchify(images, 4)[hidden]
    loss = (pixels[hidden].float() - wanted).square().mean()
    return loss, (1 - loss.detach() / wanted.var()).clamp(min=0)


torch.manual_seed(0)
vit = build_model("Nano/4", shapes)
painter = MaskedAutoencoder(vit, PixelDecoder(96, vit.patch_embed.num_patches, 4 * 4 * 3, width=48, depth=1))
short = replace(recipe, epochs=profile.pick(smoke=1, cpu=6, gpu=40))
train(painter, shapes, short, objective=paint_objective)

painter = painter.cpu().eval()
pictures = normalize(shapes.test_images, *shapes.channel_stats())
with torch.no_grad():
    guess, hidden = painter(pictures)
right = patchify(pictures, 4)
seen, near = (~hidden)[..., None], masked.neighbour_colours(pictures, 4, hidden)
near = rearrange(near, "b c h w -> b (h w) c").repeat(
    1, 1, 4 * 4
)  # the same colour for each pixel of a patch
errors = {"your decoder": guess, "the mean colour of visible neighbours": near}
errors = {name: (one - right)[hidden].square().mean().item() for name, one in errors.items()}
table(list(errors.items()), ["what is painted", "squared error on hidden patches, normalised"])

# %% fold tags=["nbval-ignore-output"]
middle, deviation = (torch.as_tensor(x)[:, None, None] for x in shapes.channel_stats())
shown = [right, torch.where(seen, right, 0.0), torch.where(seen, right, guess)]
sheets = [(unpatchify(x[:4], 4, (8, 8)) * deviation + middle).clamp(0, 1) for x in shown]
sheets = [plots.image_grid(F.pad(sheet, (1, 1, 1, 1), value=1.0), columns=2) for sheet in sheets]
plots.show(
    plots.image_row(
        sheets,
        ["pictures", "visible", "holes painted by your decoder"],
        "What can be told from a quarter?",
        height=2.6,
    ),
    "Four pictures of Shapes-10, three times: untouched; a quarter of their patches; and these with the decoder's pixels in the "
    "holes: grounds are right, objects are pale blurs.",
)

# %% [markdown] claim="errors['your decoder'] < 0.9 * errors['the mean colour of visible neighbours']"
# The decoder beats the rival of section 5. The ground comes back, and a bright spot near the object; stripes and outlines do
# not. Where several outlines are possible, the smallest squared error is their mean: blur. The aim is the encoder, and whether
# *this* one needs fewer labels we have not measured.

# %% [markdown] curious
# ## 10. What did the paper find, and what came next?
#
# The paper's numbers are for ViT-B/16 (section 4.6, appendix B.1.2):
#
# - *Pre-trained* with masked patches on the pictures of JFT, without their labels: a million steps of 4,096 pictures,
#   about 14 epochs. Then *fine-tuned* on ImageNet: **79.9 %**. That is 2 points above training from scratch on
#   ImageNet, and 4 points *below* supervised pre-training.
# - Less is enough: after 100,000 steps the gains level off, and pre-training on ImageNet's own pictures gains about as much.
# - Three targets "worked quite well": the mean colour; the patch shrunk to 4x4 pixels, with a colour class for each;
#   and all its pixels, with a squared error (L2). L2 was slightly worse. The mean colour was best with few labels, so
#   the paper reports it.
# - 15 % corruption, as in BERT, was slightly worse than 50 %.
#
# What else was there? **iGPT** (2020) predicts pixels one after the other, with a Transformer on sequences of colours. **DINO**
# and **MoCo v3** (both April 2021) hide nothing: two views of one picture should get similar features. **BEiT** (June 2021)
# predicts learned classes in place of colours, and MAE followed that November. Since then, features of the DINO family have
# become a usual choice for tasks without labels.
#
# And on CIFAR-10? Gani et al. report 96.41 % for a plain ViT of 2.8 million parameters that first learns without labels
# *on CIFAR-10 itself*, by another method. From scratch it reaches 93.58 %. So a small data set is no obstacle in principle.
#
# You need not pay for such a pre-training: lesson 17 takes a model that somebody else has trained, and uses it on your pictures.
#
# **Your next step.** Change one thing and measure: `keep_visible(tokens, 0.5)` in the autoencoder, or `task="pixels"` in
# `MaskedPatches(...)` (its score is then the share of the variance that is explained). Write down first what you expect. Or
# fine-tune the encoder of section 9 on a hundred labels, beside a start from scratch with as many steps, three seeds each.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# A patch was drawn for corruption, and by chance it was left as it is. Does it enter the loss?
#
# - [x] yes :: The model cannot know that it was left: from inside, a kept patch and a swapped one look the same, a visible token that may be wrong.
# - [ ] no, since it can be copied :: That is true of patches that were *not* drawn. They never count.
# - [ ] only if it is predicted wrongly :: Right answers count too: they may still be unsure.

# %% [markdown] quiz
# Where do mask tokens enter a masked autoencoder?
#
# - [x] in the decoder, after the visible tokens :: The encoder never meets one. Each gets the position of its patch there.
# - [ ] in the encoder, in the places of hidden patches :: That is the paper's masked patch prediction.
# - [ ] nowhere: hidden patches are left out :: Left out of the encoder. The decoder needs a token for each patch that it paints.

# %% [markdown] quiz
# In the first minute of pre-training the loss falls to 0.01. What do you suspect?
#
# - [x] targets of normalised images :: All patches then have the same class.
# - [ ] a strong model :: Much of what is hidden cannot be known, so no model gets there.
# - [ ] a learning rate that is too small :: The loss would stay near ln 512.

# %% [markdown] quiz
# A model predicts 38 % of the classes right, chance is 0.2 %. Is it good?
#
# - [x] nobody knows, without a simple rival :: The mean of the neighbours may reach as much.
# - [ ] yes, since it is 190 times as good as chance :: That compares with a rival that nobody would use.
# - [ ] no, it is below 50 % :: With 512 classes, 50 % has no meaning of its own.

# %% [markdown] quiz
# An MAE gets `order` (B, N) from `torch.rand(B, N).argsort(1)` and keeps `order[:, :K]`. It uses `order` itself as `restore`. What happens?
#
# - [x] tokens land in wrong places :: `order` tells which patch stands at a place of the row. The way back is its inverse, `order.argsort(1)`. No shape complains.
# - [ ] nothing, an order is its own inverse :: Only an order that swaps pairs is. A random one is not.
# - [ ] an error, because the shapes do not fit :: Both are (B, N).

# %% [markdown]
# ## Recap
#
# | what | shape | note |
# |---|---|---|
# | corrupted tokens | (B, N, D) | of the drawn half 80 % mask, 10 % another, 10 % as they were |
# | target | (B, N) int64 | 64·red + 8·green + blue, from pixels in 0..255 |
# | logits | (B, N, 512) | a linear layer on every patch token; the loss counts all drawn patches, no others |
# | MAE: visible tokens | (B, N/4, D) | with positions, without holes |
# | MAE: `restore` | (B, N) int64 | the place of each patch in the row of visible and hidden ones |
# | MAE: predicted pixels | (B, N, P²C) | by the decoder, which is thrown away later |
#
# - Self-supervision takes its answers from the data, and leaves the labels for later.
# - Hide enough: neighbouring patches resemble each other. And measure that resemblance before you praise a model.
# - An encoder need not read what is hidden; a decoder puts it back.
# - The proof is fine-tuning with few labels, with several seeds, a control with equal steps, and the cost beside it.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), section 4.6 and appendix B.1.2.
# - Devlin et al., *BERT: Pre-training of Deep Bidirectional Transformers* (2018): where 80 / 10 / 10 comes from.
# - He et al., *Masked Autoencoders Are Scalable Vision Learners* (CVPR 2022).
# - Bao et al., *BEiT: BERT Pre-Training of Image Transformers* (ICLR 2022): learned classes in place of colours.
# - Caron et al., *Emerging Properties in Self-Supervised Vision Transformers* (DINO, ICCV 2021), and Chen et al., *An Empirical
#   Study of Training Self-Supervised Vision Transformers* (MoCo v3, ICCV 2021).
# - Gani et al., *How to Train Vision Transformer on Small-scale Datasets?* (BMVC 2022).
