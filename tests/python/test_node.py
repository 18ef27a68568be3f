# SPDX-License-Identifier: BSD-3-Clause
"""bench/node.sh: how it is called, and what it says of parts that fail."""

import os
import pathlib
import runpy
import subprocess
import sys
import time

import numpy as np

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench" / "node.sh"


def run(*arguments, **environment):
    return subprocess.run(
        [SCRIPT, *map(str, arguments)], env=os.environ | environment, capture_output=True, text=True
    )


def test_without_a_folder_it_says_how_it_is_called():
    done = run()
    assert done.returncode == 2
    assert "usage: bench/node.sh FOLDER" in done.stderr


def test_parts_that_fail_are_named_and_the_others_are_run(tmp_path):
    python = tmp_path / "python"
    # Instead of measuring: the part of squares fails, the others have done what they should.
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *gemm*256*) exit 1;; esac\nexec {sys.executable} -c ""'
    )
    python.chmod(0o755)
    done = run(tmp_path / "results", 10, SMALL="1", PYTHON=str(python))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "failed: squares squares-s"
    assert (tmp_path / "results" / "factors.txt").exists()


def test_only_the_parts_that_are_named_run(tmp_path):
    done = run(tmp_path, 10, SMALL="1", ONLY="start-p,factors", PYTHON="true")
    assert done.returncode == 0
    assert {path.name for path in tmp_path.glob("*.txt")} == {"start-p.txt", "factors.txt"}


def test_what_ends_it_ends_the_part_that_runs(tmp_path):
    pid = tmp_path / "pid"
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho $$ >"{pid}.new"; mv "{pid}.new" "{pid}"\nexec sleep 100\n')
    python.chmod(0o755)
    script = subprocess.Popen(
        [SCRIPT, tmp_path / "results", "50"],
        env=os.environ | {"ONLY": "squares", "PYTHON": str(python)},
        stdout=subprocess.DEVNULL,
    )
    for _ in range(500):
        if pid.exists():
            break
        time.sleep(0.02)
    script.terminate()
    assert script.wait(20) == 143
    for _ in range(500):
        if not pathlib.Path(f"/proc/{pid.read_text().strip()}").exists():
            return
        time.sleep(0.02)
    raise AssertionError("the part goes on")


def test_the_numpy_script_checks_its_product():
    script = SCRIPT.with_name("numpy_product.py")
    words = [sys.executable, script, "--size", "64", "--repeat", "3"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("a @ b, 64: first ")

    module = runpy.run_path(str(script))
    a, b = np.random.default_rng(3).random((2, 64, 64))
    c = a @ b
    assert module["error_of"](c, a, b) < module["TOLERANCE"]
    c[5, 7] *= 1 + 1e-9
    assert module["error_of"](c, a, b) > module["TOLERANCE"]
