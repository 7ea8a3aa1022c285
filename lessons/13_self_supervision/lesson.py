# ---
# title: "Self-supervision"
# promise: "Train a ViT without labels by predicting hidden patches."
# part: "III. Beyond"
# map: [patches]
# recall:
#   "02.2": "Two images are read by the same trained model. Where are their CLS tokens equal?"
#   "10.1": "You repeat a setting with six seeds in place of three, and the spread of single runs stays the same. Which number falls?"
#   "12.3": "A colleague trains only a new head and leaves the body as it is. What is this called?"
# goals:
#   - "Say what a model can learn from images without labels, and where its right answers come from."
#   - "Give an encoder only the visible patches of an image, and keep the way back."
#   - "Write the decoder that puts everything back into its place and paints what was hidden."
#   - "Measure what an encoder has learned without labels, by a linear classifier behind it."
#   - "Score predictions of hidden patches, and find the mistakes that look like success."
#   - "Judge by the rule of lesson 10 whether pre-training without labels helped."
# ---

# %% [markdown]
# ## 1. Can an image teach without a label?
#
# People looked at each of the 50,000 training images of CIFAR-10 and gave it one of ten labels. That costs money. Images
# *without* labels are everywhere. Can a model learn from them?
#
# A text model, BERT (Devlin et al., 2018), hides some words of a sentence and asks for them:
#
# > The cat drinks ▢ from a ▢.
#
# You can fill the gaps because you know cats, cups and grammar. The right answers cost nothing, because they were in the
# text. This is **self-supervised learning**, learning from a task whose answers are part of the data. Here is the same game
# with an image.

# %%
import copy
from dataclasses import replace

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vit_classroom import check, plots, table
from vit_classroom.evidence.records import caption, load_beside, load_records
from vit_classroom.evidence.statistics import difference, from_to, signed, undecided
from vit_classroom.exhibits.hidden_colours import neighbour_colours
from vit_classroom.numbers import percent
from vit_classroom.profiles import get_profile
from vit_course.attention import attention_flops
from vit_course.data import normalize, shapes10
from vit_course.extensions import masked
from vit_course.inference import probe
from vit_course.patches import patchify, unpatchify
from vit_course.recipes import RECIPES, build_model
from vit_course.train import train

photo = plots.sample_photo((64, 64))[None]  # (1, 3, 64, 64), uint8
patches = patchify(photo / 255, 8)  # (1, 64, 192): 64 patches, 192 numbers each
grey = torch.full((1, 1, 192), 0.5)
torch.manual_seed(1)
hidden = torch.rand(1, 64).argsort(dim=1) < 32  # 32 of 64 at random
holes = torch.where(hidden[..., None], grey, patches)

# %% fold
figure = plots.image_row(
    [photo[0], unpatchify(holes, 8, (8, 8))[0]],
    ["the image", "32 of 64 patches hidden"],
    "What was in the grey squares?",
)
plots.show(
    figure, "The portrait of Grace Hopper, and the same portrait with a random half of its 64 patches grey."
)

# %% [markdown]
# To guess a square well, you must know that skin continues as skin and that a cap has an edge. That is knowledge about
# images, and it needs no label. So yes, an image can teach.
#
# The plan has two steps. **Pre-train** the body of a ViT on hidden patches, with many images and no labels. Then
# **fine-tune** it on another task with few labels (lesson 12).
#
# ## 2. What should the encoder read?
#
# How many patches should we hide? Neighbouring patches resemble each other much more than neighbouring words do. If few are
# hidden, each hole has its answer right beside it. So **masked autoencoders** (MAE, He et al., 2022) hide 75 %.
#
# The encoder then reads the visible quarter and nothing else. A second, small Transformer, the **decoder**, gets one more token
# for each hole and paints the holes. After pre-training it is thrown away.

# %% fold
plots.show(
    plots.masking_diagram(),
    "From bottom to top: eight patches; two of them go through the encoder; their two results go back to their places, "
    "mask tokens fill the other six; the decoder reads all eight and predicts the six.",
)

# %% [markdown]
# Two things must be right. The tokens get their positions *before* the hidden ones are dropped, because afterwards
# nobody knows where they came from. And there must be a way back, because the decoder reads all N tokens in reading
# order.
#
# **Your task.** Write `keep_visible`. Draw a random order of the patches for each image, keep the first ones, and return the
# way back, which is the inverse of that order. Counting and the error are given.

