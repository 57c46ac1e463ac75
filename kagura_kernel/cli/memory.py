"""`kagura-kernel recall`, `lessons` and `memory …`: what is remembered, looked at and changed in a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from kagura_kernel.cli.output import as_json, table, tell, tell_rows
from kagura_kernel.cockpit import memory_words
from kagura_kernel.cockpit.memory import note_of, query_of, read_file, write_file
from kagura_kernel.cockpit.next_commands import NO_MEMORIES
from kagura_kernel.domain.grammar import Surface
from kagura_kernel.domain.memory import LESSON, Query, Tier
from kagura_kernel.journal.place import data_home, read_settings
from kagura_kernel.jupyter.surface import person
from kagura_kernel.membrane.names import shown
from kagura_kernel.memory.location import file_of

if TYPE_CHECKING:
    from pathlib import Path

    from kagura_kernel.cockpit.memory import Act, MemoryDesk
    from kagura_kernel.domain.memory import Recalled

VIA = "terminal"
INPUT = "-"

_OK, _FOUND = 0, 1
_PREFIX = Surface.TERMINAL.prefix


def _at_desk(act: Callable[[MemoryDesk, SimpleNamespace], int]) -> Callable[[SimpleNamespace], int]:
    """A command that does this with the memory of the settings.

    Raises:
        ConfigurationError: the settings are wrong.
        MemoryStoreError: the memory cannot be used, has no such memory, or does not take what is given.
        JournalError: the journal cannot be used.
        UsageError: a time or a file cannot be used.
        RedactionUnavailable: secrets cannot be looked for in what is to be kept.
    """

    def command(arguments: SimpleNamespace) -> int:
        from kagura_kernel.assembly.memories import memory_desk

        absent = _absent()
        with memory_desk(os.environ) as desk:
            code = act(desk, arguments)
        if absent is not None and absent.exists():
            # A slip in its name would make another one than the person's own.
            print(f"A new memory was made: {shown(str(absent))}", file=sys.stderr)
        return code

    return command


def _absent() -> Path | None:
    """The file that a person has named for their memory, where nothing is there yet."""
    where = read_settings(os.environ).memory
    file = file_of(where, data_home(os.environ), os.environ) if where else None
    return None if file is None or file.exists() else file


@_at_desk
def recall(desk: MemoryDesk, arguments: SimpleNamespace) -> int:
    """Print what fits; 0."""
    now = datetime.now(UTC)
    query = query_of(_given(arguments, "query"), now)
    found = desk.recall(query)
    more = desk.further(query, len(found))
    records, cells = list(map(memory_words.recalled_record, found)), [_cells(one, now) for one in found]
    head = ("memory", "trust", "type", "from", "age", "why", "what")
    return tell_rows(arguments, records, head, cells, whole=("memory", "trust"), none=NO_MEMORIES, further=more)


memory_list = recall


def _cells(found: Recalled, now: datetime) -> tuple[str, ...]:
    memory = found.memory
    return (
        memory.id,
        ("trusted" if memory.tier is Tier.TRUSTED else "NOT trusted") + (", pinned" if memory.pinned else ""),
        memory.type,
        memory_words.source_words(memory.source),
        memory_words.age_words(now - memory.at),
        ", ".join(found.why) or "-",
        memory.summary,
    )


@_at_desk
def lessons(desk: MemoryDesk, arguments: SimpleNamespace) -> int:
    """Print what went wrong before, and what mended it; 0."""
    words = " ".join(arguments.query)
    found = desk.lessons(words, arguments.k)
    more = desk.further(Query(words, k=arguments.k, types=(LESSON,)), len(found))
    head = ("memory", "trust", "seen", "what went wrong", "what was said then", "what mended it")
    rows = [
        (
            one.memory.id,
            "trusted" if one.trusted else "NOT trusted",
            f"{one.seen:,}",
            one.went_wrong,
            one.failure.said or "-",
            one.fix_shown or "-",
        )
        for one in found
    ]
    records, none = list(map(memory_words.lesson_record, found)), memory_words.no_lessons(arguments.query)
    return tell_rows(arguments, records, head, rows, whole=("memory", "trust"), none=none, further=more)


@_at_desk
def memory_show(desk: MemoryDesk, arguments: SimpleNamespace) -> int:
    """Print all about one memory; 0."""
    memory = desk.show(arguments.memory)
    return _tell(arguments, memory_words.memory_record(memory), memory_words.memory_lines(memory, datetime.now(UTC)))


@_at_desk
def memory_explore(desk: MemoryDesk, arguments: SimpleNamespace) -> int:
    """Print what a memory is joined to; 0."""
    found = desk.explore(arguments.memory, depth=arguments.depth, types=arguments.type)
    known = {one.id: one for one in found.memories}
    rows = [(edge.source, edge.type, edge.target, known[edge.source].summary) for edge in found.edges]
    head, none = ("memory", "how", "with", "what it says"), f"{arguments.memory} is joined to nothing."
    text = table(head, rows, whole=("memory", "with", "how")) if rows else none
    return tell(arguments, memory_words.neighbourhood_record(found), text)


@_at_desk
def memory_add(desk: MemoryDesk, arguments: SimpleNamespace) -> int:
    """Keep a note; 0."""
    draft = note_of(_given(arguments, "text"), datetime.now(UTC))
    memory = desk.remember(draft, by=person(), via=VIA)
    return _tell(arguments, memory_words.memory_record(memory), memory_words.added_lines(memory, draft.text, _PREFIX))


def _change(desk: MemoryDesk, arguments: SimpleNamespace) -> int:
    memories = desk.change(cast("Act", arguments.action), arguments.memory, by=person(), via=VIA)
    records = [memory_words.memory_record(one) for one in memories]
    return _tell(arguments, records, memory_words.changed_lines(arguments.action, memories, _PREFIX))


memory_promote = memory_demote = memory_pin = memory_unpin = memory_restore = _at_desk(_change)


@_at_desk
def memory_forget(desk: MemoryDesk, arguments: SimpleNamespace) -> int:
    """Forget memories; 1 when an erasure was only shown, else 0."""
    named, cascade = arguments.memory, arguments.cascade
    if not (cascade or arguments.erase):
        return _change(desk, arguments)
    if arguments.yes:
        gone = desk.erase(named, cascade=cascade, by=person(), via=VIA)
        _tell(arguments, memory_words.erasure_record(gone, done=True), memory_words.erased_lines(gone))
        return _OK
    would = desk.would_erase(named, cascade=cascade)
    command = f"{_PREFIX}memory forget {'--cascade' if cascade else '--erase'} --yes {' '.join(named)}"
    _tell(arguments, memory_words.erasure_record(would, done=False), memory_words.erasure_lines(would, named, command))
    return _FOUND


@_at_desk
def memory_import(desk: MemoryDesk, arguments: SimpleNamespace) -> int:
    """Take in what another memory exported; 0."""
    lines = sys.stdin if str(arguments.file) == INPUT else read_file(arguments.file)
    found = desk.import_lines(lines, trusting=arguments.trust, by=person(), via=VIA)
    said = memory_words.imported_line(found, trusting=arguments.trust, prefix=_PREFIX)
    return _tell(arguments, memory_words.imported_record(found), [said])


@_at_desk
def memory_export(desk: MemoryDesk, arguments: SimpleNamespace) -> int:
    """Write all of it, or print it; 0."""
    if arguments.file is None or str(arguments.file) == INPUT:
        for line in desk.export_lines():
            # Another program reads the same in both; a terminal obeys nothing of the second.
            print(line if line.isprintable() else as_json(json.loads(line)))
        return _OK

    count = write_file(arguments.file, desk.export_lines())
    said = f"{shown(str(arguments.file))} was written: {count:,} lines."
    return _tell(arguments, {"file": str(arguments.file), "lines": count}, [said])


@_at_desk
def memory_counts(desk: MemoryDesk, arguments: SimpleNamespace) -> int:
    """Print how much there is; 0."""
    from dataclasses import asdict

    counts, where = desk.counts(), desk.store.where
    return _tell(arguments, {**asdict(counts), "where": where}, [memory_words.counts_line(counts, where)])


def _given(arguments: SimpleNamespace, name: str) -> dict[str, Any]:
    """The values, in which `-` alone is what comes in."""
    values = vars(arguments)
    return values | {name: (sys.stdin.read(),)} if values.get(name) == (INPUT,) else values


def _tell(arguments: SimpleNamespace, data: Any, lines: Iterable[str]) -> int:
    """Tell lines of which a terminal obeys nothing; their own line ends and tabs stay."""
    return tell(
        arguments, data, "\n".join("\t".join(map(shown, line.split("\t"))) for line in "\n".join(lines).split("\n"))
    )
