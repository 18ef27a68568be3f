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


ARRAYS = """
import threading
import numpy as np, fleetblas
def name_of(array):
    return np._core.multiarray.get_handler_name(array)
large = lambda: np.ones((3000, 3000))
before = large()
with fleetblas.offload():
    with fleetblas.offload():
        array = large()
    zeros, small = np.zeros((9000, 1000)), np.ones(9)
    others = []
    thread = threading.Thread(target=lambda: others.append(large()))
    thread.start(); thread.join()
    grown = np.ones(9_000_000); grown.resize(20_000_000, refcheck=False)
after = large()
"""


def test_large_arrays_inside_the_block_come_from_the_pool(script):
    passes(
        script(
            ARRAYS
            + """
handlers = [name_of(x) for x in (before, array, zeros, small, others[0], after)]
default = name_of(before)
assert handlers == [default, "fleetblas", "fleetblas", "fleetblas", default, default], handlers
place = lambda x: x.ctypes.data % (256 << 20)
assert place(array) == place(zeros) == place(grown) == 0
assert place(before) and place(small) and place(others[0])
assert zeros.sum() == 0 and grown.sum() == 9_000_000
del array, zeros, small, grown   # freed after the block
print("passed")
""",
        )
    )


def test_arrays_of_the_pool_are_pinned_once_devices_have_used_them(script):
    passes(
        script(
            """
import time
import numpy as np, fleetblas
with fleetblas.offload():
    a, b = np.ones((90000, 100)), np.ones((100, 100))
    for _ in range(50):
        c = a @ b
        time.sleep(0.02)
        if fleetblas.stats()["last"]["place"] == "h,p,h":
            break
assert c[5, 5] == 100
last = fleetblas.stats()
assert last["last"]["place"] in ("h,p,h", "p,h,h"), last["last"]["place"]
assert last["pool"]["pinned"] >= 3 * 72e6, last["pool"]
print("passed")
""",
        )
    )


def test_without_a_pool_arrays_are_left_alone(script):
    passes(
        script(
            ARRAYS
            + """
assert name_of(array) == name_of(before)
print("passed")
""",
            FLEETBLAS_POOL="0",
        )
    )
