"""What a run's brain is shown of the notebook that asked for it: recorded with its hash before the brain sees it."""

from __future__ import annotations

import asyncio

from kagura_kernel.domain.events import NotebookShown
from kagura_kernel.runs.context import RunContext
from kagura_kernel.tools.notebook import ReadNotebook, seen
from kagura_kernel.tools.toolbox import Tool


async def show_notebook(context: RunContext) -> str:
    """What stands before the task, without secrets; empty where nothing is shown.

    Raises:
        JournalUnwritable: it could not be recorded, and is not shown.
        RedactionUnavailable: secrets cannot be looked for.
    """
    notebook, terms = context.order.request.notebook, context.order.context
    if notebook is None or terms.mode == "none":
        return ""
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
    return told.text


def notebook_tools(context: RunContext) -> list[Tool]:
    """The tool that reads more of it, where cells may be shown."""
    notebook, mode = context.order.request.notebook, context.order.context.mode
    return [ReadNotebook(notebook, context.shown)] if notebook is not None and mode in ("cells", "all") else []
