"""HTML from a box and Markdown from a model, made into something that can only be read.

Two passes. The first parses as a browser would and drops whatever is not on a short list. The second writes what is
left anew: text with every odd character visible, tables with so many cells, links that say where they lead. No class,
id or style of the box gets through, so nothing of it can pose as a part of a card or leave its frame.
"""

from __future__ import annotations

import html
import re
from collections.abc import MutableMapping, Sequence
from functools import cache, lru_cache
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kagura_kernel.domain.images import Image, NoImageError
from kagura_kernel.domain.visible import visible
from kagura_kernel.render.escape import escaped, one_line
from kagura_kernel.render.figures import counted
from kagura_kernel.render.images import decoded, image_of

if TYPE_CHECKING:
    import nh3
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markdown_it.utils import OptionsDict


HTML_CHARACTERS = 400_000
"""How much of one piece of HTML is read."""
HTML_TEXT = 100_000
"""How much of its text is shown."""
TABLE_ROWS = 200
TABLE_CELLS = 6_000
"""Of all tables in one piece."""
DEPTH = 32
ELEMENTS = 15_000
TABLES = 30
IMAGES = 12
PARSED_DEPTH = 400
"""Elements that may be open at once in what is parsed."""
PARSED_WITHOUT_ENDS = 2_000
"""The same where it cannot be told what is closed."""
MOST_REOPENED = 200_000
"""Elements that parsers may have to open again: at each tag those that stay open beyond the ends of others."""
MOST_AS_TEXT = 20
"""Elements with text of their own kind, in which ends are none; more of them may hide many."""

_TAGS = frozenset(
    "p br hr b strong i em u s del ins mark small sub sup code pre kbd samp var abbr q cite blockquote span div a img "  # noqa: SIM905
    "ul ol li dl dt dd h1 h2 h3 h4 h5 h6 table caption thead tbody tfoot tr th td".split()
)
_VOID = frozenset({"br", "hr", "img"})
# Their text is none: it would be code, or a title that nobody would see.
_WITHOUT_CONTENT = frozenset(
    "script style template noscript noembed noframes iframe object embed applet svg math title head select textarea "  # noqa: SIM905
    "audio video canvas".split()
)
_SPAN = 1000
_SOURCE = 4000
_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]{0,40})")
_TAG_IN_TAG = re.compile(r"<[A-Za-z/!?][^<>]*<")
_END_IN_QUOTES = re.compile(r"""=\s*(?:"[^"]*</|'[^']*</)""")
# What stands in these is text up to their own end.
_AS_TEXT = re.compile(
    r"<(?:textarea|title|style|script|xmp|iframe|noembed|noframes|noscript|plaintext)\b", re.IGNORECASE
)
_CLOSED_BY_THEMSELVES = frozenset(
    "br hr img p li dt dd td th tr thead tbody tfoot col colgroup option input meta link area base embed param "  # noqa: SIM905
    "source track wbr".split()
)
# What stays open where something around it ends, until its own end: parsers open it again behind that.
_REOPENED = frozenset("b big code em font i nobr s small strike strong tt u".split())  # noqa: SIM905
_ADDRESS = 90


# Whoever puts it on a card asks for what was left out, and whoever draws that card for the rest.
@lru_cache(maxsize=8)
def rich_html(text: str) -> tuple[str, str]:
    """HTML that is only looked at, and what had to be left out, in words; the second is empty when nothing had."""
    writer = _Writer()
    read = text[:HTML_CHARACTERS]
    if _is_too_deep(read):
        # Parsing it would take longer than anybody waits; its source is text as any other.
        return f'<pre class="kg-pre" tabindex="0">{escaped(read[:_SOURCE])}</pre>', "its form"
    writer.feed(_cleaner().clean(read))
    writer.close()
    written = writer.whole()
    if len(text) > HTML_CHARACTERS:
        writer.left_out.insert(0, f"its last {len(text) - HTML_CHARACTERS:,} characters")
    return written, ", ".join(writer.left_out)


