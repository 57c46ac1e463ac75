"""Commits that come out of a box: read in a repository of our own, which has nothing of the box but objects.

A bundle is the box's word. Its objects are checked by git (`index-pack --strict`, which refuses a path such as `..` or
`.git`) in an empty repository that lives as long as it is looked at. The project's objects can be read there; its
settings, and those of the box, have no say.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from kagura_kernel.domain.commits import Commit, CommittedBranch
from kagura_kernel.domain.outcome import ChangeStatus, FileChange
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.change_apply import OLD_HOLDS_LEASED
from kagura_kernel.membrane.changes import (
    HOLDS_LEASED,
    MAX_DIFF_BYTES,
    MAX_DIFF_INPUT,
    MAX_RUN_DIFF_SECONDS,
    is_text,
    not_shown,
    size_of,
    unified_diff,
)
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.membrane.git import MOST_LISTED, Git, GitFailed, Repository, TreeChange
from kagura_kernel.membrane.protection import runs_by_itself

MAX_BUNDLE = 64 * 2**20
"""Bytes of all commits of a run as they come out of its box."""

MAX_UNPACKED = 256 * 2**20
"""Bytes of all their objects, unpacked."""

MAX_BRANCHES = 20
MAX_COMMITS = 100
MAX_FILES = 200
MAX_MESSAGE = 4096
MAX_AUTHOR = 200
"""What is told: branches of a run, commits of a branch, files of a commit, characters of its message and author."""

MAX_ALL_FILES = 1000
MAX_DIFFS = 512 * 1024
"""Of one branch: files, and bytes of their differences."""

MAX_RUNS = 20
"""Of what is not told of a branch: files that run by themselves."""

LINK, SUBMODULE = 0o120000, 0o160000
_HEAD = re.compile(rb"# v[23] git bundle\n((?:[^\n]+\n)*)\n")
_REF = re.compile(rb"([0-9a-f]{40,64}) (HEAD|refs/heads/[^\n]+)")


class Quarantine:
    """A bare repository of ours, below a folder that is thrown away."""

    def __init__(self, place: Path, repository: Repository) -> None:
        own = {"PATH": os.defpath, "HOME": str(place), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        self._repository = repository
        folder = place / "repository"
        Git(place, own).run("init", "-q", "--bare", "--template=", f"--object-format={repository.hashes}", str(folder))
        self.git = Git(folder, {**own, "GIT_DIR": str(folder)})
        (folder / "objects" / "info" / "alternates").write_bytes(os.fsencode(repository.objects.resolve()) + b"\n")
        if repository.shallow.is_file():
            shutil.copyfile(repository.shallow, folder / "shallow")

    def take(self, bundle: bytes) -> dict[str, str]:
        """Check and unpack what came: the last commit of each branch, by name; an empty name is that of none.

        Raises:
            GitFailed: it is no bundle, builds on what the project does not have, or git refuses an object of it; or
                a branch ends with what is no commit.
        """
        head = _HEAD.match(bundle)
        if head is None:
            raise GitFailed("what came is no bundle")
        size = f"--max-input-size={MAX_BUNDLE}"
        self.git.run("index-pack", "--stdin", "--fix-thin", "--strict", size, stdin=bundle[head.end() :])
        refs = (found.groups() for line in head[1].splitlines() if (found := _REF.fullmatch(line)))
        heads = {_branch(os.fsdecode(name)): commit.decode() for commit, name in refs}
        if any(self.git.commit_at(commit) != commit for commit in heads.values()):
            raise GitFailed("a branch ends with what is no commit")
        return heads

    def bundle(self, heads: Mapping[str, str]) -> bytes:
        """The same branches without whatever else came with them, which nobody has looked at. Raises `GitFailed`."""
        head = "".join(f"{commit} {f'refs/heads/{name}' if name else 'HEAD'}\n" for name, commit in heads.items())
        asked = "\n".join([*heads.values(), *(f"^{tip}" for tip in self._repository.tips())])
        pack = self.git.run("pack-objects", "--revs", "--thin", "--stdout", "-q", stdin=f"{asked}\n".encode())
        return os.fsencode(f"# v2 git bundle\n{head}\n") + pack

    def new(self, heads: Collection[str]) -> list[str]:
        """All objects that lead to these commits and that the project does not have. Raises `GitFailed`."""
        asked = [*heads, *(f"^{tip}" for tip in self._repository.tips())]
        return [words[0] for words in self._listed(("--objects", "--no-object-names"), asked)]

    def ahead(self, head: str, tip: str = "") -> list[list[str]]:
        """The commits that a branch lacks of those that lead to this one, the first one first, each with its parents.

        Those that only other branches of the project have are among them: what it would get is all of them. Where it
        is nowhere yet, it is what the project does not have. Raises `GitFailed`.
        """
        asked = [head, *(f"^{one}" for one in ([tip] if tip else self._repository.tips()))]
        return self._listed(("--topo-order", "--reverse", "--parents"), asked)

    def changed(self, commit: str, parents: Sequence[str]) -> list[TreeChange]:
        """In what a commit differs from any of its parents. Raises `GitFailed`.

        From each: a merge may leave out all that one of them has, and only the other one shows it.
        """
        found = (one for parent in (parents or ("",)) for one in self.git.differs(parent, commit))
        return list(dict.fromkeys(found))

    def _listed(self, how: Sequence[str], asked: Sequence[str]) -> list[list[str]]:
        words = ("rev-list", "--ignore-missing", *how, "--stdin")
        lines = self.git.run(*words, stdin="\n".join(asked).encode(), limit=MOST_LISTED)
        return [os.fsdecode(line).split(" ") for line in lines.splitlines()]


def _branch(ref: str) -> str:
    return "" if ref == "HEAD" else ref.removeprefix("refs/heads/")


@contextmanager
def quarantine(blobs: BlobStore, repository: Repository) -> Iterator[Quarantine]:
    """One that is gone afterwards. Raises `GitFailed`, also where the disk is full."""
    with blobs.scratch() as place:
        try:
            made = Quarantine(place, repository)
        except OSError as error:
            raise GitFailed(error.strerror or "the disk cannot be written") from error
        yield made


def told_commits(
    bundle: bytes,
    wanted: Collection[str],
    repository: Repository,
    blobs: BlobStore,
    scrubber: Scrubber | None = None,
    is_package: Callable[[str], bool] = lambda _: False,
) -> list[CommittedBranch]:
    """The branches that are wanted of a bundle, with their commits, which are kept. Blocks.

    Where anything in it holds a live secret, nothing is kept, and no commit is told.

    Raises:
        GitFailed: the bundle cannot be believed, or is too large unpacked.
        JournalUnwritable: it cannot be kept.
    """
    with quarantine(blobs, repository) as place:
        heads = {name: head for name, head in place.take(bundle).items() if name in wanted}
        sizes = place.git.sizes(place.new(heads.values()))
        if sum(sizes.values()) > MAX_UNPACKED:
            raise GitFailed(f"they are more than {MAX_UNPACKED // 2**20} MiB unpacked")
        if _holds(scrubber, heads, place.git.contents(sizes)):
            return [CommittedBranch(name, head, reason=HOLDS_LEASED) for name, head in _unnamed(scrubber, heads)]
        kept = blobs.hold(place.bundle(heads))
        tips = {name: repository.git.commit_at(f"refs/heads/{name}" if name else "HEAD") for name in heads}
        told = [
            _Reader(place, is_package, scrubber).branch(name, head, tips[name], kept) for name, head in heads.items()
        ]
        return [branch for branch in told if branch.commits]


def _holds(scrubber: Scrubber | None, heads: Mapping[str, str], contents: Iterator[tuple[str, bytes]]) -> bool:
    if scrubber is None or not scrubber.for_text():
        return False
    return any(scrubber.holds(os.fsencode(name)) for name in heads) or any(scrubber.holds(data) for _, data in contents)


def _unnamed(scrubber: Scrubber | None, heads: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, head in heads.items():
        yield (scrubber.scrub(name) if scrubber is not None else name), head


class _Reader:
    """Makes what is told of one branch."""

    def __init__(self, place: Quarantine, is_package: Callable[[str], bool], scrubber: Scrubber | None) -> None:
        self._place, self._git, self._scrubber = place, place.git, scrubber
        self._is_package = is_package
        self._files_left, self._room, self._seconds = MAX_ALL_FILES, MAX_DIFFS, MAX_RUN_DIFF_SECONDS

    def branch(self, name: str, head: str, tip: str, bundle: str) -> CommittedBranch:
        commits = self._place.ahead(head, tip)
        told = tuple(self._commit(*words) for words in commits[:MAX_COMMITS])
        left = len(commits) - len(told)
        is_whole = not left and not any(one.files_left for one in told)
        runs = () if is_whole else self._untold(told, head, commits[0][1:])
        return CommittedBranch(name, head, bundle, told, left, runs)

    def _untold(self, told: Sequence[Commit], head: str, parents: Sequence[str]) -> tuple[str, ...]:
        """What of all that a branch changes runs by itself, and stands in no commit that is told."""
        named = {file.path for one in told for file in one.files}
        found = (one.path for one in self._place.changed(head, parents) if one.path not in named and self._runs(one))
        return tuple(islice(found, MAX_RUNS))

    def _commit(self, commit: str, *parents: str) -> Commit:
        told = self._git.run("cat-file", "commit", commit).decode("utf-8", "replace")
        head, _, message = told.partition("\n\n")
        author = next((line for line in head.split("\n") if line.startswith("author ")), "author ")
        # Of many files those that run by themselves are told.
        files = sorted(self._place.changed(commit, parents), key=lambda one: not self._runs(one))
        shown = files[: min(MAX_FILES, self._files_left)]
        self._files_left -= len(shown)
        return Commit(
            commit,
            # What follows the address is the time.
            author.removeprefix("author ").rpartition(">")[0][:MAX_AUTHOR] + ">",
            message.strip()[:MAX_MESSAGE],
            tuple(self._files(shown)),
            len(files) - len(shown),
            merges=len(parents) > 1,
        )

    def _files(self, files: Sequence[TreeChange]) -> Iterator[FileChange]:
        blobs = {name for one in files for name, mode in sides(one) if mode != SUBMODULE}
        sizes = {name: size for name, size in self._git.sizes(sorted(blobs)).items() if size <= MAX_DIFF_INPUT}
        contents = {**dict(self._git.contents(sizes)), "": b""}
        for one in files:
            texts = [
                contents.get(name if mode else "") for name, mode in ((one.old, one.old_mode), (one.new, one.new_mode))
            ]
            yield self._file(one, *texts)

    def _file(self, one: TreeChange, old: bytes | None, new: bytes | None) -> FileChange:
        status: ChangeStatus = "deleted" if not one.new_mode else "modified" if one.old_mode else "added"
        binary, diff = old is None or new is None or not is_text(old) or not is_text(new), ""
        if old is not None and new is not None and not binary:
            is_room, began = self._room >= MAX_DIFF_BYTES and self._seconds > 0, time.thread_time()
            diff = unified_diff(one.path, old, new) if is_room else not_shown(len(old), len(new))
            if self._scrubber is not None and self._scrubber.holds(old):
                diff = OLD_HOLDS_LEASED
            self._room -= size_of(diff)
            self._seconds -= time.thread_time() - began
        return FileChange(
            one.path,
            status,
            "link" if one.new_mode == LINK else "file",
            mode=one.new_mode & 0o777,
            diff=diff,
            binary=binary,
            runs=self._runs(one),
            reason="a submodule, whose own commits stay in the box"
            if SUBMODULE in (one.old_mode, one.new_mode)
            else "",
        )

    def _runs(self, one: TreeChange) -> str:
        is_added = bool(one.new_mode) and not one.old_mode
        return runs_by_itself(one.path, added=is_added, is_package=self._is_package)


def sides(one: TreeChange) -> list[tuple[str, int]]:
    """Object and mode of each side that has something there."""
    return [(name, mode) for name, mode in ((one.old, one.old_mode), (one.new, one.new_mode)) if mode]
