"""Checks of what the model generates: omissions, repetitions, length, and how sure it is."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from regard.data.special_tokens import MARKS
from regard.diagnosis.findings import COVER, LONGER, Finding, Outcome, Remedy, not_judged
from regard.diagnosis.measurements import Floats, Measurements
from regard.evaluation.error_rates import distance

NOTHING_SEARCHED = "the model reads no source, so nothing is translated"
LEFT_OUT, ATTENDED = 0.1, 0.4
"""A source token is left out if its attention in the output sums to less than the first, in the reference to more
than the second."""
AGAIN = 1.0
"""How much more attention it gets in the output than in the reference if it is translated again."""
MISTRANSLATED = 0.1
"""Share of source tokens left out or translated again."""
REPEATING = 0.05
"""Share of outputs with a repetition beyond that of the references."""
SKEW = 0.15
"""Relative difference in length."""
EXPOSED = 0.3
"""Difference between the share of right tokens after the reference's past and after the model's own."""
MISCALIBRATED = 0.15
"""Expected calibration error."""
BINS = 10
LEAST_TOKENS = 200
"""Target tokens needed to judge calibration."""
LEAST_OUTPUTS = 10
PER_WORD = 5
"""Target tokens for each entry of the vocabulary, needed to judge how much of it is unused."""
UNUSED = 0.5
NEVER = 1e-3
"""Highest probability, over all steps, of a token that the model never considers."""
VANISHED = 1e-4
"""Gradient at the source token that matters least, relative to the one that matters most."""
LONG = 6


def _coverage(weights: Floats) -> Floats:
    """Return the attention that each source token gets over all steps, the mean of layers and heads."""
    return np.asarray(weights.mean(axis=(0, 1)).sum(axis=0)[:-1], np.float32)


def coverage(measured: Measurements) -> Outcome:
    """Source words that are left out or translated twice."""
    check = "over- and under-translation"
    if lack := _lacks_outputs(check, measured):
        return lack
    if not measured.attends:
        return not_judged(check, "the model has no attention to tell by")
    missed = again = count = 0
    for pair, output in zip(measured.forced, measured.outputs, strict=True):
        due, got = _coverage(pair.weights), _coverage(output.weights)
        missed += int(((got < LEFT_OUT) & (due > ATTENDED)).sum())
        again += int((got > due + AGAIN).sum())
        count += len(due)
    figure = f"{missed / count:.1%} of source tokens left out, {again / count:.1%} translated again"
    if max(missed, again) <= MISTRANSLATED * count:
        return Outcome(check, figure)
    what = "leaves source words out" if missed > again else "translates source words again"
    finding = Finding(
        f"The model {what}.",
        f"Of {count:,} source tokens, {missed:,} get attention where the reference is forced but none in the output, "
        f"and {again:,} get more than one token's worth too much.",
        ("nothing tells the decoder what it has translated already", "the search prefers outputs of another length"),
        (
            COVER,
            Remedy("without training: a coverage penalty in the search", ("decoding.coverage_penalty=0.2",)),
            Remedy("another length penalty", (f"decoding.length_penalty={1.5 if missed > again else 0.6}",)),
        ),
    )
    return Outcome(check, figure, finding)


def repeats(tokens: Sequence[str]) -> bool:
    """Tell whether one to four tokens stand three times in a row, or more than four twice."""
    for size in range(1, len(tokens) // 2 + 1):
        times = 3 if size <= 4 else 2
        for start in range(len(tokens) - times * size + 1):
            parts = [tuple(tokens[start + i * size : start + (i + 1) * size]) for i in range(times)]
            if all(one == other for one, other in pairwise(parts)):
                return True
    return False


def repetition(measured: Measurements) -> Outcome:
    """Outputs that go round in circles."""
    check = "repetition"
    if lack := _lacks_outputs(check, measured):
        return lack
    share = np.mean([repeats(output.tokens) for output in measured.outputs])
    due = np.mean([repeats(output.reference) for output in measured.outputs])
    endless = sum(not output.ended for output in measured.outputs)
    figure = f"{share:.1%} of outputs repeat themselves, {due:.1%} of references; {endless:,} reached the length limit"
    if share - due <= REPEATING:
        return Outcome(check, figure)
    example = next(output for output in measured.outputs if repeats(output.tokens))
    finding = Finding(
        "Outputs repeat themselves.",
        f"{share:.1%} of outputs do, against {due:.1%} of references; such as: {_shown(example.tokens)}.",
        ("a model that is not trained enough falls back on its own last words", "nothing tells attention to move on"),
        (
            LONGER,
            COVER,
            Remedy("train on the model's own words, too", ("training.teacher_forcing=0.75",)),
        ),
    )
    return Outcome(check, figure, finding)


def length(measured: Measurements) -> Outcome:
    """Outputs that are too short or too long."""
    check = "length bias"
    if lack := _lacks_outputs(check, measured):
        return lack
    written = sum(len(output.tokens) for output in measured.outputs)
    due = max(sum(len(output.reference) for output in measured.outputs), 1)
    ratio = written / due
    figure = f"outputs have {ratio:.2f} times as many tokens as references"
    if abs(math.log(max(ratio, 1e-9))) <= math.log1p(SKEW):
        return Outcome(check, figure)
    short = ratio < 1
    finding = Finding(
        f"Outputs are too {'short' if short else 'long'}.",
        f"{written:,} tokens where the references have {due:,}.",
        (
            "the sum of log-probabilities favours short outputs, the more so the larger the beam"
            if short
            else "the length penalty is too high, or the model does not find the end",
            "training pairs that are cut off, or translations that are much freer than these",
        ),
        (
            Remedy("another length penalty", (f"decoding.length_penalty={1.4 if short else 0.6}",)),
            Remedy(
                "a smaller beam" if short else "a lower limit",
                ("decoding.beam=2" if short else "decoding.max_ratio=1.5",),
            ),
            Remedy("check the corpus: regard data CORPUS --check"),
        ),
    )
    return Outcome(check, figure, finding)


def exposure(measured: Measurements) -> Outcome:
    """A model that is good after the reference's words, and bad after its own."""
    check = "exposure bias"
    if lack := _lacks_outputs(check, measured):
        return lack
    right = float(np.concatenate([pair.correct[:-1] for pair in measured.forced]).mean())
    wrong = sum(distance(output.tokens, output.reference) for output in measured.outputs)
    own = 1 - wrong / max(sum(max(len(one.tokens), len(one.reference)) for one in measured.outputs), 1)
    loss = -float(np.concatenate([pair.log_probs for pair in measured.forced]).mean())
    figure = f"{right:.0%} of tokens right after the reference's words (loss {loss:.2f}), {own:.0%} after its own"
    if right - own <= EXPOSED:
        return Outcome(check, figure)
    finding = Finding(
        "The model is much worse after its own words than after the reference's.",
        f"Given the reference's past it gets {right:.0%} of tokens right; by itself, {own:.0%} match the reference.",
        (
            "in training it has only ever read right words, and one mistake leads to the next",
            "references that could as well be worded otherwise: then this is no fault",
        ),
        (
            Remedy("train on the model's own words, too", ("training.teacher_forcing=0.75",)),
            Remedy("a larger beam", ("decoding.beam=8",)),
            Remedy("more dropout", ("model.dropout=0.3",)),
        ),
    )
    return Outcome(check, figure, finding)


