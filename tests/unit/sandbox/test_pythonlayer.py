"""What a layer over the kernel's Python is decided by; layers themselves are made in tests/integration."""

import os
from pathlib import Path

import pytest

from kagura_kernel.sandbox.supervisor import python_layer as pythonlayer
from kagura_kernel.sandbox.supervisor.python_layer import Survey, Surveys, begin_survey


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "open").chmod(0o755)
    for name, mode in (("open/read", 0o644), ("open/secret", 0o600), ("top", 0o640)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "closed" / "read").touch()
    return tmp_path


def end(*surveys: Survey | None) -> None:
    """Forget looks, and reap their processes as a keeper does."""
    for survey in surveys:
        assert survey is not None
        survey.close()
        os.waitpid(survey.pid, 0)


def test_a_look_finds_what_others_may_not_read(folder: Path) -> None:
    survey = begin_survey([str(folder)])
    try:
        found = survey.private()
        assert found is not None
        assert sorted(found[str(folder)]) == ["closed", "open/secret", "top"]
        assert survey.is_over()
        # Every box asks for itself.
        assert survey.private() == found
    finally:
        end(survey)


def test_a_look_that_fails_is_not_one_that_found_nothing(tmp_path: Path) -> None:
    survey = begin_survey([str(tmp_path / "gone")])
    try:
        assert survey.private() is None
    finally:
        end(survey)


def test_an_old_look_is_used_until_the_next_one_is_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    surveys = Surveys()
    surveys.begin([str(folder)])
    first = surveys.latest
    assert first is not None
    surveys.tend()
    assert (surveys.latest, surveys.coming) == (first, None)
    monkeypatch.setattr(pythonlayer, "_KEPT", -1.0)
    (folder / "open" / "read").chmod(0o600)
    surveys.tend()
    coming = surveys.coming
    assert surveys.latest is first
    assert isinstance(coming, Survey)
    assert coming.private() is not None
    monkeypatch.undo()
    surveys.tend()
    assert (surveys.latest, surveys.coming) == (coming, None)
    assert "open/read" in (coming.private() or {})[str(folder)]
    end(coming)
    os.waitpid(first.pid, 0)


def test_nothing_is_looked_through_where_there_is_nothing() -> None:
    surveys = Surveys()
    surveys.begin([])
    surveys.tend()
    assert (surveys.latest, surveys.coming) == (None, None)


def test_of_paths_in_one_another_the_outermost_are_hidden() -> None:
    found = pythonlayer._outermost(["etc/jupyter/a", "etc/jupyter", "etc/jupyter-2", "etc/jupyter/a/b", "pip.conf"])
    assert sorted(found) == ["etc/jupyter", "etc/jupyter-2", "pip.conf"]


def test_an_installer_needs_the_folders_of_packages_and_none_that_is_closed_or_a_link(tmp_path: Path) -> None:
    for name in ("bin", "lib/python3.11/site-packages/numpy", "share", "src"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "lib64").symlink_to("lib")
    (tmp_path / "etc").mkdir(mode=0o700)
    found = list(pythonlayer._targets(str(tmp_path)))
    assert found == ["bin", "lib", "share", "lib/python3.11", "lib/python3.11/site-packages"]
