"""Traces of the machine that built an image, and code of ours: two things that an image must be free of."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from kagura_kernel.sandbox.images.settings import PackageSettings

_PACKAGE = Path(__file__).resolve().parents[2]
_OUR_NAMES = re.compile(r"(?:^|/)(?:kagura[_-][\w.+-]+|kagura)(?:/|\.py$|$)")
_OUR_WORDS = (b"kagura_kernel", b"kagura-kernel")
_SHARED_LINES = 5
_LINE_LENGTH = 50

_FILES: tuple[tuple[str, str, bytes], ...] = (
    (r"^etc/apt/apt\.conf(?:\.d/.*)?$", "a proxy for apt", rb"(?im)^[^#/\n]*\bproxy\b[^;\n]*\""),
    (
        r"^etc/apt/sources\.list(?:\.d/.*)?$",
        "an archive that is not the distribution's own",
        rb"(?m)^(?:deb|deb-src|URIs:)\s[^#\n]*?\w+://(?![\w.-]*\b(?:debian\.org|ubuntu\.com)(?:[/:\s]|$))",
    ),
    (
        r"(?:^|/)(?:pip\.conf|\.pip/pip\.conf)$",
        "an index or certificate for pip",
        rb"(?mi)^\s*(?:index-url|extra-index-url|find-links|cert|proxy|trusted-host)\s*[=:]",
    ),
    (r"(?:^|/)\.?npmrc$", "a registry, proxy or certificate for npm", rb"(?m)^\s*(?:registry|\S*proxy|cafile|ca)\s*="),
    (r"^etc/(?:environment|profile\.d/.*|wgetrc)$", "a proxy", rb"(?i)\w*_proxy\s*="),
    (r"^usr/local/share/ca-certificates/.*\.(?:crt|pem)$", "a certificate authority of its own", rb"-----BEGIN"),
)
_PLACES = tuple((re.compile(path), what, re.compile(content)) for path, what, content in _FILES)
_PUBLIC_HOSTS = re.compile(r"(?:^|\.)(?:pypi\.org|pythonhosted\.org|npmjs\.org|debian\.org|ubuntu\.com)$")
_PROXY_NAME = re.compile(r"(?i)(?:https?|ftp|all)_proxy")
_PROXY_ARGUMENT = re.compile(r"(?i)\b(?:https?|ftp|all)_proxy=[^\s$\"']")


@dataclass(frozen=True, slots=True)
class Machine:
    """What would give a building machine away.

    Attributes:
        words: Names of its mirrors and proxies.
        digests: SHA-256 of files of its own, a certificate say.
    """

    words: tuple[bytes, ...] = field(default=(), repr=False)
    digests: frozenset[str] = frozenset()

    @classmethod
    def of(cls, settings: PackageSettings) -> Machine:
        """The machine that has these settings."""
        addresses = [value for name, value in settings.arguments.items() if name.upper() != "NO_PROXY"]
        for name in ("pip.conf", "npmrc"):
            text = settings.files.get(name, b"").decode("utf-8", "replace")
            addresses += re.findall(r"\w+://\S+", text)
        hosts = {urlsplit(address if "://" in address else f"//{address}").hostname or "" for address in addresses}
        # A name without a dot, or `localhost`, stands in thousands of files.
        words = tuple(sorted(host.encode() for host in hosts if "." in host and not _PUBLIC_HOSTS.search(host)))
        return cls(words, frozenset(hashlib.sha256(one).hexdigest() for one in settings.files.values()))

    def trace_in(self, path: str, piece: bytes) -> str:
        """What of a machine is in a piece of a file; empty for nothing."""
        if any(word in piece for word in self.words):
            return "the name of this machine's mirror or proxy"
        for where, what, content in _PLACES:
            if where.search(path) and content.search(piece):
                return what
        return ""


def proxy_in_variable(name: str, value: str) -> bool:
    """Whether a variable of an image sends its programs to a proxy."""
    return bool(_PROXY_NAME.fullmatch(name) and value)


def proxy_in_command(text: str) -> bool:
    """Whether a step of a build was given a proxy."""
    return bool(_PROXY_ARGUMENT.search(text))


@dataclass(frozen=True, slots=True)
class OurCode:
    """This package's own files, to be recognised under any name.

    Attributes:
        digests: SHA-256 of each.
        lines: Their long lines: a file that was changed a little still shares many of them.
    """

    digests: frozenset[str]
    lines: frozenset[bytes]

    @classmethod
    def here(cls, package: Path = _PACKAGE) -> OurCode:
        """As it is installed."""
        texts = [text for path in sorted(package.rglob("*.py")) if len(text := path.read_bytes()) > _LINE_LENGTH]
        lines = {line for text in texts for line in text.split(b"\n") if len(line) >= _LINE_LENGTH}
        return cls(frozenset(hashlib.sha256(text).hexdigest() for text in texts), frozenset(lines))

    def named(self, path: str) -> bool:
        """Whether a path is one that only our packages have."""
        return bool(_OUR_NAMES.search(path))

    def in_piece(self, piece: bytes) -> bool:
        """Whether a piece of a file speaks our names or shares lines with our files."""
        if any(word in piece for word in _OUR_WORDS):
            return True
        return b"\0" not in piece and len(self.lines.intersection(piece.split(b"\n"))) >= _SHARED_LINES


def variables(pairs: Iterable[str]) -> Mapping[str, str]:
    """`NAME=value` pairs as a mapping."""
    return dict(pair.partition("=")[::2] for pair in pairs)
