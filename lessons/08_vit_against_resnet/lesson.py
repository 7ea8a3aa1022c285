# ---
# title: "ViT against ResNet"
# promise: "You compare two kinds of models so that the result means something, and see what a convolution knows before it learns."
# part: "II. Train it, and be fair"
# minutes: 65
# goals:
#   - "Find what is unfair in a comparison, and plan a fair one."
#   - "Fit a ResNet to small pictures, and count what it costs."
#   - "Show with numbers what convolutions, pooling and patches do when a picture moves."
#   - "Read a data-fraction curve, and the paper's main table."
#   - "Say what a small experiment can show, and what it cannot."
# ---

# %% [markdown]
# ## 1. Has the Transformer beaten the convolution?
#
# A friend says: "Nobody needs convolutions any more. I trained both on CIFAR-10, and the ViT won." Do you believe it? That
# depends on *how* the two were compared. So ask before you look at the numbers:
#
# | what | question |
# |---|---|
# | data | did both see the same pictures, and nothing else? |
# | effort | did both get the same number of trials for their settings? |
# | budget | how long did each train: minutes, and operations (**FLOPs**, lesson 06)? |
# | choice | were choices made on held-out pictures, and the test pictures used once, at the end? |
# | chance | how many **seeds**: runs that differ in their random numbers alone? |
#
# No two models agree in everything. A fair comparison does not hide the differences. It keeps equal what can be equal, and
# shows the rest.
#
# **Your task.** The docstring of `unfair_points` holds nine points of a made-up report. Return the letters of the unfair ones,
# as a set. The check names one point at a time and says why.

# %% exercise="vit_course.experiments.probes:unfair_points" difficulty=2 minutes=8 hint="Ask of each point: could it raise one result although the model is no better? Could the reader see it in the table, and take it into account?" hint2="Five of the nine are unfair. Go through the table above. Budget, choice and chance are each broken by one point. Two more points give one side something useful that the other side does not get."
from vit_course.classroom.checks import check
from vit_course.experiments.probes import unfair_points

unfair_points = check(unfair_points)

# %%
unfair = {letter.lower() for letter in unfair_points()}
print("unfair:", *sorted(unfair))
print("fair:  ", *sorted(set("abcdefghi") - unfair))

# %% [markdown]
# Keep the list at hand. In section 5 you will use it against *our own* runs.
#
# ## 2. Who is the opponent?
#
# A **ResNet** (He et al., 2016) is a stack of 3x3 convolutions. Two of them and a shortcut make a block:
#
# $$y = F(x) + x$$
#
# x and y are stacks of pictures, so-called feature maps (B, C, H, W), and F is convolution, batch norm, ReLU, convolution, batch
# norm. (A ReLU follows the sum.) You know the shortcut: the encoder of the ViT took its residual stream from here. Some blocks
# have **stride** 2: they read every second position, so the map becomes half as wide. At the end an average over all
# positions gives one vector, and a linear layer the logits.
#
# torchvision's ResNet-18 is made for pictures of 224 pixels. Its **stem**, the layers before the first block, halves the
# picture twice. How much is left of 32 pixels? The next cell follows one picture through the layers.

# %%
import time
from dataclasses import replace

import torch
from torch import nn
from torchvision.models import resnet18

from vit_course.classroom import plots
from vit_course.data import load_dataset, shapes10
from vit_course.machinery.profiles import get_profile
from vit_course.machinery.device import get_device


def map_sides(model, size=32):
    """Return the side of the feature maps behind stem and stages of a torchvision ResNet."""
    x, sides = torch.zeros(1, 3, size, size), []
    with torch.no_grad():
        for name, layer in model.eval().named_children():
            if name == "avgpool":
                break
            x = layer(x)
            if name == "maxpool" or name.startswith("layer"):
                sides.append(x.shape[-1])
    return sides


print("behind stem and stages 1 to 4, 224 pixels:", map_sides(resnet18(), 224))
print("behind stem and stages 1 to 4,  32 pixels:", map_sides(resnet18(), 32))

# %% [markdown]
# One position is left at the end: for this network a small picture is a postage stamp seen from far away. Comparing a ViT with
# *this* would be unfair to the ResNet. Everyone who trains it on CIFAR-10 changes the stem.
#
# **Your task.** Write `cifar_stem`. It changes a ResNet in place: one 3x3 convolution that keeps the size, and a `maxpool` that
# does nothing. Mind that other ResNets have other widths, and grey pictures one channel.

# %% exercise="vit_course.resnet:cifar_stem" difficulty=1 minutes=6 hint="Assign two new modules: one to `model.conv1`, one to `model.maxpool`. The number of output channels must stay: where can you read it?" hint2="`model.conv1.out_channels`, read before you replace it. For the convolution, `nn.Conv2d` with the numbers of the docstring; its weights are drawn by itself. A module that does nothing is `nn.Identity()`. Return the model."
from vit_course.resnet import cifar_stem

