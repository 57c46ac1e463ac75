"""What a person says to a run of another process: it lies in the mailbox until that process takes it out.

The answer comes back as an event of the run, which says whether its brain is told. Nothing that was said stays in the
mailbox: who does not hear it in time is not told.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlalchemy import ColumnElement, delete, insert, select

from kagura_kernel.domain.errors import NotHeard, RunOver
from kagura_kernel.domain.sentences import Sentence
from kagura_kernel.journal import views
from kagura_kernel.journal.encoding import as_text, stamp
from kagura_kernel.journal.lost_runs import mark_lost
from kagura_kernel.journal.schema import messages
from kagura_kernel.journal.store import Journal

ANSWERED_WITHIN = 10.0
"""Seconds that the run's process has to take it out."""

WHAT_NOW = "Say it as a task of its own: in the same session it goes on from there."

_PREFIX = "say "
_GLANCE = 0.05
_OURS: ColumnElement[bool] = messages.c.word.startswith(_PREFIX, autoescape=True)

LEFT = select(messages.c.run_id).where(_OURS)
"""The runs for which something lies in the mailbox."""


def say(
    journal: Journal,
    run_id: str,
    sentence: Sentence,
    redact: Callable[[str], str],
    *,
    seconds: float = ANSWERED_WITHIN,
) -> None:
    """Tell a run of another process something; blocks until that has stored it.

    Of the text only what `redact` leaves of it ever lies in the mailbox.

    Raises:
        RunUnknown: there is no such run.
        RunOver: it has ended, or its process is gone.
        NotHeard: its brain takes nothing while it works, or its process does not answer.
        JournalError: the journal cannot be used.
        RedactionUnavailable: secrets cannot be looked for in it.
    """
    mark_lost(journal)
    check_goes_on(journal, run_id)
    sentence = replace(sentence, text=redact(sentence.text))
    word = _PREFIX + json.dumps([sentence.id, sentence.via, as_text(sentence.text)])
    left = {"run_id": run_id, "word": word, "by_whom": as_text(sentence.by), "at": stamp(journal.clock.now())}
    with journal.writing() as writing:
        writing.connection.execute(insert(messages), left)
    until = time.monotonic() + seconds
    try:
        while not _is_stored(journal, run_id, sentence.id):
            if time.monotonic() < until and _goes_on(journal, run_id):
                time.sleep(_GLANCE)
            # Whoever took it out at the last moment stores it now.
            elif _withdrawn(journal, word) or time.monotonic() > until + seconds:
                check_goes_on(journal, run_id)
                raise NotHeard(run_id, f"its process has not answered for {seconds:g} s")
    except KeyboardInterrupt:
        _withdrawn(journal, word)
        raise


def check_goes_on(journal: Journal, run_id: str) -> None:
    """Raise `RunUnknown` or `RunOver` unless the run goes on."""
    found = views.one_run(journal, run_id)
    if not found.live:
        raise RunOver(run_id, found.status, WHAT_NOW)


def take_sentences(journal: Journal, run_ids: Sequence[str]) -> list[tuple[str, Sentence]]:
    """What was said to these runs, the oldest first, each given out once and gone from the mailbox."""
    ours = _OURS & messages.c.run_id.in_(run_ids)
    # Almost always there is none, and then nobody needs the write lock.
    if not run_ids or not journal.read(LEFT.where(ours).limit(1)):
        return []
    with journal.writing() as writing:
        rows = writing.connection.execute(select(messages).where(ours).order_by(messages.c.id)).fetchall()
        writing.connection.execute(delete(messages).where(messages.c.id.in_([row.id for row in rows])))
    found = []
    for row in rows:
        name, via, text = json.loads(row.word.removeprefix(_PREFIX))
        found.append((row.run_id, Sentence(text, row.by_whom, via, name)))
    return found


def _withdrawn(journal: Journal, word: str) -> bool:
    with journal.writing() as writing:
        return writing.connection.execute(delete(messages).where(messages.c.word == word)).rowcount == 1


def _is_stored(journal: Journal, run_id: str, sentence_id: str) -> bool:
    """Whether the run has it; raises `NotHeard` where its brain is not told."""
    from kagura_kernel.domain.events import PersonSaid

    for row in journal.events(run_id=run_id, kinds=("person.said",)):
        if isinstance(row.event, PersonSaid) and row.event.sentence_id == sentence_id:
            if row.event.refused:
                raise NotHeard(run_id, row.event.refused)
            return True
    return False


def _goes_on(journal: Journal, run_id: str) -> bool:
    return any(row.run_id == run_id for row in views.unfinished(journal))
