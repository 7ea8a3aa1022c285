# ---
# title: "Design choices, measured"
# promise: "Measure which design choices matter, and tell a difference from chance."
# part: "III. Beyond"
# map: [cls, position, pool]
# recall: ["02.1", "03.3", "07.2"]
# goals:
#   - "Build the rule that says whether two settings differ by more than luck, and count how often it errs."
#   - "Compare two models at equal processor time, and say what the seeds decide."
#   - "Read the paper's table on positions beside our own."
#   - "Compare two models fairly when each needs a learning rate of its own."
#   - "Change one thing at a time, and say what was held fixed."
# ---

# %% [markdown]
# ## 1. Is 81.2 % better than 80.7 %?
#
# "With our change the accuracy rises from 80.7 to 81.2 %." Should you adopt the change? Train the *same* model twice
# with different random numbers (another **seed**), and the two results differ as well.
#
# So look at pure chance first. The next cell invents eight settings that are all *equal*: the true accuracy is 80 %, and
# a single run lies about half a point above or below it. Each setting has three seeds.
#
# > **Predict.** How far will the best mean of the eight lie above the worst?

# %%
import math
from dataclasses import replace
from statistics import fmean, variance
from textwrap import fill

import torch

from vit_classroom import check, plots, table
from vit_classroom.numbers import minutes, percent
from vit_course.data import load_dataset, shapes10
from vit_classroom.evidence.records import caption, linear_classifier, load_records
from vit_classroom.evidence.statistics import (
    PAPER_TABLE_8,
    best_rate,
    by_step,
    difference_in_words,
    result_table,
    t_quantile,
    undecided,
)
from vit_course.training.processor import one_thread
from vit_course.training.profiles import get_profile
from vit_course.recipes import RECIPES, build_model
from vit_course.train import train
from vit_course.vit import create_vit, vit_flops, vit_num_parameters

chance = torch.Generator().manual_seed(7)
draws = 80 + 0.5 * torch.randn(8, 3, generator=chance, dtype=torch.float64)
equal = {f"setting {i + 1}": row.tolist() for i, row in enumerate(draws)}
best, worst = (pick(equal, key=lambda name: fmean(equal[name])) for pick in (max, min))

# %% fold
figure = plots.dots(
    {
        "one seed": ([name for name in equal for _ in range(3)], draws.flatten().tolist()),
        "mean": (list(equal), draws.mean(dim=1).tolist()),
    },
    "Eight equal settings with three seeds each: which would you choose?",
    "test accuracy in percent (invented)",
)
plots.show(
    figure,
    "For each of eight settings three dots for the seeds and one for their mean, scattered between 79 and 81 percent.",
)
print(f"{best} lies {fmean(equal[best]) - fmean(equal[worst]):.1f} points above {worst}; it is pure chance")

# %% [markdown]
# Somebody who tried these eight would publish the best one. How do we protect ourselves?
#
# ## 2. When may we say "better"?
#
# The rule of this course, known from lesson 07, is the difference of two means with its **95 % interval**. If the
# interval holds 0, the seeds are **undecided**. Now you build it. Let a setting have n seeds $x_1 \ldots x_n$.
#
# - Its **mean** is $m = \frac{1}{n}\sum_i x_i$.
# - Its **variance** is $s^2 = \frac{1}{n-1}\sum_i (x_i - m)^2$. Its root s, the **standard deviation**, says how far a
#   single run typically lies from the mean; more seeds do not make it smaller. Dividing by n - 1 makes up for the fact that
#   results lie closer to their own mean than to the true one.
# - Its mean is off as well, but less: $q = s^2/n$ is the square of the **standard error** of the mean. Four times the
#   seeds halve the error.
#
# For two settings a and b the difference is $m_a - m_b$. Chance rarely pushes both means the wrong way at once, so the
# squares are added. The interval reaches t standard errors to both sides:
#
# $$e = \sqrt{q_a + q_b} \qquad\qquad (m_a - m_b) \pm t \cdot e \qquad\qquad
# \text{degrees} = \frac{(q_a + q_b)^2}{q_a^2/(n_a - 1) + q_b^2/(n_b - 1)}$$
#
# What is t? If s were known exactly, 1.96 would do: 95 % of a bell curve lie that close to its middle. But s is only
# an estimate, and from three seeds it is often far too small, by luck. So t must be larger; how much larger depends on
# the **degrees of freedom**, roughly the number of seeds beyond the first of each setting. `t_quantile(0.95, degrees)`
# is given. The formula for the degrees is Welch's. It does not assume that both settings vary equally.
#
# With one seed there is no spread to see: it is *unknown*, which is not the same as 0. Then the interval has no ends. Those
# lines are given.
#
# **Your task.** Write the rest of `difference`. `fmean`, `variance`, `sqrt` and `inf` are imported in the cell.

