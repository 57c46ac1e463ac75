"""What this package is built on is never looked for among the files of a project."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import kagura_kernel
from kagura_kernel.domain.imports import GUARDED, LIBRARIES

PACKAGE = Path(kagura_kernel.__file__).parent
ROOT = PACKAGE.parent


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    """Names of the distributions that are installed with this one; those of developers are not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    requirements = project["dependencies"] + project["optional-dependencies"]["postgres"]
    return {plain(re.split(r"[\[<>=!~; ]", requirement)[0]) for requirement in requirements}


@pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="not a clone: the requirements are not at hand")
def test_every_declared_library_is_guarded():
    wanted = declared()
    modules: dict[str, set[str]] = {name: set() for name in wanted}
    for module, distributions in packages_distributions().items():
        for distribution in wanted & {plain(name) for name in distributions}:
            if module.isidentifier():
                modules[distribution].add(module)
    assert {name: sorted(found - LIBRARIES) for name, found in modules.items() if found - LIBRARIES} == {}
    assert modules["pandas"] == {"pandas"}


def test_every_library_that_product_code_names_is_guarded():
    found = set()
    for path in PACKAGE.rglob("*.py"):
        if "testing" in path.relative_to(PACKAGE).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.add((node.module or "").partition(".")[0])
    # `google` belongs to many publishers, a person's own project among them: it is guarded for our imports alone.
    # The loader under its other name is in every process from the start, and stubs are never imported. The box runner
    # and what calls plugins bear their names in boxes alone.
    elsewhere = {"kagura_kernel", "google", "_frozen_importlib_external", "kagura_box_runner", "kagura_host"}
    assert {name for name in found - GUARDED - elsewhere if not name.startswith("types_")} == set()
    assert {"pandas", "sqlalchemy"} <= found


def test_the_guard_stands_where_the_plain_finder_stood():
    names = [type(finder).__name__ if not isinstance(finder, type) else finder.__name__ for finder in sys.meta_path]
    assert names.count("OutsideProject") == 1
    assert "PathFinder" not in names
