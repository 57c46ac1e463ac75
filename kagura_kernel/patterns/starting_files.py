"""Settings of other tools than git by which something starts when a folder is entered, opened or committed in. Pure.

Such a file waits for a word itself, or is protected by its name. What it starts may be any other file of the project.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

from kagura_kernel.patterns.shell_lines import starts_known

_SHELL_FILES = frozenset({".envrc"})
_SERVERS = """
    .claude/settings.json .claude/settings.local.json .codex/hooks.json .crush.json .cursor/hooks.json .cursor/mcp.json
    .gemini/settings.json .kiro/settings/mcp.json .mcp.json .qwen/settings.json .vscode/mcp.json crush.json mcp.json
    opencode.json
"""
# What shows, by the names of the files, that something is started.
_TELLING = {
    ".devcontainer.json .devcontainer/devcontainer.json": r"initializeCommand",
    ".dir-locals.el .dir-locals-2.el": r"\beval\b",
    ".exrc .lvimrc .nvim.lua .nvimrc .vimrc": (
        r"!|\b(?:dofile|exe\w*|loadfile|lua\w*|packadd|require|ru\w*|so\w*|system)\b"
    ),
    ".hg/hgrc .hg/hgrc-not-shared .sl/config": (
        r"^[ \t]*(?:%include|\[(?!(?:paths|phases|ui)\])|(?:editor|merge|pager|remotecmd|ssh)[ \t]*=)"
    ),
    ".jj/repo/config.toml": r"command|editor|exec|formatter|pager|program|tool",
    ".config/mise.toml .config/mise/config.toml .mise.toml .mise/config.toml mise.local.toml mise.toml": (
        r"\bexec\(|\bhooks\b|(?:^|[.\[ \t])_[ \t]*[.=\]]"
    ),
    ".tool-versions": r"\bpath:",
    ".vscode/tasks.json": r"folderOpen",
    "_darcs/prefs/defaults": r"\S",
    _SERVERS: (
        r"\"command\"\s*:(?!\s*\"(?:bunx|docker|npx|pipx|podman|uvx)\")|"
        r"\"(?:[./~$]|[^\"]*\.(?:[cm]?[jt]s|py|rb|sh)\")"
    ),
}
_BY_NAME = {name: re.compile(telling, re.MULTILINE) for names, telling in _TELLING.items() for name in names.split()}
_FILES = sorted({*_BY_NAME, *_SHELL_FILES})


def starting_files(names: Container[str]) -> Iterator[str]:
    """Paths of such files as a folder may have by the names in it."""
    return (file for file in _FILES if file.partition("/")[0] in names)


def file_may_start(file: str, text: str, top: str) -> bool:
    """Whether such a file may start something of the project.

    Args:
        file: Its path in its folder.
        text: What it says.
        top: The project's root, absolute.
    """
    if file in _SHELL_FILES:
        return not starts_known(text, top)
    return _BY_NAME[file].search(text) is not None