# %% exercise="vit_classroom.evidence.statistics:difference" difficulty=2 minutes=15 hint="The formulas above: e, then the degrees, then the interval; where nothing scatters e is 0, and both ends are the difference." hint2="`squares = [variance(values) / len(values) for values in (a, b)]`, `error = sqrt(sum(squares))`. The parts below the line are `square**2 / (len(values) - 1)`, one for each setting. Then `reach = t_quantile(0.95, sum(squares) ** 2 / sum(parts)) * error`."
from vit_classroom.evidence.statistics import difference

difference = check(difference)

# %% [markdown]
# How large is t, and what does your rule say of the eight settings?
#
# > **Predict.** Best against worst of eight *equal* settings: will the interval hold 0?

# %%
print("degrees of freedom and t:", {d: round(t_quantile(0.95, d), 2) for d in (1, 2, 4, 10, 100)})
gap, low, high = difference(equal[best], equal[worst])
print(f"{best} minus {worst}: {gap:+.2f} points, 95 % interval {low:+.2f} to {high:+.2f}")

# %% [markdown]
# The interval does not hold 0, so the rule is wrong! (We looked for such a draw; it is not rare.) The rule was not made for
# this: out of 28 pairs we *chose* the most different one. Even for one fair pair a 95 % interval misses five times in a
# hundred. Count it: the next cell compares two equal settings again and again, by three rules.


# %%
def two_errors(a, b):
    return abs(fmean(a) - fmean(b)) > 2 * math.sqrt(variance(a) / len(a) + variance(b) / len(b))


def no_overlap(a, b):
    return min(a) > max(b) or min(b) > max(a)


def our_rule(a, b):
    return not undecided(*difference(a, b)[1:])


profile = get_profile()
trials, numbers = profile.pick(smoke=50, cpu=500, gpu=500), [2, 3, 5, 10]


def told_apart(rule, n, apart=0.0):
    """Return in how many percent of trials a rule tells two settings of n seeds apart."""
    found = 0
    for _ in range(trials):
        a, b = torch.randn(2, n, generator=chance, dtype=torch.float64).tolist()
        found += rule([x + apart for x in a], b)
    return 100 * found / trials


rates = {
    "equal: no seeds overlap": [told_apart(no_overlap, n) for n in numbers],
    "equal: two standard errors": [told_apart(two_errors, n) for n in numbers],
    "equal: our rule": [told_apart(our_rule, n) for n in numbers],
    "two deviations apart: our rule": [told_apart(our_rule, n, apart=2.0) for n in numbers],
    "two deviations apart: no seeds overlap": [told_apart(no_overlap, n, apart=2.0) for n in numbers],
}

# %% fold
figure = plots.curves(
    {name: (numbers, line) for name, line in rates.items()},
    "How often does each rule tell two settings apart?",
    "seeds of each setting",
    "told apart, in percent",
)
figure.axes[0].set_xticks(numbers)
figure.axes[0].legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)
plots.show(
    figure,
    "Share of trials told apart over 2 to 10 seeds. For equal settings the rule 'no seeds overlap' falls from about 33 percent, "
    "two standard errors from about 20; our rule stays near or below 5. It finds settings two standard deviations apart "
    "seldom with 2 seeds and nearly always with 10; 'no seeds overlap' finds them less and less often.",
)

# %% [markdown] claim=["max(rates['equal: our rule']) < 9 and rates['equal: two standard errors'][0] > 10 and 5 < rates['equal: no seeds overlap'][1] < 16", "rates['two deviations apart: our rule'][0] < 50 < rates['two deviations apart: our rule'][-1] and rates['equal: no seeds overlap'][-1] < 2 and rates['two deviations apart: no seeds overlap'][-1] < 20"]
# The first three lines are **false alarms**. "No seeds overlap" sounds strict, but with three seeds chance alone does it about one
# time in ten. With ten it never errs, and misses nearly everything (the last line). Two standard errors are too few while seeds
# are few. Only the t of our rule keeps its promise for any number of seeds.
#
# The line above the last shows its price: with two seeds, even a large difference is mostly missed. So "undecided" never means
# "equal". It means that these runs cannot tell. And a table has many rows, each another chance for a false alarm:

# %%
tables = profile.pick(smoke=10, cpu=500, gpu=500)
alarms = torch.zeros(tables, 16, dtype=torch.bool)
for i in range(tables):
    base, *others = torch.randn(17, 3, generator=chance, dtype=torch.float64).tolist()
    alarms[i] = torch.tensor([our_rule(row, base) for row in others])
shares = [alarms[:, :rows].any(dim=1).double().mean().item() for rows in (1, 2, 4, 8, 16)]
table(
    [[rows, percent(share, 0)] for rows, share in zip((1, 2, 4, 8, 16), shares, strict=True)],
    ["rows equal to the base, 3 seeds each", "tables with a false alarm"],
)

