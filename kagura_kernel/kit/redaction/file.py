"""Files: decoded, redacted, and written back in the encoding they had."""

from __future__ import annotations

from collections.abc import Callable

from kagura_kernel.kit.redaction.encodings import encoding_of
from kagura_kernel.kit.redaction.findings import Redacted, RedactedFile
from kagura_kernel.kit.redaction.media import container, is_media

_SECRET_STORES = (".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".bks", ".jceks")


def redacted_file(data: bytes, name: str, redact: Callable[[str], Redacted]) -> RedactedFile:
    """A file without its secrets, or why it must be left out.

    Raises:
        RedactionUnavailable: Secrets cannot be looked for.
    """
    if name.lower().endswith(_SECRET_STORES):
        return RedactedFile(None, reason="it is a key store")
    if what := container(data):
        return RedactedFile(None, reason=f"it is {what}, which is not looked into")
    if is_media(data):
        return RedactedFile(data)
    encoding = encoding_of(data)
    if encoding is None:
        return RedactedFile(None, reason="it is neither text nor a known kind of media")
    redacted = redact(data.decode(encoding))
    if not redacted.findings:
        return RedactedFile(data, (), encoding)
    return RedactedFile(redacted.text.encode(encoding), redacted.findings, encoding)
