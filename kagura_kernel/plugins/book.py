"""A small file of decisions, by name, that only its owner may change: read with suspicion, replaced whole.

Two processes that change it at once wait for each other. A file that is broken, or that somebody else could have
written, counts as empty: what it would grant has to be granted again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.plugins.document import NotReadable, read_document

MAX_BYTES = 1 << 20
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS = stat.S_IWGRP | stat.S_IWOTH

Entry = dict[str, Any]
Entries = dict[str, Entry]


class Unfit(Exception):
    """A file that does not count; the text says why, as a sentence without its end."""


class Book:
    """Entries by name, in a JSON file of mode 0600 in a directory of mode 0700; any thread may use it.

    Args:
        path: The file; it and its directory are made with the first entry.
        check: Whether an entry is one of this book's; others are passed over.
    """

    def __init__(self, path: Path, check: Callable[[Entry], bool]) -> None:
        self._path = path
        self._check = check
        self._turn = threading.Lock()

    @property
    def problem(self) -> str:
        """Why the file counts as empty, one sentence; empty when it counts, and when there is none."""
        try:
            self._read()
        except Unfit as error:
            return f"{self._path} counts as empty: {error}."
        return ""

    def entries(self) -> Entries:
        """What it holds; nothing when it does not count."""
        try:
            return self._read()
        except Unfit:
            return {}

    def change(self, change: Callable[[Entries], bool]) -> bool:
        """Let `change` alter the entries, and keep them where it says that it has: what it said.

        A file that does not count is kept beside the new one, with `.unfit` at its end.

        Raises:
            ConfigurationError: the file cannot be written.
        """
        try:
            with self._turn, self._locked():
                entries = self.entries()
                changed = change(entries)
                if changed:
                    self._write(entries)
                return changed
        except OSError as error:
            why = (error.strerror or "unknown reason").lower()
            raise ConfigurationError(str(self._path), [f"it cannot be written: {why}"]) from error

    def _read(self) -> Entries:
        try:
            directory = self._path.parent.stat()
            handle = os.open(self._path, _FILE)
        except FileNotFoundError:
            return {}
        except OSError as error:
            why = "it is a link" if self._path.is_symlink() else (error.strerror or "it cannot be read").lower()
            raise Unfit(why) from error
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if why := _why_unfit(found) or _why_unfit(directory, "its directory"):
                raise Unfit(why)
            data = file.read(MAX_BYTES + 1)
        return self._entries(data)

    def _entries(self, data: bytes) -> Entries:
        try:
            document, problems = read_document(data, MAX_BYTES)
        except NotReadable as error:
            raise Unfit(f"it {error}") from error
        if problems:
            raise Unfit(problems[0])
        for name, entry in document.items():
            if not isinstance(entry, dict) or not self._check(entry):
                raise Unfit(f"what it says of {name[:80]!r} is not what this version writes")
        return document

    def _write(self, entries: Mapping[str, Entry]) -> None:
        if self.problem:
            with contextlib.suppress(FileNotFoundError):
                self._path.replace(self._path.with_name(f"{self._path.name}.unfit"))
        text = json.dumps(dict(sorted(entries.items())), indent=2, ensure_ascii=False) + "\n"
        temporary = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}.tmp")
        try:
            with os.fdopen(os.open(temporary, _NEW, 0o600), "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        directory = self._path.parent
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if directory.stat().st_mode & 0o077:
            directory.chmod(0o700)
        handle = os.open(directory / f".{self._path.name}.lock", _LOCK, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _why_unfit(found: os.stat_result, what: str = "it") -> str:
    if found.st_uid not in (os.geteuid(), 0):
        return f"{what} belongs to somebody else"
    if found.st_mode & _OTHERS:
        return f"others may write {'into ' if what != 'it' else ''}{what}"
    if what == "it" and not stat.S_ISREG(found.st_mode):
        return "it is no plain file"
    return ""
