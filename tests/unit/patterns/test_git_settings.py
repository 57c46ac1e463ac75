from __future__ import annotations

import pytest

from kagura_kernel.patterns.startup_settings import GitSetting, read_settings, runs_more

PROJECT, REPOSITORY = "/home/ann/shop", "/home/ann/shop/.git"
CONFIG = f"{REPOSITORY}/config"


def judged(name: str, value: str, file: str = CONFIG) -> str:
    return runs_more([GitSetting(file, name, value)], ["pre-push.sample"], PROJECT, REPOSITORY, PROJECT)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("core.bare", "false"),
        ("user.name", "Ann"),
        ("remote.origin.url", "git@example.org:shop.git"),
        ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
        ("branch.main.merge", "refs/heads/main"),
        ("push.default", "simple"),
        ("push.autosetupremote", "true"),
        ("credential.helper", "osxkeychain"),
        ("credential.helper", "gcloud.sh"),
        ("credential.https://example.org.helper", ""),
        ("filter.lfs.clean", "git-lfs clean -- %f"),
        ("filter.lfs.process", "git-lfs filter-process"),
        ("filter.lfs.required", "true"),
        ("core.fsmonitor", "true"),
        ("alias.push", "!evil"),
    ],
)
def test_what_runs_nothing_of_the_project_is_harmless(name, value):
    assert judged(name, value) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("core.hookspath", ".husky"),
        ("core.sshcommand", "./ssh.sh"),
        ("core.fsmonitor", "./watch.sh"),
        ("core.askpass", "ask"),
        ("credential.helper", "!./helper"),
        ("credential.helper", "/home/ann/shop/helper"),
        ("filter.strip.clean", "python strip.py"),
        ("filter.lfs.clean", "git-lfs clean -- %f; evil"),
        ("gpg.program", "./sign"),
        ("gpg.ssh.program", "sign"),
        ("commit.gpgsign", "true"),
        ("remote.origin.push", "+refs/heads/*:refs/heads/*"),
        ("remote.origin.mirror", "true"),
        ("remote.origin.receivepack", "evil"),
        ("url.https://evil.example/.pushinsteadof", "https://example.org/"),
        ("push.recursesubmodules", "on-demand"),
        ("push.default", "matching"),
        ("protocol.ext.allow", "always"),
        ("core.alternaterefscommand", "./refs.sh"),
        ("gc.recentobjectshook", "./recent.sh"),
        ("hook.lint.command", "./lint.sh"),
    ],
)
def test_what_names_a_program_or_bends_a_push_is_told(name, value):
    assert judged(name, value) == f"git's setting {name} may change what it runs or where it pushes"


def test_hooks_are_told_and_samples_are_none():
    assert runs_more([], ["pre-push.sample"], PROJECT, REPOSITORY, PROJECT) == ""
    assert runs_more([], ["pre-push.sample", "pre-push"], PROJECT, REPOSITORY, PROJECT) == "the repository has hooks"


def test_settings_in_the_projects_own_files_are_told():
    assert judged("user.name", "Ann", f"{PROJECT}/.gitconfig") == "the project's own files hold settings of git"
    assert judged("user.name", "Ann", "/home/ann/.gitconfig") == ""
    assert judged("user.name", "Ann", f"{PROJECT}/.github/config") == "the project's own files hold settings of git"


def test_what_git_lists_is_read_as_it_is_meant():
    listed = "file:.git/config\0core.hooksPath\n.husky\0command line:\0a.b\n\0file:../shop/x\0c.d\none\ntwo\0"
    assert read_settings(listed, PROJECT) == [
        GitSetting(CONFIG, "core.hookspath", ".husky"),
        GitSetting("", "a.b", ""),
        GitSetting(f"{PROJECT}/x", "c.d", "one\ntwo"),
    ]
    assert read_settings("", PROJECT) == []


@pytest.mark.parametrize(
    "value", ["./shared.git", "shared", f"{PROJECT}/a/b.git", f"file://{PROJECT}/b.git", "../shop/b"]
)
@pytest.mark.parametrize("name", ["remote.origin.url", "remote.origin.pushurl"])
def test_a_remote_whose_hooks_an_agent_can_write_is_told(name, value):
    assert judged(name, value) == f"git's setting {name} names a repository among the project's own files"


@pytest.mark.parametrize(
    "value", ["../shared.git", "git@example.org:a/b.git", "https://example.org/a.git", "host:b.git"]
)
def test_a_remote_elsewhere_is_not_told(value):
    assert judged("remote.origin.url", value) == ""


@pytest.mark.parametrize(
    ("place", "told"), [(PROJECT, True), (f"{PROJECT}/a/x", True), (REPOSITORY, False), ("/o", False)]
)
def test_a_repository_whose_settings_an_agent_can_write_is_told(place, told):
    found = runs_more([GitSetting(f"{place}/config", "user.name", "Ann")], [], PROJECT, place, PROJECT)
    assert found == ("the repository itself lies among the project's own files" if told else "")
