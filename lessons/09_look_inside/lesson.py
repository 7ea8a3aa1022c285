# ---
# title: "Look inside"
# promise: "Look at filters, positions and heads, and test what attention explains."
# part: "II. Train it, and be fair"
# map: [attention]
# goals:
#   - "Test whether a model needs what an attention map shows, by hiding patches."
#   - "Compare a trained model with its untrained twin, and see what was learned."
#   - "Show what every head looks at, and follow attention through all layers."
#   - "Read the paper's Figures 6 and 7, and say what they do not show."
#   - "For the curious: measure in pixels how far a head looks."
# recall:
#   "01.2": "A slide says that the embedding turns an image into N x D x P² numbers. Which shape is right?"
#   "03.1": "The patches of an image are put into a new order. A ViT without positions reads both versions. What is the same?"
#   "04.2": "The width is 192, and three heads share it. By which number does each head divide its scores?"
# ---

# %% [markdown]
# ## 1. It looked at the nose. Is that why it said "cat"?
#
# In lesson 00 a model of photographs said "cat", and a map showed where it had looked. It is tempting to read the map as the
# reason. Then we covered the eyes, and the answer was still "cat".
#
# An attention map shows where a model **read**. It does not show whether the model *needed* what it read there. So a map is a
# **hypothesis**, and a hypothesis needs a test.
#
# > **Key idea.** A map is a hypothesis about what the model needs. Test it by hiding those patches.
#
# First we need maps worth testing, so we open the model as the paper does in its section 4.5, with filters, positions and heads.
# One rule protects us from seeing too much. Beside every trained model we put its **untrained twin**, the same model before its
# first step. What both show comes from the architecture and from chance. Only the difference was learned.
#
# Two small ViTs come with the course, each with its twin. One has learned drawings, the other photographs.

# %%
import torch
import torch.nn.functional as F
from einops import rearrange

from vit_classroom import check, plots, table
from vit_classroom.exhibits.play import play
from vit_classroom.numbers import percent
from vit_classroom.profiles import get_profile
from vit_classroom.student_model import load_my_model
from vit_course.data import load_dataset, normalize, shapes10
from vit_course.data.locate import locate
from vit_course.extensions.trained import load_trained
from vit_course.recipes import build_model

profile = get_profile()
shapes = shapes10(train=40, test=profile.pick(smoke=40, cpu=200, gpu=1_000))


def untrained(info):
    """Build a model as it was before its first step: from the same seed come the same random numbers."""
    torch.manual_seed(info["config"]["seed"])
    return build_model(info["model"], shapes, **info["options"]).eval()


shape_model, shape_info = load_trained("shapes-vit")
photo_model, photo_info = load_trained("cifar-vit")
pairs = {
    "drawings": (untrained(shape_info), shape_model),
    "photographs": (load_trained("cifar-vit-epoch0")[0], photo_model),
}
rows = []
for name, info in (("drawings", shape_info), ("photographs", photo_info)):
    blocks = pairs[name][1].blocks
    size = [len(blocks), blocks[0].attn.num_heads, pairs[name][1].patch_embed.proj.out_channels]
    rows.append([name, *size, f"{info['config']['epochs']:g}", percent(info["test_accuracy"])])
table(rows, ["learned", "layers", "heads in a layer", "width D", "epochs", "test accuracy"])

# %% [markdown]
# ## 2. What do the filters look for?
#
# The patch embedding multiplies each patch with D **filters**. A filter has as many numbers as a patch, so it can be drawn as
# an image. Its product with a patch is large where the patch has the same pattern.
#
# The filters come *before any attention*. Each sees one patch alone, so they show nothing about what self-attention has learned.
#
# A filter can be a mixture of patterns. **Principal component analysis** (PCA) finds these patterns, the strongest first.
# `filter_components` computes it. The left part of the paper's Figure 7 shows 28 of them, and we show six.
#
# > **Predict.** Training has changed the filters of the model of drawings by very little. What will their patterns look like
# > before training, after it, and in the difference?

# %%
from vit_course.interpret import filter_components

parts = {}
for name, pair in pairs.items():
    first, last = (model.patch_embed.proj.weight.detach() for model in pair)  # (D, C, P, P)
    turned = F.cosine_similarity(first.flatten(), last.flatten(), dim=0).item()
    print(f"{name}: cosine of the filters before and after training {turned:.2f}")
    parts |= {f"{name}, before": first, f"{name}, after": last, f"{name}, after - before": last - first}
