# ---
# title: "Start here"
# promise: "You get to know the course, the tensors and the pictures, and you watch a Vision Transformer learn in a few minutes."
# part: "I. Build it"
# goals:
#   - "Do an exercise, read what the check says, and go on whether or not you solved it."
#   - "Name the axes of a batch of images, and rearrange them with einops."
#   - "Normalise pictures, and say why."
#   - "Say what a Vision Transformer does with a picture, and what its accuracy is to be compared with."
# ---

# %% [markdown]
# ## 1. What will you have at the end?
#
# Look at the picture above. On the left a portrait is cut into squares; on the right a model names drawings, and below each
# drawing only the places where it looked are bright. By the end of lesson 06 you will have such a model, and you will have
# written it yourself, every part of it, and the loop that trains it too.
#
# It is a **Vision Transformer**, ViT for short. In 2020 a group of researchers asked: what if a computer read an image as it reads
# a sentence? They cut the image into small squares, treated the squares as words, and gave them to the Transformer, the model that
# had changed the reading of text. Trained on enough images, it recognised objects a little better than the best models of its time.
#
# Three sentences say what it does. It cuts the image into **patches** and turns each into a **token**, a list of numbers.
# In **attention** the tokens look at each other, again and again. At the end one token goes to the **head**, which gives
# one score for each class. You need not learn these words now: each of them becomes an exercise.
#
# | part | lesson | what you write |
# |---|---|---|
# | patches, and their way to tokens | 01 | `patchify`, `PatchEmbed` |
# | the CLS token, and who reads it | 02 | `prepend_cls_token`, `pool` |
# | positions | 03 | `learned_positions`, `add_position` |
# | attention with many heads | 04 | `scaled_dot_product_attention`, `split_heads`, `merge_heads`, `MultiHeadAttention` |
# | one block of the encoder | 05 | `layer_norm`, `Mlp`, `drop_path`, `Block` |
# | the whole model, with its head | 06 | `MiniViT` |
# | the loop that trains it, and its score | 06 | `train_one_epoch`, `accuracy` |
#
# PyTorch gives you what is below that: single layers such as `nn.Linear`, gradients, and the rule by which weights
# change. You should know Python, and have met PyTorch tensors, a loss and its gradient once before.
#
# ## 2. Is this machine ready?
#
# The doctor looks at your machine. Every line should begin with `ok`. If one does not, the line below it says how to
# mend it. A warning (`warn`) is not a problem: everything in lessons 00 to 06 runs without a GPU and without a network.

# %%
from dataclasses import replace

import torch
from einops import rearrange, reduce, repeat

from vit_classroom import check, doctor, plots, table
from vit_classroom.checks import diagnose
from vit_classroom.checks.verdict import say
from vit_classroom.numbers import minutes, percent
from vit_course.data import download_cifar10, load_dataset, shapes10
from vit_course.training.device import get_device
from vit_course.training.profiles import get_profile
from vit_course.recipes import MODELS, RECIPES, build_model
from vit_course.train import TrainConfig, linear_classifier, train

# %% tags=["nbval-ignore-output"]
doctor.report(doctor.run())

# %% [markdown]
# ## 3. How do the exercises work?
#
# Every exercise is a cell with a function that is not written yet. Its **docstring**, the text in triple quotes, is
# the task. The last line of the cell hands your function to a check:
#
# - **right**: the lesson goes on with *your* function. It is also kept in the folder `answers/`, and the model of lesson 06
#   will be made of your own parts.
# - **not written yet**: the lesson goes on with the finished version. You are never stuck.
# - **not right yet**: the check says *what* is wrong, and the lesson goes on with the finished version.
#
# Change the cell and run it as often as you like. Above each exercise you find its difficulty, the minutes it may take,
# two folded hints, and a link to the solution. Try for those minutes before you open a hint.
#
# This is what a check says. Here is a wrong answer to an exercise of lesson 01, on purpose. (How it works does not matter
# yet.) `diagnose` finds the verdict and `say` shows it; in an exercise, `check` does both and notes the verdict.


