"""Cockpits inside Dask workers, for tests: a scripted brain and real boxes, on the journal that the parent has."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.settings import Settings
from kagura_kernel.membrane.credentials.injection.settings import EnvInjection
from kagura_kernel.membrane.credentials.registry import Registry
from kagura_kernel.memory.location import open_memory
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.sandbox.pool import WarmPool
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import Ask, Hang
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.credential_fake import FakeProvider
from tests.support.task_brain import TaskBrain

SCRIPTS = {
    "nothing": ["Nothing."],
    "files": [Ask("bash", {"command": "cat laid.txt > made.txt; echo 5,6 >> data.csv"}), "Made."],
    "hang": [Ask("bash", {"command": "echo begun"}), Hang()],
    "host": [Ask("bash", {"command": "echo from the host", "host": True, "reason": "to see it"}), "Seen."],
    "host and hang": [Ask("bash", {"command": "echo out", "host": True, "reason": "to see it"}), Hang()],
    "child": [Ask("delegate", {"task": "nothing"}), "Handed on."],
}


@dataclass
class _Here:
    lock: threading.Lock = field(default_factory=threading.Lock)
    cockpit: Cockpit | None = None


_here = _Here()


def cockpit_at(home: str, settings: Mapping[str, Any], scripts: Mapping[str, Any] | None = None) -> Cockpit:
    """A cockpit with real boxes and a scripted brain."""
    values = dict(settings)
    sweeps, broken = bool(values.pop("sweeps", False)), str(values.pop("broken", ""))
    made = Settings(**values)
    memory = open_memory(made.memory, Path(home), {}, meaning=False)
    return fake_cockpit(
        Path(home),
        backend=FakeBackend(broken=broken) if broken else WarmPool(BubblewrapBackend(), size=made.pool_size),
        brains=[TaskBrain({**SCRIPTS, **(scripts or {})})],
        settings=made,
        memory=memory,
        prices=lambda *_: (0.01, "the test's"),
        registry=Registry(
            {"fake": FakeProvider()}, {"fake": (EnvInjection(way="env", variables={"TOKEN": "{token}"}),)}
        ),
        sweeps=sweeps,
        join=lambda parts: Cockpit(replace(parts, close_memory=memory.close if memory else parts.close_memory)),
    )


def set_up(home: str, settings: Mapping[str, Any]) -> int:
    """Let this worker use such a cockpit; its process id."""
    from kagura_kernel.assembly import dask_worker

    def make() -> Cockpit:
        with _here.lock:
            if _here.cockpit is None:
                _here.cockpit = cockpit_at(home, settings)
        return _here.cockpit

    dask_worker.use_cockpit(make)
    return os.getpid()


def take_down() -> None:
    """Close what this worker has, and let the next test begin afresh."""
    with _here.lock:
        cockpit, _here.cockpit = _here.cockpit, None
    if cockpit is not None:
        cockpit.close()


def preload() -> None:
    """What Dask's workers need is imported once, where they are forked; each would take seconds for it."""
    from distributed.utils import get_mp_context

    # Dask says what to preload when it is asked for the first time, and this has to come after that.
    get_mp_context().set_forkserver_preload(["distributed.nanny", "kagura_kernel.assembly.dask_worker", __name__])


@contextmanager
def cluster(number: int = 2, threads: int = 4, **more: Any) -> Iterator[Any]:
    """A scheduler and workers, each a process."""
    import dask
    from distributed import LocalCluster

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        preload()
        made = LocalCluster(
            n_workers=number,
            threads_per_worker=threads,
            processes=True,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
            silence_logs=50,
            **more,
        )
        try:
            yield made
        finally:
            made.close()


def set_up_for_good(address: str, home: str) -> None:
    """Let every worker use such a cockpit, and those too that come in the place of killed ones."""
    from distributed import Client, WorkerPlugin

    class Cockpits(WorkerPlugin):
        name = "cockpits"

        def setup(self, worker: Any) -> None:
            del worker
            set_up(home, {})

    with Client(address, set_as_default=False) as client:
        client.register_plugin(Cockpits())


def on_each(address: str, function: Callable[..., Any], *arguments: Any, at_least: int = 0) -> dict[str, Any]:
    """Call this in every worker, in a thread of its own, once there are so many."""
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        if at_least:
            client.wait_for_workers(at_least, timeout=60)
        workers = client.scheduler_info(n_workers=-1)["workers"]
        asked = {at: client.submit(function, *arguments, workers=[at], pure=False) for at in workers}
        return {at: future.result(60) for at, future in asked.items()}
