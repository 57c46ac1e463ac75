"""What a run's brain is shown of the notebook that asked for it: recorded with its hash before the brain sees it."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from kagura_kernel.domain.errors import NotebookUnwritable
from kagura_kernel.domain.events import NotebookShown, ResultShown
from kagura_kernel.domain.images import MOST_TOKENS, Image, NoImageError
from kagura_kernel.domain.notebook import CellEdit, CellImage, split_cell_path
from kagura_kernel.domain.outcome import ChangeState, ChangeStatus, FileChange
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.domain.tools import ShowImage
from kagura_kernel.membrane.cells import cell_change, cell_edits, kept, notebook_name
from kagura_kernel.runs.context import RunContext
from kagura_kernel.runs.images import WITH_THE_TASK
from kagura_kernel.runs.order import RunOrder
from kagura_kernel.runtime.router import Asker
from kagura_kernel.tools.cells import Draft, RunCellTool, cell_tools
from kagura_kernel.tools.notebook import ReadNotebook, read_cell_image, seen
from kagura_kernel.tools.toolbox import Tool


async def show_notebook(context: RunContext, show: ShowImage | None) -> tuple[str, list[Image]]:
    """What stands before the task, without secrets, and images pasted into cells; nothing where nothing is shown.

    Args:
        context: The run.
        show: Shows an image to the model; None for one that takes none.

    Raises:
        JournalUnwritable: it could not be recorded, and is not shown.
        RedactionUnavailable: secrets cannot be looked for.
    """
    notebook, terms = context.order.request.notebook, context.order.context
    if notebook is None or terms.mode == "none":
        return "", []
    await context.redacting.ready()
    # Redacting takes a while, and other runs share this loop.
    told = await asyncio.to_thread(seen, notebook, terms.mode, terms.tokens, context.shown, terms.earlier)
    context.recorder.record(
        NotebookShown,
        source=notebook.source,
        text=told.text,
        sha256=told.sha256,
        known=dict(told.known),
        cells=told.cells,
        unchanged=told.unchanged,
        left_out=told.left_out,
        private=notebook.private,
        errors=told.errors,
        names=told.names,
    )
    return told.text, [] if show is None else await _shown(told.pasted, terms.tokens, show)


async def _shown(pasted: Sequence[CellImage], tokens: int, show: ShowImage) -> list[Image]:
    """Images of the nearest cells, in about so many tokens; the first of them in any case."""
    shown: list[Image] = []
    for one in reversed(pasted):
        # One that cannot be shown is named in its cell all the same, and `read_notebook` says why.
        with suppress(NoImageError):
            image = read_cell_image(one)
            tokens -= min(image.tokens, MOST_TOKENS)
            if shown and tokens < 0:
                break
            shown.insert(0, await show(WITH_THE_TASK, image))
    return shown


def notebook_tools(context: RunContext, asker: Asker, show: ShowImage | None) -> list[Tool]:
    """What reads more of it, proposes other cells and runs one where cells may be shown."""
    notebook, mode = context.order.request.notebook, context.order.context.mode
    if notebook is None or mode not in ("cells", "all"):
        return []
    draft = Draft(notebook)
    tools: list[Tool] = [ReadNotebook(notebook, context.shown, show, draft.edits)]
    if notebook.name and context.order.place.notebook:
        tools += cell_tools(draft, CellProposals(context, draft).tell, context.membrane.scrubber.scrub)
        if (kernel := context.order.request.runs_cells) is not None:
            tools.append(RunCellTool(draft, notebook.name, kernel, asker, _look(context, show), context.shown))
    return tools


def _look(context: RunContext, show: ShowImage | None) -> ShowImage:
    """Shows an image to the person, and to a model that takes images."""

    async def look(call_id: str, image: Image) -> Image:
        data = b64encode(image.data).decode()
        context.recorder.record(ResultShown, call_id=call_id, mime=image.mime, data=data, bytes=len(image.data))
        if show is None:
            raise NoImageError("this model takes no images, and the person sees it")
        return await show(call_id, image)

    return look


class CellProposals:
    """What a run would change in its notebook, told as its other changes are.

    With `ask` it waits for a person, with `through` it is made at once, with `none` it is only told.
    """

    def __init__(self, context: RunContext, draft: Draft) -> None:
        order = context.order
        self._context = context
        self._draft = draft
        self._notebook = notebook_name(order.place.notebook, order.project)
        self._order = asyncio.Lock()

    async def tell(self) -> str:
        """Record what differs now from what was told; a sentence for the brain."""
        async with self._order:
            mode = self._context.changes.mode
            edits = [self._scrubbed(edit) for edit in self._draft.edits()]
            state: ChangeState = "discarded" if mode is WriteMode.NONE else "proposed"
            drafted = [(replace(cell_change(self._notebook, edit), state=state), edit) for edit in edits]
            told = self._context.changes.cells
            applied = {path: [one.new_sha256] for path, one in told.items() if one.state == "applied"}
            blobs = self._context.parts.blobs
            fresh = [await kept(*one, blobs) for one in drafted if not _is_told(told.get(one[0].path), one[0])]
            gone = [one for path, one in told.items() if path not in {change.path for change, _ in drafted}]
            if mode is WriteMode.THROUGH:
                return await self._write(fresh, gone, applied)
            self._context.changes.propose(fresh, withdrawn=[one.path for one in gone])
            if not fresh:
                return "nothing new is proposed by that: what you had proposed of it is taken back, or stays as it was."
            return "proposed." if mode is WriteMode.ASK else "noted; this run changes nothing."

    def _scrubbed(self, edit: CellEdit) -> CellEdit:
        # What the person has written stays as it is, wherever it is moved.
        is_theirs = edit.source in edit.was
        return edit if is_theirs else edit._replace(source=self._context.membrane.scrubber.scrub(edit.source))

    async def _write(
        self, fresh: Sequence[FileChange], gone: Sequence[FileChange], applied: Mapping[str, Sequence[str]]
    ) -> str:
        """Make changes at once, and take back those that are withdrawn."""
        changes, blobs = self._context.changes, self._context.parts.blobs
        undone = [_undone(one) for one in gone if one.state == "applied"]
        changes.propose(fresh, withdrawn=[one.path for one in gone if one.state != "applied"])
        if not fresh and not undone:
            return "nothing of it is new."
        edits = await asyncio.to_thread(cell_edits, [*fresh, *undone], blobs, applied, [*changes.cells.values()])
        try:
            refused = await asyncio.to_thread(self._reached, edits)
        except NotebookUnwritable as error:
            return f"proposed; it waits for a person, since {error.why}."
        if refused is None:
            return "proposed; the notebook could not be reached, so it waits for a person."
        left = {path for one in undone if split_cell_path(path := one.path)[1] in refused}
        if fresh:
            changes.cells_settled(fresh, refused)
        changes.propose((), withdrawn=[one.path for one in undone if one.path not in left])
        why = "; ".join(sorted(set(refused.values())))
        return f"not in the notebook as you would have it: {why}." if refused else "in the notebook now, and not run."

    def _reached(self, edits: Sequence[CellEdit]) -> Mapping[str, str] | None:
        """Have cells changed on screen: those that were not, or None where nobody shows the notebook."""
        write = self._context.order.request.write_cells
        return write(self._context.order.place.notebook, edits) if write is not None else None


def _undone(change: FileChange) -> FileChange:
    """What takes an applied change of a cell back: a new one out, an edited one to what it was."""
    status: ChangeStatus = "deleted" if change.status == "added" else "modified"
    return replace(change, status=status, old_sha256=change.new_sha256, new_sha256=change.old_sha256, target="")


def _is_told(told: FileChange | None, now: FileChange) -> bool:
    if told is None or told.state not in (now.state, "applied"):
        return False
    return (told.new_sha256, told.target, told.status) == (now.new_sha256, now.target, now.status)


def count_of(order: RunOrder) -> int | None:
    """The execution count of the cell whose conversation a run goes on with; None where nobody knows."""
    notebook, cell = order.request.notebook, order.follows.cell_id
    cells = notebook.cells if notebook is not None and order.resume else ()
    return next((one.count for one in cells if one.id == cell), None)
