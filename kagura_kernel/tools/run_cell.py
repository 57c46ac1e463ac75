"""The tool that runs a cell in the person's own kernel, each time with the person's word for exactly this source."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.notebook import RunsCells
from kagura_kernel.domain.tools import ShowImage, ToolResult, ToolSpec
from kagura_kernel.runtime.router import Asker, require_allowed
from kagura_kernel.tools import schema
from kagura_kernel.tools.cells import Draft
from kagura_kernel.tools.fences import TEXT_BYTES
from kagura_kernel.tools.notebook import Redact, cut_text, look_at
from kagura_kernel.tools.toolbox import CallContext


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
            why = "There is no code cell of this id; read_notebook lists the cells."
            return ToolResult(why, is_error=True, route="")
        if why := self._kernel.why_not(cell.source) if cell.whole else "nobody here knows all of it, so long is it":
            return ToolResult(f"{cell.id} cannot be run by you: {why}.", is_error=True, route="")
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
        text = await asyncio.to_thread(cut_text, self._redact, ran.text, TEXT_BYTES) or "(it showed nothing)"
        return ToolResult("\n".join((text, *remarks)), is_error=ran.failed, route="host", images=images)
