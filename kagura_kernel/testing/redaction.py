"""A redactor that finds nothing: every text comes through as it is, at once, and no rules are compiled."""

from __future__ import annotations

from kagura_kernel.kit.redaction.redactor import RedactedBytes, RedactedStream, Redactor
from kagura_kernel.kit.redaction.spans import Redacted


class BlindRedactor(Redactor):
    """For tests that are about something else than secrets."""

    def warm(self) -> None:
        """Nothing has to be prepared."""

    @property
    def ready(self) -> bool:
        """Always."""
        return True

    def wait(self) -> None:
        """Returns at once."""

    def stream(self) -> RedactedStream:
        """Each piece at once."""
        return _Open()

    def byte_filter(self) -> RedactedBytes:
        """Likewise."""
        return RedactedBytes(_Open(), self.wait)

    def _redact(self, text: str, name: str) -> Redacted:
        del name
        return Redacted(text)


class _Open(RedactedStream):
    def __init__(self) -> None:
        super().__init__(str, lambda: True)

    def feed(self, text: str) -> str:
        return text

    def finish(self) -> str:
        return ""
