"""Traces as laws want them: any tokens, any lengths, rows that sum to one."""

import numpy as np
from hypothesis import strategies as st

from regard.viz.trace import AttentionTrace

ALPHABETS = {
    "latin": "abcdefghijklmnopqrstuvwxyzéßœ",
    "cyrillic": "абвгдежзиклмнопрстуф",
    "cjk": "赤い服とても美麗的한국어",
    "arabic": "ابتثجحخدذرزس",
    "hebrew": "אבגדהוזחטיכ",
    "marks": "ae\u0301\u0308\u200d\u200c\ufe0fक्षि",
    "emoji": "😀👍🏽❤️👩‍👧🇫🇷",
    "controls": "\x1b[31m\t\n\r\x07\u202e\u2028\ud800\x9b\x7f \u00a0$_^\\<&>\"'",
}

tokens = st.sampled_from(sorted(ALPHABETS)).flatmap(
    lambda name: st.builds(
        lambda mark, text: mark + text,
        st.sampled_from(["", "▁"]),
        st.text(ALPHABETS[name], max_size=30) | st.sampled_from(["", "<unk>", "x"]),
    )
)


def make_trace(source, target, *, layers=1, heads=1, seed=0, sharpness=3.0, **more) -> AttentionTrace:
    """A trace with random attention, normalised over the source."""
    noise = np.random.default_rng(seed).normal(size=(layers, heads, len(target), len(source))) * sharpness
    weights = np.exp(noise) / np.exp(noise).sum(axis=-1, keepdims=True)
    logs = tuple(-0.1 for _ in target)
    return AttentionTrace(tuple(source), tuple(target), weights.astype(np.float32), logs, score=-1.25, **more)


# Recipes, not traces: the type checker that runs with the tests draws random samples of what it checks, and
# hypothesis wants no randomness but its own while it makes up arguments.
recipes = st.sampled_from([3, 12, 70]).flatmap(
    lambda longest: st.fixed_dictionaries(
        {
            "source": st.lists(tokens, max_size=longest).map(lambda words: [*words, "</s>"]),
            "target": st.lists(tokens, max_size=longest).map(lambda words: [*words, "</s>"]),
            "layers": st.integers(1, 3),
            "heads": st.integers(1, 2),
            "seed": st.integers(0, 99),
            "sharpness": st.floats(0, 9),
        }
    )
)


def dress() -> AttentionTrace:
    """The red dress, with weights that can be checked by eye."""
    weights = np.array([[9, 1, 0, 0], [0, 1, 8, 1], [1, 7, 1, 1], [0, 0, 0, 10]], dtype=np.float32) / 10
    source, target = ("▁the", "▁red", "▁dress", "</s>"), ("▁la", "▁robe", "▁rouge", "</s>")
    return AttentionTrace(source, target, weights[None, None], (-0.1, -0.2, -0.3, -0.1), score=-0.7)
