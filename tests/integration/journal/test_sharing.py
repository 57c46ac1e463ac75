"""A PostgreSQL journal that several people share: two of them, an auditor, and one of the two with a client of her own.

The journal's owner is no superuser, and the hostile user says to the server whatever she likes.
"""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from kagura_kernel.cli import doctor_journal
from kagura_kernel.cli.main import main
from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import (
    ApprovalUnknown,
    JournalLocked,
    JournalTampered,
    JournalUnreadable,
    JournalUnwritable,
    RunUnknown,
    UsageError,
)
from kagura_kernel.domain.events import EgressDecided, Event
from kagura_kernel.journal import checkpoints, schema, views
from kagura_kernel.journal.chain import END_STALLED, LOCK
from kagura_kernel.journal.chats import ChatBook, KeptPost, TakenMessage
from kagura_kernel.journal.encoding import stamp
from kagura_kernel.journal.export import ExportPart, export_lines
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.lost_runs import mark_lost
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.pages import Watch, approval_page, run_page
from kagura_kernel.journal.spending import with_children
from kagura_kernel.journal.store import Journal
from tests.support.postgres_network import PostgresServer, postgres_server, why_not
from tests.support.sample_run import SampleRun

pytestmark = pytest.mark.postgres

ADA, BOB = SampleRun("run-ada", "ses-ada"), SampleRun("run-bob", "ses-bob")
CONTENT = "at, kind, run_id, session_id, body"
TABLES = [table.name for table in schema.metadata.sorted_tables]


@pytest.fixture(scope="module")
def roles() -> Iterator[PostgresServer]:
    """A server with the owner of journals, two users and an auditor."""
    if why := why_not():
        pytest.skip(why)
    with postgres_server() as running:
        for statement in (
            "CREATE ROLE keeper LOGIN CREATEROLE CREATEDB",
            "CREATE ROLE kagura_users",
            "CREATE ROLE kagura_auditors",
            "CREATE ROLE ada LOGIN IN ROLE kagura_users",
            "CREATE ROLE bob LOGIN IN ROLE kagura_users",
            "CREATE ROLE ivy LOGIN IN ROLE kagura_auditors",
            "CREATE ROLE eve LOGIN",
        ):
            tell(running.url("postgres"), statement)
        yield running


@pytest.fixture
def prints(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Types a command that works; what it prints."""

    def type_(*words: str) -> str:
        assert main([*words]) == 0
        return capsys.readouterr().out

    return type_


@pytest.fixture
def refuses(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Types a command that does not; what it says."""

    def type_(*words: str) -> str:
        assert main([*words]) == 2
        return capsys.readouterr().err

    return type_


class Shared:
    """A journal that was shared, and who uses it."""

    def __init__(self, url: str) -> None:
        self.url = url  # As its owner
        self._open: list[Journal] = []

    def of(self, role: str) -> str:
        """The URL for a role."""
        return self.url.replace("keeper@", f"{role}@")

    def open(self, role: str, *, create: bool = True) -> Journal:
        """The journal as this role has it."""
        self._open.append(Journal.open(self.of(role), create=create))
        return self._open[-1]

    def close(self) -> None:
        for journal in self._open:
            journal.close()


@pytest.fixture
def shared(roles: PostgresServer) -> Iterator[Shared]:
    url = roles.new_database()
    tell(url, f"ALTER DATABASE {url.partition('?')[0].rpartition('/')[2]} OWNER TO keeper")
    journal = Shared(url.replace("kagura@", "keeper@"))
    assert main(["journal", "share", "--url", journal.url]) == 0
    yield journal
    journal.close()


@pytest.fixture
def told(shared: Shared) -> Shared:
    """Ada and Bob have each begun a run, in turns."""
    ada, bob = shared.open("ada"), shared.open("bob")
    for one, other in zip(
        (ADA.started(), ADA.asked("app-ada"), *ADA.tool(1), ADA.counted()),
        (BOB.started(), BOB.asked("app-bob"), *BOB.tool(1), BOB.counted()),
        strict=True,
    ):
        ada.append(one)
        bob.append(other)
    return shared


def tell(url: str, statement: str, *, prepared: bool = False) -> list[tuple[Any, ...]]:
    """What the server answers to a statement."""
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), prepare=prepared)
        return cursor.fetchall() if cursor.description else []


def test_each_sees_her_own_and_the_auditor_sees_all(told):
    ada, bob, ivy = told.open("ada"), told.open("bob"), told.open("ivy")
    assert [row.run_id for row in views.runs(ada)] == ["run-ada"]
    assert [row.run_id for row in views.runs(bob)] == ["run-bob"]
    assert {row.run_id for row in views.runs(ivy)} == {"run-ada", "run-bob"}
    assert [stored.seq for stored in ada.events()] == [1, 3, 5, 7, 9]
    assert [stored.seq for stored in ivy.events()] == list(range(1, 11))
    assert bob.events(run_id="run-ada") == []
    assert [one.id for one in Mailbox(bob).pending()] == ["app-bob"]
    assert ada.last_seq() == 9


