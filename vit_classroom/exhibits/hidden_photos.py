"""Which patches a model of photographs needs: its accuracy on CIFAR-10 while patches are hidden in several orders.

    python -m experiments hidden-photos --data cifar10

measures it (minutes on one CPU core) and writes `data/runs/hidden-photos.json`, unless it is there.
"""

import platform

import torch
from torch import Tensor

from vit_classroom.evidence.records import read_record, write_record
from vit_course.data import Dataset, normalize
from vit_course.extensions.trained import load_trained
from vit_course.interpret import attention_rollout, hide_patches
from vit_course.training.paths import RUNS
from vit_course.training.version import code_version
from vit_course.vit import VisionTransformer

FILE = RUNS / "hidden-photos.json"
MODEL = "cifar-vit"
IMAGES, COUNTS, DRAWS, BATCH = 500, (4, 8, 16, 32, 48), 3, 50


def orders(model: VisionTransformer, images: Tensor) -> dict[str, list[Tensor]]:
    """Return in which orders patches are hidden, as scores (B, N), the highest first; several for random ones.

    Args:
        model: has a CLS token in front of its patches.
        images: (B, C, H, W), normalised.
    """
    found = [model(part, return_attention=True)[1] for part in images.split(BATCH)]
    rows, columns = model.patch_embed.grid_size
    places = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).float()
    off_centre = (places - places.mean(dim=0)).norm(dim=1).expand(len(images), -1)
    generator = torch.Generator().manual_seed(0)
    return {
        "highest rollout": [torch.cat([attention_rollout(layers)[:, 0, 1:] for layers in found])],
        "highest in the last layer": [torch.cat([layers[-1].mean(dim=1)[:, 0, 1:] for layers in found])],
        "random": [torch.rand(off_centre.shape, generator=generator) for _ in range(DRAWS)],
        "nearest to the middle": [-off_centre],
        "nearest to the corners": [off_centre],
    }


@torch.no_grad()
def measure(model: VisionTransformer, images: Tensor, labels: Tensor) -> dict[str, dict[str, list[float]]]:
    """Return by order and number of hidden patches the accuracies in percent, of random ones one for each draw."""

    def accuracy(scores: Tensor, count: int) -> float:
        hidden = hide_patches(images, scores, count, model.patch_embed.patch_size)
        answers = torch.cat([model(part).argmax(dim=1) for part in hidden.split(BATCH)])
        return 100 * (answers == labels).double().mean().item()

    return {
        name: {str(count): [accuracy(scores, count) for scores in several] for count in (0, *COUNTS)}
        for name, several in orders(model, images).items()
    }


def load() -> dict:
    """Read the record: model, data, machine, code, and under "accuracy" what `measure` returned."""
    return read_record(FILE)


def record(dataset: Dataset) -> None:
    """Measure test images of a data set with the classes of CIFAR-10, and write the file.

    Raises:
        ValueError: if the classes are others.
    """
    model, about = load_trained(MODEL)
    if list(dataset.classes) != list(about["classes"]):
        raise ValueError(f"hidden-photos needs CIFAR-10, and this is {dataset.provenance}")
    part = dataset.subset(len(dataset.classes), IMAGES)
    accuracies = measure(model, normalize(part.test_images, about["mean"], about["std"]), part.test_labels)
    write_record(
        FILE,
        {
            "model": MODEL,
            "data": part.provenance,
            "machine": f"cpu ({platform.machine()})",
            "code": code_version(),
            "images": IMAGES,
            "accuracy": accuracies,
        },
    )
