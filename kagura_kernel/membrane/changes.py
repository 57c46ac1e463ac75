"""From a box's workspace to a list of changes that a person can read and decide on, their contents and differences.

What a box says about its files is the box's word: paths are checked, contents are taken as they come and named by their
hash here, sizes are bounded here. Nothing of the project is touched. What a difference leaves out is said in its last
line, so that nobody takes a part for the whole.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import os
import time
from collections.abc import AsyncIterator, Container, Iterable, Mapping, Sequence
from typing import Literal

from kagura_kernel.domain.errors import BoxFileError, WorkspaceTooLarge
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass, field, replace
from kagura_kernel.domain.outcome import ChangeState, ChangeStatus, FileChange, in_order
from kagura_kernel.domain.tools import FileSystem
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.change_apply import OLD_HOLDS_LEASED
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.membrane.names import shown
from kagura_kernel.membrane.project import HostState, ProjectFiles, UnsafePath, link_hash, split_path
from kagura_kernel.membrane.protection import GitRules, Protection, called_by, is_data, present, runs_by_itself
from kagura_kernel.sandbox.backend import Box, BoxChange

MAX_DIFF_INPUT = 512 * 1024
"""Bytes of either side beyond which no diff is made."""

MAX_DIFF_LINES = 2000
"""Lines of a diff that are kept; what is left out is counted."""

MAX_DIFF_BYTES = 32 * 1024
"""Bytes of UTF-8 in one file's diff, the last line included."""

MAX_RUN_DIFF_BYTES = 4 * 2**20
"""Bytes of UTF-8 in the diffs of one run, but for the single line that stands for each diff left out."""

MAX_RUN_DIFF_SECONDS = 60.0
"""Seconds of work on the diffs of one run: two texts may be made so that comparing them takes long."""

_SLOW_LINES = 20_000
_LAST_LINE = 256
_NO_NEWLINE = "\\ No newline at end of file\n"


def is_text(content: bytes) -> bool:
    """Whether a content reads as text: UTF-8 without NUL."""
    if b"\0" in content:
        return False
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def unified_diff(path: str, old: bytes, new: bytes, *, limit: int = MAX_DIFF_BYTES) -> str:
    """A unified diff of two texts; empty when they are equal.

    At most `MAX_DIFF_LINES` lines and `limit` bytes; a line that is cut is marked, and the last line counts what is
    left out. Control characters of the path are written out.
    """
    if old == new:
        return ""
    before, after = old.decode("utf-8").splitlines(keepends=True), new.decode("utf-8").splitlines(keepends=True)
    name = shown(path)
    head = [f"--- a/{name}\n", f"+++ b/{name}\n"]
    if size_of("".join(head)) > limit - _LAST_LINE:
        return not_shown(len(old), len(new))
    if len(before) + len(after) > _SLOW_LINES:
        told = f"@@ {len(before)} lines before, {len(after)} lines after: too many to compare @@\n"
        return "".join([*head, told])
    body = list(difflib.unified_diff(before, after, "a", "b"))[2:]
    return _bounded(head, body, limit - _LAST_LINE)


def not_shown(before: int, after: int) -> str:
    """What stands for a diff for which there is no room; the sizes are bytes."""
    return f"… no diff is shown, there is no room left for it: {before:,} bytes before, {after:,} bytes after\n"


def size_of(text: str) -> int:
    """Bytes that a text takes in UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


def _bounded(head: list[str], body: Iterable[str], limit: int) -> str:
    kept = list(head)
    room = limit - size_of("".join(head))
    missing_lines = missing_bytes = 0
    for line in body:
        whole = line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}"
        size = size_of(whole)
        if not missing_lines and size <= room and len(kept) < MAX_DIFF_LINES:
            kept.append(whole)
            room -= size
            continue
        if not missing_lines and len(kept) < MAX_DIFF_LINES:
            beginning = line.encode("utf-8")[:room].decode("utf-8", "ignore")
            missing = size_of(line) - size_of(beginning)
            kept.append(f"{beginning} … {missing:,} bytes of this line are left out …\n" if beginning else "")
            size = missing
        missing_lines += 1
        missing_bytes += size
    if missing_lines:
        kept.append(
            f"… {missing_lines:,} lines left out in whole or in part, {missing_bytes:,} bytes: this is not all\n"
        )
    return "".join(kept)


_PIECE = 1 << 20


class SecretFound(Exception):
    """A content holds a live secret; nothing of it is kept."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One content that is stored."""

    sha256: str  # Its name in the store
    size: int  # Bytes, as they came
    content: bytes | None  # The bytes, if they are few enough for a diff
    is_script: bool = False  # Whether they name what runs them


