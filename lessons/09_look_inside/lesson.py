# ---
# title: "Look inside"
# promise: "Look at filters, positions and heads, and test what attention explains."
# part: "II. Train it, and be fair"
# map: [attention]
# goals:
#   - "Subtract what was there before training, and see what was learned."
#   - "Show what every head looks at, and follow attention through all layers."
#   - "Measure in pixels how far a head looks, as the authors did, and read their Figure 7."
#   - "Test whether attention explains a result, instead of believing it."
# recall: ["01.2", "03.1", "04.2"]
# ---

# %% [markdown]
# ## 1. It works. But what has it learned?
#
# A trained model is a list of numbers. It names shapes, and cannot say why. So we open it, as the paper does in its
# section 4.5: filters, positions, heads. Pictures of the inside are beautiful, and easy to believe. One rule protects us.
#
# > **Key idea.** Beside every trained model stands its **untrained twin**: the same model before its first step. What both
# > show comes from the architecture and from chance. Only what *differs* was learned.
#
# Two small ViTs come with the course, each with its twin. One was trained on drawings, Shapes-10, the other on photos, CIFAR-10.
# Their sizes and trainings differ too.

# %%
import torch
import torch.nn.functional as F
from einops import rearrange

from vit_classroom import check, plots, table
from vit_classroom.student_model import load_my_model
from vit_classroom.numbers import number, percent
from vit_course.data import load_dataset, normalize, shapes10
from vit_course.extensions.trained import load_trained
from vit_course.training.profiles import get_profile
from vit_course.recipes import build_model

profile = get_profile()
shapes = shapes10(train=40, test=profile.pick(smoke=40, cpu=200, gpu=1_000))


def untrained(info):
    """Build a model as it was before its first step: from the same seed come the same random numbers."""
    torch.manual_seed(info["config"]["seed"])
    return build_model(info["model"], shapes, **info["options"]).eval()


trained, info = load_trained("shapes-vit")
photo_model, photo_info = load_trained("cifar-vit")
pairs = {
    "Shapes-10": (untrained(info), trained),
    "CIFAR-10": (load_trained("cifar-vit-epoch0")[0], photo_model),
}
for name, about in (("Shapes-10", info), ("CIFAR-10", photo_info)):
    config, before, after = about["config"], *(model.patch_embed.proj.weight for model in pairs[name])
    turned = F.cosine_similarity(before.flatten(), after.flatten(), dim=0).item()
    depth, heads = len(pairs[name][1].blocks), pairs[name][1].blocks[0].attn.num_heads
    print(f"{name}: {depth} layers of {heads} heads, D = {len(after)}")
    print(f"    {config['epochs']:g} epochs with {config['optimizer']}, peak rate {config['lr']}")
    print(f"    {percent(about['test_accuracy'])} of its test pictures right")
    print(f"    cosine of its filters before and after training: {number(turned)}")

# %% [markdown]
# ## 2. What do the filters look for?
#
# The patch embedding multiplies each patch with D **filters**. A filter has as many numbers as a patch, C·P·P, so it
# can be drawn as one. Its product with a patch is large where the patch has its pattern. But a filter can be a
# mixture. **Principal component analysis** (PCA) finds the patterns that they are mixtures *of*, the strongest first.
# `filter_components` does it (section 10 says how). The paper shows 28 of them, in Figure 7, left.
#
# > **Predict.** A cosine near 1, above, means that training has hardly turned the filters. What will their components look like
# > before training, after it, and in the difference?


# %%
from vit_course.interpret import filter_components

components, needed, rows = {}, {}, []
for name, pair in pairs.items():
    first, last = (model.patch_embed.proj.weight.detach() for model in pair)  # (D, C, P, P)
    for part, filters in (("before", first), ("after", last), ("learned: after - before", last - first)):
        found, shares = filter_components(filters, filters[0].numel())
        components[name, part] = found[:28]
        needed[name, part] = int((shares.cumsum(0) < 0.9).sum()) + 1
        rows.append([name, part, percent(shares[0].item()), f"{needed[name, part]} of {len(shares)}"])
table(rows, ["trained on", "filters", "first component", "components that hold 90 %"])

