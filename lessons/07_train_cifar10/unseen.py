"""Answers to the exercises of lesson 07, written from the docstrings alone.

Nothing in the checks was written for them. They are read by a test, and by nobody who writes a check.
"""

import itertools
import math
import re

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import Tensor, nn


def crop_one_coin(images, padding=4, flip=0.5):
    B, _, H, W = images.shape
    padded = F.pad(images, [padding] * 4)
    top = torch.randint(0, 2 * padding + 1, (B,)).tolist()
    left = torch.randint(0, 2 * padding + 1, (B,)).tolist()
    out = torch.stack([padded[b, :, top[b] : top[b] + H, left[b] : left[b] + W] for b in range(B)])
    if torch.rand(1).item() < flip:
        out = out.flip(-1)
    return out


def crop_wraps_around(images, padding=4, flip=0.5):
    out = []
    for image in images:
        dy, dx = torch.randint(-padding, padding + 1, (2,)).tolist()
        image = image.roll((dy, dx), dims=(-2, -1))
        out.append(image.flip(-1) if torch.rand(1) < flip else image)
    return torch.stack(out)


def crop_flips_upside_down(images, padding=4, flip=0.5):
    B, _, H, W = images.shape
    padded = F.pad(images, (padding, padding, padding, padding))
    out = torch.empty_like(images)
    for b in range(B):
        t, left = torch.randint(0, 2 * padding + 1, (2,)).tolist()
        window = padded[b, :, t : t + H, left : left + W]
        out[b] = window.flip(-2) if torch.rand(1) < flip else window
    return out


def crop_flip_turned_round(images, padding=4, flip=0.5):
    B, _, H, W = images.shape
    padded = F.pad(images, [padding] * 4)
    top, left = torch.randint(0, 2 * padding + 1, (2, B)).tolist()
    out = torch.stack(
        [padded[b, :, t : t + H, x : x + W] for b, (t, x) in enumerate(zip(top, left, strict=True))]
    )
    mirrored = torch.rand(B) > flip
    return torch.where(mirrored.view(-1, 1, 1, 1).to(images.device), out.flip(3), out)


def crop_writes_into_input(images, padding=4, flip=0.5):
    B, _, H, W = images.shape
    padded = F.pad(images, [padding] * 4)
    for b in range(B):
        t, left = torch.randint(0, 2 * padding + 1, (2,)).tolist()
        window = padded[b, :, t : t + H, left : left + W]
        images[b] = window.flip(-1) if torch.rand(()) < flip else window
    return images


def crop_loop(images: Tensor, padding: int = 4, flip: float = 0.5) -> Tensor:
    _, _, height, width = images.shape
    padded = F.pad(images, (padding,) * 4)
    result = []
    for picture in padded:
        y = torch.randint(2 * padding + 1, (1,)).item()
        x = torch.randint(2 * padding + 1, (1,)).item()
        cut = picture[:, y : y + height, x : x + width]
        if torch.rand(1).item() < flip:
            cut = torch.flip(cut, dims=[2])
        result.append(cut)
    return torch.stack(result)


def crop_unfold(images, padding=4, flip=0.5):
    n, _, h, w = images.shape
    places = F.pad(images, [padding] * 4).unfold(2, h, 1).unfold(3, w, 1)  # (B, C, places, places, H, W)
    which = torch.arange(n, device=images.device)
    y, x = torch.randint(0, 2 * padding + 1, (2, n), device=images.device)
    cut = places[which, :, y, x]
    mirror = torch.rand(n, device=images.device).lt(flip)
    return torch.where(repeat(mirror, "n -> n 1 1 1"), cut.flip(-1), cut)


