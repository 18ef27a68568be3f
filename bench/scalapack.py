#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""ScaLAPACK alone, and with libfleetblas_scalapack.so in front of it, in turn over the same BLAS.

    bench/cluster.sh up 4 1gbit
    bench/scalapack.py --launcher "bench/cluster.sh run" --grid 2x2 --size 8000 --repeat 4

Builds bench/scalapack.c with mpicc. Both take one core a rank, and the BLAS that --blas names: the
system's libblas.so.3, which ScaLAPACK uses, has to be that one. Every result is verified.
Standard library only.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROUTINES = ("gemm", "potrf", "trsm", "syrk", "getrf", "gesv")
# Of the error that bench/scalapack.c prints.
MOST_ERROR = 16


def line_of(text: str, routine: str) -> dict:
    """The last result in a program's output."""
    lines = [line.split() for line in text.splitlines() if line.startswith(routine + " ")]
    if not lines or len(lines[-1]) != 8:
        raise SystemExit(f"scalapack.py: no result of {routine} in\n{text}")
    _, _, _, _, _, seconds, gflops, error = lines[-1]
    if not float(error) < MOST_ERROR:
        raise SystemExit(f"scalapack.py: {routine} is wrong: error {error}")
    return {"seconds": float(seconds), "gflops": float(gflops), "error": float(error)}


class Runs:
    def __init__(self, options: argparse.Namespace, folder: str) -> None:
        self.options = options
        self.program = str(pathlib.Path(folder) / "scalapack")
        source = str(ROOT / "bench/scalapack.c")
        libraries = [f"-l{options.scalapack}", "-lm", "-ldl"]
        command = [options.compiler, "-O2", "-o", self.program, source, *libraries]
        subprocess.run(command, check=True)
        p, q = options.grid
        launcher = options.launcher or f"mpirun --bind-to none -n {p * q}"
        self.launcher = launcher.split()
        if (ROOT / self.launcher[0]).exists():
            self.launcher[0] = str(ROOT / self.launcher[0])

    def run(self, who: str, routine: str) -> dict:
        o = self.options
        settings = ["OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1"]
        if who == "fleetblas":
            settings += [f"LD_PRELOAD={o.preload}", f"FLEETBLAS_CPU_BLAS={o.blas}"]
            settings += [f"FLEETBLAS_MPI=cores=1;overlap={o.overlap}"]
        sizes = [str(size) for size in (o.size, o.nb, *o.grid, 1)]
        environment = dict(
            os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"
        )
        done = subprocess.run(
            [*self.launcher, "env", *settings, self.program, routine, *sizes],
            env=environment, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(f"scalapack.py: {routine} by {who} ends with {done.returncode}:\n"
                             f"{done.stdout}{done.stderr}")  # fmt: skip
        # Not even where the library is not found, which the loader only mentions.
        wrong = "ScaLAPACK computes" if who == "fleetblas" else "FleetBLAS computes"
        right = "FleetBLAS computes" if who == "fleetblas" else "ScaLAPACK computes"
        if wrong in done.stderr or right not in done.stderr:
            raise SystemExit(f"scalapack.py: {routine} is not that of {who}:\n{done.stderr}")
        return line_of(done.stdout + done.stderr, routine)


def table(rows: dict[str, dict[str, list[dict]]]) -> str:
    lines = [f"{'':<8}{'ScaLAPACK':>10}{'from':>8}{'to':>8}{'FleetBLAS':>11}{'from':>8}{'to':>8}"
             f"{'ratio':>7}{'runs':>6}{'error':>8}"]  # fmt: skip
    for routine, by_name in rows.items():
        line = f"{routine:<8}"
        middle = {}
        for name, width in (("scalapack", 10), ("fleetblas", 11)):
            seconds = [row["seconds"] for row in by_name[name]]
            middle[name] = statistics.median(seconds)
            line += f"{middle[name]:>{width}.2f}{min(seconds):>8.2f}{max(seconds):>8.2f}"
        worst = max(row["error"] for row in by_name["fleetblas"])
        lines.append(f"{line}{middle['scalapack'] / middle['fleetblas']:>7.2f}"
                     f"{len(by_name['fleetblas']):>6}{worst:>8.4f}")  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", type=int, default=8000)
    parser.add_argument("--nb", type=int, default=128)
    parser.add_argument("--grid", default="2x2", type=lambda text: tuple(map(int, text.split("x"))))
    parser.add_argument("--repeat", type=int, default=4)
    parser.add_argument("--routines", default="gemm,potrf",
                        help="of " + ", ".join(ROUTINES))  # fmt: skip
    parser.add_argument("--overlap", default="full", choices=("full", "none"))
    parser.add_argument("--launcher", help="what starts the ranks (default: mpirun -n P*Q)")
    parser.add_argument("--preload", default=ROOT / "build/release/lib/libfleetblas_scalapack.so")
    blas = f"/usr/lib/{platform.machine()}-linux-gnu/libopenblas.so.0"
    parser.add_argument("--blas", default=blas)
    parser.add_argument("--compiler", default="mpicc")
    parser.add_argument("--scalapack", default="scalapack-openmpi", help="the name to link with")
    parser.add_argument("--json", help="a file for all numbers")
    options = parser.parse_args()
    rows = {name: {"scalapack": [], "fleetblas": []} for name in options.routines.split(",")}
    if not set(rows) <= set(ROUTINES):
        raise SystemExit(f"scalapack.py: --routines takes {', '.join(ROUTINES)}")
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(options, folder)
        for turn in range(options.repeat):
            for routine, by_name in rows.items():
                for name, so_far in by_name.items():
                    so_far.append(runs.run(name, routine))
                    print(f"{turn + 1}: {name} {routine} {so_far[-1]['seconds']} s",
                          file=sys.stderr)  # fmt: skip
    p, q = options.grid
    print(f"N = {options.size}, NB = {options.nb}, {p} x {q} ranks: seconds")
    print(table(rows))
    if options.json:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT,
                                capture_output=True, text=True).stdout.strip()  # fmt: skip
        result = {"commit": commit, "machine": platform.processor() or platform.machine(),
                  "size": options.size, "nb": options.nb, "grid": [p, q],
                  "launcher": options.launcher, "rows": rows}  # fmt: skip
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
