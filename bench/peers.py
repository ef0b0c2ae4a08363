"""Shared by the benchmarks against other toolkits: environments, data, model sizes, workers and tables.

Every toolkit is driven by a worker (bench/workers/) in its own virtual environment, made once under --cache
(~/.cache/regard-bench). All get the same subwords, the same model sizes and the same number of threads, and are timed
in turns, so that a machine that slows down affects all of them.
"""

import argparse
import contextlib
import datetime
import fcntl
import gzip
import hashlib
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results"
CONSTRAINTS = ROOT / "constraints.txt"
"""All toolkits use the project's torch, even if a package asks for an older one."""
LOCK = "REGARD_BENCH_LOCK"
"""This environment variable names a file that is locked while timing, so that several people can share a machine."""


# -- the toolkits -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Patch:
    """An edit of an installed file that a toolkit needs to run with the current torch and Python."""

    file: str
    """The path below site-packages."""
    old: str
    new: str
    why: str


@dataclass(frozen=True)
class Peer:
    """Another toolkit, and how to install it."""

    name: str
    worker: str
    package: str
    """Installed without dependencies: the versions it asks for are too old for this torch."""
    needs: tuple[str, ...]
    """The packages that it imports in the benchmarks."""
    patches: tuple[Patch, ...] = ()
    command: tuple[str, ...] = ()
    """Its command, for the start-up time of --help."""
    env: str = ""
    """The environment, if shared with another toolkit."""


UNPICKLES = "since torch 2.6 torch.load reads tensors alone unless told otherwise, and a checkpoint has settings too"
PLAIN = (
    *("numpy", "setuptools", "pyyaml", "packaging", "six", "tqdm", "tensorboard", "sacrebleu", "sentencepiece"),
    *("matplotlib", "pandas", "importlib_metadata", "subword-nmt"),
)
OPENNMT = ("configargparse", "pyonmttok", "rapidfuzz", "pyahocorasick", "sentencepiece", "flask", "waitress")

PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            "joeynmt",
            "joey.py",
            "joeynmt==2.3.0",
            PLAIN,
            (
                Patch(
                    "joeynmt/helpers.py",
                    "torch.load(path, map_location=map_location)",
                    "torch.load(path, map_location=map_location, weights_only=False)",
                    UNPICKLES,
                ),
                Patch(
                    "joeynmt/builders.py",
                    '            "verbose": False,\n',
                    "",
                    "ReduceLROnPlateau has no argument `verbose` since torch 2.7",
                ),
            ),
            ("-m", "joeynmt", "--help"),
        ),
        Peer(
            "opennmt-py",
            "opennmt.py",
            "OpenNMT-py==3.5.1",
            (*OPENNMT, "pyyaml", "sacrebleu", "six", "tensorboard", "ctranslate2==4.8.0"),
            (
                Patch(
                    "onmt/transforms/terminology.py",
                    "\nimport spacy\n",
                    "\nspacy = None\n",
                    "every transform is imported, and this one, not used here, needs half a gigabyte of packages",
                ),
                Patch(
                    "onmt/transforms/clean.py",
                    "\nimport fasttext\n",
                    "\nfasttext = None\n",
                    "likewise; fasttext-wheel has no wheel for this Python and does not build with today's compilers",
                ),
                Patch(
                    "onmt/models/model_saver.py",
                    'torch.load(ckpt_path, map_location=torch.device("cpu"))',
                    'torch.load(ckpt_path, map_location=torch.device("cpu"), weights_only=False)',
                    UNPICKLES,
                ),
            ),
            ("-m", "onmt.bin.translate", "--help"),
        ),
        Peer(
            "eole",
            "eole_nmt.py",
            "eole==0.6.0",
            (
                *(*OPENNMT, "pyyaml", "sacrebleu", "six", "tensorboard", "numpy", "pandas", "pydantic", "rich"),
                *("safetensors", "huggingface-hub", "torch-optimi", "tokenizers", "aiohttp", "subword-nmt", "datasets"),
                *("fastapi", "uvicorn", "requests"),
            ),
            (),
            ("-m", "eole.bin.main", "--help"),
        ),
        Peer("marian", "marian.py", "transformers==5.22.2", ("transformers==5.22.2", "sentencepiece")),
        Peer("ctranslate2", "ctranslate.py", "ctranslate2==4.8.0", (), env="opennmt-py"),
    )
}


