# ---
# title: "Since 2021"
# promise: "Add parts of current models, and measure which ones matter."
# part: "III. Beyond"
# map: [attention, position, pool]
# recall:
#   "02.5": "`pool(tokens, \"avg\", num_prefix_tokens=1)` reads a model that has no CLS token. What is the mistake?"
#   "03.4": "A table of 65 positions, CLS included, is stretched to 145 by values between neighbours in the list. What goes wrong?"
#   "04.2": "Before the softmax, each of three heads divides its scores by the same number. D is 192. Which number is it?"
# goals:
#   - "Say which parts were added to the ViT of 2021, and for which trouble."
#   - "Watch attention scores explode at a high learning rate, and stop them with QK-norm."
#   - "Rotate queries and keys by the place of their patch, and read the patches with a learned query."
#   - "Say what each part brings to a model of your size, and how sure that is."
#   - "Read the configuration of a current model line by line, and build it from your parts."
# ---

# %% [markdown]
# ## 1. Is what I have built out of date?
#
# You open the configuration of a model of this year and find `qk_norm`, `rope`, `init_values`, `num_reg_tokens`. None of these
# words is in the paper that you have built. Was it all for nothing?
#
# No. Compare three ViT-B/16 models that were trained on ImageNet alone:
#
# | model | year | side of the images | accuracy on ImageNet |
# |---|---|---|---|
# | the paper (Table 5) | 2021 | 384 pixels | 77.9 % |
# | DeiT III (2204.07118) | 2022 | 224 pixels | 83.8 % |
# | ViT-5 (2602.08071) | 2026 | 224 pixels | 84.2 % |
#
# The large step came from the training recipe. DeiT III is nearly the same model, and with a better recipe it gains six
# points. ViT-5 renews most of the small parts, which adds only 0.4 points. The comparison is not quite clean, because
# DeiT III already has one of the new parts, LayerScale.
#
# > **Key idea.** A current model is still patches, attention, MLP and residuals. Most of the accuracy gained since 2021
# > came from recipes and data. The new parts are for other troubles, such as training that diverges, or images of other
# > sizes.
#
# So we ask two questions about a new part. Which trouble is it for? And what does it bring to a model of *our* size? Five parts
# are in many current models:
#
# | year | part | what it does | for which trouble | paper (arXiv) |
# |---|---|---|---|---|
# | 2020 | SwiGLU | gives the MLP a gate, $\mathrm{silu}(x W_1) \odot x W_2$ | a model of the same size should learn more | 2002.05202 |
# | 2021 | LayerScale | multiplies what a branch adds by learned factors, which start near 0 | very deep models do not train | 2103.17239 |
# | 2021 | RoPE | rotates queries and keys by their place | images of other sizes | 2104.09864 |
# | 2023 | QK-norm | normalises queries and keys | training diverges | 2302.05442 |
# | 2023 | registers | adds learned tokens that the head never reads | a few patch tokens grow huge | 2309.16588 |
#
# You write QK-norm and RoPE yourself. At the end you build a model of 2025 that has the other three parts and RoPE.
#
# Some successors are no longer plain ViTs. In Swin (2021) a token attends only inside a window, the windows move from
# layer to layer, and neighbours are merged on the way, as in a CNN.

# %%
from dataclasses import replace
from statistics import fmean

import torch
from torch import nn

from vit_classroom import check, plots, table
from vit_classroom.evidence.changed_models import largest_logits, with_merging
from vit_classroom.evidence.records import caption, linear_classifier, load_records
from vit_classroom.evidence.statistics import best_rate, by_step, difference, from_to, signed, undecided
from vit_classroom.exhibits import modern_parts
from vit_classroom.numbers import number, percent
from vit_classroom.profiles import get_profile
from vit_course.data import load_dataset, normalize, shapes10
from vit_course.extensions.modern import modernize
from vit_course.extensions.trained import load_trained
from vit_course.recipes import RECIPES, build_model
from vit_course.train import evaluate, train
from vit_course.vit import create_vit

profile = get_profile()

# %% fold
dataset = load_dataset()
trained, info = load_trained("shapes-vit")
if tuple(dataset.classes) != tuple(info["classes"]):  # CIFAR-10, if it is here
    trained, info = load_trained("cifar-vit")
if tuple(dataset.classes) != tuple(info["classes"]):  # images of your own: no trained model fits them
    (trained, info), dataset = load_trained("shapes-vit"), shapes10(train=2000, test=2000)
dataset = dataset.subset(*profile.pick(smoke=(100, 40), cpu=(1000, 1000), gpu=(1000, 2000)))
images, labels = dataset.test_images, dataset.test_labels
stats = torch.as_tensor(info["mean"]), torch.as_tensor(info["std"])
error = (info["test_accuracy"] * (1 - info["test_accuracy"]) / len(labels)) ** 0.5


