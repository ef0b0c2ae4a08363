"""What a finished training says of itself, case by case, to the letter; and laws of it for any history."""

import math
import os
import signal
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import Config, ModelConfig, TrainingConfig
from regard.training.training_report import diagnose


def history(losses=(), validations=(), every=100, metric="exact"):
    """Return records: training losses at every so many steps, and (validation loss, score) at as many each."""
    records = [
        {"step": every * number, "epoch": number, "loss": loss, "learning_rate": 1e-3, "seconds": 1.0}
        for number, loss in enumerate(losses, 1)
    ]
    records += [
        {"step": every * number, "epoch": number, "valid_loss": loss, metric: score, "metric": metric, "best": True}
        for number, (loss, score) in enumerate(validations, 1)
    ]
    return sorted(records, key=lambda record: record["step"])


def said(records, end="epochs", metric="exact", preset="", dropout=0.2, **training):
    training = {"schedule": "constant", **training}
    config = Config(
        preset=preset, model=ModelConfig(dropout=dropout), training=TrainingConfig(metric=metric, **training)
    )
    return diagnose(records, config, end)


RISING = [(2.0, 20.0), (1.5, 50.0), (1.2, 60.0), (1.0, 70.0)]
RISEN = [(2.0, 20.0), (1.0, 70.0), (1.2, 70.0), (1.5, 69.0)]
SETTLED = [(2.0, 20.0), (1.0, 70.0), (0.99, 70.2), (1.0, 70.1)]
DEAD = [(6.4, 0.0), (6.39, 0.0), (6.38, 0.0), (6.37, 0.0)]
FALLING = [3.0, 2.0, 1.0, 0.5]


