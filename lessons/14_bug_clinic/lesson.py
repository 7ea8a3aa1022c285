# ---
# title: "Bug clinic"
# promise: "Find fifteen bugs in a ViT that runs, and fix them."
# part: "III. Beyond"
# map: []
# goals:
#   - "Examine a model by measurements before you read a line of its code."
#   - "Say which bug makes which symptom, and why most bugs raise no error."
#   - "Mend bugs that were all met in public code, each from its symptom, and tell a bug from a convention."
#   - "Show that a mended model equals one that is known to be right."
# recall: ["03.2", "04.1", "09.3"]
# ---

# %% [markdown]
# ## 1. It runs and it learns. Is it right?
#
# A colleague sends you a small Vision Transformer. "It trains without an error and the loss falls. But the accuracy is poor. Do I
# need a bigger model?" Look at the patient before you answer. Its code stays closed for now.
#
# The patient is made up; its bugs are real. Each was found in a repository, a course, or an explanation of the ViT that somebody
# had published. We name the mistakes, not their authors. The pictures are Shapes-10 with 16x16 pixels, P = 4, so N = 16 patches,
# and K = 10 classes.

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
from vit_classroom.numbers import number, percent
from vit_course.data import shapes10
from vit_course.training.device import get_device
from vit_course.training.profiles import get_profile

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


patient = admit(bugs.PARTS)
print("parameters:", number(sum(p.numel() for p in patient.parameters())))
print("pictures:", data.provenance)

# %% tags=["nbval-ignore-output"]
courses = {"as it came in": treat(bugs.PARTS)}
first = courses["as it came in"]
print(percent(first.accuracy), "of new pictures are right after", len(first.losses), "steps; guessing: 10 %")


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
# The accuracy is poor, and the curve alone hardly says why: a small model, a low learning rate, hard data, or a bug? (Look at its
# first point all the same.) A bug in a neural network rarely raises an error. All shapes fit, gradients flow somewhere, and the
# rest of the network learns to live with the damage.
#
# ## 2. What does a doctor do before surgery?
#
# A doctor measures, and knows what a healthy body shows. A good measurement needs **no training**, so it takes a second. Its
# healthy value is a **law**: you know it exactly, *before* you measure. And it looks **from outside**: it asks what the code
# does, not how it is written.
#
# The first on the list is the loss at step 0. A model that knows nothing should give all K classes the same probability. Then the
# loss is
#
# $$-\ln \frac{1}{K} = \ln K$$
#
# which is 2.303 nats for ten classes. Each measurement is one small function of `vit_classroom.exhibits.clinic.measurements`.
#
# > **Predict.** The next table takes all measurements, of a healthy patient and of this one. How many of them will show a symptom?


# %%
def symptom(finding):
    """Mark what is not as it should be."""
    return "" if finding.ok else "symptom"


def findings_table(findings, caption):
    """Show findings, one a row."""
    rows = [
        [f.question, textwrap.shorten(f.measured, 60, placeholder=" ..."), f.healthy, symptom(f)]
        for f in findings
    ]
    left = sum(not f.ok for f in findings)
    return table(
        rows, ["measurement", "patient", "healthy", ""], f"{caption}: {left} of {len(rows)} show a symptom"
    )


reference, findings = examine(admit(Parts())), examine(patient)
print("symptoms of a healthy patient:", sum(not f.ok for f in reference))
findings_table(findings, "The patient as it came in")

# %% [markdown] claim="all(f.ok for f in reference) and not any(f.ok for f in findings)" always
# The healthy patient passes all of them, this one fails all of them.
#
# > **Trap.** One bug can hide another. The loss at step 0 is wrong, but not by much. Now look at the scores: they sum to 1. Someone
# > has squeezed them, and behind the squeezing there may be a much larger error. So examine *again* after each repair.
#
# Eighteen lines of the patient differ from their docstrings. **Fifteen are bugs. Three are conventions**: careful people choose
# either way, and only the docstring says which way is meant here. We say which ones they are. You mend ten bugs and one convention
# in sections 3 to 5; the rest is for the curious. The rules:
#
# 1. Read the symptoms of the part first. Say aloud what could cause them. One bug can have several symptoms, and one symptom several
#    causes.
# 2. *Then* read your colleague's code in the cell, and mend it in place. The docstring is right, the code is not.
# 3. Run the cell. The check names the symptoms that are left. It never names the line.
#
# ## 3. Do both ends of the model begin without an opinion?
#
# `draw_weights` gives all weights their first values. `classify` reads the CLS token at the end (paper, equation 4):
#
# $$y = \mathrm{LN}(z_L^0), \qquad \text{logits} = y\,W + b$$
#
# $z_L^0$ is the CLS token after the last of L blocks, (D,); y is (D,); W is (D, K) and b is (K,).


