"""Laws of the source as a whole: imports point one way, nothing unpickles, what is heavy waits until it is needed."""

import ast
import functools
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import regard
from regard.task_table import TASKS

ROOT = Path(regard.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
ARCHITECTURE = Path(__file__).parents[1] / "docs" / "architecture.md"


def layers(page: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read the modules of the floor, and the layers above it from low to high, off the page that states them."""
    [block] = re.findall(r"<!-- layers -->\n```text\n(.*?)^```\n<!-- end of layers -->", page, re.MULTILINE | re.DOTALL)
    first, *rest = re.sub(r"\n +", " ", block).splitlines()
    name, *floor = first.split()
    assert name == "floor"
    return tuple(floor), tuple(line.split()[0] for line in rest)


PAGE = ARCHITECTURE.read_text(encoding="utf-8")
FLOOR, ORDER = layers(PAGE)
HEAVY = ("torch", "numpy", "matplotlib", "sacrebleu", "sentencepiece", "safetensors", "rich", "fastapi", "uvicorn")


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("regard", *(part for part in parts if part != "__init__")))


MODULES = {name_of(path) for path in FILES}


def imports(path: Path) -> set[str]:
    """Find every module of ours that a file imports, within functions too."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            assert node.module is not None
            # `from regard.models import build` imports a module, `from regard.errors import …` a part of one.
            within = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = within & MODULES
            found |= modules | ({node.module} if within - modules else set())
    return {name for name in found if name.split(".")[0] == "regard"}


def level(module: str) -> int:
    """Return a module's height: 0 for the floor."""
    package = module.split(".")[1]
    return 0 if package in FLOOR else 1 + ORDER.index(package)


def test_every_module_has_a_height():
    assert {name.split(".")[1] for name in MODULES if name != "regard"} == {*FLOOR, *ORDER}, f"see {ARCHITECTURE.name}"


def test_the_layers_are_read_off_the_page():
    page = "<!-- layers -->\n```text\nfloor a\n      b\nc  what c is\nd  what d is\n```\n<!-- end of layers -->\n"
    assert layers(page) == (("a", "b"), ("c", "d"))


def test_the_tree_on_the_page_has_every_folder_at_the_top_and_none_that_is_not_there():
    tree = PAGE.partition("## The tree")[2].partition("## Where do I add")[0]
    named, parents = set(), []
    for before, name in re.findall(r"^([│ ]*[├└]── )([\w-]+)/", tree, re.MULTILINE):
        depth = len(before) // 4
        parents[depth - 1 :] = [name]
        named.add("/".join(parents))
    assert {path for path in named if not (ROOT / path).is_dir()} == set()
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} <= named


def is_there(name: str, *places: Path) -> bool:
    """Say whether a file that is named in prose exists; a name alone is one that tasks' folders have."""
    if "/" not in name and any(ROOT.glob(f"tasks/*/{name}")):
        return True
    return any((place / name).is_file() for place in (ROOT, ROOT.parent, ROOT.parents[1], *places))


def test_the_files_that_the_page_names_are_there():
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE))
    assert {name for name in named if not is_there(name)} == set()
    assert len(named) > 20
    for name, where in re.findall(r"`([\w/]+\.py)`, (?:class )?`(\w+(?:\.\w+)*)(?<!\.py)`", PAGE):
        assert all(
            re.search(rf"(class|def) {part}\b", (ROOT / name).read_text(encoding="utf-8")) for part in where.split(".")
        )


def test_the_page_names_every_file_that_several_tasks_have():
    tasks = [path for path in (ROOT / "tasks").iterdir() if (path / "task.py").is_file()]
    assert {path.name for path in tasks} == {entry.name for entry in TASKS}
    count = Counter(file.name for task in tasks for file in task.glob("*.py"))
    common = {name for name, number in count.items() if number > 2 and name != "__init__.py"}
    assert {name for name in common if f"`{name}`" not in PAGE} == set()


def test_the_picture_of_the_layers_has_them_in_order():
    picture = (ARCHITECTURE.parent / "images" / "architecture.svg").read_text(encoding="utf-8")
    drawn = {
        name: int(y) for y, name in re.findall(r'<text x="\d+" y="(\d+)" [^>]*font-weight="600"[^>]*>([^<]+)<', picture)
    }
    shown = [name for name in ORDER if name != "__main__"]
    floor = {name for name in drawn if name not in shown}
    assert {name for name in shown if name not in drawn} == set()
    assert {part for name in floor for part in name.split(", ")} <= set(FLOOR)
    heights = [drawn[name] for name in shown]
    assert heights == sorted(heights, reverse=True)
    assert all(drawn[name] > max(heights) for name in floor)


TEXTS = [
    path
    for pattern in ("*.md", "*.toml", "Makefile", "docs/**/*.md", "recipes/**/*.*", "bench/**/*.*", "src/**/*.py")
    for path in ROOT.parents[1].glob(pattern)
    if path.suffix in (".md", ".py", ".toml", ".sh", ".yml", "") and path.is_file()
]
"""Where modules and files of the package are named in prose."""


EXAMPLES = {"src/regard/attention/score/gaussian.py"}
"""What CONTRIBUTING.md has the reader write."""


