"""SentencePiece's two subword tokenizers: byte pair encoding (Sennrich et al. 2016) and the unigram model (Kudo 2018).
Text that no subword covers falls back to bytes, so nothing is unknown.

Nothing is normalised: `decode(encode(text)) == text` for every text.
"""

import io
import re
import sys
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from regard.data.special_tokens import BOS, EOS, MARKS, PAD, UNK
from regard.data.tokenizers.base import Learned, is_mark, kinds
from regard.data.tokenizers.subword_sampling import Cutter, DroppedMerges, Inventory, SampledPaths
from regard.errors import DataError
from regard.sentencepiece_file import open_model_file

_SPACE: Final = "▁"
"""SentencePiece uses `▁` for a space, so a literal `▁` would decode to a space. It is escaped by a Unicode
noncharacter, which is itself escaped by doubling."""
_ESCAPE: Final = "\ufdd0"
_ESCAPED_SPACE: Final = "\ufdd0\ufdd1"

_THREADS: Final = 4
"""The unigram trainer's sums depend on the number of threads: a fixed number gives the same result everywhere."""
_LONGEST: Final = 1_000
"""In characters. SentencePiece would skip texts of more than 4192 bytes, so longer ones are split for training."""
_BYTES: Final = 256
_UNUSUAL: Final = "  ﬁ Ａ\u0301e\u200b … "
"""What any normalisation would change."""
_BOUNDARY: Final = "\t"
"""A character that SentencePiece's trainer treats as a boundary between subwords, and never learns itself."""
_AT_ONCE: Final = 10_000
"""Texts whose characters are counted at a time."""
_REMEMBERED: Final = 1 << 16
"""Words whose segmentations are cached, about 15 MB at most: they cover nearly all of a text."""
_LONGEST_REMEMBERED: Final = 40
"""In characters; a longer word is probably a text without spaces, which does not recur."""


