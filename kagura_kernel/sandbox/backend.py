"""The protocol of a box and of what starts one.

A back-end gives a `Box`: a running sandbox without network, without sockets, without secrets, whose only tie to the
host is the standard input and output of its first process, the guest (`guest/`), speaking frames (`streams.py`).
Everything in this file is implemented by `bubblewrap`, by `docker` and by the fake in `kagura_kernel.testing`, and
held to by `kagura_kernel.testing.conformance.box`.

All methods are coroutines of the loop on which the back-end was made; none may be called from another loop.

A box has no network. Programs in it can connect to the guest's own listeners on the box's loopback: each connection
becomes a stream on the pipe, and whoever asked for the listener serves it on the host. What a stream says about itself
is the box's word.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from kagura_kernel.domain.commands import Command, CommandResult, OutputListener
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.policy import BoxLimits, IsolationClass, SandboxPolicy
from kagura_kernel.domain.tools import FileSystem

Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Listener:
    """A loopback port in the box."""

    port: int  # TCP port on 127.0.0.1 and, where the box has it, ::1; 0 lets the box choose
    # `proxy` speaks HTTP (CONNECT and absolute form) and SOCKS 5 with its clients, and each stream's request names
    # `host` and `port` as the client wrote them. `raw` says nothing: the bytes are the stream.
    front: Literal["proxy", "raw"] = "raw"
    name: str = ""  # told in each stream's request, for whoever serves several


class ByteStream(Protocol):
    """One connection. Flow-controlled both ways; at most one reader and one writer at a time.

    Order of calls: first `accept`, or a refusal, once; `gone` any time before, and no byte passes before. After
    `accept`: any number of `read` and `write`, side by side; then `write_eof`; `abort` or `close` at any time, last,
    and more than once without harm.
    """

    async def gone(self) -> None:
        """Return when the program, or the box, has gone before it was answered; one waiter at a time. Never raises.

        A program that has only stopped sending has not gone. What is known of it comes from the box, a moment late.
        """
        ...

    async def accept(self) -> None:
        """Tell the program that it has its connection. Raises `OSError` when the program or the box is gone."""
        ...

    async def read(self, limit: int) -> Bytes:
        """1 to `limit` bytes, waiting for the first; empty when the program has no more to send.

        What is not read is not taken from the box. The buffer is good until the next call.

        Raises:
            OSError: the program or the box is gone, or it broke its protocol.
        """
        ...

    async def write(self, data: Bytes) -> None:
        """Hand all of `data` over; returns when there is room for more. The buffer is the caller's again after it.

        Raises:
            OSError: the program or the box is gone.
        """
        ...

    async def write_eof(self) -> None:
        """No more bytes for the program; it may go on sending."""
        ...

    def abort(self) -> None:
        """End it so that the program cannot take what it has for the whole: a reset, no end of file."""
        ...

    def close(self) -> None:
        """End it, and free what it holds: in order after `write_eof`, with a reset without it."""
        ...


class GuestStream(ByteStream, Protocol):
    """A connection of a program in a box."""

    # What the guest said about it: `name`, and for a `proxy` listener `host` (text) and `port` (whole number).
    request: Mapping[str, Any]

    async def refuse(self, status: int, text: str) -> None:
        """Tell the program why it has none, in its protocol's words; `status` is an HTTP proxy's. Then `close`."""
        ...


ServeStream = Callable[[GuestStream], Awaitable[None]]
"""Serves one connection to its end, in a task of its own on the box's loop; cancelled when the box goes.

The stream is closed when it returns, and reset when it raises.
"""

Failed = Callable[[BaseException], None]
"""Told what serving a connection raised, on the box's loop; other connections go on."""

WORKSPACE = "/workspace"
"""Where the project's copy-on-write view lies, in every box of every back-end."""


@dataclass(frozen=True, slots=True)
class ShownPath:
    """A file or directory of the host that a box sees as it is, at every moment, and not as a copy.

    It is found by its name without following any link, in it or on the way to it, and what is mounted below it is not
    shown where the system lets that be left out. Nothing there can be run, and sockets there cannot be spoken to.
    Whoever owns it is shown as the box's own user, to whom what the box makes there belongs outside.
    """

    source: Path  # its place on the host, absolute, without links
    target: str  # its place in the box, absolute, in a folder that the box has not otherwise
    writable: bool = False  # whether the box may change it


