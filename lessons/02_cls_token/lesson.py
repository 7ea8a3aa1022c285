# ---
# title: "The CLS token: who speaks for the image?"
# promise: "You add one learned token that gathers what the patches know, and you measure what it holds."
# part: "I. Build it"
# map: [cls, pool]
# recall: ["00.1", "01.2", "01.3"]
# goals:
#   - "Put a CLS token in front of every sequence of a batch."
#   - "Explain why it must be an `nn.Parameter`, and name three signs that it is not."
#   - "Tell apart what the CLS token is on its way in and what it holds on its way out."
#   - "Write both ways to make one vector of a sequence: the CLS token and average pooling."
#   - "Say what the paper found when it compared the two, and what it did not say."
# ---

# %% [markdown]
# ## 1. Sixteen answers, or one?
#
# Lesson 01 turned an image into N tokens, one for each patch. The **encoder** (lessons 04 and 05) lets all tokens look at
# each other and returns N tokens again. But we asked one question: what is in the picture? The **head**, the last layer,
# needs *one* vector to compute one score for each class.
#
# Which token should speak for the image? Patch 0 is a corner, often a piece of sky. Patch 7 may show an eye or an empty
# wall. No patch is the natural speaker.
#
# The language model BERT (2018) had the same problem with sentences, and a neat answer: add one more token, which is no
# word. It stands in front of every sentence and is called **CLS**, for *classification*. It has no content of its own, so
# it is free to collect what the others know. The Vision Transformer uses the same idea.

# %%
import torch
from torch import nn

from vit_classroom import check, plots, table
from vit_classroom.numbers import percent

portrait = plots.sample_photo((32, 32))  # (3, 32, 32), uint8

# %% fold
title = "17 tokens for 16 patches: CLS goes in front, and only CLS is read"
figure = plots.token_sequence(portrait, 8, title)
plots.show(
    figure,
    "A row of 17 boxes, CLS at index 0 and 16 patches after it, goes into the encoder. 17 boxes come out. "
    "An arrow leads from box 0 alone to the head.",
)

# %% [markdown]
# In the paper this is equation 1, the input of the encoder, and equation 4, its output:
#
# $$z_0 = [\,x_{class};\; x_p^1 E;\; x_p^2 E;\; \cdots;\; x_p^N E\,] + E_{pos}, \qquad y = \mathrm{LN}(z_L^0)$$
#
# - $x_{class}$ is the CLS token, D numbers, learned. In code it has the shape (1, 1, D).
# - $x_p^i E$ is the token of patch i, D numbers (lesson 01).
# - $E_{pos}$ holds one vector of D numbers for each of the N + 1 places (lesson 03).
# - $z_0$ is what enters the encoder, (N + 1, D). After L blocks it is $z_L$, of the same shape.
# - $z_L^0$ is the row with index 0 of $z_L$: the CLS token on its way out. LN is a layer norm (lesson 05).
# - $y$, D numbers, is what the head reads. It speaks for the image.
#
# Only the *length* of the sequence grows, from N to N + 1. Some texts speak of "one token per channel", or of D + 1
# channels after CLS. Both are wrong: the width D stays as it is.
#
# **Your task.** Write `prepend_cls_token`. The batch has B sequences, and you are given one vector, (1, 1, D). Every
# sequence gets this same vector, at index 0. (The lines that refuse widths that differ are given.)

# %% exercise="vit_course.embeddings:prepend_cls_token" difficulty=1 minutes=8 hint="Two steps. Make (B, 1, D) of (1, 1, D), so that every sequence has a CLS token. Then join it with the patch tokens along the axis that counts tokens. Which axis is it?" hint2="`cls_token.expand(B, -1, -1)` has the shape (B, 1, D), where B is `tokens.shape[0]`. `torch.cat([first, second], dim=1)` joins along the token axis, and `first` ends up in front."
from vit_course.embeddings import prepend_cls_token

