"""How much work a training step and a decoding step are, counted: a slip that no clock on a busy machine would show.

Counted are the operators that torch is asked for (on a GPU each is a kernel or more), the bytes of the tensors that
they make, how many of these are there at once, and the multiply-adds of their products; of a search that is recorded
for a GPU, the kernels of a step. Sentences are of unequal lengths and there are 8,000 words, so that it is dear to
compute something for padding, or once more for all words.

`tests/work.json` holds what they were when it was last written, and with which torch; more than that fails: with the
same release at once, with another beyond some slack. Less is welcome, and then, or where more is meant:

    python tests/test_work.py        # writes the table anew

How often the compiled search multiplies is counted by itself, and tested in `tests/native/test_engine.py`.
"""

import gc
import importlib.util
import json
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from launches import Kernels
from regard import prepacked_matmul
from regard.config import DecodingConfig, TrainingConfig
from regard.config_io import override
from regard.data.batching import Batch
from regard.data.special_tokens import BOS, EOS
from regard.decoding.cuda_graph_search import SearchGraphs
from regard.decoding.search import search
from regard.decoding.search_methods import DecodingRequest
from regard.decoding.static_search import BufferShape
from regard.models.build import build_model
from regard.models.protocol import leaves
from regard.presets import preset
from regard.training.fused_loss import LossOptions, output_loss
from regard.training.objective import SequenceObjective
from regard.training.progress import Silent
from regard.training.train_model import train

TABLE = Path(__file__).with_name("work.json")
PRESETS = (
    "sutskever2014-small",
    "bahdanau2014-small",
    "bahdanau2014-conditional-small",
    "luong2015-small",
    "luong2015-small, not fed",  # all steps of its decoder at once, and one look for all of them
    "gnmt2016-small",
    "transformer2017-small",
)
WHAT = ("operators", "bytes", "products", "peak")
SAME = {"operators": 1.0, "bytes": 1.001, "products": 1.0, "peak": 1.01, "launches": 1.0}
OTHER = {"operators": 1.10, "bytes": 1.10, "products": 1.02, "peak": 1.20, "launches": 1.10}
"""What is allowed beyond the table: with the release of torch that wrote it, and with others, which may take an
operation to pieces in another way."""
WORDS = 8000
SOURCES = (7, 7, 6, 5, 5, 4, 3, 3, 2, 1, 1)
TARGETS = (5, 2, 7, 1, 4, 4, 6, 1, 3, 2, 1)
BATCH, SOURCE = len(SOURCES), max(SOURCES)


def chosen(name):
    """The settings of one of `PRESETS`."""
    name, _, without = name.partition(", ")
    return override(preset(name), ["model.decoder.input_feeding=false"] if without else [])


class Work(TorchDispatchMode):
    """Counts operators, their multiply-adds, and the bytes of the tensors that they make.

    What shares memory with its inputs makes none. `largest` is the most bytes of one tensor, `peak` the most bytes of
    all that were there at once.
    """

    def __init__(self):
        super().__init__()
        self.operators = self.bytes = self.products = self.largest = self.peak = 0
        self.there, self.most_there = {}, 0

    def __enter__(self):
        # What is garbage goes when a step ends, and not whenever Python comes to it; what is there already is let be.
        gc.collect()
        gc.freeze()
        gc.disable()
        return super().__enter__()

    def __exit__(self, *problem):
        gc.enable()
        return super().__exit__(*problem)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.operators += 1
        self.products += multiply_adds(function, args)
        given = {_place(tensor) for tensor in tree_leaves((args, kwargs)) if isinstance(tensor, torch.Tensor)}
        made = {_place(t): t for t in tree_leaves(result) if isinstance(t, torch.Tensor)}
        for place, tensor in made.items():
            if place not in given:
                self._note(tensor.untyped_storage())
        return result

    def _note(self, storage):
        size = storage.nbytes()
        self.bytes += size
        self.largest = max(self.largest, size)
        reference = StorageWeakRef(storage)
        self.there[reference.cdata] = reference, size
        self.most_there += size
        if self.most_there > self.peak:  # only then is it worth asking who has gone
            self.there = {key: one for key, one in self.there.items() if not one[0].expired()}
            self.most_there = sum(size for _, size in self.there.values())
            self.peak = max(self.peak, self.most_there)

    @property
    def counted(self):
        return tuple(getattr(self, what) for what in WHAT)


def _place(tensor):
    return tensor.untyped_storage().data_ptr()