def recorded(group):
    """Read the recorded runs of a group, and say where they come from."""
    runs = load_records(group)
    print(caption(runs))
    return runs


def same_recipe(group, runs):
    """Read the runs of another group that trained the same kind of model for the same number of epochs as these."""
    wanted = {(run["model"], run["config"]["epochs"]) for run in runs}
    return [run for run in load_records(group) if (run["model"], run["config"]["epochs"]) in wanted]


def accuracy(model, pictures):
    """Return the accuracy on images (N, C, H, W) with the test labels, in percent."""
    return round(100 * evaluate(model, pictures, labels, stats)[0], 1)


def in_points(found):
    """Write a difference with its 95 % interval, and what the seeds show."""
    gap, low, high = found
    result = "no difference shown" if undecided(low, high) else "better" if gap > 0 else "worse"
    return f"{signed(gap)} ({from_to(low, high)}), {result}"


print(f"trained: {info['model']}, {len(trained.blocks)} blocks, {info['data'].partition(';')[0]}")
print(f"{len(labels)} test images: one standard error of an accuracy is {100 * error:.1f} points")

# %% [markdown]
# ## 2. Why did the largest model blow up?
#
# When a ViT was scaled towards 22 billion parameters, its training diverged at 8 billion. The cause was in attention. The scores
# $q k^\top / \sqrt{d}$, called **attention logits**, had become so large that the softmax gave all its weight to one key. Such a
# softmax has almost no gradient (lesson 04), so the model could not recover.
#
# A later study found the same trouble in *small* models that train at a high learning rate (2309.14322). So we can look for it.
# We train a small ViT with AdamW at three rates. After each epoch we look for the largest logit of all layers.
#
# > **Predict.** At the start the largest logit is below 1. Where is it after six epochs at the highest of the rates: near
# > 5, near 50, or in the thousands?

# %% tags=["nbval-ignore-output"]
school = shapes10(train=profile.pick(smoke=100, cpu=1000, gpu=1000), test=100)
looked_at = normalize(school.test_images, *school.channel_stats())
epochs, rates = profile.pick(smoke=1, cpu=6, gpu=6), (0.002, 0.016, 0.064)


def logits_in_training(rate, **parts):
    """Train a small ViT with these parts; return the largest logit before training and after each epoch."""
    torch.manual_seed(0)
    model = build_model("Nano/8", school, modern=parts)
    found = [max(largest_logits(model, looked_at))]

    def look(history):
        device = next(model.parameters()).device
        found.append(max(largest_logits(model, looked_at.to(device))))

    recipe = replace(RECIPES["adamw"], lr=rate, epochs=epochs, batch_size=50, quiet=True)
    train(model, school, recipe, on_epoch=look)
    return found


usual = {rate: logits_in_training(rate) for rate in rates}
rows = [[f"{rate:g}", *(number(values[i]) for i in (0, 1, -1))] for rate, values in usual.items()]
table(rows, ["learning rate", "largest logit at the start", "after one epoch", "at the end"])

# %% [markdown] claim="usual[0.002][-1] < 20 and usual[0.064][-1] > 500 and usual[0.016][-1] > 5 * usual[0.002][-1]"
# It is in the thousands. If the logits of two keys differ by ten, the key with the smaller logit gets less than
# 1/20,000 of the other key's weight. So with logits in the hundreds or thousands, attention is only a switch.
#
# The cure is **QK-norm**. Before a query meets a key, both become vectors of mean 0 and variance 1. This is the layer norm of
# lesson 05, over the d numbers of one head, with a learned scale and without a shift:
#
# $$\hat q = \frac{q - \bar q}{\sqrt{\mathrm{var}(q) + \epsilon}} \odot s_q, \qquad \hat k = \frac{k - \bar k}{\sqrt{\mathrm{var}(k) + \epsilon}} \odot s_k$$
#
# q and k are (B, h, T, d), mean and variance are taken over d, and $s_q$ and $s_k$ are (d,). With scales of 1 each vector has the
# length $\sqrt{d}$, so no logit can exceed $\sqrt d\,\sqrt d / \sqrt d = \sqrt d$.
#
# **Your task.** Write `qk_norm`. Its place is between `split_heads` and attention, so q, k and v come in and go out.

# %% exercise="vit_course.extensions.modern:qk_norm" difficulty=1 minutes=6 hint="It is `layer_norm` of lesson 05, over the last axis, with a scale and without a shift. Two of the three tensors go through it." hint2="`F.layer_norm` takes the shape of what it normalises, here the last axis alone, and a scale. If you write it by hand, which variance divides by d, and where does eps go?"
from vit_course.extensions.modern import qk_norm

qk_norm = check(qk_norm)

# %% [markdown]
# We repeat the training with QK-norm in each block.
#
# > **Predict.** A head has d = 96 / 3 = 32 numbers. What is the largest logit possible while the scales are 1?

