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
#   - "Say what of the ViT of 2021 is in use unchanged, and which parts were added, and why."
#   - "Watch attention scores explode at a high learning rate, and stop them."
#   - "Turn queries and keys by place, and read tokens out with a learned query."
#   - "Say of a new part which trouble it is for, and whether that trouble is there at your size."
#   - "Read the configuration of a current model line by line, and build it from your parts."
# ---

# %% [markdown]
# ## 1. Is what I have built out of date?
#
# You open the configuration of a model of this year: `qk_norm`, `rope`, `init_values`, `num_reg_tokens`. None of these
# words is in the paper that you have built. Was it all for nothing?
#
# No. Trained on ImageNet alone, the paper's ViT-B/16 has 77.9 % (its Table 5, pictures of 384 pixels). DeiT III of 2022 has
# 83.8 % with nearly the same model, a better recipe and only 224 pixels. ViT-5 of 2026 (arXiv 2602.08071), which renewed most
# of the small parts, has 84.2 %, also at 224. The large step is the recipe; the step of the parts is small. The split is not clean:
# the sizes of the pictures differ, and DeiT III has one of the new parts already, LayerScale.
#
# > **Key idea.** A current model is still patches, attention, MLP and residuals. Most of the gain since 2021 came from recipes
# > and data. The newer parts buy other things: training that does not blow up, pictures of any size, speed.
#
# So we ask of each part: which trouble is it for, and **can we see that trouble at our size?** If not, we say so.

# %%
import time
from dataclasses import replace
from statistics import fmean

import torch
import torch.nn.functional as F
from IPython.display import display
from torch import nn

from vit_course.attention import split_heads
from vit_course.extensions.modern import at_resolution, modernize
from vit_course.extensions.transfer import resize_pictures
from vit_classroom import check, plots, table
from vit_classroom.numbers import number, percent
from vit_course.data import load_dataset, normalize, shapes10
from vit_classroom.evidence.records import caption, linear_classifier, load_records
from vit_course.extensions.trained import load_trained
from vit_classroom.evidence.changed_models import (
    largest_logits,
    resize_patch_kernel,
    with_merging,
    with_patch_size,
)
from vit_classroom.evidence.statistics import best_rate, by_step, difference_in_words, result_table
from vit_course.training.profiles import get_profile
from vit_course.recipes import RECIPES, build_model
from vit_course.train import evaluate, train
from vit_course.vit import create_vit

profile = get_profile()
dataset = load_dataset()
trained, info = load_trained("shapes-vit")
if tuple(dataset.classes) != tuple(info["classes"]):  # photographs, if they are here
    trained, info = load_trained("cifar-vit")
if tuple(dataset.classes) != tuple(info["classes"]):  # pictures of your own: no trained model fits them
    (trained, info), dataset = load_trained("shapes-vit"), shapes10(train=2000, test=2000)
dataset = dataset.subset(*profile.pick(smoke=(100, 40), cpu=(1000, 1000), gpu=(1000, 2000)))
stats = torch.as_tensor(info["mean"]), torch.as_tensor(info["std"])
images, labels = dataset.test_images, dataset.test_labels
error = (info["test_accuracy"] * (1 - info["test_accuracy"]) / len(labels)) ** 0.5


def recorded(group):
    """Read the recorded runs of a group and say where they come from."""
    runs = load_records(group)
    print(caption(runs))
    if line := linear_classifier(runs, load_records("pooling")):
        kept_back = ", the held-out ones too" if runs[0]["config"]["validation"] else ""
        print(f"one matrix on raw pixels, as many pictures{kept_back}: {fmean(line):.1f} %")
    return runs


def same_recipe(group, runs):
    """Read the runs of another group that were trained as long, with the same kind of model, as these."""
    return [
        run
        for run in load_records(group)
        if runs and (run["model"], run["config"]["epochs"]) == (runs[0]["model"], runs[0]["config"]["epochs"])
    ]


print(f"trained: {info['model']}, {len(trained.blocks)} blocks, {info['data'].partition(';')[0]}")
print(f"{len(labels)} test pictures: one standard error of an accuracy is {100 * error:.1f} points")

