# ---
# title: "Design choices, measured"
# promise: "You find out which choices in a Vision Transformer matter, and you learn when a difference in a table means anything at all."
# part: "III. Beyond"
# minutes: 65
# map: [cls, position, pool]
# goals:
#   - "Sum up the results of several seeds, and say whether two settings differ."
#   - "Plan experiments that change one thing at a time."
#   - "Read the paper's table on positions beside our own."
#   - "Compare two models fairly although each needs a learning rate of its own."
#   - "Settle claims about patch size, depth, regularisers and cost with numbers."
# ---

# %% [markdown]
# ## 1. Is 81.2 % better than 80.7 %?
#
# You read it every day: "With our change the accuracy rises from 80.7 to 81.2 %." Should you change your model? Perhaps
# the change did nothing. Train the *same* model twice, with other random numbers (another **seed**), and the two
# results differ as well.
#
# So first look at pure chance. The next cell invents eight settings. All eight are *equal*: their true accuracy is 80
# %, and one run lies about half a point above or below it. Each has three seeds.

# %%
import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from einops import rearrange

from vit_course.beyond.positions import LearnedPosition2d, RelativePosition
from vit_course.classroom import check, plots
from vit_course.data import load_dataset, shapes10
from vit_course.experiments.records import caption, load_records
from vit_course.machinery.profiles import get_profile
from vit_course.recipes import FLIP_CROP, RECIPES, build_model
from vit_course.experiments.statistics import (
    PAPER_TABLE_8,
    by_step,
    pooled_deviation,
    result_table,
    verdict,
    width_for_depth,
)
from vit_course.train import train
from vit_course.vit import create_vit, vit_flops, vit_num_parameters

chance = torch.Generator().manual_seed(0)
draws = 80 + 0.5 * torch.randn(8, 3, generator=chance, dtype=torch.float64)
equal = {f"setting {i + 1}": row.tolist() for i, row in enumerate(draws)}
means = draws.mean(dim=1)
figure = plots.dots(
    {
        "one seed": ([name for name in equal for _ in range(3)], draws.flatten().tolist()),
        "mean": (list(equal), means.tolist()),
    },
    f"Eight equal settings, and the best mean is {means.max() - means.min():.1f} points above the worst",
    "test accuracy in percent (invented)",
)
plots.show(
    figure,
    "For each of eight settings three dots for the seeds and one for their mean, scattered between 79 and 81 percent.",
)

# %% [markdown]
# Somebody who tried these eight would publish the best one. To protect ourselves we need two numbers beside each mean.
# With n results $x_1 \ldots x_n$, one for each seed:
#
# $$m = \frac{1}{n}\sum_i x_i \qquad\qquad s = \sqrt{\frac{1}{n-1}\sum_i (x_i - m)^2} \qquad\qquad e = \frac{s}{\sqrt{n}}$$
#
# - m is the **mean**.
# - s is the **standard deviation**: how far a single run lies from the mean, typically. More seeds do not make it
#   smaller.
# - e is the **standard error** of the mean: how far m itself may be off. Four times the seeds halve it.
#
# Why n - 1? The results are closer to their own mean than to the true one, because the mean was made from them.
# Dividing by n - 1 makes up for that. With one seed there is no spread to see: it is *unknown*, which is not the same
# as 0.
#
# **Your task.** Write `mean_and_spread`.

# %% exercise="vit_course.experiments.statistics:mean_and_spread" difficulty=1 minutes=6 hint="Three cases: no values, one value, several. Only the third needs the formula for s." hint2="`mean = sum(values) / len(values)`, then `sqrt(sum((x - mean) ** 2 for x in values) / (len(values) - 1))`. The module `statistics` has `mean` and `stdev`, too."
from vit_course.experiments.statistics import mean_and_spread

mean_and_spread = check(mean_and_spread)

# %%
for name in ("setting 1", "setting 2", "setting 3"):
    mean, deviation, error = mean_and_spread(equal[name])
    seeds = " ".join(f"{x:.1f}" for x in equal[name])
    print(
        f"{name}: {seeds}  ->  mean {mean:.2f}, standard deviation {deviation:.2f}, standard error {error:.2f}"
    )
print("one seed: ", mean_and_spread([81.2]))

# %% [markdown]
# ## 2. When may we say "better"?
#
# Let $m_a$ and $m_b$ be the means of two settings, and $e_a$, $e_b$ their standard errors. The difference has a
# standard error as well. Chance rarely pushes both means the wrong way at once, so the squares are added:
#
# $$d = m_a - m_b \qquad\qquad e_d = \sqrt{e_a^2 + e_b^2}$$
#
# A difference d of less than one $e_d$ is quite normal for equal settings. The rule of this course: **we say "better"
# if d is larger than three standard errors**, and "undecided" otherwise.
#
# Where does s come from? Usually from the seeds of a and of b themselves. But two or three seeds say little about it,
# and one says nothing. If s is known from more runs, better use that. So the function takes an optional `deviation`.
#
# **Your task.** Write `compare_seeds`, which applies this rule. You may use `mean_and_spread`.

