"""Whether a plugin's jail may reach a host and port: by its permissions, default deny, and nobody is ever asked. Pure.

A name may stand for all names below it, unlike the grants of a run. Port and kind are part of each rule. As there, an
address outside the public network is opened by that very address alone; `localhost` means the loopback.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import Literal, Protocol

from kagura_kernel.membrane.egress.addresses import why_never, why_refused
from kagura_kernel.membrane.egress.names import Target
from kagura_kernel.membrane.egress.policy import EgressRuling, EgressVerdict

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
    """What one jail may reach; `EgressRules`.

    Attributes:
        rules: In the order in which they are tried.
        sets: None: what a jail may reach was decided when its plugin was enabled.
        all_answers: A name with one private address among its public ones is somebody's trick, or somebody's mistake.
    """

    rules: tuple[HostRule, ...] = ()
    sets: None = field(default=None, init=False)
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
