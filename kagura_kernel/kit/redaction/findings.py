"""What comes of redacting: the text without its secrets, and where markers stand in it. Never a secret itself."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Finding:
    """One secret that was replaced.

    Attributes:
        kind: Of what kind, as in its marker: `github`, `uri-password`, `private-key`, …
        line: Of its marker in the redacted text, from 1.
        start: Where its marker begins in the redacted text, in characters from 0.
        end: Where it ends, likewise.
    """

    kind: str
    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets.

    Attributes:
        text: As it was, with a marker for each secret.
        findings: In the order of the text; markers that stood there before are not among them.
    """

    text: str = field(repr=False)
    findings: tuple[Finding, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of what kinds its findings are, sorted, each once."""
        return tuple(sorted({finding.kind for finding in self.findings}))


@dataclass(frozen=True, slots=True)
class RedactedFile:
    """A file without its secrets, or why there is none.

    Attributes:
        data: Its bytes, in the encoding it had; None when it must not be shown at all.
        findings: As in `Redacted`, positions in the decoded text; empty for media.
        encoding: Python's name of it, with a byte order mark said by the name (`utf-8-sig`); empty for media.
        reason: Why `data` is None, half a sentence; otherwise empty.
    """

    data: bytes | None = field(repr=False)
    findings: tuple[Finding, ...] = ()
    encoding: str = ""
    reason: str = ""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of what kinds its findings are, sorted, each once."""
        return tuple(sorted({finding.kind for finding in self.findings}))