# %% exercise="vit_course.experiments.statistics:compare_seeds" difficulty=2 minutes=10 hint="Call `mean_and_spread` for a and for b. The difference is always known. The error is known if both errors are, or if `deviation` is given: then each of the two errors is `deviation / sqrt(n)`, with its own n." hint2="If `deviation is not None`, replace both errors first. Then `error = sqrt(error_a**2 + error_b**2)`. If `abs(difference) <= 3 * error`, the verdict is 'undecided'. Else the sign of the difference says whether 'a' or 'b' is better."
from vit_course.experiments.statistics import compare_seeds

compare_seeds = check(compare_seeds)

# %% [markdown]
# Other rules look strict and are not. "All three seeds of a are above all three of b": for equal settings this happens
# in one case of ten, in one direction or the other. And no rule of this kind names a cause. It says that a and b
# differ, and you must know what else differs between them.
#
# One part of chance stays hidden. All runs of a table are scored on the same test pictures, and often all seeds train
# on the same subset too. What another draw of pictures would change, their spread does not show.
#
# Why three errors, and not two? Because s is only an estimate. From two or three seeds it is often far too small, by
# luck. Do not believe it, count it: 20,000 times we compare two settings that are equal, and ask how often a rule calls
# one of them better.
#
# The third line is a better estimate. In one table all rows scatter about alike. So take *one* s for the whole table:
# the root of the mean of the rows' variances s². It is called the **pooled** standard deviation. Here it comes from
# eight rows.


# %%
def called_different(a, b, factor, variance=None):
    """Return for each trial whether the rule tells a (trials, n) from b (trials, n)."""
    each = (a.var(dim=1) + b.var(dim=1)) / 2 if variance is None else variance
    return (a.mean(dim=1) - b.mean(dim=1)).abs() > factor * (2 * each / a.shape[1]).sqrt()


numbers, trials = list(range(2, 11)), 20_000
rates = {
    "equal, 2 errors": [],
    "equal, 3 errors": [],
    "equal, 3 errors, pooled": [],
    "2 s apart, 3 errors, pooled": [],
}
for n in numbers:
    rows = torch.randn(8, trials, n, generator=chance)
    a, b, pooled = rows[0], rows[1], rows.var(dim=2).mean(dim=0)
    found = [called_different(a, b, 2), called_different(a, b, 3)]
    found += [called_different(a, b, 3, pooled), called_different(a + 2, b, 3, pooled)]
    for line, hits in zip(rates.values(), found, strict=True):
        line.append(100 * hits.double().mean().item())
two, three = rates["equal, 2 errors"][0], rates["equal, 3 errors, pooled"][0]
figure = plots.curves(
    {name: (numbers, line) for name, line in rates.items()},
    f"Two seeds: the rule of 2 errs in {two:.0f} % of cases, the rule of 3, pooled, in {three:.0f} %",
    "seeds of each setting",
    "called different, in percent",
)
plots.show(
    figure,
    "Share of trials called different over 2 to 10 seeds. For equal settings the lines fall from about 18 percent (two errors), "
    "10 percent (three) and 2 percent (three, pooled). Settings two standard deviations apart are found more and more often.",
)

# %% [markdown]
# The first three lines are **false alarms**. Pooling pays most where seeds are few, so the tables below use it. The
# last line shows what few seeds cost: a real difference is often missed. So "undecided" never means "equal". It means:
# these runs cannot tell.
#
# And a table has many rows. Each row is another chance for a false alarm.

# %%
for rows in (1, 2, 4, 8, 16):
    table = torch.randn(rows + 1, trials, 2, generator=chance)  # the first row is the base
    shares = []
    for variance in (None, table.var(dim=2).mean(dim=0)):
        alarms = torch.stack([called_different(row, table[0], 3, variance) for row in table[1:]])
        shares.append(alarms.any(dim=0).double().mean())
    print(
        f"{rows:2} rows equal to the base, 2 seeds: a false alarm in {shares[0]:3.0%} of tables, pooled {shares[1]:3.0%}"
    )

# %% [markdown]
# Without pooling, a long table almost promises a "discovery". With it, more rows also mean a better s,
# and the alarms stay below one table in ten.
#
# **What would change this conclusion?** The count assumes results that scatter in a bell shape, and alike in all rows.
# And all our runs are scored on the *same* test pictures. How results would move with other pictures, the spread over
# seeds does not say.
#
# ## 3. What do we vary, and what do we hold?
#
# The **ladder** of lesson 07 added one thing after another. It answers "where do I get?". But the last step was only
# ever tried on top of all the others. To ask "what does this one thing do?", go back to the same base each time: **one
# at a time**.
#
# | plan | runs for 8 choices, yes or no, 3 seeds | finds |
# |---|---|---|
# | ladder | 9 · 3 = 27 | a good recipe |
# | one at a time | 9 · 3 = 27 | the effect of each choice, *at this base* |
# | all combinations | 2⁸ · 3 = 768 | also whether choices help each other |
#
# **Your task.** Write `one_at_a_time`. Two mistakes are easy here: changes that pile up, because all experiments write
# into one dictionary; and a misspelt setting, which nobody reads, so that the experiment repeats the base in disguise.