needed, sheets = {}, {}
for part, filters in parts.items():
    found, shares = filter_components(filters, filters[0].numel())
    needed[part] = int((shares.cumsum(0) < 0.9).sum()) + 1
    scaled = found[:6] / found[:6].abs().amax(dim=(1, 2, 3), keepdim=True) / 2 + 0.5  # grey is 0
    sheets[part] = plots.image_grid(F.pad(scaled, (1, 1, 1, 1), value=1.0), columns=3)
rows = [[part, f"{count} of {len(shares)}"] for part, count in needed.items()]
table(rows, ["filters", "components that hold 90 % of the variance"])

# %% fold
shown = ["photographs, before", "photographs, after", "drawings, after", "drawings, after - before"]
figure = plots.image_row(
    [sheets[part] for part in shown], shown, "The six strongest patterns of the filters", height=2.0
)
plots.show(
    figure,
    "Four sheets of six small colour patterns. Photographs: noise before training, and ramps, blobs and edges after it. Drawings: "
    "noise after training, and smooth colours and ramps in the difference from the start.",
)

# %% [markdown] always claim=["abs(needed['drawings, after'] - needed['drawings, before']) <= 2 and 2 * needed['drawings, after - before'] < needed['drawings, after']", "needed['photographs, after'] < 0.8 * needed['photographs, before']"]
# Before training the patterns are noise, because random filters prefer nothing. **The model of photographs** has learned ramps
# of colour, blobs and edges, as in the paper.
#
# **The model of drawings** still seems to have noise. But subtract the start, and what training added appears. It is smooth, one
# colour all over or a ramp, and it needs far fewer components.
#
# > **Trap.** "The filters are still noise, so the embedding has learned nothing." A small change in a useful direction can do more
# > than large random numbers that were always there.
#
# So the filters look for colours, ramps and edges inside one patch. Whatever connects patches comes later.
#
# ## 3. Does it know which patches are neighbours?
#
# Position vectors start as random numbers (lesson 03). Nobody tells the model which patch is below which. Has it found out? We
# compare the vectors by their cosines. In the figure, the small map in row r and column c compares position (r, c) with all
# others.
#
# > **Predict.** Look for a bright *neighbourhood*. Which of the two models has one around each patch?

# %%
from vit_course.interpret import position_similarity

grid = shape_model.patch_embed.grid_size  # both models cut 32x32 pixels in the same way
places = torch.cartesian_prod(torch.arange(grid[0]), torch.arange(grid[1])).float()
apart = torch.cdist(places, places)  # distance of two patches, in patches
in_line = (places[:, None] == places[None]).any(dim=-1)  # same row or same column
rim = torch.minimum(places, torch.tensor(grid) - 1 - places).amin(dim=1)  # how far from the border
groups = {
    "neighbours": apart == 1,
    "3 to 4 apart, in line": (apart > 2.5) & (apart < 4.5) & in_line,
    "3 to 4 apart, not in line": (apart > 2.5) & (apart < 4.5) & ~in_line,
    "more than 5 apart": apart > 5,
    "both at the border": (rim == 0) & (rim[:, None] == 0) & (apart > 0),
    "border and middle": (rim == 0) & (rim[:, None] > 1),
}
maps, alike = {}, {}
for name, pair in pairs.items():
    for state, model in zip(("untrained", "trained"), pair, strict=True):
        similar = position_similarity(model.pos_embed.detach(), grid, model.num_prefix_tokens)
        maps[f"{name}, {state}"] = similar
        flat = similar.reshape(len(places), -1)
        alike[f"{name}, {state}"] = [flat[group].mean().item() for group in groups.values()]
rows = [[name, *(f"{round(value, 2) + 0.0:.2f}" for value in values)] for name, values in alike.items()]
table(rows, ["model", *groups], "mean cosine similarity of two positions")

# %% fold
shown = [key for key in maps if key.endswith(", trained")]
figure = plots.map_grid(
    [maps[key] for key in shown], shown, "Which positions are alike?", "cosine similarity"
)
for axis in figure.axes[: len(shown)]:
    axis.images[0].set_clim(-1, 1)
plots.show(
    figure,
    "Two grids of 8 by 8 small maps of similarity. Drawings: light borders in the maps of places at the border, and hardly a "
    "pattern elsewhere. Photographs: a bright round spot at the map's own place, and dark places far away.",
)

