"""Threaded HTTP servers on a loopback port that let go of their clients when they are told to."""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

Owner = TypeVar("Owner")


class LoopbackListener(ThreadingHTTPServer):
    """Listens on a free port from the moment it is made; `server_close` joins its threads."""

    daemon_threads = False  # server_close joins them, so that no test leaves a thread behind
    request_queue_size = 64

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self._connections: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remember the connection, and serve it in a thread."""
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget the connection, and end it."""
        self._connections.discard(request)
        super().shutdown_request(request)

    def cut_connections(self) -> None:
        """End every connection that is open."""
        for connection in list(self._connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it has just ended by itself

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no error of the server's."""


class OwnedListener(LoopbackListener, Generic[Owner]):
    """A listener whose handlers find in `self.server.owner` what they answer for."""

    def __init__(self, owner: Owner, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(handler)
        self.owner = owner


class LoopbackServer(ABC):
    """What listens from the beginning of a `with` statement to its end, in threads of its own; may be entered once."""

    def __init__(self) -> None:
        self._closing = threading.Event()
        self._listener: LoopbackListener | None = None
        self._thread: threading.Thread | None = None

    @abstractmethod
    def listen(self) -> LoopbackListener:
        """Its listener."""

    @property
    def url(self) -> str:
        """Where it listens; after its end, where nobody does.

        Raises:
            RuntimeError: it has not been entered.
        """
        if self._listener is None:
            message = f"{type(self).__name__} is not running; use it in a `with` statement"
            raise RuntimeError(message)
        return f"http://127.0.0.1:{self._listener.server_address[1]}"

    def wait_closing(self, seconds: float | None) -> bool:
        """Sleep in a handler, and say whether the server began to close meanwhile."""
        return self._closing.wait(seconds)

    def __enter__(self) -> Self:
        """Listening when it returns."""
        self._listener = self.listen()
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(0.05,), name=type(self).__name__, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Every connection is cut and every thread has ended when it returns."""
        self._closing.set()
        if self._listener is not None and self._thread is not None:
            self._listener.shutdown()
            self._listener.cut_connections()
            self._listener.server_close()
            self._thread.join()
