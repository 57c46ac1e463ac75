"""Messages: what waits for its turn in the thread, what does not, and what begins a run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from kagura_kernel.cockpit.transports.acting import Acting, Place
from kagura_kernel.cockpit.transports.launching import Begin, Launching
from kagura_kernel.cockpit.transports.meant import ending
from kagura_kernel.cockpit.transports.transport import Post, Said
from kagura_kernel.cockpit.transports.turns import Turn, Turns
from kagura_kernel.cockpit.understanding import CommandSaid, TaskSaid


@dataclass(frozen=True, slots=True)
class Messages:
    """Carries out what was said. Used on one loop.

    Attributes:
        acting: Does all but begin runs.
        launching: Begins them.
        turns: The order of each thread.
    """

    acting: Acting
    launching: Launching
    turns: Turns

    async def do(self, said: Said, key: str, place: Place, turn: Turn | None) -> str | Post | None:
        """Do what a message asks for: what to say, or None where a run was begun, which tells for itself.

        Args:
            said: The message.
            key: What the book knows it by.
            place: Where it was said, and by whom.
            turn: Its turn; None for what waits for nobody.

        Raises:
            KaguraError: it could not be done; the message says why.
            Refused: it answers an approval that cannot be answered any more.
            NotBegun: a run is not begun, for a reason that is nobody's fault.
        """
        if place.session is None:
            return await self.acting.tell(CommandSaid(said.text.removeprefix("/") or "help"), place)
        if turn is None:
            return await self.acting.tell(await self.acting.understood(said, place, in_turn=False), place)
        try:
            await self.turns.come(turn)
            return await self._in_turn(said, key, place, turn)
        finally:
            self.turns.leave(turn)

    async def go_on(self, run_id: str, key: str, place: Place) -> None:
        """Begin a run that goes on from another one; raises like `do`."""
        turn = self.turns.enter(place.thread)
        try:
            await self.turns.come(turn)
            await self.launching.begin(Begin(key, place.session or "", place.by, turn, resume=run_id))
        finally:
            self.turns.leave(turn)

    async def _in_turn(self, said: Said, key: str, place: Place, turn: Turn) -> str | Post | None:
        session = place.session or ""
        meaning = await self.acting.understood(said, place, in_turn=True)
        match meaning:
            case TaskSaid(task=task):
                await self.launching.begin(Begin(key, session, place.by, turn, task=task, files=said.files))
                return None
            case CommandSaid(line=line) if line.split()[0].casefold() == "resume":
                words = line.split()[1:]
                run_id = ending(words[0], "run") if words else await asyncio.to_thread(self.acting.last_run, session)
                if not run_id:
                    return "There was no run in this thread yet."
                await self.launching.begin(Begin(key, session, place.by, turn, resume=run_id))
                return None
            case _:
                return await self.acting.tell(meaning, place)
