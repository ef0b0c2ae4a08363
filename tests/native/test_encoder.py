"""Laws of the compiled encoders: they read what the modules read, whoever is read beside."""

import shutil
from dataclasses import replace

import pytest
import torch

from known import KNOWN, WORDS, attention, make, recurrent, sources, transformer
from regard.config import DecodingConfig
from regard.config_io import override
from regard.data.tokenizers import Tokenizers, Words
from regard.decoding.translator import Translator
from regard.models.build import build_model
from regard.native.encoder import Reading, UnknownError
from regard.native.library import COMPILERS, library
from regard.presets import preset

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler")

READ = {
    **KNOWN,
    "reversed": replace(KNOWN["luong, no attention"], reverse_source=True),
    "transformer, reversed": replace(KNOWN["transformer"], reverse_source=True),
    "hybrid": replace(
        transformer(), decoder=recurrent("luong", "lstm", 1, attention("general"), "tanh").decoder, tie="none"
    ),
}
LONG = (131, 1, 77, 130, 64, 2, 3)
"""More than are read at once, just as many, and few."""


def read(model, lengths, padding=0, **settings):
    """What the library reads, and what the modules read, in float64."""
    source, mask = sources(lengths)
    source, mask = (torch.nn.functional.pad(part, (0, padding)) for part in (source, mask))
    given = (source.masked_fill(~mask, 7), mask, mask.sum(dim=1))
    with torch.inference_mode():
        exact = model.double().encode(*given)
        return Reading(model.float(), **settings)(*given), exact


