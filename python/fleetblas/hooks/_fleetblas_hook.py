# SPDX-License-Identifier: BSD-3-Clause
"""Puts stand-ins into the modules through which NumPy and SciPy reach LAPACK.

A stand-in asks fleetblas.linalg about large matrices, and calls the function that it stands for
with everything else, and whenever there is a difficulty. This module imports nothing heavy:
programs start with it that may never use a matrix. It is not of the package, which cannot be
imported while NumPy is.
"""

import atexit
import os
import sys
from _thread import RLock

# What is replaced; NumPy 1 has some under two names, by the shape of the matrix.
_GUFUNCS = (
    *("solve", "solve1", "inv", "det", "slogdet", "cholesky_lo", "cholesky_up"),
    *("qr_r_raw", "qr_r_raw_m", "qr_r_raw_n", "qr_reduced", "qr_complete"),
    *("lstsq", "lstsq_m", "lstsq_n"),
)
_LAPACK = (
    *("getrf", "getrs", "gesv", "getri", "potrf", "potrs", "posv", "potri", "geqrf"),
    *("orgqr", "ungqr", "ormqr", "unmqr", "trtri", "trtrs", "lauum"),
)
_SCIPY = "scipy.linalg._flapack"
_FUNCTIONS = {
    "numpy.linalg._umath_linalg": _GUFUNCS,
    "scipy.linalg._batched_linalg": ("_solve", "_inv"),  # from SciPy 1.17 on
    _SCIPY: [letter + name for letter in "sdcz" for name in _LAPACK],
}
_SCIPY_NAMES = "scipy.linalg.lapack"  # has all functions of _flapack again, and keeps some

_MOST_OPERANDS = 5  # the positions that may have a matrix: the last is C of ormqr

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Until the model is asked, matrices with fewer elements stay with NumPy and SciPy, unless one of
# these settings says what is worth it.
_SMALL = 256 * 256
_SETTINGS = ("FLEETBLAS_MIN_FLOPS", "FLEETBLAS_OFFLOAD", "FLEETBLAS_CONFIG")

_lock = RLock()
_users = 0  # `fleetblas run`, and the blocks of offload() that are open
_served = None  # the module of fleetblas.linalg that answers; False if it cannot be had
_least = 0  # elements of matrices that are asked about


def _forget_lock():
    """A fork has no thread that would release what was held."""
    global _lock
    _lock = RLock()


os.register_at_fork(after_in_child=_forget_lock)


@atexit.register  # before the program registers anything, so after all of that
def _report():
    """What was served, in the summary of the process."""
    if _served:
        _served.report()


def is_wanted():
    """Whether the user has not turned it off; read anew each time, as programs may set it."""
    return os.environ.get("FLEETBLAS_LINALG", "1") not in ("0", "off", "false", "no")


class StandIn:
    """Called in place of a function, whose other attributes it has."""

    def __init__(self, module, name, function):
        self.__wrapped__, self.__doc__ = function, function.__doc__
        self.__module__, self._name = module, name

    def __call__(self, *values, **words):
        for value in values[:_MOST_OPERANDS]:
            shape = getattr(value, "shape", ())
            if len(shape) > 1 and shape[-1] * shape[-2] >= _least:
                result = _answer(self, values, words)
                if result is not NotImplemented:
                    return result
                break
        return self.__wrapped__(*values, **words)

    def __getattr__(self, name):
        return getattr(self.__dict__["__wrapped__"], name)

    def __repr__(self):
        return repr(self.__wrapped__)

    def __reduce__(self):
        return self._name  # in the module, where another process has what it has


def _answer(stand_in, values, words):
    """The result of the call, or NotImplemented for what is left to NumPy and SciPy."""
    global _served
    if not _users:
        return NotImplemented
    if _served is None:
        with _lock:
            if _served is None:
                _served = _load()
    if not _served:
        return NotImplemented
    return _served.serve(stand_in.__module__, stand_in._name, stand_in.__wrapped__, values, words)


def _load():
    """The module that computes, of the package that this file belongs to; False without it.

    The settings are known from now on, and so is which matrices are too small.
    """
    global _least
    try:
        place = _Place()
        sys.meta_path.insert(0, place)
        try:
            from fleetblas.linalg import _served
        finally:
            sys.meta_path.remove(place)

        _least = _served.least_elements()
        return _served
    except Exception:
        return False


class _Place:
    """Finds the package where this file is: the program may have another path, even another
    environment."""

    def find_spec(self, name, path=None, target=None):
        if name != "fleetblas":
            return None
        from importlib.util import spec_from_file_location

        file = os.path.join(_PACKAGE, "__init__.py")
        return spec_from_file_location(name, file, submodule_search_locations=[_PACKAGE])


def _put_in(module_name, module):
    for name in _FUNCTIONS[module_name]:
        function = getattr(module, name, None)
        if function is not None and not isinstance(function, StandIn):
            setattr(module, name, StandIn(module_name, name, function))


def _take_out(module_name, module):
    for name in _FUNCTIONS[module_name]:
        stand_in = getattr(module, name, None)
        if isinstance(stand_in, StandIn):
            setattr(module, name, stand_in.__wrapped__)


def _forget_scipy_functions():
    """SciPy keeps what it has looked up."""
    lookup = getattr(sys.modules[_SCIPY_NAMES], "get_lapack_funcs", None)
    kept = getattr(getattr(lookup, "__wrapped__", None), "memo", None)
    if isinstance(kept, dict):
        kept.clear()


def _everywhere(change):
    """Calls change(name, module) for each module that is loaded, then corrects SciPy's copies."""
    for module_name in _FUNCTIONS:
        if module_name in sys.modules:
            change(module_name, sys.modules[module_name])
    if _SCIPY_NAMES in sys.modules:
        again, original = sys.modules[_SCIPY_NAMES], sys.modules.get(_SCIPY)
        for name in _FUNCTIONS[_SCIPY]:
            if hasattr(again, name) and hasattr(original, name):
                setattr(again, name, getattr(original, name))
        _forget_scipy_functions()


class _Finder:
    """Finds what the other finders find, and has stand-ins put in once it is loaded."""

    def find_spec(self, name, path=None, target=None):
        if name not in _FUNCTIONS:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                _extend(spec.loader)
                return spec
        return None


def _extend(loader):
    """Stand-ins are put in when this loader has loaded its module, while there are users."""
    execute = getattr(loader, "exec_module", None)
    if execute is None or not hasattr(loader, "__dict__"):
        return

    def exec_module(module):
        execute(module)
        try:
            if _users:
                _put_in(module.__name__, module)
        except Exception:
            pass  # the module works without

    loader.exec_module = exec_module


def watch():
    """For the life of the process: modules that are loaded, and those that will be."""
    if is_wanted():
        sys.meta_path.insert(0, _Finder())
        enter()


def enter():
    """Stand-ins in the modules that are loaded, until leave() has been called as often."""
    global _users, _least
    with _lock:
        if _served is None:
            _least = 0 if any(map(os.environ.get, _SETTINGS)) else _SMALL
        _users += 1
        if is_wanted():
            _everywhere(_put_in)


def leave():
    """The originals are back once nobody is left who entered."""
    global _users
    with _lock:
        _users -= 1
        if not _users:
            _everywhere(_take_out)
