# ---
# title: "ViT against ResNet"
# promise: "Compare ViT and ResNet, and learn what makes a comparison fair."
# part: "II. Train it, and be fair"
# map: []
# recall:
#   "01.5": "A patch embedding for patches of P pixels moves by half a patch, with stride P/2. What is different?"
#   "03.2": "Which shape does `pos_embed` need for an 8x8 grid of patches, one CLS token and D = 192?"
#   "07.2": "Two recipes differ by +0.3 points on average, and the 95 % interval is -0.4 to +1.0. Which sentence is right?"
# goals:
#   - "Find what is unfair in a comparison, and choose the runs that may be compared."
#   - "Say what an equal search of both models changes, and read accuracy over cost."
#   - "Say what a convolution knows before it has learned anything."
#   - "Say what the paper found about data and size, and what it means that a model scales."
#   - "Say what a small experiment can show, and what it cannot."
# ---

# %% [markdown]
# ## 1. Has the Transformer beaten the convolution?
#
# A friend says: "Nobody needs convolutions any more. I trained both on CIFAR-10, and the ViT won." Do you believe it? Before you
# look at numbers, ask how the two were compared:
#
# | topic | question |
# |---|---|
# | data | did both learn from the same images, and from nothing else? |
# | effort | did both get the same number of trials for their settings? |
# | budget | how long did each train, in minutes and in operations (**FLOPs**, lesson 04)? |
# | choice | were choices made on held-out images, and the test images used once, at the end? |
# | chance | how many **seeds** are there, runs that differ in their random numbers alone? |
#
# **Your task.** The docstring of `unfair_points` lists nine points of a made-up report. Return the letters of the unfair ones, as
# a set. The check names one point at a time and says why.

# %% exercise="vit_classroom.evidence.probes:unfair_points" difficulty=2 minutes=10 hint="Ask of each point: could it raise one result although the model is no better? Could the reader see it in the table, and take it into account?" hint2="Five of the nine are unfair. Budget, choice and chance are each broken by one point. Two more points give one side something useful that the other side does not get."
from vit_classroom import check
from vit_classroom.evidence.probes import unfair_points

unfair_points = check(unfair_points)

# %% [markdown]
# > **Key idea.** A fair comparison keeps equal what can be equal, and shows the rest.
#
# Keep your five questions. In section 3 you will use them against *our own* runs, and they will find something.
#
# ## 2. Who is the opponent?
#
# A **ResNet** (He et al., 2016) is a stack of 3x3 convolutions. Two of them and a shortcut make a block:
#
# $$y = F(x) + x$$
#
# Here x and y are **feature maps** (B, C, H, W), and F is convolution, batch norm, ReLU, convolution, batch norm. You know the
# shortcut, because the ViT took its residual connections from here. Some blocks have **stride** 2. They read every second
# position, so the map becomes half as wide. At the end an average over all positions gives one vector, and a linear layer turns
# it into logits.
#
# torchvision's ResNet-18 halves an image five times, which suits 224 pixels. An image of 32 pixels would shrink to a single
# position. So everybody who trains a ResNet on CIFAR-10 changes its first layers, the **stem**, and leaves out two of the
# halvings. Our ResNets are built in this way.
#
# What does each model cost? Parameters and operations can be counted. Images per second must be measured.
#
# > **Predict.** If operations alone decided how long a model takes, what would the last column, GFLOP/s, look like?

# %%
import time
from dataclasses import replace
from statistics import fmean
from textwrap import fill

import torch
from IPython.display import display
from torch import nn

from vit_classroom import plots, table
from vit_classroom.evidence import equal_budgets
from vit_classroom.evidence.probes import COST, PAPER_TABLE, PAPER_TASKS, shift
from vit_classroom.evidence.records import caption, load_records
from vit_classroom.evidence.statistics import difference, from_to, undecided
from vit_classroom.numbers import minutes, number, percent
from vit_classroom.profiles import get_profile
from vit_course.data import load_dataset, shapes10
from vit_course.recipes import RECIPES, build_model, forward_flops
from vit_course.train import train
from vit_course.training.device import get_device

# %% fold tags=["nbval-ignore-output"]
shapes, device, profile = shapes10(train=100, test=100), get_device(), get_profile()
batch = torch.rand(profile.pick(smoke=4, cpu=64, gpu=512), 3, 32, 32, device=device)
rows = []
for name in ("Nano/8", "resnet-small", "Ti/4", "resnet18"):
    torch.manual_seed(0)
    model = build_model(name, shapes).eval().to(device)
    with torch.no_grad():
        model(batch)  # the first call prepares things, so it is not timed
        start = time.perf_counter()
        for _ in range(3):
            value = model(batch).sum().item()  # .item() waits for the device
        rate = 3 * len(batch) / (time.perf_counter() - start)
    gflop = forward_flops(model, shapes) / 1e9
    rows.append([name, sum(p.numel() for p in model.parameters()), gflop, round(rate), rate * gflop])
table(rows, ["model", "parameters", "GFLOP for an image", "images/s, forward", "GFLOP/s"])

# %% [markdown] claim="max(row[-1] for row in rows) > 1.1 * min(row[-1] for row in rows)"
# The last column is not the same for all models, so operations alone do not decide the time. How fast a matrix product runs
# depends on its shape, and between products the machine waits for memory. Report both budgets. Operations do not depend on the
# machine, and minutes are what you pay.
#
# ## 3. Is our own first comparison fair?
#
# The course made this comparison early on, with all 50,000 training images of CIFAR-10 and three seeds for each model. The
# settings came from common practice. **The ResNet was fifteen points ahead.**

