"""Whole cards for a saved notebook: a frame, the style, the parts."""

from __future__ import annotations

from collections.abc import Mapping

from kagura_kernel.domain.events import ChangeRow
from kagura_kernel.jupyter.cards.changes import changes_html
from kagura_kernel.jupyter.cards.items import end_html, item_html
from kagura_kernel.jupyter.cards.previews import Previews
from kagura_kernel.render.html import html_of
from kagura_kernel.render.style import framed
from kagura_kernel.views import card
from kagura_kernel.views.run import RunView
from kagura_kernel.views.status import run_label


def run_html(view: RunView) -> str:
    """A run as it stays in the notebook."""
    above = [section(view, live=False) for section in (card.head, card.kit, card.learned, card.leases)]
    inside = "".join(map(html_of, above)) + body_html(view) + html_of(card.network(view, live=False))
    return framed(inside, run_label(view))


def body_html(view: RunView) -> str:
    """All parts below the head; empty when there are none."""
    parts = "".join(item_html(item, view, live=False) for item in view.items) + end_html(view)
    return f'<div class="kg-body">{parts}</div>' if parts else ""


def changes_card_html(changes: Mapping[str, ChangeRow], told: str = "", previews: Previews | None = None) -> str:
    """Changes as they stay in the notebook."""
    return framed(changes_html(changes, live=False, told=told, previews=previews or {}), "Changes of a run")
