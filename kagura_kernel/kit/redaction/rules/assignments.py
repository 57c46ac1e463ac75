"""A name that says secret, and its value: in source, configurations, environments, JSON, YAML, TOML and queries."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.late_pattern import late_pattern
from kagura_kernel.kit.redaction.chance import CODE, drawn
from kagura_kernel.kit.redaction.names import Says, documented, kind_of, says, secret
from kagura_kernel.kit.redaction.patterns import Match, Nearby, ungrouped
from kagura_kernel.kit.redaction.spans import Span, line_start
from kagura_kernel.kit.redaction.values import token

_WORDS = (
    "pass|pwd|psk|kennwort|contrase|senha|wachtwoord|mdp|secret|token|key|auth|credential|mnemonic|pepper|cookie|salt|"
    "connection_?string|bearer|jwt|sess|(?:^|[^a-z]|root|bind|admin|user|db|ftp|smtp|my|ssh|login|mail)(?:pw|pin|sid|sas|sig)"
)

_NAME = rf"[\w.$\-]*(?:{_WORDS})[\w.\-]*"
_CLOSING = r"(?:\\*[\"'`\])}]|\[\w*\]){0,3}"
"""What ends a name that was quoted, or one in brackets."""
_OPERATORS = (
    # A type and `=`: `token: Optional[str] =`, `char *token =`, `token As String =`.
    r":[ \t]*[&*]?(?:'\w+[ \t]+)?(?:Optional\[|Final\[|Annotated\[)?[\w.:<>?]+(?:\[\w*\])?\]?(?:[ \t]*\|[ \t]*(?:None|null|undefined))?[ \t]*=",
    r"[ \t]+(?:As[ \t]+)?[*&]?[\w.<>]+(?:\[\]|\(\w{1,4}\))?[ \t]*:?=",
    r"\|\|=?|\?\??=?|\?:|\bor\b|:-|:=|=>|->|={1,3}|!==?|<<?-|[+.]=|[ \t]+\.[ \t]+",
    # YAML, with an anchor or a tag.
    r":(?:[ \t]+(?:&[\w\-]+|!(?:!?str|!binary|string|plain)))*",
)
_WRAPPED = (
    r"(?:new[ \t]+\w+)?(?:(?:\[\]byte|\[\]rune|bytes|SecretStr|Secret|String|String::from|Buffer\.from|ByteString|L|TEXT|_T|"
    r"Some|raw|[\w.]*GetBytes|strdup|NSString|md5|sha\d*|password|encrypt|crypt|hash|bcrypt)?\(\s*)?"
)
"""What makes a value of a literal: `new String("…")`."""
_PREFIX = r"(?:[bBrRuUfFlL@$]{0,2}|N)"
_VALUES = (
    r"[bBrRuUfFlL@$]{0,2}\"\"\"(?P<text>[^\"]+)\"\"\"",
    r"[|>][-+]?[ \t]*\n[ \t]+(?P<block>[^\s\"']+)[ \t]*(?:\n|$)",
    _PREFIX + r"\"(?P<double>(?:[^\"\\\n]|\\[^\n])+)\"",
    _PREFIX + r"'(?P<single>(?:[^'\\\n]|\\[^\n]|'')+)'",
    r"`(?P<backticks>[^`\n]+)`",
    r"\\+[\"'](?P<escaped>[^\"'\\\n]+)",
    r"(?P<bare>[^\s\"'`,;<>(){}\[\]\\|&][^\s\"'`]*)",
    r"&(?:quot|apos|#3[49]);(?P<entity>[^&\s][^&\n]*)&(?:quot|apos|#3[49]);",
    r"[bBrRuUfF]{0,2}'''\r?\n(?P<docstring>[^']+)'''",
)
"""How a value may be written, in the order in which it is tried."""
_FORM = (
    rf"({_NAME})({_CLOSING})(?:(\s*(?:{'|'.join(_OPERATORS)})[ \t]*{_WRAPPED})|(\s*,\s*)|(\(\s*))"
    rf"(?:{re.sub('[?]P<[a-z]+>', '?:', '|'.join(_VALUES))})"
)
_ASSIGNED = Nearby(_FORM)
_ASSIGNED_SOMEWHERE = Nearby(ungrouped(_FORM))
# The engine says where the value ends, so that Python's own goes back over no more than one value.
_VALUE = late_pattern("|".join(_VALUES).replace(r"\s", r"\t\n\f\r ").encode(), re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Assignment:
    """A name, what stands between it and a value, and the value."""

    name: bytes
    begin: int  # of the name
    closing: bytes  # quotes and brackets behind the name
    separator: bytes  # an operator, a comma or an opening bracket, with the spaces around it
    by: str  # "operator", "comma" or "call"
    style: str  # the group of `_VALUES`
    start: int  # of the value, without quotes
    stop: int  # behind the value
    end: int  # behind its closing quote

    @property
    def operator(self) -> bytes:
        """What assigns; empty for an argument or the member of a list."""
        return self.separator if self.by == "operator" else b""


_FAR = 512
"""Bytes from the beginning of a name on, behind which nothing is a secret that another name may stand in."""


def _taken_apart(data: bytes, at: int, upto: int | None = None) -> _Assignment | None:
    """The assignment that begins at a place; of one that goes on behind `upto` only what stands before that."""
    found = _ASSIGNED.match(data, at, upto)
    if found is None:
        return None
    group = next(number for number in (3, 4, 5) if found.start(number) >= 0)
    value = _VALUE.match(data, found.end(group), found.end())
    if value is None or value.lastgroup is None or (found.group(group) == b":" and _SCOPED.match(data, value.start())):
        return None
    return _Assignment(
        name=found.group(1) or b"",
        begin=found.start(1),
        closing=found.group(2) or b"",
        separator=found.group(group) or b"",
        by=("operator", "comma", "call")[group - 3],
        style=value.lastgroup,
        start=value.start(value.lastgroup),
        stop=value.end(value.lastgroup),
        end=found.end(),
    )


_SCOPED = late_pattern(rb":[A-Za-z_]\w*+(?![^\s\w,;:()<>{}\[\]*&.=+-])")
"""The second colon of `Class::member`, as C++ and others write it."""
_CALLED = late_pattern(rb"[\w.\-]+(?![$\x80-\xff])")
_MORE_NAME = late_pattern(rb"(?is).{1,4}?(?:pw|pin|sid|sas|sig)|(?:\\*[\"'`\])}]|\[\w*\]){0,3}[ \t]+[\w.]+[ \t]*=")
"""What may make the name longer, or begin another name, behind what looks like the name."""
_TYPED = late_pattern(rb"[ \t]+[\w.]+[ \t]*=[ \t]*")

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
    at = run = 0
    while (somewhere := _somewhere(data, at, run)) is not None:
        start, at = somewhere
        if _says_nothing(data, start, at):
            continue
        if one := _beginning(data, start, at):
            run = at
        if one := one or _taken_apart(data, start):
            yield from _assigned(data, one)
            at = _next(data, one)
    for found in _SPACED.finditer(data):
        yield from _spaced(found)


def _somewhere(data: bytes, at: int, run: int) -> tuple[int, int] | None:
    """Where the next assignment begins and ends; what goes on in a long value does so to its end, which is `run`."""
    while at + 2 * _FAR < run:
        if found := _ASSIGNED_SOMEWHERE.search(data, at, at + 2 * _FAR):
            return found.start(), run if found.end() == at + 2 * _FAR else found.end()
        at += _FAR
    found = _ASSIGNED_SOMEWHERE.search(data, at)
    return None if found is None else (found.start(), found.end())


def _beginning(data: bytes, start: int, end: int) -> _Assignment | None:
    """The first part of what is found there, where it goes on for long and names are looked for in it once more.

    To read on to its end for each of them would take the square of its length.
    """
    if end - start <= _FAR or (one := _taken_apart(data, start, start + _FAR)) is None:
        return None
    goes_on = one.style == "bare" and one.end == start + _FAR
    return one if goes_on and start < _next(data, one) < one.end else None


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


_VARIABLE = late_pattern(rb"[a-z_]\w*")
_OR = late_pattern(rb"(?i)[.\-]or\b")


def _next(data: bytes, one: _Assignment) -> int:
    """From where to go on: `<machineKey validationKey="…"`, `${NAME:-…}` and `"auth", "token": "…"` have a second name."""
    if one.style == "bare" and data.startswith(b"${", one.start):
        return one.start + 2
    if one.by == "comma":
        return one.start - 1
    return one.begin + len(one.name) if _TYPED.fullmatch(one.operator) is not None else one.end


def _assigned(data: bytes, one: _Assignment) -> Iterator[Span]:
    what = says(one.name)
    if what is Says.NOTHING or not _opens(data, one) or _passed(data, one) or _stands_otherwise(data, one):
        return
    start, end = one.start, one.stop
    if one.style in {"text", "docstring"}:
        start, end = end - len(data[start:end].lstrip()), start + len(data[start:end].rstrip())
    elif one.style == "bare":
        end = _bare_end(data, one.begin, start, end)
    elif (
        one.style in {"double", "single"}
        and (second := _SECOND.match(data, one.end))
        and _FIRST.search(data, max(0, one.begin - 80), one.begin)
    ):
        start, end = second.span(2)
    yield from _instead(data, what, one)
    value = data[start:end]
    if one.style == "bare" and one.closing[:1] == b"]" and _VARIABLE.fullmatch(value):
        return
    if value.startswith((b'\\"', b"\\'")) and value.endswith(value[:2]):
        start, end, value = start + 2, end - 2, value[2:-2]
    if secret(what, one.name, value) and not (one.style == "bare" and _code(data, value, one.begin, end)):
        yield Span(start, end, kind_of(what, one.name), quotes=_quotes(data, one, value))


def _stands_otherwise(data: bytes, one: _Assignment) -> bool:
    """Whether what follows the name is none of its value: the argument of a call, a member of a list, a command."""
    value = data[one.start : one.stop]
    if one.style == "bare":
        member = one.operator == b"->" and _MEMBER.fullmatch(value) is not None
        return one.by != "operator" or member or one.operator.strip() == b"or"
    if one.style == "backticks" and b" " in value:
        return True  # a shell runs it
    if one.by == "call":
        return _ASKS.match(one.name) is not None
    return one.by == "comma" and (
        _listed(data, one)
        or not one.closing
        or b" " in value
        or data[one.begin - 1 : one.begin] == b"/"
        or data.startswith(one.name[:_ALIKE], one.start)
    )


def _instead(data: bytes, what: Says, one: _Assignment) -> Iterator[Span]:
    """What is taken when the value before is missing, or what it is changed to: `?? "…"`, `-> "…"`."""
    other = _OTHER.match(data, one.end)
    if other is not None and secret(what, one.name, other[2]):
        yield Span(other.start(2), other.end(2), kind_of(what, one.name))


_OTHER = late_pattern(rb"(?:[ \t]*(?:\?\?|\|\||\bor\b|\?:|->)[ \t]*|(?<=\|\|)|(?<=\?\?))([\"'`])([^\"'`\n]+)\1")
_ALIKE = 6
"""Letters with which two names of a list begin."""
_MEMBER = late_pattern(rb"[a-z_]+\W*")
_FIRST = late_pattern(rb"(?:\A|[\n;(])[ \t]*\*?[A-Za-z_]\w*[ \t]*,[ \t]*\Z")
_SECOND = late_pattern(rb"[ \t]*,[ \t]*([\"'])([^\"'\n]+)\1[ \t]*\r?(?:\n|\Z|[;#)])")
"""`user, password = "…", "…"`."""
_ASKS = late_pattern(
    rb"(?i)(?:\w*\.)*(?:get|has|is|check|find|fetch|load|read|look_?up|delete|remove|list|clear|forget|without|to|from)(?:[_A-Z]|[a-z]*_)"
)
"""Functions that are given the name of a secret."""


def _listed(data: bytes, one: _Assignment) -> bool:
    """Whether name and value are two of many members of a list, each on its own line."""
    if b"\n" not in one.separator:
        return False
    before = data[max(0, one.begin - 80) : one.begin].rstrip(b"\"'`bru").rstrip()
    return before.endswith(b",") or data[one.end : one.end + 4].lstrip().startswith((b",", b":", b"="))


def _quotes(data: bytes, one: _Assignment, value: bytes) -> str:
    """Those of the name, when its value is a bare number: there a marker must be a text, as in `{'pin': 48151623}`."""
    if one.style != "bare" or not value.isdigit():
        return ""
    mark = one.closing[:1]
    begun = data[one.begin - 1 : one.begin] == mark and data[one.begin - 2 : one.begin - 1] != b"\\"
    return mark.decode() if begun and mark in {b'"', b"'"} else ""


def _passed(data: bytes, one: _Assignment) -> bool:
    """Whether somebody passes something, or a test passed: `Pass CFLAGS=…`, `PASS: addr2line`."""
    if one.name.lower() != b"pass":
        return False
    return _TYPED.fullmatch(one.operator) is not None or tested(data, one.begin, one.begin + len(one.name))


_RESULT = late_pattern(rb"(?:X?PASS|X?FAIL|ERROR|UNSUPPORTED|UNTESTED): |Running ")


def tested(data: bytes, start: int, end: int) -> bool:
    """Whether the name there is what a test program says of a test, as on the line above or below."""
    if data[start:end] != b"PASS":
        return False
    below = data.find(b"\n", end) + 1
    above = line_start(data, max(0, start - 1), 500)
    return any(_RESULT.match(data, at) for at in (above, below) if at and at != start) or (
        above == 0 < start and _RESULT.match(data) is not None
    )


def _opens(data: bytes, one: _Assignment) -> bool:
    """Whether a value can stand there: not behind a name in a documentation, in a resource's name or before an attribute."""
    if one.closing[:1] == b")" and b"$(" in data[max(0, one.begin - 2) : one.begin] + one.name:  # `$(pwd)`
        return False
    if documented(data, one.begin) or (b"\n" in one.operator and _NEXT_LINE.match(one.operator)):
        return False
    return not (_ATTRIBUTE.match(one.operator) and one.closing[-1:] in {b'"', b"'"})