@dataclass(frozen=True, slots=True)
class BoxSpec:
    """What a box is made of; equal specs may share a warm pool."""

    workspace: Path | None = None  # the project root on the host, resolved and checked; None gives an empty workspace
    image: str | None = None  # image name, for back-ends that have images; None is the back-end's default
    policy: SandboxPolicy = field(default_factory=SandboxPolicy)  # the data boundary
    limits: BoxLimits = field(default_factory=BoxLimits)  # how much of the machine it may use
    # Variables that every command in it sees. Never secrets.
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    # Further host directories whose contents are there read-only, as (host path, path in the box). The host path is
    # absolute and without links; the path in the box is one that boxes have not otherwise. Some back-ends copy, so
    # what lies there must stay as it is for as long as a box has it.
    extra_read_only: tuple[tuple[Path, str], ...] = ()
    # Files and directories of the host that are shown as they are; such a box is never parked.
    shown: tuple[ShownPath, ...] = ()
    # Whether commands may change the whole system that they see, as a root that is nobody outside: a layer that is
    # gone with the box.
    writable_root: bool = False
    # Whether a back-end that has no images will not do: the run asked for this one itself. The box is the same either
    # way.
    image_required: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Probe:
    """Whether a back-end works here; found out by starting a real box, never by looking at versions."""

    ok: bool  # whether a box started and ran a command
    reason: str  # why, or why not, in half a sentence
    install: str = ""  # the command that would mend it; empty when it works
    # What would make its walls stronger where it works, as a sentence without its end; shown in the status.
    advice: str = ""


@dataclass(frozen=True, slots=True)
class BoxChange:
    """One path in the workspace that differs from the project, on the box's word."""

    path: str  # relative to the workspace
    # Only regular files and links are told; directories follow from them.
    status: Literal["added", "modified", "deleted"]
    kind: Literal["file", "link"] = "file"  # file or link
    size: int = 0  # bytes
    mode: int = 0o644  # permission bits
    target: str = ""  # where a link points


class Box(Protocol):
    """A sandbox that is running."""

    id: str  # `box-…`; also the name of its container, where there is one
    backend: str  # name of the back-end that started it
    isolation: IsolationClass  # how strong its walls are
    image: str  # image it runs; empty where there are none
    warm: bool  # whether it came from the pool
    notes: tuple[str, ...]  # what a reader should know about it (a limit the system cannot set, folders left out)

    @property
    def files(self) -> FileSystem:
        """Files inside, rooted at the workspace; absolute paths are the box's own."""
        ...

    async def run(self, command: Command, on_output: OutputListener | None = None) -> CommandResult:
        """Run one command to its end; a command that fails, or does not exist (127), is a result.

        Several may run at once. Cancelling stops the command's whole process group, inside the box, before it returns.

        Raises:
            SandboxCommandTimeout: time is up and the whole process group is gone.
            SandboxIdleTimeout: it fell silent for too long; gone likewise.
            SandboxUnavailable: the box is dead (`SandboxDied`) or closed; never shown to a model as output.
            SandboxProtocolError: the box sent garbage and was closed.
        """
        ...

    async def changes(self) -> list[BoxChange]:
        """How the workspace differs from what it was at first, sorted by path; protected subpaths are never told."""
        ...

    async def listen(self, listener: Listener, serve: ServeStream, failed: Failed | None = None) -> int:
        """Let programs in the box connect to a loopback port, and serve each connection here: the port.

        Lasts as long as the box. Every box listens to nothing until it is told to. What `serve` raises resets that
        connection and is told to `failed`; without one it ends the box, so that it cannot be lost.

        Raises:
            SandboxUnavailable: the port is taken in the box, it has no loopback, or the box is gone.
        """
        ...

    async def wait_closed(self) -> str:
        """Return when the box is gone: why it died, or an empty text when it was closed. At most 1 s late."""
        ...

    async def close(self) -> None:
        """End everything in it and free what it held; may be called twice, never raises for a box that is gone."""
        ...


@runtime_checkable
class KeepableBox(Box, Protocol):
    """What a box offers beside `Box` when it can be left in place between two runs."""

    async def rest(self) -> None:
        """End every command, listener and connection, and stop every process, until `wake`.

        Afterwards nothing that it was lent is within its reach, whatever runs in it.

        Raises:
            SandboxUnavailable: the box is gone.
        """
        ...

    async def wake(self) -> None:
        """Let its processes go on; what it listened to does not come back. Raises like `rest`."""
        ...


class SandboxBackend(Protocol):
    """Something that starts boxes."""

    name: str  # `bubblewrap`, `docker`, …; what `--box` takes
    isolation: IsolationClass  # how strong the walls of its boxes are

    async def probe(self, image: str | None = None) -> Probe:
        """Whether it works here and now, with `image` where there are images; the answer is kept for a while."""
        ...

    async def start(self, spec: BoxSpec) -> Box:
        """A box that is ready for its first command.

        Cancelling leaves nothing behind.

        Raises:
            SandboxUnavailable: it cannot be had; the text says what to install.
            SandboxUnsupported: it asks for what this back-end cannot do.
            WorkspaceError: the project, or what else it shall see of the host, cannot be shown to it.
        """
        ...

    async def close(self) -> None:
        """Close every box it still has, warm ones too; may be called twice."""
        ...
