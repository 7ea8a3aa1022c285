"""Answers to the exercises of lesson 07, written as students write them."""

import math
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torchvision import transforms


def crop_one_window(images, padding=4, flip=0.5):
    _, _, height, width = images.shape
    padded = F.pad(images, [padding] * 4)
    top, left = torch.randint(0, 2 * padding + 1, (2,)).tolist()
    out = padded[:, :, top : top + height, left : left + width]
    mirror = (torch.rand(len(images), device=images.device) < flip)[:, None, None, None]
    return torch.where(mirror, out.flip(-1), out)


def crop_by_transforms_on_the_batch(images, padding=4, flip=0.5):
    cut = transforms.RandomCrop(images.shape[-2:], padding=padding)
    return transforms.RandomHorizontalFlip(flip)(cut(images))


def crop_loop(
    pad="constant", high=None, mirror_axis=-1, both=False, channels=False, below=True, batch_flip=False
):
    """Make the loop that students write first, with one thing changed."""

    def answer(images, padding=4, flip=0.5):
        _, count, height, width = images.shape
        dtype = images.dtype
        padded = F.pad(images.double(), [padding] * 4, mode=pad).to(dtype)
        stop = {"short": 2 * padding, "half": padding + 1}.get(high, 2 * padding + 1)
        whole = random.random() < flip
        out = []
        for picture in padded:
            parts = []
            top = random.randrange(max(1, stop))
            left = top if both else random.randrange(max(1, stop))
            for channel in picture:
                if channels:
                    top, left = random.randrange(stop), random.randrange(stop)
                parts.append(channel[top : top + height, left : left + width])
            picture = torch.stack(parts)
            if whole if batch_flip else (random.random() < flip) == below:
                picture = picture.flip(mirror_axis)
            out.append(picture)
        return torch.stack(out)

    return answer


def crop_only(images, padding=4, flip=0.5):
    return crop_loop()(images, padding, 0.0)


def crop_by_roll(images, padding=4, flip=0.5):
    out = []
    for picture in images:
        down, across = random.randint(-padding, padding), random.randint(-padding, padding)
        picture = picture.roll((down, across), (1, 2))
        out.append(picture.flip(-1) if random.random() < flip else picture)
    return torch.stack(out)


def crop_becomes_float(images, padding=4, flip=0.5):
    return crop_loop()(images, padding, flip).float()


def crop_fixed_seed(images, padding=4, flip=0.5):
    random.seed(0)
    return crop_loop()(images, padding, flip)


def crop_shuffles(images, padding=4, flip=0.5):
    return crop_loop()(images, padding, flip)[torch.randperm(len(images))]


def crop_flip_by_offset(images, padding=4, flip=0.5):
    out = []
    for picture in F.pad(images, [padding] * 4):
        share = random.random()
        top, left = random.randrange(2 * padding + 1), int(share * (2 * padding + 1))
        picture = picture[:, top : top + images.shape[2], left : left + images.shape[3]]
        out.append(picture.flip(-1) if share < flip else picture)
    return torch.stack(out)


def crop_by_normal(images, padding=4, flip=0.5):
    out = []
    for picture in F.pad(images, [padding] * 4):
        top, left = (min(2 * padding, max(0, round(random.gauss(padding, padding / 2)))) for _ in range(2))
        picture = picture[:, top : top + images.shape[2], left : left + images.shape[3]]
        out.append(picture.flip(-1) if random.random() < flip else picture)
    return torch.stack(out)


def crop_cpu_numbers(images, padding=4, flip=0.5):
    out = crop_loop_slices(images, padding, 0.0)
    return torch.where((torch.rand(len(images)) < flip)[:, None, None, None], out.flip(-1), out)


def crop_loop_slices(images, padding=4, flip=0.5):
    batch, _, height, width = images.shape
    padded = F.pad(images, (padding, padding, padding, padding))
    tops = torch.randint(0, 2 * padding + 1, (batch,)).tolist()
    lefts = torch.randint(0, 2 * padding + 1, (batch,)).tolist()
    out = [
        padded[b, :, t : t + height, x : x + width] for b, (t, x) in enumerate(zip(tops, lefts, strict=True))
    ]
    return torch.stack([p.flip(-1) if torch.rand(1) < flip else p for p in out])


