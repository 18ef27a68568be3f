# SPDX-License-Identifier: BSD-3-Clause
"""A multiprocessing pool of forked children, started after products in the parent, with products in
all of them. Children name themselves in CHILD_FILE, so that a recording core shows what reaches it
from a child. It knows nothing of the drop-in.
"""

import multiprocessing
import os

import numpy as np

EDGE = 130


def wrong(seed):
    if "CHILD_FILE" in os.environ and multiprocessing.parent_process():
        os.environ["RECORD_FILE"] = os.environ["CHILD_FILE"]
    a = np.random.default_rng(seed).integers(-9, 9, (EDGE, EDGE)).astype(float)
    return int(not np.array_equal(a @ a, np.einsum("ij,jk->ik", a, a, optimize=False)))


if __name__ == "__main__":
    failures = wrong(0)
    with multiprocessing.get_context("fork").Pool(3) as pool:
        failures += sum(pool.map(wrong, range(12)))
        failures += wrong(1)
    print(failures, "wrong")
