# SPDX-License-Identifier: BSD-3-Clause
"""The verification of benchmarks: what it lets pass, and what it must not."""

import numpy as np
import pytest
from fleetblas import verify
from fleetblas._formulas import Form, formula_of
from fleetblas._routines import ROUTINES
from test_level3 import CASES, DTYPES, apply, every_flags, expected, random_array, triangle

SIZES = {"m": 90, "n": 80, "k": 70}


def case_of(routine, flags, dtype=np.float64, alpha=1.0, beta=1.0, **sizes):
    """A right result of any routine, with not a number in the triangles that do not count."""
    routine, g = ROUTINES[routine], np.random.default_rng(1)
    sizes = {**SIZES, **sizes}
    given = {name: sizes[name] for name in routine.sizes}
    edges = routine.edges(**given, side=flags.get("side", "l"))
    matrices = {
        name: np.asfortranarray(random_array(g, shape, dtype))
        for name, shape in routine.shapes(*edges, flags).items()
    }
    c0 = matrices.pop("c")
    if "side" in flags:
        a = matrices["a"]
        if routine.triangular:
            a /= max(1, len(a)) ** 0.5
            np.fill_diagonal(a, np.nan if flags["diag"] == "u" else a.diagonal() + 1.5)
        matrices["a"] = np.asfortranarray(triangle(a, flags["uplo"], np.nan))
    if routine.triangle:
        c0 = np.asfortranarray(triangle(c0, flags["uplo"], np.nan))
    other = c0 if routine.triangular else matrices.get("b")
    c = expected(routine, flags, alpha, beta, matrices["a"], other, c0).astype(dtype)
    if routine.triangle:
        c = triangle(c, flags["uplo"], np.nan)
    matrices.update({"c0": c0, "c": np.asfortranarray(c)})
    return verify.Case(formula_of(routine.word, flags, alpha, beta), matrices)


def product(dtype=np.float64, transa="n", transb="n", alpha=1.0, beta=1.0, **sizes):
    flags = {"transa": transa, "transb": transb}
    return case_of("gemm", flags, dtype, alpha, beta, **sizes)


def judged(p, everything=False):
    return verify.verify(p, np.random.default_rng(2), everything)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("ops", ["nn", "tn", "ct", "nc"])
@pytest.mark.parametrize("everything", [False, True])
def test_a_right_product_passes(dtype, ops, everything):
    verdict = judged(product(dtype, *ops, alpha=-2.0, beta=0.5), everything)
    assert verdict.ok
    assert 0 < verdict.error < 4


def test_one_wrong_element_anywhere_is_noticed_by_the_residual():
    p = product(m=300, n=300)
    c = p.matrices["c"]
    rows = np.random.default_rng(3).integers(0, 300, 20)
    for row in rows:
        c[row, (7 * row) % 300] += 1e-9
        assert not judged(p).ok
        c[row, (7 * row) % 300] -= 1e-9


def test_a_missing_step_of_k_is_noticed_in_every_type():
    for dtype in (np.float32, np.complex128):
        p = product(dtype, beta=0.0)
        a, b = p.matrices["a"], p.matrices["b"]
        p.matrices["c"] = np.asfortranarray(a[:, :-1] @ b[:-1])
        verdict = judged(p, everything=True)
        assert not verdict.ok
        assert verdict.error > 100


def test_not_a_number_in_the_result_is_no_pass():
    p = product()
    p.matrices["c"][3, 4] = np.nan
    assert not judged(p).ok


def test_c_before_the_product_does_not_count_when_beta_is_zero():
    p = product(beta=0.0)
    p.matrices["c0"][...] = np.nan
    assert judged(p).ok


def test_the_error_is_in_units_of_eps_k_and_the_largest_elements():
    p = product(m=10, n=10, k=4, beta=0.0)
    a, b, c = (p.matrices[name] for name in "abc")
    a[...], b[...] = 2.0, 3.0
    c[...] = 24.0
    c[0, 0] += 5 * 4 * 2.0 * 3.0 * np.finfo(np.float64).eps * 16  # a multiple of eps at 24
    assert judged(p, everything=True).error == 80


@pytest.mark.parametrize("shape", [(0, 5, 5), (5, 0, 5), (5, 5, 0)])
def test_empty_products_pass(shape):
    m, n, k = shape
    assert judged(product(m=m, n=n, k=k), everything=True).ok


def rounded(values, tf32):
    """To TF32's 11 significant bits, or as they are."""
    if not tf32:
        return values
    bits = values.view(np.uint32)
    return ((bits + np.uint32(2**12)) & np.uint32(2**32 - 2**13)).view(np.float32)


@pytest.mark.parametrize("tf32", [False, True])
@pytest.mark.parametrize("everything", [False, True])
def test_coarser_types_pass_and_a_missing_tile_of_them_does_not(tf32, everything):
    g = np.random.default_rng(7)
    m = n = 150
    k, tile = 600, 150
    dtype = np.float32 if tf32 else np.float16
    a, b, c0 = (
        np.asfortranarray(g.uniform(-1, 1, shape).astype(dtype))
        for shape in ((m, k), (k, n), (m, n))
    )
    left, right = (rounded(x, tf32).astype(np.float64) for x in (a, b))
    formula = formula_of("gemm", {"transa": "n", "transb": "n"}, 1.0, 0.5)

    def verdict(c):
        c = np.asfortranarray(c.astype(dtype))
        p = verify.Case(formula, {"a": a, "b": b, "c0": c0, "c": c})
        return verify.verify(p, np.random.default_rng(2), everything, tf32)

    assert verdict(left @ right + 0.5 * c0).ok
    missing = verdict(left[:, tile:] @ right[tile:] + 0.5 * c0)
    assert not missing.ok
    assert missing.error > 10 * missing.tolerance


