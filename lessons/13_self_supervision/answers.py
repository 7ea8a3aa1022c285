"""Answers to the exercises of lesson 13, written as students write them."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange, reduce

from vit_course.patches import as_pair, patchify


def draw(batch, count, share):
    """Exactly round(share·N) places of every picture, at random."""
    return torch.rand(batch, count).argsort(1) < round(share * count)


def partners(tokens):
    """The token of another patch of the same picture, for every patch."""
    batch, count, dim = tokens.shape
    index = (torch.arange(count) + torch.randint(1, count, (batch, count))) % count
    return tokens.gather(1, index[..., None].expand(-1, -1, dim))


def place(tokens, mask_token, to_mask, to_swap, others=None):
    """Put mask tokens and other patches where they belong."""
    corrupted = torch.where(to_mask[..., None], mask_token.to(tokens.dtype), tokens)
    return torch.where(to_swap[..., None], partners(tokens) if others is None else others, corrupted)


def split(chosen, masked=0.8, swapped=0.1):
    fate = torch.rand(chosen.shape)
    return chosen & (fate < masked), chosen & (fate >= masked) & (fate < masked + swapped)


def corrupt_tenth_of_the_rest(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    to_mask = chosen & (torch.rand(chosen.shape) < 0.8)
    to_swap = chosen & ~to_mask & (torch.rand(chosen.shape) < 0.1)
    return place(tokens, mask_token, to_mask, to_swap), chosen


def corrupt_masks_all(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    return torch.where(chosen[..., None], mask_token.to(tokens.dtype), tokens), chosen


def corrupt_keeps_none(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    return place(tokens, mask_token, *split(chosen, 0.8, 0.2)), chosen


def corrupt_swaps_none(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    return place(tokens, mask_token, *split(chosen, 0.8, 0.0)), chosen


def corrupt_shares_turned_round(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    to_swap, to_mask = split(chosen, 0.8, 0.1)
    return place(tokens, mask_token, to_mask, to_swap), chosen


def corrupt_half_of_them(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    return place(tokens, mask_token, *split(chosen, 0.5, 0.25)), chosen


def corrupt_coin_for_each(tokens, mask_token, share=0.5):
    chosen = torch.rand(tokens.shape[:2]) < share
    return place(tokens, mask_token, *split(chosen)), chosen


def corrupt_with_repeats(tokens, mask_token, share=0.5):
    batch, count = tokens.shape[:2]
    chosen = torch.zeros(batch, count, dtype=torch.bool)
    chosen.scatter_(1, torch.randint(0, count, (batch, round(share * count))), True)
    return place(tokens, mask_token, *split(chosen)), chosen


def corrupt_cuts_off(tokens, mask_token, share=0.5):
    count = tokens.shape[1]
    chosen = torch.rand(tokens.shape[:2]).argsort(1) < int(share * count)
    return place(tokens, mask_token, *split(chosen)), chosen


def corrupt_ignores_share(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], 0.5)
    return place(tokens, mask_token, *split(chosen)), chosen


def corrupt_same_for_batch(tokens, mask_token, share=0.5):
    chosen = draw(1, tokens.shape[1], share).expand(len(tokens), -1)
    return place(tokens, mask_token, *split(chosen)), chosen


def corrupt_first_ones(tokens, mask_token, share=0.5):
    count = tokens.shape[1]
    chosen = (torch.arange(count) < round(share * count)).expand(len(tokens), -1)
    return place(tokens, mask_token, *split(chosen)), chosen


def corrupt_other_picture(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    others = tokens[torch.randperm(len(tokens))]
    return place(tokens, mask_token, *split(chosen), others), chosen


def corrupt_next_patch(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    return place(tokens, mask_token, *split(chosen), tokens.roll(-1, dims=1)), chosen


def corrupt_reads_late(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    to_mask, to_swap = split(chosen)
    corrupted = torch.where(to_mask[..., None], mask_token.to(tokens.dtype), tokens)
    return torch.where(to_swap[..., None], partners(corrupted), corrupted), chosen


def corrupt_perhaps_itself(tokens, mask_token, share=0.5):
    batch, count, dim = tokens.shape
    chosen = draw(batch, count, share)
    index = torch.randint(0, count, (batch, count, 1)).expand(-1, -1, dim)
    return place(tokens, mask_token, *split(chosen), tokens.gather(1, index)), chosen


def corrupt_one_fate_a_picture(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    fate = torch.rand(len(tokens), 1)
    return place(tokens, mask_token, chosen & (fate < 0.8), chosen & (fate >= 0.8) & (fate < 0.9)), chosen


def corrupt_one_fate_a_place(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    fate = torch.rand(tokens.shape[1])
    return place(tokens, mask_token, chosen & (fate < 0.8), chosen & (fate >= 0.8) & (fate < 0.9)), chosen


def corrupt_counts_masks_alone(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    to_mask, to_swap = split(chosen)
    return place(tokens, mask_token, to_mask, to_swap), to_mask


def corrupt_counting(number):
    """Corrupt another number of patches: number(share·N)."""

    def answer(tokens, mask_token, share=0.5):
        batch, count = tokens.shape[:2]
        chosen = torch.rand(batch, count).argsort(1) < number(share * count)
        return place(tokens, mask_token, *split(chosen)), chosen

    return answer


def corrupt_partner(index):
    """Take the other patch from index(chosen), (B, N) or (N,)."""

    def answer(tokens, mask_token, share=0.5):
        chosen = draw(*tokens.shape[:2], share)
        places = index(chosen).expand(chosen.shape)
        others = tokens.gather(1, places[..., None].expand_as(tokens))
        return place(tokens, mask_token, *split(chosen), others), chosen

    return answer


def places(chosen):
    return torch.arange(chosen.shape[1]).expand(chosen.shape)


def mirrored(chosen):
    return chosen.shape[1] - 1 - places(chosen)


def one_step_a_picture(chosen):
    return (places(chosen) + torch.randint(1, chosen.shape[1], (len(chosen), 1))) % chosen.shape[1]


def low_too_low(chosen):
    return (places(chosen) + torch.randint(0, chosen.shape[1] - 1, chosen.shape)) % chosen.shape[1]


def next_or_last(chosen):
    return (places(chosen) + 2 * torch.randint(0, 2, chosen.shape) - 1) % chosen.shape[1]


def among(weights):
    """Another patch of those with a weight, or any other if there is none."""
    count = weights.shape[1]
    scores = (weights[:, None, :] + 1e-9) * (1 - torch.eye(count))
    return torch.multinomial(scores.flatten(0, 1), 1).reshape(weights.shape)


def corrupt_exact_fates(tokens, mask_token, share=0.5):
    batch, count = tokens.shape[:2]
    k = round(share * count)
    rank = torch.rand(batch, count).argsort(1).argsort(1)
    chosen, to_mask = rank < k, rank < int(0.8 * k)
    return place(tokens, mask_token, to_mask, (rank < int(0.9 * k)) & ~to_mask), chosen


def corrupt_one_draw_for_both(tokens, mask_token, share=0.5):
    drawn = torch.rand(tokens.shape[:2])
    chosen = drawn.argsort(1).argsort(1) < round(share * tokens.shape[1])
    to_mask = chosen & (drawn < 0.8)
    return place(tokens, mask_token, to_mask, chosen & ~to_mask & (drawn < 0.9)), chosen


def corrupt_other_default(tokens, mask_token, share=0.15):
    chosen = draw(*tokens.shape[:2], share)
    return place(tokens, mask_token, *split(chosen)), chosen


def corrupt_detached_partners(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    return place(tokens, mask_token, *split(chosen), partners(tokens.detach())), chosen


def corrupt_leaves_kept_out(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    to_mask, to_swap = split(chosen)
    return place(tokens, mask_token, to_mask, to_swap), to_mask | to_swap


def corrupt_adds(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    to_mask, to_swap = split(chosen)
    return place(tokens + to_mask[..., None] * mask_token, mask_token, to_mask & False, to_swap), chosen


def corrupt_order_turned_round(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    return chosen, place(tokens, mask_token, *split(chosen))


def corrupt_removes(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    return tokens[~chosen].reshape(len(tokens), -1, tokens.shape[2]), chosen


def corrupt_tokens_alone(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    return place(tokens, mask_token, *split(chosen))


def corrupt_zeros_and_ones(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    return place(tokens, mask_token, *split(chosen)), chosen.long()


def corrupt_seeded(tokens, mask_token, share=0.5):
    torch.manual_seed(0)
    chosen = draw(*tokens.shape[:2], share)
    return place(tokens, mask_token, *split(chosen)), chosen


def corrupt_detached(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    return place(tokens, mask_token.data, *split(chosen)), chosen


def corrupt_in_place(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    to_mask, _ = split(chosen)
    tokens[to_mask] = mask_token[0, 0].to(tokens.dtype)
    return tokens, chosen


def corrupt_wider_type(tokens, mask_token, share=0.5):
    chosen = draw(*tokens.shape[:2], share)
    to_mask, to_swap = split(chosen)
    corrupted = torch.where(to_mask[..., None], mask_token, tokens)
    return torch.where(to_swap[..., None], partners(tokens), corrupted), chosen


def corrupt_loops(tokens, mask_token, share=0.5):
    corrupted = tokens.clone()
    batch, count, _ = tokens.shape
    chosen = torch.zeros(batch, count, dtype=torch.bool)
    for b in range(batch):
        for n in torch.randperm(count)[: round(share * count)].tolist():
            chosen[b, n] = True
            fate = torch.rand(()).item()
            if fate < 0.8:
                corrupted[b, n] = mask_token[0, 0].to(tokens.dtype)
            elif fate < 0.9:
                other = int(torch.randint(0, count - 1, ()))
                corrupted[b, n] = tokens[b, other + (other >= n)]
    return corrupted, chosen


def corrupt_half_of_the_rest(tokens, mask_token, share=0.5):
    batch, count, dim = tokens.shape
    kept = torch.rand(batch, count).topk(count - round(share * count), dim=1).indices
    chosen = torch.ones(batch, count, dtype=torch.bool).scatter(1, kept, False)
    to_mask = chosen & torch.bernoulli(torch.full((batch, count), 0.8)).bool()
    to_swap = chosen & ~to_mask & (torch.rand(batch, count) < 0.5)
    scores = torch.rand(batch, count, count).masked_fill(torch.eye(count, dtype=torch.bool), -1)
    others = tokens[torch.arange(batch)[:, None], scores.argmax(-1)]
    corrupted = tokens.clone()
    corrupted[to_swap] = others[to_swap]
    corrupted[to_mask] = mask_token.reshape(dim).to(tokens.dtype)
    return corrupted, chosen


def corrupt_by_products(tokens, mask_token, share=0.5):
    batch, count, _ = tokens.shape
    chosen = torch.stack([torch.randperm(count) < round(share * count) for _ in range(batch)])
    to_mask, to_swap = (part[..., None].to(tokens.dtype) for part in split(chosen))
    mask_token = mask_token.to(tokens.dtype)
    return to_mask * mask_token + to_swap * partners(tokens) + (1 - to_mask - to_swap) * tokens, chosen


def means(images, patch_size):
    p1, p2 = as_pair(patch_size)
    return reduce(images.float(), "b c (h p1) (w p2) -> b (h w) c", "mean", p1=p1, p2=p2)


def number(levels, base=8):
    value = torch.zeros(levels.shape[:-1], dtype=torch.int64)
    for level in levels.unbind(-1):
        value = base * value + level.long()
    return value


def classes_blue_first(images, patch_size):
    return number((means(images, patch_size) // 32).flip(-1))


def classes_rounded(images, patch_size):
    return number((means(images, patch_size) / 32).round().clamp(max=7))


def classes_of_255(images, patch_size):
    return number((means(images, patch_size) / 255 * 8).floor().clamp(max=7))


def classes_to_7(images, patch_size):
    return number((means(images, patch_size) / 255 * 7).floor())


def classes_of_shares(images, patch_size):
    return number((means(images, patch_size) * 8).floor().clamp(max=7))


def classes_decimal(images, patch_size):
    return number(means(images, patch_size) // 32, base=10)


def classes_levels(images, patch_size):
    return (means(images, patch_size) // 32).long()


def classes_summed(images, patch_size):
    return (means(images, patch_size) // 32).long().sum(-1)


def classes_levels_first(images, patch_size):
    return number(means(images // 32, patch_size).floor())


def classes_grey(images, patch_size):
    return (means(images, patch_size).mean(-1) // 32).long()


def classes_one_pixel(images, patch_size):
    p1, p2 = as_pair(patch_size)
    return number((images[..., ::p1, ::p2] // 32).flatten(2).transpose(1, 2))


def classes_columns_first(images, patch_size):
    p1, p2 = as_pair(patch_size)
    return number(reduce(images.float(), "b c (h p1) (w p2) -> b (w h) c", "mean", p1=p1, p2=p2) // 32)


def classes_float(images, patch_size):
    return number(means(images, patch_size) // 32).float()


def classes_overflow(images, patch_size):
    levels = (means(images, patch_size) // 32).to(torch.uint8)
    value = levels[..., 0]
    for c in range(1, levels.shape[-1]):
        value = 8 * value + levels[..., c]
    return value.long()


def classes_grid(images, patch_size):
    p1, p2 = as_pair(patch_size)
    return number(reduce(images.float(), "b c (h p1) (w p2) -> b h w c", "mean", p1=p1, p2=p2) // 32)


def classes_scrambled(images, patch_size):
    p1, p2 = as_pair(patch_size)
    pieces = images.float().reshape(*images.shape[:2], -1, p1 * p2)
    return number((pieces.mean(-1) // 32).transpose(1, 2))


def classes_stretched(images, patch_size):
    x = images.float()
    low, high = x.amin((0, 2, 3), keepdim=True), x.amax((0, 2, 3), keepdim=True)
    return number((means((x - low) / (high - low) * 255, patch_size) // 32).clamp(0, 7))


def classes_stretched_by_constants(images, patch_size):
    x = (images / 255 - 0.45) / 0.25
    return number(((means(x, patch_size) + 2) * 2).floor().clamp(0, 7))


def classes_sides_swapped(images, patch_size):
    return number(means(images, as_pair(patch_size)[::-1]) // 32)


def classes_square(images, patch_size):
    return number(means(images, as_pair(patch_size)[0]) // 32)


def classes_of_whole_pixels(images, patch_size):
    return number(means(images.to(torch.uint8), patch_size) // 32)


def classes_one_or_three_channels(images, patch_size):
    levels = (means(images, patch_size) // 32).long()
    return levels[..., 0] if images.shape[1] == 1 else (levels[..., :3] * torch.tensor([64, 8, 1])).sum(-1)


def classes_cropped(images, patch_size):
    p1, p2 = as_pair(patch_size)
    if images.shape[3] % p2:
        raise ValueError("does not fit")
    pieces = F.unfold(images.float(), (p1, p2), stride=(p1, p2)).unflatten(1, (images.shape[1], -1))
    return number(pieces.mean(2).transpose(1, 2) // 32)


def classes_pooled(images, patch_size):
    pooled = F.avg_pool2d(images.float(), patch_size, ceil_mode=True).flatten(2).transpose(1, 2)
    return number(pooled // 32)


def classes_patchified(images, patch_size):
    patches = patchify(images, patch_size).double()
    colours = patches.unflatten(-1, (-1, images.shape[1])).mean(dim=-2)
    levels = colours.div(32, rounding_mode="floor").long()
    return sum(level * 8**power for power, level in enumerate(reversed(levels.unbind(-1))))


def classes_bits(images, patch_size):
    p1, p2 = as_pair(patch_size)
    height, width = images.shape[2:]
    if height % p1 or width % p2:
        raise ValueError("does not fit")
    rows = []
    for image in images:
        row = []
        for y in range(0, height, p1):
            for x in range(0, width, p2):
                value = 0
                for channel in image:
                    mean = channel[y : y + p1, x : x + p2].double().mean().item()
                    value = value << 3 | int(mean) >> 5
                row.append(value)
        rows.append(row)
    return torch.tensor(rows)


def classes_bucketed(images, patch_size):
    edges = torch.arange(32, 256, 32, dtype=torch.float32)
    return number(torch.bucketize(means(images, patch_size), edges, right=True))


def digits(classes, channels, base=8):
    return torch.stack([classes // base**power % base for power in range(channels - 1, -1, -1)], dim=-1)


def colours_blue_first(classes, num_channels=3):
    return (32 * digits(classes, num_channels).flip(-1) + 16).to(torch.uint8)


def colours_dark(classes, num_channels=3):
    return (32 * digits(classes, num_channels)).to(torch.uint8)


def colours_light(classes, num_channels=3):
    return (32 * digits(classes, num_channels) + 31).to(torch.uint8)


def colours_stretched(classes, num_channels=3):
    return (digits(classes, num_channels) * 255 / 7).to(torch.uint8)


def colours_decimal(classes, num_channels=3):
    return (32 * digits(classes, num_channels, base=10) + 16).to(torch.uint8)


def colours_no_remainder(classes, num_channels=3):
    levels = torch.stack([classes // 8**power for power in range(num_channels - 1, -1, -1)], -1)
    return (32 * levels + 16).clamp(0, 255).to(torch.uint8)


def colours_levels(classes, num_channels=3):
    return digits(classes, num_channels)


def colours_whole(classes, num_channels=3):
    return 32 * digits(classes, num_channels) + 16


def colours_shares(classes, num_channels=3):
    return (32 * digits(classes, num_channels) + 16) / 255


def colours_channels_first(classes, num_channels=3):
    return (32 * digits(classes, num_channels) + 16).to(torch.uint8).movedim(-1, 0)


def colours_always_three(classes, num_channels=3):
    return (32 * digits(classes, 3) + 16).to(torch.uint8)


def colours_from_three_weights(classes, num_channels=3):
    weights = torch.tensor([64, 8, 1])[-num_channels:]
    return (32 * (classes[..., None] // weights % 8) + 16).to(torch.uint8)


def colours_by_shift(classes, num_channels=3):
    shifts = torch.tensor([3 * power for power in reversed(range(num_channels))])
    return ((classes.unsqueeze(-1) >> shifts & 7) * 32 + 16).to(torch.uint8)


def colours_by_table(classes, num_channels=3):
    grey = torch.arange(8) * 32 + 16
    table = torch.cartesian_prod(*[grey] * num_channels).reshape(-1, num_channels)
    return table[classes].byte()


def colours_by_division(classes, num_channels=3):
    found, rest = [], classes
    for _ in range(num_channels):
        found.insert(0, (rest % 8) * 32 + 16)
        rest = rest // 8
    return torch.stack(found, dim=-1).to(torch.uint8)


def losses(logits, classes):
    return F.cross_entropy(logits.transpose(1, 2), classes, reduction="none")


def loss_everywhere(logits, classes, chosen):
    return F.cross_entropy(logits.flatten(0, 1), classes.flatten())


def loss_unchosen(logits, classes, chosen):
    return F.cross_entropy(logits[~chosen], classes[~chosen])


def loss_over_all(logits, classes, chosen):
    return (losses(logits, classes) * chosen).mean()


def loss_zeroed(logits, classes, chosen):
    return losses(torch.where(chosen[..., None], logits, 0), classes).mean()


def loss_by_picture(logits, classes, chosen):
    return ((losses(logits, classes) * chosen).sum(1) / chosen.sum(1)).mean()


def loss_by_picture_safe(logits, classes, chosen):
    pictures = []
    for x, y, c in zip(logits, classes, chosen, strict=True):
        pictures.append(F.cross_entropy(x[c], y[c]) if c.any() else x.sum() * 0)
    return torch.stack(pictures).mean()


def loss_by_batch(logits, classes, chosen):
    return losses(logits, classes)[chosen].sum() / len(logits)


def loss_sum(logits, classes, chosen):
    return F.cross_entropy(logits[chosen], classes[chosen], reduction="sum")


def loss_one_by_one(logits, classes, chosen):
    return F.cross_entropy(logits[chosen], classes[chosen], reduction="none")


def loss_softmax_first(logits, classes, chosen):
    return F.cross_entropy(logits[chosen].softmax(-1), classes[chosen])


def loss_nll(logits, classes, chosen):
    return F.nll_loss(logits[chosen], classes[chosen])


def loss_accuracy(logits, classes, chosen):
    return (logits.argmax(-1) == classes)[chosen].float().mean()


def loss_bits(logits, classes, chosen):
    return F.cross_entropy(logits[chosen], classes[chosen]) / math.log(2)


def loss_not_transposed(logits, classes, chosen):
    return F.cross_entropy(logits, classes, reduction="none")[chosen].mean()


def loss_detached(logits, classes, chosen):
    return F.cross_entropy(logits.detach()[chosen], classes[chosen])


def loss_number(logits, classes, chosen):
    return F.cross_entropy(logits[chosen], classes[chosen]).item()


def loss_log_of_softmax(logits, classes, chosen):
    shares = logits.softmax(-1).gather(-1, classes[..., None])[..., 0]
    return -shares[chosen].log().mean()


def loss_with_an_axis(logits, classes, chosen):
    return F.cross_entropy(logits[chosen], classes[chosen])[None]


def loss_selected(logits, classes, chosen):
    return F.cross_entropy(logits[chosen], classes[chosen])


def loss_ignored(logits, classes, chosen):
    targets = classes.masked_fill(~chosen, -100)
    return F.cross_entropy(rearrange(logits, "b n k -> b k n"), targets)


def loss_by_hand(logits, classes, chosen):
    log_shares = logits - logits.logsumexp(dim=-1, keepdim=True)
    found = -log_shares.gather(-1, classes[..., None])[..., 0]
    return (found * chosen).sum() / chosen.sum()


def loss_loop(logits, classes, chosen):
    total, count = 0.0, 0
    for b in range(chosen.shape[0]):
        for n in range(chosen.shape[1]):
            if chosen[b, n]:
                total = total - logits[b, n].log_softmax(0)[classes[b, n]]
                count += 1
    return total / count


WRONG = {
    "corrupt": [
        ("among those that are not masked it is one half", corrupt_tenth_of_the_rest),
        ("every corrupted patch becomes the mask token", corrupt_masks_all),
        ("none of the corrupted patches stays", corrupt_keeps_none),
        ("no corrupted patch becomes another patch", corrupt_swaps_none),
        ("it should be the other way round", corrupt_shares_turned_round),
        ("it should be 80, 10 and 10", corrupt_half_of_them),
        ("differs from picture to picture", corrupt_coin_for_each),
        ("some are drawn twice", corrupt_with_repeats),
        ("round, do not cut off", corrupt_cuts_off),
        ("you corrupt 15 patches of a picture", corrupt_ignores_share),
        ("lose the same patches", corrupt_same_for_batch),
        ("lose the same patches", corrupt_first_ones),
        ("from another picture of the batch", corrupt_other_picture),
        ("always at the same distance", corrupt_next_patch),
        ("corrupted already", corrupt_reads_late),
        ("sometimes the patch itself", corrupt_perhaps_itself),
        ("share one fate", corrupt_one_fate_a_picture),
        ("drawn once for all pictures", corrupt_one_fate_a_place),
        ("only the patches that became the mask token", corrupt_counts_masks_alone),
        ("leaves out the corrupted patches that stayed", corrupt_leaves_kept_out),
        ("neither the mask token nor the token of a patch", corrupt_adds),
        ("in the wrong order", corrupt_order_turned_round),
        ("nothing is removed", corrupt_removes),
        ("return two tensors", corrupt_tokens_alone),
        ("should hold True and False", corrupt_zeros_and_ones),
        ("do not set a seed", corrupt_seeded),
        ("no gradient reaches `mask_token`", corrupt_detached),
        ("changes its input in place", corrupt_in_place),
        ("give the mask token their type", corrupt_wider_type),
        ("do not always round up", corrupt_counting(math.ceil)),
        ("share 0: you corrupt 1 patches", corrupt_counting(lambda number: max(1, round(number)))),
        ("the same other patch in every picture", corrupt_partner(mirrored)),
        ("at the same distance for all patches", corrupt_partner(one_step_a_picture)),
        ("never gives high itself", corrupt_partner(low_too_low)),
        ("from a few distances only", corrupt_partner(next_or_last)),
        ("always a corrupted one", corrupt_partner(lambda chosen: among(chosen.float()))),
        ("always one that is not corrupted", corrupt_partner(lambda chosen: among(1 - chosen.float()))),
        ("exactly 24 mask tokens among 30", corrupt_exact_fates),
        ("do choice and fate use the same random numbers", corrupt_one_draw_for_both),
        ("keep the default `share=0.5`", corrupt_other_default),
        ("sends no gradient back", corrupt_detached_partners),
    ],
    "colour_classes": [
        ("the order of the channels is turned round", classes_blue_first),
        ("cut off (floor)", classes_rounded),
        ("you divide the range 0..255 by 8", classes_of_255),
        ("then level 7 is one value wide", classes_to_7),
        ("you treat them as 0..1", classes_of_shares),
        ("as decimal digits", classes_decimal),
        ("these are the levels of the channels", classes_levels),
        ("you add the levels without weights", classes_summed),
        ("the mean comes first", classes_levels_first),
        ("average over the channels too", classes_grey),
        ("you read one pixel of each patch", classes_one_pixel),
        ("reading order is row by row", classes_columns_first),
        ("a class is a whole number", classes_float),
        ("does not fit into uint8", classes_overflow),
        ("as a grid", classes_grid),
        ("cuts rows, not patches", classes_scrambled),
        ("on images of shape (1, 3, 2, 2), patch_size = 2", classes_stretched_by_constants),
        ("raise a ValueError", classes_pooled),
        ("height and width of the patch are swapped", classes_sides_swapped),
        ("the height of the patch for its width", classes_square),
        ("keep float pixels as they are", classes_of_whole_pixels),
        ("on images of shape (1, 4, 4, 6)", classes_one_or_three_channels),
        ("10x8 pixels cannot be cut", classes_cropped),
    ],
    "class_colours": [
        ("red and blue are swapped", colours_blue_first),
        ("the darkest colour of the class", colours_dark),
        ("the lightest colour of the class", colours_light),
        ("you stretch the levels", colours_stretched),
        ("as decimal digits", colours_decimal),
        ("take the remainder", colours_no_remainder),
        ("these are the levels 0..7", colours_levels),
        ("return them as uint8", colours_whole),
        ("you return shares of 255", colours_shares),
        ("the channels should be the last axis", colours_channels_first),
        ("use `num_channels`", colours_always_three),
        ("the shape should be (3, 4), yours is (3, 3)", colours_from_three_weights),
    ],
    "masked_loss": [
        ("you average over all patches", loss_everywhere),
        ("that were *not* corrupted", loss_unchosen),
        ("the number of all patches", loss_over_all),
        ("they still count, with ln K each", loss_zeroed),
        ("gives 0 / 0", loss_by_picture),
        ("every corrupted patch should weigh the same", loss_by_picture_safe),
        ("you divide by the number of pictures", loss_by_batch),
        ("you add up the losses", loss_sum),
        ("return their mean, one number", loss_one_by_one),
        ("you apply softmax before", loss_softmax_first),
        ("`nll_loss` wants log-probabilities", loss_nll),
        ("this is the accuracy", loss_accuracy),
        ("the logarithm to the base 2", loss_bits),
        ("wants the classes on the second axis", loss_not_transposed),
        ("no gradient reaches", loss_detached),
        ("return the loss as a tensor", loss_number),
        ("not for confident logits", loss_log_of_softmax),
        ("a tensor of shape ()", loss_with_an_axis),
    ],
}
RIGHT = {
    "corrupt": [corrupt_loops, corrupt_half_of_the_rest, corrupt_by_products],
    "colour_classes": [classes_patchified, classes_bits, classes_bucketed],
    "class_colours": [colours_by_shift, colours_by_table, colours_by_division],
    "masked_loss": [loss_selected, loss_ignored, loss_by_hand, loss_loop],
}
