"""Answers to the exercises of lesson 06, written as students write them."""

import torch
from torch import nn

from vit_course.embeddings import add_position, pool, prepend_cls_token
from vit_course.vit import VisionTransformer


class ReadsPatch(VisionTransformer):
    def forward(self, images, return_attention=False):
        x = self.norm(self.blocks(self.embed(images)))
        return self.head(self.pre_logits(x[:, -1]))


class ReadsSecond(VisionTransformer):
    def forward(self, images, return_attention=False):
        x = self.norm(self.blocks(self.embed(images)))
        return self.head(x[:, 1])


class NoFinalNorm(VisionTransformer):
    def forward(self, images, return_attention=False):
        x = self.embed(images)
        x = self.blocks(x)
        x = pool(x, self.global_pool, self.num_prefix_tokens)
        return self.head(self.pre_logits(x))


class NormAfterPool(VisionTransformer):
    def forward(self, images, return_attention=False):
        x, attentions = self.blocks(self.embed(images), return_attention=True)
        x = self.norm(pool(x, self.global_pool, self.num_prefix_tokens))
        logits = self.head(self.pre_logits(x))
        return (logits, attentions) if return_attention else logits


class NoEmbed(VisionTransformer):
    def forward(self, images, return_attention=False):
        x = self.norm(self.blocks(self.patch_embed(images)))
        return self.head(self.pre_logits(pool(x, self.global_pool, self.num_prefix_tokens)))


class PositionsFirst(VisionTransformer):
    def forward(self, images, return_attention=False):
        x = add_position(self.patch_embed(images), self.pos_embed[:, 1:])
        x = prepend_cls_token(x, self.cls_token)
        return self.head(self.norm(self.blocks(x))[:, 0])


class NoPositions(VisionTransformer):
    def forward(self, images, return_attention=False):
        x = prepend_cls_token(self.patch_embed(images), self.cls_token)
        return self.head(self.norm(self.blocks(x))[:, 0])


class AlwaysCls(VisionTransformer):
    def forward(self, images, return_attention=False):
        return self.head(self.norm(self.blocks(self.embed(images)))[:, 0])


class AveragesAll(VisionTransformer):
    def forward(self, images, return_attention=False):
        x = self.norm(self.blocks(self.embed(images)))
        x = x[:, 0] if self.global_pool == "token" else x.mean(dim=1)
        return self.head(self.pre_logits(x))


class AlwaysOnePrefix(VisionTransformer):
    def forward(self, images, return_attention=False):
        x = self.norm(self.blocks(self.embed(images)))
        return self.head(self.pre_logits(pool(x, self.global_pool)))


class NoPreLogits(VisionTransformer):
    def forward(self, images, return_attention=False):
        x, attentions = self.blocks(self.embed(images), return_attention=True)
        logits = self.head(pool(self.norm(x), self.global_pool, self.num_prefix_tokens))
        return (logits, attentions) if return_attention else logits


class Probabilities(VisionTransformer):
    def forward(self, images, return_attention=False):
        x = pool(self.norm(self.blocks(self.embed(images))), self.global_pool, self.num_prefix_tokens)
        return self.head(self.pre_logits(x)).softmax(dim=-1)


class IgnoresAttention(VisionTransformer):
    def forward(self, images, return_attention=False):
        x = pool(self.norm(self.blocks(self.embed(images))), self.global_pool, self.num_prefix_tokens)
        return self.head(self.pre_logits(x))


class AlwaysAttention(VisionTransformer):
    def forward(self, images, return_attention=False):
        x, attentions = self.blocks(self.embed(images), return_attention=True)
        x = pool(self.norm(x), self.global_pool, self.num_prefix_tokens)
        return self.head(self.pre_logits(x)), attentions


class LastAttention(VisionTransformer):
    def forward(self, images, return_attention=False):
        x, attentions = self.blocks(self.embed(images), return_attention=True)
        x = pool(self.norm(x), self.global_pool, self.num_prefix_tokens)
        logits = self.head(self.pre_logits(x))
        return (logits, attentions[-1]) if return_attention else logits


class AttentionOfSecondTrip(VisionTransformer):
    def forward(self, images, return_attention=False):
        x = self.blocks(self.embed(images))
        logits = self.head(self.pre_logits(pool(self.norm(x), self.global_pool, self.num_prefix_tokens)))
        return (logits, self.blocks(x, return_attention=True)[1]) if return_attention else logits