# %% fold tags=["nbval-ignore-output"]
sheets = {}
for key, found in components.items():  # grey is 0, the largest number of each component is full colour
    scaled = found / found.abs().amax(dim=(1, 2, 3), keepdim=True) / 2 + 0.5
    sheets[key] = plots.image_grid(F.pad(scaled, (1, 1, 1, 1), value=1.0), columns=7)
for name in pairs:
    parts = {part: sheet for (of, part), sheet in sheets.items() if of == name}
    figure = plots.image_row(
        list(parts.values()), list(parts), f"The strongest 28 components, trained on {name}", height=2.7
    )
    plots.show(
        figure,
        f"Three sheets of 4 by 7 small colour patterns, of a model trained on {name}: its filters before training, after "
        "it, and the difference of the two. Strongest pattern first.",
    )

# %% [markdown] always claim=["abs(needed['Shapes-10', 'after'] - needed['Shapes-10', 'before']) <= 2 and 2 * needed['Shapes-10', 'learned: after - before'] < needed['Shapes-10', 'after']", "needed['CIFAR-10', 'after'] < 0.8 * needed['CIFAR-10', 'before'] and needed['CIFAR-10', 'after'] < needed['CIFAR-10', 'learned: after - before']", "0.15 < (lambda first, last, weak: ((first @ weak) * (last @ weak)).sum().item() / (first @ weak).square().sum().item())(*(model.patch_embed.proj.weight.detach().flatten(1) for model in pairs['CIFAR-10']), filter_components(photo_model.patch_embed.proj.weight.detach(), 48)[0][24:].flatten(1).T) < 0.25"]
# Read from left to right, then down. Random filters have no preferred pattern, so their components are noise.
#
# **Trained on Shapes-10**, *after* still looks like *before*, and needs as many components. What was *learned* needs far fewer,
# and its first ones are smooth: one colour all over, then ramps; the later ones are noise again.
#
# **Trained on CIFAR-10**, the patterns stand in *after*, as in the paper: ramps of colour, blobs, edges. The *difference* looks
# more like noise: along the weaker half of its components, *after* holds only about a fifth of the start, so subtracting all of
# it puts the rest back. (Our reading: weight decay has shrunk it.)
#
# > **Trap.** "The filters are still noise, so the entrance has learned nothing." What you see depends on what you
# > subtract. A small change in a sensible direction can do more than large random numbers that were always there.
#
# ## 3. Does it know which patches are neighbours?
#
# Position vectors start as random numbers (lesson 03). Nobody tells the model which patch lies below which. Has it
# found out? Compare the vectors by their cosines. The small map in row r, column c compares position (r, c) with all others.
#
# > **Predict.** Look for two things: a bright *neighbourhood*, and arms along row and column. Which of the two models has them?
#
# The table has means over pairs that are 3 to 4 apart, in the *same row*, the *same column* or *not in line*, and over pairs
# at the *border* of the picture: both there, or one there and one in the *middle*.

# %%
from vit_course.interpret import position_similarity

grid = trained.patch_embed.grid_size  # both models cut 32x32 pixels in the same way
places = torch.cartesian_prod(torch.arange(grid[0]), torch.arange(grid[1])).float()
apart = torch.cdist(places, places)  # distance of two patches, in patches
in_line = (places[:, None] == places[None]).any(dim=-1)  # same row or same column
middle = (apart > 2.5) & (apart < 4.5)
rim = torch.minimum(places, torch.tensor(grid) - 1 - places).amin(dim=1)  # how far from the border
groups = {
    "neighbours": apart == 1,
    "far apart": apart > 5,
    "same row": middle & (places[:, None, 0] == places[None, :, 0]),
    "same column": middle & (places[:, None, 1] == places[None, :, 1]),
    "not in line": middle & ~in_line,
    "border": (rim == 0) & (rim[:, None] == 0) & (apart > 0),
    "border, middle": (rim == 0) & (rim[:, None] > 1),
}
maps, alike = {}, {}
for name, pair in pairs.items():
    for state, model in zip(("untrained", "trained"), pair, strict=True):
        similar = position_similarity(model.pos_embed.detach(), grid, model.num_prefix_tokens)
        maps[f"{name}, {state}"] = similar
        flat = similar.reshape(len(places), -1)
        alike[name, state] = [flat[group].mean().item() for group in groups.values()]
rows = [[*key, *(f"{value:.2f}" for value in values)] for key, values in alike.items()]
table(rows, ["trained on", "", *groups], "mean cosine similarity")

