# SPDX-License-Identifier: BSD-3-Clause
"""The peers that run in this process: cuBLASXt on the same GPUs, and cuBLAS on one of them.

Each uses the same memory as FleetBLAS. NVBLAS is in bench_nvblas.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_void_p

import numpy as np

from .. import _types
from .._routines import LETTERS, ROUTINES, VECTORS
from .bench_engines import START_UP_EDGE, Engine, Unmeasured
from .bench_operands import Operands
from .cuda_libraries import Driver, check_cublas, cublas_version, function, load_cublas

XT_BLOCKS = (4096, 2048, 8192, 1024)  # usually best first, so that slow ones are dropped early
HOPELESS = 2.0  # ratio to the best so far from which a first call is not repeated
PINNING_OFF, PINNING_ON = 0, 1
# cudaDataType of the matrices and cublasComputeType_t: sums in fp32; tf32 rounds the inputs.
EX_TYPES = {"h": (2, 68), "bf16": (14, 68), "tf32": (0, 77)}
GEMM_DEFAULT = -1  # cublasGemmAlgo_t


class CudaPeer(Engine):
    """Operands and scalars in the form of the cuBLAS libraries."""

    routines = tuple(word for word in ROUTINES if word != "gemmt")

    def __init__(self, operands: Operands, devices: list[int]):
        super().__init__(operands)
        self.devices = devices  # numbered as in FleetBLAS, which is as in CUDA
        self.handle: c_void_p | None = None
        dtype = operands.dtype
        coded = _types.TYPES[operands.words["type"]].codes

        def scalar(name: str, value: complex) -> np.ndarray:
            real = name in operands.routine.real
            kind = np.float32 if coded else dtype.type(0).real.dtype if real else dtype
            return np.array([value.real if real else value], kind)

        # Scalars are read through pointers during the call: the arrays must stay alive.
        self._alpha, self._beta = scalar("alpha", operands.alpha), scalar("beta", operands.beta)
        self._warm = [np.ones((START_UP_EDGE, START_UP_EDGE), dtype) for _ in range(3)]

    @property
    def gpus(self) -> list[int]:
        return self.devices

    def _open(self) -> None:
        """Loads the driver and the library, once."""
        self.driver, self.library = Driver(), load_cublas()
        here = self.driver.device_count()
        self.devices = [device for device in self.devices if device < here]
        if not self.devices:
            raise Unmeasured("none of the devices is a GPU")

    def _bind(self, name: str, size_type) -> None:
        """The entry for the routine: cuBLAS has the arguments of BLAS, but trmm has a C too."""
        routine = self.operands.routine
        matrix = [c_void_p, size_type]
        types = [c_void_p, *[c_int] * len(routine.flags), *[size_type] * len(routine.sizes)]
        factors = len(self._arguments("a", "b", "c")) - 1
        types += [c_void_p, *matrix * factors, *([] if routine.triangular else [c_void_p]), *matrix]
        self._entry = name.format(self.operands.words["type"].upper(), routine.word)
        self._function = function(self.library, self._entry, *types)

    def _arguments(self, a, b, c) -> list:
        """The matrices in the order of the call; the output of trmm is passed as B and C."""
        if self.operands.routine.word == "trmm":
            return [a, c, c]
        return [a, b, c] if self.operands.routine.has_b else [a, c]

    def _call(self, edges, a, b, c) -> None:
        routine, flags = self.operands.routine, self.operands.flags
        sizes = dict(zip("mnk", edges))
        codes = [LETTERS[name].index(flags[name]) for name in routine.flags]
        *factors, last = self._arguments(a, b, c)
        status = self._function(
            self.handle,
            *codes,
            *(sizes[name] for name in routine.sizes),
            self._alpha.ctypes.data,
            *(word for factor in factors for word in factor),
            *(() if routine.triangular else (self._beta.ctypes.data,)),
            *last,
        )
        check_cublas(status, self._entry)

    def compute(self) -> None:
        self._call(self.operands.sizes, *self.operands.matrices)
        self.driver.wait(self.devices)

    def describe(self, row: dict) -> None:
        if not self.times:
            return
        row.update({"where": "devices", "devices": len(self.devices)})
        row["library_version"] = cublas_version(self.library)


class CublasXt(CudaPeer):
    """cuBLASXt at the best of its block sizes, each tried with this call."""

    name = "cublasxt"
    types = tuple("sdcz")

    def __init__(self, operands: Operands, devices: list[int]):
        super().__init__(operands, devices)
        self.block: int | None = None
        self.pinning = PINNING_OFF

    def start_up(self) -> None:
        self.require_problem()
        self._open()
        self._bind("cublasXt{}{}", c_size_t)
        self._create()
        self._tune()
        # A new handle, so that the reported first call finds nothing cached from the trials.
        self.close()
        self._create()
        self._set(self.block, self.pinning)
        warm = [(matrix.ctypes.data, START_UP_EDGE) for matrix in self._warm]
        self._call((START_UP_EDGE,) * 3, *warm)
        self.driver.wait(self.devices)

    def _create(self) -> None:
        handle = c_void_p()
        create = function(self.library, "cublasXtCreate", c_void_p)
        check_cublas(create(ctypes.byref(handle)), "cublasXtCreate")
        self.handle = handle
        select = function(self.library, "cublasXtDeviceSelect", c_void_p, c_int, c_void_p)
        ids = (c_int * len(self.devices))(*self.devices)
        check_cublas(select(handle, len(ids), ids), "cublasXtDeviceSelect")

    def _set(self, block: int, pinning: int) -> None:
        for name, value in (("cublasXtSetBlockDim", block), ("cublasXtSetPinningMemMode", pinning)):
            setter = function(self.library, name, c_void_p, c_int)
            check_cublas(setter(self.handle, value), name)

    def _tune(self) -> None:
        """The block size, and for pageable operands whether it pins them, of the fastest call."""
        least = min(XT_BLOCKS)
        largest = max(self.operands.sizes)
        blocks = [block for block in XT_BLOCKS if block <= max(largest, least)]
        modes = (PINNING_OFF, PINNING_ON) if "p" in self.operands.locations else (PINNING_OFF,)
        best_s, failure = float("inf"), None
        for block, pinning in ((block, mode) for block in blocks for mode in modes):
            try:
                self._set(block, pinning)
                seconds = self.call()
                if seconds < HOPELESS * best_s:
                    seconds = min(seconds, self.call())
            except Unmeasured as error:
                failure = error  # for example too large for the GPUs' memory: another may work
                continue
            if seconds < best_s:
                best_s, self.block, self.pinning = seconds, block, pinning
        if self.block is None:
            raise failure or Unmeasured("no block size to try")

    def describe(self, row: dict) -> None:
        super().describe(row)
        row.update({"tile": self.block, "pinning": self.pinning == PINNING_ON})

    def close(self) -> None:
        if self.handle is not None:
            function(self.library, "cublasXtDestroy", c_void_p)(self.handle)
            self.handle = None


class Cublas(CudaPeer):
    """One GPU's kernel alone: all operands in its memory before the clock starts."""

    name = "cublas"
    same_problem = False

    def __init__(self, operands: Operands, devices: list[int]):
        # start_up moves the operands, so that a failure becomes a row.
        super().__init__(operands, devices[:1])

    def require_problem(self) -> None:
        if self.operands.words["routine"] in VECTORS:
            raise Unmeasured("cublas is timed with level 3 only")
        super().require_problem()

    def start_up(self) -> None:
        self.require_problem()
        self._open()
        device = self.devices[0]
        self.operands = self.operands.at([str(device)] * len(self.operands.locations))
        if not all(self.driver.is_device_memory(x) for x, _ in self.operands.matrices):
            raise Unmeasured(f"device {device} of FleetBLAS is not a GPU")
        self.driver.use(device)
        handle = c_void_p()
        create = function(self.library, "cublasCreate_v2", c_void_p)
        check_cublas(create(ctypes.byref(handle)), "cublasCreate")
        self.handle = handle
        word = self.operands.words["type"]
        if word in EX_TYPES:
            self._gemm_ex(*EX_TYPES[word])
        else:
            self._bind("cublas{}{}_v2", c_int)
        edge = min(START_UP_EDGE, *self.operands.sizes)
        if edge:
            self._call((edge,) * 3, *self.operands.matrices)
            self.driver.wait(self.devices)

    def _gemm_ex(self, stored: int, compute: int) -> None:
        """cublasGemmEx as a function with the arguments of cublasDgemm."""
        edge, matrix = [c_int] * 3, [c_void_p, c_int, c_int]
        self._entry = "cublasGemmEx"
        gemm_ex = function(
            self.library,
            self._entry,
            *[c_void_p, c_int, c_int, *edge, c_void_p, *matrix * 2, c_void_p, *matrix],
            *[c_int, c_int],
        )

        def gemm(handle, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
            a, b, c = ((x, stored, leading) for x, leading in ((a, lda), (b, ldb), (c, ldc)))
            flags, sizes = (op_a, op_b), (m, n, k)
            tail = (compute, GEMM_DEFAULT)
            return gemm_ex(handle, *flags, *sizes, alpha, *a, *b, beta, *c, *tail)

        self._function = gemm

    def describe(self, row: dict) -> None:
        super().describe(row)
        if self.times:
            row["reason"] = f"one GPU ({self.devices[0]}), its operands copied there beforehand"

    def close(self) -> None:
        if self.handle is not None:
            self.driver.use(self.devices[0])
            function(self.library, "cublasDestroy_v2", c_void_p)(self.handle)
            self.handle = None
