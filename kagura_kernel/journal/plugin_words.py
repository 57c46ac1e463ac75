"""What another process wants done with a session's plugins: words in the mailbox, addressed to the session.

A word lies beside those for runs; a run's reader names the words that it knows, and never takes one of these. Whoever
hears one removes it: the mailbox only carries, and a configuration is nothing to keep there. No secret is ever in one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, cast, get_args

from sqlalchemy import ColumnElement, Row, delete, insert, select

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.plugins import MAX_NAME, PLUGIN_NAME
from kagura_kernel.journal.encoding import as_text, moment, stamp
from kagura_kernel.journal.schema import messages
from kagura_kernel.journal.store import Journal

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
