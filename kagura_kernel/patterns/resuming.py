"""What a run that goes on from another one may do again, what is left for it, and what of its files is laid out. Pure.

A finished step that may have changed something outside of its box is not carried out a second time by itself: the same
call gets the earlier result, once, and is carried out when it is made again. A step that had begun outside and of which
nobody knows the end is a person's decision. What happened in the box alone is done again, but for a brain that makes
the same calls in the same order: their changes lie in the workspace already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.domain.patterns import Step
from kagura_kernel.patterns.steps import same

HIDDEN = "(not recorded"
"""How an argument begins that the journal does not hold: two of them are never the same."""

NO_MONEY = 0.005
"""USD; below that a budget counts as spent."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What is to happen to a call."""

    # `done`: answer with the earlier result; `doubtful`: ask a person first; `anew`: carry it out
    what: Literal["anew", "done", "doubtful"]
    step: Step | None = None  # The earlier step, but for `anew`


ANEW = Judged("anew")


@dataclass(slots=True)
class Guard:
    """Judges the calls of one run, each once and in their order."""

    finished: Sequence[Step]  # What was done before, the oldest first; not what was lost with its box
    doubtful: Sequence[Step] = ()  # What had begun
    # Whether its calls are compared with the steps in their order: until it makes one that is another
    in_order: bool = True
    # The step that such a brain would make next: the first one for a brain that starts over, the last one for one that
    # goes on with its own conversation, since that may not have heard of its end
    next: int = 0
    _used: set[int] = field(default_factory=set)
    _asked: set[str] = field(default_factory=set)

    def judge(self, call: Step) -> Judged:
        """What is to happen to this call; `call` is as the journal has it."""
        if not call.effects or _hides(call):
            return ANEW
        if self.in_order:
            index = self._first_of_order()
            if index is not None and same(self.finished[index], call):
                self.next = index + 1
                return self._done(index)
            # From here on it goes its own way, and may well want to run the tests once more.
            self.in_order = False
        for index, step in enumerate(self.finished):
            if step.outside and index not in self._used and same(step, call):
                return self._done(index)
        for step in self.doubtful:
            if step.outside and step.call_id not in self._asked and same(step, call):
                self._asked.add(step.call_id)
                return Judged("doubtful", step)
        return ANEW

    def _first_of_order(self) -> int | None:
        """The next step that a brain which starts over would make; none when all are made."""
        for index in range(self.next, len(self.finished)):
            step = self.finished[index]
            if step.effects and index not in self._used and not _hides(step):
                return index
        return None

    def _done(self, index: int) -> Judged:
        self._used.add(index)
        return Judged("done", self.finished[index])


def _hides(step: Step) -> bool:
    return any(isinstance(value, str) and value.startswith(HIDDEN) for value in step.arguments.values())


def left_usd(budget: float | None, spent: float | None) -> float | None:
    """What is left of a budget: None where there is no limit, 0 where nothing is, or nobody knows what was spent."""
    if budget is None:
        return None
    if spent is None:
        return 0.0
    left = budget - spent
    return 0.0 if left < NO_MONEY else left


@dataclass(frozen=True, slots=True)
class Restoring:
    """What becomes of the changes of a checkpoint."""

    lay: tuple[FileChange, ...] = ()  # Those to lay into the fresh box
    there: tuple[str, ...] = ()  # Paths that are in the project already
    conflicts: tuple[str, ...] = ()  # Paths that changed in the project meanwhile: the project's stay
    lost: tuple[str, ...] = ()  # Paths of which nothing was kept


def restoring(changes: Sequence[FileChange], now: Callable[[str], str]) -> Restoring:
    """Compare what was changed with the project as it is.

    Args:
        changes: Of the checkpoint.
        now: A path to the hash of what lies there in the project; empty for nothing.
    """
    lay: list[FileChange] = []
    there: list[str] = []
    conflicts: list[str] = []
    lost: list[str] = []
    for change in changes:
        if change.state == "protected":
            lost.append(change.path)
        elif (here := now(change.path)) == change.new_sha256 != change.old_sha256:
            there.append(change.path)
        elif here != change.old_sha256:
            conflicts.append(change.path)
        else:
            lay.append(change)
    return Restoring(tuple(lay), tuple(there), tuple(conflicts), tuple(lost))
