"""Checks of lesson 06: the Vision Transformer."""

import inspect
import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations

import torch
from torch import Tensor, nn

from vit_course import vit
from vit_course.classroom.checks.compare import compare, compare_modules
from vit_course.classroom.checks.outcome import Mistake, build, outcome, spread_weights
from vit_course.classroom.checks.parts import check_float64, check_keyword
from vit_course.classroom.checks.registry import exercise
from vit_course.classroom.checks.words import difference, explain_error
from vit_course.embeddings import pool

TINY = {
    "img_size": 4,
    "patch_size": 2,
    "in_chans": 1,
    "num_classes": 3,
    "embed_dim": 4,
    "depth": 1,
    "num_heads": 1,
}
SMALL = {"img_size": (8, 12), "patch_size": 4, "num_classes": 5, "embed_dim": 12, "depth": 2, "num_heads": 2}
NO_CLS = {"global_pool": "avg", "class_token": False}


def wrong(forward: Callable) -> type:
    """Make a model whose forward pass is this function of (model, images)."""
    return type("Wrong", (vit.VisionTransformer,), {"forward": forward})


def tokens(model: nn.Module, images: Tensor) -> Tensor:
    return model.norm(model.blocks(model.embed(images)))


def classify(model: nn.Module, z: Tensor) -> Tensor:
    return model.head(model.pre_logits(z))


def late_cls(model: nn.Module, images: Tensor) -> Tensor:
    """Add positions to the patches first, then put a CLS token without a position in front."""
    patches = model.patch_embed(images)
    patches = patches + model.pos_embed[:, 1:]
    x = torch.cat([model.cls_token.expand(len(patches), -1, -1), patches], dim=1)
    return classify(model, model.norm(model.blocks(x))[:, 0])


def no_positions(model: nn.Module, images: Tensor) -> Tensor:
    patches = model.patch_embed(images)
    x = torch.cat([model.cls_token.expand(len(patches), -1, -1), patches], dim=1)
    return classify(model, model.norm(model.blocks(x))[:, 0])


PLAIN_MISTAKES = [
    (
        wrong(lambda m, x: classify(m, m.blocks(m.embed(x))[:, 0])),
        "the final layer norm is missing: equation 4 is y = LN(z_L^0), and `self.norm` is that LN",
    ),
    (
        wrong(lambda m, x: classify(m, tokens(m, x)[:, 1])),
        "your head reads token 1, the first patch: the CLS token stands in front, at index 0",
    ),
    (
        wrong(lambda m, x: classify(m, tokens(m, x)[:, -1])),
        "your head reads the last token, a patch: the CLS token stands in front, at index 0",
    ),
    (
        wrong(lambda m, x: classify(m, m.norm(m.blocks(m.patch_embed(x)))[:, 0])),
        "`self.patch_embed` is only the first step of equation 1: the CLS token and the positions are missing; "
        "`self.embed` does all of it",
    ),
    (wrong(late_cls), "your CLS token has no position: put it in front first, then add E_pos to all tokens"),
    (wrong(no_positions), "the positions E_pos are missing: `self.embed` does the whole of equation 1"),
    (
        wrong(lambda m, x: classify(m, tokens(m, x)[:, 0]).softmax(-1)),
        "you return probabilities: logits were asked for. The loss applies the softmax itself, and twice is wrong",
    ),
    (
        wrong(lambda m, x: classify(m, tokens(m, x)[:, 0]).log_softmax(-1)),
        "you return log-probabilities: logits were asked for, the output of the head as it is",
    ),
    (
        wrong(lambda m, x: classify(m, m.norm(m.blocks(m.blocks(m.embed(x))))[:, 0])),
        "the images go through the blocks twice: `self.blocks(x)` runs all L blocks, so call it once",
    ),
    (
        wrong(lambda m, x: classify(m, m.norm(m.embed(x))[:, 0])),
        "the encoder is missing: the CLS token has not met the image yet; call `self.blocks`",
    ),
    (
        wrong(lambda m, x: classify(m, m.blocks(m.norm(m.embed(x)))[:, 0])),
        "your norm comes before the blocks: the LN of equation 4 comes after the last block",
    ),
    (
        wrong(lambda m, x: classify(m, tokens(m, x))),
        "you classify every token, (B, T, K): `pool` makes one vector per image first",
    ),
    (
        wrong(lambda m, x: classify(m, tokens(m, x)[:, 1:].mean(1))),
        "you average the patches although `self.global_pool` is 'token': `pool` needs the mode",
    ),
    (
        wrong(lambda m, x: classify(m, tokens(m, x).mean(1))),
        "you average all tokens although `self.global_pool` is 'token': use `pool` with its mode",
    ),
    (
        wrong(lambda m, x: (classify(m, tokens(m, x)[:, 0]), m.blocks(m.embed(x), return_attention=True)[1])),
        "without `return_attention` return the logits alone, not a pair",
    ),
]
POOL_MISTAKES = [
    (
        wrong(lambda m, x: classify(m, tokens(m, x)[:, 0])),
        "you always read token 0: `self.global_pool` may be 'avg', and then the patch tokens are averaged",
    ),
    (
        wrong(lambda m, x: classify(m, m.norm(pool(m.blocks(m.embed(x)), "avg", m.num_prefix_tokens)))),
        "you pool first and normalise then: for the CLS token it is the same, for an average it is not. Every "
        "token is normed, then pooled",
    ),
    (
        wrong(lambda m, x: classify(m, tokens(m, x).mean(1))),
        "your average contains the CLS token: pass `self.num_prefix_tokens` to `pool`, it leaves them out",
    ),
    (
        wrong(lambda m, x: classify(m, tokens(m, x)[:, 1:].mean(1))),
        "without a CLS token your average leaves out the first patch: pass `self.num_prefix_tokens` to `pool`",
    ),
]
HIDDEN_MISTAKES = [
    (
        wrong(lambda m, x: m.head(pool(tokens(m, x), m.global_pool, m.num_prefix_tokens))),
        "`self.pre_logits` is skipped: with `representation_size` it is the hidden tanh layer before the head",
    ),
]


