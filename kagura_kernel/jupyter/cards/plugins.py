"""The list of plugins as a table for people: state, risk and approval as marks. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kagura_kernel.domain.audit_report import RISK_WORDS
from kagura_kernel.domain.plugins import Risk
from kagura_kernel.jupyter.cards.audit_report import RISK_TONES
from kagura_kernel.render.escape import escaped, one_line
from kagura_kernel.render.figures import counted
from kagura_kernel.render.style import framed

LABEL = "Plugins"

_STATES = {"enabled": "good", "quarantined": "bad", "not usable": "bad", "disabled": "warn"}
_OPENS = (("reads", "reads"), ("writes", "writes"), ("reaches", "reaches"))
_HEAD = ("plugin", "state", "risk", "approved", "its jail opens", "from")
_LINE, _SENTENCE = 160, 300


def plugins_html(lines: Sequence[Mapping[str, Any]]) -> str:
    """The card, as it stays in a notebook.

    Args:
        lines: One for each plugin, by the columns of the table; what is missing is None.
    """
    enabled = sum(line["state"] == "enabled" for line in lines)
    figures = f"{counted(len(lines), 'plugin')}, {enabled} enabled in this session" if lines else "There are none."
    head = (
        f'<div class="kg-head"><div class="kg-top"><strong class="kg-name">{LABEL}</strong> '
        f'<span class="kg-soft">{figures}</span></div></div>'
    )
    if not lines:
        return framed(head, LABEL)
    names = "".join(f"<th>{name}</th>" for name in _HEAD)
    rows = "".join(_row(line) for line in lines)
    table = f'<table class="kg-table kg-list"><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table>'
    return framed(f'{head}<div class="kg-part kg-wide">{table}</div>', LABEL)


def _row(line: Mapping[str, Any]) -> str:
    version = f'<span class="kg-soft">{_text(line["version"])}</span>'
    name = f'<strong class="kg-name">{_text(line["plugin"])}</strong> {version}'
    says = f"<div>{_text(line['description'], _SENTENCE)}</div>" if line["description"] else ""
    problem = f'<div class="kg-wrong">{_text(line["problem"], _SENTENCE)}</div>' if line["problem"] else ""
    signed = f'<div class="kg-soft">signed by {_text(line["signed_by"])}</div>' if line["signed_by"] else ""
    cells = [
        f"{name}{says}{problem}",
        _mark(str(line["state"]), _STATES.get(str(line["state"]), "")),
        _risk(line["risk"]),
        _mark("approved", "good") if line["approved"] else '<span class="kg-soft">no</span>',
        _opens(line),
        f"{_text(line['place'])}{signed}",
    ]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _mark(word: str, tone: str) -> str:
    return f'<span class="kg-chip{f" kg-{tone}" if tone else ""}">{escaped(word)}</span>'


def _risk(risk: object) -> str:
    if not risk:
        return '<span class="kg-soft">not audited</span>'
    found = Risk(str(risk))
    return _mark(RISK_WORDS[found].removesuffix(" risk").removeprefix("Risk ").lower(), RISK_TONES[found])


def _opens(line: Mapping[str, Any]) -> str:
    shown = "".join(f"<div>{word} {_code(line[column])}</div>" for column, word in _OPENS if line[column])
    return shown or '<span class="kg-soft">nothing</span>'


def _code(text: object) -> str:
    return f'<code class="kg-path">{_text(text)}</code>'


def _text(value: object, limit: int = _LINE) -> str:
    return escaped(one_line(str(value or ""), limit))
