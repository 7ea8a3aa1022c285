"""Checks of lesson 05: the encoder."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_course import encoder
from vit_course.classroom.checks.compare import compare, compare_gradients, compare_modules
from vit_course.classroom.checks.outcome import Mistake, build, outcome
from vit_course.classroom.checks.parts import check_keyword, shared_draw
from vit_course.classroom.checks.registry import exercise
from vit_course.classroom.checks.words import describe, difference, explain_error


def call(answer: Callable, reference: Callable, *case) -> Tensor:
    """Run an answer on one case and return a tensor of the first argument's shape, or say what came instead."""
    value = outcome(lambda function, *arguments: function(*arguments), answer, case)
    where = f"on {describe(reference, case)}"
    if isinstance(value, Exception):
        raise Mistake(f"{where}, your code stopped with {explain_error(value)}")
    if not isinstance(value, Tensor) or (value.shape, value.dtype) != (case[0].shape, case[0].dtype):
        raise Mistake(f"{where}: {difference(value, case[0])}")
    if not value.isfinite().all():
        raise Mistake(
            f"{where}: the result has numbers that are nan or infinite; a dropped branch should be 0"
        )
    return value


@exercise(encoder.layer_norm)
def check_layer_norm(answer):
    def tokens(*shape: int, size: float = 2.0) -> tuple[Tensor, Tensor, Tensor]:
        return size * torch.randn(*shape) + size, torch.randn(shape[-1]), torch.randn(shape[-1])

    square, small, plain = tokens(3, 3), tokens(2, 4, size=1e-3), tokens(2, 3, 4)
    cases = [
        (torch.tensor([[1.0, 3.0, 5.0, 7.0]]), torch.ones(4), torch.zeros(4)),
        square,
        tokens(2, 3, 5),
        plain,
        small,
        (torch.full((1, 4), 0.25), small[1], small[2]),
        (*plain, 0.5),
        tokens(2, 3, 4, 6),
        tuple(t.double() for t in tokens(2, 7)),
        tokens(6),
        (torch.randn(2, 5, 3).transpose(1, 2), *tokens(5)[1:]),
    ]

    def variant(axes=-1, correction=0, keepdim=True, centre=True, divide=None, affine=None):
        def function(x, weight, bias, eps=1e-6):
            over = tuple(range(x.ndim)) if axes == "all" else axes
            mean = x.mean(dim=over, keepdim=keepdim)
            variance = x.var(dim=over, correction=correction, keepdim=keepdim)
            root = divide(variance, eps) if divide else (variance + eps).sqrt()
            normed = (x - mean if centre else x) / root
            return affine(normed, weight, bias) if affine else normed * weight + bias

        return function

    other_tokens = "the mean and the variance are those of one token, over its D numbers (the last axis)"
    whole_picture = f"you take one mean over all tokens of a picture: {other_tokens}"
    eps_ignored = "your code does not use the argument `eps`: it stands under the root, beside the variance"
    compare(
        answer,
        encoder.layer_norm,
        cases,
        [
            (
                variant(correction=1),
                "the variance here divides by D, not by D - 1: torch's `var` and `std` divide by D - 1 unless "
                "you say `unbiased=False` (or `correction=0`)",
            ),
            (
                variant(affine=lambda x, w, b: x),
                "`weight` and `bias` are not used: scale, then shift, at the end",
            ),
            (variant(affine=lambda x, w, b: x * w), "`bias` is not added"),
            (variant(affine=lambda x, w, b: x + b), "`weight` is not used: scale before you shift"),
            (
                variant(affine=lambda x, w, b: x * b + w),
                "`weight` scales and `bias` shifts; yours are swapped",
            ),
            (
                variant(affine=lambda x, w, b: (x + b) * w),
                "scale first, then shift: your bias is scaled as well",
            ),
            (variant(-2), f"you average over the tokens, not inside a token: {other_tokens}"),
            (
                variant(1),
                f"you average over axis 1, which holds tokens as soon as there is a batch: {other_tokens}",
            ),
            (variant(0), f"you average over the batch, as batch norm does: {other_tokens}"),
            (variant((-2, -1)), whole_picture),
            (variant("all"), f"you take one mean over everything, the batch included: {other_tokens}"),
            (
                variant(divide=lambda v, eps: v.sqrt() + eps),
                "eps belongs inside the root, with the variance: sqrt(variance + eps), not sqrt(variance) + eps",
            ),
            (
                variant(divide=lambda v, eps: v.sqrt()),
                "eps is missing: a constant token has variance 0, and 0 / 0 is nan",
            ),
            (
                variant(divide=lambda v, eps: (v + (1e-5 if eps == 1e-6 else eps)).sqrt()),
                "the default of `eps` should be 1e-6, as in the paper's code; yours is 1e-5, the default of PyTorch",
            ),
            (variant(divide=lambda v, eps: (v + 1e-6).sqrt()), eps_ignored),
            (variant(divide=lambda v, eps: (v + 1e-5).sqrt()), eps_ignored),
            (
                variant(divide=lambda v, eps: v + eps),
                "you divide by the variance; divide by its root, the standard deviation",
            ),
            (variant(centre=False), "the mean is not subtracted"),
            (
                variant(keepdim=False),
                "the mean of a (T, D) table has shape (T,), and broadcasting reads that as a row: keep the axis "
                "with `keepdim=True`",
            ),
        ],
    )
    compare_gradients(answer, encoder.layer_norm, plain)


