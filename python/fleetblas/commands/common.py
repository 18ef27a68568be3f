# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the commands: arguments, readable numbers, tables, JSON.

Knows no command.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import pathlib
import re
import subprocess
import sys

from .. import _native, _types
from .._context import problem_text
from .._routines import EVERY, KNOWN, LAPACK, LETTERS, ROUTINES, VECTORS, is_cyclic, listed

SUFFIXES = {"K": 2**10, "M": 2**20, "G": 2**30}


class UsageError(Exception):
    """Arguments that do not fit together: exit status 2."""


class Failure(Exception):
    """The command could not do its work: exit status 1."""


# ---- words --------------------------------------------------------------------------------------


def size(word: str) -> int:
    """4096, 4K, 2G: binary suffixes."""
    match = re.fullmatch(r"(\d+)([KMG]?)", word.strip(), re.IGNORECASE)
    if not match:
        raise argparse.ArgumentTypeError(f"{word!r} is not a size, as in 4096, 4K, 2G")
    return int(match[1]) * SUFFIXES.get(match[2].upper(), 1)


def positive_size(word: str) -> int:
    if size(word) == 0:
        raise argparse.ArgumentTypeError("0 is too small")
    return size(word)


def sizes(word: str) -> list[int]:
    return [size(part) for part in word.split(",")]


def count(word: str) -> int:
    if not word.isdigit():
        raise argparse.ArgumentTypeError(f"{word!r} is not a count")
    return int(word)


def positive_number(word: str) -> float:
    """A positive number such as 0.5 or 20."""
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{word!r} is not a positive number")
    return value


def scalar(word: str) -> complex:
    try:
        value = complex(word.replace(" ", "").replace("i", "j"))
    except ValueError:
        value = complex(math.nan)
    if not (math.isfinite(value.real) and math.isfinite(value.imag)):
        raise argparse.ArgumentTypeError(f"{word!r} is not a number, as in 1, -0.5, 2+1j")
    return value


def devices(word: str) -> str:
    if not re.fullmatch(r"auto|all|split|\d+|(\d+,)+\d*", word):
        raise argparse.ArgumentTypeError(
            f"{word!r} is neither auto, all nor split, nor a count (4), nor ids (0,2 or 2,)"
        )
    return word


def place(word: str) -> str:
    if not re.fullmatch(r"(h|p|\d+)(,(h|p|\d+)){0,2}", word):
        raise argparse.ArgumentTypeError(
            f"{word!r} is not one, two or three of h (pinned host), p (pageable host), 0, 1, ..., "
            "as in h or h,h,0"
        )
    return word


def planned_place(word: str) -> str:
    """The same, or block-cyclic over devices, which the library reads."""
    return word if any(map(is_cyclic, word.split(","))) else place(word)


def routines(word: str) -> list[str]:
    """ "gemm,trsm", "all" of level 3, and "calls", which are of programs."""
    if word == "calls":
        return [word]
    names = list(ROUTINES) if word == "all" else list(dict.fromkeys(word.split(",")))
    for name in names:
        if name not in KNOWN:
            known = ", ".join(KNOWN)
            raise argparse.ArgumentTypeError(f"{name!r} is no routine; known: {known}, all, calls")
    return names


def add_backend_arguments(parser, backends: tuple[str, ...]) -> None:
    parser.add_argument(
        "--devices",
        type=devices,
        metavar="N|LIST",
        help="auto (of all, those with which a call is fastest; the default), all, a count (4), "
        "ids (0,2 or 2,), or split (between MPI ranks)",
    )
    parser.add_argument(
        "--objective",
        metavar="WORD",
        help="what plans are chosen for: time (the default), edp (energy x time), energy, or "
        "energy@X (the least energy within X times the least time)",
    )
    parser.add_argument(
        "--backend",
        choices=backends,
        help="auto: GPUs if there are any; host: virtual devices on the CPU"
        + ("; sim: no data, needs --machine" if "sim" in backends else ""),
    )


def places(word: str) -> list[str]:
    return [planned_place(part) for part in word.split(";")]


