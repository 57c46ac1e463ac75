"""Files that a box has put into the project are never imported by this package, whatever they are called."""

import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from kagura_kernel.domain.imports import LIBRARIES
from tests.support.kernel import Ran, kernel_environ, run_cells
from tests.support.model_script import Calls, ModelTurn, Says
from tests.support.model_server import ModelServer

pytestmark = [pytest.mark.timeout(300)]

# Libraries try these before they go on without them.
OPTIONAL = (
    *("astroid", "backports", "brotli", "brotlicffi", "chardet", "compression", "defusedxml", "h2", "msvcrt", "orjson"),
    *("_winapi", "paramiko", "pyodbc", "simplejson", "socks", "socksio", "ujson", "uvloop", "win32api", "winreg"),
    *("zstandard", "autoreload", "java", "org", "sitecustomize", "usercustomize", "evil"),
)
INSTALLED = {name for name in packages_distributions() if name.isidentifier()}
NAMES = sorted({*LIBRARIES, *sys.stdlib_module_names, *OPTIONAL, *INSTALLED})

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
ORDINARY = [
    "1/0",
    "def fails(value):\n    text = 'seven'\n    return text + value\nfails(7)",
    "!echo from a shell",
    "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2, 4]); plt.title('one')",
    "import requests\nrequests.get('http://127.0.0.1:1/')",
    "import pandas as pd\nframe = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']}); frame",
    "frame.describe()",
    "frame.to_csv('frame.csv'); frame.to_pickle('frame.pickle'); pd.read_pickle('frame.pickle').equals(frame)",
    "frame.to_html()[:6]",
    "import numpy as np; np.linspace(0, 1, 5) @ np.ones(5)",
    "import mymodule; print(mymodule.value)",
    "%load_ext autoreload\n%autoreload 2",
    "import pathlib; pathlib.Path('mymodule.py').write_text('value = 88\\n')",
    "print(mymodule.value)",
    "%load_ext myextension",
    "%run myscript.py",
    "%run -m myscript",
    "%timeit -n 1 -r 1 sum(range(10))",
    "%%bash\necho from bash",
    "%%writefile notes.txt\nsome notes",
    "from IPython.display import HTML, Markdown, display; display(Markdown('*x*'), HTML('<b>y</b>'))",
    "%who",
    "%pinfo fails",
    "get_ipython().complete('from my'); get_ipython().complete('import exec')",
    "import asyncio; await asyncio.sleep(0)",
    "import yaml, json, datetime, zoneinfo; yaml.safe_load('a: 1'), json.dumps({}), zoneinfo.ZoneInfo('UTC')",
    "from concurrent.futures import ThreadPoolExecutor; list(ThreadPoolExecutor().map(fails, []))",
    "import ipywidgets; ipywidgets.IntSlider()",
    "fails(8)",
    "import logging; logging.warning('told')",
    "from importlib.metadata import entry_points; len(list(entry_points())) > 0",
    "pd.read_excel('none.xlsx')",
]
"""What people do in any notebook, with and without success."""
MEANT = {0, 1, 4, 28, 31}
"""Those that fail whatever lies there."""
SCRIPT = [
    ModelTurn((Calls("bash", {"command": "ls | wc -l"}),)),
    ModelTurn((Calls("bash", {"command": "true", "host": True, "reason": "to see"}),)),
    ModelTurn((Says("**Hello**, `x`."),)),
]


def run(project: Path, tmp_path: Path, *cells: str) -> list[Ran]:
    with ModelServer(SCRIPT) as server:
        environ = kernel_environ(tmp_path / "home", ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="not-a-key")
        return run_cells(cells, environ=environ, cwd=project, timeout=200)


def test_nothing_that_a_box_writes_through_runs_in_the_kernel(project, tmp_path):
    told = tmp_path / "told"
    plant = PLANT.format(told=str(told), names=" ".join(NAMES))
    load, planted, applied, *ran = run(
        project, tmp_path, "%load_ext kagura_kernel", plant, "%kagura apply last", *AFTERWARDS
    )
    assert not load.failed
    assert not planted.failed, planted.text
    assert not applied.failed, applied.text
    assert (project / "pandas.py").exists()
    assert (project / "evil-1.0.dist-info" / "entry_points.txt").exists()
    assert told.exists() is False, told.read_text()
    assert [one.text for one in ran if one.failed] == []
    assert (project / "made.txt").read_text() == "new\n"
    assert ran[6].text == "done\n"


@pytest.mark.parametrize("kernel", ["python3", "kagura"])
def test_no_ordinary_cell_runs_a_file_that_has_the_name_of_a_library(project, tmp_path, kernel):
    told = tmp_path / "told"
    trip = f"open({str(told)!r}, 'a').write(__name__ + '\\n')\n"
    (project / "mymodule.py").write_text("value = 7\n")
    (project / "myextension.py").write_text("def load_ipython_extension(shell): print('loaded')\n")
    (project / "myscript.py").write_text("import mymodule\nprint('ran', mymodule.value)\n")
    plant = (
        f"import pathlib\nfor name in {' '.join(NAMES)!r}.split():\n    pathlib.Path(name + '.py').write_text({trip!r})"
    )
    environ = kernel_environ(tmp_path / "home")
    cells = [
        cell if cell.startswith("%%") or kernel == "python3" else f"%%py\n{cell}"
        for cell in ["%load_ext kagura_kernel", plant, *ORDINARY]
    ]
    ran = run_cells(cells, environ=environ, cwd=project, kernel=kernel)[1:]
    assert not ran[0].failed, ran[0].text
    assert told.exists() is False, told.read_text()
    assert {index for index, one in enumerate(ran[1:]) if one.failed} == MEANT, [one.text for one in ran]
    texts = [one.text for one in ran[1:]]
    assert "ZeroDivisionError" in texts[0]
    told_by = [texts[index].partition("\n")[0].strip() for index in (2, 10, 13, 14, 15, 16)]
    assert told_by == ["from a shell", "7", "88", "loaded", "ran 88", "ran 88"]


def test_such_files_would_run_without_the_guard(project, tmp_path):
    """The proof that the test above can fail: the plain finder is put back before anything is planted."""
    told = tmp_path / "told"
    plant = PLANT.format(told=str(told), names=" ".join(NAMES))
    unguarded = (
        "import sys\nfrom importlib.machinery import PathFinder\n"
        "names = [type(finder).__name__ for finder in sys.meta_path]\n"
        "sys.meta_path[names.index('OutsideProject')] = PathFinder"
    )
    run(project, tmp_path, "%load_ext kagura_kernel", plant, "%kagura apply last", unguarded, "%kagura runs")
    assert "pandas" in told.read_text().split()


def test_a_person_s_own_module_is_imported_beside_it_all(project, tmp_path):
    (project / "mymodule.py").write_text("value = 7\n")
    ran = run(project, tmp_path, "%load_ext kagura_kernel", "import mymodule; print(mymodule.value)")
    assert ran[1].text == "7\n"