def _is_too_deep(text: str) -> bool:
    """Whether so many elements may be open at once that parsers slow down: each is looked for in all that are open.

    Or are opened again so often that a few bytes become thousands of elements.

    An end counts where it closes what was opened last; any other may be one that browsers pass over. Where an end may
    stand inside a tag or a comment, none counts.
    """
    ends_count = not _may_hide_ends(text)
    most = PARSED_DEPTH if ends_count else PARSED_WITHOUT_ENDS
    still_open: list[str] = []
    kept_open = reopened = 0
    for found in _TAG.finditer(text):
        closing, tag = found[1], found[2].lower()
        reopened += kept_open
        if tag in _CLOSED_BY_THEMSELVES:
            continue
        if not closing:
            still_open.append(tag)
            kept_open += tag in _REOPENED
        elif ends_count and still_open and still_open[-1] == tag:
            kept_open -= still_open.pop() in _REOPENED
        if len(still_open) > most:
            return True
    return reopened > MOST_REOPENED


def _may_hide_ends(text: str) -> bool:
    """Whether something that looks like the end of an element may be none."""
    if _TAG_IN_TAG.search(text) or _END_IN_QUOTES.search(text) or "<![CDATA[" in text:
        return True
    if any("</" in comment.partition("-->")[0] for comment in text.split("<!--")[1:]):
        return True
    return len(_AS_TEXT.findall(text)) > MOST_AS_TEXT


def picture_html(image: Image, about: str) -> str:
    """An image as an element that reserves its room; `about` is what a screen reader says."""
    return (
        f'<img class="kg-picture" src="{image.address}" width="{image.width}" height="{image.height}" '
        f'alt="{escaped(about)}" decoding="async">'
    )


@cache
def _cleaner() -> nh3.Cleaner:
    import nh3

    return nh3.Cleaner(
        tags=set(_TAGS),
        clean_content_tags=set(_WITHOUT_CONTENT),
        attributes={
            "a": {"href"},
            "img": {"src", "alt"},
            "td": {"colspan", "rowspan"},
            "th": {"colspan", "rowspan"},
            "ol": {"start"},
        },
        url_schemes={"http", "https", "data"},
        url_relative="deny",
        link_rel=None,
    )


class _Writer(HTMLParser):
    """Writes the cleaned HTML anew, as much of it as a card bears."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.left_out: list[str] = []
        self._out: list[str] = []
        self._open: list[str] = []
        # Of each open element: what has to be written at its end; None where its beginning was not written.
        self._ends: list[str | None] = []
        self._unseen = 0
        self._tables = self._all_tables = self._elements = 0
        self._rows = self._cells = self._more_rows = 0
        self._characters = self._images = 0
        self._link: list[str] = []

    def whole(self) -> str:
        """All that was written; everything that is open is closed."""
        while self._open:
            self.handle_endtag(self._open[-1])
        if self._more_rows:
            self.left_out.append(counted(self._more_rows, "row"))
        if self._characters > HTML_TEXT or self._elements > ELEMENTS:
            self.left_out.append("the rest of it")
        return "".join(self._out)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._elements += 1
        if tag in _VOID:
            if not self._unseen and self._elements <= ELEMENTS:
                self._out.append(self._image(given) if tag == "img" else f"<{tag}>")
            return
        self._open.append(tag)
        if self._unseen or not self._room_for(tag):
            self._unseen += 1
            self._ends.append(None)
            return
        begin, end = ("", "") if len(self._open) > DEPTH else self._ends_of(tag, given)
        self._out.append(begin)
        self._ends.append(end)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self._open:
            return
        while True:
            closed, end = self._open.pop(), self._ends.pop()
            if end is None:
                self._unseen -= 1
            else:
                self._out.append(end)
            if closed == "table":
                self._tables -= 1
            if closed == tag:
                return

    def handle_data(self, data: str) -> None:
        if self._unseen or self._characters > HTML_TEXT:
            return
        self._characters += len(data)
        self._out.append(html.escape(visible(data[:HTML_TEXT])))

    def _room_for(self, tag: str) -> bool:
        """Whether there is room for one more of these."""
        if self._elements > ELEMENTS:
            return False
        if tag == "table":
            self._tables += 1
            self._all_tables += 1
            return self._all_tables <= TABLES
        if tag == "tr":
            self._rows += 1
            left_out = self._rows > TABLE_ROWS or self._cells >= TABLE_CELLS
            self._more_rows += left_out
            return not left_out
        self._cells += tag in {"td", "th"}
        return self._cells <= TABLE_CELLS

    def _ends_of(self, tag: str, given: dict[str, str]) -> tuple[str, str]:
        """What stands for an element's beginning and its end."""
        match tag:
            case "a":
                return self._link_ends(given.get("href", ""))
            case "table" if self._tables == 1:
                # Wide ones are moved sideways inside the frame, by keyboard too.
                return '<div class="kg-sideways" role="group" aria-label="Table" tabindex="0"><table>', "</table></div>"
            case "td" | "th":
                spans = "".join(
                    f' {name}="{min(int(value[:9]), _SPAN)}"'
                    for name in ("colspan", "rowspan")
                    if (value := given.get(name, "")).isascii() and value.isdigit()
                )
                return f"<{tag}{spans}>", f"</{tag}>"
            case "ol" if given.get("start", "").isascii() and given.get("start", "").isdigit():
                return f'<ol start="{int(given["start"][:9])}">', "</ol>"
            case _ if tag in {"h1", "h2", "h3", "h4", "h5", "h6"}:
                # No heading of the page: a screen reader that jumps between those must not land in a box's words.
                return '<p class="kg-heading">', "</p>"
            case _:
                return f"<{tag}>", f"</{tag}>"

    def _link_ends(self, href: str) -> tuple[str, str]:
        """A link that says where it leads, whatever its text says; anything but a web address is no link."""
        try:
            found = urlsplit(href)
        except ValueError:
            return "", ""
        if found.scheme not in {"http", "https"} or not found.hostname:
            return "", ""
        begin = f'<a href="{escaped(href)}" target="_blank" rel="noopener noreferrer nofollow">'
        return begin, f'</a> <span class="kg-leads">({escaped(one_line(href, _ADDRESS))})</span>'

    def _image(self, given: dict[str, str]) -> str:
        """An image that came with the HTML; one that would have to be fetched is only named."""
        name = one_line(given.get("alt", ""), 80)
        self._images += 1
        try:
            image = _carried(given.get("src", ""), number=self._images)
        except NoImageError as why:
            return f'<span class="kg-soft">[image{f" {escaped(name)}" if name else ""} not shown: {why}]</span>'
        return picture_html(image, name or "Image from the box")


