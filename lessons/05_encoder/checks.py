"""Checks of lesson 05: the encoder."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_classroom.checks.compare import compare_gradients
from vit_classroom.checks.edits import Mistakes, edited
from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, build, first_of, outcome
from vit_classroom.checks.shared_checks import check_keyword, shared_draw
from vit_classroom.checks.task import any_device, demand, exercise, keeps_settings, results
from vit_classroom.checks.words import describe, difference
from vit_course.attention import merge_heads, split_heads
from vit_course.encoder import Block, Mlp, drop_path, layer_norm

known = Mistakes(__file__, layer_norm, Mlp, drop_path, Block)

# -- layer_norm


def norm_cases() -> list[tuple]:
    """Return tokens with weight and bias: in squares, small, constant, with another eps, alone, transposed."""

    def tokens(*shape: int, size: float = 2.0) -> tuple[Tensor, Tensor, Tensor]:
        return size * torch.randn(*shape) + size, torch.randn(shape[-1]), torch.randn(shape[-1])

    small = tokens(2, 4, size=1e-3)
    return [
        (torch.tensor([[1.0, 3.0, 5.0, 7.0]]), torch.ones(4), torch.zeros(4)),
        tokens(3, 3),
        (*tokens(3, 3), 0.5),
        tokens(2, 3, 5),
        tokens(2, 3, 4),
        small,
        (torch.full((1, 4), 0.25), *small[1:]),
        (*tokens(2, 3, 4), 0.5),
        tokens(2, 3, 4, 6),
        tokens(2, 7),
        tokens(6),
        (torch.randn(2, 5, 3).transpose(1, 2), *tokens(5)[1:]),
    ]


@demand(known("layer_norm gradients"))
def passes_gradients_on(answer):
    for place in (4, 6):
        compare_gradients(answer, layer_norm, norm_cases()[place])


@demand(known("layer_norm digits"))
def keeps_digits_far_from_0(answer):
    far = (torch.tensor([[10000.0, 10001, 10003, 10006]]), torch.ones(4), torch.zeros(4))
    if not torch.allclose(answer(*far), layer_norm(*far), atol=0.05):  # a wrong digit is no reason to reject
        raise Mistake(
            "right for tokens near 0, but not for (10000, 10001, 10003, 10006). Subtract the mean first, then square, "
            "because mean(x²) - mean(x)² is the difference of two large numbers, and loses its digits"
        )


exercise(
    layer_norm,
    results(norm_cases, known("layer_norm results"), device=True),
    keeps_digits_far_from_0,
    passes_gradients_on,
)

# -- Mlp


@demand(known("Mlp sizes"))
def takes_sizes_by_place(answer):
    by_place = build(lambda **sizes: answer(*sizes.values()), dim=2, hidden_dim=3, drop=0.0)
    if by_place.fc1.weight.shape != (3, 2):
        raise Mistake("the arguments are in another order. It is dim, hidden_dim, drop")


RATE = 0.25
BENT, BENT_LATE = (F.gelu(torch.tensor(value)).item() for value in (1.0, 1 / (1 - RATE)))
UP = 1 / (1 - RATE)
PLACES = {
    "in training nothing is dropped. Dropout with the rate `drop` must follow fc1 with its GELU, and fc2": {
        1 + BENT
    },
    "dropout after fc2 is missing. It comes after both linear layers": {1.0, 1 + BENT * UP},
    "dropout in the middle is missing. It comes twice, after the GELU and after fc2": {0.0, (1 + BENT) * UP},
    "your dropout is between fc1 and the GELU, so the numbers that stay are scaled before the curve, and the curve "
    "changes the scale. Apply GELU first, then drop": {0.0, UP, (1 + BENT_LATE) * UP},
}
"""Where dropout can be, and which numbers an `Mlp` then gives whose units all get a 1, and whose second bias is 1."""


@demand(known("Mlp dropout"))
def drops_after_both_layers(answer):
    module, x = build(answer, dim=8, hidden_dim=8, drop=RATE), torch.ones(25, 20, 8)
    with torch.no_grad():
        for layer, weight, bias in (
            (module.fc1, torch.full((8, 8), 1 / 8), 0.0),
            (module.fc2, torch.eye(8), 1.0),
        ):
            layer.weight.copy_(weight)
            layer.bias.fill_(bias)
        quiet, noisy = module.eval()(x), module.train()(x)
        if not torch.equal(noisy, quiet) and torch.equal(noisy, module(x)):
            raise Mistake(
                "two passes drop the same numbers. Draw them anew in each pass, and set no seed in `forward`"
            )
    if difference(quiet, torch.full_like(x, 1 + BENT)):
        raise Mistake(
            "dropout is active in evaluation. `nn.Dropout` knows by itself whether the model trains, and `F.dropout` "
            "must be given training=self.training"
        )
    seen = rounded(noisy.unique().tolist())
    for words, values in PLACES.items():
        if seen == rounded(values):
            raise Mistake(words)
    gone, low = noisy == 0, torch.isclose(noisy, torch.tensor(UP))
    shares = gone.double().mean().item(), (low.sum() / (~gone).sum()).item()
    if seen != rounded((0.0, UP, (1 + BENT * UP) * UP)) or any(abs(share - RATE) > 0.06 for share in shares):
        raise Mistake(
            "in training the values are not those of one dropout of rate `drop` in the middle and one after fc2. Use "
            "`nn.Dropout(drop)` in both places, and nowhere else"
        )
    for one, other in ((gone, ~gone), (low, ~(gone | low))):
        if name := shared_draw(one, other, ("images", "tokens", "numbers of a token")):
            raise Mistake(
                f"two {name} share one draw. Dropout draws for every single number, as `nn.Dropout` does"
            )


def rounded(values) -> set[float]:
    return {round(value, 3) for value in values}


exercise(
    Mlp,
    results(
        lambda: [
            ({"dim": 2, "hidden_dim": 3}, torch.tensor([[[1.0, -2.0]]])),
            ({"dim": 4, "hidden_dim": 16}, 3 * torch.randn(2, 3, 4)),
            ({"dim": 6, "hidden_dim": 5}, 3 * torch.randn(7, 6)),
        ],
        known("Mlp results"),
    ),
    takes_sizes_by_place,
    keeps_settings(Mlp, {"dim": 8, "hidden_dim": 8, "drop": 0.5}, "drop.p"),
    drops_after_both_layers,
)

# -- drop_path


MASK = "a mask has as many axes as x, B and then a 1 for each of the others"


def hint_of_shape(value: Tensor, x: Tensor) -> str:
    """Say what has another shape than the branch x that was given; "" if it is not known."""
    if not isinstance(value, Tensor) or value.shape == x.shape:
        return ""
    if value.ndim > x.ndim:
        return f". Something with more axes than x took part: {MASK}"
    if value.shape == (len(x), *[1] * (x.ndim - 1)):
        return ". This is the mask alone: multiply x by it"
    if value.shape[1:] == x.shape[1:] and len(value) < len(x):
        return ". You leave images out of the batch: all of them stay in it, and a dropped branch becomes 0"
    return ""


def run(answer: Callable, *case) -> Tensor:
    """Run an answer on one case and return a tensor of the first argument's shape, or say what came instead."""
    value = outcome(lambda function, *arguments: function(*arguments), answer, case)
    where = f"on {describe(drop_path, case)}"
    if isinstance(value, Exception):
        flat = "must match the size" in str(value) and f"({len(case[0])})" in str(value)
        raise stopped(value, f"{where}, ", f"{MASK}, so that it meets the images" if flat else "")
    if not isinstance(value, Tensor) or (value.shape, value.dtype) != (case[0].shape, case[0].dtype):
        raise Mistake(f"{where}: {difference(value, case[0])}{hint_of_shape(value, case[0])}")
    if not value.isfinite().all():
        raise Mistake(f"{where}: some numbers are nan or infinite; a dropped branch should be 0")
    return value


