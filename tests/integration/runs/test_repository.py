"""What a real git says of itself in a project."""

import os
import shutil
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.membrane.project import ProjectFiles
from kagura_kernel.membrane.protection import STANDS_IN, Protection, called_by
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


async def test_a_fresh_repository_runs_git_alone(repository):
    assert await more_than_git(repository) == ""


async def test_hooks_are_found_where_git_looks_for_them(repository):
    (repository / ".husky").mkdir()
    git(repository, "config", "core.hooksPath", ".husky")
    assert await more_than_git(repository) != ""
    git(repository, "config", "--unset", "core.hooksPath")
    assert await more_than_git(repository) == ""
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-commit").write_text("#!/bin/sh\n")
    assert await more_than_git(repository) == "the repository has hooks"


async def test_settings_that_the_project_brings_along_are_found(repository):
    (repository / ".gitconfig").write_text("[user]\n\tname = Ann\n")
    git(repository, "config", "include.path", "../.gitconfig")
    assert await more_than_git(repository) == "the project's own files hold settings of git"


async def test_hooks_of_a_worktree_are_those_of_its_repository(repository, tmp_path):
    git(repository, "-c", "user.name=Ann", "-c", "user.email=a@b.c", "commit", "--allow-empty", "-q", "-m", "one")
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert await more_than_git(tmp_path / "tree") == ""
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-push").write_text("#!/bin/sh\n")
    assert await more_than_git(tmp_path / "tree") == "the repository has hooks"


async def test_a_folder_of_a_repository_is_judged_as_the_repository_is(repository):
    part = repository / "part"
    part.mkdir()
    assert await more_than_git(part) == ""
    (part / "settings").write_text("[user]\n\tname = Ann\n")
    git(repository, "config", "remote.origin.url", "part/shared.git")
    assert "names a repository" in await more_than_git(part)
    git(repository, "config", "--unset", "remote.origin.url")
    git(repository, "config", "include.path", "../part/settings")
    assert await more_than_git(part) == "the project's own files hold settings of git"


async def test_where_git_says_nothing_it_is_unclear(tmp_path):
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
def test_what_git_would_run_or_read_of_the_project_is_told(repository, tmp_path, setting, value, held):
    (repository / "tools").mkdir()
    (tmp_path / "link").symlink_to(repository / "tools")
    for name in (".fsmonitor.sh", "tools/clean.py", "tools/text.sh", "go.sh"):
        (repository / name).write_text("#!/bin/sh\n")
    git(repository, "config", setting, value.format(project=repository, link=tmp_path / "link"))
    assert GitPlaces(repository, {"HOME": str(tmp_path)}).held == (held,)


def test_an_included_file_and_what_it_names_are_told(repository, tmp_path):
    (repository / "tools").mkdir()
    (repository / "tools" / "watch").write_text("#!/bin/sh\n")
    (repository / ".gitconfig").write_text("[core]\n\tfsmonitor = tools/watch\n[include]\n\tpath = other\n")
    git(repository, "config", "include.path", "../.gitconfig")
    assert GitPlaces(repository, {"HOME": str(tmp_path)}).held == (".gitconfig", "other", "tools/watch")


def test_a_hook_that_is_a_link_into_the_project_leads_to_its_file(repository, tmp_path):
    (repository / "check.sh").write_text("#!/bin/sh\n")
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-commit").symlink_to("../../check.sh")
    assert GitPlaces(repository, {"HOME": str(tmp_path)}).held == ("check.sh",)


def test_what_a_hook_calls_in_the_project_is_told(repository, tmp_path):
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


def test_a_module_that_a_filter_starts_is_told(repository, tmp_path):
    git(repository, "config", "filter.strip.clean", "/usr/bin/python3 -Im nbstripout %f")
    found = GitPlaces(repository, {"HOME": str(tmp_path)}).held
    assert found == ("nbstripout", "nbstripout.pm", "nbstripout.py")


def test_repositories_in_hidden_and_deep_folders_count(repository, tmp_path):
    for inner in (".worktrees/one", "a/b/c"):
        subprocess.run(["git", "init", "--quiet", str(repository / inner)], check=True)
        git(repository / inner, "config", "core.hooksPath", "hooks")
    assert GitPlaces(repository, {"HOME": str(tmp_path)}).held == (".worktrees/one/hooks", "a/b/c/hooks")


