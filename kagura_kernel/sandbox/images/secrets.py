"""What an image must be free of, in bytes and words: credentials, traces of the machine that built it, code of ours.

Formats alone count inside library trees, where documentation is full of examples; guessing by entropy is kept to the
configuration of an image. Every rule starts from a fixed text, so that gigabytes are looked through at the speed of
`bytes.find`.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.sandbox.images.recipes import PackageSettings

OVERLAP = 8 * 1024
"""Bytes that two pieces of a file must share for nothing to be missed between them."""


@dataclass(frozen=True, slots=True)
class _Format:
    what: str
    anchors: tuple[bytes, ...]
    pattern: re.Pattern[bytes]


def _format(what: str, pattern: bytes, *anchors: bytes) -> _Format:
    return _Format(what, anchors, re.compile(pattern))


_EDGE = rb"(?<![A-Za-z0-9_])"
_FORMATS = (
    _format(
        "a private key",
        rb"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        rb"(?:\s|\\[nr]|(?:Proc-Type|DEK-Info|Version|Comment): ?[^\r\n]{0,100})+(?P<body>[A-Za-z0-9+/=\s\\]{64})",
        b"PRIVATE KEY",
    ),
    _format(
        "a PuTTY private key", rb"PuTTY-User-Key-File-\d: [\s\S]{0,4000}?Private-Lines: \d", b"PuTTY-User-Key-File-"
    ),
    _format("an age key", _EDGE + rb"AGE-SECRET-KEY-1(?P<body>[A-Z0-9]{58})", b"AGE-SECRET-KEY-1"),
    _format("an AWS access key", _EDGE + rb"(?:AKIA|ASIA)(?P<body>[A-Z2-7]{16})(?![A-Za-z0-9])", b"AKIA", b"ASIA"),
    _format(
        "a GitHub token",
        _EDGE + rb"(?:gh[pousr]_(?P<body>[A-Za-z0-9]{36,255})|github_pat_[A-Za-z0-9_]{60,255})",
        b"ghp_",
        b"gho_",
        b"ghu_",
        b"ghs_",
        b"ghr_",
        b"github_pat_",
    ),
    _format("a GitLab token", _EDGE + rb"glpat-(?P<body>[A-Za-z0-9_-]{20,255})", b"glpat-"),
    _format("a Slack token", _EDGE + rb"xox[abeprs]-(?P<body>[0-9]{8,}-[A-Za-z0-9-]{12,255})", b"xox"),
    _format("an Anthropic key", _EDGE + rb"sk-ant-(?P<body>[A-Za-z0-9_-]{30,255})", b"sk-ant-"),
    _format(
        "an OpenAI key", _EDGE + rb"sk-(?:proj|svcacct)-(?P<body>[A-Za-z0-9_-]{40,255})", b"sk-proj-", b"sk-svcacct-"
    ),
    _format("a Google API key", _EDGE + rb"AIza(?P<body>[A-Za-z0-9_-]{35})(?![A-Za-z0-9_-])", b"AIza"),
    _format("a Google sign-in", _EDGE + rb"ya29\.(?P<body>[A-Za-z0-9_-]{40,500})", b"ya29."),
    _format("a Stripe key", _EDGE + rb"[sr]k_live_(?P<body>[A-Za-z0-9]{20,255})", b"k_live_"),
    _format("an npm token", _EDGE + rb"npm_(?P<body>[A-Za-z0-9]{36})(?![A-Za-z0-9_])", b"npm_"),
    _format("a PyPI token", _EDGE + rb"pypi-AgEIcHlwaS5vcmc(?P<body>[A-Za-z0-9_-]{50,255})", b"pypi-AgEIcHlwaS5vcmc"),
    _format("a Hugging Face token", _EDGE + rb"hf_(?P<body>[A-Za-z0-9]{34,40})(?![A-Za-z0-9_])", b"hf_"),
    _format("a SendGrid key", _EDGE + rb"SG\.(?P<body>[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})", b"SG."),
    _format("a DigitalOcean token", _EDGE + rb"do[opr]_v1_(?P<body>[a-f0-9]{64})", b"_v1_"),
)

# Files that are made to hold a credential: name, then what must stand in it.
_FILES: tuple[tuple[str, str, bytes], ...] = (
    (r"(?:^|/)[._]netrc$", "a password for a host", rb"(?i)\bpassword\s+\S"),
    (
        r"(?:^|/)\.aws/(?:credentials|config)$",
        "an AWS secret",
        rb"(?i)aws_(?:secret_access_key|session_token)\s*=\s*\S",
    ),
    (
        r"(?:^|/)(?:\.docker/config\.json|\.dockercfg|containers/auth\.json)$",
        "a sign-in at a registry",
        rb'"(?:auth|identitytoken|registrytoken|password)"\s*:\s*"[^"]',
    ),
    (r"(?:^|/)\.?npmrc$", "a sign-in at a registry", rb"(?m)^[^#;\n]*_(?:authToken|auth|password)\s*=\s*[^\s$]"),
    (r"(?:^|/)(?:\.pypirc|pip\.conf|\.pip/pip\.conf)$", "a password", rb"(?mi)^[^\S\n]*+password\s*[=:]\s*\S"),
    (r"(?:^|/)\.git-credentials$", "a password for a repository", rb"://[^\s/]+@"),
    (r"(?:^|/)\.pgpass$", "a database password", rb"(?m)^[^#\s][^:\n]*:[^:\n]*:[^:\n]*:[^:\n]*:\S"),
    (r"(?:^|/)(?:\.my\.cnf|my\.cnf)$", "a database password", rb"(?mi)^[^\S\n]*+password\s*=\s*\S"),
    (
        r"(?:^|/)\.kube/config$",
        "a sign-in at a cluster",
        rb"(?m)^[^\S\n]*+-?[^\S\n]*+(?:token|client-key-data|password):\s*\S",
    ),
    (r"(?:^|/)gh/hosts\.yml$", "a GitHub sign-in", rb"(?m)^[^\S\n]*+oauth_token:\s*\S"),
    (
        r"(?:^|/)(?:application_default_credentials|\.?credentials)\.json$",
        "a sign-in",
        rb'(?i)"(?:refresh_?token|access_?token|client_secret|private_key|api_?key)"\s*:\s*"[^"]',
    ),
    (r"(?:^|/)etc/g?shadow-?$", "a password's hash", rb"(?m)^[^:\n]+:!?\$[^:\n]+"),
)
_HOLDERS = tuple((re.compile(path), what, re.compile(content)) for path, what, content in _FILES)

# Keys that everybody has: GnuTLS tests itself with them. Known by the SHA-256 of their first 64 characters.
_PUBLISHED = frozenset(
    (
        "36d32468a4353827c6db9a94",
        "4b86104d3a39ae361925614f",
        "8dd51545b81e4a0a285630cf",
        "c50f38f5a25dad1abc4c3162",
        "d76d8725f92d87288e0466d8",
        "e36ff64abc8431d1295824c3",
    )
)

_USERINFO = re.compile(rb"://[^\s/:@\"'<>`\\(){}\[\]]{0,64}:(?P<body>[^\s/:@\"'<>`\\(){}\[\],]{3,128})@[A-Za-z0-9\[]")
_TREES = re.compile(
    r"^(?:usr/(?:local/)?(?:lib\w*|share|include|bin|sbin|src|libexec)|lib\w*|bin|sbin|opt|var/lib/dpkg)/"
)
_PLACEHOLDER = re.compile(
    r"(?i)^(?:\W*|.*(?:example|placeholder|changeme|redacted|dummy|sample|fake|x{4}|\*{3}|\.{3}|0{6}|1234567).*"
    r"|(?:my|your|the|some|a)?[_-]?(?:pass(?:word|wd)?|pwd?|secret|token|key|user(?:name)?|foo|bar|baz|test|none|null)"
    r"|[$%{<].*)$"
)
_SECRET_NAME = re.compile(
    r"(?i)(?:secret|token|passw(?:or)?d|passphrase|api_?key|access_?key|private_?key|credential|auth(?:_|$))"
)
_PUBLIC_NAME = re.compile(r"(?i)(?:sha\d*|digest|checksum|md5|gpg_keys?|fingerprint|version|path|url|label|recipe)$")
_LONG = re.compile(r"^[A-Za-z0-9+/=_.~-]{20,}$")
_VALUE = r"(\"[^\"]*\"|'[^']*'|[^\s;&|]+)"
_ASSIGNMENT = re.compile(rf"(?<![\w.-])([A-Za-z_][\w.]*)={_VALUE}|(?<!\S)--?([A-Za-z][\w-]*)[ =]{_VALUE}")
_SHORTEST = 6
_BITS = 3.6
_DISTINCT = 6


def formats_in(piece: bytes) -> Iterator[str]:
    """What is in a piece of a file by its format alone, each once."""
    for one in _FORMATS:
        if any(anchor in piece for anchor in one.anchors) and any(map(_is_real, one.pattern.finditer(piece))):
            yield one.what


def held_by(path: str, piece: bytes) -> str:
    """What a file that is made to hold a credential holds; empty when it is none or holds none."""
    for where, what, content in _HOLDERS:
        if where.search(path) and content.search(piece):
            return what
    return ""


def password_in_address(path: str, piece: bytes) -> bool:
    """Whether an address with a user's password stands in a piece; in library trees only one that looks made."""
    if b"\0" in piece:
        return False
    in_tree = bool(_TREES.search(path))
    return any(_counts(found["body"].decode("latin-1"), in_tree=in_tree) for found in _USERINFO.finditer(piece))


