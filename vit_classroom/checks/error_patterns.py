"""What the usual messages of Python, torch and einops come from, in the words of the course."""

import re
import traceback
from collections.abc import Mapping
from types import MappingProxyType

from vit_classroom.checks.words import students_line

CAUSES = [
    (r"reshape\(\) takes 1 positional argument|must be tuple of ints,? ?but (?:got|found element of type) float|"
     r"slice indices must be integers|'float' object cannot be interpreted as an integer",
     "a size or an index is a fraction there: `/` makes fractions, `//` does not; or it is a pair, see `as_pair`"),
    (r"cat\(\) takes from|argument 'tensors' \(position 1\) must be tuple",
     "what is joined stands in one list: `torch.cat([a, b], dim=1)`"),
    (r"must be Tensor, not (GELU|ReLU|Dropout|Linear|LayerNorm|Conv2d|Identity)\b",
     "a layer was made there and not called: `nn.{0}` is a class, and `__init__` makes one, `nn.{0}()`"),
    (r"view size is not compatible",
     "`view` needs numbers in memory in order; after `transpose`, `permute`, `chunk` they are not: `reshape` copies"),
    (r"unsupported operand type\(s\) for (.+): '(?:int and tuple|int' and 'tuple|tuple' and 'int)'",
     "a size may be one number or a pair (height, width), and here it is a pair: `as_pair` makes a pair of both"),
    (r"Tensor type unknown to einops <class '(?:\w+\.)*(\w+)'>", "einops gets a `{0}`, where the tensor comes first"),
    (r"Could not infer sizes for \{(.+)\}", "the pattern splits an axis into parts of unknown lengths: give them, {0}"),
    (r"'(?:builtin_function_or_)?method' object is not iterable", "brackets are missing: a method is called, `name()`"),
    (r"can only concatenate tuple",
     "a pair is added to something else: of `sort`, `topk`, `max` along an axis take `.values` or `.indices`"),
    (r"Boolean value of Tensor with more than one value",
     "`if`, `and`, `or` and comparisons in a row ask a whole tensor for one yes or no"),
    (r"tensors used as indices must be long|Expected dtype int32/int64 for index",
     "an index should be whole numbers: `/` makes fractions, `//` does not"),
    (r"stack expects each tensor to be equal size",
     "`stack` wants parts of one shape, and yours differ; `cat` is what joins parts along an axis that they have"),
    (r"existing size \(0\)|tensor [ab] \(0\)",
     "something is empty there: with p = 0, `[:-p]` is `[:0]`, and `topk(0)` finds nothing"),
    (r"leaf Variable that requires grad is being used in an in-place",
     "a weight that learns is changed in place: use `nn.init`, or write it under `with torch.no_grad():`"),
    (r"cannot assign '([\w.]+)' as parameter '(\w+)'",
     "`{1}` is an `nn.Parameter`, and `{0}` is none: fill it with `nn.init`, or wrap it in `nn.Parameter(...)`"),
    (r"cannot assign '[\w.]*?(\w+)' as child module '(\w+)'",
     "`{1}` wants a layer, and `{0}` is none: a class without its brackets, perhaps"),
    (r"type must be tuple of ints, ?but got tuple", "a size should be a number and is a tuple: take its entry, `[0]`"),
    (r"list is not a Module subclass", "`nn.Sequential` takes layers one by one: put a star before the list"),
    (r"mean\(\): could not infer output dtype", "`mean` wants fractions: `.float().mean()`"),
    (r"'type' object does not support the context manager", "brackets are missing: `with torch.no_grad():`"),
    (r"'torch\.return_types\.(\w+)' object has no attribute",
     "`{0}` along an axis returns a pair (values, indices): take `.values` or `.indices`"),
    (r"log_softmax_lastdim_kernel_impl", "the scores come first: `F.cross_entropy(logits, labels)`"),
    (r"Expected floating point type for target with class probabilities, got Long",
     "the loss wants scores (B, K), which `argmax` has taken away, or targets with fractions: `one_hot(...).float()`"),
    (r"Index tensor must have the same number of dimensions as (?:input|self) tensor",
     "an index for `gather` or `scatter` has as many axes as the tensor: `index[..., None].expand(-1, -1, D)`"),
    (r"Module \[ModuleList\] is missing", "a `ModuleList` is a list: call its layers one after the other, in a loop"),
    (r"only supports floating-point dtypes, X1 got: (\w+)", "fractions are wanted there, not {0}: `.float()`"),
    (r"Parameter\.__new__\(\) takes", "`nn.Parameter` takes a tensor and no sizes: `nn.Parameter(torch.zeros(...))`"),
    (r"unsupported operand type\(s\) for \+: '(?:Tensor' and 'tuple|tuple' and 'Tensor)'",
     "a pair is added there to a tensor: give its two parts names first, `a, b = ...`, and add one of them"),
    (r"name '(math|torch|copy|random|einops|itertools)' is not defined",
     "`{0}` is not imported: write `import {0}` at the top of the cell"),
    (r"name 'np' is not defined", "`np` is not imported: write `import numpy as np` at the top of the cell"),
    (r"name 'F' is not defined", "`F` is not imported: write `import torch.nn.functional as F` at the top of the cell"),
]  # fmt: skip
"""Errors that have one usual cause: a pattern, and words that name it or say what to write."""
SYMPTOMS = [
    (r"name '(\w+)' is not defined", "nothing is called `{0}`: a slip of the pen, or a line that is missing"),
    (r"cannot access local variable '(\w+)'", "`{0}` is read before it has a value"),
    (r"'(\w+)' object has no attribute '(\w+)'", "a `{0}` has no `{1}`"),
    (r"missing \d+ required \w+ arguments?: (.+)", "a call leaves out {0}, or its `def` asks for more than it should"),
    (r"unexpected keyword argument '(\w+)'", "what is called there has no argument `{0}`"),
    (r"(\w+)\(\) takes (\d+|from \d+ to [1-9]\d*) positional arguments? but (\d+)",
     "`{0}` takes {1} arguments, and {2} are given"),
    (r"unsupported operand type\(s\) for (.+): '([\w.]+)' and '([\w.]+)'", "`{0}` cannot work on `{1}` and `{2}`"),
    (r"'(\w+)' object is not callable", "a {0} is called as if it were a function"),
    (r"'(\w+)' object is not subscriptable", "a {0} has no entries to choose with `[...]`"),
    (r"(?:too many|not enough) values to unpack \(expected (?:at least )?(\d+)",
     "what is unpacked does not hold {0} values"),
    (r"[Dd]imension out of range .*got (-?\d+)", "there is no axis {0}"),
    (r"too many indices for tensor of dimension (\d+)", "a tensor with {0} axes is given more indices than that"),
    (r"expected (?:scalar )?(?:type|dtype) (\w+) but (?:found|got) (\w+)", "numbers of {0} meet numbers of {1}"),
    (r"must have the same dtype, but got (\w+) and (\w+)", "numbers of {0} meet numbers of {1}"),
    (r"does not require grad", "what is computed there is cut off from learning"),
    (r"modified by an inplace operation|is an in-place", "a tensor is changed in place that is still needed"),
    (r"Wrong shape: expected (\d+) dims. Received (\d+)-dim tensor",
     "the pattern has {0} axes on its left side, and the tensor has {1}"),
    (r"can't divide axis of length (\d+) in chunks of (\d+)",
     "the pattern splits an axis of length {0} into parts of {1}, which does not go"),
    (r"cannot unpack non-iterable (\w+) object", "a single `{0}` is unpacked into several names"),
    (r"'(\w+)' object is not iterable", "a `{0}` is gone through as if it were a list"),
    (r"argument '(\w+)' \(position \d+\) must be ([\w ]+), not ([\w.]+)", "`{0}` should be a {1} there, and is a {2}"),
    (r"expected Tensor as element (\d+) in argument 0, but got (\w+)",
     "part {0} of what is joined is a `{1}` and no tensor"),
    (r"(\w+)\(\) received an invalid combination of arguments - got \(([^()]*)\)", "`{0}` cannot take ({1})"),
    (r"'(\S+)' not supported between instances of '([\w.]+)' and '([\w.]+)'", "`{0}` cannot compare `{1}` and `{2}`"),
    (r"module '([\w.]+)' has no attribute '(\w+)'", "`{0}` has no `{1}`"),
    (r"negative dimension|Dimension size must be non-negative|invalid shape dimension -",
     "a length comes out negative"),
    (r"only one dimension can be inferred", "two lengths are -1: only one can be worked out from the others"),
    (r"number of sizes provided \((\d+)\) must be greater or equal to the number of dimensions .*\((\d+)\)",
     "`expand` wants a length for each of the {1} axes, and gets {0}"),
    (r"(?:list|tuple) index out of range", "a list or shape has fewer entries than the index asks for"),
    (r"Tensors must have same number of dimensions: got (\d+) and (\d+)",
     "what is joined has {0} and {1} axes: all parts need the same number"),
    (r"cannot be converted to Scalar|only one element tensors can be converted|can only convert an array of size 1",
     "one number is asked of a tensor that holds several, or none"),
    (r"number of dimensions in the tensor input does not match .*input\.dim\(\) = (\d+) .*len\(dims\) = (\d+)",
     "`permute` wants every axis once: the tensor has {0}, and {1} are given"),
    (r"Shape mismatch, (\d+) != (\d+)", "the lengths of the letters of a bracket make {1}, and its axis has {0}"),
    (r"only integer tensors of a single element can be converted to an index",
     "one whole number is wanted, and a tensor of several stands there: a slice begins at one, a pair is unpacked"),
    (r"Number of dimensions of repeat dims", "`repeat` wants a number for each axis, 1 where nothing is repeated"),
    (r"Expected input batch_size \((\d+)\) to match target batch_size \((\d+)\)",
     "{0} rows of scores meet {1} of classes: choose the same ones in both"),
    (r"Target (-?\d+) is out of bounds",
     "there is no class {0}: what does not count is marked with -100, or with a number given as `ignore_index`"),
    (r"selected index k out of range", "`topk` wants more entries than the axis has: is it the right axis?"),
    (r"math domain error", "`math` is asked for the root or logarithm of a number that has none"),
    (r"zip\(\) argument 2 is (shorter|longer)", "what is gone through side by side is not equally long"),
    (r"Expected weight to be of same shape as normalized_shape.*shape \[(.+?)\].*= \[(.+?)\]",
     "the weight has the shape ({0}), and what is normalized ({1})"),
    (r"(?:integer )?division (?:or modulo )?by zero", "there is a division by 0"),
    (r"maximum recursion depth", "your function calls itself and never comes to an end"),
]  # fmt: skip
LENGTHS = [
    (r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)",
     "an axis of length {0} meets one of length {1}, and they should be equal"),
    (r"mat1 and mat2 shapes cannot be multiplied \((.+)\)", "the matrices {0} do not fit: inner lengths must agree"),
    (r"Expected size for first two dimensions of batch2 tensor to be: \[(.+)\] but got: \[(.+)\]",
     "a matrix product needs [{0}] there, and gets [{1}]"),
    (r"shape '\[(.+)\]' is invalid for input of size (\d+)", "{1} numbers do not fill the shape ({0})"),
    (r"Sizes of tensors must match except in dimension (\d+).*Expected size (\d+) but got size (\d+)",
     "joined along axis {0}, all other axes must be equal: {1} meets {2}"),
    (r"The expanded size of the tensor \((-?\d+)\) must match the existing size \((\d+)\).*dimension (\d+)",
     "the length {1} does not fit where {0} is wanted (axis {2}): an axis of length 1 alone could be repeated"),
    (r"expected index \[(.+)\] to be (?:no larger|smaller) than self \[(.+?)\] apart from dimension (\d+)",
     "an index of shape ({0}) looks along axis {2} of a tensor of shape ({1}): the other axes must not be longer"),
    (r"index (-?\d+) is out of bounds for (?:dimension|axis) (\d+) with size (\d+)",
     "index {0} is asked of axis {1}, which has {2} entries"),
]  # fmt: skip
"""Errors in other words: what happened, but not why."""