def _carried(address: str, *, number: int) -> Image:
    """The image that an address holds itself; raises `NoImageError`. `number` counts images from 1."""
    kind, _, data = address.partition(",")
    if not (kind.startswith("data:image/") and kind.endswith(";base64")):
        raise NoImageError("it would have to be fetched")
    if number > IMAGES:
        raise NoImageError("there are too many of them")
    return image_of(decoded(data))


_SCHEMES = frozenset({"http", "https", "mailto"})


MARKDOWN_CHARACTERS = 16_000
"""How much of one passage is read as Markdown. Some texts take the parser far longer than others of their length."""


def markdown_html(text: str) -> str:
    """The text as HTML; every tag in it is one that Markdown itself stands for.

    What is longer than `MARKDOWN_CHARACTERS` ends as it was written, in one preformatted block.
    """
    read, rest = _apart(text)
    rendered: str = _renderer().render(visible(read))
    return f"{rendered}<pre>{escaped(rest)}</pre>" if rest else rendered


def _apart(text: str) -> tuple[str, str]:
    """What is read as Markdown, and the rest; apart at a line's end where there is one."""
    if len(text) <= MARKDOWN_CHARACTERS:
        return text, ""
    end = text.rfind("\n", MARKDOWN_CHARACTERS // 2, MARKDOWN_CHARACTERS) + 1 or MARKDOWN_CHARACTERS
    return text[:end], text[end:]


@cache
def _renderer() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False})
    parser.enable(["table", "strikethrough"])
    parser.validateLink = _is_web_link  # type: ignore[method-assign]  # the library's own way to replace it
    parser.add_render_rule("link_open", _link_open)
    parser.add_render_rule("image", _image)
    return parser


def _is_web_link(url: str) -> bool:
    try:
        return urlsplit(url.strip()).scheme.lower() in _SCHEMES
    except ValueError:
        return False


def _link_open(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]
) -> str:
    tokens[index].attrSet("rel", "noopener noreferrer nofollow")
    tokens[index].attrSet("target", "_blank")
    return renderer.renderToken(tokens, index, options, env)


def _image(
    _renderer: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, _env: MutableMapping[str, Any]
) -> str:
    source = str(tokens[index].attrs.get("src", ""))
    return f'<span class="kg-image">[image: {escaped(tokens[index].content or source)}]</span>'