def test_all_of_it_holds_for_those_who_see_it_and_each_ones_part_for_herself(told):
    checked = told.open("ada").verify()
    assert (checked.rows, checked.seen) == (9, 5)
    for role in ("ivy", "keeper"):
        checked = told.open(role).verify()
        assert (checked.rows, checked.seen) == (10, None)


def test_what_a_person_is_told_of_a_part(told, prints):
    assert "your 5 rows up to row 9, all as they were written" in prints("journal", "verify", "--url", told.of("ada"))
    assert "10 rows, all as they were written" in prints("journal", "verify", "--url", told.of("ivy"))
    assert "your 5 rows" in prints("journal", "verify", "--url", told.of("bob"))


def test_a_row_that_the_owner_changed_is_found_by_whoever_sees_it(told):
    tell(
        told.of("kagura"), "SET session_replication_role = replica; UPDATE journal_events SET body = '{}' WHERE seq = 3"
    )
    assert told.open("bob").verify().seen == 5
    for role in ("ada", "ivy"):
        with pytest.raises(JournalTampered) as caught:
            told.open(role, create=False).verify()
        assert caught.value.seq == 3


def test_a_row_that_is_gone_is_found_by_the_auditor(told):
    tell(told.of("kagura"), "SET session_replication_role = replica; DELETE FROM journal_events WHERE seq = 9")
    with pytest.raises(JournalTampered, match="missing"):
        told.open("ivy", create=False).verify()


def test_everything_that_a_run_does_works_for_a_user(shared):
    journal = shared.open("ada")
    journal.check_writable()
    mailbox, ledger, watch = Mailbox(journal), LeaseLedger(journal), Watch(journal)
    journal.append(ADA.started(owner="nowhere:1:2"))
    assert watch.look()
    mailbox.post(ADA.request("app-1"))
    mailbox.decide("app-1", Verdict.ALLOW, by="ada", via="terminal")
    for event in (ADA.asked("app-1"), ADA.decided("app-1", by="ada"), *ADA.tool(1)):
        journal.append(event)
    mailbox.send("run-ada", "kill", by="ada")
    assert [word.by for word in mailbox.take(["run-ada"])] == ["ada"]
    assert ledger.open_rows() == []
    assert checkpoints.drop_old(journal) == 0
    assert mark_lost(journal) == []
    journal.append(ADA.finished())
    assert views.runs(journal)[0].status == "done"
    assert journal.verify().seen == 6
    assert shared.open("ivy").verify().rows == 6


def test_nobody_reaches_what_is_anothers(told):
    bob = told.open("bob")
    with pytest.raises(ApprovalUnknown):
        Mailbox(bob).decide("app-ada", Verdict.ALLOW, by="bob", via="terminal")
    with pytest.raises(RunUnknown):
        Mailbox(bob).send("run-ada", "kill", by="bob")
    with pytest.raises(JournalUnwritable, match="has no right to it"):
        bob.append(ADA.noted())
    with pytest.raises(JournalUnwritable):
        Mailbox(bob).post(ADA.request("app-ada"))
    with pytest.raises(JournalUnwritable):
        Mailbox(bob).post(ADA.request("app-other"))
    assert told.open("ada").verify().seen == 5
    assert told.open("ivy").verify().rows == 10


def test_what_one_has_heard_in_a_chat_the_other_hears_too(told):
    message = TakenMessage("C1:7", "C1", "ses-1", "U1", "host:1:2")
    post = KeptPost("said:C1:7", "C1", "", "C1:8", "token")
    for role in ("bob", "ada"):
        book = ChatBook(told.open(role), "slack")
        assert [book.take(message), book.take(message)] == [True, False]
        book.keep(post)
        book.close(post.subject)
        assert len(book.interrupted(lambda _: False)) == 1


