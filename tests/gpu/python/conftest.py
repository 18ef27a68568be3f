# SPDX-License-Identifier: BSD-3-Clause
"""The Python package on real GPUs: python -m pytest tests/gpu/python

Needs the package made ready (`make`) and a GPU; without one every test here is skipped.
"""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
KEPT = ("FLEETBLAS_LIB_DIR", "FLEETBLAS_CPU_BLAS", "FLEETBLAS_CACHE_DIR")
for name in [name for name in os.environ if name.startswith("FLEETBLAS_") and name not in KEPT]:
    del os.environ[name]
os.environ["FLEETBLAS_BACKEND"] = "cuda"
os.environ["FLEETBLAS_OFFLOAD"] = "always"
sys.path.insert(0, str(ROOT / "python"))
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")])
)

import fleetblas  # noqa: E402
import pytest  # noqa: E402


@pytest.fixture(scope="session")
def gpus():
    """The numbers of the GPUs that the default context has."""
    try:
        fleetblas.machine()
        devices = fleetblas.config()["devices"]
    except fleetblas.Error as error:
        pytest.skip(f"no usable GPU: {error}")
    if not devices:
        pytest.skip("no usable GPU")
    return devices