# %% fold tags=["nbval-ignore-output"]
shown = [key for key in maps if key.endswith(", trained")]
figure = plots.map_grid(
    [maps[key] for key in shown], shown, "Which positions are alike?", "cosine similarity"
)
for axis in figure.axes[: len(shown)]:
    axis.images[0].set_clim(-1, 1)
plots.show(
    figure,
    "Two grids of 8 by 8 small maps of similarity. Trained on Shapes-10: light borders in the maps of places at the border, "
    "hardly a pattern elsewhere. Trained on CIFAR-10: a bright round spot at the map's own place, and dark places far away.",
)

# %% [markdown] always claim=["alike['CIFAR-10', 'trained'][0] > alike['CIFAR-10', 'trained'][1] + 0.5 and min(alike['CIFAR-10', 'trained'][2:4]) > alike['CIFAR-10', 'trained'][4] + 0.1 and alike['CIFAR-10', 'trained'][1] < -0.2", "abs(alike['Shapes-10', 'trained'][0] - alike['Shapes-10', 'trained'][1]) < 0.2 and alike['Shapes-10', 'trained'][5] > alike['Shapes-10', 'trained'][6] + 0.2", "max(abs(value) for name in pairs for value in alike[name, 'untrained']) < 0.05"]
# **The photo model has found it out**, from examples alone: neighbours are alike, places far apart are opposites, and a place in
# the same row or column is more alike than one just as far out of line. The paper's model shows both arms (Figure 7, centre).
#
# **The Shapes-10 model has not.** Neighbours are hardly more alike than places far apart. What it has learned is mostly *border*
# and *middle*: places all around the border are alike, those in the middle differ from them. Drawings leave the border mostly
# empty, which may be why.
#
# Untrained, each vector is similar only to itself.

# %% [markdown] curious
# ## 4. What happens to a token on its way?
#
# From the first layer to the last, a token is a vector of the **residual stream**: each block reads it and adds to it
# (lesson 05). Let $z_\ell$, (B, T, D), be the stream after layer ℓ; $z_0$ is what enters. We measure the length of the
# tokens, and how similar two patch tokens of *one* picture are, on average.


# %% tags=["nbval-ignore-output"]
@torch.no_grad()
def residual_stream(model, images):
    """Return the stream z_0, z_1, ..., z_L, each (B, T, D)."""
    stream = [model.embed(images)]
    for block in model.blocks:
        stream.append(block(stream[-1]))
    return stream


def mean_similarity(tokens):
    """Average the cosine similarity of all pairs of different tokens (B, N, D)."""
    unit, count = F.normalize(tokens, dim=-1), tokens.shape[1]
    return ((unit @ unit.mT).sum(dim=(1, 2)) - count).mean().item() / (count * (count - 1))


stats = torch.tensor(info["mean"]), torch.tensor(info["std"])
layers, lengths, likeness = list(range(len(trained.blocks) + 1)), {}, {}
for name, model in zip(("untrained", "trained"), pairs["Shapes-10"], strict=True):
    stream = residual_stream(model, normalize(shapes.test_images[:50], *stats))
    lengths[f"{name}, CLS"] = (layers, [z[:, 0].norm(dim=-1).mean().item() for z in stream])
    lengths[f"{name}, patches"] = (layers, [z[:, 1:].norm(dim=-1).mean().item() for z in stream])
    likeness[f"{name}, patches"] = (layers, [mean_similarity(z[:, 1:]) for z in stream])

# %% fold tags=["nbval-ignore-output"]
for values, ylabel in [(lengths, "mean length of a token"), (likeness, "mean similarity of two patches")]:
    figure = plots.curves(values, f"The residual stream: {ylabel}", "layer (0: what enters)", ylabel)
    figure.axes[0].set_xticks(layers)
    plots.show(
        figure, f"{ylabel} over the layers: flat untrained; trained it rises, or falls and then rises."
    )

# %% [markdown] claim="all(values[-1] > 3 * values[0] for name, (_, values) in lengths.items() if name.startswith('trained')) and likeness['trained, patches'][1][-1] > likeness['trained, patches'][1][1] + 0.1 and likeness['trained, patches'][1][3] < likeness['untrained, patches'][1][3] < likeness['trained, patches'][1][-1]"
# In the trained model tokens grow: the blocks add much to what came in. From layer 1 on its patches become more alike, but only
# near the end more so than the twin's, whose blocks add next to nothing: likeness alone does not show that they share what they
# know. Still, late "tokens of the corner" have read others. Keep this in mind when you look at maps of the last layers.

