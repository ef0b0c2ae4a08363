"""Corpora with weights: how often each pair comes, exactly, and what cannot be a weight."""

from collections import Counter
from fractions import Fraction
from itertools import accumulate
from math import ceil, floor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import DataConfig, TokenizerConfig
from regard.data.batching import BatchOrder
from regard.data.configured_corpora import check_corpora, open_data, weights_of
from regard.data.corpus import for_model
from regard.data.mixed_corpora import Draws, WeightedCorpus, parse_mixed, shown
from regard.data.pair import Pair
from regard.data.token_cache import TokenCache
from regard.data.tokenizers import train_tokenizers
from regard.errors import ConfigError, DataError

weights = st.fractions(Fraction(1, 50), 4, max_denominator=50)
sized = st.lists(st.tuples(st.integers(1, 23), weights), min_size=1, max_size=4)


def drawn(given, seed=1):
    counts, weights = zip(*given, strict=True)
    if all(count * weight < 1 for count, weight in given):
        weights = (*weights[:-1], Fraction(1))
    return Draws(counts, weights, seed), counts, weights


class TestDraws:
    @given(sized, st.integers(1, 12), st.integers(-3, 2**66))
    def test_every_pair_comes_as_often_as_any_other(self, given, epochs, seed):
        """After E epochs each pair of a corpus of weight w was there ⌊E·w⌋ or ⌈E·w⌉ times, and epochs are as large."""
        draws, counts, weights = drawn(given, seed)
        seen, sizes = Counter(), []
        for epoch in range(1, epochs + 1):
            rows = draws(epoch)
            sizes.append(len(rows))
            seen.update(rows.tolist())
        start = 0
        for count, weight in zip(counts, weights, strict=True):
            times = [seen[row] for row in range(start, start + count)]
            assert set(times) <= {floor(epochs * weight), ceil(epochs * weight)}
            assert sum(times) == floor(epochs * weight * count)
            start += count
        assert set(seen) <= set(range(start))
        assert all(sum(draws.sizes()) <= size <= sum(draws.sizes()) + len(counts) for size in sizes)

    @given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4).map(Fraction)), min_size=1, max_size=3))
    def test_whole_weights_are_exact_in_every_epoch(self, given):
        draws, counts, weights = drawn(given)
        for epoch in (1, 2, 9):
            each = Counter(draws(epoch).tolist())
            expected = [int(weight) for count, weight in zip(counts, weights, strict=True) for _ in range(count)]
            assert [each[row] for row in range(sum(counts))] == expected

    def test_another_half_each_time(self):
        draws = Draws((10, 3), (Fraction(1, 2), Fraction(1)), 1)
        halves = [set(draws(epoch).tolist()) - {10, 11, 12} for epoch in range(1, 7)]
        assert all(len(half) == 5 for half in halves)
        assert [one | other for one, other in zip(halves[::2], halves[1::2], strict=True)] == [set(range(10))] * 3
        assert len({frozenset(half) for half in halves}) > 2

    def test_a_pure_function_of_seed_and_epoch(self):
        given = ((50, Fraction(3, 10)), (50, Fraction(17, 10)))
        draws, again = (drawn(given)[0] for _ in range(2))
        assert draws(5).tolist() == again(5).tolist() == draws(5).tolist()
        seen = [drawn(given, seed)[0](epoch).tolist() for seed in (1, 2) for epoch in (1, 2)]
        assert all(seen.count(one) == 1 for one in seen)
        # Equal corpora are not cut alike.
        first, second = Draws((40, 40), (Fraction(1, 2),) * 2, 1)(1).reshape(2, 20)
        assert set(first.tolist()) != set((second - 40).tolist())

    def test_no_epoch_without_a_pair(self):
        with pytest.raises(DataError) as caught:
            Draws((9, 0), (Fraction(1, 10), Fraction(5)), 1)
        assert str(caught.value) == "With these weights there are epochs without a single pair: raise them."

    def test_identity(self):
        half = Fraction(1, 2)
        known = {Draws(*given, 1).identity for given in (((5, 4), (1, half)), ((4, 5), (1, half)), ((5, 4), (half, 1)))}
        assert len(known) == 3

    @given(sized, st.integers(20, 200))
    def test_in_batches(self, given, batch_tokens):
        draws, counts, _ = drawn(given)
        lengths = np.random.Generator(np.random.PCG64(3)).integers(2, 20, (2, sum(counts))).astype(np.int32)
        order = BatchOrder(*lengths, batch_tokens, 1, draw=draws)
        for epoch in (1, 2):
            batches = order.batches(epoch)
            assert sorted(np.concatenate(batches).tolist()) == sorted(draws(epoch).tolist())
            assert all(len(rows) == 1 or len(rows) * lengths[:, rows].max() <= batch_tokens for rows in batches)

    def test_with_weights_of_one_batches_are_those_of_one_corpus(self):
        lengths = np.random.Generator(np.random.PCG64(3)).integers(2, 20, (2, 100)).astype(np.int32)
        plain, mixed = (
            BatchOrder(*lengths, 90, 1, draw=draw).batches(2) for draw in (None, Draws((60, 40), (Fraction(1),) * 2, 1))
        )
        assert [rows.tolist() for rows in plain] == [rows.tolist() for rows in mixed]