def attention_twice(model: nn.Module, images: Tensor, again: bool) -> tuple:
    x = model.blocks(model.embed(images))
    _, attentions = model.blocks(x if again else model.embed(images), return_attention=True)
    return classify(model, pool(model.norm(x), model.global_pool, model.num_prefix_tokens)), attentions


ATTENTION_MISTAKES = [
    (
        wrong(lambda m, x, a: classify(m, pool(tokens(m, x), m.global_pool, m.num_prefix_tokens))),
        "`return_attention=True` is ignored: return (logits, attentions); `self.blocks` has the same switch",
    ),
    (wrong(lambda m, x, a: attention_twice(m, x, False)[::-1]), "the order is (logits, attentions)"),
    (
        wrong(lambda m, x, a: attention_twice(m, x, True)),
        "your attention comes from a second trip through the blocks: one call gives tokens and weights",
    ),
    (
        wrong(lambda m, x, a: (attention_twice(m, x, False)[0], attention_twice(m, x, False)[1][-1])),
        "you return the weights of the last layer alone: a list over all L layers was asked for",
    ),
]


@exercise(vit.VisionTransformer)
def check_vision_transformer(answer):
    tiny, small = torch.rand(1, 1, 4, 4), torch.rand(2, 3, 8, 12)
    plain = [(TINY, tiny), (SMALL, small)]
    pools = [(options | {"global_pool": "avg"}, images) for options, images in plain[:2]]
    pools += [(SMALL | NO_CLS, small)]
    positions = [(TINY | {"pos_embed": kind}, tiny) for kind in ("none", "sincos")]
    hidden = [
        (options | {"representation_size": size}, x)
        for options, x, size in [(TINY, tiny, 4), (SMALL, small, 7)]
    ]
    attention = [(options, x, True) for options, x in [plain[0], (SMALL | NO_CLS, small), hidden[1]]]
    check_mode(answer, small)
    for cases, mistakes in [
        (plain, PLAIN_MISTAKES),
        (pools, POOL_MISTAKES),
        (positions, ()),
        (hidden, HIDDEN_MISTAKES),
        (attention, ATTENTION_MISTAKES),
    ]:
        compare_modules(answer, vit.VisionTransformer, cases, mistakes)
    check_keyword(answer, SMALL, small)
    check_float64(answer, vit.VisionTransformer, SMALL, small)
    check_pos_drop(answer, small)
    module = build(answer, **SMALL)
    for bad in (torch.rand(2, 3, 8, 8), torch.rand(2, 1, 8, 12)):
        if not isinstance(outcome(lambda f, x: f(x), module, (bad,)), Exception):
            raise Mistake(
                f"built for 3x8x12 it accepts images of shape {tuple(bad.shape)}: `self.embed` refuses them"
            )


