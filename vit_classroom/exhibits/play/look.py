"""Run a live model and note what happens inside it: tokens, attention, and what the head would say after each block.

Everything is read by hooks while the model runs its own code, so a student's own parts are shown as they are. What a
model's parts do not offer is noticed by `abilities`, and is not shown.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from vit_classroom.student_model import heads_of
from vit_course.attention import merge_heads, scaled_dot_product_attention, split_heads
from vit_course.embeddings import pool

ABILITIES = ("attention", "layers", "hide", "positions", "heads", "detail")
CLOSE = {"rtol": 1e-4, "atol": 1e-4}
"""How near a value that is computed again must be to the model's own."""


@dataclass
class Seen:
    """What the hooks note of one image. Each list has an entry for every block.

    Attributes:
        embedded: patch tokens (N, D) before positions.
        placed: tokens (T, D) that enter the first block.
        inputs: what each attention reads, (t, D); t tokens are kept.
        merged: heads side by side, (t, D), before W_O.
        middles: the stream between attention and MLP, (t, D).
        outputs: the stream after each block, (t, D).
    """

    embedded: list[Tensor] = field(default_factory=list)
    placed: list[Tensor] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    merged: list[Tensor] = field(default_factory=list)
    middles: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)


def body_of(model: nn.Module) -> nn.Module:
    """Return the part that holds patch projection, blocks and head: the model, or the ViT inside a hybrid."""
    return getattr(model, "vit", model)


def prefix_of(model: nn.Module) -> int:
    """Count the tokens in front that are no patches: as the model says, or one where it has a CLS token."""
    body = body_of(model)
    return getattr(body, "num_prefix_tokens", int(getattr(body, "cls_token", None) is not None))


def num_heads_of(model: nn.Module) -> int:
    """Return how many heads the first block has."""
    attention = body_of(model).blocks[0].attn
    return heads_of(attention, attention.qkv.in_features)


@contextmanager
def in_evaluation(model: nn.Module, positions: bool = True) -> Iterator[None]:
    """Let a model work in evaluation mode inside, without positions if asked, and leave it as it was."""
    modes = [(part, part.training) for part in model.modules()]
    table = getattr(body_of(model), "pos_embed", None)
    kept = None if positions or table is None else table.detach().clone()
    try:
        model.eval()
        if kept is not None:
            table.data.zero_()
        yield
    finally:
        if kept is not None:
            table.data.copy_(kept)
        for part, mode in modes:
            part.training = mode


def hooks(body: nn.Module, seen: Seen, kept: Tensor, gates: Tensor | None) -> Iterator:
    """Add hooks that note what one image does, leave out hidden tokens, and multiply heads by their gates.

    Args:
        body: the ViT.
        seen: is filled.
        kept: (t,) int64, the tokens that enter the first block.
        gates: (L, h), 1 or 0 for every head; None leaves all on.

    Yields:
        Handles, to be removed.
    """

    def note(into: list[Tensor], value: Tensor | tuple) -> None:
        into.append((value[0] if isinstance(value, tuple) else value)[0].detach())

    def enter(_: nn.Module, given: tuple) -> tuple:
        note(seen.placed, given[0])
        return (given[0][:, kept], *given[1:])

    def gate(layer: int) -> Callable:
        def before_projection(_: nn.Module, given: tuple) -> tuple | None:
            note(seen.merged, given[0])
            if gates is None:
                return None
            each = given[0].shape[-1] // gates.shape[1]
            return (given[0] * gates[layer].to(given[0]).repeat_interleave(each), *given[1:])

        return before_projection

    yield body.patch_embed.register_forward_hook(lambda _, given, made: note(seen.embedded, made))
    yield body.blocks[0].register_forward_pre_hook(enter)
    for layer, block in enumerate(body.blocks):
        yield block.register_forward_hook(lambda _, given, made: note(seen.outputs, made))
        if hasattr(block, "norm2"):
            yield block.norm2.register_forward_pre_hook(lambda _, given: note(seen.middles, given[0]))
        if hasattr(getattr(block, "attn", None), "proj"):
            yield block.attn.register_forward_pre_hook(lambda _, given: note(seen.inputs, given[0]))
            yield block.attn.proj.register_forward_pre_hook(gate(layer))


@torch.no_grad()
def run_and_note(
    model: nn.Module, image: Tensor, keep: Tensor, positions: bool = True, gates: Tensor | None = None
) -> tuple[Tensor, Seen]:
    """Run one image through a model, and note what happens.

    Args:
        model: a `VisionTransformer`, a `HybridViT`, or a student's `MiniViT`.
        image: (C, H, W), float, normalised.
        keep: (N,) bool, False for each patch that is hidden: its token is left out.
        positions: whether positions are added.
        gates: (L, h), 0 for each head that is off.

    Returns:
        logits (K,) and what was seen, on the device of the model.
    """
    seen, body = Seen(), body_of(model)
    device, prefix = next(model.parameters()).device, prefix_of(model)
    kept = torch.cat([torch.arange(prefix), prefix + keep.nonzero()[:, 0]]).to(device)
    with in_evaluation(model, positions), ExitStack() as stack:
        for handle in hooks(body, seen, kept, gates) if hasattr(body, "blocks") else ():
            stack.callback(handle.remove)
        return model(image[None].to(device))[0], seen


