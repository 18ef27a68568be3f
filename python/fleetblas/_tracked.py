# SPDX-License-Identifier: BSD-3-Clause
"""Tracked matrices: calls on them are queued, and what reads them waits.

A call is the same as on arrays, but the library gets it as a queued one. Where NumPy would have to
copy an operand first (another type, strides that no BLAS call can express), the queued calls that
use it are waited for, and the call is done at once. Knows no routine but gemm.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from ctypes import c_void_p

import numpy as np

from . import _functions, _interop, _matrices, _types
from ._arrays import layout, scalar
from ._matrices import Block, Event, Matrix, block_of
from ._matrices import bring_home as bring_home
from ._native import BadArgument, check, library


class Queue:
    """In place of a context: its calls are queued. For one call."""

    def __init__(self, context, memories):
        self.context, self.memories = context, memories
        self.event: Event | None = None
        self.blocks: list[Block] = []

    @property
    def queue(self) -> Queue:
        return self  # a reference in the object would keep its memories until a collection

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
        self.blocks = [Block.of(word, *shape, *place) for shape, place in (*factors, result)]
        _matrices.note_operands(self.handle, self.blocks, self.memories)
        with contextlib.ExitStack() as stack:
            *inputs, output = (
                stack.enter_context(Matrix(self.handle, block)).pointer for block in self.blocks
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


def _seen(context, array):
    """The array as NumPy's, on the host or a device."""
    guests = _interop.Guests()
    view = guests.view(array)
    view = view if _interop.is_on_device(view) else np.asarray(view)
    if view.ndim != 2 or _types.of(view.dtype) is None:
        raise TypeError(f"tracked matrices have two dimensions and are of {_types.KNOWN}")
    guests.wait(context)
    return view


def readable(context, array):
    """A contiguous array to be copied, complete."""
    view = _seen(context, array.array if isinstance(array, Tracked) else array)
    return view if _interop.is_on_device(view) else np.ascontiguousarray(view)


