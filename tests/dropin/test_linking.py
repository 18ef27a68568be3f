# SPDX-License-Identifier: BSD-3-Clause
"""The tests themselves: a program linked to a BLAS of this machine runs with that very file,
whichever library has its name there, or nobody."""

import os
import re

from conftest import compile_c


def loaded(program, run, **settings):
    """name -> file, of the libraries that a program needs, as the loader finds them."""
    lines = run([program], LD_TRACE_LOADED_OBJECTS=1, **settings).stdout
    return dict(re.findall(r"^\s*(\S+) => (\S+)", lines, re.M))


def test_a_program_runs_with_the_blas_it_was_linked_to(program, blas, run, tmp_path):
    dynamic = run(["readelf", "-dW", blas[0]]).stdout
    (name,) = re.findall(r"SONAME.*\[(.*)\]", dynamic)
    other = compile_c("small_blas.c", tmp_path / name, ["-shared", "-fPIC"])

    found = loaded(program("cblas_calls.c", *blas), run, LD_LIBRARY_PATH=other.parent)

    assert os.path.samefile(found[name], blas[0])
