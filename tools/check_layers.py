#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks what no compiler checks: which layer may include which, and where a line may stand.

Standard library only. `check_layers.py [FOLDER]` prints one line per finding and fails if there
is any that is not a warning. ARCHITECTURE.md ("Where a line belongs") has the reasons.
"""

import os
import re
import sys

# A layer sees itself and the layers before it.
LAYERS = ["base", "problem", "machine", "program", "plan", "exec", "tune", "blas"]
# What stands in front of a BLAS, and whose headers each part may include.
FRONTS = {"preload": ("preload",), "libblas": ("preload", "libblas")}
MAX_LINES = 500

SIMULATOR = (
    "src/exec/simulate",
    "src/exec/fair_share",
    "src/exec/kernel_pool",
    "src/exec/busy_time",
    "src/exec/trace.",
)
PLANNER = ("src/program/", "src/plan/", "src/tune/")
PURE = ("src/problem/", "src/machine/", "src/base/error", *PLANNER, *SIMULATOR)
EVERYWHERE = ("src/",)

# (what the line would be, pattern, folders in which it is looked for, files where it may stand)
PLACES = [
    (
        "a CUDA header or call outside the CUDA backend",
        r"#\s*include\s*[<\"](cuda|cublas|nccl|nvToolsExt|nvtx)|\bcuda[A-Z]\w*\(",
        (*EVERYWHERE, "include/"),
        ("src/exec/cuda_",),
    ),
    (
        "reading the environment outside base/options",
        r"\b(secure_)?getenv\b|\benviron\b",
        EVERYWHERE,
        ("src/base/options", "src/preload/"),
    ),
    (
        "printing outside the log",
        r"#\s*include\s*<(iostream|print)>|\bstd::(cout|cerr|clog)\b"
        r"|(?<![\w:])(std::)?(printf|puts|putchar|perror)\s*\(|\bfprintf\s*\(\s*std(out|err)\b",
        EVERYWHERE,
        ("src/blas/log", "src/preload/", "src/libblas/"),
    ),
    (
        "ending the process",
        r"(?<![\w:.>])(std::)?(abort|exit|_exit|_Exit|quick_exit|terminate)\s*\(|(?<!_)\bassert\s*\(",
        EVERYWHERE,
        ("src/libblas/chosen",),
    ),
    (
        "a thread or a lock in the model",
        r"#\s*include\s*<(thread|mutex|shared_mutex|atomic|condition_variable|future)>",
        PURE,
        (),
    ),
    (
        "a clock or a random number in the model",
        r"#\s*include\s*<(chrono|ctime|random|time\.h)>|\bstd::chrono\b"
        r"|\b(s?rand|clock_gettime)\s*\(",
        PURE,
        (),
    ),
    (
        "a library loaded by the model",
        r"#\s*include\s*<dlfcn\.h>|\bdl(m?open|v?sym)\s*\(",
        PURE,
        (),
    ),
    (
        "a routine in the planner, which knows matrices, chains and ops",
        r"\btraits(_of)?\s*\(|\bRoutine(Traits)?\b|\.routine\b",
        ("src/plan/",),
        ("src/plan/bound",),
    ),
    (
        "a file in the model",
        r"#\s*include\s*<(fstream|filesystem|cstdio|stdio\.h|unistd\.h)>",
        PURE,
        ("src/machine/load_machine", "src/machine/machine"),
    ),
    (
        "an unordered container in the planner: the same inputs must give the same plan",
        r"\bunordered_(map|set|multimap|multiset)\b",
        (*PLANNER, *SIMULATOR),
        (),
    ),
    (
        "nlohmann/json in a header",
        r"#\s*include\s*<nlohmann/",
        (*EVERYWHERE, "include/"),
        ("*.cpp",),
    ),
    ("unfinished work", r"\b(TO[D]O|FIX[M]E|X[X]X)\b", (*EVERYWHERE, "include/", "python/"), ()),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def files_of(root):
    """Source files below src, include, tests, python, bench, examples and lu, as relative paths."""
    for top in ("src", "include", "tests", "python", "bench", "examples", "lu", "tools"):
        for folder, names, files in os.walk(os.path.join(root, top)):
            names[:] = sorted(n for n in names if n != "__pycache__" and not n.startswith("."))
            for name in sorted(files):
                if name.endswith((".h", ".hpp", ".cpp", ".c", ".cu", ".py", ".sh")):
                    path = os.path.relpath(os.path.join(folder, name), root)
                    # Copied there by the build.
                    if not path.startswith(("python/fleetblas/include", "python/fleetblas/lib")):
                        yield path


def code_of(line):
    """The line without its comment and its string literals."""
    line = re.sub(r'"(\\.|[^"\\])*"', '""', line) if "#" not in line[:3] else line
    return re.sub(r"//.*|/\*.*?\*/|^\s*\*.*", "", line)


def may_stand(path, allowed):
    return any(path.endswith(a[1:]) if a.startswith("*") else path.startswith(a) for a in allowed)


def include_finding(path, included):
    """Why the file `path` may not include "included", or None."""
    layer = path.split("/")[1]
    of = included.split("/")[0]
    if included.startswith("fleetblas/"):
        public_ones = ("blas", "preload")
        return None if layer in public_ones else "only src/blas and src/preload include the C API"
    if layer in FRONTS:
        fine = of in FRONTS[layer] or "/" not in included or included == "blas/dropin.h"
        return None if fine else f"src/{layer} sees of the core blas/dropin.h only"
    if layer not in LAYERS:
        return f"src/{layer} is no layer of ARCHITECTURE.md"
    if of not in LAYERS:
        return f'"{included}": includes name their layer, as in "plan/plan.hpp"'
    if LAYERS.index(of) > LAYERS.index(layer):
        return f"layer {layer} includes {of}, which stands above it"
    return None


def findings_in(path, text):
    """(line, sentence, is_warning) for all that is wrong in one file."""
    lines = text.splitlines()
    if not any("SPDX-License-Identifier: BSD-3-Clause" in line for line in lines[:2]):
        yield 1, "no SPDX line at the top", False
    if len(lines) > MAX_LINES:
        yield MAX_LINES, f"{len(lines)} lines: is a concept missing?", True
    places = [
        (what, re.compile(pattern))
        for what, pattern, folders, allowed in PLACES
        if path.startswith(folders) and not may_stand(path, allowed)
    ]
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line) if path.startswith("src/") else None
        if match and (why := include_finding(path, match.group(1))):
            yield number, why, False
        code = line if path.endswith((".py", ".sh")) else code_of(line)
        for what, pattern in places:
            if pattern.search(line if what == "unfinished work" else code):
                yield number, what, False


def main(arguments):
    root = arguments[0] if arguments else os.path.join(os.path.dirname(__file__), "..")
    files = errors = 0
    for path in files_of(root):
        files += 1
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        for line, sentence, is_warning in findings_in(path, text):
            errors += not is_warning
            print(f"{path}:{line}: {'warning: ' if is_warning else ''}{sentence}")
    print(f"check_layers: {files} files, {errors} findings")
    return 1 if errors or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
