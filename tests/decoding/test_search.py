"""The laws of search, against a version that can be read in one go and decoders that know every prefix apart."""

from . import naive
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from .toy_decoders import BOS, EOS, Oracle, only, reread, sentences

from regard.config import DecodingConfig
from regard.decoding.search import search

LENGTHS = (3, 7, 2, 5)


def run(decoder, encoded, options, **rest):
    return search(decoder, encoded, options, bos=BOS, eos=EOS, **{"banned": (0, 2), **rest})


options_strategy = st.builds(
    DecodingConfig,
    beam=st.integers(1, 7),
    length_penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0, -0.5]),
    coverage_penalty=st.sampled_from([0.0, 0.2, 1.0]),
    min_length=st.integers(0, 4),
    max_length=st.sampled_from([0, 5, 9]),
)
models = st.builds(
    Oracle, size=st.integers(5, 13), seed=st.integers(0, 50), sharpness=st.sampled_from([0.5, 2.0, 4.0])
)


@given(models, options_strategy, st.data())
@settings(max_examples=40, deadline=None)
def test_it_finds_what_the_naive_search_finds(decoder, options, data):
    n_best = data.draw(st.integers(1, options.beam))
    piece = st.integers(4, decoder.size - 1)
    prefix = data.draw(st.lists(st.lists(piece, max_size=4), min_size=len(LENGTHS), max_size=len(LENGTHS)))
    encoded = sentences(LENGTHS)
    found = run(decoder, encoded, options, n_best=n_best, prefix=prefix)
    for number, hypotheses in enumerate(found):
        alone = only(encoded, number)
        naive.close(hypotheses, naive.beam_search(decoder, alone, options, n_best, (0, 2), prefix[number]))


@given(models, options_strategy)
@settings(max_examples=25, deadline=None)
def test_beam_one_is_greedy(decoder, options):
    options = DecodingConfig(beam=1, length_penalty=options.length_penalty, max_length=options.max_length)
    encoded = sentences(LENGTHS)
    for number, (hypothesis,) in enumerate(run(decoder, encoded, options)):
        assert hypothesis.tokens == naive.greedy_search(decoder, only(encoded, number), options, (0, 2))
