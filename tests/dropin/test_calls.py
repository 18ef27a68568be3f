# SPDX-License-Identifier: BSD-3-Clause
"""Every exported name gives right results wherever the call ends, and only calls that are worth it
reach the core. The answers are checked by the programs themselves."""

import re
import shutil
import statistics
from collections import Counter

import pytest
from conftest import (
    HOST_DEVICES,
    ILAENV_NAMES,
    LAPACK_NAMES,
    MEMORY_NAMES,
    SOURCE,
    environment_python,
    where_calls_ran,
)

SMALL_EDGE = 12
DRAWS = 6
NO_INNER_SIZE = re.compile("symm|hemm|trmm|trsm")
EXTRA_LIMIT_S = 0.3e-6


@pytest.fixture
def every_name(program, recorder):
    """It takes six seconds to compile. LD_LIBRARY_PATH says which preload library it runs with."""
    return program("every_name.cpp", f"-L{recorder.parent}", "-lfleetblas_preload")


def exported_names():
    """The table of names, expanded by hand: the test's own reading of it."""
    text = (SOURCE / "src/preload/names.hpp").read_text()
    families = re.findall(r"X\((\S*word\S*), word", text)
    names = set()
    for types, word in re.findall(r"NAMES_OF_(ALL|COMPLEX)\(X, (?!word)(\w+), \w+\) *\\?\n", text):
        for t in "sdcz" if types == "ALL" else "cz":
            names |= {
                row.replace("##t##", t).replace("t##", t).replace("word", word).replace("##", "")
                for row in families
            }
    return names


def real(name):
    return re.search(r"(?:^|_)[sd][ghst]", name) is not None


def test_the_library_exports_the_table_and_needs_libc_alone(recorder, run):
    symbols = run(["nm", "-D", "--defined-only", recorder]).stdout
    dynamic = run(["readelf", "-dW", recorder]).stdout

    exported = {line.split()[-1] for line in symbols.splitlines()}
    own = {"fleetblas_preload_patch", "fleetblas_preload_unpatch"} | MEMORY_NAMES
    assert exported == exported_names() | LAPACK_NAMES | ILAENV_NAMES | own
    assert len(LAPACK_NAMES) == 5 * (4 * 15 + 2)
    assert len(exported_names()) == 10 * (8 * 4 + 3 * 2)
    needed = re.findall(r"NEEDED.*\[(.*)\]", dynamic)
    assert all(name.startswith(("libc.", "libdl.", "libpthread.", "ld-linux")) for name in needed)


def test_every_name_is_right_on_a_blas_that_lacks_it(every_name, recorder, run):
    result = run(
        [every_name, SMALL_EDGE, DRAWS], LD_LIBRARY_PATH=recorder.parent, FLEETBLAS_OFFLOAD="never"
    )

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert result.events == []


def test_every_name_is_right_where_there_is_no_blas_at_all(every_name, recorder, no_blas, run):
    result = run(
        [every_name, SMALL_EDGE, DRAWS],
        LD_LIBRARY_PATH=f"{no_blas}:{recorder.parent}",
        FLEETBLAS_OFFLOAD="never",
        FLEETBLAS_CPU_BLAS="",
        LD_DEBUG="files",
    )

    assert (result.returncode, result.stdout) == (0, "")
    assert not re.search(r"calling init: .*blas\.so", result.stderr)


@pytest.mark.parametrize("environment", ["numpy1", "numpy2"])
@pytest.mark.parametrize("package", ["numpy", "scipy"])
def test_every_name_is_right_before_a_wheel_s_openblas(
    environment, package, every_name, recorder, run
):
    packages = environment_python(environment).parent.parent / "lib"
    (library,) = packages.glob(f"python3*/site-packages/{package}.libs/lib*openblas*.so")
    # The gemmt of these OpenBLAS libraries (0.3.23, 0.3.27) is wrong, and who asks for it gets it.
    result = run(
        [every_name, SMALL_EDGE, DRAWS, "gemmt"],
        preload=f"{recorder}:{library}",
        LD_LIBRARY_PATH=f"{recorder.parent}:{library.parent}",
        FLEETBLAS_OFFLOAD="never",
    )

    assert (result.returncode, result.stdout) == (0, "")


