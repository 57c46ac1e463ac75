"""Commands about runs in a notebook: what ran, waits and costs; answers, stops, changes. Data is a DataFrame."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from kagura_kernel.assembly.extensions import all_brain_reports
from kagura_kernel.cockpit.brains import PRICES_SAID, turn_words
from kagura_kernel.cockpit.commit_desk import about_commits
from kagura_kernel.cockpit.lines.help import help_for
from kagura_kernel.cockpit.next_commands import (
    NEWEST,
    NONE_WAITS,
    at_limit,
    more_than,
    of_approval,
    of_lease,
    of_run,
    of_session,
)
from kagura_kernel.cockpit.restart import going_on, stopped
from kagura_kernel.cockpit.run_names import named_approval, named_run, no_changes, only, run_to_stop, told_run
from kagura_kernel.domain.clock import read_time
from kagura_kernel.domain.errors import NotebookUnwritable, UsageError
from kagura_kernel.domain.grammar import Surface as Typed
from kagura_kernel.domain.notebook import is_cell_id
from kagura_kernel.domain.outcome import by_path
from kagura_kernel.domain.sentences import Sentence
from kagura_kernel.journal import views
from kagura_kernel.journal.place import data_home
from kagura_kernel.journal.precedents import estimated
from kagura_kernel.journal.session_registry import sessions as known
from kagura_kernel.journal.spending import with_children
from kagura_kernel.jupyter.status import StatusText
from kagura_kernel.jupyter.steering import Asked, say as tell
from kagura_kernel.jupyter.surface import Surface, person, place_of, surface_of
from kagura_kernel.render.escape import shown_path
from kagura_kernel.views.changes import never_written
from kagura_kernel.views.commits import commit_rows, settled_text

if TYPE_CHECKING:
    import pandas as pd

    from kagura_kernel.domain.events import ChangesSettled


_LATEST, _LATEST_COSTS = 100, 1000


def help(asked: Asked) -> None:  # noqa: A001 - a command is the function of its name
    """All commands, or one."""
    tell(help_for(asked["word"], Typed.NOTEBOOK, prefix=asked.prefix))


def new(asked: Asked) -> None:
    """Begin a new conversation."""
    asked.cockpit.begin_anew()
    tell("The next run begins a new conversation.")


def box_end(asked: Asked) -> None:
    """End the box that cells have left in place."""
    kept = asked.cockpit.end_box()
    tell("No box waits for a next cell." if kept is None else f"The box of {kept.name} ends.")


def model(asked: Asked) -> None:
    """Have further runs think with another model, or say which it is."""
    if wanted := asked["model"]:
        asked.cockpit.use_model(wanted)
    now = asked.cockpit.model
    tell(f"Further runs here think with {now}." if now else "Further runs here think with the usual model.")


def models(asked: Asked) -> pd.DataFrame:
    """The models that cells here can name, and what each costs."""
    from kagura_kernel.jupyter.models import offered
    from kagura_kernel.jupyter.tables import models_table
    from kagura_kernel.jupyter.text_frames import ModelsText

    found = offered(asked.cockpit)
    if found:
        tell(PRICES_SAID)
    return ModelsText(models_table(found))


async def setup(asked: Asked) -> None:
    """Choose what thinks."""
    from kagura_kernel.jupyter.forms import set_up

    place = Surface.INSIDE if asked.blocked or not asked.awaited else surface_of(asked.shell)
    await set_up(asked.cockpit, place)


def status(asked: Asked) -> Any:
    """What runs, what waits, and what is there to run on."""
    return StatusText(asked.cockpit.status())


def runs(asked: Asked) -> pd.DataFrame:
    """The latest runs, or those named."""
    from kagura_kernel.jupyter.tables import runs_table
    from kagura_kernel.jupyter.text_frames import RunsText

    named = _named(asked)
    limit = asked["limit"] or _LATEST
    rows = views.runs(asked.cockpit.journal, limit=len(named) or limit, run_ids=named or None)
    if not named:
        _tell_more(asked, len(rows), limit, "runs")
    following = {row.run_id: of_run(asked.cockpit.journal, row) for row in rows[:NEWEST]}
    return RunsText(runs_table(rows)).with_next(following)


def sessions(asked: Asked) -> pd.DataFrame:
    """The sessions, and how each stands."""
    from kagura_kernel.jupyter.tables import sessions_table
    from kagura_kernel.jupyter.text_frames import SessionsText

    journal = asked.cockpit.journal
    limit = asked["limit"] or _LATEST
    rows = known(journal, limit=limit)
    _tell_more(asked, len(rows), limit, "sessions")
    following = {row.session_id: of_session(journal, row) for row in rows[:NEWEST]}
    return SessionsText(sessions_table(rows)).with_next(following)


def approvals(asked: Asked) -> pd.DataFrame:
    """The latest approvals, or those that wait."""
    from kagura_kernel.cockpit.memory import has_lessons, lessons_told
    from kagura_kernel.jupyter.tables import approvals_table
    from kagura_kernel.jupyter.text_frames import ApprovalsText

    limit = asked["limit"] or _LATEST
    rows = views.approvals(asked.cockpit.journal, limit=limit, pending_only=asked["pending"])
    which: views.Counted = "pending" if asked["pending"] else "approvals"
    _tell_more(asked, len(rows), limit, which)
    plans = [row for row in rows if row.verdict is None and row.kind == "plan" and has_lessons(row.arguments)]
    told = {row.id: "\n".join(lessons_told(lambda: asked.cockpit.memory, row.arguments)) for row in plans}
    journal = asked.cockpit.journal
    heard = views.running(journal)
    following = {row.id: of_approval(journal, row, heard) for row in rows}
    table = ApprovalsText(approvals_table(rows, told)).with_next(following)
    return table.saying(NONE_WAITS) if asked["pending"] else table


def _tell_more(asked: Asked, shown: int, limit: int, what: views.Counted) -> None:
    """Say how many more there are than a list shows."""
    if told := more_than(asked.cockpit.journal, shown, limit, what):
        tell(told)


def cost(asked: Asked) -> pd.DataFrame:
    """What the latest runs cost, in a notebook as a table that shows itself as the cost panel; or those named."""
    from kagura_kernel.jupyter.tables import costs_table
    from kagura_kernel.jupyter.text_frames import CostsText

    if asked["calibration"]:
        return _calibration(asked)
    named = _named(asked)
    limit = asked["limit"] or _LATEST_COSTS
    journal = asked.cockpit.journal
    rows = views.costs(journal, limit=len(named) or limit, run_ids=named or None)
    if not named:
        _tell_more(asked, len(rows), limit, "runs")
    table = costs_table(with_children(journal, rows))
    if not named and surface_of(asked.shell) is Surface.NOTEBOOK:
        from kagura_kernel.jupyter.boards import CostFrame

        return CostFrame(table)
    return CostsText(table)


def _calibration(asked: Asked) -> pd.DataFrame:
    """What runs were expected to need beside what they needed, and a sentence about all of them."""
    from kagura_kernel.jupyter.tables import calibration_table
    from kagura_kernel.jupyter.text_frames import CalibratedText
    from kagura_kernel.patterns.plans import calibrate, calibration_line

    named = _named(asked)
    limit = len(named) or asked["limit"] or _LATEST_COSTS
    rows = calibrate(estimated(asked.cockpit.journal, limit=limit, run_ids=named or None))
    tell(calibration_line(rows))
    if not named and (more := at_limit(len(rows), limit)):
        tell(more)
    return CalibratedText(calibration_table(rows))


def leases(asked: Asked) -> pd.DataFrame:
    """What credentials runs hold; in a notebook a table that shows itself as the live board."""
    from kagura_kernel.jupyter.tables import leases_table
    from kagura_kernel.jupyter.text_frames import LeasesText

    rows = asked.cockpit.leases()
    table = leases_table(rows)
    if surface_of(asked.shell) is Surface.NOTEBOOK:
        from kagura_kernel.jupyter.boards import LeaseFrame

        return LeaseFrame(table)
    return LeasesText(table).with_next({row.lease_id: of_lease(row.lease_id) for row in rows})


def egress_log(asked: Asked) -> pd.DataFrame:
    """What boxes asked to connect to."""
    from kagura_kernel.jupyter.tables import egress_table
    from kagura_kernel.jupyter.text_frames import EgressText

    journal = asked.cockpit.journal
    table = egress_table(
        views.egress(
            journal,
            run_id=named_run(journal, asked["run"], asked.here) if asked["run"] is not None else None,
            since=read_time(asked["since"], datetime.now(UTC)) if asked["since"] else None,
            refused_only=asked["refused"],
            limit=asked["limit"],
        )
    )
    if more := at_limit(len(table), asked["limit"]):
        tell(more)
    return EgressText(table)


def egress_check(asked: Asked) -> pd.DataFrame:
    """Whether a box could reach these, and why; nothing is connected to."""
    from kagura_kernel.assembly import load_settings
    from kagura_kernel.cockpit.egress_check import explain_targets
    from kagura_kernel.jupyter.follow import wait_in_thread
    from kagura_kernel.jupyter.tables import explanations_table

    mirrors = load_settings(os.environ).mirrors
    explaining = explain_targets(asked["target"], asked["net"], mirrors, resolve=not asked["no_resolve"])
    # A notebook's own thread has a loop already, which cannot wait for another.
    return explanations_table(wait_in_thread(explaining, "kagura egress check"))


def watch(asked: Asked) -> Any:
    """All runs that go on, live."""
    from kagura_kernel.jupyter.boards import watch as show

    return show(asked.cockpit, asked.shell)


def chart_cost(asked: Asked) -> Any:
    """Cost over time."""
    from kagura_kernel.jupyter.charts import chart

    return chart(asked.cockpit, "cost", None)


def chart_timeline(asked: Asked) -> Any:
    """One run over time."""
    from kagura_kernel.jupyter.charts import chart

    return chart(asked.cockpit, "timeline", named_run(asked.cockpit.journal, asked["run"], asked.here))


def chart_egress(asked: Asked) -> Any:
    """Connections by host."""
    from kagura_kernel.jupyter.charts import chart

    run_id = named_run(asked.cockpit.journal, asked["run"], asked.here) if asked["run"] is not None else None
    return chart(asked.cockpit, "egress", run_id)


def _named(asked: Asked) -> list[str]:
    journal = asked.cockpit.journal
    return [named_run(journal, word, asked.here) for word in asked["run"]]


def brain(asked: Asked) -> pd.DataFrame:
    """Every brain, what it would think with, and what a turn would cost."""
    from kagura_kernel.assembly import load_settings
    from kagura_kernel.jupyter.tables import brain_table
    from kagura_kernel.jupyter.text_frames import BrainsText

    journal = asked.cockpit.journal
    reports = all_brain_reports(
        os.environ, load_settings(os.environ), data_home(os.environ), journal, model=asked["model"]
    )
    tell(turn_words(reports))
    return BrainsText(brain_table(reports))


def approve(asked: Asked) -> None:
    """Allow what an approval asks for."""
    _decide(asked, allow=True)


def deny(asked: Asked) -> None:
    """Say no to it."""
    _decide(asked, allow=False)


def _decide(asked: Asked, *, allow: bool) -> None:
    approval_id = named_approval(asked.cockpit.journal, asked["approval"], asked.here)
    answer = " ".join(asked["answer"])
    decision = asked.cockpit.decide(approval_id, allow=allow, by=person(), via="command", answer=answer)
    tell(f"{decision.approval_id}: {'allowed' if decision.allowed else 'denied'}.")


def kill(asked: Asked) -> None:
    """Stop runs; none is stopped when one of the names fits nothing."""
    cockpit = asked.cockpit
    for run_id in dict.fromkeys([run_to_stop(cockpit.journal, word, asked.here) for word in asked["run"]]):
        cockpit.kill(run_id, by=person())
        tell(f"{told_run(cockpit.journal, run_id)} is being stopped.")


def say(asked: Asked) -> Any:
    """Say something to a run that goes on, or go on with it in the run's place."""
    journal = asked.cockpit.journal
    run_id = run_to_stop(journal, asked["run"], asked.here, "nobody to tell")
    sentence = Sentence(" ".join(asked["text"]), person(), "command")
    if asked["instead"]:
        return _instead(asked, run_id, sentence)
    asked.cockpit.say(run_id, sentence)
    return tell(f"{told_run(journal, run_id)} hears it at its next turn.")


