"""Memories as a person handles them: found, read, trusted, forgotten, and erased with all that grew from them.

What a person types, or a program says, is made a question to the memory or a note for it; the working directory says
what this project is. Nothing here waits for a person or starts a box. Every change is a `MemoryChanged` in the journal,
which names memories and never holds what they say.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kagura_kernel.cockpit.memory_words import source_words
from kagura_kernel.cockpit.next_commands import further
from kagura_kernel.cockpit.run_names import working_directory
from kagura_kernel.domain.clock import Clock, read_time
from kagura_kernel.domain.errors import KaguraError, UsageError
from kagura_kernel.domain.errors.memory import MemoryUnknown
from kagura_kernel.domain.events.memory import MemoryAct, MemoryChanged
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.memory import (
    LESSON,
    Author,
    Draft,
    Memory,
    MemoryCounts,
    Neighbourhood,
    Query,
    Recalled,
    Source,
    Tier,
    project_scope,
)
from kagura_kernel.journal.checkpoints import FOLDER
from kagura_kernel.memory.store import MOST_K
from kagura_kernel.patterns.lessons import MOST_LESSONS, Lesson, lesson_of, lessons, one_line, quoted

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.kit.redaction.redactor import Redactor
    from kagura_kernel.memory.erasure import Erasure
    from kagura_kernel.memory.lines import Imported
    from kagura_kernel.memory.store import MemoryStore


EVERYBODY = "everybody"
"""How the scope of what concerns everybody is typed."""

THIS_PROJECT = "project"
"""How the scope of the project in the working directory is typed."""

_AGE = re.compile(r"\d+[smhd]")


def query_of(values: Mapping[str, Any], now: datetime) -> Query:
    """What the values of `recall` or `memory list` ask for.

    Raises:
        UsageError: the time makes no sense.
    """
    return Query(
        " ".join(values.get("query", ())),
        k=values["k"],
        types=tuple(values["type"]),
        tags=tuple(values["tag"]),
        all_tags=values["all_tags"],
        tier=Tier(values["tier"]) if values["tier"] else None,
        scopes=scopes_of(values["scope"]),
        since=read_time(values["since"], now) if values["since"] else None,
    )


def program_query(
    text: str,
    k: int,
    *,
    types: str | Iterable[str] | None,
    tags: str | Iterable[str] | None,
    tier: str | None,
    since: str | datetime | timedelta | None,
    scopes: str | Iterable[str] | None,
    now: datetime,
) -> Query:
    """What a program asks for; one word may stand for a list of one.

    Raises:
        UsageError: the tier or the time makes no sense.
    """
    if tier not in {None, *Tier}:
        raise UsageError(f"{tier!r} is no tier; there are {', '.join(Tier)}.")
    if isinstance(since, str):
        since = read_time(since, now, "since")
    elif isinstance(since, timedelta):
        since = now - since
    elif since is not None:
        since = since.astimezone(UTC)
    return Query(
        text,
        k=k,
        types=_several(types),
        tags=_several(tags),
        tier=Tier(tier) if tier is not None else None,
        scopes=scopes_of(_several(scopes)),
        since=since,
    )


def scopes_of(words: Iterable[str]) -> tuple[str, ...] | None:
    """The scopes that these words name; None for any."""
    return tuple(map(scope_of, words)) or None


def scope_of(word: str) -> str:
    """The scope that a word names."""
    if word == THIS_PROJECT:
        return project_scope(working_directory())
    return "" if word == EVERYBODY else word


def note_of(values: Mapping[str, Any], now: datetime) -> Draft:
    """What the values of `memory add` want remembered.

    Raises:
        UsageError: the time makes no sense, or has passed.
    """
    return Draft(
        " ".join(values["text"]),
        Source(Author.HUMAN),
        type=values["type"],
        tags=tuple(values["tag"]),
        scope=scope_of(values["scope"]),
        pinned=values["pin"],
        expires_at=_coming(values["expires"], now) if values["expires"] else None,
    )


def _coming(text: str, now: datetime) -> datetime:
    """The moment after a time, or at one."""
    try:
        moment = read_time(text, now)
    except UsageError:
        raise UsageError("--expires takes a time to come, as in 12h, 30d, or 2027-01-31T12:00.") from None
    moment = now + (now - moment) if _AGE.fullmatch(text) else moment
    if moment <= now:
        raise UsageError(f"--expires {text}: that time has passed.")
    return moment


def _several(words: str | Iterable[str] | None) -> tuple[str, ...]:
    return () if words is None else (words,) if isinstance(words, str) else tuple(words)


MOST_MIB = 1024
"""Of a file that is read."""


def read_file(path: Path) -> list[str]:
    """The lines of a file.

    Raises:
        UsageError: it cannot be read, is no text, or is too large.
    """
    try:
        if path.stat().st_size > MOST_MIB << 20:
            raise UsageError(f"{path} is larger than {MOST_MIB:,} MiB; import it in parts.")
        return path.read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text in UTF-8, so it holds no memories.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.") from error


def write_file(path: Path, lines: Iterable[str]) -> int:
    """Write lines into a file that is not there yet, readable for its owner alone; how many they were.

    Raises:
        UsageError: there is a file already, or it cannot be written; then nothing is left behind.
    """
    count = 0
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        unfinished = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                for count, line in enumerate(lines, 1):  # noqa: B007 - how many they were
                    file.write(f"{line}\n")
                file.flush()
                os.fsync(file.fileno())
            # Unlike a renaming, this never takes the place of a file that somebody has made meanwhile.
            os.link(unfinished, path)
        finally:
            with suppress(OSError):
                unfinished.unlink()
    except FileExistsError:
        raise UsageError(f"{path} is there already; name a file that is not.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}.") from error
    return count


Act = Literal["promote", "demote", "pin", "unpin", "forget", "restore"]
"""What a person does to a memory that stays."""


@dataclass(frozen=True, slots=True)
class MemoryServices:
    """What memories are handled with; `assembly` makes it."""

    memory: Callable[[], MemoryStore]  # Opens the memory, or gives the one that is open
    journal: Callable[[], Journal]  # Gives the journal; asked for as soon as something is changed
    clock: Clock  # The time
    home: Path  # Our data directory: contents of changed files lie there
    redactor: Redactor  # Takes secrets out of what is kept
    session: Callable[[], str] = str  # The session in which things are changed; empty for none


class MemoryDesk:
    """Everything that a person can do with memories, from any thread. Methods block.

    All of them raise `MemoryUnavailable` when the memory cannot be used, and `MemoryUnknown` for an id that it does not
    have. Those that change something raise `JournalError` when the journal says no; then nothing was changed.
    """

    def __init__(self, around: MemoryServices) -> None:
        self._around = around

    @property
    def store(self) -> MemoryStore:
        """The memory itself."""
        return self._around.memory()

    def recall(self, query: Query) -> Sequence[Recalled]:
        """What fits a question best, the best first; an empty one lists the newest.

        Raises:
            MemoryInvalid: the query cannot be used.
        """
        return self.store.recall(query)

    def further(self, query: Query, shown: int) -> str:
        """What a list says of the memories that it does not show; of those that fit words best, nothing."""
        if query.text.strip() or shown < query.k:
            return ""
        if query == Query(query.text, k=query.k):
            return further(shown, self.store.counts().memories, "--k", MOST_K)
        total = len(self.store.recall(replace(query, k=MOST_K)))
        told = further(shown, total, "--k", MOST_K)
        return f"At least {told}" if total == MOST_K else told

    def show(self, memory_id: str) -> Memory:
        """One memory, a forgotten one too."""
        return self.store.reference(memory_id)

    def explore(self, memory_id: str, *, depth: int = 1, types: Sequence[str] = (), most: int = 100) -> Neighbourhood:
        """What is joined to a memory, the nearest first; raises `MemoryInvalid` for what cannot be asked."""
        return self.store.explore(memory_id, depth=depth, types=types, most=most)

    def lessons(self, text: str = "", k: int = 50) -> list[Lesson]:
        """Lessons about something, the best first; without words the newest."""
        return lessons(self.store, Query(text, k=k))

    def plan_lessons(self, arguments: Mapping[str, object]) -> list[str]:
        """What the question to a plan with these arguments would have trusted, as lines of text, without secrets.

        Raises:
            RedactionUnavailable: secrets cannot be looked for.
        """
        return [self._around.redactor.redact(line).text for line in plan_lessons(self.store, arguments)]

    def counts(self) -> MemoryCounts:
        """How much is remembered."""
        return self.store.counts()

    def export_lines(self) -> Iterator[str]:
        """All that can be recalled and what joins it, a line of JSON each, without line ends."""
        from kagura_kernel.memory.lines import write_lines

        return write_lines(self.store.export())

    def remember(self, draft: Draft, *, by: str, via: str) -> Memory:
        """Keep what a person says; it is theirs, and trusted. What looks like a secret is taken out.

        Raises:
            MemoryInvalid: something in it is wrong.
            RedactionUnavailable: secrets cannot be looked for.
        """
        said = self._clean(replace(draft, source=replace(draft.source, author=Author.HUMAN, by=by), tier=Tier.TRUSTED))
        self._around.journal().check_writable()
        memory = self.store.remember(said)
        self._tell("written", memory.id, by=by, via=via)
        return memory

    def change(self, act: Act, memory_ids: Sequence[str], *, by: str, via: str) -> tuple[Memory, ...]:
        """Promote, demote, pin, unpin, forget or restore memories; all as they are then, each once.

        What is so already is left alone. Nothing is done when one of them is not there.
        """
        store = self.store
        told, is_so, do = _acts(store, by)[act]
        known = [store.reference(memory_id) for memory_id in dict.fromkeys(memory_ids)]
        self._around.journal().check_writable()
        now = []
        for memory in known:
            if is_so(memory):
                now.append(memory)
                continue
            now.append(do(memory.id))
            self._tell(told, memory.id, by=by, via=via)
        return tuple(now)

    def import_lines(self, lines: Iterable[str], *, trusting: bool, by: str, via: str) -> Imported:
        """Keep what lines hold, all or none; without `trusting` in quarantine. What looks like a secret is taken out.

        Raises:
            MemoryInvalid: some lines cannot be used; each is told with its number.
            RedactionUnavailable: secrets cannot be looked for.
        """
        from kagura_kernel.memory.lines import keep, read_lines

        held = read_lines(lines, trusting=trusting)
        clean = tuple(map(self._clean, held.drafts))
        self._around.journal().check_writable()
        imported = keep(self.store, replace(held, drafts=clean))
        shorn = {one for one, was, now in zip(imported.memories, held.drafts, clean, strict=True) if was != now}
        imported = replace(imported, shorn=len(shorn.difference(imported.here)))
        if imported.memories:
            self._tell("imported", imported.memories[0], by=by, via=via, memories=len(imported.memories))
        return imported

    def would_erase(self, memory_ids: Sequence[str], *, cascade: bool) -> Erasure:
        """What an erasure would remove; nothing is changed."""
        from kagura_kernel.memory.erasure import would_erase

        return would_erase(self.store, self._around.journal(), memory_ids, cascade=cascade)

    def erase(self, memory_ids: Sequence[str], *, cascade: bool, by: str, via: str) -> Erasure:
        """Remove memories with their edges, and the checkpoints that name them, for good.

        With `cascade` everything that came from them goes too.
        """
        from kagura_kernel.memory.erasure import erase

        around = self._around
        return erase(
            self.store,
            around.journal(),
            memory_ids,
            cascade=cascade,
            contents=around.home / FOLDER,
            by=by,
            via=via,
            session_id=around.session(),
        )

    def _clean(self, draft: Draft) -> Draft:
        redactor = self._around.redactor

        def shorn(text: str) -> str:
            return redactor.redact(text).text

        return replace(
            draft,
            text=shorn(draft.text),
            summary=shorn(draft.summary),
            speaker=shorn(draft.speaker),
            source=replace(draft.source, by=shorn(draft.source.by), uri=shorn(draft.source.uri)),
            # A tag is found by its very words: one that holds a secret goes as a whole.
            tags=tuple(tag for tag in draft.tags if shorn(tag) == tag),
            data=redactor.fields(draft.data),
        )

    def _tell(self, change: MemoryAct, memory_id: str, *, by: str, via: str, **counts: object) -> None:
        self._around.journal().append(
            MemoryChanged(
                run_id="",
                session_id=self._around.session(),
                at=self._around.clock.now(),
                memory_id=memory_id,
                change=change,
                by=by,
                via=via,
                **counts,  # type: ignore[arg-type] # counts of the event, by its own names
            )
        )


def _acts(
    store: MemoryStore, by: str
) -> Mapping[Act, tuple[MemoryAct, Callable[[Memory], bool], Callable[[str], Memory]]]:
    """For each act what the journal is told, when it is so already, and what does it."""
    return {
        "promote": ("promoted", lambda one: one.tier is Tier.TRUSTED, lambda one: store.promote(one, by=by)),
        "demote": ("demoted", lambda one: one.tier is Tier.QUARANTINE, store.demote),
        "pin": ("pinned", lambda one: one.pinned, store.pin),
        "unpin": ("unpinned", lambda one: not one.pinned, lambda one: store.pin(one, on=False)),
        "forget": ("forgotten", lambda one: one.forgotten_at is not None, store.forget),
        "restore": ("restored", lambda one: one.forgotten_at is None, store.restore),
    }


def has_lessons(arguments: Mapping[str, object]) -> bool:
    """Whether the question with these arguments offers to trust lessons."""
    return bool(_ids(arguments, "lessons"))


def lessons_told(memory: Callable[[], MemoryDesk], arguments: Mapping[str, object]) -> list[str]:
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
    yield f"    what went wrong: {_words(lesson.went_wrong)}"
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
