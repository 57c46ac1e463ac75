"""What people say to each other: the staging password is …, (pw …), パスワードは…, 密码是…."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kagura_kernel.domain.late_pattern import late_pattern
from kagura_kernel.kit.redaction.chance import SAID, drawn, once, written
from kagura_kernel.kit.redaction.false_positives import named
from kagura_kernel.kit.redaction.names import SECRET_KEYS, TESTED, Says, documented, says
from kagura_kernel.kit.redaction.patterns import BETWEEN, Match, Nearby, ungrouped
from kagura_kernel.kit.redaction.rules.assignments import tested
from kagura_kernel.kit.redaction.spans import Span, foreign_lines
from kagura_kernel.kit.redaction.values import (
    classes,
    is_fact,
    is_word,
    password,
    placeholder,
    reference,
    token,
    validation,
)
from kagura_kernel.kit.redaction.visible import Gathered, View

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
_OPENING = late_pattern(rb"^(?:[\"'`*_(\t]|\xe2\x80[\x98-\x9f]|\xc2\xab|\xe3\x80[\x8c\x8e])+")
_LEADS = (b"from", b"von", b"is", b"ist", b"was", b"lautet", b"->", b"=", b":", b"to:", b"auf:")
_GOES_ON = (b"to", b"auf", b"->", "→".encode())
_ABOUT = late_pattern(
    rb"(?i)[ \t(]*(?:polic|format|manager|hash|algorithm|length|header|field|reset|prompt|type|rule|richtlinie|strength|storage|store|check|must|needs?\b|can\b|should)"
)
"""What follows when the talk is about passwords and not of one."""
_ORDINARY = late_pattern(
    rb"(?:[A-Za-z]++[-_./'])*+[A-Za-z]*-?\d{0,4}[a-z]?|[A-Za-z]+\d{1,3}(?:[-_./][A-Za-z]+)+|(?:[A-Z]?[a-z]{2,}+\d{0,2}){2,}+|#?\d[-./\d]*+[A-Za-z]{0,3}|[A-Z]{2,8}-?[\d-]+[A-Z]?"
)
"""Words with a number behind them, versions and dates: nobody's password, or not to be told from one."""
_NUMBERED_WORD = late_pattern(rb"(?:[A-Z]?[a-z]{3,}[-_.])*[A-Z]?[a-z]{3,}[-_.]?\d{2,4}")
_TECHNICAL = late_pattern(
    rb"(?i).*(?:sha-?\d|md5|pkcs|psk|tls|ssl|aes|rsa|oauth|pbkdf|bcrypt|utf-?\d|base\d|https?|ldap|ipv\d|rfc|iso|nist|win(?:dows)?\d|x509|ssh2?|argon|"
    rb"step|section|chapter|page|line|field|level|version|test|user|host|type|param|arg|index|item|part|1password|lastpass|keepass|bitwarden).*"
)
_UNSAFE = late_pattern(rb"[(){}\[\]<>|\\,;:\"'`/]|^[a-z_]+=|^[$%\-]|\?[\w\-]+=|\w\.\w+\.\w|@\w+\.\w")


def find_adjacent(data: bytes) -> Iterator[Span]:
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


def _talk(data: bytes) -> View:
    """The lines in which somebody may tell a password."""
    lines = Gathered()
    for found in _TALK.finditer(data):
        start, end = found.start(), found.end()
        lines.put(data[start:end], start, end)
        lines.put(BETWEEN, end, end)
    return lines.view()


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
    value = _of_ascii(value)
    kept = value.rstrip(_PUNCTUATION)
    # A sign at the end belongs to the password when there is a number before it.
    return value if value[len(kept) :] in {b"!", b"?", b"*"} and kept[-1:].isdigit() else kept


def _of_ascii(value: bytes) -> bytes:
    """What stands before the first letter of another script."""
    return value[: next((number for number, byte in enumerate(value) if byte > 127), len(value))]


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


