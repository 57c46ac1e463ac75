"""`kagura-kernel runs`, `sessions`, `cost` and `kill`: what ran and goes on, what it cost, and what is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel import redact
from kagura_kernel.cli.journal_access import open_journal, place_of, read_journal
from kagura_kernel.cli.output import as_json, cut, for_terminal, moment, span, table, tell, tell_rows
from kagura_kernel.cockpit.next_commands import NEWEST, NO_RUNS, NO_SESSIONS, at_limit, more_than, of_run, of_session
from kagura_kernel.cockpit.run_names import here_of, named_run, run_to_stop
from kagura_kernel.domain.errors import NotHeard, UsageError
from kagura_kernel.domain.late_dataclass import asdict, dataclass
from kagura_kernel.domain.sentences import Sentence
from kagura_kernel.journal import views
from kagura_kernel.journal.lost_runs import mark_lost
from kagura_kernel.journal.mailbox import ask_to_stop
from kagura_kernel.journal.owner import owner_alive
from kagura_kernel.journal.precedents import estimated
from kagura_kernel.journal.sentences import say as say_to_run
from kagura_kernel.journal.session_registry import sessions as known
from kagura_kernel.journal.spending import is_unpriced, with_children
from kagura_kernel.jupyter.surface import person
from kagura_kernel.render.figures import counted

if TYPE_CHECKING:
    from kagura_kernel.journal.rows import CostRow, RunRow
    from kagura_kernel.journal.session_registry import SessionRow
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.patterns.plans import Calibrated


_TASK = 60
LATEST = 20
"""So many rows are told when nobody says how many."""
_HISTORY: tuple[tuple[str, Callable[[RunRow], str]], ...] = (
    ("verified", lambda row: {True: "yes", False: "NO", None: ""}[row.verified]),
    ("untrusted", lambda row: "yes" if row.untrusted else ""),
    ("resumes", lambda row: row.resumes),
    ("parent", lambda row: row.parent),
)
"""Columns that are told where a run has something to say in them; programs read all of them from the JSON."""


def runs(arguments: SimpleNamespace) -> int:
    """Print them; 0 whatever they are like. Raises as `read_journal`, and as `named_run`."""
    with read_journal(arguments) as journal:
        named = [named_run(journal, word, here_of()) for word in arguments.run]
        limit = arguments.limit or LATEST
        rows = views.runs(journal, limit=len(named) or limit, run_ids=named or None)
        more = "" if named else more_than(journal, len(rows), limit, "runs")
        following = [of_run(journal, row) if number < NEWEST else [] for number, row in enumerate(rows)]
    told = [(name, said) for name, said in _HISTORY if any(map(said, rows))]
    head = ("", "run", "status", "started", "took", "box", "user", *(name for name, _ in told), "task")
    records = [asdict(row) | {"live": views.goes_on(row), "parent": row.parent} for row in rows]
    cells = [_cells(row, tuple(said(row) or "-" for _, said in told)) for row in rows]
    whole = ("", "run", "started", "took", "resumes", "parent")
    return tell_rows(arguments, records, head, cells, whole=whole, following=following, none=NO_RUNS, further=more)


def _cells(row: RunRow, history: tuple[str, ...]) -> tuple[str, ...]:
    status = row.status.replace("_", " ")
    if row.live and not views.goes_on(row):
        status = f"{status}, its process is gone"
    return (
        "*" if views.goes_on(row) else " ",
        row.run_id,
        status,
        moment(row.started_at),
        span(row.duration),
        row.box or "-",
        row.user or "-",
        *history,
        cut(row.task, _TASK),
    )


def sessions(arguments: SimpleNamespace) -> int:
    """Print them; 0 whatever they are like. Raises as `read_journal`."""
    with read_journal(arguments) as journal:
        limit = arguments.limit or LATEST
        rows = known(journal, limit=limit)
        more = more_than(journal, len(rows), limit, "sessions")
        following = [of_session(journal, row) if number < NEWEST else [] for number, row in enumerate(rows)]
    records, cells = [asdict(row) | {"state": _session_state(row)} for row in rows], list(map(_session_cells, rows))
    head = ("session", "state", "runs", "began", "last", "last run", "task")
    whole = ("session", "began", "last", "last run")
    return tell_rows(arguments, records, head, cells, whole=whole, following=following, none=NO_SESSIONS, further=more)


def _session_state(row: SessionRow) -> str:
    if row.last.live and not views.goes_on(row.last):
        return "its process is gone"
    return row.state


def _session_cells(row: SessionRow) -> tuple[str, ...]:
    return (
        row.session_id,
        _session_state(row),
        str(row.runs),
        moment(row.first_at),
        moment(row.last_at),
        row.last_run,
        cut(row.task, _TASK),
    )


def cost(arguments: SimpleNamespace) -> int:
    """Print it; 0 whatever it is like. Raises as `runs`."""
    with read_journal(arguments) as journal:
        named = [named_run(journal, word, here_of()) for word in arguments.run]
        limit = len(named) or arguments.limit or LATEST
        if arguments.calibration:
            return _calibration(journal, named, limit, as_rows=arguments.json)
        rows = with_children(journal, views.costs(journal, limit=limit, run_ids=named or None))
        more = "" if named else more_than(journal, len(rows), limit, "runs")
    if arguments.json:
        print(as_json([asdict(row) | {"usd": row.usd, "total_usd": row.total_usd} for row in rows]))
    elif rows:
        head = ("run", "started", "status", "brain", "model", "in", "out", "usd", "with its children")
        # Most people hand nothing on: for them the column would say the same again.
        many = len(head) if any(row.children for row in rows) else len(head) - 1
        cells = [_cost_cells(row)[:many] for row in rows]
        print(table(head[:many], cells, whole=("run", "started", "usd", "with its children")))
        print(_sum(rows))
        if more:
            print(more)
    else:
        print(for_terminal(NO_RUNS))
    return 0


def _calibration(journal: Journal, named: list[str], limit: int, *, as_rows: bool) -> int:
    from kagura_kernel.patterns.plans import calibrate, calibration_line

    rows = calibrate(estimated(journal, limit=limit, run_ids=named or None))
    if as_rows:
        print(as_json([asdict(row) for row in rows]))
        return 0
    if rows:
        head = ("run", "status", "expected", "usd", "off", "within", "expected", "took", "off", "within")
        print(table(head, [_calibrated_cells(row) for row in rows], whole=("run", "usd", "took")))
    print(calibration_line(rows))
    if not named and (more := at_limit(len(rows), limit)):
        print(more)
    return 0


def _calibrated_cells(row: Calibrated) -> tuple[str, ...]:
    return (
        row.run_id,
        row.status.replace("_", " "),
        *(_dollars(one) for one in (row.estimated_usd, row.usd)),
        _off(row.usd_error),
        _yes_or_no(row.usd_within),
        *(span(one) for one in (row.estimated_seconds, row.seconds)),
        _off(row.seconds_error),
        _yes_or_no(row.seconds_within),
    )


def _off(error: float | None) -> str:
    return "-" if error is None else f"{error:+.0%}"


def _yes_or_no(within: bool | None) -> str:
    return {True: "yes", False: "no", None: "-"}[within]


def _dollars(usd: float | None) -> str:
    return "-" if usd is None else f"{usd:.4f}"


def _cost_cells(row: CostRow) -> tuple[str, ...]:
    return (
        row.run_id,
        moment(row.at),
        row.status.replace("_", " "),
        row.brain or "-",
        row.model or "-",
        f"{row.input_tokens:,}",
        f"{row.output_tokens:,}",
        _dollars(row.usd),
        f"{_dollars(row.total_usd)} ({row.children:,})" if row.children else "-",
    )


def _sum(rows: list[CostRow]) -> str:
    usd = sum(row.usd or 0.0 for row in rows)
    unpriced = sum(is_unpriced(row) for row in rows)
    is_unknown = unpriced > 0 and not usd
    told = "An unknown cost" if is_unknown else f"${usd:.4f}"
    more = f", {unpriced} of them of unknown price, which is not in the sum" if unpriced and not is_unknown else ""
    if len(rows) == 1 and rows[0].children and rows[0].total_usd is not None:
        more += f", and ${rows[0].total_usd:.4f} with {counted(rows[0].children, 'child', 'children')}"
    return f"{told} for {counted(len(rows), 'run')}{more}."


ALL_OVER, SOME_GO_ON = 0, 1
_GLANCE = 0.1
_STOPS_WITHIN = 60.0


@dataclass(frozen=True, slots=True)
class Contained:
    """What became of one run."""

    run_id: str
    over: bool  # Whether it is
    status: str  # How it stands now
    said: str  # The same as a clause for a person


def kill(arguments: SimpleNamespace) -> int:
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
    lines = [f"{end.run_id}: {end.said}" for end in ends]
    tell(arguments, list(map(asdict, ends)), "\n".join(lines) or "No run is going on.")
    return ALL_OVER if all(end.over for end in ends) else SOME_GO_ON


def say(arguments: SimpleNamespace) -> int:
    """Say something to a run; 0 when its brain will hear it.

    Raises:
        RunUnknown: there is no such run.
        RunOver: it has ended.
        NotHeard: its brain takes nothing while it works, or its process does not answer.
        UsageError: nothing goes on here, or nothing was said; or there is no journal.
        JournalError: the journal cannot be used.
        RedactionUnavailable: secrets cannot be looked for in it.
    """
    sentence = Sentence(" ".join(arguments.text), person(), "terminal")
    with open_journal(place_of(arguments)) as journal:
        run_id = run_to_stop(journal, arguments.run, here_of(), "nobody to tell")
        if arguments.instead:
            return _instead(journal, run_id, sentence, as_json=arguments.json)
        say_to_run(journal, run_id, sentence, redact)
    tell(arguments, {"run_id": run_id, "sentence_id": sentence.id}, f"{run_id} hears it at its next turn.")
    return 0


def _instead(journal: Journal, run_id: str, sentence: Sentence, *, as_json: bool) -> int:
    """Stop it, and carry out here what goes on in its place; the exit code of a run."""
    from kagura_kernel.cli.run import carry_out_here
    from kagura_kernel.cockpit.restart import going_on

    if not all(end.over for end in contain(journal, [run_id], by=sentence.by, seconds=_STOPS_WITHIN)):
        raise NotHeard(run_id, f"it still goes on {_STOPS_WITHIN:g} s after it was stopped")
    return carry_out_here(going_on(journal, run_id, sentence.text), as_json=as_json)


def contain(journal: Journal, run_ids: Sequence[str], *, by: str, seconds: float) -> list[Contained]:
    """Leave each run the word to stop, and wait until all are over or the time is up.

    A run whose process is gone cannot hear; it is marked as lost, and so is every other such run.

    Raises:
        RunUnknown: there is no such run; no word was left for any.
        JournalError: the journal cannot be used.
    """
    before = set(_going_on(journal))
    waiting = ask_to_stop(journal, run_ids, by=by)
    until = time.monotonic() + seconds
    while set(_going_on(journal)) & waiting.keys() and time.monotonic() < until:
        time.sleep(_GLANCE)
        if not all(map(owner_alive, waiting.values())):
            mark_lost(journal)
    return [_ended(journal, run_id, was_over=run_id not in before, seconds=seconds) for run_id in run_ids]


def _going_on(journal: Journal) -> list[str]:
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
