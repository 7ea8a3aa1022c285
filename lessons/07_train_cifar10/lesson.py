# ---
# title: "Train on CIFAR-10"
# promise: "You turn a model that learns its pictures by heart into one that recognises new ones, and you measure what each step brings."
# part: "II. Train it, and be fair"
# minutes: 75
# map: []
# goals:
#   - "Say why a Vision Transformer needs a recipe, and what each part of the recipe is for."
#   - "Write crop and flip, MixUp, the learning rate schedule, and the groups for weight decay."
#   - "Read a table of runs with its noise in mind, and tell a gain from luck."
#   - "Train a model on your own machine, interrupt it, go on, and look at its mistakes and its confidence."
#   - "Name a bug from the shape of a training curve."
# ---

# %% [markdown]
# ## 1. The model is right. Why is it not good?
#
# A convolution is told two things about pictures before it sees one: neighbours belong together, and a pattern means the same
# everywhere. Such built-in knowledge is an **inductive bias**. A Vision Transformer has very little of it. The patches are
# cut from a grid, and that is nearly all. Whatever else there is to know, it must learn from the pictures.
#
# With few pictures there is an easier way to a low loss: learn each picture by heart. This is **overfitting**. We can
# see it if we keep some pictures back. These **validation pictures** are never trained on.

# %%
import importlib.util
import inspect
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

import torch
import torch.nn.functional as F

from vit_course.classroom import plots
from vit_course.augment import AugmentConfig, augment
from vit_course.classroom.checks import check
from vit_course.data import load_dataset, normalize, shapes10
from vit_course.experiments.records import caption, load_records
from vit_course.machinery.profiles import get_profile
from vit_course.machinery.device import get_device
from vit_course.recipes import RECIPES, build_model
from vit_course.experiments.studies import LADDER
from vit_course.train import TrainConfig, train
from vit_course.vit import VisionTransformer, create_vit, vit_flops

profile, shapes = get_profile(), shapes10(train=600, test=200)
stats = shapes.channel_stats()

# %% tags=["nbval-ignore-output"]
few = shapes10(train=profile.pick(smoke=256, cpu=2000, gpu=2000), test=100)
by_heart = TrainConfig(
    epochs=profile.pick(smoke=2, cpu=30, gpu=30),
    batch_size=32,
    lr=2e-3,
    validation=len(few.train_images) // 2,
    quiet=True,
)


def train_on_few(config):
    """Train the small model of lesson 06 on few pictures."""
    torch.manual_seed(0)
    return train(create_vit("Nano/8", img_size=32, num_classes=10), few, config)


def percent(shares):
    """Turn shares into (epochs, percentages) for a plot."""
    return list(range(1, len(shares) + 1)), [100 * share for share in shares]


alone = train_on_few(by_heart)
kept = len(few.train_images) - by_heart.validation
figure = plots.curves(
    {"pictures it trains on": percent(alone.train_accuracy), "new pictures": percent(alone.val_accuracy)},
    f"{kept} pictures of Shapes-10: right on {alone.train_accuracy[-1]:.0%} of them, on {alone.val_accuracy[-1]:.0%} of new ones",
    "epoch (pass over the training pictures)",
    "accuracy in %",
)
plots.show(figure, "Accuracy by epoch on the pictures of the training and on new ones, two lines.")

# %% [markdown]
# With the profile `cpu` or `gpu` the two lines part (`smoke` stops too early). This lesson works on the gap. There are three ways: more
# real pictures (lesson 12), more *varied* pictures, and a training that does not let the model be too sure.
#
# ## 2. Where do you get more pictures, for nothing?
#
# A ship that is moved by three pixels is still a ship, and so is its mirror image. To the model both are new pictures. So we change
# every picture a little each time it is used: **augmentation**. It says what may change *without* changing the label. Is every change
# allowed? A mirrored ship is fine. A mirrored "b" is a "d".
#
# The classic for 32x32 pixels: add a border of p = 4 zeros all round. Cut a window of the old size at a random place,
# one of (2p + 1)² = 81. Then mirror each picture with probability one half. A frequent mistake is one place for the
# whole batch: each step then sees one shift only.
#
# **Your task.** Write `random_crop_flip` for a whole batch. A loop over the pictures is a right answer. The finished version
# has none: it computes, for each pixel, where to take it from.

# %% exercise="vit_course.augment:random_crop_flip" difficulty=3 minutes=12 hint="Pad with `F.pad(images, [padding] * 4)`. Draw `top` and `left` with `torch.randint(0, 2 * padding + 1, (B,))`, one for each picture. First write it as a loop: `padded[b, :, t : t + H, l : l + W]`." hint2="In the loop: cut the window, mirror it with `.flip(-1)` where a random number is below `flip`, collect, and `torch.stack`. Without a loop: `rows = top[:, None] + torch.arange(H)` says which rows each picture takes, (B, H). Columns likewise, counted backwards where the picture is mirrored. Then index `padded` with picture, row and column at once; the three index tensors must broadcast to (B, H, W). Give every random tensor `device=images.device`."
from vit_course.augment import random_crop_flip

