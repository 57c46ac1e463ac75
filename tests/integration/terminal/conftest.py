"""A shell's view of the program: a project with cassettes, the real command, and a pseudo-terminal in front of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pexpect
import pytest

from kagura_kernel.testing.kernel import kernel_environ

PROGRAM = ["-m", "kagura_kernel.cli.main"]


@dataclass
class Shell:
    """Runs `kagura-kernel` in a project, with an environment of its own."""

    project: Path
    environ: dict[str, str]
    open: list[pexpect.spawn] = field(default_factory=list)

    def cassette(self, *calls: dict[str, Any], answer: str = "Over.", name: str = "c.jsonl") -> str:
        """A brain that makes these calls and then answers."""
        lines = [{"kagura_cassette": 1}, {"text": "I try."}, *({"call": call} for call in calls)]
        lines.append({"done": {"text": answer}})
        (self.project / name).write_text("\n".join(map(json.dumps, lines)))
        return name

    def run(self, *words: str, given: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        """The program without a terminal: what it printed, and its exit code."""
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


def ended(child: pexpect.spawn) -> int:
    """Its exit code, once it is over."""
    child.expect(pexpect.EOF)
    child.close()
    return int(child.exitstatus if child.exitstatus is not None else -child.signalstatus)


@pytest.fixture
def shell(tmp_path: Path, private_home: Path) -> Iterator[Shell]:
    """A shell in a project of its own."""
    project = tmp_path / "project"
    project.mkdir()
    found = Shell(project, kernel_environ(private_home, KAGURA_BOX="bubblewrap"))
    yield found
    for child in found.open:
        child.close(force=True)


@pytest.fixture
def host_call() -> Callable[[], dict[str, Any]]:
    """A call that needs a person's word."""
    return lambda: bash("touch on-the-host", host=True, reason="the box cannot")
