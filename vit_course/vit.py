"""The Vision Transformer: all parts together (paper, equations 1 to 4), and its sizes.

Names in the state dict are timm's, so timm's ViT weights load with `strict=True`. Lesson 06 builds the same model
without options, `exhibits.mini_vit`, and reads this one; `recipes` and many lessons train it.
"""

from collections import OrderedDict

import torch
from torch import Tensor, nn

from vit_course.attention import attention_flops
from vit_course.embeddings import add_position, learned_positions, pool, prepend_cls_token, sincos_2d
from vit_course.encoder import Encoder
from vit_course.patches import PatchEmbed, count_patches

VIT_SIZES = {
    "Nano": {"embed_dim": 96, "depth": 3, "num_heads": 3},
    "Micro": {"embed_dim": 192, "depth": 6, "num_heads": 3},
    "Ti": {"embed_dim": 192, "depth": 12, "num_heads": 3},
    "S": {"embed_dim": 384, "depth": 12, "num_heads": 6},
    "B": {"embed_dim": 768, "depth": 12, "num_heads": 12},
    "L": {"embed_dim": 1024, "depth": 24, "num_heads": 16},
    "H": {"embed_dim": 1280, "depth": 32, "num_heads": 16},
}
"""B, L and H are the paper's (Table 1), Ti and S DeiT's, Nano and Micro this course's for 32x32 pictures."""


