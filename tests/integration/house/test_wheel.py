"""What travels in the wheel: everything of the package, what Jupyter looks for, and nothing else of the repository."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest

import kagura_kernel

ROOT = Path(__file__).parents[3]
VERSION = kagura_kernel.__version__
INFO = f"kagura_kernel-{VERSION}.dist-info"
DATA = f"kagura_kernel-{VERSION}.data/data"
SIDEBAR = f"{DATA}/share/jupyter/labextensions/kagura-kernel"
PLACES = {
    "kagura_kernel": "kagura_kernel",
    "images": "kagura_kernel/sandbox/images/recipes",
    "plugins": "kagura_kernel/plugins/bundled",
    "kagura_kernel/jupyter/kernel/spec": f"{DATA}/share/jupyter/kernels/kagura",
}
"""Folders of the repository, and what they are in the wheel."""


STAYS = ("images/settings/pip.conf", "kagura_kernel/__pycache__/kept.pyc", "labextension/node_modules/kept/index.js")
"""What may lie in a clone, with somebody's passwords in the first, and never travels."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZipFile]:
    """Built from a copy of this repository, with the sidebar as it was built last."""
    clone, folder = tmp_path_factory.mktemp("clone"), tmp_path_factory.mktemp("wheel")
    for name in in_repository("."):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name)
    shutil.copytree(ROOT / "labextension/dist", clone / "labextension/dist")
    for name in STAYS:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).touch()
    # The hook would build the sidebar, with npm and the network.
    environ = os.environ | {"HATCH_BUILD_NO_HOOKS": "1"}
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=clone, env=environ, check=True, capture_output=True)
    with ZipFile(folder / f"kagura_kernel-{VERSION}-py3-none-any.whl") as opened:
        yield opened


@pytest.fixture(scope="module")
def metadata(wheel: ZipFile) -> Message:
    return message_from_bytes(wheel.read(f"{INFO}/METADATA"))


def in_repository(folder: str) -> set[str]:
    """Files that git knows or could know, without those that stay on the machine."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return {str(Path(name).relative_to(folder)) for name in listed.stdout.splitlines() if (ROOT / name).exists()}


def test_it_holds_the_package_what_jupyter_looks_for_and_nothing_else(wheel):
    expected = {f"{place}/{name}" for folder, place in PLACES.items() for name in in_repository(folder)}
    built = ROOT / "labextension/dist"
    expected |= {f"{SIDEBAR}/{path.relative_to(built)}" for path in built.rglob("*") if path.is_file()}
    expected |= {f"{DATA}/etc/jupyter/jupyter_server_config.d/kagura_kernel.json"}
    expected |= {f"{INFO}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")}
    expected |= {f"{INFO}/licenses/{name}" for name in ("LICENSE", "NOTICE")}
    expected -= {"kagura_kernel/sandbox/images/recipes/settings/.gitignore"}
    assert set(wheel.namelist()) == expected


def test_what_a_run_or_a_page_would_miss_is_in_it(wheel):
    assert set(wheel.namelist()) >= {
        "kagura_kernel/py.typed",
        "kagura_kernel/render/style.css",
        "kagura_kernel/sandbox/guest/main.py",
        "kagura_kernel/plugins/guest/__main__.py",
        "kagura_kernel/runs/box_runner/run.py",
        "kagura_kernel/sandbox/images/recipes/base.Dockerfile",
        "kagura_kernel/plugins/bundled/fetch/plugin.json",
        f"{SIDEBAR}/static/style.js",
    }


def test_an_index_is_told_all_that_it_shows(metadata):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert metadata["Name"] == project["name"]
    assert metadata["Version"] == VERSION
    assert metadata["Summary"] == project["description"]
    assert metadata["Author"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE", "NOTICE"]
    assert metadata["Requires-Python"] == project["requires-python"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert {line.split(",")[0] for line in metadata.get_all("Project-URL", [])} >= {"Documentation", "Source"}
    assert set(metadata.get_all("Provides-Extra", [])) == set(project["optional-dependencies"])


def test_the_page_of_an_index_links_to_nothing_that_only_a_clone_has(metadata):
    targets = re.findall(r"\]\(([^)]+)\)", str(metadata.get_payload()))
    assert len(targets) > 20
    assert [target for target in targets if not target.startswith(("https:", "#"))] == []


def test_it_brings_the_command(wheel):
    told = wheel.read(f"{INFO}/entry_points.txt").decode()
    assert told.splitlines() == ["[console_scripts]", "kagura-kernel = kagura_kernel.cli.main:main"]
