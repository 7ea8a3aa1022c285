# ---
# title: "Look inside"
# promise: "You open a trained model and measure its filters, positions and heads, always beside a model that has learned nothing."
# part: "II. Train it, and be fair"
# minutes: 65
# map: [attention]
# goals:
#   - "Find the main patterns in patch filters, and read maps of positions."
#   - "Show what every head looks at, and follow attention through all layers."
#   - "Measure in pixels how far a head looks, as the authors did, and read their Figure 7."
#   - "Say what of all this was learned, with an untrained model as the witness."
#   - "Test whether attention explains a result, instead of believing it."
# ---

# %% [markdown]
# ## 1. It works. But what has it learned?
#
# A trained model is a list of numbers. It names shapes, and cannot say why. So we open it. The paper does
# this in its section 4.5. We follow it from the entrance to the exit: filters, positions, tokens, heads.
#
# Pictures of the inside are beautiful, and easy to believe. A rule protects us: **beside every trained model stands its
# untrained twin**, of the same architecture, with random weights. What both show comes from the architecture. Only the
# difference was learned.
#
# The next cell takes a small ViT that was trained on Shapes-10 and comes with the course. If yours is without it, the
# cell trains a smaller one on the spot. That one is worse. Then expect smaller differences.

# %%
from dataclasses import replace

import torch
import torch.nn.functional as F
from einops import rearrange

from vit_course.classroom import check, plots
from vit_course.data import load_dataset, normalize, shapes10
from vit_course.machinery.profiles import get_profile
from vit_course.recipes import RECIPES, build_model
from vit_course.train import evaluate, train
from vit_course.experiments.released import load_trained, trained_names

profile = get_profile()
shapes = shapes10(
    train=profile.pick(smoke=320, cpu=4_000, gpu=20_000), test=profile.pick(smoke=40, cpu=200, gpu=1_000)
)


def train_here(name, epochs):
    """Train a model on Shapes-10, and return it on the CPU."""
    torch.manual_seed(0)
    model, batch_size = build_model(name, shapes), profile.pick(smoke=64, cpu=64, gpu=256)
    train(
        model,
        shapes,
        replace(RECIPES["smoothing"], epochs=epochs, batch_size=batch_size, lr=2e-3, quiet=True),
    )
    return model.cpu().eval()


def untrained_twin(model_name, options):
    """Build the same architecture with random weights."""
    torch.manual_seed(0)
    return build_model(model_name, shapes, **options).eval()


# %% tags=["nbval-ignore-output"]
if "shapes-vit" in trained_names():
    trained, info = load_trained("shapes-vit")
else:
    print(f"No trained model is here yet: training a small one (profile {profile.name}, up to two minutes).")
    mean, std = shapes.channel_stats()
    info = {"model": "Nano/4", "options": {}, "mean": mean, "std": std, "data": shapes.provenance}
    trained = train_here("Nano/4", epochs=profile.pick(smoke=1, cpu=6, gpu=20))
twins = {"untrained": untrained_twin(info["model"], info["options"]), "trained": trained}
stats = torch.as_tensor(info["mean"]), torch.as_tensor(info["std"])
inputs = normalize(shapes.test_images, *stats)  # what the models read: (B, 3, 32, 32)
grid, patch = trained.patch_embed.grid_size, shapes.test_images.shape[-1] // trained.patch_embed.grid_size[1]
depth, num_heads = len(trained.blocks), trained.blocks[0].attn.num_heads
print(f"{info['model']}: grid {grid}, patches of {patch}x{patch} pixels, {depth} layers, {num_heads} heads")
for name, model in twins.items():
    accuracy, _ = evaluate(model, shapes.test_images, shapes.test_labels, stats)
    print(f"{name:9} accuracy {accuracy:.1%} on {len(inputs)} test pictures of Shapes-10")

# The model for photographs, where it is at hand. Filters and positions can be looked at without any picture.
photo_model = load_trained("cifar-vit") if "cifar-vit" in trained_names() else None
family = twins | ({"trained on CIFAR-10": photo_model[0]} if photo_model else {})
print("also here:", photo_model[1]["data"] if photo_model else "no model trained on CIFAR-10")

