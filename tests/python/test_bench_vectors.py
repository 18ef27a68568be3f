# SPDX-License-Identifier: BSD-3-Clause
"""Levels 1 and 2 on the command line: plan, bench and trace of gemv, axpy and dot, and how their
results are verified."""

import json

import numpy as np
import pytest
from fleetblas import verify
from fleetblas._formulas import formula_of
from fleetblas._routines import EVERY, VECTORS
from fleetblas.commands import common


def results_of(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["results"]


# ---- bench --------------------------------------------------------------------------------------

BENCHED = [
    ("gemv --m 190 --n 70", "dgemv m=190 n=70 a@h x@h y@h"),
    ("gemv --m 190 --n 70 --transa t --beta 0 --place 0,h,1 --type s",
     "sgemv m=190 n=70 a@0 x@h y@1 transa=t beta=0"),
    ("gemv --m 70 --n 190 --transa c --alpha 1-2j --beta 3 --type z --place p,1,p",
     "zgemv m=70 n=190 a@p x@1 y@p transa=c"),
    ("axpy --n 9000 --alpha 2.3", "daxpy n=9000 x@h y@h"),
    ("axpy --size 9K --alpha 0.3j --type c --place 0,p", "caxpy n=9216 x@0 y@p"),
    ("dot --n 9000 --place 1,h", "ddot n=9000 x@1 y@h"),
    ("dot --n 9000 --type c --place p,p", "cdotu n=9000 x@p y@p"),
    ("dotc --n 9000", "zdotc n=9000 x@h y@h"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "problem"), BENCHED)
def test_bench_of_every_routine_with_vectors_passes(cli, words, problem):
    words = f"bench {words} --repeat 3 --warmup 1 --check --vs hostblas --json -"
    ours, cpu = results_of(cli(words))
    assert (ours["status"], cpu["status"]) == ("ok", "ok")
    assert (ours["where"], cpu["where"]) == ("devices", "cpu")
    assert ours["problem"] == problem
    assert ours["balance"] >= 0
    sums = ours["m"] * ours["n"] * ours["k"]
    assert sums == (190 * 70 if "gemv" in problem else ours["n"])
    flops = (8 if ours["type"] in "cz" else 2) * sums
    assert ours["tflops"] == pytest.approx(flops / ours["median_s"] / 1e12)
    assert 0 < ours["error"] < 4
    assert ours["bound_s"] > 0


def test_bench_of_several_has_a_table_rows_and_reasons(cli, tmp_path):
    words = (
        "bench gemv,axpy,dot --size 500,1K --vs cublasxt,cublas --repeat 1 --warmup 0 --csv x.csv"
    )
    done = cli(words)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()[1:] if "fleetblas" in line]
    shown = [f"d{word} {size}" for word in ("gemv", "axpy", "dot") for size in ("500", "1K")]
    assert [" ".join(line[1:3]) for line in lines] == shown
    assert [line[3] for line in lines] == ["h,h,h"] * 2 + ["h,h"] * 4
    assert all("GFLOPS" in line for line in lines)
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 1 + 3 * len(shown)
    for word in ("gemv", "axpy", "dot"):
        assert f"cublasxt has no {word}\n" in done.stderr
    assert done.stderr.count("cublas is timed with level 3 only\n") == len(shown)


def test_a_wrong_result_with_vectors_fails(script, tmp_path):
    done = script(
        "import sys\nfrom fleetblas import _vectors, cli\n"
        "_vectors.call = lambda *arguments: None\n"
        "words = 'bench gemv,axpy,dot,dotc --type z --size 200 --repeat 1 --json x.json'\n"
        "sys.exit(cli.main(words.split()))"
    )
    assert done.returncode == 1
    rows = json.loads((tmp_path / "x.json").read_text())["results"]
    assert [row["status"] for row in rows] == ["internal"] * 4


def test_bench_of_vectors_on_the_simulator_needs_no_memory(cli):
    words = "bench gemv,axpy,dot --size 256K --backend sim --machine h200x8 --json -"
    for row in results_of(cli(words)):
        assert row["measured"] == "simulated"
        assert row["median_s"] >= row["bound_s"] > 0


def test_a_report_draws_vectors_by_their_sizes(main, tmp_path):
    words = "bench gemv,dot --size 1K,2K --backend sim --machine h200x8 --json x.json"
    assert main(words).returncode == 0
    assert main("report x.json -o x.html").returncode == 0
    text = (tmp_path / "x.html").read_text()
    for words in ("DGEMV at h,h,h", "DDOT at h,h", "DGEMV 2K", "DDOT 2K"):
        assert words in text


