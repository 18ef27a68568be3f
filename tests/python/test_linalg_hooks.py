# SPDX-License-Identifier: BSD-3-Clause
"""Linear algebra of unmodified programs: NumPy's and SciPy's functions are taken over under
`fleetblas run` and in offload(), where it is worth it, and nothing else of the program changes."""

import pathlib
import shutil
import sys

import fleetblas
import pytest

# Notes the functions of lapack.h that are called, and gives what is in place of NumPy's functions.
SPY = """
import sys, numpy as np
from numpy.linalg import solve
called = []
def spy():
    from fleetblas import _lapack
    call = _lapack.call
    def noting(context, dtype, name, *values):
        called.append(_lapack.letter_of(dtype) + name)
        return call(context, dtype, name, *values)
    _lapack.call = noting
def kind():
    return type(np.linalg._umath_linalg.solve).__name__
rng = np.random.default_rng(1)
a, b = rng.standard_normal((40, 40)) + 40 * np.eye(40), rng.standard_normal((40, 3))
"""
WATCHED = SPY + "spy()\n"


def passes(done):
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("passed"), done.stdout


@pytest.fixture
def run_program(cli):
    """Runs code under `fleetblas run`."""

    def run(code, *words, **settings):
        return cli("run", "--", sys.executable, *words, "-c", code, **settings)

    return run


def test_names_taken_from_numpy_are_served(run_program):
    passes(
        run_program(
            WATCHED
            + """
x = solve(a, b)
assert np.allclose(a @ x, b) and x.dtype == float and x.flags.c_contiguous
assert kind() == "StandIn" and called == ["dsolve"], called
print("passed")
"""
        )
    )


def test_nothing_of_the_package_is_imported_before_it_is_needed(run_program):
    passes(
        run_program(
            """
import sys, numpy, json
assert "fleetblas" not in sys.modules and "ctypes.util" not in sys.modules
assert not any("hooks" in entry for entry in sys.path), sys.path
print("passed")
"""
        )
    )


def test_small_matrices_stay_with_numpy(run_program):
    passes(
        run_program(
            SPY
            + """
solve(a, b)
assert kind() == "StandIn"
assert "fleetblas" not in sys.modules  # nobody was asked
print("passed")
""",
            FLEETBLAS_OFFLOAD="",
        )
    )


def test_flops_below_the_limit_stay_with_numpy(run_program):
    code = WATCHED + "solve(a, b); np.linalg.inv(a); print(called); print('passed')"
    # A solution of 40 x 40 with 3 right sides has 52,267 flops; an inverse has 128,000.
    done = run_program(code, FLEETBLAS_OFFLOAD="auto", FLEETBLAS_MIN_FLOPS="100000")
    passes(done)
    assert done.stdout.startswith("['dinverse']")


def test_a_large_matrix_that_reflectors_are_applied_to_is_enough(run_program):
    pytest.importorskip("scipy.linalg")
    code = """
from scipy.linalg import lapack
np.linalg.inv(np.eye(70))  # asks the library what is too small
qr, tau, _, _ = lapack.dgeqrf(rng.standard_normal((40, 4)))
c = rng.standard_normal((40, 1000))
kept = c.copy()
called.clear()
found, _, info = lapack.dormqr("L", "T", qr, tau, c, 1000)
assert called == ["dormqr"] and info == 0, called
assert np.allclose(np.linalg.norm(found, axis=0), np.linalg.norm(c, axis=0))
assert np.array_equal(c, kept)
print("passed")
"""
    # The product has 640,000 flops, and the reflectors 160 elements.
    done = run_program(WATCHED + code, FLEETBLAS_OFFLOAD="auto", FLEETBLAS_MIN_FLOPS="600000")
    passes(done)


def test_a_setting_turns_it_off(run_program, script):
    passes(
        run_program(
            WATCHED + "solve(a, b); assert kind() == 'ufunc' and not called; print('passed')",
            FLEETBLAS_LINALG="0",
        )
    )
    passes(
        script(
            WATCHED
            + """
import fleetblas
with fleetblas.offload():
    solve(a, b)
    assert kind() == "ufunc" and not called
print("passed")
""",
            FLEETBLAS_LINALG="0",
        )
    )


