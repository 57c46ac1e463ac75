r"""What a cell of the `kagura` kernel is: decided by its structure alone, never by what its words look like.

The first characters that are no space decide, after blank lines and comments that speak to nbval:

=============  =======================================================================================
`%%py`         Python, in the lines below
`%%kagura`,    our cell magics, as in a Python kernel
`%%sandbox`
`%%time` …     another cell magic: IPython's. Of `%%time`, `%%timeit` and `%%capture` the lines below are a
               cell of this kernel again
`%` `!` `?`    IPython's, when all lines of the cell begin so
`/`            commands, one a line
`\/` `\%` …    a prompt that begins with `/`, `%`, `!` or `?`: one backslash is taken away
anything else  a prompt
=============  =======================================================================================

Every cell has an equal in a Python kernel with the extension loaded, and `plain` finds it. The kernel runs this equal,
and an exported notebook holds it, so the two cannot differ. Pure.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from enum import Enum

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.jupyter.surface import loop_runs

CELL_MAGICS = ("kagura", "sandbox")
"""Names of the cell magics that are rewritten."""

ENTRY = "kagura_cell"
"""Attribute of the shell that the rewritten cell calls."""

ENTRY_INSIDE = "kagura_cell_inside"
"""The same for a cell that cannot be awaited, because another magic runs it."""

ENTRY_COMMAND = "kagura_command"
"""The same for a line that waits for a person, or for the page that shows the notebook."""

_AWAITED = re.compile(
    r"(?:plugin[ \t]+(?:enable|audit)|fix|explain|apply|setup|say[ \t](?:.*[ \t])?--instead)(?=[ \t]|$)"
)
_COMMAND = re.compile(r"%kagura[ \t]+(?P<line>.*)")

_FIRST_LINE = re.compile(rf"%%(?P<magic>{'|'.join(CELL_MAGICS)})(?P<line>[ \t].*)?$")

# nbval reads these comments out of a cell; in a prompt or a shell script they would be noise.
_NBVAL_MARKER = re.compile(
    r"\s*#+\s*(NBVAL_IGNORE_OUTPUT|NBVAL_CHECK_OUTPUT|NBVAL_RAISES_EXCEPTION|NBVAL_SKIP|PYTEST_VALIDATE_IGNORE_OUTPUT)\s*$"
)


def rewrite(lines: Sequence[str]) -> list[str]:
    """The lines of a cell (each with its line end), rewritten when the cell is one of ours, otherwise as they came."""
    skipped = 0
    while skipped < len(lines) and (not lines[skipped].strip() or is_marker(lines[skipped])):
        skipped += 1
    if skipped == len(lines):
        return list(lines)
    found = _FIRST_LINE.match(lines[skipped].rstrip("\r\n"))
    if found is None:
        return _commands(lines)
    line = (found["line"] or "").strip()
    body = without_markers("".join(lines[skipped + 1 :]))
    call = f"({found['magic']!r}, {line!r}, {body!r})\n"
    if _inside():
        return [f"get_ipython().{ENTRY_INSIDE}{call}"]
    return [f"await get_ipython().{ENTRY}{call}"]


def _commands(lines: Sequence[str]) -> list[str]:
    """A cell of nothing but our commands, those that wait for a person awaited; any other cell as it came."""
    written = []
    for line in lines:
        text = line.strip()
        command = _COMMAND.fullmatch(text)
        if command is None and text and not text.startswith("#"):
            return list(lines)
        awaited = command is not None and waits(command["line"])
        written.append(f"await get_ipython().{ENTRY_COMMAND}({command['line']!r})\n" if command and awaited else line)
    return list(lines) if _inside() else written


def waits(command: str) -> bool:
    """Whether a command, without its prefix, waits for a person's answer, or for what the front end knows."""
    return _AWAITED.match(command) is not None


# Whoever asks whether a cell is complete sees it as it was typed: a `%%` cell goes on until an empty line.
rewrite.has_side_effects = True  # type: ignore[attr-defined]  # where IPython looks for it


def is_marker(line: str) -> bool:
    """Whether a line is a comment that speaks to nbval."""
    return _NBVAL_MARKER.match(line) is not None


def _inside() -> bool:
    """Whether other code runs this cell, and could not await it: a magic as `%%time`, or `run_cell` below a loop."""
    names = set()
    frame = inspect.currentframe()
    while frame is not None:
        if "IPython" in frame.f_code.co_filename:
            names.add(frame.f_code.co_name)
        frame = frame.f_back
    return "run_cell_magic" in names or ("run_cell" in names and loop_runs())


