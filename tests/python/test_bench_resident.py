# SPDX-License-Identifier: BSD-3-Clause
"""bench --resident: operands that stay on the devices, and without it none that does."""

import json

import fleetblas
import pytest
from fleetblas._routines import ROUTINES
from fleetblas.commands.bench_engines import FleetBlas, Resident
from fleetblas.commands.bench_operands import Operands, Pool

EDGE = 96


@pytest.fixture
def context():
    # A machine that was measured while others computed may have links between devices that are
    # slower than the host's: its plans then fetch what is at home too from there.
    options = {"backend": "host", "machine": "h200x4", "devices": 2, "online": False}
    options |= {"tile": 48, "offload": "always", "cpu_share": "off", "inject": "poison"}
    with fleetblas.Context(**options) as made:
        yield made


def words_of(word, place):
    routine = ROUTINES[word]
    flags = {name: routine.letters(name)[0] for name in routine.flags}
    edges = dict.fromkeys("mnk", EDGE)
    scalars = {name: 1 for name in routine.scalars}
    place = ",".join(routine.places(place))
    kind = "z" if routine.hermitian else "d"
    return {"routine": word, "type": kind, **edges, **flags, "place": place, **scalars}


def moved(context, call):
    before = context.stats()["bytes_by_kind"]
    call()
    return {kind: b - before[kind] for kind, b in context.stats()["bytes_by_kind"].items()}


@pytest.mark.parametrize("place", ["h", "p,h,1"])
@pytest.mark.parametrize("word", ROUTINES)
def test_operands_stay_on_the_devices_between_calls_and_results_are_right(context, word, place):
    words = words_of(word, place)
    engine = Resident(context, Operands(Pool(context, [words]), words))
    engine.reset()
    reference = engine.operands.reference()
    assert moved(context, engine.call)["h2d"] > 0
    assert engine.verdict(reference, everything=True).ok
    later = moved(context, engine.call)
    assert later == {**later, "h2d": 0, "d2h": 0, "h2h": 0}
    engine.reset()
    assert sum(moved(context, engine.call).values()) > 0  # C was written
    assert engine.verdict(reference, everything=True).ok
    engine.close()


def test_without_it_nothing_stays(context):
    words = words_of("gemm", "h")
    engine = FleetBlas(context, Operands(Pool(context, [words]), words))
    engine.reset()
    first, second = (moved(context, engine.call) for _ in range(2))
    assert first == second
    assert second["h2d"] >= 3 * 8 * EDGE**2
    assert second["d2h"] == 8 * EDGE**2


def test_the_memory_is_complete_once_the_engine_is_closed(context):
    words = words_of("gemm", "h")
    operands = Operands(Pool(context, [words]), words)
    reference = operands.reference()
    engine = Resident(context, operands)
    engine.reset()
    engine.call()
    engine.close()
    plain = FleetBlas(context, operands)
    assert plain.verdict(reference, everything=True).ok


def bench(cli, words):
    done = cli(f"bench {words} --size 96 --resident --repeat 3 --warmup 1 --json r.json")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_rows_and_the_table_say_so(cli, tmp_path):
    said = bench(cli, "gemm,syrk --place h;0 --vs hostblas --check")
    assert said.count("fleetblas (resident)") == 4
    assert "hostblas (" not in said
    file = json.loads((tmp_path / "r.json").read_text())
    assert file["method"]["resident"] is True
    for row in file["results"]:
        assert row["resident"] is True
        assert row["status"] == "ok"
        # Two devices have the operands in parts, for which nothing is a bound.
        assert row["bound_s"] is None


def test_one_device_has_the_bound_of_operands_in_its_memory(cli, tmp_path):
    said = bench(cli, "gemm --devices 1")
    assert "fleetblas (resident)  dgemm 96" in said
    (row,) = json.loads((tmp_path / "r.json").read_text())["results"]
    assert row["bound_s"] > 0
    assert row["predicted_s"] > 0
    assert row["place"] == "h,h,h"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("gemm --type h", "hgemm is not queued"),
        ("gemm --type tf32", "tf32gemm is not queued"),
        ("gemm,gemv", "dgemv is not queued"),
        ("gemm --backend sim --machine h200x4", "no memory in which operands stay"),
    ],
)
def test_what_is_never_queued_is_refused(main, words, reason):
    done = main(f"bench {words} --size 96 --resident")
    assert done.returncode == 2
    assert reason in done.stderr