def test_offload_does_and_undoes_it(script):
    passes(
        script(
            WATCHED
            + """
import fleetblas
original = np.linalg._umath_linalg.solve
with fleetblas.offload():
    kept = np.linalg._umath_linalg.solve
    with fleetblas.offload():
        solve(a, b)
    assert kind() == "StandIn" and called == ["dsolve"], called
    x = solve(a, b)
assert np.linalg._umath_linalg.solve is original
assert len(called) == 2 and np.allclose(a @ x, b)
solve(a, b)
kept(a, b)  # held by somebody, it is NumPy's again
assert len(called) == 2
with fleetblas.offload():
    kept(a, b)
    assert len(called) == 3
print("passed")
"""
        )
    )


def test_the_users_own_sitecustomize_runs(run_program, tmp_path, monkeypatch):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys\nsys.came_by = __file__\n")
    monkeypatch.setenv("PYTHONPATH", str(own), prepend=":")
    code = "import sys, sitecustomize as s; print(sys.came_by); print(s.__file__); import numpy"
    done = run_program(code + "\nprint(type(numpy.linalg._umath_linalg.inv).__name__)")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(own / "sitecustomize.py")] * 2 + ["StandIn"]


def test_errors_in_the_users_sitecustomize_are_reported_as_ever(run_program, tmp_path, monkeypatch):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("raise KeyError('their fault')\n")
    monkeypatch.setenv("PYTHONPATH", str(own), prepend=":")
    done = run_program("print('passed')")
    passes(done)
    assert "their fault" in done.stderr


def test_children_are_served_too(run_program):
    code = "import subprocess, sys; print(subprocess.run([sys.executable, '-c', sys.argv[1]]))"
    done = run_program("import sys; sys.argv.append(%r)\n" % (WATCHED + "print(kind())") + code)
    assert "StandIn" in done.stdout, done.stderr


@pytest.mark.parametrize("words", [("-I",), ("-S",), ("-E",)])
def test_interpreters_without_sitecustomize_work(run_program, words):
    done = run_program("print('passed')", *words)
    passes(done)


def test_an_error_of_the_package_leaves_the_program_alone(run_program):
    passes(
        run_program(
            SPY
            + """
from fleetblas import _lapack
def broken(*values):
    raise RuntimeError("no more of this")
_lapack.call = broken
assert np.allclose(a @ solve(a, b), b)
p = a.copy()
q, r = np.linalg.qr(a)
assert np.allclose(q @ r, p) and np.array_equal(a, p)
print("passed")
"""
        )
    )


def test_a_package_that_cannot_be_imported_leaves_the_program_alone(run_program):
    done = run_program(
        SPY
        + """
sys.modules["fleetblas"] = None  # cannot be imported
assert np.allclose(a @ solve(a, b), b)
print("passed")
"""
    )
    passes(done)


def test_functions_keep_what_numpy_gives_them(run_program):
    passes(
        run_program(
            WATCHED
            + """
import pickle
u = np.linalg._umath_linalg
assert u.solve.signature == "(m,m),(m,n)->(m,n)" and u.det.nin == 1
assert "ufunc 'det'" in repr(u.det) and u.det.__doc__
assert pickle.loads(pickle.dumps(u.det)) is u.det
# Called in ways that only NumPy knows.
out = np.empty((40, 40))
assert u.inv(a, out=out) is out and np.allclose(out @ a, np.eye(40))
assert np.allclose(u.inv(a, axes=[(1, 0), (1, 0)]), np.linalg.inv(a))
assert np.allclose(u.det(a.tolist(), signature="d->d"), np.linalg.det(a))
try:
    u.inv(a, signature="q->q")
except TypeError:
    print("passed")
"""
        )
    )