_SAID_NOUN = (
    r"(?:pass(?:[ -]?word|wd|phrase|code)?s?|pwd?|p/w|psk|pre-?shared key|pin(?:[ -]?code)?|credentials?|creds?|logins?|(?:api|access|secret|private|auth|encryption|signing|master|license|account|"
    r"deploy|service|recovery|unlock|root|admin)[ -]?(?:key|token|secret|code|phrase)s?|token|secret|wi-?fi key|otp seed|unlock code|door code|key|"
    r"passw(?:o|ö)rt(?:e|er|es|s)?|kennw(?:o|ö)rt(?:e|er|es|s)?|zugangsdaten|zugangscode|schlüssel|geheimnis|zugangsschlüssel|"
    r"mot de passe|mdp|contraseñas?|contrasena|clave|senha|palavra-passe|chave|password|chiave|parola d'ordine|wachtwoord|hasło|heslo|lösenord|adgangskode|passord|salasana|jelszó|parola|şifre|"
    r"пароль|ключ|токен|비밀번호|암호|패스워드|토큰|mật khẩu|รหัสผ่าน|كلمة المرور)"
)
_VALUE = r"(?:`+([^`\n]+)`+|\"([^\"\n]+)\"|'([^'\n]+)'|“([^”\n]{1,64})”|„([^“”\n]{1,64})[“”]|«\s?([^»\n]{1,64}?)\s?»|‘([^’\n]{1,64})’|\*\*([^*\n]+)\*\*|<([^<>\s]+)>|([^\s\"'`“”„«»<>]+))"
_IS = (
    r"(?:[ \t]*(?:[:=：→➜⇒]+>?)(?:\*{1,2}|_)?[ \t]*|\s+[-–—=]+>?\s+|\s+(?:(?:is|was|are|to|remains?|stays?|will be|has been|became|reads?|equals?|set to|changed to|called|now|lautet|ist|war|bleibt|auf|est|sera|devient|es|sera|is nu|to be|jest|(?:should|must|might|could|would|has to|have to|needs to|ought to|seems to|used to)(?: still| now| then)? be|turned out to be|wurde auf|auf)\b|heißt|wäre|será|é|è|sarà|это|là)"
    r"(?:\s+(?:now|still|currently|set to|changed to|reset to|going to be|just|simply|actually|always|temporarily|for now|this|as follows|jetzt|nun|noch|immer noch|aktuell|weiterhin|derzeit|folgendes|maintenant|ahora|agora|ora|not|nicht|nur|einfach)\b)*(?:[ \t]*[:=：][ \t]*|[ \t]+|[ \t]*->[ \t]*)"
    r"|\s*(?:는|은|이|가)\s*[:：]?\s*)"
)
_SAID_FORM = rf"(?:^|[^\w])((?:\w+[ \-])?{_SAID_NOUN})((?:\s+(?:for|of|on|to|in|at|from|with|für|zum|zur|von|vom|der|des|dem|auf|im|am|pour|de|du|para|del|do|da|per|la|le|el|los|into|you need|we use|i use|I set)\s+[^\n:=.?!\"'`]{{1,60}}?|\s+\([^()\n]{{1,60}}\)|\*{{1,2}}|_)?){_IS}\*{{0,2}}{_VALUE}"
_SAID = Nearby(_SAID_FORM)
_SAID_SOMEWHERE = Nearby(ungrouped(_SAID_FORM))
_FIRST_OF_SAID = 3
_AS = Nearby(
    rf"{_VALUE}\s+(?:is|as|ist|als|est|es|é|è|for|=)\s+(?:the|our|my|your|its|a|das|der|unser|mein|dein|neues?|le|la|el|o|il|notre|mon|new|current|temporary)\s+(?:[\w\-]+\s+){{0,3}}?(?:password|passphrase|passcode|pwd|passwort|kennwort|api[ -]?key|token|secret|mot de passe|contraseña|senha|pin|wachtwoord|(?:access|private|secret|signing|encryption|recovery|master) key|credential)"
)
_WITH = Nearby(
    r"\b(?:with|using|use|via|mit|unter|enter|type|try|supply|provide|paste|remember|gave|give|got|avec|con|com|met|mit dem|per)\s+(?:(?:the|this|our|my|your|a|dem|das|le|la|el|die|unserem|temporary|new|old|same|following|temp|shared)\s+){0,3}"
    r"(?:\w+\s+){0,2}?(?:password|passphrase|passcode|pw|pass|passwort|kennwort|token|secret|api[ -]?key|mot de passe|contraseña|senha|pin|wachtwoord|access key|credentials|creds)\s+(?:of\s+|von\s+)?"
    + _VALUE
)
_SET = Nearby(
    r"\b(?:set|sets|change|changed|reset|rotate|rotated|update|updated|switch|switched|setze|gesetzt|ändere)\s+(?:[\w'’.\-]+\s+){0,4}?[\w.\-]*(?:pass(?:word|wd|phrase|code)?|pw|pwd|psk|secret|token|key|passwort|kennwort)(?:[_\d]\w*|s)?"
    r"(?:\s+(?:for|of|on|in|für|vom|von)\s+[^\n:=.?!]{1,40}?)?\s+(?:back\s+)?(?:to|=|as|auf|:)\s+" + _VALUE
)
_BESIDE = Nearby(
    r"\b(?:(?:api|access|auth|secret|private|bearer|refresh|deploy|bot|app|service|solana|wallet|phantom|validator|signing|encryption|license|account|master)[ _-]?(?:key|token)|token|secret|passphrase)[ \t]+[(\"'`]{0,2}([A-Za-z0-9_+/=.\-]{24,})"
)
"""A key right behind the word for it, as in hurried notes."""
_SEED = Nearby(
    r"\b(?:t?otp|2fa|mfa|authenticator)\b[^\n]{0,30}?(?:seed|secret|key|code)s?\b[^\n]{0,12}?[ \t:=`\"']((?:[A-Z2-7]{4}[ -]){3,7}[A-Z2-7]{4}|[A-Z2-7]{16,64})\b"
)
_LOGIN = Nearby(
    r"\b(?:log(?:ged|ging)?[ -]?in|sign[ -]?in|login|logins|creds?|credentials|user(?:name)?/pass(?:word)?|user/pw|account|einloggen|anmelden|zugangsdaten|zugang|login-daten|identifiants?|credenciales|ログイン(?:情報)?|登录信息|登入資訊|登录账号|账号|帳號|账户|アカウント)"
    r"(?:[^\n:/]{0,60}?)?(?:\s+(?:with|as|using|mit|als|is|are|sind|avec|con|は)|\s*[:：=はは]|\s+-)\s*[\"'`“「]?([\w.@+\-\\]{2,60})[\"'`”」]?[ \t]*(?:/|:|\||[ \t](?:and|with)[ \t]+(?:password[ \t]+)?|[ \t]und[ \t]+|,[ \t]*|[ \t])[ \t]*"
    + _VALUE
)
_ASIAN_NOUN = (
    r"(?:ｐａｓｓｗｏｒｄ|ＰＡＳＳＷＯＲＤ|Ｐａｓｓｗｏｒｄ|ｐｗ|ＰＷ|ｔｏｋｅｎ|Ｔｏｋｅｎ|パスワード|パスフレーズ|パスコード|暗証番号|合言葉|パス|APIキー|API キー|アクセスキー|アクセストークン|トークン|シークレットキー|シークレット|秘密鍵|秘密キー|認証キー|暗号鍵|暗号化キー|認証トークン|認証情報|キー|鍵|"
    r"密码|密碼|口令|密钥|密鑰|令牌|秘钥|私钥|访问密钥|访问令牌|通行码|通行碼|授权码|验证密钥|凭证|凭据|口令密码|登录密码|初始密码|金鑰|Token|token|password|Password|API Key|API key|api key|Secret|secret|key|Key|PW|pw)"
)
_ASIAN_IS = r"(?:\s*(?:は|って|が|を|に|為|为|是|就是|已?(?:改|更新|重置|变更|變更|设定|設定|设置|换|換)(?:成|为|為)了?|设置为|设为|設為|設定為|已改为|已更新为|更新为|重置为|变成|換成|换成|叫|用|：|:|=|＝|→|の値は|の方は|はこちら|は以下|如下|は次の通り|，|、|も|には)\s*){1,4}(?:现在|目前|暂时|仍|还|一律|都|今|現在|一時的に|とりあえず|また|まだ|必ず)*(?:是|为|為|は|：|:)?"
_ASIAN_QUOTES = r"\s*(?:[「『“\"'`‘【《（(]\s*([^」』”\"'`’】》）)\n]{3,64})|(?:\n\s*)?([!-&*-~][!-~]{3,}))"
_SAID_ASIAN = Nearby(rf"{_ASIAN_NOUN}(?:[（(][^（）()\n]{{1,40}}[)）])?{_ASIAN_IS}{_ASIAN_QUOTES}")
_ASIAN_BACK = Nearby(
    r"(?:[「『“\"'`]([^」』”\"'`\n]{4,100})[」』”\"'`]|([!-~]{6,}))\s*(?:が|というのが|という|は|是|就是|作为|作為|当|當|をパスワード|を|为|の)\s*(?:新しい|本番の?|共有の?|管理者の?|新的?|我们的?|我們的?|当前的?|默认的?|[^\s。、，！!]{0,12})?(?:パスワード|パスフレーズ|トークン|APIキー|密码|密碼|口令|密钥|令牌)"
)
_STOP = frozenset(
    b"""
    the a an is are was be to of for in on at by it its not no your our my this that these those required optional
    invalid valid expired missing wrong incorrect correct stored saved hashed encrypted reset changed set sent shown
    hidden empty blank too must should can cannot will would may might has have been being generated created used
    needed provided given via from with without when if and or but only also then than as same different unknown
    """.split()
)


