"""What runs where the package is not, in boxes and jails or as a small process, has the standard library and itself."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kagura_kernel.plugins import frames, guest as plugins_guest, jailer, sdk
from kagura_kernel.runs import box_runner, boxed_tools
from kagura_kernel.sandbox import guest
from kagura_kernel.tools import bridge

ROOT = Path(guest.__file__).parents[3]


class Elsewhere(NamedTuple):
    """Files that go somewhere together."""

    paths: tuple[Path, ...]
    own: tuple[str, ...] = ()  # How they name each other
    late: tuple[str, ...] = ()  # What their functions may import, which the place has where it is needed
    version: tuple[int, int] = (3, 11)  # The oldest Python that reads them


def _folder(package: str | None) -> tuple[Path, ...]:
    return tuple(sorted(Path(package or "").parent.glob("*.py")))


OLD = (3, 8)
ELSEWHERE = {
    "the guest": Elsewhere(_folder(guest.__file__), own=("kagura_kernel.sandbox.guest",)),
    "jails": Elsewhere(
        (Path(frames.__file__), Path(jailer.__file__)),
        own=("kagura_kernel.plugins.frames", "kagura_kernel.plugins.jailer"),
    ),
    "what plugins import": Elsewhere(_folder(sdk.__file__), late=("psycopg",)),
    "what calls plugins": Elsewhere(_folder(plugins_guest.__file__), own=("kagura_host",)),
    "what runs programs": Elsewhere(
        _folder(box_runner.__file__),
        late=("pandas", "numpy", "pyarrow", "IPython", "traitlets", "kagura_box_runner"),
    ),
    "what installs tools": Elsewhere(_folder(boxed_tools.__file__), version=OLD),
    "what bridges toolsets": Elsewhere(_folder(bridge.__file__), own=("kagura_kernel.tools.bridge",), version=OLD),
}


def imported(path: Path, version: tuple[int, int] = (3, 11)) -> Iterator[tuple[str, bool]]:
    """What a file imports, and whether it does so at once; what stands beside it and is named so is left out."""
    tree = ast.parse(path.read_text("utf-8"), feature_version=version)
    at_once = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((name.name, id(node) in at_once) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from ((f"{node.module}.{name.name}", id(node) in at_once) for name in node.names)


@pytest.mark.parametrize(
    ("place", "path"), [(place, path) for place, those in ELSEWHERE.items() for path in those.paths]
)
def test_what_runs_elsewhere_imports_the_standard_library_and_itself(place, path):
    those = ELSEWHERE[place]
    at_hand = set(sys.stdlib_module_names)
    foreign = [
        name
        for name, at_once in imported(path, those.version)
        if name.partition(".")[0] not in at_hand.union(() if at_once else those.late)
        and not any(f"{name}.".startswith(f"{own}.") for own in those.own)
    ]
    assert foreign == []


def test_what_plugins_import_is_read_under_its_name_without_this_package(tmp_path):
    (tmp_path / "kagura_plugin").symlink_to(Path(sdk.__file__).parent)
    names = (f".{path.stem}" for path in ELSEWHERE["what plugins import"].paths if path.stem != "__init__")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport {', '.join(f'kagura_plugin{n}' for n in names)}"
    answer = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", code], capture_output=True, text=True, check=False)
    assert answer.stderr == ""


@pytest.mark.parametrize(
    "module", ["runtime.host_keeper", "sandbox.docker.reaper", "sandbox.supervisor.main", "tools.box_grep"]
)
def test_small_processes_start_without_any_package(module):
    # -S leaves out site-packages: an import of anything else would fail.
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import kagura_kernel.{module}"
    answer = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert answer.stderr == ""
