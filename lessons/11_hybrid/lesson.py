# ---
# title: "The hybrid"
# promise: "Put a small ResNet before your Transformer, and see when it helps."
# part: "III. Beyond"
# map: [patches, embed]
# recall: ["01.5", "04.4", "09.4"]
# goals:
#   - "Make tokens from a CNN's feature map, and say what shape they have."
#   - "Compute what one token can see, and show it with gradients."
#   - "Count what a hybrid costs beside a ViT and a ResNet."
#   - "Read from recorded runs how far the hybrid is ahead with few and with many pictures."
#   - "Say what the paper found about hybrids, and where the gain ends."
# ---

# %% [markdown]
# ## 1. Must a token be made of pixels?
#
# No. The Transformer needs a sequence of vectors, wherever they come from. So far a token was a patch: 8x8 pixels and
# *one* linear layer. A ResNet (lesson 08) spends many small convolutions on edges and textures first. Let the Transformer
# read what those convolutions have found.
#
# A **feature map** is what a convolution returns: a stack of C' small pictures, (B, C', H', W'). At each of its H'·W'
# positions there are C' numbers. These are our new patches: patches of 1x1, cut from the feature map. The paper calls
# this the **hybrid**, and the convolutions in front its **backbone**.

# %%
import inspect
from dataclasses import replace
from statistics import fmean
from textwrap import dedent, fill

import torch
from einops import rearrange
from torch import nn

from vit_course.extensions.hybrid import HybridViT, feature_map_shape, make_backbone
from vit_classroom import check, plots, table
from vit_classroom.numbers import minutes, percent
from vit_course.data import load_dataset, normalize, shapes10
from vit_classroom.evidence.probes import shuffle_patches
from vit_classroom.evidence.records import caption, load_beside, load_records
from vit_classroom.evidence.statistics import difference_in_words
from vit_course.interpret import mean_attention_distance
from vit_course.training.profiles import get_profile
from vit_course.patches import PatchEmbed
from vit_course.recipes import RECIPES, build_model, forward_flops
from vit_course.train import train
from vit_course.vit import VIT_SIZES

plots.show(
    plots.hybrid_diagram(),
    "From left to right: a picture; four stages of convolutions with fewer positions and more channels each; the 4x4 positions of the "
    "last map as sixteen patches of 1x1; times E they are tokens; CLS in front, positions added, encoder, head.",
)

# %% [markdown]
# A **stage** is a group of blocks that work on maps of one size. The stages after the first begin with stride 2: rows
# and columns are halved, channels doubled. Four stages make 4x4 positions of a 32x32 picture. So one position stands
# for 8x8 pixels, as a patch of 8 does. Look at one channel of the map as a photo goes through an untrained backbone.

# %%
photo = plots.sample_photo((32, 32))[None].float() / 255
torch.manual_seed(0)
backbone = make_backbone().eval()  # a stem of three layers, then one residual block for each of four stages
maps = [photo]
with torch.no_grad():
    for layer in backbone:
        maps.append(layer(maps[-1]))
stages = maps[4:]
print("stages:", ", ".join("x".join(map(str, stage.shape[1:])) for stage in stages))

# %% fold
pictures, titles = [photo[0]], ["photo, 3x32x32"]
for number, stage in enumerate(stages, 1):
    channel = stage[0, stage[0].var(dim=(1, 2)).argmax()]
    pictures.append(((channel - channel.min()) / (channel.max() - channel.min()))[None])
    titles.append(f"stage {number}, " + "x".join(map(str, stage.shape[1:])))
plots.show(
    plots.image_row(pictures, titles, "One channel after each stage"),
    "The portrait with 32x32 pixels, then one channel after each of four stages, in grey, with 32x32, 16x16, 8x8 and "
    "4x4 positions.",
)

# %% [markdown]
# The paper's section 4.1 names two ways to end the backbone:
#
# - take the output of **stage 4**;
# - leave stage 4 out, and put its blocks into stage 3. This **lengthened stage 3** has as many blocks, but one
#   halving less. The map has twice the rows and columns.
#
# `feature_map_shape` works out the shape, as you did for patches in lesson 01.

# %%
rows = []
for height, width in ((32, 32), (64, 64), (32, 64)):
    for lengthen in (False, True):
        channels, *grid = feature_map_shape((height, width), lengthen=lengthen)
        name = "stage 3, lengthened" if lengthen else "stage 4"
        rows.append([f"{height}x{width}", name, f"{channels}x{grid[0]}x{grid[1]}", grid[0] * grid[1]])
table(rows, ["picture", "backbone", "map C' x H' x W'", "patch tokens"])