@torch.no_grad()
def attention_again(model: nn.Module, seen: Seen, num_heads: int) -> tuple[list[Tensor], list[Tensor], bool]:
    """Compute the attention of every block once more from what it read, because a model need not return it.

    Returns:
        weights: for each block (h, t, t).
        qkv: for each block (t, 3D).
        same: whether the heads that follow from these weights are those of the model.
    """
    weights, qkvs, same = [], [], True
    for block, given, merged in zip(body_of(model).blocks, seen.inputs, seen.merged, strict=True):
        qkvs.append(block.attn.qkv(given))
        q, k, v = (split_heads(part[None], num_heads) for part in qkvs[-1].chunk(3, dim=-1))
        found, table = scaled_dot_product_attention(q, k, v)
        same = same and torch.allclose(merge_heads(found)[0], merged, **CLOSE)
        weights.append(table[0])
    return weights, qkvs, same


@torch.no_grad()
def said_after_each_block(model: nn.Module, tokens: list[Tensor]) -> Tensor:
    """Return what the head would say after each block, (L + 1, K), from tokens (t, D) before and after the blocks."""
    body = body_of(model)
    with in_evaluation(model):
        normed = body.norm(torch.stack(tokens))
        pooled = pool(normed, getattr(body, "global_pool", "token"), prefix_of(model))
        return body.head(getattr(body, "pre_logits", nn.Identity())(pooled))


def look(
    model: nn.Module,
    image: Tensor,
    keep: Tensor,
    positions: bool = True,
    gates: Tensor | None = None,
    can: dict[str, bool] | None = None,
) -> dict[str, Tensor]:
    """Classify one image, and return every step of it, as `engine.mjs` does in the browser.

    Args:
        model: a `VisionTransformer`, a `HybridViT`, or a student's `MiniViT`.
        image: (C, H, W), float, normalised.
        keep: (N,) bool, False for each patch that is hidden.
        positions: whether positions are added.
        gates: (L, h), 0 for each head that is off.
        can: which of `ABILITIES` the model has; by default all.

    Returns:
        "logits" (K,); with the ability "attention" also "attention" (L, h, T, T), zero where a patch is hidden; with
        "layers" also "layers" (L + 1, K), what the head would say; with "detail" also "embedded" (N, D),
        "placed" (T, D), "tokens" (L + 1, T, D), "middles" (L, T, D) and "qkv" (L, T, 3D). All float32, on the CPU.
    """
    can = can or dict.fromkeys(ABILITIES, True)
    logits, seen = run_and_note(model, image, keep, positions, gates)
    answer = {"logits": logits}
    if seen.placed:
        prefix, count = prefix_of(model), len(seen.placed[0])
        kept = torch.cat([torch.arange(prefix), prefix + keep.nonzero()[:, 0]])
        tokens = [seen.placed[0][kept.to(seen.placed[0].device)], *seen.outputs]
    if can["layers"]:
        answer["layers"] = said_after_each_block(model, tokens)
    if can["attention"]:
        weights, qkv, _ = attention_again(model, seen, num_heads_of(model))
        table = torch.zeros(len(weights), len(weights[0]), count, count)
        table[:, :, kept[:, None], kept] = torch.stack(weights).float().cpu()
        answer["attention"] = table
    if can["detail"]:
        whole = {"tokens": tokens, "middles": seen.middles, "qkv": qkv}
        for name, parts in whole.items():
            stacked = torch.stack(parts).float().cpu()
            answer[name] = torch.zeros(len(parts), count, stacked.shape[-1])
            answer[name][:, kept] = stacked
        answer |= {"embedded": seen.embedded[0], "placed": seen.placed[0]}
    return {name: value.float().cpu().contiguous() for name, value in answer.items()}


def abilities(model: nn.Module, image: Tensor, num_patches: int) -> dict[str, bool]:
    """Find out what a model's parts let us see and change, by trying it on one image (C, H, W).

    Returns:
        For each of `ABILITIES` whether it works. A student's own attention may compute in a way that cannot be
        followed from outside; then no map of it is shown.
    """
    can, body = dict.fromkeys(ABILITIES, False), body_of(model)
    everything = torch.ones(num_patches, dtype=torch.bool)
    logits, seen = run_and_note(model, image, everything)
    if not seen.outputs or len(seen.outputs) != len(body.blocks):
        return can
    can["positions"] = getattr(body, "pos_embed", None) is not None
    tokens = [seen.placed[0], *seen.outputs]
    can["layers"] = works(lambda: torch.allclose(said_after_each_block(model, tokens)[-1], logits, **CLOSE))
    some = everything.clone()
    some[::2] = False
    can["hide"] = works(lambda: run_and_note(model, image, some)[0].isfinite().all())
    can["attention"] = works(lambda: attention_again(model, seen, num_heads_of(model))[2])
    can["heads"] = can["attention"] and len(seen.merged) == len(body.blocks)
    noted = len(seen.middles) == len(body.blocks) and len(seen.embedded) == 1 and len(seen.placed[0]) > 0
    can["detail"] = can["attention"] and noted and len(seen.embedded[0]) == num_patches
    return can


def works(attempt: Callable[[], bool | Tensor]) -> bool:
    """Tell whether an attempt ends well: parts written by a student may lack what it needs."""
    try:
        return bool(attempt())
    except Exception:  # whatever it raises, it does not work
        return False


def pixels_of(image: Tensor) -> bytes:
    """Return an image (C, H, W), uint8 with one channel or three, as bytes of (H, W, 3)."""
    return image.expand(3, -1, -1).permute(1, 2, 0).contiguous().numpy().tobytes()
