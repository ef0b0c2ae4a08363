"""What a validation says of what a model writes, and what decides which model is best."""

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from tiny_run import settings

from regard.config import DataConfig, DecodingConfig, TokenizerConfig
from regard.data.corpus import open_corpus
from regard.data.token_cache import TokenCache
from regard.data.tokenizers import train_tokenizers
from regard.evaluation.bleu_chrf import has_four_tokens
from regard.tasks.text_sources import Sources
from regard.tasks.translation.training import open_data
from regard.tasks.translation.validation import Validation
from regard.training.run_state import metric_value


def made(tmp_path, lines):
    """Return a validation over lines of source and target, parted by a bar."""
    path = tmp_path / "valid.tsv"
    path.write_text("".join(line.replace("|", "\t") + "\n" for line in lines))
    corpus = open_corpus((str(path),))
    tokenizers = train_tokenizers(TokenizerConfig(kind="words"), corpus, 1)
    cache = TokenCache.build(tmp_path / "cache", corpus, tokenizers, 50)
    return Validation(list(corpus), cache, tokenizers, DecodingConfig(), 100)


def test_any_target_of_a_source_is_right_and_each_source_counts_once(tmp_path):
    validation = made(tmp_path, ["tomato|t ah", "tomato|t ay", "tomato|t oh", "pea|p iy", "bean|b iy n"])
    found = validation.scores_of({"tomato": "  t ay ", "pea": "p", "bean": "B iy n"})
    assert found["exact"] == pytest.approx(100 / 3)
    # chrF is over pairs, as it was, so that it can be compared with that of other systems.
    texts, references = ["t ay", "t ay", "t ay", "p", "B iy n"], ["t ah", "t ay", "t oh", "p iy", "b iy n"]
    assert found["chrf"] == pytest.approx(sacrebleu.corpus_chrf(texts, [references]).score)
    assert not {"bleu", "signature"} & found.keys()


def test_bleu_is_there_where_a_target_has_four_tokens(tmp_path):
    validation = made(tmp_path, ["x y|a b, c", "z|a"])
    found = validation.scores_of({"x y": "a b, c", "z": "b"})
    assert found["bleu"] == sacrebleu.corpus_bleu(["a b, c", "b"], [["a b, c", "a"]]).score
    assert found["exact"] == 50.0


@given(st.lists(st.lists(st.sampled_from("ab.,"), max_size=6).map(" ".join), min_size=1))
def test_without_four_tokens_bleu_is_zero_whatever_is_written(targets):
    if not has_four_tokens(targets):
        assert sacrebleu.corpus_bleu(targets, [targets], force=True).score == 0
    else:
        assert sacrebleu.corpus_bleu(targets, [targets], force=True).score > 99.9


def test_a_source_is_translated_once(tmp_path):
    validation = made(tmp_path, ["a|x", "b|y", "a|z"])
    assert sorted(len(source) for source in validation._sources) == [2, 2]  # each with its end mark


@pytest.mark.parametrize(
    ("metric", "result", "score"),
    [
        ("loss", {"valid_loss": 2.0, "exact": 50.0}, -2.0),
        ("exact", {"valid_loss": 2.0, "exact": 50.0, "bleu": 1.0}, 50.0),
        ("chrf", {"valid_loss": 2.0, "chrf": 30.0, "bleu": 1.0}, 30.0),
        ("bleu", {"valid_loss": 2.0, "exact": 50.0}, 0.0),
    ],
)
def test_what_decides(metric, result, score):
    assert metric_value(result, metric) == score


@pytest.mark.parametrize(("metric", "told"), [("bleu", True), ("exact", False), ("loss", False)])
def test_a_corpus_without_bleu_is_told_where_bleu_was_to_decide(tmp_path, metric, told):
    (tmp_path / "words.tsv").write_text("a\tx\nb\ty z u\n")
    data = DataConfig((str(tmp_path / "words.tsv"),), (str(tmp_path / "words.tsv"),))
    config = settings(metric=metric)
    config = config.__class__(data=data, tokenizer=TokenizerConfig(kind="words"), training=config.training)
    corpus = open_corpus(data.train)
    messages = []
    open_data(config, tmp_path, Sources(corpus, corpus, list(corpus)), messages.append, False)
    message = (
        "No validation target has the four tokens that BLEU needs, so the loss selects the best model. To "
        "select by exact matches of whole lines, set training.metric=exact."
    )
    assert (message in messages) == told
