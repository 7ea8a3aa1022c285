# ---
# title: "Bug clinic"
# promise: "Find fifteen bugs in a ViT that runs, and fix them."
# part: "III. Beyond"
# map: []
# goals:
#   - "Examine a model by measurements before you read a line of its code."
#   - "Fix bugs that were all found in public code, each from its symptom."
#   - "Say why most bugs raise no error, and why one bug can hide another."
#   - "Tell a bug from a convention."
#   - "Show that a fixed model equals one that is known to be right."
# recall:
#   "03.2": "A model has 64 patches, a CLS token and D = 192. You print the shape of its learned positions. What should it be?"
#   "04.1": "You sum a table of attention weights. The columns give 1, the rows do not. What is the cause?"
#   "09.3": "Attention rollout, two layers: A1 is the table of the first layer, A2 that of the second, each mixed with the identity. What is the result?"
# ---

# %% [markdown]
# ## 1. It runs and it learns. Is it right?
#
# A colleague sends you a small Vision Transformer. "It trains without an error, and the loss falls. But the accuracy is poor. Do
# I need a bigger model?" Look at the patient before you answer. Its code stays closed for now.
#
# The patient is made up, but its bugs are real. Each was found in a repository, a course or an explanation of the ViT that
# somebody had published. We name the mistakes, not their authors. The images are Shapes-10 with 16x16 pixels and P = 4, so there
# are N = 16 patches and K = 10 classes.

# %%
import math
import re
import textwrap
from dataclasses import replace

import torch
from einops import rearrange

from vit_classroom import check, plots, table
from vit_classroom.exhibits.clinic import bugs, healthy, measurements
from vit_classroom.exhibits.clinic.chart import my_parts, scoreboard, ward_book
from vit_classroom.exhibits.clinic.measurements import examine
from vit_classroom.exhibits.clinic.patient import Parts, Patient, train_patient
from vit_classroom.numbers import percent
from vit_classroom.profiles import get_profile
from vit_course.data import shapes10
from vit_course.training.device import get_device

profile = get_profile()
data = shapes10(
    train=profile.pick(smoke=256, cpu=4000, gpu=8000),
    test=profile.pick(smoke=200, cpu=1000, gpu=2000),
    image_size=16,
)
SIZES = {"img_size": 16, "patch_size": 4, "dim": 64, "depth": 2, "num_heads": 4}
epochs = profile.pick(smoke=1, cpu=12, gpu=15)


def admit(parts, seed=0):
    """Build an untrained patient of these parts; the same seed, the same first weights."""
    torch.manual_seed(seed)
    return Patient(parts, **SIZES)


def treat(parts, seed=0):
    """Train a new patient of these parts."""
    return train_patient(admit(parts, seed).to(get_device()), data, epochs, peak=3e-3, seed=seed)


# %% tags=["nbval-ignore-output"]
courses = {"as it came in": treat(bugs.PARTS)}
first = courses["as it came in"]
print(percent(first.accuracy), "of new images are right after", len(first.losses), "steps; guessing: 10 %")


