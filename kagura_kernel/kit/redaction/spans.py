"""Places in a text, in bytes of UTF-8: of secrets, their markers and parts worth a look; and what redacting comes to."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence

from kagura_kernel.domain.kit import MARKER, marker
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.kit.redaction.patterns import BETWEEN, Lazy

_MARKER = re.compile(MARKER.pattern.encode())
_REST_OF_LINES = re.compile(rb"(?:\r?\n[ \t]*)+")
_REST_OF_ESCAPED_LINES = re.compile(rb"(?:\r?\n[ \t]*|\\r|\\n|\\u000[aAdD])+")
_KEY = "private-key"
"""The kind whose lines are one secret, also where their ends are written as escapes."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """One secret, or a piece of one."""

    start: int  # where it begins
    end: int  # behind its last byte
    kind: str  # of what kind, as in the marker
    # Those that its marker needs on both sides to be one text in the language of the file; mostly none.
    quotes: str = ""


@dataclass(frozen=True, slots=True)
class Put:
    """A marker that was put into a text: its kind, and where it stands in the new text."""

    kind: str
    start: int
    end: int


def merged(data: bytes, spans: Iterable[Span]) -> list[Span]:
    """The spans in order, none touching another or a marker that already stands there.

    Of two that overlap one is made, with the kind of the one that begins first (of the longer, if both begin there),
    and of two pieces of a kind with nothing between them but the ends of a key's lines.
    """
    joined: list[Span] = []
    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        if span.end <= span.start:
            continue
        last = joined[-1] if joined else None
        if last is not None and (span.start < last.end or _goes_on(data, last, span)):
            joined[-1] = Span(last.start, max(last.end, span.end), last.kind, last.quotes or span.quotes)
        else:
            joined.append(span)
    if b"[REDACTED:" in data:
        joined = [piece for span in joined for piece in _around_markers(data, span)]
    return joined


def _goes_on(data: bytes, before: Span, span: Span) -> bool:
    if before.kind != span.kind or before.quotes or span.quotes:
        return False
    between = data[before.end : span.start]
    return not between or (span.kind == _KEY and _REST_OF_ESCAPED_LINES.fullmatch(between) is not None)


def _around_markers(data: bytes, span: Span) -> list[Span]:
    """What of a span is no marker; nothing when all that is left is too short to be of use to anybody."""
    pieces = []
    at = span.start
    # A marker may begin before the span and reach into it.
    for found in _MARKER.finditer(data, max(0, span.start - 80), min(len(data), span.end + 80)):
        if found.end() <= span.start or found.start() >= span.end:
            continue
        pieces.append((at, found.start()))
        at = max(at, found.end())
    if not pieces:
        return [span]
    pieces.append((at, span.end))
    return [Span(start, end, span.kind) for start, end in pieces if len(data[start:end].strip()) >= 8]


def put_markers(data: bytes, spans: list[Span]) -> tuple[bytes, list[Put]]:
    """The text with a marker for each span; line ends within a span stay, so that lines keep their numbers."""
    out: list[bytes] = []
    puts: list[Put] = []
    at = length = 0
    for span in spans:
        kept = data[at : span.start]
        new = marker(span.kind).encode()
        quote = span.quotes.encode()
        out += [kept, quote, new, quote]
        length += len(kept) + len(quote)
        puts.append(Put(span.kind, length, length + len(new)))
        length += len(new) + len(quote)
        ends = _REST_OF_ESCAPED_LINES if span.kind == _KEY else _REST_OF_LINES
        for lines in ends.findall(data, span.start, span.end):
            out.append(lines)
            length += len(lines)
        at = span.end
    out.append(data[at:])
    return b"".join(out), puts


def leaves_something(data: bytes, put: tuple[int, int]) -> bool:
    """Whether the line of a marker has a digit outside markers: without one there is no second value in it."""
    begin, end = data.rfind(b"\n", max(0, put[0] - _LONGEST_LINE), put[0]) + 1, data.find(b"\n", put[1])
    if not begin or end < 0 or end - begin > _LONGEST_LINE:
        return True
    rest = _MARKER.sub(b"", data[begin:end])
    return rest.translate(None, _DIGITS) != rest


_DIGITS = b"0123456789"
_LONGEST_LINE = 4 * 1024


def moved(puts: list[Put], spans: list[Span], new: list[Put]) -> list[Put]:
    """Where earlier markers stand after `spans` were replaced; `new` are the markers put for those that get one."""
    out = []
    gained = at = 0
    for put in puts:
        while at < len(spans) and spans[at].start < put.start:
            size = spans[at].end - spans[at].start
            gained += new[at].end - new[at].start + 2 * len(spans[at].quotes) - size
            at += 1
        out.append(Put(put.kind, put.start + gained, put.end + gained))
    return out


_SAYING = Lazy(
    r"passw|pass(?:phrase|code|wd)|[_\-.]pass|pass[\"':=_ ]|passin\b|passout\b|pwd|pw\b|rabbitmqctl|net use|\botp\b|totp|p/w|psk|kennw|zugang|contrase|clave|senha|chave|wachtwoord|mot de passe|mdp|secret|token|"
    r"[_\-. \"']key[\"'\s:=]|apikey|accesskey|[a-z]key[\"'\s:=<]|[_\-]key(?:s?[^a-z\n]|s?(?m:$)|data)|key[_\-]|auth(?:[^o\n]|o[^r\n]|ori[sz]|(?m:$))|credential|creds?\b|\blog[ -]?in|signing[_\-]?key|sign[ _.\-]?in(?:[^g\n]|(?m:$))|\bpin\b|mnemonic|pepper|cookie|(?:\b|_|php|j|auth|user|app|login|asp(?:\.net_|net)?)sess\w*(?:[\"'\])]{0,3}[ \t]*[:=,(]|[ \t]+\w+[ \t]*=|[_.\-])|sess(?:ion)?[_\-. ]?(?:id|key|tok|secret|cookie)|(?:auth|user|app|login)[_\-. ]?session|\bsid(?:\b|_)|signature[\w\"'\-]*[ \t]*[:=]|[?&;][\w\-]+=|bearer|jwt|\bbasic |recovery|backup code|scratch code|"
    r"wiederherst|notfall|schlüssel|identified|\brequirep|community(?:6?[ \t]|[\-_]?(?:name|string)|[\"' ]*[:=])|\bPSK\b|crypt\w*(?:[ \t]*[(:=]|[\"']|[ \t]+(?:\w+[ \t]+){0,3}(?:with|using|mit|by)\b)|cryptsetup|-encrypt\b|\s-[pPuUwaAkhXSyNbEK](?:[^\s\w]|\s*\S)|\s--?pw|\bpass[ \t]|\bpass[^\s\w]|[:=][ \t]*[\"']?pass\b|otp|\|[ \t]*su|chpasswd|vault|wpa_|\bsend[ \t(\-]+[\"']|<<<|connect\(|"
    r"\$(?:2[aby]|1|5|6|y|apr1)\$|\{S?SHA|:(?:\d{2,5}|\*):[^\s:]+:[^\s:]+:|\]:\d+\s|ghp_|gho_|\bsk-|\bsk_(?:[\"']|l[i\"']|t[e\"']|p[r\"'])|xox[abp]|glpat|AKIA|npm_|pypi-|hf_|SG\.|eyJ|AIza|"
    r"\{(?:plain|clear)|UGFzc3dv|\bidentify\b|/oper|one-time|verification code|hasło|(?:door|gate|alarm|lock|entry|safe|keypad|garage)[ -]?code|code (?:for|to) the|geheimzahl|\bu: \S+ p:|wi-?fi|wlan|\bunzip\b|unlock|entpack|verschlüssel|\broot:|redis\(|ldap|kinit|upsmon|\b(?:user|owner|input)_pw|smbpass|impacket|qpdf|etcdctl|_pw|\beap\b|xauth|anmelden|einloggen|://\S+[ \t]+(?:–|—|-|\|)[ \t]\S+[ \t](?:–|—|-|\||/)[ \t]|://\w*:[\"']|key<|\bpuk\b|登录|登陆|登入|登錄|connection\(|mysqli|\bpdo\(|\.begin\(|hmac|\baes\b|aes\.|cipher|fernet|simple_bind|\bftp|imap_open|@tcp\(|send_?keys|tochararray|"
    r"\bcurl\b|/p(?:ass(?:word)?)?:\S|alias set|psexec|rclone|/dev/stdin|\bsnmp|isakmp|\$7\$|\$[89]\$|phash|_salt|\buser \S+ (?:on|off|reset)\b|setuser|generated for|authtok|unseal|#httponly_|\t(?:true|false)\t/[^\t\n]*\t(?:true|false)\t\d|"
    r"(?m:^)[ \t]*\"?[a-z][\w.@\\\-]*\"?[ \t]+\"?\*\"?[ \t]+\S{6}|"
    r"хasło|haslo|heslo|lösen|parola|şifre|ｐａｓｓ|ＰＡＳＳ|Ｐａｓｓ|ｐｗ|ＰＷ|ｔｏｋｅｎ|Ｔｏｋｅｎ|openssl enc|пароль|ключ|токен|비밀번호|암호|패스워드|토큰|パス|トークン|暗証|合言葉|キー|鍵|コード|シークレット|認証|密码|密碼|口令|密钥|密鑰|令牌|钥|码|碼|凭|ログイン|账号|帳號|账户|アカウント"
)
_BEFORE, _AFTER = 3, 5
"""Lines that may belong to a line that says something: a name above, values below."""
_NEAR_BEFORE, _NEAR_AFTER = 1, 2
"""Lines that may look different once something in a line was replaced."""
_MOST_BEFORE, _MOST_AFTER = 2000, 6000
"""Likewise, in bytes, for texts with endless lines."""


def said_places(data: bytes) -> Iterator[tuple[int, int]]:
    """Where such words begin, and where their lines end; one for each line that has any."""
    return places(data, _SAYING)


def places(data: bytes, form: Lazy) -> Iterator[tuple[int, int]]:
    """Where a pattern begins to match, and where the line ends in which it does; one for each line."""
    at = 0
    while (found := form.search(data, at)) is not None:
        end = data.find(b"\n", found.end())
        at = len(data) if end < 0 else end
        yield found.start(), at
        if end < 0:
            return


def says_something(data: bytes) -> bool:
    """Whether there is any such word in a text."""
    return _SAYING.search(data) is not None


def said_regions(data: bytes, places: Iterable[tuple[int, int]] | None = None) -> Iterator[tuple[int, int]]:
    """Parts of the text around such words, in order, none touching another; each begins and ends at a line's end.

    Args:
        data: UTF-8.
        places: What `said_places` says of it, if that is known already.
    """
    start = last = -1
    for at, line_end in said_places(data) if places is None else places:
        # Where lines are not endless, it is enough to count them.
        if last < 0 or at - last > _MOST_BEFORE or data.count(b"\n", last, at) > _BEFORE + _AFTER + 1:
            first = _before(data, data.rfind(b"\n", max(last, 0), at) + 1, _BEFORE)
            end = _after(data, last, _AFTER) if last >= 0 else -1
            if first > end:
                if last >= 0:
                    yield start, end
                start = first
        last = line_end
    if last >= 0:
        yield start, _after(data, last, _AFTER)


def _before(data: bytes, at: int, lines: int) -> int:
    low = max(0, at - _MOST_BEFORE)
    for _ in range(lines + 1):
        at = data.rfind(b"\n", low, at)
        if at < 0:
            return low
    return at + 1


def _after(data: bytes, at: int, lines: int) -> int:
    high = min(len(data), at + _MOST_AFTER)
    for _ in range(lines + 1):
        found = data.find(b"\n", at, high)
        if found < 0:
            return high
        at = found + 1
    return at


def windows(data: bytes, around: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Parts of the text around these places, which were changed."""
    start = end = -1
    for first, last in around:
        begin = _before(data, first, _NEAR_BEFORE)
        if begin > end:
            if end >= 0:
                yield start, end
            start = begin
        end = max(end, _after(data, last, _NEAR_AFTER))
    if end >= 0:
        yield start, end


