# SPDX-License-Identifier: BSD-3-Clause
"""What the drop-in tests share: the preload library, compiled programs, the BLAS libraries and the
Python environments of this machine. It knows nothing of any single test.

FLEETBLAS_PRELOAD     libfleetblas_preload.so, with libfleetblas.so beside it
FLEETBLAS_TEST_VENVS  a folder with the environments numpy1 (or numpy126) and numpy2: NumPy, SciPy,
                      pytest, hypothesis
FLEETBLAS_CPU_BLAS    goes on to the programs
"""

import glob
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCE = HERE.parent.parent
LIMIT_S = 300
# NumPy's own tests: an eighth of their cases, or with FLEETBLAS_TEST_SCALE above 1 all of them.
# Needs PLUGINS in PYTHONPATH.
PLUGINS = HERE / "plugins"
NUMPY_CASES = (
    [] if float(os.environ.get("FLEETBLAS_TEST_SCALE", 1)) > 1 else ["-p", "one_operand_strided"]
)
# What has been measured as often is taken as it is, however unsteady.
MOST_MEASUREMENTS = 3


def _preload_library():
    path = os.environ.get("FLEETBLAS_PRELOAD")
    if not path or not os.path.exists(path):
        pytest.exit("FLEETBLAS_PRELOAD must name libfleetblas_preload.so", returncode=2)
    return Path(path).resolve()


@pytest.fixture(scope="session")
def preload():
    """The preload library as built, beside the real core."""
    library = _preload_library()
    if not (library.parent / "libfleetblas.so").exists():
        pytest.exit(f"no libfleetblas.so beside {library}", returncode=2)
    return library


@pytest.fixture(scope="session")
def recorder(tmp_path_factory):
    """A copy of the preload library beside a core that records what it is asked."""
    folder = tmp_path_factory.mktemp("recorder")
    shutil.copy(_preload_library(), folder)
    compile_c("recording_core.c", folder / "libfleetblas.so", ["-shared", "-fPIC"])
    return folder / "libfleetblas_preload.so"


def compile_c(source, target, flags):
    compiler = ["g++", "-std=c++20"] if source.endswith(".cpp") else ["gcc"]
    command = [*compiler, "-O1", "-Wall", "-Wextra", f"-I{SOURCE / 'src'}", "-o", str(target)]
    subprocess.run([*command, str(HERE / source), *flags], check=True, timeout=LIMIT_S)
    return target


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """Compiles a program of this folder once per set of flags: program("threads.c", "-lblas")."""
    folder = tmp_path_factory.mktemp("programs")
    built = {}

    def build(source, *flags):
        if (source, flags) not in built:
            target = folder / f"{Path(source).stem}-{len(built)}"
            built[source, flags] = compile_c(source, target, [*flags, "-pthread", "-ldl"])
        return built[source, flags]

    return build


def link_flags(library):
    """What links a program to this very file. A program remembers the name of a library, by which
    the loader may find another one: on Debian `libblas.so.3` is whichever BLAS is the alternative.
    DT_RPATH goes before all other places, and serves what the library itself needs too.
    """
    return [str(library), f"-Wl,-rpath,{os.path.dirname(library)},--disable-new-dtags"]


def _blas_libraries():
    """name -> file, for each BLAS of this machine that has plain names."""
    wheels = f"{os.environ.get('FLEETBLAS_TEST_VENVS')}/numpy1*/lib/python3*/site-packages"
    patterns = {
        "netlib": ["/usr/lib/*/blas/libblas.so.3", "/usr/lib64/blas/libblas.so.3"],
        "openblas": ["/usr/lib/*/libopenblas.so.0", "/usr/lib64/libopenblas.so.0"],
        "openblas-wheel": [f"{wheels}/scipy.libs/libopenblas*.so"],
    }
    return {
        name: file
        for name, places in patterns.items()
        for place in places
        for file in glob.glob(place)
    }


BLAS_LIBRARIES = _blas_libraries()
LAPACK_PLACES = ["/usr/lib/*/lapack/liblapack.so.3", "/usr/lib64/lapack/liblapack.so.3"]
# The words of LAPACK that are served, by the letters of the types that have them.
LAPACK_WORDS = {
    "sdcz": [
        *("getrf", "potrf", "geqrf", "getrs", "potrs", "gesv", "posv"),
        *("getri", "potri", "trtri", "trtrs", "lauum", "larfb"),
    ],
    "sd": ["orgqr", "ormqr"],
    "cz": ["ungqr", "unmqr"],
}
LAPACK_ROUTINES = {
    letter + word for letters, words in LAPACK_WORDS.items() for word in words for letter in letters
} | {"dsgesv", "zcgesv"}
NAME_FORMS = ("%s_", "scipy_%s_", "%s_64_", "%s64_", "scipy_%s_64_")
LAPACK_NAMES = {form % routine for form in NAME_FORMS for routine in LAPACK_ROUTINES}
ILAENV_NAMES = {form % "ilaenv" for form in NAME_FORMS}
# The names of the preload library alone that have to do with memory.
MEMORY_NAMES = {
    *("malloc", "calloc", "realloc", "free", "malloc_usable_size"),
    *("aligned_alloc", "posix_memalign", "memalign", "valloc", "pvalloc"),
    *("fleetblas_array_" + word for word in ("malloc", "calloc", "realloc", "free")),
    "fleetblas_pool",
}


