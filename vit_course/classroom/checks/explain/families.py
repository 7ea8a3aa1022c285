"""What is easily taken for something else: functions, words, operators, options that are forgotten."""

import ast
from typing import Any

AXIS_NAMES = ("dim", "axis", "dims", "dim0", "dim1", "start_dim", "end_dim")
REDUCTIONS = "mean sum var std amax amin max min softmax any all".split()
AXIS_METHODS = """mean sum amax amin prod std var softmax argmax argmin argsort sort flip roll cat stack select narrow
    transpose permute movedim unsqueeze squeeze flatten unflatten cumsum chunk split unbind any all repeat_interleave
    gather scatter size norm normalize log_softmax tensor_split index_select""".split()
FAMILIES = [
    group.split()
    for group in """mean sum amax amin median prod var std|max min mean sum norm|argmax argmin|any all|
        sort argsort|triu tril|softmax log_softmax sigmoid|sin cos|zeros ones|zeros_ ones_|
        zeros_like ones_like|floor ceil round trunc|exp log log2 log10|sqrt square abs|rand randn|
        gelu relu silu tanh sigmoid|GELU ReLU SiLU Tanh Sigmoid|stack cat|maximum minimum|
        repeat repeat_interleave|int round ceil|startswith endswith|bilinear bicubic nearest|ij xy|
        none mean sum|constant reflect replicate circular|weight bias|cross_entropy nll_loss""".split("|")
]
"""Names that are easily taken for each other."""
OPERATORS = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add, ast.Mult, ast.Div),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult, ast.FloorDiv, ast.Sub),
    ast.FloorDiv: (ast.Div, ast.Mod, ast.Mult),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult, ast.Div),
    ast.MatMult: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.Lt: (ast.LtE, ast.Gt, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt, ast.LtE),
    ast.Eq: (ast.NotEq, ast.LtE, ast.GtE),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPTIONS = {
    "GELU": {"approximate": "tanh"},
    "gelu": {"approximate": "tanh"},
    "var": {"unbiased": True},
    "std": {"unbiased": False},
    "LayerNorm": {"eps": 1e-5},
    "Linear": {"bias": False},
    "Conv2d": {"bias": False},
    "interpolate": {"align_corners": True, "antialias": False},
    "meshgrid": {"indexing": "xy"},
    "argsort": {"descending": True},
    "sort": {"descending": True},
    "topk": {"largest": False},
    "sorted": {"reverse": True},
    "cross_entropy": {"reduction": "sum", "label_smoothing": 0.1},
}
"""Options that are set, or forgotten, by mistake."""
MODULES = ("torch", "F", "nn", "math", "np", "einops")
COMMUTATIVE = (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr)


def relatives(name: str) -> list[str]:
    """Return the names that are easily taken for this one."""
    return [other for family in FAMILIES if name in family for other in family if other != name]


def written(value: Any) -> ast.AST:
    """Write a constant."""
    return ast.parse(repr(value), mode="eval").body
