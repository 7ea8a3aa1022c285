# ---
# title: "Pre-train, fine-tune, higher resolution"
# promise: "Adapt a trained ViT to a new task with few labels."
# part: "III. Beyond"
# map: [position, head]
# recall: ["03.4", "06.1", "08.3"]
# goals:
#   - "Say which parts of a trained ViT go on to a new task, and which do not."
#   - "Replace the head, and show that a zero head cannot disturb the body in the first step."
#   - "Freeze a body, and tell fine-tuning from a linear probe."
#   - "Say what has to change when a trained model is to read larger pictures."
#   - "Read a comparison of pre-training with a start from nothing: its costs, and how many comparisons were made."
# ---

# %% [markdown]
# ## 1. Nobody gave me a million pictures. Can I use a ViT at all?
#
# Yes, if somebody else had them. Say you have two hundred labelled pictures of your own. Starting from random weights, a ViT
# learns little from them. The paper goes another way:
#
# 1. **Pre-training.** Train once, on a *large* set of other pictures.
# 2. **Fine-tuning.** Train a little longer, on the pictures of the task that you care about.
#
# This is **transfer learning**: what was learned for one task helps with another. Here you do both on a small scale. The first
# task has nine kinds of shapes and many pictures. The second has ten kinds and few pictures; one of the ten is new.

# %%
import copy
import math
import re
from dataclasses import replace
from statistics import fmean
from textwrap import fill

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vit_course.extensions.transfer import change_resolution, resize_pictures
from vit_classroom import check, plots, table
from vit_classroom.student_model import load_my_model
from vit_classroom.numbers import minutes, number, percent
from vit_course.data import load_dataset, normalize, shapes10
from vit_classroom.evidence.records import caption, linear_classifier, load_beside, load_records
from vit_classroom.evidence.selected_classes import select_classes
from vit_classroom.evidence.statistics import difference_in_words, result_table
from vit_course.training.profiles import get_profile
from vit_course.recipes import RECIPES, build_model
from vit_course.train import TrainConfig, evaluate, train

