# ---
# title: "The Vision Transformer"
# promise: "Write and train the whole model, then let it classify your drawing."
# part: "I. Build it"
# map: [block, head]
# recall: ["02.1", "03.2", "05.2"]
# goals:
#   - "Draw the Vision Transformer from memory, with the shape on each arrow."
#   - "Write the whole model, one line for each equation of the paper."
#   - "Write a training loop and an evaluation, and name what commonly goes wrong in them."
#   - "Say why the head starts at zero, and what the first loss must then be."
#   - "Prove that your model computes the same as a well-known library."
#   - "Look at the answers of a model: right and wrong ones, where it looked, which classes it confuses."
# ---

# %% [markdown]
# ## 1. Can you draw it from memory?
#
# At the end of this lesson a model that you wrote, trained by a loop that you wrote, names pictures that it has never seen.
# You have built every part of it but the last.
#
# Take three minutes and draw the model on paper, from the picture to the scores: a box for each part, an arrow from box to
# box. Write the shape on each arrow, for B pictures of 3x32x32 pixels, patches of 8x8 pixels, D = 96, L = 3 blocks and ten
# classes. Then compare.

# %%
import math
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from vit_classroom import plots, table
from vit_classroom.checks import check, parts_in_use, use_my_answers
from vit_classroom.student_model import fitted, keep_model, train_by_recipe
from vit_classroom.notebook import show_source
from vit_classroom.numbers import minutes, number, percent
from vit_course.data import load_dataset, load_picture, normalize, shapes10
from vit_classroom.evidence.recorded_mini_vit import recorded_run
from vit_course.training.device import get_device
from vit_course.training.profiles import get_profile

plots.show(
    plots.vit_overview(),
    "A photo is cut into patches, the patches become tokens with a CLS token in front, three encoder "
    "blocks follow, and the CLS token goes to the head, which gives one score for each class.",
)

# %% [markdown]
# The shapes on the arrows: (B, 3, 32, 32) pictures, (B, 16, 96) patch tokens, (B, 17, 96) from the CLS token to the final
# norm, (B, 96) after `pool`, (B, 10) scores. Which did you miss? (The picture has 9 patches where you have 16, and leaves
# out what is inside a block: its norms and plus signs.)
#
# The model will be made of *your* parts. Each time a check said "right", your answer was kept. `use_my_answers` checks every
# kept answer once more, and puts it in the place of the finished part. Run it before a model is built.

# %% tags=["nbval-ignore-output"]
my_parts = use_my_answers()

# %% [markdown]
# ## 2. How does the paper write it?
#
# Section 3.1 has four equations. N is the number of patches, D the width of a token, L the number of blocks.
#
# $$z_0 = [\,x_{class};\; x_p^1 E;\; \cdots;\; x_p^N E\,] + E_{pos} \qquad (1)$$
#
# $x_p^i$ is a flat patch, P²·C numbers, and E is (P²·C, D). $x_{class}$ is the CLS token, D numbers. $E_{pos}$ holds one row
# for each of the N + 1 tokens.
#
# $$z'_l = \mathrm{MSA}(\mathrm{LN}(z_{l-1})) + z_{l-1} \quad (2) \qquad z_l = \mathrm{MLP}(\mathrm{LN}(z'_l)) + z'_l \quad (3)$$
#
# That is one block of lesson 05, run for l = 1 ... L. Every $z_l$ is (N + 1, D).
#
# $$y = \mathrm{LN}(z_L^0) \qquad (4)$$
#
# $z_L^0$ is row 0 of the result, the CLS token. y is the picture in D numbers. A linear layer, the **head**, turns y into K
# scores, one for each class: the **logits**.
#
# > **Trap.** The LN of equation 4 is a layer norm of its own, the *final* norm. People forget it.
#
# **Your task.** Write `MiniViT`, the whole class: `__init__` makes the parts, the first of them is there; `forward` runs
# them. The docstring fixes the names. One thing is new: the head starts at zero, weight and bias.

# %% exercise="vit_classroom.exhibits.mini_vit:MiniViT" difficulty=3 minutes=14 hint="Go through the list of the docstring: one line of `__init__` for each part. `self.patch_embed` is there, its `num_patches` is N. Then `forward` has one line for each equation, and one for the head." hint2="`nn.Parameter(torch.zeros(1, 1, embed_dim))` is the CLS token; positions are `0.02 * torch.randn(1, N + 1, embed_dim)` in an `nn.Parameter`. `Encoder(depth, embed_dim, num_heads)` is the stack. `nn.init.zeros_(self.head.weight)` sets a weight to zero. In `forward`: `prepend_cls_token(tokens, self.cls_token)`, add `self.pos_embed`, blocks, norm, `pool(z, 'token')`, head."
from vit_classroom.exhibits.mini_vit import MiniViT

MiniViT = check(MiniViT)

# %% [markdown]
# > **Predict.** The model is fresh. What are its ten logits for a picture, and what is the loss? Write two numbers down.

