"""A notebook as an agent is shown it: its cells, its last error, and the names of its variables."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from kagura_kernel.domain.late_dataclass import dataclass

ContextMode = Literal["none", "names", "cells", "all"]
"""How much of the notebook a run is shown: nothing; names and the last error; the cells above as well; those below too.
"""

CONTEXT_MODES: tuple[ContextMode, ...] = ("none", "names", "cells", "all")

LONGEST = 50_000
"""Characters of an output that are kept; one that has so many was cut."""

LEAST_TOKENS, MOST_TOKENS = 200, 100_000
"""Between these is how much a run may be shown."""

PRIVATE = "private"
"""The tag of a cell that no agent is ever shown."""

_CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def is_cell_id(text: str) -> bool:
    """Whether it is an id as cells have them; a file may hold anything in its place, lines of its own among them."""
    return _CELL_ID.fullmatch(text) is not None


_SAYS_PRIVATE = re.compile(r"\s*#\s*private\b", re.IGNORECASE)


def says_private(source: str) -> bool:
    """Whether a cell says by its first line that it is private, where nobody knows of tags: `# private`."""
    return _SAYS_PRIVATE.match(source) is not None


NotebookSource = Literal["live", "file", "kernel"]
"""Where it was read: what the front end shows now, the file as it was saved, or what the kernel has run itself."""


class CellImage(NamedTuple):
    """An image in a cell, unread: whoever shows it reads it first, see `read_image`."""

    name: str
    data: str  # Base64


@dataclass(frozen=True, slots=True)
class NotebookCell:
    """One cell."""

    id: str
    kind: Literal["code", "markdown", "raw"] = "code"
    source: str = ""
    count: int | None = None  # Its execution count; None where it has not run
    output: str = ""  # What it showed, as text
    error: str = ""  # The error it ended with and the person's own lines on the way there; empty for none
    pasted: tuple[CellImage, ...] = ()  # Images in its Markdown
    drawn: tuple[CellImage, ...] = ()  # Images that it showed
    whole: bool = True  # Whether this is all of its source; of a very long one it is the beginning

    @property
    def digest(self) -> str:
        """Tells whether it is the same as it was."""
        said = f"{self.kind}\0{self.source}\0{self.output}\0{self.error}"
        said += "".join(f"\0{image.name}\0{image.data}" for image in (*self.pasted, *self.drawn))
        return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class NamedValue:
    """A variable of the person's, without its value."""

    name: str
    about: str  # Its type, and where that is cheap to tell its size and columns: `DataFrame, 90 × 3: day, city, sales`


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook when a cell of it asked for a run. Cells that are private are not in it."""

    name: str  # Of its file; empty where nobody knows
    source: NotebookSource
    cells: tuple[NotebookCell, ...] = ()  # In their order; in that of their runs where the kernel alone knows them
    asking: str = ""  # The id of the cell that asked; empty where nobody knows
    names: tuple[NamedValue, ...] = ()
    private: int = 0  # How many cells were left out because they are private


class ContextTerms(NamedTuple):
    """What a run is shown of it."""

    mode: ContextMode = "none"
    tokens: int = 4000  # At most
    # What its conversation knows already, cells' ids and digests; None where it begins
    earlier: Mapping[str, str] | None = None


TOP = "^"
"""Stands for the id of the cell above where there is none."""


class CellEdit(NamedTuple):
    """A change of one cell, to be made in its notebook."""

    action: Literal["insert", "edit", "delete"]
    cell: str  # Its id, also of one that is new
    kind: str = "code"
    source: str = ""  # Afterwards
    # What it may say now: as it was when the change was proposed, or as the same run has changed it since
    was: tuple[str, ...] = ()
    above: str = ""  # The cell that it stands below afterwards, or `TOP`; empty where it stays
    # Where that one is itself proposed and not there yet: what it would stand below, and so on
    near: tuple[str, ...] = ()


class SourceCell(NamedTuple):
    """A cell without what it has shown."""

    id: str
    kind: str
    source: str
    whole: bool = True  # Whether that is all of its source


def edits_between(
    before: Mapping[str, SourceCell], after: Sequence[SourceCell], moved: Container[str]
) -> list[CellEdit]:
    """What makes cells as they are afterwards of those before, in their order; cells that are gone come last."""
    found = []
    for at, cell in enumerate(after):
        old, above = before.get(cell.id), after[at - 1].id if at else TOP
        if old is None:
            found.append(CellEdit("insert", cell.id, cell.kind, cell.source, (), above))
        elif cell != old or cell.id in moved:
            place = above if cell.id in moved else ""
            found.append(CellEdit("edit", cell.id, cell.kind, cell.source, (old.source,), place))
    there = {cell.id for cell in after}
    gone = [cell for ident, cell in before.items() if ident not in there]
    return [*found, *(CellEdit("delete", cell.id, cell.kind, "", (cell.source,)) for cell in gone)]


WriteCells = Callable[[str, Sequence[CellEdit]], "Mapping[str, str] | None"]
"""Changes cells of a notebook, named by its path: those that were not changed, each with the reason.

What has been done already is not done twice. None where this notebook cannot be reached this way; raises
`NotebookUnwritable` where nobody knows whether it was changed. Blocks; never on the engine's thread.
"""


class CellRan(NamedTuple):
    """What a cell showed that was run for an agent."""

    text: str  # Streams, results and the error, as text
    images: tuple[CellImage, ...] = ()
    failed: bool = False


class RunsCells(Protocol):
    """The kernel of the person who asked. Whoever calls `run` has their word for this source."""

    def why_not(self, source: str) -> str:
        """Why a source cannot be run for somebody else, as half a sentence; empty where it can."""
        ...

    async def run(self, source: str, cell: str) -> CellRan:
        """Run it, once the kernel has time; a call that is cancelled interrupts what runs."""
        ...


def cell_path(notebook: str, cell: str) -> str:
    """What names a cell among a run's changes."""
    return f"{notebook}#{cell}"


def split_cell_path(path: str) -> tuple[str, str]:
    """The notebook and the cell's id."""
    notebook, _, cell = path.rpartition("#")
    return notebook, cell
