"""The program of `test_far_workers`: a parent, a scheduler and a PostgreSQL in one network, workers in another one.

It runs in its own network namespace, and starts the workers in a second one, under the name of another machine.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.owner import owner_alive
from kagura_kernel.testing.patience import wait_until
from tests.integration.dispatch.conftest import events, hand_on, launch, only
from tests.integration.dispatch.workers import cockpit_at, on_each, set_up
from tests.support.postgres_network import postgres_server

HERE, THERE = "198.18.77.1", "198.18.77.2"
DATABASE_PORT, SCHEDULER_PORT = 54321, 54322
ADDRESS = f"tcp://{HERE}:{SCHEDULER_PORT}"
GRANT = "fake:read"


@contextmanager
def program(log: Path, *argv: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program of ours for the length of a block."""
    with log.open("wb") as output:
        running = subprocess.Popen(argv, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=log.parent)
        try:
            yield running
        finally:
            running.terminate()
            try:
                running.wait(20)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


def database() -> Any:
    """A server that the other network reaches."""
    hba = f"local all all trust\nhost all all {HERE}/30 trust\n"
    return postgres_server(
        {"listen_addresses": HERE, "port": str(DATABASE_PORT), "hba_file": "HOME/hba.conf"}, {"hba.conf": hba.encode()}
    )


def ended(cockpit: Cockpit, task: str, project: Path, **more: Any) -> str:
    """The one child of a run that hands this task on and waits for it."""
    outcome = cockpit.launch(launch(project, task, **more)).result(120)
    assert outcome.status == "done", outcome.error
    child = only(cockpit, outcome.run_id, "child.ended")
    assert child.status == "done", events(cockpit, outcome.run_id, "tool.finished")[0].text
    return str(child.child)


def lost(cockpit: Cockpit, project: Path) -> dict[str, Any]:
    """A child that holds a credential, whose worker is killed: what became of everything."""
    handle = cockpit.launch(launch(project, "risk", grants=(GRANT,)))
    wait_until(lambda: events(cockpit, handle.run_id, "child.started"))
    first = only(cockpit, handle.run_id, "child.started").child
    wait_until(lambda: events(cockpit, first, "tool.finished"))
    ledger = LeaseLedger(cockpit.journal)
    owner = next(row.owner for row in cockpit.runs() if row.run_id == first)
    held = [row.id for row in ledger.open_rows() if row.owner == owner]
    os.kill(int(owner.split(":")[1]), signal.SIGKILL)
    wait_until(lambda: len(events(cockpit, handle.run_id, "child.started")) == 2)
    wait_until(lambda: not [row for row in ledger.open_rows() if row.owner == owner])
    second = events(cockpit, handle.run_id, "child.started")[1].child
    wait_until(lambda: events(cockpit, second, "tool.finished"))
    handle.kill("the test")
    handle.result(120)
    wait_until(lambda: not ledger.open_rows())
    return {
        "held": len(held),
        "seen from here": owner_alive(owner),
        "first": next(row.status for row in cockpit.runs() if row.run_id == first),
        "again": events(cockpit, handle.run_id, "child.ended")[0].again == second,
        "elsewhere": next(row.owner for row in cockpit.runs() if row.run_id == second) != owner,
    }


def main(folder: Path, network: str) -> dict[str, Any]:
    """Everything, from the first program to the last; what was found."""
    project = folder / "project"
    python, found = sys.executable, {}
    away = ("nsenter", f"--net=/run/netns/{network}", "unshare", "--uts", "sh", "-c", 'hostname far; exec "$@"', "sh")
    with ExitStack() as stack:
        server = stack.enter_context(database())
        name = server.new_database().partition("?")[0].rpartition("/")[2]
        url = f"postgresql+psycopg://kagura@{HERE}:{DATABASE_PORT}/{name}"
        settings = {"journal_url": url, "memory": url, "preapproved_grants": [GRANT], "pool_size": 0}
        scheduler = (python, "-m", "distributed.cli.dask_scheduler", "--host", HERE, "--port", str(SCHEDULER_PORT))
        stack.enter_context(program(folder / "scheduler.log", *scheduler, "--no-dashboard"))
        for number in (1, 2):
            worker = (python, "-m", "distributed.cli.dask_worker", ADDRESS, "--host", THERE, "--no-dashboard")
            more = ("--nthreads", "2", "--no-nanny", "--local-directory", str(folder / f"worker-{number}"))
            stack.enter_context(program(folder / f"worker-{number}.log", *away, *worker, *more))
        wait_until(lambda: len(on_each_or_none()) == 2)
        pids = on_each(ADDRESS, set_up, str(folder / "far-home"), {**settings, "sweeps": False})
        scripts = {
            "parent": [hand_on("files", context="The colour is petrol."), "."],
            "risk": [hand_on("hang", credentials=[GRANT]), "."],
        }
        cockpit = cockpit_at(str(folder / "home"), {**settings, "workers": ADDRESS, "sweeps": True}, scripts)
        try:
            (project / "laid.txt").write_text("laid\n")
            child = ended(cockpit, "parent", project)
            row = next(row for row in cockpit.runs() if row.run_id == child)
            found = {
                "far": row.owner.startswith("far-"),
                "in a worker": int(row.owner.split(":")[1]) in pids.values(),
                "handed": [event.how for event in events(cockpit, child, "memory.seen")].count("handoff"),
                "lost": lost(cockpit, project),
                "boxes": len(cockpit.journal.events(kinds=("box.started",))),
            }
        finally:
            cockpit.close()
    return found


def on_each_or_none() -> dict[str, Any]:
    """The workers that are there by now."""
    try:
        return on_each(ADDRESS, os.getpid)
    except (OSError, TimeoutError):
        return {}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), sys.argv[2])) + "\n")