# %% exercise="vit_course.extensions.masked:keep_visible" difficulty=2 minutes=8 hint="Sorting random numbers gives a random order. `argsort` says which patch is at place i. What does `argsort` of that order say?" hint2="One order per image serves both results. Its first K columns say which tokens to take, and `gather` along axis 1 takes them if its index has an axis of width D too. The inverse says, for each patch, at which place it is."
from vit_course.extensions.masked import keep_visible

keep_visible = check(keep_visible)

# %% [markdown]
# Try your function on the pixels of the portrait. 16 of the 64 patches stay visible, in random order. We append 48
# grey patches, and put all 64 back into reading order.

# %%
torch.manual_seed(3)
visible, restore = keep_visible(patches)  # (1, 16, 192) and (1, 64)
row = torch.cat([visible, grey.expand(1, 64 - 16, -1)], dim=1)  # visible ones first, then the holes
back = row.gather(1, restore[..., None].expand_as(row))  # in reading order
print("patches in their own place:", (back == patches).all(dim=-1).sum().item(), "of 64")

# %% fold
sheets = [photo[0], unpatchify(visible, 8, (4, 4))[0], unpatchify(back, 8, (8, 8))[0]]
plots.show(
    plots.image_row(
        sheets, ["the image", "the visible ones, as drawn", "put back"], "A quarter of the portrait"
    ),
    "The portrait; its 16 visible patches in random order, as a small square; and the same patches in their places, with "
    "grey between them.",
)

# %% [markdown] always claim="(back == patches).all(dim=-1).sum() == 16"
# All sixteen are where they belong.
#
# > **Predict.** The encoder reads a quarter of the tokens. Is that a quarter of its work, more, or less?

# %%
work = {}  # GFLOP of ViT-B/16: attention (lesson 04) and the two layers of the MLP, in 12 blocks of width 768
for read in (196, 49):
    work[read] = 12 * (attention_flops(read + 1, 768) + 16 * (read + 1) * 768**2) / 1e9
    print(f"{read} patches and CLS: {work[read]:.1f} GFLOP, {percent(work[read] / work[196])} of the work")

# %% [markdown] always claim="0.2 < work[49] / work[196] < 50 / 197"
# The encoder's share of the work is a little below its share of the tokens, 50 of 197, because the cost of attention
# grows with the square of the number of tokens.
#
# > **Key idea.** The encoder reads only what is visible. So it does a quarter of the work, and it never sees mask
# > tokens, which do not exist in fine-tuning.
#
# ## 3. Who paints the holes?
#
# The decoder does. It has its own width W and its own positions. For K visible of N patches:
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
# The **mask token** is *one* learned vector, the same for all holes.
#
# > **Trap.** All mask tokens are equal. What makes one paint sky and another grass? Its position does, so it must be the position
# > of its *patch*. First comes the reading order, then come the positions.
#
# **Your task.** Write the `forward` of `PixelDecoder`.

# %% exercise="vit_course.extensions.masked:PixelDecoder.forward" difficulty=2 minutes=10 hint="Follow the table from top to bottom. `self.mask_token.expand(B, N - K, -1)` makes many of one, and `torch.cat` along axis 1 puts them after the visible ones." hint2="The way back is the line that led the portrait back in section 2. After it every token is at the place of its patch, so `self.pos_embed` fits as it is. What follows is the end of a ViT, the blocks, the norm and a linear layer."
from vit_course.extensions.masked import PixelDecoder

PixelDecoder = check(PixelDecoder)

# %% [markdown]
# Your two parts and a ViT make a masked autoencoder. Its loss is the squared error of the pixels of the *hidden* patches. We
# train it on Shapes-10, and nobody reads the labels.
#
# > **Predict.** A quarter of each image is visible. What will be painted well, and what will not?


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


def paint_objective(forward, images, labels):
    """Return the squared error on the hidden patches, and the share of their variance that is explained."""
    pixels, hidden = forward(images)
    wanted = patchify(images, 4)[hidden]
    loss = (pixels[hidden].float() - wanted).square().mean()
    return loss, (1 - loss.detach() / wanted.var()).clamp(min=0)


