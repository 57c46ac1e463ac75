"""Leases: folded from the events of a run, and a row for each, with its time left, its buttons while it lives, and one
line afterwards. The card of a run and the board of all leases show the same row.
"""  # noqa: D205 - one sentence

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

from kagura_kernel.domain.events import LeaseChanged, LeaseUsed
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.render import blocks as ui
from kagura_kernel.render.figures import clock_face, counted, data_size, seconds, span

LeaseEnd = Literal["given back", "revoked", "left to expire"]
"""How a lease ended: with its run; by a person's word before that; or not at its provider, which cannot end it."""

KEPT_REQUESTS = 20
"""Requests of one lease that a view holds; all of them are counted."""


@dataclass(slots=True)
class Holding:
    """One lease of the run: what was said of it last, since when it is held, and what it was used for."""

    said: LeaseChanged  # the latest change
    since: datetime  # when it was acquired
    renewals: int = 0  # how often it was renewed
    requests: int = 0  # how many requests a credential was added to
    # The last of them, oldest first.
    latest: deque[LeaseUsed] = field(default_factory=lambda: deque(maxlen=KEPT_REQUESTS))

    @property
    def name(self) -> str:
        """`github:read`."""
        return f"{self.said.provider}:{self.said.scope}"

    @property
    def over(self) -> bool:
        """Whether the run holds it no more."""
        return self.said.change == "released"

    @property
    def end(self) -> LeaseEnd | Literal[""]:
        """How it ended; empty while it is held."""
        return lease_end(self.said.why) if self.over else ""

    @property
    def seconds(self) -> float:
        """From its first credential to what was said last."""
        return max(0.0, (self.said.at - self.since).total_seconds())


def hold(leases: dict[str, Holding], event: LeaseChanged | LeaseUsed) -> None:
    """Take one fact about a lease; a use of a lease that nobody spoke of is passed over."""
    held = leases.get(event.lease_id)
    if isinstance(event, LeaseUsed):
        if held is not None:
            held.requests += event.times
            held.latest.append(event)
    elif held is None:
        leases[event.lease_id] = Holding(event, event.at)
    else:
        # Its end says neither way nor place again.
        kept = {name: getattr(event, name) or getattr(held.said, name) for name in ("way", "place")}
        held.said = event.model_copy(update=kept)
        held.renewals += event.change == "renewed"


def lease_end(why: str) -> LeaseEnd:
    """How a lease ended, from what the run said of its end."""
    if why.startswith("revoked"):
        return "revoked"
    return "left to expire" if why.startswith("left to expire") else "given back"


# ---------------------------------------------------------------- what is shown

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
    """What a row says."""

    lease_id: str
    name: str  # `provider:scope`
    state: str  # live, held up, on hold, released
    expires_at: datetime | None = None  # when its present credential ends; None without one
    budget_left: float = 0.0  # seconds beyond that
    renewals_left: int = 0
    way: str = ""  # `header`, `file` or `env`
    place: str = ""  # where programs find it
    why: str = ""  # more about trouble and ends
    where: str = ""  # on the board: which run holds it, and in which kernel
    steerable: bool = False  # whether its buttons would do something
    used: Sequence[LeaseUsed] = ()  # the latest requests
    requests: int = 0  # how many there were


def leases_blocks(
    leases: Mapping[str, Holding], now: datetime | None, *, steady: bool, is_over: bool, live: bool = False
) -> ui.Blocks:
    """The leases of a run; nothing when it had none."""
    if not leases:
        return ()
    if live and not is_over:
        since = now or next(iter(leases.values())).since
        rows = [lease_row(line_of(lease_id, held), since) for lease_id, held in leases.items()]
    else:
        rows = [_past(lease_id, held, steady=steady, is_over=is_over) for lease_id, held in leases.items()]
    return (ui.Group(tuple(rows), "leases", "Leases"),)


def lease_board(lines: Sequence[LeaseLine], now: datetime, *, live: bool) -> ui.Blocks:
    """All leases that runs hold; without `live` as they were at that time."""
    held = f"{counted(len(lines), 'credential')} held" if lines else "no run holds a credential"
    rows = tuple(lease_row(line, now, live=live) for line in lines)
    inside = (ui.Group(rows, "leases", "Leases"),) if rows else ()
    return (ui.head("Leases", ui.soft(held), plain=f"[leases: {held}]"), *inside, ui.Told())


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