class TestEntries:
    @pytest.mark.parametrize(
        ("entry", "parts", "weight"),
        [
            ("a.tsv", ("a.tsv",), 1),
            ("a.tsv*2", ("a.tsv",), 2),
            ("train.en, train.de*0.5", ("train.en", "train.de"), Fraction(1, 2)),
            ("en,de,links.talp * .25", ("en", "de", "links.talp"), Fraction(1, 4)),
            ("phrasebook:200*1.", ("phrasebook:200",), 1),
            ("x*2*1", ("x*2",), 1),
            ("data/*.tsv*1000", ("data/*.tsv",), 1000),
        ],
    )
    def test_read(self, entry, parts, weight):
        assert parse_mixed(entry) == WeightedCorpus(parts, Fraction(weight))

    @given(weights)
    def test_a_shown_weight_is_read_again(self, weight):
        weight = Fraction(round(weight * 1000), 1000) or Fraction(1)
        assert parse_mixed(f"a*{shown(weight)}").weight == weight

    @pytest.mark.parametrize(
        ("entry", "said"),
        [
            ("a.tsv*0", "has the weight 0; it must be above 0 and at most 1,000. Leave out a corpus that is not to be "
                        "trained on."),
            ("a.tsv*1001", "has the weight 1001; it must be above 0 and at most 1,000."),
            *((f"a.tsv*{word}", f"ends in {word!r} after the *, which is not a weight: write a number above 0, such as "
               f"*2 or *0.5. If the * is part of a file name, add a weight: a.tsv*{word}*1.")
              for word in ("-1", "two", "", "nan", "inf", "1e3", "1/2", "٣", "2x")),
            *((entry, "is not CORPUS or CORPUS*WEIGHT, such as pairs.tsv*2 or train.en,train.de*0.5 (commas separate "
                      "the files of a corpus).") for entry in ("*2", "a,*2", "", ",a")),
            ("-*2", "is standard input, which cannot be mixed: give a file."),
        ],
    )  # fmt: skip
    def test_refused(self, entry, said):
        for data in (DataConfig(mixed=(entry,)), DataConfig(mixed=("a.tsv", entry))):
            with pytest.raises(ConfigError) as caught:
                check_corpora(data)
            assert str(caught.value) == f"data.mixed: {entry!r} {said}"

    def test_beside_another_corpus(self):
        for name, data in (
            ("train", DataConfig(("a",), mixed=("b",))),
            ("tagged", DataConfig(mixed=("b",), tagged=("x=a",))),
        ):
            with pytest.raises(ConfigError) as caught:
                check_corpora(data)
            assert str(caught.value) == f"data.{name} and data.mixed are both given: give one of them."


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.tsv").write_text("".join(f"a{n}\tA{n}\t0-0\n" for n in range(5)))
    Path("b.en").write_text("b0\nb1 b b b b b b b\nb2\n")
    Path("b.de").write_text("B0\nB1\nB2\n")
    Path("c.txt").write_text("c0\nc1\n")


