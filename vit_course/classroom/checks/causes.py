"""What the usual messages of Python, torch and einops come from, in the words of the course."""

import re
from collections.abc import Mapping
from types import MappingProxyType

CAUSES = [
    (
        r"view size is not compatible",
        "`view` needs numbers that lie in memory in their order, and after `transpose` or `permute` they do not: use "
        "`reshape`",
    ),
    (r"name '(\w+)' is not defined", "nothing is called `{0}`: a slip of the pen, or a line that is missing"),
    (r"cannot access local variable '(\w+)'", "`{0}` is read before it has a value"),
    (r"'(\w+)' object has no attribute '(\w+)'", "a `{0}` has no `{1}`"),
    (r"missing \d+ required \w+ arguments?: (.+)", "a call leaves out {0}"),
    (r"unexpected keyword argument '(\w+)'", "what is called there has no argument `{0}`"),
    (
        r"(\w+)\(\) takes (\d+|from \d+ to [1-9]\d*) positional arguments? but (\d+)",
        "`{0}` takes {1} arguments, and {2} are given",
    ),
    (
        r"unsupported operand type\(s\) for (.+): '(?:int and tuple|int' and 'tuple|tuple' and 'int)'",
        "a size may be one number or a pair (height, width), and here it is a pair: `as_pair` makes a pair of both",
    ),
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
    (r"Tensor type unknown to einops <class '(?:\w+\.)*(\w+)'>", "einops gets a `{0}`, where the tensor comes first"),
    (r"Could not infer sizes for \{(.+)\}", "the pattern splits an axis into parts of unknown lengths: give them, {0}"),
    (
        r"Wrong shape: expected (\d+) dims. Received (\d+)-dim tensor",
        "the pattern has {0} axes on its left side, and the tensor has {1}",
    ),
    (
        r"can't divide axis of length (\d+) in chunks of (\d+)",
        "the pattern splits an axis of length {0} into parts of {1}, which does not go",
    ),
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
    (r"Boolean value of Tensor with more than one value",
     "`if`, `and`, `or` and comparisons in a row ask a whole tensor for one yes or no"),
    (r"only one dimension can be inferred", "two lengths are -1: only one can be worked out from the others"),
    (r"number of sizes provided \((\d+)\) must be greater or equal to the number of dimensions .*\((\d+)\)",
     "`expand` wants a length for each of the {1} axes, and gets {0}"),
    (r"(?:list|tuple) index out of range", "a list or shape has fewer entries than the index asks for"),
    (r"tensors used as indices must be long|Expected dtype int32/int64 for index",
     "an index should be whole numbers: `/` makes fractions, `//` does not"),
    (r"Tensors must have same number of dimensions: got (\d+) and (\d+)",
     "what is joined has {0} and {1} axes: all parts need the same number"),
    (r"cannot be converted to Scalar|only one element tensors can be converted|can only convert an array of size 1",
     "one number is asked of a tensor that holds several, or none"),
    (r"stack expects each tensor to be equal size",
     "`stack` puts tensors of one shape side by side on a new axis; `cat` joins them along an axis that they have"),
    (r"existing size \(0\)|tensor [ab] \(0\)", "there is nothing in a slice: with p = 0, `[:-p]` is `[:0]`, and empty"),
    (r"math domain error", "`math` is asked for the root or logarithm of a number that has none"),
    (r"zip\(\) argument 2 is (shorter|longer)", "what is gone through side by side is not equally long"),
    (r"Expected weight to be of same shape as normalized_shape.*shape \[(.+?)\].*= \[(.+?)\]",
     "the weight has the shape ({0}), and what is normalized ({1})"),
    (r"(?:integer )?division (?:or modulo )?by zero", "there is a division by 0"),
    (r"maximum recursion depth", "your function calls itself and never comes to an end"),
]  # fmt: skip
LENGTHS = [
    (
        r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)",
        "an axis of length {0} meets one of length {1}, and they should be equal",
    ),
    (r"mat1 and mat2 shapes cannot be multiplied \((.+)\)", "the matrices {0} do not fit: inner lengths must agree"),
    (
        r"Expected size for first two dimensions of batch2 tensor to be: \[(.+)\] but got: \[(.+)\]",
        "a matrix product needs [{0}] there, and gets [{1}]",
    ),
    (r"shape '\[(.+)\]' is invalid for input of size (\d+)", "{1} numbers do not fill the shape ({0})"),
    (r"Sizes of tensors must match except in dimension (\d+).*Expected size (\d+) but got size (\d+)",
     "joined along axis {0}, all other axes must be equal: {1} meets {2}"),
    (
        r"The expanded size of the tensor \((-?\d+)\) must match the existing size \((\d+)\).*dimension (\d+)",
        "the length {1} does not fit where {0} is wanted (axis {2}): an axis of length 1 alone could be repeated",
    ),
    (r"expected index \[(.+)\] to be (?:no larger|smaller) than self \[(.+?)\] apart from dimension (\d+)",
     "an index of shape ({0}) looks along axis {2} of a tensor of shape ({1}): the other axes must not be longer"),
    (r"index (-?\d+) is out of bounds for (?:dimension|axis) (\d+) with size (\d+)",
     "index {0} is asked of axis {1}, which has {2} entries"),
]  # fmt: skip


def cause(error: Exception, letters: Mapping[str, str] = MappingProxyType({})) -> str:
    """Say what an error comes from, lengths with their letters; "" if the reason is not known."""
    text = " ".join(str(error)[:2000].split())  # some patterns take minutes on a message of a whole tensor
    for pattern, words in CAUSES:
        if found := re.search(pattern, text):
            return words.format(*found.groups())
    for pattern, words in LENGTHS:
        if found := re.search(pattern, text):
            groups = [
                group
                if f"axis {{{i}}}" in words
                else re.sub(r"\d+", lambda n: letters.get(n[0], n[0]), group)
                for i, group in enumerate(found.groups())
            ]
            return words.format(*groups)
    return ""
