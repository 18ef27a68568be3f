# SPDX-License-Identifier: BSD-3-Clause
"""libblas.so.3 in place of the machine's: every name of the reference leads to the BLAS behind, our
own names to the core first, whichever BLAS that is and however the library is reached."""

import importlib.util
import re
from pathlib import Path

import pytest
from conftest import (
    BLAS_LIBRARIES,
    HOST_DEVICES,
    ILAENV_NAMES,
    LAPACK_NAMES,
    MEMORY_NAMES,
    SOURCE,
    compile_c,
    where_calls_ran,
)

LIMIT_S = 120


def wheel():
    """The OpenBLAS of the wheel scipy-openblas32, whose names have a prefix."""
    package = importlib.util.find_spec("scipy_openblas32")
    if not package:
        return None
    return Path(package.submodule_search_locations[0]) / "lib" / "libscipy_openblas.so"


def behind_of(name):
    file = wheel() if name == "wheel" else BLAS_LIBRARIES.get(name)
    if not file:
        pytest.skip(f"no {name} on this machine")
    return file


@pytest.fixture(params=["wheel", "netlib", "openblas"])
def behind(request):
    """A BLAS with 32-bit integers, to be named by FLEETBLAS_CPU_BLAS."""
    return behind_of(request.param)


@pytest.fixture
def some_blas():
    for name in ("wheel", "netlib", "openblas"):
        try:
            return behind_of(name)
        except pytest.skip.Exception:
            pass
    pytest.skip("no BLAS with 32-bit integers on this machine")


@pytest.fixture(scope="session")
def libblas(preload):
    return preload.parent / "fleetblas" / "libblas" / "libblas.so.3"


@pytest.fixture
def under(libblas, run):
    """Runs a program with our libblas.so.3: under([program, ...], behind, SETTING=...)."""

    def run_program(command, behind, folder=libblas.parent, **settings):
        settings = {"FLEETBLAS_CPU_BLAS": behind, "LD_LIBRARY_PATH": folder} | settings
        return run(command, limit_s=LIMIT_S, **settings)

    return run_program


def functions():
    text = (SOURCE / "src/libblas/names.h").read_text()
    return set(re.findall(r"\b(\w+_|cblas_\w+)\b(?=[,\s])", text.split("clang-format off")[1]))


def exported(library, run):
    lines = run(["nm", "-D", "--defined-only", library]).stdout.splitlines()
    return {line.split()[-1] for line in lines}


def test_it_exports_all_that_the_reference_does(libblas, run, netlib):
    assert exported(netlib[0], run) <= exported(libblas, run)


def test_it_exports_its_table_and_what_the_preload_library_does_of_blas(libblas, preload, run):
    ours = functions() | {"CBLAS_CallFromC", "RowMajorStrg"}

    assert len(functions()) == 322
    others = LAPACK_NAMES | ILAENV_NAMES | MEMORY_NAMES
    assert exported(libblas, run) == ours | (exported(preload, run) - others)


def test_it_is_called_libblas_and_needs_libc_alone(libblas, run):
    dynamic = run(["readelf", "-dW", libblas]).stdout

    assert re.findall(r"SONAME.*\[(.*)\]", dynamic) == ["libblas.so.3"]
    needed = re.findall(r"NEEDED.*\[(.*)\]", dynamic)
    assert all(name.startswith(("libc.", "libdl.", "libpthread.", "ld-linux")) for name in needed)


def test_every_signature_passes_to_the_blas_behind_and_back(
    program, libblas, netlib, behind, under, run
):
    direct = program("all_levels.c", str(libblas))
    reference = program("all_levels.c", *netlib)

    expected = run([reference])
    result = under([direct], behind)

    assert (result.returncode, result.stdout) == (0, expected.stdout)
    assert len(expected.stdout.splitlines()) == 24


def test_every_fortran_name_leads_somewhere_and_complains_to_the_program(
    program, libblas, behind, under
):
    fortran = sorted(name for name in functions() if name.endswith("_"))
    calls = program("all_levels.c", "-DOWN_XERBLA", "-rdynamic", str(libblas))

    result = under([calls, *fortran], behind)

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == ["xerbla <DGEMV > 1", "96 complaints"]


