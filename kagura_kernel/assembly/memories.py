"""The one memory of a process, opened when it is first needed, and where its server is told of runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kagura_kernel.assembly.places import redactor_of
from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.domain.settings import Problem, Settings
from kagura_kernel.journal.place import data_home, read_settings

if TYPE_CHECKING:
    from kagura_kernel.cockpit.memory import MemoryDesk
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.memory.cloud.wire import CloudEvents
    from kagura_kernel.memory.store import MemoryStore


COSTS = ("KAGURA_COST_RESOURCE", "KAGURA_COST_KEY")
"""Variables with the resource to which what runs cost is told, and its key."""
TASKS = ("KAGURA_TASK_RESOURCE", "KAGURA_TASK_KEY")
"""Likewise, for how tasks stand."""


def check_memory(settings: Settings) -> list[Problem]:
    """What is wrong with where memories are to be kept; nothing of it is repeated, since a URL may hold a password."""
    from kagura_kernel.memory.location import problem_with

    problem = problem_with(settings.memory, setting=True)
    kinds = "a file, a postgresql:// URL, `cloud`, or an https:// address"
    return [("memory", f"it is to be {kinds}: {problem}")] if problem else []


@dataclass(eq=False)
class LazyMemory:
    """Opens the memory that the settings name, once, and closes it. From any thread."""

    environ: Mapping[str, str]  # Variables
    settings: Settings  # The user's
    home: Path  # Our data directory
    clock: Clock  # The time
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _store: MemoryStore | None = None

    def __call__(self) -> MemoryStore:
        """The memory.

        Raises:
            MemoryUnavailable: it cannot be used; the next call tries again.
        """
        from kagura_kernel.memory.location import open_memory

        with self._lock:
            if self._store is None:
                self._store = open_memory(
                    self.settings.memory,
                    self.home,
                    self.environ,
                    clock=self.clock,
                    meaning=self.settings.memory_meaning,
                )
            return self._store

    def close(self) -> None:
        """Close it if it was opened; may be called twice."""
        with self._lock:
            store, self._store = self._store, None
        if store is not None:
            store.close()


@dataclass(eq=False)
class LazyEvents:
    """Tells the cloud of runs: what they cost, or how their tasks stand. From any thread; connects with the first."""

    environ: Mapping[str, str]  # Variables
    where: str  # The memory that the settings name
    names: tuple[str, str]  # The variables that hold what follows
    resource: str  # The resource's name in the workspace
    key: str = field(repr=False)  # Its own key, which may do nothing else
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _events: CloudEvents | None = None

    def __call__(self, run_id: str, facts: Mapping[str, Any]) -> None:
        """Tell this of one run; told twice, it is there once.

        Raises:
            MemoryUnavailable: the cloud cannot be reached, or refuses.
        """
        from kagura_kernel.memory.cloud.wire import CloudEvents
        from kagura_kernel.memory.location import cloud_access

        with self._lock:
            if self._events is None:
                resource, key = self.names
                access = replace(cloud_access(self.where, self.environ), source=key, named=resource)
                self._events = CloudEvents(access, self.resource, self.key)
            events = self._events
        events.push(run_id, facts)

    def close(self) -> None:
        """Close its connections; may be called twice."""
        with self._lock:
            events, self._events = self._events, None
        if events is not None:
            events.close()


def lazy_events(environ: Mapping[str, str], settings: Settings, names: tuple[str, str]) -> LazyEvents | None:
    """What tells the cloud of runs; None where memories are not kept there, or nobody has named a resource for it.

    Args:
        environ: Variables.
        settings: The user's.
        names: The variables that hold the resource's name and its key: those of costs, or of tasks.

    Raises:
        ConfigurationError: a resource is named, and no key for it.
    """
    from kagura_kernel.memory.location import is_cloud

    resource, key = (environ.get(name, "").strip() for name in names)
    if not resource or not is_cloud(settings.memory):
        return None
    if not key:
        why = f"{names[1]} is missing: it holds the key of the resource that {names[0]} names"
        raise ConfigurationError("the environment", [why])
    return LazyEvents(environ, settings.memory, names, resource, key)


@contextmanager
def memory_desk(environ: Mapping[str, str]) -> Iterator[MemoryDesk]:
    """A desk on the memory of the settings; the journal is opened by whatever changes something.

    Raises:
        ConfigurationError: the settings are wrong.
    """
    from kagura_kernel.cockpit.memory import MemoryDesk, MemoryServices

    settings, home, clock = read_settings(environ), data_home(environ), SystemClock()
    memory = LazyMemory(environ, settings, home, clock)
    with ExitStack() as stack:
        stack.callback(memory.close)

        @cache
        def journal() -> Journal:
            from kagura_kernel.journal.store import Journal

            opened = Journal.open(settings.journal_url or home, clock=clock)
            stack.callback(opened.close)
            return opened

        yield MemoryDesk(MemoryServices(memory, journal, clock, home, redactor=redactor_of(home)))
