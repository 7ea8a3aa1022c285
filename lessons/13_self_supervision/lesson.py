# ---
# title: "Self-supervision"
# promise: "You hide half of every picture, let a model predict what was there, and measure whether it learned to see without a single label."
# part: "III. Beyond"
# minutes: 65
# map: [patches]
# goals:
#   - "Say what a model can learn from pictures that nobody has labelled, and where this idea comes from."
#   - "Corrupt patches as the paper does, and say why not all of them become the mask token."
#   - "Turn patches into 512 colour classes and back, and name the trap in it."
#   - "Judge a predictor against guesses that need no learning."
#   - "Read whether pre-training without labels helped, and compare the paper's way with MAE."
# ---

# %% [markdown]
# ## 1. Can a picture teach without a label?
#
# Somebody looked at each of the 50,000 training pictures of CIFAR-10 and wrote down one of ten words. That is slow and costs
# money. Pictures *without* labels are everywhere. Can a model learn from them?
#
# Text models answered first. BERT (Devlin et al., 2018) takes a sentence, hides some words and asks for them:
#
# > The cat drinks ▢ from a ▢.
#
# You can fill the holes because you know cats, cups and grammar. A model that learns to fill them must learn something about
# all three. The right answers cost nothing: they were in the text. This is **self-supervised learning**, learning from a task whose
# answers are part of the data. Here is the same game with a picture.

# %%
import copy
from dataclasses import replace

import torch
import torch.nn.functional as F
from einops import rearrange

from vit_course.classroom import check, plots
from vit_course.data import normalize, shapes10
from vit_course.patches import patchify, unpatchify
from vit_course.machinery.profiles import get_profile

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
# To guess a square well you must know that skin goes on as skin, and that a cap has an edge. That is knowledge about pictures, and
# no label was needed for it.
#
# The paper tries this in section 4.6 and appendix B.1.2, under the name **masked patch prediction**. The plan has two steps:
#
# 1. **Pre-train**: train the body of a ViT to predict hidden patches, on many pictures without labels.
# 2. **Fine-tune** (lesson 12): throw the prediction layer away, put a new head on the body, train on the labelled pictures.
#
# We need four parts: corrupt patches, name what should be predicted, score the prediction, and look at it. You build all four.
#
# ## 2. What exactly do we hide?
#
# Let $x^i E$ be the token of patch i, a vector of D numbers. M is a random half of the N patches, drawn anew for every picture and
# every step. The patches in M are **corrupted**. Each of them meets one of three fates:
#
# $$\tilde{x}^i = \begin{cases} \texttt{[mask]} & \text{with probability } 0.8 \\ x^j E,\; j \ne i & \text{with probability } 0.1 \\
# x^i E & \text{with probability } 0.1 \end{cases}$$
#
# `[mask]` is *one* learned vector of D numbers, for all patches and pictures. Why not use it always?
#
# - In step 2 no mask token will ever come. A model that has learned "think hard at a mask, sleep elsewhere" is of little use then.
# - With 10 % **other** patches, no visible token can be trusted. The model has to check every one of them against its neighbours.
# - With 10 % **left as they are**, it also pays to believe a token that fits.
#
# So "corrupted" means "drawn", not "changed". In all three cases the model has to say what was there.
#
# Corruption comes *before* the positions are added (equation 1). A mask token then still says "I am the third patch in row five".
#
# **Your task.** Write `corrupt`. Mind a trap in the probabilities. Suppose you first draw who is masked, with 0.8, and then ask about the
# *rest*: which share of the rest must become another patch?

# %% exercise="vit_course.beyond.masked:corrupt" difficulty=3 minutes=15 hint="Two sets of random numbers (B, N) do it: one to draw exactly k patches (a random order of 0 ... N-1, and those below k), one to decide their fate: below 0.8, between 0.8 and 0.9, above." hint2="`torch.rand(B, N).argsort(dim=1) < k` draws exactly k in every picture. For another patch, step 1 ... N-1 places on, modulo N: this never ends at the patch itself. `tokens.gather(1, index[..., None].expand_as(tokens))` fetches the tokens, and `torch.where` puts everything together."
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
drawn = chosen.sum().item()
print("corrupted patches of each picture:", chosen.sum(dim=1).unique().tolist(), "of", N)
print(f"mask token    {masked.sum().item() / drawn:6.1%} of the corrupted")
print(f"another patch {swapped.sum().item() / drawn:6.1%}")
print(f"left alone    {(chosen & ~masked & ~swapped).sum().item() / drawn:6.1%}")
print(f"another patch, among those not masked: {swapped.sum().item() / (chosen & ~masked).sum().item():.1%}")

