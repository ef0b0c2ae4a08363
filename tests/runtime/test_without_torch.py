"""The runtime by itself: what it imports, the wheel that has only it, its command, and folders that are damaged."""

import ast
import io
import json
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest

import regard
import regard.runtime
from regard.errors import ModelError
from regard.runtime import command

onnx = pytest.importorskip("onnx", reason="pip install 'regard[export]'")
SOURCE = Path(regard.runtime.__file__).parent
PACKAGING = Path(__file__).parents[2] / "packaging" / "runtime"
PROJECT = tomllib.loads((PACKAGING / "pyproject.toml").read_text(encoding="utf-8"))
SHARED = ("regard.errors", "regard.folder_files", "regard.sentencepiece_file")
"""What it has in common with the rest of the package."""
WORDS = ["le", "chat", "noir"]


def in_a_new_process(code, **settings):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, **settings)


def third_party(path):
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    found = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return {name for name in found if name.split(".")[0] not in sys.stdlib_module_names}


def test_it_imports_itself_the_errors_and_what_its_wheel_requires():
    shared = [SOURCE.with_name(f"{name.split('.')[1]}.py") for name in SHARED]
    found = set().union(*map(third_party, [*SOURCE.glob("*.py"), *shared]))
    ours = {name for name in found if name.split(".")[0] == "regard"}
    assert {name for name in ours if not name.startswith("regard.runtime.")} == set(SHARED)
    required = {requirement.split(">")[0] for requirement in PROJECT["project"]["dependencies"]}
    assert {name.split(".")[0] for name in found - ours} == required | {"PIL"}


def test_the_package_has_it_without_torch_and_without_what_a_model_needs():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import regard\nassert 'numpy' not in sys.modules\nregard.runtime.load\n"
        "print(*(name for name in ('onnxruntime', 'sentencepiece', 'PIL', 'regard.config') if name in sys.modules))"
    )
    found = in_a_new_process(code)
    assert (found.stdout, found.stderr) == ("\n", "")


