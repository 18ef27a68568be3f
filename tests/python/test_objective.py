# SPDX-License-Identifier: BSD-3-Clause
"""What plans are chosen for: the setting, the keys of plans, and the lines of `fleetblas plan`."""

import math
import subprocess
import sys

import fleetblas
import numpy as np
import pytest

PROBLEM = {"size": 2048, "place": "0"}


def plan(**options):
    with fleetblas.Context(
        backend="sim", **{"machine": "clx-ai", "devices": "auto", **options}
    ) as context:
        return context.plan(**PROBLEM)


def test_time_is_the_objective_unless_another_is_asked_for():
    fastest = plan()
    assert fastest["objective"] == "time"
    assert fastest["predicted_value"] == fastest["predicted_s"]
    assert fastest["bound_value"] == fastest["bound_s"]
    assert fastest["joules_node"] >= fastest["joules"] > 0


@pytest.mark.parametrize("word", ["edp", "energy", "energy@1.5"])
def test_plans_are_chosen_by_the_objective_and_judged_by_its_bound(word):
    fastest, chosen = plan(), plan(objective=word)
    assert chosen["objective"] == word
    assert chosen["joules"] < fastest["joules"]
    expected = chosen["joules"] * (chosen["predicted_s"] if word == "edp" else 1)
    assert chosen["predicted_value"] == pytest.approx(expected)
    assert 0 < chosen["bound_value"] <= chosen["predicted_value"]
    if "@" in word:
        assert chosen["predicted_s"] <= 1.5 * fastest["predicted_s"]
        assert plan(objective="energy")["predicted_s"] > 1.5 * fastest["predicted_s"]
    else:
        assert len(chosen["workers"]) < len(fastest["workers"])
        assert {left["device"] for left in chosen["left_out"]} == set(range(8)) - set(
            chosen["workers"]
        )
    assert {tried["verdict"] for tried in chosen["why"]} & {"worse", "alike", "more_issuing"}


def test_pdp_is_the_papers_word_for_energy():
    assert plan(objective="pdp")["objective"] == "energy"


def test_without_known_watts_devices_count_alike():
    unknown = plan(machine="dgx1", objective="energy")
    assert unknown["joules"] is None and unknown["joules_node"] is None
    assert unknown["predicted_value"] == pytest.approx(
        unknown["predicted_s"] * len(unknown["workers"])
    )
    assert len(unknown["workers"]) == 1


@pytest.mark.parametrize("word", ["watts", "energy@0.5", "edp@2"])
def test_another_word_is_an_error(word):
    with pytest.raises(fleetblas.BadOption, match=r"objective=.*expected time, edp, energy"):
        plan(objective=word)


def test_a_function_of_the_cost_may_be_the_objective():
    seen = []

    def pairs_only(cost):
        seen.append(cost)
        return cost.seconds if cost.devices == 2 else math.nan

    chosen = plan(objective=pairs_only)
    assert chosen["objective"] == "own" and len(chosen["workers"]) == 2
    assert chosen["bound_value"] is None
    assert chosen["predicted_value"] == chosen["predicted_s"]
    assert all(cost.seconds > 0 and cost.joules > 0 for cost in seen)
    with fleetblas.Context(backend="sim", machine="dgx1", devices="auto") as context:
        fastest = context.plan(**PROBLEM)
        unknown = []
        context.set_objective(lambda cost: unknown.append(cost.joules) or cost.devices)
        assert len(context.plan(**PROBLEM)["workers"]) == 1
        assert all(math.isnan(joules) for joules in unknown)
        context.set_objective(None)
        assert context.plan(**PROBLEM)["predicted_s"] == fastest["predicted_s"]


def test_an_objective_that_raises_chooses_nothing():
    with (
        pytest.warns(RuntimeWarning, match="the objective raised ZeroDivisionError"),
        pytest.raises(fleetblas.BadArgument, match="a finite number for no plan"),
    ):
        plan(objective=lambda cost: 1 / 0)


def test_calls_are_right_whatever_the_objective():
    a = np.random.default_rng(1).standard_normal((300, 200))
    for objective in ("energy", lambda cost: -cost.devices, lambda cost: math.nan):
        with fleetblas.Context(devices=3, objective=objective) as context:
            np.testing.assert_allclose(context.matmul(a, a.T), a @ a.T, rtol=1e-10, atol=1e-10)


def test_the_command_line_shows_energy(main):
    done = main(
        "plan gemm --size 2K --machine clx-ai --backend sim --place 0 --objective edp --why"
    )
    assert "J on devices that take part" in done.stdout
    assert "edp: " in done.stdout and "of its bound" in done.stdout
    assert "more energy x time (" in done.stdout


def test_an_objective_may_end_the_life_of_arrays():
    # Not in this process, which would hang: a call waits for the objective.
    script = """
import gc
import fleetblas
context = fleetblas.Context(backend="host", devices=2, offload="always")
class Holder:
    def __init__(self):
        self.me, self.array = self, context.empty((64, 64))
def value(cost):
    gc.collect()
    return cost.seconds
context.set_objective(value)
gc.disable()
Holder()
a = context.empty((80, 80))
a[...] = 1
assert (context.gemm(a, a) == 80).all()
context.set_objective(None)
print("done")
"""
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout == "done\n"