# %% [markdown] claim="shares[0] < 0.07 and 0.2 < shares[-1] < 0.34"
# One row errs in a few tables of a hundred. Of sixteen rows, at least one errs in about a quarter of the tables.
#
# > **Key idea.** A rule protects you if it is fixed *before* you look, and if you count how often you looked. The best
# > of many is a candidate: run it and the base again, with new seeds.
#
# An interval leaves three things out. It names no cause: you must know what else differs between a and b. It assumes a
# bell curve. And all our runs are scored on the *same* test pictures; seeds do not show what others would change.
#
# Seed s picks the same pictures for both sides of nearly all our records. A paired test would use that. It would turn ten
# verdicts of this course, named where they stand: one each in lessons 07, 10, 11 and 16, two each in 12, 13 and 15. We keep
# the rule that we chose before we looked.
#
# ## 3. What do we vary, and what do we hold?
#
# The **ladder** of lesson 07 added one thing after another. It answers "where do I get?". But its last step was only ever tried
# on top of all the others. To ask "what does this one thing do?", go back to the same base each time: **one at a time**.
#
# | plan | runs for 8 choices, yes or no, 3 seeds | finds |
# |---|---|---|
# | ladder | 9 · 3 = 27 | a good recipe |
# | one at a time | 9 · 3 = 27 | the effect of each choice, *at this base* |
# | all combinations | 2⁸ · 3 = 768 | also whether choices help each other |
#
# > **Trap.** A misspelt setting that nobody reads repeats the base in disguise. Look into a run's record: what did it use?
#
# The experiments below go one at a time. AdamW trained every model; the lines above each table print its rate and epochs.
# Only for CLS and GAP was the rate searched for each side. Elsewhere all rows share one rate, which may suit some of them
# better than others.
#
# ## 4. Which positions, and where?
#
# The paper's Table 8 compares four kinds of positions, and three places to add them.
#
# - **1-D**: one vector of width D for each token. **2-D**: half of the vector belongs to the row, half to the column.
# - **Relative**: each offset i - j of query i and key j has a vector, which changes the attention score (lesson 04).
# - **stem**: added once, in $z_0$. **every**: added to the input of every block, each time from a table of its own.
#   **shared**: added to the input of every block, always the same table.
#
# A 2-D table knows rows and columns before it has learned anything. Relative positions in the paper are *1-D*: the offset
# counts places in the list. On a grid of 4x4, offset -1 leads to the patch on the right, and from the last patch of a row
# to the first of the next. So this kind must learn what a row is, like the 1-D table.
#
# The ViT of lesson 06 adds positions once. `with_positions` puts the other ways into a finished model: it wraps its
# blocks, or replaces its attention; `build_model` calls it. How many numbers does each way learn?

# %%
small = shapes10(train=100, test=100)
kinds = {"none": "none", "learned": "1-D", "2d": "2-D", "sincos": "sin-cos", "relative": "relative"}
ways = [("none", "stem"), *((kind, at) for kind in ("learned", "2d") for at in ("stem", "every", "shared"))]
ways += [("sincos", "stem"), ("relative", "stem")]


def count_learned(model_name, **options):
    """Count the numbers that a model learns."""
    with torch.device("meta"):  # they are counted, so none is drawn
        model = build_model(model_name, small, **options)
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


rows = []
for kind, at in ways:
    learned = [
        count_learned(name, pos_embed=kind, pos_embed_at=at) - count_learned(name, pos_embed="none")
        for name in ("Ti/4", "Ti/2")
    ]
    rows.append([kinds[kind], at, *learned])
table(rows, ["positions", "where", "numbers learned, 8x8 places", "16x16 places"])

# %% [markdown] always claim="[round(fine / coarse) for kind, at, coarse, fine in rows if at == 'stem' and kind in ('1-D', '2-D', 'relative')] == [4, 2, 4]"
# Positions are cheap beside the millions of numbers in the blocks. But look along the rows: with twice the rows and
# columns, the 1-D table has four times the vectors to learn, the 2-D table only twice as many, and each of its vectors is
# trained by a whole row or column. So a finer grid is where 2-D should pay. 1-D relative positions grow like the list. We
# have no runs on 16x16 places, so that stays a prediction: it is a good project.
#
# Here is the **paper's Table 8** (ViT-B/16, ImageNet, five labelled pictures for each class, one number each) beside ours. Relative
# positions sit in the attention of every layer; the paper lists them under "stem", and so do we. Sine and cosine tables
# are ours alone. We recorded the stem, on a grid of 8x8.


# %% tags=["nbval-ignore-output"]
def recorded(group, more=()):
    """Load the recorded runs of a group, put `more` to them, and say where all come from or how to make them."""
    records = load_records(group)
    if not records:
        print(f"No runs of '{group}' are recorded. `python -m experiments {group}` makes them.")
        return []
    records = [record for record in [*records, *more] if record["model"] != "linear"]
    told = [{str(r["config"][key]) for r in records} for key in ("epochs", "optimizer", "lr")]
    epochs, optimizers, rates = (", ".join(sorted(values)) for values in told)
    print(caption(records))
    print(
        f"{', '.join(sorted({r['model'] for r in records}))}; epochs {epochs}; {optimizers}, peak rate {rates}"
    )
    if line := one_matrix(records):
        kept_back = ", the held-out ones too" if records[0]["config"]["validation"] else ""
        print(f"one matrix on raw pixels, as many pictures{kept_back}: {fmean(line):.1f} %")
    return records