profile = get_profile()
many, few = profile.pick(smoke=200, cpu=4_000, gpu=40_000), profile.pick(smoke=100, cpu=1_000, gpu=4_000)
known = select_classes(shapes10(train=many, test=many // 4), range(9))  # labels count from 0 again
ours = shapes10(train=few, test=profile.pick(smoke=100, cpu=1_000, gpu=2_000), seed=1)  # other pictures

# %% fold


def examples(dataset):
    """Lay one picture of each class out as a sheet of five columns; an empty place is white."""
    firsts = [dataset.test_images[dataset.test_labels == k][0] for k in range(len(dataset.classes))]
    empty = [torch.full_like(firsts[0], 255)] * (-len(firsts) % 5)
    return plots.image_grid(torch.stack(firsts + empty), columns=5)


figure = plots.image_row(
    [examples(known), examples(ours)],
    ["pre-training: nine classes", "our task: ten classes"],
    f"'{ours.classes[-1]}' will be new to the pre-trained model",
)
figure.set_size_inches(7, 2.3)
plots.show(figure, "Two sheets of small pictures of shapes: nine for the pre-training, ten for the task.")

# %% [markdown]
# The pre-training uses AdamW and the other settings of the recipe `smoothing` (lesson 07). So do the live runs up to section
# 6; only rates, batches, steps and pictures differ.

# %% tags=["nbval-ignore-output"]
size, rate, batch = profile.pick(
    smoke=("Nano/8", 2e-3, 50), cpu=("Nano/8", 2e-3, 50), gpu=("Micro/4", 1e-3, 256)
)
recipe = replace(
    RECIPES["smoothing"], epochs=profile.pick(smoke=1, cpu=18, gpu=40), batch_size=batch, lr=rate, quiet=True
)
torch.manual_seed(0)
pretrained = build_model(size, known)
history = train(pretrained, known, replace(recipe, lr=rate / 2))
pretrained = pretrained.cpu()
print(fill(f"{size}, profile {profile.name}: {minutes(history.seconds)} on {known.provenance}", 90))
print(f"right on {percent(history.test_accuracy)} of new pictures of the nine classes")

# %% [markdown]
# ## 2. What does the model keep, and what must go?
#
# The model has two parts. Its **body** turns a picture into a vector y: patches, positions, blocks, final norm. Its
# **head** turns y into scores. For a batch of B pictures and K classes
#
# $$\text{logits} = y\,W^\top + b$$
#
# with y (B, D), W (K, D) and b (K). Each row of W belongs to one old class. The new task has other classes, so W and b
# must go. The body stays: what it has learned about edges, colours and corners may help with other tasks, too.
#
# | part | shape | in the new task |
# |---|---|---|
# | patch embedding, CLS token, blocks, final norm | depends on P, D, L | kept |
# | positions | (1, N + 1, D) | kept (section 5 changes N) |
# | hidden tanh layer, `pre_logits` | (hidden, D) and (hidden) | removed |
# | head | (K, D) and (K) | new, all zero |
#
# In the paper, pre-training has the hidden layer (lesson 06); ours has none. The authors found it "a little more robust" to
# start fine-tuning from a single layer of zeros (appendix B.1.1). Why could zero help? Write it first, then you will see.
#
# **Your task.** Write `replace_head`. It changes the model in place, and only its head.

# %% exercise="vit_course.extensions.transfer:replace_head" difficulty=1 minutes=10 hint="Build an `nn.Linear`, set its weight and bias to zero, and assign it to `model.head`. How many numbers does it read? Not always as many as the old head did: that one may follow the hidden tanh layer." hint2="`head = nn.Linear(model.norm.normalized_shape[0], num_classes).to(model.head.weight)`: `.to` of a tensor takes its device and dtype. Then `nn.init.zeros_(head.weight)`, the same for the bias, `model.pre_logits = nn.Identity()`, `model.head = head`, `return model`."
from vit_course.extensions.transfer import replace_head

replace_head = check(replace_head)

# %%
model = replace_head(copy.deepcopy(pretrained), len(ours.classes)).train()
stats = known.channel_stats()
images, labels = normalize(ours.train_images[:50], *stats), ours.train_labels[:50]
loss = F.cross_entropy(model(images), labels)
print(f"first loss {loss.item():.6f}, ln {len(ours.classes)} = {math.log(len(ours.classes)):.6f}")

# %% [markdown] always claim="abs(loss.item() - math.log(len(ours.classes))) < 1e-5"
# The loss is ln K, as it should be: with W = 0 and b = 0 every score is 0, and every probability 1/K. Check this after each
# change of head. But there is a better reason for the zero. Let p (B, K) be the probabilities and t (B, K) the targets, 1 for
# the right class and 0 elsewhere. For the mean loss over the batch
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
# With a zero head, the head learns and the body waits: its gradient is exactly 0. A random head pushes the whole body in
# directions that its random W picks.
#
# > **Key idea.** Keep the body and start the head at zero: the first step cannot disturb what was learned. (Weight decay does
# > not look at the loss. It shrinks the body a little in every step, the first one too.)
#
# After the first step W is no longer zero, and the gradient that reaches the body means something:

# %% tags=["nbval-ignore-output"]
after = copy.deepcopy(model)
optimizer = torch.optim.SGD(after.parameters(), lr=0.1)
first = gradient_norms(after)
optimizer.step()
second = gradient_norms(after)
table(
    [[part, first[part], second[part]] for part in ("patch_embed", "blocks.0", "head")],
    ["part", "step 1", "step 2"],
)

# %% [markdown]
# ## 3. How much of the model should learn?
#
# There are two extremes.
#
# - **Fine-tuning**: everything learns, with a small learning rate.
# - **Linear probe**: the body is **frozen**, and only the head learns. It is cheap, and it shows what the body's vectors y are
#   worth as they are.
#
# In PyTorch you freeze a parameter with `requires_grad = False`: no gradient is computed for it.
#
# > **Trap.** Two things do *not* freeze. `model.eval()` only switches off dropout and the like. And
# > `module.requires_grad = False` sets an attribute that nobody reads: only that of a *parameter* counts.
#
# **Your task.** Write `freeze`. It gets the names of the parts that may go on learning. Careful: "blocks.1" is not
# "blocks.11". A name that does not exist is refused for you.

# %% exercise="vit_course.extensions.transfer:freeze" difficulty=2 minutes=10 hint="`model.named_parameters()` gives pairs (name, parameter), also for `cls_token` and `pos_embed`. Add a dot to the name and to the part: does the one begin with the other?" hint2="`f'{name}.'.startswith(f'{part}.')` tells whether a parameter belongs to a part. Loop over the parameters, and set `parameter.requires_grad = False` where `any(...)` over the parts is false."
from vit_course.extensions.transfer import freeze

freeze = check(freeze)

# %%
probe = freeze(replace_head(copy.deepcopy(pretrained), len(ours.classes)))
rows = []
for name, part in (("fine-tuning", model), ("linear probe", probe)):
    learning = sum(p.numel() for p in part.parameters() if p.requires_grad)
    rows.append([name, learning, sum(p.numel() for p in part.parameters())])
table(rows, ["", "parameters that learn", "of"])

# %% [markdown]
# Now the question of this lesson: how many labels does pre-training save? We try three ways to start with three amounts of
# labels, for about the same number of steps. A fourth row is the control: it starts from nothing and gets the steps of the
# pre-training on top. The start from nothing gets a larger rate than weights that must not be destroyed; a single layer takes
# the largest. If you kept the model that you trained in lesson 06 or 07, it takes part as well.
#
# (The paper fine-tunes with SGD, momentum .9, no weight decay, gradients clipped at norm 1. We go on with AdamW.)
#
# > **Predict.** Where does pre-training help most, with few labels or with many? Which is better with the fewest labels,
# > fine-tuning or the probe?

# %% tags=["nbval-ignore-output"]
steps = profile.pick(smoke=3, cpu=300, gpu=300)
amounts = profile.pick(smoke=(50, 100), cpu=(50, 200, 1_000), gpu=(100, 500, 4_000))
least, most = amounts[0], amounts[-1]


def continued(frozen=False):
    """Return a copy of the pre-trained model with a new head."""
    model = replace_head(copy.deepcopy(pretrained), len(ours.classes))
    return freeze(model) if frozen else model


def from_nothing():
    """Return a new model."""
    torch.manual_seed(1)
    return build_model(size, ours)


def learn(model, amount, lr, steps=steps, **changes):
    """Train on so many labelled pictures for so many steps, and return the test accuracy."""
    config = replace(recipe, batch_size=50, epochs=max(1, round(steps * 50 / amount)), lr=lr, **changes)
    return train(model, ours.subset(amount), config).test_accuracy


starts = {
    "fine-tuning": (continued, rate / 2),
    "linear probe": (lambda: continued(frozen=True), 3 * rate),
    "from nothing": (from_nothing, rate),
}
if mine := load_my_model(ours.test_images[0].shape):  # what you trained in lesson 06 or 07, if you kept it
    print(fill(f"Your own model takes part. It was trained on {mine[1]['data']}", 90))
    starts["your own model, fine-tuned"] = (
        lambda: replace_head(copy.deepcopy(mine[0]), len(ours.classes)),
        rate / 2,
    )
found = {
    name: {amount: learn(start(), amount, lr) for amount in amounts} for name, (start, lr) in starts.items()
}
paid = len(known.train_labels) * recipe.epochs // 50  # steps of 50 pictures that the pre-training has had
found["from nothing, with these steps too"] = {least: learn(from_nothing(), least, rate, steps + paid)}
rows = [
    [name, *(percent(scores[n]) if n in scores else "" for n in amounts)] for name, scores in found.items()
]
table(rows, ["start", *(f"{number(n)} labels" for n in amounts)])

# %% fold tags=["nbval-ignore-output"]
plots.show(
    plots.seed_curves(
        {name: {n: [100 * s] for n, s in found[name].items()} for name in starts},
        "How many labels does pre-training save?",
        "labelled pictures",
        "test accuracy in percent",
        log=True,
    ),
    "Test accuracy over the number of labels: fine-tuning, linear probe, start from nothing.",
)

# %% [markdown] claim=["found['from nothing'][most] < 0.3", "found['from nothing, with these steps too'][least] < found['fine-tuning'][least] - 0.2", "found['fine-tuning'][most] > found['linear probe'][most] + 0.02 and found['linear probe'][least] > found['fine-tuning'][least] + 0.1"]
# With the fewest labels pre-training helps a lot, and not by its training time: the control took as many steps in all, and is far
# behind. What helped are the *other pictures*. With the most labels we have no such control, and 300 steps leave a start from
# nothing near guessing. So where pre-training helps most, this cell cannot say; the records of section 6 can.
#
# Fine-tuning or probe? With the most labels fine-tuning is ahead, since it may change the body. With the fewest, the probe is far
# ahead. This is one seed, and one seed has no spread, so a gap of a few points would decide nothing.
#
# What about the new class? A probe cannot change the vectors y. If it recognises the new shape all the same, the body
# separates shapes that it was never asked to name.

# %% tags=["nbval-ignore-output"]
probe = continued(frozen=True)
learn(probe, most, 3 * rate)
probe, rows = probe.cpu(), []
for label, seen in ((len(ours.classes) - 1, "never seen in pre-training"), (0, "known from pre-training")):
    chosen = ours.test_labels == label
    score, _ = evaluate(probe, ours.test_images[chosen], ours.test_labels[chosen], ours.channel_stats())
    rows.append([ours.classes[label], seen, percent(score)])
table(rows, ["class", "", "found by the probe"])

# %% [markdown] claim="float(rows[0][2].strip(' %')) > 25"
# The new shape is found far more often than by guessing, which would find a tenth.

# %% [markdown] curious
# ## 4. Should all layers learn equally fast?
#
# There is room between "everything" and "only the head". The first layers see edges and colours, which all tasks share. The
# last ones are closer to the old labels. So people let the learning rate fall from the head down to the patches, by the same
# factor for every layer (**layer-wise learning rates**):
#
# $$\text{lr}_l = \text{lr} \cdot \text{decay}^{\,L + 1 - l}$$
#
# L is the number of blocks. The embeddings are layer l = 0, block i is l = i + 1, and the final norm and the head are
# l = L + 1. With decay = 1 nothing changes. With a very small decay hardly anything but the final norm and the head learns: nearly
# a linear probe. `layer_scale` reads the layer from the name of a parameter, and returns the factor.

# %%
from vit_course.optim import layer_scale

depth, decays = 12, (0.95, 0.85, 0.75, 0.65)
names = ["pos_embed", *(f"blocks.{i}.norm1.weight" for i in range(depth)), "head.weight"]
scales = {decay: [layer_scale(name, depth, decay) for name in names] for decay in decays}
table(
    [[decay, 1 / scale[0]] for decay, scale in scales.items()],
    ["decay", "patches are slower than the head, times"],
)

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
# Our engine has this built in: `TrainConfig(layer_decay=0.75)`. Try it with the same labels as before.

# %% tags=["nbval-ignore-output"]
middle = amounts[1]
by_decay = {1.0: found["fine-tuning"][middle]}
for decay in (0.75, 0.5):
    by_decay[decay] = learn(continued(), middle, rate / 2, layer_decay=decay)
rows = [[decay, percent(score)] for decay, score in by_decay.items()]
table(rows, ["layer_decay", f"test accuracy, {number(middle)} labels"])

# %% [markdown]
# One seed each, so small gaps decide nothing. And our model has few layers for such a fine tool: papers that use it have 12
# blocks or more, and decays from .65 to .95.

# %% [markdown]
# ## 5. Can the pictures become larger?
#
# Yes, with one change. The patch embedding works on each patch by itself, and attention takes any number of tokens. Keep the
# patch size P and make the picture larger: only the number of patches grows,
#
# $$N = \frac{H\,W}{P^2} \qquad\qquad E_{pos}: (1, N + 1, D)$$
#
# and only the old N positions have been learned.

# %% fold
for side in (32, 48):
    photo, count = plots.sample_photo((side, side)), side // 8
    figure = plots.patch_grid(photo, 8, f"{side} pixels, P = 8: {count**2} positions")
    plots.show(figure, f"A photo of {side}x{side} pixels in {count}x{count} patches.")

# %% [markdown]
# The positions form a grid, so treat them as a picture with D channels: stretch it, for `Nano/8` from 4x4 to 6x6. The vector of
# the CLS token has no place in the grid and is kept. This is what `resample_pos_embed` does (lesson 03, for the curious); for our
# grid it comes down to four lines. `change_resolution` does it for any model, and writes the new sizes into the patch embedding.

# %% tags=["nbval-ignore-output"]
larger = change_resolution(copy.deepcopy(pretrained), 48)
with torch.no_grad():
    cls, grid = pretrained.pos_embed[:, :1], pretrained.pos_embed[:, 1:]
    grid = rearrange(grid, "1 (h w) d -> 1 d h w", h=pretrained.patch_embed.grid_size[0])
    grid = F.interpolate(grid, larger.patch_embed.grid_size, mode="bicubic", antialias=True)
    stretched = torch.cat([cls, rearrange(grid, "1 d h w -> 1 (h w) d")], dim=1)
print(f"positions: {tuple(pretrained.pos_embed.shape)} become {tuple(larger.pos_embed.shape)}")
print("the same numbers:", torch.allclose(stretched, larger.pos_embed, atol=1e-5))

# %% fold tags=["nbval-ignore-output"]
before, after = pretrained.pos_embed.detach()[0, 1:], larger.pos_embed.detach()[0, 1:]
old_grid, new_grid = pretrained.patch_embed.grid_size, larger.patch_embed.grid_size
d = before.std(dim=0).argmax()
figure = plots.heat_maps(
    [before[:, d].view(old_grid), after[:, d].view(new_grid)],
    [f"learned, {old_grid[0]}x{old_grid[1]}", f"interpolated, {new_grid[0]}x{new_grid[1]}"],
    f"Number {d} of every position, before and after",
    "value",
    xlabel="column of the grid",
    ylabel="row of the grid",
)
plots.show(
    figure, "One number of the position vectors as a map over the grid, before and after interpolation."
)

# %% [markdown] always claim="torch.allclose(stretched, larger.pos_embed, atol=1e-5)"
# It is the same map, drawn finer. Does the model still work, before a single step of training? For comparison we take a model
# with *random* positions on the new grid. Then both train at 48 pixels for a short time. A third copy stays at 32 pixels and
# trains for as long. All keep their head, because the task is the same: the nine classes.
#
# > **Predict.** Before the first step at 48 pixels: is the interpolated model near guessing, near its old score, or in between?
# > And the one with random positions?

# %% tags=["nbval-ignore-output"]
random_positions = copy.deepcopy(larger)
torch.manual_seed(0)
nn.init.normal_(random_positions.pos_embed, std=0.02)
# The classes differ a little in size, and a subset takes as many of each: eight ninths leave every class its share.
at_32 = known.subset(min(len(known.train_labels) // 9 * 8, few), min(len(known.test_labels) // 9 * 8, 900))
at_48 = resize_pictures(at_32, 48)
short = replace(recipe, epochs=profile.pick(smoke=1, cpu=3, gpu=3), lr=rate / 4)
contest = {
    "32 pixels, as trained": (copy.deepcopy(pretrained), at_32),
    "48 pixels, interpolated": (larger, at_48),
    "48 pixels, random positions": (random_positions, at_48),
}
rows = []
for name, (model, pictures) in contest.items():
    scored = evaluate(model.cpu(), pictures.test_images, pictures.test_labels, pictures.channel_stats())
    trained = train(model, pictures, short)
    rows.append([name, percent(scored[0]), percent(trained.test_accuracy)])
table(rows, ["", "before the first step", "after training"], f"test accuracy; guessing: {percent(1 / 9)}")

# %% [markdown] claim="{run['config']['optimizer'] for run in load_records('resolution')} == {'adamw'}" always
# The interpolated model has never seen a large picture, so a lower score before the first step is no surprise: each patch now
# covers a smaller part of the object and looks unfamiliar. Fine-tuning has to mend that.
#
# The gap between interpolated and random positions tells how much *this* model uses its positions (think of the shuffled
# patches of lesson 08). One run does not settle it. The recorded runs ask the same question; their caption names the data.
# All of them used AdamW.

# %% tags=["nbval-ignore-output"]
resolution = load_records("resolution")
titles = {
    "interpolated": "48 pixels, interpolated",
    "random-positions": "48 pixels, random positions",
    "same-size": "32 pixels",
    "nothing": "48 pixels, from nothing, as many steps",
}
stages = {"start_accuracy": "before the first step", "test_accuracy": "after fine-tuning"}
spent, rates, small = {}, {}, min((r["forward_flops"] for r in resolution), default=0)
for record in resolution:  # one step of training costs about three passes forward
    start = record.get("pretraining") or {"pictures": 0, "epochs": 0}
    operations = record["training_flops"] + 3 * small * start["pictures"] * start["epochs"]
    spent[titles[record["step"]]] = f"{operations / 1e12:.1f}"
    rates[titles[record["step"]]] = f"{record['config']['lr']:g}"

rows = []
for stage, name in stages.items():
    results = {
        title: [100 * r[stage] for r in resolution if r["step"] == step and stage in r]
        for step, title in titles.items()
    }
    results = {title: values for title, values in results.items() if values}
    after = stage == "test_accuracy"
    notes = {"rate": rates if after else {}, "TFLOP in all": spent if after else {}}
    read, columns = result_table(results, titles["interpolated"], notes)
    rows += [[name, *row] for row in read]
print(caption(resolution) if rows else "No records are here yet: python -m experiments resolution")
if line := linear_classifier(resolution, load_records("fractions-first")):
    print(f"one matrix on raw pixels, as many pictures: {fmean(line):.1f} %")
compared = [row[-3] for row in rows if row[-3]]
table(rows, ["", *columns]) if rows else None

# %% [markdown] always claim=["compared == ['worse', 'better', 'worse', 'worse', 'better']", "[round(float(rows[i][4])) for i in (1, 4, 5, 6)] == [-5, -4, -3, 3]", "1.7 < float(spent[titles['nothing']]) / float(spent[titles['interpolated']]) < 2"]
# Stretch the positions, do not draw them anew. In our records the interpolated ones are five points ahead before the first
# step, and nearly four after fine-tuning: this model uses its positions, and a short training does not teach it new ones.
#
# In our records larger pictures help, though they were only *enlarged* and hold no more detail than before. The line "32 pixels"
# had the same extra training without them and is three points lower. Our reading: with 36 tokens in place of 16 the model computes
# more. (The live model above had three short epochs: perhaps too few.)
#
# Training at 48 pixels from nothing, on as many pictures in all, ends nearly three points higher still. But it costs nearly
# twice as much (last column), and its interval barely misses 0. Learning at a small size, where learning is cheap, and going
# up at the end is a trade. The paper makes the same one, from 224 to 384 pixels or more.
#
# ## 6. What does pre-training bring on real pictures?
#
# We compare five ways to use 1 or 10 percent of the labels: from nothing; pre-trained on nine of the ten classes, with *other*
# pictures, then fine-tuned; the same with layer-wise learning rates, decay .75 (section 4); the same as a linear probe; and
# pre-trained on Shapes-10, drawings that were never photographed. One matrix on raw pixels is the line that a model has to beat.
#
# The start from nothing is a run of lesson 08. It sees as many pictures as pre-training on nine classes and fine-tuning
# together, the few labelled ones again and again: the control of section 3. All ways use AdamW. The rate was not searched: .002
# from nothing and in pre-training, .001 afterwards.

# %% tags=["nbval-ignore-output"]
ways = {
    "vit": "from nothing",
    "classes": "nine classes, fine-tuned",
    "decay": "nine classes, layer-wise rates",
    "probe": "nine classes, linear probe",
    "shapes": "Shapes-10, fine-tuned",
    "linear": "one matrix on raw pixels",
}


def labelled(record):
    """Read from its description of the data how many labelled pictures a run had."""
    return int(re.findall(r"([\d,]+) train", record["data"])[-1].replace(",", ""))


transfer = load_records("transfer")
scratch = [
    r for r in load_beside(transfer, "fractions-first") if re.fullmatch("(vit|linear)-(1|10)", r["step"])
]
curves = {}
for record in scratch + transfer:
    way = ways.get(record["step"].rpartition("-")[0], record["step"])
    curves.setdefault(way, {}).setdefault(labelled(record), []).append(100 * record["test_accuracy"])
curves = {way: curves[way] for way in ways.values() if way in curves} if transfer else {}
counts = sorted({count for values in curves.values() for count in values})
if transfer:
    print(caption(transfer))
    for record in {r["pretraining"]["name"]: r for r in reversed(transfer)}.values():  # of the first seed
        cost = record["pretraining"]
        text = (
            f"Pre-training on {cost['data']}: {number(cost['pictures'])} pictures, {cost['epochs']} epochs, "
            f"{minutes(cost['seconds'])}, {percent(cost['test_accuracy'])} on its own test pictures."
        )
        print(fill(text, 90))
else:
    print("No recorded transfer is here yet: python -m experiments transfer")

# %% tags=["nbval-ignore-output"]
rows, verdicts = [], [*compared]
for n in counts:
    here = {way: curves[way][n] for way in curves if n in curves[way]}
    read, columns = result_table(here, ways["vit"])
    for row in read:  # two seeds hardly show a spread: such rows are for looking at
        row[-1] = "two seeds" if row[-1] and row[1] < 3 else row[-1]
    rows += [[number(n), *row] for row in read]
    against = difference_in_words("probe", here[ways["probe"]], "fine-tuning", here[ways["classes"]])
    verdicts.append("undecided" if "undecided" in against else "better")
    print(f"{number(n)} labels, {against}")
verdicts += [row[-1] for row in rows if row[-1] not in ("", "two seeds")]
decided = len(verdicts) - verdicts.count("undecided")
print(f"verdicts in sections 5 and 6: {len(verdicts)}, decided: {decided}")
print(f"if nothing differed, chance would decide about {0.05 * len(verdicts):.1f}")
table(rows, ["labels", *columns]) if rows else None

# %% fold tags=["nbval-ignore-output"]
if curves:
    figure = plots.seed_curves(
        {way: by for way, by in curves.items() if min(map(len, by.values())) > 2},
        "Ways to use the labels: where are they apart?",
        "labelled pictures",
        "test accuracy in percent",
        log=True,
    )
    figure.axes[0].legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    plots.show(
        figure, "Recorded test accuracy over the number of labels, a line for each way with three seeds."
    )

# %% [markdown] always claim=["[row[-1] for row in rows] == 2 * ['', 'better', 'two seeds', 'better', 'two seeds', 'worse']", "verdicts[5:7] == ['better', 'undecided'] and decided > 10 * 0.05 * len(verdicts)", "[round(float(row[4])) for row in rows if row[-1] == 'better'] == [13, 22, 4, 2]", "all('undecided' in difference_in_words('', [a - b for a, b in zip(one, two)], '', [0, 0, 0]) for one, two in ((curves[ways['linear']][500], curves[ways['vit']][500]), [[100 * run['test_accuracy'] for run in resolution if run['step'] == step] for step in ('nothing', 'interpolated')]))"]
# What our records say:
#
# - *500 labels.* Pre-training helps a lot: thirteen points by fine-tuning, twenty-two by the probe, and the probe is ahead of
#   fine-tuning. Our reading: with 500 pictures it pays to learn little, for what cannot change cannot be spoiled.
# - *5,000 labels.* The start from nothing comes closer. Fine-tuning is still four points ahead of it; between probe and
#   fine-tuning nothing is decided.
# - *Drawings.* A first task far from the second brings no clear gain here; with 5,000 labels the mean is far *below* "from
#   nothing". Two seeds do not decide it. It could be **negative transfer**, old knowledge that stands in the way, or only the
#   shorter tuning: equal steps would tell.
#
# How far to trust them:
#
# - *Budget and price.* "From nothing" took as many steps as both parts of "nine classes", so the gain is not training time.
#   But the nine classes came with 40,500 labelled pictures of their own, and these show nine of our ten classes.
# - *Luck.* The count above the table says what chance alone would decide. Far more is decided, so most of it is real.
# - *Pairs.* Seed s picks the same pictures in every row (with 500 labels, the two rows of lesson 08 share one set, all others another),
#   so one might compare seed by seed. We keep Welch's rule, chosen before we looked. In pairs two verdicts would become undecided:
#   "from nothing" at 48 pixels, and one matrix with 500 labels.

# %% [markdown] curious
# ## 7. What if others have already paid for the pre-training?
#
# This is how ViTs are used in practice. For CIFAR-10, the paper reports for ViT-B/16, fine-tuned at 384 pixels (its Table 5):
#
# | pre-trained on | pictures | CIFAR-10 accuracy, the paper's |
# |---|---|---|
# | ImageNet | 1.3 million | 98.13 % |
# | ImageNet-21k | 14 million | 98.95 % |
# | JFT | 300 million | 99.00 % |
#
# One body serves all tasks, but not all tasks want the same of it. Naming what is in a picture wants *invariance*: the
# answer stays when the object moves. Finding the object, or cutting it out, wants *place* (lesson 08 measured both). So people
# read y, or the mean of the patches, for the first, and the single patch tokens for the second: lesson 17.
#
# torchvision offers a ViT-B/16 trained on ImageNet. `load_backbone` reads every size from such weights and builds *your* model
# around them (lesson 17); `change_resolution` stretches its positions, and your `replace_head` puts on a zero head. The next
# cell does so if the file is on this machine; it never downloads anything. To get the file (330 MB), set `download = True` in
# lesson 06, or name your copy in the environment variable `VIT_COURSE_IMAGENET`. The settings are the paper's kind: SGD with
# momentum .9, no decay, clipping at 1. Without a GPU it is a probe on few and small pictures.

# %% tags=["nbval-ignore-output"]
from vit_course.extensions.backbone import load_backbone
from vit_classroom.exhibits.imagenet import imagenet_weights

file = imagenet_weights()
if file:
    side, count, parts = profile.pick(
        smoke=(32, 40, ("head",)), cpu=(96, 200, ("head",)), gpu=(224, 5_000, ())
    )
    pictures = resize_pictures(load_dataset("auto").subset(count, min(count, 2_000)), side)
    imagenet = change_resolution(load_backbone(file).model, side)
    replace_head(imagenet, len(pictures.classes))
    if parts:
        freeze(imagenet, parts)
    config = TrainConfig(
        epochs=profile.pick(smoke=1, cpu=4, gpu=3),
        batch_size=min(count, 40),
        optimizer="sgd",
        lr=0.003,
        weight_decay=0.0,
        grad_clip=1.0,
        warmup_epochs=0.5,
        quiet=True,
    )
    history = train(imagenet, pictures, config)
    print(fill(pictures.provenance, 90))
    print(f"{'linear probe' if parts else 'fine-tuning'}, {minutes(history.seconds)}:", end=" ")
    print(f"test accuracy {percent(history.test_accuracy)}")
else:
    print("No ImageNet weights are on this machine. The text above says how to get them.")

# %% [markdown]
# > **Trap.** Pre-trained weights expect pictures that are normalised as in *their* training (lesson 00). `train` takes mean and
# > deviation from the new pictures, which is close enough for photos, but not for X-rays.
#
# And if a test picture was in the pre-training data, the test is worthless. With 300 million pictures from the web this has to
# be checked; the paper's authors did.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# You replace the head of a model, for 7 classes, and the first loss is 2.4. What do you look at?
#
# - [x] whether the new head is zero :: A zero head gives ln 7 = 1.95, whatever the body is. 2.4 is worse than guessing.
# - [ ] the learning rate, which may be too large :: No step has been taken yet, so no rate has acted.
# - [ ] nothing, 2.4 is fine :: It is worse than guessing: ln 7 = 1.95.

# %% [markdown] quiz
# The new head is zero. Which part gets a gradient in the first step?
#
# - [x] the head alone :: Its gradient is a product with y, and y is not zero. That of the body is a product with W, which is.
# - [ ] the body alone :: The body's gradient is a product with W, and W is zero.
# - [ ] all of the model :: That is true from the second step on.

# %% [markdown] quiz
# Somebody writes: "In fine-tuning the body is frozen, and the new head alone is trained." What is this?
#
# - [x] a linear probe :: Only the head learns. It tells what the body's vectors are worth as they are.
# - [ ] fine-tuning, as in the paper :: There *all* weights learn, body and head (section 3.2, appendix B.1.1).
# - [ ] what `model.eval()` does :: That switches dropout off. It freezes nothing: only `requires_grad` decides what learns.

# %% [markdown] quiz
# A start from nothing has taken 300 steps, the pre-trained model 1,000 and then 300. The second is better. What follows?
#
# - [x] together, time and other pictures helped :: To tell them apart you need a start from nothing with 1,300 steps.
# - [ ] the other pictures helped :: That does not follow: the longer training may have done it.
# - [ ] nothing, the comparison is unfair :: It answers a useful question: what do I get for a pre-training that is paid already?

# %% [markdown] quiz
# From 224 to 384 pixels with P = 16. What is interpolated so that the weights fit?
#
# - [x] the positions, from 14x14 to 24x24 :: More patches need more positions. CLS keeps its own.
# - [ ] the *picture*, from 384 down to 224 pixels :: That would throw away the detail for which one takes larger pictures.
# - [ ] the patch embedding E :: E reads one patch, and the patch keeps its size.

# %% [markdown]
# ## Recap
#
# | tensor | in pre-training | in the new task |
# |---|---|---|
# | picture | (B, C, H, W) | (B, C, H', W'), same P |
# | patch embedding E | (P²C, D) | the same |
# | positions | (1, N + 1, D) | (1, N' + 1, D), interpolated, CLS kept |
# | tokens in the blocks | (B, N + 1, D) | (B, N' + 1, D) |
# | y, after the final norm | (B, D) | (B, D) |
# | hidden tanh layer | (B, hidden), or none | none |
# | head W, b | (K, D), (K) | (K', D), (K'), zero at the start |
# | first loss | ln K | ln K' |
#
# - Fine-tuning, layer-wise rates and the linear probe differ in how much is allowed to change.
# - Same patch size, more patches: the positions are stretched in two dimensions.
# - Pre-training has a price. Name its data, its pictures and its time beside the result, and count your comparisons.
#
# **Your next step.** Change one thing and predict the plot of section 3 first. For example: pre-train on *one half*
# of the classes (`range(5)`), on photos (`load_dataset("auto").subset(many)`), or for one epoch alone. When does transfer
# stop helping? Or take thirty photos of your own: a [project](../docs/projects.md).
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), section 3.2, appendix B.1.1, Tables 4 and 5.
# - Kolesnikov et al., *Big Transfer (BiT)* (2020): simple recipes for fine-tuning at many sizes of data.
# - Clark et al., *ELECTRA* (2020), and Bao et al., *BEiT* (2022): layer-wise learning rates, for text and for
#   pictures.
# - Kumar et al., *Fine-Tuning can Distort Pretrained Features* (2022): why to train the head first.
# - Steiner et al., *How to train your ViT?* (2021): when to take a pre-trained model, and which.
