"""Corpora as streams of pairs, from files, standard input or embedded generators.

A corpus can be iterated any number of times, holds one line in memory at a time, and checks every line: an invalid one
raises a DataError that names the file and the line.
"""

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from regard.data.alignments import Counting, parse_alignment, told_counting
from regard.data.builtin_corpora import LENGTHS, SPLITS, corpora, default_size, pictured
from regard.data.line_files import STDIN, LineFile, open_lines
from regard.data.pair import Pair
from regard.errors import DataError, did_you_mean

_OBJECT = re.compile(r'\s*\{\s*["}]')
"""The start of a JSON object; a sentence may begin with a brace too."""
_RECORD = '{"source": "…", "target": "…"}'
_FORMS = "Give two parallel files, one .tsv or .jsonl file, - for standard input, or an embedded name"


class EmptyError(DataError):
    """A pair with an empty source, target or both; `pair` has what is there."""

    def __init__(self, message: str, source: str = "", target: str = "") -> None:
        super().__init__(message)
        self.pair = Pair(source, target)


class Corpus(ABC):
    """A re-iterable stream of pairs; `name` is used in messages."""

    name: str
    paired: bool = True
    """Whether pairs have a source; if not, it is empty."""
    tags: tuple[str, ...] = ()
    """The tags of sources, which select the language to write; empty for most corpora."""

    @abstractmethod
    def __iter__(self) -> Iterator[Pair]: ...

    @property
    def parts(self) -> tuple["Corpus", ...]:
        """The corpora it consists of, in the order of their pairs; itself for most corpora."""
        return (self,)

    @abstractmethod
    def identity(self) -> str:
        """Return an identifier that changes if the pairs may have changed, without reading them all."""


class FileCorpus(Corpus):
    """The base of corpora in files: checks that no pair is empty, and that the corpus is not."""

    def __init__(self, name: str, files: Sequence[LineFile]) -> None:
        self.name = name
        self.files = tuple(files)

    @abstractmethod
    def pair(self, number: int, lines: Sequence[str]) -> Pair:
        """Parse line `number` of each file as a pair; raise a DataError if it is invalid."""

    def unequal(self, number: int, lines: Sequence[object]) -> DataError:
        """Return the error for files of different lengths; counts the remaining lines for the message."""
        short = next(file for file, line in zip(self.files, lines, strict=True) if line is None)
        long = next(file for file, line in zip(self.files, lines, strict=True) if line is not None)
        count = sum(1 for _ in long.each())
        return DataError(
            f"{long.name} has {count:,} lines but {short.name} has {number - 1:,}: the files must pair line by line."
        )

    def _pairs(self) -> Iterator[Pair]:
        for number, lines in enumerate(zip_longest(*self.files), start=1):
            if None in lines:
                raise self.unequal(number, lines)
            yield self.pair(number, lines)

    def __iter__(self) -> Iterator[Pair]:
        empty = True
        for pair in self._pairs():
            empty = False
            yield pair
        if empty:
            raise self.nothing()

    def nothing(self) -> DataError:
        """Return the error for an empty corpus."""
        verb = "is" if len(self.files) == 1 else "are"
        return DataError(f"{self.name} {verb} empty: there is nothing to learn from.")

    def identity(self) -> str:
        """Cover the kind of corpus and its files."""
        return "\n".join((type(self).__name__, *(file.identity for file in self.files)))


class ParallelCorpus(FileCorpus):
    """Two parallel files, paired line by line; a third file may have the alignments."""

    def __init__(self, files: Sequence[LineFile], counting: Counting | None = None) -> None:
        super().__init__(" and ".join(file.name for file in files[:2]), files)
        self._counting = counting or Counting("")

    def identity(self) -> str:
        """Also cover how alignments count words."""
        return f"{super().identity()} {self._counting.first}"

    def pair(self, number: int, lines: Sequence[str]) -> Pair:
        """Pair the lines of both files."""
        source, target = lines[0], lines[1]
        self._check_empty(number, source, target)
        alignment = None
        if len(lines) == 3:
            first, hint = self._counting.first, self._counting.hint
            alignment = parse_alignment(lines[2], source, target, self.files[2].at(number), first, hint)
        return Pair(source, target, alignment)

    def _check_empty(self, number: int, source: str, target: str) -> None:
        if source.strip() and target.strip():
            return
        first, second = self.files[:2]
        if not source.strip() and not target.strip():
            raise EmptyError(
                f"{first.at(number)}: empty, and so is {second.at(number)}. Remove the line from both files."
            )
        empty, full = (first, second) if not source.strip() else (second, first)
        raise EmptyError(
            f"{empty.at(number)}: empty, but {full.at(number)} is not. Fill it in, or remove the line from both files.",
            source,
            target,
        )