class Tracked(np.lib.mixins.NDArrayOperatorsMixin):
    """A matrix whose calls are queued.

    Routines of its context, and the operator @, return at once on tracked operands and give tracked
    results; calls that follow each other are planned as one. What reads a matrix waits for it:
    np.asarray(x), x.array, printing, indexing, NumPy's functions. It raises the error of a call
    that failed, which names the call, until the matrix is written anew.

    Results and operands may be kept on the devices, so a program that changes the array itself
    says so: by x[...] = value, `with x.writing() as array`, or x.wrote(). x.array may be written
    until the next call is queued on x; np.asarray(x) is read-only. Arrays that are operands beside
    tracked ones must not be changed until the result was read.
    """

    def __init__(self, context, array):
        view = _seen(context, array)
        self._adopt(context, array, view, _matrices.claim(context.handle, view, array))

    @classmethod
    def _result(cls, context, array, is_own: bool, is_queued: bool) -> Tracked:
        """Of what a call computes; nobody else has got it if it is `own`."""
        result = object.__new__(cls)
        view = _seen(context, array)
        claim = _matrices.claim(context.handle, view, array, own=is_own, is_result=is_queued)
        result._adopt(context, array, view, claim)
        return result

    @classmethod
    def _cyclic(cls, context, source, shape, dtype, place) -> Tracked:
        """New memory that is block-cyclic over devices, with the numbers of `source`, if any."""
        if len(shape) != 2:
            raise TypeError(f"tracked matrices have two dimensions, not {len(shape)}")
        memory = _matrices.cyclic(context.handle, shape, dtype, place)
        made = cls._result(context, memory, is_own=True, is_queued=False)
        if source is not None:
            made.scatter(source)
        return made

    def _adopt(self, context, array, view, claim) -> None:
        self._context, self._view, self._claim = context, view, claim
        self._handle = context.handle  # as long as calls on the matrix may be queued
        self._owner = view if array is view or not hasattr(array, "shape") else array
        self._like = None if isinstance(self._owner, np.ndarray) else self._owner

    @property
    def _memory(self) -> _matrices.Memory:
        return self._claim.memory

    # ---- what does not wait

    @property
    def context(self):
        """The context that queues its calls."""
        return self._context

    @property
    def is_on_device(self) -> bool:
        """Whether its memory is that of a device."""
        return _interop.is_on_device(self._view)

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
    def size(self) -> int:
        return self._view.size

    @property
    def T(self) -> Tracked:
        """The transpose, in the same memory."""
        return self._part(self._view.T)

    def part(self, rows: slice, columns: slice) -> Tracked:
        """The tracked matrix of these rows and columns, in the same memory."""
        if not (isinstance(rows, slice) and isinstance(columns, slice)):
            raise TypeError("the rows and columns of a part are slices")
        return self._part(self._view[rows, columns])

    def _unread(self):
        """The array as it is in memory, where elements may be missing."""
        return self._view

    def done(self) -> bool:
        """Whether no queued call writes the matrix any more; never waits."""
        return all(event.done() for event in list(self._memory.writers))

    def after(self, event: Event) -> None:
        """Calls on the matrix from now on start after the event, and whatever reads it waits, too.
        If the event fails, so do they. With the event the matrix counts as written by others: what
        calls before have made of it is lost unless the array was read. Waits itself for a view that
        no call can be queued on."""
        block = block_of(self._view)
        if block is None:
            return event.wait()
        with Matrix(self._handle, block) as matrix:
            matrix.after(event)

    def _part(self, view) -> Tracked:
        part = object.__new__(Tracked)
        part._context, part._handle, part._claim = self._context, self._handle, self._claim
        part._view, part._owner, part._like = view, view, self._like
        return part

    # ---- what waits

    def distribute(self, place: str) -> None:
        """From now on its tiles belong to devices in turn ("c2x2:1024", "c"), and go there ahead of
        the calls that need them. For a whole matrix, no part."""
        if self._block() != self._memory.block:
            raise BadArgument("a part of a matrix cannot be distributed by itself", "bad_argument")
        if self.size:
            with Matrix(self._handle, self._block()) as matrix:
                matrix.distribute(place)

    def scatter(self, array) -> None:
        """Fills the matrix, a block-cyclic one straight on its devices; waits for that."""
        source = np.asarray(array, self.dtype, order=self._order())
        if source.shape != self.shape:
            raise ValueError(f"an array of {source.shape} does not fill a matrix of {self.shape}")
        if source.size:
            with Matrix(self._handle, self._block()) as matrix:
                matrix.scatter(block_of(source))
            self._memory.scattered(self._block())

    def gather(self) -> np.ndarray:
        """A new array of the elements: of a block-cyclic matrix straight from its devices. Raises
        the error of a call that wrote it."""
        array = np.empty(self.shape, self.dtype, self._order())
        if array.size:
            with Matrix(self._handle, self._block()) as matrix:
                matrix.gather(block_of(array))
        return array

    def _order(self) -> str:
        return "C" if self._block() is not None and layout(self._view)[0] else "F"

    def _block(self) -> _matrices.Block | None:
        if self._view.size and layout(self._view) is None:
            raise ValueError("no row and no column of the matrix lies in one piece")
        return block_of(self._view)

    def wait(self) -> None:
        """Waits for the queued calls that use the matrix, and brings it home. Raises the error of
        one that wrote it."""
        self._memory.read(self._handle, block_of(self._view))
        _matrices.forget_done(self._handle)

    @property
    def array(self):
        """The array, once the queued calls that use it are done. The program may write to it until
        the next call is queued on it, which takes it as changed; later it says wrote()."""
        self.wait()
        self._memory.lend(block_of(self._view))
        return self._owner

    @contextlib.contextmanager
    def writing(self):
        """with x.writing() as array: the array, complete, to be changed within the block."""
        self.wait()
        self._memory.own = False
        try:
            yield self._owner
        finally:
            self.wrote()

    def _open(self):
        """For a function of NumPy that writes to it; wrote() follows."""
        self.wait()
        return self._owner if self.is_on_device else self._view

    def _must_be_copied_for(self, out: Tracked) -> bool:
        """Whether it has to be copied, and can be, before out is written."""
        return not self.is_on_device and np.may_share_memory(self._view, out._view)

    def wrote(self) -> None:
        """To be called when the program has changed the array by itself. It takes back what a call
        that failed has left undefined. For some rows and columns: x.part(rows, columns).wrote()."""
        self._memory.wrote(self._handle, block_of(self._view))

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        self.wait()
        if self.is_on_device:
            raise TypeError("the matrix is on a device: use .array, or Context.copy")
        if copy:
            return np.array(self._view, dtype)
        if dtype is not None and np.dtype(dtype) != self.dtype:
            if copy is False:
                raise ValueError(f"a matrix of {self.dtype} is no array of {dtype} without a copy")
            return self._view.astype(dtype)
        self._memory.own = False
        return _read_only(self._view)

    def __dlpack__(self, **words):
        return self.array.__dlpack__(**words)

    def __dlpack_device__(self):
        return self._owner.__dlpack_device__()

    def __getitem__(self, index):
        return np.asarray(self)[index]

    def __setitem__(self, index, value) -> None:
        if self.is_on_device:
            raise TypeError("the matrix is on a device: use .array, or Context.copy and wrote()")
        value = np.asarray(value) if isinstance(value, Tracked) else value
        with self._part(_touched(self._view, index)).writing():
            self._view[index] = value

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self):
        return iter(np.asarray(self))

    def __repr__(self) -> str:
        if self.is_on_device:
            return f"Tracked({self.shape[0]} x {self.shape[1]} of {self.dtype} on a device)"
        return f"Tracked({np.asarray(self)!r})"

    # ---- NumPy

    def __array_ufunc__(self, ufunc, method, *inputs, **words):
        return _functions.call_ufunc(self, ufunc, method, inputs, words)

    def __array_function__(self, function, types, inputs, words):
        return _functions.call_function(self, function, inputs, words)