class BlocksTwice(VisionTransformer):
    def forward(self, images, return_attention=False):
        x = self.blocks(self.embed(images))
        for block in self.blocks:
            x = block(x)
        return self.head(self.pre_logits(pool(self.norm(x), self.global_pool, self.num_prefix_tokens)))


class NormFirst(VisionTransformer):
    def forward(self, images, return_attention=False):
        x = self.blocks(self.norm(self.embed(images)))
        return self.head(self.pre_logits(pool(x, self.global_pool, self.num_prefix_tokens)))


class Detached(VisionTransformer):
    def forward(self, images, return_attention=False):
        with torch.no_grad():
            x = self.embed(images)
        x, attentions = self.blocks(x, return_attention=True)
        logits = self.head(self.pre_logits(pool(self.norm(x), self.global_pool, self.num_prefix_tokens)))
        return (logits, attentions) if return_attention else logits


class EmbedWithoutDropout(VisionTransformer):
    def forward(self, images, return_attention=False):
        x = self.patch_embed(images)
        if self.cls_token is not None:
            x = prepend_cls_token(x, self.cls_token)
        if self.pos_embed is not None:
            x = x + (self.pos_embed() if callable(self.pos_embed) else self.pos_embed)
        x, attentions = self.blocks(x, return_attention=True)
        logits = self.head(self.pre_logits(pool(self.norm(x), self.global_pool, self.num_prefix_tokens)))
        return (logits, attentions) if return_attention else logits


class PosDropTwice(VisionTransformer):
    def forward(self, images, return_attention=False):
        x = self.pos_drop(self.embed(images))
        x, attentions = self.blocks(x, return_attention=True)
        logits = self.head(self.pre_logits(pool(self.norm(x), self.global_pool, self.num_prefix_tokens)))
        return (logits, attentions) if return_attention else logits


class PosDropBeforeHead(VisionTransformer):
    def forward(self, images, return_attention=False):
        x, attentions = self.blocks(self.embed(images), return_attention=True)
        y = self.pre_logits(pool(self.norm(x), self.global_pool, self.num_prefix_tokens))
        logits = self.head(self.pos_drop(y))
        return (logits, attentions) if return_attention else logits


class DropoutAlways(VisionTransformer):
    def forward(self, images, return_attention=False):
        x, attentions = self.blocks(self.embed(images), return_attention=True)
        y = self.pre_logits(pool(self.norm(x), self.global_pool, self.num_prefix_tokens))
        logits = self.head(nn.functional.dropout(y))
        return (logits, attentions) if return_attention else logits


class DropoutBeforeHead(VisionTransformer):
    def forward(self, images, return_attention=False):
        x, attentions = self.blocks(self.embed(images), return_attention=True)
        y = self.pre_logits(pool(self.norm(x), self.global_pool, self.num_prefix_tokens))
        logits = self.head(nn.functional.dropout(y, 0.1, self.training))
        return (logits, attentions) if return_attention else logits


class SwitchesToEvaluation(VisionTransformer):
    def forward(self, images, return_attention=False):
        self.eval()
        return super().forward(images, return_attention)


class TrainsAsInEvaluation(VisionTransformer):
    def forward(self, images, return_attention=False):
        training = self.training
        self.eval()
        result = super().forward(images, return_attention)
        self.train(training)
        return result


class OtherKeyword(VisionTransformer):
    def forward(self, images, weights=False):
        return super().forward(images, weights)


class FixedFloat32(VisionTransformer):
    def forward(self, images, return_attention=False):
        return super().forward(images.float(), return_attention)


class SquareCrop(VisionTransformer):
    def forward(self, images, return_attention=False):
        height, width = self.patch_embed.img_size
        images = images[:, :, :, :width].expand(-1, self.patch_embed.proj.in_channels, -1, -1)
        if images.shape[-1] < width:
            images = nn.functional.pad(images, (0, width - images.shape[-1]))
        return VisionTransformer.forward(self, images, return_attention)


class InOneGo(VisionTransformer):
    def forward(self, images, return_attention=False):
        x, attentions = self.blocks(self.embed(images), return_attention=True)
        logits = self.head(self.pre_logits(pool(self.norm(x), self.global_pool, self.num_prefix_tokens)))
        return (logits, attentions) if return_attention else logits


