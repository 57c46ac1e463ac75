"""A name that says secret, and its value: in source, configurations, environments, JSON, YAML, TOML and queries."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kagura_kernel.kit.redaction.chance import CODE, SAID, drawn, strewn
from kagura_kernel.kit.redaction.false_positives import openly
from kagura_kernel.kit.redaction.names import Says, documented, says
from kagura_kernel.kit.redaction.patterns import Match, Nearby, ungrouped
from kagura_kernel.kit.redaction.places import Span, line_start
from kagura_kernel.kit.redaction.values import crypted, entropy, password, placeholder, reference, token, validation

_WORDS = (
    "pass|pwd|psk|kennwort|contrase|senha|wachtwoord|mdp|secret|token|key|auth|credential|mnemonic|pepper|cookie|salt|"
    "connection_?string|bearer|jwt|sess|(?:^|[^a-z]|root|bind|admin|user|db|ftp|smtp|my|ssh|login|mail)(?:pw|pin|sid|sas|sig)"
)

_ASSIGNED_FORM = (
    rf"([\w.$\-]*(?:{_WORDS})[\w.\-]*)"
    r"((?:\\*[\"'`\])}]|\[\w*\]){0,3})"
    r"(?:(\s*(?::[ \t]*[&*]?(?:'\w+[ \t]+)?(?:Optional\[|Final\[|Annotated\[)?[\w.:<>?]+(?:\[\w*\])?\]?(?:[ \t]*\|[ \t]*(?:None|null|undefined))?[ \t]*=|[ \t]+(?:As[ \t]+)?[*&]?[\w.<>]+(?:\[\]|\(\w{1,4}\))?[ \t]*:?=|\|\|=?|\?\??=?|\?:|\bor\b|:-|:=|=>|->|={1,3}|!==?|<<?-|[+.]=|[ \t]+\.[ \t]+|:(?:[ \t]+(?:&[\w\-]+|!(?:!?str|!binary|string|plain)))*)[ \t]*(?:new[ \t]+\w+)?(?:(?:\[\]byte|\[\]rune|bytes|SecretStr|Secret|String|String::from|Buffer\.from|ByteString|L|TEXT|_T|Some|raw|[\w.]*GetBytes|strdup|NSString|md5|sha\d*|password|encrypt|crypt|hash|bcrypt)?\(\s*)?)|(\s*,\s*)|(\(\s*))"
    r"(?:[bBrRuUfFlL@$]{0,2}\"\"\"([^\"]+)\"\"\"|[|>][-+]?[ \t]*\n[ \t]+([^\s\"']+)[ \t]*(?:\n|$)"
    r"|(?:[bBrRuUfFlL@$]{0,2}|N)\"((?:[^\"\\\n]|\\[^\n])+)\"|(?:[bBrRuUfFlL@$]{0,2}|N)'((?:[^'\\\n]|\\[^\n]|'')+)'|`([^`\n]+)`"
    r"|\\+[\"']([^\"'\\\n]+)|([^\s\"'`,;<>(){}\[\]\\|&][^\s\"'`]*)|&(?:quot|apos|#3[49]);([^&\s][^&\n]*)&(?:quot|apos|#3[49]);"
    r"|[bBrRuUfF]{0,2}'''\r?\n([^']+)''')"
)
_ASSIGNED = Nearby(_ASSIGNED_FORM)
_ASSIGNED_SOMEWHERE = Nearby(ungrouped(_ASSIGNED_FORM))
_CALLED = re.compile(rb"[\w.\-]+(?![$\x80-\xff])")
_MORE_NAME = re.compile(rb"(?is).{1,4}?(?:pw|pin|sid|sas|sig)|(?:\\*[\"'`\])}]|\[\w*\]){0,3}[ \t]+[\w.]+[ \t]*=")
"""What may make the name longer, or begin another name, behind what looks like the name."""
_TYPED = re.compile(rb"[ \t]+[\w.]+[ \t]*=[ \t]*")
_QUOTED = (6, 8, 9, 10, 11, 13, 14)
_OF_LINES = (6, 14)
_BLOCK = 7
_BACKTICKS = 10
_BARE = 12

_SPACED = Nearby(
    r"(?:(?m:^)|;)[ \t]*(?:(?:export|ENV|ARG|setenv|setx|set|SetEnv|env|fastcgi_param|default|hide|#[ \t]*define|#define|%define|set[ \t]+-\w+|set[ \t]+--\w+|let|var|proxy_set_header|add_header)[ \t]+|\"?/{2}[^\s=]+:)?"
    rf"([\w.\-]*(?:{_WORDS})[\w.\-]*)[ \t]+(\"[^\"\n]+\"|'[^'\n]+'|[^\s\"'=:;,(){{}}]\S*)[ \t]*;?[ \t]*(?:/m[ \t]*)?(?:\r?(?m:$)|#)"
)
"""Configurations that put nothing but a space between a name and its value, one to a line."""

_CONNECTION = Nearby(
    r"(?:server|data source|host|uid|user id|user|username|database|dbname|initial catalog|accountname|endpoint)\s*="
)


def find(data: bytes) -> Iterator[Span]:
    """Values behind names that say secret."""
    at = 0
    while (somewhere := _ASSIGNED_SOMEWHERE.search(data, at)) is not None:
        at = somewhere.end()
        if _says_nothing(data, somewhere.start(), at):
            continue
        found = _ASSIGNED.match(data, somewhere.start())
        if found is not None:
            yield from _assigned(data, found)
            at = _next(data, found)
    for found in _SPACED.finditer(data):
        yield from _spaced(found)


def _says_nothing(data: bytes, start: int, end: int) -> bool:
    """Whether what was found there has a name that says nothing, which is plain without taking it to pieces."""
    called = _CALLED.match(data, start, end)
    return (
        called is not None
        and says(called.group()) is Says.NOTHING
        and _MORE_NAME.match(data, called.end()) is None
        and data.find(b"${", start, end) < 0
        and not _OR.search(called.group())
    )


_NAME = re.compile(rb"[a-z_]\w*")
_OR = re.compile(rb"(?i)[.\-]or\b")


def _next(data: bytes, found: Match) -> int:
    """From where to go on: `<machineKey validationKey="…"` and `${NAME:-…}` have a second name in what was read."""
    if found.start(_BARE) >= 0 and data.startswith(b"${", found.start(_BARE)):
        return found.start(_BARE) + 2
    if _TYPED.fullmatch(found.group(3) or b"") is not None:
        return found.end(1)
    return found.end()


def _assigned(data: bytes, found: Match) -> Iterator[Span]:
    name = found.group(1) or b""
    what = says(name)
    if what is Says.NOTHING:
        return
    if not _opens(data, found) or _passed(data, name, found):
        return
    group = next(number for number in (*_QUOTED, _BLOCK, _BARE) if found.group(number) is not None)
    start, end = found.start(group), found.end(group)
    if _stands_otherwise(data, found, group):
        return
    if group in _OF_LINES:
        start, end = end - len(data[start:end].lstrip()), start + len(data[start:end].rstrip())
    if group == _BARE:
        end = _bare_end(data, found.start(1), start, end)
    elif (
        group in _LITERALS
        and (second := _SECOND.match(data, found.end()))
        and _FIRST.search(data, max(0, found.start(1) - 80), found.start(1))
    ):
        start, end = second.start(2), second.end(2)
    yield from _instead(data, what, name, found.end())
    value = data[start:end]
    if group == _BARE and (found.group(2) or b"")[:1] == b"]" and _NAME.fullmatch(value):
        return
    if value.startswith((b'\\"', b"\\'")) and value.endswith(value[:2]):
        start, end, value = start + 2, end - 2, value[2:-2]
    if secret(what, name, value) and not (group == _BARE and _code(data, value, found.start(1), end)):
        yield Span(start, end, kind_of(what, name), quotes=_quotes(data, found, value) if group == _BARE else "")


def _stands_otherwise(data: bytes, found: Match, group: int) -> bool:
    """Whether what follows the name is none of its value: the argument of a call, a member of a list, a command."""
    by_comma, called = found.group(4) is not None, found.group(5) is not None
    if group == _BARE:
        operator = found.group(3) or b""
        member = operator == b"->" and _MEMBER.fullmatch(found.group(group) or b"") is not None
        return by_comma or called or member or operator.strip() == b"or"
    if group == _BACKTICKS and b" " in data[found.start(group) : found.end(group)]:
        return True  # a shell runs it
    if called:
        return _ASKS.match(found.group(1) or b"") is not None
    return by_comma and (
        _listed(data, found)
        or not found.group(2)
        or b" " in data[found.start(group) : found.end(group)]
        or data[found.start(1) - 1 : found.start(1)] == b"/"
        or data.startswith((found.group(1) or b"")[:_ALIKE], found.start(group))
    )


def _instead(data: bytes, what: Says, name: bytes, at: int) -> Iterator[Span]:
    """What is taken when the value before is missing, or what it is changed to: `?? "…"`, `-> "…"`."""
    other = _OTHER.match(data, at)
    if other is not None and secret(what, name, other[2]):
        yield Span(other.start(2), other.end(2), kind_of(what, name))


_OTHER = re.compile(rb"(?:[ \t]*(?:\?\?|\|\||\bor\b|\?:|->)[ \t]*|(?<=\|\|)|(?<=\?\?))([\"'`])([^\"'`\n]+)\1")
_ALIKE = 6
"""Letters with which two names of a list begin."""
_MEMBER = re.compile(rb"[a-z_]+\W*")
_LITERALS = (8, 9)
_FIRST = re.compile(rb"(?:\A|[\n;(])[ \t]*\*?[A-Za-z_]\w*[ \t]*,[ \t]*\Z")
_SECOND = re.compile(rb"[ \t]*,[ \t]*([\"'])([^\"'\n]+)\1[ \t]*\r?(?:\n|\Z|[;#)])")
"""`user, password = "…", "…"`."""
_ASKS = re.compile(
    rb"(?i)(?:\w*\.)*(?:get|has|is|check|find|fetch|load|read|look_?up|delete|remove|list|clear|forget|without|to|from)(?:[_A-Z]|[a-z]*_)"
)
"""Functions that are given the name of a secret."""


def _listed(data: bytes, found: Match) -> bool:
    """Whether name and value are two of many members of a list, each on its own line."""
    if b"\n" not in (found.group(4) or b""):
        return False
    before = data[max(0, found.start(1) - 80) : found.start(1)].rstrip(b"\"'`bru").rstrip()
    return before.endswith(b",") or data[found.end() : found.end() + 4].lstrip().startswith((b",", b":", b"="))


def _quotes(data: bytes, found: Match, value: bytes) -> str:
    """Those of the name, when its value is a bare number: there a marker must be a text, as in `{'pin': 48151623}`."""
    mark = (found.group(2) or b"")[:1]
    begun = data[found.start(1) - 1 : found.start(1)] == mark and data[found.start(1) - 2 : found.start(1) - 1] != b"\\"
    return mark.decode() if begun and mark in {b'"', b"'"} and value.isdigit() else ""


def _passed(data: bytes, name: bytes, found: Match) -> bool:
    """Whether somebody passes something, or a test passed: `Pass CFLAGS=…`, `PASS: addr2line`."""
    if name.lower() != b"pass":
        return False
    return _TYPED.fullmatch(found.group(3) or b"") is not None or tested(data, found.start(1), found.end(1))


_RESULT = re.compile(rb"(?:X?PASS|X?FAIL|ERROR|UNSUPPORTED|UNTESTED): |Running ")


def tested(data: bytes, start: int, end: int) -> bool:
    """Whether the name there is what a test program says of a test, as on the line above or below."""
    if data[start:end] != b"PASS":
        return False
    below = data.find(b"\n", end) + 1
    above = line_start(data, max(0, start - 1), 500)
    return any(_RESULT.match(data, at) for at in (above, below) if at and at != start) or (
        above == 0 < start and _RESULT.match(data) is not None
    )


def _opens(data: bytes, found: Match) -> bool:
    """Whether a value can stand there: not behind a name in a documentation, in a resource's name or before an attribute."""
    if documented(data, found.start(1)):
        return False
    operator = found.group(3) or b""
    if b"\n" in operator and _NEXT_LINE.match(operator):
        return False
    return not (_ATTRIBUTE.match(operator) and (found.group(2) or b"")[-1:] in {b'"', b"'"})


