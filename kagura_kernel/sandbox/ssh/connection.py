"""OpenSSH's client as the way to another machine: one connection, over which every box has a session of its own.

The client asks nobody anything: it knows the machine's key and can log in without a word, or it says why not. The
connection lives as long as a program of ours at its other end, which ends when this process does, however that ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import marshal
import os
import secrets
import shlex
import shutil
import signal
import socket
import tempfile
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import IO, Any

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox.boot import code_of
from kagura_kernel.sandbox.owner import owner_alive, this_owner
from kagura_kernel.sandbox.pipe import Buffer, FdPipe, PipeSink
from kagura_kernel.sandbox.supervisor.client import GuestStreams

INSTALL_CLIENT = "`sudo apt install openssh-client`, or the package of your distribution."

LOG_IN = (
    "No question can be answered here: log in once by hand in a terminal, `ssh {host}`, which shows the machine's key "
    "and whether a key of yours opens it (`ssh-add` for one with a passphrase)."
)
PYTHON = "Name a Python of 3.10 or newer on that machine in the setting `ssh_python`."

_OPTIONS = {
    # Older clients do not know the words that it names.
    "IgnoreUnknown": "SessionType,StdinNull,ForkAfterAuthentication",
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "GSSAPIDelegateCredentials": "no",
    "SessionType": "default",
    "StdinNull": "no",
    "ForkAfterAuthentication": "no",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "EscapeChar": "none",
    "ControlPersist": "no",
    "ConnectTimeout": "15",
    "ServerAliveCountMax": "3",
    "LogLevel": "ERROR",
}
"""Whatever the person's own configuration says: nobody is asked, nothing of this machine is lent to the other."""

_ENVIRONMENT = ("HOME", "USER", "LOGNAME", "PATH", "LANG", "SSH_AUTH_SOCK", "KRB5CCNAME")
_READY = b"kagura is connected"
SILENCE = 60.0
"""Seconds without a word after which each end takes the other for gone."""
_CONNECT_SECONDS = 30.0
_END_SECONDS = 12.0
_LONGEST_LINE = 1 << 22
# What the system takes as a socket's name, less what the client appends while it makes one.
_LONGEST_PATH = 85
_PREFIX = "kagura-ssh-"

_PACKAGES = ("", ".sandbox", ".sandbox.guest", ".sandbox.ssh", ".sandbox.supervisor")
_MODULES = (
    *(f".sandbox.guest.{name}" for name in ("frames", "loop", "processes", "files", "changes")),
    *(f".sandbox.supervisor.{name}" for name in ("linux", "etc", "arguments", "cgroups", "seccomp", "shown_paths")),
    *(f".sandbox.supervisor.{name}" for name in ("root_layer", "python_layer", "stage", "gvisor", "seed", "main")),
    ".sandbox.namespaces",
    ".sandbox.python_view",
    ".sandbox.ssh.remote",
)
"""What `remote` needs there, each after those that it imports."""

# No quotation mark and nothing that a shell of any kind would take for its own.
_STUB = (
    'import os;f=lambda n,d=b"":d if len(d)==n else f(n,d+(os.read(0,n-len(d))or os._exit(1)));'
    'exec(f(int.from_bytes(f(4),"big")).decode())'
)

# The connection is there as long as this program: as long as our end of its input, and as a word comes in time.
_KEEPER = (
    'import os,select;os.write(1,b"READY"+bytes([10]));'
    'exec("while select.select([0],[],[],SILENCE)[0] and os.read(0,99):0")'
)

