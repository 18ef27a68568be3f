# SPDX-License-Identifier: BSD-3-Clause
"""Prints the paths of the parts of this installation as JSON."""

from __future__ import annotations

import json
import pathlib

from .. import __version__, _native

EXAMPLE = """example: fleetblas paths
         LD_PRELOAD=$(fleetblas paths | jq -r .preload) python script.py"""


def add_arguments(parser) -> None:
    del parser  # the command has no options


def first_folder(*folders: pathlib.Path) -> str | None:
    return next((str(folder) for folder in folders if folder.is_dir()), None)


def execute(arguments) -> int:
    del arguments
    core = _native.find_library("libfleetblas.so")
    package, tree = _native.PACKAGE, _native.REPOSITORY
    where = {
        "preload": str(_native.find_library("libfleetblas_preload.so")),
        "libblas": str(_native.find_library("fleetblas/libblas/libblas.so.3")),
        "core": str(core),
        "include": first_folder(
            package / "include", core.parent.parent / "include", tree / "include"
        ),
        "cmake": first_folder(package / "cmake", core.parent / "cmake" / "fleetblas"),
        "pkgconfig": first_folder(core.parent / "pkgconfig"),
        "version": __version__,
    }
    print(json.dumps(where, indent=1))
    return 0
