"""One program's connection to a listener in the box, from its first byte to the end of its stream.

Nothing is read from a program without the host's credit, but the head in which it says where it wants to go; what the
host sends and the program does not take waits here, at most one window of it.
"""

from __future__ import annotations

import os
import select
from _socket import SHUT_WR, SO_ERROR, SO_LINGER, SOL_SOCKET
from struct import pack

from . import frames
from .loop import GONE, PAUSED, READ, SILENT, WRITE
from .proxy import VERSION, BadGreeting, BadRequest, HttpFront, SocksFront

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from _socket import socket
    from typing import Any, Protocol

    from .loop import Link, Loop

    Front = HttpFront | SocksFront

    class Hub(Protocol):
        """What all clients share; `listeners.Listening`."""

        loop: Loop
        link: Link

        def asked(self, client: Client) -> tuple[int, int]:
            """It wants a connection: the id of its stream, and what it may be sent before it gives credit."""
            ...

        def spoken(self, client: Client) -> None:
            """It has said what it wants, understood or not."""
            ...

        def silent(self, client: Client) -> None:
            """It has stopped sending before it was answered."""
            ...

        def closed(self, client: Client) -> None:
            """Its socket is closed."""
            ...


HEAD_CHUNK = 16 * 1024
MAX_HOST = 1024
LINGER_SECONDS = 1.0
LINGER_BYTES = 256 * 1024

HEAD = 0  # it says where it wants to go
ASKED = 1  # the host has not answered
OPEN = 2
ENDING = 3  # the last bytes for it, then the end
OVER = 4


