"""What a person does with memories where there is no cockpit, such as in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING

from kagura_kernel.assembly.kits import redactor_of
from kagura_kernel.assembly.memories import LazyMemory
from kagura_kernel.cockpit.memory import MemoryDesk, MemorySurroundings
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.journal.place import data_home, read_settings

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal


@contextmanager
def memory_desk(environ: Mapping[str, str]) -> Iterator[MemoryDesk]:
    """A desk on the memory of the settings; the journal is opened by whatever changes something.

    Raises:
        ConfigurationError: the settings are wrong.
    """
    settings, home, clock = read_settings(environ), data_home(environ), SystemClock()
    memory = LazyMemory(environ, settings, home, clock)
    with ExitStack() as stack:
        stack.callback(memory.close)

        @cache
        def journal() -> Journal:
            from kagura_kernel.journal.store import Journal

            opened = Journal.open(settings.journal_url or home, clock=clock)
            stack.callback(opened.close)
            return opened

        yield MemoryDesk(MemorySurroundings(memory, journal, clock, home, redactor=redactor_of(home)))
