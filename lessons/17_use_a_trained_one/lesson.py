# ---
# title: "Use a trained one"
# promise: "Use a trained ViT on new images, including your own photos."
# part: "IV. Now use it"
# map: [pool, head]
# recall: ["02.3", "09.2", "12.2"]
# goals:
#   - "Get features from a trained ViT, of whole pictures and of single patches."
#   - "Classify new pictures with these features: by neighbours, by a linear probe, by words."
#   - "Say with counts and intervals what a folder of thirty photos can show, and what it cannot."
#   - "Find out in which layer a model keeps what is where."
#   - "Choose a public model for a task, and load its weights with everything that belongs to them."
# ---

# %% [markdown]
# ## 1. What does a trained model give me?
#
# Hardly anybody trains a ViT from nothing. You download one, a **backbone**, and use what it has learned for your own task.
#
# Our backbone is the course's own: it was trained on photos of ten kinds of things. Our task is one it was never trained
# for: Shapes-10, drawings of stars, hearts and arrows. (One switch takes a public model instead: section 8.)

# %%
import io
import os
import tempfile
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from textwrap import fill

import torch
from torch import nn

from vit_course.extensions.backbone import Backbone, load_backbone
from vit_course.extensions.transfer import replace_head, resize_pictures
from vit_course.inference import Reader, share_interval
from vit_classroom import check, plots, table
from vit_classroom.numbers import percent
from vit_classroom.exhibits.sample_photos import KINDS, LIGHTS, draw_photos, in_coloured_light, write_photos
from vit_classroom.exhibits.two_towers import fit_towers
from vit_course.data import load_dataset, shapes10
from vit_course.extensions.trained import load_trained
from vit_course.interpret import attention_rollout
from vit_course.training.profiles import get_profile
from vit_course.train import TrainConfig, evaluate, train
from vit_course.vit import vit_num_parameters

profile = get_profile()


def ours(name):
    """Load a trained model of the course with its normalisation."""
    model, info = load_trained(name)
    return Backbone(model, info["mean"], info["std"])


file = os.environ.get("VIT_COURSE_BACKBONE")  # a file of weights, or a folder that holds them
backbone = ours("cifar-vit")
if file:
    backbone = load_backbone(file, img_size=224)
    backbone = backbone.at(8 * backbone.model.patch_embed.patch_size[0])  # 8x8 patches, to be quick
pictures = shapes10(
    *profile.pick(smoke=(60, 40), cpu=(500, 300), gpu=(1000, 1000)), seed=3, image_size=backbone.img_size
)
mean, std = (torch.tensor(values)[:, None, None] for values in (backbone.mean, backbone.std))
tokens = backbone.tokens(pictures.test_images[:4])
print(f"{backbone.family}, pictures of {backbone.img_size}, a grid of {backbone.grid_size} patches")
print("tokens after the last norm:", tuple(tokens.shape))
print("what the head reads, y:", tuple(backbone.read(tokens).shape))

# %% [markdown]
# Three things can be taken from these tokens:
#
# - **y**, what the head would read: here the CLS token after the last norm (equation 4).
# - **the patch tokens**, one for each place: for questions about *where*.
# - **their mean**, which often knows something that CLS does not.
#
# The head itself is thrown away, since nobody asks for its ten classes. From now on a picture is a **feature**: y and the mean
# of the patches side by side, 2D numbers. `Reader` makes it of pictures.
#
# > **Trap.** Normalisation goes with the weights. A model trained on pixels from -1 to 1 and fed with ImageNet's mean and
# > deviation does not complain; it is only worse. The size belongs to the weights, too. `Backbone` keeps weights, mean, deviation
# > and size together, takes raw pictures (uint8) alone, and refuses another size.

# %% tags=["nbval-ignore-output"]
reader = Reader(backbone)
features, queries = reader(pictures.train_images), reader(pictures.test_images)
labels, answers = pictures.train_labels, pictures.test_labels
print("features:", tuple(features.shape), " queries:", tuple(queries.shape))

# %% [markdown]
# ## 2. Which pictures does it find alike?
#
# The simplest way to use features needs no training. To classify a picture, look up the k pictures with the most similar
# features, its **nearest neighbours**, and let them vote. Similar means: a large cosine. With features f of the picture and
# $f_i$ of a picture whose label is known
#
# $$s_i = \frac{f \cdot f_i}{|f|\,|f_i|}, \qquad w = \mathrm{softmax}(s / \tau) \text{ over the k largest}, \qquad \text{votes for class } c = \sum_{i:\, y_i = c} w_i$$
#
# f and $f_i$ are features, s is (N,), w is (k,), τ is the **temperature**: the smaller, the more the closest one decides.
#
# On paper, k = 3 and τ = .1: cosines .9, .8, .8 with labels star, heart, heart. The weights are in the ratio
# $1 : e^{-1} : e^{-1}$, so .58, .21, .21. Star wins with .58 against .42, though it stands alone.
#
# **Your task.** Write `nearest_neighbours`, for many queries at once.

