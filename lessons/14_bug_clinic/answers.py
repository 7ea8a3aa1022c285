"""Answers to the exercises of lesson 14, written as students write them; the planted bugs are known to the checks."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vit_course.exhibits.clinic import healthy
from vit_course.optim import learning_rate, weight_decay_groups
from vit_course.patches import patchify


def draw_returns_nothing(model):
    healthy.draw_weights(model)


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


def embed_tokens(images, model):
    tokens = model.project(patchify(images, model.patch_size))
    return torch.cat([model.cls_token.repeat(len(images), 1, 1), tokens], dim=1)


def embed_in_one_line(images, model):
    return embed_tokens(images, model) + model.pos_embed


def embed_no_cls(images, model):
    return model.project(patchify(images, model.patch_size)) + model.pos_embed[:, 1:]


def embed_detached_positions(images, model):
    return embed_tokens(images, model) + model.pos_embed.detach()


def embed_by_convolution(images, model):
    p, c = model.patch_size, images.shape[1]
    kernel = model.project.weight.reshape(-1, p, p, c).permute(0, 3, 1, 2)
    tokens = F.conv2d(images, kernel, model.project.bias, stride=p).flatten(2).transpose(1, 2)
    return torch.cat([model.cls_token.expand(len(images), -1, -1), tokens], dim=1) + model.pos_embed


def attend_with(factor):
    """An attention written with view and transpose, with this factor for the scores."""

    def answer(tokens, block):
        b, t, dim = tokens.shape
        h = block.num_heads
        parts = (part.view(b, t, h, dim // h).transpose(1, 2) for part in block.qkv(tokens).chunk(3, dim=-1))
        q, k, v = parts
        weights = F.softmax(factor(dim // h) * q @ k.mT, dim=3)
        return block.proj((weights @ v).transpose(1, 2).reshape(b, t, dim)), weights

    return answer


def attend_fused(tokens, block):
    q, k, v = (
        part.unflatten(-1, (block.num_heads, -1)).transpose(1, 2)
        for part in block.qkv(tokens).chunk(3, dim=-1)
    )
    heads = F.scaled_dot_product_attention(q, k, v)
    weights = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1)
    return block.proj(heads.transpose(1, 2).flatten(2)), weights


def attend_with_dropout(tokens, block):
    out, weights = attend_fused(tokens, block)
    return F.dropout(out, 0.1), weights


def block_takes_both(tokens, block, attend):
    return tokens + attend(block.norm1(tokens), block)


def block_in_steps(tokens, block, attend):
    attended = attend(block.norm1(tokens), block)[0]
    stream = torch.add(tokens, attended)
    return block.mlp(block.norm2(stream)).add(stream)


def block_by_hand(tokens, block, attend):
    stream = tokens.clone()
    for branch in (lambda x: attend(block.norm1(x), block)[0], lambda x: block.mlp(block.norm2(x))):
        stream = stream + branch(stream)
    return stream


def classify_detached(tokens, model):
    return model.head(model.norm(tokens[:, 0].detach()))


def classify_norm_first(tokens, model):
    return model.head(model.norm(tokens)[:, 0])


def classify_by_hand(tokens, model):
    return model.norm(tokens).select(1, 0) @ model.head.weight.T + model.head.bias


def rate_at_the_peak(step, total, warmup, peak):
    return peak if step < warmup else learning_rate(step, total, warmup, peak)


def rate_from_the_end(step, total, warmup, peak):
    if step < warmup:
        return peak / warmup * (step + 1)
    return peak * (1 - math.cos(math.pi * (total - 1 - step) / max(1, total - warmup))) / 2


def blend_by_loops(images, targets, share):
    order = torch.randperm(len(images)).tolist()
    mixed = [share * images[i] + (1 - share) * images[j] for i, j in enumerate(order)]
    soft = [share * targets[i] + (1 - share) * targets[j] for i, j in enumerate(order)]
    return torch.stack(mixed), torch.stack(soft)


def blend_noise(images, targets, share):
    mixed, soft = blend_by_loops(images, targets, share)
    return mixed + 0.1 * torch.randn_like(mixed), soft


def blend_numpy(images, targets, share):
    mixed, soft = blend_by_loops(images, targets, share)
    return mixed.numpy(), soft.numpy()


def blend_lerp(images, targets, share):
    rows = torch.rand(len(images)).argsort()
    return torch.lerp(images[rows], images, share), torch.lerp(targets[rows], targets, share)


def score_one_tensor(model, images, labels, batch_size=500):
    model.eval()
    with torch.no_grad():
        hits = [
            model(x).argmax(1) == y
            for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True)
        ]
    return torch.cat(hits).double().mean().item()


def score_each_picture(model, images, labels, batch_size=500):
    model.eval()
    with torch.no_grad():
        return torch.cat([model(x).argmax(1) for x in images.split(batch_size)]) == labels


@torch.inference_mode()
def score_by_slices(model, images, labels, batch_size=500):
    model.train(False)
    right = 0
    for start in range(0, len(images), batch_size):
        guess = model(images[start : start + batch_size]).argmax(dim=-1)
        right += int((guess == labels[start : start + batch_size]).sum())
    return right / len(labels)


def classify_first_picture(tokens, model):
    return model.head(model.norm(tokens[0]))


def classify_norm_over_batch(tokens, model):
    y = model.norm(tokens[:, 0])
    y = (y - y.mean(dim=0)) / (y.std(dim=0, correction=0) + 1e-6)
    return model.head(y)


def _queries_keys_values(tokens, block):
    return rearrange(block.qkv(tokens), "b t (three h d) -> three b h t d", three=3, h=block.num_heads)


def attend_mean_weights(tokens, block):
    q, k, v = _queries_keys_values(tokens, block)
    weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(dim=-1)
    return block.proj(rearrange(weights @ v, "b h t d -> b t (h d)")), weights.mean(dim=1)


def block_old_stream(tokens, block, attend):
    attended, _ = attend(block.norm1(tokens), block)
    return tokens + block.mlp(block.norm2(tokens + attended))


def decay_of_linear_layers(model: nn.Module, weight_decay: float) -> list[dict]:
    matrices = {id(layer.weight) for layer in model.modules() if isinstance(layer, nn.Linear)}
    groups = {True: [], False: []}
    for parameter in model.parameters():
        groups[id(parameter) in matrices].append(parameter)
    return [{"params": groups[key], "weight_decay": weight_decay * key} for key in (True, False)]


def heads_of(tokens, block, pattern="b t (three h d) -> three b h t d"):
    return rearrange(block.qkv(tokens), pattern, three=3, h=block.num_heads)


def weights_of(q, k):
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1)


def merged(heads):
    return rearrange(heads, "b h t d -> b t (h d)")


def attend_with_residual(tokens, block):
    q, k, v = heads_of(tokens, block)
    weights = weights_of(q, k)
    return tokens + block.proj(merged(weights @ v)), weights


def half_cosine(share, peak):
    return peak * (1 + math.cos(math.pi * share)) / 2


def schedule_linspace(step, total_steps, warmup_steps, peak):
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    return half_cosine((step - warmup_steps) / max(1, total_steps - warmup_steps - 1), peak)


def schedule_one_step_more(step, total_steps, warmup_steps, peak):
    if step <= warmup_steps and warmup_steps:
        return peak * (step + 1) / warmup_steps
    return half_cosine((step + 1 - warmup_steps) / (total_steps - warmup_steps), peak)


def two_groups(model, weight_decay, decays):
    decayed = [p for name, p in model.named_parameters() if decays(name, p)]
    kept = [p for name, p in model.named_parameters() if not decays(name, p)]
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": kept, "weight_decay": 0.0}]


def decay_groups_by_name(model, weight_decay):
    def decays(name, parameter):
        return name.endswith("weight") and "norm" not in name

    return two_groups(model, weight_decay, decays)


def right_in(model, x, y):
    return (model(x).argmax(dim=1) == y).sum().item()


@torch.no_grad()
def score_dropout_rate_zero(model, images, labels, batch_size=500):
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    parts = zip(images.split(batch_size), labels.split(batch_size), strict=True)
    return sum(right_in(model, x, y) for x, y in parts) / len(images)


DISSECTED = ("reads all tokens of the first picture", classify_first_picture)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "draw_weights": [("your function returned nothing", draw_returns_nothing)],
    "embed_patches": [
        ("token 0 of two different pictures", embed_no_cls),
        ("weights without gradient: pos_embed. Healthy: none", embed_detached_positions),
    ],
    "attend": [
        ("two calls on the same tokens or pictures", attend_with_dropout),
        ("spread of the scores: 1.73", attend_with(lambda d: (3 / d) ** 0.5)),
        ("spread of the scores: 2.83", attend_with(lambda d: 1.0)),
        ("value 2 of 2: you average over the heads; that axis should stay", attend_mean_weights),
        ("value 1 of 2: your result is the wanted one plus `tokens`", attend_with_residual),
    ],
    "encode_block": [("your code stopped with", block_takes_both), ("you returned", block_old_stream)],
    "classify": [
        ("without gradient: cls_token, pos_embed, project.weight", classify_detached),
        ("you returned", classify_norm_over_batch),
    ],
    "schedule": [
        ("1.00 and 1.00 of the peak", rate_at_the_peak),
        ("Not a bug that was planted: the first step after the warm-up has the", schedule_linspace),
        ("Not a bug that was planted: step number warmup_steps is above the", schedule_one_step_more),
    ],
    "blend": [
        ("blended pictures that do not show", blend_noise),
        ("should be tensors of the shapes", blend_numpy),
    ],
    "score": [
        ("should be averaged away", score_each_picture),
        ("your model is measured in training mode, where dropout is at work", score_dropout_rate_zero),
    ],
    "decay_groups": [
        ("1.weight of two layers and a norm gets the decay 0.05, it should get 0", decay_groups_by_name)
    ],
}
RIGHT = {
    "draw_weights": [draw_truncated, draw_by_name],
    "embed_patches": [embed_in_one_line, embed_by_convolution],
    "attend": [attend_with(lambda d: d**-0.5), attend_fused],
    "encode_block": [block_in_steps, block_by_hand],
    "classify": [classify_norm_first, classify_by_hand],
    "decay_groups": [weight_decay_groups, decay_of_linear_layers],
    "schedule": [rate_from_the_end, learning_rate],
    "blend": [blend_by_loops, blend_lerp],
    "score": [score_one_tensor, score_by_slices],
}