# %% [markdown]
# ## 5. What does each head look at?
#
# `model(images, return_attention=True)` returns, besides the logits, the attention weights of each layer, (B, h, T, T). Row
# i of a table says how token i spreads its attention. (Layers count from 1, as in the paper; heads from 0, as in lesson 04.)
#
# The head of the model reads CLS alone. So look at the row of CLS: one small map for each layer and head, all for the same drawing.

# %%
stats = torch.tensor(info["mean"]), torch.tensor(info["std"])
inputs = normalize(shapes.test_images, *stats)  # what the model reads: (B, 3, 32, 32)
twins = dict(zip(("untrained", "trained"), pairs["Shapes-10"], strict=True))


@torch.no_grad()
def attention_of(model, images):
    """Return the attention weights of every layer, each (B, h, T, T)."""
    found = [model(part, return_attention=True)[1] for part in images.split(50)]
    return [torch.cat(same_layer) for same_layer in zip(*found, strict=True)]


few = {name: attention_of(model, inputs[:8]) for name, model in twins.items()}
cls_maps = {
    name: torch.stack([rearrange(a[0, :, 0, 1:], "h (r c) -> h r c", r=grid[0]) for a in attentions])
    for name, attentions in few.items()
}  # (L, h, rows, columns)
alike_for_all = 1 / few["trained"][0].shape[-1]
print("attention of CLS to each token if all get the same:", percent(alike_for_all))
for name, found in cls_maps.items():
    print(f"{name:9} largest weight, layer by layer:", ", ".join(percent(layer.max()) for layer in found))

# %% fold tags=["nbval-ignore-output"]
label = shapes.classes[shapes.test_labels[0]]
figure = plots.map_grid(
    [100 * found for found in cls_maps.values()], list(cls_maps), f"Where CLS looks, on a {label}", "percent"
)
for axis in figure.axes[:2]:
    axis.set(xlabel="head", ylabel="layer")
    axis.set_yticks(axis.get_yticks(), range(1, len(trained.blocks) + 1))
plots.show(
    figure, f"Maps of the attention of CLS on a {label}, a row for each layer and a column for each head."
)

# %% [markdown] claim="cls_maps['untrained'].max() < 1.5 * alike_for_all and cls_maps['trained'].max() > 10 * alike_for_all"
# Untrained heads look at all patches alike (look at the scale beside the maps): their scores are small, so the softmax is flat.
# Trained heads choose, and some give a large part of their attention to one patch. Heads that look empty here spread theirs
# thinly, or give it to CLS.
#
# One map is one choice of picture, query, layer and head: four ways to pick what you like. So look at many. In the
# tool below, click a patch or CLS. It becomes the query, and the colours show where it looks. If you kept your own model in
# lesson 06 or 07, it is *yours* that you open.

# %% fold tags=["nbval-ignore-output"]
from vit_classroom.exhibits.play import play
from vit_course.data.locate import locate


def pictures_for(about):
    """Return pictures (B, 3, 32, 32) like those that a model was trained on, and what they are."""
    if tuple(about["classes"]) == tuple(shapes.classes):
        return shapes.test_images[:128], "drawings"
    if locate("auto").kind in ("archive", "unpacked"):
        return load_dataset("auto").test_images[:128], "pictures of CIFAR-10"
    portrait = plots.sample_photo((352, 352))
    return rearrange(portrait, "c (r h) (k w) -> (r k) c h w", h=32, w=32), "pieces of one photo"


mine = load_my_model((3, 32, 32))
opened, about = mine or (trained, info)
seen, what = pictures_for(about)
print("open:", "your own model" if mine else "the model trained on Shapes-10", f"on {what}")
play(opened, about, seen[:8])

