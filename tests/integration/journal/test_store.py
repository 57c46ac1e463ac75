import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext

import pytest
from sqlalchemy import Column, Text, delete, insert, select, text, update

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import (
    JournalError,
    JournalLocked,
    JournalTampered,
    JournalTooNew,
    JournalUnreadable,
    JournalUnwritable,
)
from kagura_kernel.domain.events import BoxStarted, ChangesCollected, Event, OutputStreamed, TextStreamed
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.journal import views
from kagura_kernel.journal.encoding import row_hash
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.place import is_url
from kagura_kernel.journal.schema import approvals, events, head, runs
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun

RUN = SampleRun()
SLIP_IN = """INSERT INTO journal_events SELECT {seq}, at, kind, run_id, session_id, body, hash, hash
    FROM journal_events ORDER BY seq DESC LIMIT 1"""


def meddle(journal: Journal, *statements: str) -> None:
    with journal.writing() as writing:
        for statement in statements:
            writing.connection.execute(text(statement))


def fill(journal: Journal, rows: int) -> None:
    for number in range(rows):
        journal.append(RUN.noted(f"note {number}"))


def test_rows_are_numbered_from_one_and_come_back_as_they_were(journal):
    called, finished = RUN.tool()
    assert [journal.append(event) for event in (RUN.started(), called, finished)] == [1, 2, 3]
    assert [stored.event for stored in journal.events()] == [RUN.started(), called, finished]
    assert [stored.seq for stored in journal.events()] == [1, 2, 3]
    assert journal.last_seq() == 3


def test_an_empty_journal_has_no_rows_and_verifies(journal):
    assert journal.events() == []
    assert journal.last_seq() == 0
    assert journal.verify().rows == 0


def test_what_is_streamed_is_for_displays_and_refused(journal):
    streamed = {"run_id": "run-1", "session_id": "ses-1", "at": RUN.at, "text": "x"}
    for event in (TextStreamed(**streamed), OutputStreamed(**streamed, call_id="call-1", stream="stdout")):
        with pytest.raises(ValueError, match="never stored"):
            journal.append(event)
    assert journal.last_seq() == 0


def test_rows_are_found_by_run_session_kind_and_number(journal):
    other = SampleRun("run-2", "ses-2")
    for event in (RUN.started(), other.started(), RUN.noted(), other.noted(), RUN.finished()):
        journal.append(event)
    seqs = lambda **how: [stored.seq for stored in journal.events(**how)]  # noqa: E731 - one word for many lines
    assert seqs(run_id="run-1") == [1, 3, 5]
    assert seqs(session_id="ses-2") == [2, 4]
    assert seqs(kinds=["noted", "run.finished"]) == [3, 4, 5]
    assert seqs(after=2) == [3, 4, 5]
    assert seqs(after=1, limit=2) == [2, 3]
    assert seqs(run_id="run-1", kinds=["run.started"], after=1) == []


def test_a_text_that_is_not_unicode_comes_back_as_it_was(journal):
    journal.append(RUN.started(task="odd \udcff name and a \x00", project="/data/\udcfe"))
    journal.append(RUN.noted("日本語 \x00 \U0001f98a"))
    started, noted = (stored.event for stored in journal.events())
    assert "\udcff name" in started.task
    assert noted.text == "日本語 \x00 \U0001f98a"
    assert journal.verify().rows == 2


def test_a_text_is_nothing_but_a_text_to_the_database(journal):
    text = "it's; -- \\' %s %(key)s %% $1 :at ? E'\\n' \"x\" ');DROP TABLE journal_runs;--"
    events = [RUN.started(task=text), RUN.noted(text), RUN.counted(model=text), RUN.finished(error_code=text)]
    # The second time each goes another way than the first.
    for event in events * 2:
        journal.append(event)
    assert [stored.event for stored in journal.events()] == events * 2
    assert (views.runs(journal)[0].task, views.runs(journal)[0].error_code) == (text, text)
    assert journal.verify().rows == 8


