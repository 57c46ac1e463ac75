"""What goes wrong in a run becomes a lesson: what triggered it, and what mended it when that is found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Decision, Verdict
from kagura_kernel.domain.errors.memory import MemoryUnknown
from kagura_kernel.domain.events import MemoryChanged, RunVerified
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.domain.memory import FIXES, PREVENTS, Author, Draft, Edge, Memory, Source, Tier, project_scope
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.membrane.grant import RecordFact
from kagura_kernel.memory.store import MemoryStore
from kagura_kernel.patterns.attempts import (
    CHANGES,
    COMMANDS,
    LONGEST_LINE,
    Attempt,
    failures_of,
    mended_by,
    telling_line,
)
from kagura_kernel.patterns.lessons import (
    VERIFICATION,
    Failure,
    fits,
    fix_draft,
    lesson_draft,
    lesson_id,
    lesson_of,
)
from kagura_kernel.patterns.steps import BEGUN_IN, EARLIER
from kagura_kernel.runs.order import RunOrder
from kagura_kernel.runs.run_end import Ending
from kagura_kernel.runs.run_memory import RunMemory

MOST_LESSONS = 5
"""How many a run leaves."""
MOST_ATTEMPTS = 500
"""How many calls of a run are looked at: its last ones."""

_ARGUMENT = {"bash": "command", "python": "code", "write_file": "path", "edit_file": "path"}
_NO_LESSON = frozenset({ApprovalKind.PLAN, ApprovalKind.QUESTION, ApprovalKind.TRUST})
_NOBODY = frozenset({"policy", "deadline", "graduation"})


class Learning:
    """One run's; on its loop.

    Args:
        order: The run's.
        memory: Where lessons are kept.
        record: Stores what was left.
        show: Takes secrets out of a text.
    """

    def __init__(self, order: RunOrder, memory: RunMemory, record: RecordFact, show: Callable[[str], str]) -> None:
        self.warned: tuple[str, ...] = ()  # Ids of the lessons that the run's plan showed
        self._order = order
        self._memory = memory
        self._record = record
        self._show = show
        self._attempts: list[Attempt] = []
        self._denied: list[Failure] = []
        agent = order.agent
        self._foreign = tuple(f"{one.name.replace('-', '_')}_" for one in agent.toolsets) if agent is not None else ()

    def used(self, call: ToolCall, result: ToolResult) -> None:
        """A tool answered."""
        foreign = bool(self._foreign) and call.name.startswith(self._foreign)
        known = foreign or call.name in COMMANDS | CHANGES
        # What an earlier run had done was answered from its record, and is its lesson.
        if self._memory.store is None or not known or result.route == EARLIER:
            return
        # What a toolset's tool was given is somebody's, and says nothing to another run.
        line = "" if foreign else _beginning(str(call.arguments.get(_ARGUMENT[call.name], "")))
        said = result.text[-LONGEST_LINE:] if result.is_error else ""
        self._attempts.append(Attempt(call.name, line, said, result.is_error, result.exit_code, foreign))
        del self._attempts[:-MOST_ATTEMPTS]

    def decided(self, request: ApprovalRequest, decision: Decision) -> None:
        """An approval ended."""
        # Whether a step is done twice says something about the interruption alone.
        if self._memory.store is None or request.kind in _NO_LESSON or BEGUN_IN in request.arguments:
            return
        # That nobody was there, or was in time, says nothing about what was asked for.
        if decision.verdict is Verdict.DENY and decision.via not in _NOBODY:
            line = _beginning(str(request.arguments.get("command", "")).strip())
            what = request.title if not line or line in request.title else f"{request.title}: `{line}`"
            self._denied.append(Failure("approval", f"A person said no to: {what}", decision.answer, line=line))

    async def leave(self, ending: Ending, verified: RunVerified | None, left: Sequence[str] = ()) -> tuple[str, ...]:
        """Keep the lessons of the run; ids of what was left.

        Args:
            ending: How it ended.
            verified: Whether its work is good.
            left: What else it leaves, the summary of its outcome first.
        """
        store = self._memory.store
        if store is None:
            return ()
        leaving = _Leaving(store, left[0] if left else "")
        for failure in (await asyncio.to_thread(self._failures, ending, verified))[:MOST_LESSONS]:
            await self._keep(leaving, failure.with_texts(self._show))
        for one in self.warned:
            if one not in leaving.kept:
                await self._mend(leaving, one, verified)
        own = not self._order.handoff.lineage and not self._memory.untrusted
        if verified is not None and verified.passed and own:
            await self._promote(store, leaving.confirmed)
        return tuple(leaving.kept)

    def _failures(self, ending: Ending, verified: RunVerified | None) -> list[Failure]:
        """What went wrong, the most telling first."""
        return [*self._outside(ending, verified), *failures_of(self._attempts)]

    def _outside(self, ending: Ending, verified: RunVerified | None) -> Iterator[Failure]:
        """What somebody else than a tool has said."""
        if verified is not None and not verified.passed:
            code = verified.exit_code
            how = "took too long" if code is None else f"ended with {code}"
            what = f"The verification `{verified.command}`"
            trigger = f"{what} could not be run: {verified.why}" if verified.why else f"{what} {how}"
            yield Failure("verification", trigger, telling_line(verified.text), line=verified.command)
        yield from self._denied
        # That a brain could not be asked, or that a run failed before it did anything (no box, a wrong setting), says
        # nothing of the task.
        tried = ending.status == "stopped" or (ending.status == "failed" and self._attempts)
        if tried and not ending.error_code.startswith("ERR_BRAIN"):
            yield Failure("run", f"The run ended with {ending.error_code}", ending.error_text)

    async def _keep(self, leaving: _Leaving, failure: Failure) -> None:
        """Remember a failure, or that it happened again, and what mended it."""
        came_from = [leaving.summary] if leaving.summary else self._memory.seen
        task = self._show(self._order.task)
        draft = lesson_draft(failure, task=task, scope=self._scope, source=self._source)
        known = await asyncio.to_thread(_find, leaving.store, draft.id)
        if known is not None and known.forgotten_at is None and not fits(known, task):
            # Whoever has a task like this one would not be told of it.
            draft = replace(draft, id=lesson_id(failure, self._scope, task))
        lesson = await self._remember(leaving, draft, came_from)
        if lesson is None:
            return
        await leaving.join(lesson.id, PREVENTS, leaving.summary)
        if failure.fix:
            await self._keep_fix(leaving, lesson.id, failure)

    async def _keep_fix(self, leaving: _Leaving, lesson: str, failure: Failure) -> None:
        session = self._order.session_id
        draft = fix_draft(lesson, failure, scope=self._scope, source=self._source, session_id=session)
        fix = await self._remember(leaving, draft, [lesson])
        if fix is not None:
            await leaving.join(fix.id, FIXES, lesson)

    async def _remember(self, leaving: _Leaving, draft: Draft, came_from: Sequence[str]) -> Memory | None:
        """Keep it unless it is known. None for what a person has forgotten: it stays forgotten."""
        known = await asyncio.to_thread(_find, leaving.store, draft.id)
        if known is not None and known.forgotten_at is not None:
            return None
        memory = known or await self._memory.keep(draft, "lesson", came_from=came_from)
        leaving.kept.append(memory.id)
        return memory

    async def _mend(self, leaving: _Leaving, warned: str, verified: RunVerified | None) -> None:
        """What mended a lesson of the plan that did not happen again."""
        memory = await asyncio.to_thread(_find, leaving.store, warned)
        if memory is None or memory.forgotten_at is not None:
            return
        failure = (await asyncio.to_thread(lesson_of, leaving.store, memory)).failure
        passed = verified is not None and verified.passed and verified.command == failure.line
        if failure.kind == "verification" and passed:
            await leaving.join(leaving.summary, FIXES, warned)
            # It says no more than what a person asked for, and how that ended. What an agent has typed, which every
            # other lesson and every fix repeats, is for a person to trust.
            leaving.confirmed.append(warned)
        elif failure.kind == "command" and (fix := mended_by(self._attempts, failure.tool, failure.line)):
            await self._keep_fix(leaving, warned, replace(failure, fix=fix).with_texts(self._show))

    async def _promote(self, store: MemoryStore, ids: Sequence[str]) -> None:
        """What a verified run has confirmed may be trusted."""
        for one in dict.fromkeys(ids):
            if await asyncio.to_thread(_trust, store, one):
                self._record(MemoryChanged, memory_id=one, change="promoted", by=VERIFICATION, via=VERIFICATION)

    @property
    def _scope(self) -> str:
        return project_scope(self._order.project)

    @property
    def _source(self) -> Source:
        """Who says so: the engine, of the run that all of this work is done for."""
        return Source(Author.ENGINE, run_id=(*self._order.handoff.lineage, self._order.run_id)[0])


@dataclass(slots=True)
class _Leaving:
    """What one run leaves."""

    store: MemoryStore  # Where
    summary: str  # The summary of its outcome; empty where there is none
    kept: list[str] = field(default_factory=list)  # Ids of its lessons and fixes, those that were known too
    confirmed: list[str] = field(default_factory=list)  # Ids of what it has shown to be right, if its work is verified

    async def join(self, source: str, type_: str, target: str) -> None:
        """Join two of them, if there are both."""
        if source and target:
            await asyncio.to_thread(self.store.create_edge, Edge(source, target, type_))


def _beginning(line: str) -> str:
    """The beginning of a long line, to the end of a word: half a secret would not be known for one."""
    return line if len(line) <= LONGEST_LINE else " ".join(line[:LONGEST_LINE].rsplit(maxsplit=1)[:1])


def _find(store: MemoryStore, memory_id: str) -> Memory | None:
    try:
        return store.reference(memory_id)
    except MemoryUnknown:
        return None


def _trust(store: MemoryStore, memory_id: str) -> bool:
    """Promote one of the engine's own that is not trusted yet; whether it was changed.

    A lesson's id can be foreseen, so that somebody's file may have brought another text under it.
    """
    memory = store.reference(memory_id)
    if memory.tier is Tier.TRUSTED or memory.source.author is not Author.ENGINE:
        return False
    store.promote(memory_id, by=VERIFICATION)
    return True
