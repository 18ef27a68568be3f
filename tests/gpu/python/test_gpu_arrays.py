# SPDX-License-Identifier: BSD-3-Clause
"""Arrays on GPUs as operands: at mixed places, ordered after what their streams have queued; with
memory of our own behind the CUDA array interface, with CuPy and with PyTorch."""

import ctypes

import fleetblas
import numpy as np
import pytest

EDGE = 1500
DELAY_COPIES, DELAY_BYTES = 200, 2**28


class GpuArray:
    """Memory of a GPU that fleetblas.empty gave, under the array interface that CuPy has."""

    def __init__(self, values, device, stream=1):
        values = np.ascontiguousarray(values)
        self.memory = fleetblas.empty(values.shape, values.dtype, location=device)
        fleetblas.copy(self.memory, values)
        self.device, self.stream = device, stream

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.memory.shape,
            "typestr": self.memory.dtype.str,
            "data": (self.memory.ctypes.data, False),
            "strides": None,
            "version": 3,
            "stream": self.stream,
        }

    def __dlpack_device__(self):
        return (2, self.device)

    def on_host(self):
        return fleetblas.copy(np.empty(self.memory.shape, self.memory.dtype), self.memory)


@pytest.fixture
def driver(gpus):
    """The CUDA driver with the first GPU's context current."""
    library = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        assert getattr(library, name)(*arguments) == 0, name

    number, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", ctypes.c_uint(0))
    call("cuDeviceGet", ctypes.byref(number), ctypes.c_int(gpus[0]))
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
    call("cuCtxSetCurrent", context)
    return call


def random(*shape, dtype=np.float64):
    return np.random.default_rng(1).standard_normal(shape).astype(dtype)


def assert_near(found, expected, k):
    tolerance = 20 * k * np.finfo(expected.dtype).eps
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=4 * tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_operands_on_the_host_and_on_different_gpus(gpus, dtype):
    a, b, c = (random(EDGE, EDGE + i, dtype=dtype) for i in (0, 1, 1))
    on_first, on_last = GpuArray(a, gpus[0]), GpuArray(c, gpus[-1])

    fleetblas.gemm(on_first, b, on_last, alpha=2, beta=-1, out=on_last)

    assert_near(on_last.on_host(), 2 * (a @ b) - c, EDGE)
    assert fleetblas.stats()["last"]["place"].split(",")[2] == str(gpus[-1])


def test_a_stack_on_a_gpu(gpus):
    a, b = random(3, 400, 300), random(300, 200)
    out = GpuArray(np.zeros((3, 400, 200)), gpus[0])
    fleetblas.matmul(GpuArray(a, gpus[-1]), GpuArray(b, gpus[0]), out=out)
    assert_near(out.on_host(), a @ b, 300)