cifar_stem = check(cifar_stem)

# %%
print("with your stem, 32 pixels:", map_sides(cifar_stem(resnet18(num_classes=10))))

# %% [markdown]
# Now 4x4 positions are left for the average. What does each model cost? Parameters and the operations for one picture
# can be counted. Pictures per second must be *measured*, on your machine.
# `resnet-small` and `Nano/8` are the pair for a laptop, `resnet18` and `Ti/4` the pair for a GPU.

# %%
from vit_course.recipes import RECIPES, build_model, forward_flops

shapes = shapes10(train=100, test=100)
names = ("Nano/8", "resnet-small", "Ti/4", "resnet18")
opponents = {}
print("model          parameters   GFLOP forward")
for name in names:
    torch.manual_seed(0)
    opponents[name] = build_model(name, shapes)
    count = sum(p.numel() for p in opponents[name].parameters())
    print(f"{name:13} {count:11,} {forward_flops(opponents[name], shapes) / 1e9:15.4f}")

# %% tags=["nbval-ignore-output"]
device, profile = get_device(), get_profile()
batch = torch.rand(profile.pick(smoke=4, cpu=64, gpu=512), 3, 32, 32, device=device)
for name, model in opponents.items():
    model.eval().to(device)
    with torch.no_grad():
        model(batch)  # the first call prepares things, so it is not timed
        start = time.perf_counter()
        for _ in range(3):
            value = model(batch).sum().item()  # .item() waits for the device
        seconds = (time.perf_counter() - start) / 3
    rate = len(batch) / seconds
    print(
        f"{name:13} {rate:9,.0f} pictures/s forward, {rate * forward_flops(model, shapes) / 1e9:8,.0f} GFLOP/s"
    )
    model.cpu()

# %% [markdown]
# Look at the last column. If FLOPs decided, all models would reach the same GFLOP/s. They do not: a machine does large products
# faster than many small ones, and waits for memory in between. So a comparison needs both budgets. FLOPs do not depend on the
# machine, minutes are what you pay.
#
# ## 3. What does a convolution know before it has learned anything?
#
# Move a picture by a few pixels. For you nothing important has changed. And for a model? To find out you need pictures that
# have moved.

# %%
from vit_course.experiments.probes import shift

# %% [markdown]
# Here is a photo and what *one* convolution makes of it. Its weights are random: it has learned nothing. Beside it, the same
# for the shifted photo.

# %%
photo = plots.sample_photo((64, 64))[None].float() / 255
torch.manual_seed(0)
convolution = nn.Conv2d(3, 16, kernel_size=3, padding=1)


def as_picture(feature_map):
    """Scale one feature map (H, W) to a grey picture."""
    low, high = feature_map.min(), feature_map.max()
    return ((feature_map - low) / (high - low))[None]


with torch.no_grad():
    before, after = convolution(photo)[0, 3], convolution(shift(photo, 16))[0, 3]
figure = plots.image_row(
    [photo[0], as_picture(before), shift(photo, 16)[0], as_picture(after)],
    ["photo", "its feature map", "photo, shifted by 16", "its feature map"],
    "The picture moves, and the feature map moves with it",
)
plots.show(
    figure, "The portrait and one feature map of it; then both again, moved to the right by 16 pixels."
)

# %% [markdown]
# The two have names. Let $S_s$ be the shift by s pixels, x a picture and f a layer or a model.
#
# $$\text{equivariant:}\quad f(S_s\,x) = S_s\,f(x) \qquad\qquad \text{invariant:}\quad f(S_s\,x) = f(x)$$
#
# - **Equivariant**: the result moves along. A convolution is, since it does the same at every place.
# - **Invariant**: the result stays. The average over *all* places is, as long as nothing leaves the picture.
#
# A convolution of stride P writes one column for every P columns that it reads. A shift by s pixels should then move the result by
# s/P columns, and this is possible only if s is a multiple of P. The patch embedding is such a layer (lesson 01). The next
# cell measures it. For each shift it takes the whole number of columns that fits best, and looks at the **interior**, where the
# border plays no part.


# %%
def equivariance_error(layer, images, pixels, largest=8):
    """Compare layer(shifted) with the shifted layer(images): relative difference in the interior, at the best fit."""
    out, moved = layer(images), layer(shift(images, pixels))
    first = largest // (images.shape[-1] // out.shape[-1]) + 1
    interior = moved[..., first:-1]
    fits = [(interior - out[..., first - k : -1 - k]).norm() / interior.norm() for k in range(first)]
    return min(fits).item()