class VisionTransformer(nn.Module):
    """The Vision Transformer: patches in, one score per class out (paper, section 3.1).

    Its parts, in the order an image meets them: `patch_embed` makes patch tokens; `cls_token`, a learned
    (1, 1, D), goes in front; `pos_embed`, a learned (1, N + 1, D), is added; dropout `pos_drop`; `blocks`,
    the encoder; `norm`, the final layer norm; pooling; `pre_logits`, nothing or one hidden tanh layer;
    `head`, a linear layer to the K classes.

    Args:
        img_size: side of a square image, or (height, width), in pixels.
        patch_size: side P of a square patch, or (height, width), in pixels.
        in_chans: channels C of the image.
        num_classes: number of classes K.
        embed_dim: width D of a token.
        depth: number of blocks L.
        num_heads: heads in every block.
        mlp_ratio: hidden width of the MLPs as a multiple of D.
        pos_embed: "learned" (1-D, the paper's), "sincos" (fixed) or "none".
        global_pool: "token" reads the CLS token, "avg" averages the patch tokens (both after `norm`).
        class_token: whether there is a CLS token.
        representation_size: width of the hidden tanh layer before the head, as in pre-training, or None.
        drop_rate: dropout after dense layers and after adding positions.
        attn_drop_rate: dropout on attention weights.
        drop_path_rate: probability of dropping a branch of the last block in training.

    Raises:
        ValueError: if sizes do not divide, heads do not divide the width, an option is unknown or out of its range.
    """

    def __init__(
        self,
        img_size: int | tuple[int, int] = 32,
        patch_size: int | tuple[int, int] = 4,
        in_chans: int = 3,
        num_classes: int = 10,
        embed_dim: int = 192,
        depth: int = 12,
        num_heads: int = 3,
        mlp_ratio: float = 4.0,
        pos_embed: str = "learned",
        global_pool: str = "token",
        class_token: bool = True,
        representation_size: int | None = None,
        drop_rate: float = 0.0,
        attn_drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
    ):
        super().__init__()
        if global_pool not in ("token", "avg") or (global_pool == "token" and not class_token):
            raise ValueError(
                f"global_pool {global_pool!r} with class_token={class_token} does not fit: "
                "use 'avg', or 'token' with a CLS token"
            )
        check_rates(drop_rate=drop_rate, attn_drop_rate=attn_drop_rate, drop_path_rate=drop_path_rate)
        check_sizes(in_chans=in_chans, num_classes=num_classes, embed_dim=embed_dim, depth=depth)
        check_sizes(hidden_dim=int(embed_dim * mlp_ratio), representation_size=representation_size)
        self.global_pool = global_pool
        self.num_prefix_tokens = int(class_token)
        self.patch_embed = PatchEmbed(img_size, patch_size, in_chans, embed_dim)
        self.cls_token = nn.Parameter(torch.randn(1, 1, embed_dim) * 1e-6) if class_token else None
        self.pos_embed = make_pos_embed(
            pos_embed, self.patch_embed.grid_size, embed_dim, self.num_prefix_tokens
        )
        self.pos_drop = nn.Dropout(drop_rate)
        self.blocks = Encoder(
            depth,
            embed_dim,
            num_heads,
            mlp_ratio=mlp_ratio,
            drop=drop_rate,
            attn_drop=attn_drop_rate,
            drop_path=drop_path_rate,
        )
        self.norm = nn.LayerNorm(embed_dim, eps=1e-6)
        self.pre_logits = nn.Identity()
        if representation_size is not None:
            hidden = OrderedDict(fc=nn.Linear(embed_dim, representation_size), act=nn.Tanh())
            self.pre_logits = nn.Sequential(hidden)
        self.head = nn.Linear(representation_size or embed_dim, num_classes)
        self.apply(init_weights)
        init_head(self.head)

    def embed(self, images: Tensor) -> Tensor:
        """Equation 1: images (B, C, H, W) to tokens z_0 (B, T, D), positions and CLS token included."""
        return self.place(self.patch_embed(images))

    def place(self, patches: Tensor) -> Tensor:
        """Put the CLS token in front of patch tokens (B, N, D), add positions, drop: the rest of equation 1."""
        if self.cls_token is not None:
            patches = prepend_cls_token(patches, self.cls_token)
        if self.pos_embed is not None:
            patches = add_position(patches, self.pos_embed)
        return self.pos_drop(patches)

    def encode(self, patches: Tensor) -> Tensor:
        """Take patch tokens (B, N, D) through all that follows up to the final norm: tokens (B, T, D)."""
        return self.norm(self.blocks(self.place(patches)))

    def forward(self, images: Tensor, return_attention: bool = False) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Classify a batch of images: equations 1 to 4, then the head.

        Args:
            images: (B, C, H, W), float.
            return_attention: also return the attention weights of every layer.

        Returns:
            logits (B, K), and with `return_attention` also a list over the L layers of weights (B, h, T, T).

        Raises:
            ValueError: if the images have other axes, channels or sizes than the model was built for.
        """
        z = self.embed(images)  # equation 1
        attentions = []
        if return_attention:
            z, attentions = self.blocks(z, return_attention=True)  # equations 2 and 3, L times
        else:
            z = self.blocks(z)
        y = pool(self.norm(z), self.global_pool, self.num_prefix_tokens)  # equation 4
        logits = self.head(self.pre_logits(y))
        return (logits, attentions) if return_attention else logits


def check_sizes(**sizes: int | None) -> None:
    """Raise a `ValueError` that names the size which is smaller than 1."""
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise ValueError(f"{name} is {size!r}: it should be a whole number at least 1")


def check_rates(**rates: float) -> None:
    """Raise a `ValueError` that names the rate which is no share of what may be dropped."""
    for name, rate in rates.items():
        if not 0 <= rate < 1:
            raise ValueError(f"{name} is {rate!r}: it should be a number at least 0 and below 1")


def make_pos_embed(
    kind: str, grid_size: tuple[int, int], dim: int, num_prefix_tokens: int = 1
) -> nn.Parameter | None:
    """Make the table of positions (1, prefix + N, D) that `VisionTransformer` calls "learned" or "sincos".

    Raises:
        ValueError: if the kind is neither of them nor "none".
    """
    rows, columns = grid_size
    if kind == "learned":
        return learned_positions(num_prefix_tokens + rows * columns, dim)
    if kind == "sincos":
        table = torch.cat([torch.zeros(num_prefix_tokens, dim), sincos_2d(grid_size, dim)])
        return nn.Parameter(table[None], requires_grad=False)
    if kind != "none":
        raise ValueError(f"pos_embed {kind!r} is unknown: use 'learned', 'sincos' or 'none'")
    return None


def init_weights(module: nn.Module) -> None:
    """Draw one layer's weights: std .02 if linear, 1/sqrt(fan-in) in the patch projection; biases 0."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
    elif isinstance(module, nn.Conv2d):
        nn.init.trunc_normal_(module.weight, std=module.weight[0].numel() ** -0.5)
    if isinstance(module, nn.Linear | nn.Conv2d) and module.bias is not None:
        nn.init.zeros_(module.bias)


