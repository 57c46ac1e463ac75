"""Whether a host and port may be reached, default deny, and what to type so that it may. Pure.

A run has exact grants. One is `HOST:PORT`, `HOST` (which means port 443 alone; plain HTTP is `HOST:80`), the name of a
host set, or `ask`. There are no wildcards and no ranges. A plugin's jail has its permissions, and nobody is ever asked:
a name may stand for all names below it; port and kind are part of each rule; `localhost` means the loopback. For both
an address outside the public network is opened by that very address and port and by nothing else, not even by a name
that resolves to it. Advice is the narrowest word that opens what was refused; where nothing that could be typed opens
it, that is said instead, and an address that hands out the machine's own credentials is never advised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Literal, Protocol

from kagura_kernel.domain.errors import ConfigurationError, HostNotUnderstood
from kagura_kernel.membrane.egress.addresses import HANDS_OUT, is_platform, why_never, why_refused
from kagura_kernel.membrane.egress.names import ASK, HOST_SETS, HTTPS, UNION, HostSets, Target, parse_target, suggest


class EgressVerdict(StrEnum):
    """What the policy says. Only `allow` opens anything; `ask` is a person's decision."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class EgressRuling:
    """What the policy says about one target."""

    target: Target  # What was asked for
    verdict: EgressVerdict  # Allow, ask or deny
    reason: str  # One clause for a person, without a full stop
    rule: str = ""  # The grant that allowed it, as it was written; otherwise empty


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
    """What one run may reach; part of its grant."""

    granted: Mapping[Target, str] = field(default_factory=dict)  # Each target with the word that granted it
    ask: bool = False  # Whether an unknown host is a question to a person rather than a denial
    # The sets of hosts that words may name, mirrors considered: for advice
    sets: HostSets = field(default_factory=lambda: HOST_SETS, repr=False, compare=False)
    # Whether one answer that must not be dialled speaks against the others too
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


_LOOPBACK = ("127.0.0.1", "::1")


class HostRule(Protocol):
    """Hosts that a jail may reach."""

    @property
    def kind(self) -> Literal["name", "one-level", "exact"]:
        """`name`: this name and all below it; `one-level`: exactly one label before it; `exact`: this host alone."""
        ...

    @property
    def host(self) -> str:
        """Normalised, without `*.`."""
        ...

    @property
    def port(self) -> int:
        """The only one."""
        ...


@dataclass(frozen=True, slots=True)
class PatternPolicy:
    """What one jail may reach; `EgressRules`."""

    rules: tuple[HostRule, ...] = ()  # In the order in which they are tried
    sets: None = field(default=None, init=False)  # None: what a jail may reach was decided when its plugin was enabled
    # A name with one private address among its public ones is somebody's trick, or somebody's mistake
    all_answers: bool = field(default=True, init=False)

    def decide(self, target: Target) -> EgressRuling:
        """Allowed by the first rule that fits, or denied."""
        for rule in self.rules:
            if admits(rule, target):
                shown = written(rule)
                return EgressRuling(target, EgressVerdict.ALLOW, f"permitted to the plugin by {shown}", shown)
        return EgressRuling(target, EgressVerdict.DENY, "is not among what the plugin may reach")

    def refuse_address(self, address: IPv4Address | IPv6Address, port: int) -> str | None:
        """Why this answer of a resolver must not be dialled; None when it may be."""
        exact = {place for rule in self.rules if rule.kind == "exact" and rule.port == port for place in _meant(rule)}
        return why_never(address) if str(address) in exact else why_refused(address)


def admits(rule: HostRule, target: Target) -> bool:
    """Whether a rule lets a target through. An address fits nothing but itself."""
    if target.port != rule.port:
        return False
    if target.host == rule.host:
        return rule.kind != "one-level"
    if rule.kind == "exact" or target.address is not None or not target.host.endswith(f".{rule.host}"):
        return False
    return rule.kind == "name" or "." not in target.host.removesuffix(f".{rule.host}")


def written(rule: HostRule) -> str:
    """How a person writes it."""
    if rule.kind == "exact":
        return str(Target(rule.host, rule.port))
    return f"*.{rule.host}" if rule.kind == "one-level" else rule.host


def _meant(rule: HostRule) -> Iterable[str]:
    return _LOOPBACK if rule.host == "localhost" else (rule.host,)


def word_for(target: Target, sets: HostSets = HOST_SETS) -> str:
    """The word after `--net` for a target: the smallest set that was made for what it belongs to, or the host itself.

    A set that only joins others is never it.
    """
    made_for = [name for name, targets in sets.items() if target in targets and name != UNION]
    if made_for:
        return min(made_for, key=lambda name: len(sets[name]))
    return str(target) if target.port != HTTPS else str(target).removesuffix(f":{HTTPS}")


def advice(target: Target, sets: HostSets = HOST_SETS) -> str:
    """What to type so that the target is granted, one sentence."""
    if target.address is not None and why_never(target.address):
        return _cannot([target.address])
    return f"Grant it with: --net {word_for(target, sets)}"


def address_advice(target: Target, refused: Iterable[str], *, granted: bool = True, sets: HostSets = HOST_SETS) -> str:
    """What to type when all addresses of a host have been refused, one sentence.

    Args:
        target: Host and port.
        refused: What the host resolved to; what is no address counts for nothing.
        granted: Whether the host itself is granted; if not, its word stands beside that of the address.
        sets: The sets of hosts that a person may grant by name.
    """
    addresses = list(_addresses(refused))
    grantable = [address for address in addresses if _opens(address, target.port)]
    if not grantable:
        return _cannot(addresses)
    # Servers on a loopback, and in most private networks, are listened to by IPv4.
    first = next((address for address in grantable if isinstance(address, IPv4Address)), grantable[0])
    words = [str(Target(str(first), target.port))]
    if not granted and target.address is None:
        words.insert(0, word_for(target, sets))
    return f"Grant it with: --net {','.join(words)}"


def _addresses(texts: Iterable[str]) -> Iterable[IPv4Address | IPv6Address]:
    for text in texts:
        try:
            yield ip_address(text)
        except ValueError:
            continue


def _opens(address: IPv4Address | IPv6Address, port: int) -> bool:
    """Whether the word for this address would open it: some are spelled otherwise in a grant, some have none."""
    mapped = isinstance(address, IPv6Address) and address.ipv4_mapped is not None
    return not mapped and EgressPolicy({Target(str(address), port): ""}).refuse_address(address, port) is None


def _cannot(addresses: Iterable[IPv4Address | IPv6Address]) -> str:
    platform = any(map(is_platform, addresses))
    return f"It {HANDS_OUT} and cannot be granted." if platform else "It cannot be granted."
