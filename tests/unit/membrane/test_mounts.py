from pathlib import Path

import pytest

from kagura_kernel.domain.errors import WorkspaceRefused, WorkspaceUnreadable
from kagura_kernel.membrane.project import check_project, make_project


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


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "a" * 300])
def test_a_name_that_no_folder_can_have_says_so(home: Path, name: str) -> None:
    with pytest.raises(WorkspaceUnreadable):
        check_project(home / name, home=home, private=[])
    with pytest.raises(WorkspaceUnreadable):
        make_project(Path(name), home=home, private=[])


@pytest.mark.parametrize("part", [".ssh", ".gnupg", ".aws", ".docker", ".config/gcloud", ".jupyter", ".kube"])
def test_what_holds_keys_in_a_home_is_never_a_project(home: Path, part: str) -> None:
    for place in (home / part, home / part / "below"):
        place.mkdir(parents=True)
        with pytest.raises(WorkspaceRefused, match="holds keys or settings"):
            check_project(place, home=home, private=[])


def test_what_is_only_named_like_that_is_a_project(home: Path) -> None:
    for part in (".dotfiles", ".config/editor", "work/.ssh", ".sshd"):
        project = home / part
        project.mkdir(parents=True)
        assert check_project(project, home=home, private=[]) == project.resolve()


def test_keys_that_lie_elsewhere_behind_a_link_are_no_project_either(home: Path, tmp_path: Path) -> None:
    (tmp_path / "vault" / "ssh").mkdir(parents=True)
    (home / ".ssh").symlink_to(tmp_path / "vault" / "ssh")
    with pytest.raises(WorkspaceRefused, match="holds keys"):
        check_project(tmp_path / "vault" / "ssh", home=home, private=[])


@pytest.mark.parametrize(
    "place", ["/run", "/run/user", "/var/run", "/var/lib/dpkg", "/var/lib/dpkg/info", "/sys", "/root"]
)
def test_where_sockets_and_the_state_of_daemons_lie_is_never_a_project(place: str, home: Path) -> None:
    if not Path(place).is_dir():
        pytest.skip(f"there is no {place} here")
    with pytest.raises(WorkspaceRefused):
        check_project(Path(place), home=home, private=[])


def test_a_way_over_links_ends_where_it_really_leads(home: Path, state: Path) -> None:
    state.mkdir(parents=True)
    (home / "work").symlink_to(state.parent)
    with pytest.raises(WorkspaceRefused, match="private directory"):
        check_project(home / "work" / state.name, home=home, private=[state])


@pytest.mark.parametrize("name", ["jupyter-runtime", "kagura-data"])
def test_a_runtime_directory_neither_is_nor_holds_nor_contains_a_project(home: Path, name: str) -> None:
    private = home / "files" / name
    (private / "below").mkdir(parents=True)
    for place in (private, private / "below", private.parent):
        with pytest.raises(WorkspaceRefused, match="private directory"):
            check_project(place, home=home, private=[private])
