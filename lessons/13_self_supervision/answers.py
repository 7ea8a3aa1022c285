"""Answers to the exercises of lesson 13, written as students write them."""

import torch
import torch.nn.functional as F
from einops import rearrange

from vit_course.beyond.masked import corrupt


def corrupt_loops(tokens, mask_token, share=0.5):
    corrupted = tokens.clone()
    batch, count, _ = tokens.shape
    chosen = torch.zeros(batch, count, dtype=torch.bool)
    for b in range(batch):
        for n in torch.randperm(count)[: round(share * count)].tolist():
            chosen[b, n] = True
            fate = torch.rand(()).item()
            if fate < 0.8:
                corrupted[b, n] = mask_token[0, 0].to(tokens.dtype)
            elif fate < 0.9:
                other = int(torch.randint(0, count - 1, ()))
                corrupted[b, n] = tokens[b, other + (other >= n)]
    return corrupted, chosen


def corrupt_half_of_the_rest(tokens, mask_token, share=0.5):
    batch, count, dim = tokens.shape
    kept = torch.rand(batch, count).topk(count - round(share * count), dim=1).indices
    chosen = torch.ones(batch, count, dtype=torch.bool).scatter(1, kept, False)
    to_mask = chosen & torch.bernoulli(torch.full((batch, count), 0.8)).bool()
    to_swap = chosen & ~to_mask & (torch.rand(batch, count) < 0.5)
    scores = torch.rand(batch, count, count).masked_fill(torch.eye(count, dtype=torch.bool), -1)
    others = tokens[torch.arange(batch)[:, None], scores.argmax(-1)]
    corrupted = tokens.clone()
    corrupted[to_swap] = others[to_swap]
    corrupted[to_mask] = mask_token.reshape(dim).to(tokens.dtype)
    return corrupted, chosen


def corrupt_by_products(tokens, mask_token, share=0.5):
    batch, count, _ = tokens.shape
    chosen = torch.stack([torch.randperm(count) < round(share * count) for _ in range(batch)])
    fate = torch.rand(batch, count)
    to_mask = (chosen & (fate < 0.8))[..., None].to(tokens.dtype)
    to_swap = (chosen & (fate > 0.9))[..., None].to(tokens.dtype)
    step = torch.randint(1, count, (batch, count))
    others = tokens[torch.arange(batch)[:, None], (torch.arange(count) + step) % count]
    mask_token = mask_token.to(tokens.dtype)
    return to_mask * mask_token + to_swap * others + (1 - to_mask - to_swap) * tokens, chosen


def corrupt_other_default(tokens, mask_token, share=0.15):
    return corrupt(tokens, mask_token, share)


def corrupt_in_place(tokens, mask_token, share=0.5):
    corrupted, chosen = corrupt(tokens, mask_token, share)
    tokens[:] = corrupted.detach()
    return tokens, chosen


def count_visible(tokens, share):
    kept = round(share * tokens.shape[1])
    if kept < 1 or kept > tokens.shape[1]:
        raise ValueError(f"{kept} tokens")
    return kept


def visible_in_reading_order(tokens, share=0.25):
    kept = count_visible(tokens, share)
    hidden = torch.ones(tokens.shape[:2], dtype=torch.bool)
    hidden.scatter_(1, torch.rand(tokens.shape[:2]).topk(kept, dim=1).indices, False)
    order = hidden.int().sort(dim=1, stable=True).indices
    restore = torch.empty_like(order).scatter_(1, order, torch.arange(tokens.shape[1]).expand_as(order))
    return tokens[~hidden].reshape(len(tokens), kept, -1), restore


def visible_picture_by_picture(tokens, share=0.25):
    kept = count_visible(tokens, share)
    rows, places = [], []
    for picture in tokens:
        order = torch.randperm(len(picture))
        rows.append(picture[order[:kept]])
        places.append(torch.argsort(order))
    return torch.stack(rows), torch.stack(places)


def visible_by_rank(tokens, share=0.25):
    batch, count, _ = tokens.shape
    kept = count_visible(tokens, share)
    restore = torch.rand(batch, count).argsort(dim=1)
    places = (restore[:, None, :] == torch.arange(kept)[None, :, None]).to(tokens.dtype)
    return places @ tokens, restore


def visible_in_place(tokens, share=0.25):
    order = torch.rand(tokens.shape[:2]).argsort(dim=1)
    tokens[:] = tokens.detach().gather(1, order[..., None].expand_as(tokens))
    return tokens[:, : count_visible(tokens, share)], order.argsort(dim=1)


def loss_selected(logits, classes, chosen):
    return F.cross_entropy(logits[chosen], classes[chosen])


def loss_ignored(logits, classes, chosen):
    targets = classes.masked_fill(~chosen, -100)
    return F.cross_entropy(rearrange(logits, "b n k -> b k n"), targets)


def loss_by_hand(logits, classes, chosen):
    log_shares = logits - logits.logsumexp(dim=-1, keepdim=True)
    found = -log_shares.gather(-1, classes[..., None])[..., 0]
    return (found * chosen).sum() / chosen.sum()


def loss_loop(logits, classes, chosen):
    total, count = 0.0, 0
    for b in range(chosen.shape[0]):
        for n in range(chosen.shape[1]):
            if chosen[b, n]:
                total = total - logits[b, n].log_softmax(0)[classes[b, n]]
                count += 1
    return total / count


WRONG = {
    "corrupt": [
        ("changes its input in place", corrupt_in_place),
        ("the default of `share` should be 0.5", corrupt_other_default),
    ],
    "keep_visible": [("changes its input in place", visible_in_place)],
}
RIGHT = {
    "corrupt": [corrupt_loops, corrupt_half_of_the_rest, corrupt_by_products],
    "keep_visible": [visible_in_reading_order, visible_picture_by_picture, visible_by_rank],
    "masked_loss": [loss_selected, loss_ignored, loss_by_hand, loss_loop],
}
