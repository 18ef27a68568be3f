# SPDX-License-Identifier: BSD-3-Clause
"""Context: devices, plans and memory of one FleetBLAS context, and its texts as Python values.

Knows nothing of strides and data types: products are in _arrays.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import json
import math
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, NamedTuple

from . import _native
from ._native import library
from ._routines import KNOWN, LETTERS, is_cyclic

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

try:
    from . import _arrays, _level3, _matrices, _tracked, _vectors
except ModuleNotFoundError as error:
    if error.name != "numpy":
        raise
    # Plans, machines and the command line do not need it.
    _arrays = _level3 = _matrices = _vectors = _native.Missing("NumPy", "pip install numpy")

    class _tracked:
        """Without NumPy nothing is tracked."""

        queued = staticmethod(lambda method: method)


class _Handle:
    """A fleet_context*, destroyed when the last Context or array that uses it is gone."""

    def __init__(self, pointer: ctypes.c_void_p):
        self.pointer = pointer
        self.objective = None
        self.in_flight: list = []  # queued calls, with what they use
        self.memories: dict = {}  # of tracked matrices
        self.abandoned: list = []  # of these, what nobody uses any more
        self.lock = threading.Lock()
        if pointer.value:
            # Not at exit: the memory ends with the process, and calls may still be running.
            weakref.finalize(self, library.fleet_context_destroy, pointer).atexit = False


def option_text(options: dict) -> bytes:
    """Options as fleet_context_create reads them. Raises BadOption if a value has no text form."""
    lines = []
    for name, value in options.items():
        if value is None:
            continue
        if isinstance(value, bool):
            value = int(value)
        elif isinstance(value, (list, tuple)):
            # A trailing comma, since a plain integer would be the number of devices.
            value = ",".join(map(str, value)) + ("," if len(value) == 1 else "")
        if any(separator in str(value) for separator in "\n;\0"):
            raise _native.BadOption(f"{name}: no line break or ';' may be in a value", "bad_option")
        lines.append(f"{name}={value}")
    return "\n".join(lines).encode()


def problem_text(
    problem: str | None = None,
    *,
    routine: str = "gemm",
    type: str = "d",
    size: int | None = None,
    m: int | None = None,
    n: int | None = None,
    k: int | None = None,
    place: str = "h",
    beta: complex = 1,
    alpha: complex = 1,
    batch: int = 1,
    **flags: str,
) -> str:
    """The problem as the library writes it: "dgemm m=8 n=8 k=8 a@h b@h c@h beta=0", or
    "dpotrf n=8 a@h".

    flags: those of side, uplo, transa, transb and diag that the routine has.
    """
    if problem is not None:
        return problem
    if routine not in KNOWN:
        raise _native.BadArgument(f"routine: {routine!r} is unknown", "bad_argument")
    of = KNOWN[routine]
    unknown = [name for name in flags if name not in of.flags]
    if unknown:
        raise _native.BadArgument(f"{routine} has no {unknown[0]}", "bad_argument")
    if size is not None:
        m, n, k = (size if edge is None and name in of.sizes else edge
                   for name, edge in (("m", m), ("n", n), ("k", k)))  # fmt: skip
    edges = dict(zip("mnk", of.edges(m, n, k, flags.get("side", "l"))))
    sided = "side" in of.flags
    if alpha == 0 and not sided:
        edges["k"] = 0  # only C is scaled, which the library writes as k=0
    text = of.named(type) + "".join(f" {name}={edges[name]}" for name in of.sizes)
    text += "".join(f" {name}@{word}" for name, word in zip(of.names, of.places(place)))
    usual = {name: LETTERS[name][0] for name in of.flags}
    text += "".join(
        f" {name}={flags[name]}" for name in of.flags if flags.get(name, usual[name]) != usual[name]
    )
    text += " alpha=0" if alpha == 0 and sided else ""
    text += " beta=0" if beta == 0 and "beta" in of.scalars else ""
    return text + (f" batch={batch}" if batch != 1 else "")


class Cost(NamedTuple):
    """What a plan is predicted to cost. Joules are nan where watts are not known."""

    seconds: float
    joules: float  # of the devices that take part
    joules_node: float  # of all devices and, as far as it is known, the host
    devices: int  # that take part


def _value_of(objective, cost: _native.CostStruct) -> float:
    """A callback must not raise: what ctypes returns then is 0, the best of all."""
    try:
        return float(objective(Cost(cost.seconds, cost.joules, cost.joules_node, cost.devices)))
    except KeyboardInterrupt:
        _thread.interrupt_main()  # raised again once the library has returned
        return math.nan
    except BaseException as error:
        with contextlib.suppress(Warning):  # where warnings are errors
            warnings.warn(f"the objective raised {error!r}", RuntimeWarning, stacklevel=2)
        return math.nan


class Context:
    """Devices, plans and memory. Options are the settings of the environment without FLEETBLAS_,
    in lower case: Context(backend="host", devices=4, memory_cap="2G", offload="always").

    The option `objective` is a word ("time", "edp", "energy", "energy@1.1"), or a function, as for
    set_objective.

    Any thread may make calls; those of several threads run at the same time where that finishes
    them sooner. Those on tracked matrices (`tracked`) are queued. `with Context(...) as context:`
    closes it at the end; the memory of arrays stays until the last of them is gone.
    """

    queue = None  # calls are done at once; see _tracked

    def __init__(self, **options):
        own = options.pop("objective") if callable(options.get("objective")) else None
        pointer = ctypes.c_void_p()
        _native.check(library.fleet_context_create(option_text(options), ctypes.byref(pointer)))
        self._handle: _Handle | None = _Handle(pointer)
        if own is not None:
            self.set_objective(own)

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
        """Closes the context; using it again is an error. What queued calls write to arrays of the
        program is brought home first."""
        handle, self._handle = self._handle, None
        if handle is not None and handle.memories:
            _tracked.bring_home(handle)

    @property
    def handle(self) -> _Handle:
        if self._handle is None:
            raise _native.BadArgument("this context is closed", "bad_argument")
        return self._handle

    @property
    def pointer(self) -> ctypes.c_void_p:
        """The fleet_context*; NULL for the default context."""
        return self.handle.pointer

    @_tracked.queued
    def gemm(self, a, b, c=None, *, alpha=1, beta=0, transa="n", transb="n", out=None, tf32=False):
        """alpha * op(a) @ op(b) + beta * c, for float16, bfloat16, float32, float64 and complex.

        op is 'n' (not transposed), 't' (transposed) or 'c' (conjugate transposed). Arrays in C and
        Fortran order and strided views are used in place. The result goes to `out` (which may be
        c), or to a new array. c is not read if beta is 0.

        float16 and bfloat16 (of the package ml_dtypes) are summed in float32, and rounded after
        each of a few steps of k. tf32=True allows devices to round float32 inputs to TF32.

        Arrays may also come from CuPy, PyTorch, or any library with `__cuda_array_interface__` or
        DLPack, each operand in host memory or on any device of this context. The call waits for the
        work queued on the stream of each array, and the result is complete on return. The result is
        an array of the library of a, unless `out` is given. An array on a device is never copied or
        converted: a different type, or strides that no BLAS call can express, raise BadArgument.
        """
        return _arrays.gemm(self, a, b, c, alpha, beta, transa, transb, out, tf32)

    @_tracked.queued
    def gemmt(self, a, b, c=None, *, alpha=1, beta=0, uplo="l", transa="n", transb="n", out=None):
        """One triangle of alpha * op(a) @ op(b) + beta * c, which is n x n.

        Arrays, `out` and errors as for gemm, in float32, float64, complex64 and complex128. Only
        the triangle `uplo` ('l' lower, 'u' upper) of c and out is read and written; the opposite
        one of a new result is 0.
        """
        flags = {"uplo": uplo, "transa": transa, "transb": transb}
        return _level3.compute(self, "gemmt", a, b, c, alpha, beta, flags, out)

    @_tracked.queued
    def symm(self, a, b, c=None, *, alpha=1, beta=0, side="l", uplo="l", out=None):
        """alpha * a @ b + beta * c with a symmetric a, or with side 'r' alpha * b @ a + beta * c.

        a is m x m (side 'r': n x n), b and c are m x n. Only the triangle `uplo` of a ('l' lower,
        'u' upper) is read. Types, arrays, `out` and errors as for gemmt; b has the same order of
        rows (C or Fortran) as the result, or is copied, which an array on a device refuses.
        """
        flags = {"side": side, "uplo": uplo}
        return _level3.compute(self, "symm", a, b, c, alpha, beta, flags, out)

    @_tracked.queued
    def hemm(self, a, b, c=None, *, alpha=1, beta=0, side="l", uplo="l", out=None):
        """symm with a Hermitian a, for complex types.

        The imaginary parts of its diagonal are not read. Like b, a has the order of rows of the
        result, or is copied.
        """
        flags = {"side": side, "uplo": uplo}
        return _level3.compute(self, "hemm", a, b, c, alpha, beta, flags, out)

    @_tracked.queued
    def syrk(self, a, c=None, *, alpha=1, beta=0, uplo="l", trans="n", out=None):
        """One triangle of alpha * a @ a.T + beta * c, or with trans 't' alpha * a.T @ a + beta * c.

        a is n x k (trans 't': k x n), c and the result are n x n. Only the triangle `uplo` ('l'
        lower, 'u' upper) of c and out is read and written; the opposite one of a new result is 0.
        Types, arrays, `out` and errors as for gemmt.
        """
        flags = {"uplo": uplo, "transa": trans}
        return _level3.compute(self, "syrk", a, None, c, alpha, beta, flags, out)

    @_tracked.queued
    def herk(self, a, c=None, *, alpha=1, beta=0, uplo="l", trans="n", out=None):
        """syrk with the conjugate transpose, for complex types; trans is 'n' or 'c'.

        alpha, beta and the diagonal are real: imaginary parts on the diagonal of c are not read,
        and are 0 in the result, unless nothing is added (k or alpha is 0) and beta is 1: then c
        stays as it is. a has the order of rows of the result, or is copied.
        """
        flags = {"uplo": uplo, "transa": trans}
        return _level3.compute(self, "herk", a, None, c, alpha, beta, flags, out)

    @_tracked.queued
    def syr2k(self, a, b, c=None, *, alpha=1, beta=0, uplo="l", trans="n", out=None):
        """One triangle of alpha * (a @ b.T + b @ a.T) + beta * c, or with trans 't' of
        alpha * (a.T @ b + b.T @ a) + beta * c.

        a and b are n x k (trans 't': k x n), both in one order of rows, or b is copied. All else
        as for syrk.
        """
        flags = {"uplo": uplo, "transa": trans}
        return _level3.compute(self, "syr2k", a, b, c, alpha, beta, flags, out)

    @_tracked.queued
    def her2k(self, a, b, c=None, *, alpha=1, beta=0, uplo="l", trans="n", out=None):
        """One triangle of alpha * a @ b^H + conj(alpha) * b @ a^H + beta * c, or with trans 'c' of
        alpha * a^H @ b + conj(alpha) * b^H @ a + beta * c; complex types, beta real.

        The diagonal as for herk; a and b have the order of rows of the result, or are copied.
        """
        flags = {"uplo": uplo, "transa": trans}
        return _level3.compute(self, "her2k", a, b, c, alpha, beta, flags, out)

    @_tracked.queued
    def trmm(self, a, b, *, alpha=1, side="l", uplo="l", transa="n", diag="n", out=None):
        """alpha * op(a) @ b with a triangular a, or with side 'r' alpha * b @ op(a).

        a is m x m (side 'r': n x n), b is m x n. Only the triangle `uplo` of a ('l' lower, 'u'
        upper) is read; with diag 'u' the diagonal is taken as ones and not read. The result goes to
        `out` (which may be b), or to a new array. Types, arrays and errors as for gemmt. BLAS works
        in place: unless out is b, b is copied there.
        """
        flags = {"side": side, "uplo": uplo, "transa": transa, "diag": diag}
        return _level3.compute(self, "trmm", a, b, None, alpha, 0, flags, out)

    @_tracked.queued
    def trsm(self, a, b, *, alpha=1, side="l", uplo="l", transa="n", diag="n", out=None):
        """The x with op(a) @ x = alpha * b, or with side 'r' x @ op(a) = alpha * b; all else as for
        trmm. A singular a is not detected: x is then not finite.
        """
        flags = {"side": side, "uplo": uplo, "transa": transa, "diag": diag}
        return _level3.compute(self, "trsm", a, b, None, alpha, 0, flags, out)

    @_tracked.queued
    def matmul(self, a, b, out=None, *, tf32=False):
        """numpy.matmul(a, b, out): vectors, matrices, and stacks that broadcast.

        Types and tf32 as for gemm; a product of bfloat16 is bfloat16. NumPy computes products of
        other types (integers, longdouble, objects). Arrays of other libraries, also on devices: as
        for gemm.
        """
        return _arrays.matmul(self, a, b, out, tf32)

    def axpy(self, alpha, x, y):
        """y += alpha * x in place; returns y. Vectors of float32, float64 or complex.

        Vectors are used in place, with any stride, on the host or a device, as arrays of any
        library that gemm takes.
        """
        return _vectors.axpy(self, alpha, x, y)

    def dot(self, x, y):
        """The sum of x[i] * y[i], as a NumPy scalar. Arrays as for axpy."""
        return _vectors.dot(self, x, y, conjugate=False)

    def vdot(self, x, y):
        """The sum of conj(x[i]) * y[i], as a NumPy scalar. Arrays as for axpy."""
        return _vectors.dot(self, x, y, conjugate=True)

    def gemv(self, a, x, y=None, *, alpha=1, beta=0, trans="n", out=None):
        """alpha * op(a) @ x + beta * y; the result goes to `out` (which may be y) or a new array.

        op is 'n', 't' or 'c', as for gemm; y is not read if beta is 0. Arrays as for gemm and axpy.
        """
        return _vectors.gemv(self, a, x, y, alpha, beta, trans, out)

    def tracked(self, array=None, *, place=None, shape=None, dtype="float64") -> _tracked.Tracked:
        """A matrix whose calls are queued: the memory of `array`, or new memory at a place.

        tracked(a) uses a's memory, on the host or a device, of any library that gemm takes;
        tracked(a, place="h") copies a into memory of the context at a place: 'h' pinned host, 'p'
        pageable host, a device, or "c2x2:1024", blocks of 1024 on 2 x 2 devices in turn, with
        neither block nor grid ("c") as the model likes; tracked(shape=(m, n), place=0) is new
        memory with undefined contents.
        """
        if isinstance(array, _tracked.Tracked) and place is None:
            return array
        self._forget_done()
        if place is not None or array is None:
            source = None if array is None else _tracked.readable(self, array)
            if source is not None:
                shape, dtype = source.shape, source.dtype
            if shape is None:
                raise _native.BadArgument("give an array, or shape", "bad_argument")
            if is_cyclic(place):
                return _tracked.Tracked._cyclic(self, source, shape, dtype, place)
            array = self.empty(shape, dtype, "h" if place is None else place)
            if source is not None:
                self.copy(array, source)
        return _tracked.Tracked(self, array)

    def empty(self, shape, dtype="float64", location="h", order="C") -> np.ndarray:
        """An uninitialised array at a location: 'h' pinned host, 'p' pageable host, or a device.

        The memory is freed with the last array that views it. NumPy must not touch elements on a
        device: `copy` brings them to the host.
        """
        self._forget_done()
        return _arrays.empty(self, shape, dtype, location, order)

    def _forget_done(self) -> None:
        handle = self.handle
        if handle.in_flight or handle.memories or handle.abandoned:
            _matrices.forget_done(handle)

    def copy(self, to: np.ndarray, source: np.ndarray) -> np.ndarray:
        """Copies between contiguous arrays of any two locations; returns `to`."""
        return _arrays.copy(self, to, source)

    def register(self, array: np.ndarray) -> None:
        """Pins the memory of an array, so that devices can access it, until `unregister`."""
        _native.check(library.fleet_host_register(self.pointer, *_arrays.extent(array)))

    def unregister(self, array: np.ndarray) -> None:
        """Undoes `register`."""
        _native.check(library.fleet_host_unregister(self.pointer, _arrays.extent(array)[0]))

    def set_objective(self, objective: Callable[[Cost], float] | None) -> None:
        """Plans are chosen by objective(cost) from now on, less being better; None: by the setting.

        It is called many times while a call plans, and must not call FleetBLAS. Plans for which it
        raises or returns no finite number are not chosen. Joules are nan where watts are not known;
        before the first call GPUs measure theirs for it (3 s, once).
        """
        callback = _native.OBJECTIVE(0)
        if objective is not None:
            callback = _native.OBJECTIVE(lambda _, cost: _value_of(objective, cost.contents))
        handle = self.handle
        with handle.lock:
            _native.check(library.fleet_set_objective(handle.pointer, callback, None))
            handle.objective = callback  # as long as the library may call it

    def set_priority(self, priority: int) -> None:
        """Calls on tracked matrices from now on overtake those of lower priority that they share no
        written memory with. 0 at first; no bit of a result changes."""
        _native.check(library.fleet_set_priority(self.pointer, priority))

    def trim(self) -> None:
        """Returns pooled device memory to the system."""
        self._forget_done()
        _native.check(library.fleet_trim(self.pointer))

    def plan(self, problem: str | None = None, **words) -> dict:
        """The plan of a call: workers, grid, tile, tasks, bytes per link, predicted time, reasons.

        plan("dgemm m=8192 n=8192 k=8192 a@h b@h c@0"), or plan(size=8192, type="d", place="h,h,0");
        plan("dpotrf n=8192 a@h"), or plan(routine="potrf", size=8192). potrf, getrf and geqrf have
        strips of columns in place of tiles.
        """
        return self._problem_json(library.fleet_plan_json, problem, words)

    def simulate(self, problem: str | None = None, **words) -> dict:
        """The simulated timeline of that plan, as Chrome trace events."""
        return self._problem_json(library.fleet_simulate_json, problem, words)

    def plan_program(self, program: str) -> dict:
        """The plan of several calls as one: a problem a line, operands as "a=NAME@PLACE".

        Operands with one name are one matrix:
        plan_program("dtrsm size=8192 a=T@h c=X@h\\ndgemm size=8192 a=D@h b=X@h c=C@h").
        """
        return json.loads(
            _native.text_of(library.fleet_plan_program_json, self.pointer, program.encode())
        )

    def simulate_program(self, program: str) -> dict:
        """The simulated timeline of that plan, as Chrome trace events."""
        return json.loads(
            _native.text_of(library.fleet_simulate_program_json, self.pointer, program.encode())
        )

    def bound(self, problem: str | None = None, **words) -> dict:
        """A lower bound on the time of any plan, and the resource that limits it."""
        return self._problem_json(library.fleet_bound_json, problem, words)

    def trace(self) -> dict:
        """The measured timeline of the last call that ran a plan, as Chrome trace events.

        GPUs measure single tasks only in a context with timeline=True; otherwise each task has the
        time of the whole run.
        """
        return json.loads(_native.text_of(library.fleet_trace_json, self.pointer))

    def machine(self) -> dict:
        """The machine that this context plans for."""
        return json.loads(_native.text_of(library.fleet_machine_json, self.pointer))

    def config(self) -> dict:
        """Version, settings in force, backend, devices and the CPU BLAS in use."""
        return json.loads(_native.text_of(library.fleet_config_json, self.pointer))

    def stats(self) -> dict:
        """Calls so far, the devices that ran them and why, bytes per link, seconds."""
        return json.loads(_native.text_of(library.fleet_stats_json, self.pointer))

    def _problem_json(self, function, problem: str | None, words: dict) -> dict:
        text = problem_text(problem, **words)
        return json.loads(_native.text_of(function, self.pointer, text.encode()))
