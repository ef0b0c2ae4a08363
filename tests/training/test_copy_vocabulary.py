"""Which tokens of two vocabularies are the same, and what a run with `model.copy` refuses."""

from dataclasses import replace

import pytest
from tiny_run import install, settings, train

from regard.config import DecodingConfig, ModelConfig
from regard.data.special_tokens import PAD, UNK
from regard.data.tokenizers import Characters, Spelled, Tagged, Tokenizers, Words
from regard.data.tokenizers.subwords import BytePairs, Unigram
from regard.decoding.translator import Translator, banned_tokens
from regard.errors import ConfigError
from regard.models.build import build_model
from regard.training.copy_vocabulary import match_words, matches

SOURCE, TARGET = Words(["a", "red", "cat"]), Words(["cat", "noir", "a"])


def test_of_one_vocabulary_a_token_is_itself_and_marks_are_none():
    assert matches(Tokenizers(SOURCE, SOURCE)) == [PAD, UNK, PAD, PAD, 4, 5, 6]


def test_of_two_vocabularies_it_is_the_one_with_the_same_text():
    assert matches(Tokenizers(SOURCE, TARGET)) == [PAD, UNK, PAD, PAD, 6, PAD, 4]


def test_tags_and_control_characters_are_never_copied():
    both = Tokenizers(Tagged(SOURCE, ["de"]), Tagged(SOURCE, ["de"], reads=False))
    assert matches(both)[-1] == PAD
    pieces = BytePairs.train(["a red cat is a cat"] * 9, 300)
    found = matches(Tokenizers(pieces, pieces))
    assert {found[token] for token in pieces.control_ids} == {PAD}


def test_characters_that_look_alike_are_kept_apart():
    source, target = Characters(" ▁ab"), Characters("▁b ")
    assert matches(Tokenizers(source, target)) == [PAD, UNK, PAD, PAD, 6, 4, PAD, 5]


def test_pieces_are_matched_by_what_they_add_and_bytes_by_what_they_are():
    texts = ["the red cat is old", "a cat", "the old dress"] * 9
    one, other = BytePairs.train(texts, 290), Unigram.train(texts, 295)
    found = matches(Tokenizers(one, other))
    for token in range(4, one.size):
        if found[token] == PAD:
            continue
        shown = other.pieces([found[token]])[0]
        assert one.pieces([token])[0] == shown
    bytes_of = [token for token in range(one.size) if one.pieces([token])[0].startswith("<0x")]
    assert sum(found[token] != PAD for token in bytes_of) == 256 - len(one.control_ids)


def test_words_are_found_among_pieces():
    pieces = BytePairs.train(["a red cat"] * 9, 280)
    (cat,) = pieces.encode("cat")
    (after_space,) = [token for token in range(pieces.size) if pieces.surfaces([token])[0] == " cat"]
    assert matches(Tokenizers(SOURCE, pieces))[6] == after_space
    assert pieces.surfaces([cat])[0].strip() == "cat"


def test_vocabularies_without_a_common_text_are_refused():
    with pytest.raises(ConfigError) as error:
        matches(Tokenizers(SOURCE, Words(["chat", "noir"])))
    assert str(error.value) == (
        "model.copy copies tokens that both sides have, and the two vocabularies have no text in common: set "
        "tokenizer.joint=true, or model.copy=false."
    )


def test_a_model_is_told_and_one_that_does_not_copy_is_left_alone():
    tokenizers = Tokenizers(SOURCE, TARGET)
    copying = build_model(ModelConfig(copy=True), SOURCE.size, TARGET.size)
    match_words(copying, tokenizers)
    assert copying.decoder.copied_as([4, 5, 6]) == [6, 4]
    match_words(build_model(ModelConfig(), SOURCE.size, TARGET.size), object())


def test_two_passes_are_refused(tmp_path):
    with pytest.raises(ConfigError) as error:
        train(settings(replace(settings().model, copy=True), r_drop=2.0), tmp_path / "run")
    assert str(error.value) == (
        "training.r_drop is 2.0, and compares what two passes say of the whole vocabulary; with model.copy the loss is "
        "made of the target's probability alone: set training.r_drop=0, or model.copy=false."
    )


