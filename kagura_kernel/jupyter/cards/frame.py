"""Whole cards for a saved notebook: a frame, the style, the parts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from kagura_kernel.domain.events import ChangeRow
from kagura_kernel.jupyter.cards.changes import changes_html
from kagura_kernel.jupyter.cards.head import head_html
from kagura_kernel.jupyter.cards.items import end_html, item_html
from kagura_kernel.jupyter.cards.kit import kit_html
from kagura_kernel.jupyter.cards.learned_html import learned_html
from kagura_kernel.jupyter.cards.leases import leases_html
from kagura_kernel.jupyter.cards.network import network_html
from kagura_kernel.jupyter.cards.previews import Previews
from kagura_kernel.jupyter.cards.view import RunView
from kagura_kernel.jupyter.cards.words import run_label

STYLE_FILE = Path(__file__).with_name("style.css")

# Two prices on one card would otherwise be taken for a formula between dollar signs.
_NO_FORMULAS = "tex2jax_ignore mathjax_ignore"


@cache
def style() -> str:
    """The style sheet of all cards, without comments and line ends."""
    import re

    text = re.sub(r"/\*.*?\*/", "", STYLE_FILE.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"\s*([{}:;,>])\s*", r"\1", " ".join(text.split())).strip()


def run_html(view: RunView) -> str:
    """A run as it stays in the notebook."""
    above = "".join(draw(view, live=False) for draw in (head_html, kit_html, learned_html, leases_html))
    inside = above + body_html(view) + network_html(view, live=False)
    return framed(inside, run_label(view))


def body_html(view: RunView) -> str:
    """All parts below the head; empty when there are none."""
    parts = "".join(item_html(item, view, live=False) for item in view.items) + end_html(view)
    return f'<div class="kg-body">{parts}</div>' if parts else ""


def changes_card_html(changes: Mapping[str, ChangeRow], told: str = "", previews: Previews | None = None) -> str:
    """Changes as they stay in the notebook."""
    return framed(changes_html(changes, live=False, told=told, previews=previews or {}), "Changes of a run")


def framed(inside: str, label: str) -> str:
    """A card with its style, complete in itself."""
    return (
        f'<style>{style()}</style><div class="kg-card {_NO_FORMULAS}" role="region" aria-label="{label}">{inside}</div>'
    )
