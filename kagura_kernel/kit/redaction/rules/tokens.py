"""Keys and tokens of services that say what they are; headers, cookies and addresses that carry a password or a token."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from urllib.parse import unquote_to_bytes

from kagura_kernel.kit.redaction.false_positives import named
from kagura_kernel.kit.redaction.files import decoded
from kagura_kernel.kit.redaction.names import Says, documented, says
from kagura_kernel.kit.redaction.patterns import Match, Nearby, shortened
from kagura_kernel.kit.redaction.spans import Span
from kagura_kernel.kit.redaction.values import chance, classes, entropy, password, placeholder, published, token

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_FORMATS: tuple[tuple[str, str], ...] = (
    ("aws", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}|ABSK[A-Za-z0-9+/=]{40,}"),
    ("github", r"gh[pousr]_[A-Za-z0-9]{10,}|github_pat_[A-Za-z0-9_]{20,}|v1\.[0-9a-f]{40}"),
    (
        "gitlab",
        r"(?:gl(?:pat|dt|rt|ptt|cbt|soat|ft|agent|oas|imt|ffct|rtr)|GR1348941|glwt)-?[\w\-.]{16,}|_gitlab_session=[0-9a-f]{32}",
    ),
    (
        "slack",
        r"xox[abposecr]-[A-Za-z0-9\-]{10,}|xapp-\d-[A-Za-z0-9\-]{20,}|xoxe\.xox[bp]-[A-Za-z0-9\-]{20,}|xox[dc]-[\w%+/=\-]{20,}",
    ),
    ("stripe", r"(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{20,}"),
    ("google", r"AIza[\w\-]{30,}|ya29\.[\w\-]{20,}|GOCSPX-[\w\-]{20,}|1//0[\w\-]{30,}|GOOG[\w]{10,}1E[A-Z0-9]{20,}"),
    (
        "openai",
        r"sk-(?:proj|svcacct|admin|None|or-v1|lf|ant-\w+|oat\d+|[A-Za-z0-9]+)?-?[\w\-]{20,}|sess-[A-Za-z0-9]{32,}",
    ),
    ("npm", r"npm_[A-Za-z0-9]{20,}|NpmToken\.[0-9a-f\-]{30,}"),
    ("pypi", r"pypi-[\w\-]{20,}"),
    ("huggingface", r"(?:hf|api_org)_[A-Za-z0-9]{20,}"),
    ("sendgrid", r"SG\.[\w\-]{16,}\.[\w\-]{20,}"),
    ("digitalocean", r"do[oprt]_v1_[0-9a-f]{32,}"),
    ("shopify", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{24,}"),
    ("vault", r"hv[sbr]\.[\w\-]{20,}|\b[sb]\.[A-Za-z0-9]{24}\b"),
    ("databricks", r"dapi[0-9a-f]{32}(?:-\d)?"),
    ("docker", r"dckr_(?:pat|oat)_[\w\-]{20,}|SWMTKN-1-[0-9a-z\-]{40,}|SWMKEY-1-[\w+/]{30,}"),
    ("twilio", r"SK[0-9a-f]{32}"),
    ("telegram", r"\d{8,10}:AA[\w\-]{32,34}"),
    ("discord", r"[MNO][A-Za-z\d]{23,27}\.[\w\-]{6}\.[\w\-]{27,40}|mfa\.[\w\-]{80,}"),
    ("atlassian", r"ATATT3[\w\-=]{50,}|ATCTT3[\w\-=]{50,}|ATBB[A-Za-z0-9]{24,}|ATSTT[\w\-=]{50,}"),
    ("age-key", r"AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{50,}|AGE-PLUGIN-[A-Z0-9\-]{30,}"),
    ("square", r"sq0(?:csp|atp)-[\w\-]{22,}|EAAA[\w\-]{56,}"),
    ("facebook", r"EAA[A-Z][A-Za-z0-9]{60,}"),
    ("mailgun", r"key-[0-9a-f]{32}|[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}"),
    ("mailchimp", r"[0-9a-f]{32}-us\d{1,2}"),
    ("postman", r"PMA[KT]-[0-9a-f]{24}-[0-9a-f]{34}|PMAT-[0-9A-Z]{26}"),
    ("newrelic", r"NRAK-[A-Z0-9]{27}|NRII-[\w\-]{32}|NRJS-[0-9a-f]{19}|[0-9a-f]{36}NRAL"),
    ("grafana", r"glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}|glc_[A-Za-z0-9+/=]{32,}|eyJrIjoi[A-Za-z0-9+/=]{40,}"),
    ("planetscale", r"pscale_(?:tkn|pw|oauth)_[\w\-.]{30,}"),
    ("sentry", r"sntry[su]_[A-Za-z0-9_+/=]{40,}"),
    ("tailscale", r"tskey-[a-z]+-[A-Za-z0-9]+(?:-[A-Za-z0-9]+)?"),
    (
        "service-key",
        rf"(?:sdk|pat-(?:na|eu|ap)\d)-{_UUID}|sq[pua]_[0-9a-f]{{40}}",
    ),
    (
        "api-key",
        (
            r"(?:lin_api|lin_oauth|rubygems|secret|ntn|figd|figo|pat|fo1|fm2|FlyV1|nfp|rnd|dp\.(?:pt|st|ct|sa|scim|audit)(?:\.[a-z0-9_\-]{2,35})?|dt0[a-z]\d{2}|"
            r"doo|cfut|cfat|v1\.0|phc|phx|phs|ops|op|pul|sgp|sgd|dvc|server|client|CFPAT|CMAPI|oy2|shippo_(?:live|test)|EZ[AT]K|live|test|prod|xkeysib|xsmtpsib|"
            r"duffel_(?:live|test)|FLWSECK(?:_TEST)?|sbp|sb_secret|sk_[a-z]{2,12}|rk_[a-z]{2,12}|re|r8|gsk|pplx|xai|jina|tvly|fc|csk|nvapi|AQ\.Ab|tgp_v1|lsv2_(?:pt|sk)|co|BSA[A-Z]|"
            r"hsec|hrku|HRKU|ico|mag|okta|00|cio|dcs|sl|uk|key|pk_live_secret|tok|token|apikey|api|bkua|bkpat|bkct|circle|CCIPAT|CCIPRJ|pnpm|sonar|sq[pua]|squ|snyk_\w+|ghu|"
            r"vc[kirpa]|vercel|dsec|cal_live|cal|rpa|wpp|whsk|sv_live|mcp|agt|ctx7sk|pcsk|ak|patp|patc|ocp|sha256~|LTAI|AKID|QVN|wx_?sec|bce-v3/ALTAK|ark|kagi|zpka|scw|SCW|unkey|polar_(?:oat|pat|at)|"
            r"aio|ATTA|trello|mr|sk|rk|pk\.eyJ|sk\.eyJ|eyJ2I|cpk|dsapi|amk|wak|hfr|crt|sat|rt|at|acct|auth|bearer|access|refresh|session|sess|svc|svcacct|usr|user|ws|org|proj|team|int|app|bot|hook|wh|deploy|ci|ft|px|ex|nr|st)"
            r"[_\-.]?(?:live|test|prod|secret|key|pat|token|v\d|sk)?[_\-:.~/][A-Za-z0-9]{6,}[A-Za-z0-9_\-+/=.]{10,}"
        ),
    ),
    (
        "wallet-key",
        r"[5KL][1-9A-HJ-NP-Za-km-z]{50,51}|[xyztuv]prv[1-9A-HJ-NP-Za-km-z]{90,120}|nsec1[02-9ac-hj-np-z]{50,}|S[ABCD][A-Z2-7]{54}",
    ),
    ("jwt", r"eyJ[\w\-]{8,}\.[\w\-]{8,}(?:\.[\w\-]{0,})?(?:\.[\w\-]*){0,2}"),
    (
        "otp",
        r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}|ops_eyJ[A-Za-z0-9+/=]{40,}",
    ),
)
_OF_LETTERS = frozenset({"square", "facebook", "aws", "twilio", "wallet-key", "databricks"})
"""Beginnings that a long text in base64 has by chance."""
_EDGE = r"(?:^|[^A-Za-z0-9_./+\-%]|\\[nrt]|[=/:.\-]|%3[Aa]|%20)"
_ANY = Nearby(_EDGE + "(?:" + "|".join(text for _, text in _FORMATS) + r")(?:[^A-Za-z0-9]|$)", ignore_case=False)
"""Whatever the format: without groups a text is walked through far faster."""
_TOKENS = Nearby(
    _EDGE + "(?:" + "|".join(f"({text})" for _, text in _FORMATS) + r")(?:[^A-Za-z0-9]|$)", ignore_case=False
)
_SOMEWHERE = Nearby(
    _EDGE + "(?:" + "|".join(shortened(text, 8) for _, text in _FORMATS) + r")(?:[^A-Za-z0-9]|$)", ignore_case=False
)
"""Where any of them may begin: with runs of a few signs alone the engine has far less to build."""
_AZURE = Nearby(
    _EDGE
    + r"([A-Za-z0-9+/]{76,}AAAA[A-Za-z0-9]{4}={0,2}|[\w~.\-]{3}[78]Q~[\w~.\-]{30,}|[\w+/]{33}A(?:SB|Hub|Iot)\w{5,}=|"
    + r"[a-z0-9]{52}AzDO[a-z0-9]+|[A-Za-z0-9]{44,}JQQJ99[A-Za-z0-9]{20,}|AZFu[\w+/=]{10,})(?:[^A-Za-z0-9]|$)",
    ignore_case=False,
)
"""What has its well-known part in the middle: apart from the others, since long runs that may lead to it are many."""
TOKEN_FORMS = (_SOMEWHERE, _AZURE)
_LONGEST, _MOST_BEFORE = 128, 40
_CHANCE = re.compile(rb"\d|[a-z][A-Z]+[a-z]")


def find_tokens(data: bytes) -> Iterator[Span]:
    """Tokens with a well-known beginning."""
    at = 0
    while (begun := _SOMEWHERE.search(data, at)) is not None:
        any_format = _ANY.match(data, begun.start())
        if any_format is None:
            at = begun.start() + 1
            continue
        # What follows a match may begin the next one.
        at = max(any_format.end() - 1, at + 1)
        if _CHANCE.search(data, any_format.start(), any_format.end()) is None:
            continue
        found = _TOKENS.match(data, any_format.start())
        if found is None:
            continue
        number = next(number for number in range(1, len(_FORMATS) + 1) if found.start(number) >= 0)
        kind, start = _FORMATS[number - 1][0], found.start(number)
        if _HASHED.search(data[max(0, start - _HEAD) : start]):
            continue
        if kind not in _OF_LETTERS or data[start - 1 : start] != b"/" or not _within_base64(data, start, start):
            yield from _token(kind, data, start, found.end(number))
    for found in _AZURE.finditer(data):
        if _within_base64(data, found.start(1), found.end(1)):
            continue
        yield from _token("azure", data, found.start(1), found.end(1))


_RUN = re.compile(rb"[A-Za-z0-9+/]*\Z")
_HASHED = re.compile(rb"sha\d{1,3}[=:\-]\Z")
_HEAD = 8


def _within_base64(data: bytes, start: int, end: int) -> bool:
    """Whether this is a piece of a long text in base64, which may have anything in its middle."""
    before = _RUN.search(data, max(0, start - _LONGEST), start)
    run = start - before.start() if before is not None else 0
    return (
        end - start > _LONGEST
        or run > _MOST_BEFORE
        or (data[end : end + 1] in {b"+", b"/"} and data[end + 1 : end + 2].isalnum())
    )


def _token(kind: str, data: bytes, start: int, end: int) -> Iterator[Span]:
    value = data[start:end].rstrip(b".-_:/")
    if _believed(kind, value):
        yield Span(start, start + len(value), kind)


def _believed(kind: str, value: bytes) -> bool:
    if placeholder(value) or published(value):
        return False
    if kind in _JUDGES:
        return _JUDGES[kind](value)
    least, kinds = _BOUNDS.get(kind, (2.8, 1))
    return entropy(value) > least and classes(value) >= kinds


_TAIL = re.compile(rb"[A-Za-z0-9]+")
_PATH = re.compile(rb"[a-z]{2,3}/")
"""The end of a host's name and what follows it."""
_HOST = re.compile(rb"[a-z]+\.[a-z0-9-]+\.(?:com|org|net|io|dev|co)(?:[/:]|$)")


