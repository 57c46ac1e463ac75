"""A run hands work on to Dask workers, each a process with a cockpit and boxes of its own."""

import itertools
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.assembly import close_cockpit, dask_children
from kagura_kernel.assembly.dask_worker import RESOURCE, Packet, packed, packet_of, run_child
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.patterns import Handoff
from kagura_kernel.runs.order import ChildOrder
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.brain import Ask, Together
from kagura_kernel.testing.patience import wait_until
from tests.integration.dispatch.conftest import events, hand_on, launch, only, told
from tests.integration.dispatch.workers import cluster, cockpit_at, on_each, set_up, set_up_for_good, take_down

pytest.importorskip("distributed")
pytestmark = [pytest.mark.usefixtures("open_for_boxes"), pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[3]
SECRET = "tok-6f1d9c2b7a4e8d3f-of-the-parent"


@pytest.fixture(scope="module")
def workers() -> Iterator[str]:
    """A scheduler's address, with two workers behind it."""
    with cluster() as made:
        yield made.scheduler_address


@pytest.fixture
def open_for_boxes(project: Path, tmp_path: Path) -> None:
    for folder in (project, tmp_path, *tmp_path.parents[:2]):
        if os.geteuid() == 0:
            folder.chmod(0o755)


@pytest.fixture
def pids(workers: str, tmp_path: Path) -> Iterator[dict[str, int]]:
    """The workers with cockpits on the journal in this home; their process ids."""
    yield on_each(workers, set_up, str(tmp_path / "home"), {})
    on_each(workers, take_down)


@pytest.fixture
def parent(tmp_path: Path, workers: str, pids: dict[str, int]) -> Iterator[Callable[..., Cockpit]]:
    assert len(pids) == 2
    made: list[Cockpit] = []

    def make(*script: Any, **settings: Any) -> Cockpit:
        made.append(cockpit_at(str(tmp_path / "home"), {"workers": workers, **settings}, {"parent": script}))
        return made[-1]

    yield make
    for cockpit in made:
        cockpit.close()


def test_what_is_handed_on_is_done_in_another_process(parent, project, pids):
    cockpit = parent(Together((hand_on("nothing"), hand_on("nothing"))), "Done.")
    outcome = cockpit.launch(launch(project)).result(120)
    assert outcome.text == "Done."
    begun = events(cockpit, outcome.run_id, "child.started")
    owners = {row.run_id: row.owner for row in cockpit.runs()}
    assert {int(owners[event.child].split(":")[1]) for event in begun} <= set(pids.values())
    assert all(owners[event.child].startswith(event.worker) for event in begun)
    assert {event.status for event in events(cockpit, outcome.run_id, "child.ended")} == {"done"}


def test_files_go_there_and_come_back(parent, project):
    cockpit = parent(
        Ask("bash", {"command": "echo laid > laid.txt"}),
        hand_on("files"),
        Ask("bash", {"command": "cat made.txt data.csv"}),
        ".",
    )
    outcome = cockpit.launch(launch(project)).result(120)
    assert events(cockpit, outcome.run_id, "tool.finished")[-1].text == "laid\na,b\n1,2\n5,6"
    assert sorted(outcome.changed_files) == ["data.csv", "laid.txt", "made.txt"]


def test_a_context_is_found_there_by_its_id(parent, project):
    cockpit = parent(hand_on("nothing", context="The colour is petrol."), ".")
    outcome = cockpit.launch(launch(project)).result(120)
    begun = only(cockpit, outcome.run_id, "child.started")
    [seen] = [event for event in events(cockpit, begun.child, "memory.seen") if event.how == "handoff"]
    assert [one.id for one in seen.memories] == [begun.memory_id]
    ended = only(cockpit, outcome.run_id, "child.ended")
    assert ended.memories
    assert cockpit.remembers(ended.memories[0])


def test_an_approval_of_a_child_elsewhere_is_answered_at_its_parent_s_desk(parent, project):
    cockpit = parent(hand_on("host"), ".")
    handle = cockpit.launch(launch(project))
    wait_until(cockpit.pending)
    [request] = cockpit.pending()
    assert request.lineage == (handle.run_id,)
    cockpit.decide(request.id, allow=True, by="alice", via="test")
    handle.result(120)
    child = only(cockpit, handle.run_id, "child.started").child
    assert "from the host" in only(cockpit, child, "tool.finished").text


def test_stopping_a_run_stops_its_children_elsewhere(parent, project):
    cockpit = parent(Together((hand_on("hang"), hand_on("hang"))), ".")
    handle = cockpit.launch(launch(project))
    wait_until(lambda: len(boxed(cockpit)) == 3)
    handle.kill("alice")
    assert handle.result(120).status == "killed"
    assert {row.status for row in cockpit.runs()} == {"killed"}
    opened, closed = (cockpit.journal.events(kinds=(kind,)) for kind in ("box.started", "box.closed"))
    assert {row.event.box_id for row in opened} == {row.event.box_id for row in closed}


def test_a_child_at_a_worker_hands_its_own_work_on_there(parent, project):
    cockpit = parent(hand_on("child"), ".")
    outcome = cockpit.launch(launch(project)).result(120)
    child = only(cockpit, outcome.run_id, "child.ended")
    deeper = only(cockpit, child.child, "child.started")
    owners = {row.run_id: row.owner for row in cockpit.runs()}
    assert owners[deeper.child] == owners[child.child] != owners[outcome.run_id]
    assert deeper.worker == ""


def boxed(cockpit: Cockpit) -> list[str]:
    return [row.run_id for row in cockpit.runs() if row.box and row.live]


def test_a_worker_with_another_journal_refuses(parent, project, workers, tmp_path):
    on_each(workers, take_down)
    on_each(workers, set_up, str(tmp_path / "elsewhere"), {})
    cockpit = parent(hand_on("nothing"), ".")
    outcome = cockpit.launch(launch(project)).result(120)
    assert "The worker keeps another journal" in told(cockpit, outcome)
    assert "ERR_WORKERS" in told(cockpit, outcome)
    assert len(cockpit.runs()) == 1


def test_what_a_set_of_tasks_changed_elsewhere_can_be_applied_here(parent, project, workers, tmp_path):
    shared = tmp_path / "home"
    on_each(workers, take_down)
    settings = {"journal_url": str(shared), "memory": str(shared / "memory.sqlite3")}
    on_each(workers, set_up, str(tmp_path / "elsewhere"), settings)
    (project / "laid.txt").write_text("laid\n")
    cockpit = parent()
    [outcome] = cockpit.session().dispatch(["files"], project=project, net=("none",)).result(120)
    assert sorted(outcome.changed_files) == ["data.csv", "made.txt"]
    cockpit.changes_desk.apply(outcome.run_id, by="alice")
    assert (project / "made.txt").read_text() == "laid\n"
    assert (project / "data.csv").read_text() == "a,b\n1,2\n5,6\n"


def test_children_go_to_workers_that_have_boxes(parent, project, workers, pids, tmp_path):
    without, able = list(pids)
    at(workers, without, take_down)
    at(workers, without, set_up, str(tmp_path / "home"), {"broken": "bwrap is not installed"})
    cockpit = parent(Together((hand_on("nothing"),) * 4), ".")
    outcome = cockpit.launch(launch(project)).result(120)
    ended = [event.child for event in events(cockpit, outcome.run_id, "child.ended")]
    owners = {row.run_id: row.owner for row in cockpit.runs()}
    assert {int(owners[child].split(":")[1]) for child in ended} == {pids[able]}
    # With nobody left it says why of each, and begins nothing.
    at(workers, able, take_down)
    at(workers, able, set_up, str(tmp_path / "home"), {"broken": "no Docker daemon answers"})
    cockpit = parent(hand_on("nothing"), ".")
    before = len(cockpit.runs())
    outcome = cockpit.launch(launch(project)).result(120)
    text = told(cockpit, outcome)
    assert "no worker there has a box" in text
    assert f"{without}: " in text
    assert "bwrap is not installed" in text
    assert "no Docker daemon answers" in text
    assert (len(cockpit.runs()), "ERR_WORKERS" in text) == (before + 1, True)


def test_where_workers_say_how_many_boxes_they_have_children_go_there_as_so_many(parent, project, workers, pids):
    chosen, other = list(pids)
    declare(workers, chosen, 1)
    try:
        cockpit = parent(Together((hand_on("files"),) * 3), ".")
        outcome = cockpit.launch(launch(project)).result(120)
    finally:
        declare(workers, chosen, 0)
    owners = {row.run_id: row.owner for row in cockpit.runs()}
    ended = [event.child for event in events(cockpit, outcome.run_id, "child.ended")]
    assert ({int(owners[child].split(":")[1]) for child in ended}, len(ended)) == ({pids[chosen]}, 3)
    # One box, so one after the other.
    spans = sorted(
        (events(cockpit, child, "run.started")[0].at, events(cockpit, child, "run.finished")[0].at) for child in ended
    )
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
    assert other != chosen


def at(address: str, worker: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call this in one worker, in a thread of its own."""
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        return client.submit(function, *arguments, workers=[worker], pure=False).result(60)


def declare(address: str, worker: str, boxes: int) -> None:
    """Let a worker be as one that was started with this number of boxes."""
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.run(_declared, boxes, workers=[worker])


async def _declared(boxes: int, dask_worker: Any) -> None:
    await dask_worker.set_resources(**{RESOURCE: boxes})


@pytest.mark.parametrize(("way", "why"), [("tcp", "nobody answers there"), ("tls", "has to name certificates")])
def test_an_address_where_nobody_can_be_reached_is_an_error_that_says_so(parent, project, monkeypatch, way, why):
    monkeypatch.setattr("kagura_kernel.assembly.dask_children.CONNECT_SECONDS", 0.5)
    cockpit = parent(hand_on("nothing"), ".", workers=f"{way}://127.0.0.1:9")
    outcome = cockpit.launch(launch(project)).result(120)
    assert (outcome.status, why in told(cockpit, outcome)) == ("done", True)


LOST = """
{first}
import logging
import warnings
from kagura_kernel.assembly.dask_children import _library

distributed = _library()
logging.getLogger("distributed.client").error("a stack trace of a scheduler that is gone")
warnings.warn(distributed.versions.VersionMismatchWarning("a table of other versions"))
"""


@pytest.mark.parametrize(("first", "told"), [("", False), ("import distributed", True)])
def test_what_dask_writes_of_a_lost_scheduler_comes_into_no_cell_but_of_whoever_uses_dask(first, told):
    done = subprocess.run([sys.executable, "-c", LOST.format(first=first)], cwd=ROOT, capture_output=True, check=True)
    assert (b"a stack trace" in done.stderr) == (b"a table of other" in done.stderr) == told


def test_a_packet_says_what_to_do_and_holds_no_secret(project, tmp_path, monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "KAGURA_API_KEY", "AWS_SECRET_ACCESS_KEY", "KAGURA_JOURNAL_URL"):
        monkeypatch.setenv(name, SECRET)
    seen: list[Packet] = []

    class Watched:
        async def run(self, order: ChildOrder, _started: Callable[[str, str], None]) -> Any:
            seen.append(Packet(order, "journal"))
            raise UsageError("It was only looked at.")

    cockpit = cockpit_at(
        str(tmp_path / "home"), {"env": {"TOKEN": SECRET}}, {"parent": [hand_on("child", context=SECRET), "."]}
    )
    try:
        monkeypatch.setattr(cockpit, "_children", Watched())
        cockpit.launch(RunRequest(task="parent", project=project, net=("github", "ask"))).result(60)
    finally:
        cockpit.close()
    [packet] = seen
    travels = pickle.dumps((run_child, packed(packet), {}))
    assert SECRET.encode() not in travels
    assert b"github" in travels
    assert packet_of(packed(packet)) == packet


def test_what_arrives_is_checked_and_never_unpickled():
    order = ChildOrder("do it", Handoff(lineage=("run-1",)), "run-1", "ses", Path("/p"))
    try:
        text, contents = run_child("{}", {})
        assert ("the worker failed" in text, contents) == (True, {})
        assert "install the same one" in run_child(packed(Packet(order, version="0.0.0")), {})[0]
    finally:
        close_cockpit()


# ------------------------------------------------------------- a killed worker


@pytest.fixture
def doomed(tmp_path: Path) -> Iterator[Any]:
    """A cluster of its own, whose workers may be killed."""
    with cluster(2, 2) as made:
        set_up_for_good(made.scheduler_address, str(tmp_path / "home"))
        yield made


def kill_worker_of(cockpit: Cockpit, child: str) -> int:
    """SIGKILL to the process that runs this child; its id."""
    pid = int(next(row.owner for row in cockpit.runs() if row.run_id == child).split(":")[1])
    os.kill(pid, signal.SIGKILL)
    return pid


def descendants(pid: int) -> list[int]:
    """Processes below this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found += [int(path.parent.name), *descendants(int(path.parent.name))]
    return found


def test_the_child_of_a_killed_worker_is_done_once_more_and_its_box_is_gone(doomed, tmp_path, project):
    cockpit = cockpit_at(
        str(tmp_path / "home"), {"workers": doomed.scheduler_address}, {"parent": [hand_on("hang"), "."]}
    )
    try:
        handle = cockpit.launch(launch(project))
        # The child's box may stand before its parent has heard that it began.
        wait_until(lambda: len(boxed(cockpit)) == 2 and events(cockpit, handle.run_id, "child.started"))
        first = only(cockpit, handle.run_id, "child.started").child
        wait_until(lambda: events(cockpit, first, "tool.finished"))
        pid = int(next(row.owner for row in cockpit.runs() if row.run_id == first).split(":")[1])
        below = descendants(pid)
        assert below
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: len(events(cockpit, handle.run_id, "child.started")) == 2)
        wait_until(lambda: not any(Path(f"/proc/{one}").exists() for one in below))
        ended = only(cockpit, handle.run_id, "child.ended")
        second = events(cockpit, handle.run_id, "child.started")[1].child
        assert (ended.child, ended.status, ended.again) == (first, "lost", second)
        assert next(row.status for row in cockpit.runs() if row.run_id == first) == "lost"
        wait_until(lambda: events(cockpit, second, "tool.finished"))
        handle.kill("alice")
        handle.result(120)
    finally:
        cockpit.close()


def test_a_child_that_did_something_outside_of_its_box_is_not_done_twice(doomed, tmp_path, project):
    cockpit = cockpit_at(
        str(tmp_path / "home"), {"workers": doomed.scheduler_address}, {"parent": [hand_on("host and hang"), "."]}
    )
    try:
        handle = cockpit.launch(launch(project))
        wait_until(cockpit.pending)
        cockpit.decide(cockpit.pending()[0].id, allow=True, by="alice", via="test")
        # The child may ask before its parent has heard that it began.
        wait_until(lambda: events(cockpit, handle.run_id, "child.started"))
        child = only(cockpit, handle.run_id, "child.started").child
        wait_until(lambda: events(cockpit, child, "tool.finished"))
        kill_worker_of(cockpit, child)
        outcome = handle.result(120)
        ended = only(cockpit, outcome.run_id, "child.ended")
        assert (ended.status, ended.again, ended.error_code) == ("lost", "", "ERR_RUN_LOST")
        assert "not begun once more, for it had run a command on the host" in told(cockpit, outcome)
    finally:
        cockpit.close()


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler's process, with a worker behind it; its address is in `scheduler.json`."""
    file = str(tmp_path / "scheduler.json")
    options = ("--scheduler-file", file, "--no-dashboard")
    program = [sys.executable, "-m", "dask"]
    begun = [subprocess.Popen([*program, "scheduler", "--host", "127.0.0.1", "--port", "0", *options], cwd=tmp_path)]
    try:
        wait_until(lambda: Path(file).exists())
        begun.append(subprocess.Popen([*program, "worker", "--nworkers", "1", *options], cwd=ROOT))
        address = json.loads(Path(file).read_text())["address"]
        set_up_for_good(address, str(tmp_path / "home"))
        # A child finds it here, however long it takes to start on a busy machine.
        on_each(address, os.getpid, at_least=1)
        yield begun[0]
    finally:
        begun[0].send_signal(signal.SIGCONT)
        for one in reversed(begun):
            one.terminate()
            one.wait(30)


def test_a_scheduler_that_no_longer_answers_is_given_up_and_so_are_its_children(
    scheduler, tmp_path, project, monkeypatch
):
    monkeypatch.setattr(dask_children, "CONNECT_SECONDS", 1.0)
    address = json.loads((tmp_path / "scheduler.json").read_text())["address"]
    cockpit = cockpit_at(str(tmp_path / "home"), {"workers": address}, {"parent": [hand_on("hang"), "."]})
    try:
        handle = cockpit.launch(launch(project))
        wait_until(lambda: events(cockpit, handle.run_id, "child.started"))
        child = only(cockpit, handle.run_id, "child.started").child
        scheduler.send_signal(signal.SIGSTOP)
        outcome = handle.result(60)
        assert only(cockpit, outcome.run_id, "child.ended").status == "lost"
        assert "does not answer" in told(cockpit, outcome)
        # Its worker is well, and hears of it by the journal.
        wait_until(lambda: not boxed(cockpit))
        assert next(row.status for row in cockpit.runs() if row.run_id == child) in ("lost", "killed")
    finally:
        scheduler.send_signal(signal.SIGCONT)
        cockpit.close()


def test_what_a_killed_parent_had_handed_on_ends_too(workers, pids, tmp_path, project):
    assert len(pids) == 2
    home = str(tmp_path / "home")
    argv = [sys.executable, "-m", "tests.integration.dispatch.lone_parent", home, workers, str(project)]
    with subprocess.Popen(argv, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}) as lone:
        looking = cockpit_at(home, {})
        try:
            wait_until(lambda: len(boxed(looking)) == 2)
            lone.kill()
            wait_until(lambda: [row.status for row in looking.runs() if row.lineage] == ["killed"])
            [child] = [row.run_id for row in looking.runs() if row.lineage]
            assert only(looking, child, "box.closed").box_id == only(looking, child, "box.started").box_id
        finally:
            looking.close()