_NEXT_LINE = re.compile(rb"\s*\n\s*[\w.*&<>]+[ \t]*:?=")
_ATTRIBUTE = re.compile(rb"[ \t]+[a-z\-]+[ \t]*=")


def worded(value: bytes) -> bool:
    """Letters of any script and what stands between words: `Contraseña`, `Passwort ändern`."""
    if value.isascii():
        return False
    text = value.decode("utf-8", "replace")
    if sum(one >= "\u3000" for one in text) >= 4:
        return True
    return all(one.isalpha() or one in " .,:;!?'’()-…" for one in text)


def secret(what: Says, name: bytes, value: bytes) -> bool:
    """Whether a value behind such a name is a secret."""
    if value.isalpha() or crypted(value):
        return _letters(what, value) if value.isalpha() else what is Says.PASSWORD
    if _plain(what, name, value):
        return False
    if what is Says.PASSWORD:
        return password(value) or (_phrase(value) and (name.isupper() or b"phrase" in name.lower()))
    if _long(name, value) or (_memorable(name, value) and password(value)):
        return True
    if b" " in value:
        parts = value.split()
        return len(parts) <= 6 and all(map(_PART.fullmatch, parts)) and any(token(part, 8) for part in parts)
    return token(value, _TOKEN if b"secret" in name.lower() or drawn(value, SAID) else 10)


