# SPDX-License-Identifier: BSD-3-Clause
"""The routines with triangles against NumPy in higher precision: every flag and type, in every
layout; what must not be read, what must not be written, and what is refused."""

import itertools

import fleetblas
import numpy as np
import pytest
from fleetblas._routines import ROUTINES

WORDS = [word for word in ROUTINES if word != "gemm"]
WIDE = {"f": np.longdouble, "c": np.clongdouble}
NAN = float("nan")


def random_array(g, shape, dtype):
    values = g.uniform(-1, 1, shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * g.uniform(-1, 1, shape)
    return values.astype(dtype)


def in_layout(g, array, frame=NAN):
    """The same values in memory as C, Fortran, inside a larger array of `frame`, or strided."""
    rows, columns = array.shape
    choice = g.integers(5)
    if choice < 2:
        return np.array(array, order="CF"[choice])
    step = 2 if choice == 4 else 1
    board = np.full((rows + 4, step * columns + 5), frame, array.dtype, order="CF"[choice % 2])
    view = board[1 : rows + 1, 2 : step * columns + 2 : step]
    view[...] = array
    return view


def apply(op, matrix):
    return {"n": matrix, "t": matrix.T, "c": matrix.conj().T}[op]


def triangle(matrix, uplo, value=0):
    """The triangle, and the rest of this value."""
    lower = np.tri(len(matrix), dtype=bool)
    return np.where(lower if uplo == "l" else lower.T, matrix, value)


def real_diagonal(matrix):
    made = matrix.copy()
    np.fill_diagonal(made, made.diagonal().real)
    return made


def whole(matrix, flags, routine):
    """What A stands for, in the words of the reference."""
    stored = triangle(matrix, flags["uplo"])
    if routine.triangular:
        if flags["diag"] == "u":
            np.fill_diagonal(stored, 1)
        return stored
    mirrored = stored.conj().T if routine.hermitian else stored.T
    made = stored + mirrored
    np.fill_diagonal(made, stored.diagonal())
    return real_diagonal(made) if routine.hermitian else made


def expected(routine, flags, alpha, beta, a, b, c):
    """The result by the definition; of trmm and trsm b is what is updated."""
    a, b, c = (None if x is None else x.astype(WIDE[x.dtype.kind]) for x in (a, b, c))
    if "side" in flags:
        left, right = apply(flags.get("transa", "n"), whole(a, flags, routine)), b
        if routine.word == "trsm":
            return solved(left, alpha * b, flags["side"])
        product = left @ right if flags["side"] == "l" else right @ left
        return alpha * product + (0 if beta == 0 or routine.triangular else beta * c)
    if not routine.by_itself:
        made = alpha * (apply(flags["transa"], a) @ apply(flags["transb"], b))
    else:
        x = a if flags["transa"] == "n" else apply(flags["transa"], a)
        y = x if b is None else (b if flags["transa"] == "n" else apply(flags["transa"], b))
        made = alpha * (x @ apply(routine.turned, y))
        if routine.twice:
            conjugate = np.conj(alpha) if routine.hermitian else alpha
            made = made + conjugate * (y @ apply(routine.turned, x))
    before = real_diagonal(c) if routine.hermitian and beta != 0 else c
    return made + (0 if beta == 0 else beta * before)


def solved(a, b, side):
    """X with a @ X = b, or X @ a = b, by substitution in the type of a."""
    if side == "r":
        return solved(a.T, b.T, "l").T
    x = np.array(b)
    lower = not np.triu(a, 1).any()
    for i in range(len(a)) if lower else reversed(range(len(a))):
        x[i] = (x[i] - a[i] @ np.where(np.arange(len(a))[:, None] == i, 0, x)) / a[i, i]
    return x


def every_flags(routine):
    return [
        dict(zip(routine.flags, letters))
        for letters in itertools.product(*map(routine.letters, routine.flags))
    ]


CASES = [
    (word, letter, flags)
    for word in WORDS
    for letter in ROUTINES[word].types
    for flags in every_flags(ROUTINES[word])
]
DTYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}


def named(routine, flags):
    """Flags as the functions name them."""
    if not routine.by_itself:
        return flags
    return {"uplo": flags["uplo"], "trans": flags["transa"]}