# %% [markdown]
# The last line is the trap: 10 of the remaining 20 percent, so one half. (With 0.1 there, hardly any patch would be swapped.)
#
# Pixels of patches are vectors too, so your function can corrupt a *picture*. With grey in the place of the mask token you see
# what the model gets.

# %%
shares = (0.15, 0.5, 0.75)
grey = torch.full((1, 1, patches.shape[-1]), 0.5)
torch.manual_seed(4)
views = [unpatchify(corrupt(patches, grey, share)[0], 8, (8, 8))[0] for share in shares]
figure = plots.image_row(
    [photo[0], *views],
    ["the picture", *(f"{share:.0%} corrupted" for share in shares)],
    "BERT hides 15 % of the words, the paper 50 % of the patches, MAE 75 %",
)
plots.show(
    figure,
    "The portrait, then with 15, 50 and 75 percent of its 64 patches corrupted: most of those are grey, a few are "
    "copies of other patches.",
)

# %% [markdown]
# Look for squares that are not grey and yet wrong: they are the swapped ones. At 15 % nearly every hole is surrounded by
# its answer. Neighbouring patches resemble each other much more than neighbouring words do. So pictures need larger holes.
#
# ## 3. What should be predicted?
#
# All the pixels of the patch? Then a squared error would be the loss, and that has a weakness. If a hole is either blue sky or red
# roof, the prediction with the smallest squared error is the mean of the two: violet, which is never right. With **classes** the model can
# say "half blue, half red", and cross-entropy rewards it.
#
# The paper's classes are coarse: the mean colour of the patch with **3 bits** for each channel. Let $m_c$ be the mean of
# channel c over the P·P pixels, in 0..255. Three bits make 8 levels, each 32 grey values wide:
#
# $$\ell_c = \lfloor m_c / 32 \rfloor \in \{0, \dots, 7\}, \qquad k = 64\,\ell_{red} + 8\,\ell_{green} + \ell_{blue} \in \{0, \dots, 511\}$$
#
# Three digits to the base 8 make one number: $8^3 = 512$ classes.
#
# **Your task.** Write `colour_classes`. It should work for non-square patches, and for grey pictures, which have one digit.

# %%
from vit_course.beyond.masked import colour_classes

# %% [markdown]
# **Your task.** Write the way back, for looking: `class_colours` turns a class into the colour in the middle of its levels.

# %%
from vit_course.beyond.masked import class_colours


# %%
def paint(classes, patch_size, grid):
    """Paint classes (B, N) as pictures (B, 3, H, W): every patch in the colour of its class."""
    colours = rearrange(class_colours(classes), "b (h w) c -> b c h w", h=grid[0])
    return colours.repeat_interleave(patch_size, dim=2).repeat_interleave(patch_size, dim=3)


