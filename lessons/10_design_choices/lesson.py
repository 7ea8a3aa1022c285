# ---
# title: "Design choices, measured"
# promise: "Measure which design choices matter, and tell a difference from chance."
# part: "III. Beyond"
# map: [cls, position, pool]
# recall:
#   "02.1": "What is the shape of the encoder's input for B images of 64 patches, with a CLS token and D = 192?"
#   "03.3": "Somebody adds one learned vector of shape (1, 1, D) to all tokens and calls it positions. What happens?"
#   "07.2": "Over three seeds a change is better by 0.3 points. Its 95 % interval is -0.4 to +1.0. How do you report this?"
# goals:
#   - "Write the rule for calling one setting better than another, and count how often it is wrong."
#   - "Plan a comparison before you look: one base, one change, a fixed number of seeds."
#   - "Read the paper's table on positions beside our own."
#   - "Compare two models fairly when each needs a learning rate of its own."
#   - "Compare two models at equal processor time."
# ---

# %% [markdown]
# ## 1. Is 81.2 % better than 80.7 %?
#
# A colleague writes: "With our change the accuracy rises from 80.7 to 81.2 %." Should you adopt the change? Train
# the *same* model twice with different random numbers (another **seed**), and the two accuracies differ as well.
#
# So look at luck alone first. The next cell invents eight settings that are all *equal*. Each has a true accuracy of
# 80 %, and a single run is typically half a point above or below it. Each setting has three seeds.
#
# > **Predict.** How far will the best of the eight means be above the worst?

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
from vit_classroom.profiles import get_profile
from vit_course.training.processor import one_thread
from vit_course.recipes import RECIPES, build_model
from vit_course.train import train

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
print(f"{best} is {fmean(equal[best]) - fmean(equal[worst]):.1f} points above {worst}; it is pure chance")

# %% [markdown] always claim="best == 'setting 2' and 1.2 < fmean(equal[best]) - fmean(equal[worst]) < 1.4"
# The best of eight equal settings is 1.3 points above the worst, and only luck made the gap. So half a point alone
# means nothing. Yet somebody who tried these eight would publish the best one. How do we protect ourselves?
#
# ## 2. When may we say "better"?
#
# We need a rule, and we must fix it *before* we look. Afterwards it is easy to find a rule that favours our own
# idea. Our rule, known from lesson 07, is the difference of two means with its **95 % interval**. If the interval
# contains 0, we do not claim a difference, and the tables call the comparison **undecided**.
#
# Now you write this rule. Let a setting have n seeds with the results $x_1 \ldots x_n$.
#
# - Its **mean** is $m = \frac{1}{n}\sum_i x_i$.
# - Its **variance** is $s^2 = \frac{1}{n-1}\sum_i (x_i - m)^2$. The square root s is the **standard deviation**, the typical
#   distance of a single run from the mean. More seeds do not make it smaller. We divide by n - 1 because results are closer
#   to their own mean than to the true one.
# - The **standard error** is the typical distance of this mean from the true one. Its square is $q = s^2/n$, so four times
#   the number of seeds halve the standard error.
#
# For two settings a and b the difference is $m_a - m_b$. The errors of two means often partly cancel, so we add their
# squares, not the errors themselves, and take the root e. The interval extends t standard errors to both sides:
#
# $$e = \sqrt{q_a + q_b} \qquad\qquad (m_a - m_b) \pm t \cdot e \qquad\qquad
# \text{degrees} = \frac{(q_a + q_b)^2}{q_a^2/(n_a - 1) + q_b^2/(n_b - 1)}$$
#
# What is t? If we knew s exactly, t would be 1.96, because 95 % of a bell curve is within 1.96 standard deviations
# of its centre. But we estimate s, and with three seeds the estimate is often far too small. A larger t makes up for
# this.
#
# The size of t depends on the **degrees of freedom**, roughly the number of seeds beyond the first of each setting.
# The formula above is Welch's, which does not assume that both settings vary equally.
#
# From a single seed the spread is *unknown*, which is not the same as 0, so the interval has no ends.
#
# **Your task.** Write the rest of `difference`. The lines for a single seed and the function `t_quantile(0.95,
# degrees)`, which returns t, are given. `fmean`, `variance`, `sqrt` and `inf` are imported.

