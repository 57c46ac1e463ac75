"""One memory as a value, which as the end of a cell is all that is known of it."""

from __future__ import annotations

from datetime import UTC, datetime

from kagura_kernel.cockpit.memory_words import memory_lines
from kagura_kernel.domain.memory import Memory
from kagura_kernel.domain.visible import visible
from kagura_kernel.jupyter.memory.memory_card import memory_blocks
from kagura_kernel.jupyter.memory.memory_line import line_of
from kagura_kernel.render.html import html_of
from kagura_kernel.render.style import framed


class MemoryText:
    """One memory."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def __repr__(self) -> str:
        return "\n".join(map(visible, memory_lines(self.memory, datetime.now(UTC))))

    def _repr_html_(self) -> str:
        """The same as a card."""
        return framed(html_of(memory_blocks(line_of(self.memory), self.memory, datetime.now(UTC))), "Memory")