# %% fold
first = load_records("comparison-first", "cpu")
print(caption(first))
scores = {name: equal_budgets.seeds(first, name) for name in ("vit", "resnet")}
rows = []
for name, found in scores.items():
    run = next(run for run in first if run["step"] == name)
    cost = [run["parameters"], run["config"]["epochs"], round(run["training_flops"] / 1e12)]
    reached = ", ".join(f"{x:.1f}" for x in found), f"{fmean(found):.1f}"
    rows.append([equal_budgets.FAMILIES[name], run["model"], *cost, *reached])
display(table(rows, ["", "model", "parameters", "epochs", "TFLOP", "test accuracy of each seed (%)", "mean"]))
gap, low, high = difference(scores["resnet"], scores["vit"])
print(f"ResNet minus ViT: {gap:+.1f} points, 95 % interval {from_to(low, high)}")

# %% [markdown] always claim=["14.5 < gap < 15.5 and low > 10", "len({run['config']['lr'] for run in first if run['step'] == 'vit'}) == 1"]
# It would be easy to stop here and to say that convolutions win on small data. But the effort was equal only because
# nobody searched. Each model had a single learning rate. So we made a **search**. Each
# model could try changes of its recipe, at about the same cost for each trial. We chose on 5,000 held-out images and
# touched no test image. Here is the best trial of each side.

# %% fold
from vit_classroom.evidence.search_effort import changed_part


def without_repeats(trials):
    """Keep one record of each setting, the one with seed 0."""
    return [trial for trial in trials if trial["config"]["seed"] == 0]


def best(trials):
    """Return name and held-out accuracy in percent of the best trial."""
    trial = max(trials, key=lambda trial: trial["held_out_accuracy"])
    return trial["step"], 100 * trial["held_out_accuracy"]


records = {"ViT": load_records("trials", "cpu"), "ResNet": load_records("trials-resnet", "cpu")}
searches = {name: without_repeats(found) for name, found in records.items()}
found_best = {name: best(trials) for name, trials in searches.items()}
rows = [[name, step, f"{score:.1f}"] for name, (step, score) in found_best.items()]
table(rows, ["model", "best trial", "held-out accuracy (%)"])

# %% [markdown] always claim=["6.5 < found_best['ResNet'][1] - found_best['ViT'][1] < 7.5 and 9.5 < found_best['ViT'][1] - fmean(scores['vit']) < 10.5", "all(1.2 < next(t for t in searches[name] if t['step'] == found_best[name][0])['training_flops'] / next(r for r in first if r['step'] == name.lower())['training_flops'] < 1.4 for name in searches)"]
# **Fifteen points have become seven.** A better recipe and a better shape, with patches of 4x4 pixels, brought the
# ViT ten points. (The first gap is between test accuracies of three seeds, the second between held-out accuracies of
# one seed each.)
#
# So is the ResNet seven points better? Both numbers have a search behind them.
#
# > **Predict.** Which of your five questions will the two searches fail?
#
# Find out from the records. A **record** is a dictionary about one run. `"step"` is the name of its setting, and the first word of
# the name is the part of the recipe that it changes. `changed_part` returns this word.

# %%
trial = searches["ResNet"][6]
print({key: trial[key] for key in ("step", "parameters", "held_out_accuracy")})
print({key: trial["config"][key] for key in ("optimizer", "lr", "seed")}, "is a part of trial['config']")
print("it changes:", changed_part(trial))

# %% [markdown]
# **Your task, step 1.** Write `unequal_parts`. It asks three questions of both searches and returns those whose answers differ.

# %% exercise="vit_classroom.evidence.search_effort:unequal_parts" difficulty=2 minutes=6 hint="Write the three answers for one search first. A set drops repeats, and its length counts what is left. Then do the same for the other search, and compare." hint2="What would the answers look like if you kept them in one dictionary for each search, with the questions as keys? Both dictionaries have the same keys, so one loop over them can compare and collect."
from vit_classroom.evidence.search_effort import unequal_parts

unequal_parts = check(unequal_parts)

# %%
unequal = unequal_parts(records["ViT"], records["ResNet"])


def as_text(answer):
    """Write an answer of a search, a number or a set of names."""
    return ", ".join(sorted(answer)) if isinstance(answer, set) else str(answer)


table([[key, *map(as_text, pair)] for key, pair in unequal.items()], ["what differs", "ViT", "ResNet"])

# %% [markdown] always claim=["unequal['trials'] == (46, 12) and unequal['sizes'] == (9, 2)", "'muon' in unequal['optimisers'][0] and 'muon' not in unequal['optimisers'][1]"]
# **Effort was not equal.** The ViT had nearly four times as many trials as the ResNet. It was tried in more sizes. Muon, the
# optimiser that helped the ViT most in lesson 07, was never tried on the ResNet.
#
# Why do more trials matter, if each is honest? The best of many noisy numbers is higher than the best of few, even if all
# settings are equally good.
#
# **Your task, step 2.** Repair what can be repaired. Write `equal_searches`, which chooses the trials that may be compared. Both
# sides keep the same number of trials of each part of the recipe.
#
# > **Trap.** Do not look at the accuracy while you choose. Whoever keeps the best three of ten has made ten trials.

