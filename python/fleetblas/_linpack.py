# SPDX-License-Identifier: BSD-3-Clause
"""Linpack on clusters that are not there, by libfleetblas_linpack.so. Knows no paper."""

from __future__ import annotations

import ctypes
import json
import pathlib
from ctypes import POINTER, byref, c_char_p, c_int, c_void_p

from . import _native

FOLDERS = (_native.PACKAGE / "machines", _native.REPOSITORY / "machines")


def cluster(name: str) -> dict:
    """A cluster file that comes with the package."""
    for folder in FOLDERS:
        file = pathlib.Path(folder, "clusters", name + ".json")
        if file.is_file():
            return json.loads(file.read_text(encoding="utf-8"))
    raise ImportError(f"clusters/{name}.json not found beside the machines")


class Simulator:
    """The library, loaded once."""

    def __init__(self) -> None:
        file = _native.find_library("libfleetblas_linpack.so")
        library = ctypes.CDLL(str(file))
        self._simulate = library.fleet_linpack_simulate_json
        self._simulate.argtypes = [c_char_p, c_char_p, POINTER(c_void_p)]
        self._simulate.restype = c_int
        self._free = library.fleet_linpack_free_text
        self._free.argtypes, self._free.restype = [c_void_p], None

    def run(self, of_cluster: dict, **run) -> dict:
        """Seconds of a run (see linpack.h); what `run` leaves out is the cluster's own."""
        pointer = c_void_p()
        words = (json.dumps(part).encode() for part in (of_cluster, run))
        status = self._simulate(*words, byref(pointer))
        try:
            text = ctypes.string_at(pointer).decode("utf-8", "replace") if pointer else ""
        finally:
            self._free(pointer)
        if status != 0:
            raise _native.exception(status, text)
        return json.loads(text)
