"""A word for a password and the password beside it, without a verb between: (pw …), WLAN Passwort …, 密码 …."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kagura_kernel.kit.redaction.letters import written
from kagura_kernel.kit.redaction.patterns import Match, Nearby
from kagura_kernel.kit.redaction.plausible import classes, is_fact, is_word, password, placeholder, token, validation
from kagura_kernel.kit.redaction.regions import foreign_lines
from kagura_kernel.kit.redaction.shapes import named
from kagura_kernel.kit.redaction.sights import BETWEEN, Place, Sight
from kagura_kernel.kit.redaction.spans import Span
from kagura_kernel.kit.redaction.verdicts import once

_KIND = "password"
_NOUN = Nearby(
    r"(?:^|[^\w$@./\\-])\*{0,2}_?(?:(?:wi-?fi|wlan|vpn|ssh|root|admin|user|sudo|db|ftp|temp|new|old|the|login|guest|master|backup|bios|disk|router|nas|email|mail)[ -]?)?"
    r"(?:pass(?:word|wd|phrase|code)|pw|pwd|psk|wi-?fi[ -]key|[a-zäöü]{0,16}-?(?:passwort|kennwort|passwörter|kennwörter)|(?:wlan|wifi)-?schlüssel|"
    r"mot de passe|mdp|contraseña|senha|wachtwoord|hasło|heslo|lösenord|пароль|비밀번호)\*{0,2}_?([ \t:(\"'`,;\-–—]{1,4})"
)
_ITS = (
    r"\b(?:pass(?:word|wd|phrase|code)|pw|pwd|psk|api[ -]?key|token|secret|wi-?fi|login|passwort|kennwort)\b[ -~]{0,60}?[ \t,;:.!?)\-–—]\n?[ \t]*"
    r"(?:it'?s|it is|that'?s|that is|changed it to|set it to|reset it to|made it|es ist|es lautet|er lautet|c'est)[ \t]+(?:now[ \t]+|jetzt[ \t]+|still[ \t]+|noch[ \t]+|to[ \t]+)?[\"'`*]{0,2}([^\s\"'`*][^\s\"'`]{5,})"
)
_ANNOUNCED = (
    r"\b(?:password|passphrase|passcode|psk|pwd?|(?:api|access|license|licence|activation|product|secret|signing|encryption|master)[ -]?key|token|secret|[a-zäöü-]{0,16}passwort|kennwort|schlüssel|"
    r"mot de passe|contraseña|senha|wachtwoord|hasło)\b[^\n:=\"'`]{1,40}:[ \t]*[\"'`*„“]{0,2}([^\s\"'`]{6,})"
)
_BRACKETED = (
    r"(?:[(\[,;/–—]|\b(?:and|with|und|mit|y|et|con|avec)[ \t])[ \t]*(?:the[ \t]+|das[ \t]+|dem[ \t]+|our[ \t]+)?"
    r"(?:pass(?:word|wd|phrase|code)?|pw|pwd|psk|key|token|secret|pin|passwort|kennwort|schlüssel|mdp|api[ -]?key|access[ -]?key)[ \t]+[\"'`]?([^\s\"'`]{6,})"
)
_EXPLAINED = r"\b(?:to|is|it'?s|auf|ist|use|try)[ \t]+[\"'`]?([^\s\"'`()]{6,})[\"'`]?[ \t]*\([^()\n]{0,40}\b(?:pass(?:word|wd|phrase|code)|pw|pwd|passwort|kennwort|token|secret|key)\b[^()\n]{0,30}\)"
_SLASHED = r"(?:^|[\s(\"'`])[a-z][\w.\-]{1,30}[ \t]?/[ \t]?([^\s/\"'`]{6,})[ \t]+(?:should|works?|worked|does|is|as|for|to|on|at|zum|als|anmelden|einloggen)\b[ -~]{0,40}(?:log|cred|sign|ssh|work|access|in\b|anmeld|\n|$)"
_DASHED = r"(?:https?://|\b(?:admin|login|panel|portal|zugang|user))[ -~]{0,80}[ \t](?:–|—|-|\||/)[ \t][\w.@\-]{2,40}[ \t](?:–|—|-|\||/)[ \t]([^\s\"'`]{6,})"
_CHANGED = r"\b(?:auf|to|an|in)[ \t]+[\"'`„“]{0,1}([^\s\"'`„“”]{6,})[\"'`“”]?[ \t]+(?:gesetzt|geändert|zurückgesetzt|umgestellt)\b"
_NAMED_SO = r"\b(?:with|using|mit|typed|entered|enter|type|use|took|take)[ \t]+[\"'`]?([^\s\"'`]{6,})[\"'`]?[ \t]+(?:as|als|como|comme)[ \t]+(?:password|passphrase|passwort|kennwort|pw|key|pin|token)\b"
_MIT = r"\bmit[ \t]+[\"'`„“]{0,1}([^\s\"'`„“”]{6,})[\"'`“”]?[ \t]+(?:verschlüsselt|einloggen|eingeloggt|anmelden|angemeldet|entpacken|entschlüsseln|geschützt|rein)\b"
_NETWORK = r"\b(?:wi-?fi|wlan|ssid)\b[^\n:=/]{0,40}[:=][ \t]*[\w .\-]{2,32}?[ \t]*[/|,;][ \t]*(?:key|pw|password|pass)?:?[ \t]*([^\s\"'`/]{6,})"
_USERS = (
    r"\b(?:root|admin|administrator|ubuntu|postgres|deploy)[ \t]?:[ \t]?([^\s\"'`:]{6,})(?:[ \t.,]|$)",
    r"\b(?:user|account|login|access|zugang\w*|cred\w*|konto)\b[^\n:]{0,40}:[ \t]*[\w.@\-]{2,30}[ \t]*/[ \t]*([^\s\"'`/]{6,})",
    r"\bu(?:ser)?:[ \t]*\S+[ \t,;]+p(?:w|ass)?:[ \t]*([^\s\"'`]{6,})",
    r"(?:passwort|password|kennwort)[a-zäöüß-]{0,20}[ \t]*\(([^\s()]{6,})\)",
)
_OPENED_WITH = r"\b(?:unzip|unlock|decrypt|unpack|extract|encrypted|protected|entpack\w*|entschlüssel\w*|log(?:ged)?[ -]?in|sign[ -]?in|einloggen|anmelden)\b[^\n.:]{0,40}?\b(?:with|using|mit)[ \t]+[\"'`]?([^\s\"'`]{6,})"


_ITS_SAID = Nearby(_ITS)
_STRONG = tuple(
    Nearby(form)
    for form in (
        _ANNOUNCED, _BRACKETED, _EXPLAINED, _SLASHED, _DASHED, _CHANGED, _NAMED_SO, _MIT, _NETWORK, _OPENED_WITH, *_USERS,
    )
)  # fmt: skip
"""Forms in which many other words stand too."""
_PASSWORD_ANNOUNCED = Nearby(
    r"\b(?:password|passphrase|passcode|pwd?|[a-zäöü-]{0,16}passwort|kennwort)\b[^\n:=\"'`]{1,30}:[ \t]*[\"'`*„“]{0,2}([^\s\"'`]{6,})"
)
_TAGGED = Nearby(
    r"\b(?:password|passphrase|passcode|passwort|kennwort|token|api[ -]?key|mot de passe|contraseña)\b[^\n<>]{0,20}(?:</\w+>)?:?[ \t]*(?:<(?:b|strong|code|em|span|tt|kbd|i|pre|samp)\b[^<>\n]{0,30}>[ \t]*)+([^\s<>]{6,})[ \t]*</"
)
_ANSWERED = Nearby(
    r"\b(?:pass(?:word|wd|phrase|code)|pw|pwd|psk|wi-?fi key|passwort|kennwort|mot de passe|contraseña)\b[ -~]{0,60}?\?[ -~]{0,20}\r?\n[ -~]{0,40}?"
    r"(?:[:>\])][ \t]+|^|\n|[ \t]|\b(?:it'?s|is|use|try|ist)[ \t]+)[\"'`*]{0,2}([^\s\"'`*][^\s\"'`]{5,})[\"'`]{0,2}[.!]?[ \t]*\r?(?m:$)"
)
_TRIED = Nearby(r"\b(?:try|use|take|it'?s|its|nimm|probier|versuch)[ \t]+[\"'`]?([^\s\"'`]{6,})")
_ASKED = (b"passw", b"passphrase", b"passcode", b"pw", b"login", b"log in", b"cred", b"kennwort", b"wifi", b"wi-fi")
_BEFORE = 300
"""Bytes in which a talk may have asked for the password."""
_CODE = Nearby(
    r"\b(?:pin(?:[ -]?code)?|puk|passcode|(?:door|gate|alarm|unlock|lock|entry|access|safe|keypad|garage)[ -]?(?:code|pin)|"
    r"code[ \t]+(?:for|to|of)[ \t]+the[ \t]+(?:gate|door|alarm|safe|garage|lock|building|lift|keypad|server room)|(?:one-time|verification|login|confirmation)[ -](?:password|passcode|code)|(?:zugangs|tür|alarm|tor|tresor)-?code|einmalpasswort|geheimzahl)\b"
    r"(?:[^\n\d:=.!?]{0,40}[:=][ \t]*|(?:[ \t]+(?:for|of|to|on|zum|zur|für|des|der|vom|von|im|am)\b[^\n\d:=.!?]{0,40}?)?[ \t]+(?:is|lautet|ist|was|remains)(?:[ \t]+(?:now|still|jetzt|noch))?[ \t]+)[\"'`*]{0,2}(\d{4,8})\b"
)
_ASIAN_LETTER = Nearby(r"[\x{3040}-\x{30ff}\x{3400}-\x{9fff}\x{ac00}-\x{d7a3}\x{ff01}-\x{ff60}]")
_ASIAN_WORD = r"(?:パスワード|パスコード|APIキー|アクセストークン|トークン|シークレット|密码|密碼|口令|密钥|令牌)"
_ASIAN = Nearby(
    r"(?:パスワード|パスフレーズ|パスコード|暗証番号|合言葉|パス|\bPASS\b|\bPW\b|APIキー|アクセスキー|トークン|シークレット|暗号化キー|密码|密碼|口令|密钥|密鑰|令牌|秘钥|金鑰|授权码|비밀번호|암호)[ \t　]{0,3}[:：]?[ \t　]{0,3}([!-~]{6,})"
)
_ASIAN_APART = tuple(
    map(
        Nearby,
        (
            rf"{_ASIAN_WORD}(?:は|が)?(?:以下|下記|次|如下)の?(?:通り|とおり)?(?:です|となります|になります)?[。.：:]?[ \t]*\r?\n[ \t　]*([!-~]{{6,}})",
            rf"{_ASIAN_WORD}[^\x00-\x7f\n]{{0,16}}?[ 　]*[→：＝][ 　]*([!-~]{{6,}})",
            r"(?:密码|密碼|パスワード)[:：][ \t　]*[A-Za-z]\w{1,20}[ \t　/，,]+([!-~]{6,})",
            r"(?:请用|請用|使用|用)[ \t　]*([!-~]{6,})[ \t　]*(?:来|來|去)?(?:登录|登陆|登入|登錄|解锁|解压)",
            r"([!-~]{6,})[ \t　]*でログイン",
            rf"{_ASIAN_WORD}[ 　]*[【「『（(][ 　]*([!-~]{{6,}})[ 　]*[】」』）)]",
            r"(?:登录信息|登入資訊|ログイン情報|账号|帳號)[:：][ \t　]*[\w.@\-]{2,30}[ \t]*/[ \t]*([!-~]{6,})",
        ),
    )
)
_ASIAN_CODE = Nearby(
    r"(?:暗証番号|パスコード|解除コード|ドアコード|门禁密码|門禁密碼|支付密码|开门密码|锁屏密码|PIN码|PINコード)[^\x00-\x7f\n]{0,8}[ \t:：]*(\d{4,8})\b"
)
_DIGITS = b"0123456789"
_NUMBERED = r"(?:" + "|".join(rf"[^\s\"'`]{{{at}}}\d[^\s\"'`]{{{4 - at}}}" for at in range(5)) + r"|\d{4})"
"""What has a digit, as every value here has."""
_TALK = Nearby(rf"(?:[^\n]*{_NUMBERED}[^\n]*(?:\n|$))+")
"""Lines that have a value."""
_REACH = 80
_MOST_WORDS = 8
_QUOTES = frozenset(b"\"'`")
_PUNCTUATION = b".,;:!?)]}*_\"'`|"
_OPENING = re.compile(rb"^(?:[\"'`*_(\t]|\xe2\x80[\x98-\x9f]|\xc2\xab|\xe3\x80[\x8c\x8e])+")
_LEADS = (b"from", b"von", b"is", b"ist", b"was", b"lautet", b"->", b"=", b":", b"to:", b"auf:")
_GOES_ON = (b"to", b"auf", b"->", "→".encode())
_ABOUT = re.compile(
    rb"(?i)[ \t(]*(?:polic|format|manager|hash|algorithm|length|header|field|reset|prompt|type|rule|richtlinie|strength|storage|store|check|must|needs?\b|can\b|should)"
)
"""What follows when the talk is about passwords and not of one."""
_ORDINARY = re.compile(
    rb"(?:[A-Za-z]++[-_./'])*+[A-Za-z]*-?\d{0,4}[a-z]?|[A-Za-z]+\d{1,3}(?:[-_./][A-Za-z]+)+|(?:[A-Z]?[a-z]{2,}+\d{0,2}){2,}+|#?\d[-./\d]*+[A-Za-z]{0,3}|[A-Z]{2,8}-?[\d-]+[A-Z]?"
)
"""Words with a number behind them, versions and dates: nobody's password, or not to be told from one."""
_NUMBERED_WORD = re.compile(rb"(?:[A-Z]?[a-z]{3,}[-_.])*[A-Z]?[a-z]{3,}[-_.]?\d{2,4}")
_TECHNICAL = re.compile(
    rb"(?i).*(?:sha-?\d|md5|pkcs|psk|tls|ssl|aes|rsa|oauth|pbkdf|bcrypt|utf-?\d|base\d|https?|ldap|ipv\d|rfc|iso|nist|win(?:dows)?\d|x509|ssh2?|argon|"
    rb"step|section|chapter|page|line|field|level|version|test|user|host|type|param|arg|index|item|part|1password|lastpass|keepass|bitwarden).*"
)
_UNSAFE = re.compile(rb"[(){}\[\]<>|\\,;:\"'`/]|^[a-z_]+=|^[$%\-]|\?[\w\-]+=|\w\.\w+\.\w|@\w+\.\w")


