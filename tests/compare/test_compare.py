import json
import math
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regard.compare import Variant, scoring, worker
from regard.compare.comparison import default_baseline
from regard.compare.report_tables import settings_table, why_failed
from regard.compare.run_statistics import Row, Run
from regard.compare.training_run import FAILED, FINISHED, RunFiles
from regard.compare.variants import Terms
from regard.config import EncoderConfig
from regard.config_io import assign, override
from regard.data.corpus import open_corpus
from regard.data.tokenizers import Tokenizers
from regard.decoding.translator import Translator
from regard.decoding.vocabulary_shortlist import Shortlist
from regard.errors import ConfigError, ModelError, TrainingError
from regard.tasks.translation.evaluation import evaluate
from regard.training import train_model


def weights(folder, name):
    return (Path(folder) / "models" / name / "model.safetensors").read_bytes()


@pytest.fixture
def copy(made, tmp_path):
    """The finished comparison, to be changed."""
    return shutil.copytree(made.folder, tmp_path / "copy")


@pytest.fixture
def untrainable(monkeypatch):
    """No training may begin."""
    monkeypatch.setattr(train_model, "train", lambda *_, **__: pytest.fail("a training began"))


def test_every_number_is_that_of_evaluate(made, make):
    assert [row.variant for row in made.rows] == ["look", "blind"]
    for row in made.rows:
        folder = made.folder / "models" / row.variant
        translator = Translator.load(folder)
        corpus = open_corpus(["reverse:12"], "test")
        report = evaluate(translator, corpus, data=corpus.name)
        assert row.stat("bleu").mean == report["BLEU"].value
        assert row.stat("chrf").mean == report["chrF"].value
        assert row.stat("loss").mean == pytest.approx(math.log(report["perplexity"].value))
        assert row.stat("parameters").mean == sum(p.numel() for p in translator.model.parameters())
        assert ("AER" in report) == (row.stat("aer") is not None) == (row.variant == "look")
        assert row.runs[0].evaluation.translations == report.translations
        assert row.by_length() == {entry.label: (entry.count, entry.bleu) for entry in report.by_length if entry.count}
    assert made["look"].baseline
    assert made["look"].stat("p") is None
    assert made["blind"].stat("difference").mean == pytest.approx(
        made["blind"].stat("bleu").mean - made["look"].stat("bleu").mean
    )


def test_a_second_call_trains_and_scores_nothing(copy, make, untrainable, monkeypatch):
    monkeypatch.setattr("regard.tasks.translation.comparison.evaluate", lambda *_, **__: pytest.fail("a scoring began"))
    found, said = make.run(copy, make.variant("look"), make.plain("blind"))
    assert said == ["2 of 2 runs are finished already."]
    assert found["look"].stat("bleu") is not None


def test_another_search_is_another_scoring_but_no_training(copy, make, untrainable):
    greedy = Variant("look", assign(make.config, "decoding.beam", 1))
    found, said = make.run(copy, greedy, make.plain("blind"))
    assert "Scoring look" in said
    assert "Scoring blind" not in said
    assert found["look"].runs[0].evaluation.search.startswith("greedy search")


def test_a_search_with_a_shortlist_is_scored_too(copy, make, untrainable):
    look = copy / "models" / "look"
    sizes = Tokenizers.load(look)
    every = np.arange(4, sizes.target.size, dtype=np.int32)
    Shortlist(np.full((sizes.source.size, 64), 5, np.int32), every, sizes.joint).save(look)
    few = Variant("look", assign(make.config, "decoding.shortlist", 2))
    found, _ = make.run(copy, few, make.plain("blind"))
    run = found["look"].runs[0]
    assert run.record.state == FINISHED, run.record.reason
    assert "shortlist" in run.evaluation.search


def test_changed_settings_are_refused_with_what_changed(copy, make, untrainable):
    other = Variant("look", override(make.config, ["model.dropout=0.5", "training.steps=9"]))
    with pytest.raises(TrainingError) as caught:
        make.run(copy, other, make.plain("blind"))
    assert str(caught.value) == (
        f"{copy} holds runs that differ from those requested:\n"
        "  look: model.dropout: 0.2 → 0.5\n"
        "  look: training.steps: 6 → 9\n"
        "Restore the former settings, retrain these with --overwrite, or choose another folder."
    )


