"""A model's Markdown as HTML that can do nothing but be read.

No raw HTML, no images (fetching one would carry data out of the notebook through the reader's browser), links only to
the web and to mail, each marked so that the page it opens learns nothing.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kagura_kernel.domain.visible import visible
from kagura_kernel.render.escape import escaped

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markdown_it.utils import OptionsDict

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
    renderer: RendererHTML,
    tokens: Sequence[Token],
    index: int,
    options: OptionsDict,
    env: MutableMapping[str, Any],
) -> str:
    tokens[index].attrSet("rel", "noopener noreferrer nofollow")
    tokens[index].attrSet("target", "_blank")
    return renderer.renderToken(tokens, index, options, env)


def _image(
    _renderer: RendererHTML,
    tokens: Sequence[Token],
    index: int,
    _options: OptionsDict,
    _env: MutableMapping[str, Any],
) -> str:
    source = str(tokens[index].attrs.get("src", ""))
    return f'<span class="kg-image">[image: {escaped(tokens[index].content or source)}]</span>'
