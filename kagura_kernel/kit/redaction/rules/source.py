"""Secrets in source code: arguments of calls, and what a program puts together from literals."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.kit.redaction.chance import drawn
from kagura_kernel.kit.redaction.false_positives import CLOSED, within_text
from kagura_kernel.kit.redaction.names import Says, kind_of, says, secret
from kagura_kernel.kit.redaction.patterns import Match, Nearby
from kagura_kernel.kit.redaction.spans import Span, in_each, line_start
from kagura_kernel.kit.redaction.values import password, token

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
    """One argument of a call."""

    raw: bytes  # as it stands in the source
    start: int = -1  # where its text begins, when it is one; otherwise -1
    end: int = -1  # behind its last byte


def find_arguments(data: bytes) -> Iterator[Span]:
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


_STRING = r"(?:[bBrRuUfF@$]{0,2}\"[^\"\n\\]*\"|[bBrRuUfF@$]{0,2}'[^'\n\\]*'|`[^`\n\\]*`)"
_JOIN = r"(?:\s*\)\s*\+\s*(?:[\w:]{1,40}\(\s*)?|\s*\+\s*[\w:]{1,40}\(\s*|\s*[&+]\s*_\s*\r?\n\s*|\s*(?:\+|\.\.|\.|&|\|\||~|<>|\+\+)\s*\\?\s*|\s*\\\r?\n\s*|\s*\r?\n\s*|[ \t]+|)"
_ROW = Nearby(rf"{_STRING}(?:{_JOIN}{_STRING})+")
_LIST = Nearby(
    rf"(?:[\[(]\s*({_STRING}(?:\s*,\s*{_STRING})+)\s*,?\s*[\])]\s*\.\s*join|join\(?\s*\(?[\"'](?:[\"'])?\s*,?\s*\(?\s*[\[(]\s*({_STRING}(?:\s*,\s*{_STRING})+)|"
    rf"join\(\s*[\[(]\s*({_STRING}(?:\s*,\s*{_STRING})+)|"
    rf"(?:concat!?|implode|Concat|CONCAT|paste0|string\.Concat|os\.path\.join|strcat|StringBuilder)\s*\(?(?:\s*\(?[\"'][\"']\s*,)?\s*\[?\(?\s*({_STRING}(?:\s*,\s*{_STRING})+))"
)
_PIECE = Nearby(r"[bBrRuUfF@$]{0,2}(?:\"([^\"\n\\]*)\"|'([^'\n\\]*)'|`([^`\n\\]*)`)")
_NAMED = Nearby(
    rf"([A-Za-z_$][\w$]*)(?:\s*:\s*\w+)?\s*(?::=|=)\s*{_STRING}[ \t]*(?:;|,|#[^\n]*|//[^\n]*)?[ \t]*(?:\r|\n|;|$)"
)
_SUM = Nearby(
    r"([A-Za-z_$][\w$]*)\s*(?:\+|\.\.|\.|&|\|\||~)\s*([A-Za-z_$][\w$]*)(?:\s*(?:\+|\.\.|\.|&|\|\||~)\s*([A-Za-z_$][\w$]*))?(?:\s*(?:\+|\.\.|\.|&)\s*([A-Za-z_$][\w$]*))?"
)
_FILLED = Nearby(
    r"\$?\{([A-Za-z_$][\w$]*)\}[\"']?\s?[\"']?\$?\{([A-Za-z_$][\w$]*)\}(?:\$?\{([A-Za-z_$][\w$]*)\})?|\$([A-Za-z_]\w*)\$([A-Za-z_]\w*)|\"?\$\{?([A-Za-z_]\w*)\}?\"?\"?\$\{?([A-Za-z_]\w*)\}?"
)
_GROWN = Nearby(
    rf"(?m:^)[ \t]*(?:(?:export|local|readonly|my|our|let|var|const|private|val|String|string)[ \t]+)?([$@]?[A-Za-z_]\w*)[ \t]*(:=|=|\+=|\.=|\.\.=|&=|<>=)[ \t]*(?:\w+[ \t]*\+[ \t]*)?({_STRING}|[\w@%+/.:=\-]+(?:\r|\n|;|$))"
)
_LEADS = frozenset({b":", b"=", b" ", b"/"})
"""How a literal ends that leads to a secret in the next: `postgres://app:`, `Password=`, `Bearer `."""
_MOST_NAMES = 400
_LEAST = 8
_MADE = re.compile(rb"(?:(?:std::)?w?string|String|concat!|[bBrRuU]?(?:\"\"|'')\s{0,9}\.)\s{0,9}\(?\s{0,9}\Z")
"""What makes one text of several, before the first of them."""
_WIDEST = 400
"""Bytes of a statement before a literal of it."""


@dataclass(frozen=True, slots=True)
class _Joined:
    """What literals are together, and where each piece of it stands in the source."""

    text: bytes  # the line before the first literal, and all of them as one
    shift: int  # where they begin in it
    pieces: Sequence[tuple[int, int]]  # where each one is in the source


def find_joined(data: bytes, look: Callable[[bytes], Iterable[Span]]) -> Iterator[Span]:
    """Secrets over several literals.

    Args:
        data: The source.
        look: Finds the secrets of a text in one piece; it is asked once for all that was joined.
    """
    joined = list(_joined(data))
    texts = list(dict.fromkeys(one.text for one in joined))
    found: dict[bytes, list[Span]] = {}
    for number, span in in_each(texts, look):
        found.setdefault(texts[number], []).append(span)
    for one in joined:
        if (spans := found.get(one.text, ())) and not within_text(data, one.pieces[0][0]):
            begins = list(accumulate((last - first for first, last in one.pieces), initial=one.shift))
            later = frozenset(one.pieces[1:])
            for span in spans:
                yield from _outside(one, span, begins, later)


def _joined(data: bytes) -> Iterator[_Joined]:
    for found in _ROW.finditer(data):
        start = found.start()
        # The end of an empty literal begins none: `user:"",host:""`.
        if start == 0 or data[start - 1] != data[start]:
            yield from _row(data, start, start, found.end())
    if b"join" in data or b"oncat" in data or b"implode" in data or b"paste0" in data or b"CONCAT" in data:
        for found in _LIST.finditer(data):
            group = next(number for number in (1, 2, 3, 4) if found.group(number) is not None)
            yield from _row(data, found.start(), found.start(group), found.end(group))
    if b"+=" in data or b".=" in data or b"&=" in data:
        yield from _grown(data)
    yield from _variables(data)


def _grown(data: bytes) -> Iterator[_Joined]:
    """What is put together by one name that is added to: `TOKEN="…"`, `TOKEN+="…"`."""
    grown: dict[bytes, list[tuple[int, int]]] = {}
    for found in _GROWN.finditer(data):
        name = (found.group(1) or b"").lstrip(b"$@")
        size = len((found.group(3) or b"").rstrip(b"\r\n;"))
        places = _pieces(data, found.start(3), found.end(3)) or [(found.start(3), found.start(3) + size)]
        if found.group(2) in {b"=", b":="}:
            grown[name] = places[:1]
        elif name in grown:
            grown[name].append(places[0])
    for name, pieces in grown.items():
        if len(pieces) > 1:
            yield _together(data, name + b" =", pieces)


def _row(data: bytes, before: int, start: int, end: int) -> Iterator[_Joined]:
    pieces = _pieces(data, start, end)
    if data.find(b"\n", start, end) >= 0:
        pieces = _of_one_statement(data, pieces)
    if pieces and data[pieces[-1][1] + 1 : pieces[-1][1] + 8].lstrip(b" \t").startswith((b":", b"=")):
        pieces.pop()  # it is the name of what follows
    if len(pieces) < 2 or sum(last - first for first, last in pieces) < _LEAST:
        return
    if sum(b" " in data[first:last] for first, last in pieces) * 2 > len(pieces):
        return
    line = data.rfind(b"\n", max(0, before - 300), before) + 1
    head = data[line:before] if line and before - line < 300 else data[max(0, before - 120) : before]
    yield _together(data, _MADE.sub(b"", head).rstrip().rstrip(b"([{"), pieces)


def _of_one_statement(data: bytes, pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pieces up to a line that begins a statement of its own: no deeper than the first, outside of brackets."""
    for number, (before, after) in enumerate(pairwise(pieces), 1):
        between = data[before[1] + 1 : after[0] - 1]
        if b"\n" not in between or between.strip(b" \t\r\nbBrRuUfF@$"):
            continue  # a sign joins them
        first, second = line_start(data, pieces[0][0], _WIDEST), line_start(data, after[0], _WIDEST)
        if _commented(data, first) is not _commented(data, second) or _words(data[after[0] : after[1]]):
            return pieces[:number]
        if _indent(data, second) <= _indent(data, first) and not _in_brackets(data, pieces[0][0]):
            return pieces[:number]
    return pieces