# %% [markdown]
# Lengthening adds no block, and it saves parameters, since stage 3 is narrower. But every layer of the Transformer now
# reads four times the tokens.
#
# Names: we write `R-Nano/8` for a backbone (R) of four stages before a ViT of size Nano, with a token every 8 pixels, and
# `R-Nano/4` for the lengthened stage 3. (The paper's ResNet-50 has a stem that halves twice more. Its stage 4 gives a
# token every 32 pixels, its lengthened stage 3 every 16. This fits its names R50+ViT-B/32 and R50+ViT-B/16.)
#
# ## 2. How does a map become a sequence?
#
# Equation 1 stays. Only the patches change. Write $f_i$, a row (1, C'), for the numbers at position i of the map, N = H'·W':
#
# $$z_0 = [x_{class};\; f_1 E;\; f_2 E;\; \dots;\; f_N E] + E_{pos}, \qquad E \in \mathbb{R}^{C' \times D},\quad E_{pos} \in \mathbb{R}^{(N+1) \times D}$$
#
# There is nothing to cut: a patch of 1x1 is flattened already. What remains is to put the positions in reading order,
# and one linear layer from C' to D. `nn.Linear` keeps its weight as (D, C'), the transpose of E.
#
# > **Predict.** Will such a layer and the `PatchEmbed` of lesson 01, with patches of 1x1, give the same tokens?

# %%
with torch.no_grad():
    embed = PatchEmbed(img_size=(4, 4), patch_size=1, in_chans=128, embed_dim=96)
    weight, bias = embed.proj.weight.flatten(1), embed.proj.bias  # (D, C'), (D,)
    tokens = rearrange(stages[-1], "b c h w -> b (h w) c") @ weight.T + bias  # (B, N, D)
    print("map", tuple(stages[-1].shape), " weight", tuple(weight.shape), " tokens", tuple(tokens.shape))
    print("equal to PatchEmbed with patches of 1x1:", torch.allclose(tokens, embed(stages[-1]), atol=1e-5))

# %% [markdown]
# They are the same: a 1x1 convolution *is* a linear layer at every position. So no new part is needed. The hybrid is a
# backbone, then your ViT with `patch_size=1`, whose "picture" is the feature map. Here is all that its
# `forward(images, return_attention=False)` does.

# %%
source = dedent(inspect.getsource(HybridViT.forward))
print(source.rpartition('"""\n')[2])
torch.manual_seed(0)
model = HybridViT(img_size=32, **VIT_SIZES["Nano"]).eval()
logits, attentions = model(photo, return_attention=True)
print("logits", tuple(logits.shape), " attention of each layer", tuple(attentions[0].shape))
print("grid", model.grid_size, " pixels per token", model.pixels_per_token)
print("a picture of 30x30 pixels becomes a map", tuple(backbone(photo[:, :, :30, :30]).shape))

# %% [markdown]
# > **Trap.** A convolution of stride 2 rounds up: it makes 4x4 positions of 32 pixels, and also of 30. Without
# > `check_images` a picture of the wrong size would pass through the whole model, and nobody would notice.
#
# ## 3. What does one token see?
#
# A patch of 8x8 sees its 64 pixels, and nothing else. What does one position of the feature map see? Each 3x3
# convolution looks at neighbours, and these have looked at theirs. The **receptive field** is the square of pixels
# that can change one position. The drawing shows one line of it, for four convolutions.

# %% fold
plots.show(
    plots.window_diagram([(3, 1), (3, 2), (3, 1), (3, 2)]),
    "Five rows of dots. At the top one position; below it what it sees of the layers before, 3, 5 and 11 positions; "
    "at the bottom 13 pixels. After a stride of 2 the dots lie twice as far apart.",
)

# %% [markdown]
# Let layer i have kernel size $k_i$ and stride $s_i$. Before layer i, neighbouring positions lie
# $s_1 \cdots s_{i-1}$ pixels apart. The layer looks at $k_i$ of them. One of the $k_i$ was seen already, so it adds
# the other $k_i - 1$:
#
# $$r = 1 + \sum_i (k_i - 1) \prod_{j<i} s_j$$
#
# Here r is the side of the square in pixels. The product runs over the layers j *before* layer i; for the first layer
# it is 1. Count the 13 pixels of the drawing with it.
#
# **Your task.** Write `receptive_field`.

# %% exercise="vit_course.extensions.hybrid:receptive_field" difficulty=2 minutes=10 hint="Walk through the layers and keep two numbers: how wide the field is, and how many pixels apart neighbouring positions lie. Both begin with 1." hint2="In the loop: `field += (kernel - 1) * jump`, and only then `jump *= stride`."
from vit_course.extensions.hybrid import receptive_field

receptive_field = check(receptive_field)

# %% [markdown]
# > **Predict.** A picture has 32x32 pixels, and a position of stage 4 stands for 8x8 of them. How wide is its window?