@pytest.mark.parametrize("config", READ.values(), ids=READ)
@pytest.mark.parametrize("lengths", [(7, 3, 5, 1, 11, 2), (1,), LONG], ids=["some", "one", "many"])
def test_it_reads_what_the_modules_read(config, lengths):
    if "learned" in config.positions and max(lengths) > 64:
        pytest.skip("it has 64 positions")
    model = make(config, sharpness=1.2)
    found, exact = read(model, lengths, padding=2)
    assert torch.equal(found.mask, exact.mask)
    real = exact.mask[..., None]
    torch.testing.assert_close(found.states * real, (exact.states * real).float(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.summary, exact.summary.float(), rtol=1e-4, atol=1e-5)
    assert found.states.masked_select(~real).count_nonzero() == 0


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("name", ["luong, deep, concat, fed", "conditional, gru, additive", "transformer"])
def test_who_is_read_beside_and_by_how_many_changes_no_bit(name, precision):
    if not library().offers(precision):
        pytest.skip(f"this machine does not multiply in {precision}")
    model = make(KNOWN[name])
    source, mask = sources(LONG)
    lengths = mask.sum(dim=1)
    reading = Reading(model, precision)
    whole = reading(source, mask, lengths)
    shared = reading(source, mask, lengths, threads=3)
    for ours, theirs in zip(whole[:3], shared[:3], strict=True):
        assert torch.equal(ours, theirs)
    for row, length in enumerate(LONG):
        alone = reading(source[row : row + 1, :length], mask[row : row + 1, :length], lengths[row : row + 1])
        assert torch.equal(alone.states[0], whole.states[row, :length])
        # Of a Transformer it is a mean, which torch sums up in another order where there is padding.
        torch.testing.assert_close(alone.summary[0], whole.summary[row])


@pytest.mark.parametrize(("precision", "near"), [("bfloat16", 0.02), ("int8", 0.04)])
@pytest.mark.parametrize("name", ["luong, lstm, additive, fed", "bahdanau, gru, additive", "transformer"])
def test_lower_precisions_are_near(name, precision, near):
    if not library().offers(precision):
        pytest.skip(f"this machine does not multiply in {precision}")
    found, exact = read(make(KNOWN[name], sharpness=1.0), (7, 3, 5, 1, 11, 2), precision=precision)
    off = (found.states - exact.states).square().mean().sqrt() / exact.states.square().mean().sqrt()
    assert 1e-5 < float(off) < near


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("name", ["luong, lstm, additive, fed", "transformer"])
def test_numbers_that_are_none_are_passed_on(name, precision):
    if not library().offers(precision):
        pytest.skip(f"this machine does not multiply in {precision}")
    model = make(KNOWN[name])
    source, mask = sources()
    with torch.no_grad():
        model.source_embedding.weight[source[0, 3], 5] = float("nan")
    states = Reading(model, precision)(source, mask, mask.sum(dim=1)).states
    assert not states[0, : int(mask[0].sum())].isfinite().all()


UNKNOWN = {
    "rotary": transformer(positions="rotary"),
    "window": transformer(reach="window", window=2, looks=attention("scaled-dot", heads=2)),
    "causal": transformer(reach="causal", looks=attention("scaled-dot", heads=2)),
    "additive": replace(transformer(), self_attention=attention("additive", heads=2, project=True)),
    "cooled": transformer(temperature=0.5, looks=attention("scaled-dot", heads=2)),
    "gnmt": preset("gnmt2016-small").model,
    "lstmn": preset("cheng2016-small").model,
    "no source": override(preset("gpt-small"), ["model.tie=none"]).model,
}


@pytest.mark.parametrize("config", UNKNOWN.values(), ids=UNKNOWN)
def test_what_it_does_not_know_it_refuses(config):
    with pytest.raises(UnknownError):
        Reading(build_model(config, WORDS, WORDS))


def test_a_model_in_float64_is_left_to_python():
    with pytest.raises(UnknownError, match="weights are not float32"):
        Reading(make(KNOWN["transformer"]).double())


@pytest.mark.parametrize("name", ["luong, lstm, additive, fed", "transformer", "rotary"])
def test_texts_are_read_by_it_where_it_can(name, monkeypatch):
    """A translator finds the same with it and without, and asks it for one sentence and for many."""
    config = {**KNOWN, **UNKNOWN}[name]
    words = [f"w{n}" for n in range(WORDS - 4)]
    translator = Translator(make(config), Tokenizers(Words(words), Words(words)), DecodingConfig(beam=3))
    asked = []
    plain_call = Reading.__call__

    def noted(self, *given, **settings):
        asked.append(settings["threads"])
        return plain_call(self, *given, **settings)

    monkeypatch.setattr(Reading, "__call__", noted)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    texts = [" ".join(words[(n * 7 + at) % 25] for at in range(1 + n % 11)) for n in range(40)]
    many, one = translator.translate(texts), translator.translate(texts[:1])
    assert asked == ([] if name == "rotary" else [1, 1, 2])
    monkeypatch.setenv("REGARD_NATIVE", "0")
    plain = Translator(translator.model, translator.tokenizers, translator.options).translate(texts)
    assert [found.text for found in many] == [found.text for found in plain]
    assert one[0].text == plain[0].text


def test_nothing_is_read_from_beyond_a_table():
    model = make(KNOWN["transformer"])
    source, mask = sources()
    lengths, reading = mask.sum(dim=1), Reading(model, positions=11)
    for bad in (-3, WORDS):
        with pytest.raises(IndexError, match=rf"Token ids must be from 0 to {WORDS - 1}, got "):
            reading(source.masked_fill(source == source[0, 0], bad), mask, lengths)
    with pytest.raises(IndexError, match=r"A source has 11 tokens, but the model has only 10 positions\."):
        Reading(model, positions=10)(source, mask, lengths)
    empty = reading(source[:0], mask[:0], lengths[:0])
    assert empty.states.shape == (0, source.shape[1], 12)


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", ["luong, lstm, additive, fed", "transformer"])
def test_torchs_defaults_change_nothing(name, kind):
    model = make(KNOWN[name])
    source, mask = sources()
    expected = Reading(model)(source, mask, mask.sum(dim=1))
    torch.set_default_dtype(kind)
    try:
        found = Reading(model)(source, mask, mask.sum(dim=1))
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(found.states, expected.states)
    assert torch.equal(found.summary, expected.summary)