prepend_cls_token = check(prepend_cls_token)

# %% tolerance=0
patch_tokens = torch.zeros(3, 4, 2)  # B = 3 images, N = 4 patches, D = 2
cls_token = torch.tensor([[[7.0, 8.0]]])  # (1, 1, D)
tokens = prepend_cls_token(patch_tokens, cls_token)
print("before", tuple(patch_tokens.shape), " after", tuple(tokens.shape), "= (B, N + 1, D)")
print("image 0:", tokens[0].tolist())
print("all images start with the same vector:", torch.equal(tokens[:, 0], torch.tensor([[7.0, 8.0]] * 3)))

# %% [markdown] claim=["torch.equal(tokens[:, 0], cls_token[0].expand(3, -1)) and tokens.shape == (3, 5, 2)", "(lambda cls: torch.autograd.grad(prepend_cls_token(patch_tokens, cls).sum(), cls)[0].eq(3).all())(cls_token.clone().requires_grad_())"] always
# The one vector is learned from all images: its gradient is the *sum* of what they ask of it.

# %% [markdown] curious
# ## 2. One vector for a whole batch: copy it or not?
#
# A batch may have 512 images, and there is one CLS vector. Do we need 512 copies? `repeat` writes copies into memory.
# `expand` writes nothing. It returns a *view* with a **stride** of 0 along the batch axis. The stride says how many
# numbers to go forward in memory for the next entry of an axis. With stride 0, every image reads the same D numbers.

# %%
one = torch.randn(1, 1, 192)
for name, many in [("repeat", one.repeat(512, 1, 1)), ("expand", one.expand(512, -1, -1))]:
    size = many.untyped_storage().nbytes()
    print(f"{name}: shape {tuple(many.shape)}, strides {many.stride()}, {size:,} bytes in memory")

# %% [markdown]
# (The `torch.cat` that follows writes a new tensor in both cases. So the gain is small here. The habit is worth more than
# the bytes.)
#
# Does the choice change what is learned? Let us compare the gradients. We make a CLS token twice with the same numbers,
# use `repeat` for one and `expand` for the other, and give every place its own random weight in the loss.

# %%
torch.manual_seed(0)
patch_tokens, weight = torch.randn(512, 16, 192), torch.randn(512, 17, 192)
by_repeat, by_expand = one.clone().requires_grad_(), one.clone().requires_grad_()
(torch.cat([by_repeat.repeat(512, 1, 1), patch_tokens], dim=1) * weight).sum().backward()
(torch.cat([by_expand.expand(512, -1, -1), patch_tokens], dim=1) * weight).sum().backward()

print("gradient:", tuple(by_expand.grad.shape))
print("equal for repeat and expand:", torch.allclose(by_repeat.grad, by_expand.grad, atol=1e-4))
batch_sum = weight[:, 0].sum(dim=0)
print("equal to the sum over the batch:", torch.allclose(by_expand.grad[0, 0], batch_sum, atol=1e-4))

# %% [markdown] always claim=["torch.allclose(by_repeat.grad, by_expand.grad, atol=1e-4)", "torch.allclose(by_expand.grad[0, 0], batch_sum, atol=1e-4)"]
# Equal up to rounding, and equal to the sum over the 512 images.

# %% [markdown]
# ## 3. Why must it be an `nn.Parameter`?
#
# The CLS token may start at zero.
#
# > **Trap.** So why not write `torch.zeros(1, 1, D)` inside `forward`? The shape is right, the program runs, and you will
# > find it in public code. It is never learned.
#
# Here are both versions, in a model that is as small as can be: CLS, one encoder block, a head.

# %%
from vit_course.encoder import Block


