"""Files of programs that keep passwords in forms of their own."""

from __future__ import annotations

from collections.abc import Iterator

from kagura_kernel.kit.redaction.patterns import Match, Nearby
from kagura_kernel.kit.redaction.plausible import crypted, password, token
from kagura_kernel.kit.redaction.regions import line_start
from kagura_kernel.kit.redaction.spans import Span

_NETRC = Nearby(
    r"(?:^|\s)(?:machine\s+\S+\s+(?:#[^\n]*\s+)*(?:login\s+\S+\s+)?|default\s+login\s+\S+\s+)(?:account\s+\S+\s+)?(?:password|passwd)\s+(\"[^\"\n]+\"|\S+)"
)
_NETRC_LINE = Nearby(
    r"(?:^|\n)[ \t]*(?:login[ \t]+\S+[ \t]+)(?:password|passwd)[ \t]+(\S+)|(?:^|\n)[ \t]*login[ \t]+\S+[ \t]*\r?\n[ \t]*(?:password|passwd)[ \t]+(\S+)"
)
_PGPASS = Nearby(
    r"(?m:^)[ \t]*((?:\*|[\w.\-]+)):((?:\*|\d{2,5})):((?:\*|[\w\-$.]+)):((?:\*|[\w.\-@$]+)):((?:[^\s:\\]|\\[:\\])+)[ \t]*\r?(?m:$)"
)
_HTPASSWD = Nearby(
    r"(?:^|\n|\s|[\"'])[\w.@\-]+:(\${1,2}(?:2[abxy]|apr1|1|5|6|y|7|gy)\${1,2}[\w./$,+=]{20,}|\{SHA\}[\w+/=]{20,}|[./0-9A-Za-z]{13}(?:\r|\n|$))"
)
_SHADOW = Nearby(r"(?:^|\n|\s)[a-z_][\w\-]*:[!*]?(\$(?:2[abxy]|1|5|6|y|7|gy)\$[\w./$,=]{20,}):\d*:")
_REDIS = Nearby(
    r"(?:^|\n)[ \t]*(?:requirepass|masterauth|primaryauth|sentinel[ \t]+auth-pass[ \t]+\S+)[ \t]+[\"']?([^\s\"']+)"
)
_REDIS_SAID = Nearby(r"\b(?:requirepass|masterauth)[\"']?[\s=:,]+[\"']?([^\s\"',;\]]+)")
_REDIS_ACL = Nearby(r"\b(?:user|acl\s+setuser)\s+\S+\s[^\n]*?[\s]>([^\s\"']+)")
_REDIS_AUTH = Nearby(
    r"(?:(?m:^)|>\s?)[ \t]*AUTH[ \t]+(?:[\w\-]+[ \t]+)?([^\s\"']{6,})[ \t]*\r?(?m:$)", ignore_case=False
)
_SHARED = Nearby(
    r"\b(?:PSK|XAUTH|EAP|RSA)[ \t]+\"([^\"\n]+)\"|[\w.\]][ \t]*:[ \t]*PSK[ \t]+([^\s\"]{6,})[ \t]*\r?(?m:$)"
)
_BIND_KEY = Nearby(r"\bsecret\s+\"([A-Za-z0-9+/=]{16,})\"\s*;")
_POSTFIX = Nearby(r"(?m:^)[ \t]*\[?[\w.\-]+\.[a-z]{2,}\]?(?::\d+)?[ \t]+[\w.@+\-]+:(\S+)[ \t]*\r?(?m:$)")
_CISCO = Nearby(
    r"\b(?:enable\s+(?:secret|password)|username\s+\S+\s+(?:privilege\s+\d+\s+)?(?:secret|password)|(?m:^)[ \t]*password|key-string|"
    r"(?:tacacs|radius)-server\s+(?:host\s+\S+\s+)?key|neighbor\s+\S+\s+password|wpa-psk\s+ascii|ppp\s+chap\s+password)[ \t]+[0-9][ \t]+(\S+)"
)
_CISCO_KEY = Nearby(r"(?m:^)[ \t]*key[ \t]+[0-9][ \t]+(\S+)[ \t]*\r?(?m:$)")
_CISCO_PLAIN = Nearby(
    r"(?m:^)[ \t]*(?:enable\s+(?:secret|password)|username\s+\S+\s+(?:privilege\s+\d+\s+)?(?:secret|password)|(?:tacacs|radius)-server\s+(?:host\s+\S+\s+)?key)\s+([^\s\"]{5,})[ \t]*\r?(?m:$)"
)
_COMMUNITY = Nearby(
    r"\bsnmp-server\s+community\s+(\S+)|\br[ow]community6?\s+(\S+)|\bcreateUser\s+\S+\s+(?:MD5|SHA\S*)\s+\"?([^\s\"]+)"
)
_SQL = Nearby(
    r"\b(?:identified\s+(?:with\s+\S+\s+)?by(?:\s+password)?|(?:with\s+|encrypted\s+|valid\s+until\s+'[^'\n]*'\s+)*(?:password|passwd)(?:\s+for\s+\S+)?\s*=?|set\s+password\s+for\s+\S+\s*=|password\s*\(|old_password\s*\(|pgp_sym_(?:en|de)crypt\s*\([^\n,]*,|aes_(?:en|de)crypt\s*\([^\n,]*,|create\s+login\s+\S+\s+with\s+password\s*=|encryption\s+by\s+password\s*=|"
    r"crypt\s*\()\s*N?\(?(?:'([^'\n]+)'|\"([^\"\n]+)\")"
)
_IDENTIFIED = Nearby(r"\b(?:user|role|grant)\b[^\n;]{0,200}?\bidentified\s+by\s+([^\s\"'`;]+)")
"""A user of Oracle, whose password needs no quotes."""
_SECRET_LINES = Nearby(r"<(?:auth-user-pass|secret|tls-auth-password)>\s*\n\S+\n(\S+)\n\s*</")
_OPENVPN = Nearby(r"-----BEGIN OpenVPN Static key V1-----\s*([0-9a-fA-F\s]+?)\s*(?:-----END|$)")
_ERLANG = Nearby(r"(?:-setcookie|erlang\.cookie|ERLANG_COOKIE)[\s=:]+[\"']?([A-Za-z0-9_+/=\-]{8,})")
_WIREGUARD = Nearby(r"\b(?:PrivateKey|PresharedKey|preshared-key|private-key)\s*=\s*\"?([A-Za-z0-9+/]{43}=)")
_GPP = Nearby(r"\bcpassword\s*=\s*\"([A-Za-z0-9+/=]{10,})\"")
_DSN_PASSWORD = Nearby(
    r"(?:^|[;\"'\s])(?:pwd|password|user password|accountkey|sharedaccesskey|sharedsecret|sharedaccesssignature|access ?key)\s*=\s*(?:\{([^}\n]+)\}|([^;\"'\s<>]+(?: [^;\"'=<>\s]+)*))\s*(?:;|\"|'|\n|\r|$)"
)
_DSN = Nearby(
    r"(?:server|data source|host|endpoint|uid|user id|username|user|account(?:name)?|hostname|initial catalog|database|dbname|driver|sharedaccesskeyname|defaultendpointsprotocol|provider|persist security info)\s*="
)

