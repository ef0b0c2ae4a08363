"""`regard evaluate`: the table, the JSON, the files beside them, and what it refuses."""

import json
import os
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from regard.errors import DisplayError

NAMES = ("BLEU", "chrF", "perplexity", "exact match", "token error rate", "sequence error rate")


@pytest.fixture
def pairs(corpus):
    return corpus / "pairs.tsv"


def test_the_table_names_the_data_the_search_and_every_score(regard, trained, pairs):
    ran = regard("evaluate", trained, "--data", pairs, "--beam", "2")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0].startswith(f"{pairs}: 60 sentences, beam 2")
    for name in (*NAMES, "AER"):
        assert any(line.strip().startswith(name) for line in ran.lines), name


def test_the_json_is_the_table(regard, trained, pairs):
    report = json.loads(regard("evaluate", trained, "--data", pairs, "--beam", "2", "--json").out)
    assert report["sentences"] == 60
    assert {*NAMES} < {*report["scores"]}
    assert all(score["made_by"] for score in report["scores"].values())
    assert sum(entry["count"] for entry in report["by_length"]) == 60


def test_every_form_of_the_same_data_is_scored_alike(regard, trained, corpus, pairs):
    files = ("--source", corpus / "pairs.en", "--target", corpus / "pairs.fr")
    reports = [
        json.loads(regard("evaluate", trained, *given, "--beam", "1", "--json", stdin=pairs.read_bytes()).out)
        for given in (("--data", pairs), ("--data", "-"), (*files, "--alignment", corpus / "pairs.align"), files)
    ]
    scores = [report["scores"] for report in reports]
    assert scores[0] == scores[1] == scores[2]
    assert {*scores[0]} - {*scores[3]} == {"AER"}


def test_translations_are_those_of_translate(regard, trained, corpus, here):
    ran = regard(
        *("evaluate", trained, "--source", corpus / "pairs.en", "--target", corpus / "pairs.fr"),
        *("--beam", "2", "--translations", "out.txt"),
    )
    assert (ran.code, ran.err) == (0, "Wrote out.txt\n")
    source = (corpus / "pairs.en").read_bytes()
    assert (here / "out.txt").read_text() == regard("translate", trained, "--beam", "2", stdin=source).out


def test_the_plot_is_written(regard, trained, pairs, here):
    pytest.importorskip("matplotlib")
    ran = regard("evaluate", trained, "--data", pairs, "--beam", "1", "--plot", "by-length.svg")
    assert (ran.code, ran.err) == (0, "Wrote by-length.svg\n")
    assert "<svg" in (here / "by-length.svg").read_text(encoding="utf-8")


def test_an_embedded_corpus_is_scored_on_its_test_part(regard, trained):
    assert (
        regard("evaluate", trained, "--data", "phrasebook:7", "--beam", "1").lines[0].startswith("phrasebook:test:7:")
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((), "There is nothing to score on: give --data, or --source and --target."),
        (("--source", "a"), "--source and --target go together: one of them is missing."),
        (("--data", "a", "--target", "b"), "Give either --data or --source and --target, not both."),
        (
            ("--data", "dates", "--alignment", "b"),
            "--alignment goes with --source and --target; with --data it is the third column.",
        ),
        (
            ("--data", "dates", "--split", "tset"),
            "No split named 'tset' in dates. Did you mean 'test'? It has train, valid, test.",
        ),
        (("--data", "dates", "--beam", "0"), "--beam is 0; it must be at least 1."),
        (("--data", "dates", "--batch", "0"), "--batch is 0; it must be at least 1."),
        (
            ("--data", "dates", "--plot", "a.bmp"),
            "Cannot save a.bmp: files of kind '.bmp' cannot be written. Use one of .png, .svg, .pdf.",
        ),
        (("--data", "dates", "--plot", "no/a.png"), "Cannot write no/a.png: there is no folder no."),
        (("--data", "dates", "--translations", "no/a"), "Cannot write no/a: there is no folder no."),
        (("--data", "dates", "--translations", "."), "Cannot write .: it is a folder."),
        (("--data", "nothing.tsv"), "No file 'nothing.tsv'."),
        (("--data", "-"), "standard input is empty: there is nothing to learn from."),
    ],
)
def test_refusals_come_before_the_work(refused, trained, here, given, message):
    assert refused("evaluate", trained, *given) == message
    assert [*here.iterdir()] == []