# %%
def main_path(layers):
    """List (kernel size, stride) of the convolutions on the main path; the shortcuts of 1x1 see nothing more."""
    named = [(name, m) for name, m in layers.named_modules() if isinstance(m, nn.Conv2d)]
    return [(m.kernel_size[0], m.stride[0]) for name, m in named if "downsample" not in name]


torch.manual_seed(0)
fronts = {
    "patch of 8x8": nn.Sequential(PatchEmbed(96, 8, 3, 96).proj),
    "stage 4": make_backbone().eval(),
    "stage 3, lengthened": make_backbone(lengthen=True).eval(),
}
paths = {name: main_path(front) for name, front in fronts.items()}
table(
    [[name, len(path), receptive_field(path)] for name, path in paths.items()],
    ["one token of", "convolutions", "receptive field, pixels"],
)

# %% [markdown]
# The windows of the hybrid are wider than a whole picture of 32x32. Is that true? A gradient answers. If a pixel can
# change a token, the token has a gradient there. The next cell takes a larger photo, so that the field fits in, and
# the token in the middle. No weight has been trained.


# %%
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


def half_side(seen):
    """Return the side of the smallest centred square that holds half of all influence."""
    centre = seen.shape[0] // 2
    for radius in range(centre):
        square = slice(centre - radius, centre + radius + 1)
        if seen[square, square].sum() >= 0.5:
            return 2 * radius + 1
    return seen.shape[0]


large_photo = plots.sample_photo((96, 96))[None].float() / 255
seen = {name: seen_by_token(front, large_photo) for name, front in fronts.items()}
rows = []
for name, influence in seen.items():
    half = half_side(influence) if "stage" in name else ""
    rows.append([name, receptive_field(paths[name]), (influence > 0).any(dim=1).sum().item(), half])
table(rows, ["one token of", "formula, pixels", "with a gradient", "half of it in a square of"])

# %% fold
figure = plots.heat_maps(
    [influence[16:80, 16:80] / influence.max() for influence in seen.values()],
    list(seen),
    "What does one token see?",
    "influence / largest influence",
    xlabel="column of pixels",
    ylabel="row of pixels",
)
plots.show(
    figure,
    "Three maps of influence around one token. The patch: a sharp square of 8x8. Stage 4 and the lengthened stage 3: "
    "wide squares, bright in the middle and faint towards the rim.",
)

# %% [markdown] claim="all(row[1] == row[2] for row in rows) and all(row[3] < row[1] / 2 for row in rows[1:])"
# The gradients confirm the formula. They also show what the formula hides: the middle counts far more than the rim.
# People call the bright part the **effective receptive field**.
#
# Three things differ from patches. The windows of neighbouring tokens *overlap*. An object on the border of two cells
# can be seen whole from both sides. And a token of the first Transformer layer has already heard of its neighbourhood.
# In a pure ViT only attention can do that.
#
# Move the slider: how does the window grow, layer by layer? (Here every part of the network counts as one: three of the stem,
# then four stages.)


# %% fold
def draw_window(layers):
    """Show what one position sees after the first so many layers of the stage-4 backbone."""
    first = fronts["stage 4"][:layers]
    side = receptive_field(main_path(first))
    inside = (seen_by_token(first, large_photo, draws=2) > 0).float()
    figure = plots.image_row(
        [large_photo[0], large_photo[0] * (0.2 + 0.8 * inside)],
        ["the photo, 96x96", f"after {layers} layers"],
        f"One position sees {side}x{side} pixels",
    )
    plots.show(
        figure, f"The portrait; then the same, dark but for the {side}x{side} pixels that one position sees."
    )


draw_window(5)

# %% tags=["nbval-ignore-output"]
plots.slider(draw_window, layers=[1, 4, 5, 6, 7])

# %% [markdown]
# ## 4. What does the hybrid cost, and what does it assume?
#
# The backbone is small, but it works on large maps. The next table splits every model in two. The hybrids have the same
# encoder as the ViTs of their size.
#
# > **Predict.** Where do most operations of `R-Nano/8` happen: in the convolutions, or in the Transformer?

# %%
shapes = shapes10(train=100, test=100)


def convolutions_of(model):
    """Return the convolutions of a model, or None."""
    if isinstance(model, nn.Sequential):  # a ResNet: all but average, flatten and head
        return model[:-3]
    return getattr(model, "backbone", None)


def cost(part):
    """Return parameters and MFLOP of a model or of its convolutions; nothing costs nothing."""
    return (sum(p.numel() for p in part.parameters()), forward_flops(part, shapes) / 1e6) if part else (0, 0)


