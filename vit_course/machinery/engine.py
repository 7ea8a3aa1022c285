"""How a training step is computed: in which precision, with which attention, with which kernels of the optimiser.

On a CUDA device the answer is known; on a CPU it depends on the processor, the model and the batch, so a few steps are
timed. A run keeps what was chosen, and goes on with it after an interruption. `train` is the only user.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

PRECISIONS = ("auto", "float32", "bfloat16")
WORTH_MEASURING = 200
"""Shorter runs compute in float32 on a CPU: to measure would take a good part of what there is to gain."""
ROUNDS = 3


@dataclass(frozen=True)
class Engine:
    """How the steps of one run are computed; the same from the first step to the last.

    Attributes:
        precision: "float32", or "bfloat16" for matrix products under autocast; weights are float32 either way.
        attention: "fused" for torch's fused kernel, "written out" for matrix products and a softmax: in bfloat16 the
            fused kernel's way back is slow on CPUs.
        fused_optimizer: whether AdamW updates all weights in one kernel.
    """

    precision: str = "float32"
    attention: str = "fused"
    fused_optimizer: bool = False

    @contextmanager
    def computing(self, device: torch.device) -> Iterator[None]:
        """Compute what is inside as this engine does; torch's settings are afterwards what they were."""
        autocast = torch.autocast(device.type, torch.bfloat16, enabled=self.precision == "bfloat16")
        if self.attention == "fused":
            with autocast:
                yield
            return
        before = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)  # else it computes in float32
        try:
            with autocast, sdpa_kernel(SDPBackend.MATH):
                yield
        finally:
            torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(before)


REFERENCE = Engine()
CANDIDATES = (
    REFERENCE,
    Engine("bfloat16", "fused", True),
    Engine("bfloat16", "written out", True),
)
"""What is tried on a CPU. `REFERENCE` gives the same numbers on every run: lessons that compare outputs use it."""


def choose_engine(precision: str, device: torch.device, steps: int, step: Callable[[], None]) -> Engine:
    """Choose how a run is computed.

    Args:
        precision: "float32", "bfloat16", or "auto": the fastest on a CPU, bfloat16 on CUDA, float32 elsewhere. The
            variable VIT_COURSE_PRECISION takes the place of "auto".
        device: where the run is computed.
        steps: length of the run.
        step: does forward and backward of one batch, on a copy of the model.

    Returns:
        The engine; which of the CPU's is fastest was measured in interleaved rounds, by the best of each.

    Raises:
        ValueError: if the precision is unknown.
    """
    if precision == "auto":
        precision = os.environ.get("VIT_COURSE_PRECISION") or "auto"
    if precision not in PRECISIONS:
        raise ValueError(f"precision {precision!r} is unknown: use {', '.join(PRECISIONS)}")
    if device.type == "cuda":
        return Engine("float32" if precision == "float32" else "bfloat16", fused_optimizer=True)
    if device.type != "cpu" or (precision == "auto" and steps < WORTH_MEASURING):
        return Engine("bfloat16" if precision == "bfloat16" else "float32")
    candidates = [engine for engine in CANDIDATES if precision in ("auto", engine.precision)]
    if len(candidates) == 1:
        return candidates[0]
    seconds = {engine: float("inf") for engine in candidates}
    for _ in range(ROUNDS):
        for engine in candidates:
            start = time.perf_counter()
            with engine.computing(device):
                step()
            seconds[engine] = min(seconds[engine], time.perf_counter() - start)
    return min(seconds, key=seconds.get)
