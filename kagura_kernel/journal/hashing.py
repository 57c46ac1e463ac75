"""The hash chain: what exactly is hashed, so that anybody can check an export of the journal.

Row *n* has `hash = SHA-256(netstring(seq) + netstring(at) + netstring(kind) + netstring(run_id) +
netstring(session_id) + netstring(body) + netstring(prev_hash))`, in lower-case hexadecimal, where

* `netstring(x)` is the length of x in bytes as decimal digits, a colon, the bytes, a comma;
* every field is the UTF-8 text exactly as the column `journal_events.<name>` holds it; `seq` is in decimal digits;
* `prev_hash` is the hash of row *n - 1*; the first row has 64 zeros.

`journal_head` holds the number of rows and the hash of the last one, so a cut-off tail is found too. The chain holds
no secret: it finds accidents and edits, while somebody who rewrites every row and the head is only found by a
`last_hash` that was noted elsewhere.
"""

from __future__ import annotations

import hashlib

FIRST = "0" * 64
"""What the first row has in place of a hash before it."""


def row_hash(seq: int, at: str, kind: str, run_id: str, session_id: str, body: str, prev_hash: str) -> str:
    """The hash of one row, from its columns as they are stored."""
    digest = hashlib.sha256()
    for field in (str(seq), at, kind, run_id, session_id, body, prev_hash):
        # Bytes that are no text must change the hash, not stop the check: they come in as surrogates.
        data = field.encode("utf-8", "surrogateescape")
        digest.update(b"%d:%b," % (len(data), data))
    return digest.hexdigest()