@exercise(encoder.drop_path)
def check_drop_path(answer):
    def run(*case) -> Tensor:
        return call(answer, encoder.drop_path, *case)

    few = torch.rand(6, 3, 4) + 1
    quiet = run(few, 0.5, False)
    if not difference(quiet, few * 0.5):
        raise Mistake(
            "outside training you scale the branch; the scaling is done in training, here nothing happens"
        )
    if difference(quiet, few):
        raise Mistake(
            "drop path is active in evaluation: with training=False the branch must come back unchanged"
        )
    if difference(run(few, 0.0, True), few):
        raise Mistake("with rate 0 nothing is dropped and nothing is scaled, in training too")
    by_name = outcome(lambda f: f(few, 0.5, training=False), answer, ())
    if isinstance(by_name, TypeError):
        raise Mistake(
            "the third argument is called `training`: the lesson passes it by name, and then your code stops with "
            f"{explain_error(by_name)}"
        )
    for rate in (0.25, 0.6):
        check_survivors(run, rate)
    many = torch.ones(200, 2)
    if torch.equal(run(many, 0.5, True), run(many, 0.5, True)):
        raise Mistake(
            "two calls drop the same pictures: draw anew in each call, without a fixed seed or fixed places"
        )
    alone = sum(bool(run(torch.ones(1, 2), 0.5, True).any()) for _ in range(400)) / 400
    if not 0.35 < alone < 0.65:
        raise Mistake(
            f"in 400 batches of one picture, rate 0.5, the branch survived in {alone:.0%}: draw for every picture "
            "by itself, do not drop a fixed number of the batch"
        )
    check_own_draws(run)
    for shape in [(50, 3), (50, 2, 3, 4)]:
        kept = run(torch.ones(shape), 0.5, True).flatten(1) != 0
        if bool((kept.any(1) != kept.all(1)).any()):
            raise Mistake(
                f"for x of shape {shape} a picture is dropped in parts: one draw for each picture, (B, 1, ...)"
            )
    branch = torch.ones(200, 2, requires_grad=True)
    result = answer(branch, 0.5, True)
    result.sum().backward() if result.requires_grad else None
    if branch.grad is None or difference(branch.grad, result.detach()):
        raise Mistake("gradients do not come through as they should: the branches that stay must still learn")
    # The meta device stands for a GPU: no numbers, but the same complaint about tensors on two devices.
    elsewhere = outcome(lambda f: f(torch.empty(3, 2, device="meta"), 0.5, True), answer, ())
    if isinstance(elsewhere, RuntimeError) and any(
        w in str(elsewhere) for w in ("expected device", "same device")
    ):
        raise Mistake(
            "your random numbers are always on the CPU: give `torch.rand` the argument `device=x.device`"
        )


def check_own_draws(run: Callable) -> None:
    """Over 300 batches of 32 pictures, no two pictures may go together, and their number must vary as of free draws."""
    kept = torch.stack([run(torch.ones(32, 1), 0.5, True)[:, 0] for _ in range(300)]).bool().double()
    together = kept.T.corrcoef().fill_diagonal_(0)
    if together.abs().max() > 0.5:
        first, second = divmod(int(together.abs().argmax()), 32)
        how = "is dropped whenever" if together[first, second] > 0 else "is kept whenever"
        raise Mistake(
            f"in 300 batches of 32 pictures, picture {second} {how} picture {first} is dropped (nearly or always): "
            "B random numbers are needed, one for each picture"
        )
    variance = kept.sum(dim=1).var().item()
    if not 4 < variance < 13:
        raise Mistake(
            f"in 300 batches of 32 pictures, rate 0.5, the number that is dropped has a variance of {variance:.1f}; 32 "
            "free draws give 8. "
            + (
                "Do not drop a fixed number of the batch"
                if variance < 8
                else "Do not drop pictures in groups"
            )
        )


