"""The jailer's one connection to the host: requests come in, threads call the plugin, answers go out.

Standard library only: runs in the jail. The host believes nothing that comes from here.
"""

from __future__ import annotations

import os
import queue
import threading
from typing import TYPE_CHECKING, Any, BinaryIO

from kagura_kernel.plugins import framing
from kagura_kernel.plugins.jailer import functions

if TYPE_CHECKING:
    from collections.abc import Mapping
    from socket import socket

    from kagura_kernel.plugins.jailer.functions import HostFunction


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
