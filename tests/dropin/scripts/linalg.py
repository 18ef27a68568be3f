# SPDX-License-Identifier: BSD-3-Clause
"""What NumPy and SciPy do by LAPACK's factorizations, in all four types, each checked by a product.

linalg.py N [threads|fork]: with matrices of N rows. Prints what is wrong.
"""

import os
import sys
import threading

import numpy as np
import scipy.linalg as sl

N = int(sys.argv[1])
TOLERANCE = {"f": 2e-3, "d": 1e-9, "F": 2e-3, "D": 1e-9}


def wrong(what, kind, got, expected):
    error = np.abs(got - expected).max() / max(1, np.abs(expected).max())
    if not error < TOLERANCE[kind]:
        print(what, kind, error)


def matrix(random, kind, rows, cols):
    a = random.uniform(-1, 1, (rows, cols))
    if kind in "FD":
        a = a + 1j * random.uniform(-1, 1, (rows, cols))
    return a.astype(kind)


def by_numpy(kind, a, b, spd):
    one = np.eye(N)
    wrong("solve", kind, a @ np.linalg.solve(a, b), b)
    wrong("inv", kind, a @ np.linalg.inv(a), one)
    sign, log = np.linalg.slogdet(a)
    u = sl.lu(a, permute_l=True)[1]
    wrong("slogdet", kind, np.array(log), np.log(np.abs(np.diag(u))).sum())
    wrong("sign", kind, np.array(abs(sign)), np.array(1))
    low = np.linalg.cholesky(spd)
    wrong("cholesky", kind, low @ low.conj().T, spd)
    q, r = np.linalg.qr(b)
    wrong("qr", kind, q @ r, b)
    wrong("q", kind, q.conj().T @ q, np.eye(b.shape[1]))


def by_scipy(kind, a, b, spd):
    one = np.eye(N)
    wrong("sl.solve", kind, a @ sl.solve(a, b), b)
    wrong("sl.solve pos", kind, spd @ sl.solve(spd, b, assume_a="pos"), b)
    wrong("sl.inv", kind, a @ sl.inv(a), one)
    wrong("sl.lu_solve", kind, a.T @ sl.lu_solve(sl.lu_factor(a), b, trans=1), b)
    wrong("sl.cho_solve", kind, spd @ sl.cho_solve(sl.cho_factor(spd), b), b)
    low = np.tril(a) + N * one.astype(kind)
    wrong("sl.triangular", kind, low @ sl.solve_triangular(low, b, lower=True), b)
    q, r = sl.qr(b, mode="economic")
    wrong("sl.qr", kind, q @ r, b)
    wrong("sl.qr_multiply", kind, sl.qr_multiply(b, a[: N // 2])[0], a[: N // 2] @ q)
    letter = {"f": "s", "d": "d", "F": "c", "D": "z"}[kind]
    upper, _ = getattr(sl.lapack, letter + "potrf")(spd)
    inverse, _ = getattr(sl.lapack, letter + "potri")(upper)
    wrong("potri", kind, np.triu(inverse), np.triu(np.linalg.inv(spd)))
    inverse, _ = getattr(sl.lapack, letter + "trtri")(low, lower=1)
    wrong("trtri", kind, low @ np.tril(inverse), one)
    product, _ = getattr(sl.lapack, letter + "lauum")(np.triu(upper))
    full = np.triu(upper) @ np.triu(upper).conj().T
    wrong("lauum", kind, np.triu(product), np.triu(full))
    _, x, _ = getattr(sl.lapack, letter + "posv")(spd, b)
    wrong("posv", kind, spd @ x, b)
    _, _, x, _ = getattr(sl.lapack, letter + "gesv")(a, b)
    wrong("gesv", kind, a @ x, b)


def singular(kind):
    a = np.ones((N, N), dtype=kind)
    a[:, 1] = 0
    for call in (lambda: np.linalg.inv(a * 0), lambda: np.linalg.cholesky(-np.eye(N, dtype=kind))):
        try:
            call()
            print("singular: no error", kind)
        except np.linalg.LinAlgError:
            pass
    if np.linalg.det(a) != 0:
        print("singular: det", kind)


def everything():
    random = np.random.default_rng(3)
    for kind in "fdFD":
        a = matrix(random, kind, N, N) + 3 * np.eye(N, dtype=kind)
        b = matrix(random, kind, N, N // 2)
        spd = a @ a.conj().T + N * np.eye(N, dtype=kind)
        by_numpy(kind, a, b, spd)
        by_scipy(kind, a, b, spd)
        singular(kind)
    assert np.linalg.solve(np.zeros((0, 0)), np.zeros((0, 2))).shape == (0, 2)
    assert np.linalg.qr(np.zeros((0, 3)))[0].shape == (0, 0)


mode = sys.argv[2] if len(sys.argv) > 2 else ""
if mode == "threads":
    threads = [threading.Thread(target=everything) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
elif mode == "fork":
    everything()
    child = os.fork()
    if child == 0:
        os.environ["RECORD_FILE"] = os.environ["RECORD_FILE"] + "-child"
        everything()
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        print("the child failed")
else:
    everything()
