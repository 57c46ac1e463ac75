"""The file that a memory lies in, and what is said when it cannot be used."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import suppress
from pathlib import Path

from kagura_kernel.domain.errors.memory import MemoryUnavailable

BUSY_SECONDS = 5.0
_NEARLY_NOTHING = 64 * 1024
_HEADER = 100
_FREE = "Free some space, or name another place for it"
_OTHER_PLACE = "Give yourself the right to write there, or name another place for it"
_DAMAGED = "Move the file away and import what you exported; a new one is made by itself"
_BUSY = (f"another process has been writing to it for more than {BUSY_SECONDS:g} s", "Try again when it has finished")
_WORDS = {
    sqlite3.SQLITE_FULL: ("the disk is full", _FREE),
    sqlite3.SQLITE_READONLY: ("it is read-only", _OTHER_PLACE),
    sqlite3.SQLITE_PERM: ("permission denied", _OTHER_PLACE),
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_CANTOPEN: ("its file cannot be opened or created", _OTHER_PLACE),
    sqlite3.SQLITE_IOERR: ("the disk reports an error", "Look at the disk, or name another place for it"),
    sqlite3.SQLITE_NOTADB: ("it is no SQLite database", _DAMAGED),
    sqlite3.SQLITE_CORRUPT: ("the file is damaged", _DAMAGED),
}
_VAGUE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}


def prepare(path: Path) -> None:
    """Make the directory and the file, for their owner alone, where they are missing; refuse what is no such file.

    A file that is there is not opened: closing it again would drop the locks of this process's connections to it.

    Raises:
        MemoryUnavailable: it can be neither made nor used.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        found = path.lstat()
    except (FileExistsError, NotADirectoryError) as error:
        raise _unavailable(path, "a file stands where its directory should be", "Name another place for it") from error
    except OSError as error:
        raise _unavailable(path, (error.strerror or str(error)).lower(), _OTHER_PLACE) from error
    if not stat.S_ISREG(found.st_mode):
        what = "a link, which is not followed" if stat.S_ISLNK(found.st_mode) else "no file"
        raise _unavailable(path, f"it is {what}", "Name another place for it")
    # SQLite takes a scrap that is shorter than a header for an empty database.
    if 0 < found.st_size < _HEADER:
        raise _unavailable(path, *_WORDS[sqlite3.SQLITE_NOTADB])
    if not os.access(path, os.R_OK | os.W_OK):
        raise _unavailable(path, "permission denied", _OTHER_PLACE)
    with suppress(PermissionError):
        path.chmod(0o600)


def identity(path: Path) -> tuple[int, int] | None:
    """Which file it is; None when there is none."""
    try:
        found = path.stat(follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def trouble(path: Path, error: sqlite3.Error) -> MemoryUnavailable:
    """What an error of SQLite's means; a vague one is made clear by a look at the disk."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _VAGUE and (seen := _state_of_disk(path.parent)):
        return _unavailable(path, *seen)
    why, advice = _WORDS.get(code, (str(error), "If it stays so, name another place for it"))
    return _unavailable(path, why, advice)


def moved(path: Path) -> MemoryUnavailable:
    """What is said when the file is not there any more, or another one is."""
    return _unavailable(path, "its file was moved or deleted while it was open", "Open it again")


def closed(path: Path) -> MemoryUnavailable:
    """What is said to whoever uses it after it was closed."""
    return _unavailable(path, "it was closed", "Open it again")


def _unavailable(path: Path, why: str, advice: str) -> MemoryUnavailable:
    return MemoryUnavailable(str(path), why, f"{advice}.")


def _state_of_disk(directory: Path) -> tuple[str, str] | None:
    try:
        disk = os.statvfs(directory)
    except OSError as error:
        return f"its directory cannot be reached ({error.strerror})", "Look at the disk"
    if disk.f_flag & os.ST_RDONLY:
        return "the file system is read-only", "Name another place for it"
    if disk.f_bavail * disk.f_frsize < _NEARLY_NOTHING:
        return _WORDS[sqlite3.SQLITE_FULL]
    if not os.access(directory, os.W_OK | os.X_OK):
        return "its directory may not be written", _OTHER_PLACE
    return None
