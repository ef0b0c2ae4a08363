"""The script that splits pronunciations: by word, for good, and nothing lost."""

import gzip
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "recipes" / "g2p_split.py"


def run(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


def read(folder):
    return {part: (folder / f"{part}.tsv").read_text().splitlines() for part in ("train", "valid", "test")}


def test_splits_by_word(tmp_path):
    lines = [f"WORD{number // 2}\tW ER D {number}" for number in range(4000)]
    file = tmp_path / "words.gz"
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    ran = run(file, tmp_path / "a" / "b")
    found = read(tmp_path / "a" / "b")
    assert ran.returncode == 0, ran.stderr
    assert sorted(line for part in found.values() for line in part) == sorted(lines)
    words = {part: {line.split("\t")[0] for line in found[part]} for part in found}
    assert not words["train"] & words["test"] | words["train"] & words["valid"] | words["test"] & words["valid"]
    assert 160 < len(words["test"]) < 240
    assert 25 < len(words["valid"]) < 75
    assert ran.stdout.splitlines()[2] == f"{tmp_path}/a/b/test.tsv: {len(found['test']):,} pronunciations"
    # Neither the order nor the other words matter.
    file.write_bytes(gzip.compress("\n".join(lines[3000:1000:-1]).encode()))
    run(file, tmp_path / "less")
    less = read(tmp_path / "less")
    assert all(set(less[part]) <= set(found[part]) for part in found)


def test_settings_are_chosen_without_a_word_of_the_test(tmp_path):
    file = tmp_path / "words.tsv"
    file.write_text("".join(f"WORD{number}\tW ER D\n" for number in range(4000)))
    run(file, tmp_path / "whole")
    run(file, tmp_path / "chosen", "--develop")
    whole, chosen = (
        {part: set(lines) for part, lines in read(tmp_path / name).items()} for name in ("whole", "chosen")
    )
    assert not whole["test"] & set().union(*chosen.values())
    assert chosen["valid"] == whole["valid"]
    assert chosen["train"] | chosen["test"] == whole["train"]
    assert not chosen["train"] & chosen["test"]
    assert 320 < len(chosen["test"]) < 480


def test_what_cannot_be_read(tmp_path):
    ran = run(tmp_path / "none.tsv", tmp_path)
    assert (ran.returncode, ran.stderr) == (2, f"g2p_split: No file '{tmp_path}/none.tsv'.\n")
