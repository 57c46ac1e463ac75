"""Text from models, boxes and files, made safe to look at.

Everything that such text could use to pose as something else is turned into something visible: control characters,
bidirectional overrides, invisible characters, lone surrogates. Only then is it escaped for HTML.
"""

from __future__ import annotations

import html
import re

from kagura_kernel.domain.visible import printed, visible

_CODE = re.compile(r"`([^`\n]+)`")
_HIGH, _NARROW = 12, 40


def shown_path(path: str) -> str:
    """A path on one line that cannot pose as another, or as more than one: what nobody would see is written out.

    So is the bracket that writes it out, where it stands in a name.
    """
    path = path.replace("⟨", "⟨U+27E8⟩")
    inner = path.strip()
    edges = path.replace(" ", "⟨blank⟩") if path != inner else path
    return visible(edges.replace("\n", "⟨U+000A⟩").replace("\t", "⟨U+0009⟩"))


def escaped(text: str) -> str:
    """For HTML, as content and as quoted attribute, with odd characters visible."""
    return html.escape(visible(text), quote=True)


def escaped_prose(text: str) -> str:
    """Our own messages, for HTML: as `escaped`, with `code` between backticks set as code."""
    return _CODE.sub(r"<code>\1</code>", escaped(text))


def escaped_output(text: str) -> str:
    """Output of a program, for HTML."""
    return html.escape(printed(text), quote=True)


def one_line(text: str, limit: int = 120) -> str:
    """The text on one line, at most `limit` characters, odd characters visible; not yet escaped."""
    line = " ".join(visible(text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def reachable(text: str) -> str:
    """An attribute with which the keyboard reaches, and scrolls, a block of text that may be too high for its place."""
    high = text.count("\n") > _HIGH or len(text) > _HIGH * _NARROW
    return ' tabindex="0"' if high else ""