# %% [markdown] always claim=["alike['photographs, trained'][0] > alike['photographs, trained'][3] + 0.5 and alike['photographs, trained'][1] > alike['photographs, trained'][2] + 0.1 and alike['photographs, trained'][3] < -0.2", "abs(alike['drawings, trained'][0] - alike['drawings, trained'][3]) < 0.2 and alike['drawings, trained'][4] > alike['drawings, trained'][5] + 0.2", "max(abs(value) for name in pairs for value in alike[f'{name}, untrained']) < 0.05"]
# **The model of photographs knows its neighbours.** It learned from examples alone that near positions are alike and
# far ones differ. Positions in one row or column are more alike than others at the same distance, as in the paper
# (Figure 7, centre).
#
# **The model of drawings does not.** It has mostly learned border and middle. Drawings leave the border mostly empty, which may
# be the reason.
#
# ## 4. What does each head look at?
#
# `model(images, return_attention=True)` also returns the attention weights of each layer, (B, h, T, T). Row i says how token i
# divides its attention. Layers count from 1, as in the paper, and heads from 0. The classifier reads CLS alone, so we draw
# the row of CLS, one small map for each layer and head.

# %%
stats = torch.tensor(shape_info["mean"]), torch.tensor(shape_info["std"])
inputs = normalize(shapes.test_images, *stats)  # what the model reads: (B, 3, 32, 32)


@torch.no_grad()
def attention_of(model, images):
    """Return the attention weights of every layer, each (B, h, T, T)."""
    found = [model(part, return_attention=True)[1] for part in images.split(50)]
    return [torch.cat(same_layer) for same_layer in zip(*found, strict=True)]


cls_maps = {}
for state, model in zip(("untrained", "trained"), pairs["drawings"], strict=True):
    rows_of_cls = [layer[0, :, 0, 1:] for layer in attention_of(model, inputs[:1])]
    cls_maps[state] = 100 * rearrange(torch.stack(rows_of_cls), "l h (r c) -> l h r c", r=grid[0])
equal = 100 / (1 + len(places))
print(f"if CLS gives every token the same attention: {equal:.1f} %")
for state, found in cls_maps.items():
    print(f"{state:9} largest weight of each layer in %:", *(f"{layer.max():.0f}" for layer in found))

# %% fold
label = shapes.classes[shapes.test_labels[0]]
figure = plots.map_grid(
    list(cls_maps.values()), list(cls_maps), f"Where CLS looks, on a {label}", "attention in %"
)
for axis in figure.axes[:2]:
    axis.images[0].set_clim(0, 20)  # a few weights are far larger
    axis.set(xlabel="head", ylabel="layer")
    axis.set_yticks(axis.get_yticks(), range(1, len(shape_model.blocks) + 1))
plots.show(
    figure,
    f"Maps of the attention of CLS on a {label}, a row for each of six layers and a column for each of three heads. Untrained, all "
    "are evenly dark. Trained, most have a few bright patches in the middle, at the shape.",
)

# %% [markdown] always claim=["cls_maps['untrained'].max() < 1.5 * equal and cls_maps['trained'].max() > 10 * equal"]
# Untrained heads look at all patches alike, because their scores are small and the softmax is flat. Trained heads choose a few
# patches. The colours end at 20 %, and a few weights are far larger.
#
# One map is one choice of image, query, layer and head. With four choices you can find any map that you like, so look at
# many. In the tool below, click a patch or CLS and see where it looks. If you kept a model in lesson 06 or 07, it is *yours*
# that you open.
#
# 1. Choose another head in the same layer. Does it look at the same patches?
# 2. Hide the patches that are brightest for CLS. Does the answer change?


# %% fold tags=["nbval-ignore-output"]
def images_for(info):
    """Return images (B, 3, 32, 32) like those that a model was trained on, and what they are."""
    if tuple(info["classes"]) == tuple(shapes.classes):
        return shapes.test_images[:128], "drawings"
    if locate("auto").kind in ("archive", "unpacked"):
        return load_dataset("auto").test_images[:128], "images of CIFAR-10"
    portrait = plots.sample_photo((352, 352))
    return rearrange(portrait, "c (r h) (k w) -> (r k) c h w", h=32, w=32), "pieces of one photo"


mine = load_my_model((3, 32, 32))
opened, about = mine or (shape_model, shape_info)
print("open:", "your own model" if mine else "the model of drawings")
play(opened, about, images_for(about)[0][:8])

