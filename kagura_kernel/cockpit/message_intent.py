"""What a message in a thread asks for, by its structure and by how the thread's session stands; never by its prose.

A message is a command, an answer, a word about the run that goes on, or a task. What structure leaves open is
`Unclear`, or `Ambiguous` where its prose may say what it is: only that may be put to a brain, whose answer never
approves or kills anything. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Literal

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest
from kagura_kernel.domain.late_dataclass import dataclass

YES = frozenset({"yes", "y", "ok", "approve", "allow"})
NO = frozenset({"no", "n", "deny"})
STATUS = frozenset({"status"})
STOP = frozenset({"stop", "kill", "abort"})
GO_ON = frozenset({"resume"})
"""Words that mean something when they are all that was said."""

COMMANDS = ("approve", "apply", "changes", "deny", "discard", "help", "instead", "kill", "resume", "status", "undo")
"""What a chat has of the one list of commands."""

_AT_ONCE = frozenset({"approve", "deny", "kill", "status"})
_DECIDE = frozenset({"approve", "deny"})


@dataclass(frozen=True, slots=True)
class SessionState:
    """How a session stands when a message comes."""

    running: str = ""  # The run that goes on; empty for none
    # Approvals of the session that wait and stood in the thread when it was written, the oldest first
    waiting: Sequence[ApprovalRequest] = ()
    # Those that wait too, and whose post came later or may not be out: no word alone is meant for them
    unseen: Sequence[ApprovalRequest] = ()
    ran: bool = False  # Whether it had a run before


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
class SentenceSaid:
    """Something that the run that goes on is to know."""

    run_id: str
    text: str


@dataclass(frozen=True, slots=True)
class CommandSaid:
    """A command, without its first character; the one list of commands says the rest."""

    line: str


@dataclass(frozen=True, slots=True)
class Unclear:
    """It could be meant in several ways, or in none."""

    text: str  # What was said
    # `which approval`: several wait for such an answer; `which option`: a question waits, and this names none of its
    # answers; `asked later`: what waits was asked after it was written; `nothing waits`: there is nothing to answer;
    # `nothing runs`: there is nothing to stop; `while it runs`: to go on from a run that still goes on; `nothing said`
    why: Literal[
        "which approval",
        "which option",
        "asked later",
        "nothing waits",
        "nothing runs",
        "while it runs",
        "nothing said",
    ]
    choices: tuple[str, ...] = ()  # Ids of what it may be about


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A text where something waits for an answer, and which is none of those that were offered."""

    text: str
    run_id: str  # The run that goes on
    questions: tuple[ApprovalRequest, ...] = ()  # What a text may answer; none where what waits is for a yes or a no


Meaning = TaskSaid | StatusAsked | AnswerSaid | StopSaid | SentenceSaid | CommandSaid | Unclear | Ambiguous


def waits_for_nobody(text: str) -> bool:
    """Whether a message is, by its words, about what goes on: it does not wait for what was said before it."""
    said = text.strip()
    if said.startswith("/"):
        return _verb(said) in _AT_ONCE
    return said.casefold().rstrip(".!") in YES | NO | STATUS | STOP


def understand(text: str, standing: SessionState, *, prose: bool = False) -> Meaning:
    """What a message asks for.

    Args:
        text: The message.
        standing: How its session stands.
        prose: Whether somebody can be asked what prose means; otherwise the likeliest is taken.
    """
    said = text.strip()
    word = said.casefold().rstrip(".!")
    if not said:
        return Unclear(text, "nothing said")
    if verb := _verb(said):
        is_bare = verb in _DECIDE and said[1:].casefold() == verb
        return _power(said, standing, allow=verb == "approve") if is_bare else CommandSaid(said[1:])
    if word in STATUS:
        return StatusAsked()
    if word in STOP:
        return StopSaid(standing.running) if standing.running else Unclear(said, "nothing runs")
    if word in GO_ON and not standing.running:
        return CommandSaid(word)
    return (prose and _open(said, word, standing)) or _answer(said, word, standing) or _task(said, word, standing)