def _instead(asked: Asked, run_id: str, sentence: Sentence) -> Any:
    from kagura_kernel.jupyter.cell import begin, carry_out
    from kagura_kernel.jupyter.follow import wait_in_thread

    async def in_its_place() -> Any:
        await stopped(asked.cockpit, run_id, by=sentence.by)
        request = going_on(asked.cockpit.journal, run_id, sentence.text)._replace(background=True)
        return await carry_out(asked.shell, request, surface_of(asked.shell))

    if asked.awaited:
        return in_its_place()
    wait_in_thread(stopped(asked.cockpit, run_id, by=sentence.by), "kagura say")
    return begin(asked.shell, going_on(asked.cockpit.journal, run_id, sentence.text))


def revoke(asked: Asked) -> None:
    """Give a lease back."""
    lease_id = _lease_id(asked, asked["lease"])
    asked.cockpit.revoke_lease(lease_id, by=person())
    tell(f"{lease_id} is being given back.")


def extend(asked: Asked) -> None:
    """Ask for more time for a lease."""
    lease_id = _lease_id(asked, asked["lease"])
    asked.cockpit.extend_lease(lease_id, by=person())
    tell(f"The run of {lease_id} asks for more time: answer in its card.")


def _lease_id(asked: Asked, target: str) -> str:
    """A lease's id: as given, or the one that ends like this, or the one of this `provider:scope`."""
    if target.startswith("lea-"):
        return target
    rows = asked.cockpit.leases()
    found = [row.lease_id for row in rows if row.lease_id.endswith(target) or f"{row.provider}:{row.scope}" == target]
    # One that nobody holds is the cockpit's to refuse.
    return only(target, found, "leases", "%kagura leases") if found else target


