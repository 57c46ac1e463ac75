"""`kagura-kernel serve`: the chats of the settings, until it is told to stop."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace

from kagura_kernel.assembly import close_cockpit
from kagura_kernel.assembly.chat_server import check_served, make_server
from kagura_kernel.cli.output import for_terminal
from kagura_kernel.cli.run import leave_at_once, signals_heard
from kagura_kernel.cli.warm_up import warm
from kagura_kernel.cockpit.served import only_server
from kagura_kernel.cockpit.transports.transport import TransportError, TransportRefused
from kagura_kernel.domain.errors import JournalUnreadable, JournalUnwritable, KaguraError
from kagura_kernel.domain.visible import visible
from kagura_kernel.journal.place import data_home

_GARBAGE = (700, 10, 10)
"""Python's own figures; the program raises them for commands that are over before there is any garbage."""

TRY_AGAIN = 75
"""The exit code, EX_TEMPFAIL of sysexits.h, for what may be over by itself: whoever supervises us starts us again."""


def serve(arguments: SimpleNamespace) -> int:
    """Serve; 0 once it was stopped in good order, `TRY_AGAIN` where the journal or a chat is away, which may pass.

    Raises:
        NotThisTime: no chat is set up.
        ServedAlready: another process serves this data directory.
        KaguraError: the settings are wrong, or no chat lets us in.
    """
    check_served(os.environ)
    try:
        with only_server(data_home(os.environ)):
            warm()
            try:
                asyncio.run(_serve(arguments.drain, container=arguments.container))
            finally:
                close_cockpit()
    except KaguraError as error:
        if not _may_pass(error):
            raise
        _tell(f"{error.code}: {error.message}")
        return TRY_AGAIN
    return 0


def _may_pass(error: KaguraError) -> bool:
    """Whether it may be over by itself: a database that is not up yet, a full disk, a connection that has ended."""
    passing = isinstance(error, (JournalUnreadable, JournalUnwritable, TransportError))
    return passing and not isinstance(error, TransportRefused)


async def _serve(drain: float, *, container: bool) -> None:
    asked = asyncio.Event()
    with _listening(asked.set):
        try:
            server = await make_server(os.environ, _tell, _give_back, container=container)
            # What was made so far stays for good.
            gc.collect()
            gc.freeze()
            gc.set_threshold(*_GARBAGE)
            # Whoever does not want it any more before it serves is heard too.
            stopping = asyncio.ensure_future(asked.wait())
            stopping.add_done_callback(lambda _: server.stop())
            await server.serve(drain)
            stopping.cancel()
        finally:
            # While a second signal is still heard.
            await asyncio.to_thread(close_cockpit)


@contextmanager
def _listening(stop: Callable[[], None]) -> Iterator[None]:
    """The first signal stops calmly, the second one ends the process; on the loop of the calling task."""
    heard: list[signal.Signals] = []

    def hear(number: signal.Signals) -> None:
        if heard:
            leave_at_once(number)
        heard.append(number)
        stop()

    with signals_heard(hear):
        yield


def _give_back() -> None:
    """Give back to the system what runs have left in memory: Python and the C library keep it for more otherwise."""
    gc.collect()
    # Only glibc has it, and a process may do without.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _tell(line: str) -> None:
    print(visible(for_terminal(line)), file=sys.stderr, flush=True)
