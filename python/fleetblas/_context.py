# SPDX-License-Identifier: BSD-3-Clause
"""Context: devices, plans and memory of one FleetBLAS context, and its texts as Python values.

Knows nothing of strides and data types: products are in _arrays.
"""

from __future__ import annotations

import ctypes
import json
import weakref
from typing import TYPE_CHECKING

from . import _native
from ._native import library

if TYPE_CHECKING:
    import numpy as np

try:
    from . import _arrays
except ModuleNotFoundError as error:
    if error.name != "numpy":
        raise
    # Plans, machines and the command line do without it.
    _arrays = _native.Missing("NumPy", "pip install numpy")


class _Handle:
    """A fleet_context*, destroyed when the last Context or array that uses it is gone."""

    def __init__(self, pointer: ctypes.c_void_p):
        self.pointer = pointer
        if pointer.value:
            # Not at exit: the process takes its memory with it, and calls may still be running.
            weakref.finalize(self, library.fleet_context_destroy, pointer).atexit = False


def option_text(options: dict) -> bytes:
    """Options as fleet_context_create reads them. Raises BadOption for what cannot be written."""
    lines = []
    for name, value in options.items():
        if value is None:
            continue
        if isinstance(value, bool):
            value = int(value)
        elif isinstance(value, (list, tuple)):
            # A trailing comma, since a plain integer would be a count of devices.
            value = ",".join(map(str, value)) + ("," if len(value) == 1 else "")
        if any(separator in str(value) for separator in "\n;\0"):
            raise _native.BadOption(f"{name}: no line break or ';' may be in a value", "bad_option")
        lines.append(f"{name}={value}")
    return "\n".join(lines).encode()


def problem_text(
    problem: str | None = None,
    *,
    type: str = "d",
    size: int | None = None,
    m: int | None = None,
    n: int | None = None,
    k: int | None = None,
    transa: str = "n",
    transb: str = "n",
    place: str = "h,h,h",
    beta: complex = 1,
    alpha: complex = 1,
    batch: int = 1,
) -> str:
    """The problem as the library writes it: "dgemm m=8 n=8 k=8 a@h b@h c@h beta=0"."""
    if problem is not None:
        return problem
    m, n, k = (size if edge is None else edge for edge in (m, n, k))
    if m is None or n is None or k is None:
        raise _native.BadArgument("give size, or m, n and k", "bad_argument")
    words = place.split(",")
    if len(words) != 3:
        raise _native.BadArgument(
            f"place: {place!r} is not three words, as in h,h,0", "bad_argument"
        )
    a, b, c = words
    # Without a product only the scaling of C is left, and that is how the library names it.
    text = f"{type}gemm m={m} n={n} k={0 if alpha == 0 else k} a@{a} b@{b} c@{c}"
    text += f" transa={transa}" if transa != "n" else ""
    text += f" transb={transb}" if transb != "n" else ""
    text += " beta=0" if beta == 0 else ""
    return text + (f" batch={batch}" if batch != 1 else "")


