"""Where another process leaves a decision or a word, for a run or for a session's plugins.

The mailbox only carries. The run that asked takes the decision out, acts on it, and stores it as an event; a decision
that nobody takes has no effect.

While nothing is written a glance at it costs microseconds, and no table is read.

A word for a session's plugins lies beside those for runs; a run's reader names the words that it knows, and never
takes one of these. Whoever hears one removes it: the mailbox only carries, and a configuration is nothing to keep
there. No secret is ever in one.
"""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, cast, get_args

from sqlalchemy import ColumnElement, Row, bindparam, delete, insert, select, update

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Decision, Verdict
from kagura_kernel.domain.errors import ApprovalAlreadyDecided, ApprovalExpired, ApprovalUnknown, RunUnknown, UsageError
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.plugins import MAX_NAME, PLUGIN_NAME
from kagura_kernel.journal import views
from kagura_kernel.journal.encoding import as_text, moment, stamp
from kagura_kernel.journal.lost_runs import mark_lost
from kagura_kernel.journal.owner import owner_alive
from kagura_kernel.journal.place import is_url
from kagura_kernel.journal.rows import Message, Word, made_of
from kagura_kernel.journal.schema import DECISION, approvals, messages, runs
from kagura_kernel.journal.statements import given
from kagura_kernel.journal.store import Journal

PAUSE_SECONDS, SERVER_PAUSE, LONGEST_PAUSE = 0.05, 0.2, 0.5
"""Between two glances: at a file, at a server that many glance at, and at one that is far away."""

ANYWAY_SECONDS = 2.0
"""After so long it is worth it whatever the journal says."""

_ENOUGH = 8


