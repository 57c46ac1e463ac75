"""Which files of a project git's hooks and aliases may run, by the words in them.

No shell is understood here: a script is called from whatever folder a line has gone to, through variables, quotes and
other programs. So a file counts where its path ends as a word does, and so does a module with a name that is imported.
That finds too much rather than too little: such a file is not refused, it waits for a word.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from kagura_kernel.membrane.names import folded_path

MAX_SCRIPTS = 100
"""How many files that are named, by a hook or by one of them in its turn, are read for what they name."""

MAX_BYTES = 64 * 1024
"""How much is read of each."""

_BETWEEN = re.compile(r"\$\{?\w+\}?|\$|[^\w./~@+%$-]+")
_BEFORE = re.compile(r"~?/+|\.\./")
# Modules by their name alone: that an interpreter is started with, that a text imports, or that a function is told.
_MODULES = re.compile(
    r"(?<![\w-])-(?:[mM]\s*|[A-Za-z]{1,4}[mM]\s+)([A-Za-z_]\w*)|"
    r"(?:^|[;:{])[ \t]*from[ \t]+(\w+)[\w.]*[ \t]+import\b|"
    r"(?:^|[;:{])[ \t]*import[ \t]+(\w[\w., \t]*)|"
    r"(?:^|[;:{])[ \t]*use[ \t]+(\w+)[^;\n]*;|"
    r"(?:\bimport\w*|\brequire(?:_relative)?)[ \t]*\(?[ \t]*[\"']([\w/]+)",
    re.MULTILINE,
)
# A path that an importer completes with an ending.
_RELATIVE = re.compile(r"\.{1,2}/[\w./@+-]*\w")
_STARTS = ("__main__.py", "index.js")
"""What an interpreter runs of a folder that it is given."""

_SCRIPT = re.compile(
    r"(?:[^.]+|.*\.(?:bash|cjs|js|lua|mjs|node|php|pl|pm|pyc?|rb|sh|so|ts|zsh)|\.pre-commit-config\.yaml)"
)
# What hooks name most, and nobody runs.
_SHOWN = re.compile(r".*\.(?:csv|jpe?g|md|pdf|png|rst|svg|tsv)")


class GitCalls:
    """What hooks and aliases name of files, and what those name in their turn. Grows; is asked by path."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._modules: set[str] = set()
        self._read: set[str] = set()

    def follow(self, lines: str, top: str, own: str) -> None:
        """Note what lines name, and what the scripts that they lead to name.

        Args:
            lines: Of a hook, or of a setting that runs something.
            top: Where they are carried out, absolute.
            own: The folder of the file that they are in, absolute.
        """
        inside = cache(_inside)
        waiting = [(lines, own)]
        for text, folder in waiting:
            words = set(_words(text))
            self._names.update(map(folded_path, words))

            def named(bases: Iterable[str], words: set[str] = words) -> set[str]:
                there = ((base, word) for base in bases for word in words if word.partition("/")[0] in inside(base))
                return {f"{base}/{word}" for base, word in there}

            # A line may go to any folder that it names before it calls something by a shorter path.
            folders = {top, folder, *filter(os.path.isdir, named((top, folder)))}
            modules = {os.path.normpath(f"{base}/{name}") for base in folders for name in _modules(text)}
            self._modules.update(map(folded_path, modules))
            found = named(folders) | {f"/{word}" for word in words if word.startswith(f"{top[1:]}/")}
            found |= {f"{base}/{name}" for base in folders - {top, folder} for name in _STARTS}
            for module in modules:
                parent, name = os.path.split(module)
                found |= {f"{parent}/{entry}" for entry in inside(parent) if entry.startswith(f"{name}.")}
                found |= {f"{module}/{entry}" for entry in inside(module)}
            waiting += self._unread(found)

    def may_run(self, path: str) -> bool:
        """Whether the file at an absolute path is one of them, there or not."""
        if not self._names and not self._modules:
            return False
        whole = folded_path(path)
        parts = whole.split("/")[1:]
        ends = {"/".join(parts[number:]) for number in range(len(parts))}
        # Of a name with blanks in it, the words have the last part.
        ends.update(list(_words(whole))[-1:])
        folder, _, name = whole.rpartition("/")
        pieces = name.split(".")
        beginnings = {"/" + "/".join(parts[:number]) for number in range(1, len(parts) + 1)}
        beginnings |= {f"{folder}/{'.'.join(pieces[:number])}" for number in range(1, len(pieces))}
        if _SHOWN.fullmatch(name):
            return False
        if not ends.isdisjoint(self._names):
            return True
        return _SCRIPT.fullmatch(name) is not None and not beginnings.isdisjoint(self._modules)

    def _unread(self, files: Iterable[str]) -> Iterator[tuple[str, str]]:
        """What such of these files begin with as are scripts and were not read before, and their folders."""
        for file in sorted(files):
            folder, name = os.path.split(file)
            if file in self._read or not _SCRIPT.fullmatch(name) or not Path(file).is_file():
                continue
            if len(self._read) >= MAX_SCRIPTS:
                return
            self._read.add(file)
            self._names.add(folded_path(os.path.realpath(file)[1:]))
            yield beginning(file), folder


def beginning(path: str) -> str:
    """What a file begins with; nothing of one that is no text, or cannot be read."""
    try:
        with Path(path).open("rb") as file:
            read = file.read(MAX_BYTES)
    except OSError:
        return ""
    return "" if b"\0" in read else os.fsdecode(read)


def _words(text: str) -> Iterator[str]:
    """Whatever may be a path, without what leads to its first folder."""
    for word in _BETWEEN.split(text):
        path = os.path.normpath(word) if word else ""
        while (before := _BEFORE.match(path)) is not None:
            path = path[before.end() :]
        if path.strip("."):
            yield path


def _modules(text: str) -> Iterator[str]:
    """What is imported, as paths without an ending; of a package its first folder."""
    for names in _MODULES.findall(text):
        for name in ",".join(names).split(","):
            yield from name.replace(".", " ").split()[:1]
    yield from _RELATIVE.findall(text)


def _inside(folder: str) -> frozenset[str]:
    try:
        return frozenset(path.name for path in Path(folder).iterdir())
    except OSError:
        return frozenset()
