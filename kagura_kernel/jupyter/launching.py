"""From a cell to what it asks for, and how the cell magics are used."""

from __future__ import annotations

from typing import Any

from kagura_kernel.cockpit.lines.helping import cell_help, usage_lines
from kagura_kernel.cockpit.lines.parsing import HELP_FLAGS, cell_magic, parse_cell_line
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.jupyter.surface import Surface, place_of
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.views.run import INSIDE_MAGIC


def wants_help(line: str) -> bool:
    """Whether a cell's first line asks how the magic is used."""
    return not (HELP_FLAGS | {"?"}).isdisjoint(line.split())


def short_usage(magic: str) -> str:
    """The usage of `kagura` or `sandbox` in a few lines."""
    return usage_lines(cell_magic(magic))


def help_text(magic: str) -> str:
    """The usage of `kagura` or `sandbox` with a line for each option, and examples."""
    return cell_help(cell_magic(magic))


def parse_options(magic: str, line: str) -> RunRequest:
    """What the first line of a cell says, without a task.

    Raises:
        UsageError: unknown or badly formed options; the text ends with the usage.
    """
    values = parse_cell_line(cell_magic(magic), line)
    return RunRequest.of(values, language=values.get("language", ""))


def parse_cell(magic: str, line: str, body: str) -> RunRequest:
    """What a cell asks for, before it is known where it stands.

    Raises:
        UsageError: bad options, or an empty cell.
    """
    request = parse_options(magic, line)
    if not body.strip() and request.resume is None:
        what = "program" if request.language else "task"
        raise UsageError(f"%%{magic}: the cell is empty; the {what} goes into the lines below.\n{short_usage(magic)}")
    return request._replace(task=body if request.language else body.strip())


def from_cell(request: RunRequest, surface: Surface, *, shell: Any = None) -> RunRequest:
    """The request with where it comes from; with a shell, its variables and its place go along.

    Raises:
        VariableError: a variable is not there, or cannot cross.
    """
    origins = {Surface.TERMINAL: "terminal", Surface.CONSOLE: "terminal", Surface.INSIDE: INSIDE_MAGIC}
    request = request._replace(
        headless=surface in {Surface.HEADLESS, Surface.INSIDE}, origin=origins.get(surface, "notebook")
    )
    if shell is None:
        return request._replace(outputs=())
    request = request._replace(place=place_of(shell))
    if request.expressions or request.outputs:
        from kagura_kernel.jupyter.variables import inputs_of

        request = request._replace(inputs=inputs_of(shell, request))
    return request
