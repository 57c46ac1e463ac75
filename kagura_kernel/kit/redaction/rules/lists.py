"""Secrets in rows and columns: recovery codes, tables with a column of passwords, rows for a database."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

from kagura_kernel.kit.redaction.letters import drawn
from kagura_kernel.kit.redaction.names import Says, says
from kagura_kernel.kit.redaction.patterns import Lazy
from kagura_kernel.kit.redaction.plausible import classes, entropy, placeholder
from kagura_kernel.kit.redaction.rules.assignments import kind_of, secret
from kagura_kernel.kit.redaction.spans import Span

_CODES_SAID = Lazy(
    r"(?:recovery|backup|rescue|scratch|emergency|one-?time|2fa|mfa)[ _\-](?:backup[ _\-])?(?:recovery[ _\-])?(?:codes?|keys?)|wiederherstellungs(?:codes?|schlüssel)|(?:backup|notfall|ersatz)-?codes?|codes? de (?:secours|récupération)|códigos? de (?:recuperación|respaldo)|"
    r"リカバリー?コード|バックアップ ?コード|回復コード|復旧コード|恢复代码|恢复码|备用码|备份码|备用验证码|備用碼|恢復碼"
)
_CODE = Lazy(r"\b([a-z0-9]{4,8}(?:[ \-][a-z0-9]{4,8}){1,7}|[a-z0-9]{8,16}|\d{8}|\d{4} \d{4})\b")
_REACH = 900
_NAME = re.compile(rb"\"[\w .\-]{1,40}\"\s{0,8}:")
_OF_CODES = re.compile(rb"(?i)code|recover|backup|used|\"\d+\"")
"""Names within a list of codes in JSON; others end it."""
_UNIT = Lazy(r"\d{4}-\d\d-\d\d|[a-z]+(?:[ \-][a-z]+)*|20\d\d\d{4}")
_NUMBERED = re.compile(rb"[a-z]{3,}\d[a-z]*|[A-Za-z]+ \d+")
"""A word with a number in it or behind it."""
_INSERT = Lazy(
    r"\b(?:insert(?:\s+ignore)?\s+into|replace\s+into)\s+[\w.`\"\[\]]+\s*\(([^()]+)\)\s*values\s*((?:\((?:[^()']|'(?:[^'\\]|\\[^\n]|'')*')*\)\s*,?\s*)+)"
)
_TUPLE = Lazy(r"\((?:[^()']|'(?:[^'\\]|\\[^\n]|'')*')*\)")
_CELL = Lazy(r"N?'((?:[^'\\]|\\[^\n]|'')*)'|([^,()\s']+(?:\s[^,()']*)?)")
_COPY = Lazy(r"\bCOPY\s+[\w.\"]+\s*\(([^()]+)\)\s+FROM\s+stdin;\r?\n", ignore_case=False)
_IN_TITLES = r"(?:[\w .()/\-\"'`*\t,;|\r]|[^\x00-\x7f])*"
_TITLE_WORD = r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[_ ]?key|passwort|kennwort|パスワード|密码|密碼)"
_TITLES = Lazy(
    rf"(?:^|\n){_IN_TITLES}(?:[\t,;|]{_IN_TITLES}{_TITLE_WORD}|{_TITLE_WORD}{_IN_TITLES}[\t,;|]){_IN_TITLES}\n"
)
"""A line that says secret and has no sign that titles of columns do not have."""
_LINE_END = 10
_MOST_ROWS = 5000
_PASSWORDS = (b"password", b"passwort", b"kennwort", "パスワード".encode(), "密码".encode(), "密碼".encode())


def find(data: bytes) -> Iterator[Span]:
    """Codes below a line that announces them; cells below a title that says secret."""
    done = 0
    for said in _CODES_SAID.finditer(data):
        if data[said.end() : said.end() + 1] == b"_":
            continue  # a longer name begins so
        begin, done = max(said.end(), done), max(_codes_end(data, said.end()), done)
        if begin < done:
            yield from _codes(data, begin, done)
    for found in _INSERT.finditer(data):
        yield from _inserted(data, (found.group(1) or b"").split(b","), found.start(2), found.end(2))
    for found in _COPY.finditer(data):
        yield from _rows(data, (found.group(1) or b"").split(b","), found.end(), b"\t")
    done = 0
    for found in _TITLES.finditer(data):
        start = found.start() + (data[found.start()] == _LINE_END)
        if start < done:
            continue
        titles = data[start : found.end() - 1]
        mark = max((b"\t", b"|", b",", b";"), key=titles.count)
        if titles.count(mark) >= 1 and len(titles) < 1000 and _titles(titles.split(mark)):
            done = yield from _rows(data, titles.split(mark), found.end(), mark)


_TITLE = re.compile(rb"[\"'`*]{0,2}[\w .()/\x80-\xff-]{1,40}[\"'`*]{0,2}")


def _titles(cells: list[bytes]) -> bool:
    """Whether these are the titles of columns, and not a line of code; the bars of Markdown stand outside too."""
    inner = cells[1:-1] if len(cells) > 2 and not cells[0].strip() and not cells[-1].strip() else cells
    return (
        len(inner) > 1
        and all(cell and _TITLE.fullmatch(cell.strip(b" \t\r") or b" ") for cell in inner)
        and not any(b"(" in cell for cell in inner[:1])
    )


def _codes_end(data: bytes, at: int) -> int:
    """How far codes may go: to the end of the paragraph, or of the next one when they are announced apart."""
    end = min(len(data), at + _REACH)
    gap = data.find(b"\n\n", at, min(end, at + 60))
    stop = data.find(b"\n\n", gap + 2 if gap >= 0 else at, end)
    end = stop if stop >= 0 else end
    for name in _NAME.finditer(data, at, end):
        if not _OF_CODES.search(name.group()):
            return name.start()
    return end


def _codes(data: bytes, at: int, end: int) -> Iterator[Span]:
    for found in _CODE.finditer(data, at, end):
        value = found.group(1) or b""
        bare = value.replace(b"-", b"").replace(b" ", b"")
        if (
            any(48 <= byte <= 57 for byte in bare)
            and data[max(0, found.start(1) - 2) : found.start(1)] != b"--"  # an option
            and not placeholder(value)
            and not _UNIT.fullmatch(value)
            and (_NUMBERED.fullmatch(value) is None or drawn(value))
            and entropy(bare) > 1.9
        ):
            if bare.isdigit() and len(bare) not in {8, 10, 12} and b"-" not in value and b" " not in value:
                continue
            yield Span(found.start(1), found.end(1), "recovery-code")


def _inserted(data: bytes, titles: list[bytes], start: int, end: int) -> Iterator[Span]:
    names = [title.strip(b" \t\r\n`\"[]'") for title in titles]
    if all(says(name) is Says.NOTHING for name in names):
        return
    for row in _TUPLE.finditer(data, start, end):
        for name, cell in zip(names, _CELL.finditer(data, row.start() + 1, row.end() - 1), strict=False):
            what = says(name)
            group = 1 if cell.group(1) is not None else 2
            if what is not Says.NOTHING and secret(what, name, cell.group(group) or b""):
                yield Span(cell.start(group), cell.end(group), kind_of(what, name))


def _rows(data: bytes, titles: list[bytes], at: int, mark: bytes) -> Generator[Span, None, int]:
    """The cells below titles that say secret, as long as the rows have as many cells; returns where these end."""
    names = [title.strip(b" \t\r\n\"'`*") for title in titles]
    sought = [(number, name, _says(name)) for number, name in enumerate(names) if _says(name) is not Says.NOTHING]
    for _ in range(_MOST_ROWS if sought else 0):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        cells = data[at:end].split(mark)
        if len(cells) != len(names) or end == at:
            break
        for number, name, what in sought:
            cell = cells[number]
            value = cell.strip(b" \t\r\"'`*")
            if value and secret(what, name, value) and classes(value) > 1:
                start = at + sum(len(one) + 1 for one in cells[:number]) + cell.find(value)
                yield Span(start, start + len(value), kind_of(what, name))
        at = end + 1
    return at


def _says(name: bytes) -> Says:
    return Says.PASSWORD if name.lower() in _PASSWORDS else says(name)
