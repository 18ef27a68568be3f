# SPDX-License-Identifier: BSD-3-Clause
"""What CUDA keeps of a thread is the program's: its context, or none, and its captures. Each test
runs in a process of its own, where nobody else has made contexts."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from ctypes import byref, c_int, c_uint, c_void_p

import fleetblas
import numpy as np
import pytest
from fleetblas._native import check, library
from gpu_memory import Driver

LIMIT_S = 120
GLOBAL = 0  # CU_STREAM_CAPTURE_MODE_GLOBAL
BLOCKING, NON_BLOCKING = 0, 1  # CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING


def in_new_process(function, *arguments):
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result(timeout=LIMIT_S)


def in_new_thread(function, *arguments, **options):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments, **options).result()


def new_context(**options):
    return fleetblas.Context(backend="cuda", offload="always", **options)


def multiply(context, gpu=0):
    """Products with operands of each kind, in streams, captured, and by graphs."""
    random = np.random.default_rng(1)
    a, b = (random.standard_normal((700, 700)) for _ in range(2))
    expected = a @ b
    for location in ("p", "h", str(gpu)):
        x, y, c = a, b, np.empty_like(a)
        if location != "p":
            x, y, c = (context.empty(a.shape, location=location) for _ in range(3))
            context.copy(x, a)
            context.copy(y, b)
        for _ in range(6):
            context.gemm(x, y, out=c)
        result = c if location == "p" else context.copy(np.empty_like(a), c)
        assert np.abs(result - expected).max() < 1e-9


def multiply_and_close(gpu=0, **options):
    with new_context(**options) as context:
        multiply(context, gpu)


def current(driver):
    context = c_void_p()
    driver("cuCtxGetCurrent", byref(context))
    return context.value


def context_after(driver, gpu):
    multiply_and_close(gpu, devices=f"{gpu},")
    return current(driver)


def has_context(driver, device):
    flags, active = c_uint(), c_int()
    driver("cuDevicePrimaryCtxGetState", c_int(device), byref(flags), byref(active))
    return active.value != 0


def use_the_last_gpu(last):
    driver = Driver()
    multiply_and_close(last, devices=f"{last},")
    contexts = [current(driver), in_new_thread(context_after, driver, last)]
    return contexts, [has_context(driver, device) for device in range(last + 1)]


def use_a_context_of_its_own():
    driver = Driver()
    device, own = c_int(), c_void_p()
    driver("cuDeviceGet", byref(device), c_int(0))
    driver("cuCtxCreate_v2", byref(own), c_uint(0), device)
    multiply_and_close()
    return current(driver) == own.value


def capture_meanwhile(flags, is_started):
    driver = Driver()
    driver.use(0)
    stream, graph = c_void_p(), c_void_p()
    driver("cuStreamCreate", byref(stream), c_uint(flags))
    context = new_context()
    if is_started:
        in_new_thread(multiply, context)
    driver("cuStreamBeginCapture_v2", stream, c_int(GLOBAL))
    in_new_thread(multiply, context)
    refusals = []
    for waited in (stream.value, None) if flags == BLOCKING else (stream.value,):
        try:
            check(library.fleet_wait_stream(context.pointer, 0, c_void_p(waited)))
        except fleetblas.Error as error:
            refusals.append(error.status)
    driver("cuStreamEndCapture", stream, byref(graph))  # an error if the capture was broken
    context.close()  # not before: that waits for the devices
    return graph.value is not None, refusals


def test_no_other_gpu_gets_a_context(gpus):
    if len(gpus) < 2:
        pytest.skip("needs two GPUs")
    last = max(gpus)

    contexts, states = in_new_process(use_the_last_gpu, last)

    assert contexts == [None, None]
    assert states == [device == last for device in range(last + 1)]


def test_the_context_that_a_program_made_is_current_afterwards(gpus):
    assert in_new_process(use_a_context_of_its_own)


@pytest.mark.parametrize(
    "flags,is_started", [(NON_BLOCKING, False), (NON_BLOCKING, True), (BLOCKING, True)]
)
def test_a_capture_of_another_thread_is_not_broken(gpus, flags, is_started):
    is_whole, refusals = in_new_process(capture_meanwhile, flags, is_started)

    assert is_whole
    assert refusals == ["unsupported"] * (2 if flags == BLOCKING else 1)
