# ---
# title: "Start here"
# promise: "Explore images as tensors, and see where a linear classifier fails."
# part: "I. Build it"
# goals:
#   - "Do an exercise, read what the check says, and go on whether or not you solved it."
#   - "Name the axes of a batch of images, and rearrange them with einops."
#   - "Normalise images, and say why."
#   - "Train a linear classifier, and explain why it fails when a shape moves."
# ---

# %% [markdown]
# ## 1. What will you build?
#
# You will build a model that recognises what an image shows. Here is such a model at work. It was trained on 8,000 drawings,
# and it has never seen these six.

# %%
from vit_classroom import check, doctor, plots, table
from vit_classroom.exhibits.at_work import ask, shapes_in_the_middle
from vit_course.data import download_cifar10, load_dataset, shapes10

dataset = shapes10(train=8000, test=2000)
drawings, names = dataset.test_images[:6], dataset.test_labels[:6]
answers = ask("shapes-vit", drawings)

# %% fold
title = "What does the model say, and where does it look?"
figure = plots.answer_gallery(drawings, answers.looks, answers.probabilities, answers.classes, title, names)
plots.show(
    figure,
    "Six drawings of shapes, each with the model's answer and its probability. Beside each drawing, a map of 8 by 8 squares "
    "shows where the model looked.",
)

# %% [markdown]
# Above each drawing is the answer, and how sure the model is. In the map beside it, the squares where the model looked are
# bright.
#
# The same kind of model can learn from photographs. The next one learned from 50,000 of them, in ten classes such as
# airplane, cat and ship. It gets one photo of a cat that it has never seen. We also mirror the photo and cover the eyes.

# %%
import torch

cat = plots.sample_photo((32, 32), "cat")  # an image of 32x32 pixels
blindfolded = cat.clone()
blindfolded[:, 8:19, 3:31] = 128  # grey
photos = torch.stack([cat, cat.flip(-1), blindfolded])
cat_answers = ask("cifar-vit", photos)

# %% fold
figure = plots.answer_gallery(
    photos,
    cat_answers.looks,
    cat_answers.probabilities,
    cat_answers.classes,
    "One photo, three times: is it still a cat?",
    torch.tensor([cat_answers.classes.index("cat")] * 3),
)
plots.show(
    figure,
    "A cat's face, the same photo mirrored, and the photo with a grey bar over the eyes. The answer is cat each time. Beside "
    "each photo, a map of 8 by 8 squares shows where the model looked.",
)

# %% [markdown] claim=["[cat_answers.classes[best] for best in cat_answers.best] == ['cat'] * 3", "cat_answers.probabilities[2].max() < cat_answers.probabilities[:2].max(dim=1)[0].min() - 0.05", "cat_answers.looks[2].argmax() != cat_answers.looks[0].argmax()"] always
# The answer is cat three times. With the eyes covered the model is less sure, and it looks most at another place, just above
# the nose.
#
# Each model is a **Vision Transformer**, or ViT. In 2020 a group of researchers asked a simple question. Can a computer
# read an image as it reads a sentence? They cut the image into small squares, treated the squares as words, and gave
# them to the Transformer, the model that had changed how computers read text. Trained on enough images, it recognised
# objects a little better than the best models of its time.
#
# The star at the top of this page is cut into such squares.
#
# By the end of lesson 06 you will have written every part of a ViT, and the loop that trains it.
#
# | part | lesson | what you write |
# |---|---|---|
# | patches | 01 | `patchify`, `PatchEmbed` |
# | CLS token | 02 | `prepend_cls_token`, `ClsToken`, `pool` |
# | positions | 03 | `EncoderInput` |
# | attention | 04 | `MultiHeadAttention` |
# | encoder | 05 | `layer_norm`, `Mlp`, `Block` |
# | model and training | 06 | `MiniViT`, `train_one_epoch` |
#
# You need Python, and you should have met PyTorch tensors, a loss and its gradient before.
#
# ## 2. Is your machine ready?
#
# The next cell checks your machine. Every line should begin with `ok`. If a line does not, the text below it says how
# to fix the problem. A warning (`warn`) is not a problem, because lessons 00 to 06 run without a GPU and without a
# network.

