"""A pytest plugin that keeps tests away from the person's machine.

A test has no real home, no network, no Docker daemon, no keychain, and does not wait by the clock on the wall, unless a
marker asks: `network`, `docker`, `keychain`, `real_clock`. What a test reaches for without its marker is refused with
`Refused`, which names the marker, and the test fails even if the code under test swallowed the refusal. What tests
started and did not end fails the session.

Load it with `pytest_plugins = ["kagura_kernel.testing.guards"]` in the root conftest.

Not promised: programs that a test starts are not watched while they run; they inherit the false home and nothing else.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import SupportsIndex

import pytest

from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.testing import false_home
from kagura_kernel.testing.false_home import TOKEN

# Python's own helpers live as long as the process that started them.
_HELPERS = (b"multiprocessing.resource_tracker", b"multiprocessing.forkserver")
_BOX_PROGRAMS = (b"bwrap", b"runsc-sandbox", b"runsc-gofer", b"/runsc\0", b"kagura_kernel.sandbox.")


@dataclass(frozen=True, slots=True)
class Process:
    """One process as /proc shows it."""

    pid: int  # Its number
    parent: int  # Its parent's number
    started: float  # When, seconds since 1970
    # Its arguments, NUL between them; empty for a thread of the system, a zombie, and while a program takes its place
    command: bytes
    environment: bytes  # Its variables at its start, NUL between them; empty when they may not be read
    zombie: bool = False  # Whether it has ended, and its parent has not asked yet

    @property
    def description(self) -> str:
        """For a person: number and command line."""
        line = self.command.replace(b"\0", b" ").decode("utf-8", "replace").strip()
        return f"{self.pid}: {line[:300]}"


def select(processes: Sequence[Process], *, token: str, since: float, me: int) -> list[Process]:
    """Those that belong to the test session of this token and are neither `me`, nor above `me`, nor Python's helpers.

    A process belongs to it when it descends from `me`, when it carries the token, or when it is an orphan that looks
    like a box and was born during the session (a box has an environment of its own).
    """
    by_pid = {process.pid: process for process in processes}
    above = {me, *_ancestors(by_pid, me)}

    def ours(process: Process) -> bool:
        if process.pid in above or process.zombie or any(word in process.command for word in _HELPERS):
            return False
        if me in _ancestors(by_pid, process.pid) or f"{TOKEN}={token}".encode() in process.environment.split(b"\0"):
            return True
        orphan = process.parent <= 1 or process.parent not in by_pid
        return orphan and process.started >= since and any(word in process.command for word in _BOX_PROGRAMS)

    return [process for process in processes if ours(process)]


def descendants(pid: int) -> list[Process]:
    """Processes that this one started, and those that they started."""
    by_pid = {process.pid: process for process in _processes()}
    return [process for process in by_pid.values() if pid in _ancestors(by_pid, process.pid)]


def wait_until_gone(token: str, *, since: float, patience: float) -> list[Process]:
    """What is still there after `patience` seconds; returns as soon as nothing is."""
    give_up = time.monotonic() + patience
    while True:
        left = select(list(_processes()), token=token, since=since, me=os.getpid())
        if not left or time.monotonic() > give_up:
            return left
        time.sleep(0.1)


def end(processes: Iterable[Process]) -> None:
    """Kill them, so that they do not disturb whoever comes next."""
    for process in processes:
        try:
            os.kill(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def _ancestors(by_pid: dict[int, Process], pid: int) -> list[int]:
    found: list[int] = []
    while (process := by_pid.get(pid)) and process.parent not in found and process.parent > 0:
        found.append(process.parent)
        pid = process.parent
    return found


def _processes() -> Iterable[Process]:
    proc = Path("/proc")
    try:
        booted = _boot_time(proc)
        entries = [entry for entry in proc.iterdir() if entry.name.isdigit()]
    except OSError:
        return
    for entry in entries:
        try:
            # The name in brackets may hold blanks and brackets itself.
            fields = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes().rstrip(b"\0")
        except OSError:
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            environment = b""
        started = booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")
        yield Process(int(entry.name), int(fields[1]), started, command, environment, zombie=fields[0] == "Z")


def _boot_time(proc: Path) -> float:
    for line in (proc / "stat").read_text("ascii", "replace").splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    return 0.0


_LOOK_UPS = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"})
_SENDING = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})

# Daemons that a machine may run anyway; no marker opens them, tests start their own.
_DAEMONS_OF_THE_MACHINE = frozenset(
    f"{folder}/{name}"
    for folder in ("/run", "/var/run")
    for name in ("docker.sock", "podman/podman.sock", "containerd/containerd.sock")
)


def refusal(event: str, arguments: tuple[object, ...], allowed: frozenset[str]) -> str:
    """Why this audit event of the `socket` module is refused to a test with these markers; empty when it is not."""
    if event in _LOOK_UPS:
        return _refuse_look_up(arguments[0], allowed)
    if event in _SENDING:
        return _refuse_address(arguments[0], arguments[1], allowed)
    return ""


def _refuse_look_up(host: object, allowed: frozenset[str]) -> str:
    name = host[0] if isinstance(host, tuple) else host
    if isinstance(name, bytes):
        name = name.decode("ascii", "replace")
    if "network" in allowed or not isinstance(name, str) or name in ("", "localhost", socket.gethostname()):
        return ""
    if _is_address(name):
        return ""
    return f"Looking up {name!r} would ask the network. Use loopback, or ask with @pytest.mark.network."


def _refuse_address(sock: object, address: object, allowed: frozenset[str]) -> str:
    family = getattr(sock, "family", None)
    if family == socket.AF_UNIX:
        return _refuse_unix(address, allowed)
    if family not in (socket.AF_INET, socket.AF_INET6) or not isinstance(address, tuple):
        return ""
    host = str(address[0])
    if "network" in allowed or host in ("", "localhost") or _is_here(host):
        return ""
    return f"Connecting to {host}:{address[1]} leaves the machine. Use loopback, or ask with @pytest.mark.network."


def _refuse_unix(address: object, allowed: frozenset[str]) -> str:
    if not isinstance(address, str | bytes):
        return ""
    path = os.path.normpath(os.fsdecode(address))
    if path in _DAEMONS_OF_THE_MACHINE:
        return f"{path} belongs to the machine, not to the tests: start a daemon of your own."
    if "docker" in os.path.basename(path) and "docker" not in allowed:  # noqa: PTH119 - a socket's name, not a file
        return f"{path} looks like a Docker daemon. Ask with @pytest.mark.docker."
    return ""


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_here(host: str) -> bool:
    # Connecting to the unspecified address means this machine.
    address = ipaddress.ip_address(host.partition("%")[0]) if _is_address(host) else None
    return address is not None and (address.is_loopback or address.is_unspecified)


MARKERS = {
    "network": "reaches beyond loopback (only into network namespaces of its own)",
    "docker": "talks to a Docker daemon that the tests started themselves",
    "keychain": "may use the keychain of the machine",
    "real_clock": "waits by the clock on the wall for longer than a second",
    "browser": "drives a browser",
    "postgres": "talks to a PostgreSQL server that the tests started themselves",
    "slow": "takes longer than ten seconds",
}

LONGEST_SLEEP = 1.0


class Refused(OSError):
    """A test reached for something real; an OSError, so that code under test behaves as on a machine without it."""


class _State:
    """What the running test may do. One per process: the audit hook below cannot be removed, only told."""

    hooked = False
    watching = False
    allowed: frozenset[str] = frozenset()
    refused: list[str]


_state = _State()
_state.refused = []
_real_sleep = time.sleep


def _refuse(text: str) -> None:
    _state.refused.append(text)
    raise Refused(text)


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if not event.startswith("socket.") or not _state.watching:
        return
    if why := refusal(event, arguments, _state.allowed):
        _refuse(why)


def _sleep(seconds: float | SupportsIndex, /) -> None:
    # Threads of libraries may poll as slowly as they like; a test that waits is one that waits itself.
    ours = threading.current_thread() is threading.main_thread()
    if _state.watching and ours and float(seconds) > LONGEST_SLEEP and "real_clock" not in _state.allowed:
        _refuse(
            f"time.sleep({float(seconds):g}) would really wait. Pass a FakeClock, or ask with @pytest.mark.real_clock."
        )
    _real_sleep(seconds)


@contextmanager
def expected_refusals() -> Iterator[list[str]]:
    """Refusals in this block are what the test is about and do not fail it; the list holds their texts."""
    before = len(_state.refused)
    seen: list[str] = []
    try:
        yield seen
    finally:
        seen.extend(_state.refused[before:])
        del _state.refused[before:]


# ------------------------------------------------------------------------ hooks


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long processes may take to be gone is a promise of the code under test, so a project may say it."""
    parser.addini("leftovers_patience", "seconds that processes have to end after the last test", default="30")