@pytest.mark.parametrize(
    ("given", "reached", "advice"),
    [
        (
            {"records": history(FALLING)},
            "There was no validation, so the quality on unseen data is unknown; the training loss went "
            "from 3.0000 at step 100 to 0.5000 at step 400.",
            "Next: give data that is not trained on, --valid CORPUS.",
        ),
        (
            {"records": history([6.5], every=2)},
            "There was no validation, so the quality on unseen data is unknown; the training loss was "
            "6.5000 at step 2.",
            "Next: give data that is not trained on, --valid CORPUS.",
        ),
        (
            {"records": []},
            "There was no validation, so the quality on unseen data is unknown.",
            "Next: give data that is not trained on, --valid CORPUS.",
        ),
        (
            {"records": history([6.5], [(6.4, 0.0)], every=2), "epochs": 2},
            "The best validation was exact match 0.00 % at step 2 of 2, the only one, so whether the "
            "model was still improving is unknown.",
            "Next: go on for longer, --resume --epochs 4.",
        ),
        (
            {"records": history([6.5], [(1.4, 30.0)], every=700)},
            "The best validation was exact match 30.00 % at step 700 of 700, the only one, so whether "
            "the model was still improving is unknown.",
            "Next: validate more often, --set training.validate_every=70.",
        ),
        (
            {"records": history(FALLING, RISING)},
            "The best validation was exact match 70.00 % at step 400 of 400, and the model was still improving.",
            "Next: go on for longer, --resume --epochs 40.",
        ),
        (
            {"records": history(FALLING, RISING), "schedule": "cosine"},
            "The best validation was exact match 70.00 % at step 400 of 400, and the model was still improving.",
            "Next: train again for longer, --epochs 40.",
        ),
        (
            {"records": history(FALLING, RISING), "end": "minutes", "minutes": 1.5, "schedule": "cosine"},
            "The best validation was exact match 70.00 % at step 400 of 400, and the model was still improving.",
            "Next: go on for longer, --resume --minutes 3.",
        ),
        (
            {"records": history(FALLING, RISING), "end": "steps", "steps": 400, "epochs": 20},
            "The best validation was exact match 70.00 % at step 400 of 400, and the model was still improving.",
            "Next: go on for longer, --resume --steps 800.",
        ),
        (
            {"records": history(FALLING, RISING), "end": "steps", "steps": 400, "epochs": 5},
            "The best validation was exact match 70.00 % at step 400 of 400, and the model was still improving.",
            "Next: go on for longer, --resume --steps 800 --epochs 10.",
        ),
        (
            {"records": history(FALLING, RISEN)},
            "The best validation was exact match 70.00 % at step 200 of 400, and the model overfits: since step 200 "
            "the validation loss has risen from 1.0000 to 1.5000, while the training loss fell from 2.0000 to 0.5000.",
            "Next: more dropout, --set model.dropout=0.3.",
        ),
        (
            {"records": history(FALLING, RISEN), "end": "patience", "dropout": 0.4},
            "The best validation was exact match 70.00 % at step 200 of 400, and the model overfits: since step 200 "
            "the validation loss has risen from 1.0000 to 1.5000, while the training loss fell from 2.0000 to 0.5000.",
            "Next: more training data.",
        ),
        (
            {"records": history([3.0, 2.0, 1.6, 1.5], SETTLED), "end": "patience"},
            "The best validation was exact match 70.20 % at step 300 of 400, and the model had stopped improving.",
            "Next: a larger model.",
        ),
        (
            {"records": history([3.0, 2.0, 1.6, 1.5], SETTLED), "preset": "bahdanau2014-small"},
            "The best validation was exact match 70.20 % at step 300 of 400, and the model had stopped improving.",
            "Next: a larger model, --preset bahdanau2014.",
        ),
        (
            {"records": history(FALLING, SETTLED)},
            "The best validation was exact match 70.20 % at step 300 of 400, and the model had stopped improving.",
            "Next: more training data.",
        ),
        (
            {"records": history(FALLING, [(1.0, 40.0), (0.1, 99.0), (0.01, 99.9)])},
            "The best validation was exact match 99.90 % at step 300 of 400, which leaves little to gain.",
            "Next: confirm it on held-out test data with regard evaluate.",
        ),
        (
            {"records": history([6.5, 6.4, 6.4, 6.4], DEAD, every=1000)},
            "The best validation was exact match 0.00 % at step 4,000 of 4,000, and almost nothing was learnt: the "
            "validation loss was 6.4000 at first and 6.3700 at best.",
            "Next: a lower learning rate, --set training.learning_rate=0.0003.",
        ),
        (
            {"records": history([6.5, 6.4, 6.4, 6.4], DEAD, every=10), "warmup": 300},
            "The best validation was exact match 0.00 % at step 40 of 40, and almost nothing was learnt: the "
            "validation loss was 6.4000 at first and 6.3700 at best.",
            "Next: go on for longer, --resume --epochs 40.",
        ),
        (
            {"records": history(FALLING, [(2.0, 0.0), (1.5, 0.0), (1.0, 0.0)]), "end": "minutes", "minutes": 0.5},
            "The best validation was exact match 0.00 % at step 300 of 400, and the validation loss was still falling.",
            "Next: go on for longer, --resume --minutes 1.",
        ),
        (
            {"records": history(FALLING, RISING, metric="bleu"), "metric": "loss"},
            "The best validation was loss 1.0000 at step 400 of 400, and the model was still improving.",
            "Next: go on for longer, --resume --epochs 40.",
        ),
        (
            {"records": history(FALLING, [(2.0, 0.2), (1.0, 0.9), (1.5, 0.97)], metric="ap"), "metric": "ap"},
            "The best validation was AP 0.970 at step 300 of 400, and the model was still improving.",
            "Next: go on for longer, --resume --epochs 40.",
        ),
        (
            {"records": history(FALLING, RISEN), "metric": "bleu"},  # no target had four tokens
            "The best validation was loss 1.0000 at step 200 of 400, and the model overfits: since step 200 "
            "the validation loss has risen from 1.0000 to 1.5000, while the training loss fell from 2.0000 to 0.5000.",
            "Next: more dropout, --set model.dropout=0.3.",
        ),
    ],
)
def test_every_case(given, reached, advice):
    found = said(**given)
    assert (found.reached, found.advice) == (reached, advice)
    assert str(found) == f"{reached}\n{advice}"