torch.manual_seed(0)
layers = {
    "convolution 3x3, stride 1": nn.Conv2d(3, 16, kernel_size=3, padding=1),
    "convolution 3x3, stride 2": nn.Conv2d(3, 16, kernel_size=3, stride=2, padding=1),
    "patches, P = 4": nn.Conv2d(3, 16, kernel_size=4, stride=4),
    "patches, P = 8": nn.Conv2d(3, 16, kernel_size=8, stride=8),
}
steps = list(range(9))
with torch.no_grad():
    errors = {name: [equivariance_error(layer, photo, s) for s in steps] for name, layer in layers.items()}
for name, values in errors.items():
    print(f"{name:26} equal (below 1e-5) for shifts of", [s for s in steps if values[s] < 1e-5])
figure = plots.curves(
    {name: (steps, [100 * value for value in values]) for name, values in errors.items()},
    "A layer of stride P is equivariant for multiples of P alone",
    "shift in pixels",
    "difference in percent",
)
figure.axes[0].set_ylim(top=95)  # room for the legend
plots.show(
    figure,
    "Difference over the shift from 0 to 8 pixels: always zero for stride 1, zero at even shifts for stride 2, "
    "at 0, 4 and 8 for patches of 4, at 0 and 8 for patches of 8, and between 25 and 60 percent elsewhere.",
)

# %% [markdown]
# And whole models? We put a small photo on a wide black background, so that nothing leaves the picture, and compare the vector
# before the head. Three untrained models: a ResNet (its strides multiply to 4), a ViT with P = 8, and the same ViT without positions.

# %%
scene = torch.zeros(1, 3, 64, 64)
scene[..., 24:40, 16:32] = plots.sample_photo((16, 16)).float() / 255
scene_data = replace(shapes, train_images=torch.zeros(1, 3, 64, 64, dtype=torch.uint8))
bodies = {}
for name, model_name, options in [
    ("ViT", "Nano/8", {}),
    ("ResNet", "resnet-small", {}),
    ("ViT without positions", "Nano/8", {"pos_embed": "none"}),
]:
    torch.manual_seed(0)
    bodies[name] = build_model(model_name, scene_data, **options).eval()
    if name == "ResNet":
        bodies[name][-1] = nn.Identity()
    else:
        bodies[name].head = nn.Identity()


def change(body, images, changed):
    """Return how far the output moves, relative to its size."""
    with torch.no_grad():
        before, after = body(images), body(changed)
    return ((after - before).norm() / before.norm()).item()


changes = {name: [change(body, scene, shift(scene, s)) for s in steps] for name, body in bodies.items()}
for name, values in changes.items():
    print(f"{name:22} unchanged (below 1e-5) for shifts of", [s for s in steps if values[s] < 1e-5])
figure = plots.curves(
    {name: (steps, [100 * value for value in values]) for name, values in changes.items()},
    "Untrained: each architecture ignores only the shifts that fit its grid",
    "shift in pixels",
    "change of the output in percent",
)
figure.axes[0].set_ylim(top=80)
plots.show(
    figure,
    "Change of the output over the shift: the ResNet returns to zero at 4 and 8 pixels, the ViT without positions at 8, "
    "the ViT with positions never.",
)

# %% [markdown]
# Look at where the lines touch zero. (How high they are says little, the weights are random.) Nobody taught the ResNet
# to ignore a shift of 4 pixels. This is an **inductive bias**: what a model assumes before it sees data. Note what it
# is *not*. The ResNet is not invariant to a shift of 1 or 2 pixels. Where an object comes near the border, even the
# multiples of 4 are spoiled. The ViT has the shared patch embedding, so a little of the same bias. With its positions,
# it must learn from examples that a cat on the left is a cat on the right.
#
# The opposite test: destroy the picture and keep its pieces.

# %%
from vit_course.experiments.probes import shuffle_patches

sides = (32, 16, 8, 4)
figure = plots.image_row(
    [shuffle_patches(photo, side)[0] for side in sides],
    [f"pieces of {side}x{side}" for side in sides],
    "The same pixels, in another order",
)
plots.show(
    figure, "The portrait, its square pieces shuffled: 4 large ones, then 16, 64 and 256 smaller ones."
)
for name, body in bodies.items():
    same = [side for side in sides if change(body, photo, shuffle_patches(photo, side)) < 1e-5]
    print(f"{name:22} unchanged (below 1e-5) for pieces of", same)

# %% [markdown]
# The ViT without positions cannot see the order of its patches (lesson 03). The convolutions can, because their windows reach over
# the cuts. Here the bias is turned round: for the ViT *no* order is built in, and for the ResNet neighbourhood is.
#
# ## 4. Who wins on your machine?
#
# Now both learn. In this match both get about the same **minutes**: a trial of five steps shows how fast a model is,
# and then it trains as many epochs as fit into the budget. A trial so short is rough: read the seconds that each one
# really took. Each has the recipe that suits it, with the same augmentation (crop and flip). A third one takes part
# out of curiosity: the ViT without positions.

