"""How fast could a training step of a ViT be? Operations and bytes of every kernel, against what a GPU can do.

`epoch_speed` prints these floors beside what it measured. They are computed from two numbers of a data sheet, and no
measurement: no step is faster than the first, and one that runs kernel after kernel is not faster than the second.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kernel:
    """One kernel of a step, for one picture.

    Attributes:
        operations: floating-point operations, a multiplication and an addition are two.
        numbers: how many numbers it reads and writes in device memory, each once; weights are not counted, since a
            large batch shares them.
    """

    operations: int
    numbers: int


def block_kernels(tokens: int, dim: int, hidden: int) -> list[Kernel]:
    """List the kernels of one block, forward and backward.

    Residual additions are fused with the LayerNorm beside them, biases with the products, and attention is one kernel
    each way, which computes the scores a second time on the way back (2.5 times the operations).
    """

    def product(inputs: int, outputs: int) -> Kernel:
        return Kernel(2 * tokens * inputs * outputs, tokens * (inputs + outputs))

    def elementwise(numbers: int) -> Kernel:
        return Kernel(0, tokens * numbers)

    attention = 4 * tokens**2 * dim
    forward = [
        elementwise(4 * dim),  # addition and norm: two in, two out
        product(dim, 3 * dim),
        Kernel(attention, tokens * 4 * dim),
        product(dim, dim),
        elementwise(4 * dim),
        product(dim, hidden),
        elementwise(2 * hidden),  # GELU
        product(hidden, dim),
    ]
    # Each product has two on the way back: the gradients of its input and of its weights.
    backward = [
        *2 * [product(hidden, dim)],
        elementwise(3 * hidden),
        *2 * [product(dim, hidden)],
        elementwise(4 * dim),
        *2 * [product(dim, dim)],
        Kernel(5 * attention // 2, tokens * 8 * dim),
        *2 * [product(dim, 3 * dim)],
        elementwise(4 * dim),
    ]
    return forward + backward


def step_floors(
    depth: int, dim: int, hidden: int, tokens: int, tflops: float, terabytes: float
) -> tuple[float, float]:
    """Compute the floors of one training step, in seconds a picture; stem, head and optimiser are left out.

    Args:
        depth: L.
        dim: D.
        hidden: width of the MLP.
        tokens: N + 1.
        tflops: what the matrix units do in bfloat16, in 10^12 operations a second.
        terabytes: bandwidth of the device memory, in 10^12 bytes a second.

    Returns:
        matrix: all operations at the full rate of the matrix units.
        roofline: kernel after kernel, each limited by operations or by memory traffic, two bytes a number.
    """
    kernels = block_kernels(tokens, dim, hidden)
    matrix = sum(kernel.operations for kernel in kernels) / (tflops * 1e12)
    roofline = sum(
        max(kernel.operations / (tflops * 1e12), 2 * kernel.numbers / (terabytes * 1e12))
        for kernel in kernels
    )
    return depth * matrix, depth * roofline
