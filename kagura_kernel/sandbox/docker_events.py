"""What the daemon tells about the ends of our containers: one that removes itself cannot be asked afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from kagura_kernel.sandbox.docker_endpoint import Endpoint, open_stream
from kagura_kernel.sandbox.docker_flags import HOLDER_LABEL

_KILLED = 137
_LINE_LIMIT = 1024 * 1024
_OUT_OF_MEMORY_NS = 10 * 10**9


@dataclass(slots=True)
class End:
    """What is known of one container's end; times in nanoseconds."""

    exit_code: int | None = None
    died: int = 0
    starved: int = 0

    def why(self) -> str:
        """In half a sentence; empty when it has not ended."""
        if self.exit_code is None:
            return ""
        if self.exit_code == _KILLED and self.starved and self.died - self.starved < _OUT_OF_MEMORY_NS:
            return "it ran out of memory and the system killed it"
        if self.exit_code == _KILLED:
            return "its container was killed"
        return f"its first process ended with exit code {self.exit_code}"


class DockerEvents:
    """Listens to one daemon for the containers of one holder; where it cannot, it knows nothing."""

    def __init__(self, endpoint: Endpoint, holder: str) -> None:
        self._endpoint = endpoint
        self._holder = holder
        self._ends: dict[str, End] = {}
        self._news = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self._connected = False

    @property
    def connected(self) -> bool:
        """Whether the daemon is being listened to."""
        return self._connected

    async def listen(self, api_version: str) -> None:
        """Begin to listen, again after the daemon went away; returns once the daemon has agreed or declined.

        Raises:
            OSError: the daemon does not answer.
        """
        if self.connected:
            return
        filters = json.dumps({"type": ["container"], "label": [f"{HOLDER_LABEL}={self._holder}"]})
        # HTTP 1.0, so that the answer is plain lines and not chunks.
        request = f"GET /v{api_version}/events?filters={quote(filters)} HTTP/1.0\r\nHost: docker\r\n\r\n"
        reader, writer = await open_stream(self._endpoint, _LINE_LIMIT)
        try:
            writer.write(request.encode())
            async with asyncio.timeout(5):
                await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, TimeoutError, asyncio.LimitOverrunError):
            # Something between us and the daemon keeps its events back. The pipe still tells a death, only less well.
            writer.close()
            return
        except BaseException:
            writer.close()
            raise
        self._connected = True
        self._listening = asyncio.create_task(self._listen(reader, writer), name="kagura-docker-events")

    def expect(self, box_id: str) -> None:
        """Keep what is told about this container from now on."""
        self._ends[box_id] = End()

    def forget(self, box_id: str) -> None:
        """It has been closed; nobody will ask."""
        self._ends.pop(box_id, None)

    async def why(self, box_id: str, seconds: float) -> str:
        """Why that container ended, waiting so long for the news; what can be said otherwise."""
        end = self._ends.get(box_id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while end is not None and end.exit_code is None and self.connected:
                    self._news.clear()
                    await self._news.wait()
        if end is not None and (reason := end.why()):
            return reason
        return "" if self.connected else "the Docker daemon went away"

    async def close(self) -> None:
        """Stop listening; may be called twice."""
        task, self._listening = self._listening, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, ValueError):
                while line := await reader.readline():
                    self._note(json.loads(line))
                    self._news.set()
        finally:
            self._connected = False
            self._news.set()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _note(self, event: dict[str, Any]) -> None:
        attributes = event.get("Actor", {}).get("Attributes", {})
        end = self._ends.get(attributes.get("name", ""))
        if end is None:
            return
        if event.get("Action") == "oom":
            end.starved = int(event.get("timeNano", 0))
        elif event.get("Action") == "die":
            end.exit_code, end.died = int(attributes.get("exitCode", -1)), int(event.get("timeNano", 0))
