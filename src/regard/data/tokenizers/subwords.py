"""SentencePiece's two ways to cut words into pieces: byte pair encoding (Sennrich et al. 2016) and the unigram model
(Kudo 2018). What no piece covers is spelt in bytes, so there is no unknown text.

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

_SPACE: Final = "▁"
"""SentencePiece writes this for a space, and so would give a space back for it. It is escaped, by means of a
character that Unicode reserves for the inside of programs; this in turn is escaped by doubling it."""
_ESCAPE: Final = "\ufdd0"
_ESCAPED_SPACE: Final = "\ufdd0\ufdd1"

_THREADS: Final = 4
"""The sums of the unigram model depend on how its work is shared out: a fixed number gives one result everywhere."""
_LONGEST: Final = 1_000
"""Characters. SentencePiece would leave out what is longer than 4192 bytes: longer texts are learnt from in parts."""
_BYTES: Final = 256
_BOUNDARY: Final = "\t"
"""What SentencePiece takes for the end of a piece when it learns, and never learns itself."""
_FOREIGN: Final = "not a SentencePiece model that regard made"
_AT_ONCE: Final = 10_000
"""Texts whose characters are counted in one go."""
_REMEMBERED: Final = 1 << 16
"""Words whose pieces are kept, some 15 MB at most: nearly all of a text is made of fewer."""
_LONGEST_REMEMBERED: Final = 40
"""Characters; a longer word is likely to be a text without spaces, which does not come again."""


class Subwords(Learned):
    """A SentencePiece model; `model` is the content of its .model file."""

    def __init__(self, model: bytes) -> None:
        import sentencepiece

        self._model = model
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError:
            raise ValueError(_FOREIGN) from None
        marks = (self._processor.pad_id(), self._processor.unk_id(), self._processor.bos_id(), self._processor.eos_id())
        if marks != (PAD, UNK, BOS, EOS):
            raise ValueError(_FOREIGN)
        self._bytes = {i: i - len(MARKS) for i in range(self.size) if self._processor.is_byte(i)}

    @property
    def size(self) -> int:
        """Count the pieces, the bytes and the marks."""
        return int(self._processor.get_piece_size())

    @property
    def control_ids(self) -> tuple[int, ...]:
        """The bytes of control characters other than white space: where texts have such, they are pieces."""
        return tuple(i for i, byte in self._bytes.items() if (byte < 32 and byte not in b"\t\n\r") or byte == 127)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Cut texts into pieces, on all processors at once."""
        return self._processor.encode([_escape(text) for text in texts], out_type=int)  # type: ignore[no-any-return]

    def decode(self, ids: Sequence[int]) -> str:
        """Put pieces together; bytes that make no character read �."""
        return _unescape(self._processor.decode([int(i) for i in ids if not is_mark(i)]))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Show the piece, ▁ for a space; a byte as <0xC3>."""
        return [self._shown[i] for i in ids]

    def surfaces(self, ids: Sequence[int]) -> list[str]:
        """Text of bytes goes to the first byte of each character; the others add nothing."""
        surfaces = [self._surfaces[i] for i in ids]
        for start, end in _runs([i in self._bytes for i in ids]):
            surfaces[start:end] = _spread(bytes(self._bytes[i] for i in ids[start:end]))
        return surfaces

    def spell(self, token: int) -> bytes:
        """Give the byte, or the piece as the model has it: what is escaped stays so, since it may take two pieces."""
        if token in self._bytes:
            return bytes([self._bytes[token]])
        return b"" if is_mark(token) else self._processor.id_to_piece(token).replace(_SPACE, " ").encode()

    @cached_property
    def _shown(self) -> list[str]:
        """How each id is shown."""
        return [_unescape(self._processor.id_to_piece(i)) for i in range(self.size)]

    @cached_property
    def _surfaces(self) -> list[str]:
        """What each id adds by itself."""
        pieces = (self._processor.id_to_piece(i) for i in range(self.size))
        return ["" if is_mark(i) else _unescape(piece.replace(_SPACE, " ")) for i, piece in enumerate(pieces)]

    def to_bytes(self) -> bytes:
        """Give the content of the .model file."""
        return self._model

    @property
    def byte_ids(self) -> Collection[int]:
        """The ids that stand for one byte each."""
        return self._bytes.keys()

    @cached_property
    def inventory(self) -> Inventory:
        """All pieces with their scores."""
        special = (self._processor.is_control, self._processor.is_unknown, self._processor.is_byte)
        texts = ["" if any(one(i) for one in special) else self._processor.id_to_piece(i) for i in range(self.size)]
        return Inventory(tuple(texts), np.array([self._processor.get_score(i) for i in range(self.size)]))

    @cached_property
    def _within_words(self) -> bool:
        return not any(_SPACE in piece.lstrip(_SPACE) for piece in self.inventory.texts)

    @property
    def starts_word(self) -> tuple[bool, ...]:
        """Whether each id begins a word that is cut by itself; none does where a piece goes on past a word's end."""
        return tuple(self._within_words and piece.startswith(_SPACE) for piece in self.inventory.texts)

    @abstractmethod
    def cutter(self, words: Sequence[Sequence[int]], sampling: float) -> Cutter:
        """Return what cuts words in other ways (`tokenizer.sampling`); they are given by the ids of their usual one."""

    @classmethod
    def from_bytes(cls, content: bytes) -> "Subwords":
        """Read the content of a .model file."""
        return cls(content)

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary: int) -> "Subwords":
        """Learn pieces. Where the texts do not yield as many as asked for, the vocabulary is smaller."""
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
    """Merges the pair of pieces that is most frequent, again and again (Sennrich et al. 2016).

    No piece goes on past the end of a word, so the merges of one word have no part in those of another: the pieces of a
    text are those of its words, and a word needs to be cut only once. (Of the unigram model this is not quite true:
    between two ways to cut a word that are equally probable, it decides by how the sum over the words before rounds.)
    """

    kind = "bpe"

    def __init__(self, model: bytes) -> None:
        super().__init__(model)
        self._packed = _PackedWords(self._processor, "<i4")

    def cutter(self, words: Sequence[Sequence[int]], sampling: float) -> Cutter:
        """Leave merges out with a probability of `sampling` (BPE-dropout)."""
        return DroppedMerges(self.inventory, words, sampling)

    def pack(self, texts: Sequence[str], dtype: str) -> list[bytes]:
        """Cut texts into words, which is quick, and into pieces only those words that did not come before."""
        if not self._within_words:
            return super().pack(texts, dtype)
        if self._packed.dtype != dtype:
            self._packed = _PackedWords(self._processor, dtype)
        packed = self._packed.__getitem__
        return [b"".join(map(packed, text.split(" "))) if _single_spaced(text) else packed(text) for text in texts]


class _PackedWords(dict[str, bytes]):
    """The pieces of words, as raw numbers; what is not there yet is cut into pieces when it is asked for."""

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
    """Tell whether each space of a text is the start of a word, as SentencePiece has it."""
    return "  " not in text and not text.startswith(" ") and not text.endswith(" ")


@kinds.register("unigram")
class Unigram(Subwords):
    """Keeps the pieces whose probabilities explain the texts best (Kudo 2018)."""

    kind = "unigram"

    def cutter(self, words: Sequence[Sequence[int]], sampling: float) -> Cutter:
        """Draw by the probability of each way to the power of `sampling`: the nearer to 0, the more alike are all."""
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
            f"SentencePiece cannot learn {settings['model_type']} pieces from this corpus: {error}"
        ) from None


def _without_rare(texts: Sequence[str], most: int) -> Iterator[str]:
    """Keep the commonest characters and leave the others to the bytes: the pieces need room in the vocabulary too.

    SentencePiece's own way, character_coverage, cannot leave out more than a fiftieth of the text.
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
    """Yield the start and end of each stretch of true flags."""
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