def of_self(error: Exception) -> str:
    """Say that `self.` is missing before a name, or that a number of the module is called as a layer."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    module = frames[-1].f_locals.get("self") if frames else None
    if isinstance(error, NameError) and error.name and hasattr(module, error.name):
        return f"`{error.name}` alone is no variable here: what `__init__` keeps is `self.{error.name}`"
    if module is None or "object is not callable" not in str(error):
        return ""
    for name in re.findall(r"self\.(\w+)\(", students_line(error)):
        if isinstance(value := getattr(module, name, None), int | float):
            return f"`self.{name}` is the number {value} and no layer, so it cannot be called: see `__init__`"
    return ""


class Symptom(str):
    """What an error says, in other words: it is no cause."""


def cause(error: Exception, letters: Mapping[str, str] = MappingProxyType({})) -> str:
    """Say what an error comes from, or, as a `Symptom`, what it says, lengths with their letters; "" if unknown."""
    text = " ".join(str(error)[:2000].split())  # some patterns take minutes on a message of a whole tensor
    if words := of_self(error):
        return words
    for pattern, words in CAUSES:
        if found := re.search(pattern, text):
            return words.format(*found.groups())
    if "must match the size" in text and re.search(r"\b(not|if \w+) in\b", students_line(error)):
        return "`in` compares tensors number by number: keep `id(p)`, or ask `any(p is q for q in ...)`"
    for pattern, words in SYMPTOMS:
        if found := re.search(pattern, text):
            return Symptom(words.format(*found.groups()))
    for pattern, words in LENGTHS:
        if found := re.search(pattern, text):
            groups = [
                group
                if f"axis {{{i}}}" in words
                else re.sub(r"\d+", lambda n: letters.get(n[0], n[0]), group)
                for i, group in enumerate(found.groups())
            ]
            return Symptom(words.format(*groups))
    return ""
