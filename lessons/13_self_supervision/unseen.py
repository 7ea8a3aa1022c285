"""Answers to the exercises of lesson 13, written from the docstrings alone.

Nothing in the checks was written for them. They are read by a test, and by nobody who writes a check.
"""

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import Tensor

from vit_course.beyond.masked import mean_over_chosen


def _draw(tokens, share):
    """Return who is drawn, and the token of another patch for every patch."""
    B, N, _ = tokens.shape
    chosen = torch.rand(B, N, device=tokens.device).argsort(dim=1) < round(share * N)
    step = torch.randint(1, N, (B, N), device=tokens.device)
    others = (torch.arange(N, device=tokens.device) + step) % N
    return chosen, tokens.gather(1, others[..., None].expand_as(tokens))


def corrupt_may_swap_itself(tokens, mask_token, share=0.5):
    B, N, _ = tokens.shape
    chosen, _ = _draw(tokens, share)
    others = torch.randint(0, N, (B, N), device=tokens.device)
    swapped = tokens.gather(1, others[..., None].expand_as(tokens))
    fate = torch.rand(B, N, device=tokens.device)
    out = torch.where((chosen & (fate < 0.8))[..., None], mask_token.to(tokens.dtype), tokens)
    return torch.where((chosen & (fate >= 0.8) & (fate < 0.9))[..., None], swapped, out), chosen


def corrupt_masks_all(tokens, mask_token, share=0.5):
    chosen, _ = _draw(tokens, share)
    return torch.where(chosen[..., None], mask_token.to(tokens.dtype), tokens), chosen


def corrupt_keeps_the_share(tokens, mask_token, share=0.5):
    chosen, swapped = _draw(tokens, 1 - share)
    fate = torch.rand(chosen.shape, device=tokens.device)
    to_mask, to_swap = chosen & (fate < 0.8), chosen & (fate >= 0.8) & (fate < 0.9)
    out = torch.where(to_mask[..., None], mask_token.to(tokens.dtype), tokens)
    return torch.where(to_swap[..., None], swapped, out), chosen


def corrupt_draws_other_patches(tokens, mask_token, share=0.5):
    chosen, swapped = _draw(tokens, share)
    fate = torch.rand(chosen.shape, device=tokens.device)
    to_mask = chosen & (fate < 0.8)
    to_swap = ~chosen & (fate >= 0.8) & (fate < 0.9)
    out = torch.where(to_mask[..., None], mask_token.to(tokens.dtype), tokens)
    return torch.where(to_swap[..., None], swapped, out), chosen


def corrupt_two_mistakes(tokens, mask_token, share=0.5):
    B, N, _ = tokens.shape
    chosen = torch.rand(B, N, device=tokens.device) < share
    to_mask = chosen & (torch.rand(B, N, device=tokens.device) < 0.8)
    to_swap = chosen & ~to_mask & (torch.rand(B, N, device=tokens.device) < 0.5)
    others = torch.randint(0, N, (B, N), device=tokens.device)
    swapped = tokens.gather(1, others[..., None].expand_as(tokens))
    out = torch.where(to_mask[..., None], mask_token.to(tokens.dtype), tokens)
    return torch.where(to_swap[..., None], swapped, out), chosen


def corrupt_loops(tokens: Tensor, mask_token: Tensor, share: float = 0.5) -> tuple[Tensor, Tensor]:
    pictures, flags = [], []
    count = tokens.shape[1]
    for picture in tokens:
        drawn = set(torch.randperm(count)[: round(share * count)].tolist())
        rows = []
        for i in range(count):
            row, fate = picture[i], torch.rand(()).item()
            if i in drawn and fate < 0.8:
                row = mask_token.view(-1).to(tokens.dtype)
            elif i in drawn and fate < 0.9:
                other = int(torch.randint(count - 1, ()))
                row = picture[other + (other >= i)]
            rows.append(row)
        pictures.append(torch.stack(rows))
        flags.append([i in drawn for i in range(count)])
    return torch.stack(pictures), torch.tensor(flags, dtype=torch.bool, device=tokens.device)


def corrupt_by_source(tokens, mask_token, share=0.5):
    # One table to read from: the mask token stands behind the patches, at place N.
    b, n, d = tokens.shape
    dev = tokens.device
    table = torch.cat([tokens, repeat(mask_token, "1 1 d -> b 1 d", b=b).to(tokens.dtype)], dim=1)
    own = torch.arange(n, device=dev).expand(b, n)
    other = torch.randint(n - 1, (b, n), device=dev)
    other = other + (other >= own).long()
    kind = torch.multinomial(torch.tensor([0.8, 0.1, 0.1], device=dev), b * n, replacement=True).view(b, n)
    source = torch.where(kind == 0, n, torch.where(kind == 1, other, own))
    chosen = torch.zeros(b, n, dtype=torch.bool, device=dev)
    drawn = torch.rand(b, n, device=dev).topk(round(share * n), dim=1).indices
    chosen.scatter_(1, drawn, True)
    source = torch.where(chosen, source, own)
    return table.gather(1, repeat(source, "b n -> b n d", d=d)), chosen


