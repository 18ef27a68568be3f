# SPDX-License-Identifier: BSD-3-Clause
"""NumPy's functions on tracked matrices: those that are products of matrices are queued, all others
read their operands. Knows tracked matrices by what they can do, and no library.
"""

from __future__ import annotations

import contextlib
import contextvars
import operator

import numpy as np

_composing = contextvars.ContextVar("fleetblas.compose", default=False)


@contextlib.contextmanager
def compose():
    """Within it, NumPy's functions that are products of matrices are queued if an operand is
    tracked, as np.matmul and @ always are: np.dot, np.inner, np.tensordot, np.einsum,
    np.linalg.multi_dot, np.linalg.matrix_power; np.transpose does not wait. Other functions read
    their operands, and plain arrays mean what they always do."""
    token = _composing.set(True)
    try:
        yield
    finally:
        _composing.reset(token)


def call_ufunc(tracked, ufunc, method, inputs, words):
    """For __array_ufunc__."""
    is_product = ufunc is np.matmul and method == "__call__" and not set(words) - {"out"}
    if is_product and _are_matrices(inputs):
        return _product(tracked, *inputs, **words)
    written = inputs[:1] if method == "at" else ()
    return _at_once(tracked, getattr(ufunc, method), inputs, words, written)


def call_function(tracked, function, inputs, words):
    """For __array_function__."""
    composed = _COMPOSED.get(function) if _composing.get() else None
    if composed is not None:
        result = composed(tracked, *inputs, **words)
        if result is not NotImplemented:
            return result
    name = _WRITERS.get(function)
    written = () if name is None else (*inputs[:1], *(words[key] for key in words if key == name))
    return _at_once(tracked, function, inputs, words, written)


# ---- functions that read ------------------------------------------------------------------------

# What reads no element, and so need not wait.
_SHAPES = {
    getattr(np, name)
    for name in ("shape", "ndim", "size", "iscomplexobj", "isrealobj", "result_type", "can_cast",
                 "may_share_memory", "shares_memory")
}  # fmt: skip

# The argument that a function writes to, if it is not `out`.
_WRITERS = {
    np.copyto: "dst",
    np.fill_diagonal: "a",
    np.place: "arr",
    np.put: "a",
    np.put_along_axis: "arr",
    np.putmask: "a",
}


def _at_once(tracked, function, inputs, words, written):
    """The function on arrays. Those that it writes to are `written`, and `out`."""
    kind, changed = type(tracked), []
    is_shape = function in _SHAPES

    def given(value, is_written):
        if isinstance(value, kind):
            if is_shape:
                return value._unread()
            is_written = is_written or any(value is other for other in written)
            if is_written:
                changed.append((value, value._open()))
                return changed[-1][1]
            return value.array if value.is_on_device else np.asarray(value)
        if isinstance(value, (list, tuple)):
            return type(value)(given(each, is_written) for each in value)
        return value

    def returned(result):
        if isinstance(result, tuple) and changed:
            return tuple(map(returned, result))
        return next((value for value, array in changed if array is result), result)

    arrays = [given(value, False) for value in inputs]
    keywords = {name: given(value, name == "out") for name, value in words.items()}
    try:
        return returned(function(*arrays, **keywords))
    finally:
        for value, _ in changed:
            value.wrote()


# ---- products -----------------------------------------------------------------------------------


def _shape(value) -> tuple:
    """Of an array of any library, or a list."""
    if hasattr(value, "shape"):
        return tuple(value.shape)
    interface = getattr(value, "__cuda_array_interface__", None)
    return tuple(interface["shape"]) if interface else np.shape(value)


def _are_matrices(values) -> bool:
    return all(len(_shape(value)) == 2 for value in values)


def _product(tracked, a, b, out=None):
    """a @ b. The result is tracked, unless it goes to a plain array."""
    kind, context = type(tracked), tracked.context
    if isinstance(out, tuple):
        (out,) = out
    if out is None:
        return context.matmul(a, b)
    if not isinstance(out, kind):
        context.matmul(a, b, out=out).wait()
        return out
    # BLAS cannot write to an operand: what is overwritten is copied first.
    a, b = (
        np.array(x) if isinstance(x, kind) and x._must_be_copied_for(out) else x for x in (a, b)
    )
    return out.context.matmul(a, b, out=out)


def _turned(tracked, value):
    """The transpose, without reading it."""
    if isinstance(value, (type(tracked), np.ndarray)):
        return value.T
    is_array = hasattr(value, "__cuda_array_interface__") or hasattr(value, "__dlpack_device__")
    return tracked.context.tracked(value).T if is_array else np.asarray(value).T


def _dot(tracked, a, b, out=None):
    return _product(tracked, a, b, out) if _are_matrices((a, b)) else NotImplemented


def _inner(tracked, a, b):
    return _product(tracked, a, _turned(tracked, b)) if _are_matrices((a, b)) else NotImplemented


