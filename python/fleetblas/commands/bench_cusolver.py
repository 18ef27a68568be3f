# SPDX-License-Identifier: BSD-3-Clause
"""NVIDIA's LAPACK as peers: cuSOLVER on one GPU, and cuSOLVERMg on several.

The matrix lies in the GPUs' memory before the clock starts, and stays there. Memory and copies are
FleetBLAS's; libraries are found as in cuda_libraries.
"""

from __future__ import annotations

from ctypes import POINTER, byref, c_int, c_int64, c_size_t, c_void_p

import numpy as np

from ..verify_factors import Factors
from .bench_engines import Unmeasured
from .bench_factors import DeviceMatrix, FactorOperands, LapackEngine
from .cuda_libraries import Driver, function, load_cusolver

CUDA_TYPES = {"s": 0, "d": 1, "c": 4, "z": 5}  # cudaDataType
FILL_MODES = {"l": 0, "u": 1}  # cublasFillMode_t
NO_TRANSPOSE = 0  # cublasOperation_t
NO_MEMORY = 2  # CUSOLVER_STATUS_ALLOC_FAILED
COLUMN_MAJOR_GRID = 0  # CUDALIBMG_GRID_MAPPING_COL_MAJOR
MG_BLOCKS = (512, 256, 1024)  # usually best first
HOPELESS = 2.0  # ratio to the best so far from which a first call is not repeated
INT_LIMIT = 2**31


def check(status: int, what: str) -> None:
    if status != 0:
        word = "no_memory" if status == NO_MEMORY else "device_failed"
        raise Unmeasured(f"{what} failed with cuSOLVER status {status}", word)


class GpuLapack(LapackEngine):
    """A handle of a library on GPUs that are numbered as in FleetBLAS, which is as in CUDA."""

    same_problem = False  # its matrix is on the GPUs
    library_name = ""

    def __init__(self, operands: FactorOperands, devices: list[int]):
        super().__init__(operands)
        self.devices = devices
        self.handle: c_void_p | None = None

    @property
    def gpus(self) -> list[int]:
        return self.devices

    def _open(self) -> None:
        """Loads the driver and the library, once."""
        self.driver, self.library = Driver(), load_cusolver(self.library_name)
        here = self.driver.device_count()
        self.devices = [device for device in self.devices if device < here]
        if not self.devices:
            raise Unmeasured("none of the devices is a GPU")

    def _call(self, name: str, types: list, *values) -> None:
        check(function(self.library, name, *types)(*values), name)

    def _memory(self, count: int, dtype, device: int) -> np.ndarray:
        memory = self.operands.pool.context.empty((max(1, count),), dtype, str(device))
        if not self.driver.is_device_memory(memory.ctypes.data):
            raise Unmeasured(f"device {device} of FleetBLAS is not a GPU")
        return memory

    def _on_host(self, memory: np.ndarray) -> np.ndarray:
        return self.operands.pool.context.copy(np.empty(len(memory), memory.dtype), memory)

    @property
    def _code(self) -> int:
        return CUDA_TYPES[self.operands.words["type"]]

    def describe(self, row: dict) -> None:
        if self.times:
            row.update({"where": "devices", "devices": len(self.devices)})


