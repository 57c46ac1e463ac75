"""The connections of a run, folded from its events: what was refused, with the words that would grant it, and what was
reached.
"""  # noqa: D205 - one sentence

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from kagura_kernel.domain.events import EgressClosed, EgressDecided
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.visible import place, shown_place
from kagura_kernel.render.blocks import Block, Blocks, Fold, Group, Line, Span, Table, Words, code, label, soft, strong
from kagura_kernel.render.figures import counted, data_size, seconds

KEPT_PLACES = 500
"""Places that a view tells apart, refused ones and reached ones each; what comes after them is only counted."""

_CUT = frozenset({"limit", "idle", "time", "unreachable", "reset"})
_BUSY = "too many connections at once"
# How the membrane's reasons begin, and the same in few words that every machine would say.
_SHORT = (
    (re.compile(r"is not granted and ([0-9]+) questions are open"), "not asked: {} questions were open already"),
    (re.compile(r"is not granted"), "not granted"),
    (re.compile(r"was not approved"), "not approved"),
    (re.compile(r"was asked for, and the run was called off"), "the run was called off"),
    (re.compile(r"leads to no public address"), "no public address"),
    (re.compile(r"is no host that can be reached"), "no host that can be reached"),
    (re.compile(r"has to wait, and too many"), _BUSY),
    (re.compile(r"is one connection too many"), _BUSY),
    (re.compile(r"is granted, but the run has used up its bytes"), "the run has used up its bytes"),
    (re.compile(r"could not be looked up|has no address"), "its name leads nowhere"),
    (re.compile(r"did not answer|cannot be reached"), "no answer"),
)
_NOWHERE = re.compile(r"could not be looked up|has no address")
# The membrane's own sentence ends like this when there is something to type.
_ADVICE = re.compile(r" Grant it with: --net (\S+)\Z")


@dataclass(slots=True)
class Refused:
    """A place that the box did not get to, and how often that was said, at least."""

    host: str  # as it was asked for
    port: int  # TCP port
    reason: str  # the membrane's sentence
    times: int = 1  # how often
    tried: bool = False  # whether a connection was allowed and tried

    @property
    def place(self) -> str:
        """`example.org:443`."""
        return place(self.host, self.port)

    @property
    def net(self) -> str:
        """The word after `--net` that would grant it; empty when none would."""
        found = _ADVICE.search(self.reason)
        return found[1] if found else ""

    @property
    def why(self) -> str:
        """The reason as a clause, without the place and the advice."""
        return _ADVICE.sub("", self.reason).removeprefix(f"{self.place} ").rstrip(".")

    @property
    def unreached(self) -> bool:
        """Whether nobody refused it: it was granted or approved, and nothing answered there."""
        return self.tried or _NOWHERE.match(self.why) is not None

    @property
    def short(self) -> str:
        """The reason in a few words that are the same on every machine."""
        for begins, words in _SHORT:
            if found := begins.match(self.why):
                return words.format(*found.groups())
        return "broken off before anything came" if self.tried else "refused"


@dataclass(slots=True)
class Reached:
    """A place that the box was let to: its connections together."""

    host: str  # normalised name or address
    port: int  # TCP port
    rule: str  # what granted it
    connections: int = 0  # how many were allowed
    failed: int = 0  # how many of them came to nothing
    open: int = 0  # how many go on
    bytes_out: int = 0  # of all of them
    bytes_in: int = 0  # of all of them
    seconds: float = 0.0  # of all of them
    ended: Counter[str] = field(default_factory=Counter)  # how they ended
    detail: str = ""  # more about the latest that something cut

    @property
    def place(self) -> str:
        """`example.org:443`."""
        return place(self.host, self.port)

    @property
    def stood(self) -> bool:
        """Whether at least one connection stood, or goes on."""
        return self.connections > self.failed

    @property
    def cut(self) -> dict[str, int]:
        """How often something else than the two sides ended a connection, by what it was."""
        return {how: number for how, number in self.ended.items() if how in _CUT}