# %% exercise="vit_course.experiments.statistics:one_at_a_time" difficulty=2 minutes=8 hint="Test each change first: is it exactly one setting, does the base have it, is the value new? Then make a *new* dict for it." hint2="`((setting, value),) = change.items()` unpacks the only pair. `{**base, setting: value}` is a copy of the base with one value replaced. Start with `plan = {'base': dict(base)}`."
from vit_course.experiments.statistics import one_at_a_time

one_at_a_time = check(one_at_a_time)

# %%
base_settings = {
    "weight_decay": 0.05,
    "label_smoothing": 0.1,
    "mixup": 0.0,
    "drop_rate": 0.0,
    "drop_path_rate": 0.0,
}
changes = {
    "no weight decay": {"weight_decay": 0.0},
    "no smoothing": {"label_smoothing": 0.0},
    "mixup": {"mixup": 0.8},
    "dropout": {"drop_rate": 0.1},
    "drop path": {"drop_path_rate": 0.1},
}
plan = one_at_a_time(base_settings, changes)
for name, settings in plan.items():
    different = {key: value for key, value in settings.items() if value != base_settings[key]}
    print(f"{name:16} differs from the base in {different or 'nothing'}")

# %% [markdown]
# You will run a row of this plan in section 8. Now to the choices themselves.
#
# ## 4. Which positions, and where?
#
# Lesson 03 ended with the paper's Table 8: four kinds of positions, and three places to add them. How do they look in a
# model?
#
# - **1-D**: one vector of width D for each token. **2-D**: half of the vector belongs to the row, half to the column.
# - **Relative**: each offset i - j of query i and key j has a vector, which changes the attention score (lesson 04).
# - **stem**: added once, to $z_0$. **every**: added to the input of every block, each time from a table of its own.
#   **shared**: added to the input of every block, always the same table.
#
# Two pictures. The first compares positions before training, as in lesson 03: each small map shows how similar one
# place is to all places.

# %%
torch.manual_seed(0)
one_d, two_d = 0.02 * torch.randn(64, 192), LearnedPosition2d((8, 8), 192)()[0, 1:].detach()
maps = []
for table in (one_d, two_d):
    unit = F.normalize(table, dim=1)
    maps.append(rearrange(unit @ unit.T, "(r c) (h w) -> r c h w", r=8, h=8))
figure = plots.map_grid(
    maps, ["1-D", "2-D"], "Untrained, a 2-D table already knows its row and its column", "cosine similarity"
)
plots.show(
    figure,
    "Two 8 by 8 grids of small maps. 1-D: each map is one bright point in noise. 2-D: each map is a bright cross along its row "
    "and its column.",
)

# %% [markdown]
# The second picture shows the offsets of the relative kind for a grid of 4x4. It is *1-D* relative, as in the paper:
# the offset counts places in the list. Find the patch that is "one place further", offset -1.

# %%
index = RelativePosition(num_tokens=17, head_dim=8).index - 16  # (T, T), the offset i - j; token 0 is CLS
queries = {"query: row 1, column 1": 6, "query: row 1, column 3": 8}
grids = [rearrange(index[token, 1:], "(r c) -> r c", r=4) for token in queries.values()]
labels = [f"{i}" for i in range(4)]
figure = plots.number_tables(
    grids,
    list(queries),
    "Offset -1: a neighbour, or a patch at the other side of the picture",
    [f"row {i}" for i in labels],
    [f"column {i}" for i in labels],
    shared_scale=True,
)
plots.show(
    figure,
    "Two 4 by 4 tables of offsets from a query, which itself has 0. Left, offset -1 is the patch on the right. Right, the query is the "
    "last of its row, and offset -1 is the first patch of the next row.",
)

# %% [markdown]
# So this kind must learn what a row is, like the 1-D table.
#
# The ViT of lesson 06 has only positions that are added once. `with_positions` puts the other ways into a finished model:
# it wraps its blocks, or replaces its attention, and `build_model` calls it. How many numbers does each way learn? Build
# the models and count.

# %%
small = shapes10(train=100, test=100)
kinds = {"none": "none", "learned": "1-D", "2d": "2-D", "sincos": "sin-cos", "relative": "relative"}
ways = [("none", "stem"), *((kind, at) for kind in ("learned", "2d") for at in ("stem", "every", "shared"))]
ways += [("sincos", "stem"), ("relative", "stem")]


def count_learned(**options):
    """Count the numbers that Ti/4 learns."""
    model = build_model("Ti/4", small, **options)
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


without = count_learned(pos_embed="none")
print(f"Ti/4 without positions: {without:,} numbers; positions add")
for kind, at in ways[1:]:
    extra = count_learned(pos_embed=kind, pos_embed_at=at) - without
    print(f"   {kinds[kind]:9} {at:7} {extra:8,}  ({extra / without:.2%})")