def dead_names(text: str, folder: Path) -> set[str]:
    """Find modules, and files of ours, that a text names and that are not there."""
    modules = {
        name
        for name in re.findall(r"(?<![\w./'\"-])regard\.([a-z]\w*(?:\.\w+)*)", text)
        if name.split(".")[0] in {*ORDER, *FLOOR} and not is_module(f"regard.{name}")
    }
    files = set(re.findall(r"`((?:src/regard/)?[a-z]\w*(?:/\w+)+\.(?:py|h|cpp))`", text))
    return modules | {name for name in files - EXAMPLES if not is_there(name, folder, ROOT / "tasks")}


def is_module(name: str) -> bool:
    """Say whether there is such a module, or such a name in one."""
    if name in MODULES:
        return True
    module, _, part = name.rpartition(".")
    while module and module not in MODULES:
        module, _, part = module.rpartition(".")
    if module == "regard":
        return False
    path = ROOT.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return bool(re.search(rf"\b{part}\b", file.read_text(encoding="utf-8")))


def test_no_text_names_a_module_or_a_file_that_is_not_there():
    found = {path.name: dead for path in TEXTS if (dead := dead_names(path.read_text(encoding="utf-8"), path.parent))}
    assert found == {}


def test_a_dead_name_would_be_noticed():
    gone = "`training/plain_loss.py`, `training/lost.py`, regard.training.plain_loss, regard.training.lost, "
    gone += "regard.masks.unmask"
    assert dead_names(gone, ROOT) == {"training/lost.py", "training.lost", "masks.unmask"}


def test_imports_point_one_way():
    names = {name_of(path): path for path in FILES}
    del names["regard"]  # `regard.load` reaches up, from within a function
    wrong = [
        (name, other)
        for name, path in names.items()
        for other in imports(path)
        if other != "regard" and level(other) > level(name)
    ]
    assert wrong == []


def test_packages_import_no_circles_within_themselves():
    """At import time: what stands within functions or under TYPE_CHECKING cannot go wrong."""
    graph = {name_of(path): top_level_imports(path) for path in FILES}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " → ".join((*above, name))
        if name not in done:
            for other in graph.get(name, ()):
                visit(other, (*above, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def top_level_imports(path: Path) -> set[str]:
    found = set()
    for node in parsed(path).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            within = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (within & MODULES) | ({node.module} if within - MODULES else set())
    return {name for name in found if name.startswith("regard.")}


def in_a_new_process(code: str) -> str:
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.parametrize(
    "code",
    [
        "import regard",
        "import regard.cli.main",
        "import regard.batch",
        "import regard.config_io, regard.presets, regard.cli.completion",
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(code):
    loaded = in_a_new_process(f"import sys; {code}; print(*(m for m in {HEAVY} if m in sys.modules))")
    assert loaded.split() == []


def test_importing_everything_touches_no_network():
    names = sorted(MODULES)
    in_a_new_process(
        "import importlib, socket\n"
        "def refuse(*_, **__): raise AssertionError('a socket was opened')\n"
        "socket.socket.connect = socket.socket.bind = socket.getaddrinfo = socket.create_connection = refuse\n"
        f"for name in {names}: importlib.import_module(name)"
    )


UNSAFE = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
UNSAFE_CALLS = {"torch.load", "torch.save", "eval", "exec", "yaml.load"}


def unpickles(node: ast.AST) -> bool:
    """Say whether a piece of code may run what a file says."""
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] in UNSAFE for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        of_torch = {alias.name for alias in node.names} if node.module == "torch" else set()
        return (node.module or "").split(".")[0] in UNSAFE or bool({"load", "save"} & of_torch)
    if not isinstance(node, ast.Call):
        return False
    pickled = [keyword.value for keyword in node.keywords if keyword.arg == "allow_pickle"]
    denied = all(isinstance(value, ast.Constant) and value.value is False for value in pickled)
    return not denied or ast.unparse(node.func) in UNSAFE_CALLS


def test_nothing_unpickles():
    assert [(name_of(p), node.lineno) for p in FILES for node in ast.walk(parsed(p)) if unpickles(node)] == []


@pytest.mark.parametrize(
    "code",
    [
        *("import pickle", "import os, dill.source", "from marshal import loads", "from torch import load as read"),
        *("torch.load(path)", "eval(text)", "numpy.load(path, allow_pickle=True)", "numpy.load(a, allow_pickle=b)"),
    ],
)
def test_what_would_unpickle_is_known(code):
    assert any(unpickles(node) for node in ast.walk(ast.parse(code)))
    assert not any(unpickles(node) for node in ast.walk(ast.parse("numpy.load(path, allow_pickle=False)")))


def undocumented(path: Path) -> list[str]:
    """Methods that only carry out what their class or base says need no docstring; functions and classes do."""
    tree = parsed(path)
    parts = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    missing = [node.name for node in parts if not node.name.startswith("_") and not ast.get_docstring(node)]
    return missing if ast.get_docstring(tree) else ["the module itself", *missing]


def test_all_that_is_public_has_a_docstring():
    assert {name_of(path): missing for path in FILES if (missing := undocumented(path))} == {}
