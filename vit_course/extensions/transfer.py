"""Take a trained ViT to another task: a new head, another resolution, frozen parts, slower layers (paper, 3.2).

Works on models of `vit` and on data sets of `data`; the rates by layer are those of `optim`. Lesson 12 builds
`replace_head` and `freeze`.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from vit_course.data import Dataset
from vit_course.embeddings import resample_pos_embed, sincos_2d
from vit_course.extensions.positions import LearnedPosition2d, RelativePosition
from vit_course.patches import as_pair, grid_size
from vit_course.vit import VisionTransformer


def replace_head(model: VisionTransformer, num_classes: int) -> VisionTransformer:
    """Give a trained model a new head for another task, in place (paper, section 3.2).

    The new `model.head` is one linear layer from the width D to K classes, weight and bias zero, on the
    device and in the dtype of the old one. A hidden tanh layer of pre-training, `model.pre_logits`, becomes
    `nn.Identity()`. Nothing else of the model changes.

    Args:
        model: a trained Vision Transformer; `model.norm` is its final layer norm, over D numbers.
        num_classes: number of classes K of the new task, at least 1.

    Returns:
        The same model.

    Raises:
        ValueError: if `num_classes` is smaller than 1.
    """
    if num_classes < 1:  # given
        raise ValueError(f"num_classes {num_classes} is smaller than 1: a head needs a class")
    dim = model.norm.normalized_shape[0]
    head = nn.Linear(dim, num_classes).to(model.norm.weight)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    model.pre_logits = nn.Identity()
    model.head = head
    return model


def freeze(model: nn.Module, trainable: Sequence[str] = ("head",)) -> nn.Module:
    """Freeze all but the named parts, in place. With the head alone this is a linear probe.

    A parameter belongs to a part if its name is the part's name, or begins with it and a dot: "blocks.1"
    means "blocks.1.norm1.weight", but not "blocks.11.norm1.weight". All other parameters get
    `requires_grad = False`. Those of the named parts stay as they are.

    Args:
        model: any module.
        trainable: names of the parts that continue to learn, for example ("head", "norm"). An empty tuple
            freezes all.

    Returns:
        The same model.

    Raises:
        ValueError: if the model has no parameter in one of the named parts; then nothing is changed.
    """
    refuse_unknown_parts(model, trainable)  # given
    for name, parameter in model.named_parameters():
        if not any(f"{name}.".startswith(f"{part}.") for part in trainable):
            parameter.requires_grad = False
    return model


class LowRank(nn.Module):
    """A weight W (out, in) plus a learned product B A of two thin matrices (Hu et al., 2021: LoRA); B starts at zero.

    Args:
        weight: the trained weight.
        rank: width r of the matrices: A is (r, in), B is (out, r).
    """

    def __init__(self, weight: Tensor, rank: int):
        super().__init__()
        self.a = nn.Parameter(torch.randn(rank, weight.shape[1]).to(weight) / weight.shape[1] ** 0.5)
        self.b = nn.Parameter(weight.new_zeros(weight.shape[0], rank))

    def forward(self, weight: Tensor) -> Tensor:
        """Return W + B A."""
        return weight + self.b @ self.a


def add_low_rank(model: VisionTransformer, rank: int = 8) -> VisionTransformer:
    """Let nothing learn but the head and, in every attention, low-rank additions to its linear layers, in place.

    Returns:
        The same model, with the same outputs until it learns. `merge_low_rank` makes it a plain model again.
    """
    freeze(model)
    parts = [part for block in model.blocks for part in block.attn.modules()]
    for layer in [part for part in parts if isinstance(part, nn.Linear)]:
        parametrize.register_parametrization(layer, "weight", LowRank(layer.weight, rank))
    return model


def merge_low_rank(model: nn.Module) -> nn.Module:
    """Add what `add_low_rank` has learned to the weights themselves, in place; other models stay as they are."""
    for layer in [part for part in model.modules() if parametrize.is_parametrized(part, "weight")]:
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
    return model


def refuse_unknown_parts(model: nn.Module, parts: Sequence[str]) -> None:
    """Raise a ValueError if the model has no parameter in one of these parts; the message names those that it has."""
    names = [name for name, _ in model.named_parameters()]
    for part in parts:
        if not any(f"{name}.".startswith(f"{part}.") for name in names):
            there = ", ".join(dict.fromkeys(name.split(".")[0] for name in names))
            raise ValueError(f"no parameter belongs to {part!r}; the parts of this model: {there}")


def change_resolution(model: VisionTransformer, img_size: int | tuple[int, int]) -> VisionTransformer:
    """Make a trained model read pictures of another size, in place (paper, section 3.2).

    The patch size stays, so the grid of patches changes, and with it the number of positions.
    `resized_positions(table, old_grid, new_grid, num_prefix_tokens)` brings a table of positions to another
    grid. Each table of `position_tables(model)` goes through it; most models have one, `model.pos_embed`. It
    stays the same parameter, on the same device and trainable if it was so before: new numbers go into its `.data`.
    `model.patch_embed` gets the new `img_size` and `grid_size`, as pairs, and the new `num_patches`. Nothing
    else of the model changes.

    Args:
        model: a Vision Transformer; `model.pos_embed` is a parameter (1, prefix + N, D), or None without
            positions; `model.num_prefix_tokens` tokens come before the patches; `model.patch_embed` knows
            `patch_size` and the grid so far, `grid_size`.
        img_size: side of the new pictures, or (height, width), in pixels; a multiple of the patch size.

    Returns:
        The same model.

    Raises:
        ValueError: if the patches do not fill the new size, or if positions are "2d" or "relative", which have
            no table to interpolate; then nothing is changed.
    """
    old, new = model.patch_embed.grid_size, grid_size(img_size, model.patch_embed.patch_size)
    if any(isinstance(module, LearnedPosition2d | RelativePosition) for module in model.modules()):
        known = "'learned', 'sincos' or 'none'"
        raise ValueError(f"only one table of positions can be resized: use pos_embed {known}")
    for table in position_tables(model):
        table.data = resized_positions(table.data, old, new, model.num_prefix_tokens)
    model.patch_embed.img_size = as_pair(img_size)
    model.patch_embed.grid_size = new
    model.patch_embed.num_patches = new[0] * new[1]
    return model


def position_tables(model: VisionTransformer) -> list[nn.Parameter]:
    """Return the tables (1, prefix + N, D) of positions, each once: that of the stem, and those of single layers."""
    return [table for name, table in model.named_parameters() if name.split(".")[-1] == "pos_embed"]


def resized_positions(table: Tensor, old: tuple[int, int], new: tuple[int, int], prefix: int) -> Tensor:
    """Bring a table of positions from one grid of patches to another.

    Learned positions are interpolated in two dimensions by `resample_pos_embed`: the vectors of the prefix tokens (CLS)
    are kept. Sin-cos positions are a formula, so they are computed anew.

    Args:
        table: (1, prefix + N, D).
        old: (rows, columns) of the grid that the table is for.
        new: (rows, columns) of the grid wanted.
        prefix: number of tokens before the patches.

    Returns:
        (1, prefix + N', D).
    """
    dim = table.shape[-1]
    if dim % 4 == 0 and torch.allclose(table[0, prefix:], sincos_2d(old, dim).to(table)):
        return torch.cat([table[:, :prefix], sincos_2d(new, dim).to(table)[None]], dim=1)
    return resample_pos_embed(table, old, new, prefix)


def normalised_as(dataset: Dataset, mean: Sequence[float], std: Sequence[float]) -> Dataset:
    """Let a data set be normalised as the weights of a trained model need it; grey pictures become three channels.

    Args:
        dataset: pictures and labels.
        mean: of each channel, in 0..1 units, as in the model's training.
        std: the same of the standard deviation.
    """
    halves = {"train_images": dataset.train_images, "test_images": dataset.test_images}
    if dataset.train_images.shape[1] == 1:
        halves = {name: grey.expand(-1, len(mean), -1, -1).contiguous() for name, grey in halves.items()}
    return replace(dataset, **halves, stats=(torch.tensor(mean), torch.tensor(std)))


def resize_pictures(dataset: Dataset, side: int | tuple[int, int]) -> Dataset:
    """Bring all pictures to another size: bicubic, antialiased, still uint8 in 0..255.

    Args:
        dataset: pictures and labels.
        side: side of a square, or (height, width), in pixels.

    Returns:
        The data set with pictures (N, C, height, width); the same object if they have that size already.
    """
    size = as_pair(side)
    if tuple(dataset.train_images.shape[-2:]) == size:
        return dataset

    def resized(images: Tensor) -> Tensor:
        parts = (part.float() for part in images.split(500))  # floats take four times the memory
        larger = (F.interpolate(part, size, mode="bicubic", antialias=True) for part in parts)
        return torch.cat([part.round_().clamp_(0, 255).byte() for part in larger])

    halves = {"train_images": resized(dataset.train_images), "test_images": resized(dataset.test_images)}
    return replace(dataset, **halves, provenance=f"{dataset.provenance}; resized to {size[0]}x{size[1]}")