# %% [markdown]
# ## 2. What do the filters look for?
#
# The patch embedding multiplies each patch with D **filters**. A filter has as many numbers as a patch, C·P·P, so it
# can be drawn as one. Its product with a patch is large where the patch has its pattern. But there are many of them, 96
# in the smallest model, and most are mixtures. Which few patterns are they mixtures *of*?
#
# This is the question of **principal component analysis** (PCA). Write the filters as the rows of a matrix F, (D,
# C·P·P). Subtract the mean filter $\bar f$, (C·P·P), from every row. Then take the **singular value decomposition**
# (SVD):
#
# $$F - \bar{f} = U\,S\,V^\top, \qquad \text{share}_k = \frac{s_k^2}{\sum_j s_j^2}$$
#
# U is (D, r), S is (r, r) and diagonal, and $V^\top$ is (r, C·P·P), with r the smaller of D and C·P·P. The rows of
# $V^\top$ are the **components**: patterns of length 1, at right angles to each other, the strongest first. $s_k$ is
# the k-th number of S, and its share says how much of the differences between filters lies in pattern k.
#
# **Your task.** Write `filter_components`. The docstring says all of this again, with shapes.

# %% exercise="vit_course.interpret:filter_components" difficulty=2 minutes=8 hint="Flatten each filter to a row with `filters.flatten(1)`, and subtract the mean over the D rows, `mean(dim=0)`. `torch.linalg.svd(..., full_matrices=False)` gives three results: which one holds the components as rows?" hint2="`_, strength, directions = torch.linalg.svd(centred, full_matrices=False)`. The shares are `strength.square() / strength.square().sum()`. Take the first `count` of both, and give the directions the shape `(-1, *filters.shape[1:])`."
from vit_course.interpret import filter_components

filter_components = check(filter_components)


# %% tags=["nbval-ignore-output"]
def contact_sheet(components):
    """Lay components (28, C, P, P) out on one sheet: grey is 0, the largest number of each is full colour."""
    scaled = components / components.abs().amax(dim=(1, 2, 3), keepdim=True) / 2 + 0.5
    return plots.image_grid(F.pad(scaled, (1, 1, 1, 1), value=1.0), columns=7)


sheets, titles = [], []
for name, model in family.items():
    weight = model.patch_embed.proj.weight.detach()  # (D, C, P, P)
    components, shares = filter_components(weight, weight[0].numel())
    needed = int((shares.cumsum(0) < 0.9).sum()) + 1
    sheets.append(contact_sheet(components[:28]))
    titles.append(f"{name}\n{needed} of {len(shares)} hold 90 %")
    print(f"{name:20} shares of the first five:", *(f"{share:.1%}" for share in shares[:5]))
figure = plots.image_row(sheets, titles, "The strongest 28 components of the patch filters", height=2.9)
plots.show(
    figure, "Sheets of 4 by 7 small colour patterns, one sheet for each model; strongest pattern first."
)

# %% [markdown]
# Read from left to right, then down. Random filters have no preferred pattern, so their components are noise, and each
# has nearly the share of the next. A well trained model usually needs *fewer* components, and its first ones are
# smooth: one colour all over, a ramp from left to right, then finer stripes. In the paper (Figure 7, left; ViT-L/32)
# they look like a set of building blocks for the fine structure inside a patch. Compare the counts above the sheets. A
# model that trained for a minute may still be close to noise.
#
# ## 3. Does it know which patches are neighbours?
#
# Position vectors start as random numbers (lesson 03). Nobody tells the model that patch 9 lies below patch 1. Has it
# found out? Compare the vectors by **cosine similarity**: 1 for the same direction, 0 for right angles.
# `position_similarity` returns it for every pair. In the next figure, the small map in row r, column c compares
# position (r, c) with all others.

# %% tags=["nbval-ignore-output"]
from vit_course.interpret import position_similarity

rows, columns = torch.meshgrid(torch.arange(grid[0]), torch.arange(grid[1]), indexing="ij")
places = torch.stack([rows.flatten(), columns.flatten()], dim=1).float()
apart = torch.cdist(places, places)  # distance of two patches, in patches
in_line = (places[:, None] == places[None]).any(dim=-1)  # same row or same column
maps, neighbours = {}, {}
for name, model in family.items():
    maps[name] = position_similarity(model.pos_embed.detach(), grid, model.num_prefix_tokens)
    flat = maps[name].reshape(len(places), -1)
    middle = (apart > 2.5) & (apart < 4.5)
    near, far = flat[apart == 1].mean(), flat[apart > 5].mean()
    line, other = flat[middle & in_line].mean(), flat[middle & ~in_line].mean()
    neighbours[name] = near.item()
    print(f"{name:20} neighbours {near:.2f}, more than 5 apart {far:.2f};", end=" ")
    print(f"3 or 4 apart: same row or column {line:.2f}, neither {other:.2f}")