def multiply_adds(function, args):
    """Rows × outputs × inputs of a product, and 0 for anything else."""
    name = function.__name__.split(".")[0].rstrip("_")
    if name == "linear":
        return args[0].numel() * args[1].shape[0]
    if name in ("mm", "addmm", "bmm", "baddbmm", "addmv", "mv"):
        return args[-2].numel() * (args[-1].shape[-1] if args[-1].dim() > 1 else 1)
    return 0


class EnoughError(Exception):
    """Ends a training whose work has been counted: nothing needs to be saved of it."""


class Between(Silent):
    """Notes how much work there was after each of three steps, and the most that was there at once until then."""

    def __init__(self, work):
        self.work, self.after = work, []

    def step(self, progress):
        self.after.append(self.work.counted)
        gc.collect()
        if len(self.after) == 3:
            raise EnoughError


def lengths_to_mask(lengths):
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def write_corpus(path):
    """Write pairs that are one batch; and one that is too long to learn from, with all the words there are."""
    words = [f"w{number}" for number in range(WORDS - 4)]  # and four marks
    lines = [" ".join(words) + "\t" + words[0] + "\n"]
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        sides = [" ".join(words[(13 * row + 5 * place) % 97] for place in range(size)) for size in (source, target)]
        lines.append("\t".join(sides) + "\n")
    path.write_text("".join(lines), encoding="utf-8")


def training_step(name, folder):
    """Return the work of a step: that between the end of the second and the end of the third."""
    import torch._dynamo  # noqa: F401  # which torch would do while work is counted

    write_corpus(folder / "pairs.tsv")
    config = override(
        chosen(name),
        [
            f'data.train=["{folder / "pairs.tsv"}"]',
            *("tokenizer.kind=words", f"tokenizer.vocabulary={WORDS}", f"training.batch_tokens={BATCH * (SOURCE + 1)}"),
            *("training.steps=3", "training.epochs=9", "training.metric=loss", "training.device=cpu"),
            "training.validate_every=9",  # so that nothing is saved between the steps
            "training.precision=float32",  # the same on every machine
        ],
    )
    # Matrices that oneDNN lays out cannot be counted, and not every machine has it.
    with Work() as work, mock.patch.object(prepacked_matmul, "_has_onednn", return_value=False):
        between = Between(work)
        with pytest.raises(EnoughError):
            train(config, folder / "model", reporter=between)
    _, second, third = between.after
    found = {what: after - before for what, before, after in zip(WHAT, second, third, strict=True)}
    return {**found, "peak": second[WHAT.index("peak")]}


