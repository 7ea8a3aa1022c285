# ---
# title: "Pre-train, fine-tune, higher resolution"
# promise: "Adapt a trained ViT to a new task with few labels."
# part: "III. Beyond"
# map: [position, head]
# recall:
#   "03.4": "You need 145 positions and have 65. Somebody interpolates all 65 as one list. What happens?"
#   "06.1": "Before its first step, a model for 100 classes has a loss of 9.7. What do you conclude?"
#   "08.3": "One model has 91.2, 91.9 and 91.5 % with three seeds, the other 91.4, 91.8 and 92.0 %. What belongs in the report?"
# goals:
#   - "Say which parts of a trained ViT stay in a new task, and which do not."
#   - "Replace the head, and show that a zero head cannot disturb the body in the first step."
#   - "Freeze a body, and distinguish fine-tuning from a linear probe."
#   - "Measure how many labels pre-training saves, with the right control."
#   - "Let a trained model read larger images."
# ---

# %% [markdown]
# ## 1. How many labels do I need?
#
# You want a model that tells a key, a leaf and a mug apart, and you have photographed eight of each. (Ours are drawn
# by the computer on real grounds, so that you need no camera.) For a ViT with random weights that is far too little.
# The paper goes another way:
#
# 1. **Pre-training.** Train once, on a *large* set of other images.
# 2. **Fine-tuning.** Train a little longer, on the few images of your own task.
#
# This is **transfer learning**. Somebody else has done step 1 for us. Our model saw 50,000 photos of airplanes, cats
# and other things, but no keys. With your own photos, in folders `train/<class>/` and `test/<class>/`, set `mine` to
# their folder.

# %% fold
import copy
import math
from textwrap import fill

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vit_classroom import check, plots, table
from vit_classroom.evidence.bodies import untrained
from vit_classroom.evidence.statistics import result_table
from vit_classroom.exhibits.transfer_runs import gain, larger_runs, price, transfer_runs
from vit_classroom.numbers import number, percent
from vit_classroom.profiles import get_profile
from vit_classroom.sample_photos import KINDS, draw_photos
from vit_classroom.student_model import load_my_model
from vit_course.data import Dataset, load_dataset, normalize
from vit_course.extensions.backbone import load_backbone
from vit_course.extensions.transfer import change_resolution, normalised_as
from vit_course.optim import layer_scale
from vit_course.train import TrainConfig, evaluate, train

# %% tags=["nbval-ignore-output"]
profile = get_profile()
mine = None  # your own: "data/mine/photos"
backbone = load_backbone("cifar-vit")
stats = backbone.mean, backbone.std


def read_photos(side):
    """Return the photos of the task, with `side` pixels and the normalisation of the weights."""
    if mine:
        return normalised_as(load_dataset(mine, image_size=side), *stats)
    train, test = 24, profile.pick(smoke=30, cpu=150, gpu=300)
    drawn = *draw_photos(train, (side, side), seed=0), *draw_photos(test, (side, side), seed=1)
    return normalised_as(Dataset(*drawn, KINDS, "drawn photos"), *stats)


photos = read_photos(32)
classes = len(photos.classes)
print(
    f"{len(photos.train_images)} photos to learn from, {len(photos.test_images)} to test, classes: {', '.join(photos.classes)}"
)

# %% fold tags=["nbval-ignore-output"]
sharp, firsts = read_photos(96), []
for label in range(min(classes, 4)):
    firsts += [*sharp.train_images[sharp.train_labels == label][:4]]
