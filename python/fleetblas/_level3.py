# SPDX-License-Identifier: BSD-3-Clause
"""The routines with triangles on arrays, and the flags that express how arrays are stored.

As in _arrays, a result in C order is computed as its transpose: a symmetric matrix does not change,
a triangle becomes the opposite one, and a factor moves to the other side. An operand is copied only
if BLAS has no flag for its order of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import _interop, _types
from ._arrays import (
    as_input,
    checked_matrix,
    checked_out,
    converted,
    copy_into,
    delivered_to,
    is_same,
    layout,
    leading_as,
    real_or_complex,
    scalar,
    target_of,
)
from ._interop import refuse_copy
from ._native import BadArgument, check, library
from ._routines import ROUTINES, Routine


def call(context, word, routine: Routine, flags, edges, alpha, a, b, beta, c) -> None:
    """One C call of the type `word`; a, b and c are (address, leading).

    flags by name, edges are (m, n, k); arguments that the routine lacks, such as b or beta, are
    ignored.
    """
    if context.queue is not None:
        context.queue.level3(word, routine, flags, edges, alpha, a, b, beta, c)
        return
    element = _types.TYPES[word]
    sizes = dict(zip("mnk", edges))

    def passed(name: str, value):
        return value.real if name in routine.real else scalar(element, value)

    # Arrays of complex scalars must stay alive during the call.
    alpha, beta = passed("alpha", alpha), passed("beta", beta)
    arguments = [*(ord(flags[name]) for name in routine.flags), *(sizes[x] for x in routine.sizes)]
    arguments += [alpha, *a, *(b if routine.has_b else ())]
    arguments += [*(() if routine.triangular else (beta,)), *c]
    check(getattr(library, f"fleet_{word}{routine.word}")(context.pointer, *arguments))


# ---- arguments of the caller --------------------------------------------------------------------


def _checked_flags(routine: Routine, flags: dict) -> dict:
    flags = {name: str(flag).lower() for name, flag in flags.items()}
    for name, flag in flags.items():
        letters = routine.letters(name)
        if len(flag) != 1 or flag not in letters:
            shown = "trans" if routine.by_itself and name == "transa" else name
            names = ", ".join(map(repr, letters))
            raise BadArgument(f"{shown} {flag!r} is none of {names}", "bad_argument")
    return flags


def _edges(routine: Routine, flags: dict, given: dict[str, np.ndarray]) -> tuple[int, int, int]:
    """m, n and k from the shapes. BadArgument if the shapes do not fit together."""
    if "side" in flags:
        # B of trmm and trsm in BLAS is the matrix that is updated.
        m, n = given["b"].shape
        edges = routine.edges(m, n, side=flags["side"])
    else:
        n, k = given["a"].shape[:: -1 if flags["transa"] != "n" else 1]
        edges = routine.edges(n=n, k=k)
    wanted = routine.shapes(*edges, flags)
    for name, array in given.items():
        shape = wanted.get(name, edges[:2])
        if array.shape != shape:
            raise BadArgument(f"{name} has shape {array.shape}, not {shape}", "bad_argument")
    return edges


def _counts(routine: Routine, flags: dict, shape) -> np.ndarray | None:
    """A mask of the elements of C that are computed; None: all."""
    if not routine.triangle:
        return None
    lower = np.tri(shape[0], dtype=bool)
    return lower if flags["uplo"] == "l" else lower.T


def _order(routine: Routine, given: dict[str, np.ndarray]) -> str:
    """The order of a new result that avoids copies of operands that must have the same order."""
    like = given["b" if "side" in routine.flags else "a"]
    if "side" in routine.flags or routine.hermitian:
        return "F" if leading_as(like, True) is None and layout(like) is not None else "C"
    return "C"


# ---- arguments for the library ------------------------------------------------------------------


@dataclass
class _Stored:
    """An array, and whether it is stored as its transpose in column-major order."""

    array: np.ndarray
    transposed: bool
    leading: int

    @property
    def pointer(self) -> tuple[int, int]:
        return self.array.ctypes.data, self.leading


def _stored(array: np.ndarray, transposed: bool | None = None) -> _Stored:
    """The operand, or a copy of it if it is not in the required order of rows."""
    found = layout(array)
    if found is not None and transposed is None:
        return _Stored(array, *found)
    wanted = bool(transposed)
    leading = leading_as(array, wanted)
    if leading is None:
        refuse_copy(array, "would have to be copied into another order of rows, that of the result")
        array = np.array(array, order="C" if wanted else "F")
        leading = leading_as(array, wanted)
    return _Stored(array, wanted, leading)


def _turned(flag: str, letters: str, turn: bool) -> str:
    """The flag, or its opposite if `turned`."""
    return letters[1 - letters.index(flag)] if turn else flag


def _product(flags, given, transposed) -> tuple[dict, list]:
    """gemmt: C^T = op(B)^T op(A)^T if C is transposed."""
    left, right = (as_input(given[x], flags["trans" + x], transposed) for x in "ab")
    if transposed:
        left, right = right, left
    factors = [(x.array, (x.array.ctypes.data, x.leading)) for x in (left, right)]
    return {**flags, "transa": left.op, "transb": right.op}, factors


def _by_itself(routine, flags, given, transposed) -> tuple[dict, list]:
    """syrk and similar routines. C^T has the factors of C, conjugated if it is Hermitian."""
    a = _stored(given["a"], transposed if routine.hermitian else None)
    factors = [a] if "b" not in given else [a, _stored(given["b"], a.transposed)]
    turned = _turned(flags["transa"], routine.letters("transa"), a.transposed)
    return {**flags, "transa": turned}, [(x.array, x.pointer) for x in factors]


def _symmetric(routine, flags, given, transposed) -> tuple[dict, list]:
    """symm and hemm: B has no flag, and a Hermitian A has none for its transpose."""
    a = _stored(given["a"], transposed if routine.hermitian else None)
    b = _stored(given["b"], transposed)
    flags = {**flags, "uplo": _turned(flags["uplo"], "lu", a.transposed)}
    return flags, [(x.array, x.pointer) for x in (a, b)]


def _triangular(flags, given, transposed) -> tuple[dict, list]:
    a = as_input(given["a"], flags["transa"], transposed)
    turned = _turned(flags["uplo"], "lu", layout(a.array)[0])
    return {**flags, "uplo": turned, "transa": a.op}, [(a.array, (a.array.ctypes.data, a.leading))]


def _as_stored(routine: Routine, flags, given, transposed: bool) -> tuple[dict, list]:
    """The flags with which the library computes C, or its transpose, from the stored operands, and
    the factors: arrays to keep alive, and (address, leading dimension) of each."""
    if routine.triangular:
        flags, factors = _triangular(flags, given, transposed)
    elif routine.symmetric:
        flags, factors = _symmetric(routine, flags, given, transposed)
    elif routine.by_itself:
        flags, factors = _by_itself(routine, flags, given, transposed)
    else:
        flags, factors = _product(flags, given, transposed)
    if routine.triangle:
        flags["uplo"] = _turned(flags["uplo"], "lu", transposed)
    if "side" in flags:
        flags["side"] = _turned(flags["side"], "lr", transposed)
    return flags, factors


# ---- the whole call -----------------------------------------------------------------------------


def _scalars(routine: Routine, dtype: np.dtype, alpha, beta) -> list:
    numbers = []
    for name, value in (("alpha", alpha), ("beta", beta)):
        if name in routine.real and complex(value).imag != 0:
            raise TypeError(f"{name} is complex, but real in {routine.word}")
        numbers.append(real_or_complex(dtype, name, value))
    return numbers


def compute(context, word: str, a, b, c, alpha, beta, flags: dict, out):
    """The routine `word`; b and c are None if the routine has none or the caller gave none."""
    routine = ROUTINES[word]
    guests = _interop.Guests()
    flags = _checked_flags(routine, flags)
    given = {
        name: checked_matrix(name, guests.view(value))
        for name, value in zip("abc", (a, b, c))
        if value is not None
    }
    edges = _edges(routine, flags, given)
    dtype = np.result_type(*(array.dtype for array in given.values())).newbyteorder("=")
    element = _types.of(dtype)
    if element is None or element.word not in routine.types:
        known = ", ".join(_types.TYPES[word].name for word in routine.types if word in "sdcz")
        raise TypeError(f"{word} is not of {dtype}; known: {known}")
    given = {name: converted(array, dtype) for name, array in given.items()}
    alpha, beta = _scalars(routine, dtype, alpha, beta)
    before = given.pop("b" if routine.triangular else "c", None)
    like = {**given, "b": before} if routine.triangular else given
    if not routine.triangular and beta == 0:
        before = None
    elif before is None:
        raise BadArgument("beta is not 0, but c is not given", "bad_argument")
    shape = edges[:2]
    out = guests.output(out)
    if out is not None:
        checked_out(out, shape, dtype)

    order = _order(routine, like)
    factors = list(given.values())
    result = target_of(out, shape, dtype, factors, guests, order, zeroed=routine.triangle)
    guests.wait(context)
    fills = before is not None and not is_same(result, before)
    counts = _counts(routine, flags, shape) if fills or not (out is None or out is result) else None
    if fills:
        copy_into(context, result, before, counts)
    transposed, leading = layout(result)
    if transposed and word == "her2k":
        alpha = alpha.conjugate()
    flags, factors = _as_stored(routine, flags, given, transposed)
    if transposed and not routine.triangle:
        edges = (edges[1], edges[0], edges[2])
    pointers = [pointer for _, pointer in factors]
    call(
        context,
        element.word,
        routine,
        flags,
        edges,
        alpha,
        pointers[0],
        pointers[-1],
        beta,
        (result.ctypes.data, leading),
    )
    return guests.deliver(delivered_to(result, out, counts))
