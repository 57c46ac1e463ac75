"""Git on the host, for the person's repository and for what came out of a box: it runs nothing that either names.

No hook, no file system monitor and no way of fetching; nothing is asked back. In a repository of our own neither the
system's settings nor the person's count.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kagura_kernel.membrane.names import shown

_SECONDS = 60.0
_CALM = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "protocol.allow=never", "gc.auto=0"),
    *(
        "maintenance.auto=false",
        "transfer.fsckObjects=true",
        "core.attributesFile=/dev/null",
        "submodule.recurse=false",
    ),
)
_FOR_ALL = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_ALLOC_LIMIT": "1g",
    "LC_ALL": "C",
}
_AT_ONCE = 16 * 2**20
"""Bytes of objects that are read in one go, unless a single one is larger."""


class GitFailed(Exception):
    """Git said no; the text is the last line that it said. Never shown to people as it is."""


@dataclass(frozen=True, slots=True)
class TreeChange:
    """One path in which two trees differ; a side that has nothing there has the mode 0."""

    path: str
    old_mode: int
    new_mode: int
    old: str  # Hash of the object
    new: str


class Git:
    """Git in one folder.

    Args:
        directory: Where it runs.
        environment: The variables that it sees, beside ours.
    """

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory
        self._environment = {**environment, **_FOR_ALL}

    def run(self, *words: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        """What it prints; blocks.

        Raises:
            GitFailed: it is not there, said no, or took too long.
        """
        settings = [word for setting in _CALM for word in ("-c", setting)]
        program = shutil.which("git", path=self._environment.get("PATH")) or "git"
        try:
            done = subprocess.run(  # noqa: S603 - our own words
                [program, *settings, *words],
                cwd=self.directory,
                env={**self._environment, **(env or {})},
                input=stdin,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
                start_new_session=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise GitFailed(str(error)) from error
        if done.returncode:
            lines = os.fsdecode(done.stderr).strip().splitlines()
            raise GitFailed(shown(lines[-1]) if lines else f"exit code {done.returncode}")
        return done.stdout

    def said(self, *words: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> str:
        """The same as one text without the line end; empty where git says no."""
        try:
            return os.fsdecode(self.run(*words, stdin=stdin, env=env)).rstrip("\n")
        except GitFailed:
            return ""

    def commit_at(self, ref: str) -> str:
        """The commit that a name stands for; empty for none."""
        return self.said("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether one commit leads to the other."""
        try:
            self.run("merge-base", "--is-ancestor", older, newer)
        except GitFailed:
            return False
        return True

    def differs(self, old: str, new: str) -> list[TreeChange]:
        """In what two commits or trees differ; an empty `old` is nothing. Raises `GitFailed`."""
        before = old or self.said("hash-object", "-t", "tree", "--stdin")
        words = os.fsdecode(self.run("diff-tree", "-r", "-z", "--no-renames", before, new)).split("\0")
        found = []
        for head, path in zip(words[::2], words[1::2], strict=False):
            old_mode, new_mode, old_id, new_id, _ = head.lstrip(":").split(" ")
            found.append(TreeChange(path, int(old_mode, 8), int(new_mode, 8), old_id, new_id))
        return found

    def sizes(self, ids: Sequence[str]) -> dict[str, int]:
        """Bytes of each object that is there. Raises `GitFailed`."""
        lines = self.run("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin="\n".join(ids).encode())
        found = (line.split(" ", 1) for line in lines.decode().splitlines())
        return {name: int(size) for name, size in found if size.isdecimal()}

    def contents(self, sizes: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
        """Each object with its content, some at a time. Raises `GitFailed`."""
        waiting, weight = list[str](), 0
        for name, size in sizes.items():
            if waiting and weight + size > _AT_ONCE:
                yield from self._read(waiting)
                waiting, weight = [], 0
            waiting.append(name)
            weight += size
        yield from self._read(waiting)

    def _read(self, ids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        if not ids:
            return
        told = self.run("cat-file", "--batch=%(objectname) %(objectsize)", stdin="\n".join(ids).encode())
        start = 0
        for _ in ids:
            end = told.index(b"\n", start)
            name, size = told[start:end].decode().split(" ")
            start = end + 1 + int(size) + 1
            yield name, told[end + 1 : start - 1]


@dataclass(frozen=True, slots=True)
class Repository:
    """The repository of a project, whose `.git` lies in it."""

    git: Git
    folder: Path  # Its `.git`
    objects: Path
    shallow: Path  # Says where its history is cut off; may not be there
    hashes: str  # Which hashes it has: `sha1` or `sha256`

    def tips(self) -> list[str]:
        """All commits and tags that it names by now; blocks."""
        named = self.git.said("for-each-ref", "--format=%(objectname)").split()
        return list(dict.fromkeys(filter(None, (*named, self.git.commit_at("HEAD")))))


_PLACES = ("--absolute-git-dir", "--git-path", "objects", "--git-path", "shallow", "--show-object-format")


def repository_of(project: Path, environment: Mapping[str, str]) -> Repository | None:
    """The project's own repository; None where it has none, one that lies elsewhere, or one that git does not trust."""
    folder = project / ".git"
    if folder.is_symlink() or not folder.is_dir():
        return None
    git = Git(project, {**environment, "GIT_CEILING_DIRECTORIES": str(project.parent)})
    places = git.said("rev-parse", *_PLACES).splitlines()
    if len(places) != 4 or Path(places[0]) != folder:  # noqa: PLR2004 - as many as were asked for
        return None
    return Repository(git, folder, project / places[1], project / places[2], places[3])