def _read_only(view):
    view = view.view()
    view.flags.writeable = False
    return view


def _touched(view, index):
    """The rows and columns that an index may reach; all if it is no plain one."""
    words = index if isinstance(index, tuple) else (index,)
    if len(words) > 2:
        return view
    ranges = []
    for word, edge in zip((*words, slice(None)), view.shape):
        if isinstance(word, slice):
            inside = range(edge)[word]
        elif isinstance(word, (int, np.integer)) and not isinstance(word, bool):
            inside = range(edge)[word : word + 1 or None]
        else:
            return view
        if len(inside) == 0:
            return view
        first, last = sorted((inside[0], inside[-1]))
        ranges.append(slice(first, last + 1))
    return view[tuple(ranges)]


# ---- queuing ------------------------------------------------------------------------------------

OPERANDS = ("a", "b", "c", "out")


def has_tracked(inputs, words) -> bool:
    return any(isinstance(x, Tracked) for x in (*inputs, *words.values()))


def _settled(value):
    """As an operand that may be copied into the result."""
    if isinstance(value, Tracked):
        value.wait()
        return _marked(value, _interop.Settled)
    if isinstance(value, (np.ndarray, list, tuple)) and not _interop.is_on_device(value):
        return np.asarray(value).view(_interop.Settled)
    return value


def _in_flight(value):
    return _marked(value, _interop.InFlight) if isinstance(value, Tracked) else _settled(value)


def _marked(tracked, kind):
    view = tracked._view.view() if tracked.is_on_device else tracked._view.view(kind)
    view.owner = tracked._like
    return view


def _plain(value):
    return value.array if isinstance(value, Tracked) else value


def _at_home(handle, value):
    """The value, read if another context tracks it."""
    if isinstance(value, Tracked) and value._handle is not handle:
        return value.array
    return value


def queue(context, name: str, inputs, words) -> Tracked:
    """The routine `name` of the context on operands of which some are tracked."""
    routine, handle = getattr(type(context), name), context.handle
    if name == "matmul" and len(inputs) > 2:
        *inputs, words["out"] = inputs
    out = words.get("out")
    if isinstance(out, Tracked) and out._handle is not handle:
        raise BadArgument("out is tracked by another context", "bad_argument")
    inputs = [_at_home(handle, x) for x in inputs]
    words = {key: _at_home(handle, x) for key, x in words.items()}
    operands = (*inputs, *words.values())
    call = Queue(context, [x._memory for x in operands if isinstance(x, Tracked)])

    def attempt(on, form, form_of_out):
        forms = {key: form_of_out if key == "out" else form for key in OPERANDS}
        given = {key: forms[key](x) if key in forms else x for key, x in words.items()}
        operands = [form(x) for x in inputs]
        return routine(on, *operands, **given), (operands, given)

    try:
        result, used = attempt(call, _in_flight, _in_flight)
    except _interop.Settle:
        try:
            result, used = attempt(call, _settled, _in_flight)
        except _interop.Settle:
            # Some operand has to be copied: what was computed of it is complete.
            result, used = attempt(context, _plain, _plain)
    is_queued = call.event is not None
    if isinstance(out, Tracked):
        target = out
    else:
        array = result if out is None else out
        array = array.view(np.ndarray) if isinstance(array, _interop.InFlight) else array
        target = Tracked._result(context, array, is_own=out is None, is_queued=is_queued)
    if is_queued:
        target._memory.unread = True
        target._memory.writers.append(call.event)
        kept = (used, target._view, target._owner)
        with handle.lock:
            handle.in_flight.append(_matrices.InFlight(call.event, call.blocks, kept))
    _matrices.forget_done(handle)
    return target


def queued(method):
    """A method of a context whose calls on tracked matrices are queued."""

    @functools.wraps(method)
    def call(self, *inputs, **words):
        if has_tracked(inputs, words):
            return queue(self, method.__name__, inputs, words)
        return method(self, *inputs, **words)

    return call
