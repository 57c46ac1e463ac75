"""The pipe to a guest in a pod: the API's WebSocket, whose messages begin with the number of a channel.

The official client connects it and takes its frames apart. The loop alone reads and writes the connection: TLS takes
no two threads at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from typing import Any

from kagura_kernel.sandbox.pipe import Buffer, PipeSink, Waiting

_STDIN, _STDOUT, _STDERR, _ERROR, _CLOSE = 0, 1, 2, 3, 255
_V5 = "v5.channel.k8s.io"

# What goes into one message; servers on the way take 64 KiB at least.
_PIECE = 32 * 1024
_PING_SECONDS = 20.0
_SILENCE = 60.0
_PATIENCE = 2.0
_LAST_WORDS = 4096
# Frames read at once, so that a loud guest does not keep the loop from the others.
_FRAMES = 16
_NOTHING_YET = (BlockingIOError, ssl.SSLWantReadError)


class ExecPipe:
    """A `Pipe` over one exec stream: a `websocket.WebSocket`, connected already. It closes it."""

    # What the client says of its types is not all of them.
    def __init__(self, stream: Any) -> None:
        self._socket = stream
        self._socket.settimeout(0)
        self._fd: int = self._socket.fileno()
        self._loop = asyncio.get_running_loop()
        self._sink: PipeSink | None = None
        self._out = Waiting()
        self._fragments = bytearray()
        self._heard = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._writing = False
        self._closed = False
        self._gone = False
        self.words = ""  # The last of standard error, and of what the server says of the stream

    @property
    def backlog(self) -> int:
        """Bytes written and not yet taken by the other end."""
        return self._out.size

    def start(self, sink: PipeSink) -> None:
        """Begin to read; called once, on the running loop."""
        self._sink = sink
        self._heard = self._loop.time()
        self._timer = self._loop.call_later(_PING_SECONDS, self._ask)
        self._loop.add_reader(self._fd, self._turn)
        # TLS may have taken the first messages off the socket together with the handshake.
        self._loop.call_soon(self._turn)

    def write(self, *parts: Buffer) -> None:
        """Send all of `parts`, in order; never blocks, never raises for a pipe that is gone."""
        if self._closed or self._gone:
            return
        data = b"".join(parts)
        for begin in range(0, len(data), _PIECE):
            self._say(bytes((_STDIN,)) + data[begin : begin + _PIECE])
        self._push()

    async def drained(self) -> None:
        """Return when the backlog is small (again), or the pipe is gone."""
        await self._out.drained()

    def close(self) -> None:
        """Stop reading and writing and free the connection; may be called twice."""
        if self._closed:
            return
        self._closed = True
        if not self._gone:
            # The guest reads the end of its input before the connection is gone.
            if self._socket.getsubprotocol() == _V5:
                self._say(bytes((_CLOSE, _STDIN)))
            self._say(b"", _CLOSING)
            self._push()
        self._out.let_go()
        if self._out.parts and not self._loop.is_closed():
            self._loop.call_later(_PATIENCE, self._shut)
        else:
            self._shut()

    # ------------------------------------------------------------ on the loop

    def _turn(self) -> None:
        """Take what has come, and send what waits: TLS may need either for the other."""
        if self._gone:
            return
        try:
            blocked = self._pull()
        # The client raises what sockets, TLS and its own reader raise.
        except Exception as error:  # noqa: BLE001
            self._end(f"its connection broke ({error})" if str(error) else "its connection ended")
            return
        self._push(also=blocked)

    def _pull(self) -> bool:
        """Take the frames that have come; whether TLS has to write before it can read on."""
        for _ in range(_FRAMES):
            try:
                frame = self._socket.recv_frame()
            except _NOTHING_YET:
                return False
            except ssl.SSLWantWriteError:
                return True
            self._heard = self._loop.time()
            if frame.opcode == _CLOSING:
                self._end("its connection ended")
            elif frame.opcode == _PING:
                self._say(frame.data, _PONG)
            elif frame.opcode in (_MORE, _TEXT, _BINARY):
                self._fragments += frame.data
                if frame.fin:
                    message, self._fragments = self._fragments, bytearray()
                    self._take(message)
            if self._gone:
                return False
        # What TLS holds already is not seen by who waits for the socket.
        self._loop.call_soon(self._turn)
        return False

    def _take(self, message: bytearray) -> None:
        if self._closed or not message:
            return
        channel, data = message[0], memoryview(message)[1:]
        if channel == _STDOUT and self._sink is not None and data:
            self._sink.feed(data)
        elif channel == _STDERR:
            self.words = (self.words + bytes(data).decode("utf-8", "replace"))[-_LAST_WORDS:]
        elif channel == _ERROR:
            with contextlib.suppress(ValueError):
                told: Any = json.loads(bytes(data))
                if isinstance(told, dict) and told.get("status") != "Success":
                    self.words = f"{self.words}\n{told.get('message', '')}"[-_LAST_WORDS:]

    def _say(self, data: bytes, code: int | None = None) -> None:
        from websocket import ABNF

        self._out.add(ABNF.create_frame(data, _BINARY if code is None else code).format())

    def _push(self, *, also: bool = False) -> None:
        """Send what the connection takes; wait for it if something is left, or TLS asks for it `also`."""
        wait = also
        try:
            while self._out.parts:
                self._out.taken(self._socket.sock.send(self._out.parts[0]))
        except (BlockingIOError, ssl.SSLWantWriteError):
            wait = True
        except ssl.SSLWantReadError:
            pass
        except OSError:
            # The reading side hears of the end too, with all that was sent before it.
            self._out.clear()
        self._watch_out(on=wait)
        if self._closed and not self._out.parts:
            self._shut()

    def _watch_out(self, *, on: bool) -> None:
        if on is self._writing or self._loop.is_closed():
            return
        self._writing = on
        if on:
            self._loop.add_writer(self._fd, self._turn)
        else:
            self._loop.remove_writer(self._fd)

    def _ask(self) -> None:
        """Ask the other end now and then whether it is there; a line that is silent though it is asked has broken."""
        if self._closed or self._gone:
            return
        if self._loop.time() - self._heard > _SILENCE:
            self._end(f"its connection broke (nothing came for {_SILENCE:.0f} seconds)")
            return
        self._say(b"", _PING)
        self._push()
        self._timer = self._loop.call_later(_PING_SECONDS, self._ask)

    def _end(self, why: str) -> None:
        told = self._closed
        self._shut()
        if self._sink is not None and not told:
            self._sink.ended(why)

    def _shut(self) -> None:
        """Free the connection."""
        if self._gone:
            return
        self._gone = True
        self._out.clear()
        self._watch_out(on=False)
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._fd)
        self._socket.shutdown()


_MORE, _TEXT, _BINARY, _CLOSING, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
