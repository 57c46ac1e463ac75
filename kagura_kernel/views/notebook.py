"""What a run's brain was shown of the notebook, as a line that opens to the very text."""

from __future__ import annotations

from kagura_kernel.domain.events import NotebookShown
from kagura_kernel.render.blocks import Blocks, Fold, Group, Line, Pre, soft, strong
from kagura_kernel.render.figures import counted

_SOURCES = {
    "live": "the notebook as it is on screen",
    "file": "the notebook’s file, as it was saved last",
    "kernel": "what this kernel has run",
}


def notebook_blocks(shown: NotebookShown | None) -> Blocks:
    """`Sees 6 cells, 1 error, 12 names`; nothing where the run was shown nothing of a notebook."""
    if shown is None:
        return ()
    words = sees(shown)
    plain = f"~ sees {words}"
    more = "`--context none` shows nothing; a cell with the tag `private` is never shown."
    line = (strong("Sees"), words, soft(f"— {_SOURCES[shown.source]}"))
    if not shown.text:
        return (Group((Line(line, plain=plain),), "kit", "Notebook"),)
    inside = (Line((soft(more),), plain=""), Pre(shown.text))
    return (Group((Fold(line, inside, "notebook", plain=plain),), "kit", "Notebook"),)


def sees(shown: NotebookShown) -> str:
    """What it was shown, counted."""
    parts = [
        counted(shown.cells, "cell") if shown.cells else "",
        counted(shown.errors, "error") if shown.errors else "",
        counted(shown.names, "name") if shown.names else "",
        f"{shown.unchanged:,} unchanged" if shown.unchanged else "",
        f"{shown.left_out:,} without room" if shown.left_out else "",
        f"{shown.private:,} private left out" if shown.private else "",
    ]
    return ", ".join(filter(None, parts)) or "nothing of the notebook"
