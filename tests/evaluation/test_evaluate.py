"""A whole report, of a model that is right by construction where it is to be right."""

import json
import math

import pytest
import sacrebleu
import torch

from regard.config import AttentionConfig, DecoderConfig, DecodingConfig, EncoderConfig, ModelConfig
from regard.data.pair import Alignment, Pair
from regard.data.tokenizers import Tokenizers, Words
from regard.decoding.translator import Translator
from regard.errors import DataError
from regard.evaluation.evaluate import evaluate, perplexity
from regard.models.build import build_model

WORDS = Words(["a", "b", "c", "d", "e"])
PAIRS = [
    Pair("a b c", "c b a", Alignment(frozenset({(0, 2), (1, 1), (2, 0)}), frozenset())),
    Pair("d e", "e d", Alignment(frozenset({(0, 1), (1, 0)}), frozenset({(0, 0)}))),
    Pair("a b c d e a b c d e a b", "a"),
    Pair("d e", "d d"),
]


def make(attention=True):
    torch.manual_seed(3)
    config = ModelConfig(
        embedding=5,
        encoder=EncoderConfig(width=7),
        decoder=DecoderConfig(width=11, readout_width=3),
        attention=AttentionConfig(width=2) if attention else None,
    )
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