# %%
def patchify(images, patch_size):
    """Cut images into patches; this answer is wrong."""
    batch, channels, height, width = images.shape
    return images.reshape(batch, -1, patch_size * patch_size * channels)


say(diagnose(patchify), None)

# %% [markdown]
# The solved notebooks lie in the folder `solutions/`, with every picture and number, to compare with yours.
#
# ## 4. What is a tensor, and what are its axes?
#
# All data in this course are **tensors**: tables of numbers with any number of axes. The **shape** says how long each axis
# is. A batch of colour pictures has four axes, and the whole course calls them by the same letters:
#
# | letter | axis | here |
# |---|---|---|
# | B | images in the batch | 64 |
# | C | channels: red, green, blue | 3 |
# | H | height in pixels | 32 |
# | W | width in pixels | 32 |

# %%
dataset = shapes10(train=8000, test=2000)
pictures = dataset.train_images[:64]
print("shape (B, C, H, W):", tuple(pictures.shape))
print("kind of numbers:", pictures.dtype, "from", pictures.min().item(), "to", pictures.max().item())
print("one pixel of the first picture (red, green, blue):", pictures[0, :, 16, 16].tolist())

# %% [markdown]
# Most mistakes with tensors are mistakes with axes. **einops** is a small library that makes axes visible: you write
# the axes before and after, with names of your own.
#
# **`rearrange`** changes the order of axes, and joins or splits them. Nothing is lost, nothing is computed.

# %%
table(
    [
        ["channels last", "b c h w -> b h w c", tuple(rearrange(pictures, "b c h w -> b h w c").shape)],
        [
            "one row per image",
            "b c h w -> b (c h w)",
            tuple(rearrange(pictures, "b c h w -> b (c h w)").shape),
        ],
        [
            "8 groups of 8",
            "(r k) c h w -> r k c h w",
            tuple(rearrange(pictures, "(r k) c h w -> r k c h w", r=8).shape),
        ],
    ],
    ["what", "pattern", "shape"],
)

# %% [markdown]
# Brackets mean *one axis made of several*. `(c h w)` is one axis of 3·32·32 = 3,072 numbers. `(r k)` is one axis of r·k
# numbers that you look at as r groups of k.
#
# > **Key idea.** In a bracket the right letter runs fast: counted from 0, with k = 8, picture 9 is in group 1 at place 1.
#
# **`reduce`** takes axes away: what stands on the left and not on the right is averaged (or summed, or the largest is
# taken). **`repeat`** adds axes: what stands on the right and not on the left is copied.

# %%
values = pictures.float()
print("one mean per channel:   ", tuple(reduce(values, "b c h w -> c", "mean").shape))
smaller = reduce(values, "b c (h h2) (w w2) -> b c h w", "mean", h2=4, w2=4)
print("4x4 pixels made one:    ", tuple(smaller.shape))
enlarged = repeat(smaller, "b c h w -> b c (h h2) (w w2)", h2=4, w2=4)
print("and each pixel 16 times:", tuple(enlarged.shape))
print("grey to three channels: ", tuple(repeat(values[:, 0], "b h w -> b c h w", c=3).shape))

# %% fold
figure = plots.image_row(
    [pictures[0], pictures[0].float()[:1] / 255, enlarged[0] / 255, pictures[0].flip(-1)],
    ["the picture", "red channel alone", "reduce, then repeat", "width backwards"],
    "One picture and three operations on its axes",
)
plots.show(
    figure,
    "A small generated picture of a shape; its red channel in grey; a version of 8 by 8 large pixels; its mirror image.",
)

# %% [markdown]
# We want to see many pictures at once: a contact sheet, 64 small pictures as one large picture of 4 rows and 16 columns.
#
# **Your task.** Write `image_grid`, which makes such a sheet. It is one `rearrange`. Think about which of two joined axes
# is the slow one: going down the large picture by one pixel usually stays inside the same small picture.

# %% exercise="vit_classroom.plots.pictures:image_grid" difficulty=2 minutes=12 hint="The large picture has three axes: c, its height and its width. Its height is made of two axes: the row of the sheet, and the height inside a small picture. Its width likewise." hint2="The batch is split into r rows of k columns, `(r k) c h w` on the left, with `k=columns`. On the right come c, a bracket of r and h, and a bracket of k and w. In each of them the slow letter stands first."
from vit_classroom.plots.pictures import image_grid

