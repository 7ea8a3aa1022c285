"""Answers to the exercises of lesson 13, written as students write them."""

import torch
import torch.nn.functional as F
from einops import rearrange

from vit_classroom.checks import lesson_part
from vit_classroom.checks.edits import edited
from vit_course.extensions.masked import PixelDecoder

checks = lesson_part("13_self_supervision", "checks")


def by_place(row, restore):
    return row.gather(1, restore[..., None].expand_as(row))


def with_masks(module, row, hidden):
    return torch.cat([row, module.mask_token.expand(len(row), hidden, -1)], dim=1)


def read_out(module, tokens):
    for block in module.blocks:
        tokens = block(tokens)
    return module.predict(module.norm(tokens))


def count_visible(tokens, share):
    kept = round(share * tokens.shape[1])
    if kept < 1 or kept > tokens.shape[1]:
        raise ValueError(f"{kept} tokens")
    return kept


def visible_in_reading_order(tokens, share=0.25):
    kept = count_visible(tokens, share)
    hidden, draw = torch.ones_like(tokens[..., 0], dtype=torch.bool), torch.rand_like(tokens[..., 0])
    hidden.scatter_(1, draw.topk(kept, dim=1).indices, False)
    order = hidden.int().sort(dim=1, stable=True).indices
    restore = torch.empty_like(order).scatter_(
        1, order, torch.arange(tokens.shape[1], device=tokens.device).expand_as(order)
    )
    return tokens[~hidden].reshape(len(tokens), kept, -1), restore


def visible_by_rank(tokens, share=0.25):
    batch, count, _ = tokens.shape
    kept = count_visible(tokens, share)
    restore = torch.rand(batch, count, device=tokens.device).argsort(dim=1)
    places = (restore[:, None] == torch.arange(kept, device=restore.device)[:, None]).to(tokens.dtype)
    return places @ tokens, restore


def visible_in_place(tokens, share=0.25):
    order = torch.rand(tokens.shape[:2]).argsort(dim=1)
    tokens[:] = tokens.detach().gather(1, order[..., None].expand_as(tokens))
    return tokens[:, : count_visible(tokens, share)], order.argsort(dim=1)


def loss_zeroed_logits(logits, classes, chosen):
    return F.cross_entropy((logits * chosen[..., None]).flatten(0, 1), (classes * chosen).flatten())


def loss_marks_in_place(logits, classes, chosen):
    classes[~chosen] = -100
    return F.cross_entropy(logits.transpose(1, 2), classes)


class DecoderWithGivenRow(PixelDecoder):
    """Writes into one row of mask tokens by place, with a loop over the images."""

    def forward(self, visible, restore):
        batch, kept, _ = visible.shape
        z = self.mask_token.repeat(batch, restore.shape[1], 1)
        small = self.embed(visible)
        rows = []
        for b in range(batch):
            own = restore[b].argsort()[:kept]  # which patches are visible, as they come
            rows.append(z[b].index_copy(0, own, small[b]))
        return read_out(self, torch.stack(rows) + self.pos_embed)


class DecoderChooses(PixelDecoder):
    """Chooses between the visible token and the mask token with `where`."""

    def forward(self, visible, restore):
        kept = visible.shape[1]
        index = restore.clamp(max=kept - 1)[..., None].expand(-1, -1, self.mask_token.shape[-1])
        seen = (restore < kept)[..., None]
        tokens = torch.where(seen, self.embed(visible).gather(1, index), self.mask_token) + self.pos_embed
        return self.predict(self.norm(torch.nn.Sequential(*self.blocks)(tokens)))


class DecoderMasksBeforeEmbed(PixelDecoder):
    """Puts mask tokens, of width W, behind the visible ones before these are brought to width W."""

    def forward(self, visible, restore):
        row = self.embed(with_masks(self, visible, restore.shape[1] - visible.shape[1]))
        return read_out(self, by_place(row, restore) + self.pos_embed)


class DecoderOfAQuarter(PixelDecoder):
    """Fixes the share of visible patches at a quarter."""

    def forward(self, visible, restore):
        row = with_masks(self, self.embed(visible), 3 * visible.shape[1])
        tokens = row.gather(1, restore[..., None].expand(-1, -1, row.shape[-1]))
        return read_out(self, tokens + self.pos_embed)


DISSECTED = ("sets the logits of the others to 0, and they still enter the mean", loss_zeroed_logits)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "PixelDecoder": [
        ("your code stopped with", DecoderMasksBeforeEmbed),
        ("your code stopped with", DecoderOfAQuarter),
        (
            "no gradient reaches the weights mask_token",
            edited(PixelDecoder, "self.mask_token.expand => self.mask_token.data.expand"),
        ),
    ],
    "keep_visible": [("changes its input in place", visible_in_place)],
    "masked_loss": [
        ("your code changes its input in place (argument 2): whoever called it", loss_marks_in_place),
        (
            "you returned",
            lambda z, y, chosen: (F.cross_entropy(z.softmax(-1).mT, y, reduction="none") * chosen).mean(),
        ),
    ],
}
RIGHT = {
    "PixelDecoder": [DecoderWithGivenRow, DecoderChooses],
    "keep_visible": [visible_in_reading_order, visible_by_rank],
    "masked_loss": [
        checks.loss_in_steps,
        lambda z, y, chosen: F.cross_entropy(z[chosen], y[chosen]),
        lambda z, y, chosen: F.cross_entropy(rearrange(z, "b n k -> b k n"), y.masked_fill(~chosen, -100)),
    ],
}
