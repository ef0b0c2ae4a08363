"""Write a page for each mechanism: its equation, the attention of a model trained with it, when to use it, its cost.

`train` trains one small model for each mechanism on `phrasebook`, scores it, draws its attention and records everything
in docs/mechanisms/measured.json; an interrupted run is resumed, and `--jobs` trains several in parallel. `draw` redraws
the pictures of trained models. `pages` writes the pages from these measurements, the docstrings and
docs/mechanisms/texts.toml, without training; a test runs it to check that the pages are current. Run: make mechanisms
"""

import argparse
import inspect
import json
import platform
import subprocess
import sys
import textwrap
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import regard
from regard.attention import build_attention, coverages, focuses, reaches, scores
from regard.attention.positions import positions
from regard.config import AttentionConfig, Config
from regard.config_io import override
from regard.data.batching import pad_sources
from regard.data.corpus import open_corpus
from regard.data.special_tokens import EOS
from regard.decoding.translator import Translator
from regard.models.attention_hooks import watched
from regard.models.model_folder import learned
from regard.presets import preset
from regard.tasks.translation.demo import configuration
from regard.tasks.translation.evaluation import evaluate
from regard.training.train_model import train
from regard.viz.trace import AttentionTrace

DOCS = Path(__file__).parents[1] / "docs" / "mechanisms"
IMAGES = DOCS.parent / "images" / "mechanisms"
SENTENCE = "the red dress that my sister bought yesterday is not in the small room"
TEST = "phrasebook:200"
HEADS = ("model.attention.heads=4", "model.attention.score=scaled-dot")
COMMON = ("data.train=phrasebook:40000", "training.steps=800", "training.validate_every=800")
RECURRENT = (
    *COMMON,
    "model.embedding=128",
    "model.encoder.width=64",
    "model.decoder.width=128",
    "model.decoder.readout_width=128",
    "model.attention.width=64",
    "training.learning_rate=0.006",
)
TRANSFORMER = (
    *COMMON,
    "tokenizer.vocabulary=2000",
    "tokenizer.joint=false",
    "model.embedding=128",
    "model.encoder.width=128",
    "model.encoder.layers=2",
    "model.encoder.feed_forward=256",
    "model.decoder.width=128",
    "model.decoder.layers=2",
    "model.decoder.feed_forward=256",
    "model.dropout=0.0",
    "model.tie=output",
    "training.batch_tokens=1500",
    "training.learning_rate=0.003",
    "training.epochs=100",
    "training.patience=0",
)
SHORT_SIGHT = ("model.self_attention.window=4", "model.self_attention.stride=3")


@dataclass(frozen=True)
class Mechanism:
    """The mechanism of a page, and the model that shows it."""

    kind: str
    name: str
    described: Any
    """The class whose docstring has the equation."""
    changes: tuple[str, ...]
    base: Callable[[], Config] = lambda: override(configuration(), RECURRENT)
    inside: bool = False
    """Whether it is shown in the encoder's self-attention."""

    @property
    def key(self) -> str:
        return f"{self.kind}-{self.name}"

    @property
    def setting(self) -> str:
        return self.changes[0].replace("=", " = ") if self.changes else ""


def small_transformer() -> Config:
    """Return the model that shows the mechanisms of self-attention."""
    return override(preset("transformer2017-small"), TRANSFORMER)


def mechanisms() -> Iterator[Mechanism]:
    """Yield every registered mechanism, and the extras that have no registry."""
    from regard.attention.multi_head import Heads
    from regard.models.luong import LuongDecoder
    from regard.models.pointer_generator import Pointer
    from regard.training.auxiliary_losses import guided_loss

    for name, described in scores.items():
        yield Mechanism("score", name, described, (f"model.attention.score={name}",))
    for name, reach in reaches.items():
        if name == "global" or not reach.of_another:
            continue
        local = (f"model.attention.reach={name}", "model.attention.window=4")
        yield Mechanism("reach", name, reach, local)
    yield Mechanism("reach", "global", reaches["global"], ("model.attention.reach=global",))
    for name, reach in reaches.items():
        if not reach.of_another:
            changes = (f"model.self_attention.reach={name}", *SHORT_SIGHT)
            yield Mechanism("reach", name, reach, changes, small_transformer, inside=True)
    for name, focus in focuses.items():
        yield Mechanism("focus", name, focus, (f"model.attention.focus={name}",))
    for name, coverage in coverages.items():
        told = (f"model.attention.coverage={name}", "training.coverage_loss=0.1")
        yield Mechanism("coverage", name, coverage, told)
    for name, position in positions.items():
        yield Mechanism("position", name, position, (f"model.positions={name}",), small_transformer, inside=True)
    yield Mechanism("extra", "heads", Heads, HEADS)
    feeding = ("model.decoder.input_feeding=true", "model.decoder.kind=luong", "model.decoder.readout=tanh")
    yield Mechanism("extra", "input-feeding", LuongDecoder, feeding)
    yield Mechanism("extra", "guided", guided_loss, ("training.guided=0.5",))
    yield Mechanism("extra", "copy", Pointer, ("model.copy=true",))