# %% tags=["nbval-ignore-output"]
doctor.report(doctor.run())

# %% [markdown]
# The line `Profile` says how long later lessons train. It is `cpu` or `gpu`, or `smoke` for automatic tests, which take
# seconds. The environment variable `VIT_COURSE_PROFILE` changes it.
#
# ## 3. How do the exercises work?
#
# Every exercise is a cell with a function that is not written yet. Its **docstring**, the text in triple quotes, is the task.
# The last line of the cell gives your function to a check. The check has three possible results:
#
# - **right**: the lesson continues with *your* function. It is also kept in the folder `answers/`, and the model of lesson 06
#   will be made of your own parts.
# - **not written yet**: the lesson continues with the finished version, so you are never stuck.
# - **not right yet**: the check explains *what* is wrong, and the lesson continues with the finished version.
#
# Run the cell as often as you like. Above each exercise are its difficulty, the minutes it may take, two hidden hints, and a
# link to the solution. Try for those minutes before you open a hint. Solved notebooks are in the folder `solutions/`.
#
# Let us see a check at work. The next cell contains a wrong answer to an exercise of lesson 01. You need not understand the
# code yet. What does the check say?

# %%
from vit_classroom.checks import diagnose
from vit_classroom.checks.verdict import say


def count_patches(img_size, patch_size):
    """Count the patches of a square image; this answer is wrong."""
    rows, columns = img_size // patch_size, img_size // patch_size
    return rows + columns


say(diagnose(count_patches), None)  # in an exercise, `check` does both

# %% [markdown]
# The check names the cause. You will write this function in lesson 01.
#
# ## 4. What is an image to a computer?
#
# An image is a **tensor**, a table of numbers with any number of axes. The **shape** says how long each axis is. A batch of
# colour images has four axes, and the whole course calls them by the same letters.
#
# | letter | axis | here |
# |---|---|---|
# | B | images in the batch | 64 |
# | C | channels: red, green, blue | 3 |
# | H | height in pixels | 32 |
# | W | width in pixels | 32 |

# %%
images = dataset.train_images[:64]
print("shape (B, C, H, W):", tuple(images.shape))
print("type:", images.dtype, "from", images.min().item(), "to", images.max().item())
print("one pixel of image 0 (red, green, blue):", images[0, :, 16, 16].tolist())

# %% [markdown]
# Most mistakes with tensors are mistakes with axes. The library **einops** makes axes visible. You write the axes before and
# after an operation, with names that you choose.
#
# - **`rearrange`** changes the order of axes, joins them or splits them. No number is lost or changed.
# - **`reduce`** removes axes. An axis that appears only on the left is averaged, or summed, or reduced to its maximum.
# - **`repeat`** adds axes. An axis that appears only on the right is filled with copies.

# %%
from einops import rearrange, reduce, repeat

values = images.float()
print("channels last:       ", tuple(rearrange(values, "b c h w -> b h w c").shape))
print("one row per image:   ", tuple(rearrange(values, "b c h w -> b (c h w)").shape))
print("8 groups of 8:       ", tuple(rearrange(values, "(r k) c h w -> r k c h w", r=8).shape))
print("mean of each channel:", tuple(reduce(values, "b c h w -> c", "mean").shape))
smaller = reduce(values, "b c (h h2) (w w2) -> b c h w", "mean", h2=4, w2=4)
print("mean of 4x4 pixels:  ", tuple(smaller.shape))
enlarged = repeat(smaller, "b c h w -> b c (h h2) (w w2)", h2=4, w2=4)
print("each pixel 16 times: ", tuple(enlarged.shape))

# %% fold
figure = plots.image_row(
    [images[0], values[0, :1] / 255, enlarged[0] / 255, images[0].flip(-1)],
    ["the image", "red channel alone", "reduce, then repeat", "width backwards"],
    "One image and three operations on its axes",
)
plots.show(
    figure,
    "A small drawing of a shape, its red channel in grey, a version made of 8 by 8 large pixels, and its mirror image.",
)

