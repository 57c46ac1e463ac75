"""Files: decoded, redacted, and written back in the encoding they had."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from kagura_kernel.domain.kit import MARKER
from kagura_kernel.kit.redaction.encodings import encoding_of, is_plain, other_encodings
from kagura_kernel.kit.redaction.findings import Finding, Redacted, RedactedFile
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