def without_markers(body: str) -> str:
    """The body without the comment lines that speak to nbval."""
    return "".join(line for line in body.splitlines(keepends=True) if not is_marker(line.rstrip("\r\n")))


COMMANDS = "kagura_commands"
"""Attribute of the shell that runs several commands of one cell."""

COMMANDS_AWAITED = "kagura_commands_awaited"
"""The same where one of them waits for a person."""

ENTRIES = (ENTRY, ENTRY_INSIDE, ENTRY_COMMAND, COMMANDS, COMMANDS_AWAITED)
"""All of them."""

WRAPPERS = frozenset({"capture", "time", "timeit"})
"""Cell magics of IPython that run the cell below them as a cell."""

CELLS = """\
a cell of this kernel
  any text            a prompt in the notebook's session; \\/… \\%… \\!… \\?… begin one with that character
  /WORD …             a command; several lines are several commands
  %%py                Python, in the lines below
  %%kagura [options]  a prompt with options: %%kagura --help
  % %% ! ?            IPython's, as anywhere
"""
"""What `/help` says before it lists the commands."""

PY_ALONE = "%%py stands alone on its line and takes no options. The Python goes into the lines below."

_ESCAPED = re.compile(r"\\+[/%!?]")
# What IPython's formatter acts on, and leaves when it stands twice.
_FILLED_IN = re.compile(r"[{}]|\$(?=[\w.])")
_CELL_MAGIC = re.compile(r"[ \t]*%%(?P<name>\S*)(?P<line>.*)")
_OFTEN = re.compile(r"(?:^|\s)-(?P<option>[nr])\s*\d+")


class Form(Enum):
    """What a cell is."""

    EMPTY = "empty"
    PROMPT = "prompt"
    PYTHON = "python"
    COMMANDS = "commands"
    AGENT = "agent"
    """A `%%kagura` or `%%sandbox` cell."""
    WRAPPED = "wrapped"
    IPYTHON = "ipython"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell, read."""

    form: Form
    before: str = ""  # Blank lines and nbval's comments above everything else
    head: str = ""  # The line of the cell magic, with its line end, where there is one
    text: str = ""  # The prompt, the Python below `%%py`, the cell below another magic, or all the rest
    commands: tuple[str, ...] = ()  # Of `/word` lines, without their slash


def form_of(cell: str) -> Form:
    """What a cell is, while it may still be half written: nothing is refused."""
    return _sort(*_after_markers(cell)).form


def read(cell: str) -> Cell:
    """The cell with its parts.

    Raises:
        UsageError: lines of different kinds in one cell, or a `%%py` line with more on it.
    """
    found = _sort(*_after_markers(cell))
    match found.form:
        case Form.IPYTHON if not found.head:
            _check_lines(found.text, "%!?", "IPython's (`%`, `!`, `?`)", "a prompt or Python")
        case Form.COMMANDS:
            _check_lines(found.text, "/", "a command", "something else")
        case Form.PYTHON if found.head.strip() != "%%py":
            raise UsageError(PY_ALONE)
        case Form.WRAPPED:
            _check_wrapped(found)
        case _:
            pass
    return found


def plain(cell: str, *, to_run: bool = False, inside: bool = False) -> str:
    """The same cell for a Python kernel with the extension loaded.

    Args:
        cell: As it was typed.
        to_run: Not for reading. Every line of Python stays on its number, for tracebacks and breakpoints: a comment
            takes the place of the `%%py` line and of blank lines at the top, which IPython would drop. Commands speak
            of themselves with a slash.
        inside: Whether another magic runs it, which could not await it.

    Raises:
        UsageError: the cell is refused; see `read`.
    """
    found = read(cell)
    match found.form:
        case Form.PROMPT:
            return f"{found.before}%%kagura\n{found.text}"
        case Form.PYTHON:
            return _python(found, to_run=to_run)
        case Form.COMMANDS:
            return found.before + _lines_of(found.commands, to_run=to_run, inside=inside)
        case Form.WRAPPED:
            return found.before + found.head + plain(found.text, to_run=to_run, inside=True)
        case _:
            return cell


def masked(cell: str) -> str:
    """A `%%py` cell as Python of the same length, for whoever looks at positions in it."""
    return cell.replace("%%py", "# py", 1)


def escaped(prompt: str) -> str:
    """The cell whose prompt this text is."""
    text = prompt.lstrip()
    needs = text[:1] in {"/", "%", "!", "?"} or _ESCAPED.match(text) is not None
    return prompt[: len(prompt) - len(text)] + "\\" + text if needs else prompt


def _after_markers(cell: str) -> tuple[str, str]:
    """Blank lines and nbval's comments, and what follows them."""
    lines = cell.split("\n")
    skipped = 0
    while skipped < len(lines) - 1 and (not lines[skipped].strip() or is_marker(lines[skipped])):
        skipped += 1
    before = "".join(f"{line}\n" for line in lines[:skipped])
    return before, cell[len(before) :]


