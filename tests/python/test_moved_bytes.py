# SPDX-License-Identifier: BSD-3-Clause
"""What a run reports as moved is what its plan says, link by link: for every routine, on either
side, for triangles, and wherever the operands are."""

from collections import Counter

import fleetblas
import pytest
from fleetblas._routines import EVERY, VECTORS
from fleetblas.commands.bench_engines import FleetBlas
from fleetblas.commands.bench_operands import Operands, Pool

TILE = 48  # several tiles of each dimension, none of which divides evenly
SIZES = {"m": 170, "n": 130, "k": 110}
VECTOR_SIZES = {"m": 300, "n": 5000}
PLACES = ("h", "p", "0", "h,p,1", "2,0,h")


@pytest.fixture(scope="module")
def context():
    options = {"backend": "host", "devices": 3, "tile": TILE, "offload": "always"}
    with fleetblas.Context(**options, timeline=True) as made:
        yield made


def problems(routine):
    """Each letter of each flag once, at each place."""
    sizes = VECTOR_SIZES if routine.word in VECTORS else SIZES
    usual = {flag: routine.letters(flag)[0] for flag in routine.flags}
    variants = [usual]
    for flag in routine.flags:
        variants += [{**usual, flag: letter} for letter in routine.letters(flag)[1:]]
    for flags in variants:
        given = {name: sizes[name] for name in routine.sizes}
        edges = routine.edges(**given, side=flags.get("side", "l"))
        for place in PLACES:
            yield {
                "routine": routine.word,
                "type": routine.types[-1] if routine.hermitian else "d",
                **dict(zip("mnk", edges)),
                **flags,
                "place": ",".join(routine.places(place)),
                **{name: 2 for name in routine.scalars},
            }


def moved(timeline):
    """Bytes of each link, as the single copies have them."""
    found = Counter()
    for event in timeline["traceEvents"]:
        if "link" in event.get("args", {}):
            found[event["args"]["link"]] += event["args"]["bytes"]
    return found


@pytest.mark.parametrize("word", EVERY)
def test_a_run_moves_what_its_plan_and_its_simulation_say(context, word):
    something_moved = False
    for words in problems(EVERY[word]):
        operands = Operands(Pool(context, [words]), words)
        engine = FleetBlas(context, operands)
        engine.reset()
        engine.call()

        last, trace = context.stats()["last"], context.trace()
        problem = trace["fleetblas"]["problem"]
        plan, simulated = context.plan(problem), context.simulate(problem)

        planned = plan["bytes_by_link"]
        something_moved = something_moved or bool(planned)
        # The result of a dot is in memory that no problem of the command line names.
        assert problem.removesuffix(" r@p") == context.plan(**words)["problem"]
        assert (last["where"], trace["fleetblas"]["source"]) == ("devices", "measured")
        said = {
            "last": last["bytes_by_link"],
            "trace": trace["fleetblas"]["bytes_by_link"],
            "its copies": moved(trace),
            "simulation": simulated["fleetblas"]["bytes_by_link"],
            "its simulated copies": moved(simulated),
        }
        assert said == dict.fromkeys(said, planned), plan["problem"]
        assert sum(last["bytes_by_kind"].values()) == sum(planned.values())
    assert something_moved
