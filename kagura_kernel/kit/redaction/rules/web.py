"""Headers, cookies, signed addresses and addresses that carry a password or a token."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from urllib.parse import unquote_to_bytes

from kagura_kernel.kit.redaction.names import Says, documented, says
from kagura_kernel.kit.redaction.patterns import Match, Nearby
from kagura_kernel.kit.redaction.places import Span
from kagura_kernel.kit.redaction.values import password, placeholder, token

_SCHEME = Nearby(
    r"\b(Bearer|Basic|Token|ApiKey|Api-Key|Key|SSWS|GenieKey|Negotiate|Splunk|Klaviyo-API-Key|Bot|OAuth|JWT|GoogleLogin\s+auth=)"
    r"(?:[ \t]+token=)?[ \t]*(?:\\?[\"'])?[ \t=:][ \t]*(?:\\?[\"'])?([\w.~+/\-:|=%]{8,})"
)
_HEADER = Nearby(
    r"((?:Proxy-)?Authorization|X-[\w\-]*(?:Key|Token|Auth|Secret|Password|Signature|Session)[\w\-]*|[\w\-]*(?:Api-?Key|-Token|-Secret)|"
    r"Private-Token|Job-Token|Ocp-Apim-Subscription-Key|Api-Key|DD-API-KEY|DD-APPLICATION-KEY|CF-Access-Client-Secret)"
    r"\\?[\"']?\s*[:,=]\s*(?:\\?[\"'])?([A-Za-z0-9_.~+/\-=|%]{8,})"
)
_COOKIE = Nearby(r"\b(?:set-)?cookie2?\\?[\"']?\s*[:,]\s*(?:\\?[\"'])?([^\n\r\"]+)")
_CURL_COOKIE = Nearby(r"\b(?:curl|http|wget)\s[^\n]*?\s(?:-b|--cookie)[\s=]+[\"']?([^\"'\n]+)", ignore_case=False)
_COOKIES = Nearby(r"\bcookies\s*[=:]\s*\{([^{}]+)\}")
_COOKIE_FILE = Nearby(
    r"(?m:^)(?:#HttpOnly_)?[\w.\-]+\t(?:TRUE|FALSE)\t/[^\t\n]*\t(?:TRUE|FALSE)\t\d+\t([^\t\n]+)\t([^\t\r\n]+)",
    ignore_case=False,
)
_MEMBER = Nearby(r"[\"']([\w.\-]+)[\"']\s*:\s*[\"']([^\"'\n]+)[\"']")
_CRUMB = Nearby(r"([\w.\-]+)=([^;\s,\"'\\]+)")
_QUERY = Nearby(
    r"[?&;](?:amp;)?(access_token|refresh_token|id_token|token|sig|signature|x-amz-signature|x-amz-security-token|"
    r"x-goog-signature|api[_\-]?key|apikey|app_?key|key|client_secret|secret|password|passwd|pwd|auth|auth_?token|code|"
    r"session|sessionid|sid|jwt|hmac|ticket|private_token|subscription-key|se?cret|hapikey|sv_token|st|oauth_token|"
    r"oauth_signature|assertion|samlresponse|code_verifier|device_token|invite|magic|otp|nonce_token|reset_token|license)"
    r"=([^&\s\"'<>#\\`)\],]+)"
)
_SESSIONS = Nearby(
    r"(?:.*(?:sess|sid|auth|token|jwt|login|remember|secure|identity|csrf|xsrf|ticket|credential|connect\.|cf_clearance|"
    r"\.aspx|aspnet|user_key|api).*|_[a-z]+_s|d|id|key|s|xs|c_user|datr|sb)"
)


_WEAK = frozenset({b"key", b"token", b"bot", b"oauth", b"jwt", b"negotiate"})
"""Schemes that are words of their own; they count behind the header's name alone."""


