"""A whole report, of a model that is right by construction where it is to be right."""

import json
import math
from dataclasses import replace

import pytest
import sacrebleu
import torch

from regard.config import AttentionConfig, DecoderConfig, DecodingConfig, EncoderConfig, ModelConfig
from regard.data.pair import Alignment, Pair
from regard.data.tokenizers import Tagged, Tokenizers, Words
from regard.decoding.ensemble import Ensemble
from regard.decoding.translator import Translator
from regard.errors import ConfigError, DataError
from regard.evaluation.alignment_error_rate import Reading, alignment_error_rate, links, merged
from regard.evaluation.symmetrisation import symmetrisations
from regard.evaluation.word_alignment import align, alignment
from regard.models.build import build_model
from regard.tasks.translation.evaluation import evaluate, perplexity

WORDS = Words(["a", "b", "c", "d", "e"])
PAIRS = [
    Pair("a b c", "c b a", Alignment(frozenset({(0, 2), (1, 1), (2, 0)}), frozenset())),
    Pair("d e", "e d", Alignment(frozenset({(0, 1), (1, 0)}), frozenset({(0, 0)}))),
    Pair("a b c d e a b c d e a b", "a"),
    Pair("d e", "d d"),
]


MODEL = ModelConfig(
    embedding=5,
    encoder=EncoderConfig(width=7),
    decoder=DecoderConfig(width=11, readout_width=3),
    attention=AttentionConfig(width=2),
)
LANGUAGE_MODEL = ModelConfig(
    embedding=5,
    encoder=EncoderConfig(kind="none"),
    attention=None,
    decoder=DecoderConfig(kind="luong", cell="lstm", width=11, readout="none"),
)


def make(attention=True):
    torch.manual_seed(3)
    config = MODEL if attention else replace(MODEL, attention=None)
    return Translator(build_model(config, WORDS.size, WORDS.size), Tokenizers(WORDS, WORDS))


def test_a_report_says_what_made_each_number():
    translator = make()
    report = evaluate(translator, iter(PAIRS), data="little", beam=2)
    names = [score.name for score in report.scores]
    assert names == [
        "BLEU",
        "chrF",
        "BLEU-lower",
        "BLEU-lower-split",
        "perplexity",
        "exact match",
        "token error rate",
        "sequence error rate",
        "AER",
    ]
    assert all(score.made_by and score.count for score in report.scores)
    assert report.search == "beam 2, length penalty 1, coverage penalty 0"
    assert (report.data, report.sentences) == ("little", 4)
    assert [t.text for t in translator.translate([p.source for p in PAIRS], beam=2)] == list(report.translations)
    assert report["BLEU"].value == sacrebleu.corpus_bleu(report.translations, [[p.target for p in PAIRS]]).score
    assert report["sequence error rate"].count == 3
    assert report["AER"].count == 2
    assert "bleu" not in report
    assert "AER" in report


def test_the_report_as_text_and_json():
    report = evaluate(make(), PAIRS, data="little", options=DecodingConfig(beam=1, max_length=7))
    lines = list(report.lines())
    assert lines[0] == "little: 4 sentences, greedy search, length penalty 1, coverage penalty 0, at most 7 tokens"
    assert all(any(score.name in line and score.made_by in line for line in lines) for score in report.scores)
    assert str(report) == "\n".join(lines)
    record = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert record["scores"]["BLEU"]["made_by"] == report["BLEU"].made_by
    assert record["by_length"][1] == {"first": 11, "last": 20, "count": 1, "bleu": report.by_length[1].bleu}
    assert sum(entry["count"] for entry in record["by_length"]) == record["sentences"] == 4
    assert "translations" not in record


def test_without_attention_or_gold_there_is_no_alignment_error_rate():
    assert "AER" not in evaluate(make(attention=False), PAIRS, beam=1)
    assert "AER" not in evaluate(make(), PAIRS[2:], beam=1)


def test_a_missing_score_says_what_there_is():
    report = evaluate(make(), PAIRS[2:3], beam=1)
    with pytest.raises(KeyError, match="TER: this report has BLEU, chrF"):
        report["TER"]