figure = plots.map_grid(
    list(maps.values()),
    list(maps),
    f"Similarity of neighbours: {', '.join(f'{n} {value:.2f}' for n, value in neighbours.items())}",
    "cosine similarity",
)
plots.show(
    figure, "For each model 8 by 8 small maps of similarity; untrained maps show a single bright place each."
)

# %% [markdown]
# Untrained, each vector resembles only itself. In a trained model look for two things: a bright *neighbourhood*, and
# arms along row and column. What you find there, and not in the untrained map, was learned from examples alone. The
# paper's model has both (Figure 7, centre).
#
# ## 4. What happens to a token on its way?
#
# From the first layer to the last, a token is a vector of the **residual stream**: each block reads it and adds to it
# (lesson 05). Let $z_\ell$, (B, T, D), be the stream after layer ℓ; $z_0$ is what enters. (Layers count from 1, as in
# the paper; heads from 0, as in lesson 04.) We measure the length of the tokens, and how similar two patch tokens of
# *one* picture are, on average.


# %% tags=["nbval-ignore-output"]
@torch.no_grad()
def residual_stream(model, images):
    """Return the stream z_0, z_1, ..., z_L, each (B, T, D)."""
    stream = [model.embed(images)]
    for block in model.blocks:
        stream.append(block(stream[-1]))
    return stream


layers = list(range(depth + 1))
lengths, likeness = {}, {}
for name, model in twins.items():
    stream = residual_stream(model, inputs[:50])
    lengths[f"{name}, CLS"] = (layers, [z[:, 0].norm(dim=-1).mean().item() for z in stream])
    lengths[f"{name}, patches"] = (layers, [z[:, 1:].norm(dim=-1).mean().item() for z in stream])
    alike = []
    for z in stream:
        unit = F.normalize(z[:, 1:], dim=-1)
        count = unit.shape[1]
        alike.append((((unit @ unit.mT).sum(dim=(1, 2)) - count) / (count * (count - 1))).mean().item())
    likeness[f"{name}, patches"] = (layers, alike)
    print(f"{name:9} stream:", tuple(stream[0].shape), "in,", tuple(stream[-1].shape), "out")
longer = {name: values[-1] / values[0] for name, (_, values) in lengths.items()}
first, last = (likeness["trained, patches"][1][end] for end in (0, -1))
for values, title, ylabel in [
    (
        lengths,
        f"Trained, patches: {longer['trained, patches']:.1f} times as long at the end",
        "mean length of a token",
    ),
    (
        likeness,
        f"Trained: similarity {first:.2f} at the entrance, {last:.2f} at the end",
        "mean cosine similarity",
    ),
]:
    figure = plots.curves(values, title, "layer (0: what enters)", ylabel)
    figure.axes[0].set_xticks(layers)
    plots.show(figure, f"{ylabel} over the layers, for the untrained and the trained model.")

# %% [markdown]
# A token that grows is one to which the blocks have added much. If patches become alike, they may share what they know
# of the whole picture. Then "the token of the corner" is no longer only about the corner. Keep this in mind when you
# look at maps of the last layers.
#
# ## 5. What does each head look at?
#
# Ask the model for its weights: `model(images, return_attention=True)` returns, besides the logits, for each layer a
# tensor (B, h, T, T). Row i of a table says how token i spreads its attention. But lesson 04 said that the **fused
# kernel** never writes this table down. So do we look at the model that we use, or at another one? Test it: the logits
# on both ways, and the weights of each layer from its own queries and keys.

# %%
from vit_course.attention import scaled_dot_product_attention, split_heads

with torch.no_grad():
    fused = trained(inputs)
    explicit, _ = trained(inputs, return_attention=True)
    few = {name: model(inputs[:8], return_attention=True)[1] for name, model in twins.items()}
    same = []
    stream = residual_stream(trained, inputs[:8])
    for block, z, weights in zip(trained.blocks, stream, few["trained"], strict=False):
        q, k, v = (split_heads(x, num_heads) for x in block.attn.qkv(block.norm1(z)).chunk(3, dim=-1))
        output, table = scaled_dot_product_attention(q, k, v)
        kernel = F.scaled_dot_product_attention(q, k, v)
        same.append(torch.allclose(table, weights, atol=1e-5) and torch.allclose(output, kernel, atol=1e-4))
print(
    "logits, fused against explicit, differ by less than 1e-4:", (fused - explicit).abs().max().item() < 1e-4
)
print("in all layers: equal weights, and equal output of the fused kernel:", all(same))

# %% [markdown]
# The figure shows the row of CLS, because the head of the model reads CLS alone. One small map for each layer and head,
# all for the same picture.

