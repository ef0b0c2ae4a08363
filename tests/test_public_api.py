"""The public surface is what is recorded in public_api.txt, and the changelog tells of what is recorded.

`python tests/test_public_api.py` records it anew and prints the mark that CHANGELOG.md is to have beside what changed.
"""

import ast
import hashlib
import importlib
import inspect
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import regard

ROOT = Path(__file__).parents[1]
RECORDED = Path(__file__).with_name("public_api.txt")
CHANGELOG = ROOT / "CHANGELOG.md"
MODULES = ("regard", "regard.attention", "regard.batch", "regard.runtime", "regard.viz")


def surface() -> str:
    """List every public name with its signature, fields, methods and properties."""
    lines = []
    for module in MODULES:
        found = importlib.import_module(module)
        for name in sorted(found.__all__):
            lines += described(f"{module}.{name}", getattr(found, name))
    return "".join(f"{line}\n" for line in lines)


def described(name: str, part: object) -> list[str]:
    if inspect.ismodule(part):
        return [f"{name}: module"]
    if inspect.isfunction(part):
        return [f"{name}{signature(parsed(part))}"]
    if not inspect.isclass(part):
        return [f"{name}: {type(part).__name__}"]
    node = parsed(part)
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    members = [line for member in node.body for line in of_class(member)]
    if not name.startswith("regard.attention."):  # what `load` and the like return is not made by hand
        members = [line for line in members if not line.startswith("__init__")]
    return [f"class {name}({bases})", *(f"    {line}" for line in members)]


def parsed(part: object) -> ast.ClassDef | ast.FunctionDef:
    """Read the source of a part: the same for every release of Python, which annotations as objects are not."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(part))).body
    return node


def of_class(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not node.target.id.startswith("_"):
        return [f"{node.target.id}: {ast.unparse(node.annotation)}{' = …' if node.value else ''}"]
    if not isinstance(node, ast.FunctionDef) or (node.name.startswith("_") and node.name != "__init__"):
        return []
    kinds = [ast.unparse(one) for one in node.decorator_list]
    if any(kind in ("property", "cached_property") for kind in kinds):
        return [f"{node.name}: {ast.unparse(node.returns)}  # property"]
    return [f"{''.join(f'@{kind} ' for kind in kinds)}{node.name}{signature(node)}"]


def signature(node: ast.FunctionDef) -> str:
    return f"({ast.unparse(node.args)}){f' -> {ast.unparse(node.returns)}' if node.returns else ''}"


def mark(listing: str) -> str:
    """Return what the changelog has to name, so that no change of the surface goes without one of the changelog."""
    return f"`public_api.txt` {hashlib.sha256(listing.encode()).hexdigest()[:8]}"


def test_the_public_surface_is_the_recorded_one():
    assert surface() == RECORDED.read_text(encoding="utf-8"), "see the first lines of tests/test_public_api.py"


def test_the_changelog_tells_of_the_recorded_surface():
    assert mark(RECORDED.read_text(encoding="utf-8")) in CHANGELOG.read_text(encoding="utf-8"), (
        "The public interface has changed: write into CHANGELOG.md what has, and the mark that "
        "`python tests/test_public_api.py` prints."
    )


def test_a_changed_signature_changes_the_listing_and_the_mark():
    def load(folder: str, device: str = "cpu") -> str: ...

    before = described("load", load)
    assert before == ["load(folder: str, device: str='cpu') -> str"]

    def load(folder: str, device: str = "auto") -> str: ...

    assert described("load", load) != before
    assert mark("a\n") != mark("b\n")


def test_every_public_name_has_a_docstring_and_is_typed():
    for module in MODULES:
        found = importlib.import_module(module)
        for name in found.__all__:
            part = getattr(found, name)
            if inspect.isclass(part) or inspect.isroutine(part):
                assert inspect.getdoc(part), name
            if inspect.isfunction(part):
                node = parsed(part)
                arguments = [*node.args.args, *node.args.kwonlyargs, *filter(None, [node.args.vararg])]
                assert node.returns is not None, name
                assert all(one.annotation is not None for one in arguments), name


def test_type_checkers_see_the_names_that_are_there():
    tree = ast.parse((Path(regard.__file__)).read_text(encoding="utf-8"))
    static = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            static |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    for name in regard.__all__:
        module, own = static[name]
        whole = module == "regard"  # what is public is the module
        wanted = importlib.import_module(f"{module}.{own}" if whole else module)
        assert getattr(regard, name) is (wanted if whole else getattr(wanted, own)), name
    assert set(regard.__all__) <= set(dir(regard))


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"^module 'regard' has no attribute 'tarin'$"):
        regard.tarin  # noqa: B018


def test_a_mechanism_can_be_used_with_public_names_alone():
    code = (
        "import torch, regard\n"
        "attention = regard.attention\n"
        "look = attention.build_attention(attention.AttentionConfig(score='additive'), query_width=5, state_width=7)\n"
        "memory = look.remember(torch.zeros(2, 3, 7), torch.ones(2, 3, dtype=torch.bool))\n"
        "print(tuple(look(torch.zeros(2, 1, 5), memory).context.shape), 'additive' in attention.scores)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (found.stdout, found.stderr) == ("(2, 1, 7) True\n", "")


if __name__ == "__main__":
    RECORDED.write_text(surface(), encoding="utf-8")
    print(f"Wrote {RECORDED}. Tell of what changed in CHANGELOG.md, with this mark: {mark(surface())}")
