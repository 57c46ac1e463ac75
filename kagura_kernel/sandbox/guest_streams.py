"""Connections that programs in a box make to the guest's own listeners: the seam behind which they are served.

A box has no network. A listener lies on the loopback of the box; each connection to it becomes a stream on the pipe,
and whoever asked for the listener serves it on the host. What a stream says about itself is the box's word.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Listener:
    """A loopback port in the box.

    Attributes:
        port: TCP port on 127.0.0.1 and, where the box has it, ::1; 0 lets the box choose.
        front: `proxy` speaks HTTP (CONNECT and absolute form) and SOCKS 5 with its clients, and each stream's request
            names `host` and `port` as the client wrote them. `raw` says nothing: the bytes are the stream.
        name: Told in each stream's request, for whoever serves several.
    """

    port: int
    front: Literal["proxy", "raw"] = "raw"
    name: str = ""


class GuestStream(Protocol):
    """One connection. Flow-controlled both ways; at most one reader and one writer at a time.

    Order of calls: first `accept` or `refuse`, once, and `gone` any time before; no byte passes before. After `accept`:
    any number of `read` and `write`, side by side; then `write_eof`; `abort` or `close` at any time, last, and more
    than once without harm.
    """

    @property
    def request(self) -> Mapping[str, Any]:
        """What the guest said about it: `name`, and for a `proxy` listener `host` (text) and `port` (whole number)."""
        ...

    async def gone(self) -> None:
        """Return when the program, or the box, has gone before it was answered; one waiter at a time. Never raises.

        A program that has only stopped sending has not gone. What is known of it comes from the box, a moment late.
        """
        ...

    async def accept(self) -> None:
        """Tell the program that it has its connection.

        Raises:
            OSError: the program or the box is gone.
        """
        ...

    async def refuse(self, status: int, text: str) -> None:
        """Tell the program why it has none, in its protocol's words; `status` is an HTTP proxy's. Then `close`."""
        ...

    async def read(self, limit: int) -> Bytes:
        """1 to `limit` bytes, waiting for the first; empty when the program has no more to send.

        What is not read is not taken from the box. The buffer is good until the next call.

        Raises:
            OSError: the program or the box is gone, or it broke its protocol.
        """
        ...

    async def write(self, data: Bytes) -> None:
        """Hand all of `data` over; returns when there is room for more. The buffer is the caller's again after it.

        Raises:
            OSError: the program or the box is gone.
        """
        ...

    async def write_eof(self) -> None:
        """No more bytes for the program; it may go on sending."""
        ...

    def abort(self) -> None:
        """End it so that the program cannot take what it has for the whole: a reset, no end of file."""
        ...

    def close(self) -> None:
        """End it, and free what it holds: in order after `write_eof`, with a reset without it."""
        ...


ServeStream = Callable[[GuestStream], Awaitable[None]]
"""Serves one connection to its end, in a task of its own on the box's loop; cancelled when the box goes.

The stream is closed when it returns, and reset when it raises.
"""

Failed = Callable[[BaseException], None]
"""Told what serving a connection raised, on the box's loop; other connections go on."""