def test_workers_may_be_reached_through_tls_alone(tmp_path, project):
    import dask
    from distributed import Security

    keys = Security.temporary()
    configured = {
        "distributed.comm.tls.ca-file": keys.tls_ca_file,
        "distributed.comm.tls.client.cert": keys.tls_client_cert,
        "distributed.comm.tls.client.key": keys.tls_client_key,
    }
    home = str(tmp_path / "home")
    with cluster(1, security=keys) as made, dask.config.set(configured):
        address = made.scheduler_address
        assert address.startswith("tls://")
        on_each(address, set_up, home, {})
        cockpit = cockpit_at(home, {"workers": address}, {"parent": [hand_on("nothing"), "."]})
        try:
            outcome = cockpit.launch(launch(project)).result(120)
            assert only(cockpit, outcome.run_id, "child.ended").status == "done"
        finally:
            cockpit.close()
            on_each(address, take_down)


def test_a_process_that_is_sent_work_alone_has_the_cockpit_of_its_settings(tmp_path):
    # As `dask worker` is: it imports no more of ours than the function that it is to call.
    asked = (
        "import asyncio; from kagura_kernel.assembly.dask_worker import why_no_box as f; print(asyncio.run(f('no')))"
    )
    environ = {**os.environ, "KAGURA_HOME": str(tmp_path / "home"), "KAGURA_CONFIG": str(tmp_path / "config.toml")}
    ran = subprocess.run(
        [sys.executable, "-c", asked], env=environ, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "'no'" in ran.stdout, ran.stderr