# %% exercise="vit_classroom.evidence.search_effort:equal_searches" difficulty=2 minutes=8 hint="First find out how many trials of each part a side may keep. `Counter(map(changed_part, first))` from `collections` counts them on one side. Then walk through each search in order, and keep a trial while its part has not reached this number." hint2="`&` of two counters keeps the smaller count of each. What must happen to the count whenever you keep a trial? And why does the second search need a fresh copy of it?"
from vit_classroom.evidence.search_effort import equal_searches

equal_searches = check(equal_searches)

# %%
kept = dict(zip(searches, equal_searches(*searches.values()), strict=True))
kept_best = {name: best(trials) for name, trials in kept.items()}
rows = []
for name in searches:
    rows.append([name, "all", len(searches[name]), *found_best[name]])
    rows.append([name, "the same number", len(kept[name]), *kept_best[name]])
display(table(rows, ["model", "trials", "how many", "best trial", "held-out accuracy (%)"]))
left = unequal_parts(*kept.values())
table([[key, *map(as_text, pair)] for key, pair in left.items()], ["what still differs", "ViT", "ResNet"])

# %% [markdown] always claim=["len(kept['ViT']) == len(kept['ResNet']) == 11", "1 < found_best['ViT'][1] - kept_best['ViT'][1] < 1.5 and found_best['ResNet'] == kept_best['ResNet']", "'optimisers' in left"]
# With eleven trials on each side, the best ViT loses more than a point and the best ResNet loses nothing. The gap is
# eight points now instead of seven. These are single seeds, so read no more from them than that the answer depends on
# the searches. It never was a property of the two models alone.
#
# > **Key idea.** Two models compared are two searches compared. Give both the same effort, and report it.
#
# And one thing still differs. Different optimisers can be fair (point c), but here only one side could try Muon. A
# choice of runs can remove trials, but it cannot add the ones that nobody made.
#
# ## 4. What does a fair comparison look like?
#
# The search is made again, by rules written down before the first trial:
#
# - **One list for both.** Each side gets SGD, AdamW and Muon with three learning rates each, then two other widths, another
# schedule, and half of the work for each image in the first part of the run (half of the tokens, or smaller images
# for the ResNet). That makes thirteen trials.
# - **One budget.** A trial is as long as eight minutes of one core. The minutes were turned into steps once.
# - **One beginning.** Both sides begin with the same recipe. Only the ViT's patches and depth come from before.
# - **Held-out images choose, and the test images come last.** There are two budgets, of two and of eight core-minutes. At both,
#   each side chooses among three widths, and then runs with three seeds.
#
# > **Predict.** Muon added 22 points to a ViT in lesson 07. What will it add to the ResNet?

# %% fold
equal = equal_budgets.load_searches()
print(caption([run for runs in equal.values() for run in runs]))
searched = {
    name: {run["step"]: 100 * run["held_out_accuracy"] for run in runs} for name, runs in equal.items()
}
best_of = {
    name: {
        kind: max(x for step, x in found.items() if step.startswith(kind))
        for kind in ("sgd", "adamw", "muon")
    }
    for name, found in searched.items()
}
table(
    equal_budgets.search_table(equal),
    ["trial", *(f"{name} (%)" for name in equal)],
    "Accuracy on held-out images, one seed. The best trial of each side has a star.",
)

# %% [markdown] always claim=["all(max(found, key=found.get) == 'muon' for found in best_of.values())", "best_of['ViT']['muon'] - max(best_of['ViT']['sgd'], best_of['ViT']['adamw']) > 14 and 2 < best_of['ResNet']['muon'] - max(best_of['ResNet']['sgd'], best_of['ResNet']['adamw']) < 3", "all(found['muon-0.009'] > found['muon-0.003'] > found['muon-0.001'] for found in searched.values())", "all(max(found, key=found.get) == 'half' for found in searched.values())"]
# **Muon is the best optimiser on both sides.** Over the best of the other two it adds fourteen points to the ViT, and two to the
# ResNet. So the search of section 3, where only the ViT had Muon, helped the side that needs it more.
#
# The last trial is the best on both sides, so both go on with Muon and half of the positions first. Both prefer the largest rate, so
# a still larger one might be better.
#
# > **Predict.** Now the test images. Is one model ahead at both budgets, or do the two lines cross?

# %% fold
budgets = equal_budgets.load_budgets()
lines, floor = equal_budgets.accuracy_over_cost(budgets), fmean(equal_budgets.seeds(budgets[8], "linear"))
figure = plots.seed_curves(
    {name: lines[name] for name in ("ResNet", "ViT")},
    "Who is ahead on CIFAR-10 at which cost?",
    "core-minutes of training",
    "test accuracy (%)",
    log=True,
    floor=("linear classifier", floor),
)
plots.show(
    figure,
    "Test accuracy over core-minutes for ViT and ResNet, at two and at eight. There is a dot for each seed, and the linear "
    "classifier is a dashed line far below both.",
)
display(table(equal_budgets.budget_table(budgets), equal_budgets.BUDGET_COLUMNS))
gaps = equal_budgets.gap_table(budgets, "resnet", "vit")
table(gaps, equal_budgets.GAP_COLUMNS, "ResNet minus ViT")