def test_products_are_done_by_the_devices(program, libblas, behind, under):
    result = under(
        [program("threads.c", str(libblas)), 1, 2, 60], behind, FLEETBLAS_VERBOSE=1, **HOST_DEVICES
    )

    assert (result.returncode, result.stdout) == (0, "0\n")
    assert [call[:2] for call in where_calls_ran(result.stderr)] == [("dgemm_", "devices")] * 2


def test_racing_threads_and_forks_are_right(program, libblas, behind, under):
    threads = [program("threads.c", str(libblas)), 16, 8, 60]
    forks = [program("forks.c", str(libblas)), 60]
    # A child forked while another thread is inside OpenBLAS hangs in OpenBLAS once in 1,500 times
    # on a loaded machine, with and without a library before it.
    for command, settings in (
        (threads, HOST_DEVICES),
        (threads, {"FLEETBLAS_OFFLOAD": "never"}),
        (forks, HOST_DEVICES),
        ([*forks, "quiet"], {"FLEETBLAS_OFFLOAD": "never"}),
    ):
        done = under(command, behind, **settings)

        assert (done.returncode, done.stderr) == (0, ""), (command, settings, done.stdout)


def test_a_link_to_it_in_a_folder_of_libraries_is_enough(
    program, libblas, some_blas, under, tmp_path
):
    # What update-alternatives makes: links to links.
    (tmp_path / "alternative").symlink_to(libblas)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libblas.so.3").symlink_to(tmp_path / "alternative")

    result = under(
        [program("threads.c", str(libblas)), 1, 1, 60],
        some_blas,
        folder=tmp_path / "lib",
        FLEETBLAS_VERBOSE=1,
        **HOST_DEVICES,
    )

    assert (result.returncode, result.stdout) == (0, "0\n")
    assert [where for _, where, _ in where_calls_ran(result.stderr)] == ["devices"]


@pytest.mark.parametrize("offload", ["always", "never"])
def test_a_call_is_counted_once_under_the_preload_library_too(
    program, libblas, preload, some_blas, under, offload
):
    settings = HOST_DEVICES | {"FLEETBLAS_OFFLOAD": offload}
    result = under(
        [program("threads.c", str(libblas)), 1, 1, 60],
        some_blas,
        preload=preload,
        FLEETBLAS_VERBOSE=1,
        **settings,
    )

    assert (result.returncode, result.stdout) == (0, "0\n")
    assert len(where_calls_ran(result.stderr)) == 1


def shared_library(source, target, *flags):
    return compile_c(source, target, ["-shared", "-fPIC", *flags])


WRONG = {
    "the preload library": "it is FleetBLAS itself",
    "libblas itself": "it is FleetBLAS itself",
    "integers of 64 bits": "its integers have 64 bits",
    "complex results as ifort has them": "it returns complex numbers as ifort does",
    "no BLAS": "it has no ddot_, zdotu_ and dgemm_",
    "no file": "cannot open shared object file",
}


@pytest.mark.parametrize("what", WRONG)
def test_a_blas_that_cannot_serve_is_named_and_another_one_found(
    what, program, libblas, preload, netlib, under, tmp_path
):
    flags = {
        "integers of 64 bits": ["-DWIDE"],
        "complex results as ifort has them": ["-DIFORT"],
        "no BLAS": ["-DNO_BLAS"],
    }
    files = {"the preload library": preload, "libblas itself": libblas, "no file": "/none.so"}
    named = files.get(what) or shared_library("small_blas.c", tmp_path / "small.so", *flags[what])

    result = under(
        [program("all_levels.c", str(libblas))],
        named,
        FLEETBLAS_OFFLOAD="never",
        FLEETBLAS_LOG_LEVEL=2,
    )

    assert (result.returncode, len(result.stdout.splitlines())) == (0, 24)
    first = result.stderr.splitlines()[0]
    assert first.startswith(f"fleetblas: {named} cannot be the BLAS behind libblas.so.3: ")
    assert WRONG[what] in first


def test_a_name_that_leads_nowhere_ends_the_program_as_the_dynamic_linker_does(
    program, libblas, under, tmp_path
):
    small = shared_library("small_blas.c", tmp_path / "small.so")

    result = under([program("all_levels.c", str(libblas))], small)

    # It has ddot_ and no sdot_, the first that is called.
    assert (result.returncode, result.stdout) == (127, "")
    assert result.stderr.startswith("fleetblas: sdot_: libblas.so.3 finds no CPU BLAS for it. ")
