# SPDX-License-Identifier: BSD-3-Clause
"""Answers the stand-ins in NumPy and SciPy (hooks/_fleetblas_hook): computes what devices may do
sooner, and says NotImplemented to all else. Which calls are worth it is decided here, and nowhere
in the modules that compute them.
"""

from __future__ import annotations

import functools
import time

import numpy as np

from .. import _lapack
from .._errors import BadArgument, NoMemory, Unsupported
from . import _batched, _books, _checked, _flapack, _gufuncs

# Of the library, after which all operands are as they were.
_UNTOUCHED = (BadArgument, NoMemory, Unsupported)

report = _books.report

_FAMILIES = {"_umath_linalg": _gufuncs, "_flapack": _flapack, "_batched_linalg": _batched}


@functools.cache
def _least_flops() -> float:
    return _lapack.least_flops()


def least_elements() -> float:
    """No call whose operands are smaller has as many flops: with the edge as the square root of
    their elements, 8/3 of its cube for a solution, 4 for a product with a unitary matrix, and 4
    times that for complex numbers."""
    return (_least_flops() / 16) ** (2 / 3)


def serve(module: str, name: str, original, values: tuple, words: dict):
    """The result of original(*values, **words) of a module of NumPy or SciPy, or NotImplemented."""
    family = _FAMILIES[module.rpartition(".")[2]]
    call = None
    try:
        with np.errstate(all="ignore"):  # the caller's may raise its own errors
            call = family.prepared(name, original, values, words)
            if call is None or call.flops < _least_flops():
                return NotImplemented
            start_s = time.perf_counter()
            result, sample = call.compute(_checked.context_of(None))
            _books.note(call.name, time.perf_counter() - start_s)
    except Exception as error:
        if call is not None and call.overwrites and not isinstance(error, _UNTOUCHED):
            raise  # an operand may be lost
        return NotImplemented
    if sample is not None:
        _gufuncs.signal(original, name, sample, words)
    return result
