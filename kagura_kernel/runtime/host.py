"""Runs commands on the host. It asks nobody: whoever calls it has an approval in hand.

A command gets a session of its own, a minimal environment without any of this process's keys, and time limits. When
it is over, in whatever way, its whole family is gone: jobs left in the background, and programs that started a group
of their own, too. Should this process be killed, a keeper process does the same within a second or two. What escapes
on purpose, by dropping its marker variable and letting its parent die first, is found no more, and what became another
user's (`sudo`) cannot be stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Literal

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
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.domain.search_path import entries_outside
from kagura_kernel.sandbox.guest.processes import family, kill_all
from kagura_kernel.sandbox.output import Printed

MARKER = "KAGURA_HOST_COMMAND"
"""Variable by which a command's processes are known even when they left its process group."""

_ROOT = str(Path(__file__).resolve().parents[2])
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from kagura_kernel.runtime.host_keeper import main; main()"


def stop_family(leader: int, marker: str) -> None:
    """Kill the command's group, session and descendants; `leader` must not have been reaped yet."""
    if Path("/proc/self/stat").exists():
        kill_all(lambda: family(leader, f"{MARKER}={marker}".encode()))
    signal_group(leader, signal.SIGKILL)


def signal_group(leader: int, number: signal.Signals) -> None:
    """Signal the command's process group, if there still is one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


class Watchdog:
    """The process that stops the command when this one is killed."""

    def __init__(self, leader: int, marker: str) -> None:
        words = [sys.executable, "-I", "-S", "-c", _PROGRAM, _ROOT, str(leader), f"{MARKER}={marker}"]
        # It must outlive an interrupt of the terminal, and see nothing of the environment.
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter with our own program
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """The command is gone: end the keeper without any harm; may be called twice."""
        if self._process.returncode is not None:
            return
        # Killed rather than told, so that nobody waits for its start; it has nothing to clean up.
        self._process.kill()
        self._process.wait()
        pipe: IO[bytes] | None = self._process.stdin
        if pipe is not None:
            pipe.close()


READ_BYTES = 65536
DRAIN_SECONDS = 1.0
REAP_SECONDS = 1.0
POLL_SECONDS = 0.02

Feed = Callable[[Stream, bytes], None]
Limit = Literal["total", "idle"]


class HostProcess:
    """A program in a session of its own; `feed` hears every chunk it prints. Whoever makes one calls `end` at last.

    Raises `OSError` when it cannot be started.
    """

    def __init__(
        self, argv: Sequence[str], directory: Path, environment: Mapping[str, str], stdin: bytes, feed: Feed
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._feed = feed
        self._marker = secrets.token_hex(8)
        self._unwritten = memoryview(stdin)
        self._open: dict[int, IO[bytes]] = {}
        self._drained = asyncio.Event()
        self._exited = asyncio.Event()
        self._pidfd = -1
        self._ended = False
        self._keeper: Watchdog | None = None
        self._popen = subprocess.Popen(  # noqa: S603 - a person approved exactly this
            list(argv),
            cwd=directory,
            env={**environment, MARKER: self._marker},
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        try:
            self._attend()
        except BaseException:
            self.end()
            raise

    async def finish(self, limits: CommandLimits, grace: float) -> Limit | None:
        """Wait for the end: its own (None), or the one that a limit brings."""
        reached = await self._until_exit(limits)
        if reached is not None:
            await self.stop_gently(grace)
        self._stop_family()
        # What was printed before the end may still lie in the pipes; a stranger may hold them open for ever.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._drained.wait()
        return reached

    async def stop_gently(self, grace: float) -> None:
        """Ask the group to end, and give it this many seconds."""
        signal_group(self._popen.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._wait_exit()

    def end(self) -> int:
        """Kill what is left, free everything, and tell the exit status (negative: a signal). May be called twice."""
        self._stop_family()
        try:
            status = self._popen.wait(REAP_SECONDS)
        except subprocess.TimeoutExpired:
            # It became somebody else's (`exec sudo …`), and they may not be stopped from here.
            status = -signal.SIGKILL
        self._ended = True
        if self._keeper is not None:
            self._keeper.dismiss()
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        for fd in list(self._open):
            self._close(fd)
        self._close_stdin()
        self._exited.set()
        self._drained.set()
        return status

    def _attend(self) -> None:
        self._keeper = Watchdog(self._popen.pid, self._marker)
        if self._popen.stdout is not None:
            self._listen("stdout", self._popen.stdout)
        if self._popen.stderr is not None:
            self._listen("stderr", self._popen.stderr)
        if self._popen.stdin is not None:
            os.set_blocking(self._popen.stdin.fileno(), False)
            self._loop.add_writer(self._popen.stdin.fileno(), self._write)
        if hasattr(os, "pidfd_open"):
            self._pidfd = os.pidfd_open(self._popen.pid)
            self._loop.add_reader(self._pidfd, self._exited.set)
        self._last_output = self._loop.time()

    def _listen(self, stream: Stream, pipe: IO[bytes]) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._open[pipe.fileno()] = pipe
        self._loop.add_reader(pipe.fileno(), self._read, stream, pipe.fileno())

    async def _until_exit(self, limits: CommandLimits) -> Limit | None:
        began = self._loop.time()
        while not self._exited.is_set():
            now = self._loop.time()
            left: dict[Limit, float] = {}
            if limits.total is not None:
                left["total"] = began + limits.total - now
            if limits.idle is not None:
                left["idle"] = self._last_output + limits.idle - now
            for limit, seconds in left.items():
                if seconds <= 0:
                    return limit
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left.values(), default=None)):
                    await self._wait_exit()
        return None

    async def _wait_exit(self) -> None:
        if self._pidfd >= 0:
            await self._exited.wait()
            return
        while self._popen.poll() is None:  # noqa: ASYNC110 - the system has nothing to wait on
            await asyncio.sleep(POLL_SECONDS)
        self._exited.set()

    def _stop_family(self) -> None:
        # Once it is reaped its number may belong to somebody else; where exits are polled for, that is a short moment.
        if self._popen.returncode is None:
            stop_family(self._popen.pid, self._marker)
        elif self._pidfd < 0 and not self._ended:
            signal_group(self._popen.pid, signal.SIGKILL)

    def _read(self, stream: Stream, fd: int) -> None:
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._last_output = self._loop.time()
            self._feed(stream, data)
            return
        self._close(fd)

    def _write(self) -> None:
        pipe = self._popen.stdin
        if pipe is None:
            return
        try:
            self._unwritten = self._unwritten[os.write(pipe.fileno(), self._unwritten) :]
        except BlockingIOError:
            return
        except OSError:
            # It does not want to read on; that is its own affair.
            self._unwritten = memoryview(b"")
        if not self._unwritten:
            self._close_stdin()

    def _close_stdin(self) -> None:
        pipe = self._popen.stdin
        if pipe is not None and not pipe.closed:
            self._loop.remove_writer(pipe.fileno())
            pipe.close()

    def _close(self, fd: int) -> None:
        self._loop.remove_reader(fd)
        self._open.pop(fd).close()
        if not self._open:
            self._drained.set()


GRACE_SECONDS = 2.0
CANCEL_GRACE_SECONDS = 0.2
NO_SUCH_PROGRAM = 127
SIGNAL_BASE = 128

BASH = "/bin/bash"

_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


class HostRunner:
    """Runs programs in one directory of the host: the project, unless a command says otherwise.

    Nothing of this package is imported from it, since a box's changes end up there. Without an `environment` commands
    see `minimal_environment`. When a limit is reached, `grace` seconds lie between the polite signal and the other one.
    Each stream goes through `after` behind a filter of the command itself, before anybody sees it.
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
                await printed.ready()
                printed.end()
                raise
            await printed.ready()
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
    user = _account()
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


def _account() -> pwd.struct_passwd | None:
    # In some containers the uid has no line in the password file.
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(os.getuid())
    return None
