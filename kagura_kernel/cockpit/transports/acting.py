"""What a message in a thread sets off: a run, an answer, a stop, or one of the few commands that a chat has."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.cockpit.intents import LaunchRun
from kagura_kernel.cockpit.transports.deciding import decide
from kagura_kernel.cockpit.transports.plain import one_line
from kagura_kernel.cockpit.transports.telling import status_text
from kagura_kernel.cockpit.transports.transport import Post, Said, SentFile
from kagura_kernel.cockpit.understanding import (
    AnswerSaid,
    CommandSaid,
    Meaning,
    Standing,
    StatusAsked,
    StopSaid,
    TaskSaid,
    Unclear,
    understand,
)
from kagura_kernel.domain.approvals import ApprovalRequest
from kagura_kernel.domain.errors import ApprovalUnknown, NotThisTime, RunUnknown, UnknownName, UsageError
from kagura_kernel.domain.variables import MAX_VARIABLES, PackedVariable
from kagura_kernel.journal import views
from kagura_kernel.journal.rows import RunRow

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.handles import RunHandle

COMMANDS = ("approve", "apply", "changes", "deny", "discard", "help", "kill", "status")
"""What a chat has of the one list of commands."""

HELP = (
    "A message begins a run, or goes on from the one before in this thread. /status · /kill [RUN] · "
    "/approve APPROVAL [ANSWER] · /deny APPROVAL [REMARK] · /changes · /apply [FILES] · /discard [FILES]. "
    "A word alone does too: yes, no, status, stop."
)

_UNCLEAR = {
    "nothing runs": "Nothing goes on in this thread that could be stopped.",
    "while it runs": "A run goes on here. Wait for it, say stop, or write in another thread.",
    "nothing said": "There was nothing in that message.",
}

Answer = tuple[str | Post, "RunHandle | None"]


@dataclass(frozen=True, slots=True)
class Acting:
    """Carries out messages.

    Attributes:
        cockpit: What is acted on.
        project: The project of its runs; None is the working directory.
        brain: Their brain; None leaves it to the settings.
        transport: The chat's name, which the journal has as the origin of a run and the way of an answer.
    """

    cockpit: Cockpit
    project: Path | None
    brain: str | None
    transport: str

    async def act(self, said: Said, session: str, by: str) -> Answer:
        """Do what a message asks for: what to say, or the run that was begun.

        Raises:
            KaguraError: it could not be done; the message says why.
            Refused: it answers an approval that cannot be answered any more.
        """
        running, waiting, ran = await asyncio.to_thread(self._standing, session)
        standing = Standing(running.run_id if running is not None else "", waiting, ran)
        match understand(said.text, standing):
            case TaskSaid(task=task):
                return "", await self._launch(said, task, session)
            case meaning:
                return await self._told(meaning, session, by), None

    async def _told(self, meaning: Meaning, session: str, by: str) -> str | Post:
        told: str | Post = ""
        match meaning:
            case AnswerSaid(approval_id=approval_id, allow=allow, text=text):
                told = await self._decide(approval_id, allow=allow, by=by, answer=text)
            case StatusAsked():
                told = await self._status(session)
            case StopSaid(run_id=run_id):
                told = await self._kill(run_id, by)
            case CommandSaid(line=line):
                told = await self._command(line, session, by)
            case Unclear(why="which approval", choices=choices):
                told = f"Several wait for that word. Say /approve or /deny with one of {', '.join(choices)}."
            case Unclear(why=why):
                told = _UNCLEAR[why]
        return told

    def _standing(self, session: str) -> tuple[RunRow | None, list[ApprovalRequest], bool]:
        journal = self.cockpit.journal
        running = next((row for row in views.unfinished(journal) if row.session_id == session), None)
        ours = running.run_id if running is not None else ""
        waiting = [one for one in self.cockpit.pending() if ours and ours in (one.run_id, *one.lineage)]
        return running, waiting, bool(self._last_run(session))

    def _last_run(self, session: str) -> str:
        from kagura_kernel.journal.session_registry import sessions

        found = sessions(self.cockpit.journal, limit=1, names=[session])
        return found[0].last_run if found else ""

    async def _launch(self, said: Said, task: str, session: str) -> RunHandle:
        intent = LaunchRun(
            task=task,
            session=session,
            project=self.project,
            brain=self.brain,
            origin=self.transport,
            inputs=await self._inputs(said.files),
        )
        handle = await asyncio.to_thread(self.cockpit.launch, intent)
        await handle.begun()
        return handle

    async def _inputs(self, files: Sequence[SentFile]) -> tuple[PackedVariable, ...]:
        """Files that were sent along, as variables of the run: never as files of the project."""
        if len(files) > MAX_VARIABLES:
            raise UsageError(f"At most {MAX_VARIABLES} files go along with a message, not {len(files)}.")
        left = self.cockpit.room
        packed = []
        for number, file in enumerate(files, start=1):
            if file.size > left:
                raise UsageError(f"{one_line(file.name, 60)} does not fit: the files of one message have a limit.")
            data = await file.read(left)
            left -= len(data)
            shown = one_line(file.name, 80)
            words = re.sub(r"\W+", "_", shown, flags=re.ASCII).strip("_")[:60]
            name = f"file_{number}_{words}" if words else f"file_{number}"
            summary = f"the file {shown}, {len(data):,} bytes"
            packed.append(PackedVariable(name, "file", data, {"name": shown}, summary))
        return tuple(packed)

    async def _decide(self, approval_id: str, *, allow: bool, by: str, answer: str) -> str:
        decision = await asyncio.to_thread(
            decide, self.cockpit, approval_id, allow=allow, by=by, via=self.transport, answer=answer
        )
        return f"{'Allowed' if decision.allowed else 'Denied'}: {approval_id}."

    async def _status(self, session: str) -> str:
        running = await asyncio.to_thread(views.unfinished, self.cockpit.journal)
        return status_text(running, await asyncio.to_thread(self.cockpit.pending), session)

    async def _kill(self, run_id: str, by: str) -> str:
        await asyncio.to_thread(self.cockpit.kill, run_id, by=by)
        return f"{run_id} is being stopped."

    async def _command(self, line: str, session: str, by: str) -> str | Post:
        word, _, rest = line.partition(" ")
        words = rest.split()
        match word.casefold():
            case "help":
                return HELP
            case "status":
                return await self._status(session)
            case "kill":
                return await self._kill(await asyncio.to_thread(self._run_meant, words, session), by)
            case "approve" | "deny" as verb:
                if not words:
                    raise UsageError(f"/{verb} needs an approval, as in `/{verb} app-…`.")
                approval_id = await asyncio.to_thread(self._approval_meant, words[0])
                return await self._decide(approval_id, allow=verb == "approve", by=by, answer=" ".join(words[1:]))
            case "changes" | "apply" | "discard" as verb:
                return await asyncio.to_thread(self._change, verb, words, session, by)
            case other:
                raise UnknownName("command of a chat", one_line(other, 40), COMMANDS)

    def _run_meant(self, words: Sequence[str], session: str) -> str:
        going = views.unfinished(self.cockpit.journal)
        wanted = words[0] if words else ""
        found = [row.run_id for row in going if (row.run_id.endswith(wanted) if wanted else row.session_id == session)]
        if len(found) != 1:
            raise RunUnknown(wanted) if wanted else NotThisTime("Nothing goes on in this thread.")
        return found[0]

    def _approval_meant(self, wanted: str) -> str:
        found = [one.id for one in self.cockpit.pending() if one.id.endswith(wanted)]
        if len(found) > 1:
            raise ApprovalUnknown(wanted)
        # One that does not wait is looked up as it was written, so that the answer says what became of it.
        return found[0] if found else wanted

    def _change(self, verb: str, paths: Sequence[str], session: str, by: str) -> str | Post:
        run_id = self._last_run(session)
        if not run_id:
            raise NotThisTime("There was no run in this thread yet.")
        if verb == "changes":
            changes = self.cockpit.changes(run_id)
            listed = "\n".join(f"{one.status} {one.path} ({one.state})" for one in changes)
            return Post(f"Changes of {run_id}: {len(changes)}", listed)
        act = self.cockpit.apply_changes if verb == "apply" else self.cockpit.discard_changes
        settled = act(run_id, list(paths) or None, by=by)
        named = {"in the project": settled.applied, "given up": settled.discarded, "left alone": settled.conflicts}
        states = [f"{path}: {state}" for state, found in named.items() for path in found]
        return Post(f"Changes of {run_id}, {verb}: {len(states)}", "\n".join(states))
