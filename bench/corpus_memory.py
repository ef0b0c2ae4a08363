"""Measure the memory that training on a large corpus takes: a million pairs should fit in 1.5 GB of resident memory.

Makes a corpus of N pairs in a temporary folder. A fresh process then learns a tokenizer from it, builds the token cache
and iterates over one epoch of batches; another one trains `bahdanau2014-small` on it for some steps. Both print their
peak resident memory after each stage.

    python bench/corpus_memory.py --pairs 1000000
"""

import argparse
import importlib.metadata
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def make_corpus(path: Path, pairs: int) -> None:
    """Write pairs of 5 to 30 made-up words with a Zipf distribution."""
    random = np.random.Generator(np.random.PCG64(1))
    syllables = np.array([a + b for a in "bcdfghjklmnprstvz" for b in "aeiou"])
    lengths = random.integers(1, 5, 50_000)
    words = np.array(["".join(random.choice(syllables, length)) for length in lengths])
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(pairs):
            source = words[(random.zipf(1.3, random.integers(5, 31)) - 1) % len(words)]
            file.write(" ".join(source) + "\t" + " ".join(source[::-1]) + "\n")


START = time.perf_counter()


def report(stage: str) -> None:
    """Print the peak memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{stage:<60}{peak:8,.0f} MB {time.perf_counter() - START:8.1f} s", flush=True)


def measure(path: Path, folder: Path) -> None:
    """Run everything that precedes the model in training; runs in the first fresh process."""
    from regard.config import TokenizerConfig
    from regard.data.batching import BatchOrder, make_batch
    from regard.data.corpus import open_corpus
    from regard.data.token_cache import TokenCache
    from regard.data.tokenizers import train_tokenizers

    report("imports (torch included)")
    corpus = open_corpus((str(path),))
    tokenizers = train_tokenizers(TokenizerConfig(), corpus, seed=1)
    report(f"tokenizer (bpe, {tokenizers.source.size:,} pieces)")
    cache = TokenCache.reuse_or_build(folder, corpus, tokenizers, max_length=128)
    tokens = cache.index.source_tokens + cache.index.target_tokens
    report(f"cache ({len(cache):,} pairs, {tokens / 1e6:,.1f} M tokens)")
    batches = BatchOrder.of(cache, batch_tokens=4000, seed=1).batches(epoch=0)
    report(f"order of an epoch ({len(batches):,} batches)")
    padded = 0
    for rows in batches:
        batch = make_batch(cache, rows)
        padded += batch.source.numel() + batch.tokens_out.numel()
    report(f"one epoch of batches ({tokens / padded:.1%} of it text)")


def train(path: Path, folder: Path, steps: int) -> None:
    """Train as `regard train` does; runs in the second fresh process."""
    from regard.config_io import override
    from regard.presets import preset
    from regard.training.progress import Silent
    from regard.training.train_model import train as run

    changes = [f'data.train=["{path}"]', "data.valid=copy:200", f"training.steps={steps}", "training.metric=loss"]
    config = override(preset("bahdanau2014-small"), changes)
    run(config, folder, reporter=Silent())
    weights = (folder / "model.safetensors").stat().st_size / 2**20
    # Weights, gradients, and the two moments of Adam.
    report(f"training, {steps} steps (the model: 4 × {weights:.0f} MB of it)")


def main() -> None:
    """Make the corpus, run both processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--corpus", type=Path, help="measure this file; none is made")
    parser.add_argument("--steps", type=int, default=100, help="training steps")
    parser.add_argument("--measure", nargs=2, type=Path, metavar=("CORPUS", "CACHE"), help=argparse.SUPPRESS)
    parser.add_argument("--train", nargs=2, type=Path, metavar=("CORPUS", "MODEL"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(*arguments.measure)
        return
    if arguments.train:
        corpus, model = arguments.train
        train(corpus, model, arguments.steps)
        return
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "numpy", "sentencepiece"))
    print(f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}, {versions}")
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.corpus or Path(folder) / "corpus.tsv"
        if not arguments.corpus:
            make_corpus(path, arguments.pairs)
        print(f"{path.name}: {path.stat().st_size / 1e6:,.0f} MB", flush=True)
        print(f"{'after':<60}{'peak RSS':>11} {'time':>10}", flush=True)
        steps = ["--steps", str(arguments.steps)]
        for stage in ("measure", "train"):
            command = [sys.executable, __file__, f"--{stage}", str(path), str(Path(folder) / stage), *steps]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
