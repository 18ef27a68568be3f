# SPDX-License-Identifier: BSD-3-Clause
"""Lists the hardware and libraries of this machine, whether they work, and what would be faster.

Exit status 0 if nothing is broken, else 1. Knows Python packages and files; the library examines
the devices.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re

from .. import __version__, _native
from .._context import option_text
from . import common, startup

EXAMPLE = """example: fleetblas doctor
         fleetblas doctor --backend host --devices 4 --json -

Copies between each pair of devices are verified by data. ok: works; slow: works but could be
faster; broken: does not work."""

PACKAGES = (
    ("numpy", "numpy", "arrays, bench and trace need it: pip install numpy"),
    ("scipy_openblas64", "scipy-openblas64", "a CPU BLAS: pip install scipy-openblas64"),
)
WHEELS = (
    ("nvidia-cublas", "cuBLAS wheel", "cuBLAS for GPUs: pip install fleetblas[cuda]"),
    ("nvidia-cusolver", "cuSOLVER wheel", "faster Cholesky on GPUs: pip install fleetblas[linalg]"),
)


def one_place(word: str) -> str:
    if not re.fullmatch(r"h|p|\d+", word):
        raise argparse.ArgumentTypeError(
            f"{word!r} is none of h (pinned host), p (pageable host), 0, 1, ..."
        )
    return word


def add_arguments(parser) -> None:
    common.add_backend_arguments(parser, ("auto", "cuda", "host", "sim"))
    parser.add_argument("--machine", metavar="FILE", help="machine file or shipped name (h200x8)")
    parser.add_argument("--json", metavar="FILE", help="write the findings; - for stdout")
    parser.add_argument(
        "--startup", action="store_true", help="first say where the time of first calls goes"
    )
    parser.add_argument(
        "--size", type=common.positive_size,
        help="with --startup: m, n and k of its dgemm (default 4096)",
    )  # fmt: skip
    parser.add_argument(
        "--place", type=one_place,
        help="with --startup: where operands are: h, p or a device (default h)",
    )  # fmt: skip


def finding(subject: str, verdict: str, text: str, advice: str = "") -> dict:
    return {"subject": subject, "verdict": verdict, "text": text, "advice": advice}


def version_of(module: str) -> str | None:
    """The version of the distribution of this module; "" if unknown; None if not installed."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return None
    try:
        return importlib.metadata.version(module.replace("_", "-"))
    except importlib.metadata.PackageNotFoundError:
        return ""


def version_of_wheel(name: str) -> str | None:
    """The same of a wheel with a library of NVIDIA's: its names and folders change with CUDA."""
    library = name.replace("nvidia-", "lib") + ".so"
    for distribution in (name, f"{name}-cu13", f"{name}-cu12"):
        try:
            found = importlib.metadata.distribution(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
        if any(pathlib.PurePath(file).name.startswith(library) for file in found.files or ()):
            return found.version
    return None


def packages() -> list[dict]:
    found = []
    rows = [(name, version_of(module), advice) for module, name, advice in PACKAGES]
    rows += [(name, version_of_wheel(wheel), advice) for wheel, name, advice in WHEELS]
    for name, version, advice in rows:
        if version is None:
            # The system may provide each of them too; the library has reported those that are
            # missing.
            found.append(finding(name, "ok", "not installed as a Python package", advice))
        else:
            found.append(finding(name, "ok", version or "version unknown"))
    return found


def libraries() -> list[dict]:
    core = _native.find_library("libfleetblas.so")
    found = [finding("library", "ok", f"{core} ({__version__})")]
    try:
        found.append(finding("drop-in", "ok", str(_native.find_library("libfleetblas_preload.so"))))
    except ImportError as error:
        found.append(finding("drop-in", "broken", str(error), "install the package again"))
    return found


def environment() -> list[dict]:
    names = sorted(name for name in os.environ if name.startswith("FLEETBLAS_"))
    # The BLAS of the wheel is chosen by the package, not set by the user.
    names = [name for name in names if not (name == "FLEETBLAS_CPU_BLAS" and _native.named_blas)]
    text = ", ".join(f"{name}={os.environ[name]}" for name in names) or "none set"
    return [finding("FLEETBLAS_*", "ok", text)]


def for_table(findings: list[dict]) -> list[dict]:
    """Merges the rows of links without findings into one."""
    links = [
        each for each in findings if each["subject"].startswith("link ") and each["verdict"] == "ok"
    ]
    if len(links) < 2:
        return findings
    row = finding("pairs of devices", "ok", f"{len(links)} verified: {links[0]['text']}")
    shown = []
    for each in findings:
        if each is links[0]:
            shown.append(row)
        if not any(each is link for link in links):
            shown.append(each)
    return shown


def text_of(findings: list[dict]) -> str:
    width = max(len(each["subject"]) for each in findings)
    lines = []
    for each in for_table(findings):
        lines.append(f"{each['verdict']:<6}  {each['subject']:<{width}}  {each['text']}".rstrip())
        if each["advice"]:
            lines.append(" " * (width + 10) + "-> " + each["advice"])
    return "\n".join(lines)


def execute(arguments) -> int:
    common.require_writable(arguments.json)
    if not arguments.startup and (arguments.size or arguments.place):
        raise common.UsageError("--size and --place are of --startup")
    asked_for = common.context_options(arguments)
    begun = None
    if arguments.startup:  # before anything else has started the devices
        begun = startup.found(asked_for, arguments.size or 4096, arguments.place or "h")
    options = option_text(asked_for)
    report = json.loads(_native.text_of(_native.library.fleet_doctor_json, options))
    findings = libraries() + packages() + environment() + report["findings"]
    broken = [each for each in findings if each["verdict"] == "broken"]
    slow = [each for each in findings if each["verdict"] == "slow"]
    if arguments.json != "-":
        if begun:
            print(startup.text_of(begun), end="\n\n")
        print(text_of(findings))
        state = f"not healthy: {len(broken)} broken" if broken else "healthy"
        print(f"{state}, {len(slow)} slow" if slow else state)
    if arguments.json:
        common.write_json(
            arguments.json,
            {"healthy": not broken, "version": __version__, "findings": findings}
            | ({"startup": begun} if begun else {}),
        )
    return 1 if broken else 0
