"""What a batch is reckoned to need is more than it was measured to need, but not by much."""

import pytest
import torch
from surveys import made_up

from regard.config import TokenizerConfig
from regard.config_io import override
from regard.data.survey import SAMPLE
from regard.presets.base import preset
from regard.task import build
from regard.training import memory_estimate
from regard.training.memory_estimate import available, of_batch, of_weights, vocabulary_of

SMALL, TINY = "bahdanau2014-conditional-small", "transformer2017-tiny"
WIDER = ("model.encoder.width=256", "model.decoder.width=512", "model.attention.width=256")
COPYING = (
    "model.copy=true",
    "model.positions=rotary",
    *(f"model.{side}coder.feed_forward=1024" for side in ("en", "de")),
)
MIB = 1 << 20
MEASURED = [
    # peaks of a process on a CPU in float32, gradients of the weights left out: tokens, longest, vocabulary, MiB
    (SMALL, (), 2000, 16, 200, 99),
    (SMALL, (), 2000, 128, 200, 202),
    (SMALL, (), 8000, 128, 200, 837),
    (SMALL, (), 1536, 512, 200, 483),
    (SMALL, (), 1024, 1024, 200, 618),
    (SMALL, (), 2000, 128, 8000, 226),
    (SMALL, WIDER, 2000, 128, 200, 393),
    (TINY, (), 2000, 16, 200, 341),
    (TINY, (), 2000, 128, 200, 344),
    (TINY, (), 1536, 512, 200, 277),
    (TINY, (), 8000, 32, 8000, 1511),
    (TINY, ("training.r_drop=3.0",), 8000, 32, 8000, 3013),
    (TINY, COPYING, 2000, 128, 200, 528),
    (TINY, ("model.copy=true",), 2000, 128, 8000, 374),
    ("transformer2017", (), 2000, 128, 8000, 1220),
    ("gpt-small", (), 2000, 128, 8000, 134),
]


@pytest.mark.parametrize(("name", "changes", "tokens", "longest", "entries", "measured"), MEASURED)
def test_it_errs_on_the_high_side(name, changes, tokens, longest, entries, measured):
    lengths = (f"training.batch_tokens={tokens}", f"data.max_length={longest - 1}")
    reckoned = of_batch(override(preset(name), [*changes, *lengths]), entries, "cpu") / MIB
    assert measured <= reckoned <= 2.5 * measured


@pytest.mark.parametrize("name", [SMALL, TINY, "gpt-small"])
def test_weights_are_counted_without_being_made(name):
    model = preset(name).model
    assert of_weights(model, 97) == 16 * sum(weight.numel() for weight in build(model, 97, 97).parameters())


def test_a_batch_is_never_smaller_than_the_longest_text():
    config = override(preset(SMALL), ["data.max_length=999"])
    one, other = (override(config, [f"training.batch_tokens={tokens}"]) for tokens in (1, 1000))
    assert of_batch(one, 50, "cpu") == of_batch(other, 50, "cpu")


def test_a_container_may_use_what_its_group_may_use(tmp_path, monkeypatch):
    host = available(torch.device("cpu"))
    assert host > 1 << 28
    for content, least in (("max\n", host), ("12345678\n", 12345678), (str(1 << 62), host)):
        (tmp_path / "memory.max").write_text(content)
        monkeypatch.setattr(memory_estimate, "_LIMITS", (str(tmp_path / "none"), str(tmp_path / "memory.max")))
        assert available(torch.device("cpu")) == least


def test_entries_of_a_vocabulary():
    found = made_up(pairs=100, alphabet=30, types=500, frequent=40)
    kinds = {
        kind: vocabulary_of(TokenizerConfig(kind, 700), found) for kind in ("characters", "spelled", "words", "bpe")
    }
    assert kinds == {"characters": 65, "spelled": 145, "words": 700, "bpe": 700}
    assert vocabulary_of(TokenizerConfig("characters", 700), made_up(pairs=SAMPLE + 1, alphabet=30)) == 700
