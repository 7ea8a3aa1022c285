"""Answers to the exercises of lesson 14: every bug alone, all bugs of a function, and what students write instead."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from vit_course.classroom.clinic import bugs, healthy
from vit_course.optim import learning_rate, weight_decay_groups
from vit_course.patches import patchify

SYMPTOMS = {
    "loss_at_step_0": "loss at step 0",
    "size_of_positions": "deviation of the positions",
    "weights_that_learn": "weights without gradient",
    "range_of_logits": "scores of an awake head",
    "reach_of_one_patch": "tokens that change with one patch",
    "first_token": "token 0 of two different pictures",
    "rows_of_attention": "rows of attention sum to",
    "spread_of_scores": "spread of the scores",
    "shuffled_tokens": "shuffle the tokens",
    "alone_and_in_company": "a picture alone or in a batch",
    "residual_stream": "of 5.00 put on the stream arrive",
    "first_learning_rate": "learning rate at step 0",
    "what_decays": "decays without being a matrix",
    "blended_targets": "blended pictures that do not show",
    "scored_twice": "the same model scored twice",
}


def bugs_of(name):
    """Rows for each bug alone, and for all bugs of a function together."""
    rows = [
        (f"one symptom is left:\n- {SYMPTOMS[bug.measurement]}", bugs.planted(name, [bug]))
        for bug in bugs.BUGS
        if bug.function == name
    ]
    return rows + ([(f"{len(rows)} symptoms are left", getattr(bugs, name))] if len(rows) > 1 else [])


def draw_with(change):
    """Draw as the finished version does, then change something."""

    def answer(model):
        healthy.draw_weights(model)
        with torch.no_grad():
            change(model)
        return model

    return answer


def draw_returns_nothing(model):
    healthy.draw_weights(model)


def draw_copies(model):
    import copy

    healthy.draw_weights(model)
    return copy.deepcopy(model)


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


def embed_with(images, model, order="b n", cls=None, add=True):
    tokens = model.project(patchify(images, model.patch_size))
    cls = model.cls_token if cls is None else cls
    tokens = torch.cat([cls.repeat(len(images), 1, 1), tokens], dim=1)
    return tokens + model.pos_embed if add else tokens


def embed_no_positions(images, model):
    return embed_with(images, model, add=False)


def embed_positions_before_cls(images, model):
    tokens = model.project(patchify(images, model.patch_size)) + model.pos_embed[:, 1:]
    return torch.cat([model.cls_token.expand(len(images), -1, -1), tokens], dim=1)


def embed_channels_first(images, model):
    p = model.patch_size
    patches = F.unfold(images, kernel_size=p, stride=p).transpose(1, 2)
    tokens = model.project(patches)
    tokens = torch.cat([model.cls_token.expand(len(images), -1, -1), tokens], dim=1)
    return tokens + model.pos_embed


def embed_columns(images, model):
    p = model.patch_size
    b, c, h, w = images.shape
    patches = images.reshape(b, c, h // p, p, w // p, p).permute(0, 4, 2, 3, 5, 1).reshape(b, -1, p * p * c)
    tokens = torch.cat([model.cls_token.expand(b, -1, -1), model.project(patches)], dim=1)
    return tokens + model.pos_embed


def embed_one_position(images, model):
    return embed_with(images, model, add=False) + model.pos_embed[:, :1]


def embed_no_cls(images, model):
    return model.project(patchify(images, model.patch_size)) + model.pos_embed[:, 1:]


def embed_detached_positions(images, model):
    return embed_with(images, model, add=False) + model.pos_embed.detach()


def embed_by_convolution(images, model):
    p, c = model.patch_size, images.shape[1]
    kernel = model.project.weight.reshape(-1, p, p, c).permute(0, 3, 1, 2)
    tokens = F.conv2d(images, kernel, model.project.bias, stride=p).flatten(2).transpose(1, 2)
    return torch.cat([model.cls_token.expand(len(images), -1, -1), tokens], dim=1) + model.pos_embed


def attend_with(split="h d", scale=None, proj=True, merge="bthd", swap=False, weights_first=False):
    """An attention written with view and transpose, with one or two things changed."""

    def answer(tokens, block):
        b, t, dim = tokens.shape
        h = block.num_heads
        q, k, v = block.qkv(tokens).chunk(3, dim=-1)
        if swap:
            q, k = k, q
        q, k, v = (part.view(b, t, h, dim // h).transpose(1, 2) for part in (q, k, v))
        factor = (dim // h) ** -0.5 if scale is None else scale(dim, h)
        weights = F.softmax(factor * q @ k.mT, dim=3)
        heads = (weights @ v).transpose(1, 2) if merge == "bthd" else (weights @ v).permute(0, 2, 3, 1)
        out = heads.reshape(b, t, dim)
        out = block.proj(out) if proj else out
        return (weights, out) if weights_first else (out, weights)

    return answer


def attend_only_tokens(tokens, block):
    return healthy.attend(tokens, block)[0]


def attend_fused(tokens, block):
    q, k, v = (
        part.unflatten(-1, (block.num_heads, -1)).transpose(1, 2)
        for part in block.qkv(tokens).chunk(3, dim=-1)
    )
    heads = F.scaled_dot_product_attention(q, k, v)
    weights = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1)
    return block.proj(heads.transpose(1, 2).flatten(2)), weights


def block_post_norm(tokens, block, attend):
    tokens = block.norm1(tokens + attend(tokens, block)[0])
    return block.norm2(tokens + block.mlp(tokens))


def block_one_norm(tokens, block, attend):
    tokens = tokens + attend(block.norm1(tokens), block)[0]
    return tokens + block.mlp(block.norm1(tokens))


def block_no_mlp_residual(tokens, block, attend):
    tokens = tokens + attend(block.norm1(tokens), block)[0]
    return block.mlp(block.norm2(tokens))


def block_norm_replaces(tokens, block, attend):
    tokens = tokens + attend(block.norm1(tokens), block)[0]
    tokens = block.norm2(tokens)
    return tokens + block.mlp(tokens)


def block_no_norm(tokens, block, attend):
    tokens = tokens + attend(tokens, block)[0]
    return tokens + block.mlp(block.norm2(tokens))


def block_ignores_attend(tokens, block, attend):
    tokens = tokens + healthy.attend(block.norm1(tokens), block)[0]
    return tokens + block.mlp(block.norm2(tokens))


def block_takes_both(tokens, block, attend):
    return tokens + attend(block.norm1(tokens), block)


def block_parallel_branches(tokens, block, attend):
    normed = block.norm1(tokens)
    return tokens + attend(normed, block)[0] + block.mlp(block.norm2(tokens))


def block_in_steps(tokens, block, attend):
    attended = attend(block.norm1(tokens), block)[0]
    stream = torch.add(tokens, attended)
    return block.mlp(block.norm2(stream)).add(stream)


def block_by_hand(tokens, block, attend):
    stream = tokens.clone()
    for branch in (lambda x: attend(block.norm1(x), block)[0], lambda x: block.mlp(block.norm2(x))):
        stream = stream + branch(stream)
    return stream


def classify_reading(read, after=lambda logits: logits):
    return lambda tokens, model: after(model.head(model.norm(read(tokens))))


def classify_norm_first(tokens, model):
    return model.head(model.norm(tokens)[:, 0])


def classify_by_hand(tokens, model):
    return model.norm(tokens).select(1, 0) @ model.head.weight.T + model.head.bias


def groups_by(rule):
    def answer(model, weight_decay):
        named = list(model.named_parameters())
        return [
            {"params": [p for n, p in named if rule(n, p)], "weight_decay": weight_decay},
            {"params": [p for n, p in named if not rule(n, p)], "weight_decay": 0.0},
        ]

    return answer


def is_matrix(name, parameter):
    return parameter.ndim == 2


def groups_only_decayed(model, weight_decay):
    return groups_by(is_matrix)(model, weight_decay)[:1]


def groups_of_names(model, weight_decay):
    names = [name for name, _ in model.named_parameters()]
    return [{"params": names, "weight_decay": weight_decay}]


def groups_twice(model, weight_decay):
    first, second = groups_by(is_matrix)(model, weight_decay)
    return [first, {**second, "params": list(model.parameters())}]


def groups_freeze(model, weight_decay):
    groups = groups_by(is_matrix)(model, weight_decay)
    for parameter in groups[1]["params"]:
        parameter.requires_grad_(False)
    return groups


def groups_by_layer(model, weight_decay):
    matrices = [layer.weight for layer in model.modules() if isinstance(layer, nn.Linear)]
    rest = {p: None for p in model.parameters()}
    for matrix in matrices:
        del rest[matrix]
    return [{"params": matrices, "weight_decay": weight_decay}, {"params": list(rest), "weight_decay": 0}]


def half_cosine(progress):
    return (1 + math.cos(math.pi * progress)) / 2


def rate(rise=lambda s, w: (s + 1) / w, fall=lambda s, n, w: half_cosine((s + 1 - w) / (n - w))):
    return lambda s, n, w, peak: peak * (rise(s, w) if s < w else fall(s, n, w))


def rate_no_warmup_guard(step, total, warmup, peak):
    return min(peak * (step + 1) / warmup, learning_rate(step, total, warmup, peak))


def rate_from_the_end(step, total, warmup, peak):
    if step < warmup:
        return peak / warmup * (step + 1)
    return peak * (1 - math.cos(math.pi * (total - 1 - step) / (total - warmup))) / 2


def blend_with(own=lambda share: share, other=lambda share: 1 - share, partner=torch.randperm, targets=None):
    def answer(images, labels, share):
        rows = partner(len(images))
        mixed = own(share) * images + other(share) * images[rows]
        soft = own(share) * labels + other(share) * labels[rows]
        return mixed, targets(labels, soft) if targets else soft

    return answer


def blend_only_pictures(images, targets, share):
    rows = torch.randperm(len(images))
    return share * images + (1 - share) * images[rows], targets


def blend_targets_swapped(images, targets, share):
    rows = torch.randperm(len(images))
    return share * images + (1 - share) * images[rows], (1 - share) * targets + share * targets[rows]


def blend_one_result(images, targets, share):
    rows = torch.randperm(len(images))
    return share * images + (1 - share) * images[rows]


def blend_in_place(images, targets, share):
    rows = torch.randperm(len(images))
    targets.mul_(share).add_((1 - share) * targets[rows])
    return share * images + (1 - share) * images[rows], targets


def blend_mirrored_partner(images, targets, share):
    rows = torch.randperm(len(images))
    mixed = share * images + (1 - share) * images[rows].flip(-1)
    return mixed, share * targets + (1 - share) * targets[rows]


def blend_by_matrix(images, targets, share):
    own = torch.eye(len(images))
    mix = share * own + (1 - share) * own[torch.randperm(len(images))]
    return torch.einsum("ij,jchw->ichw", mix, images), mix @ targets


def blend_lerp(images, targets, share):
    rows = torch.rand(len(images)).argsort()
    return torch.lerp(images[rows], images, share), torch.lerp(targets[rows], targets, share)


def score_batches(model, images, labels, batch_size=500):
    model.eval()
    with torch.no_grad():
        return [
            (model(x).argmax(1) == y)
            for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True)
        ]


def score_mean_of_means(model, images, labels, batch_size=500):
    hits = score_batches(model, images, labels, batch_size)
    return sum(part.float().mean().item() for part in hits) / len(hits)


def score_count(model, images, labels, batch_size=500):
    return sum(part.sum().item() for part in score_batches(model, images, labels, batch_size))


def score_percent(model, images, labels, batch_size=500):
    return 100 * score_count(model, images, labels, batch_size) / len(images)


def score_per_batch(model, images, labels, batch_size=500):
    hits = score_batches(model, images, labels, batch_size)
    return sum(part.sum().item() for part in hits) / len(hits)


def score_one_batch(model, images, labels, batch_size=500):
    model.eval()
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


def score_back_to_training(model, images, labels, batch_size=500):
    value = score_right(model, images, labels, batch_size)
    model.train()
    return value


def score_with_gradients(model, images, labels, batch_size=500):
    model.eval()
    hits = 0
    for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True):
        hits += (model(x).argmax(1) == y).sum().item()
    return hits / len(labels)


def score_errors(model, images, labels, batch_size=500):
    return 1 - score_right(model, images, labels, batch_size)


def score_right(model, images, labels, batch_size=500):
    return torch.cat(score_batches(model, images, labels, batch_size)).double().mean()


def score_fixed_batches(model, images, labels, batch_size=500):
    return score_right(model, images, labels, 1)


def score_other_default(model, images, labels, batch_size=10):
    return score_right(model, images, labels, batch_size)


@torch.inference_mode()
def score_by_slices(model, images, labels, batch_size=500):
    model.train(False)
    right = 0
    for start in range(0, len(images), batch_size):
        guess = model(images[start : start + batch_size]).argmax(dim=-1)
        right += int((guess == labels[start : start + batch_size]).sum())
    return right / len(labels)


WRONG = {
    "draw_weights": [
        *bugs_of("draw_weights"),
        ("your function returned nothing", draw_returns_nothing),
        ("return the model that you were given", draw_copies),
        ("head.bias has mean 0.5", draw_with(lambda m: m.head.bias.fill_(0.5))),
        ("cls_token has mean", draw_with(lambda m: m.cls_token.normal_(std=0.02))),
        ("project.weight has mean", draw_with(lambda m: m.project.weight.normal_(std=0.02))),
        ("norm.weight has mean 0.0", draw_with(lambda m: m.norm.weight.zero_())),
        ("project.weight has mean", draw_with(lambda m: nn.init.xavier_normal_(m.project.weight))),
        (
            "project.weight has mean",
            draw_with(lambda m: m.project.weight.normal_(std=m.project.out_features**-0.5)),
        ),
        (
            "pos_embed repeats its numbers",
            draw_with(
                lambda m: m.pos_embed.copy_(0.02 * (-1) ** torch.arange(m.pos_embed.shape[1])[:, None])
            ),
        ),
        (
            "pos_embed repeats its numbers",
            draw_with(lambda m: m.pos_embed.copy_(0.02 * (-1) ** torch.arange(m.pos_embed.shape[2]))),
        ),
        ("blocks.0.mlp.fc1.weight", draw_with(lambda m: [b.mlp.fc1.reset_parameters() for b in m.blocks])),
    ],
    "embed_patches": [
        *bugs_of("embed_patches"),
        ("no token has a position", embed_no_positions),
        ("the CLS token has no position", embed_positions_before_cls),
        ("the channels come first", embed_channels_first),
        ("column by column", embed_columns),
        ("all tokens have the same position", embed_one_position),
        ("token 0 of two different pictures", embed_no_cls),
        ("weights without gradient: pos_embed. Healthy: none", embed_detached_positions),
    ],
    "attend": [
        *bugs_of("attend"),
        ("spread of the scores: 1.73", attend_with(scale=lambda dim, h: 1 / math.sqrt(dim / h) * 3**0.5)),
        ("spread of the scores: 2.83", attend_with(scale=lambda dim, h: 1.0)),
        ("W_O is missing", attend_with(proj=False)),
        ("the heads are interleaved", attend_with(merge="btdh")),
        ("queries and keys are swapped", attend_with(swap=True)),
        ("the weights are wanted too", attend_only_tokens),
    ],
    "encode_block": [
        *bugs_of("encode_block"),
        ("post-norm", block_post_norm),
        ("`norm1` is used twice", block_one_norm),
        ("the MLP replaces the stream", block_no_mlp_residual),
        ("normed before the MLP adds", block_norm_replaces),
        ("attention reads the stream without a norm", block_no_norm),
        ("another one is ignored", block_ignores_attend),
        ("your code stopped with", block_takes_both),
        ("both branches read the same stream", block_parallel_branches),
    ],
    "classify": [
        *bugs_of("classify"),
        ("you read the last token", classify_reading(lambda t: t[:, -1])),
        ("you average all tokens", classify_reading(lambda t: t.mean(dim=1))),
        ("you average the patches", classify_reading(lambda t: t[:, 1:].mean(dim=1))),
        ("log-probabilities", classify_reading(lambda t: t[:, 0], lambda logits: logits.log_softmax(1))),
        ("into 0..1", classify_reading(lambda t: t[:, 0], torch.sigmoid)),
        ("scores for every token", classify_reading(lambda t: t)),
        (
            "without gradient: cls_token, pos_embed, project.weight",
            classify_reading(lambda t: t[:, 0].detach()),
        ),
    ],
    "decay_groups": [
        *bugs_of("decay_groups"),
        ("norm1.weight", groups_by(lambda n, p: n.endswith("weight"))),
        ("head.bias", groups_by(lambda n, p: "norm" not in n and n not in ("cls_token", "pos_embed"))),
        ("5 of 6 matrices do not", groups_by(lambda n, p: n == "head.weight")),
        ("in no groups", groups_only_decayed),
        ("6 of 6 matrices do not", groups_of_names),
        ("in 2 groups", groups_twice),
        ("is frozen", groups_freeze),
        ("a list of dicts", lambda model, decay: [g["params"] for g in groups_by(is_matrix)(model, decay)]),
    ],
    "schedule": [
        *bugs_of("schedule"),
        ("last step is not at 0", rate(fall=lambda s, n, w: half_cosine((s - w) / (n - w)))),
        ("count from there", rate(fall=lambda s, n, w: half_cosine((s + 1) / n))),
        ("in a straight line", rate(fall=lambda s, n, w: (n - s - 1) / (n - w))),
        ("n is the number of steps *after*", rate(fall=lambda s, n, w: half_cosine((s + 1 - w) / n))),
        ("1.00 and 1.00 of the peak", rate(rise=lambda s, w: 1)),
        ("ZeroDivisionError", rate_no_warmup_guard),
    ],
    "blend": [
        *bugs_of("blend"),
        ("the target names the picture alone", blend_only_pictures),
        ("the shares of the target are swapped", blend_targets_swapped),
        ("return two things", blend_one_result),
        ("it should keep `share`", blend_with(lambda s: 1 - s, lambda s: s)),
        ("targets sum to 1.75", blend_with(other=lambda s: 1.0)),
        ("every picture is its own partner", blend_with(partner=torch.arange)),
        ("two calls give the same partners", blend_with(partner=lambda n: torch.arange(n).flip(0))),
        ("partner of several", blend_with(partner=lambda n: torch.randint(n, (n,)))),
        ("changes its input in place", blend_in_place),
        (
            "share = 0.25 a picture keeps 0.75",
            blend_with(lambda s: max(s, 1 - s), lambda s: min(s, 1 - s)),
        ),
        ("every pixel with the same pixel", blend_mirrored_partner),
    ],
    "score": [
        *bugs_of("score"),
        ("you average the accuracies of the batches", score_mean_of_means),
        ("how many are right", score_count),
        ("you return percent", score_percent),
        ("the number of batches", score_per_batch),
        ("pictures at a time", score_one_batch),
        ("not left in it", score_back_to_training),
        ("gradients are recorded", score_with_gradients),
        ("share of wrong answers", score_errors),
        ("is `batch_size` ignored?", score_fixed_batches),
        ("keep the default `batch_size=500`", score_other_default),
    ],
}
RIGHT = {
    "draw_weights": [draw_truncated, draw_by_name],
    "embed_patches": [embed_with, embed_by_convolution],
    "attend": [attend_with(), attend_fused],
    "encode_block": [block_in_steps, block_by_hand],
    "classify": [classify_norm_first, classify_by_hand],
    "decay_groups": [groups_by(is_matrix), groups_by_layer, weight_decay_groups],
    "schedule": [rate(), rate_from_the_end, learning_rate],
    "blend": [blend_with(), blend_lerp, blend_by_matrix],
    "score": [score_right, score_by_slices],
}
