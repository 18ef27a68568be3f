# SPDX-License-Identifier: BSD-3-Clause
"""`fleetblas reproduce linpack`, the simulator behind it, and the sources of its constants."""

import json
import pathlib
import sys

import pytest
from fleetblas import BadArgument, BadFile, BadOption, _linpack
from fleetblas.commands import (
    report_papers,
    reproduce,
    reproduce_linpack,
    reproduce_linpack_shares,
)
from fleetblas.commands.reproduce_runs import Results

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import linpack_predict

CLUSTERS = ("w3520-c1060x16", "h200x8x1000", "w3520-unequal", "emulated-gigabit")


@pytest.fixture(scope="module")
def simulator():
    return _linpack.Simulator()


@pytest.fixture(scope="module")
def numbers():
    """The first table: {(number, reading): (paper, simulated)}."""
    first = reproduce_linpack.tables(Results({}, True))[0]
    return {(row[0], row[1]): (float(row[2]), float(row[3])) for row in first.rows}


# ---- the paper ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", report_papers.LINPACK_PEAK_SHARES)
def test_shares_of_the_peak_are_within_three_points(numbers, name):
    reading = reproduce_linpack.READINGS[name][0]
    what = f"% of the peak, {reproduce_linpack.WHOSE[name]}"
    printed, simulated = numbers[what, reading]
    assert printed == 100 * report_papers.LINPACK_PEAK_SHARES[name]
    assert simulated == pytest.approx(printed, abs=3)


@pytest.mark.parametrize("name", report_papers.LINPACK_GAINS)
def test_gains_miss_by_what_the_documents_say(numbers, name):
    printed, simulated = numbers[f"full over {name}", reproduce_linpack.AS_HPL]
    assert printed == report_papers.LINPACK_GAINS[name]
    assert simulated == pytest.approx(printed, abs=0.06)


def test_the_best_share_of_the_overlapped_product_is_near_the_printed_one(numbers):
    printed, simulated = numbers["Fig. 12: best R", reproduce_linpack.OWN]
    assert printed == 0.31
    assert simulated == pytest.approx(printed, abs=0.04)


def test_computing_during_transfers_is_worth_what_is_printed(numbers):
    printed, simulated = numbers["computing during transfers, % of the speed", "paper's code"]
    assert simulated == pytest.approx(printed, abs=1)


def test_the_best_share_of_one_product_is_the_printed_one(numbers):
    printed, simulated = numbers["Fig. 6: best R", reproduce_linpack.ONE_NODE]
    assert simulated == pytest.approx(printed, abs=0.02)


def test_linpack_is_an_experiment_of_paper_3(cli):
    (experiment,) = reproduce.chosen("linpack", None)
    assert experiment == reproduce.chosen("3", "linpack")[0]
    done = cli("reproduce linpack --quick -o kept --markdown tables.md")
    assert done.returncode == 0, done.stderr
    assert "full over none" in done.stdout
    assert cli("reproduce linpack share").returncode == 2


@pytest.mark.parametrize("case", reproduce_linpack_shares.CASES, ids=" ".join)
def test_measured_shares_are_within_two_percent_of_the_best_of_a_sweep(case):
    assert reproduce_linpack_shares.gain(case) > -0.02


def test_the_measured_share_of_one_product_is_at_the_top_of_its_sweep():
    for cluster in reproduce_linpack_shares.CLUSTERS:
        _, rate = reproduce_linpack_shares.found(cluster)
        shares = [rows / 4096 for rows in range(0, 4097, 64)]
        top = max(reproduce_linpack_shares._product(cluster, share) for share in shares)
        assert rate > 0.98 * top
    assert reproduce_linpack_shares.found("w3520-c1060x16")[0] == pytest.approx(0.34, abs=0.02)


# ---- our own runs -------------------------------------------------------------------------------


def test_simulations_are_within_ten_percent_of_our_runs():
    rows = linpack_predict.rows()
    assert [row.overlap for row in rows] == ["none", "lookahead", "dedicated", "full"]
    for row in rows:
        assert row.simulated == pytest.approx(row.measured, rel=0.10), row


# ---- the simulator ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLUSTERS)
def test_every_constant_has_a_source(name):
    file = _linpack.cluster(name)
    for part in ("node", "rank", "links"):
        for constant, said in file[part].items():
            assert set(said) == {"value", "source"}, constant
            assert len(said["source"]) > 5 or said["source"] == "assumed"
    assert file["run"]["source"]
    root = pathlib.Path(__file__).resolve().parents[2]
    assert json.loads((root / "machines" / "clusters" / f"{name}.json").read_text()) == file


def test_what_a_run_leaves_out_is_the_clusters_own(simulator):
    file = _linpack.cluster(CLUSTERS[0])
    whole = simulator.run(file)
    again = simulator.run(file, n=90000, nb=576, rows=4, cols=4, overlap="full", tasks="skeleton")
    assert whole == again
    assert sum(whole["rank_s"].values()) <= whole["seconds"]
    assert simulator.run(file, n=45000)["seconds"] < whole["seconds"] / 4


def test_eight_thousand_ranks_are_known(simulator):
    file = _linpack.cluster(CLUSTERS[1])
    done = simulator.run(file, n=1_000_000)
    assert 0 < done["share_of_peak"] < 1
    assert done["transfer_s"] == 0


def test_wrong_words_are_refused(simulator):
    file = _linpack.cluster(CLUSTERS[0])
    with pytest.raises(BadOption, match="overlap means nothing: some"):
        simulator.run(file, overlap="some")
    with pytest.raises(BadArgument, match="at least 1"):
        simulator.run(file, nb=0)
    with pytest.raises(BadArgument, match="more than a million"):
        simulator.run(file, n=10**15)
    with pytest.raises(BadArgument, match="not between 0 and 1"):
        simulator.run(file, product_share=1.5)
    with pytest.raises(BadFile, match="latency_s"):
        del file["links"]["latency_s"]
        simulator.run(file)
    with pytest.raises(BadFile):
        simulator.run({})
    file = _linpack.cluster(CLUSTERS[0])
    file["links"]["bytes_per_s"]["value"] = 0
    with pytest.raises(BadArgument, match="is zero"):
        simulator.run(file)
