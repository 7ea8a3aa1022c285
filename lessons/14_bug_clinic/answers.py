"""Answers to the exercises of lesson 14, written as students write them; the planted bugs are known to the checks."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from vit_classroom.checks.edits import edited
from vit_classroom.checks.scorers import counted, right_share
from vit_classroom.exhibits.clinic.healthy import (
    attend,
    blend,
    classify,
    decay_groups,
    draw_weights,
    embed_patches,
    schedule,
)
from vit_course.optim import learning_rate, weight_decay_groups
from vit_course.patches import patchify


def draw_returns_nothing(model):
    draw_weights(model)


def draw_truncated(model):
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif parameter.ndim == 2:
            nn.init.trunc_normal_(parameter, std=0.02)
    model.project.weight.data.normal_(std=model.project.in_features**-0.5)
    model.cls_token.data.zero_()
    model.pos_embed.data.normal_(std=0.02)
    model.head.weight.data.zero_()
    return model


def draw_by_name(model):
    with torch.no_grad():
        for name, layer in model.named_modules():
            if isinstance(layer, nn.Linear):
                deviation = {"project": layer.in_features**-0.5, "head": 0.0}.get(name, 0.02)
                layer.weight.copy_(deviation * torch.randn_like(layer.weight))
                layer.bias.zero_()
        model.cls_token.zero_()
        model.pos_embed.copy_(torch.randn_like(model.pos_embed) * 0.02)
    return model


def embed_in_one_line(images, model):
    tokens = model.project(patchify(images, model.patch_size))
    return torch.cat([model.cls_token.repeat(len(images), 1, 1), tokens], dim=1) + model.pos_embed


def embed_by_convolution(images, model):
    p, c = model.patch_size, images.shape[1]
    kernel = model.project.weight.reshape(-1, p, p, c).permute(0, 3, 1, 2)
    tokens = F.conv2d(images, kernel, model.project.bias, stride=p).flatten(2).transpose(1, 2)
    return torch.cat([model.cls_token.expand(len(images), -1, -1), tokens], dim=1) + model.pos_embed


def attend_with(factor):
    """An attention written with view and transpose, with this factor for the scores."""

    def answer(tokens, block):
        (b, t, dim), h = tokens.shape, block.num_heads
        q, k, v = (x.view(b, t, h, dim // h).transpose(1, 2) for x in block.qkv(tokens).chunk(3, dim=-1))
        weights = F.softmax(factor(dim // h) * q @ k.mT, dim=3)
        return block.proj((weights @ v).transpose(1, 2).reshape(b, t, dim)), weights

    return answer


def attend_fused(tokens, block):
    parts = block.qkv(tokens).chunk(3, dim=-1)
    q, k, v = (part.unflatten(-1, (block.num_heads, -1)).transpose(1, 2) for part in parts)
    heads = F.scaled_dot_product_attention(q, k, v)
    weights = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1)
    return block.proj(heads.transpose(1, 2).flatten(2)), weights


def attend_with_residual(tokens, block):
    out, weights = attend(tokens, block)
    return tokens + out, weights


def block_takes_both(tokens, block, attend):
    return tokens + attend(block.norm1(tokens), block)


def block_in_steps(tokens, block, attend):
    stream = torch.add(tokens, attend(block.norm1(tokens), block)[0])
    return block.mlp(block.norm2(stream)).add(stream)


def block_by_hand(tokens, block, attend):
    stream = tokens.clone()
    for branch in (lambda x: attend(block.norm1(x), block)[0], lambda x: block.mlp(block.norm2(x))):
        stream = stream + branch(stream)
    return stream


def rate_from_the_end(step, total, warmup, peak):
    if step < warmup:
        return peak / warmup * (step + 1)
    return peak * (1 - math.cos(math.pi * (total - 1 - step) / max(1, total - warmup))) / 2


def blend_by_loops(images, targets, share):
    order = torch.randperm(len(images)).tolist()
    mixed = [share * images[i] + (1 - share) * images[j] for i, j in enumerate(order)]
    soft = [share * targets[i] + (1 - share) * targets[j] for i, j in enumerate(order)]
    return torch.stack(mixed), torch.stack(soft)


def blend_lerp(images, targets, share):
    rows = torch.rand(len(images)).argsort()
    return torch.lerp(images[rows], images, share), torch.lerp(targets[rows], targets, share)


def score_one_tensor(model, images, labels, batch_size=500):
    model.eval()
    parts = zip(images.split(batch_size), labels.split(batch_size), strict=True)
    with torch.no_grad():
        hits = [model(x).argmax(1) == y for x, y in parts]
    return torch.cat(hits).double().mean().item()


@torch.inference_mode()
def score_by_slices(model, images, labels, batch_size=500):
    model.train(False)
    right = 0
    for start in range(0, len(images), batch_size):
        guess = model(images[start : start + batch_size]).argmax(dim=-1)
        right += int((guess == labels[start : start + batch_size]).sum())
    return right / len(labels)


def classify_first_image(tokens, model):
    return model.head(model.norm(tokens[0]))


def decay_of_linear_layers(model: nn.Module, weight_decay: float) -> list[dict]:
    matrices = {id(layer.weight) for layer in model.modules() if isinstance(layer, nn.Linear)}
    groups = {True: [], False: []}
    for parameter in model.parameters():
        groups[id(parameter) in matrices].append(parameter)
    return [{"params": groups[key], "weight_decay": weight_decay * key} for key in (True, False)]


@torch.no_grad()
def score_each_image(model, images, labels, batch_size=500):
    return torch.cat([model.eval()(x).argmax(1) for x in images.split(batch_size)]) == labels


def score_dropout_rate_zero(model, images, labels, batch_size=500):
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return counted(right_share, mode=True)(model, images, labels, batch_size)


DISSECTED = ("reads all tokens of the first image", classify_first_image)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "draw_weights": [("your function returned nothing", draw_returns_nothing)],
    "embed_patches": [
        (
            "your new tensor lies on the CPU",
            lambda images, model: torch.ones(1) * embed_in_one_line(images, model),
        ),
        (
            "token 0 of two different images",
            edited(
                embed_patches,
                "torch.cat([cls_token, tokens], dim=1) => tokens ;; + model.pos_embed => + model.pos_embed[:, 1:]",
            ),
        ),
        (
            "weights without gradient: pos_embed. Healthy: none",
            edited(embed_patches, "+ model.pos_embed => + model.pos_embed.detach()"),
        ),
    ],
    "attend": [
        (
            "two calls on the same tokens or images",
            edited(attend, "block.proj(heads), => torch.dropout(block.proj(heads), 0.1, True),"),
        ),
        ("spread of the scores: 1.73", attend_with(lambda d: (3 / d) ** 0.5)),
        ("spread of the scores: 2.83", attend_with(lambda d: 1.0)),
        (
            "value 2 of 2: you average over the heads; that axis should stay",
            edited(attend, ", weights => , weights.mean(dim=1)"),
        ),
        ("value 1 of 2: your result is the wanted one plus `tokens`", attend_with_residual),
    ],
    "encode_block": [
        ("your code stopped with", block_takes_both),
        ("you returned", lambda x, b, attend: x + b.mlp(b.norm2(x + attend(b.norm1(x), b)[0]))),
    ],
    "classify": [
        (
            "without gradient: cls_token, pos_embed, project.weight",
            edited(classify, "tokens[:, 0] => tokens[:, 0].detach()"),
        ),
        ("you returned", lambda x, m: m.head(F.batch_norm(m.norm(x[:, 0]), None, None, training=True))),
    ],
    "schedule": [
        ("1.00 and 1.00 of the peak", lambda s, n, w, peak: peak if s < w else learning_rate(s, n, w, peak)),
        (
            "Not a bug that was planted: the first step after the warm-up has the",
            edited(
                schedule,
                "(step + 1 - warmup_steps) / (total_steps - warmup_steps) => "
                "(step - warmup_steps) / max(1, total_steps - warmup_steps - 1)",
            ),
        ),
        (
            "Not a bug that was planted: step number warmup_steps is above the",
            edited(
                schedule, "if step < warmup_steps: => if step < warmup_steps or step == warmup_steps > 0:"
            ),
        ),
    ],
    "blend": [
        ("blended images that do not show", lambda x, *rest: blend(x + 0.1 * torch.randn_like(x), *rest)),
        ("should be tensors of the shapes", lambda *given: [part.numpy() for part in blend(*given)]),
    ],
    "score": [
        ("should be averaged away", score_each_image),
        ("your model is measured in training mode, where dropout is active", score_dropout_rate_zero),
    ],
    "decay_groups": [
        (
            "in two layers and a norm, 1.weight gets the decay 0.05, not 0",
            edited(decay_groups, 'parameter.ndim == 2 and => "norm" not in name and'),
        )
    ],
}
RIGHT = {
    "draw_weights": [draw_truncated, draw_by_name],
    "embed_patches": [embed_in_one_line, embed_by_convolution],
    "attend": [attend_with(lambda d: d**-0.5), attend_fused],
    "encode_block": [block_in_steps, block_by_hand],
    "classify": [
        lambda x, model: model.head(model.norm(x)[:, 0]),
        lambda x, model: model.norm(x).select(1, 0) @ model.head.weight.T + model.head.bias,
    ],
    "decay_groups": [weight_decay_groups, decay_of_linear_layers],
    "schedule": [rate_from_the_end, learning_rate],
    "blend": [blend_by_loops, blend_lerp],
    "score": [score_one_tensor, score_by_slices],
}