# %% [markdown]
# Your second answer was a first test, on one image. To test a map on many images we need one map for the whole model.
#
# ## 5. Which patches reach CLS through all layers?
#
# A map of the last layer shows which *tokens* are read. But by then each token is a mixture of many patches. **Attention
# rollout** (Abnar and Zuidema, 2020) follows the mixtures back to the patches.
#
# The paper uses it for its Figure 6. Its appendix D.8 says that the authors average the heads and multiply the layers. Abnar
# and Zuidema also add the residual connection, as one half of an identity, and so do we:
#
# $$\tilde{A}_\ell = \tfrac{1}{2}\,\bar{A}_\ell + \tfrac{1}{2}\,I, \qquad R = \tilde{A}_L\,\tilde{A}_{L-1} \cdots \tilde{A}_1$$
#
# $\bar A_\ell$, (T, T), is the mean over the heads of layer ℓ for one image, I is the identity, and R, (T, T), is the rollout.
#
# Why this order? Entry (i, j) of $\tilde A_2 \tilde A_1$ sums over t what token i takes from t in layer 2, times what t
# takes from j in layer 1. So the last layer is on the left. After dropout the rows of weights do not sum to 1, so
# divide each row of $\tilde A_\ell$ by its sum before you use it.
#
# **Your task.** Write `attention_rollout` for a whole batch.

# %% exercise="vit_course.interpret:attention_rollout" difficulty=2 minutes=8 hint="Start with the identity, `torch.eye(T).to(attentions[0])`, and go through the layers. In each round, average the heads, mix half and half with the identity, and multiply. On which side does the new layer belong?" hint2="The heads are axis 1. To divide each row by its sum, the sum must keep its axis. The new layer reads what the layers before it have made, and the formula above shows on which side the last layer is."
from vit_course.interpret import attention_rollout

attention_rollout = check(attention_rollout)

# %% [markdown]
# This is our Figure 6. The paper shows photographs, and so do we. They are a cat, the same photo mirrored, a part of it, and the
# portrait of Grace Hopper.

# %%
cat, portrait = (plots.sample_photo((32, 32), name) for name in ("cat", "portrait"))
photos = torch.stack([cat, cat.flip(-1), plots.sample_photo((44, 44), "cat")[:, 6:38, 6:38], portrait])
photo_stats = torch.tensor(photo_info["mean"]), torch.tensor(photo_info["std"])
photo_inputs = normalize(photos, *photo_stats)
with torch.no_grad():
    said = photo_model(photo_inputs).softmax(dim=1)
print(
    "the answers:",
    ", ".join(f"{photo_info['classes'][row.argmax()]} {percent(row.max(), 0)}" for row in said),
)
photo_maps = {}
for state, model in zip(("untrained", "trained"), pairs["photographs"], strict=True):
    layers = attention_of(model, photo_inputs)
    photo_maps[f"rollout, {state}"] = attention_rollout(layers)[:, 0, 1:]  # the row of CLS
    photo_maps[f"last layer, {state}"] = layers[-1].mean(dim=1)[:, 0, 1:]
del photo_maps["last layer, untrained"]
peaks = {name: (row.amax(dim=1) / row.mean(dim=1)).mean().item() for name, row in photo_maps.items()}
for name, peak in peaks.items():
    print(f"{name:20} the largest patch has {peak:.2f} times the mean")

# %% fold
figure = plots.overlay_rows(
    photos,
    {
        name.replace(", ", ",\n"): rearrange(row, "b (r c) -> b r c", r=grid[0])
        for name, row in photo_maps.items()
    },
    "Which patches reach CLS?",
)
plots.show(
    figure,
    "Four photos, three of a cat and a portrait, with three rows of maps below them. The untrained rollout is even. The trained rollout "
    "is a little brighter at the nose and at some patches near the edge. The last layer is bright at single patches, such as an eye.",
)

# %% [markdown] always claim=["[photo_info['classes'][i] for i in said.argmax(dim=1)][:3] == ['cat'] * 3", "peaks['rollout, untrained'] < 1.1 and peaks['rollout, trained'] > 1.2 and peaks['last layer, trained'] > peaks['rollout, trained'] + 1", "photo_maps['rollout, trained'][0].argmax() != photo_maps['last layer, trained'][0].argmax()"]
# Untrained, every patch reaches CLS alike. After training some patches reach it more. But the two maps disagree. In the last layer
# CLS looks at an eye and at the nose. The rollout has its largest value at another patch.
#
# So which patches does the model need? We have two maps, and they are two hypotheses.
#
# ## 6. Does the model need what the map shows?
#
# Here is the test. Hide the patches that a map calls important, and measure again. If the map is right, accuracy falls *faster*
# than with **random** patches. It falls *more slowly* if you hide the patches with the lowest weights.
#
# **Your task.** Write `hide_patches`, which paints over the patches with the highest scores.

