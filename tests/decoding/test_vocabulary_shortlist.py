"""Laws of the shortlist: what goes together in training is on it, and a search writes nothing else."""

import numpy as np
import pytest
import torch

from regard.config import DecodingConfig
from regard.data.special_tokens import BOS, EOS, PAD
from regard.data.token_cache import TokenCache
from regard.decoding import vocabulary_shortlist
from regard.decoding.search import search
from regard.decoding.vocabulary_shortlist import SHORTLIST, Shortlist, learn
from regard.errors import ModelError

from .toy_decoders import Oracle, sentences

SIZE = 60


class Corpus(TokenCache):
    """Each source token n, from 10 to 29, has the target n + 30, and every target ends with 5 and the end mark."""

    def __init__(self, count=400):
        chance = np.random.default_rng(1)
        self.sources = [chance.integers(10, 30, chance.integers(2, 7)) for _ in range(count)]

    def __len__(self):
        return len(self.sources)

    def source(self, row):
        return np.append(self.sources[row], EOS)

    def target(self, row):
        return np.concatenate([self.sources[row][::-1] + 30, [5, EOS]])


def learned(monkeypatch, frequent=2):
    monkeypatch.setattr(vocabulary_shortlist, "FREQUENT", frequent)
    return learn(Corpus(), SIZE, SIZE, False)


def test_what_goes_together_comes_first(monkeypatch):
    found = learned(monkeypatch)
    assert [found.likely[token, 0] for token in range(10, 30)] == list(range(40, 60))
    assert set(found.frequent) == {5, EOS}


def test_marks_are_not_listed(monkeypatch):
    found = learned(monkeypatch, frequent=50)
    assert not {PAD, BOS} & {*found.likely.ravel().tolist(), *found.frequent.tolist()}
    assert (found.likely[59] == -1).all()  # never read


def test_words_are_those_of_the_source_the_frequent_and_what_is_asked_for(monkeypatch):
    found = learned(monkeypatch)
    assert found.words([12, 17], 1).tolist() == [EOS, 5, 42, 47]
    assert found.words([12], 1, beside=(9, 33)).tolist() == [EOS, 5, 9, 33, 42]
    assert found._replace(joint=True).words([12, EOS], 0).tolist() == [EOS, 5, 12]


def test_every_nth_pair_is_enough(monkeypatch):
    monkeypatch.setattr(vocabulary_shortlist, "LINKS", 4000)
    assert [learned(monkeypatch).likely[token, 0] for token in range(10, 30)] == list(range(40, 60))


def test_it_is_kept_in_a_file(tmp_path, monkeypatch):
    assert Shortlist.load(tmp_path, SIZE, SIZE) is None
    found = learned(monkeypatch)
    found.save(tmp_path)
    again = Shortlist.load(tmp_path, SIZE, SIZE)
    assert (again.likely == found.likely).all()
    assert (again.frequent == found.frequent).all()
    assert again.joint is False
    (tmp_path / SHORTLIST).write_bytes(b"nothing")
    with pytest.raises(ModelError, match=r"is damaged: .* Remove it, and make it again with regard train --out"):
        Shortlist.load(tmp_path, SIZE, SIZE)


@pytest.mark.parametrize("method", ["beam", "diverse", "sample"])
def test_a_search_writes_nothing_else_and_scores_among_them(method):
    words = [np.array(own, np.int32) for own in ([EOS, 4, 6], [EOS, 5, 7])]
    oracle, encoded = Oracle(size=9), sentences([3, 2])
    options = DecodingConfig(method=method, beam=4, length_penalty=0.0)
    found = search(oracle, encoded, options, bos=BOS, eos=EOS, n_best=2, words=words)
    for row, hypotheses in enumerate(found):
        for one in hypotheses:
            assert set(one.tokens) <= set(words[row])
            mark = (encoded.states[row, 0, 0].long() * 1009 + BOS * 101 + 7) % len(oracle.logits)
            among = oracle.logits[mark][torch.from_numpy(words[row]).long()].log_softmax(0)
            place = words[row].tolist().index(one.tokens[0])
            assert one.log_probs[0] == pytest.approx(float(among[place]), abs=1e-5)


def test_nobody_looked():
    (found,) = search(Oracle(size=9), sentences([3]), DecodingConfig(beam=2), bos=BOS, eos=EOS, look=False)
    assert found[0].weights.shape == (len(found[0].tokens), 0, 1, 3)


@pytest.mark.parametrize("patience", [0.5, 1.0])
def test_patience_ends_with_so_many_that_have_ended(patience):
    """It searches no longer than without, and what it finds was there to be found."""
    encoded = sentences([4, 3, 5])
    steps = []
    for asked in (0.0, patience):
        oracle = Oracle(size=9)
        options = DecodingConfig(beam=4, length_penalty=1.0, patience=asked)
        found = search(oracle, encoded, options, bos=BOS, eos=EOS)
        steps.append(sum(oracle.rows))
        assert all(one[0].tokens[-1] == EOS for one in found)
    assert steps[1] <= steps[0]