def crop_by_index(images, padding=4, flip=0.5):
    B, _, H, W = images.shape
    where = {"device": images.device}
    big = images.new_zeros(B, images.shape[1], H + 2 * padding, W + 2 * padding)
    big[:, :, padding : padding + H, padding : padding + W] = images
    rows = torch.randint(0, 2 * padding + 1, (B, 1), **where) + torch.arange(H, **where)
    columns = torch.randint(0, 2 * padding + 1, (B, 1), **where) + torch.arange(W, **where)
    columns = torch.where(torch.rand(B, 1, **where) < flip, columns.flip(1), columns)
    channels_last = big.permute(0, 2, 3, 1)
    picked = channels_last[torch.arange(B, **where)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return picked.permute(0, 3, 1, 2).contiguous()


def crop_flip_first(images, padding=4, flip=0.5):
    # Mirroring first is as good: every place is as likely as its mirror image.
    count, channels, height, width = images.shape
    coins = torch.rand(count, device=images.device) < flip
    out = torch.zeros_like(images)
    for i in range(count):
        source = images[i].flip(2) if coins[i] else images[i]
        down, right = (int(v) for v in torch.randint(-padding, padding + 1, (2,)))
        y0, y1 = max(0, down), min(height, height + down)
        x0, x1 = max(0, right), min(width, width + right)
        if y0 < y1 and x0 < x1:
            out[i, :, y0:y1, x0:x1] = source[:, y0 - down : y1 - down, x0 - right : x1 - right]
    return out


def rate_never_zero(step, total_steps, warmup_steps, peak):
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    progress = (step - warmup_steps) / (total_steps - warmup_steps)
    return peak * (1 + math.cos(math.pi * progress)) / 2


def rate_cosine_over_all(step, total_steps, warmup_steps, peak):
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    return peak * 0.5 * (1 + math.cos(math.pi * (step + 1) / total_steps))


def rate_divides_by_warmup(step, total_steps, warmup_steps, peak):
    warm = (step + 1) / warmup_steps
    if warm <= 1:
        return peak * warm
    share = (step + 1 - warmup_steps) / (total_steps - warmup_steps)
    return peak / 2 * (1 + math.cos(math.pi * share))


def rate_quarter_cosine(step, total_steps, warmup_steps, peak):
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    k, n = step + 1 - warmup_steps, total_steps - warmup_steps
    return max(0.0, peak * math.cos(math.pi / 2 * k / n))


def rate_with_floor(step, total_steps, warmup_steps, peak):
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    k, n = step + 1 - warmup_steps, total_steps - warmup_steps
    lowest = 0.01 * peak
    return lowest + (peak - lowest) * (1 + math.cos(math.pi * k / n)) / 2


def rate_sine_squared(step, total_steps, warmup_steps, peak):
    done = step + 1
    if done <= warmup_steps:
        return done / warmup_steps * peak
    left = total_steps - done
    return peak * math.sin(math.pi / 2 * left / (total_steps - warmup_steps)) ** 2


def rate_numpy(step: int, total_steps: int, warmup_steps: int, peak: float) -> float:
    rise = np.linspace(0, peak, warmup_steps + 1)[1:]
    fall = peak * (1 + np.cos(np.linspace(0, np.pi, total_steps - warmup_steps + 1)[1:])) / 2
    return float(np.concatenate([rise, fall])[step])


def rate_torch(step, total_steps, warmup_steps, peak):
    s = torch.tensor(float(step), dtype=torch.float64)
    warm = (s + 1) / max(warmup_steps, 1)
    k = (s + 1 - warmup_steps).clamp(min=0)
    cold = 0.5 + 0.5 * torch.cos(torch.pi * k / max(total_steps - warmup_steps, 1))
    return peak * torch.where(s < warmup_steps, warm, cold).item()


def rate_factor(step, total_steps, warmup_steps, peak):
    def factor():
        if warmup_steps and step in range(warmup_steps):
            return (step + 1) / warmup_steps
        k = step - (warmup_steps - 1)
        n = total_steps - warmup_steps
        return (math.cos(k * math.pi / n) + 1) * 0.5

    return peak * factor()


def groups_two_axes_only(model, weight_decay):
    decay, rest = [], []
    for name, p in model.named_parameters():
        if p.requires_grad:
            (decay if p.ndim == 2 and name.endswith("weight") else rest).append(p)
    return [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]


def groups_exact_names(model, weight_decay):
    decay, rest = [], []
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        if p.ndim < 2 or name in ("cls_token", "pos_embed"):
            rest.append(p)
        else:
            decay.append(p)
    return [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]


def groups_without_zero(model, weight_decay):
    decay, rest = [], []
    for name, p in model.named_parameters():
        if p.requires_grad:
            (decay if p.ndim >= 2 and name.endswith("weight") else rest).append(p)
    return [{"params": decay, "weight_decay": weight_decay}, {"params": rest}]


def groups_of_pairs(model, weight_decay):
    decay, rest = [], []
    for name, p in model.named_parameters():
        if p.requires_grad:
            (decay if p.ndim >= 2 and name.endswith("weight") else rest).append((name, p))
    return [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]


def groups_two_mistakes(model, weight_decay):
    decay = [p for p in model.parameters() if p.ndim > 1 and p.requires_grad]
    rest = [p for p in model.parameters() if p.ndim <= 1 and p.requires_grad]
    return [{"params": decay, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}]


def groups_regex(model: nn.Module, weight_decay: float) -> list[dict]:
    learning = {name: p for name, p in model.named_parameters() if p.requires_grad}
    matrices = {name for name, p in learning.items() if re.search(r"weight$", name) and p.dim() > 1}
    return [
        {"params": [learning[name] for name in learning if name in matrices], "weight_decay": weight_decay},
        {"params": [learning[name] for name in learning if name not in matrices], "weight_decay": 0},
    ]


def groups_one_each(model, weight_decay):
    groups = []
    for name, p in model.named_parameters():
        if p.requires_grad:
            last = name.rpartition(".")[-1]
            shrinks = last.endswith("weight") and len(p.shape) not in (0, 1)
            groups.append({"params": [p], "weight_decay": weight_decay if shrinks else 0.0})
    return groups


def groups_by_module(model, weight_decay):
    table, seen = {True: [], False: []}, set()
    for module in model.modules():
        for name, p in module.named_parameters(recurse=False):
            if p.requires_grad and id(p) not in seen:
                seen.add(id(p))
                table[p.ndim > 1 and "weight" in name].append(p)
    return [
        {"params": table[True], "weight_decay": weight_decay},
        {"params": table[False], "weight_decay": 0.0},
    ]


def groups_by_value(model, weight_decay):
    def decay_of(pair):
        name, p = pair
        return (
            float(weight_decay) if name.endswith("weight") and p.squeeze().ndim >= 0 and p.ndim > 1 else 0.0
        )

    pairs = sorted((pair for pair in model.named_parameters() if pair[1].requires_grad), key=decay_of)
    return [
        {"params": [p for _, p in part], "weight_decay": value}
        for value, part in itertools.groupby(pairs, key=decay_of)
    ]


def mixup_targets_left(images, targets, lam, permutation):
    if not images.is_floating_point():
        raise ValueError("images should be float")
    a = lam.view(-1, 1, 1, 1)
    return a * images + (1 - a) * images[permutation], targets


def mixup_larger_share(images, targets, lam, permutation):
    if not images.is_floating_point():
        raise ValueError("images should be float")
    lam = torch.maximum(lam, 1 - lam)
    a, b = lam[:, None, None, None], lam[:, None]
    return a * images + (1 - a) * images[permutation], b * targets + (1 - b) * targets[permutation]


def mixup_no_error(images, targets, lam, permutation):
    a, b = lam[:, None, None, None], lam[:, None]
    return a * images + (1 - a) * images[permutation], b * targets + (1 - b) * targets[permutation]


def mixup_float32_only(images, targets, lam, permutation):
    if images.dtype != torch.float32:
        raise ValueError(f"images are {images.dtype}, not float32")
    a, b = lam.view(-1, 1, 1, 1), lam.view(-1, 1)
    return a * images + (1 - a) * images[permutation], b * targets + (1 - b) * targets[permutation]


def mixup_clamped(images, targets, lam, permutation):
    if not images.is_floating_point():
        raise ValueError("images should be float")
    a, b = lam.view(-1, 1, 1, 1), lam.view(-1, 1)
    blended = a * images + (1 - a) * images[permutation]
    return blended.clamp(0, 1), b * targets + (1 - b) * targets[permutation]


def mixup_lerp(images: Tensor, targets: Tensor, lam: Tensor, permutation: Tensor) -> tuple[Tensor, Tensor]:
    if not torch.is_floating_point(images):
        raise ValueError(f"{images.dtype} cannot be blended")
    pictures = torch.lerp(images[permutation], images, lam[:, None, None, None].to(images.dtype))
    return pictures, torch.lerp(targets[permutation], targets, lam[:, None].to(targets.dtype))


def mixup_loop(images, targets, lam, permutation):
    if images.dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool):
        raise ValueError("whole numbers cannot be blended; divide by 255 first")
    pictures, wanted = [], []
    for i, j in enumerate(permutation.tolist()):
        pictures.append(lam[i] * images[i] + (1 - lam[i]) * images[j])
        wanted.append(lam[i] * targets[i] + (1 - lam[i]) * targets[j])
    return torch.stack(pictures), torch.stack(wanted)


