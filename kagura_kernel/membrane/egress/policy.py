"""Whether a run may reach a host and port: by exact grant, default deny. Pure.

A grant is `HOST:PORT`, `HOST` (which means port 443 alone; plain HTTP is `HOST:80`), the name of a host set, or `ask`.
There are no wildcards and no ranges. An address outside the public network is opened by that very address and port and
by nothing else, not even by a granted name that resolves to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Protocol

from kagura_kernel.domain.errors import ConfigurationError, HostNotUnderstood
from kagura_kernel.membrane.egress.addresses import HANDS_OUT, is_platform, why_never, why_refused
from kagura_kernel.membrane.egress.hostsets import ASK, HOST_SETS, HostSets, suggest
from kagura_kernel.membrane.egress.names import HTTPS, Target, parse_target


class EgressVerdict(StrEnum):
    """What the policy says. Only `allow` opens anything; `ask` is a person's decision."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class EgressRuling:
    """What the policy says about one target.

    Attributes:
        target: What was asked for.
        verdict: Allow, ask or deny.
        reason: One clause for a person, without a full stop.
        rule: The grant that allowed it, as it was written; otherwise empty.
    """

    target: Target
    verdict: EgressVerdict
    reason: str
    rule: str = ""


class EgressRules(Protocol):
    """What a gate asks before it opens anything; looks nothing up."""

    @property
    def sets(self) -> HostSets | None:
        """The sets of hosts that words after `--net` may name; None where no such word would open anything."""
        ...

    @property
    def all_answers(self) -> bool:
        """Whether one answer of a resolver that must not be dialled speaks against the others too."""
        ...

    def decide(self, target: Target) -> EgressRuling:
        """The ruling on one target."""
        ...

    def refuse_address(self, address: IPv4Address | IPv6Address, port: int) -> str | None:
        """Why this answer of a resolver must not be dialled; None when it may be."""
        ...


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """What one run may reach; part of its grant.

    Attributes:
        granted: Each target with the word that granted it.
        ask: Whether an unknown host is a question to a person rather than a denial.
        sets: The sets of hosts that words may name, mirrors considered: for advice.
        all_answers: Whether one answer that must not be dialled speaks against the others too.
    """

    granted: Mapping[Target, str] = field(default_factory=dict)
    ask: bool = False
    sets: HostSets = field(default_factory=lambda: HOST_SETS, repr=False, compare=False)
    all_answers: bool = field(default=False, init=False)

    def decide(self, target: Target) -> EgressRuling:
        """The ruling on one target, without looking anything up."""
        if (rule := self.granted.get(target)) is not None:
            return EgressRuling(target, EgressVerdict.ALLOW, f"granted by --net {rule}", rule)
        address = target.address
        if address is not None and (why := why_refused(address)):
            # Nobody is asked about these: a question that sounds harmless would open the house.
            return EgressRuling(target, EgressVerdict.DENY, f"is not granted, and the address is {why}")
        if self.ask:
            return EgressRuling(target, EgressVerdict.ASK, "is not granted; a person is asked")
        return EgressRuling(target, EgressVerdict.DENY, f"is not granted to this run{self._near(target)}")

    def refuse_address(self, address: IPv4Address | IPv6Address, port: int) -> str | None:
        """Why this answer of a resolver must not be dialled; None when it may be."""
        if Target(str(address), port) in self.granted:
            return why_never(address)
        return why_refused(address)

    def _near(self, target: Target) -> str:
        ports = sorted(known.port for known in self.granted if known.host == target.host)
        return f"; only its port {', '.join(map(str, ports))} is" if ports else ""


def parse_grants(words: Iterable[str], sets: HostSets = HOST_SETS) -> EgressPolicy:
    """The policy that the words after `--net` make.

    Raises:
        ConfigurationError: with every word that is not understood, each a line.
    """
    granted: dict[Target, str] = {}
    ask = False
    problems: list[str] = []
    for word in words:
        if word == ASK:
            ask = True
        elif word in sets:
            granted |= {target: word for target in sets[word] if target not in granted}
        elif near := suggest(word, sets):
            problems.append(near)
        else:
            try:
                granted.setdefault(_grant(word), word)
            except HostNotUnderstood as error:
                problems.append(error.message)
    if problems:
        raise ConfigurationError("--net", problems)
    return EgressPolicy(granted, ask, sets)


def _grant(word: str) -> Target:
    if "://" in word or "/" in word:
        raise HostNotUnderstood(word, "a grant is HOST or HOST:PORT, not a URL and not a range")
    if "*" in word:
        raise HostNotUnderstood(word, "a grant names one host; there are no wildcards")
    target = parse_target(word, HTTPS)
    if target.address is not None and (why := why_never(target.address)):
        grave = f"{HANDS_OUT} and " if is_platform(target.address) else ""
        raise HostNotUnderstood(word, f"it is {why}, which {grave}cannot be granted")
    return target
