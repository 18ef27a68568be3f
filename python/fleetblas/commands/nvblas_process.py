# SPDX-License-Identifier: BSD-3-Clause
"""The process in which NVBLAS is measured: answers requests over a pipe until it is closed.

NVBLAS reads its settings once, at its first call, so each setting has a copy of the library.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import shutil
import sys
import tempfile
import time
from ctypes import byref, c_char_p, c_int, c_void_p
from multiprocessing.connection import Connection

import numpy as np

from .. import verify
from .bench_engines import Unmeasured
from .bench_operands import Operands, Pool
from .cuda_libraries import cublas_version, load, load_cublas, loaded

SETTINGS = [(tile, autopin) for tile in (2048, 4096) for autopin in (True, False)]
SMALL = 8  # edge of a product that makes NVBLAS read its settings but runs on the CPU BLAS
HOPELESS = 2.0  # ratio to the best so far from which a first call is not repeated
INT_LIMIT = 2**31
CPU_BLAS_NAMES = ("libopenblas.so.0", "libmkl_rt.so.2", "libblis.so.4", "libblas.so.3")


def cpu_blas_file() -> str:
    """A CPU BLAS with the plain 32-bit Fortran names, which NVBLAS requires."""
    for path in filter(None, [os.environ.get("FLEETBLAS_CPU_BLAS"), *CPU_BLAS_NAMES]):
        try:
            if hasattr(ctypes.CDLL(path), "dgemm_"):
                return path
        except OSError:
            continue
    raise Unmeasured(
        "NVBLAS needs a CPU BLAS with dgemm_ (Debian: libopenblas0), and none was found"
    )


class Instance:
    """One copy of NVBLAS with settings of its own."""

    def __init__(self, folder: pathlib.Path, file: str, cpu_blas: str, devices: list[int], setting):
        self.tile, self.autopin = setting
        name = f"tile{self.tile}-{'autopin' if self.autopin else 'plain'}"
        self.log = folder / f"{name}.log"
        lines = [f"NVBLAS_LOGFILE {self.log}", "NVBLAS_TRACE_LOG_ENABLED"]
        lines += [f"NVBLAS_CPU_BLAS_LIB {cpu_blas}", f"NVBLAS_TILE_DIM {self.tile}"]
        lines += ["NVBLAS_GPU_LIST " + " ".join(map(str, devices))]
        lines += ["NVBLAS_AUTOPIN_MEM_ENABLED"] if self.autopin else []
        configuration = folder / f"{name}.conf"
        configuration.write_text("\n".join(lines) + "\n", encoding="utf-8")
        copy = shutil.copy(file, folder / f"lib{name}.so")
        os.environ["NVBLAS_CONFIG_FILE"] = str(configuration)
        self.library = ctypes.CDLL(str(copy))
        one, matrix = np.ones(1), np.ones((SMALL, SMALL))
        pointers = [(matrix.ctypes.data, SMALL)] * 2 + [(np.ones_like(matrix).ctypes.data, SMALL)]
        self.gemm("d", "nn", (SMALL,) * 3, (one, one), pointers)

    def gemm(self, letter: str, ops, sizes, scalars, matrices) -> None:
        function = getattr(self.library, f"{letter}gemm_")
        function.restype = None
        m, n, k = (byref(c_int(edge)) for edge in sizes)
        alpha, beta = (c_void_p(scalar.ctypes.data) for scalar in scalars)
        (a, lda), (b, ldb), (c, ldc) = (
            (c_void_p(address), byref(c_int(leading))) for address, leading in matrices
        )
        flags = [c_char_p(op.upper().encode()) for op in ops]
        function(*flags, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)

    def logged(self) -> str:
        ctypes.CDLL(None).fflush(None)
        try:
            return self.log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""


class Worker:
    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.instances: list[Instance] = []

    def open(self, problems: list[dict], devices: list[int]) -> None:
        self.pool = Pool(None, problems)
        self.cublas = load_cublas()
        cpu_blas = cpu_blas_file()
        load("libnvblas")
        file = next(path for path in loaded() if "/libnvblas.so" in path)
        try:
            for setting in SETTINGS:
                self.instances.append(Instance(self.folder, file, cpu_blas, devices, setting))
        except (OSError, AttributeError) as error:
            raise Unmeasured(f"NVBLAS cannot be used: {error}") from None
        self.device_count = len(devices)

    def start_up(self, words: dict) -> dict:
        """Finds the best setting for a problem; returns its description."""
        self.operands = Operands(self.pool, words, ["p", "p", "p"])
        if max(self.operands.sizes) >= INT_LIMIT:
            raise Unmeasured("NVBLAS has 32-bit sizes")
        self.scalars = [
            np.array([x], self.pool.dtype) for x in (self.operands.alpha, self.operands.beta)
        ]
        self.operands.reset()
        best, best_s, first_s = None, float("inf"), None
        for instance in self.instances:
            self.instance = instance
            seconds = first = self.call()
            if seconds < HOPELESS * best_s:
                seconds = min(seconds, self.call())
            if seconds < best_s:
                best, best_s, first_s = instance, seconds, first
        self.instance = best
        self._require_gpu()
        return {
            "first_s": first_s,
            "tile": best.tile,
            "autopin": best.autopin,
            "devices": self.device_count,
            "library_version": cublas_version(self.cublas),
        }

    def _require_gpu(self) -> None:
        """Detects that NVBLAS used the CPU BLAS instead of a GPU, which it reports only in its
        log."""
        log = self.instance.logged()
        calls = [line for line in log.splitlines() if "gemm[" in line]
        if calls and "gemm[cpu]" in calls[-1]:
            raise Unmeasured(
                "NVBLAS left the product to the CPU BLAS: " + " ".join(log.split())[:300]
            )
        if "failed with error" in log:
            raise Unmeasured("NVBLAS: " + " ".join(log.split())[-300:], "device_failed")

    def reset(self) -> None:
        self.operands.reset()

    def call(self) -> float:
        o = self.operands
        if o.growth > 1:
            o.reset()
        ops = (o.words["transa"], o.words["transb"])
        start = time.perf_counter()
        self.instance.gemm(o.words["type"], ops, o.sizes, self.scalars, o.matrices)
        return time.perf_counter() - start

    def look_at(self, signs, rows, columns) -> verify.Evidence:
        self._require_gpu()
        return verify.look_at(self.operands.source("c"), "n", signs, rows, columns)

    def whole_c(self) -> np.ndarray:
        return self.operands.on_host("c")


def serve(pipe: Connection) -> None:
    with tempfile.TemporaryDirectory(prefix="fleetblas-nvblas-") as folder:
        worker = Worker(pathlib.Path(folder))
        while True:
            try:
                question, details = pipe.recv()
            except EOFError:
                return
            try:
                answer = ("done", getattr(worker, question)(*details))
            except Unmeasured as failure:
                answer = ("failed", str(failure), failure.status)
            except MemoryError as failure:
                answer = ("failed", str(failure) or "no memory", "no_memory")
            pipe.send(answer)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
