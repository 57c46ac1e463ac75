"""A run's steps, folded from its rows, and which of them a run that goes on from it may do again. Pure.

The journal is the truth about steps: it has each one before its brain hears of it, and after the last checkpoint too.

A finished step that may have changed something outside of its box is not carried out a second time by itself: the same
call gets the earlier result, once, and is carried out when it is made again. A step that had begun outside and of which
nobody knows the end is a person's decision. What happened in the box alone is done again, but for a brain that makes
the same calls in the same order: their changes lie in the workspace already.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from kagura_kernel.domain.approvals import ApprovalKind, Verdict
from kagura_kernel.domain.events import (
    ApprovalDecided,
    ApprovalRequested,
    EgressDecided,
    Event,
    LeaseUsed,
    PluginCalled,
    RunGranted,
    ToolCalled,
    ToolFinished,
)
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.domain.patterns import Step

EARLIER = "earlier"
"""The route of a result that was not made anew: another run had done this step, and its result is repeated."""

BEGUN_IN = "begun_in"
"""The argument of the question whether a step is to be done again: the run that had begun it."""

KINDS = (
    *("tool.called", "tool.finished", "approval.requested", "approval.decided"),
    *("plugin.called", "lease.used", "egress.decided", "run.granted"),
)
"""Rows that a fold needs."""

HANDS_ON = "delegate"
"""The tool that has other runs work."""

_LOOKS = frozenset({"read_file", "list_files", "glob", "grep", "skill", "recall", "reference", "plan"})
_SHELLS = frozenset({"bash", "python"})


@dataclass(slots=True)
class Fold:
    """One run's rows, in their order."""

    run_id: str  # Whose
    looks: Collection[str] = _LOOKS  # Names of tools that change nothing
    plugins: bool = False  # Whether its box could call plugins: then a call that did not end may have
    full_control: bool = False  # Whether the host's commands were carried out without asking
    # The steps that have ended, the first one first; what was answered with an earlier result is none
    finished: list[Step] = field(default_factory=list)
    begun: dict[str, Step] = field(default_factory=dict)  # Those that have not, by their call
    _called: dict[str, int] = field(default_factory=dict)
    _asked: dict[str, str] = field(default_factory=dict)
    _host: dict[str, bool] = field(default_factory=dict)
    _credentials: bool = False

    def add(self, events: Iterable[Event]) -> Fold:
        """Take further rows."""
        for event in events:
            self._one(event)
        return self

    def in_order(self) -> list[Step]:
        """The finished steps as they were begun: of several at once the last may have ended first."""
        return sorted(self.finished, key=lambda step: self._called[step.call_id])

    def doubtful(self) -> tuple[Step, ...]:
        """Steps that had begun and did not end, of which nobody knows what they did outside of the box."""
        return tuple(replace(step, outside=self._may_have_left(step)) for step in self.begun.values() if step.effects)

    def _one(self, event: Event) -> None:
        match event:
            case ToolCalled():
                effects = event.tool not in self.looks
                self._called[event.call_id] = len(self._called)
                self.begun[event.call_id] = Step(
                    event.call_id,
                    event.tool,
                    event.arguments,
                    effects=effects,
                    outside=event.tool == HANDS_ON,
                    run_id=self.run_id,
                )
            case ToolFinished():
                self._ended(event)
            case ApprovalRequested(subject=ApprovalKind.HOST_COMMAND) if event.call_id:
                self._asked[event.approval_id] = event.call_id
                self._host[event.call_id] = False
            case ApprovalDecided() if event.approval_id in self._asked:
                self._host[self._asked[event.approval_id]] = event.verdict == Verdict.ALLOW
            case PluginCalled() | LeaseUsed() | EgressDecided(allowed=True):
                # Which of several calls it was is not told, so it may have been each of them.
                self.begun = {call: replace(step, outside=True) for call, step in self.begun.items()}
            case RunGranted():
                self._credentials = bool(event.credentials)

    def _ended(self, event: ToolFinished) -> None:
        step = self.begun.pop(event.call_id, None)
        if step is None or event.route == EARLIER:
            return
        outside = step.outside or event.route == "host" or self._host.get(event.call_id, False)
        self.finished.append(
            replace(
                step,
                result=event.text,
                is_error=event.is_error,
                outside=step.effects and outside,
                number=len(self.finished) + 1,
            )
        )

    def _may_have_left(self, step: Step) -> bool:
        if step.outside or step.tool not in _SHELLS:
            # A server of its own in the box may have done anything that its hosts allow.
            return step.outside
        if step.call_id in self._host or step.arguments.get("host"):
            # What the host does without a question changes nothing, unless everything was handed over.
            return self._host.get(step.call_id, False) or self.full_control
        return self._credentials or self.plugins or self.full_control


def same(one: Step, other: Step) -> bool:
    """Whether two steps are the same call, as the journal has both."""
    return one.tool == other.tool and _canonical(one.arguments) == _canonical(other.arguments)


def _canonical(arguments: Mapping[str, Any]) -> str:
    # A reason says nothing about what is done.
    told = {name: value for name, value in arguments.items() if name != "reason"}
    return json.dumps(told, sort_keys=True, default=str)


def shorten(text: str, most: int) -> str:
    """At most so many characters: the beginning and the end."""
    if len(text) <= most:
        return text
    half = max(1, (most - 24) // 2)
    return f"{text[:half]}\n… {len(text) - 2 * half:,} more …\n{text[-half:]}"


def bounded(steps: Iterable[Step], *, most: int = 24_000, each: int = 1_000) -> tuple[Step, ...]:
    """Steps as a checkpoint keeps them: all of them, the later ones in more words.

    Args:
        steps: The oldest first.
        most: Characters of all arguments and results together, beside a little for each step.
        each: Characters of one result, and of one argument.
    """
    kept: list[Step] = []
    for step in reversed(list(steps)):
        room = each if most > 0 else 60
        short = replace(step, arguments=_short(step.arguments, room), result=shorten(step.result, room))
        most -= len(json.dumps(dict(short.arguments), default=str)) + len(short.result)
        kept.append(short)
    return tuple(reversed(kept))


def _short(arguments: Mapping[str, object], room: int) -> dict[str, object]:
    return {name: _short_value(value, room) for name, value in arguments.items()}


def _short_value(value: object, room: int) -> object:
    if isinstance(value, bool | int | float) or value is None:
        return value
    return shorten(value if isinstance(value, str) else json.dumps(value, default=str), room)


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
