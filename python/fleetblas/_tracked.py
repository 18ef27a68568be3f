# SPDX-License-Identifier: BSD-3-Clause
"""Tracked matrices: calls on them are queued, and what reads them waits.

A call is the same as on arrays, but the library gets it as a queued one. Where NumPy would have to
copy an operand first (another type, strides that no BLAS call can express), the queued calls that
use it are waited for, and the call is done at once. Knows no routine but gemm.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import functools
import weakref
from ctypes import c_int, c_void_p

import numpy as np

from . import _interop, _types
from ._arrays import layout, scalar
from ._native import check, library

_composing = contextvars.ContextVar("fleetblas.compose", default=False)
_CODES = {"s": ord("s"), "d": ord("d"), "c": ord("c"), "z": ord("z")}


class _Matrix:
    """A fleet_matrix of stored rows x cols at an address."""

    def __init__(self, handle, word: str, shape, place):
        self.pointer = c_void_p()
        self._shape = shape
        address, leading = place
        check(
            library.fleet_matrix_wrap(
                handle.pointer, _CODES[word], *shape, address, leading, ctypes.byref(self.pointer)
            )
        )

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> None:
        library.fleet_matrix_destroy(self.pointer)

    def read(self) -> None:
        check(library.fleet_matrix_read(self.pointer, 0, 0, *self._shape))

    def wrote(self) -> None:
        check(library.fleet_matrix_wrote(self.pointer, 0, 0, *self._shape))

    def after(self, event: Event) -> None:
        check(library.fleet_matrix_after(self.pointer, event._pointer))


def _destroy_event(address: int) -> None:
    library.fleet_event_destroy(address)


class Event:
    """Something that is going to be done: a queued call, or what the program says with set(), such
    as a message that has arrived. What waits for the program's own fails if it is lost unset."""

    def __init__(self, pointer: c_void_p | None = None):
        if pointer is None:
            pointer = c_void_p()
            check(library.fleet_event_create(ctypes.byref(pointer)))
        self._pointer = pointer
        weakref.finalize(self, _destroy_event, pointer.value).atexit = False

    def set(self, status: str = "ok") -> None:
        """It is done, or has failed: "internal" and the other words of a status."""
        words = [library.fleet_status_string(number).decode() for number in range(9)]
        if status not in words:
            raise ValueError(f"status {status!r}: expected one of {', '.join(words)}")
        check(library.fleet_event_set(self._pointer, words.index(status)))

    def wait(self) -> None:
        """Waits until it is done, and raises its error, which names the call."""
        check(library.fleet_event_wait(self._pointer))

    def done(self) -> bool:
        """Whether it is done or has failed; never waits."""
        done = c_int()
        check(library.fleet_event_query(self._pointer, ctypes.byref(done)))
        return bool(done.value)


class _Queue:
    """In place of a context: its calls are queued. For one call."""

    def __init__(self, context):
        self.context, self.queue = context, self
        self.event: Event | None = None

    @property
    def handle(self):
        return self.context.handle

    @property
    def pointer(self) -> c_void_p:
        return self.context.pointer

    def config(self) -> dict:
        return self.context.config()

    def _call(self, word, name, flags, alpha, factors, beta, result) -> None:
        """factors, result: (stored shape, (address, leading dimension)); beta: () or one."""
        with contextlib.ExitStack() as stack:
            *inputs, output = (
                stack.enter_context(_Matrix(self.handle, word, shape, place)).pointer
                for shape, place in (*factors, result)
            )
            event = c_void_p()
            function = getattr(library, f"fleet_{word}{name}_async")
            check(
                function(self.pointer, *flags, alpha, *inputs, *beta, output, ctypes.byref(event))
            )
            self.event = Event(event)

    def gemm(self, word, ops, sizes, alpha, a, b, beta, c) -> None:
        element = _types.TYPES[word]
        if element.codes:
            raise _interop.Settle("has no queued product of its type")
        m, n, k = sizes
        shapes = [(m, k) if ops[0] == "n" else (k, m), (k, n) if ops[1] == "n" else (n, k)]
        # Arrays of complex scalars must stay alive during the call.
        alpha, beta = scalar(element, alpha), scalar(element, beta)
        factors = list(zip(shapes, (a, b)))
        self._call(word, "gemm", map(ord, ops), alpha, factors, (beta,), ((m, n), c))

    def level3(self, word, routine, flags, edges, alpha, a, b, beta, c) -> None:
        element = _types.TYPES[word]

        def passed(name: str, value):
            return value.real if name in routine.real else scalar(element, value)

        alpha, beta = passed("alpha", alpha), passed("beta", beta)
        shapes = routine.shapes(*edges, flags)
        factors = [(shapes["a"], a), *([(shapes["b"], b)] if routine.has_b else [])]
        codes = [ord(flags[name]) for name in routine.flags]
        scaled = () if routine.triangular else (beta,)
        self._call(word, routine.word, codes, alpha, factors, scaled, (edges[:2], c))


