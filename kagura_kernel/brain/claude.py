"""The Claude brain: the Claude Agent SDK and its program, with every built-in tool off.

The program runs on the host and thinks; it acts on nothing. It is offered our tools and nothing else, reads nobody's
settings, gets an empty directory to stand in, and of the environment only what signs it in (see `claude_auth`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from importlib import import_module
from typing import TYPE_CHECKING

from kagura_kernel.brain.claude_auth import (
    SERVICE_VARIABLES,
    ClaudeHome,
    ClaudeParts,
    has_key,
    program_environ,
    program_file,
    resolve,
    signed_environ,
    what_is_missing,
)
from kagura_kernel.brain.provider import AuthContext, BrainCapabilities, BrainDone, BrainEvent, Turn, all_images
from kagura_kernel.domain.errors import BrainLost, BrainNotConfigured

if TYPE_CHECKING:
    from kagura_kernel.brain.claude_talk import Talk


MODELS = ("opus", "sonnet", "haiku")
"""Its program's names for the newest model of each kind; which one that is, it says as it answers."""


class ClaudeBrain(ClaudeParts):
    """Thinks with the Claude program. May run several turns at once; each has a program of its own.

    In its directory sessions are kept when a key is used.
    """

    @property
    def name(self) -> str:
        """`claude`."""
        return "claude"

    def resolve_auth(self) -> AuthContext:
        """How it would sign in; looks for a variable, a file and the program."""
        auth = self._auth()
        missing = what_is_missing(self._program, self._environ)
        return AuthContext(ready=False, method=auth.method, reason=missing) if missing else auth

    def capabilities(self) -> BrainCapabilities:
        """It streams, resumes, listens, says what it costs and keeps to a budget."""
        return BrainCapabilities(
            streaming=True,
            resume=True,
            reports_cost=True,
            budget=True,
            listens=True,
            images=all_images,
            models=MODELS,
        )

    async def run(self, turn: Turn) -> AsyncGenerator[BrainEvent, None]:
        """Think until done. Cancelling, or closing the iterator, ends the program and its whole process group.

        Raises:
            BrainNotConfigured: there is no key and no sign-in, or the sign-in has run out.
            BrainRefused: the service said no; `status` is its HTTP status.
            BrainLost: the program is missing, died, or fell silent.
        """
        if turn.over:
            yield BrainDone(session=turn.resume, reported_usd=0.0, stopped=turn.over)
            return
        auth = self._auth()
        if not auth.ready:
            message = f"The {self.name} brain cannot think: {auth.reason}."
            raise BrainNotConfigured(message)
        missing, program = what_is_missing(self._program, self._environ), program_file(self._program, self._environ)
        if missing or program is None:
            raise BrainLost(self.name, missing)
        home = ClaudeHome(self._state_dir)
        try:
            home.make()
        except OSError as error:
            raise BrainLost(self.name, f"{home.root} cannot be used ({error.strerror})") from error

        environ = await signed_environ(self.name, self._environ, self._key)
        # Imported late, since a kernel that only replays never needs it, and beside the loop: the SDK takes half a
        # second, in which other runs go on.
        talking = await asyncio.to_thread(import_module, "kagura_kernel.brain.claude_talk")
        talk: Talk = talking.host_talk(
            turn,
            program=program,
            environ=program_environ(environ, home, max_retries=self._max_retries),
            home=home,
            secrets=[environ.get(name, "") for name in SERVICE_VARIABLES],
            silence=self._silence,
        )
        try:
            async with aclosing(talk.events()) as events:
                async for event in events:
                    yield event
        finally:
            await talk.stop()

    def _auth(self) -> AuthContext:
        # A variable comes before the kept key, and that before a sign-in.
        if self._key is not None and not has_key(self._environ):
            return AuthContext(ready=True, method="api key", reason=f"key from {self._key.place}")
        return resolve(self._environ)
