# ---
# title: "Use a trained one"
# promise: "Use a trained ViT on new images, including your own photos."
# part: "IV. Now use it"
# map: [pool, head]
# recall:
#   "02.3": "A model puts its CLS token at the end, with `torch.cat([tokens, cls], dim=1)`, and reads index 0 before the head. What is the consequence?"
#   "09.2": "You plot the filters of a public model and see only noise. What does this mean?"
#   "12.2": "A trained body gets a new head whose weights are all zero. What learns in the very first step?"
# goals:
#   - "Load a trained ViT and ask it about your own photos."
#   - "Teach it new classes with twenty photos, by a probe, by LoRA or by tuning all of it, beside a control."
#   - "Write a segmentation head, which says where a thing is."
#   - "Ship a model: export it, make it smaller, and measure what that costs."
#   - "Choose a public model for a task, and load its weights with everything that belongs to them."
# ---

# %% [markdown]
# ## 1. What does a trained model give me?
#
# You have twenty photos of keys, leaves and mugs, and you want a model that tells them apart. Lessons 08 and 12 showed that a ViT
# with random weights learns little from few images. So hardly anybody trains one from scratch. People download a trained model, a **backbone**,
# adapt it, and ship it. In this lesson you do all three.
#
# The cells below load our backbone and ask it about two photos, a cat and one of your own. A folder of photos needs the
# places `train/<class>/` and `test/<class>/`. Put the name of your folder into `mine`. Otherwise the cell makes thirty
# **drawn photos**, which are drawings of keys, leaves and mugs on pieces of a portrait. Choose your test photos
# *before* you look at any result.

# %% fold
import copy
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from textwrap import fill

import torch
import torch.nn.functional as F
from torch import nn

from vit_classroom import check, plots, table
from vit_classroom.evidence.bodies import untrained
from vit_classroom.evidence.shipped_forms import measure_forms, shipped_forms
from vit_classroom.sample_photos import LIGHTS, draw_photos, in_coloured_light, write_photos
from vit_classroom.exhibits.two_towers import fit_towers, towers_diagram
from vit_classroom.numbers import number, percent
from vit_classroom.profiles import get_profile
from vit_course.data import load_dataset, shapes10
from vit_course.data.locate import is_picture, resolve_root
from vit_course.extensions.backbone import load_backbone
from vit_course.extensions.trained import load_trained, write_trained
from vit_course.extensions.transfer import (
    add_low_rank,
    merge_low_rank,
    normalised_as,
    replace_head,
)
from vit_course.inference import Reader, fit_probe, fit_standardised, overlap, share_interval
from vit_course.train import TrainConfig, evaluate, train
from vit_course.training.paths import PHOTOS
from vit_course.vit import create_vit, vit_flops

# %% tags=["nbval-ignore-output"]
profile = get_profile()
mine = None  # your own: "data/mine/photos"
folder = Path(mine or Path(tempfile.mkdtemp()) / "photos")
if not mine:
    write_photos(folder)

# %% tags=["nbval-ignore-output"]
trained = load_trained("cifar-vit")
photo_files = sorted(path for path in resolve_root(folder).rglob("*") if is_picture(path.name))
photo_files = [path for path in photo_files if "test" in path.parts] or photo_files
files = [PHOTOS / "cat.jpg", photo_files[0]]
for file, shares in zip(files, trained.predict(files), strict=True):
    print(file.name, "->", trained.classes[shares.argmax()], percent(shares.max().item()))
print(fill(f"the classes that it knows: {', '.join(trained.classes)}", 90))

# %% [markdown] claim="trained.classes[trained.predict(files)[0].argmax()] == 'cat' and not {'key', 'leaf', 'mug'} & set(trained.classes)" always
# The cat is right. The second answer cannot be right, because the model has only ten classes, and yours are not among them. What
# you want from the model is not its ten scores. It is what the model computes *before* its head.
#
# `load_backbone` gives you that. It keeps the weights together with everything that belongs to them, the mean and the deviation of
# their training images and the size that they read.
#
# > **Trap.** Normalisation goes with the weights. A model that was trained on pixels from -1 to 1 and gets ImageNet's mean and
# > deviation does not complain. It is only worse.

# %% tags=["nbval-ignore-output"]
file = os.environ.get("VIT_COURSE_BACKBONE")  # public weights, see section 6
backbone = load_backbone(file, img_size=224) if file else load_backbone("cifar-vit")
if file:
    backbone = backbone.at(8 * backbone.model.patch_embed.patch_size[0])  # 8x8 patches, to be quick


def read_photos(size):
    """Return the photos in this size, with the normalisation of the weights."""
    return normalised_as(load_dataset(folder, image_size=size), backbone.mean, backbone.std)


photos = read_photos(backbone.img_size)
tokens = backbone.tokens(photos.test_images[:4])
print(f"{backbone.family}, images of {backbone.img_size}, a grid of {backbone.grid_size} patches")
print("tokens after the last norm:", tuple(tokens.shape))
print("what the head reads, y:", tuple(backbone.read(tokens).shape))

