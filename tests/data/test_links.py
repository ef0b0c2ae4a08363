"""Gold alignments on their way to the batch: from words to tokens, through the cache, to rows of positions."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import TokenizerConfig
from regard.data import parallel_tokenization
from regard.data.alignments import token_links
from regard.data.batching import BatchOrder, make_batch
from regard.data.corpus import open_corpus
from regard.data.pair import Alignment, Pair
from regard.data.special_tokens import EOS
from regard.data.tagged_corpora import open_tagged
from regard.data.token_cache import TokenCache
from regard.data.tokenizers import Tokenizers, Words, kinds, train_tokenizers
from regard.errors import DataError

CORPUS = open_corpus(("phrasebook:150",))
PAIRS = [
    Pair("a b", "c d e", Alignment(frozenset({(0, 1), (1, 2)}), frozenset({(0, 0), (1, 1)}))),
    Pair("b", "c"),
    Pair("b a a", "d", Alignment(frozenset(), frozenset())),
]
WORDS = Words("abcde")


def linked(*links, possible=()):
    return Alignment(frozenset(links), frozenset(possible))


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(parallel_tokenization, "AT_ONCE", 64)


def naive_links(pair, source_words, target_words):
    """What the contract says, position by position."""
    found = []
    for t, target_word in enumerate(target_words):
        for s, source_word in enumerate(source_words):
            sure = any(j == target_word for _, j in pair.alignment.sure)
            among = pair.alignment.sure if sure else pair.alignment.possible
            if target_word >= 0 and source_word >= 0 and (source_word, target_word) in among:
                found.append((t, s))
    return [*found, (len(target_words), len(source_words))]


class TestTokens:
    def test_by_hand(self):
        # the | dr ess    →    la | ro be | rouge: la has a possible link alone, rouge a sure one and another.
        alignment = linked((1, 1), (1, 2), possible={(0, 0), (0, 2)})
        assert token_links(alignment, (0, 1, 1), (0, 1, 1, 2)) == [
            (0, 0),
            *((1, 1), (1, 2)),
            *((2, 1), (2, 2)),
            *((3, 1), (3, 2)),
            (4, 3),
        ]

    def test_what_belongs_to_no_word_has_no_link(self):
        assert token_links(linked((0, 0)), (-1, 0), (0, -1)) == [(0, 1), (2, 2)]
        assert token_links(linked(), (), ()) == [(0, 0)]

    words = st.lists(st.integers(0, 4), max_size=7).map(sorted)
    some = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=9)

    @given(some, some, words, words)
    @settings(deadline=None)
    def test_each_token_of_a_word_with_each_of_the_others(self, sure, possible, source_words, target_words):
        alignment = Alignment(sure, possible)
        pair = Pair("x", "y", alignment)
        assert token_links(alignment, source_words, target_words) == naive_links(pair, source_words, target_words)

    def test_sure_links_guide_and_possible_ones_where_there_are_none(self):
        assert linked((0, 0), (2, 0), possible={(1, 0), (3, 1)}).guiding() == {(0, 0), (2, 0), (3, 1)}

    def test_an_alignment_reversed(self):
        pair = PAIRS[0].reversed()
        assert (pair.source, pair.target, str(pair.alignment)) == ("c d e", "a b", "0p0 1-0 1p1 2-1")
        assert pair.reversed().alignment == PAIRS[0].alignment
        assert PAIRS[1].reversed() == Pair("c", "b")
        assert PAIRS[1].reversed().alignment is None


class TestCache:
    @pytest.mark.parametrize("kind", kinds)
    @pytest.mark.parametrize("joint", [True, False])
    def test_a_batch_has_the_links_of_its_pairs(self, kind, joint, tmp_path):
        tokenizers = train_tokenizers(TokenizerConfig(kind, 400, joint), CORPUS, 1)
        cache = TokenCache.build(tmp_path / "cache", CORPUS, tokenizers, 500, links=True)
        pairs = list(CORPUS)
        assert cache.index.aligned == len(pairs) == 150
        seen = 0
        for rows in BatchOrder.of(cache, 700, 1).batches(0):
            batch = make_batch(cache, rows)
            assert batch.links.dtype == torch.int64
            wanted = []
            for b, row in enumerate(rows):
                source, target = (
                    tokenizers.source.encode(pairs[row].source),
                    tokenizers.target.encode(pairs[row].target),
                )
                words = tokenizers.source.words(source), tokenizers.target.words(target)
                wanted += [[b, t, s] for t, s in naive_links(pairs[row], *words)]
            assert batch.links.tolist() == wanted
            b, t, s = batch.links.T
            assert batch.target_mask[b, t].all()
            assert batch.source_mask[b, s].all()
            # End mark with end mark, and with nothing else.
            assert torch.equal(batch.tokens_out[b, t] == EOS, batch.source[b, s] == EOS)
            seen += (batch.source[b, s] == EOS).sum().item()
        assert seen == 150

    def test_pairs_without_an_alignment_have_no_links(self, tmp_path):
        cache = TokenCache.build(tmp_path / "cache", PAIRS, Tokenizers(WORDS, WORDS), 9, links=True)
        assert (cache.index.aligned, cache.index.links) == (2, 5)
        first = [[0, 0], [1, 0], [2, 1], [3, 2]]
        assert make_batch(cache, np.array([0])).links.tolist() == [[0, 0, 0], [0, 1, 0], [0, 2, 1], [0, 3, 2]]
        assert make_batch(cache, np.array([1])).links.shape == (0, 3)
        assert make_batch(cache, np.array([2, 1, 0])).links.tolist() == [[0, 1, 3], *([2, *link] for link in first)]

    def test_pairs_left_out_take_their_links_along(self, tmp_path):
        cache = TokenCache.build(tmp_path / "cache", PAIRS, Tokenizers(WORDS, WORDS), 2, links=True)
        assert (len(cache), cache.left_out, cache.index.aligned) == (1, 2, 0)
        assert make_batch(cache, np.array([0])).links is None

    @pytest.mark.parametrize(("pairs", "asked"), [(PAIRS, False), ([PAIRS[1]], True)])
    def test_nothing_is_kept_unless_asked_for_and_there(self, pairs, asked, tmp_path):
        cache = TokenCache.build(tmp_path / "cache", pairs, Tokenizers(WORDS, WORDS), 9, links=asked)
        assert cache.index.aligned == cache.index.links == 0
        assert not list(cache.folder.glob("links*"))
        assert make_batch(cache, np.array([0])).links is None

    def test_opened_again_and_moved(self, tmp_path):
        TokenCache.build(tmp_path / "cache", PAIRS, Tokenizers(WORDS, WORDS), 9, links=True)
        cache = TokenCache.open(tmp_path / "cache")
        assert cache.links.dtype == np.dtype("<u2")
        batch = make_batch(cache, np.arange(3))
        assert batch.links.shape == (5, 3)
        assert batch.to("meta").links.device.type == "meta"

    def test_positions_beyond_16_bits(self, tmp_path):
        pair = Pair(" ".join("a" * 70_000), "c", linked((69_999, 0)))
        cache = TokenCache.build(tmp_path / "cache", [pair], Tokenizers(WORDS, WORDS), 70_000, links=True)
        assert make_batch(cache, np.array([0])).links.tolist() == [[0, 0, 69_999], [0, 1, 70_000]]

    def test_other_links_are_another_cache(self, tmp_path):
        both = Tokenizers(WORDS, WORDS)

        def fingerprint(alignment, links):
            return TokenCache.build(tmp_path / "cache", [Pair("a", "c", alignment)], both, 9, links).fingerprint

        assert fingerprint(linked((0, 0)), False) == fingerprint(linked(), False) == fingerprint(None, False)
        with_links = [fingerprint(alignment, True) for alignment in (linked((0, 0)), linked(), None)]
        assert len({fingerprint(None, False), *with_links}) == 4

    def test_reused_only_if_links_are_as_asked(self, tmp_path):
        both = train_tokenizers(TokenizerConfig("words"), CORPUS, 1)
        for asked in (False, True, True, False):
            cache = TokenCache.reuse_or_build(tmp_path / "cache", CORPUS, both, 90, links=asked)
            assert bool(cache.index.aligned) == asked

    def test_damaged(self, tmp_path):
        folder = tmp_path / "cache"
        TokenCache.build(folder, PAIRS, Tokenizers(WORDS, WORDS), 9, links=True)
        content = (folder / "links.tokens").read_bytes()
        for damage in (content[:-1], content + b"0"):
            (folder / "links.tokens").write_bytes(damage)
            with pytest.raises(DataError, match=r"links\.tokens is damaged: it has \d+ bytes, not 20\. Remove"):
                TokenCache.open(folder)
        (folder / "links.tokens").write_bytes(content)
        index = json.loads((folder / "cache.json").read_text())
        (folder / "cache.json").write_text(json.dumps(index | {"links": 4}))
        (folder / "links.tokens").write_bytes(content[:-4])
        with pytest.raises(DataError, match="is damaged: its offsets do not fit its links"):
            TokenCache.open(folder)

    def test_an_old_cache_is_made_anew(self, tmp_path):
        """One of the format without links has neither of the two numbers."""
        both = train_tokenizers(TokenizerConfig("words"), CORPUS, 1)
        TokenCache.build(tmp_path / "cache", CORPUS, both, 90)
        path = tmp_path / "cache" / "cache.json"
        index = json.loads(path.read_text())
        assert index["format"] == 2
        old = {name: value for name, value in index.items() if name not in ("aligned", "links")}
        path.write_text(json.dumps(old | {"format": 1}))
        with pytest.raises(DataError, match="was made by another version of regard"):
            TokenCache.open(tmp_path / "cache")
        assert len(TokenCache.reuse_or_build(tmp_path / "cache", CORPUS, both, 90)) == 150

    def test_a_tag_has_no_link_and_shifts_the_others(self, tmp_path):
        plain = open_corpus(("reverse:30",))
        tagged = open_tagged(["r=reverse:30"])
        caches = []
        for name, corpus in (("plain", plain), ("tagged", tagged)):
            tokenizers = train_tokenizers(TokenizerConfig("characters"), corpus, 1)
            caches.append(TokenCache.build(tmp_path / name, corpus, tokenizers, 200, links=True))
        one, other = (make_batch(cache, np.arange(30)).links for cache in caches)
        assert torch.equal(one + torch.tensor([0, 0, 1]), other)