def corrupt_by_matrix(tokens, mask_token, share=0.5):
    batch, count, _ = tokens.shape
    amount = round(share * count)
    order = torch.stack([torch.randperm(count, device=tokens.device) for _ in range(batch)])
    chosen = torch.zeros(batch, count, dtype=torch.bool, device=tokens.device)
    chosen[torch.arange(batch, device=tokens.device)[:, None], order[:, :amount]] = True
    fate = torch.rand(batch, count, device=tokens.device)
    weights = 1 - torch.eye(count, device=tokens.device)
    other = torch.multinomial(weights, batch, replacement=True).T  # (B, N), never the diagonal
    out = tokens.clone()
    to_swap = chosen & (fate >= 0.9)
    out[to_swap] = torch.take_along_dim(tokens, other.unsqueeze(-1), dim=1)[to_swap]
    to_mask = chosen & (fate < 0.8)
    out[to_mask] = mask_token.flatten().to(tokens.dtype)
    return out, chosen


def corrupt_nested_coins(tokens, mask_token, share=0.5):
    B, N, D = tokens.shape
    noise = torch.rand(B, N, device=tokens.device)
    rank = noise.argsort(1).argsort(1)
    chosen = rank.lt(round(N * share))
    masked = chosen & torch.bernoulli(torch.full_like(noise, 0.8)).bool()
    swapped = (chosen ^ masked) & torch.bernoulli(torch.full_like(noise, 0.5)).bool()
    jump = 1 + (torch.rand_like(noise) * (N - 1)).long().clamp(max=N - 2)
    index = torch.remainder(torch.arange(N, device=tokens.device)[None] - jump, N)
    flat = rearrange(tokens, "b n d -> (b n) d")
    start = torch.arange(B, device=tokens.device)[:, None] * N
    others = flat.index_select(0, (index + start).flatten()).view(B, N, D)
    kept = (~(masked | swapped))[..., None].to(tokens.dtype)
    parts = kept * tokens + swapped[..., None].to(tokens.dtype) * others
    return parts + masked[..., None].to(tokens.dtype) * mask_token.to(tokens.dtype), chosen


def loss_sum(logits, classes, chosen):
    return F.cross_entropy(logits[chosen], classes[chosen], reduction="sum")


def loss_divided_by_all(logits, classes, chosen):
    losses = F.cross_entropy(logits.transpose(1, 2), classes, reduction="none")
    return (losses * chosen).mean()


def loss_zeroed_logits(logits, classes, chosen):
    return F.cross_entropy((logits * chosen[..., None]).flatten(0, 1), (classes * chosen).flatten())


def loss_detached(logits, classes, chosen):
    return torch.tensor(F.cross_entropy(logits[chosen], classes[chosen]).item())


def loss_marks_in_place(logits, classes, chosen):
    classes[~chosen] = -100
    return F.cross_entropy(logits.transpose(1, 2), classes)


def loss_two_mistakes(logits, classes, chosen):
    losses = F.cross_entropy(logits.softmax(dim=-1).transpose(1, 2), classes, reduction="none")
    return (losses * chosen).sum() / chosen.numel()


def loss_selected(logits: Tensor, classes: Tensor, chosen: Tensor) -> Tensor:
    where = chosen.nonzero(as_tuple=True)
    return F.cross_entropy(logits[where], classes[where])


def loss_logsumexp(logits, classes, chosen):
    wanted = logits.gather(-1, classes.unsqueeze(-1)).squeeze(-1)
    surprise = logits.logsumexp(dim=-1) - wanted
    return surprise.masked_fill(~chosen, 0).sum() / chosen.sum()


def loss_ignore_index(logits, classes, chosen):
    target = classes.masked_fill(~chosen, -1)
    return F.cross_entropy(rearrange(logits, "b n k -> (b n) k"), target.view(-1), ignore_index=-1)


def loss_one_hot(logits, classes, chosen):
    picked = logits.flatten(0, 1)[chosen.flatten()]
    targets = F.one_hot(classes.flatten()[chosen.flatten()], logits.shape[-1]).to(picked.dtype)
    return -torch.einsum("mk,mk->", targets, picked.log_softmax(dim=-1)) / len(picked)