# %% [markdown] curious
# ## 2. Which parts came when, and for which trouble?
#
# | year | part | for which trouble | source (arXiv) |
# |---|---|---|---|
# | 2018 | attention pooling (Set Transformer) | reads a set out by a learned query | 1810.00825 |
# | 2019 | RMSNorm | a norm that neither subtracts the mean nor shifts | 1910.07467 |
# | 2020 | SwiGLU | an MLP with a gate | 2002.05202 |
# | 2021 | RoPE | scores that depend on the offset alone | 2104.09864 |
# | 2021 | a ViT read by attention pooling (Zhai et al.) | scaling up | 2106.04560 |
# | 2021 | LayerScale (CaiT) | very deep models: each branch starts small, by learned factors | 2103.17239 |
# | 2022 | DeiT III | the old model with LayerScale, three plain augmentations and binary cross-entropy | 2204.07118 |
# | 2022 | a better plain baseline | GAP, fixed sin-cos positions, batch 1024: over 76 % on ImageNet in 90 epochs, 80 % in 300 | 2205.01580 |
# | 2022 | token merging | speed, without training | 2210.09461 |
# | 2022 | FlexiViT | one model, many patch sizes | 2212.08013 |
# | 2023 | QK-norm (ViT-22B) | the loss diverged | 2302.05442 |
# | 2023 | SigLIP | a loss for pairs of picture and text; it reads out by attention pooling | 2303.15343 |
# | 2023 | EVA-02 | a plain ViT with rotary positions and a gated MLP (SwiGLU) | 2303.11331 |
# | 2023 | NaViT | pictures of all shapes, packed into one sequence | 2307.06304 |
# | 2023 | the same instability in small models | it appears at high learning rates | 2309.14322 |
# | 2023 | registers | a few patch tokens with huge norms | 2309.16588 |
# | 2024 | 2-D RoPE for ViTs | other resolutions | 2403.13298 |
# | 2025 | DINOv3 | a current family: RoPE, LayerScale, registers | 2508.10104 |
# | 2026 | ViT-5 | which of these parts belong together | 2602.08071 |
#
# Some are older than the ViT itself, and came into it later. What came with recipes and data fills lessons 07 to 13.

# %% [markdown]
# ## 3. Why did the largest model blow up?
#
# When a ViT was scaled towards 22 billion parameters, the loss diverged at 8 billion. The cause was in attention: its
# scores $q k^\top / \sqrt{d}$ (the **attention logits**) had grown so large that the softmax gave all its weight to one key.
# Such a softmax has hardly any gradient, so it cannot recover.
#
# A later study found the same trouble in *small* models at high learning rates. So we can look for it: a small ViT, AdamW at
# three rates, and after each epoch the largest logit of all layers.
#
# > **Predict.** At the start the largest logit is below 1. Where is it after six epochs at the highest of the rates: near
# > 5, near 50, or in the thousands?

# %% tags=["nbval-ignore-output"]
school = shapes10(train=profile.pick(smoke=100, cpu=1000, gpu=1000), test=100)
looked_at = normalize(school.test_images, *school.channel_stats())
epochs = profile.pick(smoke=1, cpu=6, gpu=6)


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


grown = {f"rate {rate:g}": logits_in_training(rate) for rate in (0.002, 0.016, 0.064)}
rows = [[name, *(round(value, 1) for value in values)] for name, values in grown.items()]
table(rows, ["largest logit", "start", *(f"epoch {i + 1}" for i in range(epochs))])

# %% [markdown] claim="grown['rate 0.002'][-1] < 20 and grown['rate 0.064'][-1] > 500 and grown['rate 0.016'][-1] > 5 * grown['rate 0.002'][-1]"
# The logits explode at the highest rate. If two scores differ by ten, the second key gets less than a 20,000th of the first
# one's weight, so with logits in the hundreds or thousands attention is a switch.
#
# The cure: make every query and every key a vector of mean 0 and variance 1 before they meet. This is **QK-norm**, a layer
# norm over the d numbers of one head. Learned scales let the model choose how sharp it wants to be.
#
# $$\hat q = \frac{q - \bar q}{\sqrt{\mathrm{var}(q) + \epsilon}} \odot s_q, \qquad \hat k = \frac{k - \bar k}{\sqrt{\mathrm{var}(k) + \epsilon}} \odot s_k$$
#
# q and k are (B, h, T, d), mean and variance run over d, and $s_q$, $s_k$ are (d,). With scales of 1 a vector has length
# $\sqrt{d}$, so no logit can exceed $\sqrt d\,\sqrt d / \sqrt d = \sqrt d$.
#
# **Your task.** Write `qk_norm`. It stands between `split_heads` and attention: q, k and v come in and go out.

# %% exercise="vit_course.extensions.modern:qk_norm" difficulty=1 minutes=6 hint="It is `layer_norm` of lesson 05, over the last axis, with a scale and without a shift. Two of the three tensors go through it." hint2="`F.layer_norm(x, x.shape[-1:], scale, eps=eps)` does all of it for x = q and x = k. By hand: subtract `x.mean(-1, keepdim=True)`, divide by the root of `x.var(-1, unbiased=False, keepdim=True) + eps`."
from vit_course.extensions.modern import qk_norm

qk_norm = check(qk_norm)

# %%
torch.manual_seed(0)
q, k, v = 30 * torch.randn(3, 1, 1, 65, 64)  # (B, h, T, d), as long as after a wild training
ones = torch.ones(64)
normed_q, normed_k, _ = qk_norm(q, k, v, ones, ones)
for name, a, b in (("as they are", q, k), ("normed", normed_q, normed_k)):
    logits = a @ b.mT / 64**0.5
    top = logits.softmax(dim=-1).amax(dim=-1).mean().item()
    print(f"{name:12} largest logit {number(logits.max().item())}, largest weight in a row {percent(top)}")