image_grid = check(image_grid)

# %%
sheet = image_grid(pictures, columns=16)
print("sheet (C, H, W):", tuple(sheet.shape))

# %% fold
figure = plots.image_row(
    [sheet], ["4 rows of 16 pictures"], "What do 64 pictures of Shapes-10 look like?", height=4
)
figure.set_size_inches(9, 2.9)
plots.show(
    figure, "A contact sheet of 4 rows and 16 columns of small coloured shapes on textured backgrounds."
)

# %% [markdown]
# ## 5. What do the pictures look like to a model?
#
# **CIFAR-10** holds 60,000 real photographs of 32x32 pixels in ten classes (airplane, automobile, bird, cat, deer, dog, frog,
# horse, ship, truck), 50,000 for training and 10,000 for testing. **Shapes-10** is the course's own: ten classes of drawn
# shapes, in any colour, at any place, with textures and noise. It needs no file.
#
# **Do you want real pictures?** Change `False` to `True` in the next cell and run it. It downloads CIFAR-10, 170 MB, once, and
# all lessons find it from then on. `.venv/bin/python -m vit_course data` does the same in a terminal. Nothing is downloaded
# unless you ask, and without CIFAR-10 the course uses Shapes-10. `load_dataset()` takes what is there, and says what it took:

# %% tags=["nbval-ignore-output"]
download = False
if download:
    download_cifar10()
print(load_dataset().provenance)

# %% fold
one_of_each = [dataset.train_images[dataset.train_labels == label][0] for label in range(10)]
figure = plots.image_row(one_of_each, list(dataset.classes), "The ten classes of Shapes-10", height=1.5)
plots.show(
    figure,
    "One example of each class: arrow, circle, crescent, cross, diamond, heart, ring, square, star, triangle.",
)

# %% [markdown]
# Each value is a whole number from 0 to 255. Such numbers make training hard: none is negative, many are large, and the
# first layer would have to undo this. So the pictures are **normalised**, channel by channel:
#
# $$x' = \frac{x - \mu_c}{\sigma_c}$$
#
# where x is a pixel value in 0..1 (so divide by 255 first), $\mu_c$ is the mean of channel c over all *training*
# pictures, and $\sigma_c$ its standard deviation. Afterwards each channel has mean 0 and deviation 1. Test pictures are normalised
# with the same numbers: the model must not know anything about them in advance.

# %%
mean, std = dataset.channel_stats()
table(
    [
        [name, *pair]
        for name, *pair in zip(("red", "green", "blue"), mean.tolist(), std.tolist(), strict=True)
    ],
    ["channel", "mean", "deviation"],
)

# %% [markdown]
# > **Trap.** `mean` has the shape (C,), the images have the shape (B, C, H, W), and PyTorch lines shapes up *from the
# > right*. So a mean of shape (C,) meets the width W, not the channels. How do you bring it to the right place?
#
# **Your task.** Write `normalize`, for pictures of either kind: whole numbers (uint8), or floats that are in 0..1 already. The
# lines that refuse a wrong number of means are given.

# %% exercise="vit_course.data.dataset:normalize" difficulty=2 minutes=10 hint="Two steps: numbers in 0..1, then the formula. What tells the two kinds of pictures apart is `images.dtype`, not their values." hint2="`images.float() / 255` for uint8, `images.float()` for the others. Then give mean and std the shape (C, 1, 1), `mean.view(-1, 1, 1)`: an axis of length 1 fits any length."
from vit_course.data.dataset import normalize

normalize = check(normalize)

# %%
sample = dataset.train_images[:1000]  # all 8,000 as floats, and copies on the way, would need 300 MB
normalized = normalize(sample, mean, std)
for name, channel in zip(("red", "green", "blue"), normalized.unbind(1), strict=True):
    print(f"{name:6} mean {channel.mean().item():.2f}, deviation {channel.std().item():.2f}")