def _loose(value: bytes) -> bool:
    """Whether the longest run in it is made of digits and letters as only chance does."""
    if _HOST.match(value) or _PATH.match(value) or b"/webhooks/" in value or named(value):
        return False
    run = max(_TAIL.findall(value), key=len)
    digits = sum(48 <= byte <= 57 for byte in run)
    if len(run) < 20 or not 2 <= digits <= len(run) * 0.7:
        return False
    hexadecimal = all(byte in b"0123456789abcdef" for byte in run)
    return entropy(run) > (3.0 if hexadecimal else 3.5) and not (hexadecimal and _names_a_hash(value))


def _names_a_hash(value: bytes) -> bool:
    return not value.startswith(_OF_KEYS)


_OF_KEYS = tuple(b"key secret sk rk api live prod token tok dp. re_ pul- sgp ops xkeysib xsmtpsib shippo".split())
"""How keys of hexadecimal digits begin."""


def _jwt(value: bytes) -> bool:
    """A header that is JSON with an algorithm; the examples of standards and makers are none."""
    head, _, rest = value.partition(b".")
    header = decoded(head)
    if header is None or b'"' not in header:
        return False
    body = decoded(rest.partition(b".")[0]) or b""
    return not (b'"1234567890"' in body or b"John Doe" in body or (b'"joe"' in body and b"1300819380" in body))


