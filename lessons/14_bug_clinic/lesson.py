# ---
# title: "Bug clinic"
# promise: "You examine a Vision Transformer that runs, learns a little and has sixteen bugs, and you send it home healthy."
# part: "III. Beyond"
# minutes: 80
# map: []
# goals:
#   - "Examine a model by measurements before you read a line of its code."
#   - "Say which bug makes which symptom, and why most bugs raise no error."
#   - "Mend sixteen bugs that were all met in public code, each from its symptom."
#   - "Show that a mended model equals one that is known to be right."
# ---

# %% [markdown]
# ## 1. It runs and it learns. Is it right?
#
# A colleague sends you a small Vision Transformer. "It trains without an error and the loss falls. But the accuracy is poor. Do I need
# a bigger model?" Look at the patient before you answer. Its code stays closed for now.
#
# The patient is made up, its bugs are not. Each was found in code, in an exercise or in an explanation of the ViT that
# somebody had published: in repositories, in public courses and in blog posts. We name the mistakes, not their authors.
#
# The pictures are Shapes-10 with 16x16 pixels, P = 4, so N = 16 patches. There are K = 10 classes.

# %%
import inspect
import math
import re
from dataclasses import replace

import torch
from einops import rearrange

from vit_course.classroom import check, plots
from vit_course.classroom.clinic import bugs, healthy, measurements
from vit_course.classroom.clinic.chart import my_parts, scoreboard
from vit_course.classroom.clinic.measurements import examine
from vit_course.classroom.clinic.patient import Parts, Patient, train_patient
from vit_course.machinery.profiles import get_profile
from vit_course.data import shapes10
from vit_course.machinery.device import get_device

profile = get_profile()
data = shapes10(
    train=profile.pick(smoke=256, cpu=4000, gpu=8000),
    test=profile.pick(smoke=200, cpu=1000, gpu=2000),
    image_size=16,
)
SIZES = {"img_size": 16, "patch_size": 4, "dim": 64, "depth": 2, "num_heads": 4}


def admit(parts):
    """Build an untrained patient of these parts; the same seed for all."""
    torch.manual_seed(0)
    return Patient(parts, **SIZES)


patient = admit(bugs.PARTS)
print(f"{sum(p.numel() for p in patient.parameters()):,} parameters; {data}")

# %% tags=["nbval-ignore-output"]
epochs = profile.pick(smoke=1, cpu=12, gpu=15)


