"""regard, timed as its peers are."""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from talk import Boss, Meter, Task, serve, threads

from regard.config import Config
from regard.data.special_tokens import MARKS

LOGGED = {"cpu": 1, "cuda": 20}
"""Steps after which numbers are read; a GPU has to be waited for, as it has to be by who looks at them."""


def config_of(task: Task) -> Config:
    """Say in regard's terms what is to be trained, and on what."""
    from regard.config_io import override
    from regard.presets import preset

    data = Path(task["data"])
    files = json.dumps([str(data / "train.en"), str(data / "train.de")])
    model, changes = network(task)
    return override(
        preset(model),
        [
            f"data.train={files}",
            f"seed={task['seed']}",
            *("tokenizer.kind=bpe", "tokenizer.vocabulary=8000", "tokenizer.joint=true"),
            *(f"model.{change}" for change in changes),
            *("training.optimizer=adam", "training.schedule=constant", "training.warmup=0", "training.clip=1.0"),
            *("training.label_smoothing=0", "training.accumulate=1", "training.average=none"),
            f"training.learning_rate={task['rate']}",
            f"training.batch_tokens={batch_tokens(task)}",
            *(f"training.steps={task['steps'] or 10**9}", "training.epochs=1000000", "training.save_every=0"),
            *("training.validate_every=1000000000", f"training.log_every={LOGGED[task['device']]}"),
            f"training.device={task['device']}",
            *task.get("set", []),
        ],
    )


def network(task: Task) -> tuple[str, list[str]]:
    """Say which network: a preset, and how it differs."""
    size, dropout = task["size"], task["dropout"]
    if task["model"] == "transformer":
        both = [f"{side}.feed_forward={size['feed_forward']}" for side in ("encoder", "decoder")]
        return "transformer2017-small", [f"dropout={dropout}", *both]
    if task["model"].startswith("bahdanau"):
        return "bahdanau2014", [f"dropout={dropout}"]
    return "luong2015-small", [
        *(f"dropout={dropout}", f"embedding={size['embedding']}", "reverse_source=false"),
        *(f"encoder.cell={size['cell']}", "encoder.layers=1", f"encoder.width={size['encoder']}"),
        *("encoder.bidirectional=true", f"decoder.cell={size['cell']}", "decoder.layers=1"),
        *(f"decoder.width={size['decoder']}", "decoder.input_feeding=true", "decoder.readout=tanh"),
        f"decoder.readout_width={size['decoder']}",
        f"attention.score={'general' if task['model'].endswith('general') else 'additive'}",
        f"attention.width={size['decoder']}",
    ]


def batch_tokens(task: Task) -> int:
    """Return how many tokens a batch holds where it has as many sentences, on average, as the others' have."""
    data = Path(task["data"])
    sides = [(data / f"train.bpe.{language}").read_text(encoding="utf-8").split("\n") for language in ("en", "de")]
    longer = [1 + max(len(source.split(" ")), len(target.split(" "))) for source, target in zip(*sides, strict=True)]
    return round(int(task["batch"]) * sum(longer) / len(longer))


class Counting:
    """A reporter that hands on how many tokens every step had."""

    meter: Meter | None = None
    last = 0
    """The step up to which tokens are counted."""

    def message(self, text: str) -> None:
        """Pass it to the log."""
        print(text, file=sys.stderr, flush=True)

    def step(self, progress: Any) -> None:
        """Hear nothing new: `logged` has it."""

    def logged(self, record: Mapping[str, Any]) -> None:
        """Count the tokens of the steps since the last time."""
        if self.meter is not None and record.get("steps_per_second"):
            steps, self.last = record["step"] - self.last, record["step"]
            self.meter.saw(round(steps * record["tokens_per_second"] / record["steps_per_second"]), 0)
            self.meter.went(steps)

    def close(self) -> None:
        """Do nothing."""


def train(boss: Boss, task: Task) -> None:
    """Train as `regard train` does."""
    import regard
    from regard.models.build import build_model
    from regard.training.train_model import train as run

    config, folder = config_of(task), Path(task["folder"])
    shutil.rmtree(folder, ignore_errors=True)
    reporter, size = Counting(), config.tokenizer.vocabulary
    like = partial(build_model, config.model, size, size)
    reporter.meter = Meter(boss, task, like, regard.__version__, hooked=False)
    run(config, folder, reporter=reporter)


def convert(boss: Boss, task: Task) -> None:
    """Write the model as another toolkit's, and the test sentences in the model's own pieces."""
    import to_joey
    import to_opennmt

    import regard
    from regard.export.ctranslate2_model import export_ctranslate2
    from regard.models.model_folder import open_folder
    from regard.models.seq2seq import Seq2Seq

    asked, given = config_of(task).model, open_folder(Path(task["folder"])).model
    if replace(given, dropout=asked.dropout) != asked:
        raise SystemExit(f"{task['folder']} does not hold this bench's {task['model']} network.")
    translator, folder = regard.load(task["folder"]), Path(task["into"])
    assert isinstance(translator.model, Seq2Seq)
    source = translator.tokenizers.source
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    pieces = source.pieces(range(len(MARKS), source.size))
    lines = (Path(task["data"]) / "test.en").read_text(encoding="utf-8").splitlines()
    cut = [source.pieces(ids) for ids in source.encode_all(lines)]
    if task["format"] == "ctranslate2":
        export_ctranslate2(Path(task["folder"]), folder)
        text = "".join(" ".join(line) + "\n" for line in cut)
        (folder / "test.en").write_text(text, encoding="utf-8")
        return
    folder.mkdir()
    write = {"joey": to_joey.write, "opennmt": to_opennmt.write}[task["format"]]
    write(folder, translator.model, pieces, task["size"], cut)


def decode(boss: Boss, task: Task) -> None:
    """Translate as `regard translate` does, with `--fast` or without, from text to text."""
    import torch

    import regard
    from regard.config_io import override

    translator = regard.load(task["folder"], device=task["device"])
    options = translator.faster() if task.get("fast") else translator.options
    changes = [f"decoding.max_length={task['longest']}", f"decoding.length_penalty={task['length_penalty']}"]
    options = override(Config(decoding=options), [*changes, *task.get("set", [])]).decoding
    parameters = sum(p.numel() for p in translator.model.parameters())

    def translate(lines: Sequence[str], beam: int) -> list[list[str]]:
        found = translator.translate(lines, beam=beam, batch_size=task["batch"], options=options, look=False)
        return [[token for token in one.tokens if token != "</s>"] for one in found]

    serve(boss, translate, version=regard.__version__, torch=torch.__version__, parameters=parameters)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    threads(given)
    {"train": train, "convert": convert, "decode": decode}[given["work"]](Boss(), given)
