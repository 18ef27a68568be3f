# SPDX-License-Identifier: BSD-3-Clause
"""bench --threshold: what counts as the size from which on devices pay, and its table and JSON."""

import json

from fleetblas.commands import bench_threshold


def rows(*times):
    """Of sizes 100, 200, ...: seconds of the CPU and of devices for one call, in one way."""
    return [
        {"size": 100 * (i + 1), "cpu_s": [cpu], "copied_s": [devices]}
        for i, (cpu, devices) in enumerate(times)
    ]


def test_the_threshold_is_the_first_size_after_the_last_at_which_the_cpu_is_faster():
    def of(*times):
        return bench_threshold.threshold(rows(*times), "copied", 0)

    assert of((1, 2), (2, 1), (3, 1)) == 200
    assert of((2, 1), (1, 2), (3, 1)) == 300
    assert of((2, 1), (3, 1)) == 100
    assert of((2, 1), (1, 1)) is None
    assert of() is None


def test_a_shape_that_was_not_measured_has_no_threshold():
    assert bench_threshold.size_text([], "copied", 0) == "-"
    assert bench_threshold.size_text(rows((1, 2)), "copied", 0) == "> 100"


def test_shapes_have_no_empty_edges():
    found = bench_threshold.problems({}, (16, 16, 1), [8, 32])
    assert found == [{"m": 2, "n": 2, "k": 32, "size": 32}]


def test_the_table_has_each_shape_and_number_of_calls(cli, tmp_path):
    file = tmp_path / "threshold.json"
    done = cli(
        f"bench gemm --threshold --backend host --devices 2 --size 64 --place h --json {file}"
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2 + len(bench_threshold.SHAPES) * len(bench_threshold.CALLS)
    found = json.loads(file.read_text(encoding="utf-8"))
    assert found["place"] == "h,h,h"
    for shape in found["shapes"]:
        (row,) = shape["rows"]
        for name in ("cpu_s", "copied_s", "resident_s"):
            assert len(row[name]) == len(bench_threshold.CALLS)
            assert all(seconds > 0 for seconds in row[name])
        assert row["copied_s"][1] == 8 * row["copied_s"][0]


def test_what_has_no_threshold_is_refused(cli):
    for words in ("syrk --threshold", "gemm --threshold --resident", "gemm --threshold --type h"):
        assert cli(f"bench {words} --size 64 --backend host").returncode == 2
