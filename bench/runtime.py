"""Run an exported model without torch, and compare it with the model itself: results, size, start-up, memory, CPU time.

    python bench/runtime.py demo/model
    python bench/runtime.py demo/model --sentences 500 --corpus phrasebook:500 --keep

The model is exported in float32 and in int8. The wheel regard-runtime is built and installed into an environment
without torch (--python names one that has it). There a process for each translates the sentences by beam search with
all hypotheses, scores and attention; they are compared with those of regard. Time is that of the CPU until the model is
ready, for the first sentence, and for all of them, with one thread; memory is the largest resident size until then.
"BLEU" is sacreBLEU's. Every process runs --repeat times, and the median is shown.
"""

import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "bench" / "results" / "runtime.txt"
WORKER = """
import json, resource, sys, time

def used():
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime, own.ru_maxrss / 1024, time.perf_counter() - begun

begun = time.perf_counter()
folder, how, beam, n_best, texts, out = sys.argv[1:]
if how == "torch":
    import regard
    model = regard.load(folder)
else:
    import regard.runtime
    model = regard.runtime.load(folder)
    assert "torch" not in sys.modules
ready = used()
texts = open(texts, encoding="utf-8").read().split("\\n")
model.translate(texts[:1], beam=int(beam))
first = used()
found = model.translate(texts, beam=int(beam), n_best=int(n_best))
told = {"ready": ready, "first": first, "all": used()}
if out:
    every = [[one, *one.n_best] for one in found]
    told["hypotheses"] = [[(one.text, one.score) for one in own] for own in every]
    import numpy as np
    np.savez(out, *(one.attention.weights for own in every for one in own))
print(json.dumps(told))
"""


def main() -> None:
    """Export, install, run and compare."""
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--corpus", default="phrasebook:500", help="whose sources are translated")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--n-best", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--python", help="an interpreter with regard-runtime and no torch; default: one is made")
    parser.add_argument("--keep", action="store_true", help=f"write {RESULT.relative_to(ROOT)}")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        table = measured(given, Path(place))
    print(table)
    if given.keep:
        RESULT.write_text(table + "\n", encoding="utf-8")


def measured(given: Any, place: Path) -> str:
    """Return the table."""
    import sacrebleu

    from regard.data.corpus import open_corpus

    pairs = [*open_corpus([given.corpus], "test")]
    texts = place / "texts"
    texts.write_text("\n".join(pair.source for pair in pairs), encoding="utf-8")
    python = given.python or environment(place)
    ours = {"regard with torch": (given.model, "torch", sys.executable)}
    for name, options in (("float32", []), ("int8", ["--quantization", "int8"])):
        subprocess.run([sys.executable, "-m", "regard", "export", given.model, place / name, *options], check=True)
        ours[f"regard-runtime, {name}"] = (place / name, "runtime", python)
    lines = [
        f"{given.model}, {len(pairs)} sentences of {given.corpus}, beam {given.beam}, {given.n_best} best, one thread",
        "| | MB of weights | ready: CPU s | ready: MB | first sentence: CPU s | all: CPU s | all: MB | BLEU |",
        "|---|---|---|---|---|---|---|---|",
    ]
    told: dict[str, dict[str, Any]] = {}
    for number, (name, (folder, how, interpreter)) in enumerate(ours.items()):
        told[name] = run(interpreter, folder, how, given, texts, place / f"{number}.npz")
        best = [own[0][0] for own in told[name]["hypotheses"]]
        bleu = sacrebleu.corpus_bleu(best, [[pair.target for pair in pairs]]).score
        weights = [*folder.glob("*.onnx")] or [folder / "model.safetensors"]
        size = sum(path.stat().st_size for path in weights)
        ready, first, whole = (told[name][part] for part in ("ready", "first", "all"))
        times = (
            f"{ready[0]:.2f} | {ready[1]:.0f} | {first[0] - ready[0]:.3f} | {whole[0] - first[0]:.2f} | {whole[1]:.0f}"
        )
        lines.append(f"| {name} | {size / 1e6:.1f} | {times} | {bleu:.2f} |")
    return "\n".join([*lines, "", *(compared(told, place, number) for number in (1, 2))])


def environment(place: Path) -> str:
    """Make an environment with the wheel, and return its interpreter."""
    pip = [sys.executable, "-m", "pip", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", ROOT / "packaging" / "runtime", "-w", place], check=True)
    (wheel,) = place.glob("*.whl")
    python = place / "environment" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", place / "environment"], check=True)
    subprocess.run([python, "-m", "pip", "-q", "install", wheel], check=True)
    return str(python)


def run(python: str, folder: Path, how: str, given: Any, texts: Path, out: Path) -> dict[str, Any]:
    """Run a process several times; return the medians, and the results of the last."""
    found = []
    settings = {**os.environ, "OMP_NUM_THREADS": "1"}
    if how != "torch":
        settings.pop("PYTHONPATH", None)
    for _ in range(given.repeat):
        command = [python, "-c", WORKER, folder, how, given.beam, given.n_best, texts, out]
        said = subprocess.run([*map(str, command)], env=settings, capture_output=True, text=True, check=True).stdout
        found.append(json.loads(said))
    for part in ("ready", "first", "all"):
        found[-1][part] = [statistics.median(one[part][which] for one in found) for which in range(3)]
    return dict(found[-1])


def compared(told: dict[str, dict[str, Any]], place: Path, number: int) -> str:
    """Tell how the results of one export differ from those with torch."""
    right, (name, found) = told["regard with torch"], [*told.items()][number]
    theirs, ours = ([*itertools.chain.from_iterable(one["hypotheses"])] for one in (right, found))
    same = [row for row, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one[0] == other[0]]
    best = sum(own[0][0] == other[0][0] for own, other in zip(found["hypotheses"], right["hypotheses"], strict=True))
    score = max(abs(ours[row][1] - theirs[row][1]) for row in same)
    files = (np.load(place / f"{one}.npz", allow_pickle=False) for one in (0, number))
    with contextlib.ExitStack() as opened:
        with_torch, without = (opened.enter_context(file) for file in files)
        looks = ((with_torch[f"arr_{row}"], without[f"arr_{row}"]) for row in same)
        look = max(float(np.abs(one - other).max(initial=0)) for one, other in looks if one.shape == other.shape)
    return (
        f"{name}: {best} of {len(right['hypotheses'])} translations and {len(same)} of {len(ours)} hypotheses are as "
        f"with torch; the scores of these differ by {score:.1e} at most, attention by {look:.1e}."
    )


if __name__ == "__main__":
    main()
