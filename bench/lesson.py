"""Measure and draw the five pages of docs/lesson, from two trained models and small ones that it trains itself.

    regard demo
    regard train --preset transformer2017-small --data phrasebook --set training.steps=1500 --out transformer
    python bench/lesson.py demo/model transformer

`measured.json` in docs/lesson gets all numbers, docs/images/lesson the pictures, and what stands between the markers
of a page is written anew from the numbers (`--fill` does that alone; a test checks that it is current). It takes less
than a minute of processor time. Models of your own give other numbers: the prose around them was written for these.
"""

import argparse
import copy
import json
import math
import platform
import random
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lesson_agreement
import lesson_pages
import numpy as np
import torch
from numpy.typing import NDArray

import regard
from regard.attention import Sizes, scores
from regard.config import ModelConfig
from regard.config_io import read_toml
from regard.data.corpus import open_corpus
from regard.data.pair import Pair
from regard.decoding.translator import Translator
from regard.diagnosis.diagnosis import diagnose
from regard.diagnosis.source_gradients import gradients
from regard.evaluation.alignment_error_rate import alignment_error_rate
from regard.evaluation.word_alignment import alignment as alignment_scores
from regard.models.build import build_model
from regard.models.model_folder import learned
from regard.viz import colour_scale
from regard.viz.figure_style import FAINT, INK, LINES, save_figure
from regard.viz.metric_curves import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOCS = lesson_pages.DOCS
IMAGES = DOCS.parent / "images" / "lesson"

LONG = "phrasebook:31-40:16"
TEST = "phrasebook:200"
SHOWN = "she does not see the red dress"
WIDTHS = (4, 16, 64, 256, 1024)
KEYS, QUERIES = 20, 500
COMPARED = ("dot", "scaled-dot", "cosine", "general", "additive")
SMALL = (
    *("tokenizer.kind=words", "model.embedding=24", "model.encoder.width=24", "model.decoder.width=40"),
    *("model.decoder.readout_width=24", "model.attention.width=24", "model.dropout=0", "training.steps=250"),
    *("training.batch_tokens=600", "training.learning_rate=0.01", "training.schedule=constant"),
    *("training.precision=float32", "training.validate_every=250", "training.average=none", "data.held_out=0"),
    *("training.patience=0", "training.device=cpu"),
)
"""A model that learns to reverse in seconds."""
WORDS = ["ab", "cd", "ef", "gh", "ij", "kl", "mn", "op", "qr", "st", "uv", "wx"]


# -- 1: the bottleneck ------------------------------------------------------------------------------------------------


def bottleneck(translator: Translator, config: ModelConfig) -> dict[str, Any]:
    """Measure how much of the source each target token can correct, through contexts and through the fixed vector."""
    pairs = [*open_corpus([LONG])]
    found = gradients(translator, [*zip(*translator._encode_pairs(pairs), strict=True)])
    places = np.linspace(0, 1, 11)
    curves: dict[str, list[NDArray[Any]]] = {"with attention": [], "through the fixed vector alone": []}
    for one in found:
        whole = one.norms.sum(axis=0)[:-1]
        for name, norms in zip(curves, (one.norms, one.norms_without_attention), strict=True):
            reached = norms.sum(axis=0)[:-1] / whole.max()
            curves[name].append(np.interp(places, np.linspace(0, 1, len(reached)), reached))
    medians = {name: np.median(rows, axis=0) for name, rows in curves.items()}

    def draw(figure: "Figure") -> None:
        figure.set_size_inches(7.0, 3.6)
        axes = figure.subplots()
        for (name, line), colour in zip(medians.items(), COLOURS, strict=False):
            axes.plot(places, line, color=colour, marker="o", markersize=4, label=name)
        axes.set_yscale("log")
        axes.set_xlabel("place in the source, from the first token (0) to the last (1)")
        axes.set_ylabel("gradient, largest = 1")
        _dress(axes)
        axes.legend(frameon=False, fontsize=9)

    save_figure(IMAGES / "gradients.svg", [], draw)
    whole_, fixed = medians.values()
    return {
        "data": LONG,
        "sentences": len(pairs),
        "tokens": float(np.mean([one.norms.shape[1] for one in found])),
        "numbers": config.encoder.width,
        "least": float(whole_.min()),
        "fixed": {"first": float(fixed[0]), "middle": float(fixed[5]), "last": float(fixed[-1])},
        "share": float(
            np.median([one.norms_without_attention.sum() / one.norms.sum() for one in found])
        ),
    }  # fmt: skip