def find_in_headers(data: bytes) -> Iterator[Span]:
    """What proves who somebody is in requests, answers and addresses."""
    yield from _authorizations(data)
    for pattern in (_COOKIE, _CURL_COOKIE):
        for found in pattern.finditer(data):
            yield from _crumbs(_CRUMB.finditer(data, found.start(1), found.end(1)))
    for found in _COOKIES.finditer(data):
        yield from _crumbs(_MEMBER.finditer(data, found.start(1), found.end(1)))
    yield from _crumbs(_COOKIE_FILE.finditer(data))
    if b"=" in data and (b"?" in data or b"&" in data):
        for found in _QUERY.finditer(data):
            value = found.group(2) or b""
            shown = data[max(0, found.start() - 4) : found.start()] in {b".svg", b".png"}
            if not shown and _opens((found.group(1) or b"").lower(), value):
                yield Span(found.start(2), found.end(2), "query")


def _authorizations(data: bytes) -> Iterator[Span]:
    for found in _SCHEME.finditer(data):
        kind, value = (found.group(1) or b"").lower(), found.group(2) or b""
        if kind in _WEAK and b"uthorization" not in data[max(0, found.start() - 40) : found.start()]:
            continue
        if documented(data, found.start(1)):
            continue
        if _proves(kind, value.rstrip(b".")):
            yield Span(found.start(2), found.start(2) + len(value.rstrip(b".,")), "authorization")
    for found in _HEADER.finditer(data):
        name = found.group(1) or b""
        if (not name.lower().endswith(b"authorization") and says(name) is Says.NOTHING) or documented(
            data, found.start(1)
        ):
            continue
        called = data.startswith(b"(", found.end(2))
        if not called and token((found.group(2) or b"").rstrip(b"."), 10):
            yield Span(found.start(2), found.end(2), "authorization")


def _proves(kind: bytes, value: bytes) -> bool:
    if kind == b"basic":
        return _basic(value)
    if kind in {b"key", b"token", b"bot", b"oauth"}:
        return token(value, 20)
    return token(value, 10)


def _basic(value: bytes) -> bool:
    """Whether this is user and password in base64, and no example of them."""
    try:
        plain = base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    user, colon, word = plain.partition(b":")
    if placeholder(value) or not colon or not plain.isascii() or word == user:
        return False
    return password(word, certain=True) or token(user, 12)


def _crumbs(crumbs: Iterable[Match]) -> Iterator[Span]:
    for crumb in crumbs:
        name, value = crumb.group(1) or b"", (crumb.group(2) or b"").replace(b"%", b"")
        long = token(value, 24) and not name.lower().startswith((b"_ga", b"_gid", b"_utm", b"etag"))
        if long or (token(value, 12) and _SESSIONS.fullmatch(name)):
            yield Span(crumb.start(2), crumb.end(2), "cookie")


def _opens(name: bytes, value: bytes) -> bool:
    if name in {b"password", b"passwd", b"pwd"}:
        return password(value)
    if name in {
        b"code",
        b"st",
        b"key",
        b"session",
        b"invite",
        b"license",
        b"auth",
        b"ticket",
        b"sig",
        b"signature",
        b"hmac",
    }:
        return token(value.replace(b"%", b""), 16)
    return token(value.replace(b"%", b""), 10)


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
ADDRESS_FORMS = (_WITH_PASSWORD, _WITH_TOKEN, _ORACLE, _GO, _EASY_CONNECT, _WEBHOOK)
_USUAL = frozenset({b"password", b"pass", b"passwd", b"pwd", b"pw", b"secret", b"token", b"port", b"key"})

_OF_NAMES = (b"github://", b"cvs://:pserver:")
"""Where an owner and a repository stand, or an account that everybody has."""


def find_in_addresses(data: bytes) -> Iterator[Span]:
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
            if _address_opens(found.group(1) or b"", (found.group(2) or b"").strip(b'"')):
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
        elif _address_opens(found.group(1) or b"", value):
            yield Span(start, end, "uri-password")


def _address_opens(user: bytes, value: bytes) -> bool:
    plain = unquote_to_bytes(value)
    if plain.lower() in _USUAL or plain == user or (plain.isdigit() and len(plain) < 6):
        return False
    return password(plain, certain=True) and not plain.lower().startswith((b"your", b"my-", b"the"))