# %% tags=["nbval-ignore-output"]
normed = {rate: logits_in_training(rate, qk_norm=True) for rate in rates}
limit = (96 / 3) ** 0.5
print(f"the limit while the scales are 1: {limit:.1f}")

# %% fold tags=["nbval-ignore-output"]
axis = list(range(epochs + 1))
lines = {f"standard, rate {rate:g}": (axis, usual[rate]) for rate in reversed(rates)}
lines |= {f"QK-norm, rate {rate:g}": (axis, normed[rate]) for rate in reversed(rates)}
figure = plots.curves(lines, "How large do the attention logits become?", "epoch", "largest logit", log="y")
figure.set_size_inches(7.5, 3.8)
figure.axes[0].set_xticks(axis)
figure.axes[0].axhline(limit, color="0.6", lw=1, ls="-", zorder=0, label="QK-norm's limit, scales of 1")
figure.axes[0].legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
plots.show(
    figure,
    "Largest logit over six epochs on a logarithmic axis. At the three rates the standard model rises to a few, to some hundreds, "
    "and to some thousands. With QK-norm all three lines stay near the limit of 5.7.",
)

# %% [markdown] claim="all(normed[rate][-1] < 30 for rate in rates) and normed[0.064][-1] < usual[0.064][-1] / 10"
# QK-norm keeps the logits near the limit, at every rate. Only the learned scales lift them above it.
#
# But small logits are only a means. Does *accuracy* rise? That needs longer runs. These are on CIFAR-10, with AdamW and
# three seeds each:

# %% fold tags=["nbval-ignore-output"]
runs = recorded("qk-norm")
scores = by_step([run for run in same_recipe("pooling", runs) if run["step"] == "token-0.002"] + runs)
scores["usual-0.002"] = scores.pop("token-0.002")
pairs = {
    rate: [scores[f"{kind}-{rate}"] for kind in ("usual", "normed")] for rate in ("0.002", "0.008", "0.032")
}
rows = [
    [rate, *(f"{fmean(x):.1f}" for x in pair), in_points(difference(*pair[::-1]))]
    for rate, pair in pairs.items()
]
line = fmean(linear_classifier(runs, load_records("pooling")))
print(f"linear classifier on raw pixels, the same number of images: {line:.1f} %")
columns = [
    "learning rate",
    "standard model, test accuracy (%)",
    "with QK-norm (%)",
    "QK-norm adds (95 % interval)",
]
table(rows, columns)

# %% [markdown] claim=["[undecided(*difference(*pair)[1:]) for pair in pairs.values()] == [True, False, False]", "all(min(pairs[rate][1]) > max(pairs[rate][0]) for rate in ('0.008', '0.032'))", "fmean(pairs['0.008'][0]) < line and 0.4 < fmean(pairs['0.032'][0]) / line < 0.6", "undecided(*difference(pairs['0.008'][1], pairs['0.002'][0])[1:])", "difference(pairs['0.032'][1], pairs['0.002'][0])[2] < 0 and 5.5 < fmean(pairs['0.002'][0]) - fmean(pairs['0.032'][1]) < 6.5"] always
# At the usual rate, 0.002, three seeds do not show a difference. At higher rates QK-norm saves the model. At four times the rate
# the standard model is worse than a linear classifier on raw pixels, and at sixteen times it scores about half as much as the
# linear classifier. With QK-norm, three seeds do not show that four times the rate costs anything. Sixteen times the rate costs
# six points.
#
# So QK-norm does not raise accuracy here. It widens the range of rates that work, which matters most for large models.
#
# > **Trap.** "With QK-norm I can train at four times the rate" is no gain by itself. Compare each model at its own best rate.

# %% [markdown]
# ## 3. Where is a patch, if the image has another size?
#
# A learned table of positions fits *one* grid. For another size we stretch it (lesson 03), and the model loses accuracy, because
# the new positions are between those that it knows.
#
# What should a score know about places? Mostly the *offset*, such as "two patches to the right of me". The **rotary position
# embedding** (RoPE) builds this in. It takes two of the d numbers of a query as a point in a plane, and rotates this point by an
# angle that grows with the place of the patch. It does the same with the keys.
#
# > **Predict.** Query and key start as the same arrow of length 1. Frequency w = 1 means one radian for each column.
# > The query is in column 0 and the key in column 2, so their product is cos 2 = -0.42. What is it in columns 5 and 7?

# %% fold
figure = modern_parts.turned_pairs([(0, 2, 1.0), (5, 7, 1.0), (5, 7, 0.1)])
plots.show(
    figure,
    "Three circles with two arrows each, query and key. In columns 0 and 2 and in columns 5 and 7 the arrows point elsewhere, "
    "but the angle between them and their product, -0.42, are the same. With a tenth of the frequency the angle is small and "
    "the product is 0.98.",
)

