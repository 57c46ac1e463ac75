"""What a message in a thread asks for, by its structure and by how the thread's session stands; never by its prose.

A message is a command, an answer, a word about the run that goes on, or a task. Only what structure leaves open is
`Unclear`, and only that may be put to a brain, whose answer never approves or kills anything. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest

YES = frozenset({"yes", "y", "ok", "approve", "allow"})
NO = frozenset({"no", "n", "deny"})
STATUS = frozenset({"status"})
STOP = frozenset({"stop", "kill", "abort"})
"""Words that mean something when they are all that was said."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a session stands when a message comes.

    Attributes:
        running: The run that goes on; empty for none.
        waiting: Approvals of the session that wait, the oldest first.
        ran: Whether it had a run before.
    """

    running: str = ""
    waiting: Sequence[ApprovalRequest] = ()
    ran: bool = False


@dataclass(frozen=True, slots=True)
class TaskSaid:
    """A task: the first of the session, or one that goes on from what was said before."""

    task: str
    goes_on: bool


@dataclass(frozen=True, slots=True)
class StatusAsked:
    """Somebody wants to know how it stands."""


@dataclass(frozen=True, slots=True)
class AnswerSaid:
    """An answer to the one approval that it can be meant for; the text is for a question, or a remark."""

    approval_id: str
    allow: bool
    text: str = ""


@dataclass(frozen=True, slots=True)
class StopSaid:
    """The run that goes on is to end."""

    run_id: str


@dataclass(frozen=True, slots=True)
class CommandSaid:
    """A command, without its first character; the one list of commands says the rest."""

    line: str


@dataclass(frozen=True, slots=True)
class Unclear:
    """It could be meant in several ways, or in none.

    Attributes:
        text: What was said.
        why: `which approval`: several wait for such an answer; `nothing runs`: there is nothing to stop; `while it
            runs`: a task, or a word to the run that goes on; `nothing said`.
        choices: Ids of what it may be about.
    """

    text: str
    why: Literal["which approval", "nothing runs", "while it runs", "nothing said"]
    choices: tuple[str, ...] = ()


Meaning = TaskSaid | StatusAsked | AnswerSaid | StopSaid | CommandSaid | Unclear


def understand(text: str, standing: Standing) -> Meaning:
    """What a message asks for.

    Args:
        text: As it was written, without a mention of us.
        standing: How its session stands.
    """
    said = text.strip()
    word = said.casefold().rstrip(".!")
    if not said:
        return Unclear(text, "nothing said")
    if said.startswith("/") and len(said) > 1 and said[1].isalpha():
        return CommandSaid(said[1:])
    if word in STATUS:
        return StatusAsked()
    if word in STOP:
        return StopSaid(standing.running) if standing.running else Unclear(said, "nothing runs")
    return _answer(said, word, standing) or _task(said, standing)


def _answer(said: str, word: str, standing: Standing) -> AnswerSaid | Unclear | None:
    """What answers an approval; None where nothing waits for such a text."""
    if word in YES | NO:
        # A word that gives power is never guessed at: it is about the only one that waits, or it is a question.
        waiting = [one for one in standing.waiting if one.kind is not ApprovalKind.QUESTION] or list(standing.waiting)
        if len(waiting) == 1:
            is_question = waiting[0].kind is ApprovalKind.QUESTION
            return AnswerSaid(waiting[0].id, allow=is_question or word in YES, text=said if is_question else "")
        return Unclear(said, "which approval", tuple(one.id for one in waiting)) if waiting else None
    questions = [one for one in standing.waiting if one.kind is ApprovalKind.QUESTION]
    if len(questions) == 1:
        return AnswerSaid(questions[0].id, allow=True, text=said)
    return Unclear(said, "which approval", tuple(one.id for one in questions)) if questions else None


def _task(said: str, standing: Standing) -> TaskSaid | Unclear:
    if standing.running:
        return Unclear(said, "while it runs", (standing.running,))
    return TaskSaid(said, goes_on=standing.ran)