FEW = (6, 3, 4)


@demand(known("drop_path evaluation"))
def does_nothing_outside_training(answer):
    few = torch.rand(FEW) + 1
    quiet = run(answer, few, 0.25, False)
    if not difference(quiet, few / 0.75):
        raise Mistake("you divide by 1 - rate outside training too. There nothing should happen")
    if not difference(quiet, few * 0.75):
        raise Mistake("outside training you scale the branch. Scaling is for training only")
    if not difference(quiet, few * 2):
        raise Mistake(
            "your result is the branch added to itself. Return the branch; the block adds it to the stream"
        )
    if difference(quiet, few):
        raise Mistake(
            "drop path is active in evaluation. With training=False the branch must come back unchanged"
        )


@demand(known("drop_path branches"))
def drops_whole_branches(answer):
    for rate in (0.25, 0.6, 0.05):
        x = torch.rand(8000, 3, 4) + 1
        result = run(answer, x, rate, True)
        if torch.isclose(result, torch.tensor(-rate)).any():
            raise Mistake("you divide by 1 and subtract the rate. Write brackets around `(1 - rate)`")
        factor = result / x
        demand_whole_images(factor != 0)
        demand_share(answer, factor, rate)
        demand_scale(factor[factor != 0], rate)


def demand_whole_images(kept: Tensor) -> None:
    """Demand that all tokens of an image (B, T, D) share its fate."""
    whole = kept.flatten(1)
    if bool((whole.any(1) == whole.all(1)).all()):
        return
    if bool((kept.any(2) == kept.all(2)).all()):
        raise Mistake(
            "you drop single tokens. Make one decision for each image, for all of its tokens together"
        )
    if bool((kept == kept[:1]).all()):
        raise Mistake("all images drop the same numbers. Draw one random number for each image, (B, 1, 1)")
    raise Mistake(
        "you drop single numbers, as dropout does. Drop path drops the whole branch of an image, so draw one random "
        "number for each image, of shape (B, 1, 1)"
    )


