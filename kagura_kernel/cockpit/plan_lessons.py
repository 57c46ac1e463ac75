"""What `with lessons` would trust, in words: read from the memory when somebody is asked; no journal holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from kagura_kernel.cockpit.memory_words import source_words
from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.domain.errors.memory import MemoryUnknown
from kagura_kernel.domain.memory import LESSON, Memory, Tier
from kagura_kernel.patterns.lessons import MOST_LESSONS, Lesson, lesson_of, one_line, quoted

if TYPE_CHECKING:
    from kagura_kernel.memory.store import MemoryStore


def has_lessons(arguments: Mapping[str, object]) -> bool:
    """Whether the question with these arguments offers to trust lessons."""
    return bool(_ids(arguments, "lessons"))


class TellsLessons(Protocol):
    """A desk at which memories are read; as `MemoryDesk`."""

    def plan_lessons(self, arguments: Mapping[str, object]) -> list[str]:
        """What a plan's question would have trusted, as lines."""
        ...


def lessons_told(memory: Callable[[], TellsLessons], arguments: Mapping[str, object]) -> list[str]:
    """The same as `MemoryDesk.plan_lessons`; what cannot be told is said in place of it. Blocks.

    Whoever has to answer a question is not kept from it by a memory that is out of reach.
    """
    if not has_lessons(arguments):
        return []
    try:
        return memory().plan_lessons(arguments)
    except KaguraError as error:
        return [f"What the lessons say cannot be told now: {error.message}"]


def plan_lessons(store: MemoryStore, arguments: Mapping[str, object]) -> Iterator[str]:
    """The lessons of a plan's question, one line each part; their words are quoted, bounded, and hold nothing unseen.

    Args:
        store: The memory.
        arguments: The question's, which name lessons and fixes.

    Raises:
        MemoryUnavailable: the memory cannot be reached.
    """
    ids = _ids(arguments, "lessons")[:MOST_LESSONS]
    if ids:
        yield "What the lessons say, in the words of those who left them:"
    fixes = [memory for ident in _ids(arguments, "fixes")[:MOST_LESSONS] if (memory := _found(store, ident))]
    for ident in ids:
        memory = _found(store, ident)
        if memory is None or memory.type != LESSON:
            yield f"  {one_line(ident)} is not in the memory any more."
        else:
            yield from _lines(lesson_of(store, memory), [one for one in fixes if one.data.get("lesson") == ident])


def _lines(lesson: Lesson, fixes: list[Memory]) -> Iterator[str]:
    memory = lesson.memory
    seen = f"seen {lesson.seen} times" if lesson.seen > 1 else "seen once"
    yield f"  {memory.id}: {_mark(memory)}, {seen}, from {one_line(source_words(memory.source))}"
    yield f"    what went wrong: {_words(lesson.failure.trigger)}"
    if lesson.failure.said:
        yield f"    what was said then: {_words(lesson.failure.said)}"
    for fix in fixes:
        whose = f"({_mark(fix)}, from {one_line(source_words(fix.source))})"
        yield f"    what mended it: {_words(fix.data.get('fix'))} {whose}"
    if not fixes and (first := memory.data.get("fix")):
        yield f"    what mended it: {_words(first)}"


def _mark(memory: Memory) -> str:
    return "trusted" if memory.tier is Tier.TRUSTED else "NOT trusted"


def _words(found: object) -> str:
    return quoted(one_line(found if isinstance(found, str) else ""))


def _found(store: MemoryStore, ident: str) -> Memory | None:
    try:
        return store.reference(ident)
    except MemoryUnknown:
        return None


def _ids(arguments: Mapping[str, object], name: str) -> list[str]:
    found = arguments.get(name)
    return [one for one in found if isinstance(one, str)] if isinstance(found, list | tuple) else []
