# SPDX-License-Identifier: BSD-3-Clause
"""The order in which `bench` calls, verifies and waits, on engines that only take notes."""

import types

from fleetblas.commands import bench_method


def test_nothing_is_timed_while_the_threads_that_verified_may_still_spin(monkeypatch):
    notes = []
    monkeypatch.setattr(bench_method.time, "sleep", lambda seconds: notes.append(seconds))

    def engine(name):
        return types.SimpleNamespace(
            name=name,
            gpus=[],
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
        )

    method = bench_method.Method(warmup=1, most=1, least=1)
    bench_method.measure(
        [engine("a"), engine("b")],
        method,
        lambda: None,
        lambda gpus: None,
        lambda text: None,
        quiet_s=0.25,
    )

    assert notes[:6] == ["a first", "a verified", 0.25, "b first", "b verified", 0.25]
    assert "call" in notes[6]


def test_only_gpus_are_disturbed_by_threads_of_the_cpu():
    assert bench_method.quiet_s("cuda") >= 0.15
    assert bench_method.quiet_s("host") == 0
