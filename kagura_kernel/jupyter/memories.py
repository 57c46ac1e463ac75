"""Memories below a cell: rows, the list as a card to act on, and one memory as a value.

What a memory says is nobody's word but its author's: it is escaped, and what nobody has promoted is marked. What the
buttons do is done in the memory, and shown as it is there then.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast, get_args

import pandas as pd

from kagura_kernel.assembly import get_cockpit
from kagura_kernel.cockpit.memory import Act, MemoryDesk, program_query
from kagura_kernel.cockpit.memory_words import age_words, edge_words, memory_lines, said_in, source_words
from kagura_kernel.cockpit.next_commands import NO_MEMORIES
from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.domain.errors.memory import MemoryUnknown
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.memory import Memory, Neighbourhood, Recalled, Tier
from kagura_kernel.domain.visible import visible
from kagura_kernel.journal.rows import made_of
from kagura_kernel.jupyter.errors import calm
from kagura_kernel.jupyter.slots import Slot, aside, card_html
from kagura_kernel.jupyter.surface import Surface, loop_runs, person, surface_of
from kagura_kernel.jupyter.tables import table_of
from kagura_kernel.patterns.lessons import Lesson
from kagura_kernel.render import blocks as ui
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.figures import counted
from kagura_kernel.render.html import Bundle, drawn, html_of, without_formulas
from kagura_kernel.render.text import lines_of
from kagura_kernel.views.record import clean


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """What a row says."""

    id: str  # `mem-…`
    tier: str  # `trusted` or `quarantine`
    type: str
    source: str  # Who said it, and where
    at: datetime  # When it happened, UTC
    summary: str  # Its first line
    text: str  # All of it
    why: str = ""  # What matched; empty where nothing was asked
    tags: str = ""  # With commas
    scope: str = ""  # Whom it concerns; empty for everybody
    pinned: bool = False  # Whether every run starts with it
    score: float | None = None  # How well it fits, 0 to 1; None where nothing was asked
    forgotten: bool = False  # Whether it is forgotten
    gone: bool = False  # Whether it is not there any more
    said: str = ""  # Of a lesson: what a box or somebody said then

    @property
    def trusted(self) -> bool:
        """Whether somebody may rely on it."""
        return self.tier == Tier.TRUSTED


def line_of(memory: Memory, why: str = "", score: float | None = None) -> MemoryLine:
    """A memory as a row; with what matched and how well it fits, where somebody has searched for it."""
    return made_of(
        MemoryLine,
        memory,
        tier=memory.tier.value,
        source=source_words(memory.source),
        why=why,
        tags=", ".join(memory.tags),
        score=score,
        forgotten=memory.forgotten_at is not None,
        said=said_in(memory),
    )


LABEL = "Memories"
MEMORIES_MIME = "application/vnd.kagura.memories+json"
UNTRUSTED = "not trusted"

SHOWN = 200
"""Memories that a list shows; the table has all of them."""

_SUMMARY, _TEXT = 300, 20_000


def memories_blocks(lines: Sequence[MemoryLine], now: datetime, *, live: bool, none: str = NO_MEMORIES) -> ui.Blocks:
    """The list; with `live` each row has buttons. In text a memory takes two lines; without any it says `none`."""
    top = ui.head(LABEL, ui.soft(_figures(lines) if lines else ui.Span(none, "prose")), plain="" if lines else none)
    if not lines:
        return (top, ui.Told())
    rows = tuple(_row(line, now, live=live) for line in lines[:SHOWN])
    left = len(lines) - SHOWN
    more = ui.Line((f"… and {left:,} more, which the table has.",), "part soft", plain=f"… and {left:,} more")
    return (top, ui.Told(), ui.Group(rows, "leases", LABEL), *([more] if left > 0 else []))


def memory_blocks(line: MemoryLine, memory: Memory, now: datetime) -> ui.Blocks:
    """One memory as a whole, without buttons."""
    pairs = ui.Pairs([(name, (str(value),)) for name, value in memory.data.items()])
    whole = ui.Group((ui.Pre(line.text), *([pairs] if pairs.rows else [])), "part")
    return (_row(replace(line, text=line.summary), now, live=False), whole)


def memories_bundle(lines: Sequence[MemoryLine], now: datetime) -> Bundle:
    """As it stays in the notebook."""
    rows = [{"id": one.id, "tier": one.tier, "type": one.type, "summary": one.summary, "why": one.why} for one in lines]
    record = {MEMORIES_MIME: clean({"version": 1, "memories": rows[:SHOWN]})}
    return drawn(memories_blocks(lines, now, live=False), LABEL) | record, {}


def _figures(lines: Sequence[MemoryLine]) -> str:
    untrusted = sum(not line.trusted for line in lines)
    found = counted(len(lines), "memory", "memories")
    return f"{found}, {untrusted:,} {UNTRUSTED}" if untrusted else found


def _row(line: MemoryLine, now: datetime, *, live: bool) -> ui.Group:
    said = one_line(line.summary, _SUMMARY)
    buttons = [ui.Span(_buttons(line), look="chips")] if live and not line.gone else []
    facts = _facts(line, now)
    marks = ([] if line.trusted else [UNTRUSTED]) + (["pinned"] if line.pinned else [])
    mark = f"[{', '.join(marks)}] " if marks else ""
    inside = (
        ui.Line((*_marks(line), ui.SPRING, *buttons), "lease-top"),
        # A mark of its own beside the quotation marks: who cannot see colours is told by both.
        ui.Line((said if line.trusted else ui.quote(said),), "says"),
        ui.Line((ui.item(ui.code(line.id)), *map(ui.item, facts)), "facts soft"),
        *_whole(line, live=live),
    )
    plain = f"{one_line(line.id)}  {mark}{one_line(line.summary)}\n    {' · '.join(facts)}"
    return ui.Group(inside, "lease", line.id, {"block": ""}, plain=plain)


def _marks(line: MemoryLine) -> list[ui.Span]:
    marks = [ui.chip("trusted", "good") if line.trusted else ui.chip(UNTRUSTED, "warn"), ui.chip(line.type)]
    marks += [ui.chip("pinned", "busy")] if line.pinned else []
    marks += [ui.chip("forgotten")] if line.forgotten else []
    marks += [ui.chip("not there any more", "bad")] if line.gone else []
    return marks


def _facts(line: MemoryLine, now: datetime) -> list[str]:
    age = age_words(now - line.at)
    facts = [line.source, age if age == "just now" else f"{age} ago"]
    facts += [f"scope {line.scope}"] if line.scope else []
    facts += [f"tags {line.tags}"] if line.tags else []
    facts += [f"found by {line.why}"] if line.why else []
    facts += [f"score {line.score:.2f}"] if line.score is not None else []
    return facts


def _whole(line: MemoryLine, *, live: bool) -> ui.Blocks:
    """All of what it says, folded; nothing where its summary says it already.

    It lies open where it can be promoted: what a person lets agents read has to be in sight.
    """
    if " ".join(line.text.split()) == line.summary and not line.said:
        return ()
    whole = f"{line.text}\nsaid then: {line.said}" if line.said else line.text
    more = [ui.label("Only its beginning is shown.")] if len(whole) > _TEXT else []
    can_be_promoted = not (line.trusted or line.forgotten or line.gone)
    said = (ui.soft(f"All of it, {counted(len(whole), 'character')}"),)
    return (
        ui.Fold(said, (ui.Pre(whole[:_TEXT]), *more), f"memory:{line.id}", "used", is_open=live and can_be_promoted),
    )


_BUTTONS = {
    "restore": "Let it be recalled again",
    "demote": "Trust it no longer",
    "promote": "Say that it may be trusted: agents are shown it without being asked",
    "unpin": "Let runs start without it",
    "pin": "Let every run that it concerns start with it",
    "forget": "Take it out of what is recalled; it can be restored",
}


def _buttons(line: MemoryLine) -> ui.Words:
    acts = ["demote" if line.trusted else "promote", "unpin" if line.pinned else "pin", "forget"]
    return tuple(
        ui.Button(act.capitalize(), act, {"id": line.id}, "small", f"{act.capitalize()} {line.id}", _BUTTONS[act])
        for act in (["restore"] if line.forgotten else acts)
    )


class MemoryText:
    """One memory."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def __repr__(self) -> str:
        return "\n".join(map(visible, memory_lines(self.memory, datetime.now(UTC))))

    def _repr_html_(self) -> str:
        """The same as a card."""
        return card_html(html_of(memory_blocks(line_of(self.memory), self.memory, datetime.now(UTC))), "Memory")