def find_said(data: bytes) -> Iterator[Span]:
    """Passwords and keys that a sentence gives away."""
    for found in _said(data):
        yield from _told(data, found, _FIRST_OF_SAID)
    for found in _AS.finditer(data):
        yield from _told(data, found, 1)
    for pattern in (_WITH, _SET):
        for found in pattern.finditer(data):
            yield from _told(data, found, 1)
    for found in _LOGIN.finditer(data):
        if _COLLECTION.match(data, found.start(1)) is None:
            yield from _told(data, found, 2, strict=True)
    yield from _noted(data)
    for start, end in asian_lines(data):
        for pattern in (_SAID_ASIAN, _ASIAN_BACK):
            for found in pattern.finditer(data, start, end):
                yield from _told_in_asia(data, found)


def _said(data: bytes) -> Iterator[Match]:
    """What is said of a password, but for plain words; most of it is taken to pieces in vain otherwise."""
    for somewhere in _SAID_SOMEWHERE.finditer(data):
        if not _ends_in_word(data, somewhere.start(), somewhere.end()):
            found = _SAID.match(data, somewhere.start())
            if found is not None:
                yield found


def _ends_in_word(data: bytes, start: int, end: int) -> bool:
    """Whether what is said there is a word of letters alone, without quotes: no password that anybody could tell."""
    last = data[max(start, end - _LONGEST_WORD) : end].rsplit(None, 1)
    word = last[1].rstrip(b".,;:)") if len(last) == 2 else b""
    return word.isalpha() and not drawn(word, SAID)


