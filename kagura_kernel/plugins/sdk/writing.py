"""A directory that can be written below, within a budget, and not read."""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .arguments import encoded, flag_of, shown
from .descent import Base, check_plain, components, open_file, translated
from .faults import AlreadyExists, ArgumentRefused, NotFound, PathRefused, TooLarge
from .limits import Budget

MAX_TOTAL = 20 * 2**20
"""Bytes written in all."""

MAX_CHUNK = 2 * 2**20
"""Bytes that one call writes."""

MAX_FILE = 10 * 2**20
"""Bytes that a file may grow to."""

MAX_ENTRIES = 1_000
"""Files and directories made in all."""

_FILE_MODE = 0o600
_DIRECTORY_MODE = 0o700
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS = 0o777


class WriteJail:
    """Writes below one base directory.

    A file that exists is replaced as a whole: the new one is written under a hidden name beside it and then takes its
    place in one step. Whoever reads sees the old or the new one, and a link that is put there meanwhile is replaced and
    not written through. Raises `ConfigRefused`: the base cannot be opened.
    """

    def __init__(
        self,
        base: str,
        *,
        total_bytes: int = MAX_TOTAL,
        chunk_bytes: int = MAX_CHUNK,
        file_bytes: int = MAX_FILE,
        entries: int = MAX_ENTRIES,
    ) -> None:
        self._base = Base(base)
        self._bytes = Budget(min(total_bytes, MAX_TOTAL), "bytes written")
        self._made = Budget(min(entries, MAX_ENTRIES), "files and directories made")
        self._chunk_bytes = min(chunk_bytes, MAX_CHUNK)
        self._file_bytes = min(file_bytes, MAX_FILE)
        self._appending = threading.Lock()

    def close(self) -> None:
        """Give the base back. May be called twice."""
        self._base.close()

    def text(self, path: str, text: Any, *, overwrite: Any = True) -> dict[str, Any]:
        """Write a file as a whole, in UTF-8: `path`, `written` and `size` in bytes, and whether it was `created`.

        Raises `PluginFault`: as in `faults`; `AlreadyExists` where it may not be overwritten.
        """
        return self._write(path, self._checked("text", text), overwrite=flag_of("overwrite", overwrite))

    def data(self, path: str, content: Any, *, overwrite: Any = True) -> dict[str, Any]:
        """Write a file as a whole from base64; the answer as for `text`.

        Raises `PluginFault`: as in `faults`.
        """
        return self._write(path, self._decoded(content), overwrite=flag_of("overwrite", overwrite))

    def append(self, path: str, text: Any) -> dict[str, Any]:
        """Add text at the end of a file, which is made where there is none; the answer as for `text`.

        Raises `PluginFault`: as in `faults`.
        """
        data = self._checked("text", text)
        # One after the other: what a file may have is looked at before it grows.
        with self._appending, self._base.parent(path) as (directory, name), self._paid(len(data)):
            try:
                descriptor, found = open_file(directory, name, os.O_WRONLY | os.O_APPEND, path)
            except NotFound:
                return self._begin(directory, name, data, path)
            try:
                self._check_size(found.st_size + len(data), path)
                with translated(path):
                    _write_all(descriptor, data)
            finally:
                os.close(descriptor)
        return {"path": path, "written": len(data), "size": found.st_size + len(data), "created": False}

    def make_dir(self, path: str, *, parents: Any = False) -> dict[str, Any]:
        """Make a directory, and with `parents` those on the way: `path`, and how many were `created`.

        Raises `PluginFault`: as in `faults`.
        """
        parts = components(path)
        depth = len(parts) if not flag_of("parents", parents) else 1
        created = sum(self._make("/".join(parts[:end])) for end in range(depth, len(parts) + 1))
        return {"path": path, "created": created}

    def _make(self, path: str) -> int:
        with self._base.parent(path) as (directory, name):
            if _is_directory(directory, name, path):
                return 0
            self._made.take(1)
            try:
                with translated(path):
                    os.mkdir(name, _DIRECTORY_MODE, dir_fd=directory)
            except AlreadyExists:
                self._made.give_back(1)
                if not _is_directory(directory, name, path):
                    raise
                return 0
            except BaseException:
                self._made.give_back(1)
                raise
        return 1

    def _write(self, path: str, data: bytes, *, overwrite: bool) -> dict[str, Any]:
        self._check_size(len(data), path)
        with self._base.parent(path) as (directory, name), self._paid(len(data)):
            mode = _mode_of(directory, name, path)
            if mode is None:
                return self._begin(directory, name, data, path)
            if not overwrite:
                raise AlreadyExists(f"{shown(path)} exists already.")
            with self._beside(directory, data, path, mode) as aside, translated(path):
                os.replace(aside, name, src_dir_fd=directory, dst_dir_fd=directory)
        return {"path": path, "written": len(data), "size": len(data), "created": False}

    def _begin(self, directory: int, name: str, data: bytes, path: str) -> dict[str, Any]:
        self._made.take(1)
        try:
            with translated(path):
                # Exclusive: whatever has taken the name meanwhile, a link to elsewhere too, is not opened.
                descriptor = os.open(name, _NEW, _FILE_MODE, dir_fd=directory)
        except BaseException:
            self._made.give_back(1)
            raise
        try:
            with translated(path):
                _write_all(descriptor, data)
        finally:
            os.close(descriptor)
        return {"path": path, "written": len(data), "size": len(data), "created": True}

    @contextmanager
    def _beside(self, directory: int, data: bytes, path: str, mode: int) -> Iterator[str]:
        aside = f".kagura-{secrets.token_hex(12)}"
        with translated(path):
            descriptor = os.open(aside, _NEW, _FILE_MODE, dir_fd=directory)
        try:
            try:
                with translated(path):
                    _write_all(descriptor, data)
                    os.fchmod(descriptor, mode)
            finally:
                os.close(descriptor)
            yield aside
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(aside, dir_fd=directory)
            raise

    @contextmanager
    def _paid(self, count: int) -> Iterator[None]:
        self._bytes.take(count)
        try:
            yield
        except BaseException:
            self._bytes.give_back(count)
            raise

    def _checked(self, name: str, text: Any) -> bytes:
        if not isinstance(text, str):
            raise ArgumentRefused(f"{name} must be a text, not {type(text).__name__}.")
        if len(text) > self._chunk_bytes or len(data := encoded(name, text)) > self._chunk_bytes:
            raise TooLarge(f"One call writes at most {self._chunk_bytes:,} bytes. Write less, and append the rest.")
        return data

    def _decoded(self, content: Any) -> bytes:
        if not isinstance(content, str):
            raise ArgumentRefused(f"content must be base64 as a text, not {type(content).__name__}.")
        if len(content) > (self._chunk_bytes + 2) // 3 * 4:
            raise TooLarge(f"One call writes at most {self._chunk_bytes:,} bytes.")
        try:
            return base64.b64decode(content, validate=True)
        except ValueError as error:
            raise ArgumentRefused("content is no base64.") from error

    def _check_size(self, size: int, path: str) -> None:
        if size > self._file_bytes:
            raise TooLarge(f"{shown(path)} would have {size:,} bytes; a file may have {self._file_bytes:,}.")


def _mode_of(directory: int, name: str, path: str) -> int | None:
    """The permissions of a plain file, None where there is nothing.

    Raises `PathRefused`: something else is there; `AccessDenied`: it may not be written.
    """
    try:
        descriptor, found = open_file(directory, name, os.O_WRONLY, path)
    except NotFound:
        return None
    os.close(descriptor)
    return stat.S_IMODE(found.st_mode) & _PERMISSIONS


def _is_directory(directory: int, name: str, path: str) -> bool:
    try:
        with translated(path):
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except NotFound:
        return False
    if stat.S_ISDIR(found.st_mode):
        return True
    check_plain(found, path)
    raise PathRefused(f"{shown(path)} is a file.")


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
