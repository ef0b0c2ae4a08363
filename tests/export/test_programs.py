"""The programs that are shipped read texts and pictures as the package does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from regard.data.image_files import read_image
from regard.data.pictures import in_channels
from regard.data.tokenizers import Characters, Spelled, Tagged, Tokenizers, Words
from regard.data.tokenizers.subwords import BytePairs
from regard.errors import DataError
from regard.runtime.pixels import read_picture
from regard.runtime.tokenizer import Tokenizer

TEXTS = ("the red dress", " two  spaces ", "▁ \ufdd0 \ufdd0\ufdd1▁", "naïve 😀 \u0301", "red\tdress", "")


@pytest.fixture(scope="module")
def pieces():
    return BytePairs.train(["the red dress", "a red cat", "the cat"] * 5, 300)


@pytest.mark.parametrize("kind", ["pieces", "characters", "words", "spelled", "tagged"])
def test_texts_become_the_same_tokens_and_tokens_the_same_texts(kind, pieces, tmp_path):
    plain = {"characters": Characters("tehrds"), "words": Words(["the", "red", "dress"])}.get(kind, pieces)
    plain = Spelled([" ", *"tehrd", " the", " red"]) if kind == "spelled" else plain
    tags = ["de", "fr"] if kind == "tagged" else []
    own = Tagged(plain, tags) if tags else plain
    Tokenizers(plain, plain).save(tmp_path)
    file = "joint.vocabulary.json" if plain.kind in ("characters", "words", "spelled") else "joint.model"
    shipped = Tokenizer({"kind": plain.kind, "file": file, "size": own.size, "tags": tags}, tmp_path)
    for text in (f"<2fr> {text}" for text in TEXTS) if tags else TEXTS:
        if text.strip() or not tags:
            assert shipped.encode(text) == own.encode(text)
            tokens = own.encode(text)
            assert shipped.decode([2, *tokens, 3, 0]) == own.decode(tokens)
            for shown in ("pieces", "surfaces", "words"):
                assert getattr(shipped, shown)([*tokens, 3]) == getattr(own, shown)([*tokens, 3])


@pytest.fixture(scope="module")
def spelled(tmp_path_factory):
    own, folder = Spelled([" ", *"ab", " a", " ba", " <unk>"]), tmp_path_factory.mktemp("spelled")
    Tokenizers(own, own).save(folder)
    told = {"kind": "spelled", "file": "joint.vocabulary.json", "size": own.size, "tags": []}
    return own, Tokenizer(told, folder)


@pytest.fixture(scope="module")
def joined(pieces, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pieces")
    Tokenizers(pieces, pieces).save(folder)
    return pieces, Tokenizer({"kind": "bpe", "file": "joint.model", "size": pieces.size, "tags": []}, folder)


@given(text=st.text("ab c", max_size=9) | st.text(max_size=9))
def test_any_text_is_spelled_as_the_package_spells_it(spelled, text):
    own, shipped = spelled
    assert shipped.encode(text) == own.encode(text)
    assert shipped.decode(shipped.encode(text)) == own.decode(own.encode(text))


@given(tokens=st.lists(st.integers(0, 9), max_size=9))
def test_any_tokens_are_written_as_the_package_writes_them(spelled, tokens):
    own, shipped = spelled
    assert shipped.decode(tokens) == own.decode(tokens)
    assert shipped.surfaces(tokens) == own.surfaces(tokens)
    assert shipped.words(tokens) == own.words(tokens)


@given(tokens=st.lists(st.integers(0, 299), max_size=9) | st.lists(st.integers(4, 259), max_size=9))
def test_subwords_and_bytes_are_shown_as_the_package_shows_them(joined, tokens):
    own, shipped = joined
    tokens = [token % own.size for token in tokens]
    for shown in ("pieces", "surfaces", "words"):
        assert getattr(shipped, shown)(tokens) == getattr(own, shown)(tokens)


def test_a_tag_is_asked_for(pieces, tmp_path):
    Tokenizers(pieces, pieces).save(tmp_path)
    told = {"kind": "bpe", "file": "joint.model", "size": pieces.size + 1, "tags": ["de"]}
    with pytest.raises(
        DataError, match=r"A text has to begin with the tag of the language to write \(<2de>\): <2fr> cat"
    ):
        Tokenizer(told, tmp_path).encode("<2fr> cat")


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "LA", "P", "CMYK", "1", "I;16"])
@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_of_every_kind_become_the_same_pixels(mode, channels, tmp_path):
    noise = np.random.default_rng(1).integers(0, 256, (29, 23, 4), dtype=np.uint8)
    whole = Image.fromarray(noise)
    if mode == "I;16":
        whole = Image.fromarray(noise[..., 0].astype(np.uint16) * 257)
    elif mode != "RGBA":
        whole = whole.convert(mode)
    path, exif = tmp_path / f"picture.{'jpg' if mode == 'CMYK' else 'png'}", Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    whole.save(path, exif=exif)
    shipped = read_picture(path, {"kind": "patches", "size": 11, "channels": channels})["pixels"]
    np.testing.assert_array_equal(shipped, in_channels(read_image(path, 11)[None], channels))
