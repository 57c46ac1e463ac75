"""Secrets in tables, lists, markup and manifests, found by a title or a name."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

from kagura_kernel.kit.redaction.chance import drawn
from kagura_kernel.kit.redaction.files import decoded
from kagura_kernel.kit.redaction.names import Says, kind_of, says, secret
from kagura_kernel.kit.redaction.patterns import Lazy, Match, Nearby
from kagura_kernel.kit.redaction.spans import Span
from kagura_kernel.kit.redaction.values import classes, entropy, password, placeholder, published

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


def find_in_rows(data: bytes) -> Iterator[Span]:
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
        if titles.count(mark) < 1 or len(titles) >= 1000:
            continue
        cells = titles.split(mark)
        if _titles(cells) and not _like_a_row(
            cells, data[found.end() : found.end() + 1000].split(b"\n", 1)[0].split(mark)
        ):
            done = yield from _rows(data, cells, found.end(), mark)


_TITLE = re.compile(rb"[\"'`*]{0,2}[\w .()/\x80-\xff-]{1,40}[\"'`*]{0,2}")


_VERSION = re.compile(rb"\d+(?:\.\d+)+(?:[-+~]\S*)?")


def _titles(cells: list[bytes]) -> bool:
    """Whether these are the titles of columns, and not a line of code; the bars of Markdown stand outside too."""
    inner = cells[1:-1] if len(cells) > 2 and not cells[0].strip() and not cells[-1].strip() else cells
    return (
        len(inner) > 1
        and all(cell and _TITLE.fullmatch(cell.strip(b" \t\r") or b" ") for cell in inner)
        and not any(b"(" in cell for cell in inner[:1])
    )


def _like_a_row(titles: list[bytes], below: list[bytes]) -> bool:
    """Whether what may be titles has a version where the row below has one, as in a list of packages."""
    return any(
        _VERSION.fullmatch(one.strip()) and _VERSION.fullmatch(other.strip())
        for one, other in zip(titles, below, strict=False)
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
_MEMBER_CELL = Nearby(
    r"<(?:td|th|dt|b|strong|span|label|p|li|em|code|div)\b[^<>\n]*>\s*(?:<(?:b|strong|code|span|em)[^<>\n]*>\s*)?([^<>\n]{2,40}?)\s*:?\s*(?:</[a-z]+>\s*){1,2}:?\s*"
    r"(?:<(?:td|dd|code|tt|span|kbd|strong|b|pre|em|div|p)\b[^<>\n]*>\s*){1,3}([^<>\s]+)\s*</"
)

_MEMBER_TITLES = Nearby(r"<tr\b[^<>\n]*>\s*((?:<th\b[^<>\n]*>[^<>\n]*</th>\s*)+)</tr>")
_MEMBER_TITLE = Nearby(r"<th\b[^<>\n]*>([^<>\n]*)</th>")
_ROW = Nearby(
    r"\s*(?:</thead>\s*)?(?:<tbody\b[^<>\n]*>\s*)?<tr\b[^<>\n]*>\s*((?:<td\b[^<>\n]*>[^<>\n]*</td>\s*)+)</tr>"
)
_ROW_CELL = Nearby(r"<td\b[^<>\n]*>\s*([^<>\n]*?)\s*</td>")
_MEMBER_MOST_ROWS = 200


def find_members(data: bytes) -> Iterator[Span]:
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
        for found in _MEMBER_CELL.finditer(data):
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
    for titles in _MEMBER_TITLES.finditer(data):
        names = [(one.group(1) or b"").strip() for one in _MEMBER_TITLE.finditer(data, titles.start(1), titles.end(1))]
        if all(says(name) is Says.NOTHING for name in names):
            continue
        at = titles.end()
        for _ in range(_MEMBER_MOST_ROWS):
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


_ELEMENT = Nearby(
    r"<([\w:.\-]*(?:pass|pwd|secret|token|key|auth|credential|psk|bearer|cookie)[\w:.\-]*)(?:\s[^<>]*)?>"
    r"\s*(?:<value>\s*)?(?:<!\[CDATA\[([^\]]+)\]\]>|(?:&quot;|&#34;)?([^<>\s][^<>]*?))\s*(?:&quot;|&#34;)?</"
)
_NAMED_ELEMENT = Nearby(
    r"<\w[\w:.\-]*\s(?:[^<>]*?\s)?(?:key|name|id|property)\s*=\s*[\"']([^\"'<>\n]+)[\"'][^<>]*>\s*(?:<value>\s*)?(?:<!\[CDATA\[([^\]]+)\]\]>|([^<>\s][^<>]*?))\s*</"
)
_ATTRIBUTES = Nearby(
    r"(?:key|name|property|id|variable|field|label|param)\s*=\s*[\"']([^\"'<>\n]+)[\"'](?:\s[^<>\n]*?)?\s(?:value|val|content|data)\s*=\s*[\"']([^\"'<>\n]+)[\"']"
)
_ATTRIBUTES_BACK = Nearby(
    r"\svalue\s*=\s*[\"']([^\"'<>\n]+)[\"'](?:\s[^<>\n]*?)?\s(?:key|name|property|id)\s*=\s*[\"']([^\"'<>\n]+)[\"']"
)
_MARKUP_LISTED = Nearby(
    r"<(?:key|name|param-name|Name|Key)>\s*([^<>\n]+?)\s*</[\w-]+>\s*<(?:string|value|param-value|Value|data)(?:\s[^<>\n]*)?>\s*([^<>\s][^<>]*?)\s*</"
)
_PAIR = Nearby(
    r"\\?[\"']?(?:name|key|id|variable|env|envvar|parameter|parameterkey|option_name|field|header)\\?[\"']?\s*[:=]\s*\\?[\"']?([\w.\-]+)\\?[\"']?\s*,?\s*(?:[\"']?(?:type|description|secure|secret|sensitive|scope|enabled|slotSetting|isSecret|protected|masked|environment_scope)[\"']?\s*[:=]\s*[^\n,]+,?\s*)?"
    r"\\?[\"']?(?:value|val|default|content|parametervalue|option_value|plaintext)\\?[\"']?\s*[:=]\s*(?:\\?\"((?:[^\"\\\n])+)\\?\"|'([^'\n]+)'|([^\s\"',{}\[\]&*|>][^\s\"',{}]*))"
)
_NESTED = Nearby(
    r"[\"']?([\w.\-]*(?:pass|pwd|secret|token|key|credential)[\w.\-]*)[\"']?\s*[:=]?\s*\{\s*(?:[\"']?(?:sensitive|type|description)[\"']?\s*[:=]\s*[^\n,{}]+,?\s*){0,3}[\"']?(?:value|default|plaintext|current|_value|\$value|text|password)[\"']?\s*[:=]\s*\"((?:[^\"\\\n])+)\""
)
"""Outputs of Terraform, variables of CI, secrets in nested mappings."""

_BLOCKS = frozenset({b"auth-user-pass"})
"""Elements of a file whose own rule knows what stands on which line."""


def find_in_markup(data: bytes) -> Iterator[Span]:
    """Values of elements, attributes and pairs whose name says secret."""
    if b"<" in data:
        yield from _pairs(data, _ELEMENT, 1, (2, 3))
        yield from _pairs(data, _NAMED_ELEMENT, 1, (2, 3))
        yield from _pairs(data, _ATTRIBUTES, 1, (2,))
        yield from _pairs(data, _ATTRIBUTES_BACK, 2, (1,))
        yield from _pairs(data, _MARKUP_LISTED, 1, (2,))
    yield from _pairs(data, _PAIR, 1, (2, 3, 4))
    yield from _pairs(data, _NESTED, 1, (2,))


def _pairs(data: bytes, pattern: Nearby, name: int, values: tuple[int, ...]) -> Iterator[Span]:
    for found in pattern.finditer(data):
        called = found.group(name) or b""
        what = says(called)
        if what is Says.NOTHING or called in _BLOCKS:
            continue
        group = next((number for number in values if found.group(number) is not None), None)
        if group is not None and secret(what, called, (found.group(group) or b"").strip()):
            yield Span(found.start(group), found.end(group), kind_of(what, called))


_SECRET = Lazy(r"[\"']?kind[\"']?\s*:\s*[\"']?Secret\b[\"']?", ignore_case=False)
_DOCUMENT = 64 * 1024
_SECTION = Lazy(r"(?:^|\n)([ \t]*)(data|stringData):[ \t]*\r?\n((?:[ \t]+[^\n]*(?:\n|$)|[ \t]*\n)+)", ignore_case=False)
_ENTRY = Lazy(
    r"(?:^|\n)[ \t]+[\"']?([\w.\-]+)[\"']?:[ \t]*(?:[|>][-+]?[ \t]*\n((?:[ \t]+[^\s:]+[ \t]*(?:\n|$))+)|\"([^\"\n]+)\"|'([^'\n]+)'|([^\s\"'#|>{\[][^\n#]*))"
)
_FLOW = Lazy(r"\"(data|stringData)\"\s*:\s*\{([^{}]*)\}", ignore_case=False)
_FLOW_ENTRY = Lazy(r"\"([\w.\-]+)\"\s*:\s*\"([^\"\n]+)\"")
_OPEN_NAMES = tuple(b"crt cert namespace username user host port database url name region".split())


def find_in_manifests(data: bytes) -> Iterator[Span]:
    """Values of manifests whose kind is Secret."""
    if b"Secret" not in data:
        return
    done = 0
    for kind in _SECRET.finditer(data):
        if kind.start() < done:
            continue
        start = max(data.rfind(b"\n---", max(0, kind.start() - _DOCUMENT), kind.start()), 0, kind.start() - _DOCUMENT)
        stop = data.find(b"\n---", kind.end(), kind.end() + _DOCUMENT)
        end = stop if stop >= 0 else min(len(data), kind.end() + _DOCUMENT)
        done = end
        for section in _SECTION.finditer(data, start, end):
            encoded = section.group(2) == b"data"
            for entry in _ENTRY.finditer(data, section.start(3) - 1, section.end(3)):
                group = next(number for number in (2, 3, 4, 5) if entry.group(number) is not None)
                yield from _value(data, entry.group(1) or b"", entry.start(group), entry.end(group), encoded=encoded)
        for section in _FLOW.finditer(data, start, end):
            encoded = section.group(1) == b"data"
            for entry in _FLOW_ENTRY.finditer(data, section.start(2), section.end(2)):
                yield from _value(data, entry.group(1) or b"", entry.start(2), entry.end(2), encoded=encoded)


def _value(data: bytes, name: bytes, start: int, end: int, *, encoded: bool) -> Iterator[Span]:
    value = data[start:end]
    start += len(value) - len(value.lstrip())
    value = value.strip()
    plain = decoded(b"".join(value.split())) if encoded else value
    if (
        plain is None
        or published(value)
        or placeholder(value)
        or placeholder(plain)
        or name.lower().endswith(_OPEN_NAMES)
    ):
        return
    if not plain.isascii() or b"\n" in plain or password(plain, certain=True):
        yield Span(start, start + len(value), "kubernetes-secret")
