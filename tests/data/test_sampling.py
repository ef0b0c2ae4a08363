"""Laws of subword regularisation: a cut spells its word, a rate of 0 is the tokenizer itself, seed and epoch decide."""

import threading
from collections import Counter
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import TokenizerConfig
from regard.data.batching import BatchOrder, few_shape, make_batch, rounded
from regard.data.corpus import open_corpus
from regard.data.epoch_segmentation import WAYS, Resampled
from regard.data.pair import Pair
from regard.data.special_tokens import EOS
from regard.data.tagged_corpora import open_tagged
from regard.data.token_cache import TokenCache
from regard.data.tokenizers import BytePairs, Unigram, train_tokenizers
from regard.data.tokenizers.subword_sampling import DroppedMerges
from regard.errors import ConfigError

KINDS = {"bpe": (BytePairs, 0.3), "unigram": (Unigram, 0.2)}
TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0") | st.sampled_from("  aeiou▁\ufdd0"), max_size=30
)


def texts():
    return [text for pair in open_corpus(["phrasebook:300"]) for text in (pair.source, pair.target)]


@pytest.fixture(scope="module", params=KINDS)
def learnt(request):
    kind, rate = KINDS[request.param]
    return kind.train(texts(), 600), rate


def cut(tokenizer, ids, rate, seed=1):
    drawn = tokenizer.cutter(ids, rate).cut(np.arange(len(ids)), np.random.PCG64(seed))
    ends = drawn.sizes.cumsum()
    return [drawn.ids[end - size : end].tolist() for end, size in zip(ends, drawn.sizes, strict=True)]


@settings(deadline=None, max_examples=60)
@given(given_texts=st.lists(TEXT, min_size=1, max_size=5), seed=st.integers(0, 9))
def test_what_is_drawn_says_the_same(learnt, given_texts, seed):
    tokenizer, rate = learnt
    for drawn, text in zip(cut(tokenizer, tokenizer.encode_all(given_texts), rate, seed), given_texts, strict=True):
        assert tokenizer.decode(drawn) == text


@settings(deadline=None, max_examples=60)
@given(given_texts=st.lists(TEXT, min_size=1, max_size=5))
def test_without_dropout_it_is_sentencepiece(learnt, given_texts):
    tokenizer, _ = learnt
    if isinstance(tokenizer, BytePairs):
        ids = tokenizer.encode_all(given_texts)
        assert cut(tokenizer, ids, 0.0) == ids


def test_without_dropout_it_is_sentencepiece_for_real_texts():
    tokenizer = BytePairs.train(texts(), 600)
    ids = tokenizer.encode_all(texts())
    assert cut(tokenizer, ids, 0.0) == ids


def test_an_even_power_of_the_best_path_is_sentencepiece():
    """With a large α the best way is drawn; of equally probable ones SentencePiece may take another."""
    tokenizer = Unigram.train(texts(), 600)
    scores = tokenizer.inventory.scores
    ids = tokenizer.encode_all(texts()[:200])
    for usual, drawn in zip(ids, cut(tokenizer, ids, 200.0), strict=True):
        assert scores[drawn].sum() == pytest.approx(scores[usual].sum(), abs=1e-3)


def ways(tokenizer, word, rate, times=20_000):
    [ids] = tokenizer.encode_all([word])
    drawn = tokenizer.cutter([ids], rate).cut(np.zeros(times, np.int64), np.random.PCG64(3))
    ends = drawn.sizes.cumsum()
    found = Counter(
        tuple(tokenizer.pieces(drawn.ids[e - s : e].tolist())) for e, s in zip(ends, drawn.sizes, strict=True)
    )
    return {way: count / times for way, count in found.items()}


def test_a_way_is_drawn_as_often_as_kudo_says():
    tokenizer, alpha = Unigram.train(texts(), 600), 0.3
    inventory = tokenizer.inventory
    ids = {text: i for i, text in enumerate(inventory.texts) if text}

    def all_ways(text):
        if not text:
            yield ()
        for end in range(1, len(text) + 1):
            if text[:end] in ids:
                for rest in all_ways(text[end:]):
                    yield (text[:end], *rest)

    weights = {way: np.exp(alpha * sum(inventory.scores[ids[one]] for one in way)) for way in all_ways("▁maison")}
    assert len(weights) > 3
    found = ways(tokenizer, "maison", alpha)
    for way, weight in weights.items():
        assert found.get(way, 0.0) == pytest.approx(weight / sum(weights.values()), abs=0.02)