def test_overwrite_trains_anew_what_has_changed_and_nothing_else(copy, make):
    other = Variant("look", assign(make.config, "model.dropout", 0.5))
    before = (copy / "models/blind/model.safetensors").stat().st_mtime_ns
    listener = make.listener()
    make.run(copy, other, make.plain("blind"), overwrite=True, reporter=listener)
    assert listener.steps == 6
    assert (copy / "models/blind/model.safetensors").stat().st_mtime_ns == before
    assert "dropout = 0.5" in (copy / "models/look/config.toml").read_text()


def test_a_model_that_was_removed_is_trained_anew(copy, made, make):
    shutil.rmtree(copy / "models/look")
    found, said = make.run(copy, make.variant("look"), make.plain("blind"))
    assert not found.failed
    assert said[0] == "1 of 2 runs is finished already."
    assert weights(copy, "look") == weights(made.folder, "look")


@pytest.mark.parametrize("damage", ["gone", "cut", "another"])
def test_weights_that_were_not_trained_here_are_never_reported(copy, made, make, damage):
    file = copy / "models/look/model.safetensors"
    if damage == "gone":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:100])
    else:
        shutil.copy(copy / "models/blind/model.safetensors", file)
    variants = make.variant("look"), make.plain("blind")
    with pytest.raises(TrainingError) as caught:
        make.run(copy, *variants)
    assert str(caught.value).splitlines()[1:] == [
        "  look: its model.safetensors is gone, damaged or of another training",
        "Restore the former settings, retrain these with --overwrite, or choose another folder.",
    ]
    found, _ = make.run(copy, *variants, overwrite=True)
    assert not found.failed
    assert weights(copy, "look") == weights(made.folder, "look")


def test_a_corpus_that_was_rewritten_is_not_mixed_with_what_it_was(make, tmp_path):
    file = tmp_path / "train.tsv"
    variants = [Variant(name, assign(make.config, "data.train", (str(file),))) for name in ("one", "other")]
    out = tmp_path / "out"
    make.run(out, variants[0])  # it cannot be read, so nothing is learnt from it
    assert RunFiles(out, "one").read().state == "failed"
    file.write_text("a b c\tc b a\n" * 20)
    make.run(out, variants[0])
    file.write_text("a b c\tc b a\n" * 20)
    make.run(out, *variants)  # written again, and the same
    file.write_text("a b c\ta b c\n" * 20)
    with pytest.raises(TrainingError) as caught:
        make.run(out, *variants)
    assert str(caught.value).splitlines()[1:-1] == [f"  {name}: {file} has changed since" for name in ("one", "other")]
    found, _ = make.run(out, *variants, overwrite=True)
    assert not found.failed


def test_what_a_training_learnt_from_stays_known(make, tmp_path):
    """Also while the file is away; a queue may have read it long after the comparison began."""
    file, out = tmp_path / "train.tsv", tmp_path / "out"
    file.write_text("a b c\tc b a\n" * 20)
    variants = [Variant(name, assign(make.config, "data.train", (str(file),))) for name in ("one", "other")]
    swap = make.listener(at=6, action=lambda: file.write_text("a b c\ta b c\n" * 20))  # the last step of the first
    make.run(out, *variants, reporter=swap)
    with pytest.raises(TrainingError) as caught:
        make.run(out, *variants)
    assert str(caught.value).splitlines()[1:-1] == [f"  one: {file} has changed since"]
    file.rename(tmp_path / "away.tsv")
    make.run(out, *variants)
    (tmp_path / "away.tsv").rename(file)
    with pytest.raises(TrainingError, match=r"one: .* has changed since"):
        make.run(out, *variants)


def test_records_of_before_say_nothing_of_files_and_what_was_scored_of_weights(copy, make):
    path = copy / "runs/look.json"
    record = json.loads(path.read_text())
    del record["contents"], record["weights"]
    path.write_text(json.dumps(record))
    variants = make.variant("look"), make.plain("blind")
    _, said = make.run(copy, *variants)
    assert said[0] == "2 of 2 runs are finished already."
    assert RunFiles(copy, "look").read().contents == {}
    shutil.copy(copy / "models/blind/model.safetensors", copy / "models/look/model.safetensors")
    with pytest.raises(TrainingError, match=r"look: its model\.safetensors is gone, damaged or of another training"):
        make.run(copy, *variants)