def check_survivors(run: Callable, rate: float) -> None:
    """Look at which of 2,000 pictures lose their branch, and at what becomes of the others."""
    x = torch.rand(2000, 3, 4) + 1
    factor = run(x, rate, True) / x
    kept = factor != 0
    whole = kept.flatten(1)
    if bool((whole.any(1) != whole.all(1)).any()):
        if bool((kept.any(2) == kept.all(2)).all()):
            raise Mistake(
                "you drop single tokens: one decision for each picture, for all of its tokens together"
            )
        raise Mistake(
            "you drop single numbers, as dropout does: drop path drops the whole branch of a picture, so one "
            "random number for each picture, of shape (B, 1, 1)"
        )
    share = whole[:, 0].double().mean().item()
    if share in (0, 1):
        shares = {(run(x[:4], rate, True) != 0).double().mean().item() for _ in range(40)} | {share}
        if shares == {1.0}:
            raise Mistake(f"in training with rate {rate} nothing is ever dropped")
        if shares == {0.0}:
            raise Mistake(f"in training with rate {rate} every branch becomes 0")
        raise Mistake("one decision for the whole batch: every picture needs a random number of its own")
    if abs(share - rate) < 0.06:
        raise Mistake(
            f"with rate {rate} about {share:.0%} of the pictures keep their branch: `rate` is the probability of "
            "*dropping*, you keep with it"
        )
    if abs(share - (1 - rate)) > 0.06:
        raise Mistake(
            f"with rate {rate} {share:.0%} of the pictures keep their branch, expected {1 - rate:.0%}"
        )
    scale = factor[kept].mean().item()
    named = {
        1.0: "the branches that stay are not scaled: divide by 1 - rate, else the expected value shrinks",
        1 / rate: "you divide the branches that stay by rate; divide by 1 - rate",
        1 - rate: "you multiply the branches that stay by 1 - rate; divide by it",
    }
    for value, message in named.items():
        if abs(scale - value) < 1e-3:
            raise Mistake(message)
    if difference(factor[kept], torch.full_like(factor[kept], 1 / (1 - rate))):
        raise Mistake(
            f"with rate {rate} a branch that stays should be x times {1 / (1 - rate):.4g} = 1 / (1 - rate); yours is "
            f"x times {scale:.4g} on average"
        )


def mlp_like(forward: Callable) -> type:
    """Return `Mlp` with another forward pass."""
    return type("MistakenMlp", (encoder.Mlp,), {"forward": forward})


