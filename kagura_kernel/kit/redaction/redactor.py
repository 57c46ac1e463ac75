"""What finds secrets in texts and files, and puts markers in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from kagura_kernel.domain.commands import ByteFilter
from kagura_kernel.domain.kit import MARKER, marker
from kagura_kernel.kit.redaction import engine
from kagura_kernel.kit.redaction.chance import remembered
from kagura_kernel.kit.redaction.files import redacted_file, without_foreign_secrets
from kagura_kernel.kit.redaction.findings import Finding, Redacted, RedactedFile
from kagura_kernel.kit.redaction.formats import PIECE
from kagura_kernel.kit.redaction.names import Says, kind_of, says, secret
from kagura_kernel.kit.redaction.places import Put, moved, put_markers
from kagura_kernel.kit.redaction.scanner import KnownFormats
from kagura_kernel.kit.redaction.streams import RedactedBytes, RedactedStream
from kagura_kernel.kit.redaction.visible import plainly_harmless

_DEEPEST = 200


def redacted_fields(value: Any, redact: Callable[[str], str], depth: int = 0) -> Any:
    """The same value without secrets in its texts, keys too; the very same object when there was none.

    Raises:
        RecursionError: It is nested deeper than 200.
    """
    if depth > _DEEPEST:
        raise RecursionError(f"values nested deeper than {_DEEPEST} are not looked through")
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return _same(value, redact(value))
    if isinstance(value, Mapping):
        return _mapping(value, redact, depth)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        new = [redacted_fields(item, redact, depth + 1) for item in value]
        if all(after is before for after, before in zip(new, value, strict=True)):
            return value
        return new if isinstance(value, list) else tuple(new)
    return value


def _mapping(value: Mapping[Any, Any], redact: Callable[[str], str], depth: int) -> Any:
    new: dict[Any, Any] = {}
    changed = False
    for key, item in value.items():
        clean = redacted_fields(key, redact, depth + 1) if isinstance(key, str) else key
        after = _behind(key, item) if isinstance(key, str) and isinstance(item, str) else item
        if after is item:
            after = redacted_fields(item, redact, depth + 1)
        changed = changed or after is not item or clean is not key
        new[clean] = after
    return new if changed else value


def _behind(key: str, item: str) -> str:
    """A text behind a key that says secret is one with fewer doubts."""
    name, text = key.encode("utf-8", "replace"), item.encode("utf-8", "replace")
    what = says(name)
    if what is Says.NOTHING or MARKER.search(item) or "\n" in item or not secret(what, name, text):
        return item
    return marker(kind_of(what, name))


def _same(before: str, after: str) -> str:
    return before if after == before else after


__all__ = ["Finding", "Redacted", "RedactedFile", "RedactedStream", "Redactor"]

_PASSES = 3
"""How often a text is looked through at most; the second time there is mostly nothing left."""


class Redactor:
    """Replaces secrets by `[REDACTED:<kind>]`. Safe to share between threads.

    Args:
        cache_dir: Where compiled rules are kept for the next process, made as 0700; None keeps none.
    """

    def __init__(self, cache_dir: Path | None = None) -> None:
        self._formats = KnownFormats(cache_dir)

    def warm(self) -> None:
        """Begin to compile the rules in a thread; returns at once, and again does nothing."""
        self._formats.warm()

    @property
    def ready(self) -> bool:
        """Whether the rules are compiled, so that nothing waits."""
        return self._formats.ready

    def wait(self) -> None:
        """Return when the rules are compiled; begins to compile them if nobody has.

        Raises:
            RedactionUnavailable: Secrets cannot be looked for, so nothing may be shown.
        """
        self._formats.scan(b"")

    def redact(self, text: str) -> Redacted:
        """The text without its secrets; waits for the rules if it could hold one.

        Raises:
            RedactionUnavailable: Secrets cannot be looked for, so nothing may be shown.
        """
        return self._redact(text, "")

    def _redact(self, text: str, name: str) -> Redacted:
        data = text.encode("utf-8", "surrogatepass")
        if plainly_harmless(data):
            return Redacted(text)
        with remembered():
            clean, puts = self._clean(data, name)
        if not puts:
            return Redacted(text)
        return Redacted(clean.decode("utf-8", "surrogatepass"), _findings(clean, puts))

    def redact_file(self, data: bytes, name: str) -> RedactedFile:
        """A file without its secrets, in the encoding it has.

        Args:
            data: All of it.
            name: What it is called; the suffix and well-known names say what it is.

        Raises:
            RedactionUnavailable: Secrets cannot be looked for, so nothing may be shown.
        """
        return redacted_file(data, name, lambda text: self._redact(text, name))

    def stream(self) -> RedactedStream:
        """For one text that comes in pieces."""
        return RedactedStream(self._piece, lambda: self.ready)

    def _piece(self, text: str) -> str:
        return self._redact(text, PIECE).text

    def byte_filter(self) -> ByteFilter:
        """For one stream of bytes, such as what a command prints."""
        return RedactedBytes(
            RedactedStream(lambda text: without_foreign_secrets(self._piece(text), self._piece), lambda: self.ready)
        )

    def fields(self, value: Any) -> Any:
        """The same value without secrets in its texts, keys too; the very same object when there was none.

        Mappings become dicts, lists lists and tuples tuples; numbers, bytes, None and enumeration members stay.
        A text behind a key that says secret is judged with that key.

        Raises:
            RedactionUnavailable: Secrets cannot be looked for, so nothing may be shown.
        """
        return redacted_fields(value, lambda text: self.redact(text).text)

    def _clean(self, data: bytes, name: str) -> tuple[bytes, list[Put]]:
        """Until nothing is found any more: what stood beside a secret may look like another once it is gone."""
        puts: list[Put] = []
        new: list[Put] = []
        for _ in range(_PASSES):
            near = [(put.start, put.end) for put in new]
            spans = engine.find(data, self._formats.scan, name, near)
            if not spans:
                break
            data, new = put_markers(data, spans)
            puts = sorted([*moved(puts, spans, new), *new], key=lambda put: put.start)
        return data, puts


def _findings(data: bytes, puts: list[Put]) -> tuple[Finding, ...]:
    """Places in bytes as lines and characters; one walk through the text."""
    findings = []
    at = characters = 0
    line = 1
    for put in puts:
        between = data[at : put.start]
        line += between.count(b"\n")
        characters += len(between.decode("utf-8", "surrogatepass"))
        findings.append(Finding(put.kind, line, characters, characters + put.end - put.start))
        at = put.start
    return tuple(findings)


FOLDER = "redaction"
"""Where compiled rules are kept in a data directory."""


@cache
def redactor_in(home: Path) -> Redactor:
    """The redactor that keeps its compiled rules below this data directory; cheap until it is used."""
    return Redactor(home / FOLDER)
