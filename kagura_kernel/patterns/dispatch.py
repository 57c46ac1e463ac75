"""The rules by which work is handed on: no child gets more than its parent, and no sum exceeds its limit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.errors import HostNotUnderstood, UsageError
from kagura_kernel.domain.events import (
    ApprovalDecided,
    ApprovalRequested,
    ChangesSettled,
    ChildStarted,
    EgressDecided,
    Event,
    LeaseUsed,
    PluginCalled,
    ToolCalled,
    ToolFinished,
)
from kagura_kernel.domain.patterns import DelegationTerms, Handoff
from kagura_kernel.membrane.credentials.lease import parse_grant
from kagura_kernel.membrane.egress.hosts import ASK, HTTPS, NONE, HostSets, Target, parse_target
from kagura_kernel.membrane.egress.policy import parse_grants
from kagura_kernel.membrane.grant import RunGrant

LEAST_SHARE_USD = 0.0001
"""A share below this buys nothing."""


# ------------------------------------------------------------------- the grant


def asked_words(parent: RunGrant, net: Sequence[str] | None, credentials: Sequence[str]) -> Handoff:
    """What a child is to reach and to lease, checked against what its parent may.

    Args:
        parent: The grant of the run that hands work on.
        net: Words as after `--net`; None gives all that the parent has.
        credentials: Each as `PROVIDER:SCOPE`.

    Raises:
        UsageError: something in it is not understood, or the parent does not have it.
    """
    words = tuple(dict.fromkeys(parent.net if net is None else net))
    words = () if NONE in words else words
    beyond = [word for word in words if not _covers(parent.net, word, parent.sets)]
    if beyond:
        has = ", ".join(parent.net) or "none"
        raise UsageError(f"This run may not reach {', '.join(beyond)}, so that it cannot hand it on. It has: {has}.")
    wanted = tuple(dict.fromkeys(parse_grant(word) for word in credentials))
    missing = [str(one) for one in wanted if one not in parent.credentials]
    if missing:
        has = ", ".join(map(str, parent.credentials)) or "none"
        raise UsageError(f"This run does not hold {', '.join(missing)}, so that it cannot hand it on. It has: {has}.")
    return Handoff(net=words, credentials=tuple(map(str, wanted)))


def capped(grant: RunGrant, handoff: Handoff) -> RunGrant:
    """A child's grant, cut down to what it was handed; nothing that is found out later widens it any more.

    Args:
        grant: What its own words and its agent's definition come to.
        handoff: What it was handed; one without a lineage is a person's own and caps nothing.

    Raises:
        UsageError: the handed words are not understood here.
    """
    if not handoff.lineage:
        return grant
    words = tuple(word for word in grant.net if _covers(handoff.net, word, grant.sets))
    credentials = tuple(one for one in grant.credentials if str(one) in handoff.credentials)
    kept = {*words, *(f"credential {one}" for one in credentials)}
    return replace(
        grant,
        net=words,
        egress=parse_grants(words, grant.sets),
        credentials=credentials,
        writable_root=False,
        # What a definition asks for beside hosts and credentials is about the child's own box alone.
        asked=tuple(word for word in grant.asked if word in kept or _is_other(word, grant)),
        closed=True,
    )


def _is_other(word: str, grant: RunGrant) -> bool:
    return word not in grant.net and not word.startswith("credential ")


def _covers(words: Sequence[str], word: str, sets: HostSets) -> bool:
    """Whether a word opens nothing that these words do not open."""
    if word in words:
        return True
    if word == ASK:
        return False
    opened = {target for one in words if one != ASK for target in _targets(one, sets)}
    targets = _targets(word, sets)
    return bool(targets) and targets <= opened


def _targets(word: str, sets: HostSets) -> set[Target]:
    if word in sets:
        return set(sets[word])
    try:
        return {parse_target(word, HTTPS)}
    except HostNotUnderstood:
        return set()


# ------------------------------------------------------------------ the budget


def share_of(left: float | None, wanted: float | None, at_once: int) -> float | None:
    """What a child may spend, USD; None is no limit, which only a child of a run without a limit has.

    Args:
        left: What its parent has left; None where it has no limit.
        wanted: What was asked for; None takes a part of what is left, so that as many more as may work at once get
            theirs, and something remains for the parent.
        at_once: How many may work at once.

    Raises:
        UsageError: there is not so much.
    """
    if left is None:
        return wanted
    if wanted is None:
        wanted = left / (at_once + 1)
    if wanted >= left or wanted < LEAST_SHARE_USD:
        raise UsageError(
            f"A share of ${wanted:.4f} cannot be handed on: ${left:.4f} of this run's budget is left, and it needs "
            "some of that itself. Ask for less, or do the work yourself."
        )
    return wanted


def even_share(limit: float | None, spent: float, waiting: int) -> float | None:
    """What the next one of a set may spend, USD, so that as much is there for each of those that wait.

    Args:
        limit: Of the whole set; None is none.
        spent: What was spent, and what may still be by those that go on.
        waiting: How many have not begun, the next one among them.
    """
    return None if limit is None else max(0.0, limit - spent) / max(1, waiting)


def charged(share: float | None, usd: float | None) -> float:
    """What a child that is over takes from its parent's budget: its whole share where nobody knows what it cost."""
    if usd is None:
        return share or 0.0
    return max(0.0, usd)


