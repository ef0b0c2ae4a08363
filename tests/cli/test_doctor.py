"""`regard doctor MODEL`: the report, its forms, and what it refuses."""

import json

import pytest


@pytest.fixture
def pairs(corpus):
    return corpus / "pairs.tsv"


def test_the_report_is_a_table_and_findings_with_what_to_try(regard, trained, pairs):
    ran = regard("doctor", trained, "--data", pairs, "--sentences", "20")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0].startswith(f"{pairs}: 20 pairs")
    assert any(line.startswith("  uniform attention") for line in ran.lines)
    assert any(line.startswith("  Evidence: ") for line in ran.lines)  # three steps of training are too few
    assert any("  Try: " in line and " --set " in line for line in ran.lines)


def test_json_and_a_picture(regard, trained, pairs, tmp_path):
    ran = regard("doctor", trained, "--data", pairs, "--sentences", "20", "--json", "--out", tmp_path / "doctor.svg")
    assert ran.err == f"Wrote {tmp_path / 'doctor.svg'}\n"
    assert json.loads(ran.out)["pairs"] == 20
    assert (tmp_path / "doctor.svg").read_text().lstrip().startswith("<?xml")


def test_the_machine_as_json(regard):
    assert json.loads(regard("doctor", "--json").out)["torch"]


def test_what_is_refused(refused, trained, pairs, tmp_path):
    nothing = "There is nothing to examine the model on: give --data, or --source and --target."
    assert refused("doctor", trained) == nothing
    assert refused("doctor", "--data", pairs) == "--data: give the model folder to examine as well."
    assert refused("doctor", trained, "--data", pairs, "--sentences", "0") == "--sentences is 0; it must be at least 1."
    kinds = "files of kind '.html' cannot be written. Use one of .png, .svg, .pdf."
    assert refused("doctor", trained, "--data", pairs, "--out", tmp_path / "a.html") == (
        f"Cannot save {tmp_path / 'a.html'}: {kinds}"
    )
    assert refused("doctor", trained, "--data", pairs, "--split", "test").startswith("Leave out --split")