def demand_share(answer: Callable, factor: Tensor, rate: float) -> None:
    """Demand that as many images keep their branch as the rate says."""
    share = (factor[:, 0, 0] != 0).double().mean().item()
    if share in (0, 1):
        x = torch.ones(4, 3, 4)
        shares = {(run(answer, x, rate, True) != 0).double().mean().item() for _ in range(40)} | {share}
        if shares == {1.0}:
            raise Mistake(f"in training with rate {rate} nothing is ever dropped")
        if shares == {0.0}:
            raise Mistake(f"in training with rate {rate} every branch becomes 0")
        raise Mistake(
            "you make one decision for the whole batch. Every image needs a random number of its own"
        )
    if abs(share - rate) < 0.03:  # the deviation of 8,000 draws is at most .0056
        raise Mistake(
            f"with rate {rate} about {share:.0%} of the images keep their branch. `rate` is the probability of "
            "*dropping*, and you keep with it"
        )
    if abs(share - math.erfc(rate / math.sqrt(2)) / 2) < 0.02:
        raise Mistake(
            "`torch.randn` draws around 0, and half of its numbers are negative. Draw from 0 to 1, with `torch.rand`"
        )
    if abs(share - (1 - rate)) > 0.03:
        raise Mistake(
            f"with rate {rate} {share:.0%} of the images keep their branch, and it should be {1 - rate:.0%}"
        )


