"""What a person names, as ids of the journal: whole, by the end of it, `last`, or `last everywhere`.

An id means the same everywhere. `last` is about where it is said, a notebook or a terminal's folder: others use the
same journal, and nobody who says it there means theirs; who does says `last everywhere`. A name that fits nothing is an
error: whoever mistypes one in an emergency must not read that all is well.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import ApprovalUnknown, RunUnknown, UsageError
from kagura_kernel.domain.grammar import EVERYWHERE
from kagura_kernel.journal import views
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.rows import Here
from kagura_kernel.membrane.names import shown

if TYPE_CHECKING:
    from kagura_kernel.domain.variables import CellPlace
    from kagura_kernel.journal.rows import RunRow
    from kagura_kernel.journal.store import Journal


_SHORTEST = 3
"""Signs of an id's end that name it: what is shorter, a number above all, was rarely meant for an id."""


LAST = "last"
_REMEMBERED = 1000
_SHOWN = 3


def working_directory() -> Path:
    """Where the kernel or the terminal is; a path that does not exist when that is gone."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        # check_project says it in the words of a workspace error.
        return Path("(the kernel's working directory, which is gone)")


def here_of(place: CellPlace | None = None, project: Path | None = None) -> Here:
    """Where a cell stands; where that is not known, the folder: the one that is given, or that of this process."""
    folder = str(project or working_directory())
    with suppress(FileNotFoundError):
        # What is relative cannot be resolved in a folder that is gone.
        folder = os.path.realpath(folder)
    if place is None:
        return Here(folder)
    unknown = not place.notebook and not place.kernel_id
    return Here(folder, place.notebook, place.kernel_id, process_owner() if unknown else "")


def meant_here(word: str, here: Here) -> tuple[str, Here]:
    """A word, and the place that it is about."""
    return (LAST, Here("", everywhere=True)) if word == EVERYWHERE else (word, here)


def named_run(journal: Journal, word: str, here: Here) -> str:
    """A run's id: as given, the one that ends like this, or for `last` the newest that a person began here.

    Raises:
        RunUnknown: no run fits.
        UsageError: several do.
        JournalError: the journal cannot be read.
    """
    word, here = meant_here(word, here)
    if word == LAST:
        newest = views.runs(journal, limit=1, here=here)
        if not newest:
            raise no_last_run(journal, here)
        return newest[0].run_id
    if journal.events(run_id=word, limit=1):
        return word
    short = _too_short(word, "run")
    found = [] if short else views.runs_ending(journal, word)
    if not found:
        raise RunUnknown(word, short)
    return only(word, found, "runs", "%kagura runs")


def no_last_run(journal: Journal, here: Here) -> RunUnknown:
    """There is no last run here; the newest of those elsewhere is told, to be named by its id."""
    others = views.runs(journal, limit=1)
    none = f"`{LAST}` is the newest run of {here}, which has none yet: run a task here first, or give a run's id"
    return RunUnknown(LAST, f"{none}{_elsewhere(others) if others else ''}.")


def told_run(journal: Journal, run_id: str) -> str:
    """How an answer names a run: `run-… in /the/project`."""
    found = views.run_of(journal, run_id)
    return run_id if found is None else _told(found)


def no_changes(journal: Journal, run_id: str, told: str) -> str:
    """What to say of a run, called `told`, that changed no files, or whose files are not known yet."""
    row = views.run_of(journal, run_id)
    goes_on = row is not None and views.goes_on(row)
    how = "goes on: what it changes is known when it is over" if goes_on else "changed no files"
    return f"{told} {how}."


def run_to_stop(journal: Journal, word: str, here: Here, nothing: str = "nothing to stop") -> str:
    """As `named_run`, but `last` is the newest run of this place that goes on; `nothing` is what there is otherwise.

    Raises:
        RunUnknown: no run fits.
        UsageError: several do, or `last` was said and none goes on.
        JournalError: the journal cannot be read.
    """
    word, here = meant_here(word, here)
    if word != LAST:
        return named_run(journal, word, here)
    going = views.unfinished(journal, here=here)
    if not going:
        others = views.unfinished(journal)
        where = f" in {here}{_elsewhere(others)}" if others else ""
        raise UsageError(f"There is {nothing}: no run is going on{where}. `%kagura runs` lists all.")
    return next((row.run_id for row in going if views.goes_on(row)), going[0].run_id)


def named_approval(journal: Journal, word: str, here: Here) -> str:
    """An approval's id: as given, or the one that ends like this; of several, the one that waits.

    `last` is the one that waits for an answer to a run of this place, or to one that such a run has handed work to.

    Raises:
        ApprovalUnknown: none fits.
        UsageError: several do, or none waits.
        JournalError: the journal cannot be read.
    """
    word, here = meant_here(word, here)
    if word == LAST:
        pending = views.approvals(journal, pending_only=True, limit=_REMEMBERED)
        asking = {row.id: row.lineage[0] if row.lineage else row.run_id for row in pending}
        runs = list(dict.fromkeys(asking.values()))
        ours = {row.run_id for row in views.runs(journal, limit=len(runs), run_ids=runs, here=here)}
        waiting = [approval for approval, run_id in asking.items() if run_id in ours]
        if not waiting:
            some = ", ".join(list(asking)[:_SHOWN])
            where = f" in {here}; elsewhere {some} {'does' if len(asking) == 1 else 'do'}" if asking else ""
            raise UsageError(f"No approval waits{where}. `%kagura approvals` lists all.")
        # Never the newest of several: a question may come up between the look and the word.
        return only(word, waiting, "approvals that wait", "%kagura approvals")
    rows = views.approvals(journal, ending=word, limit=_REMEMBERED)
    if any(row.id == word for row in rows):
        return word
    short = _too_short(word, "approval")
    fitting = [row for row in rows if word and not short and row.id.endswith(word)]
    if not fitting:
        raise ApprovalUnknown(word, short)
    waiting = [row.id for row in fitting if row.verdict is None]
    return only(word, waiting or [row.id for row in fitting], "approvals", "%kagura approvals")


def _too_short(word: str, what: str) -> str:
    if not word or len(word) >= _SHORTEST:
        return ""
    return f"{word!r} names no {what}: of the end of an id, at least {_SHORTEST} characters are needed."


def _elsewhere(rows: Sequence[RunRow]) -> str:
    return f"; the newest elsewhere is {_told(rows[0])}"


def _told(row: RunRow) -> str:
    return f"{row.run_id} in {shown(row.project)}" if row.project else row.run_id


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
