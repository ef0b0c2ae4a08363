"""Condense the results of a comparison to a small record that is kept with the recipe, behind a row of docs/results.md.

python3 recipes/keep.py recipes/results/deep.json models/deep/results.json [MORE results.json]

For each run it has: name and seed, settings that differ from the preset, steps, seconds, step and score of the best
validation, all scores with their signatures, and p of the difference to the baseline. Paths, which differ between
machines, become file names.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.config_io import to_dict
from regard.presets.vision import any_preset

MACHINE = ("regard", "Python", "torch", "sacrebleu", "CPU", "GPU 0")
LEFT_OUT = ("preset", "seed", "started_from", "data.")


def flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """List the leaves of nested tables by their dotted names."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def changed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are not those of the preset."""
    usual = dict(flat(to_dict(any_preset(config["preset"]))))
    return {
        name: value
        for name, value in flat(config)
        if not name.startswith(LEFT_OUT) and json.dumps(value) != json.dumps(usual.get(name))
    }


def one(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of a training."""
    scores = {name: [round(score["value"], 4), score["made_by"]] for name, score in run["scores"].items()}
    chance = run["measures"].get("p")
    return {
        **{name: run.get(name) for name in ("name", "seed", "at_once")},
        **{name: run["training"].get(name) for name in ("steps", "seconds", "best_step", "best_score")},
        "preset": run["config"]["preset"],
        "set": changed(run["config"]),
        **({} if chance is None else {"p": round(chance, 4)}),
        "search": run.get("search"),
        "scores": scores,
    }


def kept(path: Path) -> dict[str, Any]:
    """Return what is kept of a comparison."""
    found = json.loads(re.sub(r'(?<=[" ])/[^"\s]*/', "", path.read_text(encoding="utf-8")))
    return {
        **{name: found[name] for name in ("format", "made", "command", "budget")},
        "machine": {name: found["machine"][name] for name in MACHINE if name in found["machine"]},
        "test": found["test"]["name"],
        "baseline": found["baseline"],
        "runs": [one(run) for variant in found["variants"] for run in variant["runs"] if run["state"] == "finished"],
    }


def main() -> None:
    """Write the record."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    to, *given = map(Path, sys.argv[1:])
    to.parent.mkdir(parents=True, exist_ok=True)
    lines = json.dumps([kept(path) for path in given], ensure_ascii=False, indent=1)
    # A run is a line, a score too: what is within them is short.
    lines = re.sub(r"\[\n\s+([^\[\]{}]*?)\n\s+\]", lambda match: "[" + re.sub(r"\n\s+", " ", match[1]) + "]", lines)
    to.write_text(lines + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