# %% [markdown] always claim=["[row[3] for row in gaps] == ['ahead', 'ahead'] and all(5 < fmean(lines['ResNet'][at]) - fmean(lines['ViT'][at]) < 6 and min(lines['ResNet'][at]) > max(lines['ViT'][at]) for at in (2, 8))", "11.5 < fmean(lines['ViT'][8]) - fmean(scores['vit']) < 12.5 and 2 < fmean(lines['ResNet'][8]) - fmean(scores['resnet']) < 3", "all(7 < min(run['seconds'] for run in first if run['step'] == name) / 60 < 9 for name in scores)", "all(78e3 < run['parameters'] < 81e3 for run in budgets[2] if run['step'] in scores) and 1 < (lambda cost: cost['resnet'] / cost['vit'])({run['step']: run['training_flops'] for run in budgets[2]}) < 1.15", "(lambda cost: 1.1 < cost['vit'] / cost['resnet'] < 1.3)({name: fmean(run['cpu_seconds'] for run in budgets[8] if run['step'] == name) for name in scores})", "min(min(values) for line in lines.values() for values in line.values()) > floor + 20"]
# **The ResNet is ahead at both budgets, by five to six points.** Every seed of the ResNet is above every seed of the ViT. Effort
# is equal now, so it is not the reason. At two minutes size is not the reason either. Both sides chose about 80,000 parameters
# there, and do nearly the same number of operations. (As run at eight minutes, on busy cores, the ViT took about a fifth longer.)
#
# **Of the fifteen points of section 3, five to six are left.** Those runs took about eight minutes too. Since then the ViT has
# gained twelve points, and the ResNet not quite three.

# %% fold
learning = equal_budgets.learning_curves(budgets[8])
at_two = {name: next(x for at, x in zip(*curve, strict=True) if at >= 2) for name, curve in learning.items()}
figure = plots.curves(
    learning,
    "How do the two learn CIFAR-10? (eight core-minutes)",
    "core-minutes of training",
    "held-out accuracy (%)",
)
plots.show(
    figure,
    "Accuracy on held-out images after each epoch, over core-minutes, for ViT and ResNet. Both lines rise, and flatten.",
)

# %% [markdown] always claim=["abs(at_two['ViT'] - at_two['ResNet']) < 4", "(lambda at, score: score[5] - score[4] > 7 and at[4] < 0.7 * 8 < at[5])(*learning['ResNet'])", "learning['ResNet'][1][-1] > learning['ViT'][1][-1] + 4"]
# After two core-minutes the two are about equal (one run each). The ResNet gains eight points in the epoch in which it
# begins to read whole images, after 70 % of its run.
#
# Effort was equal this time. Is there a reason in the architecture? Perhaps the ResNet knows something that the ViT has to learn.
#
# ## 5. What does a convolution know before it has learned anything?
#
# Move an image by a few pixels. For you nothing important has changed. And for a model? There are two words for what can happen.
# Let $S_s$ be the shift by s pixels, x an image and f a layer or a model.
#
# $$\text{equivariant:}\quad f(S_s\,x) = S_s\,f(x) \qquad\qquad \text{invariant:}\quad f(S_s\,x) = f(x)$$
#
# - **Equivariant** means that the result moves along. A convolution of stride 1 is equivariant, because it does the same at every
#   place. A layer of stride P writes one column for P columns that it reads, so it moves along only for multiples of P.
# - **Invariant** means that the result stays. The average over *all* places is invariant, as long as nothing leaves the image.
#
# We test three models that have learned nothing. A small photo moves on a wide black background, so nothing leaves the image. We
# compare the vectors before the head. The strides of the ResNet multiply to 4, and the patches of the ViT have 8 pixels.
#
# > **Predict.** Which shifts from 0 to 8 pixels leave the result as it is, for the ResNet, for the ViT, and for a ViT without
# > positions?

# %% fold
scene = torch.zeros(1, 3, 64, 64)
scene[..., 24:40, 16:32] = plots.sample_photo((16, 16)).float() / 255
scene_data, steps = shapes10(train=10, test=10, image_size=64), list(range(9))
bodies = {}
for name, model_name, options in [
    ("ResNet", "resnet-small", {}),
    ("ViT", "Nano/8", {}),
    ("ViT without positions", "Nano/8", {"pos_embed": "none"}),
]:
    torch.manual_seed(0)
    bodies[name] = build_model(model_name, scene_data, **options).eval()
    if name == "ResNet":
        bodies[name][-1] = nn.Identity()
    else:
        bodies[name].head = nn.Identity()


# %%
def change(body, images, moved):
    """Return how far the output moves, in percent of what the photo adds to the output of a black image."""
    with torch.no_grad():
        before, after, black = body(images), body(moved), body(torch.zeros_like(images))
    return 100 * ((after - before).norm() / (before - black).norm()).item()


changes = {name: [change(body, scene, shift(scene, s)) for s in steps] for name, body in bodies.items()}
unchanged = {name: [s for s in steps if found[s] < 1e-3] for name, found in changes.items()}
table(
    [[name, ", ".join(map(str, found))] for name, found in unchanged.items()],
    ["untrained model", "unchanged for shifts of (pixels)"],
)

# %% fold
figure = plots.curves(
    {name: (steps, found) for name, found in changes.items()},
    "Untrained: which shifts does each architecture ignore?",
    "shift (pixels)",
    "change (% of what the photo adds)",
)
figure.axes[0].set_ylim(top=110)  # room for the legend
plots.show(
    figure,
    "Change of the output over the shift. The ResNet returns to zero at 4 and 8 pixels, the ViT without positions at 8, and the "
    "ViT with positions never.",
)