_BASE58 = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def _wallet(value: bytes) -> bool:
    """Whether its checksum is right, where it has one of base 58."""
    if not value.startswith((b"5", b"K", b"L", b"x", b"y", b"z", b"t", b"u", b"v")):
        return entropy(value) > 3.5
    number = 0
    for byte in value:
        number = number * 58 + _BASE58.index(byte)
    with suppress(OverflowError):
        raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
        return hashlib.sha256(hashlib.sha256(raw[:-4]).digest()).digest()[:4] == raw[-4:]
    return False


def _openai(value: bytes) -> bool:
    if value.startswith((b"sk-ssh-", b"sk-ecdsa-")):  # kinds of keys of OpenSSH
        return False
    body = value.rpartition(b"-")[2]
    return _CHANCE.search(value) is not None and entropy(body if len(body) > 16 else value) > 3


def _vault(value: bytes) -> bool:
    """Whether an old token, which begins with one letter as members of an object do, has a digit."""
    return entropy(value) > 3.5 and (value.startswith(b"hv") or any(48 <= byte <= 57 for byte in value))


_JUDGES = {"vault": _vault, "jwt": _jwt, "wallet-key": _wallet, "api-key": _loose, "openai": _openai}
_BOUNDS = {"twilio": (3.0, 1), "mailgun": (3.0, 1), "discord": (3.5, 3), "azure": (3.5, 3)}
"""Bits per byte and classes of characters that are asked of formats which say little about themselves."""