def test_perplexity_is_by_hand_that_of_the_forced_log_probabilities():
    translator = make()
    log_probs = [value for pair in PAIRS for value in translator.score([pair])[0]]
    score = perplexity(translator, PAIRS)
    assert score.value == pytest.approx(math.exp(-sum(log_probs) / len(log_probs)), rel=1e-5)
    assert score.count == sum(len(pair.target.split()) + 1 for pair in PAIRS)
    assert score.made_by == "per token, words vocabulary of 9, end mark counted, forced decoding"


@pytest.mark.parametrize("reads", [True, False])
def test_perplexity_is_of_the_options_that_are_given(reads):
    models = []
    for seed in range(2):
        torch.manual_seed(seed)
        models.append(build_model(MODEL if reads else LANGUAGE_MODEL, WORDS.size, WORDS.size))
        torch.nn.init.normal_(models[-1].decoder.output.weight)
    geometric = DecodingConfig(ensemble="geometric", max_length=9)
    given, own = (Translator(Ensemble(models), Tokenizers(WORDS, WORDS), options) for options in (None, geometric))
    expected = evaluate(own, PAIRS)["perplexity"].value
    assert evaluate(given, PAIRS, options=geometric)["perplexity"].value == expected
    assert perplexity(given, PAIRS).value != pytest.approx(expected)


def test_perplexity_of_a_model_that_knows_nothing_is_the_size_of_the_vocabulary():
    translator = make()
    with torch.no_grad():
        for parameter in translator.model.parameters():
            parameter.zero_()
    assert perplexity(translator, PAIRS).value == pytest.approx(WORDS.size, rel=1e-5)


def test_a_hopeless_model_has_a_perplexity_that_can_be_written():
    translator = make()
    with torch.no_grad():
        translator.model.decoder.output.bias[4:] = -1e5
    report = evaluate(translator, PAIRS, beam=1)
    assert report["perplexity"].value == math.inf
    assert json.loads(json.dumps(report.to_json(), allow_nan=False))["scores"]["perplexity"]["value"] is None


def test_an_empty_corpus_is_refused():
    with pytest.raises(DataError) as error:
        evaluate(make(), [], data="test.en")
    assert str(error.value) == "test.en has no sentence pairs, so there is nothing to evaluate."
    with pytest.raises(DataError) as error:
        perplexity(make(), [])
    assert str(error.value) == "There are no sentence pairs, so there is no perplexity."


def test_grouped_each_source_counts_once_by_its_nearest_reference():
    translator = make()
    written = translator.translate(["d e", "a b c"], beam=1)
    right, other = written[0].text, written[1].text
    pairs = [Pair("d e", "no"), Pair("a b c", "no"), Pair("d e", right), Pair("a b c", f"{other} no")]
    apart, grouped = (evaluate(translator, pairs, beam=1, group=group) for group in (False, True))
    assert (apart.sentences, grouped.sentences) == (4, 2)
    assert (apart["exact match"].value, grouped["exact match"].value) == (0.25, 0.5)
    assert grouped.translations == (right, other)
    assert grouped["sequence error rate"] == apart["sequence error rate"]
    assert grouped["sequence error rate"].value == 0.5
    assert grouped["perplexity"] == apart["perplexity"]
    columns = [["no", "no"], [right, f"{other} no"]]
    assert grouped["BLEU"].value == sacrebleu.corpus_bleu(grouped.translations, columns).score
    assert sum(entry.count for entry in grouped.by_length) == 2


def test_two_directions_are_merged_link_by_link():
    forward, backward = make(), make()
    with torch.no_grad():
        for parameter in backward.model.parameters():
            parameter.mul_(-1.7)
    gold = [pair for pair in PAIRS if pair.alignment is not None]
    for how in symmetrisations:
        reading = Reading(symmetrise=how)
        expected = []
        for pair in gold:
            (ahead,), (back,) = forward.align([pair]), backward.align([Pair(pair.target, pair.source)])
            turned = frozenset((i, j) for j, i in links(back))
            expected.append((symmetrisations[how](links(ahead), turned), pair.alignment))
        (score,) = alignment(forward, PAIRS, reading=reading, reverse=backward)
        assert score == alignment_error_rate(expected, reading.words(both=True))
        assert how in score.made_by
    report = evaluate(forward, PAIRS, beam=1, reading=reading, reverse=backward)
    assert report["AER"] == score