def test_a_kind_of_a_later_version_comes_back_as_a_plain_event(journal):
    later = RUN.noted().model_copy(update={"kind": "box.moved"})
    journal.append(later)
    (stored,) = journal.events()
    assert (stored.event.kind, stored.event.run_id, stored.event.at) == ("box.moved", "run-1", RUN.at)


def test_two_handles_on_one_journal_keep_one_chain(open_journal):
    one, two = open_journal(), open_journal()
    assert [one.append(RUN.noted()), two.append(RUN.noted()), one.append(RUN.noted())] == [1, 2, 3]
    assert one.verify() == two.verify()


def test_many_threads_on_one_handle_keep_one_chain(journal):
    with ThreadPoolExecutor(8) as pool:
        seqs = list(pool.map(lambda number: journal.append(RUN.noted(str(number))), range(200)))
    assert sorted(seqs) == list(range(1, 201))
    assert journal.verify().rows == 200


def test_a_journal_that_grows_while_it_is_verified_still_verifies(journal):
    fill(journal, 50)
    with ThreadPoolExecutor(2) as pool:
        growing = pool.submit(fill, journal, 200)
        while not growing.done():
            assert journal.verify().rows >= 50
        growing.result()
    assert journal.verify().rows == 250


def test_more_rows_than_are_read_at_once_are_all_checked(journal):
    with journal.writing() as writing:
        for number in range(2001):
            writing.append(RUN.noted(str(number)))
    assert journal.verify().rows == 2001
    meddle(journal, "UPDATE journal_events SET run_id = 'run-x' WHERE seq = 2001")
    with pytest.raises(JournalTampered):
        journal.verify()