@dataclass(eq=False, repr=False)
class Contents:
    """Takes the contents of one run, however often it is asked."""

    blobs: BlobStore  # Where they go
    limit_bytes: int  # What the run may store in all. A content that it has stored before costs nothing.
    scrubber: Scrubber | None = None  # Knows the secrets that no stored content may hold

    def __post_init__(self) -> None:
        self._stored = 0
        self._known: set[str] = set()
        self._sizes: dict[str, int] = {}

    async def take(self, files: FileSystem, told: BoxChange) -> Taken:
        """Read and store one file; what a box tells of its size is the most that is read.

        Raises:
            BoxFileError: it cannot be read, or has grown since it was told; nothing of it is kept.
            WorkspaceTooLarge: the run has stored as much as it may.
            SecretFound: it holds a live secret.
        """
        kept = bytearray()
        most = max(0, told.size)
        digest = hashlib.sha256()
        search = self.scrubber.search() if self.scrubber is not None else None
        # Probably what is stored already; only its hash can tell, at its end.
        looks_known = self._sizes.get(told.path) == most

        async def pieces() -> AsyncIterator[bytes]:
            offset = 0
            ended = False
            while not ended:
                asked = min(_PIECE, most - offset + 1)
                piece = await files.read(told.path, offset=offset, limit=asked)
                if search is not None and search.feed(piece):
                    raise SecretFound
                digest.update(piece)
                offset += len(piece)
                if offset > most:
                    raise BoxFileError(told.path, "EFBIG", "it grew while it was read")
                # Less than was asked for is the end, so that a small file takes one question.
                ended = len(piece) < asked
                is_new = digest.hexdigest() not in self._known if ended else not looks_known
                if is_new and self._stored + offset > self.limit_bytes:
                    raise WorkspaceTooLarge(told.path, self._stored + offset, self.limit_bytes)
                if len(kept) <= MAX_DIFF_INPUT:
                    kept.extend(piece[: MAX_DIFF_INPUT + 1 - len(kept)])
                yield piece

        sha256, size = await self.blobs.put(pieces())
        if sha256 not in self._known:
            self._known.add(sha256)
            self._stored += size
        self._sizes[told.path] = size
        return Taken(sha256, size, bytes(kept) if len(kept) <= MAX_DIFF_INPUT else None, kept.startswith(b"#!"))


MAX_GLANCES = 100
"""Protected files whose content is read in one collection, so that a person can see what was tried."""


HOLDS_LEASED = "it holds a leased credential"
"""The reason of a change that is protected because its name, its target or its content holds a live secret."""

AT_ONCE = 16
"""Files of the project that are looked at before the first of them is compared; their contents are in memory."""

SHORT = 8 * 1024
"""Bytes of both sides up to which a diff takes less than asking a thread for it."""

LEFT = "it was left in the box"
"""The reason of a change whose content was not brought out before something ended the collection."""


Ours = Mapping[str, Sequence[str]]
"""By path the hashes of what the project may have there by way of the runs in a box, the last one last; empty for
nothing."""


@dataclass(frozen=True, slots=True)
class _Compared:
    """A diff that has been told, and of what."""

    old_sha256: str
    new_sha256: str
    diff: str
    binary: bool