def init_head(head: nn.Linear) -> nn.Linear:
    """Set a classification head to zero, weight and bias, in place (paper, section 3.2 and B.1).

    Every class then starts with the same score, whatever the image, so the first loss is ln K exactly and
    the first step cannot disturb a pre-trained body.

    Args:
        head: a linear layer from D to K classes. Its parameters stay trainable.

    Returns:
        The same layer.
    """
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


def create_vit(name: str = "Micro/4", **options) -> VisionTransformer:
    """Build a model by name, size/patch: "B/16", "Ti/4". Options override those of the size.

    Raises:
        ValueError: if the size is not in `VIT_SIZES` or the patch size is missing.
    """
    size, _, patch = name.partition("/")
    if size not in VIT_SIZES or not patch.isdigit():
        raise ValueError(f"{name!r} is not size/patch, for example 'B/16'; sizes: {', '.join(VIT_SIZES)}")
    return VisionTransformer(patch_size=int(patch), **{**VIT_SIZES[size], **options})


def vit_num_parameters(
    img_size: int = 32,
    patch_size: int = 4,
    in_chans: int = 3,
    num_classes: int = 10,
    embed_dim: int = 192,
    depth: int = 12,
    mlp_ratio: float = 4.0,
) -> int:
    """Count the parameters of a Vision Transformer by formula, without building it.

    Count weights and biases of: the patch projection E; the CLS token; learned 1-D positions, CLS included;
    in each of the L blocks two layer norms, the qkv projection, W_O and the two layers of the MLP; the final
    norm; a linear head. The number of heads changes nothing.

    Args:
        img_size: side of a square image in pixels.
        patch_size: side P of a square patch in pixels.
        in_chans: channels C.
        num_classes: number of classes K.
        embed_dim: width D.
        depth: number of blocks L.
        mlp_ratio: hidden width of the MLP is int(D·mlp_ratio).

    Returns:
        The number of parameters.
    """
    dim, hidden = embed_dim, int(embed_dim * mlp_ratio)
    patch_projection = patch_size**2 * in_chans * dim + dim
    cls_and_positions = dim + (count_patches(img_size, patch_size) + 1) * dim
    norm = 2 * dim
    attention = dim * 3 * dim + 3 * dim + dim * dim + dim
    mlp = dim * hidden + hidden + hidden * dim + dim
    head = dim * num_classes + num_classes
    return patch_projection + cls_and_positions + depth * (2 * norm + attention + mlp) + norm + head


def vit_flops(model: VisionTransformer) -> int:
    """Count the floating-point operations of one image through a model (forward), matrix products alone.

    One multiplication and one addition count as 2, as in `attention_flops`. A training step costs about
    three times as much: once forward, twice backward.
    """
    dim, num_patches = model.norm.normalized_shape[0], model.patch_embed.num_patches
    num_tokens = num_patches + model.num_prefix_tokens
    heads = sum(
        p.numel() for part in (model.pre_logits, model.head) for p in part.parameters() if p.ndim == 2
    )
    flops = 2 * num_patches * model.patch_embed.proj.weight.numel() + 2 * heads
    in_block = attention_flops(num_tokens, dim) + 4 * num_tokens * model.blocks[0].mlp.fc1.weight.numel()
    return flops + len(model.blocks) * in_block
