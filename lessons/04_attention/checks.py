"""Checks of lesson 04: self-attention with many heads."""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from vit_classroom.checks.edits import Mistakes, edited
from vit_classroom.checks.outcome import Mistake, build, first_of, outcome, spread_weights
from vit_classroom.checks.shared_checks import check_keyword, shared_draw
from vit_classroom.checks.task import demand, exercise, keeps_settings, learns, refuses, results
from vit_classroom.checks.words import difference
from vit_classroom.exhibits.heads import attend_in_heads
from vit_course.attention import MultiHeadAttention, merge_heads, scaled_dot_product_attention, split_heads

# -- scaled_dot_product_attention

SMALL = tuple(torch.tensor(rows) for rows in ([[2.0, 0], [0, 4]], [[1.0, 0], [1, 1]], [[10.0, 0], [0, 20]]))
known = Mistakes(__file__, scaled_dot_product_attention, split_heads, merge_heads, attend_in_heads)
attended = results(
    lambda: [
        SMALL,
        (*torch.randn(3, 2, 2, 2),),  # all axes are equal, so `k.T` does not stop
        (torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 2)),
        (*torch.randn(3, 2, 5, 8),),
        (*torch.randn(3, 2, 3, 4, 6),),
        (torch.randn(2, 3, 4, 8), torch.randn(2, 3, 6, 8), torch.randn(2, 3, 6, 5)),
        (*torch.randn(3, 2, 5, 3, 4).transpose(2, 3),),  # what split_heads returns: not contiguous
        (*torch.randn(3, 2, 1, 2, 5, 4),),
    ],
    known("scaled_dot_product_attention results"),
    device=True,
)


@demand(known("scaled_dot_product_attention large"))
def stands_large_scores(answer):
    for sign in (1, -1):
        large = (sign * torch.tensor([[300.0, 0], [0, 1]]), torch.tensor([[10.0, 1], [9, 2]]), torch.eye(2))
        if difference(answer(*large), scaled_dot_product_attention(*large)):
            raise Mistake(
                "with scores in the thousands your softmax overflows, divides 0 by 0 or cuts scores off, because in "
                "float32 exp(89) is infinite and exp(-110) is 0. Subtract the largest score of *each row* first, or "
                "use `.softmax(dim=-1)`, which does this"
            )


exercise(
    scaled_dot_product_attention,
    attended,
    stands_large_scores,
    learns(lambda: (*torch.randn(3, 4, 6),)),
    learns(lambda: (*torch.randn(3, 4, 6),), part=1, where="on the second result, the weights"),
)

# -- split_heads and merge_heads

SHARE = "{} heads cannot share D = {} numbers: keep the first line, which rejects them by check_heads"

exercise(
    split_heads,
    results(
        lambda: [
            (torch.tensor([[[0.0, 1], [10, 11]]]), 2),
            (torch.randn(2, 5, 6), 3),
            (torch.randn(3, 4, 12), 4),
            (torch.randn(2, 3, 4), 1),
            (torch.randn(2, 6, 10).transpose(1, 2)[:, :6], 2),
        ],
        known("split_heads results"),
        device=True,
    ),
    refuses(
        (torch.zeros(2, 4, 6), 4),
        SHARE.format(4, 6),
        *known("split_heads refuses")["refused"],
    ),
    refuses((torch.zeros(2, 4, 10), 3), SHARE.format(3, 10)),
    learns(lambda: (torch.randn(2, 5, 6), 3)),
)

exercise(
    merge_heads,
    results(
        lambda: [
            (torch.tensor([[[[0.0, 1], [10, 11]], [[2, 3], [12, 13]]]]),),
            (torch.randn(2, 3, 5, 2),),
            (torch.randn(2, 4, 3, 1),),
            (torch.randn(3, 1, 4, 6),),
            (torch.randn(2, 5, 3, 4).transpose(1, 2),),
        ],
        known("merge_heads results"),
        device=True,
    ),
    learns(lambda: (torch.randn(2, 3, 5, 2),)),
)

# -- attend_in_heads

