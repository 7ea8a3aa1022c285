"""Trained models where they are used: as ONNX, in half precision, in 8 bits, and how long each takes. Lesson 17."""

import copy
import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn

from vit_course.extensions.trained import Trained


class Shipped(nn.Module):
    """A trained model with what belongs before and after it: uint8 pictures in, shares of the classes out.

    Args:
        trained: model and record.
        dtype: in which it computes.
    """

    def __init__(self, trained: Trained, dtype: torch.dtype = torch.float32):
        super().__init__()
        self.model = copy.deepcopy(trained.model).to("cpu", dtype)
        for name in ("mean", "std"):
            self.register_buffer(name, torch.tensor(trained.info[name]).view(1, -1, 1, 1))
        self.dtype = dtype
        self.eval().requires_grad_(False)

    def forward(self, pictures: Tensor) -> Tensor:
        """Map pictures (N, C, H, W), uint8 in 0..255, to shares (N, K), float32."""
        x = (pictures.float() / 255 - self.mean) / self.std
        return self.model(x.to(self.dtype)).float().softmax(dim=1)


def export_onnx(trained: Trained, path: Path) -> float | None:
    """Write a trained model as one file of ONNX for any number of pictures, and compare it with the model.

    The names of the classes are in its metadata as "classes", with line breaks between them.

    Returns:
        The largest difference between the shares of onnxruntime and those of torch; None without onnxruntime.

    Raises:
        ImportError: if a package that writes ONNX is missing; the message names it.
        OSError: if the file cannot be written.
    """
    if missing := [name for name in ("onnx", "onnxscript") if not find_spec(name)]:
        raise ImportError(
            f"to write ONNX needs {' and '.join(missing)}: pip install onnx onnxscript onnxruntime"
        )
    import onnx

    shipped = Shipped(trained)
    shape = len(trained.info["mean"]), *trained.img_size
    pictures = torch.randint(
        0, 256, (2, *shape), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    batch = {"pictures": {0: torch.export.Dim("batch", min=1, max=65536)}}
    program = torch.onnx.export(
        shipped, (pictures,), dynamo=True, input_names=["pictures"], output_names=["shares"],
        dynamic_shapes=batch, verbose=False,
    )  # fmt: skip
    content = program.model_proto
    onnx.helper.set_model_props(content, {"classes": "\n".join(trained.classes)})
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_bytes(content.SerializeToString())
    os.replace(part, path)
    if not find_spec("onnxruntime"):
        return None
    many = pictures.repeat(3, 1, 1, 1)[:5]
    return (torch.from_numpy(run_onnx(path)(many.numpy())) - shipped(many)).abs().max().item()


def run_onnx(path: Path) -> Callable:
    """Return a function that maps uint8 pictures (N, C, H, W) of NumPy to shares (N, K), computed by onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda pictures: session.run(["shares"], {"pictures": pictures})[0]


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
        quantize_dynamic(whole, small, weight_type=QuantType.QInt8)
        for name, path in (("ONNX", whole), ("ONNX, int8", small)):
            run = run_onnx(path)
            forms[name] = lambda p, run=run: torch.from_numpy(run(p.numpy())), path.stat().st_size / 1e6
    return forms


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
