# SPDX-License-Identifier: BSD-3-Clause
"""The files and commands of docs/how-to/programs.md, as they are: right, and on the devices. A
program that is not installed is skipped."""

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
    "ScaLAPACK": ["gfortran", "mpirun"],
    "As the libblas.so.3 of a machine": ["octave-cli", "python3"],
}
# Exits with status 0 where the rest of what a section needs is there.
TRIES = {
    "Fortran and C": "echo end | gfortran -x f95 - -o tried -llapack -lblas",
    "NumPy of the distribution": "/usr/bin/python3 -c 'import numpy'",
    "scikit-learn": "python -c 'import sklearn'",
    "ScaLAPACK": "echo end | gfortran -x f95 - -o tried -lscalapack-openmpi -llapack -lblas",
}


def section(title):
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)[1]


def files_of(text):
    """name -> contents, of each block that names a file."""
    return dict(re.findall(r'^```\w+ title="(\w+\.\w+)"\n(.*?)^```$', text, re.M | re.S))


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

    def run_shell(text, python=None):
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
        )

    return run_shell


def test_every_section_is_run_or_says_why_not():
    titles = re.findall(r"^## (.*)$", PAGE, re.M)

    assert set(titles) - set(NEEDS) == {"Julia"}
    assert "neither tested nor supported" in " ".join(section("Julia").split())


@pytest.mark.parametrize("title", NEEDS)
def test_a_program_of_the_page_is_right_on_the_devices(title, shell, tmp_path):
    for program in NEEDS[title]:
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    python = environment_python("numpy2") if title == "scikit-learn" else None
    tried = shell(TRIES.get(title, "true"), python)
    if tried.returncode:
        pytest.skip(f"not installed: {tried.stderr.strip().splitlines()[-1]}")
    for name, text in {**files_of(PAGE), **files_of(section(title))}.items():
        (tmp_path / name).write_text(text)

    result = shell(command_of(section(title)), python)

    assert (result.returncode, result.stdout) == (0, "right\n"), result.stderr
    ranks = 2 if title == "ScaLAPACK" else 1
    calls = [int(n) for n in re.findall(r"^[a-z: ]* devices:? +(\d+)", result.stderr, re.M)]
    assert len(calls) == ranks, result.stderr
    assert min(calls) >= 1
