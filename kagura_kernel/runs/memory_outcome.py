"""The summary that a run leaves for later ones: what the engine measured and, apart from it, what the agent said. Pure.

The two are two memories, each of one author. What was measured may become trusted by a verification that the agent
could not touch; what the agent said is its own word whatever a test says of its work, and waits for a person.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kagura_kernel.domain.cost import Cost
from kagura_kernel.domain.events import RunVerified
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.memory import MOST_SUMMARY, NOTE, OUTCOME, Author, Draft, Source
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.memory.store import keepable
from kagura_kernel.runs.order import RunOrder
from kagura_kernel.runs.run_end import Ending
from kagura_kernel.tools.fences import shorten_middle

SUMMARY = "summary"
"""The tag of what an agent said at the end."""

LONGEST_TASK = 2_000
LONGEST_WORDS = 6_000
MOST_FILES = 50
"""Names of changed files that are kept."""
MOST_TOLD = 12
"""Of them, those that its text names."""
MOST_IDS = 200

_ASSENT = re.compile(r"ok(?:ay)?[.!]*", re.IGNORECASE)
_NO_TAG = re.compile(r"[^a-z0-9]+")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.+@-]{1,40}(/[A-Za-z0-9_.+@-]{1,40}){0,7}", re.ASCII)
"""A path that says nothing but where something lies: an agent chooses the names of what it makes."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What is known of a run at its end."""

    ending: Ending  # How it ended
    verified: RunVerified | None  # What its verification said; None where it has none
    cost: Cost
    seconds: float  # How long it took
    changes: Sequence[FileChange] = ()  # What it changed
    memories: Sequence[str] = ()  # Ids of what its brain was shown
    began: bool = True  # Whether it began to think: one that was denied at its plan did not, and has nothing to tell
    # Whether it called a tool, or stands between others: was handed its work, goes on from where another stopped, or
    # follows one that left something
    acted: bool = True

    @property
    def taught(self) -> bool:
        """Whether there is anything to learn from it.

        There is not where it never began, where a person stopped it, where it failed before it had said, changed or
        proved anything, and where it did nothing but answer: the journal says all that there is to say of these. What
        was shown a memory leaves something, so that what grows from its answer is erased with that memory.
        """
        if not self.began or self.ending.status == "killed":
            return False
        did = self.changes or self.verified
        if self.ending.status == "done":
            return bool(did or self.acted or self.memories)
        return self.ending.status != "failed" or bool(self.ending.text or did)


def outcome_of(order: RunOrder, ended: Ended, *, scope: str) -> Draft:
    """What the engine measured, for the memory.

    Args:
        order: The run's.
        ended: What is known.
        scope: Whom it concerns.
    """
    status, task, agent = ended.ending.status, keepable(order.task).strip() or "(no words of its own)", agent_of(order)
    words = (status, *(_word(one) for one in (agent, ended.ending.error_code)))
    return Draft(
        "\n".join(_lines(order, ended, task)),
        Source(Author.ENGINE, agent, order.run_id),
        type=OUTCOME,
        summary=shorten(f"{status}: {' '.join(task.split())}", MOST_SUMMARY),
        tags=tuple(word for word in words if word),
        importance=0.3,
        scope=scope,
        data=_data(order, ended),
    )


def words_of(order: RunOrder, ended: Ended, *, scope: str) -> Draft | None:
    """What the agent said at the end; None where that was nothing, or no more than `ok`."""
    # A character that no memory can hold must not keep what was measured from being judged.
    said = keepable(ended.ending.text).strip()
    if not said or _ASSENT.fullmatch(said):
        return None
    return Draft(
        shorten_middle(said, LONGEST_WORDS),
        Source(Author.AGENT, agent_of(order), order.run_id),
        type=NOTE,
        tags=(SUMMARY,),
        importance=0.3,
        scope=scope,
    )


def agent_of(order: RunOrder) -> str:
    """Who carries a run out; empty where nobody is named."""
    return order.agent.agent.name if order.agent is not None else ""


def shorten(text: str, most: int) -> str:
    """A line of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def usd_of(cost: Cost) -> float | None:
    """What a run cost: the brain's own figure, otherwise the computed one; None where neither is known."""
    return cost.reported_usd if cost.reported_usd is not None else cost.computed_usd


def _lines(order: RunOrder, ended: Ended, task: str) -> list[str]:
    usd = usd_of(ended.cost)
    why = f" ({ended.ending.error_code})" if ended.ending.error_code else ""
    spent = "at an unknown cost" if usd is None else f"for ${usd:.4f}"
    lines = [
        f"Task: {shorten_middle(task, LONGEST_TASK)}",
        f"It ended as {ended.ending.status}{why} after {ended.seconds:.0f} s, {spent}.",
    ]
    if ended.changes:
        lines.append(f"Changed files: {_named(ended.changes)}.")
    if ended.verified is not None:
        lines.append(f"Verified by `{shorten(order.verify, 300)}`: {_verdict(ended.verified)}.")
    return lines


def _named(changes: Sequence[FileChange]) -> str:
    """The plain names among them, and how many others there are."""
    plain = [change.path for change in changes if _PLAIN_NAME.fullmatch(change.path)][:MOST_TOLD]
    others = len(changes) - len(plain)
    if not plain:
        return f"{others:,}"
    return ", ".join(plain) + (f" and {others:,} more" if others else "")


def _verdict(verified: RunVerified) -> str:
    if verified.passed:
        return "it passed"
    if verified.exit_code is not None:
        return f"it failed with exit code {verified.exit_code}"
    return f"it could not be tried ({shorten(verified.why, 200)})"


def _data(order: RunOrder, ended: Ended) -> dict[str, object]:
    data: dict[str, object] = {
        "run_id": order.run_id,
        "session_id": order.session_id,
        "status": ended.ending.status,
        "error_code": ended.ending.error_code,
        "usd": usd_of(ended.cost),
        "seconds": round(ended.seconds, 3),
        "agent": agent_of(order),
        "brain": order.brain.name if order.brain is not None else "",
        "model": order.model,
        "changed_files": len(ended.changes),
        "files": [shorten(ascii(change.path)[1:-1], 200) for change in ended.changes[:MOST_FILES]],
        "memories": list(ended.memories[:MOST_IDS]),
    }
    if order.handoff.lineage:
        data["lineage"] = list(order.handoff.lineage)
    if ended.verified is not None:
        data["verified"] = ended.verified.passed
        data["verify"] = shorten(order.verify, 300)
    return data


def _word(name: str) -> str:
    """A name as a tag; empty where nothing of it can be one."""
    word = _NO_TAG.sub("-", name.lower()).strip("-")[:48].strip("-")
    return word if word[:1].isalpha() else ""
