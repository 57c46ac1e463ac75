"""Passwords and keys that a program gives to a function at a place of their own: `connect(host, user, "…")`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kagura_kernel.kit.redaction.names import Says, says
from kagura_kernel.kit.redaction.patterns import Match, Nearby
from kagura_kernel.kit.redaction.plausible import password, token
from kagura_kernel.kit.redaction.rules.assignments import kind_of, secret
from kagura_kernel.kit.redaction.spans import Span

KIND = "password"
_KEY_KIND = "secret"
_REACH = 600
"""Bytes that the arguments of one call may take."""
_MOST_ARGUMENTS = 8
_DEEPEST = 6

_PASSWORD_AT: Mapping[int, str] = {
    0: "PBEKeySpec set_password setPassword make_password password_verify password_hash withPassword "
    "DeriveKeyFromPassword",
    1: "login Login logIn log_in signIn sign_in authenticate Authenticate HTTPBasicAuth HTTPDigestAuth BasicAuth "
    "basicAuth basic_auth NetworkCredential UsernamePasswordCredentials UsernamePasswordCredential "
    "UsernamePasswordAuthenticationToken PasswordAuthentication UserPassword auth_basic SetBasicAuth setBasicAuth "
    "credentials Credentials withCredentials WithCredentials setCredentials set_credentials PlainCredentials "
    "PSCredential AuthTokens.basic Credentials.basic basic username_pw_set setAuth set_auth setLogin simple_bind_s "
    "simple_bind bind_s bind ldap_simple_bind WiFi.begin WiFi.softAP softAP addAP AccessPoint "
    "withBasicAuth BasicAWSCredentials StaticCredentials NewStaticCredentials AwsBasicCredentials.create "
    "BasicSessionCredentials Aws::Credentials.new userAndPassword createSession PasswordToken signInWithEmailAndPassword "
    "createUserWithEmailAndPassword Rcon MCRcon",
    2: "mysqli_connect mysqli_real_connect mysql_connect mysql_pconnect mysqli PDO getConnection FTP FTP_TLS FTPHost "
    "ftp_login ldap_bind imap_open PlainAuth plain_auth create_user create_superuser createUser mysql_real_connect "
    "ssh2_auth_password odbc_connect oci_connect_as ibm_db.connect DBI.connect Sequel.connect Pusher",
    3: "Redis StrictRedis",
}
_KEY_AT: Mapping[int, str] = {
    0: "hmac.new hmac.HMAC HMAC.new AES.new DES.new DES3.new Blowfish.new ARC4.new ChaCha20.new Fernet SecretKeySpec "
    "aes.NewCipher des.NewCipher SecretBox HMACSHA1 HMACSHA256 HMACSHA384 HMACSHA512 Algorithm.HMAC256 "
    "Algorithm.HMAC384 Algorithm.HMAC512 HMAC256 hmacShaKeyFor setSigningKey SigningKey SymmetricSecurityKey "
    "SymmetricKey cookieParser NewCookieStore cookie.NewStore secretbox.SecretBox EncodingKey::from_secret "
    "DecodingKey::from_secret from_secret Hmac::new_from_slice new_from_slice hmac.digest URLSafeTimedSerializer "
    "URLSafeSerializer TimestampSigner TimedJSONWebSignatureSerializer",
    1: "jwt.sign jwt.verify jwt.decode jwt.encode jsonwebtoken.sign jsonwebtoken.verify JWT::encode JWT::decode "
    "JWT.encode JWT.decode Jwt.encode Jwt.decode createHmac createCipheriv createDecipheriv createCipher "
    "createDecipher hmac.New HMAC.hexdigest HMAC.digest HmacSHA256 HmacSHA1 HmacSHA512 HmacMD5 AES.encrypt "
    "AES.decrypt DES.encrypt DES.decrypt TripleDES.encrypt Rabbit.encrypt signWith algoliasearch SearchClient.create "
    "jose.sign hmac_sha256 crypto_secretbox hmacSha256 Twilio twilio Client",
    2: "hash_hmac openssl_encrypt openssl_decrypt",
}
_LAST = frozenset({b"set_password", b"setPassword"})
"""They take what the password is for before it, if that must be said."""
_CONNECT = "connect Connect pg_pconnect oci_connect oci_pconnect"
"""They take host, user and password, or user and password, or a client, a user and a password."""
_PLACES: Mapping[bytes, tuple[int, bool]] = {
    name.encode(): (place, keys)
    for keys, table in ((False, _PASSWORD_AT), (True, _KEY_AT))
    for place, names in table.items()
    for name in names.split()
}
_NAMES = "|".join(sorted((re.escape(name.decode()) for name in _PLACES), key=len, reverse=True))
_HEAD = Nearby(
    rf"(?:^|[^\w$])(?:({_NAMES})|({'|'.join(_CONNECT.split())})|(\w*(?:[aA]uth|AUTH)(?:Provider|entication|Token)?|\w*Credentials?|basic_auth)(?:\s?[=:]\s?)?)\s?[(\[]",
    ignore_case=False,
)
_CHARACTERS = Nearby(r"\"([^\"\n\\]{4,80})\"\s?\.(?:toCharArray|getBytes|as_bytes|encode)\(", ignore_case=False)
_USERPWD = Nearby(
    r"\bCURLOPT_(?:PROXY)?USERPWD\s*(?:,|=>|=|:)\s*(?:\"[^\"\n:]+:([^\"\n]+)\"|'[^'\n:]+:([^'\n]+)')", ignore_case=False
)
_OPTION = Nearby(
    r"add_argument\(\s*[\"']-{0,2}([\w\-]+)[\"'][^\n()]{0,200}?\bdefault\s*=\s*[bru]?(?:\"([^\"\n\\]+)\"|'([^'\n\\]+)')"
)
_TYPED = Nearby(
    r"(?:pass|pwd|pw\b)[^\n]{0,60}?[\"'\]) ]\s*\)?\s*\.\s*(?:send_keys|sendKeys|type|fill|setValue|set|val|enter_text|pressSequentially|clearAndType)\(\s*(?:\"([^\"\n]+)\"|'([^'\n]+)')"
    r"|\bstr[nl]?cpy\(\s*[\w.>\-]*(?:pass|pwd|psk|secret|token|key)\w*\s*,\s*(?:\"([^\"\n]+)\"|'([^'\n]+)')"
    r"|(?:\"([^\"\n]+)\"|'([^'\n]+)')\s*\|\s*password_hash\b"
    r"|\b(?:fill|type|setValue|fill_in|fillField|set_text|enter_text|typeText|input_text|Input Password|replaceText)[ \t(]+(?:\w+,\s*)?[^\n,]{0,40}(?:pass|pwd)[^\n,]{0,30},\s*(?:with:\s*)?(?:\"([^\"\n]+)\"|'([^'\n]+)')"
)
_TOKEN = re.compile(rb"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`[^`\n]*`|[()\[\]{},;]")
_OPENS, _CLOSES = b"([{", b")]}"
_LITERAL = re.compile(
    rb"\s*(?:\[\]byte\(|(?:[\w.]|::)*(?:[gG]etBytes|from|Some|bytes|fromstring|from_utf8|encode|utf8|of|toBytes|String|SecretStr)\(\s*|"
    rb"(?:[a-z]*(?:pass|pwd|secret|key|token)[a-z]*\s*[=:]\s*)|[bBuUrRfFN@$&]{1,2})?"
    rb"(?:\"([^\"\n\\]+)\"|'([^'\n\\]+)'|`([^`\n]+)`)\s*(?:\)*|\.[\w.()\"', -]*)\s*",
)
_NUMBER = re.compile(rb"\s*\d+\s*")
_HOST = re.compile(
    rb"[a-zA-Z][\w\-]*(?:\.[\w\-]+)*\.[a-z]{2,8}(?::\d+)?|\d+(?:\.\d+){3}(?::\d+)?|localhost|[\w\-]+:\d+|tcp://.*|[a-z]+://.*"
)


_BASE64 = re.compile(rb"[\w+/\-]{42,}={1,2}")


@dataclass(frozen=True, slots=True)
class _Argument:
    """One argument of a call.

    Attributes:
        raw: As it stands in the source.
        start: Where its text begins, when it is one; otherwise -1.
        end: Behind its last byte.
    """

    raw: bytes
    start: int = -1
    end: int = -1


def find(data: bytes) -> Iterator[Span]:
    """What stands where a function takes its password or its key."""
    for found in _HEAD.finditer(data):
        yield from _called(data, found)
    for found in _OPTION.finditer(data):
        option, group = found.group(1) or b"", 2 if found.start(2) >= 0 else 3
        if (what := says(option)) is not Says.NOTHING and secret(what, option, found.group(group) or b""):
            yield Span(found.start(group), found.end(group), kind_of(what, option))
    for pattern in (_CHARACTERS, _USERPWD, _TYPED):
        for found in pattern.finditer(data):
            group = next(number for number in range(1, 9) if found.start(number) >= 0)
            if password(found.group(group) or b"") and b" " not in (found.group(group) or b""):
                yield Span(found.start(group), found.end(group), KIND)


def _called(data: bytes, found: Match) -> Iterator[Span]:
    name, connects = found.group(1), found.group(2)
    arguments = _arguments(data, found.end())
    if name is not None:
        place, is_key = _PLACES[name]
        yield from _at(data, arguments, len(arguments) - 1 if name in _LAST and arguments else place, is_key=is_key)
    elif connects is not None:
        yield from _connected(data, arguments)
    elif len(arguments) in {1, 2}:
        yield from _at(data, arguments, len(arguments) - 1, is_key=False)


def _arguments(data: bytes, at: int) -> Sequence[_Argument]:
    """The arguments behind an open bracket; none when it is not closed nearby."""
    window = data[at : at + _REACH]
    out: list[_Argument] = []
    depth = begin = 0
    for found in _TOKEN.finditer(window):
        sign = found.group()
        if len(sign) > 1:
            continue
        if sign in _OPENS:
            depth += 1
            if depth > _DEEPEST:
                return []
        elif sign == b";" and not depth:
            return out
        elif depth and sign in _CLOSES:
            depth -= 1
        elif not depth and (sign == b"," or sign in _CLOSES):
            out.append(_argument(window[begin : found.start()], at + begin))
            begin = found.end()
            if sign != b"," or len(out) == _MOST_ARGUMENTS:
                return out
    return out


def _argument(raw: bytes, at: int) -> _Argument:
    found = _LITERAL.fullmatch(raw)
    if found is None:
        return _Argument(raw)
    group = found.lastindex or 1
    return _Argument(raw, at + found.start(group), at + found.end(group))


def _at(data: bytes, arguments: Sequence[_Argument], place: int, *, is_key: bool) -> Iterator[Span]:
    if place >= len(arguments) or arguments[place].start < 0:
        return
    one = arguments[place]
    value = data[one.start : one.end]
    if is_key:
        if _is_key(value):
            yield Span(one.start, one.end, _KEY_KIND)
    elif (place == 0 or value != _text(data, arguments[place - 1])) and _is_password(
        value, certain=place > 0 and arguments[place - 1].start >= 0
    ):
        yield Span(one.start, one.end, KIND)


def _connected(data: bytes, arguments: Sequence[_Argument]) -> Iterator[Span]:
    """The password among host, port, user, password and database, some of which may be missing."""
    named = [one for one in arguments if not _NUMBER.fullmatch(one.raw)]
    if (
        len(named) < 2
        or (len(named) == 2 and not _opens(data, named))
        or any(b"=" in one.raw for one in named[:2] if one.start < 0)
    ):
        return
    third = _text(data, named[2]) if len(named) == 3 else b""
    place = 1 if len(named) == 2 or b"/" in third or _HOST.fullmatch(third) else 2
    yield from _at(data, named, place, is_key=False)


def _opens(data: bytes, named: Sequence[_Argument]) -> bool:
    """Whether two arguments are a user and a password, and not a host and a user."""
    return not _HOST.fullmatch(_text(data, named[0])) and password(_text(data, named[1]))


def _text(data: bytes, one: _Argument) -> bytes:
    return data[one.start : one.end] if one.start >= 0 else b""


def _is_password(value: bytes, *, certain: bool) -> bool:
    if b" " in value or b"://" in value or b"anonymous" in value or _HOST.fullmatch(value):
        return False
    return token(value, 12) or password(value, certain=certain and not value.isdigit())


_ENCODING = re.compile(
    rb"(?i)utf[-_]?(?:8|16|32)(?:[-_]?(?:le|be|sig))?|ascii|latin[-_]?1|iso[-_]?8859[-_]?\d+|cp\d{3,4}"
)
"""What `key.encode("utf-8")` has for a text is no key."""


def _is_key(value: bytes) -> bool:
    return (
        b" " not in value
        and _ENCODING.fullmatch(value) is None
        and (_BASE64.fullmatch(value) is not None or token(value, 12) or password(value))
    )