def test_a_start_that_was_killed_is_begun_again(copy, made, make):
    model = copy / "models/look"
    for path in ("config.toml", "model.safetensors", "state"):
        (shutil.rmtree if (model / path).is_dir() else os.unlink)(model / path)
    assert any(model.iterdir())
    found, _ = make.run(copy, make.variant("look"), make.plain("blind"))
    assert not found.failed
    assert weights(copy, "look") == weights(made.folder, "look")


def test_a_model_without_its_settings_is_trained_anew_on_request(copy, made, make):
    (copy / "models/look/config.toml").unlink()
    variants = make.variant("look"), make.plain("blind")
    with pytest.raises(TrainingError, match=r"look: its folder has no config\.toml\n"):
        make.run(copy, *variants)
    make.run(copy, *variants, overwrite=True)
    assert weights(copy, "look") == weights(made.folder, "look")
    assert sorted(path.name for path in (copy / "models").iterdir()) == ["blind", "look"]


def test_models_of_several_languages_are_compared(make, tmp_path):
    for name, turned in (("there", "c b a"), ("same", "a b c")):
        (tmp_path / f"{name}.tsv").write_text(f"a b c\t{turned}\n" * 20)
    entries = tuple(f"{name}={tmp_path / name}.tsv" for name in ("there", "same"))
    data = replace(make.config.data, train=(), valid=(), tagged=entries, valid_tagged=entries)
    variants = [Variant(name, replace(make.config, data=data, seed=seed)) for seed, name in enumerate(("one", "other"))]
    terms = Terms(test_tagged=entries[:1])
    found, _ = make.run(tmp_path / "out", *variants, terms=terms)
    assert not found.failed
    assert found["one"].runs[0].evaluation.sentences == 20
    assert found["one"].runs[0].evaluation.looks[0].source == "<2there> a b c"
    assert f"trained on {entries[0]} and {entries[1]} " in found.markdown.read_text().replace("\\", "")
    _, said = make.run(tmp_path / "out", *variants, terms=terms)
    assert said[0] == "2 of 2 runs are finished already."
    (tmp_path / "same.tsv").write_text("a b c\tb b b\n" * 20)
    with pytest.raises(TrainingError, match=r"one: .*same\.tsv has changed since"):
        make.run(tmp_path / "out", *variants, terms=terms)


def test_what_somebody_stopped_alone_is_said_to_be_stopped(copy, make, tmp_path):
    place = RunFiles(copy, "blind")
    record = place.read()
    row = Row("blind", (Run(place, replace(record, state="interrupted", result=None), [], None),))
    assert why_failed(row) == "was stopped: run the same command again to continue it"
    two = Row("blind", (*row.runs, Run(place, replace(record, state="failed", reason="no room"), [], None)))
    assert why_failed(two) == "blind was stopped: run the same command again to continue it; blind failed: no room"


def test_a_model_folder_is_no_place_for_a_comparison(copy, make, untrainable):
    with pytest.raises(TrainingError) as caught:
        make.run(copy / "models/look", make.variant("look"))
    assert str(caught.value) == f"{copy}/models/look is a model's folder: choose another for the comparison."


def test_a_model_of_other_making_is_not_touched(tmp_path, make):
    (tmp_path / "out/models/look").mkdir(parents=True)
    (tmp_path / "out/models/look/precious").touch()
    with pytest.raises(TrainingError, match="look: it was not made by this comparison\n"):
        make.run(tmp_path / "out", make.variant("look"))
    assert (tmp_path / "out/models/look/precious").exists()


def test_a_report_of_other_making_is_not_replaced(tmp_path, make, untrainable):
    (tmp_path / "report.md").write_text("mine")
    with pytest.raises(TrainingError) as caught:
        make.run(tmp_path, make.plain("look"), make.plain("blind"))
    assert str(caught.value) == f"{tmp_path} holds report.md, which no comparison made: choose another folder."
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]


def test_what_was_interrupted_goes_on_and_ends_the_same(made, make, tmp_path):
    stop = make.listener(at=10, action=lambda: os.kill(os.getpid(), signal.SIGINT))  # the second's fourth step
    variants = make.variant("look"), make.plain("blind")
    with pytest.raises(KeyboardInterrupt):
        make.run(tmp_path / "out", *variants, reporter=stop)
    assert RunFiles(tmp_path / "out", "look").read().state == FINISHED
    assert RunFiles(tmp_path / "out", "blind").read().state == "interrupted"
    assert stop.messages[-1] == "Stopped after step 4 and saved."  # there is no --resume here: the same command goes on
    on = make.listener()
    _, said = make.run(tmp_path / "out", *variants, reporter=on)
    assert on.steps == 2
    assert said[0] == "1 of 2 runs is finished already."
    for name in ("look", "blind"):
        assert weights(tmp_path / "out", name) == weights(made.folder, name)