VIA = "table"

_ACTS: frozenset[str] = frozenset(get_args(Act))


def show_memories(lines: Sequence[MemoryLine]) -> bool:
    """Show a live list below the cell; False where nobody could press its buttons."""
    shell = _shell()
    if shell is None or surface_of(shell) is not Surface.NOTEBOOK or not loop_runs():
        return False

    # Looked up here, so that a table holds nothing but its rows.
    cockpit = get_cockpit()
    MemoryList(lambda: cockpit.memory, lines)
    return True


class MemoryList:
    """A live list. It stays open: nothing in it ends."""

    def __init__(self, desk: Callable[[], MemoryDesk], lines: Sequence[MemoryLine]) -> None:
        self._desk = desk
        self._lines = {line.id: line for line in lines}
        self._lock = threading.Lock()
        self._slot = Slot()
        shown, now = list(lines), datetime.now(UTC)
        blocks, still = memories_blocks(shown, now, live=True), memories_bundle(shown, now)
        self._slot.open(LABEL, still[0]["text/plain"], {"all": blocks}, self._pressed, still)

    def _pressed(self, content: Mapping[str, Any]) -> None:
        act, memory_id = str(content.get("act") or ""), str(content.get("id") or "")
        if act in _ACTS and memory_id in self._lines:
            # A memory on a server may take its time.
            aside(lambda: self._do(cast("Act", act), memory_id))

    def _do(self, act: Act, memory_id: str) -> None:
        # One after the other, in the order in which they were pressed as nearly as can be.
        with self._lock:
            told = ""
            try:
                desk = self._desk()
                try:
                    desk.change(act, [memory_id], by=person(), via=VIA)
                    self._lines[memory_id] = as_now(self._lines[memory_id], desk.show(memory_id))
                except MemoryUnknown:
                    self._lines[memory_id] = replace(self._lines[memory_id], gone=True)
            except KaguraError as error:
                told = error.message
            blocks = memories_blocks(list(self._lines.values()), datetime.now(UTC), live=True)
            self._slot.show({"all": blocks})
            # Frees the buttons too, which wait for an answer.
            self._slot.tell(told)
            self._slot.keep(lambda: memories_bundle(list(self._lines.values()), datetime.now(UTC)), at_once=True)


