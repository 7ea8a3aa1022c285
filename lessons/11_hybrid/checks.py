"""Checks of lesson 11: the hybrid."""

import math
from collections.abc import Callable

import numpy as np
import torch
from einops import rearrange
from torch import Tensor, nn

from vit_course.beyond import hybrid
from vit_course.classroom.checks.compare import compare, compare_gradients, demand_error
from vit_course.classroom.checks.outcome import Mistake, build, outcome, same_weights, spread_weights
from vit_course.classroom.checks.registry import exercise
from vit_course.classroom.checks.words import difference, explain_error


@exercise(hybrid.feature_map_shape)
def check_feature_map_shape(answer):
    def known(shape: Callable) -> Callable:
        """Build a mistake from (height, width, channels of the first stage, stages used) -> shape."""

        def function(img_size, width=16, stages=4, lengthen=False):
            height, across = hybrid.as_pair(img_size)
            return shape(height, across, width, stages - int(lengthen))

        return function

    def ignores_lengthen(img_size, width=16, stages=4, lengthen=False):
        return hybrid.feature_map_shape(img_size, width, stages)

    def keeps_channels(img_size, width=16, stages=4, lengthen=False):
        _, rows, columns = hybrid.feature_map_shape(img_size, width, stages, lengthen)
        return width * 2 ** (stages - 1), rows, columns

    def another_stage(img_size, width=16, stages=4, lengthen=False):
        return hybrid.feature_map_shape(img_size, width, stages + int(lengthen))

    cases = [
        (4, 2, 2),
        (32,),
        (32, 16, 3),
        (8, 3, 1),
        ((16, 48), 5, 4),
        (16, 4, 3, True),
        ((64, 32), 16, 4, True),
        (8, 6, 2, True),
        ((12, 20), 16, 4, True),
    ]
    mistakes = [
        (
            known(lambda h, w, c, s: (c * 2 ** (s - 1), h // 2**s, w // 2**s)),
            "you halve once too often: the first stage keeps the size of the picture, so there are stages - 1 halvings",
        ),
        (
            known(lambda h, w, c, s: (c * 2**s, h // 2**s, w // 2**s)),
            "you count one stage too many: the first stage neither halves the map nor doubles the channels",
        ),
        (
            known(lambda h, w, c, s: (c * 2**s, h // 2 ** (s - 1), w // 2 ** (s - 1))),
            "the channels double once too often: the first stage has `width` of them",
        ),
        (ignores_lengthen, "`lengthen` changes nothing: with it the last stage is not there"),
        (
            another_stage,
            "`lengthen` adds a stage: it should take the last one away, so the map stays larger",
        ),
        (
            keeps_channels,
            "with `lengthen` the map is right, but the channels are those of the stage that was left out",
        ),
        (
            known(lambda h, w, c, s: (c, h // 2 ** (s - 1), w // 2 ** (s - 1))),
            "the channels are those of the first stage: every stage after it has twice as many",
        ),
        (
            known(lambda h, w, c, s: (c * s, h // 2 ** (s - 1), w // 2 ** (s - 1))),
            "the channels double with each stage: they do not grow by `width` each time",
        ),
        (
            known(lambda h, w, c, s: (c * 2 ** (s - 1), w // 2 ** (s - 1), h // 2 ** (s - 1))),
            "rows and columns are swapped: a size is (height, width)",
        ),
        (
            known(lambda h, w, c, s: (h // 2 ** (s - 1), w // 2 ** (s - 1), c * 2 ** (s - 1))),
            "the right numbers in the wrong order: (channels, rows, columns)",
        ),
        (
            known(lambda h, w, c, s: (c * 2 ** (s - 1), h // 2 ** (s - 1), h // 2 ** (s - 1))),
            "your map is always square: pictures may be wider than high",
        ),
        (
            known(lambda h, w, c, s: (c * 2 ** (s - 1), h * w // 4 ** (s - 1))),
            "you multiply rows and columns: (channels, rows, columns) is wanted, three numbers",
        ),
    ]
    compare(lambda *case: _as_tuple(answer(*case)), hybrid.feature_map_shape, cases, mistakes)
    for case, halved in (((30,), 8), (((32, 20), 16, 4), 8), (((12, 20),), 8), (((18, 32), 4, 4, True), 4)):
        demand_error(
            answer,
            case,
            f"a picture of {case[0]} pixels cannot be divided by {halved}: some positions would look beyond the border",
            ValueError,
        )


def _as_tuple(shape):
    """Read any kind of sequence as a tuple; leave the rest for the comparison to reject."""
    return tuple(shape) if isinstance(shape, list | torch.Size) else shape


@exercise(hybrid.tokens_from_map)
def check_tokens_from_map(answer):
    def known(tokens: Callable) -> Callable:
        """Build a mistake from a function of the tokens without their linear layer, (B, N, C)."""
        return lambda maps, weight, bias: tokens(rearrange(maps, "b c h w -> b (h w) c"), weight, bias)

    def bare(maps, weight, bias):
        return maps.reshape(maps.shape[0], -1, maps.shape[1]) @ weight.T + bias

    def by_columns(maps, weight, bias):
        return rearrange(maps, "b c h w -> b (w h) c") @ weight.T + bias

    def whole(maps, weight, bias):
        return hybrid.tokens_from_map(maps.mean(dim=(2, 3), keepdim=True), weight, bias)

    def one_vector(maps, weight, bias):
        return maps.mean(dim=(2, 3)) @ weight.T + bias

    def as_map(maps, weight, bias):
        return rearrange(hybrid.tokens_from_map(maps, weight, bias), "b (h w) d -> b h w d", h=maps.shape[2])

    def as_picture(maps, weight, bias):
        return rearrange(hybrid.tokens_from_map(maps, weight, bias), "b (h w) d -> b d h w", h=maps.shape[2])

    def cls_too(tokens, weight, bias):
        return nn.functional.pad(tokens @ weight.T + bias, (0, 0, 1, 0))

    small = torch.tensor([[[[1.0, 2, 3], [4, 5, 6]], [[10, 20, 30], [40, 50, 60]]]])
    cases = [
        (small, torch.tensor([[1.0, 0], [1, 1]]), torch.tensor([0.5, 0])),
        (torch.randn(2, 3, 2, 4), torch.randn(5, 3), torch.randn(5)),
        (torch.randn(3, 4, 4, 4), torch.randn(4, 4), torch.randn(4)),
        (torch.randn(2, 6, 3, 1).double(), torch.randn(2, 6).double(), torch.randn(2).double()),
        (torch.randn(2, 3, 5, 7).transpose(1, 2), torch.randn(4, 5), torch.randn(4)),
    ]
    mistakes = [
        (
            bare,
            "the shape is right but the numbers are mixed: `reshape` or `view` alone moves nothing, and the C numbers "
            "of a position lie far apart. Bring the channels last, then join rows and columns",
        ),
        (by_columns, "the tokens come column by column: reading order is row by row"),
        (known(lambda t, w, b: t @ w.T), "the bias is missing"),
        (known(lambda t, w, b: t), "the linear layer is missing: every position should become D numbers"),
        (
            known(lambda t, w, b: t @ w + b),
            "W is (D, C), so a row of C numbers meets its transpose: tokens @ W.T",
        ),
        (
            known(lambda t, w, b: (t @ w.T + b).transpose(1, 2)),
            "you return (B, D, N): tokens come first, (B, N, D)",
        ),
        (as_map, "rows and columns should become one axis: (B, N, D) with N = H·W"),
        (as_picture, "the map of D channels is right; now read it as a sequence, (B, N, D) with N = H·W"),
        (known(cls_too), "there is a token too many: CLS is not your work here, N = H·W"),
        (whole, "you average over the map: that is one token; each position should be a token of its own"),
        (one_vector, "you average over the map: each position should be a token of its own"),
        (known(lambda t, w, b: (t @ w.T + b).relu()), "the projection is linear: no ReLU behind it"),
        (
            known(lambda t, w, b: (t @ w.T + b) * w.shape[1] ** -0.5),
            "nothing is scaled here: that is for attention scores",
        ),
    ]
    compare(answer, hybrid.tokens_from_map, cases, mistakes)
    compare_gradients(answer, hybrid.tokens_from_map, cases[1])


@exercise(hybrid.receptive_field)
def check_receptive_field(answer):
    def known(step: Callable, start: int = 1) -> Callable:
        """Build a mistake from one step: (field, jump, kernel, stride) -> the next field and jump."""

        def function(layers):
            field, jump = start, 1
            for kernel, stride in layers:
                field, jump = step(field, jump, kernel, stride)
            return field

        return function

    right = hybrid.receptive_field
    cases = [
        ([(3, 1)],),
        ([(3, 1), (3, 1)],),
        ([(4, 4)],),
        ([(3, 2), (3, 1)],),
        ([(2, 2), (2, 2), (3, 1)],),
        ([(7, 2), (3, 2), (3, 1), (3, 2), (1, 1), (5, 3), (3, 1)],),
        ([(1, 2), (3, 1)],),
        ([],),
    ]
    mistakes = [
        (
            known(lambda f, j, k, s: (f + k - 1, 1)),
            "the strides are left out: behind a stride of 2, neighbouring positions lie 2 pixels apart, so a layer "
            "adds (k - 1) times the product of the strides before it",
        ),
        (
            known(lambda f, j, k, s: (f + (k - 1) * j * s, j * s)),
            "a layer's own stride counts too early: it moves the layer's *results* apart, so it matters for the layers "
            "behind it",
        ),
        (
            known(lambda f, j, k, s: (f + (k - 1) * j, s)),
            "only the stride of the layer before counts in yours; all strides before it multiply",
        ),
        (
            known(lambda f, j, k, s: (f + (k - 1) * s, j)),
            "each layer is multiplied by its own stride: it should be the product of all strides *before* it",
        ),
        (
            known(lambda f, j, k, s: (f + (k - 1) * j, j + s - 1)),
            "the strides are added up; two halvings make 4 pixels, three make 8: they multiply",
        ),
        (
            known(lambda f, j, k, s: (f + k * j, j * s)),
            "a kernel of size k adds k - 1: its middle was seen already",
        ),
        (
            known(lambda f, j, k, s: (f + k * j, j * s), start=0),
            "a kernel of size k adds k - 1, and the first position is 1 pixel wide before any layer",
        ),
        (
            known(lambda f, j, k, s: (f + (k - 1) * j, j * s), start=0),
            "one pixel is missing: without any layer a position is one pixel, so start with 1",
        ),
        (
            known(lambda f, j, k, s: (f + k // 2 * j, j * s)),
            "the field grows on both sides: you count one side of the kernel",
        ),
        (
            known(lambda f, j, k, s: (f * k, j)),
            "the kernel sizes are multiplied; each layer *adds* (k - 1) steps",
        ),
        (
            known(lambda f, j, k, s: ((f - 1) * s + k, j)),
            "your rule is right, but it has to walk from the last layer back to the first: `reversed(layers)`",
        ),
        (
            lambda layers: right(layers) ** 2,
            "you return the area; the side of the field was asked for, in pixels",
        ),
        (
            lambda layers: torch.tensor([s for _, s in layers]).prod().item(),
            "you return the product of the strides: that is how far neighbours lie apart, not how much one sees",
        ),
    ]
    compare(_kept(answer, "layers"), right, cases, mistakes)


def _kept(answer: Callable, name: str) -> Callable:
    """Run an answer on a copy of its list or dict, and demand that it leaves that as it is."""

    def function(given, *more):
        copied = given.copy()
        result = answer(copied, *more)
        if copied != given or list(copied) != list(given):
            raise Mistake(
                f"your code changes `{name}` itself: whoever called it still needs the old one. Work on a copy, for "
                "example sorted(...) or list(...)"
            )
        return result

    return function


OPTIONS = {"width": 3, "embed_dim": 8, "depth": 2, "num_heads": 2, "num_classes": 4}


def _ready(answer: type, options: dict) -> nn.Module:
    """Build a hybrid whose weights and batch statistics are all in use; equal for every class."""
    torch.manual_seed(0)
    finished = spread_weights(hybrid.HybridViT(**OPTIONS, **options))
    for module in finished.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 4.0, 40.0)
    return (
        finished
        if answer is hybrid.HybridViT
        else same_weights(build(answer, **OPTIONS, **options), finished)
    )


def _forward(change: Callable) -> type:
    """Build a hybrid with another forward pass: change(self, images, return_attention)."""

    class Variant(hybrid.HybridViT):
        def forward(self, images: Tensor, return_attention: bool = False):
            return change(self, images, return_attention)

    return Variant


def _averaged(model: nn.Module, images: Tensor, wanted: bool):
    result = model.vit(model.backbone(images), wanted)
    return (result[0], [weights.mean(dim=1) for weights in result[1]]) if wanted else result


def _last_only(model: nn.Module, images: Tensor, wanted: bool):
    result = model.vit(model.backbone(images), wanted)
    return (result[0], result[1][-1]) if wanted else result


def _last_in_list(model: nn.Module, images: Tensor, wanted: bool):
    result = model.vit(model.backbone(images), wanted)
    return (result[0], result[1][-1:]) if wanted else result


def _first_only(model: nn.Module, images: Tensor, wanted: bool):
    result = model.vit(model.backbone(images), wanted)
    return (result[0], result[1][0]) if wanted else result


def _stacked(model: nn.Module, images: Tensor, wanted: bool):
    result = model.vit(model.backbone(images), wanted)
    return (result[0], torch.stack(result[1])) if wanted else result


def _without_logits(model: nn.Module, images: Tensor, wanted: bool):
    result = model.vit(model.backbone(images), wanted)
    return result[1] if wanted else result


def _without_weights(model: nn.Module, images: Tensor, wanted: bool):
    logits = model.vit(model.backbone(images))
    return (logits, None) if wanted else logits


def _classes(model: nn.Module, images: Tensor, wanted: bool):
    result = model.vit(model.backbone(images), wanted)
    return (result[0].argmax(-1), result[1]) if wanted else result.argmax(-1)


def _swapped(model: nn.Module, images: Tensor, wanted: bool):
    result = model.vit(model.backbone(images), wanted)
    return result[::-1] if wanted else result


def _softmax(model: nn.Module, images: Tensor, wanted: bool):
    result = model.vit(model.backbone(images), wanted)
    return (result[0].softmax(-1), result[1]) if wanted else result.softmax(-1)


def _without_head(model: nn.Module, images: Tensor, wanted: bool):
    return model.vit.norm(model.vit.blocks(model.vit.embed(model.backbone(images))))


FORWARD_MISTAKES = [
    (
        _forward(lambda self, images, wanted: self.vit(self.backbone(images))),
        "`return_attention` is forgotten: hand it on to `self.vit`",
    ),
    (
        _forward(lambda self, images, wanted: self.vit(self.backbone(images), True)),
        "you always ask for the attention: without return_attention=True the logits alone are wanted",
    ),
    (
        _forward(lambda self, images, wanted: self.backbone(images)),
        "you return the feature map: the Transformer, `self.vit`, has not read it yet",
    ),
    (
        _forward(_averaged),
        "the weights are averaged over the heads; each head's own are wanted, (B, h, T, T)",
    ),
    (_forward(_last_only), "the weights of *every* layer are wanted, as a list"),
    (_forward(_last_in_list), "the weights of *every* layer are wanted; your list has the last layer alone"),
    (
        _forward(_first_only),
        "the weights of *every* layer are wanted, as a list; yours are those of the first",
    ),
    (_forward(_stacked), "the weights are wanted as a list, one tensor for each layer: do not stack them"),
    (
        _forward(_without_logits),
        "with return_attention=True two things are wanted: the logits, then the weights",
    ),
    (
        _forward(_without_weights),
        "you return None in place of the attention weights: hand `return_attention` on to `self.vit`",
    ),
    (_forward(_classes), "logits are wanted, (B, K), not the class that wins"),
    (
        _forward(lambda self, images, wanted: self.vit(self.backbone(images), not wanted)),
        "`return_attention` is turned round: without it the logits alone are wanted",
    ),
    (_forward(_swapped), "first the logits, then the attention weights"),
    (_forward(_softmax), "logits are wanted, not shares: the loss does the softmax"),
    (
        _forward(_without_head),
        "you stopped at the tokens: `self.vit(feature_map)` also pools them and applies the head",
    ),
    (
        _forward(lambda self, images, wanted: self.vit(self.backbone(images).relu() * 0.5, wanted)),
        "the feature map goes to the Transformer as it is: nothing is scaled in between",
    ),
    (
        _forward(lambda self, images, wanted: self.vit(self.backbone(images).transpose(2, 3), wanted)),
        "rows and columns of the map are swapped on the way",
    ),
    (
        _forward(
            lambda self, images, wanted: self.vit(nn.functional.normalize(self.backbone(images)), wanted)
        ),
        "the feature map goes to the Transformer as it is: nothing is normalised in between",
    ),
]


@exercise(hybrid.HybridViT)
def check_hybrid_vit(answer):
    small, wide = {"img_size": 8, "stages": 2}, {"img_size": (8, 24), "stages": 3, "in_chans": 1}
    longer = {"img_size": (8, 16), "stages": 3, "lengthen": True, "global_pool": "avg", "class_token": False}
    cases = [
        (small, torch.randn(2, 3, 8, 8)),
        (small, torch.randn(2, 3, 8, 8), True),
        (wide, torch.randn(3, 1, 8, 24)),
        (wide, torch.randn(1, 1, 8, 24), True),
        (longer, torch.randn(2, 3, 8, 16)),
    ]

    def evaluated(model_class: type, options: dict, *inputs):
        return _ready(model_class, options).eval()(*inputs)

    _check_picture_reaches_backbone(answer, small, cases[0][1])
    compare(
        evaluated_by(answer, evaluated), evaluated_by(hybrid.HybridViT, evaluated), cases, _named(evaluated)
    )
    images = cases[0][1]
    for training, where in ((True, "in training mode"), (False, "in evaluation mode")):
        mine, finished = (_ready(c, small).train(training) for c in (answer, hybrid.HybridViT))
        other = difference(outcome(lambda m, x: m(x), mine, (images,)), finished(images))
        if any(module.training != training for module in mine.modules()):
            raise Mistake(
                f"{where} your forward switches the mode of a part, and it stays switched: leave out `.eval()` and "
                "`.train()`, leave the modes alone"
            )
        if other:
            raise Mistake(
                f"{where} the result is another: leave the modes alone. `model.train()` and `model.eval()` reach the "
                "backbone by themselves, and batch norm has to learn its statistics in training"
            )
    compare_gradients(
        *(_ready(c, small).eval() for c in (answer, hybrid.HybridViT)), (images,), "on pictures of 8x8"
    )
    for shape, why in (
        (
            (2, 3, 7, 8),
            "pictures of 7x8 went into a model for 8x8. The backbone rounds 7 up, so nobody else notices",
        ),
        (
            (2, 3, 8, 7),
            "pictures of 8x7 went into a model for 8x8. The backbone rounds 7 up, so nobody else notices",
        ),
        ((2, 1, 8, 8), "pictures with 1 channel went into a model for 3"),
        ((3, 8, 8), "one picture without a batch axis went in"),
    ):
        demand_error(
            _ready(answer, small).eval(),
            (torch.randn(shape),),
            f"{why}: call `check_images` first",
            ValueError,
        )


def evaluated_by(model_class: type, evaluated: Callable) -> Callable:
    """Make a function of (options, *inputs) of a class of models, named like the arguments of the lesson."""

    def function(options, images, return_attention=False):
        return evaluated(model_class, options, images, return_attention)

    return function


def _named(evaluated: Callable) -> list[tuple[Callable, str]]:
    return [(evaluated_by(variant, evaluated), message) for variant, message in FORWARD_MISTAKES]


def _check_picture_reaches_backbone(answer: type, options: dict, images: Tensor) -> None:
    """The Transformer reads maps, so a picture that skips the backbone, or meets it twice, stops with an error."""
    model = _ready(answer, options).eval()
    calls, read = [], []
    model.backbone[0].register_forward_pre_hook(lambda *_: calls.append(1))
    model.vit.register_forward_pre_hook(lambda *_: read.append(1))
    result = outcome(lambda m, x: m(x), model, (images,))
    if isinstance(result, Exception) and (len(calls) > 1 or (read and not calls)):
        times = "never runs" if not calls else f"runs {len(calls)} times"
        raise Mistake(
            f"the backbone {times}: pictures go through `self.backbone` once, and the map goes to `self.vit` (your "
            f"code stopped with {explain_error(result)})"
        )


@exercise(hybrid.data_needed)
def check_data_needed(answer):
    right = hybrid.data_needed

    def pairs(curve):
        points = sorted(curve.items())
        return list(zip(points, points[1:], strict=False))

    def known(
        crossing: Callable,
        before=lambda first: float(first),
        never=lambda points: None,
        order=sorted,
        reached=lambda accuracy, target: accuracy >= target,
    ) -> Callable:
        """Build a mistake: what to return for a crossing (few, low, many, high, target), before the first and never."""

        def function(curve, target):
            points = order(curve.items())
            if reached(points[0][1], target):
                return before(points[0][0])
            for (few, low), (many, high) in zip(points, points[1:], strict=False):
                if reached(high, target):
                    return crossing(few, low, many, high, target)
            return never(points)

        return function

    def on_log(few, low, many, high, target):
        return few * (many / few) ** ((target - low) / (high - low))

    def linear(few, low, many, high, target):
        return few + (many - few) * (target - low) / (high - low)

    def last_crossing(curve, target):
        found = [on_log(*a, *b, target) for a, b in pairs(curve) if a[1] < target <= b[1]]
        return found[-1] if found else right(curve, target)

    def strict(curve, target):
        found = [on_log(*a, *b, target) for a, b in pairs(curve) if a[1] < target < b[1]]
        return found[0] if found else None

    def exact_only(curve, target):
        return next((float(count) for count, accuracy in sorted(curve.items()) if accuracy == target), None)

    def extrapolated(curve, target):
        (few, low), (many, high) = sorted(curve.items())[:2]
        return on_log(few, low, many, high, target) if low > target else right(curve, target)

    def beyond(curve, target):
        few, many = sorted(curve.items())[-2:]
        return right(curve, target) or on_log(*few, *many, target)

    def at_once(highest):
        """Build the mistake of one `np.interp` over the whole curve, whose accuracies may go down."""

        def function(curve, target):
            amounts = sorted(curve)
            scores = [curve[amount] for amount in amounts]
            if target > highest(scores):
                return None
            return float(np.exp(np.interp(target, scores, np.log(amounts))))

        return function

    def above_last(curve, target):
        return None if target > curve[max(curve)] else right(curve, target)

    def by_accuracy(curve, target):
        amounts = sorted(curve, key=curve.get)
        scores = [curve[amount] for amount in amounts]
        return None if target > scores[-1] else float(np.exp(np.interp(target, scores, np.log(amounts))))

    def nothing_to_the_left(curve, target):
        points = sorted(curve.items())
        return None if target < points[0][1] else right(curve, target)

    def only_between(curve, target):
        return nothing_to_the_left(curve, target) if len(curve) > 1 else None

    cases = [
        ({10: 0.2, 1000: 0.4}, 0.3),
        ({100: 20.0, 1000: 40.0, 10_000: 80.0}, 40.0),
        ({100: 20.0, 1000: 40.0, 10_000: 80.0}, 70.0),
        ({10_000: 80.0, 100: 20.0, 1000: 40.0}, 30.0),
        ({100: 20.0, 1000: 40.0, 10_000: 80.0}, 80.0),
        ({100: 20.0, 1000: 40.0}, 10.0),
        ({100: 20.0, 1000: 40.0}, 20.0),
        ({100: 20.0, 1000: 40.0}, 41.0),
        ({1: 0.1, 4: 0.5, 16: 0.3, 64: 0.6}, 0.4),
        ({1: 0.1, 4: 0.1, 16: 0.3}, 0.2),
        ({1: 0.1, 2: 0.2, 4: 0.25, 8: 0.3, 16: 0.6, 32: 0.35, 64: 0.4, 128: 0.7}, 0.5),
        ({1: 0.1, 4: 0.5, 16: 0.3}, 0.4),
        ({100: 50.0}, 50.0),
        ({100: 50.0}, 60.0),
    ]
    mistakes = [
        (
            known(linear),
            "your line is straight over the number of pictures; the axis of the figure is logarithmic: halfway between "
            "10 and 1000 lies 100. Interpolate the logarithm, then take `exp`",
        ),
        (
            known(lambda f, low, m, h, t: float(m)),
            "you return the next measured number: between two points, interpolate",
        ),
        (
            known(lambda f, low, m, h, t: float(f)),
            "you return the measured number before the crossing, where the target is not reached yet: interpolate",
        ),
        (
            known(lambda f, low, m, h, t: float(m if h - t <= t - low else f)),
            "you return the nearest measured number: between two points, interpolate",
        ),
        (
            known(lambda f, low, m, h, t: float(torch.tensor(on_log(f, low, m, h, t)).log10())),
            "you return a logarithm: undo it at the end",
        ),
        (
            known(lambda f, low, m, h, t: float(torch.tensor(on_log(f, low, m, h, t)).log())),
            "you return a logarithm: undo it at the end, with `exp`",
        ),
        (
            known(on_log, order=list),
            "the points come in any order: sort them by the number of pictures first",
        ),
        (last_crossing, "where the curve reaches the target more than once, the smallest number counts"),
        (
            exact_only,
            "the target rarely is one of the measured accuracies: find the two points around it, interpolate",
        ),
        (
            at_once(max),
            "`np.interp` over the whole curve needs accuracies that only rise; a curve may go down again. Find the "
            "first crossing yourself",
        ),
        (
            at_once(lambda scores: scores[-1]),
            "`np.interp` over the whole curve needs accuracies that only rise; a curve may go down again. Find the "
            "first crossing yourself",
        ),
        (by_accuracy, "sort the points by the amount of data, not by their accuracy"),
        (
            above_last,
            "you compare with the last point alone: a curve that goes down again has reached the target before",
        ),
        (
            nothing_to_the_left,
            "where the smallest number of pictures reaches the target already, that number is the answer, not None",
        ),
        (
            only_between,
            "where the smallest number of pictures reaches the target already, that number is the answer, not None",
        ),
        (
            known(on_log, reached=lambda accuracy, target: accuracy > target),
            "a target that a measured point reaches exactly is reached: use >= there",
        ),
        (
            known(lambda *case: float(int(on_log(*case)))),
            "the amount is rounded: return it as it is, a float",
        ),
        (
            known(lambda *case: float(round(on_log(*case)))),
            "the amount is rounded: return it as it is, a float",
        ),
        (
            known(lambda f, low, m, h, t: (f * m) ** 0.5),
            "you return the middle of the two points: how far the target lies between their accuracies counts too",
        ),
        (
            known(lambda f, low, m, h, t: on_log(m, low, f, h, t)),
            "the share counts from the wrong end: at the lower accuracy the answer is the smaller amount",
        ),
        (
            known(lambda f, low, m, h, t: f * (m / f) ** (math.log(t / low) / math.log(h / low))),
            "you take the logarithm of the accuracies as well: only the axis of the amount is logarithmic",
        ),
        (strict, "a target that a measured point reaches exactly is reached: use >= there"),
        (
            known(on_log, before=lambda first: None),
            "where the smallest number of pictures reaches the target already, that number is the answer, not None",
        ),
        (
            known(on_log, before=lambda first: 0.0),
            "where the smallest number of pictures reaches the target already, that number is the answer: nobody "
            "measured what fewer would do",
        ),
        (
            extrapolated,
            "to the left of the first point nothing is measured: return its number, guess nothing",
        ),
        (beyond, "to the right of the last point nothing is measured: return None, guess nothing"),
        (
            known(on_log, never=lambda points: float(points[-1][0])),
            "a target that is never reached needs None: the largest number of pictures was not enough",
        ),
        (
            known(on_log, never=lambda points: float("inf")),
            "a target that is never reached needs None, not infinity: nobody knows that no number would do",
        ),
        (
            known(on_log, never=lambda points: -1.0),
            "a target that is never reached needs None: -1 looks like a number of pictures",
        ),
    ]

    def readable(function):
        """Make infinity comparable, and demand that the curve stays as it is."""

        def run(curve, target):
            result = _kept(function, "curve")(curve, target)
            return "infinity" if isinstance(result, float) and math.isinf(result) else result

        return run

    named = [(readable(mistaken), message) for mistaken, message in mistakes]
    compare(readable(answer), right, cases, named)
