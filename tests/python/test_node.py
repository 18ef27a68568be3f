# SPDX-License-Identifier: BSD-3-Clause
"""bench/node.sh: how it is called, and what it says of parts that fail."""

import os
import pathlib
import subprocess
import sys

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
