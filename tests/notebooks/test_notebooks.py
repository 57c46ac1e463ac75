"""Every notebook passes nbval with the outputs that are committed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
ALL = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    """The notebooks and their folders, in a place of their own."""
    ignored = shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__")
    return Path(shutil.copytree(NOTEBOOKS, tmp_path / "notebooks", ignore=ignored))


def nbval(notebook: Path) -> subprocess.CompletedProcess[str]:
    """Run a notebook and compare every output."""
    kernel = nbformat.read(notebook, as_version=4).metadata["kernelspec"]["name"]
    options = ["--nbval-kernel-name", kernel, "--nbval-cell-timeout", "120"]
    quiet = ["-q", "--color=no", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(notebook.parent)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--nbval", *options, *quiet, "-c", "/dev/null", str(notebook)],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=notebook.parent,
        # Which box there is differs between machines, and a card says so.
        env=os.environ | {"KAGURA_BOX": "bubblewrap"},
        check=False,
    )


@pytest.mark.parametrize("name", ALL)
def test_a_notebook_gives_the_outputs_that_are_committed(copies, name):
    result = nbval(copies / name)
    assert result.returncode == 0, result.stdout[-6000:]


@pytest.mark.parametrize("name", ALL)
def test_a_notebook_is_committed_with_the_outputs_of_every_cell_it_has_run(name):
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    assert any(cell.outputs for cell in code)


def test_an_output_that_is_not_true_any_more_is_found(copies):
    path = copies / "quickstart.ipynb"
    notebook = nbformat.read(path, as_version=4)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    card = next(output for output in outputs if "text/plain" in output.get("data", {}))
    card.data["text/plain"] = card.data["text/plain"].replace("sales.csv", "costs.csv")
    nbformat.write(notebook, path)
    result = nbval(path)
    assert result.returncode == 1
    assert "mismatch 'text/plain'" in result.stdout