# %%
torch.manual_seed(0)
images, labels = torch.rand(2, 3, 32, 32), torch.tensor([0, 1])
model = MiniViT(patch_size=8)
print("logits of picture 0:", model(images)[0].tolist())
print("parameters:", number(sum(p.numel() for p in model.parameters())))
for num_classes in (2, 10, 1000):
    fresh = MiniViT(patch_size=8, num_classes=num_classes)
    loss = F.cross_entropy(fresh(images), labels).item()
    print(f"K = {num_classes:4}: loss {loss:.4f}, ln K {math.log(num_classes):.4f}")

# %% [markdown] claim="not model(images).any() and abs(loss - math.log(num_classes)) < 1e-6" always
# All logits are 0, so every class gets the same probability, 1/K. The loss is the **cross-entropy**: minus the logarithm of
# the probability of the true class. Here it is $-\ln \tfrac{1}{K} = \ln K$, the right loss for a model that knows nothing.
#
# > **Key idea.** The first loss of a classifier is ln K. If it is far larger, the model is sure of nonsense. This is the
# > cheapest test of a new model.
#
# Why zeros? The gradient reaches the body *through* the weight of the head. At zero, a new head that knows nothing cannot
# push a trained body around in the first step. The head itself gets a gradient, so from the second step on both learn. This
# reason is ours: the authors only write that one layer of zeros in place of the whole old head was "a little more robust"
# than drawing its last layer anew (B.1.1). In pre-training, they say, their head has a hidden layer with a tanh (D.3).
#
# ## 3. Is it really the Vision Transformer?
#
# `torchvision` has a ViT written by other people. We give it random weights, copy them into *your* model, and show both the
# same pictures. If the logits are equal, the two compute the same function. `convert_torchvision` only renames (their
# `encoder.ln` is our `norm`), and `fitted` gives E the shape that your `PatchEmbed` stores.

# %%
from torchvision.models import VisionTransformer as TorchvisionViT

from vit_course.extensions.weights import convert_torchvision

torch.manual_seed(0)
theirs = TorchvisionViT(
    image_size=32, patch_size=8, num_layers=3, num_heads=4, hidden_dim=64, mlp_dim=256, num_classes=10
)
for parameter in theirs.parameters():
    nn.init.normal_(parameter, std=0.1)
ours = MiniViT(patch_size=8, embed_dim=64, depth=3, num_heads=4)
ours.load_state_dict(fitted(convert_torchvision(theirs.state_dict()), ours))
hundred = torch.rand(100, 3, 32, 32)
with torch.no_grad():
    expected, got = theirs.eval()(hundred), ours.eval()(hundred)
print("torchvision:", [round(value, 3) for value in expected[0, :5].tolist()])
print("yours:      ", [round(value, 3) for value in got[0, :5].tolist()])
print("equal up to rounding (below 1e-6):", (got - expected).abs().max().item() < 1e-6)

# %% [markdown] claim="(got - expected).abs().max() < 1e-6" always
# They are equal: in evaluation mode your `forward` computes what the Vision Transformer does. (Other checks have tested its
# first weights.) A falling loss would prove less, since many wrong models train too. Section 10 damages the copy: would this
# test notice?
#
# ## 4. How does a model learn?
#
# In small steps. Each takes a **batch**, a few pictures with their labels, and does four things:
#
# 1. *Forward*: the model gives logits, and `F.cross_entropy(logits, labels)` is their loss, one number.
# 2. *Forget*: `optimizer.zero_grad()` removes the gradients of the step before. PyTorch adds new gradients to old ones.
# 3. *Backward*: `loss.backward()` computes for every weight how the loss would change with it: its **gradient**.
# 4. *Step*: `optimizer.step()` moves every weight a little, against its gradient.
#
# The **optimiser** knows how far. Ours is AdamW (lesson 07). An **epoch** shows each picture once, in an order that is drawn
# anew each time: a data set is often sorted, and a long run of one class would pull the model towards it.
#
# A model has two **modes**. In training mode, `model.train()`, dropout and drop path are at work; in evaluation mode,
# `model.eval()`, they are not. The mode stays until somebody changes it.
#
# > **Trap.** None of these raises an error: labels shuffled apart from their pictures; gradients that are never cleared; a
# > step before the backward pass; a softmax before the loss, which has one of its own. In some of them the loss even falls.
#
# **Your task.** Write `train_one_epoch`. The check gives you a model and an optimiser that write down what they get.

# %% exercise="vit_classroom.exhibits.mini_vit:train_one_epoch" difficulty=2 minutes=12 hint="`torch.randperm(N).split(batch_size)` gives the rows of all batches in a random order, the last one smaller. `images[rows]` and `labels[rows]` are one batch." hint2="Inside the loop: `loss = F.cross_entropy(model(images[rows]), labels[rows])`, then zero_grad, backward, step. The loss is a mean over its batch; `loss.item() * len(rows)` is the sum. Add these up and divide by N at the end. `model.train()` stands before the loop."
from vit_classroom.exhibits.mini_vit import train_one_epoch

train_one_epoch = check(train_one_epoch)

# %% [markdown]
# Is the loop right? The cheapest test: let the model memorise a few pictures. A model that cannot memorise 64 pictures will
# hardly learn from 50,000.