@exercise(encoder.Mlp)
def check_mlp(answer):
    def bent_by(act: Callable) -> type:
        return mlp_like(lambda self, x: self.fc2(act(self.fc1(x))))

    cases = [
        ({"dim": 2, "hidden_dim": 3}, torch.tensor([[[1.0, -2.0]]])),
        ({"dim": 4, "hidden_dim": 16}, 3 * torch.randn(2, 3, 4)),
        ({"dim": 6, "hidden_dim": 5}, 3 * torch.randn(7, 6)),
    ]
    compare_modules(
        answer,
        encoder.Mlp,
        cases,
        [
            (bent_by(F.relu), "this is ReLU; the paper's MLP bends with GELU"),
            (
                bent_by(lambda x: F.gelu(x, approximate="tanh")),
                "nearly: this is GELU's tanh approximation. Use the exact one, `nn.GELU()` without arguments, or "
                "trained weights give slightly other results",
            ),
            (bent_by(lambda x: x), "there is no activation: two linear layers in a row are one linear layer"),
            (bent_by(F.silu), "this is SiLU, x times sigmoid(x); use GELU"),
            (
                mlp_like(lambda self, x: F.gelu(self.fc2(F.gelu(self.fc1(x))))),
                "an activation follows fc2 too: the branch could then hardly subtract from the stream. Only one, in "
                "the middle",
            ),
            (
                mlp_like(lambda self, x: F.gelu(self.fc2(self.fc1(x)))),
                "the activation is at the end; it belongs between fc1 and fc2",
            ),
            (
                mlp_like(lambda self, x: x + self.fc2(F.gelu(self.fc1(x)))),
                "you add the input: the residual is the block's business, not the MLP's",
            ),
        ],
    )
    by_place = build(lambda **sizes: answer(*sizes.values()), dim=2, hidden_dim=3, drop=0.0)
    if by_place.fc1.weight.shape != (3, 2):
        raise Mistake("the arguments stand in another order: dim, hidden_dim, drop")
    # Weights for which an output number tells where dropout was: 21 = 1 + 20 in the middle, 22 = 21 + 1 at the end.
    module, x = build(answer, dim=8, hidden_dim=8, drop=0.25), torch.ones(25, 20, 8)
    with torch.no_grad():
        for layer, bias in ((module.fc1, 20.0), (module.fc2, 1.0)):
            layer.weight.copy_(torch.eye(8))
            layer.bias.fill_(bias)
        quiet, noisy = module.eval()(x), module.train()(x)
    if difference(quiet, torch.full_like(x, 22.0)):
        raise Mistake(
            "dropout is active in evaluation: `nn.Dropout` looks at self.training by itself, `F.dropout` must be "
            "given training=self.training"
        )
    seen = {round(value, 2) for value in noisy.unique().tolist()}
    up = 1 / 0.75
    known = [
        ({22.0}, "in training nothing is dropped: `drop` is not used, dropout must follow fc1 and fc2"),
        ({1.0, 21 * up + 1}, "dropout after fc2 is missing: it follows both linear layers"),
        (
            {0.0, 22 * up},
            "dropout in the middle is missing: it follows both linear layers, fc1 with its GELU too",
        ),
    ]
    for values, message in known:
        if seen == {round(value, 2) for value in values}:
            raise Mistake(message)
    gone, low = noisy == 0, torch.isclose(noisy, torch.tensor(up))
    shares = gone.double().mean().item(), (low.sum() / (~gone).sum()).item()
    if seen != {0.0, round(up, 2), round((21 * up + 1) * up, 2)} or any(abs(s - 0.25) > 0.06 for s in shares):
        raise Mistake(
            "in training the values are not those of one dropout of rate `drop` in the middle and one after fc2: "
            "`nn.Dropout(drop)` in both places, and nowhere else"
        )
    high = ~(gone | low)
    for axis, sharing in ((0, "all tokens share"), (1, "all numbers of a token share")):
        for one, other in ((gone, ~gone), (low, high)):
            if not (one.flatten(0, 1).any(axis) & other.flatten(0, 1).any(axis)).any():
                raise Mistake(
                    f"{sharing} one draw: dropout draws for every single number, `nn.Dropout` does so"
                )
    for one, other in ((gone, ~gone), (low, high)):
        if name := shared_draw(one, other, ("pictures", "tokens", "numbers of a token")):
            raise Mistake(
                f"two {name} share one draw: dropout draws for every single number, `nn.Dropout` does so"
            )


def attend(block: nn.Module, x: Tensor) -> Tensor:
    """Equation 2."""
    return x + block.attn(block.norm1(x))


def think(block: nn.Module, x: Tensor) -> Tensor:
    """Equation 3."""
    return x + block.mlp(block.norm2(x))


def block_of(first: Callable, second: Callable) -> type:
    """Return `Block` made of two other halves, each a function of (block, tokens)."""
    return type("MistakenBlock", (encoder.Block,), {"forward": lambda self, x: second(self, first(self, x))})


def from_normed(norm: str, branch: str) -> Callable:
    """Return a half that adds its branch to the normed tokens."""

    def half(block: nn.Module, x: Tensor) -> Tensor:
        normed = getattr(block, norm)(x)
        return normed + getattr(block, branch)(normed)

    return half


def pair_of(give: Callable) -> type:
    """Return a `Block` that gives something else than the pair (tokens, weights) where it should give the pair."""

    def forward(self: nn.Module, x: Tensor, return_attention: bool = False):
        result, weights = encoder.Block.forward(self, x, return_attention=True)
        return give(self, result, weights) if return_attention else result

    return type("MistakenBlock", (encoder.Block,), {"forward": forward})


