"""What it costs to show a run its notebook: a long one, as text and without secrets."""

from __future__ import annotations

from time import process_time

from kagura_kernel.domain.notebook import NamedValue, Notebook, NotebookCell
from kagura_kernel.kit.redaction.redactor import Redactor
from kagura_kernel.tools.notebook import seen
from tests.bench.harness import Bench, Bound, Line, interleaved, milliseconds

CELLS = 200
TOKENS = 4000
SOURCE = "by_city = sales.groupby('city')['amount'].sum().reset_index()\n" * 12
OUTPUT = "0  Oslo  120.5\n" * 30


async def notebook_shown(bench: Bench) -> list[Line]:
    """The CPU of making what a brain is shown of 200 cells, redacted."""
    redactor = Redactor(bench.folder)
    redactor.wait()
    cells = (NotebookCell(f"c{at}", source=f"n = {at}\n{SOURCE}", count=at, output=OUTPUT) for at in range(CELLS))
    names = tuple(NamedValue(f"frame_{at}", "DataFrame, 100 × 3: city, day, amount") for at in range(60))
    notebook = Notebook("analysis.ipynb", "live", (*cells, NotebookCell("here")), "here", names)

    async def show() -> float:
        began = process_time()
        seen(notebook, "cells", TOKENS, lambda text: redactor.redact(text).text)
        return process_time() - began

    figures = await interleaved(bench.samples, show=show)
    what = f"notebook of {CELLS} cells made into what a brain is shown, CPU"
    ms = milliseconds(figures["show"])
    return [Line(what, figure=ms, bound=Bound("≤ 50 ms", 50), samples=bench.samples)]