def test_the_wheel_says_the_same_as_the_package():
    own = tomllib.loads((PACKAGING.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for part in ("version", "license", "requires-python"):
        assert PROJECT["project"][part] == own[part]
    everywhere = [*own["dependencies"], *own["optional-dependencies"]["export"]]
    assert set(PROJECT["project"]["dependencies"]) <= set(everywhere)
    module, _, function = PROJECT["project"]["scripts"]["regard-runtime"].partition(":")
    assert (module, function) == (command.__name__, command.main.__name__)
    (included,) = (PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"],)
    assert {place: (PACKAGING / file).resolve() for file, place in included.items()} == {
        "regard/runtime": SOURCE,
        **{f"{name.replace('.', '/')}.py": SOURCE.with_name(f"{name.split('.')[1]}.py") for name in SHARED},
        "regard/runtime/py.typed": SOURCE.with_name("py.typed"),
    }


# -- a classifier by hand, which needs no export -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A model whose logits are how often each of two words occurs."""
    folder = tmp_path_factory.mktemp("by-hand")
    helper, kinds = onnx.helper, onnx.TensorProto
    table = np.zeros((7, 2), np.float32)
    table[4, 0] = table[5, 1] = 1.0
    nodes = [
        helper.make_node("Gather", ["table", "tokens"], ["each"]),
        helper.make_node("ReduceSum", ["each", "one"], ["logits"], keepdims=0),
    ]
    ports = [
        helper.make_tensor_value_info("tokens", kinds.INT64, ["batch", "source"]),
        helper.make_tensor_value_info("logits", kinds.FLOAT, ["batch", 2]),
    ]
    weights = [onnx.numpy_helper.from_array(table, "table"), onnx.numpy_helper.from_array(np.array([1]), "one")]
    graph = helper.make_graph(nodes, "model", ports[:1], ports[1:], weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), folder / "model.onnx"
    )
    (folder / "words.json").write_text(json.dumps(WORDS))
    told = {"kind": "words", "file": "words.json", "size": 7, "tags": []}
    export = {"format": 1, "task": "classify", "labels": ["articles", "cats"], "source": told, "end": 3}
    (folder / "export.json").write_text(json.dumps({**export, "longest": None, "sentence_ends": None}))
    return folder


def run(monkeypatch, capsys, given, *arguments):
    class Input:
        buffer = io.BytesIO(given)

    monkeypatch.setattr(sys, "stdin", Input)
    monkeypatch.setattr(command.select, "select", lambda *_: [[1]])
    try:
        command.main([str(argument) for argument in arguments])
        code = 0
    except SystemExit as end:
        code = end.code
    written = capsys.readouterr()
    return code, written.out.splitlines(), written.err


def test_lines_are_classified(classifier, monkeypatch, capsys):
    given = "\ufeffle le chat\r\n\nchat noir chat".encode()
    right = ["0.7311\tarticles", "", "0.8808\tcats"]
    assert run(monkeypatch, capsys, given, classifier) == (0, right, "")
    _, both, _ = run(monkeypatch, capsys, b"le\n", classifier, "--n-best", 2)
    assert both == ["0.7311\tarticles\t0.2689\tcats"]
    _, (line,), _ = run(monkeypatch, capsys, b"le chat noir chat\n", classifier, "--json")
    record = json.loads(line)
    assert (record["label"], record["attention"]["source"]) == ("cats", ["le", "chat", "noir", "chat", "</s>"])


def test_every_line_of_many_is_answered_in_order(classifier, monkeypatch, capsys):
    lines = [("le", "chat")[number % 3 == 0] for number in range(2 * command.WAITING + 7)]
    _, written, _ = run(monkeypatch, capsys, "\n".join(lines).encode(), classifier)
    assert [line.split("\t")[1] for line in written] == [{"le": "articles", "chat": "cats"}[line] for line in lines]


def test_a_slow_writer_is_answered_at_once(classifier):
    code = f"from regard.runtime.command import main; main([{str(classifier)!r}])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for line, answer in ((b"le\n", b"0.7311\tarticles\n"), (b"chat\n", b"0.7311\tcats\n")):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline() == answer


def test_what_is_wrong_is_told_in_one_line(classifier, monkeypatch, capsys, tmp_path):
    code, written, told = run(monkeypatch, capsys, b"le\ncaf\xe9\n", classifier)
    assert (code, written) == (2, [])
    assert told == "Line 2 of the input is not valid UTF-8 (byte 4).\n"
    code, _, told = run(monkeypatch, capsys, b"", tmp_path)
    assert code == 2
    advice = f"Make one with regard export MODEL {tmp_path}."
    assert told == f"{tmp_path} is not an exported model: it has no export.json. {advice}\n"


def damage(folder, file, content):
    (folder / file).unlink() if content is None else (folder / file).write_bytes(content)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("export.json", b"{", "export.json is damaged."),
        ("export.json", b"[" * 100_000, "export.json is damaged."),
        ("export.json", b"[1]", "export.json is damaged."),
        (
            "export.json",
            b'{"format": 1, "labels": []}',
            "damaged (labels is []; it must be a list of at least one class).",
        ),
        ("export.json", b'{"format": 1}', "export.json is damaged (it has no reads)."),
        ("export.json", b'{"format": 2}', "export.json has format 2, and this release reads format 1: "),
        ("export.json", b'{"format": 1, "image": {}}', "holds a model that reads pictures: run it with python "),
        ("words.json", None, "words.json is missing."),
        ("words.json", b"5", "words.json is damaged (not a list of units)."),
        ("model.onnx", None, "model.onnx is missing."),
        ("model.onnx", b"no graph", "model.onnx is damaged (it is not an ONNX file)."),
        ("model.onnx", b"", "model.onnx is damaged (it is not an ONNX file)."),
        ("model.onnx", b"\x08\x09", "model.onnx cannot be used ("),
    ],
)
def test_a_damaged_folder_is_told_of(file, content, said, classifier, tmp_path):
    folder = shutil.copytree(classifier, tmp_path / "copy")
    damage(folder, file, content)
    with pytest.raises(ModelError) as raised:
        regard.runtime.load(folder)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_nothing_outside_the_folder_is_read(classifier, tmp_path):
    folder = shutil.copytree(classifier, tmp_path / "copy")
    shutil.move(folder / "words.json", tmp_path / "words.json")
    told = json.loads((folder / "export.json").read_text())
    told["source"]["file"] = "../words.json"
    (folder / "export.json").write_text(json.dumps(told))
    with pytest.raises(ModelError, match=r"copy/../words.json cannot be read: it leads out of the folder"):
        regard.runtime.load(folder)


@pytest.mark.parametrize("missing", ["onnxruntime", "sentencepiece"])
def test_a_package_that_is_missing_is_named(missing, classifier, tmp_path, monkeypatch):
    folder = shutil.copytree(classifier, tmp_path / "copy")
    told = json.loads((folder / "export.json").read_text())
    told["source"]["kind"] = "bpe" if missing == "sentencepiece" else "words"
    (folder / "export.json").write_text(json.dumps(told))
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ModelError, match=rf"need {missing}|need SentencePiece"):
        regard.runtime.load(folder)


@pytest.mark.slow
def test_the_wheel_runs_where_there_is_no_torch(classifier, tmp_path):
    """Built with pip, installed into an environment of its own: takes the network, or a mirror of PyPI."""
    pip = [sys.executable, "-m", "pip", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", str(PACKAGING), "-w", str(tmp_path)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    files = {name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith("regard_runtime-")}
    own = {f"regard/runtime/{path.name}" for path in SOURCE.glob("*.py")}
    assert files == own | {*(f"{name.replace('.', '/')}.py" for name in SHARED), "regard/runtime/py.typed"}
    place = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    subprocess.run([str(place / "bin" / "pip"), "install", "-q", str(wheel)], check=True)
    command = [str(place / "bin" / "regard-runtime"), str(classifier)]
    found = subprocess.run(command, input="le chat le\n", capture_output=True, text=True, check=True, env={})
    assert found.stdout == "0.7311\tarticles\n"
    listed = subprocess.run([str(place / "bin" / "pip"), "list"], capture_output=True, text=True, check=True).stdout
    assert "torch" not in listed
