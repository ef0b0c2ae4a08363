"""Glossaries: a source term and its required translation on each line."""

from collections.abc import Iterable

from regard.data.line_files import open_lines
from regard.errors import DataError


def read_glossary(paths: Iterable[str]) -> dict[str, str]:
    """Read one or more files; if several have a term, the last one's translation counts."""
    terms: dict[str, str] = {}
    for path in paths:
        terms |= _read(path)
    return terms


def _read(path: str) -> dict[str, str]:
    file = open_lines(path)
    terms: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) != 2:
            raise DataError(
                f"{file.at(number)}: {len(columns)} column{'s' if len(columns) > 1 else ''}, but a glossary has two, "
                "the source term and the target term, separated by a tab."
            )
        source, target = columns
        if not source or not target:
            raise DataError(f"{file.at(number)}: the {'target' if source else 'source'} term is empty.")
        if terms.setdefault(source, target) != target:
            raise DataError(
                f"{file.at(number)}: {source!r} is translated {target!r}, but in line {lines[source]:,} it is "
                f"{terms[source]!r}. Leave one of them out."
            )
        lines.setdefault(source, number)
    if not terms:
        raise DataError(
            f"{file.name} has no terms: a glossary has a source term, a tab and a target term in each line."
        )
    return terms
