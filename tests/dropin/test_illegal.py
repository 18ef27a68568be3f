# SPDX-License-Identifier: BSD-3-Clause
"""Illegal arguments: the error handler that the program brings is told the reference's routine name
and position, nothing is touched, and without such a handler all is as without us."""

import re

import pytest

OWN = ["-DOWN_XERBLA", "-DOWN_CBLAS_XERBLA"]
# The arguments of each routine in order; the first position of a CBLAS call is the layout's.
ARGUMENTS = {
    "gemm": "transa transb m n k alpha a lda b ldb beta c ldc",
    "gemmt": "uplo transa transb n k alpha a lda b ldb beta c ldc",
    "symm": "side uplo m n alpha a lda b ldb beta c ldc",
    "syrk": "uplo transa n k alpha a lda beta c ldc",
    "syr2k": "uplo transa n k alpha a lda b ldb beta c ldc",
    "trmm": "side uplo transa diag m n alpha a lda c ldc",
}
ARGUMENTS |= {
    "gemmtr": ARGUMENTS["gemmt"],
    "hemm": ARGUMENTS["symm"],
    "herk": ARGUMENTS["syrk"],
    "her2k": ARGUMENTS["syr2k"],
    "trsm": ARGUMENTS["trmm"],
}
# What illegal.c calls them.
LETTERS = {"S": "side", "U": "uplo", "A": "transa", "B": "transb", "D": "diag"}
LETTERS |= {"m": "m", "n": "n", "k": "k", "x": "lda", "y": "ldb", "z": "ldc"}


def corrected(text):
    """What the reference CBLAS says, without the slips of 3.11: wrong positions of two flags
    in row-major calls, and a cblas_ctrmm that goes on after an illegal Diag."""
    text = text.replace("2 <Illegal TransB", "3 <Illegal TransB")
    text = re.sub(r"(<cblas_ctrmm> 5 <Illegal Diag.*\n)  (cblas_)?xerbla.*\n", r"\1", text)
    return re.sub(r"(r2?k> )3( <Illegal Uplo)", r"\g<1>2\2", text)


@pytest.mark.parametrize("interface", ["fortran", "cblas"])
@pytest.mark.parametrize("own", [[], OWN[:1], OWN[1:], OWN])
def test_the_program_sees_what_the_reference_shows_it(
    interface, own, program, recorder, netlib, run
):
    illegal = program("illegal.c", *own, *netlib)

    reference = run([illegal, interface])
    ours = run([illegal, interface], preload=recorder, FLEETBLAS_OFFLOAD="always")

    assert ours.stdout == corrected(reference.stdout)
    assert ours.stderr == reference.stderr
    assert ours.returncode == reference.returncode
    assert "touched" not in ours.stdout
    assert ours.events == []


def events_of(output):
    """The call on one line -> what the handlers said about it."""
    told, call = {}, None
    for line in output.splitlines():
        if line.startswith("  "):
            told[call].append(line.strip())
        else:
            call = line
            told[call] = []
    return told


def spoiled_alone(told):
    """(front, type, routine, argument, layout) -> what was said, where one argument is spoiled."""
    found = {}
    for call, said in told.items():
        front, name, letter, layout = call.split()[:4]
        if letter in LETTERS:
            found[front, name[0], name[1:], LETTERS[letter], layout] = said
    return found


def test_each_position_is_the_one_in_the_reference_manual(program, recorder, netlib, run):
    illegal = program("illegal.c", *OWN, *netlib)

    told = {}
    for words in (["fortran"], ["fortran", "gemmt"]):
        told |= events_of(run([illegal, *words], preload=recorder).stdout)
    alone = spoiled_alone(told)

    assert len({routine for _, _, routine, _, _ in alone}) == len(ARGUMENTS)
    for (_, t, routine, argument, _), said in alone.items():
        position = ARGUMENTS[routine].split().index(argument) + 1
        name = f"{t}{routine}".upper().ljust(6)
        assert said == [f"xerbla <{name}> {position}"]