async def test_what_only_python_takes_for_an_end_of_a_line_stands_in_the_name_of_a_folder(repository, tmp_path):
    inner = repository / "a\fb\u2028c"
    git(repository, "init", "--quiet", str(inner))
    git(inner, "config", "core.hooksPath", "hooks")
    assert GitPlaces(repository, {"HOME": str(tmp_path)}).held == ("a\fb\u2028c/hooks",)
    git(inner, "config", "--unset", "core.hooksPath")
    assert await more_than_git(inner) == ""


def test_the_person_s_own_settings_may_lie_in_the_project_too(repository, tmp_path):
    (repository / "dotfiles").mkdir()
    (repository / "dotfiles" / "gitconfig").write_text("[init]\n\ttemplateDir = ~/shop/template\n")
    (tmp_path / ".gitconfig").symlink_to(repository / "dotfiles" / "gitconfig")
    assert GitPlaces(repository, {"HOME": str(tmp_path)}).held == ("dotfiles/gitconfig", "template")


def test_a_repository_around_the_project_and_one_inside_count(repository, tmp_path):
    project = repository / "part"
    subprocess.run(["git", "init", "--quiet", str(project / "libs" / "inner")], check=True)
    subprocess.run(
        ["git", "init", "--quiet", f"--separate-git-dir={project / 'kept'}", str(project / "two")], check=True
    )
    git(repository, "config", "core.hooksPath", "part/hooks")
    git(project / "libs" / "inner", "config", "core.hooksPath", ".husky")
    assert GitPlaces(project, {"HOME": str(tmp_path)}).held == ("hooks", "kept", "libs/inner/.husky")


def test_settings_that_lie_in_a_project_below_its_repository_are_told(repository, tmp_path):
    project = repository / "a" / "part"
    project.mkdir(parents=True)
    (project / "inc").write_text("[core]\n\tfsmonitor = a/part/watch\n[include]\n\tpath = more\n")
    git(repository, "config", "include.path", "../a/part/inc")
    assert GitPlaces(project, {"HOME": str(tmp_path)}).held == ("inc", "more", "watch")


def test_an_ordinary_repository_and_none_at_all_hold_nothing_more(repository, tmp_path):
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


def places(project: Path, home: Path) -> GitPlaces:
    found = GitPlaces(project, {"HOME": str(home)})
    found.finish()
    return found


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("alias.lint", "!cd sub && ./lint"),
        ("alias.test", "!make test"),
        ("filter.strip.clean", "python3 tools/clean.py %f"),
        ("core.fsmonitor", "tools/watch"),
        ("diff.image.textconv", "./text"),
        ("includeIf.onbranch:never.path", "{outside}/settings"),
    ],
)
def test_a_setting_that_may_run_something_of_the_project_is_named(repository, tmp_path, setting, value):
    (tmp_path / "settings").write_text("[alias]\n\tgo = !./go\n")
    git(repository, "config", setting, value.format(outside=tmp_path))
    assert places(repository, tmp_path).starter == f"git's setting {'alias.go' if 'include' in setting else setting}"


def test_a_hook_that_may_run_something_of_the_project_is_named(repository, tmp_path):
    assert places(repository, tmp_path).starter == ""
    hook(repository, "git lfs pre-push")
    assert places(repository, tmp_path).starter == ""
    hook(repository, "pytest tests")
    assert places(repository, tmp_path).starter == "git's hook pre-commit"
    put(repository, "part/a.txt")
    assert places(repository / "part", tmp_path).starter == "git's hook pre-commit"
    (repository / ".git" / "hooks" / "pre-commit").write_bytes(b"\x7fELF\0")
    assert places(repository, tmp_path).starter == "git's hook pre-commit"


def test_hooks_that_husky_runs_are_read_beside_its_own(repository, tmp_path):
    put(repository, ".husky/_/pre-commit", '. "$(dirname "$0")/h"\n')
    put(repository, ".husky/pre-commit", "npm test\n")
    git(repository, "config", "core.hooksPath", ".husky/_")
    assert places(repository, tmp_path).starter == "git's hook .husky/pre-commit"