rows = []
for name in ("Nano/8", "R-Nano/8", "Nano/4", "R-Nano/4", "resnet-small"):
    whole = build_model(name, shapes)
    (all_weights, all_flops), (weights, flops) = cost(whole), cost(convolutions_of(whole))
    rows.append([name, weights, all_weights - weights, f"{flops:.1f}", f"{all_flops - flops:.1f}"])
table(rows, ["model", "parameters, convolutions", "parameters, rest", "MFLOP, convolutions", "MFLOP, rest"])

# %% [markdown] always claim="abs(rows[1][2] / rows[0][2] - 1) < 0.03 and float(rows[1][3]) > 2 * float(rows[1][4])"
# Compare `R-Nano/8` with `Nano/8`. The Transformer has hardly changed, and most operations now happen *in front* of
# it. So a hybrid is not free. When we compare it with a ViT, the price must be shown beside the result.
#
# The longer sequence of `R-Nano/4` has its price too: four times the tokens, four times the operations of the rest.
#
# Now the other side: what does the backbone *assume*? Lesson 08 called it **inductive bias**: what a model assumes
# before it sees data. A convolution assumes that neighbours belong together, and that the same pattern means the same
# everywhere. The Transformer after it assumes as little as ever. Test the first assumption as in lesson 08: shuffle
# pieces of a photo, and ask which untrained models without positions notice.

# %%
rows = []
for name in ("Nano/8", "R-Nano/8"):
    torch.manual_seed(0)
    built = build_model(name, shapes, pos_embed="none").eval()
    getattr(built, "vit", built).head = nn.Identity()  # the vector before the head
    with torch.no_grad():
        original = built(photo)
        moved = [built(shuffle_patches(photo, side)) for side in (16, 8)]
    rows.append([name, *(percent((x - original).norm() / original.norm(), 0) for x in moved)])
table(rows, ["output changes by", "pieces of 16x16", "pieces of 8x8"])

# %% [markdown] always claim="all(float(str(rows[0][i]).strip(' %')) == 0 < float(str(rows[1][i]).strip(' %')) for i in (1, 2))"
# Without positions, the ViT cannot see the order of its patches: a bag of words. The hybrid notices without any
# position. Its windows reach over the cuts, and the zeros that a convolution puts around its input mark the border.
#
# > **Key idea.** A sense of place comes in with the convolutions. What a model assumes, it need not learn.
#
# ## 5. Does it learn faster?
#
# Now let ViT, hybrid and ResNet learn from *few* pictures. All see the same ones for the same number of epochs, with the
# same augmentation. ViT and hybrid share one recipe; the ResNet keeps its own (lesson 08). So the minutes and the FLOPs
# differ, and stand beside the result.
#
# > **Predict.** Whose line will rise first, and who will be ahead at the end?

# %% tags=["nbval-ignore-output"]
profile, everything = get_profile(), load_dataset("auto")
part = everything.subset(
    min(profile.pick(smoke=128, cpu=2_000, gpu=5_000), len(everything.train_images)),
    min(profile.pick(smoke=100, cpu=2_000, gpu=10_000), len(everything.test_images)),
)
epochs = profile.pick(smoke=1, cpu=12, gpu=40)
settings = {"epochs": epochs, "batch_size": 64, "quiet": True}
recipe = replace(RECIPES["smoothing"], lr=2e-3, **settings)
contest = {
    "ViT": ("Nano/8", recipe),
    "hybrid": ("R-Nano/8", recipe),
    "ResNet": ("resnet-small", replace(RECIPES["resnet"], **settings)),
}
print(fill(part.provenance, 90))
print(f"profile {profile.name}: three models, about {minutes(profile.pick(smoke=30, cpu=180, gpu=180))}")

trained, histories, rows = {}, {}, []
for name, (model_name, chosen) in contest.items():
    torch.manual_seed(0)
    trained[name] = build_model(model_name, part)
    histories[name] = history = train(trained[name], part, chosen)
    flops = 3 * forward_flops(trained[name], part) * epochs * len(part.train_images)
    rows.append([name, minutes(history.seconds), f"{flops / 1e12:.2f}", percent(history.test_accuracy)])
table(rows, ["model", "time", "TFLOP", "test accuracy"], f"epochs: {epochs}, one seed")

# %% fold tags=["nbval-ignore-output"]
figure = plots.curves(
    {
        name: (list(range(1, epochs + 1)), [100 * share for share in history.train_accuracy])
        for name, history in histories.items()
    },
    f"Who learns {len(part.train_images):,} pictures first?",
    "epoch",
    "accuracy on the training pictures in percent",
)
plots.show(figure, "Accuracy on the training pictures after each epoch, for ViT, hybrid and ResNet.")

