"""What `%kagura plugin list` and `logs` give: DataFrames to work with, which as the end of a cell are for people."""

from __future__ import annotations

from typing import Any

import pandas as pd

_IN_SIGHT = ["plugin", "version", "state", "risk", "approved", "place"]


class PluginFrame(pd.DataFrame):
    """The plugins as a session has them. What is taken out of it is an ordinary DataFrame, and shown as one."""

    def __repr__(self) -> str:
        """What fits a line, and beneath it why any cannot be enabled; `columns` names the rest."""
        if self.empty:
            return "There are no plugins."
        shown = pd.DataFrame(self[_IN_SIGHT]).astype(object)
        table = shown.where(shown.notna(), "-").to_string(index=False)
        problems = [_line(row) for row in self.to_dict("records") if not pd.isna(row["problem"])]
        return "\n".join([table, *(f"{row['plugin']}: {row['problem']}" for row in problems)])

    def _repr_html_(self) -> str:
        """State, risk and approval as marks; IPython shows this in place of the columns."""
        from kagura_kernel.render.html import html_of
        from kagura_kernel.render.style import framed
        from kagura_kernel.views.plugins import LABEL, plugins_blocks

        return framed(html_of(plugins_blocks([_line(row) for row in self.to_dict("records")])), LABEL)


class LogFrame(pd.DataFrame):
    """What happened to a plugin. No text of it is cut where it is shown: why something failed stands at its end."""

    def __repr__(self) -> str:
        """A line each, without session and run."""
        if self.empty:
            return "Nothing has happened to it yet."
        return "\n".join(map(_happened, self.to_dict("records")))

    def _repr_html_(self) -> str:
        """The usual table, with the whole texts."""
        with pd.option_context("display.max_colwidth", None):
            return str(pd.DataFrame(self).to_html(max_rows=pd.get_option("display.max_rows")))


def _happened(row: dict[Any, Any]) -> str:
    mark = " " if row["ok"] else "!"
    who = f" ({row['by']})" if row["by"] else ""
    return f"{mark} {row['at']:%Y-%m-%d %H:%M:%SZ} {row['what']}{who}: {row['text']}"


def _line(row: dict[Any, Any]) -> dict[str, Any]:
    return {str(name): None if pd.isna(value) else value for name, value in row.items()}