def test_what_a_person_usually_sets_runs_nothing_of_the_project(repository, tmp_path):
    usual = {
        "alias.lg": "log --oneline --format='%h | %s'",
        "alias.up": '!f() { git push -u origin "$(git symbolic-ref --short HEAD)"; }; f',
        "core.editor": "code --wait",
        "core.pager": "delta",
        "core.askPass": "/usr/bin/ksshaskpass",
        "credential.helper": "!/usr/bin/gh auth git-credential",
        "credential.https://example.org.helper": "store",
        "filter.lfs.process": "git-lfs filter-process",
        "filter.strip.clean": "nbstripout",
        "gpg.program": "gpg2",
        "interactive.diffFilter": "diff-so-fancy | less -RFX",
        "submodule.one.update": "rebase",
    }
    for name, value in usual.items():
        git(repository, "config", name, value)
    assert places(repository, tmp_path).starter == ""


def test_an_include_for_another_branch_is_read_with_all_that_it_includes(repository, tmp_path):
    put(repository, "one", "[include]\n\tpath = two\n[core]\n\thooksPath = kept/hooks\n")
    put(repository, "two", '[includeIf "onbranch:none"]\n\tpath = three\n[core]\n\tfsmonitor = ./watch\n')
    git(repository, "config", "includeIf.onbranch:other.path", "../one")
    put(repository, "kept/hooks/post-checkout", "./go\n")
    found = places(repository, tmp_path)
    assert found.held == ("kept/hooks", "one", "three", "two", "watch")
    assert found.starter == "git's hook kept/hooks/post-checkout"


@pytest.mark.parametrize("folder", ["", "part/web/"])
@pytest.mark.parametrize(
    ("file", "text"),
    [
        (".envrc", "source_env tools/env.sh\n"),
        (".envrc", "PATH_add bin\n"),
        (".hg/hgrc", "[paths]\ndefault = https://example.org\n[hooks]\ncommit = tools/check\n"),
        (".hg/hgrc", "%include ../hgrc\n"),
        (".jj/repo/config.toml", '[aliases]\nl = ["util", "exec", "--", "tools/x"]\n'),
        ("mise.toml", '[env]\n_.source = "tools/env.sh"\n'),
        (".mise.toml", '[hooks]\nenter = "tools/x"\n'),
        (".tool-versions", "node path:./tools/node\n"),
        (".vscode/tasks.json", '{"command": "./x", "runOptions": {"runOn": "folderOpen"}}'),
        (".devcontainer/devcontainer.json", '{"initializeCommand": "tools/x"}'),
        (".mcp.json", '{"mcpServers": {"a": {"command": "python", "args": ["-m", "server"]}}}'),
        (".mcp.json", '{"mcpServers": {"a": {"command": "npx", "args": ["tsx", "src/server.ts"]}}}'),
        (".claude/settings.json", '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "tools/x"}]}]}}'),
        (".exrc", "source tools/x.vim\n"),
        (".dir-locals.el", '((nil . ((eval . (load-file "tools/x.el")))))\n'),
    ],
)
def test_what_other_tools_start_of_the_project_lets_its_code_wait(repository, tmp_path, folder, file, text):
    put(repository, f"{folder}{file}", text)
    assert places(repository, tmp_path).starter == f"{folder}{file}"


def test_settings_of_other_tools_that_start_nothing_of_the_project_are_no_reason(repository, tmp_path):
    put(repository, ".envrc", "export NAME=shop\n")
    put(repository, ".hg/hgrc", "[paths]\ndefault = https://example.org\n[ui]\nusername = Ann\n")
    put(repository, "mise.toml", '[tools]\nnode = "22"\n[env]\nNODE_ENV = "test"\n')
    put(repository, ".tool-versions", "node 22.1.0\n")
    put(repository, ".vscode/tasks.json", '{"command": "./x"}')
    put(repository, ".mcp.json", '{"mcpServers": {"a": {"command": "npx", "args": ["-y", "@one/two"]}}}')
    put(repository, ".exrc", "set tabstop=4\n")
    put(repository, ".dir-locals.el", "((nil . ((indent-tabs-mode . nil))))\n")
    assert places(repository, tmp_path).starter == ""


