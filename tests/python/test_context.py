# SPDX-License-Identifier: BSD-3-Clause
"""Contexts, memory at a location, texts, and errors as exceptions."""

import gc
import json
import os
import platform
import shutil
import subprocess
import sys

import fleetblas
import numpy as np
import pytest
from fleetblas import _native


@pytest.fixture
def context():
    with fleetblas.Context(backend="host", devices=2, offload="always") as made:
        yield made


@pytest.mark.parametrize("location", ["h", "p", 0, 1, "1"])
def test_products_of_arrays_at_every_location(context, location):
    g = np.random.default_rng(1)
    a, b = g.standard_normal((50, 40)), g.standard_normal((40, 30))
    far = [context.empty(x.shape, x.dtype, location) for x in (a, b)]
    for there, here in zip(far, (a, b)):
        assert context.copy(there, here) is there
    out = context.empty((50, 30), np.float64, location)

    context.gemm(*far, out=out)

    np.testing.assert_allclose(context.copy(np.empty((50, 30)), out), a @ b, rtol=1e-12)
    assert context.stats()["last"]["place"] == ",".join([str(location)] * 3)


def test_arrays_on_a_device_are_refused_where_numpy_would_touch_them(context):
    a = context.empty((20, 20), location=1)

    with pytest.raises(fleetblas.BadArgument, match="an array on a device cannot be out"):
        context.gemm(a, a, out=a)
    with pytest.raises(fleetblas.BadArgument, match="an array on a device is of float64"):
        context.gemm(a, np.ones((20, 20), np.complex128))


PRODUCT_BEYOND_REACH = """
import ctypes, sys
import fleetblas, numpy as np
from fleetblas._native import check, library

ctypes.CDLL(sys.argv[1])  # the program uses GPUs, which FleetBLAS cannot
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
away = libc.mmap(None, ctypes.c_size_t(4096), 0, 0x22, -1, ctypes.c_long(0))
here, n = np.ones(4), ord("n")
try:
    check(library.fleet_dgemm(None, n, n, 2, 2, 2, 1.0, away, 2, here.ctypes.data, 2, 0.0,
                              here.ctypes.data, 2))
except fleetblas.Error as error:
    print(error.status, error, here)
"""