def _words(piece: bytes) -> bool:
    """Whether a literal on a line of its own says something, and goes on with no secret."""
    words = piece.decode("utf-8", "replace").split()
    return all(word.isalpha() for word in words) and not any(drawn(word.encode()) for word in words)


def _commented(data: bytes, at: int) -> bool:
    return data[at : at + _WIDEST].lstrip(b" \t").startswith((b"#", b"//", b"--", b"*", b"/*", b";"))


def _indent(data: bytes, at: int) -> int:
    line = data[at : at + _WIDEST]
    return len(line) - len(line.lstrip(b" \t"))


def _in_brackets(data: bytes, at: int) -> bool:
    """Whether a bracket is open there, by the lines above up to one that ends a statement or is empty."""
    window = CLOSED.sub(b"", data[max(0, at - _WIDEST) : at - 1])
    window = window[window.rfind(b"\n\n") + 1 :]
    depth = 0
    for byte in reversed(window):
        if byte in b")]}":
            depth += 1
        elif byte in b"([{":
            if not depth:
                return True
            depth -= 1
    return False


def _pieces(data: bytes, start: int, end: int) -> list[tuple[int, int]]:
    pieces = []
    for found in _PIECE.finditer(data, start, end):
        group = next(number for number in (1, 2, 3) if found.group(number) is not None)
        if found.end(group) > found.start(group):
            pieces.append((found.start(group), found.end(group)))
    return pieces


