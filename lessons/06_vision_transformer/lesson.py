# ---
# title: "The Vision Transformer"
# promise: "Write and train the whole model, then let it classify your drawing."
# part: "I. Build it"
# map: [block, head, no shapes]
# recall:
#   "02.3": "A program appends CLS *behind* the patches with `torch.cat([tokens, cls], dim=1)`, and its head reads the first token. What happens?"
#   "03.2": "Positions are learned for 64 patches and CLS, with D = 192. What is the shape of their table?"
#   "05.2": "Somebody's block computes z' = MSA(LN(z) + z). Which mistake does it make, if any?"
# goals:
#   - "Write the shape on each arrow of the Vision Transformer, from memory."
#   - "Write the whole model, one line for each equation of the paper."
#   - "Write a training loop, and say what commonly goes wrong in it."
#   - "Say why the head starts at zero, and what the first loss must then be."
#   - "Prove that your model computes the same as a well-known library."
#   - "Judge the answers of a model: right and wrong ones, where it looked, which classes it confuses."
# ---

# %% [markdown]
# ## 1. Can you draw it from memory?
#
# You have built every part of the Vision Transformer but the head. Now you put them together and train the model. At
# the end it classifies what you draw.
#
# The map above has lost its shapes. Draw it on paper, from the images to the logits, and write the shape of the data on each
# arrow. There are B images of 3x32x32 pixels, patches of 8x8 pixels, D = 96, L = 3 blocks and ten classes. Take three minutes.
# Then run the next two cells and compare.

# %%
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

from vit_classroom import plots, table
from vit_classroom.checks import check, parts_in_use, use_my_answers
from vit_classroom.drawings import draw_in_the_middle
from vit_classroom.evidence.recorded_mini_vit import recorded_run
from vit_classroom.exhibits.mini_vit import accuracy
from vit_classroom.exhibits.play import play
from vit_classroom.exhibits.whole_model import model_with_shapes
from vit_classroom.notebook import show_source
from vit_classroom.numbers import number, percent
from vit_classroom.profiles import get_profile
from vit_classroom.student_model import fitted, keep_model, train_by_adamw, train_by_recipe
from vit_course.data import load_dataset, normalize, shapes10

# %% fold
plots.show(
    model_with_shapes(),
    "Nine boxes in a row, each with the shape that leaves it. Images (B, 3, 32, 32), patches (B, 16, 192), times E "
    "(B, 16, 96), CLS in front, positions, 3 blocks and norm (B, 17, 96), pool (B, 96), head (B, 10).",
)

# %% [markdown]
# Which shape did you miss?
#
# The model will be made of *your* parts. `use_my_answers` puts your kept answers in the place of the finished parts. Run it
# before a model is built.

# %% tags=["nbval-ignore-output"]
my_parts = use_my_answers()

# %% [markdown]
# ## 2. How does the paper write it?
#
# Section 3.1 has four equations. N is the number of patches, D the width of a token, L the number of blocks.
#
# $$z_0 = [\,x_{class};\; x_p^1 E;\; \cdots;\; x_p^N E\,] + E_{pos} \qquad (1)$$
#
# $x_{class}$ is the CLS token, $x_p^i E$ is the token of patch i, and $E_{pos}$ has one row for each of the N + 1 tokens.
#
# $$z'_l = \mathrm{MSA}(\mathrm{LN}(z_{l-1})) + z_{l-1} \quad (2) \qquad z_l = \mathrm{MLP}(\mathrm{LN}(z'_l)) + z'_l \quad (3)$$
#
# These two are the block of lesson 05, for l = 1 to L.
#
# $$y = \mathrm{LN}(z_L^0) \qquad (4)$$
#
# $z_L^0$ is row 0 of the last block's output, the CLS token. A linear layer, the **head**, turns y into K scores, one for each
# class. These are the **logits**.
#
# > **Trap.** The LN of equation 4 is a layer norm of its own, the *final* norm. It is easy to forget.
#
# **Your task.** Write `MiniViT`, the whole class. Its docstring names the parts, and the first of them is given. One thing is
# new. The weight and the bias of the head start at zero.

