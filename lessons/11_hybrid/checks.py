"""Checks of lesson 11: the hybrid."""

import torch
from torch import nn

from vit_classroom.checks.edits import Mistakes
from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, build, outcome, same_weights, spread_weights
from vit_classroom.checks.task import demand, exercise, results
from vit_classroom.exhibits.mini_hybrid import MiniHybrid, early_convolutions
from vit_course.extensions.hybrid import receptive_field

known = Mistakes(__file__, receptive_field, early_convolutions, MiniHybrid)

# -- early_convolutions

LAYERS = (nn.Conv2d, nn.BatchNorm2d, nn.ReLU)


@demand(known("early_convolutions layers"))
def has_the_layers(answer):
    for case in ((3, 4, 2), (1, 6, 3), (3, 5, 1), ()):
        made = outcome(lambda f, *given: f(*given), answer, case)
        in_chans, width, stages = case or (3, 16, 4)
        where = f"for in_chans = {in_chans}, width = {width}, stages = {stages}"
        if isinstance(made, Exception):
            raise stopped(made, f"{where}: ")
        if isinstance(made, list | tuple):
            raise Mistake(
                "you return a list. Put the layers into one `nn.Sequential`, so that they are a module"
            )
        if not isinstance(made, nn.Module):
            raise Mistake(f"return the layers in one `nn.Sequential`. You returned {type(made).__name__}")
        layers = [part for part in made.modules() if not list(part.children())]
        if len({id(layer) for layer in layers}) < sum(1 for _ in leaves(made)):
            raise Mistake("a layer is used twice. Every stage needs layers of its own")
        judge_layers(layers, in_chans, width, stages, where)


def leaves(module: nn.Module) -> list[nn.Module]:
    """List the layers of a module in the order of its children, repeats included."""
    children = list(module._modules.values())  # `children()` leaves repeats out
    return [leaf for child in children for leaf in leaves(child)] if children else [module]


def judge_layers(layers: list[nn.Module], in_chans: int, width: int, stages: int, where: str) -> None:
    """Judge number, kinds and settings of the layers, stage by stage."""
    convolutions = [layer for layer in layers if isinstance(layer, nn.Conv2d)]
    if len(convolutions) != stages:
        raise Mistake(
            f"{where} there should be {stages} convolution(s), one in each stage. Yours has {len(convolutions)}"
        )
    wanted = [kind.__name__ for kind in LAYERS] * stages
    kinds = [type(layer).__name__ for layer in layers]
    if kinds != wanted:
        raise Mistake(
            f"{where} the layers should be {', '.join(wanted[:3])} in each stage. Yours are {', '.join(kinds)}"
        )
    inside = in_chans
    for number, (conv, norm) in enumerate(zip(convolutions, layers[1::3], strict=True), 1):
        out = width * 2 ** (number - 1)
        step = 1 if number == 1 else 2
        settings = [
            (f"{inside} input channels", conv.in_channels, inside),
            (f"{out} output channels", conv.out_channels, out),
            ("a kernel of 3x3", conv.kernel_size, (3, 3)),
            (f"a stride of {step}", conv.stride, (step, step)),
            ("a padding of 1", conv.padding, (1, 1)),
            ("no bias, because batch norm has one", conv.bias is not None, False),
        ]
        for words, mine, right in settings:
            if mine != right:
                yours = "one" if mine is True else mine
                raise Mistake(
                    f"{where} the convolution of stage {number} should have {words}. Yours has {yours}"
                )
        if norm.num_features != out:
            raise Mistake(
                f"{where} the batch norm of stage {number} is for {norm.num_features} channels, not {out}"
            )
        inside = out


exercise(early_convolutions, has_the_layers)

# -- MiniHybrid

TINY = {"img_size": 4, "in_chans": 1, "num_classes": 3, "width": 2, "stages": 2, "embed_dim": 4, "depth": 1}
TINY |= {"num_heads": 1}
WIDE = {
    "img_size": (8, 16),
    "in_chans": 2,
    "num_classes": 5,
    "width": 3,
    "stages": 3,
    "embed_dim": 8,
    "depth": 2,
}
WIDE |= {"num_heads": 2}


