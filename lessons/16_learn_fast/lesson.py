# ---
# title: "Learn fast"
# promise: "Make a plain ViT learn faster, then enter a three-minute race."
# part: "IV. Now use it"
# map: [embed, position]
# recall:
#   "07.2": "A trick gains 0.3 points with three seeds, 95 % interval -0.4 to +1.0. What may you say about it?"
#   "07.3": "The learning rate is zero after a third of all steps, by mistake. What do you see in the curves?"
#   "09.2": "After training, the filters of the patch embedding still look like noise. What can you say?"
# goals:
#   - "Compare two ways to train at equal cost, and say what one run can and cannot show."
#   - "Look at the singular values of a gradient, and say what Muon does to them and why."
#   - "Leave tokens out during the first part of a training, and say what that saves."
#   - "Read from one figure which of forty tricks made a ViT learn faster."
#   - "Train a ViT for three minutes with settings of your own, and defend them."
# ---

# %% [markdown]
# ## 1. What can a ViT learn while you wait?
#
# The longest run of this course took hours. You have one hour. The model has hardly changed since 2021 (lesson 15),
# but training has. Which changes make a ViT learn fast?
#
# To compare changes you need a price. Seconds of the clock are a bad price, because your laptop may have eight cores and your
# neighbour's four. We count **core-minutes**, the minutes of work summed over all cores that did it.
#
# > **Key idea.** Compare at equal cost. A change that is better after every epoch, but makes each epoch twice as long, may be worse.
#
# Settings are chosen on **held-out images**, which are training images that no model learns from. The test images choose nothing.

# %%
from statistics import fmean

import torch
import torch.nn.functional as F
from IPython.display import display

from vit_classroom import check, plots, race, table
from vit_classroom.evidence.gains import gains
from vit_classroom.evidence.records import caption, load_records
from vit_classroom.exhibits import learn_fast
from vit_classroom.numbers import number, percent
from vit_classroom.profiles import get_profile
from vit_course.data import load_dataset, normalize, shapes10
from vit_course.optim import SCHEDULES
from vit_course.patches import patchify
from vit_course.recipes import build_model
from vit_course.train import evaluate