def check_mode(answer: type, images: Tensor) -> None:
    """Two runs in evaluation must agree, and no run may switch the mode."""
    module = spread_weights(build(answer, **SMALL, drop_rate=0.25))
    for training in (True, False):
        results = [outcome(lambda f, x: f(x), module.train(training), (images,)) for _ in range(2)]
        if any(part.training != training for part in module.modules()):
            raise Mistake(
                "your forward switches the mode of the model: leave out `self.eval()` and `self.train()`. Who calls "
                "the model decides whether it trains"
            )
        if training and isinstance(results[0], Tensor) and torch.equal(*results):
            raise Mistake(
                "with drop_rate=0.25 two runs in training agree: no dropout is at work. Leave out `self.eval()`; "
                "who calls the model decides whether it trains"
            )
    if all(isinstance(result, Tensor) for result in results) and not torch.equal(*results):
        raise Mistake(
            "two runs in evaluation give different logits: something is random there. `F.dropout(y)` drops always, "
            "unless you give it training=self.training; here no dropout is needed beside that of `self.embed`"
        )


def check_pos_drop(answer: type, images: Tensor) -> None:
    """Compare with the finished model where `pos_drop` multiplies by a factor, in the place of dropping."""
    logits = []
    for kind, factor in ((answer, 2.0), (vit.VisionTransformer, 2.0), (vit.VisionTransformer, 1.0)):
        torch.manual_seed(0)
        module = spread_weights(build(kind, **SMALL)).train()
        module.pos_drop.register_forward_hook(lambda _, __, x, factor=factor: factor * x)
        logits.append(module(images))
    got, want, undropped = logits
    if torch.allclose(got, undropped, atol=1e-4):
        raise Mistake(
            "in training `self.pos_drop` should drop parts of the tokens; it is part of `self.embed`"
        )
    if not torch.allclose(got, want, atol=1e-4):
        raise Mistake(
            "in training too much is dropped: `self.pos_drop` is called in a second place. `self.embed` calls it "
            "already, once, right after the positions are added"
        )


def omissions(img: int, p: int, c: int, k: int, d: int, depth: int, ratio: float) -> dict[str, int]:
    """Say, for one size, by how much each usual mistake changes the number of parameters."""
    hidden, rows = int(d * ratio), img // p
    block = 4 * d + (4 * d * d + 4 * d) + (2 * d * hidden + hidden + d)
    return {
        "you are D short: the bias of the patch projection, the CLS token, the position of the CLS token and the shift "
        "of the final norm have D numbers each": -d,
        "you are 2·D short: the final norm, a scale and a shift after the last block, or the CLS token and its "
        "position": -2 * d,
        "the number of patches is (image / P)², rows times columns: you take image / P": (rows - rows**2) * d,
        "the hidden width of the MLP is int(D·mlp_ratio): you take 4·D": depth
        * (2 * d + 1)
        * (4 * d - hidden),
        "the positions are missing: (N + 1)·D": -(rows**2 + 1) * d,
        "the patch projection is missing: P²·C·D + D": -(p * p * c + 1) * d,
        "P should be squared: a patch has P²·C numbers": (p - p * p) * c * d,
        "the channels are missing: a patch has P²·C numbers": p * p * (1 - c) * d,
        "queries, keys and values need three matrices, D x 3D: you count one D x D": -2 * depth * d * d,
        "qkv is one layer from D to 3D: you count a layer from D to D": -2 * depth * (d * d + d),
        "W_O is missing: every attention ends with a layer of D·D + D": -depth * (d * d + d),
        "the matrix W_O is missing: D·D in every block": -depth * d * d,
        "the qkv projection has a bias: 3·D in every block": -3 * depth * d,
        "you are D short in every block: W_O and the second layer of the MLP have a bias each": -depth * d,
        "the MLP has two layers, D to hidden and hidden to D: you count the first": -depth * (hidden * d + d),
        "the MLP has two matrices of D·hidden numbers: you count one": -depth * hidden * d,
        "the first layer of the MLP has a bias of `hidden` numbers": -depth * hidden,
        "the two biases of the MLP are missing: hidden + D": -depth * (hidden + d),
        "a block has two norms, each with a scale and a shift, 4·D: you count half": -2 * depth * d,
        "the two norms of every block are missing: 4·D": -4 * depth * d,
        "the head has a bias too: D·K + K": -k,
        "the head is missing: D·K + K": -(d * k + k),
        "there are L blocks: you count one": (1 - depth) * block,
        "the biases are missing: every linear layer has one": -d - depth * (5 * d + hidden) - k,
    }


