"""What tables look like as the end of a cell: the columns that tell most, and what can be done with a row."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from html import escape
from secrets import token_hex
from typing import Any, ClassVar, Self

import pandas as pd

from kagura_kernel.cockpit import next_commands
from kagura_kernel.domain.visible import visible
from kagura_kernel.render.escape import escaped_prose
from kagura_kernel.render.figures import counted, money, seconds
from kagura_kernel.render.html import without_formulas

_LEAST = 16
"""Characters that the longest column needs to say something."""
_MOST = 120
"""Characters that it has in a notebook."""
_WHOLE = 1000
"""From here on a figure has no decimals."""

_IN_HTML = 6
"""Columns that a notebook shows of a wide table."""

_NEXT, _NONE = "next", "none"
"""The column of commands, and where a table keeps what it says without a row."""

_WORDS: Mapping[str, Callable[[float], str]] = {"seconds": seconds, "usd": money, "total_usd": money}
"""How figures are shown as a person reads them."""

_LONG = frozenset({"task", "missing", "model", "what", "reason", "why"})
"""Columns that may be cut, so that the others stand beside them."""


_IDS_AND_TIMES = re.compile(r"(?<=<td>)(?:[a-z]{3}-[0-9a-z]+|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?=</td>)")


# A task may be a program, with words longer than a page is wide. They break anywhere, so that figures stay in sight.
_LONG_CELL = re.compile(r"(?<=<td)>(?=[^<]{40})")


class TextFrame(pd.DataFrame):
    """A table to work with. What is taken out of it is an ordinary DataFrame, and shown as one."""

    # The columns that are shown, as far as they fit: the last are left out first
    telling: ClassVar[tuple[str, ...]] = ()
    # Those whose figures are shown in words; what works with the table has numbers
    worded: ClassVar[tuple[str, ...]] = ()
    # What is shown where there is no row
    none: ClassVar[str] = "There is none."

    def __repr__(self) -> str:
        """As it is where it fits a line; otherwise its telling columns, and beneath them the names of the others."""
        width = shutil.get_terminal_size().columns
        if self.empty:
            return "\n".join(textwrap.wrap(self._none, width))
        if not self.telling or not {*self.telling} <= {*self.columns}:
            return repr(pd.DataFrame(self))
        most = pd.get_option("display.max_rows") or len(self)
        rows = pd.DataFrame(self.head(most))
        if _broad([str(name) for name in self.columns], rows) <= width:
            return repr(self._worded(pd.DataFrame(self)))
        lines, shown = _lines(self.telling, self._worded(rows), width)
        left = len(self) - len(rows)
        more = [f"… and {left:,} more"] if left > 0 else []
        others = ", ".join(str(name) for name in self.columns if name not in shown)
        return "\n".join([*lines, *more, *textwrap.wrap(f"Other columns: {others}", width)])

    def _repr_html_(self) -> str:
        """Its telling columns with what can be done with each row, and beneath them how to see the others."""
        if self.empty:
            return f"<p>{escaped_prose(self._none)}</p>"
        whole = pd.DataFrame(self)
        telling = [name for name in self.telling[:_IN_HTML] if name in whole]
        shown = _short(self._worded(whole[telling] if telling else whole))
        following = [self.attrs.get(_NEXT, {}).get(key, ()) for key in shown.iloc[:, 0]] if len(shown.columns) else []
        told = _IDS_AND_TIMES.sub(lambda found: _whole_words(found[0]), _with_commands(shown, following))
        told = _LONG_CELL.sub(' style="overflow-wrap: anywhere; min-width: 14em">', told)
        hidden = len(shown) - (pd.get_option("display.max_rows") or len(shown))
        told += f"<p>… are {counted(hidden, 'more row')}, which the table has.</p>" if hidden > 0 else ""
        left = len(whole.columns) - len(shown.columns)
        more = f"<p>{counted(left, 'more column')}: <code>.whole</code> shows them.</p>" if left > 0 else ""
        return without_formulas(f"{told}{more}")

    def with_next(self, commands: Mapping[str, Sequence[str]]) -> Self:
        """The same; a notebook shows beside each row the commands that are named by its first telling column."""
        self.attrs[_NEXT] = {key: tuple(some) for key, some in commands.items() if some}
        return self

    def saying(self, none: str) -> Self:
        """The same; it says this where there is no row."""
        self.attrs[_NONE] = none
        return self

    @property
    def _none(self) -> str:
        return str(self.attrs.get(_NONE, self.none))

    def _worded(self, rows: pd.DataFrame) -> pd.DataFrame:
        words = {name: [_word(_WORDS[name], one) for one in rows[name]] for name in self.worded if name in rows}
        return rows.assign(**words)

    @property
    def whole(self) -> pd.DataFrame:
        """A DataFrame that shows all columns."""
        return _WholeFrame(self)


class _WholeFrame(pd.DataFrame):
    """As any other, but that no text in it becomes a formula. What is taken out of it is an ordinary one."""

    def _repr_html_(self) -> str:
        return without_formulas(self.to_html(**_how()))


def _word(word: Callable[[float], str], figure: Any) -> str:
    return "-" if pd.isna(figure) else word(float(figure))


def _short(rows: pd.DataFrame) -> pd.DataFrame:
    """The same with long columns cut and times to the second, so that all have room; a dash for what is not known."""
    times = set(map(str, rows.select_dtypes("datetimetz")))
    names = [name for name in map(str, rows) if name in _LONG | times]
    cells = {name: [_cut(_cell(one), _MOST) for one in rows[name]] for name in names}
    if "notebook" in rows:
        # Whoever has two of one name finds the folders among all columns.
        cells["notebook"] = [_cell(one).rpartition("/")[2] for one in rows["notebook"]]
    told, unknown = rows.assign(**cells), rows.isna()
    return told.astype(object).mask(unknown, "-") if unknown.to_numpy().any() else told


def _how() -> dict[str, Any]:
    return {"max_rows": pd.get_option("display.max_rows"), "border": 0}


def _whole_words(text: str) -> str:
    """As HTML that a narrow page breaks between its words alone, and not at their hyphens."""
    return " ".join(f'<span style="white-space: nowrap">{escape(word)}</span>' for word in text.split())


def _with_commands(shown: pd.DataFrame, following: Sequence[Sequence[str]]) -> str:
    """The table as HTML, where there is something to do with a last column of commands in code style."""
    if not any(following):
        return str(shown.to_html(**_how()))
    # Pandas escapes all that it writes: it writes marks, which nothing in the table can hold.
    mark = token_hex(4)
    told = str(shown.assign(**{_NEXT: [f"{mark}-{row}-" for row in range(len(shown))]}).to_html(**_how()))
    for row, commands in enumerate(following):
        drawn = (f"<code>{_whole_words(one)}</code>" for one in commands)
        told = told.replace(f"{mark}-{row}-", "<br>".join(drawn))
    return told


class RunsText(TextFrame):
    """Runs."""

    none = next_commands.NO_RUNS
    telling = ("run", "status", "task", "seconds", "usd")
    worded = ("seconds", "usd")


class BoardText(TextFrame):
    """Runs that go on, with what they wait for, and the last that ended."""

    none = next_commands.NO_RUNS
    worded = ("seconds", "usd")
    telling = ("run", "status", "waits_for", "task", "seconds", "usd")


class ModelsText(TextFrame):
    """Models that can be named."""

    none = next_commands.NO_MODELS
    telling = ("model", "current", "input_usd", "output_usd", "price", "about")


class BrainsText(TextFrame):
    """Brains that there are."""

    telling = ("brain", "ready", "why", "model", "turn_usd")


class SessionsText(TextFrame):
    """Sessions."""

    none = next_commands.NO_SESSIONS
    telling = ("session", "state", "task", "runs", "last", "notebook")


class ApprovalsText(TextFrame):
    """Questions, and how they were answered."""

    none = next_commands.NO_APPROVALS
    telling = ("approval", "kind", "what", "verdict", "by", "requested")


class EgressText(TextFrame):
    """Connections."""

    none = next_commands.NO_CONNECTIONS
    telling = ("run", "at", "host", "port", "allowed", "reason")


class LeasesText(TextFrame):
    """Credentials that are out."""

    none = next_commands.NO_LEASES
    telling = ("lease", "provider", "scope", "run", "state", "expires")


class AuthorsText(TextFrame):
    """Whose plugins are trusted."""

    none = next_commands.NO_AUTHORS


class RepositoriesText(TextFrame):
    """Which repositories of plugins are trusted."""

    none = next_commands.NO_REPOSITORIES


class HitsText(TextFrame):
    """What repositories have."""

    none = "Nothing like that can be had."
    telling = ("plugin", "version", "installed", "repository", "author", "risk")


class CommitsText(TextFrame):
    """What a run committed."""

    none = "It committed nothing that could be brought out."


class FindingsText(TextFrame):
    """What a scan found."""

    none = "The scan found nothing: nothing keeps it out."


class FieldsText(TextFrame):
    """What a plugin can be told."""

    none = "It has nothing to configure."


class CostsText(TextFrame):
    """What runs cost."""

    none = next_commands.NO_RUNS
    telling = ("run", "status", "usd", "total_usd", "input_tokens", "output_tokens", "model")
    worded = ("usd", "total_usd")


class CalibratedText(TextFrame):
    """Estimates beside what was needed."""

    none = "No run with an estimate is over yet: `%%kagura --plan` has an agent plan, and estimate what it needs."
    telling = ("run", "estimated_usd", "usd", "usd_within", "estimated_seconds", "seconds", "status")


class TrustText(TextFrame):
    """How categories stand."""

    telling = ("category", "state", "successes", "tasks", "days", "missing")


def _lines(telling: Sequence[str], rows: pd.DataFrame, width: int) -> tuple[list[str], list[str]]:
    """The columns that fit, a line for the heads and one for each row, and their names."""
    names = list(telling)
    long = next((name for name in names if name in _LONG), "")
    while len(names) > 1 and _broad([one for one in names if one != long], rows) + (_LEAST + 2) * bool(long) > width:
        names.remove(next(one for one in reversed(names) if one != long))
    room = width - _broad([one for one in names if one != long], rows) - 2
    columns = [_column(name, rows, room if name == long else width) for name in names]
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)], names


def _broad(names: list[str], rows: pd.DataFrame) -> int:
    """How many characters these columns need beside each other."""
    return sum(len(_column(name, rows)[0]) + 2 for name in names) - 2


def _column(name: str, rows: pd.DataFrame, room: int | None = None) -> list[str]:
    """Its head and its cells, all equally wide and no wider than there is room."""
    values = list(rows[name])
    cells = [_cut(one, room) for one in (name, *map(_cell, values))]
    width = max(map(len, cells))
    right = name in _WORDS or any(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return [one.rjust(width) if right else one.ljust(width) for one in cells]


def _cell(value: Any) -> str:
    if pd.isna(value):
        return "-"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < _WHOLE else f"{value:,.0f}"
    if isinstance(value, str):
        return visible(" ".join(value.split()))
    return f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, pd.Timestamp) else str(value)


def _cut(text: str, room: int | None) -> str:
    return text if room is None or len(text) <= room else f"{text[: max(1, room) - 1]}…"