def test_a_variant_that_fails_is_told_of_and_loses_no_other(make, tmp_path):
    hopeless = Variant("hopeless", override(make.config, ["data.train=nowhere.tsv", "data.valid=reverse:valid:4"]))
    found, said = make.run(tmp_path / "out", hopeless, make.variant("look"))
    assert [run.place.name for run in found.failed] == ["hopeless"]
    reason = found["hopeless"].runs[0].record.reason
    assert "nowhere.tsv" in reason
    assert "\n" not in reason
    assert f"hopeless failed: {reason}" in said
    assert f"failed: {reason}" in str(found)
    assert found["look"].stat("bleu") is not None
    assert f"failed: {reason}" in found.page.read_text().replace("&#x27;", "'")
    assert "The baseline hopeless did not finish, so nothing is compared with it." in found.notes
    assert found["look"].runs[0].tested.interval is not None  # even so


def test_a_bug_or_too_little_memory_is_a_failure_too(make, tmp_path, monkeypatch):
    def fall(config, *_, **__):
        raise {"a": ValueError("two\nlines"), "b": MemoryError(), "c": RuntimeError("can't allocate memory: 9")}[
            names.pop(0)
        ]

    names = ["a", "b", "c"]
    monkeypatch.setattr(train_model, "train", fall)
    found, _ = make.run(tmp_path, *(make.variant(name) for name in names))
    reasons = [run.record.reason for run in found.failed]
    memory = "out of memory: use a smaller model or training.batch_tokens"
    assert reasons == ["ValueError: two lines", memory, memory]
    assert "Traceback" in (tmp_path / "logs/a.log").read_text()