# %% [markdown] always claim="unchanged == {'ResNet': [0, 4, 8], 'ViT': [0], 'ViT without positions': [0, 8]}"
# **The ResNet ignores shifts by 4 and 8 pixels, and the ViT ignores none.** Nobody taught the ResNet this. What a model assumes
# before it sees data is its **inductive bias**. It has limits. The ResNet does not ignore a shift by 1 or 2 pixels, because of its
# strides. Without positions, the ViT ignores a shift by a whole patch. With positions, it must learn from examples that a
# cat on the left is a cat on the right.
#
# ## 6. Does the winner change with the number of images?
#
# What a model assumes, it need not learn. So one expects the convolution's bias to be worth most when images are *few*. To test
# it, both models of section 4 learn from 1 %, 10 % and 100 % of the images of CIFAR-10, always for eight core-minutes. A smaller
# training set is repeated more often. This gives a **data-fraction curve**.
#
# > **Predict.** Draw both curves, accuracy over the share of the images. Where is the ResNet's lead largest?

# %% fold
runs = load_records("fractions-8", "cpu")
print(caption(runs))
tested, learned = equal_budgets.by_share(runs), equal_budgets.by_share(runs, "train_accuracy")
figure = plots.seed_curves(
    {name: tested[name] for name in ("ResNet", "ViT")}
    | {"linear classifier": equal_budgets.linear_by_share()},
    "Who learns more from few images?",
    "share of the training images (%)",
    "test accuracy (%)",
    log=True,
)
plots.show(
    figure,
    "Test accuracy over the share of the images, with a dot for each seed. The ResNet is above the ViT at every share, and the "
    "linear classifier is at the bottom.",
)
table(equal_budgets.share_gaps(tested, "ResNet", "ViT"), equal_budgets.GAP_COLUMNS, "ResNet minus ViT")

# %% [markdown] always claim=["all(difference(tested['ResNet'][share], tested['ViT'][share])[1] > 0 for share in (1, 10, 100))", "(lambda lead: lead[10] > 2 * lead[100] and lead[10] > 1.7 * lead[1])({share: fmean(tested['ResNet'][share]) - fmean(tested['ViT'][share]) for share in (1, 10, 100)})", "all(min(learned[name][1] + learned[name][10]) > 99 and max(learned[name][100]) < 90 for name in ('ViT', 'ResNet'))"]
# The ResNet is ahead with every share. But the expected pattern does not appear. **Its lead is largest with 10 % of the images,
# not with 1 %.**
#
# Does the ViT need more steps? With 1 % and 10 % of the images both models have memorised theirs. With all images neither has.
#
# > **Predict.** These three runs take twice the steps. Which of them gain from it?

# %% fold
more_steps = equal_budgets.longer(runs)
table(
    more_steps,
    equal_budgets.LONGER_COLUMNS,
    "Test accuracy, usual steps with three seeds, twice as many with one",
)

# %% [markdown] always claim=["(lambda gain: 2 < gain['ViT', '100'] < 3 and 0 < gain['ResNet', '10'] < 1 and -2.2 < gain['ViT', '10'] < -1.5)({(row[0], row[1]): float(row[4]) for row in more_steps})", "[row[:2] for row in more_steps] == [['ResNet', '10'], ['ViT', '10'], ['ViT', '100']]"]
# **With all images the ViT still learns**, and gains more than two points. (The ResNet did not get twice the steps there, so this
# says nothing about the gap.)
#
# With 10 % of the images, twice the steps hardly help. The ResNet gains less than a point, and the ViT loses two. Who has memorised 5,000 images finds
# nothing new in them. So steps do not explain why the lead is largest here, and we do not know what does. (All settings were
# chosen with nearly all images.)

# %% [markdown]
# ## 7. What did the paper find?
#
# The paper asks the same question at a scale that no class can reach. Its section 4.3 pre-trains models on 9, 30, 90 and 300
# million images of JFT, a data set inside Google (Figure 4). With 9 million, ResNets are better than ViTs of similar cost. From 90
# million on, ViTs are better. ResNets are good early and then level off.
#
# Figure 3 asks which *size* of ViT needs how many images. The numbers are in its Table 5. Base has 86 million parameters, Large
# 307 million.
#
# > **Predict.** You have one million images and much compute. Should you take the larger model?

# %% fold
pretrained_on = {"ImageNet": 1.3, "ImageNet-21k": 14, "JFT": 300}  # million images
fine_tuned = {"ViT-B/16": (77.91, 83.97, 84.15), "ViT-L/16": (76.53, 85.15, 87.12)}
rows = zip(pretrained_on, pretrained_on.values(), *fine_tuned.values(), strict=True)
display(table([[name, str(count), *map(str, both)] for name, count, *both in rows],
              ["pre-trained on", "million images", *(f"{name} (%)" for name in fine_tuned)]))  # fmt: skip
figure = plots.curves(
    {name: (list(pretrained_on.values()), list(values)) for name, values in fine_tuned.items()},
    "Which size for how many images? (paper, Table 5)",
    "million images of the pre-training",
    "accuracy on ImageNet (%)",
    log="x",
)
plots.show(
    figure,
    "Two lines over 1.3, 14 and 300 million images. Large begins below Base, crosses it and goes on rising. Base levels off after "
    "14 million.",
)

