"""Masked patch prediction: hide patches and predict what was there, without labels (paper, section 4.6 and B.1.2).

`MaskedPatches` wraps a `VisionTransformer`, and `train` pre-trains it with `masked_objective`; what is fine-tuned
afterwards is `MaskedPatches.vit`. Lesson 13 builds its loss, and the two parts that make a masked autoencoder (He et
al., 2022): `keep_visible`, for an encoder that reads only what is left, and `PixelDecoder`, which paints the rest.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from einops import rearrange, reduce
from torch import Tensor, nn

from vit_course.encoder import Block
from vit_course.patches import as_pair, grid_size, patchify
from vit_course.vit import VisionTransformer, init_weights

LEVELS = 8  # 3 bits for each channel
LEVEL_WIDTH = 256 // LEVELS
TASKS = ("colours", "pixels")
EVALUATION_SEED = 0


def corrupt(tokens: Tensor, mask_token: Tensor, share: float = 0.5) -> tuple[Tensor, Tensor]:
    """Corrupt a share of the patch tokens, as BERT corrupts words (paper, B.1.2).

    In every image exactly round(share·N) patches are drawn at random, different ones in each. Each of
    them independently meets one of three fates: with probability 0.8 it becomes the mask token; with 0.1 it
    becomes the token of another patch of the same image, drawn at random, never itself, and read before
    corruption; with 0.1 it stays as it is. It counts as corrupted in all three cases. All other patches stay
    as they are.

    Args:
        tokens: (B, N, D) patch tokens, without CLS token and positions; N is at least 2.
        mask_token: (1, 1, D), one learned vector, the same for every patch. Gradients reach it.
        share: share of the patches that are corrupted, 0..1.

    Returns:
        corrupted: (B, N, D), a new tensor of the dtype of `tokens`.
        chosen: (B, N) bool, True for the patches that were drawn, whatever became of them.
    """
    batch, count, _ = tokens.shape
    place = {"device": tokens.device}
    chosen = torch.rand(batch, count, **place).argsort(dim=1) < round(share * count)
    fate = torch.rand(batch, count, **place)
    step = torch.randint(1, count, (batch, count), **place)
    others = (torch.arange(count, **place) + step) % count
    swapped = tokens.gather(1, rearrange(others, "b n -> b n 1").expand_as(tokens))
    to_mask, to_swap = chosen & (fate < 0.8), chosen & (fate >= 0.8) & (fate < 0.9)
    corrupted = torch.where(to_mask[..., None], mask_token.to(tokens.dtype), tokens)
    return torch.where(to_swap[..., None], swapped, corrupted), chosen


def corrupt_repeatably(
    tokens: Tensor, mask_token: Tensor, share: float = 0.5, seed: int = EVALUATION_SEED
) -> tuple[Tensor, Tensor]:
    """Corrupt as `corrupt` does, with random numbers that depend on the seed and on (B, N) alone."""
    with torch.random.fork_rng([tokens.device] if tokens.is_cuda else []):
        torch.manual_seed(seed)
        return corrupt(tokens, mask_token, share)


def keep_visible(tokens: Tensor, share: float = 0.25) -> tuple[Tensor, Tensor]:
    """Keep a random share of the patch tokens and drop the others, as a masked autoencoder does (He et al., 2022).

    In every image exactly K = round(share·N) patches stay visible, drawn at random, different ones in
    each. Their tokens are all that the encoder will read. They have their positions already, so each of
    them still says where it was, and their order does not matter.

    The second result leads back. Lay a row of N tokens for each image: first the K visible ones, as they are
    returned, then anything you like for the hidden ones, for example N - K mask tokens. The token of patch n
    is then at place restore[b, n] of that row, so `row.gather(1, restore[..., None].expand_as(row))` puts
    all tokens back into reading order. And patch n is visible if, and only if, restore[b, n] < K.

    Args:
        tokens: (B, N, D) patch tokens, positions added, without CLS token.
        share: share of the patches that stay visible, 0..1.

    Returns:
        visible: (B, K, D), the tokens of the visible patches, unchanged. Gradients reach `tokens`.
        restore: (B, N) int64, on the device of `tokens`, for every image the numbers 0 ... N - 1, each once.

    Raises:
        ValueError: if K is smaller than 1 or larger than N: the encoder needs a token, and has no more than N.
    """
    batch, count, dim = tokens.shape  # given
    kept = round(share * count)  # given
    if not 1 <= kept <= count:  # given
        raise ValueError(f"share {share:g} of {count} patches is {kept}: 1 to {count} can stay visible")
    # The patch at each place of the row:
    order = torch.rand(batch, count, device=tokens.device).argsort(dim=1)
    first = rearrange(order[:, :kept], "b k -> b k 1").expand(-1, -1, dim)
    return tokens.gather(1, first), order.argsort(dim=1)


class PixelDecoder(nn.Module):
    """The decoder of a masked autoencoder: a small Transformer that predicts every patch from the visible ones.

    It is needed in pre-training alone, and thrown away afterwards.

    Args:
        dim: width D of the tokens that the encoder gives.
        num_patches: number N of patches of an image.
        outputs: how many numbers are predicted of each patch, P·P·C for its pixels.
        width: width W of the decoder's own tokens.
        depth: number of its blocks.
        num_heads: number of heads of a block.

    Attributes:
        embed: the linear layer from D to W.
        mask_token: (1, 1, W), one learned vector that stands for every hidden patch.
        pos_embed: (1, N, W), the decoder's own positions, patches in reading order.
        blocks: the blocks, in their order.
        norm: the final layer norm.
        predict: the linear layer from W to `outputs`.
    """

    def __init__(
        self, dim: int, num_patches: int, outputs: int, width: int = 64, depth: int = 2, num_heads: int = 2
    ):
        super().__init__()
        self.embed = nn.Linear(dim, width)
        self.mask_token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.pos_embed = nn.Parameter(torch.randn(1, num_patches, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, num_heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.predict = nn.Linear(width, outputs)

    def forward(self, visible: Tensor, restore: Tensor) -> Tensor:
        """Predict every patch.

        `embed` brings the visible tokens to the width W. After them, N - K mask tokens fill the row; `restore` puts
        all N back into reading order, as `keep_visible` says. Then positions are added, to every token, and blocks,
        norm and `predict` follow.

        Args:
            visible: (B, K, D) results of the encoder for the visible patches, without CLS token.
            restore: (B, N) int64, the place of each patch in the row.

        Returns:
            (B, N, outputs), patches in reading order.
        """
        row = self.embed(visible)  # (B, K, W)
        hidden = restore.shape[1] - row.shape[1]
        row = torch.cat([row, self.mask_token.expand(len(row), hidden, -1)], dim=1)  # (B, N, W)
        tokens = row.gather(1, restore[..., None].expand_as(row)) + self.pos_embed
        for block in self.blocks:
            tokens = block(tokens)
        return self.predict(self.norm(tokens))


def colour_classes(images: Tensor, patch_size: int | tuple[int, int]) -> Tensor:
    """Give the mean colour of every patch a class: 3 bits a channel, 512 classes for RGB (paper, B.1.2).

    Average each channel over the pixels of the patch. The mean m, in 0..255, has the level floor(m / 32), one
    of 0 ... 7: a level is 32 grey values wide. The class is the number whose digits to the base 8 are the
    levels, first channel first: 64·red + 8·green + blue.

    Args:
        images: (B, C, H, W) pixels in 0..255, uint8 or float. Not normalised, and not in 0..1.
        patch_size: side P of a square patch, or (height, width), in pixels. H and W are multiples of it.

    Returns:
        (B, N) int64, patches in reading order, each a class in 0 ... 8^C - 1.

    Raises:
        ValueError: if the patches do not fill the image exactly.
    """
    p1, p2 = as_pair(patch_size)
    grid_size(tuple(images.shape[-2:]), patch_size)
    means = reduce(images.float(), "b c (h p1) (w p2) -> b (h w) c", "mean", p1=p1, p2=p2)
    levels = (means / LEVEL_WIDTH).long().clamp(0, LEVELS - 1)
    channels = images.shape[1]
    weights = LEVELS ** torch.arange(channels - 1, -1, -1, device=images.device)
    return (levels * weights).sum(dim=-1)


def class_colours(classes: Tensor, num_channels: int = 3) -> Tensor:
    """Turn colour classes back into colours: the way back from `colour_classes`, as far as there is one.

    A class holds one level 0 ... 7 for each channel. Each level becomes the value in the middle of its 32
    grey values: 32·level + 16.

    Args:
        classes: (...) int64, classes in 0 ... 8^C - 1; any number of axes, also none.
        num_channels: number of channels C.

    Returns:
        (..., C) uint8, colours in 0..255, first channel first.
    """
    weights = LEVELS ** torch.arange(num_channels - 1, -1, -1, device=classes.device)
    levels = classes[..., None] // weights % LEVELS
    return (LEVEL_WIDTH * levels + LEVEL_WIDTH // 2).to(torch.uint8)


def mean_over_chosen(values: Tensor, chosen: Tensor) -> Tensor:
    """Average values (B, N) over the patches where `chosen` (B, N) is True, all images together; a scalar."""
    return torch.where(chosen, values, 0.0).sum() / chosen.sum()


def masked_loss(logits: Tensor, classes: Tensor, chosen: Tensor) -> Tensor:
    """Score predictions on the corrupted patches, on every one of them and on no other (paper, B.1.2).

    The loss is the cross-entropy (natural logarithm), averaged over all corrupted patches of the batch: each
    patch weighs the same, whichever image it is in.

    Args:
        logits: (B, N, K) scores of K classes for every patch.
        classes: (B, N) int64, the right class of every patch.
        chosen: (B, N) bool, True for corrupted patches; at least one is. Images may differ in their number.

    Returns:
        A scalar, finite for logits in the hundreds too. Gradients reach the logits of corrupted patches alone.
    """
    losses = F.cross_entropy(logits.transpose(1, 2), classes, reduction="none")
    return mean_over_chosen(losses, chosen)


class MaskedPatches(nn.Module):
    """A Vision Transformer that learns without labels, by predicting what corrupted patches looked like.

    Patches are embedded; `corrupt` replaces some of the tokens, before positions and the CLS token join them, so that
    every token still says where it is; the encoder and the final norm run; `predict`, a linear layer, reads the token
    of every patch. In evaluation mode the corruption is drawn from a fixed seed, so that scores repeat.

    Two tasks. "colours" is the paper's: the class of the mean colour, as `colour_classes` gives it. "pixels" is closer
    to MAE (He et al., 2022): all P·P·C numbers of the patch, from which the patch's own mean is subtracted and which
    are divided by its own deviation; the loss is the mean squared error. Both tasks share the corruption, and so
    differ in what is predicted alone.

    The classification head of `vit` learns nothing here. It is frozen, and to be replaced before fine-tuning.

    Args:
        vit: the model to pre-train; trained in place.
        mean: mean of each channel, as the images were normalised with: C numbers in 0..1 units.
        std: deviation of each channel, likewise.
        share: share of the patches that are corrupted.
        task: "colours" or "pixels".

    Attributes:
        vit: the model.
        mask_token: (1, 1, D), the learned vector that stands for "hidden".
        predict: the linear layer from D to 8^C classes or to P·P·C pixels.

    Raises:
        ValueError: if the task is another one, or `share` corrupts no patch.
    """

    def __init__(
        self,
        vit: VisionTransformer,
        mean: Tensor | Sequence[float],
        std: Tensor | Sequence[float],
        share: float = 0.5,
        task: str = "colours",
    ):
        super().__init__()
        if task not in TASKS:
            raise ValueError(f"task {task!r} is unknown: use {' or '.join(map(repr, TASKS))}")
        count = vit.patch_embed.num_patches
        if not 1 <= round(share * count) <= count or count < 2:
            raise ValueError(
                f"share {share:g} of {count} patches: at least 1 of 2 or more should be corrupted"
            )
        channels, dim = vit.patch_embed.proj.in_channels, vit.norm.normalized_shape[0]
        p1, p2 = self.patch_size = vit.patch_embed.patch_size
        self.vit, self.share, self.task = vit, share, task
        self.mask_token = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.predict = nn.Linear(dim, LEVELS**channels if task == "colours" else p1 * p2 * channels)
        init_weights(self.predict)
        for name, values in (("mean", mean), ("std", std)):
            self.register_buffer(
                name, torch.as_tensor(values, dtype=torch.float32).reshape(1, -1, 1, 1).clone()
            )
        for part in (vit.pre_logits, vit.head):
            part.requires_grad_(False)

    def guess(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Corrupt normalised images (B, C, H, W) and predict every patch.

        Returns:
            predictions (B, N, 8^C) logits or (B, N, P·P·C) pixels, and which patches were corrupted, (B, N) bool.
        """
        how = corrupt if self.training else corrupt_repeatably
        tokens, chosen = how(self.vit.patch_embed(images), self.mask_token, self.share)
        patches = self.vit.encode(tokens)[:, self.vit.num_prefix_tokens :]
        return self.predict(patches), chosen

    def target(self, images: Tensor) -> Tensor:
        """Return what is to be predicted of normalised images: classes (B, N), or pixels (B, N, P·P·C)."""
        pixels = raw_pixels(images, self.mean, self.std)
        if self.task == "colours":
            return colour_classes(pixels, self.patch_size)
        patches = patchify(pixels / 255, self.patch_size)
        deviation = (patches.var(dim=-1, keepdim=True, unbiased=False) + 1e-6).sqrt()
        return (patches - patches.mean(dim=-1, keepdim=True)) / deviation

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Score the prediction of the corrupted patches of normalised images (B, C, H, W).

        Returns:
            loss: a scalar, the mean over every corrupted patch of cross-entropy (nats) or squared error.
            hits: a scalar in 0..1 without gradient: the share of corrupted patches whose class is right; for pixels
                the share of their variance that is explained, 1 - loss / variance, and 0 where that is negative.
        """
        predictions, chosen = self.guess(images)
        predictions, target = predictions.float(), self.target(images)
        if self.task == "colours":
            right = (predictions.argmax(dim=-1) == target).float()
            return masked_loss(predictions, target, chosen), mean_over_chosen(right, chosen)
        loss = mean_over_chosen((predictions - target).square().mean(dim=-1), chosen)
        variance = mean_over_chosen(target.square().mean(dim=-1), chosen)  # the mean of every patch is 0
        return loss, (1 - loss.detach() / variance).clamp(min=0)


def raw_pixels(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Undo `normalize`: normalised images (B, C, H, W), mean and std (1, C, 1, 1), to whole pixels in 0..255, float."""
    return ((images.float() * std + mean) * 255).round().clamp(0, 255)


def masked_objective(forward: Callable, images: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return loss and hits of a `MaskedPatches`: an objective for `train`. Nobody reads the labels in `targets`."""
    return forward(images)
