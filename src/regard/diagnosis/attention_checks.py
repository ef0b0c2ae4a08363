"""Checks of the attention to the source: where it lies, how sharp it is, what its heads add."""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from regard.attention.focus.softmax import Softmax
from regard.diagnosis.findings import COVER, LONGER, Finding, Outcome, Remedy, not_judged
from regard.diagnosis.measurements import Floats, ForcedPair, Measurements, for_gradients

UNIFORM = 0.95
"""Entropy, relative to that of uniform weights, from which attention distinguishes nothing."""
STUCK = 0.7
"""Share of steps with the most attention on one and the same place."""
SATURATED = 0.9
"""Share of steps whose largest weight is 1 within float32, so that no gradient reaches the scores."""
ONE = 1 - 1e-6
OFF = 0.1
"""How much better attribution must agree with attention one place away."""
DEAD = 1e-5
"""Rise of the loss per token, in nats, below which nothing depends on a head."""
ALIKE = 0.005
"""Total variation distance between two heads' weights below which they are the same."""
SHORT = 4
"""Sources with fewer tokens say little about where attention lies."""
LEAST_STEPS = 30
"""Steps needed to judge by."""

NO_ATTENTION = "the model has no attention to a source"


def _rows(pairs: Sequence[ForcedPair]) -> Iterator[Floats]:
    """Yield the attention of each pair, without the step that generates the end token, which may rest anywhere."""
    for pair in pairs:
        if len(pair.source) >= SHORT and len(pair.target) > 1:
            yield pair.weights[:, :, :-1]


def _steps(pairs: Sequence[ForcedPair]) -> int:
    return sum(rows.shape[2] for rows in _rows(pairs))


def _lacks(check: str, measured: Measurements) -> Outcome | None:
    if not measured.attends:
        return not_judged(check, NO_ATTENTION)
    if (count := _steps(measured.forced)) < LEAST_STEPS:
        return not_judged(check, f"{count} steps over sources of {SHORT} tokens or more; {LEAST_STEPS} are needed")
    return None


def relative_entropies(pairs: Sequence[ForcedPair]) -> Floats:
    """Return the mean entropy of each layer and head, relative to uniform attention: 0 to 1."""
    sums, steps = 0.0, 0
    for rows in _rows(pairs):
        weights = np.maximum(rows, 1e-30)
        entropy = -(rows * np.log(weights)).sum(axis=-1) / math.log(rows.shape[-1])
        sums, steps = sums + entropy.sum(axis=-1), steps + rows.shape[2]
    return np.asarray(sums / max(steps, 1), np.float32)


def uniform(measured: Measurements) -> Outcome:
    """Attention that is the same everywhere."""
    check = "uniform attention"
    if lack := _lacks(check, measured):
        return lack
    entropies = relative_entropies(measured.forced)
    flat = [at for at in measured.heads() if entropies[at] > UNIFORM]
    figure = f"entropy {entropies.mean():.2f} of that of uniform weights"
    figure += f"; {len(flat)} of {entropies.size} heads are uniform" if flat and entropies.size > 1 else ""
    if 2 * len(flat) <= entropies.size:
        return Outcome(check, figure)
    finding = Finding(
        "The attention is almost uniform: the decoder sees the mean of the source, whatever it generates.",
        f"On average the weights have {entropies.mean():.1%} of the largest possible entropy.",
        (
            "training ended before the attention was learned, or the learning rate is too low for it",
            "the decoder does without it: targets that can be guessed from the target's past alone",
            "a temperature above 1, or scores that barely differ (score=cosine has them between -1 and 1)",
        ),
        (
            LONGER,
            Remedy("let each head learn its temperature", ("model.attention.learn_temperature=true",)),
            Remedy("another score", ("model.attention.score=additive",)),
            Remedy("guide it by gold alignments, if you have some", ("training.guided=0.5",)),
        ),
    )
    return Outcome(check, figure, finding)


