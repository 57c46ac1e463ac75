"""A shell's view of the program: a project with cassettes, the real command, and a pseudo-terminal in front of it."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pexpect
import pytest

from kagura_kernel.testing.guards import Process, descendants
from kagura_kernel.testing.patience import wait_until
from tests.support.kernel import kernel_environ
from tests.support.served import Commands

PROGRAM = ["-m", "kagura_kernel.cli.main"]


@dataclass
class Shell:
    """Runs `kagura-kernel` in a project, with an environment of its own."""

    project: Path
    environ: dict[str, str]
    commands: Commands
    open: list[pexpect.spawn] = field(default_factory=list)

    def cassette(self, *calls: dict[str, Any], answer: str = "Over.", name: str = "c.jsonl") -> str:
        """A brain that makes these calls and then answers."""
        lines = [{"kagura_cassette": 1}, {"text": "I try."}, *({"call": call} for call in calls)]
        lines.append({"done": {"text": answer}})
        (self.project / name).write_text("\n".join(map(json.dumps, lines)))
        return name

    def run(self, *words: str, given: str = "", piped: bool = False, **more: str) -> subprocess.CompletedProcess[str]:
        """The program without a terminal: what it printed, and its exit code.

        Unless it is given something or `piped`, it is a fork of one that was started before, and its streams are files.
        """
        if not given and not piped:
            return self.commands.told(self.environ | more, self.project, *words)
        return subprocess.run(
            [sys.executable, *PROGRAM, *words],
            cwd=self.project,
            env=self.environ | more,
            input=given,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    def terminal(self, *words: str, **more: str) -> pexpect.spawn:
        """The program behind a pseudo-terminal."""
        child = pexpect.spawn(
            sys.executable,
            [*PROGRAM, *words],
            cwd=str(self.project),
            env=self.environ | {"TERM": "dumb"} | more,
            encoding="utf-8",
            timeout=60,
            echo=False,
            dimensions=(40, 200),
            preexec_fn=_as_a_shell_starts_it,
        )
        self.open.append(child)
        return child


def _as_a_shell_starts_it() -> None:
    """Whatever the tests were started with: `nohup` and a job in the background leave signals ignored for all below."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def bash(command: str, **more: Any) -> dict[str, Any]:
    """A call of the shell."""
    return {"name": "bash", "arguments": {"command": command, **more}}


def runs(child: pexpect.spawn, command: bytes) -> list[Process]:
    """All processes below a program, once one of them was started with these words."""
    found: list[Process] = []

    def is_there() -> bool:
        # To look through all processes of a busy machine takes long, and what is waited for would wait for it.
        time.sleep(0.2)
        found[:] = descendants(child.pid)
        return any(command in one.command for one in found)

    wait_until(is_there)
    return found


def ended(child: pexpect.spawn) -> int:
    """Its exit code, once it is over."""
    child.expect(pexpect.EOF)
    child.close()
    return int(child.exitstatus if child.exitstatus is not None else -child.signalstatus)


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Most of a command is its imports, which these have behind them."""
    with Commands(tmp_path_factory.mktemp("commands")) as commands:
        yield commands


@pytest.fixture
def shell(project: Path, private_home: Path, commands: Commands) -> Iterator[Shell]:
    """A shell in a project of its own."""
    found = Shell(project, kernel_environ(private_home, KAGURA_BOX="bubblewrap"), commands)
    yield found
    for child in found.open:
        child.close(force=True)


@pytest.fixture
def host_call() -> Callable[[], dict[str, Any]]:
    """A call that needs a person's word."""
    return lambda: bash("touch on-the-host", host=True, reason="the box cannot")