# %% [markdown]
# A bracket is *one axis made of several*. For example, `(c h w)` is one axis of 3·32·32 = 3,072 numbers, and `(r k)` is one
# axis that we read as r groups of k.
#
# > **Key idea.** In a bracket the rightmost axis varies fastest. With k = 8, image 9 is in group 1 at index 1, counted from
# > 0.
#
# We want to see 64 images at once, as one large image of 4 rows and 16 columns.
#
# **Your task.** Write `image_grid`, which makes such a sheet. It is one `rearrange`. Think about which of two joined axes
# varies slowly. If you move down by one pixel in the large image, you usually stay within one small image.

# %% exercise="vit_classroom.plots.pictures:image_grid" difficulty=2 minutes=12 hint="The large image has three axes: c, its height and its width. Its height is made of two axes, the row of the sheet and the height inside a small image. Its width is made of two axes in the same way." hint2="The batch is split into r rows of k columns, `(r k) c h w` on the left, with `k=columns`. On the right come c, a bracket of r and h, and a bracket of k and w. Which letter of each bracket varies slowly? It is written first."
from vit_classroom.plots.pictures import image_grid

image_grid = check(image_grid)

# %% fold
sheet = image_grid(images, columns=16)
print("sheet (C, H, W):", tuple(sheet.shape))
figure = plots.image_row([sheet], ["4 rows of 16 images"], "64 images of Shapes-10", height=4)
figure.set_size_inches(9, 2.9)
plots.show(figure, "A sheet of 4 rows and 16 columns of small coloured shapes on textured backgrounds.")

# %% [markdown]
# These drawings are **Shapes-10**, the course's own data set, with ten classes of shapes in any colour and at any place.
# **CIFAR-10** has 60,000 real photographs of 32x32 pixels in ten classes. The second model of section 1 learned from it.
#
# **Do you want real images?** Change `False` to `True` in the next cell and run it. It downloads CIFAR-10 (170 MB) once, and
# all later lessons find it. Nothing is downloaded unless you ask. `load_dataset()` returns CIFAR-10 if it is installed and
# Shapes-10 otherwise, and `provenance` says which one you have. This lesson uses the drawings in both cases.

# %% tags=["nbval-ignore-output"]
download = False
if download:
    download_cifar10()
print(load_dataset().provenance)

# %% [markdown]
# ## 5. Which numbers should a model get?
#
# Each value is a whole number from 0 to 255. Training is easier with values around zero. So images are **normalised**,
# channel by channel:
#
# $$x' = \frac{x - \mu_c}{\sigma_c}$$
#
# Here x is a pixel value in 0..1, so we divide by 255 first. $\mu_c$ is the mean of channel c over all *training* images, and
# $\sigma_c$ is its standard deviation. Test images are normalised with the same numbers, because the model must not know
# anything about them in advance.

# %%
mean, std = dataset.channel_stats()
for name, centre, spread in zip(("red", "green", "blue"), mean.tolist(), std.tolist(), strict=True):
    print(f"{name:6} mean {centre:.2f}, standard deviation {spread:.2f}")

# %% [markdown]
# > **Trap.** `mean` has the shape (C,) and the images have the shape (B, C, H, W). PyTorch aligns shapes *from the right*. So
# > a mean of shape (C,) meets the width W, not the channels. How do you bring it to the right place?
#
# **Your task.** Write `normalize`. The images may be whole numbers (uint8), or floats that are already in 0..1. The lines
# that reject a wrong number of means are given.

# %% exercise="vit_course.data.dataset:normalize" difficulty=2 minutes=10 hint="There are two steps. First make numbers in 0..1, then apply the formula. `images.dtype` tells you which of the two kinds of images you have." hint2="Use `images.float() / 255` for uint8 and `images.float()` otherwise. Then give mean and std the shape (C, 1, 1), for example with `mean.view(-1, 1, 1)`. An axis of length 1 fits any length."
from vit_course.data.dataset import normalize

