"""What a person names, as ids of the journal: whole, by the end of it, or `last`.

A name that fits nothing is an error: whoever mistypes one in an emergency must not read that all is well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import ApprovalUnknown, RunUnknown, UsageError

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal

LAST = "last"
_REMEMBERED = 1000
_SHOWN = 3


def named_run(journal: Journal, word: str) -> str:
    """A run's id: as given, the one that ends like this, or the newest for `last`.

    Raises:
        RunUnknown: no run fits.
        UsageError: several do.
        JournalError: the journal cannot be read.
    """
    from kagura_kernel.journal import views

    if word == LAST:
        newest = views.runs(journal, limit=1)
        if not newest:
            raise RunUnknown(LAST)
        return newest[0].run_id
    if journal.events(run_id=word, limit=1):
        return word
    found = views.runs_ending(journal, word)
    if not found:
        raise RunUnknown(word)
    return only(word, found, "runs", "%kagura runs")


def run_to_stop(journal: Journal, word: str) -> str:
    """As `named_run`, but `last` is the newest run that goes on.

    Raises:
        RunUnknown: no run fits.
        UsageError: several do, or `last` was said and none goes on.
        JournalError: the journal cannot be read.
    """
    from kagura_kernel.journal import views
    from kagura_kernel.journal.owner import owner_alive

    if word != LAST:
        return named_run(journal, word)
    going = views.unfinished(journal)
    if not going:
        raise UsageError("There is nothing to stop: no run is going on. `%kagura runs` lists those that ended.")
    return next((row.run_id for row in going if owner_alive(row.owner)), going[0].run_id)


def named_approval(journal: Journal, word: str) -> str:
    """An approval's id: as given, or the one that ends like this; of several, the one that waits. `last` is that one.

    Raises:
        ApprovalUnknown: none fits.
        UsageError: several do, or none waits.
        JournalError: the journal cannot be read.
    """
    from kagura_kernel.journal import views

    if word == LAST:
        waiting = [row.id for row in views.approvals(journal, pending_only=True, limit=_REMEMBERED)]
        if not waiting:
            raise UsageError("No approval waits. `%kagura approvals` lists those that were answered.")
        # Never the newest of several: a question may come up between the look and the word.
        return only(word, waiting, "approvals that wait", "%kagura approvals")
    rows = views.approvals(journal, limit=_REMEMBERED)
    fitting = [row for row in rows if word and row.id.endswith(word)]
    if any(row.id == word for row in fitting):
        return word
    if not fitting:
        raise ApprovalUnknown(word)
    waiting = [row.id for row in fitting if row.verdict is None]
    return only(word, waiting or [row.id for row in fitting], "approvals", "%kagura approvals")


def only(word: str, found: Sequence[str], what: str, command: str) -> str:
    """The one id of these.

    Raises:
        UsageError: there are several.
    """
    if len(found) > 1:
        more = ", …" if len(found) > _SHOWN else ""
        fits = f"{', '.join(found[:_SHOWN])}{more}"
        raise UsageError(f"{word!r} fits {len(found)} {what} ({fits}); give the whole id, as `{command}` shows it.")
    return found[0]