def mixup_matrix(images, targets, lam, permutation):
    if not images.dtype.is_floating_point:
        raise ValueError("images should be of a float type")
    # Row i of the matrix: lam on the picture itself, the rest on its partner.
    mixing = torch.diag(lam).index_put(
        (torch.arange(len(lam), device=lam.device), permutation), 1 - lam, accumulate=True
    )
    blended = mixing.to(images.dtype) @ rearrange(images, "b c h w -> b (c h w)")
    return blended.reshape(images.shape), mixing.to(targets.dtype) @ targets


def mixup_difference(images, targets, lam, permutation):
    if not images.is_floating_point():
        raise ValueError("blending needs floating-point pictures")

    def towards_partner(x):
        other = 1 - repeat(lam, "b -> b" + " 1" * (x.ndim - 1))
        return x + other.to(x.dtype) * (x.index_select(0, permutation) - x)

    return towards_partner(images), towards_partner(targets)


def read_d_is_a_bad_start():
    return {"A": 6, "B": 3, "C": 1, "D": 4, "E": 5, "F": 7}


def read_c_is_wrong_labels():
    return {"A": 6, "B": 3, "C": 7, "D": 2, "E": 1, "F": 5}


def read_counts_from_zero():
    return {"A": 5, "B": 2, "C": 0, "D": 1, "E": 4, "F": 6}