class PlainReader(nn.Module):
    """Reads a CLS token that is a plain tensor of zeros, made in every forward pass."""

    def __init__(self):
        super().__init__()
        self.block = Block(16, num_heads=2)
        self.head = nn.Linear(16, 10)

    def make_cls(self):
        return torch.zeros(1, 1, 16)

    def forward(self, tokens):
        return self.head(self.block(prepend_cls_token(tokens, self.make_cls()))[:, 0])


class LearnedReader(PlainReader):
    """The same, but the zeros are a parameter."""

    def __init__(self):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, 16))

    def make_cls(self):
        return self.cls_token


# %%
rows = []
for reader in (PlainReader(), LearnedReader()):
    known = any(p.shape == (1, 1, 16) for p in reader.parameters())
    saved = "cls_token" in reader.state_dict()
    double = reader.to(torch.float64).make_cls().dtype
    rows.append([type(reader).__name__, known, saved, double, reader.to("meta").make_cls().device])
table(rows, ["", "optimiser knows it", "in the state dict", "after .to(float64)", "after .to('meta')"])

# %% [markdown] claim="[row[1:3] + [str(row[3]), row[4].type] for row in rows] == [[False, False, 'torch.float32', 'cpu'], [True, True, 'torch.float64', 'meta']]" always
# (`meta` is a device that keeps shapes and no numbers. Every machine has it, so it stands in for a GPU here.)
#
# Three signs, one cause. `nn.Parameter` tells the module: this tensor is mine. Then the **optimiser**, which changes the
# weights, is told about it; the **state dict**, which is saved to disk, contains it; and `.to(...)` moves it. A plain tensor
# has none of this. On a GPU, `torch.cat` stops with an error about two devices. On a CPU nothing warns you.
#
# Let us train both for 60 steps on random tokens and watch the length of the CLS vector.
#
# > **Predict.** Both vectors start at zero. Which of them will have moved after 60 steps?