def one_matrix(records):
    """Find what one matrix on raw pixels reaches on as many pictures, one accuracy for each seed."""
    among = [run for group in ("pooling", "few") for run in load_records(group)]
    return linear_classifier(records, among)


def draw_one_matrix(figure, records):
    """Draw what one matrix reaches as a dotted line, where it is recorded."""
    if line := one_matrix(records):
        figure.axes[0].axhline(fmean(line), color="0.4", ls=":", label="one matrix on raw pixels")
        figure.axes[0].legend(frameon=False)


def in_order(results, names):
    """Sort results by a list of names; unknown names come last."""
    return {name: results[name] for name in [*names, *results] if name in results}


places = ["stem", "every", "shared"]
usual = [run for run in load_records("rope") if run["step"] == "learned"]  # lesson 15 trained it, too
positions = {kinds[kind]: values for kind, values in by_step(recorded("positions") + usual).items()}
positions = in_order(positions, kinds.values())


def table_row(kind):
    theirs = [PAPER_TABLE_8.get(kind, {}).get(at) for at in places]
    texts = [f"{value:.2f}" if value else "" for value in theirs]
    return [kind, *texts, f"{fmean(positions[kind]):.1f}" if kind in positions else ""]


table(
    [table_row(kind) for kind in kinds.values()],
    ["in percent", *(f"paper, {at}" for at in places), "ours, stem"],
)

# %% fold tags=["nbval-ignore-output"]
theirs, ours = "paper, ImageNet", "ours, CIFAR-10, each seed"
gains = {theirs: ([], []), ours: ([], [])}
for kind, row in PAPER_TABLE_8.items():
    for at, value in row.items() if kind != "none" else ():
        gains[theirs][0].append(kind if at == "stem" else f"{kind}, {at}")
        gains[theirs][1].append(value - PAPER_TABLE_8["none"]["stem"])
for name, values in positions.items():
    if "none" in positions and name != "none":
        gains[ours][0].extend([name] * len(values))
        gains[ours][1].extend(x - fmean(positions["none"]) for x in values)
figure = plots.dots(
    {name: points for name, points in gains.items() if points[0]},
    "What do positions gain over none?",
    "points of accuracy above the model without positions",
)
figure.axes[0].axvline(0, color="0.6", lw=1, ls=":")
plots.show(
    figure,
    "For each kind and place of positions the gain over none: the paper's lie between 2.6 and 2.9 points; ours, where recorded, "
    "are dots, one for each seed.",
)

# %% [markdown]
# Two questions, two tables. Do positions help *at all*? And does the *kind* matter, against the usual one, 1-D?

# %% tags=["nbval-ignore-output"]
table(*result_table(positions, "none")) if positions else None

# %% tags=["nbval-ignore-output"]
rest = {name: values for name, values in positions.items() if name != "none"}
table(*result_table(rest, "1-D")) if rest else None

# %% [markdown] always claim=["all(difference(values, positions['none'])[1] > 0 for values in rest.values()) and all(4.5 < fmean(values) - fmean(positions['none']) < 7.5 for values in rest.values())", "all(undecided(*difference(values, rest['1-D'])[1:]) for kind, values in rest.items() if kind != '1-D')", "difference([a - b for a, b in zip(rest['relative'], rest['1-D'])], [0, 0, 0])[2] < 0", "all(fmean(values) > fmean(one_matrix(load_records('positions'))) + 10 for values in positions.values())"]
# Positions help: every kind is better than none by five to seven points, and every interval lies above 0. In the paper the gain
# is not quite three points. A model without positions still sees *what* is in its patches, and that carries it most of the way.
#
# Which *kind* is best, our seeds have not decided. (In pairs, relative positions would be worse than 1-D.) The paper's
# numbers lie close together too, but it gives one number for each, without seeds, so it cannot say whether they differ by
# more than chance. Neither table shows that the kinds are equal: read how wide the intervals are. Also look at the line for
# one matrix on raw pixels. All rows lie far above it: these models have learned to see.
#
# **What would change this conclusion?** A finer grid, as above. A rate searched for each kind. Longer training, which may favour
# a learned table. And objects that always stand in the middle.
#
# ## 5. CLS token or average?
#
# Lesson 02 left a question open. The head can read the CLS token, or the average of the patch tokens (**GAP**, global
# average pooling). In the paper's appendix D.3 the first models with GAP were bad, at a learning rate of 8e-4 where CLS
# was good. At 3e-4, GAP was as good as CLS at 8e-4. So GAP had first been measured at a rate that suited its opponent.
#
# > **Trap.** Whoever compares A and B with settings tuned for A will find that A is better.
#
# So each side needs its own **sweep**: several learning rates, and the best of them is compared with the best of the
# other side. If the best rate lies at the *edge* of the sweep, nobody knows whether a rate beyond it would have been
# better still, and the sweep must go on.
#
# The rate is chosen on 2,000 of the 20,000 training pictures, *held out* of training; the test pictures are scored only for
# the report. So these models see fewer pictures than those of section 6, and fewer than the matrix. Three rates, three seeds.
#
# > **Predict.** Will the same side lead at all three rates?