def made(g, routine, flags, dtype, m, n, k):
    """Random A, B and C, with not a number where the reference does not look."""
    m, n, k = routine.edges(
        *(size if name in routine.sizes else None for name, size in zip("mnk", (m, n, k))),
        side=flags.get("side", "l"),
    )
    arrays = {
        name: random_array(g, shape, dtype)
        for name, shape in routine.shapes(m, n, k, flags).items()
    }
    if "side" in flags:
        a = arrays["a"]
        if routine.triangular:
            # Else the solution grows with every row.
            a /= max(1, len(a)) ** 0.5
            np.fill_diagonal(a, NAN if flags["diag"] == "u" else a.diagonal() + 1.5)
        arrays["a"] = triangle(a, flags["uplo"], NAN)
    if routine.hermitian:
        np.fill_diagonal(arrays["a" if routine.symmetric else "c"].imag, NAN)
    return arrays, k


def scalars(g, routine, dtype):
    values = [complex(x, y) for x, y in zip(g.choice([0, 1, -0.5, 2], 2), g.uniform(-1, 1, 2))]
    for i, name in enumerate(("alpha", "beta")):
        if np.dtype(dtype).kind != "c" or name in routine.real or values[i].real in (0, 1):
            values[i] = values[i].real
    return values


def assert_near(found, wanted, k):
    tolerance = 20 * max(1, k) * np.finfo(found.dtype).eps
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=4 * tolerance)


def test_every_routine_is_there():
    assert len(CASES) == 4 * (18 + 4 + 4 + 4 + 24 + 24) + 2 * (4 + 4 + 4)
    for word in WORDS:
        assert getattr(fleetblas, word).__doc__
        assert word in fleetblas.__all__


@pytest.mark.parametrize("word", WORDS)
def test_every_flag_and_type_is_what_numpy_computes_in_every_layout(word):
    routine = ROUTINES[word]
    for number, (_, letter, flags) in enumerate(case for case in CASES if case[0] == word):
        g = np.random.default_rng([number, WORDS.index(word)])
        dtype = DTYPES[letter]
        for m, n, k in (g.integers(1, 50, 3), g.integers(0, 3, 3)):
            arrays, depth = made(g, routine, flags, dtype, int(m), int(n), int(k))
            alpha, beta = scalars(g, routine, dtype)
            if routine.hermitian and beta == 1 and (depth == 0 or alpha == 0):
                np.fill_diagonal(arrays["c"].imag, 0)  # BLAS leaves such a C as it is
            other = arrays["c"] if routine.triangular else arrays.get("b")
            wanted = expected(routine, flags, alpha, beta, arrays["a"], other, arrays["c"])
            given = {name: in_layout(g, array) for name, array in arrays.items()}
            kept = {name: array.copy() for name, array in given.items()}
            out = in_layout(g, np.full(arrays["c"].shape, 7, dtype), 7) if number % 2 else None
            words = {**named(routine, flags), "alpha": alpha, "out": out}
            if routine.triangular:
                found = getattr(fleetblas, word)(given["a"], given["c"], **words)
            else:
                found = getattr(fleetblas, word)(*given.values(), beta=beta, **words)

            note = f"{letter}{word} {flags} {m} {n} {k} alpha={alpha} beta={beta}"
            assert found.dtype == dtype, note
            assert out is None or found is out, note
            if routine.triangle:
                wanted = triangle(wanted, flags["uplo"], 0 if out is None else 7)
            np.testing.assert_equal(np.isfinite(found).all(), True, note)
            assert_near(found, wanted, depth)
            for name, array in given.items():
                np.testing.assert_array_equal(array, kept[name], note)
            if out is not None and out.base is not None:
                board = out.base
                out[...] = 7
                assert (board == 7).all(), note


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("order", "CF")
def test_c_in_place_keeps_its_other_triangle_and_what_is_around_it(word, order):
    routine = ROUTINES[word]
    g = np.random.default_rng(3)
    for flags in every_flags(routine):
        arrays, depth = made(g, routine, flags, np.complex128, 40, 33, 25)
        c = arrays["c"]
        if routine.triangle:
            c = triangle(c, flags["uplo"], NAN)
        wanted = expected(
            routine, flags, 2, 0.5, arrays["a"], c if routine.triangular else arrays.get("b"), c
        )
        board = np.full((c.shape[0] + 5, c.shape[1] + 7), 7j, c.dtype, order=order)
        inside = board[2:-3, 3:-4]
        inside[...] = c
        factors = [np.array(arrays[name], order=order) for name in routine.operands[:-1]]
        words = named(routine, flags)
        if routine.triangular:
            found = getattr(fleetblas, word)(*factors, inside, alpha=2, out=inside, **words)
        else:
            found = getattr(fleetblas, word)(
                *factors, inside, alpha=2, beta=0.5, out=inside, **words
            )
        assert found is inside
        if routine.triangle:
            assert np.isnan(triangle(inside, "u" if flags["uplo"] == "l" else "l")).sum() == (
                len(c) * (len(c) - 1) // 2
            )
            wanted = triangle(wanted, flags["uplo"])
            assert_near(triangle(inside, flags["uplo"]), wanted, depth)
        else:
            assert_near(inside.copy(), wanted, depth)
        inside[...] = 7j
        assert (board == 7j).all()


