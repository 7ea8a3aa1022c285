"""Seventeen measurements of a `Patient`, taken without reading its code; lesson 14 and its checks use them.

Each takes an untrained `Patient`, leaves it as it was, and returns one `Finding`. None needs training.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_classroom.exhibits.clinic.patient import Patient


@dataclass(frozen=True)
class Finding:
    """What one measurement found, what it finds in a healthy patient, and whether the two agree."""

    question: str
    measured: str
    healthy: str
    ok: bool

    def __str__(self) -> str:
        return f"{self.question}: {self.measured}. Healthy: {self.healthy}"


def shown(measured: float, healthy: float, within: float, decimals: int = 2) -> str:
    """Write a measurement, with as many decimals as it takes to show that it is not within the healthy range."""
    if abs(measured - healthy) <= within:
        return f"{measured:.{decimals}f}"
    texts = (f"{measured:.{n}f}" for n in range(decimals, 9))
    return next((t for t in texts if abs(float(t) - healthy) > within), f"{measured:.{decimals}f}")


def pictures(patient: Patient, count: int) -> Tensor:
    """Draw images of noise in the patient's size, normalised: mean 0, deviation 1."""
    return torch.randn(count, *patient.image_shape)


def tokens_of(patient: Patient, count: int) -> Tensor:
    """Draw random tokens (count, T, D) of the patient's sizes."""
    return torch.randn(count, *patient.pos_embed.shape[1:])


def awake(patient: Patient) -> Patient:
    """Copy a patient and draw its head at random: with a head of zeros no gradient passes, and all scores are 0."""
    patient = copy.deepcopy(patient).eval()
    nn.init.normal_(patient.head.weight, std=0.5)
    return patient


def alert_block(patient: Patient) -> nn.Module:
    """Copy the first block, with queries and keys so large that its attention is not nearly uniform."""
    block = copy.deepcopy(patient.blocks[0]).eval()
    nn.init.normal_(block.qkv.weight, std=block.qkv.in_features**-0.5)
    nn.init.normal_(block.proj.weight, std=block.proj.in_features**-0.5)
    return block


def loss_at_step_0(patient: Patient) -> Finding:
    """Before the first step a model should have no opinion: all scores alike, a loss of ln K."""
    labels = torch.arange(64) % patient.head.out_features
    loss = F.cross_entropy(copy.deepcopy(patient).eval()(pictures(patient, 64)), labels).item()
    chance = math.log(patient.head.out_features)
    healthy = f"{chance:.3f} = ln {patient.head.out_features}, all classes alike"
    return Finding(
        "loss at step 0", f"{shown(loss, chance, 1e-3, 3)} nats", healthy, abs(loss - chance) < 1e-3
    )


def size_of_positions(patient: Patient) -> Finding:
    """Positions are a hint on top of the patches, so they should start small."""
    size = patient.pos_embed.std().item()
    return Finding(
        "deviation of the positions", shown(size, 0.02, 0.004, 3), "0.020", abs(size - 0.02) < 0.004
    )


def weights_that_learn(patient: Patient) -> Finding:
    """One backward pass should bring a gradient to every parameter."""
    patient = awake(patient)
    logits = patient(pictures(patient, 8))
    F.cross_entropy(logits, torch.arange(8) % logits.shape[1]).backward()
    silent = [n for n, p in patient.named_parameters() if p.grad is None or not p.grad.any()]
    return Finding("weights without gradient", ", ".join(silent) or "none", "none", not silent)


def range_of_logits(patient: Patient) -> Finding:
    """Logits are any numbers. If each row sums to 1, somebody has taken a softmax, and the loss takes another."""
    logits = awake(patient)(pictures(patient, 8))
    sums = logits.sum(dim=1)
    measured = (
        f"from {logits.min():.2f} to {logits.max():.2f}, rows sum to {sums.min():.2f} ... {sums.max():.2f}"
    )
    ok = bool((logits < 0).any()) and not torch.allclose(sums, torch.ones_like(sums), atol=1e-3)
    return Finding("scores, with a random head", measured, "below and above 0, any sum", ok)


def reach_of_one_patch(patient: Patient) -> Finding:
    """Change the pixels of one patch: one token should change."""
    before = pictures(patient, 1)
    after, p = before.clone(), patient.patch_size
    after[..., p : 2 * p, p : 2 * p] += 1
    tokens = [patient.parts.embed_patches(x, patient) for x in (before, after)]
    changed = int(((tokens[1] - tokens[0]).abs().amax(dim=-1) > 1e-6).sum())
    return Finding("tokens that change with one patch", str(changed), "1", changed == 1)


