"""Keys of services whose whole form is their own, and the secret that stands beside an id of a known form."""

from __future__ import annotations

from collections.abc import Iterator

from kagura_kernel.kit.redaction.patterns import Nearby
from kagura_kernel.kit.redaction.plausible import chance, placeholder, published
from kagura_kernel.kit.redaction.spans import Span

_EDGE = r"(?:^|[^A-Za-z0-9_./+\-]|\\[nrt]|[=:])"
_WHOLE = Nearby(
    _EDGE
    + r"((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}|LTAI[A-Za-z0-9]{12,26}|FLWSECK(?:_TEST)?-[0-9a-f]{32}-X|AKCp[A-Za-z0-9]{60,80}|AQVN[A-Za-z0-9_\-]{34,40}|sb_secret_[\w\-]{20,60}|"
    r"EAA[A-Za-z0-9]{97,400}|CFPAT-[\w\-]{40,}|sl\.(?:u\.)?[A-Z][\w\-]{60,}|fm[12][ar]?_[A-Za-z0-9+/=]{40,}|lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}|"
    r"tvly-(?:[a-z]{3,4}-)?[A-Za-z0-9]{20,}|[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}|K00\d[A-Za-z0-9+/]{27})(?:[^A-Za-z0-9_+/=\-]|$)",
    ignore_case=False,
)
_BEARER = Nearby(_EDGE + r"(A{18,24}[A-Za-z0-9%]{60,160})(?:[^A-Za-z0-9%]|$)", ignore_case=False)
"""What an application shows to X; it begins with zeros in base64."""
_BESIDE = Nearby(
    r"(?:(?:AKIA|ASIA)[A-Z0-9]{16}[\"']?[ \t]*[\s,:;|/][\s\"']*([A-Za-z0-9/+]{40})|"
    r"AC[0-9a-f]{32}[\"']?[ \t]*[,:;][\s\"']*([0-9a-f]{32})|"
    r"rzp_(?:live|test)_[A-Za-z0-9]{14}[\"']?[ \t]*[,:;][\s\"']*([A-Za-z0-9]{20,28}))(?:[^A-Za-z0-9/+=]|$)",
    ignore_case=False,
)
"""The id, and the secret as the next member or argument."""
FORMS = (_WHOLE, _BEARER, _BESIDE)


def find(data: bytes) -> Iterator[Span]:
    """Keys and secrets of well-known services."""
    for found in _WHOLE.finditer(data):
        value = found.group(1) or b""
        if chance(value, 2.8) and not placeholder(value) and not published(value):
            yield Span(
                found.start(1), found.end(1), "aws" if value[1:4] in {b"KIA", b"SIA", b"BIA", b"CCA"} else "api-key"
            )
    for found in _BEARER.finditer(data):
        body = (found.group(1) or b"").lstrip(b"A")
        if b"%" in body and chance(body, 4.0) and not placeholder(body):
            yield Span(found.start(1), found.end(1), "api-key")
    for found in _BESIDE.finditer(data):
        group = next(number for number in (1, 2, 3) if found.start(number) >= 0)
        value = found.group(group) or b""
        if chance(value, 3.0) and not placeholder(value):
            yield Span(found.start(group), found.end(group), "secret")