# %%
def report(*names):
    """Examine your version of each of these functions by itself, in a patient that is healthy elsewhere."""
    mine = my_parts()
    found = [f for name in names for f in examine(admit(Parts(**{name: getattr(mine, name)})), name)]
    return findings_table(found, " and ".join(names))


report("draw_weights", "classify")

# %% [markdown]
# (Each function is examined alone: without the softmax of the other the loss at step 0 is higher than in section 2.)
#
# Two questions lead to the bugs. Where would an opinion at step 0 come from? And what does cross-entropy do with the scores
# *before* it takes the logarithm? If the model has done this already, the best scores it can give are 1 and nine times 0, and the
# loss can never fall below $-\ln\frac{e}{e + K - 1}$, 1.46 nats for ten classes.
#
# The size of the positions is a convention: `nn.Embedding` starts with deviation 1, the authors' code and our docstring with .02.
#
# **Your task.** Mend both functions: three bugs and one convention.

# %% exercise="vit_classroom.exhibits.clinic.healthy:draw_weights, vit_classroom.exhibits.clinic.healthy:classify" starter="vit_classroom.exhibits.clinic.bugs:draw_weights, vit_classroom.exhibits.clinic.bugs:classify" difficulty=1 minutes=9 hint="Compare every line of `draw_weights` with the docstring, number by number. What is the default deviation of `nn.init.normal_`? In `classify`, hold the code beside the equation above." hint2="Positions: `std=0.02`. The head: `nn.init.zeros_`. `classify` needs `model.norm` around the token, and `F.cross_entropy` wants the scores as they are, without a softmax."
from vit_classroom.exhibits.clinic.healthy import classify, draw_weights

draw_weights = check(draw_weights)
classify = check(classify)

# %%
report("draw_weights", "classify")

# %% [markdown]
# ## 4. Does a token see its patch?
#
# The entrance is equation 1 of the paper:
#
# $$z_0 = [x_{class};\; x_p^1 E;\; \ldots;\; x_p^N E] + E_{pos}$$
#
# $x_p^i$ is patch i as a row of P²·C numbers, E is (P²·C, D), $x_{class}$ is the learned CLS token, (D,), and $E_{pos}$ is (N +
# 1, D). So token 0 is no patch, and token i depends on patch i alone. You can see it: ask autograd which pixels a token depends
# on.


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
    "depends on rows that run across the whole picture.",
)

# %% [markdown] claim="maps['healthy, token 6'].sum() == 16 and maps['healthy, token 0 (CLS)'].sum() == 0 and (maps['patient, token 6'].amin(1) == maps['patient, token 6'].amax(1)).all()" always
# A healthy token depends on one square patch, or (CLS) on no pixel at all. The patient's token reads whole rows. What else is
# broken?

# %%
report("embed_patches")

# %% [markdown]
# **Your task.** Mend `embed_patches`. Four bugs.

# %% exercise="vit_classroom.exhibits.clinic.healthy:embed_patches" starter="vit_classroom.exhibits.clinic.bugs:embed_patches" difficulty=2 minutes=11 hint="Four lines, four bugs: how the picture is cut, where the CLS token comes from, where it goes, and which picture gets which positions. Lesson 01 showed what `reshape` does to a picture. For the last one write down `torch.arange(3).repeat_interleave(2)`." hint2="Cut with `rearrange(images, 'b c (h p1) (w p2) -> b (h w) (p1 p2 c)', p1=p, p2=p)`. Take `model.cls_token.expand(len(images), -1, -1)`: a tensor of zeros is nobody's parameter. Put it *first* in `torch.cat`. Add `model.pos_embed` as it is: its first axis is 1, so every picture gets all of it."
from vit_classroom.exhibits.clinic.healthy import embed_patches