_LOADER = """
import os, sys
if sys.version_info < (3, 10):
    os.write(2, b'{"op": "old", "python": "%d.%d"}' % sys.version_info[:2] + bytes([10]))
    os._exit(0)
import _frozen_importlib_external as here, marshal, zlib

def take(count):
    parts = []
    while count:
        part = os.read(0, count)
        if not part:
            os._exit(1)
        parts.append(part)
        count -= len(part)
    return b"".join(parts)

os.write(1, bytes.fromhex("BEGUN"))
magic, packages, modules, arguments = marshal.loads(zlib.decompress(take(int.from_bytes(take(4), "big"))))
def add(name):
    module = sys.modules[name] = type(sys)(name)
    above, _, last = name.rpartition(".")
    if above:
        setattr(sys.modules[above], last, module)
    return module

for name in packages:
    add(name).__path__ = []
for name, text, code in modules:
    module = add(name)
    module.__package__ = name.rpartition(".")[0]
    exec(marshal.loads(code) if magic == here.MAGIC_NUMBER else compile(text, name, "exec"), module.__dict__)
sys.modules["kagura_kernel.sandbox.ssh.remote"].main(*arguments)
"""


def bootstrap(sent_bytes: int, silence: float, *, same_python: bool) -> bytes:
    """What a session must be sent first; a wrong guess whether it runs this Python costs time only.

    `remote.main` takes the other arguments.
    """
    magic = MAGIC_NUMBER if same_python else b""
    packages = [f"kagura_kernel{name}" for name in _PACKAGES]
    body = zlib.compress(marshal.dumps((magic, packages, _modules(same_python=same_python), (sent_bytes, silence)), 2))
    loader = _LOADER.replace("BEGUN", BEGUN.hex()).encode()
    return b"".join(len(part).to_bytes(4, "big") + part for part in (loader, body))


@cache
def _modules(*, same_python: bool) -> list[tuple[str, str, bytes]]:
    """What they are called, their texts, and their codes where those can be used."""
    folder = resources.files("kagura_kernel")
    texts = [(folder / f"{name[1:].replace('.', '/')}.py").read_text("utf-8") for name in _MODULES]
    names = [f"kagura_kernel{name}" for name in _MODULES]
    codes = [marshal.dumps(code_of(name)) if same_python else b"" for name in names]
    return list(zip(names, texts, codes, strict=True))


BEGUN = b"\x00kagura begins\n"
"""What comes before the guest's first byte: a login may print whatever it likes before."""

_LONGEST_LOGIN = 1 << 20


class SessionPipe(FdPipe):
    """The pipe to a guest, from where `BEGUN` has passed."""

    def start(self, sink: PipeSink) -> None:
        """Begin to read; called once, on the running loop."""
        super().start(_Login(sink))


class _Login:
    """Leaves out what a login prints; then it is the sink that it was made for."""

    def __init__(self, sink: PipeSink) -> None:
        self._sink = sink
        self._room = memoryview(bytearray(1 << 16))
        self._printed = b""
        self._begun = False

    def get_buffer(self) -> memoryview:
        return self._sink.get_buffer() if self._begun else self._room

    def buffer_updated(self, count: int) -> None:
        if self._begun:
            self._sink.buffer_updated(count)
        else:
            self.feed(self._room[:count])

    def feed(self, data: Buffer) -> None:
        if self._begun:
            self._sink.feed(data)
            return
        self._printed += data
        _, begun, rest = self._printed.partition(BEGUN)
        if begun:
            self._begun = True
            self._printed = b""
            if rest:
                self._sink.feed(rest)
        elif len(self._printed) > _LONGEST_LOGIN:
            self._sink.ended("the login prints too much")

    def ended(self, why: str) -> None:
        self._sink.ended(why)


