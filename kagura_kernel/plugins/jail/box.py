"""One box with one plugin in it, from its start until it is over, however that comes; never started twice.

Nothing that comes out of it is trusted: a jailer's frames are checked, and of what the plugin prints the last is kept.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import marshal
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import resources
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.commands import Command, CommandResult, OutputChunk
from kagura_kernel.domain.errors import JournalError, KaguraError, SandboxUnavailable, SandboxUnsupported
from kagura_kernel.domain.events import EgressClosed, EgressDecided
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.policy import BoxLimits, CommandLimits, SandboxPolicy, SandboxPolicyType
from kagura_kernel.domain.settings import DEFAULTS
from kagura_kernel.membrane.egress.egress import Egress
from kagura_kernel.membrane.egress.gate import Gate, Resolver, SystemResolver
from kagura_kernel.membrane.egress.policy import PatternPolicy
from kagura_kernel.membrane.egress.proxy import open_egress, proxy_variables
from kagura_kernel.membrane.egress.stream import EgressLimits
from kagura_kernel.plugins import frames
from kagura_kernel.plugins.calls import FunctionSpec
from kagura_kernel.plugins.jailer import (
    ARGUMENTS,
    DEFECT,
    FAILED,
    MAX_FUNCTIONS,
    MAX_HELLO,
    MAX_MODULES,
    MAX_NAME,
    SDK,
    VALUE,
    is_name,
)
from kagura_kernel.sandbox.backend import Box, BoxSpec, GuestStream, Listener

if TYPE_CHECKING:
    from kagura_kernel.membrane.postgres.service import PostgresService
    from kagura_kernel.plugins.content import PluginContent
    from kagura_kernel.plugins.permissions import JailPlan


BURST = 8 * 2**20
"""Bytes that may come as fast as they like."""

RATE = 2**20
"""Bytes a second in the long run."""


class JailLog:
    """The log of one jail, over all of its boxes: the last bytes of it."""

    def __init__(self, keep: int, clock: Clock) -> None:
        self._keep = keep
        self._clock = clock
        self._data = bytearray()
        self._cut = False
        self._owed = 0.0
        self._at = clock.monotonic()

    def add(self, data: bytes) -> bool:
        """Take what was printed; whether it is no more than a log can take."""
        self._data += data[-self._keep :]
        if len(self._data) > self._keep:
            self._cut = True
            del self._data[: len(self._data) - self._keep]
        now = self._clock.monotonic()
        self._owed = max(0.0, self._owed - (now - self._at) * RATE) + len(data)
        self._at = now
        return self._owed <= BURST

    def note(self, text: str) -> None:
        """Add a line of ours."""
        self.add(f"[kagura] {text}\n".encode())

    @property
    def text(self) -> str:
        """All that is kept; whole lines where the beginning was dropped."""
        text = self._data.decode("utf-8", "replace")
        return f"…\n{text.partition(chr(10))[2]}" if self._cut else text


MAX_SIGNATURE = 400
MAX_DOC = 600
MAX_MESSAGE = 4000

_CHUNK = 64 * 1024
# More than this would keep the loop from others while it is parsed.
_LARGE = 128 * 1024

Table = Mapping[str, tuple[FunctionSpec, ...]]


class Breach(Exception):
    """No jailer would have sent this; the text says what it was, half a sentence."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error as a jailer told it."""

    code: str  # One of the four
    kind: str  # The exception's class; may be empty
    message: str  # Its text


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request."""

    id: int  # The request's
    value: Any = None  # What the function returned
    trouble: Trouble | None = None  # What went wrong instead; None when nothing did


class Frames:
    """The frames of one connection, in order."""

    def __init__(self, stream: GuestStream, most: int) -> None:
        self._stream = stream
        self._most = most
        self._buffer = bytearray()

    async def next(self) -> Any:
        """What the next one says. Raises `Breach`: it is no frame; `EOFError` or `OSError`: the connection is over."""
        header = await self._take(frames.HEADER.size)
        try:
            body = await self._take(frames.length(header, self._most))
            decode = partial(frames.decode, body, self._most)
            return await asyncio.to_thread(decode) if len(body) > _LARGE else decode()
        except frames.FrameError as error:
            raise Breach(f"it sent a message that is none: {error}") from error

    async def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            data = await self._stream.read(_CHUNK)
            if not data:
                raise EOFError
            self._buffer += data
        taken = bytes(memoryview(self._buffer)[:count])
        del self._buffer[:count]
        return taken


def read_beginning(said: Any) -> Table | Trouble:
    """The functions that a plugin gives, or why it gives none. Raises `Breach`: it is neither."""
    match said:
        case {"failed": dict() as error} if len(said) == 1:
            return _trouble(error)
        case {"ready": dict() as modules} if len(said) == 1 and len(modules) <= MAX_MODULES:
            return {_name(module): _functions(given) for module, given in modules.items()}
    raise Breach("its first message is not what a jailer begins with")


def read_answer(said: Any) -> Answer:
    """One answer. Raises `Breach`: it is none."""
    match said:
        case {"id": int() as number, "ok": True, "value": value} if len(said) == 3 and type(number) is int:  # noqa: PLR2004 - its keys
            return Answer(number, value)
        case {"id": int() as number, "ok": False, "error": dict() as error} if len(said) == 3 and type(number) is int:  # noqa: PLR2004 - likewise
            return Answer(number, trouble=_trouble(error))
    raise Breach("it sent an answer that is none")


def _trouble(error: dict[str, Any]) -> Trouble:
    match error:
        case {"code": str() as code, "kind": str() as kind, "message": str() as message} if len(error) == 3:  # noqa: PLR2004 - likewise
            if code in (FAILED, DEFECT, ARGUMENTS, VALUE):
                return Trouble(code, _line(kind, MAX_NAME), _text(message, MAX_MESSAGE))
    raise Breach("it sent an error that is none")


def _functions(given: Any) -> tuple[FunctionSpec, ...]:
    if not isinstance(given, list) or not 0 < len(given) <= MAX_FUNCTIONS:
        raise Breach("a module of its has no functions, or too many")
    return tuple(_function(one) for one in given)


def _function(given: Any) -> FunctionSpec:
    match given:
        case {"name": str() as name, "signature": str() as signature, "doc": str() as doc}:
            return FunctionSpec(_name(name), _line(signature, MAX_SIGNATURE), _line(doc, MAX_DOC))
    raise Breach("a function of its has no name")


def _name(name: str) -> str:
    if is_name(name):
        return name
    raise Breach(f"{name[:MAX_NAME]!a} is no name for a function or a module")


def _line(text: str, most: int) -> str:
    return _text(" ".join(text.split()), most)


def _text(text: str, most: int) -> str:
    shown = "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in text[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


@dataclass(frozen=True, slots=True)
class JailLimits:
    """The limits of one jail."""

    call_seconds: float = DEFAULTS.plugin_call_seconds  # One call, from the moment the plugin has it
    calls: int = DEFAULTS.plugin_calls  # Carried out at once
    waiting: int = 64  # May wait for their turn; one more is refused
    frame_bytes: int = 4 * 2**20  # Arguments, or an answer, as JSON
    memory_mib: int = DEFAULTS.plugin_memory_mib  # Memory of the whole jail
    start_seconds: float = 20.0  # From the box to the plugin's list of functions; its `create_host_functions` is in it
    log_bytes: int = 64 * 1024  # How much of what it prints is kept


async def no_services(box: Box, service: PostgresService) -> int:
    """Opens nothing: where nobody can sign in to a database on a plugin's behalf."""
    raise SandboxUnsupported(box.backend, f"signing in to {service.host} for a plugin")


