# ---
# title: "The hybrid"
# promise: "Put a few convolutions before your Transformer, and see when they help."
# part: "III. Beyond"
# map: [patches, embed]
# recall:
#   "01.5": "The windows of a patch embedding overlap, because the stride is only P/2. What follows?"
#   "04.4": "You halve the area of each patch, so T = 65 becomes about 130. By what factor does attention's cost 8·T·D² + 4·T²·D grow, with D = 192?"
#   "09.4": "All the attention of a head is on the CLS token. How far does this head look, by the measure of the paper?"
# goals:
#   - "Make tokens from a feature map, and say what shape they have."
#   - "Write a hybrid, convolutions in front of your own Vision Transformer, and train it."
#   - "Compare two models at equal compute, and say what each of them paid."
#   - "Say what the paper found about hybrids, and where the gain ends."
#   - "For the curious: compute what one token can see, and show it with gradients."
# ---

# %% [markdown]
# ## 1. Must a token be made of pixels?
#
# No. The Transformer needs a sequence of vectors, wherever they come from. So far a token was a patch of pixels and *one* linear
# layer. A convolutional network spends several small layers on edges and textures first. Let the Transformer read what those
# layers have found.
#
# A **feature map** is what a convolution returns, a stack of C' small images (B, C', H', W'). At each of its H'·W' positions there
# are C' numbers. These are our new patches. They are patches of 1x1, cut from the feature map. The paper calls such a model a
# **hybrid**, and the convolutions in front its **backbone**.

# %%
from dataclasses import replace
from statistics import fmean
from textwrap import fill

import torch
from IPython.display import display
from torch import nn

from vit_classroom import check, plots, table
from vit_classroom.checks import use_my_answers
from vit_classroom.evidence import equal_budgets
from vit_classroom.evidence.records import caption, load_records
from vit_classroom.evidence.statistics import data_needed
from vit_classroom.numbers import minutes, percent
from vit_classroom.profiles import get_profile
from vit_course.data import load_dataset, normalize, shapes10
from vit_course.interpret import mean_attention_distance
from vit_course.patches import PatchEmbed
from vit_course.recipes import RECIPES, forward_flops
from vit_course.train import train
from vit_course.vit import VIT_SIZES, VisionTransformer

plots.show(
    plots.hybrid_diagram(),
    "From left to right: an image; four stages of convolutions with fewer positions and more channels each; the 4x4 positions of the "
    "last map as sixteen patches of 1x1; times E they are tokens; CLS in front, positions added, encoder, head.",
)

# %% [markdown]
# A **stage** is a group of layers that work on maps of one size. The stages after the first begin with stride 2, so rows and
# columns are halved, and channels are doubled. Four stages make 4x4 positions of an image of 32x32 pixels. One position then
# stands for 8x8 pixels, as a patch with P = 8 does.
#
# Now you build it, in two steps. First the convolutions, and then the whole model around the ViT. The next cell puts your
# kept answers in the place of the finished parts.

# %% tags=["nbval-ignore-output"]
my_parts = use_my_answers()

# %% [markdown]
# **Your task, step 1.** Write `early_convolutions`. The paper's backbone is a ResNet. Yours has one convolution in a stage,
# without shortcuts.
#
# > **Predict.** For an image (1, 3, 32, 32) and width 16, which shapes leave the four stages?

# %% exercise="vit_classroom.exhibits.mini_hybrid:early_convolutions" difficulty=2 minutes=8 hint="Collect the layers in a list, stage by stage. What a stage needs to know is how many channels come in and how many go out. The first stage gets the image." hint2="Two numbers differ between the stages, the stride and the number of channels. Which of them is special in the first stage only? And what must happen to the number of channels that come in, at the end of each round?"
from vit_classroom.exhibits.mini_hybrid import early_convolutions

early_convolutions = check(early_convolutions)

