"""The command `regard-runtime`, and `run.py` of every export of texts: read lines, write lines."""

import argparse
import json
import select
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.errors import DataError, RegardError
from regard.runtime.load import load
from regard.runtime.text_labeller import TextLabeller
from regard.runtime.translator import BATCH, Translation, Translator

CHUNK = 1 << 16
"""Bytes per read: the capacity of a pipe."""
WAITING = 512
"""Lines that are taken together if they have arrived, so that those of like length can be put together."""


def main(arguments: Sequence[str] | None = None, folder: Path | None = None) -> None:
    """Translate, continue or classify the lines of standard input; `folder` is the export, if it is known."""
    parser = argparse.ArgumentParser(
        prog="regard-runtime" if folder is None else "run.py",
        description="Run an exported model on the lines of standard input: translate, continue or classify them.",
    )
    if folder is None:
        parser.add_argument("folder", metavar="FOLDER", type=Path, help="what regard export wrote")
    parser.add_argument("--beam", type=int, metavar="N", help="beam size; 1 is greedy search (default: the model's)")
    parser.add_argument("--n-best", type=int, default=1, metavar="N", help="write the N best of each line, with scores")
    parser.add_argument("--to", metavar="TAG", help="the language to write, for a model of several")
    parser.add_argument("--json", action="store_true", help="write JSON lines, with tokens, scores and attention")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the search: length_penalty=0.6"
    )
    parser.add_argument("--batch", type=int, default=BATCH, metavar="N", help="sentences that are searched at once")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads; 0 for one for each core")
    given = parser.parse_args(arguments)
    try:
        model = load(given.folder if folder is None else folder, given.threads)
        number = 0
        for lines in arrived():
            for row in _rows(model, lines, number, given):
                print(row)
            sys.stdout.flush()
            number += len(lines)
    except RegardError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read has seen enough
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _rows(model: Translator | TextLabeller, lines: list[str], number: int, given: Any) -> Iterator[str]:
    if isinstance(model, TextLabeller):
        yield from _classes(model, lines, given)
        return
    options = model.options.changed(given.set)
    found = model.translate(
        lines,
        beam=given.beam,
        n_best=given.n_best,
        to=given.to,
        batch_size=given.batch,
        look=given.json,
        options=options,
    )
    for place, best in enumerate(found, start=number + 1):
        every = (best, *best.n_best)
        if given.json:
            yield json.dumps({**_record(best), "n_best": [_record(one) for one in every[1:]]}, ensure_ascii=False)
        elif given.n_best == 1:
            yield _one_line(best.text)
        else:
            for one in every:
                yield f"{place}\t{one.score:.4f}\t{_one_line(one.text).replace(chr(9), ' ')}"


def _classes(model: TextLabeller, lines: list[str], given: Any) -> Iterator[str]:
    """Write the probability and the class of each line; an empty line stays empty."""
    found = iter(model.classify([line for line in lines if line.strip()], top=given.n_best))
    for line in lines:
        if not line.strip():
            yield "{}" if given.json else ""
            continue
        best = next(found)
        if given.json:
            guesses = {guess.label: guess.probability for guess in best.guesses}
            yield json.dumps({"label": best.label, "guesses": guesses, "attention": best.attention.to_json()})
        else:
            yield "\t".join(f"{guess.probability:.4f}\t{guess.label}" for guess in best.guesses)


def _record(best: Translation) -> dict[str, Any]:
    return {"text": best.text, "score": best.score, "tokens": best.tokens, "attention": best.attention.to_json()}


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def arrived() -> Iterator[list[str]]:
    """Yield the lines of standard input that have arrived, at least one: a slow writer is answered at once."""
    stream: Any = sys.stdin.buffer
    begun, ended, number = b"", False, 0
    waiting: deque[bytes] = deque()
    while not ended or waiting:
        while not ended and (not waiting or (len(waiting) < WAITING and _more_is_there(stream))):
            chunk = stream.read1(CHUNK)
            ended = not chunk
            *whole, begun = (begun + chunk).split(b"\n")
            waiting.extend(whole)
            if ended and begun:
                waiting.append(begun)
        lines = [waiting.popleft() for _ in range(min(WAITING, len(waiting)))]
        texts = [_decoded(line, place) for place, line in enumerate(lines, start=number + 1)]
        number += len(lines)
        if texts:
            yield texts


def _more_is_there(stream: Any) -> bool:
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):
        return True  # Windows can ask sockets alone: then all is read before anything is answered


def _decoded(line: bytes, number: int) -> str:
    try:
        text = line.decode("utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise DataError(f"Line {number} of the input is not valid UTF-8 (byte {error.start + 1}).") from None
    return text.removeprefix("\ufeff") if number == 1 else text


if __name__ == "__main__":
    main()