class Client:
    """One connection to a listener, named by the host's stream that asked for it; it owns the socket."""

    def __init__(self, hub: Hub, listener: int, front: str, connection: socket) -> None:
        self._hub = hub
        self._listener = listener
        self._raw = front == frames.RAW
        self._loop = self._hub.loop
        self._link = self._hub.link
        self._socket = connection
        self._fd = connection.fileno()
        self._stream = 0
        self._state = HEAD
        self._front: Front | None = None
        self._early = b""  # bytes for the host that came with the head
        self._may_send = 0
        self._waits = False  # for the link to have room
        self._told_eof = False
        self._heard_eof = False
        self._hung_up = False
        self._silent = False
        self._out = bytearray()
        self._own = 0  # how many of the next bytes in `_out` are the front's words, not the host's
        self._window = 0
        self._owed = 0
        self._no_more_out = False
        self._shut = False
        self._linger_left = LINGER_BYTES
        self._let_go = False

    def start(self) -> None:
        """Listen to it; a program at a raw listener has said all that there is to say."""
        self._loop.watch(self._fd, 0, self._ready)
        if self._raw:
            self._ask({})
        self._arm()

    @property
    def waits(self) -> bool:
        """Whether the host has not answered."""
        return self._state == ASKED

    @property
    def ports(self) -> tuple[int, int]:
        """The program's port, 0 when it has broken the connection off, and the one that it came to."""
        try:
            theirs = self._socket.getpeername()[1]
        except OSError:
            theirs = 0
        return theirs, self._socket.getsockname()[1]

    def drop(self) -> None:
        """End it at once, without a word; its stream too, if there is one."""
        if self._state == OVER:
            return
        self._state = OVER
        self._loop.cancel(self)
        self._loop.forget(self._fd)
        self._socket.close()
        self._out.clear()
        self._early = b""
        self._hub.closed(self)
        if self._stream:
            self._release()

    def _reset(self) -> None:
        """End it so that the program cannot take what it has for the whole."""
        if self._state != OVER:
            self._socket.setsockopt(SOL_SOCKET, SO_LINGER, pack("ii", 1, 0))
            self.drop()

    def _release(self) -> None:
        if not self._let_go:
            self._let_go = True
            self._link.send_json(frames.CANCEL, self._stream, {})

    # ----------------------------------------------------------------- events

    def _ready(self, events: int) -> None:
        if events & select.EPOLLERR and self._socket.getsockopt(SOL_SOCKET, SO_ERROR):
            self.drop()
            return
        if events & select.EPOLLHUP:
            self._hung_up = True
        if events & WRITE:
            self._flush()
        if events & (READ | GONE):
            if self._state == HEAD:
                self._read_head()
            elif self._state == OPEN:
                self._read()
            elif self._state == ENDING:
                self._discard()
        if events & SILENT and self._state == ASKED:
            self._silent = True
            self._hub.silent(self)
        self._arm()

    def _arm(self) -> None:
        if self._state == OVER:
            return
        interest = READ if self._wants_more() else 0
        if self._out:
            interest |= WRITE
        if self._state == ASKED and not self._silent:
            interest |= SILENT
        # A hang-up would be told again and again, and there is nothing to do about it now.
        self._loop.change(self._fd, PAUSED if self._hung_up and not interest else interest)

    def _wants_more(self) -> bool:
        if self._state == OPEN:
            return self._may_send > 0 and not (self._told_eof or self._early or self._waits)
        return self._state == HEAD or (self._state == ENDING and not self._out)

    # ------------------------------------------------------------------- head

    def _read_head(self) -> None:
        try:
            data = os.read(self._fd, HEAD_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.drop()
            return
        if self._front is None:
            self._front = SocksFront() if data[0] == VERSION else HttpFront()
        try:
            early = self._front.feed(data)
        except BadRequest as problem:
            self._say_no(problem.status, str(problem))
        except BadGreeting as problem:
            self._put(self._front.take_reply() + problem.reply)
            self._say_no(problem.status, str(problem))
        else:
            self._put(self._front.take_reply())
            if self._state == HEAD and self._front.target is not None:
                self._early = early
                self._ask_for(*self._front.target)

    def _ask_for(self, host: str, port: int) -> None:
        if len(host) > MAX_HOST:
            self._say_no(400, "the name of the host is too long")
        else:
            self._ask({"host": host, "port": port})

    def _ask(self, target: dict[str, Any]) -> None:
        self._state = ASKED
        self._stream, self._window = self._hub.asked(self)
        request = {"kind": frames.CONNECTION, "listener": self._listener, "credit": self._window}
        self._link.send_json(frames.OPEN, self._stream, {**request, **target})

    def _say_no(self, status: int, text: str) -> None:
        """Answer in the program's protocol, and end when it has heard it."""
        if self._state == OVER:
            return
        if self._front is None:
            self._reset()
            return
        self._hub.spoken(self)
        self._put(self._front.refused(status, text))
        self._end_in_order()

    # ------------------------------------------------------- what the host says

    def accepted(self, credit: int) -> None:
        """It has its connection, and may send so many bytes."""
        if self._state != ASKED:
            return
        self._state = OPEN
        self._may_send = credit
        if self._front is not None:
            self._put(self._front.accepted())
        self._go_on()

    def feed(self, payload: memoryview) -> None:
        """Bytes for the program."""
        if self._state != OPEN:
            return
        taken = 0 if self._out else self._write(payload)
        if self._state == OVER:
            return
        self._taken(taken)
        if taken < len(payload):
            self._out += payload[taken:]
            self._arm()

    def end_output(self) -> None:
        """There are no more bytes for the program."""
        if self._state == OPEN:
            self._no_more_out = True
            self._flush()
            self._arm()

    def add_credit(self, count: int) -> None:
        """The host has taken `count` bytes."""
        self._may_send += count
        if self._state == OPEN:
            self._go_on()

    def ended(self, outcome: dict[str, Any]) -> None:
        """The host has let go of the stream."""
        self._release()
        if self._state == ASKED and "status" in outcome:
            self._say_no(outcome["status"], outcome["text"])
        elif "error" in outcome:
            self._reset()
        elif self._state != OVER:
            self._end_in_order()
        self._arm()

    # ---------------------------------------------------------- to the program

    def _put(self, words: bytes) -> None:
        """Words of the front's own; they come before anything of the host's."""
        if not words or self._state == OVER:
            return
        taken = 0 if self._out else self._write(words)
        if self._state != OVER and taken < len(words):
            self._out += words[taken:]
            self._own += len(words) - taken

    def _write(self, data: bytes | bytearray | memoryview) -> int:
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0
        except OSError:
            self.drop()
            return 0

    def _flush(self) -> None:
        while self._out:
            taken = self._write(self._out)
            if not taken:
                return
            del self._out[:taken]
            own = min(taken, self._own)
            self._own -= own
            self._taken(taken - own)
        if self._state == ENDING:
            self._finish()
        elif self._state == OPEN and self._no_more_out and not self._shut:
            self._shut_down()
            if self._front is not None and not self._front.tunnel:
                self._tell_eof()  # the answer is over, and with it what the program may ask for

    def _taken(self, count: int) -> None:
        self._owed += count
        if self._owed >= self._window // 4 and self._state == OPEN:
            self._link.send(frames.CREDIT, self._stream, frames.CREDIT_BODY.pack(self._owed))
            self._owed = 0

    def _shut_down(self) -> None:
        self._shut = True
        try:
            self._socket.shutdown(SHUT_WR)
        except OSError:
            return  # the program went first

    # ------------------------------------------------------------ to the host

    def _go_on(self) -> None:
        self._waits = False
        if self._state == OPEN:
            while self._early and self._may_send > 0:
                if self._link.full:
                    self._wait()
                    break
                part = self._early[: self._may_send]
                self._early = self._early[len(part) :]
                self._send(part)
            if not self._early:
                self._read()
        self._arm()

    def _wait(self) -> None:
        self._waits = True
        self._link.when_free(self._go_on)

    def _read(self) -> None:
        if not self._wants_more():
            return
        if self._link.full:
            self._wait()
            return
        try:
            data = os.read(self._fd, min(self._may_send, frames.MAX_DATA))
        except BlockingIOError:
            return
        except OSError:
            self.drop()
            return
        if not data:
            self._heard_eof = True
            self._tell_eof()
        elif self._front is None or self._front.tunnel:
            self._send(data)
        else:
            try:
                self._send(self._front.feed(data))
            except BadRequest:
                self._reset()

    def _send(self, data: bytes) -> None:
        self._may_send -= len(data)
        if data:
            self._link.send(frames.DATA, self._stream, data)

    def _tell_eof(self) -> None:
        if not self._told_eof:
            self._told_eof = True
            self._link.send(frames.EOF, self._stream)

    # -------------------------------------------------------------------- end

    def _end_in_order(self) -> None:
        if self._state != OVER:
            self._state = ENDING
            self._flush()

    def _finish(self) -> None:
        """All is said; closing over unread bytes would take it back, so what still comes is read for a moment."""
        if not self._shut:
            self._shut_down()
        if self._heard_eof:
            self.drop()
        else:
            self._loop.after(self, LINGER_SECONDS, self.drop)

    def _discard(self) -> None:
        try:
            count = len(os.read(self._fd, HEAD_CHUNK))
        except BlockingIOError:
            return
        except OSError:
            count = 0
        self._linger_left -= count
        if not count or self._linger_left <= 0:
            self.drop()