def crop_first_share(images, padding=4, flip=0.5):
    out = crop_loop_slices(images, padding, 0.0)
    count = round(flip * len(images))
    out[:count] = out[:count].flip(-1)
    return out


def crop_exact_count(images, padding=4, flip=0.5):
    out = crop_loop_slices(images, padding, 0.0)
    rows = torch.randperm(len(images))[: int(flip * len(images))]
    out[rows] = out[rows].flip(-1)
    return out


def crop_seeded_offsets(images, padding=4, flip=0.5):
    _, _, height, width = images.shape
    padded, generator, out = F.pad(images, [padding] * 4), torch.Generator().manual_seed(0), []
    for picture in padded:
        top, left = torch.randint(0, 2 * padding + 1, (2,), generator=generator).tolist()
        picture = picture[:, top : top + height, left : left + width]
        out.append(picture.flip(-1) if random.random() < flip else picture)
    return torch.stack(out)


def crop_in_pairs(images, padding=4, flip=0.5):
    batch, _, height, width = images.shape
    padded, out = F.pad(images, [padding] * 4), []
    places = [(random.randint(0, 2 * padding), random.randint(0, 2 * padding)) for _ in range(batch)]
    for b, picture in enumerate(padded):
        top, left = places[b % ((batch + 1) // 2)]
        picture = picture[:, top : top + height, left : left + width]
        out.append(picture.flip(-1) if random.random() < flip else picture)
    return torch.stack(out)


def crop_with_view(images, padding=4, flip=0.5):
    batch, channels, height, width = images.shape
    return crop_loop_slices(images.view(batch * channels, height, width).view(images.shape), padding, flip)


def crop_without_defaults(images, padding, flip):
    return crop_loop_slices(images, padding, flip)


def crop_default_two(images, padding=2, flip=0.5):
    return crop_loop_slices(images, padding, flip)


def crop_default_no_flip(images, padding=4, flip=0.0):
    return crop_loop_slices(images, padding, flip)


def crop_nothing_to_do(images, padding=4, flip=0.5):
    if padding == 0 and flip == 0:
        return images
    return crop_loop_slices(images, padding, flip)


def crop_into_zeros(images, padding=4, flip=0.5):
    batch, channels, height, width = images.shape
    padded = images.new_zeros((batch, channels, height + 2 * padding, width + 2 * padding))
    padded[:, :, padding : padding + height, padding : padding + width] = images
    out = torch.empty_like(images, memory_format=torch.contiguous_format)
    for b in range(batch):
        top, left = np.random.randint(2 * padding + 1, size=2)
        window = padded[b, :, top : top + height, left : left + width]
        out[b] = window.flip(2) if np.random.rand() < flip else window
    return out


def crop_by_index(images, padding=4, flip=0.5):
    batch, _, height, width = images.shape
    device = images.device
    flipped = torch.rand(batch, 1, 1, 1, device=device) < flip
    images = torch.where(flipped, images.flip(3), images)
    padded = F.pad(images, [padding] * 4)
    rows = torch.randint(0, 2 * padding + 1, (batch, 1), device=device) + torch.arange(height, device=device)
    columns = torch.randint(0, 2 * padding + 1, (batch, 1), device=device) + torch.arange(
        width, device=device
    )
    first = torch.arange(batch, device=device)[:, None, None]
    return padded[first, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def crop_by_unfold(images, padding=4, flip=0.5):
    batch, _, height, width = images.shape
    cut = F.pad(images, [padding] * 4).unfold(2, height, 1).unfold(3, width, 1)
    top, left = np.random.randint(0, 2 * padding + 1, (2, batch))
    out = cut[torch.arange(batch), :, torch.from_numpy(top), torch.from_numpy(left)]
    mirror = torch.from_numpy(np.random.rand(batch) < flip)
    out = out.clone()
    out[mirror] = out[mirror].flip(-1)
    return out


def crop_by_transforms(images, padding=4, flip=0.5):
    one = transforms.Compose(
        [transforms.RandomCrop(images.shape[-2:], padding=padding), transforms.RandomHorizontalFlip(flip)]
    )
    return torch.stack([one(picture) for picture in images])


def refuses_whole_numbers(function):
    def answer(images, targets, lam, permutation):
        if not images.is_floating_point():
            raise ValueError("float images are needed")
        return function(images, targets, lam, permutation)

    return answer


def mixup_swapped(x, y, lam, p):
    a, b = lam[:, None, None, None], lam[:, None]
    return (1 - a) * x + a * x[p], (1 - b) * y + b * y[p]


def mixup_pictures_only(x, y, lam, p):
    a = lam[:, None, None, None]
    return a * x + (1 - a) * x[p], y


def mixup_targets_swapped(x, y, lam, p):
    a, b = lam[:, None, None, None], lam[:, None]
    return a * x + (1 - a) * x[p], (1 - b) * y + b * y[p]


def mixup_other_partner(x, y, lam, p):
    a, b = lam[:, None, None, None], lam[:, None]
    return a * x + (1 - a) * x[p], b * y + (1 - b) * y[p.argsort()]


def mixup_reversed_partner(x, y, lam, p):
    a, b = lam[:, None, None, None], lam[:, None]
    partners, targets = torch.empty_like(x), torch.empty_like(y)
    partners[p], targets[p] = x, y
    return a * x + (1 - a) * partners, b * y + (1 - b) * targets


def mixup_flipped_batch(x, y, lam, p):
    a, b = lam[:, None, None, None], lam[:, None]
    return a * x + (1 - a) * x.flip(0), b * y + (1 - b) * y.flip(0)


def mixup_one_lam(x, y, lam, p):
    share = lam[0]
    return share * x + (1 - share) * x[p], share * y + (1 - share) * y[p]


def mixup_along_width(x, y, lam, p):
    b = lam[:, None]
    return lam * x + (1 - lam) * x[p], b * y + (1 - b) * y[p]


def mixup_brackets(x, y, lam, p):
    a, b = lam[:, None, None, None], lam[:, None]
    return a * x + 1 - a * x[p], b * y + 1 - b * y[p]


def mixup_hard(x, y, lam, p):
    images, targets = mixup_right(x, y, lam, p)
    return images, F.one_hot(targets.argmax(1), y.shape[1]).float()


def mixup_right(x, y, lam, p):
    a, b = lam.view(-1, 1, 1, 1), lam.view(-1, 1)
    return a * x + (1 - a) * x[p], b * y + (1 - b) * y[p]


def mixup_in_float32(x, y, lam, p):
    return mixup_right(x.float(), y.float(), lam.float(), p)


def mixup_larger_share(x, y, lam, p):
    return mixup_right(x, y, torch.maximum(lam, 1 - lam), p)


def mixup_half(x, y, lam, p):
    return (x + x[p]) / 2, (y + y[p]) / 2


def mixup_refuses_two_kinds(x, y, lam, p):
    if x.dtype in (torch.uint8, torch.int64):
        raise ValueError("float images are needed")
    return mixup_right(x, y, lam, p)


def mixup_float32_alone(x, y, lam, p):
    if x.dtype != torch.float32:
        raise ValueError("float images are needed")
    return mixup_right(x, y, lam, p)


def mixup_by_view(x, y, lam, p):
    rows, share = x.view(len(x), -1), lam[:, None]
    return (share * rows + (1 - share) * rows[p]).view(x.shape), share * y + (1 - share) * y[p]


def mixup_lerp(x, y, lam, p):
    if not x.is_floating_point():
        raise ValueError("float images are needed")
    return torch.lerp(x[p], x, lam.view(-1, 1, 1, 1)), torch.lerp(y[p], y, lam.view(-1, 1))


def mixup_in_place(x, y, lam, p):
    x *= lam.view(-1, 1, 1, 1)
    return x, y


def mixup_loop(images, targets, lam, permutation):
    if images.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise ValueError(images.dtype)
    pictures, labels = [], []
    for i, j in enumerate(permutation.tolist()):
        pictures.append(images[i] * lam[i] + images[j] * (1 - lam[i]))
        labels.append(targets[i] * lam[i] + targets[j] * (1 - lam[i]))
    return torch.stack(pictures), torch.stack(labels)


def mixup_einsum(images, targets, lam, permutation):
    if not torch.is_floating_point(images):
        raise ValueError("no")
    matrix = torch.diag(lam) + (1 - lam)[:, None] * torch.eye(len(lam))[permutation]
    return [torch.einsum("ij,j...->i...", matrix, tensor) for tensor in (images, targets)]


def schedule(rise, fall):
    def answer(step, total_steps, warmup_steps, peak):
        if step < warmup_steps:
            return peak * rise(step, warmup_steps)
        return peak * fall(step, total_steps, warmup_steps)

    return answer


def half_cosine(share):
    return 0.5 * (1 + math.cos(math.pi * share))


def up(s, w):
    return (s + 1) / w


def rate_from_zero(step, total_steps, warmup_steps, peak):
    if step < warmup_steps:
        return peak * step / warmup_steps
    return peak * half_cosine((step - warmup_steps) / (total_steps - warmup_steps))


def rate_linear(step, total_steps, warmup_steps, peak):
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    return peak * (total_steps - step - 1) / max(1, total_steps - warmup_steps)


def rate_by_torch(step, total_steps, warmup_steps, peak):
    if step < warmup_steps:
        return torch.tensor(peak * (step + 1) / warmup_steps)
    k, n = step + 1 - warmup_steps, total_steps - warmup_steps
    return peak * torch.cos(torch.tensor(math.pi * k / n / 2, dtype=torch.float64)) ** 2


def rate_by_numpy(step, total_steps, warmup_steps, peak):
    rise = np.linspace(0, peak, warmup_steps + 1)[1:]
    fall = peak * (1 + np.cos(np.linspace(0, np.pi, total_steps - warmup_steps + 1)[1:])) / 2
    return np.concatenate([rise, fall])[step]


def rate_from_the_end(s, n, w, top):
    if s + 1 <= w:
        return top / w * (s + 1)
    left = n - 1 - s
    return top * (1 - math.cos(math.pi * left / (n - w))) / 2


def rate_right(step, total_steps, warmup_steps, peak):
    return schedule(up, lambda s, n, w: half_cosine((s + 1 - w) / max(1, n - w)))(
        step, total_steps, warmup_steps, peak
    )


def rate_one_more(step, total_steps, warmup_steps, peak):
    if step <= warmup_steps and warmup_steps > 0:
        return peak * (step + 1) / warmup_steps
    return rate_right(step, total_steps, warmup_steps, peak)


def two_groups(decays, trainable=True):
    def answer(model, weight_decay):
        yes, no = [], []
        for name, p in model.named_parameters():
            if p.requires_grad or not trainable:
                (yes if decays(name, p) else no).append(p)
        return [{"params": yes, "weight_decay": weight_decay}, {"params": no, "weight_decay": 0.0}]

    return answer


def is_token(name):
    return "cls_token" in name or "pos_embed" in name


def groups_only_decayed(model, weight_decay):
    return two_groups(lambda n, p: p.ndim >= 2 and not is_token(n))(model, weight_decay)[:1]


def groups_of_names(model, weight_decay):
    yes = [n for n, p in model.named_parameters() if p.ndim > 1]
    no = [n for n, p in model.named_parameters() if p.ndim <= 1]
    return [{"params": yes, "weight_decay": weight_decay}, {"params": no, "weight_decay": 0.0}]


def groups_twice(model, weight_decay):
    yes = [p for n, p in model.named_parameters() if p.requires_grad and p.ndim >= 2 and not is_token(n)]
    rest = [p for p in model.parameters() if p.requires_grad]
    return [{"params": yes, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]


def groups_fixed_decay(model, weight_decay):
    return two_groups(lambda n, p: n.endswith("weight") and p.ndim > 1)(model, 0.05)


def groups_one_key(model, weight_decay):
    groups = two_groups(lambda n, p: n.endswith("weight") and p.ndim > 1)(model, weight_decay)
    return [groups[0], {"params": groups[1]["params"]}]


def groups_of_sets(model, weight_decay):
    groups = two_groups(lambda n, p: n.endswith("weight") and p.ndim > 1)(model, weight_decay)
    return [{**group, "params": set(group["params"])} for group in groups]


def groups_tensor_decay(model, weight_decay):
    groups = two_groups(lambda n, p: n.endswith("weight") and p.ndim > 1)(model, weight_decay)
    return [{**group, "weight_decay": torch.tensor(group["weight_decay"])} for group in groups]


def groups_as_pair(model, weight_decay):
    groups = two_groups(lambda n, p: p.ndim >= 2 and not is_token(n))(model, weight_decay)
    return [group["params"] for group in groups]


def groups_freeze(model, weight_decay):
    groups = two_groups(lambda n, p: n.endswith("weight") and p.ndim > 1)(model, weight_decay)
    for p in groups[1]["params"]:
        p.requires_grad_(False)
    return groups


def groups_by_modules(model, weight_decay):
    matrices = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)}
    trainable = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in trainable if id(p) not in matrices], "weight_decay": 0},
        {"params": [p for p in trainable if id(p) in matrices], "weight_decay": weight_decay},
    ]


