"""A chat without any service behind it: the transport, and the far side where people write, read and press buttons."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from kagura_kernel.cockpit.transports.transport import (
    Button,
    Clicked,
    Hear,
    Heard,
    Post,
    PostRefused,
    Said,
    SentFile,
    TransportError,
)
from kagura_kernel.domain.late_dataclass import dataclass, field


@dataclass
class Shown:
    """A post as a person in the thread sees it now."""

    post_id: str  # The chat's name for it
    thread: str  # Where, as the transport names it
    text: str  # All that can be read
    buttons: tuple[tuple[str, str], ...] = ()  # What stands on each, and what it says
    edits: int = 0  # How often it was edited
    notifies: bool = False  # Whether somebody was called by it: everybody, a channel, a person
    links: tuple[str, ...] = ()  # Where it leads, beside addresses that can be read


class ChatServer(Protocol):
    """The far side of a chat, for tests of any transport."""

    async def say(self, operator: str, text: str, *, thread: str = "", files: Sequence[tuple[str, bytes]] = ()) -> str:
        """Somebody writes; without a thread one begins. The thread, as the transport names it."""
        ...

    async def click(self, operator: str, thread: str, post_id: str, action: str) -> None:
        """Somebody presses a button, or makes that up."""
        ...

    async def replay(self) -> None:
        """What was delivered last is delivered again."""
        ...

    def shown(self, thread: str) -> list[Shown]:
        """Our posts in a thread, the oldest first."""
        ...

    def uploads(self, thread: str) -> list[tuple[str, bytes]]:
        """Our files in a thread, the oldest first."""
        ...

    def refuse(self, times: int) -> None:
        """Take the next posts, edits and uploads not, as a service does that has a bad day."""
        ...


@dataclass
class FakeChat:
    """Both sides in one."""

    name: str = "fake"  # The chat's
    limit: int = 2000  # Characters that words of others may have
    takes_files: bool = True  # Whether the app may put files into threads
    _hear: Hear | None = None
    _posts: dict[str, Shown] = field(default_factory=dict)
    _files: list[tuple[str, str, bytes]] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _last: Heard | None = None
    _refusals: int = 0
    _lost: int = 0
    _marks: dict[str, str] = field(default_factory=dict)

    async def open(self, hear: Hear) -> None:
        """Connect."""
        self._hear = hear

    async def post(self, thread: str, post: Post) -> str:
        """Say something."""
        self._check("post")
        if post.may_be_out and post.mark in self._marks:
            return self._marks[post.mark]
        post_id = f"post-{next(self._numbers)}"
        self._posts[post_id] = _shown(post_id, thread, post, 0)
        self._marks[post.mark] = post_id
        if self._lost:
            self._lost -= 1
            raise TransportError(self.name, "post", "the test says that nobody hears of it")
        return post_id

    def order(self, post_id: str) -> int:
        """Where a post stands among what was said."""
        return int(post_id.rpartition("-")[2])

    async def edit(self, thread: str, post_id: str, post: Post) -> None:
        """Put something in the place of what was said."""
        self._check("edit")
        self._posts[post_id] = _shown(post_id, thread, post, self._posts[post_id].edits + 1)

    async def upload(self, thread: str, name: str, content: bytes) -> None:
        """Put a file into the thread."""
        self._check("upload")
        if not self.takes_files:
            raise PostRefused(self.name, "take a file", "the test says that it never will")
        self._files.append((thread, name, content))

    async def close(self) -> None:
        """Disconnect."""
        self._hear = None

    async def say(self, operator: str, text: str, *, thread: str = "", files: Sequence[tuple[str, bytes]] = ()) -> str:
        """Somebody writes."""
        number = next(self._numbers)
        thread = thread or f"room:{number}"
        sent = tuple(SentFile(name, len(content), _reader(content)) for name, content in files)
        await self._deliver(Said(f"message-{number}", thread, operator, text, sent, order=number))
        return thread

    async def click(self, operator: str, thread: str, post_id: str, action: str) -> None:
        """Somebody presses a button."""
        await self._deliver(Clicked(f"click-{next(self._numbers)}", thread, operator, action, post_id))

    async def replay(self) -> None:
        """The last delivery, again."""
        if self._last is not None:
            await self._deliver(self._last)

    def shown(self, thread: str) -> list[Shown]:
        """Our posts."""
        return [post for post in self._posts.values() if post.thread == thread]

    def uploads(self, thread: str) -> list[tuple[str, bytes]]:
        """Our files."""
        return [(name, content) for place, name, content in self._files if place == thread]

    def refuse(self, times: int) -> None:
        """Have a bad day."""
        self._refusals = times

    def lose(self, times: int) -> None:
        """Take the next posts, and let nobody hear that they were taken."""
        self._lost = times

    async def _deliver(self, heard: Heard) -> None:
        self._last = heard
        if self._hear is not None:
            await self._hear(heard)

    def _check(self, what: str) -> None:
        if self._refusals:
            self._refusals -= 1
            raise TransportError(self.name, what, "the test says so")


def _shown(post_id: str, thread: str, post: Post, edits: int) -> Shown:
    quoted = "".join(f"\n> {line}" for line in post.theirs.split("\n")) if post.theirs else ""
    return Shown(post_id, thread, post.ours + quoted, tuple(map(_button, post.buttons)), edits)


def _button(button: Button) -> tuple[str, str]:
    return button.label, button.action


def _reader(content: bytes) -> Callable[[int], Awaitable[bytes]]:
    async def read(limit: int) -> bytes:
        return content[:limit]

    return read