random_crop_flip = check(random_crop_flip)

# %%
torch.manual_seed(1)
one = shapes.train_images[:1].expand(16, -1, -1, -1)
sheet = plots.image_grid(torch.cat([one[:1], random_crop_flip(one)[1:]]), columns=8)
figure = plots.image_row(
    [sheet], ["top left: as stored; then as it comes in 15 epochs"], "One picture becomes many"
)
figure.set_size_inches(7, 2.6)
plots.show(
    figure,
    "A sheet of 16 pictures: a shape as stored, and 15 shifted versions, some mirrored, with black borders.",
)

# %% [markdown]
# Stronger recipes go on. **RandAugment** applies two random operations from a list of fourteen (turn, shear, brighter, fewer colours ...).
# **Random erasing** covers a rectangle. **CutMix** pastes a rectangle of *another* picture. The course does all this with a whole
# batch at once, on the device where the pictures are.

# %%
kinds = {
    "RandAugment": AugmentConfig(rand_augment_ops=2),
    "erasing": AugmentConfig(erasing=1.0),
    "CutMix": AugmentConfig(cutmix=1.0),
}
mean, std = (s.view(-1, 1, 1) for s in stats)
sheets = [plots.image_grid(shapes.train_images[:8].float() / 255, columns=4)]
for config in kinds.values():
    torch.manual_seed(3)
    changed, _ = augment(shapes.train_images[:8], shapes.train_labels[:8], stats, 10, config)
    sheets.append(plots.image_grid(changed * std + mean, columns=4))
figure = plots.image_row(sheets, ["as stored", *kinds], "The same eight pictures under stronger changes")
plots.show(
    figure,
    "Four sheets of eight shapes: untouched; turned or recoloured; with a hole; with a foreign rectangle.",
)

# %% [markdown]
# Does it help? The same run as before, now with crop and flip:

# %% tags=["nbval-ignore-output"]
varied = train_on_few(replace(by_heart, augment=AugmentConfig(crop_padding=4, flip=0.5)))
figure = plots.curves(
    {
        "trained on, as stored": percent(alone.train_accuracy),
        "new, as stored": percent(alone.val_accuracy),
        "trained on, crop and flip": percent(varied.train_accuracy),
        "new, crop and flip": percent(varied.val_accuracy),
    },
    f"Gap between old and new pictures: {100 * (alone.train_accuracy[-1] - alone.val_accuracy[-1]):.0f} points as stored, "
    f"{100 * (varied.train_accuracy[-1] - varied.val_accuracy[-1]):.0f} with crop and flip",
    "epoch",
    "accuracy in %",
)
plots.show(
    figure, "Four lines of accuracy by epoch: trained and new pictures, with and without augmentation."
)

# %% [markdown]
# Augmentation makes the *training* harder: the model hardly ever meets the same picture twice. So it needs more epochs, and a model
# that was still learning can lose by it. Remember this in section 6.
#
# ## 3. How large should a step be, and when?
#
# **SGD** (stochastic gradient descent) moves all weights by the same multiple of their gradient. In a Transformer the gradients of different layers
# differ a lot in size. **AdamW** divides each gradient by its own recent size, so every weight gets a step of about the
# same length, the **learning rate**. Nearly everybody trains ViTs with it.
#
# The rate should change during the run. At first the model is random and AdamW's averages are empty: start small, and let
# it rise (**warm-up**). At the end, small steps let the weights settle: go down to zero. With w warm-up steps, n steps after
# them, and peak rate η, a number:
#
# $$\eta_s = \eta \, \frac{s + 1}{w} \;\; (s < w) \qquad\qquad \eta_s = \frac{\eta}{2}\left(1 + \cos\frac{\pi k}{n}\right), \quad k = s + 1 - w = 1 \ldots n$$
#
# s is the number of the step, from 0 on. So step 0 is not lost, the last warm-up step has the peak, and the very last
# step is exactly 0. Three bugs are common. A warm-up stays at 0 for a whole epoch. A cosine is counted in epochs,
# where the code calls it once a step. The last step is not at the minimum.
#
# The paper trained on ImageNet with η = 0.003, a cosine, and 10,000 warm-up steps, at 4,096 pictures a step (appendix
# B.1, Table 3). Its optimiser is Adam, for the ResNets too (section 4.1; appendix D.1 compares it with SGD). On
# ImageNet it adds weight decay .3, dropout .1 and clipping at 1, for 300 epochs. On JFT, 300 million pictures, it takes
# decay .1, no dropout, and a rate that falls in a straight line.
#
# **Your task.** Write `learning_rate`. It must work for `warmup_steps` = 0 too.

# %% exercise="vit_course.optim:learning_rate" difficulty=1 minutes=7 hint="Two cases, `if step < warmup_steps`. In the second one compute the share of the way down first: a number that is 1 at the last step." hint2="That share is k/n. Take k and n from the text: k counts the steps after the warm-up from 1 on, n is how many there are. Then write the second formula with `math.cos` and `math.pi`. Test it by hand: at the last step the share is 1, and 1 + cos π = 0."
from vit_course.optim import learning_rate

