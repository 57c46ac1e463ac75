"""Which addresses no box may reach unless that very one was granted, and why. Pure.

The table is written out: the IANA special-purpose registries of IPv4 and IPv6, multicast, and the fixed addresses of
cloud platforms. `ipaddress.is_global` is not asked, because it lets several of them pass. In IPv6 only what is
allocated to the public network (2000::/3) and the well-known translation prefix can pass at all, so that a block that
is assigned tomorrow is refused until it stands here.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

# Before the networks that hold them: a person should read what it really is. None of them can be granted: what a
# machine's credentials open is leased, with an end and counted, and never taken from the machine by the box itself.
PLATFORM = {
    "169.254.169.254": "the metadata service of cloud machines",
    "169.254.170.2": "the credentials service of AWS containers",
    "169.254.170.23": "the credentials service of AWS pods",
    "169.254.42.42": "the metadata service of Scaleway",
    "168.63.129.16": "the host service of Azure",
    "100.100.100.200": "the metadata service of Alibaba Cloud",
    "192.0.0.192": "the metadata service of Oracle Cloud",
    "fd00:ec2::254": "the metadata service of AWS",
    "fd00:ec2::23": "the credentials service of AWS pods",
    "fd20:ce::254": "the metadata service of Google Cloud",
    "fd00:42::42": "the metadata service of Scaleway",
}

IPV4 = {
    "0.0.0.0/8": "this host",
    "10.0.0.0/8": "a private network",
    "100.64.0.0/10": "the shared network of a provider (CGNAT)",
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "a private network",
    "192.0.0.0/24": "reserved for protocols",
    "192.0.2.0/24": "for documentation",
    "192.31.196.0/24": "an AS112 sink",
    "192.52.193.0/24": "a multicast tunnel (AMT)",
    "192.88.99.0/24": "a 6to4 relay",
    "192.168.0.0/16": "a private network",
    "192.175.48.0/24": "an AS112 sink",
    "198.18.0.0/15": "for benchmarking",
    "198.51.100.0/24": "for documentation",
    "203.0.113.0/24": "for documentation",
    "224.0.0.0/4": "multicast",
    "255.255.255.255/32": "broadcast",
    "240.0.0.0/4": "reserved",
}

IPV6 = {
    "::/128": "the unspecified address",
    "::1/128": "loopback",
    "::ffff:0:0/96": "an IPv4 address in another dress (IPv4-mapped)",
    "::/96": "an IPv4 address in another dress (IPv4-compatible)",
    "64:ff9b:1::/48": "a local translation to IPv4 (NAT64)",
    "100::/64": "a black hole",
    "100:0:0:1::/64": "a dummy prefix",
    "2001::/32": "a tunnel to an IPv4 address (Teredo)",
    "2001:2::/48": "for benchmarking",
    "2001:10::/28": "an identifier, no address (ORCHID)",
    "2001:20::/28": "an identifier, no address (ORCHID)",
    "2001:30::/28": "an identifier, no address (DRIP)",
    "2001::/23": "reserved for protocols",
    "2001:db8::/32": "for documentation",
    "2002::/16": "a tunnel to an IPv4 address (6to4)",
    "2620:4f:8000::/48": "an AS112 sink",
    "3fff::/20": "for documentation",
    "5f00::/16": "a segment identifier",
    "fc00::/7": "a private network",
    "fe80::/10": "link-local",
    "fec0::/10": "site-local",
    "ff00::/8": "multicast",
}

NAT64 = IPv6Network("64:ff9b::/96")
PUBLIC_IPV6 = IPv6Network("2000::/3")

# Bits 64 to 95 of an address whose interface is an IPv4 address behind an ISATAP tunnel.
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE, 0x0100_5EFE, 0x0300_5EFE})

# Networks whose addresses end in an IPv4 address.
_DRESSES = (IPv6Network("::ffff:0:0/96"), IPv6Network("::/96"), NAT64, IPv6Network("64:ff9b:1::/48"))

# No connection to these can be meant: they name nobody, everybody, or this host under another name.
_NEVER = (IPv4Network("0.0.0.0/8"), IPv4Network("224.0.0.0/4"), IPv4Network("255.255.255.255/32"))
_NEVER_6 = (IPv6Network("::/128"), IPv6Network("ff00::/8"))

HANDS_OUT = "hands out the machine's own credentials"
"""What every address of `PLATFORM` does."""

_PLATFORM = {ip_address(address): why for address, why in PLATFORM.items()}
_IPV4 = [(IPv4Network(network), why) for network, why in IPV4.items()]
_IPV6 = [(IPv6Network(network), why) for network, why in IPV6.items()]


def why_refused(address: IPv4Address | IPv6Address) -> str | None:
    """What the address is, when it is no address of the public network; None when it may be reached."""
    if address in _PLATFORM:
        return _PLATFORM[address]
    if isinstance(address, IPv4Address):
        return next((why for network, why in _IPV4 if address in network), None)
    if address.scope_id is not None:
        return "an address with a zone"
    return _why_ipv6(address)


def why_never(address: IPv4Address | IPv6Address) -> str | None:
    """Why the address cannot even be granted; None when an exact grant opens it."""
    if is_platform(address):
        return why_refused(address)
    if isinstance(address, IPv4Address):
        never = any(address in network for network in _NEVER)
    else:
        never = any(address in network for network in _NEVER_6) or address.scope_id is not None
    return why_refused(address) if never else None


def is_platform(address: IPv4Address | IPv6Address) -> bool:
    """Whether it leads to one of the fixed addresses of cloud platforms, in whatever dress."""
    return any(one in _PLATFORM for one in (address, *_inner(address)))


def _inner(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that an IPv6 address may stand for."""
    if isinstance(address, IPv4Address):
        return
    ends_in_one = any(address in network for network in _DRESSES) or _is_isatap(address)
    if ends_in_one:
        yield IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo


def _is_isatap(address: IPv6Address) -> bool:
    return (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP


def _why_ipv6(address: IPv6Address) -> str | None:
    if address in NAT64:
        inner = IPv4Address(int(address) & 0xFFFF_FFFF)
        refused = why_refused(inner)
        return f"a translation (NAT64) of {inner}, which is {refused}" if refused else None
    for network, why in _IPV6:
        if address in network:
            return why
    if address not in PUBLIC_IPV6:
        return "not allocated to the public network"
    if _is_isatap(address):
        return "a tunnel to an IPv4 address (ISATAP)"
    return None
