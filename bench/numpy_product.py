#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""c = a @ b by NumPy as it is: the seconds of each product of random matrices, which is checked.

python3 bench/numpy_product.py --size 16384
fleetblas run -- python3 bench/numpy_product.py --size 16384
"""

import argparse
import sys
import time

import numpy as np

TOLERANCE = 1e-12  # of c @ x, as a share of its largest element


def error_of(c, a, b) -> float:
    """By a random vector x: c @ x against a @ (b @ x)."""
    x = np.random.default_rng(2).random(c.shape[1])
    expected = a @ (b @ x)
    return float(np.abs(c @ x - expected).max() / np.abs(expected).max())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=16384)
    parser.add_argument("--repeat", type=int, default=8)
    arguments = parser.parse_args()

    random = np.random.default_rng(1)
    a, b = (random.random((arguments.size, arguments.size)) for _ in range(2))
    seconds = []
    for _ in range(arguments.repeat):
        start = time.perf_counter()
        c = a @ b
        seconds.append(time.perf_counter() - start)
    error = error_of(c, a, b)
    print(f"a @ b, {arguments.size}: first {seconds[0]:.3f} s, then", end="")
    print("", *(f"{each:.3f}" for each in seconds[1:]), f"s; error {error:.1e}")
    return 0 if error < TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
