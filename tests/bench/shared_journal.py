"""`python -m tests.bench scale`: what a thousand users of one shared journal cost, and where it breaks.

A PostgreSQL server of its own on this machine's socket, filled with a million rows of a thousand users; then, in turn:
whole runs in fakes of boxes, rows stored at a rate that is raised until they wait, glances of runs that wait for a
person, lists, connections. Each part takes seconds, all of it some two minutes. It prints; it decides nothing.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal import spending, views
from kagura_kernel.journal.encoding import stamp
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.pages import Watch, event_page
from kagura_kernel.journal.session_registry import sessions
from kagura_kernel.journal.sharing import share
from kagura_kernel.journal.store import Journal
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import FakeBrain
from kagura_kernel.testing.cockpit import fake_cockpit
from tests.support.postgres_network import PostgresServer, postgres_server, why_not
from tests.support.sample_run import SampleRun

ROWS, USERS, GOING_ON, WAITING = 1_000_000, 1_000, 200, 100
_OF_A_RUN = 100
_SETTINGS = {"fsync": "on", "full_page_writes": "on", "max_connections": "700", "shared_buffers": "512MB"}
_PROCESSES = 2
_SECONDS = 4.0
_RATES = (12, 100, 500, 1000, 2000, 4000, 8000)
_LATE = 0.5
"""From where rows count as waiting: seconds that one in twenty is stored after it was due."""


def main() -> int:
    """Measure and print."""
    if why := why_not():
        print(why, file=sys.stderr)
        return 2
    with postgres_server(_SETTINGS) as server:
        url = server.new_database()
        for part in (_filled, _size, _lists, _runs, _stored, _glances, _connections):
            began = time.perf_counter()
            for line in part(server, url):
                print(line, flush=True)
            print(f"  ({part.__name__.strip('_')}: {time.perf_counter() - began:.0f} s)", file=sys.stderr, flush=True)
    return 0


# ------------------------------------------------------------------------------------------------ what is there


def _tell(url: str, *statements: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as session:
        for statement in statements:
            cursor = session.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def _as(url: str, role: str) -> str:
    return url.replace("kagura@", f"{role}@")


def _filled(server: PostgresServer, url: str) -> Iterator[str]:
    """The rows are put there by the server itself, and their hashes are none: nothing here checks them."""
    del server
    journal = Journal.open(url)
    with journal.writing() as writing:
        share(writing.connection, journal.where)
    journal.close()
    run = SampleRun("RUN", "SESSION", datetime.now(UTC) - timedelta(days=1))
    body = run.tool(1)[0].model_dump_json().replace("'", "''")
    many = ROWS // _OF_A_RUN
    now, started = stamp(datetime.now(UTC)), stamp(run.at)
    blank = "'', 'm', '/srv', 'x', 'u'"
    _tell(
        url,
        f"DO $$ BEGIN FOR n IN 0..{USERS} LOOP EXECUTE format('CREATE ROLE u%s LOGIN IN ROLE kagura_users', n); "
        "END LOOP; END $$",
        "CREATE ROLE ivy LOGIN IN ROLE kagura_auditors",
        f"""SET session_replication_role = replica;
        INSERT INTO journal_events (seq, at, kind, run_id, session_id, body, prev_hash, hash, login)
        SELECT n, '{started}', 'tool.called', 'run-' || n / {_OF_A_RUN}, 'ses-' || n / {_OF_A_RUN},
            replace('{body}', '"RUN"', '"run-' || n / {_OF_A_RUN} || '"'), repeat('0', 64), repeat('0', 64),
            'u' || n / {_OF_A_RUN} % {USERS} FROM generate_series(1, {ROWS}) n;
        INSERT INTO journal_runs (run_id, first_seq, session_id, flavour, status, task, brain, box, model, project,
            owner, user_name, started_at, duration, turns, tool_calls, changed_files, input_tokens, output_tokens,
            cache_read_tokens, cache_write_tokens, computed_usd, cost_source, error_code, brain_session, login)
        SELECT 'run-' || n, n * {_OF_A_RUN} + 1, 'ses-' || n, 'agent',
            CASE WHEN n >= {many - GOING_ON} THEN 'running' ELSE 'done' END, 'count the rows', 'fake', {blank},
            '{started}', 9, 9, 9, 0, 9, 9, 9, 9, 0.1, 'x', '', '', 'u' || n % {USERS}
            FROM generate_series(0, {many - 1}) n;
        INSERT INTO journal_approvals (id, run_id, session_id, kind, title, detail, reason, arguments, options, call_id,
            content_hash, requested_at, deadline, deadline_at, owner, login)
        SELECT 'app-' || n, 'run-' || n, 'ses-' || n, 'tool', 'delete?', '"all"', '', '{{}}', '[]', '', '', '{now}',
            9e5, '{now}', '', 'u' || n % {USERS} FROM generate_series({many - WAITING}, {many - 1}) n;
        UPDATE journal_head SET rows = {ROWS}, last_hash = repeat('0', 64)""",
        "VACUUM ANALYZE",
    )
    yield f"{ROWS:,} rows of {USERS:,} users, {GOING_ON} runs that go on, {WAITING} approvals that wait"


def _size(server: PostgresServer, url: str) -> Iterator[str]:
    del server
    for table, rows in (("journal_events", ROWS), ("journal_runs", ROWS // _OF_A_RUN)):
        [(heap, whole)] = _tell(url, f"SELECT pg_table_size('{table}'), pg_total_relation_size('{table}')")
        yield f"{table}: {heap / rows:.0f} bytes a row, {whole / rows:.0f} with its indexes"


def _lists(server: PostgresServer, url: str) -> Iterator[str]:
    del server
    for role, who in ((f"u{USERS - 1}", "a user"), ("ivy", "an auditor")):
        journal = Journal.open(_as(url, role), create=False)
        try:
            found = [f"{what} {1000 * _took(look):.1f}" for what, look in _looks(journal).items()]
            yield f"{who}, ms: {', '.join(found)}"
        finally:
            journal.close()


def _looks(journal: Journal) -> dict[str, Callable[[], object]]:
    """What people look at, in words."""
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    return {
        "the newest 50 runs": lambda: views.runs(journal, limit=50),
        "runs that go on": lambda: views.unfinished(journal),
        "approvals that wait": lambda: Mailbox(journal).pending(),
        "sessions": lambda: sessions(journal, limit=50),
        "what a day cost": lambda: spending.spent(journal, day=yesterday),
        "events of one run": lambda: event_page(journal, f"run-{ROWS // _OF_A_RUN - 1}"),
        "the number of the newest row": journal.last_seq,
        "a sidebar's first look": lambda: Watch(journal).look(),
    }


def _took(look: Callable[[], object]) -> float:
    figures = []
    for _ in range(5):
        began = time.perf_counter()
        look()
        figures.append(time.perf_counter() - began)
    return median(figures)


# ------------------------------------------------------------------------------------------------- what it does


def _runs(server: PostgresServer, url: str) -> Iterator[str]:
    """Whole runs of one process at once, with fakes of a brain and of boxes, and everything between them real."""
    [(before,)] = _tell(url, "SELECT rows FROM journal_head")
    with TemporaryDirectory(prefix="kagura-scale-") as home, _cpu(server) as spent:
        # One of whom nothing is there: the journal's newest rows are looked at when it is opened.
        here = time.process_time()
        took = asyncio.run(_launched(Path(home), _as(url, f"u{USERS}")))
        here = time.process_time() - here
    [(after,)] = _tell(url, "SELECT rows FROM journal_head")
    yield (
        f"{GOING_ON} runs at once in one process: {took:.1f} s, {(after - before) / GOING_ON:.0f} rows a run, "
        f"CPU a run {1000 * here / GOING_ON:.0f} ms here and {1000 * spent[0] / GOING_ON:.0f} ms in the server"
    )


async def _launched(home: Path, url: str) -> float:
    settings = Settings(journal_url=url)
    brain = FakeBrain(["I look.", "It is done."])
    project = home / "project"
    project.mkdir()
    cockpit = fake_cockpit(home / "data", backend=FakeBackend(), brains=[brain], settings=settings)
    try:
        began = time.perf_counter()
        orders = [
            RunRequest(task=f"task {number}", project=project, net=("none",), new_session=True)
            for number in range(GOING_ON)
        ]
        runs = [cockpit.launch(order) for order in orders]
        await asyncio.gather(*(run.wait() for run in runs))
        return time.perf_counter() - began
    finally:
        await asyncio.to_thread(cockpit.close)


@contextmanager
def _cpu(server: PostgresServer) -> Iterator[list[float]]:
    """Seconds of CPU of the server's processes within a block."""
    spent: list[float] = []
    before = _server_cpu(server)
    yield spent
    spent.append(_server_cpu(server) - before)