normalize = check(normalize)

# %%
normalized = normalize(dataset.train_images[:1000], mean, std)
for name, channel in zip(("red", "green", "blue"), normalized.unbind(1), strict=True):
    print(f"{name:6} mean {channel.mean().item():.2f}, standard deviation {channel.std().item():.2f}")

# %% [markdown] claim=["normalized.mean(dim=(0, 2, 3)).abs().max() < 0.05", "(normalized.std(dim=(0, 2, 3)) - 1).abs().max() < 0.05"] always
# The means are now close to 0, and the standard deviations close to 1. They are not exact because these are 1,000 of the
# 8,000 images from which `mean` and `std` were computed.
#
# ## 6. Is the Vision Transformer good?
#
# The first ViT of section 1 is right on 84 % of the 2,000 test images. Is that a lot? A number means little without a
# comparison. One comparison is guessing, which is right on 10 % of the images because there are ten classes. A better
# one is the simplest model that learns from the same images.
#
# This model is a **linear classifier**. It has one weight for each number of the image and for each class. The score of a
# class is the sum of all numbers, each multiplied by its weight, plus a bias. The class with the highest score is the answer.
#
# > **Predict.** How often will the linear classifier be right on new images? Write a number down.

# %% tags=["nbval-ignore-output"]
from vit_classroom.numbers import percent
from vit_course.train import TrainConfig, evaluate, linear_classifier, train

config = TrainConfig(epochs=5, batch_size=64, device="cpu", precision="float32", quiet=True)
torch.manual_seed(0)
linear = linear_classifier(dataset)
linear_test = train(linear, dataset, config).test_accuracy
linear_train, _ = evaluate(linear, dataset.train_images, dataset.train_labels, (mean, std))
table(
    [
        ["guessing", percent(0.1), ""],
        ["linear classifier", percent(linear_test), percent(linear_train)],
        ["ViT", percent(answers.test_accuracy), ""],
    ],
    ["model", "right on new images", "right on its training images"],
)

# %% [markdown] claim=["0.18 < linear_test < 0.27", "linear_train > linear_test + 0.08", "round(100 * answers.test_accuracy) == 84 and answers.test_accuracy > linear_test + 0.5"] always
# The linear classifier is right on fewer than 3 in 10 new images. The ViT is far better, so 84 % is a lot. On its own
# training images the linear classifier does better than on new ones, because it has partly memorised them. So only new images
# show what a model has learned.
#
# ## 7. Why does the linear classifier fail?
#
# Is it the colours, or the places? Let us make the task easier. In the next drawings every background is plain, and
# every shape is in the middle. The colours are still random, and the shape is still lighter than its background.

# %%
middle = shapes_in_the_middle(train=2000, test=200)
new_images, new_labels = middle.test_images, middle.test_labels

# %% fold
figure = plots.image_row(list(new_images[:10]), list(middle.classes), "Ten shapes in the middle", height=0.85)
plots.show(
    figure,
    "Ten light shapes in the middle of plain images: arrow, circle, crescent, cross, diamond, heart, ring, square, star, triangle.",
)

# %% [markdown]
# A second linear classifier learns from 2,000 of these drawings. Then we test it on 200 new ones, and move them to the right
# and down. What leaves on one side comes back on the other.
#
# > **Predict.** How often is it right when the shape is in the middle, and how often when the drawing is moved by 8 pixels?
# > And how often is the ViT right?

# %% tags=["nbval-ignore-output"]
torch.manual_seed(0)
middle_linear = linear_classifier(middle)
train(middle_linear, middle, config)
shifts, linear_curve, vit_curve = list(range(9)), [], []
for shift in shifts:
    moved = new_images.roll((shift, shift), dims=(-2, -1))
    linear_curve.append(evaluate(middle_linear, moved, new_labels, middle.channel_stats())[0])
    vit_curve.append((ask("shapes-vit", moved).best == new_labels).float().mean().item())