def attach(asked: Asked) -> Any:
    """Show a run, whichever notebook began it."""
    from kagura_kernel.jupyter.background import attach as show

    return show(asked.cockpit, asked.shell, named_run(asked.cockpit.journal, asked["run"], asked.here))


def changes(asked: Asked) -> None:
    """Show what a run would change, as the card that settles it."""
    from kagura_kernel.jupyter.live_run import show_changes

    run_id = named_run(asked.cockpit.journal, asked["run"], asked.here)
    found = by_path(asked.cockpit.changes(run_id))
    run = _run_told(asked, run_id)
    if not found and not asked.cockpit.commits_desk.branches(run_id):
        tell(no_changes(asked.cockpit.journal, run_id, run or "The run"))
        return
    if run:
        tell(f"{run}:")
    show_changes(asked.cockpit, run_id, found, surface_of(asked.shell))


def commits(asked: Asked) -> pd.DataFrame:
    """What a run committed in its box."""
    from kagura_kernel.jupyter.tables import table_of
    from kagura_kernel.jupyter.text_frames import CommitsText

    run_id = named_run(asked.cockpit.journal, asked["run"] or "last", asked.here)
    rows = commit_rows(asked.cockpit.commits_desk.branches(run_id))
    return CommitsText(table_of(rows, "branch commit subject author files:int added:int removed:int state"))


