"""Argos packages hold what Argos Translate reads; bench/argos.py runs them there."""

import json
import zipfile
from itertools import pairwise

import numpy as np
import pytest

from regard.cli.export import export as export_command
from regard.config import Config, DataConfig
from regard.data.tokenizers import BytePairs, Tagged, Tokenizers, Words
from regard.decoding.translator import Translator
from regard.errors import ConfigError

ctranslate2 = pytest.importorskip("ctranslate2", reason="pip install 'regard[export]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="pip install 'regard[export]'")
import sentencepiece  # noqa: E402

from export.test_ctranslate2 import write_folder  # noqa: E402
from regard.export.argos_package import Languages, export_argos, languages_of  # noqa: E402
from regard.export.argos_sentence_splitter import sentence_splitter  # noqa: E402

ENGLISH = ["the red dress is old", "a cat sleeps"] * 9
FRENCH = ["la robe rouge est vieille", "un chat dort déjà"] * 9
PAIR = Languages("en", "fr")


@pytest.fixture(scope="module")
def sides():
    return BytePairs.train(ENGLISH, 320), BytePairs.train(FRENCH, 330)


@pytest.mark.parametrize("joint", [True, False])
def test_the_package_translates_by_its_own_files(joint, sides, tmp_path):
    source, target = (sides[0], sides[0]) if joint else sides
    folder = write_folder(tmp_path / "m", ("tie=all",) if joint else (), Tokenizers(source, target))
    written = export_argos(folder, tmp_path / "en-fr", PAIR, quantization="float32")
    assert written.folder == tmp_path / "en-fr.argosmodel"
    with zipfile.ZipFile(written.folder) as archive:
        archive.extractall(tmp_path / "packages")
    (package,) = (tmp_path / "packages").iterdir()
    assert package.name == "translate-en_fr"
    metadata = json.loads((package / "metadata.json").read_text())
    named = {"from_code": "en", "from_name": "English", "to_code": "fr", "to_name": "French"}
    assert metadata.items() >= named.items()
    # What Argos does with them: one SentencePiece model for both sides.
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(package / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(package / "model"), device="cpu", compute_type="float32")
    found = translator.translate_batch(
        [pieces.encode("the red cat sleeps", out_type=str)], beam_size=5, length_penalty=0, max_decoding_length=9
    )
    text = pieces.decode_pieces(found[0].hypotheses[0]).replace("▁", " ").removeprefix(" ")
    assert text == Translator.load(folder).translate(["the red cat sleeps"], beam=5)[0].text != ""
    assert "package.install_from_path('en-fr.argosmodel')" in (package / "README.md").read_text()


def refused(call, *args, **given):
    with pytest.raises(ConfigError) as raised:
        call(*args, **given)
    return str(raised.value)


def test_what_a_package_has_no_place_for(sides, tmp_path):
    words = Words(["a", "b"])
    folder = write_folder(tmp_path / "words", ("tie=all",), Tokenizers(words, words))
    assert refused(export_argos, folder, tmp_path / "out", PAIR) == (
        "Argos packages hold a SentencePiece model, but tokenizer.kind is words: only bpe or unigram can be packed. "
        "Use --format ctranslate2, or export it to ONNX."
    )
    tagged = Tokenizers(Tagged(sides[0], ["de", "fr"]), Tagged(sides[0], ["de", "fr"], reads=False))
    folder = write_folder(tmp_path / "tagged", ("tie=all",), tagged)
    assert refused(export_argos, folder, tmp_path / "out", PAIR) == (
        "An Argos package translates between two languages, but this model writes several, by tags (de, fr), which "
        "Argos cannot put before a source. Use --format ctranslate2."
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tagged", "words"]


def test_a_package_is_replaced_only_when_asked(sides, tmp_path):
    folder, out = write_folder(tmp_path / "m", ("tie=all",), Tokenizers(sides[0], sides[0])), tmp_path / "p.argosmodel"
    out.write_text("mine")
    said = f"{out} already exists. Replace it with --overwrite, or give another name."
    assert refused(export_command, folder, out, format="argos", from_language="en", to_language="fr") == said
    assert out.read_text() == "mine"
    export_command(folder, out, format="argos", from_language="en", to_language="fr", overwrite=True)
    assert zipfile.is_zipfile(out)
    (tmp_path / "q.argosmodel").mkdir()
    said = f"{tmp_path / 'q.argosmodel'} is a folder; an Argos package is a file: give another name."
    assert refused(export_argos, folder, tmp_path / "q", PAIR) == said


def test_languages_are_given_or_known():
    assert refused(languages_of, Config(), "en", "") == (
        "An Argos package names its languages, but this model does not know them: give --to-language CODE, such as "
        "--to-language fr."
    )
    said = "--from-language takes the ISO 639 code of a language, such as en or pt-BR; got 'English'."
    assert refused(languages_of, Config(), "English", "fr") == said
    known = Config(data=DataConfig(from_language=("de",), to_language="pt-BR"))
    assert languages_of(known, "", "") == ("de", "pt-BR")
    assert languages_of(known, "", "en") == ("de", "en")
    several = Config(data=DataConfig(from_language=("de", "nl"), to_language="en"))
    assert "give --from-language CODE" in refused(languages_of, several, "", "")


@pytest.fixture(scope="module")
def split():
    """Split a text as MiniSBD does: characters to numbers, and a cut after each that ends a sentence."""
    session = onnxruntime.InferenceSession(sentence_splitter())
    told = session.get_modelmeta().custom_metadata_map
    numbers, features = json.loads(told["vocab"])["_unit2id"], json.loads(told["config"])["feat_funcs"]
    assert features == ["capitalized"]

    def cut(text):
        units = np.array([[numbers.get(each, numbers["<UNK>"]) for each in text] + [numbers["<PAD>"]]])
        capitals = np.array([[[float(each.isupper())] for each in text] + [[0.0]]], np.float32)
        (scores,) = session.run(None, {"units": units, "features": capitals})
        ends = [place + 1 for place in np.flatnonzero(scores.argmax(axis=2)[0] == 2)]
        borders = pairwise([0, *ends, len(text)])
        return [part for one, other in borders if (part := text[one:other].strip())]

    return cut


@pytest.mark.parametrize(
    "sentences",
    [
        ["The cat sleeps.", "The dog runs!", "Does it?", "Yes."],
        ["He met J. S. Bach.", "It was 3.5 km (or more).", "“Good.”", "He left …", "“Well?” 3 of them stayed"],
        ["e.g. this one stays. and this"],
        ["¿Qué?", "¡No!", "Él dijo «sí».", "Fin"],
        ["see www.example.com. Then."],
        ["I", "A. B"],
        ["..."],
        ["What?!", "No..."],
    ],
)
def test_sentences_are_split_by_the_rules(split, sentences):
    if sentences[0] in (
        "I",
        "see www.example.com. Then.",
    ):  # a capital alone is an initial; "com. Then" ends a sentence
        sentences = {"I": ["I A. B"]}.get(sentences[0], ["see www.example.com.", "Then."])
    assert split(" ".join(sentences)) == sentences


def test_full_stops_of_scripts_without_capitals_end_sentences(split):
    assert split("今日は。明日は！「はい。」終わり") == ["今日は。", "明日は！", "「はい。」", "終わり"]
    assert split("वह सोता है। वह जागता है।") == ["वह सोता है।", "वह जागता है।"]
