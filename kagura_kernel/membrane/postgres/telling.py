"""What a program in the box is told when it gets no session: a state that its library knows, and a masked text. Pure.

Words of the server are never passed on: they name the address that it sees, its users, or what somebody who plays a
server wants to be read. A looked-up address never stands in a text for the box either.
"""

from __future__ import annotations

import os
import socket

from kagura_kernel.domain.errors import EgressBusy, EgressDenied, EgressRefused, EgressSignInRefused
from kagura_kernel.membrane.egress.names import Target
from kagura_kernel.membrane.postgres.wire import fatal

CANNOT_CONNECT = "08001"
NOT_LET_IN = "08004"
BROKEN = "08P01"
TOO_MANY = "53300"

_SAID = {
    "08P01": "did not take the start of the session; where it is a pooler, it has to let the parameters "
    "default_transaction_read_only and statement_timeout pass",
    "28P01": "did not accept the user name or the password",
    "28000": "does not let this user in from here, by its pg_hba.conf",
    "3D000": "has no database of that name",
    "42501": "does not let this user into that database",
    "53300": "has no room for another session",
    "55000": "takes no sessions for that database now",
    "57P03": "is starting up or shutting down",
    "42704": "does not know a setting that was asked for",
    "22023": "does not take a setting that was asked for",
}


def refused_by_server(target: Target, fields: dict[str, str]) -> EgressSignInRefused:
    """The error for a server's ErrorResponse, in our words.

    Args:
        target: The server.
        fields: Of the response, by their letters.
    """
    state = fields.get("C", "")
    if not (len(state) == 5 and state.isascii() and state.isalnum()):  # noqa: PLR2004 - an SQLSTATE
        state = NOT_LET_IN
    why = _SAID.get(state, f"refused the session (SQLSTATE {state})")
    advice = "Look at the URL that was configured." if state in ("28P01", "28000", "3D000", "42501") else ""
    return EgressSignInRefused(target.host, target.port, why, advice, state=state)


def told(refusal: EgressRefused) -> bytes:
    """The ErrorResponse for a refusal."""
    place = Target(refusal.host, refusal.port)
    if isinstance(refusal, EgressSignInRefused):
        return fatal(refusal.state or NOT_LET_IN, f"{place} {refusal.why}", refusal.advice)
    if isinstance(refusal, EgressDenied):
        return fatal(NOT_LET_IN, f"{place} may not be reached from here")
    if isinstance(refusal, EgressBusy):
        return fatal(TOO_MANY, f"{place} {refusal.why}")
    return fatal(CANNOT_CONNECT, f"{place} {_unreachable(refusal)}")


def _unreachable(refusal: EgressRefused) -> str:
    cause = refusal.__cause__
    if isinstance(cause, TimeoutError):
        return "did not answer in time"
    if isinstance(cause, socket.gaierror | UnicodeError):
        return "could not be looked up"
    if isinstance(cause, OSError) and cause.errno and cause.errno > 0:
        return f"cannot be reached: {os.strerror(cause.errno).lower()}"
    return "cannot be reached"
