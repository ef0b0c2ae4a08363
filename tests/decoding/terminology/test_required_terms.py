"""Terms survive, whatever the model, the vocabulary and the words around them; other lines stay as they are."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from known import KNOWN
from regard.config import AttentionConfig, DecoderConfig, DecodingConfig, EncoderConfig, ModelConfig
from regard.data.pair import Pair
from regard.data.special_tokens import EOS, UNK
from regard.data.tokenizers import Characters, Spelled, Tagged, Tokenizers, Words
from regard.data.tokenizers.subwords import BytePairs, Unigram
from regard.decoding.ensemble import Ensemble
from regard.decoding.terminology.term_tokens import Spelling, Unit, Ways
from regard.decoding.translator import Translator
from regard.decoding.vocabulary_shortlist import Shortlist
from regard.errors import ConfigError
from regard.models.build import build_model

FRENCH = ["la robe rouge est vieille", "le chat noir dort 3 fois", "un chat et un chien", "la vieille robe de Paul"]
JAPANESE = ["赤い服は古い", "黒い猫は三回寝る", "猫と犬がいる", "東京の古い服"]
VOCABULARIES = {
    "words": Words(sorted({word for text in FRENCH for word in text.split()})),
    "characters": Characters(sorted(set("".join(FRENCH)))),
    "bpe": BytePairs.train(FRENCH, 300),
    "unigram": Unigram.train(FRENCH, 300),
    "Japanese": BytePairs.train(JAPANESE, 320),
    "letters": Characters("abc"),
}
MODELS = {
    "bahdanau": KNOWN["bahdanau, gru, additive"],
    "luong": KNOWN["luong, lstm, additive, fed"],
    "transformer": KNOWN["transformer"],
    "no attention": KNOWN["luong, no attention"],
}
KEEP = r"<[^>]+>|\d+|☃+"
GLOSSARY = {"dress": "jupe", "cat": "chat gris", "old": "antique", "Tokyo": "東京", "is": "est"}
PARTS = ["<1>", "<b>", "3", "42", "☃", "dress", "Cat", "old", "Tokyo", "the", "of", "a<1>", "is", "3.5"]
SMALL = ModelConfig(
    embedding=11,
    encoder=EncoderConfig(width=7),
    decoder=DecoderConfig(width=13, readout_width=5),
    attention=AttentionConfig(width=3),
)


def make(tokenizer, config=SMALL, seed=0, **rest):
    """An untrained model that soon wants to end."""
    torch.manual_seed(seed)
    source = Words(PARTS)
    model = build_model(config, source.size, tokenizer.size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
        model.decoder.output.bias[EOS] = 3.0
    return Translator(model, Tokenizers(source, tokenizer), **rest)


def must(text):
    """What the translation of a text must hold."""
    words = text.replace("Cat", "cat").split()
    return [*re.findall(KEEP, text), *(GLOSSARY[word] for word in words if word in GLOSSARY)]


def holds(translation, text):
    return all(translation.text.count(term) >= must(text).count(term) for term in must(text))


lines = st.lists(st.sampled_from(PARTS), min_size=1, max_size=5).map(" ".join)


# A search knows models by what they answer alone, so each meets a third of the vocabularies.
@pytest.mark.parametrize(
    ("model", "vocabulary"), [(model, name) for i, model in enumerate(MODELS) for name in [*VOCABULARIES][i % 3 :: 3]]
)
@given(
    st.lists(st.lists(st.sampled_from(PARTS), min_size=1, max_size=5).map(" ".join), min_size=1, max_size=3), st.data()
)
@settings(max_examples=4, deadline=None, derandomize=True)
def test_every_translation_holds_every_term(model, vocabulary, texts, data):
    translator = make(VOCABULARIES[vocabulary], MODELS[model], seed=data.draw(st.integers(0, 5)))
    beam = data.draw(st.integers(1, 4))
    n_best = data.draw(st.integers(1, beam))
    found = translator.translate(texts, beam=beam, n_best=n_best, keep=KEEP, glossary=GLOSSARY)
    for text, best in zip(texts, found, strict=True):
        for one in (best, *best.n_best):
            assert holds(one, text), (text, one.text)


@pytest.mark.parametrize("vocabulary", ["words", "bpe"])
def test_lines_without_terms_are_what_they_were_to_the_last_bit(vocabulary):
    translator = make(VOCABULARIES[vocabulary])
    texts = ["the of", "a", "the the of the", "", "of"]
    plain = translator.translate(texts, beam=3, n_best=2)
    mixed = translator.translate([*texts, "dress 3"], beam=3, n_best=2, keep=KEEP, glossary=GLOSSARY)
    for one, other in zip(plain, mixed, strict=False):
        assert (one.text, one.score, one.tokens) == (other.text, other.score, other.tokens)
        np.testing.assert_array_equal(one.attention.weights, other.attention.weights)
    assert mixed[-1].text.count("3") == 1


@pytest.mark.parametrize("model", MODELS)
def test_score_and_attention_are_those_of_teacher_forcing(model):
    """Of a vocabulary that can spell everything."""
    translator = make(VOCABULARIES["bpe"], MODELS[model])
    texts = ["the dress <1> of 3", "Cat old", "<b> <b>"]
    options = DecodingConfig(beam=3, length_penalty=0.0)
    found = translator.translate(texts, options=options, keep=KEEP, glossary=GLOSSARY, candidates=2)
    for text, one in zip(texts, found, strict=True):
        ids = [translator.tokenizers.target.encode(one.text)]
        if tuple(translator.tokenizers.target.pieces(ids[0])) != one.tokens[:-1]:
            continue  # spelt otherwise than the tokenizer would
        (log_probs,), (trace,) = translator.score([Pair(text, one.text)]), translator.align([Pair(text, one.text)])
        assert sum(log_probs) == pytest.approx(one.score, rel=1e-4)
        np.testing.assert_allclose(trace.weights, one.attention.weights, atol=1e-5)


def test_what_the_vocabulary_lacks_goes_where_the_model_looked():
    """Of two terms that are both unknown words, each has the place that looked at it most."""
    translator = make(VOCABULARIES["words"])
    text = "<1> the <2>"
    found = translator.translate([text], beam=4, n_best=4, keep=KEEP)[0]
    for one in (found, *found.n_best):
        words, looks = one.text.split(), one.attention.words()
        first, second = words.index("<1>"), words.index("<2>")
        assert looks[first, 0] + looks[second, 2] >= looks[second, 0] + looks[first, 2] or (
            max(looks[first, 0], looks[second, 2]) >= max(looks[second, 0], looks[first, 2])
        )


def test_without_attention_they_come_in_the_order_of_the_source():
    translator = make(VOCABULARIES["words"], MODELS["no attention"])
    (found,) = translator.translate(["<2> the <1>"], keep=KEEP)
    assert found.text.index("<2>") < found.text.index("<1>")


def test_the_rest_of_what_is_unknown_is_replaced_as_ever():
    translator = make(VOCABULARIES["words"], seed=3)
    with torch.no_grad():
        translator.model.decoder.output.bias[1] = 6.0  # writes little but unknown words
    options = replace(translator.options, replace_unknown=True, min_length=4)
    (found,) = translator.translate(["3 the the"], options=options, keep=KEEP)
    assert "<unk>" not in found.text
    assert "3" in found.text.split()


def test_several_models_write_terms_together():
    first, second = make(VOCABULARIES["bpe"]), make(VOCABULARIES["bpe"], MODELS["transformer"], seed=1)
    both = Translator(Ensemble([first.model, second.model]), first.tokenizers)
    (found,) = both.translate(["the dress <1>"], keep=KEEP, glossary=GLOSSARY)
    assert holds(found, "the dress <1>")
    assert found.attention.weights.shape[0] == 3


def test_a_prefix_a_shortlist_and_hindsight_go_with_terms():
    tokenizer = VOCABULARIES["bpe"]
    few = Shortlist(np.full((20, 64), -1, np.int32), np.array([5, EOS], np.int32), False)
    translator = make(tokenizer, shortlist=few)
    options = replace(translator.options, shortlist=8)
    (found,) = translator.translate(
        ["the <1> dress"], prefix=["la robe"], keep=KEEP, glossary=GLOSSARY, options=options
    )
    assert found.text.startswith("la robe")
    assert holds(found, "the <1> dress")
    (told,) = make(tokenizer).translate(["the <1>"], keep=KEEP, posterior=True)
    assert told.attention.posterior
    assert "<1>" in told.text


def test_tags_are_no_matches():
    plain = Words(PARTS)
    tokenizer = VOCABULARIES["bpe"]
    torch.manual_seed(0)
    sources = Tagged(plain, ["de", "fr"])
    translator = Translator(build_model(SMALL, sources.size, tokenizer.size), Tokenizers(sources, tokenizer))
    options = replace(translator.options, max_length=9)
    (found,) = translator.translate(["the of"], to="fr", keep=KEEP, options=options)
    assert "<2fr>" not in found.text
    (kept,) = translator.translate(["<2de> the <1>"], keep=KEEP, options=options)
    assert "<1>" in kept.text
    assert "<2de>" not in kept.text


def test_the_setting_is_the_models_own_and_can_be_left_out_for_once():
    translator = make(VOCABULARIES["bpe"], options=DecodingConfig(keep=KEEP, max_length=30))
    assert "<1>" in translator.translate(["the <1>"])[0].text
    assert "<1>" not in translator.translate(["the <1>"], keep="")[0].text
    assert ["<1>" in one.text for one in translator.stream(["the <1>", "the"])] == [True, False]


def test_a_glossary_can_be_a_file(tmp_path):
    (tmp_path / "terms.tsv").write_text("dress\tjupe\n", encoding="utf-8")
    (found,) = make(VOCABULARIES["bpe"]).translate(["the dress"], glossary=tmp_path / "terms.tsv")
    assert "jupe" in found.text.split()


def test_a_language_model_has_no_terms():
    config = ModelConfig(embedding=11, encoder=EncoderConfig("none"), decoder=DecoderConfig("luong"), attention=None)
    tokenizer = VOCABULARIES["words"]
    translator = Translator(build_model(config, tokenizer.size, tokenizer.size), Tokenizers(tokenizer, tokenizer))
    with pytest.raises(ConfigError) as caught:
        translator.translate(["la"], keep=KEEP)
    assert str(caught.value) == ("A language model has no source with terms to keep: leave out keep and glossary.")


def test_a_spelled_vocabulary_cannot_keep_terms():
    tokenizer = Spelled.train(["la jupe rouge"] * 30, 50)
    with pytest.raises(ConfigError) as caught:
        make(tokenizer).translate(["la 7"], keep=KEEP)
    assert str(caught.value) == (
        "A model with tokenizer.kind=spelled cannot keep terms, since what a token adds to a text depends on the token "
        "before it: train with --set tokenizer.kind=bpe or characters, or leave out keep and glossary."
    )


@pytest.mark.parametrize("seed", range(5))
def test_unknown_words_of_several_terms_are_kept_apart(seed):
    """`la ☃` and `☂ la` cannot share their unknown word, nor can `☂ ☃` and `☃` change places."""
    glossary = {"dress": "la ☃", "cat": "☂ la", "old": "☂ ☃"}
    translator = make(VOCABULARIES["words"], seed=seed)
    (found,) = translator.translate(["dress ☃ cat old <1>"], beam=2, glossary=glossary, keep=KEEP)
    for term, times in (("la ☃", 1), ("☂ la", 1), ("☂ ☃", 1), ("☃", 3), ("☂", 2), ("<1>", 1)):
        assert found.text.count(term) >= times, (found.text, term)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_subwords_spell_a_term_apart_and_glued(kind):
    spelling = Spelling(VOCABULARIES[kind])
    ways = spelling.ways("robe")
    decode = VOCABULARIES[kind].decode
    before = tuple(VOCABULARIES[kind].encode("la"))
    assert decode(before + tokens(ways.always)) == "la robe"
    assert decode(before + tokens(ways.glued)) == "larobe"
    assert b"".join(unit.text for unit in ways.always) == b" robe"


def tokens(way):
    return tuple(unit.token for unit in way)


def test_other_vocabularies_spell_a_term():
    words, letters = Spelling(VOCABULARIES["words"]), Spelling(VOCABULARIES["characters"])
    assert words.ways("la ☃") == Ways((Unit(VOCABULARIES["words"].encode("la")[0], b" la"), Unit(UNK, " ☃".encode())))
    encode = VOCABULARIES["characters"].encode
    assert tokens(letters.ways("robe").always) == tuple(encode(" robe"))
    assert tokens(letters.ways("robe").glued) == tuple(encode("robe"))
    assert letters.ways("☃").glued == (Unit(UNK, "☃".encode()),)
    assert Spelling(VOCABULARIES["letters"]).ways("ab").glued is None
    japanese = VOCABULARIES["Japanese"]
    assert japanese.decode([*japanese.encode("猫"), *tokens(Spelling(japanese).ways("東京").always)]) == "猫東京"
    assert [Spelling(own).sets_apart for own in VOCABULARIES.values()] == [True, True, True, True, False, False]
