"""How a training step is computed: in which precision, with which attention, with which kernels of the optimiser.

On a CUDA device the answer is known; on a CPU it depends on processor and model, so one batch is timed each way. A run
keeps what was chosen, and goes on with it after an interruption, unless that is on another kind of processor.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vit_course.training.processor import product_rate

PRECISIONS = ("auto", "float32", "bfloat16")
WORTH_MEASURING = 200
"""Shorter runs compute in float32 on a CPU: to measure would take a good part of what there is to gain."""


class WrittenOutAttention(TorchFunctionMode):
    """Compute `F.scaled_dot_product_attention` by matrix products and a softmax, where it is called plainly.

    torch's own written-out way also guards against rows that attend to nothing, which costs a tenth of a step.
    """

    def __torch_function__(self, function: Callable, types: tuple, args: tuple = (), kwargs=None):
        """Replace one function, call all others as they are."""
        kwargs = kwargs or {}
        asked = {name for name, value in kwargs.items() if value is not None and value is not False}
        if function is F.scaled_dot_product_attention and len(args) == 3 and asked <= {"dropout_p"}:
            return written_out(*args, kwargs.get("dropout_p", 0.0))  # no mask, no causal order, no scale
        return function(*args, **kwargs)


def written_out(q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0) -> Tensor:
    """Attend as `attention.scaled_dot_product_attention` does, (..., T, d) each, with dropout on the weights.

    The queries are scaled, not the scores: they are fewer.
    """
    weights = (q * q.shape[-1] ** -0.5 @ k.transpose(-2, -1)).softmax(dim=-1)
    return (F.dropout(weights, dropout_p) if dropout_p else weights) @ v


@dataclass(frozen=True)
class Engine:
    """How the steps of one run are computed; the same from the first step to the last on one kind of processor.

    Attributes:
        precision: "float32", or "bfloat16" for matrix products under autocast; weights are float32 either way.
        attention: "fused" for torch's fused kernel, "written out" for matrix products and a softmax: in bfloat16 the
            fused kernel's way back is slow on CPUs.
        fused_optimizer: whether AdamW updates all weights in one kernel.
        channels_last: whether the kernels of convolutions, and so feature maps, lie in memory with the channels of a
            pixel side by side, as a CPU convolves them fastest.
    """

    precision: str = "float32"
    attention: str = "fused"
    fused_optimizer: bool = False
    channels_last: bool = False

    def arrange(self, model: nn.Module) -> None:
        """Put the weights of a model in memory as this engine wants them; their values stay."""
        model.to(memory_format=torch.channels_last if self.channels_last else torch.preserve_format)

    @contextmanager
    def computing(self, device: torch.device) -> Iterator[None]:
        """Compute what is inside as this engine does; torch's settings are afterwards what they were."""
        attention = WrittenOutAttention() if self.attention == "written out" else nullcontext()
        bfloat16 = self.precision == "bfloat16"
        cached = device.type != "cuda"  # what is recorded there can keep no cache
        with torch.autocast(device.type, torch.bfloat16, bfloat16, cached), attention:
            yield


REFERENCE = Engine()
FAST = Engine("bfloat16", "written out", True)
"""What is tried on a CPU beside `REFERENCE`, which lessons that compare outputs use."""


def has_feature_maps(model: nn.Module) -> bool:
    """Tell whether a model is a ResNet or a hybrid, by its batch norms."""
    return any(isinstance(part, nn.BatchNorm2d) for part in model.modules())


def choose_engine(
    precision: str,
    device: torch.device,
    steps: int,
    time_a_pass: Callable[[Engine], float],
    feature_maps: bool = False,
) -> Engine:
    """Choose how a run is computed.

    Args:
        precision: "float32", "bfloat16", or "auto": the faster one on a CPU, bfloat16 on a CUDA GPU that has units for
            it, float32 elsewhere. The variable VIT_COURSE_PRECISION takes the place of "auto".
        device: where the run is computed.
        steps: length of the run.
        time_a_pass: does forward and backward of one batch under an engine, and returns the seconds.
        feature_maps: whether the model is a ResNet or a hybrid: on a CPU their longer runs have channels last.

    Raises:
        ValueError: if the precision is unknown.
    """
    if precision == "auto":
        precision = os.environ.get("VIT_COURSE_PRECISION") or "auto"
    if precision not in PRECISIONS:
        raise ValueError(f"precision {precision!r} is unknown: use {', '.join(PRECISIONS)}")
    if device.type == "cuda":
        has_units = torch.cuda.is_bf16_supported(including_emulation=False)
        fast = precision == "bfloat16" or (precision == "auto" and has_units)
        return Engine("bfloat16" if fast else "float32", fused_optimizer=True)
    if device.type != "cpu" or (precision == "auto" and steps < WORTH_MEASURING):
        return Engine("bfloat16" if precision == "bfloat16" else "float32")
    last = feature_maps and steps >= WORTH_MEASURING
    reference, fast = (replace(engine, channels_last=last) for engine in (REFERENCE, FAST))
    if precision != "auto":
        return fast if precision == "bfloat16" else reference
    if product_rate(torch.bfloat16, 256) < product_rate(torch.float32, 256):
        return reference  # this processor only imitates bfloat16: a pass would take a quarter of a minute
    return min((reference, fast), key=time_a_pass)
