"""XML, HTML and property lists: elements and attributes that say secret; pairs of a name and a value."""

from __future__ import annotations

from collections.abc import Iterator

from kagura_kernel.kit.redaction.names import Says, says
from kagura_kernel.kit.redaction.patterns import Nearby
from kagura_kernel.kit.redaction.rules.assignments import kind_of, secret
from kagura_kernel.kit.redaction.spans import Span

_ELEMENT = Nearby(
    r"<([\w:.\-]*(?:pass|pwd|secret|token|key|auth|credential|psk|bearer|cookie)[\w:.\-]*)(?:\s[^<>]*)?>"
    r"\s*(?:<value>\s*)?(?:<!\[CDATA\[([^\]]+)\]\]>|(?:&quot;|&#34;)?([^<>\s][^<>]*?))\s*(?:&quot;|&#34;)?</"
)
_NAMED_ELEMENT = Nearby(
    r"<\w[\w:.\-]*\s(?:[^<>]*?\s)?(?:key|name|id|property)\s*=\s*[\"']([^\"'<>\n]+)[\"'][^<>]*>\s*(?:<value>\s*)?(?:<!\[CDATA\[([^\]]+)\]\]>|([^<>\s][^<>]*?))\s*</"
)
_ATTRIBUTES = Nearby(
    r"(?:key|name|property|id|variable|field|label|param)\s*=\s*[\"']([^\"'<>\n]+)[\"'](?:\s[^<>\n]*?)?\s(?:value|val|content|data)\s*=\s*[\"']([^\"'<>\n]+)[\"']"
)
_ATTRIBUTES_BACK = Nearby(
    r"\svalue\s*=\s*[\"']([^\"'<>\n]+)[\"'](?:\s[^<>\n]*?)?\s(?:key|name|property|id)\s*=\s*[\"']([^\"'<>\n]+)[\"']"
)
_LISTED = Nearby(
    r"<(?:key|name|param-name|Name|Key)>\s*([^<>\n]+?)\s*</[\w-]+>\s*<(?:string|value|param-value|Value|data)(?:\s[^<>\n]*)?>\s*([^<>\s][^<>]*?)\s*</"
)
_PAIR = Nearby(
    r"\\?[\"']?(?:name|key|id|variable|env|envvar|parameter|parameterkey|option_name|field|header)\\?[\"']?\s*[:=]\s*\\?[\"']?([\w.\-]+)\\?[\"']?\s*,?\s*(?:[\"']?(?:type|description|secure|secret|sensitive|scope|enabled|slotSetting|isSecret|protected|masked|environment_scope)[\"']?\s*[:=]\s*[^\n,]+,?\s*)?"
    r"\\?[\"']?(?:value|val|default|content|parametervalue|option_value|plaintext)\\?[\"']?\s*[:=]\s*(?:\\?\"((?:[^\"\\\n])+)\\?\"|'([^'\n]+)'|([^\s\"',{}\[\]&*|>][^\s\"',{}]*))"
)
_NESTED = Nearby(
    r"[\"']?([\w.\-]*(?:pass|pwd|secret|token|key|credential)[\w.\-]*)[\"']?\s*[:=]?\s*\{\s*(?:[\"']?(?:sensitive|type|description)[\"']?\s*[:=]\s*[^\n,{}]+,?\s*){0,3}[\"']?(?:value|default|plaintext|current|_value|\$value|text|password)[\"']?\s*[:=]\s*\"((?:[^\"\\\n])+)\""
)
"""Outputs of Terraform, variables of CI, secrets in nested mappings."""

_BLOCKS = frozenset({b"auth-user-pass"})
"""Elements of a file whose own rule knows what stands on which line."""


def find(data: bytes) -> Iterator[Span]:
    """Values of elements, attributes and pairs whose name says secret."""
    if b"<" in data:
        yield from _pairs(data, _ELEMENT, 1, (2, 3))
        yield from _pairs(data, _NAMED_ELEMENT, 1, (2, 3))
        yield from _pairs(data, _ATTRIBUTES, 1, (2,))
        yield from _pairs(data, _ATTRIBUTES_BACK, 2, (1,))
        yield from _pairs(data, _LISTED, 1, (2,))
    yield from _pairs(data, _PAIR, 1, (2, 3, 4))
    yield from _pairs(data, _NESTED, 1, (2,))


def _pairs(data: bytes, pattern: Nearby, name: int, values: tuple[int, ...]) -> Iterator[Span]:
    for found in pattern.finditer(data):
        called = found.group(name) or b""
        what = says(called)
        if what is Says.NOTHING or called in _BLOCKS:
            continue
        group = next((number for number in values if found.group(number) is not None), None)
        if group is not None and secret(what, called, (found.group(group) or b"").strip()):
            yield Span(found.start(group), found.end(group), kind_of(what, called))