# %% tags=["nbval-ignore-output"]
shown = 0
cls_maps = {
    name: torch.stack([rearrange(a[shown, :, 0, 1:], "h (r c) -> h r c", r=grid[0]) for a in attentions])
    for name, attentions in few.items()
}  # (L, h, rows, columns)
label = shapes.classes[shapes.test_labels[shown]]
figure = plots.map_grid(
    [100 * maps for maps in cls_maps.values()], list(cls_maps), f"Where CLS looks, on a {label}", "percent"
)
for axis in figure.axes[:2]:
    axis.set(xlabel="head", ylabel="layer")
    axis.set_yticks(axis.get_yticks(), range(1, depth + 1))
plots.show(
    figure, f"Maps of the attention of CLS on a {label}, a row for each layer and a column for each head."
)
for name, maps in cls_maps.items():
    largest = [f"{100 * layer.max():.1f}" for layer in maps]
    print(f"{name:9} largest weight on a patch in each layer, percent:", *largest)
print(f"all tokens alike would be {100 / few['trained'][0].shape[-1]:.1f} percent")

# %% [markdown]
# Untrained heads are nearly uniform: the scores are small, so the softmax is flat (look at the scale beside the maps).
# Do the trained heads differ from each other? Look for heads that pick the outline of the shape, the background, or a
# fixed place.
#
# One map is one choice of picture, query, layer and head: four ways to pick what you like. So look at many. In the
# **explorer** choose all four. The small squares are the patches, each in its mean colour: click one, or CLS above them,
# and it becomes the query, in an orange frame. The title says what share goes to the patches, and what share to CLS.

# %% tags=["nbval-ignore-output"]
from vit_course.classroom.explorer import explore

names = [f"{i}: {shapes.classes[label]}" for i, label in enumerate(shapes.test_labels[:8])]
explore(trained, shapes.test_images[:8], names, *stats)

# %% [markdown]
# ## 6. Where does it come from, through all layers?
#
# A map of the last layer says which *tokens* are read. But by then each token is a mixture of many patches. **Attention
# rollout** (Abnar and Zuidema, 2020) follows the mixtures back to the patches. Two simplifications: the heads are
# averaged, and the residual stream keeps as much of a token as attention brings in. The paper's attention maps are made
# in this way (Figures 6 and 14, appendix D.8).
#
# $$\tilde{A}_\ell = \tfrac{1}{2}\,\bar{A}_\ell + \tfrac{1}{2}\,I, \qquad R = \tilde{A}_L\,\tilde{A}_{L-1} \cdots \tilde{A}_1$$
#
# $\bar A_\ell$, (T, T), is the mean of the h tables of layer ℓ for one picture, I the identity, and R, (T, T), the
# rollout. Why this order? Row i of $\tilde A_2 \tilde A_1$ is the sum over t of "token i takes from t in layer 2" times
# "t takes from j in layer 1". So the last layer stands left. Where rows of weights do not sum to 1, as after dropout,
# each row of $\tilde A_\ell$ is divided by its sum before it is used.
#
# **Your task.** Write `attention_rollout`, for a whole batch.

# %% exercise="vit_course.interpret:attention_rollout" difficulty=2 minutes=10 hint="Start with the identity, `torch.eye(T)`, and go through the layers. Each round: average the heads (axis 1), mix half and half with the identity, multiply. On which side does the new layer stand?" hint2="`layer = 0.5 * attention.mean(dim=1) + 0.5 * identity`; `layer = layer / layer.sum(dim=-1, keepdim=True)`; `rollout = layer @ rollout`. Before the loop: `if not attentions: raise ValueError(...)`, and the same for a prefix that is not in `range(T)`."
from vit_course.interpret import attention_rollout

attention_rollout = check(attention_rollout)


# %% tags=["nbval-ignore-output"]
def on_grid(weights):
    """Cut CLS off rows of weights (B, T), and lay the rest out on the grid."""
    return rearrange(weights[:, 1:], "b (r c) -> b r c", r=grid[0])


rollouts = {name: attention_rollout(attentions)[:, 0] for name, attentions in few.items()}  # row of CLS
last_layer = few["trained"][-1].mean(dim=1)[:, 0]
figure = plots.overlay_rows(
    shapes.test_images[:6],
    {f"rollout,\n{name}": on_grid(row[:6]) for name, row in rollouts.items()}
    | {"last layer,\ntrained": on_grid(last_layer[:6])},
    "Which patches reach CLS?",
)
plots.show(
    figure, "Six pictures; below each its rollout untrained and trained, and the last layer's mean map."
)
for name, row in rollouts.items():
    kept = row[:, 0].mean()
    sharpest = (row[:, 1:].max(dim=1).values / row[:, 1:].mean(dim=1)).mean()
    print(
        f"{name:9} {kept:.1%} of CLS is still CLS; its largest patch has {sharpest:.1f} times the mean of patches"
    )