# ------------------------------------------------------------------ the limits


def why_not(terms: DelegationTerms, depth: int, children: int) -> str:
    """Why a run may hand nothing more on, a sentence; empty when it may.

    Args:
        terms: Its limits.
        depth: How far below the first run it is.
        children: How many children it has had.
    """
    if depth >= terms.depth:
        return f"Work is handed on at most {terms.depth} deep, and this run is at that depth: do the work yourself."
    if children >= terms.children:
        return f"This run has handed on as many parts of its work as it may ({children}): do the rest yourself."
    return ""


def below(terms: DelegationTerms) -> DelegationTerms:
    """The limits of a child: those of its parent, and what it hands on stays in its own process."""
    return replace(terms, workers="")


def tighter(one: DelegationTerms, other: DelegationTerms | None) -> DelegationTerms:
    """The tighter of two sets of limits, in each respect; where children run is the second one's, if there is one."""
    if other is None:
        return one
    return replace(
        other,
        depth=min(one.depth, other.depth),
        children=min(one.children, other.children),
        at_once=min(one.at_once, other.at_once),
    )


# ------------------------------------------------------------- a second attempt


_ASKED_DEEDS = frozenset({ApprovalKind.HOST_COMMAND, ApprovalKind.PLUGIN, ApprovalKind.TOOL, ApprovalKind.WRITE})


def _always(_event: Any) -> bool:
    return True


_DEEDS: tuple[tuple[type[Event], Callable[[Any], bool], str], ...] = (
    (ToolFinished, lambda one: one.route == "host", "it had run a command on the host"),
    (PluginCalled, _always, "it had called a plugin"),
    (LeaseUsed, _always, "it had used a credential"),
    (EgressDecided, lambda one: one.allowed, "it had opened a connection"),
    (ChangesSettled, lambda one: bool(one.applied), "some of its changes had reached the project"),
    (ChildStarted, _always, "it had handed work on itself"),
)
"""What leaves a box."""


def why_not_again(events: Iterable[Event], *, full_control: bool = False) -> str:
    """Why a run whose worker is gone must not be done once more, half a sentence; empty when it may.

    What it did in its box went with its box. What left it, or may have left it, would happen twice.

    Args:
        events: All that is recorded of it.
        full_control: Whether its commands ran on the host without asking.
    """
    rows = list(events)
    done = [words for row in rows for kind, holds, words in _DEEDS if isinstance(row, kind) and holds(row)]
    if done:
        return done[0]
    asked = {row.approval_id for row in rows if isinstance(row, ApprovalRequested) and row.subject in _ASKED_DEEDS}
    if any(isinstance(row, ApprovalDecided) and row.verdict == "allow" and row.approval_id in asked for row in rows):
        return "a person had allowed it something, and nobody knows whether it was done"
    calls = [row for row in rows if isinstance(row, ToolCalled) and (full_control or row.arguments.get("host"))]
    over = {row.call_id for row in rows if isinstance(row, ToolFinished)}
    return "it may have run a command on the host" if any(call.call_id not in over for call in calls) else ""
