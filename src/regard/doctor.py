"""What this machine offers for training, decoding and pictures."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
from typing import NamedTuple

from regard import __version__

PACKAGES = ("torch", "numpy", "sentencepiece", "sacrebleu", "safetensors", "typer", "rich")
EXTRAS = {"matplotlib": "plot", "tensorboard": "tensorboard", "fastapi": "serve", "onnxruntime": "export"}


class Finding(NamedTuple):
    """One line of the report."""

    what: str
    found: str


def examine() -> list[Finding]:
    """Collect versions, devices and optional packages."""
    import torch

    findings = [
        Finding("regard", __version__),
        Finding("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        *(Finding(name, importlib.metadata.version(name)) for name in PACKAGES),
    ]
    for name, extra in EXTRAS.items():
        installed = importlib.util.find_spec(name) is not None
        missing = f"not installed: pip install 'regard[{extra}]'"
        findings.append(Finding(name, importlib.metadata.version(name) if installed else missing))
    cores, threads = os.cpu_count() or 1, torch.get_num_threads()
    findings.append(Finding("CPU", f"{_count(cores, 'core')}, torch uses {_count(threads, 'thread')}"))
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            findings.append(Finding(f"GPU {index}", f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB"))
    else:
        findings.append(Finding("GPU", "none that torch can use: training runs on the CPU"))
    findings.append(Finding("training", _training()))
    findings.append(Finding("distributed", _distributed()))
    findings.append(Finding("decoding", _decoding()))
    return findings


def _training() -> str:
    """Describe the fastest precision that is safe for training on this CPU."""
    from regard.prepacked_matmul import multiplies_bfloat16

    if multiplies_bfloat16():
        return "the CPU multiplies in bfloat16: training.precision=auto uses it"
    return "the CPU does not multiply in bfloat16: training.precision=auto uses float32"


def _distributed() -> str:
    """Say how several processes could train here: by which of torch's backends, and how many."""
    import torch

    if not torch.distributed.is_available():
        return "this build of torch has no torch.distributed: training runs in one process"
    gloo, nccl = torch.distributed.is_gloo_available(), torch.distributed.is_nccl_available()
    backends = [name for name, there in (("gloo", gloo), ("nccl", nccl)) if there]
    gpus = torch.cuda.device_count() if torch.cuda.is_available() and nccl else 0
    most = f"--devices {gpus} for {_count(gpus, 'GPU')}" if gpus else "--devices N for N processes on the CPU"
    runner = "torchrun" if shutil.which("torchrun") else "python -m torch.distributed.run"
    return f"{', '.join(backends) or 'no backend'}; regard train {most}, {runner} for several machines"


def _decoding() -> str:
    """Describe whether decoding is compiled, and in which precisions."""
    from regard.native.library import PRECISIONS, library

    found = library()
    offered = [precision for precision in PRECISIONS if found.offers(precision)]
    return f"{found.words}; {', '.join(offered)}" if offered else f"in Python, which is slower: {found.words}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