# %% exercise="vit_classroom.evidence.statistics:difference" difficulty=2 minutes=15 hint="Compute e, then the degrees, then the interval. Where neither setting varies, e is 0, and both ends are the difference." hint2="`squares = [variance(values) / len(values) for values in (a, b)]`, `error = sqrt(sum(squares))`. The parts below the line are `square**2 / (len(values) - 1)`, one for each setting. Then `reach = t_quantile(0.95, sum(squares) ** 2 / sum(parts)) * error`."
from vit_classroom.evidence.statistics import difference

difference = check(difference)

# %% [markdown]
# How large is t, and what does your rule find for the eight settings?
#
# > **Predict.** Compare the best with the worst of eight *equal* settings. Will the interval contain 0?

# %%
print("degrees of freedom and t:", {d: round(t_quantile(0.95, d), 2) for d in (1, 2, 4, 10, 100)})
gap, low, high = difference(equal[best], equal[worst])
print(f"{best} minus {worst}: {gap:+.2f} points, 95 % interval {low:+.2f} to {high:+.2f}")

# %% [markdown] always claim=["low > 0"]
# The interval does not contain 0, so the rule claims a difference, and it is wrong! We searched for this example,
# but such examples are not rare. The mistake is in the comparison. We looked at all 28 pairs first, and then *chose*
# the pair with the largest difference.
#
# So we may say "better" if the interval excludes 0 *and* we chose the comparison before we saw the results.
#
# ## 3. How often is the rule wrong?
#
# Even if we choose the comparison in advance, a 95 % interval misses the true difference five times in a hundred.
# Are other rules safer? Some people ask for **two standard errors**. Others ask that **no seeds overlap**, so every
# seed of one setting beats every seed of the other.
#
# We can count the mistakes, because we know the truth about settings that we invent. The next cell compares two
# settings again and again. For three lines of the figure they are equal, and for two lines they differ by two
# standard deviations, which is a lot.


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
# Only our rule stays near or below 5 % for any number of seeds. The first three lines count **false alarms**, which
# are reported differences between equal settings. "No seeds overlap" sounds strict, but with three seeds it raises a
# false alarm in about one case in ten. "Two standard errors" raises too many when there are few seeds.
#
# Our rule has a price. With two seeds it misses most of the large differences. More seeds help our rule, but "no seeds
# overlap" then finds less. With ten seeds that rule misses more than four of five real differences.
#
# So "undecided" never means "equal". We write that *three seeds do not show a difference*, because ten more might.
#
# A table has many rows, and each row is another chance for a false alarm. How many tables contain at least one?

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
# With sixteen rows, about a quarter of the tables contain a false alarm. With one row, only a few in a hundred do.
# The rule is the same, but we have looked more often.
#
# > **Key idea.** A rule protects you if you fix it *before* you look, and if you count how often you looked. The best of many
# > settings is only a candidate. Run it and the base again, with new seeds.
#
# An interval has three limits. It does not name a cause. It assumes a bell curve. It covers other seeds, but not other
# test images.
#
# ## 4. What do we vary, and what do we hold fixed?
#
# A fixed rule needs a fixed plan. The **ladder** of lesson 07 added one thing after another. It answers "How far can
# I get?", but its last step was only ever tried on top of all the others. To ask "What does this one thing do?",
# return to the same base every time, and change **one at a time**.
#
# | plan | runs for 8 choices, 3 seeds | finds |
# |---|---|---|
# | ladder | 9 · 3 = 27 | a good recipe |
# | one at a time | 9 · 3 = 27 | the effect of each choice, *at this base* |
# | all combinations | 2⁸ · 3 = 768 | also whether choices help each other |
#
# > **Trap.** A misspelt setting that no code reads gives you the base again. Check in a run's record which settings
# > it used.
#
# The experiments below change one thing at a time, with three seeds each. We tuned a learning rate for each side only
# when we compared CLS with GAP. Elsewhere all rows share one rate, which may suit some of them better than others.
#
# Now base, change, seeds and rule are fixed, and we may look.
#
# ## 5. Do positions help, and does their kind matter?
#
# A model without positions sees a bag of patches (lesson 03). How many points does that cost, and does it matter how
# we add positions? The paper's Table 8 compares three kinds of positions with none, in up to three places.
#
# - **1-D**: one vector of width D for each token. **2-D**: half of the vector belongs to the row, half to the column.
# - **Relative**: each offset i - j of query i and key j has a vector, which changes the attention score (lesson 04).
# - **stem**: added once, in $z_0$. **every**: added to the input of every block, each time from a new table.
#   **shared**: added to the input of every block, always from the same table.
#
# A 2-D table knows rows and columns before it has learned anything. The paper's relative positions count places in
# the list of patches, so they must learn what a row is, like the 1-D table. How many numbers does each kind learn?

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
# Positions are cheap beside the millions of numbers in the blocks. With twice the rows and columns, the 1-D table
# has four times the number of vectors, and the 2-D table only twice. So we predict that 2-D helps most on a fine
# grid. No run here has tested this, so you can still fix a rule before anyone looks.
#
# The next table shows the **paper's Table 8** beside our results. The paper scores ViT-B/16 on ImageNet with five
# labelled images for each class, with one number for each setting. We train a small ViT on CIFAR-10, with positions at
# the stem. The sine and cosine table (lesson 03) is ours alone.


