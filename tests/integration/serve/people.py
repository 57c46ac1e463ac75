"""People who write in a Slack, one task after the other, and know an answer when they see one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kagura_kernel.cockpit.transports.conversations import INTERRUPTED
from kagura_kernel.testing.chat import Shown
from kagura_kernel.testing.patience import eventually
from tests.support.slack_server import SlackServer

ANN, BOB = "U0ANN", "U0BOB"

LONG = 240.0
"""Seconds that nobody waits whose message is not lost, on however busy a machine."""

KINDS = ("box", "host", "question", "quick")
"""What tasks are: work in a box, with a credential; a command of this machine; a question; words alone."""

_RUN = r"(run-[0-9a-z]{14})"
_END = re.compile(rf"(?:Done|Failed|Limit reached|Denied|Lost[^·]*|Over) · {_RUN}\b")
_GOING_ON = re.compile(rf"(?:Begins|Works|Waits for an answer) · {_RUN}\b")


@dataclass
class Person:
    """Somebody in a thread of their own, who writes the next task when the last one is answered."""

    server: SlackServer  # The chat
    number: int  # Which of them
    sent: list[str] = field(default_factory=list)  # What was written so far
    over: bool = False  # Whether they write no more

    @property
    def thread(self) -> str:
        """Where they write."""
        return f"D0ROOM:1600000000.{self.number:06}"

    async def live(self) -> None:
        """Write, wait for the answer, and write again; half of it arrives a second time, as Slack may have it."""
        while not self.over:
            await self.say()
            if len(self.sent) % 2:
                await self.server.event(self.event(len(self.sent) - 1))

    async def say(self) -> None:
        """Write one task, and return when it is answered; what asks meanwhile is allowed."""
        task = f"task-{self.number}-{len(self.sent)}-{KINDS[(self.number + len(self.sent)) % len(KINDS)]}"
        self.sent.append(task)
        await self.server.event(self.event(len(self.sent) - 1))
        clicked: set[tuple[str, str]] = set()
        try:
            await eventually(lambda: self._answered(clicked), LONG)
        except AssertionError as error:
            error.add_note(f"In the thread of {task}:")
            for post in self.server.shown(self.thread):
                error.add_note(repr(post))
            raise

    def event(self, number: int) -> Mapping[str, Any]:
        """One of their messages as Slack tells it, the same whenever it does."""
        channel, _, ts = self.thread.partition(":")
        told = {"channel": channel, "channel_type": "im", "user": ANN, "text": f"Please do {self.sent[number]}."}
        if number == 0:
            return {"type": "message", "ts": ts, **told}
        return {"type": "message", "ts": f"17{number:08}.{self.number:06}", "thread_ts": ts, **told}

    def answers(self) -> list[str]:
        """The last words in their thread."""
        return [post.text for post in self.server.shown(self.thread) if is_answer(post)]

    async def _answered(self, clicked: set[tuple[str, str]]) -> bool:
        if len(self.answers()) >= len(self.sent):
            return True
        for post in self.server.shown(self.thread):
            for label, action in post.buttons[:1]:
                if (
                    label in ("Allow", "left")
                    and (post.post_id, action) not in clicked
                    and await self.server.connected()
                ):
                    try:
                        await self.server.click(ANN, self.thread, post.post_id, action)
                    except ConnectionResetError:
                        continue
                    clicked.add((post.post_id, action))
        await asyncio.sleep(0.02)
        return False


def is_answer(post: Shown) -> bool:
    """Whether a post is the last word about a message."""
    return bool(_END.match(post.text)) or post.text == INTERRUPTED


def asked(post: Shown) -> bool:
    """Whether a post is a question, answered or not."""
    return " asks ·" in post.text or " · app-" in post.text


def ended_run(post: Shown) -> str:
    """The run whose end a post tells; empty for another one."""
    found = _END.match(post.text)
    return found[1] if found else ""


def goes_on(post: Shown) -> bool:
    return bool(_GOING_ON.match(post.text))
