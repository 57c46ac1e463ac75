"""The cell that a person sent, told apart from code that libraries and front ends run in the same kernel.

Only the former may become a prompt, which costs money. Probes of a front end are silent or leave no history; code that
runs code (`run_cell`, `%autoreload`, a macro) hands over another text than the one that was sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from kagura_kernel.domain.errors import UnknownName
from kagura_kernel.jupyter.dialect import Form, plain, read
from kagura_kernel.jupyter.errors import calm

_sent: ContextVar[str | None] = ContextVar("kagura_cell_sent", default=None)

AS_PROMPT = "To send a prompt that begins with a slash, put a backslash before it: `\\/…`."


@contextmanager
def sent(code: str, *, by_person: bool) -> Iterator[None]:
    """While the request is carried out, know its text; of one that no person sent, nothing."""
    token = _sent.set(code if by_person else None)
    try:
        yield
    finally:
        _sent.reset(token)


def done() -> None:
    """The sent cell has run: whatever runs its text again, as a hook may, is no person.

    A callback of IPython's, the first of all that are called after a cell.
    """
    _sent.set(None)


def translate(lines: Sequence[str]) -> list[str]:
    """An input transformer: the sent cell as a Python kernel would have it, and every other text as it came.

    Raises:
        KaguraError: the cell is refused; nothing of it runs.
    """
    cell = "".join(lines)
    code = _sent.get()
    if code is None or cell.rstrip("\n") != code.rstrip("\n"):
        return list(lines)
    with calm():
        _check_commands(cell)
        return plain(cell, to_run=True).splitlines(keepends=True)


translate.has_side_effects = True  # type: ignore[attr-defined]  # where IPython looks for it


def _check_commands(cell: str) -> None:
    """Know every command of the cell before the first of them runs.

    Raises:
        KaguraError: one is unknown, or not used as it should be.
    """
    found = read(cell)
    if found.form is not Form.COMMANDS:
        return
    from kagura_kernel.cockpit.grammar import Surface
    from kagura_kernel.cockpit.lines.parsing import parse_line

    for command in found.commands:
        try:
            parse_line(command, Surface.NOTEBOOK, prefix="/")
        except UnknownName as error:
            error.args = (f"{error.message} {AS_PROMPT}", *error.args[1:])
            raise