def test_cblas_judges_layout_and_flags_and_the_fortran_routine_the_rest(
    program, recorder, netlib, run
):
    illegal = program("illegal.c", *OWN, *netlib)

    told = {}
    for words in (["cblas"], ["cblas", "gemmt"]):
        told |= events_of(run([illegal, *words], preload=recorder).stdout)
    alone = spoiled_alone(told)

    layouts = [said for call, said in told.items() if " layout " in call]
    assert len(layouts) == 30 + 8
    assert all("> 1 <Illegal layout setting, 100>" in said for (said,) in layouts)
    # The column-major product of a row-major call has other sizes: the reference counts there.
    swapped = {"m": "n", "n": "m"}, {"m": "n", "n": "m", "lda": "ldb", "ldb": "lda"}
    for (_, t, routine, argument, layout), said in alone.items():
        arguments = ARGUMENTS[routine].split()
        flags = {"side": "Side", "uplo": "Uplo", "transb": "TransB", "diag": "Diag"}
        flags["transa"] = "TransA" if "transb" in arguments else "Trans"
        if argument in flags:
            position = arguments.index(argument) + 2
            what = f"Illegal {flags[argument]} setting, 120"
            assert said == [f"cblas_xerbla <cblas_{t}{routine}> {position} <{what}>"]
        else:
            turned = swapped["transb" in arguments] if layout == "101" else {}
            if "m" not in arguments:
                turned = {x: y for x, y in turned.items() if x.startswith("ld")}
            position = arguments.index(turned.get(argument, argument)) + 1
            assert said == [f"xerbla <{f'{t}{routine}'.upper().ljust(6)}> {position}"]


def test_handlers_for_the_reference_cblas_get_its_positions(program, recorder, netlib, run):
    illegal = program("illegal.c", OWN[1], *netlib)

    alone = spoiled_alone(events_of(run([illegal, "cblas"], preload=recorder).stdout))

    # The position in the column-major call plus one; the handler turns it round by RowMajorStrg.
    assert alone["cblas", "d", "gemm", "m", "101"] == ["cblas_xerbla <cblas_dgemm> 5 <>"]
    assert alone["cblas", "d", "gemm", "m", "102"] == ["cblas_xerbla <cblas_dgemm> 4 <>"]
    assert alone["cblas", "z", "trsm", "m", "101"] == ["cblas_xerbla <cblas_ztrsm> 7 <>"]
    assert alone["cblas", "z", "trsm", "m", "102"] == ["cblas_xerbla <cblas_ztrsm> 6 <>"]


def test_own_handlers_are_called_before_a_blas_that_binds_to_itself(program, recorder, blas, run):
    illegal = program("illegal.c", *OWN, *blas)

    fortran = events_of(run([illegal, "fortran"], preload=recorder).stdout)
    cblas = events_of(run([illegal, "cblas"], preload=recorder).stdout)

    assert len(fortran) > 1000 and len(cblas) > 2000
    assert all(len(told) == 1 and told[0].startswith("xerbla <") for told in fortran.values())
    assert all(len(told) == 1 for told in cblas.values())


def test_without_a_handler_or_a_blas_the_reference_message_is_printed(program, recorder, run):
    lonely = program("lonely.c", f"-L{recorder.parent}", "-lfleetblas_preload")
    result = run([lonely], LD_LIBRARY_PATH=recorder.parent)

    assert result.returncode == 0
    assert result.stderr.splitlines() == [
        " ** On entry to DGEMM parameter number  3 had an illegal value",
        "Parameter 4 to routine cblas_dgemm was incorrect",
    ]


def test_handlers_of_64_bit_names_get_64_bit_positions(program, recorder, run):
    # -rdynamic: there is no BLAS at link time whose wish for the handlers would export them.
    flags = ["-DOWN_HANDLERS", "-rdynamic", f"-L{recorder.parent}", "-lfleetblas_preload"]
    result = run([program("lonely.c", *flags)], LD_LIBRARY_PATH=recorder.parent)

    assert (result.returncode, result.stderr) == (0, "")
    # No reference CBLAS is loaded that could turn the position round: it is the one in the call.
    assert result.stdout.splitlines() == [
        "xerbla64_ <DGEMM > 3",
        "cblas_xerbla_64 <cblas_dgemm> 4",
    ]
