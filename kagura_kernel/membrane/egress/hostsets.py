"""Hosts that belong together, granted by one word. Pure data.

A set holds exactly what the tool of its name talks to for reading, and nothing that takes uploads where that is
another host. A name wins over a host of the same spelling; `npm:443` is the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from kagura_kernel.membrane.egress.names import HTTP, HTTPS, Target

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


def with_mirrors(sets: HostSets, mirrors: Mapping[str, Sequence[Target]]) -> HostSets:
    """The sets, those named in `mirrors` replaced as a whole: who has a mirror does not need the original.

    A name that is not in `sets` becomes a set of its own.
    """
    return {**sets, **mirrors}