exercise(
    attend_in_heads,
    results(
        lambda: [
            (*torch.tensor([[[[1.0, 0], [0, 2]]], [[[1.0, 1], [0, 1]]], [[[10.0, 0], [0, 20]]]]), 2),
            (*torch.randn(3, 2, 5, 6), 3),
            (*torch.randn(3, 3, 4, 12), 4),
            (*torch.randn(3, 2, 3, 4), 1),
        ],
        known("attend_in_heads results"),
        device=True,
    ),
    learns(lambda: (*torch.randn(3, 2, 5, 6), 3)),
    learns(lambda: (*torch.randn(3, 2, 5, 6), 3), part=1, where="on the second result, the weights"),
)

# -- MultiHeadAttention


class Plain(MultiHeadAttention):
    """The layer step by step, so that an edit can change one of the steps."""

    def forward(self, x, return_attention=False):
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1)
        dropped = F.dropout(weights, self.attn_drop, self.training)
        merged = merge_heads(dropped @ v)
        out = self.proj_drop(self.proj(merged))
        return (out, weights) if return_attention else out


class Fused(MultiHeadAttention):
    """The layer with PyTorch's own attention."""

    def forward(self, x, return_attention=False):
        if return_attention:
            return Plain.forward(self, x, True)
        rate = self.attn_drop if self.training else 0.0
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        return self.proj_drop(self.proj(merge_heads(F.scaled_dot_product_attention(q, k, v, dropout_p=rate))))


known.right["Plain"] = Plain


@demand(
    known(
        "MultiHeadAttention/Plain evaluation",
        ("dropout is active at evaluation", edited(Fused, " if self.training else 0.0 =>")),
    )
)
def draws_nothing_at_evaluation(answer):
    def twice(module_class: type, wanted: bool) -> list:
        module = build(module_class, dim=12, num_heads=2, attn_drop=0.5, proj_drop=0.5).eval()
        return [first_of(module(x.clone(), wanted)) for _ in range(2)]

    x = torch.randn(2, 5, 12)
    for wanted in (False, True):
        runs = outcome(twice, answer, (wanted,))
        if isinstance(runs, list) and isinstance(runs[0], Tensor) and not torch.equal(*runs):
            raise Mistake(
                "dropout is active at evaluation. Give F.dropout `self.training` as its third argument, and a fused "
                "attention the rate 0.0 when the module does not train; or leave dropout out here"
            )


@demand(known("MultiHeadAttention/Plain keyword"))
def takes_return_attention(answer):
    check_keyword(answer, {"dim": 12, "num_heads": 2}, torch.randn(2, 5, 12))


@demand(known("MultiHeadAttention/Plain weights"))
def drops_weights_or_nothing(answer):
    """The exercise leaves dropout out. An answer that has it all the same must drop weights, each by itself."""
    for wanted in (False, True):
        how = f"with attn_drop=0.25 and return_attention={wanted}"
        module = build(answer, dim=32, num_heads=2, attn_drop=0.25).train()
        weights, returned = dropped_weights(module, wanted)
        if wanted and difference(returned, torch.full_like(returned, 0.2)):
            raise Mistake(
                "you return the weights after dropout, and their rows do not sum to 1. Return the weights before it"
            )
        if torch.allclose(weights, torch.tensor(0.2), atol=1e-4):
            demand_no_draw(module, how)
        else:
            demand_free_draws(weights, dropped_weights(module, wanted)[0], how)


def demand_no_draw(module: nn.Module, how: str) -> None:
    """Demand that a module which drops no weight draws nothing elsewhere."""
    x = torch.randn(2, 5, 32)
    spread_weights(module)
    if not torch.equal(first_of(module(x)), first_of(module(x))):
        raise Mistake(
            f"{how} something is drawn, but no attention weight is dropped. F.dropout belongs on the weights, after "
            "the softmax, because a *score* of 0 does not give a weight of 0. You may also leave dropout out here"
        )


