# SPDX-License-Identifier: BSD-3-Clause
"""Times and verifies routines, and compares them with the lower bound and other libraries.

Knows nothing of how a call is made. Every row is verified; a wrong result fails the command.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import sys

from .. import Context
from .._routines import KNOWN, LAPACK, ROUTINES
from . import bench_calls, bench_rows, bench_threshold, common, datasets
from .bench_engines import Resident
from .bench_run import Budget, Work, header, key_of, measured, simulated

EXAMPLE = """examples: fleetblas bench gemm --size 4K --backend host --devices 2 --vs hostblas
          fleetblas bench gemm --size 16K --backend sim --machine h200x8 --json -
          fleetblas bench gemm --size 4K,8K,16K --place 'h,h,h;0,0,0;p,p,p' --vs cublasxt,cublas
          fleetblas bench gemm --dataset regular --vs cublasxt --json regular.json
          fleetblas bench syrk,trsm --size 16K --uplo u --vs cublasxt
          fleetblas bench gemv,axpy,dot --size 32K --vs hostblas
          fleetblas bench all --dataset level3 --size 8K,16K --place h,h,h --vs cublasxt
          fleetblas bench gemm --size 8K --resident
          fleetblas bench gemm --threshold --type s
          fleetblas bench calls --size 4K,8K --processes 1,4,28
          fleetblas bench potrf,getrf,geqrf --size 16K,32K --vs cusolver,cusolvermg,lapack
          fleetblas bench gesv --size 16K --nrhs 16 --refine --vs lapack

calls are those of an unmodified NumPy program, under the drop-in and by itself: it allocates
operands for each product, multiplies the same ones again, mixes small and large products, or is one
of several processes. Each program has --seconds (default 2).

potrf, getrf, geqrf and gesv begin each call with a fresh random matrix, copied in before the clock
starts, and are verified by their backward errors as LAPACK's testers do.

--vs takes a list, measured in turn with FleetBLAS on the same operands:
  cublasxt  cuBLASXt on the same GPUs, at the best of its block sizes
  cublas    the kernel alone on one GPU, operands in its memory before the clock starts
  nvblas    NVBLAS at the best of its settings, in a process of its own; gemm at p,p,p only
  hostblas  the CPU BLAS with all cores
and of factorizations and equations
  cusolver  one GPU alone, the matrix in its memory before the clock starts
  cusolvermg  the same GPUs, the matrix in their memory, at the best of its block sizes
  lapack    the LAPACK of the CPU BLAS with all cores
A library that is missing or fails gets a row with the reason. The exit status is 1 if FleetBLAS
fails or any result is wrong.

--dataset takes one of these sets of problems. Places name eight GPUs; with fewer, GPU d becomes d *
GPUs / 8:
  regular    squares of 5K to 32K, all operands on the host, or all on GPU 0 (paper 1)
  irregular  the same, fat-thin and thin-fat products at five places (paper 1)
  paralia    squares of 2K to 22K, fat-thin and thin-fat products at ten places (paper 2)
  hetero     the same from twice the least sizes in twice the steps, for unequal GPUs (paper 2)
  uneven     squares of 8K to 64K, A, B and C on three GPUs (paper 4; --type s)
  hybrid     squares of 2K to 8K and updates with k = 576 on the host (paper 3)
  scaling    8K, 16K and 32K on 1, 2, 4 and 8 of the GPUs (paper 1)
  ablation   the regular set with rules added one by one, and with all rules but one (paper 1)
  skinny     tall, flat, deep and thin products with ratios of 4 to 64
  small      squares of 512 to 4K, pageable operands too
  level3     squares of 4K to 48K, nine routines, all on the host, or all on GPU 0 (paper 5);
             Hermitian ones in z, the others in d