class TsvCorpus(FileCorpus):
    """TSV: each line is source TAB target, optionally TAB alignment."""

    def pair(self, number: int, lines: Sequence[str]) -> Pair:
        """Split the columns."""
        at, columns = self.files[0].at(number), lines[0].split("\t")
        if len(columns) not in (2, 3):
            got = "no tab" if len(columns) == 1 else f"{len(columns) - 1} tabs"
            kind = DataError if lines[0].strip() else EmptyError
            raise kind(f"{at}: {got}. A line is source TAB target, or source TAB target TAB alignment.")
        _check_sides(at, columns[0], columns[1])
        alignment = parse_alignment(columns[2], columns[0], columns[1], at) if len(columns) == 3 else None
        return Pair(columns[0], columns[1], alignment)


class JsonlCorpus(FileCorpus):
    """JSONL: each line is an object with `source`, `target` and optionally `alignment`."""

    def pair(self, number: int, lines: Sequence[str]) -> Pair:
        """Parse the object."""
        at = self.files[0].at(number)
        record = parse_object(lines[0], at)
        source, target = (text_of(record, key, at) for key in ("source", "target"))
        _check_sides(at, source, target)
        alignment = None
        if record.get("alignment") is not None:
            alignment = parse_alignment(text_of(record, "alignment", at), source, target, at)
        return Pair(source, target, alignment)


class PlainText(FileCorpus):
    """Plain text for language models: each line is a target without a source; blank lines are skipped."""

    paired = False

    def pair(self, number: int, lines: Sequence[str]) -> Pair:
        """Return the line as the target."""
        return Pair("", lines[0])

    def _pairs(self) -> Iterator[Pair]:
        (file,) = self.files
        return (Pair("", line) for line in file if line.strip())


class TargetsOnly(Corpus):
    """The targets of a corpus, without the sources."""

    paired = False

    def __init__(self, corpus: Corpus) -> None:
        self.name = corpus.name
        self._corpus = corpus

    def __iter__(self) -> Iterator[Pair]:
        return (Pair("", pair.target) for pair in self._corpus)

    @property
    def parts(self) -> tuple[Corpus, ...]:
        """The targets of each part of the corpus."""
        parts = self._corpus.parts
        return (self,) if len(parts) == 1 else tuple(map(TargetsOnly, parts))

    def identity(self) -> str:
        """Distinguish the targets from the full corpus."""
        return f"{type(self).__name__}\n{self._corpus.identity()}"


class GeneratedCorpus(Corpus):
    """A corpus generated from a seed."""

    def __init__(self, name: str, split: str, size: int, seed: int) -> None:
        self.name = f"{name}:{split}:{size}"
        self._made = (name, split, size, seed)

    def __iter__(self) -> Iterator[Pair]:
        name, split, size, seed = self._made
        return corpora[name](split, size, seed)

    def identity(self) -> str:
        """Cover the first pairs, so that a release whose generator differs is noticed."""
        digest = blake2b(digest_size=16)
        for pair in islice(self, 200):
            digest.update(f"{pair.source}\t{pair.target}\t{pair.alignment}\n".encode())
        return f"{self._made} {digest.hexdigest()}"


def open_corpus(parts: Sequence[str], split: str = "train", seed: int = 1) -> Corpus:
    """Open a corpus given in any form.

    `parts` is two parallel files (and a third one with alignments: `links`, `links.talp` or `talp:links`), or one TSV
    or JSONL file, or one of plain text, or `-` for standard input, or an embedded name. An embedded name may be
    followed by a size and a split of its own: `phrasebook:20000`, `phrasebook:test:200`, `phrasebook:31-60` (by
    length); `split` and `seed` are for these alone.
    """
    if not parts:
        raise DataError(f"No corpus given. {_FORMS} ({', '.join(corpora)}).")
    if len(parts) > 3:
        raise DataError(f"A corpus of {len(parts)} files: {', '.join(parts)}. {_FORMS}.")
    if len(parts) > 1:
        return _open_parallel(parts)
    (given,) = parts
    name, *details = given.split(":")
    if name in corpora:
        return _open_embedded(given, name, details, split, seed)
    if given != STDIN and not os.path.lexists(given) and not Path(given).suffix and os.sep not in given:
        if name in pictured:
            raise DataError(
                f"{given} has pictures, and texts are read here: give files or one of {', '.join(sorted(corpora))}, or "
                "use a model that reads pictures (regard list visions)."
            )
        hint = did_you_mean(name, (*corpora, *pictured)) or did_you_mean(given, sorted(os.listdir()))
        raise DataError(
            f"No corpus {given!r}: neither a file nor one of {', '.join(sorted((*corpora, *pictured)))}.{hint}"
        )
    return _open_single(open_lines(given))