# %% tags=["nbval-ignore-output"]
from vit_course.train import train

everything = load_dataset("auto")
part = everything.subset(
    min(profile.pick(smoke=320, cpu=5_000, gpu=50_000), len(everything.train_images)),
    min(profile.pick(smoke=200, cpu=2_000, gpu=10_000), len(everything.test_images)),
)
budget = profile.pick(smoke=0.5, cpu=40, gpu=60)  # seconds for each model
vit_name, resnet_name = profile.pick(
    smoke=("Nano/8", "resnet-small"), cpu=("Nano/8", "resnet-small"), gpu=("Ti/4", "resnet18")
)
batch_size, vit_rate = profile.pick(smoke=64, cpu=64, gpu=512), profile.pick(smoke=2e-3, cpu=2e-3, gpu=1e-3)
vit_recipe = replace(RECIPES["smoothing"], batch_size=batch_size, lr=vit_rate, quiet=True)
resnet_recipe = replace(RECIPES["resnet"], batch_size=batch_size, quiet=True)
print(part)
print(f"profile {profile.name}: about {3 * budget * 1.2 / 60:.1f} minutes")


def train_for(seconds, model_name, recipe, **options):
    """Train a fresh model for about so many seconds, and return it with its history."""
    sample = part.subset(5 * batch_size)
    for _ in range(2):  # the first steps of a process are slow, so the second trial counts
        trial = train(build_model(model_name, part, **options), sample, replace(recipe, epochs=1))
    epoch = trial.seconds * len(part.train_images) / len(sample.train_images)
    torch.manual_seed(0)
    model = build_model(model_name, part, **options)
    return model, train(model, part, replace(recipe, epochs=max(1, int(seconds / epoch))))


contest = {
    "ViT": (vit_name, vit_recipe, {}),
    "ResNet": (resnet_name, resnet_recipe, {}),
    "ViT without positions": (vit_name, vit_recipe, {"pos_embed": "none"}),
}
trained = {}
for name, (model_name, recipe, options) in contest.items():
    trained[name], history = train_for(budget, model_name, recipe, **options)
    epochs = history.config["epochs"]
    flops = 3 * forward_flops(trained[name], part) * epochs * len(part.train_images)
    print(
        f"{name:22} {history.seconds:5.1f} s, {epochs:3} epochs, {flops / 1e12:7.2f} TFLOP, "
        f"accuracy {history.test_accuracy:.1%}"
    )

# %% [markdown]
# One seed, a small data set, a minute: this is a look, not a result. But you have three trained models, and can ask them the
# question of section 3 again. Does a *trained* model care about a shift?
#
# **Your task.** Write `accuracy_under_shift`. `evaluate(model, images, labels, stats)` returns (accuracy, loss). It normalises the
# pictures and puts the model into evaluation mode. So your work is to give it the right pictures.

# %% exercise="vit_course.experiments.probes:accuracy_under_shift" difficulty=2 minutes=8 hint="A loop over `shifts`. In each round: move the untouched pictures, score them, and write the accuracy into a dictionary under the number of pixels." hint2="One round is `accuracy, _ = evaluate(...)`, where the second argument is `shift(images, pixels)`. Do not overwrite `images`, else the shifts add up."
from vit_course.experiments.probes import accuracy_under_shift

accuracy_under_shift = check(accuracy_under_shift)

# %% tags=["nbval-ignore-output"]
tests = part.test_images, part.test_labels, part.channel_stats()
under_shift = {name: accuracy_under_shift(model, *tests, (0, 1, 2, 4, 8)) for name, model in trained.items()}
figure = plots.seed_curves(
    {name: {s: [100 * a] for s, a in found.items()} for name, found in under_shift.items()},
    f"Trained on your machine for {budget:g} seconds each, then shifted",
    "shift in pixels",
    "test accuracy in percent",
)
plots.show(figure, "Test accuracy of the three models over the shift, from 0 to 8 pixels.")
for name, found in under_shift.items():
    lost = 100 * (found[0] - found[4])
    print(f"{name:22} {found[0]:.1%} untouched, {lost:+.1f} points lost at 4 pixels")

# %% [markdown]
# Training used random crops, which move the pictures by up to 4 pixels. So all three have *practised* small shifts. Augmentation
# teaches what is not built in; that is one reason why a ViT needs more of it.
#
# ## 5. What do the recorded runs say?
#
# A longer match belongs to the course: several seeds for each model, run once and recorded. The next cells read the records. All
# numbers, and all sentences about who is ahead, come from there.


# %% tags=["nbval-ignore-output"]
from vit_course.experiments.records import caption, load_records


def mean(values):
    return sum(values) / len(values)