@pytest.mark.parametrize("which", ["a", "c"])
def test_a_product_starts_after_what_its_stream_has_queued(gpus, driver, which):
    """A slow stream writes ones into an operand at its end; a product that did not wait would see
    the zeros before."""
    stream, scratch = ctypes.c_void_p(), [ctypes.c_uint64(), ctypes.c_uint64()]
    driver("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(1))  # does not wait for stream 0
    for memory in scratch:
        driver("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(DELAY_BYTES))
    ones = fleetblas.empty((EDGE, EDGE), np.float64, location="h")
    ones[...] = 1.0
    slow = GpuArray(np.zeros((EDGE, EDGE)), gpus[0], stream.value)
    plain = GpuArray(np.ones((EDGE, EDGE)), gpus[0], None)
    out = GpuArray(np.zeros((EDGE, EDGE)), gpus[0], None)
    fleetblas.gemm(plain, plain, out=out)  # plans and memory are there
    for _ in range(DELAY_COPIES):
        driver("cuMemcpyDtoDAsync_v2", *scratch, ctypes.c_size_t(DELAY_BYTES), stream)
    driver(
        "cuMemcpyHtoDAsync_v2",
        ctypes.c_uint64(slow.memory.ctypes.data),
        ctypes.c_void_p(ones.ctypes.data),
        ctypes.c_size_t(ones.nbytes),
        stream,
    )

    if which == "a":
        fleetblas.gemm(slow, plain, out=out)
        found, expected = out.on_host(), EDGE
    else:
        fleetblas.gemm(plain, plain, slow, beta=1, out=slow)
        found, expected = slow.on_host(), EDGE + 1

    assert (found == expected).all()
    driver("cuStreamSynchronize", stream)
    for memory in scratch:
        driver("cuMemFree_v2", memory)
    driver("cuStreamDestroy_v2", stream)


def test_cupy_in_cupy_out(gpus):
    cupy = pytest.importorskip("cupy")
    a, b = random(EDGE, EDGE), random(EDGE, EDGE)
    with cupy.cuda.Device(gpus[-1]), cupy.cuda.Stream(non_blocking=True):
        left = cupy.asarray(a) * 2  # queued, not done
        found = fleetblas.gemm(left, b)
    assert isinstance(found, cupy.ndarray)
    assert found.device.id == gpus[-1]
    assert_near(cupy.asnumpy(found), 2 * (a @ b), EDGE)
    product = fleetblas.matmul(left[:, ::-1].copy(), left.T)
    assert_near(cupy.asnumpy(product), 4 * (a[:, ::-1] @ a.T), EDGE)
    with pytest.raises(fleetblas.BadArgument, match="strides"):
        fleetblas.gemm(left[::2, ::2], left[::2, ::2])


def test_pytorch_in_pytorch_out(gpus):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    a, b = random(EDGE, EDGE), random(EDGE, EDGE)
    device = torch.device("cuda", gpus[0])
    with torch.cuda.stream(torch.cuda.Stream(device)):
        left = torch.from_numpy(a).to(device) * 2
        found = fleetblas.gemm(left, torch.from_numpy(b), transb="t")
    assert isinstance(found, torch.Tensor)
    assert found.device == device
    assert_near(found.cpu().numpy(), 2 * (a @ b.T), EDGE)


def test_pytorch_reads_through_delayed_conjugates_and_ends_at_other_types(gpus):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    device = torch.device("cuda", gpus[0])
    a = torch.from_numpy(random(300, 300) + 1j * random(300, 300)).to(device)
    found = fleetblas.matmul(a.conj(), a)
    expected = a.cpu().numpy().conj() @ a.cpu().numpy()
    assert_near(found.cpu().numpy(), expected, 300)
    with pytest.raises((TypeError, fleetblas.BadArgument)):
        fleetblas.gemm(a, a.real.contiguous())


def test_products_stay_right_while_the_memory_for_tiles_grows(gpus):
    random = np.random.default_rng(11)
    edge = 300
    with fleetblas.Context(backend="cuda", offload="always", cpu_share="off") as context:
        # In pinned memory: tiles come to the arenas, and calls with the same arguments become
        # graphs, which have the addresses of these.
        small = [context.empty((edge, edge), "float64", "h") for _ in range(3)]
        before = [random.standard_normal((edge, edge)) for _ in range(3)]
        for array, values in zip(small, before, strict=True):
            context.copy(array, values)
        expected = before[2]
        for large_edge in (600, 6000, 9000, None):
            for _ in range(9):
                context.gemm(*small[:2], beta=1, c=small[2], out=small[2])
                expected = expected + before[0] @ before[1]
            assert sum(context.stats()["last"]["bytes_by_link"].values()) > 0
            np.testing.assert_allclose(small[2], expected, rtol=1e-10, atol=1e-9)
            if large_edge is None:
                break
            large = random.standard_normal((large_edge, large_edge)).astype(np.float32)
            product = context.gemm(large, large)
            rows = slice(large_edge // 2, large_edge // 2 + 50)
            np.testing.assert_allclose(
                product[rows], large[rows] @ large, rtol=0, atol=2e-3 * np.sqrt(large_edge)
            )