def test_error_states_are_numpys(run_program):
    passes(
        run_program(
            WATCHED
            + """
import warnings
u, zero = np.linalg._umath_linalg, np.zeros((2, 3, 3))
zero[1] = np.eye(3)
for name in ("inv", "cholesky_lo"):
    function = getattr(u, name)
    with np.errstate(invalid="ignore"):
        x = function(zero)
    assert np.isnan(x[0]).all() == (name == "inv") or np.isnan(x[0]).any(), name
    assert np.array_equal(x[1], np.eye(3))
    with np.errstate(invalid="raise"):
        try:
            function(zero)
        except FloatingPointError:
            pass
        else:
            raise AssertionError(name)
    with warnings.catch_warnings(record=True) as seen, np.errstate(invalid="warn"):
        warnings.simplefilter("always")
        function(zero)
    assert len(seen) == 1 and seen[0].category is RuntimeWarning, seen
for call, text in (
    (lambda: np.linalg.solve(zero, np.ones((1, 3, 1))), "Singular matrix"),
    (lambda: np.linalg.solve(zero[0], np.ones(3)), "Singular matrix"),
    (lambda: np.linalg.inv(zero), "Singular matrix"),
    (lambda: np.linalg.cholesky(-zero), "Matrix is not positive definite"),
):
    try:
        call()
    except np.linalg.LinAlgError as error:
        assert str(error) == text
    else:
        raise AssertionError(text)
assert called and np.array_equal(np.linalg.det(zero), [0, 1])
print("passed")
"""
        )
    )


FUNCTIONS = """
def near(x, y):
    x, y = (tuple(v) if isinstance(v, tuple) else (v,) for v in (x, y))
    return len(x) == len(y) and all(np.allclose(p, q, rtol=rtol, atol=rtol) and
        np.shape(p) == np.shape(q) and np.asarray(p).dtype == np.asarray(q).dtype
        for p, q in zip(x, y))
import itertools, fleetblas
for dtype, order in itertools.product("fdFD", "CF"):
    rtol = 1e-10  # NumPy computes all types in double
    if dtype in "fF": rtol = 1e-4
    m = rng.standard_normal((40, 40)) + (1j * rng.standard_normal((40, 40)) if dtype in "FD" else 0)
    m = np.array((m + 9 * np.eye(40)) / 9, dtype, order=order)
    p = np.array(m @ m.conj().T + np.eye(40), dtype, order=order)
    tall, stack = np.tile(m, (3, 1)) + np.arange(120)[:, None], np.stack([m, p])
    right = np.array(m[:, :7])
    calls = [
        (np.linalg.solve, m, right), (np.linalg.solve, m, right[:, 0]),
        (np.linalg.solve, stack, right[np.newaxis]),
        (np.linalg.inv, m), (np.linalg.inv, stack), (np.linalg.cholesky, p), (np.linalg.det, m),
        (np.linalg.slogdet, m), (np.linalg.slogdet, stack), (np.linalg.qr, m), (np.linalg.qr, tall),
        (np.linalg.qr, tall, "complete"), (np.linalg.qr, tall.T), (np.linalg.qr, tall, "r"),
        (np.linalg.qr, tall, "raw"), (np.linalg.lstsq, m, right, None),
        (np.linalg.lstsq, tall, np.tile(right, (3, 1)), None),
        (np.linalg.lstsq, tall.T, right, None),
    ]
    expected = [function(*values) for function, *values in calls]
    with fleetblas.offload():
        for (function, *values), result in zip(calls, expected):
            before, kept = len(called), [np.array(v) for v in values]
            found = function(*values)
            assert near(found, result), (function, dtype, order)
            assert all(np.array_equal(v, k) for v, k in zip(values, kept)), function
            assert len(called) > before or function is np.linalg.lstsq and values[0] is m, function
print("passed")
"""


def test_all_functions_of_all_types_give_what_numpy_gives(script):
    passes(script(WATCHED + FUNCTIONS))


def test_the_package_is_found_where_the_program_has_no_path_to_it(run_program):
    passes(
        run_program(
            """
import importlib.util, os, sys
sys.path = [entry for entry in sys.path if not os.path.isdir(os.path.join(entry, "fleetblas"))]
assert importlib.util.find_spec("fleetblas") is None
"""
            + SPY
            + """
assert np.allclose(a @ solve(a, b), b)
assert "fleetblas.linalg._served" in sys.modules
print("passed")
"""
        )
    )


def test_forked_pools_compute(run_program):
    passes(
        run_program(
            WATCHED
            + """
import multiprocessing
x = solve(a, b)
def work(i):
    return float(np.abs(solve(a, b) - x).max())
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert max(pool.map(work, range(8))) < 1e-12
print("passed")
"""
        )
    )