profile = get_profile()
shapes = shapes10(
    train=profile.pick(smoke=320, cpu=5_000, gpu=20_000), test=profile.pick(smoke=100, cpu=1_000, gpu=2_000)
)
torch.manual_seed(0)
vit = build_model("Nano/4", shapes)
untrained = copy.deepcopy(vit)  # for section 4
painter = MaskedAutoencoder(vit, PixelDecoder(96, 64, 4 * 4 * 3, width=48, depth=1))
epochs = profile.pick(smoke=1, cpu=6, gpu=40)
recipe = replace(RECIPES["adamw"], epochs=epochs, batch_size=64, lr=2e-3, quiet=True)
train(painter, shapes, recipe, objective=paint_objective)

# %% [markdown]
# Is the error small? That depends on what is easy. A rival that learns nothing gives each hole the mean colour of its visible
# neighbours.

# %% fold tags=["nbval-ignore-output"]
painter = painter.cpu().eval()
images = normalize(shapes.test_images[:500], *shapes.channel_stats())
with torch.no_grad():
    guess, hidden = painter(images)
right = patchify(images, 4)
seen, near = (~hidden)[..., None], neighbour_colours(images, 4, hidden)
near = rearrange(near, "b c h w -> b (h w) c").repeat(1, 1, 4 * 4)  # one colour for all pixels of a patch
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
        ["images", "visible", "holes painted by your decoder"],
        "What can be told from a quarter?",
        height=2.6,
    ),
    "Four images of Shapes-10, three times: untouched; a quarter of their patches; and these with the decoder's pixels in the "
    "holes: grounds are right, objects are pale blurs.",
)

# %% [markdown] claim="errors['your decoder'] < 0.9 * errors['the mean colour of visible neighbours']"
# The decoder beats its rival. The background comes back, with a pale blur where the object is. Stripes and outlines
# do not come back.
#
# Why the blur? If a hole is either blue sky or red roof, the smallest squared error is at the mean of the two, which is violet
# and never right. Where several outlines are possible, their mean is a blur. But we do not want the paintings. We want the
# encoder.
#
# ## 4. Did the encoder learn to see?
#
# It has never been told that there are ten shapes. Does its output say more about the shape than before? We **freeze** the
# encoder and train a linear classifier on the mean of its patch tokens (a linear probe, lesson 12). Everything that the
# classifier can use must be in these 96 numbers already.
#
# > **Predict.** Guessing gives 10 %. What will the encoder reach before pre-training, and what after it?


# %% tags=["nbval-ignore-output"]
class MeanToken(nn.Module):
    """The mean of the patch tokens, (B, D), of a ViT that reads whole images."""

    def __init__(self, vit):
        super().__init__()
        self.vit = vit

    def forward(self, images):
        return self.vit.encode(self.vit.patch_embed(images))[:, 1:].mean(dim=1)


seen_by_probe = normalize(shapes.train_images[:3_000], *shapes.channel_stats())
new = normalize(shapes.test_images, *shapes.channel_stats())
scores = {}
for name, encoder in {"before pre-training": untrained, "after pre-training": painter.vit}.items():
    logits = probe(MeanToken(encoder), seen_by_probe, shapes.train_labels[:3_000], new)
    scores[name] = (logits.argmax(dim=1) == shapes.test_labels).float().mean().item()
table([[name, percent(score)] for name, score in scores.items()], ["encoder", "right on new images"])

# %% [markdown] always claim="scores['before pre-training'] < 0.2"
# Before pre-training the classifier is hardly better than guessing.

# %% [markdown] claim=["scores['after pre-training'] > scores['before pre-training'] + 0.04", "scores['after pre-training'] < 0.5"]
# After pre-training the classifier is right more often, by several points, although the encoder has not seen a single
# label. So **a task without labels teaches too.**
#
# It is still far from a good classifier, because the task decides what is learned. A background has many pixels and an
# outline has few, so the squared error asks for the background first.
#
# ## 5. What did the ViT paper predict?
#
# One year before MAE, the paper tried **masked patch prediction** (section 4.6, appendix B.1.2). It differs from MAE in
# four ways.
#
# | | the paper | MAE |
# |---|---|---|
# | hidden | 50 % of the patches | 75 % |
# | the encoder reads | all N tokens, the corrupted ones too | only the visible ones |
# | who predicts | one linear layer | the decoder |
# | target | the class of the mean colour | all pixels |
#
# **Colour classes.** Classes avoid the violet mean of section 3. A model can say "half blue, half red", and
# cross-entropy rewards it. The mean of each channel, in 0..255, becomes one of 8 levels of 32 values each (3 bits).
# Three levels make one of $8^3 = 512$ classes:
#
# $$k = 64\,\ell_{red} + 8\,\ell_{green} + \ell_{blue}$$
#
# **Corruption.** Half of the patches are chosen at random. Of their tokens, 80 % become the mask token, 10 % become
# the token of *another* patch, and 10 % stay as they are. So the model cannot trust a visible token, and has to check
# it against its neighbours.