# %% [markdown] always claim="fine_tuned['ViT-L/16'][0] < fine_tuned['ViT-B/16'][0] and fine_tuned['ViT-B/16'][2] - fine_tuned['ViT-B/16'][1] < 0.2 < fine_tuned['ViT-L/16'][2] - fine_tuned['ViT-L/16'][1]"
# With ImageNet alone, the larger model is *worse*. With more images the order turns round. From 14 to 300 million images Base
# gains 0.2 points and Large gains 2.0. (On JFT, Large trained twice as long as Base. Table 6 has it with the same number of
# epochs, at 86.30 %, and it is still ahead.)
#
# Figure 3 also draws a band for **BiT**, ResNets of several sizes that were pre-trained on the same images. With ImageNet
# alone, BiT is above the ViTs. With the larger data sets, the ViTs overtake it.
#
# ## 8. What does it mean that a model scales?
#
# A model **scales** if it gets better whenever you give it more data, more parameters and more compute together, and if it does so
# at a price that can be paid. The paper begins with this thought (section 1). Transformers for language had grown to more than
# 100 billion parameters, and there was no sign that growth had stopped helping. Can the same model grow in the same way on images?
#
# Three results of the paper speak for it.
#
# - **Data.** In Figure 3 the small ViT levels off, and the large one goes on rising. The inductive bias of BiT helps while images
#   are few, and is overtaken when they are many. In the authors' words, large scale training trumps inductive bias.
# - **Compute.** In section 4.4 a ViT needs two to four times *less* compute than a ResNet for the same accuracy, on average over five
#   data sets.
# - **No end in sight.** In section 4.4 the authors also write that ViTs "appear not to saturate" within the range that they tried.
#
# The list of section 1 applies to the paper as well. BiT had its own recipe, and so had the ViT.
#
# Since then, others have searched recipes for convolutional networks again. *ResNet strikes back* (2021) trained the
# old ResNet-50 with a modern recipe, and it gained several points. *ConvNeXt* (2022) changed a ResNet step by step
# until it was as good as Transformers of its time. In section 3 you found that a part of a lead can be the recipe.
# Both papers suggest the same of the ViT's lead.
#
# ## 9. What may we conclude?
#
# A small course **can** show which of two models is ahead at this size, this budget and this effort. It can show exactly what an
# architecture assumes, and how much of a gap goes away when recipes are searched.
#
# It **cannot** show what happens at millions of images. "ResNets win on CIFAR-10 from scratch" and "ViTs win at scale" do not
# contradict each other.
#
# So what do you answer your friend? Ask for the two searches.

# %% [markdown] curious
# ## 10. Who wins on your machine, and does a shift hurt?
#
# Now three models learn on your machine with the same number of **operations**. They are a ResNet, a ViT, and the ViT without
# positions. The cheaper a model is for an image, the more epochs it gets. All have the same augmentation, crop and flip.
#
# > **Predict.** Which of the two ViTs will be better, the one with positions or the one without?

# %% fold tags=["nbval-ignore-output"]
everything = load_dataset("auto", multiple_of=16)
part = everything.subset(
    profile.pick(smoke=128, cpu=5_000, gpu=50_000), profile.pick(smoke=100, cpu=2_000, gpu=10_000)
)
vit_name, resnet_name = profile.pick(
    smoke=("Nano/8", "resnet-small"), cpu=("Nano/8", "resnet-small"), gpu=("Ti/4", "resnet18")
)
batch_size, vit_rate = profile.pick(smoke=16, cpu=64, gpu=512), profile.pick(smoke=2e-3, cpu=2e-3, gpu=1e-3)
vit_recipe = replace(RECIPES["smoothing"], batch_size=batch_size, lr=vit_rate, quiet=True)
resnet_recipe = replace(RECIPES["resnet"], batch_size=batch_size, quiet=True)
print(fill(str(part), 90))
print(
    f"profile {profile.name}: three trainings, about {minutes(profile.pick(smoke=10, cpu=80, gpu=180))} in all"
)
contest = {
    "ResNet": (resnet_name, resnet_recipe, {}),
    "ViT": (vit_name, vit_recipe, {}),
    "ViT without positions": (vit_name, vit_recipe, {"pos_embed": "none"}),
}
budget = profile.pick(smoke=1, cpu=10, gpu=10) * forward_flops(
    build_model(vit_name, part), part
)  # for an image
trained, rows, reached = {}, [], {}
for name, (model_name, recipe, options) in contest.items():
    torch.manual_seed(0)
    trained[name] = build_model(model_name, part, **options)
    cost = forward_flops(trained[name], part)
    epochs = max(1, round(budget / cost))
    history = train(trained[name], part, replace(recipe, epochs=epochs))
    reached[name], flops = history.test_accuracy, 3 * cost * epochs * len(part.train_images)
    rows.append(
        [name, epochs, f"{flops / 1e12:.2f}", minutes(history.seconds), percent(history.test_accuracy)]
    )
table(rows, ["model", "epochs", "TFLOP", "time", "test accuracy"])

# %% [markdown] claim="'Shapes-10' not in part.provenance or reached['ResNet'] > max(reached['ViT'], reached['ViT without positions'])"
# **On the drawings of Shapes-10 the ResNet is ahead of both ViTs.** Which of the two ViTs is ahead is luck. Run the
# cell with another seed, and their order may change. For the first epochs such a ViT is hardly better than guessing,
# then it learns quickly, and chance decides when. A training of one minute ends somewhere on the way. So one run shows
# nothing about positions here. Here are longer runs with three seeds.
#
# > **Predict.** On which images are positions worth most? What is left of it when the images move by 8 pixels?

# %% fold
position_rows = equal_budgets.rows_of_positions()
table(
    position_rows,
    equal_budgets.POSITION_COLUMNS,
    "The ViT of section 4, test accuracy: two core-minutes on drawings, eight on photos",
)

