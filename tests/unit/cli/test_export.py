from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest

from kagura_kernel.cli.main import main


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    cells = [nbformat.v4.new_code_cell("Count the rows.")]
    metadata = {"kernelspec": {"name": "kagura", "display_name": "Kagura"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), tmp_path / "a.ipynb")
    return tmp_path / "a.ipynb"


def test_a_notebook_is_written_beside_itself_and_never_over_another_one(notebook, capsys):
    target = notebook.with_name("a-python.ipynb")
    assert main(["export", str(notebook)]) == 0
    assert capsys.readouterr().out == f"{target} was written.\n"
    assert [cell.source for cell in nbformat.read(target, 4).cells][-1] == "%%kagura\nCount the rows."
    assert main(["export", str(notebook)]) == 2
    assert capsys.readouterr().err.startswith("ERR_USAGE: ")
    assert main(["export", "--force", str(notebook)]) == 0


def test_what_was_written_is_told_to_programs_too(notebook, capsys):
    assert main(["export", "--json", str(notebook)]) == 0
    assert json.loads(capsys.readouterr().out) == {"written": str(notebook.with_name("a-python.ipynb"))}


def test_a_notebook_that_is_not_there_is_wrong_usage(tmp_path, capsys):
    assert main(["export", str(tmp_path / "b.ipynb"), "-o", str(tmp_path / "c.ipynb")]) == 2
    assert capsys.readouterr().err.startswith("ERR_USAGE: ")