# %% fold tags=["nbval-ignore-output"]
def smooth(losses, width=25):
    """Average the losses of neighbouring steps, so that a plot can be read."""
    width = min(width, 1 + len(losses) // 20)
    pieces = torch.tensor(losses).unfold(0, width, width).mean(dim=1)
    return [width * (i + 0.5) for i in range(len(pieces))], pieces.tolist()


level = ([0, len(first.losses)], [math.log(10)] * 2)
figure = plots.curves(
    {"training loss": smooth(first.losses), "ln 10": level}, "The patient in training", "step", "loss in nats"
)
plots.show(figure, "Training loss over the steps, beside a level line at ln 10, the loss of a guess.")

# %% [markdown] claim="first.accuracy < 0.4"
# The accuracy is poor, and the curve hardly says why. It could be a small model, a low learning rate, hard data or a bug. A bug in
# a neural network rarely raises an error. All shapes fit, gradients flow somewhere, and the rest of the network learns to live
# with the damage. So how do you find it?
#
# ## 2. What does a doctor do before surgery?
#
# A doctor measures, and knows what a healthy body shows. A good measurement has three properties.
#
# - It needs **no training**, so it takes a second.
# - Its healthy value is a **law**, which you know exactly *before* you measure.
# - It looks **from outside**. It asks what the code does, not how it is written.
#
# The first measurement is the loss at step 0. A model that knows nothing should give all K classes the same
# probability, and then the loss is $-\ln \tfrac{1}{K} = \ln K$, which is 2.303 nats for ten classes.
#
# > **Predict.** The next cell takes all seventeen measurements of this patient. How many of them will show a symptom?


# %%
def findings_table(findings, caption):
    """Show findings, one a row."""
    rows = [
        [
            f.question,
            textwrap.shorten(f.measured, 60, placeholder=" ..."),
            f.healthy,
            "" if f.ok else "symptom",
        ]
        for f in findings
    ]
    left = sum(not f.ok for f in findings)
    columns = ["measurement", "patient", "healthy", "result"]
    return table(rows, columns, f"{caption}: {left} of {len(rows)} show a symptom")


reference, findings = examine(admit(Parts())), examine(admit(bugs.PARTS))
print("symptoms of a healthy patient:", sum(not f.ok for f in reference))
findings_table(findings, "The patient as it came in")

# %% [markdown] claim="all(f.ok for f in reference) and not any(f.ok for f in findings)" always
# The healthy patient passes all of them, and this one fails all of them.
#
# > **Trap.** One bug can hide another. The loss at step 0 is wrong, but not by much. Now look at the scores, which sum to 1.
# > Someone has squeezed them, and behind the squeezing there may be a much larger error. So examine *again* after each repair.
#
# Eighteen lines of the patient differ from their docstrings. **Fifteen are bugs. Three are conventions**, where careful people
# choose either way and only the docstring says which way is meant. You fix seven lines in sections 3 and 4. The others are for the
# curious. The rules:
#
# 1. Read the symptoms of the part first. Say aloud what could cause them.
# 2. *Then* read your colleague's code in the cell, and fix it in place. The docstring is right, the code is not.
# 3. Run the cell. The check names the symptoms that are left. It never names the line.
#
# ## 3. Do both ends of the model begin without an opinion?
#
# `draw_weights` gives all weights their first values. `classify` reads the CLS token at the end (paper, equation 4):
#
# $$y = \mathrm{LN}(z_L^0), \qquad \text{logits} = y\,W + b$$
#
# $z_L^0$ is the CLS token after the last of L blocks, (D,), and W is (D, K). We examine each function alone, in a patient that is
# healthy elsewhere.


# %%
def report(*names):
    """Examine your version of each of these functions by itself, in a patient that is healthy elsewhere."""
    mine = my_parts()
    found = [f for name in names for f in examine(admit(Parts(**{name: getattr(mine, name)})), name)]
    return findings_table(found, " and ".join(names))


report("draw_weights", "classify")

# %% [markdown]
# Here `draw_weights` is examined with a healthy `classify`, which applies no softmax, so the loss at step 0 is higher
# than in section 2.
#
# Two questions lead to the bugs. Where would an opinion at step 0 come from? And what does cross-entropy do with the scores
# *before* it takes the logarithm? If the model has done this already, its best scores are 1 and nine times 0, and the loss can
# never fall below $-\ln\frac{e}{e + 9}$, which is 1.46 nats.
#
# The size of the positions is a convention. `nn.Embedding` starts with deviation 1, the authors' code and our docstring with 0.02.
#
# **Your task.** Fix both functions. There are three bugs and one convention.

# %% exercise="vit_classroom.exhibits.clinic.healthy:draw_weights, vit_classroom.exhibits.clinic.healthy:classify" starter="vit_classroom.exhibits.clinic.bugs:draw_weights, vit_classroom.exhibits.clinic.bugs:classify" difficulty=1 minutes=9 hint="Compare every line of `draw_weights` with the docstring, number by number. What is the default deviation of `nn.init.normal_`? In `classify`, compare the code with the equation above." hint2="In `draw_weights` two parameters get other first values than the docstring says, one near the entrance and one at the very end. In `classify` one layer of the model is never used, and one function is applied that the loss applies as well."
from vit_classroom.exhibits.clinic.healthy import classify, draw_weights

draw_weights = check(draw_weights)
classify = check(classify)

# %% [markdown]
# Both ends now begin without an opinion. No symptom is left there, whatever the middle does.
#
# ## 4. Who listens to whom?
#
# Attention is (paper, equations 6 and 7)
#
# $$A = \mathrm{softmax}\!\left(\frac{q k^\top}{\sqrt{d}}\right), \qquad \mathrm{SA}(z) = A\,v$$
#
# with q, k and v (T, d) for each head, d = D/h, and A (T, T). Three laws hold for any data. Every *row* of A sums to 1. The
# scores have the spread that $1/\sqrt{d}$ gives them. And attention knows no order, so shuffled tokens give the same results,
# shuffled.
#
# > **Predict.** We add up the row of each query. What will the figure show for a healthy attention?

# %%
torch.manual_seed(0)
examined = admit(Parts())
tokens, block = measurements.tokens_of(examined, 1), measurements.alert_block(examined)
with torch.no_grad():
    spent = {
        name: part(tokens, block)[1][0, 0].sum(dim=1)  # of one head
        for name, part in (("healthy", healthy.attend), ("patient", bugs.attend))
    }

# %% fold
queries = list(range(17))
figure = plots.curves(
    {name: (queries, sums.tolist()) for name, sums in spent.items()},
    "How much attention does each query spend?",
    "query, 0 is CLS",
    "sum of its weights",
)
for line in figure.axes[0].lines:
    line.set_marker("o")
figure.axes[0].set_ylim(0.5, 1.5)
plots.show(
    figure,
    "The sum of the weights of 17 queries. For the healthy attention it is 1 for each. For the patient it is "
    "above 1 for some and below 1 for others.",
)

# %% [markdown] claim="all(((sums - 1).abs().max() < 1e-4) == (name == 'healthy') for name, sums in spent.items()) and spent['patient'].max() > 1.3 * spent['patient'].min()" always
# A healthy query spends exactly 1. In the patient some queries spend too much and others too little. This shows one of
# three bugs.

# %%
report("attend")

# %% [markdown]
# **Your task.** Fix `attend`. There are three bugs. The third hides best, because every shape is right and no row of A
# is wrong. Only the shuffle test sees it.

# %% exercise="vit_classroom.exhibits.clinic.healthy:attend" starter="vit_classroom.exhibits.clinic.bugs:attend" difficulty=2 minutes=10 hint="Which width belongs under the root, D or d? Which axis of (B, h, T, T) counts the keys? And does `reshape` undo the `rearrange` at the top?" hint2="The first two bugs are one name and one number. For the third, write down the axes of `heads` before and after. Before two axes can become one, they must be next to each other, and in the right order."
from vit_classroom.exhibits.clinic.healthy import attend

attend = check(attend)

# %% [markdown]
# Each symptom led to one line, and none of the three lines raised an error.
#
# ## 5. When does a bug raise an error?
#
# Here are three more lines from public code. The first two add positions to tokens (B, 17, 64), from a table that is an
# `nn.Embedding`. The third divides scores (B, T, T) by the root of d = 64.
#
# | line | what is wrong |
# |---|---|
# | `positions(torch.arange(17.0))` | 17.0 makes floats, and an index is a whole number |
# | `positions(torch.arange(17).repeat(B))` | B·17 indices in one row, where 17 would do |
# | `scores / torch.Tensor(64) ** 0.5` | `torch.Tensor(64)` is not the number 64, but 64 numbers that nobody has set |
#
# > **Predict.** Each line is tried on two inputs. Where will you get an error, where wrong numbers, and where is the line right?

# %%
positions = torch.nn.Embedding(17, 64)
one, two = torch.randn(1, 17, 64), torch.randn(2, 17, 64)
as_wide, narrower = torch.randn(2, 64, 64), torch.randn(2, 17, 17)  # scores of 64 and of 17 tokens


def add_positions(x):
    return x + positions(torch.arange(17))


tried = {
    "float indices": (lambda x: x + positions(torch.arange(17.0)), add_positions, one, two),
    "repeat(B)": (lambda x: x + positions(torch.arange(17).repeat(len(x))), add_positions, one, two),
    "torch.Tensor(64)": (lambda x: x / torch.Tensor(64) ** 0.5, lambda x: x / 64**0.5, as_wide, narrower),
}


def outcome(line, right, x):
    """Say what becomes of one input."""
    try:
        return "right" if torch.allclose(line(x), right(x)) else "wrong numbers"
    except (RuntimeError, IndexError):
        return "error"


rows = [[name, *(outcome(line, right, x) for x in inputs)] for name, (line, right, *inputs) in tried.items()]
table(rows, ["line", "B = 1, or 64 tokens", "B = 2, or 17 tokens"])

# %% [markdown] claim="[row[1:] for row in rows] == [['error', 'error'], ['right', 'error'], ['wrong numbers', 'error']]" always
# All three raise an error, but two of them only on the second input. The line with `repeat(B)` is right for one image.
# The line with `torch.Tensor(64)` runs if there happen to be 64 tokens, and divides by whatever was in the memory.
#
# > **Key idea.** A bug that raises an error is a lucky one. So try every function on two sizes in which all axes differ.

# %% [markdown] curious
# ## 6. Does a token see its patch?
#
# The entrance is equation 1 of the paper:
#
# $$z_0 = [x_{class};\; x_p^1 E;\; \ldots;\; x_p^N E] + E_{pos}$$
#
# $x_p^i$ is patch i as a row of P²·C numbers, $x_{class}$ is the learned CLS token, (D,), and $E_{pos}$ is (N + 1, D). So token 0
# is no patch, and token i depends on patch i alone. You can see it, because autograd knows which pixels a token depends on.


# %%
def pixels_of(embed, token):
    """Return, for each pixel, whether one token depends on it: (H, W)."""
    examined = admit(replace(Parts(), embed_patches=embed))
    images = torch.zeros(1, *examined.image_shape, requires_grad=True)
    embed(images, examined)[0, token].square().sum().backward()
    gradient = images.grad if images.grad is not None else torch.zeros_like(images)
    return (gradient[0].abs().sum(dim=0) > 0).float()


maps = {
    "healthy, token 0 (CLS)": pixels_of(healthy.embed_patches, 0),
    "healthy, token 6": pixels_of(healthy.embed_patches, 6),
    "patient, token 6": pixels_of(bugs.embed_patches, 6),
}

# %% fold
figure = plots.heat_maps(
    list(maps.values()),
    list(maps),
    "Which pixels does a token depend on?",
    "1: depends on it",
    xlabel="column in pixels",
    ylabel="row in pixels",
)
plots.show(
    figure,
    "Three maps of 16 by 16 pixels. Healthy: token 0 depends on no pixel, token 6 on one square of 4 by 4. Patient: token 6 "
    "depends on rows that run across the whole image.",
)

# %% [markdown] claim="maps['healthy, token 6'].sum() == 16 and maps['healthy, token 0 (CLS)'].sum() == 0 and (maps['patient, token 6'].amin(1) == maps['patient, token 6'].amax(1)).all()" always
# A healthy token depends on one square patch, or, if it is CLS, on no pixel at all. The patient's token reads whole rows. What else
# is broken?

# %%
report("embed_patches")

# %% [markdown]
# **Your task.** Fix `embed_patches`. There are four bugs.

# %% exercise="vit_classroom.exhibits.clinic.healthy:embed_patches" starter="vit_classroom.exhibits.clinic.bugs:embed_patches" difficulty=2 minutes=11 hint="Four lines, four bugs: how the image is cut, where the CLS token comes from, where it goes, and which image gets which positions. Lesson 01 showed what `reshape` does to an image. For the last one write down `torch.arange(3).repeat_interleave(2)`." hint2="Your `patchify` of lesson 01 had the cut in one line. A tensor of zeros is nobody's parameter, so where does the model keep its CLS token? And the positions have a first axis of 1, which PyTorch stretches over the batch by itself."
from vit_classroom.exhibits.clinic.healthy import embed_patches

embed_patches = check(embed_patches)

# %% [markdown] curious
# ## 7. Does anything flow through the block?
#
# A block adds two branches to the residual stream z, (B, T, D) (paper, equations 2 and 3):
#
# $$z' = z + \mathrm{MSA}(\mathrm{LN}(z)), \qquad z'' = z' + \mathrm{MLP}(\mathrm{LN}(z'))$$
#
# MSA is `attend`. The two LN are two layers, each with weights of its own. A branch only adds, so if both branches are silent, z
# passes unchanged. And an image has the same result whatever else is in the batch.
#
# > **Predict.** PyTorch's own `nn.MultiheadAttention` expects (T, B, D) unless you say `batch_first=True`. What happens if somebody
# > applies this rule to an `attend` that wants (B, T, D)? Which measurement will notice?

# %%
report("encode_block")

# %% [markdown]
# **Your task.** Fix `encode_block`. There are three bugs.

# %% exercise="vit_classroom.exhibits.clinic.healthy:encode_block" starter="vit_classroom.exhibits.clinic.bugs:encode_block" difficulty=2 minutes=9 hint="`attend` wants (B, T, D), as its docstring says. What does it mix if the first two axes are swapped? Which of the two, `tokens` or `normed`, is z in the equation? And which weights does no gradient reach?" hint2="Write both equations with the names of the code. Each name on the left is a sum of the stream and one branch. Each branch has a norm of its own, and the batch stays in front all the way."
from vit_classroom.exhibits.clinic.healthy import encode_block

encode_block = check(encode_block)

# %% [markdown] curious
# ## 8. Which differences are no bugs?
#
# Two functions feed the optimiser. `schedule` gives the learning rate of a step s, and `decay_groups` says which weights decay.
# Each differs from its docstring in one line, and **neither line is a bug**. They are conventions:
#
# - Many libraries begin the warm-up with a rate of 0 at step 0. Ours begins one step higher.
# - Some code lets every parameter with two axes or more decay. timm, and our docstring, leave CLS token and positions out.

# %% fold
warm = list(range(30))
figure = plots.curves(
    {
        name: (warm, [part(step, 100, 10, 1.0) for step in warm])
        for name, part in (("healthy", healthy.schedule), ("patient", bugs.schedule))
    },
    "Two schedules with 10 steps of warm-up",
    "step, the first 30 of 100",
    "learning rate / peak",
)
plots.show(
    figure,
    "Two schedules with 10 steps of warm-up: that of the patient starts lower and is lower during the rise.",
)

# %%
report("schedule", "decay_groups")

# %% [markdown]
# One step at rate 0 costs nothing that you could measure. Where the rate is set once an *epoch*, the same line costs
# a whole epoch. A convention still matters when you compare, because a paper's numbers hold only under that paper's
# conventions.
#
# **Your task.** Bring both in line with their docstrings, one line each.

# %% exercise="vit_classroom.exhibits.clinic.healthy:schedule, vit_classroom.exhibits.clinic.healthy:decay_groups" starter="vit_classroom.exhibits.clinic.bugs:schedule, vit_classroom.exhibits.clinic.bugs:decay_groups" difficulty=1 minutes=8 hint="In which step should the rate reach the peak, if the first has number 0? How many axes have `cls_token` and `pos_embed`, and are they matrices?" hint2="The formula of the docstring counts s + 1 during the rise. For the decay, a matrix has exactly two axes, and the names of the parameters say which belong to a layer."
from vit_classroom.exhibits.clinic.healthy import decay_groups, schedule

schedule = check(schedule)
decay_groups = check(decay_groups)

# %% [markdown] curious
# ## 9. Can you trust the data and the number at the end?
#
# `blend` is MixUp (lesson 07), and `score` measures the accuracy. Test `blend` with images that show their own class, because then
# the image itself tells you what the target should be. And test `score` by asking twice.

# %%
report("blend", "score")

# %% [markdown]
# A broken thermometer is the worst bug, because every other experiment then lies. Test it first when numbers surprise you.
#
# **Your task.** Fix both. There is one bug in each.

# %% exercise="vit_classroom.exhibits.clinic.healthy:blend, vit_classroom.exhibits.clinic.healthy:score" starter="vit_classroom.exhibits.clinic.bugs:blend, vit_classroom.exhibits.clinic.bugs:score" difficulty=1 minutes=8 hint="How often is a random order drawn in `blend`, and how often should it be? What does dropout do in `score`, in a model that nobody has told that the training is over?" hint2="An image and its target need the same partner. And a model has two modes (lesson 06), of which only one is for measuring."
from vit_classroom.exhibits.clinic.healthy import blend, score

blend = check(blend)
score = check(score)

# %% [markdown]
# ## 10. Can the patient go home?
#
# The scoreboard counts the lines that you have fixed (●). Then comes the whole examination, of a patient made of your functions.
# Where you left a starred section out, the function is a healthy one.

# %% tags=["nbval-ignore-output"]
fixed, total = scoreboard()
mine = my_parts(others=Parts())
left = [str(f) for f in examine(admit(mine)) if not f.ok]
print(f"symptoms that are left: {len(left)}", *left, sep="\n")

# %% [markdown]
# Now we repair the patient part by part, in five steps, and train it anew each time, with the same seed. The healthy `score`
# measures all accuracies, so they can be compared.
#
# > **Predict.** Five repairs. Does the accuracy rise evenly? Which repair gives the largest step?

# %% tags=["nbval-ignore-output"]
repairs = {
    "+ both ends": ["draw_weights", "classify"],
    "+ entrance": ["embed_patches"],
    "+ attention": ["attend"],
    "+ block": ["encode_block"],
    "+ training: all healthy": ["schedule", "decay_groups", "blend", "score"],
}
parts, rows = bugs.PARTS, [["as it came in", percent(first.accuracy), ""]]
for name, names in repairs.items():
    parts = replace(parts, **{function: getattr(healthy, function) for function in names})
    before, courses[name] = list(courses.values())[-1], treat(parts)
    gain = 100 * (courses[name].accuracy - before.accuracy)
    rows.append([name, percent(courses[name].accuracy), f"{gain:+.1f}"])
table(rows, ["repaired", "test accuracy", "points gained"])

# %% [markdown] claim=["courses['+ attention'].accuracy < 0.3 and courses['+ training: all healthy'].accuracy > 0.6", "abs(courses['+ entrance'].accuracy - 0.1) < 0.03"]
# The first three repairs help little or do harm, and the last two bring nearly everything.
#
# Were the first three useless? No. One bug further on blocks the way. It is attention over the batch in `encode_block`,
# so CLS never reads a patch of its own image. While that bug is there, fixing another one helps *little*. So "I changed
# it and the accuracy did not move" does not mean that the line was right before.
#
# After the second repair the accuracy is that of a guess. Before it, CLS was the last token, and the head read a patch. Now the
# head reads CLS, which does not know the image yet.
#
# And *your* patient?

# %% tags=["nbval-ignore-output"]
courses["yours"] = treat(mine)
print(f"you fixed {fixed} of {total} lines; your patient: {percent(courses['yours'].accuracy)} right")

# %% fold tags=["nbval-ignore-output"]
shown = {"healthy": "+ training: all healthy", "yours": "yours", "as it came in": "as it came in"}
figure = plots.curves(
    {name: smooth(courses[key].losses) for name, key in shown.items()},
    "Three patients in training",
    "step",
    "training loss in nats",
)
plots.show(
    figure,
    "Three curves of training losses: the healthy patient, yours (dashed, on the healthy one if all is fixed), and the "
    "patient as it came in.",
)

# %% [markdown]
# The last proof needs no training. A fixed model should not only *be good*. It should **equal** one that is known to be right. So
# draw all weights anew, copy them into the `VisionTransformer` of lesson 06, and compare the logits in evaluation mode. (With a
# head of zeros all logits would be 0, and nearly every bug would hide.)

# %%
from vit_course.vit import VisionTransformer

fixed_patient = admit(mine).eval()
for weights in fixed_patient.parameters():
    torch.nn.init.normal_(weights, std=0.2)
twin = VisionTransformer(
    16, 4, embed_dim=SIZES["dim"], depth=SIZES["depth"], num_heads=SIZES["num_heads"]
).eval()
values = {
    re.sub(r"(blocks\.\d+\.)(qkv|proj)", r"\1attn.\2", name).replace("project", "patch_embed.proj"): value
    for name, value in fixed_patient.state_dict().items()
}
kernel = values["patch_embed.proj.weight"]
values["patch_embed.proj.weight"] = rearrange(kernel, "d (p1 p2 c) -> d c p1 p2", p1=4, p2=4)
twin.load_state_dict(values)
with torch.no_grad():
    images = measurements.pictures(fixed_patient, 8)
    gap = (fixed_patient(images) - twin(images)).abs().max().item()
print("your patient equals the model of lesson 06:", gap < 1e-4)

# %% [markdown] claim="gap < 1e-4" always
# They agree, so the patient can go home.
#
# > **Key idea.** Equality with a trusted twin, at random weights, shows at once that the forward pass is right. The
# > twin may be a library, a paper's weights, or your own old version. Equality finds no bug of the training, and it
# > does not say *which* line is wrong. For that you need the measurements.
#
# The next table shows the bugs of each function as soon as you have fixed it.

# %%
table(ward_book(), ["function", "difference", "kind", "the patient's line", "the healthy line"])

# %% [markdown] curious
# ## 11. Your project: a bug for a friend's clinic
#
# Plant *one* bug of your own in a healthy patient, so that a friend can find it. Here are ideas from published code: an image that
# is resized where the positions should be, `MSA(LN(z) + z)`, a scheduler that is never stepped, labels that are shuffled without
# their images.
#
# 1. Write the bug as data, the healthy line and the sick one in its place.
# 2. Make sure that it raises no error, and measure what it costs, with three seeds.
# 3. Write the measurement that finds it in a second, without training. Try it on the healthy and on the sick function.
# 4. Give your friend the *name* of the measurement and the sick function, no more.
#    `bugs.planted_source(my_bug.function, [my_bug])` is its text.
# 5. Swap. Who needs fewer questions?
#
# The next cell does steps 1 and 2 for a bug that you know. Put yours in its place.

# %% tags=["nbval-ignore-output"]
from vit_classroom.evidence.statistics import difference_in_words

my_bug = bugs.Bug(
    name="attention over the batch",
    function="encode_block",
    healthy="attended, _ = attend(normed, block)",
    sick="attended = attend(normed.transpose(0, 1), block)[0].transpose(0, 1)",
    measurement="alone_and_in_company",
)
sick = Parts(**{my_bug.function: bugs.planted(my_bug.function, [my_bug])})
seeds = range(profile.pick(smoke=1, cpu=3, gpu=3))
accuracies = {
    name: [100 * treat(parts, seed).accuracy for seed in seeds]
    for name, parts in (("sick", sick), ("healthy", Parts()))
}
print(difference_in_words("sick", accuracies["sick"], "healthy", accuracies["healthy"]))

# %% [markdown] claim="max(accuracies['sick']) < 20 and min(accuracies['healthy']) > 2 * max(accuracies['sick'])"
# This bug costs more than half of the accuracy. Few bugs are so loud. Plant `/ tokens.shape[-1] ** 0.5` in `attend`
# instead. Can three seeds show what it costs? `spread_of_scores` finds it in a second.
#
# | what counts | points |
# |---|---|
# | The bug is one line, raises no error, and somebody could really write it. Say where you met it, or why. | 0 to 3 |
# | Its cost is measured with three seeds, and the difference has its interval. | 0 to 3 |
# | The law holds exactly, is known before it is measured, and takes no training. It finds this bug in every seed, and nothing in a healthy patient. | 0 to 4 |
# | Your friend found it from the symptom, before reading the code. | 0 to 2 |
# | Half a page says which of the fifteen bugs yours resembles, and what would have prevented it. | 0 to 3 |
#
# A bug that costs nothing can earn all 15 points, because it is the hardest to find.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# A head starts at zero. The loss at step 0 is 2.31 where ln K = 2.30. What do you do?
#
# - [ ] nothing, because it is close enough for a model that is not trained :: An exact law that holds "nearly" is broken, and another bug may hide how badly.
# - [x] find out why it is not equal in all digits :: With a head of zeros it must be equal. An exact law that holds nearly is broken.
# - [ ] lower the learning rate :: No step was taken yet, so the rate plays no part.

# %% [markdown] quiz
# The logits of an image change when you put other images into the batch, in evaluation mode. What can it be?
#
# - [ ] dropout that is still on :: Dropout would change the result of the *same* batch too.
# - [x] attention over the batch :: Something mixes images. Nothing in a ViT should.
# - [ ] a patch size that does not fit :: It changes what a token sees, but every image is cut by itself.

# %% [markdown] quiz
# `cls_token.grad` is None after a backward pass. Why?
#
# - [x] it is not part of the computation :: None means that no path leads from the loss to it.
# - [ ] its gradient is too small to be stored :: A small gradient is a tensor of small numbers, not None.
# - [ ] it is initialised with zeros :: A *parameter* of zeros gets gradients like any other.

# %% [markdown] quiz
# A published ViT says `assert image_size % patch_size != 0, "must be divisible"`. What happens?
#
# - [ ] nothing, because an assert is only a comment for readers :: It runs, unless Python is started with -O.
# - [ ] wrong sizes are rejected, and right ones pass :: The condition is reversed. Read it aloud.
# - [x] every size that fits is rejected :: And sizes that leave a remainder go through. Test a guard with one case on each side.

# %% [markdown] quiz
# You fix a bug, and the accuracy stays the same. What now?
#
# - [ ] put the old line back, because it was no bug after all :: That judges a law by one noisy number.
# - [x] keep the repair and go on examining :: Another bug may still block the way, or the cost is below the noise.
# - [ ] train for longer until it shows :: Time does not open a way that another bug blocks.

# %% [markdown]
# ## Recap
#
# - Measure before you read. Read before you change. Change one thing, and measure again.
# - Prefer values that you know exactly, such as ln K, rows that sum to 1, or an equal twin, to curves that look good.
# - Bugs hide each other. "No effect" proves nothing.
# - Try every function on two sizes, because a bug that raises an error is a lucky one.
#
# ## Further reading
#
# - Karpathy, *A Recipe for Training Neural Networks* (2019): the same spirit, with more habits.
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), section 3.1 and appendix B.1: what the patient should be.
# - Sculley et al., *Hidden Technical Debt in Machine Learning Systems* (2015): why such bugs live long.
#
# **Next.** The healthy patient is the ViT of 2021, and even a healthy one breaks. Train it at sixteen times its
# learning rate, and it collapses. Lesson 15 adds the part with which current models survive it.