learning_rate = check(learning_rate)

# %%
steps = list(range(200))
series = {
    f"{warmup} warm-up steps": (steps, [learning_rate(step, 200, warmup, 1e-3) for step in steps])
    for warmup in (0, 20, 80)
}
figure = plots.curves(series, "Up in a line, down along half a cosine, 0 at the end", "step", "learning rate")
plots.show(
    figure,
    "Three schedules of 200 steps: without warm-up the rate falls from the start; else it rises first.",
)

# %% [markdown]
# ## 4. Which weights should shrink?
#
# **Weight decay** multiplies weights in each step by 1 - η·λ, a number a little below 1. λ is the decay, here .05. It
# keeps a model from building on huge weights, which learning by heart needs. Where a norm follows the layer, this
# argument fails: the norm undoes the size of the weights. There decay acts on the *effective* learning rate: a step of
# the same length turns small weights further than large ones.
#
# This makes sense for weight *matrices*. A bias only shifts. The scale of a norm should sit near 1, not 0. And the CLS token and the
# positions are inputs rather than weights. So these get no decay. Many programs use a short rule, "decay what has at least two axes".
# Which parameters of a ViT have how many?

# %%
small = VisionTransformer(patch_size=8, embed_dim=32, depth=1, num_heads=2)
for name, parameter in small.named_parameters():
    if parameter.ndim >= 2 or "norm1" in name:
        print(f"{name:24} {parameter.ndim} axes {tuple(parameter.shape)}")

# %% [markdown]
# The rule decays `cls_token` and `pos_embed`: both have three axes, because of the batch axis. Nothing breaks, so nobody notices.
#
# **Your task.** Write `weight_decay_groups`. An optimiser takes a list of groups, each a dict with its own `weight_decay`. Every trainable
# parameter belongs in exactly one. A frozen one (`requires_grad` is False) is left out. Positions can be several
# parameters, whose names then contain `pos_embed`.

# %% exercise="vit_course.optim:weight_decay_groups" difficulty=2 minutes=8 hint="Go over `model.named_parameters()` once and put each parameter into one of two lists. What do the names of all weight matrices have in common, in the list above? And which of those are not matrices?" hint2="In the list, matrices have a name that ends with `weight` *and* at least two axes: the first rule leaves out the CLS token and the positions, the second the norms. Skip what does not have `requires_grad`. Then make two dicts, each with the keys `'params'` and `'weight_decay'`, and return them in a list."
from vit_course.optim import weight_decay_groups

weight_decay_groups = check(weight_decay_groups)

# %%
groups = weight_decay_groups(small, 0.05)
names = {id(parameter): name for name, parameter in small.named_parameters()}
for group in groups:
    members = list(group["params"])
    print(f"decay {group['weight_decay']:<4}: {len(members):2} tensors, {sum(p.numel() for p in members):6,} numbers, "
          f"such as {names[id(members[0])]}, {names[id(members[-1])]}")  # fmt: skip

# %% [markdown]
# ## 5. May a picture be 30 % ship?
#
# Cross-entropy with a hard label is content only when the model says "100 % ship". The scores must then grow without end. Two cures change the
# *target*. y is the target of one picture, (K,), a share for each class:
#
# - **Label smoothing** keeps a little for every class: y' = (1 - ε)·y + ε/K, with ε = .1.
# - **MixUp** (Zhang et al., 2017) blends two pictures x_i and x_j, (C, H, W), and their targets *in the same way*:
#
# $$\tilde{x} = \lambda x_i + (1 - \lambda) x_j \qquad\qquad \tilde{y} = \lambda y_i + (1 - \lambda) y_j$$
#
# λ is a number in 0..1, another one for each picture, and j is a random partner. (It is not the λ of section 4; both
# names are usual.) λ is drawn from a *Beta distribution*, Beta(α, α). With α = 1 every share is equally likely. With α
# = .8, as in our recipes, shares near 0 and 1 are somewhat more likely than halves. In CutMix, λ is the share of the
# area that stays, and α is 1.
#
# Three known mistakes: blending uint8 pictures, which loses fractions or fails; targets mixed with another partner than the pictures; and a CutMix
# rectangle that sticks out of the picture, covers *less* than it was drawn for, and still counts in full.
#
# **Your task.** Write `mixup`. λ and the partners are given, so the result is not random.

# %% exercise="vit_course.augment:mixup" difficulty=2 minutes=6 hint="`images[permutation]` are the partners. `lam` has the shape (B,); to meet (B, C, H, W) it needs three more axes of length 1, to meet (B, K) one." hint2="`lam.view(-1, 1, 1, 1)` meets the images; think of the same for the targets. Then write the two formulas, with the same partners in both. Before them, test `images.is_floating_point()`, and raise the error of the docstring."
from vit_course.augment import mixup

mixup = check(mixup)