_SERVICE_EDGE = r"(?:^|[^A-Za-z0-9_./+\-]|\\[nrt]|[=:])"
_WHOLE = Nearby(
    _SERVICE_EDGE
    + r"((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}|LTAI[A-Za-z0-9]{12,26}|FLWSECK(?:_TEST)?-[0-9a-f]{32}-X|AKCp[A-Za-z0-9]{60,80}|AQVN[A-Za-z0-9_\-]{34,40}|sb_secret_[\w\-]{20,60}|"
    r"EAA[A-Za-z0-9]{97,400}|CFPAT-[\w\-]{40,}|sl\.(?:u\.)?[A-Z][\w\-]{60,}|fm[12][ar]?_[A-Za-z0-9+/=]{40,}|lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}|"
    r"tvly-(?:[a-z]{3,4}-)?[A-Za-z0-9]{20,}|[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}|K00\d[A-Za-z0-9+/]{27})(?:[^A-Za-z0-9_+/=\-]|$)",
    ignore_case=False,
)
_BEARER = Nearby(_SERVICE_EDGE + r"(A{18,24}[A-Za-z0-9%]{60,160})(?:[^A-Za-z0-9%]|$)", ignore_case=False)
"""What an application shows to X; it begins with zeros in base64."""
_BESIDE = Nearby(
    r"(?:(?:AKIA|ASIA)[A-Z0-9]{16}[\"']?[ \t]*[\s,:;|/][\s\"']*([A-Za-z0-9/+]{40})|"
    r"AC[0-9a-f]{32}[\"']?[ \t]*[,:;][\s\"']*([0-9a-f]{32})|"
    r"rzp_(?:live|test)_[A-Za-z0-9]{14}[\"']?[ \t]*[,:;][\s\"']*([A-Za-z0-9]{20,28}))(?:[^A-Za-z0-9/+=]|$)",
    ignore_case=False,
)
"""The id, and the secret as the next member or argument."""
SERVICE_FORMS = (_WHOLE, _BEARER, _BESIDE)


def find_services(data: bytes) -> Iterator[Span]:
    """Keys and secrets of well-known services."""
    for found in _WHOLE.finditer(data):
        value = found.group(1) or b""
        if chance(value, 2.8) and not placeholder(value) and not published(value):
            yield Span(
                found.start(1), found.end(1), "aws" if value[1:4] in {b"KIA", b"SIA", b"BIA", b"CCA"} else "api-key"
            )
    for found in _BEARER.finditer(data):
        body = (found.group(1) or b"").lstrip(b"A")
        if b"%" in body and chance(body, 4.0) and not placeholder(body):
            yield Span(found.start(1), found.end(1), "api-key")
    for found in _BESIDE.finditer(data):
        group = next(number for number in (1, 2, 3) if found.start(number) >= 0)
        value = found.group(group) or b""
        if chance(value, 3.0) and not placeholder(value):
            yield Span(found.start(group), found.end(group), "secret")


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
    return token(value.replace(b"%", b""), 16 if name in _OFTEN_OPEN else 10)


_OFTEN_OPEN = frozenset(b"code st key session invite license auth ticket sig signature hmac".split())
"""Names in addresses that are those of other things too."""


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