def stuck(measured: Measurements) -> Outcome:
    """Attention that lies on one place whatever is generated."""
    check = "stuck attention"
    if lack := _lacks(check, measured):
        return lack
    ends = firsts = steps = 0
    for rows in _rows(measured.forced):
        most = rows.mean(axis=(0, 1)).argmax(axis=-1)
        ends += int((most == rows.shape[-1] - 1).sum())
        firsts += int((most == 0).sum())
        steps += len(most)
    shares = {"the end token": ends / steps, "the first token": firsts / steps}
    place, share = max(shares.items(), key=lambda item: item[1])
    figure = f"{ends / steps:.0%} of steps attend most to the end token, {firsts / steps:.0%} to the first"
    if share <= STUCK:
        return Outcome(check, figure)
    finding = Finding(
        f"The attention is stuck on {place}.",
        f"At {share:.0%} of {steps:,} steps most attention lies there, the end of the sentence not counted.",
        (
            "the encoder's state there summarises the whole source, which is enough for short or simple data",
            "attention had not been learned when training ended",
        ),
        (
            LONGER,
            Remedy("guide it by gold alignments, if you have some", ("training.guided=0.5",)),
            COVER,
        ),
    )
    return Outcome(check, figure, finding)


def saturated(measured: Measurements) -> Outcome:
    """Softmax so sharp that it cannot learn any more."""
    check = "saturated attention"
    if lack := _lacks(check, measured):
        return lack
    model = measured.translator.model
    if not all(type(module.focus) is Softmax for module in model.decoder.source_attentions):
        return not_judged(check, "the focus is no softmax, so weights of exactly 1 are meant")
    full = sum(int((rows.max(axis=-1) >= ONE).sum()) for rows in _rows(measured.forced))
    count = sum(rows[..., 0].size for rows in _rows(measured.forced))
    share = full / count
    figure = f"{share:.0%} of weights' rows have a weight of 1 within rounding"
    if share <= SATURATED:
        return Outcome(check, figure)
    finding = Finding(
        "The attention's softmax is saturated: no gradient reaches the scores, so it cannot learn any more.",
        f"{share:.0%} of {count:,} rows put all weight on one place, to the last digit of float32.",
        (
            "scores grow with the width of keys and queries (score=dot is not scaled)",
            "a learning rate that is too high, or a temperature that is too low",
        ),
        (
            Remedy("divide scores by the root of their width", ("model.attention.score=scaled-dot",)),
            Remedy("a higher temperature", ("model.attention.temperature=2",)),
            Remedy("a lower learning rate", ("training.learning_rate=0.0003",)),
        ),
    )
    return Outcome(check, figure, finding)


def _cosine(one: Floats, other: Floats) -> float:
    return float((one * other).sum() / max(float(np.linalg.norm(one) * np.linalg.norm(other)), 1e-30))


def shifted_agreement(measured: Measurements) -> dict[tuple[int, int], float]:
    """Return how well attention agrees with attribution if it is moved by (target steps, source tokens).

    The mean cosine of the two matrices, each centred by row, over the parts that all moves share.
    """
    moves = [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)]
    sums = dict.fromkeys(moves, 0.0)
    used = 0
    for pair, found in zip(for_gradients(measured.forced), measured.gradients, strict=True):
        look, told = pair.weights.mean(axis=(0, 1))[:-1, :-1], np.abs(found.attribution)[:-1, :-1]
        rows, columns = look.shape
        if rows < 4 or columns < 4:
            continue
        used += 1
        told = told / np.maximum(told.sum(axis=1, keepdims=True), 1e-30)
        inner = told[1:-1, 1:-1]
        for down, right in moves:
            moved = look[1 + down : rows - 1 + down, 1 + right : columns - 1 + right]
            sums[down, right] += _cosine(_centred(moved), _centred(inner))
    return {move: total / used for move, total in sums.items()} if used else {}


def _centred(rows: Floats) -> Floats:
    return np.asarray(rows - rows.mean(axis=1, keepdims=True), np.float32)


def off_by_one(measured: Measurements) -> Outcome:
    """Attention that lies beside the token that mattered."""
    check = "off-by-one alignment"
    if not measured.attends:
        return not_judged(check, NO_ATTENTION)
    agreement = shifted_agreement(measured)
    if not agreement:
        return not_judged(check, "no pair is long enough (five tokens on both sides)")
    best = max(agreement, key=lambda move: agreement[move])
    figure = f"attention agrees with attribution by {agreement[0, 0]:.2f} in place"
    if best == (0, 0) or agreement[best] - agreement[0, 0] < OFF:
        return Outcome(
            check, f"{figure}, {max(value for move, value in agreement.items() if move != (0, 0)):.2f} beside"
        )
    where = {
        (-1, 0): "one step before: the attention of a step serves the next token",
        (1, 0): "one step after: the attention of a step looks at what the last token came from",
        (0, -1): "one token to the left of the token that matters",
        (0, 1): "one token to the right of the token that matters",
    }[best]
    finding = Finding(
        f"The attention lies {where}.",
        f"Attribution by gradients agrees with it by {agreement[best]:.2f} there, by {agreement[0, 0]:.2f} in place.",
        (
            "neighbouring states of the encoder tell of each other, and the decoder knows its own past: where exactly "
            "the attention lies makes no difference to the loss",
        ),
        (
            Remedy("read alignments off the next step: regard evaluate --shift, regard align --shift"),
            Remedy("guide it by gold alignments, if you have some", ("training.guided=0.5",)),
            Remedy("read alignments by posterior attention: --posterior"),
        ),
    )
    return Outcome(check, figure, finding)