# -- 2: alignment -----------------------------------------------------------------------------------------------------


def alignment(translator: Translator, config: ModelConfig) -> dict[str, Any]:
    """Draw the matrix of one sentence, and compare the alignment error rate with that of two guesses."""
    (translation,) = translator.translate([SHOWN])
    translation.attention.save(IMAGES / "alignment.svg")
    translation.attention.save(DOCS / "alignment.json")
    pairs = [pair for pair in open_corpus([TEST]) if pair.alignment is not None]
    diagonal = alignment_error_rate([(_diagonal(pair), pair.alignment) for pair in pairs if pair.alignment])
    reports = {
        name: regard.evaluate(translator, TEST, posterior=posterior)
        for name, posterior in (("attention", False), ("posterior", True))
    }
    (untrained,) = alignment_scores(_untrained(translator, config), pairs)
    return {
        "data": TEST,
        "translation": translation.text,
        "largest": [
            [translation.attention.target[row], translation.attention.source[column], float(weights[column])]
            for row, weights in enumerate(translation.attention.look())
            for column in [int(weights.argmax())]
        ],
        "aer": {
            "diagonal": diagonal.value,
            "untrained": untrained.value,
            "attention": reports["attention"]["AER"].value,
            "posterior": reports["posterior"]["AER"].value,
        },
        "bleu": reports["attention"]["BLEU"].value,
        "signature": reports["attention"]["BLEU"].made_by,
    }


def _diagonal(pair: Pair) -> frozenset[tuple[int, int]]:
    """Link each target word to the source word at the same relative place."""
    read, written = len(pair.source.split()), len(pair.target.split())
    step = (read - 1) / max(1, written - 1)
    return frozenset((round(place * step), place) for place in range(written))


# -- 3: scores --------------------------------------------------------------------------------------------------------


def score_functions() -> dict[str, Any]:
    """Measure the entropy of a softmax over untrained scores of random vectors, relative to uniform, by width."""
    found: dict[str, list[float]] = {}
    for name in COMPARED:
        found[name] = []
        for width in WIDTHS:
            torch.manual_seed(1)
            score = scores[name](Sizes(query=width, key=width, hidden=width))
            with torch.inference_mode():
                keys = score.keys(torch.randn(1, 1, KEYS, width))
                weights = score(torch.randn(1, 1, QUERIES, width), keys).softmax(dim=-1)[0, 0]
            found[name].append(_relative_entropy(weights.double().numpy()))

    def draw(figure: "Figure") -> None:
        figure.set_size_inches(7.0, 3.6)
        axes = figure.subplots()
        for (name, line), colour, mark in zip(found.items(), COLOURS, "osD^v", strict=False):
            axes.plot(WIDTHS, line, color=colour, marker=mark, markersize=5, label=name)
        axes.set_xscale("log", base=2)
        axes.set_xticks(WIDTHS, [str(width) for width in WIDTHS])
        axes.set_ylim(0, 1.03)
        axes.set_xlabel("width of query and key")
        axes.set_ylabel("entropy, uniform = 1")
        _dress(axes)
        axes.legend(frameon=False, fontsize=9, ncols=2)

    save_figure(IMAGES / "score-widths.svg", [], draw)
    return {"widths": WIDTHS, "keys": KEYS, "queries": QUERIES, "entropy": found}


def _relative_entropy(weights: NDArray[Any]) -> float:
    entropy = -(weights * np.log(np.maximum(weights, 1e-30))).sum(axis=-1)
    return float(np.mean(entropy) / math.log(weights.shape[-1]))


# -- 4: agreement -----------------------------------------------------------------------------------------------------