# %% [markdown]
# It is the same, because both arrows have turned by five more radians. R(m) rotates by the angle m·w, and for all places m and n
#
# $$\langle R(m)\,q,\; R(n)\,k \rangle = \langle q,\; R(n - m)\,k \rangle$$
#
# A head has d/2 such pairs. Half of them turn with the row r of the patch, by r·w, and half with its column c, by c·w. In each half
# the pairs have different **frequencies**, from fast to slow, $w_j = \tau^{-j/(d/4)}$ for j = 0 ... d/4 - 1. The number τ is called
# the temperature. A pair (a, b) turned by the angle φ becomes
#
# $$(a \cos\varphi - b \sin\varphi,\;\; a \sin\varphi + b \cos\varphi)$$
#
# Nothing is learned, and the formula is defined for any grid. CLS has no place and is not turned. The values are not turned
# either, because places decide *who attends to whom*, and not what is passed on.
#
# **Your task.** Write `rope_2d`. The frequencies are given. You may choose which numbers form a pair, because the check only asks
# for what a rotation must keep.

# %% exercise="vit_course.extensions.modern:rope_2d" difficulty=3 minutes=14 hint="Make a table of angles (N, d/2): for each patch the row times the frequencies, beside it the column times the frequencies. Put rows of zeros in front for the prefix tokens, because an angle of 0 turns nothing. Then turn q and k." hint2="In reading order, which row numbers and which column numbers do the patches of a 2x3 grid have? `repeat_interleave` makes one list, `repeat` the other. If `chunk(2, dim=-1)` cuts the numbers of a query in halves, number i and number i + d/2 are a pair, and the formula works on whole halves."
from vit_course.extensions.modern import rope_2d

rope_2d = check(rope_2d)

# %% [markdown]
# Give all patches the *same* vector as query and as key. Without rotation all scores would be equal. With it?

# %% fold
torch.manual_seed(0)
everywhere = torch.randn(1, 1, 1, 32).expand(1, 1, 65, 32)
turned_q, turned_k, _ = rope_2d(everywhere, everywhere, everywhere, (8, 8))
scores = (turned_q @ turned_k.mT)[0, 0, 1:, 1:].reshape(8, 8, 8, 8)
plots.show(
    modern_parts.offset_maps(scores, [(2, 2), (4, 5), (7, 0)]),
    "Three 8 by 8 maps of scores with a framed query each. The same pattern, brightest at the query, moves with it.",
)

# %% [markdown] claim="torch.allclose(scores[2, 2][1:, 1:], scores[1, 1][:-1, :-1], atol=1e-3)" always
# The pattern moves with the query, so only the offset counts.
#
# Is RoPE better than a learned table on images of other sizes? We trained three models with a learned table and three
# with rotations alone, on CIFAR-10 at 32 pixels. At other sizes the table is *stretched*. The rotations either *go on
# counting*, to places that they never met in training, or they are *stretched* too. On a grid of 12 rows, stretched
# rotations count in steps of 8/12.
#
# > **Predict.** Which is best at 48 pixels: the table, rotations that go on counting, or stretched rotations?

# %% fold tags=["nbval-ignore-output"]
runs, sides = recorded("rope"), (24, 32, 40, 48)
kinds = {
    "learned table, stretched": ("learned", ""),
    "rotations, counting on": ("rope", ""),
    "rotations, stretched": ("rope", " stretched"),
}
sizes = {
    kind: {
        side: [100 * run["resolutions"][f"{side}{how}"] for run in runs if run["step"] == step]
        for side in sides
    }
    for kind, (step, how) in kinds.items()
}
learned, counting, stretched = sizes.values()
rows = [
    [side, *(in_points(difference(one[side], learned[side])) for one in (counting, stretched))]
    for side in sides
]
table(
    rows,
    ["side (pixels)", "counting on, against the table (points)", "stretched, against the table (points)"],
)

# %% fold tags=["nbval-ignore-output"]
floor = fmean(linear_classifier(runs, load_records("pooling")))
figure = plots.seed_curves(
    sizes,
    "Rotations win or lose at other sizes, with the same weights",
    "side of the test images (pixels)",
    "test accuracy (%)",
    floor=("linear classifier, 32 pixels", floor),
)
figure.axes[0].set_xticks(sides)
plots.show(
    figure,
    "Test accuracy at 24, 32, 40 and 48 pixels, a dot for each seed. All three are equal at 32 pixels. At 48 pixels stretched "
    "rotations are highest, and rotations that go on counting are far below the table.",
)

