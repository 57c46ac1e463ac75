"""Tools that propose changes to the cells of the person's notebook, and one that runs a cell; a person decides.

The run works on a draft of its own. What differs between the draft and the notebook as it was is what is proposed, a
change for each cell: a cell that is edited twice is one change, and one that is taken back is none. Nothing of it runs
but by `run_cell`, in the person's own kernel, each time with their word for exactly this source.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.notebook import TOP, CellEdit, Notebook, RunsCells, SourceCell, edits_between
from kagura_kernel.domain.tools import ShowImage, ToolResult, ToolSpec, failed
from kagura_kernel.membrane.cells import has_new_mark
from kagura_kernel.runtime.router import Asker, require_allowed
from kagura_kernel.tools import schema
from kagura_kernel.tools.fences import TEXT_LENGTH
from kagura_kernel.tools.notebook import Redact, cut_text, look_at
from kagura_kernel.tools.toolbox import CallContext

LONGEST_SOURCE = 200_000
MOST_CHANGES = 500

CellKind = Literal["code", "markdown", "raw"]


class Draft:
    """A notebook as the run would have it."""

    def __init__(self, notebook: Notebook) -> None:
        cells = [SourceCell(cell.id, cell.kind, cell.source, cell.whole) for cell in notebook.cells]
        self._before = {cell.id: cell for cell in cells}
        self._cells = cells
        self._moved: set[str] = set()

    def find(self, ident: str) -> SourceCell | None:
        """A cell by its id."""
        return next((cell for cell in self._cells if cell.id == ident), None)

    def insert(self, kind: CellKind, source: str, above: str) -> str:
        """A new cell below this one, or at the top; its id."""
        fresh = SourceCell(f"kagura-{secrets.token_hex(4)}", kind, source)
        self._cells.insert(self._below(above), fresh)
        return fresh.id

    def edit(self, ident: str, source: str) -> None:
        """Give a cell another source."""
        self._cells = [cell._replace(source=source) if cell.id == ident else cell for cell in self._cells]

    def delete(self, ident: str) -> None:
        """Take a cell out."""
        self._cells = [cell for cell in self._cells if cell.id != ident]

    def move(self, ident: str, above: str) -> None:
        """Put a cell below another one, or to the top."""
        cell = next(cell for cell in self._cells if cell.id == ident)
        self.delete(ident)
        self._cells.insert(self._below(above), cell)
        self._moved.add(ident)

    def edits(self) -> list[CellEdit]:
        """What differs from the notebook as it was, in the draft's order; cells that are gone come last."""
        return edits_between(self._before, self._cells, self._moved)

    def _below(self, above: str) -> int:
        return next((at + 1 for at, cell in enumerate(self._cells) if cell.id == above), 0)


Propose = Callable[[], Awaitable[str]]
"""Tells the person of what the draft has changed by now: a sentence for the brain about what becomes of it."""

_WAITS = "A person decides about it; nothing of it is run."


class CellTool:
    """One way to change the draft.

    Args:
        name: `insert_cell`, `edit_cell`, `delete_cell` or `move_cell`.
        draft: What is changed.
        propose: Tells of it.
        scrub: Takes the run's own credentials out of a text.
    """

    def __init__(self, name: str, draft: Draft, propose: Propose, scrub: Callable[[str], str] = str) -> None:
        self._name = name
        self._draft = draft
        self._propose = propose
        self._scrub = scrub

    @property
    def spec(self) -> ToolSpec:
        """Name, description and schema."""
        what, required, fields = _SPECS[self._name]
        return ToolSpec(self._name, f"{what} {_WAITS}", schema.arguments(*required, **fields))

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:  # noqa: ARG002 - a tool's shape
        """Change the draft and propose it."""
        source = str(arguments.get("source", ""))
        above = str(arguments.get("below", ""))
        unknown = [
            one for one in (arguments.get("cell", ""), above) if one not in ("", TOP) and not self._draft.find(one)
        ]
        if unknown:
            return failed(f"There is no cell {unknown[0]!r}; read_notebook lists the cells.")
        if why := self._why_not(self._draft.find(str(arguments.get("cell", ""))), source):
            return failed(why)
        if len(source) > LONGEST_SOURCE:
            return failed(f"A cell may have {LONGEST_SOURCE:,} characters, not {len(source):,}.")
        if above and above == arguments.get("cell"):
            return failed("A cell cannot stand below itself.")
        if self._name == "insert_cell" and len(self._draft.edits()) >= MOST_CHANGES:
            return failed(f"A run may change {MOST_CHANGES} cells.")
        ident = self._change(arguments, source, above)
        return ToolResult(f"{ident}: {await self._propose()}", route="")

    def _why_not(self, cell: SourceCell | None, source: str) -> str:
        """Why a cell cannot become this; a mark in a source would take the place of what only its person has."""
        was = cell.source if cell is not None else ""
        if cell is not None and not cell.whole:
            return "That cell is so long that nobody here knows all of it: leave it as it is."
        if has_new_mark(was, source):
            return (
                "That source holds a mark in the place of a secret, or of what you were not shown, which would be "
                "lost: leave that cell as it is, and put what you add into another one, without the mark."
            )
        if self._scrub(source) != source:
            return "That source holds a credential of this run, and none is written into a notebook."
        return ""

    def _change(self, arguments: Mapping[str, Any], source: str, above: str) -> str:
        match self._name:
            case "insert_cell":
                return self._draft.insert(arguments.get("kind", "code"), source, above)
            case "edit_cell":
                self._draft.edit(arguments["cell"], source)
            case "delete_cell":
                self._draft.delete(arguments["cell"])
            case _:
                self._draft.move(arguments["cell"], above)
        return str(arguments["cell"])


