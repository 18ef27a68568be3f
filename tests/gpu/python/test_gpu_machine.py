# SPDX-License-Identifier: BSD-3-Clause
"""The doctor and the careful probe on real GPUs: every pair verified, every value kept."""

import json
import os
import subprocess
import sys


def run(folder, words, **settings):
    return subprocess.run(
        [sys.executable, "-m", "fleetblas", *words.split()],
        env={**os.environ, **settings},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def findings_of(done):
    report = json.loads(done.stdout)
    assert report["healthy"] == (done.returncode == 0), done.stderr
    return {each["subject"]: each for each in report["findings"]}


def test_every_gpu_and_every_pair_is_verified(gpus, tmp_path):
    found = findings_of(run(tmp_path, "doctor --backend cuda --json -"))
    for device in gpus:
        assert found[f"device {device}"]["verdict"] == "ok", found[f"device {device}"]
    links = [each for subject, each in found.items() if subject.startswith("link ")]
    assert not [each for each in links if each["verdict"] == "broken"]
    pairs = len(gpus) * (len(gpus) - 1)
    verified = [each for each in links if "unchanged" in each["text"]]
    assert len(verified) == pairs or "peer copies" in found


def test_libraries_are_named_and_cusolver_can_be_refused(gpus, tmp_path):
    found = findings_of(run(tmp_path, "doctor --backend cuda --json -"))
    assert found["cuBLAS"]["verdict"] == "ok"
    assert "libcublas" in found["cuBLAS"]["text"]
    assert found["cuSOLVER"]["verdict"] in ("ok", "slow")
    assert ("libcusolver" in found["cuSOLVER"]["text"]) == (found["cuSOLVER"]["verdict"] == "ok")
    words = "doctor --backend cuda --json -"
    for setting in ({"FLEETBLAS_CUSOLVER": "0"}, {"CUBLAS_EMULATE_DOUBLE_PRECISION": "1"}):
        refused = findings_of(run(tmp_path, words, **setting))["cuSOLVER"]
        assert refused["verdict"] == "ok"
        assert "libcusolver" not in refused["text"]


def test_peer_copies_that_are_off_show_up(gpus, tmp_path):
    found = findings_of(run(tmp_path, "doctor --backend cuda --json -", FLEETBLAS_INJECT="nopeer"))
    assert ("peer copies" in found) == (len(gpus) > 1)
    assert found["inject"]["verdict"] == "slow"


def test_a_careful_probe_gives_a_machine_to_compute_with(gpus, tmp_path):
    done = run(tmp_path, "probe -o node.json --backend cuda --types d --budget 90")
    assert done.returncode == 0, done.stderr
    machine = json.loads((tmp_path / "node.json").read_text())
    assert machine["source"] == "measured by probe"
    assert len(machine["devices"]) == 2 + len(gpus)
    names = {value["name"] for value in machine["notes"]["probe"]["values"]}
    assert {"pin 16 MiB", "unpin 16 MiB", "issue", "d multiply tile 2048"} <= names
    for link in machine["links"]:
        # Between a bad riser and NVLink of today.
        assert 1e8 < link["bytes_per_s"] < 5e12, link
    words = "bench gemm --size 4K --machine node.json --backend cuda --repeat 3 --json -"
    rows = json.loads(run(tmp_path, words).stdout)["results"]
    assert all(row["status"] == "ok" for row in rows)
