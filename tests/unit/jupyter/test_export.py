import json
import stat

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.jupyter.export import LOAD, export_notebook

KAGURA = {"kernelspec": {"name": "kagura", "display_name": "kagura", "language": "kagura"}, "mine": {"kept": 1}}


@pytest.fixture
def written(tmp_path):
    def write(*cells, metadata=KAGURA):
        path = tmp_path / "work.ipynb"
        nbformat.write(new_notebook(cells=list(cells), metadata=metadata), path)
        return path

    return write


def sources(path):
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


def test_every_code_cell_becomes_its_equal_below_one_that_loads_the_extension(written):
    path = written(new_code_cell("Go."), new_code_cell("%%py\nx = 1"), new_code_cell("/runs"), new_code_cell("!ls"))
    out = export_notebook(path)
    assert out == path.with_name("work-python.ipynb")
    assert sources(out) == [LOAD, "%%kagura\nGo.", "x = 1", "%kagura runs", "!ls"]
    nbformat.validate(nbformat.read(out, as_version=4))


def test_outputs_ids_counts_and_metadata_stay(written):
    cell = new_code_cell("Go.", execution_count=7, metadata={"tags": ["nbval-skip"]})
    cell.outputs = [new_output("stream", text="Done.\n")]
    markdown, raw = new_markdown_cell("/runs"), new_raw_cell("%%py")
    out = nbformat.read(export_notebook(written(cell, markdown, raw)), as_version=4)
    _, exported, same, also = out.cells
    assert exported == cell | {"source": "%%kagura\nGo."}
    assert (same, also) == (markdown, raw)
    assert out.metadata["mine"] == {"kept": 1}
    assert out.metadata["kernelspec"]["name"] == out.metadata["language_info"]["name"] + "3" == "python3"


def test_a_cell_that_the_kernel_refuses_does_nothing_in_python_either(written):
    [_, cell] = sources(export_notebook(written(new_code_cell("!rm it\nAnd tell me."))))
    assert all(line.startswith("#") for line in cell.split("\n"))
    assert "# !rm it\n# And tell me." in cell


def test_nothing_is_overwritten_unless_it_is_allowed(written, tmp_path):
    path, out = written(new_code_cell("Go.")), tmp_path / "out.ipynb"
    out.write_text("mine")
    with pytest.raises(UsageError, match="there already"):
        export_notebook(path, out)
    assert out.read_text() == "mine"
    assert export_notebook(path, out, force=True) == out
    assert sources(out)[0] == LOAD
    with pytest.raises(UsageError, match="replace the notebook itself"):
        export_notebook(path, path, force=True)
    assert sources(path) == ["Go."]


def test_a_folder_takes_the_export_and_a_missing_one_is_told(written, tmp_path):
    (tmp_path / "out").mkdir()
    path = written(new_code_cell("Go."))
    assert export_notebook(path, tmp_path / "out") == tmp_path / "out" / "work-python.ipynb"
    with pytest.raises(UsageError, match="no folder"):
        export_notebook(path, tmp_path / "nowhere" / "out.ipynb")


def test_the_export_has_the_rights_of_a_new_file_and_leaves_nothing_beside_it(written, tmp_path):
    out = export_notebook(written(new_code_cell("Go.")))
    (tmp_path / "new").touch()
    assert stat.S_IMODE(out.stat().st_mode) == stat.S_IMODE((tmp_path / "new").stat().st_mode)
    assert {path.name for path in tmp_path.iterdir()} == {"work.ipynb", "work-python.ipynb", "new"}


@pytest.mark.parametrize(
    "text",
    ["", "words", "[]", "{}", '{"nbformat": 4}', '{"nbformat": 99, "nbformat_minor": 0, "cells": [], "metadata": {}}'],
)
def test_what_is_no_notebook_is_told_in_one_sentence(tmp_path, text):
    path = tmp_path / "work.ipynb"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"work\.ipynb is no Jupyter notebook\.$"):
        export_notebook(path)


def test_a_notebook_that_is_not_there_or_belongs_to_another_kernel_is_told(written, tmp_path):
    with pytest.raises(UsageError, match="There is no notebook"):
        export_notebook(tmp_path / "nothing.ipynb")
    python = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    with pytest.raises(UsageError, match="belongs to the kernel 'python3'"):
        export_notebook(written(new_code_cell("x"), metadata=python))
    with pytest.raises(UsageError, match="does not say which kernel"):
        export_notebook(written(new_code_cell("x"), metadata={}))


def test_a_notebook_of_an_older_format_gets_ids(tmp_path):
    cell = {"cell_type": "code", "source": "Go.", "metadata": {}, "outputs": [], "execution_count": None}
    old = {"nbformat": 4, "nbformat_minor": 2, "metadata": KAGURA, "cells": [cell, cell]}
    path = tmp_path / "old.ipynb"
    path.write_text(json.dumps(old))
    found = json.loads(export_notebook(path).read_text())
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in found["cells"]}) == 3