# %% fold tags=["nbval-ignore-output"]
def recorded(group, more=()):
    """Load the recorded runs of a group, add `more`, and print where they come from or how to make them."""
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
        kept_back = ", including the held-out images" if records[0]["config"]["validation"] else ""
        print(f"linear classifier, the same number of images{kept_back}: {fmean(line):.1f} %")
    return records


def one_matrix(records):
    """Find the accuracy of a linear classifier on the same number of images, one for each seed."""
    among = [run for group in ("pooling", "few") for run in load_records(group)]
    return linear_classifier(records, among)


def draw_one_matrix(figure, records):
    """Draw the accuracy of the linear classifier as a dotted line, where it is recorded."""
    if line := one_matrix(records):
        figure.axes[0].axhline(fmean(line), color="0.4", ls=":", label="linear classifier on raw pixels")
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
    "For each kind and place of positions the gain over none: the paper's are between 2.6 and 2.9 points; ours, where recorded, "
    "are dots, one for each seed.",
)

# %% [markdown]
# Fix two questions before you look at the intervals. Do positions help *at all*? Does the *kind* matter, compared
# with the usual one, 1-D?

# %% tags=["nbval-ignore-output"]
table(*result_table(positions, "none")) if positions else None

# %% tags=["nbval-ignore-output"]
rest = {name: values for name, values in positions.items() if name != "none"}
table(*result_table(rest, "1-D")) if rest else None

# %% [markdown] always claim=["all(difference(values, positions['none'])[1] > 0 for values in rest.values()) and all(4.5 < fmean(values) - fmean(positions['none']) < 7.5 for values in rest.values())", "all(undecided(*difference(values, rest['1-D'])[1:]) for kind, values in rest.items() if kind != '1-D')", "all(fmean(values) > fmean(one_matrix(load_records('positions'))) + 10 for values in positions.values())", "all(4 < high - low < 5 for kind, values in rest.items() if kind != '1-D' for _, low, high in [difference(values, rest['1-D'])])", "fmean(rest['relative']) < min(fmean(values) for kind, values in rest.items() if kind != 'relative')"]
# **Positions help.** Every kind is better than none, by five to seven points, and every interval excludes 0. In the
# paper the gain is less than three points. We do not know why ours is larger, because model, data and training all
# differ. Without positions the model is still more than ten points above a linear classifier, because it sees what
# each patch contains.
#
# **The kind makes no difference that three seeds can show.** Relative positions have the lowest mean, but their
# interval contains 0 too. The intervals are more than four points wide, so they could easily hide a difference of
# one point.
#
# In the paper the kinds are also close together, and its authors suggest a reason in appendix D. The encoder reads
# patches, not pixels. A grid of 14x14 patches is much smaller than an image of 224x224 pixels, so every kind can
# learn it equally easily. If this speculation is right, the kind should matter more on a finer grid, as we
# predicted.
#
# **What could change this conclusion?** A finer grid, a learning rate tuned for each kind, or longer training could.
#
# ## 6. CLS token or average?
#
# The head can read the CLS token, or the average of the patch tokens (**GAP**, global average pooling). Which is
# better? Lesson 02 left this open.
#
# In the paper, the first models with GAP were poor at a learning rate of 8e-4, which was good for CLS (appendix D,
# Figure 9). At 3e-4, GAP was as good as CLS at 8e-4. So GAP had been measured at a rate that suited its opponent.
#
# > **Trap.** If you compare A with B, and all settings were tuned for A, you will find that A is better.
#
# So we fix a rule for the search as well. Each side gets its own **sweep**, which tries several learning rates, and
# we compare the best of one side with the best of the other. If a best rate is at the *edge* of the sweep, a rate
# beyond the edge may be better still, so the sweep must continue.
#
# The rate must not be chosen on the test images. We choose it on 2,000 of the 20,000 training images, which are
# *held out* of training, and use the test images only for the report.
#
# > **Predict.** Will the same side lead at all three rates?