def test_an_auditor_changes_nothing_and_opens_it_all_the_same(told):
    ivy = told.open("ivy")
    assert len(Mailbox(ivy).pending()) == 2
    for use in (
        lambda: ivy.append(SampleRun("run-ivy").started()),
        ivy.check_writable,
        lambda: Mailbox(ivy).decide("app-ada", Verdict.ALLOW, by="ivy", via="terminal"),
    ):
        with pytest.raises(JournalUnwritable, match="has no right to it"):
            use()
    for table in TABLES:
        for statement in (f"DELETE FROM {table}", f"TRUNCATE {table}", f"INSERT INTO {table} DEFAULT VALUES"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                tell(told.of("ivy"), statement)


def test_the_doctor_of_an_auditor_notes_what_it_has_checked_and_fails_for_no_right_that_nobody_gave(told):
    for role, state, said in (
        ("ivy", "warn", "10 rows"),
        ("ivy", "warn", "the first 10 were checked"),
        ("ada", "ok", "your rows"),
    ):
        finding = next(doctor_journal.books(told.of(role), ADA.at, full=False))
        assert (finding.name, finding.state, said in finding.said) == ("journal", state, True), finding


def test_an_auditor_is_told_of_nothing_to_do_that_others_alone_may(told, capsys):
    # Nobody has this number.
    host, _, since = process_owner().split(":")
    told.open("ada").append(SampleRun("run-lost", "ses-ada").started(owner=f"{host}:999999999:{since}"))
    for role, does in (("ivy", False), ("ada", True)):
        assert main(["approvals", "--url", told.of(role)]) == main(["status", "--url", told.of(role)]) == 0
        said = capsys.readouterr().out
        assert main(["runs", "--json", "--url", told.of(role)]) == 0
        following = [row["next"] for row in json.loads(capsys.readouterr().out)]
        found = {one.name: one.then for one in doctor_journal.books(told.of(role), ADA.at, full=False)}
        told_what = ("app-ada" in said and "run-lost" in said, "kagura-kernel" in said, any(following))
        assert (told_what, found["runs"].startswith("whose it is")) == ((True, does, does), not does)


def test_what_the_owner_adds_to_a_run_is_seen_by_whose_it_is(told):
    keeper = told.open("keeper")
    keeper.append(BOB.finished(status="lost"))
    assert views.runs(told.open("bob"))[0].status == "lost"
    assert told.open("bob").verify().seen == 6
    assert told.open("ivy").verify().rows == 11


def test_tables_made_anew_are_still_each_ones_own(told):
    views.rebuild(told.open("keeper"))
    for role in ("ada", "bob"):
        journal = told.open(role)
        assert [row.run_id for row in views.runs(journal)] == [f"run-{role}"]
        assert [one.id for one in Mailbox(journal).pending()] == [f"app-{role}"]
        assert journal.verify().seen == 5


def test_a_run_is_exported_by_whose_it_is_and_everything_by_the_auditor(told):
    bob = told.open("bob")
    lines = list(export_lines(bob, ExportPart(run_id="run-bob")))
    assert lines == list(export_lines(told.open("ivy"), ExportPart(run_id="run-bob")))
    with pytest.raises(UsageError, match="have an auditor"):
        list(export_lines(bob, ExportPart()))
    bob.append(SampleRun("run-more").started())
    assert list(export_lines(bob, ExportPart(run_id="run-bob")))[:-2] == lines[:-1]
    assert len(list(export_lines(told.open("ivy"), ExportPart()))) == 13


# ------------------------------------------------------------------ what a hostile user says to the server herself


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT body FROM journal_events WHERE run_id = 'run-ada'",
        "SELECT * FROM journal_runs WHERE run_id = 'run-ada'",
        "SELECT * FROM journal_approvals WHERE id = 'app-ada'",
        "SELECT * FROM journal_events e JOIN journal_runs r USING (run_id) WHERE r.login = 'ada'",
        "WITH seen AS (SELECT * FROM journal_events) SELECT * FROM seen WHERE login <> 'bob'",
        "SELECT * FROM journal_events WHERE seq IN (SELECT generate_series(1, 99, 2))",
        "UPDATE journal_runs SET status = 'killed' WHERE run_id = 'run-ada' RETURNING *",
        "UPDATE journal_approvals SET verdict = 'allow' WHERE id = 'app-ada' RETURNING *",
        "UPDATE journal_leases SET state = 'gone' WHERE login = 'ada' RETURNING *",
        "DELETE FROM journal_messages WHERE run_id = 'run-ada' RETURNING *",
        "DELETE FROM journal_checkpoints WHERE run_id = 'run-ada' RETURNING *",
        "SELECT most_common_vals FROM pg_stats WHERE tablename LIKE 'journal_%' AND attname = 'body'",
    ],
)
def test_nothing_of_anothers_rows_comes_out(told, statement):
    tell(
        told.of("ada"), "INSERT INTO journal_messages (run_id, word, by_whom, at) VALUES ('run-ada', 'kill', 'a', 'b')"
    )
    tell(told.of("kagura"), "ANALYZE")
    assert tell(told.of("bob"), statement) == []


def test_nothing_of_anothers_rows_is_copied_out(told):
    with (
        psycopg.connect(told.of("bob").replace("+psycopg", "")) as connection,
        connection.cursor().copy("COPY journal_events TO STDOUT") as copy,
    ):
        copied = b"".join(copy)
    assert b"run-bob" in copied
    assert b"run-ada" not in copied


def test_a_function_of_her_own_sees_no_more_than_she_does(told):
    bob = told.of("bob")
    with psycopg.connect(bob.replace("+psycopg", ""), autocommit=True) as connection:
        notices: list[str] = []
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        connection.execute(
            "CREATE FUNCTION pg_temp.leak(text) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS "
            "$$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$"
        )
        connection.execute("SELECT count(*) FROM journal_events WHERE pg_temp.leak(body)")
        assert notices
        assert not any("run-ada" in notice for notice in notices)
        for statement in (
            "SELECT 1 / (CASE WHEN body LIKE '%run-ada%' THEN 0 ELSE 1 END) FROM journal_events",
            "EXPLAIN (ANALYZE, COSTS OFF) SELECT * FROM journal_events WHERE run_id = 'run-ada'",
        ):
            assert "run-bob" not in str(connection.execute(statement).fetchall())