_NEXT_LINE = late_pattern(rb"\s*\n\s*[\w.*&<>]+[ \t]*:?=")
_ATTRIBUTE = late_pattern(rb"[ \t]+[a-z\-]+[ \t]*=")


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


MOUNT_OPTIONS = late_pattern(
    rb",(?:[a-z_]{2,}=|(?:rw|ro|noauto|nofail|_netdev|users?|exec|defaults|soft|hard)(?:,|\Z))"
)
"""What follows a password among the options of a mount."""
_NEXT_MEMBER = late_pattern(rb",[\"']?[A-Za-z_$][\w$]*[\"']?:(?!//)")
_MINIFIED = late_pattern(rb"![01]|void|lambda:?|![A-Za-z_$][\w$]*+(?:[.(].*+)?")
"""How a program without spaces says true, false and nothing, and how a function without a name begins."""
_SENTENCE = late_pattern(rb" [a-z]{2,12} [a-z]{2,}")
_SNAKE = late_pattern(rb"[a-z]{2,}(?:_[a-z]{2,})+_?v?\d{0,2}")
_NUMBERED = late_pattern(rb"[a-z]{3,}\d{0,2}")
_ENTITY = late_pattern(rb"&(?:[lr][ds]quo|quot|nbsp|hellip|[mn]dash|apos|#\d+);?")
_ESCAPE = late_pattern(rb"\\+[nrtu]")
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