def read_number_to_plot():
    return {6: "A", 3: "B", 1: "C", 2: "D", 5: "E", 7: "F"}


def read_two_mistakes():
    return {"A": 8, "B": 4, "C": 1, "D": 2, "E": 5, "F": 7}


def read_keywords() -> dict[str, int]:
    return dict(A=6, B=3, C=1, D=2, E=5, F=7)


def read_zip():
    return dict(zip("ABCDEF", (6, 3, 1, 2, 5, 7), strict=True))


def read_by_diagnosis():
    plots = {1: "C", 2: "D", 3: "B", 5: "E", 6: "A", 7: "F"}
    return {plot: number for number, plot in plots.items()}


def read_step_by_step():
    found = {}
    found["B"] = 3  # it freezes
    found["A"] = 6  # a comb, four teeth an epoch
    found["C"] = 1  # validation lies below
    found["D"] = 2  # a spike, then ln K
    found["F"], found["E"] = 7, 5
    return {plot: found[plot] for plot in sorted(found)}


def crop_flip_off_by_one(images: Tensor, padding: int = 4, flip: float = 0.5) -> Tensor:
    height, width = images.shape[-2:]
    padded, out = F.pad(images, [padding] * 4), []
    for picture in padded:
        top, left = torch.randint(0, max(1, 2 * padding), (2,)).tolist()
        window = picture[:, top : top + height, left : left + width]
        out.append(window.flip(-1) if torch.rand(()) < flip else window)
    return torch.stack(out)


def crop_flip_diagonal(images: Tensor, padding: int = 4, flip: float = 0.5) -> Tensor:
    height, width = images.shape[-2:]
    padded, out = F.pad(images, [padding] * 4), []
    for picture, place in zip(
        padded, torch.randint(0, 2 * padding + 1, (len(images),)).tolist(), strict=True
    ):
        window = picture[:, place : place + height, place : place + width]
        out.append(window.flip(-1) if torch.rand(()) < flip else window)
    return torch.stack(out)


def crop_flip_float_canvas(images: Tensor, padding: int = 4, flip: float = 0.5) -> Tensor:
    batch, channels, height, width = images.shape
    out = torch.zeros(batch, channels, height, width)
    for number in range(batch):
        canvas = torch.zeros(channels, height + 2 * padding, width + 2 * padding)
        top, left = torch.randint(0, 2 * padding + 1, (2,)).tolist()
        canvas[:, padding : padding + height, padding : padding + width] = images[number]
        out[number] = canvas[:, top : top + height, left : left + width]
        if torch.rand(()) < flip:
            out[number] = out[number].flip(-1)
    return out


