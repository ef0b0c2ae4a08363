"""An export says without torch what the model says with it: texts, scores and attention, for every kind of model."""

import json
import shutil
from dataclasses import fields, replace

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

import regard
import regard.runtime
from regard.data.tokenizers import Tokenizers
from regard.presets import preset, presets
from regard.runtime.search_options import SearchOptions

from .conftest import SOURCE

TEXTS = ["the red dress is old", "", "a cat", "cat unheard of the cat", "old old old old old old old", "a cat is " * 5]
WRITERS = ("translate", "local-m", "copying", "copying, local-p", "blind")


def assert_same(found, right):
    """Compare translations with all their hypotheses and traces."""
    assert [one.text for one in found] == [one.text for one in right]
    for own, other in zip(found, right, strict=True):
        for ours, theirs in zip([own, *own.n_best], [other, *other.n_best], strict=True):
            assert (ours.text, ours.tokens) == (theirs.text, theirs.tokens)
            assert ours.score == pytest.approx(theirs.score, abs=1e-4, rel=5e-5)
            trace = regard.AttentionTrace.from_json(ours.attention.to_json())
            for part in ("source", "target", "source_words", "target_words", "special"):
                assert getattr(trace, part) == getattr(theirs.attention, part), part
            np.testing.assert_allclose(trace.log_probs, theirs.attention.log_probs, atol=1e-4)
            assert ours.attention.weights.shape == theirs.attention.weights.shape
            np.testing.assert_allclose(ours.attention.weights, theirs.attention.weights, atol=1e-4)


def options_of(decoding):
    return SearchOptions(**{one.name: getattr(decoding, one.name) for one in fields(SearchOptions)})


class Both:
    """A model without torch and with it; `local-m` writes two languages, one of which is always asked for."""

    def __init__(self, folders, exports, name):
        self.ours, self.theirs = regard.runtime.load(exports(name).folder), regard.load(folders[name])
        self.to = "de" if name == "local-m" else None

    def translate(self, texts, changes=None, **asked):
        options = replace(self.theirs.options, **(changes or {}))
        found = self.ours.translate(texts, options=options_of(options), to=self.to, **asked)
        assert_same(found, self.theirs.translate(texts, options=options, to=self.to, **asked))
        return found


@pytest.mark.parametrize("name", WRITERS)
def test_a_beam_finds_the_same_with_the_same_attention(name, folders, exports):
    both = Both(folders, exports, name)
    assert both.ours.task == both.theirs.task == "translation"
    assert len({best.text for best in both.translate(TEXTS, beam=5, n_best=3)}) > 2
    both.translate(TEXTS, beam=1, batch_size=2)
    both.translate(TEXTS, prefix=["la robe", "le", "", "", "un chat noir", ""])


@pytest.mark.parametrize("name", ["translate", "local-m", "copying", "copying, local-p"])
@pytest.mark.parametrize(
    "changes",
    [
        {"replace_unknown": True, "beam": 2},
        {"coverage_penalty": 0.6, "length_penalty": 0.3},
        {"patience": 0.5, "min_length": 5, "max_length": 7, "beam": 3},
        {"max_length": 0, "min_length": 0, "max_ratio": 0.4, "length_penalty": -1.0},
    ],
    ids=str,
)
def test_settings_of_the_search_mean_the_same(name, changes, folders, exports):
    Both(folders, exports, name).translate(TEXTS, changes, n_best=2)


def test_an_export_keeps_the_settings_of_the_model(folders, exports):
    both = Both(folders, exports, "translate")
    assert both.ours.options == options_of(both.theirs.options)
    assert_same(both.ours.translate(TEXTS), both.theirs.translate(TEXTS))


def test_batch_mates_change_nothing(exports):
    translator = regard.runtime.load(exports("translate").folder)
    together = translator.translate(TEXTS, n_best=3)
    alone = [translator.translate([text], n_best=3)[0] for text in TEXTS]
    assert_same(together, alone)


def test_without_a_look_texts_and_scores_are_the_same(exports):
    translator = regard.runtime.load(exports("translate").folder)
    looked, unseen = translator.translate(TEXTS), translator.translate(TEXTS, look=False)
    assert [(one.text, one.score) for one in unseen] == [(one.text, one.score) for one in looked]
    assert {one.attention.weights.shape[0] for one in unseen if one.text} == {0}


def test_a_language_model_continues_with_the_same(folders, exports):
    both = Both(folders, exports, "continue")
    assert both.ours.task == both.theirs.task == "language_modelling"
    both.translate(["la robe", "", "un chat inconnu est", "le le le"], {"max_length": 11}, beam=4, n_best=2)
    with pytest.raises(regard.ConfigError, match=r"has 13 tokens but the model has only 12 positions"):
        both.ours.translate(["la " * 13], options=SearchOptions())


