# ---
# title: "Self-supervision"
# promise: "You hide half of every picture, let a model predict what was there, and measure whether it learned to see without a single label."
# part: "III. Beyond"
# map: [patches]
# recall: ["03.1", "10.1", "12.3"]
# goals:
#   - "Say what a model can learn from pictures that nobody has labelled, and where this idea comes from."
#   - "Corrupt patches as the paper does, and score the predictions on the right ones."
#   - "Judge a predictor against guesses that need no learning."
#   - "Give an encoder only the visible patches, as a masked autoencoder does, and put everything back."
#   - "Read whether pre-training without labels helped, by the rule of lesson 07."
# ---

# %% [markdown]
# ## 1. Can a picture teach without a label?
#
# Somebody looked at each of the 50,000 training pictures of CIFAR-10 and wrote down one of ten words. That is slow and
# costs money. Pictures *without* labels are everywhere. Can a model learn from them?
#
# Text models answered first. BERT (Devlin et al., 2018) takes a sentence, hides some words and asks for them:
#
# > The cat drinks ▢ from a ▢.
#
# You can fill the holes because you know cats, cups and grammar. A model that learns to fill them must learn something
# about all three, and the right answers cost nothing: they were in the text. This is **self-supervised learning**,
# learning from a task whose answers are part of the data. Here is the same game with a picture.

# %%
import copy
import time
from dataclasses import replace
from textwrap import fill

import torch
import torch.nn.functional as F
from einops import rearrange

from vit_course.attention import attention_flops
from vit_course.beyond.masked import MaskedPatches, corrupt_repeatably, masked_objective, neighbour_guess
from vit_course.beyond.transfer import replace_head
from vit_course.classroom import check, plots, table
from vit_course.classroom.numbers import number, percent
from vit_course.data import normalize, shapes10
from vit_course.experiments.records import caption, load_beside, load_records
from vit_course.experiments.statistics import difference_in_words, result_table
from vit_course.machinery.profiles import get_profile
from vit_course.patches import patchify, unpatchify
from vit_course.recipes import RECIPES, build_model
from vit_course.train import train
from vit_course.vit import VisionTransformer

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
# pictures, and no label was needed for it.
#
# The paper tries this in section 4.6 and appendix B.1.2, under the name **masked patch prediction**:
#
# 1. **Pre-train**: train the body of a ViT to predict hidden patches, on many pictures without labels.
# 2. **Fine-tune** (lesson 12): throw the prediction layer away, put a new head on the body, train with labels.
#
# ## 2. What exactly do we hide?
#
# Let $x^i E$ be the token of patch i, a vector of D numbers. M is a random half of the N patches, drawn anew for every
# picture and every step. The patches in M are **corrupted**. Each of them meets one of three fates:
#
# $$\tilde{x}^i = \begin{cases} \texttt{[mask]} & \text{with probability } 0.8 \\ x^j E,\; j \ne i & \text{with probability } 0.1 \\
# x^i E & \text{with probability } 0.1 \end{cases}$$
#
# `[mask]` is *one* learned vector of D numbers, for all patches and pictures. Why not use it always?
#
# - In step 2 no mask token will ever come. A model that has learned "think hard at a mask, sleep elsewhere" is of little
#   use then.
# - With 10 % **other** patches, no visible token can be trusted. The model has to check each against its neighbours.
# - With 10 % **left as they are**, it also pays to believe a token that fits.
#
# So "corrupted" means "drawn", not "changed". In all three cases the model has to say what was there. And corruption
# comes *before* the positions are added: a mask token then still says "I am the third patch in row five".
#
# **Your task.** Write `corrupt`. Mind a trap in the probabilities. Suppose you first draw who is masked, with 0.8, and
# then ask about the *rest*: which share of the rest must become another patch?

# %% exercise="vit_course.beyond.masked:corrupt" difficulty=3 minutes=20 hint="Two sets of random numbers (B, N) do it: one to draw exactly k patches (a random order of 0 ... N-1, and those below k), one to decide their fate: below 0.8, between 0.8 and 0.9, above." hint2="`torch.rand(B, N).argsort(dim=1) < k` draws exactly k in every picture. For another patch, step 1 ... N-1 places on, modulo N: this never ends at the patch itself. `tokens.gather(1, index[..., None].expand_as(tokens))` fetches the tokens, and `torch.where` puts everything together."
from vit_course.beyond.masked import corrupt