# %% [markdown]
# Even the largest is a few percent of the model. Positions are cheap, so the question is accuracy alone. Here is the
# **paper's Table 8**, and below it ours in the same layout. (The paper: ViT-B/16, ImageNet, five labelled pictures for
# each class, one number each.) Relative positions sit in the attention of every layer; the paper lists them under
# "stem", and so do we. Sine and cosine tables are ours alone.


# %% tags=["nbval-ignore-output"]
def recorded(group):
    """Load the recorded runs of a group, and say where they come from or how to make them."""
    records = load_records(group)
    if not records:
        print(
            f"No recorded runs of '{group}' are here yet. `python -m vit_course experiments {group}` makes them."
        )
        return []
    print(caption(records, 110))
    models, epochs = sorted({r["model"] for r in records}), sorted({r["config"]["epochs"] for r in records})
    print(f"{', '.join(models)}; {', '.join(map(str, epochs))} epochs\n")
    return records


def tally(table):
    """Count the verdicts in the lines of a table."""
    words = [word for line in table[1:] for word in line.split() if word in ("better", "worse", "undecided")]
    return ", ".join(f"{words.count(word)} {word}" for word in ("better", "worse", "undecided"))


def in_order(results, steps):
    """Sort results by a list of steps; unknown steps come last."""
    return {
        s: results[s] for s in [*(s for s in steps if s in results), *(s for s in results if s not in steps)]
    }


print(f"{'paper':10} {'stem':>9} {'every':>9} {'shared':>9}")
for kind, row in PAPER_TABLE_8.items():
    print(
        f"{kind:10}", *(f"{row[at]:9.2f}" if at in row else f"{'':9}" for at in ("stem", "every", "shared"))
    )
print()
positions = by_step(recorded("positions"))
step_of = {(kinds[kind], at): kind if kind in ("none", "relative") else f"{kind}-{at}" for kind, at in ways}
if positions:
    print(f"{'ours':10} {'stem':>9} {'every':>9} {'shared':>9}")
    for kind in ("none", "1-D", "2-D", "relative", "sin-cos"):
        cells = [positions.get(step_of.get((kind, at))) for at in ("stem", "every", "shared")]
        print(
            f"{kind:10}", *(f"{mean_and_spread(values)[0]:9.1f}" if values else f"{'':9}" for values in cells)
        )

# %% tags=["nbval-ignore-output"]
gains = {"paper": ([], []), "ours, a dot for each seed": ([], [])}
for (kind, at), step in step_of.items():
    label = f"{kind}, {at}"
    if at in PAPER_TABLE_8.get(kind, {}) and kind != "none":
        gains["paper"][0].append(label)
        gains["paper"][1].append(PAPER_TABLE_8[kind][at] - PAPER_TABLE_8["none"]["stem"])
    if "none" in positions and step != "none":
        for value in positions.get(step, []):
            gains["ours, a dot for each seed"][0].append(label)
            gains["ours, a dot for each seed"][1].append(value - mean_and_spread(positions["none"])[0])
drawn = {name: points for name, points in gains.items() if points[0]}
spans = [
    f"{name.split(',')[0]} {min(values):.1f} to {max(values):.1f}" for name, (_, values) in drawn.items()
]
figure = plots.dots(
    drawn,
    f"What positions gain over none, in points: {'; '.join(spans)}",
    "points of accuracy above the model without positions",
)
figure.axes[0].axvline(0, color="0.6", lw=1, ls=":")
plots.show(
    figure,
    "For each kind and place of positions the gain over none: the paper's lie between 2.6 and 2.9 points; ours, where recorded, "
    "are dots, one for each seed.",
)
if positions:
    positions = in_order(positions, step_of.values())
    print(*result_table(positions, "none"), sep="\n")
    print()
    one_run = pooled_deviation(positions.values())
    for step, values in positions.items():
        if step not in ("none", "learned-stem") and "learned-stem" in positions:
            print(verdict(step, values, "learned-stem", positions["learned-stem"], one_run))

# %% [markdown]
# Two questions, two lists of verdicts. The upper table asks whether positions help *at all*. The lower list asks
# whether the *kind* matters, measured against the usual one, 1-D at the stem. Look at the column `seeds`, and count the
# rows: section 2 told you how often such a table raises a false alarm, and how much it misses.
#
# **What would change this conclusion?** A finer grid: a small one has few places to learn. A longer training, in which
# a learned table catches up with a computed one. More data. And objects that always stand upright or always in the
# middle.
#
# ## 5. CLS token or average? The trap of one learning rate
#
# Lesson 02 left a question open. The head can read the CLS token, or the average of the patch tokens (**GAP**, global
# average pooling). In the paper's appendix D.3 the first models with GAP were bad, at a learning rate of 8e-4 where CLS
# was good. At 3e-4, GAP was as good as CLS. So GAP had first been measured at a rate that suited its opponent.
#
# So each side needs its own **sweep**: several learning rates, and the best of them is compared with the best of the
# other side.
#
# **Your task.** Write `best_learning_rate`. It also says whether the best rate lies at the *edge* of the sweep. Then
# nobody knows whether a rate beyond the edge would have been better still, and the sweep must go on.