def in_each(texts: Sequence[bytes], look: Callable[[bytes], Iterable[Span]]) -> Iterator[tuple[int, Span]]:
    """What is in each of these texts, with its number; many short ones cost far more than all of them as one."""
    if not texts:
        return
    begins = [0]
    for text in texts:
        begins.append(begins[-1] + len(text) + len(BETWEEN))
    for span in look(BETWEEN.join(texts)):
        number = bisect_right(begins, span.start) - 1
        begin = begins[number]
        if span.end - begin <= len(texts[number]):
            yield number, Span(span.start - begin, span.end - begin, span.kind, span.quotes)


def line_start(data: bytes, at: int, reach: int) -> int:
    """Where the line of a place begins, or so many bytes before it, if that is nearer."""
    low = max(0, at - reach)
    return max(data.rfind(b"\n", low, at) + 1, low)


def lines_with(data: bytes, word: bytes) -> Iterator[tuple[int, int]]:
    """The lines that hold these very bytes, without their ends; finding bytes is far quicker than any pattern."""
    at = data.find(word)
    while at >= 0:
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        yield data.rfind(b"\n", 0, at) + 1, end
        at = data.find(word, end)


def around(data: bytes, word: bytes, reach: int) -> Iterator[tuple[int, int]]:
    """Parts of the text so many bytes around these very bytes, in order, none touching another."""
    at = data.find(word)
    while at >= 0:
        start, end = max(0, at - reach), at + reach
        while 0 <= (at := data.find(word, at + 1)) <= end:
            end = at + reach
        yield start, min(end, len(data))


