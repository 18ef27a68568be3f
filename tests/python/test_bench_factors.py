# SPDX-License-Identifier: BSD-3-Clause
"""Factorizations and equations in the benchmark: their rows, their verification, and their peers.
NVIDIA's libraries are stood in for by fake_cuda.c and fake_cusolver.c."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from test_cli import BENCH_KEYS

HERE = pathlib.Path(__file__).parent
QUICK = "--repeat 2 --warmup 0 --no-energy --json -"


def results_of(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["results"]


def by_engine(rows):
    return {row["engine"]: row for row in rows}


# ---- FleetBLAS ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "flops"),
    [
        ("potrf --n 150 --type d --uplo u", 150**3 / 3),
        ("potrf --n 131 --type c --place 1", 4 * 131**3 / 3),
        ("getrf --m 150 --n 120 --type z --place p", 4 * (150 * 120**2 - 120**3 / 3)),
        ("getrf --m 90 --n 140 --type s --place 0", 140 * 90**2 - 90**3 / 3),
        ("geqrf --m 150 --n 120 --type d --place 1", 2 * (150 * 120**2 - 120**3 / 3)),
        ("geqrf --size 100 --type c --place h", 4 * 4 * 100**3 / 3),
        ("getrf --m 150 --n 120 --type d --place c1x2:40", 150 * 120**2 - 120**3 / 3),
        ("potrf --n 131 --type d --place c2x1", 131**3 / 3),
        ("gesv --n 110 --nrhs 7 --type d --place 0,p", 2 * 110**3 / 3 + 2 * 110**2 * 7),
    ],
)
def test_every_timed_call_is_verified_and_its_flops_are_those_of_lapack(cli, words, flops):
    (row,) = results_of(cli(f"bench {words} {QUICK}"))
    assert set(BENCH_KEYS.split()) <= set(row)
    assert (row["status"], row["measured"], row["where"]) == ("ok", "measured", "devices")
    assert 0 < row["error"] < 30
    assert 0 < row["residual"] < 30
    assert 0 < row["min_s"] <= row["median_s"] <= row["p95_s"]
    assert row["tflops"] == pytest.approx(flops / row["median_s"] / 1e12)
    assert row["bound_fraction"] == pytest.approx(row["bound_s"] / row["median_s"])
    assert (row["repeat"], row["devices"]) == (2, 2)
    assert row["tile"] > 0


def test_refined_equations_are_measured_beside_those_in_double(cli):
    rows = results_of(cli(f"bench gesv --size 120 --nrhs 3 --type z --refine {QUICK}"))
    assert [row["engine"] for row in rows] == ["fleetblas", "fleetblas-refined"]
    plain, refined = rows
    assert plain["status"] == refined["status"] == "ok"
    assert refined["iterations"] >= 1
    assert refined["reason"] == f"{refined['iterations']} refinements of single precision"
    assert refined["refined_on"] == "devices"
    assert refined["devices"] > 0
    assert "refined_on" not in plain
    assert 0 < refined["error"] < 30
    assert plain["bound_s"] == refined["bound_s"] > 0


def test_without_any_device_the_cpu_does_it_and_is_its_own_bound(cli):
    words = f"bench potrf,gesv --size 60 --backend auto {QUICK}"
    for row in results_of(cli(words, FLEETBLAS_DEVICES="auto")):
        assert (row["status"], row["where"], row["devices"]) == ("ok", "cpu", 0)
        assert row["bound_s"] > 0


def test_large_matrices_are_verified_by_vectors_and_as_a_whole_on_request(cli):
    words = f"bench potrf,geqrf --size 800 --type s {QUICK}"
    for row, whole in zip(results_of(cli(words)), results_of(cli(f"{words} --check"))):
        assert (row["status"], whole["status"]) == ("ok", "ok")
        assert row["residual"] == pytest.approx(whole["residual"], rel=0.5)
        assert row["error"] < whole["error"] < 30


@pytest.mark.parametrize(
    "damage",
    [
        "found = call(*arguments)\n    if name == 'potrf': values[-1][70, 60] += 1e-6",
        "found = call(*arguments)\n    if name == 'getrf': values[-1][5] += 1",
        "found = call(*arguments)\n    if name == 'geqrf': values[-1][9] *= 1 + 1e-8",
        "found = call(*arguments)\n    if name == 'gesv': values[-1][3, 0] += 1e-9",
        "found = call(*arguments)\n    if name == 'sgesv': values[-1][3, 0] += 1e-7",
    ],
)
def test_a_result_that_is_slightly_wrong_fails_the_command(script, tmp_path, damage):
    done = script(
        "import sys\nfrom fleetblas import _lapack, cli\ncall = _lapack.call\n"
        "def damaged(*arguments):\n    _, _, name, *values = arguments\n    "
        + damage
        + "\n    return found\n_lapack.call = damaged\n"
        "words = 'bench potrf,getrf,geqrf,gesv --size 90 --refine --repeat 1 --json x.json'\n"
        "sys.exit(cli.main([*words.split(), '--warmup', '0']))"
    )
    assert done.returncode == 1
    rows = json.loads((tmp_path / "x.json").read_text())["results"]
    name = re.search("name == '(.*)'", damage)[1]
    for row in rows:
        one = "sgesv" if row["engine"] == "fleetblas-refined" else row["routine"]
        # The factors of gesv are its own, of no interface that could be damaged here.
        wanted = "internal" if one == name else "ok"
        assert (one, row["status"]) == (one, wanted)
        if one == name:
            assert row["message"] == "the result is wrong"


def test_a_positive_info_is_a_wrong_result_with_its_number(script, tmp_path):
    done = script(
        "import sys\nfrom fleetblas import cli\nfrom fleetblas.commands import bench_factors\n"
        "bench_factors.SHIFT = -3.0\n"
        "sys.exit(cli.main('bench potrf --size 40 --repeat 1 --json x.json'.split()))"
    )
    assert done.returncode == 1
    (row,) = json.loads((tmp_path / "x.json").read_text())["results"]
    assert row["status"] == "internal"
    assert row["message"] == "potrf returned info = 1"


def test_simulated_factorizations_have_a_bound_and_a_report(main, tmp_path):
    done = main("bench potrf,getrf --size 4K,8K --backend sim --machine h200x4 --json x.json")
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "x.json").read_text())["results"]
    assert [(row["routine"], row["n"]) for row in rows] == [
        *(("potrf", n) for n in (4096, 8192)),
        *(("getrf", n) for n in (4096, 8192)),
    ]
    for row in rows:
        assert (row["measured"], row["status"]) == ("simulated", "ok")
        assert row["median_s"] >= row["bound_s"] > 0
        assert row["balance"] is not None
    assert "dpotrf 8K" in done.stdout
    assert main("report x.json -o x.html").returncode == 0
    page = (tmp_path / "x.html").read_text()
    for words in ("DPOTRF at h", "DGETRF at h", "DPOTRF 8K", "DGETRF 4K"):
        assert words in page
    tflops = 8192**3 / 3 / rows[1]["median_s"] / 1e12
    assert f"{tflops:.1f} TFLOPS" in page


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("bench potrf --size 8 --place h,h", "potrf takes one word, not 'h,h'"),
        ("bench gesv --size 8 --place h,h,h", "gesv takes one word, or two as in h,0"),
        ("bench potrf --m 8 --n 9", "potrf has no m of its own"),
        ("bench getrf --m 8 --n 9 --k 7", "getrf has no k of its own"),
        ("bench gesv --n 8 --k 2", "--nrhs is the number of right sides"),
        ("bench getrf --n 8", "give --size, or --m and --n (--m missing)"),
        ("bench getrf --size 8 --uplo u", "getrf has no --uplo"),
        ("bench potrf --size 8 --alpha 2", "potrf has no --alpha"),
        ("bench potrf --size 8 --type h", "potrf takes types s, d, c, z, not h"),
        ("bench potrf --size 0", "potrf has nothing to do"),
        ("bench getrf --size 8 --refine", "--refine is of gesv"),
        ("bench getrf --size 8 --nrhs 3", "--nrhs is of gesv"),
        ("bench gesv --size 8 --type s --refine", "--refine takes types d and z"),
        ("bench gesv --size 8 --backend sim --machine h200x4", "--backend sim takes getrf"),
        ("bench potrf --size 8 --resident", "dpotrf is not queued"),
    ],
)
def test_words_that_mean_nothing_together(main, words, reason):
    done = main(words)
    assert done.returncode == 2
    assert reason in done.stderr


# ---- peers --------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def cuda(tmp_path_factory):
    """Folders with the libraries as a driver and as wheels of PyPI have them."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    root = tmp_path_factory.mktemp("cuda")
    wheel = root / "wheels" / "nvidia" / "cusolver" / "lib"
    files = {
        ("fake_cuda.c", "FAKE_DRIVER"): root / "driver" / "libcuda.so.1",
        # A CPU BLAS without LAPACK.
        ("fake_cuda.c", "FAKE_BLAS"): root / "blas" / "libblas.so.3",
        ("fake_cusolver.c", "FAKE_CUSOLVER"): wheel / "libcusolver.so.12",
        ("fake_cusolver.c", "FAKE_CUSOLVERMG"): wheel / "libcusolverMg.so.12",
    }
    for (source, define), file in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        words = [compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-D{define}"]
        source = str(HERE / source)
        subprocess.run([*words, source, "-o", str(file), "-lm"], check=True, timeout=120)
    return root


@pytest.fixture
def bench(cli, cuda):
    def run(words, **settings):
        paths = [str(cuda / "wheels"), os.environ["PYTHONPATH"]]
        settings = {
            "LD_LIBRARY_PATH": str(cuda / "driver"),
            "PYTHONPATH": os.pathsep.join(paths),
            **settings,
        }
        done = cli(*f"bench {words} {QUICK}".split(), **settings)
        assert "Traceback" not in done.stderr
        return done, json.loads(done.stdout)["results"]

    return run


@pytest.mark.parametrize(
    "words",
    [
        "potrf --n 90 --type d",
        "potrf --n 90 --type z --uplo u --place 1",
        "getrf --m 90 --n 70 --type s --place p",
        "getrf --m 60 --n 95 --type c",
        "geqrf --m 90 --n 70 --type d --place 0",
        "geqrf --m 50 --n 70 --type z",
        "gesv --n 80 --nrhs 5 --type c",
    ],
)
def test_the_lapack_of_the_cpu_does_the_same(cli, words):
    rows = by_engine(results_of(cli(f"bench {words} --vs lapack {QUICK}")))
    row = rows["lapack"]
    assert row["status"] == "ok", row
    assert 0 < row["error"] < 30
    assert (row["devices"], row["where"], row["bound_s"]) == (0, "cpu", None)
    assert set(row["place"].split(",")) <= {"h", "p"}
    assert row["cpu_blas"] == os.environ["FLEETBLAS_CPU_BLAS"]


def test_without_a_lapack_its_row_says_so(cli, cuda):
    none = str(cuda / "blas" / "libblas.so.3")
    rows = by_engine(
        results_of(cli(f"bench potrf --size 40 --vs lapack {QUICK}", FLEETBLAS_CPU_BLAS=none))
    )
    assert rows["fleetblas"]["status"] == "ok"
    assert rows["lapack"]["status"] == "unsupported"
    assert "no LAPACK: dpotrf is not in" in rows["lapack"]["message"]


@pytest.mark.parametrize(
    "words",
    [
        "potrf --n 90 --place p",
        "potrf --n 90 --uplo u",
        "getrf --m 90 --n 70",
        "getrf --m 60 --n 95 --place 1",
        "geqrf --m 90 --n 70",
        "geqrf --m 50 --n 70",
        "gesv --n 80 --nrhs 3",
    ],
)
def test_cusolver_is_measured_on_one_gpu_and_verified(bench, words):
    done, rows = bench(f"{words} --vs cusolver")
    assert done.returncode == 0, done.stderr
    row = by_engine(rows)["cusolver"]
    assert row["status"] == "ok", row
    assert 0 < row["error"] < 30
    assert row["median_s"] > 0
    assert (row["devices"], row["bound_s"]) == (1, None)
    assert set(row["place"].split(",")) == {"0"}
    assert "one GPU (0)" in row["reason"]


@pytest.mark.parametrize(
    ("words", "block"),
    [("potrf --n 1100", 256), ("getrf --n 700 --m 700", 256), ("gesv --n 90", 256)],
)
def test_cusolvermg_is_measured_on_all_gpus_at_its_best_block_size(bench, words, block):
    done, rows = bench(f"{words} --vs cusolvermg")
    assert done.returncode == 0, done.stderr
    row = by_engine(rows)["cusolvermg"]
    assert row["status"] == "ok", row
    assert 0 < row["error"] < 30
    assert (row["devices"], row["tile"], row["place"]) == (2, block, "0,1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("geqrf --size 40", "cusolvermg has no geqrf"),
        ("potrf --size 40 --uplo u", "lower triangle only"),
        ("getrf --m 40 --n 50", "square matrices only"),
    ],
)
def test_what_cusolvermg_has_not_is_said(bench, words, said):
    done, rows = bench(f"{words} --vs cusolvermg")
    assert done.returncode == 0
    row = by_engine(rows)["cusolvermg"]
    assert row["status"] == "unsupported"
    assert said in row["message"]