def demand_scale(factors: Tensor, rate: float) -> None:
    """Demand that what stays was divided by 1 - rate."""
    scale = factors.mean().item()
    named = {
        1.0: "the branches that stay are not scaled. Divide by 1 - rate, or the expected value shrinks",
        1 / rate: "you divide the branches that stay by rate. Divide by 1 - rate",
        1 - rate: "you multiply the branches that stay by 1 - rate. Divide by it",
    }
    for value, message in named.items():
        if abs(scale - value) < 1e-3:
            raise Mistake(message)
    if difference(factors, torch.full_like(factors, 1 / (1 - rate))):
        raise Mistake(
            f"with rate {rate} a branch that stays should be x times {1 / (1 - rate):.4g} = 1 / (1 - rate). Yours is "
            f"x times {scale:.4g} on average"
        )


@demand(known("drop_path draws"))
def draws_for_each_image(answer):
    """Over 300 batches of 32 pictures, no two images may go together, and their number must vary as of free draws."""
    run(answer, torch.ones(200, 2), 0.5, True)
    kept = torch.stack([run(answer, torch.ones(32, 1), 0.5, True)[:, 0] for _ in range(300)]).bool().double()
    if (kept == kept[0]).all():
        raise Mistake("two calls drop the same images. Draw anew in each call, without a fixed seed")
    if kept.all(dim=0).any():
        raise Mistake(
            "in 300 batches of 32 images, one image is never dropped. Chance should decide for each of them"
        )
    together = kept.T.corrcoef().fill_diagonal_(0)
    if together.max() > 0.5:
        first, second = divmod(int(together.argmax()), 32)
        raise Mistake(
            f"in 300 batches of 32 images, image {second} is dropped (nearly) whenever image {first} is. B random "
            "numbers are needed, one for each image"
        )
    if not 4 < (variance := kept.sum(dim=1).var().item()) < 13:
        raise Mistake(
            f"in 300 batches of 32 images, rate 0.5, the number of dropped images has a variance of {variance:.1f}, "
            "and 32 free draws give 8. Draw for every image by itself, not a fixed number for the batch and not in "
            "groups"
        )
    if len({run(answer, torch.ones(1, 1, 1), 0.5, True).item() for _ in range(100)}) < 2:
        raise Mistake("in a batch of one image the branch is never dropped. Chance should decide there too")


@demand(known("drop_path shapes"))
def works_for_every_branch(answer):
    for shape in [(50, 3), (50, 2, 3, 4)]:
        kept = run(answer, torch.ones(shape), 0.5, True).flatten(1) != 0
        if bool((kept.any(1) != kept.all(1)).any()):
            raise Mistake(
                f"for x of shape {shape} an image is dropped in parts. Draw one number for each image, (B, 1, ...)"
            )
    for training in (True, False):
        branch = torch.ones(200, 2, requires_grad=True)
        result = answer(branch, 0.5, training)
        result.sum().backward() if result.requires_grad else None
        if branch.grad is None or difference(branch.grad, result.detach()):
            raise Mistake("gradients do not pass as they should. The branches that stay must still learn")
    few = torch.rand(FEW) + 1
    if difference(run(answer, few, 0.0, True), few):
        raise Mistake("with rate 0 nothing is dropped and nothing is scaled, in training too")


on_the_cpu = known("drop_path device")
exercise(
    drop_path,
    does_nothing_outside_training,
    drops_whole_branches,
    draws_for_each_image,
    works_for_every_branch,
    any_device(
        (torch.ones(3, 2), 0.5, True),
        *on_the_cpu,
        *next(iter(on_the_cpu.values())),
    ),
)

# -- Block


class Plain(Block):
    """Equations 2 and 3 as the exercise asks for them, so that an edit can change one of the steps."""

    def forward(self, x, return_attention=False):
        branch, weights = self.attn(self.norm1(x), return_attention=True)
        x = x + branch
        x = x + self.mlp(self.norm2(x))
        return (x, weights) if return_attention else x


