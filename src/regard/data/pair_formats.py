"""Format pairs as lines of TSV or JSONL."""

import json

from regard.data.pair import Pair
from regard.errors import DataError


def record(pair: Pair) -> str:
    """Format a pair as a JSON object."""
    alignment = {} if pair.alignment is None else {"alignment": str(pair.alignment)}
    return json.dumps({"source": pair.source, "target": pair.target, **alignment}, ensure_ascii=False)


def row(pair: Pair, name: str, number: int, instead: str = "--json") -> str:
    """Format a pair as a TSV row; the other arguments are for the error if it has a tab or a line break."""
    texts = [pair.source, pair.target]
    if any("\t" in text or "\n" in text or text.endswith("\r") for text in texts):
        raise DataError(f"{name}, pair {number:,}: a tab or a line break, which TSV cannot hold. Use {instead}.")
    return "\t".join([*texts, *([] if pair.alignment is None else [str(pair.alignment)])])
