"""Every case runs in an interpreter of its own that stands in a project and imports as a kernel does."""

import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

# A kernel's path: the working directory behind the standard library and in front of the packages.
PRELUDE = """
import sys
packages = [index for index, entry in enumerate(sys.path) if entry.endswith(("site-packages", "dist-packages"))]
sys.path[:] = [entry for entry in sys.path if entry]
sys.path.insert(min(packages) - 1, "")
import kagura_kernel

def ours(name, code):
    module = type(sys)("kagura_kernel.example")
    exec(code, module.__dict__)
    return module.__dict__[name]
"""
PLANTED = "print('PLANTED', __name__)\n"


@pytest.fixture
def run(project: Path):
    def started(code: str, **more: str) -> str:
        answer = subprocess.run(
            [sys.executable, "-c", PRELUDE + code],
            cwd=project,
            env={"PATH": "/usr/bin:/bin", **more},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout.strip()

    return started


@pytest.mark.parametrize("name", ["genai_prices", "platformdirs", "difflib", "tomllib"])
def test_a_file_of_the_project_is_not_imported_in_place_of_a_library(project, run, name):
    (project / f"{name}.py").write_text(PLANTED)
    assert run(f"import {name}; print({name}.__name__)") == name


@pytest.mark.parametrize("variable", ["", ".", "{project}", "{link}"])
def test_nor_when_the_project_is_on_the_path_by_another_name(project, run, tmp_path, variable):
    (tmp_path / "link").symlink_to(project)
    (project / "difflib.py").write_text(PLANTED)
    entry = variable.format(project=project, link=tmp_path / "link")
    assert run(f"sys.path.insert(0, {entry!r}); import difflib; print(difflib.__name__)") == "difflib"


def test_a_library_that_is_not_installed_is_not_found_in_the_project(project, run):
    (project / "winreg.py").write_text(PLANTED)
    (project / "numexpr").mkdir()
    (project / "numexpr" / "__init__.py").write_text(PLANTED)
    code = "from importlib.util import find_spec; print(find_spec('winreg'))"
    assert run(code) == "None"
    assert "PLANTED" not in run("try:\n import numexpr\nexcept ImportError: pass")


def test_a_person_s_own_modules_are_imported_as_ever(project, run):
    (project / "mymodule.py").write_text("import mypackage.inner\nvalue = mypackage.inner.value\n")
    (project / "mypackage").mkdir()
    (project / "mypackage" / "inner.py").write_text("value = 7\n")
    assert run("import mymodule; print(mymodule.value)") == "7"
    assert run("import importlib; print(importlib.import_module('mymodule').value)") == "7"


def test_what_our_own_code_sets_off_never_ends_in_the_project_whatever_its_name(project, run):
    (project / "simplejson.py").write_text(PLANTED)
    (project / "helper.py").write_text(PLANTED)
    ask = "def ask(name):\n try:\n  return __import__(name)\n except ImportError:\n  return 'not found'"
    code = f"ask = ours('ask', {ask!r}); print(ask('helper'))"
    assert run(code) == "not found"
    # As a library would that was called by us; this one tries `simplejson` before `json`.
    assert "PLANTED" not in run("ours('ask', 'def ask():\\n import requests.compat')()")


def test_code_of_the_person_s_that_ours_calls_is_still_the_person_s(project, run):
    (project / "mymodule.py").write_text("value = 7\n")
    code = "def mine():\n import mymodule\n return mymodule.value\n"
    assert run(f"{code}print(ours('call', 'def call(back):\\n return back()')(mine))") == "7"


def test_so_is_a_module_of_the_project_that_ours_calls(project, run):
    (project / "mybox.py").write_text("def start():\n    import mydetails\n    return mydetails.value\n")
    (project / "mydetails.py").write_text("value = 7\n")
    assert run("import mybox\nprint(ours('call', 'def call(back):\\n return back()')(mybox.start))") == "7"


def test_but_not_a_library_of_an_environment_in_the_project(project, run):
    packages = project / ".venv/lib/python3/site-packages"
    packages.mkdir(parents=True)
    (packages / "library.py").write_text("try:\n import extra\nexcept ImportError:\n print('not found')\n")
    (project / "extra.py").write_text(PLANTED)
    code = f"sys.prefix = {str(project / '.venv')!r}\nsys.path.insert(0, sys.prefix + '/lib/python3/site-packages')\n"
    assert run(f"{code}ours('ask', 'def ask():\\n import library')()") == "not found"


@pytest.fixture
def library(project: Path) -> Path:
    """An environment of the interpreter, which is a place for installed packages."""
    packages = project / ".venv/lib/python3/site-packages"
    packages.mkdir(parents=True)
    return packages


INSTALLED = (
    "import os\nsys.prefix = os.getcwd() + '/.venv'\nsys.path.append(sys.prefix + '/lib/python3/site-packages')\n"
)


ASKS = [
    "import extra",
    "from extra import value",
    "import importlib\nimportlib.import_module('extra')",
    "__import__('extra')",
    "exec('import extra', {})",
    "exec('import extra')",
    "import importlib\nimportlib.import_module('.inner', 'extra')",
    "import pkgutil\npkgutil.resolve_name('extra:value')",
    "import runpy\nrunpy.run_module('extra')",
    "import importlib.metadata\nimportlib.metadata.EntryPoint('x', 'extra', 'y').load()",
    "import concurrent.futures as all\ndef work():\n import extra\nall.ThreadPoolExecutor().submit(work).result()",
    "import importlib.util\nif importlib.util.find_spec('extra'): import extra\nelse: raise ImportError",
    "import other.part",
]


@pytest.mark.parametrize("how", ["import {}", "import mymodule; mymodule.ask('{}')", "import late; late.ask('{}')", ""])
def test_an_installed_library_finds_no_module_in_the_project(project, run, library, how):
    (project / "extra").mkdir()
    (project / "extra" / "__init__.py").write_text(PLANTED)
    (project / "extra" / "inner.py").write_text(PLANTED)
    (project / "other").mkdir()
    (project / "other" / "part.py").write_text(PLANTED)
    (project / "mymodule.py").write_text("def ask(name):\n __import__(name)\n")
    (library / "late.py").write_text("def ask(name):\n __import__(name)\n")
    for number, asks in enumerate(ASKS):
        tried = textwrap.indent(asks, " ")
        text = f"try:\n{tried}\nexcept ImportError:\n print({number})\n"
        (library / f"library{number}.py").write_text(text)
    thread = "import threading, late; one = threading.Thread(target=late.ask, args=('{}',)); one.start(); one.join()"
    code = "\n".join((how or thread).format(f"library{number}") for number in range(len(ASKS)))
    assert run(INSTALLED + code).split() == [str(number) for number in range(len(ASKS))]


def test_what_is_installed_is_found_by_a_library_though_the_project_has_the_name_too(project, run, library):
    (project / "extra.py").write_text(PLANTED)
    (library / "extra.py").write_text("value = 'installed'\n")
    (library / "library.py").write_text("import extra\nprint(extra.value)\n")
    assert run(f"{INSTALLED}import library") == "installed"


def test_a_package_that_gathers_its_parts_along_the_path_gets_none_from_the_project(project, run, library):
    for root, part in ((project, "extra"), (library, "fine")):
        (root / "gathered").mkdir()
        (root / "gathered" / f"{part}.py").write_text(PLANTED if root is project else "")
        (root / "gathered" / "__init__.py").write_text(
            "import pkgutil\n__path__ = pkgutil.extend_path(__path__, __name__)\n"
        )
    (library / "library.py").write_text(
        "import gathered.fine\ntry:\n import gathered.extra\nexcept ImportError: print('not found')\n"
    )
    assert run(f"{INSTALLED}import library") == "not found"


@pytest.mark.usefixtures("library")
def test_nor_does_a_compiled_module_of_a_library(project, run):
    """A compiled module has no frame of its own: what loads it stands right above the person's code."""
    (project / "extra.py").write_text(PLANTED)
    code = (
        "from importlib.machinery import ExtensionFileLoader\n"
        "class Loads(ExtensionFileLoader):\n"
        "    def __init__(self): self.path = os.path.join(sys.prefix, 'lib/python3/site-packages/fast.so')\n"
        "source = 'def exec_module(self):\\n __import__(\"extra\")\\n'\n"
        "space = {'__name__': 'importlib._bootstrap_external'}\n"
        "exec(source, space)\n"
        "try:\n space['exec_module'](Loads())\nexcept ImportError: print('not found')"
    )
    assert run(INSTALLED + code) == "not found"


@pytest.mark.parametrize(
    "code",
    [
        "import mymodule",
        "import importlib; mymodule = importlib.import_module('mymodule')",
        "mymodule = __import__('mymodule')",
        "space = {}; exec('import mymodule', space); mymodule = space['mymodule']",
        "import mymodule, importlib; mymodule = importlib.reload(mymodule)",
        "import late; mymodule = late.call(lambda: __import__('mymodule'))",
        "def mine():\n import mymodule\n return mymodule\nimport late; mymodule = late.call(mine)",
        "import late, sys; late.again(__import__('mymodule')); import mymodule",
        "import other.part; mymodule = other.part.mymodule",
        "import types, runpy; mymodule = types.SimpleNamespace(**runpy.run_module('mymodule'))",
        "import concurrent.futures as all; mymodule = all.ThreadPoolExecutor().submit(__import__, 'mymodule').result()",
        "import asyncio, importlib; mymodule = asyncio.run(asyncio.to_thread(importlib.import_module, 'mymodule'))",
        "import pickle; mymodule = pickle.loads(b'cmymodule\\nKnown\\n.')",
        "import late; mymodule = late.unpickled(b'cmymodule\\nKnown\\n.')",
        "import late; mymodule = late.unpickled_slowly(b'cmymodule\\nKnown\\n.')",
        "from unittest import mock\nwith mock.patch('mymodule.value', 8): import mymodule\n",
        "sys.path.insert(0, os.getcwd() + '/code.zip'); import zipped; mymodule = zipped.mymodule",
        "sys.path.insert(0, os.getcwd() + '/../elsewhere'); import sibling; mymodule = sibling.later()",
        "sys.path.insert(0, os.getcwd() + '/../elsewhere'); import sibling, late; mymodule = late.call(sibling.later)",
    ],
)
def test_every_way_of_a_person_s_own_leads_to_the_project(project, run, library, code):
    (project / "mymodule.py").write_text("value = 7\nclass Known: value = 7\n")
    (project / "other").mkdir()
    (project / "other" / "part.py").write_text("import mymodule\n")
    with zipfile.ZipFile(project / "code.zip", "w") as packed:
        packed.writestr("zipped.py", "import mymodule\n")
    (project.parent / "elsewhere").mkdir()
    (project.parent / "elsewhere" / "sibling.py").write_text("def later():\n import mymodule\n return mymodule\n")
    (library / "late.py").write_text(
        "import pickle, io, importlib\n"
        "def call(back): return back()\n"
        "def again(module): importlib.reload(module)\n"
        "def unpickled(data): return pickle.loads(data)\n"
        "def unpickled_slowly(data): return pickle._Unpickler(io.BytesIO(data)).load()\n"
    )
    assert run(f"{INSTALLED}{code}\nprint(mymodule.value)") == "7"


def test_a_name_in_pickled_data_means_what_is_installed_first(project, run, library):
    (project / "extra.py").write_text(PLANTED)
    (library / "extra.py").write_text("class Known: value = 'installed'\n")
    assert run(f"{INSTALLED}import pickle; print(pickle.loads(b'cextra\\nKnown\\n.').value)") == "installed"


def test_a_namespace_package_gets_no_part_from_the_project(project, run, tmp_path):
    outside = tmp_path / "outside" / "several"
    outside.mkdir(parents=True)
    (outside / "fine.py").write_text("")
    (project / "several").mkdir()
    (project / "several" / "evil.py").write_text(PLANTED)
    code = (
        f"sys.path.append({str(outside.parent)!r})\n"
        "ask = ours('ask', 'def ask():\\n import several.fine\\n return several')\n"
        "several = ask(); sys.path.append('/nowhere')\n"
        "try:\n import several.evil\nexcept ImportError: print('not found')"
    )
    assert run(code) == "not found"


def test_nor_does_it_get_one_for_us_when_the_person_has_loaded_it_before(project, run, tmp_path):
    outside = tmp_path / "outside" / "several"
    outside.mkdir(parents=True)
    (outside / "part.py").write_text("value = 'the real one'\n")
    (project / "several").mkdir()
    (project / "several" / "part.py").write_text(PLANTED + "value = ''\n")
    (project / "several" / "other.py").write_text("value = 'their own'\n")
    code = (
        f"sys.path.append({str(outside.parent)!r})\n"
        "import several.other\n"
        "print(ours('ask', 'def ask():\\n import several.part\\n return several')().part.value, several.other.value)"
    )
    assert run(code) == "the real one their own"


def test_what_the_project_claims_to_have_installed_does_not_count_for_us(project, run):
    claimed = project / "evil-1.0.dist-info"
    claimed.mkdir()
    (claimed / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (claimed / "entry_points.txt").write_text("[kagura.test]\nevil = evil:make\n")
    found = "from importlib.metadata import entry_points\ndef found(): return list(entry_points(group='kagura.test'))"
    assert run(f"print(ours('found', {found!r})())") == "[]"
    # The person's own code is told what is there.
    assert "evil" in run("from importlib.metadata import entry_points; print(entry_points(group='kagura.test'))")


def test_an_environment_inside_of_the_project_serves_as_ever(project, run):
    code = f"""
sys.prefix = {str(project / ".venv")!r}
sys.path.insert(0, sys.prefix + "/lib/python3/site-packages")
import platformdirs; print(platformdirs.value)
"""
    packages = project / ".venv/lib/python3/site-packages"
    packages.mkdir(parents=True)
    (packages / "platformdirs.py").write_text("value = 'from the environment'\n")
    assert run(code) == "from the environment"


def test_a_directory_that_a_run_works_in_is_avoided_wherever_the_process_stands(run, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "difflib.py").write_text(PLANTED)
    code = f"""
sys.path.insert(0, {str(other)!r})
from kagura_kernel.domain.imports import distrust
distrust({str(other)!r})
import difflib; print(difflib.__name__)
"""
    assert run(code) == "difflib"


def test_a_directory_left_behind_is_still_avoided(project, run):
    (project / "difflib.py").write_text(PLANTED)
    code = f"sys.path.insert(0, {str(project)!r})\nimport os; os.chdir('/')\nimport difflib; print(difflib.__name__)"
    assert run(code) == "difflib"


def test_a_path_with_things_that_are_no_text_and_a_directory_that_is_gone_are_no_trouble(run):
    code = (
        "import os, pathlib; sys.path.insert(0, pathlib.Path('/x')); os.rmdir(os.getcwd())\n"
        "import difflib; print(difflib.__name__)"
    )
    assert run(code) == "difflib"


def test_loading_the_package_twice_leaves_one_guard(run):
    code = (
        "import importlib; importlib.reload(kagura_kernel)\n"
        "print(sum(type(finder).__name__ == 'OutsideProject' for finder in sys.meta_path))"
    )
    assert run(code) == "1"
