"""`%kagura kit redact FILE`: a file as a kit would hold it, with what was redacted as blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kagura_kernel.render.blocks import Group
from kagura_kernel.render.html import html_of
from kagura_kernel.render.style import framed
from kagura_kernel.views.kit_files import OpenedFile, file_blocks, file_text

if TYPE_CHECKING:
    from kagura_kernel.kit.redaction.findings import Finding, RedactedFile


class RedactedText:
    """The value of the command."""

    def __init__(self, name: str, file: RedactedFile) -> None:
        self._name = name
        self._is_text = bool(file.encoding)
        self.text = _decoded(file)  # Without its secrets; empty for what is no text
        self.findings: tuple[Finding, ...] = file.findings  # Where markers stand in it, never what was found
        self.reason = file.reason  # Why there is nothing to show, half a sentence; otherwise empty

    def __repr__(self) -> str:
        return f"{self._name}: {self.reason}" if self.reason else file_text(self._opened())

    def _repr_html_(self) -> str | None:
        """A card of its own; what cannot be shown is told in plain words."""
        if self.reason:
            return None
        return framed(html_of([Group(file_blocks(self._opened()), "body")]), "Redacted file")

    def _opened(self) -> OpenedFile:
        blocks = tuple((one.start, one.end, one.kind) for one in self.findings)
        size = len(self.text.encode("utf-8", "replace"))
        return OpenedFile(self._name, self.text, blocks, size, is_text=self._is_text)


def _decoded(file: RedactedFile) -> str:
    return file.data.decode(file.encoding, "replace") if file.data is not None and file.encoding else ""
