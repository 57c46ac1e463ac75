"""What a person is told of memories, the same in a notebook and in a terminal. Pure; texts are not escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.memory import LESSON, Edge, Memory, MemoryCounts, Neighbourhood, Recalled, Source, Tier
from kagura_kernel.render.figures import counted

if TYPE_CHECKING:
    from kagura_kernel.memory.erasure import Erasure
    from kagura_kernel.memory.lines import Imported
    from kagura_kernel.patterns.lessons import Lesson

_AGES = (
    (timedelta(days=730), timedelta(days=365), "years"),
    (timedelta(days=61), timedelta(days=30), "months"),
    (timedelta(days=2), timedelta(days=1), "days"),
    (timedelta(hours=2), timedelta(hours=1), "hours"),
    (timedelta(minutes=2), timedelta(minutes=1), "minutes"),
)
_NAMED = 5


def source_words(source: Source) -> str:
    """Where a memory comes from: `human ada`, `agent default, run-…`, `import, notes.jsonl`."""
    who = f"{source.author} {source.by}".strip()
    return ", ".join(filter(None, (who, source.run_id, source.uri)))


def tier_words(tier: Tier) -> str:
    """`trusted`, or `in quarantine`."""
    return "trusted" if tier is Tier.TRUSTED else "in quarantine"


def no_lessons(query: Sequence[str]) -> str:
    """What is said where no lesson was found."""
    if query:
        return "No lesson is known that fits. Without words all of them are listed."
    return "No lesson is known yet: a run leaves one when something goes wrong in it."


def age_words(age: timedelta) -> str:
    """`3 days`, `2 hours`, `just now`."""
    for least, unit, name in _AGES:
        if age >= least:
            return f"{age // unit:,} {name}"
    return "just now"


def memory_lines(memory: Memory, now: datetime) -> Iterator[str]:
    """One memory as a whole. What its author says is indented, so that none of it poses as a line of ours."""
    yield f"{memory.id}  {memory.type}, {tier_words(memory.tier)}"
    facts = [
        source_words(memory.source),
        f"{memory.at:%Y-%m-%d %H:%M} UTC ({age_words(now - memory.at)})",
        f"scope {memory.scope}" if memory.scope else "",
        f"tags {', '.join(memory.tags)}" if memory.tags else "",
        "pinned" if memory.pinned else "",
        f"promoted by {memory.promoted_by}" if memory.promoted_by else "",
        f"helped {memory.helped}, misled {memory.misled}" if memory.helped or memory.misled else "",
        f"until {memory.expires_at:%Y-%m-%d %H:%M} UTC" if memory.expires_at else "",
        f"forgotten {memory.forgotten_at:%Y-%m-%d %H:%M} UTC" if memory.forgotten_at else "",
    ]
    yield f"  {' · '.join(filter(None, facts))}"
    if memory.summary not in memory.text:
        yield f"    {_on_one_line(memory.summary)}"
    yield ""
    yield from _indented(memory.text)
    if memory.data:
        yield ""
        for name, value in memory.data.items():
            yield from _indented(f"{name}: {value}")


def changed_lines(act: str, memories: Sequence[Memory], prefix: str) -> Iterator[str]:
    """What was done to memories, a line for each. `prefix` is how commands begin here."""
    for memory in memories:
        yield f"{memory.id} {_now(act, memory, prefix)}: {_on_one_line(memory.summary)}"
        if act == "promote":
            # What agents are shown from now on, and not its first line alone.
            yield from (f"    {line}" for line in released_words(memory))


def released_words(memory: Memory) -> Iterator[str]:
    """All that a promotion lets agents read beyond its summary; none where that says it already."""
    if " ".join(memory.text.split()) != memory.summary:
        yield from memory.text.split("\n")
    if said := said_in(memory):
        yield f"said then: {said}"


def said_in(memory: Memory) -> str:
    """What a box or somebody said when a lesson was learned; empty for every other memory."""
    said = memory.data.get("said") if memory.type == LESSON else None
    return said if isinstance(said, str) else ""


def added_lines(memory: Memory, typed: str, prefix: str) -> Iterator[str]:
    """What was remembered, and whether it is what was typed."""
    yield from changed_lines("add", [memory], prefix)
    if memory.text != typed:
        yield "What looks like a secret was taken out of it."


def _now(act: str, memory: Memory, prefix: str) -> str:
    waits = "; no run is shown it before it is promoted" if memory.tier is not Tier.TRUSTED else ""
    return {
        "promote": "is trusted",
        "demote": "is in quarantine",
        "pin": f"is pinned{waits}",
        "unpin": "is not pinned",
        "forget": f"is forgotten, until `{prefix}memory restore {memory.id}`",
        "restore": "is remembered again",
        "add": "is remembered",
    }[act]


def erasure_lines(erasure: Erasure, named: Sequence[str], command: str) -> Iterator[str]:
    """What an erasure would remove. What is not among the ids that were `named` grew from them; `command` does it."""
    yield f"This would erase {erased_counts(erasure)}, for good:"
    for memory in erasure.memories:
        grown = "" if memory.id in named else ", came from it"
        yield f"  {memory.id}  {memory.type}, {tier_words(memory.tier)}{grown}: {_on_one_line(memory.summary)}"
    yield from _going_lines(erasure, "")
    yield f"`{command}` does it."


def erased_lines(erasure: Erasure) -> Iterator[str]:
    """What an erasure has removed."""
    yield f"Erased: {erased_counts(erasure)}. The journal keeps that it was done, and nothing of what they said."
    if erasure.runs:
        yield "A brain still knows what it was told earlier in its session; `%%kagura --new` begins afresh."
    yield from _going_lines(erasure, ", and then erase the same ids once more")


def erased_counts(erasure: Erasure) -> str:
    """`2 memories, 3 edges, 1 checkpoint of run-…`."""
    runs = ", ".join(erasure.runs[:_NAMED]) + (f" and {len(erasure.runs) - _NAMED} more" * (len(erasure.runs) > _NAMED))
    parts = [
        counted(len(erasure.ids), "memory", "memories"),
        counted(erasure.edges, "edge"),
        counted(erasure.checkpoints, "checkpoint"),
    ]
    return ", ".join(parts) + (f" (of {runs})" if runs else "")


def _going_lines(erasure: Erasure, then: str) -> Iterator[str]:
    if erasure.going:
        runs = ", ".join(erasure.going[:_NAMED])
        yield f"{runs} still goes on and has seen it, so that what it stores may hold it again. Stop it first{then}."


def imported_line(found: Imported, *, trusting: bool, prefix: str = "") -> str:
    """What an import gave: what is new, and what was here already and stayed as it was."""
    new, here = found.new, len(found.here)
    held = counted(new, "new memory", "new memories") if here else counted(new, "memory", "memories")
    tier = "" if trusting or not new else "; those that are new are in quarantine until somebody promotes them"
    stays = "stays as it is" if here == 1 else "stay as they are"
    already = f" {here:,} already here, which {stays}." if here else ""
    left = (
        f" {counted(found.left_out, 'edge')} left out: without --trust a file says nothing for memories that are here "
        "already."
    )
    shorn = f" What looks like a secret was taken out of {found.shorn:,}." if found.shorn else ""
    told = f"{held} and {counted(found.edges, 'edge')} imported{tier}.{already}{shorn}{left if found.left_out else ''}"
    return f"{told}{_doubted_words(found.doubted, prefix)}" if found.doubted else told


def imported_record(found: Imported) -> dict[str, Any]:
    """The same for JSON; `memories` are all that the file names, `here` those of them that were here before."""
    return {
        "memories": list(found.memories),
        "new": found.new,
        "here": list(found.here),
        "in_quarantine": list(found.doubted),
        "redacted": found.shorn,
        "edges": found.edges,
        "left_out": found.left_out,
    }


def _doubted_words(doubted: Sequence[str], prefix: str) -> str:
    """What a file cannot do for memories that were here before it."""
    more = len(doubted) - _NAMED
    named = " ".join(doubted[:_NAMED])
    others = f" and {more:,} more: `{prefix}memory list --tier quarantine`" if more > 0 else ""
    which = f"{len(doubted):,} of them are" if len(doubted) > 1 else "1 of them is"
    return (
        f" {which} in quarantine still: --trust promotes nothing that is here already. Look at each with "
        f"`{prefix}memory show`, and say that it may be trusted with `{prefix}memory promote {named}`{others}."
    )


def counts_line(counts: MemoryCounts, where: str) -> str:
    """How much is remembered, and where."""
    held = counted(counts.memories, "memory", "memories")
    return (
        f"{held}, {counts.quarantined:,} of them in quarantine; {counts.forgotten:,} forgotten; "
        f"{counted(counts.edges, 'edge')}. They are kept in {where}."
    )


def edge_words(edge: Edge, memory_id: str) -> str:
    """How the other end of an edge has to do with a memory: `prevents`, `is prevented by`."""
    if edge.source == memory_id:
        return edge.type.replace("-", " ")
    return {
        "prevents": "is prevented by",
        "fixes": "is fixed by",
        "supports": "is supported by",
        "contradicts": "is contradicted by",
        "follows": "is followed by",
        "came-from": "led to",
    }.get(edge.type, edge.type)


def memory_record(memory: Memory) -> dict[str, Any]:
    """A memory for JSON, with every field."""
    return asdict(memory)


def recalled_record(found: Recalled) -> dict[str, Any]:
    """What was found, for JSON."""
    return {"score": round(found.score, 4), "why": list(found.why), **memory_record(found.memory)}


def lesson_record(lesson: Lesson) -> dict[str, Any]:
    """A lesson for JSON."""
    failure = {name: value for name, value in asdict(lesson.failure).items() if name != "kind"}
    return {
        **failure,
        "trusted_fix": lesson.trusted_fix,
        "task": lesson.task,
        "seen": lesson.seen,
        "prevents": list(lesson.prevents),
        "fixes": list(lesson.fixes),
        "memory": memory_record(lesson.memory),
    }


def neighbourhood_record(found: Neighbourhood) -> dict[str, Any]:
    """What lies around a memory, for JSON."""
    return {"memories": [memory_record(one) for one in found.memories], "edges": [asdict(one) for one in found.edges]}


def erasure_record(erasure: Erasure, *, done: bool) -> dict[str, Any]:
    """What an erasure would remove or has removed, for JSON."""
    return {
        "erased": done,
        "memories": list(erasure.ids),
        "edges": erasure.edges,
        "checkpoints": erasure.checkpoints,
        "runs": list(erasure.runs),
        "going": list(erasure.going),
    }


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _indented(text: str) -> Iterator[str]:
    return (f"    {line}" for line in text.splitlines())
