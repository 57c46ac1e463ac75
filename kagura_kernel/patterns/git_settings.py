"""What git would run beside itself, by its settings and hooks. Pure.

A hook may lie in the project, where an agent can have changed it, and so may whatever a setting names. Only settings
whose programs are found elsewhere, by a plain name, are known to be harmless.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from kagura_kernel.patterns.shell_lines import starts_known

# Settings that name programs, or that change what is pushed and to where.
_TELLING = re.compile(
    r"core\.(askpass|fsmonitor|gitproxy|hookspath|sshcommand)|credential\.(.*\.)?helper|filter\..*\.(clean|process|smudge)|"
    r"gpg\.(.*\.)?(program|defaultkeycommand)|protocol\..*allow|push\..*|"
    r"remote\..*\.(mirror|push|receivepack|uploadpack|vcs)|"
    r"url\..*\.(insteadof|pushinsteadof)|uploadpack\..*|commit\.gpgsign|push\.gpgsign"
)
_HARMLESS = re.compile(
    r"core\.fsmonitor=(true|false)|credential\.(.*\.)?helper=[A-Za-z0-9._-]*|"
    r"filter\.lfs\.(clean|process|smudge)=git-lfs [a-z-]+( -- %f)?|"
    r"push\.(autosetupremote|followtags)=(true|false)|push\.default=(simple|current|upstream|nothing)|commit\.gpgsign=false"
)
_REMOTE = re.compile(r"remote\..*\.(push)?url")
# A colon before the first slash is a host; see git-push, GIT URLS.
_ELSEWHERE = re.compile(r"[^/]*:")


# Settings that name a file or a directory which git reads, and what of it is run.
_INCLUDED = re.compile(r"include(if\..*)?\.path")
_PLACE = re.compile(r"core\.(attributesfile|hookspath)|init\.templatedir")
# Settings that name nothing: their words may be those of any file.
_PROSE = re.compile(r"(author|branch|color|committer|user)\..*")
# Settings that run what they name.
_RUNS = re.compile(
    r"alias\..*|core\.(alternaterefscommand|askpass|editor|fsmonitor|gitproxy|pager|sshcommand)|"
    r"credential\.(.*\.)?helper|diff\.(external|.*\.(command|textconv))|filter\..*\.(clean|process|smudge)|"
    r"gc\.recentobjectshook|gpg\.(.*\.)?(program|defaultkeycommand)|hook\..*\.command|imap\.tunnel|instaweb\.httpd|"
    r"(browser|difftool|guitool|man|mergetool|tar|trailer)\..*\.(cmd|command|path)|"
    r"interactive\.difffilter|merge\..*\.driver|pager\..*|remote\..*\.(receivepack|uploadpack)|"
    r"sendemail\..*cmd|sequence\.editor|submodule\..*\.update|uploadpack\.packobjectshook"
)
# Values that start nothing, and names of programs that are found elsewhere and run nothing of where they are started.
_PLAIN = re.compile(r"|true|false|yes|no|on|off|\d+")
_ALONE = re.compile(r"(?:/(?:usr|bin|opt)/(?:[\w.+-]+/)*)?([\w+-][\w.+-]*)")
_RUNNER = re.compile(r"(?:ba|c|da|fi|k|tc|z|)sh|(?:python|node|npm|npx|perl|php|ruby|make|just|rake|tox|uv|env).*")
_SHELL = re.compile(r"#![ \t]*/\S*?/(?:env[ \t]+)?(?:ba|da|k|z|)sh(?:[ \t]+-[a-z]+)*[ \t\r]*")
# Modules that an interpreter looks for where it is started, which is the root of the working tree.
_MODULE = re.compile(r"(?<![\w-])-(?:[mM]\s*|[A-Za-z]{1,4}[mM]\s+)([A-Za-z_]\w*)")
_SCRIPT = re.compile(r".*\.(?:bash|cjs|js|mjs|php|pl|py|rb|sh|ts|zsh)|(?:[^/]*/)+[^/.]+")
_WORD_ENDS = re.compile(r"[\s;&|()<>\"'`$={}!]+")


# Variables that say the same as settings, or where settings lie.
_VARIABLES = {
    "EDITOR": "core.editor",
    "GIT_ASKPASS": "core.askpass",
    "GIT_CONFIG_GLOBAL": "include.path",
    "GIT_CONFIG_SYSTEM": "include.path",
    "GIT_EDITOR": "core.editor",
    "GIT_EXEC_PATH": "core.hookspath",
    "GIT_EXTERNAL_DIFF": "diff.external",
    "GIT_PAGER": "core.pager",
    "GIT_PROXY_COMMAND": "core.gitproxy",
    "GIT_SEQUENCE_EDITOR": "sequence.editor",
    "GIT_SSH": "core.sshcommand",
    "GIT_SSH_COMMAND": "core.sshcommand",
    "GIT_TEMPLATE_DIR": "init.templatedir",
    "PAGER": "core.pager",
    "SSH_ASKPASS": "core.askpass",
    "VISUAL": "core.editor",
    "XDG_CONFIG_HOME": "init.templatedir",
}


class GitSetting(NamedTuple):
    """One setting."""

    file: str  # Where it stands, absolute; empty where that is no file
    name: str  # Its name, as git writes it
    value: str


def read_settings(listed: str, top: str) -> list[GitSetting]:
    """The settings that `git config --list --show-origin -z` has listed.

    Args:
        listed: What it printed.
        top: The root of the working tree, which git's paths start from wherever below it git was asked.
    """
    fields = listed.split("\0")
    found = []
    for origin, said in zip(fields[::2], fields[1::2], strict=False):
        kind, _, place = origin.partition(":")
        file = os.path.normpath(os.path.join(top, place)) if kind == "file" else ""  # noqa: PTH118 - only text
        name, _, value = said.partition("\n")
        found.append(GitSetting(file, name.lower(), value))
    return found


def runs_more(settings: Iterable[GitSetting], hooks: Iterable[str], project: str, git_directory: str, top: str) -> str:
    """Why git may run more than itself, half a sentence; empty when it does not.

    Args:
        settings: All that hold in the project.
        hooks: Names of the files where hooks lie.
        project: The project's root.
        git_directory: Where the repository itself lies.
        top: The root of its working tree, in which the project may be a folder.
    """
    if any(not name.endswith(".sample") for name in hooks):
        return "the repository has hooks"
    if _lies_in(git_directory, project) and not _lies_in(git_directory, f"{project}/.git"):
        return "the repository itself lies among the project's own files"
    for setting in settings:
        if _REMOTE.fullmatch(setting.name) and _lies_in(_local(setting.value, top), project):
            return f"git's setting {setting.name} names a repository among the project's own files"
        if _lies_in(setting.file, project) and not _lies_in(setting.file, git_directory):
            return "the project's own files hold settings of git"
        if _TELLING.fullmatch(setting.name) and not _HARMLESS.fullmatch(f"{setting.name}={setting.value}"):
            return f"git's setting {setting.name} may change what it runs or where it pushes"
    return ""


def named_paths(settings: Iterable[GitSetting], top: str, home: str, is_file: Callable[[str], bool]) -> Iterator[str]:
    """Absolute paths of the files that hold these settings, and of what they name: what git reads, and what it runs.

    What a setting names counts when it is a file; a path that is none yet counts where the setting reads or runs it.

    Args:
        settings: All that hold in a repository.
        top: The root of its working tree, where git starts programs.
        home: The person's home directory.
        is_file: Whether a path is a file.
    """
    for setting in settings:
        yield setting.file
        if _PROSE.fullmatch(setting.name):
            continue
        # Where a variable includes a file, no file says so.
        included = _INCLUDED.fullmatch(setting.name) and setting.file
        base = os.path.dirname(setting.file) if included else top  # noqa: PTH120 - only text
        whole = _from(base, setting.value, home)
        if _INCLUDED.fullmatch(setting.name) or _PLACE.fullmatch(setting.name):
            yield whole
            continue
        for word in _WORD_ENDS.split(setting.value):
            path = _from(base, word, home)
            if ("/" in word and _RUNS.fullmatch(setting.name)) or (word and is_file(path)):
                yield path
        if _RUNS.fullmatch(setting.name):
            yield from called_paths(setting.value, top, is_file)
        if is_file(whole):
            yield whole


def variable_settings(environ: Mapping[str, str]) -> Iterator[tuple[str, GitSetting]]:
    """A person's variables that git obeys, each with a setting that does the same.

    Args:
        environ: The person's variables.
    """
    for variable, name in _VARIABLES.items():
        value = environ.get(variable, "")
        if value:
            # Of what lies there git reads its own folder alone.
            yield variable, GitSetting("", name, f"{value}/git" if variable == "XDG_CONFIG_HOME" else value)


def included_paths(settings: Iterable[GitSetting], home: str) -> Iterator[str]:
    """Absolute paths of what these settings include, under whatever condition."""
    for setting in settings:
        if _INCLUDED.fullmatch(setting.name):
            yield os.path.normpath(_from(os.path.dirname(setting.file), setting.value, home))  # noqa: PTH120 - only text


def hook_folders(settings: Iterable[GitSetting], top: str, home: str) -> Iterator[str]:
    """Absolute paths of where hooks lie by these settings, as they hold here or might elsewhere."""
    for setting in settings:
        if setting.name == "core.hookspath":
            yield os.path.normpath(_from(top, setting.value, home))


def may_start(setting: GitSetting, top: str) -> bool:
    """Whether what a setting runs may be of the project: a program that is not known, or one that is told more."""
    name, value = setting.name, setting.value
    if not _RUNS.fullmatch(name) or _PLAIN.fullmatch(value):
        return False
    if name.startswith("alias.") and not value.startswith("!"):
        value = f"git {value}"
    if name.startswith(("credential.", "submodule.")) and value[0] not in "!/~.":
        # What git itself completes, or does.
        return False
    alone = None if name.startswith("alias.") or value.startswith(f"{top}/") else _ALONE.fullmatch(value)
    return (alone is None or _RUNNER.fullmatch(alone[1]) is not None) and not starts_known(value.removeprefix("!"), top)


def hook_may_start(lines: str, top: str) -> bool:
    """Whether what a hook runs may be of the project."""
    first = lines.partition("\n")[0]
    return (first.startswith("#!") and not _SHELL.fullmatch(first)) or not starts_known(lines, top)


def called_paths(commands: str, top: str, is_file: Callable[[str], bool]) -> Iterator[str]:
    """Absolute paths of what lines of a shell call below a folder: scripts that are there, and modules, there or not.

    Args:
        commands: The lines.
        top: Where they are carried out.
        is_file: Whether a path is a file.
    """
    for name in _MODULE.findall(commands):
        module = os.path.join(top, name)  # noqa: PTH118 - only text
        yield from (module, f"{module}.py", f"{module}.pm")
    for word in _WORD_ENDS.split(commands):
        path = os.path.normpath(os.path.join(top, word))  # noqa: PTH118 - only text
        if _SCRIPT.fullmatch(word) and is_file(path):
            yield path


def _from(base: str, path: str, home: str) -> str:
    path = f"{home}{path[1:]}" if path.startswith("~/") else path
    return os.path.join(base, path)  # noqa: PTH118 - only text


def _local(url: str, top: str) -> str:
    """Where a remote lies on this machine; empty for one that is elsewhere."""
    place = url.removeprefix("file://")
    if place == url and _ELSEWHERE.match(url):
        return ""
    return os.path.normpath(os.path.join(top, place))  # noqa: PTH118 - only text


def _lies_in(file: str, directory: str) -> bool:
    return file == directory or file.startswith(f"{directory}/")