# %%
first, second = shapes.train_images[[0, 1]].float() / 255
pair = torch.stack([first, second])
labels = F.one_hot(shapes.train_labels[:2], 10).float()
blends, titles = [], []
for share in (1.0, 0.75, 0.5, 0.25, 0.0):
    images, targets = mixup(pair, labels, torch.tensor([share, share]), torch.tensor([1, 0]))
    blends.append(images[0])
    titles.append(
        "\n".join(f"{v:.0%} {shapes.classes[i]}" for i, v in enumerate(targets[0].tolist()) if v > 0)
    )
plots.show(
    plots.image_row(blends, titles, "A blend of two pictures has a blend of two targets", height=1.6),
    "Five pictures that go from one shape over blends to another; the title names the share of each class.",
)

# %% [markdown]
# All these are regularisers: they make it harder to learn by heart. The last one you know: **drop path** (lesson 05)
# leaves out whole branches at random.
#
# ## 6. What does each step bring?
#
# The **ladder** starts plain, and each step keeps what the step before had. The third step is a large one: another
# optimiser, warm-up, decay and clipping, which shortens a gradient that is too long. The runs were recorded by
# `python -m vit_course experiments ladder`. All numbers below are read from the records.

# %%
adds = {
    "plain": "SGD, cosine, pictures as stored",
    "crop-flip": "+ crop and flip",
    "adamw": "AdamW, warm-up, decay .05, clipping",
    "smoothing": "+ label smoothing .1",
    "rand-augment": "+ RandAugment, erasing",
    "mixed": "+ MixUp and CutMix",
    "drop-path": "+ drop path .1",
    "longer": "three times as many epochs",
}
ladder = load_records("ladder")
runs = {step: [r for r in ladder if r["step"] == step] for step in (*LADDER, "drop-path", "longer")}
runs = {step: found for step, found in runs.items() if found}
print(caption(ladder))
score, before = {}, None
for step, found in runs.items():
    score[step] = 100 * sum(r["test_accuracy"] for r in found) / len(found)
    change = "" if before is None else f"{score[step] - before:+5.1f}"
    seen = 100 * sum(r["train_accuracy"][-1] for r in found) / len(found)
    minutes = sum(r["seconds"] for r in found) / len(found) / 60
    print(
        f"{adds[step]:36} test {score[step]:5.1f} % {change:6} training {seen:5.1f} %  {minutes:5.1f} min  {len(found)} seed(s)"
    )
    before = score[step]

# %%
if runs:
    points = {
        "test": [(step, 100 * r["test_accuracy"]) for step, found in runs.items() for r in found],
        "training (as augmented)": [
            (step, 100 * r["train_accuracy"][-1]) for step, found in runs.items() for r in found
        ],
    }
    best = max(score, key=score.get)
    figure = plots.dots(
        {name: ([p[0] for p in pairs], [p[1] for p in pairs]) for name, pairs in points.items()},
        f"{ladder[0]['model']}: the best step here is {best!r}\n{caption(ladder)}",
        "accuracy in %",
    )
    figure.set_size_inches(9, 4.6)
    plots.show(
        figure,
        "For each step of the ladder a dot for the accuracy on test pictures and one on training pictures.",
    )

# %% [markdown]
# How to read this table:
#
# - **Is it more than luck?** A test of n pictures has noise of its own: with accuracy p about √(p(1 - p)/n). For p = .8
#   and n = 10,000 this is .4 points. Of a difference between two runs, take twice the root of the sum of both squares
#   for noise: the next cell does. Another seed (the same run with other random numbers) adds noise of its own, which
#   one seed cannot show. Where a step has several seeds, the cell takes their spread if it is larger. It is a rough
#   rule: all runs are scored on the *same* test pictures, so the noise of the test does not shrink with more seeds.
#   Lesson 10 has a better rule.
# - **The training accuracy needs care.** It is counted on the pictures as they were trained on. In the plain step these
#   are the stored ones, and far above the test accuracy means overfitting. Augmented pictures are harder than real
#   ones, and a blend of MixUp or CutMix has no single right answer. Then the training accuracy may lie *below* the test
#   accuracy to the very end, in a model that overfits and in one that does not. Only the *unaugmented* training
#   pictures, scored in evaluation mode, would tell.
# - **A ladder belongs to its budget.** A step that loses in ten epochs can win in three hundred.

# %%
test_pictures = 10_000


def noise(found):
    """Return the standard error of a mean accuracy, in points: of the test pictures, or of the seeds if that is more."""
    percents = [100 * r["test_accuracy"] for r in found]
    of_pictures = (fmean(percents) * (100 - fmean(percents)) / test_pictures) ** 0.5
    of_seeds = stdev(percents) if len(found) > 1 else 0.0
    return max(of_pictures, of_seeds) / len(found) ** 0.5


for (earlier, low), (later, high) in zip(list(score.items()), list(score.items())[1:], strict=False):
    limit = 2 * (noise(runs[earlier]) ** 2 + noise(runs[later]) ** 2) ** 0.5
    verdict = "too close to call" if abs(high - low) < limit else "a gain" if high > low else "a loss"
    print(f"{earlier:12} -> {later:12} {high - low:+5.1f} points, noise up to {limit:.1f}: {verdict}")
