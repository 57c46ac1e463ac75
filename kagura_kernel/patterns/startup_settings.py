"""What git, a shell and other tools would start by themselves, by a project's settings and hooks. Pure.

Nobody understands a shell from outside, so whatever is not plain counts as unknown: a program that is not on the list,
a name in a variable, a sourced file, a heredoc.

A hook may lie in the project, where an agent can have changed it, and so may whatever a setting names. Only settings
whose programs are found elsewhere, by a plain name, are known to be harmless.

Such a file waits for a word itself, or is protected by its name. What it starts may be any other file of the project.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kagura_kernel.domain.late_pattern import late_pattern

# The innermost one first; what it prints is a word like any other.
_SUBSTITUTED = late_pattern(r"\$\(([^()`]*)\)|`([^`()]*)`")
_MOST_SUBSTITUTED = 500
"""Of them in one text; with more it counts as unknown, since each costs a look at the whole."""
_COMMENT = late_pattern(r"^[ \t]*#.*$", re.MULTILINE)
_PIECE = late_pattern(
    r"(?P<gap>[ \t\r]+|\\\n|#[^\n]*)|(?P<into>(?:\d*[<>]|&>)[>&|]?)|(?P<end>[;&|()\n]+)|"
    r"(?P<word>(?:'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|\$\{[^}]*\}|[^\s;&|()<>`'\"\\])+)",
    re.DOTALL,
)
# From the beginning of a word alone: a file of one long word would be gone through once for each letter.
_FUNCTION = late_pattern(r"(?<![\w-])([\w-]+)[ \t]*\(\)")
_ASSIGNMENT = late_pattern(r"([A-Za-z_]\w*)\+?=.*", re.DOTALL)
# Variables that say what programs start, or where those are found.
_STEERING = late_pattern(
    r"(?:BASH_|GIT_|LD_|LESS\w|NODE_|PERL|PYTHON|RUBY).*|ENV|"
    r".*(?:COMMAND|CONFIG\w*|EDITOR|HOME|INIT|OPTIONS|OPTS|PAGER|PATH|RC|SHELL|VISUAL)"
)
_WORDS_BEFORE = "! builtin command do elif else exec export if local nohup readonly then time until while {"
_SYSTEM = late_pattern(r"/(?:usr|bin|sbin|opt|nix|snap|Applications)/(?:[^/]+/)*([^/]+)")
_GIT_PROGRAM = late_pattern(r"git-[\w-]+")
_PROGRAMS = """
    : [ [[ basename break case cat cd chmod cmp column comm continue cp cut date df diff dirname done du echo egrep esac
    exit expr false fgrep fi file fold for grep head hexdump hostname id less ln ls mkdir mktemp more mv nl od paste
    popd printf pushd pwd read readlink realpath return rev rm rmdir seq set shift sleep sort stat strings tac tail tee
    test touch tput tr true tty umask uname uniq unset wait wc which whoami xxd } awk gawk jq mawk sed
    bat bcompare code codium cursor delta diff-so-fancy difft emacs emacsclient gedit hx kak kate kdiff3 meld micro
    most nano notepad nvim nvimdiff opendiff p4merge subl tig vi vim vimdiff zed
    aws az gcloud gh glab gpg gpg2 gpgsm hub op-ssh-sign ssh ssh-keygen
    antiword catdoc docx2txt exiftool gunzip gzip identify nbstripout odt2txt open pandoc pdftotext plutil
    sqlite3 xdg-open xz zcat
"""
_BEFORE, _KNOWN = frozenset(_WORDS_BEFORE.split()), frozenset(_PROGRAMS.split())
_RISKY = late_pattern(r".*(?:[Cc]ommand|--exec)|--?(?:[\w-]*-)?(?:config|pager|plugin|program|rcfile|script)")
_LEAST_WORDS_OF_SQLITE = 2  # the database and a command; with the first alone it reads commands from its input
# Those that may take what to do from a file, and how they are told.
_HOOKS = r".*(?:\bhooks\b|\.git/)"
_TOLD = {
    "awk gawk mawk": (
        r"-[A-Za-z]*f|-[Eil]|--(?:exec|file|include|load)|.*(?:\bsystem[ \t]*\(|@(?:include|load)|"
        r"(?<![|'\"])\|&?[ \t]*(?:\\?\"[^\"|]|getline\b|[A-Za-z_]\w*[ \t]*[;}\n])|\|&?[ \t]*getline)"
    ),
    "cd cp ln mv pushd tee": _HOOKS,
    "emacs emacsclient": r"--?(?:f|funcall|l|load|script)(?:=|$)|.*\b(?:call-process|load(?:-file)?|shell-command)\b",
    "exiftool": r"-(?:config|if)|.*\b(?:do|eval|exec|require|system)\b",
    "gh": r"(?:alias|ext|extensions?)$",
    "jq": r"-[A-Za-z]*[fL]|--from|.*\b(?:import|include)\b",
    "kak": r"-[A-Za-z]*[Eef]",
    "less more": r"\+|-[A-Za-z]*k|--lesskey",
    "nano": r"-[A-Za-z]*[fs]|--speller",
    "nvim nvimdiff vi vim vimdiff": (
        r"-[A-Za-z]*[ESUelsu]|.*(?:!|\b(?:dofile|exe\w*|lua\w*|pyfile|ru(?:ntime)?|so(?:urce)?|system)\b)"
    ),
    "pandoc": r"-[A-Za-z]*[FLd]|--(?:defaults|filter|lua)|.*\.lua",
    "sed": (
        r"-[A-Za-z]*f|--file|(?:['\"]?|.*;[ \t]*)[\d$,]*e(?:[ \t]|['\"]?$)|"
        r"['\"]?s(?P<mark>\W).*(?P=mark)[\dIgip]*e[\dIgip]*['\"]?$"
    ),
    "sqlite3": r"--?init|.*(?:\.(?:load|read|shell|system)\b|\bload_extension\b)",
    "ssh": r"-[A-Za-z]*[FI]|.*(?i:command|include|provider)",
    "ssh-keygen": r"-[A-Za-z]*[Dw]",
}
_SCRIPTED = {name: late_pattern(telling, re.DOTALL) for names, telling in _TOLD.items() for name in names.split()}
_INTO_HOOKS = late_pattern(_HOOKS, re.DOTALL)
# What git runs later because a command has said so.
_SETS_WHAT_RUNS = late_pattern(
    r"['\"]?(?:alias|core(?!\.(?:autocrlf|bare|eol|filemode|ignorecase|quotepath|symlinks)\b)|credential|diff|difftool|"
    r"filter|gc|gpg|hook|include\w*|init|interactive|merge|mergetool|pager|sequence|submodule|trailer|uploadpack)\.",
    re.IGNORECASE,
)
_ASKS = late_pattern(r"get|list|unset|--(?:get|list|unset).*|-l")
_RISKY_FOR_GIT = late_pattern(r"foreach|run|filter-branch|-O|--(?:exe|extc|open|rece|sendm|templ|upl)")
_WITH_PLACE = frozenset({"-C", "--git-dir", "--namespace", "--work-tree"})


def starts_known(lines: str, top: str) -> bool:
    """Whether all that the lines start is known, and told to run nothing else.

    Args:
        lines: Of a script, an alias or a setting.
        top: The folder whose programs are not known, whatever they are called; absolute.
    """
    text = _COMMENT.sub("", lines)
    for _ in range(_MOST_SUBSTITUTED):
        inner = _SUBSTITUTED.search(text)
        if inner is None:
            return _starts_known(text, top)
        if not _starts_known(inner[1] or inner[2] or "", top):
            return False
        text = f"{text[: inner.start()]}_{text[inner.end() :]}"
    return False


def _starts_known(text: str, top: str) -> bool:
    commands: list[list[str]] = [[]]
    at, is_file = 0, False
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None or (is_file and piece.lastgroup in ("into", "end")):
            return False
        if is_file and _INTO_HOOKS.match(piece[0]):
            return False
        at = piece.end()
        if piece.lastgroup == "end":
            commands.append([])
        elif piece.lastgroup == "word" and not is_file:
            commands[-1].append(piece[0])
        if piece.lastgroup != "gap":
            is_file = piece.lastgroup == "into"
    own = set(_FUNCTION.findall(text))
    return all(_is_known(words, own, top) for words in commands)


def _is_known(words: Sequence[str], own: set[str], top: str) -> bool:
    at, is_option = 0, False
    while at < len(words) and (words[at] in _BEFORE or _sets_plainly(words[at]) or (is_option and words[at][0] == "-")):
        is_option = words[at] in _BEFORE or words[at][0] == "-"
        at += 1
    if at == len(words):
        return True
    name, told = words[at].strip("\"'"), words[at + 1 :]
    system = _SYSTEM.fullmatch(name)
    if system is not None and not name.startswith(f"{top}/"):
        name = system[1]
    if name == "git":
        return _is_plain_git(told)
    if name in own or _GIT_PROGRAM.fullmatch(name) is not None:
        return True
    if name == "sqlite3" and sum(not word.startswith("-") for word in told) < _LEAST_WORDS_OF_SQLITE:
        return False
    scripted = _SCRIPTED.get(name, _RISKY)
    return name in _KNOWN and not any(_RISKY.match(word) or scripted.match(word) for word in told)


def _sets_plainly(word: str) -> bool:
    name = _ASSIGNMENT.fullmatch(word)
    return name is not None and _STEERING.fullmatch(name[1]) is None


def _is_plain_git(told: Sequence[str]) -> bool:
    """Whether git is told to run nothing; a subcommand that is none of its own is an alias, or a program's name."""
    at = 0
    while at < len(told) and told[at].startswith("-"):
        if told[at].startswith(("-c", "--config", "--exec")):
            return False
        at += 2 if told[at] in _WITH_PLACE else 1
    name, further = "".join(told[at : at + 1]), told[at + 1 :]
    if any(map(_RISKY_FOR_GIT.match, told[at:])):
        return False
    if name == "clone" and any(re.match("-[a-z]*[cu]|--config", word) for word in further):
        return False
    if name == "config":
        return any(map(_ASKS.fullmatch, further)) or not _sets_what_runs(further)
    return name not in ("difftool", "rebase") or not any(re.match("-[a-z]*x", word) for word in further)


def _sets_what_runs(told: Sequence[str]) -> bool:
    """Whether `git config` is told a value, and not asked for one, of a setting that names what runs."""
    return any(_SETS_WHAT_RUNS.match(word) and at + 1 < len(told) for at, word in enumerate(told))


# Settings that name programs, or that change what is pushed and to where.
_TELLING = late_pattern(
    r"core\.(alternaterefscommand|askpass|fsmonitor|gitproxy|hookspath|sshcommand)|credential\.(.*\.)?helper|"
    r"filter\..*\.(clean|process|smudge)|gc\.recentobjectshook|gpg\.(.*\.)?(program|defaultkeycommand)|"
    r"hook\..*\.command|protocol\..*allow|push\..*|"
    r"remote\..*\.(mirror|push|receivepack|uploadpack|vcs)|"
    r"url\..*\.(insteadof|pushinsteadof)|uploadpack\..*|commit\.gpgsign|push\.gpgsign"
)
_HARMLESS = late_pattern(
    r"core\.fsmonitor=(true|false)|credential\.(.*\.)?helper=[A-Za-z0-9._-]*|"
    r"filter\.lfs\.(clean|process|smudge)=git-lfs [a-z-]+( -- %f)?|"
    r"push\.(autosetupremote|followtags)=(true|false)|push\.default=(simple|current|upstream|nothing)|commit\.gpgsign=false"
)
_REMOTE = late_pattern(r"remote\..*\.(push)?url")
_PUSHED_TO = late_pattern(r"branch\..*\.(push)?remote|remote\.pushdefault")
_SIGN_IN = late_pattern(r"//[^/]*@")
# A colon before the first slash is a host; see git-push, GIT URLS.
_ELSEWHERE = late_pattern(r"[^/]*:")


# Settings that name a file or a directory which git reads, and what of it is run.
_INCLUDED = late_pattern(r"include(if\..*)?\.path")
_PLACE = late_pattern(r"core\.(attributesfile|hookspath)|init\.templatedir")
# Settings that name nothing: their words may be those of any file.
_PROSE = late_pattern(r"(author|branch|color|committer|user)\..*")
# Settings that run what they name.
_RUNS = late_pattern(
    r"alias\..*|core\.(alternaterefscommand|askpass|editor|fsmonitor|gitproxy|pager|sshcommand)|"
    r"credential\.(.*\.)?helper|diff\.(external|.*\.(command|textconv))|filter\..*\.(clean|process|smudge)|"
    r"gc\.recentobjectshook|gpg\.(.*\.)?(program|defaultkeycommand)|hook\..*\.command|imap\.tunnel|instaweb\.httpd|"
    r"(browser|difftool|guitool|man|mergetool|tar|trailer)\..*\.(cmd|command|path)|"
    r"interactive\.difffilter|merge\..*\.driver|pager\..*|remote\..*\.(receivepack|uploadpack)|"
    r"sendemail\..*cmd|sequence\.editor|submodule\..*\.update|uploadpack\.packobjectshook"
)
# Values that start nothing, and names of programs that are found elsewhere and run nothing of where they are started.
_PLAIN = late_pattern(r"|true|false|yes|no|on|off|\d+")
_ALONE = late_pattern(r"(?:/(?:usr|bin|opt)/(?:[\w.+-]+/)*)?([\w+-][\w.+-]*)")
_RUNNER = late_pattern(r"(?:ba|c|da|fi|k|tc|z|)sh|(?:python|node|npm|npx|perl|php|ruby|make|just|rake|tox|uv|env).*")
_SHELL = late_pattern(r"#![ \t]*/\S*?/(?:env[ \t]+)?(?:ba|da|k|z|)sh(?:[ \t]+-[a-z]+)*[ \t\r]*")
# Modules that an interpreter looks for where it is started, which is the root of the working tree.
_MODULE = late_pattern(r"(?<![\w-])-(?:[mM]\s*|[A-Za-z]{1,4}[mM]\s+)([A-Za-z_]\w*)")
_SCRIPT = late_pattern(r".*\.(?:bash|cjs|js|mjs|php|pl|py|rb|sh|ts|zsh)|(?:[^/]*/)+[^/.]+")
_WORD_ENDS = late_pattern(r"[\s;&|()<>\"'`$={}!]+")


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
        file = posixpath.normpath(posixpath.join(top, place)) if kind == "file" else ""
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


def push_addresses(settings: Sequence[GitSetting], top: str) -> frozenset[str]:
    """Where a push may go: every address that is set, without what signs in there, and a path as a whole.

    Which of the remotes a bare `git push` means depends on the branch, so all of them count.
    """
    remotes = {setting.value for setting in settings if _REMOTE.fullmatch(setting.name)}
    chosen = {setting.value for setting in settings if _PUSHED_TO.fullmatch(setting.name)}
    addresses = remotes | {value for value in chosen if "/" in value or ":" in value}
    return frozenset(_local(address, top) or _SIGN_IN.sub("//", address) for address in addresses)


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
        base = posixpath.dirname(setting.file) if included else top
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
            yield posixpath.normpath(_from(posixpath.dirname(setting.file), setting.value, home))


def hook_folders(settings: Iterable[GitSetting], top: str, home: str) -> Iterator[str]:
    """Absolute paths of where hooks lie by these settings, as they hold here or might elsewhere."""
    for setting in settings:
        if setting.name == "core.hookspath":
            yield posixpath.normpath(_from(top, setting.value, home))


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
        module = posixpath.join(top, name)
        yield from (module, f"{module}.py", f"{module}.pm")
    for word in _WORD_ENDS.split(commands):
        path = posixpath.normpath(posixpath.join(top, word))
        if _SCRIPT.fullmatch(word) and is_file(path):
            yield path


def _from(base: str, path: str, home: str) -> str:
    path = f"{home}{path[1:]}" if path.startswith("~/") else path
    return posixpath.join(base, path)


def _local(url: str, top: str) -> str:
    """Where a remote lies on this machine; empty for one that is elsewhere."""
    place = url.removeprefix("file://")
    if place == url and _ELSEWHERE.match(url):
        return ""
    return posixpath.normpath(posixpath.join(top, place))


def _lies_in(file: str, directory: str) -> bool:
    return file == directory or file.startswith(f"{directory}/")


_SHELL_FILES = frozenset({".envrc"})
_SERVERS = """
    .claude/settings.json .claude/settings.local.json .codex/hooks.json .crush.json .cursor/hooks.json .cursor/mcp.json
    .gemini/settings.json .kiro/settings/mcp.json .mcp.json .qwen/settings.json .vscode/mcp.json crush.json mcp.json
    opencode.json
"""
# What shows, by the names of the files, that something is started.
_STARTING = {
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
_BY_NAME = {name: late_pattern(telling, re.MULTILINE) for names, telling in _STARTING.items() for name in names.split()}
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
