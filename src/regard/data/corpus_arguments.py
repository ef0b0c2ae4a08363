"""The corpora that a command or a call was given, as settings have them: `data.train`, `data.mixed` and the like."""

import os
from collections.abc import Sequence

from regard.errors import DataError


def corpus_parts(
    data: str | None, source: str | None, target: str | None, prefix: str = "", alignment: str | None = None
) -> tuple[str, ...]:
    """Return the parts of a corpus: one name, or two files and maybe alignments; empty if nothing was given."""
    dashes = f"--{prefix}-" if prefix else "--"
    one, two = f"--{prefix or 'data'}", f"{dashes}source and {dashes}target"
    if data is not None and (source is not None or target is not None):
        raise DataError(f"Give either {one} or {two}, not both.")
    if (source is None) != (target is None):
        raise DataError(f"{two} go together: one of them is missing.")
    if alignment is not None and source is None:
        raise DataError(f"{dashes}alignment goes with {two}; with {one} it is the third column.")
    if data is not None:
        return (data,)
    return tuple(part for part in (source, target, alignment) if part is not None)


def training_parts(
    data: list[str] | None, source: str | None, target: str | None, alignment: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the training corpus as `(parts, mixed)`: the parts of one corpus, or several for `data.mixed`.

    An existing file whose name has a comma or `*` is taken literally where it is given alone; in a mixture, so is one
    with a `*`.
    """
    given = data or []
    if len(given) < 2 and not any("*" in one and not os.path.lexists(one) for one in given):
        parts = corpus_parts(given[0] if given else None, source, target, alignment=alignment)
        if given and "," in given[0] and not os.path.lexists(given[0]):
            parts = tuple(part.strip() for part in given[0].split(","))
        return parts, ()
    corpus_parts(given[0], source, target, alignment=alignment)  # raises for options that exclude each other
    return (), tuple(f"{one}*1" if "*" in one and os.path.lexists(one) else one for one in given)


def check_split(split: str | None, parts: Sequence[str]) -> None:
    """Raise a DataError if a split is given for a corpus without train, valid and test parts."""
    from regard.data.builtin_corpora import corpora
    from regard.data.pictures import held_out

    embedded = len(parts) == 1 and parts[0].partition(":")[0] in corpora
    if split is not None and not embedded and not held_out(parts):
        raise DataError(f"Leave out --split: only embedded corpora have parts, and {parts[0]} is none.")