@dataclass(frozen=True, slots=True)
class JailParts:
    """What the jails of one process are made of. All callables are used on the loop that the jails live on."""

    start_box: Callable[[BoxSpec], Awaitable[Box]]  # Starts a box of the back-end for jails
    resolver: Callable[[], Resolver] = SystemResolver  # Makes what turns names into addresses; one for each jail
    # Keeps what is decided about a jail's connections; the plugin's name is in it
    record_egress: Callable[[EgressDecided | EgressClosed], None] = lambda _: None
    clock: Clock = field(default_factory=SystemClock)  # The time
    limits: JailLimits = field(default_factory=JailLimits)  # Of each jail
    # Told a plugin's name and why it has to go into quarantine; once for each jail
    failed: Callable[[str, str], object] = lambda _plugin, _why: None
    # Serves a database on a port of the box's loopback, signed in by the membrane: the port
    open_service: Callable[[Box, PostgresService], Awaitable[int]] = no_services


_MIB = 2**20
_EGRESS = EgressLimits(connections=32, waiting=64, rate=20.0, burst=64)


def box_spec(plan: JailPlan, limits: JailLimits) -> BoxSpec:
    """A box with no project, nothing to write but its own memory and what the plan shows, and no network."""
    return BoxSpec(
        policy=SandboxPolicy(type=SandboxPolicyType.READ_ONLY, writable_roots=()),
        limits=BoxLimits(
            memory_bytes=limits.memory_mib * _MIB,
            processes=64,
            cpus=1.0,
            workspace_bytes=_MIB,
            scratch_bytes=64 * _MIB,
            open_files=512,
            file_bytes=512 * _MIB,
        ),
        shown=plan.shown,
    )


