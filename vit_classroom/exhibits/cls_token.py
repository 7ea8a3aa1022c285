"""The CLS token as a module that can be put between the patch embedding and the encoder (paper, equation 1: x_class).

Lesson 02 builds it. The models of the course keep the parameter in the model itself, under the name that timm gives it.
"""

import torch
from torch import Tensor, nn

from vit_course.embeddings import prepend_cls_token


class ClsToken(nn.Module):
    """A learned token in front of every sequence of a batch (paper, equation 1: x_class).

    `self.cls_token` is an `nn.Parameter` of shape (1, 1, D): one vector, the same for every image. It starts at zero.

    Args:
        dim: width D of a token.
    """

    def __init__(self, dim: int):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))

    def forward(self, tokens: Tensor) -> Tensor:
        """Put the CLS token in front: patch tokens (B, N, D) to (B, N + 1, D), the CLS token at index 0.

        Raises:
            ValueError: if the tokens have another width than the CLS token; `prepend_cls_token` raises it.
        """
        return prepend_cls_token(tokens, self.cls_token)
