"""Memories and lessons: finding them, and what a person does with one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kagura_kernel.domain.errors.memory import MemoryUnknown
from kagura_kernel.jupyter.server import asking, memory_asking
from kagura_kernel.jupyter.server.handler import MEMORY, ActingHandler, JournalHandler, ReadingHandler
from kagura_kernel.jupyter.server.memory_source import MemorySource

if TYPE_CHECKING:
    from collections.abc import Callable

    from kagura_kernel.journal.store import Journal
    from kagura_kernel.jupyter.server.handler import Answer, Question
    from kagura_kernel.jupyter.server.memory_acting import Act

RESOURCE = "kagura_memories"


class MemoryRoute(JournalHandler):
    """Base of the routes that ask the memory, in its own threads."""

    @property
    def memory(self) -> MemorySource:
        """The memory."""
        source = self.settings[MEMORY]
        assert isinstance(source, MemorySource)  # noqa: S101 - set beside the routes
        return source

    async def look(self, question: Callable[[Journal], Answer]) -> Answer:
        """Ask in a thread of the memory's own."""
        return await self.memory.within(question)

    async def change(self, deed: Callable[[Journal], Answer]) -> Answer:
        """Likewise."""
        return await self.memory.within(deed)

    def nothing(self, *names: str) -> Question:
        """Before the first run nothing is remembered; no memory is made by looking into it.

        Raises:
            MemoryUnknown: one is named.
        """
        if names:
            raise MemoryUnknown(names[0])
        return lambda _: {"items": [], "next": None}


class MemoriesHandler(MemoryRoute, ReadingHandler):
    """Memories: what fits words best, or the newest."""

    auth_resource = RESOURCE

    def question(self, *names: str) -> Question:
        """A page of those that the words of the query fit."""
        del names
        page = memory_asking.memory_page(*(self.word(name) for name in ("q", "k", "type", "tag", "tier", "before")))

        def ask(journal: Journal) -> dict[str, Any]:
            del journal
            from kagura_kernel.jupyter.server import memory_reading

            return self.memory.ask(lambda store: memory_reading.memories(store, page))

        return ask


class LessonsHandler(MemoryRoute, ReadingHandler):
    """Lessons: what fits words best, or the newest."""

    auth_resource = RESOURCE

    def question(self, *names: str) -> Question:
        """Those that the words of the query fit."""
        del names
        query = memory_asking.lessons(self.word("q"), self.word("k"))

        def ask(journal: Journal) -> dict[str, Any]:
            del journal
            from kagura_kernel.jupyter.server import memory_reading

            return self.memory.ask(lambda store: memory_reading.lessons(store, query))

        return ask


class MemoryCountsHandler(MemoryRoute, ReadingHandler):
    """How much is remembered, and where."""

    auth_resource = RESOURCE

    def question(self, *names: str) -> Question:
        """The numbers."""
        del names

        def ask(journal: Journal) -> dict[str, Any]:
            del journal
            from kagura_kernel.jupyter.server import memory_reading

            return self.memory.ask(memory_reading.counts)

        return ask

    def nothing(self, *names: str) -> Question:
        """All of them are none."""
        del names
        return lambda _: dict.fromkeys(("memories", "quarantined", "forgotten", "edges"), 0) | {"where": ""}


class MemoryHandler(MemoryRoute, ReadingHandler, ActingHandler):
    """One memory in full, and erasing it."""

    auth_resource = RESOURCE
    method = "delete"
    done_status = 200

    def question(self, *names: str) -> Question:
        """The memory that the path names, with what it is joined to."""
        (memory_id,) = names

        def ask(journal: Journal) -> dict[str, Any]:
            del journal
            from kagura_kernel.jupyter.server import memory_reading

            return self.memory.ask(lambda store: memory_reading.memory(store, memory_id))

        return ask

    def deed(self, name: str, by: str) -> Question:
        """Remove it for good, and with `cascade` everything that came from it."""
        self.body(asking.NO_FIELDS)
        cascade = memory_asking.truth("cascade", self.word("cascade"))

        def act(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import memory_acting

            contents = self.memory.contents
            return self.memory.ask(
                lambda store: memory_acting.erase(journal, store, contents, name, by, cascade=cascade)
            )

        return act


class MemoryGrownHandler(MemoryRoute, ReadingHandler):
    """What would be erased with one memory."""

    auth_resource = RESOURCE

    def question(self, *names: str) -> Question:
        """The memory that the path names, and all that came from it."""
        (memory_id,) = names

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import memory_reading

            return self.memory.ask(lambda store: memory_reading.grown(store, journal, memory_id))

        return ask


class MemoryActHandler(MemoryRoute, ActingHandler):
    """Base of the routes that change one memory and keep it."""

    auth_resource = RESOURCE
    done_status = 200
    wanted: ClassVar[Act]  # What is done to it

    def deed(self, name: str, by: str) -> Question:
        """Do it, and answer with what the memory is then."""
        self.body(asking.NO_FIELDS)

        def act(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import memory_acting

            return self.memory.ask(lambda store: memory_acting.change(journal, store, name, self.wanted, by))

        return act


class PromoteHandler(MemoryActHandler):
    """Saying that a memory may be trusted."""

    auth_resource = RESOURCE
    wanted = "promoted"


class DemoteHandler(MemoryActHandler):
    """Saying that it may not be."""

    auth_resource = RESOURCE
    wanted = "demoted"


class PinHandler(MemoryActHandler):
    """Letting every run start with a memory."""

    auth_resource = RESOURCE
    wanted = "pinned"


class UnpinHandler(MemoryActHandler):
    """Letting none start with it."""

    auth_resource = RESOURCE
    wanted = "unpinned"


class ForgetHandler(MemoryActHandler):
    """Taking a memory out of what is found; it stays until it is erased."""

    auth_resource = RESOURCE
    wanted = "forgotten"


class RestoreHandler(MemoryActHandler):
    """Undoing that."""

    auth_resource = RESOURCE
    wanted = "restored"
