"""The files of a release, and which of them a machine can run. Pure.

Makers name the files of their releases as they like. What is chosen is a file for Linux and for the machine, an archive
or a program, whose checksum is known; where several are left, the one for the usual C library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

ARCHIVES = (".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".zip", ".gz")
"""What a box can unpack with Python alone."""

_MACHINES = {
    "x86_64": re.compile(r"(?:^|[^a-z0-9])(?:x86[_-]?64|amd64|x64|64bit|linux64)(?:[^a-z0-9]|$)"),
    "aarch64": re.compile(r"(?:^|[^a-z0-9])(?:aarch64|arm64)(?:[^a-z0-9]|$)"),
    "armv7l": re.compile(r"(?:^|[^a-z0-9])(?:armv7l?|armhf)(?:[^a-z0-9]|$)"),
    "riscv64": re.compile(r"(?:^|[^a-z0-9])riscv64(?:gc)?(?:[^a-z0-9]|$)"),
}
_LINUX = re.compile(r"linux", re.ASCII)
_ELSEWHERE = re.compile(
    r"android|darwin|macos|apple|windows|win32|win64|freebsd|openbsd|netbsd|illumos|solaris|wasm|musleabi"
)
_NO_PROGRAM = re.compile(
    r"\.(?:deb|rpm|apk|msi|exe|dmg|pkg|vsix|whl|jar|appimage|flatpak|snap|sha\d+(?:sum)?|md5|sig|asc|minisig|sbom|json|ya?ml|txt|"
    r"pem|crt|cert|intoto\.jsonl|zst|7z|rb|tar)$|(?:^|[._-])(?:debug|debuginfo|dbg|src|source|sources|docs|profile)(?:[._-]|$)"
)
# Not every one of these is static, and the usual boxes have the other C library.
_MUSL = re.compile(r"musl")


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of a release.

    Attributes:
        name: Its file name.
        url: Where it lies.
        sha256: Its checksum, in hex.
        size: Bytes, as the release says.
    """

    name: str
    url: str
    sha256: str
    size: int = 0


def is_for_linux(name: str) -> bool:
    """Whether a file may be a program for Linux, on whatever machine."""
    low = name.lower()
    named = any(pattern.search(low) for pattern in _MACHINES.values())
    return (named or _LINUX.search(low) is not None) and not _ELSEWHERE.search(low) and not _NO_PROGRAM.search(low)


def choose(
    assets: Sequence[Asset], machine: str, command: str, patterns: Mapping[str, str] | None = None
) -> Asset | None:
    """The file for a machine; None when there is none.

    Args:
        assets: Those of the release.
        machine: As `uname -m` has it.
        command: The program that is wanted.
        patterns: By machine, the pattern of the file's name, for makers whose names say too little.
    """
    if patterns:
        pattern = patterns.get(machine, "")
        return next((one for one in assets if fnmatchcase(one.name, pattern)), None)
    fits = [one for one in assets if is_for_linux(one.name) and _is_of(one.name.lower(), machine)]
    return min(fits, key=lambda one: _rank(one.name.lower(), command.lower()), default=None)


def _is_of(name: str, machine: str) -> bool:
    asked = _MACHINES.get(machine)
    if asked is None:
        return machine.lower() in name
    # Nobody writes down a machine that everybody has.
    anonymous = machine == "x86_64" and not any(pattern.search(name) for pattern in _MACHINES.values())
    return asked.search(name) is not None or (
        anonymous and not re.search(r"i[3-6]86|386|32bit|ppc|powerpc|s390|arm|loong|mips|sparc", name)
    )


def _rank(name: str, command: str) -> tuple[bool, bool, bool, int, str]:
    words = re.split(r"[^a-z0-9]+", name)
    ours = name.startswith(command) or command in words
    packed = not name.endswith(ARCHIVES)
    return (not ours, _MUSL.search(name) is not None, packed, len(name), name)


def parse_sums(text: str, single: str = "") -> dict[str, str]:
    """File names to checksums, from a file of them as `sha256sum` writes it.

    Args:
        text: What the file holds.
        single: The only file that it can be about, when it may hold the sum alone.
    """
    found = {}
    for line in text.splitlines()[:10_000]:
        words = line.strip().split()
        if words and re.fullmatch(r"[0-9a-fA-F]{64}", words[0]):
            name = words[-1].lstrip("*").rpartition("/")[2] if len(words) > 1 else single
            if name:
                found[name] = words[0].lower()
    return found
