"""The whole road once: train on the embedded corpus, score, translate, look."""

from collections.abc import Callable
from pathlib import Path

from regard.config import Config
from regard.data.corpus import open_corpus
from regard.data.phrasebook import demo_sentences
from regard.decoding.translator import Translator
from regard.errors import DisplayError
from regard.evaluation.evaluate import evaluate
from regard.models.store import CONFIG
from regard.presets import preset
from regard.settings import differences, override, read_toml
from regard.training.loop import train

COMMON = (
    "tokenizer.vocabulary=2000",
    "tokenizer.joint=false",
    "training.epochs=100",
    "training.validate_every=500",
    "training.patience=0",
)
SHORT = (
    *COMMON,
    "data.train=phrasebook:80000",
    "model.dropout=0.0",
    "model.tie=output",
    "training.batch_tokens=1000",
    "training.learning_rate=0.004",
    "training.steps=1500",
)
"""What two minutes can do: no dropout, since hardly a sentence comes twice, and small batches."""
LONG = (
    *COMMON,
    "data.train=phrasebook:200000",
    "model.dropout=0.1",
    "training.batch_tokens=1500",
    "training.learning_rate=0.003",
    "training.steps=5000",
)
"""What the corpus can give: about six times the demo's training."""

TEST = "phrasebook:500"


def configuration(long: bool = False) -> Config:
    """Return what the demo trains."""
    return override(preset("bahdanau2014-small"), LONG if long else SHORT)


def show(folder: Path, *, long: bool, width: int, color: bool, say: Callable[[str], None]) -> None:
    """Train (or reuse what is there), score, translate a handful of sentences and draw where the model looked."""
    model = folder / ("model-long" if long else "model")
    _train_once(configuration(long), model, say)
    translator = Translator.load(model)
    test = open_corpus([TEST], split="test")
    say(f"\nScoring {TEST.partition(':')[2]} held-out sentences ...\n")
    say(str(evaluate(translator, test, data=test.name, beam=5)))
    say("\nWhere the model looks while it writes (rows: what it writes; columns: what it reads):")
    pictures = _look(translator, folder, width, color, say)
    say(_what_next(model, pictures))


def _train_once(config: Config, model: Path, say: Callable[[str], None]) -> None:
    if (model / CONFIG).is_file() and not differences(read_toml(model / CONFIG), config):
        say(f"Using {model}, which is there already (remove it to train anew).")
        train(config, model, resume=True)
        return
    say("Training a small translator (Bahdanau et al. 2014) on the embedded English–French phrasebook.")
    train(config, model, overwrite=True)


def _look(translator: Translator, folder: Path, width: int, color: bool, say: Callable[[str], None]) -> list[Path]:
    written: list[Path] = []
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    for number, best in enumerate(translator.translate(demo_sentences(), beam=5), start=1):
        say(f"\n{demo_sentences()[number - 1]}\n→ {best.text}\n")
        say(best.attention.render(width, color))
        for suffix in (".png", ".svg"):
            path = folder / "pictures" / f"{number}{suffix}"
            try:
                for note in best.attention.save(path, quiet=True):
                    say(note)
                written.append(path)
            except DisplayError as error:
                say(str(error))
    return written


def _what_next(model: Path, pictures: list[Path]) -> str:
    shown = f"Pictures of these: {pictures[0].parent}/*.png and *.svg\n" if pictures else ""
    return f"""
{shown}
Try next (regard is in .venv/bin if you came by make):
  regard attend {model} "he sees me" --out look.png            look at a sentence of your own
  echo "my sister has three small dogs" | regard translate {model}
  regard evaluate {model} --data phrasebook:2000 --plot by-length.png
  regard demo --long                                           a longer training, a better model
  regard train --source train.en --target train.de --out models/mine   your own data
"""
