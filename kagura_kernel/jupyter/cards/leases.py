"""Leases on a card: a row for each, with its time left, its buttons while it lives, and one line afterwards.

The card of a run and the board of all leases show the same row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kagura_kernel.domain.events import LeaseUsed
from kagura_kernel.domain.visible import visible
from kagura_kernel.render.escape import escaped, escaped_prose
from kagura_kernel.render.figures import clock_face, counted, data_size, seconds, span
from kagura_kernel.views.leases import Holding, lease_end
from kagura_kernel.views.run import RunView

_BAD_STATUS = 400

_STATES = {
    "live": ("good", "live"),
    "held up": ("warn", "held up"),
    "on hold": ("warn", "on hold"),
    "released": ("soft", "given back"),
}
_ENDS = {"given back": "given back", "revoked": "revoked", "left to expire": "over"}
LIVES_ON = "the key itself lives on"
"""Said of a lease whose provider cannot end what it handed out."""
_LIVE = frozenset({"acquired", "renewed", "extended"})
_MEANING = {
    "held up": "its budget ends with this credential: a question asks for more",
    "on hold": "its budget is used up: nothing is given out until more is allowed",
}


@dataclass(frozen=True, slots=True)
class LeaseLine:
    """What a row says.

    Attributes:
        lease_id: `lea-…`.
        name: `provider:scope`.
        state: A key of the states in words: live, held up, on hold, released.
        expires_at: When its present credential ends; None without one.
        budget_left: Seconds beyond that.
        renewals_left: How often it may still be renewed.
        way: `header`, `file` or `env`.
        place: Where programs find it.
        why: More about trouble and ends.
        where: On the board: which run holds it, and in which kernel; empty in a run's own card.
        steerable: Whether its buttons would do something.
        used: What it was used for; empty when that is not known.
        requests: How many requests there were.
    """

    lease_id: str
    name: str
    state: str
    expires_at: datetime | None = None
    budget_left: float = 0.0
    renewals_left: int = 0
    way: str = ""
    place: str = ""
    why: str = ""
    where: str = ""
    steerable: bool = False
    used: Sequence[LeaseUsed] = ()
    requests: int = 0


def leases_html(view: RunView, *, live: bool) -> str:
    """The leases of a run, below its head; empty when it had none."""
    if not view.leases:
        return ""
    if live and view.finished is None:
        now = view.now or next(iter(view.leases.values())).since
        rows = "".join(lease_html(line_of(lease_id, held), now) for lease_id, held in view.leases.items())
    else:
        rows = "".join(_past(lease_id, held, view) for lease_id, held in view.leases.items())
    return f'<div class="kg-leases" role="group" aria-label="Leases">{rows}</div>'


def leases_text(view: RunView) -> list[str]:
    """A line for each, without anything that differs from time to time."""
    return [f"= lease {visible(held.name)}: {visible(_ending(held, view))}" for held in view.leases.values()]


def board_html(lines: Sequence[LeaseLine], now: datetime, *, live: bool = True) -> str:
    """All leases that runs hold; without `live` as they were at that time."""
    head = (
        '<div class="kg-head"><div class="kg-top"><strong class="kg-name">Leases</strong> '
        f'<span class="kg-soft">{_held(lines)}</span></div></div>'
    )
    rows = "".join(lease_html(line, now, live=live) for line in lines)
    inside = f'<div class="kg-leases" role="group" aria-label="Leases">{rows}</div>' if rows else ""
    return f'{head}{inside}<div class="kg-told" role="status"></div>'


def board_text(lines: Sequence[LeaseLine]) -> str:
    """The same, a line for each."""
    rows = [
        f"{line.lease_id}  {visible(line.name)}  {_state(line)[1]}{f'  {visible(line.where)}' if line.where else ''}"
        for line in lines
    ]
    return "\n".join([f"[leases: {_held(lines)}]", *rows])


def line_of(lease_id: str, held: Holding) -> LeaseLine:
    """The row of a lease in the card of the run that holds it."""
    said = held.said
    return LeaseLine(
        lease_id=lease_id,
        name=held.name,
        state="live" if said.change in _LIVE else said.change,
        expires_at=said.expires_at,
        budget_left=said.seconds_left,
        renewals_left=said.renewals_left,
        way=said.way,
        place=said.place,
        why=said.why,
        steerable=not held.over,
        used=tuple(held.latest),
        requests=held.requests,
    )


def lease_html(line: LeaseLine, now: datetime, *, live: bool = True) -> str:
    """One row; its time left ticks in the browser, counted from `now`. What is not live says when it ends."""
    tone, state = _state(line)
    over = line.state == "released"
    about = f'data-lease="{escaped(line.lease_id)}"'
    clock = "" if over else _clock(line, now, live=live)
    why = line.why or _MEANING.get(line.state, "")
    if over and lease_end(line.why) == "left to expire":
        why = LIVES_ON
    facts = " ".join(
        f"<span>{fact}</span>"
        for fact in ([] if over else _facts(line)) + ([escaped_prose(line.where)] if line.where else [])
    )
    trouble = f'<div class="kg-why">{escaped(why)}</div>' if why else ""
    return (
        f'<div class="kg-lease" {about} role="group" aria-label="Lease {escaped(line.name)}">'
        f'<div class="kg-lease-top"><code class="kg-where">{escaped(line.name)}</code> '
        f'<span class="kg-chip kg-{tone}">{escaped(state)}</span> {clock} <span class="kg-spring"></span>'
        f"{_buttons(line)}</div>"
        f'<div class="kg-facts kg-soft">{facts}</div>{trouble}{_used(line)}'
        '<div class="kg-told" role="status"></div></div>'
    )


def way_words(way: str, place: str) -> str:
    """How programs in the box use it, in words."""
    match way:
        case "header":
            return f"added to requests to {place}" if place else "added to requests on their way out"
        case "file":
            return f"in the file {place}" if place else "in a file"
        case "env":
            return f"in the variable {place} of one process" if place else "in one process’s environment"
        case _:
            return place


def _state(line: LeaseLine) -> tuple[str, str]:
    tone, word = _STATES.get(line.state, ("warn", line.state))
    return tone, _ENDS[lease_end(line.why)] if line.state == "released" else word


def _held(lines: Sequence[LeaseLine]) -> str:
    return f"{counted(len(lines), 'credential')} held" if lines else "no run holds a credential"


def _clock(line: LeaseLine, now: datetime, *, live: bool) -> str:
    if line.expires_at is None:
        return '<span class="kg-soft">no credential now</span>'
    if not live:
        return f'<span class="kg-soft">until {line.expires_at:%Y-%m-%d %H:%M:%S} UTC</span>'
    left = max(0.0, (line.expires_at - now).total_seconds())
    return (
        f'<span class="kg-timer" role="timer" aria-label="Time left"><span class="kg-face" data-expires="{left:.1f}">'
        f'{clock_face(left)}</span> <span class="kg-soft">left</span></span>'
    )


def _facts(line: LeaseLine) -> list[str]:
    used = [escaped(way_words(line.way, line.place))] if line.way or line.place else []
    if line.renewals_left and line.budget_left >= 1:
        used.append(f"then {span(line.budget_left)} of budget, {counted(line.renewals_left, 'renewal')} left")
    elif line.state == "live":
        used.append("not renewed any more")
    return used


def _buttons(line: LeaseLine) -> str:
    if line.state == "released" or not line.steerable:
        return ""
    about = f'data-id="{escaped(line.lease_id)}"'
    button = '<button type="button" class="kg-btn kg-small'
    return (
        f'{button}" data-act="extend" {about} aria-label="Extend {escaped(line.name)}"'
        ' title="Ask for a fresh budget; the question appears in the run’s card">Extend</button> '
        f'{button} kg-danger" data-act="revoke" {about} aria-label="Revoke now: {escaped(line.name)}"'
        ' title="Give the credential back at once; what uses it stops working">Revoke now</button>'
    )


def _used(line: LeaseLine) -> str:
    if not line.requests:
        return ""
    last = line.used[-1]
    failed = bool(last.why) or not 0 < last.status < _BAD_STATUS
    tone = "kg-warn" if failed else "kg-soft"
    how = escaped(str(last.status)) if last.status else escaped(last.why or "no answer")
    left = line.requests - len(line.used)
    more = f'<div class="kg-label">… and {left:,} earlier.</div>' if left else ""
    rows = "".join(_request(one) for one in reversed(line.used))
    return (
        f'<details class="kg-used" data-keep="used:{escaped(line.lease_id)}"><summary><span class="kg-soft">'
        f'{counted(line.requests, "request")}, the last:</span> <span class="{tone}">{how}</span></summary>'
        f'<div class="kg-inside"><table class="kg-table"><tbody>{rows}</tbody></table>{more}</div></details>'
    )


def _request(one: LeaseUsed) -> str:
    target = f"{one.method} {one.host}{one.path}"
    answer = str(one.status) if one.status else "no answer"
    tone = ' class="kg-warn"' if one.why or not 0 < one.status < _BAD_STATUS else ""
    why = f" {escaped(one.why)}" if one.why else ""
    return (
        f'<tr><td><code class="kg-where">{escaped(target)}</code></td> <td{tone}>{answer}{why}</td>'
        f" <td>{data_size(one.bytes_in)} in</td> <td>{seconds(one.duration)}</td></tr>"
    )


def _past(lease_id: str, held: Holding, view: RunView) -> str:
    used = "" if view.repeatable else _used(line_of(lease_id, held))
    return (
        f'<div class="kg-lease"><div class="kg-lease-top"><code class="kg-where">{escaped(held.name)}</code> '
        f'<span class="kg-soft">{escaped(_past_words(held, view))}</span></div>{used}</div>'
    )


def _past_words(held: Holding, view: RunView) -> str:
    """`held 12 min, given back`; without figures where the card has to come out the same."""
    # Somebody revoked it: running the cell again would not bring that about, so the card tells all of it.
    if view.repeatable and held.end != "revoked":
        return f"held, {_ending(held, view)}"
    renewed = f", renewed {counted(held.renewals, 'time')}" if held.renewals else ""
    return f"held {span(held.seconds)}{renewed}, {_ending(held, view)}"


def _ending(held: Holding, view: RunView) -> str:
    if not held.over:
        return "not seen to be given back; the next start takes it back" if view.finished is not None else "held"
    why = held.said.why
    if held.end == "left to expire":
        return f"over; {LIVES_ON}"
    if held.end == "revoked":
        return why
    return f"given back: {why}" if why and not view.repeatable else "given back"