class Connection:
    """One connection to a machine, made when it is first needed and again when it was lost. Belongs to one loop.

    Args:
        host: The machine, as `ssh` takes it.
        python: The Python there.
        config: A configuration file in place of the person's own; empty is that one.
        silence: Seconds without a word after which each end takes the other for gone.
    """

    def __init__(self, host: str, python: str, config: str = "", silence: float = SILENCE) -> None:
        self.host = host
        self.silence = silence
        self._python = python
        self._config = config
        self._alive: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._closed = False
        self._folder: Path | None = None

    async def session(self, said: Callable[[Mapping[str, Any]], None]) -> Session:
        """Start what waits for `bootstrap`; `said` is told the JSON objects that it writes to standard error, by lines.

        Raises:
            SandboxUnavailable: there is no client, or no connection.
        """
        async with self._lock:
            if self._closed:
                raise SandboxUnavailable(f"the connection to {self.host} was closed")
            if self._process is None or self._process.returncode is not None:
                await self._connect()
            words = [*self._words(), "-o", "ControlMaster=no", "--", self.host, self._command(_STUB)]
        with GuestStreams() as streams:
            theirs, answers = streams.theirs
            said_out, said_in = os.pipe2(os.O_CLOEXEC)
            heard = open(said_out, "rb", buffering=0)  # noqa: ASYNC230, PTH123, SIM115 - a descriptor; who listens closes it
            try:
                process = await self._spawn(words, stdin=theirs, stdout=answers, stderr=said_in)
            except BaseException:
                heard.close()
                raise
            finally:
                os.close(said_in)
            streams.close_theirs()
            return Session(process, streams.hand_over(), heard, said)

    async def close(self) -> None:
        """End the connection, and with it every session, for good; may be called twice."""
        self._closed = True
        async with self._lock:
            await self._end()

    # ---------------------------------------------------------------- inside

    def _words(self) -> list[str]:
        # A client that lies in the project would be whatever a box has put there.
        program = shutil.which("ssh", path="/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin")
        if program is None:
            raise SandboxUnavailable("OpenSSH's client is not installed", INSTALL_CLIENT)
        if self.host.startswith("-"):
            raise SandboxUnavailable(f"{self.host!r} is no name of a machine", "Mend the setting `ssh_host`.")
        every = _OPTIONS | {"ServerAliveInterval": str(max(1, round(self.silence / 4)))}
        options = [word for name, value in every.items() for word in ("-o", f"{name}={value}")]
        own = ["-F", self._config] if self._config else []
        return [program, *own, *options, "-o", f'ControlPath="{self._folder}/c"']

    def _command(self, program: str) -> str:
        """The command line of a program, for whatever shell the account has."""
        # Only the shell there knows where the account's home is.
        home, python = ("~/", self._python[2:]) if self._python.startswith("~/") else ("", self._python)
        return f"exec {home}{shlex.quote(python)} -I -c '{program}'"

    async def _spawn(self, words: list[str], **streams: Any) -> asyncio.subprocess.Process:
        environ = {name: value for name in _ENVIRONMENT if (value := os.environ.get(name))}
        try:
            return await asyncio.create_subprocess_exec(
                *words,
                env=environ,
                cwd="/",
                start_new_session=True,
                limit=_LONGEST_LINE,
                **streams,
            )
        except OSError as error:
            raise SandboxUnavailable(f"{words[0]} does not start ({error.strerror})", INSTALL_CLIENT) from error

    async def _connect(self) -> None:
        await self._end()
        self._folder = _new_folder()
        keeper = _KEEPER.replace("READY", _READY.decode()).replace("SILENCE", f"{self.silence:g}")
        try:
            words = [*self._words(), "-o", "ControlMaster=yes", "--", self.host, self._command(keeper)]
            pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
            process = self._process = await self._spawn(words, **pipes)
            refused = None if await _says_ready(process) else await _why_not(self.host, process)
        except BaseException:
            await asyncio.shield(self._end())
            raise
        if refused is not None:
            await self._end()
            raise refused
        self._alive = asyncio.create_task(_stay_alive(process, self.silence / 3))

    async def _end(self) -> None:
        if self._alive is not None:
            self._alive.cancel()
        process, self._process = self._process, None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            await _gone(process)
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