def test_block_sizes_that_do_not_fit_are_passed_over(bench):
    _, rows = bench("getrf --size 600 --vs cusolvermg", FAKE_NO_MEMORY_BLOCK="256")
    assert (rows[1]["status"], rows[1]["tile"]) == ("ok", 512)
    done, rows = bench("getrf --size 600 --vs cusolvermg", FAKE_NO_MEMORY_BLOCK="0")
    assert (done.returncode, rows[1]["status"], rows[1]["median_s"]) == (0, "no_memory", None)


def test_a_gpu_out_of_memory_has_a_row_and_fails_nothing(bench):
    done, rows = bench("geqrf --size 40 --vs cusolver", FAKE_NO_MEMORY="1")
    assert done.returncode == 0
    assert rows[1]["status"] == "no_memory"
    assert "cusolverDnXgeqrf_bufferSize" in rows[1]["message"]


def test_wrong_results_of_peers_fail_the_command(bench):
    done, rows = bench("potrf,getrf,geqrf --size 60 --vs cusolver,cusolvermg", FAKE_WRONG="1")
    assert done.returncode == 1
    for row in rows:
        if row["engine"] == "fleetblas":
            assert row["status"] == "ok"
        elif row["status"] != "unsupported":
            assert (row["status"], row["message"]) == ("internal", "the result is wrong")
    assert sum(row["status"] == "internal" for row in rows) == 5