class Subwords(Learned):
    """A SentencePiece tokenizer; `model` is the content of its .model file."""

    def __init__(self, model: bytes) -> None:
        self._model = model
        self._processor = open_model_file(model)
        self._bytes = {len(MARKS) + byte: byte for byte in range(_BYTES)}

    @property
    def size(self) -> int:
        """The vocabulary size: subwords, bytes and special tokens."""
        return int(self._processor.get_piece_size())

    @property
    def control_ids(self) -> tuple[int, ...]:
        """The ids of control bytes other than white space; texts that have them often have learned subwords instead."""
        return tuple(i for i, byte in self._bytes.items() if (byte < 32 and byte not in b"\t\n\r") or byte == 127)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode texts on all CPU cores."""
        return self._processor.encode([_escape(text) for text in texts], out_type=int)  # type: ignore[no-any-return]

    def decode(self, ids: Sequence[int]) -> str:
        """Join subwords; invalid bytes become �."""
        return _unescape(self._processor.decode([int(i) for i in ids if not is_mark(i)]))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the subwords, ▁ for a space, bytes as <0xC3>."""
        return [self._shown[i] for i in ids]

    def surfaces(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each id; a character spelled in bytes belongs to its first byte, the others are empty."""
        surfaces = [self._surfaces[i] for i in ids]
        for start, end in _runs([i in self._bytes for i in ids]):
            surfaces[start:end] = _spread(bytes(self._bytes[i] for i in ids[start:end]))
        return surfaces

    def spell(self, token: int) -> bytes:
        """Return the byte, or the subword as in the model: still escaped, since an escape may span two subwords."""
        if token in self._bytes:
            return bytes([self._bytes[token]])
        return b"" if is_mark(token) else self._processor.id_to_piece(token).replace(_SPACE, " ").encode()

    @property
    def keeps_texts(self) -> bool:
        """Whether texts are segmented as they are: so in all models trained here; others may normalise them."""
        kept = _SPACE + _UNUSUAL.replace(" ", _SPACE)
        return bool(self._processor.normalize(_UNUSUAL) == kept)

    @cached_property
    def raw_pieces(self) -> list[str]:
        """The subwords as SentencePiece has them, `▁` in a text still escaped; no two are the same."""
        return [self._processor.id_to_piece(i) for i in range(self.size)]

    @cached_property
    def _shown(self) -> list[str]:
        """The display form of each id."""
        return [_unescape(piece) for piece in self.raw_pieces]

    @cached_property
    def _surfaces(self) -> list[str]:
        """The text of each id by itself."""
        pieces = (self._processor.id_to_piece(i) for i in range(self.size))
        return ["" if is_mark(i) else _unescape(piece.replace(_SPACE, " ")) for i, piece in enumerate(pieces)]

    def to_bytes(self) -> bytes:
        """Return the content of the .model file."""
        return self._model

    @property
    def byte_ids(self) -> Collection[int]:
        """The ids of single bytes."""
        return self._bytes.keys()

    @cached_property
    def inventory(self) -> Inventory:
        """All subwords with their scores."""
        special = (self._processor.is_control, self._processor.is_unknown, self._processor.is_byte)
        texts = ["" if any(one(i) for one in special) else self._processor.id_to_piece(i) for i in range(self.size)]
        return Inventory(tuple(texts), np.array([self._processor.get_score(i) for i in range(self.size)]))

    @cached_property
    def _within_words(self) -> bool:
        return not any(_SPACE in piece.lstrip(_SPACE) for piece in self.inventory.texts)

    @property
    def starts_word(self) -> tuple[bool, ...]:
        """Whether each id starts a word that is segmented independently; all False if subwords can cross words."""
        return tuple(self._within_words and piece.startswith(_SPACE) for piece in self.inventory.texts)

    @abstractmethod
    def cutter(self, words: Sequence[Sequence[int]], sampling: float) -> Cutter:
        """Return a sampler of segmentations (`tokenizer.sampling`) of words, given by their default ids."""

    @classmethod
    def from_bytes(cls, content: bytes) -> "Subwords":
        """Read the content of a .model file."""
        return cls(content)

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary: int) -> "Subwords":
        """Learn subwords. If the texts do not yield enough, the vocabulary is smaller."""
        texts = [part for text in texts for part in _parts(_escape(text))]
        if not texts:
            raise DataError("There is no text to learn a vocabulary from.")
        model = io.BytesIO()
        _run_trainer(
            sentence_iterator=_without_rare(texts, (vocabulary - len(MARKS) - _BYTES) // 2),
            model_writer=model,
            model_type=cls.kind,
            vocab_size=vocabulary,
        )
        return cls(model.getvalue())


@kinds.register("bpe")
class BytePairs(Subwords):
    """Repeatedly merges the most frequent pair of symbols (Sennrich et al. 2016).

    Subwords do not cross words, so the segmentation of a text is that of its words, and each distinct word needs to be
    segmented only once. (This does not quite hold for the unigram model: between equally probable segmentations of a
    word it decides by the rounding of the sum over the preceding words.)
    """

    kind = "bpe"

    def __init__(self, model: bytes) -> None:
        super().__init__(model)
        self._packed = _PackedWords(self._processor, "<i4")

    def cutter(self, words: Sequence[Sequence[int]], sampling: float) -> Cutter:
        """Return BPE-dropout with a dropout probability of `sampling`."""
        return DroppedMerges(self.inventory, words, sampling)

    def pack(self, texts: Sequence[str], dtype: str) -> list[bytes]:
        """Split texts into words, which is fast, and segment only words that are not in the cache."""
        if not self._within_words:
            return super().pack(texts, dtype)
        if self._packed.dtype != dtype:
            self._packed = _PackedWords(self._processor, dtype)
        packed = self._packed.__getitem__
        return [b"".join(map(packed, text.split(" "))) if _single_spaced(text) else packed(text) for text in texts]


class _PackedWords(dict[str, bytes]):
    """A cache of the raw ids of words, filled on access."""

    def __init__(self, processor: Any, dtype: str) -> None:
        super().__init__()
        self.dtype = dtype
        self._processor = processor

    def __missing__(self, word: str) -> bytes:
        packed = np.array(self._processor.encode(_escape(word), out_type=int), self.dtype).tobytes()
        if len(self) < _REMEMBERED and len(word) <= _LONGEST_REMEMBERED:
            self[word] = packed
        return packed


def _single_spaced(text: str) -> bool:
    """Return whether each space of a text starts a word, as SentencePiece assumes."""
    return "  " not in text and not text.startswith(" ") and not text.endswith(" ")


@kinds.register("unigram")
class Unigram(Subwords):
    """Keeps the subwords of a unigram language model with the highest likelihood of the texts (Kudo 2018)."""

    kind = "unigram"

    def cutter(self, words: Sequence[Sequence[int]], sampling: float) -> Cutter:
        """Return a sampler with probabilities to the power of `sampling`: closer to 0 is closer to uniform."""
        return SampledPaths(self.inventory, words, sampling)


def _run_trainer(**settings: Any) -> None:
    import sentencepiece

    try:
        sentencepiece.SentencePieceTrainer.train(
            **settings,
            hard_vocab_limit=False,
            byte_fallback=True,
            character_coverage=1.0,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            unk_surface=MARKS[UNK],
            num_threads=_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise DataError(
            f"SentencePiece cannot learn {settings['model_type']} subwords from this corpus: {error}"
        ) from None


def _without_rare(texts: Sequence[str], most: int) -> Iterator[str]:
    """Yield the texts with only the most frequent characters; others fall back to bytes, to leave room for subwords.

    SentencePiece's own option, character_coverage, cannot leave out more than 2 % of the text.
    """
    counts = np.zeros(sys.maxunicode + 1, np.int64)
    for start in range(0, len(texts), _AT_ONCE):
        joined = "".join(texts[start : start + _AT_ONCE]).encode("utf-32-le", "surrogatepass")
        counts += np.bincount(np.frombuffer(joined, "<u4"), minlength=len(counts))
    characters = np.flatnonzero(counts)
    ranked = characters[np.argsort(-counts[characters], kind="stable")]
    rare = dict.fromkeys(ranked[most:].tolist(), _BOUNDARY)
    return (text.translate(rare) for text in texts) if rare else iter(texts)


def _escape(text: str) -> str:
    if _SPACE in text or _ESCAPE in text:
        return text.replace(_ESCAPE, _ESCAPE + _ESCAPE).replace(_SPACE, _ESCAPED_SPACE)
    return text


def _unescape(text: str) -> str:
    if _ESCAPE in text:
        return re.sub(f"{_ESCAPE}([\ufdd0\ufdd1])", lambda found: _ESCAPE if found[1] == _ESCAPE else _SPACE, text)
    return text


def _parts(text: str) -> Iterator[str]:
    return (text[start : start + _LONGEST] for start in range(0, len(text), _LONGEST))


def _runs(flags: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each run of true flags."""
    start = None
    for place, flag in enumerate([*flags, False]):
        if flag and start is None:
            start = place
        elif not flag and start is not None:
            yield start, place
            start = None


def _spread(spelt: bytes) -> list[str]:
    surfaces = []
    for character in spelt.decode("utf-8", "surrogateescape"):
        length = len(character.encode("utf-8", "surrogateescape"))
        surfaces += [character if length > 1 or character.isascii() else "\ufffd", *[""] * (length - 1)]
    return surfaces