_FIX = (
    "Fix cell {cell} of this notebook: it failed, as its error shows. Find out why. Try a mended version in your "
    "sandbox where that is possible, and propose it with edit_cell as the source of that very cell; propose changes of "
    "other cells only where the fault lies there. Say in a sentence or two what was wrong."
)
_EXPLAIN = (
    "Explain why cell {cell} of this notebook failed, as its error shows, and what would mend it, in a few sentences. "
    "Propose no changes."
)


_MOST_FAILED = 8
"""Failed cells that are named."""
_MOST_PATHS = 20
"""Files that are named for each way in which they were decided about."""


async def fix(asked: Asked) -> Any:
    """Have an agent propose a mended version of a cell that failed."""
    return await _about_error(asked, _FIX)


async def explain(asked: Asked) -> Any:
    """Have an agent explain an error."""
    return await _about_error(asked, _EXPLAIN)


async def _about_error(asked: Asked, task: str) -> Any:
    from kagura_kernel.jupyter.cell import run_cell
    from kagura_kernel.jupyter.notebook import failed_cells, notebook_of

    failed = failed_cells(asked.shell)
    cell = asked["cell"] or next(iter(failed), "")
    if cell and not is_cell_id(cell):
        raise UsageError(f"{cell!r} is no id of a cell. Without one the cell that failed last is meant.")
    if not cell:
        raise UsageError("No cell has failed since this kernel began. Run the cell first, or name it by its id.")
    # What runs while the kernel hears no buttons asks nobody.
    surface = Surface.INSIDE if asked.blocked else None
    if cell not in failed:
        notebook = await notebook_of(asked.shell, place_of(asked.shell), surface or surface_of(asked.shell))
        if notebook is not None and cell not in {one.id for one in notebook.cells}:
            known = f"These failed: {', '.join(failed[:_MOST_FAILED])}" if failed else "None has failed"
            raise UsageError(f"There is no cell {cell!r} in this notebook that an agent may see. {known}.")
    return await run_cell(asked.shell, "kagura", "--context cells", task.format(cell=cell), surface=surface)