# %% tolerance=0.4
shapes = shapes10(train=640, test=100)
pictures, true = normalize(shapes.train_images, *shapes.channel_stats()), shapes.train_labels
torch.manual_seed(0)
model = MiniViT(patch_size=8)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for epoch in range(1, 46):
    loss = train_one_epoch(model, pictures[:64], true[:64], optimizer, batch_size=16)
    if epoch in (1, 5, 10, 20, 45):
        print(f"epoch {epoch:2}: loss {loss:.3f}")

# %% [markdown] claim="loss < 1"
# The loss begins near ln 10 = 2.303 and falls towards 0. The loop works. What about new pictures?
#
# **Your task.** Write `accuracy`, the share of pictures that are named right. Test pictures are for measuring: evaluation
# mode, and no gradients. `with torch.no_grad():` switches them off for a block.

# %% exercise="vit_classroom.exhibits.mini_vit:accuracy" difficulty=1 minutes=5 hint="Go through images and labels in batches, as `images.split(batch_size)` cuts them, and count the hits. `logits.argmax(dim=1)` is the class with the highest score, one for each picture." hint2="`(model(x).argmax(dim=1) == y).sum().item()` counts the hits of one batch. Add these up and divide once, by the number of pictures: a mean of the batches' shares would let a small last batch count too much."
from vit_classroom.exhibits.mini_vit import accuracy

accuracy = check(accuracy)

# %% tolerance=15
memorised, unseen = accuracy(model, pictures[:64], true[:64]), accuracy(model, pictures[64:], true[64:])
print("the 64 pictures of the training:", percent(memorised))
print("576 new pictures:               ", percent(unseen))
print("guessing:                       ", percent(1 / 10))

# %% [markdown] claim="memorised > 0.9 and unseen < 0.4"
# The model has memorised its 64 pictures, and names most new ones wrong. It needs more pictures.
#
# ## 5. Does it learn?
#
# Now your model and your loop, with all the pictures there are. `load_dataset("auto")` gives real pictures if you have some
# (lesson 00), else Shapes-10, ten drawn shapes. The opponent is a **linear classifier**, one matrix from all pixels to the
# classes, trained by the same loop. On Shapes-10 both have AdamW, each at a rate of its own: 1e-3 and 3e-4.
#
# > **Predict.** How much of the test set will each name right? Guessing gives 10 %.
#
# On Shapes-10 your loop runs with AdamW for a minute or two. Real pictures need more help: `train_by_recipe` runs your loop
# with **Muon** beside AdamW, a learning rate that rises and falls, pictures shifted and mirrored anew in each epoch, and half
# of the tokens at first (lessons 07 and 16). A bar shows how long it takes.

# %% tags=["nbval-ignore-output"]
profile, device = get_profile(), get_device()
dataset = load_dataset("auto")
drawn, few = "Shapes-10" in dataset.provenance, profile.name == "smoke"
part = dataset.subset(320, 200) if few else dataset
print(part.provenance)
stats, classes = part.channel_stats(), len(part.classes)
train_images, test_images = (normalize(x, *stats).to(device) for x in (part.train_images, part.test_images))
train_labels, test_labels = part.train_labels.to(device), part.test_labels.to(device)
channels, height, width = train_images.shape[1:]


def learn(model, lr, epochs):
    """Train a model with your loop and AdamW; return the test accuracy of every epoch."""
    optimizer, scores = torch.optim.AdamW(model.to(device).parameters(), lr=lr), []
    for epoch in range(1, epochs + 1):
        start = time.perf_counter()
        loss = train_one_epoch(model, train_images, train_labels, optimizer)
        scores.append(accuracy(model, test_images, test_labels))
        spent = minutes(time.perf_counter() - start)
        print(f"epoch {epoch} of {epochs}: loss {loss:.3f}, test {percent(scores[-1])}, {spent}")
    return scores


torch.manual_seed(0)
vit = MiniViT((height, width), 8 if drawn else 4, channels, classes)
if drawn or few:
    epochs = profile.pick(smoke=1, cpu=5, gpu=15)
    vit_scores = learn(vit, 1e-3, epochs)
else:
    log = train_by_recipe(vit, train_one_epoch, accuracy, part)
    epochs, vit_scores = len(log), [row["test_accuracy"] for row in log]

# %% tags=["nbval-ignore-output"]
linear = nn.Sequential(nn.Flatten(), nn.Linear(channels * height * width, classes))
nn.init.zeros_(linear[1].weight)
linear_scores = learn(linear, 3e-4, epochs)
print("your model is", keep_model(vit, part, vit_scores[-1], epochs * len(train_images)))
table(
    [["your MiniViT", percent(vit_scores[-1])], ["linear classifier", percent(linear_scores[-1])]]
    + [["guessing", percent(1 / classes)]],
    ["model", "test pictures named right"],
)