REFUSED = psycopg.errors.InsufficientPrivilege


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE journal_events SET body = '{}'",
        "DELETE FROM journal_events",
        "TRUNCATE journal_events",
        "UPDATE journal_head SET rows = 3",
        "DELETE FROM journal_head",
        "INSERT INTO journal_head VALUES (2, 0, '')",
        "INSERT INTO journal_version VALUES (99, '')",
        "UPDATE journal_sharing SET users = 'public'",
        "UPDATE journal_runs SET login = 'ada'",
        "UPDATE journal_runs SET run_id = 'run-ada'",
        "UPDATE journal_approvals SET content_hash = 'x'",
        "DELETE FROM journal_runs",
        "DELETE FROM journal_approvals",
        f"INSERT INTO journal_events ({CONTENT}, seq) VALUES ('', 'x', 'run-bob', '', '{{}}', 99)",
        f"INSERT INTO journal_events ({CONTENT}, hash) VALUES ('', 'x', 'run-bob', '', '{{}}', 'forged')",
        f"INSERT INTO journal_events ({CONTENT}, prev_hash) VALUES ('', 'x', 'run-bob', '', '{{}}', 'forged')",
        f"INSERT INTO journal_events ({CONTENT}, login) VALUES ('', 'x', 'run-bob', '', '{{}}', 'ada')",
        f"INSERT INTO journal_events ({CONTENT}) VALUES ('', 'run.finished', 'run-ada', '', '{{}}')",
        "INSERT INTO journal_messages (run_id, word, by_whom, at) VALUES ('run-ada', 'kill', '', '')",
        "INSERT INTO journal_messages (run_id, word, by_whom, at, login) VALUES ('x', 'kill', '', '', 'ada')",
        "INSERT INTO journal_checkpoints VALUES ('run-ada', 1, '', '', '', '')",
        "UPDATE journal_heard SET run_id = 'run-ada'",
        "ALTER TABLE journal_events DISABLE TRIGGER ALL",
        "ALTER TABLE journal_events DISABLE ROW LEVEL SECURITY",
        "DROP TABLE journal_events",
        "DROP POLICY own_rows ON journal_events",
        "CREATE TRIGGER mine BEFORE INSERT ON journal_events EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "CREATE TABLE sha256 (a int)",
        "CREATE FUNCTION octet_length(text) RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE TEMP TABLE t (); CREATE TRIGGER t BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION journal_added()",
        "CREATE TEMP TABLE mine (r text REFERENCES journal_runs (run_id))",
        "CREATE VIEW mine AS SELECT * FROM journal_events",
        "BEGIN; LOCK TABLE journal_events IN ACCESS EXCLUSIVE MODE",
        "BEGIN; LOCK TABLE journal_runs IN ACCESS EXCLUSIVE MODE",
        "SELECT * FROM journal_head FOR UPDATE",
        "SET SESSION AUTHORIZATION ada",
        "SET ROLE keeper",
        "SET session_replication_role = replica",
        "SET row_security = off; SELECT * FROM journal_events",
    ],
)
def test_what_is_not_hers_to_do_is_refused_and_leaves_nothing(told, statement):
    tell(
        told.of("bob"),
        f"INSERT INTO journal_heard ({', '.join(schema.heard.c.keys())}) "
        "VALUES ('t', 'm', '', '', '', '', 'run-bob', '', NULL)",
    )
    before = tell(told.url, "SELECT * FROM journal_head")
    with pytest.raises((REFUSED, psycopg.errors.InvalidTableDefinition, psycopg.errors.UndefinedTable)):
        tell(told.of("bob"), statement)
    assert tell(told.url, "SELECT * FROM journal_head") == before
    assert told.open("ivy").verify().rows == 10


