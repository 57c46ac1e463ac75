"""Memories as a list for people: what each says, how far it is trusted, where it comes from, why it was found. Pure.

What a memory says is nobody's word but its author's: it is escaped, and what nobody has promoted is marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from kagura_kernel.cockpit.memory_words import age_words
from kagura_kernel.domain.memory import Memory
from kagura_kernel.jupyter.cards.record import clean
from kagura_kernel.jupyter.memory.memory_line import MemoryLine
from kagura_kernel.render.blocks import (
    SPRING,
    Blocks,
    Button,
    Fold,
    Group,
    Line,
    Pairs,
    Pre,
    Span,
    Told,
    Words,
    chip,
    code,
    head,
    item,
    label,
    quote,
    soft,
)
from kagura_kernel.render.bundle import Bundle, drawn
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.figures import counted

LABEL = "Memories"
MEMORIES_MIME = "application/vnd.kagura.memories+json"
UNTRUSTED = "not trusted"

SHOWN = 200
"""Memories that a list shows; the table has all of them."""

_SUMMARY, _TEXT = 300, 20_000


def memories_blocks(lines: Sequence[MemoryLine], now: datetime, *, live: bool) -> Blocks:
    """The list; with `live` each row has buttons. In text a memory takes two lines."""
    top = head(LABEL, soft(_figures(lines)), plain="" if lines else "Nothing is remembered that fits.")
    if not lines:
        return (top, Told())
    rows = tuple(_row(line, now, live=live) for line in lines[:SHOWN])
    left = len(lines) - SHOWN
    more = Line((f"… and {left:,} more, which the table has.",), "part soft", plain=f"… and {left:,} more")
    return (top, Told(), Group(rows, "leases", LABEL), *([more] if left > 0 else []))


def memory_blocks(line: MemoryLine, memory: Memory, now: datetime) -> Blocks:
    """One memory as a whole, without buttons."""
    pairs = Pairs([(name, (str(value),)) for name, value in memory.data.items()])
    whole = Group((Pre(line.text), *([pairs] if pairs.rows else [])), "part")
    return (_row(replace(line, text=line.summary), now, live=False), whole)


def memories_bundle(lines: Sequence[MemoryLine], now: datetime) -> Bundle:
    """As it stays in the notebook."""
    rows = [{"id": one.id, "tier": one.tier, "type": one.type, "summary": one.summary, "why": one.why} for one in lines]
    record = {MEMORIES_MIME: clean({"version": 1, "memories": rows[:SHOWN]})}
    return drawn(memories_blocks(lines, now, live=False), LABEL) | record, {}


def _figures(lines: Sequence[MemoryLine]) -> str:
    if not lines:
        return "nothing is remembered that fits"
    untrusted = sum(not line.trusted for line in lines)
    found = f"{len(lines):,} {'memory' if len(lines) == 1 else 'memories'}"
    return f"{found}, {untrusted:,} {UNTRUSTED}" if untrusted else found


def _row(line: MemoryLine, now: datetime, *, live: bool) -> Group:
    said = one_line(line.summary, _SUMMARY)
    buttons = [Span(_buttons(line), look="chips")] if live and not line.gone else []
    facts = _facts(line, now)
    mark = "" if line.trusted else f"[{UNTRUSTED}] "
    inside = (
        Line((*_marks(line), SPRING, *buttons), "lease-top"),
        # A mark of its own beside the quotation marks: who cannot see colours is told by both.
        Line((said if line.trusted else quote(said),), "says"),
        Line((item(code(line.id)), *map(item, facts)), "facts soft"),
        *_whole(line, live=live),
    )
    plain = f"{one_line(line.id)}  {mark}{one_line(line.summary)}\n    {' · '.join(facts)}"
    return Group(inside, "lease", line.id, {"block": ""}, plain=plain)


def _marks(line: MemoryLine) -> list[Span]:
    marks = [chip("trusted", "good") if line.trusted else chip(UNTRUSTED, "warn"), chip(line.type)]
    marks += [chip("pinned", "busy")] if line.pinned else []
    marks += [chip("forgotten")] if line.forgotten else []
    marks += [chip("not there any more", "bad")] if line.gone else []
    return marks


def _facts(line: MemoryLine, now: datetime) -> list[str]:
    age = age_words(now - line.at)
    facts = [line.source, age if age == "just now" else f"{age} ago"]
    facts += [f"scope {line.scope}"] if line.scope else []
    facts += [f"tags {line.tags}"] if line.tags else []
    facts += [f"found by {line.why}"] if line.why else []
    facts += [f"score {line.score:.2f}"] if line.score is not None else []
    return facts


def _whole(line: MemoryLine, *, live: bool) -> Blocks:
    """All of what it says, folded; nothing where its summary says it already.

    It lies open where it can be promoted: what a person lets agents read has to be in sight.
    """
    if " ".join(line.text.split()) == line.summary and not line.said:
        return ()
    whole = f"{line.text}\nsaid then: {line.said}" if line.said else line.text
    more = [label("Only its beginning is shown.")] if len(whole) > _TEXT else []
    can_be_promoted = not (line.trusted or line.forgotten or line.gone)
    said = (soft(f"All of it, {counted(len(whole), 'character')}"),)
    return (Fold(said, (Pre(whole[:_TEXT]), *more), f"memory:{line.id}", "used", is_open=live and can_be_promoted),)


def _buttons(line: MemoryLine) -> Words:
    if line.forgotten:
        return (_button(line, "restore", "Restore", "Let it be recalled again"),)
    trust = (
        _button(line, "demote", "Demote", "Trust it no longer")
        if line.trusted
        else _button(line, "promote", "Promote", "Say that it may be trusted: agents are shown it without being asked")
    )
    pin = (
        _button(line, "unpin", "Unpin", "Let runs start without it")
        if line.pinned
        else _button(line, "pin", "Pin", "Let every run that it concerns start with it")
    )
    return trust, pin, _button(line, "forget", "Forget", "Take it out of what is recalled; it can be restored")


def _button(line: MemoryLine, act: str, word: str, hint: str) -> Button:
    return Button(word, act, {"id": line.id}, "small", f"{word} {line.id}", hint)
