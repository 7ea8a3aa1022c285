"""Several processes that train together, as `torchrun` starts them; with one process all of this does nothing."""

import os
from collections.abc import Callable
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

T = TypeVar("T")


def rank_and_number() -> tuple[int, int]:
    """Return which process this is, counted from 0, and how many there are."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def own_device(device: torch.device) -> torch.device:
    """Give each of several processes a GPU of its own, also for what they tell each other."""
    if device.type == "cuda" and dist.is_initialized():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", dist.get_rank())))
        torch.cuda.set_device(device)
    return device


def wrap_ddp(model: nn.Module, device: torch.device) -> nn.Module:
    """Wrap a model so that gradients are averaged over all processes."""
    if rank_and_number()[1] == 1:
        return model
    return DistributedDataParallel(model, [device] if device.type == "cuda" else None)


def mean(values: Tensor) -> Tensor:
    """Average a tensor over all processes."""
    number = rank_and_number()[1]
    if number > 1:
        dist.all_reduce(values)
        values /= number
    return values


def any_process(said: bool, device: torch.device) -> bool:
    """Tell whether any process says so; all get the same answer, so that all stop at the same step."""
    if rank_and_number()[1] == 1:
        return said
    votes = torch.tensor(float(said), device=device)
    dist.all_reduce(votes)
    return bool(votes > 0)


def broadcast_first(choose: Callable[[], T]) -> T:
    """Let the first process choose, and all go by it."""
    rank, number = rank_and_number()
    chosen = [choose() if rank == 0 else None]
    if number > 1:
        dist.broadcast_object_list(chosen)
    return chosen[0]