def assigned_secret(name: str, value: str) -> str:
    """Why the value of a variable, label or argument is taken for a secret; empty when it is not."""
    raw = value.strip().encode()
    if what := next(formats_in(raw), ""):
        return what
    if password_in_address("", raw):
        return "an address with a password"
    if len(value) < _SHORTEST or _PLACEHOLDER.match(value) or _PUBLIC_NAME.search(name):
        return ""
    if _SECRET_NAME.search(name) and not value.startswith(("/", "$")):
        return "a value under the name of a secret"
    if _LONG.match(value) and value.count("/") < 2 and _mixed(value) and entropy(value) >= _BITS:  # noqa: PLR2004 - a path
        return "a value that looks made by chance"
    return ""


def secrets_in_command(text: str) -> Iterator[str]:
    """Why parts of a command line (a step of a build) are taken for secrets."""
    raw = text.encode()
    yield from formats_in(raw)
    if password_in_address("", raw):
        yield "an address with a password"
    for found in _ASSIGNMENT.finditer(text):
        name, value = found[1] or found[3], found[2] or found[4]
        if _SECRET_NAME.search(name) and (why := assigned_secret(name, value.strip("\"'"))):
            yield f"{name}: {why}"


def entropy(text: str) -> float:
    """Bits for each character."""
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())


