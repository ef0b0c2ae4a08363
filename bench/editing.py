"""Measure how long an edit of the attention takes, and what else the page asks of a model.

    python bench/editing.py demo/model
    python bench/editing.py demo/model --sentences 50

Held-out sentences of the phrasebook, each edited at every step, on one thread of the CPU. Wall-clock time is what a
reader waits for; CPU time depends less on other load. A line has the median and the slowest call.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from functools import partial

import torch

import regard
from regard.data.phrasebook import generate


def measure(calls: Iterable[Callable[[], object]]) -> tuple[list[float], list[float]]:
    """Return wall-clock and CPU milliseconds of each call; the first, which warms up, does not count."""
    wall, cpu = [], []
    for call in calls:
        before = time.perf_counter(), time.process_time()
        call()
        wall.append(1000 * (time.perf_counter() - before[0]))
        cpu.append(1000 * (time.process_time() - before[1]))
    return wall[1:], cpu[1:]


def main() -> None:
    """Run the measurements and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--sentences", type=int, default=20)
    given = parser.parse_args()
    torch.set_num_threads(1)
    translator = regard.load(given.model)
    texts = [pair.source for pair in generate("test", given.sentences)]
    plain = translator.translate(texts, beam=1, candidates=5)
    steps = [(one, step) for one in plain for step in range(len(one.tokens))]
    kinds: dict[str, list[Callable[[], object]]] = {
        "an edit, and on from there": [
            partial(translator.edit, one, step=step, weights={0: 0.9}, candidates=5) for one, step in steps
        ],
        "the numbers of a step": [partial(translator.explain_step, one, step) for one, step in steps],
        "a beam of 5 as a tree": [partial(translator.search_tree, one.source, beam=5) for one in plain],
        "attribution": [partial(translator.attribution, one) for one in plain],
    }
    longest = max(len(one.tokens) for one in plain)
    print(
        f"{given.model}: {len(plain)} sentences of up to {longest} target tokens, torch {torch.__version__}, one thread"
    )
    print(f"{'':28}{'calls':>7}{'wall ms':>18}{'CPU ms':>18}")
    for name, calls in kinds.items():
        wall, cpu = measure(calls)
        columns = (f"{statistics.median(each):.1f} ({max(each):.1f})" for each in (wall, cpu))
        print(f"{name:28}{len(wall):7}" + "".join(f"{column:>18}" for column in columns))


if __name__ == "__main__":
    main()