# %% exercise="vit_course.interpret:hide_patches" difficulty=2 minutes=7 hint="First find the places of the `count` highest scores in each row. Cut the images up with `patchify`, change a *copy*, and put it together with `unpatchify`." hint2="`argsort` can sort in falling order. Each image has its own places, so an index over the images, of shape (B, 1), must meet the places of shape (B, count). `unpatchify` wants the grid, which the first line gives you."
from vit_course.interpret import hide_patches

hide_patches = check(hide_patches)

# %% [markdown]
# We begin with drawings, because we can draw as many test images as we like.
#
# > **Predict.** Which order of hiding hurts most, the highest rollout first, the highest in the last layer, random, or
# > the lowest rollout? If only the patch with the highest rollout is left, how many answers are still right?

# %% tags=["nbval-ignore-output"]
n, patch = len(places), shape_model.patch_embed.patch_size


@torch.no_grad()
def accuracy_without(scores, count):
    """Hide the `count` highest patches of each drawing, and return the accuracy of the trained model in percent."""
    answers = shape_model(hide_patches(inputs, scores, count, patch)).argmax(dim=1)
    return 100 * (answers == shapes.test_labels).float().mean().item()


layers = attention_of(shape_model, inputs)
rollout, last = attention_rollout(layers)[:, 0, 1:], layers[-1].mean(dim=1)[:, 0, 1:]
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
table(
    [[name, *(f"{value:.0f}" for value in line.values())] for name, line in mean.items()],
    ["hidden first", *(f"{count} hidden" for count in (0, *counts))],
    f"accuracy in %, of {n} patches, {len(inputs)} drawings; guessing is {100 / len(shapes.classes):.0f} %",
)

# %% fold tags=["nbval-ignore-output"]
figure = plots.seed_curves(
    fall, "Drawings: which patches does the model need?", "hidden patches", "test accuracy in %"
)
figure.axes[0].set(xticks=[0, 16, 32, 48, 64], ylim=(0, 100))
figure.axes[0].legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
plots.show(
    figure,
    "Test accuracy over the number of hidden patches, for four orders. Highest first, it falls at once. With random patches it falls "
    "steadily. Lowest first, it falls only at the end.",
)

# %% [markdown] claim=["max(mean['highest rollout'][4], mean['highest in the last layer'][4]) < whole / 2 and mean['random'][4] > whole - 15", "mean['lowest rollout'][48] > mean['random'][48] + 20 and mean['lowest rollout'][48] > whole - 15", "mean['lowest rollout'][n - 1] < 30 < mean['lowest rollout'][48]"]
# **On drawings both maps pass the test.** Hide the four patches that one of them points at, and most of the accuracy is
# gone. Four random patches cost little. With the *lowest* rollout hidden first, a quarter of the image is enough.
#
# **Needed does not mean enough.** If only the patch with the highest rollout is left, the model hardly does better than
# guessing.
#
# One limit of the test is that the model never saw a painted patch in training. So compare a fall only with the fall for the same
# number of random patches.
#
# ## 7. And the nose of the cat?
#
# Now we test the two maps of the photo in the same way. There is one photo, so we watch the probability of "cat". For chance we
# hide random patches a hundred times.
#
# > **Predict.** The last layer points at an eye and the nose. Hide the 16 patches that it marks most, a quarter of the photo. What
# > happens to the probability of "cat"?

# %%
is_cat = photo_info["classes"].index("cat")


@torch.no_grad()
def cat_without(scores, count):
    """Hide the `count` highest patches of the cat, for each row of scores (B, N); return the probabilities of "cat" in percent."""
    images = photo_inputs[:1].expand(len(scores), -1, -1, -1)
    return (100 * photo_model(hide_patches(images, scores, count, patch)).softmax(dim=1)[:, is_cat]).tolist()


generator = torch.Generator().manual_seed(0)
photo_orders = {
    "highest rollout": photo_maps["rollout, trained"][:1],
    "highest in the last layer": photo_maps["last layer, trained"][:1],
    "random": torch.rand(100, n, generator=generator),
}
photo_counts = [0, 4, 8, 16, 32, 48]
still = {
    name: {count: cat_without(scores, count) for count in photo_counts}
    for name, scores in photo_orders.items()
}
rows = [
    [name, *(f"{line[count][0]:.0f}" for count in photo_counts)]
    for name, line in still.items()
    if name != "random"
]
chance = [torch.tensor(still["random"][count]) for count in photo_counts]
rows.append(["random, mean", *(f"{values.mean():.0f}" for values in chance)])
rows.append(["random, lowest of 100", *(f"{values.min():.0f}" for values in chance)])
table(rows, ["hidden first", *(f"{count} hidden" for count in photo_counts)], 'probability of "cat" in %')

