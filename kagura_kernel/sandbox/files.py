"""Files in a box over a channel: the `FileSystem` that tools are handed, and the list of changes."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from kagura_kernel.domain.errors import BoxFileError
from kagura_kernel.domain.tools import FileStat
from kagura_kernel.sandbox.backend import BoxChange
from kagura_kernel.sandbox.guest import frames
from kagura_kernel.sandbox.streams import Channel, HostStream, WireError, refuse_constant

MAX_READ = 256 * 2**20
SILENCE = 120.0
SHORT = 256 * 1024
CANCEL_GRACE = 0.0
KINDS = ("file", "directory", "link", "other")
STATUSES = ("added", "modified", "deleted")
LATEST = 2.0**63
"""Seconds since 1970: no file system counts further."""

REASON = re.compile(r"[A-Z][A-Z0-9]{1,19}")
T = TypeVar("T")


class BoxFiles:
    """Files in one box; see `FileSystem`. No file larger than `MAX_READ` is read without a limit."""

    def __init__(self, channel: Channel, root: str) -> None:
        self._channel = channel
        self.root = root  # the workspace, in the box

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Bytes of a file, from `offset`, at most `limit`."""
        most = MAX_READ if limit is None else min(limit, MAX_READ)
        body, _ = await self._ask({"op": "read", "path": path, "offset": offset, "limit": limit}, most)
        return bytes(body)

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Replace a file as a whole, atomically; parent directories are made."""
        await self._ask({"op": "write", "path": path, "mode": mode}, 0, data)

    async def stat(self, path: str) -> FileStat:
        """One path; a link is described, not followed."""
        _, outcome = await self._ask({"op": "stat", "path": path}, 0)
        return self._believe(read_stat, outcome)

    async def list_dir(self, path: str) -> list[FileStat]:
        """A directory's entries by name."""
        body, _ = await self._ask({"op": "list", "path": path}, frames.MAX_LINES_BYTES)
        return await self._entries(body, read_stat)

    async def glob(self, pattern: str, *, limit: int = 1000) -> list[str]:
        """Paths below the root that match, sorted; no part but one that begins with a dot matches a hidden name."""
        asked = {"op": "glob", "path": ".", "pattern": pattern, "limit": limit}
        body, _ = await self._ask(asked, frames.MAX_LINES_BYTES, shown=pattern)
        return sorted(await self._entries(body, read_path))[:limit]

    async def changes(self) -> list[BoxChange]:
        """How the workspace differs from what it was; see `Box.changes`."""
        body, _ = await self._ask({"op": "changes"}, frames.MAX_LINES_BYTES, shown=self.root)
        return sorted(await self._entries(body, read_change), key=lambda change: change.path)

    async def _ask(
        self, request: dict[str, Any], most: int, data: bytes | None = None, *, shown: str | None = None
    ) -> tuple[bytearray, dict[str, Any]]:
        path = shown if shown is not None else str(request["path"])
        body = bytearray()

        def collect(_kind: int, payload: memoryview) -> None:
            if len(body) + len(payload) > most:
                stream.fail(BoxFileError(path, "EFBIG", f"More than {most} bytes"))
            else:
                body.extend(payload)

        async with self._channel.slots:
            stream = self._channel.open({"kind": frames.FILE, **request}, collect)
            outcome = await finish(self._channel, stream, data)
        self._believe(lambda told: raise_error(path, told), outcome)
        return body, outcome

    async def _entries(self, body: bytearray, read: Callable[[Any], T]) -> list[T]:
        try:
            if len(body) < SHORT:
                return read_lines(body, read)
            # Reading a long list takes a while, and others live on this loop.
            return await asyncio.to_thread(read_lines, body, read)
        except WireError as problem:
            raise self._channel.broke(problem) from problem

    def _believe(self, read: Callable[[Any], T], told: Any) -> T:
        try:
            return read(told)
        except WireError as problem:
            raise self._channel.broke(problem) from problem


