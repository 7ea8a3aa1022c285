"""Checks of lesson 13: the loss of masked patches, and the two ends of a masked autoencoder."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from vit_classroom.checks.compare import compare_gradients
from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, outcome
from vit_classroom.checks.task import any_device, demand, exercise, refuses, results
from vit_course.extensions.masked import PixelDecoder, keep_visible, masked_loss

# -- keep_visible


def numbered(batch: int, count: int, dim: int) -> Tensor:
    """Tokens that say whose they are: number 0 the place from 1 on, number 1 the picture, others minus the place."""
    tokens = torch.arange(1.0, count + 1, dtype=torch.double)[:, None].repeat(batch, 1, dim)
    tokens[..., 1] = torch.arange(1, batch + 1)[:, None]
    tokens[..., 2:] *= -1
    return tokens


def demand_random(shown: Tensor, kept: int) -> None:
    """Demand that pictures differ, that all places stay visible equally often, and all pairs of places too."""
    if (shown == shown[0]).all():
        raise Mistake("you keep the same patches in all pictures of a batch: draw anew for every picture")
    if torch.equal(*shown.chunk(2)):
        raise Mistake("the second half of the batch keeps the patches of the first: draw for every picture")
    often = shown.double().mean(dim=0) * shown.shape[1] / kept  # 1, with a deviation of .02
    if (often - 1).abs().max() > 0.12:
        raise Mistake(f"patch {often.argmax()} is kept too often: every patch should have the same chance")
    pairs = shown.double().T @ shown.double() / len(shown)
    usual = kept * (kept - 1) / shown.shape[1] / (shown.shape[1] - 1)
    if pairs.roll(-1, 1).diagonal()[:-1].min() > 1.6 * usual:
        raise Mistake(f"you keep patches that stand side by side: sets of {kept} should be equally likely")
    pairs.fill_diagonal_(usual)
    if (pairs / usual - 1).abs().max() > 0.6:
        raise Mistake(f"some patches are kept together too often: sets of {kept} should be equally likely")


def keep_by(
    draw=lambda b, n: torch.rand(b, n).argsort(1),
    first=lambda order, kept: order[:, :kept],
    restore=lambda order, kept: order.argsort(1),
    take=lambda tokens, index: tokens.gather(1, index[..., None].expand(-1, -1, tokens.shape[-1])),
) -> Callable:
    """Return a `keep_visible` that draws an order (B, N), cuts, leads back and takes tokens in these ways."""

    def answer(tokens, share=0.25):
        batch, count, _ = tokens.shape
        kept, order = round(share * count), draw(batch, count)
        if not 1 <= kept <= count:
            raise ValueError("no token is left")
        return take(tokens, first(order, kept)), restore(order, kept)

    return answer


def hides_with_zeros(tokens, share=0.25):
    visible, restore = keep_visible(tokens, share)
    return tokens * (restore < visible.shape[1])[..., None], restore


def seeded_order(b, n):
    torch.default_generator.manual_seed(0)
    return torch.rand(b, n).argsort(1)


def kept_by(answer, tokens: Tensor, share: float, where: str) -> tuple[Tensor, Tensor]:
    """Run an answer once and demand two tensors of the right shapes and types."""
    result = outcome(lambda f, *case: f(*case), answer, (tokens, share))
    if isinstance(result, Exception):
        raise stopped(result, where)
    if not isinstance(result, tuple | list) or [isinstance(x, Tensor) for x in result] != [True, True]:
        raise Mistake("return two tensors, the visible tokens and `restore`")
    visible, restore = result
    (batch, count, _), kept = tokens.shape, round(share * tokens.shape[1])
    if visible.shape == tokens.shape and kept < count:
        raise Mistake(
            f"{where}you return {count} tokens of each picture, hidden ones too: the encoder should not get them at "
            f"all, so `visible` is (B, K, D) with K = {kept}"
        )
    marked = restore.shape == (batch, count) and restore.unique().numel() == 2 < count
    largest = set((restore == restore.max()).sum(dim=1).tolist()) if marked else {}
    if restore.dtype == torch.bool or largest in ({kept}, {count - kept}):
        raise Mistake(
            "`restore` should hold places, whole numbers from 0 to N - 1; yours tells only which patches are visible"
        )
    if restore.shape == (batch, kept) != (batch, count):
        raise Mistake(
            f"{where}your `restore` has {kept} numbers, the patches that stayed: it needs all {count}, hidden ones too"
        )
    if restore.shape != (batch, count):
        raise Mistake(f"{where}`restore` should be (B, N) = {(batch, count)}, it is {tuple(restore.shape)}")
    demand_kept(visible, tokens, kept, where)
    if visible.dtype != tokens.dtype:
        raise Mistake(f"the tokens should stay {tokens.dtype}, as they came; yours are {visible.dtype}")
    if restore.is_floating_point() or restore.dtype != torch.int64:
        raise Mistake(f"`restore` should be int64, as `gather` wants it; yours is {restore.dtype}")
    if (restore.sort(dim=1).values != torch.arange(count)).any():
        raise Mistake(f"{where}`restore` should hold 0 ... N - 1 for every picture, each once")
    return visible.detach(), restore


def demand_kept(visible: Tensor, tokens: Tensor, kept: int, where: str) -> None:
    """Demand K tokens of every picture, each a whole token of this picture, and none twice."""
    batch, count, dim = tokens.shape
    if visible.ndim == 3 and visible.shape[1] != kept and visible.shape[::2] == (batch, dim):
        raise Mistake(f"{where}{visible.shape[1]} tokens stay visible, and it should be K = {kept}, `kept`")
    if visible.shape == (batch, batch, kept, dim):
        raise Mistake(
            f"{where}`visible` has an axis too many, {tuple(visible.shape)}: `tokens[:, index]` takes the index of "
            "every picture from all pictures. `gather`, or `tokens[torch.arange(B)[:, None], index]`, goes row by row"
        )
    if visible.shape != (batch, kept, dim):
        raise Mistake(
            f"{where}`visible` should be (B, K, D) = {(batch, kept, dim)}, yours is {tuple(visible.shape)}. `gather` "
            "returns the shape of its index, so give that an axis D: `index[..., None].expand(-1, -1, D)`"
        )
    names = visible[..., 0].round()
    mixed = (visible[..., 2:] != -visible[..., :1]).any()
    if mixed or (names != visible[..., 0]).any() or names.min() < 1 or names.max() > count:
        raise Mistake(f"{where}a visible token is not the token of a patch: take whole tokens, unchanged")
    if (visible[..., 1] != tokens[:, :1, 1]).any():
        raise Mistake("a visible token comes from another picture of the batch: each picture keeps its own")
    if any(len(row.unique()) < kept for row in names):
        raise Mistake(
            f"{where}a patch is visible twice: draw without repeats, the first ones of a random order for each "
            "picture, dim=1"
        )


def demand_way_back(visible: Tensor, restore: Tensor, tokens: Tensor, where: str) -> None:
    """Demand that `restore` puts visible tokens back into their places."""
    (batch, kept, _), count = visible.shape, restore.shape[1]
    own = visible[..., 0].long() - 1

    def fits(restore: Tensor, first: Tensor) -> bool:
        return torch.equal(restore.gather(1, own), first.expand(batch, -1))

    if fits(restore, torch.arange(kept)):
        return
    if fits(restore.argsort(1), torch.arange(kept)):
        raise Mistake(
            f"{where}`restore` tells which patch stands at each place of the row; it should be the way back, at "
            "which place each patch stands: the inverse of the order, `order.argsort(dim=1)`"
        )
    if any(fits(r, torch.arange(count - kept, count)) for r in (restore, restore.argsort(1))):
        raise Mistake(
            f"{where}`restore` expects the visible tokens at the end of the row: they come first, then the hidden ones"
        )
    if torch.equal((restore < kept).gather(1, own), torch.ones_like(own, dtype=torch.bool)):
        raise Mistake(
            f"{where}`restore` finds the visible patches, but in another order than that of `visible`: take the first "
            "K of the same order for both, before any sorting"
        )
    raise Mistake(
        f"{where}`restore` and `visible` fit no common order: draw one for each picture, without repeats (`argsort` of "
        "random numbers, not `randint`), and make both of it"
    )


@demand(
    {
        "return two tensors": lambda *case: keep_visible(*case)[0],
        "hidden ones too": hides_with_zeros,
        "yours tells only which patches are visible": [
            lambda *case: ((found := keep_visible(*case))[0], found[1] < found[0].shape[1]),
            lambda *case: ((found := keep_visible(*case))[0], (found[1] < found[0].shape[1]).long()),
        ],
        "the patches that stayed: it needs all 8": keep_by(restore=lambda order, kept: order[:, :kept]),
        "tokens stay visible, and it should be K": keep_by(first=lambda order, kept: order[:, kept:]),
        "give that an axis D": keep_by(take=lambda tokens, index: tokens.gather(1, index[..., None])),
        "has an axis too many": keep_by(take=lambda tokens, index: tokens[:, index]),
        "from another picture of the batch": keep_by(
            take=lambda tokens, index: tokens.flatten(0, 1)[index.flatten()].view(*index.shape, -1)
        ),
        "a patch is visible twice": keep_by(first=lambda order, kept: order[:, :kept] // 2),
        "take whole tokens, unchanged": [
            keep_by(take=lambda tokens, index: tokens[:, : index.shape[1]] * 0),
            keep_by(take=lambda x, i: x.gather(1, torch.rand(x.shape).argsort(1)[:, : i.shape[1]])),
            lambda *case: ((found := keep_visible(*case))[0].sort(dim=1).values, found[1]),
        ],
        "each once": keep_by(restore=lambda order, kept: order.argsort(1) // 2),
        "at which place each patch stands": keep_by(restore=lambda order, kept: order),
        "expects the visible tokens at the end of the row": keep_by(
            first=lambda order, kept: order[:, -kept:]
        ),
        "in another order than that of `visible`": keep_by(
            first=lambda order, kept: order[:, :kept].sort(dim=1).values
        ),
        "fit no common order: draw one for each picture": keep_by(
            restore=lambda order, kept: torch.rand(order.shape).argsort(1)
        ),
        "the same patches in all pictures": [
            keep_by(draw=lambda b, n: torch.randperm(n).expand(b, n)),
            keep_by(draw=lambda b, n: torch.arange(n).expand(b, n)),
        ],
        "every patch should have the same chance": keep_by(
            draw=lambda b, n: (torch.rand(b, n) * torch.arange(2, n + 2)).argsort(1)
        ),
        "patches that stand side by side": keep_by(
            draw=lambda b, n: (torch.arange(n) + torch.randint(0, n, (b, 1))) % n
        ),
        "the second half of the batch keeps the patches of the first": keep_by(
            draw=lambda b, n: torch.rand(-(-b // 2), n).argsort(1).repeat(2, 1)[:b]
        ),
        "set no seed and keep no order": keep_by(draw=seeded_order),
    }
)
def keeps_a_random_share(answer):
    for batch, count, dim, share in [
        (2, 8, 4, 0.25),
        (3, 7, 4, 0.25),
        (2, 5, 3, 1.0),
        (6000, 8, 2, 0.25),
        (5, 12, 3, 0.75),
        (2, 9, 2, 0.125),
        (1, 6, 2, 0.5),
    ]:
        tokens = numbered(batch, count, dim)
        where = f"with {batch} pictures of {count} patches, share {share:g}: "
        visible, restore = kept_by(answer, tokens, share, where)
        demand_way_back(visible, restore, tokens, where)
        if batch > 100:
            demand_random(restore < visible.shape[1], visible.shape[1])
    first, second = (kept_by(answer, numbered(8, 20, 2), 0.5, "")[1] for _ in range(2))
    if torch.equal(first, second):
        raise Mistake("two calls keep the same patches: set no seed and keep no order")


@demand({"no gradient reaches `tokens`": lambda tokens, share=0.25: keep_visible(tokens.detach(), share)})
def lets_gradients_through(answer):
    visible, _ = kept_by(answer, numbered(2, 6, 2).requires_grad_(), 0.5, "")
    tokens = numbered(2, 6, 2).requires_grad_()
    visible = answer(tokens, 0.5)[0]
    gradient = torch.autograd.grad(visible.sum(), tokens)[0] if visible.requires_grad else torch.zeros(1)
    if gradient.sum().item() != visible.numel():
        raise Mistake(
            "no gradient reaches `tokens`, or not from every visible one: leave out `detach`, `.data`, `torch.no_grad`"
        )


def at_least_one(tokens, share=0.25):
    return keep_visible(tokens, max(share, 1 / tokens.shape[1]))


def at_most_all(tokens, share=0.25):
    return keep_visible(tokens, min(share, 1.0))


exercise(
    keep_visible,
    keeps_a_random_share,
    lets_gradients_through,
    any_device(
        (numbered(4, 8, 2),),
        "your random numbers and places lie on the CPU, wherever `tokens` is: give `torch.rand` the argument "
        "`device=tokens.device`",
        keep_by(),
    ),
    refuses((numbered(2, 4, 2), 0.1), "a share of 0.1 of 4 patches leaves none to read", at_least_one),
    refuses((numbered(2, 4, 2), 1.5), "1.5 of 4 patches would be 6: there are only 4", at_most_all),
)

# -- masked_loss


def losses(logits, classes):
    return F.cross_entropy(logits.transpose(1, 2), classes, reduction="none")


def right_of(logits, classes):
    """Return the probability of the right class of each patch."""
    return logits.softmax(-1).gather(-1, classes[..., None])[..., 0]


def reshaped(logits, classes, chosen):
    b, n, k = logits.shape
    return F.cross_entropy(logits.reshape(b, k, n), classes, reduction="none")[chosen].mean()


def clipped(keep):
    """Return a loss whose probabilities are kept away from 0 in this way."""
    return lambda z, y, chosen: -keep(right_of(z, y)).log()[chosen].mean()


def as_many_as_in_the_first(logits, classes, chosen):
    places = chosen.int().topk(int(chosen[0].sum()), dim=1).indices
    return losses(logits, classes).gather(1, places).mean()


def patches_compete(logits, classes, chosen):
    logs = logits.flatten(1).log_softmax(1).view_as(logits)
    return -logs.gather(2, classes[..., None])[..., 0][chosen].mean()


def shared_by(count: Callable) -> Callable:
    """Return a loss that divides the sum of the wanted losses by what `count` makes of the logits and `chosen`."""
    return lambda z, y, chosen: losses(z, y)[chosen].sum() / count(z, chosen)


def by_picture(least: int) -> Callable:
    """Return a loss that averages within each picture first, over at least so many patches."""
    return lambda z, y, chosen: ((losses(z, y) * chosen).sum(1) / chosen.sum(1).clamp(min=least)).mean()


def zeroed(logits, classes, chosen):
    return losses(logits * chosen[..., None], classes).mean()


def squared(logits, classes, chosen):
    wanted = F.one_hot(classes, logits.shape[-1]).float()
    return (logits - wanted).square()[chosen].mean()


def as_scalar(function, *inputs):
    """Return the loss, and refuse a plain number, and one number in an axis."""
    loss = function(*inputs)
    if isinstance(loss, float):
        raise Mistake("return the loss as a tensor: a plain number (`.item()`, `float`) has no gradient")
    if isinstance(loss, Tensor) and loss.shape == (1,):
        raise Mistake("return a scalar, a tensor of shape (): yours has the shape (1,)")
    return loss


def loss_cases():
    generator = torch.Generator().manual_seed(3)

    def case(batch, count, classes, chosen):
        logits = 3 * torch.randn(batch, classes, count, generator=generator).mT  # as a slice, not in order
        return logits, torch.randint(0, classes, (batch, count), generator=generator), chosen

    confident = torch.tensor([[[300.0, 0.0, -300.0], [0.0, 1.0, 2.0], [300.0, 0.0, 0.0]]])
    return [
        case(1, 3, 3, torch.tensor([[True, False, True]])),
        case(2, 4, 5, torch.tensor([[True, False, False, False], [True, True, True, False]])),
        case(3, 6, 6, torch.tensor([[False] * 6, [True, False, True, True, False, False], [True] * 6])),
        case(4, 9, 512, torch.rand(4, 9, generator=generator) < 0.5),
        case(2, 3, 4, torch.ones(2, 3, dtype=torch.bool)),
        (confident, torch.tensor([[1, 0, 0]]), torch.ones(1, 3, dtype=torch.bool)),
    ]


@demand(
    {
        "no gradient reaches": lambda logits, *rest: masked_loss(logits.detach(), *rest),
        "return the loss as a tensor": lambda *case: masked_loss(*case).item(),
        "a tensor of shape ()": lambda *case: masked_loss(*case)[None],
    }
)
def sends_gradients_back(answer):
    for inputs in loss_cases():
        outcome(as_scalar, answer, inputs)
        compare_gradients(answer, masked_loss, inputs)


exercise(
    masked_loss,
    results(
        loss_cases,
        {
            "you average over all patches: others can be copied, so only corrupted ones count": (
                lambda z, y, chosen: losses(z, y).mean()
            ),
            "you score the patches that were *not* corrupted: turn `chosen` round": [
                lambda z, y, chosen: losses(z, y)[~chosen].mean(),
                lambda z, y, chosen: losses(z, y)[~chosen].sum() / (~chosen).sum().clamp(min=1),
            ],
            "patches of class 0 are lost: 0 is a class like the others, and cannot mark those that do not count": (
                lambda logits, classes, chosen: F.cross_entropy(
                    logits.transpose(1, 2), classes.masked_fill(~chosen, 0), ignore_index=0
                )
            ),
            "probabilities are cut off near 0, so a confident mistake costs too little and sends no gradient": [
                clipped(lambda p: p.clamp(1e-7, 1 - 1e-7)),
                *(clipped(lambda p, least=least: p.clamp(min=least)) for least in (1e-8, 1e-9, 1e-12)),
                *(clipped(lambda p, least=least: p + least) for least in (1e-7, 1e-8, 1e-9, 1e-12)),
            ],
            "you divide by B times the number of corrupted patches of the *first* picture: count those of all": [
                shared_by(lambda z, chosen: len(chosen) * chosen[0].sum().clamp(min=1)),
                shared_by(lambda z, chosen: len(chosen) * chosen[0].sum()),
            ],
            "you take as many patches of each picture as are corrupted in the *first*: pictures differ in their "
            "number": as_many_as_in_the_first,
            "the softmax runs over all patches of a picture together: each patch has a softmax of its own, over its K "
            "classes": patches_compete,
            "the softmax runs over the patches: it runs over the K classes, dim=-1": [
                lambda z, y, chosen: F.nll_loss(z.log_softmax(1)[chosen], y[chosen]),
                lambda z, y, chosen: F.nll_loss(z[chosen].log_softmax(0), y[chosen]),
            ],
            "you average the probabilities and take the logarithm then: each patch has a logarithm, and these are "
            "averaged": lambda z, y, chosen: -right_of(z, y)[chosen].mean().log(),
            "you divide by the number of all patches, B·N: divide by the number of corrupted ones": shared_by(
                lambda z, chosen: chosen.numel()
            ),
            "you set the logits of the others to 0, and they still count, with ln K each: leave them out": [
                zeroed,
                lambda *case: zeroed(*case) * case[2].numel() / case[2].sum(),
            ],
            "you average within each picture first: a patch then weighs more where few are corrupted, and "
            "a picture without any gives 0 / 0": by_picture(0),
            "you average within each picture first: every corrupted patch should weigh the same": by_picture(
                1
            ),
            "you divide by the number of pictures: divide by the number of corrupted patches": shared_by(
                lambda z, chosen: len(z)
            ),
            "a patch that is predicted surely has the loss 0, and counts too: divide by the number of corrupted ones": (
                lambda z, y, chosen: (found := losses(z, y) * chosen)[found > 0].mean()
            ),
            "you add up the losses: average them, or the loss grows with the batch": shared_by(lambda *_: 1),
            "`cross_entropy` wants the classes on the second axis, (B, K, N): transpose them, or "
            "select the patches first": lambda z, y, chosen: F.cross_entropy(z, y, reduction="none")[
                chosen
            ].mean(),
            "`reshape` moves no axis, so scores of different patches are mixed: (B, N, K) becomes (B, K, N) by "
            "`transpose(1, 2)`": reshaped,
            "you apply softmax before cross_entropy, which does it again: hand over the logits": (
                lambda z, y, chosen: F.cross_entropy(z.softmax(-1)[chosen], y[chosen])
            ),
            "`nll_loss` wants log-probabilities: `cross_entropy` takes the logits": (
                lambda z, y, chosen: F.nll_loss(z[chosen], y[chosen])
            ),
            "the loss is minus the *logarithm* of the probability, not 1 minus the probability": (
                lambda z, y, chosen: 1 - right_of(z, y)[chosen].mean()
            ),
            "right, but not for confident logits: `exp` overflows, or a tiny probability becomes 0 and its logarithm "
            "infinite. Take `log_softmax` or `cross_entropy`": clipped(lambda p: p),
            "this is the accuracy: it has no gradient. The loss is the cross-entropy": (
                lambda z, y, chosen: (z.argmax(-1) == y)[chosen].float().mean()
            ),
            "this is the squared error: the loss is the cross-entropy": squared,
        },
        run=as_scalar,
        float64=False,
    ),
    sends_gradients_back,
)

# -- PixelDecoder


def fill_behind(module, row, hidden):
    return torch.cat([row, module.mask_token.expand(len(row), hidden, -1)], dim=1)


def by_place(row, restore):
    return row.gather(1, restore[..., None].expand_as(row))


def read_out(module, tokens):
    for block in module.blocks:
        tokens = block(tokens)
    return module.predict(module.norm(tokens))


def without_norm(module, tokens):
    for block in module.blocks:
        tokens = block(tokens)
    return module.predict(tokens)


def decoder(
    fill=fill_behind, back=by_place, place=lambda module, x: x + module.pos_embed, read=read_out, early=False
):
    """Return a decoder that fills the row, leads back, adds positions and reads out in these ways.

    With `early` the positions are added to the row, before it is led back.
    """

    class Answer(PixelDecoder):
        def forward(self, visible, restore):
            row = self.embed(visible)
            row = fill(self, row, restore.shape[1] - row.shape[1])
            if early:
                return read(self, back(place(self, row), restore))
            return read(self, place(self, back(row, restore)))

    return Answer


class PositionsOfTheVisible(PixelDecoder):
    """Adds to the visible tokens the first K positions, and none to the mask tokens."""

    def forward(self, visible, restore):
        row = self.embed(visible) + self.pos_embed[:, : visible.shape[1]]
        return read_out(self, by_place(fill_behind(self, row, restore.shape[1] - row.shape[1]), restore))


class HiddenAlone(PixelDecoder):
    """Returns what is predicted of the hidden patches."""

    def forward(self, visible, restore):
        found = super().forward(visible, restore)
        return found[restore >= visible.shape[1]].reshape(len(visible), -1, found.shape[-1])


def decoder_cases() -> list[tuple]:
    generator = torch.Generator().manual_seed(2)

    def case(batch, count, kept, **options):
        restore = torch.stack([torch.randperm(count, generator=generator) for _ in range(batch)])
        sizes = {"dim": 6, "num_patches": count, "outputs": 3, "width": 8} | options
        return sizes, torch.randn(batch, kept, sizes["dim"], generator=generator), restore

    small = {"dim": 7, "num_patches": 3, "outputs": 5, "width": 6}
    return [
        (small, torch.randn(1, 1, 7, generator=generator), torch.tensor([[1, 2, 0]])),
        case(2, 5, 2),
        case(2, 7, 1, width=6),  # as wide as the encoder
        case(3, 8, 2, depth=2, width=12, num_heads=3, outputs=12),
        case(2, 4, 4, depth=3),
    ]


exercise(
    PixelDecoder,
    results(
        decoder_cases,
        {
            "the tokens are still in the order of the row, visible ones first: `restore` puts them back into reading "
            "order, before the positions are added": decoder(back=lambda row, restore: row),
            "the tokens go to wrong places: `restore` is the way back already, so fetch with `gather`. You scatter, or "
            "turn it round once more": [
                decoder(back=lambda row, restore: by_place(row, restore.argsort(dim=1))),
                decoder(back=lambda row, restore: row.scatter(1, restore[..., None].expand_as(row), row)),
            ],
            "the positions are added to the row, before it is put into reading order, or are put into its order "
            "themselves: every patch then has the position of another": decoder(early=True),
            "no positions are added: all mask tokens stay equal, and nobody knows which hole they stand for": decoder(
                place=lambda module, tokens: tokens
            ),
            "the positions reach the visible tokens alone, and those of other patches: all N tokens need one, in "
            "reading order": PositionsOfTheVisible,
            "the mask tokens come first in your row: `restore` expects the visible ones first": decoder(
                fill=lambda module, row, hidden: fill_behind(module, row, hidden).roll(hidden, 1)
            ),
            "zeros stand for the hidden patches: take `self.mask_token`, which learns": decoder(
                fill=lambda module, row, hidden: F.pad(row, (0, 0, 0, hidden))
            ),
            "the hidden places hold copies of the first visible token: take `self.mask_token`": decoder(
                fill=lambda module, row, hidden: torch.cat([row, row[:, :1].expand(-1, hidden, -1)], dim=1)
            ),
            "`gather` returns the shape of its index: give that the width too, `restore[..., None].expand_as(row)`, or "
            "one number of each token is spread over all": decoder(
                back=lambda row, restore: row.gather(1, restore[..., None])
            ),
            "the final norm is missing, before `predict`": decoder(read=without_norm),
            "the norm stands before the blocks: it is for their result": decoder(
                read=lambda module, tokens: without_norm(module, module.norm(tokens))
            ),
            "the blocks are missing: without them no token hears of another": decoder(
                read=lambda module, tokens: module.predict(module.norm(tokens))
            ),
            "only the first block runs: all of `self.blocks`, one after the other": decoder(
                read=lambda module, tokens: module.predict(module.norm(module.blocks[0](tokens)))
            ),
            "you return the hidden patches alone: return all N, in reading order; the loss picks": HiddenAlone,
        },
    ),
)
