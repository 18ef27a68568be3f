# SPDX-License-Identifier: BSD-3-Clause
"""The core's own factorizations while the preload library stands in front of the CPU's BLAS."""

import os
from pathlib import Path

import pytest
from conftest import HOST_DEVICES, SOURCE


def test_products_inside_the_cpus_lapack_are_left_to_it(program, preload, run):
    if "scipy_openblas64" not in os.environ.get("FLEETBLAS_CPU_BLAS", ""):
        pytest.skip(
            "only of this library it is known that its LAPACK calls products by their names"
        )
    core = Path(preload).parent / "libfleetblas.so"
    flags = [f"-I{SOURCE / 'include'}", str(core), f"-Wl,-rpath,{core.parent}", "-lm"]

    result = run(
        [program("inside_lapack.c", *flags)],
        preload=preload,
        **HOST_DEVICES,
        limit_s=60,
        FLEETBLAS_VERBOSE=1,
    )

    assert (result.returncode, result.stdout) == (0, "1\n"), result.stderr
    assert "fleet_dgeqrf(600,600,A,600)" in result.stderr
    assert "scipy_d" not in result.stderr