corrupt = check(corrupt)

# %% [markdown]
# Count what it does. Tokens that say who they are make the fates visible: token i of picture b holds the numbers (i, b).

# %%
B, N = 1000, 64
index = torch.stack(torch.meshgrid(torch.arange(B), torch.arange(N), indexing="ij")[::-1], dim=-1).float()
torch.manual_seed(0)
corrupted, chosen = corrupt(index, torch.full((1, 1, 2), -1.0))
masked = (corrupted == -1).all(dim=-1)
swapped = ~masked & (corrupted != index).any(dim=-1)
fates = {"mask token": masked, "another patch": swapped, "left alone": chosen & ~masked & ~swapped}
print("corrupted patches of each picture:", *chosen.sum(dim=1).unique().tolist(), "of", N)
print("another patch, among those not masked:", percent((swapped.sum() / (chosen & ~masked).sum()).item()))
table(
    [[name, percent((fate.sum() / chosen.sum()).item())] for name, fate in fates.items()],
    ["fate", "of the corrupted"],
)

# %% [markdown]
# > **Trap.** Of the patches that are *not* masked, one half becomes another patch: 10 of the remaining 20 percent. With
# > 0.1 there, hardly any patch would be swapped.
#
# Pixels of patches are vectors too, so your function can corrupt a *picture*, with grey in the place of the mask token.

# %%
grey, shares = torch.full((1, 1, patches.shape[-1]), 0.5), (0.15, 0.5, 0.75)
torch.manual_seed(4)
views = [unpatchify(corrupt(patches, grey, share)[0], 8, (8, 8))[0] for share in shares]

# %% fold
plots.show(
    plots.image_row(
        [photo[0], *views],
        ["the picture", *(f"{100 * share:.0f} % corrupted" for share in shares)],
        "BERT hides 15 % of the words, the paper 50 % of the patches, MAE 75 %",
    ),
    "The portrait, then with 15, 50 and 75 percent of its 64 patches corrupted: most of those are grey, a few are "
    "copies of other patches.",
)

# %% [markdown]
# Look for squares that are not grey and yet wrong: they are the swapped ones. At 15 % nearly every hole is surrounded
# by its answer. Neighbouring patches resemble each other much more than neighbouring words do, so pictures need larger
# holes.
#
# ## 3. What should be predicted?
#
# All the pixels, with a squared error? If a hole is either blue sky or red roof, the prediction with the smallest
# squared error is the mean of the two: violet, which is never right. With **classes** the model can say "half blue,
# half red", and cross-entropy rewards it.
#
# The paper's classes are coarse: the mean colour of the patch with **3 bits** for each channel. Let $m_c$ be the mean of
# channel c over the P·P pixels, in 0..255. Three bits make 8 levels, each 32 grey values wide. Three digits to the base
# 8 make one number, one of $8^3 = 512$ classes:
#
# $$\ell_c = \lfloor m_c / 32 \rfloor \in \{0, \dots, 7\}, \qquad k = 64\,\ell_{red} + 8\,\ell_{green} + \ell_{blue}$$
#
# `colour_classes` does that, and `class_colours` goes back, to the middle of each level.

# %%
from vit_course.beyond.masked import class_colours, colour_classes


def paint(classes, patch_size, grid):
    """Paint classes (B, N) as pictures (B, 3, H, W): every patch in the colour of its class."""
    colours = rearrange(class_colours(classes), "b (h w) c -> b c h w", h=grid[0])
    return colours.repeat_interleave(patch_size, dim=2).repeat_interleave(patch_size, dim=3)


first = colour_classes(photo, 8)[0, 0].item()
mean = 255 * rearrange(patches[0, 0], "(p c) -> p c", c=3).mean(dim=0)
print("patch 0: mean colour", *(f"{m:.0f}" for m in mean), end="; ")
print(f"class {first} = {first // 64}·64 + {first // 8 % 8}·8 + {first % 8}", end="; ")
print("back again:", *class_colours(torch.tensor(first)).tolist())

