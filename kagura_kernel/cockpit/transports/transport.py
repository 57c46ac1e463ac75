"""What a chat has to be able to do, what comes and goes over it, and messages waiting their turn; names no vendor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol, runtime_checkable

from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.domain.identity import new_run_id
from kagura_kernel.domain.late_dataclass import dataclass, field


class TransportError(KaguraError):
    """A chat did not take what was to be said, or cannot be reached. The text never holds a token."""

    code = "ERR_TRANSPORT"

    def __init__(self, transport: str, what: str, why: str) -> None:
        super().__init__(
            f"{transport} did not {what}: {why}. Runs go on; look at them with `kagura-kernel runs`, "
            "and see whether the service can be reached and the app still has its tokens and rights."
        )
        self.transport = transport
        self.what = what
        self.why = why


class TransportRefused(TransportError):
    """A chat does not take our token, or what we are: trying again does not help, a person has to mend it."""

    code = "ERR_TRANSPORT_REFUSED"


class PostRefused(TransportError):
    """A chat never takes this: the place is closed to us, the post is gone. Trying again does not help."""

    code = "ERR_TRANSPORT_POST"


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file that somebody has sent along."""

    name: str  # As its sender named it; not to be trusted as a path
    size: int  # Bytes, as the chat says
    # Its bytes, at most `limit`; raises `TransportError` where they cannot be had
    read: Callable[[int], Awaitable[bytes]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Said:
    """Something that was written in a thread."""

    message_id: str  # The chat's own name for it, the same whenever it is delivered again
    thread: str  # Where: the same for all that belongs to one conversation
    operator: str  # Who, as the chat has made sure, never as a text says
    text: str  # What, without a mention of us
    files: tuple[SentFile, ...] = ()  # What was sent along
    in_thread: bool = True  # Whether it stands in a thread; what does not is one of the few commands that need none
    # Where it stands among what was said, by the chat's own clock; see `Transport.order`. 0 is not known.
    order: int = 0
    # Why nobody is heard who says it like this, whoever they are, a clause; empty for nothing against it
    barred: str = ""


@dataclass(frozen=True, slots=True)
class Clicked:
    """A button that was pressed."""

    message_id: str  # The chat's own name for this click, the same whenever it is delivered again
    thread: str  # Where
    operator: str  # Who, as the chat has made sure
    action: str  # What the button says; may be anything, for a click can be made up
    post_id: str  # The post that the button stands below
    barred: str = ""  # As for `Said`


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


MOST_BUTTONS = 5
"""Below one post."""


@dataclass(frozen=True, slots=True)
class Post:
    """Something to be said in a thread."""

    ours: str  # Our own words: one short passage of plain text
    # What an agent, a program or a person wrote. A transport shows it so that it is plainly not ours: quoted, without
    # mentions, links that hide where they lead, formatting or buttons.
    theirs: str = ""
    buttons: tuple[Button, ...] = ()  # At most `MOST_BUTTONS`
    mark: str = ""  # A name of ours for it, 32 random digits, the same when it is tried again; empty for none
    # Whether it was tried before and nobody knows what came of that. A chat that can find one of ours by its mark then
    # leaves that as it is, instead of saying it twice.
    may_be_out: bool = False


class Transport(Protocol):
    """One chat. Used on one loop.

    Every way out raises `TransportError` where the chat does not take it, and `PostRefused` where it never will.
    """

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
            TransportRefused: it does not let us in, and will not.
            TransportError: it cannot be reached, or does not let us in now. It may be opened again.
        """
        ...

    async def post(self, thread: str, post: Post) -> str:
        """Say something; the chat's own name for it, that of the earlier one where it is out already."""
        ...

    def order(self, post_id: str) -> int:
        """Where a post of ours stands among what was said: no larger than `Said.order` of what was written behind it.

        Both are by the chat's own clock, and an edit changes nothing about it. 0 is not known: then no word alone
        answers what the post asks, for its writer may not have seen it.
        """
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


CONNECT_SECONDS = 30.0

LET_IN = "let us in"
"""What a chat does not do that cannot be connected with."""

GO_ON = "go on listening to us"
"""What a chat does not do that has ended a connection for good."""


@runtime_checkable
class Ending(Protocol):
    """A transport that hears by itself when its connection is over for good, which not every one can."""

    async def ended(self) -> None:
        """Wait for that; called once it is open, and called off before it is closed.

        Raises:
            TransportRefused: the chat does not let us in any more.
            TransportError: the connection is over for another reason, and does not come back by itself.
        """
        ...


async def connected(name: str, connect: Awaitable[object], close: Callable[[], Awaitable[None]]) -> None:
    """Return once connected; otherwise everything is closed again.

    Raises:
        TransportError: it took too long, or as `connect` says.
    """
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await connect
    except TimeoutError:
        await close()
        raise TransportError(name, LET_IN, f"no answer within {CONNECT_SECONDS:g} s") from None
    except BaseException:
        await close()
        raise


@dataclass(eq=False, slots=True)
class Turn:
    """One message that may begin a run."""

    thread: str  # Where it was said
    before: tuple[Turn, ...] = ()  # Those that were said there earlier
    # The run's id, should it begin one: what is to be stopped has a name before it is there
    run_id: str = field(default_factory=new_run_id)
    stopped_by: str = ""  # Who wants it to begin nothing; empty for nobody
    # Set once it is understood, and its run, if it is one, launched
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Turns:
    """Those of all threads of a chat. Used on one loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Turn]] = {}

    def enter(self, thread: str) -> Turn:
        """Take the next turn of a thread."""
        waiting = self._waiting.setdefault(thread, [])
        turn = Turn(thread, tuple(waiting))
        waiting.append(turn)
        return turn

    def leave(self, turn: Turn) -> None:
        """Let the next one come; may be called twice."""
        turn.over.set()
        turn.before = ()
        waiting = [one for one in self._waiting.get(turn.thread, ()) if one is not turn]
        if waiting:
            self._waiting[turn.thread] = waiting
        else:
            self._waiting.pop(turn.thread, None)

    async def come(self, turn: Turn) -> None:
        """Return when all that was said in the thread before is understood."""
        for one in turn.before:
            await one.over.wait()

    def begins(self, thread: str | None = None) -> list[str]:
        """The runs that messages may be beginning, of one thread or of all, by the ids that they would have."""
        return [turn.run_id for turn in self._all() if thread in (None, turn.thread)]

    def stop(self, run_ids: list[str], by: str) -> None:
        """Let none of these begin; those that are none of ours are left alone."""
        for turn in self._all():
            if turn.run_id in run_ids:
                turn.stopped_by = turn.stopped_by or by

    def _all(self) -> Iterator[Turn]:
        return (turn for waiting in self._waiting.values() for turn in waiting)
