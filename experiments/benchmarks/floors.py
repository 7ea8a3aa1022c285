"""How fast could a training step of a ViT be? Operations and bytes of every kernel, against what a GPU can do.

`epoch_speed` prints these floors beside what it measured. They are computed from two numbers of a data sheet, and no
measurement: no step is faster than the first, and one that runs kernel after kernel is not faster than the second.
"""


def block_kernels(tokens: int, dim: int, hidden: int) -> list[tuple[int, int]]:
    """List the kernels of one block, forward and backward, for one picture: operations, and numbers moved.

    A multiplication and an addition are two operations. Numbers are those read and written in device memory, each once;
    weights are not counted, since a large batch shares them. Residual additions are fused with the LayerNorm beside
    them, biases with the products, and attention is one kernel each way, which computes the scores a second time on the
    way back (2.5 times the operations).
    """
    widths = (dim, 3 * dim), (dim, dim), (dim, hidden), (hidden, dim)
    products = [(2 * tokens * inputs * outputs, tokens * (inputs + outputs)) for inputs, outputs in widths]
    norms = 2 * [(0, tokens * 4 * dim)]  # addition and norm: two in, two out
    attention = 4 * tokens**2 * dim
    forward = [*products, *norms, (attention, tokens * 4 * dim), (0, tokens * 2 * hidden)]  # the last is GELU
    # Each product has two on the way back: the gradients of its input and of its weights.
    backward = [*2 * products, *norms, (5 * attention // 2, tokens * 8 * dim), (0, tokens * 3 * hidden)]
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
    kernels = [
        (operations / (tflops * 1e12), 2 * numbers / (terabytes * 1e12))
        for operations, numbers in block_kernels(tokens, dim, hidden)
    ]
    return depth * sum(compute for compute, _ in kernels), depth * sum(map(max, kernels))
