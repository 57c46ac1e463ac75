"""Events as text and back: the `body` of a row.

The hash chain: what exactly is hashed, so that anybody can check an export of the journal.

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
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kagura_kernel.domain.events import Event

FIRST = "0" * 64
"""What the first row has in place of a hash before it."""


def row_hash(seq: int, at: str, kind: str, run_id: str, session_id: str, body: str, prev_hash: str) -> str:
    """The hash of one row, from its columns as they are stored."""
    fields = (str(seq), at, kind, run_id, session_id, body, prev_hash)
    whole = "".join([f"{len(field)}:{field}," for field in fields])
    # Most rows are ASCII, in which characters are bytes.
    data = whole.encode() if whole.isascii() else b"".join(map(_netstring, fields))
    return hashlib.sha256(data).hexdigest()


def stored_hash(row: tuple[Any, ...]) -> bytes:
    """The same of a row as `Statement.stored` gives it: each text as its bytes, the row's own hash last."""
    seq, at, kind, run_id, session_id, body, prev_hash, _ = row
    number = b"%d" % seq
    whole = b"%d:%b,%d:%b,%d:%b,%d:%b,%d:%b,%d:%b,%d:%b," % (
        len(number),
        number,
        len(at),
        at,
        len(kind),
        kind,
        len(run_id),
        run_id,
        len(session_id),
        session_id,
        len(body),
        body,
        len(prev_hash),
        prev_hash,
    )
    return hashlib.sha256(whole).hexdigest().encode()


def _netstring(field: str) -> bytes:
    # Bytes that are no text must change the hash, not stop the check: they come in as surrogates.
    data = field.encode("utf-8", "surrogateescape")
    return b"%d:%b," % (len(data), data)


def stamp(moment: datetime) -> str:
    """A moment as the journal writes it: UTC, microseconds, always 27 characters, so that text sorts as time does."""
    return f"{moment.astimezone(UTC).isoformat(timespec='microseconds')[:-6]}Z"


def moment(text: str) -> datetime:
    """The moment behind a stamp."""
    return datetime.fromisoformat(text)


def encode(event: Event) -> str:
    r"""The event as JSON.

    Text that is not Unicode (a file name with odd bytes) comes back exactly: such a text is written in ASCII, each odd
    byte as the escape `\udcNN`. Values that JSON does not have stand there as their text.
    """
    try:
        return event.model_dump_json()
    except ValueError:
        return json.dumps(event.model_dump(mode="python"), default=_foreign)


def decode(body: str) -> Event:
    """The event behind a body; a kind that this version does not know comes back as a plain `Event`.

    Raises:
        ValueError: the text is no event at all.
    """
    # Lists are read from tables: what knows all events is imported with the first of them.
    from kagura_kernel.domain.events import Event, parse_event

    try:
        return parse_event(body)
    except ValueError:
        return Event.model_validate_json(body)


def decode_told(body: str, kind: str, run_id: str) -> Event:
    """The event of a row that anybody may have written.

    Raises:
        ValueError: the text is no event, or another one than the row's columns say.
    """
    try:
        event = decode(body)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    check_columns(event, kind, run_id)
    return event


def check_columns(event: Event, kind: str, run_id: str) -> None:
    """Raise `ValueError` unless a row's columns say the same as its body: what is looked for by them must be so."""
    if (event.kind, as_text(event.run_id)) != (kind, run_id):
        raise ValueError("the row is not what its columns say")


def as_text(value: str) -> str:
    r"""The text with what no database takes written out in plain characters: odd bytes as `\udcNN`, NUL as `\x00`."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def _foreign(value: Any) -> str:
    return stamp(value) if isinstance(value, datetime) else as_text(str(value))