class Glance:
    """One waiter's glances at one journal; for one thread at a time.

    Ask `news` first, then read what is waited for, then say `seen`: what is written meanwhile is news again, and a look
    that failed is made again.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._seen = ""
        self._since = float("-inf")
        self._wanted = 0
        self._is_server = is_url(journal.where)
        self._took: deque[float] = deque(maxlen=_ENOUGH)

    @property
    def pause(self) -> float:
        """Seconds until the next one: glances at a server that is far away take a small part of the time too."""
        if not self._is_server:
            return PAUSE_SECONDS
        if len(self._took) < _ENOUGH:
            return SERVER_PAUSE
        # The quickest of the last ones: what a busy machine adds now and then says nothing about the way.
        return min(max(SERVER_PAUSE, 20 * min(self._took)), LONGEST_PAUSE)

    def news(self) -> str | None:
        """What to say to `seen` after the look; None when there is nothing to look for.

        Raises:
            JournalUnreadable: the place does not answer, or the journal is not there any more.
        """
        began = time.perf_counter()
        mark = f"{self._wanted}:{self._journal.mark()}"
        self._took.append(time.perf_counter() - began)
        waited = self._journal.clock.monotonic() - self._since
        return None if mark == self._seen and waited < ANYWAY_SECONDS else mark

    def seen(self, mark: str) -> None:
        """The look is over."""
        self._seen = mark
        self._since = self._journal.clock.monotonic()

    def forget(self) -> None:
        """Have the next glance find news: something else is waited for now."""
        self._wanted += 1


_DECISION = select(approvals.c.id, *(approvals.c[name] for name in DECISION.split()))
_ONE = _DECISION.where(approvals.c.id == bindparam("key"))
_DECIDE = (
    update(approvals).where(approvals.c.id == bindparam("key"), approvals.c.verdict.is_(None)).values(given(DECISION))
)
_QUESTION = select(approvals.c.options).where(
    approvals.c.id == bindparam("key"), approvals.c.kind == str(ApprovalKind.QUESTION), approvals.c.verdict.is_(None)
)
_DECIDE_IN_TIME = _DECIDE.where(approvals.c.deadline_at >= bindparam("decided_at"))
_PENDING = select(approvals).where(approvals.c.verdict.is_(None)).order_by(approvals.c.requested_at, approvals.c.id)
_ASKED = select(approvals).where(approvals.c.id == bindparam("key"))
_WAITS = (
    select(messages.c.id)
    .where(messages.c.run_id.in_(bindparam("ids", expanding=True)), messages.c.taken_at.is_(None))
    .limit(1)
)
_HAS_RUN = select(runs.c.run_id).where(runs.c.run_id == bindparam("key"))


def _wants_words(approval_id: str, options: Sequence[str]) -> str:
    offered = f", such as {' or '.join(repr(option) for option in options)}" if options else ""
    return f"{approval_id} is a question: say the answer behind its id{offered}."


class Mailbox:
    """The mailbox of one journal. Any thread may use it, any number of processes share it.

    Every method raises `JournalUnwritable` or `JournalUnreadable` when the journal says no.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def glance(self) -> Glance:
        """Says whether a look into this mailbox is worth it."""
        return Glance(self._journal)

    def post(self, request: ApprovalRequest) -> None:
        """Make a question visible to others; may be called twice, the first text stands."""
        # Lists read approvals here, and import no events.
        from kagura_kernel.journal.projection import asked_values, open_approval

        values = asked_values(request, request.id, str(request.kind), request.requested_at)
        with self._journal.writing() as writing:
            open_approval(writing.connection, values)

    def decide(
        self, approval_id: str, verdict: Verdict, *, by: str, via: str, answer: str = "", in_time: bool = False
    ) -> Decision:
        """Leave a decision; the first one stands, whoever comes from wherever.

        Args:
            approval_id: Which question.
            verdict: The decision.
            by: Who decides.
            via: Where.
            answer: Answer to a question, or a remark.
            in_time: Whether it must come before the deadline that stands beside the question. Whoever holds the run
                keeps its deadline without that.

        Raises:
            ApprovalUnknown: nothing was asked under this id.
            ApprovalAlreadyDecided: somebody was faster.
            ApprovalExpired: it had to come in time, and did not.
            UsageError: it is a question to be answered in words, and there are none.
        """
        at = self._journal.clock.now()
        values = {
            "key": approval_id,
            "verdict": str(verdict),
            "decided_by": as_text(by),
            "via": as_text(via),
            "decided_at": stamp(at),
            "answer": as_text(answer),
        }
        with self._journal.writing(flush=True) as writing:
            if verdict is Verdict.ALLOW and not answer.strip():
                question = writing.connection.execute(_QUESTION, {"key": approval_id}).first()
                if question is not None:
                    raise UsageError(_wants_words(approval_id, json.loads(question.options)))
            statement = _DECIDE_IN_TIME if in_time else _DECIDE
            if writing.connection.execute(statement, values).rowcount == 1:
                return Decision(approval_id, verdict, by, via, at, answer)
            found = writing.connection.execute(_ONE, {"key": approval_id}).first()
        if found is None:
            raise ApprovalUnknown(approval_id)
        if found.verdict is None:
            raise ApprovalExpired(approval_id)
        raise ApprovalAlreadyDecided(approval_id, found.verdict, found.decided_by)

    def decision(self, approval_id: str) -> Decision | None:
        """How one approval was decided; None while it waits.

        Raises:
            ApprovalUnknown: nothing was asked under this id.
        """
        found = self._journal.read(_ONE, {"key": approval_id})
        if not found:
            raise ApprovalUnknown(approval_id)
        return _decision(found[0]) if found[0].verdict is not None else None

    def decisions(self, ids: Sequence[str]) -> dict[str, Decision]:
        """Those of these approvals that are decided, by id; ids that nobody knows are left out."""
        if not ids:
            return {}
        query = _DECISION.where(approvals.c.id.in_(ids), approvals.c.verdict.is_not(None))
        return {row.id: _decision(row) for row in self._journal.read(query)}

    def pending(self) -> list[ApprovalRequest]:
        """What waits for a person, the oldest first, of all runs in all processes."""
        return self._journal.readable(self._journal.read(_PENDING), _request)

    def asked(self, approval_id: str) -> ApprovalRequest | None:
        """What was asked under this id, answered or not; None where nothing was."""
        found = self._journal.read(_ASKED, {"key": approval_id})
        return _request(found[0]) if found else None

    def holds_for(self, ids: Sequence[str]) -> bool:
        """Whether a word or a sentence for one of these runs or sessions waits here; quick, and takes none."""
        return bool(ids) and bool(self._journal.read(_WAITS, {"ids": [as_text(one) for one in ids]}))

    def send(self, run_id: str, word: Word, *, by: str) -> None:
        """Leave a word for a run; a run that is over never takes it.

        Raises:
            RunUnknown: no run bears this id.
        """
        with self._journal.writing() as writing:
            if writing.connection.execute(_HAS_RUN, {"key": run_id}).first() is None:
                raise RunUnknown(run_id)
            left = {"run_id": run_id, "word": word, "by_whom": as_text(by), "at": stamp(self._journal.clock.now())}
            writing.connection.execute(insert(messages), left)

    def take(self, run_ids: Sequence[str], words: Sequence[Word] = ("kill",)) -> list[Message]:
        """These words left for these runs, the oldest first; each is given out once, to whoever asks first.

        A word that the reader does not name stays where it is: what it does not know, it must not act on.
        """
        ours = messages.c.run_id.in_(run_ids) & messages.c.word.in_(words) & messages.c.taken_at.is_(None)
        # Almost always there is none, and then nobody needs the write lock.
        if not run_ids or not self._journal.read(select(messages.c.id).where(ours).limit(1)):
            return []
        with self._journal.writing() as writing:
            rows = writing.connection.execute(select(messages).where(ours).order_by(messages.c.id)).fetchall()
            taken = update(messages).where(messages.c.id.in_([row.id for row in rows]))
            writing.connection.execute(taken.values(taken_at=stamp(self._journal.clock.now())))
        return [Message(row.run_id, row.word, row.by_whom, moment(row.at)) for row in rows]