# %% exercise="vit_course.inference:nearest_neighbours" difficulty=2 minutes=8 hint="Bring all vectors to length 1, then one matrix product gives all cosines (Q, N). `topk` finds values and rows of the k largest. Softmax over the k, and add each share to the column of its label." hint2="`F.normalize(x, dim=-1)` makes length 1 (`import torch.nn.functional as F`). `nearest, neighbours = cosines.topk(k, dim=-1)`; `labels[neighbours]` is (Q, k). Zeros of shape (Q, K) and `scatter_add(1, labels[neighbours], shares)` add them up."
from vit_course.inference import nearest_neighbours

nearest_neighbours = check(nearest_neighbours)

# %% fold tags=["nbval-ignore-output"]
shown, _ = nearest_neighbours(features, labels, queries[:4], k=5)
rows = [
    torch.cat([pictures.test_images[i : i + 1], pictures.train_images[near]]) for i, near in enumerate(shown)
]
sheet = plots.image_grid(torch.cat(rows), columns=6)
figure = plots.image_row(
    [sheet], ["the query, then its five nearest neighbours"], "What does the model find alike?", 3.6
)
plots.show(
    figure,
    "Four drawings in the first column, and beside each the five training pictures with the nearest features.",
)

# %% [markdown]
# > **Predict.** Are the neighbours alike in shape, or in colour? How many of the test pictures get the right class?

# %% tags=["nbval-ignore-output"]


def right(scores, truth=answers):
    """Count the right answers."""
    return int((scores.argmax(dim=1) == truth).sum())


def share(count, of):
    """Write a share with its 95 % interval."""
    low, high = share_interval(count, of)
    return f"{percent(count / of)} ({percent(low)} to {percent(high)})"


_, votes = nearest_neighbours(features, labels, queries)
print("neighbours:", share(right(votes), len(answers)), " guessing: 10 %")

# %% [markdown] claim="right(votes) > 0.13 * len(answers)"
# Better than guessing, and not good. Look at the sheet: this model was never asked about shapes, and what is *alike* to it is
# often colour and ground, though not always. The interval is the uncertainty that comes from the number of test pictures
# (Wilson's formula): with a few hundred of them a share is known to about five points either way.

# %% [markdown]
# ## 3. Does it know more than it shows?
#
# Neighbours use all numbers of a feature equally. Perhaps shape is in there, in directions that other things drown out. A
# **linear probe** finds them: one linear layer, trained on features that stay as they are.
#
# Its scores are $f W^\top + b$ with features (B, 2D) and W (K, 2D). It trains in a second, because the features are computed
# **once**. Three things go wrong in practice:
#
# - *Training mode.* With dropout on, each feature is noisy. Call `eval()`, and leave the model as you found it.
# - *Computing features anew in each step.* That costs hours.
# - *Peeking.* Features are **standardised**: subtract the mean, divide by the deviation. Both come from the *training* pictures.
#
# **Your task.** Write `probe`. The linear layer is fitted for you, by `fit`.

# %% exercise="vit_course.inference:probe" difficulty=2 minutes=8 hint="In this order: keep `encoder.training`, `eval()`, both features in one `torch.no_grad()`, back to the old mode, mean and deviation of the training features, `fit`, and the layer on the test features." hint2="`training = encoder.training`, and later `encoder.train(training)`. `mean, std = features.mean(dim=0), features.std(dim=0).clamp(min=1e-6)`. Then `layer = fit((features - mean) / std, labels)` and `return layer((queries - mean) / std)`."
from vit_course.inference import probe

probe = check(probe)

# %% [markdown]
# Four ways to describe a picture get the same probe: its raw pixels; a ViT that was never trained; our photo model; and, as an
# upper end, a model that was trained on Shapes-10 itself, with thousands of labels.
#
# > **Predict.** The photo model has never seen a drawing. Is it nearer to the untrained model, or to the one that learned shapes?

# %% tags=["nbval-ignore-output"]
described = {"photo model": (features, queries)}
for name, model in (("never trained", "cifar-vit-epoch0"), ("trained on shapes", "shapes-vit")):
    drawings = shapes10(len(labels), len(answers), seed=3)
    described[name] = [Reader(ours(model))(half) for half in (drawings.train_images, drawings.test_images)]
