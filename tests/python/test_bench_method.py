# SPDX-License-Identifier: BSD-3-Clause
"""The order in which `bench` calls, verifies and waits, on engines that only take notes."""

import types

import pytest
from fleetblas.commands import bench_method


@pytest.fixture
def notes(monkeypatch):
    taken = []
    monkeypatch.setattr(bench_method.time, "sleep", taken.append)
    return taken


def measure(notes, gpus):
    """Two engines, of which the second has these GPUs."""

    def engine(name, gpus):
        return types.SimpleNamespace(
            name=name,
            gpus=gpus,
            failure=None,
            times=[],
            verdicts=[],
            energy=None,
            operands=types.SimpleNamespace(growth=1),
            start_up=lambda: None,
            reset=lambda: None,
            first_call=lambda: notes.append(f"{name} first") or 1.0,
            call=lambda: notes.append(f"{name} call") or 1.0,
            verdict=lambda reference, everything: notes.append(f"{name} verified"),
            make_ready=lambda: notes.append(f"{name} ready"),
        )

    bench_method.measure(
        [engine("a", []), engine("b", gpus)],
        bench_method.Method(warmup=1, most=1, least=1),
        lambda: None,
        lambda gpus: None,
        lambda text: None,
    )


def test_on_gpus_nothing_is_timed_while_the_threads_that_verified_may_still_spin(notes):
    measure(notes, [0])

    wait = bench_method.QUIET_S
    assert wait >= 0.15
    firsts = ["a first", "a verified", "a ready", wait, "b first", "b verified", "b ready", wait]
    assert notes[:8] == firsts
    assert notes[8] == "b call"


def test_nobody_waits_without_gpus(notes):
    measure(notes, [])

    firsts = ["a first", "a verified", "a ready", "b first", "b verified", "b ready"]
    assert notes[:7] == [*firsts, "b call"]
    assert bench_method.QUIET_S not in notes