def by_step(records):
    """Sort records by what was trained: a dictionary from step to its records, one for each seed."""
    found = {}
    for record in records:
        found.setdefault(record["step"], []).append(record)
    return found


def verdict(results):
    """Say who is ahead, by how many points, and whether the seeds agree; `results` maps two names to accuracies."""
    (winner, high), (_, low) = sorted(results.items(), key=lambda item: -mean(item[1]))
    text = f"{winner} is ahead by {100 * (mean(high) - mean(low)):.1f} points: "
    if min(len(high), len(low)) < 2:
        return text + "one seed, so nobody knows how much of it is chance"
    if min(high) > max(low):
        return text + "each of its seeds is above each of the other's"
    return text + "the seeds of the two overlap, so this decides nothing"


comparison = by_step(load_records("comparison"))
complete = {"vit", "resnet"} <= comparison.keys()
labels = {"vit": "ViT", "resnet": "ResNet"}
if complete:
    print(caption([record for runs in comparison.values() for record in runs]))
    print("\nmodel                  parameters    GFLOP  total PFLOP  epochs  minutes  pictures/s  accuracy")
    for step in labels:
        runs = comparison[step]
        first, scores = runs[0], [r["test_accuracy"] for r in runs]
        seconds = mean([r["seconds"] for r in runs])
        pictures = first["training_flops"] / (3 * first["forward_flops"])
        name = f"{labels[step]} ({first['model']})"
        print(
            f"{name:21} {first['parameters']:11,} {first['forward_flops'] / 1e9:8.4f} "
            f"{first['training_flops'] / 1e15:12.4f} {first['config']['epochs']:7} {seconds / 60:8.1f} "
            f"{pictures / seconds:11,.0f}  {mean(scores):.1%}, {len(runs)} seeds: "
            + " ".join(f"{score:.1%}" for score in scores)
        )
    print("\n" + verdict({labels[s]: [r["test_accuracy"] for r in comparison[s]] for s in labels}))
else:
    print("No recorded comparison is here yet. `python -m vit_course experiments comparison` makes one.")

# %% [markdown]
# Now take your list from section 1. Is *our* comparison fair? Not in every point:
#
# - Both models see the same pictures for the same number of *epochs*. So minutes and FLOPs differ. The table shows both, and you
#   must read the accuracy beside them.
# - Each model has a recipe of its own. The next cell prints every setting in which they differ. If augmentation is among them, then
#   point b speaks about us too.
# - The settings of both come from common practice and a few trials, not from an equal, large search.
# - The last epoch is reported, not the best, and the test pictures are scored once. All seeds are shown.
# - "Each of its seeds is above each of the other's" is weaker than it sounds. Take two settings that are equally good,
#   with three seeds each. Of the 20 ways to deal six results out, 2 separate the two completely: one case in ten, by
#   chance.
# - If the caption names a seed for the subset, all runs drew the same pictures. Their spread then leaves out *which*
#   pictures were drawn. The fewer pictures, the more this matters: keep it in mind in the next section.


# %% tags=["nbval-ignore-output"]
def flat(settings):
    """Lay nested settings out in one dictionary."""
    inner = {f"augment {k}": v for k, v in (settings.get("augment") or {}).items()}
    return {k: v for k, v in settings.items() if k not in ("augment", "seed")} | inner


if complete:
    settings = {step: flat(comparison[step][0]["config"]) for step in labels}
    print(f"{'setting':28} {'ViT':>12} {'ResNet':>12}")
    for key, value in settings["vit"].items():
        if value != settings["resnet"].get(key):
            print(f"{key:28} {value!s:>12} {settings['resnet'].get(key)!s:>12}")
else:
    print("no recorded comparison yet")

# %% [markdown]
# If the records are of the CPU size, remember that they are *small*: tiny models, part of the pictures, a few epochs. They show
# how to compare. They do not settle which family is better.
#
# ## 6. Does the winner change with the amount of data?
#
# What a model assumes, it need not learn. So one expects: with *few* pictures the inductive bias of the convolution is worth most, and
# with more pictures the gap closes. To test it, train both on 1, 5, 10, 25, 50 and 100 percent. Fewer pictures are repeated more
# often, so that all runs see roughly as many (the cell prints how many). Otherwise a small fraction would also mean less
# training, and we could not tell the two causes apart.

# %% tags=["nbval-ignore-output"]
fractions = load_records("fractions")
curves = {"ViT": {}, "ResNet": {}}
for record in fractions:
    name = labels.get(record["step"].split("-")[0], record["step"])
    curves.setdefault(name, {}).setdefault(100 * record["fraction"], []).append(100 * record["test_accuracy"])