# %% fold
colour, grey = (values[:, None, None] for values in photo_stats[::-1])
hidden = [
    ("highest in the\nlast layer", photo_orders["highest in the last layer"]),
    ("highest\nrollout", photo_orders["highest rollout"]),
]
hidden += [("random", photo_orders["random"])]
titles = [f"{name}:\n{cat_without(scores[:1], 16)[0]:.0f} % cat" for name, scores in hidden]
figure = plots.image_row(
    [hide_patches(photo_inputs[:1], scores[:1], 16, patch)[0] * colour + grey for _, scores in hidden],
    titles,
    "Sixteen of 64 patches hidden",
)
plots.show(
    figure,
    "The cat three times with sixteen patches painted over, those that the last layer marks most, those of the rollout, and random ones. "
    "The probability of cat in the titles is about the same.",
)

# %% [markdown] always claim=["all(still[name][16][0] > still[name][0][0] - 2 for name in ('highest rollout', 'highest in the last layer'))", "all(still[name][count][0] > min(still['random'][count]) for name in ('highest rollout', 'highest in the last layer') for count in (4, 8, 16, 32, 48))"]
# **On this photo both maps fail the test.** Without the 16 patches that they mark, the model is as sure of the cat as
# it was with them. So the nose was not necessary for this answer, however good the map looks. Whether the model used
# it, this test cannot say.
#
# Is this one photo special? We did the same with 500 test images of CIFAR-10 and recorded the accuracy.

# %%
from vit_classroom.exhibits import hidden_photos

record = hidden_photos.load()
photo_fall = {
    name: {int(count): values for count, values in line.items()} for name, line in record["accuracy"].items()
}
photo_mean = {name: {c: sum(v) / len(v) for c, v in line.items()} for name, line in photo_fall.items()}
print(f"{record['model']}, {record['images']} test images, {record['machine']}, code {record['code']}")
hidden_first = ("highest rollout", "highest in the last layer", "random")
table(
    [[name, *(f"{photo_mean[name][count]:.0f}" for count in photo_counts)] for name in hidden_first],
    ["hidden first", *(f"{count} hidden" for count in photo_counts)],
    "accuracy in %, photographs",
)

# %% fold
figure = plots.seed_curves(
    {name: photo_fall[name] for name in hidden_first},
    "Photographs: which patches does the model need?",
    "hidden patches",
    "test accuracy in %",
)
figure.axes[0].set(xticks=[0, 16, 32, 48, 64], ylim=(0, 100))
figure.axes[0].legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
plots.show(
    figure,
    "Test accuracy on photographs over the number of hidden patches, up to 48. All lines fall slowly at first. Those of the two maps are "
    "below that of random patches, by little with 16 hidden patches and by more with 48.",
)

# %% [markdown] always claim=["all(3 < photo_mean['random'][16] - photo_mean[name][16] < 4.5 and 9 < photo_mean['random'][32] - photo_mean[name][32] < 14 for name in hidden_first[:2])", "photo_info['config']['augment']['erasing'] > 0 and photo_info['config']['augment']['cutmix'] > 0 and not shape_info['config']['augment']['erasing'] and not shape_info['config']['augment']['cutmix']"]
# **Over 500 photographs both maps pass the test, but weakly.** With a quarter of the patches hidden, the accuracy is
# three to four points lower than with random patches. With half of them hidden it is ten to thirteen points lower. On
# drawings four patches were enough for a far larger difference.
#
# Why do the two models differ? The model of photographs was trained with random erasing and CutMix (lesson 07). In its training a
# part of each image was often missing, so it may have learned to do without any single part. The model of drawings never met that.
# This explanation is a hypothesis too, and we have not tested it.
#
# So does attention explain an answer? It can. Only the test shows whether it does.
#
# ## 8. Is what matters in the middle?
#
# Somebody says: "Forget the maps. What decides is always in the middle of an image." This too can be tested by hiding.
#
# > **Predict.** Hide the 16 patches nearest to the middle, or the 16 nearest to the corners, or the 16 with the highest rollout.
# > Which costs most, on drawings and on photographs?

