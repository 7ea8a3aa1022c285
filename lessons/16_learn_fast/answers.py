"""Answers to the exercises of lesson 16, written as students write them."""

import torch
import torch.nn.functional as F
from einops import rearrange

from vit_classroom.checks import lesson_part
from vit_course.patches import patchify

checks = lesson_part("16_learn_fast", "checks")


def schulz_in_words(matrices, steps=5):
    norm = (matrices**2).sum(dim=(-2, -1), keepdim=True) ** 0.5
    x = matrices / (norm + 1e-7)
    for _ in range(steps):
        xxt = x @ x.transpose(-2, -1)
        x = 3.4445 * x - 4.7750 * xxt @ x + 2.0315 * xxt @ xxt @ x
    return x


def schulz_one_by_one(matrices, steps=5):
    if matrices.ndim > 2:
        return torch.stack([schulz_one_by_one(matrix, steps) for matrix in matrices])
    x = matrices / (matrices.norm() + 1e-7)
    for _ in range(steps):
        gram = x.matmul(x.T)
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram.matmul(gram)).matmul(x)
    return x


def schulz_forgets_tall(matrices, steps=5):
    wide = matrices.mT if matrices.shape[-2] > matrices.shape[-1] else matrices
    return schulz_in_words(wide, steps).reshape(matrices.shape)


def drop_with_a_mask(tokens, keep, num_prefix_tokens=0):
    stays = torch.zeros(tokens.shape[1], dtype=torch.bool)
    stays[:num_prefix_tokens] = True
    stays[num_prefix_tokens + torch.randperm(tokens.shape[1] - num_prefix_tokens)[:keep]] = True
    return tokens[:, stays]


def drop_by_largest_numbers(tokens, keep, num_prefix_tokens=0):
    prefix, patches = tokens.split([num_prefix_tokens, tokens.shape[1] - num_prefix_tokens], dim=1)
    kept = torch.rand(patches.shape[1], device=tokens.device).topk(keep).indices.sort()[0]
    return torch.cat((prefix, patches.index_select(1, kept)), 1)


def whiten_by_svd(images, patch_size, eps=1e-2):
    rows = patchify(images, patch_size).flatten(0, 1)
    centred = rows - rows.mean(dim=0)
    _, strength, directions = torch.linalg.svd(centred, full_matrices=False)
    variance = strength.square() / (len(rows) - 1)
    filters = directions / (variance + eps).sqrt()[:, None]
    return rearrange(filters, "k (p1 p2 c) -> k c p1 p2", p1=patch_size, p2=patch_size)


def whiten_by_unfold(images, patch_size, eps=1e-2):
    columns = F.unfold(images, patch_size, stride=patch_size).transpose(0, 1).flatten(1)  # (C·P·P, B·N)
    variance, vectors = torch.linalg.eigh(torch.cov(columns))
    order = variance.argsort(descending=True)
    filters = (vectors / torch.sqrt(variance + eps))[:, order].mT
    return filters.reshape(-1, images.shape[1], patch_size, patch_size)


def whiten_pixels_as_patches(images, patch_size, eps=1e-2):
    patches = patchify(images, patch_size).flatten(0, 1)
    variance, vectors = torch.linalg.eigh(torch.cov(patches))
    return (vectors / (variance + eps).sqrt()).T.flip(0)


WRONG = {
    "newton_schulz": [
        ("(5, 3), steps = 2", schulz_forgets_tall),
        ("torch.float64", lambda matrices, *steps: schulz_in_words(matrices.float(), *steps)),
        ("the few digits", lambda matrices, *rest: schulz_in_words(matrices.bfloat16(), *rest).to(matrices)),
    ],
    "drop_tokens": [
        (
            "the shape should be (6, 4, 7), yours is (6, 16, 4)",
            lambda tokens, keep, *prefix: tokens[..., torch.randperm(tokens.shape[-1])[:keep].sort().values],
        ),
        (
            "the shape should be (6, 4, 7), yours is (4, 16, 7)",
            lambda tokens, keep, *prefix: tokens[torch.randperm(len(tokens))[:keep]],
        ),
        ("no tokens of the input", lambda x, keep, *n: drop_with_a_mask(x, keep, *n) * (x.shape[1] / keep)),
    ],
    "whitening_filters": [
        (
            "the shape should be (8, 2, 2, 2), yours is (4, 2, 2, 2)",
            lambda images, patch_size, *eps: whiten_by_svd(images, patch_size, *eps)[: patch_size**2],
        ),
        ("the shape should be (4, 1, 2, 2)", whiten_pixels_as_patches),
        ("a tensor", lambda *given: (whiten_by_svd(*given), torch.ones(3))),
    ],
}
RIGHT = {
    "newton_schulz": [checks.plain_rounds, schulz_in_words, schulz_one_by_one],
    "drop_tokens": [drop_with_a_mask, drop_by_largest_numbers],
    "whitening_filters": [whiten_by_svd, whiten_by_unfold],
}
