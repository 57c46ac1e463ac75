"""Headers of HTTP, in traces, in code and on command lines; parameters of signed addresses; cookies."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator

from kagura_kernel.kit.redaction.names import Says, documented, says
from kagura_kernel.kit.redaction.patterns import Match, Nearby
from kagura_kernel.kit.redaction.plausible import password, placeholder, token
from kagura_kernel.kit.redaction.spans import Span

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


def find(data: bytes) -> Iterator[Span]:
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
        if token((found.group(2) or b"").rstrip(b"."), 10):
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
