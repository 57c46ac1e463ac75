"""Hosts, ports and addresses: one spelling, the sets that one word grants, and addresses that no box may reach. Pure.

What is granted and what is asked for can be compared letter by letter. `normalise` is a fixed point: what it returns,
it returns unchanged. Whatever could be read in two ways by two programs (escapes, spaces, zones, empty labels, half a
number) is refused, never repaired. A set holds exactly what the tool of its name talks to for reading, and nothing that
takes uploads where that is another host. A name wins over a host of the same spelling; `npm:443` is the host.

The table is written out: the IANA special-purpose registries of IPv4 and IPv6, multicast, and the fixed addresses of
cloud platforms. `ipaddress.is_global` is not asked, because it lets several of them pass. In IPv6 only what is
allocated to the public network (2000::/3) and the well-known translation prefix can pass at all, so that a block that
is assigned tomorrow is refused until it stands here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import idna

from kagura_kernel.domain.errors import HostNotUnderstood
from kagura_kernel.domain.late_dataclass import dataclass

HTTPS = 443
HTTP = 80
MAX_HOST = 253
MAX_PORT = 65535

_SCHEMES = {"https": HTTPS, "http": HTTP, "wss": HTTPS, "ws": HTTP}
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+", re.ASCII)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#\\]*)", re.ASCII)
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
_PRINTABLE = range(0x21, 0x7F)


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """One place on the network."""

    host: str  # In the one spelling: a name in ASCII, `1.2.3.4`, or `2001:db8::1` without brackets
    port: int

    def __str__(self) -> str:
        return f"{bracketed(self.host)}:{self.port}"

    @property
    def address(self) -> IPv4Address | IPv6Address | None:
        """The address, when the host is one."""
        return address_of(self.host)


def make_target(host: str, port: int) -> Target:
    """A target from a host in any spelling.

    Raises:
        HostNotUnderstood: host or port cannot be.
    """
    if not 1 <= port <= MAX_PORT:
        raise HostNotUnderstood(f"{host}:{port}", "a port is a number from 1 to 65535")
    return Target(normalise(host), port)


def parse_target(text: str, default_port: int | None = None) -> Target:
    """`HOST:PORT`, `[IPV6]:PORT`, or a host alone when there is a default port.

    Raises:
        HostNotUnderstood: it is neither.
    """
    host, port = _split(text)
    if port is None and default_port is None:
        raise HostNotUnderstood(text, "it names no port")
    if port is not None and not _PORT.fullmatch(port):
        raise HostNotUnderstood(text, "a port is a number from 1 to 65535")
    return make_target(host, int(port) if port is not None else default_port or 0)


def parse_url(url: str) -> Target:
    """Where a URL leads: its host, and its port or that of its scheme (http, https, ws, wss).

    Raises:
        HostNotUnderstood: another scheme, a user name in it, or no host.
    """
    found = _URL.match(url)
    if found is None or found[1].lower() not in _SCHEMES:
        raise HostNotUnderstood(url, "the URL must begin with https:// or http://")
    if "@" in found[2]:
        raise HostNotUnderstood(url, "a URL with a user name in it hides where it leads")
    return parse_target(found[2], _SCHEMES[found[1].lower()])


def bracketed(host: str) -> str:
    """The host as it stands before `:PORT`."""
    return f"[{host}]" if ":" in host else host


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a normalised host is; None for a name."""
    if ":" in host:
        return IPv6Address(host)
    parts = host.split(".")
    return IPv4Address(host) if len(parts) == 4 and all(part.isdigit() for part in parts) else None  # noqa: PLR2004


def normalise(host: str) -> str:
    """The one spelling of a host.

    Lower case, IDNA (UTS 46, not transitional), one trailing dot dropped; an IPv4 address in any notation that a C
    library takes (`127.1`, `0x7f.0.0.1`, `2130706433`, `0177.0.0.1`) as four decimal numbers; an IPv6 address, with
    or without brackets, in its short form, and an IPv4-mapped one as the IPv4 address that would be reached.

    Raises:
        HostNotUnderstood: it is none of these.
    """
    if ":" in host or host.startswith("["):
        return _ipv6(host)
    name = host if host.isascii() else _mapped(host)
    name = name.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _ipv4(host, labels)
    if len(name) > MAX_HOST:
        raise HostNotUnderstood(host, f"it is longer than {MAX_HOST} letters")
    for label in labels:
        _check_label(host, label)
    return name


def _split(text: str) -> tuple[str, str | None]:
    if text.startswith("["):
        host, closed, rest = text.partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise HostNotUnderstood(text, "an IPv6 address stands in brackets, [ADDRESS]:PORT")
        return host + closed, rest[1:] if rest else None
    host, colon, port = text.partition(":")
    if ":" in port:
        # Without brackets nobody can tell where the address ends and the port begins.
        raise HostNotUnderstood(text, "an IPv6 address stands in brackets, [ADDRESS]:PORT")
    return host, port if colon else None


def _mapped(host: str) -> str:
    try:
        # The mapping turns full-width letters, digits and dots into plain ones, so it comes before everything else.
        plain = idna.uts46_remap(host, std3_rules=False, transitional=False)
        return plain if plain.isascii() else idna.encode(plain, strict=True).decode("ascii")
    except (UnicodeError, ValueError, IndexError) as error:
        raise HostNotUnderstood(host, "it is no international domain name") from error


