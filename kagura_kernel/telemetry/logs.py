"""The log of this process: one JSON object a line, without secrets; for what goes wrong where no run can tell of it.

A record is put into a short queue by whoever logs; a thread of its own takes the secrets out and writes. What libraries
say that this package works with goes the same way.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

OWN = "kagura_kernel"
LIBRARIES = (
    "claude_agent_sdk",
    "docker",
    "httpcore",
    "httpx",
    "mcp",
    "openai",
    "opentelemetry",
    "pydantic_ai",
    "sqlalchemy",
    "urllib3",
)
"""Whose records are taken, too; from which level on is left to whoever runs this process."""

_EXPORTERS = "opentelemetry.exporter."
"""What sends telemetry: each try of a collector that is away is counted and told by `status`, and is no line."""

MOST_WAITING = 1000
"""Records that may wait; further ones are counted, and the next line says how many."""

LONGEST = 64 * 1024
"""Characters of one text."""

_CLOSE_SECONDS = 2.0
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_KEPT = ("run_id", "session_id")

Clean = Callable[[str], str]


class StructuredLog:
    """Takes records from when it is opened until it is closed; once in a process.

    Args:
        place: Empty for standard error, `off` for nowhere, or a file, which is made for its owner alone.
        level: `debug`, `info`, `warning` or `error`.
        cleaner: Called by whoever logs, at once; gives what takes secrets out, which is called later.
    """

    def __init__(self, place: str, level: str, cleaner: Callable[[], Clean]) -> None:
        self._own = logging.getLogger(OWN)
        self._before = (self._own.level, self._own.propagate)
        self._level = level.upper()
        self._writer = None if place == "off" else _Writer(Path(place).expanduser() if place else None, cleaner)
        self._handler: logging.Handler = self._writer or logging.NullHandler()
        self._handler.setLevel(self._level)

    def open(self) -> None:
        """Begin. Records of this package go nowhere else from now on: elsewhere nobody would take secrets out."""
        self._own.setLevel(self._level)
        self._own.propagate = False
        for name in (OWN, *LIBRARIES):
            logging.getLogger(name).addHandler(self._handler)

    def close(self) -> None:
        """Write what waits, and leave everything as it was before; may be called twice."""
        for name in (OWN, *LIBRARIES):
            logging.getLogger(name).removeHandler(self._handler)
        level, self._own.propagate = self._before
        self._own.setLevel(level)
        if self._writer is not None:
            self._writer.end()


def problem_with_place(place: str) -> str:
    """What keeps the log from being there, in half a sentence; empty when nothing does."""
    if place in ("", "off"):
        return ""
    try:
        path = Path(place).expanduser()
    except RuntimeError:
        return "its path names a user that is not known here"
    if not path.is_absolute():
        return "it is a file by its whole path, `off`, or empty for standard error"
    if not path.parent.is_dir():
        return "its directory is not there"
    return "it is a directory" if path.is_dir() else ""


def refusal_of_place(place: str) -> str:
    """Why the system lets no line be written there, in half a sentence; empty where it does. Makes no file."""
    if place in ("", "off"):
        return ""
    path = Path(place).expanduser()
    try:
        if os.path.lexists(path):
            # A pipe that nobody reads keeps nobody waiting.
            os.close(os.open(path, _FLAGS & ~os.O_CREAT | os.O_NONBLOCK))
        elif not os.access(path.parent, os.W_OK | os.X_OK):
            return "no file can be made in its directory"
    except OSError as error:
        return "it is a link" if error.errno == errno.ELOOP else (error.strerror or "it cannot be opened").lower()
    return ""


class _Writer(logging.Handler):
    """Takes records, never raises and never waits; a thread of its own, which begins with the first, writes them."""

    def __init__(self, path: Path | None, cleaner: Callable[[], Clean]) -> None:
        super().__init__()
        self._path = path
        self._cleaner = cleaner
        self._queue: queue.Queue[tuple[dict[str, Any], Clean] | None] = queue.Queue(MOST_WAITING)
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._lost = 0
        self._file: int | None = None  # A descriptor: what a buffer keeps of a line could be written in halves

    def emit(self, record: logging.LogRecord) -> None:
        """Take it as it is now: what it speaks of may change before it is written."""
        if record.name.startswith(_EXPORTERS) and record.levelno < logging.ERROR:
            return
        try:
            told = _told(record), self._cleaner()
            with self._guard:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="kagura-log", daemon=True)
                    self._thread.start()
            self._queue.put_nowait(told)
        except Exception:  # noqa: BLE001 - a record that cannot be told must not break whoever logs
            self._lose()

    def end(self) -> None:
        """Write what waits, for so long at most."""
        with self._guard:
            thread, self._thread = self._thread, None
        if thread is None:
            return
        with suppress(queue.Full):
            self._queue.put(None, timeout=_CLOSE_SECONDS)
            thread.join(_CLOSE_SECONDS)

    def _lose(self, lines: int = 1) -> None:
        with self._guard:
            self._lost += lines

    def _work(self) -> None:
        while (waiting := self._queue.get()) is not None:
            told, clean = waiting
            with self._guard:
                lost, self._lost = self._lost, 0
            if lost:
                told["lost_before"] = lost
            try:
                self._write(f"{json.dumps(_cleaned(told, clean))}\n")
            except Exception:  # noqa: BLE001 - there is no other place to tell it: the next line says how many are lost
                self._lose(lost + 1)
        self._leave()

    def _leave(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, line: str) -> None:
        if self._path is None:
            sys.stderr.write(line)
            sys.stderr.flush()
            return
        # A file that was moved away by whoever keeps logs short is made anew.
        if self._file is None or not _is_at(self._file, self._path):
            self._leave()
            self._file = os.open(self._path, _FLAGS, 0o600)
        data = line.encode("ascii")
        if (written := os.write(self._file, data)) < len(data):
            # The disk is full. A half line would spoil the next one, too.
            os.ftruncate(self._file, os.fstat(self._file).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.lstat())
    except OSError:
        return False


def _told(record: logging.LogRecord) -> dict[str, Any]:
    told: dict[str, Any] = {
        "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "text": record.getMessage(),
        "process": os.getpid(),
    }
    told |= {name: str(found) for name in _KEPT if (found := getattr(record, name, None))}
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        told["error"] = {"type": type(error).__name__, "text": str(error)}
        if isinstance(code := getattr(error, "code", None), str):
            told["error"]["code"] = code
        told["error"]["trace"] = logging.Formatter().formatException((type(error), error, error.__traceback__))
    return told


def _cleaned(value: Any, clean: Clean) -> Any:
    if isinstance(value, dict):
        return {name: _cleaned(one, clean) for name, one in value.items()}
    # Cut only when it is clean: half of a secret looks like none.
    return clean(value)[:LONGEST] if isinstance(value, str) else value