def test_what_failed_is_tried_again(make, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(train_model, "train", lambda *_, **__: (_ for _ in ()).throw(ModelError("not today")))
        found, _ = make.run(tmp_path, make.variant("look"))
        assert found.failed[0].record.reason == "not today"
    found, _ = make.run(tmp_path, make.variant("look"))
    assert not found.failed


def test_settings_that_cannot_be_followed_are_refused_before_anything_is_trained(make, tmp_path, untrainable):
    with pytest.raises(ConfigError, match=r"^Variant 'wrong': training\.batch_tokens is 0"):
        make.run(tmp_path / "out", make.variant("look"), make.variant("wrong", batch_tokens=0))


def test_seeds_give_means_and_spreads(make, tmp_path):
    terms = replace(make.terms, seeds=(1, 2), baseline="blind")
    found, _ = make.run(tmp_path, make.variant("look", steps=2), make.plain("blind"), terms=terms)
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == [
        "blind-seed1", "blind-seed2", "look-seed1", "look-seed2",
    ]  # fmt: skip
    stat = found["look"].stat("chrf")
    one, two = (run.evaluation.value("chrF") for run in found["look"].runs)
    assert stat.mean == pytest.approx((one + two) / 2)
    assert stat.spread == pytest.approx(abs(one - two) / math.sqrt(2))
    assert len(found["look"].stat("p").values) == 2
    assert "of 2" in str(found)
    assert "look-seed2" in found.markdown.read_text()
    results = json.loads(found.results.read_text())
    assert results["seeds"] == [1, 2]
    assert results["variants"][0]["measures"]["chrf"] == {
        "mean": pytest.approx(stat.mean), "spread": pytest.approx(stat.spread), "runs": 2,
    }  # fmt: skip


def test_minutes_become_steps_by_a_trial(make, tmp_path, monkeypatch):
    """The clock is the trial's own log, so only the arithmetic is looked at: 3 steps in 0.02 min at 2.5 steps/s."""
    lines = [{"step": 10, "steps_per_second": 99.0}, *({"step": n, "steps_per_second": 2.5} for n in (20, 30, 40))]
    monkeypatch.setattr(worker, "read_metrics", lambda path: lines)
    monkeypatch.setattr(worker, "TRIAL", 4)
    variant = make.variant("look", steps=0, validate_every=0)
    found, said = make.run(tmp_path, variant, terms=replace(make.terms, minutes=0.02))
    assert "look: 2.5 steps/s, so 3 steps in 1 s" in said
    assert found["look"].stat("steps").mean == 3
    assert list((tmp_path / "models").iterdir()) == [tmp_path / "models/look"]
    monkeypatch.setattr(train_model, "train", lambda *_, **__: pytest.fail("a training began"))
    make.run(tmp_path, variant, terms=replace(make.terms, minutes=0.02))
    with pytest.raises(TrainingError, match=r"  look: minutes: 0\.02 → 3\n"):
        make.run(tmp_path, variant, terms=replace(make.terms, minutes=3))


def test_without_a_test_corpus_the_validation_is_scored_and_said(make, tmp_path):
    lines = [f"{pair.source}\t{pair.target}\n" for pair in open_corpus(["copy:40"])]
    (tmp_path / "t.tsv").write_text("".join(lines[:30]))
    (tmp_path / "v.tsv").write_text("".join(lines[30:]))
    data = [f"data.train={tmp_path}/t.tsv", f"data.valid={tmp_path}/v.tsv", "training.steps=2"]
    found, _ = make.run(tmp_path / "out", Variant("look", override(make.config, data)), terms=Terms())
    assert any(
        note.startswith("There was no test corpus: all variants are scored on the validation") for note in found.notes
    )
    assert found["look"].runs[0].evaluation.sentences == 10


def test_a_language_model_has_a_loss_and_dashes(made, make, tmp_path, monkeypatch):
    """Whatever reads nothing is scored by its perplexity alone; the model here only says that it reads nothing."""
    from regard.models.seq2seq import Seq2Seq

    monkeypatch.setattr(Seq2Seq, "reads", property(lambda self: False))
    place = RunFiles(shutil.copytree(made.folder, tmp_path / "copy"), "look")
    (place.model / "evaluation.json").unlink()
    evaluation = scoring.score(place.model, place.read().job)
    assert list(evaluation.scores) == ["perplexity"]
    assert evaluation.loss is not None
    found, _ = make.run(tmp_path / "copy", make.variant("look"), make.plain("blind"))
    assert found["look"].stat("bleu") is None
    assert found["look"].stat("loss") is not None
    assert "The baseline look does not translate, so nothing is compared with it." in found.notes
    assert "p: " not in found.markdown.read_text()
    line = next(line for line in str(found).splitlines() if line.startswith("look"))
    assert line.count("–") == 3  # BLEU, chrF and the speed of translating; the baseline has neither Δ nor p


def test_jobs_in_processes_of_their_own_end_the_same(made, make, tmp_path):
    """Two at a time; one of them fails, and the other is as if it had been alone."""
    hopeless = Variant("hopeless", override(make.config, ["data.train=nowhere.tsv", "data.valid=reverse:valid:4"]))
    found, said = make.run(tmp_path, make.variant("look"), hopeless, jobs=2)
    assert [run.record.state for row in found.rows for run in row.runs] == [FINISHED, FAILED]
    assert weights(tmp_path, "look") == weights(made.folder, "look")
    assert "[1/2] look" in said
    assert any(line.startswith("look: step 6 · ") for line in said)
    assert "look: Finished after 6 steps" in "\n".join(said)
    assert "step 6 · " in (tmp_path / "logs/look.log").read_text()
    assert "Up to 2 runs were trained in parallel: each was slower than it would be alone." in found.notes


def test_parts_of_other_widths_are_told_as_settings_that_differ(make, tmp_path):
    wide = Variant("wide", replace(make.config, model=replace(make.config.model, encoder=EncoderConfig(width=11))))
    found, _ = make.run(
        tmp_path, make.variant("look", steps=1), Variant("wide", assign(wide.config, "training.steps", 1))
    )
    text = found.markdown.read_text()
    assert "| model.encoder.width | 7 | 11 |" in text
    assert "batch_tokens" not in text.partition("## Settings that differ")[2]


def test_of_a_group_that_one_has_not_only_the_group_is_told(made):
    table = settings_table(made.rows)
    assert [[cell.text for cell in row] for row in table.rows] == [["model.attention", "–", "none"]]
    assert settings_table(made.rows[:1]) is None


def test_a_language_model_is_no_baseline_unless_it_is_named(make):
    model = replace(make.config.model, encoder=EncoderConfig(kind="none"))
    variants = [Variant("lm", replace(make.config, model=model)), make.variant("look")]
    assert default_baseline(variants) == "look"
    assert default_baseline(variants[:1]) == "lm"
