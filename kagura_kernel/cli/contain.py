"""`kagura-kernel kill`: stops runs of any process on the journal, and says what became of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.cli.opening import open_journal, place_of
from kagura_kernel.cli.printing import as_json
from kagura_kernel.cockpit.naming import here_of, run_to_stop
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.jupyter.surface import person

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal

ALL_OVER, SOME_GO_ON = 0, 1
_GLANCE = 0.1


@dataclass(frozen=True, slots=True)
class Contained:
    """What became of one run."""

    run_id: str
    over: bool  # Whether it is
    status: str  # How it stands now
    said: str  # The same as a clause for a person


def run(arguments: SimpleNamespace) -> int:
    """Stop them; 0 when all are over, 1 when one goes on.

    Raises:
        UsageError: no run is named, or some and all, or the end of several ids; or there is no journal.
        RunUnknown: there is no such run; then none was stopped.
        JournalError: the journal cannot be used.
    """
    if bool(arguments.run) == arguments.all:
        raise UsageError("Say which runs to kill, or --all. `kagura-kernel runs` lists them.")
    with open_journal(place_of(arguments)) as journal:
        named = [run_to_stop(journal, word, here_of()) for word in arguments.run]
        wanted = list(dict.fromkeys(named)) or _going_on(journal)
        ends = contain(journal, wanted, by=person(), seconds=arguments.wait)
    if arguments.json:
        print(as_json([asdict(end) for end in ends]))
    else:
        print("\n".join(f"{end.run_id}: {end.said}" for end in ends) or "No run is going on.")
    return ALL_OVER if all(end.over for end in ends) else SOME_GO_ON


def contain(
    journal: Journal,
    run_ids: Sequence[str],
    *,
    by: str,
    seconds: float,
    pause: Callable[[float], None] = time.sleep,
) -> list[Contained]:
    """Leave each run the word to stop, and wait until all are over or the time is up.

    A run whose process is gone cannot hear; it is marked as lost, and so is every other such run.

    Raises:
        RunUnknown: there is no such run; no word was left for any.
        JournalError: the journal cannot be used.
    """
    from kagura_kernel.journal.mailbox import ask_to_stop
    from kagura_kernel.journal.owner import mark_lost, owner_alive

    before = set(_going_on(journal))
    waiting = ask_to_stop(journal, run_ids, by=by)
    until = time.monotonic() + seconds
    while set(_going_on(journal)) & waiting.keys() and time.monotonic() < until:
        pause(_GLANCE)
        if not all(map(owner_alive, waiting.values())):
            mark_lost(journal)
    return [_ended(journal, run_id, was_over=run_id not in before, seconds=seconds) for run_id in run_ids]


def _going_on(journal: Journal) -> list[str]:
    from kagura_kernel.journal import views

    return [row.run_id for row in views.unfinished(journal)]


def _ended(journal: Journal, run_id: str, *, was_over: bool, seconds: float) -> Contained:
    from kagura_kernel.domain.events import RunFinished

    ends = journal.events(run_id=run_id, kinds=("run.finished",))
    if ends and isinstance(ends[-1].event, RunFinished):
        status = ends[-1].event.status
        lost = " (its process was gone already)" if status == "lost" else ""
        said = f"it was over already, {status}" if was_over else f"{status}{lost}"
        return Contained(run_id, over=True, status=status, said=said)
    said = f"still going on after {seconds:g} s; end its process, then call this again"
    return Contained(run_id, over=False, status="running", said=said)