for step, found in list(runs.items())[-1:]:
    gap = 100 * found[0]["train_accuracy"][-1] - score[step]
    print(f"\nAt the top, {step!r}: training minus test = {gap:+.1f} points, so it is",
          "overfitting" if gap > 3 else "not overfitting: longer or larger would be the next thing to try")  # fmt: skip

# %% [markdown]
# Do not trust the last line of that cell too far. It takes the last step, which need not be the best one. And if that
# step has MixUp or CutMix in it, "not overfitting" does not follow.
#
# What others report for CIFAR-10, trained from nothing (read from their papers and repositories; most of them give the best epoch
# on the *test set*):
#
# | who | model | epochs | accuracy |
# |---|---|---|---|
# | UvA course notebook | small ViT | | 75.6 % |
# | kentaroy47 | 6 blocks, D = 512 | 200 / 500 / 1000 | 80 / 85 / 89 % |
# | ViT-CIFAR (omihub777) | 7 blocks, D = 384, P = 4 | 200 | 90.9 % |
# | ViT-Lite-7/4 (repository Compact-Transformers) | 7 blocks, D = 256, P = 4 | 200 | 91.4 % |
# | SPT_LSA_ViT, its plain ViT | 9 blocks, D = 192, P = 4 | 300 | 93.6 % |
# | ResNet-18 (repository kuangliu/pytorch-cifar, its code of today) | the opponent of lesson 08 | 200 | 95.7 % |
#
# The good ones share a recipe: AdamW near .001, decay .05, warm-up and cosine, RandAugment with erasing, MixUp and
# CutMix, smoothing .1, drop path .1, patches of 4 pixels, and much patience. What is the recipe alone worth? This table
# cannot say: its rows differ in model, epochs and recipe at once. (The README of kuangliu/pytorch-cifar lists 93.0 %
# for the same ResNet-18 with an older schedule. That is a comparison of recipes.)
#
# One warning. If you look at the test accuracy after every epoch and report the best, the test set has chosen the epoch. It is then no
# test any more. Here the *last* epoch is reported, choices are made on validation pictures, and the test set is used once.
#
# ## 7. How fast could it be?
#
# A training has three costs:
#
# - **Pictures.** CIFAR-10 as uint8 is small (the cell prints it). So it lies on the GPU as a whole, and crop, flip and the rest happen there. A
#   loader on the CPU with RandAugment needs 10 to 40 seconds an epoch, 30 to 100 times as long as the arithmetic of a big GPU.
# - **Launching.** A step of a small ViT is some 200 to 400 separate little programs, 2 to 3 ms only to start them. A larger batch does more
#   in each; `torch.compile` joins many into few.
# - **Work.** **bf16** is a number of 16 bits with the range of float32 and fewer digits. Matrix products run several times faster in it.
#
# How near is *your* machine to its limit? We measure the limit with one large matrix product, and then whole training steps. A step
# costs three forward passes.


# %% tags=["nbval-ignore-output"]
def seconds_per_call(function, device, calls):
    """Time a function after one call to warm up."""
    for number in range(calls + 1):
        if number == 1:  # the call before was to warm up
            start = time.perf_counter()
        function()
        if device.type != "cpu" and number in (0, calls):
            torch.accelerator.synchronize()
    return (time.perf_counter() - start) / calls


device = get_device()
side = profile.pick(smoke=256, cpu=1024, gpu=8192)
kind = torch.bfloat16 if device.type == "cuda" else torch.float32
square = torch.rand(side, side, device=device, dtype=kind)
limit = 2 * side**3 / seconds_per_call(lambda: square @ square, device, 5)
print(f"CIFAR-10 in memory: {50_000 * 3 * 32 * 32 / 1e6:.0f} MB")
print(f"this machine ({device}): {limit / 1e12:.2f} TFLOP/s in a large product of {kind}")

name = profile.pick(smoke="Nano/8", cpu="Nano/8", gpu="Ti/4")
ways = {"float32": (False, False)}
if device.type == "cuda":
    ways["bf16"] = (True, False)
    if importlib.util.find_spec("triton"):  # torch.compile needs it on a GPU
        ways["bf16, compiled"] = (True, True)
speed = {way: ([], []) for way in ways}
for way, (bf16, compiled) in ways.items():
    model = create_vit(name, img_size=32, num_classes=10).to(device)
    forward = torch.compile(model) if compiled else model
    for batch in profile.pick(smoke=[4, 32], cpu=[1, 4, 16, 64, 256], gpu=[64, 256, 1024]):
        x, y = (
            torch.rand(batch, 3, 32, 32, device=device),
            torch.zeros(batch, dtype=torch.long, device=device),
        )

        def one_step(x=x, y=y, forward=forward, bf16=bf16):
            with torch.autocast(x.device.type, torch.bfloat16, enabled=bf16):
                F.cross_entropy(forward(x), y).backward()

        rate = batch / seconds_per_call(one_step, device, profile.pick(smoke=1, cpu=4, gpu=20))
        speed[way][0].append(batch)
        speed[way][1].append(rate)
        share = 3 * vit_flops(model) * rate / limit
        print(f"{way:14} batch {batch:4}: {rate:9,.0f} images/s, {share:4.0%} of the limit")

