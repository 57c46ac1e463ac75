"""What the outside may rely on: names that are pinned, documented and cheap to import."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import kagura_kernel

PACKAGE = Path(kagura_kernel.__file__).parent

# To take a name away is to break somebody's notebook; to add one is a promise. Change this list on purpose only.
PUBLIC = [
    "__version__",
    "load_ipython_extension",
    "open_memory",
    "recall",
    "redact",
    "scan_plugin",
    "session",
    "unload_ipython_extension",
]

# A kernel that never meets an agent pays for none of these.
HEAVY = (
    "IPython",
    "anywidget",
    "claude_agent_sdk",
    "docker",
    "genai_prices",
    "httpx",
    "ipywidgets",
    "keyring",
    "pandas",
    "pydantic",
    "sqlalchemy",
)


def test_the_public_names_are_these():
    assert sorted(kagura_kernel.__all__) == PUBLIC
    assert all(hasattr(kagura_kernel, name) for name in PUBLIC)


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, kagura_kernel; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(answer.stdout.split()) & set(HEAVY)


def undocumented(tree: ast.Module) -> list[str]:
    """Public classes, functions and methods without a docstring, and the module if it has none."""
    missing = [] if ast.get_docstring(tree) else ["the module"]
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    while waiting:
        prefix, node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            # In a conformance suite the name of a test is its sentence.
            if child.name.startswith(("_", "test_")):
                continue
            if not ast.get_docstring(child) and not is_told_elsewhere(child):
                missing.append(f"{prefix}{child.name}, line {child.lineno}")
            if isinstance(child, ast.ClassDef):
                waiting.append((f"{child.name}.", child))
    return missing


def is_told_elsewhere(node: ast.AST) -> bool:
    """A setter or an overload is told at its first definition; an override at what it overrides."""
    names = {ast.unparse(one).rpartition(".")[2] for one in getattr(node, "decorator_list", [])}
    return bool(names & {"overload", "override", "setter"})


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_public_name_says_what_one_can_rely_on(path):
    assert undocumented(ast.parse(path.read_text("utf-8"))) == []


def test_a_missing_docstring_is_found():
    code = '"""A module."""\nclass Box:\n    """A box."""\n    def run(self): ...\n    def _inner(self): ...\n'
    code += "def go(): ...\n"
    assert undocumented(ast.parse(code)) == ["go, line 6", "Box.run, line 4"]
