# SPDX-License-Identifier: BSD-3-Clause
"""Which CPU BLAS the core takes under plain LD_PRELOAD, where no setting names one."""

import os
import shutil
from pathlib import Path

import pytest
from conftest import HOST_DEVICES

UNNAMED = {"FLEETBLAS_CPU_BLAS": "", "FLEETBLAS_LOG_LEVEL": 4}


def cpu_blas(result):
    """The library that the log names."""
    word = "fleetblas: CPU BLAS: "
    found = [line[len(word) :] for line in result.stderr.splitlines() if line.startswith(word)]
    assert len(found) == 1, result.stderr
    return found[0].split(" (")[0]


@pytest.fixture
def wheel():
    """The folder of an installed scipy_openblas64 wheel."""
    file = Path(os.environ.get("FLEETBLAS_CPU_BLAS", ""))
    if file.parent.parent.name != "scipy_openblas64":
        pytest.skip("FLEETBLAS_CPU_BLAS names no scipy_openblas64 wheel")
    return file.parent.parent


def test_a_wheel_beside_the_package_goes_before_the_reference(
    program, preload, netlib, wheel, run, tmp_path
):
    library = tmp_path / "site" / "fleetblas" / "lib"
    library.mkdir(parents=True)
    for file in ("libfleetblas.so", preload.name):
        shutil.copy(preload.parent / file, library)
    (tmp_path / "site" / wheel.name).symlink_to(wheel)
    calls = [program("threads.c", *netlib), 1, 2, 20]

    result = run(calls, preload=library / preload.name, **HOST_DEVICES, **UNNAMED)

    assert (result.returncode, result.stdout) == (0, "0\n")
    assert Path(cpu_blas(result)).parts[-3:-1] == ("scipy_openblas64", "lib")


def test_the_openblas_of_numpy_goes_before_the_reference(python, preload, run):
    multiply = "import numpy as np; a = np.ones((64, 64)); assert (a @ a == 64).all()"

    result = run([python, "-c", multiply], preload=preload, **HOST_DEVICES, **UNNAMED)

    assert result.returncode == 0, result.stderr
    assert "openblas" in cpu_blas(result)


def test_the_drop_in_is_never_taken_for_the_blas_behind_it(program, preload, netlib, run):
    calls = [program("threads.c", *netlib), 1, 2, 20]

    settings = {"FLEETBLAS_CPU_BLAS": preload, "FLEETBLAS_LOG_LEVEL": 2}
    result = run(calls, preload=preload, **HOST_DEVICES, **settings)

    assert (result.returncode, result.stdout) == (0, "0\n")
    assert f"cpu_blas: {preload} has no gemm under a known name" in result.stderr
