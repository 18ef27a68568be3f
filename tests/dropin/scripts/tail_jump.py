# SPDX-License-Identifier: BSD-3-Clause
"""Calls SciPy's dgemm by the pointer that it gives to compiled code, as scikit-learn and numba do:
the call's return address then lies in a library that has nothing to do with BLAS. Exits 0 when the
product is right.
"""

import ctypes
import sys

import numpy as np
from scipy.linalg import cython_blas

api = ctypes.pythonapi
api.PyCapsule_GetName.restype = ctypes.c_char_p
api.PyCapsule_GetName.argtypes = [ctypes.py_object]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
capsule = cython_blas.__pyx_capi__["dgemm"]
pointer = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
gemm = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(pointer)

a = np.arange(49.0).reshape(7, 7, order="F")
c = np.empty_like(a)
n, one, zero = ctypes.c_int(7), ctypes.c_double(1), ctypes.c_double(0)
plain = ctypes.c_char(b"n")
size, flag = ctypes.addressof(n), ctypes.addressof(plain)
matrix, result = a.ctypes.data, c.ctypes.data
scalars = ctypes.addressof(one), ctypes.addressof(zero)
gemm(flag, flag, size, size, size, scalars[0], matrix, size, matrix, size, scalars[1], result, size)
sys.exit(not np.array_equal(c, np.einsum("ij,jk->ik", a, a, optimize=False)))