@demand(known("MiniHybrid parts"))
def has_its_parts(answer):
    module = build(answer, **WIDE)
    for name in ("backbone", "vit"):
        if not isinstance(getattr(module, name, None), nn.Module):
            raise Mistake(f"`self.{name}` should be a module. Its name is in the docstring")
    convolutions = [m for m in module.backbone.modules() if isinstance(m, nn.Conv2d)]
    if len(convolutions) != WIDE["stages"]:
        raise Mistake(
            f"with stages = 3 the backbone has {len(convolutions)} convolutions. Hand `stages` on to "
            "`early_convolutions`"
        )
    if convolutions[0].in_channels != WIDE["in_chans"] or convolutions[0].out_channels != WIDE["width"]:
        raise Mistake("hand `in_chans` and `width` on to `early_convolutions`")
    positions = module.vit.pos_embed.shape[1]
    if positions != 2 * 4 + 1:
        raise Mistake(
            "for 8x16 pixels and three stages the map has 2x4 positions, so with CLS the ViT reads 9 tokens. "
            f"Yours reads {positions}"
        )
    if not isinstance(outcome(lambda f: f(**WIDE | {"img_size": 10}), answer, ()), Exception):
        raise Mistake("10 pixels leave a remainder after two halvings. `grid_size` refuses such a size")


@demand(known("MiniHybrid parts and options"))
def hands_options_on(answer):
    module = build(answer, **WIDE)
    made = module.vit.head.out_features, module.vit.head.in_features, len(module.vit.blocks)
    if made != (WIDE["num_classes"], WIDE["embed_dim"], WIDE["depth"]):
        raise Mistake(
            "hand `num_classes` and the further options on to `VisionTransformer`. With num_classes = 5, embed_dim = 8 "
            f"and depth = 2 your model has {made[0]} classes, tokens of width {made[1]} and {made[2]} blocks"
        )


@demand(known("MiniHybrid attention"))
def returns_attention(answer):
    module = build(answer, **WIDE).eval()
    got = outcome(lambda f, x: f(x, return_attention=True), module, (inputs(WIDE, 2),))
    if isinstance(got, Exception):
        raise stopped(got, "with return_attention=True ")
    if not isinstance(got, tuple):
        raise Mistake(
            "with return_attention=True one result comes back: hand `return_attention` on to `self.vit`"
        )


@demand(known("MiniHybrid sizes"))
def refuses_other_images(answer):
    module = build(answer, **WIDE).eval()
    for bad in (torch.rand(2, 2, 7, 15), torch.rand(2, 2, 16, 8), torch.rand(2, 3, 8, 16)):
        got = outcome(lambda f, x: f(x), module, (bad,))
        if not isinstance(got, Exception):
            raise Mistake(
                f"it accepts images of shape {tuple(bad.shape)}, although it was built for 2 channels of 8x16 "
                "pixels. A stride of 2 rounds up, so the map alone does not show the mistake. Call `check_images` "
                "on the images"
            )
        if not isinstance(got, ValueError) or "images" not in str(got):
            raise Mistake(
                "images of the wrong size stop somewhere inside the model. Call `check_images` first, on the images"
            )


def inputs(options: dict, batch: int) -> torch.Tensor:
    """Return images for a model with these options."""
    torch.default_generator.manual_seed(1)
    size = options["img_size"]
    return torch.rand(batch, options["in_chans"], *(size if isinstance(size, tuple) else (size, size)))


def classify(model_class: type, options: dict, images: torch.Tensor) -> torch.Tensor:
    """Return the logits of a model that has the weights of the finished one, in evaluation mode."""
    torch.default_generator.manual_seed(0)
    finished = spread_weights(MiniHybrid(**options))
    model = finished if model_class is MiniHybrid else same_weights(build(model_class, **options), finished)
    with torch.no_grad():
        return model.eval()(images)


@demand(known("MiniHybrid learns"))
def learns_everywhere(answer):
    torch.default_generator.manual_seed(0)
    module = spread_weights(build(answer, **WIDE)).train()
    module(inputs(WIDE, 4)).square().sum().backward()
    for name, parameter in module.named_parameters():
        if parameter.grad is None or not parameter.grad.any():
            raise Mistake(f"no gradient reaches {name}, so this part cannot learn")


exercise(
    MiniHybrid,
    has_its_parts,
    hands_options_on,
    refuses_other_images,
    results(
        lambda: [(TINY, inputs(TINY, 2)), (WIDE, inputs(WIDE, 3))], known("MiniHybrid results"), run=classify
    ),
    returns_attention,
    learns_everywhere,
)

# -- receptive_field

exercise(
    receptive_field,
    results(
        lambda: [
            ([(3, 1)],),
            ([(3, 1), (3, 1)],),
            ([(4, 4)],),
            ([(3, 2), (3, 1)],),
            ([(2, 2), (2, 2), (3, 1)],),
            ([(7, 2), (3, 2), (3, 1), (3, 2), (1, 1), (5, 3), (3, 1)],),
            ([(1, 2), (3, 1)],),
            ([],),
            (((2, 3), (3, 1)),),
            ([(3, 2)] * 8,),
        ],
        known("receptive_field results"),
    ),
)