class Tracked(np.lib.mixins.NDArrayOperatorsMixin):
    """A matrix whose calls are queued.

    Routines of its context, and the operator @, return at once on tracked operands and give tracked
    results; calls that follow each other are planned as one. What reads a matrix waits:
    np.asarray(x), x.array, printing, indexing, NumPy's functions. Arrays that are operands beside
    tracked ones must not be changed until the result was read.
    """

    def __init__(self, context, array):
        guests = _interop.Guests()
        view = guests.view(array)
        view = view if _interop.is_on_device(view) else np.asarray(view)
        if view.ndim != 2 or _types.of(view.dtype) is None:
            raise TypeError(f"tracked matrices have two dimensions and are of {_types.KNOWN}")
        guests.wait(context)
        self._context, self._view = context, view
        self._handle = context.handle  # as long as calls on the matrix may be queued
        self._owner = view if array is view or not hasattr(array, "shape") else array
        self._writers: list[Event] = []

    # ---- what does not wait

    @property
    def shape(self) -> tuple:
        return self._view.shape

    @property
    def dtype(self) -> np.dtype:
        return self._view.dtype

    @property
    def ndim(self) -> int:
        return 2

    @property
    def T(self) -> Tracked:
        """The transpose, in the same memory."""
        return self._part(self._view.T)

    def part(self, rows: slice, columns: slice) -> Tracked:
        """The tracked matrix of these rows and columns, in the same memory."""
        return self._part(self._view[rows, columns])

    def done(self) -> bool:
        """Whether no queued call writes the matrix any more; never waits."""
        return all(event.done() for event in self._writers)

    def after(self, event: Event) -> None:
        """Calls on the matrix from now on start after the event, and whatever reads it waits, too.
        If the event fails, so do they. Waits itself for a view that no call can be queued on."""
        try:
            with _matrix_of(self._handle, self._view) as matrix:
                matrix.after(event)
        except _interop.Settle:
            event.wait()

    def _part(self, view) -> Tracked:
        part = object.__new__(Tracked)
        part._context, part._handle = self._context, self._handle
        part._view = part._owner = view
        part._writers = self._writers
        return part

    # ---- what waits

    def wait(self) -> None:
        """Waits for the queued calls that use the matrix. Raises the error of one that wrote it."""
        writers, self._writers[:] = list(self._writers), []
        for event in writers:
            event.wait()
        with contextlib.suppress(_interop.Settle), _matrix_of(self._handle, self._view) as matrix:
            matrix.read()
        _forget_done(self._handle)

    @property
    def array(self):
        """The array, once the queued calls that use it are done; it may be written until the next
        call is queued on it."""
        self.wait()
        return self._owner

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        self.wait()
        if _interop.is_on_device(self._view):
            raise TypeError("the matrix is on a device: use .array, or Context.copy")
        if copy:
            return np.array(self._view, dtype)
        return self._view if dtype is None else self._view.astype(dtype, copy=False)

    def __dlpack__(self, **words):
        return self.array.__dlpack__(**words)

    def __dlpack_device__(self):
        return self._owner.__dlpack_device__()

    def __getitem__(self, index):
        return np.asarray(self)[index]

    def __setitem__(self, index, value) -> None:
        np.asarray(self)[index] = value
        with contextlib.suppress(_interop.Settle), _matrix_of(self._handle, self._view) as matrix:
            matrix.wrote()

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self):
        return iter(np.asarray(self))

    def __repr__(self) -> str:
        if _interop.is_on_device(self._view):
            return f"Tracked({self.shape[0]} x {self.shape[1]} of {self.dtype} on a device)"
        return f"Tracked({np.asarray(self)!r})"

    # ---- NumPy

    def __array_ufunc__(self, ufunc, method, *inputs, **words):
        is_product = ufunc is np.matmul and method == "__call__" and not words
        if is_product and all(np.ndim(x) == 2 for x in inputs):
            return queue(self._context, "matmul", inputs, {})
        return _with_arrays(getattr(ufunc, method), inputs, words)

    def __array_function__(self, function, types, inputs, words):
        is_product = _composing.get() and function is np.dot and not words
        if is_product and all(np.ndim(x) == 2 for x in inputs):
            return queue(self._context, "matmul", inputs, {})
        return _with_arrays(function, inputs, words)


