# SPDX-License-Identifier: BSD-3-Clause
"""Arrays for the C API: layouts, transpose flags, stacks, memory at a location.

The library is column-major: it sees a C-ordered matrix as its transpose, and computes a C-ordered
result as C^T = op(B)^T op(A)^T. Knows no command line.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from dataclasses import dataclass

import numpy as np

from . import _interop, _types
from ._interop import is_on_device, refuse_copy
from ._native import HOST, HOST_PAGEABLE, BadArgument, check, library

# ---- memory -------------------------------------------------------------------------------------


def location_number(location) -> int:
    """The location number of fleetblas.h for 'h', 'p' or a device number."""
    numbers = {"h": HOST, "p": HOST_PAGEABLE}
    if location in numbers:
        return numbers[location]
    try:
        number = int(location)
    except (TypeError, ValueError):
        number = -1
    if number < 0:
        raise BadArgument(f"location {location!r} is none of 'h', 'p', 0, 1, ...", "bad_argument")
    return number


def _give_back(handle, address: int) -> None:
    # The status is ignored: nobody can receive it once the array is gone.
    library.fleet_free(handle.pointer, address)


def empty(context, shape, dtype, location, order) -> np.ndarray:
    number = location_number(location)
    dtype = np.dtype(dtype)
    shape = tuple(shape) if np.iterable(shape) else (shape,)
    if dtype.hasobject:
        raise TypeError("objects cannot lie in memory of the library")
    count = math.prod(int(edge) for edge in shape)
    if number == HOST_PAGEABLE:
        return np.empty(shape, dtype, order)
    kind = np.ndarray if number == HOST else _interop.OnDevice
    if count <= 0 or dtype.itemsize == 0:
        return np.empty(shape, dtype, order).view(kind)
    pointer = ctypes.c_void_p()
    handle = context.handle
    check(
        library.fleet_alloc(handle.pointer, number, count * dtype.itemsize, ctypes.byref(pointer))
    )
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(pointer.value)
    # Views keep `memory` alive through their base. Not freed at exit, since views may be in use.
    weakref.finalize(memory, _give_back, handle, pointer.value).atexit = False
    return np.ndarray(shape, dtype, buffer=memory, order=order).view(kind)


def require_array(value, name: str) -> None:
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name} is a {type(value).__name__}, not a NumPy array")


def extent(array: np.ndarray) -> tuple[int, int]:
    """Address and bytes of a contiguous array."""
    require_array(array, "array")
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError("the array is not contiguous")
    return array.ctypes.data, array.nbytes


def copy(context, to: np.ndarray, source: np.ndarray) -> np.ndarray:
    require_array(to, "to")
    require_array(source, "source")
    if to.nbytes != source.nbytes or to.dtype != source.dtype:
        raise ValueError(f"cannot copy {source.nbytes} bytes into {to.nbytes}, or other types")
    if not to.flags.writeable:
        raise ValueError("the target is read-only")
    is_other_order = not any(to.flags[order] and source.flags[order] for order in "CF")
    if to.shape == source.shape and is_other_order and to.flags.forc and source.flags.forc:
        raise ValueError("one array is C-ordered and one F-ordered: bytes are copied in order")
    (target, size), (start, _) = extent(to), extent(source)
    check(library.fleet_copy(context.pointer, target, start, size))
    return to


# ---- one matrix, or a stack of matrices, as the library sees it ---------------------------------


def _leading(rows: int, cols: int, row_step: int, col_step: int, item: int) -> int | None:
    """The leading dimension of a column-major rows x cols matrix, or None if it is not one.

    Strides that are never used (along an axis of length one, in an empty matrix) may have any
    value.
    """
    if rows == 0 or cols == 0:
        return max(1, rows)
    if rows > 1 and row_step != item:
        return None
    if cols == 1:
        return rows
    if col_step % item or col_step // item < rows:
        return None
    return col_step // item


def layout(array: np.ndarray) -> tuple[bool, int] | None:
    """(transposed, leading dimension) of the last two axes as stored column-major, or None."""
    for transposed in (True, False):
        leading = leading_as(array, transposed)
        if leading is not None:
            return transposed, leading
    return None


def leading_as(array: np.ndarray, transposed: bool) -> int | None:
    """The leading dimension of the array, or of its transpose, as stored column-major, or None."""
    rows, cols = array.shape[-2:]
    row_step, col_step = array.strides[-2:]
    if not array.flags.aligned or not array.dtype.isnative:
        return None
    if transposed:
        rows, cols, row_step, col_step = cols, rows, col_step, row_step
    return _leading(rows, cols, row_step, col_step, array.itemsize)


@dataclass
class Input:
    """A stored operand, and the flag with which the library must read it."""

    array: np.ndarray
    op: str
    leading: int


def as_input(array: np.ndarray, op: str, product_transposed: bool) -> Input:
    """`op(array)`, or its transpose for a transposed product; copied if no flag expresses it."""
    found = layout(array)
    if found is None:
        refuse_copy(array, f"has strides {array.strides}, which no BLAS call can express")
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
        found = layout(array)
    stored_transposed, leading = found
    transposed = (op != "n") ^ stored_transposed ^ product_transposed
    conjugated = op == "c" and array.dtype.kind == "c"
    if conjugated and not transposed:
        # BLAS has no flag for conjugation without transposition.
        refuse_copy(array, "would have to be conjugated first: try the other order of rows in out")
        return as_input(array.conj(), "t", product_transposed)
    return Input(array, "c" if conjugated else "t" if transposed else "n", leading)


def scalar(element, value):
    """A scalar as its function takes it, and the object that must stay alive during the call."""
    if element.real and not element.codes:
        return value
    dtype = np.float32 if element.codes else element.dtype
    return np.array([value], dtype).ctypes.data_as(ctypes.c_void_p)


def real_or_complex(dtype: np.dtype, name: str, value):
    """`value` as a number of the type. TypeError for a complex scalar of a real product."""
    value = complex(value)
    if dtype.kind == "c":
        return value
    if value.imag != 0:
        raise TypeError(f"{name} is complex, but the product is of {dtype}")
    return value.real


def call(context, word, ops, sizes, alpha, a, b, beta, c, batch=None) -> None:
    """One C call of the type `word`.

    a, b and c are (address, leading dimension[, stride]); `batch` needs the strides.
    """
    if context.queue is not None:
        if batch is not None:
            raise _interop.Settle("is a stack")
        context.queue.gemm(word, ops, sizes, alpha, a, b, beta, c)
        return
    element = _types.TYPES[word]
    name = "gemm" + ("" if batch is None else "_strided_batched")
    tail = () if batch is None else (batch,)
    if element.codes:
        stored, compute = map(ord, element.codes)
        a, b, c = ((address, stored, *rest) for address, *rest in (a, b, c))
        name, tail = f"fleet_{name}_ex", (*tail, compute)
    else:
        name = f"fleet_{word}{name}"
    alpha, beta = scalar(element, alpha), scalar(element, beta)
    op_codes = [ord(op) for op in ops]
    function = getattr(library, name)
    check(function(context.pointer, *op_codes, *sizes, alpha, *a, *b, beta, *c, *tail))


# ---- gemm ---------------------------------------------------------------------------------------


def _as_array(value) -> np.ndarray:
    # Both say what may not be done with their elements.
    marked = isinstance(value, (_interop.OnDevice, _interop.InFlight))
    return value if marked else np.asarray(value)


def converted(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if array.dtype == dtype:
        return array
    refuse_copy(array, f"is of {array.dtype}, the product of {dtype}")
    return array.astype(dtype)


def copy_into(context, to: np.ndarray, source: np.ndarray, counts=None) -> None:
    """Copies elements; both arrays have one type and shape. counts: a mask, or None for all."""
    for array in (to, source):
        if isinstance(array, _interop.InFlight) and not isinstance(array, _interop.Settled):
            raise _interop.Settle("is copied")
    if not (is_on_device(to) or is_on_device(source)):
        np.copyto(to, source, where=True if counts is None else counts)
    elif counts is None and any(to.flags[order] and source.flags[order] for order in ("C", "F")):
        copy(context, to, source)
    else:
        refuse_copy(
            to if is_on_device(to) else source,
            "cannot be copied in part or into another order of rows: use c itself as out",
        )


def checked_matrix(name: str, value) -> np.ndarray:
    array = _as_array(value)
    if array.ndim != 2:
        raise BadArgument(f"{name} has {array.ndim} dimensions instead of 2", "bad_argument")
    if _types.of(array.dtype) is None:
        raise TypeError(f"{name} is of {array.dtype}; known: {_types.KNOWN}")
    return array


def checked_out(out, shape, dtype) -> None:
    if not isinstance(out, np.ndarray):
        raise TypeError("out is not an array")
    if out.shape != shape:
        raise BadArgument(f"out has shape {out.shape}, the product {shape}", "bad_argument")
    if not out.flags.writeable:
        raise BadArgument("out is read-only", "bad_argument")
    if out.dtype.newbyteorder("=") != dtype:
        raise TypeError(f"out is of {out.dtype}, the product of {dtype}")


def gemm(context, a, b, c, alpha, beta, transa, transb, out, tf32):
    guests = _interop.Guests()
    a, b = checked_matrix("a", guests.view(a)), checked_matrix("b", guests.view(b))
    ops = (str(transa).lower(), str(transb).lower())
    for name, op in zip(("transa", "transb"), ops):
        if op not in ("n", "t", "c"):
            raise BadArgument(f"{name} {op!r} is none of 'n', 't', 'c'", "bad_argument")
    (m, k), (k_of_b, n) = (
        a.shape[:: -1 if ops[0] != "n" else 1],
        b.shape[:: -1 if ops[1] != "n" else 1],
    )
    if k != k_of_b:
        raise BadArgument(f"op(a) is {m} x {k}, but op(b) is {k_of_b} x {n}", "bad_argument")
    operands = [a, b]
    if c is not None:
        c = checked_matrix("c", guests.view(c))
        if c.shape != (m, n):
            raise BadArgument(f"c has shape {c.shape}, the product {(m, n)}", "bad_argument")
        operands.append(c)
    dtype = np.result_type(*(array.dtype for array in operands))
    element = _types.of(dtype, tf32)
    a, b = converted(a, dtype), converted(b, dtype)
    alpha, beta = real_or_complex(dtype, "alpha", alpha), real_or_complex(dtype, "beta", beta)
    if beta != 0 and c is None:
        raise BadArgument("beta is not 0, but c is not given", "bad_argument")
    out = guests.output(out)
    if out is not None:
        checked_out(out, (m, n), dtype)

    result = target_of(out, (m, n), dtype, (a, b), guests)
    guests.wait(context)
    if beta != 0 and not is_same(result, c):
        copy_into(context, result, converted(c, dtype))
    transposed, leading = layout(result)
    left, right = as_input(a, ops[0], transposed), as_input(b, ops[1], transposed)
    sizes = (m, n, k)
    if transposed:
        left, right, sizes = right, left, (n, m, k)
    call(
        context,
        element.word,
        (left.op, right.op),
        sizes,
        alpha,
        (left.array.ctypes.data, left.leading),
        (right.array.ctypes.data, right.leading),
        beta,
        (result.ctypes.data, leading),
    )
    return guests.deliver(delivered_to(result, out))


def is_same(x: np.ndarray, y: np.ndarray) -> bool:
    """True if both are the same matrix in memory."""
    return (
        x.ctypes.data == y.ctypes.data
        and x.strides == y.strides
        and x.shape == y.shape
        and x.dtype == y.dtype
    )


def target_of(out, shape, dtype, inputs, guests, order="C", zeroed=False) -> np.ndarray:
    """`out` if the library can write there while it reads the inputs; else a new array.

    order, zeroed: properties of a new array that becomes the result.
    """
    if out is None:
        return guests.empty(shape, dtype, order, zeroed)
    if (
        out.dtype == dtype
        and layout(out) is not None
        and not any(np.may_share_memory(out, array) for array in inputs)
    ):
        return out
    refuse_copy(out, "cannot be out: of another type, strided, or part of an operand")
    return np.empty(shape, dtype)


def delivered_to(result: np.ndarray, out, counts=None) -> np.ndarray:
    if out is None or out is result:
        return result
    refuse_copy(out, "is copied")
    np.copyto(out, result, casting="same_kind", where=True if counts is None else counts)
    return out


# ---- matmul -------------------------------------------------------------------------------------


def matmul(context, a, b, out, tf32):
    guests = _interop.Guests()
    a, b = _as_array(guests.view(a)), _as_array(guests.view(b))
    if isinstance(out, tuple) and len(out) == 1:
        (out,) = out
    out = guests.output(out)
    dtype = np.result_type(a, b).newbyteorder("=") if a.ndim and b.ndim else np.dtype(object)
    element = _types.of(dtype, tf32)
    if element is None:
        for array in (a, b, out):
            refuse_copy(array, f"is multiplied in {_types.KNOWN} only")
        return np.matmul(a, b) if out is None else np.matmul(a, b, out=out)
    vector_a, vector_b = a.ndim == 1, b.ndim == 1
    left = a[np.newaxis, :] if vector_a else a
    right = b[:, np.newaxis] if vector_b else b
    (m, k), (k_of_b, n) = left.shape[-2:], right.shape[-2:]
    if k != k_of_b:
        raise ValueError(
            f"matmul: the inner sizes of {a.shape} and {b.shape} differ: {k}, {k_of_b}"
        )
    stack = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    shape = stack + (() if vector_a else (m,)) + (() if vector_b else (n,))
    if out is not None:
        _checked_matmul_out(out, shape, dtype)

    left, right = converted(left, dtype), converted(right, dtype)
    whole = guests.empty(shape, dtype) if out is None else out
    expanded = _as_matrices(whole, vector_a, vector_b)
    result = expanded
    if out is not None:
        result = target_of(expanded, expanded.shape, dtype, (left, right), guests)
    if result.size and _overlaps_itself(result):
        refuse_copy(result, "overlaps itself")
        result = np.empty(expanded.shape, dtype)
    guests.wait(context)
    if result.size and (k or is_on_device(result)):
        _multiply_stacks(context, element, left, right, result)
    elif result.size:
        refuse_copy(result, "is 0, the product over an inner size of 0")
        result[...] = 0
    if result is not expanded:
        np.copyto(expanded, result, casting="same_kind")
    delivered = guests.deliver(whole)
    return whole[()] if delivered is whole and out is None and not shape else delivered


def _as_matrices(product: np.ndarray, vector_a: bool, vector_b: bool) -> np.ndarray:
    """The result of matmul before the axes of length one that vectors lack are removed."""
    if vector_b:
        product = product[..., np.newaxis]
    return product[..., np.newaxis, :] if vector_a else product


def _checked_matmul_out(out, shape, dtype) -> None:
    if not isinstance(out, np.ndarray):
        raise TypeError("out is not an array")
    if out.shape != shape:
        raise ValueError(f"matmul: out has shape {out.shape}, the product {shape}")
    if not out.flags.writeable:
        raise ValueError("matmul: out is read-only")
    if not np.can_cast(dtype, out.dtype, "same_kind"):
        raise TypeError(f"matmul: cannot cast the product from {dtype} to {out.dtype}")


def _overlaps_itself(array: np.ndarray) -> bool:
    """False if each axis steps over the extent of all inner axes, as in ordinary views."""
    steps = sorted((abs(step), edge) for step, edge in zip(array.strides, array.shape) if edge > 1)
    inside = array.itemsize
    for step, edge in steps:
        if step < inside:
            return True
        inside = step * edge
    return False


def _merged(shape: tuple, *strides: tuple) -> list[list[int]]:
    """The axes of a stack, merged where every operand steps through them as through one axis.

    Rows of [length, step of A, step of B, step of C], outermost first.
    """
    rows: list[list[int]] = []
    for length, *steps in zip(shape, *strides):
        if length == 1:
            continue
        if rows and all(outer == step * length for outer, step in zip(rows[-1][1:], steps)):
            rows[-1] = [rows[-1][0] * length, *steps]
        else:
            rows.append([length, *steps])
    return rows or [[1, 0, 0, 0]]


def _stackable(array: np.ndarray) -> np.ndarray:
    """The stack itself if the library can step through it, else a contiguous copy."""
    item = array.itemsize
    usable = layout(array) is not None and all(
        edge == 1 or (step >= 0 and step % item == 0)
        for step, edge in zip(array.strides[:-2], array.shape[:-2])
    )
    if usable:
        return array
    refuse_copy(array, f"has strides {array.strides}, which no BLAS call can express")
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


def _multiply_stacks(context, element, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    """c = a @ b with stacks of a and b broadcast to that of c; c must not overlap a or b."""
    target = c if _stackable(c) is c else np.empty_like(c, order="C")
    transposed, leading_c = layout(target)
    left = as_input(_stackable(a), "n", transposed)
    right = as_input(_stackable(b), "n", transposed)
    stack, (m, n), k = c.shape[:-2], c.shape[-2:], a.shape[-1]
    word, item = element.word, c.itemsize
    steps_a = np.broadcast_to(left.array, stack + left.array.shape[-2:]).strides[:-2]
    steps_b = np.broadcast_to(right.array, stack + right.array.shape[-2:]).strides[:-2]
    axes = _merged(stack, steps_a, steps_b, target.strides[:-2])
    length, step_a, step_b, step_c = axes.pop()
    for place in np.ndindex(*(axis[0] for axis in axes)):
        offsets = [sum(i * axis[j] for i, axis in zip(place, axes)) for j in (1, 2, 3)]
        first = (left.array.ctypes.data + offsets[0], left.leading, step_a // item)
        second = (right.array.ctypes.data + offsets[1], right.leading, step_b // item)
        third = (target.ctypes.data + offsets[2], leading_c, step_c // item)
        ops, sizes = (left.op, right.op), (m, n, k)
        if transposed:
            first, second, ops, sizes = second, first, ops[::-1], (n, m, k)
        if length == 1:
            call(context, word, ops, sizes, 1, first[:2], second[:2], 0, third[:2])
        else:
            call(context, word, ops, sizes, 1, first, second, 0, third, length)
    if target is not c:
        np.copyto(c, target)