# %% fold tags=["nbval-ignore-output"]
sharp = read_photos(96)
sheets = [
    plots.image_grid(images[: max(1, len(images) // 5) * 5][:20], columns=min(5, len(images)))
    for images in (sharp.train_images, sharp.test_images)
]
figure = plots.image_row(sheets, ["to learn from", "to test"], "The photos of our task", 3.4)
plots.show(
    figure,
    "Two sheets of small photos, those to learn from and those to test. In the drawn ones a key, a leaf or a mug is on a dark "
    "ground.",
)

# %% [markdown]
# Two things can be taken from the tokens. The vector y, which the head reads, answers questions about *what* is in
# the image (sections 2 and 3). The patch tokens answer questions about *where* it is (section 4). `Reader` puts y and
# the mean of the patch tokens side by side. These 2D numbers are the **features** of an image.
#
# ## 2. Is the answer already in its features?
#
# Perhaps the features separate keys from mugs although nobody asked for it. The cheapest test is a **linear probe**, one linear
# layer on features that stay as they are. Its scores are $f W^\top + b$ with features f (B, 2D) and W (K, 2D).
# It trains in a second, because the features are computed **once**. Three things go wrong in practice:
#
# - *Training mode.* With dropout on, every feature is noisy. Call `eval()`, and leave the model in the mode in which it was.
# - *Features in every step.* They never change, so computing them again costs hours.
# - *Peeking.* Features are **standardised**, which means that you subtract the mean and divide by the deviation. Both come from
#   the *training* images.
#
# **Your task.** Write `probe`. The linear layer is fitted for you, by `fit`.

# %% exercise="vit_course.inference:probe" difficulty=2 minutes=8 hint="Follow this order. Keep the mode of the encoder, switch to evaluation, compute both features without gradients, give the old mode back, take mean and deviation of the training features, fit, and score the test features." hint2="`encoder.training` says in which mode it is, and `encoder.train(...)` takes the answer. `clamp` keeps a deviation from being 0. `fit` returns a layer. On what do you call it?"
from vit_course.inference import probe

probe = check(probe)

# %% [markdown]
# A probe alone says nothing about the training of the backbone. So two controls get the same probe, the raw pixels and the same
# backbone with new random weights. Ten test photos are few. For the drawn photos we can draw as many more as we like.
#
# > **Predict.** The backbone has never seen a key or a mug. How many of the ten will be right? How far is it ahead of raw pixels?

# %% tags=["nbval-ignore-output"]
torch.manual_seed(0)
more, truth = photos.test_images, photos.test_labels
if not mine:
    more, truth = draw_photos(profile.pick(smoke=30, cpu=300, gpu=300), backbone.img_size, seed=1)
reader, control = Reader(backbone), replace(backbone, model=untrained(backbone.model))


def share(right, count):
    """Write a share with its 95 % interval."""
    return f"{percent(right / count)} ({' to '.join(percent(end) for end in share_interval(right, count))})"


probed, rows, ten = {}, [], len(photos.test_labels)
for name, encoder in (
    ("raw pixels", nn.Flatten()),
    ("never trained", Reader(control)),
    ("trained backbone", reader),
):
    parts = photos.train_images, torch.cat([photos.test_images, more])
    learn, ask = (part / 255 for part in parts) if name == "raw pixels" else parts
    answers = probe(encoder, learn, photos.train_labels, ask).argmax(dim=1)
    right = answers == torch.cat([photos.test_labels, truth])
    of_ten, probed[name] = right[:ten].sum().item(), right[ten:].sum().item()
    rows.append([name, f"{of_ten} of {ten}", share(of_ten, ten), share(probed[name], len(truth))])
table(rows, ["features", "right", "test photos (%)", f"{len(truth)} photos (%)"])

# %% [markdown] claim=["share_interval(probed['trained backbone'], 300)[0] > max(share_interval(probed[name], 300)[1] for name in ('raw pixels', 'never trained'))", "of_ten == 8 and int(rows[1][1].split()[0]) > of_ten"]
# With 300 photos the trained backbone is clearly ahead of both controls. A part of the answer is in its features already,
# although it was trained on airplanes and frogs.
#
# Look at the ten test photos again. They put the model that was *never trained* first, and this is luck. One photo is
# ten points, and all three intervals overlap. So report "8 of 10", and never "80 %" without its interval, and do not
# choose between models by ten photos.
#
# ## 3. How much of the model should learn?
#
# A probe cannot change the features. What if the whole backbone learns, or a little of it? We compare four ways, all with the
# same twenty photos.
#
# - **Probe.** Only one linear layer learns.
# - **LoRA** (2106.09685). Every attention matrix W stays as it is and gets a small addition, $W + B A$. With W (D, D) and a rank
#   r of 8, A is (8, D) and B is (D, 8). B starts at zero, so the model starts unchanged. After the training the product is added to W.
# - **Full tuning.** All weights learn, at a small learning rate. The new head starts at zero (lesson 12).
# - **From scratch.** The same as full tuning, but the weights are random at the start. This is the control.
#
# How many numbers does LoRA train beside the head? A layer from D to D needs $2 \cdot 8 \cdot D$ of them instead of
# $D^2$, and with D = 192 this is 3,072 instead of 36,864. Queries, keys and values come from a single matrix (3D, D),
# which needs $8 \cdot (D + 3D)$.
#
# > **Predict.** Sort the four ways by accuracy. How far apart are full tuning and the control, which have the same number of
# > weights, photos and steps?

# %% tags=["nbval-ignore-output"]
classes = len(photos.classes)


def tune(way, seed=0):
    """Train in one of the ways; return the model, the numbers that learn, seconds, and right answers."""
    torch.manual_seed(seed)
    begin = time.perf_counter()
    model = untrained(backbone.model) if way == "from scratch" else copy.deepcopy(backbone.model)
    if way == "probe":
        layer = fit_probe(reader, photos.train_images, photos.train_labels)
        learning, right = sum(p.numel() for p in layer[1].parameters()), layer(more).argmax(dim=1) == truth
        return layer, learning, time.perf_counter() - begin, right.sum().item()
    replace_head(model, classes)
    if way == "LoRA":
        add_low_rank(model, rank=8)
    learning = sum(p.numel() for p in model.parameters() if p.requires_grad)
    rate = 5e-3 if way == "LoRA" else 5e-4
    epochs = profile.pick(smoke=1, cpu=15, gpu=15)
    train(
        model,
        photos,
        TrainConfig(
            epochs=epochs, batch_size=min(5, len(photos.train_images)), lr=rate, seed=seed, quiet=True
        ),
    )
    seconds, model = time.perf_counter() - begin, merge_low_rank(model.cpu()).eval()
    return (
        model,
        learning,
        seconds,
        round(evaluate(model, more, truth, photos.channel_stats())[0] * len(truth)),
    )


ways = ("from scratch", "probe", "LoRA", "full tuning")
tuned = {way: tune(way) for way in ways}
rows = [
    [way, learning, f"{seconds / 60:.2f}", share(right, len(truth))]
    for way, (_, learning, seconds, right) in tuned.items()
]
table(rows, ["way", "numbers that learn", "minutes", f"{len(truth)} photos (%)"])

# %% fold tags=["nbval-ignore-output"]
shares = {way: 100 * tuned[way][3] / len(truth) for way in ways}
figure = plots.dots(
    {"twenty photos": (list(shares), list(shares.values()))},
    "What do twenty photos teach?",
    "test accuracy (%)",
)
axis = figure.axes[0]
axis.axvline(100 / classes, color="0.5", ls=":")
axis.text(100 / classes + 1, len(ways) - 0.6, "guessing", color="0.35", fontsize="small")
axis.set_xlim(0, 102)
plots.show(
    figure,
    "Test accuracy of the four ways as dots. On the drawn photos training from scratch is lowest, the probe is higher, LoRA and "
    "full tuning are near 100 %.",
)

# %% [markdown] claim=["tuned['full tuning'][3] > 285 and 180 < tuned['from scratch'][3] < 240", "tuned['LoRA'][3] > tuned['probe'][3] + 15 and tuned['LoRA'][3] > tuned['from scratch'][3] + 45", "tuned['LoRA'][1] < 0.04 * tuned['full tuning'][1]"]
# **Full tuning of the trained backbone gets nearly every drawn photo right. The same training from scratch gets about two of three.**
# Both have the same number of weights, the same twenty photos and the same steps. Only the start differs, so the difference is
# what somebody else has paid for.
#
# LoRA trains three percent of the numbers and is far ahead of the probe too. (LoRA takes a rate ten times as large as
# full tuning does.) It is popular for large models, because an addition is a small file and its optimiser needs little
# memory. On this small model it saves little time.
#
# These are drawn photos. On yours the order may differ. Probe first, then tune at a small rate, and keep what is
# better on held-out images. Which way is best for your photos? You have just measured it, but ten test photos show
# only large differences.

# %% [markdown]
# ## 4. Can it show me where the thing is?
#
# So far an image got one answer. Now *every pixel* gets one, thing or ground. This is **segmentation**, and the result
# is a **mask**. The smallest head for it is one linear layer that reads every patch token.
#
# The scenes are made to mislead. In every second one all colours are inverted, so a thing may be light on dark ground or dark on
# light ground. A layer that reads colour alone is then right in one half of the scenes and wrong in the other. It can do no
# better than to answer "ground" everywhere.
#
# Step one is a label for every patch. A mask has a class for every pixel, (B, H, W), and a patch gets the class that most of its
# pixels have.
#
# **Your task.** Write `patch_labels`.

# %% exercise="vit_course.inference:patch_labels" difficulty=1 minutes=4 hint="Cut the mask into patches, as in lesson 01, and find the most frequent class in each. For which function of PyTorch is a class a plain number, and for which a row of zeros with a single one?" hint2="`F.one_hot` makes shares of the classes of each pixel. What is their average over a patch? The largest share wins. Or arrange the pixels of a patch along one axis, and look for `mode` in the documentation of tensors."
from vit_course.inference import patch_labels

patch_labels = check(patch_labels)

# %% [markdown]
# Step two is the way back. The layer gives K scores for each patch, (B, N, K). They form a grid, so they can be treated as a small
# image with K channels and enlarged to the size of the photo, as you enlarged positions in lesson 12.
#
# **Your task.** Write `segment`. Tokens are (B, T, D), and the patches are the last N of them.

# %% exercise="vit_course.inference:segment" difficulty=2 minutes=6 hint="Three steps. Take the patch tokens and let the layer score them. Bring the scores into the shape of an image, (B, K, rows, columns). Enlarge them with `F.interpolate`." hint2="The classes come last, and channels have to come second. Which axis has to move before the N patches become rows and columns? `F.interpolate` takes a size and a mode, and for images its linear mode is called 'bilinear'."
from vit_course.inference import segment

segment = check(segment)

# %% [markdown]
# The score is the **IoU** (intersection over union). It is the number of pixels that are in both masks, divided by
# the number of pixels that are in at least one of them, so 100 % means that the masks are equal. We read the images
# at twice their size, to have four times as many patches.
#
# > **Predict.** The argument above gives the IoU of mean colour. What is that of a backbone that was never trained,
# > and of the trained one?

# %% tags=["nbval-ignore-output"]
fine, raw = (b.at(tuple(2 * side for side in b.img_size)) for b in (backbone, control))
half = profile.pick(smoke=8, cpu=60, gpu=60)
scenes, _, things = draw_photos(2 * half, fine.img_size, seed=2, masks=fine.img_size)
scenes[1::2] = 255 - scenes[1::2]  # every second one inverted
masks = things.long()


def fit_and_segment(tokens):
    """Fit a layer to the tokens (2 * half, T, D) of the first half; return it, and the masks of the second half."""
    patches = tokens[:half, -fine.model.patch_embed.num_patches :]
    layer = fit_standardised(patches.flatten(0, 1), patch_labels(masks[:half], fine.grid_size).flatten())
    return layer, segment(layer, tokens[half:], fine.grid_size, fine.img_size).argmax(dim=1)


colour = F.adaptive_avg_pool2d(scenes.float(), fine.grid_size).flatten(2).mT  # (2 * half, N, 3)
read = {"mean colour": colour, "never trained": raw.tokens(scenes), "trained backbone": fine.tokens(scenes)}
found = {name: fit_and_segment(tokens) for name, tokens in read.items()}
ious = {name: overlap(mask, masks[half:], 1) for name, (_, mask) in found.items()}
table([[name, percent(iou)] for name, iou in ious.items()], ["tokens", "IoU of the thing (%)"])

# %% fold tags=["nbval-ignore-output"]
layer, found_masks = found["trained backbone"]
own = read_photos(fine.img_size).test_images[:3]
own_masks = segment(layer, fine.tokens(own), fine.grid_size, fine.img_size).argmax(dim=1)
shown = torch.cat([scenes[half : half + 4], own])
figure = plots.overlay_rows(
    shown,
    {"thing": torch.cat([found_masks[:4], own_masks]).float()},
    "Where is the thing? Four new scenes, three of the photos",
)
plots.show(
    figure,
    "Four new scenes and three photos in a row, and below each the pixels that the layer calls thing. On the drawn ones the mask "
    "covers most of the thing, whether it is light or dark, and misses thin parts such as a stem or a shaft.",
)

# %% [markdown] claim="ious['mean colour'] < 0.05 and ious['never trained'] < 0.2 and ious['trained backbone'] > 0.6"
# The layer on trained tokens finds most of the thing. Mean colour finds nothing, as the argument said. The backbone
# that was never trained finds next to nothing, and this shows that the training put "thing" into the tokens. No image
# that the *backbone* was trained on had a mask.
#
# The last three columns are photos of the task, and there is no mask to score them. Look for yourself. Answering for
# every place is called **dense prediction**. Depth is predicted in the same way.

# %% [markdown]
# ## 5. How do I give it to somebody else?
#
# Your colleague has a phone app, and no Python. First save the tuned model with everything that belongs to it.
# `write_trained` writes the folder that `train --out` writes, and `load_trained` reads it, so the lines of section 1
# work with *your* classes.

# %% tags=["nbval-ignore-output"]
run = Path(tempfile.mkdtemp()) / "run"
info = {
    **backbone.built_with_new_head(),
    "classes": photos.classes,
    "img_size": backbone.img_size,
    "mean": backbone.mean,
    "std": backbone.std,
}
write_trained(run, tuned["full tuning"][0], info)

trained = load_trained(run)
files = photo_files[::4][:5]
for file, shares in zip(files, trained.predict(files), strict=True):
    print(
        f"{file.parent.name}/{file.name} -> {trained.classes[shares.argmax()]} {percent(shares.max().item())}"
    )

# %% [markdown]
# The probabilities beside the three answers are far below 100 %, because the head started at zero and learned for few
# steps. Such a probability is not an accuracy.
#
# Now make it small and portable. **bfloat16** keeps 16 bits of every number. **ONNX** is a file format that phones,
# browsers and servers run without Python. Our file contains the normalisation too. The app still has to turn a photo
# upright, cut out its square and resize it. **int8** stores the large weights in 8 bits.
#
# > **Predict.** How many megabytes does each form need? Which one will be the fastest on your machine?

# %% tags=["nbval-ignore-output"]
few = slice(0, profile.pick(smoke=10, cpu=100, gpu=100))
forms = measure_forms(shipped_forms(trained, run), more[few], truth[few], repeats=3)
rows = [
    [
        row["form"],
        row["MB"],
        row["ms for one"],
        row["a second"],
        percent(row["accuracy"]),
        percent(row["agreement"]),
    ]
    for row in forms
]
columns = [
    "form",
    "MB",
    "ms for one image",
    "images a second",
    "test accuracy (%)",
    "same class as float32 (%)",
]
table(rows, columns, "measured on this machine, just now")

# %% [markdown] claim=["forms[1]['MB'] < 0.51 * forms[0]['MB'] and all(row['MB'] < forms[0]['MB'] / 3 for row in forms[3:])", "min(row['agreement'] for row in forms) > 0.9"]
# bfloat16 needs half of the megabytes, and int8 less than a third. The answers hardly change, but check it with *your* images before you
# ship. (Without the packages `onnx`, `onnxscript` and `onnxruntime` the ONNX rows are missing.)
#
# Is the smaller form also faster? Look at your own table, because this depends on the processor. A chip that has no arithmetic for
# 16 or 8 bits has to convert every number, and then the smaller model is the slower one. Also compare one image at a time with many
# together. A phone cares about the first number, a server about the second.
#
# The same from a terminal (`docs/use.md`): `python -m vit_course export RUN photos.onnx`.

# %% [markdown]
# ## 6. Which model should I take in 2026?
#
# Our backbone saw 50,000 small images. Public ones saw millions or billions of larger ones. Take the smallest model that does what you want.
#
# | you want | a model | how it was trained | the smallest, parameters | arXiv |
# |---|---|---|---|---|
# | features for nearly everything | DINOv2 with registers | without labels, 142 million images | S/14, 22 million | 2304.07193 |
# | the best dense features | DINOv3, a licence of its own | without labels, 1.7 billion images | S/16, 22 million | 2508.10104 |
# | classes from words, search by text | SigLIP 2 | images with texts | B/16, 93 million | 2502.14786 |
# | the same, also for video | Perception Encoder | images and videos with texts | T/16, 6 million | 2504.13181 |
# | masks from a click | SAM 2 | a billion masks, then videos | 39 million | 2408.00714 |
# | masks from words | SAM 3 | on top of a Perception Encoder | 850 million | 2511.16719 |
# | ImageNet's own classes | DeiT III | labels of ImageNet | S/16, 22 million | 2204.07118 |
# | a start for tuning with many labels | MAE | without labels (lesson 13) | B/16, 86 million | 2111.06377 |
#
# What does a size cost? The next cell counts for images of 224x224 pixels, and measures the two small ones here.

# %% fold tags=["nbval-ignore-output"]
rows, operations = [], {}
for size in ("Ti/16", "S/16", "B/16", "L/16"):
    name, patch = size.split("/")
    with torch.device("meta"):
        empty = create_vit(size, img_size=224, num_classes=1000)
    operations[size], ms = vit_flops(empty) / 1e9, ""
    count = sum(p.numel() for p in empty.parameters())
    if name in ("Ti", "S"):
        model, image = create_vit(size, img_size=224, num_classes=1000).eval(), torch.zeros(1, 3, 224, 224)
        with torch.no_grad():
            model(image)
            begin = time.perf_counter()
            model(image)
        ms = f"{1000 * (time.perf_counter() - begin):.0f}"
    rows.append([size, number(count / 1e6), number(4 * count / 1e6), number(operations[size]), ms])
table(rows, ["size", "million parameters", "MB as float32", "GFLOP for one image", "ms for one image, here"])

# %% [markdown] claim="3.5 < operations['S/16'] / operations['Ti/16'] < 4.2 and 3.5 < operations['B/16'] / operations['S/16'] < 4.2" always
# Each step from Ti to S to B doubles the width, so it needs nearly four times as many operations. The time on your
# machine may grow differently.
#
# **Why are small models so good?** Often by **distillation** (1503.02531). A large *teacher* is trained first. Then a small
# *student* learns to give the same outputs as the teacher instead of the labels. The outputs say more than a label, for example that
# this cat looks a little like a dog. The small models of DINOv2 and DINOv3 were distilled from one with a billion parameters or more.
#
# **Why do some have registers?** The weights of a softmax sum to 1, so a head that finds nothing of interest must look *somewhere*. It
# learns to look at a token that says little, an **attention sink** (2309.17453). In large ViTs some patches of plain background took
# this role, and they spoiled the maps. **Registers** (2309.16588), extra tokens without a place, give the heads somewhere else to look
# (lesson 15).
#
# To load a public model, download it and set an environment variable. The course itself downloads nothing. Run these
# lines in the folder of the course:
#
# ```sh
# pip install huggingface_hub
# hf download timm/vit_small_patch14_reg4_dinov2.lvd142m model.safetensors config.json --local-dir data/dinov2
# export VIT_COURSE_BACKBONE="$PWD/data/dinov2"
# make lab
# ```
#
# Then run this lesson again. Sections 2 to 5 use the public backbone, with your photos if you named a folder.
# `load_backbone` is strict. Every weight of the file gets its place in *your* `VisionTransformer`, or the error says
# which has none. What a file does not say, such as the normalisation, is asked for:

# %% fold tags=["nbval-ignore-output"]
path, weights = Path(tempfile.mkdtemp()) / "weights.pth", load_trained("cifar-vit").model.state_dict()
known_of_it = {"num_heads": 3, "img_size": 32, "global_pool": "token", "mean": (0.5,) * 3, "std": (0.5,) * 3}
cut = {"blocks.2.mlp.fc1.weight": weights["blocks.2.mlp.fc1.weight"][:, :-1]}
for name, content, given in (
    ("nothing given", weights, {}),
    ("a weight is cut", weights | cut, known_of_it),
):
    torch.save(content, path)
    try:
        load_backbone(path, **given)
    except ValueError as error:
        print(fill(f"{name}: {str(error).replace(str(path), path.name)}", 90))

# %% [markdown]
# Perception Encoder and the SAM models are not plain ViTs and need their own libraries. `docs/use.md` lists which families load, and
# what was compared.
#
# Before you begin with a public model, check four things. May you use it for this, by its **licence**? Do you use its
# **normalisation**, and its **resolution** and patch size? Could your **test images** have been in its training data?

# %% [markdown] curious
# ## 7. What does the model find alike?
#
# The simplest way to use features needs no training. To classify an image, look up the k images with the most similar
# features, its **nearest neighbours**, and let them vote. Similar means a large cosine. With the features f of the
# image and $f_i$ of an image with label $y_i$
#
# $$s_i = \frac{f \cdot f_i}{|f|\,|f_i|}, \qquad w = \mathrm{softmax}(s / \tau) \text{ over the k largest}, \qquad \text{votes for class } c = \sum_{i:\, y_i = c} w_i$$
#
# s is (N,), w is (k,), and τ is the **temperature**. The smaller τ is, the more the closest one decides.
#
# An example on paper has k = 3 and τ = 0.1. The cosines are 0.9, 0.8, 0.8 with labels key, mug, mug. The weights are in the ratio
# $1 : e^{-1} : e^{-1}$, so they are 0.58, 0.21 and 0.21. Key wins with 0.58 against 0.42, though two of three are mugs.
#
# **Your task.** Write `nearest_neighbours`, for many queries at once.

# %% exercise="vit_course.inference:nearest_neighbours" difficulty=2 minutes=8 hint="Bring all vectors to length 1, then one matrix product gives all cosines (Q, N). `topk` finds values and rows of the k largest. Softmax over the k, and add each share to the column of its label." hint2="What shape has `labels[neighbours]`? It says to which class each vote belongs. Start with zeros (Q, K). `scatter_add` adds values to the columns that a tensor of indices names, also if a column is named twice."
from vit_course.inference import nearest_neighbours

nearest_neighbours = check(nearest_neighbours)

# %% tags=["nbval-ignore-output"]
features, queries = reader(photos.train_images), reader(more)
neighbours, votes = nearest_neighbours(features, photos.train_labels, queries, k=5)
by_vote = (votes.argmax(dim=1) == truth).sum().item()
print("neighbours:", share(by_vote, len(truth)))
print("probe:     ", share(probed["trained backbone"], len(truth)))

# %% fold tags=["nbval-ignore-output"]
asked = torch.arange(4) * len(photos.test_labels) // 4
near, _ = nearest_neighbours(features, photos.train_labels, reader(photos.test_images[asked]), k=4)
names = [photos.classes[label] for label in photos.train_labels.tolist()]
images, titles = [], []
for test, row in zip(asked.tolist(), near.tolist(), strict=True):
    images += [sharp.test_images[test], *sharp.train_images[row]]
    titles += [f"query: {photos.classes[photos.test_labels[test]]}", *(names[i] for i in row)]
figure = plots.image_row(images, titles, "What does the model find alike?", 1.7)
plots.show(
    figure,
    "Four test photos, each followed by the four training photos with the nearest features and their classes.",
)

# %% [markdown] claim="120 < by_vote < probed['trained backbone'] - 15"
# Look at the sheet. Are the neighbours alike in shape, or in ground and colour? All features have the same weight in a
# cosine, so the largest decide. A probe may choose a few directions. Neighbours show what a model finds *alike*, and a
# probe shows what a linear layer can *read*.

# %% [markdown] curious
# ## 8. Can words be the classes?
#
# Until now each new class needed labelled images. **CLIP** (2103.00020) needs a sentence. Two models, an **image tower** and a
# **text tower**, put images and texts into one space. They are trained on pairs from the web, and an image should be closer to its
# own text than to all others in the batch. Then an image can be compared with *any* text, without a
# single labelled image. This is called **zero-shot**.

# %% fold
plots.show(
    towers_diagram(),
    "Three images go through the image tower to vectors u1 to u3, three texts go through the text tower to vectors v1 to v3. A table "
    "of all nine cosines; those on the diagonal, of an image with its own text, should be large.",
)

# %% [markdown]
# We train a small pair here. The image tower is our frozen backbone with one new linear layer, and the text tower
# learns vectors for words. (A frozen image tower is LiT, 2111.07991.) Images are drawings in coloured light, and texts
# are three kinds of sentences. For each shape, one colour of light is **left out** of the training. So the training
# contains no red arrow, and no sentence about one.

# %% tags=["nbval-ignore-output"]
PROMPTS = ("one {light} {shape}", "picture of one {light} {shape}", "one {shape} in {light} light")
torch.manual_seed(0)
drawings = shapes10(
    *profile.pick(smoke=(400, 100), cpu=(900, 400), gpu=(1200, 600)), seed=5, image_size=backbone.img_size
)
combinations = [{"light": light, "shape": shape} for shape in drawings.classes for light in LIGHTS]
left_out = torch.tensor([i // 4 % 4 == i % 4 for i in range(40)])  # each shape in one light
lit, kind = in_coloured_light(drawings.train_images, drawings.train_labels)
lit_test, kind_test = in_coloured_light(drawings.test_images, drawings.test_labels)
usable = (~left_out[kind]).nonzero()[:, 0]
texts = [PROMPTS[i % 3].format(**combinations[kind[i]]) for i in usable]
image_tower, text_tower = fit_towers(
    reader(lit)[usable], texts, kind[usable], steps=profile.pick(smoke=20, cpu=400, gpu=400)
)
print(texts[:3])

# %% [markdown]
# Now ask. Ten shapes in four lights make 40 combinations, and for each there are P = 3 sentences (**prompts**). With
# image vectors u (D,) and text vectors $v_{cj}$ (D,), all of length 1,
#
# $$v_c = \frac{\sum_j v_{cj}}{\left|\sum_j v_{cj}\right|}, \qquad p(c) = \mathrm{softmax}_c\!\left(\frac{u \cdot v_c}{\tau}\right)$$
#
# **Your task.** Write `zero_shot`.

# %% exercise="vit_course.inference:zero_shot" difficulty=1 minutes=5 hint="Three vectors get length 1, the images, each text, and the mean over the texts of a class. Then a product, divided by the temperature, and a softmax over the classes." hint2="`text_features` is (K, P, D). Over which axis do you average, and on which axis is the length of a vector? `F.normalize` takes the axis as `dim`, and its default is not the last one."
from vit_course.inference import zero_shot

zero_shot = check(zero_shot)

# %% [markdown]
# > **Predict.** A classifier over the 30 combinations of the training would never say "red arrow". Will the two towers?

# %% tags=["nbval-ignore-output"]
sentences = [prompt.format(**c) for c in combinations for prompt in PROMPTS]
answer = zero_shot(image_tower(reader(lit_test)), text_tower(sentences).unflatten(0, (40, 3))).argmax(dim=1)
new = left_out[kind_test]
rows, hits = [], {}
for name, part in (("combinations of the training", ~new), ("never seen together", new)):
    same = {
        "both": answer == kind_test,
        "shape": answer // 4 == kind_test // 4,
        "light": answer % 4 == kind_test % 4,
    }
    hits[name] = {word: is_right[part].float().mean().item() for word, is_right in same.items()}
    rows.append([name, *map(percent, hits[name].values())])
table(
    rows,
    ["images", "both words right (%)", "shape (%)", "light (%)"],
    f"40 sentences; guessing: {percent(1 / 40)}",
)

# %% [markdown] claim=["hits['never seen together']['both'] > 0.15", "hits['combinations of the training']['both'] > hits['never seen together']['both'] + 0.05", "min(parts['light'] for parts in hits.values()) > 0.9"]
# Yes, in part. Combinations that were never seen get the right words far more often than by guessing, though less often
# than known ones. The towers have learned words and put them together. Where an answer is wrong, it is nearly always
# the shape.
#
# Arrows and red things were in the training. A word that the text tower has never met has no vector. CLIP has seen 400 million
# pairs, so there is hardly such a word, and then nobody can say whether "zero-shot" means *never seen*.

# %% [markdown]
# ## 9. Is the Vision Transformer a success?
#
# In 2020 the paper ended with three open challenges. What happened to each?
#
# | the paper, in 2020 | since then |
# |---|---|
# | other tasks, detection and segmentation, are not tried | ViTDet (2203.16527) detects with a plain ViT; Segment Anything (2304.02643) cuts out anything |
# | self-supervision gives 79.9 % on ImageNet, 4 points behind labels | MAE (2021) closed the gap; DINOv2 and DINOv3 need no labels at all |
# | larger models should help, because nothing is saturated | 22 billion parameters were trained (2302.05442); most people use 22 to 300 million |
#
# Three things speak against it. Large images are expensive, because the T² term grows with the fourth power of the side.
# It needs a good recipe or much data, as you saw in lessons 08 and 12. And a modern convolutional network reached the same accuracy
# at the same cost (ConvNeXt, 2201.03545; 2310.16764). So attention was not the only way.
#
# Three things speak for it. The same blocks read images, texts and sounds, so models that see and talk became possible
# (LLaVA, 2304.08485). Patches can be left out, which makes MAE cheap. And most of the public models of section 6 are plain ViTs,
# nearly the one that you wrote in lesson 06.
#
# > **Your verdict.** Somebody calls the ViT "half a success". Write three sentences. In the first, say what it did better than a
# > convolutional network in *your* measurements. In the second, name the measurement of this course that speaks most against it.
# > In the third, say whether you would use one for your next task, and why.

# %% tags=["student-only"]
verdict = """

"""
print(f"{len(verdict.split())} words")

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# A classmate computes features once, with `model.train()` left on. The probe has 96 % on training features and 31 % on test
# features. What do you fix first?
#
# - [x] call `eval()` and compute the features again :: Dropout put noise into each feature, and the layer has fitted that noise.
# - [ ] put a larger linear layer, or a second one, after it :: It fits the training features already. More of it overfits more.
# - [ ] standardise with training and test images together :: That is peeking at the test images, and no cure for noise.

# %% [markdown] quiz
# Full tuning of a trained model gets 99 % with twenty photos. Which control shows that the *pre-training* did it?
#
# - [ ] a probe on the same backbone :: It shows what the features contain. It trains other weights in another way.
# - [x] the same tuning from random weights :: Everything else is equal, so the difference comes from the start.
# - [ ] the same tuning with twice the number of epochs :: That is a test of the training time.

# %% [markdown] quiz
# In half of the scenes the thing is light, in the other half dark. A linear layer reads only the mean colour of a patch. What does it
# answer at best?
#
# - [ ] "thing" wherever a patch is light :: That is wrong in one half of the scenes, for the thing and for the ground.
# - [ ] the outline of the thing, a little blurred :: A single colour cannot tell which half a scene belongs to.
# - [x] "ground" everywhere :: No threshold on colour is right in both halves, and most patches are ground.

# %% [markdown] quiz
# The int8 file is less than a third of the size, and slower on your laptop. Why?
#
# - [ ] 8-bit arithmetic is always slower than 32-bit arithmetic :: On chips that are made for it, it is several times faster.
# - [x] the chip converts every number before it computes :: Without 8-bit arithmetic the file is smaller and the work is larger.
# - [ ] the file is damaged and has to be exported again :: Then the answers would differ. Look at the agreement first.

# %% [markdown] quiz
# You load DINOv2 and normalise with the mean of your own twenty photos. What happens?
#
# - [ ] an error, because the numbers of channels differ :: Nothing complains. The shapes fit.
# - [x] the features are a little worse, without any message :: The weights expect the statistics of their own training.
# - [ ] nothing, because a layer norm comes first :: The first layer is the patch embedding, and it sees the pixels.

# %% [markdown]
# ## Recap
#
# | what | from | shape |
# |---|---|---|
# | y | the head's input, CLS or the mean | (B, D) |
# | features | y and the mean of the patches | (B, 2D) |
# | probe | standardised features, one linear layer | (M, K) |
# | LoRA | W + B A, B zero at the start | (D, D), (D, r), (r, D) |
# | segmentation | a linear layer on patch tokens, enlarged | (B, K, H, W) |
# | shipped | uint8 images in, probabilities out | (B, C, H, W), (B, K) |
#
# - The head goes and the features stay. Normalisation, size and patch size belong to the weights.
# - The control of every tuning is the same tuning from random weights.
# - Before you ship a smaller form, count on your own images how often its answers agree.
#
# ## Further reading
#
# - Oquab et al., *DINOv2: Learning Robust Visual Features without Supervision* (2304.07193), section 7, for probes and dense features.
# - Hu et al., *LoRA: Low-Rank Adaptation of Large Language Models* (2106.09685).
# - Radford et al., *Learning Transferable Visual Models From Natural Language Supervision* (2103.00020), on prompts and the limits of zero-shot.
# - Darcet et al., *Vision Transformers Need Registers* (2309.16588).
#
# **You have finished the course.** You wrote a Vision Transformer, trained it, tested it, and shipped it. One thing is still missing,
# a question that nobody has answered for you. Take thirty photos, and start [project 1](../docs/projects.md).
