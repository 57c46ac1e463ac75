"""Base64, read where it may be text."""

from __future__ import annotations

import base64
import binascii

_URL = bytes.maketrans(b"-_", b"+/")
_MOST = 16 * 1024
"""Bytes of base64 that are looked into: a secret is short."""


def decoded(value: bytes) -> bytes | None:
    """What this base64 of either alphabet means, with or without padding; None when it is none."""
    if not 4 <= len(value) <= _MOST:
        return None
    plain = value.rstrip(b"=").translate(_URL)
    if len(plain) % 4 == 1:
        return None
    try:
        return base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def decoded_text(value: bytes) -> bytes | None:
    """Likewise, when it means text; judged by its beginning first, so that pictures cost little."""
    head = decoded(value[:16])
    if head is None or not _text(head):
        return None
    whole = decoded(value)
    return whole if whole is not None and _text(whole) else None


def _text(data: bytes) -> bool:
    return all(32 <= byte < 127 or byte in (9, 10, 13) for byte in data)
