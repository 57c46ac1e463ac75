"""The pipe to a guest in a pod: the API's WebSocket, whose messages begin with the number of a channel.

The official client reads and writes it with calls that block, so each direction has a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from kagura_kernel.sandbox.pipe import LOW, Buffer, PipeSink

if TYPE_CHECKING:
    from websocket import WebSocket

_STDIN, _STDOUT, _STDERR, _ERROR, _CLOSE = 0, 1, 2, 3, 255
_V5 = "v5.channel.k8s.io"

# What goes into one message; servers on the way take 64 KiB at least.
_PIECE = 32 * 1024
_PING_SECONDS = 20.0
_SILENCE = 60.0
_PATIENCE = 2.0
_LAST_WORDS = 4096
# Messages that wait to be taken by the loop; each is as large as the server makes them.
_UNDER_WAY = 16


class ExecPipe:
    """A `Pipe` over one exec stream."""

    def __init__(self, stream: WebSocket) -> None:
        self._socket: Any = stream
        # Ends a write that nobody takes, and notices a line that is silent though it is asked.
        stream.settimeout(_SILENCE)
        self._sink: PipeSink | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._backlog = 0
        self._room = asyncio.Event()
        self._room.set()
        self._under_way = threading.Semaphore(_UNDER_WAY)
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []
        self._ping_at = time.monotonic() + _PING_SECONDS
        self.words = ""  # The last of standard error, and of what the server says of the stream

    @property
    def backlog(self) -> int:
        """Bytes written and not yet taken by the other end."""
        return self._backlog

    def start(self, sink: PipeSink) -> None:
        """Begin to read; called once, on the running loop."""
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        for work in (self._read, self._write):
            thread = threading.Thread(target=work, name=f"kagura-pod-{work.__name__}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def write(self, *parts: Buffer) -> None:
        """Send all of `parts`, in order; never blocks, never raises for a pipe that is gone."""
        if self._closed.is_set():
            return
        data = b"".join(parts)
        self._backlog += len(data)
        if self._backlog > LOW:
            self._room.clear()
        self._out.put(data)

    async def drained(self) -> None:
        """Return when the backlog is small (again), or the pipe is gone."""
        await self._room.wait()

    def close(self) -> None:
        """Stop reading and writing and free the connection; may be called twice."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._room.set()
        self._out.put(None)
        self._under_way.release()
        if not self._threads or self._loop is None or self._loop.is_closed():
            self._shut()
        else:
            # Should the other end take nothing, so that what is to be said last cannot be.
            self._loop.call_later(_PATIENCE, self._shut)

    # ---------------------------------------------------------------- threads

    def _write(self) -> None:
        last_words = True
        try:
            while (data := self._next()) is not None:
                for begin in range(0, len(data), _PIECE):
                    self._socket.send_binary(bytes((_STDIN,)) + data[begin : begin + _PIECE])
                self._on_loop(self._sent, len(data))
        # Whatever breaks the connection, the reading side says so.
        except Exception:  # noqa: BLE001
            last_words = False
        if last_words and self._socket.getsubprotocol() == _V5:
            # The guest reads the end of its input before the connection is gone.
            with contextlib.suppress(Exception):
                self._socket.send_binary(bytes((_CLOSE, _STDIN)))
        self._shut()

    def _next(self) -> bytes | None:
        """What is to be sent; now and then the other end is asked whether it is there."""
        while True:
            if time.monotonic() > self._ping_at:
                self._socket.ping()
                self._ping_at = time.monotonic() + _PING_SECONDS
            with contextlib.suppress(queue.Empty):
                return self._out.get(timeout=_PING_SECONDS)

    def _read(self) -> None:
        why = "its connection ended"
        try:
            while not self._closed.is_set():
                code, frame = self._socket.recv_data_frame(True)  # noqa: FBT003 - control frames too
                if code == _CLOSING:
                    break
                if code in (_TEXT, _BINARY) and frame.data:
                    self._take(frame.data[0], frame.data[1:])
        # The client raises what sockets, TLS and its own reader raise.
        except Exception as error:  # noqa: BLE001
            why = f"its connection broke ({error})" if str(error) else why
        self._on_loop(self._end, why)

    def _take(self, channel: int, data: bytes) -> None:
        if channel == _STDOUT and data:
            # The server waits, and with it the guest, when the loop is slow.
            self._under_way.acquire()
            self._on_loop(self._feed, data)
        elif channel == _STDERR:
            self.words = (self.words + data.decode("utf-8", "replace"))[-_LAST_WORDS:]
        elif channel == _ERROR:
            with contextlib.suppress(ValueError):
                told: Any = json.loads(data)
                if isinstance(told, dict) and told.get("status") != "Success":
                    self.words = f"{self.words}\n{told.get('message', '')}"[-_LAST_WORDS:]

    def _on_loop(self, call: Any, *arguments: Any) -> None:
        # The loop may have ended before its threads have.
        with contextlib.suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(call, *arguments)

    def _shut(self) -> None:
        """Free the connection; the thread that reads wakes up at its end."""
        with contextlib.suppress(Exception):
            self._socket.send_close()
        if (plain := self._socket.sock) is not None:
            with contextlib.suppress(OSError):
                plain.shutdown(socket.SHUT_RDWR)
        self._socket.shutdown()

    # ------------------------------------------------------------ on the loop

    def _feed(self, data: bytes) -> None:
        self._under_way.release()
        if self._sink is not None and not self._closed.is_set():
            self._sink.feed(data)

    def _sent(self, count: int) -> None:
        self._backlog -= count
        if self._backlog <= LOW:
            self._room.set()

    def _end(self, why: str) -> None:
        self._room.set()
        if self._sink is not None and not self._closed.is_set():
            self._sink.ended(why)


_TEXT, _BINARY, _CLOSING = 0x1, 0x2, 0x8
