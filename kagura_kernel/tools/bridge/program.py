"""A server that is a program: its standard input and output are the connection, its standard error is the bridge's."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading

from kagura_kernel.tools.bridge.messages import complain

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import IO

CHUNK = 64 * 1024
END_SECONDS = 0.4
"""How long a program may take to end by itself when its input has ended; then as long again after SIGTERM."""

LAST_WORDS = 1.0
NOT_FOUND = 127
NOT_STARTED = 126


def serve(connection: socket.socket, argv: list[str], env: dict[str, str], cwd: str | None) -> int:
    """Start it, carry bytes both ways, and end with it, or end it with the connection: its exit code."""
    try:
        process = subprocess.Popen(  # noqa: S603 - this is what was asked for, in a box
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **env}, cwd=cwd, bufsize=0
        )
    except OSError as error:
        complain(f"{argv[0]} cannot be started: {error.strerror or error}")
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_STARTED
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - for the type checker
    threading.Thread(target=_carry_in, args=(connection, process, process.stdin), daemon=True).start()
    out = threading.Thread(target=_carry_out, args=(connection, process, process.stdout), daemon=True)
    out.start()
    code = process.wait()
    # What it left running may hold its output open for ever.
    out.join(LAST_WORDS)
    return code if code >= 0 else 128 - code


def _carry_in(connection: socket.socket, process: subprocess.Popen[bytes], target: IO[bytes]) -> None:
    try:
        while True:
            data = memoryview(connection.recv(CHUNK))
            if not data:
                break
            while data:
                data = data[target.write(data) :]
    except OSError:
        # It reads no more, or the host has gone: either way there is nothing left to carry.
        pass
    with contextlib.suppress(OSError):
        target.close()
    _end(process)


def _carry_out(connection: socket.socket, process: subprocess.Popen[bytes], source: IO[bytes]) -> None:
    try:
        while True:
            data = os.read(source.fileno(), CHUNK)
            if not data:
                break
            connection.sendall(data)
    except OSError:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for stop in (process.terminate, process.kill):
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            stop()
        else:
            return