def _sort(before: str, rest: str) -> Cell:
    start = rest.lstrip()
    if not start or ("\n" not in rest and is_marker(rest)):
        return Cell(Form.EMPTY, before, text=rest)
    if start.startswith("%%"):
        return _sort_magic(before, rest)
    if start[0] in "%!?":
        return Cell(Form.IPYTHON, before, text=rest)
    if start[0] == "/":
        commands = tuple(line.strip()[1:].strip() for line in rest.split("\n") if line.strip())
        return Cell(Form.COMMANDS, before, text=rest, commands=commands)
    if _ESCAPED.match(start):
        indent = len(rest) - len(start)
        return Cell(Form.PROMPT, before, text=rest[:indent] + start[1:])
    return Cell(Form.PROMPT, before, text=rest)


def _sort_magic(before: str, rest: str) -> Cell:
    head, end, body = rest.partition("\n")
    found = _CELL_MAGIC.match(head)
    name = found["name"] if found else ""
    if name == "py":
        form = Form.PYTHON
    elif name in CELL_MAGICS:
        form = Form.AGENT
    else:
        form = Form.WRAPPED if name in WRAPPERS else Form.IPYTHON
    return Cell(form, before, head + end, body)


def _check_lines(text: str, starts: str, kind: str, other: str) -> None:
    """Refuse a cell that begins with one kind of line and goes on with another. Raises `UsageError`: it does."""
    continued = False
    for line in text.split("\n"):
        word = line.strip()
        if word and not continued and word[0] not in starts:
            shown = word if len(word) <= _SHOWN else f"{word[: _SHOWN - 1]}…"
            way = (
                "a backslash before the first slash makes the whole cell a prompt (`\\/…`)"
                if starts == "/"
                else "for Python, make the first line `%%py`"
            )
            raise UsageError(
                f"The cell begins with {kind} and goes on with {other}: {shown!r}. "
                f"Nothing was run. Give each a cell of its own; {way}."
            )
        continued = starts != "/" and line.rstrip("\r").endswith("\\")


_SHOWN = 60


def _check_wrapped(cell: Cell) -> None:
    inner = read(cell.text)
    timed = _CELL_MAGIC.match(cell.head)
    if timed is None or timed["name"] != "timeit" or inner.form not in {Form.PROMPT, Form.AGENT, Form.COMMANDS}:
        return
    if {found["option"] for found in _OFTEN.finditer(timed["line"])} != {"n", "r"}:
        raise UsageError(
            "%%timeit would run this cell as often as it likes, and each time may cost. Use %%time for one run, "
            "or say how often: `%%timeit -n 1 -r 3`."
        )


def _python(cell: Cell, *, to_run: bool) -> str:
    first = cell.text.lstrip()
    if first.startswith("%%"):
        # A cell magic has to come first, and counts its lines for itself.
        return cell.text[len(cell.text) - len(first) :]
    if not to_run:
        return cell.before + cell.text
    # As far in as the Python below: IPython takes the indentation of the first line from all of them.
    code = next((line for line in cell.text.split("\n") if line.strip()), "")
    indent = code[: len(code) - len(code.lstrip())]
    before = "".join(line if line.strip() else f"{indent}#\n" for line in cell.before.splitlines(keepends=True))
    return f"{before}{indent}# %%py\n{cell.text}"


def _lines_of(commands: tuple[str, ...], *, to_run: bool, inside: bool) -> str:
    if to_run or len(commands) > 1:
        lines = "".join(f"    {command!r},\n" for command in commands)
        awaited = not inside and any(map(waits, commands))
        call = f"await get_ipython().{COMMANDS_AWAITED}" if awaited else f"get_ipython().{COMMANDS}"
        return f"{call}(\n{lines})"
    # IPython fills variables into the line of a magic; a command means what it says.
    [command] = commands
    command = _FILLED_IN.sub(r"\g<0>\g<0>", command)
    return f"%kagura {command}".rstrip()
