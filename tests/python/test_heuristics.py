# SPDX-License-Identifier: BSD-3-Clause
"""bench/heuristics.py: paper 5's two heuristics on the simulated DGX-1."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "bench" / "heuristics.py"
N = 16384


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    file = tmp_path_factory.mktemp("heuristics") / "result.json"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--as-shipped", "--sizes", str(N), "-o", str(file)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text())


def test_each_routine_loses_where_the_paper_says_it_does(result):
    assert result["measured"] == "simulated"
    losses = result["losses"]["as shipped"]
    for routine in ("DGEMM", "DSYR2K", "DTRSM"):
        assert -0.6 < losses[routine]["optimistic off"] < -0.05, routine
    # Choosing the source by its link matters to DSYR2K alone.
    for routine in ("DGEMM", "DTRSM"):
        of_links = losses[routine]["both off"] - losses[routine]["optimistic off"]
        assert abs(of_links) < 0.03, routine
    assert losses["DSYR2K"]["both off, slowest link"] < losses["DSYR2K"]["optimistic off"] - 0.1


def test_forwarding_reads_each_tile_once_from_the_host(result):
    at = {(row["routine"], row["n"], row["variant"]): row for row in result["results"]}
    assert at["DGEMM", N, "both on"]["host_bytes"] == 3 * 8 * N**2
    assert at["DGEMM", N, "optimistic off"]["host_bytes"] > 1.5 * 3 * 8 * N**2
    # A's triangle in tiles, and all of C.
    assert at["DTRSM", N, "both on"]["host_bytes"] < 1.6 * 8 * N**2
    for routine in ("DGEMM", "DSYR2K", "DTRSM"):
        assert at[routine, N, "all our rules"]["tflops"] > at[routine, N, "both on"]["tflops"]
    assert all(row["tflops"] < 8 * 7.8 for row in result["results"])


def test_how_sources_are_chosen_changes_no_link(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import fleetblas
    import heuristics

    machine = json.loads((ROOT / "machines" / "dgx1.json").read_text())
    node = heuristics.Node(machine, tmp_path)
    assert set(node.files) == {"as it is", "links", "lowest number", "shuffled", "slowest"}
    # GPU 0 has the data, and the other, over two NVLinks, one or PCIe, mostly waits for its copies.
    text = f"dgemm m={N} n={N} k=256 a@0 b@0 c@0"
    for devices, bytes_per_s in (("0,3", 48.2e9), ("0,1", 24.2e9), ("0,5", 8.6e9)):
        options = {"backend": "sim", "devices": devices, "rules": "caching,overlap", "tile": 2048}
        for by, file in node.files.items():
            with fleetblas.Context(machine=file, **options) as context:
                seconds = context.plan(text)["predicted_s"]
            # Half of C goes there and back.
            least_s = N * N / 2 * 8 / bytes_per_s
            assert least_s < seconds < 1.5 * least_s, (devices, by)