# %% tags=["nbval-ignore-output"]
names = {"token": "CLS", "avg": "GAP"}


def read_sweep(held_out, tested):
    """Tabulate who leads at each rate, and say what is left when each has its own best rate."""
    rows, chosen = [], {}
    for rate in sorted(tested["token"].keys() & tested["avg"].keys()):
        cls, gap = (fmean(tested[pool][rate]) for pool in ("token", "avg"))
        leads = f"{'CLS' if cls > gap else 'GAP'} leads by {abs(cls - gap):.1f} points"
        rows.append([f"{rate:g}", f"{cls:.1f}", f"{gap:.1f}", leads])
    for pool, name in names.items():
        rate, at_edge = best_rate(held_out[pool])
        chosen[name] = tested[pool][rate]
        print(f"{name}: best rate {rate:g}" + (", at the EDGE: the sweep is too narrow" if at_edge else ""))
    print("each at its own rate:", difference_in_words("CLS", chosen["CLS"], "GAP", chosen["GAP"]))
    return table(rows, ["rate", "CLS, %", "GAP, %", "a report at this rate alone would say"])


pooling = recorded("pooling")
held_out, tested = {"token": {}, "avg": {}}, {"token": {}, "avg": {}}
for record in pooling:
    pool, rate, test = record["step"].split("-")[0], record["config"]["lr"], 100 * record["test_accuracy"]
    kept_back = [100 * value for value in record["val_accuracy"]] or [test]
    tested[pool].setdefault(rate, []).append(test)
    held_out[pool].setdefault(rate, []).append(kept_back[-1])
if not all(record["val_accuracy"] for record in pooling):
    print("No pictures were held out: the rate is chosen on the test pictures, so the best is too good.")
read_sweep(held_out, tested) if tested["token"] and tested["avg"] else None

# %% fold tags=["nbval-ignore-output"]
if tested["token"] and tested["avg"]:
    figure = plots.seed_curves(
        {names[pool]: tested[pool] for pool in names},
        "CLS or GAP: who leads, at which learning rate?",
        "peak learning rate",
        "test accuracy in percent",
        log=True,
    )
    draw_one_matrix(figure, pooling)
    plots.show(
        figure,
        "Test accuracy of CLS and GAP over the peak learning rate; a dot for each seed, a dotted line for one matrix.",
    )

# %% [markdown] always claim=["undecided(*difference(*(tested[pool][best_rate(held_out[pool])[0]] for pool in ('token', 'avg')))[1:])", "{r['config']['validation'] for r in pooling if r['step'].split('-')[0] in names} == {2_000}", "all(fmean(tested['token'][rate]) > fmean(tested['avg'][rate]) for rate in tested['token'])"]
# Each at its own rate, CLS and GAP are undecided. Cover all rows but one with your hand: what would a report at this rate
# alone have said? Here every row names the same side; in the paper a rate of its own closed the gap. Then read what is printed above
# the table. A best rate at the edge would mean that the sweep must go on.
#
# **What would change this conclusion?** A finer sweep. Other settings that were chosen for one side: warm-up, epochs, weight decay.

# %% [markdown]
# ## 6. Smaller patches: better, or only more expensive?
#
# Smaller patches mean more tokens: N = HW/P². Half the side is four times the patches; the cost grows about as much, while the
# number of parameters changes little. What do we get for it?