# %% fold tags=["nbval-ignore-output"]
names = {"token": "CLS", "avg": "GAP"}


def read_sweep(held_out, tested):
    """Tabulate who leads at each rate, and compare the two when each has its own best rate."""
    rows, chosen = [], {}
    for rate in sorted(tested["token"].keys() & tested["avg"].keys()):
        cls, gap = (fmean(tested[pool][rate]) for pool in ("token", "avg"))
        leads = f"{'CLS' if cls > gap else 'GAP'} leads by {abs(cls - gap):.1f} points"
        rows.append([f"{rate:g}", f"{cls:.1f}", f"{gap:.1f}", leads])
    for pool, name in names.items():
        rate, at_edge = best_rate(held_out[pool])
        chosen[name] = tested[pool][rate]
        print(f"{name}: best rate {rate:g}" + (", at the EDGE: the sweep is too narrow" if at_edge else ""))
    print("each at its own best rate:", difference_in_words("CLS", chosen["CLS"], "GAP", chosen["GAP"]))
    return table(rows, ["rate", "CLS, %", "GAP, %", "a report at this rate alone would say"])


pooling = recorded("pooling")
held_out, tested = {"token": {}, "avg": {}}, {"token": {}, "avg": {}}
for record in pooling:
    pool, rate, test = record["step"].split("-")[0], record["config"]["lr"], 100 * record["test_accuracy"]
    kept_back = [100 * value for value in record["val_accuracy"]] or [test]
    tested[pool].setdefault(rate, []).append(test)
    held_out[pool].setdefault(rate, []).append(kept_back[-1])
if not all(record["val_accuracy"] for record in pooling):
    print("No images were held out: the rate is chosen on the test images, so the best result is too good.")
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
        "Test accuracy of CLS and GAP over the peak learning rate; a dot for each seed, a dotted line for the linear classifier.",
    )

# %% [markdown] always claim=["undecided(*difference(*(tested[pool][best_rate(held_out[pool])[0]] for pool in ('token', 'avg')))[1:])", "{r['config']['validation'] for r in pooling if r['step'].split('-')[0] in names} == {2_000}", "all(fmean(tested['token'][rate]) > fmean(tested['avg'][rate]) for rate in tested['token'])", "all(undecided(*difference(tested['token'][rate], tested['avg'][rate])[1:]) for rate in tested['token'])", "not any(best_rate(held_out[pool])[1] for pool in names)", "(lambda found: 7 < found[2] - found[1] < 8)(difference(*(tested[pool][best_rate(held_out[pool])[0]] for pool in ('token', 'avg'))))"]
# When each side uses its own best rate, three seeds do not show a difference between CLS and GAP. The interval is
# more than seven points wide, so these runs could miss a difference of several points. Neither best rate is at the
# edge.
#
# CLS leads at all three rates. Without a rule, somebody would report at each of them that CLS is better. Our rule
# supports this report at none of them.
#
# **What could change this conclusion?** More seeds, a finer sweep, or other settings tuned for one side could.

# %% [markdown]
# ## 7. Are smaller patches better, or only more expensive?
#
# Half the patch side gives four times the number of patches, because N = HW/P². The cost grows by a similar factor,
# while the number of parameters changes little.

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
        "GFLOP for one image, forward",
        "test accuracy in percent",
        log=True,
    )
    draw_one_matrix(figure, patches)
    plots.show(
        figure,
        "Test accuracy over the cost of one image for each patch side; a dot for each seed, a dotted line for the linear classifier.",
    )

