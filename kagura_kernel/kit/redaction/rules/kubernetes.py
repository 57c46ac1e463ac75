"""Secrets of Kubernetes: every value below `data` and `stringData`, whatever its name."""

from __future__ import annotations

from collections.abc import Iterator

from kagura_kernel.kit.redaction.encodings import decoded
from kagura_kernel.kit.redaction.patterns import Lazy
from kagura_kernel.kit.redaction.plausible import password, placeholder, published
from kagura_kernel.kit.redaction.spans import Span

_SECRET = Lazy(r"[\"']?kind[\"']?\s*:\s*[\"']?Secret\b[\"']?", ignore_case=False)
_DOCUMENT = 64 * 1024
_SECTION = Lazy(r"(?:^|\n)([ \t]*)(data|stringData):[ \t]*\r?\n((?:[ \t]+[^\n]*(?:\n|$)|[ \t]*\n)+)", ignore_case=False)
_ENTRY = Lazy(
    r"(?:^|\n)[ \t]+[\"']?([\w.\-]+)[\"']?:[ \t]*(?:[|>][-+]?[ \t]*\n((?:[ \t]+[^\s:]+[ \t]*(?:\n|$))+)|\"([^\"\n]+)\"|'([^'\n]+)'|([^\s\"'#|>{\[][^\n#]*))"
)
_FLOW = Lazy(r"\"(data|stringData)\"\s*:\s*\{([^{}]*)\}", ignore_case=False)
_FLOW_ENTRY = Lazy(r"\"([\w.\-]+)\"\s*:\s*\"([^\"\n]+)\"")
_OPEN_NAMES = (
    b"crt",
    b"cert",
    b"namespace",
    b"username",
    b"user",
    b"host",
    b"port",
    b"database",
    b"url",
    b"name",
    b"region",
    b"ca.crt",
    b"tls.crt",
)


def find(data: bytes) -> Iterator[Span]:
    """Values of manifests whose kind is Secret."""
    if b"Secret" not in data:
        return
    done = 0
    for kind in _SECRET.finditer(data):
        if kind.start() < done:
            continue
        start = max(data.rfind(b"\n---", max(0, kind.start() - _DOCUMENT), kind.start()), 0, kind.start() - _DOCUMENT)
        stop = data.find(b"\n---", kind.end(), kind.end() + _DOCUMENT)
        end = stop if stop >= 0 else min(len(data), kind.end() + _DOCUMENT)
        done = end
        for section in _SECTION.finditer(data, start, end):
            encoded = section.group(2) == b"data"
            for entry in _ENTRY.finditer(data, section.start(3) - 1, section.end(3)):
                group = next(number for number in (2, 3, 4, 5) if entry.group(number) is not None)
                yield from _value(data, entry.group(1) or b"", entry.start(group), entry.end(group), encoded=encoded)
        for section in _FLOW.finditer(data, start, end):
            encoded = section.group(1) == b"data"
            for entry in _FLOW_ENTRY.finditer(data, section.start(2), section.end(2)):
                yield from _value(data, entry.group(1) or b"", entry.start(2), entry.end(2), encoded=encoded)


def _value(data: bytes, name: bytes, start: int, end: int, *, encoded: bool) -> Iterator[Span]:
    value = data[start:end]
    start += len(value) - len(value.lstrip())
    value = value.strip()
    plain = decoded(b"".join(value.split())) if encoded else value
    if (
        plain is None
        or published(value)
        or placeholder(value)
        or placeholder(plain)
        or name.lower().endswith(_OPEN_NAMES)
    ):
        return
    if not plain.isascii() or b"\n" in plain or password(plain, certain=True):
        yield Span(start, start + len(value), "kubernetes-secret")
