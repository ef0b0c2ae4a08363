"""Exports made to harm: each is refused by one error of ours when the folder is opened, or at the first text."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import regard.runtime
from regard.data.tokenizers.subwords import BytePairs
from regard.errors import ModelError
from regard.runtime.external_data import external_files

onnx = pytest.importorskip("onnx", reason="pip install 'regard[export]'")
SOURCE, TARGET = ["the", "cat", "red"], ["le", "chat", "rouge", "est"]
WIDTH, END = 4 + len(TARGET), 3
SEARCH = {"banned": [0, 1, 2], "spare": 10, "longest": 0, "most": None, "most_read": None, "beam": 2, "max_ratio": 2.0}


def graph(folder, name, given, found, nodes, weights):
    """Write a graph; `given` and `found` are names with types and axes."""
    ports = [[onnx.helper.make_tensor_value_info(*port) for port in side] for side in (given, found)]
    tensors = [onnx.numpy_helper.from_array(value, key) for key, value in weights.items()]
    body = onnx.helper.make_graph(
        [onnx.helper.make_node(*node[:3], **node[3]) for node in nodes], name, *ports, tensors
    )
    model = onnx.helper.make_model(body, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, folder / f"{name}.onnx")


def write_step(folder, axes=("batch", WIDTH), weights=("batch", 1, 1, "source"), wide=WIDTH, **renamed):
    """Write a step: whatever the token was, the end is most probable; attention is the mask."""
    kinds = onnx.TensorProto
    log_probs = renamed.get("log_probs", "log_probs")
    graph(
        folder,
        "step",
        [("token", kinds.INT64, ["batch"]), (renamed.get("state", "state.mask"), kinds.FLOAT, ["batch", "source"])],
        [(log_probs, kinds.FLOAT, axes), ("weights", kinds.FLOAT, weights)],
        [
            ("Gather", ["table", "token"], [log_probs], {}),
            ("Unsqueeze", [renamed.get("state", "state.mask"), "places"], ["weights"], {}),
        ],
        {
            "table": np.log(np.full((WIDTH, wide), 1 / wide, np.float32)),
            "places": np.array([1, 2][: len(weights) - 2], np.int64),
        },
    )


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """A translator by hand: an encoder that returns its mask, and a step for which all words are equal."""
    folder = tmp_path_factory.mktemp("by-hand")
    kinds = onnx.TensorProto
    graph(
        folder,
        "encoder",
        [("source", kinds.INT64, ["batch", "source"]), ("mask", kinds.BOOL, ["batch", "source"])],
        [("state.mask", kinds.FLOAT, ["batch", "source"])],
        [("Cast", ["mask"], ["state.mask"], {"to": kinds.FLOAT})],
        {},
    )
    write_step(folder)
    sides = {}
    for side, words in (("source", SOURCE), ("target", TARGET)):
        (folder / f"{side}.json").write_text(json.dumps(words))
        sides[side] = {"kind": "words", "file": f"{side}.json", "size": 4 + len(words), "tags": []}
    marks = {"padding": 0, "unknown": 1, "start": 2, "end": END}
    (folder / "export.json").write_text(
        json.dumps({"format": 1, "reads": True, **sides, "marks": marks, "copies": False, "search": SEARCH})
    )
    return folder


@pytest.fixture
def copy(translator, tmp_path):
    return Path(shutil.copytree(translator, tmp_path / "export"))


def put(folder, place, value):
    """Change an entry of export.json; `...` removes it."""
    path = folder / "export.json"
    told = json.loads(path.read_text())
    *parts, name = place.split(".")
    within = told
    for part in parts:
        within = within[part]
    if value is ...:
        del within[name]
    else:
        within[name] = value
    path.write_text(json.dumps(told))


def refusal(folder):
    """Open an export and return how it was refused."""
    with pytest.raises(ModelError) as raised:
        regard.runtime.load(folder)
    message = str(raised.value)
    assert message.startswith(f"{folder}/")
    assert "\n" not in message
    assert len(message) < 600
    return message.removeprefix(f"{folder}/")


def test_the_folder_that_is_not_harmed_works(copy):
    (found,) = regard.runtime.load(copy).translate(["the red cat"], beam=2, n_best=2)
    assert found.text == ""
    assert found.attention.weights.shape == (1, 1, 1, 4)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("search.beam", 10**12, "decoding.beam is 1000000000000; it must be at most 1,000"),
        ("search.beam", "5", "search.beam is '5'; it must be a whole number of at least 0"),
        ("search.beam", 2.0, "search.beam is 2.0; it must be a whole number of at least 0"),
        ("search.beam", True, "search.beam is True; it must be a whole number of at least 0"),
        ("search.min_length", 10**12, "decoding.min_length is 1000000000000; it must be at most 10,000"),
        ("search.min_length", 1e300, "search.min_length is 1e+300; it must be a whole number of at least 0"),
        ("search.max_length", 10**9, "decoding.max_length is 1000000000; it must be at most 100,000"),
        ("search.max_ratio", 1e300, "decoding.max_ratio is 1e+300; it must be at most 1,000"),
        ("search.max_ratio", None, "search.max_ratio is None; it must be a number"),
        ("search.length_penalty", 10**12, "decoding.length_penalty is 1000000000000.0; it must be from -10 to 10"),
        ("search.length_penalty", 1e300, "decoding.length_penalty is 1e+300; it must be from -10 to 10"),
        ("search.length_penalty", -1e300, "decoding.length_penalty is -1e+300; it must be from -10 to 10"),
        ("search.length_penalty", float("nan"), "decoding.length_penalty is nan; it must be a finite number"),
        ("search.coverage_penalty", 1e300, "decoding.coverage_penalty is 1e+300; it must be at most 1,000"),
        ("search.patience", [1], "search.patience is [1]; it must be a number"),
        ("search.method", 7, "search.method is 7; it must be a text"),
        ("search.keep", {}, "search.keep is {}; it must be a text"),
        ("search.replace_unknown", "no", "search.replace_unknown is 'no'; it must be true or false"),
        ("search.banned", 5, "search.banned is 5; it must be a list of whole numbers from 0 to 7"),
        ("search.banned", [10**30], f"search.banned is [{10**30}]; it must be a list of whole numbers from 0 to 7"),
        ("search.banned", [END], "search.banned has marks.end, without which no text ends"),
        ("search.spare", 10**12, "search.spare is 1000000000000; it must be a whole number from 0 to 100,000"),
        ("search.longest", 10**12, "search.longest is 1000000000000; it must be a whole number from 0 to 100,000"),
        ("search.most", 0, "search.most is 0; it must be a whole number of at least 1"),
        ("search.most_read", "x", "search.most_read is 'x'; it must be a whole number of at least 2"),
        ("search.most", ..., "it has no search.most"),
        ("search", [], "search is [], not an object"),
        ("marks", None, "marks is None, not an object"),
        ("marks.end", "3", "marks.end is '3'; it must be a whole number from 0 to 7"),
        ("marks.start", 8, "marks.start is 8; it must be a whole number from 0 to 7"),
        ("marks.padding", -1, "marks.padding is -1; it must be a whole number from 0 to 7"),
        ("reads", "yes", "reads is 'yes'; it must be true or false"),
        ("source", ..., "source is None, not an object"),
        ("source.tags", {"a": 1}, "source.tags is {'a': 1}; it must be a list of texts"),
        ("source.tags", ["\ud800"], "source.tags is ['\\ud800']; it must be a list of texts"),
        ("target.kind", "pickle", "target.kind is 'pickle'; it must be one of bpe, unigram, characters, words, "),
        ("target.size", 10**12, "target.size is 1000000000000; it must be a whole number from 0 to 1,000,000"),
        ("target.file", 5, "target.file is 5; it must be a text"),
    ],
)
def test_a_wrong_entry_is_named(place, value, said, copy):
    put(copy, place, value)
    assert refusal(copy).startswith(f"export.json is damaged ({said}")


@pytest.mark.parametrize("file", ["export.json", "source.json", "encoder.onnx", "step.onnx"])
def test_what_is_no_file_of_the_folder_is_not_opened(file, copy, tmp_path):
    shutil.move(copy / file, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", copy / file)
    assert refusal(copy) == f"{file} cannot be read: it leads out of the folder."
    (copy / file).unlink()
    os.mkfifo(copy / file)  # opening it would wait for a writer
    assert refusal(copy) == f"{file} cannot be read: it is a pipe, a socket or a device, not a file."


def test_links_within_the_folder_work(copy):
    shutil.move(copy / "step.onnx", copy / "graph")
    os.symlink("graph", copy / "step.onnx")
    assert regard.runtime.load(copy).translate(["cat"])[0].text == ""


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "\0"])
def test_a_vocabulary_is_not_looked_for_elsewhere(name, copy):
    (copy.parent / "secret").write_text("[]")
    put(copy, "source.file", name)
    with pytest.raises(ModelError, match=r"cannot be read: (it leads out of the folder|its name is no file name)\."):
        regard.runtime.load(copy)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{}", "not a list of units"),
        (b"[1, 2, 3]", "not a list of units"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b'["a", "a", "b"]', "a unit is there twice"),
        (b'["a"]', "it has 5 entries where source.size and the tags leave 7"),
        (b'["\\ud800", "a", "b"]', "'utf-8' codec can't encode character"),
        (b"\xff", ""),
    ],
)
def test_a_vocabulary_that_is_none_is_refused(content, said, copy):
    (copy / "source.json").write_bytes(content)
    assert refusal(copy).startswith(f"source.json is damaged ({said}")


@pytest.fixture(scope="module")
def subwords():
    return BytePairs.train(["the red dress", "a red cat", "the cat"] * 5, 300).to_bytes()


@pytest.mark.parametrize("damage", ["empty", "cut", "text", "with a table", "whole"])
def test_a_sentencepiece_model_is_checked_before_sentencepiece_reads_it(damage, subwords, copy):
    table = b"\x1a\x06\x12\x04\xff\xff\xff\xff"  # NormalizerSpec.precompiled_charsmap
    contents = {"empty": b"", "cut": subwords[: len(subwords) // 2], "text": b"a text", "whole": subwords}
    (copy / "pieces.model").write_bytes(contents.get(damage, subwords + table * 12))
    size = BytePairs(subwords).size
    for name, value in (("kind", "bpe"), ("file", "pieces.model"), ("size", size)):
        put(copy, f"source.{name}", value)
    if damage == "whole":
        assert regard.runtime.load(copy).translate(["the cat"])[0].text == ""
        put(copy, "source.size", size - 1)
        assert refusal(copy).startswith(f"pieces.model is damaged (it has {size} entries where source.size")
    else:
        assert refusal(copy).startswith("pieces.model is damaged (not a SentencePiece model that regard made).")


def with_weights_in(folder, location):
    """Move the weights of the step to a file beside it, and have the graph name another one."""
    path = folder / "step.onnx"
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="step.onnx.data", size_threshold=100)
    model = onnx.load(path, load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        entry.value = location if entry.key == "location" else entry.value
    path.write_bytes(model.SerializeToString())


def test_weights_beside_a_graph_are_read(copy):
    with_weights_in(copy, "step.onnx.data")
    assert external_files(copy / "step.onnx") == {"step.onnx.data"}
    assert regard.runtime.load(copy).translate(["cat"])[0].text == ""
    shutil.move(copy / "step.onnx.data", copy.parent / "elsewhere")
    assert refusal(copy).startswith("step.onnx.data is missing.")
    os.symlink(copy.parent / "elsewhere", copy / "step.onnx.data")
    assert refusal(copy) == "step.onnx.data cannot be read: it leads out of the folder."


@pytest.mark.parametrize("location", ["../secret", "/etc/hostname", "*/_ORT_MEM_ADDR_/*", "source.json", ""])
def test_weights_in_other_files_are_not_read(location, copy):
    with_weights_in(copy, location)
    said = f"step.onnx is damaged (it has weights in {location!r}, not in step.onnx.data)."
    assert refusal(copy).startswith(said)


def test_tensors_are_found_wherever_a_graph_can_have_them(tmp_path):
    helper = onnx.helper
    kinds = onnx.TensorProto

    def tensor(location):
        made = onnx.numpy_helper.from_array(np.zeros(2, np.float32), location)
        made.ClearField("raw_data")
        made.data_location = kinds.EXTERNAL
        made.external_data.add(key="offset", value="0")
        made.external_data.add(key="location", value=location)
        return made

    inner = helper.make_graph([helper.make_node("Constant", [], ["b"], value=tensor("b"))], "inner", [], [])
    sparse = helper.make_sparse_tensor(tensor("c"), tensor("d"), [2])
    nodes = [helper.make_node("If", ["x"], ["y"], then_branch=inner, values=[tensor("e")])]
    outer = helper.make_graph(nodes, "outer", [], [], [tensor("a")], sparse_initializer=[sparse])
    function = helper.make_function("f", "f", [], [], [helper.make_node("Constant", [], ["g"], value=tensor("g"))], [])
    model = helper.make_model(outer, functions=[function])
    model.training_info.add().algorithm.CopyFrom(helper.make_graph([], "learns", [], [], [tensor("h")]))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    assert external_files(tmp_path / "model.onnx") == set("abcdegh")


@pytest.mark.parametrize(
    "content", [b"\x0a", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x0b", b"\x3a\x05abc"]
)
def test_what_is_no_protocol_buffer_is_refused(content, copy):
    (copy / "step.onnx").write_bytes(content)
    assert refusal(copy).startswith("step.onnx is damaged (it is not an ONNX file).")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"log_probs": "logits"}, "it has no output 'log_probs'"),
        ({"state": "state.other"}, "it has no output 'state.other'"),
    ],
)
def test_graphs_that_do_not_fit_are_refused(changes, said, copy):
    write_step(copy, **changes)
    assert f".onnx cannot be used ({said})." in refusal(copy)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"wide": 5, "axes": ("batch", 5)}, r"step.onnx cannot be used \(log_probs has the shape \(1, 5\)\)"),
        ({"weights": ("batch", 1, "source")}, r"step.onnx cannot be used \(weights has the shape \(1, 1, 2\)\)"),
    ],
)
def test_arrays_of_other_shapes_are_refused_at_the_first_text(changes, said, copy):
    write_step(copy, **changes)
    with pytest.raises(ModelError, match=said):
        regard.runtime.load(copy).translate(["cat"])


def test_a_graph_that_fails_is_named(copy):
    put(copy, "marks.start", 7)
    path = copy / "step.onnx"
    model = onnx.load(path)
    table = onnx.numpy_helper.from_array(np.zeros((5, WIDTH), np.float32), "table")  # it has no row for the start token
    model.graph.initializer[0].CopyFrom(table)
    onnx.save(model, path)
    with pytest.raises(ModelError, match=r"step.onnx cannot be used \(.*indices element out of data bounds"):
        regard.runtime.load(copy).translate(["cat"])


def test_a_manifest_that_is_too_large_is_not_read(copy):
    with (copy / "export.json").open("r+b") as file:
        file.truncate((1 << 26) + 1)
    assert refusal(copy) == "export.json cannot be read: it has 67,108,865 bytes; 67,108,864 are the most for its kind."