# -- training ---------------------------------------------------------------------------------------------------------


def train_one(mechanism: Mechanism, folder: Path, steps: int) -> None:
    """Train, score and draw one mechanism; the measurements are stored in its model folder."""
    config = override(mechanism.base(), mechanism.changes)
    if steps:
        config = override(config, (f"training.steps={steps}", f"training.validate_every={steps}"))
    out = folder / mechanism.key
    began = time.perf_counter()
    result = train(config, out, resume=(out / "config.toml").is_file())
    translator = regard.load(out, device="auto")
    corpus = open_corpus([TEST])
    report = evaluate(translator, corpus, data=corpus.name, beam=5)
    trace = draw(mechanism, translator)
    measured = {
        "bleu": round(report["BLEU"].value, 2),
        "signature": report["BLEU"].made_by,
        "aer": round(report["AER"].value, 3),
        "parameters": learned(translator.model),
        "steps": result.steps,
        "preset": config.preset,
        "data": config.data.train[0],
        "seed": config.seed,
        "training_seconds": round(time.perf_counter() - began, 1),
        "target": " ".join(trace.target) if not mechanism.inside else "",
        **cost_of(config.model.self_attention if mechanism.inside else config.model.attention, config, mechanism),
        "made_with": made_with(),
    }
    (out / "measured.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


def draw(mechanism: Mechanism, translator: Translator) -> AttentionTrace:
    """Draw the attention of a mechanism's model."""
    trace = look_inside(translator) if mechanism.inside else translator.translate([SENTENCE])[0].attention
    IMAGES.mkdir(parents=True, exist_ok=True)
    trace.save(IMAGES / f"{mechanism.key}.png", quiet=True)
    return trace


def look_inside(translator: Translator) -> AttentionTrace:
    """Return the self-attention of the encoder's first layer over the sentence, averaged over heads."""
    side = translator.tokenizers.source
    tokens = [*side.encode_all([SENTENCE])[0], EOS]
    source, mask = (part.to(translator.device) for part in pad_sources([tokens]))
    with torch.inference_mode(), watched(translator.model.eval()) as looks:
        translator.model.encode(source, mask)
    first = next(weights[0] for weights in looks.values() if weights)  # B T H S
    pieces = tuple(side.pieces(tokens))
    weights = first[0].permute(1, 0, 2)[None].float().cpu().numpy().astype(np.float32)
    words = tuple(side.words(tokens))
    return AttentionTrace(pieces, pieces, weights, (), None, source_words=words, target_words=words)


def cost_of(attention: AttentionConfig | None, config: Config, mechanism: Mechanism) -> dict[str, float]:
    """Time attention of 256 queries over 256 states of width 256, forward and backward, on one CPU thread."""
    assert attention is not None
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        torch.manual_seed(1)
        look = build_attention(attention, 256, 256, itself=mechanism.inside, position=config.model.positions)
        states, mask = torch.randn(4, 256, 256), torch.ones(4, 256, dtype=torch.bool)
        times = []
        for _ in range(4):
            query = torch.randn(4, 256, 256, requires_grad=True)
            began = time.perf_counter()
            look(query, look.remember(states, mask), look=False).context.sum().backward()
            times.append(time.perf_counter() - began)
        weights = learned(look)
    finally:
        torch.set_num_threads(threads)
    return {"look_milliseconds": round(1000 * min(times), 1), "look_parameters": weights}


def made_with() -> str:
    """Return the machine and versions behind a number."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{torch.get_num_threads()} CPU threads"
    return f"regard {regard.__version__}, torch {torch.__version__}, Python {platform.python_version()}, {device}"


def train_all(folder: Path, jobs: int, steps: int, only: Sequence[str]) -> None:
    """Train the requested mechanisms, each in its own process, and collect the measurements."""
    chosen = [mechanism for mechanism in mechanisms() if not only or mechanism.key in only]

    def run(mechanism: Mechanism) -> str:
        if (folder / mechanism.key / "measured.json").is_file():
            return f"{mechanism.key}: there already"
        command = [sys.executable, __file__, "one", mechanism.key, "--folder", str(folder), "--steps", str(steps)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return f"{mechanism.key}: {'done' if done.returncode == 0 else done.stderr.strip()[-1500:]}"

    with ThreadPoolExecutor(jobs) as pool:
        for line in pool.map(run, chosen):
            print(line, flush=True)
    path = DOCS / "measured.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for mechanism in chosen:
        made = folder / mechanism.key / "measured.json"
        if made.is_file():
            known[mechanism.key] = json.loads(made.read_text(encoding="utf-8"))
    path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


# -- pages ------------------------------------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """Return every page by its file name."""
    texts = tomllib.loads((DOCS / "texts.toml").read_text(encoding="utf-8"))
    measured = json.loads((DOCS / "measured.json").read_text(encoding="utf-8"))
    made = {}
    for mechanism in mechanisms():
        text = texts[mechanism.kind][mechanism.name]
        made[f"{mechanism.key}.md"] = page(mechanism, text, measured[mechanism.key])
    made["README.md"] = index(texts, measured)
    return made


def page(mechanism: Mechanism, text: dict[str, str], measured: dict[str, Any]) -> str:
    """Write one page."""
    what = "self-attention of the encoder's first layer" if mechanism.inside else "attention of the decoder"
    aer = f", alignment error rate {measured['aer']}" if measured["aer"] is not None else ""
    trained = (
        f"Shown: {what}. Model: `{measured['preset']}`, 128 units wide, with `{'`, `'.join(mechanism.changes)}`, "
        f"{measured['steps']:,} steps on `{measured['data']}`, seed {measured['seed']}. On `{TEST}`, held out: "
        f"BLEU {measured['bleu']}{aer}."
    )
    return f"""# {text["title"]}

`{mechanism.setting}` · [all mechanisms](README.md)

{from_docstring(mechanism.described)}

![attention weights of the model](../images/mechanisms/{mechanism.key}.png)

{textwrap.fill(trained, 120)}

## When to use it

{textwrap.fill(text["when"], 120)}

## What it costs

{textwrap.fill(text["cost"], 120)}

Measured: {measured["look_parameters"]:,} parameters; {measured["look_milliseconds"]} ms for 4 × 256 queries over 256
states of width 256, forward and backward, on one CPU thread. The whole model has {measured["parameters"]:,} parameters.

BLEU: {measured["signature"]}. Made with {measured["made_with"]}.
"""


def from_docstring(described: Any) -> str:
    """Turn a docstring into Markdown: its equations into blocks that are rendered, the rest as it is."""
    lines, out = (inspect.getdoc(described) or "").splitlines(), []
    equation: list[str] | None = None
    for line in [*lines, ""]:
        if line.startswith(".. math::"):
            equation = [line.removeprefix(".. math::").strip()]
        elif equation is not None and (line.startswith(" ") or (not line.strip() and not any(equation))):
            equation.append(line.strip())
        elif equation is not None:
            out += ["```math", *(part for part in equation if part), "```", line]
            equation = None
        else:
            out.append(line)
    return "\n".join(out).strip()


def index(texts: dict[str, Any], measured: dict[str, Any]) -> str:
    """Write the page that lists all."""
    rows = []
    for mechanism in mechanisms():
        text, found = texts[mechanism.kind][mechanism.name], measured[mechanism.key]
        rows.append(
            f"| [{text['title']}]({mechanism.key}.md) | `{mechanism.setting}` | {found['bleu']} | {found['aer']} "
            f"| {found['look_parameters']:,} | {found['look_milliseconds']} |"
        )
    lines = "\n".join(rows)
    return f"""# Mechanisms

One page for each mechanism: its equation, the attention of a trained model, when to use it, what it costs. They can be
combined freely; `regard list` names them, and a combination without a meaning is refused with the reason. Mechanisms
for images have [pages of their own](vision.md).

| mechanism | setting | BLEU | AER | parameters | ms per attention step |
|---|---|---|---|---|---|
{lines}

Each row is one small model on the [phrasebook](../phrasebook.md), 128 units wide, trained for 800 steps (a minute or
two on one CPU core) and scored on {TEST}: scores, focuses and the reaches of a decoder with
`bahdanau2014-small`, self-attention and positions with `transformer2017-small` of 2 + 2 layers. The numbers show
that each mechanism works and what it costs. One short run on sentences as regular as these does not say which is best
on yours: `regard compare` does ([how](../compare.md)). Attention is timed with 4 × 256 queries over 256 states, forward
and backward, on one CPU thread.

Written by `python bench/mechanisms.py pages`, from models made by `python bench/mechanisms.py train`.
"""


def main() -> None:
    """Train, or write pages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("what", choices=("train", "one", "draw", "pages"))
    parser.add_argument("only", nargs="*", help="mechanisms, such as score-additive; all if none is given")
    parser.add_argument("--folder", type=Path, default=Path("models/mechanisms"), help="where the models go")
    parser.add_argument("--jobs", type=int, default=1, help="models that train at a time")
    parser.add_argument("--steps", type=int, default=0, help="steps of each, instead of its own number")
    options = parser.parse_args()
    if options.what == "train":
        train_all(options.folder, options.jobs, options.steps, options.only)
    elif options.what == "one":
        (mechanism,) = (one for one in mechanisms() if one.key == options.only[0])
        train_one(mechanism, options.folder, options.steps)
    elif options.what == "draw":
        for mechanism in mechanisms():
            if not options.only or mechanism.key in options.only:
                draw(mechanism, regard.load(options.folder / mechanism.key))
    else:
        for name, text in pages().items():
            (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
