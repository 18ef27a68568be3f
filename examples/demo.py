# SPDX-License-Identifier: BSD-3-Clause
"""A plain NumPy program: a few matrix products, each checked against a sample in higher precision.

It knows nothing of FleetBLAS. `make demo` runs it unmodified under `fleetblas run`.
"""

import sys
import time

import numpy as np

SAMPLE = 16
rng = np.random.default_rng(7)


def matrix(rows, cols, dtype):
    values = rng.standard_normal((rows, cols))
    if np.issubdtype(dtype, np.complexfloating):
        values = values + 1j * rng.standard_normal((rows, cols))
    return values.astype(dtype)


def error(a, b, c):
    """max|difference| / (eps * k * max|A| * max|B|) over SAMPLE rows by SAMPLE columns of C."""
    wide = np.clongdouble if np.iscomplexobj(c) else np.longdouble
    rows = rng.choice(c.shape[0], SAMPLE, replace=False)
    cols = rng.choice(c.shape[1], SAMPLE, replace=False)
    # NumPy multiplies long doubles itself, without a BLAS.
    right = a[rows].astype(wide) @ b[:, cols].astype(wide)
    scale = np.finfo(c.dtype).eps * a.shape[1] * np.abs(a).max() * np.abs(b).max()
    return float(np.abs(c[np.ix_(rows, cols)] - right).max() / scale)


def main():
    wide = matrix(1500, 2600, np.float64)
    products = [
        ("square", matrix(2048, 2048, np.float64), matrix(2048, 2048, np.float64)),
        ("tall times flat", matrix(6000, 300, np.float64), matrix(300, 1100, np.float64)),
        ("short and deep", matrix(400, 7000, np.float64), matrix(7000, 500, np.float64)),
        ("transposed", matrix(1700, 1300, np.float64).T, matrix(1900, 1700, np.float64).T),
        ("part of a matrix", wide[100:1400, 50:2050], matrix(2000, 1000, np.float64)),
        ("float32", matrix(2500, 1800, np.float32), matrix(1800, 2100, np.float32)),
        ("complex", matrix(900, 1000, np.complex128), matrix(1000, 1200, np.complex128)),
        (
            "adjoint, complex64",
            matrix(1100, 800, np.complex64).conj().T,
            matrix(1100, 900, np.complex64),
        ),
    ]
    print(f"NumPy {np.__version__}: {len(products)} products")
    print(f"{'what':20} {'type':10} {'m x k x n':>16} {'ms':>8}  error")
    wrong = 0
    for what, a, b in products:
        start = time.perf_counter()
        c = a @ b
        ms = 1e3 * (time.perf_counter() - start)
        off = error(a, b, c)
        verdict = "right" if off < 1 else "WRONG"
        wrong += verdict == "WRONG"
        shape = f"{a.shape[0]} x {a.shape[1]} x {b.shape[1]}"
        print(f"{what:20} {c.dtype!s:10} {shape:>16} {ms:8.1f}  {off:.1e} {verdict}", flush=True)
    print(f"{len(products) - wrong} right, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