def as_now(line: MemoryLine, memory: Memory) -> MemoryLine:
    """A row with what may have changed since it was made."""
    forgotten = memory.forgotten_at is not None
    return replace(line, tier=memory.tier.value, pinned=memory.pinned, forgotten=forgotten, gone=False)


def _shell() -> Any:
    """IPython, where it is loaded at all."""
    module = sys.modules.get("IPython")
    get_ipython = getattr(module, "get_ipython", None)
    return get_ipython() if get_ipython is not None else None


_NEEDED = frozenset({"tier", "type", "source", "age", "why_matched", "summary", "text", "pinned", "at", "score"})


NONE = "none"
"""The attribute of an empty table that says why it is empty, where it is not about memories of any kind."""


class MemoryFrame(pd.DataFrame):
    """Memories as they were when they were asked for. What is taken out of it is an ordinary DataFrame.

    It is not changed by the buttons of its card: ask again for what is so now.
    """

    def lines(self) -> list[MemoryLine]:
        """Its rows, as the card shows them."""
        return [_shown_line(str(name), row) for name, row in zip(self.index, self.to_dict("records"), strict=True)]

    def __repr__(self) -> str:
        """Two lines for each memory; what is not trusted is marked."""
        if not self._whole():
            return super().__repr__()
        return "\n".join(lines_of(self._blocks()))

    def _repr_html_(self) -> str:
        """The card without its buttons; IPython shows this in place of the columns."""
        if not self._whole():
            return without_formulas(pd.DataFrame(self).to_html(max_rows=pd.get_option("display.max_rows")))
        return card_html(html_of(self._blocks()), LABEL)

    def _ipython_display_(self) -> None:
        """Show the card with buttons, where somebody can press them.

        Raises:
            NotImplementedError: nobody can; IPython shows the table then.
        """
        if not self._whole() or NONE in self.attrs:
            raise NotImplementedError
        with calm():
            if not show_memories(self.lines()):
                raise NotImplementedError

    def _blocks(self) -> ui.Blocks:
        return memories_blocks(self.lines(), datetime.now(UTC), live=False, none=str(self.attrs.get(NONE, NO_MEMORIES)))

    def _whole(self) -> bool:
        """Whether nobody has taken a column out of it."""
        return set(self.columns) >= _NEEDED


