"""The network at the foot of a run card: what was refused, with the words that would grant it, and what was reached."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from kagura_kernel.domain.hosts import shown_place
from kagura_kernel.domain.visible import visible
from kagura_kernel.jupyter.cards.crossings import Network, Reached, Refused
from kagura_kernel.jupyter.cards.escape import escaped
from kagura_kernel.jupyter.cards.view import RunView
from kagura_kernel.jupyter.cards.words import counted, data_size, seconds

# What needs no more words than two.
_PLAIN = frozenset({"", "is not granted to this run", "is not granted and nobody can be asked"})

SHOWN_REFUSALS = 5
SHOWN_PLACES = 40
_SHOWN_CUTS = 3

_ENDS = {
    "done": "done",
    "limit": "cut at the limit of bytes",
    "idle": "cut after silence",
    "time": "cut at the limit of time",
    "unreachable": "no answer",
    "reset": "broken off",
    "cancelled": "ended with the run",
}

Place = TypeVar("Place", Reached, Refused)


def network_html(view: RunView, *, live: bool) -> str:
    """The foot; empty when nothing was asked for.

    The saved card of a run that can be repeated says where, and neither how often nor how much: that differs.
    """
    network = view.network
    if not network:
        return ""
    steady = view.repeatable and not live
    # While it grows, what is new stands last and nothing moves.
    refused, unreached = (found if live else by_name(found) for found in (network.denied, network.unreached))
    rows = [_refused(one, steady=steady) for one in refused[:SHOWN_REFUSALS]]
    if more := len(refused) - len(rows) + network.more_refused:
        rows.append(f'<div class="kg-soft">… and {counted(more, "more refused place")}.</div>')
    rows += [_refused(one, steady=steady) for one in unreached[:SHOWN_REFUSALS]]
    if (more := len(unreached) - SHOWN_REFUSALS) > 0:
        rows.append(f'<div class="kg-soft">… and {counted(more, "more place")} not reached.</div>')
    # Whether a connection was cut depends on how fast the network was, not on the cell.
    rows.extend([] if steady else _cautions(network))
    folded = _reached(network, steady=steady)
    return f'<div class="kg-net" role="group" aria-label="Network">{"".join(rows)}{folded}</div>'


def network_text(view: RunView) -> list[str]:
    """The same as lines, without anything that differs from time to time."""
    network = view.network
    lines = []
    refused, unreached, stood = by_name(network.denied), by_name(network.unreached), by_name(network.stood)
    for one in refused[:SHOWN_REFUSALS]:
        grant = f"; --net {visible(one.net)} would grant it" if one.net else ""
        lines.append(f"! refused: {_where(one)} ({one.short}{grant})")
    if more := len(refused) - len(lines) + network.more_refused:
        lines.append(f"! … and {counted(more, 'more refused place')}")
    lines.extend(f"! not reached: {_where(one)} ({one.short})" for one in unreached[:SHOWN_REFUSALS])
    if (more := len(unreached) - SHOWN_REFUSALS) > 0:
        lines.append(f"! … and {counted(more, 'more place')} not reached")
    if stood:
        places = [_where(one) for one in stood[:SHOWN_PLACES]]
        more = len(stood) - len(places)
        lines.append(f"= connected to {', '.join(places)}{f' and {more:,} more' if more else ''}")
    return lines


def by_name(places: Iterable[Place]) -> list[Place]:
    """In order: connections that are made at once come in any."""
    return sorted(places, key=lambda one: (one.host, one.port))


def _where(one: Reached | Refused) -> str:
    """The place as text."""
    return visible(shown_place(one.host, one.port))


def _shown(one: Reached | Refused) -> str:
    """The place as HTML."""
    return escaped(shown_place(one.host, one.port))


def _refused(one: Refused, *, steady: bool) -> str:
    often = ""
    if one.times > 1 and not steady:
        often = f' <span class="kg-soft" title="At least {one.times:,} times">×{one.times:,}</span>'
    why = one.short if steady or one.why in _PLAIN or one.short.startswith("not asked") else one.why
    word = "Not reached" if one.unreached else "Refused"
    grant = f' <span class="kg-soft">· grant it with</span> <code>--net {escaped(one.net)}</code>' if one.net else ""
    return (
        f'<div class="kg-refused"><b class="kg-warn">{word}</b> <code class="kg-where">{_shown(one)}</code> '
        f'<span class="kg-soft">({escaped(why)})</span>{often}{grant}</div>'
    )


def _cautions(network: Network) -> list[str]:
    """What was cut at a limit is no whole file, whatever the program in the box made of it."""
    cut = [one for one in network.reached.values() if one.ended["limit"] or one.ended["time"]]
    rows = [
        f'<div class="kg-cut"><b class="kg-warn">Cut</b> <code class="kg-where">{_shown(one)}</code> '
        f'<span class="kg-soft">({escaped(_cut_words(one))})</span></div>'
        for one in cut[:_SHOWN_CUTS]
    ]
    if more := len(cut) - len(rows):
        rows.append(f'<div class="kg-soft">… and {counted(more, "more place")} cut.</div>')
    return rows


def _cut_words(one: Reached) -> str:
    how = _ENDS["limit" if one.ended["limit"] else "time"]
    detail = one.detail.rstrip(".")
    return f"{how}, after {data_size(one.bytes_in)} in: {detail}" if detail else f"{how}, {data_size(one.bytes_in)} in"


def _reached(network: Network, *, steady: bool) -> str:
    stood = network.stood
    if not stood:
        return ""
    shown = by_name(stood)[:SHOWN_PLACES]
    head = "" if steady else "<th>connections</th> <th>out</th> <th>in</th> <th>time</th> <th>ended</th>"
    rows = "".join(_row(one, steady=steady) for one in shown)
    left = len(stood) - len(shown)
    more = f'<div class="kg-label">… and {counted(left, "more place")}.</div>' if left else ""
    unnamed = network.more_reached
    more += f'<div class="kg-label">{counted(unnamed, "more connection")} elsewhere.</div>' if unnamed else ""
    return (
        '<details class="kg-reached" data-keep="reached"><summary>'
        f'<span class="kg-soft">{escaped(_summary(network, steady=steady))}</span></summary>'
        f'<div class="kg-inside"><table class="kg-table"><thead><tr><th>host</th> {head}</tr></thead>'
        f"<tbody>{rows}</tbody></table>{more}</div></details>"
    )


def _summary(network: Network, *, steady: bool) -> str:
    places = f"Connected to {counted(len(network.stood), 'place')}"
    if steady:
        return places
    incoming = sum(one.bytes_in for one in network.reached.values())
    outgoing = sum(one.bytes_out for one in network.reached.values())
    still = sum(one.open for one in network.reached.values())
    going = f", {counted(still, 'connection')} open" if still else ""
    return f"{places}, {data_size(incoming)} in, {data_size(outgoing)} out{going}"


def _row(one: Reached, *, steady: bool) -> str:
    where = f'<td><code class="kg-where" title="{escaped(one.rule)}">{_shown(one)}</code></td>'
    if steady:
        return f"<tr>{where}</tr>"
    ends = [
        f"{_ENDS.get(how, how)}{f' ×{n:,}' if n > 1 and len(one.ended) > 1 else ''}" for how, n in one.ended.items()
    ]
    ended = ", ".join([*ends, *(["open"] if one.open else [])])
    tone = ' class="kg-warn"' if one.cut else ""
    took = seconds(one.seconds) if one.ended else "–"
    figures = (f"{one.connections:,}", data_size(one.bytes_out), data_size(one.bytes_in), took)
    cells = " ".join(f"<td>{figure}</td>" for figure in figures)
    return f"<tr>{where} {cells} <td{tone}>{escaped(ended)}</td></tr>"
