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
#   - "Compute initial weights for the patch embedding from the pictures themselves."
#   - "Train a ViT for three minutes with settings of your own, and defend them."
# ---

# %% [markdown]
# ## 1. What can a ViT learn while you wait?
#
# The longest run of lesson 07 took hours. You have one. The model has hardly changed since 2021; *training*
# has. This lesson builds three of the changes, asks of each what it brings, and ends with a race.
#
# To ask that, you need a price. The clock is a bad one: your laptop has eight cores and your neighbour's has four. We count
# **core-minutes**: minutes of work, summed over all cores that did it.
#
# > **Key idea.** Compare at equal cost. A trick that wins every epoch but makes each twice as long may have lost.
#
# Settings are chosen on **held-out pictures**: training pictures that are kept back. The test pictures choose nothing.

# %%
import time
from textwrap import fill

import torch
import torch.nn.functional as F
from IPython.display import display

from vit_course.augment import augment
from vit_classroom import check, plots, race, table
from vit_classroom.numbers import number, percent
from vit_course.data import load_dataset, normalize, shapes10
from vit_course.embeddings import pool
from vit_classroom.evidence.records import caption, load_records
from vit_classroom.evidence.gains import COLUMNS, SHAPE, gains
from vit_course.training.device import get_device
from vit_course.training.console import progress_bar
from vit_course.training.engine import choose_engine
from vit_course.training.processor import one_thread
from vit_course.training.profiles import get_profile
from vit_course.training.signals import Stopped, stop_on_signal
from vit_course.optim import SCHEDULES, make_optimizers, set_rates
from vit_course.patches import patchify
from vit_course.recipes import FLIP_CROP, build_model
from vit_course.train import evaluate

