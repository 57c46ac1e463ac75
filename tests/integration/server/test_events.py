"""The server's event stream tells what other processes do to the journal: soon, seldom, and never too little."""

import asyncio
import json
import time
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.identity import new_approval_id, new_run_id
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.jupyter.server.extension import SCHEMA_ID
from kagura_kernel.testing.patience import eventually
from tests.support.jupyter_server import TOKEN
from tests.support.sample_run import SampleRun

pytestmark = pytest.mark.usefixtures("told")

TOPICS = {"runs", "approvals", "leases", "costs", "plugins", "memories"}


@dataclass
class Heard:
    """What came by the stream, each with the time it came."""

    messages: list = field(default_factory=list)

    def about(self, topic):
        return [message for message in self.messages if message["topic"] == topic]

    def forget(self):
        self.messages.clear()


@asynccontextmanager
async def listening(server):
    """A browser's connection to the server's event stream."""
    parts = urlsplit(server.url)
    request = HTTPRequest(
        f"ws://{parts.netloc}{parts.path}api/events/subscribe", headers={"Authorization": f"token {TOKEN}"}
    )
    heard, closed = Heard(), asyncio.Event()

    def hear(text):
        if text is None:
            closed.set()
        elif (message := json.loads(text))["schema_id"] == SCHEMA_ID:
            assert {"topic", "seq", "run_id", "approval_id"} <= message.keys()
            heard.messages.append(message)

    connection = await websocket_connect(request, on_message_callback=hear)
    try:
        yield heard
    finally:
        connection.close()
        await closed.wait()


@pytest.fixture
async def heard(server):
    """What comes after the first look, which tells everything once."""
    async with listening(server) as found:
        await eventually(lambda: {message["topic"] for message in found.messages} == TOPICS)
        found.forget()
        yield found


async def test_who_begins_to_listen_is_told_everything_once(server, told):
    async with listening(server) as found:
        await eventually(lambda: {message["topic"] for message in found.messages} == TOPICS)
        assert {message["seq"] for message in found.messages} == {told.journal.last_seq()}


async def test_a_new_approval_is_told_before_its_event(told, heard):
    request = told.live.request(new_approval_id(), requested_at=SystemClock().now(), deadline=600.0)
    Mailbox(told.journal).post(request)
    await eventually(lambda: heard.about("approvals"))
    (message,) = heard.about("approvals")
    assert (message["run_id"], message["approval_id"]) == ("run-live", request.id)
    assert heard.about("runs")
    heard.forget()
    Mailbox(told.journal).decide(request.id, Verdict.DENY, by="ada", via="cell")
    await eventually(lambda: heard.about("approvals"))
    assert heard.about("approvals")[0]["approval_id"] == request.id


async def test_a_decision_of_the_browser_itself_is_told_to_other_browsers(server, told, heard):
    request = told.live.request(new_approval_id(), requested_at=SystemClock().now(), deadline=600.0)
    Mailbox(told.journal).post(request)
    await eventually(lambda: heard.about("approvals"))
    heard.forget()
    await asyncio.to_thread(server.ask, "POST", f"approvals/{request.id}/decision", {"verdict": "allow"})
    await eventually(lambda: heard.about("approvals"))


async def test_each_list_is_told_of_what_changes_it_and_of_nothing_else(told, heard):
    told.journal.append(told.ended.noted("nothing that a list shows"))
    told.journal.append(told.live.lease("renewed"))
    await eventually(lambda: heard.about("leases"))
    assert {message["topic"] for message in heard.messages} == {"leases"}
    heard.forget()
    told.journal.append(told.live.counted(computed_usd=0.0))
    await eventually(lambda: heard.about("costs"))
    assert {message["topic"] for message in heard.messages} == {"runs", "costs"}
    assert {message["run_id"] for message in heard.messages} == {"run-live"}


async def test_five_thousand_events_are_a_handful_of_messages_and_the_last_one_is_true(told, heard):
    called, finished = told.live.tool()

    def burst():
        began = time.monotonic()
        for _ in range(50):
            with told.journal.writing() as writing:
                for _ in range(50):
                    writing.append(called)
                    writing.append(finished)
        return time.monotonic() - began

    seconds = await asyncio.to_thread(burst)
    last = told.journal.last_seq()
    told.journal.append(called)
    await eventually(lambda: heard.messages and heard.messages[-1]["seq"] >= last + 1)
    # One more than the looks that fit, for the one at each end.
    assert len(heard.about("runs")) <= seconds / 0.2 + 3
    assert {message["topic"] for message in heard.messages} == {"runs"}


async def test_a_run_whose_process_is_gone_ends_while_somebody_looks(told, server):
    host, pid, began = process_owner().split(":")
    run = SampleRun(new_run_id(), "ses-gone", SystemClock().now())
    told.journal.append(run.started(owner=f"{host}:{pid}:1{began}"))
    ends = ("run.finished",)
    async with listening(server):
        await eventually(lambda: told.journal.events(run_id=run.run_id, kinds=ends))
    assert told.journal.events(run_id=run.run_id, kinds=ends)[0].event.status == "lost"


async def test_a_journal_that_comes_and_goes_is_told(start_server):
    server = start_server()
    async with listening(server) as found:
        await eventually(lambda: {message["topic"] for message in found.messages} == TOPICS)
        assert {message["seq"] for message in found.messages} == {0}
        found.forget()
        with closing(server.journal()) as journal:
            journal.append(SampleRun().started(owner=process_owner()))
            await eventually(lambda: any(message["seq"] == 1 for message in found.about("runs")))
            found.forget()
        for path in server.home.glob("journal.db*"):
            path.unlink()
        await eventually(lambda: any(message["seq"] == 0 for message in found.about("runs")))
        with closing(server.journal()) as journal:
            journal.append(SampleRun().started(owner=process_owner()))
            journal.append(SampleRun().noted())
            await eventually(lambda: any(message["seq"] == 2 for message in found.about("runs")))