figure = plots.image_row(
    [plots.image_grid(torch.stack(firsts[: len(firsts) // 4 * 4]), columns=4)],
    ["four photos of each class"],
    "Our task",
    3.2,
)
plots.show(
    figure,
    "A sheet of photos with four of a class in a row. The drawn ones are keys, leaves and mugs on dark grounds.",
)

# %% [markdown]
# Before anything learns, one rule. **Normalisation goes with the weights.** The model was trained on pixels minus a mean, divided by
# a deviation (lesson 00), and its weights expect the same numbers for ever. Here is the cat that comes with the course, normalised in
# three ways.
#
# > **Predict.** Which of them gives an error?

# %% tags=["nbval-ignore-output"]
pixels = photos.train_images / 255
cat, about_cat = plots.sample_photo((32, 32), "cat")[None], {}
for name, (mean, std) in (
    ("as in its training", stats),
    ("as our photos would be", (pixels.mean(dim=(0, 2, 3)), pixels.std(dim=(0, 2, 3)))),
    ("not at all, 0 to 255", (torch.zeros(3), torch.ones(3) / 255)),
):
    with torch.no_grad():
        shares = backbone.model(normalize(cat, mean, std)).softmax(dim=1)[0]
    about_cat[name] = shares[3].item()  # cat is class 3
table([[name, percent(value)] for name, value in about_cat.items()], ["normalised", "probability of cat (%)"])

# %% [markdown] claim="about_cat['as in its training'] > 0.7 and about_cat['not at all, 0 to 255'] < 0.5"
# None of them does. Nothing complains, and without normalisation most of the probability is gone. The statistics of our photos do no harm
# to this one cat, but that is luck, because the weights never met such numbers. So every data set below is normalised with the
# statistics *of the weights*, by `normalised_as`.
#
# ## 2. What stays, and what must go?
#
# The model has two parts. Its **body** turns an image into a vector y. It consists of patches, positions, blocks and the final
# norm. Its **head** turns y into scores. For B images and K classes
#
# $$\text{logits} = y\,W^\top + b$$
#
# with y (B, D), W (K, D) and b (K). Each row of W belongs to one old class. The new task has other classes, so W and b
# must go. The body stays, because edges, colours and corners are useful in other tasks, too.
#
# | part | shape | in the new task |
# |---|---|---|
# | patch embedding, CLS token, blocks, final norm | depends on P, D, L | kept |
# | positions | (1, N + 1, D) | kept (section 5 changes N) |
# | hidden tanh layer, `pre_logits` | (hidden, D) and (hidden) | removed |
# | head | (K, D) and (K) | new, all zero |
#
# In the paper, pre-training has the hidden layer, and ours has none. The authors found it "a little more robust" to
# start fine-tuning from a single layer of zeros (appendix B.1.1). Why could zero help? Write it first, then you will see.
#
# **Your task.** Write `replace_head`. It changes the model in place, and only its head.

# %% exercise="vit_course.extensions.transfer:replace_head" difficulty=1 minutes=10 hint="Build an `nn.Linear`, set its weight and bias to zero, and assign it to `model.head`. How many numbers does it read? Not always as many as the old head did, because that one may follow the hidden tanh layer." hint2="Which layer of the model has exactly D numbers, whatever the old head was? The new head must also be on the device and in the dtype of the model. `.to(a_tensor)` takes both from a tensor. What can stand where `pre_logits` was, so that `forward` still runs?"
from vit_course.extensions.transfer import replace_head

replace_head = check(replace_head)

# %% tags=["nbval-ignore-output"]
model = replace_head(copy.deepcopy(backbone.model), classes).train()
few = photos.subset(24)
images, labels = normalize(few.train_images, *stats), few.train_labels
loss = F.cross_entropy(model(images), labels)
print(f"first loss {loss.item():.6f}, ln {classes} = {math.log(classes):.6f}")

# %% [markdown] always claim="abs(loss.item() - math.log(classes)) < 1e-5"
# The loss is ln K, as it should be. With W = 0 and b = 0 every score is 0, and every probability is 1/K. But there is a better reason
# for the zero. Let p (B, K) be the probabilities and t (B, K) the targets, 1 for the right class and 0 elsewhere. For the mean
# loss over the batch
#
# $$\frac{\partial\,\text{loss}}{\partial W} = \frac{1}{B}\,(p - t)^\top y \qquad\qquad \frac{\partial\,\text{loss}}{\partial y} = \frac{1}{B}\,(p - t)\,W$$
#
# The left one, (K, D), trains the head. The right one, (B, D), is all that ever reaches the body.
#
# > **Predict.** In the first step, which parts of the model get a gradient if the head is zero? And if it is random?


# %% tags=["nbval-ignore-output"]
def gradient_norms(model):
    """Return the norm of the loss's gradient for every part of the model, embeddings first."""
    model.zero_grad()
    F.cross_entropy(model(images), labels).backward()
    squares = {}
    for name, parameter in model.named_parameters():
        part = ".".join(name.split(".")[:2]) if name.startswith("blocks.") else name.split(".")[0]
        squares[part] = squares.get(part, 0.0) + parameter.grad.square().sum().item()
    return {part: square**0.5 for part, square in squares.items()}


torch.manual_seed(0)
random_head = copy.deepcopy(model)
random_head.head.reset_parameters()  # PyTorch's own start of a linear layer
norms = {"random head": gradient_norms(random_head), "zero head": gradient_norms(model)}
body = [value for part, value in norms["zero head"].items() if part != "head"]
print("largest gradient in the body, zero head:", number(max(body)))

# %% fold tags=["nbval-ignore-output"]
plots.show(
    plots.dots(
        {name: (list(found), list(found.values())) for name, found in norms.items()},
        "Which parts get a gradient in the first step?",
        "norm of the gradient",
    ),
    "Norm of the gradient for the parts of the model, from CLS token to head, with a zero head and with a random one.",
)

# %% [markdown] always claim="max(body) == 0 < norms['zero head']['head'] and min(norms['random head'].values()) > 0"
# With a zero head, the head learns and the body waits, because its gradient is exactly 0. A random head pushes the whole body in
# directions that its random W picks. From the second step on, W is no longer zero, and what reaches the body means something.
#
# > **Key idea.** Keep the body and start the head at zero. Then the first step cannot disturb what was learned.
#
# ## 3. How many labels does pre-training save?
#
# Should the whole model learn, or only the new head? There are two extremes.
#
# - **Fine-tuning.** Everything learns, with a small learning rate.
# - **Linear probe.** The body is **frozen**, and only the head learns. It is cheap, and it shows what the body's vectors y are
#   worth as they are.
#
# In PyTorch you freeze a parameter with `requires_grad = False`, and then no gradient is computed for it.
#
# > **Trap.** Two things do *not* freeze. `model.eval()` only switches off dropout and the like. And
# > `module.requires_grad = False` sets an attribute that nobody reads, because only that of a *parameter* counts.
#
# **Your task.** Write `freeze`. It gets the names of the parts that may continue to learn. Be careful, "blocks.1" is not
# "blocks.11". The check for names that do not exist is given.

# %% exercise="vit_course.extensions.transfer:freeze" difficulty=2 minutes=10 hint="`model.named_parameters()` gives pairs (name, parameter), also for `cls_token` and `pos_embed`. When does a name belong to a part?" hint2="Add a dot to the end of both the name and the part, and one comparison handles the head, 'blocks.1' and 'blocks.11'. `any(...)` asks it for all the parts. What do you do with a parameter that belongs to none?"
from vit_course.extensions.transfer import freeze

freeze = check(freeze)

# %% [markdown]
# Now the question of this lesson. Three starts get two, four or eight labelled photos of every class, and the same number of steps. A
# last row is the control for time. It starts from scratch and gets four times the steps. If you kept
# your model of lesson 06 and it reads colour images of 32x32 pixels, it takes part.
# (The paper fine-tunes with SGD, without weight decay, and clips gradients at norm 1. We continue with AdamW.)
#
# > **Predict.** How many photos of a class does fine-tuning need to beat a start from scratch with eight? Do four times the steps help?

# %% tags=["nbval-ignore-output"]
STEPS, BATCH = profile.pick(smoke=4, cpu=60, gpu=60), 6
fewest = photos.train_labels.bincount().min()  # photos of the smallest class
amounts = [classes * each for each in (2, 4, 8) if each <= fewest] or [len(photos.train_images)]
middle = amounts[len(amounts) // 2]


def learn(model, count, lr, steps=STEPS, stats=stats, **changes):
    """Give a model a new head, train on `count` labelled photos, and return its test accuracy in percent."""
    part = normalised_as(photos.subset(count), *stats)
    batch = min(BATCH, len(part.train_images))
    epochs = max(1, round(steps * batch / len(part.train_images)))
    torch.manual_seed(0)
    train(model, part, TrainConfig(epochs=epochs, batch_size=batch, lr=lr, quiet=True, **changes))
    return 100 * evaluate(model.cpu(), photos.test_images, photos.test_labels, part.channel_stats())[0]


def start(body):
    """Return a copy of a body with a new head."""
    return replace_head(copy.deepcopy(body), classes)


torch.manual_seed(0)
scratch = untrained(backbone.model)
found = {
    "from scratch": {n: learn(start(scratch), n, 5e-4) for n in amounts},
    "linear probe": {n: learn(freeze(start(backbone.model)), n, 1e-2) for n in amounts},
    "fine-tuning": {n: learn(start(backbone.model), n, 5e-4) for n in amounts},
}
if kept := load_my_model((3, 32, 32)):
    own = kept[1]["mean"], kept[1]["std"]
    found["your own model, fine-tuned"] = {n: learn(start(kept[0]), n, 5e-4, stats=own) for n in amounts}
least, most = amounts[0], amounts[-1]
found["from scratch, 4 times the steps"] = {most: learn(start(scratch), most, 5e-4, 4 * STEPS)}
rows = [
    [name, *(f"{scores[n]:.1f}" if n in scores else "" for n in amounts)] for name, scores in found.items()
]
table(
    rows, ["start", *(f"{n} labels (%)" for n in amounts)], f"test accuracy; guessing: {percent(1 / classes)}"
)

# %% fold tags=["nbval-ignore-output"]
lines = {name: (list(scores), list(scores.values())) for name, scores in found.items() if len(scores) > 1}
lines["guessing"] = ([least, most], [100 / classes] * 2)
figure = plots.curves(
    lines, "How many labels does pre-training save?", "labelled photos", "test accuracy (%)"
)
figure.axes[0].set(xticks=amounts, ylim=(0, 102))
figure.axes[0].legend(frameon=False, loc="lower right")
plots.show(
    figure,
    "Test accuracy over the number of labelled photos. With the fewest photos all of them get many photos wrong. With more "
    "photos fine-tuning rises to nearly 100 %, far above a start from scratch and the linear probe.",
)

# %% [markdown] claim=["found['fine-tuning'][most] > 95 and found['fine-tuning'][middle] > found['from scratch'][most] + 5", "found['fine-tuning'][most] > max(found['from scratch'][most], found['from scratch, 4 times the steps'][most]) + 4", "max(scores[least] for scores in found.values() if least in scores) < 85", "found['fine-tuning'][most] > found['linear probe'][most] + 10"]
# **Fine-tuning with four photos of a class beats a start from scratch with eight, and with eight it gets nearly every
# photo right.** With two photos of a class every start still gets many photos wrong. Even with four times the steps the
# start from scratch stays behind, so time alone does not explain the gap. The *other images*, which somebody else
# labelled, probably helped most.
#
# The linear probe stays behind. One reason may be that the old features were made for airplanes and cats. Another is
# that nobody searched its rate. Each start ran once here, so a gap of a few points means nothing.
#
# ## 4. Does pre-training help on CIFAR-10, and how far?
#
# Our recorded runs ask the same of CIFAR-10, with the ViT and the recipe of lesson 08, which uses Muon. Pre-training sees nine of the ten
# classes for six core-minutes, on images of its own. Then 500 or 5,000 labelled images teach all ten classes for two core-minutes, with
# AdamW. The start from scratch stays with Muon, and gets the eight core-minutes of both parts.
#
# > **Predict.** Where does pre-training help more, with 500 labels or with 5,000? Where is the probe ahead of fine-tuning?

# %% tags=["nbval-ignore-output"]
recorded, made = transfer_runs()
rows = []
for count, scores in recorded.items():
    read, columns = result_table(scores, "from scratch")
    rows += [[number(count), *row[:-1]] for row in read]
print(made)
print(fill(f"pre-training: {price()}", 90))
for count, scores in recorded.items():
    points, low, high = gain(scores, "linear probe", "fine-tuning")
    print(
        f"{count} labels, probe minus fine-tuning: {points:.1f} points, 95 % interval {low:.1f} to {high:.1f}"
    )
columns = ["labels", "way", "seeds", "test accuracy (%)", "points above from scratch", "95 % interval"]
table(rows, columns) if rows else None

# %% fold tags=["nbval-ignore-output"]
if recorded:
    ways = {way: {n: recorded[n][way] for n in recorded} for way in next(iter(recorded.values()))}
    figure = plots.seed_curves(
        ways, "The same on real images", "labelled images", "test accuracy (%)", log=True
    )
    plots.show(
        figure, "Recorded test accuracy over 500 and 5,000 labels, a line for each way, a dot for each seed."
    )

# %% [markdown] always claim=["all(gain(recorded[n], 'fine-tuning', 'from scratch')[1] > 0 for n in recorded)", "gain(recorded[min(recorded)], 'fine-tuning', 'from scratch')[0] > gain(recorded[max(recorded)], 'fine-tuning', 'from scratch')[0] + 5", "gain(recorded[500], 'linear probe', 'fine-tuning')[1] > 10", "(lambda found: found[1] < 0 < found[2])(gain(recorded[5000], 'linear probe', 'fine-tuning'))"]
# Pre-training helps with both, and far more with 500 labels than with 5,000. The more labels you have, the less it saves.
#
# With 500 labels the probe is far ahead of fine-tuning. Here nine of the ten classes are known already, so the
# features fit, and a frozen body cannot change for the worse. With 5,000 labels three seeds do not show which of the
# two is better. In section 3 the task was new, and the body had to change. So try both.
#
# The saving is not free. Somebody labelled the images of the pre-training, and they show nearly the same classes. If the first task is
# far from the second, old knowledge can even be in the way (**negative transfer**).
#
# How far does pre-training go with more images? For ViT-B/16, fine-tuned on CIFAR-10 at 384 pixels, the paper reports
# the following (Table 5).
#
# | pre-trained on | images | CIFAR-10 accuracy (%) |
# |---|---|---|
# | ImageNet | 1.3 million | 98.13 |
# | ImageNet-21k | 14 million | 98.95 |
# | JFT | 300 million | 99.00 |
#
# ## 5. Can the images become larger?
#
# Yes, with one change. The patch embedding works on each patch by itself, and attention takes any number of tokens. Keep the
# patch size P and make the image larger. Then only the number of patches grows,
#
# $$N = \frac{H\,W}{P^2} \qquad\qquad E_{pos}: (1, N + 1, D)$$
#
# and only the old N positions have been learned. The positions form a grid, so treat them as an image with D channels
# and stretch it. The vector of the CLS token has no place in the grid and is kept. For our model that takes four lines.
# `change_resolution` does it for most models, and writes the new sizes into the patch embedding.

# %% tags=["nbval-ignore-output"]
tuned = start(backbone.model)
score_32 = learn(tuned, middle, 5e-4)
larger = change_resolution(copy.deepcopy(tuned), 48)
with torch.no_grad():
    cls, grid = tuned.pos_embed[:, :1], tuned.pos_embed[:, 1:]
    grid = rearrange(grid, "1 (h w) d -> 1 d h w", h=tuned.patch_embed.grid_size[0])
    grid = F.interpolate(grid, larger.patch_embed.grid_size, mode="bicubic", antialias=True)
    stretched = torch.cat([cls, rearrange(grid, "1 d h w -> 1 (h w) d")], dim=1)
print(f"positions: {tuple(tuned.pos_embed.shape)} become {tuple(larger.pos_embed.shape)}")
print("the same numbers:", torch.allclose(stretched, larger.pos_embed, atol=1e-5))

# %% fold tags=["nbval-ignore-output"]
maps = []
for one in (tuned, larger):
    (rows_, columns_), positions = one.patch_embed.grid_size, one.pos_embed.detach()[0, 1:]
    chosen = positions[(rows_ // 4) * columns_ + columns_ // 4]
    maps.append(F.cosine_similarity(positions, chosen[None], dim=-1).view(rows_, columns_))
figure = plots.heat_maps(
    maps,
    ["learned, 8x8", "interpolated, 12x12"],
    "Which positions resemble the one in the middle of the spot?",
    "cosine similarity",
    xlabel="column of the grid",
    ylabel="row of the grid",
)
plots.show(
    figure,
    "Similarity of one position, a quarter of the way down and across, to all others, as a map on a grid of 8x8 and one of 12x12. The "
    "bright spot has the same place and the same size on both.",
)

# %% [markdown] always claim="torch.allclose(stretched, larger.pos_embed, atol=1e-5)"
# The bright spot has the same place and the same size on both grids, so neighbours are still neighbours. Is that
# enough for the model to work at 48 pixels, before a single step of training? For comparison we draw the positions at random.
#
# > **Predict.** Before the first step at 48 pixels, is the interpolated model near guessing, near its old score, or in
# > between? And the one with random positions?

# %% tags=["nbval-ignore-output"]
random_positions = copy.deepcopy(larger)
torch.manual_seed(0)
nn.init.normal_(random_positions.pos_embed, std=0.02)
large = read_photos(48)
at_once = {"32 pixels, as trained": score_32}
for name, model in (("48 pixels, interpolated", larger), ("48 pixels, random positions", random_positions)):
    score, _ = evaluate(model, large.test_images, large.test_labels, large.channel_stats())
    at_once[name] = 100 * score
table(
    [[name, f"{score:.1f}"] for name, score in at_once.items()],
    ["", "test accuracy before a step at this size (%)"],
)

# %% [markdown] claim="0 < score_32 - at_once['48 pixels, interpolated'] < 20 and at_once['48 pixels, random positions'] < at_once['48 pixels, interpolated'] - 8"
# The interpolated model works at once, but less well than at 32 pixels. With random positions it loses far more,
# because it uses its positions. So stretch the positions, and do not draw them anew.
#
# Does fine-tuning at 48 pixels then make a model *better*? Recorded runs ask it on 5,000 images of CIFAR-10. The ViT of lesson 08
# learns them for six core-minutes at 32 pixels. Then it is fine-tuned at 48 pixels or at 32, for the same number of steps.

# %% tags=["nbval-ignore-output"]
before, after, made = larger_runs()
read, _ = result_table(after, "32 pixels")
rows = [
    [row[0], f"{sum(before[row[0]]) / len(before[row[0]]):.1f}" if row[0] in before else "", *row[2:-1]]
    for row in read
]
print(made)
columns = [
    "",
    "before the first step (%)",
    "after fine-tuning (%)",
    "points above 32 pixels",
    "95 % interval",
]
table(rows, columns) if rows else None

# %% [markdown] always claim=["(lambda found: found[1] > 0 and 0.4 < found[0] < 0.8)(gain(after, '48 pixels, interpolated', '32 pixels'))", "5.5 < gain(after, '48 pixels, interpolated', '48 pixels, random positions')[0] < 6.5"]
# Larger images help here by little more than half a point, and each step costs more. They were only enlarged and contain no
# more detail than before. A likely reason for the gain is that more tokens let the model compute more. Random positions stay six
# points behind in a short training.
#
# The paper, too, pre-trains at 224 pixels, where an image is cheap, and fine-tunes at 384 or more.

# %% [markdown] curious
# ## 6. Should all layers learn equally fast?
#
# There is room between "everything" and "only the head". The first layers see edges and colours, which all tasks share. The
# last ones are closer to the old labels. So people let the learning rate fall from the head down to the patches, by the same
# factor for every layer (**layer-wise learning rates**):
#
# $$\text{lr}_l = \text{lr} \cdot \text{decay}^{\,L + 1 - l}$$
#
# L is the number of blocks. The embeddings are layer l = 0, block i is l = i + 1, and the final norm and the head are
# l = L + 1. With decay = 1 nothing changes. With a very small decay hardly anything but the head learns, which is nearly
# a linear probe. `layer_scale` reads the layer from the name of a parameter, and returns the factor.

# %%
depth, decays = 12, (0.95, 0.85, 0.75, 0.65)
names = ["pos_embed", *(f"blocks.{i}.norm1.weight" for i in range(depth)), "head.weight"]
scales = {decay: [layer_scale(name, depth, decay) for name in names] for decay in decays}

# %% fold
plots.show(
    plots.curves(
        {f"decay {decay}": (list(range(depth + 2)), scale) for decay, scale in scales.items()},
        "How fast does each layer of a model of 12 blocks learn?",
        "layer l: 0 embeddings, 1 to 12 blocks, 13 head",
        "share of the learning rate",
    ),
    "Share of the learning rate over the layer, for four decays: curves that rise to 1 at the head.",
)

# %% [markdown]
# Our engine has this built in as `TrainConfig(layer_decay=0.75)`. Try it with the same labels as before.

# %% tags=["nbval-ignore-output"]
by_decay = {1.0: found["fine-tuning"][middle]}
for decay in (0.75, 0.5):
    by_decay[decay] = learn(start(backbone.model), middle, 5e-4, layer_decay=decay)
rows = [[decay, f"{score:.1f}"] for decay, score in by_decay.items()]
table(rows, ["layer_decay", f"test accuracy, {middle} labels (%)"])

# %% [markdown]
# Each decay ran once, so small gaps mean nothing. With the smallest one the first blocks hardly learn in so few steps.
# Papers that use it have 12 blocks or more, and decays from 0.65 to 0.95.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# You replace the head of a model, for 7 classes, and the first loss is 2.4. What do you look at?
#
# - [x] whether the new head is zero :: A zero head gives ln 7 = 1.95, whatever the body is. 2.4 is worse than guessing.
# - [ ] the learning rate, which may be too large :: No step has been taken yet, so no rate has acted.
# - [ ] nothing, 2.4 is fine :: It is worse than guessing, which costs ln 7 = 1.95.

# %% [markdown] quiz
# The new head is zero. Which part gets a gradient in the first step?
#
# - [x] the head alone :: Its gradient is a product with y, and y is not zero. That of the body is a product with W, which is.
# - [ ] the body alone :: The body's gradient is a product with W, and W is zero.
# - [ ] all of the model :: That is true from the second step on.

# %% [markdown] quiz
# Somebody writes: "In fine-tuning the body is frozen, and the new head alone is trained." What is this?
#
# - [x] a linear probe :: Only the head learns. It shows what the body's vectors are worth as they are.
# - [ ] fine-tuning, as in the paper :: There *all* weights learn, body and head (section 3.2, appendix B.1.1).
# - [ ] what `model.eval()` does :: That switches dropout off. It freezes nothing, because only `requires_grad` decides what learns.

# %% [markdown] quiz
# A start from scratch has taken 300 steps, the pre-trained model 1,000 and then 300. The second is better. What follows?
#
# - [x] time or the other images helped, or both :: To separate them you need a start from scratch with 1,300 steps.
# - [ ] the other images helped :: That does not follow, because the longer training may have done it.
# - [ ] nothing, the comparison is unfair :: It answers a useful question. What do I get from a pre-training that is paid already?

# %% [markdown] quiz
# From 224 to 384 pixels with P = 16. What is interpolated so that the weights fit?
#
# - [x] the positions, from 14x14 to 24x24 :: More patches need more positions. CLS keeps its own.
# - [ ] the *image*, from 384 down to 224 pixels :: That would throw away the detail for which one takes larger images.
# - [ ] the patch embedding E :: E reads one patch, and the patch keeps its size.

# %% [markdown]
# ## Recap
#
# | tensor | in pre-training | in the new task |
# |---|---|---|
# | image | (B, C, H, W) | (B, C, H', W'), same P, same normalisation |
# | patch embedding E | (P²C, D) | the same |
# | positions | (1, N + 1, D) | (1, N' + 1, D), interpolated, CLS kept |
# | y, after the final norm | (B, D) | (B, D) |
# | hidden tanh layer | (B, hidden), or none | none |
# | head W, b | (K, D), (K) | (K', D), (K'), zero at the start |
# | first loss | ln K | ln K' |
#
# - Pre-training saves labels. The control trains for as long as both parts together.
# - Fine-tuning and the linear probe differ in how much may change. Try both.
# - With the same patch size and more patches, the positions are stretched in two dimensions.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), section 3.2, appendix B.1.1, Tables 4 and 5.
# - Kolesnikov et al., *Big Transfer (BiT)* (2020): simple recipes for fine-tuning at many sizes of data.
# - Bao et al., *BEiT* (2022): layer-wise learning rates for images.
# - Kumar et al., *Fine-Tuning can Distort Pretrained Features* (2022): why to train the head first.
# - Steiner et al., *How to train your ViT?* (2021): when to take a pre-trained model, and which.
#
# **Next.** All of this needed somebody who labelled 50,000 images. Take the labels away, and there is no loss to
# pre-train with. What could a model learn from images alone? That is lesson 13.