# %% [markdown] claim=["max(counting[48]) < min(learned[48]) and min(stretched[48]) > max(learned[48])", "7 < fmean(learned[48]) - fmean(counting[48]) < 8 and 2.5 < fmean(stretched[48]) - fmean(learned[48]) < 3.5", "all(min(stretched[side]) > max(counting[side]) for side in (24, 40, 48)) and stretched[32] == counting[32]", "[undecided(*difference(one[side], learned[side])[1:]) for side in sides for one in (counting, stretched)] == [False, True, True, True, True, True, False, False]"] always
# The same weights lose or win. At 48 pixels, rotations that go on counting are seven points worse than the table, and stretched
# rotations are three points better. At 32 pixels, where all models were trained, three seeds do not show a difference.
#
# A formula that is defined for every place is not enough. The model does well only at places like those of its training.
# DINOv3 builds stretching in, because it counts rows from -1 to 1 on every grid. Larger models that train longer may behave
# differently. Heo et al. (2403.13298) report good results even without stretching.

# %% [markdown]
# ## 4. Who reads the result?
#
# Lesson 02 had two ways to read the result, the CLS token and the mean over the patches (GAP). Many current models use a third one.
# After the last layer, one *learned* query q attends to all patch tokens:
#
# $$y = \sum_i a_i\, v_i, \qquad a = \mathrm{softmax}\!\left(\frac{q\,k^\top}{\sqrt d}\right)$$
#
# For each head, k and v are (N, d), and a has N weights. This is **attention pooling** (1810.00825).
#
# > **Predict.** The query starts at zero. Which of the two old ways is that?
#
# **Your task.** Write `attention_pool` for all heads at once. It leaves out the prefix tokens.

# %% exercise="vit_course.extensions.modern:attention_pool" difficulty=1 minutes=6 hint="Cut the prefix tokens off k and v. The score of a patch is the product of its key with the query of the same head. Over which axis do the weights of one head sum to 1?" hint2="The query (h, d) meets keys (B, h, N, d). With one new axis in the query, its numbers and those of a key are side by side, and a sum over the last axis gives scores (B, h, N)."
from vit_course.extensions.modern import attention_pool

attention_pool = check(attention_pool)

# %% [markdown]
# Is it more accurate? We trained three readers on CIFAR-10, each at its own best rate, chosen on held-out images:

# %% fold tags=["nbval-ignore-output"]
runs = recorded("attention-pool")
others, readers, at_edge = same_recipe("pooling", runs), {}, {}
for kind, name in (("token", "CLS"), ("avg", "GAP"), ("attention", "attention pooling")):
    own = [run for run in [*others, *runs] if run["step"].startswith(f"{kind}-")]
    held_out = {}
    for run in own:
        held_out.setdefault(run["config"]["lr"], []).append(100 * run["val_accuracy"][-1])
    best, at_edge[name] = best_rate(held_out)
    readers[name] = [100 * run["test_accuracy"] for run in own if run["config"]["lr"] == best]
rows = [
    [name, f"{fmean(found):.1f}", "" if name == "CLS" else in_points(difference(found, readers["CLS"]))]
    for name, found in readers.items()
]
table(rows, ["reader", "test accuracy (%)", "against CLS (95 % interval)"])

# %% [markdown] claim=["all(undecided(*difference(readers[one], readers[two])[1:]) for one, two in (('attention pooling', 'CLS'), ('attention pooling', 'GAP'), ('GAP', 'CLS')))", "not any(at_edge.values())"] always
# Three seeds do not show a difference between CLS and either of the two other readers.
#
# ## 5. What did each part bring here?
#
# Now put our main comparisons into one figure, sorted by the points that the part added. Each line compares three
# seeds with a part against three seeds without it.
#
# > **Predict.** Which lines will be to the right of 0? Think of the trouble that each part is for.

# %% fold tags=["nbval-ignore-output"]
brought = {
    "QK-norm, usual rate": difference(*pairs["0.002"][::-1]),
    "QK-norm, 4 times the rate": difference(*pairs["0.008"][::-1]),
    "QK-norm, 16 times the rate": difference(*pairs["0.032"][::-1]),
    "rotations, at 32 pixels as in training": difference(counting[32], learned[32]),
    "rotations stretched, at 48 pixels": difference(stretched[48], learned[48]),
    "rotations counting on, at 48 pixels": difference(counting[48], learned[48]),
    "attention pooling": difference(readers["attention pooling"], readers["CLS"]),
}
brought = dict(sorted(brought.items(), key=lambda pair: -pair[1][0]))
figure = plots.intervals(
    brought,
    "What did each new part bring at our size?",
    "test accuracy added (points), with 95 % interval",
    "three seeds do not show a difference",
)
plots.show(
    figure,
    "Seven differences with intervals. QK-norm at high rates and stretched rotations at 48 pixels are to the right of 0, rotations "
    "that go on counting are to the left. QK-norm at the usual rate, rotations at 32 pixels and attention pooling contain 0.",
)