_LONGEST_WORD = 64


_COLLECTION = late_pattern(rb"(?:projects|organizations|folders|locations|[a-z]*Accounts)/[a-z][a-z-]*/[A-Za-z]+/")
"""What a path of resources begins with: `projects/acme/serviceAccounts/…`."""


def _noted(data: bytes) -> Iterator[Span]:
    """Keys right behind the word for them, and seeds of one-time passwords."""
    for found in _BESIDE.finditer(data):
        value = (found.group(1) or b"").rstrip(b".")
        if token(value, 24) and not _open_key(data, found.start(1)):
            yield Span(found.start(1), found.start(1) + len(value), "secret")
    for found in _SEED.finditer(data):
        value = found.group(1) or b""
        if value.isupper() and not placeholder(value):
            yield Span(found.start(1), found.end(1), "otp-seed")


def _told(data: bytes, found: Match, first: int, *, strict: bool = False) -> Iterator[Span]:
    if documented(data, found.start()) or (first == _FIRST_OF_SAID and _of_something_else(data, found)):
        return
    group = next(number for number in range(first, first + 10) if found.group(number) is not None)
    start, end = found.start(group), found.end(group)
    bare = group == first + 9
    value = data[start:end]
    if bare:
        value = _trimmed(value)
        end = start + len(value)
    if tested(data, found.start(1), found.end(1)) or (
        first == _FIRST_OF_SAID and _plain_key(data, found.end(1)) and not _of_a_key(value)
    ):
        return
    if _plausible(value, bare=bare or strict):
        yield Span(start, end, "password" if not token(value, 20) else "secret")


