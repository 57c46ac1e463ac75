"""Blocks in all the forms that an output of a notebook holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kagura_kernel.render.blocks import Block
from kagura_kernel.render.html import html_of
from kagura_kernel.render.style import framed
from kagura_kernel.render.text import lines_of

Bundle = tuple[dict[str, Any], dict[str, Any]]
"""MIME data and metadata, as displays take them."""


def drawn(blocks: Iterable[Block], label: str) -> dict[str, Any]:
    """Plain text and HTML of a card.

    Args:
        blocks: What is in it.
        label: What a screen reader calls it.
    """
    whole = tuple(blocks)
    return {"text/plain": "\n".join(lines_of(whole)), "text/html": framed(html_of(whole), label)}