print(f"1/2 to the power of {depth} layers, what the identity alone keeps: {0.5**depth:.1%}")

# %% [markdown]
# Every row has a colour scale of its own: look at the numbers beside it. Rollout and the last layer can point to
# different patches. Which one is "the" explanation? Section 9 tests both.
#
# ## 7. How far does a head look?
#
# A convolution of 3x3 reaches one pixel to each side. Attention may reach everywhere. Does it? The **mean attention
# distance** gives one number, in pixels, for each head:
#
# $$d_h = \frac{1}{B\,N} \sum_{b=1}^{B} \sum_{i=1}^{N} \sum_{j=1}^{N} A_{b,h,i,j}\; \lVert p_i - p_j \rVert$$
#
# $A_{b,h,i,j}$ is the weight that patch i gives to patch j in head h on picture b (here h is the number of one head,
# not how many there are). $p_i$, two numbers (y, x), is the centre of patch i in pixels. i and j count *patches*: the
# row and the column of CLS are dropped. The authors do not scale the rest to sum to 1 again (and average over 128
# pictures).
#
# **Your task.** Write `mean_attention_distance`. Grids and patches need not be square.

# %% exercise="vit_course.interpret:mean_attention_distance" difficulty=3 minutes=12 hint="First a table (N, N) of distances: the centres of the patches, in reading order, as N points (y, x) in pixels, then `torch.cdist(centres, centres)`. Then cut the prefix off both of the last two axes of the weights." hint2="`y, x = torch.meshgrid(torch.arange(rows) * height, torch.arange(columns) * width, indexing='ij')`; stack the two flattened as `centres`, float. Then `(attention[..., p:, p:] * distances).sum(dim=-1).mean(dim=(0, 2))`, with p prefix tokens. A common offset of all centres changes no distance."
from vit_course.interpret import mean_attention_distance

mean_attention_distance = check(mean_attention_distance)

# %% [markdown]
# What is "far"? A head that looks at all patches alike gives a yardstick. It depends on the size of the picture alone,
# nearly:

# %%


def uniform_distance(side, patch_size):
    """Mean attention distance, in pixels, of a head that looks at all patches alike, without CLS."""
    n = side // patch_size
    return mean_attention_distance(torch.full((1, 1, n * n, n * n), 1 / n**2), (n, n), patch_size, 0).item()


for side, patch_size in [(32, 4), (32, 8), (224, 16)]:
    print(
        f"{side}x{side}, P = {patch_size:2}: uniform attention reaches {uniform_distance(side, patch_size):6.2f} pixels"
    )
uniform = torch.full((1, 1, 65, 65), 1 / 65)
print(f"32x32, P =  4, with a CLS token: {mean_attention_distance(uniform, (8, 8), 4).item():.2f} pixels")

# %% [markdown]
# The last line is smaller, because CLS takes its part and *nobody makes up for it*. So a small distance can mean two
# things: the head looks nearby, or it looks at CLS. Therefore the next cell also prints what share goes to CLS.

# %% tags=["nbval-ignore-output"]


@torch.no_grad()
def head_distances(model, images, grid_size, patch_size):
    """Return the distance of every head in pixels, (L, h), and the share that patches give to CLS, (L, h)."""
    found = [model(part, return_attention=True)[1] for part in images.split(50)]
    layers = [torch.cat(same_layer) for same_layer in zip(*found, strict=True)]
    distances = [mean_attention_distance(a, grid_size, patch_size) for a in layers]
    return torch.stack(distances), torch.stack([a[:, :, 1:, 0].mean(dim=(0, 2)) for a in layers])


