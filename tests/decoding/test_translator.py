"""From text to text with small untrained models: what is promised whatever the weights."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from regard.config import AttentionConfig, Config, DataConfig, DecoderConfig, DecodingConfig, EncoderConfig, ModelConfig
from regard.config_io import to_toml
from regard.data.pair import Pair
from regard.data.special_tokens import EOS, UNK
from regard.data.tokenizers import Characters, Tokenizers, Words
from regard.data.tokenizers.subwords import BytePairs, Unigram
from regard.decoding.batching import batches
from regard.decoding.model_loading import find_device
from regard.decoding.translation import replace_unknown
from regard.decoding.translator import Translator
from regard.errors import ConfigError, DataError, ModelError
from regard.models.build import build_model
from regard.models.model_folder import weights_of
from regard.viz.trace import AttentionTrace

SOURCE = Words(["the", "red", "dress", "is", "old", "a", "cat"])
TARGET = Words(["la", "robe", "rouge", "est", "vieille", "un", "chat", "le", "noir"])
TEXTS = ["the red dress", "a cat", "", "the old cat is red and the dress is old", " \t ", "dress", "a zebra is old"]
MODEL = ModelConfig(
    embedding=11,
    encoder=EncoderConfig(width=7),
    decoder=DecoderConfig(width=13, readout_width=5),
    attention=AttentionConfig(width=3),
)


def make(config=MODEL, tokenizers=None, seed=0, scale=2.0, **rest):
    tokenizers = tokenizers or Tokenizers(SOURCE, TARGET)
    torch.manual_seed(seed)
    model = build_model(config, tokenizers.source.size, tokenizers.target.size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)  # first weights hardly tell one word from another
        model.decoder.output.bias[EOS] = 3.0  # and would go on for ever
    return Translator(model, tokenizers, **rest)


def same(one, other):
    assert one.text == other.text
    assert one.tokens == other.tokens
    assert one.score == pytest.approx(other.score, rel=1e-4)
    np.testing.assert_allclose(one.attention.weights, other.attention.weights, atol=1e-5)


@pytest.mark.parametrize("beam", [1, 3])
def test_batch_size_and_company_change_nothing(beam):
    translator = make()
    together = translator.translate(TEXTS, beam=beam, n_best=beam)
    assert len(together) == len(TEXTS)
    for text, translation in zip(TEXTS, together, strict=True):
        (alone,) = translator.translate([text], beam=beam, n_best=beam)
        same(translation, alone)
        for one, other in zip(translation.n_best, alone.n_best, strict=True):
            same(one, other)
    for one, other in zip(together, translator.translate(TEXTS, beam=beam, n_best=beam, batch_size=2), strict=True):
        same(one, other)


def test_nothing_is_translated_to_nothing_without_the_model():
    translator = make()
    translator.model.encode = None
    for translation in translator.translate(["", "  ", "\t\n"], beam=2, n_best=2):
        assert (translation.text, translation.score, translation.tokens, translation.n_best) == ("", 0.0, (), [])
        assert translation.attention.words().shape == (0, 0)
    assert translator.translate([]) == []


def test_the_trace_tells_the_words_and_where_they_came_from():
    (translation,) = make().translate(["the red dress"], beam=2, candidates=3)
    trace = translation.attention
    assert trace.source == ("the", "red", "dress", "</s>")
    assert trace.source_words == (0, 1, 2, -1)
    assert trace.target == translation.tokens
    assert trace.weights.shape == (1, 1, len(trace.target), 4)
    np.testing.assert_allclose(trace.weights.sum(axis=-1), 1, rtol=1e-5)
    assert translation.score == trace.score
    assert len(trace.candidates) == len(trace.target)
    assert all(len(step) == 3 and sorted(step, key=lambda c: -c[1]) == list(step) for step in trace.candidates)


def test_n_best_are_the_others():
    (translation,) = make().translate(["the red dress"], beam=4, n_best=4)
    every = [translation, *translation.n_best]
    assert len(every) == 4
    assert [t.score for t in every] == sorted((t.score for t in every), reverse=True)
    assert len({t.tokens for t in every}) == 4
    assert not any(t.n_best for t in translation.n_best)


def test_a_prefix_begins_the_translation():
    prefixes = ["la robe", "", "est"]
    free, forced = (make().translate(["the red dress", "a cat", "dress"], prefix=p) for p in (None, prefixes))
    assert forced[0].text.startswith("la robe")
    assert forced[2].text.startswith("est")
    same(free[1], forced[1])


@pytest.mark.parametrize("config", [MODEL, replace(MODEL, attention=None), replace(MODEL, reverse_source=True)])
def test_forced_decoding_gives_what_the_search_gave(config):
    """The score of a translation is its teacher-forced score, and so is its attention."""
    translator = make(config)
    texts = [text for text in TEXTS if text.strip()]
    found = translator.translate(texts, beam=3, options=DecodingConfig(length_penalty=0.0))
    ended = [(text, t) for text, t in zip(texts, found, strict=True) if t.tokens[-1] == "</s>"]
    assert ended
    pairs = [Pair(text, t.text) for text, t in ended]
    for (_, translation), log_probs, trace in zip(ended, translator.score(pairs), translator.align(pairs), strict=True):
        assert sum(log_probs) == pytest.approx(translation.score, rel=1e-4)
        assert trace.target == translation.tokens
        np.testing.assert_allclose(trace.log_probs, log_probs, rtol=1e-5)
        np.testing.assert_allclose(trace.weights, translation.attention.weights, atol=1e-5)


def test_scores_do_not_depend_on_the_batch():
    translator = make()
    pairs = [Pair("a cat", "un chat"), Pair("the old cat is old", "le chat"), Pair("red", "rouge rouge rouge rouge")]
    for one, pair in zip(translator.score(pairs), pairs, strict=True):
        np.testing.assert_allclose(one, translator.score([pair], batch_size=1)[0], rtol=1e-4)
        assert len(one) == len(pair.target.split()) + 1
    assert translator.score([]) == []
    assert translator.align([]) == []


def test_stream_reads_no_further_ahead_than_it_may():
    taken = []

    def lines():
        for text in TEXTS:
            taken.append(text)
            yield text + "\n"

    translator = make()
    stream = translator.stream(lines(), beam=2, read_ahead=2)
    assert taken == []
    for number, (found, expected) in enumerate(zip(stream, translator.translate(TEXTS, beam=2), strict=True)):
        assert len(taken) <= 2 * (number // 2 + 1)
        same(found, expected)


def test_a_streamed_translation_is_one_line():
    letters = Characters(["\n", "\u2028"])
    translator = make(tokenizers=Tokenizers(letters, letters), options=DecodingConfig(beam=4, min_length=20))
    raw = translator.translate(["ab", "ba", "abba", "b"] * 4, n_best=4)
    assert any("\n" in t.text for first in raw for t in (first, *first.n_best))
    for translation in translator.stream(["ab\r\n", "ba", "abba\n", "b\n"] * 4, n_best=4):
        for one in (translation, *translation.n_best):
            assert len(one.text.splitlines()) <= 1


def test_a_model_in_training_stays_so_and_is_used_without_dropout():
    translator = make(replace(MODEL, dropout=0.5))
    translator.model.train()
    first, second = (translator.translate(TEXTS, beam=2) for _ in range(2))
    assert translator.model.training
    for one, other in zip(first, second, strict=True):
        assert one.score == other.score
        assert one.text == other.text


def test_a_model_that_knows_so_many_places_reads_the_beginning_of_longer_texts(caplog):
    """Nothing is lost: neither the other texts, nor the long one."""
    config = replace(MODEL, attention=AttentionConfig("location", longest=4))
    translator = make(config)
    texts = ["the red dress", "the old cat is red and the dress is old", "a cat"]
    with caplog.at_level(logging.WARNING, "regard"):
        found = translator.translate(texts)
    assert [record.getMessage() for record in caplog.records] == [
        "A text of 10 tokens is longer than the 3 positions of the model: only its beginning is read. "
        "the old cat is red and the dress is old…"
    ]
    assert found[1].attention.source == ("the", "old", "cat", "</s>")
    for text, translation in zip(("the red dress", "the old cat", "a cat"), found, strict=True):
        same(translator.translate([text])[0], translation)


def test_no_more_is_written_than_there_are_positions():
    config = replace(MODEL, positions="learned", self_attention=AttentionConfig(longest=6))
    translator = make(config)
    with torch.no_grad():
        translator.model.decoder.output.bias[EOS] = -100.0  # it would go on for ever
    (found,) = translator.translate(["the red dress is old"])
    assert len(found.tokens) == 6


@pytest.mark.parametrize("method", ["beam", "sample"])
def test_a_prefix_may_fill_the_places_that_there_are_but_not_more(method):
    translator = make(replace(MODEL, positions="learned", self_attention=AttentionConfig(longest=6)))
    options = DecodingConfig(method=method)
    (found,) = translator.translate(["a cat"], prefix=["la robe rouge est vieille un"], options=options)
    assert found.tokens == ("la", "robe", "rouge", "est", "vieille", "un")
    with pytest.raises(ConfigError) as error:
        translator.translate(["a cat"], prefix=["la robe rouge est vieille un chat"], options=options)
    assert str(error.value) == (
        "A prefix, or a text to be continued, has 7 tokens but the model has only 6 positions: shorten it to 6 tokens "
        "or fewer."
    )


def test_long_texts_are_read_to_their_end_and_warned_about(caplog):
    translator = make(longest=20)
    long = " ".join(["cat"] * 150)
    with caplog.at_level(logging.WARNING, "regard"):
        found = translator.translate([long, "a cat"], beam=1, options=DecodingConfig(max_length=5))
    assert len(found[0].attention.source) == 151
    assert [record.getMessage() for record in caplog.records] == [
        "A text of 150 tokens is longer than those the model was trained on (up to 20). "
        "It is read to its end, but may be translated badly: cat cat cat cat cat cat cat cat cat cat …"
    ]


def test_batches_hold_every_sentence_once_and_fewer_of_the_long_ones():
    lengths = [3, 400, 17, 100, 5, 9, 150, 1, 60]
    made = batches(lengths, 4)
    assert sorted(row for batch in made for row in batch) == list(range(len(lengths)))
    assert [len(batch) for batch in made] == [1, 1, 4, 3]
    flat = [lengths[row] for batch in made for row in batch]
    assert flat == sorted(lengths, reverse=True)
    assert batches([], 4) == []


def test_unknown_words_are_replaced_by_what_was_looked_at():
    weights = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.2, 0.6], [0.1, 0.8, 0.1, 0.0]], np.float32)[None, None]
    trace = AttentionTrace(
        ("the", "<unk>", "cat", "</s>"),
        ("le", "<unk>", "<unk>"),
        weights,
        (0.0,) * 3,
        0.0,
        source_words=(0, 1, 2, -1),
        target_words=(0, 1, 2),
    )
    # The second unknown word looks most at the end mark, which is no word: of the words, most at "cat".
    assert replace_unknown([11, UNK, UNK], "le <unk> <unk>", trace, " the  zebra cat") == "le cat zebra"


def test_only_a_tokenizer_of_words_writes_the_unknown_and_only_on_request_it_is_replaced():
    translator = make(tokenizers=Tokenizers(SOURCE, Words(["x"])), seed=4)
    plain = translator.translate(["a zebra is old"], prefix=["qq x"], beam=1)[0]
    assert plain.text.startswith("<unk> x")
    option = DecodingConfig(replace_unknown=True)
    replaced = translator.translate(["a zebra is old"], prefix=["qq x"], beam=1, options=option)[0]
    assert replaced.text.split()[0] in ["a", "zebra", "is", "old"]
    assert "<unk>" not in replaced.text
    assert replaced.tokens == plain.tokens
    letters = Characters("ab")
    spelt = make(tokenizers=Tokenizers(letters, letters)).translate(["abab", "bb"], beam=3, n_best=3)
    assert not any("<unk>" in t.tokens for first in spelt for t in (first, *first.n_best))


def write_folder(folder, translator, config):
    (folder / "config.toml").write_text(to_toml(config))
    translator.tokenizers.save(folder)
    save_file(weights_of(translator.model), folder / "model.safetensors")


def test_a_folder_gives_the_same_translator_back(tmp_path):
    translator = make()
    write_folder(
        tmp_path, translator, Config(model=MODEL, decoding=DecodingConfig(beam=2), data=DataConfig(max_length=9))
    )
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    loaded = Translator.load(str(tmp_path))
    assert torch.equal(before, torch.random.get_rng_state())
    assert (loaded.options.beam, loaded.longest, loaded.model.training) == (2, 9, False)
    for one, other in zip(translator.translate(TEXTS, beam=2), loaded.translate(TEXTS), strict=True):
        assert one.text == other.text
        assert one.score == other.score


def test_a_model_that_is_loaded_in_inference_mode_translates(tmp_path):
    """Its weights do not count their changes."""
    translator = make()
    write_folder(tmp_path, translator, Config(model=MODEL))
    with torch.inference_mode():
        loaded = Translator.load(tmp_path)
    for one, other in zip(translator.translate(TEXTS), loaded.translate(TEXTS), strict=True):
        assert (one.text, one.score) == (other.text, other.score)


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"is not a model folder: it has no config\.toml"):
        Translator.load(tmp_path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.translate("a cat"), "translate takes a list of texts, got a single one: write translate([text])."),
        (
            lambda t: t.translate(["a", "b"], prefix=["c"]),
            "There are 2 texts but 1 prefixes: give one for each.",
        ),
        (lambda t: t.translate(["a"], batch_size=0), "batch_size is 0; it must be at least 1."),
        (lambda t: list(t.stream(["a"], read_ahead=0)), "read_ahead is 0; it must be at least 1."),
        (lambda t: t.translate(["", " "], beam=0), "decoding.beam is 0; it must be at least 1 (1 is greedy search)."),
        (lambda t: find_device("gpu"), "There is no device 'gpu': use auto, cpu or cuda."),
    ],
)
def test_what_cannot_be_done_is_refused(call, message):
    with pytest.raises((ConfigError, DataError)) as error:
        call(make())
    assert str(error.value) == message


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError) as error:
        find_device("cuda")
    assert str(error.value) == "The device 'cuda' needs a GPU that PyTorch can use, but there is none: use cpu."
    assert find_device("auto") == torch.device("cpu")


def test_half_a_character_is_refused():
    with pytest.raises(DataError) as caught:
        make().translate(["a", "b \ud800"])
    assert str(caught.value) == "Text 2 contains half a character (a lone surrogate): 'b \\ud800'."


@pytest.mark.parametrize("kind", [BytePairs, Unigram])
def test_pieces_are_read_without_the_spaces_around_and_written_without_control_characters(kind):
    pieces = kind.train(["the red dress is old", "a cat is red and old"] * 9, vocabulary=290)
    translator = make(tokenizers=Tokenizers(pieces, pieces))
    plain, spaced = translator.translate(["the red dress", " the red dress\t "])
    same(plain, spaced)
    assert plain.attention.source == spaced.attention.source
    with torch.no_grad():
        translator.model.decoder.output.bias[list(pieces.control_ids)] = 50.0
    assert len(pieces.control_ids) == 30  # of 33, without tab, line feed and carriage return
    drawn = translator.translate(TEXTS, options=DecodingConfig(method="sample"), n_best=9)
    every = [one.text for best in drawn for one in (best, *best.n_best)]
    assert not any(ord(char) < 32 and char not in "\t\n\r" for text in every for char in text)