both = sorted(curves["ViT"].keys() & curves["ResNet"].keys())
if both:
    print(caption(fractions))
    shown = [r["training_flops"] / (3 * r["forward_flops"]) for r in fractions]
    print(f"pictures seen by a run, repeats counted: {min(shown):,.0f} to {max(shown):,.0f}")
    for percent in both:
        found = {name: [value / 100 for value in curve[percent]] for name, curve in curves.items()}
        print(
            f"{percent:5g} %: ViT {mean(found['ViT']):.1%}, ResNet {mean(found['ResNet']):.1%}; {verdict(found)}"
        )
    gaps = [mean(curves["ResNet"][percent]) - mean(curves["ViT"][percent]) for percent in both]
    figure = plots.seed_curves(
        curves,
        f"ResNet minus ViT: {gaps[0]:+.1f} points at {both[0]:g} %, {gaps[-1]:+.1f} at {both[-1]:g} %",
        "share of the training pictures in percent",
        "test accuracy in percent",
        log=True,
    )
    plots.show(
        figure, "Test accuracy of ViT and ResNet over the share of training pictures; a dot for each seed."
    )
else:
    print("No recorded fractions are here yet. `python -m vit_course experiments fractions` makes them.")

# %% [markdown]
# Read such a curve in three steps. Who is ahead on the left, with little data? Does the distance between the lines shrink to the
# right? And is it larger than the spread of the seeds? If there is one seed for each point, the third question has no answer, and a
# distance of a point or two means nothing.
#
# What if the distance *grows*? Then look at the budget before you doubt the idea. All runs see the same number of pictures. If this is too
# few for the ViT to learn even the pictures that it trains on, then more data cannot help it: it is short of steps. A gap that should
# close with data shows itself only where training is long enough.
#
# This happened in our first records (their caption says "subset of 10,000"). The ResNet's lead is smallest with 1 % of
# the pictures and grows from there. Each run was shown about 100,000 pictures. That was enough to learn a hundred of
# them by heart: with 1 % *both* models reach 100 % on their training pictures (cropped and flipped). With 100 % the ViT
# gets 40 % of them right, the ResNet 70 %. So these runs measure how fast a model learns, as much as what its
# assumptions are worth.
#
# ## 7. What have the trained models become?
#
# The recorded models have also been shown shifted pictures, and pictures cut into pieces and shuffled.

# %% tags=["nbval-ignore-output"]
probed = {s: [r["probes"] for r in comparison.get(s, []) if r.get("probes")] for s in labels}
if complete and all(probed.values()):
    for kind, title, xlabel in [
        ("shift", "Recorded models, shifted pictures", "shift in pixels"),
        ("shuffle", "Recorded models, shuffled pieces", "side of a piece in pixels (the largest: untouched)"),
    ]:
        series = {}
        for step, probes in probed.items():
            series[labels[step]] = {int(x): [100 * p[kind][x] for p in probes] for x in probes[0][kind]}
        figure = plots.seed_curves(series, title, xlabel, "test accuracy in percent", log=kind == "shuffle")
        plots.show(figure, f"Test accuracy of ViT and ResNet over the {xlabel}; a dot for each seed.")
    for step, probes in probed.items():
        base = mean([p["shift"]["0"] for p in probes])
        lost = [100 * (base - mean([p["shift"][s] for p in probes])) for s in ("2", "4", "8")]
        mixed = mean([p["shuffle"]["8"] for p in probes])
        print(
            f"{labels[step]:6} {base:.1%} untouched; points lost by a shift of 2, 4, 8 pixels: "
            f"{', '.join(f'{value:.1f}' for value in lost)}; with pieces of 8x8 shuffled: {mixed:.1%}"
        )
else:
    print("no recorded probes yet")

