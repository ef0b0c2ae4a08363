"""What a run refuses, in its exact words."""

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_run
import torch
from tiny_run import Killed, Listener, changed, contents, install, killed, open_data_with, settings, train

from regard.compare.variants import read_request, resolve
from regard.config import AttentionConfig, Config, DataConfig, DecodingConfig, ModelConfig, TrainingConfig
from regard.config_io import override
from regard.errors import ConfigError, DataError, RegardError, TrainingError
from regard.presets import presets
from regard.presets.vision import any_preset, visions
from regard.tasks.translation.task import Translation
from regard.training import setting_checks, trainer
from regard.training.resume import locked
from regard.training.setting_checks import check

RECIPES = Path(__file__).parents[2] / "recipes"
TRANSFORMER = (
    *("model.decoder.kind=transformer", "model.decoder.readout=maxout", "model.attention.project=true"),
    *("model.embedding=12", "model.decoder.width=12"),
)


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    install(monkeypatch)


@pytest.fixture
def begun(tmp_path):
    """A run killed after step 3, whose only checkpoint is of step 2."""
    with pytest.raises(Killed):
        train(settings(), tmp_path / "run", reporter=Listener(3, killed))
    return tmp_path / "run"


def refusal(kind, config, folder, **options):
    with pytest.raises(RegardError) as error:
        train(config, folder, **options)
    assert type(error.value) is kind
    return str(error.value)


def test_a_folder_that_holds_a_run(begun):
    before = contents(begun)
    assert refusal(TrainingError, settings(), begun) == (
        f"{begun} already holds a run. Go on with it by --resume, replace it by --overwrite, or choose another folder."
    )
    assert contents(begun) == before


def test_overwriting_starts_anew_and_removes_nothing_else(begun, tmp_path):
    (begun / "notes.txt").write_text("mine")
    train(settings(epochs=1), begun, overwrite=True)
    train(settings(epochs=1), tmp_path / "whole")
    kept = contents(begun)
    assert kept.pop("notes.txt") == b"mine"
    assert kept == contents(tmp_path / "whole")


def test_a_folder_that_holds_something_else(tmp_path):
    (tmp_path / "thesis.tex").write_text("…")
    for overwrite in (False, True):
        assert refusal(TrainingError, settings(), tmp_path, overwrite=overwrite) == (
            f"{tmp_path} is not empty and holds no run: choose a folder that does not exist yet."
        )


def test_resuming_nothing(tmp_path):
    there, missing = tmp_path, tmp_path / "missing"
    assert refusal(TrainingError, settings(), missing, resume=True) == (
        f"There is nothing to resume: {missing} does not exist."
    )
    assert refusal(TrainingError, settings(), there, resume=True) == (
        f"There is nothing to resume: {there} holds no run. Leave out --resume to start one."
    )
    (there / "thesis.tex").write_text("…")
    assert refusal(TrainingError, settings(), there, resume=True) == (
        f"There is nothing to resume: {there} holds no run. Give the folder of a run, or train into a new one."
    )
    assert not missing.exists()


def test_resume_and_overwrite(begun):
    assert refusal(TrainingError, settings(), begun, resume=True, overwrite=True) == (
        "--resume goes on from what is there and --overwrite removes it: give one of them."
    )


def test_a_target_that_cannot_be_written(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(Translation, "open_sources", lambda *given: opened.append(given))
    (tmp_path / "file").write_text("")
    inside = tmp_path / "file" / "run"
    assert refusal(TrainingError, settings(), tmp_path / "file") == (
        f"{tmp_path / 'file'} is a file, not a folder: choose another name for the run."
    )
    assert refusal(TrainingError, settings(), inside) == (
        f"{inside} cannot be written: Not a directory. Choose another folder."
    )
    assert not opened


def test_settings_that_make_a_resume_meaningless(begun):
    before = contents(begun)
    other = replace(
        changed(settings(), batch_tokens=2000, optimizer="sgd", epochs=9, accumulate=1, patience=2),
        seed=8,
        model=replace(tiny_run.MODEL, embedding=9),
        decoding=DecodingConfig(beam=2),
    )
    assert refusal(TrainingError, other, begun, resume=True) == (
        f"{begun} cannot be resumed with other settings than it was started with:\n"
        "  seed: 7 → 8\n"
        "  model.embedding: 5 → 9\n"
        "  training.optimizer: adam → sgd\n"
        "  training.batch_tokens: 4000 → 2000\n"
        "  training.accumulate: 2 → 1\n"
        "Leave them as they were, or train into another folder."
    )
    assert contents(begun) == before


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"schedule": "cosine"}, {"epochs": 4}),
        ({"schedule": "cosine"}, {"steps": 4}),
        ({"average": "last"}, {"save_every": 1}),
        ({"teacher_forcing": 0.5, "teacher_forcing_schedule": "linear"}, {"epochs": 4}),
    ],
)
def test_settings_that_others_depend_on(tmp_path, first, then):
    run = tmp_path / "a run"
    train(settings(**first, epochs=1), run)
    (name,) = then
    told = refusal(TrainingError, settings(**{**first, "epochs": 1, **then}), run, resume=True)
    assert f"  training.{name}: " in told
    longer = (
        " To train this model for longer, start another from it, whose optimizer and schedule begin anew: regard train "
        f"--from '{run}' --out ANOTHER, and the data."
    )
    assert told.endswith(longer) == (name in ("epochs", "steps"))


