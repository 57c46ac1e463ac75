"""What a real git says of itself in a project."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.membrane.collect import CALLED
from kagura_kernel.membrane.project import ProjectFiles
from kagura_kernel.membrane.protection import Protection
from kagura_kernel.runs.git_places import UNCLEAR, GitPlaces, more_than_git
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.testing.cockpit import fake_cockpit

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    project = tmp_path / "shop"
    subprocess.run(["git", "init", "--quiet", str(project)], check=True)
    return project


def git(project: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=project, check=True, capture_output=True)


async def test_a_fresh_repository_runs_git_alone(repository: Path) -> None:
    assert await more_than_git(repository) == ""


async def test_hooks_are_found_where_git_looks_for_them(repository: Path) -> None:
    (repository / ".husky").mkdir()
    git(repository, "config", "core.hooksPath", ".husky")
    assert await more_than_git(repository) != ""
    git(repository, "config", "--unset", "core.hooksPath")
    assert await more_than_git(repository) == ""
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-commit").write_text("#!/bin/sh\n")
    assert await more_than_git(repository) == "the repository has hooks"


async def test_settings_that_the_project_brings_along_are_found(repository: Path) -> None:
    (repository / ".gitconfig").write_text("[user]\n\tname = Ann\n")
    git(repository, "config", "include.path", "../.gitconfig")
    assert await more_than_git(repository) == "the project's own files hold settings of git"


async def test_hooks_of_a_worktree_are_those_of_its_repository(repository: Path, tmp_path: Path) -> None:
    git(repository, "-c", "user.name=Ann", "-c", "user.email=a@b.c", "commit", "--allow-empty", "-q", "-m", "one")
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert await more_than_git(tmp_path / "tree") == ""
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-push").write_text("#!/bin/sh\n")
    assert await more_than_git(tmp_path / "tree") == "the repository has hooks"


async def test_a_folder_of_a_repository_is_judged_as_the_repository_is(repository: Path) -> None:
    part = repository / "part"
    part.mkdir()
    assert await more_than_git(part) == ""
    (part / "settings").write_text("[user]\n\tname = Ann\n")
    git(repository, "config", "remote.origin.url", "part/shared.git")
    assert "names a repository" in await more_than_git(part)
    git(repository, "config", "--unset", "remote.origin.url")
    git(repository, "config", "include.path", "../part/settings")
    assert await more_than_git(part) == "the project's own files hold settings of git"


async def test_where_git_says_nothing_it_is_unclear(tmp_path: Path) -> None:
    assert await more_than_git(tmp_path) == UNCLEAR


@pytest.mark.parametrize(
    ("setting", "value", "held"),
    [
        ("core.hooksPath", ".husky", ".husky"),
        ("core.hooksPath", ".husky/_", ".husky"),
        ("core.hooksPath", "{project}/tools/hooks", "tools/hooks"),
        ("include.path", "../.gitconfig", ".gitconfig"),
        ("includeIf.onbranch:never.path", "../more/settings", "more/settings"),
        ("core.attributesFile", "attributes", "attributes"),
        ("init.templateDir", "{project}/template", "template"),
        ("core.fsmonitor", ".fsmonitor.sh", ".fsmonitor.sh"),
        ("core.fsmonitor", "tools/not-there-yet", "tools/not-there-yet"),
        ("filter.clear.clean", "python3 tools/clean.py %f", "tools/clean.py"),
        ("diff.image.textconv", "./tools/text.sh", "tools/text.sh"),
        ("diff.image.command", "tools/text.sh --diff", "tools/text.sh"),
        ("merge.mine.driver", "sh -c 'tools/text.sh %A %O %B'", "tools/text.sh"),
        ("alias.go", "!sh -c tools/text.sh", "tools/text.sh"),
        ("core.editor", "{link}/text.sh", "tools/text.sh"),
        ("core.sshCommand", "tools/text.sh", "tools/text.sh"),
        ("hook.mine.command", "sh go.sh", "go.sh"),
    ],
)
def test_what_git_would_run_or_read_of_the_project_is_told(
    repository: Path, tmp_path: Path, setting: str, value: str, held: str
) -> None:
    (repository / "tools").mkdir()
    (tmp_path / "link").symlink_to(repository / "tools")
    for name in (".fsmonitor.sh", "tools/clean.py", "tools/text.sh", "go.sh"):
        (repository / name).write_text("#!/bin/sh\n")
    git(repository, "config", setting, value.format(project=repository, link=tmp_path / "link"))
    assert GitPlaces(repository, {"HOME": str(tmp_path)}).held == (held,)


def test_an_included_file_and_what_it_names_are_told(repository: Path, tmp_path: Path) -> None:
    (repository / "tools").mkdir()
    (repository / "tools" / "watch").write_text("#!/bin/sh\n")
    (repository / ".gitconfig").write_text("[core]\n\tfsmonitor = tools/watch\n[include]\n\tpath = other\n")
    git(repository, "config", "include.path", "../.gitconfig")
    assert GitPlaces(repository, {"HOME": str(tmp_path)}).held == (".gitconfig", "other", "tools/watch")


def test_a_hook_that_is_a_link_into_the_project_leads_to_its_file(repository: Path, tmp_path: Path) -> None:
    (repository / "check.sh").write_text("#!/bin/sh\n")
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-commit").symlink_to("../../check.sh")
    assert GitPlaces(repository, {"HOME": str(tmp_path)}).held == ("check.sh",)


def test_what_a_hook_calls_in_the_project_is_told(repository: Path, tmp_path: Path) -> None:
    (repository / "scripts").mkdir()
    for name in ("scripts/before.sh", "scripts/lint", "README.md"):
        (repository / name).write_text("#!/bin/sh\n")
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-commit").write_text(
        '#!/bin/sh\n. ./scripts/before.sh\nfind . -name README.md\nexec python -mpre_commit "$@" && scripts/lint\n'
    )
    module = ("pre_commit", "pre_commit.pm", "pre_commit.py")
    assert GitPlaces(repository, {"HOME": str(tmp_path)}).held == (*module, "scripts/before.sh", "scripts/lint")


def test_a_module_that_a_filter_starts_is_told(repository: Path, tmp_path: Path) -> None:
    git(repository, "config", "filter.strip.clean", "/usr/bin/python3 -Im nbstripout %f")
    found = GitPlaces(repository, {"HOME": str(tmp_path)}).held
    assert found == ("nbstripout", "nbstripout.pm", "nbstripout.py")


def test_repositories_in_hidden_and_deep_folders_count(repository: Path, tmp_path: Path) -> None:
    for inner in (".worktrees/one", "a/b/c"):
        subprocess.run(["git", "init", "--quiet", str(repository / inner)], check=True)
        git(repository / inner, "config", "core.hooksPath", "hooks")
    assert GitPlaces(repository, {"HOME": str(tmp_path)}).held == (".worktrees/one/hooks", "a/b/c/hooks")


def test_the_person_s_own_settings_may_lie_in_the_project_too(repository: Path, tmp_path: Path) -> None:
    (repository / "dotfiles").mkdir()
    (repository / "dotfiles" / "gitconfig").write_text("[init]\n\ttemplateDir = ~/shop/template\n")
    (tmp_path / ".gitconfig").symlink_to(repository / "dotfiles" / "gitconfig")
    assert GitPlaces(repository, {"HOME": str(tmp_path)}).held == ("dotfiles/gitconfig", "template")


def test_a_repository_around_the_project_and_one_inside_count(repository: Path, tmp_path: Path) -> None:
    project = repository / "part"
    subprocess.run(["git", "init", "--quiet", str(project / "libs" / "inner")], check=True)
    subprocess.run(
        ["git", "init", "--quiet", f"--separate-git-dir={project / 'kept'}", str(project / "two")], check=True
    )
    git(repository, "config", "core.hooksPath", "part/hooks")
    git(project / "libs" / "inner", "config", "core.hooksPath", ".husky")
    assert GitPlaces(project, {"HOME": str(tmp_path)}).held == ("hooks", "kept", "libs/inner/.husky")


def test_settings_that_lie_in_a_project_below_its_repository_are_told(repository: Path, tmp_path: Path) -> None:
    project = repository / "a" / "part"
    project.mkdir(parents=True)
    (project / "inc").write_text("[core]\n\tfsmonitor = a/part/watch\n[include]\n\tpath = more\n")
    git(repository, "config", "include.path", "../a/part/inc")
    assert GitPlaces(project, {"HOME": str(tmp_path)}).held == ("inc", "more", "watch")


def test_an_ordinary_repository_and_none_at_all_hold_nothing_more(repository: Path, tmp_path: Path) -> None:
    for name in ("Ann", "main", "origin", "tools", "vim"):
        (repository / name).write_text("")
    git(repository, "remote", "add", "origin", "https://example.com/ann/shop.git")
    git(repository, "config", "user.name", "Ann")
    git(repository, "config", "branch.main.remote", "origin")
    git(repository, "config", "branch.main.merge", "refs/heads/main")
    git(repository, "config", "core.worktree", "..")
    git(repository, "config", "filter.lfs.clean", "git-lfs clean -- %f")
    git(repository, "config", "alias.lg", "log --oneline")
    assert GitPlaces(repository, {"HOME": str(tmp_path)}).held == ()
    (tmp_path / "plain").mkdir()
    assert GitPlaces(tmp_path / "plain", {"HOME": str(tmp_path)}).held == ()


def hook(repository: Path, lines: str) -> None:
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-commit").write_text(f"#!/bin/sh\n{lines}\n")


def put(repository: Path, path: str, text: str = "") -> None:
    (repository / path).parent.mkdir(parents=True, exist_ok=True)
    (repository / path).write_text(text)


def test_what_an_alias_or_a_filter_leads_to_may_be_run(repository: Path, tmp_path: Path) -> None:
    put(repository, "tools/clean.py", "import stripping\n")
    git(repository, "config", "alias.lint", "!cd sub && ./lint")
    git(repository, "config", "filter.strip.clean", "python3 tools/clean.py %f")
    found = GitPlaces(repository, {"HOME": str(tmp_path)})
    assert [found.may_run(path) for path in ("sub/lint", "tools/stripping.py", "a/b.py")] == [True, True, False]


def test_a_hook_of_the_repository_around_the_project_names_its_files_from_the_top(
    repository: Path, tmp_path: Path
) -> None:
    put(repository, "part/tools/check.sh", "./more.sh")
    hook(repository, "part/tools/check.sh && cd part && ./last")
    found = GitPlaces(repository / "part", {"HOME": str(tmp_path)})
    assert [found.may_run(path) for path in ("tools/check.sh", "tools/more.sh", "last")] == [True] * 3


def test_hooks_that_husky_runs_are_read_beside_its_own(repository: Path, tmp_path: Path) -> None:
    put(repository, ".husky/_/pre-commit", '. "$(dirname "$0")/h"\n')
    put(repository, ".husky/pre-commit", "cd web; ./check\n")
    git(repository, "config", "core.hooksPath", ".husky/_")
    assert GitPlaces(repository, {"HOME": str(tmp_path)}).may_run("web/check")


def test_what_a_repository_at_any_depth_holds_stays_as_it_is(repository: Path, tmp_path: Path) -> None:
    deep = "/".join("abcdefghij")
    for number in range(3):
        put(repository, f"{deep}/tools/{number}/x")
    subprocess.run(["git", "init", "--quiet", str(repository / deep)], check=True)
    git(repository / deep, "config", "core.hooksPath", "nh")
    git(repository / deep, "config", "core.fsmonitor", "./fsm")
    hook(repository / deep, "")
    put(repository, f"{deep}/nh/pre-commit", "cd sub && ./lint")
    found = GitPlaces(repository, {"HOME": str(tmp_path)})
    protection = Protection(ProjectFiles(repository), {}, found.held, found.held_in)
    covered = {path: protection.covers(f"{deep}/{path}") for path in ("nh/pre-commit", "nh/new", "fsm", "a.txt")}
    assert covered == {"nh/pre-commit": True, "nh/new": True, "fsm": True, "a.txt": False}
    assert found.may_run(f"{deep}/sub/lint")
    assert not protection.covers("fsm")


def test_writing_through_lets_what_a_hook_calls_wait_and_leaves_deep_repositories_alone(
    repository: Path, tmp_path: Path
) -> None:
    deep = "third/party/vendor/x/lib"
    subprocess.run(["git", "init", "--quiet", str(repository / deep)], check=True)
    git(repository / deep, "config", "core.fsmonitor", "./fsm")
    hook(repository, "cd sub && ./lint")
    places = partial(GitPlaces, environ={"HOME": str(tmp_path)})
    line = f"mkdir -p sub; echo x | tee sub/lint sub/other {deep}/fsm {deep}/code.c > /dev/null"
    cockpit = fake_cockpit(
        tmp_path / "home",
        backend=FakeBackend(),
        brains=[FakeBrain([Ask("bash", {"command": line}), "Done."])],
        join=lambda parts: Cockpit(replace(parts, choices=replace(parts.choices, git_places=places))),
    )
    try:
        outcome = cockpit.launch(RunRequest(task="do it", project=repository, write_mode=WriteMode.THROUGH)).result(60)
    finally:
        cockpit.close()
    assert {change.path: (change.state, change.runs) for change in outcome.changes} == {
        "sub/lint": ("proposed", CALLED),
        "sub/other": ("applied", ""),
        f"{deep}/fsm": ("protected", CALLED),
        f"{deep}/code.c": ("applied", ""),
    }
    assert not (repository / deep / "fsm").exists()
