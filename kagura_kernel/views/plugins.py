"""The list of plugins as a table for people: state, risk and approval as marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kagura_kernel.domain.plugins import RISK_WORDS, Risk
from kagura_kernel.render.blocks import Blocks, Cell, Group, Line, Span, Table, chip, code, head, soft
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.figures import counted
from kagura_kernel.views.status import RISK_TONES

LABEL = "Plugins"

_STATES = {"enabled": "good", "quarantined": "bad", "not usable": "bad", "disabled": "warn"}
_OPENS = ("reads", "writes", "reaches")
_HEAD = ("plugin", "state", "risk", "approved", "its jail opens", "from")
_LINE, _SENTENCE = 160, 300


def plugins_blocks(lines: Sequence[Mapping[str, Any]]) -> Blocks:
    """The list.

    Args:
        lines: One for each plugin, by the columns of the table; what is missing is None.
    """
    enabled = sum(line["state"] == "enabled" for line in lines)
    figures = f"{counted(len(lines), 'plugin')}, {enabled} enabled in this session" if lines else "There are none."
    if not lines:
        return (head(LABEL, soft(figures)),)
    table = Table([_row(line) for line in lines], _HEAD, "list")
    return (head(LABEL, soft(figures)), Group((table,), "part wide"))


def _row(line: Mapping[str, Any]) -> list[Cell]:
    state = str(line["state"])
    says = [Line((_text(line["description"], _SENTENCE),))] if line["description"] else []
    problem = [Line((_text(line["problem"], _SENTENCE),), "wrong")] if line["problem"] else []
    signed = [Line((f"signed by {_text(line['signed_by'])}",), "soft")] if line["signed_by"] else []
    opens = [Line((word, code(_text(line[word]), "path"))) for word in _OPENS if line[word]]
    return [
        (Span(_text(line["plugin"]), "name"), soft(_text(line["version"])), *says, *problem),
        (chip(state, _STATES.get(state, "")),),
        (_risk(line["risk"]),),
        (chip("approved", "good") if line["approved"] else soft("no"),),
        tuple(opens) or (soft("nothing"),),
        (_text(line["place"]), *signed),
    ]


def _risk(risk: object) -> Span:
    if not risk:
        return soft("not audited")
    found = Risk(str(risk))
    return chip(RISK_WORDS[found].removesuffix(" risk").removeprefix("Risk ").lower(), RISK_TONES[found])


def _text(value: object, limit: int = _LINE) -> str:
    return one_line(str(value or ""), limit)
