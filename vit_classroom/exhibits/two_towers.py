"""A common space for images and texts, learned in seconds on features that stay as they are. Lesson 17 uses it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_classroom.plots.diagrams import Diagram
from vit_classroom.plots.style import PALETTE, course_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAIRS = ("red arrow", "blue star", "green heart")


@course_style()
def towers_diagram() -> "Figure":
    """Draw how CLIP compares: images and texts become vectors, and a table holds the cosines of all pairs."""
    title = "Which text belongs to which image?"
    diagram = Diagram(title, (9.5, 4.4), (-0.2, 19), (-0.4, 9.1))
    diagram.box(4.6, 0.2, 2.2, 4.6, "image\ntower", PALETTE[0])
    diagram.box(9.6, 6.9, 7.8, 1.0, "text tower", PALETTE[1])
    for number, pair in enumerate(PAIRS):
        x, y = 9.6 + 2.7 * number, 3.5 - 1.6 * number
        diagram.box(0, y, 3.4, 1.1, f"image of a\n{pair}", "0.6")
        diagram.arrow(3.5, y + 0.55, 4.5, y + 0.55)
        diagram.arrow(6.9, y + 0.55, 9.4, y + 0.55)
        diagram.text(8.1, y + 0.8, f"$u_{number + 1}$", va="bottom", fontsize=12)
        diagram.text(x + 1.2, 8.5, f'"one\n{pair}"', fontsize=9)
        diagram.arrow(x + 1.2, 6.8, x + 1.2, 4.8)
        diagram.text(x + 1.45, 5.8, f"$v_{number + 1}$", ha="left", fontsize=12)
        for column in range(len(PAIRS)):
            own = column == number
            look = {"alpha": 0.6 if own else 0.2}
            words = f"$u_{number + 1} \\cdot v_{column + 1}$" + ("\nlarge" if own else "")
            diagram.box(9.6 + 2.7 * column, y, 2.4, 1.1, words, PALETTE[2] if own else "0.6", **look)
    return diagram.figure


class TextTower(nn.Module):
    """A small model of texts: the mean over the learned vectors of the words, then a linear layer.

    Args:
        words: all that it knows.
        dim: length D of its vectors.
    """

    def __init__(self, words: Sequence[str], dim: int = 64):
        super().__init__()
        self.number = {word: i for i, word in enumerate(dict.fromkeys(words))}
        self.words, self.proj = nn.Embedding(len(self.number), dim), nn.Linear(dim, dim)

    def forward(self, texts: Sequence[str]) -> Tensor:
        """Map B texts to (B, D).

        Raises:
            ValueError: if a text holds a word that it does not know.
        """
        if unknown := {word for text in texts for word in text.split()} - self.number.keys():
            raise ValueError(f"these words were not learned: {', '.join(sorted(unknown))}")
        vectors = [
            self.words(torch.tensor([self.number[w] for w in text.split()])).mean(dim=0) for text in texts
        ]
        return self.proj(torch.stack(vectors))


def contrast(image_vectors: Tensor, text_vectors: Tensor, temperature: float | Tensor) -> Tensor:
    """Return CLIP's loss: each of B pictures should find its own text among B, and each text its own picture.

    Args:
        image_vectors: (B, D).
        text_vectors: (B, D), text i belongs to picture i, and no two texts are the same.
        temperature: divides the cosines.
    """
    scores = F.normalize(image_vectors, dim=-1) @ F.normalize(text_vectors, dim=-1).T / temperature
    own = torch.arange(len(scores), device=scores.device)
    return (F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)) / 2


def fit_towers(
    features: Tensor, texts: Sequence[str], kinds: Tensor, steps: int = 400, dim: int = 64
) -> tuple[nn.Linear, TextTower]:
    """Learn a common space for pictures and texts on top of features that stay as they are (Zhai et al., 2022: LiT).

    Each step takes one picture of every kind, so that no text fits two pictures of a batch.

    Args:
        features: (N, D) of the pictures, from a frozen model.
        texts: N texts, one for each picture.
        kinds: (N,) int64; pictures of one kind are told by texts of the same meaning.
        steps: how many.
        dim: length of the common vectors.

    Returns:
        A linear layer from features to the common space, and the tower of the texts.
    """
    rows = [(kinds == kind).nonzero()[:, 0] for kind in kinds.unique()]
    mean, std = features.mean(dim=0), features.std(dim=0).clamp(min=1e-6)
    images, words = nn.Linear(features.shape[1], dim), TextTower([w for t in texts for w in t.split()], dim)
    temperature = nn.Parameter(torch.tensor(-2.0))  # its logarithm: it is learned, and stays above 0
    optimizer = torch.optim.AdamW(
        [*images.parameters(), *words.parameters(), temperature], lr=3e-3, weight_decay=0.05
    )
    for _ in range(steps):
        chosen = torch.stack([row[torch.randint(len(row), ())] for row in rows])
        loss = contrast(
            images((features[chosen] - mean) / std), words([texts[i] for i in chosen]), temperature.exp()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():  # the layer takes in what standardises, so that it reads features as they are
        images.weight /= std
        images.bias -= images.weight @ mean
    return images.requires_grad_(False), words.requires_grad_(False)
