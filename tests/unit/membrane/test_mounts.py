from __future__ import annotations

from pathlib import Path

import pytest

from kagura_kernel.domain.errors import WorkspaceRefused, WorkspaceUnreadable
from kagura_kernel.membrane.mounts import check_project


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home" / "me"
    home.mkdir(parents=True)
    return home


@pytest.fixture
def state(home: Path) -> Path:
    return home / ".local" / "share" / "kagura-kernel"


def test_a_folder_below_home_is_a_project_and_comes_back_resolved(home: Path, state: Path) -> None:
    project = home / "work" / "sales"
    project.mkdir(parents=True)
    assert check_project(project / ".." / "sales", home=home, private=[state]) == project.resolve()


@pytest.mark.parametrize("place", ["/", "/home", "/tmp", "/etc", "/usr/lib", "/proc/self", "/dev"])
def test_a_place_of_the_system_is_never_a_project(place: str, home: Path) -> None:
    with pytest.raises(WorkspaceRefused, match="is not shown to a box"):
        check_project(Path(place), home=home, private=[])


def test_home_and_what_holds_it_are_never_projects(home: Path, state: Path) -> None:
    for place in (home, home.parent):
        with pytest.raises(WorkspaceRefused, match="home directory"):
            check_project(place, home=home, private=[state])


def test_a_project_neither_holds_nor_lies_in_a_private_directory(home: Path) -> None:
    project = home / "work"
    (project / "state").mkdir(parents=True)
    with pytest.raises(WorkspaceRefused, match="private directory"):
        check_project(project, home=home, private=[project / "state"])
    with pytest.raises(WorkspaceRefused, match="private directory"):
        check_project(project / "state", home=home, private=[project])


def test_a_link_is_refused_and_its_target_named(home: Path) -> None:
    (home / "real").mkdir()
    (home / "alias").symlink_to(home / "real")
    with pytest.raises(WorkspaceRefused, match="real"):
        check_project(home / "alias", home=home, private=[])


def test_what_is_missing_or_no_directory_says_so(home: Path) -> None:
    with pytest.raises(WorkspaceUnreadable, match="no such directory"):
        check_project(home / "gone", home=home, private=[])
    (home / "file").write_text("x")
    with pytest.raises(WorkspaceUnreadable, match="not a directory"):
        check_project(home / "file", home=home, private=[])
