"""Files: decoded, redacted, and written back in the encoding they had."""

from __future__ import annotations

import re
from collections.abc import Callable

from kagura_kernel.kit.redaction.encodings import encoding_of, is_plain
from kagura_kernel.kit.redaction.findings import Redacted, RedactedFile
from kagura_kernel.kit.redaction.media import container, is_media

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
    redacted = redact(data.decode(encoding))
    if not redacted.findings:
        return RedactedFile(data, (), encoding)
    return RedactedFile(redacted.text.encode(encoding), redacted.findings, encoding)
