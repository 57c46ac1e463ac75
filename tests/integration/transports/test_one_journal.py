"""A run that was begun in a chat belongs to every front door: one journal tells the whole story."""

import pytest

from kagura_kernel.cockpit.transports.actions import ChatTerms
from kagura_kernel.cockpit.transports.conversations import Conversations
from kagura_kernel.cockpit.transports.slack import SlackTokens, SlackTransport
from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import Ask, FakeBrain, Hang
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.patience import eventually

pytest.importorskip("slack_bolt")

from tests.support.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer

HOST = Ask("bash", {"command": "echo from the host", "host": True, "reason": "to see it"})


async def test_a_run_of_slack_is_approved_in_the_sidebar_and_killed_in_the_terminal(tmp_path, project):
    home = tmp_path / "home"
    async with SlackServer() as server:
        slack = SlackTransport(SlackTokens(Secret(BOT_TOKEN), Secret(APP_TOKEN)), api=server.api, files=server.files)
        cockpit = fake_cockpit(home, backend=FakeBackend(), brains=[FakeBrain([HOST, Hang()])])
        conversations = Conversations(cockpit, slack, ChatTerms(frozenset({"U1"}), project), SystemClock())
        elsewhere = Journal.open(home)
        try:
            await conversations.open()
            thread = await server.say("U1", "go")
            mailbox = Mailbox(elsewhere)
            await eventually(lambda: any("Allow" in dict(post.buttons) for post in server.shown(thread)))
            asked = mailbox.pending()[0]
            mailbox.decide(asked.id, Verdict.ALLOW, by="bob", via="sidebar", in_time=True)
            await eventually(lambda: any("bob (sidebar)" in post.text for post in server.shown(thread)))
            mailbox.send(asked.run_id, "kill", by="carol")
            await conversations.idle()
            posts = [post.text for post in server.shown(thread)]
            told = [row.event for row in elsewhere.events(run_id=asked.run_id)]
        finally:
            await conversations.close()
            cockpit.close()
            elsewhere.close()
    assert any(post.startswith(f"{asked.run_id} was stopped by ") for post in posts)
    started, decided, finished = (
        next(event.model_dump() for event in told if event.kind == kind)
        for kind in ("run.started", "approval.decided", "run.finished")
    )
    assert started["origin"] == "slack"
    assert started["session_id"] == conversations.session_of(thread)
    assert (decided["verdict"], decided["by"], decided["via"]) == ("allow", "bob", "sidebar")
    assert finished["status"] == "killed"
    assert "carol" in finished["error"]