def _decision(row: Row[Any]) -> Decision:
    at = moment(row.decided_at)
    return Decision(row.id, Verdict(row.verdict), row.decided_by, row.via, at, row.answer)


def _request(row: Row[Any]) -> ApprovalRequest:
    return made_of(
        ApprovalRequest,
        row,
        kind=ApprovalKind(row.kind),
        detail=json.loads(row.detail),
        requested_at=moment(row.requested_at),
        arguments=json.loads(row.arguments),
        options=tuple(json.loads(row.options)),
        lineage=tuple(json.loads(row.lineage)),
    )


def ask_to_stop(journal: Journal, run_ids: Sequence[str], *, by: str) -> dict[str, str]:
    """Leave each of these runs the word to stop; those that can hear it, each with its process.

    The others are over: they had ended, or their process is gone and they are marked as lost now, like every other
    such run.

    Raises:
        RunUnknown: there is no such run; no word was left for any.
        JournalError: the journal cannot be used.
    """
    owners = {row.run_id: row.owner for row in views.unfinished(journal)}
    for run_id in run_ids:
        if run_id not in owners and not journal.events(run_id=run_id, limit=1):
            raise RunUnknown(run_id)
    mark_lost(journal)
    told = {run_id: owners[run_id] for run_id in run_ids if run_id in owners and owner_alive(owners[run_id])}
    for run_id in told:
        Mailbox(journal).send(run_id, "kill", by=by)
    return told


Deed = Literal["enable", "disable", "approve", "unapprove", "reject", "audit"]
DEEDS: tuple[Deed, ...] = get_args(Deed)

LASTS = timedelta(minutes=5)
"""A word that nobody heard by then is void: its session may have ended, and its name be given to another one."""

_PREFIX = "plugin."
_VIA = re.compile(r"[a-z][a-z-]{0,31}", re.ASCII)
_HASH = re.compile(r"(?:[0-9a-f]{64})?", re.ASCII)
_WORD = re.compile(
    rf"plugin\.(?P<deed>{'|'.join(DEEDS)}) (?P<plugin>{PLUGIN_NAME.pattern}) (?P<via>{_VIA.pattern})"
    rf" (?P<hash>{_HASH.pattern})(?P<words> \[.*\])?",
    re.ASCII | re.DOTALL,
)
_LONGEST = 16 * 1024

_OURS = messages.c.word.startswith(_PREFIX, autoescape=True) & messages.c.taken_at.is_(None)