profile, device = get_profile(), get_device()
dataset = load_dataset()
raced = dataset.subset(*profile.pick(smoke=(300, 100), cpu=(None, None), gpu=(None, None)))
raced = raced.hold_out(len(raced.train_labels) // 10)
pictures, labels, stats = raced.train_images, raced.train_labels, raced.channel_stats()
print(f"{len(labels):,} pictures to learn from, {len(raced.test_labels):,} held out\n({dataset.provenance})")

# %%
trials = load_records("trials")
base = [run for run in trials if run["step"] == "base"]
cost = min(run["cpu_seconds"] for run in base) / 60
scores = ", ".join(percent(run["held_out_accuracy"]) for run in base)
print(f"recorded: {base[0]['parameters']:,} parameters, {cost:.1f} core-minutes, {scores} right")
print(caption(trials))

# %% [markdown] always claim="9 < cost < 11 and all(run['held_out_accuracy'] > 0.7 for run in base)"
# That is where this lesson leads: seven of ten real photographs named, after ten minutes of one core.
#
# ## 2. In which directions does a step go?
#
# The gradient of a weight matrix is a matrix too, G. The singular value decomposition (lesson 09, section 10) writes it as
# $G = U S V^\top$: directions of length 1, at right angles, in the columns of U and V, and a strength for each pair, the
# **singular values**, in S. How are they spread? We train a small ViT for a few steps and keep the running mean of one gradient
# (**momentum**).
#
# > **Predict.** The matrix has 96 directions. How many of them hold nine tenths of the gradient (of its squared length)?

# %% tags=["nbval-ignore-output"]
torch.manual_seed(0)
small = build_model("Nano/8", raced)
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
print(f"{tuple(mean.shape)}: {holding} of {len(shares)} directions hold 90 % of the gradient")

# %% [markdown] claim="holding < len(shares) / 4"
# A few directions hold nearly all of it. A step along G goes far in these, and hardly moves in all others.
#
# **Muon** (Jordan et al., 2024) makes all directions equally strong: it wants $U V^\top$, with every singular value 1. Such a
# matrix is **orthogonal** (semi-orthogonal, if it is not square). A decomposition in each step would be slow. But a polynomial
# is quick:
#
# $$X \leftarrow a X + b\,(X X^\top) X + c\,(X X^\top)^2 X$$
#
# Put in $X = U S V^\top$: with $V^\top V = I$, $X X^\top = U S^2 U^\top$, so U and V stay, and each singular value s becomes $a s + b s^3 + c s^5$.
# With the right a, b and c, five rounds (**Newton-Schulz**) lift small values and hold large ones near 1.
#
# On paper: s = 0.1 becomes 3.4445 · 0.1 - 4.7750 · 0.001 + 2.0315 · 0.00001 = 0.34. After one more round it is 0.99.
#
# > **Trap.** A polynomial of this kind blows up beyond s = 1.3 or so. Divide first, so that no singular value is above 1.
#
# **Your task.** Write `newton_schulz`. Only matrix products, sums and one norm: no decomposition.

# %% exercise="vit_course.optim:newton_schulz" difficulty=2 minutes=8 hint="Divide by `torch.linalg.matrix_norm(matrices, keepdim=True) + 1e-7`: without other options that is the Frobenius norm, one for each matrix. Then a loop over the steps with the formula; `@` multiplies the last two axes, `.mT` swaps them." hint2="In the loop: `gram = x @ x.mT`, and then a·x + (b·gram + c·gram @ gram) @ x. For a matrix with more rows than columns the products are smaller if you work on `x.mT` and turn the result back; the result is the same."
from vit_course.optim import newton_schulz

newton_schulz = check(newton_schulz)

# %% fold tags=["nbval-ignore-output"]
series = {}
for steps in (0, 1, 3, 5):
    values = torch.linalg.svdvals(newton_schulz(mean, steps))
    name = "only divided" if not steps else f"after {steps} step{'s' * (steps > 1)}"
    series[name] = (list(range(1, len(values) + 1)), values.tolist())
figure = plots.curves(
    series, "What happens to the singular values?", "direction, the strongest first", "singular value"
)
figure.axes[0].set_yscale("log")
plots.show(
    figure,
    "Singular values over their rank, log scale. Only divided, they fall steeply; step by step the line rises to near 1.",
)
alike = [int((s > s.max() / 2).sum()) for s in (strengths, values)]
print(f"at least half as strong as the strongest: {alike[0]} directions before, {alike[1]} after")

# %% [markdown] claim="alike[1] > 5 * alike[0] and 0.9 < values.max() < 1.3"
# Dozens of directions are at least half as strong as the strongest now: about half of the values end *near* 1. The rest are
# lifted, and stay behind. For a step that is good enough.
#
# ### Why should all directions be equal?
#
# Because a weak direction in the gradient is often one that the *inputs* hold little of, and not one that matters little.
# Patches are such inputs: mostly one colour, and a little of everything else. So let one matrix W (48, 48) learn what a
# given matrix does with the patches of our pictures. The loss is the mean squared difference. Three optimisers get 100
# steps, each at the best of six rates.


# %%
def patches_of(images):
    """Cut normalised pictures into flat patches of 4 x 4 pixels, one a row."""
    return patchify(normalize(images, *stats), 4).flatten(0, 1)


covariance = torch.cov(patches_of(pictures[:500]).T)  # all that the loss needs to know of them
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
ends = [run[-1] for run in best.values()]

# %% fold
figure = plots.curves(
    {name: (list(range(100)), run) for name, run in best.items()}, "One matrix learns from patches: who is quickest?",
    "step", "loss",
)  # fmt: skip
figure.axes[0].set_yscale("log")
plots.show(figure, "Loss over 100 steps, log scale: three falling lines; that of Newton-Schulz ends lowest.")

# %% [markdown] claim=["ends[2] < 0.5 * min(ends[:2]) and all(0.01 < rate < 3 for rate in rates.values())", "sum(third > max(others) for *others, third in zip(*best.values())) > 30"]
# With momentum one rate has to serve all directions: at a rate that the weak ones need, the strong ones swing wildly.
# Adam makes the step of every *number* of W equally large, but directions are mixtures of numbers. The orthogonal step makes
# the directions equal. It swings as long as the rate is high, and is behind for a third of the run and more; when the rate comes
# near zero, it falls far below the others.
#
# The whole of Muon, for every weight matrix W (m, n) inside the blocks, at learning rate η with decay λ:
#
#     mean   = 0.95 · mean + 0.05 · G                                  momentum
#     update = newton_schulz(0.05 · G + 0.95 · mean)                   look one step ahead
#     W      = W · (1 - η · λ) - η · 0.2 · sqrt(max(m, n)) · update
#
# The last factor gives the numbers of an update the size that they have in AdamW, so that its rates fit (Liu et al., 2025).
# Embeddings, norms, biases and the head are no such matrices: they stay with AdamW.

# %% [markdown]
# ## 3. Does it need all tokens at first?
#
# At first a model learns what is blue and what is round. Must it see all 64 patches for that? **Token dropping** keeps a
# random part of them during the first part of the training, and all of them at the end. Attention does not mind: any number
# of tokens will do.
#
# > **Predict.** With half of the tokens a training step costs: three quarters, a half or a quarter?
#
# Positions are added *before* tokens are left out. So a token that is kept still says where it comes from.
#
# **Your task.** Write `drop_tokens`. One draw serves the whole batch.

# %% exercise="vit_course.extensions.speedups:drop_tokens" difficulty=1 minutes=6 hint="`torch.randperm(N)[:keep]` draws `keep` different places. Sort them, so that the patches stay in their order. The prefix does not take part in the draw." hint2="`kept = torch.randperm(N)[:keep].sort().values + num_prefix_tokens` are places in the sequence. Put `tokens[:, :num_prefix_tokens]` and `tokens[:, kept]` together with `torch.cat(..., dim=1)`."
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
figure = plots.image_row(seen, titles, "What does the model see of one picture?", height=1.5)
plots.show(
    figure, "One drawing whole, then twice with half and twice with a quarter of its patches, others white."
)


# %% tags=["nbval-ignore-output"]
def core_seconds(call, tries):
    """Return the processor time of the cheapest of some calls on one thread: other work can only add to it."""
    spent = []
    with one_thread():
        for _ in range(tries):
            begin = time.process_time()
            call()
            spent.append(time.process_time() - begin)
    return min(spent)


model = build_model("Nano/4", raced, **SHAPE)
batch = normalize(pictures[:64], *stats)


def one_step(share, model=model, batch=batch):
    """Go forward and backward with a share of the tokens."""
    z = model.embed(batch)  # (B, N, D)
    z = drop_tokens(z, round(share * z.shape[1]))
    model.head(pool(model.norm(model.blocks(z)), "avg", 0)).logsumexp(dim=1).sum().backward()


tries = profile.pick(smoke=1, cpu=5, gpu=5)
costs = {share: core_seconds(lambda share=share: one_step(share), tries) for share in (1, 0.5, 0.25)}
rows = [[percent(share, 0), cost, percent(cost / costs[1], 0)] for share, cost in costs.items()]
table(rows, ["tokens kept", "core-seconds of a step", "of a full step"])

# %% [markdown] claim="costs[0.5] < 0.65 * costs[1] and costs[0.25] < 0.42 * costs[1]"
# About in proportion: a linear layer does its product once a token, and linear layers are most of it; the table of scores is N × N
# and shrinks faster, but at 64 tokens it is small.
#
# So this part of a run holds about twice as many steps in the same minutes. Whether those are worth it is a question for records
# (section 6).
#
# ## 4. What could the first layer know before the first step?
#
# The patch embedding starts as noise. It has to find out that neighbouring pixels are alike, which any pile of pictures could
# have told it.
#
# Lesson 09 took *trained* filters apart into principal components. Now the other way round: take the components of the
# **patches**, and use them as filters. The covariance of all flattened patches is a matrix (P²C, P²C). Its eigenvectors
# $v_k$ are patterns, and its eigenvalue $\lambda_k$ is the variance of the patches along $v_k$. The filter
#
# $$w_k = \frac{v_k}{\sqrt{\lambda_k + \epsilon}}$$
#
# gives answers of variance 1 (less where λ is not far above ε), uncorrelated with each other. This is **whitening**.
#
# > **Predict.** The most common pattern comes first. What will the first filters look like, and what the last?
#
# **Your task.** Write `whitening_filters`. `patchify` of lesson 01 is there; it flattens a patch as (P, P, C).

# %% exercise="vit_course.extensions.speedups:whitening_filters" difficulty=2 minutes=10 hint="`patchify` and `flatten(0, 1)` give all patches as rows. `torch.cov` wants one *column* for each patch. `torch.linalg.eigh` returns eigenvalues, the smallest first, and eigenvectors as columns." hint2="`variance, components = torch.linalg.eigh(torch.cov(patches.T))`; divide each column by its root, turn columns into rows (`.T`) and the order round (`.flip(0)`). `patchify` flattens a patch as (P, P, C), so go back with `rearrange(filters, 'k (p q c) -> k c p q', p=patch_size, q=patch_size)`."
from vit_course.extensions.speedups import whitening_filters

whitening_filters = check(whitening_filters)

# %% fold tags=["nbval-ignore-output"]
filters = whitening_filters(normalize(pictures[:4000], *stats), 4)
first = build_model("Nano/4", raced, **SHAPE).patch_embed.proj.weight.detach()[: len(filters)]


def sheet(filters):
    """Lay filters (K, C, P, P) out in rows of eight: grey is 0, the largest number of each is full colour."""
    scaled = filters / filters.abs().amax(dim=(1, 2, 3), keepdim=True) / 2 + 0.5
    return plots.image_grid(F.pad(scaled, (1, 1, 1, 1), value=1.0), columns=8)


figure = plots.image_row(
    [sheet(first), sheet(filters)], ["noise, as usual", "whitening filters"], "What does the first layer start with?",
    height=2.6,
)  # fmt: skip
plots.show(
    figure, "Two sheets of 48 filters of 4 by 4 pixels: noise, and patterns that go from smooth to fine."
)

# %% [markdown]
# Nobody trained these. The first are plain areas and ramps, the last fine checks. And their answers? We ask on held-out
# pictures, which took no part in the filters.

# %% tags=["nbval-ignore-output"]
held_out = normalize(raced.test_images[:1000], *stats)


def correlations(filters):
    """Return how the answers of filters go together over all patches, (K, K)."""
    answers = F.conv2d(held_out, filters, stride=filters.shape[-1])  # (B, K, rows, columns)
    return answers.transpose(0, 1).flatten(1).corrcoef()


found = {name: correlations(w) for name, w in {"noise": first, "whitening": filters}.items()}
apart = {name: (c - torch.eye(len(c))).abs().mean().item() for name, c in found.items()}
print(
    "mean correlation of two filters, without its sign:", {n: number(value, 2) for n, value in apart.items()}
)

# %% fold tags=["nbval-ignore-output"]
figure = plots.heat_maps(
    list(found.values()), ["noise", "whitening filters"], "Do the answers of two filters go together?", "correlation",
    xlabel="filter", ylabel="filter",
)  # fmt: skip
plots.show(
    figure, "Two tables of correlations, 48 by 48: crowded for noise, for whitening only the diagonal."
)

# %% [markdown] claim="apart['whitening'] < 0.2 * apart['noise']"
# Noise filters say partly the same, because a patch is mostly one colour, and every filter sees that first. Whitening filters
# each say something of their own.
#
# In the model a filter and its negative both stand in E, as far as D has room (Jordan, 2024, does this for a CNN).

# %% [markdown]
# ## 5. How should a short run end?
#
# A run of minutes has no time to wander. Two habits of long runs change.
#
# - **Schedule.** Count the warm-up in *steps*, not in epochs: ours have about ninety. Go down to zero; many short recipes
#   take a straight line in place of a cosine.
# - **Averaged weights.** Keep a running mean of all weights beside the model, and score the mean. It takes the jitter of
#   large steps out. But so does a rate that goes down to zero.

# %% fold
steps = list(range(1000))
series = {name: (steps, [rule(step, 1000, 60, 3e-3) for step in steps]) for name, rule in SCHEDULES.items()}
figure = plots.curves(series, "Where does a short run spend its steps?", "step", "learning rate")
plots.show(
    figure, "Two schedules that rise for 60 of 1,000 steps; the cosine stays higher at first, then lower."
)

# %% [markdown]
# ## 6. What does each of them bring?
#
# Each run below changes *one* thing of the base, or several at once, and should cost as many core-minutes: a change that makes
# a step dearer gets fewer of them. (How much dearer was timed once, in one process.) The base has Muon, half of the tokens
# for the first 70 % of the steps, and initial weights as usual. (*These three* are the line, whitening filters, and Muon on q, k, v
# apart.)
#
# > **Predict.** Write down two names before you look: the change that gains most, and one that is often praised and gains
# > nothing.

# %%
TOLD = {
    "adamw": "AdamW in place of Muon",
    "qkv-3": "Muon takes q, k and v one by one",
    "tokens-all": "all tokens, all the time",
    "tokens-half-longer": "half of the tokens for longer",
    "tokens-3-8": "three eighths of the tokens first",
    "tokens-quarter": "a quarter of the tokens first",
    "by-picture": "other tokens for every picture",
    "size-24": "smaller pictures first (24 pixels) in place of fewer tokens",
    "whitened": "whitening filters in E",
    "mimetic": "attention starts as in trained models (2305.09828)",
    "silent": "every branch starts at zero",
    "linear": "a straight line as schedule",
    "together": "all three: line, whitening, Muon on q, k, v separately",
    "together-longer": "these three, and half of the tokens for longer",
    "together-faster": "these three, at one and a half times the rate",
    "ema": "averaged weights",
    "no-smoothing": "no label smoothing",
}
brought = gains(trials)
adamw = [one for arm, one in brought.items() if arm.startswith("adamw")]  # the best of its rates first
brought["adamw"] = adamw[0]
shown = {arm: brought[arm] for arm in brought if arm in TOLD}
shown = dict(sorted(shown.items(), key=lambda pair: -pair[1].points))
table([one.row(TOLD[arm]) for arm, one in shown.items()], COLUMNS, "each against the base")

# %% fold
for verdict in ("better", "worse", "undecided"):
    names = [TOLD[arm] for arm, one in shown.items() if one.verdict == verdict]
    print(fill(f"{verdict}: {'; '.join(names)}.", 90))

# %% [markdown] always claim=["{arm: one.verdict for arm, one in shown.items() if one.verdict != 'undecided'} == {'linear': 'better', 'tokens-all': 'worse', 'mimetic': 'worse', 'adamw': 'worse'}", "-5 < shown['tokens-all'].points < -2 and -7 < shown['mimetic'].points < -4 and shown['adamw'].points < -15", "[len(shown[arm].scores) for arm in ('linear', 'tokens-all', 'mimetic', 'adamw')] == [3, 1, 1, 1] and [one.arm for one in adamw][0] == 'adamw-0.001' and len(adamw) == 3", "abs(shown['whitened'].points) < 1", "{round(run['config']['warmup_epochs'] * (45_000 // run['config']['batch_size'])) for run in base} == {88}", "(spent := [run['cpu_seconds'] for run in trials if run['step'] in ('base', 'ema')]) and min(spent) < 0.6 * max(spent)", "all(1.6 * max(spent) < run['cpu_seconds'] < 2.7 * max(spent) for run in trials if run['engine']['precision'] == 'float32') and abs(brought['float32'].points) < 1"]
# The straight line as schedule is better, and the recipe `minutes` keeps it. All tokens, all the time, cost about three points.
# AdamW is far behind, at the best of three rates.
#
# How sure is that? The line has three seeds, those that lose have one each. One seed has no interval of lesson 07: there "from ...
# to" is two standard errors of what the held-out pictures say, a weaker rule, which leaves out the luck of a seed.
#
# Two surprises. Whitening filters, which quick CNNs owe much to, bring less than a point here, and chance alone could do that. And a
# start as in trained models, reported to gain five points on CIFAR-10, *loses* about five here, beside Muon.
#
# Read the others as you learned in lessons 07 and 10. With so many comparisons, one that looks decided may be luck. A change that
# loses here, at ten minutes and this size, may win in a long run. And gains do not simply add up: look for the runs that have
# several changes at once, and compare them with their parts.
#
# Minutes of two machines cannot be compared: some of these runs had a processor on which the same steps take half the time, and
# some computed in float32, which took about twice as long, or more. That is why equal cost is set by counting steps. (Does the
# arithmetic itself matter? The base once more, in float32, is *float32* in the next section: within a point of the base.)

# %% [markdown] curious
# ## 7. What else was tried?
#
# The rest of the search. *lr* is Muon's rate, *rest* that of AdamW beside it (the base has .003 for both), *decay* the weight
# decay (.05), *batch* the pictures of a step (128; *slower*, *faster*: with another rate), *depth* the blocks (6), *width* the
# numbers in a token (128, the heads in proportion), *heads* the heads (4), *mlp* how many times wider an MLP is inside (4).

# %%
others = {arm: one for arm, one in brought.items() if arm not in TOLD}
table([one.row(arm) for arm, one in others.items()], COLUMNS, "each against the base")

# %% [markdown] always claim=["{arm: brought[arm].verdict for arm in ('width-96', 'depth-4', 'width-160', 'depth-9')} == {'width-96': 'better', 'depth-4': 'undecided', 'width-160': 'worse', 'depth-9': 'worse'}", "(lambda run: abs(run['width-96']['held_out_accuracy'] - run['base']['held_out_accuracy']) < 0.005 and run['base']['config']['epochs'] == 7 * base[0]['config']['epochs'])({run['step']: run for run in load_records('trials-long')})", "[*brought][:2] == ['width-96', 'depth-4'] and 2 < brought['width-96'].points < 3 and len(brought['width-96'].scores) == 3", "-10 < brought['cutmix'].points < -8 and all(-5 < brought[arm].points < -3 and brought[arm].verdict == 'worse' for arm in ('mixup', 'rand-augment'))", "{arm for arm, one in others.items() if one.verdict != 'undecided'} - {'adamw-0.001', 'adamw-0.0005', 'adamw-0.002', 'adamw'} == {'width-96', 'width-160', 'depth-9', 'cutmix', 'mixup', 'rand-augment', 'batch-256', 'registers'} and max(brought[arm].points for arm in ('batch-256', 'registers')) < -2 and {'qk-norm', 'cls', 'decay-0', 'lr-0.006', 'rest-0.006', 'batch-256-faster'} < others.keys()", "{len(one.scores) for arm, one in others.items() if arm != 'width-96'} == {1}", "-6 < brought['depth-9'].points < brought['width-160'].points < -4", "{len(brought[arm].scores) for arm in ('depth-4', 'width-160', 'depth-9')} == {1}", "1.4 < brought['width-96'].epochs / base[0]['config']['epochs'] < 1.6 and 0.55 < brought['width-160'].epochs / base[0]['config']['epochs'] < 0.65", "(lambda quick, old: old['options']['embed_dim'] == 128 and (quick['options']['embed_dim'], quick['options']['depth'], quick['config']['batch_size']) == (96, 4, 64))(load_records('marks', 'cpu')[0], next(r for r in load_records('ladder', 'cpu') if r['step'] == 'minutes'))"]
# **A smaller model learned more in the same time.** With 96 numbers in a token in place of 128 the run sees half as many pictures
# again, and is more than two points ahead, by three seeds: further than anything above. In a run seven times as long this lead is
# gone (lesson 07, section 12). Four blocks in place of six come next, undecided. Larger models lose five points or so, by width
# or by depth: their steps are dear, and they see too few pictures.
#
# **Stronger augmentation loses so early**: CutMix on every picture costs more than eight points, MixUp and RandAugment more than
# three each. Registers (lesson 15), beside the CLS token that they need, cost more than two, and so do batches of 256 at the rate
# of the base. No other rate or decay, no CLS token alone and no QK-norm brings anything that chance could not. (One seed each.)
#
# The recipe `minutes` is older and has the larger model. The recipe `quick` has this smaller one with four blocks, and batches of
# 64. `docs/speedrun.md` shows how far it gets, and says how to hand in a better one.

# %% [markdown]
# ## 8. A race: three minutes
#
# Everybody has three minutes of the clock and the same model. For drawn shapes it has patches of 8 x 8 pixels: a quarter of
# the tokens, so a slow laptop gets somewhere, too. Rate, tokens, schedule, initial weights are yours. Your own functions run in
# it, where they are right.
#
# The loop is lesson 06's, with lesson 07's crops, flips and smoothing, and three changes: the *clock* says how far the run is, so
# the rate reaches zero exactly when time is up; some tokens stay out at first; two optimisers share the weights.


# %%
SECONDS = profile.pick(smoke=0.5, cpu=180, gpu=180)


def pass_in(engine):
    """Time a step as this engine computes it: in float32, or with bfloat16 products."""
    with engine.computing(torch.device("cpu")):
        return core_seconds(lambda: one_step(1), tries=2)


engine = choose_engine("auto", device, 1000, pass_in)


def clock(seconds):
    """Yield the share of the time that has passed, until it is over, or somebody stops the race."""
    begin = time.perf_counter()
    look = "{l_bar}{bar}| {n_fmt} of {total_fmt} s"
    with stop_on_signal() as stopped, progress_bar(total=seconds, bar_format=look) as bar:
        while (passed := time.perf_counter() - begin) < seconds:
            bar.update(int(passed) - bar.n)
            yield passed / seconds
            if stopped():
                raise Stopped(f"after {passed:.0f} of {seconds} s: such a race has no result.")


def train_for(seconds, optimizer, lr, keep, keep_until, schedule, whitened):
    """Train for so many seconds of the clock; return the model and its core-seconds."""
    torch.manual_seed(0)
    begin, size = time.process_time(), "Nano/8" if "Shapes-10" in raced.provenance else "Nano/4"
    model = build_model(size, raced, **SHAPE).to(device)
    if whitened:
        with torch.no_grad():
            E = model.patch_embed.proj.weight  # (D, C, P, P)
            filters = whitening_filters(normalize(pictures[:4000], *stats), E.shape[-1]).to(device)
            filters = torch.cat([filters, -filters])[: len(E)]
            E[: len(filters)] = filters
    optimizers = make_optimizers(model, optimizer, lr, orthogonalize=newton_schulz)
    for share in clock(seconds):
        set_rates(optimizers, SCHEDULES[schedule](int(1000 * share), 1000, 60, 1.0))
        chosen = torch.randint(len(labels), (128,))
        x, y = (part[chosen].to(device) for part in (pictures, labels))
        x, y = augment(x, y, stats, len(raced.classes), FLIP_CROP)
        with engine.computing(device):
            z = model.embed(x)
            if share < keep_until:
                z = drop_tokens(z, round(keep * z.shape[1]))
            logits = model.head(pool(model.norm(model.blocks(z)), "avg", 0))
            loss = F.cross_entropy(logits, y, label_smoothing=0.1)
        loss.backward()
        for one in optimizers:
            one.step()
            one.zero_grad()
    return model, time.process_time() - begin


# %% [markdown]
# **Your turn.** Change the settings, write down what you expect, run the cell. It takes three minutes.

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
racer, spent = train_for(SECONDS, **settings)
score, _ = evaluate(racer, raced.test_images, raced.test_labels, stats)
print(f"{percent(score)} of the held-out pictures after {spent:.0f} core-seconds")
print(race.hand_in(NAME, score, spent, settings, dataset.provenance))
display(*race.boards())

# %% [markdown] claim="spent < SECONDS / 2 or score > 3 / len(raced.classes)"
# Three minutes ago this model was guessing. What was handed in goes with your answers, and the class table of your teacher
# shows the runs of everybody as one board.
#
# The clock was equal for all, the machines were not: compare runs with about as many core-seconds. And nobody has run a
# second seed. A lead of one point is not a win yet.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# A trick gains a point per epoch, and an epoch takes 30 % longer. Is it good?
#
# - [x] compare at equal core-minutes :: Give the base 30 % more steps. Only then is the price the same.
# - [ ] yes, a point more is a point more :: More training would have gained something as well.
# - [ ] no, it is slower :: It may still be ahead when both have cost as much.

# %% [markdown] quiz
# A matrix has the singular values 0.9, 0.3 and 0. What does Newton-Schulz make of them, about?
#
# - [x] 1, 1 and 0 :: Each value goes towards 1 by itself; s = 0 gives a·0 + b·0 + c·0 = 0.
# - [ ] 1, 1 and 1 :: Zero stays zero: no product brings in a direction that is not there.
# - [ ] 0.9, 0.3 and 0: only directions change :: It is the other way round. The directions stay.

# %% [markdown] quiz
# Someone drops tokens first and adds positions afterwards, `tokens + pos_embed[:, :keep]`. What goes wrong?
#
# - [x] tokens get positions of other places :: The kept ones are numbered 1, 2, 3 ..., wherever they come from.
# - [ ] an error, because the shapes are different :: The shapes fit, so nothing complains.
# - [ ] nothing, positions are learned :: A token has another position in each step, so there is nothing to learn.

# %% [markdown] quiz
# You use the eigenvectors $v_k$ as filters, without dividing by the root. What is different?
#
# - [x] some answers are far louder :: They stay uncorrelated, but the first have a far larger variance than the last.
# - [ ] the answers of two filters are correlated :: Eigenvectors alone make them uncorrelated; the root sets their size.
# - [ ] nothing: the next layer scales anyway :: A layer norm scales whole tokens, so loud filters drown the others.

# %% [markdown] quiz
# Twelve changes, one seed each; the best is 1.5 points ahead. What do you write?
#
# - [x] a candidate: three seeds next :: The best of twelve is ahead partly by luck.
# - [ ] it brings 1.5 points :: One run cannot tell that from luck, and it is the best of twelve.
# - [ ] nothing: one seed is worthless :: It says which few of the twelve deserve more runs.

# %% [markdown]
# ## Recap
#
# | what | what it does | shape |
# |---|---|---|
# | core-minutes | the price of a run, on one kind of processor | a number |
# | `newton_schulz` | singular values towards 1, directions stay | (m, n) to (m, n) |
# | Muon | momentum, then newton_schulz; for matrices in blocks | (m, n) |
# | `drop_tokens` | some patch tokens, positions already added | (B, N, D) to (B, keep, D) |
# | `whitening_filters` | answers uncorrelated, of variance 1 | (P²C, C, P, P) |
#
# - Compare at equal cost, on held-out pictures, one change at a time.
# - A good step uses all directions that the gradient has, not the loudest alone.
# - What everybody praises may bring nothing at your size. Measure it, and say so.
#
# How to put a run on the course's own list: [docs/speedrun.md](../docs/speedrun.md).
#
# ## Further reading
#
# - Jordan et al., *Muon: An optimizer for hidden layers in neural networks* (2024, a page with code); Liu et al., *Muon is
#   Scalable for LLM Training* (2502.16982): the factor that makes AdamW's rates fit.
# - Liu et al., *PatchDropout: Economizing Vision Transformers Using Patch Dropout* (2208.07220).
# - Jordan, *94% on CIFAR-10 in 3.29 Seconds on a Single GPU* (2404.00498): whitening, and how to report a speed run.
# - Trockman and Kolter, *Mimetic Initialization of Self-Attention Layers* (2305.09828).