def vocabulary(measured: Measurements) -> Outcome:
    """A vocabulary that is too large."""
    check = "unused vocabulary"
    size = len(measured.likeliest)
    if measured.tokens < PER_WORD * size:
        need = f"{PER_WORD * size:,} target tokens are needed for a vocabulary of {size:,}"
        return not_judged(check, f"{measured.tokens:,} target tokens; {need}")
    seen = {token for pair in measured.forced for token in pair.target}
    never = [token for token in range(len(MARKS), size) if token not in seen and measured.likeliest[token] < NEVER]
    share = len(never) / size
    figure = f"{share:.0%} of {size:,} target tokens are never needed and never considered"
    if share <= UNUSED:
        return Outcome(check, figure)
    finding = Finding(
        "Most of the target vocabulary is unused.",
        f"{len(never):,} of {size:,} tokens occur in no reference and never have a probability of {NEVER:g}.",
        ("a vocabulary larger than the data needs", "this corpus is of another kind than the training data"),
        (Remedy("a smaller vocabulary", (f"tokenizer.vocabulary={max(64, size - len(never))}",)),),
    )
    return Outcome(check, figure, finding)


def least_reached(norms: Sequence[Floats]) -> float:
    """Return the gradient at the source token that matters least, relative to the most: the median over pairs."""
    shares = []
    for rows in norms:
        reached = rows.sum(axis=0)[:-1]
        shares.append(float(reached.min() / max(float(reached.max()), 1e-30)))
    return float(np.median(shares))