async def apply(asked: Asked) -> None:
    """Bring a run's changes into the project, and cells into their notebook."""
    if about_commits(asked.values):
        _settle_commits(asked, "apply", asked["branch"])
        return
    from kagura_kernel.jupyter.notebook import cells_writer

    write = _not_heard if asked.blocked else cells_writer(asked.shell)
    run_id, paths = named_run(asked.cockpit.journal, asked["run"], asked.here), list(asked["paths"]) or None
    desk = asked.cockpit.changes_desk
    how = {"hunks": asked["hunk"], "conflict": asked["conflict"]}
    work = partial(desk.settle, "apply", run_id, paths, by=person(), write_cells=write, **how)
    with _settles(asked, run_id):
        # A page that is asked to change cells is heard while this is awaited.
        settled = await asyncio.to_thread(work)
        protected = [] if paths else never_written(desk.changes(run_id))
        tell(told(settled, _run_told(asked, run_id), protected))


def _not_heard(notebook: str, _edits: object) -> None:
    why = "no page is heard while this cell goes on, and the command has to stand in a cell of its own"
    raise NotebookUnwritable(notebook, why)


def discard(asked: Asked) -> None:
    """Give a run's changes up."""
    if about_commits(asked.values):
        _settle_commits(asked, "discard")
        return
    _settle(asked, "discard", asked["hunk"])


def undo(asked: Asked) -> None:
    """Take back what was applied."""
    if about_commits(asked.values):
        _settle_commits(asked, "undo")
        return
    _settle(asked, "undo")


def _settle(asked: Asked, act: str, hunks: tuple[int, ...] = ()) -> None:
    run_id, paths = named_run(asked.cockpit.journal, asked["run"], asked.here), list(asked["paths"]) or None
    with _settles(asked, run_id):
        settled = asked.cockpit.changes_desk.settle(act, run_id, paths, by=person(), hunks=hunks)
        tell(told(settled, _run_told(asked, run_id)))


def _settle_commits(asked: Asked, act: str, as_branch: str = "") -> None:
    run_id = named_run(asked.cockpit.journal, asked["run"], asked.here)
    with _settles(asked, run_id):
        desk = asked.cockpit.commits_desk
        settled = desk.settle(act, run_id, asked["paths"], by=person(), as_branch=as_branch)
        tell(settled_text(settled, _run_told(asked, run_id)))


@contextmanager
def _settles(asked: Asked, run_id: str) -> Iterator[None]:
    from kagura_kernel.jupyter.live_run import refresh_changes

    try:
        yield
    finally:
        refresh_changes(asked.cockpit, run_id)


def _run_told(asked: Asked, run_id: str) -> str:
    # What differs every time is no output where nobody looks and the next execution is compared with this one.
    return "" if surface_of(asked.shell) is Surface.HEADLESS else told_run(asked.cockpit.journal, run_id)


def told(settled: ChangesSettled, run: str, protected: Sequence[str] = ()) -> str:
    """What became of a run's changes, a line for each way; the run and its project first, where they are given.

    Paths in `protected` were not decided about: they are never written.
    """
    lines = [
        f"{word}: {_first_paths(paths)}"
        for word, paths in (
            ("applied", settled.applied),
            ("discarded", settled.discarded),
            ("left alone, the project’s file changed meanwhile", settled.conflicts),
            ("taken back, and waits again", settled.undone),
        )
        if paths
    ]
    parts = [("applied", one.hunks, one.path) for one in settled.written if one.hunks]
    parts += [("discarded", one.numbers, one.path) for one in settled.discarded_hunks]
    lines += [f"{word}: hunk {', '.join(map(str, hunks))} of {shown_path(path)}" for word, hunks, path in parts]
    lines = lines or ["nothing was waiting"]
    if protected:
        lines.append(f"protected, and never written: {_first_paths(protected)}")
    return "\n".join((*([f"{run}:"] if run else []), *lines))


def _first_paths(paths: Sequence[str]) -> str:
    left = len(paths) - _MOST_PATHS
    return ", ".join(map(shown_path, paths[:_MOST_PATHS])) + (f" and {left:,} more" if left > 0 else "")


def export(asked: Asked) -> None:
    """Write a notebook of the kagura kernel as a plain Python one."""
    from kagura_kernel.jupyter.export import export_notebook

    written = export_notebook(asked["notebook"], asked["output"], force=asked["force"])
    tell(f"{written} was written.")
