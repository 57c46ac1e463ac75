"""The jailer: hears which plugin it is, loads it, says what it gives, and calls it until the host hangs up.

Its one connection to the host: requests come in, threads call the plugin, answers go out. Standard library only: runs
in the jail. The host believes nothing that comes from here.
"""

from __future__ import annotations

import base64
import os
import queue
import sys
import threading
from typing import TYPE_CHECKING, Any, BinaryIO

from kagura_kernel.plugins import framing
from kagura_kernel.plugins.jailer import functions, loading

if TYPE_CHECKING:
    from collections.abc import Mapping
    from socket import socket
    from types import CodeType

    from kagura_kernel.plugins.jailer.functions import HostFunction

MAX_HELLO = 32 * 2**20
"""Bytes of the first thing that the host says: all of a plugin, as text."""


def main(connection: socket, sdk: Mapping[str, str], codes: Mapping[str, CodeType]) -> None:
    """Be the jailer of the plugin that the host names at the other end of this connection.

    Args:
        connection: To the host.
        sdk: Text of what plugins may import of ours, by path.
        codes: The same compiled, when that was by this very Python.
    """
    stream = open(connection.fileno(), "rb", closefd=False)  # noqa: SIM115 - a socket, until the end
    hello = receive(stream, MAX_HELLO)
    if hello is None:
        return
    package = loading.package_of(hello["plugin"])
    try:
        ours = loading.SentModules(loading.SDK, {path: text.encode() for path, text in sdk.items()}, loading.SDK, codes)
        table = functions.look_at(_create(hello, ours))
        ready = {
            "ready": {
                module: [function.told(name) for name, function in given.items()] for module, given in table.items()
            }
        }
    # A plugin may end like anything that ends a program; the host has to hear why.
    except BaseException as error:  # noqa: BLE001
        connection.sendall(framing.encode({"failed": _why(error, package)}))
        return
    connection.sendall(framing.encode(ready))
    Serving(connection, stream, package, table, threads=hello["calls"], most=hello["most"]).run()


def _create(hello: dict[str, Any], sdk: loading.SentModules) -> Any:
    files = {path: base64.b64decode(data) for path, data in hello["files"].items()}
    module = loading.load_plugin(hello["plugin"], files, sdk)
    create = getattr(module, "create_host_functions", None)
    if not callable(create):
        raise functions.NotHostFunctions("plugin.py has no function create_host_functions")
    return create(hello["config"])


def _why(error: BaseException, package: str) -> dict[str, str]:
    if isinstance(error, functions.NotHostFunctions):
        return {"code": functions.VALUE, "kind": "", "message": str(error)}
    if isinstance(error, SyntaxError):
        import traceback

        traceback.print_exception(error, limit=0, file=sys.stderr)
    return functions.explain(error, package)


class Serving:
    """Reads requests and answers them.

    Args:
        connection: To the host.
        stream: What it says, buffered.
        package: Name of the plugin's package.
        table: Its functions.
        threads: Calls at once.
        most: Bytes of an answer.
    """

    def __init__(
        self,
        connection: socket,
        stream: BinaryIO,
        package: str,
        table: Mapping[str, Mapping[str, HostFunction]],
        *,
        threads: int,
        most: int,
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._package = package
        self._table = table
        self._threads = threads
        self._most = most
        self._requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._turn = threading.Lock()

    def run(self) -> None:
        """Serve until the host hangs up; then the process is over, whatever the plugin still does."""
        for number in range(self._threads):
            threading.Thread(target=self._work, name=f"call-{number}", daemon=True).start()
        while (request := receive(self._stream)) is not None:
            self._requests.put(request)
        os._exit(0)

    def _work(self) -> None:
        while True:
            request = self._requests.get()
            answer = self._answer(request)
            try:
                frame = framing.encode({"id": request["id"], **answer}, self._most)
            except framing.FrameError as error:
                why = f"what the function returned cannot be sent: {error}"
                frame = framing.encode({"id": request["id"], **_failure(functions.VALUE, "", why)}, self._most)
            with self._turn:
                self._connection.sendall(frame)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        function = self._table[request["module"]][request["function"]]
        arguments, named = request["arguments"], request["named"]
        if why := function.fits(arguments, named):
            return _failure(functions.ARGUMENTS, "TypeError", why)
        try:
            value = function.call(*arguments, **named)
            if hasattr(value, "__await__"):
                import asyncio

                value = asyncio.run(_waited_for(value))
        # Also what would end a thread or the whole process: the caller has to have an answer.
        except BaseException as error:  # noqa: BLE001
            return {"ok": False, "error": functions.explain(error, self._package)}
        return {"ok": True, "value": value}


async def _waited_for(value: Any) -> Any:
    return await value


def _failure(code: str, kind: str, message: str) -> dict[str, Any]:
    return {"ok": False, "error": {"code": code, "kind": kind, "message": message}}


def receive(stream: BinaryIO, most: int = framing.MAX_BYTES) -> Any:
    """The next thing that the host says; None when it has hung up."""
    header = stream.read(framing.HEADER.size)
    if len(header) < framing.HEADER.size:
        return None
    count = framing.length(header, most)
    body = stream.read(count)
    return framing.decode(body, most) if len(body) == count else None
