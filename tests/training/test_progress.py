"""What a person sees: a bar on a terminal, plain lines in a log."""

import io
import sys

import pytest

from regard.training.progress import Bar, Lines, Progress, Reporter, Silent, describe, duration, reporter_for

STEP = {
    "step": 1200,
    "epoch": 3,
    "loss": 2.5,
    "learning_rate": 0.001,
    "tokens_per_second": 12345.6,
    "steps_per_second": 2.0,
}
VALIDATION = {"step": 1200, "epoch": 3, "valid_loss": 2.0, "perplexity": 7.389, "bleu": 31.4, "best": True}
NOW = Progress(1200, 1500, 3, 2.5, 12345.6)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_stream_decides(monkeypatch):
    assert isinstance(reporter_for(io.StringIO()), Lines)
    assert isinstance(reporter_for(Terminal()), Bar)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(reporter_for(), Lines)


@pytest.mark.parametrize("made", [Silent(), Lines(io.StringIO()), Bar(Terminal())])
def test_all_are_reporters(made):
    assert isinstance(made, Reporter)


def test_lines():
    stream = io.StringIO()
    lines = Lines(stream)
    lines.step(NOW)
    lines.logged(STEP)
    lines.logged(VALIDATION)
    lines.message("[bold]as it is[/]")
    assert stream.getvalue() == (
        "step 1,200 · epoch 3 · loss 2.5000 · learning rate 1.00e-03 · 12,346 tokens/s · 2 min 30 s left\n"
        "step 1,200 · epoch 3 · validation loss 2.0000 · perplexity 7.39 · BLEU 31.40 · best so far\n"
        "[bold]as it is[/]\n"
    )


def test_the_bar_shows_loss_speed_and_the_last_validation():
    stream = Terminal()
    bar = Bar(stream)
    bar.message("Learning [a] vocabulary from phrasebook:train:9")
    bar.step(NOW)
    bar.logged(VALIDATION)
    bar.step(NOW._replace(step=1201))
    bar.close()
    shown = stream.getvalue()
    for part in (
        "Learning [a] vocabulary from phrasebook:train:9",
        "1201/1500",
        "loss 2.500",
        "12,346 tokens/s",
        "left",
        "BLEU 31.40",
    ):
        assert part in shown


def test_the_bar_shows_a_validation_at_once_and_not_only_with_the_next_step():
    stream = Terminal()
    bar = Bar(stream)
    bar.step(NOW)
    bar.logged(VALIDATION)
    bar.close()
    assert "left · BLEU 31.4" in stream.getvalue()


def test_losses_beside_the_main_one_are_told():
    record = {**STEP, "guided_loss": 0.25, "attention_entropy": 1.5, "gradient_norm": 9.0, "seconds": 60.0}
    assert describe(record, None) == (
        "step 1,200 · epoch 3 · loss 2.5000 · guided 0.2500 · attention entropy 1.5000 · learning rate 1.00e-03"
        " · 12,346 tokens/s"
    )


def test_without_bleu():
    record = {name: value for name, value in VALIDATION.items() if name not in ("bleu", "best")}
    assert describe(record, None) == "step 1,200 · epoch 3 · validation loss 2.0000 · perplexity 7.39"


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        ({"bleu": 31.4, "metric": "bleu"}, "BLEU 31.40"),
        ({"bleu": 31.4, "metric": "loss"}, "BLEU 31.40"),
        ({"bleu": 31.4, "metric": "chrf"}, "BLEU 31.40 · chrF 55.50"),
        ({"bleu": 31.4, "metric": "exact"}, "BLEU 31.40 · exact match 12.00 %"),
        ({"metric": "exact"}, "exact match 12.00 %"),
        ({"metric": "bleu"}, "exact match 12.00 %"),
        ({"metric": "chrf"}, "exact match 12.00 % · chrF 55.50"),
    ],
)
def test_what_decides_stands_last(record, shown):
    told = describe({"step": 9, "epoch": 1, "valid_loss": 2.0, "exact": 12.0, "chrf": 55.5, **record}, None)
    assert told == f"step 9 · epoch 1 · validation loss 2.0000 · {shown}"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (60.0, "1 min 00 s"), (3599.0, "59 min 59 s"), (11100.0, "3 h 05 min")],
)
def test_duration(seconds, text):
    assert duration(seconds) == text