# %% [markdown] always claim=["position_rows[0][-1] == 'no difference shown' and min(float(x) for x in position_rows[0][1:3]) > 99", "position_rows[1][-1] == 'ahead' and 8 < float(position_rows[1][3]) < 9", "(lambda photos, shifted: 8 < float(photos[1]) - float(shifted[1]) < 10 and 1 < float(photos[2]) - float(shifted[2]) < 2.5)(*position_rows[1:])", "float(position_rows[2][3]) < 2.5"]
# On drawings both are right nearly always. A drawing may be anywhere in its image, so the place says nothing about its class, and with
# enough steps the ViT with positions learns that, too. In a photo the place says something, for example that the sky is above
# (lesson 10), and there positions are worth eight points.
#
# **But they are worth it only while things stay in their places.** When the photos move by 8 pixels, which are two patches, the
# ViT with positions loses nine points, and the one without loses two. Little of the lead is left.
#
# What does a shift do to the models that *you* have just trained?
#
# **Your task.** Write `accuracy_under_shift`. `shift(images, pixels)` moves images to the right. `evaluate(model,
# images, labels, stats)` normalises them, sets evaluation mode, and returns (accuracy, loss).

# %% exercise="vit_classroom.evidence.probes:accuracy_under_shift" difficulty=1 minutes=6 hint="A loop over `shifts`. In each round, move the untouched images, score them, and write the accuracy into a dictionary under the number of pixels." hint2="`evaluate` returns two numbers, and one of them is asked for. Which name holds the images at the start of the second round, and are they still untouched?"
from vit_classroom.evidence.probes import accuracy_under_shift

accuracy_under_shift = check(accuracy_under_shift)

# %% tags=["nbval-ignore-output"]
tests = part.test_images, part.test_labels, part.channel_stats()
under_shift = {name: accuracy_under_shift(model, *tests, (0, 1, 2, 4, 8)) for name, model in trained.items()}

# %% fold tags=["nbval-ignore-output"]
figure = plots.seed_curves(
    {name: {s: [100 * a] for s, a in found.items()} for name, found in under_shift.items()},
    "Trained on your machine, then shifted: does it hurt?",
    "shift (pixels)",
    "test accuracy (%)",
)
plots.show(figure, "Test accuracy of the three models over the shift, from 0 to 8 pixels.")

# %% [markdown] claim="{recipe.augment.crop_padding for _, recipe, _ in contest.values()} == {4}" always
# Training used random crops, which move the images by up to 4 pixels. So all three models have *practised* small shifts, and this
# figure cannot separate what was built in from what was taught. Try crops of 0 pixels (`augment=AugmentConfig(flip=0.5)` from
# `vit_course.augment`), and write down first what you expect.

# %% [markdown] curious
# ## 11. Better by how much, and at what cost?
#
# The paper's main result is its Table 2. It compares the best models after pre-training and fine-tuning on many tasks. The ± is
# the standard deviation over three fine-tuning runs. (The text does not say how often a model was pre-trained. We infer that it
# was once, because such runs are so expensive.)
#
# | name | meaning |
# |---|---|
# | I21k | ImageNet-21k, 14 million images, public |
# | BiT-L | a very wide ResNet, pre-trained on JFT |
# | Noisy Student | a large convolutional network that also learned from labels which an earlier model gave to 300 million images |
# | ReaL | ImageNet with better labels |
# | VTAB | a set of 19 tasks |
# | TPUv3-core-days | cost of pre-training, one core of a chip of Google's for one day |


# %% fold
def written(value):
    """Write a cell of the table: mean ± deviation, where there are any."""
    if not isinstance(value, tuple):
        return "–" if value is None else number(value)
    return f"{value[0]:g}" if value[1] is None else f"{value[0]:.2f} ± {value[1]:.2f}"


rows = [[task, *(written(row[task]) for row in PAPER_TABLE.values())] for task in PAPER_TASKS]
table(rows, ["task", *(name.replace(" (ResNet152x4)", "").split(" (Eff")[0] for name in PAPER_TABLE)])

# %% [markdown]
# Why does ViT-L/16 have 87.76 % on ImageNet here, and 87.12 % in section 7? It is the same pre-training. Table 5 fine-tunes at 384
# pixels. For ImageNet, Table 2 fine-tunes at 512 pixels (ViT-H/14 at 518) and averages the weights of many steps, which is called
# Polyak averaging. Two numbers may be compared only if these choices are the same.
#
# "ViT is better" hides three questions. Better by how much, how sure is that, and at what cost? To use the rule of lesson 07 we
# need three numbers with the mean m and the deviation s that the paper gives, and m - s, m and m + s have them.
#
# > **Predict.** ViT-L/16 on JFT is 0.22 points above BiT-L on ImageNet, and 0.01 below it on VTAB. What does the rule say?


# %% fold
def three(mean, deviation):
    """Return three numbers with this mean and this standard deviation."""
    return [mean - deviation, mean, mean + deviation]


bit, rows = "BiT-L (ResNet152x4), JFT", []
for vit in ("ViT-L/16, JFT", "ViT-L/16, I21k"):
    for task in ("ImageNet", "CIFAR-10", "VTAB"):
        gain, low, high = difference(three(*PAPER_TABLE[vit][task]), three(*PAPER_TABLE[bit][task]))
        result = "no difference shown" if undecided(low, high) else "better" if gain > 0 else "worse"
        cost = PAPER_TABLE[vit][COST] / PAPER_TABLE[bit][COST]
        rows.append([vit, task, f"{gain:+.2f}", from_to(low, high), result, f"{cost:.2f}"])