def draw_distances(found, title, yardstick):
    """Draw a dot for each head over the layers, and a dashed line for uniform attention; print the range."""
    series = {
        name: {number: heads.tolist() for number, heads in enumerate(values, 1)}
        for name, values in found.items()
    }
    figure = plots.seed_curves(series, title, "layer", "mean attention distance in pixels")
    axis = figure.axes[0]
    lowest, highest = (getattr(list(found.values())[-1][0], end)().item() for end in ("min", "max"))
    heads = f"{list(found)[-1]}, layer 1: heads from {lowest:.1f} to {highest:.1f} pixels"
    axis.set_title(f"{title}\n{heads}", fontsize="medium")
    axis.axhline(yardstick, color="0.5", linestyle="--", linewidth=1)
    axis.annotate("uniform, no CLS", (1, yardstick), va="bottom", fontsize="small", color="0.3")
    farthest = max(values.max().item() for values in found.values())
    axis.set_ylim(0, max(1.2 * yardstick, 1.1 * farthest))
    axis.xaxis.get_major_locator().set_params(integer=True)
    plots.show(
        figure, f"{title.splitlines()[0]}: a dot for each head over the layers, a line through the means."
    )


def reading(distances):
    """Say in words what the distances (L, h) of a model show."""
    first, last, means = distances[0], distances[-1], distances.mean(dim=1)
    change = (means[-1] - means[0]).item()
    trend = "hardly changes" if abs(change) < 0.5 else "grows" if change > 0 else "shrinks"
    return (
        f"layer 1: heads from {first.min():.1f} to {first.max():.1f} px; layer {len(means)}: {last.min():.1f} to "
        f"{last.max():.1f} px; the mean {trend}, {means[0]:.1f} to {means[-1]:.1f} px"
    )


measured = {name: head_distances(model, inputs[:128], grid, patch) for name, model in twins.items()}
draw_distances(
    {name: distances for name, (distances, _) in measured.items()},
    "How far the heads look, on Shapes-10",
    uniform_distance(32, patch),
)
for name, (distances, to_cls) in measured.items():
    print(f"{name:9} {reading(distances)}")
    print(f"{'':9} share that goes to CLS, by layer:", *(f"{share:.1%}" for share in to_cls.mean(dim=1)))

# %% [markdown]
# ## 8. What does the paper's Figure 7 say, and what not?
#
# The right panel of Figure 7 is this plot for a ViT-L: 24 layers of 16 heads, pictures 224 pixels wide. The paper reads
# three things from it and from its appendix D.7, where Figure 11 shows the plot again.
#
# - In the *lowest* layers heads differ most: some stay local, **some attend to most of the picture already**.
# - The distance **grows** with depth. In the upper half most heads look far.
# - In hybrids, whose first layers are convolutions, the very local heads are less pronounced. Perhaps local heads do
#   what early convolutions do.
#
# You will meet a summary that says "low layers are global, high layers local". It turns the figure round. "Low layers
# are local" is not right either: in the figure they are *both*. And the figure shows a large model after very much
# data. A small model may differ: the sentences under the last plot are computed, so read them, not the paper, to know
# what yours does.
#
# If a model trained on CIFAR-10 is at hand, the next cell measures it too: on test pictures of CIFAR-10 where the
# course finds them, else on small pieces of the portrait that you know.

# %% tags=["nbval-ignore-output"]
if photo_model:
    model, about = photo_model
    found = load_dataset("auto")
    pieces = rearrange(plots.sample_photo((352, 352)), "c (r h) (k w) -> (r k) c h w", h=32, w=32)
    known = tuple(found.classes) == tuple(about["classes"])
    pictures = normalize(found.test_images[:128] if known else pieces, about["mean"], about["std"])
    both = {"untrained": untrained_twin(about["model"], about["options"]), "trained on CIFAR-10": model}
    photo_distances = {name: head_distances(m, pictures, grid, patch)[0] for name, m in both.items()}
    what = "pictures of CIFAR-10" if known else "pieces of a photo"
    draw_distances(photo_distances, f"Model for photographs, {what}", uniform_distance(32, patch))
    print(f"{len(pictures)} {what}; trained: {reading(photo_distances['trained on CIFAR-10'])}")
else:
    print("No model trained on CIFAR-10 is here yet.")

# %% [markdown]
# And the hybrid? A **hybrid** takes its tokens from the feature map of a small ResNet (lesson 11 builds one). We train
# it beside a pure ViT, both with 16 tokens of 8 pixels, for the same few epochs. Each has its untrained twin.

# %% tags=["nbval-ignore-output"]
contest = {"pure": "Nano/8", "hybrid": "R-Nano/8"}
distances = {}
for name, model_name in contest.items():
    for state, model in {
        "untrained": untrained_twin(model_name, {}),
        "trained": train_here(model_name, epochs=profile.pick(smoke=1, cpu=4, gpu=20)),
    }.items():
        accuracy, _ = evaluate(model, shapes.test_images, shapes.test_labels, shapes.channel_stats())
        pictures = normalize(shapes.test_images, *shapes.channel_stats())
        distances[f"{name}, {state}"] = head_distances(model, pictures, (4, 4), 8)[0]
        print(f"{name:6} {state:9} accuracy {accuracy:6.1%}; {reading(distances[f'{name}, {state}'])}")
