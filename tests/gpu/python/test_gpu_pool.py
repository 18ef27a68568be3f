# SPDX-License-Identifier: BSD-3-Clause
"""Large arrays are pinned once GPUs have used them, in pieces of 256 MB: results are right before,
meanwhile and after, for matrices whose columns go over the borders of pieces, and both sides of a
fork have their data."""

import subprocess
import sys

PRODUCTS = """
import os, time
import fleetblas
import numpy as np
random = np.random.default_rng(1)
edge = 9001
with fleetblas.offload():
    a, b = random.standard_normal((2, edge, edge))
    a = a + 0.0  # blocks of their own
    b = b + 0.0
    x = random.standard_normal((edge, 3))
    wanted, first = a @ (b @ x), a[:, 0].copy()
    pinned = 0
    for _ in range(40):
        c = a @ b
        pinned += fleetblas.stats()["last"]["place"].count("h") > 1
        assert np.allclose(c @ x, wanted, rtol=1e-9, atol=1e-7 * edge)
        time.sleep(0.1)
        if pinned > 3:
            break
    child = os.fork()
    if child == 0:
        right = np.array_equal(a[:, 0], first) and np.allclose(c @ x, wanted, atol=1e-7 * edge)
        a[:, 0] = 0
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(a[:, 0], first)
    s = c @ c.T + edge * np.eye(edge)
    for _ in range(3):
        l = np.linalg.cholesky(s)
        assert np.allclose(l @ (l.T @ x), s @ x, rtol=1e-9, atol=1e-6 * edge)
print(pinned, fleetblas.stats()["pool"]["pinned"] // 2**20)
"""


def test_large_arrays_become_pinned_and_results_stay_right(gpus):
    done = subprocess.run(
        [sys.executable, "-c", PRODUCTS],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    products, megabytes = map(int, done.stdout.split())
    assert products > 3
    assert megabytes > 3 * 600
