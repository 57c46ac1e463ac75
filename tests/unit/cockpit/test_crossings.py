"""What crosses the wall of a run's box, from the cell's words to the rows of the journal."""

import asyncio
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.errors import LeaseUnknown, NotThisTime, UnknownName, UsageError
from kagura_kernel.domain.events import (
    AnyEvent,
    ApprovalRequested,
    EgressClosed,
    EgressDecided,
    LeaseChanged,
    LeaseUsed,
    Noted,
    RunGranted,
)
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal.leases import lease_views
from kagura_kernel.membrane.credentials import broker
from kagura_kernel.membrane.credentials.injection.settings import EnvInjection, HeaderInjection
from kagura_kernel.membrane.credentials.registry import Registry
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.credential_fake import FakeProvider
from kagura_kernel.testing.patience import wait_until

FETCH = "curl --silent --show-error --stderr - --max-time 20 --noproxy '' http://{}"


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was asked, and with which key."""

    def do_GET(self) -> None:
        self.server.seen.append(self.headers.get("authorization", ""))  # type: ignore[attr-defined]
        body = f"asked for {self.path}\n".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    server.seen = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def place(server: ThreadingHTTPServer) -> str:
    return f"127.0.0.1:{server.server_address[1]}"


@pytest.fixture
def provider() -> FakeProvider:
    return FakeProvider(scopes=frozenset({"read", "write"}))


@pytest.fixture
def registry(provider: FakeProvider, place: str) -> Registry:
    header = HeaderInjection(upstream=f"http://{place}", variables={"API": "{url}"})
    env = EnvInjection(way="env", variables={"TOKEN": "{token}"})
    return Registry({"fake": provider, "mute": FakeProvider("mute")}, {"fake": (header, env)})


def cell(project: Path, code: str, **options: object) -> RunRequest:
    return RunRequest(task=code, language="bash", project=project, **options)  # type: ignore[arg-type]


def told(cockpit: Cockpit, intent: RunRequest) -> tuple[str, list[AnyEvent]]:
    """What a run printed, and its events."""
    events: list[AnyEvent] = []
    handle = cockpit.launch(intent)
    handle.subscribe(events.append)
    outcome = handle.result(60)
    assert outcome.error_code in {"", "ERR_CELL_FAILED"}, outcome.error
    return outcome.text, events


def of(kind: type, events: list[AnyEvent]) -> list[AnyEvent]:
    return [event for event in events if isinstance(event, kind)]


# ---------------------------------------------------------------------- egress


def test_a_granted_host_is_reached_and_both_ends_of_the_connection_are_rows(cockpit_with, project, place):
    text, events = told(cockpit_with(), cell(project, FETCH.format(place) + "/a", net=(place,), headless=True))
    assert text == "asked for /a\n"
    assert [(event.host, event.allowed, event.rule) for event in of(EgressDecided, events)] == [
        ("127.0.0.1", True, place)
    ]
    (closed,) = of(EgressClosed, events)
    assert closed.ended == "done"
    assert closed.bytes_in > len("asked for /a\n")


def test_without_a_grant_and_without_a_person_the_program_is_told_why_and_how_to_grant_it(
    cockpit_with, project, server
):
    text, events = told(cockpit_with(), cell(project, FETCH.format("example.com") + "/", headless=True))
    assert "example.com:80 is not granted" in text
    assert "--net example.com:80" in text
    assert [event.allowed for event in of(EgressDecided, events)] == [False]
    assert server.seen == []  # type: ignore[attr-defined]


def test_an_unknown_host_is_a_question_and_a_no_is_remembered_for_the_run(cockpit, project, await_question):
    twice = f"{FETCH.format('example.com')}/; {FETCH.format('example.com')}/"
    handle = cockpit.launch(cell(project, twice))
    question = await_question(cockpit)
    assert question.kind is ApprovalKind.NETWORK
    assert "example.com:80" in question.title
    assert question.options == ("this run", "this session", "never")
    cockpit.decide(question.id, allow=False, by="ann", via="cell")
    text = handle.result(60).text
    assert text.count("was not approved") == 2
    assert [row.verdict for row in cockpit.approvals()] == ["deny"]


def test_what_is_never_for_the_session_is_not_asked_by_its_next_run(cockpit, project, await_question):
    handle = cockpit.launch(cell(project, FETCH.format("example.com") + "/"))
    cockpit.decide(await_question(cockpit).id, allow=False, by="ann", via="cell", answer="never")
    handle.result(60)
    text, _ = told(cockpit, cell(project, FETCH.format("example.com") + "/"))
    assert "was not approved" in text
    assert len(cockpit.approvals()) == 1


def test_calling_the_run_off_at_a_question_about_a_host_ends_the_run(cockpit, project, await_question):
    handle = cockpit.launch(cell(project, FETCH.format("example.com") + "/; sleep 600"))
    cockpit.abort(await_question(cockpit).id, by="ann", via="cell")
    assert handle.result(60).status == "killed"


def test_a_run_that_is_stopped_takes_its_question_about_a_host_along(cockpit, project, await_question):
    handle = cockpit.launch(cell(project, FETCH.format("example.com") + "/"))
    await_question(cockpit)
    handle.kill("ann")
    handle.result(60)
    assert cockpit.pending() == []


def test_none_closes_the_question_too(cockpit_with, project):
    text, _ = told(cockpit_with(), cell(project, FETCH.format("example.com") + "/", net=("none",)))
    assert "is not granted" in text


def test_a_word_that_is_no_host_is_told_before_anything_runs(cockpit, project):
    with pytest.raises(UsageError, match="wildcards"):
        cockpit.launch(cell(project, "true", net=("*.example.com",)))
    assert cockpit.runs() == []


def test_the_settings_may_open_hosts_for_every_run(cockpit_with, project, place):
    cockpit = cockpit_with(settings=Settings(net=(place,)))
    text, events = told(cockpit, cell(project, FETCH.format(place) + "/", headless=True))
    assert text == "asked for /\n"
    (granted,) = of(RunGranted, events)
    assert (granted.egress, granted.ask, granted.beyond) == ((place,), False, ())


# ---------------------------------------------------------------------- leases


def test_a_budget_is_asked_for_before_anything_starts_and_a_no_starts_nothing(
    cockpit_with, project, registry, provider, await_question, backend
):
    cockpit = cockpit_with(registry=registry)
    handle = cockpit.launch(cell(project, "true", grants=("fake:read",)))
    question = await_question(cockpit)
    assert question.kind is ApprovalKind.CREDENTIAL
    assert "May hold fake:read for at most 1 h in all, renewed at most 6 times." in question.detail
    assert f"Sees {project} as /workspace." in question.detail
    cockpit.decide(question.id, allow=False, by="ann", via="cell")
    outcome = handle.result(60)
    assert (outcome.status, outcome.error_code) == ("denied", "ERR_APPROVAL_DENIED")
    assert outcome.error == "The start of this run was not approved: ann said no."
    assert provider.minted == []
    assert backend.boxes == []


def test_where_nobody_can_be_asked_it_is_said_what_was_asked(cockpit_with, project, registry):
    cockpit = cockpit_with(registry=registry)
    outcome = cockpit.launch(cell(project, "true", grants=("fake:read",), headless=True)).result(60)
    why = "nobody can be asked here (“Let this run hold fake:read”)"
    assert outcome.error == f"The start of this run was not approved: {why}."


def test_a_lease_is_used_without_entering_the_box_and_given_back_at_the_end(
    cockpit_with, project, registry, provider, await_question, server
):
    cockpit = cockpit_with(registry=registry)
    handle = cockpit.launch(cell(project, "curl --silent $API/items?page=2", grants=("fake:read",)))
    events: list[AnyEvent] = []
    handle.subscribe(events.append)
    cockpit.decide(await_question(cockpit).id, allow=True, by="ann", via="cell")
    assert handle.result(60).text == "asked for /items?page=2\n"
    assert server.seen == ["Bearer secret-of-handle-1"]  # type: ignore[attr-defined]
    (used,) = of(LeaseUsed, events)
    assert (used.method, used.path, used.status) == ("GET", "/items", 200)
    assert [event.change for event in of(LeaseChanged, events)] == ["acquired", "released"]
    assert provider.books == {}
    assert cockpit.leases() == []


def test_settings_may_say_yes_beforehand(cockpit_with, project, registry, provider):
    cockpit = cockpit_with(registry=registry, settings=Settings(preapproved_grants=("fake:read",)))
    text, events = told(cockpit, cell(project, "echo ${#TOKEN}", grants=("fake:read",), headless=True))
    assert text == f"{len('secret-of-handle-1')}\n"
    (granted,) = of(RunGranted, events)
    assert (granted.credentials, granted.by) == (("fake:read",), "settings")
    assert provider.books == {}


def test_where_nobody_can_be_asked_a_lease_is_refused(cockpit_with, project, registry, provider):
    cockpit = cockpit_with(registry=registry, settings=Settings(preapproved_grants=("fake:read",)))
    outcome = cockpit.launch(cell(project, "true", grants=("fake:write",), headless=True)).result(60)
    assert outcome.status == "denied"
    assert provider.minted == []


def test_what_a_program_prints_or_writes_of_a_lease_is_seen_by_nobody(cockpit_with, project, registry, tmp_path):
    cockpit = cockpit_with(registry=registry, settings=Settings(preapproved_grants=("fake:read",)))
    code = "echo it is $TOKEN; echo $TOKEN >&2; echo $TOKEN > kept.txt; for i in $(seq 30000); do echo $TOKEN; done"
    outcome = cockpit.launch(cell(project, code, grants=("fake:read",), headless=True)).result(60)
    assert outcome.text.startswith("it is (hidden)\n")
    (change,) = outcome.changes
    assert (change.path, change.state, change.reason) == ("kept.txt", "protected", "it holds a leased credential")
    cockpit.close()
    holding = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and "secret-of-handle" in path.read_bytes().decode("latin-1")
    ]
    assert holding == []


def test_this_session_lets_the_next_run_go_on_under_what_is_left(cockpit_with, project, registry, await_question):
    cockpit = cockpit_with(registry=registry)
    handle = cockpit.launch(cell(project, "true", grants=("fake:read",)))
    question = await_question(cockpit)
    cockpit.decide(question.id, allow=True, by="ann", via="cell", answer="this session")
    handle.result(60)
    _, events = told(cockpit, cell(project, "true", grants=("fake:read",)))
    (granted,) = of(RunGranted, events)
    assert granted.by == "this session"
    assert len(cockpit.approvals()) == 1


def test_a_person_revokes_a_lease_while_it_is_used_and_the_program_gets_nothing_more(
    cockpit_with, project, registry, provider, server
):
    cockpit = cockpit_with(registry=registry, settings=Settings(preapproved_grants=("fake:read",)))
    # A request that is under way as the lease ends is cut off, so it asks until it is answered.
    code = (
        "while curl --silent --fail $API/again > /dev/null; do sleep 0.05; done; "
        "until curl --silent $API/again; do sleep 0.05; done"
    )
    handle = cockpit.launch(cell(project, code, grants=("fake:read",)))
    wait_until(lambda: cockpit.leases() and server.seen)  # type: ignore[attr-defined]
    (lease,) = cockpit.leases()
    assert (lease.state, lease.here, lease.renewals_left) == ("live", True, 6)
    cockpit.revoke_lease(lease.lease_id, by="ann")
    text = handle.result(60).text
    assert "ERR_LEASE_ENDED" in text or "ERR_INJECTION" in text
    assert provider.books == {}
    assert cockpit.leases() == []


def test_more_time_for_a_lease_is_a_question_of_its_run(cockpit_with, project, registry, await_question):
    cockpit = cockpit_with(registry=registry, settings=Settings(preapproved_grants=("fake:read",)))
    handle = cockpit.launch(cell(project, "until [ -e stop ]; do sleep 0.05; done", grants=("fake:read",)))
    wait_until(cockpit.leases)
    (lease,) = cockpit.leases()
    cockpit.extend_lease(lease.lease_id, by="ann")
    question = await_question(cockpit)
    assert (question.kind, question.run_id) == (ApprovalKind.CREDENTIAL, handle.run_id)
    cockpit.decide(question.id, allow=True, by="ann", via="cell")
    wait_until(lambda: cockpit.pending() == [])
    handle.kill("ann")
    handle.result(60)


def test_a_lease_is_asked_about_once_at_a_time_and_no_question_outlives_the_run(
    cockpit_with, project, registry, provider, await_question
):
    cockpit = cockpit_with(registry=registry, settings=Settings(preapproved_grants=("fake:read",)))
    handle = cockpit.launch(cell(project, "until [ -e stop ]; do sleep 0.05; done", grants=("fake:read",)))
    events: list[AnyEvent] = []
    handle.subscribe(events.append)
    wait_until(cockpit.leases)
    (lease,) = cockpit.leases()
    for _ in range(5):
        cockpit.extend_lease(lease.lease_id, by="ann")
    await_question(cockpit)
    handle.kill("ann")
    handle.result(60)
    assert cockpit.pending() == []
    assert len(of(ApprovalRequested, events)) == 1
    assert events[-1].kind == "run.finished"
    assert provider.books == {}


def test_a_run_and_the_cockpit_end_although_a_provider_never_takes_anything_back(
    cockpit_with, project, registry, provider, monkeypatch
):
    monkeypatch.setattr(broker, "CLOSE_SECONDS", 0.2)
    monkeypatch.setattr(broker, "LAST_SECONDS", 0.2)
    cockpit = cockpit_with(registry=registry, settings=Settings(preapproved_grants=("fake:read",)))
    handle = cockpit.launch(cell(project, "until [ -e stop ]; do sleep 0.05; done", grants=("fake:read",)))
    wait_until(cockpit.leases)
    provider.gate.clear()
    handle.kill("ann")
    assert handle.result(60).status == "killed"
    assert len(provider.books) == 1
    cockpit.close()


def test_a_lease_that_nobody_here_holds_can_neither_be_revoked_nor_extended(cockpit):
    with pytest.raises(LeaseUnknown):
        cockpit.revoke_lease("lea-none", by="ann")
    with pytest.raises(LeaseUnknown):
        cockpit.extend_lease("lea-none", by="ann")


@pytest.mark.parametrize("grant", ["other:read", "fake:admin"])
def test_a_credential_that_no_provider_gives_is_told_before_anything_runs(cockpit_with, project, registry, grant):
    cockpit = cockpit_with(registry=registry)
    with pytest.raises(UnknownName, match=r"set up in .*credentials\.toml"):
        cockpit.launch(cell(project, "true", grants=(grant,)))
    assert cockpit.runs() == []


def test_a_provider_that_nobody_knows_how_to_use_is_told_before_anything_runs(cockpit_with, project, registry):
    with pytest.raises(NotThisTime, match=r"providers\.mute\.inject"):
        cockpit_with(registry=registry).launch(cell(project, "true", grants=("mute:read",)))


def test_a_killed_run_gives_its_leases_back(cockpit_with, project, registry, provider):
    cockpit = cockpit_with(registry=registry, settings=Settings(preapproved_grants=("fake:read",)))
    handle = cockpit.launch(cell(project, "sleep 600", grants=("fake:read",)))
    wait_until(cockpit.leases)
    handle.kill("ann")
    assert handle.result(60).status == "killed"
    assert provider.books == {}


def test_a_lease_longer_than_its_credential_is_renewed_without_a_question_until_its_budget_ends(
    cockpit_with, project, registry, provider, await_question
):
    settings = Settings(
        preapproved_grants=("fake:read",), lease_seconds=1.0, lease_budget_seconds=3.0, lease_renewals=100
    )
    cockpit = cockpit_with(registry=registry, settings=settings)
    handle = cockpit.launch(cell(project, "sleep 600", grants=("fake:read",)))
    began = time.monotonic()
    question = await_question(cockpit)
    # Several credentials have come and gone by then, and nobody was asked.
    assert len(provider.minted) >= 3
    assert time.monotonic() - began > 1.0
    assert question.title == "Hold fake:read for up to 3 s more"
    cockpit.decide(question.id, allow=True, by="ann", via="cell")
    minted = len(provider.minted)
    wait_until(lambda: len(provider.minted) > minted)
    handle.kill("ann")
    handle.result(60)
    assert provider.books == {}


def test_a_run_that_is_stopped_while_it_brings_its_changes_out_ends_soon(
    cockpit_with, project, registry, provider, monkeypatch
):
    collecting = threading.Event()

    async def for_ever(*_: object) -> None:
        collecting.set()
        await asyncio.sleep(3600)

    monkeypatch.setattr("kagura_kernel.runs.changes.RunChanges.settle", for_ever)
    monkeypatch.setattr("kagura_kernel.runs.run.KILLED_SETTLE_SECONDS", 0.1)
    cockpit = cockpit_with(registry=registry, settings=Settings(preapproved_grants=("fake:read",)))
    handle = cockpit.launch(cell(project, "true", grants=("fake:read",)))
    assert collecting.wait(60)
    # Nothing needs the credential any more.
    wait_until(lambda: provider.books == {})
    handle.kill("ann")
    assert handle.result(50).status == "killed"


def test_a_provider_that_does_not_answer_does_not_keep_the_box_alive(
    cockpit_with, project, registry, provider, monkeypatch
):
    monkeypatch.setattr("kagura_kernel.runs.run.GIVE_BACK_SECONDS", 0.1)
    cockpit = cockpit_with(registry=registry, settings=Settings(preapproved_grants=("fake:read",)))
    handle = cockpit.launch(cell(project, "echo begun > begun; sleep 600", grants=("fake:read",)))
    wait_until(cockpit.leases)
    heard: list[str] = []
    handle.subscribe(lambda event: heard.append(event.kind))
    cockpit._engine.post(provider.gate.clear)
    handle.kill("ann")
    wait_until(lambda: "box.closed" in heard)
    assert not handle.done
    cockpit._engine.post(provider.gate.set)
    assert handle.result(60).status == "killed"


AT = datetime(2026, 1, 1, tzinfo=UTC)


def changed(change: str, lease: str = "lea-1", run: str = "run-1", **fields: object) -> LeaseChanged:
    return LeaseChanged(
        run_id=run,
        session_id="ses-1",
        at=AT,
        lease_id=lease,
        provider="github",
        scope="read",
        change=change,  # type: ignore[arg-type]
        **fields,  # type: ignore[arg-type]
    )


def test_the_last_word_on_a_lease_counts_and_its_place_is_kept():
    events = [
        changed("acquired", way="header", place="http://127.0.0.1:9/", renewals_left=6, expires_at=AT),
        Noted(run_id="run-1", session_id="ses-1", at=AT, text="something else"),
        changed("renewed", way="header", place="http://127.0.0.1:9/", renewals_left=5, expires_at=AT),
        changed("on hold", why="its budget is used up"),
    ]
    (view,) = lease_views(events)
    assert (view.state, view.renewals_left, view.expires_at) == ("on hold", 0, None)
    assert (view.way, view.place, view.why) == ("header", "http://127.0.0.1:9/", "its budget is used up")


def test_what_was_given_back_is_left_out():
    assert lease_views([changed("acquired"), changed("released", why="revoked by ann")]) == []


def test_only_leases_of_this_process_can_be_acted_on_here():
    views = lease_views([changed("acquired"), changed("acquired", "lea-2", "run-2")], here={"run-2"})
    assert [(view.lease_id, view.here) for view in views] == [("lea-1", False), ("lea-2", True)]
