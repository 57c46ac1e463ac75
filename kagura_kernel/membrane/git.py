"""Git on the host, for the person's repository and for what came out of a box: it runs nothing that either names.

No hook, no file system monitor and no way of fetching; nothing is asked back. In a repository of our own neither the
system's settings nor the person's count.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.membrane.names import shown

_SECONDS = 60.0
_SECONDS_IN_ALL = 300.0
_MEMORY = 2 * 2**30
_MOST_SAID = 512 * 2**20
_LAST_SAID = 4096
MOST_LISTED = 32 * 2**20
"""Bytes of a list of files or commits: a few objects can be made to stand for more files than any memory holds."""

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
_LONGEST_NAME = 255
"""Bytes of a file's name, as file systems have it; to compare a much longer one with protected names takes hours."""


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
    """Git in one folder, for one task: all that it is asked has one time.

    Args:
        directory: Where it runs.
        environment: The variables that it sees, beside ours.
    """

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory
        self._environment = {**environment, **_FOR_ALL}
        self._until = time.monotonic() + _SECONDS_IN_ALL

    def run(
        self, *words: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, limit: int = _MOST_SAID
    ) -> bytes:
        """What it prints, of so many bytes at most; blocks.

        Raises:
            GitFailed: it is not there, said no, or took too long, too much memory or too many words.
        """
        settings = [word for setting in _CALM for word in ("-c", setting)]
        program = shutil.which("git", path=self._environment.get("PATH")) or "git"
        try:
            with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as wrong:
                told.write(stdin)
                told.seek(0)
                with subprocess.Popen(  # noqa: S603 - our own words
                    [program, *settings, *words],
                    cwd=self.directory,
                    env={**self._environment, **(env or {})},
                    stdin=told,
                    stdout=subprocess.PIPE,
                    stderr=wrong,
                    start_new_session=True,
                ) as process:
                    said = self._heard(process, limit)
                if process.returncode:
                    size = wrong.seek(0, os.SEEK_END)
                    wrong.seek(max(0, size - _LAST_SAID))
                    raise GitFailed(_why(process.returncode, os.fsdecode(wrong.read())))
        except (OSError, subprocess.SubprocessError) as error:
            raise GitFailed(str(error)) from error
        return said

    def _heard(self, process: subprocess.Popen[bytes], limit: int) -> bytes:
        timer = threading.Timer(min(_SECONDS, self._until - time.monotonic()), process.kill)
        timer.start()
        try:
            # It may have ended already.
            with contextlib.suppress(OSError):
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
            said = process.stdout.read(limit + 1) if process.stdout is not None else b""
            if len(said) > limit:
                raise GitFailed(f"they are more than {limit // 2**20} MiB of names or contents")
            process.wait()
            return said
        finally:
            timer.cancel()
            process.kill()

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
        told = self.run("diff-tree", "-r", "-z", "--no-renames", before, new, limit=MOST_LISTED)
        words = os.fsdecode(told).split("\0")
        found = []
        for head, path in zip(words[::2], words[1::2], strict=False):
            if max(map(len, os.fsencode(path).split(b"/"))) > _LONGEST_NAME:
                raise GitFailed(f"a file has a name of more than {_LONGEST_NAME} bytes")
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


def _why(code: int, wrong: str) -> str:
    if code == -signal.SIGKILL:
        return "it took too long"
    lines = wrong.strip().splitlines()
    if not lines:
        return f"exit code {code}"
    # What follows is advice.
    return shown(next((line for line in lines if line.startswith(("fatal: ", "error: "))), lines[-1]))


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