def for_model(corpus: Corpus, reads: bool) -> Corpus:
    """Return a corpus in the form a model takes: pairs if it reads a source, only the targets for a language model."""
    if reads and not corpus.paired:
        name = next(part.name for part in corpus.parts if not part.paired)
        raise DataError(
            f"{name} has one text a line, but this model needs pairs of source and target: give two parallel "
            "files, or one .tsv or .jsonl file. Plain text is for language models (model.encoder.kind=none)."
        )
    if not reads and corpus.tags:
        raise DataError(
            f"{corpus.name}: tags go before the source, and a language model (model.encoder.kind=none) reads none. "
            "Give the texts without tags."
        )
    return corpus if reads or not corpus.paired else TargetsOnly(corpus)


def _open_parallel(parts: Sequence[str]) -> Corpus:
    if STDIN in parts:
        raise DataError("Standard input (-) must be the only file: send TSV or JSONL, with source and target per line.")
    counting = told_counting(parts[2]) if len(parts) == 3 else None
    parts = (*parts[:2], counting.file) if counting is not None else parts
    files = [open_lines(part) for part in parts]
    for i, first in enumerate(parts):
        for second in parts[i + 1 :]:
            if os.path.samefile(first, second):
                what = f"{first} is given twice" if first == second else f"{first} and {second} are the same file"
                raise DataError(f"{what}: source and target must be two files.")
    return ParallelCorpus(files, counting)


def _open_embedded(given: str, name: str, details: Sequence[str], split: str, seed: int) -> Corpus:
    size = None
    for detail in details:
        if detail in SPLITS or LENGTHS.fullmatch(detail):
            split = detail
        elif detail.isdecimal() and int(detail) > 0:
            size = int(detail)
        else:
            raise DataError(
                f"{detail!r} in {given!r} is neither a number of pairs nor a split ({', '.join(SPLITS)}). "
                f"Write for instance {name}:20000."
            )
    return GeneratedCorpus(name, split, default_size(split) if size is None else size, seed)


def _open_single(file: LineFile) -> Corpus:
    """Open one file; its suffix, or else its first line, decides the format."""
    endings = [ending for ending in Path(file.name).suffixes if ending not in (".gz", ".xz")]
    ending = endings[-1].lower() if endings else ""
    if ending == ".tsv":
        return TsvCorpus(file.name, [file])
    if ending in (".jsonl", ".ndjson"):
        return JsonlCorpus(file.name, [file])
    first = next(iter(file), None)
    if first is None:
        raise DataError(f"{file.name} is empty: there is nothing to learn from.")
    if _OBJECT.match(first) or (first.lstrip().startswith("{") and "\t" not in first):
        return JsonlCorpus(file.name, [file])
    if "\t" in first:
        return TsvCorpus(file.name, [file])
    if ending == ".txt":
        return PlainText(file.name, [file])
    raise DataError(
        f"{file.name} is neither TSV (source TAB target) nor JSONL by its first line. "
        "For parallel text, give two files: the source and the target. Plain text for a language model ends in .txt."
    )


def _check_sides(at: str, source: str, target: str) -> None:
    empty = [side for side, text in (("source", source), ("target", target)) if not text.strip()]
    if empty:
        verb = "is" if len(empty) == 1 else "are"
        raise EmptyError(
            f"{at}: the {' and the '.join(empty)} {verb} empty. Fill in what is missing, or remove the line.",
            source,
            target,
        )


def parse_object(line: str, at: str, example: str = _RECORD) -> dict[str, Any]:
    """Read a line of JSONL; `at` names it, and `example` shows one, where it is none."""
    if not line.strip():
        raise EmptyError(f"{at}: empty. Remove the line.")
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{at}: not JSON ({error.msg}, column {error.colno}).") from None
    except (ValueError, RecursionError):
        raise DataError(f"{at}: not JSON that can be read.") from None
    if not isinstance(record, dict):
        raise DataError(f"{at}: not an object. A line is {example}.")
    return record


def text_of(record: dict[str, Any], key: str, at: str, example: str = _RECORD) -> str:
    """Return a text of a line of JSONL, which must have it."""
    if key not in record:
        keys = ", ".join(f'"{name}"' for name in islice(record, 5)) or "none"
        raise DataError(f'{at}: no "{key}" among its keys ({keys}). A line is {example}.')
    text = record[key]
    if not isinstance(text, str):
        raise DataError(f'{at}: "{key}" is {json.dumps(text, ensure_ascii=False)[:40]}, not a string.')
    if "\0" in text:
        raise DataError(f'{at}: "{key}" holds a NUL character (\\u0000). Remove it.')
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise DataError(
            f'{at}: "{key}" has an unpaired surrogate (\\u{code:04x}). Write the whole character.'
        ) from None
    return text
