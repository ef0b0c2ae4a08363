"""Tokenizers: text comes back as it went in, and the same corpus gives the same vocabulary."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from regard.config import TokenizerConfig
from regard.data import tokenizers
from regard.data.corpus import open_corpus
from regard.data.pair import Pair
from regard.data.special_tokens import BOS, EOS, MARKS, PAD, UNK
from regard.data.tokenizers import Spelled, Tokenizers, kinds, train_tokenizers
from regard.errors import ConfigError, DataError, ModelError

SUBWORDS = ["bpe", "unigram"]
TEXTS = [kind for kind in kinds if kind != "lines"]
"""Those that read texts; `lines` has the names of classes."""
CORPUS = [
    *open_corpus(("dates:300",)),
    Pair("the red dress, très élégante", "la robe rouge 😀 日本語"),
    Pair("two  spaces and\u00a0one\u3000more", "▁ and \ufdd0, of which the text knows nothing"),
]
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60) | st.text(
    "the red▁\ufdd0\ufdd1 \t\n\u00a0\u3000é😀日<s>/unk0x41", max_size=30
)


def trained(kind, joint=True, vocabulary=500, corpus=CORPUS, seed=1):
    return train_tokenizers(TokenizerConfig(kind, vocabulary, joint), corpus, seed)


@pytest.fixture(scope="module")
def tokenizer_of():
    made = {kind: trained(kind, vocabulary=5000 if kind == "words" else 500).source for kind in kinds}
    return made.__getitem__


class TestLaws:
    @pytest.mark.parametrize("kind", SUBWORDS)
    @given(text=texts)
    @example("")
    @example(" ")
    @example("  two  spaces  ")
    @example("▁")
    @example("a▁ b\ufdd0▁\ufdd0\ufdd1")
    @example("<s></s><pad><unk><0x41>▅\t\r\n\u2028")
    @example("👩‍👩‍👧 e\u0301é ﬁ Å ½ \u200b\ufeff")
    def test_text_comes_back(self, tokenizer_of, kind, text):
        tokenizer = tokenizer_of(kind)
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert all(EOS < i < tokenizer.size for i in ids)

    @given(text=texts)
    def test_known_characters_come_back(self, tokenizer_of, text):
        tokenizer = tokenizer_of("characters")
        known = {c for pair in CORPUS for c in pair.source + pair.target}
        ids = tokenizer.encode(text)
        assert len(ids) == len(text)
        assert tokenizer.decode(ids) == "".join(c if c in known else "<unk>" for c in text)

    def test_known_words_come_back(self, tokenizer_of):
        tokenizer = tokenizer_of("words")
        assert tokenizer.decode(tokenizer.encode(" the  red\u3000dress, ")) == "the red dress,"
        assert tokenizer.decode(tokenizer.encode("the blue dress,")) == "the <unk> dress,"

    @pytest.mark.parametrize("kind", TEXTS)
    @given(text=texts)
    def test_words_are_what_white_space_separates(self, tokenizer_of, kind, text):
        """Tokens of one word stand together, in order, and no word that begins a token is missed."""
        tokenizer = tokenizer_of(kind)
        if kind != "words":  # white space may be an unknown character: leave such out
            text = "".join(char for char in text if UNK not in tokenizer.encode(char))
        ids = tokenizer.encode(text)
        assume(kind == "words" or UNK not in ids)
        words = tokenizer.words(ids)
        count = len(text.split())
        assert len(words) == len(ids)
        assert words == sorted(words)
        assert set(words) <= set(range(count)) | ({-1} if not count else set())
        assert not count or words[-1] == count - 1
        if kind in ("characters", "words"):
            assert set(words) - {-1} == set(range(count))

    @pytest.mark.parametrize("kind", TEXTS)
    def test_words_of_subwords(self, tokenizer_of, kind):
        tokenizer = tokenizer_of(kind)
        sentence = "the zorblax dress, 😀x"
        for number, word in enumerate(sentence.split()):
            ids = tokenizer.encode(sentence)
            chosen = [i for i, w in zip(ids, tokenizer.words(ids), strict=True) if w == number]
            if UNK not in chosen:
                assert tokenizer.decode(chosen).strip() == word

    @pytest.mark.parametrize("kind", TEXTS)
    def test_marks(self, tokenizer_of, kind):
        tokenizer = tokenizer_of(kind)
        ids = tokenizer.encode("the red dress,")
        marked = [BOS, *ids, EOS, PAD, PAD]
        assert tokenizer.decode(marked) == "the red dress,"
        assert tokenizer.words(marked) == [-1, *tokenizer.words(ids), -1, -1, -1]
        assert tokenizer.pieces([PAD, UNK, BOS, EOS]) == list(MARKS) == ["<pad>", "<unk>", "<s>", "</s>"]
        assert "<unk>" in tokenizer.decode([UNK])
        assert tokenizer.words([UNK]) == [0]

    def test_a_line_is_one_token(self):
        tokenizer = trained("lines", joint=False, corpus=[Pair("a", "very bad"), Pair("b", "good")]).target
        ids = tokenizer.encode(" very  bad ")
        assert tokenizer.decode(ids) == "very bad"
        assert tokenizer.words(ids) == [0]
        assert tokenizer.encode("bad") == [UNK]
        assert tokenizer.encode("") == []

    @pytest.mark.parametrize("kind", kinds)
    def test_a_mark_that_is_written_is_text(self, tokenizer_of, kind):
        tokenizer = tokenizer_of(kind)
        assert not {PAD, BOS, EOS} & set(tokenizer.encode("<s> </s> <pad> <unk>"))

    @pytest.mark.parametrize("kind", kinds)
    def test_many_at_once_is_one_after_the_other(self, tokenizer_of, kind):
        tokenizer = tokenizer_of(kind)
        many = [pair.source for pair in CORPUS]
        assert tokenizer.encode_all(many) == [tokenizer.encode(text) for text in many]
        assert tokenizer.encode_all([]) == []

    @pytest.mark.parametrize("kind", SUBWORDS)
    def test_pieces_spell_the_text(self, tokenizer_of, kind):
        tokenizer = tokenizer_of(kind)
        assert "".join(tokenizer.pieces(tokenizer.encode("the red dress"))) == "▁the▁red▁dress"

    def test_bytes_that_make_no_character(self, tokenizer_of):
        tokenizer = tokenizer_of("bpe")
        half = tokenizer.encode("𝄞")[:-1]
        assert set(tokenizer.pieces(half)) & {"<0xF0>"}
        assert "\ufffd" in tokenizer.decode(half)
        assert set(tokenizer.words(half)) == {0}


class TestSpelled:
    """Frequent words whole, all others letter by letter."""

    own = Spelled([" ", *"abcx\t\u00a0", " a", " ba", " abc"])

    def test_a_whole_word_implies_the_spaces_around_it(self):
        ids = self.own.encode("ba xb a abc")
        assert self.own.pieces(ids) == ["▁ba", "x", "b", "▁a", "▁abc"]
        assert self.own.surfaces(ids) == ["ba", " x", "b", " a", " abc"]
        assert self.own.words(ids) == [0, 1, 1, 2, 3]

    def test_any_other_space_is_a_character(self):
        assert self.own.pieces(self.own.encode(" a  ba xx bb ")) == [*"▁", "▁a", *"▁▁", "▁ba", *"xx▁bb▁"]

    def test_words_that_hold_a_whole_one_are_spelled(self):
        assert self.own.pieces(self.own.encode("aba abcx a\ta")) == [*"aba▁abcx▁a\ta"]

    @given(
        text=st.text("abcx \t\u00a0", max_size=20)
        | st.lists(st.sampled_from(["a", "ba", "abc", "x", ""])).map(" ".join)
    )
    def test_known_text_comes_back(self, text):
        ids = self.own.encode(text)
        assert UNK not in ids
        assert self.own.decode(ids) == "".join(self.own.surfaces(ids)) == text
        assert len(ids) == len(list(self.own.units(text))) <= len(text)

    @given(text=texts)
    def test_of_unknown_text_what_is_known_comes_back(self, tokenizer_of, text):
        own = tokenizer_of("spelled")
        known = {unit for unit in own.pieces(range(4, own.size)) if len(unit) == 1} - {"▁"} | {" "}
        known |= {"▁"} & set("".join(pair.target for pair in CORPUS))
        assert own.decode(own.encode(text)) == "".join(c if c in known else "<unk>" for c in text)

    @given(ids=st.lists(st.integers(0, 13)))
    def test_any_tokens_have_a_text_and_its_surfaces_are_that_text(self, ids):
        assert self.own.decode(ids) == "".join(self.own.surfaces(ids))
        assert len(self.own.surfaces(ids)) == len(ids) == len(self.own.words(ids))

    def test_words_are_whole_if_they_are_frequent_enough(self):
        few = Spelled.train(["often now"] * 20 + ["rare"] * 19, 99)
        assert [len(few.encode(word)) for word in ("often", "now", "rare")] == [1, 1, 4]
        many = ["often"] * 50 + ["now"] * 49 + ["x"] * (20_000 - 99)
        assert [len(Spelled.train(many, 99).encode(word)) for word in ("often", "now", "x")] == [1, 3, 1]

    def test_where_there_is_little_room_characters_come_before_words(self):
        own = Spelled.train(["abc abc"] * 30 + ["x"], 9)
        assert own.pieces(range(9)) == [*MARKS, "▁", "a", "b", "c", "x"]
        assert Spelled.train(["abc abc"] * 30 + ["x"], 10).pieces([9]) == ["▁abc"]
        assert Spelled.train(["aab"], 6).pieces(range(4, 6)) == ["▁", "a"]

    def test_long_words_are_never_whole_and_none_is_kept(self):
        own = Spelled.train(["y" * 65, "z" * 64] * 30, 99)
        assert [len(own.encode(text)) for text in ("y" * 65, "z" * 64)] == [65, 1]

    def test_characters_of_forgotten_words_are_known(self, monkeypatch):
        monkeypatch.setattr("regard.data.tokenizers.spelled_words.MOST_COUNTED", 10)
        own = Spelled.train([f"often {chr(0x4E00 + number)}" for number in range(50)], 99)
        assert UNK not in own.encode("often " + "".join(chr(0x4E00 + number) for number in range(50)))
        assert len(own.encode("often")) == 1


class TestTraining:
    @pytest.mark.parametrize("kind", kinds)
    @pytest.mark.parametrize("joint", [True, False])
    def test_the_same_corpus_gives_the_same_vocabulary(self, kind, joint):
        first, second = trained(kind, joint), trained(kind, joint)
        assert first.fingerprint == second.fingerprint
        assert first.joint == joint
        assert first.fingerprint != trained(kind, joint, corpus=CORPUS[:40]).fingerprint

    def test_in_another_process_with_another_hash_seed(self):
        code = (
            "from regard.config import TokenizerConfig; from regard.data.corpus import open_corpus\n"
            "from regard.data.tokenizers import train_tokenizers\n"
            "for kind in ('unigram', 'words'):\n"
            "    c = TokenizerConfig(kind, 400, False)\n"
            "    print(train_tokenizers(c, open_corpus(('dates:300',)), 1).fingerprint)"
        )
        out = {
            subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": "src"},
                           cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True).stdout
            for seed in ("1", "2")
        }  # fmt: skip
        assert len(out) == 1
        here = [
            trained(kind, False, 400, list(open_corpus(("dates:300",)))).fingerprint for kind in ("unigram", "words")
        ]
        assert out.pop().split() == here

    @pytest.mark.parametrize("kind", kinds)
    def test_never_more_than_asked_for(self, kind):
        assert trained(kind, vocabulary=320).source.size <= 320

    @pytest.mark.parametrize("kind", kinds)
    def test_a_small_corpus_gives_a_small_vocabulary(self, kind):
        tokenizer = trained(kind, vocabulary=30_000, corpus=[Pair("ab", "ba")] * 3).source
        assert tokenizer.size < 280
        assert tokenizer.decode(tokenizer.encode("ab")) == "ab"

    @pytest.mark.parametrize("kind", SUBWORDS)
    def test_more_characters_than_room(self, kind):
        """Chinese has more characters than a small vocabulary has entries: bytes spell the rest."""
        many = [Pair("".join(map(chr, range(0x4E00 + 40 * i, 0x4E28 + 40 * i))), "ab ba") for i in range(50)]
        tokenizer = trained(kind, vocabulary=400, corpus=many).source
        assert tokenizer.size <= 400
        assert tokenizer.decode(tokenizer.encode(many[7].source)) == many[7].source

    def test_frequent_words_first(self):
        corpus = [Pair("b a a c", "b d")]
        tokenizer = trained("words", vocabulary=7, corpus=corpus).source
        assert tokenizer.pieces(range(7)) == [*MARKS, "a", "b", "c"]

    def test_rare_words_are_forgotten_before_memory_is_full(self, monkeypatch):
        monkeypatch.setattr("regard.data.tokenizers.characters_and_words.MOST_COUNTED", 10)
        corpus = [Pair(f"often word{i}", f"often term{i}") for i in range(50)]
        assert trained("words", vocabulary=5, corpus=corpus).source.pieces([4]) == ["often"]

    @pytest.mark.parametrize("kind", SUBWORDS)
    def test_long_texts_are_learnt_from(self, kind):
        corpus = [Pair("hippopotamus " * 2000, "x")]
        assert len(trained(kind, vocabulary=400, corpus=corpus).source.encode("hippopotamus")) <= 3

    def test_a_sample_of_a_large_corpus(self, monkeypatch):
        monkeypatch.setattr(tokenizers, "SAMPLE", 100)
        corpus = [Pair(str(i), "x") for i in range(2000)]
        first, again, other = (tokenizers._sample(corpus, seed) for seed in (1, 1, 2))
        assert first == again != other
        assert len({pair.source for pair in first}) == 100
        assert 800 < np.mean([int(pair.source) for pair in first]) < 1200

    @pytest.mark.parametrize("kind", kinds)
    @pytest.mark.parametrize("joint", [True, False])
    def test_a_corpus_that_can_be_read_once(self, kind, joint):
        assert trained(kind, joint, corpus=iter(CORPUS)).fingerprint == trained(kind, joint).fingerprint

    @pytest.mark.parametrize("kind", kinds)
    def test_nothing_to_learn_from(self, kind):
        with pytest.raises(DataError) as caught:
            trained(kind, corpus=[])
        assert str(caught.value) == "There is no text to learn a vocabulary from."

    def test_wrong_settings(self):
        with pytest.raises(ConfigError) as caught:
            trained("bpe", vocabulary=200)
        assert str(caught.value) == (
            "tokenizer.vocabulary is 200, but bpe needs at least 300: 4 special tokens and 256 bytes come first."
        )
        with pytest.raises(ConfigError) as caught:
            trained("words", vocabulary=4)
        assert (
            str(caught.value) == "tokenizer.vocabulary is 4, but words needs at least 5: 4 special tokens come first."
        )
        with pytest.raises(ConfigError) as caught:
            trained("word")
        assert str(caught.value) == (
            "No tokenizer named 'word'. Did you mean 'words'? (regard list tokenizers shows all)"
        )

    def test_another_kind_for_the_target(self, tmp_path):
        corpus = [Pair("ABC", "AH B"), Pair("CA", "K AH")]
        for source, target in (("characters", "words"), ("bpe", "words"), ("characters", "unigram")):
            config = TokenizerConfig(source, 400, joint=False, target_kind=target)
            both = train_tokenizers(config, iter(corpus), 1)
            assert (both.source.kind, both.target.kind, both.joint) == (source, target, False)
            assert both.target.decode(both.target.encode("K AH B")) == "K AH B"
            alone = [trained(kind, False, 400, corpus) for kind in (source, target)]
            assert both.source.to_bytes() == alone[0].source.to_bytes()
            assert both.target.to_bytes() == alone[1].target.to_bytes()
            both.save(tmp_path)
            assert Tokenizers.load(tmp_path).fingerprint == both.fingerprint
            assert Tokenizers.load(tmp_path).target.kind == target

    def test_kinds_that_do_not_go_together(self):
        def wrong(**settings):
            with pytest.raises(ConfigError) as caught:
                train_tokenizers(TokenizerConfig(**settings), CORPUS, 1)
            return str(caught.value)

        assert wrong(kind="characters", target_kind="words") == (
            "tokenizer.target_kind=words beside tokenizer.kind=characters makes two vocabularies, but "
            "tokenizer.joint=true asks for one: set tokenizer.joint=false."
        )
        assert wrong(kind="words", target_kind="bpe", vocabulary=50, joint=False) == (
            "tokenizer.vocabulary is 50, but bpe needs at least 300: 4 special tokens and 256 bytes come first."
        )
        assert wrong(kind="words", target_kind="letters", joint=False) == (
            "No tokenizer named 'letters'. (regard list tokenizers shows all)"
        )
        assert train_tokenizers(TokenizerConfig("words", target_kind="words"), CORPUS, 1).joint

    @pytest.mark.parametrize("kind", kinds)
    @pytest.mark.parametrize("joint", [True, False])
    def test_without_sources(self, kind, joint):
        """A language model has the vocabulary of what it writes, and its source is nothing."""
        both = trained(kind, joint, corpus=[Pair("", pair.target) for pair in CORPUS])
        assert both.target.to_bytes() == trained(kind, False).target.to_bytes()
        assert both.joint
        assert both.source.encode("") == []

    def test_silence(self, capfd):
        trained("bpe")
        trained("unigram")
        assert capfd.readouterr() == ("", "")


class TestFolders:
    @pytest.mark.parametrize("kind", kinds)
    @pytest.mark.parametrize("joint", [True, False])
    def test_saved_and_loaded(self, kind, joint, tmp_path):
        made = trained(kind, joint)
        made.save(tmp_path)
        loaded = Tokenizers.load(tmp_path)
        assert loaded.joint == joint
        assert loaded.fingerprint == made.fingerprint
        for side in ("source", "target"):
            text = CORPUS[-2].source
            before, after = getattr(made, side), getattr(loaded, side)
            assert (before.kind, before.size, before.encode(text)) == (after.kind, after.size, after.encode(text))

    def test_a_joint_one_replaced_by_two(self, tmp_path):
        trained("bpe", True).save(tmp_path)
        two = trained("bpe", False)
        two.save(tmp_path)
        assert Tokenizers.load(tmp_path).fingerprint == two.fingerprint

    def wrong(self, folder):
        with pytest.raises(ModelError) as caught:
            Tokenizers.load(folder)
        return str(caught.value).replace(str(folder), "model")

    def test_missing(self, tmp_path):
        assert self.wrong(tmp_path) == "model/tokenizer.json is missing: model is not a model folder, or is incomplete."

    def test_missing_model(self, tmp_path):
        trained("bpe").save(tmp_path)
        (tmp_path / "joint.model").unlink()
        assert self.wrong(tmp_path) == (
            "Cannot read model/joint.model, which tokenizer.json names: no such file or directory."
        )

    @pytest.mark.parametrize("kind", ["bpe", "words"])
    def test_damaged_vocabulary(self, tmp_path, kind):
        trained(kind).save(tmp_path)
        path = next(path for path in tmp_path.iterdir() if path.name.startswith("joint"))
        path.write_bytes(path.read_bytes()[:-10])
        assert self.wrong(tmp_path) == (
            f"model/{path.name} is not the file that tokenizer.json was written with. Copy the model folder again."
        )

    @pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"kind": "bpe"}', '{"kind": "x", "joint": {}}', "\xff"])
    def test_damaged_index(self, tmp_path, content):
        (tmp_path / "tokenizer.json").write_text(content, encoding="latin-1")
        assert self.wrong(tmp_path) == ("model/tokenizer.json is damaged. Copy the model folder again, or train anew.")

    @pytest.mark.parametrize(
        ("kind", "content", "why"),
        [
            ("bpe", b"nonsense", "not a SentencePiece model that regard made"),
            ("unigram", b"", "not a SentencePiece model that regard made"),
            ("words", b"[1, 2]", "not a list of units"),
            ("words", b'["a", "a"]', "a unit is there twice"),
        ],
    )
    def test_another_kind_of_file(self, tmp_path, kind, content, why):
        from hashlib import sha256

        (tmp_path / "x").write_bytes(content)
        index = {"kind": kind, "joint": {"file": "x", "sha256": sha256(content).hexdigest()}}
        (tmp_path / "tokenizer.json").write_text(json.dumps(index))
        assert self.wrong(tmp_path) == f"model/x holds no {kind} vocabulary: {why}."

    def test_files_are_taken_from_the_folder_alone(self, tmp_path):
        trained("words").save(tmp_path)
        path = tmp_path / "tokenizer.json"
        path.write_text(path.read_text().replace("joint.vocabulary.json", "../joint.vocabulary.json"))
        assert Tokenizers.load(tmp_path).source.size > 4