def pytest_configure(config: pytest.Config) -> None:
    """Put the false home in place before any test module is imported."""
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    # A worker's home lies in that of the session. A session inside a session has nothing to do with it: it must not
    # take what the outer one started for its own leftovers.
    outer = os.environ[false_home.TOKEN] if hasattr(config, "workerinput") else None
    # Short, because unix sockets are made below it and their paths may have only 107 bytes.
    base = Path(tempfile.mkdtemp(prefix="w" if outer else "kagura-", dir=outer))
    config.stash[_BASE] = base
    config.stash[_ENVIRONMENT] = dict(os.environ)
    config.stash[_SESSION_START] = time.time()
    config.stash[_TOKEN] = outer or str(base)
    false_home.apply(os.environ, base / "session", token=config.stash[_TOKEN])
    if not _state.hooked:
        sys.addaudithook(_audit)
        _state.hooked = True
    time.sleep = _sleep


_BASE = pytest.StashKey[Path]()
_ENVIRONMENT = pytest.StashKey[dict[str, str]]()
_SESSION_START = pytest.StashKey[float]()
_TOKEN = pytest.StashKey[str]()
_LEFT = pytest.StashKey[list[str]]()
_UNTOUCHED = pytest.StashKey[list[Path]]()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Give the process its own environment back."""
    _state.watching = False
    time.sleep = _real_sleep
    environment = config.stash.get(_ENVIRONMENT, None)
    if environment is not None:
        os.environ.clear()
        os.environ.update(environment)
        shutil.rmtree(config.stash[_BASE], ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--dist loadgroup`: what shares a browser or a database stays on one worker, other files whole.

    A Docker daemon serves several workers at once.
    """
    # Without pytest-xdist nobody knows its mark.
    for item in items if config.pluginmanager.hasplugin("xdist") else ():
        shared = [name for name in ("browser", "postgres") if item.get_closest_marker(name)]
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(shared[0] if shared else item.nodeid.partition("::")[0]))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Watch, from before the first fixture of whatever scope."""
    _state.allowed = frozenset(name for name in MARKERS if item.get_closest_marker(name))
    _state.refused = []
    _state.watching = True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A refusal fails the test, whoever caught it."""
    result = yield
    if _state.refused:
        pytest.fail(f"{item.name} reached for what it may not have:\n" + "\n".join(_state.refused), pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """Fixtures of a wider scope may end what an earlier test was allowed to start."""
    _state.allowed |= {"docker"}
    result = yield
    _state.watching = False
    return result


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Look for processes that tests started and did not end; a worker leaves that to the one who started it."""
    config = session.config
    if hasattr(config, "workerinput"):
        return
    left = wait_until_gone(
        config.stash[_TOKEN],
        since=config.stash[_SESSION_START],
        patience=float(config.getini("leftovers_patience")),
    )
    config.stash[_LEFT] = [process.description for process in left]
    if left:
        # Only what is surely ours is ended: an orphaned box may belong to another session on this machine.
        end(wait_until_gone(config.stash[_TOKEN], since=float("inf"), patience=0))
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name them."""
    left = config.stash.get(_LEFT, [])
    if left:
        terminalreporter.section("processes left behind by tests", red=True)
        for description in left:
            terminalreporter.line(description)


# --------------------------------------------------------------------- fixtures


@pytest.fixture(autouse=True)
def no_standing_keys() -> Iterator[None]:
    """What a test's brains and chats hold is hidden in the runs of that test alone."""
    yield
    # Imported by nobody, it has kept nothing; and most tests need not pay for it.
    kept = sys.modules.get("kagura_kernel.membrane.credentials.secret")
    if kept is not None:
        kept.forget_standing()


@pytest.fixture(autouse=True)
def private_home(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of this test's own, empty; the environment points nowhere else.

    One that a test has left as it was made is the next one's too: most tests touch none of its folders, and making and
    removing them takes longer than such a test.
    """
    untouched = request.config.stash.setdefault(_UNTOUCHED, [])
    base = untouched.pop() if untouched else Path(tempfile.mkdtemp(prefix="t", dir=request.config.stash[_BASE]))
    environment = dict(os.environ)
    false_home.apply(
        environment,
        base,
        token=request.config.stash[_TOKEN],
        keychain=request.node.get_closest_marker("keychain") is not None,
    )
    made = false_home.contents(base)
    for name in set(os.environ) - set(environment):
        monkeypatch.delenv(name)
    for name, value in environment.items():
        if os.environ.get(name) != value:
            monkeypatch.setenv(name, value)
    yield Path(environment["HOME"])
    with suppress(OSError):
        if false_home.contents(base) == made:
            untouched.append(base)
            return
    shutil.rmtree(base, ignore_errors=True)