# %% tags=["nbval-ignore-output"]
figure = plots.curves(
    speed, f"{name}: images per second grow with the batch, until the machine is busy ({device})",
    "pictures in a batch", "images per second", log="xy",
)  # fmt: skip
plots.show(
    figure, "Images per second over the size of the batch, both axes logarithmic; a rising line that bends."
)
per_epoch = 3 * vit_flops(create_vit("Ti/4", img_size=32, num_classes=10)) * 50_000
print(
    f"one epoch of Ti/4 on 50,000 pictures: {per_epoch / 1e15:.2f} PFLOP = {per_epoch / limit:,.2f} s here at the limit"
)
print(
    f"                                      and {per_epoch / 790e12:.3f} s at 790 TFLOP/s, a large GPU in bf16"
)
for step, found in runs.items():
    r = found[0]
    pictures = r["training_flops"] / r["forward_flops"] / 3
    print(f"recorded, {step:12}: {pictures / r['seconds']:9,.0f} images/s on {r['machine']}")

# %% [markdown]
# The share stays below 100 %: norms, GELU and softmax do little arithmetic and wait for memory. One can count this
# traffic too. A program that runs kernel after kernel, and writes each result to memory, then needs about .3 s for an
# epoch of Ti/4 on that large GPU. This is computed, not measured (`benchmarks/floors.py`). Fused kernels write less, so
# they can go below it. A width of D = 192 is narrow.
#
# ## 8. Your own run
#
# Now train two rungs yourself, sized to your machine. The plot grows after each epoch. The pictures are CIFAR-10 if you have it in the
# folder `data/` (lesson 00), and Shapes-10 otherwise.

# %% tags=["nbval-ignore-output"]
dataset = load_dataset("auto")
train_size = profile.pick(smoke=640, cpu=10_000, gpu=50_000)
test_size = profile.pick(smoke=400, cpu=10_000, gpu=10_000)
part = dataset.subset(
    train_size if train_size < len(dataset.train_images) else None,
    test_size if test_size < len(dataset.test_images) else None,
)
print(part)
model_name = profile.pick(smoke="Nano/8", cpu="Nano/8", gpu="Ti/4")
common = {
    "epochs": profile.pick(smoke=1, cpu=10, gpu=20),
    "batch_size": profile.pick(smoke=64, cpu=64, gpu=512),
}
rungs = {"plain": RECIPES["plain"], "smoothing": RECIPES["smoothing"]}
if profile.name != "gpu":
    rungs["smoothing"] = replace(
        rungs["smoothing"], lr=2e-3
    )  # a small model at small batches likes twice the rate
models, mine = {}, {}
for rung, recipe in rungs.items():
    torch.manual_seed(0)
    models[rung] = build_model(model_name, part)
    mine[rung] = train(
        models[rung], part, replace(recipe, **common), on_epoch=plots.live_curves(f"{rung}, live")
    )

# %% tags=["nbval-ignore-output"]
series = {f"here, {rung}": percent(history.train_accuracy) for rung, history in mine.items()}
for rung in mine:
    for r in runs.get(rung, [])[:1]:
        series[f"recorded, {rung}, seed {r['config']['seed']}"] = percent(r["train_accuracy"])
figure = plots.curves(
    series, f"Your run beside the record\nhere: {part.provenance}\n{caption(ladder)}", "epoch", "training accuracy in %"
)  # fmt: skip
figure.axes[0].title.set_fontsize("small")
plots.show(
    figure,
    "Training accuracy by epoch of the runs of this machine and, where there are any, of recorded ones.",
)
for rung, history in mine.items():
    print(
        f"here, {rung:20} test {history.test_accuracy:6.1%}  {history.seconds:5.0f} s on {history.device}; {part.provenance}"
    )
    for r in runs.get(rung, [])[:1]:
        print(
            f"recorded, {rung:9} seed {r['config']['seed']} test {r['test_accuracy']:6.1%}  {r['seconds']:5.0f} s on {r['machine']}; {r['data']}"
        )

# %% [markdown]
# **If the power fails.** `train(..., folder="runs/mine")` writes a checkpoint after every epoch: weights, state of the optimiser, history. With
# `resume=True` the next call goes on from there. Ctrl-C, or the stop button, saves first and then stops. Does a broken run end where an unbroken one
# ends? Let us cut the power in the third epoch, and compare all weights.


# %%
class PowerCut(Exception):
    """Ends a run from inside."""


def cut_power(history):
    """Fail after the third epoch, before it is saved."""
    if len(history.train_loss) == 3:
        raise PowerCut