@dataclass(slots=True)
class _Round:
    """One collection: what it knows, and what it has read so far."""

    protection: Protection
    ours: Ours
    weight: int = 0
    glances: int = 0
    names: set[str] = field(default_factory=set)

    def may_glance(self, told: BoxChange) -> bool:
        """Whether a protected file's content is shown all the same: a whole environment is not read for nothing."""
        if told.size > MAX_DIFF_BYTES or self.glances >= MAX_GLANCES:
            return False
        self.glances += 1
        return True

    def unlike_others(self, name: str) -> str:
        """The name, numbered when another scrubbed name has become the same."""
        numbered, number = name, 1
        while numbered in self.names:
            number += 1
            numbered = f"{name} {number}"
        self.names.add(numbered)
        return numbered


@dataclass(eq=False, repr=False)
class Collector:
    """Collects one run's changes; may be asked again as the run goes on."""

    project: ProjectFiles  # The project on the host
    blobs: BlobStore  # Where new contents go
    _: KW_ONLY
    since: float  # When the run began, seconds since 1970: what changed in the project later than that is a conflict
    protected: tuple[str, ...]  # Relative paths that never change, beside those that `Protection` knows
    limit_bytes: int  # How much all new contents of the run may weigh together
    diff_bytes: int | None = None  # How much all its diffs may; with 0 none is made, None is the usual
    scrubber: Scrubber | None = None  # Knows the secrets that neither the project nor the store may get
    git: GitRules | None = None  # What git reads and runs of the project; None where nobody asked it
    # By path, what the project had when a change of it was first seen, and which is what the run began with
    bases: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._contents = Contents(self.blobs, self.limit_bytes, self.scrubber)
        self._compared: dict[str, _Compared] = {}
        self._kept: set[str] = set()
        self._diff_room = MAX_RUN_DIFF_BYTES if self.diff_bytes is None else self.diff_bytes
        self._diff_seconds = MAX_RUN_DIFF_SECONDS

    async def collect(self, box: Box, ours: Ours, into: list[FileChange] | None = None) -> list[FileChange]:
        """What differs now, sorted by path; what somebody would run unasked stands first.

        A file that cannot be read, or grows while it is read, is told as protected, and its diff says why. Of what is
        protected, large files and most of many are told without their content. What holds a live secret, in its name,
        its target or its content, is protected, nothing of it is stored, and its name is told without the secret.
        What the project has of `ours` is no conflict.
        `into` is filled and returned: whatever ends the collection early, it has all that differs then, what was not
        brought out as protected.

        Raises:
            WorkspaceTooLarge: the new contents weigh more than the limit.
            SandboxUnavailable: the box is gone, and its workspace with it.
        """
        told = [one for one in await box.changes() if _is_safe(one.path)]
        told += await self._taken_back(box, ours, {one.path for one in told})
        this = _Round(await self._protection(told), ours)
        changes: list[FileChange] = [] if into is None else into
        done = 0
        try:
            while done < len(told):
                few = told[done : done + AT_ONCE]
                # One thread for a few of them: of many small files, asking for threads would take most of the time.
                looked = await asyncio.to_thread(self._look_at, few, this.protection)
                for one, (old, protected) in zip(few, looked, strict=True):
                    change = (
                        self._without_secret(one, this)
                        if self._is_secret(one)
                        else await self._one(box, one, this, old, protected=protected)
                    )
                    if change is not None:
                        changes.append(change)
                    done += 1
        finally:
            changes += [self._left(one, this) for one in told[done:]]
            changes[:] = in_order(changes)
        return changes

    async def _taken_back(self, box: Box, ours: Ours, told: Container[str]) -> list[BoxChange]:
        """What a box has at paths of which it does not tell, and at which the project has what came from it.

        A box compares with the project as it was when the box began. What it has made so again is a change by now.
        """

        def theirs() -> list[str]:
            return [path for path in ours if path not in told and self._old_state(path).sha256 in ours[path]]

        found = [await _now_at(box, path) for path in await asyncio.to_thread(theirs)]
        return [one for one in found if one is not None]

    async def _protection(self, told: Sequence[BoxChange]) -> Protection:
        if self.git is None:
            return Protection(self.project, present(told), self.protected)
        await asyncio.to_thread(self.git.finish)
        held = (*self.protected, *self.git.held)
        return Protection(self.project, present(told), held, self.git.held_in)

    def _left(self, told: BoxChange, this: _Round) -> FileChange:
        if self._is_secret(told):
            return self._without_secret(told, this)
        mode = told.mode & 0o777
        return FileChange(
            told.path, told.status, told.kind, told.size, mode, target=told.target, state="protected", reason=LEFT
        )

    def _is_secret(self, told: BoxChange) -> bool:
        return self._holds(told.path) or self._holds(told.target)

    async def _one(
        self, box: Box, told: BoxChange, this: _Round, old: HostState, *, protected: bool
    ) -> FileChange | None:
        state: ChangeState = "protected" if protected else self._verdict(told, old, this.ours)
        base = self._base(told.path, old, this.ours) if state == "conflict" else ""
        if state == "proposed":
            self.bases[told.path] = old.sha256
        if told.status == "deleted":
            if not old.kind:
                return None
            change = FileChange(told.path, "deleted", old_sha256=old.sha256, state=state, base_sha256=base)
            change = replace(change, kind="link") if old.kind == "link" else change
            return await self._with_diff(self._called(change), old, b"")
        status: ChangeStatus = "modified" if old.kind else "added"
        mode = told.mode & 0o777
        change = FileChange(told.path, status, told.kind, told.size, mode, old.sha256, target=told.target, state=state)
        change = replace(change, base_sha256=base)
        runs = self._runs(told.path, added=status == "added")
        if told.kind == "link" and not runs:
            # It may lead to a package, which then is one under this name too.
            runs = self._runs(f"{told.path}/__init__.py", added=status == "added")
        change = self._called(replace(change, runs=runs))
        if protected and not this.may_glance(told):
            return replace(change, diff="… protected, and never applied: its content was left in the box\n")
        try:
            new = await self._take(box, told, this)
        except (SecretFound, BoxFileError) as error:
            return _untaken(change, error)
        if new.sha256 == old.sha256 and (told.kind == "link" or _executable(mode) == _executable(old.mode)):
            return None
        change = self._called(replace(change, size=new.size, new_sha256=new.sha256), is_script=new.is_script)
        if not protected:
            await self._keep_old(old)
        return await self._with_diff(change, old, new.content)

    async def _keep_old(self, old: HostState) -> None:
        """Keep what a file of the project holds: parts of a difference, and what became of both sides, need it."""
        is_short = old.kind == "file" and old.content is not None and old.sha256 not in self._kept
        if is_short and not self._holds(old.content):
            self._kept.add(await self.blobs.keep(old.content or b""))

    def _runs(self, path: str, *, added: bool) -> str:
        packages: frozenset[str] = self.git.packages if self.git is not None else frozenset()
        return runs_by_itself(path, added=added, is_package=packages.__contains__)

    def _called(self, change: FileChange, *, is_script: bool = False) -> FileChange:
        """The change, with a reason to wait where something of the project may run it."""
        starter = self.git.starter if self.git is not None else ""
        is_plain = change.kind == "file" and not change.mode & 0o111 and not is_script
        if change.runs or not starter or (is_plain and is_data(change.path)):
            return change
        return replace(change, runs=called_by(starter))

    def _holds(self, content: str | bytes | None) -> bool:
        return self.scrubber is not None and bool(content) and self.scrubber.holds(os.fsencode(content or b""))

    def _without_secret(self, told: BoxChange, this: _Round) -> FileChange:
        shown = self.scrubber.scrub if self.scrubber is not None else str
        path, target = this.unlike_others(shown(told.path)), shown(told.target)
        mode = told.mode & 0o777
        change = FileChange(path, told.status, told.kind, told.size, mode, target=target, state="protected")
        return replace(change, reason=HOLDS_LEASED)

    def _look_at(self, few: Sequence[BoxChange], protection: Protection) -> list[tuple[HostState, bool]]:
        return [self._look(one, protection) for one in few]

    def _look(self, told: BoxChange, protection: Protection) -> tuple[HostState, bool]:
        old = self._old_state(told.path)
        try:
            protected = old.kind == "other" or protection.covers(told.path)
            if told.kind == "link" and told.status != "deleted":
                protected = protected or protection.refuses_link(told.path, told.target)
        except OSError:
            # What cannot be looked at cannot be cleared either.
            return old, True
        return old, protected

    def _old_state(self, path: str) -> HostState:
        try:
            return self.project.state(path, keep=MAX_DIFF_INPUT)
        except OSError:
            # Something unreadable or unwalkable stands there; it is in the way, and that is all we need to know.
            return HostState(kind="other", changed=float("inf"))

    async def _take(self, box: Box, told: BoxChange, this: _Round) -> Taken:
        if told.kind == "link":
            return Taken(link_hash(told.target), len(told.target), os.fsencode(told.target))
        this.weight += max(0, told.size)
        if this.weight > self.limit_bytes:
            raise WorkspaceTooLarge(told.path, this.weight, self.limit_bytes)
        return await self._contents.take(box.files, told)

    def _verdict(self, told: BoxChange, old: HostState, ours: Ours) -> ChangeState:
        if old.kind and old.changed > self.since and old.sha256 not in ours.get(told.path, ()):
            return "conflict"
        return "proposed"

    def _base(self, path: str, old: HostState, ours: Ours) -> str:
        base = ours.get(path, ("",))[-1] or self.bases.get(path, "?")
        return "" if base == old.sha256 else base

    async def _with_diff(self, change: FileChange, old: HostState, new: bytes | None) -> FileChange:
        if change.size + old.size < SHORT:
            return self._compare(change, old, new)
        return await asyncio.to_thread(self._compare, change, old, new)

    def _compare(self, change: FileChange, old: HostState, new: bytes | None) -> FileChange:
        if self._holds(old.content):
            return replace(change, diff=OLD_HOLDS_LEASED)
        known = self._compared.get(change.path)
        if known is None or (known.old_sha256, known.new_sha256) != (change.old_sha256, change.new_sha256):
            is_room = self._diff_room >= MAX_DIFF_BYTES and self._diff_seconds > 0
            began = time.thread_time()
            diff = _diff(change, old, new, is_room=is_room)
            self._diff_seconds -= time.thread_time() - began
            known = _Compared(change.old_sha256, change.new_sha256, diff or "", binary=diff is None)
            self._diff_room = max(0, self._diff_room - size_of(known.diff))
            self._compared[change.path] = known
        return replace(change, diff=known.diff, binary=known.binary)


