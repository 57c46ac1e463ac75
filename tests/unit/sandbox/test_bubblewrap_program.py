"""Which program makes the walls."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox import bubblewrap
from kagura_kernel.sandbox.bubblewrap import _find_program

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
    monkeypatch.setattr(bubblewrap, "_SYSTEM_PROGRAMS", (str(tmp_path / "system"),))
    assert _find_program(None, project) == system


def test_otherwise_the_first_on_the_path_that_is_not_in_the_project(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bubblewrap, "_SYSTEM_PROGRAMS", ())
    elsewhere = program_in(tmp_path / "elsewhere")
    assert _find_program(None, project) == elsewhere
    # Without a workspace the working directory is taken for the project.
    assert _find_program(None, None) == elsewhere


def test_a_program_of_the_project_is_never_taken(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bubblewrap, "_SYSTEM_PROGRAMS", ())
    with pytest.raises(SandboxUnavailable, match="not installed"):
        _find_program(None, project)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "bwrap").symlink_to(project / ".venv" / "bin" / "bwrap")
    with pytest.raises(SandboxUnavailable, match="lies in the project"):
        _find_program(None, project)
    with pytest.raises(SandboxUnavailable, match="lies in the project"):
        _find_program(str(project / ".venv" / "bin" / "bwrap"), project)
