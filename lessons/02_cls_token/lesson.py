# ---
# title: "The CLS token: who speaks for the image?"
# promise: "Add a token that reads all patches, and test what it knows."
# part: "I. Build it"
# map: [cls, pool]
# recall:
#   "00.1": "You load a batch of handwritten digits, and its shape is (8, 1, 28, 28). What does it contain?"
#   "01.2": "A friend's notes say that N patches leave the patch embedding with the shape N x D x P². Which shape do they have?"
#   "01.3": "A program cuts patches with `images.reshape(B, N, P*P*3)`. It trains, and the loss goes down. What is wrong with its patches?"
# goals:
#   - "Explain why one patch token cannot answer for the whole image."
#   - "Put a CLS token in front of every sequence of a batch, and make it a module that learns."
#   - "Distinguish the CLS token that enters the encoder from the one that leaves it."
#   - "Implement both ways to turn a sequence into one vector, the CLS token and average pooling."
#   - "Say what the paper found when it compared the two."
# ---

# %% [markdown]
# ## 1. Can one patch answer for the whole image?
#
# Lesson 01 turned an image into tokens, one for each patch. Now a model must answer a question about the whole image. Its last
# layer, the **head**, needs *one* vector of D numbers to compute the scores. Which token should it read?
#
# Here is a small game. Every patch contains a sign, and one sign, in any of the 16 patches, is bright. *Which sign is it?*

# %%
from functools import partial

import torch
from torch import nn

from vit_classroom import check, plots, table
from vit_classroom.numbers import percent
from vit_classroom.profiles import get_profile
from vit_course.data import Dataset, normalize
from vit_course.encoder import Encoder
from vit_course.patches import PatchEmbed, patchify, unpatchify
from vit_course.train import TrainConfig, train

# %% fold
names = ("plus", "cross", "frame", "stripes")
down, across = torch.meshgrid(torch.arange(-3, 4), torch.arange(-3, 4), indexing="ij")
signs = torch.zeros(4, 8, 8)  # the four signs, each as large as a patch
signs[0, :7, :7] = ((down == 0) | (across == 0)).float()
signs[1, :7, :7] = (down.abs() == across.abs()).float()
signs[2, :7, :7] = (torch.maximum(down.abs(), across.abs()) == 3).float()
signs[3, :7, :7] = (down % 2 == 1).float()


def draw_game(count, seed):
    """Draw images (B, 1, 32, 32) of 16 signs; return them, the class of the bright sign, and its patch."""
    image, label, place = torch.arange(count), torch.arange(count) % 4, torch.arange(count) // 4 % 16
    kind = torch.randint(4, (count, 16), generator=torch.Generator().manual_seed(seed))
    kind[image, place] = label
    brightness = torch.full((count, 16, 1, 1), 0.4)
    brightness[image, place] = 1.0
    patches = (255 * signs[kind] * brightness).round().to(torch.uint8)  # (B, 16, 8, 8)
    return unpatchify(patches.flatten(2), 8, grid_size=(4, 4)), label, place


train_images, train_labels, _ = draw_game(1600, seed=1)
test_images, test_labels, test_places = draw_game(1600, seed=2)
game = Dataset(train_images, train_labels, test_images, test_labels, names, "the game of the bright sign")
shown = [0, 21, 46, 59]
titles = [names[test_labels[i]] for i in shown]
figure = plots.image_row(list(test_images[shown]), titles, "Which sign is bright?", height=1.9)
plots.show(
    figure,
    "Four images of 4 by 4 small grey signs. In each image one sign is bright: a plus, a cross, a frame, or stripes.",
)

# %% [markdown]
# The first model reads the token at index 0, the patch at the top left. Later we will give it more parts.


# %%
class Reader(nn.Module):
    """Embed the patches, pass the tokens through more parts, make one vector of them, and compute four scores."""

    def __init__(self, read, *parts):
        super().__init__()
        self.tokens = nn.Sequential(PatchEmbed(img_size=32, patch_size=8, in_chans=1, embed_dim=32), *parts)
        self.read = read
        self.head = nn.Linear(32, 4)

    def forward(self, images):
        return self.head(self.read(self.tokens(images)))


def first(tokens):
    return tokens[:, 0]  # (B, T, D) to (B, D)


# %% [markdown]
# > **Predict.** The bright sign is in patch 0 in one image of 16. In all others the model must guess one of four signs. How
# > often will it be right on new images?

