"""Tags: one token before the source, never in a target, and a clear word where one is missing or unknown."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import DataConfig, TokenizerConfig
from regard.data.configured_corpora import open_data
from regard.data.corpus import for_model
from regard.data.pair import Pair
from regard.data.special_tokens import EOS, PAD, UNK
from regard.data.tagged_corpora import check_tagged, open_tagged
from regard.data.token_cache import TokenCache
from regard.data.tokenizers import Tokenizers, Words, kinds, train_tokenizers
from regard.data.tokenizers.tagged_tokenizer import Tagged, has_tag, without_tag
from regard.errors import ConfigError, DataError

ENTRIES = ("fr=a.en,a.fr", "de=b.tsv", "fr=c.tsv")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, content in {
        "a.en": "the dress\n",
        "a.fr": "la robe\n",
        "a.align": "0-0 1-1\n",
        "b.tsv": "the dress\tdas Kleid\na <2de> text\tein <2de> Text\n",
        "c.tsv": "red\trouge\n",
    }.items():
        Path(name).write_text(content)


def wrong(call, kind=ConfigError):
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def trained(kind, joint, entries=ENTRIES):
    return train_tokenizers(TokenizerConfig(kind, 300 + len(entries), joint), open_tagged(entries), 1)


class TestCorpora:
    def test_each_source_has_the_tag_of_its_corpus(self):
        corpus = open_tagged(ENTRIES)
        assert corpus.tags == ("fr", "de")
        assert corpus.name == "fr=a.en and a.fr, de=b.tsv, fr=c.tsv"
        expected = [
            Pair("<2fr> the dress", "la robe"),
            Pair("<2de> the dress", "das Kleid"),
            Pair("<2de> a <2de> text", "ein <2de> Text"),
            Pair("<2fr> red", "rouge"),
        ]
        assert list(corpus) == expected == list(corpus)
        assert [pair.source for pair in corpus.untagged()] == ["the dress", "the dress", "a <2de> text", "red"]

    def test_alignments_count_the_words_after_the_tag(self):
        (pair,) = open_tagged(["fr=a.en,a.fr,a.align"])
        assert str(pair.alignment) == "0-0 1-1"

    def test_identity(self):
        names = [open_tagged(entries).identity() for entries in (ENTRIES, ENTRIES[::-1], ("de=c.tsv",), ("fr=c.tsv",))]
        assert len(set(names)) == 4
        assert open_tagged(ENTRIES).identity() == names[0]

    def test_embedded_ones_bring_their_validation(self):
        data = DataConfig(tagged=("back=reverse:20", "fr=c.tsv", "again=copy:10:train"))
        assert len(list(open_data(data, "train", 1))) == 31
        valid = open_data(data, "valid", 1)
        assert (valid.name, valid.tags) == ("back=reverse:valid:500, again=copy:valid:500", ("back", "again"))
        assert open_data(DataConfig(tagged=("fr=c.tsv",)), "valid", 1) is None
        given_too = DataConfig(tagged=("back=reverse:20",), valid_tagged=("back=c.tsv",))
        assert list(open_data(given_too, "valid", 1)) == [Pair("<2back> red", "rouge")]

    def test_one_corpus_is_opened_as_ever(self):
        assert list(open_data(DataConfig(train=("c.tsv",)), "train", 1)) == [Pair("red", "rouge")]
        assert open_data(DataConfig(train=("c.tsv",)), "valid", 1) is None
        assert open_data(DataConfig(train=("reverse:7",)), "valid", 1).name == "reverse:valid:500"
        assert open_data(DataConfig(train=("reverse:7",), valid=("c.tsv",)), "valid", 1).name == "c.tsv"

    @pytest.mark.parametrize("entry", ["de", "de=", "de=a.en,", "=a.tsv", "d e=a.tsv", "<2de>=a.tsv", "de=-"])
    def test_wrong_entries(self, entry):
        said = {
            "=a.tsv": "'' cannot be a tag. A tag is letters, digits, - and _, such as de or pt-BR.",
            "d e=a.tsv": "'d e' cannot be a tag. A tag is letters, digits, - and _, such as de or pt-BR.",
            "<2de>=a.tsv": "'<2de>' cannot be a tag. A tag is letters, digits, - and _, such as de or pt-BR.",
            "de=-": "'de=-' is standard input, which cannot be mixed: give a file.",
        }
        otherwise = (
            f"{entry!r} is not TAG=CORPUS, such as de=train.en,train.de or fr=pairs.tsv "
            "(commas separate the files of a corpus)."
        )
        assert wrong(lambda: open_tagged([entry])) == f"data.tagged: {said.get(entry, otherwise)}"
        assert wrong(lambda: check_tagged(DataConfig(tagged=(entry,)))) == f"data.tagged: {said.get(entry, otherwise)}"

    def test_settings_that_do_not_go_together(self):
        tagged = ("de=b.tsv", "fr=c.tsv")
        assert wrong(lambda: check_tagged(DataConfig(train=("c.tsv",), tagged=tagged))) == (
            "data.train and data.tagged are both given: give either one corpus or several with tags."
        )
        assert wrong(lambda: check_tagged(DataConfig(valid=("c.tsv",), tagged=tagged))) == (
            "data.valid has no tags, but data.tagged has: give data.valid_tagged instead."
        )
        assert wrong(lambda: check_tagged(DataConfig(train=("c.tsv",), valid_tagged=tagged))) == (
            "data.valid_tagged has tags, but the training corpus has none: give data.valid instead."
        )
        assert wrong(lambda: check_tagged(DataConfig(tagged=tagged, valid_tagged=("fra=c.tsv",)))) == (
            "data.valid_tagged: there is no tag 'fra' in data.tagged, which has de, fr. Did you mean 'fr'?"
        )
        check_tagged(DataConfig(tagged=tagged, valid_tagged=("fr=c.tsv",)))

    def test_a_language_model_reads_no_tags(self):
        assert wrong(lambda: for_model(open_tagged(["de=b.tsv"]), reads=False), DataError) == (
            "de=b.tsv: tags go before the source, and a language model (model.encoder.kind=none) reads none. "
            "Give the texts without tags."
        )
        Path("a.txt").write_text("x\n")
        assert "needs pairs" in wrong(lambda: for_model(open_tagged(["de=a.txt"]), reads=True), DataError)


@pytest.mark.parametrize("kind", kinds)
@pytest.mark.parametrize("joint", [True, False])
class TestTokenizers:
    def test_a_tag_is_one_token_before_the_rest(self, kind, joint):
        both = trained(kind, joint)
        plain = train_tokenizers(TokenizerConfig(kind, 300 + 1, joint), open_tagged(ENTRIES).untagged(), 1)
        assert both.tags == ("fr", "de")
        for text in ("the dress", " two  spaces", "a <2de> text"):
            fr, *rest = both.source.encode(f"<2fr> {text}")
            de, *same = both.source.encode(f"<2de> {text}")
            assert rest == same == plain.source.encode(text)
            assert (fr, de) == both.source.tag_ids == (plain.source.size, plain.source.size + 1)
            assert both.source.pieces([fr, de, EOS]) == ["<2fr>", "<2de>", "</s>"]
            assert both.source.decode([fr, *rest, EOS]) == plain.source.decode(rest)
            assert both.source.words([fr, *rest, EOS]) == [-1, *plain.source.words(rest), -1]
            assert both.source.surfaces([fr, *rest]) == ["", *plain.source.surfaces(rest)]
        assert both.source.encode("<2de>") == [de]

    def test_never_on_the_target_side(self, kind, joint):
        both = trained(kind, joint)
        for text in ("<2de> Text", "<2xx> Text", "ein <2de>", "no tag"):
            ids = both.target.encode(text)
            assert not set(ids) & set(both.target.tag_ids)
            assert max(ids) < both.target.size - len(both.target.tag_ids)
            if UNK not in ids:
                assert both.target.decode(ids) == text
        # A joint vocabulary has one embedding, and so the entries; a search leaves them out by `tag_ids`.
        assert both.joint == joint
        assert both.target.tag_ids == (both.source.tag_ids if joint else ())
        assert (both.target.size == both.source.size) or not joint

    def test_the_vocabulary_is_not_larger_than_asked_for(self, kind, joint):
        both = trained(kind, joint)
        assert both.source.size <= 303
        assert both.target.size <= 303

    def test_saved_and_loaded(self, kind, joint, tmp_path):
        made = trained(kind, joint)
        made.save(tmp_path)
        loaded = Tokenizers.load(tmp_path)
        assert json.loads((tmp_path / "tokenizer.json").read_text())["tags"] == ["fr", "de"]
        assert (loaded.fingerprint, loaded.tags, loaded.joint) == (made.fingerprint, made.tags, made.joint)
        assert loaded.source.encode("<2de> the dress") == made.source.encode("<2de> the dress")
        assert loaded.target.encode("<2de> Text") == made.target.encode("<2de> Text")
        others = [trained(kind, joint, ("fr=a.en,a.fr", "es=b.tsv", "fr=c.tsv"))]
        assert made.fingerprint not in {other.fingerprint for other in others}

    def test_many_at_once(self, kind, joint):
        tokenizer = trained(kind, joint).source
        texts = ["<2de> the dress", "", "<2fr> red", "  ", "<2fr>"]
        assert tokenizer.encode_all(texts) == [tokenizer.encode(text) for text in texts]
        assert tokenizer.encode("") == []

    def test_a_cache(self, kind, joint, tmp_path):
        both = trained(kind, joint)
        cache = TokenCache.build(tmp_path / "cache", open_tagged(ENTRIES), both, 99)
        for row, pair in enumerate(open_tagged(ENTRIES)):
            assert cache.source(row).tolist() == [*both.source.encode(pair.source), EOS]
            assert cache.target(row).tolist() == [*both.target.encode(pair.target), EOS]


WORDS = Words(["a", "b"])
TAGGED = Tokenizers(Tagged(WORDS, ["de", "pt-BR"]), WORDS)


class TestTexts:
    def test_a_text_without_a_tag(self):
        for text in ("a b", " <2de> a", "<2de>a", "<2 de> a", "<2> a"):
            assert wrong(lambda text=text: TAGGED.source.encode(text), DataError) == (
                f"{text!r} has no tag for the language to write, and this model writes several (de, pt-BR): "
                "give --to de (in training, --tagged de=CORPUS), or begin it with <2de>."
            )
        assert wrong(lambda: TAGGED.source.encode("a" * 99), DataError).startswith(f"'{'a' * 40}…' has no tag")

    def test_a_text_with_an_unknown_tag(self):
        assert wrong(lambda: TAGGED.source.encode("<2pt> a"), DataError) == (
            "'<2pt> a' asks for 'pt', but this model writes de, pt-BR."
        )
        assert wrong(lambda: TAGGED.source.encode("<2pt-br> a"), DataError).endswith("Did you mean 'pt-BR'?")

    def test_put_before_texts(self):
        assert TAGGED.tag(["a", "", " ", "<2pt-BR> b", "a <2de>"], "de") == [
            "<2de> a",
            "",
            " ",
            "<2pt-BR> b",
            "<2de> a <2de>",
        ]
        assert TAGGED.tag(["a"], None) == ["a"]
        assert wrong(lambda: TAGGED.tag(["a"], "pt-PT")) == (
            "This model does not write 'pt-PT', but de, pt-BR. Did you mean 'pt-BR'?"
        )
        assert wrong(lambda: Tokenizers(WORDS, WORDS).tag(["a"], "de")) == (
            "This model was trained without tags, so it cannot write 'de': leave out --to."
        )
        assert Tokenizers(WORDS, WORDS).tag(["<2de> a"], None) == ["<2de> a"]

    def test_padding_and_marks_stay_what_they_are(self):
        tag = TAGGED.source.tag_ids[0]
        assert TAGGED.source.pieces([PAD, UNK, tag]) == ["<pad>", "<unk>", "<2de>"]
        assert TAGGED.source.words([PAD, UNK, tag, 4]) == [-1, 0, -1, 1]
        assert TAGGED.source.size == WORDS.size + 2
        assert TAGGED.target.tag_ids == ()

    @given(st.text(max_size=9))
    def test_with_and_without(self, text):
        assert has_tag(f"<2de> {text}")
        assert without_tag(f"<2de> {text}") == text
        assert has_tag(text) or without_tag(text) == text