# %% exercise="vit_classroom.exhibits.mini_vit:MiniViT" difficulty=3 minutes=14 hint="Go through the list of the docstring. `__init__` needs one line for each part, and `self.patch_embed.num_patches` is N. Then `forward` has one line for each equation, and one for the head." hint2="A parameter is made from a tensor of the right shape, zeros for CLS and small random numbers for the positions. How many rows do the positions need, if CLS gets one too? The functions of lesson 02 put CLS in front and read it at the end. `nn.init` has a function that sets a weight to zero."
from vit_classroom.exhibits.mini_vit import MiniViT

MiniViT = check(MiniViT)

# %% [markdown]
# > **Predict.** The model is new. What are its ten logits for an image, and what is the loss?

# %%
torch.manual_seed(0)
images, labels = torch.rand(2, 3, 32, 32), torch.tensor([0, 1])
model = MiniViT(patch_size=8)
print("logits of image 0:", model(images)[0].tolist())
print("parameters:", number(sum(p.numel() for p in model.parameters())))
for num_classes in (2, 10, 1000):
    fresh = MiniViT(patch_size=8, num_classes=num_classes)
    loss = F.cross_entropy(fresh(images), labels).item()
    print(f"K = {num_classes:4}: loss {loss:.4f}, ln K {math.log(num_classes):.4f}")

# %% [markdown] claim="not model(images).any() and abs(loss - math.log(num_classes)) < 1e-6" always
# All logits are 0, so every class gets the same probability, 1/K. The loss is the **cross-entropy**, minus the logarithm of
# the probability of the true class. Here it is $-\ln \tfrac{1}{K} = \ln K$, the right loss for a model that knows nothing.
#
# > **Key idea.** The first loss of a classifier should be ln K. If it is far larger, the model is confidently wrong.
#
# Can it still learn? The gradient reaches the rest of the model, its **body**, *through* the weight of the head. While
# this weight is zero, no gradient reaches the body, so the first step changes the head alone. From the second step on,
# both learn.
#
# ## 3. Is it the real Vision Transformer, and is it yours?
#
# `torchvision` has a ViT that other people wrote. We give it random weights and copy them into *your* model. Then both get
# the same 100 images. (`convert_torchvision` and `fitted` only rename and reshape the weights.)
#
# > **Predict.** How far apart will the logits be?

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
# They are equal up to rounding, so your `forward` computes the Vision Transformer. A falling loss would prove less, because
# many wrong models learn too.
#
# And whose code ran? The next cell watches Python during one forward pass and counts the calls.

# %% tags=["nbval-ignore-output"]
rows = parts_in_use(lambda: ours(hundred), MiniViT)
table(rows, ["part", "whose", "calls in one forward pass"])

# %% [markdown] claim="not {'patchify', 'layer_norm', 'scaled_dot_product_attention'} & {row[0] for row in rows if row[1] != 'yours'}" always
# Every part in the table that you solved is yours. Some of your functions are missing. Faster ones do the same work,
# and `ClsToken` and `EncoderInput` are written out in `MiniViT`.
#
# So this is the real Vision Transformer, and it is yours. It has not learned anything yet.
#
# ## 4. How does a model learn?
#
# It learns in small steps. Each step takes a **batch**, a few images with their labels, and does four things:
#
# 1. *Forward*: the model computes logits, and `F.cross_entropy(logits, labels)` is their loss, one number.
# 2. *Clear*: `optimizer.zero_grad()` removes the gradients of the step before. PyTorch adds new gradients to old ones.
# 3. *Backward*: `loss.backward()` computes for every weight how the loss would change with it. This is its **gradient**.
# 4. *Step*: `optimizer.step()` moves every weight a little, against its gradient.
#
# The **optimiser** decides how far. Ours is AdamW (lesson 07). An **epoch** shows each image once, in a new random order, because
# a long run of one class would pull the model towards this class.
#
# A model has two **modes**. In training mode, `model.train()`, dropout is active. In evaluation mode, `model.eval()`, it is not.
# The mode stays until somebody changes it.
#
# > **Trap.** Four mistakes raise no error. Labels are shuffled apart from their images, gradients are never cleared, the step
# > comes before the backward pass, or the logits go through a softmax although the loss has its own. The loss may even fall.
#
# **Your task.** Write `train_one_epoch`.