def test_tables_of_her_own_in_the_way_mislead_nobody(told):
    with psycopg.connect(told.of("bob").replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("CREATE TEMP TABLE journal_head (id int, rows bigint, last_hash text)")
        connection.execute("INSERT INTO pg_temp.journal_head VALUES (1, 0, 'mine')")
        connection.execute("CREATE FUNCTION pg_temp.sha256(bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT ''::bytea $$")
        connection.execute("SET search_path = pg_temp, public")
        row = ("2026-01-01T00:00:00.000000Z", "x", "run-bob", "", "{}")
        connection.execute(f"INSERT INTO public.journal_events ({CONTENT}) VALUES (%s, %s, %s, %s, %s)", row)
    assert told.open("ivy").verify().rows == 11


def test_nonsense_of_one_user_is_named_and_keeps_nobody_from_checking(told, prints):
    bob = told.of("bob")
    stamp = "2026-01-01T00:00:00.000000Z"
    forged = BOB.finished().model_copy(update={"run_id": "run-ada"}).model_dump_json()
    decided = BOB.decided("app-ada").model_dump_json()
    for kind, body in (("run.started", "no event"), ("run.finished", forged), ("approval.decided", decided)):
        tell(bob, f"INSERT INTO journal_events ({CONTENT}) VALUES ('{stamp}', '{kind}', 'run-bob', '', '{body}')")
    tell(
        bob,
        f"INSERT INTO journal_events ({CONTENT}) VALUES ('{stamp}', 'run.planned', 'run-bob', '', repeat('[', 9999))",
    )
    checked = told.open("ivy").verify()
    assert (checked.rows, checked.odd) == (14, (11, 12, 14))
    assert "3 of them are no event, the first is row 11" in prints("journal", "verify", "--url", told.of("ivy"))
    views.rebuild(told.open("keeper"))
    ada = told.open("ada")
    assert views.runs(ada)[0].live
    assert [one.id for one in Mailbox(ada).pending()] == ["app-ada"]
    assert told.open("ivy").verify().odd == (11, 12, 14)


def nonsense(event: Event) -> Iterator[str]:
    """Bodies that are such an event and that no table can hold, or no sum."""
    told = json.loads(event.model_dump_json())
    for name, value in told.items():
        if name in {"kind", "run_id"}:
            continue
        for odd in ("\0", "\ud800", 2**31, 10**18 - 1, 2**63, 10**30, 1e308, -1e308, "0001-01-01T00:00:00+23:59"):
            yield json.dumps(told | {name: odd}, separators=(",", ":"))
        if isinstance(value, int | float):
            for odd in ("NaN", "Infinity", "1e999"):
                yield json.dumps(told | {name: "ODD"}, separators=(",", ":")).replace('"ODD"', odd)


def test_no_event_that_no_table_can_hold_keeps_anybody_from_checking_or_from_making_the_tables_anew(told):
    at = "2026-01-01T00:00:00.000000Z"
    add = f"INSERT INTO journal_events ({CONTENT}) VALUES (%s, %s, %s, 'ses-bob', %s)"
    kinds = (BOB.started(), BOB.asked("app-bob"), BOB.counted(), BOB.finished(), BOB.decided("app-bob"))
    with psycopg.connect(told.of("bob").replace("+psycopg", "")) as connection:
        for number, (event, body) in enumerate((one, body) for one in kinds for body in nonsense(one)):
            run = f"run-odd-{number}"
            rows = [(BOB.started().kind, BOB.started().model_dump_json()), *[(event.kind, body)] * 2]
            if event.kind == "run.started":
                del rows[0]
            for kind, text in rows:
                renamed = text.replace("run-bob", run).replace("app-bob", f"app-{number}")
                connection.execute(add, (at, kind, run, renamed))
    views.rebuild(told.open("keeper"))
    checked = told.open("ivy").verify()
    assert len(checked.odd) > 100
    assert [row.run_id for row in views.runs(told.open("ada"))] == ["run-ada"]
    assert len(views.runs(told.open("ivy"))) > 2
    assert told.open("bob").verify().odd == checked.odd


def test_nobody_is_said_to_have_done_what_another_has_written(told):
    ivy = told.open("ivy")
    forged = EgressDecided.model_validate(
        {
            **ADA.noted().model_dump(include={"run_id", "session_id", "at"}),
            "connection_id": "1",
            "host": "evil.example",
            "port": 443,
            "allowed": True,
            "rule": "",
            "reason": "",
        }
    )
    add = f"INSERT INTO journal_events ({CONTENT}) VALUES ('{stamp(forged.at)}', '{forged.kind}', 'run-bob', '', "
    tell(told.of("bob"), f"{add}'{forged.model_dump_json()}')")
    tell(told.of("bob"), f"{add}'{{')")
    assert views.egress(ivy) == []
    assert {row.event.run_id for row in ivy.events()} == {"run-ada", "run-bob"}
    assert len(ivy.events()) == 10
    told.open("bob").append(forged.model_copy(update={"run_id": "run-bob"}))
    assert [row.run_id for row in views.egress(ivy)] == ["run-bob"]


ODD_QUESTION = (
    f"INSERT INTO journal_approvals ({', '.join(schema.approvals.c.keys())}) "
    "SELECT 'app-odd', run_id, session_id, 'x', title, '{', reason, '[[', '1', call_id, content_hash, 'x', 'NaN', 'x', "
    "owner, NULL, NULL, NULL, NULL, NULL, 'null' FROM journal_approvals"
)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE journal_runs SET started_at = 'x'",
        "UPDATE journal_runs SET started_at = '0001-01-01T00:00:00.000000Z', duration = 'NaN', status = 'x'",
        "UPDATE journal_runs SET started_at = '9999-12-31T23:59:59.999999Z', duration = 1e308, computed_usd = 'inf'",
        "UPDATE journal_runs SET lineage = 'run-ada', resumes = 'run-ada', user_name = 'ada', turns = 2147483647",
        f"{ODD_QUESTION}; UPDATE journal_runs SET status = 'done'",
        "UPDATE journal_approvals SET verdict = 'x', decided_at = 'x'; UPDATE journal_runs SET lineage = 'run-ada'",
    ],
)
def test_rows_of_one_user_that_nobody_can_read_keep_no_list_from_the_auditor(told, change):
    bob, ivy = told.of("bob"), told.open("ivy")
    tell(bob, change)
    assert "run-ada" in [row.run_id for row in views.runs(ivy)]
    assert "run-ada" in [row.run_id for row in run_page(ivy).items]
    assert "run-ada" in [row.run_id for row in with_children(ivy, views.costs(ivy))]
    assert "app-ada" in [row.id for row in views.approvals(ivy)]
    assert "app-ada" in [row.id for row in approval_page(ivy).items]
    assert "app-ada" in [one.id for one in Mailbox(ivy).pending()]
    with pytest.raises(JournalTampered, match="run-bob"):
        ivy.verify()


