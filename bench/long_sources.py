"""Train small models with every score on sources of 8,192 tokens: peak memory, seconds per step, and the loss.

    python bench/long_sources.py --keep                            # on a GPU
    python bench/long_sources.py --device cpu --source 96 --target 8 --long 16    # a look at the script itself

The steps are those of `regard train`, made by its trainer: on a GPU in tf32, the second one recorded as a CUDA graph
and replayed from then on. Sources of a batch have from a third of the longest length to all of it, targets likewise,
so that there is padding in every batch. Systems, with a vocabulary of 8,000 words, and the score in every place that
may have it:

  bahdanau     LSTMs; the decoder attends before each step (4 sentences)
  luong        LSTMs; the decoder attends after its steps, for all of them at once (4 sentences)
  transformer  2 + 2 layers, 4 heads; self-attention and cross-attention (2 sentences)

The location score gets as many positions (model.attention.longest) as sources have. A score that a system does not
support is listed with the reason. After --budget seconds, the rest is listed as left out.
"""

import argparse
import math
import time

import torch
from growth import Told, free, sentences, set_for, train
from peers import machine, say, table, write_result

from regard.attention import scores
from regard.config import Config
from regard.config_io import override
from regard.errors import ConfigError, TrainingError
from regard.models.build import build_model
from regard.presets import preset

WORDS = 8000
LSTM = ["model.encoder.cell=lstm", "model.decoder.cell=lstm", "model.encoder.layers=1", "model.decoder.layers=1"]
SYSTEMS = {
    "bahdanau": ("bahdanau2014-small", LSTM, 4),
    "luong": ("luong2015-small", [*LSTM, "model.decoder.input_feeding=false"], 4),
    "transformer": ("transformer2017-small", ["model.encoder.layers=2", "model.decoder.layers=2"], 2),
}
"""The preset, what is changed in it, and sentences in a batch."""
NOT = "not possible: "


def configured(system: str, score: str, longest: int, device: torch.device) -> Config:
    """Use a score in all attention layers of a system that support it."""
    name, changes, batch = SYSTEMS[system]
    changes = [*changes, f"model.attention.score={score}", f"model.attention.longest={longest}"]
    if system == "transformer":
        changes += [f"model.self_attention.score={score}"]
    # All sentences of a batch count as long as its longest.
    changes += [f"training.batch_tokens={batch * longest}", "training.warmup=0", "training.schedule=constant"]
    return set_for(override(preset(name), changes), device)


def measured(system: str, score: str, source: int, target: int, device: torch.device) -> list[str]:
    """Train a few steps, and write down what they took."""
    row, batch = [system, score, f"{source:,}", f"{target:,}"], SYSTEMS[system][2]
    free()
    before = 0
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()  # what earlier ones have recorded stays
    told = Told(fewest=2, off=2)
    try:
        config = configured(system, score, source, device)
        torch.manual_seed(1)
        model = build_model(config.model, WORDS, WORDS).to(device)
    except ConfigError as error:
        return [*row, "", "", "", f"{NOT}{error}"]
    part = torch.linspace(1, 1 / 3, batch)
    try:
        train(config, model, sentences((part * source).long(), (part * target).long(), WORDS), told)
    except torch.OutOfMemoryError:
        return [*row, "", "", "", f"{NOT}it takes more memory than there is."]
    except TrainingError as error:
        return [*row, "", "", "not finite", f"{NOT}{error}"]
    memory = f"{(torch.cuda.max_memory_allocated() - before) / 2**20:,.0f}" if device.type == "cuda" else ""
    launched = [text for text in told.said if "cannot be recorded" in text]
    losses = f"{told.losses[0]:.3f} → {told.losses[-1]:.3f}"
    assert all(map(math.isfinite, told.losses))
    return [*row, memory, f"{min(told.took):.2f}", losses, *(launched or ["recorded" if memory else ""])]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--source", type=int, default=8192)
    parser.add_argument("--target", type=int, default=64)
    parser.add_argument("--long", type=int, default=1024, help="a long target")
    parser.add_argument("--budget", type=float, default=300.0, help="seconds after which no new training is begun")
    parser.add_argument("--keep", action="store_true", help="write to bench/results")
    given = parser.parse_args()
    device, began, rows = torch.device(given.device), time.monotonic(), []
    cases = [("bahdanau", given.target), ("transformer", given.long), ("luong", given.long), ("bahdanau", given.long)]
    for system, target in cases:
        for score in scores:
            if time.monotonic() - began > given.budget:
                left = f"left out: {given.budget:.0f} s had passed"
                rows.append([system, score, f"{given.source:,}", f"{target:,}", "", "", "", left])
                continue
            rows.append(measured(system, score, given.source, target, device))
            say(f"{time.monotonic() - began:5.1f} s: {' '.join(rows[-1])}")
    head = ["system", "score", "source", "target", "peak, MiB", "s a step", "loss", "steps are"]
    title = "Training on long sources: four steps each, the faster of the last two; loss of the first and the last"
    shown = [[*row[:-1], NOT.strip(": ") if row[-1].startswith(NOT) else row[-1]] for row in rows]
    why = [f"{system}, {score}: {said}" for system, score, *_, said in rows if said.startswith(NOT)]
    text = "\n".join([title, machine(given.device), "", table(head, shown), "", *why]).rstrip()
    write_result("long_sources", text, given.keep)


if __name__ == "__main__":
    main()