CARRIED = (
    *("joeynmt==2.3.0", "pyyaml==6.0.2", "tqdm==4.67.1", "importlib_metadata==8.5.0", "zipp==3.21.0"),
    *("subword-nmt==0.3.8", "packaging==24.2"),
)
"""Joey NMT and what it imports, for a machine without a network that has torch, numpy, sentencepiece, sacrebleu and
matplotlib. Of PyYAML, which has a compiled part, the Python part is used where the other does not fit."""
CARRIED_PATCHES = tuple(
    Patch(
        f"joeynmt/{file}.py",
        "from torch.utils.tensorboard import SummaryWriter\n",
        "from unittest.mock import MagicMock as SummaryWriter\n",
        "TensorBoard is not there and has compiled parts; it takes no time worth measuring",
    )
    for file in ("training", "helpers")
)


def carry(folder: Path) -> None:
    """Unpack Joey NMT, patched, into a folder that PYTHONPATH can name on another machine."""
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-compile", "--upgrade"]
    run([*install, "--target", str(folder), *CARRIED])
    patch(folder, replace(PEERS["joeynmt"], patches=(*PEERS["joeynmt"].patches, *CARRIED_PATCHES)))


def environment(cache: Path, peer: Peer) -> Path:
    """Return the Python of a toolkit's environment; create it on first use."""
    if peer.env:
        return environment(cache, PEERS[peer.env])
    folder = cache / "env" / peer.name
    python, stamp = folder / "bin/python", folder / "made"
    recipe = repr((CONSTRAINTS.read_text(), peer, sys.version_info[:2]))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.is_file() or stamp.read_text() != recipe:
            say(f"Making the environment of {peer.name} in {folder} (once)")
            make_environment(folder, peer)
            stamp.write_text(recipe)
    return python


def make_environment(folder: Path, peer: Peer) -> None:
    """Install a toolkit and what it needs, and patch it."""
    run([sys.executable, "-m", "venv", "--clear", str(folder)])
    install = [str(folder / "bin/python"), "-m", "pip", "install", "--disable-pip-version-check"]
    install += ["--constraint", str(CONSTRAINTS)]
    run([*install, "torch", *peer.needs])
    run([*install, "--no-deps", peer.package])
    (packages,) = folder.glob("lib/python3.*/site-packages")
    patch(packages, peer)


def run(command: Sequence[str]) -> None:
    """Run a command, and show its output only if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SystemExit(f"This failed: {' '.join(command)}\n{done.stdout[-3000:]}")


def patch(packages: Path, peer: Peer) -> None:
    """Apply the patches of a toolkit that have not been applied yet."""
    for edit in peer.patches:
        path = packages / edit.file
        text = path.read_text(encoding="utf-8")
        if edit.old in text:
            path.write_text(text.replace(edit.old, edit.new), encoding="utf-8")
            # The bytecode cache would still count as valid if the edit keeps the size, within the same second.
            for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
                compiled.unlink()
        elif edit.new not in text:
            raise SystemExit(f"{path} does not have what {peer.name} is to be patched in: {edit.old!r} ({edit.why}).")


# -- the sizes and the data -------------------------------------------------------------------------------------------

SIZES: dict[str, dict[str, Any]] = {
    "lstm": {"cell": "lstm", "embedding": 256, "encoder": 256, "decoder": 512},
    "transformer": {"embedding": 256, "layers": 3, "width": 256, "feed_forward": 1024, "heads": 4},
    "bahdanau": {"cell": "gru", "embedding": 620, "encoder": 1000, "decoder": 1000},
}
"""Model sizes by the first part of a model's name; the rest of the name is the score."""

FILES = {"train": "train", "val": "val", "test": "test_2016_flickr"}
LANGUAGES = ("en", "de")
MARKS = 4