def test_an_auditor_keeps_no_runs_even_as_a_user(told):
    # Otherwise what others write would count as hers: their plugins' approvals, and what is taken of a quota.
    tell(told.of("kagura"), "GRANT kagura_auditors TO bob")
    try:
        with pytest.raises(JournalUnwritable, match="has no right to it"):
            told.open("bob").append(BOB.noted())
        assert len(views.runs(told.open("bob"))) == 2
    finally:
        tell(told.of("kagura"), "REVOKE kagura_auditors FROM bob")
    assert told.open("bob").append(BOB.noted()) == 11


def test_whose_a_run_is_says_its_first_event(told):
    bob = told.open("bob")
    bob.append(SampleRun("run-new", "ses-ada").noted())
    with pytest.raises(JournalUnwritable):
        told.open("ada").append(SampleRun("run-new").started())
    bob.append(SampleRun("run-new", "ses-ada").started())
    assert [row.run_id for row in views.runs(told.open("ada"))] == ["run-ada"]


def test_somebody_who_is_in_neither_role_sees_nothing(told):
    for table in TABLES:
        with pytest.raises(REFUSED):
            tell(told.of("eve"), f"SELECT * FROM {table}")
    with pytest.raises((JournalUnwritable, UsageError)):
        told.open("eve")


def test_not_even_the_owner_changes_an_event_by_mistake(told):
    for statement in ("UPDATE journal_events SET at = ''", "DELETE FROM journal_events", "TRUNCATE journal_events"):
        with pytest.raises(REFUSED, match="never changed"):
            tell(told.url, statement)


def test_a_writer_that_stalls_is_ended_so_that_the_others_go_on(told, monkeypatch):
    monkeypatch.setattr("kagura_kernel.journal.postgres._IDLE_SECONDS", 0.2)
    ada, bob = told.open("ada"), told.open("bob")

    def stall() -> None:
        with ada.writing() as writing:
            writing.append(ADA.noted())
            assert bob.append(BOB.noted()) == 11

    with pytest.raises(JournalUnwritable):
        stall()
    assert ada.append(ADA.noted()) == 12
    assert told.open("ivy").verify().rows == 12


# ------------------------------------------------------------------------------------------------ the owner's part


def test_sharing_twice_changes_nothing_and_other_roles_take_the_place_of_the_first(told):
    rights = "SELECT grantee, table_name, privilege_type FROM information_schema.role_table_grants ORDER BY 1, 2, 3"
    before = tell(told.url, rights)
    assert main(["journal", "share", "--url", told.url]) == 0
    assert tell(told.url, rights) == before
    assert main(["journal", "share", "--url", told.url, "--users", "writers", "--auditors", "kagura_auditors"]) == 0
    with pytest.raises(REFUSED):
        tell(told.of("bob"), "SELECT * FROM journal_events")
    tell(told.of("kagura"), "GRANT writers TO bob")
    assert told.open("bob").verify().seen == 5
    tell(told.of("kagura"), "REVOKE writers FROM bob; DROP OWNED BY writers; DROP ROLE writers")


@pytest.mark.parametrize(
    ("role", "options", "said"),
    [
        ("ada", (), "belong to keeper"),
        ("keeper", ("--users", "keeper"), "two roles of their own"),
        ("keeper", ("--users", "public"), "two roles of their own"),
        ("keeper", ("--users", "same", "--auditors", "same"), "two roles of their own"),
    ],
)
def test_who_cannot_share_it_is_told_why(told, refuses, role, options, said):
    assert said in refuses("journal", "share", "--url", told.of(role), *options)


