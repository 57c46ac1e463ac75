"""The kernel's side of the keeper: one small process that starts and ends boxes (see `keeper_main`)."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kagura_kernel.domain.errors import SandboxUnavailable

_ROOT = str(Path(__file__).resolve().parents[3])
_PROGRAM = """import sys
sys.path.append(sys.argv[1])
from kagura_kernel.sandbox.supervisor.main import main
main(int(sys.argv[2]), sys.argv[3:])"""
_MESSAGE = 1 << 17
_START_TIMEOUT = 20.0
_FULL = 0.02


class StartRefused(Exception):
    """The keeper could not start a box; `part` says what failed (`overlay`, `workspace`, `limits`, …)."""

    def __init__(self, part: str, why: str) -> None:
        super().__init__(why)
        self.part = part
        self.why = why


@dataclass(frozen=True, slots=True)
class Ending:
    """How a box ended.

    Attributes:
        status: Exit code of its first process, negative for a signal; None when the keeper was lost.
        out_of_memory: Whether the system killed something in it for want of memory.
        words: The end of what it wrote to standard error.
    """

    status: int | None
    out_of_memory: bool = False
    words: str = ""

    @property
    def why(self) -> str:
        """Half a sentence."""
        if self.status is None:
            return "the process that kept it was killed"
        told = self.words.strip().splitlines()
        last = f" ({told[-1][:300]})" if told else ""
        if self.out_of_memory:
            return f"it ran out of memory{last}"
        # Process 1 ended by a signal is reported by bubblewrap as 128 and the signal's number.
        number = -self.status if self.status < 0 else self.status - 128
        if number > 0:
            return f"signal {number} ended it{last}"
        return f"it ended with exit code {self.status}{last}"


class KeptBox:
    """A box that the keeper holds."""

    def __init__(self, notes: tuple[str, ...], gone: asyncio.Future[Ending]) -> None:
        self.notes = notes
        self._gone = gone

    async def gone(self) -> Ending:
        """Return when nothing of the box is left."""
        return await asyncio.shield(self._gone)


class KeeperClient:
    """Starts the keeper on first use, and again when it was lost. Belongs to one loop.

    Args:
        python: Interpreter the keeper runs on; needs the standard library only.
        view: What boxes see of a Python, as `setup` takes it.
        mapping: Commands that map further ids for the keeper of an ordinary user (`subids.mapping_commands`); all of
            its boxes then have a root of their own.
    """

    def __init__(
        self, view: Mapping[str, Any], python: str = sys.executable, mapping: Sequence[Sequence[str]] = ()
    ) -> None:
        self._view = view
        self._mapping = json.dumps(mapping)
        self._python = python
        self._lock = asyncio.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ending: threading.Thread | None = None
        self._ready: asyncio.Future[dict[str, Any]] | None = None
        self._starting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._gone: dict[str, asyncio.Future[Ending]] = {}
        self.uncounted: tuple[str, ...] = ()

    @property
    def pid(self) -> int | None:
        """Process id of the keeper, while there is one."""
        return self._process.pid if self._process is not None else None

    async def start(self, box_id: str, request: Mapping[str, Any], streams: Sequence[int]) -> KeptBox:
        """Have a box started; `streams` are the guest's standard input and output, still owned by the caller.

        Raises:
            StartRefused: this box cannot be made, or none can be made here.
            SandboxUnavailable: there is no keeper.
        """
        await self._ensure()
        loop = asyncio.get_running_loop()
        gone = self._gone[box_id] = loop.create_future()
        started = self._starting[box_id] = loop.create_future()
        try:
            # A socket cannot say when there is room for a whole message.
            while not self._send({"op": "start", "id": box_id, **request}, streams):  # noqa: ASYNC110
                await asyncio.sleep(_FULL)
            answer = await asyncio.wait_for(started, _START_TIMEOUT)
        except BaseException:
            self.kill(box_id)
            raise
        finally:
            self._starting.pop(box_id, None)
        if answer["op"] == "failed":
            raise StartRefused(answer["part"], answer["why"])
        return KeptBox(tuple(answer["notes"]), gone)

    def kill(self, box_id: str) -> None:
        """Kill everything in a box; nothing happens when it is gone."""
        if box_id in self._gone and self._socket is not None and not self._send({"op": "kill", "id": box_id}):
            asyncio.get_running_loop().call_later(_FULL, self.kill, box_id)

    async def close(self) -> None:
        """End the keeper and with it every box; may be called twice."""
        self._drop("it was closed")
        if self._ending is not None:
            await asyncio.to_thread(self._ending.join)

    # ---------------------------------------------------------------- inside

    async def _ensure(self) -> None:
        async with self._lock:
            if self._socket is not None and self._ready is not None and self._ready.done():
                return
            try:
                await self._launch()
            except BaseException:
                self._drop("it did not start")
                raise

    async def _launch(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            ours.setblocking(False)  # noqa: FBT003 - the method's only argument
            self._socket = ours
            try:
                self._process = subprocess.Popen(  # noqa: S603, ASYNC220 - our own program; returns at once
                    [self._python, "-I", "-S", "-c", _PROGRAM, _ROOT, str(theirs.fileno()), self._mapping],
                    env={},
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError as error:
                raise SandboxUnavailable(f"{self._python} does not start ({error.strerror})") from error
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        loop.add_reader(ours.fileno(), self._read)
        self._send({"op": "setup", "python": dict(self._view)})
        try:
            answer = await asyncio.wait_for(self._ready, _START_TIMEOUT)
        except TimeoutError as error:
            raise SandboxUnavailable("the keeper of boxes did not answer") from error
        if answer["op"] != "ready":
            raise StartRefused("keeper", answer["why"])
        self.uncounted = tuple(answer["uncounted"])

    def _send(self, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> bool:
        """Send one message; False when there is no room for it just now. A keeper that is gone shows when reading."""
        if self._socket is None:
            raise SandboxUnavailable("the keeper of boxes is gone")
        try:
            socket.send_fds(self._socket, [json.dumps(message).encode()], list(descriptors))
        except BlockingIOError:
            return False
        except OSError as error:
            self._drop(str(error))
            raise SandboxUnavailable("the keeper of boxes is gone") from error
        return True

    def _read(self) -> None:
        while self._socket is not None:
            try:
                data = self._socket.recv(_MESSAGE)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._drop("it was killed")
                return
            self._take(json.loads(data))

    def _take(self, message: dict[str, Any]) -> None:
        match message["op"]:
            case "ready" | "refused" if self._ready is not None:
                _settle(self._ready, message)
            case "started" | "failed":
                _settle(self._starting.get(message["id"]), message)
            case "gone":
                ending = Ending(message["status"], message["out_of_memory"], message["words"])
                _settle(self._gone.pop(message["id"], None), ending)
                failed = {"op": "failed", "part": "box", "why": ending.why}
                _settle(self._starting.get(message["id"]), failed)

    def _drop(self, why: str) -> None:
        """Forget a keeper that is gone, or is to go; the end of the socket is what ends it."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
        self._socket = None
        if self._process is not None:
            # It still frees what it held, which is not the loop's to wait for.
            self._ending = threading.Thread(target=_wait, args=(self._process,), name="kagura-keeper-end", daemon=True)
            self._ending.start()
        self._process = None
        lost = f"the keeper of boxes is gone: {why}"
        _settle(self._ready, {"op": "refused", "why": lost})
        for started in self._starting.values():
            _settle(started, {"op": "failed", "part": "keeper", "why": lost})
        for gone in self._gone.values():
            _settle(gone, Ending(None))
        self._gone.clear()


def _settle(future: asyncio.Future[Any] | None, value: Any) -> None:
    if future is not None and not future.done():
        future.set_result(value)


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(12)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def as_setup(view: Any, shims: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """A `PythonView` as the `setup` message takes it."""
    return {**asdict(view), "shims": [list(pair) for pair in shims]}
