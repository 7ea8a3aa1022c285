# ruff: noqa: D103, E302, E402, F811, I001
# %%
"""The exercises of lessons 01 to 06 as a student has solved them, cell by cell: without einops, in small steps."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from vit_classroom.checks import check

# %% count_patches
from vit_course.patches import grid_size


def count_patches(img_size, patch_size):
    down, across = grid_size(img_size, patch_size)
    return down * across


count_patches = check(count_patches)

# %% patchify
from vit_course.patches import as_pair, check_images, grid_size


def patchify(images, patch_size):
    check_images(images)
    height, width = as_pair(patch_size)
    rows, columns = grid_size(tuple(images.shape[-2:]), patch_size)
    found = []
    for row in range(rows):
        for column in range(columns):
            piece = images[:, :, row * height : (row + 1) * height, column * width : (column + 1) * width]
            found.append(piece.permute(0, 2, 3, 1).reshape(len(images), -1))
    return torch.stack(found, dim=1)


patchify = check(patchify)

# %% unpatchify
from vit_course.patches import as_pair


def unpatchify(patches, patch_size, grid_size):
    height, width = as_pair(patch_size)
    rows, columns = grid_size
    if patches.dim() != 3 or patches.shape[1] != rows * columns or patches.shape[2] % (height * width):
        raise ValueError(f"{tuple(patches.shape)} does not fit a grid of {rows}x{columns}")
    pieces = patches.view(len(patches), rows, columns, height, width, -1)
    return pieces.permute(0, 5, 1, 3, 2, 4).reshape(len(patches), -1, rows * height, columns * width)


unpatchify = check(unpatchify)

# %% PatchEmbed
from vit_course.patches import as_pair, check_images, grid_size


class PatchEmbed(nn.Module):
    def __init__(self, img_size=32, patch_size=4, in_chans=3, embed_dim=192):
        super().__init__()
        self.img_size = as_pair(img_size)
        self.patch_size = as_pair(patch_size)
        self.grid_size = grid_size(img_size, patch_size)
        self.num_patches = count_patches(img_size, patch_size)
        self.proj = nn.Conv2d(in_chans, embed_dim, self.patch_size, self.patch_size)

    def forward(self, images):
        check_images(images, self.proj.in_channels, self.img_size)
        return self.proj(images).flatten(2).transpose(1, 2)


PatchEmbed = check(PatchEmbed)


# %% prepend_cls_token
def prepend_cls_token(tokens, cls_token):
    if tokens.shape[-1] != cls_token.shape[-1]:
        raise ValueError("the widths differ")
    first = cls_token.repeat(tokens.shape[0], 1, 1)
    return torch.cat((first, tokens), 1)


prepend_cls_token = check(prepend_cls_token)


# %% ClsToken
class ClsToken(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros((1, 1, dim)))

    def forward(self, tokens):
        return prepend_cls_token(tokens, cls_token=self.cls_token)


ClsToken = check(ClsToken)


# %% pool
def pool(tokens, mode="token", num_prefix_tokens=1):
    if mode == "token" and num_prefix_tokens > 0:
        return tokens[:, 0]
    if mode == "avg":
        patches = tokens[:, num_prefix_tokens:]
        return patches.sum(1) / patches.shape[1]
    raise ValueError(f"cannot pool with {mode!r}")


pool = check(pool)


# %% equivariance_gap
def equivariance_gap(encoder, tokens, permutation):
    one = encoder(tokens[:, permutation, :])
    other = encoder(tokens)[:, permutation, :]
    return float(torch.max(torch.abs(one - other)))


equivariance_gap = check(equivariance_gap)


# %% learned_positions
def learned_positions(num_tokens, dim, std=0.02):
    table = torch.empty(1, num_tokens, dim)
    nn.init.normal_(table, std=std)
    return nn.Parameter(table)


learned_positions = check(learned_positions)


# %% EncoderInput
class EncoderInput(nn.Module):
    def __init__(self, num_patches, dim):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros((1, 1, dim)))
        self.pos_embed = learned_positions(1 + num_patches, dim)

    def forward(self, tokens):
        if tokens.shape[1] != self.pos_embed.shape[1] - 1:
            raise ValueError("another number of patches")
        return torch.add(prepend_cls_token(tokens, self.cls_token), self.pos_embed)


EncoderInput = check(EncoderInput)


# %% resample_pos_embed
def resample_pos_embed(pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True):
    if pos_embed.shape[1] != num_prefix_tokens + old_grid[0] * old_grid[1]:
        raise ValueError("these positions are of another grid")
    if tuple(old_grid) == tuple(new_grid):
        return pos_embed
    prefix, rest = pos_embed.split([num_prefix_tokens, old_grid[0] * old_grid[1]], dim=1)
    picture = rest.transpose(1, 2).reshape(1, -1, old_grid[0], old_grid[1])
    picture = F.interpolate(picture, size=tuple(new_grid), mode=mode, antialias=antialias)
    return torch.cat((prefix, picture.flatten(2).transpose(1, 2)), 1)


resample_pos_embed = check(resample_pos_embed)


# %% scaled_dot_product_attention
def scaled_dot_product_attention(q, k, v):
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1))
    weights = F.softmax(scores, dim=-1)
    return torch.matmul(weights, v), weights


scaled_dot_product_attention = check(scaled_dot_product_attention)

# %% split_heads, merge_heads
from vit_course.attention import check_heads


def split_heads(x, num_heads):
    check_heads(x.shape[-1], num_heads)
    return x.reshape(x.shape[0], x.shape[1], num_heads, -1).transpose(1, 2)


def merge_heads(x):
    return torch.cat([x[:, head] for head in range(x.shape[1])], dim=-1)


split_heads = check(split_heads)
merge_heads = check(merge_heads)


# %% attend_in_heads
def attend_in_heads(q, k, v, num_heads):
    output, weights = scaled_dot_product_attention(*[split_heads(part, num_heads) for part in (q, k, v)])
    return merge_heads(output), weights


attend_in_heads = check(attend_in_heads)

# %% MultiHeadAttention
from vit_course.attention import check_heads


class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads, qkv_bias=True, attn_drop=0.0, proj_drop=0.0):
        super().__init__()
        check_heads(dim, num_heads)
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.attn_drop = attn_drop
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x, return_attention=False):
        parts = torch.tensor_split(self.qkv(x), 3, dim=2)
        q, k, v = [split_heads(part, self.num_heads) for part in parts]
        heads, weights = scaled_dot_product_attention(q, k, v)
        if self.training and self.attn_drop > 0:
            heads = F.dropout(weights, self.attn_drop) @ v
        result = self.proj_drop(self.proj(merge_heads(heads)))
        if return_attention:
            return result, weights
        return result


MultiHeadAttention = check(MultiHeadAttention)


# %% layer_norm
def layer_norm(x, weight, bias, eps=1e-6):
    centred = x - x.mean(-1, keepdim=True)
    return weight * centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + eps) + bias


layer_norm = check(layer_norm)


# %% Mlp
class Mlp(nn.Module):
    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        x = self.drop(F.gelu(self.fc1(x)))
        return self.drop(self.fc2(x))


Mlp = check(Mlp)

# %% Block
from vit_course.attention import MultiHeadAttention
from vit_course.encoder import drop_path


class Block(nn.Module):
    def __init__(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, attn_drop=0.0, drop_path=0.0):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.attn = MultiHeadAttention(dim, num_heads, attn_drop=attn_drop, proj_drop=drop)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), drop)
        self.drop_path_rate = drop_path

    def forward(self, x, return_attention=False):
        weights = None
        branch = self.attn(self.norm1(x), return_attention)
        if return_attention:
            branch, weights = branch
        middle = x + drop_path(branch, self.drop_path_rate, self.training)
        out = middle + drop_path(self.mlp(self.norm2(middle)), self.drop_path_rate, self.training)
        if return_attention:
            return out, weights
        return out


Block = check(Block)


# %% drop_path
def drop_path(x, rate, training):
    if rate == 0.0 or not training:
        return x
    coin = torch.full((len(x),), 1 - rate, device=x.device, dtype=x.dtype).bernoulli()
    return x * coin.view(-1, *[1] * (x.dim() - 1)) / (1 - rate)


drop_path = check(drop_path)

# %% MiniViT
from vit_course.embeddings import pool, prepend_cls_token
from vit_course.encoder import Encoder
from vit_course.patches import PatchEmbed


class MiniViT(nn.Module):
    def __init__(
        self, img_size=32, patch_size=4, in_chans=3, num_classes=10, embed_dim=96, depth=3, num_heads=3
    ):
        super().__init__()
        self.patch_embed = PatchEmbed(img_size, patch_size, in_chans, embed_dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.pos_embed = nn.Parameter(torch.empty(1, self.patch_embed.num_patches + 1, embed_dim))
        nn.init.normal_(self.pos_embed, std=0.02)
        self.blocks = Encoder(depth, embed_dim, num_heads)
        self.norm = nn.LayerNorm(embed_dim, eps=1e-6)
        self.head = nn.Linear(embed_dim, num_classes)
        for parameter in self.head.parameters():
            nn.init.zeros_(parameter)

    def forward(self, images):
        tokens = self.patch_embed(images)
        tokens = prepend_cls_token(tokens, self.cls_token)
        tokens = self.blocks(tokens + self.pos_embed)
        return self.head(pool(self.norm(tokens), "token"))


MiniViT = check(MiniViT)


# %% train_one_epoch
def train_one_epoch(model, images, labels, optimizer, batch_size=64):
    model.train()
    order, losses = torch.randperm(len(images)), []
    for start in range(0, len(images), batch_size):
        chosen = order[start : start + batch_size]
        optimizer.zero_grad()
        loss = nn.CrossEntropyLoss()(model(images[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        losses += [loss.item()] * len(chosen)
    return sum(losses) / len(losses)


train_one_epoch = check(train_one_epoch)


# %% accuracy
@torch.no_grad()
def accuracy(model, images, labels, batch_size=500):
    model.eval()
    right = 0
    for start in range(0, len(images), batch_size):
        predicted = model(images[start : start + batch_size]).max(dim=1).indices
        right += int((predicted == labels[start : start + batch_size]).sum())
    return right / len(labels)


accuracy = check(accuracy)