def test_harmless_settings_may_change(begun):
    harmless = {"patience": 3, "log_every": 7, "save_every": 4, "learning_rate": 0.02, "clip": 3.0, "steps": 5}
    other = replace(changed(settings(), **harmless), decoding=DecodingConfig(beam=2), preset="mine")
    listener = Listener()
    assert train(other, begun, resume=True, reporter=listener).steps == 5
    assert listener.messages[:-2] == [  # how it finished, and what it reached
        "Going on with preset:  → mine",
        "Going on with training.learning_rate: 0.01 → 0.02",
        "Going on with training.clip: 1.0 → 3.0",
        "Going on with training.steps: 0 → 5",
        "Going on with training.save_every: 1000 → 4",
        "Going on with training.patience: 5 → 3",
        "Going on with training.log_every: 2 → 7",
        "Going on with decoding.beam: 5 → 2",
        "Going on after step 2 (epoch 1).",
    ]


def test_another_corpus(begun, monkeypatch):
    install(monkeypatch, replace(tiny_run.DATA, fingerprint="another"))
    assert refusal(TrainingError, settings(), begun, resume=True) == (
        f"{begun} cannot be resumed: the corpus is not the one it was started with. "
        "Put the old files back, or train into another folder."
    )


def test_two_processes_in_one_folder(begun):
    with locked(begun):
        assert refusal(TrainingError, settings(), begun, resume=True) == (
            f"Another process is training in {begun}: wait for it, or stop it first."
        )


def test_bad_data_leaves_nothing_behind(tmp_path, monkeypatch):
    def bad(config, folder, sources, reporter, few_shapes):
        (folder / "source.model").write_text("half a tokenizer")
        raise DataError("train.de:3: empty.")

    open_data_with(monkeypatch, bad)
    assert refusal(DataError, settings(), tmp_path / "run") == "train.de:3: empty."
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_not_finite(tmp_path, monkeypatch):
    config = settings()
    real, calls = trainer.Trainer._gradient, []

    def diverging(self, batches, *how):
        calls.append(1)
        made = real(self, batches, *how)
        return made._replace(loss=torch.tensor(float("nan"))) if len(calls) == 6 else made

    whole = tmp_path / "whole"
    train(changed(config, steps=4), whole)
    with monkeypatch.context() as patch:
        patch.setattr(trainer.Trainer, "_gradient", diverging)
        assert refusal(TrainingError, config, tmp_path / "run") == (
            "The loss is not finite at step 6 (epoch 2), so training stopped. The last good checkpoint, of step 4, is "
            "kept: go on from it with --resume and a lower training.learning_rate or training.clip."
        )
    weights = "state/step-00000004/weights.safetensors"
    assert contents(tmp_path / "run")[weights] == contents(whole)[weights]
    train(changed(config, learning_rate=0.001), tmp_path / "run", resume=True)


def test_real_infinities_are_seen(tmp_path):
    """A rate that blows the weights up, without anything pretended."""
    with pytest.raises(TrainingError, match=r"^The (loss|gradient) is not finite at step \d+ \(epoch \d+\), so"):
        train(settings(optimizer="sgd", learning_rate=1e38, clip=0.0, schedule="constant"), tmp_path / "run")
    for path in tmp_path.glob("run/state/*/weights.safetensors"):
        from safetensors.torch import load_file

        assert all(torch.isfinite(tensor).all() for tensor in load_file(path).values())