def find(data: bytes) -> Iterator[Span]:
    """Passwords that follow the word for them at once, or in the answer to a question."""
    talk = _talk(data)
    if talk.data:
        yield from talk.outside(_within_lines(talk.data))
        for span in talk.outside(_tried(talk.data)):
            if _asked(data, span):
                yield span
    yield from _unsaid(_ITS_SAID.finditer(data))
    yield from _unsaid(_ANSWERED.finditer(data), numbered=True)
    for start, end in asian_lines(data):
        yield from _codes(_ASIAN_CODE.finditer(data, start, end))
        for pattern in (_ASIAN, *_ASIAN_APART):
            yield from _unsaid(pattern.finditer(data, start, end), numbered=True)


def _talk(data: bytes) -> Sight:
    """The lines in which somebody may tell a password."""
    lines: list[bytes] = []
    places: list[Place] = []
    length = 0
    for found in _TALK.finditer(data):
        start, end = found.start(), found.end()
        places += [(length, start, end), (length + end - start, end, end)]
        lines += [data[start:end], BETWEEN]
        length += end - start + len(BETWEEN)
    return Sight(b"".join(lines), places)


def _within_lines(data: bytes) -> Iterator[Span]:
    """What is told within one line."""
    for found in _NOUN.finditer(data):
        between = found.group(1) or b""
        # A quote and a comma end a text: what follows is another one.
        if b"," not in between or not _QUOTES.intersection(between):
            yield from _following(data, found.end(), near=b"(" in between)
    for pattern in _STRONG:
        yield from _unsaid(pattern.finditer(data))
    for pattern in (_PASSWORD_ANNOUNCED, _TAGGED):
        yield from _unsaid(pattern.finditer(data), numbered=True)
    yield from _codes(_CODE.finditer(data))


