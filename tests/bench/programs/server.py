"""The server that is connected to, with as little of its own in the figures as can be. Standard library only.

Prints its port, and serves until its standard input ends. A dot is answered with a dot; `D` and eight bytes with so
many bytes and the end; an HTTP request with `ok`.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

BACKLOG = 1024
PIECE = memoryview(os.urandom(1024 * 1024))
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


def serve(connection: socket.socket) -> None:
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while first := connection.recv(1):
                if first == b".":
                    connection.sendall(first)
                elif first == b"D":
                    _send(connection, int.from_bytes(connection.recv(8, socket.MSG_WAITALL), "big"))
                    return
                else:
                    _answer(connection, first)
                    return
        except OSError:
            return  # the other side has had enough


def _send(connection: socket.socket, left: int) -> None:
    while left:
        part = PIECE[: min(left, len(PIECE))]
        connection.sendall(part)
        left -= len(part)


def _answer(connection: socket.socket, head: bytes) -> None:
    while b"\r\n\r\n" not in head:
        data = connection.recv(65536)
        if not data:
            return
        head += data
    connection.sendall(ANSWER)


def main() -> None:
    """Listen, say where, and serve each connection in a thread."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    print(listening.getsockname()[1], flush=True)

    def accept() -> None:
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
