"""Batches: nothing lost or repeated, never too large, an order that is a pure function, and padding that is padding."""

import subprocess
import sys
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.config import TokenizerConfig
from regard.data import batching
from regard.data.batching import Batch, BatchOrder, make_batch, pad_sources, twice
from regard.data.corpus import open_corpus
from regard.data.special_tokens import BOS, EOS, PAD
from regard.data.token_cache import TokenCache
from regard.data.tokenizers import train_tokenizers

lengths = st.lists(st.tuples(st.integers(2, 60), st.integers(2, 60)), min_size=1, max_size=200).map(
    lambda pairs: np.array(pairs, np.int32).T
)


def random_lengths(count, seed=0):
    return np.random.Generator(np.random.PCG64(seed)).integers(2, 60, (2, count)).astype(np.int32)


def digest(batches):
    return sha256(b"|".join(batch.tobytes() for batch in batches)).hexdigest()


class TestOrder:
    @given(lengths, st.integers(1, 500), st.integers(-5, 2**70), st.integers(0, 9))
    def test_each_pair_once(self, lengths, batch_tokens, seed, epoch):
        batches = BatchOrder(*lengths, batch_tokens, seed).batches(epoch)
        assert sorted(np.concatenate(batches).tolist()) == list(range(lengths.shape[1]))

    @given(lengths, st.integers(1, 500), st.integers(0, 9))
    def test_never_too_large(self, lengths, batch_tokens, seed):
        for batch in BatchOrder(*lengths, batch_tokens, seed).batches(0):
            assert len(batch) == 1 or len(batch) * lengths[:, batch].max() <= batch_tokens

    @given(lengths, st.integers(1, 500))
    def test_as_large_as_can_be(self, lengths, batch_tokens):
        """No batch could have taken in the pair that begins the next one."""
        longest = lengths.max(axis=0)
        batches = BatchOrder(*lengths, batch_tokens, 1)._fill(np.argsort(longest, kind="stable"))
        for batch, after in pairwise(batches):
            assert (len(batch) + 1) * longest[after[0]] > batch_tokens

    def test_a_pure_function(self):
        order = BatchOrder(*random_lengths(1000), 400, 7)
        first = digest(order.batches(3))
        order.batches(0)
        np.random.seed(5)
        assert digest(order.batches(3)) == first
        assert digest(BatchOrder(*random_lengths(1000), 400, 7).batches(3)) == first

    def test_seed_and_epoch_matter(self):
        lengths = random_lengths(1000)
        seen = {digest(BatchOrder(*lengths, 400, seed).batches(epoch)) for seed in range(3) for epoch in range(3)}
        assert len(seen) == 9

    def test_the_same_in_a_fresh_process(self):
        """Resuming at step k of an epoch needs no more than the seed, the epoch and k."""
        code = (
            "import sys; sys.path.insert(0, 'tests/data')\n"
            "from test_batching import BatchOrder, digest, random_lengths\n"
            "print(digest(BatchOrder(*random_lengths(1000), 400, 7).batches(3)[20:]))"
        )
        ran = subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": "5", "PYTHONPATH": "src"},
                             cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)  # fmt: skip
        assert ran.stdout.strip() == digest(BatchOrder(*random_lengths(1000), 400, 7).batches(3)[20:])

    def test_like_lengths_together(self):
        lengths = random_lengths(20_000)
        lengths[1] = np.clip(lengths[0] + lengths[1] % 5, 2, 60)
        batches = BatchOrder(*lengths, 1000, 1).batches(0)
        padded = sum(len(batch) * lengths[:, batch].max(axis=1).sum() for batch in batches)
        assert lengths.sum() / padded > 0.95

    def test_lengths_come_in_any_order(self):
        """Short sentences do not come first: the model would forget them."""
        lengths = random_lengths(20_000)
        means = np.array([lengths[:, batch].mean() for batch in BatchOrder(*lengths, 1000, 1).batches(0)])
        assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.1

    def test_batch_mates_change(self):
        lengths = np.full((2, 1000), 10, np.int32)
        first, second = (
            {frozenset(batch.tolist()) for batch in BatchOrder(*lengths, 100, 1).batches(epoch)} for epoch in (0, 1)
        )
        assert not first & second

    def test_windows(self, monkeypatch):
        monkeypatch.setattr(batching, "_WINDOW", 64)
        batches = BatchOrder(*random_lengths(1000), 400, 1).batches(0)
        assert sorted(np.concatenate(batches).tolist()) == list(range(1000))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    corpus = open_corpus(("reverse:300",))
    tokenizers = train_tokenizers(TokenizerConfig("characters"), corpus, 1)
    return TokenCache.build(tmp_path_factory.mktemp("model") / "cache", corpus, tokenizers, 100)