# %% fold
figure = plots.value_histograms(
    {"as stored, divided by 255": sample.float() / 255, "normalised": normalized},
    "Where do the pixel values lie, before and after?",
    "pixel value",
)
plots.show(
    figure, "Two histograms: stored values fill 0 to 1; normalised ones lie around 0, from -1.3 to 3.1."
)

# %% [markdown]
# The values now lie around zero. Their means are close to 0, not equal to it: these are 1,000 of the 8,000 pictures on which
# they were measured.
#
# ## 6. Does such a model learn?
#
# Now we run the whole thing once. You know no line of this model yet; by the end of lesson 06 you will have written it.
# With real pictures it trains on all 50,000 of CIFAR-10, by a recipe made for a few minutes (lesson 16 shows what is in it).
# Without them, it trains on the 8,000 drawings of Shapes-10, where "Nano/8" is enough: three blocks, tokens of 96 numbers
# (that is "Nano"), and patches of 8x8 pixels.
#
# How much is trained depends on the **profile**: `smoke` (seconds, for automatic tests), `cpu` or `gpu`. It is
# chosen from your machine; the environment variable `VIT_COURSE_PROFILE` overrides it. `train`, the loop of the course,
# says beforehand how long it will take on *your* machine.
#
# An accuracy means little without something to compare it with. So a second model gets the same pictures: a **linear
# classifier**, one matrix that turns the pixels into ten scores.
#
# > **Predict.** Guessing is right 10 % of the time. How often will the linear classifier be right on new pictures,
# > and how often the ViT? Write two numbers down before you run the cell.

# %% tags=["nbval-ignore-output"]
profile, data = get_profile(), load_dataset()
drawn, pick = data.classes == dataset.classes, profile.pick
if profile.name == "smoke":
    data = data.subset(320, 100)
print("profile:", profile.name, "- device:", get_device())

torch.manual_seed(0)
simple = train(
    linear_classifier(data),
    data,
    TrainConfig(epochs=pick(smoke=1, cpu=5, gpu=5), batch_size=64, precision="float32"),
)
if drawn:
    vit = build_model("Nano/8", data)
    config = TrainConfig(epochs=pick(smoke=1, cpu=10, gpu=20), batch_size=64, lr=2e-3, precision="float32")
else:
    name, options = MODELS["quick"]
    vit = build_model(name, data, **options)
    config = replace(RECIPES["quick"], epochs=pick(smoke=0.5, cpu=2, gpu=7.5))
history = train(vit, data, config)

# %% fold tags=["nbval-ignore-output"]
epochs = [min(epoch, config.epochs) for epoch in range(1, len(history.train_accuracy) + 1)]
ends, guessing = [epochs[0], epochs[-1]], 1 / len(data.classes)
figure = plots.curves(
    {
        "ViT, on training pictures": (epochs, [100 * a for a in history.train_accuracy]),
        "guessing": (ends, [100 * guessing] * 2),
        "linear classifier, on new pictures": (ends, [100 * simple.test_accuracy] * 2),
    },
    "Does a small ViT learn to name pictures?",
    "epoch (pass over the training pictures)",
    "accuracy in %",
)
plots.show(
    figure,
    "The ViT on its training pictures, epoch by epoch, and two flat lines: guessing, and the linear classifier on new ones.",
)

# %% tags=["nbval-ignore-output"]
table(
    [
        ["guessing", percent(guessing), ""],
        ["linear classifier", percent(simple.test_accuracy), minutes(simple.seconds)],
        ["ViT", percent(history.test_accuracy), minutes(history.seconds)],
    ],
    ["model", "right on new pictures", "trained for"],
)

# %% [markdown] claim=["history.test_accuracy > 3 * guessing", "history.test_accuracy > simple.test_accuracy + 0.1"]
# The plot shows the ViT on pictures that it trains on; the table is the fair comparison, on new ones. There the ViT is far
# better than guessing, and far better than one matrix. The linear classifier can only ask "how bright is it
# here?", and a thing may be anywhere, in any colour. The ViT compares parts of the picture with each other. How it does this
# is what the course is about.
#
# See what it says about pictures that it has never seen:

