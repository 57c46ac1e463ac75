"""Servers and installers that keep a password in a line of their own form, or print the first one they made."""

from __future__ import annotations

from collections.abc import Iterator

from kagura_kernel.kit.redaction.patterns import Match, Nearby
from kagura_kernel.kit.redaction.plausible import crypted, password, placeholder, token
from kagura_kernel.kit.redaction.rules.adjacent import strong
from kagura_kernel.kit.redaction.spans import Span

_KIND = "password"
_LINE = r"(?m:^)[ \t]*"
_END = r"[ \t]*\r?(?m:$)"
_CERTAIN = Nearby(
    r"(?:\bstats[ \t]+auth[ \t]+[^\s:]+:|"
    rf"{_LINE}user[ \t]+[\w.@\-]+[ \t]+(?:insecure-)?password[ \t]+|"
    r"\b[\w.\-]+[ \t]+[\w.\-]+/[\w.\-/]*(?:passw|secret)[\w.\-]*[ \t]+(?:password|string)[ \t]+|"
    r"\bpassword is generated for [^\s:]+:[ \t]|"
    r"\b(?:bindpw|rootpw|olcRootPW:|ldap_default_authtok[ \t]*=|bind_pw)[ \t]+|"
    r"\{(?:PLAIN|CLEAR|CLEARTEXT)\}|"
    r"\b334 UGFzc3dvcmQ6[ \t]*\r?\n(?:C:[ \t]*)?|"
    r"\bMONITOR[ \t]+\S+@\S+[ \t]+\d+[ \t]+\S+[ \t]+|"
    r"\b(?:wsrep_)?sst_auth[ \t]*=[ \t]*[\"']?[\w\-]+:|"
    r"\b(?:unseal key(?: \d+)?|initial root token|recovery key \d+)[ \t]*:[ \t]*|"
    r"\bpassword\b[^\n]{0,80}\n[ \t]*new value[ \t]*:[ \t]*|"
    r"\bset[ \t]+password[ \t]+for[ \t]+\S+[ \t]+|"
    r"\bopenssl[ \t]+passwd[ \t]+(?:-\w+[ \t]+)*)"
    r"\"?'?([^\s\"']+)"
)
_ACL = Nearby(r"[ \t]>([^\s\"'~&+@<>|]{6,})")
_ACL_LINE = Nearby(r"\b(?:user[ \t]+\S+[ \t]+(?:on|off|reset|>)|setuser[ \t]+\S+)[^\n]*")
_PPP = Nearby(
    rf"{_LINE}\"?[a-z][\w.@\\\-]*\"?[ \t]+(?:\*|\"\*\")[ \t]+(?:\"([^\"\n]+)\"|([^\s\"';,()]+))(?:[ \t]+[*\d./\-]+)*{_END}"
)
_CHPASSWD = Nearby(
    r"\bchpasswd\b[^\n]*\n((?:[ \t]*(?:expire|list)[ \t]*:[^\n]*\n)*)((?:[ \t]*(?:-[ \t]+)?[\"']?[a-z_][\w\-]*:[^\s\"']+[\"']?[ \t]*\r?(?:\n|$)){1,20})"
)
_USER_LINE = Nearby(r"[a-z_][\w\-]*:([^\s\"']+)")
_SALTED = Nearby(
    r"\bdefine\(\s*[\"']\w*(?:_KEY|_SALT|_SECRET)[\"']\s*,\s*(?:'([^'\n]{20,})'|\"([^\"\n]{20,})\")", ignore_case=False
)
_DRAWN = Nearby(r"\"random_password\"", ignore_case=False)
_RESULT = Nearby(r"\"result\"\s*:\s*\"((?:[^\"\\\n]|\\[^\n])+)\"", ignore_case=False)
"""What Terraform drew, in its state."""
_REACH = 900
_HOST_TOKEN = Nearby(
    r"\"(?:github-oauth|gitlab-token|gitlab-oauth|bearer)\"\s*:\s*\{\s*\"[^\"\n]+\"\s*:\s*\"([^\"\n]{12,})\""
)
"""Tokens of Composer, by host."""
_DUMPED = Nearby(r":\d+:[0-9a-f]{32}:([0-9a-f]{32}):::")
"""Passwords as Windows keeps them, in a dump."""
_KAGGLE = Nearby(
    r"\"username\"\s*:\s*\"[^\"\n]+\"\s*,\s*\"key\"\s*:\s*\"([0-9a-f]{32})\"|\"key\"\s*:\s*\"([0-9a-f]{32})\"\s*,\s*\"username\""
)
_BELOW = Nearby(
    r"\b(?:password|passphrase|passwort|kennwort|api[ -]?key|token|secret|unseal key|recovery key|mot de passe|contraseña)\b[^\n]{0,80}(?::|\*{3,})[ \t]*\r?\n(?:[ \t*]*\r?\n){0,2}[ \t]*([^\s\"'`,;{}\[\]]{8,})[ \t]*\r?(?:\n|$)"
)
"""A line that announces, and below it the value alone."""
_RAW_LOGIN = Nearby(
    rf"(?:\bquote[ \t]+|(?:[>:]|-->|>>>)[ \t]+|\bUSER[ \t]+\S+[^\n]*\n(?:[^\n]*\n){{0,2}}?[^\n]{{0,40}}?)PASS[ \t]+([^\s:]+){_END}",
    ignore_case=False,
)
_CHAT_LOGIN = Nearby(
    rf"(?:{_LINE}\w*\d+ LOGIN \"?[^\s\"]+\"? \"?|(?:/msg |PRIVMSG |/)?\b(?:NickServ|ns)[ \t]+:?(?:IDENTIFY|identify)[ \t]+|/oper[ \t]+\w+[ \t]+)([^\s\"]+)",
    ignore_case=False,
)
_IRC_PASS = Nearby(rf"{_LINE}PASS[ \t]+:?([^\s:]+)\r?\n(?:NICK|USER|SERVER) ", ignore_case=False)
_FTP_USER = Nearby(rf"\b(?:ftp|ncftp)\b[^\n]*\n(?:[^\n]*\n){{0,4}}?{_LINE}user[ \t]+\S+[ \t]+(\S+){_END}")


