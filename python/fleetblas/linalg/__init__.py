# SPDX-License-Identifier: BSD-3-Clause
"""Linear systems, factorizations, inverses and determinants on the devices of a context.

    import fleetblas.linalg as linalg
    x = linalg.solve(a, b)                  # as numpy.linalg.solve
    c = linalg.cho_factor(a)                # as scipy.linalg.cho_factor
    x = linalg.cho_solve(c, b)

Functions that NumPy has behave as NumPy's, the others as SciPy's. All take the keyword `context`,
the default being that of the module.
"""

from numpy.linalg import LinAlgError

from ._numpy_like import QRResult, SlogdetResult, cholesky, det, inv, lstsq, qr, slogdet, solve
from ._scipy_like import cho_factor, cho_solve, lu_factor, lu_solve, solve_triangular

__all__ = [
    "LinAlgError",
    "QRResult",
    "SlogdetResult",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "det",
    "inv",
    "lstsq",
    "lu_factor",
    "lu_solve",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
]
