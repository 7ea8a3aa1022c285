"""Answers to the exercises of lesson 11, written as students write them."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange

from vit_course.beyond.hybrid import HybridViT, tokens_from_map
from vit_course.patches import as_pair, check_images, grid_size


def shape_halves_first(img_size, width=16, stages=4, lengthen=False):
    used = stages - lengthen
    rows, columns = grid_size(img_size, 2**used)
    return width * 2 ** (used - 1), rows, columns


def shape_counts_one_more(img_size, width=16, stages=4, lengthen=False):
    factor = 2 ** (stages - lengthen)
    rows, columns = grid_size(img_size, factor)
    return width * factor, rows, columns


def shape_channels_too_early(img_size, width=16, stages=4, lengthen=False):
    rows, columns = grid_size(img_size, 2 ** (stages - 1 - lengthen))
    return width * 2 ** (stages - lengthen), rows, columns


def shape_never_lengthens(img_size, width=16, stages=4, lengthen=False):
    rows, columns = grid_size(img_size, 2 ** (stages - 1))
    return width * 2 ** (stages - 1), rows, columns


def shape_lengthens_the_network(img_size, width=16, stages=4, lengthen=False):
    factor = 2 ** (stages - 1 + lengthen)
    rows, columns = grid_size(img_size, factor)
    return width * factor, rows, columns


def shape_old_channels(img_size, width=16, stages=4, lengthen=False):
    rows, columns = grid_size(img_size, 2 ** (stages - 1 - lengthen))
    return width * 2 ** (stages - 1), rows, columns


def shape_first_channels(img_size, width=16, stages=4, lengthen=False):
    return (width, *grid_size(img_size, 2 ** (stages - 1 - lengthen)))


def shape_adds_channels(img_size, width=16, stages=4, lengthen=False):
    used = stages - lengthen
    return (width * used, *grid_size(img_size, 2 ** (used - 1)))


def shape_columns_first(img_size, width=16, stages=4, lengthen=False):
    factor = 2 ** (stages - 1 - lengthen)
    rows, columns = grid_size(img_size, factor)
    return width * factor, columns, rows


def shape_channels_last(img_size, width=16, stages=4, lengthen=False):
    factor = 2 ** (stages - 1 - lengthen)
    return (*grid_size(img_size, factor), width * factor)


def shape_square(img_size, width=16, stages=4, lengthen=False):
    factor = 2 ** (stages - 1 - lengthen)
    side = as_pair(img_size)[0] // factor
    return width * factor, side, side


def shape_tokens(img_size, width=16, stages=4, lengthen=False):
    factor = 2 ** (stages - 1 - lengthen)
    rows, columns = grid_size(img_size, factor)
    return width * factor, rows * columns


def shape_rounds_down(img_size, width=16, stages=4, lengthen=False):
    factor = 2 ** (stages - 1 - lengthen)
    height, across = as_pair(img_size)
    return width * factor, height // factor, across // factor


def shape_fractions(img_size, width=16, stages=4, lengthen=False):
    factor = 2 ** (stages - 1 - lengthen)
    height, across = as_pair(img_size)
    return width * factor, height / factor, across / factor


def shape_old_divisor(img_size, width=16, stages=4, lengthen=False):
    factor = 2 ** (stages - 1)
    height, across = as_pair(img_size)
    if height % factor or across % factor:
        raise ValueError(f"{height}x{across} cannot be divided by {factor}")
    factor //= 1 + lengthen
    return width * factor, height // factor, across // factor


def shape_tests_the_sum(img_size, width=16, stages=4, lengthen=False):
    factor = 2 ** (stages - 1 - lengthen)
    height, across = as_pair(img_size)
    if (height + across) % factor:
        raise ValueError(f"{height}x{across} cannot be divided by {factor}")
    return width * factor, height // factor, across // factor


def shape_loop(img_size, width=16, stages=4, lengthen=False):
    height, across = as_pair(img_size)
    for _ in range(stages - 1 - bool(lengthen)):
        if height % 2 or across % 2:
            raise ValueError(f"{height}x{across} cannot be halved")
        height, across, width = height // 2, across // 2, 2 * width
    return width, height, across


def shape_list(img_size, width=16, stages=4, lengthen=False):
    factor = 1 << (stages - (2 if lengthen else 1))
    return [factor * width, *grid_size(img_size, factor)]


def tokens_reshaped(feature_map, weight, bias):
    batch, channels = feature_map.shape[:2]
    return feature_map.reshape(batch, -1, channels) @ weight.T + bias


def tokens_by_columns(feature_map, weight, bias):
    return feature_map.permute(0, 3, 2, 1).flatten(1, 2) @ weight.T + bias


def tokens_no_bias(feature_map, weight, bias):
    return feature_map.flatten(2).transpose(1, 2) @ weight.T


def tokens_no_layer(feature_map, weight, bias):
    return feature_map.flatten(2).transpose(1, 2)


def tokens_weight_never_turned(feature_map, weight, bias):
    return feature_map.flatten(2).transpose(1, 2) @ weight + bias


def tokens_last(feature_map, weight, bias):
    return weight @ feature_map.flatten(2) + bias[:, None]


def tokens_as_map(feature_map, weight, bias):
    return F.conv2d(feature_map, weight[:, :, None, None], bias)


def tokens_not_joined(feature_map, weight, bias):
    return feature_map.permute(0, 2, 3, 1) @ weight.T + bias


def tokens_pooled(feature_map, weight, bias):
    return feature_map.mean(dim=(2, 3)) @ weight.T + bias


def tokens_one(feature_map, weight, bias):
    return feature_map.mean(dim=(2, 3))[:, None] @ weight.T + bias


def tokens_with_cls(feature_map, weight, bias):
    tokens = tokens_from_map(feature_map, weight, bias)
    return torch.cat([torch.zeros_like(tokens[:, :1]), tokens], dim=1)


def tokens_relu(feature_map, weight, bias):
    return F.relu(tokens_from_map(feature_map, weight, bias))


def tokens_detached(feature_map, weight, bias):
    return tokens_from_map(feature_map.detach(), weight, bias)


def tokens_convolved(feature_map, weight, bias):
    return F.conv2d(feature_map, weight[:, :, None, None], bias).flatten(2).transpose(1, 2)


def tokens_linear(feature_map, weight, bias):
    return F.linear(rearrange(feature_map, "b c h w -> b (h w) c"), weight, bias)


def tokens_einsum(feature_map, weight, bias):
    return torch.einsum("bchw,dc->bhwd", feature_map, weight).flatten(1, 2) + bias


def tokens_one_by_one(feature_map, weight, bias):
    rows, columns = feature_map.shape[2:]
    places = [(row, column) for row in range(rows) for column in range(columns)]
    return torch.stack([feature_map[:, :, r, c] @ weight.T + bias for r, c in places], dim=1)


def field_no_strides(layers):
    return 1 + sum(kernel - 1 for kernel, _ in layers)


def field_own_stride(layers):
    field, jump = 1, 1
    for kernel, stride in layers:
        jump *= stride
        field += (kernel - 1) * jump
    return field


def field_last_stride(layers):
    field, before = 1, 1
    for kernel, stride in layers:
        field += (kernel - 1) * before
        before = stride
    return field


def field_own_stride_only(layers):
    return 1 + sum((kernel - 1) * stride for kernel, stride in layers)


def field_adds_strides(layers):
    field, jump = 1, 1
    for kernel, stride in layers:
        field += (kernel - 1) * jump
        jump += stride - 1
    return field


def field_whole_kernels(layers):
    field, jump = 1, 1
    for kernel, stride in layers:
        field += kernel * jump
        jump *= stride
    return field


def field_from_zero(layers):
    field, jump = 0, 1
    for kernel, stride in layers:
        field += (kernel - 1) * jump
        jump *= stride
    return field


def field_one_side(layers):
    field, jump = 1, 1
    for kernel, stride in layers:
        field += kernel // 2 * jump
        jump *= stride
    return field


def field_product(layers):
    return math.prod(kernel for kernel, _ in layers)


def field_wrong_direction(layers):
    field = 1
    for kernel, stride in layers:
        field = (field - 1) * stride + kernel
    return field


def field_area(layers):
    return field_backwards(layers) ** 2


def field_stride(layers):
    return math.prod(stride for _, stride in layers)


def field_backwards(layers):
    field = 1
    for kernel, stride in reversed(layers):
        field = (field - 1) * stride + kernel
    return field


def field_in_one_line(layers):
    return 1 + sum((k - 1) * math.prod(s for _, s in layers[:i]) for i, (k, _) in enumerate(layers))


def field_popping(layers):
    if not layers:
        return 1
    kernel, stride = layers.pop()
    step = math.prod(s for _, s in layers)
    return (kernel - 1) * step + field_popping(layers)


def field_recursive(layers):
    if not layers:
        return 1
    (kernel, stride), *rest = layers
    return kernel + stride * (field_recursive(rest) - 1)


class HybridNoAttention(HybridViT):
    def forward(self, images, return_attention=False):
        check_images(images, self.in_chans, self.img_size)
        return self.vit(self.backbone(images))


class HybridAlwaysAttention(HybridViT):
    def forward(self, images, return_attention=False):
        return self.vit(self.backbone(images), return_attention=True)


class HybridNoBackbone(HybridViT):
    def forward(self, images, return_attention=False):
        return self.vit(images, return_attention)


class HybridBackboneTwice(HybridViT):
    def forward(self, images, return_attention=False):
        return self.vit(self.backbone(self.backbone(images)), return_attention)


class HybridStopsAtMap(HybridViT):
    def forward(self, images, return_attention=False):
        return self.backbone(images)


class HybridStopsAtTokens(HybridViT):
    def forward(self, images, return_attention=False):
        tokens = self.vit.embed(self.backbone(images))
        return self.vit.norm(self.vit.blocks(tokens))


class HybridUnchecked(HybridViT):
    def forward(self, images, return_attention=False):
        return self.vit(self.backbone(images), return_attention)


class HybridChecksChannelsAlone(HybridViT):
    def forward(self, images, return_attention=False):
        check_images(images, self.in_chans)
        return self.vit(self.backbone(images), return_attention)


class HybridDetached(HybridViT):
    def forward(self, images, return_attention=False):
        check_images(images, self.in_chans, self.img_size)
        with torch.no_grad():
            feature_map = self.backbone(images)
        return self.vit(feature_map, return_attention)


class HybridBackboneEvaluated(HybridViT):
    def forward(self, images, return_attention=False):
        check_images(images, self.in_chans, self.img_size)
        return self.vit(self.backbone.eval()(images), return_attention)


class HybridSoftmax(HybridViT):
    def forward(self, images, return_attention=False):
        if return_attention:
            logits, attentions = self.vit(self.backbone(images), True)
            return logits.softmax(dim=-1), attentions
        return self.vit(self.backbone(images)).softmax(dim=-1)


class HybridLastLayer(HybridViT):
    def forward(self, images, return_attention=False):
        result = self.vit(self.backbone(images), return_attention)
        return (result[0], result[1][-1]) if return_attention else result


class HybridTurned(HybridViT):
    def forward(self, images, return_attention=False):
        maps = self.backbone(images)
        columns_first = rearrange(maps, "b c h w -> b c w h").reshape(maps.shape)
        return self.vit(columns_first, return_attention)


class HybridVitEvaluated(HybridViT):
    def forward(self, images, return_attention=False):
        check_images(images, self.in_chans, self.img_size)
        return self.vit.eval()(self.backbone(images), return_attention)


class HybridListOfLast(HybridViT):
    def forward(self, images, return_attention=False):
        result = self.vit(self.backbone(images), return_attention)
        return (result[0], [result[1][-1]]) if return_attention else result


class HybridFirstLayer(HybridViT):
    def forward(self, images, return_attention=False):
        result = self.vit(self.backbone(images), return_attention)
        return (result[0], result[1][0]) if return_attention else result


class HybridStacked(HybridViT):
    def forward(self, images, return_attention=False):
        result = self.vit(self.backbone(images), return_attention)
        return (result[0], torch.stack(result[1])) if return_attention else result


class HybridWeightsAlone(HybridViT):
    def forward(self, images, return_attention=False):
        result = self.vit(self.backbone(images), return_attention)
        return result[1] if return_attention else result


class HybridNone(HybridViT):
    def forward(self, images, return_attention=False):
        logits = self.vit(self.backbone(images))
        return (logits, None) if return_attention else logits


class HybridClasses(HybridViT):
    def forward(self, images, return_attention=False):
        result = self.vit(self.backbone(images), return_attention)
        return (result[0].argmax(dim=1), result[1]) if return_attention else result.argmax(dim=1)


class HybridTurnedRound(HybridViT):
    def forward(self, images, return_attention=False):
        return self.vit(self.backbone(images), return_attention=not return_attention)


class HybridChecksASide(HybridViT):
    def forward(self, images, return_attention=False):
        check_images(images, self.in_chans, self.img_size[0])
        return self.vit(self.backbone(images), return_attention)


class HybridForgetsToReturn(HybridViT):
    def forward(self, images, return_attention=False):
        check_images(images, self.in_chans, self.img_size)
        self.vit(self.backbone(images), return_attention)


class HybridByHand(HybridViT):
    def forward(self, images, return_attention=False):
        check_images(images, self.in_chans, self.img_size)
        if return_attention:
            return self.vit(self.backbone(images), return_attention=True)
        x = images
        for layer in self.backbone:
            x = layer(x)
        return self.vit(x)


class HybridOwnErrors(HybridViT):
    def forward(self, pictures, wanted=False):
        if pictures.ndim != 4 or tuple(pictures.shape[1:]) != (self.in_chans, *self.img_size):
            raise ValueError(f"{tuple(pictures.shape)} should be (B, {self.in_chans}, *{self.img_size})")
        return self.vit.forward(self.backbone.forward(pictures), wanted)


class HybridOwnTokens(HybridViT):
    def forward(self, images, return_attention=False):
        check_images(images, self.in_chans, self.img_size)
        maps, vit = self.backbone(images), self.vit
        if return_attention:
            return vit(maps, True)
        proj = vit.patch_embed.proj
        tokens = tokens_from_map(maps, proj.weight.flatten(1), proj.bias)
        if vit.cls_token is not None:
            tokens = torch.cat([vit.cls_token.expand(len(tokens), -1, -1), tokens], dim=1)
        out = vit.norm(vit.blocks(tokens + vit.pos_embed))
        return vit.head(
            out[:, 0] if vit.global_pool == "token" else out[:, vit.num_prefix_tokens :].mean(dim=1)
        )


def crossing(curve, target):
    """Return the measured points around the first crossing."""
    points = sorted(curve.items())
    return next(((a, b) for a, b in zip(points, points[1:], strict=False) if a[1] < target <= b[1]), None)


def interpolate(curve, target, scale=math.log, back=math.exp, before="first", never=None):
    first, accuracy = min(curve.items())
    if accuracy >= target:
        return float(first) if before == "first" else before
    around = crossing(curve, target)
    if around is None:
        return never
    (few, low), (many, high) = around
    share = (target - low) / (high - low)
    return back((1 - share) * scale(few) + share * scale(many))


def needed_straight(curve, target):
    return interpolate(curve, target, scale=float, back=float)


def needed_next_point(curve, target):
    return next((float(count) for count in sorted(curve) if curve[count] >= target), None)


def needed_point_before(curve, target):
    if crossing(curve, target):
        return float(crossing(curve, target)[0][0])
    return interpolate(curve, target)


def needed_logarithm(curve, target):
    return interpolate(curve, target, back=float) if crossing(curve, target) else interpolate(curve, target)


def needed_unsorted(curve, target):
    points = list(curve.items())
    if points[0][1] >= target:
        return float(points[0][0])
    for (few, low), (many, high) in zip(points, points[1:], strict=False):
        if high >= target:
            return 10 ** np.interp(target, [low, high], np.log10([few, many]))
    return None


def needed_last_crossing(curve, target):
    points = sorted(curve.items())
    found = interpolate(curve, target)
    for (few, low), (many, high) in zip(points, points[1:], strict=False):
        if low < target <= high:
            found = math.exp(np.interp(target, [low, high], np.log([few, many])))
    return found


def needed_largest(curve, target):
    return interpolate(curve, target, never=float(max(curve)))


def needed_infinity(curve, target):
    return interpolate(curve, target, never=math.inf)


def needed_minus_one(curve, target):
    return interpolate(curve, target, never=-1)


def needed_none_before(curve, target):
    return interpolate(curve, target, before=None)


def needed_zero_before(curve, target):
    return interpolate(curve, target, before=0)


def needed_extrapolated_left(curve, target):
    (few, low), (many, high) = sorted(curve.items())[:2]
    if low > target:
        return math.exp(math.log(few) + (target - low) / (high - low) * math.log(many / few))
    return interpolate(curve, target)


def needed_extrapolated_right(curve, target):
    (few, low), (many, high) = sorted(curve.items())[-2:]
    if max(curve.values()) < target:
        return math.exp(math.log(few) + (target - low) / (high - low) * math.log(many / few))
    return interpolate(curve, target)


def needed_looked_up(curve, target):
    for count in sorted(curve):
        if curve[count] == target:
            return float(count)
    return None


def needed_powers(curve, target):
    return interpolate(curve, target, scale=math.log2, back=lambda x: 2.0**x)


def needed_numpy(curve, target):
    counts = np.array(sorted(curve))
    scores = np.array([curve[count] for count in counts])
    reached = np.flatnonzero(scores >= target)
    if not len(reached):
        return None
    i = reached[0]
    if i == 0:
        return counts[0]
    return np.exp(np.interp(target, scores[i - 1 : i + 1], np.log(counts[i - 1 : i + 1])))


def needed_interpolated_at_once(curve, target):
    amounts = sorted(curve)
    scores = [curve[amount] for amount in amounts]
    return None if target > max(scores) else math.exp(np.interp(target, scores, np.log(amounts)))


def needed_interpolated_below_last(curve, target):
    amounts = np.array(sorted(curve))
    scores = np.array([curve[amount] for amount in amounts])
    return None if target > scores[-1] else 10 ** np.interp(target, scores, np.log10(amounts))


def needed_by_accuracy(curve, target):
    points = sorted(curve.items(), key=lambda point: point[1])
    if target > points[-1][1]:
        return None
    return math.exp(np.interp(target, [y for _, y in points], [math.log(x) for x, _ in points]))


def needed_compares_the_last(curve, target):
    return None if target > curve[max(curve)] else interpolate(curve, target)


def needed_between(curve, target):
    points = sorted(curve.items())
    if len(points) == 1:
        return interpolate(curve, target)
    for (few, low), (many, high) in zip(points, points[1:], strict=False):
        if low <= target <= high:
            return few * (many / few) ** ((target - low) / (high - low))
    return None


def needed_two_points_around_it(curve, target):
    points = sorted(curve.items())
    for (few, low), (many, high) in zip(points, points[1:], strict=False):
        if low <= target <= high:
            return few * (many / few) ** ((target - low) / (high - low))
    return None


def needed_strict(curve, target):
    return interpolate(curve, target) if target < max(curve.values()) else None


def needed_rounded(curve, target):
    amount = interpolate(curve, target)
    return amount if amount is None else float(round(amount))


def needed_middle(curve, target):
    if not crossing(curve, target):
        return interpolate(curve, target)
    (few, _), (many, _) = crossing(curve, target)
    return math.sqrt(few * many)


def needed_wrong_end(curve, target):
    if not crossing(curve, target):
        return interpolate(curve, target)
    (few, low), (many, high) = crossing(curve, target)
    return many * (few / many) ** ((target - low) / (high - low))


def needed_both_logarithms(curve, target):
    if not crossing(curve, target):
        return interpolate(curve, target)
    (few, low), (many, high) = crossing(curve, target)
    return few * (many / few) ** (math.log(target / low) / math.log(high / low))


def needed_index_walk(curve, target):
    amounts = sorted(curve)
    i = 0
    while i < len(amounts) and curve[amounts[i]] < target:
        i += 1
    if i in (0, len(amounts)):
        return None if i else float(amounts[0])
    low, high = curve[amounts[i - 1]], curve[amounts[i]]
    weight = (high - target) / (high - low)
    return amounts[i - 1] ** weight * amounts[i] ** (1 - weight)


def needed_popping(curve, target):
    before = None
    while curve:
        count = min(curve)
        accuracy = curve.pop(count)
        if accuracy >= target:
            if before is None:
                return count
            share = (target - before[1]) / (accuracy - before[1])
            return before[0] ** (1 - share) * count**share
        before = count, accuracy
    return None


WRONG = {
    "feature_map_shape": [
        ("you halve once too often", shape_halves_first),
        ("you count one stage too many", shape_counts_one_more),
        ("the channels double once too often", shape_channels_too_early),
        ("`lengthen` changes nothing", shape_never_lengthens),
        ("`lengthen` adds a stage", shape_lengthens_the_network),
        ("those of the stage that was left out", shape_old_channels),
        ("those of the first stage", shape_first_channels),
        ("they do not grow by `width` each time", shape_adds_channels),
        ("rows and columns are swapped", shape_columns_first),
        ("in the wrong order", shape_channels_last),
        ("your map is always square", shape_square),
        ("three numbers", shape_tokens),
        ("cannot be divided by 8", shape_rounds_down),
        ("divide with //", shape_fractions),
        ("lengthen = True (smaller inputs are right), your code stopped", shape_old_divisor),
        ("a picture of (12, 20) pixels cannot be divided by 8", shape_tests_the_sum),
    ],
    "tokens_from_map": [
        ("the numbers are mixed", tokens_reshaped),
        ("column by column", tokens_by_columns),
        ("the bias is missing", tokens_no_bias),
        ("the linear layer is missing", tokens_no_layer),
        ("tokens @ W.T", tokens_weight_never_turned),
        ("you return (B, D, N)", tokens_last),
        ("the map of D channels is right", tokens_as_map),
        ("should become one axis", tokens_not_joined),
        ("each position should be a token of its own", tokens_pooled),
        ("that is one token", tokens_one),
        ("a token too many", tokens_with_cls),
        ("no ReLU", tokens_relu),
        ("no gradient reaches `feature_map`", tokens_detached),
    ],
    "receptive_field": [
        ("the strides are left out", field_no_strides),
        ("own stride counts too early", field_own_stride),
        ("only the stride of the layer before", field_last_stride),
        ("multiplied by its own stride", field_own_stride_only),
        ("the strides are added up", field_adds_strides),
        ("a kernel of size k adds k - 1", field_whole_kernels),
        ("one pixel is missing", field_from_zero),
        ("you count one side of the kernel", field_one_side),
        ("the kernel sizes are multiplied", field_product),
        ("from the last layer back to the first", field_wrong_direction),
        ("you return the area", field_area),
        ("the product of the strides: that is", field_stride),
        ("your code changes `layers` itself", field_popping),
    ],
    "HybridViT": [
        ("`return_attention` is forgotten", HybridNoAttention),
        ("you always ask for the attention", HybridAlwaysAttention),
        ("the backbone never runs", HybridNoBackbone),
        ("the backbone runs 2 times", HybridBackboneTwice),
        ("you return the feature map", HybridStopsAtMap),
        ("you stopped at the tokens", HybridStopsAtTokens),
        ("pictures of 7x8 went into a model for 8x8", HybridUnchecked),
        ("call `check_images` first", HybridChecksChannelsAlone),
        ("no gradient reaches the weights backbone", HybridDetached),
        ("leave the modes alone", HybridBackboneEvaluated),
        ("the loss does the softmax", HybridSoftmax),
        ("the weights of *every* layer", HybridLastLayer),
        ("your function returned nothing", HybridForgetsToReturn),
        ("switches the mode of a part", HybridVitEvaluated),
        ("your list has the last layer alone", HybridListOfLast),
        ("those of the first", HybridFirstLayer),
        ("do not stack them", HybridStacked),
        ("the logits, then the weights", HybridWeightsAlone),
        ("None in place of the attention weights", HybridNone),
        ("not the class that wins", HybridClasses),
        ("is turned round", HybridTurnedRound),
        ("cannot unpack non-iterable int", HybridChecksASide),
    ],
    "data_needed": [
        ("the axis of the figure is logarithmic", needed_straight),
        ("you return the next measured number", needed_next_point),
        ("the measured number before the crossing", needed_point_before),
        ("you return a logarithm", needed_logarithm),
        ("sort them by the number of pictures", needed_unsorted),
        ("the smallest number counts", needed_last_crossing),
        ("the largest number of pictures was not enough", needed_largest),
        ("not infinity", needed_infinity),
        ("-1 looks like a number of pictures", needed_minus_one),
        ("that number is the answer, not None", needed_none_before),
        ("nobody measured what fewer would do", needed_zero_before),
        ("to the left of the first point", needed_extrapolated_left),
        ("to the right of the last point", needed_extrapolated_right),
        ("find the two points around it", needed_looked_up),
        ("accuracies that only rise", needed_interpolated_at_once),
        ("accuracies that only rise", needed_interpolated_below_last),
        ("not by their accuracy", needed_by_accuracy),
        ("you compare with the last point alone", needed_compares_the_last),
        ("that number is the answer, not None", needed_between),
        ("use >= there", needed_strict),
        ("the amount is rounded", needed_rounded),
        ("that number is the answer, not None", needed_two_points_around_it),
        ("the middle of the two points", needed_middle),
        ("the share counts from the wrong end", needed_wrong_end),
        ("the logarithm of the accuracies as well", needed_both_logarithms),
        ("your code changes `curve` itself", needed_popping),
    ],
}
RIGHT = {
    "feature_map_shape": [shape_loop, shape_list],
    "tokens_from_map": [tokens_convolved, tokens_linear, tokens_einsum, tokens_one_by_one],
    "receptive_field": [field_backwards, field_in_one_line, field_recursive],
    "HybridViT": [HybridByHand, HybridOwnErrors, HybridOwnTokens],
    "data_needed": [interpolate, needed_powers, needed_numpy, needed_index_walk],
}
