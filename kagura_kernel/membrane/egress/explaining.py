"""Why a target is allowed or refused, for a person who asks beforehand. Connects to nothing, asks nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from kagura_kernel.membrane.egress.gate import Resolver, check_answers
from kagura_kernel.membrane.egress.limits import EgressLimits
from kagura_kernel.membrane.egress.names import Target
from kagura_kernel.membrane.egress.policy import EgressPolicy, EgressRuling, EgressVerdict, address_advice, advice


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision on one target."""

    target: Target
    ruling: EgressRuling  # What the grants say
    allowed: bool  # Whether a connection would be made without asking anybody
    reason: str  # Why, one sentence
    # What it resolves to here, each with why it may not be reached; None when it may
    addresses: tuple[tuple[str, str | None], ...] = ()
    advice: str = ""  # What to type so that it is granted; empty when that is not the hindrance


async def explain(policy: EgressPolicy, target: Target, resolver: Resolver | None) -> Explanation:
    """The decision on a target; without a resolver names are taken to have addresses that may be reached.

    Unlike a box's connection this looks names up that are not granted: it is a person who asks.
    """
    ruling = policy.decide(target)
    granted = ruling.verdict is EgressVerdict.ALLOW
    answers, problem = await _answers(target, resolver)
    checked = check_answers(policy, answers, target.port)
    allowed = granted and not problem and (bool(checked.allowed) or (resolver is None and target.address is None))
    reason = _reason(ruling, allowed=allowed, problem=problem)
    refused = dict(checked.refused)
    addresses = tuple((address, refused.get(address)) for address in [*map(str, checked.allowed), *refused])
    how = "" if granted else advice(target, policy.sets)
    if refused and not checked.allowed and target.address is None:
        how = address_advice(target, refused, granted=granted, sets=policy.sets)
    return Explanation(target, ruling, allowed, reason, addresses, how)


def _reason(ruling: EgressRuling, *, allowed: bool, problem: str) -> str:
    if ruling.verdict is not EgressVerdict.ALLOW:
        return _sentence(ruling.reason)
    if allowed:
        return _sentence(f"is {ruling.reason}")
    return _sentence(f"is {ruling.reason}, but {problem or 'none of its addresses may be reached'}")


def _sentence(clause: str) -> str:
    return f"It {clause}."


async def _answers(target: Target, resolver: Resolver | None) -> tuple[Sequence[str], str]:
    if target.address is not None:
        return [target.host], ""
    if resolver is None:
        return [], ""
    try:
        async with asyncio.timeout(EgressLimits().resolve):
            return await resolver(target.host, target.port), ""
    except TimeoutError:
        return [], "it could not be looked up in time"
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "the resolver did not take it"
        return [], f"it could not be looked up: {reason.lower()}"
