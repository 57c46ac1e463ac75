"""Boxes that runs leave in place for the next run of their session, by `--keep`.

What stays is what lies and runs in the box. What its run was granted goes with the run: every listener is closed, so
that neither a host nor anything else can be reached, before the box is stopped; and a box that credentials were lent
to never stays. The next run's grants are its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import JournalError, SandboxError
from kagura_kernel.domain.events import BoxClosed, BoxKept
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.membrane.grant import RecordFact
from kagura_kernel.membrane.notebooks import ToldNotebooks
from kagura_kernel.sandbox.backend import BoxSpec, KeepableBox

MOST = 4
"""Boxes of one process that wait at once: each has its memory. The one that has waited longest goes first."""


class Earlier(NamedTuple):
    """What a run before in the same box has told of a file."""

    run_id: str
    change: FileChange
    known: Sequence[str]  # Hashes of what the project may have of it by way of the runs in the box, the last one last

    def is_still(self, change: FileChange) -> bool:
        """Whether the file is as that run left it."""
        before = self.change
        # A cell that was added and is to be moved has been applied; a file is told by what it holds.
        if before.status != change.status and (change.is_cell or "deleted" in (before.status, change.status)):
            return False
        return (before.new_sha256, before.size, before.mode, before.target) == (
            change.new_sha256,
            change.size,
            change.mode,
            change.target,
        )


@dataclass(frozen=True, slots=True)
class Likeness:
    """What the runs in one box have to have in common: a run that asks for anything else has a box of its own."""

    box: str  # As it was asked for
    spec: BoxSpec  # What the box is made of
    writes: tuple[str, bool]  # How changes reach the project, and whether it only plans

    def unlike(self, other: Likeness, backend: str) -> str:
        """What of it is not so for another run, a few words; empty when that one may go on in its box."""
        ours, theirs = self.spec, other.spec
        differs = {
            "another `--box`": other.box not in (self.box, backend),
            "another image": ours.image != theirs.image,
            "another project": ours.workspace != theirs.workspace,
            "other directories": (ours.extra_read_only, ours.shown) != (theirs.extra_read_only, theirs.shown),
            "another `--writable-root`": ours.writable_root != theirs.writable_root,
            "another `--write` or `--mode`": self.writes != other.writes,
            "other terms of the box": ours != theirs,
        }
        return next((words for words, is_so in differs.items() if is_so), "")


@dataclass(eq=False)
class KeptBox:
    """A box, and what its next run has to know of those before."""

    box: KeepableBox
    reason: str  # Why it is of this kind
    likeness: Likeness
    since: float  # When it began, seconds since 1970
    run_id: str = ""  # The last run in it
    count: int | None = None  # The execution count of that run's cell; None where nobody knows
    told: Mapping[str, Earlier] = field(default_factory=dict)  # What runs have told of its files, by path
    notebooks: ToldNotebooks | None = None  # What they know of notebooks
    plugin_port: int = 0  # Where programs in it have called plugins; 0 for nowhere
    untrusted: bool = False  # Whether one of them was shown memories that are not trusted
    record: RecordFact | None = None  # Where the last run's events go
    free: Callable[[], None] = lambda: None  # Lets go of what it shows of the host
    give_back: Callable[[], None] = lambda: None  # Gives back what it takes of a quota

    @property
    def name(self) -> str:
        """What a person calls its last run."""
        return self.run_id if self.count is None else f"[{self.count}]"

    async def close(self, why: str) -> None:
        """End it, and tell that in the record of its last run."""
        try:
            await asyncio.shield(asyncio.ensure_future(self.box.close()))
        finally:
            self.free()
            self.give_back()
            if self.record is not None:
                # A journal that takes nothing any more takes no run either, and says so there.
                with contextlib.suppress(JournalError):
                    self.record(BoxClosed, box_id=self.box.id, why=why)


class KeptBoxes:
    """All that wait in one process, one for each session. On the engine's loop, but for `waiting`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[str, KeptBox] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._over: dict[str, str] = {}

    @property
    def waiting(self) -> Mapping[str, KeptBox]:
        """Those that wait now, by session; from any thread."""
        return dict(self._kept)

    async def take(self, session_id: str, wanted: Likeness) -> tuple[KeptBox | None, str]:
        """The box that waits for this session, woken, or why there is none, a clause; empty where none was left.

        One that is not like what is wanted is ended.
        """
        kept, over = self._let_go(session_id), self._over.pop(session_id, "")
        if kept is None:
            return None, over
        why = f"{differs} than in {kept.name}" if (differs := kept.likeness.unlike(wanted, kept.box.backend)) else ""
        try:
            if not why:
                await kept.box.wake()
                return kept, ""
        except SandboxError as error:
            why = f"that of {kept.name} is gone: {error.message}"
        except BaseException:
            await kept.close("the run that was to go on with it was stopped")
            raise
        await kept.close(why)
        return None, why

    async def leave(self, session_id: str, kept: KeptBox, seconds: float) -> None:
        """Stop a box and have it wait so long for the session's next run, in the place of any other.

        Raises:
            SandboxError: it is gone.
            JournalError: it could not be written down.
        """
        await kept.box.rest()
        if kept.record is not None:
            kept.record(BoxKept, box_id=kept.box.id, seconds=seconds)
        await self.end(session_id, "a later cell has left another one")
        self._kept[session_id] = kept
        self._over.pop(session_id, None)
        self._watches[session_id] = asyncio.create_task(self._watch(session_id, kept, seconds))
        for oldest in list(self._kept)[:-MOST]:
            await self.end(oldest, "too many boxes wait for a next cell")

    async def end(self, session_id: str, why: str) -> bool:
        """End the box that waits for a session; whether there was one."""
        kept = self._let_go(session_id)
        if kept is not None:
            self._over[session_id] = f"that of {kept.name} is gone: {why}"
            await kept.close(why)
        return kept is not None

    async def close(self) -> None:
        """End all of them; may be called twice."""
        for session_id in list(self._kept):
            await self.end(session_id, "")

    def _let_go(self, session_id: str) -> KeptBox | None:
        watch = self._watches.pop(session_id, None)
        if watch is not None and watch is not asyncio.current_task():
            watch.cancel()
        return self._kept.pop(session_id, None)

    async def _watch(self, session_id: str, kept: KeptBox, seconds: float) -> None:
        gone = asyncio.ensure_future(kept.box.wait_closed())
        idle = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({gone, idle}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in (gone, idle):
                waiting.cancel()
        why = f"no cell went on with it for {seconds / 60:g} minutes" if not gone.done() else gone.result()
        await self.end(session_id, why)
