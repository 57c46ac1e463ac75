"""The change card: what a run did to the project, by file, and what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kagura_kernel.domain.events import ChangeRow
from kagura_kernel.domain.visible import visible
from kagura_kernel.jupyter.cards.previews import Previews, binary_words, preview_html
from kagura_kernel.render.blocks import Diff
from kagura_kernel.render.diff import counts
from kagura_kernel.render.escape import escaped, escaped_prose, shown_path
from kagura_kernel.render.figures import counted, data_size
from kagura_kernel.render.html import html_of

_SIGNS = {"added": ("A", "good"), "modified": ("M", "busy"), "deleted": ("D", "bad")}
_STATES = {
    "proposed": ("", "proposed"),
    "applied": ("good", "applied"),
    "discarded": ("soft", "discarded"),
    "conflict": ("bad", "conflict: the project’s file changed meanwhile and was left alone"),
    "handed": ("soft", "handed to the run that it works for"),
    "protected": ("warn", "protected: this path is never written"),
}
_OPEN_BELOW = 60
_OPEN_FILES = 3
_SHOWN_FILES = 200


_NO_PREVIEWS: Previews = {}

RUNS = "runs by itself"
"""The badge of a file that somebody would run, or obey, whom nobody asked to."""


def changes_html(
    changes: Mapping[str, ChangeRow], *, live: bool, told: str = "", previews: Previews = _NO_PREVIEWS
) -> str:
    """The card's inside. A live one can be applied and discarded, as a whole and by file."""
    total = [counts(change.diff) for change in changes.values()]
    added, removed = sum(plus for plus, _ in total), sum(minus for _, minus in total)
    waiting = any(change.state == "proposed" for change in changes.values())
    alone = len(changes) == 1
    buttons = _buttons("", alone=alone) if live and waiting else ""
    head = (
        '<div class="kg-head"><div class="kg-top">'
        f'<strong class="kg-name">{counted(len(changes), "changed file")}</strong> {plus_minus(added, removed)} '
        f'<span class="kg-soft">{escaped(summary(changes))}</span> <span class="kg-spring"></span>{buttons}</div></div>'
    )
    few = len(changes) <= _OPEN_FILES
    shown = first_what_runs(changes)[:_SHOWN_FILES]
    files = "".join(_file(change, previews.get(change.path, b""), live=live and not alone, few=few) for change in shown)
    if left := len(changes) - len(shown):
        files += (
            f'<div class="kg-label">… and {counted(left, "more file")}: '
            "<code>.changes</code> of the cell’s value holds all of them.</div>"
        )
    said = f'<div class="kg-told" role="status">{escaped_prose(told)}</div>'
    return f'{head}<div class="kg-files">{files}</div>{said}'


def changes_text(changes: Mapping[str, ChangeRow]) -> str:
    """The card in text."""
    lines = [f"[{counted(len(changes), 'changed file')}: {summary(changes)}]"]
    for change in first_what_runs(changes):
        added, removed = counts(change.diff)
        figures = f"  +{added} -{removed}" if change.diff else ""
        badge = f"  [{RUNS}: {visible(change.runs)}]" if change.runs else ""
        why = f": {visible(change.reason)}" if change.reason and change.state == "protected" else ""
        state = "" if change.state == "proposed" else f"  ({state_word(change.state)}{why})"
        lines.append(f"{change.status[:1].upper()} {shown_path(change.path)}{figures}{badge}{state}")
    return "\n".join(lines)


def first_what_runs(changes: Mapping[str, ChangeRow]) -> list[ChangeRow]:
    """The changes in their order, but those that somebody would run unasked stand first."""
    return sorted(changes.values(), key=lambda change: not change.runs)


def summary(changes: Mapping[str, ChangeRow]) -> str:
    """`2 applied, 1 conflict`; what waits is named as not yet in the project."""
    states = Counter(change.state for change in changes.values())
    waiting = states.pop("proposed", 0)
    words = [f"{number} {state_word(state)}" for state, number in states.items()]
    if waiting:
        words.insert(0, "not in the project yet" if waiting == len(changes) else f"{waiting} not in the project yet")
    return ", ".join(words)


def state_word(state: str) -> str:
    """What became of a file, in as few words as say it."""
    return "handed to the run that it works for" if state == "handed" else state


def plus_minus(added: int, removed: int) -> str:
    """`+12 −3`, coloured."""
    return f'<span class="kg-pm"><span class="kg-plus">+{added}</span> <span class="kg-minus">−{removed}</span></span>'


def _file(change: ChangeRow, data: bytes, *, live: bool, few: bool) -> str:
    sign, tone = _SIGNS.get(change.status, ("?", "soft"))
    state_tone, state = _STATES.get(change.state, ("soft", change.state))
    added, removed = counts(change.diff)
    figures = plus_minus(added, removed) if change.diff else ""
    size = f'<span class="kg-size">{data_size(change.size)}</span>' if change.size else ""
    if change.reason and change.state == "protected":
        state = f"{change.state}: {change.reason}"
    chip = f'<span class="kg-chip kg-{state_tone}">{escaped(state)}</span>' if state_tone else ""
    if change.runs:
        chip = f'<span class="kg-chip kg-warn" title="{escaped(change.runs)}">{RUNS}</span> {chip}'
    buttons = _buttons(change.path) if live and change.state == "proposed" else ""
    acts = f'<div class="kg-acts">{buttons}</div>' if buttons else ""
    shown = " open" if few and added + removed <= _OPEN_BELOW and change.state == "proposed" else ""
    return (
        f'<div class="kg-file"><details data-keep="{escaped("file:" + change.path)}"{shown}><summary>'
        f'<span class="kg-sign kg-{tone}" title="{escaped(change.status)}">{sign}</span> '
        f'<code class="kg-path">{escaped(shown_path(change.path))}</code> {figures} {size} {chip}'
        # Buttons inside a summary could not be told from it by a screen reader.
        f"</summary>{_content(change, data)}</details>{acts}</div>"
    )


def _content(change: ChangeRow, data: bytes) -> str:
    why = f'<div class="kg-label">Look at it before you apply it: {escaped(change.runs)}.</div>' if change.runs else ""
    return f"{why}{_difference(change, data)}"


def _difference(change: ChangeRow, data: bytes) -> str:
    preview = preview_html(change, data) if data else ""
    if change.diff:
        return f"{preview}{html_of([Diff(change.diff)])}"
    if preview:
        return preview
    if change.binary:
        what = binary_words(change, data)
    elif change.kind == "link":
        what = "A symbolic link."
    else:
        what = "No change of content." if change.status == "modified" else "An empty file."
    return f'<div class="kg-label">{escaped(what)}</div>'


def _buttons(path: str, *, alone: bool = False) -> str:
    """For one file, or with an empty path for all; `alone` when the whole is one file."""
    button = '<button type="button" class="kg-btn'
    if path:
        about, of, all_of = f'data-path="{escaped(path)}"', f" {escaped(path)}", ""
        first, second = "kg-small", "kg-quiet kg-small"
    else:
        about, of, all_of = "", " all changes", "" if alone else " all"
        first, second = "kg-primary", "kg-quiet"
    return (
        f'{button} {first}" data-act="apply" {about} aria-label="Apply{of}">Apply{all_of}</button> '
        f'{button} {second}" data-act="discard" {about} aria-label="Discard{of}">Discard{all_of}</button>'
    )