# %% [markdown]
# Now the same training with QK-norm in each block. `modernize` puts parts into a finished model.

# %% tags=["nbval-ignore-output"]
kept = {f"rate {rate:g}": logits_in_training(rate, qk_norm=True) for rate in (0.002, 0.016, 0.064)}
rows = [[name, grown[name][-1], kept[name][-1]] for name in grown]
table(rows, ["after training", "largest logit, usual", "largest logit, QK-norm"])

# %% [markdown] claim="all(kept[rate][-1] < 30 for rate in kept) and kept['rate 0.064'][-1] < grown['rate 0.064'][-1] / 10"
# At the two high rates QK-norm holds them down. The limit is $\sqrt d$, here $\sqrt{96/3}$ = 5.7, and only the learned scales
# lift them above it. But calm logits are only a means. Does the *accuracy* gain? That takes longer runs on CIFAR-10, with
# AdamW, three seeds a setting:

# %% tags=["nbval-ignore-output"]
runs = recorded("qk-norm")
usual = [run for run in same_recipe("pooling", runs) if run["step"] == "token-0.002"]
if runs and usual:
    results = {"usual-0.002": by_step(usual)["token-0.002"], **by_step(runs)}
    display(table(*result_table(dict(sorted(results.items())), "usual-0.002")))
    for rate in ("0.008", "0.032"):
        pair = [results[f"{kind}-{rate}"] for kind in ("normed", "usual")]
        print(difference_in_words(f"rate {rate}: QK-norm", pair[0], "usual", pair[1]))

# %% [markdown] claim=["not usual or all(results[f'normed-{rate}'] and min(results[f'normed-{rate}']) > max(results[f'usual-{rate}']) for rate in ('0.008', '0.032'))", "not usual or 'undecided' in difference_in_words('', results['normed-0.002'], '', results['usual-0.002'])", "not usual or fmean(results['usual-0.008']) < fmean(linear_classifier(runs, load_records('pooling')))", "not usual or 'undecided' in difference_in_words('', results['normed-0.008'], '', results['usual-0.002'])", "not usual or 0.4 < fmean(results['usual-0.032']) / fmean(linear_classifier(runs, load_records('pooling'))) < 0.6", "not usual or ('undecided' not in difference_in_words('', results['normed-0.032'], '', results['usual-0.002']) and 3 < fmean(results['usual-0.002']) - fmean(results['normed-0.032']) < 8)"] always
# QK-norm brings no gain that we can see at the usual rate, .002; it saves the model at higher ones. At four times the rate the
# usual model is already below one matrix on raw pixels, and at sixteen times it has about half of that matrix's score. With
# QK-norm, four times costs nothing that three seeds can show, and sixteen times a few points. So the part brings *room*: for
# rates that are too high, and for large models. Of the seven comparisons above, chance alone would decide .35 on average.
#
# > **Trap.** "With QK-norm I can train at four times the rate" is no gain by itself. Compare each model at its own best rate.
# > For QK-norm we have not found it: the lowest rate tried is the best, so by lesson 10's rule the sweep goes on below .002.

# %% [markdown]
# ## 4. Where is a patch, if the picture has another size?
#
# A learned table fits *one* grid. For another size we stretch it. How well does that work, without more training?
# The third column is a control: the same pictures, resized and then brought back to 32 pixels.

# %% tags=["nbval-ignore-output"]


def accuracy(model, pictures):
    """Score pictures (N, C, H, W) on the test labels, in percent."""
    return round(100 * evaluate(model, pictures, labels, stats)[0], 1)


def resized(side, pictures=dataset):
    """Return the data set with pictures of this side."""
    return resize_pictures(pictures, side)


rows = [
    [side, accuracy(at_resolution(trained, side), resized(side).test_images),
     accuracy(trained, resized(32, resized(side)).test_images)]
    for side in (24, 32, 40, 48)
]  # fmt: skip
table(rows, ["side in pixels", "positions stretched, accuracy in %", "control: back at 32 pixels"])