# %% tags=["nbval-ignore-output"]
examples = data.test_images[:10]
with torch.no_grad():
    inputs = normalize(examples, *data.channel_stats()).to(next(vit.parameters()).device)
    scores = vit.eval()(inputs).softmax(dim=-1).cpu()
print(
    "picture 0: most likely class, and its share:", data.classes[scores[0].argmax()], percent(scores[0].max())
)

# %% fold tags=["nbval-ignore-output"]
answers = zip(scores.argmax(1), scores.amax(1), data.test_labels[:10], strict=True)
titles = [
    f"{data.classes[label]}?\n{share:.0%} {'yes' if label == truth else 'no: ' + data.classes[truth]}"
    for label, share, truth in answers
]
plots.show(
    plots.image_row(list(examples), titles, "What does it say, how sure is it, and is it right?", height=1.5),
    "Ten test pictures with the predicted class, its probability, and whether it is right.",
)

# %% [markdown]
# A **softmax** turns scores into shares that sum to 1; the share of the winner is how sure the model is. A model can be
# sure and wrong: lesson 07 looks at this more closely.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# A tensor has the shape (8, 1, 28, 28). What is it, most likely?
#
# - [x] 8 grey pictures :: The order is (B, C, H, W): 8 pictures, 1 channel, 28x28 pixels.
# - [ ] one picture with 8 channels :: That would be (1, 8, 28, 28): the batch stands first.
# - [ ] 28 pictures of 8 rows :: A batch of 28 would begin with 28.

# %% [markdown] quiz
# `pictures` has the shape (10, 3, 32, 32). What is the shape of `reduce(pictures, "b c (h h2) (w w2) -> (h w) b c", "mean", h2=4, w2=2)`?
#
# - [ ] (1024, 10, 3) :: h2 and w2 are missing on the right: they are averaged away. h = 32 / 4 and w = 32 / 2 stay.
# - [x] (128, 10, 3) :: `(h w)` is one axis of 8·16 numbers, and the axes follow the right side: (h w), b, c.
# - [ ] (10, 3, 8, 16) :: Brackets on the right make one axis of h and w, and it stands first there.

# %% [markdown] quiz
# What is the shape of `rearrange(x, "b c h w -> (b h) (w c)")` for x of shape (2, 3, 4, 5)?
#
# - [x] (8, 15) :: b·h = 2·4 and w·c = 5·3.
# - [ ] (6, 20) :: That joins b with c and h with w; the brackets say b with h, and w with c.
# - [ ] (2, 4, 5, 3) :: That would have no brackets: each bracket is one axis, so the result has two.

# %% [markdown] quiz
# Why are test pictures normalised with the mean of the *training* pictures?
#
# - [ ] a mean of so few pictures would be too uncertain :: With a million test pictures the rule would be the same.
# - [ ] the mean need not be computed a second time :: It would take less than a second: time is not the reason.
# - [x] nothing about the test may reach the model :: Otherwise the test would not tell how the model does on pictures that nobody has seen.

# %% [markdown] quiz
# A check says "not written yet". What does the rest of the notebook do?
#
# - [ ] it stops at the next cell that needs the answer :: A check never stops a notebook.
# - [x] it goes on with the finished version :: You can solve the exercises in any order, or come back tomorrow.
# - [ ] it skips the section :: Every cell runs, whatever you have solved.

# %% [markdown]
# ## Recap
#
# | what | shape |
# |---|---|
# | a batch of colour pictures | (B, 3, H, W) |
# | the mean of each channel | (C,) |
# | the same, ready to be subtracted | (C, 1, 1) |
# | a contact sheet of r x k pictures | (C, r·H, k·W) |
# | the scores of a classifier | (B, K), K classes |
#
# - `rearrange` moves, `reduce` removes, `repeat` adds axes. In a bracket the right letter runs fast.
# - Normalised pictures have mean 0 and deviation 1 in each channel, measured on the training set.
# - An accuracy needs a comparison: guessing, a linear classifier, another model.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale* (ICLR 2021). Read the first two
#   pages now and the rest after lesson 06.
# - The einops tutorial, *Einops basics*.
# - Krizhevsky, *Learning Multiple Layers of Features from Tiny Images* (2009): where CIFAR-10 comes from.
