"""A threaded HTTP server on a loopback port that lets go of its clients when it is told to."""

from __future__ import annotations

import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


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