def agreement(translator: Translator, folder: Path) -> dict[str, Any]:
    """Measure both kinds of agreement; draw the chosen heads over one sentence each, and all heads."""
    found = {kind: lesson_agreement.measure_kind(translator, kind) for kind in lesson_agreement.KINDS}
    shown = []
    for kind, measured in found.items():
        (sentence,) = (
            one for one in lesson_agreement.KINDS[kind](lesson_agreement.MEASURING) if one.source == measured["example"]
        )
        (trace,) = translator.align([(sentence.source, sentence.right)])
        own = translator.self_attention(trace).encoder
        assert own is not None
        tokens = [token.removeprefix("▁") for token in own.source]
        shown.append((kind, own.look(measured["layer"], measured["head"]), tokens, measured))

    def draw(figure: "Figure") -> None:
        figure.set_size_inches(9.6, 6.6)
        panels = figure.subplots(2, 2, width_ratios=(1.25, 1))
        for (left, right), (kind, look, tokens, measured) in zip(panels, shown, strict=True):
            _matrix(left, look, tokens, tokens)
            left.set_title(f"layer {measured['layer']}, head {measured['head']}", loc="left", fontsize=10, color=FAINT)
            heads = np.array(measured["heads"])
            _matrix(
                right, heads, [f"head {place}" for place in range(heads.shape[1])],
                [f"layer {place}" for place in range(heads.shape[0])],
            )  # fmt: skip
            for place, value in np.ndenumerate(heads):
                right.text(
                    place[1], place[0], f"{value:.2f}", ha="center", va="center", color="w" if value > 0.5 else INK
                )
            who = "“it” on its noun" if kind == "participle" else "adjective on its noun"
            right.set_title(f"{who}, mean of {measured['sentences']}", loc="left", fontsize=10, color=FAINT)
        figure.tight_layout()

    save_figure(IMAGES / "self-attention.svg", [], draw)
    steps = read_toml(folder / "config.toml").training.steps
    return {"kinds": found, "steps": best_step(folder), "planned": steps, "bleu": best_bleu(folder)}


def _validations(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record.get("best")]


def best_step(folder: Path) -> int:
    """Return the step whose weights the folder holds: the last that was the best."""
    return int(_validations(folder)[-1]["step"])


def best_bleu(folder: Path) -> float:
    """Return the BLEU of these weights at validation."""
    return float(_validations(folder)[-1]["bleu"])


# -- 5: uniform attention ---------------------------------------------------------------------------------------------


def uniform(translator: Translator, config: ModelConfig) -> dict[str, Any]:
    """Measure attention that is uniform for three reasons, beside attention that is not."""
    reversing, guessing = _trained(_reversed), _trained(_counted)
    models = {
        "trained": (translator, [*islice(open_corpus([TEST]), 100)]),
        "untrained": (_untrained(translator, config), [*islice(open_corpus([TEST]), 100)]),
        "zeroed": (_zeroed(translator), [*islice(open_corpus([TEST]), 100)]),
        "reversing": (reversing, _drawn(_reversed, 100, 3)),
        "guessing": (guessing, _drawn(_counted, 100, 3)),
    }
    found = {name: _entropy(*each) for name, each in models.items()}
    pairs = [("the red dress is in the small room", "la robe rouge est dans la petite chambre")] * 3
    pairs += [(pair.source, pair.target) for pair in (_drawn(_reversed, 1, 4)[0], _drawn(_counted, 1, 4)[0])]
    titles = ("trained", "never trained", "scores zeroed", "trained to reverse", "trained to count")

    def draw(figure: "Figure") -> None:
        figure.set_size_inches(9.6, 6.2)
        panels = figure.subplots(2, 3).ravel()
        for axes, title, (model, _), pair in zip(panels, titles, models.values(), pairs, strict=False):
            (trace,) = model.align([pair])
            clean = [[token.removeprefix("▁") for token in side] for side in (trace.source, trace.target)]
            _matrix(axes, trace.look(), *clean)
            axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
        panels[-1].barh(titles, list(found.values()), color=COLOURS[0])
        panels[-1].set_title("entropy, uniform = 1", loc="left", fontsize=10, fontweight="bold")
        panels[-1].invert_yaxis()
        panels[-1].tick_params(length=0)
        for side in ("top", "right", "left"):
            panels[-1].spines[side].set_visible(False)
        figure.tight_layout()

    save_figure(IMAGES / "uniform.svg", [], draw)
    broken = diagnose(_zeroed(translator), open_corpus([TEST], "valid"), data=TEST, most=60)
    outcome = broken["uniform attention"]
    assert outcome.finding is not None
    return {
        "data": TEST,
        "words": len(WORDS),
        "entropy": found,
        "loss": {name: _loss(*each) for name, each in models.items()},
        "bleu": {
            name: regard.evaluate(models[name][0], TEST)["BLEU"].value for name in ("trained", "zeroed")
        },
        "doctor": [
            f"  {outcome.check}    {outcome.verdict}    {outcome.figure}",
            outcome.finding.problem,
            f"  Evidence: {outcome.finding.evidence}",
            *(f"  Possible cause: {cause}." for cause in outcome.finding.causes),
        ],
        "parameters": learned(reversing.model),
    }  # fmt: skip