# %% exercise="vit_classroom.exhibits.mini_vit:train_one_epoch" difficulty=2 minutes=12 hint="First make a random order of all N rows, and cut it into batches. Images and labels of a batch must come from the same rows. `torch.randperm(N).split(batch_size)` gives the rows of all batches, the last one smaller." hint2="What must happen once, before the loop, and what in every batch? In the batch, follow the list of four above. `loss` is a mean over the images of its batch, so how much must a smaller last batch count in the mean over all N?"
from vit_classroom.exhibits.mini_vit import train_one_epoch

train_one_epoch = check(train_one_epoch)

# %% [markdown]
# Is the loop right? The cheapest test is to let the model memorise a few images. To measure, we use `accuracy`, the share of
# images whose class gets the highest logit. (You can write it yourself in section 8.)
#
# > **Predict.** After 45 epochs with the same 64 images, how many of them will it classify correctly? And how many of 576 new
# > ones?

# %% tags=["nbval-ignore-output"]
shapes = shapes10(train=640, test=100)
drawings, true = normalize(shapes.train_images, *shapes.channel_stats()), shapes.train_labels
torch.manual_seed(0)
model = MiniViT(patch_size=8)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(1, 46):
    loss = train_one_epoch(model, drawings[:64], true[:64], optimizer, batch_size=16)
    if epoch in (1, 5, 10, 20, 45):
        print(f"epoch {epoch:2}: loss {loss:.3f}")

# %% tags=["nbval-ignore-output"]
memorised, unseen = accuracy(model, drawings[:64], true[:64]), accuracy(model, drawings[64:], true[64:])
print("the 64 training images:", percent(memorised))
print("576 new images:        ", percent(unseen))
print("guessing:              ", percent(1 / 10))

# %% [markdown] claim=["loss < 0.1", "memorised > 0.9 and unseen < 0.4"] always
# All 64 images are memorised, so the loop works. On new images the model is hardly better than guessing. It needs more images.
#
# ## 5. Can it answer what the linear classifier could not?
#
# In lesson 00 a linear classifier had one template for each class, at one place, and failed as soon as a shape moved.
#
# `load_dataset("auto")` uses your real images (lesson 00), or else Shapes-10, with shapes at any place. On Shapes-10 your loop
# runs with AdamW for about a minute. Real images need the recipe `quick` of lesson 16, and two minutes or a little more.

# %% tags=["nbval-ignore-output"]
profile = get_profile()
dataset = load_dataset("auto", multiple_of=16)
drawn, few = "Shapes-10" in dataset.provenance, profile.name == "smoke"
part = dataset.subset(320, 200) if few else dataset
print(part.provenance)
stats, classes = part.channel_stats(), len(part.classes)
channels, height, width = part.train_images.shape[1:]

torch.manual_seed(0)
vit = MiniViT((height, width), 8 if drawn else 4, channels, classes)
untrained = copy.deepcopy(vit)  # for section 6
if drawn or few:
    epochs = profile.pick(smoke=1, cpu=5, gpu=15)
    vit_score = train_by_adamw(vit, train_one_epoch, accuracy, part, epochs, lr=1e-3)
