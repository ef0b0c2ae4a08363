"""How much work a training step and a decoding step are, counted: a slip that no clock on a busy machine would show.

Counted are the operators that torch is asked for (on a GPU each is a kernel or more) and the bytes of the tensors they
make. `tests/work.json` holds what they were when it was last written; more than that, with some slack for other
releases of torch, fails. Less is welcome, and then, or where more is meant:

    python tests/test_work.py        # writes the table anew
"""

import json
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard import packed
from regard.config import DecodingConfig
from regard.data.vocabulary import BOS, EOS
from regard.decoding.search import search
from regard.models.build import build_model
from regard.presets import preset
from regard.settings import override
from regard.training.loop import train
from regard.training.progress import Silent

TABLE = Path(__file__).with_name("work.json")
PRESETS = (
    "sutskever2014-small",
    "bahdanau2014-small",
    "bahdanau2014-conditional-small",
    "luong2015-small",
    "gnmt2016-small",
    "transformer2017-small",
)
SLACK = {"operators": 1.10, "bytes": 1.25}
PAIRS, BATCH, SOURCE, TARGET = 44, 11, 7, 5


class Work(TorchDispatchMode):
    """Counts operators, and the bytes of the tensors that they make (what shares memory with its inputs makes none)."""

    def __init__(self):
        super().__init__()
        self.operators = self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.operators += 1
        given = {_place(tensor) for tensor in tree_leaves((args, kwargs)) if isinstance(tensor, torch.Tensor)}
        made = {_place(t): t for t in tree_leaves(result) if isinstance(t, torch.Tensor)}
        self.bytes += sum(t.untyped_storage().nbytes() for place, t in made.items() if place not in given)
        return result


def _place(tensor):
    return tensor.untyped_storage().data_ptr()


class Between(Silent):
    """Notes how much work there was after each step."""

    def __init__(self, work):
        self.work, self.after = work, []

    def step(self, progress):
        self.after.append((self.work.operators, self.work.bytes))


def write_corpus(path):
    """Write pairs that are all of one length, so that every batch has the same shape."""
    words = [f"w{number}" for number in range(97)]
    lines = []
    for row in range(PAIRS):
        source = [words[(13 * row + 5 * place) % 97] for place in range(SOURCE)]
        lines.append(" ".join(source) + "\t" + " ".join(source[:TARGET]) + "\n")
    path.write_text("".join(lines), encoding="utf-8")


def training_step(name, folder):
    """Return the work of a step: that between the end of the second and the end of the fourth, by two."""
    write_corpus(folder / "pairs.tsv")
    config = override(
        preset(name),
        [
            f'data.train=["{folder / "pairs.tsv"}"]',
            *("tokenizer.kind=words", "tokenizer.vocabulary=8000", f"training.batch_tokens={BATCH * (SOURCE + 1)}"),
            *("training.steps=4", "training.epochs=9", "training.metric=loss", "training.device=cpu"),
            "training.precision=float32",  # the same on every machine
        ],
    )
    # Matrices that oneDNN lays out cannot be counted, and not every machine has it.
    with Work() as work, mock.patch.object(packed, "_has_onednn", return_value=False):
        between = Between(work)
        train(config, folder / "model", reporter=between)
    (_, _), second, _, fourth = between.after
    return {what: (after - before) // 2 for what, before, after in zip(SLACK, second, fourth, strict=True)}


def decoding_step(name, beam):
    """Return the work of a step of the search in Python: what six further tokens take, by six."""
    torch.manual_seed(1)
    model = build_model(preset(name).model, 101, 101).eval()
    source = torch.randint(4, 101, (BATCH, SOURCE))
    found = []
    for length in (4, 10):
        options = DecodingConfig(beam=beam, min_length=length - 1, max_length=length)
        with Work() as work, torch.inference_mode():
            search(
                model.decoder,
                model.encode(source, torch.ones_like(source, dtype=torch.bool)),
                options,
                bos=BOS,
                eos=EOS,
            )
        found.append((work.operators, work.bytes))
    return {what: (long - short) // 6 for what, short, long in zip(SLACK, *found, strict=True)}


KINDS = {
    "training step": training_step,
    "greedy step": lambda name, folder: decoding_step(name, 1),
    "beam step": lambda name, folder: decoding_step(name, 5),
}


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_more_work_than_the_table_says(name, kind, tmp_path):
    allowed = json.loads(TABLE.read_text(encoding="utf-8"))[kind][name]
    found = KINDS[kind](name, tmp_path)
    for what, slack in SLACK.items():
        assert 0 < found[what] <= slack * allowed[what], (
            f"A {kind} of {name} takes {found[what]:,} {what}; {TABLE.name} has {allowed[what]:,}. If that is meant, "
            f"write it anew: python tests/{Path(__file__).name}"
        )


def update():
    """Write the table anew."""
    import tempfile

    table = {}
    for kind, measure in KINDS.items():
        table[kind] = {}
        for name in PRESETS:
            with tempfile.TemporaryDirectory() as folder:
                table[kind][name] = measure(name, Path(folder))
            print(kind, name, table[kind][name], file=sys.stderr, flush=True)
    TABLE.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    update()
