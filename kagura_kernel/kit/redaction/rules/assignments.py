"""A name that says secret, and its value: in source, configurations, environments, JSON, YAML, TOML and queries."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kagura_kernel.kit.redaction.names import Says, says
from kagura_kernel.kit.redaction.patterns import Lazy, Match
from kagura_kernel.kit.redaction.plausible import crypted, password, token, validation
from kagura_kernel.kit.redaction.spans import Span

_WORDS = (
    "pass|pwd|psk|kennwort|contrase|senha|wachtwoord|mdp|secret|token|key|auth|credential|mnemonic|pepper|cookie|"
    "connection_?string|bearer|jwt|sess|(?:^|[^a-z])(?:pw|pin|sid|sas|sig)"
)

_ASSIGNED = Lazy(
    rf"([\w.$\-]*(?:{_WORDS})[\w.\-]*)"
    r"((?:\\*[\"'`\])}]|\[\w*\]){0,3})"
    r"(?:(\s*(?::[ \t]*[&*]?(?:'\w+[ \t]+)?(?:Optional\[|Final\[|Annotated\[)?[\w.:<>?]+(?:\[\w*\])?\]?(?:[ \t]*\|[ \t]*(?:None|null|undefined))?[ \t]*=|[ \t]+[*&]?[\w.<>]+(?:\[\])?[ \t]*:?=|\|\|=?|\?\?=?|\?:|\bor\b|:-|:=|=>|->|={1,3}|!==?|:)[ \t]*(?:new[ \t]+\w+)?(?:\(\s*)?)|(\s*,\s*)|(\(\s*))"
    r"(?:[bBrRuUfFlL@$]{0,2}\"\"\"([^\"]+)\"\"\"|[|>][-+]?[ \t]*\n[ \t]+([^\s\"']+)[ \t]*(?:\n|$)"
    r"|(?:[bBrRuUfFlL@$]{0,2}|N)\"((?:[^\"\\\n]|\\[^\n])+)\"|(?:[bBrRuUfFlL@$]{0,2}|N)'((?:[^'\\\n]|\\[^\n]|'')+)'|`([^`\n]+)`"
    r"|\\+[\"']([^\"'\\\n]+)|([^\s\"'`,;<>(){}\[\]\\|&][^\s\"'`]*))"
)
_QUOTED = (6, 8, 9, 10, 11)
_BLOCK = 7
_BARE = 12

_SPACED = Lazy(
    r"(?:^|\n|;)[ \t]*(?:(?:export|ENV|ARG|setenv|setx|set|SetEnv|env|fastcgi_param|default|hide|#[ \t]*define|#define|%define|set[ \t]+-\w+|set[ \t]+--\w+|let|var|proxy_set_header|add_header)[ \t]+|\"?/{2}[^\s=]+:)?"
    rf"([\w.\-]*(?:{_WORDS})[\w.\-]*)[ \t]+(\"[^\"\n]+\"|'[^'\n]+'|[^\s\"'=:;,(){{}}]\S*)[ \t]*;?[ \t]*(?:\n|\r|$|#)"
)
"""Configurations that put nothing but a space between a name and its value, one to a line."""

_CONNECTION = Lazy(
    r"(?:server|data source|host|uid|user id|user|username|database|dbname|initial catalog|accountname|endpoint)\s*="
)


def find(data: bytes) -> Iterator[Span]:
    """Values behind names that say secret."""
    for found in _ASSIGNED.finditer(data):
        yield from _assigned(data, found)
    for found in _SPACED.finditer(data):
        yield from _spaced(found)


def _assigned(data: bytes, found: Match) -> Iterator[Span]:
    name = found.group(1) or b""
    what = says(name)
    if what is Says.NOTHING:
        return
    group = next(number for number in (*_QUOTED, _BLOCK, _BARE) if found.group(number) is not None)
    start, end = found.start(group), found.end(group)
    separated_by_comma, called = found.group(4) is not None, found.group(5) is not None
    if group == _BARE:
        if separated_by_comma or called:
            return
        end = _bare_end(data, found.start(1), start, end)
    elif separated_by_comma and not found.group(2):
        return
    value = data[start:end]
    if secret(what, name, value) and not (group == _BARE and _code(data, value, found.start(1), end)):
        yield Span(start, end, kind_of(what, name))


def secret(what: Says, name: bytes, value: bytes) -> bool:
    """Whether a value behind such a name is a secret."""
    if crypted(value):
        return what is Says.PASSWORD
    if validation(value):
        return False
    if what is Says.PASSWORD:
        return password(value)
    return token(value, 8 if b"secret" in name.lower() else 10)


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
    if b";" in value:
        value = value[: value.find(b";")]
    if b"," in value and b"=" in value[value.find(b",") :]:
        value = value[: value.find(b",")]
    if b"<" in value and b"</" in value:
        value = value[: value.find(b"</")]
    value = _ESCAPE.split(value, 1)[0]
    while value and value[-1:] in {b",", b";", b")", b"}", b"]", b"\\", b">"}:
        value = value[:-1]
    return start + len(value)


def _code(data: bytes, value: bytes, key: int, end: int) -> bool:
    """Whether a value without quotes is a variable or an expression of a program."""
    follows = data[end : end + 1]
    if not _IDENTIFIER.fullmatch(value):
        return bool(_EXPRESSION.search(value))
    if follows in {b"(", b"[", b"."}:
        return True
    if follows in {b")", b",", b";"} or data[end : end + 2] in {b" )", b" ;"}:
        line = data[data.rfind(b"\n", max(0, key - 2000), key) + 1 : end]
        if _CONNECTION.search(line):
            return False
        return len(value) < 12 or not token(value, 12)
    return len(value) < 8 and sum(48 <= byte <= 57 for byte in value) == 1 and not value[-1:].isdigit()


_ESCAPE = re.compile(rb"\\+[nrtu]")
_IDENTIFIER = Lazy(r"[a-z_$][\w$]*")
_EXPRESSION = Lazy(r"^[\w.]+\(|^[a-z_]\w*(?:\.[a-z_]\w*)+[()\[\]]?|^[a-z_]\w*(?:\.[a-z_]\w*)+$|::|=>|&&|\|\||^\w+\[")


def _spaced(found: Match) -> Iterator[Span]:
    name = found.group(1) or b""
    what = says(name)
    if what is Says.NOTHING:
        return
    start, end = found.start(2), found.end(2)
    value = found.group(2) or b""
    if value[:1] in {b'"', b"'"}:
        start, end, value = start + 1, end - 1, value[1:-1]
    elif value.endswith(b";"):
        end, value = end - 1, value[:-1]
    if secret(what, name, value) and not value.endswith((b"(", b"{", b".")):
        yield Span(start, end, kind_of(what, name))
