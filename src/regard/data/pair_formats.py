"""Pairs as lines: TSV, JSONL, or plain text."""

import json

from regard.data.pair import Pair
from regard.errors import DataError


def record(pair: Pair) -> str:
    """Write a pair as an object of JSON."""
    alignment = {} if pair.alignment is None else {"alignment": str(pair.alignment)}
    return json.dumps({"source": pair.source, "target": pair.target, **alignment}, ensure_ascii=False)


def row(pair: Pair, name: str, number: int, instead: str = "--json") -> str:
    """Write a pair as a row of TSV; the rest is for the message if TSV cannot hold it, `instead` what can."""
    texts = [pair.source, pair.target]
    if any("\t" in text or "\n" in text or text.endswith("\r") for text in texts):
        raise DataError(f"{name}, pair {number:,}: a tab or a line break, which TSV cannot hold. Use {instead}.")
    return "\t".join([*texts, *([] if pair.alignment is None else [str(pair.alignment)])])
