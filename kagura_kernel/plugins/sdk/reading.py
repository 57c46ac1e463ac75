"""A directory that can be read and listed and nothing else, in bounded pieces."""

from __future__ import annotations

import base64
import json
import os
import stat
from datetime import UTC, datetime
from typing import Any

from .arguments import shown, whole_of
from .descent import HERE, Base, check_plain, components, open_file, translated
from .faults import NotText, PluginFault, TooLarge

MAX_FILE = 10 * 2**20
"""Bytes of a file that may be read at all."""

MAX_CHUNK = 2**20
"""Bytes that one call reads."""

MAX_ENTRIES = 1_000
"""Entries that one listing gives."""

_LOOKED_AT = 20_000
# An answer is JSON, in which a control character takes six bytes.
_MAX_JSON = 3 * 2**20
_LONGEST_CHARACTER = 4
_LAST_MOMENT = 253_402_300_799


class ReadJail:
    """Reads below one base directory.

    A file larger than `file_bytes` is refused, however little of it is asked for; the other two bound one call. Raises
    `ConfigRefused`: the base cannot be opened.
    """

    def __init__(
        self, base: str, *, file_bytes: int = MAX_FILE, chunk_bytes: int = MAX_CHUNK, entries: int = MAX_ENTRIES
    ) -> None:
        self._base = Base(base)
        self._file_bytes = min(file_bytes, MAX_FILE)
        self._chunk_bytes = min(chunk_bytes, MAX_CHUNK)
        self._entries = min(entries, MAX_ENTRIES)

    def close(self) -> None:
        """Give the base back. May be called twice."""
        self._base.close()

    def text(self, path: str, offset: Any = 0, limit: Any = None) -> dict[str, Any]:
        """A piece of a UTF-8 file, never cut within a character.

        `offset`, in bytes, is 0 or the `next_offset` of an earlier answer, `limit` at least 4; None is as many as one
        call gives. Raises `PluginFault`: as in `faults`; `NotText` where it is no UTF-8 or holds NUL.

        Returns:
            `path`, `text`, `size` of the file, `offset`, and `next_offset`, which is None at the end of the file.
        """
        data, size, start = self._piece(path, offset, limit, least=_LONGEST_CHARACTER)
        text = _decoded(data, path, more=start + len(data) < size)
        end = start + len(text.encode("utf-8"))
        # A file that was cut meanwhile ends where there is nothing more to read.
        rest = end if text and end < size else None
        return {"path": path, "text": text, "size": size, "offset": start, "next_offset": rest}

    def data(self, path: str, offset: Any = 0, limit: Any = None) -> dict[str, Any]:
        """A piece of any file, in base64; arguments and answer as for `text`, with `base64` in place of `text`."""
        data, size, start = self._piece(path, offset, limit)
        end = start + len(data)
        encoded = base64.b64encode(data).decode("ascii")
        rest = end if data and end < size else None
        return {"path": path, "base64": encoded, "size": size, "offset": start, "next_offset": rest}

    def listing(self, path: str = HERE, limit: Any = None) -> dict[str, Any]:
        """What lies in a directory and could be read: plain files with one name, and directories.

        `path`, `entries` by name, each with `name`, `kind` (`file` or `directory`) and `size` in bytes (0 for a
        directory), `left_out`: how many others were seen (hidden ones, links, special files), and `complete`: whether
        everything was looked at. Raises `PluginFault`: as in `faults`.
        """
        most = self._entries if limit is None else whole_of("limit", limit, least=1, most=self._entries)
        entries: list[dict[str, Any]] = []
        left_out = 0
        complete = True
        with self._base.directory(path) as directory, translated(path):
            readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
            try:
                with os.scandir(readable) as found:
                    for seen, entry in enumerate(found):
                        if seen >= _LOOKED_AT or len(entries) >= most:
                            complete = False
                            break
                        described = _described(entry)
                        left_out += described is None
                        entries += [described] if described else []
            finally:
                os.close(readable)
        entries.sort(key=lambda entry: str(entry["name"]))
        return {"path": path, "entries": entries, "left_out": left_out, "complete": complete}

    def stat(self, path: str) -> dict[str, Any]:
        """What a path leads to: `path`, `kind` (`file` or `directory`), `size` in bytes and `modified` (ISO 8601, UTC).

        Raises `PluginFault`: as in `faults`; a link, a special file or a file with several names is refused.
        """
        if path == HERE:
            with self._base.directory(path) as directory, translated(path):
                return _stated(path, os.fstat(directory))
        with self._base.parent(path) as (directory, name), translated(path):
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            check_plain(found, path)
        return _stated(path, found)

    def _piece(self, path: str, offset: Any, limit: Any, *, least: int = 1) -> tuple[bytes, int, int]:
        start = whole_of("offset", offset, least=0, most=self._file_bytes)
        most = self._chunk_bytes if limit is None else whole_of("limit", limit, least=least, most=self._chunk_bytes)
        with self._base.parent(path) as (directory, name):
            descriptor, found = open_file(directory, name, os.O_RDONLY, path)
        try:
            if found.st_size > self._file_bytes:
                raise TooLarge(f"{shown(path)} has {found.st_size:,} bytes; {self._file_bytes:,} may be read.")
            with translated(path):
                return _read(descriptor, start, most), found.st_size, start
        finally:
            os.close(descriptor)


def _read(descriptor: int, start: int, most: int) -> bytes:
    pieces = []
    while most and (piece := os.pread(descriptor, most, start)):
        pieces.append(piece)
        start += len(piece)
        most -= len(piece)
    return b"".join(pieces)


def _decoded(data: bytes, path: str, *, more: bool) -> str:
    for cut in range(_LONGEST_CHARACTER if more else 1):
        # Only what is missing at the end of a piece may be a part of a character.
        try:
            text = data[: len(data) - cut].decode("utf-8")
        except UnicodeDecodeError as error:
            if error.end < len(data) - cut or not more:
                break
            continue
        if "\0" in text or (data and not text):
            break
        return _fitting(text)
    raise NotText(f"{shown(path)} is no UTF-8 text here. Read it as bytes, or from an offset that an answer gave.")


def _fitting(text: str) -> str:
    while len(json.dumps(text)) > _MAX_JSON:
        text = text[: len(text) // 2]
    return text


def _described(entry: os.DirEntry[str]) -> dict[str, Any] | None:
    try:
        components(entry.name)
        found = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            return {"name": entry.name, "kind": "directory", "size": 0}
        check_plain(found, entry.name)
    except (PluginFault, OSError):
        # What cannot be reached by name is no entry; what has gone meanwhile is none either.
        return None
    return {"name": entry.name, "kind": "file", "size": found.st_size}


def _stated(path: str, found: os.stat_result) -> dict[str, Any]:
    # A file system may hold moments that no calendar has.
    modified = datetime.fromtimestamp(min(max(int(found.st_mtime), 0), _LAST_MOMENT), UTC).isoformat()
    if stat.S_ISDIR(found.st_mode):
        return {"path": path, "kind": "directory", "size": 0, "modified": modified}
    return {"path": path, "kind": "file", "size": found.st_size, "modified": modified}