# %% fold
def paint(classes, patch_size, grid):
    """Paint classes (B, N) as images (B, 3, H, W), every patch in the colour of its class."""
    colours = rearrange(masked.class_colours(classes), "b (h w) c -> b c h w", h=grid[0])
    return colours.repeat_interleave(patch_size, dim=2).repeat_interleave(patch_size, dim=3)


torch.manual_seed(4)
corrupted, _ = masked.corrupt(patches, grey)
classes = {P: masked.colour_classes(photo, P) for P in (8, 2)}
sheets = [
    unpatchify(corrupted, 8, (8, 8))[0],
    *(paint(k, P, (64 // P, 64 // P))[0] for P, k in classes.items()),
]
plots.show(
    plots.image_row(
        [photo[0], *sheets],
        ["the image", "corrupted", "classes, P = 8", "classes, P = 2"],
        "What the model reads, and what it is to say",
    ),
    "The portrait; with half of its patches corrupted, most of them grey and a few copies of other patches; and every patch of "
    "8, then of 2 pixels, in the colour of its class.",
)

# %% [markdown]
# A linear layer gives K = 512 logits for every patch. Which patches enter the loss? All chosen ones, and no others,
# because the others can be copied:
#
# $$\mathcal{L} = -\frac{1}{|M|} \sum_{i \in M} \log p_i(k_i)$$
#
# M holds the chosen patches of the whole batch, $|M|$ is their number, $k_i$ is the right class of patch i, and $p_i$
# the softmax of its logits.
#
# **Your task.** Write `masked_loss`. Images may differ in the number of their chosen patches, but each *patch* weighs
# the same.

# %% exercise="vit_course.extensions.masked:masked_loss" difficulty=2 minutes=6 hint="`F.cross_entropy` can give one loss for each patch with `reduction='none'`, or you select the corrupted patches first. `logits[chosen]` is (number of corrupted, K)." hint2="`chosen` selects rows of the classes in the same way. If you keep one loss for each patch instead, `F.cross_entropy` wants the K scores on axis 1, and the mean must count the corrupted patches alone."
from vit_course.extensions.masked import masked_loss

masked_loss = check(masked_loss)

# %% [markdown]
# > **Predict.** A model copies with certainty every patch that it can see, and gives all classes of a hidden one the
# > same probability. Half of the patches are hidden. What is its loss? And what would it be if all patches counted?

# %%
torch.manual_seed(0)
chosen = torch.rand(2, 64).argsort(dim=1) < 32
classes = torch.randint(0, 512, (2, 64))
copies = torch.where(chosen[..., None], 0.0, 20.0 * F.one_hot(classes, 512))
rows = [
    ["ln 512, the loss of a guess", torch.tensor(512.0).log().item()],
    ["the copying model", masked_loss(copies, classes, chosen).item()],
    [
        "the copying model, if all patches counted",
        masked_loss(copies, classes, torch.ones_like(chosen)).item(),
    ],
]
table(rows, ["", "loss"])

# %% [markdown] always claim="abs(rows[1][1] - rows[0][1]) < 0.01 and abs(rows[2][1] / rows[0][1] - 0.5) < 0.01"
# The right loss is ln 512, because the model has learned nothing. The wrong one is half of it, and would look like progress.
#
# A second mistake looks even better. The classes are for pixels in 0..255, but training code holds *normalised* images, with
# mean 0 and deviation 1.
#
# > **Predict.** Somebody feeds normalised images to `colour_classes`, and nothing complains. How many classes does the photo
# > have then?

# %%
stats = torch.tensor([0.5, 0.4, 0.4]), torch.tensor([0.25, 0.25, 0.25])
given = {"pixels in 0..255": photo, "normalised": normalize(photo, *stats), "in 0..1": photo / 255}
found = {name: len(masked.colour_classes(images, 4).unique()) for name, images in given.items()}
table(list(found.items()), ["images", "different classes, P = 4"])

# %% [markdown] always claim="found['normalised'] < 10 and found['in 0..1'] == 1 and found['pixels in 0..255'] > 5 * found['normalised']"
# > **Trap.** With normalised images all patches have the same class. The loss falls to 0 at once, it looks like a triumph, and the
# > model learns nothing.
#
# ## 6. Does it save labels?
#
# That is the question behind all this. A minute of training is too little for an answer, so we read recorded runs. ViTs
# learned the paper's task on all 50,000 images of CIFAR-10, without labels. Then the body was fine-tuned with 1 % or 10
# % of the labels. There are two rivals, both from scratch on the same labelled images. One rival takes the *same number
# of steps* as pre-training and fine-tuning together, and the other takes fewer steps.
#
# > **Predict.** By how many points is the pre-trained body ahead of each rival, or behind it?

# %% fold tags=["nbval-ignore-output"]
RIVALS = {"nothing": "same number of steps", "vit": "fewer steps"}
records = load_records("masked")
runs = {}
for run in records + load_beside(records, "fractions-first"):
    key = run["step"].rsplit("-", 1)[0], run["fraction"]
    runs.setdefault(key, []).append(100 * run["test_accuracy"])
gaps, rows = {}, []
for share in sorted({run["fraction"] for run in records}):
    for rival, name in RIVALS.items():
        gap, low, high = gaps[rival, share] = difference(runs["colours", share], runs[rival, share])
        result = "no difference shown" if undecided(low, high) else "better" if gap > 0 else "worse"
        rows.append([f"{100 * share:g} %", name, signed(gap), from_to(low, high), result])
print(caption(records) if records else "No records are here yet: python -m experiments masked")
table(
    rows, ["labels", "rival from scratch", "pre-trained minus rival, points", "95 % interval", "pre-trained"]
)

# %% fold tags=["nbval-ignore-output"]
if records:
    names = [f"{100 * share:g} % of the labels, {RIVALS[rival]}" for rival, share in gaps]
    figure = plots.dots(
        {"pre-trained minus rival": (names, [gap for gap, _, _ in gaps.values()])},
        "",
        "points of test accuracy",
    )
    axis = figure.axes[0]
    axis.hlines(
        names, [low for _, low, _ in gaps.values()], [high for _, _, high in gaps.values()], lw=2, alpha=0.5
    )
    axis.axvline(0, color="0.6", lw=1, ls=":")
    axis.set_title("How far is pre-training without labels ahead?")
    plots.show(
        figure,
        "Four differences with their intervals. Against a rival with fewer steps the one for 1 % of the labels is above 0 and the "
        "one for 10 % just below it. Against the same number of steps both intervals contain 0.",
    )

# %% [markdown] always claim=["[row[-1] for row in rows] == ['no difference shown', 'better', 'no difference shown', 'worse']", "5 <= gaps['vit', 0.01][0] < 5.5 and -1.5 < gaps['vit', 0.1][0] < -0.5", "3 < gaps['nothing', 0.01][0] < 4", "records[0]['pretraining']['test_accuracy'] > 0.35"]
# Against a rival with *fewer* steps, pre-training is five points better with 1 % of the labels, and one point worse with 10 %. A
# report without the other rival would stop here and say that self-supervision helps where labels are few.
#
# Against the *same number of steps*, three seeds do not show a difference. The gap at 1 % is more than three points, but its
# interval contains 0. So more seeds are needed. Fine-tuning also used half the learning rate of its rivals, and we tuned neither.
#
# So these runs do not show whether the task teaches more than the same number of steps on the labelled images.

# %% [markdown] curious
# ## 7. What did the paper find, and what came next?
#
# The paper's numbers are for ViT-B/16 (section 4.6, appendix B.1.2):
#
# - It was *pre-trained* on the images of JFT without their labels, for a million steps of 4,096 images (about 14 epochs), then
#   *fine-tuned* on ImageNet. It reached **79.9 %**, 2 points above training from scratch, and 4 points *below* supervised
#   pre-training.
# - Less is enough. After 100,000 steps the gains level off, and the images of ImageNet itself serve about as well.
# - Three targets "worked quite well": the mean colour, the patch shrunk to 4x4 pixels with a class for each, and all pixels with a
#   squared error, which was slightly worse. The mean colour was best with few labels.
# - 15 % corruption, as in BERT, was slightly worse than 50 %.
#
# What came next? A ViT-B/16 that is pre-trained as an MAE reaches 83.6 % on ImageNet. Its target is normalised, each patch by
# its own mean and deviation. **BEiT** (2021) predicts learned classes in place of colours. **DINO** and **MoCo v3** (2021) hide nothing. They
# ask that two views of one image get similar features. Features of the DINO family are a usual choice today for tasks without
# labels.
#
# A small data set is no obstacle in principle. Gani et al. report 96.41 % on CIFAR-10 for a plain ViT of 2.8 million
# parameters that first learns without labels *on CIFAR-10 itself*, by another method. From scratch it reaches 93.58 %.
#
# **Your next step.** Change one thing and measure. For example, hide half with `keep_visible(tokens, 0.5)`, and look at the
# probe of section 4. Write down first what you expect.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# Where do mask tokens enter a masked autoencoder?
#
# - [x] in the decoder, after the visible tokens :: Each gets the position of its patch there. The encoder never reads one.
# - [ ] in the encoder, in the places of the hidden patches :: That is the paper's masked patch prediction.
# - [ ] nowhere, because hidden patches are left out :: They are left out of the encoder. The decoder needs a token for each patch that it paints.

# %% [markdown] quiz
# An MAE gets `order` (B, N) from `torch.rand(B, N).argsort(1)` and keeps `order[:, :K]`. It uses `order` itself as `restore`. What happens?
#
# - [x] tokens go to wrong places :: `order` tells which patch is at a place of the row. The way back is its inverse, `order.argsort(1)`. No shape complains.
# - [ ] nothing, because an order is its own inverse :: Only an order that swaps pairs is. A random one is not.
# - [ ] an error, because the shapes do not fit :: Both are (B, N).

# %% [markdown] quiz
# A patch was drawn for corruption, and by chance it was left as it is. Does it enter the loss?
#
# - [x] yes, like all drawn ones :: The model cannot know that it was left. A kept patch and a swapped one look the same to it.
# - [ ] no, because it can be copied :: That is true of patches that were *not* drawn. They never count.
# - [ ] only if it is predicted wrongly :: Right answers count too, because they may still be unsure.

# %% [markdown] quiz
# In the first minute of pre-training with colour classes the loss falls to 0.01. What do you suspect?
#
# - [x] targets of normalised images :: All patches then have the same class.
# - [ ] a model that is strong for its size :: Much of what is hidden cannot be known, so no model gets there.
# - [ ] a learning rate that is too small :: The loss would stay near ln 512.

# %% [markdown] quiz
# A pre-trained model beats one from scratch that took a third of the steps. What do you still need?
#
# - [x] a rival with the same number of steps :: Without it, the longer training may explain the gain.
# - [ ] nothing, because pre-training used no labels :: It used time, and more time on the labelled images may help as well.
# - [ ] more test images, because the gap may be chance :: Seeds and test images matter too, but no number of them makes the steps equal.

# %% [markdown]
# ## Recap
#
# | what | shape | note |
# |---|---|---|
# | visible tokens | (B, N/4, D) | with positions, without holes |
# | `restore` | (B, N) int64 | the place of each patch in the row of visible and hidden ones |
# | predicted pixels | (B, N, P²C) | by the decoder, which is thrown away later |
# | colour classes | (B, N) int64 | 64·red + 8·green + blue, from pixels in 0..255 |
# | logits of the paper's task | (B, N, 512) | the loss counts all chosen patches, no others |
#
# - Self-supervision takes its answers from the data, and leaves the labels for later.
# - An encoder need not read what is hidden. A decoder puts it back.
# - Compare with a rival that learns nothing, and with a rival that took the same number of steps.
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
#
# **Next.** Use `order` in place of `restore`, and tokens go to wrong places, but all shapes fit and no error appears.
# How do you find a bug that raises no error? Lesson 14 sends you a ViT full of such bugs.
