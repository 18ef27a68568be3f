# SPDX-License-Identifier: BSD-3-Clause
"""The files and commands of docs/tutorial/numpy.md, word for word and in order, in one folder."""

import os
import pathlib
import re
import subprocess
import sys

from test_cli_plan import LINES

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/tutorial/numpy.md").read_text(encoding="utf-8")
LIMIT_S = 120
SET_FOR_TESTS = ("FLEETBLAS_BACKEND", "FLEETBLAS_DEVICES", "FLEETBLAS_OFFLOAD")


def blocks(opening):
    """What stands between a line with this opening and the end of its block."""
    return re.findall(rf"^```{opening}\n(.*?)^```$", PAGE, re.M | re.S)


def calls_of(summary):
    """How many calls there were, where they ran and why; their times are of the machine."""
    rows = r"^fleetblas: (\d+) matrix products,|^  (devices|LAPACK) +(\d+) calls .*\d \w+  (.*)$"
    return sorted(re.findall(rows, summary, re.M))


def run_in(folder):
    """Runs shell commands as a reader does, who has set nothing."""
    (folder / "bin").mkdir()
    command = folder / "bin" / "fleetblas"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m fleetblas "$@"\n')
    command.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in SET_FOR_TESTS}
    environment["PATH"] = f"{folder / 'bin'}:{environment['PATH']}"

    def run(command):
        return subprocess.run(
            ["sh", "-e", "-c", command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    return run


def test_every_command_of_the_tutorial_works(tmp_path):
    for name, text in re.findall(r'^```python title="(\w+\.py)"\n(.*?)^```$', PAGE, re.M | re.S):
        (tmp_path / name).write_text(text, encoding="utf-8")
    run = run_in(tmp_path)

    done = [run(command) for command in blocks("sh")]

    assert [(each.returncode, each.stderr[-400:]) for each in done if each.returncode] == []
    run_it, verbose, plan, calls, _ = done
    assert [each.stdout for each in (run_it, verbose, calls)] == ["right\n"] * 3
    (shown,) = [block for block in blocks("text") if "matrix products" in block]
    assert calls_of(shown) == calls_of(run_it.stderr)
    assert len(calls_of(shown)) == 4
    assert re.search(r"^scipy_cblas_dsyrk64_|^cblas_dsyrk", verbose.stderr, re.M)
    assert (tmp_path / "gram.html").stat().st_size > 10_000
    # The page shows some lines of the plan. The bound depends on the machine file only, the rest on
    # what the planner has learned since.
    (shown,) = [block.splitlines() for block in blocks("text") if "workers" in block]
    printed = plan.stdout.splitlines()
    names = [line[:15] for line in printed]
    assert [line for line in shown if line[:15] not in names] == []
    assert next(line for line in shown if line.startswith("  bound")) in printed
    for line in LINES:
        pattern = re.compile(rf"^  {line}", re.M)
        assert pattern.findall("\n".join(shown)) == pattern.findall(plan.stdout)