# %% tags=["nbval-ignore-output"]
off_centre = (places - places.mean(dim=0)).norm(dim=1).expand(len(inputs), -1)
ways = {
    "highest rollout": rollout,
    "nearest to the middle": -off_centre,
    "random": orders["random"][0],
    "nearest to the corners": off_centre,
}
left = {name: accuracy_without(scores, 16) for name, scores in ways.items()}
rows = [[name, f"{value:.0f}", f"{photo_mean[name][16]:.0f}"] for name, value in left.items()]
rows.append(["nothing hidden", f"{whole:.0f}", f"{photo_mean['random'][0]:.0f}"])
table(rows, ["16 hidden patches", "drawings, accuracy (%)", "photographs, accuracy (%)"])

# %% [markdown] claim=["10 < left['nearest to the middle'] - left['highest rollout'] < 30 and left['nearest to the middle'] < left['nearest to the corners'] - 10", "all(photo_mean['nearest to the middle'][16] < photo_mean[name][16] - 3 and photo_mean['nearest to the middle'][32] < photo_mean[name][32] for name in hidden_first[:2])"]
# **On drawings our map does better than the guess.** Hiding the middle costs a lot, because shapes cover the middle more often than
# the corners. Hiding the patches of the rollout costs about 20 points more.
#
# **On photographs the guess does better than our maps.** Hiding the 16 patches in the middle costs four to five points
# more than hiding the 16 that a map marks. In CIFAR-10 the object is mostly in the middle. So a map that always marks
# the middle, and never looks at the image, passes the test of section 7 as well.
#
# A test needs a simple rival, as a model needs a linear classifier beside it. Passing against random patches is not enough.
#
# ## 9. How far does a head look?
#
# The right part of the paper's Figure 7 gives one number for each head, its **mean attention distance** in pixels. It answers
# another question than rollout. Distance describes one head of one layer, over all patches. Rollout describes one answer, through
# all layers.
#
# $$d_h = \frac{1}{B\,N} \sum_{b=1}^{B} \sum_{i=1}^{N} \sum_{j=1}^{N} A_{b,h,i,j}\; \lVert p_i - p_j \rVert$$
#
# $A_{b,h,i,j}$ is the weight that patch i gives to patch j in head h on image b. $p_i$, two numbers (y, x), is the centre of
# patch i in pixels. The row and the column of CLS are dropped, and the authors do not scale the rest to sum to 1 again.
# `mean_attention_distance` computes it, and you can write it in section 10.
#
# In the paper's large model, heads differ most in the *lowest* layers. Some of them look nearby, and some already look at most of
# the image. The distance grows with depth.
#
# > **Predict.** Which of these will you see in the small model of photographs?

# %% tags=["nbval-ignore-output"]
from vit_course.interpret import mean_attention_distance


def head_distances(model, images, info):
    """Return the distance of every head in pixels, (L, h), and the share that patches give to CLS, (L, h)."""
    layers = attention_of(model, normalize(images, torch.tensor(info["mean"]), torch.tensor(info["std"])))
    sizes = model.patch_embed.grid_size, model.patch_embed.patch_size
    to_cls = torch.stack([a[:, :, 1:, 0].mean(dim=(0, 2)) for a in layers])
    return torch.stack([mean_attention_distance(a, *sizes) for a in layers]), to_cls


seen, what = images_for(photo_info)
(even, _), (distances, to_cls) = (head_distances(model, seen, photo_info) for model in pairs["photographs"])
spread = distances.amax(dim=1) - distances.amin(dim=1)
print(f"measured on {len(seen)} {what}; the untrained heads have {even.min():.1f} to {even.max():.1f} pixels")
print("nearest to farthest head in pixels, from layer 1 on:", ", ".join(f"{s:.0f}" for s in spread))
print("mean of each layer in pixels:", ", ".join(f"{m:.1f}" for m in distances.mean(dim=1)))

# %% fold tags=["nbval-ignore-output"]
figure = plots.seed_curves(
    {
        state: {layer: heads.tolist() for layer, heads in enumerate(found, 1)}
        for state, found in (("untrained", even), ("trained", distances))
    },
    "How far do the heads of the model of photographs look?",
    "layer",
    "mean attention distance in pixels",
)
figure.axes[0].set(ylim=(0, None))
figure.axes[0].xaxis.get_major_locator().set_params(integer=True)
plots.show(
    figure,
    "Mean attention distance over eight layers, a dot for each head and a line through the means. Untrained, all heads are at 16 pixels. "
    "Trained, they spread widely, most in layer 5, and the mean falls at first and then grows.",
)

