"""The demo: train on the embedded corpus, score, translate, show the attention."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

from regard.config import Config
from regard.config_io import override
from regard.data.corpus import open_corpus
from regard.data.phrasebook import demo_pairs
from regard.decoding.translator import Translator
from regard.demo import train_once
from regard.presets import preset
from regard.tasks.translation.evaluation import evaluate

COMMON = (
    "data.from_language=en",
    "data.to_language=fr",
    "tokenizer.vocabulary=2000",
    "tokenizer.joint=false",
    "training.epochs=100",
    "training.patience=0",
    "training.precision=float32",
)
SHORT = (
    *COMMON,
    "data.train=phrasebook:80000",
    "model.dropout=0.0",
    "model.tie=output",
    "training.batch_tokens=1000",
    "training.learning_rate=0.004",
    "training.steps=1150",
    "training.validate_every=1150",
)
"""Training in about two minutes: small batches, and no dropout, since hardly any sentence is seen twice."""
LONG = (
    *COMMON,
    "data.train=phrasebook:200000",
    "model.dropout=0.1",
    "training.batch_tokens=1500",
    "training.learning_rate=0.003",
    "training.steps=5000",
    "training.validate_every=500",
)
"""About six times the demo's training, after which the corpus gives little more."""

TEST = "phrasebook:500"
DOING = "Training a small translator (Bahdanau et al. 2014) on the embedded English–French phrasebook."


def configuration(long: bool = False) -> Config:
    """Return the configuration that the demo trains."""
    return override(preset("bahdanau2014-small"), LONG if long else SHORT)


def show(folder: Path, *, long: bool, width: int, color: bool, say: Callable[[str], None]) -> None:
    """Train a model (or reuse a trained one), score it, translate a few sentences and draw the attention."""
    model = folder / ("model-long" if long else "model")
    train_once(configuration(long), model, "phrasebook", DOING, say)
    translator = Translator.load(model)
    test = open_corpus([TEST], split="test")
    say(f"\nScoring {TEST.partition(':')[2]} held-out sentences ...\n")
    say(str(evaluate(translator, test, data=test.name, beam=5)))
    say("\nWhere the model looks while it writes (rows: what it writes; columns: what it reads):")
    pictures = _look(translator, folder, width, color, say)
    say(_what_next(model, pictures))


def _look(translator: Translator, folder: Path, width: int, color: bool, say: Callable[[str], None]) -> list[Path]:
    written: list[Path] = []
    drawing = importlib.util.find_spec("matplotlib") is not None
    if not drawing:
        say("(Without matplotlib there are no pictures in files: pip install matplotlib.)")
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    pairs = demo_pairs()
    found = translator.translate([pair.source for pair in pairs], beam=5)
    for number, (pair, best) in enumerate(zip(pairs, found, strict=True), start=1):
        wrong = "" if best.text == pair.target else f"  (right would be: {pair.target})\n"
        say(f"\n{pair.source}\n→ {best.text}\n{wrong}")
        say(best.attention.render(width, color))
        for suffix in (".png", ".svg") if drawing else ():
            path = folder / "pictures" / f"{number}{suffix}"
            for note in best.attention.save(path, quiet=True):
                say(note)
            written.append(path)
    return written


def _what_next(model: Path, pictures: list[Path]) -> str:
    shown = f"Saved as pictures in {pictures[0].parent}/*.png and *.svg\n" if pictures else ""
    return f"""
{shown}
Try next (regard is in .venv/bin if you came by make):
  regard attend {model} "he sees me" --out look.png            attention for a sentence of your own
  echo "my sister has three small dogs" | regard translate {model}
  regard evaluate {model} --data phrasebook:2000 --plot by-length.png
  regard demo --long                                           train longer for a better model
  regard demo --task caption                                   a model that describes pictures
  regard train --source train.en --target train.de --out models/mine   train on your own data
"""