@pytest.mark.usefixtures("here")
class TestCorpora:
    def test_all_pairs_once_in_their_order(self):
        corpus = open_data(DataConfig(mixed=("a.tsv*2", "b.en,b.de*0.5")), "train", 1)
        assert corpus.name == "a.tsv × 2, b.en and b.de × 0.5"
        assert [pair.target for pair in corpus] == ["A0", "A1", "A2", "A3", "A4", "B0", "B1", "B2"]
        assert [len(list(part)) for part in corpus.parts] == [5, 3]

    def test_identity(self):
        mixtures = [("a.tsv", "b.en,b.de"), ("a.tsv*2", "b.en,b.de"), ("b.en,b.de", "a.tsv"), ("a.tsv",), ("a.tsv*2",)]
        known = [open_data(DataConfig(mixed=mixed), "train", 1).identity() for mixed in mixtures]
        assert len(set(known)) == len(known)
        assert open_data(DataConfig(mixed=("a.tsv*1.0", "b.en,b.de*1")), "train", 1).identity() == known[0]

    def test_weights(self):
        assert weights_of(DataConfig(mixed=("a.tsv*2", "b.en,b.de"))) == (2, 1)
        assert weights_of(DataConfig(tagged=("x=a.tsv", "y=b.en,b.de*0.5"))) == (1, Fraction(1, 2))
        for data in (
            DataConfig(("a.tsv",)),
            DataConfig(mixed=("a.tsv", "b.en,b.de*1")),
            DataConfig(tagged=("x=a",)),
            DataConfig(),
        ):
            assert weights_of(data) == ()

    def test_tokens_are_stored_once_corpus_by_corpus(self, tmp_path):
        corpus = open_data(DataConfig(mixed=("a.tsv*3", "b.en,b.de", "a.tsv")), "train", 1)
        tokenizers = train_tokenizers(TokenizerConfig("words"), corpus, 1)
        cache = TokenCache.build(tmp_path / "cache", corpus, tokenizers, 6, links=True)
        assert (len(cache), cache.left_out, cache.index.each) == (12, 1, [5, 2, 5])
        assert TokenCache.open(tmp_path / "cache").index == cache.index
        one = TokenCache.build(tmp_path / "one", open_data(DataConfig(("a.tsv",)), "train", 1), tokenizers, 6)
        assert one.index.each == []
        # With as many processes as there may be, too.
        assert sum(cache.index.each) == len(cache)

    def test_embedded_ones_bring_their_validation(self):
        assert open_data(DataConfig(mixed=("a.tsv*2", "b.en,b.de")), "valid", 1) is None
        data = DataConfig(mixed=("a.tsv*2", "copy:20", "copy:30*2", "reverse:9"))
        assert open_data(data, "valid", 1).name == "copy:valid:500, reverse:valid:500"
        assert open_data(DataConfig(mixed=("copy:20*2",)), "valid", 1).name == "copy:valid:500"
        assert next(iter(open_data(DataConfig(mixed=("copy:20",), valid=("a.tsv",)), "valid", 1))) == Pair("a0", "A0")

    def test_texts_and_pairs_for_a_language_model(self, tmp_path):
        corpus = open_data(DataConfig(mixed=("a.tsv", "c.txt*2")), "train", 1)
        texts = for_model(corpus, reads=False)
        assert [pair.target for pair in texts] == ["A0", "A1", "A2", "A3", "A4", "c0", "c1"]
        tokenizers = train_tokenizers(TokenizerConfig("words"), texts, 1)
        assert TokenCache.build(tmp_path / "cache", texts, tokenizers, 9).index.each == [5, 2]
        with pytest.raises(DataError, match=r"^c\.txt has one text a line, but this model needs pairs"):
            for_model(corpus, reads=True)

    def test_tags_and_weights(self):
        corpus = open_data(DataConfig(tagged=("x=a.tsv*2", "y=b.en,b.de")), "train", 1)
        assert corpus.name == "x=a.tsv × 2, y=b.en and b.de"
        assert [next(iter(part)).source for part in corpus.parts] == ["<2x> a0", "<2y> b0"]
        ends = list(accumulate(len(list(part)) for part in corpus.parts))
        assert ends == [5, 8]
