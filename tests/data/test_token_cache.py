"""The token cache: what was encoded is what comes back, whole or not at all, and never of another corpus."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from regard.config import TokenizerConfig
from regard.data import parallel_tokenization
from regard.data.corpus import open_corpus
from regard.data.pair import Pair
from regard.data.special_tokens import EOS
from regard.data.token_cache import TokenCache
from regard.data.tokenizers import Tokenizers, Words, train_tokenizers
from regard.errors import DataError

CORPUS = open_corpus(("reverse:700",))


@pytest.fixture(scope="module")
def tokenizers():
    return train_tokenizers(TokenizerConfig("bpe", 400, joint=False), CORPUS, 1)


@pytest.fixture(scope="module")
def others():
    return train_tokenizers(TokenizerConfig("bpe", 350), CORPUS, 1)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(parallel_tokenization, "AT_ONCE", 64)


def wrong(folder, call):
    with pytest.raises(DataError) as caught:
        call()
    return str(caught.value).replace(str(folder), "folder")


class TestLaws:
    def test_nothing_is_lost(self, tokenizers, tmp_path):
        cache = TokenCache.build(tmp_path / "cache", CORPUS, tokenizers, 1000)
        assert len(cache) == 700
        assert cache.left_out == 0
        for row, pair in enumerate(CORPUS):
            assert cache.source(row).tolist() == [*tokenizers.source.encode(pair.source), EOS]
            assert cache.target(row).tolist() == [*tokenizers.target.encode(pair.target), EOS]
            assert cache.source_lengths[row] == len(cache.source(row))
            assert cache.target_lengths[row] == len(cache.target(row))
        with pytest.raises(IndexError):
            cache.source(700)

    def test_opened_again(self, tokenizers, tmp_path):
        built = TokenCache.build(tmp_path / "cache", CORPUS, tokenizers, 20)
        opened = TokenCache.open(tmp_path / "cache")
        assert opened.index == built.index
        assert all((opened.target(row) == built.target(row)).all() for row in range(len(built)))

    def test_long_pairs_are_counted(self, tokenizers, tmp_path):
        lengths = [
            max(len(tokenizers.source.encode(pair.source)), len(tokenizers.target.encode(pair.target)))
            for pair in CORPUS
        ]
        limit = int(np.median(lengths))
        cache = TokenCache.build(tmp_path / "cache", CORPUS, tokenizers, limit)
        assert 0 < cache.left_out == sum(length > limit for length in lengths)
        assert len(cache) + cache.left_out == 700
        assert cache.index.longest == max(lengths)
        assert max(cache.source_lengths.max(), cache.target_lengths.max()) == limit + 1

    def test_a_large_vocabulary(self, tmp_path):
        words = Words(str(i) for i in range(70_000))
        cache = TokenCache.build(tmp_path / "cache", [Pair("69999 0", "1")], Tokenizers(words, words), 5)
        assert cache.source(0).tolist() == [70_003, 4, EOS]

    def test_the_folder_is_made(self, tokenizers, tmp_path):
        TokenCache.build(tmp_path / "a" / "b", CORPUS, tokenizers, 50)
        assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]

    def test_fingerprint(self, tokenizers, others, tmp_path):
        """The same pairs give the same fingerprint wherever they come from; anything else gives another."""

        def fingerprint(pairs, tokenizers=tokenizers, limit=50):
            return TokenCache.build(tmp_path / "cache", pairs, tokenizers, limit).fingerprint

        pairs = list(CORPUS)
        first = fingerprint(CORPUS)
        assert first == fingerprint(pairs)
        changed = [
            fingerprint(pairs[:-1]),
            fingerprint(pairs[::-1]),
            fingerprint(pairs, others),
            fingerprint(pairs, limit=49),
        ]
        assert len({first, *changed}) == 5


class TestReuse:
    @pytest.fixture
    def builds(self, monkeypatch):
        built = []
        build = TokenCache.build.__func__
        monkeypatch.setattr(TokenCache, "build", classmethod(lambda cls, *a: built.append(a) or build(cls, *a)))
        return built

    def test_of_the_same(self, tokenizers, tmp_path, builds):
        for _ in range(2):
            cache = TokenCache.reuse_or_build(tmp_path / "cache", open_corpus(("reverse:90",)), tokenizers, 50)
            assert len(cache) == 90
        assert len(builds) == 1

    def test_not_of_another(self, tokenizers, others, tmp_path, builds):
        def size(name, tokenizers=tokenizers, limit=50, seed=1):
            corpus = open_corpus((name,), seed=seed)
            return len(TokenCache.reuse_or_build(tmp_path / "cache", corpus, tokenizers, limit))

        assert size("reverse:90") == 90
        assert size("reverse:91") == 91
        size("reverse:91", limit=51)
        size("reverse:91", limit=51, seed=2)
        size("reverse:91", others, limit=51, seed=2)
        size("copy:91", others, limit=51, seed=2)
        assert len(builds) == 6

    def test_not_of_a_file_that_changed(self, tokenizers, tmp_path, builds):
        file = tmp_path / "a.tsv"
        for content in ("a\tb\n", "a\tb\nc\td\n", "a\tb\nc\te\n"):
            file.write_text(content)
            os.utime(file, ns=(0, len(builds)))
            cache = TokenCache.reuse_or_build(tmp_path / "cache", open_corpus((str(file),)), tokenizers, 50)
            assert len(cache) == content.count("\n")
        assert len(builds) == 3

    @pytest.mark.parametrize("file", ["cache.json", "source.tokens", "target.offsets"])
    @pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"")])
    def test_not_of_what_is_damaged(self, tokenizers, tmp_path, builds, file, damage):
        for _ in range(2):
            assert len(TokenCache.reuse_or_build(tmp_path / "cache", CORPUS, tokenizers, 50)) == 700
            damage(tmp_path / "cache" / file)
        assert len(builds) == 2


class Killed(BaseException):
    """Not an Exception: nothing may catch it."""


class TestWholeOrNotAtAll:
    @pytest.mark.parametrize("operation", ["os.fsync", "os.replace", "pathlib.Path.rename"])
    @pytest.mark.parametrize("at", range(3))
    @pytest.mark.parametrize("before", [True, False])
    def test_killed(self, tokenizers, tmp_path, monkeypatch, operation, at, before):
        """Whatever is interrupted, the cache that is found is the old one, the new one or none."""
        folder = tmp_path / "cache"
        if before:
            TokenCache.build(folder, open_corpus(("reverse:70",)), tokenizers, 50)
        calls = iter(range(100))
        name = operation.rsplit(".", 1)
        owner = Path if name[0] == "pathlib.Path" else os
        original = getattr(owner, name[1])

        def die(*arguments):
            if next(calls) == at:
                raise Killed
            return original(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(owner, name[1], die)
            # A kill runs no cleaning up.
            patch.setattr("shutil.rmtree", lambda *_, **__: None)
            try:
                TokenCache.build(folder, open_corpus(("reverse:80",)), tokenizers, 50)
                done = True
            except Killed:
                done = False
        if folder.exists():
            assert len(TokenCache.open(folder)) in ({80} if done else {70, 80})
        cache = TokenCache.build(folder, open_corpus(("reverse:90",)), tokenizers, 50)
        assert len(cache) == 90
        assert [path.name for path in tmp_path.iterdir()] == ["cache"]

    def test_a_bad_line_leaves_nothing(self, tokenizers, tmp_path):
        (tmp_path / "a.tsv").write_text("a\tb\n" * 500 + "c\n")
        with pytest.raises(DataError):
            TokenCache.build(tmp_path / "cache", open_corpus((str(tmp_path / "a.tsv"),)), tokenizers, 50)
        assert [path.name for path in tmp_path.iterdir()] == ["a.tsv"]


class TestWrong:
    def test_all_too_long(self, tokenizers, tmp_path):
        corpus = [Pair("ba be bi bo bu", "ba")] * 3
        longest = len(tokenizers.source.encode("ba be bi bo bu"))
        assert wrong(tmp_path, lambda: TokenCache.build(tmp_path / "cache", corpus, tokenizers, 2)) == (
            f"All 3 pairs are longer than data.max_length = 2 tokens. The longest text has {longest}: "
            "raise data.max_length, or cut the texts into sentences."
        )
        assert not list(tmp_path.iterdir())

    def test_empty(self, tokenizers, tmp_path):
        assert wrong(tmp_path, lambda: TokenCache.build(tmp_path / "cache", [], tokenizers, 2)) == (
            "The corpus is empty: there is nothing to learn from."
        )

    def test_cannot_be_written(self, tokenizers, tmp_path):
        (tmp_path / "file").touch()
        assert wrong(tmp_path, lambda: TokenCache.build(tmp_path / "file" / "cache", CORPUS, tokenizers, 9)) == (
            "Cannot write the tokens to folder/file/cache: not a directory."
        )

    def test_not_there(self, tmp_path):
        assert wrong(tmp_path, lambda: TokenCache.open(tmp_path)) == (
            "Cannot read folder/cache.json: no such file or directory."
        )

    def test_damaged(self, tokenizers, tmp_path):
        folder = tmp_path / "cache"
        TokenCache.build(folder, CORPUS, tokenizers, 50)
        tokens = folder / "source.tokens"
        tokens.write_bytes(tokens.read_bytes() + b"0")
        size = tokens.stat().st_size
        assert wrong(tmp_path, lambda: TokenCache.open(folder)) == (
            f"folder/cache/source.tokens is damaged: it has {size:,} bytes, not {size - 1:,}. "
            "Remove folder/cache; it will be made anew."
        )
        (folder / "cache.json").write_text("{}")
        assert wrong(tmp_path, lambda: TokenCache.open(folder)) == (
            "folder/cache/cache.json is damaged. Remove folder/cache; it will be made anew."
        )

    def test_another_version(self, tokenizers, tmp_path):
        folder = tmp_path / "cache"
        TokenCache.build(folder, CORPUS, tokenizers, 50)
        index = json.loads((folder / "cache.json").read_text())
        (folder / "cache.json").write_text(json.dumps(index | {"format": 99}))
        assert wrong(tmp_path, lambda: TokenCache.open(folder)) == (
            "folder/cache was made by another version of regard. Remove folder/cache; it will be made anew."
        )