def prepare_data(cache: Path) -> Path:
    """Tokenize Multi30k (English to German, raw) with one joint vocabulary of 8,000 subwords, once."""
    folder = cache / "data"
    if (folder / "words.tsv").is_file():
        return folder
    raw = Path(os.environ.get("REGARD_DATA", ROOT.parent / "shared/data")) / "multi30k"
    if not raw.is_dir():
        raise SystemExit(f"Multi30k is not in {raw}: say where the data is by REGARD_DATA.")
    say(f"Cutting {raw} into pieces")
    from regard.config import TokenizerConfig
    from regard.data.corpus import open_corpus
    from regard.data.tokenizers import train_tokenizers

    folder.mkdir(parents=True, exist_ok=True)
    for ours, theirs in FILES.items():
        for language in LANGUAGES:
            text = gzip.decompress((raw / f"{theirs}.{language}.gz").read_bytes()).decode()
            # Some toolkits cut at every white space, no-break spaces too.
            (folder / f"{ours}.{language}").write_text(re.sub(r"[^\S\n]+", " ", text), encoding="utf-8")
    corpus = open_corpus(tuple(str(folder / f"train.{language}") for language in LANGUAGES))
    tokenizers = train_tokenizers(TokenizerConfig(kind="bpe", vocabulary=8000, joint=True), corpus, seed=1)
    tokenizers.save(folder)
    pieces = tokenizers.source
    for ours in FILES:
        for language in LANGUAGES:
            lines = (folder / f"{ours}.{language}").read_text(encoding="utf-8").splitlines()
            cut = [" ".join(pieces.pieces(ids)) + "\n" for ids in pieces.encode_all(lines)]
            (folder / f"{ours}.bpe.{language}").write_text("".join(cut), encoding="utf-8")
            if ours == "val":  # what a toolkit that insists on validating gets
                (folder / f"few.bpe.{language}").write_text("".join(cut[:20]), encoding="utf-8")
    words = pieces.pieces(range(MARKS, pieces.size))
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    (folder / "words.tsv").write_text("".join(f"{word}\t1\n" for word in words), encoding="utf-8")
    return folder


# -- workers ----------------------------------------------------------------------------------------------------------


@dataclass
class Settings:
    """The settings of all workers of a run."""

    cache: Path
    device: str = "cpu"
    threads: int = 2
    batch: int = 64
    """Sentences in a batch; regard's has the same number of tokens on average."""
    dropout: float = 0.2
    rate: float = 1e-3
    seed: int = 1
    warmup: int = 5
    longest: int = 40
    """Maximum subwords of a translation."""
    beam: int = 5
    length_penalty: float = 1.0
    """alpha: 0 for none; other values differ in meaning between toolkits."""
    trained: int = 240
    """Training steps of the models that translate."""
    ours: dict[str, Path] = field(default_factory=dict)
    """Given models of regard, by network."""
    peer_folder: Path | None = None
    """The folder of an unpacked toolkit, for a machine on which nothing can be installed."""
    made: Path | None = None
    """The folder of models trained to translate; None for the cache."""


SHARED = (
    *("device", "threads", "batch", "dropout", "rate", "seed", "warmup"),
    *("longest", "beam", "length_penalty", "trained"),
)
"""The settings that are passed to every worker."""