embed_patches = check(embed_patches)

# %%
report("embed_patches")

# %% [markdown]
# ## 5. Who listens to whom?
#
# Attention is (paper, equations 6 and 7)
#
# $$A = \mathrm{softmax}\!\left(\frac{q k^\top}{\sqrt{d}}\right), \qquad \mathrm{SA}(z) = A\,v$$
#
# with q, k and v (T, d) for each head, d = D/h, and A (T, T). Three things are known without any data. Every *row* of A sums to 1. The scores have the
# spread that $1/\sqrt{d}$ gives them. And attention knows no order: shuffle the tokens, and the results are the same, shuffled.

# %%
torch.manual_seed(0)
examined = admit(Parts())
tokens, block = measurements.tokens_of(examined, 1), measurements.alert_block(examined)
with torch.no_grad():
    weights = {
        name: part(tokens, block)[1][0, 0]
        for name, part in (("healthy", healthy.attend), ("patient", bugs.attend))
    }
for name, A in weights.items():
    print(f"{name}: rows sum to {number(A.sum(1).min().item())} ... {number(A.sum(1).max().item())}")

# %% fold
figure = plots.heat_maps(
    list(weights.values()),
    list(weights),
    "Attention weights of one head",
    "attention weight",
    xlabel="key",
    ylabel="query",
)
plots.show(
    figure,
    "Two tables of 17 by 17 attention weights. The healthy one has single bright cells, and rows that sum to 1. That of the "
    "patient is flatter, and its rows have different sums.",
)

# %%
report("attend")

# %% [markdown] claim="all(((A.sum(1) - 1).abs().max() < 1e-4) == (name == 'healthy') for name, A in weights.items())" always
# The patient's rows do not sum to 1. That is one of three bugs.
#
# **Your task.** Mend `attend`. Three bugs. The third one hides best: its shape is right, and no row of A is wrong. Only the
# shuffle test sees it.

# %% exercise="vit_classroom.exhibits.clinic.healthy:attend" starter="vit_classroom.exhibits.clinic.bugs:attend" difficulty=2 minutes=10 hint="Which width belongs under the root, D or d? Which axis of (B, h, T, T) counts the keys? And is `reshape` the inverse of the `rearrange` at the top?" hint2="`/ q.shape[-1] ** 0.5`, `softmax(dim=-1)`, and `rearrange(heads, 'b h t d -> b t (h d)')`: the axis of the heads must move after that of the tokens before the two last axes are merged."
from vit_classroom.exhibits.clinic.healthy import attend

attend = check(attend)

# %%
report("attend")

# %% [markdown] curious
# ## 6. Does anything flow through the block?
#
# A block adds two branches to the residual stream z, (B, T, D) (paper, equations 2 and 3):
#
# $$z' = z + \mathrm{MSA}(\mathrm{LN}(z)), \qquad z'' = z' + \mathrm{MLP}(\mathrm{LN}(z'))$$
#
# MSA is `attend`. The two LN are two layers, each with weights of its own. A branch only adds: if both branches are silent, z
# passes unchanged. And a picture has the same result whatever else is in the batch.
#
# > **Predict.** PyTorch's own `nn.MultiheadAttention` expects (T, B, D) unless you say `batch_first=True`. What happens if somebody
# > applies this rule to an `attend` that wants (B, T, D)? Which measurement will notice?

# %%
report("encode_block")

# %% [markdown]
# **Your task.** Mend `encode_block`. Three bugs.

# %% exercise="vit_classroom.exhibits.clinic.healthy:encode_block" starter="vit_classroom.exhibits.clinic.bugs:encode_block" difficulty=2 minutes=9 hint="`attend` wants (B, T, D): see its docstring above. What does it mix if the first two axes are swapped? Which of the two, `tokens` or `normed`, is z in the equation? And which weights does no gradient reach?" hint2="`attended, _ = attend(normed, block)` without any `transpose`, then `tokens = tokens + attended`, and `block.norm2` in front of the MLP."
from vit_classroom.exhibits.clinic.healthy import encode_block

