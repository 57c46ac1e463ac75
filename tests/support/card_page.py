"""What a browser makes of a card: for tests of HTML, without a browser."""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser

from kagura_kernel.jupyter import live_run
from kagura_kernel.render.blocks import Blocks
from kagura_kernel.render.html import html_of
from kagura_kernel.views import audit_card
from kagura_kernel.views.audit import AuditView
from kagura_kernel.views.run import RunView

_VOID = frozenset({"br", "hr", "img", "input", "meta", "link"})


class Page(HTMLParser):
    """A card taken apart; an end tag that fits no open element is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []  # Names of its elements, in order
        self.attributes: list[tuple[str, str]] = []  # Names and values of all attributes
        self.text = ""  # What can be read on it
        self.open: list[str] = []  # Elements that were never closed
        self.buttons: list[dict[str, str | None]] = []  # Attributes of each button
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag == "button":
            self.buttons.append(dict(attrs))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """An element ends.

        Raises:
            AssertionError: it is not the one that was opened last.
        """
        if not self.open or self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        """Text; a style sheet is none."""
        if "style" not in self.open:
            self.text += data


def live_parts(view: RunView) -> dict[str, str]:
    """The parts of a run's live card that changed since the last time, as HTML."""
    return _as_html(live_run.live_parts(view))


def audit_parts(view: AuditView, *, left: float) -> dict[str, str]:
    """The same of a plugin's card."""
    return _as_html(audit_card.audit_parts(view, left=left))


def _as_html(parts: Mapping[str, Blocks]) -> dict[str, str]:
    return {key: html_of(blocks) for key, blocks in parts.items()}
