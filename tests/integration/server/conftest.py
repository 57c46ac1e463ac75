"""Real Jupyter servers, and a journal that a kernel of theirs has written."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.memory import Author, Draft, Source
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.memory.location import FILE
from kagura_kernel.memory.sqlite.store import SqliteMemory
from tests.support.jupyter_server import HANDLE, Server, Told, minted, start as start_server_process, stop
from tests.support.plugin_events import plugin_events
from tests.support.sample_run import SampleRun

StartServer = Callable[..., Server]


@pytest.fixture(scope="module")
def start_server() -> Iterator[StartServer]:
    """Starts a server, with more arguments and variables; all end with the module."""
    running: list[Server] = []
    with tempfile.TemporaryDirectory(prefix="srv-", ignore_cleanup_errors=True) as folder:

        def start(*arguments: str, files: Mapping[str, str] | None = None, **environment: str) -> Server:
            base = Path(folder) / str(len(running))
            base.mkdir()
            for name, text in (files or {}).items():
                (base / "config").mkdir(exist_ok=True)
                (base / "config" / name).write_text(text)
            running.append(start_server_process(base, arguments, environment))
            return running[-1]

        yield start
        for server in running:
            if server.process.poll() is None:
                stop(server)


@pytest.fixture(scope="module")
def server(start_server: StartServer) -> Server:
    """A server as JupyterHub starts one for Ana: under a base URL, with a token."""
    return start_server("--ServerApp.base_url=/user/ana/")


@pytest.fixture(scope="module")
def told(server: Server) -> Iterator[Told]:
    """What a kernel of this server has stored: an ended run, and one that waits for a person."""
    now = SystemClock().now()
    ended, live = SampleRun("run-ended", "ses-1", now), SampleRun("run-live", "ses-2", now)
    journal = server.journal()
    place = {"notebook": "books/sales.ipynb", "kernel_id": "kernel-1", "cell_id": "cell-1"}
    for event in (
        ended.started(owner=process_owner(), **place),
        *ended.tool(),
        ended.counted(),
        ended.asked("app-old"),
        ended.decided("app-old", verdict="deny", answer="not today"),
        ended.finished(computed_usd=0.5, reported_usd=0.25),
        live.started(task="deploy it", owner=process_owner(), budget_usd=2.0, **place),
        live.boxed(),
        live.counted(computed_usd=0.125),
        live.lease("acquired"),
        live.asked("app-new", deadline=86_400.0, options=("yes", "no")),
        *plugin_events(now),
    ):
        journal.append(event)
    ledger = LeaseLedger(journal)
    ledger.begin(minted("lea-1", live.run_id, now))
    ledger.complete("lea-1", handle=HANDLE, expires_at=now + timedelta(hours=1), dies_at=now + timedelta(hours=2))
    with closing(SqliteMemory(server.home / FILE)) as memory:
        memory.remember(Draft("The rows are counted by hand", Source(Author.HUMAN, "ada"), id="mem-told"))
    yield Told(journal, live, ended)
    journal.close()