# %% tags=["nbval-ignore-output"]
epochs = get_profile().pick(smoke=1, cpu=3, gpu=3)
config = TrainConfig(epochs=epochs, batch_size=32, lr=5e-3, device="cpu", precision="float32", quiet=True)
torch.manual_seed(0)
patch_reader = Reader(first)
patch_alone = train(patch_reader, game, config).test_accuracy
print("reads patch 0:", percent(patch_alone), "right on new images")

# %% [markdown] claim="abs(patch_alone - (1 / 16 + 15 / 16 / 4)) < 0.03"
# The model is right on about 30 % of the images, as the arithmetic says:
#
# $$\frac{1}{16} \cdot 1 + \frac{15}{16} \cdot \frac{1}{4} \approx 0.30$$
#
# So one patch cannot answer for the image.
#
# ## 2. What is a CLS token?
#
# The tokens must exchange what they know. This is the work of the **encoder**. Until you build it in lessons 04 and 05, it is a
# closed box that mixes tokens. N tokens go in, and N come out.
#
# Which token should the head read then? Each patch token already has a task, to describe its own patch. The language
# model BERT (2018) adds one more token that is not a word, and calls it **CLS**, for *classification*. It has no
# content of its own and is free to collect what the others know. The Vision Transformer does the same with images.

# %% fold
portrait = plots.sample_photo((32, 32))  # (3, 32, 32), uint8
title = "17 tokens for 16 patches: CLS goes in front, and only CLS is read"
figure = plots.token_sequence(portrait, 8, title)
plots.show(
    figure,
    "A row of 17 boxes, CLS at index 0 and 16 patches after it, goes into the encoder. 17 boxes come out. "
    "An arrow leads from box 0 alone to the head.",
)

# %% [markdown]
# In the paper this is equation 1, the input of the encoder:
#
# $$z_0 = [\,x_{class};\; x_p^1 E;\; x_p^2 E;\; \cdots;\; x_p^N E\,] + E_{pos}$$
#
# - $x_{class}$ is the CLS token, D learned numbers. In code its shape is (1, 1, D).
# - $x_p^i E$ is the token of patch i, also D numbers.
# - $E_{pos}$ adds positions. It comes in lesson 03.
# - $z_0$, of shape (N + 1, D), enters the encoder. $z_L$, of the same shape, leaves it after L layers.
#
# The head reads row 0 of $z_L$, the CLS token on its way out. The width D stays the same.
#
# **Your task.** Write `prepend_cls_token`. It puts one vector of shape (1, 1, D) at index 0 of every sequence of the batch.
# The lines that reject different widths are given.

# %% exercise="vit_course.embeddings:prepend_cls_token" difficulty=1 minutes=8 hint="There are two steps. First make (B, 1, D) of (1, 1, D), so that every sequence has a CLS token. Then join it with the patch tokens along the axis that counts tokens. Which axis is it?" hint2="`expand` enlarges an axis of size 1, and -1 keeps an axis as it is. How many images are in `tokens`? `torch.cat` joins a list of tensors along `dim`, and the first tensor of the list ends up in front."
from vit_course.embeddings import prepend_cls_token

prepend_cls_token = check(prepend_cls_token)

# %% tolerance=0
patch_tokens = torch.zeros(3, 4, 2)  # B = 3 images, N = 4 patches, D = 2
cls_token = torch.tensor([[[7.0, 8.0]]])  # (1, 1, D)
tokens = prepend_cls_token(patch_tokens, cls_token)
print("before", tuple(patch_tokens.shape), " after", tuple(tokens.shape), "= (B, N + 1, D)")
print("image 0:", tokens[0].tolist())

# %% [markdown] claim=["torch.equal(tokens[:, 0], cls_token[0].expand(3, -1)) and tokens.shape == (3, 5, 2)", "(lambda cls: torch.autograd.grad(prepend_cls_token(patch_tokens, cls).sum(), cls)[0].eq(3).all())(cls_token.clone().requires_grad_())"] always
# So a CLS token is one more token, the same for every image. All images use this one vector, so its gradient is the
# *sum* of the gradients from all images.
#
# ## 3. How does the model learn this vector?
#
# In PyTorch a module keeps what it learns in an `nn.Parameter`.
#
# > **Trap.** The CLS token may start at zero. So why not write `torch.zeros(1, 1, D)` inside `forward`? The shape is right, and
# > the program runs. But this vector is never learned.
#
# **Your task.** Write the class `ClsToken`, a module between the patch embedding and the encoder.
#
# - `__init__` begins with `super().__init__()`. It makes `self.cls_token`, a parameter of zeros with the shape (1, 1, D).
# - `forward` turns patch tokens (B, N, D) into (B, N + 1, D). Use your `prepend_cls_token`.