# %% tags=["nbval-ignore-output"]
patches = recorded("patches", [run | {"step": "patch-4"} for run in usual])
results = in_order(by_step(patches), [f"patch-{side}" for side in (16, 8, 4, 2)])
results = {step.replace("patch-", "P = "): values for step, values in results.items()}
cost = {r["step"].replace("patch-", "P = "): float(f"{r['forward_flops'] / 1e9:.3g}") for r in patches}
table(*result_table(results, [*results][len(results) // 2], {"GFLOP": cost})) if results else None

# %% fold tags=["nbval-ignore-output"]
if results:
    figure = plots.seed_curves(
        {"ViT, another patch side": {cost[name]: values for name, values in results.items()}},
        "Accuracy over cost, from left to right " + ", ".join(results),
        "GFLOP for one picture, forward",
        "test accuracy in percent",
        log=True,
    )
    draw_one_matrix(figure, patches)
    plots.show(
        figure,
        "Test accuracy over the cost of one picture for each patch side; a dot for each seed, a dotted line for one matrix.",
    )

# %% [markdown] always claim=["(lambda size: size['patch-16'] > size['patch-8'] > size['patch-4'] > 0.8 * size['patch-16'])({r['step']: r['parameters'] for r in patches})", "min(difference(results['P = 8'], results['P = 16'])[1], difference(results['P = 4'], results['P = 8'])[1]) > 0 and [round(fmean(results[small]) - fmean(results[large])) for small, large in (('P = 8', 'P = 16'), ('P = 4', 'P = 8'))] == [6, 10]"]
# Each halving of the side is a decided gain, of six and then of ten points. But it costs three and four times the
# operations: all rows saw equally many pictures, so the row with small patches had several times the compute. A fair
# question is what the large patches reach with that budget. So give both sides the same *time*.
#
# A run cannot simply be stopped when its time is up: its learning rate falls to 0 by the last epoch, so the number of
# epochs must be known beforehand. First measure what an epoch costs, then buy as many as the budget pays for. Count
# **processor seconds**, not those of the clock, which also tick while another program uses your processor.
#
# **Your task.** Write `at_equal_time`.

# %% exercise="vit_classroom.evidence.statistics:at_equal_time" difficulty=2 minutes=8 hint="For each setting: run one epoch and keep only its seconds. How many whole epochs does the budget pay for? Then one run for each seed." hint2="`_, price = run(setting, 1, seeds[0])`, then `epochs = max(1, int(seconds / price))`. The accuracies are `[run(setting, epochs, seed)[0] for seed in seeds]`."
from vit_classroom.evidence.statistics import at_equal_time

at_equal_time = check(at_equal_time)

# %% [markdown]
# Now use it: patches of 16 against patches of 8, three seeds each. You may put two other names in their place, such as
# `"Nano/4"`, or two depths, such as 1 and 3, with `build_model("Nano/8", part, depth=setting)` in `run`.
#
# > **Predict.** Write down who wins at equal time, and by how much.

# %% tags=["nbval-ignore-output"]
profile, everything = get_profile(), load_dataset("auto")
part = everything.subset(
    min(profile.pick(smoke=128, cpu=2_000, gpu=20_000), len(everything.train_images)),
    min(profile.pick(smoke=100, cpu=1_000, gpu=10_000), len(everything.test_images)),
)
budget, seeds = profile.pick(smoke=0.2, cpu=15, gpu=15), (0, 1, 2)
print(fill(part.provenance, 90))
print(f"6 runs of {budget:g} processor seconds, and two trials: about {minutes(9 * budget)}")


def run(setting, epochs, seed):
    """Train a fresh model on one thread; return its test accuracy in percent and the processor seconds."""
    torch.manual_seed(seed)
    recipe = replace(RECIPES["smoothing"], lr=1e-3, batch_size=32, epochs=epochs, seed=seed, quiet=True)
    with one_thread():  # threads that wait for each other cost processor seconds, too
        history = train(build_model(setting, part), part, recipe)
    print(f"{setting}, seed {seed}: {epochs} epochs, {history.cpu_seconds:.1f} processor seconds")
    return 100 * history.test_accuracy, history.cpu_seconds


mine = at_equal_time(run, {"P = 16": "Nano/16", "P = 8": "Nano/8"}, budget, seeds)
table(*result_table(mine, [*mine][0]))

# %% [markdown] claim="min(map(fmean, mine.values())) > 14"
# What is decided? Say it in one sentence with the interval, the budget, the optimizer (AdamW) and the rate, which was not
# searched for either side. Were the printed seconds equal? They need not be: one trial epoch sets the price, and epochs are
# whole. Which side had more? And how far is each from guessing, 10 %? Both saw their pictures only a few times.
#
# **What would change this conclusion?** Another budget: at equal *epochs* the smaller patches won on CIFAR-10, and with
# enough time both sides get their epochs. A rate of its own for each. Another processor, on which small matrices cost less.

# %% [markdown] curious
# ## 7. Deep or wide?
#
# A block has about 12·D² parameters, so L blocks have 12·L·D². For a fixed number of parameters we can have many narrow
# layers or few wide ones. `width_for_depth` finds the width.

# %%
import time

from vit_classroom.evidence.statistics import width_for_depth

goal, rows = vit_num_parameters(patch_size=8, embed_dim=96, depth=3), []
for depth in (1, 3, 6, 12):
    width = width_for_depth(depth, goal, patch_size=8)
    model = create_vit("Nano/8", img_size=32, embed_dim=width, depth=depth)
    count = sum(p.numel() for p in model.parameters())
    rows.append([depth, width, count, f"{vit_flops(model) / 1e6:.1f}", width // 3])
table(rows, ["L", "D", "parameters", "MFLOP", "width of a head"], f"about {goal:,} parameters, as Nano/8")


# %% tags=["nbval-ignore-output"]
@torch.no_grad()
def milliseconds(depth, pictures):
    """Time a forward pass of a model of this depth: the fastest of ten."""
    width = width_for_depth(depth, goal, patch_size=8)
    model, times = create_vit("Nano/8", img_size=32, embed_dim=width, depth=depth).eval(), []
    for _ in range(10):
        start = time.perf_counter()
        model(pictures)
        times.append(1000 * (time.perf_counter() - start))
    return min(times)


table(
    [[depth, f"{milliseconds(depth, torch.zeros(64, 3, 32, 32)):.1f}"] for depth in (1, 3, 6, 12)],
    ["L", "milliseconds for 64 pictures"],
)

# %% [markdown]
# Compare the time with the operations. Layers wait for each other, and each has its fixed cost, so a deep model can be slow
# even if its operations are few.
#
# The paper asked in another way (appendix D.2, Figure 8). It starts from 8 layers, D = 1024, MLP 2048 and P = 32, and
# changes one of them at a time. More layers brought most, up to 64 of them, with less gain after 16. More width
# brought least. Smaller patches helped too, without a single parameter more. There the number of parameters grows; here
# it is fixed. So a table of our own would answer another question, and need not agree. None is recorded.
#
# If you make one, mind three things. Each shape may want its own learning rate: section 5 again. The width of a head
# changes along with D. And a deep model may need more epochs.

# %% [markdown] curious
# ## 8. Which regulariser helps?
#
# A **regulariser** makes it harder to memorise the training pictures (lesson 07). The recorded base has few pictures, many
# epochs, weight decay 0.05, crop and flip. Each row changes one thing.

# %% tags=["nbval-ignore-output"]
regularisers = recorded("regularisers")
regularisers += [run | {"step": "base"} for run in load_records("few") if run["step"] == "adamw"]
results = in_order(by_step(regularisers), ["base", "no-weight-decay", "dropout", "drop-path", "mixup"])
seen = {step: [r["stored_accuracy"] for r in regularisers if r["step"] == step] for step in results}
seen = {step: f"{100 * fmean(values):.1f}" for step, values in seen.items()}
table(*result_table(results, "base", {"training, %": seen})) if results else None

# %% [markdown] always claim=["all(undecided(*difference(values, results['base'])[1:]) for step, values in results.items() if step != 'base')", "[round(float(seen[step]) - fmean(results[step])) for step in ('base', 'dropout', 'mixup')] == [11, 8, 5]"]
# None of the four changes is decided: that a regulariser pays is not seen here. Dropout and MixUp do what they are for: the base is
# eleven points better on its training pictures (the last column, neither cropped nor mixed) than on the test pictures, and that gap
# falls to eight with dropout and to five with MixUp. But it falls because training gets worse, not because the test gets better.
#
# **What would change this conclusion?** More seeds: three miss small gains. More epochs: what loses in eighty can win in three
# hundred. A larger model, or fewer pictures. A stronger or weaker dose. And a base that has other regularisers already, since two
# of them can do the same work.

# %% [markdown] curious
# ## 9. Which claims survive?
#
# Four sentences from blog posts. The second needs a curve first: exponential growth is a fixed factor for each *added*
# pixel. A power of the side is a fixed factor for each *doubling*, and a straight line when both axes are logarithmic.

# %%
sides = [32, 64, 96, 128, 192, 256]
costs = [vit_flops(create_vit("Ti/4", img_size=side)) / 1e9 for side in sides]
slopes = [
    math.log(b / a) / math.log(t / s) for a, b, s, t in zip(costs, costs[1:], sides, sides[1:], strict=False)
]
growth = (costs[1] / costs[0]) ** (1 / 32)  # per pixel, from the first two points
print(f"the cost is a power of the side: {slopes[0]:.1f} for small pictures, {slopes[-1]:.1f} for large ones")

# %% fold
figure = plots.curves(
    {
        "ViT-Ti/4": (sides, costs),
        "exponential": (sides, [costs[0] * growth ** (side - 32) for side in sides]),
    },
    "Is the cost a power of the side, or an exponential?",
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

# %% [markdown] always claim="2 < slopes[0] < slopes[-1] < 4 and costs[-1] < costs[0] * growth ** (sides[-1] - sides[0]) / 10"
# It is a power, not an exponential. The exponent grows from 2, where the linear layers dominate (N tokens), towards 4, where
# attention does (N² pairs). Now all four sentences. The code decides where it can; where seeds are too few, it says so.

# %% tags=["nbval-ignore-output"]
tokens = create_vit("Ti/4", img_size=32).embed(torch.zeros(1, 3, 32, 32))
print("'One token for each channel, D + 1 tokens with CLS.'")
print(f"   No: {tuple(tokens.shape[1:])} is (N + 1, D), one token for each patch, and CLS.")
print("'The cost grows exponentially with the resolution.'")
print(f"   No: with a power of the side, here between {slopes[0]:.1f} and {slopes[-1]:.1f}; never above 4.")
print("'Any position embedding is as good.'")
verdicts = [row[5] for row in result_table(rest, "1-D")[0] if row[5]]
counted = ", ".join(f"{verdicts.count(word)} {word}" for word in ("better", "worse", "undecided"))
print(f"   Of {len(verdicts)} kinds against 1-D: {counted}." if verdicts else "   No records yet.")
print("'CLS allows twice the learning rate, so it trains faster.'")
if tested["token"] and tested["avg"]:
    best = {pool: best_rate(held_out[pool])[0] for pool in names}
    print(f"   Best rate of CLS / best rate of GAP: {best['token'] / best['avg']:g}.")
    halfway = {pool: [] for pool in names}
    for r in pooling:
        pool = r["step"].split("-")[0]
        if r["config"]["lr"] == best[pool]:
            halfway[pool].append(r["train_loss"][(len(r["train_loss"]) - 1) // 2])
    gap, low, high = difference(halfway["token"], halfway["avg"])
    print(f"   Training loss half-way, CLS minus GAP: {gap:+.3f}, 95 % interval {low:+.3f} to {high:+.3f}.")
else:
    print("   No records yet.")

# %% [markdown]
# The third needs care. "All undecided" would not prove "as good". It says that these runs could not tell, at this size
# and on this grid. And the fourth is two claims: that the best rate is higher, and that training is *faster*. A larger
# step is no faster arrival. Only the loss after equally many epochs, each at its own rate, can show that.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# Three seeds give 90.1, 90.4 and 90.7 %. You train three more, and they scatter as much. What becomes smaller?
#
# - [ ] the standard deviation :: It describes single runs, and these scatter as before.
# - [x] the standard error :: More seeds tell better where the mean is.
# - [ ] the standard deviation and the standard error :: Only the second: single runs scatter as before.

# %% [markdown] quiz
# The rule takes t = 4.3 with 2 degrees of freedom, and 1.98 with 100. Why does t depend on them?
#
# - [x] From few seeds s is badly known. :: It is often far too small by luck; a larger t makes up for it.
# - [ ] Accuracies follow no bell curve when seeds are few. :: The rule supposes a bell shape for any number of seeds.
# - [ ] The mean of few seeds is less certain. :: True, but that is in e already: it has the root of n below the line.

# %% [markdown] quiz
# Sixteen changes were tried against one base, and one is "better". What do you do?
#
# - [ ] Adopt it, for it has passed the rule. :: The more rows, the likelier a false alarm in one of them.
# - [x] Run it and the base again, with new seeds. :: New seeds are an independent test.
# - [ ] Report it, and leave the other fifteen out. :: That hides how lucky it had to be.

# %% [markdown] quiz
# Your new pooling is worse than CLS by two points, at the learning rate of the CLS model. What follows?
#
# - [ ] The new pooling is worse. :: Only at this rate, which was chosen for its opponent.
# - [x] Nothing yet: sweep the rate of both. :: This is the trap of D.3.
# - [ ] Its rate should be lower. :: A guess: the best rate may be higher.

# %% [markdown] quiz
# The best learning rate is the largest one you tried. What now?
#
# - [ ] Take it: it is the best. :: Beyond the edge it may be better still.
# - [ ] Take the second best, to be safe. :: That throws away the only thing the sweep has shown.
# - [x] Go on to larger rates. :: A best rate at the edge says that the sweep was too narrow.

# %% [markdown]
# ## Recap
#
# | what | shape or formula | Ti/4, 32x32 pixels |
# |---|---|---|
# | seeds of one setting | n numbers | m, s², q = s²/n |
# | difference of two settings | d ± t·e, e = √(q_a + q_b) | "undecided" where the interval holds 0 |
# | 1-D positions, stem or shared | (1, N + 1, D) | (1, 65, 192) |
# | 1-D positions, every layer | L x (1, N + 1, D) | 12 x (1, 65, 192) |
# | 2-D tables | (rows, D/2), (columns, D/2), CLS (1, 1, D) | (8, 96), (8, 96), (1, 1, 192) |
# | relative, each layer | (2T - 1, d) with T = N + 1 | (129, 64) |
# | parameters of the blocks | about 12·L·D² | 12·12·192² |
#
# - Chance alone makes winners. Seeds, spread and a rule fixed before you look protect you.
# - Change one thing at a time, and give each side the settings it needs, or the same time.
# - "Undecided" is a result. "What would change it?" belongs to each one.
#
# **Your next step.** Pick the row that surprised you most. Which other explanation does your verdict leave open? Let
# `at_equal_time` compare two settings that tell the two apart. Fix the seeds and the budget *before* you look.
# A question of your own is a [project](../docs/projects.md), which says what counts.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), appendices D.2 to D.4, Figures 8 to 10, Table 8.
# - Bouthillier et al., *Accounting for Variance in Machine Learning Benchmarks* (2021): where the spread comes from.
# - Dodge et al., *Show Your Work: Improved Reporting of Experimental Results* (2019): the effort of a search belongs in
#   the report.
# - Steiner et al., *How to train your ViT?* (2021): regularisers and data, measured one against the other.