# %% [markdown]
# ## 6. Where does it come from, through all layers?
#
# A map of the last layer says which *tokens* are read. But by then each token is a mixture of many patches. **Attention
# rollout** (Abnar and Zuidema, 2020) follows the mixtures back to the patches. It simplifies twice: the heads are
# averaged, and the residual stream counts as much as attention does. The paper makes its attention maps like this (Figures 6
# and 14, appendix D.8).
#
# $$\tilde{A}_\ell = \tfrac{1}{2}\,\bar{A}_\ell + \tfrac{1}{2}\,I, \qquad R = \tilde{A}_L\,\tilde{A}_{L-1} \cdots \tilde{A}_1$$
#
# $\bar A_\ell$, (T, T), is the mean of the h tables of layer ℓ for one picture, I the identity, and R, (T, T), the
# rollout. Why this order? Row i of $\tilde A_2 \tilde A_1$ is the sum over t of "token i takes from t in layer 2" times
# "t takes from j in layer 1". So the last layer is on the left. After dropout rows of weights do not sum to 1: divide each row of
# $\tilde A_\ell$ by its sum before you use it.
#
# **Your task.** Write `attention_rollout`, for a whole batch.

# %% exercise="vit_course.interpret:attention_rollout" difficulty=2 minutes=8 hint="Start with the identity, `torch.eye(T).to(attentions[0])`, and go through the layers. Each round: average the heads (axis 1), mix half and half with the identity, multiply. On which side does the new layer stand?" hint2="`layer = 0.5 * attention.mean(dim=1) + 0.5 * identity`; `layer = layer / layer.sum(dim=-1, keepdim=True)`; `rollout = layer @ rollout`."
from vit_course.interpret import attention_rollout

attention_rollout = check(attention_rollout)

# %% tags=["nbval-ignore-output"]
rollouts = {name: attention_rollout(attentions)[:, 0] for name, attentions in few.items()}  # row of CLS
sharpest = {}
for name, row in rollouts.items():
    sharpest[name] = (row[:, 1:].max(dim=1).values / row[:, 1:].mean(dim=1)).mean().item()
    print(f"{name:9} the largest patch has {number(sharpest[name])} times the mean")

# %% fold tags=["nbval-ignore-output"]
last_layer = few["trained"][-1].mean(dim=1)[:, 0]
found = {f"rollout,\n{name}": row for name, row in rollouts.items()} | {"last layer,\ntrained": last_layer}
figure = plots.overlay_rows(
    shapes.test_images[:5],
    {name: rearrange(row[:5, 1:], "b (r c) -> b r c", r=grid[0]) for name, row in found.items()},
    "Which patches reach CLS?",
)
plots.show(
    figure, "Five pictures; below each its rollout untrained and trained, and the last layer's mean map."
)

# %% [markdown] claim="sharpest['untrained'] < 1.1 and sharpest['trained'] > 2"
# Untrained, every patch reaches CLS alike; trained, some reach it far more. (Each row has its own scale, and the shape shines
# through: compare colours.) Rollout and last layer can differ. Which one is "the" explanation? Section 9 tests both.
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
# row and the column of CLS are dropped. The authors do not scale the rest to sum to 1 again.
#
# **Your task.** Write `mean_attention_distance`. Grids and patches need not be square.

# %% exercise="vit_course.interpret:mean_attention_distance" difficulty=3 minutes=12 hint="First a table (N, N) of distances: the centres of the patches, in reading order, as N points (y, x) in pixels, then `torch.cdist(centres, centres)`. Then cut the prefix off both of the last two axes of the weights." hint2="`y, x = torch.meshgrid(torch.arange(rows) * height, torch.arange(columns) * width, indexing='ij')`; stack the two flattened as `centres`, float. Then `(attention[..., p:, p:] * distances).sum(dim=-1).mean(dim=(0, 2))`, with p prefix tokens. A common offset of all centres changes no distance."
from vit_course.interpret import mean_attention_distance

mean_attention_distance = check(mean_attention_distance)

# %% [markdown]
# > **Trap.** A small distance can mean two things: the head looks nearby, or it looks at CLS, and *nothing corrects for that*. So
# > print what goes to CLS.
#
# ## 8. Is this the paper's Figure 7?
#
# The right panel of Figure 7 shows this distance for a ViT-L: 24 layers of 16 heads, pictures 224 pixels wide, averaged over 128
# of them. The paper reads two things from it:
#
# - In the *lowest* layers heads differ most: some stay local, **some attend to most of the picture already**.
# - The distance **grows** with depth. In the upper half most heads look far.
#
# You will meet the summary "low layers are global, high layers local". That is the figure upside down. "Low layers are local" is
# not right either: they are *both*.
#
# > **Predict.** Here is the photo model, far smaller than the paper's. Which of the two will you see?