def cell_tools(draft: Draft, propose: Propose, scrub: Callable[[str], str] = str) -> Sequence[CellTool]:
    """All of them."""
    return [CellTool(name, draft, propose, scrub) for name in _SPECS]


_CELL = schema.text("The cell's id.")
_SOURCE = schema.text("The whole source of the cell.", empty=True)
_BELOW = schema.text(f"The id of the cell that it stands below, `{TOP}` for the top of the notebook.")
_KIND = {"type": "string", "enum": ["code", "markdown", "raw"], "description": "What it is; code when left out."}
_SPECS: Mapping[str, tuple[str, tuple[str, ...], dict[str, dict[str, Any]]]] = {
    "insert_cell": (
        "Propose a new cell in the person's notebook.",
        ("source", "below"),
        {"source": _SOURCE, "below": _BELOW, "kind": _KIND},
    ),
    "edit_cell": (
        "Propose another source for a cell of the person's notebook; to mend a cell, edit it instead of adding one.",
        ("cell", "source"),
        {"cell": _CELL, "source": _SOURCE},
    ),
    "delete_cell": ("Propose to delete a cell of the person's notebook.", ("cell",), {"cell": _CELL}),
    "move_cell": (
        "Propose another place for a cell of the person's notebook.",
        ("cell", "below"),
        {"cell": _CELL, "below": _BELOW},
    ),
}


class RunCellTool:
    """`run_cell`: asks every time, and nothing that was allowed before is an answer.

    Args:
        draft: The notebook as the run would have it.
        notebook: What the person calls it.
        kernel: Runs it.
        asker: Puts the question.
        look: Shows what was drawn to the person, and to the model.
        redact: Takes secrets out of a text.
    """

    spec = ToolSpec(
        "run_cell",
        "Run a code cell of the notebook, as it is with your changes, in the person's own kernel: their variables are "
        "there, and nothing holds it back. A person sees the whole source each time and may refuse. To try code, give "
        "it to python instead, which runs in the sandbox and asks nobody.",
        schema.arguments(
            "cell",
            cell=schema.text("The cell's id."),
            reason=schema.text("Why it has to run there; shown to the person.", empty=True),
        ),
    )

    def __init__(
        self, draft: Draft, notebook: str, kernel: RunsCells, asker: Asker, look: ShowImage, redact: Redact
    ) -> None:
        self._draft = draft
        self._notebook = notebook
        self._kernel = kernel
        self._asker = asker
        self._look = look
        self._redact = redact

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Ask, run it, and tell what it showed."""
        cell = self._draft.find(arguments["cell"])
        if cell is None or cell.kind != "code":
            return failed("There is no code cell of this id; read_notebook lists the cells.")
        if why := self._kernel.why_not(cell.source) if cell.whole else "nobody here knows all of it, so long is it":
            return failed(f"{cell.id} cannot be run by you: {why}.")
        decision = await self._asker.ask(
            ApprovalKind.HOST_COMMAND,
            f"Run a cell of {self._notebook} in your kernel",
            cell.source,
            subject="The cell",
            reason=arguments.get("reason", ""),
            arguments={"cell": cell.id, "notebook": self._notebook},
            call_id=context.call_id,
        )
        require_allowed(decision, "The cell")
        ran = await self._kernel.run(cell.source, cell.id)
        images, remarks = await look_at(ran.images, context.call_id, self._look)
        text = await asyncio.to_thread(cut_text, self._redact, ran.text, TEXT_LENGTH) or "(it showed nothing)"
        return ToolResult("\n".join((text, *remarks)), is_error=ran.failed, route="host", images=images)