@dataclass(slots=True)
class Network:
    """All connections of a run."""

    # By host and port, in the order of their first refusal.
    refused: dict[tuple[str, int], Refused] = field(default_factory=dict)
    # By host and port, in the order of their first connection.
    reached: dict[tuple[str, int], Reached] = field(default_factory=dict)
    more_refused: int = 0  # refusals of places that are no longer told apart
    more_reached: int = 0  # connections to places that are no longer told apart

    def __bool__(self) -> bool:
        return bool(self.refused or self.reached)

    @property
    def denied(self) -> list[Refused]:
        """Places that the box was not let to, in the order in which that was said."""
        return [one for one in self.refused.values() if not one.unreached]

    @property
    def unreached(self) -> list[Refused]:
        """Places that it was let to and did not get to: their names lead nowhere, or no connection ever stood."""
        nowhere = [one for one in self.refused.values() if one.unreached]
        tried = [one for one in self.reached.values() if not one.stood]
        return [*nowhere, *(Refused(one.host, one.port, one.detail, one.failed, tried=True) for one in tried)]

    @property
    def stood(self) -> list[Reached]:
        """Places that connections stood to, in the order of the first."""
        return [one for one in self.reached.values() if one.stood]

    def apply(self, event: EgressDecided | EgressClosed) -> None:
        """Take one fact."""
        where = (event.host, event.port)
        if isinstance(event, EgressClosed):
            self._closed(event)
        elif event.allowed:
            if where not in self.reached and len(self.reached) >= KEPT_PLACES:
                self.more_reached += 1
                return
            reached = self.reached.setdefault(where, Reached(*where, event.rule))
            reached.connections += 1
            reached.open += 1
        elif where in self.refused:
            known = self.refused[where]
            # Counted for each reason; another reason begins anew.
            known.times = max(known.times, event.times) if known.reason == event.reason else event.times
            known.reason = event.reason
        elif len(self.refused) >= KEPT_PLACES:
            self.more_refused += 1
        else:
            self.refused[where] = Refused(*where, event.reason, event.times)

    def _closed(self, event: EgressClosed) -> None:
        reached = self.reached.get((event.host, event.port))
        if reached is None:
            return
        reached.open = max(0, reached.open - 1)
        reached.bytes_out += event.bytes_out
        reached.bytes_in += event.bytes_in
        reached.seconds += event.duration
        reached.connections += event.times - 1
        reached.ended[event.ended] += event.times
        failed = event.ended == "unreachable" or (event.ended == "reset" and not event.bytes_in)
        reached.failed += event.times if failed else 0
        if event.ended in _CUT:
            reached.detail = event.detail


# ---------------------------------------------------------------- what is shown

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


def network_blocks(network: Network, *, steady: bool, live: bool = False) -> Blocks:
    """The foot of a run's card; nothing when nothing was asked for.

    A steady card tells where, and neither how often nor how much. On a live one what is new stands last, and nothing
    moves.
    """
    if not network:
        return ()
    refused, unreached = (found if live else by_name(found) for found in (network.denied, network.unreached))
    rows: list[Block] = [_refused(one, steady=steady) for one in refused[:SHOWN_REFUSALS]]
    if more := len(refused) - len(rows) + network.more_refused:
        said = f"… and {counted(more, 'more refused place')}"
        rows.append(Line((f"{said}.",), "soft", plain=f"! {said}"))
    rows += [_refused(one, steady=steady) for one in unreached[:SHOWN_REFUSALS]]
    if (more := len(unreached) - SHOWN_REFUSALS) > 0:
        said = f"… and {counted(more, 'more place')} not reached"
        rows.append(Line((f"{said}.",), "soft", plain=f"! {said}"))
    # Whether a connection was cut depends on how fast the network was, not on the cell.
    rows.extend([] if steady else _cautions(network))
    return (Group((*rows, *_reached(network, steady=steady)), "net", "Network"),)