def test_settings_and_hooks_of_bare_repositories_are_read(tmp_path):
    project = tmp_path / "bare"
    for place in (project, project / "inner.git"):
        subprocess.run(["git", "init", "--quiet", "--bare", str(place)], check=True)
    git(project, "config", "core.hooksPath", "mine")
    git(project / "inner.git", "config", "include.path", "../settings")
    put(project, "settings", "[core]\n\thooksPath = ../more\n")
    put(project, "more/post-receive", "deploy\n")
    found = places(project, tmp_path)
    assert {"mine", "more", "settings"} <= set(found.held)
    assert found.starter == "git's hook more/post-receive"


def test_a_repository_below_any_number_of_folders_is_found_when_all_were_looked_into(repository, tmp_path, monkeypatch):
    monkeypatch.setattr("kagura_kernel.runs.git_places.MAX_FOLDERS", 4)
    deep = "a/b/c/d/e"
    subprocess.run(["git", "init", "--quiet", str(repository / deep)], check=True)
    git(repository / deep, "config", "core.hooksPath", str(repository / "tools"))
    put(repository, "tools/pre-commit", "npx lint\n")
    found = GitPlaces(repository, {"HOME": str(tmp_path)})
    assert (found.held, found.starter) == ((), "")
    found.finish()
    assert (found.held, found.starter) == (("tools",), "git's hook tools/pre-commit")


def test_what_a_repository_at_any_depth_holds_stays_as_it_is(repository, tmp_path):
    deep = "/".join("abcdefghij")
    for number in range(3):
        put(repository, f"{deep}/tools/{number}/x")
    found = GitPlaces(repository, {"HOME": str(tmp_path)})
    # A repository that came during the run, which only a change in it leads to.
    subprocess.run(["git", "init", "--quiet", str(repository / deep)], check=True)
    git(repository / deep, "config", "core.hooksPath", "nh")
    git(repository / deep, "config", "core.fsmonitor", "./fsm")
    hook(repository / deep, "")
    put(repository, f"{deep}/nh/pre-commit", "cd sub && ./lint")
    protection = Protection(ProjectFiles(repository), {}, found.held, found.held_in)
    covered = {path: protection.covers(f"{deep}/{path}") for path in ("nh/pre-commit", "nh/new", "fsm", "a.txt")}
    assert covered == {"nh/pre-commit": True, "nh/new": True, "fsm": True, "a.txt": False}
    assert found.starter == f"git's hook {deep}/nh/pre-commit"
    assert not protection.covers("fsm")


def test_packages_are_those_that_git_follows(repository, tmp_path):
    inner = repository / "libs" / "inner"
    subprocess.run(["git", "init", "--quiet", str(inner)], check=True)
    for place, path in ((repository, "shop/__init__.py"), (inner, "x/__init__.py")):
        put(place, path)
        git(place, "add", path)
    put(repository, "new/__init__.py")
    assert places(repository, tmp_path).packages == {"shop", "libs/inner/x"}
    assert places(repository / "shop", tmp_path).packages == frozenset()


def written(repository: Path, tmp_path: Path, line: str) -> dict[str, tuple[str, str]]:
    """What a run with `--write through` says of each file that it changed."""
    cockpit = fake_cockpit(
        tmp_path / "home",
        backend=FakeBackend(),
        brains=[FakeBrain([Ask("bash", {"command": line}), "Done."])],
        join=lambda parts: Cockpit(
            replace(parts, choices=replace(parts.choices, git_places=partial(GitPlaces, environ={"HOME": "/"})))
        ),
    )
    try:
        outcome = cockpit.launch(RunRequest(task="do it", project=repository, write_mode=WriteMode.THROUGH)).result(60)
    finally:
        cockpit.close()
    return {change.path: (change.state, change.runs) for change in outcome.changes}


