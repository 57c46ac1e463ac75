"""One gVisor box without Docker, from the start of its keeper to its end; not yet handed out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable
from typing import Any, Self

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.domain.identity import new_box_id
from kagura_kernel.sandbox.backend import WORKSPACE, BoxSpec
from kagura_kernel.sandbox.boot import guest_argv
from kagura_kernel.sandbox.bubblewrap_request import uncounted_notes
from kagura_kernel.sandbox.channel import BoxChannel
from kagura_kernel.sandbox.docker_workspace import send_as_root, send_workspace
from kagura_kernel.sandbox.gvisor_kept import KeptBox, launch
from kagura_kernel.sandbox.mending import advise, read_facts
from kagura_kernel.sandbox.pythonenv import PythonView

_HELLO_SECONDS = 40.0
_LAST_WORDS = 0.6
_END_SECONDS = 12.0


class Opened:
    """A box whose guest has said hello, not yet handed out."""

    def __init__(self, kept: KeptBox, channel: BoxChannel, view: PythonView, notes: tuple[str, ...]) -> None:
        self.id = channel.box_id
        self.channel = channel
        self.notes = notes
        self.on_end: Callable[[], object] = lambda: None
        self._kept = kept
        self._view = view

    async def end(self) -> None:
        """End everything in it and wait until nothing is left; may be called twice."""
        self.on_end()
        await self.channel.close()
        self._kept.kill()
        try:
            await asyncio.wait_for(self._kept.gone(), _END_SECONDS)
        except TimeoutError:
            self._kept.destroy()
            await self._kept.gone()

    async def fill(self, spec: BoxSpec) -> tuple[str, ...]:
        """Send the project into the workspace; what was left out."""
        if spec.workspace is None:
            return ()
        if spec.policy.writable:
            return await send_workspace(self.channel, spec)
        return await self._fill_as_root(spec)

    async def _fill_as_root(self, spec: BoxSpec) -> tuple[str, ...]:
        """Fill a workspace that nobody in the box may write: as its root, who leaves before any command runs."""
        with Streams() as streams:
            self._kept.enter(guest_argv(self._view.python), streams.theirs)
            streams.close_theirs()
            channel = BoxChannel.over_fds(self.id, *streams.hand_over(), workspace=WORKSPACE)
        same = self._view.python == sys.executable
        return await send_as_root(channel, spec, {"PATH": "/usr/bin:/bin"}, same_python=same)


class Streams:
    """The two directions of one guest; closes whatever was not handed over.

    They are sockets: nobody can open another process's socket through /proc, but in gVisor every process of the same
    user can open its pipe.
    """

    def __init__(self) -> None:
        self._ends: set[int] = set()
        try:
            guest_in, self._write = self._pair()
            self._read, guest_out = self._pair()
        except OSError as error:
            self._close(self._ends)
            raise SandboxUnavailable(f"no socket can be made ({error.strerror})") from error
        self.theirs = (guest_in, guest_out)

    def _pair(self) -> tuple[int, int]:
        one, other = (end.detach() for end in socket.socketpair())
        self._ends |= {one, other}
        return one, other

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close(self._ends)

    def close_theirs(self) -> None:
        """The guest has its ends by now."""
        self._close(self._ends & set(self.theirs))

    def hand_over(self) -> tuple[int, int]:
        """Our ends, to read from and to write to; the caller closes them."""
        self._ends -= {self._read, self._write}
        return self._read, self._write

    def _close(self, descriptors: set[int]) -> None:
        for descriptor in descriptors:
            os.close(descriptor)
        self._ends -= descriptors


async def open_box(python: str, view: PythonView, job: dict[str, Any], payload: bytes) -> Opened:
    """Start a keeper and its box, and wait until the guest has said hello.

    Args:
        python: Interpreter for the keeper.
        view: The Python that the box sees.
        job: The keeper's job.
        payload: The guest's.

    Raises:
        SandboxUnavailable: it does not start; the text says what runsc said, and what mends it where that is known.
        PathNotShown: a further directory of the host cannot be shown.
    """
    with Streams() as streams:
        kept = await launch(python, streams.theirs)
        streams.close_theirs()

        async def explain() -> str:
            with contextlib.suppress(TimeoutError):
                return (await asyncio.wait_for(kept.gone(), _LAST_WORDS)).why
            return ""

        channel = BoxChannel.over_fds(new_box_id(), *streams.hand_over(), workspace=WORKSPACE, explain=explain)
    opened = Opened(kept, channel, view, ())
    try:
        channel.start(payload)
        missing = await kept.started(job)
        await channel.hello(_HELLO_SECONDS)
    except SandboxUnavailable as error:
        await asyncio.shield(opened.end())
        said = (await kept.gone()).words.strip().splitlines()
        why = error.reason.rstrip(".") + (f" ({said[-1][:300]})" if said and said[-1][:300] not in error.reason else "")
        raise SandboxUnavailable(f"runsc did not start a box: {why}", advise(why, read_facts()) or None) from error
    except BaseException:
        await asyncio.shield(opened.end())
        raise
    opened.notes = tuple(uncounted_notes(missing))
    return opened