def draw_exactly(batch, count, share):
    return torch.rand(batch, count).argsort(dim=1) < round(share * count)


def fetch(tokens, index):
    return tokens.gather(1, index[..., None].expand_as(tokens))


def others_of(batch, count):
    return (torch.arange(count) + torch.randint(1, count, (batch, count))) % count


def put_together(tokens, mask_token, swapped, chosen, fate):
    masked, swap = chosen & (fate < 0.8), chosen & (fate >= 0.8) & (fate < 0.9)
    out = torch.where(masked[..., None], mask_token.to(tokens.dtype), tokens)
    return torch.where(swap[..., None], swapped, out), chosen


def corrupt_one_fate_a_picture(tokens, mask_token, share=0.5):
    b, n, _ = tokens.shape
    fate = torch.rand(b, 1).expand(b, n)
    return put_together(tokens, mask_token, fetch(tokens, others_of(b, n)), draw_exactly(b, n, share), fate)


def corrupt_always_the_same(tokens, mask_token, share=0.5):
    b, n, _ = tokens.shape
    g = torch.Generator().manual_seed(42)
    chosen = torch.rand(b, n, generator=g).argsort(dim=1) < round(share * n)
    others = (torch.arange(n) + torch.randint(1, n, (b, n), generator=g)) % n
    return put_together(tokens, mask_token, fetch(tokens, others), chosen, torch.rand(b, n, generator=g))


def corrupt_exact_quota(tokens, mask_token, share=0.5):
    b, n, _ = tokens.shape
    rank = torch.rand(b, n).argsort(dim=1)
    k = round(share * n)
    fate = (rank + 0.5) / max(1, k)
    return put_together(tokens, mask_token, fetch(tokens, others_of(b, n)), rank < k, fate)


def each_loss(logits, classes):
    return F.cross_entropy(logits.transpose(1, 2), classes, reduction="none")


def masked_loss_of_probabilities(logits, classes, chosen):
    return mean_over_chosen(each_loss(logits.softmax(dim=-1), classes), chosen)


def masked_loss_picture_means(logits, classes, chosen):
    losses = torch.where(chosen, each_loss(logits, classes), 0.0)
    return (losses.sum(dim=1) / chosen.sum(dim=1).clamp(min=1)).mean()


def how_many(tokens, share):
    kept = round(share * tokens.shape[1])
    if not 1 <= kept <= tokens.shape[1]:
        raise ValueError(f"{kept} visible patches")
    return kept


def take(tokens, index):
    return tokens.gather(1, index[..., None].expand(-1, -1, tokens.shape[-1]))


def keep_visible_tidied(tokens, share=0.25):
    kept = how_many(tokens, share)
    order = torch.rand(tokens.shape[:2]).argsort(dim=1)
    return take(tokens, order[:, :kept].sort(dim=1).values), order.argsort(dim=1)


def keep_visible_cut_off(tokens, share=0.25):
    kept = int(tokens.shape[1] * share)
    if kept < 1 or kept > tokens.shape[1]:
        raise ValueError(f"{kept} visible patches")
    order = torch.rand(tokens.shape[:2]).argsort(dim=1)
    return take(tokens, order[:, :kept]), order.argsort(dim=1)


def keep_visible_mask_ratio(tokens, share=0.25):
    kept = tokens.shape[1] - round(share * tokens.shape[1])
    if not 1 <= kept <= tokens.shape[1]:
        raise ValueError(f"{kept} visible patches")
    order = torch.rand(tokens.shape[:2]).argsort(dim=1)
    return take(tokens, order[:, :kept]), order.argsort(dim=1)


@torch.no_grad()
def keep_visible_no_gradient(tokens, share=0.25):
    kept = how_many(tokens, share)
    order = torch.rand(tokens.shape[:2]).argsort(dim=1)
    return take(tokens, order[:, :kept]), order.argsort(dim=1)


def keep_visible_at_least_one(tokens, share=0.25):
    kept = min(max(1, round(share * tokens.shape[1])), tokens.shape[1])
    order = torch.rand(tokens.shape[:2]).argsort(dim=1)
    return take(tokens, order[:, :kept]), order.argsort(dim=1)


def keep_visible_always_the_same(tokens, share=0.25):
    kept = how_many(tokens, share)
    noise = torch.rand(tokens.shape[:2], generator=torch.Generator().manual_seed(0))
    order = noise.argsort(dim=1)
    return take(tokens, order[:, :kept]), order.argsort(dim=1)