def test_memory_of_gpus_that_cannot_be_used_is_refused(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    driver, empty = tmp_path / "libcuda.so.1", tmp_path / "empty.c"
    empty.write_text("int fleet_nothing;\n")
    words = [compiler, "-shared", "-fPIC", f"-Wl,-soname,{driver.name}", empty, "-o", driver]
    subprocess.run(words, check=True, timeout=60)

    done = subprocess.run(
        [sys.executable, "-c", PRODUCT_BEYOND_REACH, driver],
        env={**os.environ, "FLEETBLAS_BACKEND": "auto"},
        capture_output=True,
        text=True,
        timeout=60,
    )

    message = "the CPU cannot reach an operand, and no GPU of the program can be used here"
    assert done.stdout == f"unsupported {message} [1. 1. 1. 1.]\n", done.stderr


SMALL_PRODUCTS = """
import numpy as np
import fleetblas

context = fleetblas.Context()
a = np.ones((8, 8))
for i in range(50):
    context.gemm(a, a)
assert context.stats()["last"]["where"] == "cpu"
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="this loader does not say what it does"
)
@pytest.mark.parametrize("backend", ["auto", "host"])
@pytest.mark.parametrize(("offload", "min_flops"), [("never", "0"), ("auto", "1e9")])
def test_a_call_that_no_device_may_do_does_not_search_for_the_driver(
    tmp_path, backend, offload, min_flops
):
    # A search takes 19 us, and a lock of the whole process.
    done = subprocess.run(
        [sys.executable, "-c", SMALL_PRODUCTS],
        env={
            **os.environ,
            "FLEETBLAS_BACKEND": backend,
            "FLEETBLAS_OFFLOAD": offload,
            "FLEETBLAS_MIN_FLOPS": min_flops,
            "LD_DEBUG": "files",
            "LD_DEBUG_OUTPUT": str(tmp_path / "loader"),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    loaded = "".join(log.read_text() for log in tmp_path.iterdir())
    assert "libfleetblas" in loaded
    assert "libcuda.so.1" not in loaded


def test_memory_lives_as_long_as_a_view_of_it_and_its_context_too():
    context = fleetblas.Context(backend="host", devices=1)
    view = context.empty((100, 100), np.float32, "h", order="F")[10:20, 5:9]
    view[...] = 3
    context.close()
    del context
    gc.collect()
    assert (view == 3).all()


def test_freed_memory_can_be_had_again(context):
    # Ten times a third of what a device has.
    with fleetblas.Context(backend="host", devices=1, device_memory="3M") as small:
        for _ in range(10):
            array = small.empty(2**20, np.uint8, 0)
            array[...] = 1
            del array
        with pytest.raises(MemoryError):
            small.empty(2**23, np.uint8, 0)


def test_an_empty_array_needs_no_memory(context):
    assert context.empty((0, 5), location=0).shape == (0, 5)
    assert context.empty(3).shape == (3,)


@pytest.mark.parametrize("location", ["x", -1, 99, None])
def test_a_location_that_is_none_is_refused(context, location):
    with pytest.raises(fleetblas.BadArgument):
        context.empty((2, 2), location=location)


def test_a_closed_context_says_so(context):
    closed = fleetblas.Context(backend="host")
    closed.close()
    with pytest.raises(fleetblas.BadArgument, match="closed"):
        closed.stats()


def test_registered_memory_counts_as_pinned(context):
    a = np.ones((64, 64))
    context.register(a)
    context.gemm(a, a)
    assert context.stats()["last"]["place"] == "h,h,p"
    context.unregister(a)
    context.gemm(a, a)
    assert context.stats()["last"]["place"] == "p,p,p"
    with pytest.raises(fleetblas.BadArgument):
        context.unregister(a)


def test_copies_do_not_scramble(context):
    a = np.arange(6.0).reshape(2, 3)
    for order in "CF":
        there = context.empty(a.shape, location=0, order=order)
        source = np.asarray(a, order=order)
        back = context.copy(np.empty_like(source), context.copy(there, source))
        assert (back == a).all()
        with pytest.raises(ValueError, match="one array is C-ordered and one F-ordered"):
            context.copy(there, np.asarray(a, order="FC"["CF".index(order)]))
    assert context.copy(np.empty(6), a).tolist() == list(range(6))  # as they lie


def test_what_is_no_array_is_named(context):
    a = np.ones(2)
    for call in (context.register, context.unregister):
        with pytest.raises(TypeError, match="array is a list, not a NumPy array"):
            call([1.0, 2.0])
    with pytest.raises(TypeError, match="to is a list"):
        context.copy([1.0, 2.0], a)
    with pytest.raises(TypeError, match="source is a list"):
        context.copy(a, [1.0, 2.0])


def test_options_are_given_as_python_values():
    with fleetblas.Context(backend="host", devices=[1], deterministic=True, tile=None) as context:
        config = context.config()
    assert config["devices"] == [1]
    assert config["options"]["deterministic"]["value"] is True
    assert config["options"]["tile"]["value"] == 0


@pytest.mark.parametrize(
    ("options", "exception", "status"),
    [
        ({"backend": "abacus"}, fleetblas.BadOption, "bad_option"),
        ({"nonsense": 1}, fleetblas.BadOption, "bad_option"),
        ({"machine": "no-such-machine"}, fleetblas.BadFile, "bad_file"),
        ({"machine": "a;tile=3"}, fleetblas.BadOption, "bad_option"),
    ],
)
def test_options_that_mean_nothing_are_exceptions_with_one_line(options, exception, status):
    with pytest.raises(exception) as caught:
        fleetblas.Context(**options)
    assert caught.value.status == status
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, fleetblas.Error)


def test_every_status_has_its_exception():
    for status in range(1, 9):
        with pytest.raises(fleetblas.Error) as caught:
            _native.check(status)
        assert caught.value.status == _native.library.fleet_status_string(status).decode()
    _native.check(0)


def test_plan_bound_and_simulation_agree_about_a_problem(context):
    plan = context.plan(size=1024, type="s", place="h,p,0", beta=0)
    assert plan["problem"] == "sgemm m=1024 n=1024 k=1024 a@h b@p c@0 beta=0"
    assert context.plan(plan["problem"])["tile"] == plan["tile"]
    assert context.bound(plan["problem"])["bound_s"] == plan["bound_s"]
    timeline = context.simulate(plan["problem"])
    assert timeline["fleetblas"]["source"] == "simulated"
    done = [event for event in timeline["traceEvents"] if event["ph"] == "X"]
    assert len(done) == plan["tasks"]


@pytest.mark.parametrize(
    "words",
    [{}, {"m": 3, "n": 3}, {"size": 3, "place": "h,h"}, {"size": -1}, {"size": 3, "type": "q"}],
)
def test_a_problem_that_is_none_is_refused(context, words):
    with pytest.raises(fleetblas.BadArgument):
        context.plan(**words)


def test_a_trace_is_of_the_last_product(context):
    with pytest.raises(fleetblas.Unsupported):
        context.trace()
    context.gemm(np.ones((300, 200)), np.ones((200, 100)))
    summary = context.trace()["fleetblas"]
    assert summary["source"] == "measured"
    assert "m=100 n=300 k=200" in summary["problem"]  # C-ordered: done as the transpose


def test_machine_is_json_that_a_context_takes_back(context, tmp_path):
    file = tmp_path / "machine.json"
    file.write_text(json.dumps(context.machine()))
    with fleetblas.Context(backend="sim", machine=file) as again:
        assert again.machine() == context.machine()


def test_the_version_is_that_of_the_library():
    assert fleetblas.__version__ == fleetblas.config()["version"]


def test_a_missing_library_is_an_import_error_that_names_the_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("FLEETBLAS_LIB_DIR", str(tmp_path))
    with pytest.raises(ImportError, match=str(tmp_path)):
        _native.find_library("libnothing.so")