# %% [markdown] claim="{name for name, (_, low, high) in brought.items() if undecided(low, high)} == {'QK-norm, usual rate', 'rotations, at 32 pixels as in training', 'attention pooling'} and min(brought.values())[0] == brought['rotations counting on, at 48 pixels'][0] and sum(low > 0 for _, low, _ in brought.values()) == 3 and abs(1 - 0.95**7 - 1 / 3) < 0.05" always
# **A new part helps where the problem occurs that it was made for.** At a rate that is too high, QK-norm adds 14 or 20
# points. At 48 pixels, stretched rotations add three. In ordinary training at our size, three seeds do not show that
# QK-norm, RoPE or attention pooling helps. SwiGLU, LayerScale and registers are not measured in this lesson.
#
# How sure is that? Seven comparisons with an error of 5 % give a false alarm in about one of three such figures. The
# two largest gains are far from 0. And a part without effect here may matter in a model a thousand times as large.
#
# ## 6. Can I read a current model now?
#
# Here is the configuration of DINOv3, ViT-S+/16 (2508.10104), as timm 1.0.31 lists it:
#
# | line | what it says | where you met it |
# |---|---|---|
# | `patch_size=16`, `embed_dim=384`, `depth=12`, `num_heads=6` | P, D, L and h of a ViT-S | lessons 01, 06 |
# | `qkv_bias=False` | q, k and v without bias | lesson 04 |
# | `norm_layer=LayerNorm` | the usual norm | lesson 05 |
# | `use_abs_pos_emb=False`, `use_rot_pos_emb=True` | no table of positions, RoPE | section 3 |
# | `rope_temperature=100`, `rope_rotate_half=True` | τ, and pairs (i, i + d/2) as in our solution | section 3 |
# | `init_values=1e-5` | LayerScale, its factors before training | section 1 |
# | `swiglu_mlp=True` | the MLP with a gate | section 1 |
# | `num_reg_tokens=4` | four registers after CLS | section 1 |
#
# `modernize` puts these parts into a finished model.
#
# > **Predict.** A plain ViT-S/16 has 22 million parameters. Which of these lines makes the model larger, and by how much?

# %%
plain = create_vit("S/16", img_size=224, num_classes=1000)
parts = {"rope": True, "layer_scale": 1e-5, "gated_mlp": True, "registers": 4, "qkv_bias": False}
current = modernize(create_vit("S/16", img_size=224, num_classes=1000, pos_embed="none"), **parts).eval()


rows = []
for name, model in {"ViT-S/16 of 2021": plain, "ViT-S+/16 of 2025, our parts": current}.items():
    rows.append([name, *(sum(p.numel() for p in part.parameters()) for part in (model, model.blocks[0].mlp))])
print("logits:", tuple(current(torch.zeros(1, 3, 224, 224)).shape))
table(rows, ["model", "parameters, with 1000 classes", "parameters of one MLP"])

# %% [markdown] claim="abs(12 * (rows[1][2] - rows[0][2]) / (rows[1][1] - rows[0][1]) - 1) < 0.05 and 6.5e6 < rows[1][1] - rows[0][1] < 7.5e6" always
# The gate alone adds the seven million parameters, because it is a third matrix in each MLP. The other parts together
# change very little. A test of this course compares the count with timm's own model, and they agree.
#
# ViT-5 in the same words is `modernize(model, qk_norm=True, rope=True, layer_scale=1e-4, rms_norm=True, registers=4,
# qkv_bias=False)`. It keeps the MLP of 2021, and a table of positions *beside* RoPE. Its norm, **RMSNorm**, divides by the root of
# the mean square and subtracts nothing.
#
# So you can read and build such a model. Most parts are still those of lessons 01 to 06.

# %% [markdown] curious
# ## 7. Must all tokens go all the way?
#
# Many patches show the same blue sky. **Token merging** (2210.09461) takes a *trained* model and merges the r most similar pairs of
# tokens in each block, without any training.
#
# Which pairs? Patch tokens at even places of the sequence are **sources**, those at odd places are **targets**. Each source finds the
# target whose *key* is most like its own, by the cosine. The r best sources move into their targets. Here is an example on paper, with
# CLS at place 0, six patches and r = 2:
#
# | place | 1 | 2 | 3 | 4 | 5 | 6 |
# |---|---|---|---|---|---|---|
# | role | target | source | target | source | target | source |
# | key | (1, 1) | (0, 2) | (0, 1) | (0.1, 5) | (-1, 0) | (1, -1) |
# | size | 1 | 3 | 1 | 2 | 1 | 1 |
#
# Sources 2 and 4 both point where target 3 points, so both go into it. The new token at place 3 represents 3 + 1 + 2 = 6 patches. It
# is the mean of the three tokens, *weighted with their sizes*. Place 6 stays.
#
# > **Trap.** If you assign to a list of places, and two sources have the same target, only one of them arrives.
#
# **Your task.** Write `merge_tokens`.