else:
    epochs = min(100, max(2, 100_000 // len(part.train_images)))  # two minutes, however many images there are
    vit_score = train_by_recipe(vit, train_one_epoch, accuracy, part, epochs)[-1]["test_accuracy"]
print("your model is", keep_model(vit, part, vit_score, epochs * len(part.train_images)))

# %% [markdown]
# > **Predict.** A linear classifier learns from the same images by the same loop. How often will it be right on new images?

# %% tags=["nbval-ignore-output"]
linear = nn.Sequential(nn.Flatten(), nn.Linear(channels * height * width, classes))
nn.init.zeros_(linear[1].weight)
linear_score = train_by_adamw(linear, train_one_epoch, accuracy, part, min(epochs, 15), lr=3e-4)
print(f"your MiniViT {percent(vit_score)}, linear classifier {percent(linear_score)}, on new images")

# %% [markdown] claim="vit_score > linear_score + 0.1 and vit_score > 2 / classes"
# Your model is far ahead. Now comes the test of lesson 00. We draw each of the ten shapes in the middle of a plain image, and
# move the image to the right and down. What leaves on one side comes back on the other. (Real images are moved in the same way.)
#
# > **Predict.** Draw accuracy over shift for both models first.

# %% tags=["nbval-ignore-output"]
order = torch.randperm(len(part.test_labels), generator=torch.Generator().manual_seed(0))
still, still_labels = part.test_images[order[:500]], part.test_labels[order[:500]]
if drawn:
    still, still_labels = draw_in_the_middle(500, seed=2)
shifts, moved = list(range(9)), {"your MiniViT": [], "linear classifier": []}
for shift in shifts:
    inputs = normalize(still.roll((shift, shift), dims=(-2, -1)), *stats)
    for name, model in zip(moved, (vit.cpu(), linear.cpu()), strict=True):
        moved[name].append(100 * accuracy(model, inputs, still_labels))
record = recorded_run()["log"]  # the same model and loop, on CIFAR-10

# %% fold tags=["nbval-ignore-output"]
lines = {name: (shifts, shares) for name, shares in moved.items()}
figure = plots.curves(
    lines | {"guessing": ([0, 8], [100 / classes] * 2)},
    "Does it still recognise the image when it moves?",
    "moved to the right and down (pixels)",
    "right (%)",
)
figure.axes[0].set_ylim(0, 102)
plots.show(
    figure,
    "Accuracy over a shift of 0 to 8 pixels. The line of the MiniViT stays high. The line of the linear classifier stays far "
    "below it, and is near guessing at some shifts.",
)

# %% [markdown] claim=["0.73 < record[-1]['test_accuracy'] < 0.76 and 600 < sum(row['cpu_seconds'] for row in record) < 1200", "min(moved['your MiniViT']) > 75 and min(moved['your MiniViT']) > max(moved['linear classifier']) + 20", "sum(moved['linear classifier']) / 9 < 40"]
# **Your model answers what the linear classifier of lesson 00 could not.** It recognises the shapes wherever they
# are. If its curve has a small dip between 0 and 8 pixels, lesson 01 has told you why.
#
# The linear classifier has seen shapes at all places this time. It is still poor at most of them, because one template cannot fit
# all places. Your code compares patches with each other, wherever they are.
#
# What about photographs? The same code, with smaller patches and the longer recipe `minutes`, learned CIFAR-10 in a
# quarter of an hour on one core and was right on about three in four new photographs. Download CIFAR-10 (lesson 00),
# and yours learns them too.
#
# ## 6. Where does it look?
#
# The course's `VisionTransformer` is your `MiniViT` with some options, and your trained weights fit into it. With
# `return_attention=True` it also returns the attention weights. We look at the CLS token in the last layer.
#
# > **Predict.** Before training, where does CLS look in an image? And after training?

# %% tags=["nbval-ignore-output"]
from vit_course.vit import VisionTransformer


def ask(mini, images):
    """Return the probabilities (B, K) of a MiniViT for uint8 images, and where CLS looks (B, rows, columns)."""
    size = {"embed_dim": 96, "depth": len(mini.blocks), "num_heads": 3}
    same = VisionTransformer((height, width), 8 if drawn else 4, channels, classes, **size).eval()
    same.load_state_dict(fitted(mini.cpu().state_dict(), same))
    with torch.no_grad():
        logits, attentions = same(normalize(images, *stats), return_attention=True)
    looks = attentions[-1].mean(dim=1)[:, 0, 1:]  # mean over the heads, from CLS to the patches
    return logits.softmax(dim=-1), looks.unflatten(1, same.patch_embed.grid_size)


parts = [ask(vit, images) for images in part.test_images.split(500)]
probabilities, looks = (torch.cat(found) for found in zip(*parts, strict=True))
answers = probabilities.argmax(dim=1)
right = answers == part.test_labels

# %% fold tags=["nbval-ignore-output"]
four = order[right[order]][:4] if right.sum() >= 4 else order[:4]
before = ask(untrained, part.test_images[four])[1]
figure = plots.overlay_rows(
    part.test_images[four],
    {"before training": before, "after training": looks[four]},
    "Where does the CLS token look?",
)
plots.show(
    figure,
    "Four test images. Below each, the attention of the CLS token before training, the same everywhere, and after training, bright "
    "on a few patches of the shape.",
)

# %% [markdown] claim=["before.std() < 0.2 * before.mean()", "looks[four].std() > 2 * before.std()"]
# Each row of maps has its own scale. Before training, every patch gets about the same share. After training, CLS looks at a few
# patches, mostly of the shape. Nobody told the model where the shape is. It only got labels.
#
# And when it is wrong? Here are six test images that it classifies correctly, and six that it gets wrong.

# %% fold tags=["nbval-ignore-output"]
shown = torch.cat([order[right[order]][:6], order[~right[order]][:6]])
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
    "Twelve test images with the model's answer and its probability, most often six right and then six wrong; beside "
    "each image the attention of the CLS token over the patches, bright where it looked.",
)

# %% tags=["nbval-ignore-output"]
sure = probabilities.amax(dim=1)
for name, chosen in (("right", right), ("wrong", ~right)):
    mean, high = (percent(x.float().mean().item()) for x in (sure[chosen], sure[chosen] > 0.9))
    print(f"{name}: {chosen.sum()} answers, mean probability {mean}, {high} above 90 %")

# %% [markdown] claim=["sure[right].mean() > sure[~right].mean()", "(sure[~right] > 0.9).any()"]
# On average the model is less sure when it is wrong. But some answers are wrong and very sure, so a high probability is no
# promise.
#
# Which classes does it confuse? In the next table the rows are the true classes, and the columns are the answers.

# %% fold tags=["nbval-ignore-output"]
title = "Of 100 images of a class, how many got which answer?"
figure = plots.confusion_table(answers, part.test_labels, part.classes, title)
plots.show(
    figure, "A square table, true classes against answers; the diagonal holds what was classified correctly."
)
counts = plots.confusion(answers, part.test_labels, classes).fill_diagonal_(0)
was, said = divmod(int(counts.argmax()), classes)
total = (part.test_labels == was).sum()
print(
    f"most frequent mistake: {counts.max()} of {total} called {part.classes[said]}, not {part.classes[was]}"
)

# %% [markdown]
# ## 7. What does it say to your drawing?
#
# Draw with the mouse, and *your* model answers while you draw. (If it learned photographs, give it a photo instead.)
#
# 1. Draw a star. Is the answer right? Which patches does CLS look at?
# 2. Draw the star in another corner. Does the answer stay?
# 3. Draw something between two shapes that your model confuses. When does the answer flip?

# %% tags=["nbval-ignore-output"]
play(vit, part, draw_in_the_middle(8, seed=3)[0] if drawn else part.test_images[order[-8:]])

# %% [markdown] claim="set(answers.tolist()) <= set(range(classes)) and abs(probabilities.sum(dim=1) - 1).max() < 1e-4" always
# Then draw something that is none of the ten, such as a face. The probabilities still sum to 1, so the model answers with one
# of its classes. A classifier cannot say "none of these".

# %% [markdown] curious
# ## 8. How do you measure what it has learned?
#
# Test images are for measuring. The model must be in evaluation mode, and nothing may be learned from them, so no gradients are
# kept. `with torch.no_grad():` switches gradients off for a block of code.
#
# **Your task.** Write `accuracy`, the share of images that are classified correctly. Until now you used the finished one.

# %% exercise="vit_classroom.exhibits.mini_vit:accuracy" difficulty=1 minutes=5 hint="Go through images and labels in batches, as `images.split(batch_size)` cuts them, and count the hits. `logits.argmax(dim=1)` is the class with the highest score, one for each image." hint2="A comparison of two tensors of integers gives True and False, and the sum of these counts the hits of a batch. When do you divide, if the last batch is smaller than the others?"
from vit_classroom.exhibits.mini_vit import accuracy

accuracy = check(accuracy)

# %%
again = accuracy(vit, normalize(part.test_images, *stats), part.test_labels)
print("the same as in section 5, up to rounding:", abs(again - vit_score) < 1e-3)

# %% [markdown] claim="abs(again - vit_score) < 1e-3" always
# Your function measures what the finished one has measured.

# %% [markdown] curious
# ## 9. Would the proof notice a mistake?
#
# A test that cannot fail proves nothing. So we damage the copy of section 3 in three small ways.


# %%
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

# %% [markdown] claim="min(gaps) > 1e-6 and gaps[2] < 1e-4" always
# The test notices all three, even the tiny change of eps.

# %% [markdown] curious
# ## 10. Why do weights start so small?
#
# The head starts at zero. The other weights cannot all be zero, because then nothing of the image would reach the head.
# `VisionTransformer` draws the linear layers of its blocks at random, with a standard deviation (std) of 0.02. That looks very
# small. What happens with other values?
#
# We measure two things on images. One is the first loss, when the head is drawn like the rest. The other is how *peaked* the
# attention of the first block is, as the mean of the largest weight of each row. If a token looks at all 17 tokens equally, its
# largest weight is 1/17, about 0.06. If it looks at a single token, it is 1.


# %%
stds, losses, peaked = [0.005, 0.02, 0.1, 0.3, 1.0], [], []
for std in stds:
    torch.manual_seed(0)
    fresh = VisionTransformer(patch_size=8, embed_dim=96, depth=3, num_heads=3)
    for module in fresh.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=std)
    with torch.no_grad():
        logits, attentions = fresh(drawings[:100], return_attention=True)
    losses.append(F.cross_entropy(logits, true[:100]).item())
    peaked.append(attentions[0].amax(dim=-1).mean().item())
