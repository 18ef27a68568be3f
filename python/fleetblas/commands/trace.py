# SPDX-License-Identifier: BSD-3-Clause
"""Draws the timeline of a product, or of a program's products, as one page for a browser.

Knows nothing of the design of the page: page.html has it, and gets the trace unchanged.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import tempfile

from .. import Context, _native
from .._routines import LAPACK
from . import common, run
from .bench_engines import FleetBlas
from .bench_factors import Factorizer, FactorOperands, FactorPool
from .bench_operands import Operands, Pool

EXAMPLE = """examples: fleetblas trace gemm --size 4K --backend host -o page.html
          fleetblas trace gemm --size 16K --backend sim --machine h200x8 -o page.html
          fleetblas trace getrf --size 8K --place 0 --backend sim --machine h200x4 -o page.html
          fleetblas trace --program calls.txt --backend sim --machine h200x4 -o page.html
          fleetblas trace --backend host --devices 4 -o page.html -- python script.py

The page needs no network; --json writes the same timeline for chrome://tracing or Perfetto."""
TAKES_PROGRAM = True
PROGRAM_HINT = "give the program after --, as in: fleetblas trace -o page.html -- python x.py"

PAGE = _native.PACKAGE / "page.html"
PLACE_OF_TRACE = "/*TRACE*/"


def add_arguments(parser) -> None:
    common.add_problem_arguments(parser, routine_nargs="?", advice=f"; {PROGRAM_HINT}")
    common.add_calls_argument(parser)
    common.add_backend_arguments(parser, ("auto", "cuda", "host", "sim"))
    parser.add_argument("-o", "--output", metavar="PAGE.html", help="the page to write")
    parser.add_argument("--json", metavar="TRACE.json", help="write the timeline; - for stdout")


def page_of(trace: dict) -> str:
    """The page with the trace inside; `</` is escaped, since it could end the script element."""
    text = json.dumps(trace, separators=(",", ":")).replace("</", "<\\/")
    return PAGE.read_text(encoding="utf-8").replace(PLACE_OF_TRACE, text)


def note_stage(trace: dict, context: Context, words: dict, *, is_last: bool) -> None:
    """Says which stage of a factorization a trace is of: the last one of a run, else the first.

    Its flops and its bound are those of all stages.
    """
    if words["routine"] not in LAPACK or (stages := context.plan(**words)["stages"]) == 1:
        return
    stage = stages if is_last else 1
    trace["fleetblas"].update(stage=stage, stages=stages)
    sys.stderr.write(f"fleetblas trace: stage {stage} of {stages} is drawn (see fleetblas plan)\n")


def trace_of_product(arguments) -> dict:
    words = common.problem_words(arguments)
    options = common.context_options(arguments)
    if arguments.backend == "sim":
        with Context(**options) as context:
            trace = context.simulate(**words)
            note_stage(trace, context, words, is_last=False)
            return trace
    if "FLEETBLAS_OFFLOAD" not in os.environ:
        options["offload"] = "always"  # a timeline of devices needs devices
    options["timeline"] = True
    with Context(**options) as context:
        if words["routine"] in LAPACK:
            operands = FactorOperands(FactorPool(context, [words]), words)
            engine = Factorizer(context, operands)
        else:
            operands = Operands(Pool(context, [words]), words)
            engine = FleetBlas(context, operands)
        engine.start_up()
        for _ in range(2):
            # The second call is drawn: its plan is cached, and its memory has been touched.
            engine.reset()
            engine.call()
        if not engine.verdict(operands.reference(), everything=False).ok:
            raise common.Failure("the result is wrong")
        last = context.stats()["last"]
        if last["where"] != "devices":
            raise common.Failure(f"no device took part ({last['reason']}): there is no timeline")
        trace = context.trace()
        note_stage(trace, context, words, is_last=True)
        return trace


def trace_of_program(arguments) -> tuple[dict, int]:
    if arguments.backend == "sim":
        raise common.UsageError("a program needs devices: --backend auto, cuda or host, not sim")
    environment = run.program_environment(arguments)
    with tempfile.TemporaryDirectory(prefix="fleetblas-") as folder:
        environment["FLEETBLAS_TRACE"] = str(pathlib.Path(folder, "%p.json"))
        status = run.run_program(arguments.program, environment)
        traces = run.read_summaries(pathlib.Path(folder))
    traces = [trace for trace in traces if trace["fleetblas"]["calls"]]
    if not traces:
        reason, hint = f"the program ended with {status}", ""
        if status == 0:
            reason, hint = "no product ran on devices", " (try FLEETBLAS_OFFLOAD=always)"
        raise common.Failure(f"{reason}: there is no timeline{hint}")
    # The longest trace: clocks of different processes have no common start.
    longest = max(traces, key=lambda trace: len(trace["traceEvents"]))
    if len(traces) > 1:
        sys.stderr.write(f"fleetblas trace: the busiest of {len(traces)} processes is drawn\n")
    return longest, status


def trace_of_calls(arguments, calls: str) -> dict:
    if arguments.backend != "sim":
        raise common.UsageError(
            "--program and block-cyclic places draw simulated timelines: give --backend sim"
        )
    with Context(**common.context_options(arguments)) as context:
        return context.simulate_program(calls)


def execute(arguments) -> int:
    sources = (arguments.routine, arguments.calls, arguments.program)
    if sum(source is not None for source in sources) != 1:
        raise common.UsageError(
            "give a routine with its options, --program FILE, or a command after --"
        )
    if not arguments.output and not arguments.json:
        raise common.UsageError("give -o PAGE.html, or --json TRACE.json")
    common.require_writable(arguments.output, arguments.json)
    if arguments.program is not None:
        if not arguments.program:
            raise common.UsageError(PROGRAM_HINT)
        trace, status = trace_of_program(arguments)
    elif (calls := common.calls_text(arguments)) is not None:
        trace, status = trace_of_calls(arguments, calls), 0
    else:
        trace, status = trace_of_product(arguments), 0
    if arguments.json:
        common.write_text(arguments.json, json.dumps(trace) + "\n")
    if arguments.output:
        common.write_text(arguments.output, page_of(trace))
    return status
