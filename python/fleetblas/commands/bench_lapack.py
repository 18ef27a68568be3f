# SPDX-License-Identifier: BSD-3-Clause
"""The LAPACK of the CPU BLAS as a peer, called by ctypes with all cores.

Looks for the names that libraries give to LAPACK with 32-bit and 64-bit integers.
"""

from __future__ import annotations

import ctypes
import os

import numpy as np

from .bench_engines import Unmeasured
from .bench_factors import FactorOperands, LapackEngine

# As scipy-openblas wheels, Julia, MKL and plain libraries have them; {} is dgetrf, for example.
NAMES = ("scipy_{}_64_", "{}_64_", "{}64_", "scipy_{}_", "{}_")
THREADS = ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads64_")
THREADS += ("scipy_openblas_set_num_threads", "openblas_set_num_threads")
THREADS += ("MKL_Set_Num_Threads", "bli_thread_set_num_threads")
SYSTEM = ("libopenblas.so.0", "libmkl_rt.so.2", "libflexiblas.so.3", "liblapack.so.3")


def entry_of(library, name: str):
    """A routine, or None."""
    for pattern in NAMES:
        if hasattr(library, pattern.format(name)):
            entry = getattr(library, pattern.format(name))
            entry.restype = None
            return entry
    return None


def library_with(name: str) -> tuple[ctypes.CDLL, object, str]:
    """The CPU BLAS in use, or one of the system, with the routine in it, and its file."""
    chosen = os.environ.get("FLEETBLAS_CPU_BLAS")
    for file in (chosen,) if chosen else SYSTEM:
        try:
            library = ctypes.CDLL(file)
        except OSError:
            continue
        entry = entry_of(library, name)
        if entry is not None:
            return library, entry, file
    where = chosen or "any library of the system"
    raise Unmeasured(f"no LAPACK: {name} is not in {where} (FLEETBLAS_CPU_BLAS names another)")


class CpuLapack(LapackEngine):
    """Matrices on the host, as a program without GPUs has them."""

    name = "lapack"
    same_problem = False  # no device takes part, so the bound of the devices does not hold

    def __init__(self, operands: FactorOperands):
        on_host = [place if place in ("h", "p") else "p" for place in operands.locations]
        super().__init__(operands.at(on_host))
        self.file: str | None = None
        # 64 bits for every integer: libraries with 32-bit ones read the lower half.
        self._info = ctypes.c_int64(0)
        self._raw_pivots = np.zeros(self.operands.diagonal, np.int64)
        self._work = np.zeros(1, operands.dtype)

    def start_up(self) -> None:
        self.require_problem()
        words = self.operands.words
        library, self._entry, self.file = library_with(words["type"] + words["routine"])
        setters = [getattr(library, name) for name in THREADS if hasattr(library, name)]
        self._set_threads = setters[0] if setters else None
        self._use_all_cores()
        if words["routine"] == "geqrf":
            self._geqrf(-1)
            self._work = np.zeros(max(1, int(self._work[0].real)), self.operands.dtype)

    def _use_all_cores(self) -> None:
        """The library is that of FleetBLAS, which sets the number for its own calls."""
        if self._set_threads is not None:
            self._set_threads(ctypes.c_int(len(os.sched_getaffinity(0))))

    def reset(self) -> None:
        super().reset()
        self._use_all_cores()

    def _matrix(self, name: str) -> list:
        matrix = self.operands.matrix(name)
        return [ctypes.c_void_p(matrix.ctypes.data), _int(max(1, len(matrix)))]

    def _geqrf(self, length: int) -> None:
        o = self.operands
        sizes = [_int(o.words["m"]), _int(o.words["n"])]
        work = [ctypes.c_void_p(o.tau.ctypes.data), ctypes.c_void_p(self._work.ctypes.data)]
        tail = [*work, _int(length), ctypes.byref(self._info)]
        self._entry(*sizes, *self._matrix("a"), *tail)

    def compute(self) -> None:
        o, a = self.operands, self._matrix("a")
        m, n, k = (_int(o.words[name]) for name in "mnk")
        pivots, info = ctypes.c_void_p(self._raw_pivots.ctypes.data), ctypes.byref(self._info)
        routine = o.words["routine"]
        if routine == "potrf":
            uplo = ctypes.c_char(o.uplo.upper().encode())
            # The length of the text comes last, for compilers that pass it.
            self._entry(ctypes.byref(uplo), n, *a, info, ctypes.c_size_t(1))
        elif routine == "getrf":
            self._entry(m, n, *a, pivots, info)
        elif routine == "gesv":
            self._entry(n, k, *a, pivots, *self._matrix("b"), info)
        else:
            self._geqrf(len(self._work))
        self.info = ctypes.c_int32(self._info.value).value

    def results(self):
        narrow = self._raw_pivots.view(np.int32)[: len(self._raw_pivots)]
        # Pivots are never 0, but the upper halves of wide ones are.
        is_wide = len(narrow) < 2 or narrow[1] == 0
        self.operands.pivots[:] = self._raw_pivots if is_wide else narrow
        return super().results()

    def describe(self, row: dict) -> None:
        row.update({"where": "cpu", "reason": "all cores", "devices": 0})
        row.update({"cpu_blas": self.file, "cores": len(os.sched_getaffinity(0))})


def _int(value: int):
    return ctypes.byref(ctypes.c_int64(value))