# %% exercise="vit_course.extensions.modern:merge_tokens" difficulty=3 minutes=15 hint="`sources` and `targets` are lists of places, and are given. Normalise the keys and take all products, source by target. `max` over the targets gives the likeness and the partner of each source, and `topk` finds the r that go. Then multiply tokens with sizes, add sources to targets, and divide by the new sizes." hint2="`topk` counts among the sources, and the tensors count places of the sequence: which index turns one into the other? `scatter_add` adds several sources to one target. A mask of True that is False at the places that are gone keeps the rest in its order."
from vit_course.extensions.modern import merge_tokens

merge_tokens = check(merge_tokens)

# %% [markdown]
# Which patches become one? Here is `cifar-vit`, a trained model of this course that reaches 91 % on CIFAR-10. It
# reads two photos, and your function merges six pairs in each block.

# %% fold
reads, about = load_trained("cifar-vit")
photos = [
    plots.sample_photo((32, 32), "cat"),
    plots.sample_photo((32, 32)),
]  # the portrait is of Grace Hopper
normal = normalize(torch.stack(photos), torch.as_tensor(about["mean"]), torch.as_tensor(about["std"]))
groups = [modern_parts.merged_groups(reads, photo, 6, merge_tokens) for photo in normal]
stages = [[one[block] for block in (0, 3, 6, 8)] for one in groups]
names = ["64 patches"] + [f"{len(found.unique())} tokens" for found in stages[0][1:]]
plots.show(
    modern_parts.merged_patches(photos, stages, names),
    "A cat and a portrait, each with its patches as they are merged, 64, 46, 28 and 16 tokens. The blue wall, the face and the fur "
    "become a few large areas, the eyes of the cat stay small.",
)

# %% [markdown] claim="[len(found.unique()) for found in stages[0]] == [64, 46, 28, 16]" always
# Patches that look alike become one token, such as the blue wall behind Grace Hopper. The eyes of the cat stay separate.
#
# Does a model still classify well when its tokens are merged? Two controls belong to this measurement. *Random merging*
# merges the same number of tokens, chosen by random keys. *Dropping* removes random patches before the first block, as
# many as merging removes in all.
#
# > **Predict.** 64 patches, six blocks. How many tokens can go before the accuracy falls by more than two standard errors?

# %% tags=["nbval-ignore-output"]
mixer = torch.Generator().manual_seed(0)


def merge_at_random(tokens, k, sizes, r, prefix):
    return merge_tokens(tokens, torch.randn(k.shape, generator=mixer), sizes, r, prefix)


class KeepSome(nn.Module):
    """Let CLS and some patches, drawn anew for each batch, into the blocks."""

    def __init__(self, blocks, count):
        super().__init__()
        self.blocks, self.count = blocks, count

    def forward(self, x):
        kept = 1 + torch.randperm(x.shape[1] - 1, generator=mixer)[: self.count]
        return self.blocks(torch.cat([x[:, :1], x[:, kept.sort().values]], dim=1))


rows = []
for r in (0, 4, 6, 8, 10):
    merging, dropping = with_merging(trained, r, merge_tokens), with_merging(trained, 0, merge_tokens)
    left = merging.blocks(merging.embed(normalize(images[:1], *stats))).shape[1]
    dropping.blocks = KeepSome(dropping.blocks, left - 1)
    at_random = with_merging(trained, r, merge_at_random)
    rows.append([r, left, *(accuracy(model, images) for model in (merging, at_random, dropping))])
table(
    rows,
    ["r", "tokens left", "merged (%)", "merged at random (%)", "dropped at the start (%)"],
    "test accuracy",
)

# %% [markdown] claim="rows[2][2] > rows[0][2] - 200 * error and rows[2][2] - rows[2][3] > 8 and rows[2][3] > rows[2][4]"
# Most tokens can go, if *similar* ones are merged. Random merging costs many points, and dropping costs more.
#
# With 65 tokens this saves little time, because finding the pairs costs time too. With a thousand tokens (ViT-L at 512 pixels) the
# authors measured twice the speed for a loss of 0.2 to 0.3 points.

# %% [markdown] curious
# ## 8. Where does a learned query look?
#
# We freeze the trained model, and only a reader learns, on the tokens of 500 images. It reads with your `attention_pool`. In the
# figure a patch is bright if its weight is large.

# %% tags=["nbval-ignore-output"]


@torch.no_grad()
def tokens_of(pictures):
    """Return the tokens (B, T, D) after the final norm of the frozen model."""
    return trained.norm(trained.blocks(trained.embed(normalize(pictures, *stats))))


torch.manual_seed(0)
dim, num_heads = trained.norm.normalized_shape[0], trained.blocks[0].attn.num_heads
reader = modern_parts.LearnedReader(dim, num_heads, len(dataset.classes), attention_pool)
shown = images[:4] if "Shapes-10" in dataset.provenance else shapes10(train=10, test=10).test_images[:4]
with torch.no_grad():
    before = reader(tokens_of(shown))[1]
reader.learn(
    tokens_of(dataset.train_images[:500]), dataset.train_labels[:500], profile.pick(smoke=3, cpu=60, gpu=60)
)
with torch.no_grad():
    after = reader(tokens_of(shown))[1]
    read_right = (reader(tokens_of(images))[0].argmax(dim=1) == labels).double().mean().item()