# %% [markdown]
# This is one seed, few pictures and a short training: a look, not a result. What did each model pay, in time and TFLOP?
# AdamW trained ViT and hybrid, SGD the ResNet. Section 7 has longer runs with three seeds.

# %% [markdown] curious
# ## 6. Where do its heads look?
#
# Lesson 09 measured the **mean attention distance**: how far from itself a patch looks on average, in pixels. The paper's section
# 4.5 reports that in the first layers of a ViT some heads stay *local*, and that such heads are "less pronounced" in hybrids. The
# authors' reading: local heads may do the work of early convolutions. A hybrid has had these already. Measure it on your models.


# %% tags=["nbval-ignore-output"]
def distances(model, images):
    """Return for every layer the distances of its heads, in pixels; for a ViT or a hybrid."""
    vit = getattr(model, "vit", model)
    grid, prefix = vit.patch_embed.grid_size, vit.num_prefix_tokens
    with torch.no_grad():
        _, attentions = model.eval()(images, return_attention=True)
    pixels = images.shape[-1] // grid[1]
    return [mean_attention_distance(weights, grid, pixels, prefix).tolist() for weights in attentions]


device = next(trained["ViT"].parameters()).device
looked_at = normalize(part.test_images[:128], *part.channel_stats()).to(device)
uniform = mean_attention_distance(torch.full((1, 1, 17, 17), 1 / 17), (4, 4), 8).item()
series = {}
for name in ("ViT", "hybrid"):
    torch.manual_seed(0)
    untrained = build_model(contest[name][0], part).to(device)
    for state, one in (("untrained", untrained), ("trained", trained[name])):
        found = distances(one, looked_at)
        labels = [f"layer {number + 1}" for number, layer in enumerate(found) for _ in layer]
        series[f"{name}, {state}"] = (labels, [value for layer in found for value in layer])
heads = VIT_SIZES["Nano"]["num_heads"]
for name in ("ViT", "hybrid"):
    print(f"first layer of the {name}, trained: {fmean(series[f'{name}, trained'][1][:heads]):.1f} pixels")
print(f"looking everywhere alike: {uniform:.1f} pixels")

# %% fold tags=["nbval-ignore-output"]
figure = plots.dots(
    series, "How far do the heads look? (dotted: everywhere alike)", "mean attention distance in pixels"
)
drawn = [uniform - 1, uniform + 1, *(value for _, values in series.values() for value in values)]
figure.axes[0].set_xlim(min(drawn) - 0.2, max(drawn) + 0.2)
figure.axes[0].axvline(uniform, color="0.4", linestyle=":")
plots.show(
    figure,
    "Mean attention distance of every head in three layers, for ViT and hybrid, untrained and trained, with the "
    "distance of uniform attention as a line.",
)

# %% [markdown] claim="max(abs(value - uniform) for name in ('ViT', 'hybrid') for value in series[f'{name}, untrained'][1]) < 0.3"
# Untrained heads lie near the dotted line, since they look almost equally everywhere. A trained head left of it prefers near
# patches, or CLS (lesson 09); one right of it looks far, or leaves out CLS. Are the ViT's first-layer heads further to the left
# than the hybrid's?
#
# Be careful with the comparison. The distance is measured between *tokens*. A token of the hybrid has seen its
# surroundings before attention begins, so a distance of 0 does not mean the same for both.

# %% [markdown]
# ## 7. How much data is an assumption worth?
#
# What a model assumes, it need not learn. So one expects the hybrid to gain most when pictures are few, as the paper
# found for ResNets (section 4.3). Accuracy over the amount of data tells.
#
# The recorded runs are of a ViT, a hybrid with half as many channels as above, a ResNet and one matrix, on 1, 10 and 100 percent
# of CIFAR-10's training pictures. Fewer pictures are repeated more often, so every model takes about as many steps with few as
# with all.

# %% tags=["nbval-ignore-output"]
names = {"vit": "ViT", "hybrid": "hybrid", "resnet": "ResNet", "linear": "one matrix"}
hybrids = load_records("hybrid")
shares = {run["fraction"] for run in hybrids}
records = [run for run in load_beside(hybrids, "fractions-first") if run["fraction"] in shares] + hybrids
measured, memorised, examples = {}, {}, {}
for run in records:
    step, percents = run["step"].rpartition("-")[0], 100 * run["fraction"]
    if step in names:
        measured.setdefault(names[step], {}).setdefault(percents, []).append(100 * run["test_accuracy"])
        memorised.setdefault((names[step], percents), []).append(run["train_accuracy"][-1])
        examples.setdefault(names[step], run)