# %% [markdown]
# Pieces of 8x8 pixels are the patches of the small ViT, Nano/8. A model that kept its accuracy on shuffled pieces would look at pieces
# alone, like a bag of words. A model that falls to guessing (one tenth) needs the arrangement. Which is the case here?
#
# ## 8. What did the paper find?
#
# The paper could ask the question of section 6 at a scale that no class can reach. In its section 4.3 the models are
# pre-trained on 9, 30, 90 and 300 million pictures of JFT, a data set inside Google (Figure 4). With 9 million, ResNets
# are better than ViTs of similar cost. From 90 million on, ViTs are. ResNets are good early and then level off. (These
# accuracies are not from fine-tuning. They are *linear few-shot* accuracies: the body stays as it is, and a linear
# classifier gets a few labelled pictures of each class. And each run was stopped early, where its validation accuracy
# was best.) The authors' words for it (section 1): large scale training trumps inductive bias.
#
# Why do the paper and our first records say opposite things? The paper's models train long enough to overfit a small
# set. ViTs overfit more than ResNets, the authors write, so there the convolution helps. Ours have too few steps to use
# the larger sets.
#
# The size of the ViT matters as well. The paper pre-trains several sizes on three data sets and fine-tunes them on
# ImageNet (Figure 3; the numbers are in Table 5, in percent):
#
# | pre-trained on | pictures | ViT-B/16 | ViT-L/16 |
# |---|---|---|---|
# | ImageNet | 1.3 million | 77.91 | 76.53 |
# | ImageNet-21k | 14 million | 83.97 | 85.15 |
# | JFT | 300 million | 84.15 | 87.12 |
#
# Base has 86 million parameters, Large 307 million (Table 1). **Question.** You have one million pictures and much
# compute. Should you take the larger model? And what does Base gain from 300 million pictures instead of 14 million,
# and what does Large?
#
# <details><summary>Answer</summary>
#
# With ImageNet alone the larger model is *worse*, although its regularisers were tuned. More data turn the order round.
# From 14 to 300 million pictures Base gains .2 points and Large 2.0: a small model is full, a large one is not. So
# large models need large data, and large data need large models. (On JFT this Large trained 14 epochs and Base 7. With
# 7 epochs Large has 86.30, in Table 6: still ahead.)
#
# </details>
#
# Its main result is Table 2: the best models, pre-trained and then fine-tuned on many tasks. The last row is the cost
# of pre-training in **TPUv3-core-days**: one core of a certain chip of Google's for one day. (I21k is ImageNet-21k, 14
# million pictures, and public. BiT-L is a very wide ResNet. Noisy Student is a large convolutional network, an
# EfficientNet: it learned from ImageNet, and from labels that a model before it gave to 300 million other pictures.
# ReaL is ImageNet with better labels. VTAB is a set of 19 tasks in three groups, natural, specialised and structured;
# Figure 2 shows the groups.)

# %%
from vit_course.experiments.probes import COST, PAPER_TABLE, PAPER_TASKS

print(f"{'':16}", *(f"{name.split(' (')[0]:>15}" for name in PAPER_TABLE))
for task in PAPER_TASKS:
    row = [PAPER_TABLE[name][task] for name in PAPER_TABLE]
    print(f"{task:16}", *(f"{'-' if value is None else value:>15}" for value in row))

# %% [markdown]
# What the cell leaves out: the paper prints a ± behind its means, the standard deviation of three fine-tuning runs. On
# ImageNet it is small: 87.76 ± .03 for ViT-L/16 on JFT, 87.54 ± .02 for BiT-L. On VTAB it is not: 76.28 ± .46 and 76.29
# ± 1.70. For Noisy Student on ImageNet the paper gives two numbers, 88.4 / 88.5; the second is a slightly better result
# from a later paper.
#
# "ViT is better" hides two questions: better by how much, and at what cost?
#
# **Your task.** Write `gain_and_cost`, which answers both for any two models of such a table. Two details: a missing accuracy makes
# the gain `None`, and the cost is a quotient. `COST` is the name of the row with the cost.

# %% exercise="vit_course.experiments.probes:gain_and_cost" difficulty=1 minutes=6 hint="`table[first][task]` is one number of the table. Subtract accuracies, divide costs. Test for `None` before you subtract." hint2="Put both accuracies into variables. If one of them `is None`, the gain is None, else their difference. (`if accuracy:` would also take 0 for missing.) The cost, `table[first][COST]` over that of the second, is known in both cases."
from vit_course.experiments.probes import gain_and_cost

gain_and_cost = check(gain_and_cost)

# %%
bit = "BiT-L (ResNet152x4), JFT"
for vit in ("ViT-H/14, JFT", "ViT-L/16, JFT", "ViT-L/16, I21k"):
    print(f"{vit} against {bit}:")
    for task in ("ImageNet", "CIFAR-10", "VTAB"):
        gain, cost = gain_and_cost(PAPER_TABLE, vit, bit, task)
        print(f"   {task:9} {gain:+.2f} points at {cost:.2f} times the cost")
gain, cost = gain_and_cost(PAPER_TABLE, "ViT-H/14, JFT", "ViT-L/16, JFT", "ImageNet")
print(f"ViT-H/14 against ViT-L/16, both JFT: {gain:+.2f} points on ImageNet at {cost:.1f} times the cost")

figure = plots.named_points(
    {name: (row[COST], row["ImageNet"]) for name, row in PAPER_TABLE.items()},
    "ViT pre-trained on JFT: as good as the best convolutions, for less compute",
    "cost of pre-training in TPUv3-core-days",
    "ImageNet accuracy in percent",
)
plots.show(
    figure,
    "Five models, ImageNet accuracy over the cost: the ViTs lie between 230 and 2,500 core-days at 85.3 to 88.6 percent, "
    "the two convolutional ones at about 10,000 and 12,000 at 87.5 and 88.4.",
)