def test_what_a_repository_lacks_is_not_fetched_by_the_program_that_it_names(repository, tmp_path):
    put(repository, "there/one.py")
    put(repository, "away/__init__.py")
    git(repository, "add", ".")
    git(repository, "-c", "user.name=Ann", "-c", "user.email=a@b.c", "commit", "-q", "-m", "one")
    # Whoever lists files of a folder that is left out needs what git knows of it, and git would ask for that.
    git(repository, "sparse-checkout", "set", "--cone", "--sparse-index", "there")
    shutil.rmtree(repository / ".git" / "objects")
    (repository / ".git" / "objects").mkdir()
    ran = tmp_path / "ran"
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(tmp_path / "nowhere"),
        "remote.origin.uploadPack": f"touch {ran};",
    }.items():
        git(repository, "config", name, value)
    found = GitPlaces(repository, {"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    found.finish()
    assert found.packages == frozenset()
    assert not ran.exists()


def test_where_a_hook_runs_the_project_all_waits_that_is_not_known_to_be_data(repository, tmp_path):
    deep = "third/party/vendor/x/lib"
    subprocess.run(["git", "init", "--quiet", str(repository / deep)], check=True)
    git(repository / deep, "config", "core.fsmonitor", "./fsm")
    hook(repository, "cd sub && ./lint")
    put(repository, "old.py")
    line = (
        f"mkdir -p sub; echo x | tee sub/lint a.py notes.md a.csv b.csv test_a.txt {deep}/fsm > /dev/null; rm old.py; "
        "chmod +x b.csv; printf '#!/bin/sh' > c.csv; ln -s a.csv link.csv"
    )
    called = called_by("git's hook pre-commit")
    waiting = ("a.py", "b.csv", "c.csv", "link.csv", "old.py", "sub/lint", "test_a.txt")
    assert written(repository, tmp_path, line) == {
        **dict.fromkeys(waiting, ("proposed", called)),
        **dict.fromkeys(("a.csv", "notes.md"), ("applied", "")),
    }
    assert not (repository / deep / "fsm").exists()
    assert (repository / "old.py").exists()


def test_where_no_hook_runs_the_project_code_is_written_through(repository, tmp_path):
    hook(repository, 'git lfs pre-push "$@"')
    assert written(repository, tmp_path, "echo x > a.py") == {"a.py": ("applied", "")}


def test_no_two_runs_in_a_row_plant_a_module(repository, tmp_path):
    for package in ("shop", "sub"):
        put(repository, f"{package}/a.py")
    put(repository, "shop/__init__.py")
    git(repository, "add", ".")
    assert written(repository, tmp_path / "1", "echo > sub/__init__.py") == {"sub/__init__.py": ("applied", "")}
    line = "mkdir new; echo | tee sub/runpy.py shop/types.py new/__init__.py new/logging.py"
    assert written(repository, tmp_path / "2", f"{line}; ln -s ../shop sub/json") == {
        **dict.fromkeys(("new/logging.py", "sub/json", "sub/runpy.py"), ("proposed", STANDS_IN)),
        **dict.fromkeys(("new/__init__.py", "shop/types.py"), ("applied", "")),
    }


@pytest.mark.parametrize("variable", ["GIT_EXTERNAL_DIFF", "GIT_EDITOR", "EDITOR", "GIT_SSH_COMMAND", "GIT_PAGER"])
def test_programs_of_the_project_that_a_variable_names_stay_as_they_are(repository, variable):
    (repository / "tools").mkdir()
    (repository / "tools" / "x").write_text("#!/bin/sh\n")
    for value in ("tools/x", f"{repository}/tools/x --wait"):
        places = GitPlaces(repository, {"PATH": "/usr/bin:/bin", variable: value})
        assert (places.held, places.starter) == (("tools/x",), f"the variable {variable}")


def test_settings_and_templates_that_a_variable_names_are_held_before_they_are_there(repository):
    environ = {
        "PATH": "/usr/bin:/bin",
        "GIT_CONFIG_GLOBAL": str(repository / "dot" / "settings"),
        "GIT_TEMPLATE_DIR": str(repository / "template"),
        "XDG_CONFIG_HOME": str(repository / "config"),
    }
    assert GitPlaces(repository, environ).held == ("config/git", "dot/settings", "template")


def test_a_person_s_own_editor_makes_nothing_wait(repository):
    environ = {"PATH": "/usr/bin:/bin", "EDITOR": "idea --wait", "GIT_ASKPASS": "/home/ann/.editor/askpass.sh"}
    places = GitPlaces(repository, environ)
    assert (places.held, places.starter) == ((), "")