class Worker:
    """A process that trains or translates on request."""

    def __init__(self, name: str, model: str, work: str, settings: Settings, **more: Any) -> None:
        self.name, self.model = name, model
        kind = f"{name}-{model}{'-' if more.get('label') else ''}{more.pop('label', '')}"
        folder = settings.cache / "runs" / kind
        if more.get("steps") or work != "train":
            folder = model_folder(settings, name, model)
        task = {
            "work": work,
            "model": model,
            "size": SIZES[model.split("-")[0]],
            "folder": str(folder),
            "data": str(settings.cache / "data"),
            "steps": 0,
            **{name: getattr(settings, name) for name in SHARED},
            **more,
        }
        logs = settings.cache / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        self.log = logs / f"{work}-{kind}.txt"
        environ = {**os.environ, "OMP_NUM_THREADS": str(task["threads"]), "PYTHONWARNINGS": "ignore"}
        environ["TOKENIZERS_PARALLELISM"] = "false"
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(settings.peer_folder or ""), str(ROOT / "src")]))
        ours = name.startswith("regard")
        here = ours or settings.peer_folder
        python = Path(sys.executable) if here else environment(settings.cache, PEERS[name])
        script = HERE / "workers" / ("ours.py" if ours else PEERS[name].worker)
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [str(python), str(script), json.dumps(task)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environ,
                cwd=None if ours else logs,  # some write files wherever they are
            )
        self.about: dict[str, Any] = {}

    def ready(self) -> dict[str, Any]:
        """Wait for the warm-up; return the worker's description of itself."""
        self.about = self._answer()
        return self.about

    def ask(self, **task: Any) -> dict[str, Any]:
        """Send a task and wait for the result."""
        assert self.process.stdin is not None
        try:
            print(json.dumps(task), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            raise self._broken() from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise self._broken()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _broken(self) -> SystemExit:
        end = "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-25:])
        return SystemExit(f"{self.name} ended before it had answered. {self.log} ends with:\n{end}")

    def close(self, patience: float | None = 30.0) -> None:
        """End the worker; kill it after a timeout."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


CONVERTED = {"joeynmt": "joey", "opennmt-py": "opennmt", "ctranslate2": "ctranslate2"}
"""Toolkits that translate with regard's weights, and the format of theirs (workers/to_*.py, `regard export`)."""


def model_folder(settings: Settings, name: str, model: str) -> Path:
    """Return the folder of the model that a toolkit translates with."""
    if name == "regard" and model in settings.ours:
        return settings.ours[model]
    kind = f"converted-{CONVERTED[name]}" if name in CONVERTED else name
    return (settings.made or settings.cache / "models") / f"{kind}-{model}-{settings.trained}"


def train_model(settings: Settings, name: str, model: str) -> None:
    """Train a model for translation once, or convert regard's weights for toolkits that can read them."""
    folder = model_folder(settings, name, model)
    if name in CONVERTED:
        train_model(settings, "regard", model)
        finish(Worker("regard", model, "convert", settings, into=str(folder), format=CONVERTED[name]))
        return
    if (folder / "done").is_file() or (name == "regard" and model in settings.ours):
        return
    say(f"Training {name}'s {model} for {settings.trained} steps (once)")
    finish(Worker(name, model, "train", settings, steps=settings.trained))
    (folder / "done").touch()


def finish(worker: Worker) -> None:
    """Wait until a worker without further tasks has finished."""
    worker.close(patience=None)
    if worker.process.returncode:
        raise worker._broken()


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Hold the machine's lock, if one is named, while timing."""
    path = os.environ.get(LOCK)
    if not path:
        yield
        return
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# -- what is printed --------------------------------------------------------------------------------------------------


def say(text: str) -> None:
    """Print progress."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def machine(device: str = "cpu") -> str:
    """Return a description of the machine."""
    import torch

    model, flags = "", set()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                model = value.strip()
            elif name.strip() == "flags":
                flags = {flag for flag in value.split() if re.fullmatch(r"avx2|fma|avx512f|avx512_.*|amx.*", flag)}
    lines = [
        f"{datetime.date.today().isoformat()}, {platform.machine()}, {model}, {os.cpu_count()} processors",
        f"flags: {' '.join(sorted(flags))}",
        f"Python {platform.python_version()}, torch {torch.__version__}",
    ]
    if device == "cuda":
        lines.append(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}")
    return "\n".join(lines)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format rows as a table: names aligned left, numbers right."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]

    def line(row: Sequence[str]) -> str:
        cells = zip(row, widths, strict=True)
        return "  ".join(c.ljust(width) if i < 2 else c.rjust(width) for i, (c, width) in enumerate(cells)).rstrip()

    return "\n".join([line(head), "  ".join("-" * width for width in widths), *map(line, rows)])


@dataclass
class Spread:
    """Repeated measurements."""

    values: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """Their mean."""
        return statistics.fmean(self.values)

    @property
    def half(self) -> float:
        """Half the range."""
        return (max(self.values) - min(self.values)) / 2

    def __str__(self) -> str:
        return f"{self.mean:,.0f} ± {self.half:,.0f}"


def write_result(name: str, text: str, keep: bool) -> None:
    """Print a result and, if `keep`, write it to the folder of results."""
    print(text)
    if keep:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
        say(f"Written to {RESULTS / name}.txt")


def options(description: str | None, peers: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser with the options of all benchmarks."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=",".join(peers), help=f"toolkits beside regard ({', '.join(peers)})")
    default = Path(os.environ.get("REGARD_BENCH_CACHE", Path.home() / ".cache/regard-bench"))
    parser.add_argument("--cache", type=Path, default=default, help="where environments, data and models are kept")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu, with --threads 1: seconds of the processor, for a machine that others use too",
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each is timed, in turns")
    parser.add_argument("--no-results", action="store_true", help="print only; leave bench/results as it is")
    return parser


def split(names: str) -> list[str]:
    """Return the names between commas."""
    return [name.strip() for name in names.split(",") if name.strip()]


def fingerprint(path: Path) -> str:
    """Return a short checksum of a file, for results."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