sides = (8, 4, 2)
figure = plots.image_row(
    [photo[0], *(paint(colour_classes(photo, P), P, (64 // P, 64 // P))[0] for P in sides)],
    ["the picture", *(f"P = {P}: {len(colour_classes(photo, P).unique())} classes occur" for P in sides)],
    "3 bits a channel are coarse, and still a face",
)
plots.show(
    figure,
    "The portrait, and three versions in which every patch of 8, 4 or 2 pixels has the colour of its class: the finer "
    "the patches, the clearer the face.",
)

# %% [markdown]
# The target is a mean: it holds no edge and no texture. So the task asks *what kind of thing* is there rather than how it is drawn.
# The right figure is nearly the picture because P is small there, not because the colours are fine.
#
# One trap deserves a look. Training code holds *normalised* images: mean 0, deviation 1. Somebody feeds these to the
# function, and nothing complains.

# %%
stats = torch.tensor([0.5, 0.4, 0.4]), torch.tensor([0.25, 0.25, 0.25])
for name, images in (
    ("pixels in 0..255", photo),
    ("normalised", normalize(photo, *stats)),
    ("in 0..1", photo / 255),
):
    print(f"{name:17} different classes on the photo at P = 4: {len(colour_classes(images, 4).unique())}")

# %% [markdown]
# With normalised images there is next to nothing to predict. The loss falls at once to about 0, it looks like a triumph, and the model
# learns nothing. That is why `MaskedPatches`, which you will train below, keeps mean and deviation and undoes the
# normalisation for its targets.
#
# ## 4. Which patches count?
#
# A linear layer, `predict`, reads the output token of *every* patch and gives K = 512 logits. Which of them enter the loss? Only
# the corrupted ones, and all of these:
#
# $$\mathcal{L} = -\frac{1}{|M|} \sum_{i \in M} \log p_i(k_i)$$
#
# M holds the corrupted patches of the whole batch, $|M|$ is their number, $k_i$ is the right class of patch i, and $p_i$ the softmax
# of its 512 logits.
#
# - Not the others. They stand there in the open, so copying would lower the loss and teach nothing.
# - Not the mask tokens alone. Then a visible token would never be questioned, and the 10 + 10 percent would have no purpose.
#
# **Your task.** Write `masked_loss`. Pictures may differ in the number of their corrupted patches; each *patch* weighs the same.

# %% exercise="vit_course.beyond.masked:masked_loss" difficulty=2 minutes=8 hint="`F.cross_entropy` can give one loss for each patch (`reduction='none'`), or you select the corrupted patches first: `logits[chosen]` is (number of corrupted, K)." hint2="`F.cross_entropy(logits[chosen], classes[chosen])` is right. `torch.compile` prefers shapes that do not depend on data: losses (B, N) with `reduction='none'` and `logits.transpose(1, 2)`, then their sum over the chosen ones divided by `chosen.sum()`."
from vit_course.beyond.masked import masked_loss

masked_loss = check(masked_loss)

# %%
torch.manual_seed(0)
chosen = torch.rand(2, 64).argsort(dim=1) < 32
classes = torch.randint(0, 512, (2, 64))
knows_nothing = torch.zeros(2, 64, 512)
copies = torch.where(chosen[..., None], 0.0, 20.0 * F.one_hot(classes, 512))
print(f"ln 512 = {torch.tensor(512.0).log():.3f}")
print(f"all classes alike:                        {masked_loss(knows_nothing, classes, chosen):.3f}")
print(f"right where it can copy, nowhere else:    {masked_loss(copies, classes, chosen):.3f}")
print(
    f"the same, if all patches counted:         {masked_loss(copies, classes, torch.ones_like(chosen)):.3f}"
)

# %% [markdown]
# The last line shows the harm: half of the loss gone, and nothing learned.
#
# ## 5. How good is a guess without learning?
#
# A score means nothing until you know what is easy. Before we train, we ask two rivals that learn nothing about shapes:
#
# - always the **commonest** class of the training pictures;
# - the **mean of the neighbours**: average the uncorrupted ones among the eight patches around, and take the class of that colour.
#
# The second is a serious rival, because patches resemble their neighbours. We use Shapes-10 from here on, since its pictures may be
# shown and are made in seconds. Labels are not touched until section 7.

# %%
from vit_course.beyond.masked import MaskedPatches, corrupt_repeatably, masked_objective, neighbour_guess

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


# %% tags=["nbval-ignore-output"]
print(f"one class of 512 by chance {1 / 512:.1%}")
for P in (4, 8):
    found = guesses(shapes, P)
    print(f"P = {P}: " + ", ".join(f"{name} {share:.1%}" for name, share in found.items()))

# %% [markdown]
# The neighbours do far better than the commonest class, and better at P = 4 than at P = 8, where the next patch is further away. A
# model that does not beat them has learned nothing worth keeping.
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
# In evaluation mode the corruption comes from a fixed seed, so that scores repeat. The engine of lesson 07 trains it; `masked_objective` tells
# it to take loss and hits from the model, and not to look at labels.

# %% tags=["nbval-ignore-output"]
from vit_course.recipes import RECIPES, build_model
from vit_course.train import train

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
best_name, best = max(rivals.items(), key=lambda item: item[1])
won = history.test_accuracy > best
epochs = list(range(1, len(history.train_accuracy) + 1))
lines = {"the model, on training pictures": (epochs, [100 * hits for hits in history.train_accuracy])}
lines["the model, on test pictures"] = ([epochs[-1]], [100 * history.test_accuracy])
lines |= {f"{name}, on test pictures": ([0, epochs[-1]], [100 * share] * 2) for name, share in rivals.items()}
print(
    f"right classes among corrupted test patches: model {history.test_accuracy:.1%}, {best_name} {best:.1%}"
)
figure = plots.curves(
    lines,
    f"After {epochs[-1]} epochs the model {'beats' if won else 'does not beat'} the {best_name}",
    "epoch",
    "right colour classes in percent",
)
figure.axes[0].set_ylim(bottom=0)
plots.show(
    figure,
    "Share of corrupted patches whose class is right, over the epochs of pre-training, with a level line for each of "
    "the two guesses without learning.",
)

# %% [markdown]
# If the model is still below the neighbours, it has trained too little: run the cell above with more epochs. How near could it come to
# 100 %? Not very. Every hole may hide something that the rest of the picture does not tell, and a colour near the border of two levels is a
# coin toss.
#
# Numbers aside: look. Which errors would you make too?

# %% tags=["nbval-ignore-output"]
looked_at = shapes.test_images[:4]
pixels = patchify(looked_at / 255, P)
grid = pretrainer.vit.patch_embed.grid_size
device = next(pretrainer.parameters()).device
grey = torch.full((1, 1, pixels.shape[-1]), 0.5)
seen, chosen = (x.cpu() for x in corrupt_repeatably(pixels.to(device), grey.to(device)))
with torch.no_grad():
    logits, model_chosen = pretrainer.guess(normalize(looked_at, *shapes.channel_stats()).to(device))
assert torch.equal(chosen, model_chosen.cpu())  # same seed: what is drawn here is what the model saw


def fill(classes):
    """Show the corrupted patches in the colour of a class, the others as they are."""
    painted = patchify(paint(classes, P, grid) / 255, P)
    return unpatchify(torch.where(chosen[..., None], painted, pixels), P, grid)


sheets = [unpatchify(x, P, grid) for x in (pixels, seen)]
sheets += [fill(logits.argmax(dim=-1).cpu()), fill(colour_classes(looked_at, P))]
sheets = [plots.image_grid(F.pad(sheet, (1, 1, 1, 1), value=1.0), columns=2) for sheet in sheets]
predicted, wanted = logits.argmax(dim=-1).cpu()[chosen], colour_classes(looked_at, P)[chosen]
right = (predicted == wanted).float().mean().item()
steps = (class_colours(predicted).int() - class_colours(wanted).int()).abs().amax(dim=-1) // 32
print(
    f"the rest: {(steps == 1).float().mean():.0%} are wrong by one level at most in each channel, "
    f"{(steps > 1).float().mean():.0%} by more"
)
figure = plots.image_row(
    sheets,
    ["pictures", "what the model sees", "what it predicts", "the right classes"],
    f"{right:.0%} of these {int(chosen.sum())} corrupted patches have the right class",
    height=2.9,
)
plots.show(
    figure,
    "Four pictures of Shapes-10, four times: untouched; with half of the patches corrupted; with those patches in the colour "
    "that the model predicts; and in the colour of the right class.",
)

# %% [markdown]
# Compare the two sheets on the right, and the printed line. A class that is wrong by one level is nearly the same colour. Cross-entropy
# treats all wrong classes alike: that is the price of the classes.
#
# ## 7. Did it learn to see?
#
# Predicting colours is not the aim. The aim is a body that needs fewer *labels*. So take few labelled pictures, and train twice: from
# the pre-trained body, and from scratch. Everything else is equal. `replace_head` is from lesson 12.

# %% tags=["nbval-ignore-output"]
from vit_course.beyond.transfer import replace_head

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
        found.append(train(model, labelled, replace(fine_tuning, seed=seed)).test_accuracy)


def mean(values):
    return sum(values) / len(values)


def verdict(ours, scratch, chance=0.1):
    """Say whether pre-training helped, by how many points, and whether the seeds agree."""
    gain = 100 * (mean(ours) - mean(scratch))
    text = f"{gain:+.1f} points over scratch: "
    if max(mean(ours), mean(scratch)) < 2 * chance:
        return text + "both are near chance, so there is nothing to compare"
    if min(len(ours), len(scratch)) < 2:
        return text + "one seed, so nobody knows how much of it is chance"
    if min(ours) > max(scratch):
        return text + "it helps, in every seed"
    if max(ours) < min(scratch):
        return text + "it harms, in every seed"
    return text + "the seeds overlap, so this decides nothing"


print(f"{len(labelled.train_images)} labelled pictures: {verdict(*scores.values())}")
figure = plots.dots(
    {name: ([f"seed {seed}" for seed in seeds], [100 * s for s in found]) for name, found in scores.items()},
    f"With {len(labelled.train_images)} labels: {100 * (mean(scores['pre-trained without labels']) - mean(scores['from scratch'])):+.1f} points",
    "test accuracy in percent",
)
plots.show(figure, "Test accuracy for each seed, pre-trained without labels and from scratch.")

# %% [markdown]
# One point about reading such a result: chance is 10 %. Two models near chance have both learned nothing yet, and the sign of
# their difference means nothing.
#
# Is the comparison fair? The pre-trained body has seen more pictures for more steps. That is the point of the method when labels are what you
# lack. It is not fair if *time* is what you lack. So the recorded runs below print the time of pre-training too.
#
# They belong to the course: two tasks, each followed by fine-tuning with 1, 10 and 100 percent of the labels, beside the runs
# from scratch of lesson 08. "Colours" is what you have built. "Pixels" predicts all pixels of the corrupted patches, each patch normalised by
# its own mean and deviation, with a squared error.

# %% tags=["nbval-ignore-output"]
from vit_course.experiments.records import caption, load_records

TASKS = {"colours": "colour classes", "pixels": "pixels", "vit": "from scratch"}
HITS = {"colours": "right classes", "pixels": "variance explained"}
records = load_records("masked")
fractions = load_records("fractions", records[0]["size"]) if records else []
curves, started = {}, {}
for record in records + fractions:
    task, percent = record["step"].rsplit("-", 1)
    if task in TASKS and (record in records or percent in ("1", "10", "100")):
        found = curves.setdefault(TASKS[task], {}).setdefault(float(percent), [])
        found.append(100 * record["test_accuracy"])
    if record in records:
        started[TASKS[task]] = record["pretraining"] | {"task": task}
if records:
    print(caption(records))
    for name, about in started.items():
        print(
            f"{name:14} pre-trained on {about['pictures']:,} pictures, {about['epochs']} epochs, {about['seconds'] / 60:.1f} "
            f"minutes, {HITS[about['task']]} {about['hits'][0]:.1%} -> {about['hits'][-1]:.1%}"
        )
    scratch = curves.get("from scratch", {})
    for name in started:
        for percent, found in sorted(curves[name].items()):
            if percent in scratch:
                both = ([value / 100 for value in values] for values in (found, scratch[percent]))
                print(f"{percent:4g} % of the labels, {name:14} {verdict(*both)}")
    pairs = [
        (found, scratch[percent])
        for name in started
        for percent, found in curves[name].items()
        if percent in scratch
    ]
    better = sum(min(found) > max(others) for found, others in pairs)
    seeds = min((len(values) for pair in pairs for values in pair), default=0)
    title = f"Pre-training is ahead in {better} of {len(pairs)} comparisons" + (
        ", with one seed each" if seeds < 2 else ", and there in every seed"
    )
    figure = plots.seed_curves(
        curves, title, "share of the labels in percent", "test accuracy in percent", log=True
    )
    plots.show(
        figure,
        "Test accuracy over the share of labels, for each kind of pre-training and from scratch; a dot a seed.",
    )
else:
    print("No recorded masked runs are here yet. `python -m vit_course experiments masked` makes them.")

# %% [markdown]
# "It helps, in every seed" tells an order of numbers, not a cause. With three seeds against three, equal models show
# such an order in one case of ten (lesson 08). If the caption names one seed for the subset, all seeds also saw the
# same pictures. And the pre-trained body took more steps in all: a part of its lead may be training time.
#
# Read it in this order. Is any gain larger than the spread of the seeds? Is it larger where labels are few? Which task gives more? And would
# the minutes of pre-training, spent on longer training from scratch, have brought as much? The records cannot answer the last question. An
# honest report says so.
#
# If nothing helps here, or if it harms, that does not refute the idea. These models and data are tiny, and pre-training was short. There is
# also a cause to think about: a body that predicts the colours around a hole keeps *where and which colour*, and may have to
# give up some of it again before it can say *what*.
#
# ## 8. What did the paper find, and who does better?
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
# Some months later **MAE** (masked autoencoders; He et al.) changed four things:
#
# | | the paper | MAE |
# |---|---|---|
# | hidden | 50 %, of these 80 / 10 / 10 | 75 %, all of them removed |
# | the encoder sees | all N tokens, mask tokens too | only the visible quarter, no mask token |
# | who predicts | one linear layer | a small Transformer, which gets the mask tokens and is thrown away later |
# | target | class of the mean colour | all pixels, each patch normalised by its own mean and deviation |
#
# The second row also solves the problem of section 2: an encoder that never meets a mask token cannot miss it later. And it is cheap. By how
# much, you can compute with lesson 04.

# %% exercise="vit_course.beyond.masked:keep_visible" difficulty=2 minutes=12 hint="a" hint2="b"
from vit_course.beyond.masked import keep_visible

keep_visible = check(keep_visible)

# %%
from vit_course.attention import attention_flops


def encoder_flops(num_tokens, dim=768, depth=12):
    """Count the operations of an encoder: attention, and two layers of the MLP."""
    return depth * (attention_flops(num_tokens, dim) + 2 * 2 * num_tokens * dim * 4 * dim)


everything, quarter = encoder_flops(197), encoder_flops(1 + 196 // 4)
print(f"B/16 at 224 pixels: 197 tokens {everything / 1e9:.1f} GFLOP, 50 tokens {quarter / 1e9:.1f} GFLOP")
print(f"MAE's encoder does {quarter / everything:.0%} of the work")

# %% [markdown]
# And on CIFAR-10? Gani et al. report 96.41 % for a plain ViT of 2.8 million parameters that first learns without labels *on CIFAR-10
# itself*. From scratch it reaches 93.58 %. Their method of self-supervision is another one. So small data are no obstacle in principle.
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
# **Your next step.** Change one thing and measure: `share=0.75`, or `task="pixels"` in `MaskedPatches(...)`. Write down first what
# you expect. Or make the target easier to learn from: a loss that treats the *next* class as half right.
#
# ## Check yourself
#
# **1.** A patch was drawn for corruption, and by chance it was left as it is. Does it enter the loss? (a) no, it can be copied (b) yes, the model cannot know
# that it was left (c) only if it is predicted wrongly
#
# <details><summary>Answer</summary>
#
# **(b)** From inside, a kept patch and a swapped one look the same: a visible token that may be wrong. (a) speaks of patches that were *not* drawn;
# they never count. (c): a loss that leaves out right answers would punish nothing but confidence.
#
# </details>
#
# **2.** You draw who becomes a mask with probability 0.8. With which probability does one of the *remaining* corrupted patches become another patch?
# (a) 0.1 (b) 0.5 (c) 0.2
#
# <details><summary>Answer</summary>
#
# **(b)** 10 of the remaining 20 percent. (a) gives 2 % of the corrupted patches. (c) is the share of the remaining ones among all corrupted.
#
# </details>
#
# **3.** In the first minute of pre-training the loss falls to 0.01. What do you suspect? (a) a strong model (b) targets computed from normalised images
# (c) a learning rate that is too small
#
# <details><summary>Answer</summary>
#
# **(b)** Nearly all patches then share a few classes. (a): much of what is hidden cannot be known, so no model gets there.
# (c): the loss would stay near ln 512.
#
# </details>
#
# **4.** Where are the positions added? (a) before corruption, so that they are masked too (b) after corruption (c) mask tokens get none
#
# <details><summary>Answer</summary>
#
# **(b)** Then a mask token says where it is. With (a) and (c) all masked patches of a picture would look the same, and get the same prediction.
#
# </details>
#
# **5.** A model predicts 38 % of the classes right, chance is 0.2 %. Is it good? (a) yes, 190 times chance (b) nobody can say before a
# simple rival is measured (c) no, below 50 %
#
# <details><summary>Answer</summary>
#
# **(b)** The mean of the neighbours may reach as much. (a) compares with a rival that nobody would use. (c): with 512 classes, 50 % has no meaning
# of its own.
#
# </details>
#
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
