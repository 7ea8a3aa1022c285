"""A trained model in the forms in which it is used, measured: float32, bfloat16, ONNX, ONNX with 8 bits."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from vit_course.extensions.shipping import Shipped, export_onnx, run_onnx
from vit_course.extensions.trained import Trained


def shipped_forms(trained: Trained, folder: Path) -> dict[str, tuple[Callable[[Tensor], Tensor], float]]:
    """Make a trained model ready in all its forms: for each a function of uint8 pictures to shares, and its megabytes.

    ONNX and its form with 8-bit weights are there if onnxruntime is, and lie in `folder`.
    """
    size = sum(value.numel() for value in trained.model.parameters()) / 1e6
    forms = {
        "float32": (Shipped(trained), 4 * size),
        "bfloat16": (Shipped(trained, torch.bfloat16), 2 * size),
    }
    if find_spec("onnxruntime") and find_spec("onnx"):
        from onnxruntime.quantization import QuantType, quantize_dynamic

        whole, small = folder / "model.onnx", folder / "model-int8.onnx"
        export_onnx(trained, whole)
        with without_warnings():  # it recommends a step that gains nothing for these models
            quantize_dynamic(whole, small, weight_type=QuantType.QInt8)
        for name, path in (("ONNX", whole), ("ONNX, int8", small)):
            run = run_onnx(path)
            forms[name] = lambda p, run=run: torch.from_numpy(run(p.numpy())), path.stat().st_size / 1e6
    return forms


@contextmanager
def without_warnings() -> Iterator[None]:
    """Keep the log quiet for a block of code, errors aside."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def measure_forms(
    forms: dict[str, tuple[Callable[[Tensor], Tensor], float]],
    pictures: Tensor,
    labels: Tensor,
    repeats: int = 10,
) -> list[dict[str, float | str]]:
    """Measure the forms of a model on pictures.

    Args:
        forms: as `shipped_forms` returns them; the first is what the others are compared with.
        pictures: (N, C, H, W) uint8.
        labels: (N,) int64.
        repeats: how often one picture alone, and all together, are timed; the median counts.

    Returns:
        For each form "form", "MB", "ms for one" (milliseconds), "a second" (pictures when all come together),
        "accuracy" (a share in 0..1) and "agreement" (the share of pictures with the same class as the first form).
    """
    rows, first = [], None
    for name, (run, size) in forms.items():
        found = run(pictures).argmax(dim=1)
        first = found if first is None else first
        one, all_of_them = (median_seconds(run, part, repeats) for part in (pictures[:1], pictures))
        shares = [(found == other).float().mean().item() for other in (labels, first)]
        speed = {"ms for one": 1000 * one, "a second": len(pictures) / all_of_them}
        rows.append({"form": name, "MB": size, **speed, "accuracy": shares[0], "agreement": shares[1]})
    return rows


def median_seconds(run: Callable[[Tensor], Tensor], pictures: Tensor, repeats: int) -> float:
    """Return the median time of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run(pictures)
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]
