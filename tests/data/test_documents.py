"""Splitting texts into sentences: nothing is lost, and all tokenizers split alike."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batching import pad_sources
from regard.data.documents import SentenceEnds, as_documents
from regard.data.special_tokens import EOS
from regard.data.tokenizers.base import kinds
from regard.runtime.text_labeller import cut

TEXTS = {
    "He left. She stayed! Pi is 3.14 or so.": ["He left.", "She stayed!", "Pi is 3.14 or so."],
    'He said "go." She went (at last!) home… And?': ['He said "go."', "She went (at last!)", "home…", "And?"],
    "no end": ["no end"],
    "Really?! Yes... I think so.": ["Really?!", "Yes...", "I think so."],
    "。": ["。"],
    "他走了。她说：「好！」然后呢？没有": ["他走了。", "她说：「好！」", "然后呢？", "没有"],
}
CORPUS = [*TEXTS] * 3
UNITS = st.lists(st.sampled_from(["a", "b c", ".", "!", "。", '"', ")", " ", "x.", "…"]), max_size=9).map("".join)


@pytest.fixture(scope="module", params=["words", "characters", "spelled", "bpe", "unigram"])
def tokenizer(request):
    return kinds[request.param].train(CORPUS, 400)


def sentences(tokenizer, texts):
    """Return the tokens of each sentence of each text, as a model reads them, and the tokens of the texts."""
    ids = [[*tokenizer.encode(text), EOS] for text in texts]
    tokens, mask = (part.numpy() for part in pad_sources(ids))
    read = as_documents(tokens, mask, SentenceEnds.of(tokenizer))
    rows = [row[:length].tolist() for row, length in zip(read.tokens, read.lengths.tolist(), strict=True)]
    assert (read.mask.sum(dim=1) == read.lengths).all()
    assert (read.sentence_mask.sum(dim=1) == read.counts).all()
    return [[rows[place] for place in row[:count]] for row, count in zip(read.sentences, read.counts, strict=True)], ids


def test_every_kind_of_tokenizer_splits_alike(tokenizer):
    texts = [text for text in TEXTS if " " in text or tokenizer.kind != "words"]
    found, _ = sentences(tokenizer, texts)
    for text, own in zip(texts, found, strict=True):
        assert [tokenizer.decode(part).strip() for part in own] == TEXTS[text]


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(UNITS, min_size=1, max_size=4))
def test_no_token_is_lost_or_moved_and_the_program_splits_alike(tokenizer, texts):
    found, ids = sentences(tokenizer, texts)
    ends = {name: {*np.flatnonzero(part).tolist()} for name, part in SentenceEnds.of(tokenizer)._asdict().items()}
    for own, whole in zip(found, ids, strict=True):
        assert [token for part in own for token in part] == whole
        assert all(own)
        assert own[-1] != [EOS] or whole == [EOS]
        assert own == cut(whole, ends)


def test_without_sentence_ends_a_text_is_one_sentence(tokenizer):
    tokens, mask = (part.numpy() for part in pad_sources([[*tokenizer.encode(text), EOS] for text in TEXTS]))
    read = as_documents(tokens, mask, None)
    assert np.array_equal(read.tokens, tokens)
    assert read.sentences.tolist() == [[row] for row in range(len(TEXTS))]
    assert read.counts.tolist() == [1] * len(TEXTS)
