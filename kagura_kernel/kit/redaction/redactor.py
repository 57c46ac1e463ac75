"""What finds secrets in texts and files, and puts markers in their place."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from kagura_kernel.domain.commands import ByteFilter
from kagura_kernel.domain.kit import MARKER, marker
from kagura_kernel.kit.redaction import engine
from kagura_kernel.kit.redaction.encodings import encoding_of, is_plain, other_encodings, possible_encodings
from kagura_kernel.kit.redaction.findings import Finding, Redacted, RedactedFile
from kagura_kernel.kit.redaction.line_forms import PIECE
from kagura_kernel.kit.redaction.names import Says, says
from kagura_kernel.kit.redaction.rules.assignments import kind_of, secret
from kagura_kernel.kit.redaction.scanner import KnownFormats
from kagura_kernel.kit.redaction.sights import plainly_harmless
from kagura_kernel.kit.redaction.spans import Put, moved, put_markers
from kagura_kernel.kit.redaction.streams import RedactedBytes, RedactedStream
from kagura_kernel.kit.redaction.verdicts import remembered

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


_ODD = re.compile("[\udc80-\udcff]")
"""A byte that is no UTF-8, as `surrogateescape` decodes it."""
_LINES = re.compile("[^\n]*\n|[^\n]+")
_WIDEST = 4


def without_foreign_secrets(text: str, redact: Callable[[str], str]) -> str:
    """A text in which bytes of another encoding stand for what they are, without the secrets around them.

    Args:
        text: UTF-8 decoded with `surrogateescape`, looked through as such.
        redact: Redacts one text.
    """
    if "\x00" in text:
        return _text(_wide(_bytes(text), redact))
    if text.isascii():
        return _text(_foreign_redacted(_bytes(text), redact)) if "\x1b$" in text else text
    if _ODD.search(text) is None:
        return text
    return "".join(
        _text(_foreign_redacted(_bytes(lines), redact)) if _ODD.search(lines) is not None else lines
        for lines in _groups(text)
    )


def _groups(text: str) -> Iterator[str]:
    """The text cut between lines of UTF-8 and lines of something else; those of ASCII go with what they follow."""
    group: list[str] = []
    odd: bool | None = None
    for line in _LINES.findall(text):
        kind = None if line.isascii() else _ODD.search(line) is not None
        if kind is not None and odd is not None and kind != odd:
            yield "".join(group)
            group = []
        odd = odd if kind is None else kind
        group.append(line)
    yield "".join(group)


def _foreign_redacted(data: bytes, redact: Callable[[str], str]) -> bytes:
    for encoding in possible_encodings(data):
        text = data.decode(encoding)
        clean = redact(text)
        if clean != text:
            data = clean.encode(encoding)
    return data


def _wide(data: bytes, redact: Callable[[str], str]) -> bytes:
    """The same for two or four bytes to a letter; a line's end may have cut the first or the last one."""
    for skipped in range(_WIDEST):
        whole = len(data) - (len(data) - skipped) % _WIDEST
        for end in {whole, len(data) - (len(data) - skipped) % 2}:
            clean = _foreign_redacted(data[skipped:end], redact)
            if clean != data[skipped:end]:
                return data[:skipped] + clean + data[end:]
    return data


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