def first_token(patient: Patient) -> Finding:
    """Token 0, which the head will read, enters the encoder alike for all images: it is no patch."""
    one, other = (patient.parts.embed_patches(image[None], patient) for image in pictures(patient, 2))
    gap = (one[0, 0] - other[0, 0]).abs().max().item()
    return Finding("token 0 of two different images: difference", shown(gap, 0, 1e-5), "0.00", gap < 1e-5)


def entrance_alone_and_in_company(patient: Patient) -> Finding:
    """The tokens of an image do not depend on the other images of the batch."""
    images, embed = pictures(patient, 4), patient.parts.embed_patches
    gap = (embed(images, patient)[:1] - embed(images[:1], patient)).abs().max().item()
    return Finding(
        "tokens of an image alone or in a batch: difference", shown(gap, 0, 1e-4), "0.00", gap < 1e-4
    )


def rows_of_attention(patient: Patient) -> Finding:
    """Every query spends a weight of 1."""
    _, weights = patient.parts.attend(tokens_of(patient, 2), alert_block(patient))
    sums = weights.sum(dim=-1)
    measured = " ... ".join(shown(end.item(), 1, 1e-4) for end in sums.aminmax())
    return Finding("rows of attention sum to", measured, "1.00", bool(((sums - 1).abs() < 1e-4).all()))


def spread_of_scores(patient: Patient) -> Finding:
    """Read the scores back from the weights: with random q and k their deviation should be that of q·k/sqrt(d).

    Logarithms of weights are scores up to a number for each row (or, if someone took the softmax over the queries, for
    each column). Subtracting the means of rows and columns leaves what the scores say themselves. Only where they are
    q·k up to a factor has the factor a meaning.
    """
    tokens, block = tokens_of(patient, 2), alert_block(patient)
    _, weights = patient.parts.attend(tokens, block)
    q, k, _ = block.qkv(tokens).unflatten(2, (3, block.num_heads, -1)).permute(2, 0, 3, 1, 4)
    unit = centred(q @ k.mT * q.shape[-1] ** -0.5)
    scores = centred(weights.log())
    factor = ((scores * unit).sum() / unit.square().sum()).item()
    likeness = torch.corrcoef(torch.stack([scores.flatten(), unit.flatten()]))[0, 1].item()
    measured = f"{shown(factor, 1, 1e-2)} times q·k/sqrt(d)"
    if not likeness > 0.99:
        measured = f"not that of q·k, with which the scores correlate by {likeness:.2f}"
        measured = measured if math.isfinite(likeness) else f"not to be read: {unreadable(weights)}"
    return Finding("spread of the scores", measured, "1.00 times", abs(factor - 1) < 1e-2 and likeness > 0.99)


def unreadable(weights: Tensor) -> str:
    """Say why weights have no logarithms that differ."""
    if (weights < 0).any():
        return "a weight is below 0"
    if (weights == 0).any():
        return f"{int((weights == 0).sum())} of {weights.numel()} weights are 0, and so these tokens are not seen"
    return "weights are nan or infinite" if not weights.isfinite().all() else "all weights are alike"


def centred(scores: Tensor) -> Tensor:
    """Subtract from scores (..., T, T) the mean of every row, then that of every column."""
    scores = scores - scores.mean(dim=-1, keepdim=True)
    return scores - scores.mean(dim=-2, keepdim=True)


def shuffled_tokens(patient: Patient) -> Finding:
    """Attention knows no order: shuffled tokens in, the same results out, shuffled in the same way."""
    tokens, block = tokens_of(patient, 2), alert_block(patient)
    order = torch.randperm(tokens.shape[1])
    gap = patient.parts.attend(tokens[:, order], block)[0] - patient.parts.attend(tokens, block)[0][:, order]
    gap = gap.abs().max().item()
    return Finding(
        "shuffle the tokens before or after attention: difference", shown(gap, 0, 1e-4), "0.00", gap < 1e-4
    )


def alone_and_in_company(patient: Patient) -> Finding:
    """The result for an image does not depend on the other images of the batch."""
    tokens, block, parts = tokens_of(patient, 4), alert_block(patient), patient.parts
    gap = parts.encode_block(tokens, block, parts.attend)[:1] - parts.encode_block(
        tokens[:1], block, parts.attend
    )
    gap = gap.abs().max().item()
    return Finding("an image alone or in a batch: difference", shown(gap, 0, 1e-4), "0.00", gap < 1e-4)


def silent_branches(patient: Patient) -> Finding:
    """A block adds to the stream, no more: if attention and MLP say nothing, the stream should pass unchanged."""
    stream, mute = tokens_of(patient, 2), alert_block(patient)
    for parameter in mute.mlp.fc2.parameters():
        nn.init.zeros_(parameter)

    def say_nothing(tokens: Tensor, block: nn.Module) -> tuple[Tensor, None]:
        return torch.zeros_like(tokens), None

    gap = (patient.parts.encode_block(stream, mute, say_nothing) - stream).abs().max().item()
    return Finding("both branches silent: change of the stream", shown(gap, 0, 1e-4), "0.00", gap < 1e-4)


