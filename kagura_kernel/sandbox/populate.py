"""A project sent into a box that shares nothing with the host: read carefully, streamed, never followed out.

The project is walked with directory descriptors and no link is followed, so that nothing outside it can be read even
while somebody changes it. The format is said in `guest.changes`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

from kagura_kernel.domain.errors import WorkspaceTooLarge, WorkspaceUnreadable
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.files import finish, raise_error
from kagura_kernel.sandbox.guest import frames
from kagura_kernel.sandbox.streams import Channel, HostStream, WireError, no_data

PIECE = 128 * 1024
BATCH = 512 * 1024
DEEPEST = 64
_WRITE_BITS = 0o222
_SHOWN = 5
ENTRY_COST = 4096
"""What an entry takes in a box beside its content: a workspace in memory has room for one file a page."""
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


async def send_project(
    channel: Channel,
    root: Path,
    *,
    exclude: Sequence[str] = (),
    limit_bytes: int,
    protected: Sequence[str] = (),
    into: str = "",
) -> tuple[str, ...]:
    """Send a project into the workspace and let the guest record it as the baseline, or `into` another folder there.

    It may have `limit_bytes`, with a page for each entry; `protected` subpaths arrive without any permission to write.
    Returns what was left out, as relative paths: excluded ones, sockets, FIFOs, devices, what cannot be read.

    Raises:
        WorkspaceTooLarge: it holds more than `limit_bytes`.
        WorkspaceUnreadable: the root cannot be read.
    """
    project = Project(root, exclude, limit_bytes, protected)
    async with channel.slots:
        stream = channel.open({"kind": frames.FILE, "op": "populate", "path": into}, no_data)
        sender = asyncio.get_running_loop().create_task(_send(stream, project))
        try:
            await asyncio.wait([sender, stream.over], return_when=asyncio.FIRST_COMPLETED)
            if sender.done():
                sender.result()
            outcome = await finish(channel, stream)
        except BaseException:
            await channel.call_off(stream, 0.0)
            raise
        finally:
            sender.cancel()
    try:
        raise_error(str(root), outcome)
    except WireError as problem:
        raise channel.broke(problem) from problem
    return tuple(sorted(project.left_out))


async def _send(stream: HostStream, project: Project) -> None:
    async with contextlib.aclosing(in_steps(project)) as steps:
        async for data in steps:
            await stream.send_all(data)
            if stream.over.done():
                return
    stream.send_eof()


async def in_steps(project: Project) -> AsyncGenerator[bytes, None]:
    """A project's stream, read in threads; it may be left, and its reader cancelled, at any point.

    Raises:
        WorkspaceError: as `Project.batches`.
    """
    batches = project.batches()
    loop = asyncio.get_running_loop()
    step: asyncio.Future[bytes] | None = None
    try:
        while True:
            step = loop.run_in_executor(None, next, batches, b"")
            data = await asyncio.shield(step)
            if not data:
                return
            yield data
    finally:
        # A thread may be in the middle of a step; its descriptors are closed when that one is done.
        if step is not None:
            step.add_done_callback(lambda done: _leave(done, batches))


def _leave(step: asyncio.Future[bytes], batches: Generator[bytes, None, None]) -> None:
    step.exception()
    batches.close()


class Project:
    """A project as a byte stream, read step by step; `left_out` fills as it goes."""

    def __init__(self, root: Path, exclude: Sequence[str], limit_bytes: int, protected: Sequence[str] = ()) -> None:
        self._root = root
        self._exclude = frozenset(exclude)
        self._protected = tuple(protected)
        self._limit = limit_bytes
        self._size = 0
        self.left_out: list[str] = []

    def batches(self) -> Generator[bytes, None, None]:
        """The stream in pieces worth sending.

        Raises:
            WorkspaceTooLarge: there is more than the limit.
            WorkspaceUnreadable: the root cannot be opened.
        """
        try:
            fd = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as problem:
            raise WorkspaceUnreadable(str(self._root), problem.strerror or "it cannot be opened") from problem
        waiting = bytearray()
        try:
            for part in self._directory(fd, "", 0):
                waiting += part
                if len(waiting) >= BATCH:
                    yield bytes(waiting)
                    waiting.clear()
            if waiting:
                yield bytes(waiting)
        finally:
            os.close(fd)

    def _directory(self, fd: int, below: str, depth: int) -> Iterator[bytes]:
        with os.scandir(fd) as entries:
            names = sorted({entry.name for entry in entries})
        for name in names:
            path = f"{below}/{name}" if below else name
            if path in self._exclude:
                self.left_out.append(path)
                continue
            try:
                yield from self._entry(fd, name, path, depth)
            except OSError:
                self.left_out.append(path)

    def _entry(self, fd: int, name: str, path: str, depth: int) -> Iterator[bytes]:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        self._count(ENTRY_COST)
        if stat.S_ISLNK(found.st_mode):
            yield self._record(path, "link", found, target=os.readlink(name, dir_fd=fd))
        elif stat.S_ISREG(found.st_mode):
            yield from self._file(os.open(name, REGULAR, dir_fd=fd), path)
        elif stat.S_ISDIR(found.st_mode) and depth < DEEPEST:
            inner = os.open(name, DIRECTORY, dir_fd=fd)
            try:
                yield self._record(path, "directory", os.fstat(inner))
                yield from self._directory(inner, path, depth + 1)
            finally:
                os.close(inner)
        else:
            self.left_out.append(path)

    def _file(self, fd: int, path: str) -> Iterator[bytes]:
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                self.left_out.append(path)
                return
            yield self._record(path, "file", found)
            try:
                while data := os.read(fd, PIECE):
                    self._count(len(data))
                    yield frames.LENGTH.pack(len(data)) + data
            except OSError:
                # What was sent of it stays, so that the stream stays whole; the name tells that it is not.
                self.left_out.append(path)
            yield frames.LENGTH.pack(0)
        finally:
            os.close(fd)

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > self._limit:
            raise WorkspaceTooLarge(str(self._root), self._size, self._limit)

    def _record(self, path: str, kind: str, found: os.stat_result, **more: Any) -> bytes:
        mode = stat.S_IMODE(found.st_mode)
        if any(path == part or path.startswith(f"{part}/") for part in self._protected):
            mode &= ~_WRITE_BITS
        fields = {"path": path, "kind": kind, "mode": mode, "modified": found.st_mtime_ns, **more}
        text = json.dumps(fields).encode("ascii")
        return frames.LENGTH.pack(len(text)) + text


def copy_notes(spec: BoxSpec, left_out: Sequence[str]) -> tuple[str, ...]:
    """What a reader should know about the copy of a project that lies in a box."""
    root, parts = spec.workspace, spec.policy.read_only_subpaths
    there = [part for part in parts if root is not None and os.path.lexists(root / part)]
    held = f"{', '.join(there)}: a read-only copy in the box; what is forced into it all the same is lost at the end"
    missing = missing_notes(left_out)
    return (*missing, held) if there and spec.policy.writable else missing


def missing_notes(left_out: Sequence[str]) -> tuple[str, ...]:
    """What a reader should know about what was not copied."""
    more = f" and {len(left_out) - _SHOWN} more" if len(left_out) > _SHOWN else ""
    return (f"not copied into the box: {', '.join(left_out[:_SHOWN])}{more}",) if left_out else ()