async def _now_at(box: Box, path: str) -> BoxChange | None:
    try:
        found = await box.files.stat(path)
    except BoxFileError as error:
        # What cannot be looked at may still be there.
        return BoxChange(path, "deleted") if error.reason in ("ENOENT", "ENOTDIR") else None
    if found.kind not in ("file", "link"):
        return BoxChange(path, "deleted")
    kind: Literal["file", "link"] = "link" if found.kind == "link" else "file"
    return BoxChange(path, "modified", kind, found.size, found.mode, found.target)


def _untaken(change: FileChange, error: SecretFound | BoxFileError) -> FileChange:
    if isinstance(error, SecretFound):
        return replace(change, state="protected", reason=HOLDS_LEASED)
    return replace(change, state="protected", diff=f"… nothing of it was taken: {error.reason}\n")


def _is_safe(path: str) -> bool:
    try:
        split_path(path)
    except UnsafePath:
        return False
    return True


def _executable(mode: int) -> bool:
    # Like git: of a file's permissions only this one is content; the rest follows the host's umask.
    return bool(mode & 0o100)


def _diff(change: FileChange, old: HostState, new: bytes | None, *, is_room: bool) -> str | None:
    """The diff, or what stands for it when there is no room; None where either side is no text."""
    before = old.content if old.kind else b""
    if before is None or new is None or not is_text(before) or not is_text(new):
        return None
    if change.kind == "link" or old.kind == "link":
        before, new = before + b"\n" if before else b"", new + b"\n" if new else b""
    return unified_diff(change.path, before, new) if is_room else not_shown(len(before), len(new))