def gradients(measured: Measurements) -> Outcome:
    """Source words that training cannot reach."""
    check = "gradients through time"
    long = [found for found in measured.gradients if found.norms.shape[1] > LONG]
    if not long:
        return not_judged(check, f"no source has more than {LONG} tokens" if measured.gradients else NOTHING_SEARCHED)
    share = least_reached([found.norms for found in long])
    figure = f"the source token that matters least has {share:.2g} of the gradient of the one that matters most"
    if measured.attends:
        figure += f", {least_reached([found.norms_without_attention for found in long]):.2g} without attention"
    if share >= VANISHED:
        return Outcome(check, figure)
    finding = Finding(
        "Gradients vanish on their way to parts of the source, which cannot be learned from.",
        f"At the source token that matters least the gradient is {share:.2g} of the largest; the median of {len(long)} "
        "pairs.",
        (
            "all that is known of the source passes through one vector"
            if not measured.attends
            else "saturated gates or attention that never reaches these positions",
            "sources that are longer than those of the training",
        ),
        (
            Remedy("attention to the source: a preset that has it", ("model.attention.score=additive",)),
            Remedy("LSTM cells", ("model.encoder.cell=lstm", "model.decoder.cell=lstm")),
            Remedy("read from the end: the first words are then near each other", ("model.reverse_source=true",)),
        )
        if not measured.attends
        else (
            Remedy("reach the whole source", ("model.attention.reach=global",)),
            Remedy("a higher temperature", ("model.attention.temperature=2",)),
        ),
    )
    return Outcome(check, figure, finding)


def calibration_curve(measured: Measurements) -> list[tuple[float, float, int]]:
    """Return, for bins of confidence, the mean confidence, the share of right tokens, and the number of tokens."""
    confidence = np.concatenate([pair.confidence for pair in measured.forced])
    correct = np.concatenate([pair.correct for pair in measured.forced])
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return [
        (float(confidence[bins == number].mean()), float(correct[bins == number].mean()), int((bins == number).sum()))
        for number in range(BINS)
        if (bins == number).any()
    ]


def calibration(measured: Measurements) -> Outcome:
    """Probabilities that do not mean what they say."""
    check = "calibration"
    if measured.tokens < LEAST_TOKENS:
        return not_judged(check, f"{measured.tokens:,} target tokens; {LEAST_TOKENS:,} are needed")
    curve = calibration_curve(measured)
    error = sum(abs(confidence - right) * count for confidence, right, count in curve) / measured.tokens
    excess = sum((confidence - right) * count for confidence, right, count in curve) / measured.tokens
    figure = f"expected calibration error {error:.3f}"
    if error <= MISCALIBRATED:
        return Outcome(check, figure)
    over = excess > 0
    finding = Finding(
        f"The model is too {'sure' if over else 'unsure'} of itself.",
        f"On average its best token has a probability {abs(excess):.2f} {'above' if over else 'below'} the share of "
        f"times that it is right (expected calibration error {error:.3f}).",
        (
            ("overfitting: probabilities grow after the errors have stopped falling", "no label smoothing")
            if over
            else ("too much label smoothing or dropout", "training that ended too early")
        ),
        (
            Remedy(
                "label smoothing" if over else "less label smoothing",
                (f"training.label_smoothing={0.1 if over else 0.0}",),
            ),
            Remedy("more dropout", ("model.dropout=0.3",)) if over else LONGER,
        ),
    )
    return Outcome(check, figure, finding)


def _lacks_outputs(check: str, measured: Measurements) -> Outcome | None:
    if not measured.outputs:
        return not_judged(check, NOTHING_SEARCHED)
    if len(measured.outputs) < LEAST_OUTPUTS:
        return not_judged(check, f"{len(measured.outputs)} pairs; {LEAST_OUTPUTS} are needed")
    return None


def _shown(tokens: Sequence[str]) -> str:
    return " ".join(tokens[:16]) + (" …" if len(tokens) > 16 else "")
