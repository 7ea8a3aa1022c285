"""The patient of lesson 14: a small Vision Transformer and its training, made of nine functions one can exchange."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_classroom.exhibits.clinic import healthy
from vit_course.data import Dataset, normalize
from vit_course.encoder import Mlp
from vit_course.patches import as_pair, count_patches


@dataclass(frozen=True)
class Parts:
    """The nine functions that a patient is made of; healthy where no other one is given."""

    draw_weights: Callable = healthy.draw_weights
    classify: Callable = healthy.classify
    embed_patches: Callable = healthy.embed_patches
    attend: Callable = healthy.attend
    encode_block: Callable = healthy.encode_block
    schedule: Callable = healthy.schedule
    decay_groups: Callable = healthy.decay_groups
    blend: Callable = healthy.blend
    score: Callable = healthy.score


class BlockWeights(nn.Module):
    """The weights of one block; what is done with them is the business of `encode_block` and `attend`."""

    def __init__(self, dim: int, num_heads: int, drop: float):
        super().__init__()
        self.num_heads = num_heads
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = Mlp(dim, 4 * dim, drop)

    def __repr__(self) -> str:
        return f"a block with D = {self.proj.in_features} and {self.num_heads} heads"


class Patient(nn.Module):
    """A small Vision Transformer whose every step is a function of `parts`.

    Args:
        parts: the functions.
        img_size: side of a square image, or (height, width), in pixels.
        patch_size: side P of a patch in pixels.
        in_chans: channels C.
        num_classes: number of classes K.
        dim: width D of a token.
        depth: number of blocks L.
        num_heads: heads h of a block.
        drop: dropout rate in the MLPs.
    """

    def __init__(
        self,
        parts: Parts | None = None,
        img_size: int | tuple[int, int] = 32,
        patch_size: int = 8,
        in_chans: int = 3,
        num_classes: int = 10,
        dim: int = 96,
        depth: int = 3,
        num_heads: int = 3,
        drop: float = 0.1,
    ):
        super().__init__()
        self.parts, self.patch_size = parts or Parts(), patch_size
        self.image_shape = (in_chans, *as_pair(img_size))
        self.project = nn.Linear(patch_size**2 * in_chans, dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, count_patches(img_size, patch_size) + 1, dim))
        self.blocks = nn.ModuleList(BlockWeights(dim, num_heads, drop) for _ in range(depth))
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, num_classes)
        self.parts.draw_weights(self)

    def __repr__(self) -> str:
        return f"a patient for images {self.image_shape} with P = {self.patch_size} and D = {self.norm.weight.numel()}"

    def forward(self, images: Tensor) -> Tensor:
        """Classify images (B, C, H, W): logits (B, K)."""
        tokens = self.parts.embed_patches(images, self)
        for block in self.blocks:
            tokens = self.parts.encode_block(tokens, block, self.parts.attend)
        return self.parts.classify(tokens, self)


@dataclass
class Course:
    """How a patient's training went: loss of every step in nats, and accuracy on the test images in 0..1."""

    losses: list[float] = field(default_factory=list)
    accuracy: float = float("nan")


def train_patient(
    patient: Patient,
    dataset: Dataset,
    epochs: int,
    batch_size: int = 64,
    peak: float = 2e-3,
    weight_decay: float = 0.05,
    seed: int = 0,
) -> Course:
    """Train a patient with its own parts. Every second batch is blended. The accuracy is that of the healthy `score`.

    Args:
        patient: trained in place, on the device where it is.
        dataset: images and labels.
        epochs: passes over the training images.
        batch_size: images a step.
        peak: highest learning rate.
        weight_decay: decay of AdamW.
        seed: fixes what is drawn at random.
    """
    parts, course, device = patient.parts, Course(), patient.head.weight.device
    stats, classes = dataset.channel_stats(), len(dataset.classes)
    images = normalize(dataset.train_images.to(device), *stats)
    labels = F.one_hot(dataset.train_labels.to(device), classes).float()
    optimizer = torch.optim.AdamW(parts.decay_groups(patient, weight_decay))
    steps = len(images) // batch_size
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        for step in range(epochs * steps):
            if step % steps == 0:
                order = torch.randperm(len(images), device=device).split(batch_size)
            rows = order[step % steps]
            x, y = images[rows], labels[rows]
            if step % 2:
                x, y = parts.blend(x, y, torch.rand(()).item())
            for group in optimizer.param_groups:
                group["lr"] = parts.schedule(step, epochs * steps, steps, peak)
            loss = F.cross_entropy(patient.train()(x), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(patient.parameters(), 1.0)
            optimizer.step()
            course.losses.append(loss.item())
    test_images = normalize(dataset.test_images.to(device), *stats)
    course.accuracy = healthy.score(patient, test_images, dataset.test_labels.to(device))
    return course
