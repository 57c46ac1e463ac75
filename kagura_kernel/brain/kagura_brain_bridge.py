"""What a coding agent starts as its MCP server: it carries bytes between the agent and the kernel, and knows nothing.

Run by its path, with the standard library alone: `python -I -S kagura_brain_bridge.py SOCKET`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading

_CHUNK = 65_536


def main(path: str) -> None:
    """Carry standard input to the socket, and what comes back to standard output, until either ends."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as kernel:
        kernel.connect(path)
        threading.Thread(target=_send, args=(kernel,), daemon=True).start()
        while data := kernel.recv(_CHUNK):
            _write_all(data)


def _send(kernel: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(0, _CHUNK):
            kernel.sendall(data)
        kernel.shutdown(socket.SHUT_WR)


def _write_all(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        main(sys.argv[1])
