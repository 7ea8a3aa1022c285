"""The input of the encoder as a module: the CLS token in front, then positions (paper, equation 1 without the patches).

Lesson 03 builds it. The models of the course keep both parameters in the model itself, under the same names.
"""

import torch
from torch import Tensor, nn

from vit_course.embeddings import learned_positions, prepend_cls_token


class EncoderInput(nn.Module):
    """Turn patch tokens into z_0, the input of the encoder (paper, equation 1).

    - `self.cls_token` is an `nn.Parameter` of shape (1, 1, D), which starts at zero.
    - `self.pos_embed` is the table of `learned_positions`, one row for each token, with CLS among them.

    Args:
        num_patches: N, the number of patches of an image.
        dim: width D of a token.
    """

    def __init__(self, num_patches: int, dim: int):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = learned_positions(num_patches + 1, dim)

    def forward(self, tokens: Tensor) -> Tensor:
        """Put the CLS token in front, then add the positions: patch tokens (B, N, D) to (B, N + 1, D).

        Raises:
            ValueError: if the number of patches is another one.
        """
        if tokens.shape[1] + 1 != self.pos_embed.shape[1]:  # given
            raise ValueError(
                f"{tokens.shape[1]} patches and CLS need other than {self.pos_embed.shape[1]} positions"
            )
        tokens = prepend_cls_token(tokens, self.cls_token)
        return tokens + self.pos_embed