def test_peers_without_a_gpu_or_of_another_kind_are_rows_that_say_so(bench):
    done, rows = bench("potrf --size 40 --vs cusolver,cusolvermg,cublasxt", FAKE_GPUS="0")
    assert done.returncode == 0
    rows = by_engine(rows)
    assert rows["fleetblas"]["status"] == "ok"
    assert rows["cusolver"]["message"] == rows["cusolvermg"]["message"]
    assert "none of the devices is a GPU" in rows["cusolver"]["message"]
    assert rows["cublasxt"]["message"] == "cublasxt has no potrf"
    done, rows = bench("gemm --size 40 --vs lapack,cusolver")
    rows = by_engine(rows)
    assert rows["lapack"]["message"] == "lapack has no gemm"
    assert rows["cusolver"]["message"] == "cusolver has no gemm"


def test_peers_that_are_not_installed_are_rows_that_say_so(cli, cuda):
    found = cli(
        f"bench potrf --size 40 --vs cusolver,cusolvermg {QUICK}",
        LD_LIBRARY_PATH=str(cuda / "driver"),
        CUDA_HOME="/nowhere",
    )
    rows = by_engine(results_of(found))
    for name, stem in (("cusolver", "libcusolver"), ("cusolvermg", "libcusolverMg")):
        if rows[name]["status"] != "ok":
            assert rows[name]["status"] in ("unsupported", "device_failed")
            assert rows[name]["message"]
            assert stem in rows[name]["message"] or "cusolver" in rows[name]["message"]
