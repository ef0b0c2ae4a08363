"""What the pages of docs/lesson say about the numbers in measured.json: the text between their markers."""

import json
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.viz.trace import AttentionTrace
from regard.viz.trace_page import text_page

DOCS = Path(__file__).parents[1] / "docs" / "lesson"
MARKED = re.compile(r"(?<=<!-- measured: )(\w+) -->\n.*?(?=<!-- end of measured -->)", re.DOTALL)

GUESSES = {
    "diagonal": "the word at the same relative place",
    "untrained": "the same model before training, its largest weight",
    "attention": "the trained model, its largest weight",
    "posterior": "the trained model, told the target word ([posterior](../decoding.md#where-a-word-came-from))",
}
PRONOUN_AND_ADJECTIVE = {"participle": "“it” to the noun it stands for", "adjective": "adjective to its noun"}
CUTS = {
    "nothing": "nothing",
    "the chosen head": "chosen head of the encoder",
    "encoder": "all heads of the encoder",
    "cross-attention": "decoder's attention to the source",
    "decoder's own": "decoder's attention to its own French noun",
    "all three": "all of these",
}
MODELS = {
    "trained": "translation, trained (`regard demo`)",
    "untrained": "the same before training",
    "zeroed": "the trained one, scores set to zero",
    "reversing": "small model, trained to reverse six words",
    "guessing": "the same, trained to count on from any word",
}


def blocks(found: Mapping[str, Any]) -> dict[str, str]:
    """Return what stands between the markers of each name."""
    made = f"Made with {found['made_with']}."
    kinds = found["agreement"]["kinds"]
    return {
        "bottleneck": _bottleneck(found["bottleneck"], made),
        "alignment": _alignment(found["alignment"], made),
        "scores": _scores(found["scores"], made),
        "heads": _heads(kinds),
        "routes": _routes(found["agreement"], made),
        "uniform": _uniform(found["uniform"], made),
        "doctor": "```text\n" + "\n".join(found["uniform"]["doctor"]) + "\n```\n",
    }


def filled() -> dict[Path, str]:
    """Return every page as it is to be, from the numbers and the trace on record."""
    written = blocks(json.loads((DOCS / "measured.json").read_text(encoding="utf-8")))
    pages = {path: fill(path.read_text(encoding="utf-8"), written) for path in sorted(DOCS.glob("*.md"))}
    stepper = text_page(AttentionTrace.load(DOCS / "alignment.json"), title="Alignment for free")
    return {**pages, DOCS / "alignment.html": stepper}


def fill(page: str, written: Mapping[str, str]) -> str:
    """Write the blocks of a page anew."""
    return MARKED.sub(lambda match: f"{match[1]} -->\n\n{written[match[1]]}\n", page)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _prose(*sentences: str) -> str:
    return "\n" + textwrap.fill(" ".join(sentences), 120, break_on_hyphens=False) + "\n"


def _bottleneck(one: Mapping[str, Any], made: str) -> str:
    places = one["fixed"].values()
    row = ["through the fixed vector alone", *(f"{value:.4f}" for value in places)]
    return _table(["gradient at the source token", "first", "in the middle", "last"], [row]) + _prose(
        f"1 is the token that matters most. With attention the median is nowhere below {one['least']:.2f}. Over the",
        f"whole source, the gradient through the fixed vector ({one['numbers']} numbers) is {one['share']:.1%} of that",
        f"through all paths. Medians over the {one['sentences']} sentences of `{one['data']}` ({one['tokens']:.0f}",
        f"tokens on average), with the model of `regard demo`. {made}",
    )


def _alignment(two: Mapping[str, Any], made: str) -> str:
    rows = [[GUESSES[name], f"{value:.3f}"] for name, value in two["aer"].items()]
    return _table(["each target word is linked to", "alignment error rate"], rows) + _prose(
        f"Measured on `{two['data']}`, held out, with the reference as target. The model of `regard demo` reaches",
        f"{two['bleu']:.1f} BLEU there ({two['signature']}). {made}",
    )


def _scores(three: Mapping[str, Any], made: str) -> str:
    rows = [[name, *(f"{value:.2f}" for value in values)] for name, values in three["entropy"].items()]
    return _table(["score \\ width", *map(str, three["widths"])], rows) + _prose(
        f"Entropy of the softmax relative to uniform weights: {three['queries']} random queries on {three['keys']}",
        f"random keys, of unit variance, scores as they are before training, seed 1. {made}",
    )


def _heads(kinds: Mapping[str, Any]) -> str:
    rows = [
        [
            PRONOUN_AND_ADJECTIVE[kind],
            f"layer {one['layer']}, head {one['head']}",
            *(f"{one[name]:.2f}" for name in ("weight", "even")),
            f"{one['largest']:.0%}",
        ]
        for kind, one in kinds.items()
    ]
    head = ["from", "chosen head", "weight on the noun", "uniform would be", "sentences where it is the largest"]
    return _table(head, rows)


def _routes(four: Mapping[str, Any], made: str) -> str:
    kinds = four["kinds"]
    rows = [[name, *(_odds(kinds[kind]["routes"].get(cut)) for kind in kinds)] for cut, name in CUTS.items()]
    return _table(["may not see the noun", "l'a vendu**e**", "**la** petit**e** robe"], rows) + _prose(
        "In a cell: mean log of how many times likelier the right gender is than the wrong one; in brackets, how often",
        "it is likelier, with feminine and with masculine nouns.",
        f"{kinds['participle']['sentences']} sentences of each kind, half of them with feminine nouns. Transformer:",
        f"weights of step {four['steps']:,} of {four['planned']:,} planned, BLEU {four['bleu']:.1f} at validation.",
        made,
    )


def _odds(one: Mapping[str, float] | None) -> str:
    return "–" if one is None else f"{one['odds']:+.2f} ({one['feminine']:.0%}, {one['masculine']:.0%})"


def _uniform(five: Mapping[str, Any], made: str) -> str:
    rows = [[name, f"{five['entropy'][key]:.3f}", f"{five['loss'][key]:.3f}"] for key, name in MODELS.items()]
    return _table(["model", "entropy, uniform = 1", "loss per target token, nats"], rows) + _prose(
        f"Zeroing the scores takes the translation model from {five['bleu']['trained']:.1f} to",
        f"{five['bleu']['zeroed']:.1f} BLEU on `{five['data']}`. Entropy (without the step of the end token) and loss:",
        f"100 held-out pairs each, with the reference as target. The two small models have {five['parameters']:,}",
        f"parameters and 250 steps of training each. Nothing can count better than {math.log(five['words']) / 7:.3f}",
        f"nats: the first of seven tokens is any of {five['words']} words, the others are certain. {made}",
    )
