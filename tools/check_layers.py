#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks rules that no compiler checks: the includes of each room, and the place of some code;
and that no two files of a library have a name of their own in common.

Standard library only. `check_layers.py [FOLDER]` prints one line per finding and fails if there
is any that is not a warning. ARCHITECTURE.md ("Where a line belongs") has the reasons.
"""

import os
import re
import sys

# The pure rooms (values and functions of values), each of which sees those before it.
MODEL = ("base", "problem", "machine", "program", "plan", "sim")
# The other rooms that each room of src sees.
RUN = (*MODEL, "pool")
CPU = (*RUN, "run")
BACKEND = (*CPU, "cpu")
CORE = (*BACKEND, "tune", "recover", "probe", "backend", "backend/host", "backend/sim")
ROOMS = {
    **{room: MODEL[:place] for place, room in enumerate(MODEL)},
    "pool": (),
    "tune": MODEL,
    "run": RUN,
    "cpu": CPU,
    "recover": BACKEND,
    "probe": BACKEND,
    "backend": BACKEND,
    "backend/host": BACKEND,
    "backend/sim": BACKEND,
    "backend/cuda": (*BACKEND, "backend"),
    "core": CORE,
    "linalg": (*CORE, "core"),
    "api": (*CORE, "core", "linalg"),
}
# The rooms of lu, which see the public headers beside these.
LU_ROOMS = {
    "comm": (),
    "comm_mpi": ("comm",),
    "comm_nccl": ("comm",),
    "dist": ("comm",),
    "schedule": ("dist",),
    "sim": ("dist", "schedule"),
    "api": ("sim",),
    "work": ("comm", "schedule"),
    "factor": ("comm", "dist", "schedule", "work"),
    "on_device": ("comm", "comm_nccl", "dist", "schedule", "work", "factor"),
    "hpl": ("comm", "dist", "schedule", "work", "factor", "on_device"),
    "routines": ("comm", "dist", "schedule", "work", "factor", "on_device"),
    "linpack": ("comm", "comm_mpi", "hpl"),
    "mpi_api": ("comm", "comm_mpi", "dist", "schedule", "work", "on_device", "routines"),
    "scalapack": ("comm_mpi",),
}
# The entry layers in front of a BLAS, and the rooms whose headers each may include.
FRONTS = {"preload": ("preload", "pool"), "libblas": ("preload", "libblas")}
# The headers of other rooms that those see: they need no library.
SEEN_BY_FRONTS = ("api/dropin.h", "problem/arguments.hpp", "problem/lapack_arguments.hpp")
# The rooms that see the C API.
PUBLIC = ("core", "api", "preload")
MAX_LINES = 500
# The largest share of the lines of src that one room may have; a larger room should be split.
MAX_SHARE = 1 / 5

# The rooms of each library, whose files CMakeLists.txt compiles several at a time.
LIBRARIES = (
    ("base",),
    ("pool",),
    (*MODEL[1:], "tune"),
    ("run", "cpu", "recover", "probe", "backend", "backend/host", "backend/sim"),
    ("core", "linalg", "api"),
)

PLANNER = ("src/program/", "src/plan/", "src/sim/", "src/tune/")
PURE = ("src/problem/", "src/machine/", "src/base/error", "lu/schedule/", "lu/sim/", *PLANNER)
EVERYWHERE = ("src/",)

# (description, pattern, folders that are searched, files where the pattern is allowed)
PLACES = [
    (
        "a CUDA header or call outside the CUDA backend",
        r"#\s*include\s*[<\"](cuda|cublas|nccl|nvToolsExt|nvtx)|\bcuda[A-Z]\w*\(",
        (*EVERYWHERE, "include/"),
        ("src/backend/cuda/",),
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
        ("src/preload/", "src/libblas/"),
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
        r"#\s*include\s*(<(chrono|ctime|random|time\.h)>|\"base/clock)|\bstd::chrono\b"
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
        ("src/machine/machine_json.cpp",),
    ),
    (
        "an unordered container in the planner: the same inputs must give the same plan",
        r"\bunordered_(map|set|multimap|multiset)\b",
        PLANNER,
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

# What a file keeps to itself: types, constants and functions in its unnamed namespaces, and macros.
UNNAMED = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)
TYPE = re.compile(r"^(?:struct|class|enum(?: class)?|union) (\w+)", re.MULTILINE)
CONSTANTS = re.compile(r"^(?:inline |static |thread_local )*constexpr ([^(;]*?)[={;]", re.MULTILINE)
CONSTANT = re.compile(r"\b(k[A-Z]\w*)")
FUNCTION = re.compile(
    r"^(?!struct|class|enum|union|using|return)(?:[\w:<>,*&\[\]]+ )+[*&]?"
    r"(\w+)\(([^;{}]*)\)[\w ]*\{",
    re.MULTILINE,
)
MACRO = re.compile(r"^#\s*define (\w+)", re.MULTILINE)


def files_of(root):
    """Source files below src, include, tests, python, bench, examples and lu, as relative paths."""
    for top in ("src", "include", "tests", "python", "bench", "examples", "lu", "tools"):
        for folder, names, files in os.walk(os.path.join(root, top)):
            names[:] = sorted(n for n in names if n != "__pycache__" and not n.startswith("."))
            for name in sorted(files):
                if name.endswith((".h", ".hpp", ".cpp", ".c", ".cu", ".py", ".sh")):
                    path = os.path.relpath(os.path.join(folder, name), root)
                    # The build copies these files.
                    if not path.startswith(("python/fleetblas/include", "python/fleetblas/lib")):
                        yield path


def code_of(line):
    """The line without its comment and its string literals."""
    line = re.sub(r'"(\\.|[^"\\])*"', '""', line) if "#" not in line[:3] else line
    return re.sub(r"//.*|/\*.*?\*/|^\s*\*.*", "", line)


def may_stand(path, allowed):
    return any(path.endswith(a[1:]) if a.startswith("*") else path.startswith(a) for a in allowed)


def room_of(path):
    """The room of a file or an include below src: its folder."""
    return os.path.dirname(path.removeprefix("src/"))


def include_finding(path, included):
    """The reason why the file `path` may not include "included", or None."""
    room, of = room_of(path), room_of(included)
    if of == "fleetblas":
        return None if room in PUBLIC else f"src/{room} does not see the C API"
    if room in FRONTS:
        fine = of in FRONTS[room] or not of or included in SEEN_BY_FRONTS
        return None if fine else f"src/{room} sees {' and '.join(SEEN_BY_FRONTS)} only"
    if room not in ROOMS:
        return f"src/{room} is no room of ARCHITECTURE.md"
    if of not in ROOMS:
        return f'"{included}": includes name their room, as in "plan/plan.hpp"'
    if of != room and of not in ROOMS[room]:
        return f"src/{room} does not see src/{of}"
    return None


def lu_include_finding(path, included):
    """The same of a file of lu."""
    room, of = room_of(path.removeprefix("lu/")), room_of(included)
    if room not in LU_ROOMS:
        return f"lu/{room} is no room of ARCHITECTURE.md"
    if of in (room, "fleetblas", *LU_ROOMS[room]):
        return None
    return f"lu/{room} does not see {of or included}"


def crowded_rooms(lines_of):
    """A sentence for each folder of src with too large a share of all lines, by {path: lines}."""
    rooms = {}
    for path, lines in lines_of.items():
        if path.startswith("src/"):
            room = path.split("/")[1]
            rooms[room] = rooms.get(room, 0) + lines
    for room, lines in sorted(rooms.items()):
        if lines > MAX_SHARE * sum(rooms.values()):
            yield f"src/{room} has {lines / sum(rooms.values()):.0%} of the lines of src"


def own_names(text):
    """What no other file of the library may have too; functions with their parameters."""
    text = re.sub(r"//(?! namespace$).*", "", text, flags=re.MULTILINE)
    names = set(MACRO.findall(text)) - set(re.findall(r"^#\s*undef (\w+)", text, re.MULTILINE))
    for unnamed in UNNAMED.finditer(text):
        part = unnamed.group(1)
        own = TYPE.findall(part)
        for declared in CONSTANTS.findall(part):
            own += CONSTANT.findall(declared)[-1:]
        for name, parameters in FUNCTION.findall(part):
            kinds = (re.sub(r"\s*\b\w+$", "", one.strip()) for one in parameters.split(","))
            own.append(f"{name}({', '.join(kinds)})")
        around = re.findall(r"^namespace ([\w:]+) \{", text[: unnamed.start()], re.MULTILINE)[-1:]
        names.update("::".join((*around, name)) for name in own)
    return names


def shared_names(text_of):
    """A sentence for each name that two files of one library have, by {path: text}."""
    first = {}
    for path, text in sorted(text_of.items()):
        library = next((rooms for rooms in LIBRARIES if room_of(path) in rooms), None)
        if library is None or not path.startswith("src/") or not path.endswith(".cpp"):
            continue
        group = (library, "<nlohmann/" in text)  # those are compiled apart
        for name in sorted(own_names(text)):
            other = first.setdefault((group, name), path)
            if other != path:
                yield f"{path}: {name} is in {other} too: a library's files are compiled together"


def findings_in(path, text):
    """(line, sentence, is_warning) for every finding in one file."""
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
        match = INCLUDE.match(line) if path.startswith(("src/", "lu/")) else None
        finding = lu_include_finding if path.startswith("lu/") else include_finding
        if match and (why := finding(path, match.group(1))):
            yield number, why, False
        code = line if path.endswith((".py", ".sh")) else code_of(line)
        for what, pattern in places:
            if pattern.search(line if what == "unfinished work" else code):
                yield number, what, False


def main(arguments):
    root = arguments[0] if arguments else os.path.join(os.path.dirname(__file__), "..")
    errors = 0
    lines_of, text_of = {}, {}
    for path in files_of(root):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        lines_of[path] = text.count("\n")
        text_of[path] = text
        for line, sentence, is_warning in findings_in(path, text):
            errors += not is_warning
            print(f"{path}:{line}: {'warning: ' if is_warning else ''}{sentence}")
    for sentence in (*crowded_rooms(lines_of), *shared_names(text_of)):
        errors += 1
        print(sentence)
    print(f"check_layers: {len(lines_of)} files, {errors} findings")
    return 1 if errors or not lines_of else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