# %% fold tags=["nbval-ignore-output"]
figure = plots.curves(
    {
        "ViT": (shifts, [100 * share for share in vit_curve]),
        "linear classifier": (shifts, [100 * share for share in linear_curve]),
        "guessing": ([0, 8], [10, 10]),
    },
    "What happens when the shape moves?",
    "moved to the right and down (pixels)",
    "right on new drawings (%)",
)
plots.show(
    figure,
    "The linear classifier starts at 100 %, falls to about 10 % within 3 pixels, and stays below 30 %. The ViT starts near "
    "100 %, falls to about 70 % at 2 and 6 pixels, and is near 100 % again at 4 and 8.",
)

# %% [markdown] claim=["linear_curve[0] == 1 and max(linear_curve[3:]) < 0.3", "min(vit_curve) > 0.6", "max(vit_curve[2], vit_curve[6]) < min(vit_curve[0], vit_curve[4], vit_curve[8]) - 0.1"] always
# In the middle the linear classifier makes no mistake. From 3 pixels on, it is right on fewer than 3 in 10 drawings.
# Random colours do no harm here, because the shape is always lighter than its background. But a move does. The ViT
# recognises most shapes after every move, but it has dips at 2 and 6 pixels.
#
# At 4 pixels the linear classifier is even worse than guessing. What does it say?

# %%
moved = new_images.roll((4, 4), dims=(-2, -1))
with torch.no_grad():
    said = middle_linear(normalize(moved, *middle.channel_stats())).argmax(dim=1)

# %% fold tags=["nbval-ignore-output"]
titles = [middle.classes[answer] for answer in said[:10]]
title = "The ten shapes, moved by 4 pixels: what does the linear classifier say?"
figure = plots.image_row(list(moved[:10]), titles, title, height=0.85)
plots.show(figure, "The same ten shapes, a little lower and to the right. Above each is a wrong answer.")

# %% [markdown] claim=["(said != new_labels).all()", "all((said[new_labels == label] == said[new_labels == label].mode()[0]).float().mean() > 0.7 for label in range(10))"] always
# Every answer is wrong, and most drawings of a shape get the same wrong answer. So it does not guess. A moved shape
# meets weights that belong to another shape. You can see this in the weights.

# %% fold tags=["nbval-ignore-output"]
rows = []
for model in (middle_linear, linear):
    weights = reduce(model[1].weight.detach(), "k (c h w) -> k 1 h w", "mean", c=3, h=32)
    rows += list(0.5 + 0.5 * weights / reduce(weights.abs(), "k 1 h w -> k 1 1 1", "max"))
title = "Weights of each class, trained in the middle (above) and on Shapes-10 (below)"
figure = plots.image_row(rows, [*middle.classes] * 2, title, height=0.85)
plots.show(
    figure,
    "Two rows of ten grey images. Above, each shows its shape in the middle. Below, they look like noise.",
)

# %% [markdown]
# The weights of a class are a **template**, an image of the class at one fixed place. In Shapes-10 a shape may be at any
# place, and no template fits.
#
# Can better weights solve this? Move one drawing to all 1,024 places, by 0 to 31 pixels down and to the right. Averaged over
# all places, every pixel has the same colour, the mean colour of the drawing. The score is a sum of numbers times weights. So
# the *average score* over all places equals the score of a plain image of this colour.
#
# > **Predict.** How often is the answer right, over all places?


# %%
def at_all_places(image):
    """Move one image (C, H, W) to all 1,024 places: (1024, C, H, W)."""
    return torch.stack([image.roll((y, x), dims=(1, 2)) for y in range(32) for x in range(32)])


@torch.no_grad()
def score(images):
    return middle_linear(normalize(images, *middle.channel_stats()))