def test_an_owner_who_may_make_no_role_is_told_what_to_say(roles, refuses):
    url = roles.new_database()
    tell(url, "CREATE ROLE modest LOGIN; GRANT CREATE ON SCHEMA public TO modest")
    try:
        assert 'CREATE ROLE "new_users" NOLOGIN' in refuses(
            "journal", "share", "--url", url.replace("kagura@", "modest@"), "--users", "new_users"
        )
    finally:
        tell(url, "DROP OWNED BY modest; DROP ROLE modest")


def test_a_schema_that_anybody_can_write_to_is_closed_first(roles, refuses):
    url = roles.new_database()
    tell(url, "GRANT CREATE ON SCHEMA public TO PUBLIC")
    assert 'REVOKE CREATE ON SCHEMA "public" FROM PUBLIC' in refuses("journal", "share", "--url", url)
    tell(url, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    assert main(["journal", "share", "--url", url]) == 0


def test_a_file_is_not_shared(tmp_path, refuses):
    Journal.open(tmp_path).close()
    assert "one person's" in refuses("journal", "share", "--dir", str(tmp_path))


def test_what_a_superuser_shares_has_no_superusers_rights(roles):
    url = roles.new_database()
    tell(url, "GRANT CREATE ON SCHEMA public TO keeper")
    with closing(Journal.open(url.replace("kagura@", "keeper@"))) as journal:
        journal.append(ADA.started())
    assert main(["journal", "share", "--url", url]) == 0
    assert tell(url, "SELECT login FROM journal_events") == [("keeper",)]
    owners = "SELECT DISTINCT pg_get_userbyid(proowner) FROM pg_proc WHERE proname LIKE 'journal_%'"
    assert tell(url, owners) == [("keeper",)]


def test_rows_from_before_are_the_owners(roles):
    url = roles.new_database()
    tell(url, "GRANT CREATE ON SCHEMA public TO keeper")
    shared = Shared(url.replace("kagura@", "keeper@"))
    journal = shared.open("keeper")
    journal.append(ADA.started())
    assert main(["journal", "share", "--url", shared.url]) == 0
    try:
        # One that was open has to be opened anew, and stores nothing until it is.
        with pytest.raises(JournalUnwritable):
            journal.append(ADA.noted())
        shared.open("bob").append(BOB.started())
        assert shared.open("keeper").append(ADA.noted()) == 3
        assert [row.run_id for row in views.runs(shared.open("bob"))] == ["run-bob"]
        assert shared.open("ivy").verify().rows == 3
    finally:
        shared.close()


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From then on the package has one more table, and a further column."""

    def upgrade() -> None:
        more = ("CREATE TABLE journal_more (a INTEGER)", "ALTER TABLE journal_runs ADD COLUMN more TEXT")
        monkeypatch.setattr(schema, "_STEPS", (*schema._STEPS, more))
        monkeypatch.setattr(schema, "KNOWN_VERSION", schema.KNOWN_VERSION + 1)

    return upgrade


def test_only_the_owner_brings_the_tables_up_and_the_others_are_told(told, newer):
    told.open("keeper").append(SampleRun("run-keeper").started())
    newer()
    for role in ("ada", "ivy"):
        with pytest.raises(JournalUnwritable, match="only their owner may change them: keeper has to open it once"):
            told.open(role)
    tell(told.of("kagura"), "REVOKE ALL ON journal_runs FROM kagura_users")
    told.open("keeper")
    assert told.open("ada").verify().seen == 5
    assert told.open("ivy").verify().rows == 11


def test_what_a_superuser_brings_up_stays_the_owners(told, newer):
    newer()
    told.open("kagura")
    owner = "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'journal_more'"
    assert tell(told.url, owner) == [("keeper",)]
    assert main(["journal", "share", "--url", told.url]) == 0
    assert told.open("ada").verify().seen == 5


def test_tables_are_brought_up_with_their_rights_or_not_at_all(told, newer, monkeypatch):
    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    newer()
    with monkeypatch.context() as patched:
        patched.setattr("kagura_kernel.journal.sharing.renew", dies)
        with pytest.raises(KeyboardInterrupt):
            told.open("keeper")
    assert tell(told.url, "SELECT max(version) FROM journal_version") == [(schema.KNOWN_VERSION - 1,)]
    told.open("keeper")
    assert told.open("ada").verify().seen == 5


@contextmanager
def holding(url: str, *statements: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection in the midst of a transaction."""
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        for statement in statements:
            connection.execute(statement.encode())
        yield connection
        connection.rollback()


def test_whoever_keeps_the_others_from_reading_for_long_is_ended(told, monkeypatch):
    monkeypatch.setattr("kagura_kernel.journal.rights.STALLED_SECONDS", 0)
    tell(told.of("kagura"), "GRANT pg_signal_backend, pg_read_all_stats TO keeper")
    assert main(["journal", "share", "--url", told.url]) == 0
    monkeypatch.setattr("kagura_kernel.journal.postgres.LOCK_SECONDS", 0.2)
    mailbox = Mailbox(told.open("ada"))
    with psycopg.connect(told.of("bob").replace("+psycopg", "")) as connection:
        connection.execute("LOCK TABLE journal_messages IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(JournalUnreadable):
            mailbox.take(["run-ada"])
        assert mailbox.take(["run-ada"]) == []
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    tell(told.of("kagura"), "REVOKE pg_signal_backend, pg_read_all_stats FROM keeper")


def test_many_rows_at_once_are_one_chain(told):
    many = "FROM generate_series(1, 3) n"
    row = f"INSERT INTO journal_events ({CONTENT}) SELECT '', 'x', 'run-bob', '', '{{}}' {many}"
    assert tell(told.of("bob"), f"{row} ON CONFLICT DO NOTHING RETURNING seq, login") == [
        (11, "bob"),
        (12, "bob"),
        (13, "bob"),
    ]
    assert told.open("ivy").verify().rows == 13


@pytest.mark.parametrize(
    "held",
    [
        f"INSERT INTO journal_events ({CONTENT}) VALUES ('', 'x', 'run-bob', '', '{{}}')",
        f"SELECT pg_advisory_lock({LOCK})",
        "LOCK TABLE journal_messages IN ACCESS EXCLUSIVE MODE",
        "SELECT FROM journal_heartbeat FOR NO KEY UPDATE",
    ],
    ids=["a row", "the lock of a session", "a table", "the heartbeat"],
)
def test_whoever_keeps_the_others_from_writing_for_long_is_ended(told, monkeypatch, held):
    monkeypatch.setattr("kagura_kernel.journal.rights.STALLED_SECONDS", 0)
    tell(told.of("kagura"), "GRANT pg_signal_backend, pg_read_all_stats TO keeper")
    assert main(["journal", "share", "--url", told.url]) == 0
    monkeypatch.setattr("kagura_kernel.journal.postgres.LOCK_SECONDS", 0.2)
    ada = told.open("ada")
    mailbox = Mailbox(ada)

    def use() -> None:
        ada.check_writable()
        mailbox.send("run-ada", "kill", by="ada")

    with psycopg.connect(told.of("bob").replace("+psycopg", "")) as connection:
        connection.execute(held.encode())
        with pytest.raises(JournalLocked):
            use()
        use()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    tell(told.of("kagura"), "REVOKE pg_signal_backend, pg_read_all_stats FROM keeper")
    assert told.open("ivy").verify().rows == 10


def test_a_lock_is_not_kept_by_seeming_busy(told, monkeypatch):
    # Whoever has it does something else, and something new, all the time.
    monkeypatch.setattr("kagura_kernel.journal.rights.STALLED_SECONDS", 1.0)
    tell(told.of("kagura"), "GRANT pg_signal_backend, pg_read_all_stats TO keeper")
    assert main(["journal", "share", "--url", told.url]) == 0
    monkeypatch.setattr("kagura_kernel.journal.postgres.LOCK_SECONDS", 0.2)
    ada = told.open("ada")
    with psycopg.connect(told.of("bob").replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"SELECT pg_advisory_lock({LOCK})".encode())

        def be_busy() -> None:
            while True:
                connection.execute("SELECT 1")

        with ThreadPoolExecutor() as pool:
            busy = pool.submit(be_busy)
            with pytest.raises(JournalLocked):
                ada.append(ADA.noted())
            assert ada.append(ADA.noted()) == 11
            assert isinstance(busy.exception(), psycopg.OperationalError)
    tell(told.of("kagura"), "REVOKE pg_signal_backend, pg_read_all_stats FROM keeper")


def test_nobody_is_ended_for_writing_much(told, monkeypatch):
    tell(told.of("kagura"), "GRANT pg_signal_backend, pg_read_all_stats TO keeper")
    monkeypatch.setattr("kagura_kernel.journal.rights.STALLED_SECONDS", 0.5)
    assert main(["journal", "share", "--url", told.url]) == 0
    ada, over = told.open("ada"), threading.Event()

    def write() -> int:
        while not over.is_set():
            ada.append(ADA.noted())
        return ada.append(ADA.noted())

    with ThreadPoolExecutor() as pool:
        writing = pool.submit(write)
        for _ in range(20):
            tell(told.of("bob"), f"SELECT {END_STALLED}()")
        over.set()
        assert writing.result() > 11
    tell(told.of("kagura"), "REVOKE pg_signal_backend, pg_read_all_stats FROM keeper")


def test_whoever_holds_the_lock_keeps_nobody_from_reading(told):
    row = f"INSERT INTO journal_events ({CONTENT}) VALUES ('', 'x', 'run-bob', '', '{{}}')"
    with holding(told.of("bob"), row):
        ada = told.open("ada")
        assert ada.verify().seen == 5
        assert len(views.runs(ada)) == 1
        assert told.open("ivy").verify().rows == 10
    assert told.open("ada").append(ADA.noted()) == 11
