# SPDX-License-Identifier: BSD-3-Clause
"""What must be survived with real GPUs: memory that others take, devices and links that fail, many
callers, forks, exits, operands of every kind.

Each program of gpu_programs.py runs in a process of its own, with a limit on its time, and must be
silent but for what it reports. Those that do not disturb each other run some at a time, which is
the load of other processes at once.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

PROGRAMS = pathlib.Path(__file__).with_name("gpu_programs.py")
LIMIT_S = 120
AT_ONCE = 4
EXIT_LIMIT_S = 10  # two are for the library; the rest is CUDA's, which takes down every GPU
RANKS = 4
SMALL = str(64 * 2**20)

OPERANDS = (
    *("pageable", "registered", "read_only", "partly_registered", "pinned", "managed"),
    *("first_gpu", "last_gpu", "given_on_host", "given_on_gpu", "c_on_host"),
    *("pool_of_first", "pool_of_last", "spread", "spread_back"),
)
COME_AGAIN = ("pinned", "gpu", "given_on_host", "given_on_gpu", "registered")
HUGE = ("pageable", "pageable_far", "gpu", "gpu_far", "managed")
FAULTS = (
    *("copy:1", "copy:7", "copy:60", "launch:1", "launch:5", "launch:90"),
    *("alloc:1", "alloc:2", "alloc:3", "lost:0@0", "lost:0@9"),
)

# name: (program and arguments, settings)
QUIET = {
    "operands": ("operands", {}),
    "arrays": ("arrays", {}),
    "huge": ("huge", {}),
    "come_again": ("come_again", {}),
    "inject": ("inject " + " ".join(FAULTS), {}),
    "lost": ("product 2048 2", {"INJECT": "lost:0@5", "TILE": "256"}),
    "lost_home": ("lost_home 0", {"INJECT": "lost:0@5", "TILE": "256"}),
    "nopeer": ("product 1500 2 0,h,{last}", {"INJECT": "nopeer", "CACHE_DIR": ""}),
    "nopeer_pair": ("product 1500 2 0,p,{last}", {"INJECT": "nopeer:0-1", "CACHE_DIR": ""}),
    "small_memory": ("product 4000 2", {"DEVICE_MEMORY": SMALL}),
    "small_cap": ("product 4000 2 h,h,h", {"MEMORY_CAP": SMALL}),
    "contexts": ("contexts", {}),
    "threads": ("threads", {}),
    "fork": ("fork", {}),
}


def start(words, settings, **channels):
    environment = {f"FLEETBLAS_{name}": value for name, value in settings.items()}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", str(PROGRAMS), *words.split()],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **{"stdin": subprocess.DEVNULL, **channels},
    )


def finish(program, limit_s=LIMIT_S, given=None):
    """What it reported, line by line. Fails if it hung, crashed or said anything else."""
    try:
        out, said = program.communicate(given, timeout=limit_s)
    except subprocess.TimeoutExpired:
        program.kill()
        out, said = program.communicate()
        pytest.fail(f"not done in {limit_s} s; so far: {out}{said}")
    assert (program.returncode, said) == (0, ""), f"{out}{said}"
    return [json.loads(line) for line in out.splitlines()]


def right(reports, where=None):
    """The reports, of which none is wrong; all computed there, if `where` says so."""
    assert reports
    for report in reports:
        assert report["wrong"] is None, report
        assert where is None or report["where"] == where, report
    return reports


@pytest.fixture(scope="module")
def settings(gpus, tmp_path_factory):
    """The machine is measured before anybody disturbs it, and once."""
    folder = os.environ.get("FLEETBLAS_CACHE_DIR") or str(tmp_path_factory.mktemp("machines"))
    found = {"CACHE_DIR": folder}
    right(finish(start("product 500 1", found)), "devices")
    return found


@pytest.fixture(scope="module")
def quiet(settings, gpus):
    """Reports by name; all programs of QUIET are started with the first."""
    crew = ThreadPoolExecutor(AT_ONCE)
    waiting = {
        name: crew.submit(
            lambda words, more: finish(start(words.format(last=gpus[-1]), {**settings, **more})),
            words,
            more,
        )
        for name, (words, more) in QUIET.items()
    }
    yield lambda name: waiting[name].result()
    crew.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def alone(quiet):
    """The programs of QUIET are over: what takes all memory may begin."""
    for name in QUIET:
        try:
            quiet(name)
        except BaseException:  # pytest.fail included; the test of that name tells
            continue


def links_of(report):
    return {tuple(link.split("->")) for link in report["bytes_by_link"]}


# ---- operands -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", OPERANDS)
def test_operands_in_memory_of_every_kind_are_used_by_the_devices(kind, quiet):
    (report,) = [report for report in quiet("operands") if report["what"] == kind]
    right([report], "devices")
    assert report["reason"] == "offload=always", report


@pytest.mark.parametrize("kind", COME_AGAIN)
def test_memory_that_comes_again_at_an_address_that_was_given_back(kind, quiet):
    reports = [report for report in quiet("come_again") if report["what"] == kind]
    assert len(reports) == 4
    right(reports, "devices")


@pytest.mark.parametrize("kind", HUGE)
def test_leading_dimensions_beyond_32_bits(kind, quiet):
    (report,) = [report for report in quiet("huge") if report["what"] == kind]
    right([report], "devices")


@pytest.mark.parametrize("maker", ["torch", "cupy"])
def test_arrays_of_other_libraries_on_every_gpu(maker, quiet, gpus):
    reports = quiet("arrays")
    if not reports[-1][maker]:
        pytest.skip(f"{maker} is not installed")
    mine = right([report for report in reports if report["what"].startswith(maker)], "devices")
    assert len(mine) == 2 * len(gpus)


@pytest.mark.parametrize("name", ["small_memory", "small_cap"])
def test_operands_larger_than_the_memory_of_the_devices(name, quiet):
    right(quiet(name), "devices")


# ---- devices, links and tasks that fail ---------------------------------------------------------


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_leaves_the_right_result_and_the_next_call_works(fault, quiet):
    mine = [report for report in quiet("inject") if report["what"].split(",")[0] == fault]
    assert len(right(mine)) == 2
    # The second try after a failed allocation works, and a device lost from the start is no worker.
    if not fault.startswith("alloc") and fault != "lost:0@0":
        assert mine[0]["reason"] == "finished on the CPU after a fault"


def test_a_lost_device_is_done_without(quiet, gpus):
    first, second = right(quiet("lost"))
    assert first["reason"] == "finished on the CPU after a fault"
    assert second["where"] == ("devices" if len(gpus) > 1 else "cpu")
    assert not any("0" in link for link in links_of(second))


def test_a_device_that_is_lost_with_c_is_reported(quiet):
    (report,) = right(quiet("lost_home"))
    assert report["statuses"] == ["device_failed", "device_failed"]


def test_without_peer_copies_everything_goes_by_the_host(quiet):
    for report in right(quiet("nopeer"), "devices"):
        assert all({"host", "pageable"} & set(link) for link in links_of(report)), report


def test_a_pair_without_peer_copies_is_gone_around(quiet, gpus):
    if len(gpus) < 2:
        pytest.skip("one GPU has no pairs")
    for report in right(quiet("nopeer_pair"), "devices"):
        assert not {("0", "1"), ("1", "0")} & links_of(report), report


# ---- callers, forks, exits ----------------------------------------------------------------------


def test_contexts_with_different_devices_at_once(quiet):
    assert len(right(quiet("contexts"), "devices")) >= 4


def test_sixty_four_callers_on_one_context_and_on_the_default_one(quiet):
    (report,) = right(quiet("threads"))
    assert report["calls"] == 64 * 3


def test_forked_children_compute_on_the_cpu_and_harm_nobody(quiet):
    reports = quiet("fork")
    assert [report["child"] for report in reports if "child" in report] == [0] * 4
    right([report for report in reports if "child" not in report], "devices")


EMULATION = {
    "nothing": {},
    "doubles": {"CUBLAS_EMULATE_DOUBLE_PRECISION": "1", "CUBLAS_EMULATION_STRATEGY": "eager"},
    "floats": {"CUBLAS_EMULATE_SINGLE_PRECISION": "1", "CUBLAS_EMULATION_STRATEGY": "eager"},
    "tf32": {"NVIDIA_TF32_OVERRIDE": "1"},
}


@pytest.mark.parametrize("edge", [777, 2048])
def test_cublas_s_emulation_variables_change_no_bits(edge, settings, monkeypatch):
    found = {}
    for asked, variables in EMULATION.items():
        with monkeypatch.context() as environment:
            for name, value in variables.items():
                environment.setenv(name, value)
            # Another plan may add in another order.
            fixed = {**settings, "TILE": "512", "DETERMINISTIC": "1"}
            program = start(f"bits {edge}", fixed)
        found[asked] = right(finish(program), "devices")
    for asked, reports in found.items():
        for report, native in zip(reports, found["nothing"]):
            # Elsewhere doubles come from other native kernels then, which may add in another order.
            if report["hopper"] or asked != "doubles":
                assert report["checksum"] == native["checksum"], (asked, report)


def test_an_operand_that_reaches_beyond_its_memory_on_a_gpu_is_refused(settings, gpus):
    (report,) = right(finish(start(f"beyond {gpus[0]}", settings)))
    assert report["status"] == "bad_argument"
    assert "beyond its memory on a device" in report["message"]


def test_a_device_whose_kernel_has_failed_is_lost_and_its_memory_is_not_read(settings, gpus):
    before, *failed, host = right(finish(start(f"failed_kernel {gpus[0]}", settings)))
    assert before["where"] == "devices"
    assert {report["status"] for report in failed} <= {"device_failed", "unsupported"}
    assert host["wrong"] is None


@pytest.mark.parametrize("way", ["python", "main", "thread"])
def test_a_process_ends_in_time_and_silently_in_the_middle_of_calls(way, settings, tmp_path):
    began = tmp_path / "began"
    assert finish(start(f"leave {way} {began}", settings)) == []
    assert time.monotonic() - float(began.read_text()) < EXIT_LIMIT_S


# ---- other processes ----------------------------------------------------------------------------


def test_calls_during_the_load_of_another_process(settings, alone):
    load = start("forever 2500", settings, stdin=subprocess.PIPE)
    assert json.loads(load.stdout.readline())["wrong"] is None
    right(finish(start("product 1800 3", settings)), "devices")
    (report,) = right(finish(load, given=""), "devices")
    assert report["calls"] > 0


@pytest.mark.parametrize("devices", ["split", ""], ids=["a_part_each", "all_share_all"])
def test_ranks_at_once(devices, settings, alone, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(RANKS))
    ranks = []
    for rank in range(RANKS):
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        ranks.append(start("product 1600 3", {**settings, "DEVICES": devices}))
    for rank in ranks:
        right(finish(rank), "devices")


def test_a_rank_that_is_killed_leaves_the_others_alone(settings, alone):
    ranks = [start("forever 2000", settings, stdin=subprocess.PIPE) for _ in range(3)]
    for rank in ranks:
        assert json.loads(rank.stdout.readline())["wrong"] is None
    ranks[0].send_signal(signal.SIGKILL)
    ranks[0].communicate()
    for rank in ranks[1:]:
        right(finish(rank, given=""), "devices")


@pytest.fixture(scope="module")
def holder(settings, alone):
    """Another process, which holds the part of all memory that it is told."""
    process = start("hold", settings, stdin=subprocess.PIPE)

    def hold(share):
        process.stdin.write(f"{share}\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["share"] == share

    yield hold
    process.communicate(timeout=LIMIT_S)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_memory_that_others_hold_before_the_first_call(share, holder, settings):
    holder(share)
    right(finish(start("product 3000 2", settings)), "devices")


def test_memory_that_others_take_between_calls(holder, settings):
    holder(0)
    reports = right(finish(start("between 0.1 0.5 0.95 1", settings)))
    assert len(reports) == 10
    assert reports[0]["where"] == reports[-1]["where"] == "devices"
