"""The bars we steer by, measured on this tree. A compass, not a gate: nothing fails on them.

.venv/bin/python dev/compass.py
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "kagura_kernel"
TESTS = ROOT / "tests"

SMALL = 80
"""Lines below which most of a file is its head."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def python_files(folder: Path) -> list[Path]:
    """All Python files below a folder, by name."""
    return sorted(folder.rglob("*.py"))


def lines(path: Path) -> int:
    """Lines of a file, blank ones included."""
    return len(path.read_text("utf-8").splitlines())


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function and method, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node


def branches(function: Function) -> int:
    """How many places the function may turn at."""
    turning = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.match_case)
    return sum(isinstance(node, turning) for node in ast.walk(function))


def public_names(tree: ast.Module) -> Iterator[Documented]:
    """The module, its public classes and functions, and their public methods."""
    yield tree
    nodes: list[ast.AST] = [tree]
    while nodes:
        for child in ast.iter_child_nodes(nodes.pop()):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                if child.name.startswith("_"):
                    continue
                yield child
                if isinstance(child, ast.ClassDef):
                    nodes.append(child)


def unannotated(function: Function) -> bool:
    """Whether an argument or the result has no type."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    named += [extra for extra in (arguments.vararg, arguments.kwarg) if extra]
    missing = [a for a in named if a.annotation is None and a.arg not in ("self", "cls")]
    return bool(missing) or (function.returns is None and function.name != "__init__")


def broad(tree: ast.AST) -> int:
    """How often `except Exception` or wider stands in it."""
    return sum(
        isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")))
        for node in ast.walk(tree)
    )


def late_imports(tree: ast.AST) -> int:
    """How many imports stand inside its functions."""
    found = {node for one in functions(tree) for node in ast.walk(one) if isinstance(node, ast.Import | ast.ImportFrom)}
    return len(found)


def report() -> str:
    """The table."""
    files = python_files(PACKAGE)
    trees = {path: ast.parse(path.read_text("utf-8")) for path in files}
    lengths = {path: lines(path) for path in files if lines(path) > 1}
    every = [(path, function) for path, tree in trees.items() for function in functions(tree)]
    names = [node for tree in trees.values() for node in public_names(tree)]
    documented = sum(ast.get_docstring(node) is not None for node in names)
    typed = sum(not unannotated(function) for _, function in every)
    source, test = sum(lengths.values()), sum(map(lines, python_files(TESTS)))
    longest = max(lengths, key=lambda path: lengths[path])
    widest = max(every, key=lambda found: (found[1].end_lineno or 0) - found[1].lineno)
    fullest = max(every, key=lambda found: branches(found[1]))
    catches = sum(map(broad, trees.values()))
    small = sum(length < SMALL for length in lengths.values())
    late = sum(map(late_imports, trees.values()))

    def place(path: Path, function: Function) -> str:
        return f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"

    rows = [
        ("lines of the package", source, "≤ 95000", ""),
        ("modules", len(lengths), "≤ 400", f"{small} of them below 80 lines"),
        ("file length, longest", lengths[longest], "≤ 600", longest.relative_to(ROOT)),
        ("lines of the tests", test, "≤ 90000", ""),
        ("imports inside functions", late, "few", ""),
        ("function, longest", (widest[1].end_lineno or 0) - widest[1].lineno + 1, "≤ 60", place(*widest)),
        ("function, branches", branches(fullest[1]), "≤ 10", place(*fullest)),
        ("public docstrings", f"{100 * documented / len(names):.1f} %", "≥ 98 %", f"of {len(names)}"),
        ("annotated functions", f"{100 * typed / max(1, len(every)):.1f} %", "100 %", f"of {len(every)}"),
        ("broad except per 1,000 lines", f"{1000 * catches / source:.2f}", "≤ 0.5", f"{catches} of them"),
    ]
    return "\n".join(f"{what:30} {is_now!s:>8}   {bar:8} {where}" for what, is_now, bar, where in rows)


if __name__ == "__main__":
    print(report())