def add_problem_arguments(parser, routine_nargs: str | None = None, advice: str = "") -> None:
    """A problem of one size at one place; add_problem_lists takes several of both.

    `advice` is added for words that are no routine.
    """
    planned = [word for word, routine in KNOWN.items() if word in EVERY or routine.planned]

    def routine(word: str) -> str:
        if word not in planned:
            text = f"invalid choice: {word!r} (choose from {', '.join(planned)})"
            raise argparse.ArgumentTypeError(text + advice)
        return word

    meaning = "BLAS routine, or factorization"
    parser.add_argument("routine", type=routine, choices=planned, nargs=routine_nargs, help=meaning)
    parser.add_argument("--size", type=size, metavar="N", help="m, n and k (suffixes K, M, G)")
    parser.add_argument(
        "--place",
        type=planned_place,
        default="h",
        metavar="A,B,C",
        help="where each matrix is: h pinned host, p pageable host, 0, 1, ... a device, c2x2:1024 "
        "blocks of 1024 on 2 x 2 devices in turn (c: as the model likes); one word stands for "
        "all, routines without a B take A,C; gemv takes A,x,y; axpy and dot take x,y; "
        "factorizations take A",
    )
    _add_problem_rest(parser)


def add_problem_lists(parser) -> None:
    """The same with lists: problems of every routine and size at every place."""
    parser.add_argument(
        "routine",
        type=routines,
        metavar="ROUTINE,...",
        help=f"{', '.join(KNOWN)}, all (of level 3), or calls (what programs do)",
    )
    parser.add_argument(
        "--size", type=sizes, metavar="N,...", help="m, n and k, one or several (suffixes K, M, G)"
    )
    parser.add_argument(
        "--place",
        type=places,
        action="append",
        metavar="A,B,C;...",
        help="where each matrix is: h pinned host, p pageable host, 0, 1, ... a device; one word "
        "stands for all, routines without a B take A,C; gemv takes A,x,y; axpy and dot take x,y; "
        "factorizations take A, also c2x2:1024, gesv A,B; several places with ';' between them, or "
        "--place again (default h)",
    )
    _add_problem_rest(parser)


def _add_problem_rest(parser) -> None:
    parser.add_argument(
        "--type",
        choices=list(_types.TYPES),
        help="data type (default d; z for Hermitian routines); h and bf16 are summed in fp32, tf32 "
        "rounds fp32 inputs",
    )
    edges = {"m": "rows of C (gemv and factorizations: of A)"}
    edges["n"] = "columns of C (gemv and factorizations: of A), or length of vectors"
    for name, meaning in {**edges, "k": "the inner size"}.items():
        parser.add_argument("--" + name, type=size, metavar=name.upper(), help=meaning)
    meanings = {"side": "side of B on which A stands", "uplo": "triangle that is used"}
    meanings.update(
        {"diag": "u: the diagonal of A is all ones", "transa": "op(A)", "transb": "op(B)"}
    )
    for name, letters in LETTERS.items():
        meaning = f"{meanings[name]}; default {letters[0]}"
        parser.add_argument("--" + name, choices=list(letters), help=meaning)
    parser.add_argument("--alpha", type=scalar, default=1, metavar="X", help="factor (default 1)")
    parser.add_argument("--beta", type=scalar, metavar="X", help="factor of C (default 1)")
    parser.add_argument("--machine", metavar="FILE", help="machine file or shipped name (h200x8)")
    parser.add_argument(
        "--memory-cap", type=positive_size, metavar="BYTES", help="staging per device"
    )
    parser.add_argument("--tile", type=positive_size, metavar="T", help="largest tile edge")
    parser.add_argument("--grid", metavar="RxC", help="workers over the rows and columns of C")
    parser.add_argument(
        "--cpu-share",
        metavar="auto|off|R",
        help="part of the product that the CPU computes beside the devices",
    )
    parser.add_argument("--rules", metavar="all|none|LIST", help="the planner's rules to use")
    parser.add_argument(
        "--max-hops",
        type=int,
        choices=range(3),
        help="most other workers on the way of a tile between two devices (default 1)",
    )
    parser.add_argument(
        "--preset",
        metavar="LIBRARY",
        help="plan as another library does: cublasxt, blasx, xkblas, paralia or uncut",
    )


def type_of(arguments, word: str) -> str:
    """The requested type, or the default one."""
    return arguments.type or ("z" if KNOWN[word].hermitian else "d")


