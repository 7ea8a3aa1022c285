"""Checks of lesson 13: the two ends of a masked autoencoder, and the loss of the paper's masked patches."""

import torch
import torch.nn.functional as F
from torch import Tensor

from vit_classroom.checks.compare import compare_gradients
from vit_classroom.checks.edits import Mistakes
from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, outcome
from vit_classroom.checks.task import any_device, demand, exercise, refuses, results
from vit_course.extensions.masked import PixelDecoder, keep_visible, masked_loss

known = Mistakes(__file__, keep_visible, PixelDecoder)

# -- keep_visible


def numbered(batch: int, count: int, dim: int) -> Tensor:
    """Tokens that say whose they are: number 0 the place from 1 on, number 1 the image, others minus the place."""
    tokens = torch.arange(1.0, count + 1, dtype=torch.double)[:, None].repeat(batch, 1, dim)
    tokens[..., 1] = torch.arange(1, batch + 1)[:, None]
    tokens[..., 2:] *= -1
    return tokens


def demand_random(shown: Tensor, kept: int) -> None:
    """Demand that images differ, that all places stay visible equally often, and all pairs of places too."""
    if (shown == shown[0]).all():
        raise Mistake("you keep the same patches in all images of a batch. Draw anew for every image")
    if torch.equal(*shown.chunk(2)):
        raise Mistake("the second half of the batch keeps the patches of the first. Draw for every image")
    often = shown.double().mean(dim=0) * shown.shape[1] / kept  # 1, with a deviation of .02
    if (often - 1).abs().max() > 0.12:
        raise Mistake(
            f"patch {often.argmax()} is kept too often, and every patch should have the same chance"
        )
    pairs = shown.double().T @ shown.double() / len(shown)
    usual = kept * (kept - 1) / shown.shape[1] / (shown.shape[1] - 1)
    if pairs.roll(-1, 1).diagonal()[:-1].min() > 1.6 * usual:
        raise Mistake(f"you keep patches that are side by side. All sets of {kept} should be equally likely")
    pairs.fill_diagonal_(usual)
    if (pairs / usual - 1).abs().max() > 0.6:
        raise Mistake(
            f"some patches are kept together too often. All sets of {kept} should be equally likely"
        )


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
            f"{where}you return {count} tokens of each image, hidden ones too. The encoder should not get them at "
            f"all, so `visible` is (B, K, D) with K = {kept}"
        )
    marked = restore.shape == (batch, count) and restore.unique().numel() == 2 < count
    largest = set((restore == restore.max()).sum(dim=1).tolist()) if marked else {}
    if restore.dtype == torch.bool or largest in ({kept}, {count - kept}):
        raise Mistake(
            "`restore` should hold places, whole numbers from 0 to N - 1, and "
            "yours tells only which patches are visible"
        )
    if restore.shape == (batch, kept) != (batch, count):
        raise Mistake(
            f"{where}your `restore` has {kept} numbers, the patches that stayed. It needs all {count}, hidden ones too"
        )
    if restore.shape != (batch, count):
        raise Mistake(
            f"{where}`restore` should be (B, N) = {(batch, count)}, and it is {tuple(restore.shape)}"
        )
    demand_kept(visible, tokens, kept, where)
    if visible.dtype != tokens.dtype:
        raise Mistake(f"the tokens should stay {tokens.dtype}, as they came, and yours are {visible.dtype}")
    if restore.is_floating_point() or restore.dtype != torch.int64:
        raise Mistake(f"`restore` should be int64, as `gather` wants it, and yours is {restore.dtype}")
    if (restore.sort(dim=1).values != torch.arange(count)).any():
        raise Mistake(f"{where}`restore` should hold 0 ... N - 1 for every image, each once")
    return visible.detach(), restore


