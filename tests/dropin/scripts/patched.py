# SPDX-License-Identifier: BSD-3-Clause
"""A program that imported NumPy before it heard of the preload library: patches, products, and
back. Writes marks between the events in RECORD_FILE.

Usage: patched.py PRELOAD_LIBRARY
"""

import ctypes
import importlib
import os
import sys

import numpy as np

a = np.arange(400.0).reshape(20, 20)
expected = np.einsum("ij,jk->ik", a, a, optimize=False)
library = ctypes.CDLL(sys.argv[1])


def mark(text):
    with open(os.environ["RECORD_FILE"], "a") as file:
        file.write(f"mark {text}\n")


def multiply(text):
    mark(text)
    assert np.array_equal(a @ a, expected)
    if "scipy" in sys.modules:
        blas = sys.modules["scipy.linalg"].blas
        assert np.array_equal(blas.dgemm(1, a, a), expected)


multiply("before")
assert library.fleetblas_preload_unpatch() < 0, "nothing is patched yet"
slots = library.fleetblas_preload_patch()
assert slots >= 4, slots
multiply("patched")
assert library.fleetblas_preload_patch() == slots, "the second patch finds the same slots"
assert library.fleetblas_preload_unpatch() == 0, "one patch is left"
multiply("once undone")
assert library.fleetblas_preload_unpatch() == slots
multiply("undone")

library.fleetblas_preload_patch()
importlib.import_module("scipy.linalg")  # not seen before the next patch call
assert library.fleetblas_preload_patch() > slots
multiply("with scipy")
assert library.fleetblas_preload_unpatch() == 0
assert library.fleetblas_preload_unpatch() > slots
multiply("scipy undone")