def _check_label(host: str, label: str) -> None:
    if not _LABEL.fullmatch(label):
        odd = next((sign for sign in label if ord(sign) not in _PRINTABLE), "")
        why = "it holds a space or control character" if odd else "a part between its dots is no label of a name"
        raise HostNotUnderstood(host, why)
    if not label.startswith("xn--"):
        return
    try:
        same = idna.alabel(idna.ulabel(label)).decode("ascii") == label
    except (UnicodeError, ValueError, IndexError) as error:
        raise HostNotUnderstood(host, "its xn-- part stands for no name") from error
    if not same:
        raise HostNotUnderstood(host, "its xn-- part is not the one spelling of its name")


def _ipv4(host: str, labels: list[str]) -> str:
    why = "it ends in a number and is no IPv4 address"
    if len(labels) > 4 or not all(_NUMBER.fullmatch(label) and len(label) <= 20 for label in labels):  # noqa: PLR2004
        raise HostNotUnderstood(host, why)
    try:
        *first, last = [_number(label) for label in labels]
    except ValueError as error:
        raise HostNotUnderstood(host, why) from error
    if any(part > 255 for part in first) or last >= 256 ** (4 - len(first)):  # noqa: PLR2004 - a byte
        raise HostNotUnderstood(host, why)
    value = last
    for place, part in enumerate(first):
        value += part << (8 * (3 - place))
    return str(IPv4Address(value))


def _number(label: str) -> int:
    if label.startswith("0x"):
        return int(label[2:] or "0", 16)
    return int(label, 8 if len(label) > 1 and label.startswith("0") else 10)


def _ipv6(host: str) -> str:
    text = host
    if text.startswith("["):
        if not text.endswith("]"):
            raise HostNotUnderstood(host, "an IPv6 address stands in brackets, [ADDRESS]:PORT")
        text = text[1:-1]
    if "%" in text:
        raise HostNotUnderstood(host, "an address with a zone means something else on every machine")
    try:
        address = IPv6Address(text)
    except AddressValueError as error:
        raise HostNotUnderstood(host, "it is no IPv6 address") from error
    return str(address.ipv4_mapped or address)


HostSets = Mapping[str, Sequence[Target]]

ASK = "ask"
"""The word that makes any host that nothing grants a question to a person."""

NONE = "none"
"""The word that takes back what the settings and earlier words have opened."""

UNION = "tool-install"
"""The set that only joins others."""


def _https(*hosts: str) -> tuple[Target, ...]:
    return tuple(Target(host, HTTPS) for host in hosts)


# apt checks signatures itself and asks over plain HTTP unless told otherwise.
_DEBIAN_HOSTS = ("deb.debian.org", "security.debian.org")

PYTHON_PACKAGES = _https("pypi.org", "files.pythonhosted.org")
NPM = _https("registry.npmjs.org")
DEBIAN = (*_https(*_DEBIAN_HOSTS), *(Target(host, HTTP) for host in _DEBIAN_HOSTS))
GITHUB = _https(
    "github.com",
    "api.github.com",
    "codeload.github.com",
    "raw.githubusercontent.com",
    "objects.githubusercontent.com",
    "release-assets.githubusercontent.com",
    "media.githubusercontent.com",
)
RUST = _https("static.rust-lang.org", "index.crates.io", "static.crates.io", "crates.io")
GO = _https("go.dev", "dl.google.com", "proxy.golang.org", "sum.golang.org")
NODE = _https("nodejs.org")
UV = _https("astral.sh", "releases.astral.sh")

# What installing one finished tool takes, narrower than the sets above: no toolchains, and no forge but where that is
# the installer's own source. Go's proxy sends larger modules on to a storage that everybody can rent room in, so that a
# run which has this set can send data to a stranger.
GO_INSTALL = _https("proxy.golang.org", "sum.golang.org", "storage.googleapis.com")
CARGO_INSTALL = _https("index.crates.io", "static.crates.io")
GITHUB_RELEASES = _https("github.com", "objects.githubusercontent.com", "release-assets.githubusercontent.com")

HOST_SETS: HostSets = {
    "python-packages": PYTHON_PACKAGES,
    "npm": NPM,
    "debian": DEBIAN,
    "github": GITHUB,
    "rust": RUST,
    "go": GO,
    "node": NODE,
    UNION: tuple(dict.fromkeys((*PYTHON_PACKAGES, *NPM, *GITHUB, *RUST, *GO, *NODE, *UV))),
}
"""Every set by its name. `tool-install` is the union of what the common installers of developer tools need."""


def suggest(word: str, sets: Iterable[str] = HOST_SETS) -> str:
    """What was probably meant by a word after `--net` that is no set, one sentence; empty for what may be a host.

    A single word may be a host of one's own network: only what is nearly one of the words, and holds none of them, is
    taken for a slip.
    """
    known = (ASK, NONE, *sets)
    if "." in word or ":" in word or any(name in word for name in known):
        return ""
    # Nobody has a host whose name differs by its capital letters.
    near = get_close_matches(word.lower(), known, n=1, cutoff=0.8)
    if not near:
        return ""
    shown = ascii(word)
    return f"{shown} is no set of hosts. Did you mean {near[0]}? A host of this name is written {shown[1:-1]}:443."


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
