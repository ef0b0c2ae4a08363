"""Clean a corpus: write the lines without problems, and the dropped lines with their rules to a second file."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from regard.data.corpus import Corpus, FileCorpus
from regard.data.corpus_checks import Checked, Options, check
from regard.data.pair import Pair, record, row
from regard.data.raw_lines import BLANK, RawLine
from regard.errors import ConfigError, DataError

_TABLES, _RECORDS, _TEXTS = (".tsv",), (".jsonl", ".ndjson"), (".txt",)


class Cleaned(NamedTuple):
    """The result of cleaning."""

    checked: Checked
    out: Path
    dropped: Path
    kept: int
    taken: tuple[int, ...]
    """The number of lines dropped by each finding; a line with several counts for the first."""


def clean(corpus: Corpus, out: Path, against: Sequence[Corpus] = (), options: Options | None = None) -> Cleaned:
    """Write lines without problems to `out`, in the format of its suffix, and the rest to `out.dropped.tsv`."""
    options = options or Options()
    _check_out(corpus, out, against)
    checked = check(corpus, against, options)
    taken, counts, kept = checked.taken, Counter[int](), 0
    if len(taken) == checked.lines:
        raise DataError(f"{corpus.name}: every line looks wrong, so there is nothing to write. --check shows why.")
    dropped = out.with_suffix(f".dropped{out.suffix}")
    line, dropped_line = _forms(out, corpus.name)
    try:
        with ExitStack() as stack:
            good, bad = (stack.enter_context(_whole(path)) for path in (out, dropped))
            for place, entry in enumerate(options.read(corpus)):
                if place in taken:
                    counts[taken[place]] += 1
                    bad.write(dropped_line(checked.findings[taken[place]].name, place + 1, entry) + "\n")
                elif entry.fault != BLANK:
                    kept += 1
                    good.write(line(entry.pair, place + 1) + "\n")
    except OSError as error:
        raise DataError(f"Cannot write {out}: {(error.strerror or str(error)).lower()}.") from None
    return Cleaned(checked, out, dropped, kept, tuple(counts[i] for i in range(len(checked.findings))))


def _check_out(corpus: Corpus, out: Path, against: Sequence[Corpus]) -> None:
    allowed = (*_TABLES, *_RECORDS) if corpus.paired else _TEXTS
    if out.suffix.lower() not in allowed:
        what = "pairs are written as" if corpus.paired else "texts are written as"
        raise ConfigError(f"--clean {out}: {what} {' or '.join(allowed)}, chosen by the suffix.")
    for one in (corpus, *against):
        for file in one.files if isinstance(one, FileCorpus) else ():
            if out.exists() and os.path.exists(file.name) and os.path.samefile(out, file.name):
                raise ConfigError(f"--clean {out}: this file is also an input. Give another file.")


def _forms(out: Path, name: str) -> tuple[Callable[[Pair, int], str], Callable[[str, int, RawLine], str]]:
    """Return the functions that format a pair and a dropped line."""
    ending = out.suffix.lower()
    if ending in _RECORDS:
        return lambda pair, _: record(pair), _dropped_record
    if ending in _TEXTS:
        return lambda pair, _: pair.target, _dropped_row
    return lambda pair, number: row(pair, name, number, "--clean OUT.jsonl"), _dropped_row


def _dropped_record(rule: str, number: int, entry: RawLine) -> str:
    told = {"rule": rule, "line": number, **json.loads(record(entry.pair)), **({"why": entry.why} if entry.why else {})}
    return json.dumps(told, ensure_ascii=False)


def _dropped_row(rule: str, number: int, entry: RawLine) -> str:
    texts = (entry.pair.source, entry.pair.target)
    columns = [text.replace("\n", " ").replace("\r", " ") for text in texts if text or entry.fault != "malformed"]
    return "\t".join((rule, str(number), *columns))


@contextmanager
def _whole(path: Path) -> Iterator[IO[str]]:
    """Open a temporary file that replaces `path` once it is completely written."""
    beside = path.with_name(f".{path.name}.writing")
    try:
        with open(beside, "w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
