"""The bridge's beginning: one connection to the host, then a program or a URL behind it."""

from __future__ import annotations

import socket

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from typing import Any

CONNECT_SECONDS = 20.0


def main(start: dict[str, Any]) -> int:
    """Serve one toolset to its end; the exit code, which is its program's where there is one.

    Args:
        start: `port` on the loopback and the `token` that is said first; then either `argv`, `env` and `cwd` of a
            program, or `url`, `headers` and `seconds` of a remote server.
    """
    connection = socket.create_connection(("127.0.0.1", start["port"]), CONNECT_SECONDS)
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(start["token"].encode("ascii"))
    if "url" in start:
        from kagura_kernel.tools.bridge import remote

        return remote.serve(connection, start["url"], start["headers"], start["seconds"])
    from kagura_kernel.tools.bridge import program

    return program.serve(connection, start["argv"], start["env"], start["cwd"])