# %% [markdown] claim="all(rows[i][2] - rows[i][1] > 8 for i in (0, 3))"
# Stretching costs the model a lot at 24 and 48 pixels, and the control says that the pictures are not to blame: objects have
# another size in patches, and positions lie between those that it knows.
#
# What should a score know about place? Mostly the *offset*: "two patches to the right of me". The **rotary position
# embedding** (RoPE) builds this in. Take two of the d numbers of a query as a point in a plane, and rotate it by an angle
# that grows with the place of its patch. Do the same with the keys. Turning keeps both lengths, and changes the angle
# *between* the two by the difference of the places alone:
#
# $$\langle R(m)\,q,\; R(n)\,k \rangle = \langle q,\; R(n - m)\,k \rangle$$
#
# R(m) turns by the angle m·w. The d numbers make d/2 such pairs. Half of them turn by the row, r·w, the other half by the
# column, c·w. In each half the pairs have the same **frequencies** w, from fast to slow:
# $w_j = \tau^{-j/(d/4)}$, j = 0 ... d/4 - 1, where τ is a number, the temperature. A pair (a, b) becomes
#
# $$(a \cos\varphi - b \sin\varphi,\;\; a \sin\varphi + b \cos\varphi)$$
#
# Nothing is learned, and the formula goes on for any grid. CLS has no place, so it is not turned. Nor are the values: place
# decides *who attends to whom*, not what is passed on.
#
# On paper, one pair with w = 1: a query (1, 0) in column 0 and a key (1, 0) in column 2, which is turned to (cos 2, sin 2).
# Their product is cos 2 = -0.42. In columns 5 and 7: cos 5·cos 7 + sin 5·sin 7 = cos 2 again.
#
# **Your task.** Write `rope_2d`. The frequencies are given. You may choose which numbers form a pair; the check asks for what a
# rotation must keep.

# %% exercise="vit_course.extensions.modern:rope_2d" difficulty=3 minutes=14 hint="Make a table of angles (N, d/2): for each patch the row times the frequencies, beside it the column times the frequencies. Put rows of zeros in front for the prefix tokens: an angle of 0 turns nothing. Then turn q and k." hint2="Rows are `torch.arange(rows).repeat_interleave(columns)`, columns `torch.arange(columns).repeat(rows)`. `F.pad(angles, (0, 0, num_prefix_tokens, 0))` adds the zeros. With `a, b = x.chunk(2, dim=-1)` the pairs are (i, i + d/2): `torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)`."
from vit_course.extensions.modern import rope_2d

rope_2d = check(rope_2d)

# %% [markdown]
# Take one vector as query *and* key of all patches: without rotation all scores would be equal. How do they look now?

# %% fold
torch.manual_seed(0)
everywhere = torch.randn(1, 1, 1, 32).expand(1, 1, 65, 32)
turned_q, turned_k, _ = rope_2d(everywhere, everywhere, everywhere, (8, 8))
scores = (turned_q @ turned_k.mT)[0, 0, 1:, 1:].reshape(8, 8, 8, 8)
places = [(2, 2), (4, 5), (7, 0)]
figure = plots.heat_maps(
    [scores[place] for place in places],
    [f"query at {row}, {column}" for row, column in places],
    "Where does one query look?",
    "score q·k",
    xlabel="column",
    ylabel="row",
)
plots.show(
    figure, "Three 8 by 8 maps of scores: the same pattern each time, moved with the place of the query."
)

# %% [markdown] claim="torch.allclose(scores[2, 2][1:, 1:], scores[1, 1][:-1, :-1], atol=1e-3)" always
# The same pattern moves along with the query: only the offset counts. (Row and column of the query stand above each map.)
#
# Rotations need a training of their own: three models with a table and three with rotations alone, trained on CIFAR-10 at 32
# pixels and scored at four sizes. The table is *stretched*. The rotations may *go on counting*, to places never met in
# training; or they are *stretched* too: on a grid of 12 rows they count in steps of 8/12.
#
# > **Predict.** At 48 pixels, which is best: the table, rotations that go on counting, or stretched ones?

# %% tags=["nbval-ignore-output"]
runs = recorded("rope")
results = {}
for run in runs:
    for side, share in run["resolutions"].items():
        results.setdefault((run["step"], side), []).append(100 * share)
for side in ("24", "32", "40", "48"):
    for key in (side, f"{side} stretched"):
        print(difference_in_words(f"RoPE, {key}", results["rope", key], "table", results["learned", side]))

# %% [markdown] claim=["max(results['rope', '48']) < min(results['learned', '48']) and min(results['rope', '48 stretched']) > max(results['learned', '48'])", "all(min(results['rope', f'{side} stretched']) > max(results['rope', side]) for side in ('24', '40', '48')) and results['rope', '32 stretched'] == results['rope', '32']", "['undecided' in difference_in_words('', results['rope', key], '', results['learned', key[:2]]) for key in ('24', '24 stretched', '32', '40', '40 stretched', '48', '48 stretched')] == [False, True, True, True, True, False, False]", "['undecided' in difference_in_words('', [a - b for a, b in zip(results['rope', key], results['learned', key[:2]])], '', [0, 0, 0]) for key in ('24', '24 stretched', '32', '40', '40 stretched', '48', '48 stretched')] == [True, True, True, True, True, False, True]"] always
# The same weights lose and win. At 48 pixels rotations that go on counting are seven points below the table, and stretched ones
# three above it. Stretching helps at 24 and 40 pixels, too, and changes nothing at 32. So what was met in training counts, not
# that a formula is defined everywhere. DINOv3 stretches: it counts from -1 to 1 on every grid.
#
# How sure is that? Against the table one more is decided, 24 pixels without stretching, and its interval just misses 0. (Seed s
# picks the same pictures for both models. In pairs, 24 would be undecided, and the gain at 48 too, by a hair: the two verdicts
# printed here that would turn.) Heo et al. (2403.13298) find that RoPE does well even where it goes on counting; their models
# are larger and train for longer.

