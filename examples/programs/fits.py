# SPDX-License-Identifier: BSD-3-Clause
"""Fits of scikit-learn to data that change in the same memory, each checked by what defines it.

It knows nothing of FleetBLAS: the drop-in serves the products.

usage: python fits.py [ROWS COLUMNS [FILE]]    FILE gets what was fitted, of all rounds (doubles)
"""

import sys
import time

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge

ROUNDS = 3
ALPHA = 0.5


def fitted(model, *data):
    begun = time.perf_counter()
    model.fit(*data)
    return model, time.perf_counter() - begun


def ridge(x, y):
    """The coefficients, the seconds of the fit, and the gradient, relative, which is 0 there."""
    model, fit_s = fitted(Ridge(alpha=ALPHA, fit_intercept=False, solver="cholesky"), x, y)
    # Without BLAS, so that a wrong product cannot hide itself.
    rest = y - np.einsum("ij,kj->ik", x, model.coef_, optimize=False)
    gradient = np.einsum("ij,ik->kj", x, rest, optimize=False) - ALPHA * model.coef_
    scale = np.abs(x).sum(axis=0).max() * np.abs(y).max()
    return model.coef_, fit_s, np.abs(gradient).max() / scale


def components(x, count):
    """The variances along the first axes, the seconds of the fit, and how far the axes are from
    those of the covariance."""
    model, fit_s = fitted(PCA(count, svd_solver="covariance_eigh"), x)
    centred = x - x.mean(axis=0)
    covariance = np.einsum("ij,ik->jk", centred, centred, optimize=False) / (len(x) - 1)
    along = np.einsum("ij,kj->ki", covariance, model.components_, optimize=False)
    rest = along - model.explained_variance_[:, np.newaxis] * model.components_
    return model.explained_variance_, fit_s, np.abs(rest).max() / model.explained_variance_.max()


def main():
    rows, columns = (int(word) for word in (sys.argv[1:3] or ("2000", "200")))
    rng = np.random.default_rng(1)
    x, y = np.empty((rows, columns)), np.empty((rows, 20))
    found, is_right = [], True
    for number in range(ROUNDS):
        rng.standard_normal(out=x)
        x *= np.linspace(1, 3, columns)
        rng.standard_normal(out=y)
        y += x[:, :20] * (number + 1)
        coefficients, ridge_s, gradient = ridge(x, y)
        variances, pca_s, rest = components(x, 20)
        print(
            f"round {number}: ridge in {ridge_s:.3f} s, gradient {gradient:.1e}; "
            f"components in {pca_s:.3f} s, rest {rest:.1e}",
            file=sys.stderr,
        )
        is_right &= gradient < 1e-13 and rest < 1e-12
        found.append(np.concatenate([coefficients.ravel(), variances]))
    if len(sys.argv) > 3:
        np.concatenate(found).tofile(sys.argv[3])
    print("right" if is_right else "wrong")
    return not is_right


if __name__ == "__main__":
    sys.exit(main())