# %% [markdown] claim=["vit_scores[-1] > 2 / classes", "vit_scores[-1] > linear_scores[-1] + 0.1"]
# Your ViT is far ahead of the one matrix. A star that moves by a few pixels meets other weights of the linear classifier, so
# it cannot learn "a star, wherever it stands". (The profile `smoke` stops long before.) Later lessons build on your model.
#
# ## 6. What does it see?
#
# From now on the course uses `VisionTransformer`: your `MiniViT` with some options. One of them, `return_attention=True`,
# also gives the attention weights of every layer. Your trained weights fit into it.

# %% tags=["nbval-ignore-output"]
from vit_course.vit import VisionTransformer

vit, test_images = vit.cpu().eval(), test_images.cpu()
mine = VisionTransformer(
    (height, width), 8 if drawn else 4, channels, classes, embed_dim=96, depth=len(vit.blocks), num_heads=3
)
mine.load_state_dict(fitted(vit.state_dict(), mine))
mine.eval()


def ask(images):
    """Return the probabilities of the classes (B, K), and where CLS looks in the last block, over the patches."""
    with torch.no_grad():
        logits, attentions = mine(images, return_attention=True)
    looks = attentions[-1].mean(dim=1)[:, 0, 1:]  # mean over the heads, from the CLS token to the patches
    return logits.softmax(dim=-1), looks.unflatten(1, mine.patch_embed.grid_size)


probabilities, looks = (torch.cat(parts) for parts in zip(*map(ask, test_images.split(500)), strict=True))
answers = probabilities.argmax(dim=1)
right = answers == part.test_labels

# %% [markdown]
# > **Predict.** The next figure shows the first six test pictures that your model names right, and the first six that it
# > names wrong; beside each, where the CLS token looked in the last block. Does it look at the shape? Will you see why
# > it was wrong?

# %% fold tags=["nbval-ignore-output"]
shown = torch.cat([right.nonzero()[:6, 0], (~right).nonzero()[:6, 0]])
figure = plots.answer_gallery(
    part.test_images[shown],
    looks[shown],
    probabilities[shown],
    part.classes,
    "What does your model say?",
    part.test_labels[shown],
)
plots.show(
    figure,
    "Twelve test pictures with the model's answer and its probability, most often six right and then six wrong; beside "
    "each picture the attention of the CLS token over the patches, bright where it looked.",
)

# %% tags=["nbval-ignore-output"]
sure = probabilities.amax(dim=1)
for name, chosen in (("right", right), ("wrong", ~right)):
    mean, high = (percent(x.float().mean().item()) for x in (sure[chosen], sure[chosen] > 0.9))
    print(f"{name}: {chosen.sum()} answers, mean probability {mean}, {high} above 90 %")

# %% [markdown] claim=["sure[right].mean() > sure[~right].mean()", "(sure[~right] > 0.9).any()"]
# Wrong answers are less sure than right ones, on average. But some are wrong and sure: the probability that a model gives is no
# promise. In how many of the six wrong ones did it look at the right place?
#
# Which classes does it confuse? The rows of the next table are the true classes, the columns are the answers. A perfect
# model has numbers on the diagonal alone.

# %% fold tags=["nbval-ignore-output"]
title = "Of 100 pictures of a class, how many got which name?"
figure = plots.confusion_table(answers, part.test_labels, part.classes, title)
plots.show(figure, "A square table, true classes against answers; the diagonal holds what was named right.")
counts = plots.confusion(answers, part.test_labels, classes).fill_diagonal_(0)
was, said = divmod(int(counts.argmax()), classes)
total = (part.test_labels == was).sum()
print(
    f"most frequent mistake: {counts.max()} of {total} called {part.classes[said]}, not {part.classes[was]}"
)

# %% [markdown]
# Would you make the most frequent mistake too?
#
# ## 7. What does it say about your photo?
#
# Put a photo (jpg or png, of any size) beside this notebook, and write its name into the next cell. It is cut to a square,
# made as small as the training pictures, and normalised with *their* mean and deviation. For a model that knows
# shapes, lay a shape of white paper on a dark table.

# %% tags=["nbval-ignore-output"]
my_photo = Path("my_photo.jpg")
if my_photo.exists():
    photo = load_picture(my_photo, (height, width))
else:
    print(f"There is no {my_photo} here: this is a sample, the portrait that comes with matplotlib.")
    photo = plots.sample_photo((height, width))
photo = photo[None, :channels]
probability, look = ask(normalize(photo, *stats))
plots.show(
    plots.answer_gallery(photo, look, probability, part.classes, "What does your model say to this?"),
    "The photo with the model's answer and its probability, and beside it where the CLS token looked.",
)

# %% [markdown] claim="len(probability[0]) == classes and abs(probability.sum() - 1) < 1e-5" always
# The probabilities sum to 1, so the model must name one of its classes, whatever it is shown. It cannot say "none of these". The
# less your photo is like the training pictures, the less its answer means.

# %% [markdown] curious
# ## 8. How good is it on real pictures?
#
# If section 5 ran on drawn shapes and you have CIFAR-10 now (lesson 00), the next cell trains your model on it: your loop, with
# Muon and what else `train_by_recipe` adds. It saves after each epoch. Stop it when you like: the same cell goes on from there.

# %% tags=["nbval-ignore-output"]
train_now = False
if train_now:
    torch.manual_seed(0)
    train_by_recipe(MiniViT(), train_one_epoch, accuracy, load_dataset("cifar10"))