class AttendsByHand(Block):
    """Calls the parts of its attention and leaves out the dropout of weights."""

    def forward(self, x, return_attention=False):
        weights = self.attn(self.norm1(x), return_attention=True)[1]
        qkv = self.attn.qkv(self.norm1(x)).chunk(3, dim=-1)
        heads = F.scaled_dot_product_attention(*(split_heads(part, self.attn.num_heads) for part in qkv))
        x = x + self.attn.proj_drop(self.attn.proj(merge_heads(heads)))
        x = x + self.mlp(self.norm2(x))
        return (x, weights) if return_attention else x


known.right["Plain"] = Plain


def attend(block: nn.Module, x: Tensor) -> Tensor:
    """Equation 2."""
    return x + block.attn(block.norm1(x))


def think(block: nn.Module, x: Tensor) -> Tensor:
    """Equation 3."""
    return x + block.mlp(block.norm2(x))


BESIDE = {"dim": 8, "num_heads": 2}
GIVEN = {
    "norm1.eps": 1e-6,
    "norm2.eps": 1e-6,
    "mlp.fc1.out_features": 9,
    "mlp.drop.p": 0.1,
    "attn.proj_drop.p": 0.1,
    "attn.attn_drop": 0.2,
    "drop_path_rate": 0.25,
}
"""What `__init__` makes of dim 6, mlp_ratio 1.5, drop 0.1, attn_drop 0.2 and drop_path 0.25."""


@demand(known("Block given"))
def keeps_what_is_given(answer):
    rates = {"drop": 0.1, "attn_drop": 0.2, "drop_path": 0.25}
    module = build(answer, dim=6, num_heads=3, mlp_ratio=1.5, **rates)
    for path, wanted in GIVEN.items():
        found = module
        for name in path.split("."):
            found = getattr(found, name, None)
        if found is not None and found != wanted:
            raise Mistake(
                f"`self.{path}` is {found}, and it should be {wanted}. `__init__` is given, so leave it as it is"
            )


@demand(known("Block drop path"))
def drops_its_branches(answer):
    """The exercise leaves drop path out. A block that has it all the same, as in the starred section, must be right."""
    module = build(answer, dim=8, num_heads=2, drop_path=0.25)
    if leaves_drop_path_out(module):
        return
    demand_dropped(module, module)
    demand_dropped(module, lambda x: module(x, return_attention=True), "with return_attention=True ")
    weights = module.train()(torch.randn(9, 3, 8), return_attention=True)[1]
    if difference(weights.sum(-1), torch.ones_like(weights.sum(-1))):
        raise Mistake("the weights that you return go through `drop_path`. Only the branches should")


def leaves_drop_path_out(module: nn.Module) -> bool:
    """Tell whether training and evaluation give one result, in ten passes of 20 images."""
    x = torch.randn(20, 3, 8)
    with torch.no_grad():
        quiet = first_of(module.eval()(x))
        return not any(difference(first_of(module.train()(x)), quiet) for _ in range(10))