profile = get_profile()
dataset = load_dataset("auto", multiple_of=16)
part = dataset.subset(*profile.pick(smoke=(300, 100), cpu=(None, None), gpu=(None, None)))
part = part.hold_out(len(part.train_labels) // 10)
pictures, labels, stats = part.train_images, part.train_labels, part.channel_stats()
print(f"{len(labels):,} images to learn from, {len(part.test_labels):,} held out\n({dataset.provenance})")

# %%
trials = load_records("trials")
base = [run for run in trials if run["step"] == "base"]
cost = min(run["cpu_seconds"] for run in base) / 60
found = ", ".join(percent(run["held_out_accuracy"]) for run in base)
print(f"recorded: {base[0]['parameters']:,} parameters, {cost:.1f} core-minutes, held-out accuracy {found}")
print(caption(trials))

# %% [markdown] always claim="9 < cost < 11 and all(run['held_out_accuracy'] > 0.7 for run in base)"
# This is where the lesson leads. After ten minutes of one core, a plain ViT classifies seven of ten photos of CIFAR-10 correctly.
#
# ## 2. In which directions does a step go?
#
# The gradient of a weight matrix is a matrix too, G. Any matrix can be written as $G = U S V^\top$, its **singular value
# decomposition**. The columns of U and V are directions of length 1 at right angles. S has a strength for each pair of them, the
# **singular value**. How different are the strengths? We train a small ViT for a few steps and keep the running mean of one gradient,
# the **momentum**.
#
# > **Predict.** The matrix has 96 directions. How many of them contain nine tenths of the gradient (of its squared length)?

# %% tags=["nbval-ignore-output"]
torch.manual_seed(0)
small = build_model("Nano/8", part)
matrix = small.blocks[2].mlp.fc1.weight  # (4D, D)
optimizer = torch.optim.AdamW(small.parameters(), lr=1e-3)
mean = torch.zeros_like(matrix)
for _ in range(profile.pick(smoke=3, cpu=40, gpu=40)):
    chosen = torch.randint(len(labels), (64,))
    optimizer.zero_grad()
    F.cross_entropy(small(normalize(pictures[chosen], *stats)), labels[chosen]).backward()
    optimizer.step()
    mean = 0.95 * mean + 0.05 * matrix.grad

strengths = torch.linalg.svdvals(mean)
shares = strengths.square() / strengths.square().sum()
holding = int((shares.cumsum(0) < 0.9).sum()) + 1
print(f"{tuple(mean.shape)}: {holding} of {len(shares)} directions contain 90 % of the gradient")

# %% [markdown] claim="holding < len(shares) / 4"
# A few directions contain nearly all of it. A step along G goes far in these few, and hardly moves in all the others.
#
# **Muon** (Jordan et al., 2024) makes all directions equally strong. It wants $U V^\top$, in which every singular value is 1. Such a
# matrix is called **orthogonal** (semi-orthogonal, if it is not square). A decomposition in every step would be slow, but a
# polynomial is fast:
#
# $$X \leftarrow a X + b\,(X X^\top) X + c\,(X X^\top)^2 X$$
#
# What does it do to $X = U S V^\top$? Because $V^\top V = I$, we get $X X^\top = U S^2 U^\top$. So U and V stay, and each singular
# value s becomes $a s + b s^3 + c s^5$. With the right a, b and c, five rounds (**Newton-Schulz**) lift small values and keep large
# ones near 1. For example, s = 0.1 becomes 3.4445 · 0.1 - 4.7750 · 0.001 + 2.0315 · 0.00001 = 0.34, and after one more round 0.99.
#
# > **Trap.** This polynomial blows up where s is above about 1.3. Divide first, so that no singular value is above 1.
#
# **Your task.** Write `newton_schulz` with matrix products, sums and one norm, and without a decomposition.

# %% exercise="vit_course.optim:newton_schulz" difficulty=2 minutes=8 hint="Divide by `torch.linalg.matrix_norm(matrices, keepdim=True) + 1e-7`. Without other options this is the Frobenius norm, one for each matrix. Then comes a loop over the steps with the formula. `@` multiplies the last two axes, and `.mT` swaps them." hint2="The product X Xᵀ appears twice in the formula, and it changes in each round. If you factor X out of the last two terms, you need three products a round. Which order of factors fits a matrix that is not square?"
from vit_course.optim import newton_schulz

newton_schulz = check(newton_schulz)

# %% fold tags=["nbval-ignore-output"]
series = {}
for steps in (0, 1, 3, 5):
    values = torch.linalg.svdvals(newton_schulz(mean, steps))
    name = "only divided" if not steps else f"after {steps} round{'s' * (steps > 1)}"
    series[name] = (list(range(1, len(values) + 1)), values.tolist())
figure = plots.curves(
    series, "What happens to the singular values?", "direction, the strongest first", "singular value"
)
figure.axes[0].set_yscale("log")
plots.show(
    figure,
    "Singular values over their rank on a logarithmic axis. Only divided, they fall steeply. Round by round the line rises to near 1.",
)
alike = [int((s > s.max() / 2).sum()) for s in (strengths, values)]
print(f"at least half as strong as the strongest: {alike[0]} directions before, {alike[1]} after")

# %% [markdown] claim="alike[1] > 5 * alike[0] and 0.9 < values.max() < 1.3"
# Now dozens of directions are at least half as strong as the strongest one. The weakest stay behind, which is good enough for a step.
#
# ### Why should all directions be equal?
#
# A direction is often weak in the gradient because the *inputs* contain little of it, and not because it matters little. Patches are
# such inputs. They are mostly one colour, and a little of everything else. So let a single matrix W learn what a given matrix does with
# the patches of our images. The loss is the mean squared difference. Three optimisers get 100 steps, each at the best of six rates.


# %%
patches = patchify(normalize(pictures[:500], *stats), 4).flatten(0, 1)  # of 4 x 4 pixels, one in a row
covariance = torch.cov(patches.T)  # all that the loss needs to know of them
torch.manual_seed(0)
goal = torch.randn(len(covariance), len(covariance)) / len(covariance) ** 0.5


def losses(way, rate):
    """Learn `goal` in 100 steps; return the loss before each."""
    W, m, v, found = torch.zeros_like(goal), 0, 0, []
    for step in range(100):
        G = (W - goal) @ covariance  # the gradient, up to a factor 2
        found.append(min(1e6, ((W - goal) * G).sum().item()))  # 1e6: it has blown up
        m, v = 0.9 * m + 0.1 * G, 0.95 * v + 0.05 * G**2
        update = {"momentum": m, "Adam": m / (v + 1e-12) ** 0.5}.get(way)
        W = W - rate * (1 - step / 100) * (newton_schulz(m) if update is None else update)
    return found


best, rates = {}, {}
for way in ("momentum", "Adam", "Newton-Schulz"):
    runs = {rate: losses(way, rate) for rate in (0.01, 0.03, 0.1, 0.3, 1, 3)}
    rates[way] = min(runs, key=lambda rate: runs[rate][-1])
    best[f"{way}, rate {rates[way]}"] = runs[rates[way]]

# %% fold
figure = plots.curves(
    {name: (list(range(100)), run) for name, run in best.items()},
    "A single matrix learns from patches: which optimiser ends lowest?",
    "step",
    "loss",
)
figure.axes[0].set_yscale("log")
plots.show(
    figure,
    "Loss over 100 steps on a logarithmic axis. Three falling lines, and that of Newton-Schulz ends lowest.",
)
ends = [run[-1] for run in best.values()]

# %% [markdown] claim=["ends[2] < 0.5 * min(ends[:2]) and all(0.01 < rate < 3 for rate in rates.values())", "sum(third > min(others) for *others, third in zip(*best.values())) > 25"]
# The orthogonal step ends lowest. With momentum, one rate must serve all directions, and at a rate that the weak ones
# need the strong ones swing. Adam makes the step of every *number* of W about equally large, but directions are
# mixtures of numbers. The orthogonal step makes the directions themselves equal. While the rate is high, the loss of
# the orthogonal step swings too, and for more than a quarter of the run it is not the lowest of the three. When the
# rate comes near zero, its loss falls far below the others.
#
# This is Muon, for every weight matrix W (m, n) inside the blocks, with learning rate η and decay λ:
#
#     mean   = 0.95 · mean + 0.05 · G                                  momentum
#     update = newton_schulz(0.05 · G + 0.95 · mean)                   look one step ahead
#     W      = W · (1 - η · λ) - η · 0.2 · sqrt(max(m, n)) · update
#
# The factor $0.2\sqrt{\max(m, n)}$ gives the numbers of an update the size that they have in AdamW, so that the same
# rates fit (Liu et al., 2025). Embeddings, norms, biases and the head stay with AdamW.

# %% [markdown]
# ## 3. Does it need all tokens at first?
#
# At first a model learns what is blue and what is round. Must it see all 64 patches for that? **Token dropping** keeps a
# random part of them during the first part of the training, and all of them at the end. Attention works with any number of tokens.
#
# > **Predict.** What does a training step cost with half of the tokens: three quarters, a half or a quarter of a full step?
#
# Positions are added *before* tokens are left out, so a token that is kept still says where it comes from.
#
# **Your task.** Write `drop_tokens`. One draw serves the whole batch.

# %% exercise="vit_course.extensions.speedups:drop_tokens" difficulty=1 minutes=6 hint="`torch.randperm(N)[:keep]` draws `keep` different places. Sort them, so that the patches stay in their order. The prefix does not take part in the draw." hint2="`torch.randperm(N)` counts the patches from 0. Where is patch 0 in the sequence, if prefix tokens come first? Indexing with a list of places keeps these places along axis 1, and `torch.cat` joins them with the prefix."
from vit_course.extensions.speedups import drop_tokens

drop_tokens = check(drop_tokens)

# %% fold
torch.manual_seed(0)
shown = shapes10(train=10, test=10).test_images[2]
places = torch.arange(64.0)[None, :, None]  # each token says its number, as positions do
seen, titles = [], []
for keep in (64, 32, 16):
    for batch in range(2 if keep < 64 else 1):
        left = torch.zeros(64).index_fill(0, drop_tokens(places, keep).flatten().long(), 1.0)
        mask = left.reshape(1, 8, 8).repeat_interleave(4, 1).repeat_interleave(4, 2)
        seen.append(shown * mask / 255 + (1 - mask))
        titles.append(f"{keep} tokens" + (f", step {batch + 1}" if keep < 64 else ""))
figure = plots.image_row(seen, titles, "What does the model see of one image?", height=1.5)
plots.show(
    figure,
    "One drawing whole, then twice with half and twice with a quarter of its patches, the others white.",
)


# %% tags=["nbval-ignore-output"]
model = build_model("Nano/4", part, **learn_fast.SHAPE)
batch = normalize(pictures[:64], *stats)


def one_step(share):
    """Go forward and backward with a share of the tokens."""
    z = model.embed(batch)  # (B, N, D)
    learn_fast.scores_of(model, drop_tokens(z, round(share * z.shape[1]))).logsumexp(dim=1).sum().backward()


tries = profile.pick(smoke=1, cpu=5, gpu=5)
costs = {
    share: learn_fast.core_seconds(lambda share=share: one_step(share), tries) for share in (1, 0.5, 0.25)
}
rows = [[percent(share, 0), cost, percent(cost / costs[1], 0)] for share, cost in costs.items()]
table(rows, ["tokens kept", "core-seconds of a step", "share of a full step"])

# %% [markdown] claim="costs[0.5] < 0.65 * costs[1] and costs[0.25] < 0.42 * costs[1]"
# The cost falls about in proportion to the tokens. A linear layer does its product once for each token, and linear
# layers are most of the cost. So with half of the tokens, a run has about twice the steps in the same minutes. Whether
# that is worth it is a question for section 6.

# %% [markdown] curious
# ## 4. What could the first layer know before the first step?
#
# The patch embedding starts as noise. It must find out that neighbouring pixels are alike, although any set of images could have
# told it.
#
# So take the principal components of the **patches** as filters. The covariance of all flattened patches is a matrix
# (P²C, P²C). Its eigenvectors $v_k$ are patterns, and its eigenvalue $\lambda_k$ is the variance of the patches along
# $v_k$. The outputs of the filter
#
# $$w_k = \frac{v_k}{\sqrt{\lambda_k + \epsilon}}$$
#
# have variance 1 (less where λ is not far above ε), and the outputs of two filters are uncorrelated. This is called
# **whitening**.
#
# > **Predict.** The most common pattern comes first. What will the first filters look like, and what the last?
#
# **Your task.** Write `whitening_filters`. Your `patchify` of lesson 01 flattens a patch as (P, P, C).

# %% exercise="vit_course.extensions.speedups:whitening_filters" difficulty=2 minutes=10 hint="`patchify` and `flatten(0, 1)` give all patches as rows. `torch.cov` wants one *column* for each patch. `torch.linalg.eigh` returns eigenvalues, the smallest first, and eigenvectors as columns." hint2="Divide each *column* of eigenvectors by its own root. Then columns must become rows, the order must be reversed, and each row (P, P, C) must become a filter (C, P, P). `rearrange` can undo what `patchify` has flattened."
from vit_course.extensions.speedups import whitening_filters

whitening_filters = check(whitening_filters)

# %% fold tags=["nbval-ignore-output"]
filters = whitening_filters(normalize(pictures[:4000], *stats), 4)
first = build_model("Nano/4", part, **learn_fast.SHAPE).patch_embed.proj.weight.detach()[: len(filters)]
figure = plots.image_row(
    [learn_fast.filter_sheet(first), learn_fast.filter_sheet(filters)],
    ["noise, as usual", "whitening filters"],
    "What does the first layer start with?",
    height=3,
)
plots.show(
    figure,
    "Two sheets of filters of 4 by 4 pixels on black, noise on the left, and on the right patterns that go from plain colours and "
    "ramps to fine checks.",
)

# %% [markdown]
# Nobody trained these. The first filters are plain areas and ramps, the last ones fine checks. What about their
# outputs? We ask on held-out images, which took no part in making the filters.

# %% tags=["nbval-ignore-output"]
held_out = normalize(part.test_images[:1000], *stats)


def correlations(filters):
    """Return the correlation of the answers of each two filters over all patches, (K, K)."""
    answers = F.conv2d(held_out, filters, stride=filters.shape[-1])  # (B, K, rows, columns)
    return answers.transpose(0, 1).flatten(1).corrcoef()


apart = {}
for name, some in {"noise": first, "whitening": filters}.items():
    apart[name] = (correlations(some) - torch.eye(len(some))).abs().mean().item()
    print(f"{name}: mean correlation of two filters, without its sign, {number(apart[name], 2)}")

# %% [markdown] claim="apart['whitening'] < 0.2 * apart['noise']"
# The outputs of noise filters are correlated, because a patch is mostly one colour, and every filter responds to that
# first. The outputs of whitening filters are almost uncorrelated. In the model, the D rows of E start as the filters,
# then as their negatives (Jordan, 2024, does this in a CNN). Rows that are left over stay noise. Does this start make a
# ViT learn faster? Section 6 answers.

# %% [markdown]
# ## 5. How should a short run end?
#
# Count the warm-up in *steps*, not in epochs. Ours has about ninety. Then the rate goes down to zero, along half a
# cosine or along a straight line. A popular addition scores the **averaged weights**, a running mean of all weights. It
# also removes the jitter of large steps.

# %% fold
steps = list(range(1000))
series = {name: (steps, [rule(step, 1000, 60, 3e-3) for step in steps]) for name, rule in SCHEDULES.items()}
figure = plots.curves(series, "Where does a short run spend its steps?", "step", "learning rate")
plots.show(
    figure,
    "Two schedules that rise for 60 of 1,000 steps. The cosine is higher at first and lower at the end.",
)

# %% [markdown] always claim="{round(run['config']['warmup_epochs'] * (45_000 // run['config']['batch_size'])) for run in base} == {88}"
# Which ending is best in ten core-minutes, the cosine alone, the cosine with averaged weights, or the straight line?
# The next section answers for forty tricks at once.
#
# ## 6. What makes it learn fast?
#
# Each line of the next figure is a change of the same base, at equal cost. A change that makes a step more expensive gets fewer steps.
# The base has Muon, half of the tokens for the first 70 % of the steps, a cosine, width 128 and six blocks. It trains for ten
# core-minutes on CIFAR-10. (*Three at once* means a linear schedule, whitening filters, and Muon on q, k and v one by one.)
#
# > **Predict.** Write down two names before you look. Which change gains most? Which one is often praised and gains nothing?

# %% fold
brought = gains(trials)
tricks = learn_fast.all_tricks(brought)
figure = plots.intervals(
    {learn_fast.label(one): (one.points, one.low, one.high) for one in tricks},
    "What does each change bring in ten core-minutes?",
    "held-out accuracy gained against the base (points)",
    "no difference shown",
)
plots.show(
    figure,
    "Forty-three changes, sorted, each with an interval. At the top a narrower model and a linear schedule are to the right of 0. Most "
    "intervals contain 0. To the left are larger batches, registers, all tokens, stronger augmentation, larger models, a start as in "
    "trained models, and far away AdamW.",
)

# %% [markdown] always claim=["{one.arm for one in tricks if one.verdict == 'better'} == {'width-96', 'linear'}", "{one.arm for one in tricks if one.verdict == 'worse'} == {'batch-256', 'registers', 'tokens-all', 'mixup', 'rand-augment', 'width-160', 'mimetic', 'depth-9', 'cutmix', 'adamw-0.001'}", "brought['adamw-0.001'].points < -15 and sum(arm.startswith('adamw') for arm in brought) == 3 and -3.5 < brought['tokens-all'].points < -2.5", "2 < brought['width-96'].points < 3 and 1 < brought['linear'].points < 1.5 and all(len(brought[arm].scores) == 3 for arm in ('width-96', 'linear')) and 1.4 < brought['width-96'].epochs / base[0]['config']['epochs'] < 1.6", "-6 < brought['depth-9'].points < brought['width-160'].points < -4 and -10 < brought['cutmix'].points < -8 and all(-5 < brought[arm].points < -3 for arm in ('mixup', 'rand-augment'))", "-6 < brought['mimetic'].points < -4 and abs(brought['whitened'].points) < 1 and abs(brought['ema'].points) < 1", "len(tricks) == 43 and {len(one.scores) for one in tricks if one.arm not in ('width-96', 'linear', 'together')} == {1}", "(lambda run: abs(run['width-96']['held_out_accuracy'] - run['base']['held_out_accuracy']) < 0.005 and run['base']['config']['epochs'] == 7 * base[0]['config']['epochs'])({run['step']: run for run in load_records('trials-long')})"]
# **Four things make this ViT learn fast.**
#
# - *The optimiser.* AdamW, at the best of three rates, is more than 15 points behind Muon. Nothing else comes near.
# - *Fewer tokens at first.* Training with all tokens all the time costs about three points.
# - *A smaller model.* With tokens of width 96 instead of 128, the run processes 50 % more images in the same time, and gains more than
#   two points. Larger models lose about five.
# - *A straight line as schedule.* It gains about one point over the cosine.
#
# **Strong augmentation comes too early.** CutMix loses more than eight points, MixUp and RandAugment more than three
# each.
#
# **Two praised tricks show no difference.** Whitening filters, which fast CNNs depend on, and averaged weights change
# the result by less than a point. Another trick starts the attention weights as they look in trained models. It is
# reported to gain five points (2305.09828), but with Muon it *loses* about five.
#
# How sure is that? The two changes that are better have three seeds, and so have *three at once* and the base. The
# others have one seed, so their lines show only the uncertainty from 5,000 held-out images (two standard errors), and
# not the luck of the seed. With forty comparisons, about two false alarms would be no surprise. So treat a single
# seed near 0 as a question, and AdamW's gap as an answer.
#
# All this is true for ten minutes. In a run seven times as long, the lead of the smaller model is gone.

# %% [markdown]
# ## 7. A race: what can you do in three minutes?
#
# Everybody has three minutes of the clock, the same model and the same images. With real images on your machine you race on those.
# Otherwise you get drawings in strong noise, because clean drawings would be learned to nearly the last one.

# %% fold tags=["nbval-ignore-output"]
raced = learn_fast.race_data(part)
row = torch.arange(5) * len(raced.test_labels) // 5
titles = [raced.classes[label] for label in raced.test_labels[row]]
plots.show(
    plots.image_row(list(raced.test_images[row]), titles, "What do you race on?", height=1.7),
    "Five images of the race with their classes. Drawings are hard to see in coloured noise.",
)

# %% [markdown]
# The loop is that of lesson 06, with the crops, flips and label smoothing of lesson 07, and three changes:
#
# 1. The *clock* says how far the run is, so the rate reaches zero exactly when the time is up.
# 2. Some tokens are left out at first.
# 3. Two optimisers share the weights.
#
# The race uses your functions where they are right. Its code is in `vit_classroom/exhibits/learn_fast.py`.
#
# **Your turn.** Change the settings, write down what you expect, and run the cell. It takes three minutes.

# %% tags=["nbval-ignore-output"]
NAME = ""  # yours, or your team's
settings = {
    "optimizer": "muon",  # or "adamw"
    "lr": 0.003,
    "keep": 0.5,  # share of the tokens at first
    "keep_until": 0.7,  # share of the time
    "schedule": "cosine",  # or "linear"
    "whitened": True,
}
SECONDS = profile.pick(smoke=0.5, cpu=180, gpu=180)
mine = learn_fast.Parts(newton_schulz, drop_tokens, whitening_filters)
racer, spent = learn_fast.race(SECONDS, raced, mine, settings)
score, _ = evaluate(racer, raced.test_images, raced.test_labels, raced.channel_stats())
print(f"{percent(score)} of the held-out images are classified correctly, after {spent:.0f} core-seconds")
print(race.hand_in(NAME, score, spent, settings, raced.provenance))
display(*race.boards())

# %% [markdown] claim="spent < SECONDS / 2 or 2 / len(raced.classes) < score < 0.995"
# Three minutes ago this model was guessing. Your run is handed in with your answers, and the class table of your
# teacher shows everybody's runs on one board.
#
# The clock was equal for all, and the machines were not, so compare runs with about the same core-seconds. A lead of one point is not
# a win yet, because nobody has run a second seed.

# %% [markdown] curious
# ## 8. What do longer runs reach?
#
# The recipe `quick` has a small model, batches of 64 and a straight line. It was chosen on held-out images.

# %%
marks = {}
for run in load_records("marks", "cpu"):
    marks.setdefault(run["step"], []).append(run)
rows = [
    [
        f"{mark} %",
        percent(fmean(run["test_accuracy"] for run in runs)),
        round(fmean(run["training_flops"] for run in runs) / 1e12),
    ]
    for mark, runs in marks.items()
]
table(rows, ["goal", "test accuracy, mean of the seeds", "cost (TFLOP of training)"])

# %% [markdown] always claim=["all(fmean(run['test_accuracy'] for run in marks[mark]) > float(mark) / 100 for mark in ('60', '75', '80'))", "0.83 < fmean(run['test_accuracy'] for run in marks['85']) < 0.845 and min(run['training_flops'] for run in marks['85']) > 3 * max(run['training_flops'] for run in marks['80'])"]
# `quick` reaches 60, 75 and 80 %. The goal of 85 % was missed, although that run costs more than three times the run
# for 80 %. The run for 85 % has an older recipe, which was changed after a look at its test accuracy, so its number may
# be slightly too high. The goal of 90 % was missed too. [docs/speedrun.md](../docs/speedrun.md) has the rules, and says
# how to hand in a better run.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# A change gains one point after each epoch, and an epoch takes 30 % longer. Is it good?
#
# - [x] compare at equal core-minutes :: Give the base 30 % more steps. Only then is the price the same.
# - [ ] yes, because a point more is a point more :: More training would have gained something as well.
# - [ ] no, because it is slower :: It may still be ahead when both have cost the same.

# %% [markdown] quiz
# A matrix has the singular values 0.9, 0.3 and 0. What does Newton-Schulz make of them, about?
#
# - [x] 1, 1 and 0 :: Each value goes towards 1 by itself, and s = 0 gives a·0 + b·0 + c·0 = 0.
# - [ ] 1, 1 and 1 :: Zero stays zero, because no product brings in a direction that does not exist.
# - [ ] 0.9, 0.3 and 0, because only directions change :: It is the other way round. The directions stay.

# %% [markdown] quiz
# Someone drops tokens first and adds positions afterwards, `tokens + pos_embed[:, :keep]`. What goes wrong?
#
# - [x] tokens get positions of other places :: The kept ones are numbered 1, 2, 3 ..., wherever they come from.
# - [ ] an error, because the shapes are different :: The shapes fit, so nothing complains.
# - [ ] nothing, because positions are learned :: A token has another position in each step, so there is nothing to learn.

# %% [markdown] quiz
# Twelve changes were tried with one seed each, and the best is 1.5 points ahead. What do you write?
#
# - [x] a candidate, which needs three seeds next :: The best of twelve is ahead partly by luck.
# - [ ] it brings 1.5 points :: One run cannot tell that from luck, and it is the best of twelve.
# - [ ] nothing, because one seed is worthless :: It says which few of the twelve deserve more runs.

# %% [markdown]
# ## Recap
#
# | what | what it does | shape |
# |---|---|---|
# | core-minutes | the price of a run, on one kind of processor | a number |
# | `newton_schulz` | singular values towards 1, directions stay | (m, n) to (m, n) |
# | Muon | momentum, then newton_schulz, for matrices in blocks | (m, n) |
# | `drop_tokens` | some patch tokens, positions already added | (B, N, D) to (B, keep, D) |
#
# - Compare at equal cost, on held-out images, one change at a time.
# - The optimiser, fewer tokens at first, a smaller model and a straight line made this ViT learn fast.
# - What everybody praises may bring nothing at your size. Measure it, and say so.
#
# ## Further reading
#
# - Jordan et al., *Muon: An optimizer for hidden layers in neural networks* (2024, a page with code); Liu et al., *Muon is
#   Scalable for LLM Training* (2502.16982): the factor that makes AdamW's rates fit.
# - Liu et al., *PatchDropout: Economizing Vision Transformers Using Patch Dropout* (2208.07220).
# - Jordan, *94% on CIFAR-10 in 3.29 Seconds on a Single GPU* (2404.00498): whitening, and how to report a speed run.
# - Trockman and Kolter, *Mimetic Initialization of Self-Attention Layers* (2305.09828).
#
# **Next.** Show your racer a photo from your phone, and it must answer with one of its ten classes. No recipe for
# three minutes can change that. Lesson 17 removes the head of a trained ViT, and teaches the rest new classes with
# only twenty photos, which may be yours.