@pytest.mark.parametrize(
    ("statements", "seq", "why"),
    [
        (
            ["UPDATE journal_events SET body = replace(body, 'note 2', 'note x') WHERE seq = 3"],
            3,
            "not what was written",
        ),
        (["UPDATE journal_events SET at = '2025-01-01T00:00:00.000000Z' WHERE seq = 1"], 1, "not what was written"),
        (["DELETE FROM journal_events WHERE seq = 3"], 3, "missing; the next one is row 4"),
        (["DELETE FROM journal_events WHERE seq = 1"], 1, "missing"),
        (["DELETE FROM journal_events WHERE seq = 5"], 5, "had 5 rows and now holds 4"),
        (["DELETE FROM journal_events"], 1, "had 5 rows and now holds 0"),
        (["DELETE FROM journal_head"], 5, "record of the last row is missing"),
        (["DELETE FROM journal_events WHERE seq = 5", "UPDATE journal_head SET rows = 4"], 4, "not the row"),
        (["UPDATE journal_events SET prev_hash = hash WHERE seq = 4"], 4, "does not follow"),
        (
            [
                "UPDATE journal_events SET seq = 99 WHERE seq = 2",
                "UPDATE journal_events SET seq = 2 WHERE seq = 3",
                "UPDATE journal_events SET seq = 3 WHERE seq = 99",
            ],
            2,
            "does not follow",
        ),
        (
            [SLIP_IN.format(seq=6)],
            6,
            "not what was written",
        ),
        (
            [SLIP_IN.format(seq=-1)],
            1,
            "missing",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_whatever_is_done_to_the_rows_is_found(journal, statements, seq, why):
    fill(journal, 5)
    meddle(journal, *statements)
    with pytest.raises(JournalTampered, match=why) as caught:
        journal.verify()
    assert caught.value.seq == seq


def test_an_error_in_a_transaction_leaves_nothing_of_it(journal):
    fill(journal, 2)

    def interrupted() -> None:
        with journal.writing() as writing:
            writing.append(RUN.started())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert views.runs(journal) == []
    assert journal.append(RUN.noted()) == 3
    assert journal.verify().rows == 3


def test_a_journal_without_its_head_takes_no_more_rows(journal):
    fill(journal, 1)
    meddle(journal, "DELETE FROM journal_head")
    with pytest.raises(JournalUnwritable, match="head record is missing"):
        journal.append(RUN.noted())


def test_a_row_slipped_in_behind_the_head_stops_the_writing_instead_of_being_built_upon(journal):
    fill(journal, 1)
    meddle(journal, SLIP_IN.format(seq=2))
    with pytest.raises(JournalUnwritable):
        journal.append(RUN.noted())


def test_a_newer_journal_is_refused_when_it_is_opened_and_when_it_became_newer(journal, open_journal):
    journal.check_writable()
    meddle(journal, "INSERT INTO journal_version (version, applied_at) VALUES (99, 'later')")
    with pytest.raises(JournalTooNew) as caught:
        open_journal()
    assert caught.value.found == 99
    assert ("`journal_url`" if "://" in journal.where else "KAGURA_HOME") in caught.value.message
    for begins in (journal.check_writable, lambda: journal.append(RUN.started())):
        with pytest.raises(JournalTooNew):
            begins()
    # What goes on is finished.
    assert journal.append(RUN.finished()) == 1


def test_closing_twice_is_fine_and_a_closed_journal_says_so(journal):
    journal.close()
    journal.close()
    for use in (lambda: journal.append(RUN.noted()), journal.check_writable, journal.events, journal.verify):
        with pytest.raises(JournalError, match="it was closed"):
            use()


def test_reopening_goes_on_where_the_chain_ended(journal, open_journal):
    fill(journal, 3)
    journal.close()
    again = open_journal()
    assert again.append(RUN.noted()) == 4
    assert again.verify().rows == 4


RUN_OF_TABLES, OTHER = SampleRun(), SampleRun("run-2", "ses-2")
BASE = {"run_id": "run-1", "session_id": "ses-1", "at": RUN_OF_TABLES.at}
BOX = BoxStarted(**BASE, box_id="box-1", backend="bubblewrap", isolation="namespace", reason="there is no daemon")
CHANGES = ChangesCollected(**BASE, changes=(FileChange(path="a", status="added"),))
WHOLE: tuple[Event, ...] = (
    RUN_OF_TABLES.started(owner="host:1:2"),
    BOX,
    *RUN_OF_TABLES.tool(1),
    RUN_OF_TABLES.counted(computed_usd=0.1),
    RUN_OF_TABLES.counted(computed_usd=0.2, model=""),
    RUN_OF_TABLES.asked("app-1"),
    RUN_OF_TABLES.decided("app-1", verdict="deny"),
    RUN_OF_TABLES.asked("app-2"),
    CHANGES,
    RUN_OF_TABLES.finished(model="", reported_usd=0.3),
)


def tell(journal: Journal, *events: Event) -> None:
    for event in events:
        journal.append(event)


@pytest.mark.parametrize("length", range(len(WHOLE) + 1))
def test_the_tables_agree_with_the_rows_after_every_event(journal, length):
    tell(journal, *WHOLE[:length], OTHER.counted(), OTHER.finished(status="denied"), OTHER.started())
    assert journal.verify().rows == length + 3


def test_odd_values_agree_as_they_were_stored(journal):
    odd = "odd \udcff, \x00, \ud83d\ude00 and \U0001f98a"
    arguments = {
        "path": {1, 2},
        "when": RUN_OF_TABLES.at,
        "ratio": float("nan"),
        "bytes": b"\xff",
        "name": odd,
        "3": (1.0, 10**30),
    }
    tell(
        journal, RUN_OF_TABLES.started(task=odd * 100, project=odd, user=odd), RUN_OF_TABLES.counted(computed_usd=None)
    )
    tell(
        journal,
        RUN_OF_TABLES.counted(),
        RUN_OF_TABLES.asked("app-1", detail=odd, title=odd, reason=odd, options=(odd,)),
    )
    tell(
        journal,
        RUN_OF_TABLES.asked("app-2").model_copy(update={"arguments": arguments}),
        RUN_OF_TABLES.decided("app-1", by=odd, answer=odd),
    )
    assert journal.verify().rows == 6
    tell(journal, RUN_OF_TABLES.finished(error_code=odd, model=odd, computed_usd=1e-17))
    assert journal.verify().rows == 7


@pytest.mark.parametrize(
    ("statement", "table", "key", "seq", "why"),
    [
        ("UPDATE journal_approvals SET verdict = 'allow'", "approvals", "app-1", 7, "verdict is not what the events"),
        ("UPDATE journal_approvals SET verdict = NULL WHERE id = 'app-1'", "approvals", "app-1", 7, "verdict"),
        ("UPDATE journal_approvals SET decided_by = 'eve' WHERE id = 'app-1'", "approvals", "app-1", 7, "decided_by"),
        ("UPDATE journal_approvals SET verdict = 'allow' WHERE id = 'app-2'", "approvals", "app-2", 9, "verdict"),
        ("UPDATE journal_approvals SET detail = '\"ls\"' WHERE id = 'app-2'", "approvals", "app-2", 9, "detail"),
        ("UPDATE journal_approvals SET owner = 'x' WHERE id = 'app-2'", "approvals", "app-2", 9, "owner"),
        ("DELETE FROM journal_approvals WHERE id = 'app-1'", "approvals", "app-1", 7, "missing"),
        ("UPDATE journal_approvals SET id = 'app-9' WHERE id = 'app-2'", "approvals", "app-9", 11, "no event speaks"),
        ("DELETE FROM journal_runs", "runs", "run-1", 1, "missing"),
        ("UPDATE journal_runs SET run_id = 'run-9'", "runs", "run-9", 11, "no event speaks"),
        ("UPDATE journal_runs SET status = 'running', duration = NULL", "runs", "run-1", 1, "status, duration are"),
        ("UPDATE journal_runs SET reported_usd = 0", "runs", "run-1", 1, "reported_usd"),
        ("UPDATE journal_runs SET changed_files = 0", "runs", "run-1", 1, "changed_files"),
        ("UPDATE journal_runs SET task = 'something else'", "runs", "run-1", 1, "task"),
    ],
)
def test_whatever_is_done_to_a_table_is_found_and_made_good(journal, statement, table, key, seq, why):
    tell(journal, *WHOLE)
    meddle(journal, statement)
    with pytest.raises(JournalTampered, match=why) as caught:
        journal.verify()
    assert (caught.value.table, caught.value.key, caught.value.seq) == (f"journal_{table}", key, seq)
    assert f"journal_{table} at {key}" in caught.value.message
    assert "`kagura-kernel journal rebuild`" in caught.value.message
    assert journal.verify(tables=False).rows == len(WHOLE)
    views.rebuild(journal)
    assert journal.verify().rows == len(WHOLE)


def other(column: Column, value: object) -> object:
    """What a column might hold instead."""
    return f"{value or ''}x" if isinstance(column.type, Text) else (value or 0) + 1000


@pytest.mark.parametrize("table", [events, runs, approvals, head], ids=lambda table: table.name)
def test_whatever_column_is_changed_is_found(journal, table):
    tell(journal, *WHOLE)
    kept = [dict(row._mapping) for row in journal.read(select(table))]
    # The head is found by its id, and there is one.
    for column in table.c if table is not head else (head.c.rows, head.c.last_hash):
        with journal.writing() as writing:
            key = next(iter(table.primary_key))
            change = update(table).where(key == kept[0][key.name]).values({column: other(column, kept[0][column.name])})
            writing.connection.execute(change)
        with pytest.raises(JournalTampered):
            journal.verify()
        with journal.writing() as writing:
            writing.connection.execute(delete(table))
            writing.connection.execute(insert(table), kept)
        assert journal.verify().rows == len(WHOLE), column.name


def test_a_text_that_became_bytes_is_found(tmp_path):
    with closing(Journal.open(tmp_path)) as journal:
        fill(journal, 3)
        for column in events.c.keys()[1:]:
            meddle(journal, f"UPDATE journal_events SET {column} = CAST({column} AS BLOB) WHERE seq = 2")
            with pytest.raises(JournalTampered, match=r"row 2.*something that is no text"):
                journal.verify()
            meddle(journal, f"UPDATE journal_events SET {column} = CAST({column} AS TEXT) WHERE seq = 2")
        assert journal.verify().rows == 3


def test_a_broken_chain_is_told_before_a_broken_table(journal):
    tell(journal, *WHOLE)
    meddle(journal, "DELETE FROM journal_runs", "UPDATE journal_events SET kind = 'noted' WHERE seq = 11")
    with pytest.raises(JournalTampered) as caught:
        journal.verify()
    assert (caught.value.seq, caught.value.table) == (11, "")


def test_a_decision_may_lie_in_the_mailbox_while_the_run_goes_on(journal, mailbox):
    tell(journal, RUN_OF_TABLES.started(), RUN_OF_TABLES.asked("app-1"))
    mailbox.decide("app-1", Verdict.ALLOW, by="ada", via="sidebar")
    mailbox.post(RUN_OF_TABLES.request("app-2"))
    assert journal.verify().rows == 2
    views.rebuild(journal)
    assert mailbox.decision("app-1") is not None
    meddle(journal, "UPDATE journal_approvals SET title = 'harmless' WHERE id = 'app-1'")
    with pytest.raises(JournalTampered, match="title"):
        journal.verify()


def test_a_question_that_nobody_asked_is_no_question(journal, mailbox):
    tell(journal, RUN_OF_TABLES.started(), RUN_OF_TABLES.finished())
    mailbox.post(RUN_OF_TABLES.request("app-1"))
    with pytest.raises(JournalTampered, match="no event speaks of it"):
        journal.verify()
    views.rebuild(journal)
    assert journal.verify().rows == 2
    assert mailbox.pending() == []


def test_a_decision_that_came_when_the_process_was_gone_is_no_forgery(journal, mailbox):
    tell(journal, RUN_OF_TABLES.started(), RUN_OF_TABLES.asked("app-1"), RUN_OF_TABLES.asked("app-2"))
    mailbox.decide("app-1", Verdict.ALLOW, by="ada", via="sidebar")
    tell(journal, RUN_OF_TABLES.decided("app-2", verdict="aborted", via="lost"), RUN_OF_TABLES.finished(status="lost"))
    assert journal.verify().rows == 5
    views.rebuild(journal)
    assert journal.verify().rows == 5
    meddle(journal, "UPDATE journal_approvals SET verdict = 'allow' WHERE id = 'app-2'")
    with pytest.raises(JournalTampered, match="verdict"):
        journal.verify()


def test_a_row_that_is_no_event_cannot_be_counted(journal):
    tell(journal, RUN_OF_TABLES.started())
    stored = journal.events()[0]
    columns = "seq, at, kind, run_id, session_id, body, prev_hash"
    with journal.writing() as writing:
        row = writing.connection.execute(text(f"SELECT {columns} FROM journal_events")).one()
        forged = row_hash(row.seq, row.at, row.kind, row.run_id, row.session_id, "{}", row.prev_hash)
        writing.connection.execute(text("UPDATE journal_events SET body = '{}', hash = :hash"), {"hash": forged})
        writing.connection.execute(text("UPDATE journal_head SET last_hash = :hash"), {"hash": forged})
    assert forged != stored.hash
    with pytest.raises(JournalUnreadable, match="row 1 is no event"):
        journal.verify()


def test_another_handle_sees_it_too(journal, open_journal):
    tell(journal, *WHOLE)
    meddle(journal, "DELETE FROM journal_approvals WHERE id = 'app-2'")
    with pytest.raises(JournalTampered, match="app-2"):
        open_journal().verify()


APPEND = """
import sys
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun
where, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
journal = Journal.open(where)
run = SampleRun(name)
for number in range(count):
    seq = journal.append(run.noted(str(number)))
    print(seq, flush=True)
journal.close()
"""
DECIDE = """
import json, sys
from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import ApprovalAlreadyDecided
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.schema import approvals, events, head, runs
from kagura_kernel.journal.store import Journal
where, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
journal = Journal.open(where)
mailbox = Mailbox(journal)
print("ready", flush=True)
sys.stdin.readline()
won = []
for number in range(count):
    try:
        won.append(mailbox.decide(f"app-{number}", Verdict.ALLOW, by=name, via="test").approval_id)
    except ApprovalAlreadyDecided:
        pass
print(json.dumps(won))
journal.close()
"""


@contextmanager
def processes(code: str, where: str, names: list[str], count: int) -> Iterator[list[subprocess.Popen[str]]]:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, where, name, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    try:
        for process in started:
            assert process.stdout.readline() == "ready\n"
        for process in started:
            process.stdin.write("go\n")
            process.stdin.flush()
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def test_four_processes_that_open_a_new_journal_at_once_write_one_chain(where):
    with processes(APPEND, where, ["run-a", "run-b", "run-c", "run-d"], 200) as started:
        said = [process.communicate()[0].split() for process in started]
    assert [process.returncode for process in started] == [0, 0, 0, 0]
    assert sorted(int(seq) for seqs in said for seq in seqs) == list(range(1, 801))
    journal = Journal.open(where)
    try:
        assert journal.verify().rows == 800
        stored = journal.events()
        assert Counter(row.event.run_id for row in stored) == {f"run-{name}": 200 for name in "abcd"}
        for name in "abcd":
            texts = [row.event.text for row in stored if row.event.run_id == f"run-{name}"]
            assert texts == [str(number) for number in range(200)]
    finally:
        journal.close()


def test_of_four_processes_that_decide_exactly_one_wins_each_question(where):
    journal = Journal.open(where)
    try:
        mailbox = Mailbox(journal)
        for number in range(50):
            mailbox.post(SampleRun().request(f"app-{number}"))
        with processes(DECIDE, where, ["ada", "bob", "cyd", "dan"], 50) as started:
            won = {
                name: json.loads(process.communicate()[0])
                for name, process in zip(["ada", "bob", "cyd", "dan"], started, strict=True)
            }
        assert sorted(name for names in won.values() for name in names) == sorted(f"app-{n}" for n in range(50))
        decided = mailbox.decisions([f"app-{number}" for number in range(50)])
        assert all(decided[app].by == name for name, apps in won.items() for app in apps)
    finally:
        journal.close()


def test_a_process_killed_in_the_middle_of_writing_leaves_whole_rows_and_all_it_reported(where):
    rows = 0
    for attempt in range(3):
        with processes(APPEND, where, [f"run-{attempt}"], 100_000) as (writer,):
            reported = [int(writer.stdout.readline()) for _ in range(100 + 37 * attempt)]
            writer.send_signal(signal.SIGKILL)
            reported += [int(line) for line in writer.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        journal = Journal.open(where)
        try:
            checked = journal.verify().rows
            assert checked >= reported[-1] >= rows + 100
            journal.check_writable()
            rows = journal.append(SampleRun().noted("still here"))
            assert rows == checked + 1
        finally:
            journal.close()


GLANCE = """
import sys
from kagura_kernel.journal.store import Journal
journal = Journal.open(sys.argv[1], create=False)
print(journal.last_seq())
journal.close()
"""


def test_two_handles_of_one_process_keep_their_rows_when_another_process_comes_and_goes(tmp_path):
    first = Journal.open(tmp_path)
    first.append(SampleRun().noted("1"))
    second = Journal.open(tmp_path)
    for number in (2, 3):
        first.append(SampleRun().noted(str(number)))
        glance = [sys.executable, "-c", GLANCE, str(tmp_path)]
        said = subprocess.run(glance, capture_output=True, text=True, check=True, timeout=60).stdout
        assert said == f"{number}\n"
        assert second.last_seq() == number
    assert Journal.open(tmp_path).verify().rows == 3
    first.close()
    second.close()


def test_whoever_reads_waits_for_no_writer(journal, where, monkeypatch):
    monkeypatch.setattr("kagura_kernel.journal.sqlite.BUSY_SECONDS", 0.2)
    monkeypatch.setattr("kagura_kernel.journal.postgres.LOCK_SECONDS", 0.2)
    journal.append(SampleRun().started())
    with journal.writing():
        reader = Journal.open(where, create=False)
        try:
            assert [row.event.run_id for row in reader.events()] == ["run-1"]
            with pytest.raises(JournalLocked, match="is locked: another process has been writing"):
                reader.append(SampleRun().finished())
            # On a server, whose tables are as they should be, nothing is written.
            with nullcontext() if is_url(where) else pytest.raises(JournalLocked):
                Journal.open(where).close()
        finally:
            reader.close()
    journal.append(SampleRun().finished())
