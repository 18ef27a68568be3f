# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark's peers: found, measured, verified, at their best settings; and what is said when
one is missing, fails or is wrong. NVIDIA's libraries are stood in for by fake_cuda.c."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(__file__).with_name("fake_cuda.c")
ALL = "cublasxt,cublas,nvblas,hostblas"
QUICK = "--repeat 3 --warmup 0 --json -"


@pytest.fixture(scope="session")
def fakes(tmp_path_factory):
    """Folders with the libraries as a driver and as wheels of PyPI have them."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    root = tmp_path_factory.mktemp("fakes")
    files = {
        "FAKE_DRIVER": root / "driver" / "libcuda.so.1",
        "FAKE_CUBLAS": root / "wheels" / "nvidia" / "cublas" / "lib" / "libcublas.so.13",
        "FAKE_NVBLAS": root / "wheels" / "nvidia" / "cublas" / "lib" / "libnvblas.so.13",
        "FAKE_NVML": root / "nvml" / "libnvidia-ml.so.1",
        # The CPU BLAS with plain names that NVBLAS insists on.
        "FAKE_BLAS": root / "driver" / "libopenblas.so.0",
    }
    for define, file in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        words = [compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-D{define}"]
        subprocess.run([*words, str(SOURCE), "-o", str(file)], check=True, timeout=120)
    return {"root": root, **files}


@pytest.fixture
def bench(cli, fakes):
    """bench("--size 64", FAKE_WRONG="1"): exit status, rows by engine, and what went to stderr."""

    def run(words, of="gemm", **settings):
        paths = [str(fakes["root"] / "wheels"), os.environ["PYTHONPATH"]]
        settings = {
            "LD_LIBRARY_PATH": str(fakes["FAKE_DRIVER"].parent),
            "PYTHONPATH": os.pathsep.join(paths),
            **settings,
        }
        done = cli(*f"bench {of} {words} {QUICK}".split(), **settings)
        assert "Traceback" not in done.stderr
        return done, json.loads(done.stdout)["results"]

    return run


def by_engine(rows):
    return {row["engine"]: row for row in rows}


def test_every_peer_is_measured_verified_and_at_its_best(bench):
    done, rows = bench(f"--m 150 --n 90 --k 70 --place p,p,p --transa t --vs {ALL} --check")

    assert done.returncode == 0, done.stderr
    assert [row["engine"] for row in rows] == ["fleetblas", *ALL.split(",")]
    for row in rows:
        assert row["status"] == "ok", row
        assert row["beside"] == "p,p,p"
        assert 0 < row["error"] < 4
        assert 0 < row["min_s"] <= row["median_s"] <= row["p95_s"]
        assert row["first_s"] > 0
        assert row["tflops"] == pytest.approx(2 * 150 * 90 * 70 / row["median_s"] / 1e12)
    rows = by_engine(rows)
    assert rows["cublasxt"]["tile"] == 1024
    assert rows["cublasxt"]["pinning"] is True
    assert rows["cublasxt"]["devices"] == 2
    assert rows["cublasxt"]["library_version"] == "13.12.11"
    assert rows["cublasxt"]["bound_s"] == rows["fleetblas"]["bound_s"] > 0
    assert (rows["nvblas"]["tile"], rows["nvblas"]["autopin"]) == (2048, True)
    # One GPU with its operands in place is another problem: no bound, and the row says where.
    assert rows["cublas"]["place"] == "0,0,0"
    assert rows["cublas"]["devices"] == 1
    assert rows["cublas"]["bound_s"] is None
    assert "one GPU (0)" in rows["cublas"]["reason"]


@pytest.mark.parametrize(
    "words",
    [
        *(f"{word} --m 60 --n 45 --type {t} {flags}"
          for word, types in (("symm", "dz"), ("hemm", "z")) for t in types
          for flags in ("--side l --uplo l", "--side r --uplo u --alpha -2 --beta 0.5")),
        *(f"{word} --n 50 --k 30 --type {t} --uplo {uplo} --transa {op} --beta 0.5"
          for word, t, op in (("syrk", "d", "t"), ("syrk", "z", "n"), ("herk", "z", "c"),
                              ("syr2k", "z", "t"), ("her2k", "z", "c"), ("her2k", "z", "n"))
          for uplo in "lu"),
        *(f"{word} --m 60 --n 45 --type {t} {flags}"
          for word in ("trmm", "trsm") for t in "dz"
          for flags in ("--side l --uplo l --transa n --diag n",
                        "--side r --uplo u --transa c --diag u --alpha 0.5",
                        "--side r --uplo l --transa t --diag n")),
    ],
)  # fmt: skip
def test_peers_do_the_same_routine_with_the_same_flags(bench, words):
    done, rows = bench(f"{words} --vs cublasxt,cublas,hostblas --check --no-energy", of="")
    assert done.returncode == 0, done.stderr
    assert [row["engine"] for row in rows] == ["fleetblas", "cublasxt", "cublas", "hostblas"]
    for row in rows:
        assert row["status"] == "ok", row
        assert 0 < row["error"] < 4
    rows = by_engine(rows)
    assert rows["cublas"]["place"] == ",".join("0" * len(rows["cublas"]["place"].split(",")))
    assert rows["cublasxt"]["tflops"] == pytest.approx(
        rows["fleetblas"]["tflops"] * rows["fleetblas"]["median_s"] / rows["cublasxt"]["median_s"]
    )


def test_what_a_peer_has_not_is_said(bench):
    done, rows = bench("gemmt --size 64 --vs cublasxt,cublas,nvblas --no-energy", of="")
    assert done.returncode == 0
    rows = by_engine(rows)
    assert rows.pop("fleetblas")["status"] == "ok"
    for name, row in rows.items():
        assert (row["status"], row["message"]) == ("unsupported", f"{name} has no gemmt")


def test_block_sizes_that_do_not_fit_are_passed_over(bench):
    words = "--m 40 --n 40 --k 4200 --vs cublasxt"
    _, rows = bench(words, FAKE_NO_MEMORY_BLOCK="1024")
    row = by_engine(rows)["cublasxt"]
    assert (row["status"], row["tile"], row["pinning"]) == ("ok", 2048, False)


def test_a_peer_out_of_memory_has_a_row_and_fails_nothing(bench):
    done, rows = bench("--size 64 --vs cublasxt,hostblas", FAKE_NO_MEMORY_BLOCK="0")
    assert done.returncode == 0
    rows = by_engine(rows)
    assert rows["cublasxt"]["status"] == "no_memory"
    assert rows["cublasxt"]["median_s"] is None
    assert "cublasXtDgemm" in rows["cublasxt"]["message"]
    assert rows["fleetblas"]["status"] == rows["hostblas"]["status"] == "ok"


def test_a_wrong_result_of_a_peer_fails_the_command(bench):
    done, rows = bench("--size 64 --place p,p,p --vs cublasxt,cublas,nvblas", FAKE_WRONG="1")
    assert done.returncode == 1
    rows = by_engine(rows)
    assert rows.pop("fleetblas")["status"] == "ok"
    for row in rows.values():
        assert (row["status"], row["message"]) == ("internal", "the result is wrong")


@pytest.mark.parametrize(
    ("kind", "status", "said"),
    [("cpu", "unsupported", "CPU BLAS"), ("crash", "device_failed", "ended")],
)
def test_nvblas_that_uses_no_gpu_or_dies_has_a_row_that_says_so(bench, kind, status, said):
    done, rows = bench("--size 64,48 --place p,p,p --vs nvblas", FAKE_NVBLAS=kind)
    assert done.returncode == 0
    found = [row for row in rows if row["engine"] == "nvblas"]
    assert [row["status"] for row in found] == [status, status]
    assert said in found[0]["message"]


def test_nvblas_is_for_pageable_operands(bench):
    _, rows = bench("--size 64 --place h,h,h --vs nvblas")
    row = by_engine(rows)["nvblas"]
    assert row["status"] == "unsupported"
    assert "p,p,p" in row["message"]


def test_cublas_does_not_touch_memory_that_no_gpu_has(bench):
    _, rows = bench("--size 64 --vs cublas", FAKE_HOST_MEMORY="1")
    assert by_engine(rows)["cublas"]["status"] == "unsupported"


def test_peers_without_a_gpu_are_rows_that_say_so(bench):
    done, rows = bench("--size 64 --vs cublasxt,cublas", FAKE_GPUS="0")
    assert done.returncode == 0
    rows = by_engine(rows)
    assert rows["cublasxt"]["status"] == rows["cublas"]["status"] == "unsupported"
    assert rows["fleetblas"]["status"] == "ok"


def test_peers_that_are_not_installed_are_rows_that_say_so(bench, tmp_path):
    (tmp_path / "libcuda.so.1").write_text("no library")
    done, rows = bench(f"--size 64 --place p,p,p --vs {ALL}", LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == 0
    rows = by_engine(rows)
    assert "driver" in rows["cublasxt"]["message"]
    assert rows["fleetblas"]["status"] == rows["hostblas"]["status"] == "ok"


def test_one_command_measures_every_size_at_every_place(bench, tmp_path):
    words = "--size 40,96 --place h,h,h;0,1,0 --place p,p,p --beta 2 --seconds 5 --vs cublasxt"
    done, rows = bench(words)
    assert done.returncode == 0, done.stderr
    ours = [(row["m"], row["place"]) for row in rows if row["engine"] == "fleetblas"]
    places = ("h,h,h", "0,1,0", "p,p,p")
    assert ours == [(size, place) for size in (40, 96) for place in places]
    assert all(row["status"] == "ok" and 0 < row["error"] < 4 for row in rows)


def test_a_limit_in_seconds_ends_the_timed_calls_after_three(cli):
    words = "bench gemm --size 600 --repeat 50 --warmup 0 --seconds 1e-6 --json -"
    done = cli(words)
    (row,) = json.loads(done.stdout)["results"]
    assert row["repeat"] == 3


# ---- energy -------------------------------------------------------------------------------------


@pytest.fixture
def with_nvml(bench, fakes):
    def run(words, **settings):
        folders = [fakes["FAKE_DRIVER"].parent, fakes["FAKE_NVML"].parent]
        done, rows = bench(words, LD_LIBRARY_PATH=os.pathsep.join(map(str, folders)), **settings)
        assert done.returncode == 0, done.stderr
        return by_engine(rows)

    return run


def test_joules_are_those_of_the_gpus_that_an_engine_has(with_nvml):
    rows = with_nvml("--size 64 --vs cublasxt,cublas,hostblas")
    # By their place on the bus the two draw 70 and 60 W, whoever counts them from which end.
    assert rows["cublasxt"]["watts"] == pytest.approx(130, rel=0.15)
    assert rows["cublas"]["watts"] == pytest.approx(70, rel=0.15)
    assert rows["cublasxt"]["joules"] == pytest.approx(130 * rows["cublasxt"]["median_s"], rel=0.5)
    # Virtual devices and the CPU have no counter.
    for engine in ("fleetblas", "hostblas"):
        assert rows[engine]["joules"] is None
        assert rows[engine]["watts"] is None


@pytest.mark.parametrize("kind", ["none", "still"])
def test_joules_are_null_where_nothing_counts_them(with_nvml, kind):
    row = with_nvml("--size 64 --vs cublas", FAKE_NVML=kind)["cublas"]
    assert (row["status"], row["joules"], row["watts"]) == ("ok", None, None)


@pytest.mark.parametrize("words", ["--no-energy", "--beta 2"])
def test_joules_are_null_where_they_are_not_wanted_or_would_count_more(with_nvml, words):
    assert with_nvml(f"--size 64 --vs cublas {words}")["cublas"]["joules"] is None


class Steps:
    """A meter whose counter moves by 10 J with every 100 ms of a clock that calls turn."""

    def __init__(self, call_s, read_s=0.0):
        self.now_s, self.call_s, self.read_s, self.calls = 0.0, call_s, read_s, 0

    def call(self):
        self.now_s += self.call_s
        self.calls += 1

    def millijoules(self):
        self.now_s += self.read_s
        # The second counter advances at other times, and by twice as much.
        return [10_000 * int(self.now_s / 0.1 + 1e-9), 20_000 * int(self.now_s / 0.1 + 0.6)]

    def meter(self, monkeypatch):
        from fleetblas.commands import energy

        meter = object.__new__(energy.Meter)
        meter.devices = [4, 7]
        meter.millijoules = self.millijoules
        monkeypatch.setattr(energy.time, "perf_counter", lambda: self.now_s)
        return meter


@pytest.mark.parametrize("call_s", [0.003, 0.07, 0.3, 4.0])
def test_calls_are_repeated_until_the_counter_means_something(monkeypatch, call_s):
    steps = Steps(call_s)
    found = steps.meter(monkeypatch).measure(steps.call)
    assert found.watts == pytest.approx(300, rel=0.07)
    assert found.of([4]) == pytest.approx(100 * call_s, rel=0.07)
    assert found.of([4, 7]) == pytest.approx(300 * call_s, rel=0.07)
    assert found.calls * call_s >= 1.0
    assert steps.calls * call_s < max(2.5, 2.5 * call_s)


def test_calls_that_are_much_shorter_than_a_reading_are_measured(monkeypatch):
    # The counter moves while it is being read, never during a call.
    steps = Steps(1e-4, read_s=0.025)
    found = steps.meter(monkeypatch).measure(steps.call)
    assert found is not None
    assert found.watts == pytest.approx(300, rel=0.07)
