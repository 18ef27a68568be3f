# SPDX-License-Identifier: BSD-3-Clause
"""fleetblas doctor: what it finds, what it calls it, and its exit status."""

import json

import pytest
from fleetblas.commands import doctor, startup

HOST = "doctor --backend host --devices 3"


def findings_of(done):
    report = json.loads(done.stdout)
    assert report["healthy"] == (done.returncode == 0)
    return {each["subject"]: each for each in report["findings"]}


def test_a_machine_of_virtual_devices_is_healthy(cli, tmp_path):
    # Links that a busy CPU has slowed down while they were measured would be reported.
    file = tmp_path / "machine.json"
    done = cli(f"probe --backend host --devices 3 --budget 1 -o {file}")
    assert done.returncode == 0, done.stderr
    machine = json.loads(file.read_text())
    for link in machine["links"]:
        link["bytes_per_s"] = 5e9
    file.write_text(json.dumps(machine))

    done = cli(f"{HOST} --json -", FLEETBLAS_MACHINE=str(file))
    assert done.returncode == 0, done.stderr
    found = findings_of(done)
    for subject in ("library", "drop-in", "numpy", "CPU BLAS", "virtual devices", "device 2"):
        assert subject in found
    pairs = [subject for subject in found if subject.startswith("link ")]
    assert len(pairs) == 6
    assert all(found[pair]["verdict"] == "ok" for pair in pairs)


def test_the_table_has_one_row_for_all_good_pairs_and_ends_with_the_verdict(cli):
    done = cli(HOST)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum("pairs of devices" in line for line in lines) == 1
    assert "6 verified" in done.stdout
    assert lines[-1].startswith("healthy")


def test_missing_peer_copies_show_up_and_are_not_unhealthy(cli):
    done = cli(f"{HOST} --json -", FLEETBLAS_INJECT="nopeer:0-1")
    assert done.returncode == 0, done.stderr
    found = findings_of(done)
    assert found["peer copies"]["verdict"] == "slow"
    assert "0->1, 1->0" in found["peer copies"]["text"]
    assert found["inject"]["verdict"] == "slow"
    assert "nopeer:0-1" in found["FLEETBLAS_*"]["text"]


def test_where_the_time_of_first_calls_goes(cli):
    done = cli(f"{HOST} --startup --size 128 --json -")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["startup"]
    assert (found["size"], found["place"], found["where"]) == (128, "h", "devices")
    assert all(seconds >= 1e-3 for seconds in found["phases"].values())
    assert [call["plan_s"] > 0 for call in found["calls"]] == [True, False, False]
    assert all(0 <= call["prepare_s"] <= call["seconds"] for call in found["calls"])


def test_the_table_of_a_start_names_each_phase_and_call(cli):
    done = cli(f"{HOST} --startup --size 128 --place p", FLEETBLAS_CACHE_DIR="")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0][:3] == ["start", "of", "dgemm"]
    words = [line[0] for line in lines if line]
    assert "machine" in words  # measured
    assert words.count("call") == 3


def test_what_is_of_a_start_needs_one(cli):
    assert cli(f"{HOST} --size 128").returncode == 2
    assert cli(f"{HOST} --place p").returncode == 2


@pytest.mark.parametrize("place", ["q", "h,h,h", "9"])
def test_a_place_that_is_none_is_wrong_usage(cli, place):
    done = cli(f"{HOST} --startup --size 64 --place {place}")
    assert (done.returncode, done.stdout) == (2, "")
    assert "9 (this context has 3)" in done.stderr or f"{place!r} is none of h " in done.stderr


def test_a_start_that_cannot_be_measured_leaves_the_findings(cli):
    done = cli("doctor --backend sim --startup --json -")
    found = json.loads(done.stdout)
    assert "machine" in found["startup"]["error"]
    assert found["findings"]
    none = startup.found({"backend": "auto"}, 64, "0")
    assert "no device 0" in none["error"]


def test_a_lost_device_is_unhealthy(cli):
    done = cli(HOST, FLEETBLAS_INJECT="lost:1@0")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("not healthy")
    assert any(line.startswith("broken  device 1") for line in done.stdout.splitlines())


def test_a_bad_setting_in_the_environment_is_a_finding(cli):
    done = cli(f"{HOST} --json -", FLEETBLAS_TILE="soft")
    assert done.returncode == 1
    assert "tile" in findings_of(done)["settings"]["text"]


def test_a_machine_file_that_is_not_there_is_a_finding(cli):
    done = cli("doctor --backend host --machine nowhere.json --json -")
    assert done.returncode == 1
    assert "nowhere.json" in findings_of(done)["devices"]["text"]


def test_wheels_of_nvidia_count_where_they_hold_the_library(tmp_path, monkeypatch):
    def put(name, version, file):
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        (folder / "RECORD").write_text(f"{file},,\n")

    put("nvidia-cusolver", "12.4.1", "nvidia/cu13/lib/libcusolver.so.12")
    put("nvidia-cublas", "13.0", "nvidia/cu13/include/cublas.h")  # a wheel without the library
    put("nvidia-cublas-cu12", "12.9", "nvidia/cublas/lib/libcublas.so.12")
    put("nvidia-cufft", "12.1", "nvidia/cu13/include/cufft.h")
    monkeypatch.syspath_prepend(tmp_path)
    assert doctor.version_of_wheel("nvidia-cusolver") == "12.4.1"
    assert doctor.version_of_wheel("nvidia-cublas") == "12.9"
    assert doctor.version_of_wheel("nvidia-cufft") is None
    assert doctor.version_of_wheel("nvidia-cusparse-of-nobody") is None


def test_wheels_of_nvidia_are_rows_of_the_table(cli):
    found = findings_of(cli(f"{HOST} --json -"))
    for subject, extra in (("cuBLAS wheel", "[cuda]"), ("cuSOLVER wheel", "[linalg]")):
        assert found[subject]["verdict"] == "ok"
        missing = found[subject]["text"] == "not installed as a Python package"
        assert missing == (f"fleetblas{extra}" in found[subject]["advice"])