# %% [markdown]
# ## 5. Who reads the result?
#
# Lesson 02 had two ways to read out the result: the CLS token, which takes part in all layers, and the mean over the patches
# (GAP). There is a third one. After the last layer, one *learned* query q attends to all patch tokens:
#
# $$y = \sum_i a_i\, v_i, \qquad a = \mathrm{softmax}\!\left(\frac{q\,k^\top}{\sqrt d}\right)$$
#
# k and v are (N, d) for each head, a has N weights. This is **attention pooling** (Set Transformer, 1810.00825; in a ViT
# Zhai et al., 2106.04560). With q = 0 all weights are equal: the mean.
#
# **Your task.** Write `attention_pool`, for all heads at once. It leaves out the prefix tokens.

# %% exercise="vit_course.extensions.modern:attention_pool" difficulty=1 minutes=6 hint="Cut the prefix tokens off k and v. The score of a patch is the product of its key with the query of the same head. Over which axis do the weights of one head sum to 1?" hint2="`scores = (k * query[:, None]).sum(-1) * query.shape[-1] ** -0.5` is (B, h, N), then `softmax(dim=-1)`, then `(weights[..., None] * v).sum(dim=-2)`."
from vit_course.extensions.modern import attention_pool

attention_pool = check(attention_pool)

# %% [markdown]
# Is it better? Three readers on CIFAR-10, each at its own best rate, chosen on held-out pictures:

# %% tags=["nbval-ignore-output"]
runs = recorded("attention-pool")
others = same_recipe("pooling", runs)
if runs and others:
    results = {}
    for name, reader in (("token", "CLS"), ("avg", "GAP"), ("attention", "attention")):
        own = [run for run in [*others, *runs] if run["step"].startswith(f"{name}-")]
        held_out = {}
        for run in own:
            held_out.setdefault(run["config"]["lr"], []).append(100 * run["val_accuracy"][-1])
        best, at_edge = best_rate(held_out)
        edge = ", at the edge of the sweep" if at_edge else ""
        results[reader] = [100 * run["test_accuracy"] for run in own if run["config"]["lr"] == best]
        print(f"{reader}: best rate {best:g}{edge}; {own[0]['parameters']:,} parameters")
    display(table(*result_table(results, "CLS")))
    print(difference_in_words("attention", results["attention"], "GAP", results["GAP"]))

# %% [markdown] claim="not (runs and others) or all('undecided' in difference_in_words('', results[one], '', results[two]) for one, two in (('attention', 'CLS'), ('attention', 'GAP'), ('GAP', 'CLS')))" always
# No pair is decided: nothing shows at this size that attention pooling helps.

# %% [markdown] curious
# ## 6. Where does a learned query look?
#
# We freeze the trained model and let only a reader learn: query, keys, values and a head, on the tokens of 500 pictures. The
# maps below show drawings, even if the model has learned photographs.
#
# > **Predict.** The query starts at zero. Which map does the reader have before its first step?

# %% tags=["nbval-ignore-output"]


@torch.no_grad()
def tokens_of(pictures):
    """Return the tokens (B, T, D) after the final norm of the frozen model."""
    return trained.norm(trained.blocks(trained.embed(normalize(pictures, *stats))))


