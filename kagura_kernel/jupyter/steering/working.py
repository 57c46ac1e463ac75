"""Commands about one run and its files: to see it, to settle what it changed, and to take a notebook elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.naming import named_run, told_run
from kagura_kernel.jupyter.steering.asked import Asked, say
from kagura_kernel.jupyter.surface import Surface, person, surface_of

if TYPE_CHECKING:
    from kagura_kernel.domain.events import ChangesSettled


def attach(asked: Asked) -> Any:
    """Show a run, whichever notebook began it."""
    from kagura_kernel.jupyter.attaching import attach as show

    return show(asked.cockpit, asked.shell, named_run(asked.cockpit.journal, asked["run"], asked.here))


def changes(asked: Asked) -> None:
    """Show what a run would change, as the card that settles it."""
    from kagura_kernel.jupyter.change_card import as_rows, show_changes

    run_id = named_run(asked.cockpit.journal, asked["run"], asked.here)
    found = as_rows(asked.cockpit.changes(run_id))
    run = told_run(asked.cockpit.journal, run_id)
    if not found:
        say(f"{run} changed no files.")
        return
    surface = surface_of(asked.shell)
    # What differs every time is no output where nobody looks and the next execution is compared with this one.
    if surface is not Surface.HEADLESS:
        say(f"{run}:")
    show_changes(asked.cockpit, run_id, found, surface)


def apply(asked: Asked) -> None:
    """Bring a run's changes into the project."""
    _settle(asked, apply=True)


def discard(asked: Asked) -> None:
    """Give a run's changes up."""
    _settle(asked, apply=False)


def _settle(asked: Asked, *, apply: bool) -> None:
    from kagura_kernel.jupyter.change_card import refresh_changes

    cockpit = asked.cockpit
    run_id = named_run(cockpit.journal, asked["run"], asked.here)
    paths = list(asked["paths"]) or None
    try:
        settle = cockpit.apply_changes if apply else cockpit.discard_changes
        settled = settle(run_id, paths, by=person())
    finally:
        refresh_changes(cockpit, run_id)
    # What differs every time is no output where nobody looks and the next execution is compared with this one.
    headless = surface_of(asked.shell) is Surface.HEADLESS
    say(told(settled, "" if headless else told_run(cockpit.journal, run_id)))


def told(settled: ChangesSettled, run: str) -> str:
    """What became of a run's changes, a line for each way; the run and its project first, where they are given."""
    from kagura_kernel.render.escape import shown_path

    lines = [
        f"{word}: {', '.join(shown_path(path) for path in paths)}"
        for word, paths in (
            ("applied", settled.applied),
            ("discarded", settled.discarded),
            ("left alone, the project’s file changed meanwhile", settled.conflicts),
        )
        if paths
    ]
    return "\n".join((*([f"{run}:"] if run else []), *(lines or ["nothing was waiting"])))


def export(asked: Asked) -> None:
    """Write a notebook of the kagura kernel as a plain Python one."""
    from kagura_kernel.jupyter.exporting import export_notebook

    written = export_notebook(asked["notebook"], asked["output"], force=asked["force"])
    say(f"{written} was written.")