@pytest.mark.parametrize("file", ["weights.safetensors", "optimizer.safetensors", "place.json", "config.toml"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_a_damaged_checkpoint_is_gone_back_behind(tmp_path, file, damage):
    train(settings(epochs=1), tmp_path / "run")
    whole = contents(tmp_path / "run")
    path = tmp_path / "run" / "state" / "step-00000003" / file
    spoil(path, damage)
    listener = Listener()
    train(settings(epochs=1), tmp_path / "run", resume=True, reporter=listener)
    assert listener.messages[0].startswith(f"Going back to the checkpoint before: {path} ")
    assert listener.messages[1] == "Going on after step 2 (epoch 1)."
    assert contents(tmp_path / "run") == whole


@pytest.mark.parametrize(("old", "new"), [('"step": 3', '"step": 2'), ('"batch": 5', '"batch": 4')])
def test_a_record_that_reads_well_but_is_not_what_was_written_is_noticed(tmp_path, old, new):
    train(settings(epochs=1), tmp_path / "run")
    whole, path = contents(tmp_path / "run"), tmp_path / "run" / "state" / "step-00000003" / "place.json"
    path.write_text(path.read_text().replace(old, new, 1))
    listener = Listener()
    train(settings(epochs=1), tmp_path / "run", resume=True, reporter=listener)
    assert listener.messages[0] == (
        f"Going back to the checkpoint before: {path} is damaged: its content is not what was written."
    )
    assert contents(tmp_path / "run") == whole


def test_a_record_without_a_digest_is_still_held_to_its_folder_s_step(begun):
    path = begun / "state" / "step-00000002" / "place.json"
    record = json.loads(path.read_text())
    del record["digest"]
    record["place"]["step"] = 3
    path.write_text(json.dumps(record))
    assert f"{path} is damaged: " in refusal(TrainingError, settings(), begun, resume=True)


def spoil(path, damage):
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def test_all_checkpoints_damaged(begun):
    path = begun / "state" / "step-00000002" / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    assert refusal(TrainingError, settings(), begun, resume=True) == (
        "No checkpoint can be read, so there is nothing to go on from:\n"
        f"  {path} is damaged: its content is not what was written.\n"
        "Train anew with --overwrite, or into another folder."
    )


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            {"attention": AttentionConfig("location", longest=16)},
            "model.attention.score=location knows 16 places, and data.max_length=128 lets in texts that have 129 with "
            "their end mark: set model.attention.longest=129 or more, or data.max_length=15 or less.",
        ),
        (
            {"positions": "learned", "self_attention": AttentionConfig(longest=128)},
            "model.positions=learned knows 128 places, and data.max_length=128 lets in texts that have 129 with their "
            "end mark: set model.self_attention.longest=129 or more, or data.max_length=127 or less.",
        ),
    ],
)
def test_texts_with_more_places_than_are_learned_are_refused_before_the_first(model, message):
    config = Config(data=DataConfig(train=("copy",)), model=replace(ModelConfig(), **model))
    with pytest.raises(ConfigError) as caught:
        check(config)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"optimizer": "adm"}, "No optimizer named 'adm'. Did you mean 'adam'? (regard list optimizers shows all)"),
        ({"average": "emma"}, "No weight averaging named 'emma'. Did you mean 'ema'? (regard list averages shows all)"),
        (
            {"precision": "bfloat"},
            "training.precision is 'bfloat'; it must be one of float32, tf32, bfloat16, auto. Did you mean 'bfloat16'?",
        ),
        ({"metric": "ter"}, "training.metric is 'ter'; it must be one of bleu, chrf, exact, accuracy, f1, ap, loss."),
        ({"device": "gpu"}, "training.device is 'gpu'; it must be one of auto, cpu, cuda."),
        ({"accumulate": 0}, "training.accumulate is 0; it must be at least 1."),
        ({"clip": -1.0}, "training.clip is -1.0; it must be at least 0."),
        ({"label_smoothing": 1.0}, "training.label_smoothing is 1.0; it must be at least 0 and below 1."),
        ({"learning_rate": 0.0}, "training.learning_rate is 0.0; it must be above 0 and finite."),
        ({"plateau_factor": -3.0}, "training.plateau_factor is -3.0; it must be above 0 and at most 1."),
        ({"device": "cpu:x"}, "There is no device 'cpu:x': use auto, cpu or cuda."),
        ({"beta2": 1.0}, "training.beta2 is 1.0; it must be at least 0 and below 1."),
        ({"teacher_forcing": 1.5}, "training.teacher_forcing is 1.5; it must be at least 0 and at most 1."),
        (
            {"teacher_forcing_schedule": "linea"},
            "No teacher forcing schedule named 'linea'. Did you mean 'linear'? (regard list forcings shows all)",
        ),
        ({"minutes": -1.0}, "training.minutes is -1.0; it must be at least 0 and finite."),
        ({"r_drop": -1.0}, "training.r_drop is -1.0; it must be at least 0 and finite."),
        ({"coverage_loss": -1.0}, "training.coverage_loss is -1.0; it must be at least 0 and finite."),
        ({"guided": math.inf}, "training.guided is inf; it must be at least 0 and finite."),
        ({"reinforce": math.nan}, "training.reinforce is nan; it must be at least 0 and finite."),
        ({"entropy": -0.1}, "training.entropy is -0.1; it must be at least 0 and finite."),
        ({"guided_layer": -2}, "training.guided_layer is -2; it must be at least -1."),
        ({"guided_head": -5}, "training.guided_head is -5; it must be at least -1."),
        (
            {"coverage_loss": 1.0},
            "training.coverage_loss is 1.0, but nothing keeps what earlier looks have seen: set "
            "model.attention.coverage (regard list coverages), or training.coverage_loss=0.",
        ),
    ],
)
def test_settings_that_cannot_be_followed(tmp_path, training, message):
    assert refusal(ConfigError, settings(**training), tmp_path / "run") == message
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_no_cuda(tmp_path):
    assert refusal(ConfigError, settings(device="cuda"), tmp_path / "run") == (
        "training.device is cuda, but torch finds no CUDA device here: set it to cpu or auto."
    )