class Cusolver(GpuLapack):
    """One GPU, by the functions with 64-bit sizes."""

    name = "cusolver"
    library_name = "libcusolver"

    def __init__(self, operands: FactorOperands, devices: list[int]):
        # start_up moves the operands, so that a failure becomes a row.
        super().__init__(operands, devices[:1])
        self.parameters: c_void_p | None = None

    def start_up(self) -> None:
        self.require_problem()
        self._open()
        device, o = self.devices[0], self.operands
        self.operands = o = o.at([str(device)] * len(o.locations))
        if not self.driver.is_device_memory(o.flat("a").ctypes.data):
            raise Unmeasured(f"device {device} of FleetBLAS is not a GPU")
        self.driver.use(device)
        handle, parameters = c_void_p(), c_void_p()
        self._call("cusolverDnCreate", [c_void_p], byref(handle))
        self.handle = handle
        self._call("cusolverDnCreateParams", [c_void_p], byref(parameters))
        self.parameters = parameters
        self._info = self._memory(1, np.int32, device)
        self._pivots = self._memory(o.diagonal, np.int64, device)
        self._tau = self._memory(o.diagonal, o.dtype, device)
        self._bind()
        on_device, on_host = c_size_t(), c_size_t()
        sizes = [*self._front, byref(on_device), byref(on_host)]
        types = [*self._front_types, POINTER(c_size_t), POINTER(c_size_t)]
        self._call(f"{self._entry}_bufferSize", types, *sizes)
        self._work = self._memory(on_device.value, np.uint8, device)
        self._host_work = np.empty(max(1, on_host.value), np.uint8)
        self._work_sizes = (on_device.value, on_host.value)
        self.driver.wait(self.devices)

    def _bind(self) -> None:
        """The arguments that the question for the workspace and the call itself begin with; pivots
        are in the call alone."""
        o, code = self.operands, self._code
        matrix = [code, o.flat("a").ctypes.data, max(1, o.words["m"])]
        matrix_types = [c_int, c_void_p, c_int64]
        word = factorization_of(o)
        self._entry = f"cusolverDnX{word}"
        head, types = [self.handle, self.parameters], [c_void_p, c_void_p]
        if word == "potrf":
            sizes, size_types = [FILL_MODES[o.uplo], o.words["n"]], [c_int, c_int64]
        else:
            sizes, size_types = [o.words["m"], o.words["n"]], [c_int64, c_int64]
        self._before = [*head, *sizes, *matrix]
        self._before_types = [*types, *size_types, *matrix_types]
        if word == "geqrf":
            self._before += [code, self._tau.ctypes.data]
            self._before_types += [c_int, c_void_p]
        self._front, self._front_types = [*self._before, code], [*self._before_types, c_int]

    def compute(self) -> None:
        word, o = factorization_of(self.operands), self.operands
        values, types = list(self._before), list(self._before_types)
        if word == "getrf":
            values, types = [*values, self._pivots.ctypes.data], [*types, c_void_p]
        values += [self._code, self._work.ctypes.data, self._work_sizes[0]]
        values += [self._host_work.ctypes.data, self._work_sizes[1], self._info.ctypes.data]
        types += [c_int, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p]
        self._call(self._entry, types, *values)
        if o.routine.solves:
            self._solve()
        self.driver.wait(self.devices)

    def _solve(self) -> None:
        o, n = self.operands, self.operands.words["n"]
        types = [c_void_p, c_void_p, c_int, c_int64, c_int64, c_int, c_void_p, c_int64, c_void_p]
        types += [c_int, c_void_p, c_int64, c_void_p]
        head = [self.handle, self.parameters, NO_TRANSPOSE, n, o.words["k"]]
        factors = [self._code, o.flat("a").ctypes.data, n, self._pivots.ctypes.data]
        right = [self._code, o.flat("b").ctypes.data, n, self._info.ctypes.data]
        self._call("cusolverDnXgetrs", types, *head, *factors, *right)

    def results(self) -> Factors:
        self.info = int(self._on_host(self._info)[0])
        self.operands.pivots[:] = self._on_host(self._pivots)[: self.operands.diagonal]
        self.operands.tau[:] = self._on_host(self._tau)[: self.operands.diagonal]
        return super().results()

    def verdict(self, reference, everything: bool):
        self.info = int(self._on_host(self._info)[0])
        return super().verdict(reference, everything)

    def describe(self, row: dict) -> None:
        super().describe(row)
        if self.times:
            row["reason"] = f"one GPU ({self.devices[0]}), the matrix copied there beforehand"

    def close(self) -> None:
        for name in ("parameters", "handle"):
            if getattr(self, name) is not None:
                self.driver.use(self.devices[0])
                entry = {"parameters": "cusolverDnDestroyParams", "handle": "cusolverDnDestroy"}
                function(self.library, entry[name], c_void_p)(getattr(self, name))
                setattr(self, name, None)


def factorization_of(operands: FactorOperands) -> str:
    return "getrf" if operands.routine.solves else operands.routine.word


