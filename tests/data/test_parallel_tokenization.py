"""Packed tokens: what the processes give is what one alone would, and none of them is left behind."""

import os
import signal
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from regard.config import TokenizerConfig
from regard.data import parallel_tokenization
from regard.data.corpus import TargetsOnly, open_corpus
from regard.data.pair import Pair
from regard.data.parallel_tokenization import Packer, messages, pack_all
from regard.data.tagged_corpora import open_tagged
from regard.data.token_cache import TokenCache
from regard.data.tokenizers import train_tokenizers
from regard.errors import DataError

CORPORA = {
    "pairs": lambda: open_corpus(("phrasebook:300",)),
    "tags": lambda: open_tagged(["fr=phrasebook:200", "zz=copy:100"]),
    "targets": lambda: TargetsOnly(open_corpus(("phrasebook:300",))),
}


@pytest.fixture
def several(monkeypatch):
    """Let two processes pack even a small corpus, and keep them to look at."""
    started = []
    monkeypatch.setattr(parallel_tokenization, "AT_ONCE", 32)
    monkeypatch.setattr(parallel_tokenization, "ALONE", 1)
    monkeypatch.setattr(parallel_tokenization, "processors", lambda: 2)
    real = parallel_tokenization.subprocess.Popen

    def noted(*given, **named):
        started.append(real(*given, **named))
        return started[-1]

    monkeypatch.setattr(parallel_tokenization.subprocess, "Popen", noted)
    yield started
    assert all(process.returncode is not None for process in started), "a process was left behind"


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("corpus", CORPORA.values(), ids=CORPORA)
@pytest.mark.parametrize("kind", ["bpe", "unigram", "words"])
def test_several_processes_give_what_one_does(kind, corpus, several, tmp_path, monkeypatch):
    pairs = corpus()
    tokenizers = train_tokenizers(TokenizerConfig(kind, 400), pairs, 1)
    build = partial(TokenCache.build, corpus=pairs, tokenizers=tokenizers, max_length=20, links=True)
    build(tmp_path / "several")
    assert len(several) == 2
    monkeypatch.setattr(parallel_tokenization, "processors", lambda: 1)
    build(tmp_path / "one")
    assert len(several) == 2
    assert content(tmp_path / "several") == content(tmp_path / "one")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "several"]


def test_a_small_corpus_starts_no_process(several, tmp_path):
    pairs = open_corpus(("copy:32",))
    TokenCache.build(tmp_path / "cache", pairs, train_tokenizers(TokenizerConfig("words", 50), pairs, 1), 20)
    assert several == []


@pytest.fixture(scope="module")
def pieces():
    return train_tokenizers(TokenizerConfig("bpe", 400), open_corpus(("phrasebook:300",)), 1).source


@given(st.text(st.sampled_from("ab é\t\u00a0▁\ufdd0\ufdd1日👍")), st.sampled_from(["<u2", "<i4"]))
@example("", "<u2")
@example("a  b", "<u2")
@example(" a ", "<u2")
@example("the" * 99, "<u2")
def test_packed_pieces_are_those_of_the_whole_text(pieces, text, dtype):
    whole = np.array(pieces.encode(text), dtype).tobytes()
    assert pieces.pack([text, text], dtype) == [whole, whole]


def test_packed_pieces_are_those_of_every_sentence():
    corpus = list(open_corpus(("phrasebook:500",)))
    tokenizer = train_tokenizers(TokenizerConfig("bpe", 400), corpus[:300], 1).source
    texts = [f"{pair.source} {pair.target}" for pair in corpus]
    assert [np.frombuffer(packed, "<u2").tolist() for packed in tokenizer.pack(texts, "<u2")] == tokenizer.encode_all(
        texts
    )


def test_what_a_user_can_mend_is_told_in_its_own_words(several, tmp_path):
    tagged = open_tagged(["fr=phrasebook:100"])
    tokenizers = train_tokenizers(TokenizerConfig("words", 100), tagged, 1)
    untagged = [*tagged, Pair("no tag here", "at all")]
    with pytest.raises(DataError, match="'no tag here' has no tag for the language to write"):
        TokenCache.build(tmp_path / "cache", untagged, tokenizers, 20)
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_killed_is_told(several, tmp_path):
    pairs = open_corpus(("copy:300",))
    tokenizers = train_tokenizers(TokenizerConfig("words", 50), pairs, 1)

    def corpus():
        for number, pair in enumerate(pairs):
            if number == 250:
                for process in several:
                    os.kill(process.pid, signal.SIGKILL)
            yield pair

    with pytest.raises(DataError, match=r"A worker process for tokenization died \(killed by signal 9"):
        TokenCache.build(tmp_path / "cache", corpus(), tokenizers, 20)
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_corpus_comes_through_and_ends_the_processes(several, tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\n" * 200 + "no tab\n")
    corpus = open_corpus((str(path),))
    tokenizers = train_tokenizers(TokenizerConfig("words", 50), [Pair("a", "b")], 1)
    with pytest.raises(DataError, match="line 201: no tab"):
        TokenCache.build(tmp_path / "cache", corpus, tokenizers, 20)
    assert [entry.name for entry in tmp_path.iterdir()] == ["pairs.tsv"]


def test_who_stops_listening_leaves_no_process(several, tmp_path):
    pairs = open_corpus(("copy:300",))
    tokenizers = train_tokenizers(TokenizerConfig("words", 50), pairs, 1)
    with closing(pack_all(messages(pairs, False), tokenizers, 20, False, tmp_path / "told")) as batches:
        first = next(batches)
    assert first == Packer(tokenizers, 20, False)(next(messages(pairs, False)))


def test_as_many_processes_as_there_are_processors_to_use(monkeypatch):
    monkeypatch.setattr(parallel_tokenization.os, "sched_getaffinity", lambda _: range(5), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert parallel_tokenization.processors() == 5
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert parallel_tokenization.processors() == 3
    monkeypatch.setattr(parallel_tokenization.os, "sched_getaffinity", lambda _: range(99), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    assert parallel_tokenization.processors() == parallel_tokenization.MOST