rows = [
    [f"{std:g}", f"{loss:.2f}", f"{peak:.2f}"] for std, loss, peak in zip(stds, losses, peaked, strict=True)
]
table(rows, ["std of the weights", "first loss", "largest attention weight"])

# %% [markdown] claim="losses[-1] > 3 * math.log(10) and peaked[-1] > 0.9 and peaked[1] < 0.07" always
# With std 1 the first loss is several times ln 10, and each token looks almost only at one token. A head of zeros would
# hide the first problem, but not the second. A softmax near 0 and 1 has almost no gradient (lesson 04), so this choice
# is hard to unlearn. With std 0.02 every token begins by looking everywhere.

# %% [markdown] curious
# ## 11. How big is it, and what does one image cost?
#
# The paper has three sizes, Base, Large and Huge (its Table 1). Later work added Small and Tiny. A name such as ViT-B/16
# means size Base with patches of 16x16 pixels.
#
# You can count the parameters without building anything. A linear layer from a to b has a·b weights and b biases. Nearly all of
# them are in the blocks. The attention of a block has about 4·D² weights, and its MLP 8·D². So there is a rule of thumb,
# **12·L·D²**. The number of heads does not appear in it, because heads only cut q, k and v into groups.
#
# The cost of one image grows with the number of tokens T = N + 1. One block needs
#
# $$24 \, T D^2 + 4 \, T^2 D$$
#
# operations. The first term belongs to the linear layers, the second to the table of attention weights. Everyone talks about
# the T² cost. Its share is T / (T + 6·D).
#
# > **Predict.** How large is this share for ViT-B/16, with T = 197 and D = 768?