def test_every_name_reaches_the_core_turned_to_column_major(every_name, recorder, run):
    result = run(
        [every_name, SMALL_EDGE, DRAWS], LD_LIBRARY_PATH=recorder.parent, FLEETBLAS_OFFLOAD="always"
    )

    assert (result.returncode, result.stdout) == (0, "")
    assert {words[1] for words in result.events if len(words) > 1} == exported_names()
    # Real types are taken by the recording core, complex ones go on to the BLAS behind.
    assert {words[2] for words in result.events if words[0] == "took"} == {"s", "d"}
    assert {words[2] for words in result.events if words[0] == "host"} == {"c", "z"}
    # 2 rules that multiply (3 where there is no k to be 0) in 2 ways.
    rules = {name: 3 if NO_INNER_SIZE.search(name) else 2 for name in exported_names()}
    expected = {name: DRAWS * 2 * rules[name] for name in exported_names()}
    for event in ("took", "host"):
        names = [words[1] for words in result.events if words[0] == event]
        assert Counter(names) == {x: n for x, n in expected.items() if real(x) == (event == "took")}


def test_every_name_is_right_on_four_virtual_devices(every_name, preload, run):
    result = run(
        [every_name, 40, 1], LD_LIBRARY_PATH=preload.parent, FLEETBLAS_VERBOSE=1, **HOST_DEVICES
    )

    assert (result.returncode, result.stdout) == (0, "")
    calls = where_calls_ran(result.stderr)
    assert {symbol for symbol, _, _ in calls} == exported_names()
    assert {where for _, where, _ in calls} == {"devices"}


def test_the_core_computes_once_what_no_blas_behind_has(every_name, preload, run):
    result = run(
        [every_name, SMALL_EDGE, 1],
        LD_LIBRARY_PATH=preload.parent,
        FLEETBLAS_OFFLOAD="never",
        FLEETBLAS_VERBOSE=1,
    )

    assert (result.returncode, result.stdout) == (0, "")
    calls = where_calls_ran(result.stderr)
    # The BLAS behind has all but gemmt, which nobody is asked for under another name. One line for
    # each call that multiplies: 2 rules (3 where there is no k to be 0) in 2 ways.
    assert {where for _, where, _ in calls} == {"cpu"}
    expected = {x: 6 if NO_INNER_SIZE.search(x) else 4 for x in exported_names()}
    assert Counter(symbol for symbol, _, _ in calls) == expected


def test_a_small_call_does_not_load_the_core(program, recorder, blas, run):
    threads = program("threads.c", *blas)

    small = run([threads, 1, 1, 255], preload=recorder)
    large = run([threads, 1, 1, 256], preload=recorder)

    assert (small.returncode, small.events) == (0, [])
    assert (large.returncode, large.count("loaded"), large.count("took")) == (0, 1, 1)


@pytest.mark.parametrize(
    "settings",
    [
        {"FLEETBLAS_OFFLOAD": "always"},
        {"FLEETBLAS_MIN_FLOPS": "1"},
        {"FLEETBLAS_VERBOSE": "1"},
        {"FLEETBLAS_SUMMARY": "1"},
    ],
)
def test_settings_that_concern_every_call_load_the_core_at_once(
    settings, program, recorder, netlib, run
):
    result = run([program("threads.c", *netlib), 1, 3, 4], preload=recorder, **settings)

    assert (result.returncode, result.count("loaded"), result.count("took")) == (0, 1, 3)


def test_offload_never_loads_the_core_only_for_its_reports(program, recorder, netlib, run):
    threads = program("threads.c", *netlib)
    never = {"FLEETBLAS_OFFLOAD": "never", "RECORD_MIN_FLOPS": 1e99, "RECORD_WANTS_ALL": 1}

    silent = run([threads, 1, 1, 300], preload=recorder, FLEETBLAS_VERBOSE=0, **never)
    reported = run([threads, 1, 1, 300], preload=recorder, FLEETBLAS_SUMMARY=1, **never)

    assert (silent.returncode, silent.events) == (0, [])
    assert (reported.returncode, reported.count("took"), reported.count("host")) == (0, 0, 1)


