# SPDX-License-Identifier: BSD-3-Clause
"""Everything here runs on virtual devices, small; the settings of whoever runs it play no part."""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ("FLEETBLAS_LIB_DIR", "FLEETBLAS_CPU_BLAS")
for name in [name for name in os.environ if name.startswith("FLEETBLAS_") and name not in KEPT]:
    del os.environ[name]
# The machine is measured once for all tests.
CACHE = tempfile.TemporaryDirectory(prefix="fleetblas-tests-")
os.environ["FLEETBLAS_CACHE_DIR"] = CACHE.name
os.environ["FLEETBLAS_BACKEND"] = "host"
os.environ["FLEETBLAS_DEVICES"] = "2"
os.environ["FLEETBLAS_OFFLOAD"] = "always"
sys.path.insert(0, str(ROOT / "python"))
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")])
)
# Scripts may say `python`, and mean this one.
os.environ["PATH"] = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])

import pytest  # noqa: E402


@pytest.fixture
def cli(tmp_path):
    """Runs the command line in a folder of its own: cli("bench gemm --size 4"), or word by word.

    Keywords are extra environment variables.
    """

    def run(*words, timeout=120, **settings):
        if len(words) == 1:
            words = words[0].split()
        return subprocess.run(
            [sys.executable, "-m", "fleetblas", *map(str, words)],
            env={**os.environ, **settings},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run


@pytest.fixture
def main(tmp_path, monkeypatch, capsys):
    """The command line in this process: for what never gets as far as a product."""
    from fleetblas import cli

    def run(line):
        monkeypatch.chdir(tmp_path)
        try:
            status = cli.main(line.split())
        except SystemExit as end:
            status = end.code
        said = capsys.readouterr()
        return subprocess.CompletedProcess(line, status, said.out, said.err)

    return run


@pytest.fixture
def script(tmp_path):
    """Runs Python code in a process of its own."""

    def run(code, **settings):
        return subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **settings},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run