# %% tags=["nbval-ignore-output"]
def head_distances(model, images, about):
    """Return the distance of every head in pixels, (L, h), and the share that patches give to CLS, (L, h)."""
    layers = attention_of(model, normalize(images, torch.tensor(about["mean"]), torch.tensor(about["std"])))
    sizes = model.patch_embed.grid_size, model.patch_embed.patch_size
    to_cls = torch.stack([a[:, :, 1:, 0].mean(dim=(0, 2)) for a in layers])
    return torch.stack([mean_attention_distance(a, *sizes) for a in layers]), to_cls


def reading(distances, even):
    """Say in words what the distances (L, h) of a trained model show, beside those of its twin."""
    low, high, means = distances.amin(dim=1), distances.amax(dim=1), distances.mean(dim=1)
    off, widest = int(((distances - even.mean()).abs() > 2).sum()), int((high - low).argmax())
    print(f"heads of the twin: {even.min():.1f} to {even.max():.1f} px")
    print(
        f"trained: {low.min():.1f} px (layer {low.argmin() + 1}) to {high.max():.1f} (layer {high.argmax() + 1})"
    )
    print(f"heads that differ from the twin's by more than two pixels: {off} of {distances.numel()}")
    print(
        f"heads differ most in layer {widest + 1} of {len(low)}: {low[widest]:.1f} to {high[widest]:.1f} px"
    )
    print("mean of a layer in px, from layer 1 on:", ", ".join(f"{mean:.1f}" for mean in means))


cases = {"trained on CIFAR-10": (*pairs["CIFAR-10"], photo_info)}
if mine:  # where it began was not kept: its twin is a new draw
    cases["your own"] = (untrained(about | {"config": {"seed": 0}}), *mine)
measured = {}
for name, (before, after, told) in cases.items():
    seen, what = pictures_for(told)
    measured[name] = [head_distances(model, seen, told) for model in (before, after)]
    (even, _), (distances, to_cls) = measured[name]
    print(f"{name}, on {len(seen)} {what}")
    reading(distances, even)
    print("patches give to CLS, layer by layer:", ", ".join(percent(share) for share in to_cls.mean(dim=1)))

# %% fold tags=["nbval-ignore-output"]
for name, found in measured.items():
    series = {
        state: {layer: heads.tolist() for layer, heads in enumerate(values, 1)}
        for state, (values, _) in zip(("untrained", "trained"), found, strict=True)
    }
    title = f"How far do the heads look? ({name})"
    figure = plots.seed_curves(series, title, "layer", "mean attention distance in pixels")
    figure.axes[0].set(ylim=(0, None))
    figure.axes[0].xaxis.get_major_locator().set_params(integer=True)
    plots.show(figure, f"{title}: a dot for each head over the layers, a line through the means.")
(even, _), (distances, to_cls) = measured["trained on CIFAR-10"]

# %% [markdown] claim=["even.max() - even.min() < 0.5 and distances.min() < even.mean() - 3", "(distances.amax(dim=1) - distances.amin(dim=1)).max() > 3 and to_cls.max() < 0.25 and to_cls.mean() < 0.1", "(distances.mean(dim=1)[2:].diff() > 0).all() and distances.mean(dim=1)[-1] > distances.mean(dim=1)[1] + 3 and distances.mean(dim=1)[0] > distances.mean(dim=1)[1] + 2"]
# **Training has taught some heads to look nearer.** Untrained, all look everywhere alike. Trained, some look several pixels less
# far, beside others in the same layer that still look far. It is not CLS: no head gives it a quarter of its attention, and most
# far less. So nearer and farther heads stand side by side here too. And from the third layer on **the mean grows**, as in the
# paper; the first one alone is out of line. *Where* heads differ most, the printed lines say.
#
# ## 9. Does attention explain the result?
#
# A map glows on a star, and the model says "star". It is tempting to say: it says star *because* it looked there. But
# attention tells where a head **read**. It does not tell what it read (the values), whether the MLPs kept it, or what went past
# attention through the residual stream. A map is a guess about causes, and a guess needs an experiment: hide the patches that a map
# calls important, and score again. If the map is right, accuracy falls *faster* than with **random** patches, and more slowly if
# you hide the patches with the *lowest* weights.
#
# **Your task.** Write `hide_patches`, which paints over the patches with the highest scores.