display(
    table(rows, ["compared with BiT-L", "task", "gain (points)", "95 % interval", "result", "times the cost"])
)
figure = plots.named_points(
    {name.split(" (Eff")[0]: (row[COST], row["ImageNet"][0]) for name, row in PAPER_TABLE.items()},
    "What does accuracy cost? (paper, Table 2)",
    "cost of pre-training (TPUv3-core-days)",
    "accuracy on ImageNet (%)",
)
plots.show(
    figure,
    "Five models, ImageNet accuracy over the cost. The ViTs are between 230 and 2,500 core-days at 85.3 to 88.6 percent, the two "
    "convolutional ones at about 10,000 and 12,000 at 87.5 and 88.4.",
)

# %% [markdown] always claim="[row[4] for row in rows] == ['better', 'no difference shown', 'no difference shown', 'worse', 'worse', 'no difference shown'] and 14 < PAPER_TABLE[bit][COST] / PAPER_TABLE['ViT-L/16, JFT'][COST] < 16"
# On ImageNet 0.22 points are a difference. On VTAB BiT-L has a standard deviation of 1.70 points, so with three runs
# even 3.57 points could be chance.
#
# ViT-L/16 on JFT is about as good as BiT-L, at a fifteenth of the cost. *This* is the paper's point. But the same
# ViT-L/16 with 14 million images is worse than BiT-L on ImageNet and CIFAR-10. There data and compute decide, and not
# the architecture.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# In an untrained ResNet with strides that multiply to 4, which shift leaves the averaged vector as it is, if nothing leaves the
# image?
#
# - [x] one by 8 pixels :: 8 is a multiple of 4, so the maps move along by two positions, and the average stays.
# - [ ] one by 6 pixels :: 6 is no multiple of 4, so the strided layers read other pixels.
# - [ ] any shift at all, because convolutions are equivariant :: Only those of stride 1 are, for every shift.

# %% [markdown] quiz
# A ViT is seven points below a ResNet. The ViT had 46 trials, the ResNet 12. What follows?
#
# - [ ] the ResNet is at least seven points better, since it had fewer trials :: Some of the 12 may have been lucky, and a good change may never have been tried on the ViT.
# - [x] the gap mixes the models with their searches :: Only a search of equal effort on both sides can separate the two.
# - [ ] nothing, because models need different settings :: Settings may differ. The *effort* must be equal.

# %% [markdown] quiz
# Three seeds give 91.2, 91.9 and 91.5 %, three of another model 91.4, 91.8 and 92.0 %. What do you report?
#
# - [x] both means, all seeds, and that three seeds do not show a difference :: The difference is 0.2 points, and its interval contains 0.
# - [ ] that the second model wins, since its best seed has 92.0 % and the other's only 91.9 % :: That compares the best seeds, as point g of the report did.
# - [ ] the mean of all six, because the two models are the same :: That throws the question away.

# %% [markdown] quiz
# You want to cut a search of 46 trials to the size of one with 12. Which ones do you keep?
#
# - [ ] the 12 best, because the others did not matter :: Then an accuracy decides, and 46 trials still stand behind the result.
# - [x] some of each part, by a rule that sees no accuracy :: Then what is left is what a search of this size would have made.
# - [ ] 12 at random from all parts of the recipe :: Better than the best 12, but the 12 may then be ten learning rates on one side and ten widths on the other.

# %% [markdown] quiz
# On 1 % of the data a ResNet leads by 6 points, on 100 % by 1 point. Will the ViT be ahead on ten times the data?
#
# - [x] these runs do not say :: A gap that closes may cross zero or level off. The paper measured it at its own scale.
# - [ ] yes, because the gap closes :: It has closed so far. Nothing says that it goes on.
# - [ ] no, because the ResNet has led at every size :: At every size that was tried.

# %% [markdown]
# ## Recap
#
# | where | ResNet-18, stem for 32 pixels | shape | ViT-Ti/4 | shape |
# |---|---|---|---|---|
# | image | | (B, 3, 32, 32) | | (B, 3, 32, 32) |
# | first layer | 3x3, stride 1 | (B, 64, 32, 32) | 4x4, stride 4 | (B, 64, 192) |
# | middle | stages of 2 blocks | (B, 128, 16, 16), (B, 256, 8, 8) | 12 blocks | (B, 65, 192) |
# | end | stage 4 | (B, 512, 4, 4) | final norm | (B, 65, 192) |
# | read-out | average over places | (B, 512) | CLS token | (B, 192) |
# | logits | head | (B, 10) | head | (B, 10) |
#
# - Fair means equal where possible, and shown where not. Data, effort, budget, choice, chance.
# - Two models compared are two searches compared. The list is written before the first trial.
# - Equivariant means that the result moves along, invariant that it stays.
# - An inductive bias helps when images are few. In the paper, data win at scale.
#
# ## Further reading
#
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), sections 4.2 to 4.4, Figures 2 to 5, Tables 2, 5 and 6.
# - He et al., *Deep Residual Learning for Image Recognition* (2016), section 4.2 for CIFAR-10.
# - Kolesnikov et al., *Big Transfer (BiT)* (2020).
# - Wightman et al., *ResNet strikes back* (2021), and Liu et al., *A ConvNet for the 2020s* (2022).
# - Xie et al., *Self-training with Noisy Student improves ImageNet classification* (2020).
# - Zhang, *Making Convolutional Networks Shift-Invariant Again* (2019), on why strides break the equivariance.
#
# **Next.** You know how often your ViT is right, and at what cost. Ask it *why* it calls an image a cat, and it has no answer. Its
# attention maps look like one, and they can mislead you. Lesson 09 tests them.
