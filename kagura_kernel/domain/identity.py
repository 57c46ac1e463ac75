"""Names for runs, sessions, boxes and approvals: short, sortable by time, safe to paste anywhere."""

from __future__ import annotations

import itertools
import secrets
import time
from typing import Annotated, NewType

RunId = NewType("RunId", str)
SessionId = NewType("SessionId", str)
BoxId = NewType("BoxId", str)
ApprovalId = NewType("ApprovalId", str)
CallId = NewType("CallId", str)
LeaseId = NewType("LeaseId", str)
MemoryId = NewType("MemoryId", str)

SESSION_PREFIX = "ses-"
"""How the id of a session begins that nobody has named."""

EXACT = "exact"
Exact = Annotated[str, EXACT]
"""A field of an event, or of a row in one, that others look for as it is: an id, a hash, a path, a word of ours. Every
other text of an event is redacted before it is stored or shown."""

# Crockford's alphabet: no letter that a reader could take for a digit.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"

_PAIRS = [one + other for one in _ALPHABET for other in _ALPHABET]
_SHIFTS = range(60, -1, -10)

_COUNTED, _RANDOM = 13, 12
"""Bits behind the milliseconds: what this process counts, so that no two of its own are the same, and chance."""

_count = itertools.count(secrets.randbits(_COUNTED))


def _number() -> int:
    counted = next(_count) % (1 << _COUNTED)
    return (int(time.time() * 1000) << _COUNTED | counted) << _RANDOM | secrets.randbits(_RANDOM)


def _stamp(prefix: str) -> str:
    number = _number()
    return f"{prefix}-{''.join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])}"


def new_run_id() -> RunId:
    """A fresh run id, `run-…`; later ones sort after earlier ones, to the millisecond."""
    return RunId(_stamp("run"))


def new_session_id() -> SessionId:
    """A fresh session id, `ses-…`."""
    return SessionId(_stamp(SESSION_PREFIX.rstrip("-")))


def new_box_id() -> BoxId:
    """A fresh box id, `box-…`; it also names the box's container."""
    return BoxId(_stamp("box"))


def new_approval_id() -> ApprovalId:
    """A fresh approval id, `app-…`."""
    return ApprovalId(_stamp("app"))


def new_call_id() -> CallId:
    """A fresh tool call id, `call-…`, for brains that do not name their calls."""
    return CallId(_stamp("call"))


def new_lease_id() -> LeaseId:
    """A fresh lease id, `lea-…`; it also marks the credential at its provider, where that keeps names."""
    return LeaseId(_stamp("lea"))


def new_sentence_id() -> str:
    """A fresh id of something that a person says to a run, `say-…`."""
    return _stamp("say")


def new_memory_id() -> MemoryId:
    """A fresh memory id, `mem-…`."""
    return MemoryId(_stamp("mem"))