# %% fold
sides = (8, 4, 2)
figure = plots.image_row(
    [photo[0], *(paint(colour_classes(photo, P), P, (64 // P, 64 // P))[0] for P in sides)],
    ["the picture", *(f"P = {P}: {len(colour_classes(photo, P).unique())} classes occur" for P in sides)],
    "Every patch in the colour of its class",
)
plots.show(
    figure,
    "The portrait, and three versions in which every patch of 8, 4 or 2 pixels has the colour of its class: the finer "
    "the patches, the clearer the face.",
)

# %% [markdown]
# The target is a mean: it holds no edge and no texture. So the task asks *what kind of thing* is there rather than how
# it is drawn.
#
# > **Predict.** Training code holds *normalised* images: mean 0, deviation 1. Somebody feeds these to `colour_classes`,
# > and nothing complains. How many different classes does the photo have then?

# %%
stats = torch.tensor([0.5, 0.4, 0.4]), torch.tensor([0.25, 0.25, 0.25])
given = {"pixels in 0..255": photo, "normalised": normalize(photo, *stats), "in 0..1": photo / 255}
rows = [[name, len(colour_classes(images, 4).unique())] for name, images in given.items()]
table(rows, ["what is fed", "different classes at P = 4"])

# %% [markdown]
# > **Trap.** With normalised images there is next to nothing to predict. The loss falls at once to about 0, it looks
# > like a triumph, and the model learns nothing. `MaskedPatches`, which you will train below, undoes the normalisation.
#
# ## 4. Which patches count?
#
# A linear layer, `predict`, reads the output token of *every* patch and gives K = 512 logits. Which of them enter the
# loss? Only the corrupted ones, and all of these:
#
# $$\mathcal{L} = -\frac{1}{|M|} \sum_{i \in M} \log p_i(k_i)$$
#
# M holds the corrupted patches of the whole batch, $|M|$ is their number, $k_i$ is the right class of patch i, and
# $p_i$ the softmax of its 512 logits.
#
# - Not the others. They stand there in the open, so copying would lower the loss and teach nothing.
# - Not the mask tokens alone. Then a visible token would never be questioned.
#
# **Your task.** Write `masked_loss`. Pictures may differ in the number of their corrupted patches; each *patch* weighs
# the same.

# %% exercise="vit_course.beyond.masked:masked_loss" difficulty=2 minutes=8 hint="`F.cross_entropy` can give one loss for each patch (`reduction='none'`), or you select the corrupted patches first: `logits[chosen]` is (number of corrupted, K)." hint2="`F.cross_entropy(logits[chosen], classes[chosen])` is right. `torch.compile` prefers shapes that do not depend on data: losses (B, N) with `reduction='none'` and `logits.transpose(1, 2)`, then their sum over the chosen ones divided by `chosen.sum()`."
from vit_course.beyond.masked import masked_loss

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

# %% [markdown]
# The last line shows the harm: half of the loss gone, and nothing learned.
#
# ## 5. How good is a guess without learning?
#
# A score means nothing until you know what is easy. Two rivals learn nothing about shapes:
#
# - always the **commonest** class of the training pictures;
# - the **mean of the neighbours**: average the uncorrupted ones among the eight patches around, and take the class of
#   that colour.
#
# We use Shapes-10 from here on, whose pictures may be shown and are made in seconds. Its labels are not touched until
# section 7.
#
# > **Predict.** Which rival is better, and is it better at P = 4 or at P = 8?

# %% tags=["nbval-ignore-output"]
profile = get_profile()
shapes = shapes10(
    train=profile.pick(smoke=320, cpu=5_000, gpu=20_000), test=profile.pick(smoke=100, cpu=500, gpu=2_000)
)


def guesses(dataset, patch_size):
    """Score both rivals on the corrupted patches of the test pictures: shares of right classes."""
    wanted = colour_classes(dataset.test_images, patch_size)
    commonest = colour_classes(dataset.train_images, patch_size).flatten().mode().values
    _, chosen = corrupt_repeatably(torch.zeros(*wanted.shape, 1), torch.zeros(1, 1, 1))
    around = neighbour_guess(dataset.test_images, patch_size, chosen)
    right = {"commonest class": wanted == commonest, "mean of the neighbours": around == wanted}
    return {name: hits[chosen].float().mean().item() for name, hits in right.items()}


found = {P: guesses(shapes, P) for P in (4, 8)}
rows = [[name, *(percent(found[P][name]) for P in found)] for name in found[4]]
table(
    [*rows, ["one class of 512 by chance", *[percent(1 / 512)] * 2]], ["guess", *(f"P = {P}" for P in found)]
)

# %% [markdown]
# The nearer the next patch, the better it tells. A model that does not beat the neighbours has learned nothing worth
# keeping.
#
# ## 6. Can a ViT do better?
#
# `MaskedPatches` puts the parts together. Its forward pass, with the shapes for `Nano/8`, which has 16 patches and
# D = 96:
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
# In evaluation the corruption comes from a fixed seed, so that scores repeat. `masked_objective` tells the engine of
# lesson 07 to take loss and hits from the model, and not to look at labels.

# %% tags=["nbval-ignore-output"]
model_name = profile.pick(smoke="Nano/8", cpu="Nano/8", gpu="Nano/4")
torch.manual_seed(0)
pretrainer = MaskedPatches(build_model(model_name, shapes), *shapes.channel_stats())
recipe = replace(
    RECIPES["adamw"],
    epochs=profile.pick(smoke=1, cpu=15, gpu=60),
    batch_size=profile.pick(smoke=64, cpu=64, gpu=256),
    lr=2e-3,
)
history = train(pretrainer, shapes, recipe, objective=masked_objective)

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

# %% [markdown]
# If the model is still below the neighbours, it has trained too little: more epochs. It cannot come near 100 %: a hole
# may hide what the rest of the picture does not tell, and a colour near the border of two levels is a coin toss.
#
# Numbers aside: look. Which errors would you make too?

# %% fold tags=["nbval-ignore-output"]
looked_at = shapes.test_images[:4]
pixels = patchify(looked_at / 255, P)
grid = pretrainer.vit.patch_embed.grid_size
device = next(pretrainer.parameters()).device
grey = torch.full((1, 1, pixels.shape[-1]), 0.5)
seen, chosen = (x.cpu() for x in corrupt_repeatably(pixels.to(device), grey.to(device)))
with torch.no_grad():
    logits, model_chosen = pretrainer.guess(normalize(looked_at, *shapes.channel_stats()).to(device))
assert torch.equal(chosen, model_chosen.cpu())  # same seed: what is drawn here is what the model saw


def filled(classes):
    """Show the corrupted patches in the colour of a class, the others as they are."""
    painted = patchify(paint(classes, P, grid) / 255, P)
    return unpatchify(torch.where(chosen[..., None], painted, pixels), P, grid)


sheets = [unpatchify(x, P, grid) for x in (pixels, seen)]
sheets += [filled(logits.argmax(dim=-1).cpu()), filled(colour_classes(looked_at, P))]
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

# %% tags=["nbval-ignore-output"]
predicted, wanted = logits.argmax(dim=-1).cpu()[chosen], colour_classes(looked_at, P)[chosen]
steps = (class_colours(predicted).int() - class_colours(wanted).int()).abs().amax(dim=-1) // 32
rows = [
    ["right", steps == 0],
    ["wrong by one level at most in each channel", steps == 1],
    ["further off", steps > 1],
]
table(
    [[name, percent(hit.float().mean().item())] for name, hit in rows],
    ["prediction", "of these corrupted patches"],
)

# %% [markdown]
# A class that is wrong by one level is nearly the same colour. Cross-entropy treats all wrong classes alike: that is
# the price of the classes.
#
# ## 7. Did it learn to see?
#
# Predicting colours is not the aim. The aim is a body that needs fewer *labels*. So take few labelled pictures, and
# train twice: from the pre-trained body, and from scratch. Everything else is equal. `replace_head` is from lesson 12.
#
# > **Predict.** By how many points will the pre-trained body be ahead? Or behind?

# %% tags=["nbval-ignore-output"]
labelled = shapes.subset(profile.pick(smoke=100, cpu=1_000, gpu=1_000))
fine_tuning = replace(
    RECIPES["smoothing"], epochs=profile.pick(smoke=1, cpu=15, gpu=30), batch_size=50, lr=1e-3, quiet=True
)
seeds = range(profile.pick(smoke=1, cpu=3, gpu=3))
scores = {"pre-trained without labels": [], "from scratch": []}
for seed in seeds:
    for name, found in scores.items():
        torch.manual_seed(seed)
        model = build_model(model_name, shapes)
        if name != "from scratch":
            model = replace_head(copy.deepcopy(pretrainer.vit), len(shapes.classes))
        found.append(100 * train(model, labelled, replace(fine_tuning, seed=seed)).test_accuracy)

(ours, pretrained), (theirs, scratch) = scores.items()
print(f"{number(len(labelled.train_images))} labelled pictures, guessing 10 %")
print(fill(difference_in_words(ours, pretrained, theirs, scratch), 90))
table(
    [[name, *(f"{score:.1f}" for score in found)] for name, found in scores.items()],
    ["test accuracy in percent", *map(str, seeds)],
)

# %% [markdown]
# The rule is that of lesson 07: where the interval holds 0, the seeds have not decided. And two models near guessing,
# 10 %, have both learned nothing yet; the sign of their difference means nothing.
#
# Is the comparison fair? The pre-trained body has seen more pictures for more steps. That is the point of the method
# when labels are what you lack. It is not fair if *time* is what you lack.
#
# If nothing helps here, or if it harms, that does not refute the idea: models and data are tiny, and pre-training was
# short. And a body that predicts the colours around a hole keeps *where and which colour*; it may have to give up some
# of it again before it can say *what*.
#
# ## 8. Why should the encoder read what is hidden?
#
# Four in ten of the tokens above were holes: 80 % of one half. The encoder spent that share of its work on a vector that
# says "nothing here", and that it will never meet again. **MAE** (masked autoencoders; He et al., 2022) draws the conclusion: leave the hidden patches
# out.

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
# where they came from. And there must be a way back, for the decoder reads N tokens in reading order.
#
# **Your task.** Write `keep_visible`. It draws which patches stay, hands over their tokens, and returns the way back.
# (Draw a random order of the patches. What is the inverse of an order?)

# %% exercise="vit_course.beyond.masked:keep_visible" difficulty=2 minutes=12 hint="Draw one random order of 0 ... N - 1 for every picture, (B, N). Its first K entries say which patches stay. `restore` is the inverse of this order: not which patch stands at place i, but at which place patch n stands." hint2="`order = torch.rand(B, N).argsort(dim=1)`, and `order.argsort(dim=1)` is its inverse. `tokens.gather(1, index[..., None].expand(-1, -1, D))` with `index = order[:, :K]` fetches the tokens. Before all that: the ValueError, if K = round(share·N) is not in 1 ... N."
from vit_course.beyond.masked import keep_visible

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

# %% [markdown]
# Now an encoder. It gets the visible tokens and CLS, and no mask token. How much does that save? The sum from lesson 04
# says it for the paper's B/16 at 224 pixels; a clock says it for a small model on your machine.
#
# > **Predict.** A quarter of the tokens: does the encoder take a quarter of the time, more, or less?


# %% tags=["nbval-ignore-output"]
def encoder_flops(num_tokens, dim=768, depth=12):
    """Count the operations of an encoder: attention, and two layers of the MLP."""
    return depth * (attention_flops(num_tokens, dim) + 2 * 2 * num_tokens * dim * 4 * dim)


def seconds(function, *inputs):
    """Measure the fastest of five calls."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        function(*inputs)
        times.append(time.perf_counter() - start)
    return min(times)


torch.manual_seed(0)
vit = VisionTransformer(img_size=224, patch_size=16, embed_dim=192, depth=4, num_heads=3).eval()
with torch.no_grad():
    big = normalize(plots.sample_photo((224, 224))[None].expand(4, -1, -1, -1), *stats)
    tokens = vit.patch_embed(big) + vit.pos_embed[:, 1:]  # positions first
    cls = (vit.cls_token + vit.pos_embed[:, :1]).expand(4, -1, -1)
    read = {"all": tokens, "the visible quarter": keep_visible(tokens)[0]}
    rows = [
        [
            name,
            x.shape[1] + 1,
            encoder_flops(x.shape[1] + 1) / 1e9,
            1000 * seconds(vit.blocks, torch.cat([cls, x], 1)),
        ]
        for name, x in read.items()
    ]
print(
    "of all:",
    percent(rows[1][2] / rows[0][2]),
    "of the work,",
    percent(rows[1][3] / rows[0][3]),
    "of the time here",
)
table(rows, ["patches read", "tokens", "GFLOP, B/16", "milliseconds here"])

# %% [markdown]
# A little over a quarter of the tokens, because CLS always goes in. The work falls a little further than the tokens,
# because attention grows with their square. The clock has its own opinion: small batches do not keep a machine busy.
#
# > **Key idea.** An encoder that never meets a mask token cannot miss it later, and it does a quarter of the work. So
# > MAE can hide 75 %, train longer, and use larger models.

# %% [markdown] curious
# ## 9. What do longer runs say?
#
# The task that you have built, on all pictures, followed by fine-tuning with 1 or 10 percent of the labels. The control
# starts from scratch and takes as many steps as both parts together, again and again on the pictures that have labels. A
# second start from scratch, of lesson 08, takes fewer steps. What would you believe if it were the only one?

# %% tags=["nbval-ignore-output"]
WAYS = {
    "colours": "masked patches first",
    "nothing": "from scratch, as many steps",
    "vit": "from scratch, fewer steps",
    "linear": "one matrix on raw pixels",
}
records = load_records("masked")
shares = {record["fraction"] for record in records}
curves, started = {}, {}
for record in records + [run for run in load_beside(records, "fractions-first") if run["fraction"] in shares]:
    way = WAYS.get(record["step"].rsplit("-", 1)[0])
    if way:
        found = curves.setdefault(way, {}).setdefault(100 * record["fraction"], [])
        found.append(100 * record["test_accuracy"])
    if about := record.get("pretraining"):
        started[record["config"]["seed"]] = about
curves = {way: curves[way] for way in WAYS.values() if way in curves}
rows = [
    [seed, about["pictures"], about["epochs"]]
    + [percent(hits) for hits in (about["hits"][0], about["hits"][-1], about["test_accuracy"])]
    for seed, about in sorted(started.items())
]
print(caption(records) if records else "No records are here yet: python -m vit_course experiments masked")
columns = ["seed", "pictures", "epochs", "right classes, first epoch", "last epoch", "on test pictures"]
table(rows, columns, "the pre-training") if rows else None

# %% tags=["nbval-ignore-output"]
rows = []
base = WAYS["nothing"]
for share in sorted(curves.get(base, {})):
    found, columns = result_table({way: by[share] for way, by in curves.items() if share in by}, base)
    rows += [[f"{share:g} %", *row] for row in found]
for share, first in curves.get(WAYS["colours"], {}).items():
    if other := curves.get(WAYS["vit"], {}).get(share):
        print(f"{share:g} %:", difference_in_words("masked first", first, "fewer steps", other))
table(rows, ["labels", *columns]) if rows else None

# %% fold tags=["nbval-ignore-output"]
if curves:
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

# %% [markdown]
# Read it in this order. Was the task learned? Is any gain decided? Is it larger where labels are few?
#
# In our records the task was learned: of the hidden patches of new pictures nearly four in ten get the right class. (Where
# CIFAR-10 is at hand, `guesses(load_dataset(), 8)` tells what the rivals of section 5 reach on it; `load_dataset` comes from
# `vit_course.data`.) With 1 percent of the labels the pre-trained body ends between three and four points ahead of the
# control, and the interval holds 0: three seeds have not decided. With 10 percent it is half a point behind, undecided too.
#
# Against the start with fewer steps, the two lines above the table, the first gain is five points and the second a loss of
# one, both decided. A report without the control would say: self-supervision helps where labels are few. Ours says: perhaps,
# and it takes more seeds to know.

# %% [markdown] curious
# ## 10. What did the paper find, and what came next?
#
# The paper's numbers are for ViT-B/16 (section 4.6, appendix B.1.2):
#
# - *Pre-trained* with masked patches on the pictures of JFT, without their labels: a million steps of 4,096 pictures,
#   about 14 epochs. Then *fine-tuned* on ImageNet: **79.9 %**. That is 2 points above training from scratch on
#   ImageNet, and 4 points *below* pre-training with the labels of JFT.
# - Such an effort is not needed. After 100,000 steps the gains level off, and pre-training on ImageNet's own pictures
#   gains about as much.
# - Three targets "worked quite well": the mean colour; the patch shrunk to 4x4 pixels, with a colour class for each;
#   and all its pixels, with a squared error (L2). L2 was slightly worse. The mean colour was best with few labels, so
#   the paper reports it.
# - 15 % corruption, as in BERT, was slightly worse than 50 %.
#
# In 2021 self-supervision caught up. **BEiT** (Bao et al.) came first: it predicts learned classes in place of colours.
# MAE followed some months later.
#
# And on CIFAR-10? Gani et al. report 96.41 % for a plain ViT of 2.8 million parameters that first learns without labels
# *on CIFAR-10 itself*. From scratch it reaches 93.58 %. Their method of self-supervision is another one. So small data
# are no obstacle in principle.
#
# ### What came next
#
# The paper ends with open questions (section 5): other tasks than classification, such as detection (*where* is each
# object?) and segmentation (*which pixels* belong to it?); self-supervision; and larger models. A plain ViT has two
# limits there. All its layers work on one coarse grid of patches, and the cost of attention grows with the square of
# their number. Two models of 2021 went on from it:
#
# - **Swin** (Liu et al.) lets tokens attend inside small windows only, which are moved by half a window in every second
#   layer. Its stages halve the grid, as in a CNN. So cost grows with the number of patches, not with its square, and
#   there are fine maps and coarse ones, as detection and segmentation want them.
# - **DeiT** (Touvron et al.) trains a ViT on ImageNet alone, with strong augmentation. With *distillation* it also
#   learns from a teacher: a second extra token, beside CLS, has to predict the answer of a trained CNN.
#
# **Your next step.** Change one thing and measure: `share=0.75`, or `task="pixels"` in `MaskedPatches(...)`. Write down
# first what you expect. Or make an MAE: `keep_visible`, the encoder, your way back, and a decoder of two blocks.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# A patch was drawn for corruption, and by chance it was left as it is. Does it enter the loss?
#
# - [x] yes :: The model cannot know that it was left: from inside, a kept patch and a swapped one look the same, a visible token that may be wrong.
# - [ ] no, since it can be copied :: That is true of patches that were *not* drawn. They never count.
# - [ ] only if it is predicted wrongly :: A loss that leaves out right answers would punish nothing but confidence.

# %% [markdown] quiz
# Where are the positions added in masked patch prediction?
#
# - [x] after corruption :: Then a mask token says where it is.
# - [ ] before corruption, so that they are masked too :: All masked patches of a picture would look the same, and get the same prediction.
# - [ ] nowhere: a mask token needs no position :: Then the model could not tell which hole it has to fill.

# %% [markdown] quiz
# In the first minute of pre-training the loss falls to 0.01. What do you suspect?
#
# - [x] targets of normalised images :: Nearly all patches then share a few classes.
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
# | patch tokens | (B, N, D) | before CLS and positions |
# | `mask_token` | (1, 1, D) | learned, one for all |
# | `chosen` | (B, N) bool | exactly round(share·N) in each picture |
# | corrupted tokens | (B, N, D) | 80 % mask, 10 % another, 10 % as they were |
# | target | (B, N) int64 | 64·red + 8·green + blue, from pixels in 0..255 |
# | logits | (B, N, 512) | a linear layer on every patch token |
# | loss | scalar | mean over all chosen patches, no others |
# | MAE: visible tokens | (B, N/4, D) | with positions, without holes |
# | MAE: `restore` | (B, N) int64 | the place of each patch in the row of visible and hidden ones |
#
# - Self-supervision takes its answers from the data, and leaves the labels for later.
# - Hide enough: neighbouring patches resemble each other. And measure that resemblance before you praise a model.
# - The proof is fine-tuning with few labels, with several seeds, and with the cost beside it.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), section 4.6 and appendix B.1.2.
# - Devlin et al., *BERT: Pre-training of Deep Bidirectional Transformers* (2018): where 80 / 10 / 10 comes from.
# - He et al., *Masked Autoencoders Are Scalable Vision Learners* (CVPR 2022).
# - Bao et al., *BEiT: BERT Pre-Training of Image Transformers* (ICLR 2022): learned classes in place of colours.
# - Liu et al., *Swin Transformer* (ICCV 2021), and Touvron et al., *Training data-efficient image transformers* (ICML
#   2021).
# - Gani et al., *How to Train Vision Transformer on Small-scale Datasets?* (BMVC 2022).
