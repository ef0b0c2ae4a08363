import json
import random
import subprocess
import sys

import pytest

from regard.compare.significance import LEVEL, paired_bootstrap
from regard.evaluation.bleu_chrf import bleu


def corpus(count=120):
    rng = random.Random(5)
    lines = [" ".join(rng.choice("abcdefghij") for _ in range(11)) for _ in range(count)]

    def spoilt(rate):
        return [" ".join(word if rng.random() > rate else "z" for word in line.split()) for line in lines]

    return lines, {"good": spoilt(0.1), "like": spoilt(0.11), "bad": spoilt(0.4)}


def by_sacrebleu(folder, references, systems):
    """Ask sacreBLEU's own command."""
    for name, lines in {"ref": references, **systems}.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    program = [sys.executable, "-m", "sacrebleu", "ref", "-i", *systems, "--paired-bs", "-f", "json"]
    said = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=True).stdout
    return dict(zip(systems, (entry["BLEU"] for entry in json.loads(said)), strict=True))


def test_it_says_what_sacrebleus_command_says(tmp_path):
    references, systems = corpus()
    found, signature = paired_bootstrap("good", systems, references)
    theirs = by_sacrebleu(tmp_path, references, systems)
    assert "bs:1000|seed:12345" in signature
    for name in systems:
        entry = theirs[name]
        assert found[name].bleu == pytest.approx(entry["score"], abs=1e-9)
        assert found[name].interval == pytest.approx(entry["ci"], abs=1e-4)
        assert found[name].p == (None if entry["p_value"] is None else pytest.approx(entry["p_value"], abs=1e-4))


def test_a_clear_difference_is_significant_and_a_small_one_is_not():
    references, systems = corpus()
    found, _ = paired_bootstrap("good", systems, references)
    assert list(found) == ["good", "like", "bad"]
    assert found["good"].difference is None
    assert found["good"].p is None
    assert not found["good"].significant
    assert found["bad"].significant
    assert found["bad"].p < LEVEL < found["like"].p
    for name in ("like", "bad"):
        own, base = bleu(systems[name], references).value, bleu(systems["good"], references).value
        assert found[name].difference == pytest.approx(own - base)
        assert found[name].interval > 0


def test_two_that_wrote_the_same_do_not_differ():
    references, systems = corpus(20)
    found, _ = paired_bootstrap("good", {"good": systems["good"], "twin": systems["good"]}, references)
    assert found["twin"].difference == 0
    assert found["twin"].p == 1
    assert not found["twin"].significant


def test_two_that_score_the_same_do_not_differ():
    systems = {"one": ["x y z w"] * 9, "other": ["k l m"] * 9}
    found, _ = paired_bootstrap("one", systems, ["a b c d"] * 9)
    assert (found["other"].difference, found["other"].p) == (0, 1)
