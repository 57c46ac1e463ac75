"""Several secrets below one name: `passwords:` with a list, `tokens = ["…", "…"]`, cells of a table of HTML."""

from __future__ import annotations

from collections.abc import Iterator

from kagura_kernel.kit.redaction.names import Says, says
from kagura_kernel.kit.redaction.patterns import Match, Nearby
from kagura_kernel.kit.redaction.rules.assignments import kind_of, secret
from kagura_kernel.kit.redaction.spans import Span

_MANY = r"[\w.\-]*(?:passwords|passphrases|pwds|secrets|tokens|keys|credentials|passcodes|pins|psks|passw(?:o|ö)rter)"
_LISTED = Nearby(
    rf"(?:(?m:^)|[\s{{,])[\"']?({_MANY})[\"']?[ \t]*:[ \t]*\r?\n((?:[ \t]*-[ \t]+[^\n]*(?:\n|$)|[ \t]*#[^\n]*\n)+)"
)
_ITEM = Nearby(r"(?m:^)[ \t]*-[ \t]+(?:\"([^\"\n]+)\"|'([^'\n]+)'|([^\s\"'#:{\[]+))[ \t]*\r?(?:(?m:$)|[ \t]#)")
_BRACKETED = Nearby(
    rf"\b({_MANY})\\?[\"']?\s*(?::|=>|=|:=)\s*(?:\[\]string|new\s*\[\]|new\s+\w+\[\]|Arrays\.asList|List\.of|listOf|set|vec!|%w)?\s*[\[({{]([^\[\](){{}}]+)[\])}}]"
)
_TEXT = Nearby(r"\"([^\"\n\\]+)\"|'([^'\n\\]+)'")
_NAMED = Nearby(r"[ \t]*[:=]")
_SEPARATOR = Nearby(r"\"(?:\s|[^\w\"])\"|'(?:\s|[^\w'])'")
"""What only a list of the words and signs of a text has for a member."""
_WIKI_TABLE = Nearby(r"(?m:^)[ \t]*\|\|([^|\n]+(?:\|\|[^|\n]+)+)\|\|[ \t]*\r?\n((?:[ \t]*\|[^\n]*(?:\n|$))+)")
"""A table as wikis and trackers write it: titles between two bars, cells between one."""
_CELL = Nearby(
    r"<(?:td|th|dt|b|strong|span|label|p|li|em|code|div)\b[^<>\n]*>\s*(?:<(?:b|strong|code|span|em)[^<>\n]*>\s*)?([^<>\n]{2,40}?)\s*:?\s*(?:</[a-z]+>\s*){1,2}:?\s*"
    r"(?:<(?:td|dd|code|tt|span|kbd|strong|b|pre|em|div|p)\b[^<>\n]*>\s*){1,3}([^<>\s]+)\s*</"
)

_TITLES = Nearby(r"<tr\b[^<>\n]*>\s*((?:<th\b[^<>\n]*>[^<>\n]*</th>\s*)+)</tr>")
_TITLE = Nearby(r"<th\b[^<>\n]*>([^<>\n]*)</th>")
_ROW = Nearby(
    r"\s*(?:</thead>\s*)?(?:<tbody\b[^<>\n]*>\s*)?<tr\b[^<>\n]*>\s*((?:<td\b[^<>\n]*>[^<>\n]*</td>\s*)+)</tr>"
)
_ROW_CELL = Nearby(r"<td\b[^<>\n]*>\s*([^<>\n]*?)\s*</td>")
_MOST_ROWS = 200


def find(data: bytes) -> Iterator[Span]:
    """Members of lists, and cells beside a title, whose name says secret."""
    for found in _LISTED.finditer(data):
        for item in _ITEM.finditer(data, found.start(2), found.end(2)):
            group = next(number for number in (1, 2, 3) if item.start(number) >= 0)
            yield from _member(data, found.group(1) or b"", item.start(group), item.end(group))
    for found in _BRACKETED.finditer(data):
        if _SEPARATOR.search(data, found.start(2), found.end(2)) is None:
            yield from _texts(data, found)
    for found in _WIKI_TABLE.finditer(data):
        yield from _below_titles(data, (found.group(1) or b"").split(b"||"), found.start(2), found.end(2))
    if b"<" in data:
        yield from _in_columns(data)
        for found in _CELL.finditer(data):
            name = found.group(1) or b""
            what = says(name)
            if what is not Says.NOTHING and secret(what, name, found.group(2) or b""):
                yield Span(found.start(2), found.end(2), kind_of(what, name))


def _texts(data: bytes, found: Match) -> Iterator[Span]:
    """The texts of a list in brackets."""
    for item in _TEXT.finditer(data, found.start(2), found.end(2)):
        group = 1 if item.start(1) >= 0 else 2
        if _NAMED.match(data, item.end()) is None:
            yield from _member(data, found.group(1) or b"", item.start(group), item.end(group))


def _member(data: bytes, names: bytes, start: int, end: int) -> Iterator[Span]:
    name = names[:-1] if names[-1:] in b"sS" else names
    what = says(name)
    value = data[start:end]
    if what is not Says.NOTHING and b" " not in value and secret(what, name, value):
        yield Span(start, end, kind_of(what, name))


def _in_columns(data: bytes) -> Iterator[Span]:
    """Cells of a table of HTML whose column has a title that says secret."""
    for titles in _TITLES.finditer(data):
        names = [(one.group(1) or b"").strip() for one in _TITLE.finditer(data, titles.start(1), titles.end(1))]
        if all(says(name) is Says.NOTHING for name in names):
            continue
        at = titles.end()
        for _ in range(_MOST_ROWS):
            row = _ROW.match(data, at)
            if row is None:
                break
            at = row.end()
            for name, cell in zip(names, _ROW_CELL.finditer(data, row.start(1), row.end(1)), strict=False):
                what = says(name)
                if what is not Says.NOTHING and secret(what, name, cell.group(1) or b""):
                    yield Span(cell.start(1), cell.end(1), kind_of(what, name))


def _below_titles(data: bytes, titles: list[bytes], start: int, end: int) -> Iterator[Span]:
    for line in data[start:end].splitlines(keepends=True):
        place = start + line.find(b"|") + 1
        for title, cell in zip(titles, line.strip().strip(b"|").split(b"|"), strict=False):
            name, value = title.strip(), cell.strip()
            what = says(name)
            if what is not Says.NOTHING and value and secret(what, name, value):
                at = place + cell.find(value)
                yield Span(at, at + len(value), kind_of(what, name))
            place += len(cell) + 1
        start += len(line)