def small_run(folder=None, **options):
    """Train a very small ViT for five epochs; return its weights."""
    torch.manual_seed(0)
    model = VisionTransformer(patch_size=8, embed_dim=32, depth=1, num_heads=2, drop_path_rate=0.1)
    config = TrainConfig(epochs=5, batch_size=60, augment=AugmentConfig(4, 0.5), device="cpu", quiet=True)
    history = train(model, shapes, config, folder, **options)
    return torch.cat([p.detach().flatten() for p in model.parameters()]), history


unbroken, _ = small_run()
with tempfile.TemporaryDirectory() as folder:
    try:
        small_run(folder, on_epoch=cut_power)
    except PowerCut:
        print("power cut; on the disk:", sorted(p.name for p in Path(folder).iterdir()))
    resumed, history = small_run(folder, resume=True)
print("epochs in the history:", len(history.train_loss))
print("all weights equal, bit for bit:", torch.equal(resumed, unbroken))

# %% [markdown]
# This works because everything random in a step depends only on the seed and the number of the step.
#
# ## 9. What does it get wrong?
#
# An accuracy is one number. Let us look behind it. First, which classes are confused?


# %% tags=["nbval-ignore-output"]
@torch.no_grad()
def probabilities(model, images):
    """Return the probability of each class, (N, K)."""
    device = next(model.parameters()).device
    batches = images.split(500)
    return torch.cat(
        [model(normalize(x.to(device), *part.channel_stats())).softmax(1).cpu() for x in batches]
    )


chances = {rung: probabilities(model, part.test_images) for rung, model in models.items()}
sure, answers = chances["smoothing"].max(dim=1)
truth, K = part.test_labels, len(part.classes)
confusion = torch.bincount(truth * K + answers, minlength=K * K).reshape(K, K)
confusion = (100 * confusion / confusion.sum(dim=1, keepdim=True)).round()
figure = plots.number_tables(
    [confusion], ["row: true class, column: answer"], "Of 100 pictures of a class, how many got which name",
    list(part.classes), list(part.classes),
)  # fmt: skip
plots.show(figure, "A square table of true classes against answers; the diagonal holds what was named right.")

# %% [markdown]
# Then the mistakes themselves: the wrong answers that the model was most sure of. Some pictures are truly hard, some labels are wrong,
# and some show a bug.

# %% tags=["nbval-ignore-output"]
wrong = (answers != truth).nonzero()[:, 0]
worst = wrong[sure[wrong].argsort(descending=True)][:8].tolist()
titles = [f"{part.classes[answers[i]]} {sure[i]:.0%}\nis {part.classes[truth[i]]}" for i in worst]
if worst:
    figure = plots.image_row(
        [part.test_images[i] for i in worst], titles, "Wrong, and most sure of it", height=1.3
    )
    plots.show(
        figure, "Eight test pictures with the wrong answer of the model, its probability, and the true class."
    )

# %% [markdown]
# A model that says "90 %" should be right nine times in ten. Then it is **calibrated**. To test this, sort the answers by their
# probability into bins, and compare in each bin the mean probability with the share of right answers. Below the diagonal the model is too sure
# of itself, above it too modest. The **expected calibration error** is the mean distance, each bin weighted with its share of the
# pictures:
#
# $$\mathrm{ECE} = \sum_b \frac{n_b}{n} \left| \mathrm{acc}_b - \mathrm{conf}_b \right|$$
#
# n is the number of pictures, n_b that of bin b, acc_b the share of right answers in it, conf_b the mean probability.


# %% tags=["nbval-ignore-output"]
def calibration(chances, labels, bins=10):
    """Return (mean probability, share of right answers) of each bin that is not empty, and the ECE."""
    sure, answers = chances.max(dim=1)
    number = (sure * bins).long().clamp(max=bins - 1)
    count = torch.bincount(number, minlength=bins)
    conf = torch.bincount(number, sure.double(), minlength=bins) / count
    acc = torch.bincount(number, (answers == labels).double(), minlength=bins) / count
    used = count > 0
    error = (count / len(labels) * (acc - conf).abs())[used].sum().item()
    return (100 * conf[used]).tolist(), (100 * acc[used]).tolist(), error


series = {"calibrated": ([0, 100], [0, 100])}
for rung, table in chances.items():
    conf, acc, error = calibration(table, truth)
    series[f"{rung}, ECE {error:.1%}"] = (conf, acc)
    side = (
        "too sure"
        if table.max(1).values.mean() > (table.argmax(1) == truth).double().mean()
        else "too modest"
    )
    print(
        f"{rung:10} says {table.max(1).values.mean():.0%} on average and is right in {mine[rung].test_accuracy:.0%}: {side}"
    )
figure = plots.curves(
    series, "Below the diagonal: too sure. Above it: too modest", "mean probability of the answer in %", "right answers in %"
)  # fmt: skip
plots.show(
    figure,
    "Share of right answers over the probability that the model gave, with the diagonal of a calibrated model.",
)