# %% exercise="vit_course.interpret:hide_patches" difficulty=2 minutes=7 hint="`scores.argsort(dim=1, descending=True)[:, :count]` are the patches to paint, for each picture its own. Cut the pictures up with `patchify`, change a *copy*, and put it together with `unpatchify`." hint2="`patches = patchify(images, patch_size).clone()`; `patches[torch.arange(len(images))[:, None], highest] = value`; `unpatchify(patches, patch_size, (rows, columns))`."
from vit_course.interpret import hide_patches

hide_patches = check(hide_patches)

# %% [markdown]
# > **Predict.** Which order of hiding hurts most: highest rollout first, highest in the last layer, random, lowest rollout? And if
# > the evidence sits in *one* place, how many answers are still right when all but the best patch are hidden?


# %% tags=["nbval-ignore-output"]
n, patch = len(places), trained.patch_embed.patch_size


@torch.no_grad()
def accuracy_without(scores, count):
    """Hide the `count` highest patches of each test picture, and score the trained model, in percent."""
    answers = trained(hide_patches(inputs, scores, count, patch)).argmax(dim=1)
    return 100 * (answers == shapes.test_labels).float().mean().item()


attentions = attention_of(trained, inputs)
rollout, last = attention_rollout(attentions)[:, 0, 1:], attentions[-1].mean(dim=1)[:, 0, 1:]
generator = torch.Generator().manual_seed(0)
orders = {
    "highest rollout": [rollout],
    "highest in the last layer": [last],
    "random": [torch.rand(rollout.shape, generator=generator) for _ in range(3)],
    "lowest rollout": [-rollout],
}
counts = profile.pick(smoke=[4, n - 1], cpu=[4, 16, 48, n - 1], gpu=[2, 4, 8, 16, 24, n // 2, 48, n - 1])
whole = accuracy_without(rollout, 0)
fall = {
    name: {0: [whole]} | {count: [accuracy_without(scores, count) for scores in found] for count in counts}
    for name, found in orders.items()
}
mean = {name: {c: sum(values) / len(values) for c, values in line.items()} for name, line in fall.items()}
spread = max(max(values) - min(values) for values in fall["random"].values())
print(f"three random draws differ by up to {spread:.1f} points; guessing: 10 %")
table(
    [[name, *(f"{value:.1f}" for value in line.values())] for name, line in mean.items()],
    ["hidden first", *(f"{count} hidden" for count in (0, *counts))],
    f"accuracy in percent, {n} patches, {len(inputs)} pictures",
)

# %% fold tags=["nbval-ignore-output"]
deviation, middle_colour = (values[:, None, None] for values in stats[::-1])
hidden = [(f"4 hidden:\n{name}", found[0], 4) for name, found in orders.items()]
hidden.append(("all but the\nbest patch", -rollout, n - 1))
figure = plots.image_row(
    [hide_patches(inputs[:1], s[:1], count, patch)[0] * deviation + middle_colour for _, s, count in hidden],
    [name for name, _, _ in hidden],
    "One picture, hidden in five ways",
)
plots.show(
    figure,
    "The same shape five times: with four patches painted over in the mean colour, chosen in four ways, and with one patch left.",
)
figure = plots.seed_curves(
    fall, "Which patches does the model need?", "hidden patches", "test accuracy in percent"
)
figure.axes[0].set_xticks([0, 16, 32, 48, 64])
figure.axes[0].legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
plots.show(
    figure,
    "Test accuracy over the number of hidden patches, for four orders. Highest first, it falls at once; lowest first, at the end.",
)

# %% [markdown] claim=["max(mean['highest rollout'][4], mean['highest in the last layer'][4]) < whole / 2 and mean['random'][4] > whole - 15", "mean['lowest rollout'][48] > mean['random'][48] + 20 and mean['lowest rollout'][48] > whole - 15", "mean['lowest rollout'][n - 1] < 30 < mean['lowest rollout'][48]"]
# **Both maps are more than pictures.** Hide the four patches to which one of them points, and most of the accuracy is gone;
# four random patches cost little. Hide the *lowest* first, and a quarter of the picture is enough for nearly all of it.
#
# **But the evidence does not sit in one place.** With all but the best patch hidden the model does little better than
# guessing. Without the four best the star is mostly lost. One alone is not *sufficient*: it is no star.
#
# Mind two limits. A painted patch is a new thing, which the model never saw in training, so every line may fall. And patches of the
# shape are important to any model, so a map that glows on the object beats chance easily.
#
# > **Key idea.** Say "the head looks at the star". If you want to say "because", hide the star.
#
# **Your next step.** Hide each patch alone; its score is how much the logit of the right class falls. Does your line fall faster
# than the rollout's?

# %% [markdown] curious
# ## 10. How are the components found?
#
# Write the filters as the rows of a matrix F, (D, C·P·P). Subtract the mean filter $\bar f$, (C·P·P), from every row. Then
# take the **singular value decomposition** (SVD):
#
# $$F - \bar{f} = U\,S\,V^\top, \qquad \text{share}_k = \frac{s_k^2}{\sum_j s_j^2}$$
#
# U is (D, r), S is (r, r) and diagonal, and $V^\top$ is (r, C·P·P), with r the smaller of D and C·P·P. The rows of
# $V^\top$ are the **components**: patterns of length 1, at right angles to each other, the strongest first. $s_k$ is
# the k-th number of S, and its share says how much of the differences between filters lies in pattern k.
#
# **Your task.** Write `filter_components`.

# %% exercise="vit_course.interpret:filter_components" difficulty=2 minutes=10 hint="Flatten each filter to a row with `filters.flatten(1)`, and subtract the mean over the D rows, `mean(dim=0)`. `torch.linalg.svd(..., full_matrices=False)` gives three results: which one holds the components as rows?" hint2="`_, strength, directions = torch.linalg.svd(centred, full_matrices=False)`. The shares are `strength.square() / strength.square().sum()`. Take the first `count` of both, and give the directions the shape `(-1, *filters.shape[1:])`."
from vit_course.interpret import filter_components

filter_components = check(filter_components)

# %%
first, last = (model.patch_embed.proj.weight.detach() for model in pairs["Shapes-10"])
five, shares = filter_components(last - first, 5)
flat = five.flatten(1)
print("shares of the first five:", ", ".join(percent(share.item()) for share in shares))
print("at right angles, of length 1:", torch.allclose(flat @ flat.T, torch.eye(5), atol=1e-4))

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# You find beautiful stripes in the filters of a model. What do you do first?
#
# - [ ] name what each of the stripes detects :: That comes later, if at all.
# - [x] look at the untrained twin :: What both have did not need learning.
# - [ ] train for longer, until they are sharper :: That answers another question.

# %% [markdown] quiz
# The filters of a trained model look like noise, as before training. What follows?
#
# - [ ] the entrance of the model has learned nothing at all :: The random start may drown what was added.
# - [x] nothing yet: subtract the start first :: The learned part can be small and have a clear pattern.
# - [ ] the model needs larger patches :: Neither noise nor patterns say that.

# %% [markdown] quiz
# What is the rollout of two layers, with the tables A1 and A2 (half attention, half identity)?
#
# - [ ] A1 @ A2 :: Then layer 1 would read from layer 2.
# - [x] A2 @ A1 :: Outputs are rows, and the last layer makes the outputs.
# - [ ] the mean of A1 and A2 :: Paths through two layers are products, not means.

# %% [markdown] quiz
# A head gives all its attention to CLS. What is its mean attention distance?
#
# - [x] 0 pixels :: The column of CLS is dropped, and what is left is not scaled up, so nothing remains to be summed.
# - [ ] that of uniform attention :: That would be right for equal weights.
# - [ ] it is not defined :: It would not be if the rows were divided by their sum again, 0 by 0.

# %% [markdown] quiz
# You hide the most attended patches, and the accuracy falls by 20 points. What follows?
#
# - [ ] attention explains the model's answers :: That needs at least a fall that is larger than the random one.
# - [x] nothing, until you hide as many random patches :: Any hidden patches may hurt.
# - [ ] the model is broken :: A model needs its input.

# %% [markdown]
# ## Recap
#
# | what | from | shape |
# |---|---|---|
# | filters | `model.patch_embed.proj.weight` | (D, C, P, P) |
# | attention | `return_attention=True` | L times (B, h, T, T) |
# | rollout | product of $\tfrac12 \bar A + \tfrac12 I$ | (B, T, T) |
# | mean attention distance | weights times distances, in pixels | (h,) for each layer |
#
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