# %% exercise="vit_course.experiments.statistics:best_learning_rate" difficulty=2 minutes=8 hint="First a mean for each rate, then the rate with the highest one. The dict may be in any order: for the edges ask `min` and `max` of the rates." hint2="`means = {rate: sum(v) / len(v) for rate, v in results.items()}`. Go through `sorted(means)`, so that the smaller of two equal rates comes first; `max(sorted(means), key=means.get)` does so. At the edge: `best in (min(results), max(results))`."
from vit_course.experiments.statistics import best_learning_rate

best_learning_rate = check(best_learning_rate)

# %% [markdown]
# Choosing a rate is a choice, so it is made on *held-out* training pictures. The test pictures are scored for the
# report. Here is a small sweep on your machine, one seed.

# %% tags=["nbval-ignore-output"]
profile, everything = get_profile(), load_dataset("auto")
part = everything.subset(
    min(profile.pick(smoke=320, cpu=3_500, gpu=50_000), len(everything.train_images)),
    min(profile.pick(smoke=200, cpu=2_000, gpu=10_000), len(everything.test_images)),
)
model_name = profile.pick(smoke="Nano/8", cpu="Nano/8", gpu="Ti/4")
recipe = replace(
    RECIPES["smoothing"],
    epochs=profile.pick(smoke=1, cpu=5, gpu=5),
    batch_size=profile.pick(smoke=64, cpu=32, gpu=512),
    validation=profile.pick(smoke=64, cpu=500, gpu=5_000),
    quiet=True,
)
print(part)
print(
    f"profile {profile.name}: 6 runs here and 6 in section 8, about {profile.pick(smoke=0.2, cpu=3, gpu=3)} minutes"
)


def run(config, **options):
    """Train a fresh model, and return the history."""
    torch.manual_seed(config.seed)
    return train(build_model(model_name, part, **options), part, config)


names = {"token": "CLS", "avg": "GAP"}
held_out, tested = {"token": {}, "avg": {}}, {"token": {}, "avg": {}}
for rate in (2.5e-4, 1e-3, 4e-3):
    for pool in names:
        history = run(replace(recipe, lr=rate), global_pool=pool)
        held_out[pool][rate], tested[pool][rate] = (
            [100 * history.val_accuracy[-1]],
            [100 * history.test_accuracy],
        )


def read_sweep(held_out, tested):
    """Print the accuracies at each rate, who leads there, and what is left when each has its own best rate."""
    print("rate          CLS     GAP   a report at this rate alone would say")
    rates = sorted(tested["token"].keys() & tested["avg"].keys())
    for rate in rates:
        cls, gap = (mean_and_spread(tested[pool][rate])[0] for pool in ("token", "avg"))
        print(
            f"{rate:8.5g} {cls:8.1f} {gap:7.1f}   {'CLS' if cls > gap else 'GAP'} leads by {abs(cls - gap):.1f} points"
        )
    chosen = {}
    for pool, name in names.items():
        best, at_edge = best_learning_rate(held_out[pool])
        chosen[name] = tested[pool][best]
        print(f"{name}: best rate {best:g}" + (", at the EDGE: the sweep is too narrow" if at_edge else ""))
    one_run = pooled_deviation([values for pool in names for values in tested[pool].values()])
    print("each at its own rate:", verdict("CLS", chosen["CLS"], "GAP", chosen["GAP"], one_run))
    return rates, chosen


_ = read_sweep(held_out, tested)

# %% [markdown]
# A minute of training and one seed are a look, no result. The recorded sweep has more rates and seeds. Before you read
# it, cover all rows but one with your hand, and see what you would have concluded.

# %% tags=["nbval-ignore-output"]
pooling = recorded("pooling")
held_out, tested = {"token": {}, "avg": {}}, {"token": {}, "avg": {}}
for record in pooling:
    pool, rate, test = record["step"].split("-")[0], record["config"]["lr"], 100 * record["test_accuracy"]
    tested[pool].setdefault(rate, []).append(test)
    held_out[pool].setdefault(rate, []).append(
        100 * record["val_accuracy"][-1] if record["val_accuracy"] else test
    )
if tested["token"] and tested["avg"]:
    if not all(record["val_accuracy"] for record in pooling):
        print(
            "These runs held no pictures out: the rate is chosen on the test pictures, so the best is too good."
        )
    rates, chosen = read_sweep(held_out, tested)
    leads = sum(mean_and_spread(tested["token"][r])[0] > mean_and_spread(tested["avg"][r])[0] for r in rates)
    figure = plots.seed_curves(
        {names[pool]: tested[pool] for pool in names},
        f"CLS has the higher mean at {leads} of {len(rates)} learning rates",
        "peak learning rate",
        "test accuracy in percent",
        log=True,
    )
    plots.show(figure, "Test accuracy of CLS and GAP over the peak learning rate; a dot for each seed.")