def test_words_are_linked_to_where_they_came_from_in_both_directions():
    forward, backward = make(), make()
    with torch.no_grad():
        for translator, factor in ((forward, 6.0), (backward, -5.0)):
            for parameter in translator.model.parameters():
                parameter.mul_(factor)
    gold = [pair for pair in PAIRS if pair.alignment is not None]
    ahead = [links(trace) for trace in forward.align(gold, posterior=True)]
    back = [links(trace) for trace in backward.align([pair.reversed() for pair in gold], posterior=True)]
    assert ahead != [links(trace) for trace in forward.align(gold)]
    assert back != [links(trace) for trace in backward.align([pair.reversed() for pair in gold])]
    reading = Reading(posterior=True, symmetrise="union")
    assert list(align(forward, gold, reading=reading)) == ahead
    both = [merged(*each, "union") for each in zip(ahead, back, strict=True)]
    assert list(align(forward, gold, reading=reading, reverse=backward)) == both
    (score,) = alignment(forward, PAIRS, reading=reading)
    assert score == alignment_error_rate(
        [(found, pair.alignment) for found, pair in zip(ahead, gold, strict=True)], reading.words()
    )
    assert evaluate(forward, PAIRS, beam=1, reading=reading)["AER"] == score


def test_alignments_that_cannot_be_judged():
    with pytest.raises(DataError) as error:
        evaluate(make(), PAIRS[2:], beam=1, reading=Reading(shift=True))
    assert str(error.value) == "There is no gold alignment to score the attention against: give one with --alignments."
    with pytest.raises(DataError) as error:
        evaluate(make(attention=False), PAIRS, beam=1, reading=Reading())
    assert str(error.value) == "There are no links: this model has no attention."
    with pytest.raises(DataError) as error:
        list(align(make(attention=False), PAIRS, reading=Reading(posterior=True)))
    assert str(error.value) == "There are no links: this model has no attention."
    with pytest.raises(DataError) as error:
        evaluate(make(), PAIRS, beam=1, reverse=make(attention=False))
    assert str(error.value) == "There are no links: one of the models has no attention."


def test_a_model_of_several_languages_is_told_which():
    torch.manual_seed(3)
    config = ModelConfig(
        embedding=5, encoder=EncoderConfig(width=7), decoder=DecoderConfig(width=11, readout_width=3),
        attention=AttentionConfig(width=2),
    )  # fmt: skip
    tokenizers = Tokenizers(Tagged(WORDS, ["x", "y"]), Tagged(WORDS, ["x", "y"], reads=False))
    translator = Translator(build_model(config, WORDS.size + 2, WORDS.size + 2), tokenizers)
    told = evaluate(translator, [Pair(f"<2x> {pair.source}", pair.target, pair.alignment) for pair in PAIRS], beam=2)
    asked = evaluate(translator, PAIRS, beam=2, to="x")
    assert asked == told != evaluate(translator, PAIRS, beam=2, to="y")
    assert evaluate(translator, PAIRS, beam=2, to="x", reverse=make())["AER"].count == 2
    ten = [Pair("a b c d a b c d a b", "b a")]
    assert [entry.last for entry in evaluate(translator, ten, beam=2, to="x").by_length if entry.count] == [10]
    with pytest.raises(ConfigError, match="This model does not write 'z', but x, y"):
        evaluate(translator, PAIRS, to="z")
    with pytest.raises(DataError, match="'a b c' has no tag for the language to write"):
        evaluate(translator, PAIRS)
    trace = translator.align([Pair("<2y> a b", "b a")])[0]
    assert trace.source == ("<2y>", "a", "b", "</s>")
    assert trace.source_words == (-1, 0, 1, -1)
    assert "<2y>" in trace.special
    for other in translator.translate(["a b c", "d"], to="x", beam=4, n_best=4):
        assert not {"<2x>", "<2y>"} & {token for best in (other, *other.n_best) for token in best.tokens}


def test_a_language_model_has_a_perplexity_alone():
    torch.manual_seed(3)
    translator = Translator(build_model(LANGUAGE_MODEL, WORDS.size, WORDS.size), Tokenizers(WORDS, WORDS))
    report = evaluate(translator, [Pair("", pair.target) for pair in PAIRS], data="texts")
    assert [score.name for score in report.scores] == ["perplexity"]
    assert next(report.lines()) == "texts: 4 sentences, nothing searched"
    assert len(list(report.lines())) == 2
    assert report.to_json()["by_length"] == []