@pytest.mark.parametrize("average", ["none", "last", "best", "ema"])
def test_a_run_is_trained_and_resumed_with_any_average(tmp_path, monkeypatch, average):
    from safetensors.torch import load_file

    install(monkeypatch)
    config = settings(replace(settings().model, copy=True), average=average, epochs=2)
    train(config, tmp_path / "run")
    train(replace(config, training=replace(config.training, epochs=3)), tmp_path / "run", resume=True)
    kept = load_file(tmp_path / "run" / "model.safetensors")["decoder.target_of"]
    assert kept.tolist() == [0, 1, 0, 0, *range(4, 30)]


# -- what is unknown --------------------------------------------------------------------------------------------------


def sure_to_copy(tokenizers, seed=0):
    """A model whose gate is shut, so that it writes what it looks at."""
    import torch

    torch.manual_seed(seed)
    config = replace(settings().model, copy=True, dropout=0.0)
    model = build_model(config, tokenizers.source.size, tokenizers.target.size).eval()
    match_words(model, tokenizers)
    with torch.no_grad():
        model.decoder.p_gen.bias.fill_(-30.0)
    return Translator(model, tokenizers)


@pytest.mark.parametrize("kind", [Characters, Words, Spelled])
def test_what_is_unknown_is_written_as_it_stands_in_the_source(kind):
    known = kind(["a", "b"])
    text = "ßß ßß" if kind is Words else "ßß"
    translator = sure_to_copy(Tokenizers(known, known))
    options = DecodingConfig(beam=1, replace_unknown=True, min_length=2, max_length=3)
    (found,) = translator.translate([text], options=options)
    assert found.tokens[:2] == ("<unk>", "<unk>")
    assert found.text.startswith(text)
    assert "<unk>" not in found.text
    if kind is not Words:  # unasked, it is not written at all
        (plain,) = translator.translate([text], options=replace(options, replace_unknown=False))
        assert "<unk>" not in plain.tokens


def test_units_of_a_source_that_is_spelled_are_words_and_characters():
    known = Spelled([" ", "a", "b", " ba"])
    options = DecodingConfig(beam=1, replace_unknown=True, min_length=2, max_length=3)
    (found,) = sure_to_copy(Tokenizers(known, known)).translate(["ba ba ß"], options=options, prefix=["ba ß"])
    assert found.text.startswith("ba ß")


def test_of_several_it_is_the_one_that_is_unknown_and_tags_are_not_counted():
    known = Words(["a", "b"])
    tagged = Tokenizers(Tagged(known, ["x"]), Tagged(known, ["x"], reads=False))
    translator = sure_to_copy(tagged)
    options = DecodingConfig(beam=3, replace_unknown=True, min_length=2, max_length=4)
    (found,) = translator.translate(["a b zebra a"], to="x", options=options, prefix=["qq"])
    assert found.tokens[0] == "<unk>"
    assert found.text.split()[0] == "zebra"


def test_unknown_characters_need_characters_to_be_replaced_by():
    mixed = Tokenizers(Words(["a"]), Characters("a"))
    translator = sure_to_copy(Tokenizers(mixed.target, mixed.target))
    assert translator._replaces
    assert not Translator(build_model(settings().model, 5, 5), mixed)._replaces
    assert UNK in banned_tokens(mixed.target)
    assert UNK not in banned_tokens(mixed.target, replacing=True)


def test_a_shortlist_has_what_can_be_copied():
    import numpy as np

    from regard.decoding.vocabulary_shortlist import Shortlist

    tokenizers = Tokenizers(SOURCE, TARGET)
    translator = sure_to_copy(tokenizers)
    nothing = np.full((SOURCE.size, 64), -1, np.int32)
    translator.shortlist = Shortlist(nothing, np.array([5], np.int32), joint=False)
    (words,) = translator._words(3, [[6, 5, 3]], [[]], {})
    assert words.tolist() == [3, 4, 5]
    (found,) = translator.translate(["cat"], options=DecodingConfig(beam=2, shortlist=3, max_length=2))
    assert set(found.tokens) <= {"cat", "noir", "</s>"}