ALWAYS_PAIR = type(
    "AlwaysPair", (encoder.Block,), {"forward": lambda self, x: encoder.Block.forward(self, x, True)}
)
PAIR_MISTAKES = [
    (
        pair_of(lambda block, x, weights: x),
        "`return_attention` is forgotten: with True the pair (tokens, weights) is wanted, and `self.attn` has the same "
        "switch",
    ),
    (pair_of(lambda block, x, weights: (weights, x)), "first the tokens, then the weights"),
    (
        pair_of(lambda block, x, weights: (x, weights.mean(dim=1))),
        "the weights are averaged over the heads; each head's own are wanted, (B, h, T, T)",
    ),
    (
        pair_of(lambda block, x, weights: (x, block.attn(block.norm1(x), return_attention=True)[1])),
        "the weights come from the result of the block: those with which the attention branch was made are wanted",
    ),
]


@exercise(encoder.Block)
def check_block(answer):
    cases = [
        ({"dim": 4, "num_heads": 1}, torch.randn(1, 2, 4)),
        ({"dim": 8, "num_heads": 2}, 2 * torch.randn(2, 5, 8)),
        ({"dim": 6, "num_heads": 3, "mlp_ratio": 1.5}, torch.randn(3, 4, 6) + 1),
    ]
    normed_attend, normed_think = from_normed("norm1", "attn"), from_normed("norm2", "mlp")
    from_normed_message = (
        "the residual must come from the stream itself: you add the branch to the *normed* tokens, so the stream "
        "is rewritten in every block"
    )
    lost = "{} has no residual: its output replaces the stream instead of being added to it"
    unnormed = "{} reads the raw stream: {} is missing in front of it"
    post = (
        "you norm after the addition: that is post-norm. Here each branch norms what it reads; the sum stays"
    )
    no_skip_attn, no_skip_mlp = lambda b, x: b.attn(b.norm1(x)), lambda b, x: b.mlp(b.norm2(x))
    post_attn, post_mlp = lambda b, x: b.norm1(x + b.attn(x)), lambda b, x: b.norm2(x + b.mlp(x))
    raw_attn, raw_mlp = lambda b, x: x + b.attn(x), lambda b, x: x + b.mlp(x)
    compare_modules(
        answer,
        encoder.Block,
        cases,
        [
            (block_of(post_attn, post_mlp), post),
            (block_of(normed_attend, normed_think), from_normed_message),
            (block_of(normed_attend, think), from_normed_message + " (in the attention half)"),
            (block_of(attend, normed_think), from_normed_message + " (in the MLP half)"),
            (
                block_of(attend, lambda b, x: x + b.mlp(b.norm1(x))),
                "norm1 is used twice: each of the two branches has a norm of its own, with weights of its own",
            ),
            (block_of(attend, raw_mlp), unnormed.format("the MLP", "norm2")),
            (block_of(raw_attn, think), unnormed.format("attention", "norm1")),
            (block_of(raw_attn, raw_mlp), "no norm is used: norm1 before attention, norm2 before the MLP"),
            (block_of(no_skip_attn, no_skip_mlp), "both residuals are missing: x + ... in both lines"),
            (block_of(no_skip_attn, think), lost.format("attention")),
            (block_of(attend, no_skip_mlp), lost.format("the MLP")),
            (block_of(think, attend), "MLP and attention are swapped: equation 2, attention, comes first"),
            (
                block_of(lambda b, x: x, lambda b, x: attend(b, x) + b.mlp(b.norm2(x))),
                "the MLP reads the stream from before attention: equation 3 starts from z', the result of equation 2",
            ),
            (
                block_of(lambda b, x: x, lambda b, x: x + b.mlp(b.norm2(attend(b, x)))),
                "equation 3 adds to z', the result of equation 2; you add to the input of the block, so attention's "
                "own contribution is lost",
            ),
            (
                block_of(lambda b, x: x + b.norm1(b.attn(x)), lambda b, x: x + b.norm2(b.mlp(x))),
                "you norm what a branch writes; norm what it reads",
            ),
            (
                block_of(lambda b, x: x + b.attn(b.norm2(x)), lambda b, x: x + b.mlp(b.norm1(x))),
                "norm1 and norm2 are swapped",
            ),
            (block_of(attend, lambda b, x: x), "the second half, equation 3, is missing"),
            (
                ALWAYS_PAIR,
                "you always return the weights: without return_attention=True the next block expects the tokens alone",
            ),
        ],
    )
    check_options(answer)
    check_branches(answer)
    check_pair(answer)