class BlockByBlock(VisionTransformer):
    def forward(self, images, return_attention=False):
        z, attentions = self.embed(images), []
        for block in self.blocks:
            if return_attention:
                _, weights = block.attn(block.norm1(z), return_attention=True)
                attentions.append(weights)
            z = block(z)
        if self.global_pool == "token":
            y = self.norm(z[:, 0])
        else:
            y = self.norm(z)[:, self.num_prefix_tokens :].mean(1)
        logits = self.head(self.pre_logits(y))
        if return_attention:
            return logits, attentions
        return logits


class SecondTripForWeights(VisionTransformer):
    def forward(self, images, return_attention=False):
        _, attentions = self.blocks(self.embed(images), return_attention=True)
        y = pool(self.norm(self.blocks(self.embed(images))), self.global_pool, self.num_prefix_tokens)
        logits = self.head(self.pre_logits(y))
        return (logits, attentions) if return_attention else logits


class NormByHand(VisionTransformer):
    def forward(self, images, return_attention=False):
        x = self.embed(images)
        attentions = None
        if return_attention:
            x, attentions = self.blocks(x, True)
        else:
            x = self.blocks(x)
        x = nn.functional.layer_norm(x, x.shape[-1:], self.norm.weight, self.norm.bias, 1e-6)
        if self.global_pool == "avg":
            patches = x[:, 1:] if self.cls_token is not None else x
            x = patches.sum(1) / patches.shape[1]
        else:
            x = x[:, 0, :]
        logits = self.head(self.pre_logits(x))
        return (logits, tuple(attentions)) if return_attention else logits


