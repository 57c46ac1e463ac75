"""No import ring between modules, and none between the folders of any level; late and typing imports count."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

Graph = dict[str, set[str]]


def name_of(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def imports(root: Path, package: str) -> Graph:
    """Each module with those of ours that it imports anywhere in its text."""
    files = {name_of(path, root): path for path in (root / package).rglob("*.py")}
    return {module: {*_named(module, path, files)} - {module} for module, path in files.items()}


def _named(module: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            begin = ".".join([*above, *([node.module] if node.module else [])])
            # A name may be a module of the package that it is imported from.
            names = [full if (full := f"{begin}.{alias.name}") in known else begin for alias in node.names]
        else:
            continue
        yield from (name for name in names if name in known)


def at_level(graph: Graph, depth: int) -> Graph:
    """The same between what lies in one folder: modules and folders, so many names below the top."""
    found: Graph = defaultdict(set)
    for module, needed in graph.items():
        own = module.split(".")
        for one in needed:
            other = one.split(".")
            same = own[:depth] == other[:depth] and min(len(own), len(other)) > depth
            if same and own[depth] != other[depth]:
                found[".".join(own[: depth + 1])].add(".".join(other[: depth + 1]))
    return dict(found)


def ring(graph: Graph) -> list[str]:
    """One ring, from a module back to itself; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.fixture(scope="module")
def ours() -> Graph:
    return imports(ROOT, "kagura_kernel")


def test_no_module_imports_itself_by_way_of_others(ours):
    assert len(ours) > 300
    assert ring(ours) == []


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_no_folder_or_module_does_among_those_beside_it(ours, depth):
    assert ring(at_level(ours, depth)) == []


def test_rings_of_both_kinds_are_found(tmp_path):
    files = {
        "one/low.py": "from pack.two import high",
        "one/top.py": "",
        "two/high.py": "def late():\n    from pack.one.top import x",
        "a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pack.b",
        "b.py": "from . import a",
    }
    for name, text in files.items():
        path = tmp_path / "pack" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    graph = imports(tmp_path, "pack")
    assert {*ring(graph)} == {"pack.a", "pack.b"}
    del graph["pack.b"]
    assert ring(graph) == []
    assert {*ring(at_level(graph, 1))} == {"pack.one", "pack.two"}