def test_tensorboard_that_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.training.tensorboard.find_spec", lambda name: None)
    assert refusal(ConfigError, settings(), tmp_path / "run", tensorboard=True) == (
        "TensorBoard was asked for but is not installed: pip install 'regard[tensorboard]'."
    )


def test_a_full_disk(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        listener = Listener(3, lambda: patch.setattr(os, "fsync", full))
        assert refusal(TrainingError, settings(), tmp_path / "run", reporter=listener) == (
            f"Training stopped: No space left on device ({tmp_path / 'run'}). "
            "What was saved before is kept: go on from it with --resume."
        )
    with monkeypatch.context() as patch:
        listener = Listener(1, lambda: patch.setattr(os, "fsync", full))
        assert refusal(TrainingError, settings(), tmp_path / "new", reporter=listener) == (
            f"Training stopped: No space left on device ({tmp_path / 'new'}). Nothing was saved before."
        )
    train(settings(), tmp_path / "run", resume=True)
    train(settings(), tmp_path / "whole")
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            ["model.attention.score=aditive"],
            "No attention score named 'aditive'. Did you mean 'additive'? (regard list scores shows all)",
        ),
        (
            ["tokenizer.kind=chars"],
            "No tokenizer named 'chars'. Did you mean 'characters'? (regard list tokenizers shows all)",
        ),
        (["model.dropout=nan"], "model.dropout must be at least 0 and below 1, got nan."),
        (
            ["model.tie=all", "tokenizer.joint=false"],
            "model.tie=all shares one embedding, but with tokenizer.joint=false each side has a vocabulary of its own: "
            "set tokenizer.joint=true, or model.tie=output.",
        ),
        (
            ["model.dropout=0", "training.r_drop=1"],
            "training.r_drop is 1.0, but there is no dropout, so that two passes are the same: set model.dropout, or "
            "training.r_drop=0.",
        ),
        (
            ["model.dropout=0", "training.r_drop=1", "model.attention=none", "model.decoder.context_dropout=0.5"],
            "training.r_drop is 1.0, but there is no dropout, so that two passes are the same: set model.dropout, or "
            "training.r_drop=0.",
        ),
        (
            [*TRANSFORMER, "model.dropout=0", "training.r_drop=5", "model.decoder.context_dropout=0.5"],
            "training.r_drop is 5.0, but there is no dropout, so that two passes are the same: set model.dropout, or "
            "training.r_drop=0.",
        ),
        (
            ["training.weight_decay=0.01"],
            "training.weight_decay is 0.01, which training.optimizer=adam does not read: take adamw or sgd, or set "
            "training.weight_decay=0.",
        ),
        (
            ["training.momentum=0.9"],
            "training.momentum is 0.9, which training.optimizer=adam does not read: take sgd, or set "
            "training.momentum=0.",
        ),
        *(
            (
                [*TRANSFORMER, f"model.decoder.{name}={value}"],
                f"model.decoder.{name} is {value}, which recurrent decoders alone read, and model.decoder.kind is "
                f"transformer: set model.decoder.{name}={usual}, the default{instead}.",
            )
            for name, value, usual, instead in (
                ("residual", "true", "false", ""),
                ("readout", "tanh", "maxout", ""),
                ("start", "mean", "last", ""),
                ("context_dropout", "0.5", "0.0", "; model.dropout is a transformer's rate"),
                ("output_dropout", "0.0", "-1.0", "; model.dropout is a transformer's rate"),
            )
        ),
        (
            [
                *("model.encoder.kind=transformer", "model.embedding=12", "model.encoder.width=12"),
                *("model.encoder.residual=true", "model.encoder.bidirectional=false"),
            ],
            "model.encoder.residual is true, which recurrent encoders alone read, and model.encoder.kind is "
            "transformer: set model.encoder.residual=false, the default.",
        ),
        (
            ["model.attention=none", "training.guided=0.5"],
            "training.guided is 0.5, but model.attention is none, so there are no looks to guide: set it to 0.",
        ),
        (
            ["model.attention=none", "training.coverage_loss=0.5"],
            "training.coverage_loss is 0.5, but nothing keeps what earlier looks have seen: set "
            "model.attention.coverage (regard list coverages), or training.coverage_loss=0.",
        ),
        (
            [
                *("model.encoder.kind=none", "model.attention=none", "model.decoder.kind=transformer"),
                *("model.embedding=12", "model.decoder.width=12", "model.decoder.readout=maxout"),
            ],
            "training.metric=bleu scores translations, and a language model (model.encoder.kind=none) makes none: set "
            "training.metric=loss.",
        ),
    ],
)
def test_a_model_that_cannot_be_built_is_refused_before_anything_is_made(tmp_path, changes, message):
    assert refusal(ConfigError, override(settings(), changes), tmp_path / "run") == message
    assert not (tmp_path / "run").exists()


