# SPDX-License-Identifier: BSD-3-Clause
"""LAPACK's question for a block size: which answers change, which stay, and that the routines that
ask are right with them."""

import re

import pytest
from conftest import BLAS_LIBRARIES, HOST_DEVICES, ILAENV_NAMES, compile_c, link_flags

FORCED = {"FLEETBLAS_OFFLOAD": "always"}
# More is allowed than that, or less, by the routine and by the size of the problem.
SIZES = (64, 128, 256)
LARGEST_COST_US = 10


@pytest.fixture
def lapack(reference_lapack, netlib):
    return [*link_flags(reference_lapack), *netlib, "-lm"]


@pytest.fixture
def block_sizes(program, lapack):
    return program("block_sizes.c", *lapack)


def changes(ours, reference):
    """question -> answer, where that is not the reference's."""
    pairs = zip(ours.stdout.splitlines(), reference.stdout.splitlines(), strict=True)
    changed = [line.split() for line, before in pairs if line != before]
    return {question: int(answer) for question, answer in changed}


def questions(names, sizes):
    return {f"1,{name},{sizes}" for name in names.split()}


@pytest.mark.parametrize("size", SIZES)
def test_only_routines_that_gain_have_larger_blocks(size, block_sizes, recorder, run):
    reference = run([block_sizes, "ask"])
    ours = run([block_sizes, "ask"], preload=recorder, RECORD_BLOCK_SIZE=size, **FORCED)

    assert (ours.returncode, ours.stderr) == (0, "")
    squares = "4096,4096,4096"
    expected = set()
    if size == 64:
        names = "DORMLQ SORMQL DORMRQ ZUNMLQ CUNMQL ZUNMRQ"
        expected = questions(names, squares) | questions("DORMLQ", "4096,2048,1024")
    else:
        expected = questions("DSYGST SSYGST ZHEGST CHEGST dsygst", squares)
        expected |= {f"1,DSYGST,{n},-1,-1" for n in (2048, 4096, 8192, 16384, 32768)}
    if size == 128:
        expected |= questions("DTREVC ZTREVC", squares) | questions("DTREVC", "2048,-1,-1")
    if size == 256:
        expected.remove("1,DSYGST,2048,-1,-1")
    assert changes(ours, reference) == dict.fromkeys(expected, size)


def test_the_core_is_asked_for_an_update_and_not_loaded_for_it(block_sizes, recorder, run):
    result = run([block_sizes, "ask"], preload=recorder, **FORCED)

    events = [words for words in result.events if words[0] in ("loaded", "took", "block-size")]
    assert [words[0] for words in events[:2]] == ["loaded", "took"]
    asked = [words[1:] for words in events if words[0] == "block-size"]
    assert asked[0] == ["d", "4096", "4096", "64", "256"]
    assert ["z", "4096", "4096", "32", "64"] in asked
    assert ["d", "32768", "32768", "64", "1024"] in asked
    assert ["d", "4096", "2048", "32", "64"] in asked


@pytest.mark.parametrize(
    "setting",
    [
        {"FLEETBLAS_LINALG": "0"},
        {"RECORD_NO_LAPACK": "1"},
        {"FLEETBLAS_OFFLOAD": "never"},
        {"FLEETBLAS_OFFLOAD": "auto"},  # nothing is worth loading the core
        {"RECORD_BLOCK_SIZE": "0"},
    ],
)
def test_the_answers_stay_where_devices_are_not_asked_or_do_not_help(
    setting, block_sizes, recorder, run
):
    reference = run([block_sizes, "ask"])
    ours = run(
        [block_sizes, "ask"], preload=recorder, **FORCED | {"RECORD_BLOCK_SIZE": "128"} | setting
    )

    assert ours.stdout == reference.stdout
    assert ours.count("block-size") == 0 or setting == {"RECORD_BLOCK_SIZE": "0"}