# %%
from vit_course.vit import VIT_SIZES, create_vit, vit_flops, vit_num_parameters

paper = {"B": 86, "L": 307, "H": 632}  # Table 1, in millions
counted, rule, share, rows = {}, {}, {}, []
for name, patch in (("Ti", 16), ("S", 16), ("B", 16), ("L", 16), ("H", 14)):
    D, L, heads = (VIT_SIZES[name][key] for key in ("embed_dim", "depth", "num_heads"))
    counted[name] = vit_num_parameters(224, patch, 3, 1000, D, L) / 1e6
    rule[name] = 12 * L * D**2 / 1e6
    share[name] = (T := (224 // patch) ** 2 + 1) / (T + 6 * D)
    rows.append([f"{name}/{patch}", L, D, heads, f"{counted[name]:.1f}", f"{rule[name]:.1f}"])
    rows[-1] += [paper.get(name, "not in it"), percent(share[name])]
columns = ["size", "blocks", "D", "heads", "millions, counted", "12·L·D²", "millions, Table 1", "share of T²"]
print(table(rows, columns))
tiny = create_vit("Ti/16", img_size=224, num_classes=1000)
real = sum(p.numel() for p in tiny.parameters())
print("the count equals a model that was built (Ti/16):", vit_num_parameters(224, 16, 3, 1000) == real)
print("one image through Ti/16:", number(vit_flops(tiny) / 1e9), "GFLOP")

# %% [markdown] claim=["max(abs(counted[name] / millions - 1) for name, millions in paper.items()) < 0.012", "max(abs(rule[name] / counted[name] - 1) for name in 'BLH') < 0.02", "share['B'] < 0.05 and share['Ti'] < 0.15"] always
# Our count agrees with Table 1 to about one percent, and the rule of thumb is close for the large sizes. In ViT-B/16 the T² term
# is less than 5 % of the cost, so most operations belong to the linear layers. The T² term matters for large images and small patches,
# where T exceeds 6·D.

# %% [markdown] curious
# ## 12. What do other codebases call these parts?
#
# Many tutorials explain one PyTorch version, `models/modeling.py` of jeonsworld/ViT-pytorch. It is the same model with other
# names:
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
# Two of their habits surprise people. `num_classes` is 21,843 by default, the number of classes of ImageNet-21k, on which the
# weights were trained. And the loss is computed *inside* `forward`. With labels it returns the loss alone, and without labels
# it returns (logits, attention). Ours returns logits, and the training loop computes the loss.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# A new model for 100 classes has a first loss of 9.7. What do you think?
#
# - [x] the head or the weights start too large :: ln 100 is about 4.6. A loss of 9.7 means confident wrong answers.
# - [ ] this is fine, because it has not been trained yet :: An untrained model should give all classes the same probability, and that costs ln K.
# - [ ] the learning rate is too high :: Before the first step the learning rate has done nothing.

# %% [markdown] quiz
# A loop shuffles the images, and takes the labels in their old order. What will you see?
#
# - [ ] an error, because the shapes no longer fit :: The shapes fit, because there are as many labels as images.
# - [x] a loss that hardly falls below ln K :: Images and labels have nothing to do with each other, so the model can only learn how frequent the classes are.
# - [ ] a falling loss, and a good accuracy on the test images :: Only if the right labels reach their images.

# %% [markdown] quiz
# Someone forgets `optimizer.zero_grad()`. Along which gradient does the third batch move the weights?
#
# - [ ] along the gradient of batch 3 alone :: Only if the old gradients are cleared first.
# - [x] along the sum of batches 1, 2 and 3 :: `backward` adds to the gradients that exist, so old directions keep pulling.
# - [ ] along none, because PyTorch rejects a second backward pass :: It rejects going back through the *same* forward pass twice. Here each batch has its own.

# %% [markdown] quiz
# Someone returns `self.head(y).softmax(-1)` and trains with `F.cross_entropy`. What happens?
#
# - [ ] an error :: Shapes and types fit, so nothing stops.
# - [ ] nothing, because a softmax of a softmax is the same :: It is another function. It squeezes all scores together.
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
# - A step is forward, zero_grad, backward, step.
# - Equal logits on copied weights show that `forward` is right. A falling loss does not.
# - A linear classifier has one template at one place. Your model recognises a shape wherever it is.
# - A classifier can answer only with its classes, and it can be confidently wrong.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), section 3.1, Table 1 and appendix B.1.
# - Touvron et al., *Training data-efficient image transformers* (2021), where Ti and S come from.
# - The source of `torchvision.models.vision_transformer` and of `timm.models.vision_transformer`. You can read both now.
#
# **Next.** Show your model a photo of a person, and it will predict one of its shapes, perhaps with great confidence.
# Why does a model that is right about drawings fail on photographs, and what does it take to learn them? That is lesson
# 07.