if record := recorded_run():  # the course's own run of that cell
    spent = minutes(sum(row["cpu_seconds"] for row in record["log"]))
    print(f"recorded: {percent(record['log'][-1]['test_accuracy'])} after {len(record['log'])} epochs")
    print(f"with Muon and AdamW, {spent} of one processor core")
    print(record["data"])

# %% [markdown] curious
# ## 9. Whose parts are at work in it?
#
# Nobody has to believe a list. The next cell watches Python during one step of training, and counts which code runs.

# %% tags=["nbval-ignore-output"]
optimizer = torch.optim.AdamW(vit.parameters(), lr=0.0)  # with a rate of 0 the step changes nothing
batch = test_images[:64], part.test_labels[:64]
rows = parts_in_use(lambda: train_one_epoch(vit, *batch, optimizer), MiniViT, train_one_epoch)
table(rows, ["part", "whose", "calls in one step of training"])

# %% [markdown] claim="not {'patchify', 'layer_norm', 'scaled_dot_product_attention', 'add_position'} & {row[0] for row in rows if row[1] != 'yours'}" always
# Many parts are missing, since only what runs is counted. `MiniViT` adds its positions without `add_position`. The course's
# `PatchEmbed` has a convolution in the place of `patchify`, its blocks have `nn.LayerNorm`, and its attention uses PyTorch's
# own function unless somebody wants to *see* the weights.

# %% [markdown] curious
# ## 10. Would the proof notice a mistake?
#
# A test that cannot fail proves nothing. So let us damage the copy of section 3 in three small ways.


# %%
import copy


def move_positions(model):
    """Give every token the position of its neighbour."""
    model.pos_embed.data = model.pos_embed.data.roll(1, dims=1)


def swap_qkv(model):
    """Read v, q, k where q, k, v are stored."""
    model.blocks[0].attn.qkv.weight.data = model.blocks[0].attn.qkv.weight.data.roll(64, dims=0)


def change_eps(model):
    """Use PyTorch's default eps, 1e-5, in every layer norm; the paper's code has 1e-6."""
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-5


gaps = []
for damage in (move_positions, swap_qkv, change_eps):
    damaged = copy.deepcopy(ours)
    damage(damaged)
    with torch.no_grad():
        gap = (damaged(hundred) - expected).abs().max().item()
    gaps.append(gap)
    print(f"{damage.__name__:14} below 1e-6: {gap < 1e-6}, below 1e-4: {gap < 1e-4}")

# %% [markdown] claim="min(gaps) > 1e-6" always
# It notices all three, the tiny change of eps too.

# %% [markdown] curious
# ## 11. Why start with such small numbers?
#
# First the head. What does a head of zeros do to the body in the first step?

# %%
fresh = MiniViT(patch_size=8)
F.cross_entropy(fresh(images), labels).backward()
body = sum(p.grad.square().sum() for name, p in fresh.named_parameters() if not name.startswith("head"))
print("gradient of the body is exactly 0:", body.item() == 0)
print("gradient of the head is above 0:  ", fresh.head.weight.grad.abs().max().item() > 0)

# %% [markdown] claim=["body == 0 and fresh.head.weight.grad.any()", "{round(p.std().item(), 2) for name, p in fresh.named_parameters() if 'fc1.weight' in name} == {0.06}"] always
# No gradient reaches the body, and one reaches the head.
#
# The other weights cannot all be zero: nothing of the picture would reach the head. `VisionTransformer` draws them at random,
# with a standard deviation (std) of .02 for the linear layers of the blocks and for positions (in your `MiniViT` most linear
# layers have PyTorch's .06). This looks very small. What happens with other values?
#
# The next cell draws all linear layers of the blocks with one std, and the head either with the same std or as zeros. It
# measures two things on pictures: the first loss, and how *peaked* the attention of the first block is. A largest weight of
# 1/17 = .06 means that each token looks at all 17 tokens equally. A largest weight of 1 means that it sees a single one.