def demand_dropped(module: nn.Module, call: Callable, where: str = "") -> None:
    """Look at 400 images in training: each branch of each must be dropped, or kept and scaled."""
    x, count = torch.randn(400, 3, 8), {}
    with torch.no_grad():
        module.train()
        result = first_of(call(x))
        steady = all(torch.equal(result, first_of(call(x))) for _ in range(20))
        for first in (0, 1, 4 / 3):
            middle = x + first * module.attn(module.norm1(x))
            for second in (0, 1, 4 / 3):
                end = middle + second * module.mlp(module.norm2(middle))
                same = torch.isclose(result, end, rtol=1e-4, atol=1e-5).flatten(1).all(1)
                count[first, second] = int(same.sum())
        quiet, whole = module.eval()(x), think(module, attend(module, x))
    if difference(quiet, whole):
        raise Mistake("drop path is active in evaluation. Pass it self.training")
    if steady and count[1, 1] == len(x):
        raise Mistake(
            f"{where}drop path is not used. Both branches go through `drop_path` before they are added"
        )
    if steady:
        raise Mistake("two passes drop the same branches. Set no seed in `forward`")
    if max(count.values()) == len(x):
        raise Mistake("all images of a batch share one draw. Each needs one of its own, as in `drop_path`")
    for place, name in enumerate(("attention", "MLP")):
        kept = {factors[place] for factors, number in count.items() if number}
        if kept >= {0, 1}:
            raise Mistake(
                f"the {name} branch is dropped for some images, and not divided by 1 - rate for the others. "
                "`drop_path` does both"
            )
        if 1 in kept:
            raise Mistake(
                f"the {name} branch does not go through `drop_path`, which drops it for some images and divides it "
                "by 1 - rate for the others"
            )
    share = sum(number for factors, number in count.items() if 0 in factors) / len(x)
    if sum(count.values()) < len(x) or not 0.15 < share < 0.9:
        raise Mistake(
            "in training with drop path some images come out neither with nor without a branch, or too few of them: "
            "each branch goes through `drop_path` by itself, before it is added to the stream, with the arguments "
            "(branch, self.drop_path_rate, self.training)"
        )
    if not all(count[pair] for pair in ((0, 0), (0, 4 / 3), (4 / 3, 0), (4 / 3, 4 / 3))):
        raise Mistake("the two branches share one draw. Each branch goes through a `drop_path` of its own")


@demand(known("Block/Plain dropout", ("in training `attn_drop` does not act", AttendsByHand)))
def drops_inside_its_branches(answer):
    """With a rate of nearly 1 all that may be dropped is, each time (1 itself would be divided by 0 in some masks)."""
    for name in ("drop", "attn_drop"):
        module, x = build(answer, **BESIDE, **{name: 1 - 1e-9}), torch.randn(2, 5, 8)
        with torch.no_grad():
            for wanted in (False, True):
                if difference(first_of(module(x, return_attention=wanted)), think(module, attend(module, x))):
                    raise Mistake(
                        f"in training `{name}` does not act where it should, or elsewhere too. `self.attn` and "
                        "`self.mlp` drop by themselves, so call them as they are, and drop nothing else"
                    )


@demand(known("Block/Plain keyword"))
def names_its_switch(answer):
    check_keyword(answer, BESIDE, torch.randn(2, 5, 8))


@demand(known("Block/Plain calls"))
def attends_once(answer):
    module, calls = build(answer, **BESIDE), []
    module.attn.register_forward_hook(lambda *_: calls.append(1))
    module(torch.randn(2, 5, 8), return_attention=True)
    if len(calls) > 1:
        raise Mistake(
            f"attention runs {len(calls)} times. One call, `self.attn(..., return_attention=True)`, gives the branch "
            "and the weights"
        )


exercise(
    Block,
    keeps_what_is_given,
    results(
        lambda: [
            ({"dim": 4, "num_heads": 1}, torch.randn(1, 2, 4)),
            ({"dim": 8, "num_heads": 2}, 2 * torch.randn(2, 5, 8)),
            ({"dim": 6, "num_heads": 3, "mlp_ratio": 1.5}, torch.randn(3, 4, 6) + 1),
        ],
        known(
            "Block/Plain results",
            *(
                ("that does not use the rate it is given", edited(Block, f"self.drop_path_rate, => {rate},"))
                for rate in ("1 - self.drop_path_rate", "0.5")
            ),
        ),
    ),
    names_its_switch,
    results(
        lambda: [(BESIDE, torch.randn(2, 5, 8), True), (BESIDE, torch.randn(1, 5, 8), True)],
        known("Block/Plain pair"),
    ),
    keeps_settings(
        Block,
        BESIDE | {"drop": 0.5, "attn_drop": 0.5, "drop_path": 0.5},
        "attn.proj_drop.p",
        "drop_path_rate",
    ),
    drops_its_branches,
    drops_inside_its_branches,
    attends_once,
)
