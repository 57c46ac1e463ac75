"""Runs commands on the host. It asks nobody: whoever calls it has an approval in hand.

A command gets a session of its own, a minimal environment without any of this process's keys, and time limits. When
it is over, in whatever way, its whole family is gone: jobs left in the background, and programs that started a group
of their own, too. Should this process be killed, a keeper process does the same within a second or two. What escapes
on purpose, by dropping its marker variable and letting its parent die first, is found no more, and what became another
user's (`sudo`) cannot be stopped.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kagura_kernel.domain.commands import (
    Command,
    CommandResult,
    OutputFilter,
    OutputListener,
    Stream,
    one_after_another,
)
from kagura_kernel.domain.errors import HostCommandTimeout, HostError, HostIdleTimeout, shorten
from kagura_kernel.domain.imports import distrust
from kagura_kernel.domain.search_path import entries_outside
from kagura_kernel.runtime.host_process import Feed, HostProcess
from kagura_kernel.sandbox.output import Printed

GRACE_SECONDS = 2.0
CANCEL_GRACE_SECONDS = 0.2
NO_SUCH_PROGRAM = 127
SIGNAL_BASE = 128

BASH = "/bin/bash"

_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


class HostRunner:
    """Runs programs in one directory of the host.

    Args:
        directory: Where commands run, unless they say otherwise: the project. Nothing of this package is imported
            from it, since a box's changes end up there.
        environment: What they see of variables; None is `minimal_environment`.
        grace: Seconds between the polite signal and the other one when a limit is reached.
        after: What each stream goes through behind a filter of the command itself, before anybody sees it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        environment: Mapping[str, str] | None = None,
        grace: float = GRACE_SECONDS,
        after: OutputFilter | None = None,
    ) -> None:
        self.directory = directory
        distrust(str(directory))
        self._environment = environment if environment is not None else minimal_environment(os.environ, directory)
        self._grace = grace
        self._after = after
        self._running: set[HostProcess] = set()
        self._closed = False

    async def run(self, command: Command, on_output: OutputListener | None = None) -> CommandResult:
        """Run one program to its end; one that fails, or does not exist (127), is a result.

        Several may run at once. Cancelling stops the whole family before it returns.

        Raises:
            HostCommandTimeout: time is up, and the family is gone.
            HostIdleTimeout: it fell silent for too long; gone likewise.
            HostError: it could not be started, or the runner was closed meanwhile.
        """
        self._refuse_when_closed(command)
        command = replace(command, output_filter=one_after_another(command.output_filter, self._after))
        printed = Printed(command, on_output)

        def feed(stream: Stream, data: bytes) -> None:
            printed.add(stream, memoryview(data))

        began = asyncio.get_running_loop().time()
        try:
            try:
                status = await self._attend(command, feed)
            except (HostCommandTimeout, HostIdleTimeout):
                printed.end()
                raise
            stdout, stderr = printed.finish()
        except BaseException:
            printed.discard()
            raise
        return CommandResult(
            exit_code=status if status >= 0 else SIGNAL_BASE - status,
            stdout=stdout,
            stderr=stderr,
            duration=asyncio.get_running_loop().time() - began,
            signal=-status if status < 0 else None,
        )

    async def close(self) -> None:
        """Stop whatever runs and refuse what comes later; may be called twice."""
        self._closed = True
        for process in list(self._running):
            process.end()

    async def _attend(self, command: Command, feed: Feed) -> int:
        """Start it, watch it, free it; the exit status, negative for a signal."""
        try:
            process = HostProcess(
                _with_known_shell(command.argv, self._environment),
                self._directory_of(command),
                {**self._environment, **command.env},
                command.stdin,
                feed,
            )
        except (FileNotFoundError, PermissionError) as error:
            feed("stderr", f"{command.argv[0]}: {error.strerror}\n".encode())
            return NO_SUCH_PROGRAM
        except (OSError, ValueError) as error:
            raise HostError(f"{shorten(command.line)} could not be started on the host: {error}.") from error
        self._running.add(process)
        try:
            reached = await process.finish(command.limits, self._grace)
        except asyncio.CancelledError:
            await process.stop_gently(CANCEL_GRACE_SECONDS)
            raise
        finally:
            self._running.discard(process)
            status = process.end()
        self._refuse_when_closed(command)
        if reached == "total":
            raise HostCommandTimeout(command.line, command.limits.total or 0.0)
        if reached == "idle":
            raise HostIdleTimeout(command.line, command.limits.idle or 0.0)
        return status

    def _directory_of(self, command: Command) -> Path:
        directory = self.directory / command.cwd if command.cwd else self.directory
        if not directory.is_dir():
            raise HostError(f"{shorten(command.line)} was not run on the host: there is no directory {directory}.")
        return directory

    def _refuse_when_closed(self, command: Command) -> None:
        if self._closed:
            raise HostError(f"{shorten(command.line)} was stopped on the host: the run is over.")


def minimal_environment(environment: Mapping[str, str], project: Path) -> dict[str, str]:
    """What a host command sees of variables: where programs and the home are, the language, and no way to ask back.

    Nothing else of `environment` is handed on, keys least of all. Entries of PATH that are relative or lead into the
    project are left out: `ls` must not mean a file that a box has put there.
    """
    user = pwd.getpwuid(os.getuid()) if _has_account() else None
    path = ":".join(entries_outside(environment.get("PATH", "").split(":"), [str(project)], os.path.realpath))
    name = environment.get("USER") or (user.pw_name if user else "")
    return {
        "CI": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "HOME": environment.get("HOME") or (user.pw_dir if user else "/"),
        "LANG": environment.get("LANG") or "C.UTF-8",
        "LOGNAME": name,
        "NO_COLOR": "1",
        "PAGER": "cat",
        "PATH": path or _DEFAULT_PATH,
        "TERM": "dumb",
        "USER": name,
    }


def _with_known_shell(argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[str, ...]:
    """The same words with the shell's full path: a shell line runs in the system's own bash."""
    if argv[:1] != ("bash",):
        return argv
    # Some systems have nothing in /bin; the path they have it on leads past the project.
    shell = BASH if os.path.isfile(BASH) else shutil.which("bash", path=environment.get("PATH", _DEFAULT_PATH))  # noqa: PTH113 - a constant of text
    return (shell or "bash", *argv[1:])


def _has_account() -> bool:
    # In some containers the uid has no line in the password file.
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True