# %%
def redraw(model, std, head_std):
    """Draw the linear layers of a model anew, the head with its own std."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=head_std if module is model.head else std)
    return model


hundred, answers = pictures[:100], true[:100]
stds = [0.005, 0.02, 0.1, 0.3, 1.0]
losses, peaked = {"head like the rest": [], "head at zero": []}, []
with torch.no_grad():
    for std in stds:
        for name, head_std in [("head like the rest", std), ("head at zero", 0.0)]:
            torch.manual_seed(0)
            fresh = VisionTransformer(patch_size=8, embed_dim=96, depth=3, num_heads=3)
            logits, attentions = redraw(fresh, std, head_std)(hundred, return_attention=True)
            losses[name].append(F.cross_entropy(logits, answers).item())
        peaked.append(attentions[0].amax(dim=-1).mean().item())
        first_loss = losses["head like the rest"][-1]
        print(f"std {std:5}: first loss {first_loss:5.2f}, largest weight {peaked[-1]:.2f}")

# %% fold
figure = plots.curve_panels(
    {
        "first loss in nats": {name: (stds, values) for name, values in losses.items()},
        "largest attention weight": {"first block": (stds, peaked)},
    },
    "How sure is a fresh model, and how peaked is its attention?",
    "std of the weights",
)
plots.show(
    figure,
    "Left: the first loss over the standard deviation; with a head drawn like the rest it climbs steeply "
    "from 2.3 at small values, with a zero head it stays flat. Right: the largest attention weight rises "
    "from 0.06 towards 1.",
)

# %% [markdown] claim="losses['head like the rest'][-1] > 3 * math.log(10) and peaked[-1] > 0.9 and peaked[1] < 0.07" always
# With std 1 and a head to match, the first loss is several times ln K. The zero head hides this, but not the second
# problem: the attention of a fresh model already sees single tokens. A softmax that is near 0 and 1 has almost no gradient
# (lesson 04), so this choice is hard to unlearn. With .02 each token begins by looking everywhere.
#
# For positions the argument is about size. They are *added* to the patches. How alike are then the tokens of two different
# pictures? We measure it by cosine similarity (lesson 03): 1 is the same direction, 0 is a right angle.

# %%
with torch.no_grad():
    tokens = MiniViT(patch_size=8).patch_embed(pictures[:2])
    for std in (0.02, 1.0):
        positions = torch.randn(1, 16, 96, generator=torch.Generator().manual_seed(0)) * std
        first, second = tokens + positions
        loud, alike = positions.norm() / tokens[0].norm(), F.cosine_similarity(first, second, dim=-1).mean()
        print(f"positions with std {std:4}: {loud:.2f} times the size of the patches, similarity {alike:.2f}")

# %% [markdown] claim="loud > 1.5 and alike > 0.7" always
# Positions twice as large as the patches make all pictures look alike. At .02 they leave the pictures apart.

# %% [markdown] curious
# ## 12. How big is it?
#
# The paper has three sizes, Base, Large and Huge (its Table 1). Later work added Small and Tiny. A name such as ViT-B/16
# means: size Base, patches of 16x16 pixels.
#
# You can count the parameters without building anything. Let M be the hidden width of the MLP, in the paper M = 4·D. A linear
# layer from a to b has a·b weights and b biases.
#
# | part | weights | biases or shifts |
# |---|---|---|
# | patch projection E | P²·C·D | D |
# | CLS token, positions | D + (N + 1)·D | |
# | a block: two layer norms | 2·D (scales) | 2·D |
# | a block: queries, keys, values | D·3D | 3·D |
# | a block: W_O | D·D | D |
# | a block: MLP, both layers | D·M + M·D | M + D |
# | final norm | D | D |
# | head | D·K | K |
#
# The four "block" rows count L times. The number of heads appears nowhere: heads only cut q, k and v into groups.
# `vit_num_parameters` adds the table up.

# %%
from vit_course.vit import VIT_SIZES, vit_num_parameters

show_source(vit_num_parameters)

# %%
paper = {"B": 86, "L": 307, "H": 632}  # Table 1, in millions
counted, rows = {}, []
for name in ("Ti", "S", "B", "L", "H"):
    D, L, heads = (VIT_SIZES[name][key] for key in ("embed_dim", "depth", "num_heads"))
    patch = 14 if name == "H" else 16
    counted[name] = vit_num_parameters(224, patch, 3, 1000, D, L) / 1e6
    rows.append([f"{name}/{patch}", L, D, 4 * D, heads, f"{counted[name]:.1f}", paper.get(name, "not in it")])
rows.append(["L/32", 24, 1024, 4096, 16, f"{vit_num_parameters(224, 32, 3, 1000, 1024, 24) / 1e6:.1f}", 307])
real = sum(p.numel() for p in VisionTransformer(img_size=224, patch_size=16, num_classes=1000).parameters())
print("formula equals a model that was built (Ti/16):", vit_num_parameters(224, 16, 3, 1000) == real)
table(rows, ["size", "blocks", "D", "MLP", "heads", "millions, by formula", "millions, Table 1"])

# %% [markdown] claim="max(abs(counted[name] / millions - 1) for name, millions in paper.items()) < 0.012" always
# The formula agrees with Table 1 to about one percent. The paper does not say which patch size and which head it counted. For
# Large, P = 32 comes closer than P = 16: E is larger, there are fewer positions.
#
# Where do the parameters sit? A block has about 4·D² in attention and 8·D² in the MLP. So there is a rule of thumb: **12·L·D²**.

# %% fold
names = list(counted)
rule = [12 * VIT_SIZES[name]["depth"] * VIT_SIZES[name]["embed_dim"] ** 2 / 1e6 for name in names]
figure = plots.curves(
    {
        "by formula": (names, list(counted.values())),
        "the rule 12·L·D²": (names, rule),
        "Table 1 of the paper": (list(paper), list(paper.values())),
    },
    "How good is the rule 12·L·D²?",
    "size of the model",
    "parameters in millions",
    log="y",
)
plots.show(figure, "Three lines over the sizes Ti, S, B, L, H; formula, rule and paper almost coincide.")

# %% [markdown] curious
# ## 13. What does one picture cost?
#
# `vit_flops` counts the operations of one forward pass: matrix products alone, a multiplication and an addition as two. One
# block costs, with T = N + 1 tokens,
#
# $$24 \, T D^2 + 4 \, T^2 D$$
#
# The first term belongs to the linear layers and grows with T. The second makes and uses the table of weights, and grows with
# T². So which part of the cost is the famous T²? Divide: its share is T / (T + 6·D).

# %%
from vit_course.vit import create_vit, vit_flops

rows = []
for name, size in [("Ti/4", 32), ("Ti/16", 224), ("B/16", 224)]:
    built = create_vit(name, img_size=size)
    T, D = built.patch_embed.num_patches + 1, VIT_SIZES[name.split("/")[0]]["embed_dim"]
    rows.append([name, f"{size} px", T, number(vit_flops(built) / 1e9), percent(T / (T + 6 * D))])
table(rows, ["model", "picture", "tokens", "GFLOP", "share of T²"])

# %% fold
counts = [17, 65, 197, 577, 1025, 4097, 16385]
figure = plots.curves(
    {f"D = {D}": (counts, [100 * T / (T + 6 * D) for T in counts]) for D in (192, 768, 1280)},
    "When is the T² part half of the cost?",
    "tokens T",
    "share of a block's operations in percent",
    log="x",
)
plots.show(figure, "Three rising curves over the number of tokens; each passes one half at six times its D.")

# %% [markdown]
# Half at about 6·D tokens (2·D without the MLP, lesson 04). Our models are far to the left: cost grows almost in proportion to the tokens. The T² matters
# for large pictures and small patches. A training step costs about three times the forward pass: once forward, twice backward.

# %% [markdown] curious
# ## 14. What can weights of others do?
#
# Now that the model is proved equal, it can use weights that others have trained for many GPU days. torchvision offers a
# ViT-B/16 trained on ImageNet, 1,000 classes. The file has 330 MB, so this cell does not fetch it unasked. If you have a network
# and the time, set `download = True`.

# %% tags=["nbval-ignore-output"]
from torchvision.models import ViT_B_16_Weights

from vit_course.extensions.weights import load_weights

download = False
trained = ViT_B_16_Weights.IMAGENET1K_V1
file = Path(torch.hub.get_dir(), "checkpoints", Path(trained.url).name)
if download and not file.exists():
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        torch.hub.download_url_to_file(trained.url, file, hash_prefix=file.stem.split("-")[1])
    except Exception as error:  # no network, a full disk, a damaged file
        print("The download did not work:", error)

if file.exists():
    base = VisionTransformer(img_size=224, patch_size=16, num_classes=1000, **VIT_SIZES["B"])
    base.load_state_dict(fitted(convert_torchvision(load_weights(file)), base))
    base.eval()
    photo = plots.sample_photo()
    with torch.no_grad():
        guesses = base(trained.transforms()(photo)[None]).softmax(-1)[0]
    for probability, place in zip(*guesses.topk(5), strict=True):
        print(f"{percent(probability)}  {trained.meta['categories'][place]}")
    best = trained.meta["categories"][guesses.argmax()]
    plots.show(
        plots.image_row([photo], [best], "Your model names a photo"), f"The portrait, with the name {best}."
    )
else:
    print(f"{file.name} is not on this machine, so there is nothing to show.\nSet download = True, or go on.")

# %% [markdown]
# (The photo shows an officer. ImageNet has no class "person", but it has "military uniform".)

# %% [markdown] curious
# ## 15. Which names do other codes use?
#
# Many tutorials explain one PyTorch version, `models/modeling.py` of jeonsworld/ViT-pytorch. It is the same model. Only
# the names differ:
#
# | ours | theirs |
# |---|---|
# | `img_size`, `embed_dim`, `depth`, `num_heads` as arguments | `img_size`, and a `config` with `hidden_size`, `transformer["num_layers"]`, `transformer["num_heads"]`, `transformer["mlp_dim"]` |
# | `patch_embed.proj`, `cls_token`, `pos_embed` | `transformer.embeddings`: `patch_embeddings`, `cls_token`, `position_embeddings` |
# | `blocks[i]`: `norm1`, `attn`, `norm2`, `mlp` | `transformer.encoder.layer[i]`: `attention_norm`, `attn`, `ffn_norm`, `ffn` |
# | `attn.qkv`, one matrix; `attn.proj` | `attn.query`, `attn.key`, `attn.value`; `attn.out` |
# | `norm`, `head` | `transformer.encoder.encoder_norm`, `head` |
# | head at zero in `__init__` | `zero_head=True`, which acts when weights are loaded |
# | `return_attention=True` | `vis=True`, when the model is made |
#
# Their `models/configs.py` holds the values of the `config`, one function per model. ViT-B/16 has `hidden_size` 768,
# `num_layers` 12, `num_heads` 12, `mlp_dim` 3072, `dropout_rate` .1, `attention_dropout_rate` 0, `classifier` "token", and
# `representation_size` None, so no tanh layer. L has 1024, 24, 16, 4096; H has 1280, 32, 16, 5120.
#
# Two habits of theirs surprise people. `num_classes` is 21,843 if you say nothing: the classes of ImageNet-21k, on
# which the weights were trained. And the loss is computed *inside* `forward`: with labels it returns the loss alone,
# without them (logits, attention). Ours returns logits, and the training loop computes the loss.

# %% [markdown] curious
# ## 16. What happens to one picture on its way?
#
# A **hook** is a function that PyTorch calls each time a module has run, with the module's input and output. With hooks you
# can watch a model without changing it. Here they follow one photo through your model and note every shape.


# %%
def trace(model, images):
    """Return (name, activation) for each stage of a model on a batch of images."""
    stages = []

    def watch(module, after, before=None):
        def note(_, inputs, output):
            if before:
                stages.append((before, inputs[0].detach()))
            stages.append((after, output.detach()))

        return module.register_forward_hook(note)

    hooks = [watch(model.patch_embed, "patch_embed"), watch(model.blocks[0], "blocks[0]", before="embed")]
    hooks += [watch(block, f"blocks[{i}]") for i, block in enumerate(model.blocks) if i > 0]
    hooks += [watch(model.norm, "norm"), watch(model.head, "head", before="pool")]
    model.eval()(images)
    for hook in hooks:
        hook.remove()
    return stages


portrait = plots.sample_photo((32, 32))
half = torch.tensor([0.5, 0.5, 0.5])
untrained = MiniViT(patch_size=8)
stages = trace(untrained, normalize(portrait[None], half, half))
for name, value in stages:
    first_row = value[0, 0] if value.ndim == 3 else value[0]
    print(f"{name:12} {tuple(value.shape)!s:12}  row 0: mean size of a number {first_row.abs().mean():.3f}")

# %% fold
figure = plots.token_trace(
    portrait,
    [(name, value[0] if value.ndim == 3 else value) for name, value in stages],
    "One photo on its way through the model",
)
plots.show(
    figure,
    "The photo, then tables of numbers: 16 rows after the patch projection, 17 rows through embedding, "
    "blocks and norm, one row after pooling, and ten zeros from the head.",
)

# %% [markdown]
# (Each table has a scale of its own, with the colour of 0 in its middle: that of the ten zeros at the end.) From `embed` on, row 0
# is the CLS token. There it is almost zero: it has seen nothing yet. Block by block it collects something from the other
# rows. The final norm makes every row equally long, and `pool` keeps row 0 alone. The head gives zeros: it is not trained.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# A new model for 100 classes has a first loss of 9.7. What do you think?
#
# - [x] the head or the weights start too large :: ln 100 is about 4.6. A loss of 9.7 means confident wrong answers.
# - [ ] that is fine, since it has not been trained yet :: An untrained model should be *undecided*, and that is worth ln K.
# - [ ] the learning rate is too high :: Before the first step the learning rate has done nothing.

# %% [markdown] quiz
# A loop shuffles the pictures, and takes the labels in their old order. What will you see?
#
# - [ ] an error, since shapes no longer fit :: The shapes fit: as many labels as pictures.
# - [x] a loss that hardly falls below ln K :: Pictures and labels have nothing to do with each other, so there is nothing to learn but how frequent the classes are.
# - [ ] a falling loss, and a good accuracy on the test pictures :: Only if the right labels reach their pictures.

# %% [markdown] quiz
# Someone forgets `optimizer.zero_grad()`. Along which gradient does step 3 go?
#
# - [ ] along that of batch 3 alone :: Only if the old gradients are cleared first.
# - [x] along the sum of batches 1, 2 and 3 :: `backward` adds to what is there, so old directions pull for ever.
# - [ ] along none: PyTorch refuses a second backward pass :: It refuses to go back through the *same* forward pass twice. Here each batch has its own.

# %% [markdown] quiz
# Someone returns `self.head(y).softmax(-1)` and trains with `F.cross_entropy`. What happens?
#
# - [ ] an error :: Shapes and types fit, so nobody complains.
# - [ ] nothing, since a softmax of a softmax is the same :: It is another function: it squeezes all scores together.
# - [x] it trains, but badly :: The loss applies a softmax itself. Two of them make gradients small, and the loss cannot come near 0.

# %% [markdown]
# ## Recap
#
# The whole Vision Transformer on one page:

# %%
from vit_classroom.exhibits import mini_vit

show_source(mini_vit.MiniViT)

# %% [markdown]
# - The head starts at zero, so the first loss is ln K.
# - A step: forward, zero_grad, backward, step. Train in training mode, measure in evaluation mode without gradients.
# - Equal logits on copied weights show that `forward` is right. A falling loss does not.
# - A model has no answer but its classes, and it can be sure and wrong.
#
# **Your next step.** Change one thing and train again: 1 or 6 blocks, half of the pictures, another learning rate. Before each
# run, write down what you expect. Lesson 07 changes the *training*, and leaves the model as it is.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), section 3.1, Table 1 and appendix B.1.
# - Touvron et al., *Training data-efficient image transformers* (2021): where Ti and S come from.
# - The source of `torchvision.models.vision_transformer` and of `timm.models.vision_transformer`: you can read both now.
