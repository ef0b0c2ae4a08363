"""A whole input at once: by one process or several, to a stream, a file or a shard of one."""

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING

from regard.atomic_files import file_anew
from regard.batch.shards import Shard, ShardFolder, made_of
from regard.batch.translate_options import TranslateOptions
from regard.batch.worker_pool import WorkerPool
from regard.data.line_files import STDIN, LineFile, open_lines
from regard.decoding.line_reader import ALL, BLOCK, Lines, as_they_come, count_lines
from regard.errors import DataError

if TYPE_CHECKING:
    from regard.batch.line_translator import LineTranslator

Write = Callable[[str], object]


def translator(options: TranslateOptions, workers: int) -> "LineTranslator | WorkerPool":
    """Return what translates blocks of lines: this process, or several others."""
    if workers > 1:
        return WorkerPool(options, workers)
    from regard.batch.line_translator import LineTranslator  # torch is imported only where it is needed

    return LineTranslator(options)


def write_all(translating: "LineTranslator | WorkerPool", blocks: Iterator[Lines], write: Write) -> int:
    """Write what becomes of each block when it is there; return how many lines gave no pair."""
    left_out = 0
    for output in translating.translated(blocks):
        write("".join(f"{row}\n" for row in output.rows))
        left_out += output.left_out
        if output.error is not None:
            raise output.error
    return left_out


def to_bytes(file: IO[bytes]) -> Write:
    """Return what writes text to a file of bytes, as it is written to the standard output."""
    return lambda text: file.write(text.encode("utf-8", "replace"))


def translate_shard(
    options: TranslateOptions, given: str, folder: Path, shard: Shard, workers: int, say: Callable[[str], None]
) -> None:
    """Make one shard of the output, unless it is there."""
    file = open_lines(given)
    total, checksum = next(file.read_with(lambda stream: iter([count_lines(stream)])))
    made, shards, ending = made_of(options, total, checksum, shard.count), ShardFolder(folder), ending_of(options)
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file: --shard needs a folder for --output, in which each shard is a file.")
    folder.mkdir(parents=True, exist_ok=True)
    shards.check(made)
    part, wanted = shards.part(shard, ending), shard.lines(total)
    if shards.is_finished(shard):
        say(f"{part} is finished already.")
        return
    with shards.writing(shard, ending) as writing:
        left_out = 0
        if wanted:
            with translator(options, workers) as translating:
                left_out = write_all(translating, blocks(file, wanted), writing.write)
    shards.finish(shard, ending, made, writing, left_out)
    what = f"lines {wanted.start:,} to {wanted.stop - 1:,} of {total:,}" if wanted else "no lines"
    say(f"{part} has {what}.")


def to_standard_output(text: str) -> None:
    """Write text to the standard output at once: somebody may be waiting for it."""
    sys.stdout.write(text)
    sys.stdout.flush()


def all_blocks(given: str) -> Iterator[Lines]:
    """Yield the lines of a file, or of the standard input (`-`) as they come."""
    if given != STDIN:
        return blocks(open_lines(given), ALL)
    try:
        # Another thread may be reading when Python ends, and Python closes its own stream then.
        return as_they_come(open(os.dup(sys.stdin.fileno()), "rb"))
    except io.UnsupportedOperation:
        return as_they_come(sys.stdin.buffer)


def blocks(file: LineFile, wanted: range) -> Iterator[Lines]:
    """Yield some lines of a file."""
    return file.read_with(lambda stream: as_they_come(stream, BLOCK, wanted))


def ending_of(options: TranslateOptions) -> str:
    """Return the ending of a file of output."""
    if options.field is not None:
        return ".jsonl"
    return ".tsv" if options.pairs or options.n_best > 1 else ".txt"


def join(folder: Path, output: Path | None) -> int:
    """Write all shards of a folder, in order, to a file or the standard output; return how many lines gave no pair."""
    found = ShardFolder(folder).all()
    with nullcontext(sys.stdout.buffer) if output is None else file_anew(output) as joined:
        for path, _ in found:
            with path.open("rb") as part:
                shutil.copyfileobj(part, joined)
    return sum(manifest.left_out for _, manifest in found)