RESERVE = 2**30
"""Bytes that have to stay free, or a tenth of a small file system."""

INTERVAL = 0.25
"""Seconds between looks. What can be written meanwhile is far less than the reserve."""

Look = Callable[[Path], os.statvfs_result]


def why_full(path: Path, found: os.statvfs_result) -> str:
    """Why nothing more may be written there, half a sentence; empty while there is room."""
    total = found.f_blocks * found.f_frsize
    free = found.f_bavail * found.f_frsize
    if free < min(RESERVE, total // 10):
        return f"the disk of {path} has no more than {free // 2**20} MiB left"
    # Some file systems do not count files.
    if found.f_files and found.f_favail < found.f_files // 20:
        return f"the disk of {path} has no more than {found.f_favail} files left"
    return ""


async def until_full(paths: Sequence[Path], clock: Clock, look: Look = os.statvfs) -> str:
    """Return when one of these places has no room for a plugin any more: why.

    A place that is gone has none.
    """
    while True:
        for path in paths:
            try:
                # A disk on another machine may take its time.
                why = why_full(path, await asyncio.to_thread(look, path))
            except OSError as error:
                return f"{path} cannot be looked at any more ({(error.strerror or str(error)).lower()})"
            if why:
                return why
        await clock.sleep(INTERVAL)


_PLUGINS = "kagura_kernel.plugins"

MODULES = (f"{_PLUGINS}.frames", f"{_PLUGINS}.jailer")
"""Of the jailer, each after those it imports."""

_PACKAGES = ("kagura_kernel", _PLUGINS)

STUB = """
import _socket, marshal, sys
import _frozen_importlib_external as here

connection = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
connection.connect(("127.0.0.1", int(sys.argv[1])))
connection.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)

def take(count):
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            sys.exit(1)
        data += part
    return data

magic, packages, sources, sdk, codes = marshal.loads(take(int.from_bytes(take(4), "big")))
codes, ours = marshal.loads(codes) if magic == here.MAGIC_NUMBER else ([
    compile(text, "<%s>" % name, "exec", dont_inherit=True) for name, text in sources
], {})
for name, code in [(name, None) for name in packages] + [(name, code) for (name, _), code in zip(sources, codes)]:
    module = sys.modules[name] = type(sys)(name)
    above, _, last = name.rpartition(".")
    module.__package__ = above
    if above:
        setattr(sys.modules[above], last, module)
    if code is None:
        module.__package__, module.__path__ = name, []
    else:
        exec(code, module.__dict__)
module.main(connection, sdk, ours)
"""


def jailer_argv(port: int) -> tuple[str, ...]:
    """The command that waits for a jailer on this port of the box's loopback."""
    return ("python3", "-I", "-S", "-B", "-u", "-c", STUB, str(port))


@cache
def jailer_payload() -> bytes:
    """What has to be written to that command first, the modules for plugins in it.

    It holds code of this Python, and text for any other.
    """
    folder = resources.files(_PLUGINS)
    sources = tuple((name, (folder / f"{name.rpartition('.')[2]}.py").read_text("utf-8")) for name in MODULES)
    codes = [compile(text, f"<{name}>", "exec", dont_inherit=True) for name, text in sources]
    modules = resources.files(f"{_PLUGINS}.sdk").iterdir()
    sdk = {one.name: one.read_text("utf-8") for one in modules if one.name.endswith(".py")}
    ours = {path: compile(text, f"{SDK}/{path}", "exec", dont_inherit=True) for path, text in sdk.items()}
    # Version 2 of the format is read by every Python that a box may have.
    body = marshal.dumps((MAGIC_NUMBER, _PACKAGES, sources, sdk, marshal.dumps((codes, ours))), 2)
    return len(body).to_bytes(4, "big") + body


def hello(content: PluginContent, config: Mapping[str, Any], limits: JailLimits) -> bytes:
    """The frame after it: the plugin, and what it is to know. Raises `FrameError`: there is too much of it."""
    told = {
        "plugin": content.name,
        "files": {path: base64.b64encode(data).decode("ascii") for path, data in content.python.items()},
        "config": dict(config),
        "calls": limits.calls,
        "most": limits.frame_bytes,
    }
    return frames.encode(told, MAX_HELLO)


T = TypeVar("T")

_NO_LIMITS = CommandLimits(total=None, idle=None)
_LAST_WORDS = 1.0
_KILLED = 9
_NOT_FOUND = 127


@dataclass(frozen=True, slots=True)
class Ending:
    """How it ended."""

    why: str  # Half a sentence
    breach: bool = False  # Whether it sent what no jailer would
    own: bool = True  # Whether the plugin may have brought it about


class Gone(Exception):
    """It is over; `ending` says how."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.why)
        self.ending = ending


class Running:
    """A plugin that runs in a box of its own; `on_over` is told once, when it is over."""

    def __init__(
        self,
        content: PluginContent,
        plan: JailPlan,
        parts: JailParts,
        log: JailLog,
        on_over: Callable[[Running, Ending], None],
    ) -> None:
        self._content = content
        self._plan = plan
        self._parts = parts
        self._log = log
        self._on_over = on_over
        self._egress: Egress | None = None
        self._box: Box | None = None
        self._stream: GuestStream | None = None
        self._turn = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Answer]] = {}
        self._began: asyncio.Future[Table | Trouble] = asyncio.get_running_loop().create_future()
        self._ending: Ending | None = None
        self._jailer: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> Table | Trouble:
        """Start the box, send the plugin in, and hear what it gives. Whatever happens, `end` or `close` has to follow.

        Raises:
            Gone: it was over before it could say.
            TimeoutError: it did not say in time.
            FrameError: the plugin is too large to be sent.
            KaguraError: the box cannot be had.
        """
        beginning = hello(self._content, self._plan.config, self._parts.limits)
        box = await self._parts.start_box(box_spec(self._plan, self._parts.limits))
        if self._ending is not None:
            # Whoever ended it meanwhile had no box to close.
            await asyncio.shield(box.close())
            raise Gone(self._ending)
        self._box = box
        variables = await self._open_way_out(box)

        async def serve(stream: GuestStream) -> None:
            await self._serve(stream, jailer_payload() + beginning)

        def failed(error: BaseException) -> None:
            self.end(Ending(f"serving it failed ({type(error).__name__})"))

        port = await box.listen(Listener(0, "raw", "jail"), serve, failed)
        self._jailer = self._spawn(self._run_jailer(box, port, variables))
        if written := [shown.source for shown in self._plan.shown if shown.writable]:
            self._spawn(self._guard(written))
        return await self._within(self._parts.limits.start_seconds, asyncio.shield(self._began))

    async def ask(self, module: str, function: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Answer:
        """Have a function called; its answer.

        Raises:
            FrameError: the arguments are no JSON, or too much.
            TimeoutError: it did not answer in time.
            Gone: it is over.
        """
        number = next(self._numbers)
        request = {"id": number, "module": module, "function": function, "arguments": arguments, "named": named}
        frame = frames.encode(request, self._parts.limits.frame_bytes)
        if self._ending is not None:
            raise Gone(self._ending)
        answer = self._pending[number] = asyncio.get_running_loop().create_future()
        try:
            return await self._within(self._parts.limits.call_seconds, self._exchange(frame, answer))
        finally:
            self._pending.pop(number, None)

    def end(self, ending: Ending) -> None:
        """It is over: nobody waits for an answer any more. Only the first time counts."""
        if self._ending is not None:
            return
        self._ending = ending
        waiting: list[asyncio.Future[Any]] = [*self._pending.values(), self._began]
        for one in waiting:
            if not one.done():
                one.set_exception(Gone(ending))
                # Whoever has left does not ask; the loop shall not complain about it.
                one.exception()
        if self._stream is not None:
            self._stream.abort()
        self._on_over(self, ending)

    async def close(self) -> None:
        """End everything in the box and free what it held; may be called twice."""
        self.end(Ending("it was closed"))
        try:
            if self._box is not None:
                await self._box.close()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            # The last connections, once the box is gone. A journal that takes nothing has ended the jail, and tells it
            # to everybody else as well.
            if self._egress is not None:
                with suppress(JournalError):
                    self._egress.close()

    # ------------------------------------------------------------ connection

    async def _open_way_out(self, box: Box) -> dict[str, str]:
        """Let it reach databases that the membrane signs in to, and hosts: the variables by which the latter are found.

        Raises `SandboxUnavailable`: the box has no loopback, or is gone; and what the opening of a service raises.
        """
        for service in self._plan.services:
            if await self._parts.open_service(box, service) != service.jail_port:
                raise SandboxUnavailable(f"the database {service.target} lies on another port than its URL says")
        if not self._plan.net:
            return {}

        def crossed(fact: EgressDecided | EgressClosed) -> None:
            self._parts.record_egress(fact.model_copy(update={"plugin": self._content.name}))

        def failed(_: BaseException) -> None:
            self.end(Ending("a crossing could not be recorded"))

        gate = Gate(PatternPolicy(self._plan.net), self._parts.resolver(), limits=_EGRESS)
        self._egress = Egress(gate, crossed, limits=_EGRESS, clock=self._parts.clock)
        return proxy_variables(await open_egress(box, self._egress, failed=failed))

    async def _serve(self, stream: GuestStream, beginning: bytes) -> None:
        if self._stream is not None:
            await stream.refuse(503, "one connection is enough")
            self.end(Ending("it made a second connection to the host", breach=True))
            return
        self._stream = stream
        frames = Frames(stream, self._parts.limits.frame_bytes)
        try:
            await stream.accept()
            await stream.write(beginning)
            said = read_beginning(await frames.next())
            if not self._began.done():
                self._began.set_result(said)
            while True:
                self._answered(read_answer(await frames.next()))
        except Breach as breach:
            self.end(Ending(str(breach), breach=True))
        except (OSError, EOFError):
            # The reason is what the jailer's end says.
            pass
        if self._ending is None and self._jailer is not None:
            await asyncio.wait({self._jailer}, timeout=_LAST_WORDS)
        self.end(Ending("it hung up"))

    def _answered(self, answer: Answer) -> None:
        waiting = self._pending.pop(answer.id, None)
        if waiting is None or waiting.done():
            raise Breach("it answered what it was not asked, or twice")
        waiting.set_result(answer)

    async def _exchange(self, frame: bytes, answer: asyncio.Future[Answer]) -> Answer:
        if self._stream is not None:
            # A connection that is gone says so where it is read.
            with suppress(OSError):
                async with self._turn:
                    await self._stream.write(frame)
        return await answer

    async def _within(self, seconds: float, work: Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:
        task = asyncio.ensure_future(work)
        deadline = asyncio.ensure_future(self._parts.clock.sleep(seconds))
        try:
            await asyncio.wait({task, deadline}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise TimeoutError
            return task.result()
        finally:
            deadline.cancel()
            task.cancel()

    # --------------------------------------------------------------- process

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        return task

    async def _run_jailer(self, box: Box, port: int, variables: Mapping[str, str]) -> None:
        command = Command(jailer_argv(port), cwd="/tmp", env=variables, limits=_NO_LIMITS, keep_bytes=1024)  # noqa: S108 - the box's own
        try:
            why = self._why(await box.run(command, self._printed))
        except KaguraError as error:
            why = await box.wait_closed() or error.message
        self.end(Ending(why))

    def _why(self, result: CommandResult) -> str:
        if result.signal == _KILLED:
            return f"its process was killed, as one is that needs more than {self._parts.limits.memory_mib} MiB"
        if result.exit_code == _NOT_FOUND:
            return "there is no python3 in its box"
        if result.signal:
            return f"signal {result.signal} ended its process"
        return f"its process ended with exit code {result.exit_code}"

    def _printed(self, chunk: OutputChunk) -> None:
        if not self._log.add(chunk.data):
            self.end(Ending("it printed without end"))

    async def _guard(self, places: Sequence[Any]) -> None:
        self.end(Ending(await until_full(places, self._parts.clock)))
