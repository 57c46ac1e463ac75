"""What notebooks are called now: a run keeps the name of its time, and a notebook may be given another one since.

A name alone says too little: `Untitled.ipynb` is another notebook once the first one is called `sales.ipynb`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import ColumnElement, or_, select

from kagura_kernel.journal.encoding import as_text
from kagura_kernel.journal.schema import runs

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal


class Move(NamedTuple):
    """A notebook or a folder of them that got another name."""

    was: str
    now: str  # Empty where it was deleted
    kernels: tuple[str, ...]  # The ids of those that went with it
    seq: int = 0  # The row that says so


def moves(journal: Journal) -> list[Move]:
    """What was renamed, moved and deleted, the oldest first; raises `JournalUnreadable`."""
    found = journal.events(run_id="", kinds=("notebook.moved",))
    if not found:
        return []
    from kagura_kernel.domain.events import NotebookMoved

    told = ((row.seq, row.event) for row in found if isinstance(row.event, NotebookMoved))
    return [Move(event.was, event.now, event.kernels, seq) for seq, event in told if event.was]


def record_move(journal: Journal, move: Move) -> None:
    """Write a move down if it concerns anybody: runs of that notebook, or a kernel that has its name.

    Raises:
        JournalError: the journal cannot be read or written.
    """
    if not (move.now and move.kernels) and not _concerns_runs(journal, move.was):
        return
    from kagura_kernel.domain.events import NotebookMoved

    at = journal.clock.now()
    told = NotebookMoved(run_id="", session_id="", at=at, was=move.was, now=move.now, kernels=move.kernels)
    journal.append(told)


def _concerns_runs(journal: Journal, name: str) -> bool:
    """Whether there may be runs of a notebook of this name, or below a folder of this name."""
    below = runs.c.notebook.startswith(f"{as_text(name)}/", autoescape=True)
    ours = select(runs.c.run_id).where((runs.c.notebook == as_text(name)) | below).limit(1)
    earlier = (_below(name, move.now) or _below(move.now, name) for move in moves(journal))
    return bool(journal.read(ours)) or any(rest is not None for rest in earlier)


def called_now(known: Sequence[Move], notebook: str, *, after: int = 0, kernel_id: str = "") -> str:
    """What a notebook is called now; of one that was deleted, what it was called last.

    Args:
        known: All moves.
        notebook: What it was called.
        after: The row up to which it was called that.
        kernel_id: The kernel that was told this name when it started, whichever row that was.
    """
    for move in known:
        rest = _below(notebook, move.was)
        if rest is not None and move.now and (kernel_id in move.kernels if kernel_id else move.seq > after):
            notebook = move.now + rest
    return notebook


def of_notebook(journal: Journal, notebook: str) -> ColumnElement[bool]:
    """Which runs are a notebook's, by whatever names it had; raises `JournalUnreadable`."""
    name, until, fits = notebook, None, []
    for move in reversed(moves(journal)):
        came, left = _below(name, move.now), _below(name, move.was)
        if came is None and left is None:
            continue
        fits.append(_called(name, move.seq, until))
        if came is None:
            # What had the name before was another notebook.
            return or_(*fits)
        name, until = move.was + came, move.seq
    return or_(*fits, _called(name, 0, until))


def _called(name: str, after: int, until: int | None) -> ColumnElement[bool]:
    fits = (runs.c.notebook == as_text(name)) & (runs.c.first_seq > after)
    return fits if until is None else fits & (runs.c.first_seq < until)


def _below(name: str, folder: str) -> str | None:
    """What a name has beyond this one, which is itself or a folder above it; None where it is neither."""
    if not folder or not (name == folder or name.startswith(f"{folder}/")):
        return None
    return name[len(folder) :]