def _server_cpu(server: PostgresServer) -> float:
    """With all sessions that are over, whose time their parent has taken in."""
    return sum(_ticks(pid) for pid in _server_pids(server)) / os.sysconf("SC_CLK_TCK")


def _server_pids(server: PostgresServer) -> list[int]:
    main_pid = int((server.home / "data" / "postmaster.pid").read_text().split()[0])
    return [main_pid, *map(int, Path(f"/proc/{main_pid}/task/{main_pid}/children").read_text().split())]


def _ticks(pid: int) -> int:
    try:
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    except OSError:
        return 0


def _stored(server: PostgresServer, url: str) -> Iterator[str]:
    """Rows of some users, stored at a rate together; each is timed from when it was due."""
    for connections in (8, GOING_ON):
        with _storers(url, connections) as storers:
            for rate in _RATES:
                with _cpu(server) as spent:
                    late, seconds = _at_rate(storers, rate / connections)
                many, half, most = len(late), late[len(late) // 2], late[int(len(late) * 0.95)]
                yield (
                    f"{connections} connections, {rate} rows/s wanted: {many / seconds:.0f} stored a second, half "
                    f"within {1000 * half:.1f} ms, 95 of 100 within {1000 * most:.0f} ms, "
                    f"{1e6 * spent[0] / many:.0f} µs of the server's CPU a row"
                )
                if most > _LATE:
                    break


@contextmanager
def _storers(url: str, connections: int) -> Iterator[list[Any]]:
    """Processes that have journals open, and store rows at the rate of each connection that they are told."""
    forked = multiprocessing.get_context("fork")
    ends: list[Any] = []
    processes = []
    each = connections // _PROCESSES
    for number in range(_PROCESSES):
        here, there = forked.Pipe()
        processes.append(forked.Process(target=_store, args=(url, range(number * each, (number + 1) * each), there)))
        processes[-1].start()
        ends.append(here)
    try:
        for end in ends:
            end.recv()
        yield ends
    finally:
        for end in ends:
            end.send(None)
        for process in processes:
            process.join()


def _at_rate(storers: list[Any], rate: float) -> tuple[list[float], float]:
    """How late each row was stored, the least late first, and how long all of it took."""
    for end in storers:
        end.send(rate)
    found = [end.recv() for end in storers]
    return sorted(one for late, _ in found for one in late), max(seconds for _, seconds in found)


def _store(url: str, users: range, end: Any) -> None:
    journals = [Journal.open(_as(url, f"u{user}"), create=False) for user in users]
    runs = [SampleRun(f"run-{os.getpid()}-{user}") for user in users]
    for journal, run in zip(journals, runs, strict=True):
        for event in (run.started(), *run.tool(1)):
            journal.append(event)
    end.send(([], 0.0))
    while (rate := end.recv()) is not None:
        end.send(_storing(journals, runs, rate))
    for journal in journals:
        journal.close()


def _storing(journals: list[Journal], runs: list[SampleRun], rate: float) -> tuple[list[float], float]:
    late: list[float] = []
    began = time.perf_counter()

    def store(number: int) -> None:
        due = number / len(journals) / rate
        while due < _SECONDS and time.perf_counter() - began < 2 * _SECONDS:
            time.sleep(max(0.0, began + due - time.perf_counter()))
            journals[number].append(runs[number].tool(1)[0])
            late.append(time.perf_counter() - began - due)
            due += 1 / rate

    _all_at_once(store, len(journals))
    return late, max(_SECONDS, time.perf_counter() - began)


def _all_at_once(do: Callable[[int], None], many: int) -> None:
    threads = [threading.Thread(target=do, args=(number,)) for number in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _glances(server: PostgresServer, url: str) -> Iterator[str]:
    """Runs that wait for a person, while rows are stored as on a busy day."""
    each = WAITING // _PROCESSES
    orders = [(url, range(number * each, (number + 1) * each)) for number in range(_PROCESSES)]
    with _storers(url, 4) as storers:
        for rate in (0, 12, 120):
            with multiprocessing.get_context("fork").Pool(_PROCESSES) as pool, _cpu(server) as spent:
                waiting = pool.starmap_async(_glancing, orders)
                if rate:
                    _at_rate(storers, rate / 4)
                found = waiting.get()
            glances, looks = (sum(one[place] for one in found) / _SECONDS for place in range(2))
            yield (
                f"{WAITING} that wait, {rate} rows/s beside them: {glances:.0f} glances and {looks:.0f} looks a "
                f"second, {100 * spent[0] / _SECONDS:.0f} % of a core of the server, their connections included"
            )


def _glancing(url: str, users: range) -> tuple[int, int]:
    """How many glances, and how many of them were worth a look."""
    counts = [[0, 0] for _ in users]
    until = time.perf_counter() + _SECONDS

    def wait(number: int) -> None:
        journal = Journal.open(_as(url, f"u{users[number]}"), create=False)
        mailbox = Mailbox(journal)
        glance = mailbox.glance()
        while time.perf_counter() < until:
            counts[number][0] += 1
            if (mark := glance.news()) is not None:
                counts[number][1] += 1
                mailbox.decisions([f"app-{users[number]}"])
                mailbox.take(["run-none"])
                glance.seen(mark)
            time.sleep(glance.pause)
        journal.close()

    _all_at_once(wait, len(users))
    return sum(one for one, _ in counts), sum(one for _, one in counts)


def _connections(server: PostgresServer, url: str) -> Iterator[str]:
    """What a connection that has done a little keeps of the server's memory, not counting what all share."""
    journals = [Journal.open(_as(url, f"u{number}"), create=False) for number in range(100)]
    for number, journal in enumerate(journals):
        journal.append(SampleRun(f"run-c-{number}").started())
        journal.mark()
        views.runs(journal, limit=10)
    pids = _server_pids(server)[1:]
    held = [kept for pid in pids if "u" in _role(pid) and (kept := _private(pid))]
    yield f"{len(held) / len(journals):.0f} connections of a kernel, {median(held):.1f} MiB each in the server"
    for journal in journals:
        journal.close()


def _role(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_text().split()
    return words[1] if len(words) > 1 else ""


def _private(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024