_MEDIA: tuple[tuple[int, bytes], ...] = (
    (0, b"\x89PNG\r\n\x1a\n"),
    (0, b"\xff\xd8\xff"),
    (0, b"GIF87a"),
    (0, b"GIF89a"),
    (0, b"BM"),
    (0, b"II*\x00"),
    (0, b"MM\x00*"),
    (0, b"\x00\x00\x01\x00"),
    (0, b"\x00\x00\x02\x00"),
    (0, b"wOFF"),
    (0, b"wOF2"),
    (0, b"OTTO"),
    (0, b"\x00\x01\x00\x00\x00"),
    (0, b"true\x00"),
    (0, b"ttcf"),
    (0, b"%PDF-"),
    (0, b"OggS"),
    (0, b"fLaC"),
    (0, b"ID3"),
    (0, b"\xff\xfb"),
    (0, b"\xff\xf3"),
    (0, b"\xff\xf2"),
    (0, b"\x1aE\xdf\xa3"),
    (4, b"ftyp"),
    (0, b"FLV\x01"),
    (0, b"8BPS"),
    (0, b"MThd"),
    (0, b"\x00\x00\x00\x0cJXL "),
    (0, b"\xff\x0a"),
    (0, b"\x00\x00\x00\x0cjP  "),
    (0, b"#!AMR"),
    (0, b"icns"),
)
_RIFF = frozenset({b"WEBP", b"WAVE", b"AVI "})
_CONTAINERS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"PK\x03\x04", "a zip archive"), (0, b"PK\x05\x06", "a zip archive"), (0, b"PK\x07\x08", "a zip archive"), (0, b"\x1f\x8b", "compressed with gzip"),
    (0, b"BZh", "compressed with bzip2"), (0, b"\xfd7zXZ\x00", "compressed with xz"), (0, b"\x28\xb5\x2f\xfd", "compressed with zstd"), (0, b"\x04\x22\x4d\x18", "compressed with lz4"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"), (0, b"Rar!\x1a\x07", "a rar archive"), (257, b"ustar", "a tar archive"), (0, b"!<arch>\n", "an archive of objects"),
    (0, b"SQLite format 3\x00", "a database"), (0, b"\x7fELF", "a program"), (0, b"MZ", "a program"), (0, b"\xcf\xfa\xed\xfe", "a program"), (0, b"\xca\xfe\xba\xbe", "a program"),
    (0, b"PAR1", "a table in Parquet"), (0, b"ARROW1", "a table in Arrow"), (0, b"\x89HDF\r\n", "a table in HDF5"), (0, b"\x93NUMPY", "an array of NumPy"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an office document"), (0, b"\x00asm", "a program"), (0, b"\xfe\xed\xfe\xed", "a key store"), (0, b"\x80\x04\x95", "a pickle"),
)  # fmt: skip


def is_media(data: bytes) -> bool:
    """Whether this is a picture, a font, a PDF, a sound or a film."""
    if data[:4] == b"RIFF":
        return data[8:12] in _RIFF
    if data[:2] == b"BM":
        return len(data) > 26 and int.from_bytes(data[2:6], "little") == len(data)
    return any(data.startswith(magic, at) for at, magic in _MEDIA)


def container(data: bytes) -> str:
    """What kind of archive, database or program this is, as the end of "it is …"; empty for anything else."""
    for at, magic, name in _CONTAINERS:
        if data.startswith(magic, at) and (magic != b"MZ" or b"\x00" in data[:64]):
            return name
    return ""


_SECRET_STORES = (".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".bks", ".jceks")
_LEGIBLE = re.compile(rb"[\t\n\r -~]{8,}")
_SEPARATOR = b"\n\x00\n"


def redacted_file(data: bytes, name: str, redact: Callable[[str], Redacted]) -> RedactedFile:
    """A file without its secrets, or why it must be left out.

    Raises:
        RedactionUnavailable: Secrets cannot be looked for.
    """
    if name.lower().endswith(_SECRET_STORES):
        return RedactedFile(None, reason="it is a key store")
    if what := container(data):
        return RedactedFile(None, reason=f"it is {what}, which is not looked into")
    # A note that begins with the letters of a sound or a page is a note.
    if is_media(data) and not is_plain(data):
        if redact(_SEPARATOR.join(_LEGIBLE.findall(data)).decode("ascii")).findings:
            return RedactedFile(None, reason="a secret stands legibly in it, and it is no text that could be changed")
        return RedactedFile(data)
    encoding = encoding_of(data)
    if encoding is None:
        return RedactedFile(None, reason="it is neither text nor a known kind of media")
    clean, findings = _redacted(data, encoding, encoding, redact)
    for other in other_encodings(data, encoding):
        clean, more = _redacted(clean, other, encoding, redact, findings)
        findings = more
    return RedactedFile(clean, findings, encoding)


def _redacted(
    data: bytes, encoding: str, counted: str, redact: Callable[[str], Redacted], before: tuple[Finding, ...] = ()
) -> tuple[bytes, tuple[Finding, ...]]:
    """The bytes without what is found in them read in one encoding; places are counted as in another."""
    redacted = redact(data.decode(encoding))
    if not redacted.findings:
        return data, before
    clean = redacted.text.encode(encoding)
    if encoding == counted:
        return clean, redacted.findings
    # The kinds are known of all markers; their places are those in the text as it is counted.
    text = clean.decode(counted)
    kinds = Counter(finding.kind for finding in (*before, *redacted.findings))
    found = []
    for marked in MARKER.finditer(text):
        if kinds[marked["kind"]]:
            kinds[marked["kind"]] -= 1
            line = text.count("\n", 0, marked.start()) + 1
            found.append(Finding(marked["kind"], line, marked.start(), marked.end()))
    return clean, tuple(found)


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
