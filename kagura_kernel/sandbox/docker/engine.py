"""The Docker daemon, called without blocking the loop: the blocking SDK in threads of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import posixpath
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.sandbox.docker.flags import HOLDER_LABEL
from kagura_kernel.sandbox.docker_endpoint import (
    FORWARDING,
    Endpoint,
    ask_version,
    client_of,
    no_daemon,
    open_stream,
    our_errors,
)

if TYPE_CHECKING:
    from docker import APIClient


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
    """Listens to one daemon for the containers of one holder; where it cannot, it knows nothing.

    Not by the library's `events`: that waits without a deadline for an answer that something in between may keep back,
    in a thread that nobody can call back.
    """

    def __init__(self, endpoint: Endpoint, holder: str) -> None:
        self._endpoint = endpoint
        self._holder = holder
        self._ends: dict[str, End] = {}
        self._news = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self.connected = False  # whether the daemon is being listened to

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
        self.connected = True
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
            self.connected = False
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


T = TypeVar("T")

_HELLO_SECONDS = 5.0
OTHER_BOXES = "Start it, or use `--box bubblewrap`."
_PATIENCE = 60
"""Seconds that any call but the first may take."""
_CONFLICT = 409
"""HTTP's word for what something else stands in the way of."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon that answered."""

    version: str  # its release
    api: str  # version of the interface that is spoken with it
    cpus: int  # cores of its machine
    kernel: str = ""  # release of the kernel that it runs on
    gvisor: str = ""  # name of its runtime that is gVisor's; empty when it has none
    # Whether root in a container is an ordinary user of the machine: `userns-remap`, or a rootless daemon.
    remapped: bool = False


@dataclass(frozen=True, slots=True)
class Image:
    """An image that is there: its id, the variables it sets, and the places that it declares as volumes."""

    id: str
    env: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()