def _tried(data: bytes) -> Iterator[Span]:
    """What somebody is told to try."""
    yield from _unsaid(_TRIED.finditer(data))


def _asked(data: bytes, span: Span) -> bool:
    before = data[max(0, span.start - _BEFORE) : span.end].lower()
    return any(word in before for word in _ASKED)


def asian_lines(data: bytes) -> Iterator[tuple[int, int]]:
    """Lines with letters of Chinese, Japanese or Korean, each with the one below it."""
    for start, end in foreign_lines(data):
        if _ASIAN_LETTER.search(data, start, end) is not None:
            yield start, end


def _unsaid(matches: Iterable[Match], *, numbered: bool = False) -> Iterator[Span]:
    """What no sentence has as a word, in the first group."""
    for found in matches:
        value = _bare(found.group(1) or b"")
        if strong(value) or (numbered and _numbered(value)):
            yield Span(found.start(1), found.start(1) + len(value), _KIND)


def _codes(matches: Iterable[Match]) -> Iterator[Span]:
    for found in matches:
        if not placeholder(found.group(1) or b""):
            yield Span(found.start(1), found.end(1), "pin")


def _following(data: bytes, at: int, *, near: bool) -> Iterator[Span]:
    """The next words of the line, up to the first that is a password, or that ends a sentence."""
    end = data.find(b"\n", at, at + _REACH)
    line = data[at : end if end >= 0 else at + _REACH]
    if line.translate(None, _DIGITS) == line or _ABOUT.match(line):
        return
    place, before, goes_on = at, b"", False
    for number, word in enumerate(line.split(b" ", _MOST_WORDS)[:_MOST_WORDS]):
        start, place = place, place + len(word) + 1
        last = place > at + len(line) or word[-1:] in b".,;!)"
        if goes_on and word not in _GOES_ON and before not in _GOES_ON:
            return
        if _stands(word, before, number, near=near, last=last, goes_on=goes_on):
            value = _bare(_OPENING.sub(b"", word))
            start += word.find(value)
            yield Span(start, start + len(value), _KIND)
            goes_on = True
        if not word or word[-1:] in b".?!:;=" or word[-2:] in {b'",', b"',", b"`,"} or word[:1] in b"=<{[(":
            return
        before = word


