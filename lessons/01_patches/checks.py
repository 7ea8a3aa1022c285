"""Checks of lesson 01: patches."""

import math

import torch
from torch import nn

from vit_classroom.checks.edits import Mistakes
from vit_classroom.checks.outcome import Mistake, build, outcome, same_weights
from vit_classroom.checks.shared_checks import counting
from vit_classroom.checks.task import Demand, demand, every_digit, exercise, refuses, results
from vit_classroom.checks.words import explain_error
from vit_course.patches import PatchEmbed, as_pair, count_patches, patchify, unpatchify

known = Mistakes(__file__, count_patches, patchify, unpatchify, PatchEmbed)
CHANGED = "are not those that were given"


def rejects(heading: str, *case_and_why: tuple) -> list[Demand]:
    """Demand a ValueError for each case, with the mistakes that the table has for these words."""
    accepted = known(heading)
    return [refuses(case, why, *accepted.get(why, [])) for *case, why in case_and_why]


# -- count_patches


def does_not_fit(img_size, patch_size):
    why = f"img_size {img_size} cannot be cut into patches of {patch_size} without a remainder"
    return img_size, patch_size, why


exercise(
    count_patches,
    results(
        lambda: [
            (4, 2),
            (32, 4),
            (224, 16),
            ((32, 48), 8),
            ((20, 36), (5, 4)),
            ((8, 12), (4, 6)),
            (7, 7),
            ((6, 4), (6, 2)),
        ],
        known("count_patches results"),
        plain=True,
    ),
    # apart: a square image cannot tell height and width of a patch apart
    results(lambda: [(12, (2, 3))], known("count_patches square")),
    *rejects(
        "count_patches refuses",
        does_not_fit(30, 4),
        does_not_fit((32, 30), 4),
        does_not_fit(12, (5, 4)),
        does_not_fit(12, (4, 5)),
        does_not_fit((30, 32), 4),
        does_not_fit(6, 4),
    ),
)

# -- patchify

exercise(
    patchify,
    results(
        lambda: [
            (counting(1, 1, 4, 4), 2),
            (counting(1, 3, 4, 4), 2),
            (counting(2, 3, 4, 6), 2),
            (torch.rand(2, 3, 12, 8), 4),
            (torch.rand(1, 2, 6, 20), (3, 5)),
            ((255 * torch.rand(2, 3, 8, 8)).to(torch.uint8), 8),
            (torch.rand(2, 4, 6, 3).permute(0, 3, 1, 2), 2),  # channels last in memory, as a photo is read
        ],
        known("patchify results"),
        device=True,
    ),
    *rejects(
        "patchify refuses",
        (counting(1, 1, 5, 4), 2, "patches of 2x2 leave a remainder of images (1, 1, 5, 4)"),
        (counting(1, 1, 4, 5), 2, "patches of 2x2 leave a remainder of images (1, 1, 4, 5)"),
        (counting(3, 4, 4), 2, "images of shape (3, 4, 4) lack the axis of the batch"),
        (counting(1, 1, 1, 4, 4), 2, "images of shape (1, 1, 1, 4, 4) have an axis too many"),
    ),
    every_digit(known("patchify digits")[CHANGED], (1, 5, 4, 6), 2),
)

# -- unpatchify

exercise(
    unpatchify,
    results(
        lambda: [
            (counting(1, 4, 4), 2, (2, 2)),
            (counting(1, 4, 12), 2, (2, 2)),
            (counting(2, 6, 12), 2, (2, 3)),
            (torch.rand(2, 8, 48), 4, (4, 2)),
            (torch.rand(1, 6, 30), (3, 5), (2, 3)),
            ((255 * torch.rand(1, 4, 27)).to(torch.uint8), 3, (4, 1)),
        ],
        known("unpatchify results"),
        device=True,
    ),
    *rejects(
        "unpatchify refuses",
        (counting(1, 3, 4), 2, (2, 2), "3 patches do not fill a grid of 2x2"),
        (counting(1, 6, 4), 2, (2, 2), "6 patches are too many for a grid of 2x2"),
        (counting(1, 8, 4), 2, (2, 2), "8 patches fill two grids of 2x2"),
        (counting(1, 5, 4), 2, (2, 2), "5 patches are one more than a grid of 2x2 holds"),
        (counting(1, 4, 6), 2, (2, 2), "patches of 6 numbers are no squares of 2x2"),
    ),
    every_digit(known("unpatchify digits")[CHANGED], (1, 6, 20), 2, (2, 3)),
)

# -- PatchEmbed


