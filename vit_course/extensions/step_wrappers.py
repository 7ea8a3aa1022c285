"""What some configurations wrap around the steps of a run: fewer tokens at first, compiled kernels, averaged weights.

`train` hands these to its run, which knows none of them. Lesson 16 explains the first.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from vit_course.extensions.speedups import fewer_tokens
from vit_course.optim import Muon
from vit_course.training.compiled import CudaGraphs, compiled
from vit_course.training.config import TrainConfig
from vit_course.training.run import Run, Wrapper
from vit_course.vit import VisionTransformer


def step_wrappers(config: TrainConfig) -> list[Wrapper]:
    """List what a configuration wants around the steps of its run."""
    wanted = {with_fewer_tokens: config.keep_tokens < 1, with_compiled: config.compile}
    wanted[with_average] = config.ema > 0
    return [wrapper for wrapper, is_wanted in wanted.items() if is_wanted]


def is_early(run: Run) -> bool:
    """Tell whether this step is in the run's first part, which computes fewer tokens."""
    return run.step < run.config.keep_until * run.total_steps


@contextmanager
def with_fewer_tokens(run: Run) -> Iterator[None]:
    """Let the steps of the first part leave out patch tokens, or read smaller images."""
    share, by = run.config.keep_tokens, run.config.keep_by
    run.around_step.append(lambda: fewer_tokens(run.model, share if is_early(run) else 1.0, by))
    run.work *= 1 - run.config.keep_until * (1 - share)
    yield


@contextmanager
def with_average(run: Run) -> Iterator[None]:
    """Keep an average of the weights, which is scored, and which the model has in the end."""
    average = get_ema_multi_avg_fn(run.config.ema)
    run.wrapper_states["average"] = averaged = AveragedModel(
        run.model, multi_avg_fn=average, use_buffers=True
    )
    run.scored_model = averaged.module
    run.after_step.append(lambda: averaged.update_parameters(run.model))
    yield


@contextmanager
def with_compiled(run: Run) -> Iterator[None]:
    """Compile the model; record the kernels of a ViT that learns alone on a GPU once, and replay them."""

    def change(model: nn.Module) -> Callable:
        forward = compiled(model)
        if not records_kernels(run):
            return forward
        for optimizer in run.optimizers:
            if isinstance(optimizer, Muon):
                optimizer.orthogonalize = CudaGraphs(optimizer.orthogonalize)
        return CudaGraphs(forward, lambda: is_early(run))

    run.forward_by.append(change)
    try:
        yield
    finally:
        for part in run.model.modules():
            part._compiled_call_impl = None  # what `compiled` did


def records_kernels(run: Run) -> bool:
    """Tell whether a compiled model can be recorded: a ViT whose kernels are the same in all steps of a kind."""
    is_vit = isinstance(run.model, VisionTransformer) and run.objective is None
    alone = run.device.type == "cuda" and run.world == 1
    return is_vit and alone and run.config.keep_by != "size"
