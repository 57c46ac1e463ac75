"""Boxes on another Linux machine: bubblewrap's walls there, the same guest in them, OpenSSH between.

Nothing is installed there but Python and bubblewrap: a session brings the supervisor along (`remote`), and what it
started ends with it. A project is sent into memory there, and a box has a copy-on-write view of it, as here; of the
machine itself a box sees what a bubblewrap box sees of any.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Mapping
from functools import partial
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

from kagura_kernel.domain.errors import PathNotShown, SandboxUnavailable, SandboxUnsupported, WorkspaceTooLarge
from kagura_kernel.domain.identity import new_box_id
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.policy import IsolationClass
from kagura_kernel.sandbox.backend import BoxSpec, Probe
from kagura_kernel.sandbox.boot import guest_payload
from kagura_kernel.sandbox.box import (
    LEFT_OUT,
    TRIAL,
    BoxStarter,
    Parked,
    PipedBox,
    freed_on_failure,
    identities,
    refuse_further,
    refuse_roots,
    send_workspace,
    sizes,
)
from kagura_kernel.sandbox.bubblewrap.backend import check_workspace
from kagura_kernel.sandbox.bubblewrap.request import fitting, guest_config, request_for, uncounted_notes
from kagura_kernel.sandbox.channel import BoxChannel
from kagura_kernel.sandbox.docker.volumes import LARGEST, State, state_of, still_so
from kagura_kernel.sandbox.guest import frames
from kagura_kernel.sandbox.namespaces import MachineFacts, advise_there
from kagura_kernel.sandbox.populate import Project, copy_notes, in_steps, missing_notes
from kagura_kernel.sandbox.python_view import PythonView
from kagura_kernel.sandbox.ssh.connection import PYTHON, SILENCE, Connection, Session, SessionPipe, bootstrap, explained
from kagura_kernel.sandbox.streams import header
from kagura_kernel.sandbox.supervisor.client import Ending, StartRefused

NAME = "ssh"
INSTALL_BWRAP = "Have it installed on {host}: `sudo apt install bubblewrap`, or the package of its distribution."

_READY_SECONDS = 60.0
_HELLO_SECONDS = 30.0
# While a project is unpacked there, or the line is full.
_UNPACK_SECONDS = 300.0
_MESSAGES = 64
_EXPLAIN_SECONDS = 2.0
_ALIVE = header(frames.ALIVE, 0, 0)


@dataclass(frozen=True, slots=True)
class There:
    """What a session found on the other machine."""

    view: PythonView  # The Python that boxes see
    program: str  # Where bubblewrap is
    machine: MachineFacts  # What its system says of namespaces
    memory: int  # Bytes
    place: str  # Where the supervisor finds what was sent
    notes: tuple[str, ...]  # What to know of limits that its system cannot set
    same_python: bool  # Whether its Python runs our code as it is


def _there(told: Mapping[str, Any]) -> There:
    """What a `ready` message tells.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is none.
    """
    return There(
        _view(dict(told["view"])),
        _text(told["bwrap"]),
        MachineFacts(**told["machine"]),
        int(told["memory"]),
        _text(told["place"]),
        tuple(uncounted_notes(tuple(map(_text, told["uncounted"])))),
        same_python=told["magic"] == MAGIC_NUMBER.hex(),
    )


def _view(told: dict[str, Any]) -> PythonView:
    python, links, env = _text(told.pop("python")), _pairs(told.pop("links")), _pairs(told.pop("env"))
    texts: dict[str, Any] = {name: tuple(map(_text, value)) for name, value in told.items()}
    return PythonView(python, links=links, env=env, **texts)


def _pairs(told: Any) -> tuple[tuple[str, str], ...]:
    return tuple((_text(one), _text(other)) for one, other in told)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


class _Ground:
    """A session there that has a supervisor and no box yet; then the box's. Ended exactly once, however often asked."""

    channel: BoxChannel  # the pipe to the guest, once there is a session

    def __init__(self, host: str, connection: Connection) -> None:
        self.id = new_box_id()
        self.notes: tuple[str, ...] = ()
        self._host = host
        self._connection = connection
        self._session: Session | None = None
        self._pipe: SessionPipe | None = None
        self._told: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue(_MESSAGES)
        self._gone = asyncio.Event()
        self._ending: Ending | None = None
        self._over: asyncio.Task[None] | None = None
        self._alive: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()
        self._started = False
        self._trees = 0

    async def open(self, sent_bytes: int, *, same_python: bool) -> There:
        """Start the session and wait until it can have a box.

        Raises:
            SandboxUnavailable: it cannot; the text says what to do.
        """
        session = await self._connection.session(self._hear)
        if self._over is not None:
            for descriptor in set(session.ends):
                os.close(descriptor)
            await session.end()
            raise SandboxUnavailable("this ssh back-end was closed")
        self._session = session
        self._pipe = SessionPipe(*session.ends)
        self.channel = BoxChannel(self.id, self._pipe, explain=self._explain)
        self.channel.explain_seconds = _EXPLAIN_SECONDS
        self.channel.start(bootstrap(sent_bytes, self._connection.silence, same_python=same_python))
        self._alive = asyncio.create_task(self._stay_alive())
        told = await self._answer(_READY_SECONDS)
        if told["op"] == "old":
            raise SandboxUnavailable(f"the Python of {self._host} is {told.get('python')}, which is too old", PYTHON)
        if told["op"] != "ready":
            raise self._refusal(str(told.get("why", "it refuses")))
        try:
            return _there(told)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._refusal("it says something else than was asked for") from error

    async def send_tree(self, project: Project, place: str) -> Path:
        """Send a directory; where the supervisor finds it.

        Raises:
            WorkspaceError: it cannot be read, or is larger than it may be.
            SandboxUnavailable: the session, or the room there, is at its end.
        """
        async with self._sending:
            number, self._trees = self._trees, self._trees + 1
            self._block(json.dumps({"op": "tree", "number": number}).encode())
            async with contextlib.aclosing(in_steps(project)) as steps:
                async for data in steps:
                    self._block(data)
                    await self._drained()
            self._block(b"")
            told = await self._answer(_UNPACK_SECONDS)
        if told["op"] != "unpacked" or told.get("why"):
            raise self._refusal(f"what was sent finds no room there ({told.get('why')})")
        return Path(place, str(number))

    async def start(self, job: Mapping[str, Any], payload: bytes) -> None:
        """Have the box made, and wait for its guest.

        Raises:
            StartRefused: it cannot be made.
            SandboxUnavailable: its guest does not answer.
        """
        async with self._sending:
            self._block(json.dumps({"op": "start", "job": {"id": self.id, **job}}).encode())
            self._started = True
            if self._pipe is not None:
                self._pipe.write(payload)
        told = await self._answer(_READY_SECONDS)
        if told["op"] == "failed":
            raise StartRefused(str(told.get("part")), str(told.get("why")))
        if told["op"] != "started":
            raise self._refusal(self._ending.why if self._ending else str(told.get("why", "")))
        notes = told.get("notes")
        self.notes = tuple(map(str, notes)) if isinstance(notes, list) else ()
        await self.channel.hello(_HELLO_SECONDS)

    async def end(self) -> None:
        """End everything there and wait until nothing is left; may be called twice."""
        if self._over is None:
            self._over = asyncio.create_task(self._end())
        await asyncio.shield(self._over)

    async def _end(self) -> None:
        if self._alive is not None:
            self._alive.cancel()
        if self._session is not None:
            await self.channel.close()
            await self._session.end()

    # ---------------------------------------------------------------- inside

    async def _drained(self) -> None:
        """Wait until the line takes more. Raises `SandboxUnavailable` when it does not for too long."""
        try:
            async with asyncio.timeout(_UNPACK_SECONDS):
                await self.channel.drained()
        except TimeoutError as error:
            raise self._refusal("it takes nothing any more") from error

    def _block(self, data: bytes) -> None:
        if self._pipe is not None:
            self._pipe.write(len(data).to_bytes(4, "big"), data)

    def _hear(self, message: Mapping[str, Any]) -> None:
        if message["op"] == "gone":
            status = message.get("status")
            words = str(message.get("words", ""))
            known = status if isinstance(status, int) else None
            self._ending = Ending(known, out_of_memory=message.get("out_of_memory") is True, words=words)
            self._gone.set()
        # Nobody there says so much; one that does is not listened to.
        with contextlib.suppress(asyncio.QueueFull):
            self._told.put_nowait(message)

    async def _answer(self, seconds: float) -> Mapping[str, Any]:
        """What the session says next. Raises `SandboxUnavailable` when it ends, or says nothing for so long."""
        if self._session is None:
            raise RuntimeError("there is no session")
        heard = asyncio.ensure_future(self._told.get())
        try:
            await asyncio.wait([heard, self._session.ended], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if heard.done():
                return heard.result()
            if self._session.ended.done():
                raise explained(self._host, self._session.words, self._session.exit_code)
            raise SandboxUnavailable(f"{self._host} did not answer for {seconds:g} s")
        finally:
            heard.cancel()

    async def _stay_alive(self) -> None:
        while True:
            await asyncio.sleep(self._connection.silence / 3)
            async with self._sending:
                if self._started and self._pipe is not None:
                    self._pipe.write(_ALIVE)
                else:
                    self._block(b'{"op": "alive"}')

    async def _explain(self) -> str:
        if self._session is not None:
            said = asyncio.ensure_future(self._gone.wait())
            await asyncio.wait([said, self._session.ended], return_when=asyncio.FIRST_COMPLETED)
            said.cancel()
        if self._ending is not None:
            return self._ending.why
        self.channel.lost = True
        lost = f"the connection to {self._host} was lost"
        last = self._session.words.strip().splitlines()[-1:] if self._session is not None else []
        return f"{lost} ({last[0].strip()})" if last else lost

    def _refusal(self, why: str) -> SandboxUnavailable:
        install = INSTALL_BWRAP.format(host=self._host) if "bubblewrap is not installed" in why else None
        return SandboxUnavailable(f"{self._host}: {why.rstrip('.')}", install)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A session that is ready for a project and a box."""

    ground: _Ground
    there: There
    further: tuple[tuple[Path, str], ...]  # (where the supervisor finds it, path in the box)
    notes: tuple[str, ...]
    states: tuple[State, ...]  # What the further directories were


class SshBackend(BoxStarter):
    """Starts boxes on one other machine; a `SandboxBackend` that can park.

    Args:
        host: The machine, as `ssh` takes it; empty where none is named.
        python: The Python there, a name on its PATH or a path.
        config: A configuration file of OpenSSH's client in place of the person's own.
        silence: Seconds without a word after which the two machines take each other for gone.
    """

    name = NAME
    isolation = IsolationClass.NAMESPACE

    def __init__(self, host: str, *, python: str = "python3", config: str = "", silence: float = SILENCE) -> None:
        super().__init__(self.name)
        self._host = host
        self._connection = Connection(host, python, config, silence)
        self._same_python = False
        self._no_overlay = ""

    async def probe(self, image: str | None = None) -> Probe:
        """Whether a box starts there and runs a command; an image means nothing here. Kept for a minute."""
        del image
        return await self._probed("", self._try_out)

    async def start(self, spec: BoxSpec) -> PipedBox:
        """A box with the project in it, ready for its first command; see `SandboxBackend.start`."""
        return await self._hand_over(await self._prepare(spec), spec, warm=False)

    def parking_spec(self, spec: BoxSpec) -> BoxSpec | None:
        """Sessions wait without a project, so any project may have them."""
        return None if spec.shown or spec.writable_root else replace(spec, workspace=None)

    async def park(self, spec: BoxSpec) -> Parked:
        """A session whose supervisor waits for a project; see `ParkingBackend.park`."""
        seen = identities(spec)
        prepared = await self._prepare(spec)
        end = partial(self._discard, prepared.ground)
        if self._closed:
            await end()
            self._refuse_when_closed()

        async def take(wanted: BoxSpec) -> PipedBox:
            if not await still_so(prepared.states, spec.extra_read_only):
                await end()
                raise SandboxUnavailable("the parked box shows what has changed on this machine")
            return await self._hand_over(prepared, wanted, warm=True)

        return Parked(prepared.ground.channel, lambda: identities(spec) == seen, take, end)

    async def close(self) -> None:
        """Close every box, parked ones too, and the connection; may be called twice."""
        await self._close_boxes()
        await self._connection.close()

    # ------------------------------------------------------------- launching

    async def _prepare(self, spec: BoxSpec) -> _Prepared:
        """A session with everything but the project."""
        self._refuse_unsupported(spec)
        states = tuple([await asyncio.to_thread(state_of, source) for source, _ in spec.extra_read_only])
        # What is sent has a place of its own, beside the box's memory.
        room = sizes(spec.limits).sendable + (LARGEST if states else 0)
        ground = _Ground(self._host, self._connection)
        self._open[ground.id] = ground.end
        async with freed_on_failure(partial(self._discard, ground)):
            there = await ground.open(room, same_python=self._same_python)
            self._same_python = there.same_python
            further, notes = [], list(there.notes)
            for source, target in spec.extra_read_only:
                tree = Project(source, (), LARGEST)
                try:
                    further.append((await ground.send_tree(tree, there.place), target))
                except WorkspaceTooLarge as error:
                    raise PathNotShown(str(source), "it is too large to be sent") from error
                notes += missing_notes(tree.left_out)
        return _Prepared(ground, there, tuple(further), tuple(notes), states)

    async def _hand_over(self, prepared: _Prepared, spec: BoxSpec, *, warm: bool) -> PipedBox:
        """The box for this project."""
        ground = prepared.ground
        try:
            async with freed_on_failure(partial(self._discard, ground)):
                self._refuse_when_closed()
                notes = await self._fill(prepared, spec)
        except StartRefused as refused:
            if refused.part == "overlay" and not self._no_overlay:
                self._no_overlay = refused.why
                return await self.start(spec)
            advice = advise_there(refused.why, prepared.there.machine, self._host)
            raise SandboxUnavailable(
                f"bubblewrap did not start a box on {self._host}: {refused.why}", advice or None
            ) from refused
        notes = (f"the box is on {self._host}", *prepared.notes, *ground.notes, *notes)
        return self._opened(ground.channel, lambda: self._discard(ground), notes=notes, warm=warm)

    async def _fill(self, prepared: _Prepared, spec: BoxSpec) -> tuple[str, ...]:
        """Send the project and start the box; what a reader should know of both.

        Where the other machine has no copy-on-write views, the project is copied into the box.
        """
        ground, there = prepared.ground, prepared.there
        limits, notes = fitting(spec.limits, machine=there.memory)
        if spec.image:
            notes.append(f"this box shows the programs of {self._host}: {NAME} has no image {spec.image}")
        copy = bool(self._no_overlay) and spec.workspace is not None and spec.policy.writable
        if copy:
            refuse_roots(spec, self.name)
        project: Project | None = None
        lies: Path | None = None
        if spec.workspace is not None and not copy:
            project = Project(spec.workspace, LEFT_OUT, sizes(spec.limits).sendable)
            lies = await ground.send_tree(project, there.place)
        elsewhere = replace(spec, workspace=lies, extra_read_only=prepared.further)
        request = request_for(elsewhere, limits, there.program, there.view, copy=copy)
        config = guest_config(elsewhere, there.view, writable=request["writable"], copy=copy)
        await ground.start(request, guest_payload(config, same_python=there.same_python))
        if project is not None:
            return (*notes, *missing_notes(sorted(project.left_out)))
        left_out = await send_workspace(ground.channel, spec) if copy else ()
        why = (f"the project was copied into the box: {self._no_overlay}",) if copy else ()
        return (*notes, *copy_notes(spec, left_out), *why)

    def _refuse_unsupported(self, spec: BoxSpec) -> None:
        if not self._host:
            raise SandboxUnavailable("no machine is named", "Name one in the setting `ssh_host`.")
        self._refuse_when_closed()
        refuse_further(spec, self.name)
        if spec.shown:
            raise SandboxUnsupported(self.name, "showing files of this machine as they are")
        if spec.writable_root:
            raise SandboxUnsupported(self.name, "a writable root")
        check_workspace(spec.workspace)

    async def _discard(self, ground: _Ground) -> None:
        await ground.end()
        self._open.pop(ground.id, None)

    async def _try_out(self) -> Probe:
        result = await self._ran(BoxSpec(), TRIAL)
        if not result.ok:
            return Probe(
                ok=False, reason=f"a box starts on {self._host}, but `true` ends with {result.exit_code} in it"
            )
        return Probe(ok=True, reason=f"a box started on {self._host} and ran a command")