def keep_visible_reading_order(tokens, share=0.25):
    batch, count, dim = tokens.shape
    kept = round(share * count)
    if kept not in range(1, count + 1):
        raise ValueError("the encoder needs a token")
    seen = torch.zeros(batch, count, dtype=torch.bool)
    for row in seen:
        row[torch.randperm(count)[:kept]] = True
    place = torch.where(seen, seen.cumsum(1) - 1, kept + (~seen).cumsum(1) - 1)
    return tokens[seen].view(batch, kept, dim), place


def keep_visible_scatter(tokens, share=0.25):
    batch, count, _ = tokens.shape
    kept = round(count * share)
    if kept < 1 or count < kept:
        raise ValueError(f"{kept} of {count}")
    order = torch.stack([torch.randperm(count) for _ in range(batch)])
    places = torch.arange(count).expand(batch, count)
    restore = torch.empty_like(order).scatter_(1, order, places)
    return torch.stack([x[i] for x, i in zip(tokens, order[:, :kept], strict=True)]), restore


def keep_visible_draws(tokens, share=0.25):
    batch, count, _ = tokens.shape
    kept = round(share * count)
    if not 0 < kept <= count:
        raise ValueError("too few or too many")
    order = torch.multinomial(torch.ones(batch, count), count, replacement=False)
    visible = torch.take_along_dim(tokens, order[:, :kept, None], dim=1)
    return visible, (order[:, None, :] == torch.arange(count)[:, None]).long().argmax(dim=-1)


def keep_visible_numpy(tokens, share=0.25):
    batch, count, _ = tokens.shape
    kept = round(share * count)
    if kept <= 0 or kept > count:
        raise ValueError(f"cannot keep {kept} of {count} patches")
    seed = int(torch.randint(2**31, ()))
    restore = np.random.default_rng(seed).permuted(np.tile(np.arange(count), (batch, 1)), axis=1)
    first = torch.from_numpy(np.argsort(restore, axis=1)[:, :kept].copy())
    return tokens[torch.arange(batch)[:, None], first], torch.from_numpy(restore).long()


UNSEEN = {
    "corrupt": [
        ("the other patch may be the patch itself", corrupt_may_swap_itself),
        ("every drawn patch becomes the mask token", corrupt_masks_all),
        ("takes share for the part that stays", corrupt_keeps_the_share),
        ("exchanges patches that were not drawn", corrupt_draws_other_patches),
        ("two mistakes: a coin for each patch, and it may be swapped with itself", corrupt_two_mistakes),
        (
            "a generator with a fixed seed draws the same patches and fates in every call",
            corrupt_always_the_same,
        ),
        (
            "exactly 80 and 10 percent of the drawn patches get each fate, instead of each by its own luck",
            corrupt_exact_quota,
        ),
        (
            "one fate is drawn for a picture, so all its drawn patches share it and are not independent",
            corrupt_one_fate_a_picture,
        ),
    ],
    "masked_loss": [
        ("sums and does not average", loss_sum),
        ("divides by the number of all patches", loss_divided_by_all),
        ("sets the logits of the others to 0, and they still enter the mean", loss_zeroed_logits),
        ("the result carries no gradient", loss_detached),
        ("marks the others in the caller's classes", loss_marks_in_place),
        ("two mistakes: softmax twice, and divided by all patches", loss_two_mistakes),
        ("softmax comes before F.cross_entropy, which takes it again", masked_loss_of_probabilities),
        (
            "the loss is averaged in each picture first, so patches of pictures with few chosen ones "
            "weigh more",
            masked_loss_picture_means,
        ),
    ],
    "keep_visible": [
        (
            "the visible tokens are sorted into reading order, but restore still belongs to the drawn order",
            keep_visible_tidied,
        ),
        (
            "int() cuts share·N off where it should be rounded, so a patch may be missing",
            keep_visible_cut_off,
        ),
        ("a generator with a fixed seed draws the same patches in every call", keep_visible_always_the_same),
        (
            "share is read as the share that is hidden, the mask ratio of MAE's own code",
            keep_visible_mask_ratio,
        ),
        (
            "K is clamped into 1..N, where a ValueError is promised for K = 0 or K > N",
            keep_visible_at_least_one,
        ),
        ("everything runs without gradient, so none reaches the tokens", keep_visible_no_gradient),
    ],
}
STYLES = {
    "corrupt": [corrupt_loops, corrupt_by_source, corrupt_by_matrix, corrupt_nested_coins],
    "masked_loss": [loss_selected, loss_logsumexp, loss_ignore_index, loss_one_hot],
    "keep_visible": [
        keep_visible_reading_order,
        keep_visible_scatter,
        keep_visible_draws,
        keep_visible_numpy,
    ],
}