def test_it_works_while_the_interpreter_ends(run_program):
    passes(
        run_program(
            WATCHED
            + """
import atexit
def last():
    big = np.eye(700) * 2
    assert np.allclose(np.linalg.inv(big.T), np.eye(700) / 2)
    print("passed", flush=True)
atexit.register(last)
"""
        )
    )


def test_least_squares_without_a_result_raise_as_numpys_do(script):
    passes(
        script(
            WATCHED
            + """
import fleetblas
tall = np.ones((90, 20))
tall[3, 4] = np.nan
with fleetblas.offload():
    for matrix in (tall, tall.T):
        try:
            np.linalg.lstsq(matrix, np.ones(len(matrix)), rcond=None)
        except np.linalg.LinAlgError as error:
            assert "did not converge" in str(error)
        else:
            raise AssertionError(matrix.shape)
assert "dgeqrf" in called
print("passed")
"""
        )
    )


def test_reports_of_determinants_are_numpys(script):
    passes(
        script(
            WATCHED
            + """
import fleetblas, warnings
u = np.linalg._umath_linalg
def reports(name, matrix, state):
    with warnings.catch_warnings(record=True) as seen, np.errstate(all=state):
        warnings.simplefilter("always")
        try:
            found = getattr(np.linalg, name)(matrix)
        except FloatingPointError as error:
            return str(error)
    return sorted(str(each.message) for each in seen), np.isnan(found).any(), np.abs(found).max()
cases = [1e30 * a, 1e-30 * a, np.zeros((4, 4)), a / 40, np.stack([a / 40, 1e30 * a])]
cases += [1e30 * (a + 1j * np.diag(b[:, 0])), 1e-30j * a, (1e5 * a).astype("f")]
calls = [(name, m, s) for name in ("det", "slogdet") for m in cases for s in ("warn", "raise")]
expected = [reports(*call) for call in calls]
assert any("overflow" in str(each) for each in expected)
assert any("underflow" in str(each) for each in expected)
with fleetblas.offload():
    for call, result in zip(calls, expected):
        found = reports(*call)
        if isinstance(result, str):
            assert found == result, (call, found, result)
        else:
            assert found[:2] == result[:2] and np.isclose(found[2], result[2], equal_nan=True), (
                call, found, result)
assert len(called) >= len(calls)
print("passed")
"""
        )
    )


@pytest.mark.parametrize("word", ["0", "off", "false", "no"])
def test_words_that_turn_it_off_are_those_of_the_library(run_program, word):
    passes(run_program(SPY + "assert kind() == 'ufunc'; print('passed')", FLEETBLAS_LINALG=word))


def test_the_users_own_sitecustomize_runs_where_the_hook_fails(script, tmp_path, monkeypatch):
    own, hooks = tmp_path / "own", tmp_path / "hooks"
    for folder in (own, hooks):
        folder.mkdir()
    (own / "sitecustomize.py").write_text("import sys\nsys.came_by = __file__\n")
    (hooks / "_fleetblas_hook.py").write_text("raise RuntimeError('broken')\n")
    shutil.copy(pathlib.Path(fleetblas.__file__).parent / "hooks" / "sitecustomize.py", hooks)
    monkeypatch.setenv("PYTHONPATH", f"{hooks}:{own}", prepend=":")
    done = script("import sys, sitecustomize as s; print(sys.came_by, s.__file__); print(sys.path)")
    assert done.returncode == 0, done.stderr
    words, path = done.stdout.splitlines()
    assert words.split() == [str(own / "sitecustomize.py")] * 2
    assert str(hooks) not in path


def test_a_fork_while_the_lock_is_held_computes(script):
    passes(
        script(
            WATCHED
            + """
import fleetblas, os, signal, threading
with fleetblas.offload():
    hook, held, done = sys.modules["_fleetblas_hook"], threading.Event(), threading.Event()
    def hold():
        with hook._lock:
            held.set()
            done.wait()
    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = os.fork()
    if not child:
        signal.alarm(30)
        with fleetblas.offload():
            os._exit(not np.allclose(a @ solve(a, b), b))
    status = os.waitpid(child, 0)[1]
    done.set()
    holder.join()
assert status == 0, status
print("passed")
"""
        )
    )