def demand_free_draws(weights: Tensor, again: Tensor, how: str) -> None:
    """Demand of weights (2, B, h, T, T), read off two halves of a result, and of those of a second pass, free draws."""
    dropped, kept = weights[0].abs() < 1e-6, torch.isclose(weights[0], torch.tensor(0.2 / 0.75), atol=1e-4)
    share = dropped.double().mean().item()
    if torch.equal(weights, again):
        raise Mistake(f"{how} two passes drop the same weights. Set no seed in `forward`, and store no draw")
    if difference(*weights):
        raise Mistake(
            f"{how} numbers of the *result* are dropped by `attn_drop`. It is the rate for the weights, before they "
            "are multiplied with v; `self.proj_drop` comes after `self.proj`"
        )
    if name := shared_draw(dropped, ~dropped, ("images", "heads", "queries", "keys")):
        raise Mistake(
            f"{how} two {name} share one draw. Each of the (B, h, T, T) weights is dropped by itself, so give "
            "F.dropout the weights themselves, not a smaller tensor"
        )
    if not (dropped | kept).all() or abs(share - 0.25) > 0.06:
        raise Mistake(
            f"{how} a quarter of the weights should become 0, and the others 1 / 0.75 times as large. Of yours "
            f"{share:.0%} are 0. `F.dropout` does both, so change nothing after it"
        )


def dropped_weights(module: nn.Module, wanted: bool) -> tuple[Tensor, Tensor | None]:
    """Read the dropped weights, twice (2, B, h, T, T), off the output; return the weights that the module returns too.

    All scores are 0, the value of each token is a unit vector written twice, and nothing is mixed after it.
    """
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        module.qkv.weight[64:] = torch.eye(32)
        module.proj.weight.copy_(torch.eye(32))
        result = module(torch.eye(8)[:5].repeat(60, 1, 4), wanted)
    output = rearrange(first_of(result), "b t (h twice s) -> twice b h t s", h=2, twice=2)
    return output[..., :5], result[1] if wanted else None


@demand(known("MultiHeadAttention/Plain result"))
def drops_the_result_last_or_not(answer):
    for wanted in (False, True):
        module, x = spread_weights(build(answer, dim=16, num_heads=2, proj_drop=0.25)), torch.randn(64, 8, 16)
        quiet, noisy = (first_of(module.train(mode)(x, wanted)) for mode in (False, True))
        kept = noisy != 0
        if torch.equal(quiet, noisy):  # left out, as the exercise says
            continue
        if not 0.69 < kept.double().mean() < 0.81 or difference(noisy[kept], quiet[kept] / 0.75):
            raise Mistake(
                "`self.proj_drop` belongs in one place only, the last step, after `self.proj`. In training with "
                "proj_drop=0.25 a quarter of the result is 0, and the rest is 1 / 0.75 times as large"
            )


SMALLEST, WIDE = {"dim": 4, "num_heads": 2}, {"dim": 12, "num_heads": 2}
DROPS = WIDE | {"attn_drop": 0.25, "proj_drop": 0.5}
exercise(
    MultiHeadAttention,
    takes_return_attention,
    draws_nothing_at_evaluation,
    results(
        lambda: [
            (SMALLEST, torch.randn(2, 3, 4)),
            (SMALLEST, torch.randn(2, 3, 4), True),
            ({"dim": 12, "num_heads": 3}, torch.randn(2, 5, 12)),
            ({"dim": 12, "num_heads": 4, "qkv_bias": False}, torch.randn(1, 5, 12), True),
            (WIDE, torch.randn(2, 5, 12)),
            (WIDE, torch.randn(2, 5, 12), True),
            ({"dim": 6, "num_heads": 1}, torch.randn(3, 1, 6)),
            (WIDE, 8 * torch.randn(2, 5, 12), True),
            ({"dim": 6, "num_heads": 2}, torch.randn(2, 6, 5).transpose(1, 2)),
            (DROPS, torch.randn(2, 5, 12)),
            (DROPS, torch.randn(2, 5, 12), True),
        ],
        known("MultiHeadAttention/Plain results"),
    ),
    refuses(
        (6, 4),
        "4 heads cannot share D = 6 numbers: keep the line with check_heads in `__init__`",
        edited(MultiHeadAttention, "check_heads(dim, num_heads) => pass"),
    ),
    keeps_settings(MultiHeadAttention, {"dim": 12, "num_heads": 2, "attn_drop": 0.25}, "attn_drop"),
    drops_weights_or_nothing,
    drops_the_result_last_or_not,
)