def test_a_result_in_the_order_of_its_operands_copies_none_of_them(monkeypatch):
    from fleetblas import _interop, _level3

    def refuse(array, why):
        raise AssertionError(why)

    monkeypatch.setattr(_level3, "refuse_copy", refuse)
    monkeypatch.setattr(_interop, "refuse_copy", refuse)
    g = np.random.default_rng(4)
    for word, order in itertools.product(WORDS, "CF"):
        routine = ROUTINES[word]
        for flags in every_flags(routine):
            arrays, _ = made(g, routine, flags, np.complex64, 20, 20, 20)
            given = [np.array(arrays[name], order=order) for name in routine.operands]
            getattr(fleetblas, word)(*given[: 2 if routine.has_b or routine.triangular else 1],
                                     **named(routine, flags))  # fmt: skip


def test_not_a_number_in_what_counts_reaches_the_result():
    a, b = np.eye(6), np.ones((6, 4))
    a[5, 1] = NAN
    assert np.isnan(fleetblas.symm(a, b)).sum() == 2 * 4
    assert np.isnan(fleetblas.symm(a, b, uplo="u")).sum() == 0
    assert np.isnan(fleetblas.trmm(a, b)).sum() == 4
    assert np.isnan(fleetblas.trmm(a, b, transa="t")).sum() == 4
    assert np.isnan(fleetblas.trsm(a, b)).sum() == 4


def test_alpha_zero_reads_neither_factor():
    a, b, c = np.full((5, 5), NAN), np.full((5, 5), NAN), np.ones((5, 5))
    for word in WORDS:
        routine = ROUTINES[word]
        if routine.hermitian:
            continue
        if routine.triangular:
            found = getattr(fleetblas, word)(a, b, alpha=0)
        else:
            factors = (a, b) if routine.has_b else (a,)
            found = getattr(fleetblas, word)(*factors, c, alpha=0, beta=1)
        wanted = 0 if routine.triangular else np.tri(5) if routine.triangle else 1
        assert (found == wanted).all(), word


SQUARE, TALL = np.ones((3, 3)), np.ones((3, 2))


@pytest.mark.parametrize(
    ("word", "arguments", "keywords", "exception", "said"),
    [
        ("symm", (TALL, TALL), {}, ValueError, "a has shape"),
        ("symm", (SQUARE, TALL), {"side": "r"}, ValueError, "a has shape"),
        ("symm", (SQUARE, TALL), {"side": "x"}, ValueError, "side 'x' is none of 'l', 'r'"),
        ("symm", (SQUARE, TALL), {"uplo": "lower"}, ValueError, "uplo 'lower'"),
        ("symm", (SQUARE, TALL), {"beta": 1}, ValueError, "c is not given"),
        ("hemm", (SQUARE, TALL), {}, TypeError, "known: complex64, complex128"),
        ("syrk", (TALL,), {"trans": "c"}, ValueError, "trans 'c' is none of 'n', 't'"),
        ("herk", (TALL * 1j,), {"trans": "t"}, ValueError, "trans 't' is none of 'n', 'c'"),
        ("herk", (TALL * 1j,), {"alpha": 1j}, TypeError, "alpha is complex, but real in herk"),
        ("her2k", (TALL * 1j,) * 2, {"beta": 1j}, TypeError, "beta is complex"),
        ("syr2k", (TALL, SQUARE), {}, ValueError, "b has shape"),
        ("syrk", (TALL, TALL), {"beta": 1}, ValueError, "c has shape"),
        ("syrk", (TALL,), {"out": TALL}, ValueError, "out has shape"),
        ("syrk", (TALL.astype(np.float16),), {}, TypeError, "not of float16"),
        ("gemmt", (TALL, SQUARE), {}, ValueError, "b has shape"),
        ("trmm", (SQUARE, TALL), {"diag": "y"}, ValueError, "diag 'y'"),
        ("trsm", (SQUARE, np.ones(3)), {}, ValueError, "1 dimensions"),
        ("trsm", (TALL, TALL), {}, ValueError, "a has shape"),
        ("trsm", (SQUARE, TALL), {"alpha": 1j}, TypeError, "alpha is complex"),
    ],
)
def test_what_makes_no_sense_is_refused(word, arguments, keywords, exception, said):
    with pytest.raises(exception, match=said):
        getattr(fleetblas, word)(*arguments, **keywords)