def rate_linspace(step: int, total_steps: int, warmup_steps: int, peak: float) -> float:
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    angles = np.linspace(0, np.pi, total_steps - warmup_steps)
    return float(peak * (1 + np.cos(angles[step - warmup_steps])) / 2)


def rate_quarter(step: int, total_steps: int, warmup_steps: int, peak: float) -> float:
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    share = (step + 1 - warmup_steps) / (total_steps - warmup_steps)
    return peak * math.cos(math.pi / 2 * share) if share < 1 else 0.0


def rate_one_step_more(step: int, total_steps: int, warmup_steps: int, peak: float) -> float:
    if warmup_steps and step <= warmup_steps:
        return peak * (step + 1) / warmup_steps
    share = (step + 1 - warmup_steps) / (total_steps - warmup_steps)
    return peak * 0.5 * (1 + math.cos(math.pi * share))


def groups_norm_in_name(model: nn.Module, weight_decay: float) -> list[dict]:
    words = ("norm", "bias", "cls_token", "pos_embed")
    decayed, kept = [], []
    for name, p in model.named_parameters():
        if p.requires_grad:
            (kept if any(word in name for word in words) else decayed).append(p)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": kept, "weight_decay": 0.0}]


def groups_linear_only(model: nn.Module, weight_decay: float) -> list[dict]:
    linear = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear)}
    trained = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in trained if id(p) in linear], "weight_decay": weight_decay},
        {"params": [p for p in trained if id(p) not in linear], "weight_decay": 0.0},
    ]


def groups_with_frozen(model: nn.Module, weight_decay: float) -> list[dict]:
    decayed, kept = [], []
    for name, p in model.named_parameters():
        matrix = p.requires_grad and p.ndim >= 2 and name.endswith("weight")
        (decayed if matrix else kept).append(p)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": kept, "weight_decay": 0.0}]


def mixup_one_share(images: Tensor, targets: Tensor, lam: Tensor, permutation: Tensor):
    if not images.is_floating_point():
        raise ValueError(f"images are {images.dtype}")
    share = lam[0]
    blended = share * images + (1 - share) * images[permutation]
    return blended, share * targets + (1 - share) * targets[permutation]


def mixup_in_place(images: Tensor, targets: Tensor, lam: Tensor, permutation: Tensor):
    if not images.is_floating_point():
        raise ValueError(f"images are {images.dtype}")
    x, y = lam.view(-1, 1, 1, 1), lam.view(-1, 1)
    images.mul_(x).add_((1 - x) * images[permutation])
    return images, y * targets + (1 - y) * targets[permutation]


def mixup_flipped_batch(images: Tensor, targets: Tensor, lam: Tensor, permutation: Tensor):
    if not images.is_floating_point():
        raise ValueError(f"images are {images.dtype}")
    x, y = lam.view(-1, 1, 1, 1), lam.view(-1, 1)
    return x * images + (1 - x) * images.flip(0), y * targets + (1 - y) * targets.flip(0)


def curves_d_blind() -> dict[str, int]:
    return {"A": 6, "B": 3, "C": 1, "D": 8, "E": 5, "F": 7}


def curves_as_text() -> dict[str, int]:
    return dict(zip("ABCDEF", "631257", strict=True))


def curves_twice_five() -> dict[str, int]:
    return {"A": 6, "B": 3, "C": 1, "D": 2, "E": 5, "F": 5}