def _tensordot(tracked, a, b, axes=2):
    if not _are_matrices((a, b)):
        return NotImplemented
    is_count = isinstance(axes, (int, np.integer))
    pairs = ((1,), (0,)) if is_count and axes == 1 else axes
    if not np.iterable(pairs) or len(pairs) != 2:
        return NotImplemented
    contracted = [np.atleast_1d(each) for each in pairs]
    if any(each.shape != (1,) or each[0] not in (-2, -1, 0, 1) for each in contracted):
        return NotImplemented
    of_a, of_b = (int(each[0]) % 2 for each in contracted)
    left = a if of_a == 1 else _turned(tracked, a)
    return _product(tracked, left, b if of_b == 0 else _turned(tracked, b))


def _einsum(tracked, subscripts, *operands, out=None, optimize=False, **others):
    """The transpose of one matrix, or the product of two."""
    if others or not isinstance(subscripts, str) or not _are_matrices(operands):
        return NotImplemented
    given, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = given.split(",")
    if not arrow:
        result = "".join(sorted(letter for letter in given if given.count(letter) == 1))
        result = result.replace(",", "")
    if any(len(set(term)) != 2 or len(term) != 2 for term in (*terms, result)):
        return NotImplemented
    if len(terms) == len(operands) == 1 and out is None and set(result) == set(terms[0]):
        return operands[0] if result == terms[0] else operands[0].T
    if len(terms) != 2 or len(operands) != 2:
        return NotImplemented
    rows, cols = terms
    summed = set(rows) & set(cols)
    if len(summed) != 1 or set(result) != set(rows) ^ set(cols):
        return NotImplemented
    (letter,) = summed
    left, right = operands
    # Where the sizes differ, NumPy repeats an axis of length one, or has its own words.
    if _shape(left)[rows.index(letter)] != _shape(right)[cols.index(letter)]:
        return NotImplemented
    is_turned = result[0] in cols
    if is_turned:
        rows, cols, left, right = cols, rows, right, left
    left = left if rows[1] == letter else _turned(tracked, left)
    right = right if cols[0] == letter else _turned(tracked, right)
    return _product(tracked, left, right, out)


def _transpose(tracked, a, axes=None):
    if axes is None:
        return a.T
    if np.ndim(axes) != 1 or sorted(axis % 2 for axis in axes) != [0, 1]:
        return NotImplemented
    return a.T if axes[0] % 2 else a


def _swapaxes(tracked, a, axis1, axis2):
    if not {axis1, axis2} <= {-2, -1, 0, 1}:
        return NotImplemented
    return a if (axis1 - axis2) % 2 == 0 else a.T


def _matrix_transpose(tracked, x):
    return x.T


def _cheapest_split(shapes):
    """split[i, j]: the last factor of the left part of the product of i to j with fewest flops."""
    edges = [rows for rows, _ in shapes] + [shapes[-1][1]]
    count = len(shapes)
    cost, split = {(i, i): 0 for i in range(count)}, {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = {
                k: cost[i, k] + cost[k + 1, j] + edges[i] * edges[k + 1] * edges[j + 1]
                for k in range(i, j)
            }
            split[i, j] = min(options, key=options.get)
            cost[i, j] = options[split[i, j]]
    return split


def _multi_dot(tracked, arrays, *, out=None):
    arrays = list(arrays)
    if len(arrays) < 2 or not _are_matrices(arrays):
        return NotImplemented
    shapes = [_shape(array) for array in arrays]
    if any(left[1] != right[0] for left, right in zip(shapes, shapes[1:])):
        return NotImplemented
    split = _cheapest_split(shapes)

    def product(i, j, out=None):
        if i == j:
            return arrays[i]
        k = split[i, j]
        # Two plain factors of a product that is tracked as a whole.
        left, right = product(i, k), product(k + 1, j)
        return _product(tracked, left, right, out)

    return product(0, len(arrays) - 1, out)


def _matrix_power(tracked, a, n):
    try:
        n = operator.index(n)
    except TypeError:
        return NotImplemented
    if n < 0 or a.shape[0] != a.shape[1] or (n == 0 and a.is_on_device):
        return NotImplemented
    if n == 0:
        return tracked.context.tracked(np.eye(len(a), dtype=a.dtype))
    power, square = None, a
    while True:
        if n % 2:
            power = square if power is None else _product(tracked, power, square)
        n //= 2
        if n == 0:
            return power
        square = _product(tracked, square, square)


def _known(functions: dict) -> dict:
    """By function; NumPy 1 lacks some."""
    found = {}
    for path, composed in functions.items():
        *folders, name = path.split(".")
        module = np.linalg if folders else np
        if hasattr(module, name):
            found[getattr(module, name)] = composed
    return found


_COMPOSED = _known(
    {
        "dot": _dot,
        "inner": _inner,
        "tensordot": _tensordot,
        "einsum": _einsum,
        "transpose": _transpose,
        "swapaxes": _swapaxes,
        "matrix_transpose": _matrix_transpose,
        "linalg.matmul": _dot,
        "linalg.tensordot": _tensordot,
        "linalg.matrix_transpose": _matrix_transpose,
        "linalg.multi_dot": _multi_dot,
        "linalg.matrix_power": _matrix_power,
    }
)