Only the named routines of a set are measured; --size and --place narrow it further. With --json
FILE a run continues an interrupted one on the same machine."""

PEERS = ("cublasxt", "cublas", "nvblas", "hostblas", "cusolver", "cusolvermg", "lapack")
# A plan that comes again is done in streams and as a graph three times each, then as is faster.
# Calls are timed after that, but after 3 if these take so long.
ENOUGH_WARM_S = 0.5
# Defaults for single problems, and for data sets.
DEFAULTS = {"repeat": 10, "warmup": 10, "seconds": None, "least": 3, "precision": None}
DEFAULTS.update({"budget": None, "energy": True, "balance": True})
SET_DEFAULTS = {"repeat": 100, "warmup": 10, "seconds": 2.0, "least": 5, "precision": 0.02}
SET_DEFAULTS.update({"budget": 480.0, "energy": False, "balance": True})


def peers(word: str) -> list[str]:
    names = list(dict.fromkeys(word.split(",")))
    for name in names:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(PEERS)}")
    return names


def process_counts(word: str) -> list[int]:
    return [common.positive_size(part) for part in word.split(",")]


def add_arguments(parser) -> None:
    common.add_problem_lists(parser)
    common.add_backend_arguments(parser, ("auto", "cuda", "host", "sim"))
    parser.add_argument(
        "--dataset",
        choices=list(datasets.SETS),
        help="a set of problems; --size, --place narrow it",
    )
    parser.add_argument(
        "--repeat",
        type=common.positive_size,
        metavar="R",
        help="timed calls (default 10; data sets: at most 100)",
    )
    parser.add_argument(
        "--warmup",
        type=common.count,
        metavar="W",
        help="calls before them (default 10, of long ones 3)",
    )
    parser.add_argument(
        "--precision",
        type=common.positive_number,
        metavar="P",
        help="stop when the 95%% confidence interval of the mean is within this share of it "
        "(default for data sets: 0.02)",
    )
    parser.add_argument(
        "--seconds",
        type=common.positive_number,
        metavar="S",
        help="stop after S seconds per engine and problem, but not before 3 timed calls (5 for "
        "data sets) and 1 to warm up (default for data sets: 2)",
    )
    parser.add_argument(
        "--budget",
        type=common.positive_number,
        metavar="S",
        help="seconds for all problems together; another run measures the rest (default "
        "for data sets: 480)",
    )
    parser.add_argument(
        "--resident",
        action="store_true",
        help="operands stay on the devices between calls, which are queued and waited for; without "
        "it nothing stays, and each call copies what it needs",
    )
    parser.add_argument(
        "--nrhs", type=common.positive_size, metavar="K", help="right sides of gesv (default 1)"
    )
    parser.add_argument(
        "--refine",
        action="store_true",
        help="gesv also with factors in single precision and a refined solution (types d, z)",
    )
    parser.add_argument(
        "--threshold",
        action="store_true",
        help="a table of the sizes from which on devices are faster than the CPU BLAS, by shape "
        "and number of calls, for gemm; --size: the sizes to try, --place: their place (default p)",
    )
    parser.add_argument(
        "--processes",
        type=process_counts,
        metavar="P,...",
        help="of calls: numbers of processes that run at once (default "
        + ",".join(map(str, bench_calls.PROCESSES))
        + ")",
    )
    parser.add_argument("--check", action="store_true", help="verify all of C, not only a sample")
    parser.add_argument("--vs", type=peers, default=[], metavar="LIST", help=", ".join(PEERS))
    parser.add_argument(
        "--energy",
        action=argparse.BooleanOptionalAction,
        help="measure joules, in a second or more per engine and problem (default, except for "
        "data sets)",
    )
    parser.add_argument(
        "--balance",
        action=argparse.BooleanOptionalAction,
        help="measure how unevenly the devices computed: (most - least) / mean of their busy "
        "seconds; on GPUs in one more call per problem (default)",
    )
    parser.add_argument("--json", metavar="FILE", help="write the results; - for stdout")
    parser.add_argument("--csv", metavar="FILE", help="write the results as a table")


def fill_in(arguments) -> None:
    """Sets the defaults of options that are not given."""
    given = arguments.dataset or arguments.warmup is not None
    arguments.enough_warm_s = math.inf if given else ENOUGH_WARM_S
    for name, value in (SET_DEFAULTS if arguments.dataset else DEFAULTS).items():
        if getattr(arguments, name, None) is None:
            setattr(arguments, name, value)


def _is_picked(arguments, case: datasets.Case, folded: str) -> bool:
    """Whether a case of a set is selected by its routine, type, size and place."""
    routine = ROUTINES[case.routine]
    if case.routine not in arguments.routine:
        return False
    if common.type_of(arguments, case.routine) not in routine.types:
        return False
    places = [place for listed in arguments.place or [] for place in listed]
    wanted = [",".join(routine.places(place)) for place in places]
    named = ",".join(routine.places(case.place))
    return (arguments.size is None or case.m in arguments.size) and (
        not wanted or named in wanted or folded in wanted
    )


def works_of_set(arguments, devices: list[int]) -> list[Work]:
    """The problems of a data set on these devices."""
    given = [name for name in "mnk" if getattr(arguments, name)]
    given += [name for name in ("rules",) if getattr(arguments, name) is not None]
    if given:
        raise common.UsageError(f"--dataset has its own --{given[0]}: give one of the two")
    works = []
    for case, folded in datasets.cases_of(arguments.dataset, len(devices)):
        if not _is_picked(arguments, case, folded):
            continue
        place = ",".join(str(devices[int(d)]) if d.isdigit() else d for d in folded.split(","))
        one = common.for_one(arguments, case.routine)
        one.place, one.size = place, None
        for name in ROUTINES[case.routine].sizes:
            setattr(one, name, getattr(case, name))
        labels = {"dataset": arguments.dataset, "shape": case.shape, "rules": case.rules}
        labels.update({"bar": case.bar, "wanted_devices": devices})
        named = ",".join(ROUTINES[case.routine].places(case.place))
        labels["named_place"] = named if named != folded else None
        labels["gpus"] = case.devices or len(devices)
        options = {}
        if case.devices is not None and case.devices != len(devices):
            chosen = [devices[d] for d in datasets.spread(case.devices, len(devices))]
            options["devices"] = ",".join(map(str, chosen)) + ","
            labels["wanted_devices"] = chosen
        if case.rules != "all":
            options["rules"] = case.rules
        # Peers have no rules: they are measured only beside our full set.
        words = common.problem_words(one, case.routine)
        works.append(Work(words, options, labels, case.rules == "all"))
    if not works:
        raise common.UsageError(f"the set {arguments.dataset} has no such problem")
    return works


def earlier_results(file: str | None, start: dict) -> list[dict]:
    """The rows of an interrupted run."""
    if file in (None, "-") or not pathlib.Path(file).exists():
        return []
    try:
        before = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
        rows = before["results"]
    except (ValueError, KeyError, TypeError):
        raise common.Failure(
            f"{file} has no results of bench: remove it, or name another"
        ) from None
    # JSON has no infinity, and lists instead of tuples.
    now = json.loads(json.dumps(start))
    for name in ("dataset", "type", "machine", "gpus", "commit", "method", "options"):
        if before.get(name) != now[name]:
            raise common.Failure(
                f"{file} has another {name} ({before.get(name)}, now {now[name]}): "
                "remove it, or name another"
            )
    return rows


class Results:
    """The rows so far, in memory and in the file."""

    def __init__(self, arguments, start: dict, rows: list[dict], works: int):
        self.arguments, self.start, self.rows = arguments, start, rows
        self.left = works

    def keep(self, rows: list[dict]) -> None:
        self.rows += rows
        self.left -= 1
        # Rows are written at once, so that an interruption loses none.
        if self.arguments.json not in (None, "-"):
            self.write()

    def write(self) -> None:
        if self.arguments.json:
            whole = {**self.start, "unfinished": self.left, "results": self.rows}
            common.write_json(self.arguments.json, whole)


def require_queued(arguments) -> None:
    """Raises UsageError where --resident does not go with the other arguments."""
    if arguments.backend == "sim":
        raise common.UsageError("--backend sim has no memory in which operands stay: no --resident")
    for name in arguments.routine:
        word = common.type_of(arguments, name)
        if name not in Resident.routines or word not in Resident.types:
            raise common.UsageError(
                f"{KNOWN[name].named(word)} is not queued: no --resident with it"
            )


def require_equations(arguments) -> None:
    """Raises UsageError where options of equations meet none, or equations meet no data."""
    solved = [name for name in arguments.routine if name in LAPACK and LAPACK[name].solves]
    if solved and arguments.backend == "sim":
        raise common.UsageError(f"{solved[0]} has no plan of its own: --backend sim takes getrf")
    if not solved and (arguments.refine or arguments.nrhs is not None):
        raise common.UsageError(f"{'--refine' if arguments.refine else '--nrhs'} is of gesv")
    refinable = [common.type_of(arguments, name) in ("d", "z") for name in solved]
    if arguments.refine and not all(refinable):
        raise common.UsageError("--refine takes types d and z")


def execute(arguments) -> int:
    if arguments.routine == ["calls"]:
        return bench_calls.execute(arguments)
    if arguments.processes:
        raise common.UsageError("--processes is of calls")
    if arguments.threshold:
        return bench_threshold.execute(arguments)
    fill_in(arguments)
    is_simulated = arguments.backend == "sim"
    if is_simulated and (arguments.vs or arguments.check):
        raise common.UsageError("--backend sim computes nothing: no --vs and no --check with it")
    if arguments.resident:
        require_queued(arguments)
    require_equations(arguments)
    works = [] if arguments.dataset else [Work(words) for words in common.problem_list(arguments)]
    common.require_writable(arguments.json, arguments.csv)
    options = common.context_options(arguments)
    if not is_simulated and "FLEETBLAS_OFFLOAD" not in os.environ:
        # A benchmark of the devices uses the devices, even if the CPU would be faster.
        options["offload"] = "always"
    with Context(**options) as context:
        context.machine()  # starts the backend, which finds the devices
        if arguments.dataset:
            devices = context.config()["devices"]
            if not devices:
                raise common.Failure("a data set needs devices: --backend host makes virtual ones")
            works = works_of_set(arguments, devices)
        start = header(context, arguments)
        goes_on = arguments.dataset and not is_simulated
        rows = earlier_results(arguments.json, start) if goes_on else []
        done = {key_of(row) for row in rows}
        works = [work for work in works if work.key() not in done]
        results = Results(arguments, start, rows, len(works))
        if is_simulated:
            simulated(context, options, works, arguments, results.keep)
        elif works:
            budget = Budget(arguments.budget) if arguments.budget else Budget()
            measured(context, options, works, arguments, budget, results.keep)
    if arguments.json != "-":
        print(bench_rows.table(results.rows))
        if arguments.dataset and any(row["status"] == "ok" for row in results.rows):
            print("\nGeometric means\n" + bench_rows.mean_table(results.rows))
    results.write()
    if arguments.csv:
        common.write_text(arguments.csv, bench_rows.csv_text(results.rows))
    for row in results.rows:
        if row["status"] != "ok":
            reason = row.get("message", row["status"])
            sys.stderr.write(f"fleetblas bench: {row['engine']} {row['beside']}: {reason}\n")
    if results.left:
        again = (
            "" if arguments.json in (None, "-") else "; run the same command again to measure them"
        )
        sys.stderr.write(f"fleetblas bench: {results.left} problems are not measured{again}\n")
    return 1 if any(map(bench_rows.is_failure, results.rows)) else 0