def _is_real(found: re.Match[bytes]) -> bool:
    body = (found.groupdict().get("body") or found[0]).decode("latin-1")
    if hashlib.sha256(body.encode("latin-1")).hexdigest()[:24] in _PUBLISHED:
        return False
    return "EXAMPLE" not in body.upper() and len(set(body)) >= _DISTINCT


def _counts(password: str, *, in_tree: bool) -> bool:
    if _PLACEHOLDER.match(password):
        return False
    return not in_tree or (len(password) >= 12 and _mixed(password))  # noqa: PLR2004 - documentation has shorter ones


def _mixed(text: str) -> bool:
    has_digit, has_upper, has_lower = (any(map(test, text)) for test in (str.isdigit, str.isupper, str.islower))
    return has_digit and (has_upper or has_lower) and not re.fullmatch(r"[0-9a-fA-F.:-]+", text)


_PACKAGE = Path(__file__).resolve().parents[2]
_OUR_NAMES = re.compile(r"(?:^|/)(?:kagura[_-][\w.+-]+|kagura)(?:/|\.py$|$)")
_OUR_WORDS = (b"kagura_kernel", b"kagura-kernel")
_SHARED_LINES = 5
_LINE_LENGTH = 50

_MACHINE_FILES: tuple[tuple[str, str, bytes], ...] = (
    (r"^etc/apt/apt\.conf(?:\.d/.*)?$", "a proxy for apt", rb"(?im)^(?:[^#/;\n]*+;)*?(?>[^#/;\n]*?\bproxy\b)[^;\n]*\""),
    (
        r"^etc/apt/sources\.list(?:\.d/.*)?$",
        "an archive that is not the distribution's own",
        rb"(?m)^(?:deb|deb-src|URIs:)\s[^#\n]*?\w+://(?![\w.-]*\b(?:debian\.org|ubuntu\.com)(?:[/:\s]|$))",
    ),
    (
        r"(?:^|/)(?:pip\.conf|\.pip/pip\.conf)$",
        "an index or certificate for pip",
        rb"(?mi)^[^\S\n]*+(?:index-url|extra-index-url|find-links|cert|proxy|trusted-host)\s*[=:]",
    ),
    (
        r"(?:^|/)\.?npmrc$",
        "a registry, proxy or certificate for npm",
        rb"(?m)^[^\S\n]*+(?:registry|\S*proxy|cafile|ca)\s*=",
    ),
    (r"^etc/(?:environment|profile\.d/.*|wgetrc)$", "a proxy", rb"(?i)\w*_proxy\s*="),
    (r"^usr/local/share/ca-certificates/.*\.(?:crt|pem)$", "a certificate authority of its own", rb"-----BEGIN"),
)
_PLACES = tuple((re.compile(path), what, re.compile(content)) for path, what, content in _MACHINE_FILES)
_PUBLIC_HOSTS = re.compile(r"(?:^|\.)(?:pypi\.org|pythonhosted\.org|npmjs\.org|debian\.org|ubuntu\.com)$")
_PROXY_NAME = re.compile(r"(?i)(?:https?|ftp|all)_proxy")
_PROXY_ARGUMENT = re.compile(r"(?i)\b(?:https?|ftp|all)_proxy=[^\s$\"']")


@dataclass(frozen=True, slots=True)
class Machine:
    """What would give a building machine away."""

    words: tuple[bytes, ...] = field(default=(), repr=False)  # names of its mirrors and proxies
    digests: frozenset[str] = frozenset()  # SHA-256 of files of its own, a certificate say

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
    """This package's own files, to be recognised under any name."""

    digests: frozenset[str]  # SHA-256 of each
    lines: frozenset[bytes]  # their long lines: a file that was changed a little still shares many of them

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
