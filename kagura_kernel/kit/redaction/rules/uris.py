"""Addresses that carry a password or a token."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from kagura_kernel.kit.redaction.patterns import Nearby
from kagura_kernel.kit.redaction.plausible import password, placeholder, token
from kagura_kernel.kit.redaction.spans import Span

_WITH_PASSWORD = Nearby(r"[a-z][a-z0-9+.\-]*://([^\s/:@\"'`<>?#\[\]]*):([^\s\"'`<>]+)@[\w.\-\[{$%(]")
_WITH_TOKEN = Nearby(r"https?://([\w.\-~%+=]{16,})@[\w.\-\[]")
_ORACLE = Nearby(
    r"(?:jdbc:oracle:[a-z]+:|sqlplus\s+(?:-\S+\s+)*|rman\s+target\s+)([\w.$#]+)/(\"[^\"\n]+\"|[^\s@\"'/]+)@"
)
_GO = Nearby(r"[\"'`=\s]([\w.\-]+):([^\s\"'`]+)@(?:tcp|unix|tcp4|tcp6)\(")
"""The way in which Go's driver for MySQL writes them."""
_EASY_CONNECT = Nearby(r"\bconnect\(\s*[\"'](\w+)/([^\s\"'@]+)@[\w./:\-]+[\"']")
_WEBHOOK = Nearby(
    r"https://(?:hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_]{20,})"
    r"|(?:\w+\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d+/([\w\-]{40,})"
    r"|[\w.\-]*webhook\.office\.com/webhookb2/([\w@\-]+/IncomingWebhook/[\w/\-]+)"
    r"|api\.telegram\.org/(?:file/)?bot(\d{6,}:[\w\-]{30,})"
    r"|chat\.googleapis\.com/v1/spaces/[\w\-]+/messages\?(key=[\w\-&=%]+)"
    r"|hooks\.zapier\.com/hooks/catch/(\d+/\w+)"
    r"|[\w.\-]*logic\.azure\.com[^\s\"'<>]*[?&]sig=([\w\-%]+)"
    r"|open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook/([\w\-]+)"
    r"|oapi\.dingtalk\.com/robot/send\?access_token=(\w+)"
    r"|qyapi\.weixin\.qq\.com/cgi-bin/webhook/send\?key=([\w\-]+)"
    r"|[\w.\-]+\.(?:alchemy\.com|alchemyapi\.io)/(?:nft/)?v[23]/([\w\-]{20,})|[\w.\-]+\.infura\.io/(?:ws/)?v3/([0-9a-f]{32})|[\w.\-]+\.quiknode\.pro/([0-9a-f]{30,})"
    r"|maker\.ifttt\.com/trigger/\w+/(?:json/)?with/key/([\w\-]+))"
)
FORMS = (_WITH_PASSWORD, _WITH_TOKEN, _ORACLE, _GO, _EASY_CONNECT, _WEBHOOK)
_USUAL = frozenset({b"password", b"pass", b"passwd", b"pwd", b"pw", b"secret", b"token", b"port", b"key"})

_OF_NAMES = (b"github://", b"cvs://:pserver:")
"""Where an owner and a repository stand, or an account that everybody has."""


def find(data: bytes) -> Iterator[Span]:
    """Passwords and tokens in addresses."""
    if b"://" in data:
        yield from _passwords(data)
        for found in _WITH_TOKEN.finditer(data):
            if token(found.group(1) or b"", 16):
                yield Span(found.start(1), found.end(1), "uri-token")
        for found in _WEBHOOK.finditer(data):
            group = next(number for number in range(1, 15) if found.group(number) is not None)
            value = (found.group(group) or b"").replace(b"/", b"")
            if token(value, 12) or (len(value) >= 32 and not placeholder(value)):
                yield Span(found.start(group), found.end(group), "webhook")
    for pattern in (_ORACLE, _GO, _EASY_CONNECT):
        for found in pattern.finditer(data):
            if _opens(found.group(1) or b"", (found.group(2) or b"").strip(b'"')):
                yield Span(found.start(2), found.end(2), "uri-password")


def _passwords(data: bytes) -> Iterator[Span]:
    for found in _WITH_PASSWORD.finditer(data):
        if (found.group() or b"").startswith(_OF_NAMES):
            continue
        start, end = found.start(2), found.end(2)
        value = data[start:end]
        # A path may hold an @ of its own: the password ends at the last @ before the first slash behind a host.
        first = value.find(b"@")
        if first >= 0 and (b"/" in value[first:] or b"://" in value):
            end = start + first
        value = data[start:end]
        if value[:1].isdigit() and b"/" in value and value.split(b"/", 1)[0].isdigit():
            continue  # host:port/path@…
        if value == b"x-oauth-basic":
            if token(found.group(1) or b"", 12):
                yield Span(found.start(1), found.end(1), "uri-token")
        elif _opens(found.group(1) or b"", value):
            yield Span(start, end, "uri-password")


def _opens(user: bytes, value: bytes) -> bool:
    plain = unquote_to_bytes(value)
    if plain.lower() in _USUAL or plain == user or (plain.isdigit() and len(plain) < 6):
        return False
    return password(plain, certain=True) and not plain.lower().startswith((b"your", b"my-", b"the"))