# %% [markdown]
# Models that learned by heart are usually too sure on new pictures. Label smoothing pulls probabilities down, at times too far.
#
# ## 10. What is wrong with this run?
#
# Most bugs of a training raise no error. Only the curve looks odd. Here are six runs of a small ViT on four classes of Shapes-10. One is
# healthy, five are not. They were recorded with code that really has the faults.
#
# The solid line is the training loss, of the pictures as they were trained on. The dashed line with dots is the validation loss after each epoch. The dotted
# line is ln K, the loss of a model that says "all classes are equally likely".

# %%
from vit_course.classroom import broken_runs

figure = broken_runs.draw(broken_runs.load())
plots.show(
    figure,
    "Six plots of losses. A: the training loss is a comb, four teeth an epoch. B: both lines fall, then freeze. C: the validation "
    "loss lies below the training loss. D: a spike, then both lines stay at the dotted one. E: training goes "
    "towards 0, validation turns and rises. F: training falls, validation rises above the dotted line from early on.",
)

# %% [markdown]
# **Your task.** Give every plot the number of its diagnosis. The list is in the docstring. Ask of each plot: Where does it start? Is training
# able to fall? Does validation follow, stay, or go the other way? Is the line calm or restless? Does anything repeat?

# %% exercise="vit_course.classroom.reading:read_curves" difficulty=2 minutes=10 hint="Begin with the sure ones. One plot freezes. One has a pattern that repeats in each epoch. One has validation *below* training. One never leaves the dotted line." hint2="Two plots have a rising validation loss. Learning by heart helps with new pictures at first, so there validation falls *before* it rises. Labels in a wrong order never let it fall. Two diagnoses of the list fit no plot."
from vit_course.classroom.reading import read_curves

read_curves = check(read_curves)

# %%
for plot, number in read_curves().items():
    print(f"{plot}: diagnosis {number}; in the code of the run it is called {broken_runs.PLOTS[plot]!r}")
print("\n" + inspect.getsource(broken_runs.run))

# %% [markdown]
# Find each fault in the code. All of them are one or two lines.
#
# ## Check yourself
#
# **1.** Training accuracy 62 %, test accuracy 71 %, with MixUp. Does this model overfit? (a) no, training is below test
# (b) nobody knows yet: score the training pictures without MixUp (c) yes, test pictures have leaked into the training
#
# <details><summary>Answer</summary>
#
# **(b)** Blended pictures are harder than the real ones of the test, so this order is normal, and it says nothing about
# overfitting. (a) compares two kinds of pictures. (c) is a good thought when pictures are *not* augmented.
#
# </details>
#
# **2.** A step of the ladder brings +.3 points, one seed, 10,000 test pictures. (a) keep it, it helps (b) nothing is known yet (c) it hurts
#
# <details><summary>Answer</summary>
#
# **(b)** The noise of the test alone is about as large. More seeds would tell. (a) and (c) both read a meaning into luck.
#
# </details>
#
# **3.** Why should positions not decay? (a) they would become too large (b) decay pulls them to zero, and they are inputs, no weights
# (c) it costs time
#
# <details><summary>Answer</summary>
#
# **(b)** The model would slowly lose the information where a patch was. (a) is the wrong direction. (c): the cost is nothing.
#
# </details>
#
# **4.** You print the test accuracy after each of 100 epochs and report the highest. (a) fine, it is the best model (b) too high by luck
# and choice (c) too low
#
# <details><summary>Answer</summary>
#
# **(b)** The highest of 100 noisy numbers is above the true one. Choose on validation pictures, and test once. (a) is what many
# repositories do, so their numbers and yours cannot be compared. (c) would need bad luck in every epoch.
#
# </details>
#
# **5.** The GPU is at 15 % of its limit with batch 64. What helps most? (a) a larger batch, or `torch.compile` (b) a lower learning rate
# (c) more workers that load pictures
#
# <details><summary>Answer</summary>
#
# **(a)** At small batches most of the time goes into launching little programs. (b) changes what is learned, not how fast. (c): here the pictures
# are on the GPU already.
#
# </details>
#
# ## Recap
#
# | what | shape or value |
# |---|---|
# | stored pictures | uint8 (N, C, H, W), on the device |
# | `random_crop_flip` | (B, C, H, W) to (B, C, H, W), an offset and a flip for each picture |
# | targets, one-hot or smoothed | (B, K), each row sums to 1 |
# | `mixup`: lam, permutation | (B,), (B,) |
# | `learning_rate` | step 0: peak/w; step w - 1: peak; last step: 0 |
# | decay | λ on weight matrices; 0 on norms, biases, CLS token, positions |
#
# - Few inductive biases: the pictures must teach what a convolution is born with. A recipe should make few pictures go a
#   long way. Whether it does depends on the budget: read it off the ladder.
# - Each step has its price. Harder training needs more epochs.
# - Report the last epoch, on a test set used once, with data, machine and spread.
# - Look at curves, at mistakes and at confidence, not at one number.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), section 3 and appendix B.1.
# - Steiner et al., *How to train your ViT? Data, Augmentation, and Regularization in Vision Transformers* (2021).
# - Touvron et al., *Training data-efficient image transformers* (2021): a recipe without a huge data set.
# - Guo et al., *On Calibration of Modern Neural Networks* (2017).