# %% [markdown]
# Read the gains with the ± above. ViT-L/16 against BiT-L on VTAB: a difference of .01, where one of the two scatters by
# 1.70, is no difference. On ImageNet .22 is several times the ±. (The ± holds fine-tuning alone: each model was
# pre-trained once.)
#
# Look at two rows. ViT-L/16 on JFT is about as good as BiT-L, at a fifteenth of the cost. *This* is the paper's point. But the
# same ViT-L/16 with 14 million pictures instead of 300 million is behind: here the data decide, not the architecture. And
# is the table fair? Ask your list. The models come from different papers, with recipes of their own. Each result is a mean
# over three fine-tuning runs of one pre-trained model. The cost is shown, so you can judge.
#
# ## 9. What may we conclude?
#
# A small course **can** show, on its own data: which of two models is ahead at this size, budget and recipe, and how far seeds scatter;
# what an architecture assumes, exactly, as in section 3; how the gap moves when the data grow from hundreds to tens of
# thousands of pictures.
#
# It **cannot** show: what happens at millions of pictures; that one family is better; that another recipe would not turn
# the order round. "ResNets win on CIFAR-10 from scratch" and "ViTs win at scale" are both true, and they do not contradict
# each other.
#
# **Your next step.** Give the ViT of section 4 twice the seconds, or half of the pictures, or crops of 0 pixels
# (`augment=AugmentConfig(flip=0.5)` from `vit_course.augment`). Write down first what you expect of the shift curve.
#
# ## Check yourself
#
# **1.** ViT and ResNet train for the same number of epochs. Is the budget equal? (a) yes (b) only if they have equally many parameters
# (c) not necessarily: the cost of an epoch differs
#
# <details><summary>Answer</summary>
#
# **(c)** Equal epochs are equal pictures. FLOPs and minutes per picture differ. (b): a convolution uses each weight at
# many places, so parameters say little about the cost.
#
# </details>
#
# **2.** Which layer is equivariant to a shift by 6 pixels, away from the border? (a) a convolution of stride 1 (b) a patch embedding with P = 4 (c) one
# with P = 8
#
# <details><summary>Answer</summary>
#
# **(a)** 6 is no multiple of 4 or of 8, so in (b) and (c) the content is cut differently.
#
# </details>
#
# **3.** Three seeds give 91.2, 91.9 and 91.5 %, three seeds of another model 91.4, 91.8 and 92.0 %. What do you report? (a) the second wins, 92.0 against 91.9 (b) both
# means, all seeds, and that they overlap (c) the mean of all six
#
# <details><summary>Answer</summary>
#
# **(b)** (a) compares the best draws: point g. (c) throws the question away.
#
# </details>
#
# **4.** A model keeps its accuracy when patches are shuffled. What follows? (a) it is invariant to shifts of one pixel (b) it does not use where patches
# are (c) it is broken
#
# <details><summary>Answer</summary>
#
# **(b)** (a): a shift of one pixel changes the content of every patch. (c): it can still be right from the pieces
# alone, if textures tell the classes apart.
#
# </details>
#
# **5.** On 1 % of the data the ResNet leads by 6 points, on 100 % by 1 point. Will the ViT be ahead at 1,000 %? (a) yes (b) nobody knows from these
# runs (c) no
#
# <details><summary>Answer</summary>
#
# **(b)** A gap that closes may cross zero or level off. The paper measured it at its own scale; our curve ends at 100 %.
#
# </details>
#
# ## Recap
#
# | where | ResNet-18, CIFAR stem | shape | ViT-Ti/4 | shape |
# |---|---|---|---|---|
# | picture | | (B, 3, 32, 32) | | (B, 3, 32, 32) |
# | first layer | 3x3, stride 1 | (B, 64, 32, 32) | 4x4, stride 4 | (B, 64, 192) |
# | middle | stages of 2 blocks | (B, 128, 16, 16), (B, 256, 8, 8) | 12 blocks | (B, 65, 192) |
# | end | stage 4 | (B, 512, 4, 4) | final norm | (B, 65, 192) |
# | read-out | average over places | (B, 512) | CLS token | (B, 192) |
# | logits | head | (B, 10) | head | (B, 10) |
#
# - Fair means: equal where possible, shown where not. Data, effort, budget, choice, chance.
# - Equivariant: the result moves along. Invariant: it stays. A stride of P allows it for multiples of P.
# - The paper: an inductive bias helps when data are few, and at its scale data win. Runs that are short of steps can
#   show the opposite: section 6.
# - A result without spread, machine and data is half a result.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), sections 4.2 to 4.4, Figures 2 to 4, Tables 2 and
#   5.
# - Xie et al., *Self-training with Noisy Student improves ImageNet classification* (2020).
# - He et al., *Deep Residual Learning for Image Recognition* (2016), section 4.2 for CIFAR-10.
# - Zhang, *Making Convolutional Networks Shift-Invariant Again* (2019): why strides break the equivariance.
# - Raghu et al., *Do Vision Transformers See Like Convolutional Neural Networks?* (2021).
