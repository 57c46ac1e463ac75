"""What runs inside boxes, or beside the kernel as a small process, has the standard library and nothing else."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from kagura_kernel.plugins import framing, guest as plugins_guest, jailer
from kagura_kernel.runs import box_runner, boxed_tools
from kagura_kernel.sandbox import guest
from kagura_kernel.tools import bridge

FOLDER = Path(guest.__file__).parent
ROOT = FOLDER.parents[2]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_the_guest_imports_only_the_standard_library_and_itself(path):
    foreign = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            foreign += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            foreign.append(node.module or "")
    own = ("kagura_kernel.sandbox.guest",)
    assert [
        name for name in foreign if name.partition(".")[0] not in sys.stdlib_module_names and not name.startswith(own)
    ] == []


JAILER = [Path(framing.__file__), Path(jailer.__file__)]


@pytest.mark.parametrize("path", sorted(JAILER), ids=lambda path: path.name)
def test_what_runs_in_a_jail_imports_only_the_standard_library_and_itself(path):
    own = ("kagura_kernel.plugins.framing", "kagura_kernel.plugins.jailer")
    foreign = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            foreign += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            foreign += [f"{node.module}.{name.name}" for name in node.names]
            assert node.level == 0
    assert [
        name for name in foreign if name.partition(".")[0] not in sys.stdlib_module_names and not name.startswith(own)
    ] == []


# What a program in a box loads when it needs none of these, and then only inside functions.
WHEN_NEEDED = {"pandas", "numpy", "pyarrow", "IPython", "traitlets"}


@pytest.mark.parametrize("path", sorted(Path(box_runner.__file__).parent.glob("*.py")), ids=lambda path: path.name)
def test_what_runs_beside_programs_in_a_box_needs_the_standard_library_and_itself(path):
    tree = ast.parse(path.read_text("utf-8"))
    at_the_top = {id(node) for node in tree.body}
    foreign = []
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        allowed = set(sys.stdlib_module_names) | (
            set() if id(node) in at_the_top else {*WHEN_NEEDED, "kagura_box_runner"}
        )
        foreign += [name for name in names if name.partition(".")[0] not in allowed]
    assert foreign == []


@pytest.mark.parametrize("path", sorted(Path(plugins_guest.__file__).parent.glob("*.py")), ids=lambda path: path.name)
def test_what_calls_plugins_from_a_box_needs_the_standard_library_and_itself(path):
    foreign = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            foreign += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            foreign.append(node.module or "")
    allowed = {*sys.stdlib_module_names, "kagura_host"}
    assert [name for name in foreign if name.partition(".")[0] not in allowed] == []


@pytest.mark.parametrize("path", sorted(Path(boxed_tools.__file__).parent.glob("*.py")), ids=lambda path: path.name)
def test_what_installs_tools_in_a_box_needs_the_standard_library_of_an_old_python(path):
    foreign = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"), feature_version=(3, 8))):
        if isinstance(node, ast.Import):
            foreign += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            foreign.append(node.module or "")
    assert [name for name in foreign if name.partition(".")[0] not in sys.stdlib_module_names] == []


@pytest.mark.parametrize("path", sorted(Path(bridge.__file__).parent.glob("*.py")), ids=lambda path: path.name)
def test_what_bridges_toolsets_in_a_box_needs_the_standard_library_of_an_old_python_and_itself(path):
    foreign = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"), feature_version=(3, 8))):
        if isinstance(node, ast.Import):
            foreign += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            foreign.append(node.module or "")
    own = "kagura_kernel.tools.bridge"
    assert [
        name for name in foreign if name.partition(".")[0] not in sys.stdlib_module_names and not name.startswith(own)
    ] == []


@pytest.mark.parametrize(
    "module", ["runtime.host_keeper", "sandbox.docker.reaper", "sandbox.supervisor.main", "tools.box_grep"]
)
def test_small_processes_start_without_any_package(module):
    # -S leaves out site-packages: an import of anything else would fail.
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import kagura_kernel.{module}"
    answer = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert answer.stderr == ""
