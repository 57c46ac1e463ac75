"""Whether lines of a shell start nothing but programs that are known to run nothing of a project. Pure.

Nobody understands a shell from outside, so whatever is not plain counts as unknown: a program that is not on the list,
a name in a variable, a sourced file, a heredoc.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# The innermost one first; what it prints is a word like any other.
_SUBSTITUTED = re.compile(r"\$\(([^()`]*)\)|`([^`()]*)`")
_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_PIECE = re.compile(
    r"(?P<gap>[ \t\r]+|\\\n|#[^\n]*)|(?P<into>(?:\d*[<>]|&>)[>&|]?)|(?P<end>[;&|()\n]+)|"
    r"(?P<word>(?:'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|\$\{[^}]*\}|[^\s;&|()<>`'\"\\])+)",
    re.DOTALL,
)
_FUNCTION = re.compile(r"([\w-]+)[ \t]*\(\)")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=.*", re.DOTALL)
# Variables that say what programs start, or where those are found.
_STEERING = re.compile(
    r"(?:BASH_|GIT_|LD_|LESS\w|NODE_|PERL|PYTHON|RUBY).*|ENV|"
    r".*(?:COMMAND|CONFIG\w*|EDITOR|HOME|INIT|OPTIONS|OPTS|PAGER|PATH|RC|SHELL|VISUAL)"
)
_WORDS_BEFORE = "! builtin command do elif else exec export if local nohup readonly then time until while {"
_SYSTEM = re.compile(r"/(?:usr|bin|sbin|opt|nix|snap|Applications)/(?:[^/]+/)*([^/]+)")
_GIT_PROGRAM = re.compile(r"git-[\w-]+")
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
_RISKY = re.compile(r".*(?:[Cc]ommand|--exec)|--?(?:[\w-]*-)?(?:config|pager|plugin|program|rcfile|script)")
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
_SCRIPTED = {name: re.compile(telling, re.DOTALL) for names, telling in _TOLD.items() for name in names.split()}
_INTO_HOOKS = re.compile(_HOOKS, re.DOTALL)
# What git runs later because a command has said so.
_SETS_WHAT_RUNS = re.compile(
    r"['\"]?(?:alias|core(?!\.(?:autocrlf|bare|eol|filemode|ignorecase|quotepath|symlinks)\b)|credential|diff|difftool|"
    r"filter|gc|gpg|hook|include\w*|init|interactive|merge|mergetool|pager|sequence|submodule|trailer|uploadpack)\.",
    re.IGNORECASE,
)
_ASKS = re.compile(r"get|list|unset|--(?:get|list|unset).*|-l")
_RISKY_FOR_GIT = re.compile(r"foreach|run|filter-branch|-O|--(?:exe|extc|open|rece|sendm|templ|upl)")
_WITH_PLACE = frozenset({"-C", "--git-dir", "--namespace", "--work-tree"})


def starts_known(lines: str, top: str) -> bool:
    """Whether all that the lines start is known, and told to run nothing else.

    Args:
        lines: Of a script, an alias or a setting.
        top: The folder whose programs are not known, whatever they are called; absolute.
    """
    text = _COMMENT.sub("", lines)
    while (inner := _SUBSTITUTED.search(text)) is not None:
        if not _starts_known(inner[1] or inner[2] or "", top):
            return False
        text = f"{text[: inner.start()]}_{text[inner.end() :]}"
    return _starts_known(text, top)


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
