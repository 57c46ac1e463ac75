"""What to type so that a box may reach what it was refused: the narrowest word that opens it. Pure.

Where nothing that could be typed opens it, that is said instead. An address that hands out the machine's own
credentials is never advised.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address

from kagura_kernel.membrane.egress.addresses import HANDS_OUT, is_platform, why_never
from kagura_kernel.membrane.egress.hostsets import HOST_SETS, UNION, HostSets
from kagura_kernel.membrane.egress.names import HTTPS, Target
from kagura_kernel.membrane.egress.policy import EgressPolicy


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