def count(
    img_size=32,
    patch_size=4,
    in_chans=3,
    num_classes=10,
    embed_dim=192,
    depth=12,
    mlp_ratio=4.0,
    *,
    bias=1,
    cls=1,
    extra=1,
    final=1,
    qkv=3,
    mlp=2,
    patch=None,
    norms=2,
    head_bias=1,
    blocks=None,
    out=1,
):
    """One formula with a switch for each thing that students forget."""
    d, hidden = embed_dim, int(embed_dim * mlp_ratio)
    n = (img_size // patch_size) ** 2
    total = (patch or patch_size**2) * in_chans * d + bias * d
    total += cls * d + (n + extra) * d
    block = norms * 2 * d + qkv * (d * d + bias * d) + out * (d * d + bias * d)
    block += d * hidden + bias * hidden
    if mlp == 2:
        block += hidden * d + bias * d
    total += (blocks or depth) * block
    return total + int(final * 2) * d + d * num_classes + head_bias * bias * num_classes


def forgets(**switches):
    """Make a function with the exercise's arguments that counts with some switches set."""

    def vit_num_parameters(
        img_size=32, patch_size=4, in_chans=3, num_classes=10, embed_dim=192, depth=12, mlp_ratio=4.0
    ):
        chosen = {"patch": patch_size} if switches.get("patch") == "P" else {}
        sizes = (img_size, patch_size, in_chans, num_classes, embed_dim, depth, mlp_ratio)
        return count(*sizes, **{**switches, **chosen})

    return vit_num_parameters


def forgets_qkv_matrices(
    img_size=32, patch_size=4, in_chans=3, num_classes=10, embed_dim=192, depth=12, mlp_ratio=4.0
):
    total = count(img_size, patch_size, in_chans, num_classes, embed_dim, depth, mlp_ratio)
    return total - depth * 2 * embed_dim**2 - num_classes


def row_of_patches(i=32, p=4, c=3, k=10, d=192, n=12, r=4.0):
    return count(i, p, c, k, d, n, r, extra=1 + i // p - (i // p) ** 2)


def always_four(i=32, p=4, c=3, k=10, d=192, n=12, r=4.0):
    return count(i, p, c, k, d, n)


def float_count(
    img_size=32, patch_size=4, in_chans=3, num_classes=10, embed_dim=192, depth=12, mlp_ratio=4.0
):
    d = embed_dim
    n = (img_size // patch_size) ** 2
    block = 4 * d + 4 * d * d + 4 * d + 2 * mlp_ratio * d * d + mlp_ratio * d + d
    return (patch_size**2 * in_chans + 1) * d + (n + 2) * d + depth * block + 2 * d + (d + 1) * num_classes


def head_count_in(
    img_size=32, patch_size=4, in_chans=3, num_classes=10, embed_dim=192, depth=12, mlp_ratio=4.0
):
    heads = max(1, embed_dim // 64)
    rest = count(img_size, patch_size, in_chans, num_classes, embed_dim, depth, mlp_ratio)
    return rest + (heads - 1) * depth * (3 * embed_dim * embed_dim + 3 * embed_dim)


def by_parts(img_size=32, patch_size=4, in_chans=3, num_classes=10, embed_dim=192, depth=12, mlp_ratio=4.0):
    def linear(n_in, n_out):
        return (n_in + 1) * n_out

    d, hidden = embed_dim, int(mlp_ratio * embed_dim)
    block = linear(d, 3 * d) + linear(d, d) + linear(d, hidden) + linear(hidden, d) + 2 * 2 * d
    tokens = (img_size // patch_size) ** 2 + 1
    return (
        linear(patch_size * patch_size * in_chans, d)
        + d
        + tokens * d
        + depth * block
        + 2 * d
        + linear(d, num_classes)
    )


def by_powers(i=32, p=4, c=3, k=10, d=192, n=12, r=4.0):
    m = int(d * r) / d
    return round(d * d * n * (4 + 2 * m) + d * (c * p * p + (i / p) ** 2 + n * (9 + m) + 5 + k) + k)


def without_defaults(img, patch, chans, classes, dim, depth, ratio):
    return by_parts(img, patch, chans, classes, dim, depth, ratio)


def with_defaults_of_base(i=224, p=16, c=3, k=1000, d=768, n=12, r=4.0):
    return by_parts(i, p, c, k, d, n, r)


def with_another_ratio(i=32, p=4, c=3, k=10, d=192, n=12, r=3.0):
    return by_parts(i, p, c, k, d, n, r)


def rounded_width(i=32, p=4, c=3, k=10, d=192, n=12, r=4.0):
    return by_parts(i, p, c, k, d, n, (round(d * r) + 0.01) / d)


def fractional_width(i=32, p=4, c=3, k=10, d=192, n=12, r=4.0):
    return int(by_parts(i, p, c, k, d, n, 0.0) + n * (2 * d + 1) * d * r)


def by_polynomial(img=32, patch=4, chans=3, classes=10, dim=192, depth=12, ratio=4.0):
    hidden = int(dim * ratio)
    shapes = [(dim, chans, patch, patch), (dim,), (1, 1, dim), (1, (img // patch) ** 2 + 1, dim)]
    shapes += depth * [
        *[(dim,)] * 4,
        (3 * dim, dim),
        (3 * dim,),
        (dim, dim),
        (dim,),
        (hidden, dim),
        (hidden,),
        (dim, hidden),
        (dim,),
    ]
    shapes += [(dim,), (dim,), (classes, dim), (classes,)]
    return sum(torch.Size(shape).numel() for shape in shapes)


def head_random(head):
    nn.init.trunc_normal_(head.weight, std=0.02)
    nn.init.zeros_(head.bias)
    return head


def head_bias_forgotten(head):
    nn.init.zeros_(head.weight)
    return head


def head_new_layer(head):
    layer = nn.Linear(head.in_features, head.out_features)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def head_frozen(head):
    head.weight = nn.Parameter(torch.zeros_like(head.weight), requires_grad=False)
    head.bias = nn.Parameter(torch.zeros_like(head.bias), requires_grad=False)
    return head


def head_ones(head):
    nn.init.ones_(head.weight)
    nn.init.zeros_(head.bias)
    return head


def head_without_no_grad(head):
    head.weight.zero_()
    head.bias.zero_()
    return head


def head_returns_nothing(head):
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)


def head_plain_tensors(head):
    del head.weight, head.bias
    head.weight = torch.zeros(head.out_features, head.in_features)
    head.bias = torch.zeros(head.out_features)
    return head


def head_other_dtype(head):
    head.weight.data = torch.zeros(head.out_features, head.in_features)
    head.bias.data = torch.zeros(head.out_features)
    return head


def head_returns_weight(head):
    nn.init.zeros_(head.bias)
    return nn.init.zeros_(head.weight)


def head_new_parameters(head):
    head.weight = nn.Parameter(torch.zeros_like(head.weight))
    head.bias = nn.Parameter(torch.zeros_like(head.bias))
    return head


def head_other_shape(head):
    head.weight.data = head.weight.new_zeros(1, 1)
    head.bias.data = head.bias.new_zeros(1)
    return head


def head_no_grad(head):
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.zero_()
    return head


def head_constant(head):
    nn.init.constant_(head.weight, 0.0)
    nn.init.constant_(head.bias, 0.0)
    return head


def head_data(layer):
    layer.weight.data.mul_(0)
    layer.bias.data.fill_(0)
    return layer


def head_loaded(head):
    head.load_state_dict({name: torch.zeros_like(value) for name, value in head.state_dict().items()})
    return head


WRONG = {
    "VisionTransformer": [
        ("your head reads the last token", ReadsPatch),
        ("your head reads token 1", ReadsSecond),
        ("the final layer norm is missing", NoFinalNorm),
        ("you pool first and normalise then", NormAfterPool),
        ("`self.patch_embed` is only the first step", NoEmbed),
        ("your CLS token has no position", PositionsFirst),
        ("the positions E_pos are missing", NoPositions),
        ("you always read token 0", AlwaysCls),
        ("your average contains the CLS token", AveragesAll),
        ("leaves out the first patch", AlwaysOnePrefix),
        ("`self.pre_logits` is skipped", NoPreLogits),
        ("you return probabilities", Probabilities),
        ("`return_attention=True` is ignored", IgnoresAttention),
        ("return the logits alone", AlwaysAttention),
        ("the weights of the last layer alone", LastAttention),
        ("a second trip through the blocks", AttentionOfSecondTrip),
        ("through the blocks twice", BlocksTwice),
        ("your norm comes before the blocks", NormFirst),
        ("no gradient reaches", Detached),
        ("in training `self.pos_drop`", EmbedWithoutDropout),
        ("called in a second place", PosDropTwice),
        ("called in a second place", PosDropBeforeHead),
        ("two runs in evaluation give different logits", DropoutAlways),
        ("right in evaluation, but in training", DropoutBeforeHead),
        ("switches the mode of the model", SwitchesToEvaluation),
        ("two runs in training agree", TrainsAsInEvaluation),
        ("is called `return_attention`", OtherKeyword),
        ("with weights and inputs in float64", FixedFloat32),
        ("it accepts images of shape", SquareCrop),
    ],
    "vit_num_parameters": [
        ("the biases are missing", forgets(bias=0)),
        ("the position of the CLS token", forgets(extra=0)),
        ("the CLS token, the position of the CLS token", forgets(cls=0)),
        ("or the CLS token and its position", forgets(cls=0, extra=0)),
        ("2·D short: the final norm", forgets(final=0)),
        ("the shift of the final norm", forgets(final=0.5)),
        ("have D numbers each; and a block has two norms", forgets(final=0.5, norms=1)),
        ("rows times columns: you take image / P", row_of_patches),
        ("you take 4·D", always_four),
        ("you count a layer from D to D", forgets(qkv=1)),
        ("you count one D x D; and the head has a bias", forgets_qkv_matrices),
        ("the MLP has two layers", forgets(mlp=1)),
        ("P should be squared", forgets(patch="P")),
        ("each with a scale and a shift, 4·D: you count half", forgets(norms=1)),
        ("the head has a bias too", forgets(head_bias=0)),
        ("there are L blocks: you count one", forgets(blocks=1)),
        ("W_O is missing", forgets(out=0)),
        (
            "or the CLS token and its position; and the MLP has two layers",
            forgets(final=0, mlp=1),
        ),
        ("a count is a whole number", float_count),
        ("(smaller inputs are right): expected", head_count_in),
        ("the default of `mlp_ratio` is missing", without_defaults),
        ("the default of `embed_dim` is missing or another one", with_defaults_of_base),
        ("the default of `mlp_ratio` is missing or another one", with_another_ratio),
        ("rounded down", rounded_width),
        ("rounded down", fractional_width),
    ],
    "init_head": [
        ("is not zero yet", head_random),
        ("the bias is not", head_bias_forgotten),
        ("you return a new layer", head_new_layer),
        ("cannot learn any more", head_frozen),
        ("your weights are 1", head_ones),
        ("inside `with torch.no_grad():`", head_without_no_grad),
        ("your function returns nothing", head_returns_nothing),
        ("no nn.Parameter any more", head_plain_tensors),
        ("should stay torch.float64", head_other_dtype),
        ("your function returns Parameter", head_returns_weight),
        ("head.weight is a new parameter", head_new_parameters),
        ("head.weight should keep its shape (3, 2)", head_other_shape),
    ],
}
RIGHT = {
    "VisionTransformer": [InOneGo, BlockByBlock, NormByHand, SecondTripForWeights],
    "vit_num_parameters": [by_parts, by_powers, by_polynomial],
    "init_head": [head_no_grad, head_constant, head_data, head_loaded],
}