print(
    f"this reader: {percent(read_right)} of the test images, the model's own CLS: {accuracy(trained, images)} %"
)

# %% fold tags=["nbval-ignore-output"]
grid = (-1, *trained.patch_embed.grid_size)
lit = [modern_parts.lit_by_weights(shown, weights.reshape(grid)) for weights in (before, after)]
titles = ["before the first step"] * 4 + ["after training"] * 4
figure = plots.image_row([*lit[0], *lit[1]], titles, "What does the learned query read?", height=2)
plots.show(
    figure,
    "Four drawings twice. Before the first step all patches are equally bright. After training a few patches are bright, most of "
    "them on the shape or at its edge, and the rest is dark.",
)

# %% [markdown] claim=["before.std() < 1e-6", "after.topk(16, dim=1).values.sum(dim=1).mean() > 0.5"]
# A query of zeros gives equal weights, so the reader starts as the mean. Later a quarter of the patches gets more than half of the
# weight, often at the edge of the shape. Such a map shows what was read, and not why (lesson 09).

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# You normalise queries and keys with scales of 1, and d = 64. What is the largest possible logit q·k/sqrt(d)?
#
# - [x] 8 :: Both have the length sqrt(64) = 8 at most, so q·k is at most 64, and 64/8 = 8.
# - [ ] 1, because it is a cosine now :: That would be vectors of length 1. Variance 1 means length sqrt(d).
# - [ ] there is no limit, because the values may be large :: The values have no part in a logit.

# %% [markdown] quiz
# A model with 2-D RoPE alone reads an image, and then the same image moved by exactly one patch, with no border in
# sight. What happens to the scores between its patches?
#
# - [x] they move along :: Contents and offsets are the same. Only the places of the pairs have changed.
# - [ ] all of them change, because all angles do :: Both angles of a pair change by the same amount, and their difference stays.
# - [ ] nothing moves, because RoPE does not know places :: The offset decides, and the pairs are in other places now.

# %% [markdown] quiz
# A classmate turns the values as well. What is wrong with it?
#
# - [x] places get into the content :: A sum of values then mixes vectors turned by different angles, and nothing turns them back.
# - [ ] the scores no longer depend on the offset :: Scores come from queries and keys alone.
# - [ ] the values become longer, and the tokens with them :: A rotation keeps all lengths.

# %% [markdown] quiz
# A part adds 0.4 points here, and the 95 % interval is -0.3 to 1.1. What do you write?
#
# - [x] three seeds do not show a difference at this size :: The interval contains 0. A larger model may show one.
# - [ ] it helps by 0.4 points :: Chance alone could have made this difference.
# - [ ] it does nothing :: An effect of one point would fit these runs as well.

# %% [markdown] always claim="(lambda runs: fmean(r['held_out_accuracy'] for r in runs if r['step'] == 'base') - max(r['held_out_accuracy'] for r in runs if r['step'].startswith('adamw')) > 0.15)(load_records('trials'))"
# ## Recap
#
# | part | what it does | shape |
# |---|---|---|
# | QK-norm | queries and keys of variance 1, learned scales | (B, h, T, d), scales (d,) |
# | 2-D RoPE | turns pairs of q and k by row and column | angles (N, d/2) |
# | attention pooling | one learned query in each head reads the patches | query (h, d), weights (B, h, N) |
#
# - Patches, attention, MLP and residuals are in use unchanged. Most of the gain since 2021 came from recipes and data.
# - A new part helps where its trouble is. Ask for the trouble first.
# - Compare each model at its own best rate. A formula may be defined where the model was never trained.
#
# ## Further reading
#
# - Wang et al., *ViT-5: Vision Transformers for the Mid-2020s* (2602.08071): each part with and without.
# - Dehghani et al., *Scaling Vision Transformers to 22 Billion Parameters* (2302.05442): QK-norm; Wortsman et al., *Small-scale
#   proxies for large-scale Transformer training instabilities* (2309.14322): the same in small models.
# - Heo et al., *Rotary Position Embedding for Vision Transformer* (2403.13298): axial and mixed rotations.
# - Zhai et al., *Scaling Vision Transformers* (2106.04560): a ViT with attention pooling.
# - Bolya et al., *Token Merging: Your ViT But Faster* (2210.09461); Beyer et al., *FlexiViT* (2212.08013): one model for many
#   patch sizes.
# - Beyer et al., *Better plain ViT baselines for ImageNet-1k* (2205.01580): two pages on what a recipe can do.
#
# **Next.** Better parts are not what makes a small ViT learn fast. In ten minutes on one processor core, a plain ViT
# with AdamW ends more than fifteen points behind the *same* ViT with another optimiser. Lesson 16 shows why, and lets
# you race.