def _matrix_of(handle, view) -> _Matrix:
    """Raises Settle for a view that no call can have been queued on."""
    found, word = layout(view), _types.of(view.dtype).word
    if found is None or word not in _CODES:
        raise _interop.Settle("is never queued")
    transposed, leading = found
    shape = view.shape[::-1] if transposed else view.shape
    return _Matrix(handle, word, shape, (view.ctypes.data, leading))


def _with_arrays(function, inputs, words):
    """The function on arrays: queued calls are waited for."""

    def settled(value):
        if isinstance(value, Tracked):
            return value.array
        if isinstance(value, (list, tuple)):
            return type(value)(map(settled, value))
        return value

    return function(*map(settled, inputs), **{name: settled(x) for name, x in words.items()})


# ---- queuing ------------------------------------------------------------------------------------

OPERANDS = ("a", "b", "c", "out")


def has_tracked(inputs, words) -> bool:
    return any(isinstance(x, Tracked) for x in (*inputs, *words.values()))


def _settled(value):
    """As an operand that may be copied into the result."""
    array = value.array if isinstance(value, Tracked) else value
    if isinstance(array, (np.ndarray, list, tuple)):
        return np.asarray(array).view(_interop.Settled)
    return array


def _in_flight(value):
    if not isinstance(value, Tracked):
        return _settled(value)
    view = value._view
    return view if _interop.is_on_device(view) else view.view(_interop.InFlight)


def _plain(value):
    return value.array if isinstance(value, Tracked) else value


def queue(context, name: str, inputs, words) -> Tracked:
    """The routine `name` of the context on operands of which some are tracked."""
    routine = getattr(type(context), name)

    def attempt(on, form, form_of_out):
        forms = {key: form_of_out if key == "out" else form for key in OPERANDS}
        given = {key: forms[key](x) if key in forms else x for key, x in words.items()}
        operands = [form(x) for x in inputs]
        return routine(on, *operands, **given), (operands, given)

    call = _Queue(context)
    try:
        result, used = attempt(call, _in_flight, _in_flight)
    except _interop.Settle:
        try:
            result, used = attempt(call, _settled, _in_flight)
        except _interop.Settle:
            # Some operand has to be copied: what was computed of it is complete.
            result, used = attempt(context, _plain, _plain)
    out = words.get("out")
    if isinstance(out, Tracked):
        target = out
    elif out is not None:
        target = Tracked(context, out)
    else:
        is_view = isinstance(result, _interop.InFlight)
        target = Tracked(context, result.view(np.ndarray) if is_view else result)
    if call.event is not None:
        target._writers.append(call.event)
        with context.handle.lock:
            context.handle.in_flight.append((call.event, used, target._view))
        _forget_done(context.handle)
    return target


def _forget_done(handle) -> None:
    """Lets go of the operands of calls that are done."""
    with handle.lock:
        kept = handle.in_flight
        kept[:] = [entry for entry in kept if not entry[0].done()]


def queued(method):
    """A method of a context whose calls on tracked matrices are queued."""

    @functools.wraps(method)
    def call(self, *inputs, **words):
        if has_tracked(inputs, words):
            return queue(self, method.__name__, inputs, words)
        return method(self, *inputs, **words)

    return call


@contextlib.contextmanager
def compose():
    """Within it, np.dot on tracked matrices is queued too, as np.matmul and @ always are. Other
    functions of NumPy wait for their operands, and plain arrays mean what they always do."""
    token = _composing.set(True)
    try:
        yield
    finally:
        _composing.reset(token)