def demand_kept(visible: Tensor, tokens: Tensor, kept: int, where: str) -> None:
    """Demand K tokens of every image, each a whole token of this image, and none twice."""
    batch, count, dim = tokens.shape
    if visible.ndim == 3 and visible.shape[1] != kept and visible.shape[::2] == (batch, dim):
        raise Mistake(f"{where}{visible.shape[1]} tokens stay visible, and it should be K = {kept}, `kept`")
    if visible.shape == (batch, batch, kept, dim):
        raise Mistake(
            f"{where}`visible` has an axis too many, {tuple(visible.shape)}. `tokens[:, index]` takes the index of "
            "every image from all images. `gather`, or `tokens[torch.arange(B)[:, None], index]`, goes row by row"
        )
    if visible.shape != (batch, kept, dim):
        raise Mistake(
            f"{where}`visible` should be (B, K, D) = {(batch, kept, dim)}, yours is {tuple(visible.shape)}. `gather` "
            "returns the shape of its index, so give that an axis D: `index[..., None].expand(-1, -1, D)`"
        )
    names = visible[..., 0].round()
    mixed = (visible[..., 2:] != -visible[..., :1]).any()
    if mixed or (names != visible[..., 0]).any() or names.min() < 1 or names.max() > count:
        raise Mistake(f"{where}a visible token is not the token of a patch. Take whole tokens, unchanged")
    if (visible[..., 1] != tokens[:, :1, 1]).any():
        raise Mistake("a visible token comes from another image of the batch, and each image keeps its own")
    if any(len(row.unique()) < kept for row in names):
        raise Mistake(
            f"{where}a patch is visible twice. Draw without repeats, the first ones of a random order for each "
            "image, dim=1"
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
            f"{where}`restore` tells which patch is at each place of the row. It should be the way back, at "
            "which place each patch is, and that is the inverse of the order, `order.argsort(dim=1)`"
        )
    if any(fits(r, torch.arange(count - kept, count)) for r in (restore, restore.argsort(1))):
        raise Mistake(
            f"{where}`restore` expects the visible tokens at the end of the row, but they come "
            "first, then the hidden ones"
        )
    if torch.equal((restore < kept).gather(1, own), torch.ones_like(own, dtype=torch.bool)):
        raise Mistake(
            f"{where}`restore` finds the visible patches, but in another order than that of `visible`. Take the first "
            "K of the same order for both, before any sorting"
        )
    raise Mistake(
        f"{where}`restore` and `visible` fit no common order. Draw one for each image, without repeats (`argsort` of "
        "random numbers, not `randint`), and make both of it"
    )


@demand(known("keep_visible keeps"))
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
        where = f"with {batch} images of {count} patches, share {share:g}: "
        visible, restore = kept_by(answer, tokens, share, where)
        demand_way_back(visible, restore, tokens, where)
        if batch > 100:
            demand_random(restore < visible.shape[1], visible.shape[1])
    first, second = (kept_by(answer, numbered(8, 20, 2), 0.5, "")[1] for _ in range(2))
    if torch.equal(first, second):
        raise Mistake("two calls keep the same patches. Set no seed and keep no order")


@demand(known("keep_visible gradients"))
def lets_gradients_through(answer):
    visible, _ = kept_by(answer, numbered(2, 6, 2).requires_grad_(), 0.5, "")
    tokens = numbered(2, 6, 2).requires_grad_()
    visible = answer(tokens, 0.5)[0]
    gradient = torch.autograd.grad(visible.sum(), tokens)[0] if visible.requires_grad else torch.zeros(1)
    if gradient.sum().item() != visible.numel():
        raise Mistake(
            "no gradient reaches `tokens`, or not from every visible one. Leave out `detach`, `.data`, `torch.no_grad`"
        )


exercise(
    keep_visible,
    keeps_a_random_share,
    lets_gradients_through,
    any_device(
        (numbered(4, 8, 2),),
        "your random numbers and places are on the CPU, wherever `tokens` is. Give `torch.rand` the argument "
        "`device=tokens.device`",
        *known("keep_visible device")["on the CPU"],
    ),
    refuses(
        (numbered(2, 4, 2), 0.1),
        "a share of 0.1 of 4 patches leaves none to read",
        *known("keep_visible refuses")["none is left"],
    ),
    refuses(
        (numbered(2, 4, 2), 1.5),
        "1.5 of 4 patches would be 6, and there are only 4",
        *known("keep_visible refuses")["more than there are"],
    ),
)

# -- PixelDecoder


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


exercise(PixelDecoder, results(decoder_cases, known("PixelDecoder results")))

# -- masked_loss


def loss_in_steps(logits, classes, chosen):
    """The loss step by step, so that an edit can change one of the steps."""
    losses = -F.log_softmax(logits, dim=-1).gather(-1, classes[..., None])[..., 0]
    return losses[chosen].mean()


known.right["loss_in_steps"] = loss_in_steps


def as_scalar(function, *inputs):
    """Return the loss, and reject a plain number, and one number in an axis."""
    loss = function(*inputs)
    if isinstance(loss, float):
        raise Mistake("return the loss as a tensor. A plain number (`.item()`, `float`) has no gradient")
    if isinstance(loss, Tensor) and loss.shape == (1,):
        raise Mistake("return a scalar, a tensor of shape (). Yours has the shape (1,)")
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


@demand(known("masked_loss/loss_in_steps gradients"))
def sends_gradients_back(answer):
    for inputs in loss_cases():
        outcome(as_scalar, answer, inputs)
        compare_gradients(answer, masked_loss, inputs)


exercise(
    masked_loss,
    results(loss_cases, known("masked_loss/loss_in_steps results"), run=as_scalar, float64=False),
    sends_gradients_back,
)
