"""Trained models where they are used: one module of all that belongs to them, and ONNX."""

import copy
import os
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
        needs = " and ".join(missing)
        raise ImportError(f"to write ONNX needs {needs}: pip install onnx onnxscript onnxruntime")
    shipped = Shipped(trained)
    shape = len(trained.info["mean"]), *trained.img_size
    fixed = torch.Generator().manual_seed(0)
    pictures = torch.randint(0, 256, (2, *shape), generator=fixed, dtype=torch.uint8)
    batch = {"pictures": {0: torch.export.Dim("batch", min=1, max=65536)}}
    names = {"input_names": ["pictures"], "output_names": ["shares"], "dynamic_shapes": batch}
    content = torch.onnx.export(shipped, (pictures,), dynamo=True, verbose=False, **names).model_proto
    content.metadata_props.add(key="classes", value="\n".join(trained.classes))
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
