"""A list of memories below a cell, with buttons; what they do is done in the memory, and shown as it is there then."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast, get_args

from kagura_kernel.cockpit.memory import Act
from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.domain.errors.memory import MemoryUnknown
from kagura_kernel.domain.memory import Memory
from kagura_kernel.jupyter.answers import aside
from kagura_kernel.jupyter.memory.memory_card import LABEL, memories_blocks, memories_bundle
from kagura_kernel.jupyter.memory.memory_line import MemoryLine
from kagura_kernel.jupyter.slots import Slot
from kagura_kernel.jupyter.surface import Surface, loop_runs, person, surface_of
from kagura_kernel.render.html import html_of

if TYPE_CHECKING:
    from kagura_kernel.cockpit.memory import MemoryDesk

VIA = "table"

_ACTS: frozenset[str] = frozenset(get_args(Act))


def show_memories(lines: Sequence[MemoryLine]) -> bool:
    """Show a live list below the cell; False where nobody could press its buttons."""
    shell = _shell()
    if shell is None or surface_of(shell) is not Surface.NOTEBOOK or not loop_runs():
        return False
    # Looked up here, so that a table holds nothing but its rows.
    from kagura_kernel.assembly import get_cockpit

    cockpit = get_cockpit()
    MemoryList(lambda: cockpit.memory, lines)
    return True


class MemoryList:
    """A live list. It stays open: nothing in it ends.

    Args:
        desk: Gives what a person does with memories.
        lines: What is shown first.
    """

    def __init__(self, desk: Callable[[], MemoryDesk], lines: Sequence[MemoryLine]) -> None:
        self._desk = desk
        self._lines = {line.id: line for line in lines}
        self._lock = threading.Lock()
        self._slot = Slot()
        shown, now = list(lines), datetime.now(UTC)
        html, still = html_of(memories_blocks(shown, now, live=True)), memories_bundle(shown, now)
        self._slot.open(LABEL, still[0]["text/plain"], {"all": html}, self._pressed, still)

    def _pressed(self, content: Mapping[str, Any]) -> None:
        act, memory_id = str(content.get("act") or ""), str(content.get("id") or "")
        if act in _ACTS and memory_id in self._lines:
            # A memory on a server may take its time.
            aside(lambda: self._do(cast("Act", act), memory_id))

    def _do(self, act: Act, memory_id: str) -> None:
        # One after the other, in the order in which they were pressed as nearly as can be.
        with self._lock:
            told = ""
            try:
                desk = self._desk()
                try:
                    desk.change(act, [memory_id], by=person(), via=VIA)
                    self._lines[memory_id] = as_now(self._lines[memory_id], desk.show(memory_id))
                except MemoryUnknown:
                    self._lines[memory_id] = replace(self._lines[memory_id], gone=True)
            except KaguraError as error:
                told = error.message
            blocks = memories_blocks(list(self._lines.values()), datetime.now(UTC), live=True)
            self._slot.show({"all": html_of(blocks)})
            # Frees the buttons too, which wait for an answer.
            self._slot.tell(told)
            self._slot.keep(lambda: memories_bundle(list(self._lines.values()), datetime.now(UTC)), at_once=True)


def as_now(line: MemoryLine, memory: Memory) -> MemoryLine:
    """A row with what may have changed since it was made."""
    forgotten = memory.forgotten_at is not None
    return replace(line, tier=memory.tier.value, pinned=memory.pinned, forgotten=forgotten, gone=False)


def _shell() -> Any:
    """IPython, where it is loaded at all."""
    module = sys.modules.get("IPython")
    get_ipython = getattr(module, "get_ipython", None)
    return get_ipython() if get_ipython is not None else None
