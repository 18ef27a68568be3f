# SPDX-License-Identifier: BSD-3-Clause
"""Finds NVIDIA's libraries (PyPI wheels, a CUDA toolkit, the system) and calls them by ctypes.

Only for the peers of a benchmark: the backend of FleetBLAS is compiled. Libraries are loaded on
first use; a missing one raises Unmeasured.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import sys

from .bench_engines import Unmeasured

VERSIONS = ("13", "12")
# cuSOLVER counts for itself: these are those of CUDA 13 and 12.
CUSOLVER_VERSIONS = ("12", "11")
WHEEL_FOLDERS = ("cu13", "cublas", "cu12", "cuda_runtime", "cusolver")
DEVICE_MEMORY = 2  # CU_MEMORYTYPE_DEVICE
MEMORY_TYPE = 2  # CU_POINTER_ATTRIBUTE_MEMORY_TYPE
CUBLAS_NO_MEMORY = 3
CUDA_NO_MEMORY = 2
PEER_ALREADY_ENABLED, PEER_UNSUPPORTED = 704, 217
NAME_LENGTH = 256
BUS_ID_LENGTH = 32


def candidates(stem: str) -> list[str]:
    """Candidate files of a library, best first: loaded by this process, wheels, toolkit, system."""
    versions = CUSOLVER_VERSIONS if stem.startswith("libcusolver") else VERSIONS
    files = [f"{stem}.so.{version}" for version in versions]
    found = [path for path in loaded() if pathlib.Path(path).name in files]
    for folder in sys.path:
        for package in WHEEL_FOLDERS:
            inside = pathlib.Path(folder or ".", "nvidia", package, "lib")
            found += [str(inside / file) for file in files if (inside / file).is_file()]
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    for root in filter(None, roots):
        inside = pathlib.Path(root, "lib64")
        found += [str(inside / file) for file in files if (inside / file).is_file()]
    return list(dict.fromkeys(found + files))


def loaded() -> list[str]:
    """The files of the libraries that this process has loaded."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            return [line.split()[-1] for line in maps if ".so" in line]
    except OSError:
        return []


def load(stem: str, needs: tuple[str, ...] = ()) -> ctypes.CDLL:
    """The first library that can be loaded, after the libraries that it needs from its own
    folder."""
    reasons = []
    for path in candidates(stem):
        try:
            for need in needs:
                beside = pathlib.Path(path).with_name(pathlib.Path(path).name.replace(stem, need))
                if beside.is_file():
                    ctypes.CDLL(str(beside), mode=ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(path)
        except OSError as error:
            reasons.append(str(error))
    raise Unmeasured(f"{stem} cannot be loaded: {reasons[-1]}")


def load_cublas() -> ctypes.CDLL:
    return load("libcublas", needs=("libcublasLt",))


def load_cusolver(stem: str) -> ctypes.CDLL:
    """libcusolver or libcusolverMg; where cuBLAS is in another folder, it is loaded first."""
    with contextlib.suppress(Unmeasured):  # it may find its own
        load_cublas()
    return load(stem)


def function(library, name: str, *types):
    """An entry of a library that returns a status."""
    try:
        entry = getattr(library, name)
    except AttributeError:
        raise Unmeasured(f"{name} is not in {library._name}") from None
    entry.argtypes, entry.restype = list(types), ctypes.c_int
    return entry


class Driver:
    """The driver functions that peers need: the current GPU, synchronization, owners of memory."""

    def __init__(self):
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise Unmeasured(f"no NVIDIA driver: {error}") from None
        self._contexts: dict[int, ctypes.c_void_p] = {}
        self._call("cuInit", ctypes.c_uint(0))

    def _call(self, name: str, *arguments) -> None:
        try:
            status = getattr(self.library, name)(*arguments)
        except AttributeError:
            raise Unmeasured(f"{name} is not in libcuda.so.1") from None
        if status != 0:
            word = "no_memory" if status == CUDA_NO_MEMORY else "device_failed"
            raise Unmeasured(f"{name} failed with status {status}", word)

    def device_count(self) -> int:
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def name(self, device: int) -> str:
        """ "NVIDIA H200" """
        text, number = ctypes.create_string_buffer(NAME_LENGTH), ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(number), ctypes.c_int(device))
        self._call("cuDeviceGetName", text, ctypes.c_int(NAME_LENGTH), number)
        return text.value.decode(errors="replace")

    def bus_id(self, device: int) -> bytes:
        """The address of a GPU on the PCI bus: "0000:0d:00.0"."""
        text, number = ctypes.create_string_buffer(BUS_ID_LENGTH), ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(number), ctypes.c_int(device))
        self._call("cuDeviceGetPCIBusId", text, ctypes.c_int(BUS_ID_LENGTH), number)
        return text.value

    def use(self, device: int) -> None:
        """Makes the primary context of a GPU, which the CUDA runtime uses too, current."""
        if device not in self._contexts:
            number, context = ctypes.c_int(), ctypes.c_void_p()
            self._call("cuDeviceGet", ctypes.byref(number), ctypes.c_int(device))
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
            self._contexts[device] = context
        self._call("cuCtxSetCurrent", self._contexts[device])

    def connect(self, devices: list[int]) -> None:
        """Lets each of these GPUs use the memory of the others, as far as it can."""
        for device in devices:
            self.use(device)
        for device in devices:
            for other in devices:
                if device != other:
                    self.use(device)
                    enable = self.library.cuCtxEnablePeerAccess
                    status = enable(self._contexts[other], ctypes.c_uint(0))
                    if status not in (0, PEER_ALREADY_ENABLED, PEER_UNSUPPORTED):
                        raise Unmeasured(f"cuCtxEnablePeerAccess failed with status {status}")

    def wait(self, devices: list[int]) -> None:
        """Waits for all work started on these GPUs; afterwards the first of them is current."""
        for device in [*devices[1:], devices[0]]:
            self.use(device)
            self._call("cuCtxSynchronize")

    def is_device_memory(self, address: int) -> bool:
        kind = ctypes.c_uint()
        try:
            self._call(
                "cuPointerGetAttribute",
                ctypes.byref(kind),
                ctypes.c_int(MEMORY_TYPE),
                ctypes.c_uint64(address),
            )
        except Unmeasured:
            return False
        return kind.value == DEVICE_MEMORY


def check_cublas(status: int, what: str) -> None:
    if status != 0:
        word = "no_memory" if status == CUBLAS_NO_MEMORY else "device_failed"
        raise Unmeasured(f"{what} failed with cuBLAS status {status}", word)


def cublas_version(library) -> str | None:
    """ "13.1.0" """
    get = function(library, "cublasGetProperty", ctypes.c_int, ctypes.c_void_p)
    parts = [ctypes.c_int() for _ in range(3)]
    if any(get(which, ctypes.byref(part)) for which, part in enumerate(parts)):
        return None
    return ".".join(str(part.value) for part in parts)