@dataclass(frozen=True, slots=True)
class PluginWord:
    """A word for one session."""

    session_id: str  # Whose plugin
    deed: Deed  # What to do
    plugin: str  # Its name
    by: str  # Who wants it
    via: str  # Where they said so: `sidebar`, `terminal`
    at: datetime  # When, UTC
    content_hash: str = ""  # Of the files that they were shown, and that alone are meant; empty for whatever is there
    words: tuple[str, ...] = ()  # Configuration that they gave, each `field=value`; never with a password in it


def send_plugin_word(
    journal: Journal,
    session_id: str,
    deed: Deed,
    plugin: str,
    *,
    by: str,
    via: str,
    content_hash: str = "",
    words: Sequence[str] = (),
) -> None:
    """Leave a word for a session; one that nobody takes in five minutes has no effect.

    Raises:
        UsageError: there is no such deed, no plugin can have that name, it is no hash, or there is too much of it.
        JournalError: the journal cannot be used.
    """
    if deed not in DEEDS:
        raise UsageError(f"Nothing is known of {deed!r}. A session can be told to {', '.join(DEEDS)} a plugin.")
    if len(plugin) > MAX_NAME or PLUGIN_NAME.fullmatch(plugin) is None:
        raise UsageError(f"{plugin[:MAX_NAME]!r} is no name of a plugin.")
    if _VIA.fullmatch(via) is None or _HASH.fullmatch(content_hash) is None:
        raise UsageError("The word is not in the form in which words for plugins are left.")
    told = f" {json.dumps(list(words))}" if words else ""
    if len(told) > _LONGEST:
        raise UsageError("This is more configuration than can be handed to another process. Give it in the notebook.")
    left = {
        "run_id": as_text(session_id),
        "word": f"{_PREFIX}{deed} {plugin} {via} {content_hash}{told}",
        "by_whom": as_text(by),
        "at": stamp(journal.clock.now()),
    }
    with journal.writing() as writing:
        # What nobody heard in time has no reader any more, and is not left to lie there.
        void = _OURS & (messages.c.at < stamp(journal.clock.now() - LASTS))
        writing.connection.execute(delete(messages).where(void))
        writing.connection.execute(insert(messages), left)


def plugin_words_wait(journal: Journal, session_ids: Sequence[str]) -> bool:
    """Whether there are words for these sessions; quick, and takes none."""
    return bool(session_ids) and bool(journal.read(select(messages.c.id).where(_ours(session_ids)).limit(1)))


def waiting_plugin_words(journal: Journal, session_id: str) -> list[PluginWord]:
    """The words for a session that nobody has heard yet, the oldest first; they stay.

    Raises:
        JournalUnreadable: they cannot be read.
    """
    now = journal.clock.now()
    rows = journal.read(select(messages).where(_ours([session_id])).order_by(messages.c.id))
    found = (_word(row) for row in rows)
    return [word for word in found if word is not None and now - word.at <= LASTS]


def take_plugin_words(journal: Journal, session_ids: Sequence[str]) -> list[PluginWord]:
    """The words left for these sessions, the oldest first; each is given out once, to whoever asks first.

    Raises:
        JournalError: the journal cannot be used; nothing was taken.
    """
    # Almost always there is none, and then nobody needs the write lock.
    if not plugin_words_wait(journal, session_ids):
        return []
    ours = _ours(session_ids)
    now = journal.clock.now()
    with journal.writing() as writing:
        rows = writing.connection.execute(select(messages).where(ours).order_by(messages.c.id)).fetchall()
        writing.connection.execute(delete(messages).where(messages.c.id.in_([row.id for row in rows])))
    found = (_word(row) for row in rows)
    return [word for word in found if word is not None and now - word.at <= LASTS]


def _ours(session_ids: Sequence[str]) -> ColumnElement[bool]:
    return _OURS & messages.c.run_id.in_([as_text(session_id) for session_id in session_ids])


def _word(row: Row[Any]) -> PluginWord | None:
    form = _WORD.fullmatch(row.word)
    if form is None:
        # Of a newer version: what is not understood is not done.
        return None
    try:
        words = json.loads(form["words"] or "[]")
    except ValueError:
        return None
    return PluginWord(
        session_id=row.run_id,
        deed=cast("Deed", form["deed"]),
        plugin=form["plugin"],
        by=row.by_whom,
        via=form["via"],
        at=moment(row.at),
        content_hash=form["hash"],
        words=tuple(map(str, words)),
    )