# %% [markdown] claim=["spread.argmax() == 4 and len(spread) == 8", "even.max() - even.min() < 0.5 and distances.min() < even.mean() - 3 and to_cls.max() < 0.25", "(distances.mean(dim=1)[2:].diff() > 0).all() and distances.mean(dim=1)[0] > distances.mean(dim=1)[1] + 2"]
# **One result differs from the paper.** In our model heads differ most in layer 5 of 8, not in the lowest layers. We do
# not know why. Our model is far smaller, it has other training images, and it looks at images of 32 pixels.
#
# **The other agrees from the third layer on.** There the mean distance grows with depth. And near and far heads exist
# in the same layer here too, so "low layers are local" is as wrong as "low layers are global".

# %% [markdown] curious
# ## 10. How do you measure the distance?
#
# **Your task.** Write `mean_attention_distance` by the formula of section 9. Grids and patches need not be square.

# %% exercise="vit_course.interpret:mean_attention_distance" difficulty=3 minutes=12 hint="First make a table (N, N) of distances. Write down the centres of the patches, in reading order, as N points (y, x) in pixels. `torch.cdist` compares all points, which must be floats. Then remove the prefix from both of the last two axes of the weights." hint2="`torch.meshgrid(..., indexing='ij')` of the rows and of the columns, in pixels, gives y and x of all patches. Which axes must be summed, and over which is the mean taken? The sum over j belongs to the keys, the last axis."
from vit_course.interpret import mean_attention_distance

mean_attention_distance = check(mean_attention_distance)

# %% tags=["nbval-ignore-output"]
again = head_distances(photo_model, seen, photo_info)[0]
print("the same as in section 9:", torch.allclose(again, distances, atol=1e-3))

# %% [markdown] claim="torch.allclose(again, distances, atol=1e-3)" always
# Your function measures what the finished one has measured.
#
# > **Trap.** A small distance can mean two things. The head looks nearby, or it gives most of its attention to CLS, and
# > nothing corrects for that. So look at `to_cls` of section 9 too. Here no head gives CLS a quarter of its attention.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# You find beautiful stripes in the filters of a model. What do you do first?
#
# - [ ] give a name to what each stripe detects :: That comes later, if at all.
# - [x] look at the untrained twin :: What both models have did not need learning.
# - [ ] train for longer, until they are sharper :: That answers another question.

# %% [markdown] quiz
# The filters of a trained model look like noise, as before training. What follows?
#
# - [ ] the embedding has learned nothing at all :: The random start may hide what was added.
# - [x] nothing yet, so subtract the start first :: The learned part can be small and have a clear pattern.
# - [ ] the model needs larger patches :: Neither noise nor patterns show that.

# %% [markdown] quiz
# What is the rollout of two layers, with the tables A1 and A2 (half attention, half identity)?
#
# - [ ] A1 @ A2 :: Then layer 1 would read from layer 2.
# - [x] A2 @ A1 :: Outputs are rows, and the last layer makes the outputs.
# - [ ] the mean of A1 and A2 :: Paths through two layers are products, not means.

# %% [markdown] quiz
# A head gives all its attention to CLS. What is its mean attention distance?
#
# - [x] 0 pixels :: The column of CLS is dropped, and the rest is not scaled up, so nothing remains to be summed.
# - [ ] that of uniform attention :: That would be right for equal weights.
# - [ ] it is not defined :: It would not be defined if the rows were divided by their sum again, 0 by 0.

# %% [markdown] quiz
# You hide the most attended patches, and the accuracy falls by 20 points. What follows?
#
# - [ ] attention explains the model's answers :: The fall must at least be larger than with random patches.
# - [x] nothing, until you hide the same number of random patches :: Any hidden patches may hurt.
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
# - A map is a hypothesis. Hide what it marks, and compare with simple rivals.
# - On drawings the maps passed the test. On photographs "always the middle" did better, with 16 patches hidden.
# - Only what differs from the untrained twin was learned.
# - Filters belong to the patch embedding, before any attention.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), section 4.5, Figures 6 and 7, and appendices D.7 and D.8.
# - Abnar and Zuidema, *Quantifying Attention Flow in Transformers* (2020), about rollout.
# - Jain and Wallace, *Attention is not Explanation* (2019), and the answer to it, *Attention is not not Explanation* (2019).
# - Raghu et al., *Do Vision Transformers See Like Convolutional Neural Networks?* (2021), about distances with less and more data.
#
# **Next.** On 500 photographs our two maps differ by a few points. Is one of them better, or is it luck? Luck alone
# can make eight equal models look different, and nothing in this lesson would notice it. How to tell the two apart is
# lesson 10.
