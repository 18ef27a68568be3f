# SPDX-License-Identifier: BSD-3-Clause
"""Illegal arguments: the error handler that the program brings is told the reference's routine name
and position, nothing is touched, and without such a handler all is as without us."""

import pytest

OWN = ["-DOWN_XERBLA", "-DOWN_CBLAS_XERBLA"]
# The reference CBLAS up to 3.11 gives position 2 for an illegal TransB of a row-major call; later
# ones, and we, give 3.
OLD_POSITION = ("2 <Illegal TransB", "3 <Illegal TransB")


@pytest.mark.parametrize("interface", ["fortran", "cblas"])
@pytest.mark.parametrize("own", [[], OWN[:1], OWN[1:], OWN])
def test_the_program_sees_what_the_reference_shows_it(
    interface, own, program, recorder, netlib, run
):
    illegal = program("illegal.c", *own, *netlib)

    reference = run([illegal, interface])
    ours = run([illegal, interface], preload=recorder, FLEETBLAS_OFFLOAD="always")

    assert ours.stdout == reference.stdout.replace(*OLD_POSITION)
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


def test_each_position_is_the_one_in_the_reference_manual(program, recorder, netlib, run):
    illegal = program("illegal.c", *OWN, *netlib)

    fortran = events_of(run([illegal, "fortran"], preload=recorder).stdout)
    cblas = events_of(run([illegal, "cblas"], preload=recorder).stdout)

    for t in "sdcz":
        told = f"xerbla <{t.upper()}GEMM >"
        assert fortran[f"fortran {t} xN 2 2 2 ld 4 4 4"] == [f"{told} 1"]
        assert fortran[f"fortran {t} N/ 2 2 2 ld 4 4 4"] == [f"{told} 2"]
        assert fortran[f"fortran {t} nn -1 2 3 ld 4 4 4"] == [f"{told} 3"]
        assert fortran[f"fortran {t} nn 2 -1 3 ld 4 4 4"] == [f"{told} 4"]
        assert fortran[f"fortran {t} nn 2 3 -1 ld 4 4 4"] == [f"{told} 5"]
        assert fortran[f"fortran {t} nn 4 3 2 ld 1 4 4"] == [f"{told} 8"]
        assert fortran[f"fortran {t} nn 4 3 2 ld 4 1 4"] == [f"{told} 10"]
        assert fortran[f"fortran {t} nn 4 3 2 ld 4 4 1"] == [f"{told} 13"]
    order = "cblas_xerbla <cblas_dgemm> 1 <Illegal layout setting, 100>"
    assert cblas["cblas d 100 111 111 2 2 2 ld 4 4 4"] == [order]
    # The column-major product of a row-major call has n first: the reference counts there.
    assert cblas["cblas d 101 111 111 -1 2 3 ld 4 4 4"] == ["xerbla <DGEMM > 4"]
    assert cblas["cblas d 102 111 111 -1 2 3 ld 4 4 4"] == ["xerbla <DGEMM > 3"]


def test_handlers_for_the_reference_cblas_get_its_positions(program, recorder, netlib, run):
    illegal = program("illegal.c", OWN[1], *netlib)

    cblas = events_of(run([illegal, "cblas"], preload=recorder).stdout)

    # The position in the column-major call plus one; the handler turns it round by RowMajorStrg.
    assert cblas["cblas d 101 111 111 -1 2 3 ld 4 4 4"] == ["cblas_xerbla <cblas_dgemm> 5 <>"]
    assert cblas["cblas d 102 111 111 -1 2 3 ld 4 4 4"] == ["cblas_xerbla <cblas_dgemm> 4 <>"]


def test_own_handlers_are_called_before_a_blas_that_binds_to_itself(program, recorder, blas, run):
    illegal = program("illegal.c", *OWN, *blas)

    fortran = events_of(run([illegal, "fortran"], preload=recorder).stdout)
    cblas = events_of(run([illegal, "cblas"], preload=recorder).stdout)

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