def _together(data: bytes, head: bytes, pieces: Sequence[tuple[int, int]]) -> _Joined:
    whole = b"".join(data[first:last] for first, last in pieces)
    return _Joined(head + b' "' + whole + b'"\n', len(head) + 2, pieces)


def _outside(joined: _Joined, span: Span, begins: Sequence[int], later: Collection[tuple[int, int]]) -> list[Span]:
    """The same secret as places of the source; nothing when it is only a part of one literal, which tells it itself.

    Args:
        joined: What literals are together.
        span: The secret in it.
        begins: Where each piece begins in it.
        later: All pieces but the first.
    """
    inside: list[Span] = []
    number = max(0, bisect_right(begins, span.start) - 1)
    while number < len(joined.pieces) and begins[number] < span.end:
        (first, last), at = joined.pieces[number], begins[number]
        lower, upper = max(span.start, at), min(span.end, at + last - first)
        if upper > lower:
            inside.append(Span(first + lower - at, first + upper - at, span.kind))
        number += 1
    before = joined.text[span.start - 1 : span.start]
    whole = len(inside) == 1 and before in _LEADS and (inside[0].start, inside[0].end) in later
    return inside if len(inside) > 1 or whole else []


def _variables(data: bytes) -> Iterator[_Joined]:
    named: dict[bytes, tuple[int, int]] = {}
    for number, found in enumerate(_NAMED.finditer(data)):
        if number >= _MOST_NAMES:
            return
        places = _pieces(data, found.end(1), found.end())
        if len(places) == 1:
            named[found.group(1) or b""] = places[0]
    if len(named) < 2:
        return
    for pattern, groups in ((_SUM, 4), (_FILLED, 7)):
        for number, found in enumerate(pattern.finditer(data)):
            if number >= _MOST_NAMES:
                break
            names = [found.group(group) for group in range(1, groups + 1)]
            pieces = [named[name] for name in names if name is not None and name in named]
            if len(pieces) >= 2:
                line = line_start(data, found.start(), 300)
                yield _together(data, data[line : found.start()].rstrip(b"f$\"'` ("), pieces)