torch.manual_seed(0)
learning, answers = tokens_of(dataset.train_images[:500]), dataset.train_labels[:500]
dim, num_heads = learning.shape[-1], trained.blocks[0].attn.num_heads
query = nn.Parameter(torch.zeros(num_heads, dim // num_heads))
to_kv, head = nn.Linear(dim, 2 * dim), nn.Linear(dim, len(dataset.classes))


def read(tokens):
    """Return scores (B, K), and the weights (B, h, N) by which the tokens were read."""
    pooled, weights = attention_pool(
        query, *(split_heads(x, num_heads) for x in to_kv(tokens).chunk(2, dim=-1))
    )
    return head(pooled.flatten(1)), weights


optimizer = torch.optim.AdamW([query, *to_kv.parameters(), *head.parameters()], lr=3e-3)
for _ in range(profile.pick(smoke=3, cpu=60, gpu=60)):
    optimizer.zero_grad()
    F.cross_entropy(read(learning)[0], answers).backward()
    optimizer.step()
with torch.no_grad():
    scores, weights = read(tokens_of(images))
right = (scores.argmax(dim=1) == labels).double().mean().item()
print(
    f"this reader: {percent(right)} of the test pictures; the model's own CLS: {percent(accuracy(trained, images) / 100)}"
)

# %% fold tags=["nbval-ignore-output"]
shown = shapes10(train=10, test=60)
picked = shown.test_images[:4]
with torch.no_grad():
    maps = read(tokens_of(picked))[1].mean(dim=1).reshape(4, *trained.patch_embed.grid_size)
figure = plots.overlay_rows(picked, {"weights": maps}, "What does the learned query read?")
plots.show(figure, "Four drawings, and below each the weights of the query over the patches.")

# %% [markdown]
# Before the first step the map was flat: a mean. Do the weights follow the shape or the background? A map of weights is no
# explanation, as lesson 09 showed; it says what was read, not why.

# %% [markdown] curious
# ## 7. Must all tokens go all the way?
#
# Many patches show the same blue sky. **Token merging** takes a *trained* model and merges, in each block, the r most similar
# pairs of tokens, without any training.
#
# Which pairs? Patch tokens at even places are **sources**, those at odd places **targets**. Each source finds the target
# whose *key* is most like its own, by the cosine. The r best sources move into their targets.
#
# On paper, with CLS at place 0, six patches, r = 2:
#
# | place | 1 | 2 | 3 | 4 | 5 | 6 |
# |---|---|---|---|---|---|---|
# | role | target | source | target | source | target | source |
# | key | (1, 1) | (0, 2) | (0, 1) | (0.1, 5) | (-1, 0) | (1, -1) |
# | size | 1 | 3 | 1 | 2 | 1 | 1 |
#
# Sources 2 and 4 both point where target 3 points, so both go into it. The new token at place 3 stands for 3 + 1 + 2 = 6
# patches: the mean of the three, *weighted with their sizes*. Place 6 stays. Beware: where two go into one, an assignment by
# a list of places keeps only one of them.
#
# **Your task.** Write `merge_tokens`.

# %% exercise="vit_course.extensions.modern:merge_tokens" difficulty=3 minutes=15 hint="`sources` and `targets` are lists of places, and are given. Normalise the keys, take all products source by target, and `max` over the targets gives likeness and partner of each source. `topk` finds the r that go. Then sums: multiply tokens with sizes, add sources to targets, divide by the new sizes." hint2="`gone = sources[chosen]` and `into = targets[nearest.gather(1, chosen)]` are (B, r). `sizes.scatter_add(1, into, sizes.gather(1, gone))` adds several sources to one target; for tokens expand the places to (B, r, D). A mask of True, with `scatter(1, gone, False)`, keeps the rest: `merged[mask].reshape(B, T - r, D)`."
from vit_course.extensions.modern import merge_tokens

merge_tokens = check(merge_tokens)

# %% [markdown]
# Now in the trained model. A token that stands for s patches should count s times as a key, so log s joins its scores
# (`with_merging` does it). Two controls belong to the measurement. *Random merging* merges as many tokens, chosen by random
# keys: does likeness matter? *Dropping* throws random patches away at the start, as many as are missing at the end: does
# merging matter?
#
# > **Predict.** 64 patches, six blocks. How many can go before the accuracy falls by more than two standard errors?

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


def tokens_left(r):
    """Count the tokens after the last block."""
    merging = with_merging(trained, r, merge_tokens)
    return merging.blocks(merging.embed(normalize(images[:1], *stats))).shape[1]


@torch.no_grad()
def seconds_of(model):
    """Return the time of the fastest of three passes over 200 pictures: other work can only slow them down."""
    batch, times = normalize(images[:200], *stats), []
    for _ in range(3):
        start = time.perf_counter()
        model(batch)
        times.append(time.perf_counter() - start)
    return min(times)


rows = []
for r in (0, 4, 6, 8, 10):
    model = with_merging(trained, r, merge_tokens)
    left, found = tokens_left(r), accuracy(model, images)
    at_random = accuracy(with_merging(trained, r, merge_at_random), images)
    dropping = with_merging(trained, 0, merge_tokens)
    dropping.blocks = KeepSome(dropping.blocks, left - 1)
    rows.append([r, left, found, at_random, accuracy(dropping, images), seconds_of(model)])
table(
    rows,
    [
        "r",
        "tokens left",
        "merged, accuracy in %",
        "merged at random",
        "dropped at the start",
        "seconds for 200",
    ],
)

# %% [markdown] claim="rows[2][2] > rows[0][2] - 200 * error and rows[2][2] - rows[2][3] > 8 and rows[2][3] > rows[2][4]"
# Most of the tokens can go, if *similar* ones are merged: merging at random costs a lot, and dropping, which starts at once,
# more. This is one model, so there are no seeds to compare; take two standard errors of section 1 as your measure.
#
# The last column: fewer tokens mean less to compute, but finding the pairs costs time. With a thousand tokens (ViT-L at 512
# pixels has 1,024) the authors measured twice the speed for .2 to .3 points.

# %% [markdown] curious
# ## 8. Can one model have patches of another size?
#
# Double the side of a picture, and double the side of the patches: the grid stays, so the positions fit. Only the kernel of
# the patch embedding must grow, from 4x4 to 8x8. Stretch it like a picture?
#
# Then each token sums four times as many pixels, and all tokens are four times too large. Divided by four is better. What
# we want is exact: the large kernel on the enlarged patch should give what the small one gave on the small patch. Enlarging
# is a matrix B, so $\langle Bx, \hat w\rangle = \langle x, w\rangle$ for all x, which is $B^\top \hat w = w$. The
# **pseudo-inverse** solves it (FlexiViT): $\hat w = (B^\top)^{+} w$.


# %% tags=["nbval-ignore-output"]
def stretched(weight, side):
    return F.interpolate(weight, (side, side), mode="bicubic", antialias=True)


large = resized(64).test_images
ways = {
    "stretched": stretched,
    "stretched, divided by 4": lambda weight, side: stretched(weight, side) / 4,
    "pseudo-inverse": resize_patch_kernel,
}
rows = [["as it was, 32 pixels", accuracy(trained, images)]]
rows += [[name, accuracy(with_patch_size(trained, 8, way), large)] for name, way in ways.items()]
table(rows, ["kernel", "accuracy in %"])

# %% [markdown] claim="rows[1][1] < rows[0][1] - 8 and rows[3][1] > rows[1][1] + 8"
# A kernel that is only stretched costs many points. Do the last two rows differ by more than two standard errors? Smooth drawings
# have little fine detail, so a quarter is nearly right; and the exact way is exact only for patches that are enlarged one by one.
#
# FlexiViT draws another patch size for each batch of its training, and resizes one stored kernel in this way: one model
# can run fast or accurately. NaViT goes further. It packs the patches of several pictures into one sequence, and a mask
# keeps them from seeing each other, so no picture has to be made square.

# %% [markdown] curious
# ## 9. What can we not see here?
#
# **Registers.** In large models about 2 % of the patch tokens have huge norms: the model uses patches of empty
# background as a scratch pad, and maps of attention get spots (2309.16588). The cure is a few more learned tokens,
# **registers**, which every token may use and the head never reads. Has our model such tokens?

# %% tags=["nbval-ignore-output"]
rows = []
with torch.no_grad():
    z = trained.embed(normalize(images[:200], *stats))
    for layer, block in enumerate(trained.blocks):
        z = block(z)
        norms = z[:, 1:].norm(dim=-1)
        rows.append([layer, norms.median().item(), (norms.max() / norms.median()).item()])
table(rows, ["block", "median norm of patch tokens", "largest norm / median"])

# %% [markdown] claim="all(row[2] < 3 for row in rows)"
# No: in the paper the outliers are about ten times as long as other tokens, and here the longest is not three times the median.
# Registers would have nothing to take over. That is a result, too: a cure needs an illness.
#
# **LayerScale** multiplies what a branch adds by learned factors that start near zero. It was made for models of 24 blocks
# and more; the trained one here has six. **SwiGLU** gives the MLP a gate, silu(x·W₁)·(x·W₂); ViT-5 leaves it out, because a gate on top of
# LayerScale was too much. **RMSNorm** saves a subtraction.
#
# **Muon** is no part of the model but an optimiser for its matrices, which makes all directions of a step equally large. A
# study with standard vision recipes finds it ahead of AdamW on ViTs (2605.24770), most of all under strong augmentation. The
# trap of any such comparison is a learning rate that was searched for one side alone. Lesson 16 opens Muon up.

# %% [markdown]
# ## 10. Can I read a current model now?
#
# DINOv3, ViT-S+/16 (2508.10104), as timm 1.0.31 lists it. (LayerScale, the gate and registers: see section 9.)
#
# | line | what it says | lesson |
# |---|---|---|
# | `patch_size=16`, `embed_dim=384`, `depth=12`, `num_heads=6` | P, D, L, h: a ViT-S | 01, 06 |
# | `qkv_bias=False` | q, k, v without bias | 04 |
# | `init_values=1e-5` | LayerScale, factors before training | 15 |
# | `use_abs_pos_emb=False`, `use_rot_pos_emb=True` | no table; 2-D RoPE | 03, 15 |
# | `rope_temperature=100`, `rope_rotate_half=True` | τ; pairs are (i, i + d/2), as in our solution | 15 |
# | `swiglu_mlp=True` | the MLP with a gate | 15 |
# | `num_reg_tokens=4` | registers after CLS | 15 |
# | `norm_layer=LayerNorm` | lesson 05's | 05 |
#
# > **Predict.** A plain ViT-S/16 has 22 million parameters. Which of these lines makes the model larger, and by how much?

# %%
plain = create_vit("S/16", img_size=224, num_classes=1000)
parts = {"rope": True, "layer_scale": 1e-5, "gated_mlp": True, "registers": 4, "qkv_bias": False}
current = modernize(create_vit("S/16", img_size=224, num_classes=1000, pos_embed="none"), **parts).eval()


def count(model):
    """Count the parameters of a model."""
    return sum(p.numel() for p in model.parameters())


per_block = {name: count(model.blocks[0].mlp) for name, model in (("plain", plain), ("current", current))}
rows = [
    ["ViT-S/16 of 2021", count(plain), per_block["plain"]],
    ["ViT-S+/16 of 2025, our parts", count(current), per_block["current"]],
]
print("logits:", tuple(current(torch.zeros(1, 3, 224, 224)).shape))
table(rows, ["model", "parameters, with 1000 classes", "of them in one MLP"])

# %% [markdown] claim="abs(12 * (per_block['current'] - per_block['plain']) / (count(current) - count(plain)) - 1) < 0.05" always
# All of it is the gate, a third matrix in each MLP; the other parts together take a little away. A test of this course compares
# the number with timm's own model; they agree. What a count does not show: DINOv3 measures rows and columns from -1 to 1, and
# we count them; its norms have ε = 1e-5; and timm reads the mean of its patches.
#
# ViT-5 in the same words: `modernize(model, qk_norm=True, rope=True, layer_scale=1e-4, rms_norm=True, registers=4,
# qkv_bias=False)`, with its table of positions kept *besides* RoPE, and the MLP of 2021.
#
# **Your next step.** The parts were the small step of section 1. The large one was training: lesson 16 makes a ViT learn in
# minutes. And mostly you need not train at all: lesson 17 takes a model that others have trained. Or stay here: take one part,
# write down what you expect at this size, and run it against the base with three seeds, each at its own rate.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# You normalise queries and keys with scales of 1, d = 64. What is the largest possible logit q·k/sqrt(d)?
#
# - [x] 8 :: Both have length sqrt(64) = 8 at most, so q·k is at most 64, and 64/8 = 8.
# - [ ] 1, it is a cosine now :: That would be vectors of length 1. Variance 1 means length sqrt(d).
# - [ ] there is none: the values may be large :: The values have no part in a logit.

# %% [markdown] quiz
# A model with 2-D RoPE alone reads a picture, and then the same picture moved by exactly one patch, with no border in
# sight. What happens to the scores between its patches?
#
# - [x] they move along :: Contents and offsets are the same, only the places of the pairs have changed.
# - [ ] all of them change, since all angles do :: Both angles of a pair change by the same amount, and their difference stays.
# - [ ] nothing moves: RoPE does not know places :: The offset decides, and the pairs stand elsewhere now.

# %% [markdown] quiz
# A classmate turns the values as well. What is wrong with it?
#
# - [x] place gets into the content :: A sum of values then mixes vectors turned by different angles, and nothing turns them back.
# - [ ] the scores no longer see the offset :: Scores come from queries and keys alone.
# - [ ] the values become longer :: A rotation keeps all lengths.

# %% [markdown] quiz
# A model trained at 32 pixels loses twenty points on pictures resized to 48. Which control tells whether *the model* is the
# reason, or the pictures?
#
# - [x] the same pictures, brought back to 32 :: If these score as before, resizing has destroyed nothing that the model needs.
# - [ ] more test pictures of 48 pixels :: They make the loss more certain, and say nothing about its reason.
# - [ ] the same test with another seed :: Seeds say how much chance there is, and nothing about the reason.

# %% [markdown] quiz
# A part brings +0.4 points here, 95 % interval -0.3 to +1.1. What do you write?
#
# - [x] not seen at this size :: The interval holds 0: these runs cannot tell. A larger model may.
# - [ ] it helps by 0.4 points :: Chance alone could have made it.
# - [ ] it does nothing :: An effect of one point would fit as well.

# %% [markdown]
# ## Recap
#
# | part | what it does | shape |
# |---|---|---|
# | QK-norm | queries and keys of variance 1, learned scales | (B, h, T, d), scales (d,) |
# | 2-D RoPE | turns pairs of q and k by row and column | angles (N, d/2) |
# | attention pooling | one learned query in each head reads the patches | query (h, d), weights (B, h, N) |
# | token merging | r similar tokens fewer in each block | (B, T, D) to (B, T - r, D) |
# | LayerScale | learned factors on each branch | (D,) |
# | registers | more tokens like CLS, not read by the head | (1, 1 + n, D) |
#
# - Patches, attention, MLP and residuals are in use unchanged. Newer parts buy stability, resolution and speed.
# - Ask for the trouble first. A cure without the illness shows nothing, and that is worth saying.
# - A comparison needs its control: the best rate of each side, pictures resized and back, tokens merged at random.
#
# ## Further reading
#
# - Wang et al., *ViT-5: Vision Transformers for the Mid-2020s* (2602.08071): each part with and without.
# - Dehghani et al., *Scaling Vision Transformers to 22 Billion Parameters* (2302.05442): QK-norm; Wortsman et al., *Small-scale
#   proxies for large-scale Transformer training instabilities* (2309.14322): the same in small.
# - Heo et al., *Rotary Position Embedding for Vision Transformer* (2403.13298): axial and mixed rotations.
# - Bolya et al., *Token Merging: Your ViT But Faster* (2210.09461); Beyer et al., *FlexiViT* (2212.08013).
# - Beyer et al., *Better plain ViT baselines for ImageNet-1k* (2205.01580): two pages on what a recipe can do.