def _open(said: str, word: str, standing: SessionState) -> Ambiguous | None:
    if not standing.running or not _is_open(said, word, standing):
        return None
    questions = tuple(one for one in standing.waiting if one.kind is ApprovalKind.QUESTION)
    return Ambiguous(said, standing.running, questions)


def _is_open(said: str, word: str, standing: SessionState) -> bool:
    """Whether something waits, and only the prose of a text could say whether it is meant for that."""
    questions = [one for one in standing.waiting if one.kind is ApprovalKind.QUESTION]
    if word in YES | NO | GO_ON or not standing.waiting:
        return False
    if len(questions) == 1 and len(standing.waiting) == 1:
        # To a question without offers every text is an answer; a number names one, or none.
        options = questions[0].options
        return bool(options) and chosen(said, options) == said and said not in options
    return not (questions and said.isdigit())


def chosen(said: str, options: Sequence[str]) -> str | None:
    """The answer that is meant: an option by its words or its number, or the text itself; None for a number of none."""
    for option in options:
        if said.casefold() == option.strip().casefold():
            return option
    if options and said.isascii() and said.isdigit():
        number = int(said[:9])
        return options[number - 1] if 0 < number <= len(options) else None
    return said


def _verb(said: str) -> str:
    """The command that a message gives; empty for none, since a task may begin with a path."""
    if not said.startswith("/"):
        return ""
    word, *rest = said[1:].split(None, 1) or [""]
    verb = word.casefold()
    if said[1:2].isspace() or "/" in verb or not verb[:1].isalpha():
        return ""
    # A word that stands alone is nobody's task, and one that is nearly a command is a slip.
    return verb if not rest or get_close_matches(verb, COMMANDS, n=1) else ""


def _answer(said: str, word: str, standing: SessionState) -> AnswerSaid | Unclear | None:
    """What answers an approval; None where nothing waits for such a text."""
    questions = [one for one in standing.waiting if one.kind is ApprovalKind.QUESTION]
    if word in YES | NO and not (questions and len(questions) == len(standing.waiting)):
        return _power(said, standing, allow=word in YES)
    if len(questions) > 1:
        return Unclear(said, "which approval", tuple(one.id for one in questions))
    if questions:
        answer = chosen(said, questions[0].options)
        if answer is None:
            return Unclear(said, "which option", (questions[0].id,))
        return AnswerSaid(questions[0].id, allow=True, text=answer)
    later = tuple(one.id for one in standing.unseen if one.kind is ApprovalKind.QUESTION)
    return Unclear(said, "asked later", later) if later else None


def _power(said: str, standing: SessionState, *, allow: bool) -> AnswerSaid | Unclear:
    """What a yes or a no is about that gives power: the only one that waits and was seen, and never a guess."""
    waiting = [one for one in standing.waiting if one.kind is not ApprovalKind.QUESTION]
    questions = [one for one in standing.waiting if one.kind is ApprovalKind.QUESTION]
    if questions and not waiting:
        if allow:
            return Unclear(said, "which option", tuple(one.id for one in questions))
        waiting = questions
    if len(waiting) == 1:
        return AnswerSaid(waiting[0].id, allow)
    if waiting:
        return Unclear(said, "which approval", tuple(one.id for one in waiting))
    later = tuple(one.id for one in standing.unseen)
    return Unclear(said, "asked later", later) if later else Unclear(said, "nothing waits")


def _task(said: str, word: str, standing: SessionState) -> TaskSaid | SentenceSaid | Unclear:
    if standing.running and word in GO_ON:
        return Unclear(said, "while it runs", (standing.running,))
    if standing.running:
        return SentenceSaid(standing.running, said)
    return TaskSaid(said, goes_on=standing.ran)
