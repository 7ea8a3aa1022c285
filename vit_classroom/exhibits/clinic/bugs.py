"""The nine functions of `healthy` with fifteen bugs and three other conventions in them: lesson 14 hands these out.

Each was met in public code or in a published explanation. It is one line, so any of them can be planted alone
(`planted`). A convention is no bug: careful people choose either way, and only the docstring says which is meant.
"""

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from einops import rearrange
from torch import Tensor, nn

from vit_classroom.exhibits.clinic import healthy
from vit_classroom.exhibits.clinic.patient import Parts


def draw_weights(model: nn.Module) -> nn.Module:
    """As a colleague left it: large positions, and a head with an opinion."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)
    nn.init.normal_(model.project.weight, std=model.project.in_features**-0.5)
    nn.init.zeros_(model.cls_token)
    nn.init.normal_(model.pos_embed)
    nn.init.normal_(model.head.weight, std=0.2)
    return model


def embed_patches(images: Tensor, model: nn.Module) -> Tensor:
    """As a colleague left it: rows for patches, a CLS token that cannot learn and comes last, positions in turn."""
    p = model.patch_size
    patches = images.reshape(len(images), -1, p * p * images.shape[1])
    tokens = model.project(patches)
    cls_token = torch.zeros_like(tokens[:, :1])
    tokens = torch.cat([tokens, cls_token], dim=1)
    return tokens + model.pos_embed.repeat_interleave(len(tokens), 1).view_as(tokens)


def attend(tokens: Tensor, block: nn.Module) -> tuple[Tensor, Tensor]:
    """As a colleague left it: another scale, another axis, and heads that are merged by brackets alone."""
    qkv = block.qkv(tokens)
    q, k, v = rearrange(qkv, "b t (three h d) -> three b h t d", three=3, h=block.num_heads)
    scores = q @ k.transpose(-2, -1) / tokens.shape[-1] ** 0.5
    weights = scores.softmax(dim=-2)
    heads = weights @ v
    heads = heads.reshape(tokens.shape)
    return block.proj(heads), weights


def encode_block(tokens: Tensor, block: nn.Module, attend: Callable) -> Tensor:
    """As a colleague left it: attention over the batch, a stream replaced by its norm, one norm in two places."""
    normed = block.norm1(tokens)
    attended = attend(normed.transpose(0, 1), block)[0].transpose(0, 1)
    tokens = normed + attended
    return tokens + block.mlp(block.norm1(tokens))


def classify(tokens: Tensor, model: nn.Module) -> Tensor:
    """As a colleague left it: no final norm, and a softmax that the loss will repeat."""
    y = tokens[:, 0]
    return model.head(y).softmax(dim=-1)


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """As a colleague left it: whatever has two axes or more decays."""
    decayed, kept = [], []
    for name, parameter in model.named_parameters():
        is_matrix = parameter.ndim >= 2 and "norm" not in name
        (decayed if is_matrix else kept).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": kept, "weight_decay": 0.0}]


def schedule(step: int, total_steps: int, warmup_steps: int, peak: float) -> float:
    """As a colleague left it: the first step goes nowhere."""
    if step < warmup_steps:
        return peak * step / warmup_steps
    progress = (step + 1 - warmup_steps) / (total_steps - warmup_steps)
    return peak * (1 + math.cos(math.pi * progress)) / 2


def blend(images: Tensor, targets: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """As a colleague left it: images and targets have different partners."""
    partner = torch.randperm(len(images), device=images.device)
    images = share * images + (1 - share) * images[partner]
    targets = share * targets + (1 - share) * targets[torch.randperm(len(targets))]
    return images, targets


@torch.no_grad()
def score(model: nn.Module, images: Tensor, labels: Tensor, batch_size: int = 500) -> float:
    """As a colleague left it: the model goes on dropping out."""
    right = 0
    for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True):
        right += (model(x).argmax(dim=1) == y).sum().item()
    return right / len(images)


PARTS = Parts(
    draw_weights, classify, embed_patches, attend, encode_block, schedule, decay_groups, blend, score
)
"""The patient as it comes in: all bugs, and all conventions that differ."""


@dataclass(frozen=True)
class Bug:
    """One bug: a line of a healthy function, the sick line in its place, and the measurement that notices it.

    With `convention` the other line is no bug: the two differ, and either is somebody's choice.
    """

    name: str
    function: str
    healthy: str
    sick: str
    measurement: str
    convention: bool = False


BUGS = [
    Bug(
        "positions as large as the tokens",
        "draw_weights",
        "nn.init.normal_(model.pos_embed, std=0.02)",
        "nn.init.normal_(model.pos_embed)",
        "size_of_positions",
        convention=True,
    ),
    Bug(
        "the head starts with an opinion",
        "draw_weights",
        "nn.init.zeros_(model.head.weight)",
        "nn.init.normal_(model.head.weight, std=0.2)",
        "loss_at_step_0",
    ),
    Bug(
        "no final norm", "classify", "y = model.norm(tokens[:, 0])", "y = tokens[:, 0]", "weights_that_learn"
    ),
    Bug(
        "softmax twice",
        "classify",
        "return model.head(y)",
        "return model.head(y).softmax(dim=-1)",
        "range_of_logits",
    ),
    Bug(
        "rows instead of patches",
        "embed_patches",
        'patches = rearrange(images, "b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=p, p2=p)',
        "patches = images.reshape(len(images), -1, p * p * images.shape[1])",
        "reach_of_one_patch",
    ),
    Bug(
        "a CLS token that cannot learn",
        "embed_patches",
        "cls_token = model.cls_token.expand(len(images), -1, -1)",
        "cls_token = torch.zeros_like(tokens[:, :1])",
        "weights_that_learn",
    ),
    Bug(
        "the CLS token comes last",
        "embed_patches",
        "tokens = torch.cat([cls_token, tokens], dim=1)",
        "tokens = torch.cat([tokens, cls_token], dim=1)",
        "first_token",
    ),
    Bug(
        "positions are dealt out over the batch",
        "embed_patches",
        "return tokens + model.pos_embed",
        "return tokens + model.pos_embed.repeat_interleave(len(tokens), 1).view_as(tokens)",
        "entrance_alone_and_in_company",
    ),
    Bug(
        "scale by the width of the token",
        "attend",
        "/ q.shape[-1] ** 0.5",
        "/ tokens.shape[-1] ** 0.5",
        "spread_of_scores",
    ),
    Bug("softmax over the queries", "attend", "softmax(dim=-1)", "softmax(dim=-2)", "rows_of_attention"),
    Bug(
        "heads merged by brackets alone",
        "attend",
        'heads = rearrange(heads, "b h t d -> b t (h d)")',
        "heads = heads.reshape(tokens.shape)",
        "shuffled_tokens",
    ),
    Bug(
        "attention over the batch",
        "encode_block",
        "attended, _ = attend(normed, block)",
        "attended = attend(normed.transpose(0, 1), block)[0].transpose(0, 1)",
        "alone_and_in_company",
    ),
    Bug(
        "the stream is replaced by its norm",
        "encode_block",
        "tokens = tokens + attended",
        "tokens = normed + attended",
        "silent_branches",
    ),
    Bug(
        "one norm in two places",
        "encode_block",
        "block.mlp(block.norm2(tokens))",
        "block.mlp(block.norm1(tokens))",
        "weights_of_the_block",
    ),
    Bug(
        "the first step goes nowhere",
        "schedule",
        "peak * (step + 1) / warmup_steps",
        "peak * step / warmup_steps",
        "first_learning_rate",
        convention=True,
    ),
    Bug(
        "CLS token and positions decay",
        "decay_groups",
        'is_matrix = parameter.ndim == 2 and name.endswith("weight")',
        'is_matrix = parameter.ndim >= 2 and "norm" not in name',
        "what_decays",
        convention=True,
    ),
    Bug(
        "targets of another partner",
        "blend",
        "* targets[partner]",
        "* targets[torch.randperm(len(targets))]",
        "blended_targets",
    ),
    Bug("dropout in the test", "score", "    model.eval()\n", "", "scored_twice"),
]
"""In the order of the lesson. `measurement` names a function of `vit_classroom.exhibits.clinic.measurements`."""


def planted_source(function: str, bugs: Iterable[Bug]) -> str:
    """Return the source of a function of `healthy` with these bugs in it."""
    source = inspect.getsource(getattr(healthy, function))
    for bug in bugs:
        if bug.function == function:
            if source.count(bug.healthy) != 1:
                raise LookupError(f"{function} has no single place for the bug {bug.name!r}")
            source = source.replace(bug.healthy, bug.sick)
    return source


def planted(function: str, bugs: Iterable[Bug]) -> Callable:
    """Return a function of `healthy` with these bugs in it."""
    namespace = dict(vars(healthy))
    exec(planted_source(function, bugs), namespace)
    return namespace[function]