class Context:
    """Devices, plans and memory. Options are the settings of the environment without FLEETBLAS_,
    in lower case: Context(backend="host", devices=4, memory_cap="2G", offload="always").

    Calls on one context run in turn; any thread may make them. `with Context(...) as context:`
    closes it at the end; memory of arrays that are still alive is kept until they are gone.
    """

    def __init__(self, **options):
        pointer = ctypes.c_void_p()
        _native.check(library.fleet_context_create(option_text(options), ctypes.byref(pointer)))
        self._handle: _Handle | None = _Handle(pointer)

    @classmethod
    def _default(cls) -> Context:
        context = cls.__new__(cls)
        context._handle = _Handle(ctypes.c_void_p())
        return context

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def close(self) -> None:
        """Gives the context up; using it again is an error."""
        self._handle = None

    @property
    def handle(self) -> _Handle:
        if self._handle is None:
            raise _native.BadArgument("this context is closed", "bad_argument")
        return self._handle

    @property
    def pointer(self) -> ctypes.c_void_p:
        """The fleet_context*; NULL for the default context."""
        return self.handle.pointer

    def gemm(self, a, b, c=None, *, alpha=1, beta=0, transa="n", transb="n", out=None, tf32=False):
        """alpha * op(a) @ op(b) + beta * c, for float16, bfloat16, float32, float64 and complex.

        op is 'n' (as it is), 't' (transposed) or 'c' (conjugate transposed). C and Fortran order
        and strided views are used where they lie. The result goes to `out` (which may be c), or to
        a new array. c is not read when beta is 0.

        float16 and bfloat16 (of the package ml_dtypes) are summed in float32 and rounded after
        each of few steps of k. tf32=True lets devices round float32 inputs to TF32.

        Arrays may also be of CuPy, PyTorch, or of any library with `__cuda_array_interface__` or
        DLPack, each operand in host memory or on any device of this context. Work that is queued
        on the stream that an array comes with is waited for, and the result is complete on return.
        It is an array like a, unless `out` is given. An array on a device is never copied or
        converted: a type that differs, or strides that no BLAS call can express, are a
        BadArgument.
        """
        return _arrays.gemm(self, a, b, c, alpha, beta, transa, transb, out, tf32)

    def matmul(self, a, b, out=None, *, tf32=False):
        """numpy.matmul(a, b, out): vectors, matrices, and stacks that broadcast.

        Types and tf32 as for gemm; a product of bfloat16 is bfloat16. Types without a product here
        (integers, longdouble, objects) are left to NumPy. Arrays of other libraries, also on
        devices: as for gemm.
        """
        return _arrays.matmul(self, a, b, out, tf32)

    def empty(self, shape, dtype="float64", location="h", order="C") -> np.ndarray:
        """An uninitialised array at a location: 'h' pinned host, 'p' pageable host, or a device.

        The memory is given back with the last array that views it.
        """
        return _arrays.empty(self, shape, dtype, location, order)

    def copy(self, to: np.ndarray, source: np.ndarray) -> np.ndarray:
        """Copies between contiguous arrays of any two locations; returns `to`."""
        return _arrays.copy(self, to, source)

    def register(self, array: np.ndarray) -> None:
        """Pins the memory of an existing array, so that devices reach it, until `unregister`."""
        _native.check(library.fleet_host_register(self.pointer, *_arrays.extent(array)))

    def unregister(self, array: np.ndarray) -> None:
        _native.check(library.fleet_host_unregister(self.pointer, _arrays.extent(array)[0]))

    def trim(self) -> None:
        """Gives pooled device memory back to the system."""
        _native.check(library.fleet_trim(self.pointer))

    def plan(self, problem: str | None = None, **words) -> dict:
        """What would be done and why: workers, grid, tile, tasks, bytes per link, predicted time.

        plan("dgemm m=8192 n=8192 k=8192 a@h b@h c@0"), or plan(size=8192, type="d", place="h,h,0").
        """
        return self._problem_json(library.fleet_plan_json, problem, words)

    def simulate(self, problem: str | None = None, **words) -> dict:
        """The simulated timeline of that plan, as Chrome trace events."""
        return self._problem_json(library.fleet_simulate_json, problem, words)

    def bound(self, problem: str | None = None, **words) -> dict:
        """The least time that any plan could take, and what limits it."""
        return self._problem_json(library.fleet_bound_json, problem, words)

    def trace(self) -> dict:
        """The measured timeline of the last call that ran a plan, as Chrome trace events.

        GPUs measure single tasks only in a context with timeline=True; else each has the time of
        the whole run.
        """
        return json.loads(_native.text_of(library.fleet_trace_json, self.pointer))

    def machine(self) -> dict:
        """The machine that this context plans for."""
        return json.loads(_native.text_of(library.fleet_machine_json, self.pointer))

    def config(self) -> dict:
        """Version, settings in force, backend, devices and the CPU BLAS in use."""
        return json.loads(_native.text_of(library.fleet_config_json, self.pointer))

    def stats(self) -> dict:
        """Calls so far, where they ran and why, bytes per link, seconds."""
        return json.loads(_native.text_of(library.fleet_stats_json, self.pointer))

    def _problem_json(self, function, problem: str | None, words: dict) -> dict:
        text = problem_text(problem, **words)
        return json.loads(_native.text_of(function, self.pointer, text.encode()))