def _of_something_else(data: bytes, found: Match) -> bool:
    """Whether what is called so there is no secret: an option, a verb, a name that is explained, a complaint."""
    name = (found.group(1) or b"").lower()
    another = _ANOTHER_NAME.search(data, max(found.end(1), found.end(2) - 40), found.end(2) + 1)
    return (
        _open_key(data, found.end(1))
        or data[max(0, found.start(1) - 2) : found.start(1)] == b"--"  # commands know it
        or (name.endswith(b"pass") and data.startswith(b" to ", found.end(1)))
        or documented(data, found.start(1))
        or name.startswith(_COMPLAINTS)
        or (another is not None and says(another.group(1)) is Says.NOTHING)
    )


_ANOTHER_NAME = late_pattern(rb"[\s(]([A-Za-z_]\w*+)=")
_KEY_OF = late_pattern(rb"(?i)(?:([a-z]+)[ _\-]?)?keys?\Z")
_PARTS_OF_A_NAME = late_pattern(
    rb"[A-Za-z]++\d{0,3}(?:[-_:/|@#.](?>[A-Za-z]+\d{0,3}(?![0-9A-Za-z])|[0-9a-f]+(?![0-9A-Za-z])|\d{1,2}[a-z](?![0-9A-Za-z])))++|[a-z]+\d?(?:_[a-z0-9]{1,12})+|[0-9a-f]+"
)


def _plain_key(data: bytes, end: int) -> bool:
    """Whether what is spoken of is a key of which nobody says that it is secret: of a mapping, of a cache, of an item."""
    said = _KEY_OF.search(data, max(0, end - 40), end)
    return said is not None and (said.group(1) or b"").lower() not in SECRET_KEYS


def _of_a_key(value: bytes) -> bool:
    """Whether a key like this says by itself that it is secret."""
    return strong(value) and _PARTS_OF_A_NAME.fullmatch(value) is None


def _open_key(data: bytes, end: int) -> bool:
    """Whether the key or token whose name ends there is one that everybody may see, as in `cache key`."""
    before = _ANY_KEY.search(data[max(0, end - 40) : end].rstrip(b" \t=:\"'`("))
    return before is not None and before.group(1).lower() in _OPEN_KEYS


def _told_in_asia(data: bytes, found: Match) -> Iterator[Span]:
    group = 1 if found.group(1) is not None else 2
    start, end = found.start(group), found.end(group)
    value = data[start:end]
    value = _trimmed(value) if group == 2 else value.strip()
    if value.isascii() and _plausible(value, bare=group == 2):
        yield Span(start, start + len(value), "password" if not token(value, 20) else "secret")


_KEYWORD = late_pattern(rb"(?:[a-z_]+|[A-Z_]+)=")
_CAMEL = late_pattern(rb"(?:[A-Z][a-z]++\d{0,3}|[A-Z]\d{1,3})+[A-Z][a-z]+")
_SAID_CODE = late_pattern(
    rb"(?:[A-Za-z_]{4,}\d?(?:_[A-Za-z]+)*+(?:(?:::|->|\.)[A-Za-z_]\w*+)*+[\[(]|[A-Za-z]\w*_\w+[\[(]|[A-Za-z_]\w*::[A-Za-z_]"
    rb"|(?:[a-z]+_)+[a-z]+(?:\.[a-z_]\w*+)+$|[a-z_]+(?:\.[a-z_]\w*+)++\[|[a-z]+(?:\.[a-z]+\d?)+$|[a-z_]\w*+(?:\.[a-z_]\w*+)++[:=]|[a-z_]\w*+\.[A-Z][A-Za-z_]+$|\(?lambda\b|[a-z_]\w*+\[-?\w*:|![A-Za-z_$][\w$]*+(?:[.(]|&&|\|\|)|[a-z]+(?:_[a-z]+)+\d{0,2}$|[a-z]+\d*_t$|[A-Z]{2,6}#\d{1,3}$|[a-z]{2,}\d?(?:/[a-z]+\d{0,2})+$)"
)
"""What a program says where a sentence would have a word: a call, an item, a name of several words, a type, a standard."""
_ANY_KEY = late_pattern(rb"([A-Za-z0-9]+)[ _-](?:[kK]eys?|KEYS?|[tT]okens?)$")
_COMPLAINTS = (b"invalid", b"unexpected", b"expected", b"unknown", b"illegal", b"bad", b"missing", b"amz-")
"""What stands before a token that is a sign of a language, or before what a signed address says of its key."""
_DOTTED = late_pattern(rb"[a-z]++(?:\.(?:[a-z]++\d?|\*))++")
"""Scopes and members: `keyword.control2`."""
_ADJECTIVE = late_pattern(rb"[A-Za-z]+\d{0,3}[a-z]*(?:-[a-z]+)+|\d+-[a-z]+(?:-[a-z]+)*|1[Pp]assword")
_OPEN_KEYS = frozenset(
    b"""
    cache idempotency partition sort primary foreign public publishable object s3 row hash map registry dedup shard group
    message index lock lookup translation unique composite natural surrogate range json yaml dict dictionary page next
    continuation sync csrf xsrf cursor ordering config setting option arrow shortcut hot any each every column order
    change request websocket minor major dictionary struct sorting search filter license_plate piano
    """.split()
)
"""What makes a key one that everybody may see."""
_CUT = late_pattern(
    rb"[;,](?!$)|\\(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})|&(?=\w+=|[lr][ds]quo|quot|nbsp|hellip|#\d)|\\{1,2}[nrt](?![A-Za-z0-9])|\\{2}[nrtu\"']|\)(?=[,;.)\]}]|$)"
)
"""Where a value without quotes ends, though no space follows."""


