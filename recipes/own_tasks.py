"""Train each task with just `regard train --data FILE --valid FILE --out FOLDER`, score it, and write a table.

    REGARD_DATA=data python recipes/own_tasks.py models/own-tasks --jobs 8

`--jobs` trains several models in parallel. Finished runs are not repeated. With `--systems`, presets are trained as
well as the planned system. Inflection, SCAN and English–Japanese are scored on their validation file, pronunciations
and Multi30k on their test parts, on which no setting was chosen.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

PLAN = "plan"
HERE = Path(__file__).parent
TASKS = [
    *("g2p", "enja", "multi30k", "inflection-german", "inflection-finnish", "scan-turn-left"),
    *("inflection-turkish", "inflection-french", "scan-simple"),
]
"""Those that take longest come first."""
SYSTEMS = [PLAN, "bahdanau2014-conditional-small", "transformer2017-tiny"]

Record = dict[str, Any]


def files(task: str, data: Path, made: Path) -> tuple[list[str], list[str]]:
    """Return what regard train is given, and what regard evaluate is given."""
    if task == "multi30k":
        train = [f"--{side}={data}/multi30k/train.{end}.gz" for side, end in (("source", "en"), ("target", "de"))]
        valid = [f"--valid-{side}={data}/multi30k/val.{end}.gz" for side, end in (("source", "en"), ("target", "de"))]
        ends = (("source", "en"), ("target", "de"))
        return [*train, *valid], [f"--{side}={data}/multi30k/test_2016_flickr.{end}.gz" for side, end in ends]
    if task == "g2p":
        train, valid, test = (made / "g2p" / f"{part}.tsv" for part in ("train", "valid", "test"))
        if not test.exists():
            split = [sys.executable, HERE / "g2p_split.py", data / "g2p" / "g014b2b.train.gz", made / "g2p"]
            subprocess.run(split, check=True)
        return [f"--data={train}", f"--valid={valid}"], [f"--data={test}"]
    part = "test" if task.startswith("scan") else "dev"
    train, valid = (data / "own-tasks" / f"{task}.{name}.tsv.xz" for name in ("train", part))
    return [f"--data={train}", f"--valid={valid}"], [f"--data={valid}"]


def run(task: str, system: str, seed: int, out: Path, data: Path) -> Record:
    """Train and score one model, unless that has been done."""
    folder = out / f"{task}.{system}.{seed}"
    record = folder.with_name(f"{folder.name}.json")
    if record.exists():
        return dict(json.loads(record.read_text(encoding="utf-8")))
    train, test = files(task, data, out)
    options = [] if system == PLAN else [f"--preset={system}"]
    options += [] if seed == 1 else [f"--seed={seed}"]
    began = time.monotonic()
    regard = [sys.executable, "-m", "regard"]
    with open(folder.with_name(f"{folder.name}.log"), "w", encoding="utf-8") as log:
        subprocess.run([*regard, "train", *train, f"--out={folder}", "--overwrite", *options], stderr=log, check=True)
        seconds = time.monotonic() - began
        scored = [*regard, "evaluate", str(folder), *test, "--json"]
        scores = json.loads(subprocess.run(scored, stderr=log, stdout=subprocess.PIPE, check=True).stdout)
    made = {"task": task, "system": system, "seed": seed, "seconds": round(seconds, 1), "scores": scores["scores"]}
    record.write_text(json.dumps(made, ensure_ascii=False), encoding="utf-8")
    return made


def score(record: Record) -> tuple[str, float]:
    """Return the name and the value of a task's score."""
    scores = {name: one["value"] for name, one in record["scores"].items()}
    if record["task"] in ("enja", "multi30k"):
        return "BLEU", scores["BLEU"]
    if record["task"] == "g2p":
        return "words wrong, %", 100 * scores["sequence error rate"]
    return "exact match, %", 100 * scores["exact match"]


def table(records: Iterable[Record]) -> str:
    """Write one row for each task and system: mean and standard deviation over seeds."""
    runs: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        runs[record["task"], record["system"]].append(record)
    lines = ["| task | system | score | seeds | seconds |", "|---|---|---|---|---|"]
    for (task, system), found in sorted(runs.items()):
        values = [score(record)[1] for record in found]
        spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
        seconds, seeds = mean(record["seconds"] for record in found), sorted(record["seed"] for record in found)
        result = f"{mean(values):.2f}{spread} ({score(found[0])[0]})"
        lines.append(f"| {task} | {system} | {result} | {', '.join(map(str, seeds))} | {seconds:.0f} |")
    return "\n".join(lines)


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path, help="the folder to work in")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--systems", nargs="+", default=SYSTEMS, help=f"presets, or {PLAN} for none")
    asked = parser.parse_args()
    if "REGARD_DATA" not in os.environ:
        parser.error("REGARD_DATA is the folder that holds own-tasks, g2p and multi30k: set it.")
    data = Path(os.environ["REGARD_DATA"])
    asked.out.mkdir(parents=True, exist_ok=True)
    records: list[Record] = []
    with ThreadPoolExecutor(asked.jobs) as pool:
        runs = [
            pool.submit(run, task, system, seed, asked.out, data)
            for system, task, seed in product(asked.systems, asked.tasks, asked.seeds)
        ]
        for done in as_completed(runs):
            try:
                records.append(done.result())
            except subprocess.CalledProcessError as error:
                print(f"failed: {' '.join(map(str, error.cmd))}", flush=True)
                continue
            record = records[-1]
            name, value = score(record)
            print(f"{record['task']}.{record['system']}.{record['seed']}: {value:.2f} {name}", flush=True)
    print(table(records))


if __name__ == "__main__":
    main()
