"""YAML and TOML stay what they are: a marker that stands for a whole plain value gets quotes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from kagura_kernel.kit.redaction.patterns import Lazy
from kagura_kernel.kit.redaction.spans import Span
from kagura_kernel.kit.redaction.yaml_forms import LINE_ENDS, broken_yaml, end_before, fitted_to_yaml

_YAML = Lazy(
    r"(?:\xef\xbb\xbf)?[ \t]*(?:-[ \t]+|\?[ \t]+)*(?:(?:[^\s\"'#:{}\[\],&*!|>%@`-][^\"'#{}\[\],]*|\"[^\"]*\"|'[^']*'):[ \t]+|-[ \t]+)(?:[&!]\S+[ \t]+)*"
)
_IN_FLOW = Lazy(r"(?:^|[:\-,{\[][ \t]*)[{\[]")
_TOML = Lazy(r"[ \t]*[\w.\"'\-]+[ \t]*=[ \t]*")
_COMMENT = re.compile(rb"\s#")
_FLOW_END = re.compile(rb"[,}\]]")


PIECE = "piece"
"""The name of what is only a part of something, whose language is not guessed at."""


def fitted_to_lines(data: bytes, spans: Sequence[Span], name: str) -> list[Span]:
    """The same secrets, with quotes where a bare marker would be a list: told by the file's name.

    A text without a name is left alone, unless it is YAML and would not be any more.
    """
    spans = [_before_escape(data, _before_line_end(data, _within_literal(data, span))) for span in spans]
    suffix = name.lower().rpartition(".")[2]
    if suffix == "toml":
        return [_fitted(data, span, toml=True) for span in spans]
    if not spans or (suffix not in {"yaml", "yml"} and (name or not broken_yaml(data, spans))):
        return spans
    fitted = fitted_to_yaml(data, spans)
    # Templates and broken files are no YAML yet; their lines mostly are.
    return fitted if fitted is not None else [_fitted(data, span, toml=False) for span in spans]


def _within_literal(data: bytes, span: Span) -> Span:
    """Without the end of the literal that it begins in, and what follows there: `note('密码是…')`."""
    value = data[span.start : span.end]
    if b"\n" in value or not _QUOTE.search(value):
        return span
    before = data[max(data.rfind(b"\n", 0, span.start) + 1, span.start - _REACH) : span.start]
    open_ones = _OPENER.findall(_CLOSED.sub(b"", before))
    for found in _LITERAL_END.finditer(value, 1):
        if found[0] in open_ones:
            return replace(span, end=span.start + found.start())
    return span


_QUOTE = re.compile(rb"[\"'`]")
_LITERAL_END = re.compile(rb"(?<!\\)[\"'`](?=[)\]},;:\s]|\Z)")
_OPENS = rb"(?<![0-9A-Za-z])[bBrRuUfFN]{0,2}"
"""Behind a letter a quote is an apostrophe, unless the letter says of what kind the literal is."""
_CLOSED = re.compile(_OPENS + rb"(?:\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|`[^`]*+`)")
_OPENER = re.compile(_OPENS + rb"([\"'`])")
_REACH = 500


def _before_line_end(data: bytes, span: Span) -> Span:
    """Without the ends of lines behind the secret that only Unicode, and so YAML, takes for such."""
    return replace(span, end=end_before(data, span.start, span.end, LINE_ENDS))


def _before_escape(data: bytes, span: Span) -> Span:
    """Without the sign that keeps a quote from ending the text around the secret."""
    if data[span.end : span.end + 1] not in {b'"', b"'"}:
        return span
    value = data[span.start : span.end]
    # Two of them are a backslash of the secret.
    odd = (len(value) - len(value.rstrip(b"\\"))) % 2
    return replace(span, end=span.end - odd)


def _fitted(data: bytes, span: Span, *, toml: bool) -> Span:
    if span.quotes or b"\n" in data[span.start : span.end]:
        return span
    begin = data.rfind(b"\n", 0, span.start) + 1
    end = data.find(b"\n", span.end)
    end = len(data) if end < 0 else end
    before, rest = data[begin : span.start], data[span.end : end]
    if toml:
        return replace(span, quotes='"') if _TOML.fullmatch(before) and not rest.startswith((b'"', b"'")) else span
    if _YAML.fullmatch(before) is not None:
        comment = _COMMENT.search(rest)
        rest = rest[: comment.start()] if comment is not None else rest
    elif _IN_FLOW.search(before) is not None and before.count(b'"') % 2 == 0 and before.count(b"'") % 2 == 0:
        closed = _FLOW_END.search(rest)
        rest = rest[: closed.start()] if closed is not None else rest
        opened = max(before.rfind(mark) + len(mark) for mark in (b"{", b"[", b",", b": "))
        start = begin + opened + len(before[opened:]) - len(before[opened:].lstrip())
        return replace(span, start=start, end=span.end + len(rest.rstrip()), quotes='"')
    else:
        return span
    # What goes on behind the secret is of the same plain value: a quoted text cannot be followed by anything.
    return replace(span, end=span.end + len(rest.rstrip()), quotes='"')
