"""`play`: the widget where somebody looks, and one figure everywhere else."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from vit_classroom import plots
from vit_classroom.exhibits.play.look import abilities, body_of, look, prefix_of
from vit_classroom.notebook import in_notebook
from vit_course.data import Dataset, normalize
from vit_course.data.shapes import SHAPES, draw_shapes
from vit_course.training.kernel import somebody_looks

SAMPLES = 8
"""How many test images one can choose from, if no others are given."""


def play(
    model: nn.Module,
    trained_on: Dataset | Mapping[str, Any],
    images: Tensor | None = None,
    titles: Sequence[str] | None = None,
) -> None:
    """Show a model to play with: draw, click a patch to see where it looks, hide patches, switch heads off.

    In a notebook that somebody looks at this is a widget; the model answers live, so training it further changes the
    answers. Everywhere else (outside a notebook, in a program that runs notebooks, with VIT_COURSE_WIDGETS=0) it is one
    figure: the images, each with the model's answer and where the CLS token looks in the last block. What the
    model's parts do not offer, such as attention that can be followed, is greyed out.

    Args:
        model: a `VisionTransformer`, a `HybridViT`, or a student's `MiniViT`; its mode and weights are left as they
            are.
        trained_on: the data set of its training; or a mapping with "classes", "mean" and "std", such as the second
            result of `load_trained` and `load_my_model`.
        images: (B, C, H, W), uint8, images to choose from, of the size that the model reads; by default eight test
            images of the data set, drawings for a model that knows Shapes-10, and else the sample portrait.
        titles: a name for each image; by default "image 1", "image 2", ...

    Raises:
        ValueError: if there are not as many titles as images.
    """
    classes, mean, std = facts_of(trained_on)
    images = default_images(model, trained_on, classes) if images is None else images
    images = images.cpu()
    titles = (
        [str(t) for t in titles] if titles is not None else [f"image {i + 1}" for i in range(len(images))]
    )
    if len(titles) != len(images):
        raise ValueError(f"{len(titles)} titles for {len(images)} images: give one for each")
    if not (in_notebook() and somebody_looks()):
        plots.show(*answers_figure(model, classes, mean, std, images[:SAMPLES]))
        return
    from IPython.display import display

    from vit_classroom.exhibits.play.widget import PlayWidget

    display(PlayWidget(model, classes, mean, std, images, titles, draws=tuple(classes) == tuple(SHAPES)))


def facts_of(trained_on: Dataset | Mapping[str, Any]) -> tuple[Sequence[str], Tensor, Tensor]:
    """Return class names, and means and deviations (C,) of the channels."""
    if isinstance(trained_on, Dataset):
        return trained_on.classes, *trained_on.channel_stats()
    return trained_on["classes"], torch.as_tensor(trained_on["mean"]), torch.as_tensor(trained_on["std"])


def default_images(
    model: nn.Module, trained_on: Dataset | Mapping[str, Any], classes: Sequence[str]
) -> Tensor:
    """Return images (B, C, H, W), uint8, like those of the training where there are any."""
    if isinstance(trained_on, Dataset):
        return trained_on.test_images[:SAMPLES]
    embed = body_of(model).patch_embed
    size = tuple(embed.img_size)
    if tuple(classes) == tuple(SHAPES):
        return draw_shapes(SAMPLES, seed=1, image_size=size)[0]
    return plots.sample_photo(size)[None]


def answers_figure(
    model: nn.Module, classes: Sequence[str], mean: Tensor, std: Tensor, images: Tensor
) -> tuple[Any, str]:
    """Draw images (B, C, H, W) with the model's answers and, where it can be seen, where CLS looks; and its text."""
    rows, columns = body_of(model).patch_embed.grid_size
    everything, inputs = torch.ones(rows * columns, dtype=torch.bool), normalize(images, mean, std)
    can = abilities(model, inputs[0], rows * columns) | {"detail": False, "layers": False}
    found = [look(model, image, everything, can=can) for image in inputs]
    chances = torch.stack([one["logits"] for one in found]).softmax(dim=-1)
    flat, prefix = torch.ones(rows, columns), prefix_of(model)
    maps = torch.stack([looked_at(one.get("attention"), prefix, flat) for one in found])
    title = "What does the model say, and where does it look?"
    alt = f"{len(images)} images with the model's answer and its probability, each beside a map of where it looks"
    return plots.answer_gallery(images, maps, chances, classes, title), alt


def looked_at(attention: Tensor | None, prefix: int, flat: Tensor) -> Tensor:
    """Return where the last block looks, (rows, columns), from attention (L, h, T, T): CLS, or the mean without one."""
    if attention is None:
        return flat
    table = attention[-1].mean(dim=0)
    row = table[0] if prefix else table.mean(dim=0)
    return row[prefix:].reshape(flat.shape)
