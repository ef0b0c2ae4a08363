"""`regard train`: every way to give data and settings, and everything it refuses."""

import gzip
import json
import shutil

import pytest
import torch

from regard.config_io import override, read_toml, to_toml
from regard.data.builtin_corpora import _DEFAULT_SIZES
from regard.presets import preset
from regard.training.setting_checks import settled

NONE = ("--set", "data.held_out=0")
"""Train on all pairs."""
FILES = {"config.toml", "model.safetensors", "tokenizer.json", "metrics.jsonl", "state", "cache"}


def as_jsonl(rows):
    records = (row.split("\t") for row in rows)
    return "".join(json.dumps({"source": source, "target": target}) + "\n" for source, target, _ in records)


@pytest.fixture
def data(corpus, here):
    """The corpus in every form, in the current folder."""
    shutil.copytree(corpus, here, dirs_exist_ok=True)
    rows = (corpus / "pairs.tsv").read_text(encoding="utf-8").splitlines()
    (here / "pairs.jsonl").write_text(as_jsonl(rows), encoding="utf-8")
    (here / "pairs.tsv.gz").write_bytes(gzip.compress((corpus / "pairs.tsv").read_bytes()))
    return here


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (("--data", "pairs.tsv"), "pairs.tsv"),
        (("--data", "pairs.tsv.gz"), "pairs.tsv.gz"),
        (("--data", "pairs.jsonl"), "pairs.jsonl"),
        (("--data", "-"), "standard input"),
        (("--source", "pairs.en", "--target", "pairs.fr"), "pairs.en and pairs.fr"),
        (("--set", 'data.train=["pairs.en", "pairs.fr"]'), "pairs.en and pairs.fr"),
    ],
)
def test_every_form_of_the_same_data_gives_the_same_model(regard, data, trained, tiny, given, name):
    ran = regard(
        "train", *given, "--valid", "pairs.tsv", "--out", "model", *tiny, stdin=(data / "pairs.tsv").read_bytes()
    )
    assert ran.code == 0, ran.err
    assert ran.out == ""
    assert ran.err.startswith(f"Learning a vocabulary (words) from {name}\n60 training pairs, a vocabulary of ")
    assert ran.err.endswith('The model is in model. Look at it with: regard attend model "a sentence of yours"\n')
    assert {path.name for path in (data / "model").iterdir()} >= FILES
    assert (data / "model" / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()


def test_an_embedded_corpus_brings_its_own_validation(regard, here, tiny, monkeypatch):
    monkeypatch.setitem(_DEFAULT_SIZES, "valid", 11)
    ran = regard("train", "--data", "dates:40", "--out", "model", *tiny, "--set", "tokenizer.kind=characters")
    assert ran.code == 0, ran.err
    assert "from dates:train:40\n" in ran.err
    assert "No validation corpus" not in ran.err
    assert "BLEU" in ran.err


def test_steps_can_be_typed_and_a_setting_goes_before_them(regard, data, tiny):
    """As it does before all that is short for a setting."""
    rest = [part for part in tiny if "training.steps" not in part and part != "--set"]
    given = [part for change in rest for part in (("--set", change) if "=" in change else (change,))]
    for more, steps in (([], 3), (["--set", "training.steps=2"], 2)):
        ran = regard("train", "--data", "pairs.tsv", "--out", f"m{steps}", *given, "--steps", "3", *more)
        assert ran.code == 0, ran.err
        assert f"Finished after {steps} steps" in ran.err


def test_a_training_that_is_interrupted_says_so_by_its_exit_code(regard, data, tiny, monkeypatch):
    """So that a script that trains and then translates does not go on."""
    from regard.training.trainer import Trainer

    monkeypatch.setattr(Trainer, "run", lambda self: "interrupted")
    ran = regard("train", "--data", "pairs.tsv", "--out", "m", *tiny)
    assert ran.code == 130
    assert "The model is in" not in ran.err


def test_what_is_asked_for_is_what_the_folder_says(regard, data, tiny):
    ran = regard(
        "train", "--data", "pairs.tsv", "--out", "m", *tiny, "--seed", "7", "--epochs", "2", "--preset", "cho2014"
    )
    assert ran.code == 0, ran.err
    assert "No validation corpus (data.valid): keeping the last model instead of the best.\n" in ran.err
    settings = [given for given in tiny if "=" in given if "attention" not in given]
    changes = [*settings, "data.train=pairs.tsv", "seed=7", "training.epochs=2", "training.device=cpu"]
    chosen = settled(override(preset("cho2014"), [*changes, "model.attention.width=3"]), torch.device("cpu"))
    assert read_toml(data / "m" / "config.toml") == chosen
    assert f"Training on the CPU in {chosen.training.precision}\n" in ran.err


def test_minutes_lift_the_other_limits_but_those_that_are_given(regard, data, tiny):
    ran = regard("train", "--data", "pairs.tsv", "--out", "m", *tiny, "--minutes", "0.002", "--set", "training.steps=0")
    assert ran.code == 0, ran.err
    assert "the time is up.\n" in ran.err
    training = read_toml(data / "m" / "config.toml").training
    assert (training.minutes, training.epochs, training.patience) == (0.002, 1_000_000, 0)
    ran = regard("train", "--data", "pairs.tsv", "--out", "n", *tiny, "--minutes", "9", "--epochs", "1")
    assert ran.code == 0, ran.err
    assert read_toml(data / "n" / "config.toml").training.epochs == 1
    on = regard("train", "--resume", "--out", "m", "--minutes", "0.003")
    assert "Going on with training.minutes: 0.002 → 0.003\n" in on.err


def test_a_configuration_file_does_what_the_options_do(regard, data, trained, tiny):
    settings = [given for given in tiny if "=" in given]
    chosen = override(preset("bahdanau2014-small"), [*settings, "data.valid=pairs.tsv", "training.device=cpu"])
    (data / "mine.toml").write_text(to_toml(chosen), encoding="utf-8")
    ran = regard("train", "--config", "mine.toml", "--data", "pairs.tsv", "--out", "model")
    assert ran.code == 0, ran.err
    assert (data / "model" / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()


def test_a_finished_run_says_so_and_a_longer_one_goes_on(regard, data, tiny):
    constant = (*tiny, "--set", "training.schedule=constant")
    assert regard("train", "--data", "pairs.tsv", "--out", "m", *constant).code == 0
    again = regard("train", "--resume", "--out", "m")
    assert again.code == 0
    assert "Training already finished after 3 steps: there is nothing to resume." in again.err
    on = regard("train", "--resume", "--out", "m", "--set", "training.steps=5")
    assert on.code == 0
    assert "Going on after step 3" in on.err
    assert regard("train", "--data", "pairs.tsv", "--out", "whole", *constant, "--set", "training.steps=5").code == 0
    resumed, whole = (data / name / "model.safetensors" for name in ("m", "whole"))
    assert resumed.read_bytes() == whole.read_bytes()


def test_overwriting_replaces_the_run(regard, model, corpus, trained, tiny):
    assert (
        regard("train", "--data", corpus / "pairs.tsv", "--out", model, *tiny, "--seed", "9", "--overwrite").code == 0
    )
    assert read_toml(model / "config.toml").seed == 9
    assert (model / "model.safetensors").read_bytes() != (trained / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            (),
            "There is nothing to train on: give --source and --target, or --data with a .tsv or .jsonl file, "
            "- for stdin, or an embedded name (regard list corpora).",
        ),
        (("--data", "a", "--source", "b"), "Give either --data or --source and --target, not both."),
        (("--source", "b"), "--source and --target go together: one of them is missing."),
        (
            ("--data", "a", "--valid", "b", "--valid-target", "c"),
            "Give either --valid or --valid-source and --valid-target, not both.",
        ),
        (
            ("--data", "a", "--valid-target", "c"),
            "--valid-source and --valid-target go together: one of them is missing.",
        ),
        (
            ("--data", "dates", "--preset", "bahdanau"),
            "No preset named 'bahdanau'. Did you mean 'bahdanau2014'? (regard list presets and regard list visions "
            "show all)",
        ),
        (
            ("--data", "dates", "--preset", "cho2014", "--config", "c.toml"),
            "Give either --preset or --config, not both: each is a whole configuration.",
        ),
        (
            ("--resume", "--preset", "cho2014"),
            "--preset starts a new run and --resume goes on with one: give one of them.",
        ),
        (("--data", "dates", "--config", "c.toml"), "c.toml cannot be read: No such file or directory."),
        (
            ("--data", "dates", "--set", "training.epoch=3"),
            "Unknown setting 'training.epoch'. Did you mean 'training.epochs'? (regard list settings shows all)",
        ),
        (
            ("--data", "dates", "--set", "training.epochs"),
            "'training.epochs' sets nothing: write NAME=VALUE, such as training.epochs=3.",
        ),
        (("--data", "dates", "--minutes", "0"), "--minutes is 0; it must be above 0 and finite."),
        (("--data", "dates", "--epochs", "0"), "training.epochs is 0; it must be at least 1."),
        (("--data", "dates", "--device", "gpu"), "training.device is 'gpu'; it must be one of auto, cpu, cuda."),
        (("--resume",), "There is nothing to resume in new: leave out --resume to start there."),
        (
            ("--data", "nothing"),
            "No corpus 'nothing': neither a file nor one of copy, dates, fashion-mnist, phrasebook, reverse, scenes.",
        ),
        (("--data", "nothing.tsv"), "No file 'nothing.tsv'."),
        (("--data", "dates", "--valid", "nothing.tsv"), "No file 'nothing.tsv'."),
        (
            ("--data", "dates", "--valid", "-"),
            "data.valid cannot be standard input, which can be read only once: give a file.",
        ),
        (("--data", "-"), "standard input is empty: there is nothing to learn from."),
        (
            ("--data", "dates", "--from", "m", "--preset", "cho2014"),
            "Give either --from or --preset, not both: a model brings its own configuration.",
        ),
        (
            ("--data", "dates", "--from", "m", "--config", "c.toml"),
            "Give either --from or --config, not both: a model brings its own configuration.",
        ),
        (("--from", "m", "--resume"), "--from starts a new run and --resume goes on with one: give one of them."),
        (
            ("--data", "dates", "--from", "m"),
            "There is no model folder m: train a model with regard train … --out m.",
        ),
        (
            ("--data", "dates", "--alignment", "a"),
            "--alignment goes with --source and --target; with --data it is the third column.",
        ),
    ],
)
def test_refusals_leave_nothing_behind(refused, here, given, message):
    assert refused("train", "--out", "new", *given) == message
    assert [*here.iterdir()] == []


