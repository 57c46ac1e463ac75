"""One server for each data directory: a lock that dies with its process, so that none is ever left behind."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kagura_kernel.domain.errors import ConfigurationError, JournalUnwritable, KaguraError, ServedAlready

LOCK = "serve.lock"
"""The file in the data directory; it stays when nobody holds it, and means nothing then."""

_LONGEST = 20


@contextmanager
def only_server(home: Path) -> Iterator[None]:
    """Be the one server of this data directory.

    Raises:
        ServedAlready: another process is.
        ConfigurationError: nothing can be locked there.
        JournalUnwritable: there is no room there for anything.
    """
    descriptor = _opened(home)
    try:
        if not _taken(descriptor, home):
            raise ServedAlready(str(home), _pid_in(descriptor))
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            raise _unusable(home, error) from error
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def server_of(home: Path) -> int | None:
    """The process that serves this data directory, 0 where it cannot be told which; None for none. Makes nothing."""
    try:
        descriptor = os.open(home / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        # Shared: two that look at the same moment are no server to each other.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _pid_in(descriptor) or 0
    except OSError:
        return None
    else:
        return None
    finally:
        os.close(descriptor)


def _opened(home: Path) -> int:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _unusable(home, error) from error


def _taken(descriptor: int, home: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        # Without a lock a second server would answer every message a second time.
        raise _unusable(home, error) from error
    return True


def _unusable(home: Path, error: OSError) -> KaguraError:
    why = (error.strerror or str(error)).lower()
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        # No setting is wrong: there may be room later.
        return JournalUnwritable(str(home), why)
    return ConfigurationError(f"The data directory {home}", [f"{LOCK} cannot be locked in it: {why}"])


def _pid_in(descriptor: int) -> int | None:
    found = os.pread(descriptor, _LONGEST, 0).strip()
    return int(found) if found.isdigit() else None