# ---- routines with triangles --------------------------------------------------------------------


@pytest.mark.parametrize("word", [word for word in ROUTINES if word != "gemm"])
def test_a_right_result_of_every_routine_flag_and_type_passes(word):
    sizes = {"m": 70, "n": 66, "k": 20}  # more than are looked at
    for number, (_, letter, flags) in enumerate(case for case in CASES if case[0] == word):
        p = case_of(word, flags, DTYPES[letter], alpha=-2.0, beta=0.5, **sizes)
        verdict = judged(p, everything=number % 5 == 0)
        assert verdict.ok, (letter, flags, verdict)
        assert verdict.error > 0


@pytest.mark.parametrize("word", list(ROUTINES))
def test_one_wrong_element_that_counts_is_noticed_in_every_routine(word):
    flags = every_flags(ROUTINES[word])[-1]
    p = case_of(word, flags, np.complex128, m=100, n=100, k=20)
    counts = p.formula.c.counts(np.arange(100), np.arange(100))
    c, places = p.matrices["c"], np.argwhere(counts)
    assert judged(p).ok
    for i, j in np.random.default_rng(3).permutation(places)[:8]:
        kept = c[i, j]
        c[i, j] += 1e-8
        assert not judged(p).ok
        c[i, j] = kept
    c[i, j] += 1e-8
    assert not judged(p, everything=True).ok


def test_a_missing_step_is_noticed_in_single_precision_in_every_routine():
    # In trmm and trsm the last rows of A count for no others than the last of C.
    for word in ROUTINES:
        routine = ROUTINES[word]
        for flags in every_flags(routine):
            letter = "c" if routine.hermitian else "s"
            right = case_of(word, flags, DTYPES[letter], m=72, n=70, k=40)
            a = right.matrices["a"].copy()
            if "side" in flags:
                a = np.where(np.isnan(a), 0, a)
                a[40:, :20] = a[:20, 40:] = 0
            elif flags["transa"] == "n":
                a[:, 10:30] = 0
            else:
                a[10:30] = 0
            b = right.matrices["c0"] if routine.triangular else right.matrices.get("b")
            made = expected(routine, flags, 1.0, 1.0, a, b, right.matrices["c0"])
            kept = ~np.isnan(right.matrices["c"])
            right.matrices["c"][kept] = made.astype(DTYPES[letter])[kept]
            verdict = judged(right)
            assert not verdict.ok, (word, flags, verdict)


@pytest.mark.parametrize("word", [word for word in ROUTINES if ROUTINES[word].triangle])
def test_writing_where_nothing_counts_is_noticed(word):
    for uplo, letter in (("l", "t"), ("u", "n")):
        routine = ROUTINES[word]
        flags = {"uplo": uplo, "transa": "n", "transb": letter}
        flags = {name: flags[name] for name in routine.flags}
        p = case_of(word, flags, np.complex64, n=40)  # so few that each element is looked at
        assert judged(p).ok
        p.matrices["c"][(3, 17) if uplo == "l" else (17, 3)] = 1
        assert not judged(p).ok
        assert not judged(p, everything=True).ok


def test_a_solution_is_judged_by_its_residual_and_nothing_computed_is_none():
    flags = {"side": "l", "uplo": "l", "transa": "n", "diag": "n"}
    p = case_of("trsm", flags, alpha=3.0)
    assert judged(p, everything=True).ok
    p.matrices["c"][...] = p.matrices["c0"]
    assert not judged(p).ok
    p.matrices["c"][...] = 0
    assert not judged(p).ok


@pytest.mark.parametrize("uplo", "lu")
@pytest.mark.parametrize("kind", ["triangle", "symmetric", "hermitian"])
def test_a_form_is_the_same_in_pieces_as_in_one(uplo, kind):
    matrix = random_array(np.random.default_rng(5), (9, 9), np.complex128)
    form = Form(kind, uplo)
    whole = form.whole(matrix)
    signs = np.arange(9.0)

    class InPieces(verify.HostSource):
        def each(self, look):
            parts = [slice(0, 4), slice(4, 5), slice(5, 9)]
            return [look(part, self.matrix[:, part]) for part in parts]

    rows, columns = np.array([0, 4, 8]), np.array([1, 4, 7])
    for op in "ntc" if kind == "triangle" else "n":
        seen = verify.look_at(InPieces(matrix), op, signs, rows, columns, form)
        wanted = apply(op, whole)
        np.testing.assert_allclose(seen.product, wanted @ signs, rtol=1e-14)
        np.testing.assert_array_equal(seen.sample, wanted[rows][:, columns])
        assert seen.largest == np.abs(form.kept(matrix, 0)).max()