async def finish(channel: Channel, stream: HostStream, data: bytes | None = None) -> dict[str, Any]:
    """Send the input of a file stream, if there is any, and wait for its result.

    Leaving early calls it off in the box. A guest that does nothing at all for two minutes is closed.
    """
    sender = None
    if data is not None:
        sender = asyncio.get_running_loop().create_task(stream.send_last(data))
    try:
        return await _result(channel, stream)
    except BaseException:
        await channel.call_off(stream, CANCEL_GRACE)
        raise
    finally:
        if sender is not None:
            sender.cancel()


async def _result(channel: Channel, stream: HostStream) -> dict[str, Any]:
    while not stream.result.done():
        left = stream.heard_at + SILENCE - stream.clock()
        if left <= 0:
            raise channel.broke("it said nothing about a file for too long")
        await asyncio.wait([stream.result], timeout=left)
    return stream.result.result()


def raise_error(path: str, outcome: dict[str, Any]) -> None:
    """Raise what the box's system said.

    Raises:
        BoxFileError: the operation failed.
        WireError: the guest names no reason that a system gives.
    """
    reason = outcome.get("error")
    if reason is None:
        return
    text = outcome.get("text")
    if not isinstance(reason, str) or not REASON.fullmatch(reason) or not isinstance(text, str):
        raise WireError("a file error without a reason")
    raise BoxFileError(path, reason, text[:200])


def read_lines(body: bytes | bytearray, read: Callable[[Any], T]) -> list[T]:
    """What `read` makes of the JSON texts of a body, one a line; nothing is kept of a line but that.

    Raises:
        WireError: one is no JSON or too long, or there are too many; or `read` refuses it.
    """
    count = body.count(b"\n")
    if count > frames.MAX_ENTRIES:
        raise WireError(f"a list of {count} entries")
    found: list[T] = []
    for line in io.BytesIO(body):
        if len(line) > frames.MAX_CONTROL:
            raise WireError(f"an entry of {len(line)} bytes")
        try:
            value = json.loads(line, parse_constant=refuse_constant)
        except (ValueError, RecursionError) as problem:
            raise WireError("an entry of a list is not JSON") from problem
        found.append(read(value))
    return found


def read_path(value: Any) -> str:
    """A path. Raises `WireError` when it is none."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise WireError("a path that is none")
    return _text(value)


def read_stat(value: Any) -> FileStat:
    """What the guest knows of one path. Raises `WireError` when a field is missing or impossible."""
    fields = _object(value)
    if fields.get("kind") not in KINDS:
        raise WireError("a file of unknown kind")
    return FileStat(
        path=read_path(fields.get("path")),
        kind=fields["kind"],
        size=_count(fields.get("size")),
        mode=_mode(fields.get("mode")),
        modified=_time(fields.get("modified")),
        target=_text(fields.get("target", "")),
    )


def read_change(value: Any) -> BoxChange:
    """One change, its path relative and inside the workspace.

    Raises:
        WireError: a field is missing or impossible, or the path leads out.
    """
    fields = _object(value)
    path = read_path(fields.get("path"))
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise WireError("a change outside the workspace")
    if fields.get("status") not in STATUSES:
        raise WireError("a change of unknown status")
    if fields["status"] == "deleted":
        return BoxChange(path, "deleted")
    if fields.get("kind") not in ("file", "link"):
        raise WireError("a change of unknown kind")
    return BoxChange(
        path=path,
        status=fields["status"],
        kind=fields["kind"],
        size=_count(fields.get("size")),
        mode=_mode(fields.get("mode")),
        target=_text(fields.get("target", "")),
    )


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise WireError("an entry that is no object")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise WireError("a size that is none")
    return value


def _time(value: Any) -> float:
    # A number may be too large for a float; NaN and the infinities are floats, and no time.
    if type(value) not in (int, float) or not -LATEST <= value <= LATEST:
        raise WireError("a time that is none")
    return float(value)


def _mode(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= 0o7777:  # noqa: PLR2004 - all permission bits
        raise WireError("a mode that is none")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise WireError("a text that is none")
    try:
        # Bytes that are no text have escapes of their own; any other half of a character stands for no bytes.
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as problem:
        raise WireError("a text that is none") from problem
    return value