def smooth(losses, width=25):
    """Average the losses of neighbouring steps, so that a plot can be read."""
    width = min(width, 1 + len(losses) // 20)
    pieces = torch.tensor(losses).unfold(0, width, width).mean(dim=1)
    return [width * (i + 0.5) for i in range(len(pieces))], pieces.tolist()


def treat(parts):
    """Train a new patient of these parts; the sizes are those of the profile."""
    return train_patient(admit(parts).to(get_device()), data, epochs, peak=3e-3)


courses = {"as it came in": treat(bugs.PARTS)}
first = courses["as it came in"]
steps = len(first.losses)
figure = plots.curves(
    {"training loss": smooth(first.losses), "ln 10": ([0, steps], [math.log(10)] * 2)},
    f"As it came in: {first.accuracy:.1%} of new pictures right after {steps} steps",
    "step",
    "loss in nats",
)
plots.show(
    figure, "Training loss over the steps, beside a level line at ln 10, the loss of a model that guesses."
)

# %% [markdown]
# The curve tells little. It would look like this for a small model, a low learning rate, a hard data set, or a bug. A curve says
# *that* something is wrong, not *what*. And a bug in a neural network rarely raises an error. All shapes fit, gradients flow
# somewhere, and the rest of the network learns to live with the damage.
#
# ## 2. What does a doctor do before surgery?
#
# A doctor measures. Pulse, temperature, blood pressure: for each one knows what a healthy body shows. You have such measurements
# too. You met them in lessons 00 to 09. A good measurement has three properties:
#
# - It needs **no training**, so it takes a second and chance plays no part.
# - You know the healthy value **exactly**, and you know it *before* you measure.
# - It looks at the patient **from outside**. It asks what the code does, not what it looks like.
#
# The first on the list is the loss at step 0. A model that knows nothing should hold all K classes equally likely. Then the loss is
#
# $$-\ln \frac{1}{K} = \ln K$$
#
# with K the number of classes. For ten classes that is 2.303 nats, to three digits.
#
# There are fifteen measurements. Each is one small function of `vit_course.classroom.clinic.measurements`. Here are two of them, then all fifteen taken.

# %%
print(inspect.getsource(measurements.loss_at_step_0))
print(inspect.getsource(measurements.residual_stream))


# %%
def table(findings):
    """Print findings, one a row; a row that begins with ! is a symptom."""
    for finding in findings:
        print(f"{' ' if finding.ok else '!'} {finding.question:58} {finding.measured}")
    print(f"{sum(not finding.ok for finding in findings)} of {len(findings)} measurements show a symptom")


print("A healthy patient:\n")
table(examine(admit(Parts())))

# %%
print("The patient:\n")
table(examine(patient))

# %% [markdown]
# Compare the two tables row by row. One law is not exact: positions are drawn at random, so their deviation is 0.02 only nearly. Note two
# more things.
#
# **One bug can hide another.** Look at the loss at step 0. It is wrong, but not by much. Now look at the scores: they sum to 1. Someone has
# squeezed them. Behind the squeezing there may be a much larger error. So examine *again* after each repair.
#
# **One symptom can have several causes, and one bug several symptoms.** "No gradient" is a symptom of everything that is left out.
#
# The rest of this lesson goes through the patient part by part. Nine functions are sick, with one to three bugs each, and each bug is
# one line. The rules:
#
# 1. Read the symptoms of the part first. Say aloud what could cause them.
# 2. *Then* read the code of the cell. It is the colleague's. Mend it in place. The docstring is right, the code is not.
# 3. Run the cell. The check names the symptoms that are left. It never names the line.
#
# ## 3. Do both ends of the model begin without an opinion?
#
# We begin at the ends. `draw_weights` gives all weights their first values. `classify` reads the CLS token at the end (paper, equation 4):
#
# $$y = \mathrm{LN}(z_L^0), \qquad \text{logits} = y\,W + b$$
#
# $z_L^0$ is the CLS token behind the last of L blocks, (D,); y is (D,); W is (D, K) and b is (K,).


# %%
def report(*names):
    """Examine a patient that has your own version of some functions, and is healthy elsewhere."""
    mine = my_parts()
    table([f for name in names for f in examine(admit(Parts(**{name: getattr(mine, name)})), name)])


report("draw_weights", "classify")

# %% [markdown]
# Two questions lead to the lines. A model with an opinion at step 0: where would the opinion come from? And what does cross-entropy do with
# the scores *before* it takes the logarithm? If the model has done this already, the loss can never fall below
# $-\ln\frac{e}{e + K - 1}$, 1.46 nats for ten classes: the best scores it can give are 1 and nine times 0.
#
# **Your task.** Mend both functions. Four bugs.

# %% exercise="vit_course.classroom.clinic.healthy:draw_weights, vit_course.classroom.clinic.healthy:classify" starter="vit_course.classroom.clinic.bugs:draw_weights, vit_course.classroom.clinic.bugs:classify" difficulty=1 minutes=10 hint="Compare every line of `draw_weights` with the docstring, number by number. What is the default deviation of `nn.init.normal_`? In `classify`, hold the code beside the equation above." hint2="Positions: `std=0.02`. The head: `nn.init.zeros_`. `classify` needs `model.norm` around the token, and `F.cross_entropy` wants the scores as they are, without a softmax."
from vit_course.classroom.clinic.healthy import classify, draw_weights

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
# $x_p^i$ is patch i as a row of P²·C numbers, E is (P²·C, D), $x_{class}$ is the learned CLS token, (D,), and $E_{pos}$ is (N + 1, D). So token 0 is no
# patch, and token i depends on patch i alone. You can see it: ask autograd which pixels a token depends on.


# %%
def pixels_of(embed, token):
    """Return, for each pixel, how much one token depends on it: (H, W)."""
    examined = admit(replace(Parts(), embed_patches=embed))
    images = torch.zeros(1, *examined.image_shape, requires_grad=True)
    embed(images, examined)[0, token].square().sum().backward()
    return images.grad[0].abs().sum(dim=0) if images.grad is not None else torch.zeros(images.shape[2:])


maps = [
    pixels_of(function, token) for function in (healthy.embed_patches, bugs.embed_patches) for token in (0, 6)
]
figure = plots.heat_maps(
    [(map_ > 0).float() for map_ in maps],
    ["healthy, token 0", "healthy, token 6", "patient, token 0", "patient, token 6"],
    "A token should depend on one square patch, or (CLS) on no pixel at all; the patient reads rows",
    "1: depends on it",
    xlabel="column in pixels",
    ylabel="row in pixels",
)
plots.show(
    figure,
    "Four maps of 16 by 16 pixels. Healthy: token 0 depends on no pixel, token 6 on one square of 4 by 4. Patient: both "
    "tokens depend on rows that run across the whole picture.",
)
report("embed_patches")

# %% [markdown]
# **Your task.** Mend `embed_patches`. Three bugs.

# %% exercise="vit_course.classroom.clinic.healthy:embed_patches" starter="vit_course.classroom.clinic.bugs:embed_patches" difficulty=2 minutes=9 hint="Three lines, three bugs: how the picture is cut, where the CLS token comes from, where it goes. Lesson 01 showed what `reshape` does to a picture." hint2="Cut with `rearrange(images, 'b c (h p1) (w p2) -> b (h w) (p1 p2 c)', p1=p, p2=p)`. Take `model.cls_token.expand(len(images), -1, -1)`: a tensor of zeros is nobody's parameter. Put it *first* in `torch.cat`."
from vit_course.classroom.clinic.healthy import embed_patches

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
    tables = {
        name: part(tokens, block)[1][0, 0]
        for name, part in (("healthy", healthy.attend), ("patient", bugs.attend))
    }
figure = plots.heat_maps(
    list(tables.values()),
    list(tables),
    "Rows sum to " + " and ".join(f"{A.sum(1).min():.2f} ... {A.sum(1).max():.2f}" for A in tables.values()),
    "attention weight",
    xlabel="key",
    ylabel="query",
)
plots.show(
    figure,
    "Two tables of 17 by 17 attention weights. The healthy one has single bright cells, and rows that sum to 1. That of the "
    "patient is flatter, and its rows have different sums.",
)
report("attend")

# %% [markdown]
# **Your task.** Mend `attend`. Three bugs. The third one hides best: its shape is right, and no row of A is wrong. Only the shuffle test sees it.

# %% exercise="vit_course.classroom.clinic.healthy:attend" starter="vit_course.classroom.clinic.bugs:attend" difficulty=2 minutes=9 hint="Which width belongs under the root, D or d? Which axis of (B, h, T, T) counts the keys? And is `reshape` the inverse of the `rearrange` at the top?" hint2="`/ q.shape[-1] ** 0.5`, `softmax(dim=-1)`, and `rearrange(heads, 'b h t d -> b t (h d)')`: the axis of the heads must move behind that of the tokens before the two last axes are merged."
from vit_course.classroom.clinic.healthy import attend

attend = check(attend)

# %%
report("attend")

# %% [markdown]
# ## 6. Does anything flow through the block?
#
# A block adds two branches to the residual stream z, (B, T, D) (paper, equations 2 and 3):
#
# $$z' = z + \mathrm{MSA}(\mathrm{LN}(z)), \qquad z'' = z' + \mathrm{MLP}(\mathrm{LN}(z'))$$
#
# MSA is `attend`. What is added must stay. So if you raise all numbers of z by 5, the norms do not notice, and the block passes the 5 on.
# The other law: pictures of a batch are strangers to each other. A picture has the same result alone and in company.

# %%
report("encode_block")

# %% [markdown]
# PyTorch's own `nn.MultiheadAttention` expects (T, B, D) unless you say `batch_first=True`. Many people know this rule by heart, and some apply it
# where it does not hold.
#
# **Your task.** Mend `encode_block`. Two bugs.

# %% exercise="vit_course.classroom.clinic.healthy:encode_block" starter="vit_course.classroom.clinic.bugs:encode_block" difficulty=2 minutes=7 hint="`attend` wants (B, T, D): see its docstring above. What does it mix if the first two axes are swapped? And which of the two, `tokens` or `normed`, is z in the equation?" hint2="`attended, _ = attend(normed, block)` without any `transpose`, then `tokens = tokens + attended`."
from vit_course.classroom.clinic.healthy import encode_block

encode_block = check(encode_block)

# %%
report("encode_block")

# %% [markdown]
# ## 7. Is the treatment right?
#
# The model is whole now. A right model with a wrong training is still a sick patient. Two functions feed the optimiser.
# `schedule` gives the learning rate of a step s. `decay_groups` says what shrinks. Draw the one, list the other.

# %%
warm = list(range(30))
figure = plots.curves(
    {
        name: (warm, [part(step, 100, 10, 1.0) for step in warm])
        for name, part in (("healthy", healthy.schedule), ("patient", bugs.schedule))
    },
    f"The patient's rate at step 0 is {bugs.schedule(0, 100, 10, 1.0):g}, a healthy one is {healthy.schedule(0, 100, 10, 1.0):g} of the peak",
    "step, the first 30 of 100",
    "learning rate / peak",
)
plots.show(
    figure,
    "Two schedules with 10 steps of warm-up: that of the patient starts lower and is lower during the rise.",
)
report("schedule", "decay_groups")

# %% [markdown]
# One step at rate 0 costs little. If the warm-up is counted in epochs, the same bug costs a whole epoch.
#
# **Your task.** Mend both. One bug each.

# %% exercise="vit_course.classroom.clinic.healthy:schedule, vit_course.classroom.clinic.healthy:decay_groups" starter="vit_course.classroom.clinic.bugs:schedule, vit_course.classroom.clinic.bugs:decay_groups" difficulty=1 minutes=6 hint="In which step should the rate reach the peak, if the first has number 0? How many axes have `cls_token` and `pos_embed`, and are they matrices?" hint2="`peak * (step + 1) / warmup_steps`; and `parameter.ndim == 2 and name.endswith('weight')`."
from vit_course.classroom.clinic.healthy import decay_groups, schedule

schedule = check(schedule)
decay_groups = check(decay_groups)

# %%
report("schedule", "decay_groups")

# %% [markdown]
# ## 8. Can you trust the data and the number at the end?
#
# `blend` is MixUp (lesson 07). `score` measures the accuracy. Test `blend` with pictures that show their own class: then you can *read off* the
# picture what the target should be. And test `score` by asking twice.

# %%
report("blend", "score")

# %% [markdown]
# A broken thermometer is the worst bug of all. It makes every other experiment lie. Test it first when numbers surprise you.
#
# **Your task.** Mend both. One bug each.

# %% exercise="vit_course.classroom.clinic.healthy:blend, vit_course.classroom.clinic.healthy:score" starter="vit_course.classroom.clinic.bugs:blend, vit_course.classroom.clinic.bugs:score" difficulty=1 minutes=6 hint="How often is a random order drawn in `blend`, and how often should it be? `score`: what does dropout do in a model that nobody has told that the training is over?" hint2="Draw `partner` once and use it for images and targets. Call `model.eval()` before the loop."
from vit_course.classroom.clinic.healthy import blend, score

blend = check(blend)
score = check(score)

# %%
report("blend", "score")

# %% [markdown]
# ## 9. Can the patient go home?
#
# The scoreboard counts what your own functions have left (● mended). Then the whole examination, on a patient made of your functions.

# %% tags=["nbval-ignore-output"]
mended, total = scoreboard()
print()
table(examine(admit(my_parts())))

# %% [markdown]
# Now the treatment. We mend the patient part by part, in the order of the lesson, and train it anew each time, with the same seed. Accuracies are
# measured with the healthy `score`, so they can be compared. How do you expect them to rise: evenly?

# %% tags=["nbval-ignore-output"]
repairs = {
    "+ both ends": ["draw_weights", "classify"],
    "+ entrance": ["embed_patches"],
    "+ attention": ["attend"],
    "+ block": ["encode_block"],
    "+ training: all healthy": ["schedule", "decay_groups", "blend", "score"],
}
parts = bugs.PARTS
for name, functions in repairs.items():
    parts = replace(parts, **{function: getattr(healthy, function) for function in functions})
    courses[name] = treat(parts)
for name, course in courses.items():
    print(f"{name:24} {course.accuracy:.1%}")
accuracies = [100 * course.accuracy for course in courses.values()]
gains = {
    name: after - before
    for name, before, after in zip(list(courses)[1:], accuracies, accuracies[1:], strict=False)
}
largest = max(gains, key=gains.get)
figure = plots.dots(
    {"accuracy": (list(courses), accuracies)},
    f'From {accuracies[0]:.0f} to {accuracies[-1]:.0f} %; the largest step, {gains[largest]:+.0f} points, is "{largest[2:]}"',
    "test accuracy in percent (guessing: 10)",
)
plots.show(figure, "Test accuracy of the patient as it came in, and after each of five repairs that add up.")

# %% [markdown]
# Look at the sizes of the steps. Several bugs in a row can each be enough to stop the flow of information. Then mending one of them shows *nothing*, and
# the last one shows everything. So "I changed it and the accuracy did not move" does not mean that it was right before. This is why we measured each part by
# itself.
#
# The opposite trap: a step that is small. With one seed nobody can tell it from chance (lesson 08). But a bug that costs half a
# point stays in the code for years, because no curve ever shows it.
#
# And *your* patient? It is made of your own functions, as you last checked them.

# %% tags=["nbval-ignore-output"]
courses["yours"] = treat(my_parts())
shown = {name: courses[name] for name in ("as it came in", "yours", "+ training: all healthy")}
figure = plots.curves(
    {name.removeprefix("+ training: "): smooth(course.losses) for name, course in shown.items()},
    f"{mended} of {total} bugs mended: {courses['yours'].accuracy:.1%}, healthy {accuracies[-1]:.1f}%",
    "step",
    "training loss in nats",
)
plots.show(figure, "Three curves of training losses: the patient as it came in, yours, and the healthy one.")

# %% [markdown]
# The last proof needs no training. A mended model should not only *be good*. It should be **equal** to one that is known to be right. Copy the weights of the patient
# into the `VisionTransformer` of lesson 06, and compare the logits. The names differ a little, and the convolution stores its numbers in
# another order. The model is in evaluation mode.

# %%
from vit_course.vit import VisionTransformer

mended_patient = measurements.awake(admit(my_parts()))
twin = VisionTransformer(
    16, 4, embed_dim=SIZES["dim"], depth=SIZES["depth"], num_heads=SIZES["num_heads"]
).eval()
weights = {
    re.sub(r"(blocks\.\d+\.)(qkv|proj)", r"\1attn.\2", name).replace("project", "patch_embed.proj"): value
    for name, value in mended_patient.state_dict().items()
}
kernel = weights["patch_embed.proj.weight"]
weights["patch_embed.proj.weight"] = rearrange(kernel, "d (p1 p2 c) -> d c p1 p2", p1=4, p2=4)
twin.load_state_dict(weights)
with torch.no_grad():
    images = measurements.pictures(mended_patient, 8)
    gap = (mended_patient(images) - twin(images)).abs().max().item()
print("your patient equals the model of lesson 06:", gap < 1e-4)

# %% [markdown]
# This test finds every bug of the forward pass at once, known or not. Use it whenever a trusted twin exists: a library, a paper's weights, your own
# old version. It finds no bug of the training.
#
# Here is the whole list, for the ward book. Open it when you are done.

# %% tags=["solution-only"]
for bug in bugs.BUGS:
    print(
        f"{bug.name} ({bug.function}), seen by {bug.measurement}\n    sick:    {bug.sick.strip() or '(line missing)'}\n    healthy: {bug.healthy.strip()}"
    )

# %% [markdown]
# **Your next step.** Plant *one* bug in a healthy patient and measure what it costs:
# `parts = replace(Parts(), attend=bugs.planted("attend", bugs.BUGS[7:8]))`, then `treat(parts)`, with three seeds. Which of the sixteen would you never have
# noticed from the accuracy? Then take a model of your own and write its examination before you train it.
#
# ## Check yourself
#
# **1.** The loss at step 0 is 2.31 where ln K = 2.30. What do you do? (a) nothing, it is close enough (b) find out why: with a head of zeros it should be equal
# to all digits (c) lower the learning rate
#
# <details><summary>Answer</summary>
#
# **(b)** An exact law that holds "nearly" is broken, and another bug may hide how badly. (a) overlooks it. (c): no step was taken yet,
# so the rate plays no part.
#
# </details>
#
# **2.** The logits of a picture change when you put other pictures into the batch, in evaluation mode. What can it be? (a) dropout (b) attention over the
# batch axis (c) a wrong patch size
#
# <details><summary>Answer</summary>
#
# **(b)** Something mixes pictures. (a) is off in evaluation mode, and would change the result of the *same* batch too. (c) changes what a token sees, but every
# picture is cut by itself.
#
# </details>
#
# **3.** `cls_token.grad` is None after a backward pass. (a) it is not part of the computation (b) its gradient is small (c) it is
# initialised with zeros
#
# <details><summary>Answer</summary>
#
# **(a)** None means that no path leads from the loss to it. (b) would be a small tensor. (c) is harmless: a *parameter* of zeros
# gets gradients like any other.
#
# </details>
#
# **4.** You mend a bug, and the accuracy stays the same. (a) it was no bug (b) put it back (c) keep the repair and go on examining
#
# <details><summary>Answer</summary>
#
# **(c)** Another bug may still block the way, or the cost is below the noise. (a) and (b) judge a law by one noisy number.
#
# </details>
#
# **5.** The training loss never falls below 1.46 with ten classes, without smoothing and without MixUp. What is your first suspicion? (a) a softmax before the
# cross-entropy (b) too few parameters (c) positions are missing
#
# <details><summary>Answer</summary>
#
# **(a)** That number is the floor of a softmax taken twice. (b) and (c) could also stop a loss, but not at this number of all numbers.
#
# </details>
#
# ## Recap
#
# | measurement | shapes | healthy | lesson |
# |---|---|---|---|
# | loss at step 0 | logits (B, K) | ln K | 06 |
# | deviation of the positions | (1, N + 1, D) | 0.02, nearly | 03 |
# | weights without gradient | every parameter | none | 02 |
# | range of the logits | (B, K) | below and above 0, rows have any sum | 06 |
# | reach of one patch | images (B, C, H, W), tokens (B, N + 1, D) | one token | 01 |
# | token 0 of two pictures | (B, N + 1, D) | equal at the entrance | 02 |
# | rows of attention | (B, h, T, T) | sum to 1 | 04 |
# | spread of the scores | (B, h, T, T) | that of $q k^\top/\sqrt{d}$ | 04 |
# | shuffle test | (B, T, D) | same result, shuffled | 03 |
# | alone and in company | (B, T, D) | equal | 05 |
# | 5 on the residual stream | (B, T, D) | 5 arrives | 05 |
# | learning rate at step 0 | a number | peak/w, w warm-up steps | 07 |
# | what decays | weights (a, b) | matrices alone | 07 |
# | blended targets | (B, C, H, W), (B, K) | what can be seen | 07 |
# | scored twice | a number | the same | 08 |
# | a twin with the same weights | logits (B, K) | equal | 06 |
#
# - Measure before you read. Read before you change. Change one thing, and measure again.
# - Prefer laws that hold exactly to curves that look good.
# - Bugs hide each other. "No effect" proves nothing.
#
# ## Further reading
#
# - Karpathy, *A Recipe for Training Neural Networks* (2019): the same spirit, with more habits.
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021), section 3.1 and appendix B.1: what the patient should be.
# - Sculley et al., *Hidden Technical Debt in Machine Learning Systems* (2015): why such bugs live long.