# %%
photo = plots.sample_photo((32, 32))[None].float() / 255
torch.manual_seed(0)
backbone = early_convolutions().eval()
x, rows = photo, []
with torch.no_grad():
    for index, layer in enumerate(backbone):
        x = layer(x)
        if index % 3 == 2:  # the end of a stage
            rows.append([f"stage {index // 3 + 1}", str(tuple(x.shape)), 32 // x.shape[-1]])
feature_map = x
table(rows, ["after", "shape", "pixels between two positions"])

# %% [markdown] always claim="tuple(feature_map.shape) == (1, 128, 4, 4)"
# The map has 128 channels and 4x4 positions, so there are sixteen patches of 1x1.
#
# ## 2. How does a map become a sequence?
#
# Equation 1 of the paper (lessons 02 and 03) stays, and only the patches change. Write $f_i$, a row (1, C'), for the
# numbers at position i of the map, with N = H'·W' positions:
#
# $$z_0 = [x_{class};\; f_1 E;\; f_2 E;\; \dots;\; f_N E] + E_{pos}, \qquad E \in \mathbb{R}^{C' \times D},\quad E_{pos} \in \mathbb{R}^{(N+1) \times D}$$
#
# A patch of 1x1 is flattened already, so nothing has to be cut. The positions must be put in reading order, and one linear layer
# leads from C' to D.
#
# > **Predict.** Will such a layer and the `PatchEmbed` of lesson 01, with patches of 1x1, give the same tokens?

# %%
with torch.no_grad():
    embed = PatchEmbed(img_size=(4, 4), patch_size=1, in_chans=128, embed_dim=96)
    weight, bias = embed.proj.weight.flatten(1), embed.proj.bias  # (D, C'), (D,)
    tokens = feature_map.flatten(2).transpose(1, 2) @ weight.T + bias  # (B, N, D)
    print("map", tuple(feature_map.shape), " weight", tuple(weight.shape), " tokens", tuple(tokens.shape))
    print("equal to PatchEmbed with patches of 1x1:", torch.allclose(tokens, embed(feature_map), atol=1e-5))

# %% [markdown] always claim="torch.allclose(tokens, embed(feature_map), atol=1e-5)"
# They are the same, because a 1x1 convolution *is* a linear layer at every position. So no new part is needed. The hybrid is a
# backbone and then your ViT with patches of 1x1, whose "image" is the feature map.
#
# **Your task, step 2.** Write `MiniHybrid`, the whole class. Its ViT is the course's `VisionTransformer`, your `MiniViT` with
# options, which consists of your own parts. Its first arguments are `img_size`, `patch_size`, `in_chans` and `num_classes`, in
# this order.
#
# > **Trap.** A convolution of stride 2 rounds up. Three of them make 4x4 positions of 32 pixels, and also of 30. An
# > image of the wrong size would pass through the whole model, and nobody would notice. `check_images` must see the
# > *image*, before the backbone does.

# %% exercise="vit_classroom.exhibits.mini_hybrid:MiniHybrid" difficulty=2 minutes=10 hint="Two parts in `__init__`, and two lines in `forward`. For the ViT you need to know the shape of the map: its rows, its columns and its channels. The docstring of `early_convolutions` says what they are." hint2="`grid_size` of lesson 01 counts how often a square fits into an image, and raises the error that the docstring promises. How many pixels does one position of the map stand for, if each stage after the first halves?"
from vit_classroom.exhibits.mini_hybrid import MiniHybrid

MiniHybrid = check(MiniHybrid)

# %%
torch.manual_seed(0)
nano = VIT_SIZES["Nano"]  # tokens of width 96, three blocks of three heads
models = {"ViT": VisionTransformer(patch_size=8, **nano), "hybrid": MiniHybrid(**nano)}
shapes = shapes10(train=100, test=100)
rows, mflop = [], {}
for name, model in models.items():
    front = getattr(model, "backbone", None)
    mflop[name] = forward_flops(model, shapes) / 1e6, forward_flops(front, shapes) / 1e6 if front else 0
    count = sum(p.numel() for p in model.parameters())
    rows.append([name, str(tuple(model(photo).shape)), count, *(f"{x:.1f}" for x in mflop[name])])
table(rows, ["model", "logits", "parameters", "MFLOP for an image", "of these convolutions"])

# %% [markdown] always claim=["1.5 < mflop['hybrid'][0] / mflop['ViT'][0] < 1.8", "0.35 < mflop['hybrid'][1] / mflop['hybrid'][0] < 0.5"]
# The Transformer has hardly changed, and the convolutions come on top. Your hybrid costs about two thirds more operations for
# an image than the ViT. So a hybrid is not free, and this price belongs beside every result.
#
# What does the model get for the price? A convolution assumes that neighbours belong together, and that the same
# pattern means the same everywhere. Lesson 08 called this **inductive bias**. The windows of the tokens also *overlap*.
# An object on the border of two patches can be seen whole from both sides. In a pure ViT only attention can do that.
#
# ## 3. Does it help when compute is small?
#
# Let both models learn, with the *same number of operations*. The hybrid pays two thirds more for an image, so it gets fewer
# epochs than the ViT. Images, recipe (with AdamW), augmentation and the Transformer are the same.
#
# > **Predict.** Who is ahead at the end, the ViT with more epochs or the hybrid with fewer?

# %% fold tags=["nbval-ignore-output"]
profile, everything = get_profile(), load_dataset("auto", multiple_of=16)
part = everything.subset(
    profile.pick(smoke=128, cpu=2_000, gpu=5_000), profile.pick(smoke=100, cpu=2_000, gpu=10_000)
)
channels, height, width = part.train_images.shape[1:]
size, classes = (height, width), len(part.classes)
print(fill(part.provenance, 90))
print(f"profile {profile.name}: two models, about {minutes(profile.pick(smoke=20, cpu=90, gpu=90))}")
builders = {
    "ViT": lambda: VisionTransformer(size, 8, channels, classes, **nano),
    "hybrid": lambda: MiniHybrid(size, channels, classes, **nano),
}
trained, histories, spent, rows = {}, {}, {}, []
cost = {name: forward_flops(builders[name](), part) for name in builders}
for name, build in builders.items():
    epochs = max(1, round(profile.pick(smoke=1, cpu=24, gpu=40) * cost["hybrid"] / cost[name]))
    recipe = replace(RECIPES["smoothing"], lr=1e-3, batch_size=64, quiet=True, epochs=epochs)
    torch.manual_seed(0)
    trained[name] = build()
    histories[name] = history = train(trained[name], part, recipe)
    spent[name] = 3 * cost[name] * epochs * len(part.train_images) / 1e12
    rows.append(
        [name, epochs, f"{spent[name]:.2f}", minutes(history.seconds), percent(history.test_accuracy)]
    )
table(rows, ["model", "epochs", "TFLOP", "time", "test accuracy"], "one seed")

# %% fold tags=["nbval-ignore-output"]
figure = plots.curves(
    {
        name: (
            [
                spent[name] * (number + 1) / len(history.train_accuracy)
                for number in range(len(history.train_accuracy))
            ],
            [100 * share for share in history.train_accuracy],
        )
        for name, history in histories.items()
    },
    f"Who learns {len(part.train_images):,} images with less compute?",
    "operations spent on training (TFLOP)",
    "accuracy on the training images (%)",
)
plots.show(
    figure,
    "Accuracy on the training images over the operations spent, for ViT and hybrid. Both lines end at the same amount.",
)

# %% [markdown] claim=["abs(spent['hybrid'] / spent['ViT'] - 1) < 0.1", "histories['hybrid'].test_accuracy > histories['ViT'].test_accuracy + 0.03"]
# **The hybrid is ahead, although it saw each image less often.** For the same operations, early convolutions bring more than
# further epochs. With two other seeds the order is the same. Still, this is a short training, a first look.
#
# What a model assumes, it need not learn. The ViT could learn the same edges and textures, but it needs more training for it.
#
# ## 4. Does it help on photographs, and how much?
#
# The course has trained hybrids on CIFAR-10 with 1 %, 10 % and 100 % of the images. Their convolutions are those of a small
# ResNet.
#
# > **Predict.** With which share of the images is the hybrid furthest ahead of the ViT?

# %% fold
runs = load_records("fractions", "cpu") + load_records("hybrid", "cpu")
print(caption(runs))
tested = equal_budgets.by_share(runs)
cost_of = {}
for family, name in equal_budgets.FAMILIES.items():
    run = next(run for run in runs if run["step"] == f"{family}-100")
    cost_of[name] = run["training_flops"] / 1e12
    print(
        f"{name}: {run['parameters']:,} parameters, {cost_of[name]:.0f} TFLOP, {run['config']['optimizer']}"
    )
figure = plots.seed_curves(
    tested | {"linear classifier": equal_budgets.linear_by_share()},
    "ViT, ResNet and hybrid with few and many images",
    "share of the training images (%)",
    "test accuracy (%)",
    log=True,
)
plots.show(
    figure,
    "Test accuracy over the share of the training images for ViT, ResNet, hybrid and linear classifier, with a dot for each seed.",
)
gaps = {rival: equal_budgets.share_gaps(tested, "hybrid", rival) for rival in ("ViT", "ResNet")}
for rival, found in gaps.items():
    display(table(found, equal_budgets.GAP_COLUMNS, f"hybrid minus {rival}"))

# %% [markdown] always claim=["{run['config']['optimizer'] for run in load_records('hybrid', 'cpu')} == {'adamw'}", "[row[3] for row in gaps['ViT']] == ['ahead', 'ahead', 'behind'] and [row[1] for row in gaps['ViT']] == ['+3.5', '+2.3', '-5.2']", "2.5 < cost_of['ViT'] / cost_of['hybrid'] < 2.7"]
# **On these records the hybrid is ahead of the ViT with few images and behind it with all.** It is three and a half points
# ahead with 1 %, two points ahead with 10 %, and five points behind with 100 %.
#
# Do not believe it yet. Apply the five questions of lesson 08. The ViT had a search and Muon, and the hybrid had neither. The
# ViT spent more than two and a half times the operations of the hybrid. So this comparison is unequal in *both* effort and
# budget, and the hybrid has the worse side of it.
#
# An equal comparison is running. The hybrid gets the same list of trials and the same budget as the ViT, and then 1 %, 10 % and
# 100 % of the images.
#
# > **Predict.** Which of the three signs above will change? What would it mean if the hybrid stays behind with all images?

# %% [markdown] always claim="all(row[3] != 'ahead' for row in gaps['ResNet']) and cost_of['ResNet'] > 2 * cost_of['hybrid']"
# And the ResNet? It is nowhere behind the hybrid on these records. At this size, attention on top of convolutions has
# not paid so far, but the ResNet had more than twice the operations.
#
# ## 5. What did the paper find?
#
# The paper pre-trained ViTs, ResNets and hybrids of several sizes on JFT (300 million images), and fine-tuned them. Its
# Table 6 has the accuracies and the compute of pre-training in exaFLOPs (10^18 operations), and Figure 5 shows both.
# Here are the accuracies on ImageNet of its ViTs and hybrids, and of some of the ResNets. The number after a size is
# the side of a token's square in pixels.
#
# > **Predict.** At which end of the figure is the hybrid worth its price, at small or at large compute?

# %% fold
paper = {
    "ViT": {
        "B/32, 7 epochs": (55, 80.73),
        "B/16, 7 epochs": (224, 84.15),
        "L/32, 7 epochs": (196, 84.37),
        "L/16, 7 epochs": (783, 86.30),
        "L/16, 14 epochs": (1567, 87.12),
        "H/14, 14 epochs": (4262, 88.08),
    },
    "hybrid": {
        "B/32, 7 epochs": (106, 84.90),
        "B/16, 7 epochs": (274, 85.58),
        "L/32, 7 epochs": (246, 85.68),
        "L/16, 7 epochs": (859, 86.60),
        "L/16, 14 epochs": (1668, 87.12),
    },
    "ResNet": {
        "50x1": (50, 77.54),
        "152x1": (141, 81.88),
        "152x2": (563, 84.97),
        "152x2, 14 epochs": (1126, 85.56),
        "200x3, 14 epochs": (3306, 87.22),
    },
}
figure = plots.curves(
    {name: tuple(map(list, zip(*sorted(rows.values()), strict=True))) for name, rows in paper.items()},
    "Who is ahead at which compute? (paper, Table 6)",
    "compute of pre-training (exaFLOPs)",
    "accuracy on ImageNet (%)",
    log="x",
)
ticks = [50, 100, 200, 500, 1000, 2000, 4000]
figure.axes[0].set_xticks(ticks, ticks)
figure.axes[0].minorticks_off()
plots.show(
    figure,
    "Accuracy on ImageNet over the compute of pre-training for ViT, hybrid and ResNet. The hybrid is highest at small compute and "
    "meets the ViT at large compute, and the ResNet is below both.",
)
vits = dict(paper["ViT"].values())
rows, factors = [], []
for one, (flops, accuracy) in paper["hybrid"].items():
    needed = data_needed(vits, accuracy)  # read off the ViT's line
    factors.append(needed / flops)
    rows.append([one, f"{accuracy - paper['ViT'][one][1]:+.2f}", flops, round(needed), f"{factors[-1]:.1f}"])
columns = [
    "size",
    "hybrid minus ViT (points)",
    "hybrid (exaFLOPs)",
    "ViT of equal accuracy (exaFLOPs)",
    "ratio",
]
table(rows, columns)

# %% [markdown] always claim=["[round(score - paper['ViT'][size][1], 2) > 0 for size, (cost, score) in paper['hybrid'].items()] == [True] * 4 + [False]", "1.6 < min(factors[:3]) and max(factors[:3]) < 2.8 and max(factors[3:]) < 1.3"]
# **Early convolutions help at small compute, and the gain is gone at large compute.** The three cheapest hybrids are one to
# four points ahead. A ViT of the same accuracy would need about twice their compute, as the last column says. The largest
# hybrid gains nothing.
#
# The authors find this a little surprising, because one might expect the local work of convolutions to help at any size. They name
# no cause. Lesson 08 suggests one. With enough data and compute, what a convolution assumes can be learned.
#
# Our records do not repeat this experiment. The paper changes the *compute* at fixed data, and our curves change the *data*.
# Its models are far larger too. Your own run of section 3 is nearer to it, at the small end of the figure.
#
# **Your next step.** Double the epochs of both models in section 3, and double them again. Does the lead of the hybrid shrink?

# %% [markdown] curious
# ## 6. What does one token see?
#
# A patch of 8x8 sees its 64 pixels and nothing else. What does one position of the feature map see? Each 3x3 convolution looks at
# neighbours, and these have looked at theirs. The **receptive field** is the square of pixels that can change one position. The
# drawing shows one line of it, for four convolutions.

# %% fold
plots.show(
    plots.window_diagram([(3, 1), (3, 2), (3, 1), (3, 2)]),
    "Five rows of dots. At the top one position; below it what it sees of the layers before, 3, 5 and 11 positions; "
    "at the bottom 13 pixels. After a stride of 2 the dots are twice as far apart.",
)

# %% [markdown]
# Let layer i have kernel size $k_i$ and stride $s_i$. Before layer i, neighbouring positions are $s_1 \cdots s_{i-1}$ pixels
# apart. The layer looks at $k_i$ of them. One of them was seen already, so the layer adds the other $k_i - 1$:
#
# $$r = 1 + \sum_i (k_i - 1) \prod_{j<i} s_j$$
#
# Here r is the side of the square in pixels. The product runs over the layers j *before* layer i, and for the first layer it is 1.
# Count the 13 pixels of the drawing with it.
#
# **Your task.** Write `receptive_field`.

# %% exercise="vit_course.extensions.hybrid:receptive_field" difficulty=2 minutes=10 hint="Walk through the layers and keep two numbers, how wide the field is and how many pixels apart neighbouring positions are. Both begin with 1." hint2="Which of the two numbers does a layer change with its kernel, and which with its stride? A layer's own stride matters only for the layers after it, so which of the two must change first?"
from vit_course.extensions.hybrid import receptive_field

receptive_field = check(receptive_field)

# %% [markdown]
# Is the formula right? A gradient answers. If a pixel can change a token, the token has a gradient there. The next cell takes a
# larger photo and the token in the middle. No weight has been trained.
#
# > **Predict.** A position of your map stands for 8x8 pixels. How wide is its window?


# %% fold
def seen_by_token(front, images, draws=8):
    """Return (H, W): how strongly each pixel acts on the token in the middle, averaged over random directions."""
    torch.manual_seed(0)
    images = images.clone().requires_grad_()
    out = front(images)
    token = out[0, :, out.shape[2] // 2, out.shape[3] // 2]
    total = torch.zeros(images.shape[2:])
    for _ in range(draws):
        (gradient,) = torch.autograd.grad((token * torch.randn_like(token)).sum(), images, retain_graph=True)
        total += gradient.abs().sum(dim=(0, 1))
    return total / total.sum()


large_photo = plots.sample_photo((96, 96))[None].float() / 255
fronts = {"patch of 8x8": nn.Sequential(PatchEmbed(96, 8, 3, 96).proj), "your convolutions": backbone}
seen, rows = {}, []
for name, front in fronts.items():
    layers = [(m.kernel_size[0], m.stride[0]) for m in front.modules() if isinstance(m, nn.Conv2d)]
    seen[name] = seen_by_token(front, large_photo)
    rows.append([name, len(layers), receptive_field(layers), (seen[name] > 0).any(dim=1).sum().item()])
display(table(rows, ["one token of", "convolutions", "formula (pixels)", "pixels with a gradient"]))
figure = plots.heat_maps(
    [influence[32:72, 32:72] / influence.max() for influence in seen.values()],
    list(seen),
    "What does one token see?",
    "influence / largest influence",
    xlabel="column of pixels",
    ylabel="row of pixels",
)
plots.show(
    figure,
    "Two maps of influence around one token. The patch is a sharp square of 8x8. Your convolutions see a wider square, bright in the "
    "middle and faint towards the rim.",
)

# %% [markdown] claim="all(abs(row[2] - row[3]) <= 2 for row in rows) and rows[1][2] > rows[0][2]"
# The gradients confirm the formula. They also show that the middle counts far more than the rim, which the formula
# hides. The bright part is called the **effective receptive field**. The windows of neighbouring tokens overlap, so a
# token of the first Transformer layer has already heard of its neighbourhood.

# %% [markdown] curious
# ## 7. Where do its heads look?
#
# Section 4.5 of the paper says that some heads in the first layers of a ViT are local, and that such heads are "less pronounced"
# in hybrids. The authors' reading is that local heads may do the work of early convolutions. Do our two models show it?
#
# The measure is the **mean attention distance** of lesson 09, how far from itself a patch looks on average, in pixels.


# %% fold tags=["nbval-ignore-output"]
def first_layer(model):
    """Return the mean attention distance of every head of the first layer, in pixels."""
    images = normalize(part.test_images[:128], *part.channel_stats())
    with torch.no_grad():
        _, attentions = model.cpu().eval()(images, return_attention=True)
    return mean_attention_distance(attentions[0], (size[0] // 8, size[1] // 8), 8, 1).tolist()


distances = {name: sorted(first_layer(model)) for name, model in trained.items()}
rows = [
    [name, ", ".join(f"{x:.1f}" for x in found), f"{fmean(found):.1f}"] for name, found in distances.items()
]
display(table(rows, ["trained model", "heads of the first layer (pixels)", "mean (pixels)"]))
tokens = (size[0] // 8) * (size[1] // 8) + 1
everywhere = torch.full((1, 1, tokens, tokens), 1 / tokens)
uniform = mean_attention_distance(everywhere, (size[0] // 8, size[1] // 8), 8, 1).item()
print(f"looking equally everywhere: {uniform:.1f} pixels")

# %% [markdown] claim="all(abs(fmean(found) - uniform) < 3 for found in distances.values())"
# No. In both models the mean distance is almost that of looking equally everywhere, the last line. On drawings and
# after a short training, such a small ViT is usually right without local heads. So this run says nothing about the
# paper's reading, neither for it nor against it. The ViT of lesson 09, which was trained on photographs, has near heads
# and far ones.
#
# A comparison of distances has a limit as well. They are measured between *tokens*, and a token of the hybrid has seen its
# surroundings before attention begins. A distance of 0 does not mean the same for both.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# A backbone gives a map (B, 128, 4, 8). How many tokens does the encoder read, CLS included?
#
# - [ ] 129 :: Channels are what a token is made of, not how many there are.
# - [x] 33 :: 4·8 positions and CLS.
# - [ ] 32 :: CLS is a token too.

# %% [markdown] quiz
# A tutorial makes its patches with `nn.Conv2d(3, D, kernel_size=16, stride=16)`: "Because of the convolution, this is
# the hybrid of the paper." Is it?
#
# - [ ] Yes, because a convolution makes the tokens :: A convolution is only a way to compute E. What counts is what it reads, pixels or a feature map.
# - [x] No, this is the plain ViT :: This convolution is the matrix E of lesson 01. A hybrid takes its patches from the map of a CNN.
# - [ ] Only if its windows overlap :: That would be a third thing, neither the paper's ViT nor its hybrid.

# %% [markdown] quiz
# A backbone loses its last stage, so it halves once less. What grows?
#
# - [ ] the channels of the map :: It has half as many, and the tokens have D numbers either way.
# - [ ] the width D of a token :: D belongs to the Transformer, and the linear layer leads from C' to D.
# - [x] the sequence :: Twice the rows and twice the columns make four times the tokens.

# %% [markdown] quiz
# Your hybrid beats your ViT by 6 points at the same number of epochs, with one seed. What may you write?
#
# - [ ] Hybrids are better than ViTs when compute is small. :: One run, and the hybrid had more operations.
# - [x] It was ahead in one run, at two thirds more operations. :: A measurement that says what it is can be shown.
# - [ ] Nothing, because one seed has no spread. :: Too strict. Say that it is one run, and what it cost.

# %% [markdown]
# ## Recap
#
# | what | shape | your hybrid, 32x32 |
# |---|---|---|
# | images | (B, C, H, W) | (B, 3, 32, 32) |
# | feature map | (B, C', H', W') | (B, 128, 4, 4) |
# | weight of the projection | (D, C') | (96, 128) |
# | patch tokens | (B, N, D), N = H'·W' | (B, 16, 96) |
# | with CLS and positions | (B, N + 1, D) | (B, 17, 96) |
# | logits | (B, K) | (B, 10) |
#
# - A token may come from anywhere. The hybrid takes it from a feature map, as patches of 1x1 and one linear layer.
# - Convolutions in front put assumptions back. Near things belong together, and patterns mean the same everywhere.
# - Early convolutions help at small compute. In the paper the gain is gone at large compute.
# - The price of the convolutions belongs beside the result.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), sections 3.1, 4.1, 4.4 and 4.5, Table 6. Section 4.1 also names a
#   backbone with a lengthened stage 3. The course's `HybridViT` can build it.
# - Luo et al., *Understanding the Effective Receptive Field in Deep Convolutional Neural Networks* (2016), on why the middle counts
#   most.
# - Xiao et al., *Early Convolutions Help Transformers See Better* (2021), with a few convolutions in place of the patch embedding.
#
# **Next.** Train your hybrid on ten labelled images of each class, and it will probably fail. Its assumptions save
# images, but not that many. What if the model has already learned from *other* images? That is lesson 12.
