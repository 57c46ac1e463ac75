"""Files that a box has put into the project are never imported by this package, whatever they are called."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kagura_kernel.domain.imports import LIBRARIES
from kagura_kernel.testing.kernel import Ran, kernel_environ, run_cells
from kagura_kernel.testing.model_script import Calls, ModelTurn, Says
from kagura_kernel.testing.model_server import ModelServer

pytestmark = [pytest.mark.timeout(300)]

# Libraries try these before they go on without them.
OPTIONAL = (
    *("brotli", "brotlicffi", "chardet", "defusedxml", "h2", "msvcrt", "orjson", "paramiko", "pyodbc", "simplejson"),
    *("_winapi", "socks", "socksio", "ujson", "uvloop", "win32api", "winreg", "zstandard", "evil"),
)
NAMES = sorted({*LIBRARIES, *sys.stdlib_module_names, *OPTIONAL})

PLANT = """\
%%sandbox python --write through
import pathlib
code = "open({told!r}, 'a').write(__name__ + '\\\\n')\\n"
for name in {names!r}.split():
    pathlib.Path(name + ".py").write_text(code)
claimed = pathlib.Path("evil-1.0.dist-info")
claimed.mkdir()
(claimed / "METADATA").write_text("Metadata-Version: 2.1\\nName: evil\\nVersion: 1.0\\n")
(claimed / "entry_points.txt").write_text("[pydantic]\\nevil = evil:x\\n[kagura_kernel.backends]\\nevil = evil:x\\n")
"""
AFTERWARDS = [
    "%kagura runs",
    "%kagura status",
    "%kagura changes last",
    "%%sandbox bash\necho new > made.txt; echo done",
    "%kagura apply last",
    "%%kagura --brain claude --box bubblewrap\nSay hello.",
    "print(_.status)",
    "%kagura cost",
    "%kagura approvals",
]
SCRIPT = [
    ModelTurn((Calls("bash", {"command": "ls | wc -l"}),)),
    ModelTurn((Calls("bash", {"command": "true", "host": True, "reason": "to see"}),)),
    ModelTurn((Says("**Hello**, `x`."),)),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    return project


def run(project: Path, tmp_path: Path, *cells: str) -> list[Ran]:
    with ModelServer(SCRIPT) as server:
        environ = kernel_environ(tmp_path / "home", ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="not-a-key")
        return run_cells(cells, environ=environ, cwd=project, timeout=200)


def test_nothing_that_a_box_writes_through_runs_in_the_kernel(project: Path, tmp_path: Path) -> None:
    told = tmp_path / "told"
    plant = PLANT.format(told=str(told), names=" ".join(NAMES))
    load, planted, *ran = run(project, tmp_path, "%load_ext kagura_kernel", plant, *AFTERWARDS)
    assert not load.failed
    assert not planted.failed, planted.text
    assert (project / "pandas.py").exists()
    assert (project / "evil-1.0.dist-info" / "entry_points.txt").exists()
    assert told.exists() is False, told.read_text()
    assert [one.text for one in ran if one.failed] == []
    assert (project / "made.txt").read_text() == "new\n"
    assert ran[6].text == "done\n"


def test_such_files_would_run_without_the_guard(project: Path, tmp_path: Path) -> None:
    """The proof that the test above can fail: the plain finder is put back before anything is planted."""
    told = tmp_path / "told"
    plant = PLANT.format(told=str(told), names=" ".join(NAMES))
    unguarded = (
        "import sys\nfrom importlib.machinery import PathFinder\n"
        "names = [type(finder).__name__ for finder in sys.meta_path]\n"
        "sys.meta_path[names.index('OutsideProject')] = PathFinder"
    )
    run(project, tmp_path, "%load_ext kagura_kernel", plant, unguarded, "%kagura runs")
    assert "pandas" in told.read_text().split()


def test_a_person_s_own_module_is_imported_beside_it_all(project: Path, tmp_path: Path) -> None:
    (project / "mymodule.py").write_text("value = 7\n")
    ran = run(project, tmp_path, "%load_ext kagura_kernel", "import mymodule; print(mymodule.value)")
    assert ran[1].text == "7\n"