_PASSWORDS = (
    _NETRC,
    _NETRC_LINE,
    _REDIS,
    _REDIS_SAID,
    _REDIS_ACL,
    _SHARED,
    _CISCO,
    _CISCO_KEY,
    _CISCO_PLAIN,
    _COMMUNITY,
    _SQL,
    _SECRET_LINES,
)
_TOKENS = (_BIND_KEY, _ERLANG, _WIREGUARD, _GPP)
_KEPT = (_HTPASSWD, _SHADOW)


def find(data: bytes) -> Iterator[Span]:
    """What stands where such a file has its password."""
    for pattern in _PASSWORDS:
        for found in pattern.finditer(data):
            if pattern is not _SQL or _said_to_a_database(data, found):
                yield from _certain(data, *_group(found))
    for pattern in _TOKENS:
        for found in pattern.finditer(data):
            start, end = _group(found)
            if token(data[start:end], 8):
                yield Span(start, end, "secret")
    yield from _kept(data)
    yield from _by_colons(data)
    for pattern in (_REDIS_AUTH, _IDENTIFIED):
        yield from _passwords(data, pattern)
    for found in _OPENVPN.finditer(data):
        yield Span(found.start(1), found.end(1), "private-key")
    yield from _connection_strings(data)


def _said_to_a_database(data: bytes, found: Match) -> bool:
    """Whether `identified by` is a word of SQL and none of a sentence."""
    if not (found.group() or b"").startswith(b"identified"):
        return True
    return _ACCOUNT.search(data, max(0, found.start() - 200), found.start()) is not None


_ACCOUNT = Nearby(r"\b(?:user|role|grant|link|account|create|alter)\b")


def _passwords(data: bytes, pattern: Nearby) -> Iterator[Span]:
    for found in pattern.finditer(data):
        if password(found.group(1) or b""):
            yield Span(found.start(1), found.end(1), "password")


def _kept(data: bytes) -> Iterator[Span]:
    """Passwords as systems keep them, behind a user."""
    for pattern in _KEPT:
        for found in pattern.finditer(data):
            start, end = _group(found)
            value = data[start:end].strip()
            if crypted(value.replace(b"$$", b"$")):
                yield Span(start, start + len(value), "password-hash")


def _group(found: Match) -> tuple[int, int]:
    """The one group that took part."""
    number = 1
    while found.start(number) < 0:
        number += 1
    return found.start(number), found.end(number)


def _certain(data: bytes, start: int, end: int) -> Iterator[Span]:
    value = data[start:end].rstrip(b";")
    inner = _unquoted(value)
    start += value.index(inner)
    if b" " not in inner and password(inner, certain=True):
        yield Span(start, start + len(inner), "password")


def _unquoted(value: bytes) -> bytes:
    """Without the quotes around it, and without one of which the other stands outside; a pair inside is its own."""
    while value[:1] in _QUOTES and value[:1] == value[-1:] and len(value) > 1:
        value = value[1:-1]
    for mark in _QUOTES:
        if value.count(mark) % 2:
            value = value.removeprefix(mark) if value.startswith(mark) else value.removesuffix(mark)
    return value


_QUOTES = (b"'", b'"')


def _by_colons(data: bytes) -> Iterator[Span]:
    if b":" not in data:
        return
    for found in _PGPASS.finditer(data):
        if password(found.group(5) or b"", certain=True) and not (found.group(5) or b"").isdigit():
            yield Span(found.start(5), found.end(5), "password")
    for found in _POSTFIX.finditer(data):
        if password(found.group(1) or b"") and b"//" not in (found.group(1) or b""):
            yield Span(found.start(1), found.end(1), "password")


def _connection_strings(data: bytes) -> Iterator[Span]:
    for found in _DSN_PASSWORD.finditer(data):
        start, end = _group(found)
        begin = line_start(data, start, 1000)
        stop = data.find(b"\n", end, end + 1000)
        line = data[begin : stop if stop >= 0 else min(len(data), end + 1000)]
        if b";" in line and _DSN.search(line) is not None:
            value = data[start:end].rstrip()
            if password(value, certain=True):
                yield Span(start, start + len(value), "connection-string")