def _shown_line(name: str, row: dict[Any, Any]) -> MemoryLine:
    told = {key: None if pd.isna(value) else value for key, value in row.items()}
    at = told["at"]
    return MemoryLine(
        id=name,
        tier=str(told["tier"]),
        type=str(told["type"]),
        source=str(told["source"]),
        at=at.to_pydatetime() if isinstance(at, pd.Timestamp) else datetime.now(UTC),
        summary=str(told["summary"] or ""),
        text=str(told["text"] or ""),
        said=str(told.get("said") or ""),
        why=str(told["why_matched"] or ""),
        tags=str(told.get("tags") or ""),
        scope=str(told.get("scope") or ""),
        pinned=bool(told["pinned"]),
        score=None if told["score"] is None else float(told["score"]),
    )


COLUMNS = "memory=id score:float tier type source why_matched=why summary text said tags scope pinned:bool at:time"


def memories_table(found: Sequence[Recalled], now: datetime, *, searched: bool = True) -> MemoryFrame:
    """One line for each memory, by its id; as the end of a cell a card with buttons.

    Args:
        found: What the memory gave, in its order.
        now: For their ages.
        searched: Whether there was a question; otherwise `score` is NA.

    Returns:
        With the columns `score` (0 to 1, comparable within one answer alone), `tier` (`trusted` or `quarantine`),
        `type`, `source`, `age` (timedelta), `why_matched` (what matched, the strongest first, with commas), `summary`,
        `text`, `said` (of a lesson: what a box or somebody said then; else empty), `tags`, `scope` (empty for
        everybody), `pinned` and `at` (UTC); the index is the memory's id.
    """
    import numpy as np

    lines = [line_of(one.memory, ", ".join(one.why), round(one.score, 4) if searched else None) for one in found]
    table = table_of(lines, COLUMNS).set_index("memory")
    # By way of nanoseconds an age of 300 years would be out of bounds.
    seconds = [int((now - one.memory.at).total_seconds()) for one in found]
    ages = pd.to_timedelta(np.array(seconds, dtype="timedelta64[s]"))
    table.insert(list(table.columns).index("why_matched"), "age", ages)
    return MemoryFrame(table)


def lessons_table(found: Sequence[Lesson], now: datetime) -> MemoryFrame:
    """One line for each lesson, by its memory's id, with the columns of `memories_table` behind its own.

    Its own are `trigger` (what went wrong), `said` (what a box or somebody said then, which a promotion lets agents
    read), `fix` (what mended it; empty where nothing is known), `seen` (in how many runs), `prevents` (ids of the
    summaries of those runs, with commas) and `task` (in which it was learned).
    """
    table = memories_table([Recalled(one.memory, 0.0) for one in found], now, searched=False)
    # As a person reads it: with what mended it.
    table["summary"] = [visible(one.shown) for one in found]
    columns = "trigger=went_wrong said=failure.said fix=fix_shown seen:int prevents task"
    own = table_of(found, columns, prevents=lambda one: ", ".join(one.prevents)).set_index(table.index)
    return MemoryFrame(own.join(table.drop(columns="said")))


def joined_table(around: Neighbourhood) -> pd.DataFrame:
    """One line for each edge between a memory and what lies around it, by the other memory's id.

    `how` says what the first memory has to do with that one; between two others, both are named.
    """
    first = around.memories[0].id
    known = {one.id: one for one in around.memories}
    lines = []
    for edge in around.edges:
        other = edge.target if edge.source == first else edge.source
        how = edge_words(edge, first)
        if first not in (edge.source, edge.target):
            how = f"{edge_words(edge, edge.source)} {edge.target}"
        lines.append(line_of(known[other], how))
    return table_of(lines, "memory=id how=why tier type source summary text").set_index("memory")


def recalled(
    text: str,
    k: int,
    *,
    types: str | Iterable[str] | None,
    tags: str | Iterable[str] | None,
    tier: str | None,
    since: str | datetime | timedelta | None,
    scopes: str | Iterable[str] | None,
) -> MemoryFrame:
    """See `kagura_kernel.recall`; raises likewise."""
    now = datetime.now(UTC)
    query = program_query(text, k, types=types, tags=tags, tier=tier, since=since, scopes=scopes, now=now)
    return memories_table(get_cockpit().memory.recall(query), now, searched=bool(text.strip()))
