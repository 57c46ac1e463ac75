"""A notebook of the kagura kernel and its plain Python export do the same."""

import re

import nbformat
import pytest

from kagura_kernel.jupyter.export import export_notebook
from tests.support.kernel import kernel_environ, run_cells
from tests.support.obedient import start_with_it

pytestmark = [pytest.mark.real_clock, pytest.mark.slow]

CELLS = [
    "What is {this} for $5?",
    "%%py\nx = 41\nx + 1",
    "%%py\n\nfor _ in range(2):\n    print('in Python')",
    "\\/etc/hosts: what is it?",
    "bash: test -d /workspace\nDone.",
    "%%kagura --new --write none\nGo on.",
    "%%sandbox bash\necho from the box",
    "/help runs",
    "/help kill\n/help runs",
    '/approve app-nobody "{this} or $5"',
    "!echo hello",
    "%%capture kept\nQuietly.",
    "%%py\nkept.show()",
    "%%time\n%%py\ny = 1",
    "",
]
# Of what is the same, only these differ between two runs.
VARIES = re.compile(
    r"(?:CPU times|Wall time): .*|run-\w+|[\d.]+ ?[mnµμ]?s\b|(?<=`)/|/help|%kagura ?(?:help)?|usage: .*|^  [/%].*$"
    # The export has one cell more, which loads the extension.
    r"|^~ sees .*$",
    re.MULTILINE,
)


def outputs(ran):
    return [VARIES.sub("·", one.text) for one in ran]


@pytest.fixture
def notebook(tmp_path):
    path = tmp_path / "work.ipynb"
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    kernel = {"name": "kagura", "display_name": "kagura", "language": "kagura"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path


def test_the_exported_notebook_gives_the_same_outputs(notebook, tmp_path, private_home):
    exported = nbformat.read(export_notebook(notebook), as_version=4)
    assert exported.metadata.kernelspec.name == "python3"
    sources = [cell.source for cell in exported.cells]
    ran = []
    for kernel, cells in (("kagura", CELLS), ("python3", sources)):
        environ = kernel_environ(private_home / kernel)
        start_with_it(environ)
        project = tmp_path / kernel
        project.mkdir()
        ran.append(run_cells(cells, environ=environ, cwd=project, kernel=kernel))
    mine, [loaded, *theirs] = ran
    assert not loaded.failed
    assert [one.failed for one in mine] == [source.startswith("/approve") for source in CELLS]
    assert "You said: What is {this} for $5?" in mine[0].text
    assert outputs(theirs) == outputs(mine)