def test_a_run_that_began_with_a_setting_without_effect_goes_on(tmp_path, monkeypatch):
    """As earlier versions let it begin, and as it could not without."""
    config = settings(epochs=1, weight_decay=0.1)
    with monkeypatch.context() as patch:
        patch.setattr(setting_checks, "_check_effects", lambda config: None)
        with pytest.raises(Killed):
            train(config, tmp_path / "run", reporter=Listener(3, killed))
    assert train(config, tmp_path / "run", resume=True).steps == 3


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        *(
            (name, setting, value)
            for name in ("resnet-small", "anderson2017-small", "asker-small", "carion2020-small")
            for setting, value in (("r_drop", 1.0), ("teacher_forcing", 0.5), ("coverage_loss", 0.5))
        ),
        *((name, "guided", 0.5) for name in ("resnet-small", "carion2020-small")),
        ("carion2020-small", "label_smoothing", 0.1),
    ],
)
def test_a_setting_that_the_loss_of_a_task_does_not_read(name, setting, value):
    config = override(with_data(any_preset(name)), [f"training.{setting}={value}", "model.dropout=0.1"])
    usual = getattr(TrainingConfig(), setting)
    with pytest.raises(ConfigError) as caught:
        check(config)
    assert str(caught.value) == (
        f"training.{setting} is {value}, which the loss of model.task={config.model.task} does not read: set "
        f"training.{setting}={usual}, the default."
    )
    if setting not in ("coverage_loss", "guided"):
        check(config, resume=True)  # what earlier versions let begin goes on


@pytest.mark.parametrize("name", [*presets, *visions])
def test_every_preset_can_be_followed(name):
    check(with_data(any_preset(name)))


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_recipe_can_be_followed(path):
    for variant in resolve(replace(read_request(path), data=("given later",)))[0]:
        check(with_data(variant.config))


def with_data(config):
    corpus = "copy" if config.model.image is None else "scenes"
    return replace(config, data=replace(config.data, train=(corpus,), valid=()))