class TestBatches:
    def test_holds_the_pairs_and_padding(self, cache):
        for rows in BatchOrder.of(cache, 500, 1).batches(0):
            batch = make_batch(cache, rows)
            assert batch.rows.tolist() == rows.tolist()
            assert batch.source.dtype == batch.tokens_in.dtype == batch.tokens_out.dtype == torch.int64
            for i, row in enumerate(rows):
                source, target = cache.source(row).tolist(), cache.target(row).tolist()
                assert batch.source[i].tolist() == source + [PAD] * (batch.source.shape[1] - len(source))
                assert batch.tokens_out[i].tolist() == target + [PAD] * (batch.tokens_out.shape[1] - len(target))
                assert batch.tokens_in[i][: len(target)].tolist() == [BOS, *target[:-1]]
                assert (batch.tokens_in[i][len(target) :] == PAD).all()

    def test_masks_are_true_where_there_is_text(self, cache):
        batch = make_batch(cache, np.array([5, 3, 200]))
        assert torch.equal(batch.source_mask, batch.source != PAD)
        assert torch.equal(batch.target_mask, batch.tokens_out != PAD)
        assert torch.equal(batch.target_mask, batch.tokens_in != PAD)
        assert batch.source_mask.sum(1).tolist() == cache.source_lengths[[5, 3, 200]].tolist()

    def test_ends(self, cache):
        batch = make_batch(cache, np.arange(20))
        last = batch.target_mask.sum(1) - 1
        assert (batch.tokens_out[torch.arange(20), last] == EOS).all()
        assert (batch.tokens_in != EOS).all()

    def test_no_wider_than_its_longest(self, cache):
        batch = make_batch(cache, np.arange(20))
        assert batch.source_mask.any(0).all()
        assert batch.target_mask.any(0).all()

    def test_to(self, cache):
        batch = make_batch(cache, np.arange(3))
        moved = batch.to("meta")
        assert isinstance(moved, Batch)
        assert all(tensor.device.type == "meta" for tensor in moved[:5])
        assert moved.rows is batch.rows

    def test_sources(self):
        ids, mask = pad_sources([[5, 6, EOS], [EOS], [7, EOS]])
        assert ids.tolist() == [[5, 6, EOS], [EOS, PAD, PAD], [7, EOS, PAD]]
        assert mask.tolist() == [[True, True, True], [True, False, False], [True, True, False]]
        assert pad_sources([])[0].shape == (0, 0)


def test_what_the_host_knows_is_what_the_masks_say(cache):
    for batch in (made := make_batch(cache, np.arange(7)), twice(made)):
        assert batch.lengths.tolist() == batch.source_mask.sum(dim=1).tolist()
        torch.testing.assert_close(batch.at_tokens(batch.tokens_out), batch.tokens_out[batch.target_mask])
        states = torch.randn(*batch.tokens_out.shape, 3)
        torch.testing.assert_close(batch.at_tokens(states), states[batch.target_mask])
        plain = batch._replace(written=None)
        assert torch.equal(plain.at_tokens(states), batch.at_tokens(states))
        assert batch.to("cpu").lengths is batch.lengths