print(caption(records))
rows = [
    [name, one["model"], one["parameters"], f"{one['forward_flops'] / 1e6:.1f}"]
    + [f"{one['config']['optimizer']}, rate {one['config']['lr']:g}", one["options"].get("width", "")]
    for name, one in examples.items()
]
table(rows, ["", "model", "parameters", "MFLOP", "optimizer", "width of stage 1"]) if rows else None

# %% fold tags=["nbval-ignore-output"]
if measured:
    figure = plots.seed_curves(
        {name: measured[name] for name in names.values() if name in measured},
        "Who is ahead with how many pictures?",
        "share of the training pictures in percent",
        "test accuracy in percent",
        log=True,
    )
    figure.axes[0].set_xticks([1, 10, 100], ["1", "10", "100"])
    plots.show(
        figure,
        "Test accuracy over the share of training pictures for ViT, hybrid, ResNet and one matrix; a dot for each seed.",
    )

# %% [markdown]
# Now the question itself: how large is the gap at each share, and how sure are we? You have the rule,
# `difference(a, b)`, from lesson 10, and the list `records`.
#
# > **Trap.** Besides `vit-10` there are runs called `small-vit-10`, of a narrower ViT. Looking for "vit" *in* the name mixes
# > two models.
#
# **Your task.** Write `gaps_by_share`.

# %% exercise="vit_classroom.evidence.statistics:gaps_by_share" difficulty=2 minutes=10 hint="For each fraction, collect the accuracies of the first and of the second model, in percent. What stands before the last hyphen of a step is the model." hint2="`run['step'].rpartition('-')[0] == first` finds the runs of the first model. Go through `sorted({run['fraction'] for run in records})`, and leave out a share that one of the two does not have."
from vit_classroom.evidence.statistics import gaps_by_share

gaps_by_share = check(gaps_by_share)

# %% [markdown]
# > **Predict.** With which share is the hybrid furthest ahead of the ViT? Is it ahead of the ResNet anywhere?

