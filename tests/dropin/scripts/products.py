# SPDX-License-Identifier: BSD-3-Clause
"""An ordinary NumPy and SciPy program: level 3 of the BLAS in all types, compared with sums that
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


def check(name, got, *operands, old=0, part=np.asarray):
    global wrong
    a, b = (np.asarray(x, dtype=np.clongdouble) for x in operands)
    expected = part(np.einsum("...ij,...jk->...ik", a, b, optimize=False) + old)
    tolerance = 200 * np.finfo(got.dtype).eps * a.shape[-1]
    if got.shape != expected.shape or not np.all(np.abs(got - expected) <= tolerance):
        print("wrong:", name, got.dtype, got.shape)
        wrong += 1


def check_triangles(letter, a, b):
    """What SciPy has of the routines that look at a triangle of A or write one of C."""

    def routine(word):
        return getattr(blas, letter + word)

    dtype, k = a.dtype, a.shape[1]
    s = random_matrix(k, k, dtype) + k * np.eye(k, dtype=dtype)
    low, other = np.tril(s), a[::-1] + 1
    check("symm", routine("symm")(1, s, b, lower=1), low + np.tril(s, -1).T, b)
    check("syrk", routine("syrk")(1, a), a, a.T, part=np.triu)
    check("syrk of the transpose", routine("syrk")(1, a, trans=1, lower=1), a.T, a, part=np.tril)
    check("trmm", routine("trmm")(1, s, b, lower=1), low, b)
    check("trsm", b, low, routine("trsm")(1, s, b, lower=1))
    check("trsm from the right", a, routine("trsm")(1, s, a, side=1, lower=1), low)
    pairs, turned = np.hstack([a, other]), np.hstack([other, a])
    check("syr2k", routine("syr2k")(1, a, other), pairs, turned.T, part=np.triu)
    if letter in "cz":
        hermitian = low + np.tril(s, -1).conj().T
        np.fill_diagonal(hermitian, hermitian.diagonal().real)
        check("hemm", routine("hemm")(1, s, b, lower=1), hermitian, b)
        check("herk", routine("herk")(1, a), a, a.conj().T, part=np.triu)
        check("her2k", routine("her2k")(1, a, other), pairs, turned.conj().T, part=np.triu)


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
    check_triangles({"f": "s", "F": "c", "D": "z"}.get(np.dtype(dtype).char, "d"), a, b)
    check("gemm, conjugated", gemm(1, a.conj().T, b, trans_a=2), a, b)

sys.exit(wrong != 0)
