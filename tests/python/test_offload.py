# SPDX-License-Identifier: BSD-3-Clause
"""offload(): a NumPy that is already there goes through FleetBLAS inside the block, only there."""

COMMON = """
import numpy as np, fleetblas
a = np.random.default_rng(1).standard_normal((300, 300))
expected = a @ a
def calls():
    return fleetblas.stats()["calls"]
assert calls() == 0
"""


def passes(done):
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "passed"


def test_products_inside_the_block_are_taken_and_those_after_it_are_not(script):
    passes(
        script(
            COMMON
            + """
with fleetblas.offload() as places:
    assert places > 0
    inside = a @ a
assert calls() == 1, calls()
assert fleetblas.stats()["last"]["where"] == "devices"
assert np.allclose(inside, expected, rtol=1e-12)
a @ a
assert calls() == 1, calls()
print("passed")
"""
        )
    )


def test_blocks_nest_and_an_exception_undoes_them(script):
    passes(
        script(
            COMMON
            + """
try:
    with fleetblas.offload():
        with fleetblas.offload():
            a @ a
        a @ a
        raise KeyError
except KeyError:
    pass
assert calls() == 2, calls()
a @ a
assert calls() == 2, calls()
print("passed")
"""
        )
    )


def test_threads_multiply_while_blocks_come_and_go(script):
    passes(
        script(
            COMMON
            + """
import threading
wrong = []
def work():
    for _ in range(20):
        if not np.allclose(a @ a, expected, rtol=1e-12):
            wrong.append(1)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for _ in range(20):
    with fleetblas.offload():
        pass
for thread in threads: thread.join()
assert not wrong
print("passed")
"""
        )
    )


def test_scipy_is_taken_too(script):
    passes(
        script(
            """
try:
    import scipy.linalg.blas as blas
except ImportError:
    print("passed"); raise SystemExit
import numpy as np, fleetblas
a = np.asfortranarray(np.random.default_rng(1).standard_normal((200, 200)))
with fleetblas.offload():
    c = blas.dgemm(1.0, a, a)
assert fleetblas.stats()["calls"] == 1
assert np.allclose(c, a @ a, rtol=1e-12)
print("passed")
"""
        )
    )