def test_a_folder_with_a_run_is_not_overwritten_unasked(refused, model, trained, tiny):
    assert refused("train", "--data", "dates:40", "--out", model, *tiny) == (
        f"{model} already holds a run. Go on with it by --resume, replace it by --overwrite, or choose another folder."
    )
    assert (model / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()


def test_targets_that_cannot_be_written(refused, here):
    (here / "file").write_text("mine")
    assert refused("train", "--data", "dates:40", "--out", "file") == (
        "file is a file, not a folder: choose another name for the run."
    )
    assert refused("train", "--data", "dates:40", "--out", "/proc/nowhere") == (
        "/proc/nowhere cannot be written: No such file or directory. Choose another folder."
    )
    assert (here / "file").read_text() == "mine"


def test_a_resume_with_other_settings_lists_them(refused, model):
    assert refused("train", "--resume", "--out", model, "--set", "model.dropout=0.5", "--seed", "2") == (
        f"{model} cannot be resumed with other settings than it was started with:\n"
        "  seed: 1 → 2\n  model.dropout: 0.3 → 0.5\n"
        "Leave them as they were, or train into another folder."
    )


def test_a_model_beyond_all_memory(regard, here, tiny):
    """More than a process can address, so that no machine can have it."""
    ran = regard("train", "--data", "dates:40", "--out", "m", *tiny, "--set", "model.embedding=1000000000000")
    assert ran.code == 2
    assert ran.err.endswith("\nregard: Out of memory. Use a smaller model, training.batch_tokens or --batch.\n")


def test_out_is_needed(regard):
    ran = regard("train", "--data", "dates")
    assert ran.code == 2
    assert "Missing option '--out'" in ran.err


def test_a_model_is_trained_on_from_another(regard, refused, data, trained):
    """Its settings, its vocabulary and its weights are taken over; its corpora are not."""
    model = ("--from", trained, "--out", "tuned")
    assert refused("train", *model).startswith("There is nothing to train on: ")
    ran = regard("train", *model, "--data", "pairs.tsv", "--set", "training.steps=1", "--device", "cpu", *NONE)
    assert ran.code == 0, ran.err
    assert f"Taking weights and vocabulary from {trained}\n60 training pairs, a vocabulary of " in ran.err
    old, new = (read_toml(folder / "config.toml") for folder in (trained, data / "tuned"))
    assert new.started_from == str(trained)
    assert (new.model, new.tokenizer, new.preset) == (old.model, old.tokenizer, old.preset)
    assert (new.data.train, new.data.valid, new.training.steps) == (("pairs.tsv",), (), 1)
    for file in ("tokenizer.json", "source.vocabulary.json", "target.vocabulary.json"):
        assert (data / "tuned" / file).read_bytes() == (trained / file).read_bytes()
    more = regard("train", "--out", "tuned", "--resume", "--set", "training.steps=2", "--set", "training.patience=3")
    assert more.code == 2  # the cosine of this preset goes by the planned end
    shown = refused("train", *model, "--overwrite", "--data", "pairs.tsv", "--set", "tokenizer.kind=bpe", *NONE)
    assert shown == (
        f"A run that starts from {trained} has its vocabulary, so these settings cannot change:\n"
        "  tokenizer.kind: words → bpe"
    )


def test_a_damaged_model_is_not_trained_on_from(refused, data, model):
    content = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").unlink()
    (model / "model.safetensors").write_bytes(content[:500])
    told = refused("train", "--from", model, "--data", "pairs.tsv", "--out", "tuned")
    assert told.startswith(f"{model / 'model.safetensors'} is damaged: ")
    assert not (data / "tuned").exists()


@pytest.mark.parametrize(
    "given", [("--data", "pairs.tsv"), ("--source", "pairs.en", "--target", "pairs.fr", "--alignment", "pairs.align")]
)
def test_attention_is_guided_by_the_alignments_of_the_corpus(regard, data, tiny, given):
    ran = regard("train", *given, "--out", "m", *tiny, "--set", "training.guided=0.5", "--set", "training.log_every=1")
    assert ran.code == 0, ran.err
    records = [json.loads(line) for line in (data / "m" / "metrics.jsonl").read_text().splitlines()]
    assert [record["guided_loss"] > 0 for record in records] == [True] * 3


def test_alignments_that_guide_nothing_are_refused(refused, data):
    files = ("--source", "pairs.en", "--target", "pairs.fr", "--alignment", "pairs.align")
    begin = "pairs.align holds alignments, which are there to guide the attention, and training.guided is 0: "
    assert refused("train", *files, "--out", "m") == (
        begin + "set its weight, such as training.guided=0.5, or leave the alignments out."
    )
    given = ("--set", 'data.train=["pairs.en", "pairs.fr", "pairs.align"]')
    assert refused("train", *given, "--preset", "cho2014-small", "--out", "m") == begin + "leave them out."
    assert not (data / "m").exists()


def test_attention_cannot_be_guided_without_alignments(regard, data, tiny):
    files = ("--source", "pairs.en", "--target", "pairs.fr")
    ran = regard("train", *files, "--out", "m", *tiny, "--set", "training.guided=0.5")
    assert ran.code == 2
    assert ran.err.endswith(
        "\nregard: training.guided needs gold alignments, and the training corpus has none: give them as a third file "
        "or column, or set training.guided=0.\n"
    )
    assert not (data / "m").exists()