draw_distances(distances, "Pure ViT and hybrid, trained on your machine", uniform_distance(32, 8))

# %% [markdown]
# Look for the *lowest* dots in layer 1: are there local heads, and has the hybrid fewer? With 9 heads in all and a
# minute of training this is a look, not a result. Note what a token of the hybrid is: it has seen far more than 8
# pixels before layer 1 begins. Its distance in the grid says less about what it sees.
#
# ## 9. Does attention explain the result?
#
# A map glows on a star, and the model says "star". It is tempting to say: it says star *because* it looked there. But
# attention tells where a head **read**. It does not tell what it read (the values), whether $W_O$ and the MLPs kept it,
# or what went past attention through the residual stream. A patch may be read much and change nothing. So a map is a
# guess about causes, and a guess needs an experiment.
#
# The experiment: hide the patches that a map says are important, and score again. If the map is right, accuracy should
# fall *faster* than with **random** patches. The opposite test: hide the patches with the *lowest* weights. Then it
# should fall *more slowly* than with random ones.
#
# **Your task.** Write `hide_patches`, which paints over the patches with the highest scores.

# %% exercise="vit_course.interpret:hide_patches" difficulty=2 minutes=8 hint="`scores.argsort(dim=1, descending=True)[:, :count]` are the patches to paint, for each picture its own. Cut the pictures up with `patchify`, change a *copy*, and put it together with `unpatchify`." hint2="`patches = patchify(images, patch_size).clone()`; `patches[torch.arange(len(images))[:, None], highest] = value`; `unpatchify(patches, patch_size, grid)`, with `grid = grid_size(tuple(images.shape[-2:]), patch_size)`. First raise a ValueError where `scores.shape` is not (B, N), or `count` is not in 0..N."
from vit_course.interpret import hide_patches

hide_patches = check(hide_patches)


# %% tags=["nbval-ignore-output"]
@torch.no_grad()
def scores_of(model, images):
    """Return for each patch, (B, N), what the rollout and the last layer's mean give CLS from it."""
    found = [model(part, return_attention=True)[1] for part in images.split(50)]
    layers = [torch.cat(same_layer) for same_layer in zip(*found, strict=True)]
    return attention_rollout(layers)[:, 0, 1:], layers[-1].mean(dim=1)[:, 0, 1:]


@torch.no_grad()
def accuracy_without(scores, count):
    """Hide the `count` highest patches of each test picture, and score the trained model, in percent."""
    hidden = hide_patches(inputs, scores, count, patch)
    return 100 * (trained(hidden).argmax(dim=1) == shapes.test_labels).float().mean().item()


rollout, last = scores_of(trained, inputs)
generator = torch.Generator().manual_seed(0)
orders = {
    "highest rollout": [rollout],
    "highest in the last layer": [last],
    "random": [torch.rand(rollout.shape, generator=generator) for _ in range(3)],
    "lowest rollout": [-rollout],
}
half = rollout.shape[1] // 2
counts = profile.pick(smoke=[0, 16], cpu=[0, 4, 8, 16, half], gpu=[0, 2, 4, 8, 12, 16, 24, half])
fall = {
    name: {count: [accuracy_without(scores, count) for scores in found] for count in counts}
    for name, found in orders.items()
}
figure = plots.image_row(
    [
        (
            hide_patches(inputs[:1], scores[0][:1], 16, patch)[0] * stats[1][:, None, None]
            + stats[0][:, None, None]
        )
        for scores in orders.values()
    ],
    list(orders),
    "One picture, 16 patches hidden in four ways",
)
plots.show(
    figure, "The same shape four times, each time with another 16 patches painted over in the mean colour."
)
at_random = [sum(values) / 3 for count, values in fall["random"].items() if count]
gaps = {
    name: [fall[name][count][0] - chance for count, chance in zip(counts[1:], at_random, strict=True)]
    for name in fall
    if name != "random"
}
figure = plots.seed_curves(
    fall,
    f"{counts[-1]} hidden: highest rollout {gaps['highest rollout'][-1]:+.1f} points against random",
    "hidden patches",
    "test accuracy in percent",
)
plots.show(figure, "Test accuracy over the number of hidden patches, for four orders; three random draws.")
spread = max(max(values) - min(values) for values in fall["random"].values())
for name, values in gaps.items():
    print(
        f"{name:26}", *(f"{gap:+6.1f}" for gap in values), "points against random, for", counts[1:], "hidden"
    )