@exercise(vit.vit_num_parameters)
def check_vit_num_parameters(answer):
    cases = [
        (8, 4, 1, 3, 8, 1, 2.0),
        (32, 4, 3, 10, 192, 12, 4.0),
        (48, 8, 3, 100, 96, 3, 2.5),
        (224, 14, 3, 1000, 1280, 32, 4.0),
        (20, 5, 2, 7, 36, 5, 3.0),
        (16, 8, 3, 4, 10, 2, 2.67),
    ]

    def off_by(words: Sequence[str]) -> Callable:
        return lambda *case: vit.vit_num_parameters(*case) + sum(omissions(*case)[word] for word in words)

    known = list(omissions(*cases[0]))
    chosen = [words for size in (1, 2) for words in combinations(known, size)]
    mistakes = [(off_by(words), "; and ".join(words)) for words in chosen]
    for whole in (round, math.ceil, float):
        mistakes.append(
            (
                partial(other_width, whole),
                "the hidden width of the MLP is int(D·mlp_ratio), a whole number, rounded down: with D = 10 and "
                "mlp_ratio = 2.67 it is 26, in both layers",
            )
        )
    compare(answer, vit.vit_num_parameters, cases, mistakes)
    defaults = inspect.signature(vit.vit_num_parameters).parameters.values()
    for number in reversed(range(len(defaults))):
        given, name = cases[1][:number], list(defaults)[number].name
        result = outcome(lambda f, *sizes: f(*sizes), answer, given)
        if difference(result, vit.vit_num_parameters(*given)):
            raise Mistake(
                f"right with all seven sizes, but the default of `{name}` is missing or another one: keep the first "
                f"line as it was, {name}={list(defaults)[number].default}"
            )


def other_width(whole: Callable, *case) -> int:
    """Count with another way to make a whole number of D·mlp_ratio."""
    *sizes, d, depth, ratio = case
    hidden = whole(d * ratio)
    return int(vit.vit_num_parameters(*sizes, d, depth, 0) + depth * (2 * d + 1) * hidden)


@exercise(vit.init_head)
def check_init_head(answer):
    for width, classes, dtype in [(2, 3, torch.float32), (8, 5, torch.float32), (6, 10, torch.float64)]:
        head = spread_weights(nn.Linear(width, classes, dtype=dtype))
        before = dict(head.named_parameters())
        result = outcome(lambda f, layer: f(layer), answer, (head,))
        if isinstance(result, Exception):
            pointer = ""
            if "leaf Variable" in str(result):
                pointer = (
                    ". Parameters are changed in place inside `with torch.no_grad():`, or by nn.init.zeros_"
                )
            raise Mistake(f"your code stopped with {explain_error(result)}{pointer}")
        judge_head(head, result, dtype)
        for name, value in before.items():
            if getattr(head, name) is not value:
                raise Mistake(
                    f"head.{name} is a new parameter: an optimiser that was built before still holds the old one. "
                    "Change its numbers, in place, with nn.init.zeros_"
                )
            shape = (classes, width) if name == "weight" else (classes,)
            if tuple(value.shape) != shape:
                raise Mistake(f"head.{name} should keep its shape {shape}, yours is {tuple(value.shape)}")


def judge_head(head: nn.Linear, result: object, dtype: torch.dtype) -> None:
    """Say what is wrong with a head after an answer has worked on it and returned `result`."""
    fresh = isinstance(result, nn.Linear) and result is not head
    if fresh and not result.weight.any():
        raise Mistake(
            "you return a new layer; the model still holds the old one: change this layer, in place"
        )
    for name, value in [("weight", head.weight), ("bias", head.bias)]:
        if not isinstance(value, nn.Parameter):
            raise Mistake(
                f"head.{name} is no nn.Parameter any more ({type(value).__name__}): keep it, change its values"
            )
        if not value.any():
            continue
        if name == "bias":
            raise Mistake(
                "the weight is zero, the bias is not: then some classes start ahead of others; set both to 0"
            )
        if bool((value == 1).all()):
            raise Mistake(
                "your weights are 1: then logits depend on the image, the same for each class; 0 was asked for"
            )
        raise Mistake(
            f"head.weight is not zero yet (its largest number is {value.abs().max():.2g}): small random numbers give "
            f"a first loss near ln K = {math.log(len(value)):.3f}, only zeros give it exactly"
        )
    if not (head.weight.requires_grad and head.bias.requires_grad):
        raise Mistake(
            "your head cannot learn any more: requires_grad should stay True, zero is where it starts"
        )
    if head.weight.dtype != dtype or head.bias.dtype != dtype:
        raise Mistake(f"the numbers should stay {dtype}: change the values in place")
    if result is not head:
        raise Mistake(
            "the layer is right, but your function returns "
            + ("nothing: " if result is None else f"{type(result).__name__}: ")
            + "return the same layer, so that it can be used in one line"
        )