@pytest.fixture(params=["netlib", "openblas", "openblas-wheel"])
def blas(request):
    """Link flags of a BLAS with plain names."""
    if request.param not in BLAS_LIBRARIES:
        pytest.skip(f"no {request.param} on this machine")
    return link_flags(BLAS_LIBRARIES[request.param])


@pytest.fixture
def netlib():
    if "netlib" not in BLAS_LIBRARIES:
        pytest.skip("the reference BLAS (libblas3) is not on this machine")
    return link_flags(BLAS_LIBRARIES["netlib"])


@pytest.fixture(scope="session")
def reference_lapack():
    """The file of the reference LAPACK, which goes on to the reference BLAS."""
    found = [file for place in LAPACK_PLACES for file in glob.glob(place)]
    if not found or "netlib" not in BLAS_LIBRARIES:
        pytest.skip("the reference LAPACK (liblapack3) is not on this machine")
    return found[0]


@pytest.fixture(scope="session")
def no_blas(tmp_path_factory):
    """A folder with a file of no use for each name by which a BLAS is opened."""
    folder = tmp_path_factory.mktemp("useless")
    for name in ("libopenblas.so.0", "libopenblas.so", "libblas.so.3", "libblas.so"):
        (folder / name).write_bytes(b"")
    return folder


def environment_python(name):
    """The interpreter of an environment, "numpy1" or "numpy2"."""
    folder = os.environ.get("FLEETBLAS_TEST_VENVS", "/nonexistent")
    found = sorted(glob.glob(f"{folder}/{name}*/bin/python"))
    if not found:
        pytest.skip(f"no environment {name} in {folder} (its wheels may not exist for this Python)")
    return Path(found[0])


@pytest.fixture(params=["numpy1", "numpy2"])
def python(request):
    """A Python interpreter with NumPy and SciPy wheels."""
    return environment_python(request.param)


def clean_environment(**settings):
    """This process's environment without settings of ours but the CPU BLAS, plus `settings`."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key == "FLEETBLAS_CPU_BLAS"
        or not (key.startswith(("FLEETBLAS_", "RECORD_")) or key == "LD_PRELOAD")
    }
    return kept | {key: str(value) for key, value in settings.items()}


def stay_on_one_core():
    """For programs of a million tiny calls, in which threads mostly wake each other up: across
    cores this takes three times as long."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


class Result:
    """What a program printed, and the events that a recording core noted: lists of words."""

    def __init__(self, completed, record):
        self.returncode = completed.returncode
        self.stdout = completed.stdout
        self.stderr = completed.stderr
        lines = record.read_text().splitlines() if record.exists() else []
        self.events = [line.split() for line in lines]

    def count(self, event):
        return sum(words[0] == event for words in self.events)


@pytest.fixture(scope="session")
def measured(preload, program, tmp_path_factory):
    """A folder with the virtual devices of HOST_DEVICES, measured. That takes two seconds of all
    cores, and up to three processes where other work disturbs it."""
    folder = tmp_path_factory.mktemp("measured")
    product = [str(program("threads.c", *link_flags(preload))), "1", "1", "20"]
    environment = clean_environment(FLEETBLAS_CACHE_DIR=folder, **HOST_DEVICES)
    for _ in range(MOST_MEASUREMENTS):
        subprocess.run(product, env=environment, check=True, timeout=LIMIT_S, capture_output=True)
    return folder


@pytest.fixture
def unmeasured(tmp_path):
    """Settings for programs that measure the devices themselves."""
    return {"FLEETBLAS_CACHE_DIR": tmp_path / "unmeasured"}


@pytest.fixture
def run(measured, tmp_path):
    """Runs a command: run([program, ...], preload=library, FLEETBLAS_OFFLOAD="always"). Programs of
    one test share what they learn of the devices, and no other test sees it."""
    own_cache = tmp_path / "cache"
    shutil.copytree(measured, own_cache)

    def run_command(command, preload=None, limit_s=LIMIT_S, cwd=None, one_core=False, **settings):
        record = tmp_path / f"record-{len(list(tmp_path.iterdir()))}"
        settings.setdefault("RECORD_FILE", record)
        settings.setdefault("FLEETBLAS_CACHE_DIR", own_cache)
        environment = clean_environment(**settings)
        if preload:
            environment["LD_PRELOAD"] = str(preload)
        completed = subprocess.run(
            [str(word) for word in command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=limit_s,
            cwd=cwd,
            preexec_fn=stay_on_one_core if one_core else None,
        )
        return Result(completed, record)

    return run_command


VERBOSE_LINE = re.compile(
    r"(\w+)\(.*\) \S+ (?:.*predicted \S+ )?(?:\(corrected \S+\) )?gpus:(\d+) .* "
    r"(devices|cpu|nowhere) \("
)


def where_calls_ran(stderr):
    """(symbol, place, number of devices) of each call, from what FLEETBLAS_VERBOSE prints."""
    lines = [VERBOSE_LINE.match(line) for line in stderr.splitlines()]
    return [(line[1], line[3], int(line[2])) for line in lines if line]


HOST_DEVICES = {
    "FLEETBLAS_BACKEND": "host",
    "FLEETBLAS_DEVICES": "4",
    "FLEETBLAS_OFFLOAD": "always",
}
