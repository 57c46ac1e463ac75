"""A pytest plugin that keeps tests away from the person's machine.

A test has no real home, no network, no Docker daemon, no keychain, and does not wait by the clock on the wall, unless a
marker asks: `network`, `docker`, `keychain`, `real_clock`. What a test reaches for without its marker is refused with
`Refused`, which names the marker, and the test fails even if the code under test swallowed the refusal. What tests
started and did not end fails the session.

Load it with `pytest_plugins = ["kagura_kernel.testing.guards"]` in the root conftest.

Not promised: programs that a test starts are not watched while they run; they inherit the false home and nothing else.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import SupportsIndex

import pytest

from kagura_kernel.testing import false_home, leftovers
from kagura_kernel.testing.reach import refusal

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
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `--dist loadgroup`: what shares a browser or a database stays on one worker, other files whole.

    A Docker daemon serves several workers at once.
    """
    for item in items:
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
    left = leftovers.wait_until_gone(
        config.stash[_TOKEN],
        since=config.stash[_SESSION_START],
        patience=float(config.getini("leftovers_patience")),
    )
    config.stash[_LEFT] = [process.description for process in left]
    if left:
        # Only what is surely ours is ended: an orphaned box may belong to another session on this machine.
        leftovers.end(leftovers.wait_until_gone(config.stash[_TOKEN], since=float("inf"), patience=0))
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
