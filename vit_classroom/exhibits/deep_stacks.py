"""What lesson 05 tries with deep stacks: do images stay different, does the gradient get back, can the stack learn?"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_classroom.numbers import percent
from vit_classroom.tables import Table, table
from vit_course.training.device import get_device

WIDTH = 64
SHOWN = (0, 1, 2, 4, 12)
"""After these layers a table says how different images are."""


def make_stack(kind: Callable[..., nn.Module], depth: int, seed: int = 0) -> nn.ModuleList:
    """Make a list of untrained layers of one kind, of width 64, with 4 heads."""
    torch.manual_seed(seed)
    return nn.ModuleList(kind(dim=WIDTH, num_heads=4) for _ in range(depth))


@torch.no_grad()
def differences(stack: Sequence[nn.Module], tokens: Tensor) -> dict[str, list[float]]:
    """Measure how much images, and the tokens of an image, differ from their mean, at the start and after each layer.

    Args:
        stack: L layers.
        tokens: (B, T, D).

    Returns:
        By name, L + 1 numbers: the length of what is left without the mean, divided by the length of the whole.
    """
    x, shares = tokens, {"images": [], "tokens of an image": []}
    for layer in [nn.Identity(), *stack]:
        x = layer(x)
        for axis, values in enumerate(shares.values()):
            values.append(((x - x.mean(dim=axis, keepdim=True)).norm() / x.norm()).item())
    return shares


def difference_table(shares: dict[str, list[float]]) -> Table:
    """Show what `differences` returns, for some of twelve layers."""
    rows = [[name, *(percent(values[depth]) for depth in SHOWN)] for name, values in shares.items()]
    return table(rows, ["share that differs from the mean, after layer", *SHOWN])


def scores_of(stack: Sequence[nn.Module], x: Tensor, head: nn.Module) -> Tensor:
    """Send tokens (B, T, D) through a stack and a last norm, take the mean token, and return class scores (B, K)."""
    for layer in stack:
        x = layer(x)
    return head(F.layer_norm(x, (WIDTH,)).mean(dim=1))


def stream_gradients(stack: Sequence[nn.Module], tokens: Tensor, labels: Tensor) -> list[Tensor]:
    """Return the gradient of a loss with respect to the tokens: at the input of each layer, and at the end."""
    streams = [tokens.clone().requires_grad_()]
    for layer in stack:
        streams.append(layer(streams[-1]))
        streams[-1].retain_grad()
    F.cross_entropy(scores_of([], streams[-1], nn.Linear(WIDTH, 10)), labels).backward()
    return [stream.grad for stream in streams]


def memorise(stack: nn.Module, tokens: Tensor, labels: Tensor, steps: int) -> list[float]:
    """Train a stack with Adam on the tokens of some images, and return the loss before each step."""
    device = get_device()
    model = nn.ModuleDict({"stack": stack, "head": nn.Linear(WIDTH, 10)}).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, labels, losses = tokens.to(device), labels.to(device), []
    for _ in range(steps):
        loss = F.cross_entropy(scores_of(stack, x, model["head"]), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def xavier(module: nn.Module) -> None:
    """Draw the weights of a linear layer so that the size of its numbers is kept; biases are 0."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)


def layer_gradients(stack: nn.ModuleList, tokens: Tensor, labels: Tensor) -> Tensor:
    """Return for every layer of an untrained stack the size of the gradient of `mlp.fc2.weight`."""
    F.cross_entropy(scores_of(stack, tokens, nn.Linear(WIDTH, 10)), labels).backward()
    return torch.stack([layer.mlp.fc2.weight.grad.norm() for layer in stack])
