"""What a chat has to be able to do, and what comes and goes over it; nothing here knows a vendor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from kagura_kernel.domain.errors import KaguraError


class TransportError(KaguraError):
    """A chat did not take what was to be said, or cannot be reached. The text never holds a token."""

    code = "ERR_TRANSPORT"

    def __init__(self, transport: str, what: str, why: str) -> None:
        super().__init__(
            f"{transport} did not {what}: {why}. Runs go on; look at them with `kagura-kernel runs`, "
            "and see whether the service can be reached and the app still has its rights."
        )
        self.transport = transport
        self.what = what
        self.why = why


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file that somebody has sent along.

    Attributes:
        name: As its sender named it; not to be trusted as a path.
        size: Bytes, as the chat says.
        read: Its bytes, at most `limit`; raises `TransportError` where they cannot be had.
    """

    name: str
    size: int
    read: Callable[[int], Awaitable[bytes]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Said:
    """Something that was written in a thread.

    Attributes:
        message_id: The chat's own name for it, the same whenever it is delivered again.
        thread: Where: the same for all that belongs to one conversation.
        operator: Who, as the chat has made sure, never as a text says.
        text: What, without a mention of us.
        files: What was sent along.
    """

    message_id: str
    thread: str
    operator: str
    text: str
    files: tuple[SentFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Clicked:
    """A button that was pressed.

    Attributes:
        message_id: The chat's own name for this click, the same whenever it is delivered again.
        thread: Where.
        operator: Who, as the chat has made sure.
        action: What the button says; may be anything, for a click can be made up.
        post_id: The post that the button stands below.
    """

    message_id: str
    thread: str
    operator: str
    action: str
    post_id: str


Heard = Said | Clicked

Hear = Callable[[Heard], Awaitable[None]]
"""Takes what was heard; it is kept once this returns, so that the chat may be told it has arrived. It never raises."""


@dataclass(frozen=True, slots=True)
class Button:
    """A button: what stands on it, what it says when it is pressed, and how it looks."""

    label: str
    action: str
    look: str = ""
    """`good`, `bad`, or plain."""


@dataclass(frozen=True, slots=True)
class Post:
    """Something to be said in a thread.

    Attributes:
        ours: Our own words: one short passage of plain text.
        theirs: What an agent, a program or a person wrote. A transport shows it so that it is plainly not ours: quoted,
            without mentions, links that hide where they lead, formatting or buttons.
        buttons: At most five.
    """

    ours: str
    theirs: str = ""
    buttons: tuple[Button, ...] = ()


class Transport(Protocol):
    """One chat. Used on one loop; every way out raises `TransportError` where the chat does not take it."""

    @property
    def name(self) -> str:
        """`slack`, `discord`, …: a part of the names of its sessions."""
        ...

    @property
    def limit(self) -> int:
        """Characters that `Post.theirs` may have."""
        ...

    async def open(self, hear: Hear) -> None:
        """Connect, and hand over from here on what is heard; returns once connected. It reconnects by itself.

        Raises:
            TransportError: it cannot be reached, or does not let us in.
        """
        ...

    async def post(self, thread: str, post: Post) -> str:
        """Say something; the chat's own name for it."""
        ...

    async def edit(self, thread: str, post_id: str, post: Post) -> None:
        """Put something in the place of what was said."""
        ...

    async def upload(self, thread: str, name: str, content: bytes) -> None:
        """Put a file into the thread."""
        ...

    async def close(self) -> None:
        """Disconnect; may be called twice."""
        ...