def by_name(places: Iterable[Place]) -> list[Place]:
    """In order: connections that are made at once come in any."""
    return sorted(places, key=lambda one: (one.host, one.port))


def _where(one: Reached | Refused, hint: str = "") -> Span:
    return code(shown_place(one.host, one.port), "where", hint)


def _refused(one: Refused, *, steady: bool) -> Line:
    often: Words = ()
    if one.times > 1 and not steady:
        often = (soft(f"×{one.times:,}", hint=f"At least {one.times:,} times"),)
    why = one.short if steady or one.why in _PLAIN or one.short.startswith("not asked") else one.why
    word = "Not reached" if one.unreached else "Refused"
    grant: Words = (soft("· grant it with"), code(f"--net {one.net}")) if one.net else ()
    granting = f"; --net {one.net} would grant it" if one.net else ""
    plain = f"! {word.lower()}: {shown_place(one.host, one.port)} ({one.short}{granting})"
    return Line((strong(word, "warn"), _where(one), soft(f"({why})"), *often, *grant), "refused", plain=plain)


def _cautions(network: Network) -> list[Block]:
    """What was cut at a limit is no whole file, whatever the program in the box made of it."""
    cut = [one for one in network.reached.values() if one.ended["limit"] or one.ended["time"]]
    rows: list[Block] = [
        Line((strong("Cut", "warn"), _where(one), soft(f"({_cut_words(one)})")), "cut") for one in cut[:_SHOWN_CUTS]
    ]
    if more := len(cut) - len(rows):
        rows.append(Line((f"… and {counted(more, 'more place')} cut.",), "soft"))
    return rows


def _cut_words(one: Reached) -> str:
    how = _ENDS["limit" if one.ended["limit"] else "time"]
    detail = one.detail.rstrip(".")
    return f"{how}, after {data_size(one.bytes_in)} in: {detail}" if detail else f"{how}, {data_size(one.bytes_in)} in"


def _reached(network: Network, *, steady: bool) -> Blocks:
    stood = by_name(network.stood)
    if not stood:
        return ()
    shown = stood[:SHOWN_PLACES]
    left = len(stood) - len(shown)
    head = ("host",) if steady else ("host", "connections", "out", "in", "time", "ended")
    inside: list[Block] = [Table([_row(one, steady=steady) for one in shown], head)]
    inside += [label(f"… and {counted(left, 'more place')}.")] if left else []
    unnamed = network.more_reached
    inside += [label(f"{counted(unnamed, 'more connection')} elsewhere.")] if unnamed else []
    named = ", ".join(shown_place(one.host, one.port) for one in shown)
    plain = f"= connected to {named}{f' and {left:,} more' if left else ''}"
    return (Fold((soft(_summary(network, steady=steady)),), tuple(inside), "reached", "reached", plain=plain),)


def _summary(network: Network, *, steady: bool) -> str:
    places = f"Connected to {counted(len(network.stood), 'place')}"
    if steady:
        return places
    incoming = sum(one.bytes_in for one in network.reached.values())
    outgoing = sum(one.bytes_out for one in network.reached.values())
    still = sum(one.open for one in network.reached.values())
    going = f", {counted(still, 'connection')} open" if still else ""
    return f"{places}, {data_size(incoming)} in, {data_size(outgoing)} out{going}"


def _row(one: Reached, *, steady: bool) -> list[Words]:
    where: Words = (_where(one, one.rule),)
    if steady:
        return [where]
    ends = [
        f"{_ENDS.get(how, how)}{f' ×{n:,}' if n > 1 and len(one.ended) > 1 else ''}" for how, n in one.ended.items()
    ]
    ended = ", ".join([*ends, *(["open"] if one.open else [])])
    took = seconds(one.seconds) if one.ended else "–"
    figures = (f"{one.connections:,}", data_size(one.bytes_out), data_size(one.bytes_in), took)
    return [where, *((figure,) for figure in figures), (Span(ended, tone="warn" if one.cut else ""),)]