def test_an_ensemble_is_scored_as_one(regard, trained, another):
    def scored(*given):
        ran = regard("evaluate", trained, "--data", "phrasebook:7", "--beam", "1", "--json", *given)
        assert ran.code == 0, ran.err
        report = json.loads(ran.out)
        return report["search"], report["scores"]["perplexity"]["value"]

    alone, one, two, three = (
        scored(*given)
        for given in (
            (),
            ("--with", trained),
            ("--with", another),
            ("--with", another, "--set", "decoding.ensemble=geometric"),
        )
    )
    assert one == (f"ensemble of 2 (arithmetic mean), {alone[0]}", pytest.approx(alone[1], rel=1e-4))
    assert two[1] != pytest.approx(alone[1], rel=1e-4)
    assert three[0].startswith("ensemble of 2 (geometric mean), ")
    assert three[1] != pytest.approx(two[1], rel=1e-7)


def test_the_method_is_told(regard, trained):
    ran = regard("evaluate", trained, "--data", "phrasebook:7", "--set", "decoding.method=sample")
    assert ran.lines[0] == "phrasebook:test:7: 7 sentences, sampling, temperature 1, seed 1"


def test_a_language_model_has_a_perplexity_alone(regard, refused, language_model, corpus, here):
    ran = regard("evaluate", language_model, "--data", corpus / "texts.txt")
    assert (ran.code, ran.err) == (0, "")
    assert len(ran.lines) == 2
    assert ran.lines[1].strip().startswith("perplexity ")
    both = regard("evaluate", language_model, "--data", corpus / "pairs.tsv")
    assert both.lines[1] == ran.lines[1]
    for option in ("--posterior", "--shift"):
        assert refused("evaluate", language_model, "--data", corpus / "pairs.tsv", option) == (
            f"Leave out {option}: {language_model} holds a language model, which reads no source."
        )
    assert refused("evaluate", language_model, "--data", corpus / "texts.txt", "--translations", "a.txt") == (
        f"Leave out --translations: {language_model} holds a language model, which reads no source."
    )
    searched = ("--beam", "9", "--group", "--set", "decoding.method=sample")
    assert refused("evaluate", language_model, "--data", corpus / "texts.txt", *searched) == (
        f"Leave out --group and --beam: {language_model} holds a language model, which reads no source."
    )
    mixed = ("--with", language_model, "--set", "decoding.ensemble=geometric")
    assert regard("evaluate", language_model, "--data", corpus / "texts.txt", *mixed).code == 0
    assert [*here.iterdir()] == []


def test_files_are_written_though_nobody_reads_what_is_printed(regard, trained, pairs, here, monkeypatch):
    def gone(*args, **more):
        raise BrokenPipeError

    monkeypatch.setattr("regard.cli.evaluate.print", gone, raising=False)
    monkeypatch.setattr("regard.cli.main._discard_output", lambda: None)
    pytest.importorskip("matplotlib")
    files = ("--translations", "out.txt", "--plot", "by-length.svg")
    assert regard("evaluate", trained, "--data", pairs, "--beam", "1", *files).code == 1
    assert len((here / "out.txt").read_text().splitlines()) == 60
    assert (here / "by-length.svg").exists()


def test_a_plot_that_cannot_be_drawn_costs_no_score(regard, trained, pairs, here, monkeypatch):
    def full(*args, **more):
        raise DisplayError("The disk is full.")

    monkeypatch.setattr("regard.viz.metric_curves.by_length", full)
    ran = regard("evaluate", trained, "--data", pairs, "--beam", "1", "--plot", "by-length.svg")
    assert (ran.code, ran.err) == (2, "regard: The disk is full.\n")
    assert ran.lines[1].split()[0] == "BLEU"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names of files are text")
def test_a_corpus_whose_name_is_no_text_can_be_plotted(regard, trained, pairs, here):
    pytest.importorskip("matplotlib")
    name = os.fsdecode(b"caf\xe9 \x01.tsv")
    (here / name).write_bytes(pairs.read_bytes())
    ran = regard("evaluate", trained, "--data", name, "--beam", "1", "--plot", "by-length.svg")
    assert ran.code == 0
    assert ran.err.endswith("Wrote by-length.svg\n")  # before, a font may be missing
    texts = {"".join(node.itertext()) for node in ElementTree.parse(here / "by-length.svg").iter()}
    assert "caf� ␁.tsv, 60 sentences" in texts


def test_files_have_no_parts(refused, trained, pairs, corpus):
    both = ("--source", corpus / "pairs.en", "--target", corpus / "pairs.fr")
    for given, name in ((("--data", pairs), pairs), (both, corpus / "pairs.en")):
        assert refused("evaluate", trained, *given, "--split", "test") == (
            f"Leave out --split: {name} has no parts, as embedded corpora have."
        )
