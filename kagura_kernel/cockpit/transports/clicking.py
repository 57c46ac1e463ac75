"""Buttons: what a click says is believed only where one of our own posts, in that thread, bears exactly that button."""

from __future__ import annotations

import asyncio
import hmac
import re
from dataclasses import dataclass

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.transports.acting import Deciding, Refused
from kagura_kernel.cockpit.transports.transport import Clicked, Heard
from kagura_kernel.domain.errors import RunError
from kagura_kernel.journal.chats import ChatBook

_ACTION = re.compile(r"(allow|deny|kill|resume|o[0-4]):((?:app|run)-[0-9a-z]{14}):([0-9a-f]{32})")
_ABOUT_RUNS = frozenset({"kill", "resume"})


class Copied(Refused):
    """The button stands below another post than the one that counts: what is left of a try whose end nobody heard."""


@dataclass(frozen=True, slots=True)
class Clicking:
    """Carries out clicks."""

    cockpit: Cockpit  # What is acted on
    book: ChatBook  # Which buttons are ours
    deciding: Deciding  # Answers approvals

    def subject_of(self, heard: Heard) -> tuple[str, str]:
        """The approval and the run that a click claims to be about; empty where it does not."""
        found = _ACTION.fullmatch(heard.action) if isinstance(heard, Clicked) else None
        if found is None:
            return "", ""
        subject = found[2]
        return ("", subject) if subject.startswith("run-") else (subject, "")

    async def click(self, clicked: Clicked, by: str) -> str:
        """Do what a button says; where it asks to go on from a run, that is left to the caller, who is told which.

        Raises:
            Copied: it stands below an older copy of one of our posts.
            Refused: it is none of ours, or is about something that is over.
        """
        verb, subject = await self._checked(clicked)
        if verb == "resume":
            return subject
        if verb == "kill":
            try:
                await asyncio.to_thread(self.cockpit.kill, subject, by=by)
            except RunError as error:
                raise Refused(error.message.rstrip(".")) from error
            return ""
        request = await asyncio.to_thread(self.deciding.open_request, subject)
        answer = self._option(verb, request.options)
        allow = verb != "deny"
        await asyncio.to_thread(self.deciding.decide, subject, allow=allow, by=by, answer=answer)
        return ""

    async def _checked(self, clicked: Clicked) -> tuple[str, str]:
        found = _ACTION.fullmatch(clicked.action)
        if found is None:
            raise Refused("the button is none of ours")
        verb, subject, token = found.groups()
        if (verb in _ABOUT_RUNS) != subject.startswith("run-"):
            raise Refused("the button is none of ours")
        post = await asyncio.to_thread(self.book.post_about, subject)
        if post is None or not hmac.compare_digest(post.token, token) or post.thread != clicked.thread:
            raise Refused("the button is none of ours")
        if post.post_id and clicked.post_id and post.post_id != clicked.post_id:
            raise Copied("this is an older copy: use the newer one below it", subject)
        return verb, subject

    def _option(self, verb: str, options: tuple[str, ...]) -> str:
        if not verb.startswith("o"):
            return ""
        number = int(verb[1:])
        if number >= len(options):
            raise Refused("the question has no such answer")
        return options[number]
