# SPDX-License-Identifier: BSD-3-Clause
"""The files and commands of docs/how-to/programs.md, as they are: right, and on the devices. A
program that is not installed is skipped."""

import array
import os
import re
import shutil
import sys

import pytest
from conftest import SOURCE, environment_python

PAGE = (SOURCE / "docs/how-to/programs.md").read_text()
LIMIT_S = 120
# section -> what it needs on the path, and which calls must be among those that the devices did
NEEDS = {
    "R": ["Rscript"],
    "Octave": ["octave-cli"],
    "Fortran and C": ["gfortran"],
    "NumPy of the distribution": ["/usr/bin/python3"],
    "scikit-learn": [],
    "MUMPS": ["gcc"],
    "ScaLAPACK": ["gfortran", "mpirun"],
    "As the libblas.so.3 of a machine": ["octave-cli", "python3"],
}
# Exits with status 0 where the rest of what a section needs is there.
TRIES = {
    "Fortran and C": "echo end | gfortran -x f95 - -o tried -llapack -lblas",
    "NumPy of the distribution": "/usr/bin/python3 -c 'import numpy'",
    "scikit-learn": "python -c 'import sklearn'",
    "MUMPS": "echo '#include <dmumps_c.h>\nint main(void) { return 0; }' |"
    " gcc -x c - -o tried -I/usr/include/mumps_seq -ldmumps_seq",
    "ScaLAPACK": "echo end | gfortran -x f95 - -o tried -lscalapack-openmpi -llapack -lblas",
}


def section(title):
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)[1]


def files_of(text):
    """name -> contents, of each block that names a file."""
    return dict(re.findall(r'^```\w+ title="(\w+\.\w+)"\n(.*?)^```$', text, re.M | re.S))


def examples_of(text):
    """The programs of examples/ that a section names."""
    return [SOURCE / path for path in re.findall(r"examples/programs/\w+\.\w+", text)]


def command_of(text):
    """The block of shell commands that is run as it is."""
    return re.search(r"^```sh.*?\n(.*?)^```$", text, re.M | re.S)[1]


@pytest.fixture
def shell(preload, run, tmp_path):
    """Runs shell commands in a folder of their own, where `fleetblas` and `python` are ours."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "fleetblas"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m fleetblas "$@"\n')
    command.chmod(0o755)

    def run_shell(text, python=None, **settings):
        folders = [tmp_path / "bin", os.environ["PATH"]]
        if python:
            folders.insert(1, python.parent)
        return run(
            ["sh", "-e", "-c", text],
            cwd=tmp_path,
            limit_s=LIMIT_S,
            PATH=":".join(map(str, folders)),
            PYTHONPATH=f"{SOURCE / 'python'}",
            # Of a machine whose users are all root, as those of continuous integration are.
            OMPI_ALLOW_RUN_AS_ROOT=1,
            OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1,
            **settings,
        )

    return run_shell


def installed(title, shell):
    """The interpreter of a section, None for the usual one. Skips if something is missing."""
    for program in NEEDS[title]:
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    python = environment_python("numpy2") if title == "scikit-learn" else None
    tried = shell(TRIES.get(title, "true"), python)
    if tried.returncode:
        lines = [line for line in tried.stderr.splitlines() if "rror" in line or "found" in line]
        pytest.skip(f"not installed: {(lines or tried.stderr.splitlines())[-1]}")
    return python


def calls_on_devices(result):
    return [int(n) for n in re.findall(r"^[a-z: ]* devices:? +(\d+)", result.stderr, re.M)]


def test_every_section_is_run_or_says_why_not():
    titles = re.findall(r"^## (.*)$", PAGE, re.M)

    assert set(titles) - set(NEEDS) == {"Julia"}
    assert "neither tested nor supported" in " ".join(section("Julia").split())


@pytest.mark.parametrize("title", NEEDS)
def test_a_program_of_the_page_is_right_on_the_devices(title, shell, tmp_path):
    python = installed(title, shell)
    for name, text in {**files_of(PAGE), **files_of(section(title))}.items():
        (tmp_path / name).write_text(text)
    for example in examples_of(section(title)):
        shutil.copy(example, tmp_path)

    result = shell(command_of(section(title)), python)

    assert (result.returncode, result.stdout) == (0, "right\n"), result.stderr
    ranks = 2 if title == "ScaLAPACK" else 1
    calls = calls_on_devices(result)
    assert len(calls) == ranks, result.stderr
    assert min(calls) >= 1


# section -> a command that writes all that it has found to a file, as doubles
FOUND = {"MUMPS": "./poisson 14 found", "scikit-learn": "python fits.py 500 60 found"}


@pytest.mark.parametrize("title", FOUND)
def test_what_changes_in_the_same_memory_gives_what_it_gives_without_us(title, shell, tmp_path):
    """Programs of three rounds with other numbers each: nothing of an earlier round is used."""
    python = installed(title, shell)
    for example in examples_of(section(title)):
        shutil.copy(example, tmp_path)
    settings = {"FLEETBLAS_BACKEND": "host", "FLEETBLAS_DEVICES": 2, "FLEETBLAS_MIN_FLOPS": 100000}
    build = command_of(section(title)).splitlines()[0] if title == "MUMPS" else "true"

    found = []
    for run in ("", "fleetblas run -- "):
        result = shell(f"{build} && {run}{FOUND[title]}", python, **settings)
        assert (result.returncode, result.stdout) == (0, "right\n"), result.stderr
        found.append(array.array("d", (tmp_path / "found").read_bytes()))

    assert calls_on_devices(result)[0] >= 3, result.stderr
    without, beside = found
    assert len(without) == len(beside) > 1000
    largest = max(map(abs, without))
    assert max(abs(x - y) for x, y in zip(without, beside)) < 1e-12 * largest