def decoding_step(name, beam):
    """Return the work of a step of the search in Python: what six further tokens take, by six."""
    torch.manual_seed(1)
    model = build_model(chosen(name).model, WORDS, WORDS).eval()
    mask = lengths_to_mask(SOURCES)
    source = torch.randint(4, WORDS, mask.shape).masked_fill(~mask, 0)
    found = []
    for length in (4, 10):
        options = DecodingConfig(beam=beam, min_length=length - 1, max_length=length)
        with Work() as work, torch.inference_mode():
            search(model.decoder, model.encode(source, mask), options, bos=BOS, eos=EOS)
        found.append(work.counted)
    short, long = found
    each = {what: (after - before) // 6 for what, before, after in zip(WHAT, short, long, strict=True)}
    return {**each, "peak": long[WHAT.index("peak")]}


# -- the loss ---------------------------------------------------------------------------------------------------------

CHUNK = 4 << 22
"""Bytes of the logits that a CPU makes at a time."""


def ragged(words, seed=1, rows=101, longest=41):
    """A batch of sentences of all lengths, half of it padding."""
    torch.manual_seed(seed)
    lengths = [1 + (17 * row) % longest for row in range(rows)]
    mask = lengths_to_mask(lengths)
    source, tokens = torch.randint(4, words, (rows, 3)), torch.randint(4, words, mask.shape).masked_fill(~mask, 0)
    return Batch(source, torch.ones(rows, 3, dtype=torch.bool), tokens, tokens, mask, np.arange(rows))


@pytest.mark.parametrize(("settings", "passes", "most"), [({}, 1, 3), ({"r_drop": 1.0}, 2, 8)], ids=["plain", "r-drop"])
def test_the_loss_is_of_what_is_written_and_a_few_logits_at_a_time(settings, passes, most):
    """There, and back to features and to the output layer: three products of all tokens, none of padding."""
    words, narrow = 8009, ["embedding", "encoder.width", "decoder.width", "decoder.readout_width", "attention.width"]
    config = override(preset("bahdanau2014-small"), [f"model.{key}=16" for key in narrow])
    model, batch = build_model(config.model, words, words), ragged(words)
    objective = SequenceObjective(model, TrainingConfig(label_smoothing=0.1, **settings))
    tokens, width = int(batch.target_mask.sum()) * passes, model.decoder.output.in_features
    assert tokens * words * 4 > most * CHUNK
    with Work() as work, Wide(words) as wide:
        objective(batch).total.backward()
    assert wide.products == 3 * tokens * words * width
    assert work.largest <= CHUNK
    assert work.peak <= most * CHUNK


class Wide(TorchDispatchMode):
    """Counts the multiply-adds of products with all words."""

    def __init__(self, words):
        super().__init__()
        self.words, self.products = words, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if any(self.words in part.shape for part in args if isinstance(part, torch.Tensor)):
            self.products += multiply_adds(function, args)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_logits_become_their_gradient_where_they_stand(smoothing):
    """Of as many as are made at a time there is one tensor, and that of those before while the next are made."""
    output = torch.nn.Linear(3, WORDS)
    tokens = 3 * (CHUNK // 4 // WORDS)
    features, targets = torch.randn(tokens, 3, requires_grad=True), torch.randint(WORDS, (tokens,))
    with Work() as work:
        output_loss(output, features, targets, LossOptions(smoothing, 0.0)).total.backward()
    assert work.bytes < 3.1 * CHUNK
    assert work.peak < 2.1 * CHUNK


# -- a search that is recorded ----------------------------------------------------------------------------------------


def recorded_step(name, beam, monkeypatch):
    """Return the kernels of a step, those of the decoder's own part of it, and its state."""
    torch.manual_seed(1)
    model = build_model(chosen(name).model, 101, 101).eval()
    mask = lengths_to_mask(SOURCES)
    request, options = DecodingRequest(BOS, EOS, look=False), DecodingConfig(beam=beam)
    with torch.inference_mode(), monkeypatch.context() as patch:
        encoded = model.encode(torch.full(mask.shape, 5), mask)
        buffers = SearchGraphs().buffers(model.decoder, encoded, options, request, BufferShape(16, 16, 32))
        buffers.begin(encoded, [20] * BATCH)
        with Kernels(patch) as work:
            model.decoder.step(buffers.beams.token.flatten(), buffers.state, False)
            own = work.found.copy()
            buffers.begin(encoded, [20] * BATCH)
            work.found.clear()
            buffers.advance()
    return work.found, own, list(leaves(buffers.state))


needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed: pip install triton"
)


@needs_triton
@pytest.mark.parametrize("beam", [1, 5])
@pytest.mark.parametrize("name", PRESETS)
def test_a_recorded_step_is_the_decoders_and_little_more(name, beam, monkeypatch):
    """The best words are found by one kernel, all is chosen by one, and time goes on by one; then states move."""
    whole, own, state = recorded_step(name, beam, monkeypatch)
    assert whole["_top"] == whole["_choose"] == whole["add_"] - own["add_"] == 1
    assert (whole - own).total() <= 3 + 2 * len(state), str(whole - own)


KINDS = {
    "training step": training_step,
    "greedy step": lambda name, folder: decoding_step(name, 1),
    "beam step": lambda name, folder: decoding_step(name, 5),
    "recorded step": lambda name, folder: launches(name, 5),
}


def launches(name, beam):
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed: pip install triton")
    with pytest.MonkeyPatch.context() as patch:
        return {"launches": recorded_step(name, beam, patch)[0].total()}


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_more_work_than_the_table_says(name, kind, tmp_path):
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    slack = SAME if release() == table["torch"] else OTHER
    allowed, found = table[kind][name], KINDS[kind](name, tmp_path)
    assert found.keys() == allowed.keys()
    for what, count in found.items():
        assert 0 < count <= slack[what] * allowed[what], (
            f"A {kind} of {name} takes {count:,} {what}; {TABLE.name} has {allowed[what]:,}. If that is meant, "
            f"write it anew: python tests/{Path(__file__).name}"
        )


def release():
    """Which torch this is; where it was built is of no matter."""
    return torch.__version__.split("+")[0]


def update():
    """Write the table anew."""
    import tempfile

    table = {"torch": release()}
    for kind, measure in KINDS.items():
        table[kind] = {}
        for name in PRESETS:
            with tempfile.TemporaryDirectory() as folder:
                table[kind][name] = measure(name, Path(folder))
            print(kind, name, table[kind][name], file=sys.stderr, flush=True)
    TABLE.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    update()