# %% [markdown] always claim=["(lambda size: size['patch-16'] > size['patch-8'] > size['patch-4'] > 0.8 * size['patch-16'])({r['step']: r['parameters'] for r in patches})", "min(difference(results['P = 8'], results['P = 16'])[1], difference(results['P = 4'], results['P = 8'])[1]) > 0 and [round(fmean(results[small]) - fmean(results[large])) for small, large in (('P = 8', 'P = 16'), ('P = 4', 'P = 8'))] == [6, 10]", "[round(cost[small] / cost[large]) for small, large in (('P = 8', 'P = 16'), ('P = 4', 'P = 8'))] == [3, 4]", "3 < fmean(results['P = 16']) - fmean(one_matrix(patches)) < 4"]
# Smaller patches are better after the same number of epochs. The first halving of the side adds six points, the
# second adds ten, and both intervals exclude 0. With patches of 16x16 pixels the ViT is less than four points above
# a linear classifier on raw pixels.
#
# But each halving costs three to four times the number of operations, so the models with small patches used far more
# compute.
#
# The paper varies depth, width and patch size one at a time (appendix D, Figure 8). More layers helped most, more
# width helped least, and smaller patches helped without new parameters. Its authors conclude that compute may
# predict accuracy better than the number of parameters does, and that depth deserves more emphasis than width.
# Scaling everything together worked reliably too.
#
# So give each size the same compute, measured as *time* on one processor. A run cannot simply be stopped when its time
# is over, because its learning rate must fall to 0 in the last epoch. So measure the cost of one epoch, divide the
# budget by it, and fix the number of epochs before the run. Count **processor seconds**, because a clock also runs
# while another program uses your processor.
#
# **Your task.** Write `at_equal_time`, which trains every setting for the same number of processor seconds.

# %% exercise="vit_classroom.evidence.statistics:at_equal_time" difficulty=2 minutes=8 hint="For each setting: run one epoch and keep only its seconds. How many whole epochs does the budget pay for? Then one run for each seed." hint2="`_, price = run(setting, 1, seeds[0])`, then `epochs = max(1, int(seconds / price))`. The accuracies are `[run(setting, epochs, seed)[0] for seed in seeds]`."
from vit_classroom.evidence.statistics import at_equal_time

at_equal_time = check(at_equal_time)

# %% [markdown]
# So are smaller patches better, or only more expensive? After equal epochs they are both. At equal time we do not
# know yet, but you now have the function that can find out. Fix the settings, the seeds and the budget before you
# call it.

# %% [markdown] curious
# ## 8. Which patch size wins on your machine?
#
# Compare patches of 16x16 with patches of 8x8 pixels at equal time, with three seeds each. You may replace the names
# of the two models, for example with `"Nano/4"`. You may also compare two depths, such as 1 and 3, with
# `build_model("Nano/8", part, depth=setting)` in `run`.
#
# > **Predict.** Which size will win at equal time, and by how many points? Also write down how wide the interval may be
# > if the result is to convince you.

# %% tags=["nbval-ignore-output"]
profile, everything = get_profile(), load_dataset("auto", multiple_of=16)
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

# %% [markdown] claim=["min(map(fmean, mine.values())) > 14", "undecided(*difference(*mine.values())[1:])"]
# Which size won? Answer in one sentence that includes the interval and the budget. In our solved notebook three seeds
# do not show a difference. After so short a run the seeds are far apart, and the interval is wider than any difference
# that we could expect. So before the first run, also ask whether the experiment can give an answer at all.
#
# Check also whether both sizes really used the same time. One trial epoch sets the number of epochs, and that number
# must be whole. Both sizes are above guessing, which is 10 %.
#
# **What could change this conclusion?** A longer budget could change it, because at equal *epochs* smaller patches won
# on CIFAR-10. So could a learning rate tuned for each size, or a processor on which small matrices cost less.

# %% [markdown] curious
# ## 9. Which regulariser helps?
#
# A **regulariser** makes it harder to memorise the training images (lesson 07). Does one of four raise the test
# accuracy of a small ViT? The base has 5,000 training images, 80 epochs, weight decay 0.05, crop and flip. Each row
# changes one thing.

# %% tags=["nbval-ignore-output"]
regularisers = recorded("regularisers")
regularisers += [run | {"step": "base"} for run in load_records("few") if run["step"] == "adamw"]
results = in_order(by_step(regularisers), ["base", "no-weight-decay", "dropout", "drop-path", "mixup"])
seen = {step: [r["stored_accuracy"] for r in regularisers if r["step"] == step] for step in results}
seen = {step: f"{100 * fmean(values):.1f}" for step, values in seen.items()}
table(*result_table(results, "base", {"training, %": seen})) if results else None

