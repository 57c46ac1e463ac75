"""How commands print: tables whose cells cannot pose as anything else, text as wide as the terminal, times in UTC.

What could not be written to the program's own streams is told once, and nothing else ever stands in their place. A
shell may start a program without them (`>&-`), and whatever it opens next would get their number: a journal as standard
output. A closed one is therefore taken by the null device, which for standard output can only be read, so that writing
to it fails as it does on a full disk.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from kagura_kernel.cockpit.lines.parser import as_typed
from kagura_kernel.domain.errors import OutputUnwritable
from kagura_kernel.domain.grammar import Surface
from kagura_kernel.membrane.names import shown

_INPUT, _OUTPUT, _ERRORS = 0, 1, 2


def guard_streams() -> None:
    """Take the place of closed streams, and let a failure to write say what it is a failure of."""
    for descriptor, mode in ((_INPUT, os.O_RDONLY), (_OUTPUT, os.O_RDONLY), (_ERRORS, os.O_WRONLY)):
        _occupy(descriptor, mode)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(_INPUT, closefd=False)), encoding="utf-8")
    sys.stdout = _stream(_OUTPUT, sys.stdout, _refuse)
    # Who cannot hear what went wrong can be told nothing at all.
    sys.stderr = _stream(_ERRORS, sys.stderr, _swallow)


def flush_output() -> None:
    """Write what is still held back.

    Raises:
        OutputUnwritable: it cannot be written.
        BrokenPipeError: the reader has gone.
    """
    sys.stdout.flush()


def drop_output() -> None:
    """Let what could not be written go nowhere: Python tries again when it ends, and would complain."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class _Raw(io.FileIO):
    """One of them; what fails is handed to `failed`."""

    def __init__(self, descriptor: int, failed: Callable[[OSError], None]) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._failed = failed

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self._failed(error)
            return memoryview(data).nbytes


def _stream(descriptor: int, before: io.TextIOWrapper | object, failed: Callable[[OSError], None]) -> io.TextIOWrapper:
    """The same stream as before, as far as there was one; what its encoding does not have is written as an escape."""
    told = before if isinstance(before, io.TextIOWrapper) else None
    if told is not None:
        told.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Raw(descriptor, failed)),
        encoding=told.encoding if told is not None else "utf-8",
        errors="backslashreplace" if told is None or told.errors in (None, "strict") else told.errors,
        # Unbuffered, as containers like it, comes down to lines.
        line_buffering=told.line_buffering or told.write_through if told is not None else descriptor == _ERRORS,
    )


def _refuse(error: OSError) -> None:
    if isinstance(error, BrokenPipeError):
        raise error
    closed = error.errno == errno.EBADF
    raise OutputUnwritable("it is closed" if closed else (error.strerror or str(error)).lower()) from None


def _swallow(_: OSError) -> None:
    """Nobody is left who could be told."""