@pytest.mark.parametrize("name", ["openblas", "openblas-wheel"])
def test_the_answers_of_openblas_stay(name, program, recorder, run):
    if name not in BLAS_LIBRARIES:
        pytest.skip(f"no {name} on this machine")
    asking = program("block_sizes.c", *link_flags(BLAS_LIBRARIES[name]), "-lm")

    before = run([asking, "ask"])
    ours = run([asking, "ask"], preload=recorder, RECORD_BLOCK_SIZE=128, **FORCED)

    assert (ours.returncode, ours.stdout) == (0, before.stdout)
    assert ours.count("took") == 1
    assert ours.count("block-size") == 0


@pytest.mark.parametrize(
    ("answer", "flags", "expected"),
    [(64, [], 128), (96, [], 96), (64, ["-DBLAS"], 64)],
    ids=["reference", "tuned", "one-with-its-blas"],
)
def test_under_every_name_the_library_behind_decides(
    answer, flags, expected, recorder, run, tmp_path
):
    library = compile_c("own_ilaenv.c", tmp_path / "libown.so", ["-shared", "-fPIC", *flags])
    linked = ["-DPROGRAM", str(library), f"-Wl,-rpath,{tmp_path}"]
    asking = compile_c("own_ilaenv.c", tmp_path / "own", linked)

    result = run([asking], preload=recorder, OWN_ANSWER=answer, RECORD_BLOCK_SIZE=128, **FORCED)

    assert (result.returncode, result.stderr) == (0, "")
    answers = dict(line.split() for line in result.stdout.splitlines())
    assert answers == dict.fromkeys(ILAENV_NAMES, str(expected))


def inner_sizes(symbol, stderr):
    """k of each call of a product of that name, as FLEETBLAS_VERBOSE prints it."""
    return [int(k) for k in re.findall(rf"^{symbol}\(L,N,\d+,(\d+),", stderr, re.M)]


def test_sygst_updates_by_larger_blocks_on_four_virtual_devices(block_sizes, preload, run):
    command = [block_sizes, "sygst", 2048]
    settings = {**HOST_DEVICES, "FLEETBLAS_VERBOSE": 1}

    larger = run(command, preload=preload, **settings)
    usual = run(command, preload=preload, FLEETBLAS_LINALG=0, **settings)

    assert (larger.returncode, larger.stdout) == (usual.returncode, usual.stdout) == (0, "1\n")
    assert inner_sizes("dsyr2k_", larger.stderr) == [128] * 15
    assert inner_sizes("dsyr2k_", usual.stderr) == [64] * 31


def test_ormlq_applies_larger_blocks_where_its_workspace_allows_it(block_sizes, recorder, run):
    result = run(
        [block_sizes, "ormlq", 1024],
        preload=recorder,
        RECORD_TAKE=0,
        RECORD_BLOCK_SIZE=64,
        **FORCED,
    )

    assert (result.returncode, result.stdout) == (0, "1\n")
    reflectors = [words[7] for words in result.events if words[0] == "asked-lapack"]
    assert reflectors == ["64"] * 16 + ["32"] * 32


def test_trevc_transforms_more_eigenvectors_at_a_time(block_sizes, preload, run):
    command = [block_sizes, "trevc", 2048]

    result = run(command, preload=preload, FLEETBLAS_VERBOSE=1, **HOST_DEVICES)

    assert (result.returncode, result.stdout) == (0, "1\n")
    # All blocks but the last have 127 columns, since a pair of vectors may have to fit.
    assert len(re.findall(r"^dgemm_\(N,N,2048,127,", result.stderr, re.M)) == 2048 // 127


def test_a_question_costs_little(block_sizes, preload, run):
    settings = {**HOST_DEVICES, "FLEETBLAS_OFFLOAD": "auto", "FLEETBLAS_SUMMARY": "/dev/null"}

    result = run([block_sizes, "cost", 4096], preload=preload, **settings)

    assert result.returncode == 0, result.stderr
    assert float(result.stdout) < LARGEST_COST_US
