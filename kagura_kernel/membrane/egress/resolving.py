"""Asking the system's resolver, in a thread; it answers once and is not asked again."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to addresses as text, in the order to try them. Raises OSError when there are none.

The addresses are judged by whoever asked; a resolver judges nothing and may remember nothing.
"""

THREADS = 16


class SystemResolver:
    """What this machine says a name is: its hosts file, then its name servers. Belongs to one loop.

    A look-up cannot be interrupted. One that is given up goes on in its thread until the system gives up too; there are
    few threads, and who finds them all busy waits. The threads never keep the process from ending.

    Args:
        threads: Look-ups at once.
    """

    def __init__(self, threads: int = THREADS) -> None:
        self._room = asyncio.Semaphore(threads)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a host, each once.

        Raises:
            OSError: there is none, or nobody could say.
            UnicodeError: the system takes it for no name.
        """
        await self._room.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def settle(found: list[str] | OSError | UnicodeError) -> None:
            # Whoever asked may have left; the thread is free only now.
            self._room.release()
            if answer.done():
                return
            if isinstance(found, list):
                answer.set_result(found)
            else:
                answer.set_exception(found)

        def work() -> None:
            found: list[str] | OSError | UnicodeError
            try:
                found = _look_up(host, port)
            except (OSError, UnicodeError) as error:
                found = error
            with contextlib.suppress(RuntimeError):  # a loop that is closed has nobody waiting on it
                loop.call_soon_threadsafe(settle, found)

        # Not from a pool: Python waits for those of a pool when it ends, and a name server can be silent for long.
        threading.Thread(target=work, name="kagura-resolve", daemon=True).start()
        return await answer


def _look_up(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