# %% tags=["nbval-ignore-output"]
ahead = {rival: gaps_by_share(records, "hybrid", rival) for rival in ("vit", "resnet")}
rows = []
for share in sorted(shares):
    steps = {
        round(one["config"]["warmup_epochs"] * (50_000 * share // one["config"]["batch_size"]))
        for one in hybrids
        if one["fraction"] == share
    }
    known = [f"{100 * fmean(memorised[name, 100 * share]):.0f}" for name in ("ViT", "hybrid")]
    found = [f"{gap:+.1f} ({low:+.1f} to {high:+.1f})" for gap, low, high in (ahead[r][share] for r in ahead)]
    rows.append([f"{share:.0%}", *found, " / ".join(known), *steps])
longer = [
    100 * run["test_accuracy"] for run in load_beside(hybrids, "comparison-first") if run["step"] == "vit"
]
if longer:
    print("100 %:", difference_in_words("hybrid", measured["hybrid"][100], "ViT in twice the steps", longer))
columns = ["minus ViT", "minus ResNet", "training, %: ViT / hybrid", "steps of warm-up"]
table(rows, ["pictures", *("hybrid " + name if "minus" in name else name for name in columns)])

# %% [markdown] always claim=["all(low > 0 and gap > 11 for gap, low, high in ahead['vit'].values())", "max(low for gap, low, high in ahead['vit'].values()) < min(high for gap, low, high in ahead['vit'].values())", "min(map(fmean, (memorised['ViT', 1.0], memorised['hybrid', 1.0]))) > 0.99", "examples['hybrid']['options'] == {'width': 8} and 2 * examples['ResNet']['config']['epochs'] == examples['ViT']['config']['epochs']", "not longer or 8 > fmean(longer) - fmean(measured['ViT'][100]) > 7.5", "all(high < 0 for share, (gap, low, high) in ahead['resnet'].items() if share > 0.01) and ahead['resnet'][0.01][1] <= 0 <= ahead['resnet'][0.01][2]", "all(fmean(measured['ViT'][share]) < fmean(measured['hybrid'][share]) < fmean(measured['ResNet'][share]) for share in (1, 10, 100)) and 'undecided' not in difference_in_words('', [a - b for a, b in zip(measured['hybrid'][1], measured['ResNet'][1])], '', [0, 0, 0])"]
# The hybrid is ahead of the ViT with every share, by eleven points or more, and every interval lies above 0. The little
# ResNet in front pays. But nothing shows that the gap shrinks as pictures become many: the gaps differ too little for
# three seeds, so the runs do not say where it is largest, or that few pictures are special.
#
# Why? Two explanations are possible, and these runs do not separate them. The convolutions' assumptions may simply be
# right for pictures: with 1 percent both have memorised all their training pictures (the column `training`), so more steps
# could hardly help the ViT there, and yet it is more than eleven points behind. Or the ViT is short of steps: with all
# pictures, twice the steps bring it nearly eight points. The line above the table shows what is left of the gap then.
#
# Three cautions. ViT and hybrid shared AdamW and one rate, the ResNet had SGD and label smoothing; no rate was searched for each
# share. The warm-up was one epoch, so its steps differ a hundredfold between the shares (last column). And the hybrid
# spends two thirds more operations on each picture than the ViT.
#
# The ResNet alone is never behind: with 1 percent nothing is decided (a paired test has it ahead), above that it leads. At this
# size the mixture lies between the pure models, and the ResNet took half as many steps.
#
# ## 8. What did the paper find?
#
# The paper pre-trained ViTs, ResNets and hybrids of several sizes on JFT (300 million pictures), and fine-tuned them.
# Its Figure 5 and Table 6 show accuracy over the compute of pre-training, in exaFLOPs (10^18 operations). Here are
# the accuracies on ImageNet of all its ViTs and hybrids, and of some of the ResNets.

# %%
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
table(
    [
        [size, paper["ViT"][size][0], cost, f"{accuracy - paper['ViT'][size][1]:+.2f}"]
        for size, (cost, accuracy) in paper["hybrid"].items()
    ],
    ["size", "ViT, exaFLOPs", "hybrid, exaFLOPs", "gain of the hybrid, points"],
)

# %% fold
figure = plots.curves(
    {name: tuple(map(list, zip(*sorted(rows.values()), strict=True))) for name, rows in paper.items()},
    "Who is ahead at which compute? (the paper's Table 6)",
    "compute of pre-training in exaFLOPs",
    "accuracy on ImageNet in percent",
    log="x",
)
ticks = [50, 100, 200, 500, 1000, 2000, 4000]
figure.axes[0].set_xticks(ticks, ticks)
figure.axes[0].minorticks_off()
plots.show(
    figure,
    "Accuracy on ImageNet over the compute of pre-training for ViT, hybrid and ResNet: the hybrid is highest at small "
    "compute, meets the ViT at large compute, and the ResNet lies below both.",
)

# %% [markdown] always claim="[round(score - paper['ViT'][size][1], 2) > 0 for size, (cost, score) in paper['hybrid'].items()] == [True] * 4 + [False]"
# With little compute the hybrids are ahead; for the largest pair the gap is gone. The authors find that a little
# surprising: one might expect the local work of convolutions to help at any size. Their conclusion is that of lesson 08:
# with enough data and compute, what a convolution assumes can be learned.
#
# The paper's larger result, over five data sets: for the same accuracy a ViT needs two to four times *less* compute than a
# ResNet (section 4.4, Figure 5). On ImageNet alone, this figure, it is about two times: the largest ResNet reaches 87.22 %
# with 3,306 exaFLOPs. What does ViT-L/16 reach, and with how much?
#
# Our records do not repeat this experiment. The paper changes the *compute* at fixed data, our curve the *data*; its models
# are far larger, and its ResNet is a ResNet-50 with group norm, ours a few blocks with batch norm.

# %% [markdown] curious
# ## 9. How much more does the other need?
#
# A curve can be read in two ways. **Up and down**: at the same amount of data, how many points is one model ahead?
# **Left and right**: for the same accuracy, how much more data does the other need? The second is often the more useful
# answer, since data has a price.
#
# Reading to the right has a snag. The paper's ViT-B/16 costs more than L/32 (224 exaFLOPs against 196) and is worse
# (84.15 against 84.37). Such a point is **dominated**: nobody would choose it, and a line through it makes the model
# look dearer than it has to be. What is left without dominated points is the **frontier**; it only rises.
#
# `data_needed` is given. It reads the frontier with a logarithmic axis.

# %%
from vit_classroom.evidence.statistics import data_needed

made_up = {100: 30.0, 1_000: 50.0, 10_000: 45.0, 100_000: 70.0}
answers = {target: data_needed(made_up, target) for target in (25, 40, 65, 75)}
table(
    [[target, "never reached" if amount is None else round(amount)] for target, amount in answers.items()],
    ["accuracy wanted, %", "pictures"],
    f"made-up curve {made_up}",
)

# %% [markdown]
# Now the recorded curves of section 7. How many pictures do hybrid and ResNet need for what the ViT reaches with all?

# %% tags=["nbval-ignore-output"]
lines = {name: {p: fmean(scores) for p, scores in curve.items()} for name, curve in measured.items()}
rows = []
for name in ("hybrid", "ResNet") if lines.keys() >= {"ViT", "hybrid", "ResNet"} else ():
    target = max(lines["ViT"].values())
    amount = data_needed(lines[name], target)
    rows.append([name, f"{target:.1f}", "more than was measured" if amount is None else f"{amount:.2g}"])
table(rows, ["", "the ViT's best, %", "percent of the pictures needed"]) if rows else None

# %% [markdown]
# And the paper's. The amount is now compute instead of pictures. How much does a ViT need to reach each of the hybrids?
# The last column leaves L/32 out, so that the line runs through B/16.
#
# > **Predict.** By how much does the one dominated point change the first factor?

# %%
vits = dict(paper["ViT"].values())
through_b16 = {cost: accuracy for cost, accuracy in vits.items() if cost != 196}
rows = []
for size, (cost, accuracy) in paper["hybrid"].items():
    needed = [data_needed(curve, accuracy) for curve in (vits, through_b16)]
    rows.append([size, cost, round(needed[0]), *(f"{amount / cost:.1f}" for amount in needed)])
table(rows, ["hybrid", "exaFLOPs", "a ViT needs", "times the hybrid's", "through B/16"])

# %% [markdown] always claim=["sorted(row[3] for row in rows[:3])[::2] == ['1.7', '2.7'] and max(float(row[3]) for row in rows[3:]) < 1.3 and 1.15 < float(rows[0][4]) / float(rows[0][3]) < 1.25", "all(1.6 < cost / data_needed(vits, accuracy) < 2.5 for cost, accuracy in paper['ResNet'].values() if cost > 50)"]
# Along the frontier, the three cheapest hybrids save most: a ViT needs 1.7 to 2.7 times their compute. The two largest
# save little or nothing. A single dominated point would have added a fifth to the first factor.

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
# - [ ] Yes: a convolution makes the tokens :: That takes a way to compute for a kind of model.
# - [x] No, this is the plain ViT :: This convolution is the matrix E of lesson 01. A hybrid takes its patches from the map of a CNN.
# - [ ] Only if its windows overlap :: That would be a third thing: neither the paper's ViT nor its hybrid.

# %% [markdown] quiz
# Stage 4 goes, and its blocks move to stage 3. What grows?
#
# - [ ] the number of blocks :: It stays: that is the point of it.
# - [ ] the channels of the map :: It has half as many, and the tokens have D numbers either way.
# - [x] the sequence :: One halving less: twice the rows and twice the columns, four times the tokens.

# %% [markdown] quiz
# Two 3x3 convolutions, the first with stride 2. How wide is the receptive field?
#
# - [ ] 5 :: That leaves out the stride.
# - [x] 7 :: 1 + 2·1 + 2·2.
# - [ ] 9 :: Layers add; they do not multiply.

# %% [markdown] quiz
# On 10 % of the data your hybrid beats your ViT by 6 points, with one seed and twice the FLOPs. What may you write?
#
# - [ ] Hybrids are better than ViTs when pictures are few. :: One run, one amount of data, and another price.
# - [x] It was ahead in one run, at twice the price. :: A measurement that says what it is can be shown.
# - [ ] Nothing: one seed has no spread. :: Too strict: say that it is one run, and what it cost.

# %% [markdown]
# ## Recap
#
# | what | shape | `R-Nano/8`, 32x32 | `R-Nano/4`, 32x32 |
# |---|---|---|---|
# | pictures | (B, C, H, W) | (B, 3, 32, 32) | (B, 3, 32, 32) |
# | feature map | (B, C', H', W') | (B, 128, 4, 4) | (B, 64, 8, 8) |
# | weight of the projection | (D, C') | (96, 128) | (96, 64) |
# | patch tokens | (B, N, D), N = H'·W' | (B, 16, 96) | (B, 64, 96) |
# | with CLS and positions | (B, N + 1, D) | (B, 17, 96) | (B, 65, 96) |
# | attention weights | (B, h, N + 1, N + 1) | (B, 3, 17, 17) | (B, 3, 65, 65) |
# | logits | (B, K) | (B, 10) | (B, 10) |
#
# - A token may come from anywhere. The hybrid takes it from a feature map: patches of 1x1, one linear layer.
# - A token's window is wide, overlaps with its neighbours', and is strongest in the middle.
# - Convolutions in front put assumptions back: near things belong together, patterns mean the same everywhere.
# - In the paper this helps at small compute, and the gain is gone at large. Over five data sets ViTs need two to four times
#   less compute than ResNets.
#
# **Your next step.** Give the pure ViT the FLOPs of the hybrid: more layers, or smaller patches, until
# `forward_flops` agrees. Train both on 10 % of the pictures with three seeds. How much of the hybrid's lead is left?
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), sections 3.1, 4.1, 4.4 and 4.5, Table 6.
# - Luo et al., *Understanding the Effective Receptive Field in Deep Convolutional Neural Networks* (2016): why the
#   middle counts most.
# - Xiao et al., *Early Convolutions Help Transformers See Better* (2021): a few convolutions in place of the patch
#   embedding.
