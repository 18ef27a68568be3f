# SPDX-License-Identifier: BSD-3-Clause
"""Memory that queued calls use: what they have written and nobody has read yet, and what the
program may have changed.

Results of queued calls may stay on the devices until they are read, and so may copies of operands.
So the library is told of every change that it does not make: fleet_matrix_wrote. Knows no calls.
"""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from ctypes import c_int, c_void_p
from typing import NamedTuple

import numpy as np

from . import _types
from ._arrays import layout
from ._native import Error, check, library

CODES = {word: ord(word) for word in "sdcz"}
ITEM_BYTES = {"s": 4, "d": 8, "c": 8, "z": 16}


class Block(NamedTuple):
    """A matrix as the library sees it, column-major; `end` is the address behind it."""

    word: str
    rows: int
    cols: int
    address: int
    leading: int
    end: int

    @classmethod
    def of(cls, word, rows, cols, address, leading) -> Block:
        elements = (cols - 1) * leading + rows if rows and cols else 0
        return cls(word, rows, cols, address, leading, address + elements * ITEM_BYTES[word])

    def overlaps(self, other) -> bool:
        return self.address < other.end and other.address < self.end

    def holds(self, other) -> bool:
        return self.address <= other.address and other.end <= self.end


def block_of(view) -> Block | None:
    """The block of a matrix, or the stretch of memory that it lies in if no BLAS call can express
    it; None if no queued call can use any of it."""
    element = _types.of(view.dtype)
    if element is None or element.word not in CODES or not view.size:
        return None
    found = layout(view)
    if found is not None:
        transposed, leading = found
        rows, cols = view.shape[::-1] if transposed else view.shape
        return Block.of(element.word, rows, cols, view.ctypes.data, leading)
    if not (view.flags.aligned and view.dtype.isnative):
        return None
    reach = [(edge - 1) * step for edge, step in zip(view.shape, view.strides)]
    before = -sum(step for step in reach if step < 0)
    elements = (sum(map(abs, reach)) + view.itemsize) // view.itemsize
    return Block.of(element.word, elements, 1, view.ctypes.data - before, elements)


class Matrix:
    """A fleet_matrix of a block."""

    def __init__(self, handle, block: Block):
        self.pointer = c_void_p()
        self._shape = block.rows, block.cols
        check(
            library.fleet_matrix_wrap(
                handle.pointer,
                CODES[block.word],
                *self._shape,
                block.address,
                block.leading,
                ctypes.byref(self.pointer),
            )
        )

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> None:
        self.destroy()

    def destroy(self) -> None:
        library.fleet_matrix_destroy(self.pointer)

    def read(self) -> None:
        check(library.fleet_matrix_read(self.pointer, 0, 0, *self._shape))

    def read_async(self) -> None:
        check(library.fleet_matrix_read_async(self.pointer, 0, 0, *self._shape, None))

    def wrote(self) -> None:
        check(library.fleet_matrix_wrote(self.pointer, 0, 0, *self._shape))

    def after(self, event: Event) -> None:
        check(library.fleet_matrix_after(self.pointer, event._pointer))

    def scatter(self, source: Block) -> None:
        check(library.fleet_matrix_scatter(self.pointer, source.address, source.leading))

    def gather(self, to: Block) -> None:
        check(library.fleet_matrix_gather(self.pointer, to.address, to.leading))

    def distribute(self, place: str) -> None:
        check(library.fleet_matrix_distribute(self.pointer, place.encode(), None))


def _destroy_matrix(handle, address: int) -> None:
    library.fleet_matrix_destroy(address)  # the handle has lived until now


def cyclic(handle, shape, dtype, place: str) -> np.ndarray:
    """New memory, column by column, whose tiles lie on devices; nothing of it is touched here."""
    element = _types.of(np.dtype(dtype))
    if element is None or element.word not in CODES:
        raise TypeError(f"block-cyclic matrices are of floats and complex numbers, not {dtype}")
    pointer, data = c_void_p(), c_void_p()
    code = CODES[element.word]
    check(
        library.fleet_matrix_create(
            handle.pointer, code, *shape, place.encode(), ctypes.byref(pointer)
        )
    )
    check(library.fleet_matrix_data(pointer, ctypes.byref(data), None))
    count = shape[0] * shape[1] * ITEM_BYTES[element.word]
    memory = (ctypes.c_char * count).from_address(data.value) if count else (ctypes.c_char * 0)()
    # Views keep `memory` alive through their base. Not freed at exit, since views may be in use.
    weakref.finalize(memory, _destroy_matrix, handle, pointer.value).atexit = False
    return np.ndarray(shape, dtype, buffer=memory, order="F")


def read(handle, block: Block | None) -> None:
    """Waits for the queued calls that use the block, and brings it home."""
    if block is not None:
        with Matrix(handle, block) as matrix:
            matrix.read()


def wrote(handle, block: Block | None) -> None:
    """What is at home counts from now on."""
    if block is not None:
        with Matrix(handle, block) as matrix:
            matrix.wrote()


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
        """Waits until it is done (a call: until it is computed), and raises its error, which names
        the call."""
        check(library.fleet_event_wait(self._pointer))

    def done(self) -> bool:
        """Whether it is done or has failed; never waits."""
        done = c_int()
        check(library.fleet_event_query(self._pointer, ctypes.byref(done)))
        return bool(done.value)