tops = zip(rollout.topk(8).indices.tolist(), last.topk(8).indices.tolist(), strict=True)
agreed = sum(len(set(one) & set(other)) for one, other in tops) / len(inputs)
print(f"three random draws differ by up to {spread:.1f} points")
print(
    f"of the 8 highest patches, the two maps share {agreed:.1f} on average; chance: {8 * 8 / rollout.shape[1]:.1f}"
)

# %% [markdown]
# How to read it. A line *below* random by more than the random draws differ: this map found patches that the model
# needs. A line close to random: here the map is a picture, not a reason. First look at the left end, where nothing is
# hidden: a model that is near chance there, 10 percent, has nothing to lose, and no line says anything.
#
# And mind three limits. A painted patch is itself a new thing, which the model never saw in training, so every line may
# fall. Patches of the shape are important to any model, so a map that glows on the object beats chance easily. And the
# average over pictures says nothing sure about one picture.
#
# So say "the head looks at the star". If you want to say "because", hide the star.
#
# **Your next step.** Make a better map. For example, hide each patch alone, and take as its score how much the logit of
# the right class falls. Does your line fall faster than the rollout's? What does your map cost, in runs of the model?
#
# ## Check yourself
#
# **1.** You find beautiful stripes in the filters of a model. What do you do first? (a) name what each stripe detects
# (b) look at the filters of the untrained twin (c) train longer
#
# <details><summary>Answer</summary>
#
# **(b)** What both have did not need learning. (a) comes later, if at all. (c) answers another question.
#
# </details>
#
# **2.** Rollout of two layers is (a) $\tilde A_1 \tilde A_2$ (b) $\tilde A_2 \tilde A_1$ (c) the mean of the two
#
# <details><summary>Answer</summary>
#
# **(b)** Outputs are rows, and the last layer makes the outputs. (a) would let layer 1 read from layer 2. (c): paths
# through two layers are products, not means.
#
# </details>
#
# **3.** A head gives all its attention to CLS. What is its mean attention distance? (a) 0 pixels (b) that of uniform
# attention (c) not defined
#
# <details><summary>Answer</summary>
#
# **(a)** The column of CLS is dropped, and what is left is not scaled up, so nothing remains to be summed. (b) would be
# right for equal weights. (c) would be the case if the rows were divided by their sum again, 0 by 0.
#
# </details>
#
# **4.** Figure 7 (right) says: (a) low layers are global, high layers local (b) low layers are local, high layers
# global (c) low layers have both kinds, and the distance grows with depth
#
# <details><summary>Answer</summary>
#
# **(c)** (a) is a common wrong reading. (b) forgets the heads that attend to most of the picture from the first layer
# on.
#
# </details>
#
# **5.** You hide the most attended patches, and the accuracy falls by 20 points. What follows? (a) attention explains
# the model (b) nothing, until you hide as many random patches (c) the model is broken
#
# <details><summary>Answer</summary>
#
# **(b)** Any hidden patches may hurt. (a) needs at least a fall that is larger than the random one. (c): a
# model needs its input.
#
# </details>
#
# ## Recap
#
# | what | from | shape |
# |---|---|---|
# | filters | `model.patch_embed.proj.weight` | (D, C, P, P) |
# | components, shares | SVD of the centred filters | (count, C, P, P), (count,) |
# | position similarity | cosine of all pairs | (rows, columns, rows, columns) |
# | residual stream | `embed`, then block by block | L + 1 times (B, T, D) |
# | attention | `return_attention=True` | L times (B, h, T, T) |
# | map of a query | one row, prefix cut off, on the grid | (rows, columns) |
# | rollout | product of $\tfrac12 \bar A + \tfrac12 I$ | (B, T, T) |
# | mean attention distance | weights times distances, in pixels | (h,) for each layer |
#
# - An untrained twin beside every picture of the inside.
# - Distance: CLS dropped, nothing scaled up. A small one can also mean "looks at CLS".
# - Maps are guesses about causes. Hide something, and measure.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), section 4.5 and Figure 7; appendices D.7 and D.8.
# - Abnar and Zuidema, *Quantifying Attention Flow in Transformers* (2020): rollout.
# - Jain and Wallace, *Attention is not Explanation* (2019), and the answer to it, *Attention is not not
#   Explanation* (2019).
# - Raghu et al., *Do Vision Transformers See Like Convolutional Neural Networks?* (2021): distances after less and more
#   data.
