# SPDX-License-Identifier: BSD-3-Clause
"""FleetBLAS: level-3 BLAS on all the devices of a node, planned, routed and verified.

    import fleetblas
    c = fleetblas.matmul(a, b)          # NumPy arrays in, a NumPy array out
    with fleetblas.offload():           # or: all products of NumPy and SciPy
        c = a @ b

The functions here use the default context, which the environment (FLEETBLAS_*) configures;
`Context` makes others. From the shell: `fleetblas --help`.
"""

from ._context import Context, Cost
from ._native import (
    BadArgument,
    BadFile,
    BadOption,
    DeviceFailed,
    Error,
    NoMemory,
    Unreachable,
    Unsupported,
    library,
)
from ._offload import offload

try:
    from . import linalg
    from ._functions import compose
    from ._tracked import Event, Tracked
except ModuleNotFoundError as error:
    if error.name != "numpy":
        raise

__version__ = library.fleet_version().decode()

_default = Context._default()
gemm = _default.gemm
gemmt = _default.gemmt
symm = _default.symm
hemm = _default.hemm
syrk = _default.syrk
herk = _default.herk
syr2k = _default.syr2k
her2k = _default.her2k
trmm = _default.trmm
trsm = _default.trsm
matmul = _default.matmul
gemv = _default.gemv
axpy = _default.axpy
dot = _default.dot
vdot = _default.vdot
empty = _default.empty
tracked = _default.tracked
copy = _default.copy
register = _default.register
unregister = _default.unregister
set_objective = _default.set_objective
set_priority = _default.set_priority
trim = _default.trim
plan = _default.plan
simulate = _default.simulate
plan_program = _default.plan_program
simulate_program = _default.simulate_program
bound = _default.bound
trace = _default.trace
stats = _default.stats
config = _default.config
machine = _default.machine

__all__ = [
    "BadArgument",
    "BadFile",
    "BadOption",
    "Context",
    "Cost",
    "DeviceFailed",
    "Error",
    "Event",
    "NoMemory",
    "Tracked",
    "Unreachable",
    "Unsupported",
    "axpy",
    "bound",
    "compose",
    "config",
    "copy",
    "dot",
    "empty",
    "gemm",
    "gemmt",
    "gemv",
    "hemm",
    "her2k",
    "herk",
    "linalg",
    "machine",
    "matmul",
    "offload",
    "plan",
    "plan_program",
    "register",
    "set_objective",
    "set_priority",
    "simulate",
    "simulate_program",
    "stats",
    "symm",
    "syr2k",
    "syrk",
    "trace",
    "tracked",
    "trim",
    "trmm",
    "trsm",
    "unregister",
    "vdot",
]
