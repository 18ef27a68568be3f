# SPDX-License-Identifier: BSD-3-Clause
"""Memory of every kind, and products verified there: what gpu_programs.py is made of.

Knows the CUDA driver and the C API; knows no fault.
"""

import ctypes
import mmap
import tempfile
import weakref
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

import numpy as np
from fleetblas._native import check, library

GAP = 24  # rows below each column, which nobody may touch
ATTACH_GLOBAL = 1  # of managed memory: every stream may use it
PORTABLE = 1  # of pinned memory: every GPU may use it
ITEM = 8


class Driver:
    """The CUDA driver with the primary contexts, which are those of the CUDA runtime."""

    def __init__(self):
        self._library = ctypes.CDLL("libcuda.so.1")
        self._contexts = {}
        self("cuInit", c_uint(0))
        count = c_int()
        self("cuDeviceGetCount", byref(count))
        self.count = count.value

    def __call__(self, name, *arguments):
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name}: error {status}")

    def use(self, device):
        if device not in self._contexts:
            handle, context = c_int(), c_void_p()
            self("cuDeviceGet", byref(handle), c_int(device))
            self("cuDevicePrimaryCtxRetain", byref(context), handle)
            self._contexts[device] = context
        self("cuCtxSetCurrent", self._contexts[device])

    def memory_bytes(self, device):
        """(free, in all)"""
        self.use(device)
        free, total = c_size_t(), c_size_t()
        self("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def capability(self, device):
        """(9, 0) for Hopper."""
        numbers = []
        for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
            number = c_int()
            self("cuDeviceGetAttribute", byref(number), c_int(attribute), c_int(device))
            numbers.append(number.value)
        return tuple(numbers)

    def fail(self, device):
        """A kernel writes where no memory is: an error that the device's context keeps."""
        text = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry wrong() {
  .reg .u64 %address;
  mov.u64 %address, 256;
  st.global.u64 [%address], %address;
  ret;
}
"""
        module, function = c_void_p(), c_void_p()
        self.use(device)
        self("cuModuleLoadData", byref(module), ctypes.c_char_p(text))
        self("cuModuleGetFunction", byref(function), module, ctypes.c_char_p(b"wrong"))
        one, none = c_uint(1), c_void_p()
        self("cuLaunchKernel", function, *[one] * 6, c_uint(0), none, none, none)
        try:
            self("cuCtxSynchronize")
        except RuntimeError:
            return
        raise RuntimeError("the kernel has not failed")

    def allocate(self, device, size):
        self.use(device)
        address = c_uint64()
        self("cuMemAlloc_v2", byref(address), c_size_t(size))
        return address.value


class HostMemory:
    """Memory that the CPU reaches."""

    def __init__(self, address, keep=None):
        self.address, self._keep = address, keep

    def put(self, offset, array):
        ctypes.memmove(self.address + offset, array.ctypes.data, array.nbytes)

    def get(self, offset, array):
        ctypes.memmove(array.ctypes.data, self.address + offset, array.nbytes)


class ReadOnlyMemory(HostMemory):
    """A file mapped for reading: put() writes the file."""

    def __init__(self, size):
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the map)
        self._file.truncate(size)
        self._map = mmap.mmap(self._file.fileno(), size, mmap.MAP_SHARED, mmap.PROT_READ)
        super().__init__(np.frombuffer(self._map, np.uint8).ctypes.data)

    def put(self, offset, array):
        self._file.seek(offset)
        self._file.write(array.tobytes())
        self._file.flush()


class GpuMemory:
    """Memory of a GPU that the driver gave."""

    def __init__(self, driver, device, address):
        self._driver, self._device, self.address = driver, device, address

    def put(self, offset, array):
        self._driver.use(self._device)
        self._driver(
            "cuMemcpyHtoD_v2",
            c_uint64(self.address + offset),
            c_void_p(array.ctypes.data),
            c_size_t(array.nbytes),
        )

    def get(self, offset, array):
        self._driver.use(self._device)
        self._driver(
            "cuMemcpyDtoH_v2",
            c_void_p(array.ctypes.data),
            c_uint64(self.address + offset),
            c_size_t(array.nbytes),
        )


class FleetMemory:
    """Memory that fleet_alloc gave; `location` as in fleetblas.h."""

    def __init__(self, context, location, size):
        self._context = context
        address = c_void_p()
        check(library.fleet_alloc(context, location, size, byref(address)))
        self.address = address.value

    def __del__(self):
        library.fleet_free(self._context, self.address)

    def put(self, offset, array):
        check(
            library.fleet_copy(
                self._context, self.address + offset, array.ctypes.data, array.nbytes
            )
        )

    def get(self, offset, array):
        check(
            library.fleet_copy(
                self._context, array.ctypes.data, self.address + offset, array.nbytes
            )
        )


# ---- by name ------------------------------------------------------------------------------------


def pages(size):
    """Pageable memory; nothing of it exists before it is touched, however large it is."""
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    mapped = mmap.mmap(-1, size, private)
    return HostMemory(np.frombuffer(mapped, np.uint8).ctypes.data, mapped)


def pool(driver, device, size):
    """What cudaMallocAsync gives."""
    driver.use(device)
    address = c_uint64()
    driver("cuMemAllocAsync", byref(address), c_size_t(size), c_void_p())
    driver("cuCtxSynchronize")
    return GpuMemory(driver, device, address.value)


def managed(driver, size):
    driver.use(0)
    address = c_uint64()
    driver("cuMemAllocManaged", byref(address), c_size_t(size), c_uint(ATTACH_GLOBAL))
    return HostMemory(address.value)


def pinned(driver, size):
    driver.use(0)
    address = c_void_p()
    driver("cuMemHostAlloc", byref(address), c_size_t(size), c_uint(PORTABLE))
    return HostMemory(address.value)


def freed(driver, of_driver):
    """Memory of the driver, which is given back with the object."""
    is_gpus = isinstance(of_driver, GpuMemory)
    address = c_uint64(of_driver.address)
    name = "cuMemFree_v2" if is_gpus else "cuMemFreeHost"

    def give_back():
        driver.use(0)
        driver(name, address)

    weakref.finalize(of_driver, give_back).atexit = False
    return of_driver


class Registered(HostMemory):
    """Other memory after fleet_host_register, whether that could pin it or not."""

    def __init__(self, context, memory, size):
        super().__init__(memory.address, memory)
        self._context = context
        self.put = memory.put
        check(library.fleet_host_register(context, self.address, size))

    def __del__(self):
        library.fleet_host_unregister(self._context, self.address)


def registered(context, size):
    return Registered(context, pages(size), size)


def partly_registered(driver, context, size):
    """The program has pinned a page in the middle, so that the whole is refused."""
    memory = pages(size)
    page = c_void_p(memory.address + (size // 2) // mmap.PAGESIZE * mmap.PAGESIZE)
    driver.use(0)
    driver("cuMemHostRegister_v2", page, c_size_t(mmap.PAGESIZE), c_uint(PORTABLE))
    weakref.finalize(memory, driver, "cuMemHostUnregister", page).atexit = False
    return Registered(context, memory, size)


def read_only(context, size):
    """Refused, since the driver wants to write what it pins."""
    return Registered(context, ReadOnlyMemory(size), size)


# ---- products -----------------------------------------------------------------------------------


def wrong(found, expected, left, right, added, k):
    """What is wrong with a product of doubles; None if every element is within its error bound.

    The bound is that of any order of summation, for both sides, with norms for the sums of
    magnitudes: larger than those, and far below what one missing tile changes.
    """
    sums = np.outer(np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=0)) + abs(added)
    limit = 2 * (k + 4) * np.finfo(found.dtype).eps * sums
    bad = ~(abs(found - expected) <= limit)
    if not bad.any():
        return None
    row, col = np.argwhere(bad)[0]
    return f"{bad.sum()} of {bad.size} elements, the first at ({row}, {col})"


class Product:
    """alpha * A @ B + beta * C of doubles, m x n x k, with each operand in memory of its own kind.

    `places`: for A, B and C a function from bytes to memory. `leading`: of all three.
    """

    def __init__(self, sizes, places, seed, leading=None):
        self.m, self.n, self.k = m, n, k = sizes
        random = np.random.default_rng(seed)
        shapes = ((m, k), (k, n), (m, n))
        self.leading = [leading or rows + GAP for rows, _ in shapes]
        # A column of the array is a row here, with the gap at its end.
        self.boards = [random.uniform(-1, 1, (cols, rows + GAP)) for rows, cols in shapes]
        self.memories = [
            place(max(1, cols) * step * ITEM)
            for place, step, (_, cols) in zip(places, self.leading, shapes)
        ]
        for i in range(3):
            self._put(i)

    def _columns(self, i):
        for j in range(len(self.boards[i])):
            yield j, j * self.leading[i] * ITEM

    def _put(self, i):
        if self.leading[i] == self.boards[i].shape[1]:
            return self.memories[i].put(0, self.boards[i])
        for j, offset in self._columns(i):
            self.memories[i].put(offset, self.boards[i][j])

    def _result(self):
        found = np.empty_like(self.boards[2])
        if self.leading[2] == found.shape[1]:
            self.memories[2].get(0, found)
        else:
            for j, offset in self._columns(2):
                self.memories[2].get(offset, found[j])
        return found

    def call(self, context=None, alpha=1.5, beta=-0.5):
        """The status of the call."""
        a, b, c = (memory.address for memory in self.memories)
        lda, ldb, ldc = self.leading
        none = ord("n")
        return library.fleet_dgemm(
            context, none, none, self.m, self.n, self.k, alpha, a, lda, b, ldb, beta, c, ldc
        )

    def verdict(self, alpha=1.5, beta=-0.5):
        """None, or what is wrong with C after one call."""
        a, b, c = (board[:, :rows].T for board, rows in zip(self.boards, (self.m, self.k, self.m)))
        found = self._result()
        if not (found[:, self.m :] == self.boards[2][:, self.m :]).all():
            return "something was written below the columns of C"
        expected = alpha * (a @ b) + beta * c
        return wrong(found[:, : self.m].T, expected, alpha * a, b, beta * c, self.k)

    def once(self, context=None):
        """One call. None, or what is wrong."""
        check(self.call(context))
        return self.verdict()

    def repeated(self, context=None, times=8):
        """As often as it takes until plans are replayed as graphs. None, or what is wrong."""
        complaint = self.once(context)
        for _ in range(times):
            check(self.call(context, beta=0.0))
            complaint = complaint or self.verdict(beta=0.0)
        return complaint