class DockerEngine:
    """One daemon. Every method raises `SandboxUnavailable` when it does not answer or refuses."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._threads: ThreadPoolExecutor | None = None
        self._client: APIClient | None = None
        self._daemon: Daemon | None = None
        self._meeting = asyncio.Lock()

    async def hello(self, seconds: float) -> Daemon:
        """The daemon, asked anew; a socket that nobody answers at takes so many seconds at most."""
        if self.endpoint.problem:
            raise SandboxUnavailable(self.endpoint.problem, FORWARDING)
        try:
            api = await ask_version(self.endpoint, seconds)
        except OSError as error:
            raise no_daemon(OTHER_BOXES) from error
        async with self._meeting:
            if self._daemon is None or self._daemon.api != api:
                self._daemon = await self._thread(self._hello, api)
            return self._daemon

    async def daemon(self) -> Daemon:
        """The daemon as it was when it was first asked."""
        return self._daemon or await self.hello(_HELLO_SECONDS)

    async def image(self, name: str) -> Image | None:
        """An image by name or id; None when it is not there."""
        found = await self._found(lambda: self._api().inspect_image(name))
        if found is None:
            return None
        config = found.get("Config") or {}
        # As it is written in a Dockerfile, `/data/` too; the daemon itself takes it as `/data`.
        volumes = sorted({posixpath.normpath(place) for place in config.get("Volumes") or ()})
        return Image(str(found["Id"]), tuple(config.get("Env") or ()), tuple(volumes))

    async def create(self, name: str, body: Mapping[str, Any]) -> tuple[str, ...]:
        """Create a container and return the daemon's warnings."""
        answer = await self._call(lambda: self._api().create_container_from_config(dict(body), name))
        return tuple(answer.get("Warnings") or ())

    async def start(self, name: str) -> None:
        """Start a container that was created."""
        await self._call(lambda: self._api().start(name))

    async def pause(self, name: str) -> None:
        """Freeze all of a container's processes."""
        await self._call(lambda: self._api().pause(name))

    async def unpause(self, name: str) -> None:
        """Let a frozen container go on."""
        await self._call(lambda: self._api().unpause(name))

    async def remove(self, name: str) -> None:
        """Kill a container and remove it; returns when it is gone, and when it never was."""
        # Asked first: clearing up must not wait for long on a daemon that hangs.
        await self.hello(_HELLO_SECONDS)
        await self._call(self._remove, name)

    async def exec_create(self, name: str, argv: list[str], user: str) -> str:
        """Prepare a second process in a container and return its id."""
        return await self._call(
            lambda: str(self._api().exec_create(name, argv, stdin=True, user=user, environment={})["Id"])
        )

    async def containers(self, label: str) -> list[dict[str, Any]]:
        """Containers that bear a label (`key` or `key=value`), stopped ones too, in Docker's words."""
        await self.hello(_HELLO_SECONDS)
        return await self._call(lambda: list(self._api().containers(all=True, filters={"label": [label]})))

    async def put(self, name: str, place: str, archive: IO[bytes]) -> None:
        """Unpack a tar file at a place in a container that need not run; where it can be written."""
        await self._call(lambda: self._api().put_archive(name, place, archive))

    async def create_volume(self, name: str, labels: Mapping[str, str]) -> None:
        """Create an empty volume at the daemon itself, or do nothing where there is one of that name."""
        await self._call(lambda: self._api().create_volume(name, driver="local", labels=dict(labels)))

    async def volume_labels(self, name: str) -> dict[str, str] | None:
        """The labels of a volume; None when it is not there."""
        found = await self._found(lambda: self._api().inspect_volume(name))
        return None if found is None else dict(found.get("Labels") or {})

    async def volumes(self, label: str) -> list[dict[str, Any]]:
        """Volumes that bear a label (`key` or `key=value`), in Docker's words."""
        await self.hello(_HELLO_SECONDS)
        answer = await self._call(lambda: self._api().volumes(filters={"label": [label]}))
        return list(answer.get("Volumes") or ())

    async def remove_volume(self, name: str) -> bool:
        """Remove a volume; whether it is gone, which it is not while a container has it."""
        return await self._call(self._remove_volume, name)

    def close(self) -> None:
        """Let go of connections and threads; may be called twice, and the engine used again afterwards."""
        threads, self._threads = self._threads, None
        client, self._client, self._daemon = self._client, None, None
        if threads is not None:
            threads.shutdown(wait=False)
        if client is not None:
            client.close()

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run `function` in a thread, once a daemon has answered.

        A thread cannot be stopped: when cancelled, its end is awaited first, so that nobody clears up ahead of a call
        that is still making something.
        """
        if self._client is None:
            await self.hello(_HELLO_SECONDS)
        return await self._thread(function, *arguments)

    async def _thread(self, function: Callable[..., T], *arguments: Any) -> T:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(max_workers=16, thread_name_prefix="kagura-docker")
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._threads, _translated, function, arguments)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await _ended(future)
            raise

    def _hello(self, api: str) -> Daemon:
        client = client_of(self.endpoint, api, _PATIENCE)
        try:
            info = client.info()
        except BaseException:
            client.close()
            raise
        old, self._client = self._client, client
        if old is not None:
            old.close()
        return daemon_from(info, api)

    def _api(self) -> APIClient:
        if self._client is None:
            raise SandboxUnavailable("the Docker client was closed")
        return self._client

    async def _found(self, inspect: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """What `inspect` finds; None where the daemon knows of no such thing."""
        import docker

        def look() -> Mapping[str, Any] | None:
            try:
                return inspect()
            except docker.errors.NotFound:
                return None

        return await self._call(look)

    def _remove_volume(self, name: str) -> bool:
        import docker

        try:
            self._api().remove_volume(name)
        except docker.errors.NotFound:
            return True
        except docker.errors.APIError as error:
            if error.status_code != _CONFLICT:
                raise
            return False
        return True

    def _remove(self, name: str) -> None:
        import docker

        # Gone already, or on its way: the daemon removes a box that ended by itself, too.
        with contextlib.suppress(docker.errors.NotFound):
            try:
                self._api().remove_container(name, force=True, v=True)
            except docker.errors.APIError as error:
                # A removal is going on.
                if error.status_code != _CONFLICT:
                    raise
                self._api().wait(name, condition="removed", timeout=10)


def daemon_from(info: Mapping[str, Any], api: str) -> Daemon:
    """What is of use to us in the answer of `GET /info`."""
    options = [part for line in info.get("SecurityOptions") or () for part in str(line).split(",")]
    return Daemon(
        version=str(info["ServerVersion"]),
        api=api,
        cpus=int(info["NCPU"]),
        kernel=str(info.get("KernelVersion", "")),
        gvisor=next((name for name, how in sorted((info.get("Runtimes") or {}).items()) if _is_gvisor(how)), ""),
        remapped="name=userns" in options or "name=rootless" in options,
    )


def _is_gvisor(runtime: Mapping[str, Any]) -> bool:
    """By what it runs, whatever it is called: the program, or containerd's shim for it."""
    program = str(runtime.get("path", "")).rpartition("/")[2]
    return program == "runsc" or str(runtime.get("runtimeType", "")).startswith("io.containerd.runsc")


def _translated(function: Callable[..., T], arguments: tuple[Any, ...]) -> T:
    with our_errors(OTHER_BOXES):
        return function(*arguments)


async def _ended(future: asyncio.Future[Any]) -> None:
    """Wait for a future whatever happens, then forget its outcome."""
    while not future.done():
        # Cancelled again while waiting: the wait is what cancelling promised.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([future])
    if not future.cancelled():
        future.exception()
