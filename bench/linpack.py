#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""fleetblas-linpack with each overlap beside HPL, in turn, and what overlap is worth.

    bench/cluster.sh up 4 1gbit
    bench/linpack.py --launcher "bench/cluster.sh run" --grid 2x2 --size 8000 --repeat 8 --hpcc 2

With --devices, cores and devices share the products: --shares lists shares R of the cores, each run
in turn, and what R measured ("auto") has over the best of them is the last line:

    FLEETBLAS_BACKEND=host bench/linpack.py --grid 1x1 --size 3000 --names full \
        --devices 1 --shares auto,0.2,0.3,0.4,0.5,0.6,0.7,0.8

HPL is the one in Debian's hpcc, which runs other benchmarks too and takes minutes. All use the BLAS
that --blas names (with hpcc, the system's libblas.so.3 has to be the same), one core a rank.
Standard library only.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
OVERLAPS = ("none", "lookahead", "dedicated", "full")
RESULT = re.compile(r"^W[RC]\S+ +\d+ +\d+ +\d+ +\d+ +(\S+) +(\S+)", re.M)
RESIDUAL = re.compile(r"\|\|b\|\|_oo\)\*N\)= +(\S+) \.+ (PASSED|FAILED)")
SHARES = re.compile(
    r"time (\S+) s went to products, (\S+) to panels \((\S+) of it to pivots\), (\S+) to rows, "
    r"(\S+) to waiting"
)

DAT = """HPLinpack benchmark input file
{title}
HPL.out      output file name (if any)
6            device out
1            # of problems sizes (N)
{n}          Ns
1            # of NBs
{nb}         NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
{p}          Ps
{q}          Qs
16.0         threshold
1            # of panel fact
2            PFACTs
1            # of recursive stopping criterium
4            NBMINs
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs
1            # of broadcast
1            BCASTs
1            # of lookahead depth
1            DEPTHs
2            SWAP
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0            Number of additional problem sizes for PTRANS
1200         values of N
0            number of additional blocking sizes for PTRANS
40           values of NB
"""


def numbers(text: str) -> dict:
    """What the last result in a program's output says."""
    found = RESULT.findall(text)
    residual = RESIDUAL.findall(text)
    if not found or not residual:
        raise SystemExit(f"linpack.py: no result in\n{text}")
    row = {"seconds": float(found[-1][0]), "gflops": float(found[-1][1])}
    row |= {"residual": float(residual[-1][0]), "passed": residual[-1][1] == "PASSED"}
    if shares := SHARES.search(text):
        names = ("products", "panels", "pivots", "rows", "waiting")
        row |= {name: float(value) for name, value in zip(names, shares.groups())}
        # HPL's lines have hundredths of a second; the rate has more digits.
        n = float(re.search(r"^W[RC]\S+ +(\d+)", text, re.M)[1])
        row["seconds"] = (2 / 3 * n**3 + 1.5 * n**2) / row["gflops"] / 1e9
    return row


class Runs:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.ranks = options.grid[0] * options.grid[1]
        launcher = options.launcher or f"mpirun --bind-to none -n {self.ranks}"
        self.launcher = launcher.split()
        first = ROOT / self.launcher[0]
        if first.exists():
            self.launcher[0] = str(first)

    def run(self, name: str, folder: str) -> dict:
        environment = dict(
            os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"
        )
        if name == "hpl":
            output = pathlib.Path(folder) / "hpccoutf.txt"
            output.unlink(missing_ok=True)
            command = ["env", "OPENBLAS_NUM_THREADS=1", "hpcc"]
            subprocess.run([*self.launcher, *command], cwd=folder, env=environment, check=True,
                           capture_output=True)  # fmt: skip
            return numbers(output.read_text())
        name, _, share = name.partition(" R=")
        overlap, _, progress = name.partition(" ")
        command = [str(self.options.program), "--cores=1", f"--overlap={overlap}"]
        if share:
            command += [f"--devices={self.options.devices}", f"--cpu-share={share}"]
        command += [f"--progress={progress}"] if progress else []
        if self.options.blas:
            command = ["env", f"FLEETBLAS_CPU_BLAS={self.options.blas}", *command]
        done = subprocess.run([*self.launcher, *command], cwd=folder, env=environment,
                              capture_output=True, text=True)  # fmt: skip
        return numbers(done.stdout + done.stderr)


def table(rows: dict[str, list[dict]]) -> str:
    rate = {name: statistics.median(row["gflops"] for row in all_) for name, all_ in rows.items()}
    lines = [f"{'':<16}{'GFLOPS':>8}{'from':>8}{'to':>8}{'runs':>6}{'residual':>10}"]
    for name, all_ in rows.items():
        rates = [row["gflops"] for row in all_]
        worst = max(row["residual"] for row in all_)
        passed = "" if all(row["passed"] for row in all_) else "  FAILED"
        lines.append(f"{name:<16}{rate[name]:>8.1f}{min(rates):>8.1f}{max(rates):>8.1f}"
                     f"{len(rates):>6}{worst:>10.5f}{passed}")  # fmt: skip
    measured = [name for name in rows if name.endswith(" R=auto")]
    for auto in measured:
        given = [name for name in rows if name != auto and name.startswith(auto[: -len("auto")])]
        if given:
            best = max(given, key=rate.get)
            lines.append(f"{auto} over {best}: {rate[auto] / rate[best]:.3f}")
    if "full" not in rows:
        return "\n".join(lines)
    for peer in [name for name in rows if name != "full"]:
        lines.append(f"full over {peer:<12} {rate['full'] / rate[peer]:>6.2f}")
    if "none" in rows:
        middle = {
            key: statistics.median(row[key] for row in rows["none"])
            for key in ("seconds", "products", "panels", "pivots", "rows", "waiting")
        }
        compute = middle["products"] + middle["panels"] - middle["pivots"] + middle["rows"]
        messages = middle["waiting"] + middle["pivots"]
        full = statistics.median(row["seconds"] for row in rows["full"])
        eta = (middle["seconds"] - full) / (middle["seconds"] - max(compute, messages))
        lines.append(f"eta = (T_none - T_full) / (T_none - max(compute {compute:.2f} s, messages "
                     f"{messages:.2f} s)) = {eta:.2f}")  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", type=int, default=8000)
    parser.add_argument("--nb", type=int, default=192)
    parser.add_argument("--grid", default="2x2", type=lambda text: tuple(map(int, text.split("x"))))
    parser.add_argument("--repeat", type=int, default=8)
    parser.add_argument("--launcher", help="what starts the ranks (default: mpirun -n P*Q)")
    parser.add_argument("--program", default=ROOT / "build/release/bin/fleetblas-linpack")
    parser.add_argument("--blas", default=os.environ.get("FLEETBLAS_CPU_BLAS"))
    parser.add_argument("--names", default=",".join(OVERLAPS),
                        help="overlaps, as in 'full none' with --progress=none")  # fmt: skip
    parser.add_argument("--devices", help="that take part in products (fleetblas-linpack)")
    parser.add_argument("--shares", default="auto", help="R of each run with --devices")
    parser.add_argument("--hpcc", type=int, default=0, metavar="R", help="repeats of HPL (hpcc)")
    parser.add_argument("--json")
    options = parser.parse_args()
    runs = Runs(options)
    rows: dict[str, list[dict]] = {}
    names = options.names.split(",")
    if options.devices:
        names = [f"{name} R={share}" for name in names for share in options.shares.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        p, q = options.grid
        dat = DAT.format(title="bench/linpack.py", n=options.size, nb=options.nb, p=p, q=q)
        for name in ("HPL.dat", "hpccinf.txt"):
            (pathlib.Path(folder) / name).write_text(dat)
        for turn in range(options.repeat):
            for name in names:
                rows.setdefault(name, []).append(runs.run(name, folder))
            if turn < options.hpcc:
                rows.setdefault("hpl", []).append(runs.run("hpl", folder))
            print(f"{turn + 1} of {options.repeat}", end="\r", flush=True)
    print(f"N = {options.size}, NB = {options.nb}, {p} x {q} ranks of one core, medians")
    print(table(rows))
    if options.json:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT,
                                capture_output=True, text=True).stdout.strip()  # fmt: skip
        result = {"commit": commit, "machine": platform.processor() or platform.machine(),
                  "cores": os.cpu_count(), "size": options.size, "nb": options.nb,
                  "grid": f"{p}x{q}", "launcher": options.launcher, "runs": rows}  # fmt: skip
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