def by_hand(tokenizer, word, rate, random):
    """BPE-dropout as the paper writes it, one word at a time."""
    ids = {text: i for i, text in enumerate(tokenizer.inventory.texts) if text}
    parts = list("▁" + word)
    while True:
        merges = [
            (-tokenizer.inventory.scores[ids[a + b]], i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in ids
        ]
        merges = [merge for merge in merges if random.random() >= rate]
        if not merges:
            return tuple(parts)
        _, i = min(merges)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


def test_merges_are_left_out_as_provilkov_says():
    tokenizer, random = BytePairs.train(texts(), 600), np.random.default_rng(5)
    for rate in (0.1, 0.5):
        expected = Counter(by_hand(tokenizer, "maison", rate, random) for _ in range(20_000))
        found = ways(tokenizer, "maison", rate)
        assert len(expected) > 3
        for way, count in expected.items():
            assert found.get(way, 0.0) == pytest.approx(count / 20_000, abs=0.02)


def test_at_the_highest_rate_characters_are_left(learnt):
    tokenizer, _ = learnt
    if isinstance(tokenizer, BytePairs):
        [drawn] = cut(tokenizer, tokenizer.encode_all(["the cat"]), 1.0)
        assert tokenizer.pieces(drawn) == ["▁", "t", "h", "e", "▁", "c", "a", "t"]


def test_a_word_that_no_merge_reaches_is_left_as_it_is(learnt):
    tokenizer, rate = learnt
    ids = tokenizer.encode_all(["", "漢字", "a漢b"])
    assert [tokenizer.decode(drawn) for drawn in cut(tokenizer, ids, rate)] == ["", "漢字", "a漢b"]
    assert len(DroppedMerges(tokenizer.inventory, [], 0.1).cut(np.zeros(0, np.int64), np.random.PCG64(1)).ids) == 0


# -- the tokens of an epoch -------------------------------------------------------------------------------------------

PAIRS = [Pair(text, text[::-1]) for text in texts()[:150]] + [Pair("a  b ", " "), Pair("漢字", "x")]


@pytest.fixture(scope="module", params=["bpe", "unigram", "bpe-separate"])
def resampled(request, tmp_path_factory):
    kind, _, separate = request.param.partition("-")
    config = TokenizerConfig(kind=kind, vocabulary=500, joint=not separate, sampling=KINDS[kind][1])
    tokenizers = train_tokenizers(config, PAIRS, 1)
    cache = TokenCache.build(tmp_path_factory.mktemp("cache") / "c", PAIRS, tokenizers, 60)
    return cache, tokenizers, lambda seed=1: Resampled(cache, tokenizers, config.sampling, seed, epochs=5)


def same(a, b):
    return all(
        np.array_equal(x, y)
        for one, two in ((a.tokens, b.tokens), (a.offsets, b.offsets))
        for x, y in zip(one, two, strict=True)
    )


def test_an_epoch_says_what_the_corpus_says(resampled):
    cache, tokenizers, make = resampled
    drawn = make().tokens(2)
    for side, tokenizer in enumerate((tokenizers.source, tokenizers.target)):
        for row in range(len(cache)):
            start, end = drawn.offsets[side][row : row + 2]
            ids = drawn.tokens[side][start:end].tolist()
            assert ids[-1] == EOS
            assert EOS not in ids[:-1]
            assert tokenizer.decode(ids) == tokenizer.decode((cache.source, cache.target)[side](row).tolist())
            assert len(ids) <= 61
        assert not np.array_equal(drawn.tokens[side], cache.tokens[side])
        assert drawn.tokens[side].dtype == cache.tokens[side].dtype


def test_seed_and_epoch_decide_whoever_asks_and_in_which_order(resampled):
    _, _, make = resampled
    one, two = make(), make()
    forth = {epoch: one.tokens(epoch) for epoch in (1, 2, 3, 4, 5)}
    found = {}
    threads = [threading.Thread(target=lambda e=epoch: found.setdefault(e, two.tokens(e))) for epoch in (5, 3, 1, 2, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(forth[epoch], found[epoch]) for epoch in forth)
    assert not same(forth[1], forth[2])
    assert not same(forth[1], make(2).tokens(1))
    assert same(forth[1], one.tokens(1))  # it was let go in between


def test_batches_are_filled_by_the_lengths_that_were_drawn(resampled):
    cache, _, make = resampled
    drawn = make()
    for epoch in (1, 2):
        for few in (False, True):
            seen = []
            for rows in drawn.batches(epoch, partial(BatchOrder, batch_tokens=200, seed=1, few_shapes=few)):
                batch = drawn.batch(rows)
                expected = make_batch(drawn.tokens(epoch), rows - epoch * len(cache))
                assert all(bool((a == b).all()) for a, b in zip(batch.tensors(), expected.tensors(), strict=True))
                longest = max(batch.source.shape[1], batch.tokens_out.shape[1])
                assert len(batch.rows) == 1 or len(batch.rows) * (rounded(longest) if few else longest) <= 200
                shape = few_shape(batch.shape, 200, 61)
                assert max(shape.source, shape.target) <= 61
                seen += batch.rows.tolist()
            assert sorted(seen) == list(range(len(cache)))


def test_a_text_that_grows_too_long_is_cut_as_usual(tmp_path):
    config = TokenizerConfig(vocabulary=500, sampling=0.9)
    tokenizers = train_tokenizers(config, PAIRS, 1)
    cache = TokenCache.build(tmp_path / "c", PAIRS, tokenizers, 14)
    drawn = Resampled(cache, tokenizers, 0.9, 1, 2).tokens(1)
    usual = 0
    for row in range(len(cache)):
        ids = drawn.tokens[0][slice(*drawn.offsets[0][row : row + 2])]
        assert len(ids) <= 15
        usual += len(ids) > 2 and np.array_equal(ids, cache.source(row))
    assert usual > 5


def test_a_frequent_word_is_cut_in_many_ways_and_each_as_often(tmp_path):
    pairs = [Pair("maison", "maison")] * 40 + PAIRS
    tokenizers = train_tokenizers(TokenizerConfig(vocabulary=500), pairs, 1)
    cache = TokenCache.build(tmp_path / "c", [Pair("maison", "x")] * 4_000, tokenizers, 60)
    drawn = Resampled(cache, tokenizers, 0.5, 1, 2)
    counts = Counter()
    for epoch in range(1, 41):
        tokens = drawn.tokens(epoch)
        own = [tuple(part[:-1].tolist()) for part in np.split(tokens.tokens[0], tokens.offsets[0][1:-1])]
        assert 3 < len(set(own)) <= WAYS
        counts.update(own)
    expected = ways(tokenizers.source, "maison", 0.5)
    for way, share in expected.items():
        found = sum(count for ids, count in counts.items() if tuple(tokenizers.source.pieces(ids)) == way)
        assert found / 160_000 == pytest.approx(share, abs=0.06)


def test_tags_stay_where_they_are(tmp_path):
    corpus = open_tagged(["fr=phrasebook:50", "back=reverse:50"])
    tokenizers = train_tokenizers(TokenizerConfig(vocabulary=500), corpus, 1)
    cache = TokenCache.build(tmp_path / "c", corpus, tokenizers, 128)
    drawn = Resampled(cache, tokenizers, 0.5, 1, 2).tokens(1)
    for row in range(len(cache)):
        ids = drawn.tokens[0][slice(*drawn.offsets[0][row : row + 2])].tolist()
        assert ids[0] == cache.source(row)[0] >= tokenizers.source.plain.size
        assert tokenizers.source.decode(ids) == tokenizers.source.decode(cache.source(row).tolist())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sampling": 1.0}, "tokenizer.sampling is 1.0; it must be at least 0 and below 1."),
        ({"sampling": -0.1}, "tokenizer.sampling is -0.1; it must be at least 0 and below 1."),
        ({"sampling": float("nan")}, "tokenizer.sampling is nan; it must be at least 0 and below 1."),
        (
            {"sampling": 0.1, "kind": "characters"},
            "tokenizer.sampling is 0.1, but characters have only one segmentation: use tokenizer.kind=bpe or unigram, "
            "or set it to 0.",
        ),
        (
            {"sampling": 0.1, "target_kind": "words", "joint": False},
            "tokenizer.sampling is 0.1, but words have only one segmentation: use tokenizer.kind=bpe or unigram, "
            "or set it to 0.",
        ),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(ConfigError) as caught:
        train_tokenizers(TokenizerConfig(**settings), PAIRS, 1)
    assert str(caught.value) == message
