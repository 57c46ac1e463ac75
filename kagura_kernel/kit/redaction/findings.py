"""What comes of redacting: the text without its secrets, and where markers stand in it. Never a secret itself."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Finding:
    """One secret that was replaced."""

    kind: str  # of what kind, as in its marker: `github`, `uri-password`, `private-key`, …
    line: int  # of its marker in the redacted text, from 1
    start: int  # where its marker begins in the redacted text, in characters from 0
    end: int  # where it ends, likewise


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets."""

    text: str = field(repr=False)  # as it was, with a marker for each secret
    findings: tuple[Finding, ...] = ()  # in the order of the text; markers that stood there before are not among them

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of what kinds its findings are, sorted, each once."""
        return tuple(sorted({finding.kind for finding in self.findings}))


@dataclass(frozen=True, slots=True)
class RedactedFile:
    """A file without its secrets, or why there is none."""

    data: bytes | None = field(repr=False)  # its bytes, in the encoding it had; None when it must not be shown at all
    findings: tuple[Finding, ...] = ()  # as in `Redacted`, positions in the decoded text; empty for media
    encoding: str = ""  # Python's name of it, with a byte order mark said by the name (`utf-8-sig`); empty for media
    reason: str = ""  # why `data` is None, half a sentence; otherwise empty

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of what kinds its findings are, sorted, each once."""
        return tuple(sorted({finding.kind for finding in self.findings}))