described["raw pixels"] = [half.flatten(1) / 255 for half in (drawings.train_images, drawings.test_images)]
probed, near = {}, {}
for name, (known, asked) in described.items():
    probed[name] = right(probe(nn.Identity(), known, labels, asked))  # the features are there already
    near[name] = right(nearest_neighbours(known, labels, asked)[1])
rows = [
    [name, share(near[name], len(answers)), share(probed[name], len(answers))]
    for name in sorted(probed, key=probed.get)
]
table(rows, ["features", "neighbours", "linear probe"], f"{len(labels)} labels, {len(answers)} test pictures")

# %% [markdown] claim="probed['photo model'] > 1.3 * near['photo model'] and probed['photo model'] > 1.7 * probed['raw pixels'] and probed['photo model'] > 1.7 * probed['never trained'] and probed['trained on shapes'] > probed['photo model']"
# The features know far more than the neighbours showed. A model that learned airplanes and frogs separates stars from hearts,
# far better than raw pixels or a model that was never trained. One trained for the task itself is far better again: the photo
# model stands between the two.
#
# > **Key idea.** Neighbours say what a model finds *alike*. A probe says what a linear layer can *read* in it. Report both, with
# > the pictures they were counted on, beside raw pixels and an untrained model.

# %% [markdown] curious
# ## 4. Which layer is best for what?
#
# Nobody forces you to take the last layer. Here is the same probe after each block.

# %% tags=["nbval-ignore-output"]


@torch.no_grad()
def after_blocks(images, batch_size=100):
    """Return the tokens (L + 1, N, T, D) that enter the first block and those that leave each block."""
    found = []
    for part in images.split(batch_size):
        z = [backbone.model.embed((part / 255 - mean) / std)]
        for block in backbone.model.blocks:
            z.append(block(z[-1]))
        found.append(torch.stack(z))
    return torch.cat(found, dim=1)


count = backbone.model.patch_embed.num_patches
half = [after_blocks(images[:300]) for images in (pictures.train_images, pictures.test_images)]
by_layer = {"CLS": {}, "mean of the patches": {}}
for layer in range(len(half[0])):
    for name, take in (
        ("CLS", lambda z: z[:, 0]),
        ("mean of the patches", lambda z: z[:, -count:].mean(dim=1)),
    ):
        scores = probe(nn.Identity(), take(half[0][layer]), labels[:300], take(half[1][layer]))
        by_layer[name][layer] = 100 * right(scores, answers[:300]) / len(scores)

# %% fold tags=["nbval-ignore-output"]
lines = {name: (list(found), list(found.values())) for name, found in by_layer.items()}
figure = plots.curves(
    lines,
    "A probe after each block: where is shape?",
    "block (0: before the first)",
    "test accuracy in percent",
)
plots.show(figure, "Accuracy of a probe over the blocks, for CLS and for the mean of the patches.")

# %% [markdown] claim="(cls := list(by_layer['CLS'].values())).index(max(cls)) == len(cls) - 2 and max(cls) - cls[-1] > 5 and cls[2] > cls[0] + 10"
# Shape becomes readable block by block. For CLS it is best after the last block but one. The last block may turn to what the
# model was trained for, so that what another task needs fades again. So try the last three or four layers, on held-out
# pictures: many published probes do.

# %% [markdown]
# ## 5. And my own thirty photos?
#
# Put them into folders: `train/<class>/` and `test/<class>/`, as many as you have. Decide which are for the test *before*
# you look at any result. The next cell makes such a folder: three kinds of things, drawn onto pieces of a photo that comes with
# matplotlib (in the public domain). Some are as phones and scanners save them. For your own, name their folder in `mine`:
# the cells below then count *your* photos. Nothing in it is changed; a hidden folder `.cache` is added.

# %% tags=["nbval-ignore-output"]
mine = None  # your own: "data/mine/photos"
folder = mine or Path(tempfile.mkdtemp()) / "photos"
odd = {} if mine else write_photos(folder, seed=0)
photos = load_dataset(folder, image_size=backbone.img_size)
print(fill(repr(photos), 90))
table(list(odd.items()) or [["yours", "you know best"]], ["file", "what is odd about it"])