# %% exercise="vit_classroom.exhibits.cls_token:ClsToken" difficulty=2 minutes=10 hint="Which of the two methods runs once, and which runs in every training step? What is learned must be made in the method that runs once." hint2="An `nn.Parameter` is made from a tensor, here one of zeros with three sizes. It belongs to the module as soon as it is an attribute of `self`. Then `forward` needs a single call of a function that you have written."
from vit_classroom.exhibits.cls_token import ClsToken

ClsToken = check(ClsToken)

# %% [markdown]
# An **optimiser** changes a parameter, the **state dict** saves it, and `.to(...)` moves or converts it.
#
# > **Predict.** Which of the three happen to a plain tensor?


# %%
class PlainCls(nn.Module):
    """Holds a plain tensor of zeros where `ClsToken` holds a parameter."""

    def __init__(self, dim):
        super().__init__()
        self.cls_token = torch.zeros(1, 1, dim)


rows = []
for module in (PlainCls(32), ClsToken(32)):
    learned, saved = len(list(module.parameters())), "cls_token" in module.state_dict()
    converted = module.to(torch.float64).cls_token.dtype == torch.float64
    rows.append([type(module).__name__, learned == 1, saved, converted])
table(rows, ["class", "the optimiser gets it", "it is saved", "`.to(float64)` converts it"])

# %% [markdown] claim="[row[1:] for row in rows] == [[False, False, False], [True, True, True]]" always
# None of them. So the model learns the vector only if it is an `nn.Parameter`. A plain tensor gives no warning on a CPU. On a
# GPU, `torch.cat` stops because the two tensors are on different devices.
#
# ## 4. What does CLS know, before and after the encoder?
#
# Now play the game with your CLS token, which takes index 0. One model has no encoder. The other has an encoder of one layer.
#
# > **Predict.** How often will each model be right?

# %% tags=["nbval-ignore-output"]
torch.manual_seed(0)
cls_alone = train(Reader(first, ClsToken(32)), game, config).test_accuracy
cls_reader = Reader(first, ClsToken(32), Encoder(depth=1, dim=32, num_heads=2))
cls_mixed = train(cls_reader, game, config).test_accuracy
table(
    [["without an encoder", percent(cls_alone)], ["with an encoder", percent(cls_mixed)]],
    ["CLS is read", "right on new images"],
)

# %% [markdown] claim=["cls_alone == 0.25", "cls_mixed > 0.97"]
# Without an encoder CLS is right on 25 % of the images. It is the same vector for every image, so the model always gives the
# same answer. With an encoder it is right on nearly all images.
#
# Where does CLS get its answer from? We cover one patch with black and ask again, for each of the 16 patches.
#
# > **Predict.** How often is the model right when the bright sign is covered, and how often when another sign is covered?

# %% tags=["nbval-ignore-output"]
images = normalize(test_images, *game.channel_stats())  # (1600, 1, 32, 32)
black = images.min()


@torch.no_grad()
def read_cls(patches):
    """Return the CLS token on its way out, (B, 32), for images that are given as patches (B, 16, 64)."""
    return first(cls_reader.tokens(unpatchify(patches, 8, grid_size=(4, 4))))


seen = patchify(images, 8)
covered = [seen.index_fill(1, torch.tensor([patch]), black) for patch in range(16)]  # one patch black
vectors = torch.stack([read_cls(patches) for patches in covered], dim=1)  # (B, 16, 32)
right = cls_reader.head(vectors).argmax(dim=2) == test_labels[:, None]  # (B, 16)
is_bright = torch.arange(16) == test_places[:, None]  # (B, 16)
bright_covered = right[is_bright].float().mean().item()
other_covered = right[~is_bright].float().mean().item()
print(f"right when the bright sign is covered: {percent(bright_covered)}")
print(f"right when another sign is covered:    {percent(other_covered)}")

# %% fold tags=["nbval-ignore-output"]
moved = (vectors - read_cls(seen)[:, None]).norm(dim=2)  # (B, 16), how far CLS moves when a patch is covered
maps = (moved / moved.amax(dim=1, keepdim=True)).reshape(-1, 1, 4, 4)
titles += ["CLS moves"] * 4
title = "How far does the CLS vector move when one patch is covered?"
figure = plots.image_row([*test_images[shown], *maps[shown]], titles, title, height=1.9)
figure.set_size_inches(8.4, 4.8)
plots.show(
    figure,
    "Above, the four images of section 1. Below each, a map of 4 by 4 squares. The square of the bright sign is white, and the "
    "others are dark.",
)

