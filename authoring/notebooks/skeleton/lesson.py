# ---
# title: "Title: what this lesson is about"
# promise: "Do something, and see what comes of it."
# part: "PART"
# map: []
# recall:
#   "01.1": "Lesson NN asks: `num_patches = (64 // 8) ** 2`, and the program makes `num_patches ** 2` tokens of a 64x64 image. How many should it make?"
#   "02.1": "Lesson NN asks: What does the encoder read, if an image has 64 patches, D = 192 and CLS is in front?"
#   "03.1": "Lesson NN asks: The patches of a photo are shuffled before a ViT without positions. Which output stays as it was?"
# goals:
#   - "Say what nobody could say before this lesson."
# ---

# %% [markdown]
# ## 1. Which question would a student ask?
#
# Begin with it. Show before naming, one new idea in each section.

# %%
import matplotlib.pyplot as plt

from vit_classroom import check, plots

# %% [markdown]
# The exercise refers to the finished code: signature, docstring and solution are taken from
# `vit_course/extensions/SLUG.py`.

# %% exercise="vit_course.extensions.SLUG:mean_square_of_SLUG" difficulty=1 minutes=5 hint="A first step." hint2="A nearer step."
from vit_course.extensions.SLUG import mean_square_of_SLUG

mean_square_of_SLUG = check(mean_square_of_SLUG)

# %% [markdown]
# > **Predict.** Ask for a guess before the next cell answers. What is the mean square of 1, 2 and 3?

# %%
print("mean square of 1, 2 and 3:", round(mean_square_of_SLUG([1, 2, 3]), 2))

# %% fold
with plots.course_style():
    figure, axis = plt.subplots(figsize=(4, 2.4))
    axis.bar(["1", "2", "3"], [1, 4, 9])
    axis.set(title="How fast do squares grow?", xlabel="number", ylabel="its square")
plots.show(figure, "Three bars over 1, 2 and 3 are 1, 4 and 9 high.")

# %% [markdown]
# A figure has a text for readers who cannot see it.
#
# ## Check yourself

# %% [markdown] quiz
# Which question has the lesson answered?
#
# - [x] this one :: Why it is right.
# - [ ] another one :: Why it is wrong.
# - [ ] none of them :: Why it is wrong.

# %% [markdown] quiz
# What is the mean square of 1 and 3?
#
# - [x] 5 :: The squares are 1 and 9, and their mean is 5.
# - [ ] 4 :: This is the square of the mean.
# - [ ] 10 :: This is the sum of the squares.

# %% [markdown] quiz
# Can the mean square of some numbers be below the square of their mean?
#
# - [x] no :: The difference is the variance of the numbers.
# - [ ] yes, if some are negative :: Try -1 and 1.
# - [ ] yes, if they are small :: Try 0.1 and 0.3.

# %% [markdown]
# ## Recap
#
# What holds, in one sentence.
#
# ## Further reading
#
# - Who found it, *In which paper* (year): what to look for in it.