def lease_row(line: LeaseLine, now: datetime, *, live: bool = True) -> ui.Group:
    """One row; its time left ticks in the browser, counted from `now`. What is not live says when it ends."""
    tone, state = _STATES.get(line.state, ("warn", line.state))
    over = line.state == "released"
    state = _ENDS[lease_end(line.why)] if over else state
    why = line.why or _MEANING.get(line.state, "")
    if over and lease_end(line.why) == "left to expire":
        why = LIVES_ON
    facts = [] if over else [ui.item(fact) for fact in _facts(line)]
    facts += [ui.item(ui.Span(line.where, "prose"))] if line.where else []
    clock = () if over else (_clock(line, now, live=live),)
    inside: list[ui.Block] = [
        ui.Line((ui.code(line.name, "where"), ui.chip(state, tone), *clock, ui.SPRING, *_buttons(line)), "lease-top"),
        ui.Line(tuple(facts), "facts soft"),
        *([ui.Line((why,), "why")] if why else []),
        *_used(line),
        ui.Told(),
    ]
    plain = "  ".join(filter(None, [line.lease_id, line.name, state, line.where]))
    return ui.Group(tuple(inside), "lease", f"Lease {line.name}", {"lease": line.lease_id}, plain)


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


def _clock(line: LeaseLine, now: datetime, *, live: bool) -> ui.Span | ui.Clock:
    if line.expires_at is None:
        return ui.soft("no credential now")
    if not live:
        return ui.soft(f"until {line.expires_at:%Y-%m-%d %H:%M:%S} UTC")
    left = max(0.0, (line.expires_at - now).total_seconds())
    return ui.Clock(left, "expires", clock_face(left))


def _facts(line: LeaseLine) -> list[str]:
    used = [way_words(line.way, line.place)] if line.way or line.place else []
    if line.renewals_left and line.budget_left >= 1:
        used.append(f"then {span(line.budget_left)} of budget, {counted(line.renewals_left, 'renewal')} left")
    elif line.state == "live":
        used.append("not renewed any more")
    return used


def _buttons(line: LeaseLine) -> tuple[ui.Button, ...]:
    if line.state == "released" or not line.steerable:
        return ()
    about = {"id": line.lease_id}
    fresh = "Ask for a fresh budget; the question appears in the run’s card"
    back = "Give the credential back at once; what uses it stops working"
    return (
        ui.Button("Extend", "extend", about, "small", f"Extend {line.name}", fresh),
        ui.Button("Revoke now", "revoke", about, "small danger", f"Revoke now: {line.name}", back),
    )


def _used(line: LeaseLine) -> ui.Blocks:
    if not line.requests:
        return ()
    last = line.used[-1]
    how = str(last.status) if last.status else last.why or "no answer"
    inside: list[ui.Block] = [ui.Table([_request(one) for one in reversed(line.used)])]
    left = line.requests - len(line.used)
    inside += [ui.label(f"… and {left:,} earlier.")] if left else []
    said = (
        ui.soft(f"{counted(line.requests, 'request')}, the last:"),
        ui.Span(how, tone="warn" if _failed(last) else "soft"),
    )
    return (ui.Fold(said, tuple(inside), f"used:{line.lease_id}", "used"),)


def _failed(one: LeaseUsed) -> bool:
    return bool(one.why) or not 0 < one.status < _BAD_STATUS


def _request(one: LeaseUsed) -> list[ui.Words]:
    answer = " ".join(filter(None, [str(one.status) if one.status else "no answer", one.why]))
    return [
        (ui.code(f"{one.method} {one.host}{one.path}", "where"),),
        (ui.Span(answer, tone="warn" if _failed(one) else ""),),
        (f"{data_size(one.bytes_in)} in",),
        (seconds(one.duration),),
    ]


def _past(lease_id: str, held: Holding, *, steady: bool, is_over: bool) -> ui.Group:
    used = () if steady else _used(line_of(lease_id, held))
    words = _past_words(held, steady=steady, is_over=is_over)
    plain = f"= lease {held.name}: {_ending(held, steady=steady, is_over=is_over)}"
    return ui.Group((ui.Line((ui.code(held.name, "where"), ui.soft(words)), "lease-top"), *used), "lease", plain=plain)


def _past_words(held: Holding, *, steady: bool, is_over: bool) -> str:
    """`held 12 min, given back`; without figures where the card has to come out the same."""
    # Somebody revoked it: running the cell again would not bring that about, so the card tells all of it.
    if steady and held.end != "revoked":
        return f"held, {_ending(held, steady=steady, is_over=is_over)}"
    renewed = f", renewed {counted(held.renewals, 'time')}" if held.renewals else ""
    return f"held {span(held.seconds)}{renewed}, {_ending(held, steady=steady, is_over=is_over)}"


def _ending(held: Holding, *, steady: bool, is_over: bool) -> str:
    if not held.over:
        return "not seen to be given back; the next start takes it back" if is_over else "held"
    why = held.said.why
    if held.end == "left to expire":
        return f"over; {LIVES_ON}"
    if held.end == "revoked":
        return why
    return f"given back: {why}" if why and not steady else "given back"
