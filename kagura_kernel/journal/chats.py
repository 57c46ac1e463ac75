"""What one chat has said, and what we have posted there: kept with the journal, so that a restart forgets neither.

A message is taken before anything is done about it, and done once its answer is out. One that was taken by a process
that is gone and never done is told about by the next one, instead of being done a second time or lost.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from sqlalchemy import Row, delete, insert, select, update

from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.journal.encoding import as_text, stamp
from kagura_kernel.journal.schema import heard, posts, runs
from kagura_kernel.journal.store import Journal

KEPT_DAYS = 30
"""How long a message that is answered, and a post that is edited no more, are remembered."""


@dataclass(frozen=True, slots=True)
class TakenMessage:
    """One message, or one click."""

    message_id: str  # As the chat names it; the same when it is delivered again
    thread: str  # Where it was said
    session_id: str  # The session of that thread
    operator: str  # Who said it
    owner: str  # The process that took it
    run_id: str = ""  # The run that it began; empty for none


@dataclass(frozen=True, slots=True)
class KeptPost:
    """Something that stands in a thread and will be edited: how a run goes on, or a question."""

    subject: str  # The run's id, or the approval's
    thread: str  # Where it stands
    run_id: str  # The run that it is about
    post_id: str  # As the chat names it
    token: str  # What its buttons say to prove that they are ours


@dataclass(frozen=True, slots=True)
class ThreadRun:
    """A run in the session of a thread, whoever began it."""

    run_id: str
    thread: str  # Where the session was spoken to last


class ChatBook:
    """The book of one chat. Any thread may use it.

    Every method raises `JournalUnwritable` or `JournalUnreadable` when the journal says no.
    """

    def __init__(self, journal: Journal, transport: str) -> None:
        self._journal = journal
        self._transport = transport

    def take(self, message: TakenMessage) -> bool:
        """Take a message, so that nobody takes it again; False where somebody has."""
        key = (heard.c.transport == self._transport) & (heard.c.message_id == as_text(message.message_id))
        values = {
            "transport": self._transport,
            "message_id": as_text(message.message_id),
            "thread": as_text(message.thread),
            "session_id": message.session_id,
            "operator": as_text(message.operator),
            "owner": message.owner,
            "run_id": message.run_id,
            "taken_at": stamp(self._journal.clock.now()),
        }
        with self._journal.writing(flush=True) as writing:
            if writing.connection.execute(select(heard.c.owner).where(key)).first() is not None:
                return False
            writing.connection.execute(insert(heard), values)
        return True

    def began(self, message_id: str, run_id: str) -> None:
        """Note which run a message is about to begin."""
        self._change(message_id, run_id=run_id)

    def done(self, message_id: str) -> None:
        """Note that a message is answered."""
        self._change(message_id, done_at=stamp(self._journal.clock.now()))

    def interrupted(self, alive: Callable[[str], bool]) -> list[TakenMessage]:
        """Messages that processes which are gone have taken and not done, the oldest first.

        Args:
            alive: Whether a process may still be there, by its owner's name.
        """
        open_ones = (heard.c.transport == self._transport) & heard.c.done_at.is_(None)
        rows = self._journal.read(select(heard).where(open_ones).order_by(heard.c.taken_at, heard.c.message_id))
        return [_message(row) for row in rows if not alive(row.owner)]

    def that_began(self, run_id: str) -> TakenMessage | None:
        """The message that has begun a run; None where none has."""
        ours = (heard.c.transport == self._transport) & (heard.c.run_id == run_id)
        rows = self._journal.read(select(heard).where(ours).limit(1))
        return _message(rows[0]) if rows else None

    def runs_begun(self, after: int | None) -> list[ThreadRun]:
        """Runs of any process in the sessions of our threads, those that work for others left out.

        Args:
            after: Those that began behind this row of the journal; None for those that go on.
        """
        began = runs.c.status == "running" if after is None else runs.c.first_seq > after
        query = select(runs.c.run_id, runs.c.session_id).where(began, runs.c.lineage == "").order_by(runs.c.first_seq)
        found = self._journal.read(query)
        threads = self._threads({row.session_id for row in found})
        return [ThreadRun(row.run_id, threads[row.session_id]) for row in found if row.session_id in threads]

    def prune(self) -> None:
        """Forget what was answered, and is edited no more, for more than `KEPT_DAYS`."""
        before = stamp(self._journal.clock.now() - timedelta(days=KEPT_DAYS))
        with self._journal.writing() as writing:
            for table, over in ((heard, heard.c.done_at), (posts, posts.c.closed_at)):
                writing.connection.execute(delete(table).where(table.c.transport == self._transport, over < before))

    def keep(self, post: KeptPost) -> None:
        """Remember a post; in place of an earlier one about the same subject."""
        values = {
            "thread": as_text(post.thread),
            "run_id": post.run_id,
            "post_id": as_text(post.post_id),
            "token": post.token,
            "posted_at": stamp(self._journal.clock.now()),
            "closed_at": None,
        }
        with self._journal.writing() as writing:
            changed = writing.connection.execute(update(posts).where(self._about(post.subject)).values(**values))
            if changed.rowcount == 0:
                key = {"transport": self._transport, "subject": post.subject}
                writing.connection.execute(insert(posts), {**key, **values})

    def close(self, subject: str) -> None:
        """Note that a post is edited no more; nothing happens when there is none."""
        now = stamp(self._journal.clock.now())
        with self._journal.writing() as writing:
            writing.connection.execute(update(posts).where(self._about(subject)).values(closed_at=now))

    def post_about(self, subject: str) -> KeptPost | None:
        """The post about a run or an approval, open or closed; None where there was none."""
        rows = self._journal.read(select(posts).where(self._about(subject)))
        return _post(rows[0]) if rows else None

    def answer_about(self, run_id: str, token: str) -> KeptPost | None:
        """The post about a run whose buttons bear this token; None where there was none."""
        ours = (posts.c.transport == self._transport) & (posts.c.run_id == run_id) & (posts.c.token == token)
        rows = self._journal.read(select(posts).where(ours).limit(1))
        return _post(rows[0]) if rows else None

    def open_posts(self) -> list[KeptPost]:
        """Posts that say what may be true no longer, the oldest first."""
        open_ones = (posts.c.transport == self._transport) & posts.c.closed_at.is_(None)
        rows = self._journal.read(select(posts).where(open_ones).order_by(posts.c.posted_at, posts.c.subject))
        return [_post(row) for row in rows]

    def _threads(self, session_ids: set[str]) -> dict[str, str]:
        """The threads of these sessions, those that were spoken to last; sessions of nobody here are left out."""
        if not session_ids:
            return {}
        ours = (heard.c.transport == self._transport) & heard.c.session_id.in_(session_ids)
        query = select(heard.c.session_id, heard.c.thread).where(ours).order_by(heard.c.taken_at, heard.c.message_id)
        return {row.session_id: row.thread for row in self._journal.read(query)}

    def _about(self, subject: str) -> Any:
        return (posts.c.transport == self._transport) & (posts.c.subject == subject)

    def _change(self, message_id: str, **values: str) -> None:
        key = (heard.c.transport == self._transport) & (heard.c.message_id == as_text(message_id))
        with self._journal.writing(flush=True) as writing:
            writing.connection.execute(update(heard).where(key).values(**values))


def _message(row: Row[Any]) -> TakenMessage:
    return TakenMessage(row.message_id, row.thread, row.session_id, row.operator, row.owner, row.run_id)


def _post(row: Row[Any]) -> KeptPost:
    return KeptPost(row.subject, row.thread, row.run_id, row.post_id, row.token)