def _untrained(translator: Translator, config: ModelConfig) -> Translator:
    """Return the same model with the weights it began with."""
    torch.manual_seed(1)
    both = translator.tokenizers
    model = build_model(config, both.source.size, both.target.size)
    return Translator(model.eval(), both, translator.options)


def _zeroed(translator: Translator) -> Translator:
    """Return a copy whose additive scores are all zero."""
    model = copy.deepcopy(translator.model)
    model.decoder.source_attentions[0].score.v_a.weight.data.zero_()  # type: ignore[operator, union-attr]
    return Translator(model, translator.tokenizers, translator.options)


def _reversed(draw: random.Random) -> Pair:
    """Return a text whose target is itself, backwards."""
    words = [draw.choice(WORDS) for _ in range(6)]
    return Pair(" ".join(words), " ".join(reversed(words)))


def _counted(draw: random.Random) -> Pair:
    """Return a text whose target has nothing to do with it: six words in their fixed order, from any of them on."""
    words, start = [draw.choice(WORDS) for _ in range(6)], draw.randrange(len(WORDS))
    return Pair(" ".join(words), " ".join(WORDS[(start + place) % len(WORDS)] for place in range(6)))


def _drawn(make: Any, count: int, seed: int) -> list[Pair]:
    draw = random.Random(seed)
    return [make(draw) for _ in range(count)]


def _trained(make: Any) -> Translator:
    """Train a small model on made pairs, for some seconds."""
    corpora = [[(pair.source, pair.target) for pair in _drawn(make, *size)] for size in ((20_000, 1), (20, 2))]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "model"
        regard.train(
            corpora[0], valid=corpora[1], out=out, preset="bahdanau2014-small", settings=SMALL, seed=1, quiet=True
        )
        return Translator.load(out)


def _entropy(translator: Translator, pairs: Sequence[Pair]) -> float:
    """Return the mean entropy relative to uniform attention, the step that writes the end token left out."""
    rows = [_relative_entropy(trace.look()[:-1].astype(np.float64)) for trace in translator.align(pairs)]
    return float(np.mean(rows))


def _loss(translator: Translator, pairs: Sequence[Pair]) -> float:
    """Return the negative log-likelihood per target token, in nats."""
    return -float(np.mean([value for row in translator.score(pairs) for value in row]))


# -- pictures ---------------------------------------------------------------------------------------------------------


def _dress(axes: "Axes") -> None:
    axes.grid(axis="y", color=LINES, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _matrix(axes: "Axes", weights: NDArray[Any], across: Sequence[str], down: Sequence[str]) -> None:
    """Draw weights between 0 and 1, darker for larger ones."""
    from matplotlib.colors import ListedColormap

    axes.imshow(weights, vmin=0, vmax=1, cmap=ListedColormap(colour_scale.colours(256)), aspect="auto")
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(across)), across, rotation=45, ha="left", fontsize=9, color=INK)
    axes.set_yticks(range(len(down)), down, fontsize=9, color=INK)
    axes.set_xticks(np.arange(len(across) - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(len(down) - 1) + 0.5, minor=True)
    axes.grid(which="minor", color=LINES, linewidth=0.5)
    axes.tick_params(length=0, which="both")
    for spine in axes.spines.values():
        spine.set_visible(False)


# -- all ---------------------------------------------------------------------------------------------------------------


def measure(demo: Path, transformer: Path) -> dict[str, Any]:
    """Measure and draw all five pages."""
    translator = Translator.load(demo)
    config = read_toml(demo / "config.toml").model
    return {
        "bottleneck": bottleneck(translator, config),
        "alignment": alignment(translator, config),
        "scores": score_functions(),
        "agreement": agreement(Translator.load(transformer), transformer),
        "uniform": uniform(translator, config),
        "made_with": f"regard {regard.__version__}, torch {torch.__version__}, Python {platform.python_version()}",
    }


def main() -> None:
    """Measure, draw, fill in."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("demo", nargs="?", type=Path, default=Path("demo/model"), help="the model of regard demo")
    parser.add_argument("transformer", nargs="?", type=Path, default=Path("transformer"), help="a Transformer")
    parser.add_argument("--fill", action="store_true", help="write the pages from measured.json alone")
    options = parser.parse_args()
    if not options.fill:
        IMAGES.mkdir(parents=True, exist_ok=True)
        found = measure(options.demo, options.transformer)
        (DOCS / "measured.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{time.process_time():.0f} s of processor time")
    for path, text in lesson_pages.filled().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