def test_the_core_s_smallest_product_is_kept_to(program, recorder, netlib, run):
    # 2 * 10^3 = 2000 flops, 2 * 11^3 = 2662, 2 * 12^3 = 3456.
    result = run(
        [program("threads.c", *netlib), 1, 3, 10],
        preload=recorder,
        FLEETBLAS_OFFLOAD="always",
        RECORD_MIN_FLOPS=2600,
    )

    assert [words[4] for words in result.events if words[0] == "took"] == ["11", "12"]
    assert result.count("host") == 0


def test_the_core_hears_of_every_call_when_it_wants_to(program, recorder, netlib, run):
    result = run(
        [program("threads.c", *netlib), 1, 3, 10],
        preload=recorder,
        FLEETBLAS_OFFLOAD="always",
        RECORD_MIN_FLOPS=2600,
        RECORD_WANTS_ALL=1,
    )

    assert [words[0] for words in result.events] == ["loaded", "host", "took", "took"]


def test_a_call_that_the_core_refuses_runs_behind_and_is_noted_once(program, recorder, blas, run):
    # Through Netlib, cblas_dgemm calls dgemm_: one call all the same.
    every_name = program("cblas_calls.c", *blas)
    result = run([every_name], preload=recorder, FLEETBLAS_OFFLOAD="always", RECORD_TAKE=0)

    assert (result.returncode, result.stdout) == (0, "")
    assert [words[:2] for words in result.events[1:]] == [
        ["asked", "cblas_dgemm"],
        ["host", "cblas_dgemm"],
    ]


def test_a_core_that_cannot_be_loaded_leaves_calls_to_the_cpu_silently(
    program, recorder, netlib, run, tmp_path
):
    alone = shutil.copy(recorder, tmp_path)
    threads = program("threads.c", *netlib)

    silent = run([threads, 2, 3, 20], preload=alone, FLEETBLAS_OFFLOAD="always")
    warned = run(
        [threads, 2, 3, 20], preload=alone, FLEETBLAS_OFFLOAD="always", FLEETBLAS_LOG_LEVEL=2
    )

    assert (silent.returncode, silent.stderr) == (0, "")
    assert warned.returncode == 0
    assert re.fullmatch(r"fleetblas: .*libfleetblas\.so.*stay on the CPU BLAS\n", warned.stderr)


def test_a_core_of_another_version_is_not_used(program, recorder, netlib, run):
    result = run(
        [program("threads.c", *netlib), 1, 2, 20],
        preload=recorder,
        FLEETBLAS_OFFLOAD="always",
        RECORD_VERSION=999,
        FLEETBLAS_LOG_LEVEL=2,
    )

    assert (result.returncode, result.count("took")) == (0, 0)
    assert "another version" in result.stderr and len(result.stderr.splitlines()) == 1


def test_a_relative_preload_survives_a_change_of_folder(program, recorder, netlib, run):
    program_file = program("cblas_calls.c", *netlib)
    result = run(
        [program_file, "/"],
        preload=f"./{recorder.name}",
        cwd=recorder.parent,
        FLEETBLAS_OFFLOAD="always",
    )

    assert (result.returncode, result.count("took")) == (0, 1)


@pytest.mark.parametrize("summary", ["", "calls.json"], ids=["plain", "with a summary"])
def test_a_small_call_costs_at_most_300_ns_more(summary, program, preload, blas, run, tmp_path):
    overhead = program("overhead.c", *blas, "-O2")
    file = tmp_path / summary if summary else ""

    def extra_s():
        # Threads of a BLAS that spin for work would share the cores with what is measured.
        settings = {"FLEETBLAS_SUMMARY": file, "OPENBLAS_NUM_THREADS": 1}
        result = run([overhead, blas[0]], preload=preload, **settings)
        assert result.returncode == 0, result.stderr
        return float(result.stdout.split()[2])

    assert statistics.median(extra_s() for _ in range(3)) <= EXTRA_LIMIT_S