def _occupy(descriptor: int, mode: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        # The lowest free number is taken: those below are occupied already. Children have it too, as they would have
        # what stood there.
        os.set_inheritable(os.open(os.devnull, mode), True)  # noqa: FBT003 - the call has no names


NARROWEST = 40
"""Columns: whoever has fewer gets lines that are too long rather than a word on each."""

_GAP = "  "
_INDENT = "    "
_READABLE = 12
_QUOTED = re.compile(r"`[^`\n]*`")
_UNPRINTED = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]")
_TIED = "\u00a0"
_HERE = {
    "run the cell again": "try again",
    "Run the cell again": "Try again",
    "run its cell again": "run it again",
    "Run its cell again": "Run it again",
    "Write what comes next into a cell of its own": "Give what comes next as a task of its own",
    # In a notebook its card says how.
    " and go on from there.": " and go on from there with `--resume last`.",
    "restart the kernel": "start again",
    "Start the kernel in": "Start in",
    "before the kernel starts": "before you start",
}
"""What errors of a run tell whoever sits at a notebook, and what it is in a terminal."""


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    whole: Collection[str] = (),
    following: Sequence[Sequence[str]] = (),
) -> str:
    """Rows below their heading, in columns; whatever a cell holds, it stays in its row.

    On a terminal that is too narrow the longest cells are shortened; where that is not enough a row takes several
    lines, all but the first indented. What is piped somewhere is told in full, a line for each row.

    Args:
        head: The headings.
        rows: As many cells each.
        whole: Headings of columns that are never shortened: what they hold is typed again.
        following: The commands that still do something with each row, as a notebook spells them: beneath it on a
            terminal, else a last column.
    """
    typed = [[for_terminal(command) for command in commands] for commands in following]
    beneath: list[list[str]] = [[] for _ in range(len(rows) + 1)]
    if sys.stdout.isatty():
        beneath = [[], *typed] if typed else beneath
    elif any(typed):
        head = [*head, "next"]
        rows = [[*row, "; ".join(some) or "-"] for row, some in zip(rows, typed, strict=True)]
    cells = [list(head), *([shown(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(head))]
    bands = [range(len(head))]
    if sys.stdout.isatty():
        width = terminal_width()
        kept = [word in whole for word in head]
        fitted = _fitted(widths, kept, width)
        if _wide(fitted) > width:
            most = width - len(_INDENT)
            fitted = [length if keep else min(length, most) for length, keep in zip(widths, kept, strict=True)]
            bands = _bands(fitted, width)
        widths = fitted
    lines: list[str] = []
    for line, commands in zip(cells, beneath, strict=True):
        for number, band in enumerate(bands):
            told = _GAP.join(cut(line[place], widths[place]).ljust(widths[place]) for place in band)
            lines.append((_INDENT if number else "") + told)
        lines += [f"{_INDENT}next: {shown(command)}" for command in commands]
    return "\n".join(line.rstrip() for line in lines)


def _wide(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _fitted(widths: Sequence[int], whole: Sequence[bool], width: int) -> list[int]:
    """The widths, the longest made smaller until a line fits, or until all of them are hardly readable."""
    found = list(widths)
    for _ in range(_wide(found) - width):
        longest = max((place for place, keep in enumerate(whole) if not keep), key=found.__getitem__, default=None)
        if longest is None or found[longest] <= _READABLE:
            break
        found[longest] -= 1
    return found


def _bands(widths: Sequence[int], width: int) -> list[range]:
    """Columns that stand beside each other; as many in each line as it holds, and at least one."""
    bands: list[range] = []
    start = 0
    for end in range(1, len(widths) + 1):
        room = width - len(_INDENT) * bool(bands)
        if end == len(widths) or _wide(widths[start : end + 1]) > room:
            bands.append(range(start, end))
            start = end
    return bands


def terminal_width() -> int:
    """Columns of the terminal, or of `COLUMNS`; 80 where there is neither."""
    return max(NARROWEST, shutil.get_terminal_size().columns)


def paragraph(text: str, start: str, indent: str, width: int) -> str:
    """A text in lines of at most so many columns, the first behind `start`, all others behind `indent`.

    Lines of the text stay lines; those that are indented stay so where they go on. What stands in `backticks` is typed
    again, and stays on one line where it can.
    """
    lines: list[str] = []
    for line in text.splitlines() or [""]:
        begun = len(line) - len(line.lstrip())
        wrapped = textwrap.wrap(
            _QUOTED.sub(lambda found: found[0].replace(" ", _TIED), shown(line.strip())),
            max(width - len(indent), begun + _READABLE),
            initial_indent=" " * begun,
            subsequent_indent=" " * (begun + 2 * line.lstrip().startswith("- ")),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for part in wrapped or [""]:
            lines.append(f"{indent if lines else start}{part.replace(_TIED, ' ')}".rstrip())
    return "\n".join(lines)


def for_terminal(text: str) -> str:
    """A message as it is meant here: a notebook's `%kagura runs` is `kagura-kernel runs`, and there are no cells.

    What only a notebook has, such as `%kagura watch`, stays as it is.
    """
    for there, here in _HERE.items():
        text = text.replace(there, here)
    text = re.sub(r"%%kagura (--(?:new|plan|record|resume|session)\b)", r"kagura-kernel run \1", text)
    return as_typed(text, Surface.TERMINAL, "kagura-kernel ")


def moment(at: datetime | None) -> str:
    """A time in UTC, to the second; a dash when there is none."""
    return "-" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def span(seconds: float | None) -> str:
    """A duration in the largest units that say it shortly; a dash when it is not known."""
    if seconds is None:
        return "-"
    if seconds < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def size(count: int) -> str:
    """Bytes, rounded to three digits."""
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:  # noqa: PLR2004 - a step
        value /= 1024
        del units[0]
    return f"{value:.3g} {units[0]}"


def cut(text: str, length: int) -> str:
    """The beginning of the first line of a text, with a mark when there was more."""
    first, _, more = text.strip().partition("\n")
    return first if len(first) <= length and not more else f"{first[: length - 1]}…"


def tell(arguments: SimpleNamespace, data: Any, text: str) -> int:
    """Print the data as JSON where `--json` was given, otherwise the text; 0."""
    print(as_json(data) if arguments.json else text)
    return 0


def tell_rows(
    arguments: SimpleNamespace,
    records: Sequence[Any],
    head: Sequence[str],
    cells: Sequence[Sequence[object]],
    *,
    whole: Collection[str] = (),
    following: Sequence[Sequence[str]] = (),
    none: str,
    further: str = "",
) -> int:
    """Print rows as `tell` does: the records as JSON, otherwise a table, or what is said where there is no row; 0.

    `further` is what is said below the table of rows that it does not show.
    """
    told = table(head, cells, whole=whole, following=following) if cells else for_terminal(none)
    told = f"{told}\n{further}" if further else told
    return tell(arguments, with_next(records, following), told)


def with_next(records: Sequence[Any], following: Sequence[Sequence[str]]) -> list[Any]:
    """Records for JSON with the commands that still do something with each; as they are where these are not told."""
    if not following:
        return list(records)
    typed = ([for_terminal(command) for command in commands] for commands in following)
    return [record | {"next": some} for record, some in zip(records, typed, strict=True)]


def as_json(value: Any) -> str:
    """One line of JSON; times as ISO 8601. What a terminal would obey, or hide, is written out."""
    text = json.dumps(value, ensure_ascii=False, default=_plain)
    return text if text.isprintable() else _UNPRINTED.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