def groups_one_each(model, weight_decay):
    groups = []
    for name, p in model.named_parameters():
        if p.requires_grad:
            decay = weight_decay if p.ndim >= 2 and not is_token(name) else 0.0
            groups.append({"params": [p], "weight_decay": decay, "name": name})
    return groups


def curves(**changes):
    return lambda: {"A": 6, "B": 3, "C": 1, "D": 2, "E": 5, "F": 7, **changes}


WRONG = {
    "random_crop_flip": [
        ("one window for the whole batch", crop_one_window),
        ("one window for the whole batch", crop_by_transforms_on_the_batch),
        ("repeats the border", crop_loop(pad="replicate")),
        ("mirrors the picture at its border", crop_loop(pad="reflect")),
        ("come in on the other", crop_by_roll),
        ("never reaches 2·padding", crop_loop(high="short")),
        ("has 2·padding + 1 = 5 places", crop_loop(high="half")),
        ("upside down", crop_loop(mirror_axis=-2)),
        ("top and left are always equal", crop_loop(both=True)),
        ("different windows", crop_loop(channels=True)),
        ("mirrored where flip is 0", crop_loop(below=False)),
        ("mirrored left and right", crop_only),
        ("all pictures of a batch are mirrored, or none", crop_loop(batch_flip=True)),
        ("should stay torch.uint8", crop_becomes_float),
        ("two calls give the same windows", crop_fixed_seed),
        ("change places", crop_shuffles),
        ("depends on its offset", crop_flip_by_offset),
        ("not equally likely", crop_by_normal),
        ("always on the CPU", crop_cpu_numbers),
        ("same places of a batch are mirrored", crop_first_share),
        ("one picture and flip = 0.5 it is never mirrored", crop_exact_count),
        ("give picture i the same offset", crop_seeded_offsets),
        ("1000 places further on", crop_in_pairs),
        ("copies of a picture made with `expand`", crop_with_view),
        ("keep the defaults", crop_without_defaults),
        ("the padding should be 4", crop_default_two),
        ("its default is 0.5", crop_default_no_flip),
        ("hand back the input itself", crop_nothing_to_do),
    ],
    "mixup": [
        ("lam and 1 - lam are swapped", refuses_whole_numbers(mixup_swapped)),
        ("but the targets are not", refuses_whole_numbers(mixup_pictures_only)),
        ("in the targets lam and 1 - lam", refuses_whole_numbers(mixup_targets_swapped)),
        ("different partners", refuses_whole_numbers(mixup_other_partner)),
        ("so `images[permutation]`", refuses_whole_numbers(mixup_reversed_partner)),
        ("reversing the batch", refuses_whole_numbers(mixup_flipped_batch)),
        ("one share for the whole batch", refuses_whole_numbers(mixup_one_lam)),
        ("lam meets the *width*", refuses_whole_numbers(mixup_along_width)),
        ("brackets are missing", refuses_whole_numbers(mixup_brackets)),
        ("must stay soft", refuses_whole_numbers(mixup_hard)),
        ("raise a ValueError", mixup_right),
        ("in place", mixup_in_place),
        ("should stay torch.float64", refuses_whole_numbers(mixup_in_float32)),
        ("the larger one of lam and 1 - lam", refuses_whole_numbers(mixup_larger_share)),
        ("every blend is half and half", refuses_whole_numbers(mixup_half)),
        ("images of torch.int16 are whole numbers", mixup_refuses_two_kinds),
        ("your code stopped with ValueError", mixup_float32_alone),
        ("your code stopped with RuntimeError: view size", refuses_whole_numbers(mixup_by_view)),
    ],
    "learning_rate": [
        ("first step has the rate 0", rate_from_zero),
        ("last step is not at 0", schedule(up, lambda s, n, w: half_cosine((s - w) / (n - w)))),
        ("has the peak again", schedule(up, lambda s, n, w: half_cosine((s - w) / max(1, n - 1 - w)))),
        ("in a straight line", rate_linear),
        ("count from there", schedule(up, lambda s, n, w: half_cosine((s + 1) / n))),
        ("n is the number of steps *after*", schedule(up, lambda s, n, w: half_cosine((s + 1 - w) / n))),
        ("falls and rises again", schedule(up, lambda s, n, w: half_cosine(2 * (s + 1 - w) / (n - w)))),
        ("negative at the end", schedule(up, lambda s, n, w: math.cos(math.pi * (s + 1 - w) / (n - w)))),
        ("there is no rise", schedule(lambda s, w: 1, lambda s, n, w: half_cosine((s + 1 - w) / (n - w)))),
        ("`peak` is not used", lambda s, n, w, peak: rate_from_the_end(s, n, w, 1.0)),
        ("not `<=`", rate_one_more),
        (
            "first step has the rate 0",
            schedule(lambda s, w: s / max(1, w - 1), lambda *a: rate_right(*a, 1.0)),
        ),
        ("and no small rest", lambda *a: max(rate_right(*a), 1e-6)),
        ("and no small rest", lambda *a: rate_right(*a) + 1e-6),
        ("do not round", lambda *a: round(rate_right(*a), 4)),
        ("ZeroDivisionError", lambda s, n, w, peak: rate_from_the_end(s, n, w, peak) * (w / w)),
    ],
    "weight_decay_groups": [
        ("Counting axes is not enough", two_groups(lambda n, p: p.ndim >= 2)),
        ("it is a bias", two_groups(lambda n, p: not is_token(n) and "norm" not in n)),
        ("the scale of a norm", two_groups(lambda n, p: n.endswith("weight"))),
        ("is frozen", two_groups(lambda n, p: p.ndim >= 2 and not is_token(n), trainable=False)),
        ("in no groups", groups_only_decayed),
        ("not their names", groups_of_names),
        ("in 2 groups", groups_twice),
        ("a list of dicts", groups_as_pair),
        ("it is a weight matrix", two_groups(lambda n, p: p.ndim == 2 and not is_token(n))),
        ("it should get 0.05", two_groups(lambda n, p: False)),
        ("changes the model itself", groups_freeze),
        (
            "Not every norm says so in its name",
            two_groups(lambda n, p: n.endswith("weight") and "norm" not in n),
        ),
        ("use the argument `weight_decay`", groups_fixed_decay),
        ("has no 'weight_decay'", groups_one_key),
        ("'params' is a set", groups_of_sets),
    ],
    "read_curves": [
        ("first *falls* well below ln K", curves(E=7, F=5)),
        ("4 of 6 are right; plot A", curves(A=2, D=6)),
        ("this line is restless", curves(D=8)),
        ("better than training", curves(C=7)),
        ("these lines freeze", curves(B=2)),
        ("numbered 1 to 8", curves(A="sorted")),
        ("leave the quotes out", curves(A="6")),
        ("one number for each plot", lambda: [6, 3, 1, 2, 5, 7]),
    ],
}

RIGHT = {
    "random_crop_flip": [
        crop_loop(),
        crop_loop_slices,
        crop_by_index,
        crop_by_unfold,
        crop_by_transforms,
        crop_into_zeros,
    ],
    "mixup": [refuses_whole_numbers(mixup_right), mixup_loop, mixup_einsum, mixup_lerp],
    "learning_rate": [rate_by_torch, rate_by_numpy, rate_from_the_end],
    "weight_decay_groups": [
        two_groups(lambda n, p: p.ndim >= 2 and not is_token(n)),
        two_groups(lambda n, p: p.ndim >= 2 and n.endswith("weight")),
        groups_by_modules,
        groups_one_each,
        groups_tensor_decay,
    ],
    "read_curves": [curves(), lambda: dict(zip("ABCDEF", [6, 3, 1, 2, 5, 7], strict=True))],
}