class Memory:
    """The memory of a tracked matrix and of its parts.

    view, kept  all of it as an array, and what keeps it alive
    writers     the queued calls that wrote to it since it was read
    unread      whether some of their results may still be on devices only
    lent        blocks that the program has got as arrays, which it may write
    own         whether the program has never got an array of it
    root        as long as it lives, tiles of the memory may stay on devices between calls
    """

    def __init__(self, handle, view, kept, own: bool):
        self.kept, self.own = (view, kept), own
        self.block = block_of(view)
        self.root = None if self.block is None else Matrix(handle, self.block)
        self.writers: list[Event] = []
        self.lent: list[Block] = []
        self.unread = False
        self.claim = lambda: None  # a weak reference to what the tracked matrices hold

    def overlaps(self, block: Block) -> bool:
        return self.block is not None and self.block.overlaps(block)

    def holds(self, block: Block) -> bool:
        return self.block is not None and self.block.holds(block)

    def read(self, handle, block: Block | None) -> None:
        """Raises the error of a queued call that wrote to the memory, until wrote() undoes it."""
        if block is not None and not all(event.done() for event in list(self.writers)):
            with Matrix(handle, block) as matrix:
                matrix.read_async()  # so that it comes home while it is computed
        for event in list(self.writers):
            event.wait()
            with contextlib.suppress(ValueError):  # another thread was first
                self.writers.remove(event)
        read(handle, block)
        if block == self.block and not self.writers:
            self.unread = False

    def wrote(self, handle, block: Block | None) -> None:
        if block == self.block:
            self.writers.clear()
            self.unread = False
        wrote(handle, block)

    def scattered(self, block: Block) -> None:
        """The library has written the block, and its elements may be on devices only."""
        if block == self.block:
            self.writers.clear()
        self.unread = True

    def lend(self, block: Block | None) -> None:
        """The program gets an array of the block, and may write to it until the next call."""
        self.own = False
        if block is not None and block not in self.lent:
            self.lent.append(block)

    def let_go(self) -> None:
        """Its tiles leave the devices."""
        root, self.root = self.root, None
        if root is not None:
            root.destroy()

    def take_back(self, handle) -> None:
        """To be called before a call is queued on the memory."""
        while self.lent:
            wrote(handle, self.lent.pop())


class Claim:
    """What the tracked matrices of one memory share. Once the last of them is gone, nobody will
    read by them what was not read yet."""

    def __init__(self, handle, memory: Memory):
        self.memory = memory
        memory.claim = weakref.ref(self)
        weakref.finalize(self, _abandon, handle.memories, handle.abandoned, memory).atexit = False


def _abandon(memories: dict, abandoned: list, memory: Memory) -> None:
    # May be called at any moment, also inside a call of the library: calls none.
    if not memory.unread and memory.claim() is None:
        memories.pop(id(memory), None)
        abandoned.append(memory)


def claim(handle, view, kept=None, own: bool = False, is_result: bool = False) -> Claim:
    """The claim on the memory of a view. is_result: a queued call writes it; else what is at home
    counts, unless a queued call has written it."""
    block = block_of(view)
    known = [] if block is None else _overlapping(handle, block)
    if not is_result and not any(memory.unread for memory in known):
        wrote(handle, block)
    for memory in known:
        if memory.holds(block):
            return memory.claim() or Claim(handle, memory)
    memory = Memory(handle, view, kept, own)
    handle.memories[id(memory)] = memory
    return Claim(handle, memory)


def _overlapping(handle, block: Block) -> list[Memory]:
    return [memory for memory in list(handle.memories.values()) if memory.overlaps(block)]


# ---- around a queued call -----------------------------------------------------------------------


class InFlight(NamedTuple):
    """A queued call, its operands, and what has to live until it is done."""

    event: Event
    blocks: list[Block]
    kept: object


def note_operands(handle, blocks, memories) -> None:
    """Before a call is queued: the program may have changed what it was lent, and plain arrays.
    memories: of tracked operands."""
    for memory in memories:
        memory.take_back(handle)
    for block in blocks:
        if any(memory.holds(block) for memory in memories) or _is_in_use(handle, block):
            continue
        if not any(memory.unread for memory in _overlapping(handle, block)):
            wrote(handle, block)


def _is_in_use(handle, block: Block) -> bool:
    with handle.lock:
        calls = list(handle.in_flight)
    return any(other.overlaps(block) for call in calls for other in call.blocks)


def forget_done(handle) -> None:
    """Lets go of the operands of calls that are done, and of results that nobody can read."""
    with handle.lock:
        calls = handle.in_flight
        # They are done in their order.
        count = next((i for i, call in enumerate(calls) if not call.event.done()), len(calls))
        del calls[:count]
        if calls and not count:
            return  # as at the last time
    for memory in list(handle.memories.values()):
        if memory.claim() is not None:
            continue
        if memory.block is not None and _is_in_use(handle, memory.block):
            continue
        if memory.unread and not memory.own:
            continue  # the program has the array, and may track it again
        handle.memories.pop(id(memory), None)
        if memory.unread:
            wrote(handle, memory.block)  # not to be brought home when the memory is another's
        memory.let_go()
    while handle.abandoned:
        handle.abandoned.pop().let_go()


def bring_home(handle) -> None:
    """Reads what queued calls have written to the program's own arrays."""
    for memory in list(handle.memories.values()):
        if memory.unread and not memory.own:
            with contextlib.suppress(Error):  # raised again when a tracked matrix is read
                read(handle, memory.block)
                memory.unread = False