def _letters(what: Says, value: bytes) -> bool:
    """Whether letters alone are a secret behind such a name: those that stand in no word's order."""
    enough = drawn(value) if what is Says.PASSWORD else len(value) >= _TOKEN and drawn(value, SAID)
    return enough and not (placeholder(value) or _ABOUT_ITSELF.search(value) or openly(value))


_TOKEN = 8
"""Letters that a token has at least."""
_ABOUT_ITSELF = re.compile(rb"(?i)pass?w(?:or)?d|secret|token|key")


def _plain(what: Says, name: bytes, value: bytes) -> bool:
    """Whether this is no secret whatever is kept under such a name: a word, a type, a reference in quotes."""
    return (
        TESTED.match(value) is not None
        or validation(value)
        or _TYPE.fullmatch(value) is not None
        or worded(value)
        or _OPEN.match(value) is not None
        or (kind_of(what, name) in _NUMBERED_BY_UUID and (_UUID.fullmatch(value) or _OURS.fullmatch(value)) is not None)
        or value.startswith((b", ", b"), ", b") "))
        or (value.startswith(b":") and (_PATH.match(value) is not None or not strewn(value)))
        or openly(value)
        or (value[:1] in b"\"'" and reference(value.strip(b"\"'")))
        or placeholder(_ESCAPED_END.sub(b"", value))
        or value.strip(b"\"'\\").isalpha()
        or (name[-3:].lower() == b"pin" and len(value) - len(value.translate(None, _DIGITS)) < _PIN)
    )