def dead_heads(measured: Measurements) -> Outcome:
    """Heads that nothing depends on."""
    check = "dead heads"
    if len(measured.ablation) < 2:
        return not_judged(check, "the attention has a single head" if measured.attends else NO_ATTENTION)
    dead = [at for at, rise in measured.ablation.items() if abs(rise) < DEAD]
    weakest = min(measured.ablation, key=lambda at: abs(measured.ablation[at]))
    figure = f"without the weakest head ({_name(weakest)}) the loss rises by {measured.ablation[weakest]:.4f} a token"
    if not dead:
        return Outcome(check, figure)
    finding = Finding(
        f"{_count(dead, 'head is', 'heads are')} dead: nothing depends on {'it' if len(dead) == 1 else 'them'}.",
        f"Ablating {_list(dead)} changes the loss by less than {DEAD:g} a token each.",
        ("more heads than the data needs", "weights that were driven to zero, by weight decay or by a bad start"),
        (
            Remedy("prune them: the model becomes smaller and faster", (_pruned(dead),)),
            Remedy("fewer heads", ("model.attention.heads=4",)),
        ),
    )
    return Outcome(check, figure, finding)


def duplicate_heads(measured: Measurements) -> Outcome:
    """Heads of a layer that attend to the same."""
    check = "duplicate heads"
    if len(measured.ablation) < 2:
        return not_judged(check, "the attention has a single head" if measured.attends else NO_ATTENTION)
    if lack := _lacks(check, measured):
        return lack
    distances = _distances(measured)
    if not distances:
        return not_judged(check, "no layer has two heads")
    same = [pair for pair, distance in distances.items() if distance < ALIKE]
    nearest = min(distances.values())
    figure = f"the two heads most alike differ in {nearest:.1%} of their weight"
    if not same:
        return Outcome(check, figure)
    pairs = ", ".join(f"{_name((layer, one))} and {other}" for layer, one, other in same)
    finding = Finding(
        f"{_count(same, 'pair of heads attends', 'pairs of heads attend')} to the same.",
        f"Their weights differ by less than {ALIKE:.1%}: {pairs}.",
        ("more heads than the data needs", "heads that began alike and were never driven apart"),
        (
            Remedy("prune one of each pair", (_pruned(sorted({(layer, other) for layer, _, other in same})),)),
            Remedy("more dropout, so that they do not rely on each other", ("model.dropout=0.3",)),
        ),
    )
    return Outcome(check, figure, finding)


def _distances(measured: Measurements) -> dict[tuple[int, int, int], float]:
    """Return the mean total variation distance between the heads of each layer."""
    layers, heads = measured.forced[0].weights.shape[:2]
    sums = {(layer, *pair): 0.0 for layer in range(layers) for pair in combinations(range(heads), 2)}
    for rows in _rows(measured.forced):
        for layer, one, other in sums:
            sums[layer, one, other] += float(np.abs(rows[layer, one] - rows[layer, other]).sum()) / 2
    steps = _steps(measured.forced)
    return {pair: total / steps for pair, total in sums.items()}


def _name(at: tuple[int, int]) -> str:
    return f"layer {at[0]} head {at[1]}"


def _list(heads: Sequence[tuple[int, int]]) -> str:
    return ", ".join(map(_name, heads))


def _count(items: Sequence[object], one: str, many: str) -> str:
    return f"{len(items)} {one if len(items) == 1 else many}"


def _pruned(heads: Sequence[tuple[int, int]]) -> str:
    return f"model.attention.pruned={','.join(f'{layer}.{head}' for layer, head in heads)}"
