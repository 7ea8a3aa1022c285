"""The whole of a first training in one file: a model, a loop that trains it, and a measure of what it has learned.

Lesson 06 builds all three from the parts of lessons 01 to 05. `vit` has the same model with options, and `train` the
same loop with a schedule, augmentation and records.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_course.embeddings import pool, prepend_cls_token
from vit_course.encoder import Encoder
from vit_course.patches import PatchEmbed


class MiniViT(nn.Module):
    """The Vision Transformer of the paper, without options: images in, one score per class out (equations 1 to 4).

    Its parts, in the order an image meets them. Their names are those of the course's weight files, so write CLS and
    the positions directly, without `ClsToken` and `EncoderInput`:

    - `self.patch_embed`, a `PatchEmbed`, makes patch tokens (B, N, D);
    - `self.cls_token`, an `nn.Parameter` (1, 1, D) that starts at zero, goes in front;
    - `self.pos_embed`, an `nn.Parameter` (1, N + 1, D) of random numbers with standard deviation 0.02, is added;
    - `self.blocks`, L blocks one after the other, an `Encoder(depth, dim, num_heads)`;
    - `self.norm`, an `nn.LayerNorm` with eps=1e-6;
    - `self.head`, an `nn.Linear` from D to K. Its weight and its bias start at zero.

    Args:
        img_size: side of a square image, or (height, width), in pixels.
        patch_size: side P of a square patch in pixels.
        in_chans: channels C of the image.
        num_classes: number of classes K.
        embed_dim: width D of a token.
        depth: number of blocks L.
        num_heads: heads in every block.
    """

    def __init__(
        self,
        img_size: int | tuple[int, int] = 32,
        patch_size: int = 4,
        in_chans: int = 3,
        num_classes: int = 10,
        embed_dim: int = 96,
        depth: int = 3,
        num_heads: int = 3,
    ):
        super().__init__()  # given
        self.patch_embed = PatchEmbed(img_size, patch_size, in_chans, embed_dim)  # given
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, self.patch_embed.num_patches + 1, embed_dim))
        self.blocks = Encoder(depth, embed_dim, num_heads)
        self.norm = nn.LayerNorm(embed_dim, eps=1e-6)
        self.head = nn.Linear(embed_dim, num_classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Classify a batch of images.

        Args:
            images: (B, C, H, W), float.

        Returns:
            Logits (B, K): the scores as the head gives them. The CLS token alone is read.

        Raises:
            ValueError: by `PatchEmbed`, if the images have other axes, channels or sizes than the model was built for.
        """
        z = prepend_cls_token(self.patch_embed(images), self.cls_token) + self.pos_embed  # equation 1
        z = self.blocks(z)  # equations 2 and 3, L times
        y = pool(self.norm(z), "token")  # equation 4
        return self.head(y)


def train_one_epoch(
    model: nn.Module, images: Tensor, labels: Tensor, optimizer: torch.optim.Optimizer, batch_size: int = 64
) -> float:
    """Train a model on every image once, in a new random order, with one step of the optimiser for each batch.

    A step computes the logits of the batch, their mean cross-entropy as the loss, and its gradients. These are of this
    batch alone, so nothing is left over from the step before, or from before the call. Then the optimiser moves the
    weights. The last batch is smaller when `batch_size` does not divide N. The model trains on it too.

    Args:
        model: maps images (B, C, H, W) to logits (B, K). It trains in training mode, and is left in it.
        images: (N, C, H, W), float, normalised.
        labels: (N,), int64, the class of each image.
        optimizer: holds the parameters of the model.
        batch_size: images in a step.

    Returns:
        The mean loss of the epoch in nats, a float. It is the mean over the N *images*, each with its loss before its
        step.
    """
    model.train()
    total = 0.0
    for rows in torch.randperm(len(images)).split(batch_size):
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(rows)
    return total / len(images)


def accuracy(model: nn.Module, images: Tensor, labels: Tensor, batch_size: int = 500) -> float:
    """Measure the share of images whose class gets the highest score from a model.

    All images go through the model, `batch_size` at a time, so that a large set fits into memory. The model works in
    evaluation mode, and no gradients are kept, because nothing is learned from these images.

    Args:
        model: maps images (B, C, H, W) to logits (B, K). It is left in evaluation mode.
        images: (N, C, H, W), float, normalised.
        labels: (N,), int64, the class of each image.
        batch_size: images at a time.

    Returns:
        The share, a float in 0..1.
    """
    model.eval()
    hits = 0
    with torch.no_grad():
        for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True):
            hits += (model(x).argmax(dim=1) == y).sum().item()
    return hits / len(images)