class CyclicColumns:
    """A matrix whose blocks of columns lie on GPUs in turn, column-major in each."""

    def __init__(self, engine: GpuLapack, shape: tuple[int, int], block: int, dtype):
        self.engine, self.shape, self.block, self.dtype = engine, shape, block, np.dtype(dtype)
        blocks = -(-shape[1] // block)
        devices = engine.devices
        count = shape[0] * block * -(-blocks // len(devices))
        self.parts = [engine._memory(count, dtype, device) for device in devices]
        self.addresses = (c_void_p * len(devices))(*(part.ctypes.data for part in self.parts))

    def _at(self, column: int) -> tuple[np.ndarray, int, int]:
        """The memory with a column, its first element there, and the end of its block."""
        number, within = divmod(column, self.block)
        turn, part = divmod(number, len(self.parts))
        first = self.shape[0] * (turn * self.block + within)
        return self.parts[part], first, min((number + 1) * self.block, self.shape[1])

    def fill(self, source: np.ndarray) -> None:
        """From a column-major matrix on the host."""
        rows, flat = self.shape[0], source.reshape(-1, order="F")
        for start in range(0, self.shape[1], self.block):
            part, first, stop = self._at(start)
            count = rows * (stop - start)
            there = flat[rows * start : rows * stop]
            self.engine.operands.pool.context.copy(part[first : first + count], there)

    def columns(self, start: int, stop: int) -> np.ndarray:
        pieces = []
        while start < stop:
            part, first, end = self._at(start)
            count = min(stop, end) - start
            held = part[first : first + self.shape[0] * count]
            pool = self.engine.operands.pool
            pieces.append(DeviceMatrix(pool, held, (self.shape[0], count)).columns(0, count))
            start += count
        return pieces[0] if len(pieces) == 1 else np.hstack(pieces)


class CusolverMg(GpuLapack):
    """All GPUs, blocks of columns on them in turn, at the best of its block sizes."""

    name = "cusolvermg"
    library_name = "libcusolverMg"
    routines = ("potrf", "getrf", "gesv")

    def __init__(self, operands: FactorOperands, devices: list[int]):
        super().__init__(operands, devices)
        self.block: int | None = None
        self._opened: list[tuple[str, c_void_p]] = []  # what is to be destroyed, in this order
        self._result = c_int(0)

    def start_up(self) -> None:
        self.require_problem()
        o = self.operands
        if o.words["routine"] == "potrf" and o.uplo != "l":
            raise Unmeasured("cusolvermg factors the lower triangle only")
        if o.words["m"] != o.words["n"]:
            raise Unmeasured("cusolvermg is timed with square matrices only")
        self._open()
        if o.words["n"] >= INT_LIMIT:
            raise Unmeasured("cusolvermg has 32-bit sizes")
        self.driver.connect(self.devices)
        self._tune()
        self._lay_out(self.block)

    def _tune(self) -> None:
        """The block size of the fastest call."""
        best_s, failure = float("inf"), None
        blocks = [block for block in MG_BLOCKS if block <= max(self.operands.words["n"], 256)]
        for block in blocks:
            try:
                self._lay_out(block)
                seconds = self.call()
                if seconds < HOPELESS * best_s:
                    seconds = min(seconds, self.call())
            except Unmeasured as error:
                failure = error  # for example too large for the GPUs' memory: another may work
                continue
            if seconds < best_s:
                best_s, self.block = seconds, block
        if self.block is None:
            raise failure or Unmeasured("no block size to try")

    def _lay_out(self, block: int) -> None:
        """A new handle, and matrices in blocks of this size."""
        self.close()
        self._a = self._b = self._pivots = self._works = None  # both may not fit
        o, count = self.operands, len(self.devices)
        self.handle = self._opened_by("cusolverMgCreate", "cusolverMgDestroy", [], [])
        ids = (c_int * count)(*self.devices)
        self._call("cusolverMgDeviceSelect", [c_void_p, c_int, c_void_p], self.handle, count, ids)
        grid = self._opened_by(
            "cusolverMgCreateDeviceGrid",
            "cusolverMgDestroyGrid",
            [c_int, c_int, c_void_p, c_int],
            [1, count, ids, COLUMN_MAJOR_GRID],
        )
        self._a = CyclicColumns(self, o.shapes["a"], block, o.dtype)
        self._a_layout = self._described(grid, o.shapes["a"], block)
        self._pivots = CyclicColumns(self, (1, o.words["n"]), block, np.int32)
        if o.routine.solves:
            self._b = CyclicColumns(self, o.shapes["b"], block, o.dtype)
            self._b_layout = self._described(grid, o.shapes["b"], block)
        lengths = [self._ask(self._factorization())]
        lengths += [self._ask(self._solution())] if o.routine.solves else []
        self._length = max(lengths)
        self._works = [self._memory(self._length, o.dtype, device) for device in self.devices]
        self._work = (c_void_p * count)(*(work.ctypes.data for work in self._works))
        self.driver.wait(self.devices)
        self._fresh = False

    def _opened_by(self, name: str, closer: str, types: list, values: list) -> c_void_p:
        made = c_void_p()
        self._call(name, [c_void_p, *types], byref(made), *values)
        self._opened.insert(0, (closer, made))
        return made

    def _described(self, grid: c_void_p, shape: tuple[int, int], block: int) -> c_void_p:
        """Whole columns, so that a block has all rows."""
        return self._opened_by(
            "cusolverMgCreateMatrixDesc",
            "cusolverMgDestroyMatrixDesc",
            [c_int64, c_int64, c_int64, c_int64, c_int, c_void_p],
            [*shape, shape[0], block, self._code, grid],
        )

    def _factorization(self) -> tuple[str, list, list]:
        """Name, types and values, up to the workspace."""
        n, a = self.operands.words["n"], self._a.addresses
        matrix, types = [a, 1, 1, self._a_layout], [c_void_p, c_int, c_int, c_void_p]
        if self.operands.words["routine"] == "potrf":
            values = [self.handle, FILL_MODES["l"], n, *matrix, self._code]
            return "cusolverMgPotrf", [c_void_p, c_int, c_int, *types, c_int], values
        values = [self.handle, n, n, *matrix, self._pivots.addresses, self._code]
        return "cusolverMgGetrf", [c_void_p, c_int, c_int, *types, c_void_p, c_int], values

    def _solution(self) -> tuple[str, list, list]:
        n, k = (self.operands.words[name] for name in "nk")
        types = [c_void_p, c_int, c_int, c_int, c_void_p, c_int, c_int, c_void_p, c_void_p]
        types += [c_void_p, c_int, c_int, c_void_p, c_int]
        values = [self.handle, NO_TRANSPOSE, n, k, self._a.addresses, 1, 1, self._a_layout]
        values += [self._pivots.addresses, self._b.addresses, 1, 1, self._b_layout, self._code]
        return "cusolverMgGetrs", types, values

    def _ask(self, what: tuple[str, list, list]) -> int:
        """Elements of the workspace on each GPU."""
        (name, types, values), length = what, c_int64()
        self._call(f"{name}_bufferSize", [*types, POINTER(c_int64)], *values, byref(length))
        return length.value

    def _run(self, what: tuple[str, list, list]) -> None:
        name, types, values = what
        tail = [self._work, self._length, byref(self._result)]
        self._call(name, [*types, c_void_p, c_int64, POINTER(c_int)], *values, *tail)

    def compute(self) -> None:
        self._run(self._factorization())
        self.driver.wait(self.devices)
        self.info = self._result.value
        if self.operands.routine.solves:
            self._run(self._solution())
            self.driver.wait(self.devices)

    def reset(self) -> None:
        self._a.fill(self.operands.before("a"))
        if self.operands.routine.solves:
            self._b.fill(self.operands.before("b"))
        self._fresh = True

    def results(self) -> Factors:
        if self.operands.routine.solves:
            return Factors(solution=self._b)
        pivots = None
        if self.operands.words["routine"] == "getrf":
            pivots = self._pivots.columns(0, self.operands.words["n"]).reshape(-1).astype(np.int64)
        return Factors(self._a, pivots)

    def describe(self, row: dict) -> None:
        super().describe(row)
        row["tile"] = self.block
        if self.times:
            row["place"] = ",".join(map(str, self.devices))
            row["reason"] = "blocks of columns on the GPUs in turn, copied there beforehand"

    def close(self) -> None:
        opened, self._opened, self.handle = self._opened, [], None
        for closer, made in opened:
            self.driver.use(self.devices[0])
            function(self.library, closer, c_void_p)(made)