# %% [markdown] claim=["abs(bright_covered - 0.25) < 0.06", "other_covered > 0.95", "moved[is_bright].mean() > 3 * moved[~is_bright].mean()"]
# With the bright sign covered, the model is right on about 25 % of the images, because it can only guess. With another sign
# covered, it stays right. In the maps, CLS moves far only when the bright sign disappears.
#
# Nobody told the model where to look. It got labels, and one token for the answer.
#
# > **Key idea.** On its way in, the CLS token is the same for every image. On its way out, it speaks for its image.
#
# ## 5. Do we need a CLS token at all?
#
# The head may also read the *mean* of all patch tokens on their way out. This is called **global average pooling** (GAP), and
# convolutional networks use it. No token is added.
#
# $$y = \frac{1}{N} \sum_{i=1}^{N} z_L^i$$
#
# Here $z_L^i$ is the token of patch i on its way out. The head reads $y$, which has D numbers.
#
# **Your task.** Write `pool`, which turns tokens (B, T, D) into (B, D) in one of two ways.
#
# - Mode `"token"` reads the token at index 0.
# - Mode `"avg"` returns the mean of the *patch* tokens. It leaves out the first `num_prefix_tokens` tokens, which are
#   not patches. CLS is such a **prefix token**. There may be 0, 1 or more.
#
# The lines that reject other arguments are given.

# %% exercise="vit_course.embeddings:pool" difficulty=1 minutes=8 hint="Which axis counts images, which one counts tokens, and which one holds the D numbers? In both modes the token axis disappears." hint2="A number as an index removes an axis, and a slice keeps it. Which of the two reads one token? Which leaves out the first few, so that a mean can remove the axis afterwards?"
from vit_course.embeddings import pool

pool = check(pool)

# %% [markdown]
# Compare three ways to read, each with and without the encoder.
#
# > **Predict.** Can the mean answer without an encoder? Can patch 0 answer with one?

# %% tags=["nbval-ignore-output"]
torch.manual_seed(0)
mean = partial(pool, mode="avg", num_prefix_tokens=0)
mean_alone = train(Reader(mean), game, config).test_accuracy
mean_mixed = train(Reader(mean, Encoder(depth=1, dim=32, num_heads=2)), game, config).test_accuracy
patch_mixed = train(Reader(first, Encoder(depth=1, dim=32, num_heads=2)), game, config).test_accuracy
results = {
    "patch 0": (patch_alone, patch_mixed),
    "mean": (mean_alone, mean_mixed),
    "CLS": (cls_alone, cls_mixed),
}
table(
    [[name, percent(alone), percent(mixed)] for name, (alone, mixed) in results.items()],
    ["the head reads", "without an encoder", "with an encoder"],
    caption="Right on new images",
)

# %% [markdown] claim=["0.5 < mean_alone < 0.75", "min(patch_mixed, mean_mixed, cls_mixed) > 0.97"]
# With an encoder all three work. Without it the mean is right on only about 60 % of the images, because it also contains the 15
# other signs. So the encoder collects the answer, and any token can hold it. CLS is the token that has no other task.
#
# Is CLS better than the mean on real images? The paper's first models with average pooling did badly (appendix D). The
# cause was the learning rate.
#
# | vector for the head | learning rate 8e-4 | learning rate 3e-4 |
# |---|---|---|
# | CLS token | good | not shown |
# | average pooling | bad | good, like CLS at 8e-4 |
#
# With the right learning rate both are equally good. So a model does not need a CLS token, but it needs one vector.
#
# ## 6. What does CLS not see?
#
# Shuffle the patches of each test image and ask again.
#
# > **Predict.** In how many of the 1,600 images will the answer change?

# %% tags=["nbval-ignore-output"]
order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
scores, scores_shuffled = cls_reader.head(read_cls(seen)), cls_reader.head(read_cls(seen[:, order]))
changed = (scores.argmax(dim=1) != scores_shuffled.argmax(dim=1)).sum().item()
print(f"{changed} of {len(images)} answers change")
print("all scores are equal up to rounding:", torch.allclose(scores, scores_shuffled, atol=1e-3))

# %% [markdown] claim="torch.allclose(scores, scores_shuffled, atol=1e-3) and changed == 0"
# No answer changes, and even the scores are the same up to rounding. For this question that is fine. But the model cannot even
# say whether the bright sign is at the top or at the bottom of the image. It does not see the order of its patches.

# %% [markdown] curious
# ## 7. One vector for a whole batch: must we copy it?
#
# A batch may have 512 images, and there is one CLS vector. `repeat` writes 512 copies into memory. `expand` writes nothing. It
# returns a *view* with a **stride** of 0 along the batch axis. The stride says how many numbers to go forward in memory for
# the next entry of an axis. With stride 0, every image reads the same D numbers.

