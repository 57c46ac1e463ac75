"""`kagura-kernel serve` as a process of its own: configured, started, killed, started again.

The other side of its chat is the caller's: a `SlackServer` that outlives any number of these processes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from kagura_kernel.testing.patience import wait_until
from tests.support.credential_life import Lives
from tests.support.slack_server import APP_TOKEN, BOT_TOKEN

PROGRAM = (sys.executable, "-m", "kagura_kernel.cli.main")
"""The command as a shell has it."""


def write_settings(folder: Path, api: str, project: Path, operators: Sequence[str], **more: object) -> Path:
    """Settings of somebody who serves one Slack, with both tokens in files; the path of the settings.

    Args:
        folder: Where they are written.
        api: Where that Slack is.
        project: Of its runs.
        operators: Who may speak.
        more: Further settings; a list, a number or a text each.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    table = {"operators": list(operators), "project": str(project), "api": api}
    for name, token in (("bot_token", BOT_TOKEN), ("app_token", APP_TOKEN)):
        path = folder / name
        path.write_text(token)
        path.chmod(0o600)
        table[f"{name}_file"] = str(path)
    settings = folder / "config.toml"
    settings.write_text(f"{_lines(more)}\n[transports.slack]\n{_lines(table)}")
    return settings


class _Life(ABC):
    """One life of the command, as it shows by whether it is there and by what it adds to its log."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._from = log.stat().st_size if log.exists() else 0

    @abstractmethod
    def ended(self) -> bool:
        """Whether it is over."""

    @property
    def said(self) -> str:
        """All that it has said so far."""
        return self._log.read_bytes()[self._from :].decode("utf-8", "replace") if self._log.exists() else ""

    def ready(self) -> bool:
        """Whether it listens.

        Raises:
            RuntimeError: it has ended instead.
        """
        if self.ended():
            message = f"serve has ended:\n{self.said[-4000:]}"
            raise RuntimeError(message)
        return "\nServing " in f"\n{self.said}"


class Served(_Life):
    """One life of the command.

    Args:
        environ: Its whole environment.
        folder: Its working directory.
        log: The file that what it says is added to.
    """

    def __init__(self, environ: Mapping[str, str], folder: Path, log: Path) -> None:
        super().__init__(log)
        with log.open("ab") as said:
            self._process = subprocess.Popen(
                [*PROGRAM, "serve"], env=dict(environ), cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ended(self) -> bool:
        """Whether it is over."""
        return self._process.poll() is not None

    def code(self) -> int:
        """Its exit code, negative for a signal; waits for its end."""
        return self._process.wait()

    def terminate(self) -> None:
        """Ask it to stop, as a service manager does; returns at once."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """`SIGKILL`; it is gone when this returns, and what it started may not be yet."""
        self._process.kill()
        self._process.wait()


class ServedLife(_Life):
    """The same by a fork of a process that has imported everything already: for who starts many.

    Args:
        lives: Those of `tests.support.served_life`.
        environ: Its whole environment.
        folder: Its working directory.
        log: The file that what it says is added to.
    """

    def __init__(self, lives: Lives, environ: Mapping[str, str], folder: Path, log: Path) -> None:
        super().__init__(log)
        self._lives = lives
        self.pid = lives.start(environ=dict(environ), folder=str(folder), log=str(log))

    def ended(self) -> bool:
        """Whether it is over."""
        return _state(self.pid)[0] == "Z"

    def kill(self) -> None:
        """`SIGKILL`; it is gone when this returns, and what it started may not be yet."""
        self._lives.kill(self.pid)


class Commands:
    """Other commands of the program, by forks too: for who asks much that is not itself what a test is about.

    A context manager; any thread may ask.

    Args:
        folder: Where it keeps what they print, for as long as they run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lives = Lives("tests.support.served_life")
        self._numbers = count()

    def __enter__(self) -> Self:
        """Ready when it returns."""
        self._lives.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """No command goes on."""
        self._lives.__exit__(kind, error, trace)

    def told(
        self, environ: Mapping[str, str], folder: Path, *words: str, given: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """One command, to its end.

        Args:
            environ: Its whole environment.
            folder: Its working directory.
            words: What stands behind the program's name.
            given: What it reads.
        """
        number = next(self._numbers)
        streams = [self._folder / f"{number}-{name}" for name in ("in", "out", "err")]
        streams[0].write_text(given)
        order = {"environ": dict(environ), "folder": str(folder), "words": list(words)}
        pid = self._lives.start(**order, streams=[str(path) for path in streams])
        try:
            wait_until(lambda: _state(pid)[0] == "Z", 120)
            # The last thing that the system says of a process is how it ended.
            code = os.waitstatus_to_exitcode(int(_state(pid)[-1]))
        finally:
            self._lives.kill(pid)
        out, err = (path.read_text() for path in streams[1:])
        for path in streams:
            path.unlink()
        return subprocess.CompletedProcess([*PROGRAM, *words], code, out, err)


def _state(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()


def told(environ: Mapping[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Another command of the program, to its end."""
    return subprocess.run(
        [*PROGRAM, *words],
        env=dict(environ),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _lines(values: Mapping[str, object]) -> str:
    # What JSON writes for texts, numbers and lists of them is TOML as well.
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