class Session:
    """One command there: two descriptors of ours for its input and output, and what it says."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        ends: tuple[int, int],
        heard: IO[bytes],
        said: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self.ends = ends  # To read from and to write to; whoever takes them closes them
        self.words = ""  # The last that it, or the client, said in words
        self._process = process
        self._heard = heard
        self._said = said
        self.ended = asyncio.ensure_future(self._listen())  # Done when there is nothing left of it here

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        stream = asyncio.StreamReader(_LONGEST_LINE)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), self._heard)
        try:
            while line := await _line(stream):
                self._hear(line)
        finally:
            transport.close()
        await self._process.wait()

    def _hear(self, line: bytes) -> None:
        message: Any = None
        # What is nested too deeply is no message of ours either.
        with contextlib.suppress(ValueError, RecursionError):
            message = json.loads(line)
        if isinstance(message, dict) and isinstance(message.get("op"), str):
            self._said(message)
        elif text := line.decode("utf-8", "replace").strip():
            self.words = f"{self.words}\n{text}"[-4000:]

    @property
    def exit_code(self) -> int | None:
        """The client's: that of the command, 255 where the connection failed; None before the end."""
        return self._process.returncode

    async def end(self) -> None:
        """Wait for the end of a session whose input was closed; one that does not end is ended."""
        await asyncio.wait([self.ended], timeout=_END_SECONDS)
        await _gone(self._process, 0.0)
        # The connection keeps what the session prints open for as long as something of it runs there.
        self.ended.cancel()
        await asyncio.wait([self.ended])


async def _says_ready(process: asyncio.subprocess.Process) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CONNECT_SECONDS):
            # A login may print whatever it likes before.
            while process.stdout is not None and (line := await _line(process.stdout)):
                if line.strip() == _READY:
                    return True
    return False


async def _why_not(host: str, process: asyncio.subprocess.Process) -> SandboxUnavailable:
    """Why a connection that did not say that it is ready is none; it is ended."""
    await _gone(process, 1.0)
    said = b""
    # What the client has started may keep it open.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            said = await process.stderr.read(1 << 16) if process.stderr is not None else b""
    return explained(host, said.decode("utf-8", "replace"), process.returncode)


async def _stay_alive(process: asyncio.subprocess.Process, pause: float) -> None:
    while process.stdin is not None and not process.stdin.is_closing():
        await asyncio.sleep(pause)
        process.stdin.write(b".")


async def _line(stream: asyncio.StreamReader) -> bytes:
    try:
        return await stream.readline()
    except ValueError:
        # Longer than anything that we say; what follows of it is words as well.
        return b"\n"


async def _gone(process: asyncio.subprocess.Process, seconds: float = _END_SECONDS) -> None:
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        # A client is a group of its own; what it has started, such as a `ProxyCommand`, is part of it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def explained(host: str, said: str, exit_code: int | None = 255) -> SandboxUnavailable:
    """Why there is no session on `host`, from what the client, or a shell there, has said."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = lines[-1].rstrip(".") if lines else "the connection ended"
    low = said.lower()
    if "host key verification failed" in low or "host identification has changed" in low:
        changed = "has changed" if "has changed" in low else "is not known here"
        return SandboxUnavailable(f"the key of {host} {changed}", LOG_IN.format(host=host))
    if "permission denied" in low or "too many authentication failures" in low:
        return SandboxUnavailable(f"{host} does not let you in without a question ({last})", LOG_IN.format(host=host))
    if exit_code in (126, 127):
        return SandboxUnavailable(f"{host} has no such Python ({last})", PYTHON)
    return SandboxUnavailable(f"{host}: {last}", f"See whether `ssh {host}` works in a terminal.")


def _new_folder() -> Path:
    """A folder of this process for the client's socket; those of processes that are gone go."""
    place = Path(tempfile.gettempdir())
    if len(str(place)) + len(_PREFIX) + 40 > _LONGEST_PATH:
        place = Path("/tmp")  # noqa: S108 - a socket's name must be short, and the folder below is ours alone
    for old in place.glob(f"{_PREFIX}*"):
        owner, _, _ = old.name.removeprefix(_PREFIX).rpartition("-")
        with contextlib.suppress(OSError):
            if (
                not owner_alive(f"{socket.gethostname()}:{owner.replace('-', ':')}")
                and old.lstat().st_uid == os.geteuid()
            ):
                shutil.rmtree(old, ignore_errors=True)
    _, pid, started = this_owner().rsplit(":", 2)
    folder = place / f"{_PREFIX}{pid}-{started}-{secrets.token_hex(4)}"
    folder.mkdir(mode=0o700)
    return folder
