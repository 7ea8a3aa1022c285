"""Answers to the exercises of lesson 06, written as students write them."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from vit_classroom.checks.edits import edited
from vit_classroom.checks.scorers import scored_by
from vit_classroom.exhibits.mini_vit import MiniViT, train_one_epoch
from vit_course.embeddings import prepend_cls_token
from vit_course.encoder import Block
from vit_course.patches import PatchEmbed, as_pair, check_images, grid_size, patchify


class ViTWithOtherNames(MiniViT):
    def __init__(self, *sizes, **named):
        super().__init__(*sizes, **named)
        self.embed, self.patch_embed = self.patch_embed, None

    def forward(self, images):
        z = prepend_cls_token(self.embed(images), self.cls_token) + self.pos_embed
        return self.head(self.norm(self.blocks(z))[:, 0])


class ViTWithAnotherHead(MiniViT):
    def __init__(self, *sizes, **named):
        super().__init__(*sizes, **named)
        self.classifier, self.head = self.head, None

    def forward(self, images):
        z = prepend_cls_token(self.patch_embed(images), self.cls_token) + self.pos_embed
        return self.classifier(self.norm(self.blocks(z))[:, 0])


class ViTOfBlocks(nn.Module):
    def __init__(
        self, img_size=32, patch_size=4, in_chans=3, num_classes=10, embed_dim=96, depth=3, num_heads=3
    ):
        super().__init__()
        self.patch_embed = PatchEmbed(img_size, patch_size, in_chans, embed_dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.pos_embed = nn.Parameter(torch.empty(1, self.patch_embed.num_patches + 1, embed_dim))
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        self.blocks = nn.Sequential(*[Block(embed_dim, num_heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(embed_dim, eps=1e-6)
        self.head = nn.Linear(embed_dim, num_classes)
        with torch.no_grad():
            for parameter in self.head.parameters():
                parameter.zero_()

    def forward(self, images):
        x = self.patch_embed(images)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1)
        x = self.norm(self.blocks(x + self.pos_embed))
        return self.head(x[:, 0])


class ViTOfLists(nn.Module):
    def __init__(
        self, img_size=32, patch_size=4, in_chans=3, num_classes=10, embed_dim=96, depth=3, num_heads=3
    ):
        super().__init__()
        self.patch_embed = LinearPatches(img_size, patch_size, in_chans, embed_dim)
        self.cls_token = nn.Parameter(1e-6 * torch.randn(1, 1, embed_dim))
        self.pos_embed = nn.Parameter(torch.randn(1, 1 + self.patch_embed.num_patches, embed_dim) / 50)
        self.blocks = nn.ModuleList([Block(embed_dim, num_heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(embed_dim, eps=1e-6)
        self.head = nn.Linear(embed_dim, num_classes)
        self.head.weight.data.zero_()
        self.head.bias.data.zero_()

    def forward(self, x):
        x = prepend_cls_token(self.patch_embed(x), self.cls_token)
        x = x + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


class LinearPatches(nn.Module):
    def __init__(self, img_size, patch_size, in_chans, embed_dim):
        super().__init__()
        self.img_size, self.patch_size, self.in_chans = as_pair(img_size), patch_size, in_chans
        self.grid_size = rows, columns = grid_size(img_size, patch_size)
        self.num_patches = rows * columns
        self.proj = nn.Linear(patch_size**2 * in_chans, embed_dim)

    def forward(self, images):
        check_images(images, self.in_chans, self.img_size)
        return self.proj(patchify(images, self.patch_size))


def epoch_detached(model, images, labels, optimizer, batch_size=64):
    model.train()
    for rows in torch.randperm(len(images)).split(batch_size):
        loss = F.cross_entropy(model(images[rows]).detach(), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def epoch_returns_nothing(*given):
    train_one_epoch(*given)


def epoch_shuffles_in_place(model, images, labels, *rest):
    rows = torch.randperm(len(images))
    images[:], labels[:] = images[rows], labels[rows]
    return epoch_split(model, images, labels, *rest)


def epoch_of_loader(model, images, labels, optimizer, batch_size=64):
    model.train()
    total, count = 0.0, 0
    for x, y in DataLoader(TensorDataset(images, labels), batch_size=batch_size, shuffle=True):
        optimizer.zero_grad()
        loss = nn.CrossEntropyLoss()(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.detach() * x.shape[0]
        count += x.shape[0]
    return (total / count).item()


def epoch_split(model, images, labels, optimizer, batch_size=64):
    model.train()
    rows = torch.randperm(images.shape[0])
    losses = []
    for x, y in zip(images[rows].split(batch_size), labels[rows].split(batch_size), strict=True):
        optimizer.zero_grad()
        each = F.cross_entropy(model(x), y, reduction="none")
        each.mean().backward()
        optimizer.step()
        losses.append(each.detach())
    return torch.cat(losses).mean().item()


def epoch_flattens(model, *given):
    return train_one_epoch(nn.Sequential(nn.Flatten(), model), *given)


def best_image_of_a_class(scores, labels):
    return scores.argmax(dim=0) == labels


@torch.no_grad()
def accuracy_of_loader(model, images, labels, batch_size=500):
    model.eval()
    hits = []
    for x, y in DataLoader(TensorDataset(images, labels), batch_size=batch_size):
        hits.append(model(x).softmax(-1).max(dim=-1).indices.eq(y))
    return torch.cat(hits).float().mean().item()


@torch.inference_mode()
def accuracy_of_slices(model, images, labels, batch_size=500):
    model.train(False)
    correct = torch.tensor(0)
    for i in range(0, images.shape[0], batch_size):
        predicted = model(images[i : i + batch_size]).argmax(-1)
        correct = correct + (predicted == labels[i : i + batch_size]).sum()
    return correct.item() / labels.numel()


def accuracy_from_the_end(model, images, labels, batch_size=500):
    parts = reversed(list(zip(images.split(batch_size), labels.split(batch_size), strict=True)))
    model.eval()
    with torch.no_grad():
        return sum(int((model(x).argmax(1) == y).sum()) for x, y in parts) / len(images)


WRONG = {
    "MiniViT": [
        ("your module has no weights named patch_embed.proj.weight", ViTWithOtherNames),
        ("no weights named head.weight", ViTWithAnotherHead),
        (
            "pos_embed should be (1, 5, 4), yours is (5, 4)",
            edited(MiniViT, "torch.randn(1, self.patch => torch.randn(self.patch"),
        ),
        ("no gradient reaches", edited(MiniViT, "self.blocks(z) => self.blocks(z.detach())")),
        (
            "right in evaluation, but in training",
            edited(MiniViT, "self.head(y) => self.head(F.dropout(y, 0.1, self.training))"),
        ),
    ],
    "train_one_epoch": [
        (
            "the gradient is not that of the mean cross-entropy",
            edited(train_one_epoch, ", labels[rows]) => , labels[rows], label_smoothing=0.1)"),
        ),
        ("something cuts the gradient off", epoch_detached),
        ("as they are, (B, C, H, W)", epoch_flattens),
        ("your function returned nothing", epoch_returns_nothing),
        ("changes its input in place", epoch_shuffles_in_place),
        (
            "other images than those given",
            lambda m, x, *rest: epoch_split(m, (x - x.mean()) / x.std(), *rest),
        ),
    ],
    "accuracy": [
        (
            "on model = one whose scores are the pixels, images of shape (7, 1, 2, 2)",
            lambda *given: round(accuracy_of_loader(*given), 1),
        ),
        ("your code stopped with RuntimeError", scored_by(best_image_of_a_class)),
        (
            "a model takes images",
            lambda m, *rest: accuracy_of_loader(nn.Sequential(nn.Flatten(), m), *rest),
        ),
    ],
}
RIGHT = {
    "MiniViT": [ViTOfBlocks, ViTOfLists],
    "train_one_epoch": [epoch_of_loader, epoch_split],
    "accuracy": [accuracy_of_loader, accuracy_of_slices, accuracy_from_the_end],
}
