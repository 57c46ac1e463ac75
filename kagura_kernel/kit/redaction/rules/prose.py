"""What people say to each other: the staging password is …, das Passwort lautet …, パスワードは…, 密码是…."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kagura_kernel.kit.redaction.letters import SAID, drawn
from kagura_kernel.kit.redaction.names import SECRET_KEYS, Says, documented, says
from kagura_kernel.kit.redaction.patterns import Match, Nearby, ungrouped
from kagura_kernel.kit.redaction.plausible import (
    classes,
    is_fact,
    is_word,
    password,
    placeholder,
    reference,
    token,
    validation,
)
from kagura_kernel.kit.redaction.rules.adjacent import asian_lines, strong
from kagura_kernel.kit.redaction.rules.assignments import TESTED, tested
from kagura_kernel.kit.redaction.spans import Span
from kagura_kernel.kit.redaction.verdicts import once

_NOUN = (
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
_SAID_FORM = rf"(?:^|[^\w])((?:\w+[ \-])?{_NOUN})((?:\s+(?:for|of|on|to|in|at|from|with|für|zum|zur|von|vom|der|des|dem|auf|im|am|pour|de|du|para|del|do|da|per|la|le|el|los|into|you need|we use|i use|I set)\s+[^\n:=.?!\"'`]{{1,60}}?|\s+\([^()\n]{{1,60}}\)|\*{{1,2}}|_)?){_IS}\*{{0,2}}{_VALUE}"
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
_ASIAN = Nearby(rf"{_ASIAN_NOUN}(?:[（(][^（）()\n]{{1,40}}[)）])?{_ASIAN_IS}{_ASIAN_QUOTES}")
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


def find(data: bytes) -> Iterator[Span]:
    """Passwords and keys that a sentence gives away."""
    for found in _said(data):
        yield from _told(data, found, _FIRST_OF_SAID)
    for found in _AS.finditer(data):
        yield from _told(data, found, 1)
    for pattern in (_WITH, _SET):
        for found in pattern.finditer(data):
            yield from _told(data, found, 1)
    for found in _LOGIN.finditer(data):
        yield from _told(data, found, 2, strict=True)
    yield from _noted(data)
    for start, end in asian_lines(data):
        for pattern in (_ASIAN, _ASIAN_BACK):
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


_ANOTHER_NAME = re.compile(rb"[\s(]([A-Za-z_]\w*+)=")
_KEY_OF = re.compile(rb"(?i)(?:([a-z]+)[ _\-]?)?keys?\Z")
_PARTS_OF_A_NAME = re.compile(
    rb"[A-Za-z]++\d{0,3}(?:[-_:/|@#.](?>[A-Za-z]+\d{0,3}(?![0-9A-Za-z])|[0-9a-f]+(?![0-9A-Za-z])))++|[a-z]+\d?(?:_[a-z0-9]{1,12})+|[0-9a-f]+"
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


_KEYWORD = re.compile(rb"(?:[a-z_]+|[A-Z_]+)=")
_CAMEL = re.compile(rb"(?:[A-Z][a-z]++\d{0,3}|[A-Z]\d{1,3})+[A-Z][a-z]+")
_CODE = re.compile(
    rb"(?:[A-Za-z_]{4,}\d?(?:_[A-Za-z]+)*+(?:(?:::|->|\.)[A-Za-z_]\w*+)*+[\[(]|[A-Za-z]\w*_\w+[\[(]|[A-Za-z_]\w*::[A-Za-z_]"
    rb"|(?:[a-z]+_)+[a-z]+(?:\.[a-z_]\w*+)+$|[a-z_]+(?:\.[a-z_]\w*+)++\[|[a-z]+(?:\.[a-z]+\d?)+$|[a-z_]\w*+(?:\.[a-z_]\w*+)++[:=]|[a-z_]\w*+\.[A-Z][A-Za-z_]+$|\(?lambda\b|[a-z_]\w*+\[-?\w*:|![A-Za-z_$][\w$]*+(?:[.(]|&&|\|\|)|[a-z]+(?:_[a-z]+)+\d{0,2}$|[a-z]+\d*_t$|[A-Z]{2,6}#\d{1,3}$|[a-z]{2,}\d?(?:/[a-z]+\d{0,2})+$)"
)
"""What a program says where a sentence would have a word: a call, an item, a name of several words, a type, a standard."""
_ANY_KEY = re.compile(rb"([A-Za-z0-9]+)[ _-](?:[kK]eys?|KEYS?|[tT]okens?)$")
_COMPLAINTS = (b"invalid", b"unexpected", b"expected", b"unknown", b"illegal", b"bad", b"missing", b"amz-")
"""What stands before a token that is a sign of a language, or before what a signed address says of its key."""
_DOTTED = re.compile(rb"[a-z]++(?:\.(?:[a-z]++\d?|\*))++")
"""Scopes and members: `keyword.control2`."""
_ADJECTIVE = re.compile(rb"[A-Za-z]+\d{0,3}[a-z]*(?:-[a-z]+)+|\d+-[a-z]+(?:-[a-z]+)*|1[Pp]assword")
_OPEN_KEYS = frozenset(
    b"""
    cache idempotency partition sort primary foreign public publishable object s3 row hash map registry dedup shard group
    message index lock lookup translation unique composite natural surrogate range json yaml dict dictionary page next
    continuation sync csrf xsrf cursor ordering config setting option arrow shortcut hot any each every column order
    change request websocket minor major dictionary struct sorting search filter license_plate piano
    """.split()
)
"""What makes a key one that everybody may see."""
_CUT = re.compile(
    rb"[;,](?!$)|\\(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})|&(?=\w+=|[lr][ds]quo|quot|nbsp|hellip|#\d)|\\{1,2}[nrt](?![A-Za-z0-9])|\\{2}[nrtu\"']|\)(?=[,;.)\]}]|$)"
)
"""Where a value without quotes ends, though no space follows."""


def _trimmed(value: bytes) -> bytes:
    """Without what ends a sentence or a bracket; non-ASCII letters end a value in a sentence of ASCII."""
    for number, byte in enumerate(value):
        if byte > 127:
            value = value[:number]
            break
    value = _CUT.split(value, 1)[0] if value[:1] not in b";,)" else value
    while value and value[-1:] in {b".", b",", b";", b":", b")", b"]", b"}", b"?", b"*", b"_", b"|", b"\\"}:
        value = value[:-1]
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
        or (bare and _CODE.match(value))
    ):
        return False
    if b" " in value:
        return not reference(value) and _phrase(value)
    if not password(value) or value.lower() in _STOP or is_fact(value) or validation(value):
        return False
    if value[:1] in b"/.~$%<{[(|" and not bare:
        return classes(value) >= 3
    return is_word(value) or drawn(value, SAID) or _unsaid(value)


def _unsaid(value: bytes) -> bool:
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
    if _COMMON.fullmatch(value):
        return False
    return len(value) >= 6


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
