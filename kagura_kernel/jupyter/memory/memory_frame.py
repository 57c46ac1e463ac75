"""What `%kagura recall` and `memory list` give: a DataFrame to work with, which as the end of a cell is a card."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pandas as pd

from kagura_kernel.jupyter.errors import calm
from kagura_kernel.jupyter.memory.memory_line import MemoryLine

_NEEDED = frozenset({"tier", "type", "source", "age", "why_matched", "summary", "text", "pinned", "at", "score"})


class MemoryFrame(pd.DataFrame):
    """Memories as they were when they were asked for. What is taken out of it is an ordinary DataFrame.

    It is not changed by the buttons of its card: ask again for what is so now.
    """

    def lines(self) -> list[MemoryLine]:
        """Its rows, as the card shows them."""
        return [_line(str(name), row) for name, row in zip(self.index, self.to_dict("records"), strict=True)]

    def __repr__(self) -> str:
        """Two lines for each memory; what is not trusted is marked."""
        from kagura_kernel.jupyter.memory.memory_card import memories_blocks
        from kagura_kernel.render.text import lines_of

        if not self._whole():
            return super().__repr__()
        return "\n".join(lines_of(memories_blocks(self.lines(), datetime.now(UTC), live=False)))

    def _repr_html_(self) -> str:
        """The card without its buttons; IPython shows this in place of the columns."""
        from kagura_kernel.jupyter.memory.memory_card import LABEL, memories_blocks
        from kagura_kernel.render.html import html_of
        from kagura_kernel.render.style import framed

        if not self._whole():
            return str(pd.DataFrame(self).to_html(max_rows=pd.get_option("display.max_rows")))
        return framed(html_of(memories_blocks(self.lines(), datetime.now(UTC), live=False)), LABEL)

    def _ipython_display_(self) -> None:
        """Show the card with buttons, where somebody can press them.

        Raises:
            NotImplementedError: nobody can; IPython shows the table then.
        """
        from kagura_kernel.jupyter.memory.live_memories import show_memories

        if not self._whole():
            raise NotImplementedError
        with calm():
            if not show_memories(self.lines()):
                raise NotImplementedError

    def _whole(self) -> bool:
        """Whether nobody has taken a column out of it."""
        return set(self.columns) >= _NEEDED


def _line(name: str, row: dict[Any, Any]) -> MemoryLine:
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
