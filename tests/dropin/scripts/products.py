# SPDX-License-Identifier: BSD-3-Clause
"""An ordinary NumPy and SciPy program: products of all types and layouts, compared with sums that
use no BLAS. It knows nothing of the drop-in. Prints one line per wrong product.

Usage: products.py EDGE
"""

import sys

import numpy as np
from scipy.linalg import blas

EDGE = int(sys.argv[1])
rng = np.random.default_rng(5)
wrong = 0


def random_matrix(rows, columns, dtype):
    real = rng.standard_normal((rows, columns))
    if np.issubdtype(dtype, np.complexfloating):
        return (real + 1j * rng.standard_normal((rows, columns))).astype(dtype)
    return real.astype(dtype)


def check(name, got, *operands, old=0):
    global wrong
    a, b = (np.asarray(x, dtype=np.clongdouble) for x in operands)
    expected = np.einsum("...ij,...jk->...ik", a, b, optimize=False) + old
    tolerance = 200 * np.finfo(got.dtype).eps * a.shape[-1]
    if got.shape != expected.shape or not np.all(np.abs(got - expected) <= tolerance):
        print("wrong:", name, got.dtype, got.shape)
        wrong += 1


for dtype in (np.float32, np.float64, np.complex64, np.complex128):
    m, n, k = EDGE + 3, EDGE - 2, EDGE + 1
    a, b = random_matrix(m, k, dtype), random_matrix(k, n, dtype)
    check("plain", a @ b, a, b)
    check("a transposed", (a.T.copy()).T @ b, a, b)
    check("b transposed", a @ (b.T.copy()).T, a, b)
    check("Fortran order", np.asfortranarray(a) @ np.asfortranarray(b), a, b)
    check("a part of a larger matrix", np.hstack([a, a])[:, :k] @ b, a, b)
    check("every second column", np.repeat(a, 2, axis=1)[:, ::2] @ b, a, b)
    check("dot", np.dot(a, b), a, b)
    check("with itself", a @ a.T, a, a.T)
    stack = np.stack([a, a + 1, a - 1])
    check("stacked", stack @ b, stack, b)
    out = np.empty((m, n), dtype)
    check("out", np.matmul(a, b, out=out), a, b)

    gemm = getattr(blas, np.dtype(dtype).char.lower().replace("f", "s") + "gemm")
    if np.issubdtype(dtype, np.complexfloating):
        gemm = blas.cgemm if dtype == np.complex64 else blas.zgemm
    c = random_matrix(m, n, dtype)
    check("gemm", gemm(2, a, b, beta=-1, c=c), 2 * a, b, old=-np.asarray(c, np.clongdouble))
    check("gemm, transposed", gemm(1, a.T, b.T, trans_a=1, trans_b=1), a, b)
    check("gemm, conjugated", gemm(1, a.conj().T, b, trans_a=2), a, b)

sys.exit(wrong != 0)