def _trimmed(value: bytes) -> bytes:
    """Without what ends a sentence or a bracket; non-ASCII letters end a value in a sentence of ASCII."""
    value = _of_ascii(value)
    value = _CUT.split(value, 1)[0] if value[:1] not in b";,)" else value
    value = value.rstrip(b".,;:)]}?*_|\\")
    if value.endswith(b"!") and not any(byte in b"@#$%^&*-_+" for byte in value[:-1]) and value[:-1].isalpha():
        value = value[:-1]
    return value.lstrip(b"(*")


@once
def _plausible(value: bytes, *, bare: bool) -> bool:
    """Whether a word of a sentence is one that nobody would say: digits or signs within letters."""
    if (
        value[:1] in b"[{|>=:"
        or value.startswith(b"--")
        or (b" " in value and bare)
        or _KEYWORD.match(value)
        or _CAMEL.fullmatch(value)
        or _ADJECTIVE.fullmatch(value)
        or TESTED.match(value)
        or _DOTTED.fullmatch(value)
        or (bare and _SAID_CODE.match(value))
    ):
        return False
    if b" " in value:
        return not reference(value) and _phrase(value)
    if not password(value) or value.lower() in _STOP or is_fact(value) or validation(value):
        return False
    if value[:1] in b"/.~$%<{[(|" and not bare:
        return classes(value) >= 3
    return is_word(value) or drawn(value, SAID) or _said_unsaid(value)


def _said_unsaid(value: bytes) -> bool:
    """Not an ordinary word with an apostrophe, a hyphen, a slash, a plural or a number behind it."""
    kinds = classes(value)
    digit = any(48 <= byte <= 57 for byte in value)
    if not digit:
        # Letters and signs: a sign that no word has in it.
        return (
            any(byte in b"!@#$%^&*+=~?|" for byte in value[1:])
            and kinds >= 2
            and b"://" not in value
            and not value.endswith((b"()", b"?", b"..."))
            and not value.startswith(b"@")
        )
    return len(value) >= 6 and not _COMMON.fullmatch(value)


_COMMON = Nearby(
    r"[a-z]+-\d{1,3}|v?\d+[a-z]{0,3}|[a-z]{1,6}\d{1,2}|\d+(?:st|nd|rd|th|px|ms|mb|gb|kb|s|h|min|bit|bits)|sha-?\d+|[a-z]+/\d+|\d+[-/.]\d+[-/.\d]*|#\d+|[a-z]+-\d+-[a-z]+|rfc-?\d+|[a-z]+\d?\.[a-z]+|\d+%|[\d.,]+|(?:[a-z]+[-_/.])*[a-z]+|[a-z]+_\d+|[a-z0-9]+\(.*|[a-z]+:\d[\d.:]*"
)


def _phrase(value: bytes) -> bool:
    """A quoted phrase of several words that is no sentence."""
    words = value.split()
    if any(word.lower().strip(b".,") in _STOP for word in words) or len(words) > 8:
        return False
    return (len(words) >= 4 and all(word.isalpha() and word.islower() for word in words)) or (
        len(words) <= 3 and classes(value.replace(b" ", b"")) >= 4
    )