ten, ten_labels = new_images[:10], new_labels[:10]
scores = torch.stack(
    [score(at_all_places(drawing)) for drawing in ten]
)  # (10 drawings, 1024 places, 10 classes)
colours = reduce(ten.float() / 255, "b c h w -> b c", "mean")
plain_scores = score(repeat(colours, "b c -> b c h w", h=32, w=32))  # (10 drawings, 10 classes)
difference = (scores.mean(dim=1) - plain_scores).abs().max().item()
everywhere = (scores.argmax(dim=2) == ten_labels[:, None]).float().mean().item()
print("largest difference of the two is below 0.001:", difference < 1e-3)
print("right, over all places:", percent(everywhere))

# %% [markdown] claim=["difference < 1e-3 and scores.max() - scores.min() > 5", "0.05 < everywhere < 0.15"] always
# The two scores are equal, and the answers are about as good as guessing. Nothing of the shape is left in the average score.
# This is true for *any* weights, so longer training does not remove the limit. If two drawings have the same mean colour, no
# linear classifier can tell them apart at every place.
#
# > **Key idea.** A linear classifier compares an image with one template for each class, at one place. It cannot learn "a
# > star, wherever it is".
#
# What does this model not know about images? Write down two or three things, and look at your list again after lesson
# 06.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# A tensor has the shape (8, 1, 28, 28). What is it, most likely?
#
# - [x] 8 grey images :: The order is (B, C, H, W), so it holds 8 images with 1 channel of 28x28 pixels.
# - [ ] one image with 8 channels :: That would be (1, 8, 28, 28), because the batch comes first.
# - [ ] 28 images of 8 rows :: The shape of a batch of 28 images begins with 28.

# %% [markdown] quiz
# `images` has the shape (10, 3, 32, 32). What is the shape of `reduce(images, "b c (h h2) (w w2) -> (h w) b c", "mean", h2=4, w2=2)`?
#
# - [ ] (1024, 10, 3) :: h2 and w2 do not appear on the right, so they are averaged away. Only h = 32 / 4 and w = 32 / 2 remain.
# - [x] (128, 10, 3) :: `(h w)` is one axis of 8·16 numbers, and the axes follow the order on the right.
# - [ ] (10, 3, 8, 16) :: The bracket on the right makes one axis of h and w, and that axis comes first.

# %% [markdown] quiz
# Why are test images normalised with the mean of the *training* images?
#
# - [ ] a mean of so few images would be too uncertain :: With a million test images the rule would be the same.
# - [ ] the mean need not be computed a second time :: It takes less than a second, so time is not the reason.
# - [x] nothing about the test may reach the model :: Otherwise the test would not show how the model does on images that nobody has seen.

# %% [markdown] quiz
# A linear classifier is trained on shapes that are always in the upper left corner. On which new drawings will it do well?
#
# - [x] on shapes in the upper left corner :: Its templates are in that corner, and a shape there meets the right weights.
# - [ ] on shapes in the middle :: A shape in the middle meets weights that were trained on background.
# - [ ] on both, if it was trained for long enough :: More training changes the weights, but each weight still belongs to one pixel.

# %% [markdown]
# ## Recap
#
# | tensor | shape |
# |---|---|
# | a batch of colour images | (B, 3, H, W) |
# | the mean of each channel, ready to be subtracted | (C, 1, 1) |
# | a sheet of r x k images | (C, r·H, k·W) |
# | the scores of a classifier with K classes | (B, K) |
#
# - `rearrange` moves axes, `reduce` removes them, and `repeat` adds them. In a bracket the rightmost axis varies fastest.
# - Normalised images have mean 0 and standard deviation 1 in each channel, measured on the training images.
# - An accuracy needs a comparison, with guessing and with the simplest model that learns.
# - A linear classifier has one template for each class, at one place.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale* (ICLR 2021). Read the
#   first two pages now and the rest after lesson 06.
# - The einops tutorial, *Einops basics*.
# - Krizhevsky, *Learning Multiple Layers of Features from Tiny Images* (2009): where CIFAR-10 comes from.
#
# **Next.** The ViT is not perfect either. Move a drawing by 2 pixels and it makes many mistakes. Move it by 4 and they
# disappear. Why 4? Lesson 01 cuts images into squares, and the squares of this model are 4 pixels wide.
