"""The frame of a card, and the style sheet that all cards share."""

from __future__ import annotations

from functools import cache
from pathlib import Path

STYLE_FILE = Path(__file__).with_name("style.css")

# Two prices on one card would otherwise be taken for a formula between dollar signs.
_NO_FORMULAS = "tex2jax_ignore mathjax_ignore"


@cache
def style() -> str:
    """The style sheet of all cards, without comments and line ends."""
    import re

    text = re.sub(r"/\*.*?\*/", "", STYLE_FILE.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"\s*([{}:;,>])\s*", r"\1", " ".join(text.split())).strip()


def framed(inside: str, label: str) -> str:
    """A card with its style, complete in itself."""
    return (
        f'<style>{style()}</style><div class="kg-card {_NO_FORMULAS}" role="region" aria-label="{label}">{inside}</div>'
    )
