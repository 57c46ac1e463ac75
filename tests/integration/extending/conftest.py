import importlib
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from kagura_kernel.testing.installed import installed_package

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples" / "extending"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Callable[[str], ModuleType]]:
    """The package of the examples, installed; gives its modules by name."""
    project = tomllib.loads((EXAMPLES / "pyproject.toml").read_text("utf-8"))["project"]
    with installed_package(tmp_path / "site", project["entry-points"], EXAMPLES, name=project["name"]):
        yield importlib.import_module


@pytest.fixture
def project(project: Path) -> Path:
    (project / "poem.txt").write_text("one two three\nfour\n")
    return project
