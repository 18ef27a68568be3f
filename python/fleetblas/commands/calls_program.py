# SPDX-License-Identifier: BSD-3-Clause
"""The program that `fleetblas bench calls` runs: products by NumPy alone, as programs make them.

usage: python calls_program.py '{"pattern": "fresh", "size": 4096, "type": "d", "seconds": 2}'

It says "ready" when its operands are there, waits for a line, works for the seconds, and prints
what it measured as JSON. It must not import fleetblas: whether that is there is the parent's
choice.
"""

import json
import statistics
import sys
import time

import numpy as np

DTYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
SMALL_EDGES = (32, 64, 128, 256)
SMALL_EACH = 16  # of each edge beside a large product
LEAST_ROUNDS = 3


def random_matrix(rng, n, dtype):
    real = rng.random((n, n), np.float32 if np.dtype(dtype).itemsize <= 8 else np.float64)
    return real.astype(dtype) if np.isrealobj(dtype()) else (real + 1j * real[::-1]).astype(dtype)


class Program:
    """`round` makes the calls of one round and returns the seconds of its large product."""

    def __init__(self, size, dtype):
        rng = np.random.default_rng(1)
        self.a, self.b = random_matrix(rng, size, dtype), random_matrix(rng, size, dtype)
        self.v = random_matrix(rng, size, dtype)[0]

    def error(self):
        """Of the last result, in units of what rounding may do."""
        with_v, expected = self.c @ self.v, self.a @ (self.b @ self.v)
        unit = np.finfo(self.c.dtype).eps * len(self.v) * np.abs(expected).max()
        return float(np.abs(with_v - expected).max() / unit)


class Fresh(Program):
    """Operands are allocated and filled before each product, and freed after it."""

    def round(self):
        self.c = None
        a, b = self.a.copy(), self.b.copy()
        begin = time.perf_counter()
        self.c = a @ b
        return time.perf_counter() - begin


class Again(Program):
    """The same operands again and again."""

    def __init__(self, size, dtype):
        super().__init__(size, dtype)
        self.c = np.empty_like(self.a)

    def round(self):
        begin = time.perf_counter()
        np.matmul(self.a, self.b, out=self.c)
        return time.perf_counter() - begin


class Mixed(Again):
    """A large product, and many small ones before it."""

    def __init__(self, size, dtype):
        super().__init__(size, dtype)
        rng = np.random.default_rng(2)
        self.small = [random_matrix(rng, edge, dtype) for edge in SMALL_EDGES]

    def round(self):
        for small in self.small:
            for _ in range(SMALL_EACH):
                small @ small
        return super().round()


PATTERNS = {"fresh": Fresh, "again": Again, "mixed": Mixed}


def main():
    spec = json.loads(sys.argv[1])
    program = PATTERNS[spec["pattern"]](spec["size"], DTYPES[spec["type"]])
    print("ready", flush=True)
    if not sys.stdin.readline():
        return
    # The first round starts what the later ones find: it may take a second, which are not theirs.
    products, rounds = [program.round()], []
    begin = before = time.perf_counter()
    while len(rounds) < LEAST_ROUNDS or before - begin < spec["seconds"]:
        products.append(program.round())
        now = time.perf_counter()
        rounds.append(now - before)
        before = now
    found = {
        "first_s": products[0],
        "product_s": statistics.median(products[1:]),
        "least_s": min(products[1:]),
        "most_s": max(products[1:]),
        "round_s": statistics.median(rounds),
        "rounds": len(rounds),
        "seconds": sum(rounds),
        "error": program.error(),
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