# %%
one = torch.randn(1, 1, 192)
for name, many in [("repeat", one.repeat(512, 1, 1)), ("expand", one.expand(512, -1, -1))]:
    size = many.untyped_storage().nbytes()
    print(f"{name}: shape {tuple(many.shape)}, strides {many.stride()}, {size:,} bytes in memory")

# %% [markdown]
# So we need no copies. Both versions have the same gradient, the sum over the batch. The gain is small here, because the
# `torch.cat` that follows writes a new tensor in both cases.

# %% [markdown] curious
# ## 8. Are there other ways to make one vector?
#
# Yes, for example these two. Write one as a function `read`, or as a module, and give it to `Reader`:
#
# - **Attention pooling**: one learned vector gives each patch token a score, and a softmax turns the scores into the
#   weights of a mean (Hassani et al., 2021, as "sequence pooling").
# - **Generalised mean** (GeM; Radenović et al., 2018): the p-th root of the mean of p-th powers, of numbers that are clamped
#   to be above 0. With p = 1 it is the mean, and with a large p it is close to the maximum.
#
# Can one of them play the game without an encoder?

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# An image has 64 patches, and D = 192. What enters the encoder?
#
# - [ ] (B, 64, 193) :: CLS is one more token, not one more number in every token.
# - [x] (B, 65, 192) :: There is one more token, of the same width.
# - [ ] (B + 1, 64, 192) :: That adds an image made of CLS tokens to the batch, by `torch.cat` along axis 0.

# %% [markdown] quiz
# After training, two different images go in. Which CLS token is equal for the two images?
#
# - [x] the CLS token before the first layer :: On its way in it is one learned vector, the same for every image.
# - [ ] the CLS token after the last layer, which is read :: On its way out it has read the patches, so it depends on the image.
# - [ ] the CLS token in both places, because it is one parameter :: Then all images would get the same scores.

# %% [markdown] quiz
# With `cls` of shape (B, 1, D), a classmate writes `torch.cat([tokens, cls], dim=1)`. The head reads `x[:, 0]`. What happens?
#
# - [ ] `torch.cat` stops with an error :: All shapes are right, so nothing stops.
# - [x] the head reads patch 0 :: CLS is at index N now. The model still learns, because the encoder mixes patch 0 too, as in section 5 of lesson 02.
# - [ ] nothing, because the encoder sees no order :: The encoder does serve a CLS token at any index, but the *head* reads one fixed index.

# %% [markdown] quiz
# Which one never learns its CLS token?
#
# - [ ] `nn.Parameter(torch.zeros(1, 1, D))` in `__init__` :: It learns like any weight.
# - [x] `torch.randn(B, 1, D)` in `forward` :: It is a new vector for each image and each call, so nothing can be learned about it.
# - [ ] `repeat` in place of `expand` :: It has the same gradients and needs a little more memory.

# %% [markdown] quiz
# A model without a CLS token uses `pool(tokens, "avg", num_prefix_tokens=1)`. What goes wrong?
#
# - [ ] CLS is averaged in :: That is the opposite mistake, in a model with CLS and the number 0.
# - [ ] it stops, because there is no CLS token :: All shapes are right, so nothing stops.
# - [x] patch 0 is left out of the mean :: The first token is a patch here, and it is lost. The number must be 0.

# %% [markdown]
# ## Recap
#
# | tensor | shape | 32x32, P = 8, D = 32 |
# |---|---|---|
# | patch tokens | (B, N, D) | (B, 16, 32) |
# | CLS token, the parameter | (1, 1, D) | (1, 1, 32) |
# | tokens that enter and leave the encoder | (B, N + 1, D) | (B, 17, 32) |
# | vector for the head, from CLS or the mean | (B, D) | (B, 32) |
#
# - The CLS token is one learned vector at index 0. It must be an `nn.Parameter`.
# - It speaks for its image only after the encoder.
# - In the paper average pooling is as good as CLS, with a learning rate of its own.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), section 3.1, equations 1 and 4, and appendix D.3.
# - Devlin et al., *BERT* (2018), section 3: where the CLS token comes from.
# - Touvron et al., *Going deeper with Image Transformers* (2021): CLS added only in the last layers.
# - Darcet et al., *Vision Transformers Need Registers* (2023): what more than one extra token is good for.
#
# **Next.** Shuffle the patches, and your CLS token gives the same answer. Lesson 03 asks why, and tells each patch where it is.
