"""What a real git says of itself in a project."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kagura_kernel.runs.repository import UNCLEAR, more_than_git

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


async def test_where_git_says_nothing_it_is_unclear(tmp_path: Path) -> None:
    assert await more_than_git(tmp_path) == UNCLEAR
