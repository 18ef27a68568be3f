# SPDX-License-Identifier: BSD-3-Clause
"""The C API by ctypes: finds the library, declares its functions, turns statuses into exceptions.

Knows nothing of NumPy.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_void_p

from ._errors import (
    BadArgument,
    BadFile,
    BadOption,
    DeviceFailed,
    Error,
    NoMemory,
    Unreachable,
    Unsupported,
)
from ._routines import ROUTINES, Routine

PACKAGE = pathlib.Path(__file__).resolve().parent
REPOSITORY = PACKAGE.parent.parent  # of a source tree; meaningless once installed

PROGRESS = ctypes.CFUNCTYPE(c_int, c_void_p, c_double, c_char_p)


class CostStruct(ctypes.Structure):
    """fleet_cost."""

    _fields_ = [
        ("seconds", c_double),
        ("joules", c_double),
        ("joules_node", c_double),
        ("devices", c_int64),
    ]


OBJECTIVE = ctypes.CFUNCTYPE(c_double, c_void_p, POINTER(CostStruct))

HOST = -1
HOST_PAGEABLE = -2


class Missing:
    """Replaces a module that is not installed; raises once an attribute of it is used."""

    def __init__(self, name: str, advice: str):
        self._why = f"{name} is needed for this and not installed: {advice}"

    def __getattr__(self, name: str):
        raise ImportError(self._why)


_EXCEPTIONS = {
    1: BadArgument,
    2: NoMemory,
    3: DeviceFailed,
    4: Unreachable,
    5: BadOption,
    6: BadFile,
    7: Unsupported,
}


def library_folders() -> list[pathlib.Path]:
    """Where libfleetblas.so and libfleetblas_preload.so may be, best first."""
    chosen = os.environ.get("FLEETBLAS_LIB_DIR")
    folders = [pathlib.Path(chosen)] if chosen else []
    return [*folders, PACKAGE / "lib", REPOSITORY / "build" / "release" / "lib"]


def find_library(name: str) -> pathlib.Path:
    """The file `name` in the first folder that has it. Raises ImportError naming the folders."""
    folders = library_folders()
    for folder in folders:
        if (folder / name).is_file():
            return (folder / name).resolve()
    looked = ", ".join(str(folder) for folder in folders)
    raise ImportError(f"{name} not found in {looked} (set FLEETBLAS_LIB_DIR to its folder)")


def _name_wheel_blas() -> bool:
    """Points FLEETBLAS_CPU_BLAS at the OpenBLAS of a scipy-openblas wheel, unless it is set.

    True if it did.
    """
    if "FLEETBLAS_CPU_BLAS" in os.environ:
        return False
    for package in ("scipy_openblas64", "scipy_openblas32"):
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            continue
        for folder in (spec.submodule_search_locations or []) if spec else []:
            for file in sorted(pathlib.Path(folder, "lib").glob("libscipy_openblas*.so*")):
                os.environ["FLEETBLAS_CPU_BLAS"] = str(file)
                return True
    return False


def _scalar_type(letter: str, real: bool):
    """The ctypes type of a scalar: complex ones are passed by pointer, real ones by value."""
    if letter in "cz" and not real:
        return c_void_p
    return c_float if letter in "sc" else c_double


def _routine_types() -> dict[str, list]:
    """Argument types of "dgemm" and so on: context, flags, sizes, alpha, A, B, beta and C."""

    def arguments(routine: Routine, letter: str) -> list:
        matrix = [c_void_p, c_int64]
        alpha, beta = (_scalar_type(letter, name in routine.real) for name in ("alpha", "beta"))
        head = [c_void_p, *[c_int] * len(routine.flags), *[c_int64] * len(routine.sizes), alpha]
        factors = matrix * (2 if routine.has_b else 1)
        return [*head, *factors, *([] if routine.triangular else [beta]), *matrix]

    def queued(routine: Routine, letter: str) -> list:
        alpha, beta = (_scalar_type(letter, name in routine.real) for name in ("alpha", "beta"))
        factors = [c_void_p] * (2 if routine.has_b else 1)
        scaled = [] if routine.triangular else [beta]
        flags = [c_int] * len(routine.flags)
        return [c_void_p, *flags, alpha, *factors, *scaled, c_void_p, POINTER(c_void_p)]

    types = {}
    for routine in ROUTINES.values():
        for letter in routine.types:
            if letter in "sdcz":
                types[letter + routine.word] = arguments(routine, letter)
                types[f"{letter}{routine.word}_async"] = queued(routine, letter)
    return types


def _declare(library: ctypes.CDLL) -> None:
    """Argument and result types of every function of fleetblas.h."""
    context, text = c_void_p, POINTER(c_void_p)
    functions = {
        "context_create": [c_char_p, POINTER(c_void_p)],
        "context_destroy": [context],
        "alloc": [context, c_int, c_size_t, POINTER(c_void_p)],
        "free": [context, c_void_p],
        "copy": [context, c_void_p, c_void_p, c_size_t],
        "wait_stream": [context, c_int, c_void_p],
        "set_objective": [context, OBJECTIVE, c_void_p],
        "trim": [context],
        "host_register": [context, c_void_p, c_size_t],
        "host_unregister": [context, c_void_p],
        "plan_json": [context, c_char_p, text],
        "simulate_json": [context, c_char_p, text],
        "plan_program_json": [context, c_char_p, text],
        "simulate_program_json": [context, c_char_p, text],
        "matrix_create": [context, c_int, c_int64, c_int64, c_char_p, POINTER(c_void_p)],
        "matrix_data": [c_void_p, POINTER(c_void_p), POINTER(c_int64)],
        "matrix_scatter": [c_void_p, c_void_p, c_int64],
        "matrix_gather": [c_void_p, c_void_p, c_int64],
        "matrix_distribute": [c_void_p, c_char_p, POINTER(c_void_p)],
        "matrix_wrap": [context, c_int, c_int64, c_int64, c_void_p, c_int64, POINTER(c_void_p)],
        "matrix_read": [c_void_p, c_int64, c_int64, c_int64, c_int64],
        "matrix_read_async": [c_void_p, c_int64, c_int64, c_int64, c_int64, POINTER(c_void_p)],
        "matrix_wrote": [c_void_p, c_int64, c_int64, c_int64, c_int64],
        "matrix_destroy": [c_void_p],
        "matrix_after": [c_void_p, c_void_p],
        "set_priority": [context, c_int],
        "event_create": [POINTER(c_void_p)],
        "event_set": [c_void_p, c_int],
        "event_wait": [c_void_p],
        "event_query": [c_void_p, POINTER(c_int)],
        "event_destroy": [c_void_p],
        "bound_json": [context, c_char_p, text],
        "trace_json": [context, text],
        "machine_json": [context, text],
        "config_json": [context, text],
        "stats_json": [context, text],
        "doctor_json": [c_char_p, text],
        "probe_json": [c_char_p, c_char_p, c_char_p, c_double, PROGRESS, c_void_p, text],
    }
    functions.update(_routine_types())
    for letter in "sdcz":
        scalar = _scalar_type(letter, real=False)
        head = [context, c_int, c_int, c_int64, c_int64, c_int64, scalar]
        matrix, stride = [c_void_p, c_int64], [c_int64]
        functions[letter + "gemm_strided_batched"] = (
            head + (matrix + stride) * 2 + [scalar] + matrix + stride + [c_int64]
        )
    # Mixed types: one per matrix, and that of the arithmetic at the end.
    head = [context, c_int, c_int, c_int64, c_int64, c_int64, c_void_p]
    matrix = [c_void_p, c_int, c_int64]
    functions["gemm_ex"] = head + matrix * 2 + [c_void_p] + matrix + [c_int]
    functions["gemm_strided_batched_ex"] = (
        head + (matrix + stride) * 2 + [c_void_p] + matrix + stride + [c_int64, c_int]
    )
    for name, arguments in functions.items():
        function = getattr(library, "fleet_" + name)
        function.argtypes, function.restype = arguments, c_int
    library.fleet_version.restype = c_char_p
    library.fleet_message.restype = c_char_p
    library.fleet_status_string.argtypes = [c_int]
    library.fleet_status_string.restype = c_char_p
    library.fleet_free_text.argtypes, library.fleet_free_text.restype = [c_void_p], None


def _load() -> ctypes.CDLL:
    file = find_library("libfleetblas.so")
    try:
        library = ctypes.CDLL(str(file))
        _declare(library)
    except (OSError, AttributeError) as error:
        raise ImportError(f"{file} cannot be used: {error}") from None
    return library


named_blas = _name_wheel_blas()
library = _load()


def exception(status: int, reason: str) -> Error:
    """The exception of a status that is not FLEET_OK."""
    word = library.fleet_status_string(status).decode()
    return _EXCEPTIONS.get(status, Error)(reason or word, word)


def check(status: int) -> None:
    """Raises the exception of `status` with the library's one-line reason; returns for FLEET_OK."""
    if status != 0:
        raise exception(status, library.fleet_message().decode("utf-8", "replace"))


def text_of(function, *arguments) -> str:
    """Calls one of the fleet_*_json functions, and returns its text as Python values."""
    pointer = c_void_p()
    check(function(*arguments, ctypes.byref(pointer)))
    try:
        return ctypes.string_at(pointer).decode()
    finally:
        library.fleet_free_text(pointer)
