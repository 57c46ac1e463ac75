"""Which programs make the walls, and map the users of a writable root."""

import sys
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox.bubblewrap import backend
from kagura_kernel.sandbox.bubblewrap.backend import find_bwrap, find_mapping

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bubblewrap is for Linux")


def program_in(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "bwrap"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One with a planted program, which PATH finds first in three ways."""
    project = tmp_path / "project"
    program_in(project / ".venv" / "bin")
    (tmp_path / "link").symlink_to(project / ".venv" / "bin")
    monkeypatch.setenv("PATH", f"{project}/.venv/bin:{tmp_path}/link:.venv/bin:{tmp_path}/elsewhere")
    monkeypatch.chdir(project)
    return project


def test_the_system_s_own_program_comes_first(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program_in(tmp_path / "elsewhere")
    system = program_in(tmp_path / "system")
    monkeypatch.setattr(backend, "_SYSTEM_PROGRAMS", (str(tmp_path / "system"),))
    assert find_bwrap(None, project) == system


def test_otherwise_the_first_on_the_path_that_is_not_in_the_project(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(backend, "_SYSTEM_PROGRAMS", ())
    elsewhere = program_in(tmp_path / "elsewhere")
    assert find_bwrap(None, project) == elsewhere
    # Without a workspace the working directory is taken for the project.
    assert find_bwrap(None, None) == elsewhere


def test_a_program_of_the_project_is_never_taken(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(backend, "_SYSTEM_PROGRAMS", ())
    with pytest.raises(SandboxUnavailable, match="not installed"):
        find_bwrap(None, project)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "bwrap").symlink_to(project / ".venv" / "bin" / "bwrap")
    with pytest.raises(SandboxUnavailable, match="lies in the project"):
        find_bwrap(None, project)
    with pytest.raises(SandboxUnavailable, match="lies in the project"):
        find_bwrap(str(project / ".venv" / "bin" / "bwrap"), project)


def test_without_the_programs_that_map_users_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "_SYSTEM_PROGRAMS", (str(tmp_path),))
    with pytest.raises(SandboxUnavailable, match="apt install uidmap"):
        find_mapping()


def test_a_user_without_a_range_is_told_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("newuidmap", "newgidmap"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(backend, "_SYSTEM_PROGRAMS", (str(tmp_path),))
    monkeypatch.setattr(backend, "mapping_commands", lambda *_: [])
    with pytest.raises(SandboxUnavailable, match="usermod --add-subuids"):
        find_mapping()