# %%
torch.manual_seed(0)
random_tokens, random_labels = torch.randn(64, 4, 16), torch.randint(10, (64,))
lengths = {}
for reader in (LearnedReader(), PlainReader()):
    optimizer = torch.optim.Adam(reader.parameters(), lr=0.01)
    series = []
    for _ in range(60):
        series.append(reader.make_cls().norm().item())
        loss = nn.functional.cross_entropy(reader(random_tokens), random_labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    lengths[type(reader).__name__] = (list(range(60)), series)
    print(f"{type(reader).__name__}: starts at 0: {series[0] == 0}, has moved: {series[-1] > 0.01}")

# %% fold
figure = plots.curves(
    lengths, "Does a vector that starts at zero ever move?", "training step", "length of CLS"
)
plots.show(figure, "Two lines over 60 steps: the parameter rises from zero, the plain tensor stays at zero.")

# %% [markdown] always claim=["lengths['LearnedReader'][1][0] == 0 and lengths['LearnedReader'][1][-1] > 0.01", "max(lengths['PlainReader'][1]) == 0"]
# The parameter has left zero; the plain tensor never will. (A common worry is "equal weights stay equal". It is about
# many units that do the same work. Here there is one vector, and its D numbers get different gradients.)
#
# ### Why the bug can hide for months
#
# Look at equation 1 again. At index 0 the encoder gets $x_{class} + E_{pos}^0$: two learned vectors, always added.
# Their gradients must be the same. We check it on a whole model, with random weights on $y$ as the loss.

# %%
from vit_course.vit import VisionTransformer

torch.manual_seed(0)
small = {"img_size": 32, "patch_size": 8, "embed_dim": 64, "depth": 2, "num_heads": 2}
model = VisionTransformer(**small)
y = model.encode(model.patch_embed(torch.rand(8, 3, 32, 32)))[:, 0]  # equation 4, (B, D)
(y * torch.randn(8, 64)).sum().backward()
same = torch.allclose(model.cls_token.grad, model.pos_embed.grad[:, :1], atol=1e-6)
print("cls_token", tuple(model.cls_token.shape), " pos_embed", tuple(model.pos_embed.shape))
print("CLS token and position 0 get the same gradient:", same)

# %% [markdown] claim="same and model.cls_token.grad.abs().max() > 0" always
# So position 0 takes over for a forgotten CLS token, and the loss goes down as it should. The bug shows on a GPU, when
# positions are not learned, or when you load someone's weights: `cls_token` is then an unexpected key.
#
# Keep the paper's order: first CLS, then N + 1 positions. The other order can learn the same, but no saved table fits it.
#
# ## 4. What does it hold, before and after training?
#
# *On its way in*, the CLS token is the same for every image, before training and after.
# It is like an empty form that everyone gets. *On its way out* it is $z_L^0$: the form, filled in by this image.
#
# Let us train a tiny model and see what is written there. To learn in seconds instead of minutes, we make the task easy:
# four classes of Shapes-10, in grey, stretched to full contrast.

# %%
from dataclasses import replace

from vit_course.data import normalize, shapes10

full = shapes10(train=5000, test=1000)
names = ("cross", "ring", "square", "triangle")
wanted = torch.tensor([full.classes.index(name) for name in names])


def make_easy(images, labels):
    """Keep four classes; make pictures grey, from black (0) to white (255)."""
    kept = torch.isin(labels, wanted)
    grey = images[kept].float().mean(dim=1, keepdim=True)
    low, high = grey.amin((2, 3), keepdim=True), grey.amax((2, 3), keepdim=True)
    stretched = (255 * (grey - low) / (high - low)).round().to(torch.uint8)
    return stretched, torch.searchsorted(wanted, labels[kept])


train_images, train_labels = make_easy(full.train_images, full.train_labels)
test_images, test_labels = make_easy(full.test_images, full.test_labels)
shapes = replace(
    full,
    train_images=train_images,
    train_labels=train_labels,
    test_images=test_images,
    test_labels=test_labels,
    classes=names,
    provenance=f"{full.provenance}; four classes of it, in grey",
)
print("training pictures", tuple(shapes.train_images.shape))

# %% fold
figure = plots.image_row(
    [test_images[test_labels == i % 4][i // 4] for i in range(8)],
    [names[i % 4] for i in range(8)],
    "Four shapes, at any place, of any size, slightly turned",
    height=1.3,
)
plots.show(figure, "Eight grey pictures: a cross, a ring, a square and a triangle, twice.")

# %% [markdown]
# The function below returns $y$ of equation 4 for many images. Then we measure how much two images agree, with the
# **cosine similarity**: 1 if two vectors point the same way, 0 if they are at a right angle, -1 if they are opposite.

# %%
torch.manual_seed(0)
model = VisionTransformer(**small, in_chans=1, num_classes=4)
order = test_labels.argsort(stable=True)  # all crosses, then all rings ...
images, labels = normalize(test_images[order], *shapes.channel_stats()), test_labels[order]


@torch.no_grad()
def cls_output(model, images):
    """Return y = LN(z_L^0), the CLS token on its way out, (B, D)."""
    return model.norm(model.blocks(model.embed(images)))[:, 0]


def agreement(vectors):
    """Return the cosine similarity of each pair of images, (B, B)."""
    unit = nn.functional.normalize(vectors, dim=-1)
    return unit @ unit.T


same_class = labels[:, None] == labels
other_image = ~torch.eye(len(labels), dtype=torch.bool)


def within_and_between(vectors):
    """Return the mean similarity of two images of the same class, and of two classes; print both."""
    similar = agreement(vectors)
    within, between = similar[same_class & other_image].mean().item(), similar[~same_class].mean().item()
    print(f"similarity of two images: same class {within:.2f}, another class {between:.2f}")
    return within, between


before = cls_output(model, images)
way_in = model.embed(images)[:, 0]
print("on its way in, the same for all images:", bool((way_in == way_in[0]).all()))
print("untrained, on its way out:")
within_before, between_before = within_and_between(before)

# %% [markdown] claim="bool((way_in == way_in[0]).all()) and abs(within_before - between_before) < 0.05"
# Before training, two crosses agree hardly more than a cross and a ring. Now train. `train` is the course's
# training loop; you will write one in lesson 06.
#
# > **Predict.** After training, on its way out, will the CLS tokens of two crosses agree more than those of a cross and a
# > ring?

# %% tags=["nbval-ignore-output"]
from vit_course.training.profiles import get_profile
from vit_course.train import TrainConfig, train

epochs = get_profile().pick(smoke=2, cpu=12, gpu=20)
# So small that a CPU is enough; in float32 your numbers are near those of the solved notebook.
config = TrainConfig(epochs=epochs, batch_size=32, lr=1e-3, device="cpu", precision="float32")
history = train(model, shapes, config)
after = cls_output(model, images)
way_in = model.embed(images)[:, 0]
print("on its way in, the same for all images:", bool((way_in == way_in[0]).all()))
within, between = within_and_between(after)

# %% [markdown] claim=["bool((way_in == way_in[0]).all())", "within - between > within_before - between_before + 0.1"]
# > **Key idea.** On its way in, the CLS token is the same for every image, before training and after. On its way out it
# > speaks for its image: on average, images of one class now agree more than images of different classes.
#
# A picture of it: $y$ has 64 numbers, and a page has two axes. **Principal components** are the directions
# in which the points differ most; we draw the first two. Both panels have the same scale.


# %% tags=["nbval-ignore-output"]
def two_components(vectors):
    """Project vectors (B, D) on their first two principal components, (B, 2)."""
    centred = vectors - vectors.mean(dim=0)
    directions = torch.linalg.svd(centred, full_matrices=False).Vh[:2]  # (2, D)
    return centred @ directions.T


# %% fold tags=["nbval-ignore-output"]
figure = plots.clusters(
    [two_components(before), two_components(after)],
    labels,
    names,
    ["before training", f"after {epochs} epochs"],
    "Does the CLS token know the class of its image?",
    "principal component",
)
plots.show(
    figure,
    "Two scatter plots, one dot for each test image. Left the dots of the four classes lie mixed in one "
    "small cloud. Right they lie along a wide arc; one class has an end of its own, the others overlap.",
)

# %% [markdown]
# Before training the four colours are mixed. After it they begin to separate. Some may still overlap: the training was
# short, and two of 64 directions do not show all. So let us ask all 64 numbers: how similar are two images of the
# same class, and how similar is an image of this class to those of the other classes?

# %% tags=["nbval-ignore-output"]
similar, rows = agreement(after), []
for number, name in enumerate(names):
    mine = labels == number
    own, others = similar[mine][:, mine].mean().item(), similar[mine][:, ~mine].mean().item()
    rows.append([name, round(own, 2), round(others, 2), round(own - others, 2)])
print(f"The model names {percent(history.test_accuracy)} of the test pictures; guessing gets 25 %.")
table(rows, ["class", "to its own class", "to the others", "difference"])

# %% [markdown] claim=["all(row[3] > 0 for row in rows)", "history.test_accuracy > 0.4"]
# Each class agrees with itself more than with the others on average; a single pair of classes may be as alike. Here is each
# pair of images. They are sorted by class, so a class that agrees with itself shows as a bright square on the diagonal.

# %% fold tags=["nbval-ignore-output"]
figure = plots.heat_maps(
    [agreement(before), agreement(after)],
    ["before training", f"after {epochs} epochs"],
    "Which images agree on their way out?",
    "cosine similarity",
)
for axis in figure.axes[:2]:
    axis.set_xticks(range(50, 400, 100), names, rotation=30)  # 100 images of each class
    axis.set_yticks(range(50, 400, 100), names)
plots.show(
    figure,
    "Two square tables of all pairs of images, sorted by class. Left nearly one colour. Right bright and dark blocks with "
    "thin stripes: bright where images agree, within a class or between two that look alike.",
)

# %% [markdown]
# Which squares on the diagonal stand out in your run, and which two shapes look most alike to your model?
#
# ## 5. How does it know where to look?
#
# CLS starts as the same vector for everyone, and ends up different for each image. So it must have read the patches.
# The only place where tokens exchange anything is **attention** (lesson 04). There, token i gives every token j a
# weight: how much i reads from j. The weights of one token sum to 1.
#
# For T = N + 1 tokens this is a table (T, T), and each layer has several (one for each *attention head*, lesson 04). Row 0 is
# what CLS reads. We take row 0 of the last layer's tables and average. The weight on CLS itself is left out. What is left is one
# number for each patch: a small map. Bright patches are read, dark ones are not.

# %% tags=["nbval-ignore-output"]
with torch.no_grad():
    _, attention = model(images, return_attention=True)  # a list over the layers, each (B, h, T, T)
row = attention[-1].mean(dim=1)[:, 0]  # (B, T), what CLS reads
print("attention of one layer:", tuple(attention[-1].shape))
print("one row sums to", round(row[0].sum().item(), 4))

# %% fold tags=["nbval-ignore-output"]
chosen = [int((labels == i % 4).nonzero()[i // 4]) for i in range(8)]
titles = [names[i % 4] for i in range(8)]
figure = plots.image_row(list(test_images[order][chosen]), titles, "What the model sees", height=1.3)
plots.show(figure, "Eight grey pictures of shapes.")
maps = row[chosen, 1:].reshape(8, 1, 4, 4)
maps = list(maps / maps.amax((2, 3), keepdim=True))
figure = plots.image_row(maps, titles, "What does CLS read in the last layer, patch by patch?", height=1.3)
plots.show(
    figure,
    "Eight maps of 4 by 4 squares. In most, the brightest square touches the shape in the picture above.",
)

# %% [markdown]
# Eight maps may be luck. Let us count over all test images. In these pictures the shape is bright, so we take the four brightest of
# the 16 patches of each image. How much of its attention does CLS give them? Looking everywhere equally gives them 4/16 = 25 %.
#
# > **Predict.** What share will the untrained model give them, and what share the trained one?


# %% tags=["nbval-ignore-output"]
@torch.no_grad()
def share_on_bright(model):
    """Return the share of the attention from CLS to the patches that goes to the four brightest ones."""
    to_patches = model(images, return_attention=True)[1][-1].mean(dim=1)[:, 0, 1:]  # (B, N)
    brightness = images.reshape(-1, 4, 8, 4, 8).mean((2, 4)).flatten(1)  # (B, N)
    brightest = brightness.topk(4, dim=1).indices
    return (to_patches.gather(1, brightest).sum(1) / to_patches.sum(1)).mean().item()


torch.manual_seed(0)
untrained = VisionTransformer(**small, in_chans=1, num_classes=4)
share_before, share = share_on_bright(untrained), share_on_bright(model)
print(f"untrained: {percent(share_before)}, trained: {percent(share)}")

# %% [markdown] claim=["abs(share_before - 0.25) < 0.03", "share > share_before + 0.05"]
# The untrained CLS token gives the four brightest patches only their share, a quarter. The trained one gives them more, and
# mostly the shape is there. Nobody told it where to look: it got labels, and one token to put the answer in. Be careful with such maps, though.
# They show one layer of two, and in the first layer the patches have already read each other. Lesson 09 does it with more care.
#
# ## 6. Do we need a CLS token at all?
#
# There is an older way, from convolutional networks: take the *mean* of all patch tokens on their way out. It is called
# **global average pooling**, GAP. No token is added. With the names from above, and patches counted from 1,
#
# $$y = \frac{1}{N} \sum_{i=1}^{N} \mathrm{LN}(z_L^i)$$

# %% fold
title = "Average pooling: 16 tokens for 16 patches, and all of them are read"
figure = plots.token_sequence(portrait, 8, title, read="avg")
plots.show(
    figure,
    "16 patches go into the encoder, 16 tokens come out. "
    "Arrows lead from all of them to one box: mean, then head.",
)

# %% [markdown]
# **Your task.** Write `pool`, which makes (B, D) of (B, T, D) in one of two ways; its tokens are normed already.
#
# - Mode `"token"` reads the token at index 0.
# - Mode `"avg"` takes the mean of the *patch* tokens. The first `num_prefix_tokens` tokens are no patches (CLS is such a
#   **prefix token**), and they stay out of the mean. The number may be 0, 1 or more.
#
# The first lines are given. They refuse other modes, and `"token"` without a prefix token, where the head would silently
# read a patch.

# %% exercise="vit_course.embeddings:pool" difficulty=1 minutes=8 hint="Which axis counts images, which tokens, which the D numbers? In both modes the token axis disappears. A number as an index removes an axis, a slice keeps it." hint2="`tokens[:, 0]` is (B, D). `tokens[:, num_prefix_tokens:]` is all that comes after the prefix tokens; `.mean(dim=1)` averages over the token axis."
from vit_course.embeddings import pool

pool = check(pool)

# %% [markdown]
# The two modes send the gradient back in different ways. This is what each token gets, for a CLS token and four patches:

# %% tolerance=0
for mode in ("token", "avg"):
    tokens = torch.zeros(1, 5, 1, requires_grad=True)  # CLS and four patches, D = 1
    pool(tokens, mode).sum().backward()
    print(f"{mode:5} CLS: {tokens.grad[0, 0, 0].item()}, patches: {tokens.grad[0, 1:, 0].tolist()}")

# %% [markdown]
# With `"token"` the loss reaches the patches only through attention. With `"avg"` it reaches each of them directly.
# Does it matter? Here is the same model without a CLS token, trained in the same way.

# %% tags=["nbval-ignore-output"]
torch.manual_seed(0)
averaged = VisionTransformer(**small, in_chans=1, num_classes=4, class_token=False, global_pool="avg")
history_avg = train(averaged, shapes, config)
print("one run each, with one learning rate:")
print(f"CLS token {percent(history.test_accuracy)}, average pooling {percent(history_avg.test_accuracy)}")

# %% [markdown] claim="min(history.test_accuracy, history_avg.test_accuracy) > 0.4"
# Both learn: guessing gets 25 %. Which one is better? This cell cannot tell, even if the gap is wide. The training is short,
# so one of the two may have had more left to learn; and each number is one run, with one learning rate. The authors of the
# paper met this very trap (appendix D.3). Their first models with average pooling did badly. Was it the missing CLS token, or
# the pooling? Neither: the learning rate was wrong for it.
#
# | how the image vector is made | learning rate 8e-4 | learning rate 3e-4 |
# |---|---|---|
# | CLS token | good | not shown |
# | average pooling | bad | good, as CLS at 8e-4 |
#
# They write that the difference is "fully explained" by the learning rate. With the right one, both do well. Some
# texts conclude: "CLS allows twice the learning rate, so it trains faster". The paper does not say so. A larger
# step need not get you there sooner. In lesson 10 we measure both at three learning rates, with three seeds each.
#
# The model that you write uses the CLS token, as the paper's does. It is also one place to look from, as in section 5.

# %% [markdown] curious
# ## 7. Are there other ways?
#
# There are more ways to make one vector of many. Make a module of one of the first two: build a new `model` as `averaged` was,
# take the tokens `model.encode(model.patch_embed(images))`, pool them in your own way, and end in `model.head`. Train a new one
# for each of two learning rates:
#
# - **Attention pooling**: one learned vector gives each patch token a score, and a softmax turns the scores into the
#   weights of a mean (Hassani et al., 2021, as "sequence pooling").
# - **Generalised mean** (GeM; Radenović et al., 2018): the p-th root of the mean of p-th powers, of numbers that are clamped
#   to be above 0. p = 1 is the mean, and a large p is close to the maximum. p can be learned.
# - **Weighted layers**: a learned mixture of the CLS tokens of *all* layers, not only of the last (for text: Peters et
#   al., 2018).

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# A picture has 64 patches, D = 192. What enters the encoder?
#
# - [ ] (B, 64, 193) :: That would widen every token. CLS is one more token, not one more number.
# - [x] (B, 65, 192) :: One token more, of the same width.
# - [ ] (B + 1, 64, 192) :: That adds an image made of CLS tokens to the batch: `torch.cat` along axis 0 instead of axis 1.

# %% [markdown] quiz
# After training, two different images go in. What is equal for both?
#
# - [x] the CLS token before the first block :: On its way in it is one learned vector, whatever the image.
# - [ ] the CLS token after the last block, which is read :: On its way out it has read the patches, so it depends on the image.
# - [ ] both, for it is one parameter :: Then all images would get the same scores.

# %% [markdown] quiz
# A classmate writes `torch.cat([tokens, cls], dim=1)` and leaves the head at `x[:, 0]`; `cls` is (B, 1, D). What happens?
#
# - [ ] `torch.cat` stops with an error :: All shapes are right, so nothing stops.
# - [x] the head reads patch 0 :: CLS now stands at index N. The model still learns, since patch 0 can read the others too: the bug is quiet.
# - [ ] nothing: attention has no order :: Attention would indeed serve a CLS token at any index (lesson 03), but the *head* reads one fixed index.

# %% [markdown] quiz
# Which one is a mistake?
#
# - [ ] `nn.Parameter(torch.zeros(1, 1, D))` in `__init__` :: It learns like any weight: its D numbers get different gradients.
# - [x] `torch.randn(B, 1, D)` in `forward` :: A different vector for each image and each call: nothing can be learned about it, and the answer changes from call to call.
# - [ ] `repeat` in place of `expand` :: It has the same gradients and needs a little more memory.

# %% [markdown] quiz
# A model without a CLS token uses `pool(tokens, "avg", num_prefix_tokens=1)`. What goes wrong?
#
# - [ ] CLS is averaged in :: That is the opposite mistake, in a model with CLS and the number 0.
# - [ ] an error: there is no CLS token :: No shape is wrong, so nothing stops you.
# - [x] patch 0 is left out of the mean :: The first token is a patch here, and it is thrown away. The number must be 0.

# %% [markdown]
# ## Recap
#
# | what | shape | 32x32, P = 8, D = 64 |
# |---|---|---|
# | patch tokens | (B, N, D) | (B, 16, 64) |
# | CLS token, the parameter | (1, 1, D) | (1, 1, 64) |
# | CLS token, expanded | (B, 1, D) | (B, 1, 64) |
# | what enters and leaves the encoder | (B, N + 1, D) | (B, 17, 64) |
# | attention of one layer | (B, h, N + 1, N + 1) | (B, 2, 17, 17) |
# | y, by token or by average | (B, D) | (B, 64) |
#
# - One learned vector, the same for every image, stands at index 0. N becomes N + 1; D stays.
# - It must be an `nn.Parameter`. It may start at zero. `expand` is enough.
# - On its way in it knows nothing of the image. On its way out it speaks for it.
# - Average pooling is as good, with a learning rate of its own: so says the paper.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), section 3.1, equations 1 and 4, and appendix D.3.
# - Devlin et al., *BERT* (2018), section 3: where the CLS token comes from.
# - Touvron et al., *Going deeper with Image Transformers* (2021): CLS added only in the last layers.
# - Darcet et al., *Vision Transformers Need Registers* (2023): what more than one extra token is good for.