def find(data: bytes) -> Iterator[Span]:
    """Passwords in lines that only such programs write or read."""
    for start, end, certain in _places(data):
        value = data[start:end]
        if not value.startswith(b"-") and (crypted(value) or password(value, certain=certain)):
            yield Span(start, end, _KIND)
    for pattern in (_SALTED, _KAGGLE, _HOST_TOKEN, _DUMPED):
        for found in pattern.finditer(data):
            start, end = _group(found)
            if not placeholder(data[start:end]):
                yield Span(start, end, "secret")
    for found in _BELOW.finditer(data):
        value = found.group(1) or b""
        if token(value, 8) or strong(value):
            yield Span(found.start(1), found.end(1), _KIND)


def _places(data: bytes) -> Iterator[tuple[int, int, bool]]:
    """Where a password may stand, and whether nothing else can stand there."""
    for pattern, certain in (
        (_CERTAIN, True),
        (_FTP_USER, True),
        (_PPP, False),
        (_RAW_LOGIN, False),
        (_CHAT_LOGIN, False),
        (_IRC_PASS, False),
    ):
        for found in pattern.finditer(data):
            if pattern is not _PPP or found.start(1) >= 0 or strong(found.group(2) or b""):
                yield (*_group(found), certain)
    for outer, inner in ((_ACL_LINE, _ACL), (_CHPASSWD, _USER_LINE)):
        for lines in outer.finditer(data):
            for found in inner.finditer(data, lines.start(), lines.end()):
                yield (*_group(found), True)
    for drawn in _DRAWN.finditer(data):
        found_result = _RESULT.search(data, drawn.end(), drawn.end() + _REACH)
        if found_result is not None:
            yield (*_group(found_result), True)


def _group(found: Match) -> tuple[int, int]:
    group = 1 if found.start(1) >= 0 else 2
    return found.start(group), found.end(group)
