"""How a GPU is kept busy by small models: kernels are compiled into few, and started all at once (CUDA graphs).

To start hundreds of small kernels can take the CPU longer than the GPU computes. `step_wrappers.with_compiled` in the
extensions uses both.
"""

from collections.abc import Callable, Hashable

import torch
from torch import Tensor, nn

from vit_course.encoder import Block


def compiled(model: nn.Module) -> nn.Module:
    """Return a model that computes compiled: where the blocks of a ViT are alike, one compilation in place serves all.

    It takes a fraction of the time that the whole model does, and leaves hooks outside the blocks, such as those
    of `fewer_tokens`, alone: a compiled model may not notice them.
    """
    blocks = alike_blocks(model)
    for block in blocks:
        block.compile(dynamic=False)
    return model if blocks else torch.compile(model)


def alike_blocks(model: nn.Module) -> list[Block]:
    """List the blocks of a model if they differ in weights alone: none where there are hooks, or other drop paths."""
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    hooked = any(part._forward_hooks or part._forward_pre_hooks for one in blocks for part in one.modules())
    return [] if hooked or len({block.drop_path_rate for block in blocks}) > 1 else blocks


class CudaGraphs:
    """A model, or a function of one tensor, whose kernels are recorded on first use and then replayed.

    What is drawn at random is drawn anew in each replay, from the seed of the moment. Results are overwritten by the
    next replay.

    Args:
        function: computes the same kernels for all inputs of one shape and `kind`, and waits for none of them.
        kind: names what else decides on the kernels.
    """

    def __init__(self, function: Callable[[Tensor], Tensor], kind: Callable[[], Hashable] = lambda: None):
        self.function, self.kind, self.graphs = function, kind, {}

    def __call__(self, x: Tensor) -> Tensor:
        """Compute the function of a tensor on a GPU."""
        key = tuple(x.shape), self.kind()
        if key not in self.graphs:
            part = nn.Sequential(self.function) if isinstance(self.function, nn.Module) else self.function
            devices = [x.device] if x.device.type == "cuda" else []
            with torch.random.fork_rng(devices):  # to record draws numbers, too
                record = torch.cuda.make_graphed_callables
                self.graphs[key] = record(part, (x.clone(),), allow_unused_input=True)
        return self.graphs[key](x)