encode_block = check(encode_block)

# %%
report("encode_block")

# %% [markdown] curious
# ## 7. Which differences are no bugs?
#
# Two functions feed the optimiser. `schedule` gives the learning rate of a step s, `decay_groups` says which weights decay.
# Each differs from its docstring in one line, and **neither line is a bug**. They are conventions:
#
# - Many libraries begin the warm-up with a rate of 0 at step 0; ours begins one step higher.
# - Some code lets every parameter with two axes or more decay; timm, and our docstring, leave CLS token and positions out.

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
# One step at rate 0 costs nothing that you could measure. Where the rate is set once an *epoch*, the same line costs a whole epoch.
# A convention still matters when you compare: a paper's numbers belong to its own.
#
# **Your task.** Bring both in line with their docstrings. One line each.

# %% exercise="vit_classroom.exhibits.clinic.healthy:schedule, vit_classroom.exhibits.clinic.healthy:decay_groups" starter="vit_classroom.exhibits.clinic.bugs:schedule, vit_classroom.exhibits.clinic.bugs:decay_groups" difficulty=1 minutes=8 hint="In which step should the rate reach the peak, if the first has number 0? How many axes have `cls_token` and `pos_embed`, and are they matrices?" hint2="`peak * (step + 1) / warmup_steps`; and `parameter.ndim == 2 and name.endswith('weight')`."
from vit_classroom.exhibits.clinic.healthy import decay_groups, schedule

schedule = check(schedule)
decay_groups = check(decay_groups)

# %%
report("schedule", "decay_groups")

# %% [markdown] curious
# ## 8. Can you trust the data and the number at the end?
#
# `blend` is MixUp (lesson 07). `score` measures the accuracy. Test `blend` with pictures that show their own class: then the
# picture itself tells you what the target should be. And test `score` by asking twice.

# %%
report("blend", "score")

# %% [markdown]
# A broken thermometer is the worst bug: every other experiment then lies. Test it first when numbers surprise you.
#
# **Your task.** Mend both. One bug each.

# %% exercise="vit_classroom.exhibits.clinic.healthy:blend, vit_classroom.exhibits.clinic.healthy:score" starter="vit_classroom.exhibits.clinic.bugs:blend, vit_classroom.exhibits.clinic.bugs:score" difficulty=1 minutes=8 hint="How often is a random order drawn in `blend`, and how often should it be? `score`: what does dropout do in a model that nobody has told that the training is over?" hint2="Draw `partner` once and use it for images and targets. Call `model.eval()` before the loop."
from vit_classroom.exhibits.clinic.healthy import blend, score

blend = check(blend)
score = check(score)

# %%
report("blend", "score")

# %% [markdown]
# ## 9. Can the patient go home?
#
# The scoreboard counts the lines that you have mended (●). Then the whole examination, on a patient made of your functions; where
# you left a starred section out, the function is a healthy one.

# %% tags=["nbval-ignore-output"]
mended, total = scoreboard()
mine = my_parts(others=Parts())
findings_table(examine(admit(mine)), "Your patient")

# %% [markdown]
# Now we mend the patient part by part, in the order of the lesson, and train it anew each time, with the same seed. The healthy
# `score` measures all accuracies, so they can be compared.
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

# %% [markdown] claim=["courses['+ attention'].accuracy < 0.3 and courses['+ training: all healthy'].accuracy > 0.6", "abs(courses['+ entrance'].accuracy - 0.1) < 0.01 and courses['+ both ends'].accuracy > 0.12"]
# The first three repairs help little or do harm; the last two bring nearly everything. (The last is four functions, but of them
# `blend` alone is a bug that a training meets.) Were the first three useless? No: one bug further on can stop the flow of
# information by itself, and then mending another shows *nothing*. (Here it is attention over the batch: CLS never meets a patch
# of its own picture.) So "I changed it and the accuracy did not move" does not mean that the line was right before.
#
# The fall to a guess has a cause: before, CLS stood last, and the head read a patch. Other small steps are one seed each, and
# may be chance (lesson 07).
#
# And *your* patient?

