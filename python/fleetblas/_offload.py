# SPDX-License-Identifier: BSD-3-Clause
"""offload(): applies the drop-in to a process that has loaded its libraries, and undoes it."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import sys

from . import _array_pool, _native


@functools.cache
def _preload() -> ctypes.CDLL:
    """The preload library; never unloaded, since patched code calls it."""
    file = _native.find_library("libfleetblas_preload.so")
    try:
        # PyDLL keeps the interpreter's lock, so no other Python thread sees half a patch.
        library = ctypes.PyDLL(str(file), mode=ctypes.RTLD_LOCAL)
        library.fleetblas_preload_patch.restype = ctypes.c_int
        library.fleetblas_preload_unpatch.restype = ctypes.c_int
    except (OSError, AttributeError) as error:
        raise ImportError(f"{file} cannot be used: {error}") from None
    return library


@functools.cache
def _hook():
    """The module that changes NumPy and SciPy, of which a process has one."""
    name = "_fleetblas_hook"
    if name not in sys.modules:
        file = _native.PACKAGE / "hooks" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules.setdefault(name, module)
    return sys.modules[name]


def _changed(function) -> int:
    slots = function()
    if slots < 0:
        raise _native.Error(f"patching the loaded libraries failed: errno {-slots}", "internal")
    return slots


@contextlib.contextmanager
def offload():
    """Runs the matrix products of NumPy, SciPy and every other loaded library through FleetBLAS,
    and what NumPy and SciPy do with LAPACK: solve, inv, cholesky, qr and the like.

        with fleetblas.offload():
            c = a @ b

    It applies to the whole process and all threads until the block ends, also by an exception.
    Blocks may nest. Libraries imported inside the block are not affected. The value is the number
    of patched entries that call FleetBLAS.

    NumPy's arrays of 64 MB and more that are made inside the block come from a pool of memory,
    which stays pinned once devices have used it. That is a matter of the context of Python that the
    block is in: threads that are started in it have a new context, and their arrays come from
    malloc unless they open a block of their own.
    """
    library, hook = _preload(), _hook()
    slots = _changed(library.fleetblas_preload_patch)
    try:
        hook.enter()
        handler = _array_pool.enter(library)
        try:
            yield slots
        finally:
            _array_pool.leave(handler)
            hook.leave()
    finally:
        _changed(library.fleetblas_preload_unpatch)
