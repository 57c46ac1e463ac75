from pathlib import Path

import pytest

from kagura_kernel.membrane.project import ProjectFiles
from kagura_kernel.membrane.protection import Protection


def covered(root: Path, *paths: str, standing: tuple[str, ...] = (), subpaths: tuple[str, ...] = ()) -> list[str]:
    """Which of these paths are protected when all of them are changed at once in a project that holds `standing`."""
    for path in standing:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
    protection = Protection(ProjectFiles(root), dict.fromkeys(paths, ""), subpaths)
    return [path for path in paths if protection.covers(path)]


def test_ordinary_files_are_free(root: Path) -> None:
    assert covered(root, "a", "src/b.py", "bin/tool", "objects/x.json", "refs/y", "Head/index.tsx") == []


@pytest.mark.parametrize(
    "path", [".git/config", "docs/.git/HEAD", ".GIT/config", "a/git~1/config", "x/.envrc", ".hg/hgrc", ".svn/wc.db"]
)
def test_protected_names_are_covered(root: Path, path: str) -> None:
    assert covered(root, path) == [path]


def test_a_name_that_could_pose_as_several_lines_is_covered(root: Path) -> None:
    assert covered(root, "a\nb", "a\tb/c", "a\x1b[2Kb", "ok") == ["a\nb", "a\tb/c", "a\x1b[2Kb"]


def test_what_a_policy_names_is_covered_in_any_case(root: Path) -> None:
    assert covered(root, "Data/x", "data", "database", subpaths=("data",)) == ["Data/x", "data"]


@pytest.mark.parametrize("marker", ["pyvenv.cfg", "conda-meta/history"])
def test_an_environment_of_the_project_is_covered_as_a_whole(root: Path, marker: str) -> None:
    paths = ["tools/env/bin/bash", "tools/env/lib/x/y.py", "tools/env", "tools/other.py", "bin/ok"]
    assert covered(root, *paths, standing=(f"tools/env/{marker}",)) == paths[:3]


@pytest.mark.parametrize("marker", ["pyvenv.cfg", "PyVenv.cfg", "conda-meta/history"])
def test_an_environment_among_the_changes_is_covered_as_a_whole(root: Path, marker: str) -> None:
    paths = [f".venv/{marker}", ".venv/bin/python", ".venv/lib/x.pth", "main.py"]
    assert covered(root, *paths) == paths[:3]


def test_where_the_root_is_an_environment_the_projects_own_files_stay_free(root: Path) -> None:
    paths = ["pyvenv.cfg", "bin/bash", "Lib/site.py", "main.py", "src/lib/x.py"]
    assert covered(root, *paths, standing=("pyvenv.cfg",)) == paths[:3]


def test_a_link_of_the_project_to_an_environment_is_not_replaced(root: Path, tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    (root / ".venv").symlink_to(tmp_path / "env")
    assert covered(root, ".venv", ".venv/bin/bash", "main.py") == [".venv", ".venv/bin/bash"]


@pytest.mark.parametrize(
    ("standing", "changed"),
    [
        ((), ["repo/HEAD", "repo/config", "repo/refs/x", "repo/objects/y"]),
        (("repo/HEAD", "repo/config"), ["repo/refs/keep", "repo/other"]),
        (("repo/objects/keep", "repo/refs/keep"), ["repo/HEAD", "repo/hooks/post-checkout"]),
        (("repo/HEAD",), ["repo/commondir", "repo/config"]),
        ((), ["repo/head", "repo/Refs/x", "repo/config"]),
    ],
)
def test_a_repository_without_its_usual_name_is_covered(
    root: Path, standing: tuple[str, ...], changed: list[str]
) -> None:
    assert covered(root, *changed, "src/a.py", standing=standing) == changed


def test_a_directory_named_head_is_no_repository(root: Path) -> None:
    assert covered(root, "ui/Head/index.tsx", "ui/objects/a.ts") == []


def test_a_link_to_what_is_protected_or_out_of_the_project_is_refused(root: Path) -> None:
    (root / "mine").symlink_to("/mnt")
    (root / "d").mkdir()
    protection = Protection(ProjectFiles(root), {"d/up": "..", "D/Two": ".."})
    for path, target in (
        ("a", ".git/config"),
        ("a", "mine/x"),
        ("a", "mine"),
        ("a", "d/up/x"),
        ("a", "d/two/x"),
        ("a", "/etc"),
    ):
        assert protection.refuses_link(path, target), (path, target)
    assert not protection.refuses_link("a", "d/x")


def test_a_link_above_what_a_policy_names_is_refused(root: Path) -> None:
    protection = Protection(ProjectFiles(root), {"tools": "mine", "other": "mine"}, ("tools/hooks",))
    assert protection.refuses_link("tools", "mine")
    assert protection.refuses_link("Tools", "mine")
    assert not protection.refuses_link("other", "mine")
