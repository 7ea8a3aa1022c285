"""The view in a notebook: Python answers with a live model, whatever has become of it since it was shown."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anywidget
import numpy as np
import torch
import traitlets
from einops import rearrange
from torch import Tensor, nn

from vit_classroom.exhibits.play.look import abilities, body_of, look, num_heads_of, pixels_of, prefix_of
from vit_course.data import normalize

FOLDER = Path(__file__).parent


class PlayWidget(anywidget.AnyWidget):
    """The page "See it think" around one model.

    Args:
        model: a `VisionTransformer`, a `HybridViT`, or a student's `MiniViT`.
        classes: names of its K classes.
        mean: means of the C channels, in 0..1.
        std: deviations of the channels.
        images: (B, C, H, W), uint8, to choose from; the first is shown.
        titles: one for each.
        draws: whether the model knows drawings, so that one begins by drawing.
    """

    _esm = FOLDER / "view.mjs"
    info = traitlets.Dict().tag(sync=True)
    samples = traitlets.List().tag(sync=True)
    first = traitlets.Dict().tag(sync=True)
    source = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        model: nn.Module,
        classes: Sequence[str],
        mean: Tensor,
        std: Tensor,
        images: Tensor,
        titles: Sequence[str],
        draws: bool,
    ):
        self.model, self.mean, self.std = model, torch.as_tensor(mean), torch.as_tensor(std)
        rows, columns = body_of(model).patch_embed.grid_size
        self.can = abilities(model, self.inputs(images[0]), rows * columns)
        height, width = images.shape[-2:]
        blocks = getattr(body_of(model), "blocks", ())
        info = {
            "name": "your model",
            "classes": list(classes),
            "size": [height, width],
            "grid": [rows, columns],
            "patch": height // rows,
            "prefix": prefix_of(model),
            "depth": len(blocks),
            "heads": num_heads_of(model) if self.can["attention"] else 1,
            "width": int(body_of(model).head.in_features),
            "can": self.can,
            "draws": draws,
        }
        pictures = [
            {"name": str(title), "pixels": pixels_of(image)}
            for title, image in zip(titles, images, strict=True)
        ]
        everything = torch.ones(rows * columns, dtype=torch.bool)
        first = as_bytes(look(model, self.inputs(images[0]), everything, can=self.can))
        source = (FOLDER / "engine.mjs").read_text(encoding="utf-8")
        super().__init__(info=info, samples=pictures, first=first, source=source)
        self.on_msg(self.answer)

    def inputs(self, image: Tensor) -> Tensor:
        """Return what the model reads: an image (C, H, W), uint8, normalised."""
        return normalize(image[None], self.mean, self.std)[0]

    def answer(self, _: Any, content: dict, buffers: Sequence[bytes]) -> None:
        """Answer one message of the view: pixels (H, W, 3), patches that are kept (N,), heads that are on (L, h)."""
        try:
            pixels, keep, gates = (np.frombuffer(part, np.uint8).copy() for part in buffers)
            height, width = self.info["size"]
            image = rearrange(torch.from_numpy(pixels), "(h w c) -> c h w", h=height, w=width)
            if len(self.mean) == 1:
                image = image.float().mean(dim=0, keepdim=True).byte()
            on = torch.from_numpy(gates).view(self.info["depth"], -1) if self.can["heads"] else None
            kept = torch.from_numpy(keep).bool()
            can = self.can | {"detail": self.can["detail"] and content["detail"]}
            found = as_bytes(look(self.model, self.inputs(image), kept, bool(content["positions"]), on, can))
            self.send({"id": content["id"], "names": list(found)}, list(found.values()))
        except Exception as error:  # whatever a student's part raises is shown in the view
            self.send({"id": content["id"], "error": f"{type(error).__name__}: {error}"})


def as_bytes(found: dict[str, Tensor]) -> dict[str, bytes]:
    """Return the numbers of tensors, float32."""
    return {name: value.numpy().tobytes() for name, value in found.items()}