# %% [markdown]
# Read it in three steps. Is the leader the same at every rate? Are both best rates inside the sweep? And does the last
# verdict, each at its own rate, decide anything? Only the third is about CLS and GAP. The others are about learning
# rates.
#
# **What would change this conclusion?** A finer sweep. Other settings that were chosen for one side: warm-up, epochs,
# weight decay. The trap is general. Whoever compares A and B with settings tuned for A will find that A is better.
#
# ## 6. Smaller patches: better, or only more expensive?
#
# Smaller patches mean more tokens: N = HW/P². The cost can be computed, without training. `vit_flops` counts the
# operations of one picture.

# %%
print("Nano, 32x32 pixels   tokens   parameters     MFLOP forward")
for side in (16, 8, 4, 2):
    model = create_vit(f"Nano/{side}", img_size=32)
    count = sum(p.numel() for p in model.parameters())
    print(
        f"P = {side:2}             {model.patch_embed.num_patches + 1:8} {count:12,} {vit_flops(model) / 1e6:17.1f}"
    )

# %% [markdown]
# Half the side of a patch means four times the patches. The cost grows about as much; the number of parameters
# changes little. What do we get for it? The figure shows the accuracy over the cost, not over P.

# %% tags=["nbval-ignore-output"]
patches = recorded("patches")
if patches:
    results = in_order(by_step(patches), [f"patch-{side}" for side in (16, 8, 4, 2)])
    cost = {record["step"]: float(f"{record['forward_flops'] / 1e9:.3g}") for record in patches}
    notes = {"": "GFLOP for one picture", **{step: f"{value:g}" for step, value in cost.items()}}
    print(*result_table(results, list(results)[len(results) // 2], notes), sep="\n")
    figure = plots.seed_curves(
        {"a patch side each": {cost[step]: values for step, values in results.items()}},
        "Accuracy over cost; from left to right: "
        + ", ".join(step.replace("patch-", "P = ") for step in results),
        "GFLOP for one picture, forward",
        "test accuracy in percent",
        log=True,
    )
    figure.axes[0].get_legend().remove()
    plots.show(figure, "Test accuracy over the cost of one picture for each patch side; a dot for each seed.")

# %% [markdown]
# All rows saw equally many pictures, so the row with small patches spent several times as many operations. A fair
# question is also: what would the large patches reach with that budget, or with a wider model?
#
# **What would change this conclusion?** Equal operations instead of equal epochs. Larger pictures, where a patch of 4
# is a smaller part of the object.
#
# While we are at cost, here is a claim from blog posts: "the cost grows exponentially with the resolution". Exponential
# growth is a fixed factor for each *added* pixel. A power of the side is a fixed factor for each *doubling*, and a
# straight line when both axes are logarithmic.

# %%
sides = [32, 64, 96, 128, 192, 256]
costs = [vit_flops(create_vit("Ti/4", img_size=side)) / 1e9 for side in sides]
slopes = [
    math.log(b / a) / math.log(t / s) for a, b, s, t in zip(costs, costs[1:], sides, sides[1:], strict=False)
]
growth = (costs[1] / costs[0]) ** (1 / 32)  # per pixel, from the first two points
figure = plots.curves(
    {
        "ViT-Ti/4": (sides, costs),
        "exponential": (sides, [costs[0] * growth ** (side - 32) for side in sides]),
    },
    f"The cost is a power of the side between {slopes[0]:.1f} and {slopes[-1]:.1f}, not an exponential",
    "side of the picture in pixels",
    "GFLOP for one picture, forward",
    log="xy",
)
figure.axes[0].set_xticks(sides, sides)
figure.axes[0].minorticks_off()
plots.show(
    figure,
    "Cost over the side of the picture, both axes logarithmic: the ViT's line is nearly straight, an exponential through the same first "
    "two points bends upward, far above it.",
)

# %% [markdown]
# The power grows from 2, where the linear layers dominate (N tokens), towards 4, where attention does (N² pairs).
#
# ## 7. Deep or wide?
#
# A block has about 12·D² parameters, so L blocks have 12·L·D². For a fixed number of parameters we can have many narrow
# layers or few wide ones. `width_for_depth` finds the width.

# %%
goal = vit_num_parameters(patch_size=8, embed_dim=96, depth=3)
print(f"about as large as Nano/8, {goal:,} parameters")
for depth in (1, 3, 6, 12):
    width = width_for_depth(depth, goal, patch_size=8)
    model = create_vit("Nano/8", img_size=32, embed_dim=width, depth=depth)
    count = sum(p.numel() for p in model.parameters())
    print(
        f"L = {depth:2}, D = {width:3}: {count:8,} parameters, {vit_flops(model) / 1e6:5.1f} MFLOP, heads of {width // 3}"
    )

# %% tags=["nbval-ignore-output"]
shape = recorded("shape")
if shape:
    results = in_order(by_step(shape), [f"depth-{depth}" for depth in (1, 3, 6, 12)])
    notes = {"": "parameters    MFLOP  seconds"}
    for r in shape:
        notes[r["step"]] = f"{r['parameters']:10,} {r['forward_flops'] / 1e6:8.1f} {r['seconds']:8.0f}"
    table = result_table(results, "depth-3", notes)
    print(*table, sep="\n")
    figure = plots.seed_curves(
        {"equal parameters": {int(step.split("-")[1]): values for step, values in results.items()}},
        f"Equal parameters, against depth-3: {tally(table)}",
        "layers L",
        "test accuracy in percent",
        log=True,
    )
    figure.axes[0].get_legend().remove()
    plots.show(figure, "Test accuracy over the number of layers at equal parameters; a dot for each seed.")

# %% [markdown]
# Look at the seconds as well. Layers wait for each other, so a deep model can be slow even if the operations are few.
#
# The paper asked in another way (appendix D.2, Figure 8). It starts from 8 layers, D = 1024, MLP 2048 and P = 32, and
# makes one of them larger at a time. More layers brought most, up to 64 of them, with less gain after 16. More width
# brought least. Smaller patches helped too, without a single parameter more. There the number of parameters grows; here
# it is fixed. So the two answer different questions, and need not agree.
#
# **What would change this conclusion?** Each shape may want its own learning rate: section 5 again. The width of a head
# changes along with D. And a deep model may need more epochs.
#
# ## 8. Which regulariser helps?
#
# A **regulariser** makes learning by heart harder (lesson 07). Our base has weight decay .05, label smoothing .1, crop
# and flip. Each row of the recorded table changes one thing.

# %% tags=["nbval-ignore-output"]
regularisers = recorded("regularisers")
if regularisers:
    order = [
        "base",
        "no-weight-decay",
        "weight-decay-0.3",
        "no-smoothing",
        "dropout",
        "drop-path",
        "mixup",
        "cutmix",
    ]
    results = in_order(by_step(regularisers), [*order, "rand-augment"])
    notes = {"": "training accuracy in %"}
    for r in regularisers:
        notes[r["step"]] = f"{100 * r['train_accuracy'][-1]:.1f}"
    table = result_table(results, "base", notes)
    print(*table, sep="\n")
    points = [(step, value) for step, values in results.items() for value in values]
    figure = plots.dots(
        {
            "one seed": ([step for step, _ in points], [value for _, value in points]),
            "mean": (list(results), [mean_and_spread(values)[0] for values in results.values()]),
        },
        f"Against the base: {tally(table)}",
        "test accuracy in percent",
    )
    figure.axes[0].axvline(mean_and_spread(results.get("base", points[0][1:]))[0], color="0.6", lw=1, ls=":")
    plots.show(
        figure, "Test accuracy for the base and each changed row: a dot for each seed and one for the mean."
    )

# %% [markdown]
# The last column is the accuracy on the training pictures, augmented as in training. Read it in the row `base`. Far
# above the test accuracy means learning by heart: there a regulariser can help. Is it near the test accuracy, or below?
# Then there is little learning by heart to stop, and a regulariser may only slow the model down. In the rows mixup,
# cutmix and rand-augment this column says less: their training pictures are harder than the test pictures.
#
# Now **run a row yourself**. `my_row` names a row of your plan from section 3. Base and row get three seeds each. Write
# down first what you expect.

# %% tags=["nbval-ignore-output"]
my_row = "no smoothing"  # or another name of the plan
mine = {}
for name in ("base", my_row):
    settings = plan[name]
    options = {key: settings[key] for key in ("drop_rate", "drop_path_rate")}
    config = replace(
        recipe,
        lr=1e-3,
        weight_decay=settings["weight_decay"],
        label_smoothing=settings["label_smoothing"],
        augment=replace(FLIP_CROP, mixup=settings["mixup"]),
        validation=0,
    )
    mine[name] = [100 * run(replace(config, seed=seed), **options).test_accuracy for seed in range(3)]
print(part.provenance)
print(*result_table(mine, "base"), sep="\n")

# %% [markdown]
# **What would change this conclusion?** More epochs: what loses in ten can win in three hundred. A larger model, or
# fewer pictures. A stronger or weaker dose. And a base that has other regularisers already, since two of them can do
# the same work.
#
# ## 9. Which claims survive?
#
# Four sentences from blog posts. The code decides where it can; where seeds are too few, it says so.

# %% tags=["nbval-ignore-output"]
tokens = create_vit("Ti/4", img_size=32).embed(torch.zeros(1, 3, 32, 32))
print("'One token for each channel, D + 1 tokens with CLS.'")
print(f"   No: {tuple(tokens.shape[1:])} is (N + 1, D), one token for each patch, and CLS.")
print("'The cost grows exponentially with the resolution.'")
print(f"   No: with a power of the side, here between {slopes[0]:.1f} and {slopes[-1]:.1f}; never above 4.")
print("'Any position embedding is as good.'")
if positions:
    alternatives = [step for step in positions if step not in ("none", "learned-stem")]
    one_run, usual = pooled_deviation(positions.values()), positions.get("learned-stem", [0.0])
    found = [compare_seeds(positions[step], usual, one_run)[2] for step in alternatives]
    print(f"   Of {len(found)} kinds against learned-stem: {found.count('a')} better, {found.count('b')} worse, "
          f"{found.count('undecided')} undecided.")  # fmt: skip
else:
    print("   No records yet.")
print("'CLS allows twice the learning rate, so it trains faster.'")
if tested["token"] and tested["avg"]:
    best = {pool: best_learning_rate(held_out[pool])[0] for pool in names}
    print(
        f"   Best rate of CLS / best rate of GAP: {best['token'] / best['avg']:g}. Training loss half-way, each at its rate:"
    )
    for pool, name in names.items():
        runs = [
            r["train_loss"] for r in pooling if r["step"].startswith(pool) and r["config"]["lr"] == best[pool]
        ]
        mean, _, error = mean_and_spread([losses[(len(losses) - 1) // 2] for losses in runs])
        print(f"   {name} {mean:.3f}" + (f" ± {error:.3f}" if error is not None else ", one seed"))
else:
    print("   No records yet.")

# %% [markdown]
# The third needs care. "All undecided" would not prove "as good". It says that these runs could not tell, at this size
# and on this grid. And the fourth is two claims: that the best rate is higher, and that training is *faster*. A larger
# step is no faster arrival. Only the loss after equally many epochs, each at its own rate, can show that.
#
# **Your next step.** Pick the row that surprised you most. Which other explanation does your verdict leave open? Change
# `my_row`, or add a row to the plan in section 3 that tells the two apart. Fix the number of seeds *before* you look.
#
# ## Check yourself
#
# **1.** Three seeds give 90.1, 90.4 and 90.7 %. You train three more, and they scatter as much. Which number becomes
# smaller? (a) the standard deviation (b) the standard error (c) both
#
# <details><summary>Answer</summary>
#
# **(b)** More seeds tell better where the mean is. (a) describes single runs, and these scatter as before; so (c) is
# wrong too.
#
# </details>
#
# **2.** The verdict is "undecided". What may you write? (a) both are equally good (b) these runs cannot tell them apart
# (c) the one with the higher mean is probably better, so take it
#
# <details><summary>Answer</summary>
#
# **(b)** (a): with few seeds a true difference is often missed. (c) is fine as a bet, but it is no result.
#
# </details>
#
# **3.** Sixteen changes were tried against one base, and one is "better". What do you do? (a) adopt it (b) run it and
# the base again, with new seeds (c) drop the other fifteen from the report
#
# <details><summary>Answer</summary>
#
# **(b)** The more rows, the likelier a false alarm in one of them. New seeds are an independent test. (a) trusts the
# luckiest row, and (c) hides how lucky it had to be.
#
# </details>
#
# **4.** Your new pooling is worse than CLS by two points, at the learning rate of the CLS model. What follows? (a) the
# new pooling is worse (b) nothing yet: sweep the rate of both (c) the rate should be lower
#
# <details><summary>Answer</summary>
#
# **(b)** This is the trap of D.3. (a) holds only for this rate. (c) is a guess: the best rate may be higher.
#
# </details>
#
# **5.** The best learning rate is the largest one you tried. (a) good, it is the best (b) the sweep must go on to
# larger rates (c) use the second best, to be safe
#
# <details><summary>Answer</summary>
#
# **(b)** Beyond the edge it may be better still, so (a) is not known. (c) throws away the only thing the sweep has
# shown.
#
# </details>
#
# ## Recap
#
# | what | shape or formula | Ti/4, 32x32 pixels |
# |---|---|---|
# | seeds of one setting | n numbers | m, s, e = s / √n; s pooled over a table |
# | difference of two settings | d, √(e_a² + e_b²) | "better" beyond three errors |
# | 1-D positions, stem or shared | (1, N + 1, D) | (1, 65, 192) |
# | 1-D positions, every layer | L x (1, N + 1, D) | 12 x (1, 65, 192) |
# | 2-D tables | (rows, D/2), (columns, D/2), CLS (1, 1, D) | (8, 96), (8, 96), (1, 1, 192) |
# | relative, each layer | (2T - 1, d) with T = N + 1 | (129, 64) |
# | parameters of the blocks | about 12·L·D² | 12·12·192² |
# | tokens | HW/P² + 1 | 65 |
#
# - Chance alone makes winners. Seeds, spread and a rule fixed before you look protect you.
# - Change one thing at a time, and give each side the settings it needs.
# - "Undecided" is a result. "What would change it?" belongs to each one.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), appendices D.2 to D.4, Figures 8 to 10, Table 8.
# - Bouthillier et al., *Accounting for Variance in Machine Learning Benchmarks* (2021): where the spread comes from.
# - Dodge et al., *Show Your Work: Improved Reporting of Experimental Results* (2019): the effort of a search belongs
#   into the report.
# - Steiner et al., *How to train your ViT?* (2021): regularisers and data, measured one against the other.
