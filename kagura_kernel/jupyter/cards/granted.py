"""What a run was given beyond an ordinary one: one quiet line in the head, and nothing for an ordinary run."""

from __future__ import annotations

from kagura_kernel.domain.events import RunGranted
from kagura_kernel.domain.hosts import shown_word
from kagura_kernel.domain.visible import visible
from kagura_kernel.render.escape import escaped
from kagura_kernel.views.run import RunView

_SHOWN = 12
_WHO = {"settings": "allowed by your settings", "this session": "allowed earlier in this session"}


def granted_html(view: RunView, *, live: bool) -> str:
    """The line; empty when the grant does not exceed the baseline."""
    granted = view.granted
    if granted is None or not granted.beyond:
        return ""
    # Paths of this machine and names of people stay out of a card that has to come out the same elsewhere.
    here = live or not view.repeatable
    parts = " ".join(f"<b>{name}</b> {escaped(what)}" for name, what in granted_parts(granted, here=here))
    who = _WHO.get(granted.by, f"allowed by {granted.by}")
    by = f" — {escaped(who)}" if here and granted.by else ""
    return f'<div class="kg-grant">{parts}{by}</div>' if parts else ""


def granted_text(view: RunView) -> list[str]:
    """The same as lines, without anything of this machine."""
    granted = view.granted
    if granted is None or not granted.beyond:
        return []
    return [f"{name.lower()}: {visible(what)}" for name, what in granted_parts(granted, here=False)]


def granted_parts(granted: RunGranted, *, here: bool) -> list[tuple[str, str]]:
    """`May reach`, `May hold`, `Sees`, `May change`, each with what; only those that there are."""
    sees = [
        f"{mount.source if here else mount.target}{' (read only)' if mount.mode == 'read' else ''}"
        for mount in granted.mounts
        if mount.target != "/workspace"
    ]
    parts = [
        ("May reach", [shown_word(word) for word in granted.egress if word != "ask"]),
        ("May hold", list(granted.credentials)),
        ("Sees", sees),
        ("May change", ["its whole system, which is gone with the box"] if granted.writable_root else []),
    ]
    return [(name, _listed(found)) for name, found in parts if found]


def _listed(words: list[str]) -> str:
    more = len(words) - _SHOWN
    return ", ".join(words[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