def copy_patch_weights(answer: nn.Module, reference: PatchEmbed) -> nn.Module:
    """Copy the convolution's weights, and say what is wrong with its settings."""
    weights, proj = answer.state_dict().get("proj.weight"), getattr(answer, "proj", None)
    if weights is not None and weights.ndim == 2:
        raise Mistake(
            "`self.proj` is a linear layer. It can compute the same, but the docstring asks for the `nn.Conv2d`, whose "
            f"weights (D, C, P, P) trained models hold and the lesson shows; yours are {tuple(weights.shape)}"
        )
    if weights is not None and "proj.bias" not in answer.state_dict():
        raise Mistake(
            "`self.proj` has no bias. Keep the layer's default, because trained weights have a bias"
        )
    if getattr(proj, "padding", "valid") not in ((0, 0), "valid"):
        raise Mistake(
            f"your convolution pads the image by {proj.padding}, but the first patch begins at the first pixel. Leave "
            "`padding` at 0"
        )
    kernel, stride = (getattr(proj, name, reference.proj.stride) for name in ("kernel_size", "stride"))
    if (patch := reference.proj.stride) != tuple(stride):
        what = f"your convolution has stride {tuple(stride)}"
        if any(step < side for step, side in zip(stride, kernel, strict=True)):
            raise Mistake(
                f"{what} where a patch has {patch} pixels, so its windows overlap. Patches do not, because the stride "
                "is the size of a patch in both directions"
            )
        raise Mistake(
            f"{what} where a patch has {patch} pixels, but kernel_size and stride are the patch size"
        )
    return same_weights(answer, reference)


def options(img_size, patch_size, in_chans, embed_dim):
    return {"img_size": img_size, "patch_size": patch_size, "in_chans": in_chans, "embed_dim": embed_dim}


@demand(known("PatchEmbed sizes"))
def keeps_its_sizes(answer):
    for size, patch, pair, grid in (
        ((8, 12), 4, (4, 4), (2, 3)),
        ((6, 10), (3, 5), (3, 5), (2, 2)),
        (8, 4, (4, 4), (2, 2)),
    ):
        module = build(answer, **options(size, patch, 3, 10))
        wanted = dict(num_patches=math.prod(grid), grid_size=grid, img_size=as_pair(size), patch_size=pair)
        for name, value in wanted.items():
            mine = getattr(module, name, "missing")
            if repr(tuple(mine) if isinstance(mine, list | torch.Size) else mine) != repr(value):
                raise Mistake(
                    f"`self.{name}` should be {value} for an image of {size} and P = {patch}, yours is {mine}. The "
                    "model asks for it later"
                )


@demand(known("PatchEmbed order"))
def takes_arguments_by_place(answer):
    named = build(answer, **options((8, 12), 4, 3, 10))
    placed = outcome(lambda module_class, *given: module_class(*given), answer, ((8, 12), 4, 3, 10))
    shapes = [[p.shape for p in m.parameters()] for m in (named, placed) if isinstance(m, nn.Module)]
    if len(shapes) < 2 or shapes[0] != shapes[1]:
        raise Mistake(
            "the arguments of `__init__` should be img_size, patch_size, in_chans, embed_dim, in this order, because "
            "the model gives them without their names"
        )


@demand(known("PatchEmbed refuses"))
def rejects_other_images(answer):
    module = build(answer, **options((8, 12), 4, 3, 10))
    for bad in (
        torch.rand(2, 3, 8, 8),
        torch.rand(2, 3, 12, 8),
        torch.rand(2, 3, 16, 12),
        torch.rand(2, 3, 16, 24),
        torch.rand(2, 1, 8, 12),
        torch.rand(2, 4, 8, 12),
        torch.rand(3, 8, 12),
    ):
        result = outcome(lambda f, x: f(x), module, (bad,))
        if not isinstance(result, Exception):
            raise Mistake(
                f"built for 3 channels and 8x12 pixels it accepts images of shape {tuple(bad.shape)}. Reject them "
                "with a ValueError, which `check_images` from vit_course.patches raises in one line"
            )
        if not isinstance(result, ValueError):
            raise Mistake(
                f"built for 3 channels and 8x12 pixels it stops at images of shape {tuple(bad.shape)} with "
                f"{explain_error(result)}\nThe docstring promises a ValueError. `check_images` from vit_course.patches "
                "raises it, for the number of axes, the channels and the size"
            )


exercise(
    PatchEmbed,
    keeps_its_sizes,
    results(
        lambda: [
            (options(4, 2, 1, 5), torch.rand(1, 1, 4, 4)),
            (options(8, 4, 3, 16), torch.rand(2, 3, 8, 8)),
            (options((8, 12), 4, 3, 10), torch.rand(2, 3, 8, 12)),
            (options((6, 10), (3, 5), 2, 8), torch.rand(3, 2, 6, 10)),
        ],
        known("PatchEmbed results"),
        prepare=copy_patch_weights,
    ),
    takes_arguments_by_place,
    rejects_other_images,
)
