"""Memories as a list for people: what each says, how far it is trusted, where it comes from, why it was found. Pure.

What a memory says is nobody's word but its author's: it is escaped, and what nobody has promoted is marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from kagura_kernel.cockpit.memory_words import age_words
from kagura_kernel.domain.memory import Memory
from kagura_kernel.domain.visible import visible
from kagura_kernel.jupyter.cards.record import clean
from kagura_kernel.jupyter.memory.memory_line import MemoryLine
from kagura_kernel.render.bundle import Bundle
from kagura_kernel.render.escape import escaped, one_line, reachable
from kagura_kernel.render.figures import counted
from kagura_kernel.render.style import framed

LABEL = "Memories"
MEMORIES_MIME = "application/vnd.kagura.memories+json"
UNTRUSTED = "not trusted"

SHOWN = 200
"""Memories that a list shows; the table has all of them."""

_SUMMARY, _TEXT = 300, 20_000


def memories_html(lines: Sequence[MemoryLine], now: datetime, *, live: bool) -> str:
    """The list; with `live` each row has buttons."""
    head = (
        f'<div class="kg-head"><div class="kg-top"><strong class="kg-name">{LABEL}</strong> '
        f'<span class="kg-soft">{_figures(lines)}</span></div></div>'
        '<div class="kg-told" role="status"></div>'
    )
    rows = "".join(_row(line, now, live=live) for line in lines[:SHOWN])
    left = len(lines) - SHOWN
    more = f'<div class="kg-part kg-soft">… and {left:,} more, which the table has.</div>' if left > 0 else ""
    return head + (f'<div class="kg-leases" role="group" aria-label="{LABEL}">{rows}</div>{more}' if rows else "")


def memory_html(line: MemoryLine, memory: Memory, now: datetime) -> str:
    """One memory as a whole, without buttons."""
    data = "".join(f"<dt>{escaped(name)}</dt><dd>{escaped(str(value))}</dd>" for name, value in memory.data.items())
    more = f'<dl class="kg-pairs">{data}</dl>' if data else ""
    text = f'<pre class="kg-pre"{reachable(line.text)}>{escaped(line.text)}</pre>'
    return f'{_row(replace(line, text=line.summary), now, live=False)}<div class="kg-part">{text}{more}</div>'


def memories_text(lines: Sequence[MemoryLine], now: datetime) -> str:
    """The same for readers without HTML, a memory in two lines."""
    if not lines:
        return "Nothing is remembered that fits."
    told = []
    for line in lines[:SHOWN]:
        mark = "" if line.trusted else f"[{UNTRUSTED}] "
        told.append(f"{one_line(line.id)}  {mark}{one_line(line.summary)}")
        told.append(f"    {' · '.join(map(visible, _facts(line, now)))}")
    left = len(lines) - SHOWN
    return "\n".join([*told, *([f"… and {left:,} more"] if left > 0 else [])])


def memories_bundle(lines: Sequence[MemoryLine], now: datetime) -> Bundle:
    """As it stays in the notebook."""
    rows = [{"id": one.id, "tier": one.tier, "type": one.type, "summary": one.summary, "why": one.why} for one in lines]
    data: dict[str, Any] = {
        "text/plain": memories_text(lines, now),
        "text/html": framed(memories_html(lines, now, live=False), LABEL),
        MEMORIES_MIME: clean({"version": 1, "memories": rows[:SHOWN]}),
    }
    return data, {}


def _figures(lines: Sequence[MemoryLine]) -> str:
    if not lines:
        return "nothing is remembered that fits"
    untrusted = sum(not line.trusted for line in lines)
    found = f"{len(lines):,} {'memory' if len(lines) == 1 else 'memories'}"
    return f"{found}, {untrusted:,} {UNTRUSTED}" if untrusted else found


def _row(line: MemoryLine, now: datetime, *, live: bool) -> str:
    name = escaped(line.id)
    said = escaped(one_line(line.summary, _SUMMARY))
    # A mark of its own beside the quotation marks: who cannot see colours is told by both.
    quoted = said if line.trusted else f"<q>{said}</q>"
    buttons = _buttons(line) if live else ""
    facts = " ".join(f"<span>{escaped(fact)}</span>" for fact in _facts(line, now))
    return (
        f'<div class="kg-lease" data-block role="group" aria-label="{name}"><div class="kg-lease-top">'
        f'{_marks(line)} <span class="kg-spring"></span> {buttons}</div><div class="kg-says">{quoted}</div>'
        f'<div class="kg-facts kg-soft"><span><code>{name}</code></span> {facts}</div>{_whole(line, live=live)}</div>'
    )


def _marks(line: MemoryLine) -> str:
    marks = [_chip("trusted", "good") if line.trusted else _chip(UNTRUSTED, "warn"), _chip(line.type)]
    marks += [_chip("pinned", "busy")] if line.pinned else []
    marks += [_chip("forgotten")] if line.forgotten else []
    marks += [_chip("not there any more", "bad")] if line.gone else []
    return " ".join(marks)


def _facts(line: MemoryLine, now: datetime) -> list[str]:
    age = age_words(now - line.at)
    facts = [line.source, age if age == "just now" else f"{age} ago"]
    facts += [f"scope {line.scope}"] if line.scope else []
    facts += [f"tags {line.tags}"] if line.tags else []
    facts += [f"found by {line.why}"] if line.why else []
    facts += [f"score {line.score:.2f}"] if line.score is not None else []
    return facts


def _whole(line: MemoryLine, *, live: bool) -> str:
    """All of what it says, folded; nothing where its summary says it already.

    It lies open where it can be promoted: what a person lets agents read has to be in sight.
    """
    if " ".join(line.text.split()) == line.summary and not line.said:
        return ""
    whole = f"{line.text}\nsaid then: {line.said}" if line.said else line.text
    text = escaped(whole[:_TEXT])
    more = '<div class="kg-label">Only its beginning is shown.</div>' if len(whole) > _TEXT else ""
    size = counted(len(whole), "character")
    shown = " open" if live and not (line.trusted or line.forgotten or line.gone) else ""
    return (
        f'<details class="kg-used" data-keep="memory:{escaped(line.id)}"{shown}><summary>'
        f'<span class="kg-soft">All of it, {size}</span></summary>'
        f'<div class="kg-inside"><pre class="kg-pre"{reachable(whole)}>{text}</pre>{more}</div></details>'
    )


def _buttons(line: MemoryLine) -> str:
    if line.gone:
        return ""
    if line.forgotten:
        return _button(line, "restore", "Restore", "Let it be recalled again")
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
    forget = _button(line, "forget", "Forget", "Take it out of what is recalled; it can be restored")
    return f'<span class="kg-chips">{trust} {pin} {forget}</span>'


def _button(line: MemoryLine, act: str, word: str, title: str) -> str:
    about = f'data-id="{escaped(line.id)}" aria-label="{word} {escaped(line.id)}" title="{escaped(title)}"'
    return f'<button type="button" class="kg-btn kg-small" data-act="{act}" {about}>{word}</button>'


def _chip(word: str, tone: str = "") -> str:
    return f'<span class="kg-chip{f" kg-{tone}" if tone else ""}">{escaped(word)}</span>'