# %% fold tags=["nbval-ignore-output"]
sharp = load_dataset(folder, image_size=96)
sheets = [
    plots.image_grid(images[: max(1, len(images) // 5) * 5], columns=min(5, len(images)))
    for images in (sharp.train_images, sharp.test_images)
]
figure = plots.image_row(
    sheets, ["to learn from", "to test"], "All of them upright, RGB, and of one size", 3.4
)
plots.show(
    figure,
    "Two sheets of small pictures: keys, leaves and mugs on dark grounds; all stand upright, two are grey.",
)

# %% [markdown]
# Turned pictures stand upright, CMYK and transparency have become RGB, the huge one was shrunk, and only the middle of the
# panorama is left. Files of other kinds are left out, and a line counts them. A broken picture is refused, and named: left
# out in silence, it would make your counts wrong. Both happen in a second folder of drawn photos:

# %% tags=["nbval-ignore-output"]
spoilt = Path(tempfile.mkdtemp()) / "spoilt"
write_photos(spoilt, seed=0)
(spoilt / "train" / KINDS[0] / "from_my_phone.heic").write_bytes(b"0")
(spoilt / "train" / KINDS[0] / "00.jpg").write_bytes(b"no picture")
try:
    with redirect_stdout(io.StringIO()) as said:
        load_dataset(spoilt, image_size=backbone.img_size)
except ValueError as error:
    print(fill(said.getvalue(), 90))
    print("refused:", Path(str(error).split(": ")[0]).name)

# %% [markdown]
# > **Predict.** Twenty photos to learn from, ten to test. How many of the ten will be right? Will the photo model beat raw
# > pixels, and a model that was never trained?

# %% tags=["nbval-ignore-output"]
untrained = Reader(ours("cifar-vit-epoch0"))
encoders = {"raw pixels": nn.Flatten(), "never trained": untrained, "photo model": reader}


def photo_scores(name, data):
    """Learn from the twenty photos, and return the scores of the test pictures of some data."""
    known, asked = photos.train_images, data.test_images
    if name != "photo model":  # the models of the course read 32 pixels
        known, asked = (resize_pictures(part, 32) for part in (photos, data))
        known, asked = known.train_images, asked.test_images
    if name == "raw pixels":
        known, asked = known / 255, asked / 255
    return probe(encoders[name], known, photos.train_labels, asked)


drawn, kinds = draw_photos(profile.pick(smoke=12, cpu=600, gpu=600), backbone.img_size, seed=1)
more = replace(photos, test_images=drawn, test_labels=kinds)  # more of the drawn kinds: nothing for your own
right_of = {}
for data in [photos] if mine else [photos, more]:
    right_of[len(data.test_labels)] = {
        name: right(photo_scores(name, data), data.test_labels) for name in encoders
    }
ten, *many = right_of
rows = [
    [name, f"{right_of[ten][name]} of {ten}", *(share(n[name], count) for count, n in right_of.items())]
    for name in encoders
]
table(rows, ["features", "right", "in percent", *(f"{count} more photos" for count in many)])

# %% [markdown] claim=["max(share_interval(n, 10)[0] for n in right_of[10].values()) < min(share_interval(n, 10)[1] for n in right_of[10].values())", "all(share_interval(right_of[600]['photo model'], 600)[0] > share_interval(right_of[600][name], 600)[1] for name in ('raw pixels', 'never trained'))"]
# Ten photos do not say which of the three is best: one photo more is ten points, and the intervals overlap. With 600 more photos
# of the same kinds, which you would not have, the photo model is clearly ahead of both. By how much still depends on the twenty
# photos to learn from: the intervals know of the luck in the test photos alone.
#
# So report "9 of 10", never "90 %", and do not choose between two models by it. To choose, take more test photos.
#
# Where does the model look? Figure 6 of the paper answers for its pre-trained ViT with attention rollout (lesson 09). Here is
# ours, at twice its resolution. On which photos does it look at the thing, and on which at the ground?

# %% fold tags=["nbval-ignore-output"]
fine = backbone.at(tuple(2 * side for side in backbone.img_size))
detailed = load_dataset(folder, image_size=fine.img_size)
chosen = detailed.test_images[::2][:4]
with torch.no_grad():
    normal = (chosen / 255 - mean) / std
    _, attentions = fine.model(normal, return_attention=True)
prefix = fine.model.num_prefix_tokens
maps = attention_rollout(attentions, prefix)[:, 0, prefix:].unflatten(1, fine.grid_size)
figure = plots.overlay_rows(
    chosen, {"rollout": maps}, "What does CLS read? (Figure 6 of the paper, on these photos)"
)
plots.show(figure, "Four test photos; below each, how much CLS takes from each patch through all layers.")

# %% [markdown]
# ## 6. Which patches belong to the thing?
#
# So far a picture was one vector. Its patch tokens can say more: take one patch on the thing, and ask which others resemble it.
# All tokens of a picture share a large part, so subtract their mean first. With the tokens $t_i$ (D,) of the N patches and the
# chosen patch j
#
# $$c_i = t_i - \frac{1}{N}\sum_n t_n, \qquad \text{similarity}_i = \frac{c_i \cdot c_j}{|c_i|\,|c_j|}, \qquad \text{mask} = \text{similarity} > 0$$
#
# Such a reading, with an answer for each place, is called **dense**. Segmentation, depth and tracking are made like this.
#
# **Your task.** Write `patch_similarity`.

# %% exercise="vit_course.inference:patch_similarity" difficulty=1 minutes=6 hint="Of T tokens the last rows·columns are the patches. Subtract their mean, bring them to length 1, and multiply with the chosen one." hint2="`patches = tokens[-rows * columns:]`. The chosen patch is number `row * columns + column`. `reshape(rows, columns)` gives the map, and `similarity > 0` the mask."
from vit_course.inference import patch_similarity

patch_similarity = check(patch_similarity)

# %% [markdown]
# We know where the drawn things are, so the mask can be scored: the patches in both the mask and the thing, divided by those in
# either (**IoU**, 100 % if they are the same). The chosen patch is the thing's middle one, in reading order.
#
# > **Predict.** After which block is the mask best: the first, or the last?

# %% tags=["nbval-ignore-output"]
scenes, _, things = draw_photos(90, fine.img_size, seed=2, masks=fine.grid_size)
places = [inside.nonzero()[inside.sum() // 2].tolist() for inside in things]  # a patch on the thing
CUTS = [*(i / 20 for i in range(20)), 0.98, 0.99, 0.995, 0.999]


def mask_scores(tokens):
    """Return the mean IoU in percent of the masks of tokens (90, T, D): cut at 0, and at the best of CUTS."""
    likeness = [patch_similarity(t, fine.grid_size, *at)[0] for t, at in zip(tokens, places, strict=True)]
    masks = torch.stack([torch.stack(likeness) > cut for cut in CUTS])  # (cuts, 90, rows, columns)
    ious = (masks & things).sum((2, 3)) / (masks | things).sum((2, 3))
    by_cut = 100 * ious.mean(dim=1)
    return by_cut[0].item(), by_cut.max().item()


with torch.no_grad():
    z = [fine.model.embed((scenes / 255 - mean) / std)]
    for block in fine.model.blocks:
        z.append(block(z[-1]))
dense = [mask_scores(tokens) for tokens in z]
by_colour = mask_scores(nn.functional.adaptive_avg_pool2d(scenes.float(), fine.grid_size).flatten(2).mT)
names = [f"after block {i}" if i else "before block 1" for i in range(len(z))]
rows = [[name, *ious] for name, ious in zip(["mean colour", *names], [by_colour, *dense], strict=True)]
table(rows, ["tokens", "IoU in %, similarity > 0", "at the best cut"])

# %% fold tags=["nbval-ignore-output"]
several = [0, 1, 2, 5]
maps = {
    f"after block {i}": torch.stack(
        [patch_similarity(z[i][n], fine.grid_size, *places[n])[0] for n in several]
    )
    for i in (1, len(z) - 1)
}
figure = plots.overlay_rows(
    scenes[several],
    {name: m.clamp(min=0) for name, m in maps.items()},
    "What resembles a patch of the thing?",
)
plots.show(
    figure,
    "Four scenes with a thing on a dark ground, and maps of similarity from an early and from the last block.",
)

# %% [markdown] claim=["by_colour[0] > max(ious[0] for ious in dense) and max(dense, key=lambda ious: ious[0]) in dense[4:7] and min(dense, key=lambda ious: ious[0]) is dense[-1]", "by_colour[1] > dense[1][1] + 2 and max(dense, key=lambda ious: ious[1]) is dense[1] and all(a[1] > b[1] for a, b in zip(dense[1:], dense[2:])) and dense[1][1] > dense[-1][1] + 8"] always
# Plain colour does best, since these things stand out by it. At a similarity above 0 the blocks in the middle do best, and the
# last is worst. Part of that is the cut: with a best one for each row **each block after the first makes the mask worse**. With
# depth the tokens say less exactly *where* a thing is. A likely reason: the loss names a class from CLS alone, so patches may
# carry whatever helps that.
#
# For dense work people take DINOv2 or DINOv3: their training has a loss on patches too.

# %% [markdown]
# ## 7. Can words be the classes?
#
# Until now each new class needed labelled pictures. **CLIP** (2103.00020) needs a sentence. Two models, a **picture tower** and a
# **text tower**, put pictures and texts into one space, and are trained on pairs from the web: a picture should be closer to its
# own text than to all others in the batch, and the other way round. Then a picture can be compared with *any* text, without a
# single labelled picture: **zero-shot**.
#
# We train a small pair here. The picture tower is our frozen backbone with one new linear layer; the text tower learns vectors for
# words. (A frozen picture tower is LiT, 2111.07991.) Pictures are drawings in coloured light, texts are three kinds of sentences.
# And one combination of each shape is **left out** of the training: there is never a red arrow, nor a sentence about one.

# %% tags=["nbval-ignore-output"]
PROMPTS = ("one {light} {shape}", "picture of one {light} {shape}", "one {shape} in {light} light")
torch.manual_seed(0)
raw = shapes10(
    *profile.pick(smoke=(400, 100), cpu=(900, 400), gpu=(1200, 600)), seed=5, image_size=backbone.img_size
)
combinations = [{"light": light, "shape": shape} for shape in raw.classes for light in LIGHTS]
left_out = torch.tensor([i // 4 % 4 == i % 4 for i in range(40)])  # each shape in one light
lit, kind = in_coloured_light(raw.train_images, raw.train_labels)
lit_test, truth = in_coloured_light(raw.test_images, raw.test_labels)
seen, asked = reader(lit), reader(lit_test)
usable = (~left_out[kind]).nonzero()[:, 0]
texts = [PROMPTS[i % 3].format(**combinations[kind[i]]) for i in usable]
picture_tower, text_tower = fit_towers(
    seen[usable], texts, kind[usable], steps=profile.pick(smoke=20, cpu=400, gpu=400)
)
print(texts[:3])

# %% [markdown]
# Now ask. For each of the 40 combinations there are P = 3 sentences. With picture vectors u (D,) and text vectors $v_{cj}$ (D,),
# all of length 1,
#
# $$v_c = \frac{\sum_j v_{cj}}{\left|\sum_j v_{cj}\right|}, \qquad p(c) = \mathrm{softmax}_c\!\left(\frac{u \cdot v_c}{\tau}\right)$$
#
# Several sentences for a class (**prompts**) average out what the wording adds.
#
# **Your task.** Write `zero_shot`.

# %% exercise="vit_course.inference:zero_shot" difficulty=1 minutes=5 hint="Three times length 1: the pictures, each text, and the mean over the texts of a class. Then a product, divided by the temperature, and a softmax over the classes." hint2="`classes = F.normalize(F.normalize(text_features, dim=-1).mean(dim=1), dim=-1)` is (K, D). Then `(F.normalize(image_features, dim=-1) @ classes.T / temperature).softmax(dim=-1)`."
from vit_course.inference import zero_shot

zero_shot = check(zero_shot)

# %% [markdown]
# > **Predict.** A classifier over the 30 combinations of the training would never say "red arrow". Will the two towers?

# %% tags=["nbval-ignore-output"]
sentences = [prompt.format(**c) for c in combinations for prompt in PROMPTS]
text_features = text_tower(sentences).unflatten(0, (40, 3))
answer = zero_shot(picture_tower(asked), text_features).argmax(dim=1)
new = left_out[truth]
rows, hits = [], {}
for name, part in (("combinations of the training", ~new), ("never seen together", new)):
    same = {"both": answer == truth, "shape": answer // 4 == truth // 4, "light": answer % 4 == truth % 4}
    hits[name] = {word: int(is_right[part].sum()) for word, is_right in same.items()}
    rows.append([name, *(share(count, int(part.sum())) for count in hits[name].values())])
table(
    rows,
    ["pictures", "both words right", "shape", "light"],
    f"40 sentences to choose from; guessing: {percent(1 / 40)}",
)

# %% [markdown] claim=["hits['never seen together']['both'] > 0.2 * int(new.sum())", "all(hits['combinations of the training'][word] / int((~new).sum()) > hits['never seen together'][word] / int(new.sum()) + 0.05 for word in ('both', 'shape'))", "min(hits['never seen together']['light'] / int(new.sum()), hits['combinations of the training']['light'] / int((~new).sum())) > 0.9"]
# Yes. What was never seen together is named right far more often than guessing would, though less often than what was: the towers
# have learned words, and put them together, in part. The light is nearly always right. The shape fails, and more often in a
# light in which the training never had it.
#
# But arrows were in the training, and red was. A word that the text tower has never met has no vector. CLIP has seen 400 million
# pairs, so there is hardly such a word, and whether "zero-shot" means *never seen* is hard to tell.

# %% [markdown] curious
# ## 8. How do I load a public model?
#
# Nothing is downloaded by this course. In its folder, fetch a file once, name it in `VIT_COURSE_BACKBONE`, and start Jupyter
# from there:
#
# ```sh
# pip install huggingface_hub
# hf download timm/vit_small_patch14_reg4_dinov2.lvd142m model.safetensors config.json --local-dir data/dinov2
# export VIT_COURSE_BACKBONE="$PWD/data/dinov2"
# make lab
# ```
#
# | weights (the id to download) | size name | licence | normalisation |
# |---|---|---|---|
# | `timm/vit_small_patch14_reg4_dinov2.lvd142m` | S/14 | Apache 2.0 | ImageNet's |
# | `timm/vit_small_patch16_dinov3.lvd1689m` | S/16 | DINOv3's own, to be accepted | ImageNet's |
# | `timm/deit3_small_patch16_224.fb_in1k` | S/16 | Apache 2.0 | ImageNet's |
# | `google/siglip2-base-patch16-224` | B/16 | Apache 2.0 | .5 / .5 |
# | torchvision's `vit_b_16` (a switch in lesson 06) | B/16 | BSD for the code | ImageNet's |
#
# `load_backbone` is strict: every weight of the file gets its place in *your* `VisionTransformer`, with LayerScale, registers,
# attention pooling and rotations of lesson 15 where the file has them, or you are told its name. Tests build each family with
# random weights in its own library (timm, transformers, torchvision); our outputs agree with theirs to five digits.

# %% fold
rows = []
for name, (dim, depth) in {"S": (384, 12), "B": (768, 12), "L": (1024, 24)}.items():
    count = vit_num_parameters(224, 16, 3, 0, dim, depth)
    rows.append([f"{name}/16", count, round(4 * count / 1e6)])
print(table(rows, ["size", "parameters", "MB as float32"]))
model, _ = load_trained("cifar-vit")
damaged = dict(model.state_dict())
kept = damaged.pop("blocks.2.mlp.fc1.weight")
known = {"num_heads": model.blocks[0].attn.num_heads, "img_size": 32, "global_pool": "token"}
for change in (
    {},
    {"blocks.2.mlp.fc1.weight": kept[:, :-1]},
    {"blocks.2.mlp.fc1.weight": kept, "dist_token": kept[:1]},
):
    path = spoilt / "damaged.pth"
    torch.save(damaged | change, path)
    try:
        load_backbone(path, mean=backbone.mean, std=backbone.std, **known)
    except ValueError as error:
        print(fill(f"rejected: {str(error).replace(str(path), path.name)}", 90))

# %% [markdown]
# ## 9. Which one should I take in 2026?
#
# Ask what you want from it, and take the smallest model that does it.
#
# | you want | a model | how it was trained | source (arXiv) |
# |---|---|---|---|
# | features for nearly everything, with few labels | DINOv2 with registers | without labels, 142 million pictures | 2304.07193, 2309.16588 |
# | the best dense features, if its licence suits you | DINOv3 | without labels, 1.7 billion pictures | 2508.10104 |
# | classes from words; search by text | SigLIP 2 | pictures with texts, a sigmoid for each pair | 2502.14786 |
# | what most code and papers compare with | CLIP | 400 million pictures with texts | 2103.00020 |
# | ImageNet's own classes, fine-tuning | DeiT III | labels of ImageNet-1k or 21k | 2204.07118 |
# | many sizes, recipes written down | AugReg ViTs | labels of ImageNet-21k | 2106.10270 |
# | a start for fine-tuning with many labels | MAE | without labels, three quarters hidden (lesson 13) | 2111.06377 |
#
# Then check four things before you begin: the **licence** (may you use it for this?), the **normalisation**, the **resolution** and
# patch size, and whether your **test pictures** could have been in its training data.

# %% [markdown] curious
# ## 10. Should I tune it?
#
# A probe changes nothing in the backbone. Tuning changes all of it, and can win or lose more (lesson 12). Here
# with the twenty photos, and *their* mean and deviation: tuned weights can adapt to these.

# %% tags=["nbval-ignore-output"]
if many and backbone.img_size == (32, 32):
    torch.manual_seed(0)
    tuned = replace_head(ours("cifar-vit").model, len(photos.classes))
    config = TrainConfig(epochs=profile.pick(smoke=1, cpu=15, gpu=15), batch_size=5, lr=5e-4, quiet=True)
    train(tuned, photos, config)
    accuracy, _ = evaluate(tuned.cpu(), drawn, kinds, photos.channel_stats())
    rows = [
        ["probe", share(right_of[len(kinds)]["photo model"], len(kinds))],
        ["tuned", share(round(accuracy * len(kinds)), len(kinds))],
    ]
    print(table(rows, ["photo model", f"{len(kinds)} more photos"]))

# %% [markdown] claim="not many or share_interval(round(accuracy * 600), 600)[0] > share_interval(right_of[600]['photo model'], 600)[1]"
# With these twenty photos and one seed tuning is better, and not by luck in the test photos: the two intervals do not overlap.
# Whether it would be on your photos, no rule says. Many probe first, then tune at a small rate, and keep whichever is better on
# held-out pictures.

# %% [markdown] curious
# ## 11. Where else are ViTs at work?
#
# **Where labels are not needed.** DINO (2104.14294) trains a *student* to say about a small crop of a picture what a *teacher* says
# about another crop of it. The teacher is a running average of the student: nobody ever names a class.
#
# ```text
# picture ──┬─ crop 1 ──> student ──> p ──┐
#           │                ·            ├── cross-entropy of p and q: gradients go to the student alone
#           └─ crop 2 ──> teacher ──> q ──┘
#                  teacher's weights = .996 · teacher's + .004 · student's, after each step
# ```
#
# JEPA (2301.08243) predicts, in place of pixels, the *features* that a slow copy of the model gives for the hidden part of a
# picture.
#
# | where | what the ViT does there | source (arXiv) |
# |---|---|---|
# | detection: ViTDet | a plain backbone; feature maps of several sizes are made of its last one | 2203.16527 |
# | segmentation: Segment Anything | an MAE-trained ViT reads the picture once, a light decoder answers each click | 2304.02643 |
# | making pictures: DiT | tokens of a noisy, compressed picture go in, the noise comes out | 2212.09748 |
# | models that see and talk: LLaVA | patch tokens of CLIP, through a small projection, become words of a language model | 2304.08485 |
#
# **Your next step.** Take thirty photos of your own: [project 1](../docs/projects.md) goes on from here.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# A classmate computes features once, with `model.train()` left on. The probe has 96 % on training features and 31 % on test
# features. What do you mend first?
#
# - [x] `eval()`, then compute the features again :: Dropout put noise into each feature, and the layer has fitted that noise.
# - [ ] a larger linear layer, or a second one after it :: It fits the training features already. More of it overfits more.
# - [ ] standardise with training and test pictures together :: That is peeking at the test pictures, and no cure for noise.

# %% [markdown] quiz
# Nearest neighbours reach 30 % and a probe on the same features 65 %. What does that say?
#
# - [x] other things weigh more in the cosine than the classes :: A probe may give weight to a few directions; a cosine weighs all alike.
# - [ ] the probe must have seen the test pictures before the test :: Perhaps, so check; but such a gap is common without any leak.
# - [ ] k was too small :: With more neighbours the same large directions decide.

# %% [markdown] quiz
# Nine of ten test photos are right. Which sentence belongs in a report?
#
# - [x] 9 of 10, interval 60 to 98 % :: It says how little ten photos can tell.
# - [ ] 90 % accuracy :: It sounds like a hundred photos.
# - [ ] clearly better than the rival's 8 of 10 :: One photo. Chance alone does that all the time.

# %% [markdown] quiz
# You want to cut out things by patch similarity. Why may the last layer of a classifier be a poor choice?
#
# - [x] only CLS had to answer :: It named the whole picture. Patch tokens are free to carry what helps CLS, in place of what is at their place.
# - [ ] the last layer has fewer tokens :: A plain ViT has the same number in every layer.
# - [ ] it is not normalised :: With the final norm, too, its mask is worse than that of block 1.

# %% [markdown] quiz
# You add the class "unicorn" to a zero-shot classifier. What do you need?
#
# - [x] a sentence, and a text tower that has met the word :: The picture tower needs no unicorn with a label.
# - [ ] some labelled pictures of unicorns, at least ten :: That would be a probe.
# - [ ] a new head for the picture tower :: The text vector takes the place of a row of the head.

# %% [markdown]
# ## Recap
#
# | what | from | shape |
# |---|---|---|
# | y | the head's input: CLS, the mean, or a learned reader | (B, D) |
# | feature | y and the mean of the patches | (B, 2D) |
# | neighbours, votes | cosines with N known pictures | (Q, k), (Q, K) |
# | probe | standardised features, one linear layer | (M, K) |
# | similarity, mask | centred patch tokens of one picture | (rows, columns) |
# | zero-shot | picture vectors and P texts for each class | (B, K) |
#
# - The head goes, the features stay. Normalisation, size and patch size belong to the weights.
# - Compare with raw pixels and an untrained model, and give counts with intervals.
# - Here the deep layers knew best what is there, and an early one where.
#
# ## Further reading
#
# - Oquab et al., *DINOv2: Learning Robust Visual Features without Supervision* (2304.07193): read section 7 for probes and neighbours done well.
# - Radford et al., *Learning Transferable Visual Models From Natural Language Supervision* (2103.00020): prompts, and where zero-shot fails.
# - Zhai et al., *LiT: Zero-Shot Transfer with Locked-image text Tuning* (2111.07991): what this lesson did in small.
# - Amir et al., *Deep ViT Features as Dense Visual Descriptors* (2112.05814): which layer knows where.