def test_label_smoothing_alone_is_not_taken_for_overfitting():
    """A smoothed model becomes less sure of what is right: its loss without smoothing rises to -log(1 - 0.1)."""
    validations = [(0.5, 60.0), (0.05, 97.0), (0.08, 97.0), (0.1, 97.0)]
    assert said(history(FALLING, validations), label_smoothing=0.1).state == "flat"
    assert said(history(FALLING, validations)).state == "overfitting"


def test_a_loss_that_rises_is_no_overfitting_while_training_does_not_get_better():
    assert said(history([3.0, 1.0, 1.2, 1.3], RISEN)).state == "flat"


def test_a_score_that_rises_counts_more_than_a_loss_that_does():
    validations = [(1.0, 50.0), (0.9, 60.0), (1.0, 65.0), (1.2, 71.0)]
    assert said(history(FALLING, validations)).state == "improving"


def test_after_patience_nothing_was_getting_better():
    assert said(history(FALLING, RISING), end="patience").state == "flat"


LOSS = st.floats(1e-3, 20.0)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(LOSS, max_size=12),
    st.lists(st.tuples(LOSS, st.floats(0.0, 100.0)), max_size=12),
    st.sampled_from(["exact", "bleu", "chrf", "accuracy", "loss"]),
    st.sampled_from(["epochs", "steps", "minutes", "patience"]),
    st.integers(1, 500),
    st.floats(0.0, 0.9),
)
def test_any_history_has_two_sentences_that_hold(losses, validations, metric, end, every, smoothing):
    records = history(losses, validations, every, metric if metric != "loss" else "bleu")
    found = said(records, end, metric, label_smoothing=smoothing, minutes=2.0 if end == "minutes" else 0.0)
    assert found.reached.endswith(".")
    assert found.advice.startswith("Next: ")
    assert found.advice.endswith(".")
    assert not {"nan", "inf"} & set(str(found).lower().replace(",", " ").split())
    assert found == said(records, end, metric, label_smoothing=smoothing, minutes=2.0 if end == "minutes" else 0.0)
    if validations:
        rank = (lambda one: (-one[0], -one[0])) if metric == "loss" else lambda one: (one[1], -one[0])
        best = max(range(len(validations)), key=lambda number: rank(validations[number]))
        assert f"at step {every * (best + 1):,} of" in found.reached
    assert (found.state == "unvalidated") == (not validations)
    assert found.state != "improving" or end != "patience"
    if found.state == "overfitting":
        assert validations[-1][0] > min(loss for loss, _ in validations)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_is_left_out(value):
    records = history(FALLING, RISING)
    assert said([*records, {"step": 500, "epoch": 5, "loss": value}]) == said(records)


def test_the_two_sentences_are_in_the_folder_and_are_told(tmp_path, monkeypatch):
    from tiny_run import PLAIN, Listener, install, train
    from tiny_run import settings as tiny

    install(monkeypatch)
    listener = Listener()
    train(tiny(PLAIN, patience=0), tmp_path / "run", reporter=listener)
    report = (tmp_path / "run" / "report.txt").read_text()
    assert listener.messages[-1] + "\n" == report
    assert report.startswith("The best validation was BLEU ")
    assert report.count("\n") == 2
    quiet = Listener()
    train(tiny(PLAIN, patience=0), tmp_path / "other", reporter=quiet, go_on="")
    assert quiet.messages[-1] + "\n" == report.splitlines(keepends=True)[0]
    # A run that goes on and is stopped has no report of the part before.
    on = replace(tiny(PLAIN, patience=0), training=replace(tiny(PLAIN, patience=0).training, epochs=9))
    train(on, tmp_path / "run", resume=True, reporter=Listener(10, lambda: os.kill(os.getpid(), signal.SIGINT)))
    assert not (tmp_path / "run" / "report.txt").exists()