# %% [markdown] always claim=["all(undecided(*difference(values, results['base'])[1:]) for step, values in results.items() if step != 'base')", "[round(float(seen[step]) - fmean(results[step])) for step in ('base', 'dropout', 'mixup')] == [11, 8, 5]", "{r['config']['epochs'] for r in regularisers} == {80}"]
# We cannot say that any of them helps. Three seeds do not show a difference between the base and any of the four.
# The intervals are four to six points wide, so small gains and small losses are both possible.
#
# Dropout and MixUp do make memorising harder. The base is eleven points better on its training images, as they are
# stored, than on the test images. This gap falls to eight points with dropout and to five with MixUp. But it falls
# because training accuracy falls, not because test accuracy rises.
#
# **What could change this conclusion?** More seeds could change it. So could more epochs, a larger model, fewer
# images, or a stronger or weaker setting of each regulariser.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# Three seeds give 90.1, 90.4 and 90.7 %. You train three more, and single runs vary as much as before. What becomes
# smaller?
#
# - [ ] the standard deviation :: It describes single runs, and these vary as before.
# - [x] the standard error :: With more seeds we know the mean better.
# - [ ] both of them :: Only the standard error becomes smaller, because single runs vary as before.

# %% [markdown] quiz
# The rule uses t = 4.3 with 2 degrees of freedom, and 1.98 with 100. Why does t depend on them?
#
# - [x] From few seeds we know s badly. :: The estimate of s is often far too small by luck, and a larger t makes up for it.
# - [ ] Few accuracies follow no bell curve. :: The rule assumes a bell curve for any number of seeds.
# - [ ] The mean of few seeds is less certain. :: This is true, but e contains it already, because s² is divided by n.

# %% [markdown] quiz
# You tried sixteen changes against one base, and one of them is "better". What do you do?
#
# - [ ] Adopt it, because it has passed the rule. :: With more rows, a false alarm in one of them becomes more likely.
# - [x] Run it and the base again, with new seeds. :: New seeds are an independent test.
# - [ ] Report it, and leave the other fifteen out. :: Then nobody can see how lucky it had to be.

# %% [markdown] quiz
# Your new pooling is two points worse than CLS, at the learning rate of the CLS model. What follows?
#
# - [ ] The new pooling is worse. :: We know this only for one rate, and that rate was chosen for its opponent.
# - [x] Nothing yet, so sweep the rate of both. :: This is the trap of section 6.
# - [ ] Its rate should be lower. :: This is a guess, because the best rate may also be higher.

# %% [markdown] quiz
# The best learning rate is the largest one you tried. What do you do now?
#
# - [ ] Take it, because it is the best. :: A rate beyond the edge may be better still.
# - [ ] Take the second best, to be safe. :: Then you ignore the only thing that the sweep has shown.
# - [x] Try larger rates. :: A best rate at the edge means that the sweep was too narrow.

# %% [markdown]
# ## Recap
#
# | term | formula |
# |---|---|
# | seeds of one setting | mean m, variance s², q = s²/n |
# | difference of two settings | (m_a - m_b) ± t·e, e = √(q_a + q_b) |
#
# - Luck alone makes winners. Fix the rule and the comparison before you look, and count how often you looked.
# - Change one thing at a time. Give each side the settings that it needs, or the same time.
# - "Undecided" is a result too. Report it with the others.
#
# **Your next step.** Choose the row that surprised you most, and test it again with `at_equal_time`. A question of your
# own is a [project](../docs/projects.md).
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), appendices D.2 to D.4, Figures 8 to 10, Table 8.
# - Bouthillier et al., *Accounting for Variance in Machine Learning Benchmarks* (2021): where the spread comes from.
# - Dodge et al., *Show Your Work: Improved Reporting of Experimental Results* (2019): the effort of a search belongs in
#   the report.
# - Steiner et al., *How to train your ViT?* (2021): regularisers and data, measured one against the other.
#
# **Next.** One thing in this lesson failed. With patches of 16x16 pixels our ViT was less than four points better than a linear
# classifier. Is one linear layer too little for so large a patch? Lesson 11 puts a few convolutions in front.
