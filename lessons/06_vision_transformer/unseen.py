"""Answers to the exercises of lesson 06, written from the docstrings alone.

Nothing in the checks was written for them. They are read by a test, and by nobody who writes a check.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from einops import repeat
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from vit_course.embeddings import pool, prepend_cls_token
from vit_course.encoder import Block, Encoder
from vit_course.patches import PatchEmbed


class MiniViTBase(nn.Module):
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
        super().__init__()
        self.patch_embed = PatchEmbed(img_size, patch_size, in_chans, embed_dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, self.patch_embed.num_patches + 1, embed_dim))
        self.blocks = Encoder(depth, embed_dim, num_heads)
        self.norm = nn.LayerNorm(embed_dim, eps=1e-6)
        self.head = nn.Linear(embed_dim, num_classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, images: Tensor) -> Tensor:
        z = prepend_cls_token(self.patch_embed(images), self.cls_token) + self.pos_embed
        return self.head(pool(self.norm(self.blocks(z)), "token"))


class MiniViTPatchPositions(MiniViTBase):
    def forward(self, images: Tensor) -> Tensor:
        tokens = self.patch_embed(images) + self.pos_embed[:, 1:]
        z = self.blocks(prepend_cls_token(tokens, self.cls_token))
        return self.head(pool(self.norm(z), "token"))


class MiniViTOneBlock(MiniViTBase):
    def __init__(
        self, img_size=32, patch_size=4, in_chans=3, num_classes=10, embed_dim=96, depth=3, num_heads=3
    ):
        super().__init__(img_size, patch_size, in_chans, num_classes, embed_dim, depth, num_heads)
        self.blocks = nn.Sequential(*[Block(embed_dim, num_heads)] * depth)


class MiniViTReadsLast(MiniViTBase):
    def forward(self, images: Tensor) -> Tensor:
        z = self.blocks(prepend_cls_token(self.patch_embed(images), self.cls_token) + self.pos_embed)
        return self.head(self.norm(z)[:, -1])


class MiniViTLogSoftmax(MiniViTBase):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).log_softmax(dim=1)


class MiniViTResizes(MiniViTBase):
    def forward(self, images: Tensor) -> Tensor:
        size = self.patch_embed.img_size
        if images.ndim == 4 and tuple(images.shape[-2:]) != size:
            images = F.interpolate(images, size=size, mode="bilinear", align_corners=False)
        return super().forward(images)


class MiniViTOwnStarts(MiniViTBase):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        nn.init.trunc_normal_(self.cls_token, std=0.02)
        self.norm = nn.LayerNorm(self.norm.normalized_shape)


class MiniViTSequential(nn.Module):
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
        super().__init__()
        self.patch_embed = PatchEmbed(
            img_size=img_size, patch_size=patch_size, in_chans=in_chans, embed_dim=embed_dim
        )
        sequence = self.patch_embed.num_patches + 1
        self.cls_token = nn.Parameter(torch.zeros((1, 1, embed_dim)), requires_grad=True)
        self.pos_embed = nn.Parameter(torch.empty(1, sequence, embed_dim).normal_(std=0.02))
        self.blocks = nn.Sequential(*(Block(embed_dim, num_heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(embed_dim, eps=1e-6)
        self.head = nn.Linear(embed_dim, num_classes)
        for parameter in self.head.parameters():
            nn.init.constant_(parameter, 0.0)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patch_embed(images)
        speaker = repeat(self.cls_token, "1 1 d -> b 1 d", b=patches.shape[0])
        stream = torch.cat((speaker, patches), dim=1).add(self.pos_embed)
        return self.head(self.norm(self.blocks(stream)).select(1, 0))


class MiniViTNormsCls(nn.Module):
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
        super().__init__()
        self.head = nn.Linear(embed_dim, num_classes)
        self.head.weight.data.zero_()
        self.head.bias.data.zero_()
        self.norm = nn.LayerNorm((embed_dim,), eps=1e-6)
        self.blocks = Encoder(depth=depth, dim=embed_dim, num_heads=num_heads)
        self.patch_embed = PatchEmbed(img_size, patch_size, in_chans, embed_dim)
        rows, columns = self.patch_embed.grid_size
        self.pos_embed = nn.Parameter(nn.init.normal_(torch.empty(1, rows * columns + 1, embed_dim), 0, 0.02))
        self.cls_token = nn.Parameter(self.pos_embed.detach()[:, :1] * 0)

    def forward(self, images: Tensor) -> Tensor:
        z = self.pos_embed + prepend_cls_token(self.patch_embed(images), self.cls_token)
        for block in self.blocks:
            z = block(z)
        return self.head(self.norm(z[:, 0]))


class MiniViTPositionsApart(nn.Module):
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
        super().__init__()
        embed = self.patch_embed = PatchEmbed(img_size, patch_size, in_chans, embed_dim)
        self.register_parameter("cls_token", nn.Parameter(torch.zeros(embed_dim).view(1, 1, -1)))
        positions = torch.normal(0.0, 0.02, size=(1, 1 + embed.num_patches, embed_dim))
        self.register_parameter("pos_embed", nn.Parameter(positions))
        self.blocks = nn.Sequential()
        for number in range(depth):
            self.blocks.add_module(str(number), Block(dim=embed_dim, num_heads=num_heads))
        self.norm = nn.LayerNorm(embed_dim, eps=1e-6)
        self.head = nn.Linear(embed_dim, num_classes)
        self.head.weight = nn.Parameter(torch.zeros(num_classes, embed_dim))
        self.head.bias = nn.Parameter(torch.zeros(num_classes))

    def forward(self, images: Tensor) -> Tensor:
        first, others = self.pos_embed.split([1, self.patch_embed.num_patches], dim=1)
        patches = self.patch_embed(images) + others
        z = torch.cat([(self.cls_token + first).expand(len(images), -1, -1), patches], dim=1)
        y = pool(self.norm(self.blocks(z)), mode="token", num_prefix_tokens=1)
        return F.linear(y, self.head.weight, self.head.bias)


class MiniViTWithAttention(MiniViTBase):
    def forward(self, images: Tensor) -> Tensor:
        tokens = self.patch_embed(images)
        batch, count, width = tokens.shape
        sequence = tokens.new_empty(batch, count + 1, width)
        sequence[:, 1:] = tokens
        sequence[:, :1] = self.cls_token
        stream, _ = self.blocks(sequence + self.pos_embed, return_attention=True)
        return self.head(pool(self.norm(stream)))


def epoch_with_replacement(model, images, labels, optimizer, batch_size: int = 64) -> float:
    model.train()
    total = 0.0
    for rows in torch.randint(len(images), (len(images),)).split(batch_size):
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(rows)
    return total / len(images)


def epoch_same_order(model, images, labels, optimizer, batch_size: int = 64) -> float:
    model.train()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(42))
    total = 0.0
    for rows in order.split(batch_size):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        loss.backward()
        optimizer.step()
        total += loss.item() * len(rows)
    return total / len(images)


def epoch_shuffles_batches(model, images, labels, optimizer, batch_size: int = 64) -> float:
    model.train()
    batches = list(zip(images.split(batch_size), labels.split(batch_size), strict=True))
    total = 0.0
    for number in torch.randperm(len(batches)).tolist():
        x, y = batches[number]
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(y)
    return total / len(images)


def epoch_ends_in_eval(model, images, labels, optimizer, batch_size: int = 64) -> float:
    model.train()
    total = 0.0
    for rows in torch.randperm(len(images)).split(batch_size):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        loss.backward()
        optimizer.step()
        total += loss.item() * len(rows)
    model.eval()
    return total / len(images)


def epoch_sum_of_losses(model, images, labels, optimizer, batch_size: int = 64) -> float:
    model.train()
    total = 0.0
    for rows in torch.randperm(len(images)).split(batch_size):
        loss = F.cross_entropy(model(images[rows]), labels[rows], reduction="sum")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(images)


def epoch_full_batches_weight(model, images, labels, optimizer, batch_size: int = 64) -> float:
    model.train()
    total = 0.0
    for rows in torch.randperm(len(images)).split(batch_size):
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * batch_size
    return total / len(images)


def epoch_data_loader(model, images, labels, optimizer, batch_size: int = 64) -> float:
    loader = DataLoader(TensorDataset(images, labels), batch_size=batch_size, shuffle=True)
    criterion = nn.CrossEntropyLoss()
    model.train(True)
    seen = mean = 0.0
    for x, y in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        seen += len(y)
        mean += (loss.item() - mean) * len(y) / seen
    return mean


def epoch_shuffled_copies(model, images, labels, optimizer, batch_size: int = 64) -> float:
    order = torch.rand(labels.shape[0]).argsort()
    model.train()
    losses = []
    for x, y in zip(images[order].split(batch_size), labels[order].split(batch_size), strict=True):
        scores = model(x)
        each = scores.logsumexp(dim=1) - scores.gather(1, y[:, None]).squeeze(1)
        optimizer.zero_grad()
        each.mean().backward()
        optimizer.step()
        losses += each.tolist()
    return math.fsum(losses) / len(losses)


def epoch_autograd(model, images, labels, optimizer, batch_size: int = 64) -> float:
    model.train()
    count = len(images)
    order = torch.from_numpy(np.random.permutation(count))
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    total, start = 0.0, 0
    while start < count:
        rows = order[start : start + batch_size]
        loss = F.nll_loss(F.log_softmax(model(images[rows]), dim=-1), labels[rows])
        for p, gradient in zip(
            parameters, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True
        ):
            p.grad = gradient
        optimizer.step()
        total += float(loss.detach()) * rows.numel()
        start += batch_size
    return total / count


def epoch_samplers(model, images, labels, optimizer, batch_size: int = 64) -> float:
    model.train()
    weights, means = [], []
    for rows in BatchSampler(RandomSampler(range(len(labels))), batch_size, drop_last=False):
        where = torch.tensor(rows, device=labels.device)
        x, y = images.index_select(0, where), labels.index_select(0, where)
        loss = F.cross_entropy(model(x), y, reduction="sum") / y.numel()
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        weights.append(y.numel())
        means.append(loss.item())
    return float(np.average(means, weights=weights))


def accuracy_whole_set(model, images, labels, batch_size: int = 500) -> float:
    model.eval()
    with torch.no_grad():
        return (model(images).argmax(dim=1) == labels).float().mean().item()


def accuracy_switches_off(model, images, labels, batch_size: int = 500) -> float:
    model.eval()
    torch.set_grad_enabled(False)
    hits = 0
    for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True):
        hits += (model(x).argmax(dim=1) == y).sum().item()
    return hits / len(images)


def accuracy_freezes(model, images, labels, batch_size: int = 500) -> float:
    model.eval().requires_grad_(False)
    hits = 0
    with torch.no_grad():
        for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True):
            hits += (model(x).argmax(dim=1) == y).sum().item()
    return hits / len(images)


def accuracy_detaches(model, images, labels, batch_size: int = 500) -> float:
    model.eval()
    hits = 0
    for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True):
        logits = model(x).detach()
        hits += (logits.argmax(dim=1) == y).sum().item()
    return hits / len(images)


def accuracy_restores_mode(model, images, labels, batch_size: int = 500) -> float:
    was_training = model.training
    model.eval()
    hits = 0
    with torch.no_grad():
        for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True):
            hits += (model(x).argmax(dim=1) == y).sum().item()
    model.train(was_training)
    return hits / len(images)


def accuracy_drops_rest(model, images, labels, batch_size: int = 500) -> float:
    model.eval()
    batch_size = min(batch_size, len(images))
    hits, steps = 0, len(images) // batch_size
    with torch.no_grad():
        for i in range(steps):
            rows = slice(i * batch_size, (i + 1) * batch_size)
            hits += (model(images[rows]).argmax(dim=1) == labels[rows]).sum().item()
    return hits / (steps * batch_size)


def accuracy_collects(model, images, labels, batch_size: int = 500) -> float:
    model.eval()
    with torch.inference_mode():
        answers = torch.cat([model(x).max(dim=1).indices for x in images.split(batch_size)])
    return answers.eq(labels).double().mean().item()


@torch.no_grad()
def accuracy_data_loader(model, images, labels, batch_size: int = 500) -> float:
    model.train(False)
    right = torch.zeros((), dtype=torch.int64)
    for x, y in DataLoader(TensorDataset(images, labels), batch_size=batch_size):
        right += torch.count_nonzero(model(x).argmax(-1) == y).cpu()
    return float(right) / labels.numel()


def accuracy_numpy(model, images, labels, batch_size: int = 500) -> float:
    model.eval()
    truth, right = labels.cpu().numpy(), []
    for start in range(0, len(truth), batch_size):
        with torch.no_grad():
            logits = model(images[start : start + batch_size]).cpu().numpy()
        right.append(np.argmax(logits, axis=1) == truth[start : start + batch_size])
    return float(np.mean(np.concatenate(right)))


def accuracy_confusion(model, images, labels, batch_size: int = 500) -> float:
    model.eval()
    table = None
    with torch.set_grad_enabled(False):
        for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True):
            logits = model(x)
            k = max(logits.shape[1], int(labels.max()) + 1)
            counts = torch.bincount(y * k + logits.argmax(dim=1), minlength=k * k).reshape(k, k)
            table = counts if table is None else table + counts
    return table.trace().item() / table.sum().item()


UNSEEN = {
    "MiniViT": [
        (
            "adds positions to the patches only, before the CLS token comes, so the CLS token gets "
            "none and row 0 of pos_embed is never used",
            MiniViTPatchPositions,
        ),
        (
            "returns log_softmax of the scores and not the scores as the head gives them; the loss is "
            "the same, the logits of a new model are -ln K and not 0",
            MiniViTLogSoftmax,
        ),
        (
            "multiplies a list with one Block in it, so all L blocks are the same module and share "
            "their weights",
            MiniViTOneBlock,
        ),
        ("resizes pictures of another size to img_size, where a ValueError is promised", MiniViTResizes),
        (
            "two mistakes: the CLS token starts at random numbers and not at zero, and the final norm "
            "has torch's eps of 1e-5 and not 1e-6",
            MiniViTOwnStarts,
        ),
        (
            "reads the last token as a language model does, which is a patch, and not the CLS token "
            "at index 0",
            MiniViTReadsLast,
        ),
    ],
    "train_one_epoch": [
        (
            "draws rows with torch.randint, with replacement, so some pictures come twice in the "
            "epoch and others never",
            epoch_with_replacement,
        ),
        ("calls model.eval() at the end, so the model is not left in training mode", epoch_ends_in_eval),
        (
            "shuffles with a generator that gets the same seed in every call, so each epoch has the "
            "same order",
            epoch_same_order,
        ),
        (
            "goes backward from the sum of the losses and not from their mean, so the gradients are "
            "larger by the size of the batch; the returned number is right",
            epoch_sum_of_losses,
        ),
        (
            "cuts the pictures into batches as they are stored and shuffles only the batches, so the "
            "same pictures are always together in a batch",
            epoch_shuffles_batches,
        ),
        (
            "weights every batch's mean with batch_size and not with its own length, so a smaller "
            "last batch counts too much in the result",
            epoch_full_batches_weight,
        ),
    ],
    "accuracy": [
        ("sends the whole set through the model at once and ignores batch_size", accuracy_whole_set),
        (
            "calls torch.set_grad_enabled(False) and never switches it back, so nothing can be "
            "trained afterwards",
            accuracy_switches_off,
        ),
        (
            "goes over the full batches alone, as drop_remainder=True in TensorFlow does, so the last "
            "pictures are never shown",
            accuracy_drops_rest,
        ),
        (
            "puts the model back into the mode it had, where it should be left in evaluation mode",
            accuracy_restores_mode,
        ),
        (
            "detaches the logits afterwards in place of switching gradients off, so the model runs "
            "with gradients and each batch builds its graph",
            accuracy_detaches,
        ),
        (
            "freezes the parameters of the model with requires_grad_(False) and leaves them frozen",
            accuracy_freezes,
        ),
    ],
}
STYLES = {
    "MiniViT": [MiniViTSequential, MiniViTNormsCls, MiniViTPositionsApart, MiniViTWithAttention],
    "train_one_epoch": [epoch_data_loader, epoch_shuffled_copies, epoch_autograd, epoch_samplers],
    "accuracy": [accuracy_collects, accuracy_data_loader, accuracy_numpy, accuracy_confusion],
}
