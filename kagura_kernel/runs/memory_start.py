"""What a run starts with: what it was handed, what is pinned, what its session left open, and what fits its task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from kagura_kernel.domain.errors import MemoryUnknown
from kagura_kernel.domain.events.memory import Shown
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.domain.memory import LESSON, Memory, Query, Recalled, Tier
from kagura_kernel.journal.session_registry import LastRun
from kagura_kernel.memory.ranking import has_to_do_with
from kagura_kernel.memory.store import MemoryStore, keepable
from kagura_kernel.runs.order import RunOrder
from kagura_kernel.tools.briefing import LONGEST, LONGEST_BRIEFING, Told, age, memory_briefing, that_fit

CANDIDATES = 20
"""Memories that are looked at for those that fit; twice the wanted number where that is more."""
LONGEST_TASK = 4_000
"""Characters of a task that are searched for."""

LONGEST_HANDOFF = 8_000
"""Characters of what was handed on: it is what the run is for."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a run begins with."""

    # What its brain is shown, by why it is, each with what matched
    shown: Mapping[Shown, Sequence[Memory | Recalled]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # What else its brain is told, in our words

    def briefing(self, now: datetime) -> str:
        """The section of the system prompt."""
        return memory_briefing([one for how in self.shown for one in _told(how, self.shown[how])], now, self.notes)


def start_of(
    store: MemoryStore,
    order: RunOrder,
    scopes: Sequence[str],
    now: datetime,
    shorn: Callable[[Memory], Memory],
    last: LastRun | None = None,
) -> Start:
    """Look it up. Blocks.

    Only what is trusted is shown, but for what the run above hands on by its id: that is shown with its marking.
    What there is no room for is left out, the least telling first.

    Args:
        store: Where to look.
        order: The run's.
        scopes: Whose memories concern it.
        now: For their ages.
        shorn: Takes secrets out of a memory.
        last: The last run of its session.

    Raises:
        MemoryUnavailable: the store cannot be reached.
        MemoryUnknown: what was handed on is not there any more.
    """
    found: dict[Shown, Sequence[Memory | Recalled]] = {}
    if order.handoff.memory_id:
        found["handoff"] = [_handed_on(store, order.handoff.memory_id, now)]
    found["pinned"] = store.pinned(scopes, Tier.TRUSTED)
    left = _left(store, last, now)
    if left is not None and left.tier is Tier.TRUSTED:
        found["state"] = [left]
    found["recalled"] = _recalled(store, order, scopes)
    return _bounded(found, now, shorn, (_state(last, left, now),) if last is not None else ())


def _left(store: MemoryStore, last: LastRun | None, now: datetime) -> Memory | None:
    """The summary that the session's last run left; None where there is none any more."""
    if last is None or not last.outcome:
        return None
    try:
        memory = store.reference(last.outcome)
    except MemoryUnknown:
        return None
    return None if is_gone(memory, now) else memory


def _handed_on(store: MemoryStore, memory_id: str, now: datetime) -> Memory:
    memory = store.reference(memory_id)
    if is_gone(memory, now):
        raise MemoryUnknown(memory_id)
    return memory


def is_gone(memory: Memory, now: datetime) -> bool:
    """Whether a memory is found by its id alone: forgotten, or expired."""
    return memory.forgotten_at is not None or (memory.expires_at is not None and memory.expires_at <= now)


def _recalled(store: MemoryStore, order: RunOrder, scopes: Sequence[str]) -> list[Recalled]:
    task = keepable(order.task.strip() or (order.resumes.task if order.resumes is not None else ""))
    if not task or not order.recall:
        return []
    most = max(CANDIDATES, 2 * order.recall)
    query = Query(task[:LONGEST_TASK], k=most, tier=Tier.TRUSTED, scopes=tuple(scopes))
    fitting = (one for one in store.recall(query) if has_to_do_with(task, one.memory))
    # Lessons have a place of their own, where the plan is told.
    return [one for one in fitting if one.memory.type != LESSON][: order.recall]


def _bounded(
    found: Mapping[Shown, Sequence[Memory | Recalled]],
    now: datetime,
    shorn: Callable[[Memory], Memory],
    notes: tuple[str, ...],
) -> Start:
    shown: dict[Shown, Sequence[Memory | Recalled]] = {}
    seen: set[str] = set()
    room = LONGEST_BRIEFING
    for how, memories in found.items():
        fresh = [_with(one, shorn(memory_in(one))) for one in memories if memory_in(one).id not in seen]
        told, room = that_fit(_told(how, fresh), now, room)
        if told:
            shown[how] = fresh[: len(told)]
        seen |= {one.memory.id for one in told}
        if len(told) < len(fresh):
            left = len(fresh) - len(told)
            notes = (*notes, f"{left} more {'is' if left == 1 else 'are'} not shown here ({how}): ask with `recall`.")
    return Start(shown, notes)


def memory_in(one: Memory | Recalled) -> Memory:
    """The memory, however it was found."""
    return one.memory if isinstance(one, Recalled) else one


def _with(one: Memory | Recalled, memory: Memory) -> Memory | Recalled:
    return replace(one, memory=memory) if isinstance(one, Recalled) else memory


_WHY: Mapping[str, str] = {
    "handoff": "handed on to you",
    "pinned": "pinned",
    "state": "how the last run of this session ended",
}


def _told(how: Shown, memories: Sequence[Memory | Recalled]) -> list[Told]:
    longest = LONGEST_HANDOFF if how == "handoff" else LONGEST
    return [
        Told(memory_in(one), _WHY.get(how) or (", ".join(one.why[:6]) if isinstance(one, Recalled) else ""), longest)
        for one in memories
    ]


def _state(last: LastRun, left: Memory | None, now: datetime) -> str:
    """What the journal knows of the session's last run. None of it is anybody's text: that waits to be asked for."""
    told = [f"The last run of this session ended as {last.status} {age(last.ended_at, now)} ago"]
    told.append(f"it changed {last.changed_files} file{'' if last.changed_files == 1 else 's'}")
    if last.verified is not None:
        told.append("its verification passed" if last.verified else "its verification failed")
    if last.pending:
        told.append(f"it had {last.pending} step{'' if last.pending == 1 else 's'} of its plan left")
    where = ""
    if left is not None and left.tier is not Tier.TRUSTED:
        where = f" Its summary is {left.id}, in quarantine: read it with `reference` if you need it."
    return f"{', '.join(told)}.{where}"