def check_pair(answer: type) -> None:
    """With `return_attention` the same pass gives tokens and weights."""
    options, x = {"dim": 8, "num_heads": 2}, torch.randn(2, 5, 8)
    check_keyword(answer, options, x)
    compare_modules(answer, encoder.Block, [(options, x, True)], PAIR_MISTAKES)
    module, calls = build(answer, **options), []
    module.attn.register_forward_hook(lambda *_: calls.append(1))
    module(x, return_attention=True)
    if len(calls) > 1:
        raise Mistake(
            f"attention runs {len(calls)} times: one call, `self.attn(..., return_attention=True)`, gives the branch "
            "and the weights"
        )


def check_options(answer: type) -> None:
    """See to it that the parts are built with the eps and the dropout rates that were asked for."""
    for option, parts in {"drop": ("attn", "mlp"), "attn_drop": ("attn",)}.items():
        module, x = build(answer, dim=8, num_heads=2, **{option: 0.5}).train(), torch.randn(2, 3, 8)
        for name in ("norm1", "norm2"):
            if (eps := getattr(getattr(module, name), "eps", 1e-6)) != 1e-6:
                raise Mistake(f"the eps of {name} is {eps}, it should be 1e-6: nn.LayerNorm(dim, eps=1e-6)")
        for name in parts:
            if torch.equal(getattr(module, name)(x), getattr(module, name)(x)):
                raise Mistake(f"`{option}` does not reach self.{name}: give it that rate when you build it")
        if (module.attn(x) == 0).any() != (option == "drop"):
            raise Mistake(
                "`drop` and `attn_drop` are swapped in self.attn: build it with attn_drop=attn_drop, proj_drop=drop"
            )


def check_branches(answer: type) -> None:
    """Look at 400 pictures in training: each branch of each must be dropped, or kept and scaled."""
    module, x = build(answer, dim=8, num_heads=2, drop_path=0.25).train(), torch.randn(400, 3, 8)
    if getattr(module, "drop_path_rate", None) != 0.25:
        raise Mistake("`self.drop_path_rate` should hold the rate: the lesson reads it there")
    count, pictures = {}, {}
    with torch.no_grad():
        result = module(x)
        for first in (0, 1, 4 / 3):
            middle = x + first * module.attn(module.norm1(x))
            for second in (0, 1, 4 / 3):
                end = middle + second * module.mlp(module.norm2(middle))
                same = torch.isclose(result, end, rtol=1e-4, atol=1e-5).flatten(1).all(1)
                count[first, second], pictures[first, second] = int(same.sum()), same
        once, twice, whole = module.eval()(x), module(x), think(module, attend(module, x))
    if count[1, 1] == len(x):
        raise Mistake("drop path is not used: both branches go through `drop_path` before they are added")
    if sum(count.values()) < len(x):
        raise Mistake(
            "in training with drop path some pictures come out neither with nor without a branch: give `drop_path` "
            "the branch alone, not the sum with the stream, and self.drop_path_rate as rate"
        )
    for place, name in enumerate(("attention", "MLP")):
        gone = torch.stack([same for factors, same in pictures.items() if factors[place] == 0]).any(dim=0)
        dropped = gone.double().mean().item()
        if any(number for factors, number in count.items() if factors[place] == 1):
            raise Mistake(
                f"the {name} branch is dropped for some pictures, but for the others it is not divided by 1 - rate: "
                "`drop_path` does both"
                if dropped
                else f"the {name} branch does not go through `drop_path`"
            )
        if dropped and torch.equal(gone[0::2], gone[1::2]):
            raise Mistake(
                f"pictures 0 and 1, 2 and 3, and so on lose the {name} branch together: each picture has its own draw"
            )
        if abs(dropped - 0.25) > 0.1:
            raise Mistake(
                f"with drop_path=0.25 the {name} branch is dropped for {dropped:.0%} of the pictures: the rate is "
                "self.drop_path_rate, and each picture has its own draw"
            )
    if not all(count[pair] for pair in ((0, 0), (0, 4 / 3), (4 / 3, 0), (4 / 3, 4 / 3))):
        raise Mistake("the two branches share one draw: each branch goes through a `drop_path` of its own")
    if difference(once, twice) or difference(once, whole):
        raise Mistake("drop path is active in evaluation: pass it self.training")