_PATH = re.compile(rb":[A-Za-z_]\w*[(<{:]")
"""What follows `Token:` in the path of a program: `Token::Ident2(ref name)`."""
_ESCAPED_END = re.compile(rb"(?:\\{1,2}[nrt])+\Z")
_UUID = re.compile(rb"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OURS = re.compile(rb"run-[0-9a-z]{1,40}\.child-\d{1,6}")
"""The session of a child, which opens nothing."""
_NUMBERED_BY_UUID = frozenset({"session"})
_OPEN = re.compile(rb"--[a-z][a-z-]+|S-1-\d+-[\d-]+$|\w+\)+/|-anonymous@")
"""What is no secret wherever it stands: an option, the number of an account of Windows, the end of an expression."""
TESTED = re.compile(rb"[Tt]est(?:[A-Z_]\w*|s?/\S*)$")
"""Names of tests, which stand behind `PASS:`."""
_TYPE = re.compile(rb"\[?[A-Z][A-Za-z]*!?\]?!?[):,]*")
_STOP = frozenset(b"please your enter set here the this that must should with from into and for not you change".split())


def _phrase(value: bytes) -> bool:
    """Four words or more that are no sentence: `lantern juniper copper walnut`."""
    words = value.split()
    return 4 <= len(words) <= 10 and all(
        word.isalpha() and word.islower() and 3 <= len(word) <= 10 and word not in _STOP for word in words
    )


def _long(name: bytes, value: bytes) -> bool:
    """A key of an application that was made of all signs of a keyboard, brackets too."""
    if not 40 <= len(value) <= 200 or any(
        sign in value for sign in (b" ", b'"', b"'", b";", b"->", b"${", b"{{", b"=>")
    ):
        return False
    lower = name.lower()
    return (
        (b"secret" in lower or lower.endswith(b"key"))
        and len(value) - len(value.translate(None, _DIGITS)) >= 3
        and entropy(value) > 4.2
        and not placeholder(value)
    )


_DIGITS = b"0123456789"
_PIN = 4
"""Digits of a number that opens something."""
_MEMORABLE = re.compile(rb"[A-Za-z][\w.+\-]{3,40}\d{2,}[!@#$%&*?]+")
_NUMBERED_NAME = re.compile(rb"[A-Z][a-z]{6,}\d{2,4}")


def _memorable(name: bytes, value: bytes) -> bool:
    """What people make up where a token is asked for: words, a number, mostly a sign."""
    shouts = name.isupper() and name.endswith((b"_TOKEN", b"_SECRET"))
    return _MEMORABLE.fullmatch(value) is not None or (shouts and _NUMBERED_NAME.fullmatch(value) is not None)


_PART = re.compile(rb"[\w!@#%&*+=?.][\w!@#%&*+=?.\-]*")


def kind_of(what: Says, name: bytes) -> str:
    """The kind in the marker of what stands behind such a name."""
    if what is Says.PASSWORD:
        return "password"
    lower = name.lower()
    if b"token" in lower or b"bearer" in lower or b"jwt" in lower:
        return "token"
    if b"private" in lower:
        return "private-key"
    if b"cookie" in lower or b"sess" in lower or lower.endswith(b"sid"):
        return "session"
    return "api-key" if b"key" in lower else "secret"


def _bare_end(data: bytes, key: int, start: int, end: int) -> int:
    """Where a value without quotes ends: before the next parameter, and before what closes what it stands in."""
    value = data[start:end]
    before = data[max(0, key - 1) : key]
    if before in {b"?", b"&"} or b"&" in value:
        cut = value.find(b"&")
        if cut >= 0 and (before in {b"?", b"&"} or b"=" in value[cut:]):
            value = value[:cut]
    value = _ENTITY.split(value, maxsplit=1)[0] or value
    for operator in (b"&&", b"||"):
        value = value.partition(operator)[0]
    if b";" in value:
        value = value[: value.find(b";")]
    if b"," in value and (
        b"=" in value[value.find(b",") :] or _NEXT_MEMBER.search(value) or MOUNT_OPTIONS.search(value)
    ):
        value = value[: value.find(b",")]
    if b"<" in value and b"</" in value:
        value = value[: value.find(b"</")]
    value = _ESCAPE.split(value, 1)[0]
    while value and value[-1:] in {b",", b";", b")", b"}", b"]", b"\\", b">"}:
        value = value[:-1]
    return start + len(value)


def _code(data: bytes, value: bytes, key: int, end: int) -> bool:
    """Whether a value without quotes is a variable or an expression of a program."""
    if drawn(value, CODE):
        return False
    follows = data[end : end + 1]
    if (
        _MINIFIED.fullmatch(value)
        or _SNAKE.fullmatch(value.removesuffix(b":"))
        or (_SENTENCE.match(data, end) and _NUMBERED.fullmatch(value))
    ):
        return True
    if not _IDENTIFIER.fullmatch(value):
        return bool(_EXPRESSION.search(value))
    if follows in {b")", b",", b";"} or data[end : end + 2] in {b" )", b" ;"}:
        line = data[line_start(data, key, 2000) : end]
        if _CONNECTION.search(line):
            return False
        return len(value) < 12 or not token(value, 12)
    short = len(value) < 8 and sum(48 <= byte <= 57 for byte in value) == 1 and not value[-1:].isdigit()
    return (short and not drawn(value)) or follows in {b"(", b"[", b"."}


MOUNT_OPTIONS = re.compile(rb",(?:[a-z_]{2,}=|(?:rw|ro|noauto|nofail|_netdev|users?|exec|defaults|soft|hard)(?:,|\Z))")
"""What follows a password among the options of a mount."""
_NEXT_MEMBER = re.compile(rb",[\"']?[A-Za-z_$][\w$]*[\"']?:(?!//)")
_MINIFIED = re.compile(rb"![01]|void|lambda:?|![A-Za-z_$][\w$]*+(?:[.(].*+)?")
"""How a program without spaces says true, false and nothing, and how a function without a name begins."""
_SENTENCE = re.compile(rb" [a-z]{2,12} [a-z]{2,}")
_SNAKE = re.compile(rb"[a-z]{2,}(?:_[a-z]{2,})+_?v?\d{0,2}")
_NUMBERED = re.compile(rb"[a-z]{3,}\d{0,2}")
_ENTITY = re.compile(rb"&(?:[lr][ds]quo|quot|nbsp|hellip|[mn]dash|apos|#\d+);?")
_ESCAPE = re.compile(rb"\\+[nrtu]")
_IDENTIFIER = Nearby(r"[a-z_$][\w$]*")
_EXPRESSION = Nearby(
    r"^[\w.]+\(|^[a-z_]\w*(?:\.[a-z_]\w*)+[()\[\]]?|^[a-z_]\w*(?:\.[a-z_]\w*)+$|^null:|^\.\[|\?\.|\*\)|::|=>|&&|\|\||^\w+\["
)


def _spaced(found: Match) -> Iterator[Span]:
    name = found.group(1) or b""
    what = says(name)
    if what is Says.NOTHING or name == b"PASS":  # so tests say that they passed
        return
    start, end = found.start(2), found.end(2)
    value = found.group(2) or b""
    if value[:1] in {b'"', b"'"}:
        start, end, value = start + 1, end - 1, value[1:-1]
    elif value.endswith(b";"):
        end, value = end - 1, value[:-1]
    if (
        secret(what, name, value)
        and not value.endswith((b"(", b"{", b".", b"()"))
        and not value.startswith((b"*", b"`", name))
    ):
        yield Span(start, end, kind_of(what, name))