def _stands(word: bytes, before: bytes, number: int, *, near: bool, last: bool, goes_on: bool) -> bool:
    """Whether this word is a password: the farther from the noun, the more must speak for it."""
    if word.translate(None, _DIGITS) == word:
        return False
    value = _bare(_OPENING.sub(b"", word))
    if strong(value):
        return number < 2 or last or goes_on or before in _LEADS
    return not number and (last or near) and _numbered(value)


def _bare(value: bytes) -> bytes:
    """Without what ends a sentence or a bracket, and without what follows in another script."""
    for number, byte in enumerate(value):
        if byte > 127:
            value = value[:number]
            break
    kept = value.rstrip(_PUNCTUATION)
    # A sign at the end belongs to the password when there is a number before it.
    return value if value[len(kept) :] in {b"!", b"?", b"*"} and kept[-1:].isdigit() else kept


def _numbered(value: bytes) -> bool:
    """Words with a number of two digits or more behind them, none of them technical: `Sommer2024`, `copper-lantern-51`."""
    return _NUMBERED_WORD.fullmatch(value) is not None and _TECHNICAL.fullmatch(value) is None


@once
def strong(value: bytes) -> bool:
    """Whether no sentence has this as a word: three kinds of characters in a row that is no name with a number."""
    if not 6 <= len(value) <= 100 or is_word(value) or is_fact(value) or validation(value) or _UNSAFE.search(value):
        return False
    if (
        _ORDINARY.fullmatch(value)
        or (b"_" in value and value.islower() and named(value))
        or _TECHNICAL.fullmatch(value)
        or written(value)
        or not any(48 <= byte <= 57 for byte in value)
    ):
        return False
    return (classes(value) >= 3 or token(value, 16)) and password(value)
