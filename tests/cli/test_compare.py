"""`regard compare`: it parses, calls the library and prints; the library's own tests are in tests/compare."""

import json

import pytest

TINY = (
    *("--set", "tokenizer.kind=words", "--set", "model.embedding=5", "--set", "model.encoder.width=7"),
    *("--set", "model.decoder.width=7", "--set", "model.decoder.readout_width=5", "--set", "decoding.max_length=4"),
    *("--device", "cpu", "--jobs", "0", "--valid", "copy:valid:3", "--test", "copy:9"),
)


@pytest.fixture
def compared(regard, here, monkeypatch):
    """A comparison of two presets, at its smallest."""
    from regard.compare import report
    from regard.training import train_model

    monkeypatch.setattr(train_model, "_draw_curve", lambda folder: None)
    monkeypatch.setattr(report._Pictures, "draw", lambda *_: False)
    (here / "show.txt").write_text("na ba\n\n")

    def run(*more):
        chosen = ("--presets", "cho2014-small,bahdanau2014-small", "--data", "copy:30", "--steps", "2")
        return regard("compare", *chosen, "--out", "out", *TINY, *more)

    return run


def test_presets_are_compared_and_the_table_is_printed(compared, here):
    ran = compared("--sentences", "show.txt", "--baseline", "bahdanau2014-small")
    assert ran.code == 0, ran.err
    head, first, second = ran.lines
    assert head.split()[0] == "variant"
    assert first.startswith("cho2014-small ")
    assert second.startswith("bahdanau2014-small (baseline)")
    assert "[1/2] cho2014-small\n" in ran.err
    assert "step 2 · epoch " in ran.err
    assert ran.err.endswith("Wrote out/report.html, out/report.md and out/results.json\n")
    results = json.loads((here / "out/results.json").read_text())
    assert results["command"].startswith("regard compare --presets cho2014-small,bahdanau2014-small --data copy:30")
    assert results["sentences"] == ["na ba"]
    assert "training.steps" not in (here / "out/report.md").read_text()


def test_the_usual_folder_keeps_another_comparison(refused, here):
    (here / "comparison").mkdir()
    (here / "comparison/results.json").write_text('{"variants": [{"name": "mine"}]}')
    assert refused("compare", "--presets", "cho2014-small", "--data", "copy:30", *TINY) == (
        "comparison holds a comparison of mine: give another folder by --out, or --overwrite."
    )


@pytest.mark.usefixtures("compared")
def test_variants_are_guided_by_alignments(regard, here):
    for name, text in (("s", "na ba\n"), ("t", "na ba\n"), ("links", "0-0 1-1\n")):
        (here / name).write_text(text * 9)
    corpus = ("--source", "s", "--target", "t", "--alignment", "links", "--set", "training.guided=1")
    ran = regard("compare", "--presets", "bahdanau2014-small", "--steps", "1", "--out", "out", *corpus, *TINY)
    assert ran.code == 0, ran.err
    metrics = (here / "out/models/bahdanau2014-small/metrics.jsonl").read_text()
    assert json.loads(metrics.splitlines()[0])["guided_loss"] > 0


@pytest.mark.usefixtures("compared")
def test_corpora_may_have_tags(regard, here):
    tags = (
        "--tagged",
        "a=copy:30",
        "--tagged",
        "b=reverse:30",
        "--valid-tagged",
        "a=copy:3",
        "--test-tagged",
        "b=reverse:9",
    )
    ran = regard("compare", "--presets", "bahdanau2014-small", "--steps", "1", "--out", "out", *tags, *TINY[:-4])
    assert ran.code == 0, ran.err
    assert "1 variant on a=copy:30 and b=reverse:30" in (here / "out/report.md").read_text()
    assert json.loads((here / "out/results.json").read_text())["test"]["name"] == "b=reverse:test:9"


def test_a_file_of_variants_one_of_which_fails(regard, compared, here):
    (here / "v.toml").write_text(
        'data = "copy:30"\nsteps = 1\nsentences = "na"\n'
        '[[variant]]\nname = "good"\npreset = "bahdanau2014-small"\n'
        '[[variant]]\nname = "bad"\npreset = "cho2014-small"\nset = ["data.train=no.tsv"]\n'
    )
    ran = regard("compare", "--variants", "v.toml", "--out", "out", *TINY)
    assert ran.code == 1
    assert "failed: " in ran.lines[2]
    assert "no.tsv" in ran.lines[2]
    assert "regard: bad: failed: " in ran.err
    assert (here / "out/report.html").is_file()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "There is nothing to compare: give --presets, or --variants with a file that lists some."),
        (("--presets", "cho2014-small", "--variants", "v.toml"),
         "Give either --presets or --variants, not both: each lists what to compare."),
        (("--presets", "cho2014-small"),
         "There is nothing to train on: give --source and --target, or --data with a .tsv or .jsonl file, or an "
         "embedded name (regard list corpora)."),
        (("--presets", "cho2014-small", "--data", "copy", "--minutes", "0"), "--minutes is 0; it must be above 0."),
        (("--presets", "cho2014-small", "--data", "copy", "--steps", "0"), "--steps is 0; it must be at least 1."),
        (("--presets", "cho2014-small", "--data", "copy", "--jobs", "-1"), "--jobs is -1; it must be at least 0."),
        (("--presets", "cho2014-small", "--data", "copy", "--seeds", "1,x"),
         "--seeds must be whole numbers separated by commas, got '1,x'."),
        (("--presets", "cho2014-small", "--data", "copy", "--sentences", "no.txt"),
         "no.txt cannot be read: No such file or directory."),
        (("--presets", "cho2014-small", "--data", "copy", "--alignment", "a"),
         "--alignment goes with --source and --target; with --data it is the third column."),
        (("--presets", "luong2015-small", "--source", "a", "--target", "b", "--alignment", "c", "--test", "copy"),
         "c holds alignments, which are there to guide the attention, and training.guided is 0: set its weight, such "
         "as training.guided=0.5, or leave the alignments out."),
        (("--presets", "luong2015-small,cho2014-small", "--source", "a", "--target", "b", "--alignment", "c",
          "--test", "copy"),
         "c holds alignments, which are there to guide the attention, and training.guided is 0 in every variant: set "
         "its weight, such as training.guided=0.5, or leave the alignments out."),
        (("--presets", "cho2014-small", "--data", "copy", "--test", "t", "--test-alignment", "a"),
         "--test-alignment goes with --test-source and --test-target; with --test it is the third column."),
        (("--presets", "cho2014-small", "--source", "a", "--target", "b"),
         "There is nothing to score on: give --test, or --test-source and --test-target."),
    ],
)  # fmt: skip
def test_what_was_given_wrongly_is_refused(refused, here, args, message):
    assert refused("compare", "--out", "out", *args) == message
    assert not (here / "out").exists()
