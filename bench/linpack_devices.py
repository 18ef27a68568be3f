#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""fleetblas-linpack with the matrix on devices, as a share of what a device's dgemm reaches.

    bench/linpack_devices.py --cases 32768:1,65536:1,65536:2 --nb 512

Ranks are threads of one process (no mpirun is needed), or with --launcher "mpiexec -n" processes,
whose panels go as --device-comm says; each has a device, the first ones of the node.
The product that counts is the update of such a run: C -= A*B with C of 32768 x 32768 on the device
and k = NB, best of some. Runs alternate between overlaps. Standard library and the package only.
"""

import argparse
import array
import collections
import ctypes
import itertools
import json
import os
import pathlib
import random
import shlex
import statistics
import subprocess
import tempfile
import time

from linpack import DAT, RESIDUAL, RESULT, SHARES

ROOT = pathlib.Path(__file__).resolve().parent.parent


def product_gflops(library, device, nb, edge=32768, times=6):
    """Of C -= A*B on one device: the best of some, in billions of operations per second.

    Numbers are random, as a factorization has them: with few different ones a GPU takes less power,
    and with that a higher clock.
    """

    def done(status):
        if status:
            raise SystemExit(library.fleet_message().decode())

    context = ctypes.c_void_p()
    options = f"offload=always;devices={device},".encode()
    done(library.fleet_context_create(options, ctypes.byref(context)))
    pointers = []
    for count in (edge * nb, nb * edge, edge * edge):
        data = ctypes.c_void_p()
        done(library.fleet_alloc(context, device, ctypes.c_size_t(count * 8), ctypes.byref(data)))
        pointers.append(data)
    random.seed(1)
    some = array.array("d", (random.random() - 0.5 for _ in range(edge * nb // 64)))
    numbers = (ctypes.c_double * (edge * nb)).from_buffer(some * 64)
    for data in pointers[:2]:
        done(library.fleet_copy(context, data, numbers, ctypes.c_size_t(edge * nb * 8)))
    size = ctypes.c_int64
    best = float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        done(
            library.fleet_dgemm(
                context,
                ord("n"),
                ord("n"),
                size(edge),
                size(edge),
                size(nb),
                ctypes.c_double(-1),
                pointers[0],
                size(edge),
                pointers[1],
                size(nb),
                ctypes.c_double(1),
                pointers[2],
                size(edge),
            )
        )
        best = min(best, time.perf_counter() - begin)
    for data in pointers:
        library.fleet_free(context, data)
    library.fleet_context_destroy(context)
    return 2 * edge * edge * nb / best * 1e-9


def run(options, n, nb, ranks, overlap, trace):
    """(Gflops, residual, seconds by what) of one run, or why there are none."""
    ranks_are = [options.program, f"--ranks={ranks}"]
    if options.launcher:
        ranks_are = [*shlex.split(options.launcher), str(ranks), options.program]
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "HPL.dat")
        file.write_text(DAT.format(title="", n=n, nb=nb, p=1, q=ranks))
        try:
            done = subprocess.run(
                ranks_are
                + [f"--overlap={overlap}", "--matrix=devices"]
                + [f"--device-comm={options.device_comm}"]
                + ([f"--trace={trace}"] if trace else []),
                cwd=folder,
                env=os.environ | {"FLEETBLAS_DEVICES": ",".join(map(str, range(ranks))) + ","},
                capture_output=True,
                text=True,
                timeout=options.limit,
            )
        except subprocess.TimeoutExpired:
            return f"has not ended after {options.limit} s"
    found, checked = RESULT.search(done.stdout), RESIDUAL.search(done.stdout)
    if not found or not checked or checked[2] != "PASSED":
        return done.stdout[-1000:] + done.stderr[-1000:]
    return float(found[2]), float(checked[1]), SHARES.search(done.stdout).groups()


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="32768:1", help="N:RANKS, with commas between")
    parser.add_argument("--nb", type=numbers, default=[512])
    parser.add_argument("--overlaps", default="none,full")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--program", default=str(ROOT / ".venv/bin/fleetblas-linpack"))
    parser.add_argument("--launcher", help="of processes, up to their number")
    parser.add_argument("--device-comm", default="auto", choices=["auto", "host", "nccl"])
    parser.add_argument("--library", help="libfleetblas.so; default: the package's")
    parser.add_argument("--seconds", type=float, default=1e9, help="no run begins after so many")
    parser.add_argument("--limit", type=float, default=600, help="seconds of a run")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--trace", type=pathlib.Path, help="a folder for the timelines")
    options = parser.parse_args()
    if options.device_comm != "auto" and not options.launcher:
        parser.error("--device-comm is of processes: --launcher starts them")
    if options.trace:
        options.trace.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    if options.library:
        library = ctypes.CDLL(options.library)
    else:
        from fleetblas import _native

        library = _native.library
    library.fleet_message.restype = ctypes.c_char_p
    rates = {nb: product_gflops(library, 0, nb) for nb in options.nb}
    for nb, rate in rates.items():
        print(f"dgemm 32768 x 32768 x {nb} on one device: {rate / 1e3:.2f} TFLOPS", flush=True)
    results, failed = [], 0
    print(f"{'N':>7} {'NB':>5} {'ranks':>5} {'overlap':>9} {'TFLOPS':>7} {'of dgemm':>8} residual")
    cases = [tuple(numbers(case.replace(":", ","))) for case in options.cases.split(",")]
    for (n, ranks), nb, _, overlap in itertools.product(
        cases, options.nb, range(options.repeat), options.overlaps.split(",")
    ):
        if time.monotonic() - begin > options.seconds:
            continue
        trace = options.trace and options.trace.resolve() / f"{n}-{nb}-{ranks}-{overlap}.json"
        found = run(options, n, nb, ranks, overlap, trace)
        if isinstance(found, str):
            failed += 1
            print(f"{n:7} {nb:5} {ranks:5} {overlap:>9} failed: {found}", flush=True)
            continue
        gflops, residual, (product_s, panel_s, _, _, wait_s) = found
        share = gflops / ranks / rates[nb]
        results.append(
            {
                "n": n,
                "nb": nb,
                "ranks": ranks,
                "overlap": overlap,
                "gflops": gflops,
                "of_dgemm": share,
                "residual": residual,
                "product_s": float(product_s),
                "panel_s": float(panel_s),
                "wait_s": float(wait_s),
            }
        )
        print(
            f"{n:7} {nb:5} {ranks:5} {overlap:>9} {gflops / 1e3:7.2f} {share:8.2f} {residual:.1e}"
            f"  products {product_s} s, panels {panel_s}, waits {wait_s}",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps({"dgemm_gflops": rates, "runs": results}, indent=1))
    by_case = collections.defaultdict(list)
    for r in results:
        by_case[r["n"], r["ranks"], r["nb"], r["overlap"]].append(r["gflops"])
    for (n, ranks, nb, overlap), rates_of_full in sorted(by_case.items()):
        if overlap == "full" and (n, ranks, nb, "none") in by_case:
            gain = statistics.median(rates_of_full) / statistics.median(
                by_case[n, ranks, nb, "none"]
            )
            print(f"N = {n}, NB = {nb}, {ranks} ranks: full over none {gain:.3f}")
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
