"""Draw the two pictures of the README from what the repository holds: `python -m authoring.site.readme_pictures`.

`docs/hero.png` shows a portrait in patches, and where the model of `data/checkpoints/shapes-vit` looks on drawings that
it has not seen; `docs/overview.png` is the overview of lesson 00. Another matplotlib draws other bytes, so no test
compares them: run this after a change of what they show, and look at them.
"""

import sys
from pathlib import Path

import torch
from einops import rearrange
from PIL import Image
from torch import Tensor

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from vit_classroom import plots  # noqa: E402
from vit_classroom.evidence.released import load_trained  # noqa: E402
from vit_classroom.plots.style import enlarge_type  # noqa: E402
from vit_course.data import normalize, shapes10  # noqa: E402

KINDS = ("heart", "ring", "star", "arrow", "crescent", "cross")


def in_patches(image: Tensor, patch: int, gap: int) -> Tensor:
    """Pull the patches of an image (C, H, W) apart, on white, (C, H', W')."""
    patches = rearrange(image, "c (r p) (q s) -> r q c p s", p=patch, s=patch)
    apart = torch.nn.functional.pad(patches, (0, gap, 0, gap), value=255)
    return rearrange(apart, "r q c p s -> c (r p) (q s)")


@torch.no_grad()
def looked_at() -> list[tuple[Tensor, Tensor, str, bool]]:
    """Return drawings (3, H, W) in 0..1, where CLS looks in the last layer (H, W), what the model says, if right."""
    model, info = load_trained("shapes-vit")
    shapes = shapes10(train=10, test=200)
    firsts = [shapes.test_labels.tolist().index(shapes.classes.index(kind)) for kind in KINDS]
    images = shapes.test_images[firsts]
    logits, attentions = model.eval()(normalize(images, info["mean"], info["std"]), return_attention=True)
    maps = rearrange(
        attentions[-1].mean(dim=1)[:, 0, 1:], "b (r c) -> b 1 r c", r=model.patch_embed.grid_size[0]
    )
    maps = torch.nn.functional.interpolate(maps, images.shape[-2:], mode="bilinear")[:, 0]
    shares, answers = logits.softmax(dim=-1).max(dim=-1)
    said = [f"{shapes.classes[a]}, {100 * s:.0f} %" for a, s in zip(answers, shares.tolist(), strict=True)]
    right = (answers == shapes.test_labels[firsts]).tolist()
    return list(
        zip(images.float() / 255, maps / maps.amax(dim=(1, 2), keepdim=True), said, right, strict=True)
    )


@plots.course_style()
def hero():
    """Draw a portrait in patches, and drawings with the places where a trained model looks."""
    from matplotlib.pyplot import figure as new_figure

    figure = new_figure(figsize=(12, 3.35), facecolor="#f6f8fa")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 2.75))
    for part in (left, right):
        part.set_facecolor("none")
    axis = left.subplots()
    axis.imshow(plots.to_picture(in_patches(plots.sample_photo((224, 224)), 28, 5)))
    axis.set_axis_off()
    left.suptitle("A picture becomes patches ...", fontsize=13)
    axes = right.subplots(2, len(KINDS))
    for (above, below), (image, weights, said, is_right) in zip(axes.T, looked_at(), strict=True):
        above.imshow(plots.to_picture(image))
        above.set_title(
            f"{'✓' if is_right else '✗'} {said}", color="#007855" if is_right else "#b24400", fontsize=11
        )
        below.imshow(plots.to_picture((image * (0.15 + 0.85 * weights)).clamp(0, 1)), interpolation="nearest")
    for axis in axes.flat:
        axis.set_axis_off()
    right.suptitle(
        "... and the model that you build says what it sees, and shows where it looks", fontsize=13
    )
    return figure


def save(figure, name: str) -> None:
    """Write a figure to `docs/` in 256 colours, small enough for a page that all read."""
    path = ROOT / "docs" / name
    figure.savefig(path, dpi=100, facecolor=figure.get_facecolor())
    Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    save(hero(), "hero.png")
    overview = plots.vit_overview()
    enlarge_type(overview)
    save(overview, "overview.png")