UNSEEN = {
    "random_crop_flip": [
        ("one coin decides the mirroring of the whole batch", crop_one_coin),
        ("the picture is rolled: what leaves on one side comes back on the other", crop_wraps_around),
        ("pictures are mirrored top to bottom", crop_flips_upside_down),
        ("mirrors where the random number is above flip", crop_flip_turned_round),
        ("writes the windows into the caller's tensor and returns it", crop_writes_into_input),
        (
            "pastes onto canvases of torch.zeros without a dtype, so uint8 pictures come back as float32",
            crop_flip_float_canvas,
        ),
        (
            "uses the same offset for rows and columns of a picture, so only the 2·padding + 1 places "
            "on the diagonal come",
            crop_flip_diagonal,
        ),
        (
            "draws offsets below 2·padding and not below 2·padding + 1, so the last row and column of "
            "places never come",
            crop_flip_off_by_one,
        ),
    ],
    "learning_rate": [
        ("k counts from 0, so the last step is above 0", rate_never_zero),
        ("the cosine runs over the whole run, not over the steps after the warm-up", rate_cosine_over_all),
        ("divides by warmup_steps before asking whether there is a warm-up", rate_divides_by_warmup),
        ("takes a quarter of a cosine wave", rate_quarter_cosine),
        ("ends at a lowest rate of one percent and not at 0", rate_with_floor),
        (
            "uses the quarter cosine cos(π/2·k/n) in place of (1 + cos(π·k/n))/2; peak and zero are "
            "right, the values between are too high",
            rate_quarter,
        ),
        (
            "uses the warm-up formula for step s = w as well, so that step gets more than the peak",
            rate_one_step_more,
        ),
        (
            "takes n angles from 0 to pi with both ends (linspace), so step w has the peak again and "
            "the cosine runs over (k - 1)/(n - 1), not k/n",
            rate_linspace,
        ),
    ],
    "weight_decay_groups": [
        ("takes exactly two axes, so kernels of convolutions do not decay", groups_two_axes_only),
        ("compares exact names, so positions deeper in the model decay", groups_exact_names),
        ("the second group has no weight_decay, so the optimiser's default holds", groups_without_zero),
        ("the lists hold pairs of name and parameter", groups_of_pairs),
        ("two mistakes: counts axes, and the decay is always .05", groups_two_mistakes),
        (
            "lets only the weights of nn.Linear decay, so the kernel of a convolution, a matrix too, "
            "does not",
            groups_linear_only,
        ),
        (
            "finds norms by the word 'norm' in the name, so a norm in an nn.Sequential or with "
            "another name decays, and so does any other vector",
            groups_norm_in_name,
        ),
        (
            "looks at requires_grad only for matrices that decay, so frozen parameters are put into "
            "the group without decay",
            groups_with_frozen,
        ),
    ],
    "mixup": [
        ("targets are not mixed", mixup_targets_left),
        ("lambda is replaced by the larger of lambda and 1 - lambda", mixup_larger_share),
        ("whole numbers raise no ValueError", mixup_no_error),
        ("refuses floats other than float32", mixup_float32_only),
        ("clamps the blended pictures to 0..1", mixup_clamped),
        (
            "uses the first share for the whole batch as the first MixUp code does, where each "
            "picture has its own",
            mixup_one_share,
        ),
        (
            "multiplies the images in place before it takes the partners, so partners are scaled by "
            "their own share and the caller's images are changed",
            mixup_in_place,
        ),
        (
            "takes the partner from the other end of the batch as timm does and ignores the permutation",
            mixup_flipped_batch,
        ),
    ],
    "read_curves": [
        ("takes D for weights that start too large", read_d_is_a_bad_start),
        ("takes validation below training for a fault of the labels", read_c_is_wrong_labels),
        ("counts the diagnoses from 0", read_counts_from_zero),
        ("maps the number to the plot", read_number_to_plot),
        ("two mistakes: takes A for pictures not shown, and B for a bad start", read_two_mistakes),
        ("writes the numbers as strings, where ints are promised", curves_as_text),
        (
            "calls D blind pictures because it stays at ln K, and overlooks the spike of a rate far too high",
            curves_d_blind,
        ),
        ("gives both E and F the diagnosis 5, though each fits one plot at most", curves_twice_five),
    ],
}
STYLES = {
    "random_crop_flip": [crop_loop, crop_unfold, crop_by_index, crop_flip_first],
    "learning_rate": [rate_sine_squared, rate_numpy, rate_torch, rate_factor],
    "weight_decay_groups": [groups_regex, groups_one_each, groups_by_module, groups_by_value],
    "mixup": [mixup_lerp, mixup_loop, mixup_matrix, mixup_difference],
    "read_curves": [read_keywords, read_zip, read_by_diagnosis, read_step_by_step],
}