def weights_of_the_block(patient: Patient) -> Finding:
    """A backward pass through one block should bring a gradient to all its weights."""
    block, parts = alert_block(patient), patient.parts
    parts.encode_block(tokens_of(patient, 2), block, parts.attend).square().sum().backward()
    silent = [name for name, p in block.named_parameters() if p.grad is None or not p.grad.any()]
    return Finding("weights of a block without gradient", ", ".join(silent) or "none", "none", not silent)


def first_learning_rate(patient: Patient) -> Finding:
    """The first step should already move the weights, and the last step of the warm-up should have the peak."""
    first, last = (patient.parts.schedule(step, 100, 10, 1.0) for step in (0, 9))
    measured = f"{shown(first, 0.1, 1e-6)} and {shown(last, 1, 1e-6)} of the peak"
    ok = abs(first - 0.1) < 1e-6 and abs(last - 1) < 1e-6
    return Finding(
        "learning rate at step 0, and in the last of 10 warm-up steps", measured, "0.10 and 1.00", ok
    )


def what_decays(patient: Patient) -> Finding:
    """Only weights of linear layers should decay."""
    groups = patient.parts.decay_groups(patient, 0.05)
    decayed = {id(p) for group in groups if group["weight_decay"] for p in group["params"]}
    layers = {id(layer.weight) for layer in patient.modules() if isinstance(layer, nn.Linear)}
    names = [name for name, p in patient.named_parameters() if id(p) in decayed - layers]
    missing = len(layers - decayed)
    measured = ", ".join(names) or "nothing"
    measured += f"; {missing} of {len(layers)} matrices do not decay" if missing else ""
    return Finding("decays without being a matrix", measured, "nothing", not names and not missing)


def blended_targets(patient: Patient) -> Finding:
    """Blend images that show nothing but their class: what can be seen must be what the target says."""
    classes = 16
    targets = torch.eye(classes)
    seen, said = patient.parts.blend(targets[:, :, None, None].expand(-1, -1, 2, 2), targets, 0.75)
    wrong = int(((seen.mean(dim=(2, 3)) - said).abs().amax(dim=1) > 1e-5).sum())
    question = "blended images that do not show what their target says"
    return Finding(question, f"{wrong} of {classes}", f"0 of {classes}", wrong == 0)


def scored_twice(patient: Patient) -> Finding:
    """The same model on the same images has the same accuracy."""
    images, labels = torch.randn(500, 8), torch.arange(500) % 2
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 2)).train()
    first, second = (patient.parts.score(model.train(), images, labels) for _ in range(2))
    measured = f"{shown(100 * first, 100 * second, 0, 1)} % and {shown(100 * second, 100 * first, 0, 1)} %"
    return Finding("the same model scored twice", measured, "twice the same", first == second)


PROTOCOL: list[tuple[Callable[[Patient], Finding], tuple[str, ...]]] = [
    (loss_at_step_0, ("draw_weights",)),
    (size_of_positions, ("draw_weights",)),
    (weights_that_learn, ("embed_patches", "classify")),
    (range_of_logits, ("classify",)),
    (reach_of_one_patch, ("embed_patches",)),
    (first_token, ("embed_patches",)),
    (entrance_alone_and_in_company, ("embed_patches",)),
    (rows_of_attention, ("attend",)),
    (spread_of_scores, ("attend",)),
    (shuffled_tokens, ("attend",)),
    (alone_and_in_company, ("encode_block",)),
    (silent_branches, ("encode_block",)),
    (weights_of_the_block, ("encode_block",)),
    (first_learning_rate, ("schedule",)),
    (what_decays, ("decay_groups",)),
    (blended_targets, ("blend",)),
    (scored_twice, ("score",)),
]
"""The measurements in order, each with the functions of the patient whose bugs it can notice."""


def examine(patient: Patient, function: str | None = None) -> list[Finding]:
    """Take all measurements of a patient, or those that concern one of its functions; random numbers are fixed.

    A measurement that stops with an error is a finding too.
    """
    findings = []
    for measure, concerned in PROTOCOL:
        if function is None or function in concerned:
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(0)  # a patient is examined on the CPU
                try:
                    findings.append(measure(patient))
                except Exception as error:  # a patient may consist of any functions
                    name, text = measure.__name__.replace("_", " "), f"{type(error).__name__}: {error}"
                    findings.append(Finding(name, f"stopped with {text}", "a number", False))
    return findings