def test_the_language_to_write_is_a_tag(folders, exports):
    both = Both(folders, exports, "local-m")
    assert both.ours.tags == ("fr", "de")
    both.translate(["<2de> a cat", "<2fr> a cat", "a cat"])
    with pytest.raises(regard.ConfigError, match=r"^This model does not write 'nl', but fr, de.$"):
        both.ours.translate(["a cat"], to="nl")
    with pytest.raises(regard.DataError, match=r"^A text has to begin with the tag of the language to write"):
        both.ours.translate(["a cat"])


@pytest.mark.parametrize("name", ["classify-text", "classify-documents"])
def test_a_text_classifier_says_the_same_and_attends_to_the_same(name, folders, exports):
    texts = ["the red dress is old. a cat! the cat is red", "a cat", "cat unheard of.", "old. " * 40, "a! cat. " * 5]
    both = Both(folders, exports, name)
    ours, theirs = both.ours, both.theirs
    assert ours.task == theirs.task
    for own, other in zip(ours.classify(texts, top=2), theirs.classify(texts, top=2), strict=True):
        assert [guess.label for guess in own.guesses] == [guess.label for guess in other.guesses]
        assert own.probability == pytest.approx(other.probability, abs=1e-5)
        trace = regard.AttentionTrace.from_json(own.attention.to_json())
        for part in ("source", "target", "source_words", "target_words"):
            assert getattr(trace, part) == getattr(other.attention, part), part
        np.testing.assert_allclose(own.attention.weights, other.attention.weights, atol=1e-5)
        assert [length for length, _ in own.sentences] == [one.tokens for one in other.sentences]
        np.testing.assert_allclose(
            [share for _, share in own.sentences], [one.weight for one in other.sentences], atol=1e-5
        )


LSTMN = {"cheng2016-small", "cheng2016-shallow-small"}
"""Their encoder cannot be exported."""
CLASSIFIERS = {"yang2016-small", "zhou2016-small"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in presets if name.endswith("-small") and name not in LSTMN | CLASSIFIERS]
)
def test_every_preset_writes_the_same(name, make_folder, export, tmp_path):
    config = preset(name)
    joint = Tokenizers(SOURCE, SOURCE)  # of one size, which tied embeddings need
    folder = make_folder(tmp_path / "model", config, joint)
    weights = load_file(folder / "model.safetensors")  # as drawn: deep models of larger ones amplify any rounding
    save_file({key: weight / 3 for key, weight in weights.items()}, folder / "model.safetensors")
    export(folder, tmp_path / "onnx")
    ours, theirs = regard.runtime.load(tmp_path / "onnx"), regard.load(folder)
    texts = TEXTS[:5]  # what a language model continues is no longer than it may write
    assert_same(ours.translate(texts, beam=5, n_best=3), theirs.translate(texts, beam=5, n_best=3))
    assert_same(ours.translate(texts, beam=1), theirs.translate(texts, beam=1))


def test_a_trace_is_saved_as_the_package_reads_it(exports, tmp_path):
    best = regard.runtime.load(exports("translate").folder).translate(["a cat"])[0]
    best.attention.save(tmp_path / "look.json")
    trace = regard.AttentionTrace.load(tmp_path / "look.json")
    np.testing.assert_allclose(trace.look(), best.attention.look(), atol=1e-6)
    np.testing.assert_allclose(trace.look(layer=-1, head=1), best.attention.look(layer=-1, head=1), atol=1e-6)


def test_an_entry_that_is_missing_is_told_when_the_folder_is_opened(exports, tmp_path):
    folder = shutil.copytree(exports("translate").folder, tmp_path / "copy")
    whole = json.loads((folder / "export.json").read_bytes())
    for part in ("marks", "search", "reads", "source", "target"):
        (folder / "export.json").write_text(json.dumps({name: one for name, one in whole.items() if name != part}))
        with pytest.raises(regard.ModelError, match=rf"export.json is damaged \((it has no )?(search\.)?{part}"):
            regard.runtime.load(folder)
    for part in ("banned", "spare", "longest", "most", "most_read"):
        search = {name: one for name, one in whole["search"].items() if name != part}
        (folder / "export.json").write_text(json.dumps(whole | {"search": search}))
        with pytest.raises(regard.ModelError, match=rf"export.json is damaged \((it has no )?(search\.)?{part}"):
            regard.runtime.load(folder)