# %% tags=["nbval-ignore-output"]
courses["yours"] = treat(mine)
print(f"you mended {mended} of {total} lines; your patient: {percent(courses['yours'].accuracy)} right")

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
    "Three curves of training losses: the healthy patient, yours (dashed, on the healthy one if all is mended), and the "
    "patient as it came in.",
)

# %% [markdown]
# The last proof needs no training. A mended model should not only *be good*: it should **equal** one that is known to be right.
# Draw all weights anew (at the start the head is 0, so all logits are 0, and nearly every bug hides), copy them into the
# `VisionTransformer` of lesson 06, and compare the logits, in evaluation mode.

# %%
from vit_course.vit import VisionTransformer

mended_patient = admit(mine).eval()
for weights in mended_patient.parameters():
    torch.nn.init.normal_(weights, std=0.2)
twin = VisionTransformer(
    16, 4, embed_dim=SIZES["dim"], depth=SIZES["depth"], num_heads=SIZES["num_heads"]
).eval()
values = {
    re.sub(r"(blocks\.\d+\.)(qkv|proj)", r"\1attn.\2", name).replace("project", "patch_embed.proj"): value
    for name, value in mended_patient.state_dict().items()
}
kernel = values["patch_embed.proj.weight"]
values["patch_embed.proj.weight"] = rearrange(kernel, "d (p1 p2 c) -> d c p1 p2", p1=4, p2=4)
twin.load_state_dict(values)
with torch.no_grad():
    images = measurements.pictures(mended_patient, 8)
    gap = (mended_patient(images) - twin(images)).abs().max().item()
print("your patient equals the model of lesson 06:", gap < 1e-4)

# %% [markdown] claim="gap < 1e-4" always
# They agree. (The names differ a little, and the convolution stores its numbers in another order.)
#
# > **Key idea.** Equality with a trusted twin, at random weights, shows at once that the forward pass in evaluation mode is right
# > for this size. The twin may be a library, a paper's weights, or your own old version. It finds no bug of the training, and does
# > not say *which* line is wrong: for that you need the measurements.
#
# Here is the ward book. It opens, function by function, as you mend them.

# %%
table(ward_book(), ["function", "difference", "kind", "the patient's line", "the healthy line"])

# %% [markdown] curious
# ## 10. Your project: a bug for a friend's clinic
#
# Plant *one* bug of your own in a healthy patient, so that a friend can find it. Ideas from published code: a picture that
# is resized where the positions should be, `MSA(LN(z) + z)`, a scheduler that is never stepped, labels that are shuffled without
# their pictures.
#
# 1. Write the bug as data: the healthy line, and the sick one in its place.
# 2. Make sure that it raises no error, and measure what it costs, with three seeds.
# 3. Write the law that finds it in a second, without training. Try it on the healthy and on the sick function.
# 4. Give your friend the sick function and the *name* of the measurement, no more: `print(bugs.planted_source(my_bug.function, [my_bug]))`.
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
# This bug costs everything: attention runs over the batch, so CLS never meets a patch of its own picture, and the model can only
# guess. Few are so loud. Plant `/ tokens.shape[-1] ** 0.5` in `attend` instead (`my_bug` needs a new function and new lines, too).
# Can three seeds say what it costs? `spread_of_scores` finds it in a second.
#
# | what counts | points |
# |---|---|
# | The bug is one line, raises no error, and somebody could really write it: say where you met it, or why. | 0 to 3 |
# | Its cost is measured: three seeds, the difference with its interval, and "undecided" where it is. | 0 to 3 |
# | The law holds exactly, is known before it is measured, and takes no training. It finds this bug in every seed, and nothing in a healthy patient. | 0 to 4 |
# | Your friend found it from the symptom, before reading the code. | 0 to 2 |
# | Half a page says which of the fifteen bugs yours resembles, and what would have prevented it. | 0 to 3 |
#
# 12 of 15 points are very good. A bug that costs nothing can earn them all: it is the hardest to find.

