"""Changed pictures and the measurements on them, for lessons 08, 11 and 15, and the paper's Table 2.

`experiments` measures trained models with `probe`.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from einops import rearrange
from torch import Tensor, nn

from vit_course.data import Dataset
from vit_course.extensions.modern import PreparedProjection, at_resolution
from vit_course.extensions.transfer import resize_pictures
from vit_course.patches import patchify, unpatchify
from vit_course.train import evaluate

SHIFTS = (0, 1, 2, 3, 4, 6, 8)
COST = "TPUv3-core-days"
PAPER_TASKS = ("ImageNet", "ReaL", "CIFAR-10", "CIFAR-100", "Pets", "Flowers", "VTAB", COST)
PAPER_TABLE = {
    model: dict(zip(PAPER_TASKS, row, strict=True))
    for model, row in {
        "ViT-H/14, JFT": (
            *((88.55, 0.04), (90.72, 0.05), (99.50, 0.06), (94.55, 0.04), (97.56, 0.03), (99.68, 0.02)),
            *((77.63, 0.23), 2500),
        ),
        "ViT-L/16, JFT": (
            *((87.76, 0.03), (90.54, 0.03), (99.42, 0.03), (93.90, 0.05), (97.32, 0.11), (99.74, 0.00)),
            *((76.28, 0.46), 680),
        ),
        "ViT-L/16, I21k": (
            *((85.30, 0.02), (88.62, 0.05), (99.15, 0.03), (93.25, 0.05), (94.67, 0.15), (99.61, 0.02)),
            *((72.72, 0.21), 230),
        ),
        "BiT-L (ResNet152x4), JFT": (
            *((87.54, 0.02), (90.54, None), (99.37, 0.06), (93.51, 0.08), (96.62, 0.23), (99.63, 0.03)),
            *((76.29, 1.70), 9900),
        ),
        "Noisy Student (EfficientNet-L2)": ((88.4, None), (90.55, None), None, None, None, None, None, 12300),
    }.items()
}
"""The ViT paper's Table 2: mean and deviation of the accuracies of three fine-tuning runs, in percent; the cost.

None stands where it has no accuracy; the deviation is None where it gives none.
"""


def shift(images: Tensor, pixels: int) -> Tensor:
    """Move images to the right; black comes in from the left, and what leaves on the right is lost.

    Args:
        images: (B, C, H, W), any dtype.
        pixels: how far, from 0 (nothing moves) to W (all is black).

    Returns:
        A new tensor of the same shape and dtype.

    Raises:
        ValueError: if `pixels` is negative.
    """
    if pixels < 0:
        raise ValueError(f"shift by {pixels} pixels: images move to the right, so this should be 0 or more")
    moved = torch.zeros_like(images)
    moved[..., pixels:] = images[..., : images.shape[-1] - pixels]
    return moved


def accuracy_under_shift(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    stats: tuple[Tensor, Tensor],
    shifts: Sequence[int] = SHIFTS,
) -> dict[int, float]:
    """Measure how often a model is right when its images are shifted.

    Args:
        model: a classifier.
        images: (N, C, H, W) uint8, not normalised and not shifted.
        labels: (N,) int64; a shifted image keeps its label.
        stats: (mean, std) per channel, as `evaluate` takes them.
        shifts: pixels to the right, 0 or more each; one number or more.

    Returns:
        For each shift the accuracy in evaluation mode, a share in 0..1.
    """
    return {pixels: evaluate(model, shift(images, pixels), labels, stats)[0] for pixels in shifts}


def shuffle_patches(images: Tensor, patch_size: int, seed: int = 0) -> Tensor:
    """Put the patches of every image (B, C, H, W) into a random order, another one for each image."""
    patches = patchify(images, patch_size)
    generator = torch.Generator().manual_seed(seed)
    order = torch.rand(patches.shape[:2], generator=generator).argsort(dim=1)
    patches = patches.gather(1, rearrange(order, "b n -> b n 1").expand_as(patches))
    return unpatchify(patches, patch_size, (images.shape[2] // patch_size, images.shape[3] // patch_size))


def probe(model: nn.Module, dataset: Dataset) -> dict[str, dict[str, float]]:
    """Measure a trained model on changed test images: accuracy when shifted, and when patches are shuffled.

    Returns:
        "shift": accuracy by pixels of shift to the right, "shuffle": accuracy by patch side, the largest
        being the untouched image.
    """
    images, labels, stats = dataset.test_images, dataset.test_labels, dataset.channel_stats()
    side = images.shape[-1]
    sides = [s for s in (4, 8, 16) if side % s == 0]
    shifted = {str(s): a for s, a in accuracy_under_shift(model, images, labels, stats).items()}
    shuffled = {str(s): evaluate(model, shuffle_patches(images, s), labels, stats)[0] for s in sides}
    return {"shift": shifted, "shuffle": {**shuffled, str(side): shifted["0"]}}


def unfair_points() -> set[str]:
    """Name the points of a made-up report that make its comparison of two models unfair.

    A point is unfair if it can change one result and not the other, or if it makes a result look
    better than the model is. A difference that the report shows beside the result is not unfair.

    The report is called "ViT beats ResNet". Its points:

    a   Both models learn from the same 45,000 images; 5,000 more are held out for choices.
    b   The ViT gets MixUp, CutMix and RandAugment, the ResNet crop and flip alone.
    c   ViT: AdamW. ResNet: SGD. For each, six learning rates were tried on the held-out images.
    d   On the same GPU the ViT trains for three hours, the ResNet for twenty minutes; no table
        says so.
    e   The models differ in parameters; a table shows parameters and FLOPs of both.
    f   Of each model, the epoch with the best accuracy on the test images is reported.
    g   The ViT's result is the best of five seeds, the ResNet's comes from one seed.
    h   The ViT starts from weights trained on ImageNet, the ResNet from random ones.
    i   Images per second are measured for both on the same idle GPU, at one batch size.

    Returns:
        The letters of the unfair points, for example {"a", "z"}.
    """
    return {"b", "d", "f", "g", "h"}


def accuracy_at_resolutions(model: nn.Module, dataset: Dataset, sides: Sequence[int]) -> dict[str, float]:
    """Score a trained ViT on its test pictures at other sizes, by the side in pixels; nothing is trained.

    A model with rotations is scored twice: as "48" it goes on counting, as "48 stretched" it stays in its grid.
    """
    stats, scores = dataset.channel_stats(), {}
    rotated = any(isinstance(part, PreparedProjection) and part.grid_size for part in model.modules())
    for side in sides:
        few = replace(dataset, train_images=dataset.train_images[:1], train_labels=dataset.train_labels[:1])
        images = resize_pictures(few, side).test_images
        for name, stretch in [(str(side), False), (f"{side} stretched", True)][: 1 + rotated]:
            changed = at_resolution(model, side, stretch)
            scores[name] = evaluate(changed, images, dataset.test_labels, stats)[0]
    return scores
