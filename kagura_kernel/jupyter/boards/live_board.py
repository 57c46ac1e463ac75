"""What all live boards do: show lines of the journal below a cell, and go on until nothing of them goes on any more."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.jupyter.slots import Slot, write_once
from kagura_kernel.jupyter.surface import loop_runs
from kagura_kernel.render.blocks import Blocks
from kagura_kernel.render.bundle import Bundle, drawn
from kagura_kernel.render.html import html_of
from kagura_kernel.render.text import lines_of

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit

LOOK_SECONDS = 0.5
"""How often the journal is asked; the front end hears only of what changed."""

Line = TypeVar("Line")


class LiveBoard(ABC, Generic[Line]):
    """A live board of one kind. It ends, and stays as it is then, when nothing goes on or another of its kind opens."""

    label: ClassVar[str]  # For screen readers
    current: ClassVar[LiveBoard[Any] | None] = None  # Of each kind the one that lives: the one that was asked for last

    @classmethod
    def show(cls, cockpit: Cockpit) -> bool:
        """Show it below the cell; live while something goes on. False where no loop runs that could keep it so.

        Raises:
            JournalError: the journal cannot be read.
        """
        if not loop_runs():
            return False
        if cls.current is not None:
            cls.current.end()
        lines, going = cls.look(cockpit)
        if going:
            cls.current = cls(cockpit, lines)
        else:
            write_once(cls.bundle(lines, datetime.now(UTC)))
        return True

    def __init__(self, cockpit: Cockpit, lines: Sequence[Line]) -> None:
        self._cockpit = cockpit
        self._lines = lines
        self._slot = Slot()
        now = datetime.now(UTC)
        blocks = self.blocks(lines, now, live=True)
        text = "\n".join(lines_of(blocks))
        self._slot.open(self.label, text, {"all": html_of(blocks)}, self._pressed, self.kept(lines))
        self._watching = asyncio.ensure_future(self._watch())

    def end(self) -> None:
        """Show it as it is, without buttons; nothing happens the second time."""
        kind = type(self)
        if kind.current is self:
            kind.current = None
            self._watching.cancel()
            self._slot.write(self.bundle(self._lines, datetime.now(UTC)))

    @staticmethod
    @abstractmethod
    def look(cockpit: Cockpit) -> tuple[Sequence[Line], bool]:
        """The lines as they are now, and whether anything goes on. On any thread."""

    @staticmethod
    @abstractmethod
    def blocks(lines: Sequence[Line], now: datetime, *, live: bool) -> Blocks:
        """The board; without `live` it has no buttons, and says when it was so."""

    @staticmethod
    @abstractmethod
    def record(lines: Sequence[Line], now: datetime) -> dict[str, Any]:
        """The same for programs, by MIME type."""

    @classmethod
    def bundle(cls, lines: Sequence[Line], now: datetime) -> Bundle:
        """The finished form."""
        return drawn(cls.blocks(lines, now, live=False), cls.label) | cls.record(lines, now), {}

    def kept(self, lines: Sequence[Line]) -> Bundle | None:
        """What a notebook that is saved at once holds; None for the text alone."""
        del lines
        return None

    def in_sight(self) -> bool:
        """Whether a front end may still show it."""
        return True

    @abstractmethod
    def _pressed(self, content: Mapping[str, Any]) -> None:
        """Act on a button."""

    async def _watch(self) -> None:
        try:
            going = True
            while going and self.in_sight():
                await asyncio.sleep(LOOK_SECONDS)
                # A journal on another machine may take its time: the kernel's loop goes on meanwhile.
                lines, going = await asyncio.to_thread(self.look, self._cockpit)
                if lines != self._lines:
                    self._lines = lines
                    self._slot.show({"all": html_of(self.blocks(lines, datetime.now(UTC), live=True))})
        except KaguraError:
            # The journal was closed or lost; whoever asks it next is told.
            pass
        self.end()