# %% [markdown]
# ## Check yourself

# %% [markdown] quiz
# A head starts at zero. The loss at step 0 is 2.31 where ln K = 2.30. What do you do?
#
# - [ ] nothing, because it is close enough for a model that is not trained :: An exact law that holds "nearly" is broken, and another bug may hide how badly.
# - [x] find out why it is not equal to all digits :: With a head of zeros it must be equal. An exact law that holds nearly is broken.
# - [ ] lower the learning rate :: No step was taken yet, so the rate plays no part.

# %% [markdown] quiz
# The logits of a picture change when you put other pictures into the batch, in evaluation mode. What can it be?
#
# - [ ] dropout that is still on :: Dropout would change the result of the *same* batch too.
# - [x] attention over the batch :: Something mixes pictures. Nothing in a ViT should.
# - [ ] a patch size that does not fit :: It changes what a token sees, but every picture is cut by itself.

# %% [markdown] quiz
# `cls_token.grad` is None after a backward pass. Why?
#
# - [x] it is not part of the computation :: None means that no path leads from the loss to it.
# - [ ] its gradient is too small to be stored :: A small gradient is a tensor of small numbers, not None.
# - [ ] it is initialised with zeros :: A *parameter* of zeros gets gradients like any other.

# %% [markdown] quiz
# A published ViT says `assert image_size % patch_size != 0, "must be divisible"`. What happens?
#
# - [ ] nothing: an assert is only a comment for readers :: It runs, unless Python is started with -O.
# - [ ] wrong sizes are refused, right ones pass :: It is turned round: read the condition aloud.
# - [x] every size that fits is refused :: And sizes that leave a remainder go through. Whoever published it cannot have run it with a fitting size: test a guard with one case on each side.

# %% [markdown] quiz
# You mend a bug, and the accuracy stays the same. What now?
#
# - [ ] it was no bug, so put the old line back to be on the safe side :: That judges a law by one noisy number.
# - [x] keep the repair and go on examining :: Another bug may still block the way, or the cost is below the noise.
# - [ ] train for longer until it shows :: Time does not open a way that another bug blocks.

# %% [markdown]
# ## Recap
#
# | measurement | shapes | healthy | lesson |
# |---|---|---|---|
# | loss at step 0 | logits (B, K) | ln K | 06 |
# | deviation of the positions (a convention) | (1, N + 1, D) | 0.02, nearly | 03 |
# | weights without gradient, of a model or a block | every parameter | none | 02, 05 |
# | range of the logits | (B, K) | below and above 0, rows have any sum | 06 |
# | reach of one patch | images (B, C, H, W), tokens (B, N + 1, D) | one token | 01 |
# | token 0 of two pictures | (B, N + 1, D) | equal at the entrance | 02 |
# | a picture alone or in a batch, at the entrance and after a block | (B, T, D) | equal | 03, 05 |
# | rows of attention | (B, h, T, T) | sum to 1 | 04 |
# | spread of the scores | (B, h, T, T) | that of $q k^\top/\sqrt{d}$ | 04 |
# | shuffle test | (B, T, D) | same result, shuffled | 03 |
# | silent branches | (B, T, D) | the stream unchanged | 05 |
# | learning rate at step 0 (a convention) | a number | peak/w, w warm-up steps | 07 |
# | what decays (a convention) | weights (a, b) | matrices alone | 07 |
# | blended targets | (B, C, H, W), (B, K) | what can be seen | 07 |
# | scored twice | a number | the same | 06 |
# | a twin with the same weights | logits (B, K) | equal | 06 |
#
# - Measure before you read. Read before you change. Change one thing, and measure again.
# - Prefer values that you know exactly to curves that look good.
# - Bugs hide each other. "No effect" proves nothing.
#
# ## Further reading
#
# - Karpathy, *A Recipe for Training Neural Networks* (2019): the same spirit, with more habits.
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), section 3.1 and appendix B.1: what the patient should be.
# - Sculley et al., *Hidden Technical Debt in Machine Learning Systems* (2015): why such bugs live long.