_FOREIGN = Lazy(r"[^\n]*[^\x00-\x7f][^\n]*(?:\n[^\n]*)?")


def foreign_lines(data: bytes) -> Iterator[tuple[int, int]]:
    """Lines with letters outside ASCII, each with the one below it."""
    if not data.isascii():
        for found in _FOREIGN.finditer(data):
            yield found.start(), found.end()


@dataclass(frozen=True, slots=True)
class Finding:
    """One secret that was replaced."""

    kind: str  # of what kind, as in its marker: `github`, `uri-password`, `private-key`, …
    line: int  # of its marker in the redacted text, from 1
    start: int  # where its marker begins in the redacted text, in characters from 0
    end: int  # where it ends, likewise


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets."""

    text: str = field(repr=False)  # as it was, with a marker for each secret
    findings: tuple[Finding, ...] = ()  # in the order of the text; markers that stood there before are not among them

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of what kinds its findings are, sorted, each once."""
        return tuple(sorted({finding.kind for finding in self.findings}))


@dataclass(frozen=True, slots=True)
class RedactedFile:
    """A file without its secrets, or why there is none."""

    data: bytes | None = field(repr=False)  # its bytes, in the encoding it had; None when it must not be shown at all
    findings: tuple[Finding, ...] = ()  # as in `Redacted`, positions in the decoded text; empty for media
    encoding: str = ""  # Python's name of it, with a byte order mark said by the name (`utf-8-sig`); empty for media
    reason: str = ""  # why `data` is None, half a sentence; otherwise empty

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of what kinds its findings are, sorted, each once."""
        return tuple(sorted({finding.kind for finding in self.findings}))