def _edges(arguments, word: str, side: str) -> dict:
    routine = KNOWN[word]
    edges = {name: getattr(arguments, name) for name in "mnk"}
    wanted = f"--size, or {listed(['--' + name for name in routine.sizes])}"
    if arguments.size is not None and any(edge is not None for edge in edges.values()):
        raise UsageError(f"give {wanted}, not both")
    if arguments.size is not None:
        edges = {name: arguments.size if name in routine.sizes else None for name in "mnk"}
    missing = ["--" + name for name in routine.sizes if edges[name] is None]
    if missing:
        raise UsageError(f"give {wanted} ({', '.join(missing)} missing)")
    if word in LAPACK and routine.solves:
        if edges["k"] is not None:
            raise UsageError(f"{word} has no --k: --nrhs is the number of right sides")
        edges["k"] = getattr(arguments, "nrhs", None)
    return dict(zip("mnk", routine.edges(**edges, side=side)))


def add_calls_argument(parser) -> None:
    parser.add_argument(
        "--program",
        dest="calls",
        metavar="FILE",
        help="several calls as one plan: a problem a line, operands as a=NAME@PLACE; - for stdin",
    )


def calls_text(arguments) -> str | None:
    """The text of --program, or None. It comes in place of a routine with its options. A call with
    block-cyclic operands is a program of one call."""
    if (arguments.calls is None) == (arguments.routine is None):
        raise UsageError("give either a routine with its options, or --program FILE")
    if arguments.calls is None:
        cyclic = any(map(is_cyclic, arguments.place.split(",")))
        if not cyclic or arguments.routine in LAPACK:
            return None
        return problem_text(**problem_words(arguments))
    if arguments.calls == "-":
        return sys.stdin.read()
    try:
        return pathlib.Path(arguments.calls).read_text(encoding="utf-8")
    except OSError as error:
        raise Failure(f"cannot read {arguments.calls}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Failure(f"{arguments.calls} is not a text") from None


def problem_words(arguments, word: str | None = None) -> dict:
    """The problem of the command line, as the keywords of Context.plan; m, n and k are all set,
    even if the routine has fewer sizes."""
    word = word or arguments.routine
    routine, kind = KNOWN[word], type_of(arguments, word)
    if kind not in routine.types:
        raise UsageError(f"{word} takes types {', '.join(routine.types)}, not {kind}")
    flags = {}
    for name in LETTERS:
        given = getattr(arguments, name)
        if name in routine.flags:
            flags[name] = given or LETTERS[name][0]
            if flags[name] not in routine.letters(name):
                raise UsageError(f"--{name} of {word} is one of {', '.join(routine.letters(name))}")
        elif given is not None:
            raise UsageError(f"{word} has no --{name}")
    scalars = {"alpha": arguments.alpha}
    if "alpha" not in routine.scalars and arguments.alpha != 1:
        raise UsageError(f"{word} has no --alpha")
    if "beta" in routine.scalars:
        scalars["beta"] = 1 if arguments.beta is None else arguments.beta
    elif arguments.beta is not None:
        raise UsageError(f"{word} has no --beta")
    for name, value in scalars.items():
        if complex(value).imag and _types.TYPES[kind].real:
            raise UsageError(f"--{name} is complex, but --type {kind} is real")
        if complex(value).imag and name in routine.real:
            raise UsageError(f"--{name} of {word} is real")
    place = ",".join(routine.places(arguments.place))
    edges = _edges(arguments, word, flags.get("side", "l"))
    # What does not write y, whatever beta is, and empty matrices.
    factors = (*edges.values(), arguments.alpha if word in VECTORS else 1)
    if word not in ROUTINES and 0 in factors:
        raise UsageError(f"{word} has nothing to do")
    return {"routine": word, "type": kind, **edges, **flags, "place": place, **scalars}


def for_one(arguments, word: str) -> argparse.Namespace:
    """The arguments for one of several routines: those that it has."""
    routine = KNOWN[word]
    listed = ",".join(place for places in arguments.place or [] for place in places)
    if word not in LAPACK and any(map(is_cyclic, listed.split(","))):
        raise UsageError(f"block-cyclic places are for plan and trace, not for bench {word}")
    kept = dict(vars(arguments))
    if len(arguments.routine) > 1:
        kept.update({name: None for name in LETTERS if name not in routine.flags})
        kept["beta"] = arguments.beta if "beta" in routine.scalars else None
        kept["alpha"] = arguments.alpha if "alpha" in routine.scalars else 1
    return argparse.Namespace(**kept)


def problem_list(arguments) -> list[dict]:
    """Every routine and size at every place of the command line, each as in problem_words."""
    chosen = [place for word in arguments.place or [["h"]] for place in word]
    listed = []
    for word in arguments.routine:
        one = for_one(arguments, word)
        for edge in [None] if arguments.size is None else arguments.size:
            for where in chosen:
                one.size, one.place = edge, where
                listed.append(problem_words(one, word))
    return listed


def context_options(arguments) -> dict:
    """The given options of the command line that a context takes."""
    names = (
        *("backend", "devices", "objective", "machine", "memory_cap"),
        *("tile", "grid", "cpu_share", "rules", "max_hops", "preset"),
    )
    options = {name: getattr(arguments, name, None) for name in names}
    return {name: value for name, value in options.items() if value is not None}


# ---- readable texts -----------------------------------------------------------------------------


def _significant(value: float) -> str:
    return (
        f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"
        if 0 < value < 100
        else f"{value:.0f}"
    )


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, name in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= unit * 0.9995:
            return f"{_significant(seconds / unit)} {name}"
    return "0 s" if seconds == 0 else f"{_significant(seconds * 1e9)} ns"


def byte_text(value: float) -> str:
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= unit * 0.9995:
            return f"{_significant(value / unit)} {name}"
    return f"{value:.0f} B"


def edge_text(value: int) -> str:
    """16384 as "16K", 5000 as "5000"."""
    for name in "GMK":
        if value and value % SUFFIXES[name] == 0:
            return f"{value // SUFFIXES[name]}{name}"
    return str(value)


def rate_text(tflops: float | None) -> str:
    if tflops is None:
        return "-"
    return (
        f"{_significant(tflops)} TFLOPS" if tflops >= 1 else f"{_significant(tflops * 1e3)} GFLOPS"
    )


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def table(rows: list[list[str]], left: int = 1) -> str:
    """Rows in columns under the first row; the first `left` columns are left-aligned."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = (
        "  ".join(
            word.ljust(width) if i < left else word.rjust(width)
            for i, (word, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    )
    return "\n".join(lines)


# ---- files --------------------------------------------------------------------------------------


def _without_nonfinite(value):
    if isinstance(value, dict):
        return {key: _without_nonfinite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nonfinite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_text(target: str, text: str) -> None:
    """Writes to a file, or to stdout for "-"."""
    if target == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        pathlib.Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failure(f"cannot write {target}: {error.strerror}") from None


def write_json(target: str, value) -> None:
    write_text(target, json.dumps(_without_nonfinite(value), indent=1, allow_nan=False) + "\n")


def require_writable(*targets: str | None) -> None:
    """Fails before the work if the target cannot be written."""
    for target in targets:
        if target in (None, "-"):
            continue
        path = pathlib.Path(target)
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise Failure(f"cannot write {target}: not a file in an existing folder")


@functools.cache
def commit() -> str | None:
    """The commit of this source tree, with + if files differ from it; None if installed."""
    if not (_native.REPOSITORY / ".git").exists():
        return None
    git = ["git", "-C", str(_native.REPOSITORY), "describe", "--always", "--dirty=+", "--abbrev=12"]
    try:
        done = subprocess.run(git, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def tflops(routine: str, word: str, m: int, n: int, k: int, seconds: float | None) -> float | None:
    flops = (2 if _types.TYPES[word].real else 8) * KNOWN[routine].multiply_adds(m, n, k)
    return flops / seconds / 1e12 if seconds else None


def geometric_mean(values: list[float]) -> float | None:
    """The geometric mean of positive numbers; None without numbers."""
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else None


def flags_text(row: dict) -> str:
    """The flags that differ from the defaults, as in " tn" and " uplo=u"."""
    routine = KNOWN[row["routine"]]
    flags = {name: row[name] for name in routine.flags}
    unusual = [f"{name}={flag}" for name, flag in flags.items() if flag != LETTERS[name][0]]
    if routine.word == "gemm" and unusual:
        return " " + flags["transa"] + flags["transb"]
    return "".join(" " + word for word in unusual)