# ---- plan and trace -----------------------------------------------------------------------------


@pytest.mark.parametrize("word", list(VECTORS))
def test_plans_with_vectors_count_their_flops_and_bytes(main, tmp_path, word):
    done = main(f"plan {word} --type z --size 16K --machine h200x4 --json plan.json")
    assert done.returncode == 0, done.stderr
    plan = json.loads((tmp_path / "plan.json").read_text())
    size = 2**14
    sums = size * size if word == "gemv" else size
    assert common.rate_text(8 * sums / plan["predicted_s"] / 1e12) in done.stdout
    assert plan["predicted_s"] >= plan["bound_s"] > 0
    into = sum(n for link, n in plan["bytes_by_link"].items() if link.startswith("host->"))
    assert into >= 16 * (sums + size)  # the matrix and a vector, or two vectors
    assert f"result {plan['cuts']['n']['tiles']} x" in done.stdout
    assert f"sums {plan['cuts']['k']['tiles']} x" in done.stdout


def test_trace_draws_a_dot(cli, tmp_path):
    done = cli("trace dot --size 100K --backend host -o page.html --json trace.json")
    assert done.returncode == 0, done.stderr
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert any(event["ph"] == "X" for event in events)
    assert (tmp_path / "page.html").stat().st_size > 10000


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("plan gemv --m 5", "give --size, or --m and --n (--n missing)"),
        ("plan dot --m 5", "give --size, or --n (--n missing)"),
        ("plan axpy --n 5 --k 4", "axpy has no k of its own"),
        ("plan axpy --n 5 --beta 2", "axpy has no --beta"),
        ("plan dot --n 5 --alpha 2", "dot has no --alpha"),
        ("plan dot --n 5 --transa t", "dot has no --transa"),
        ("plan dotc --n 5 --type d", "dotc takes types c, z, not d"),
        ("plan gemv --size 5 --type h", "gemv takes types s, d, c, z, not h"),
        ("plan gemv --size 5 --place h,0", "is not three words"),
        ("plan gemv --m 5 --n 0", "gemv has nothing to do"),
        ("plan axpy --n 5 --alpha 0", "axpy has nothing to do"),
        ("bench axpy --dataset regular --backend host", "no such problem"),
    ],
)
def test_words_that_mean_nothing_together(main, words, reason):
    done = main(words)
    assert done.returncode != 0
    assert reason in done.stderr


# ---- verification -------------------------------------------------------------------------------


def case_of(word, dtype, n=3000):
    """A right result in this precision; gemv with a matrix of n x 40, transposed."""
    g = np.random.default_rng(11)
    routine, flags = EVERY[word], {"transa": "t"} if word == "gemv" else {}

    def random(shape):
        values = g.uniform(-1, 1, shape)
        if np.dtype(dtype).kind == "c":
            values = values + 1j * g.uniform(-1, 1, shape)
        return values.astype(dtype)

    alpha, beta = dtype(0.7), dtype(-0.4 if word == "gemv" else 1)
    shapes = routine.shapes(n, 40 if word == "gemv" else n, 1, flags)
    found = {name: random(shape) for name, shape in shapes.items()}
    c0 = found["c0"] = random(shapes["c"])
    if word == "gemv":
        found["c"] = alpha * (found["a"].T @ found["b"]) + beta * c0
    elif word == "axpy":
        found["c"] = alpha * found["a"] + c0
    else:
        x = found["a"].conj() if word == "dotc" else found["a"]
        found["c"] = x.T @ found["b"]
    return verify.Case(formula_of(word, flags, alpha, beta), found)


def judged(case, everything=False):
    return verify.verify(case, np.random.default_rng(2), everything)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.parametrize("word", list(VECTORS))
def test_a_right_result_passes_and_a_missing_tile_or_element_does_not(word, dtype):
    case = case_of(word, dtype)
    c, a = case.matrices["c"], case.matrices["a"]
    assert judged(case).ok
    assert judged(case, everything=True).ok

    tile = slice(1000, 1100)
    kept = a[tile].copy()
    a[tile] = 0  # what a sum without this tile would be right for
    assert not judged(case).ok
    a[tile] = kept

    assert judged(case).ok
    off = 100 * (1 if word == "axpy" else len(a)) * np.finfo(dtype).eps
    for everything in (False, True):
        for at in (0, len(c) // 2, len(c) - 1):  # each one is looked at, not only the sample
            kept = c[at].copy()
            c[at] += off
            assert not judged(case, everything).ok
            c[at] = kept
