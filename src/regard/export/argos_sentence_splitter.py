"""Sentence splitting by rules, as an ONNX graph that MiniSBD runs (the splitter of Argos Translate).

MiniSBD maps each character to a number by a vocabulary of the model, and marks where tokens (1) and sentences (2) end.
Its trained models are downloaded at the first use, from GitHub; a package with a model of its own needs no network.
The numbers here are classes of characters, and the rules are:

- `.`, `!`, `?` or `…`, with quotes or brackets that close after it, ends a sentence if white space and a capital
  letter, an opening quote or bracket, or a dash follow;
- but not after a single capital letter: J. S. Bach;
- the full stops of scripts without capitals (。 ！ ？ । ؟ …) end a sentence wherever they are.
"""

import json
from typing import Any

OTHER, STOP, CALL, ALONE, SPACE, CLOSE, OPEN = 1, 2, 3, 4, 5, 6, 7
CLASSES = {
    STOP: ".",
    CALL: "!?…",
    ALONE: "。！？｡।॥؟۔።",
    SPACE: " ",
    CLOSE: "\"'’”»)]」』）",
    OPEN: "“‘«([¿¡„「『（-–—",
}
FEATURES = ("capitalized",)
OPSET = 18
_FAR = 2**31
_AROUND = 3
"""How many characters before and after a position the rules look at."""


def sentence_splitter() -> bytes:
    """Return the model file."""
    import onnx
    from onnx import TensorProto, helper

    rules = _Rules()
    ends = rules.ends_of_sentences()
    rules.add("Cast", [ends], "as_float", to=TensorProto.FLOAT)
    rules.add("Unsqueeze", ["as_float", rules.number("last", [2])], "chance")
    # Scores of "inside", "ends a token", "ends a sentence": 1/2, 0, and 1 or 0.
    rules.add("Mul", ["chance", rules.array("nothing", [0.0])], "never")
    rules.add("Add", ["never", rules.array("half", [0.5])], "inside")
    rules.add("Concat", ["inside", "never", "chance"], "scores", axis=2)
    graph = helper.make_graph(
        rules.nodes,
        "sentence_splitter",
        [
            helper.make_tensor_value_info("units", TensorProto.INT64, ["batch", "length"]),
            helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", "length", len(FEATURES)]),
        ],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", "length", 3])],
        rules.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    helper.set_model_props(model, {name: json.dumps(value) for name, value in _settings().items()} | {"lang_code": "?"})
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content


def _settings() -> dict[str, Any]:
    """Return what MiniSBD reads from the file beside the graph."""
    units = {"<PAD>": 0, "<UNK>": OTHER}
    units |= {character: kind for kind, characters in CLASSES.items() for character in characters}
    config = {"feat_funcs": FEATURES, "batch_size": 1, "max_seqlen": 1000, "skip_newline": False}
    return {
        "config": config,
        "vocab": {"lang": "", "_unit2id": units, "_id2unit": list(units)},
        "lexicon": None,
    }


class _Rules:
    """The graph as it is written: nodes and constants."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._named = set[str]()

    def ends_of_sentences(self) -> str:
        """Write the rules; return the name of the boolean tensor."""
        self.add("Gather", ["features", self.number("first", 0)], "capital", axis=2)
        self.add("Pad", ["units", self.number("pads", [0, _AROUND, 0, _AROUND])], "units_around")
        self.add("Pad", ["capital", "pads"], "capital_around")
        stop, call, alone, space, close, opening = (
            [self.shifted(kind, place) for place in range(-_AROUND, _AROUND + 1)] for kind in range(STOP, OPEN + 1)
        )
        pad = [self.shifted(0, place) for place in range(-_AROUND, _AROUND + 1)]
        capital = [self.capital(place) for place in range(-_AROUND, _AROUND + 1)]
        here, after, next_but_one = _AROUND, _AROUND + 1, _AROUND + 2
        initial = self.both(capital[here - 1], self.either(space[here - 2], pad[here - 2]))
        full = [self.either(stop[place], call[place]) for place in range(here + 1)]
        plain = self.either(call[here], self.both(stop[here], self.no(initial)))
        closed = self.both(close[here], self.either(full[here - 1], self.both(close[here - 1], full[here - 2])))
        begins = self.either(capital[next_but_one], opening[next_but_one], close[next_but_one], alone[next_but_one])
        spaced = self.both(self.either(plain, closed), space[after], begins)
        goes_on = self.either(alone[after], close[after], stop[after], call[after])
        ended = self.either(alone[here], self.both(close[here], alone[here - 1]))
        return self.either(spaced, self.both(ended, self.no(goes_on)))

    def shifted(self, kind: int, place: int) -> str:
        """Return whether the character at a distance is of a kind."""
        name = self._window("units", place)
        return self.add("Equal", [name, self.number(f"kind_{kind}", kind)], f"is_{kind}_at_{place}")

    def capital(self, place: int) -> str:
        """Return whether the character at a distance is a capital letter."""
        return self.add(
            "Greater", [self._window("capital", place), self.array("half", [0.5])], f"is_capital_at_{place}"
        )

    def _window(self, name: str, place: int) -> str:
        made = f"{name}_at_{place}"
        if made in self._named:
            return made
        start = self.number(f"start_{place}", [_AROUND + place])
        stop = self.number(f"stop_{place}", [place - _AROUND if place < _AROUND else _FAR])
        return self.add("Slice", [f"{name}_around", start, stop, self.number("second", [1])], made)

    def both(self, *names: str) -> str:
        """Return whether all are true."""
        return self._fold("And", names)

    def either(self, *names: str) -> str:
        """Return whether any is true."""
        return self._fold("Or", names)

    def no(self, name: str) -> str:
        """Return the opposite."""
        return self.add("Not", [name], f"not_{len(self.nodes)}")

    def _fold(self, operator: str, names: tuple[str, ...]) -> str:
        found, *rest = names
        for name in rest:
            found = self.add(operator, [found, name], f"{operator.lower()}_{len(self.nodes)}")
        return found

    def add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node; return the name of its output."""
        from onnx import helper

        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        self._named.add(output)
        return output

    def number(self, name: str, value: int | list[int]) -> str:
        """Add an integer constant once; return its name."""
        return self._constant(name, value, "int64")

    def array(self, name: str, value: list[float]) -> str:
        """Add a constant of floats once; return its name."""
        return self._constant(name, value, "float32")

    def _constant(self, name: str, value: Any, kind: str) -> str:
        import numpy as np
        from onnx import numpy_helper

        if name not in self._named:
            self.constants.append(numpy_helper.from_array(np.array(value, kind), name))
            self._named.add(name)
        return name
