"""A connection out of a box was not made."""

from __future__ import annotations

from kagura_kernel.domain.errors.base import KaguraError, UsageError


class HostNotUnderstood(UsageError):
    """A host, port or URL is not one that could ever be reached; nothing was looked up."""

    code = "ERR_EGRESS_HOST"

    def __init__(self, text: str, why: str) -> None:
        # What a box sends may hold anything; a message is one printable line.
        shown = ascii(text if len(text) <= 80 else text[:79] + "~")  # noqa: PLR2004 - a line of a message
        super().__init__(f"{shown} is no host that can be reached: {why}.")
        self.text = text
        self.why = why


class EgressRefused(KaguraError):
    """A connection out of a box was not made. `status` is what an HTTP proxy answers."""

    code = "ERR_EGRESS"
    status = 502

    def __init__(self, host: str, port: int, why: str, advice: str = "") -> None:
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        super().__init__(f"{place} {why}." + (f" {advice}" if advice else ""))
        self.host = host
        self.port = port
        self.why = why


class EgressDenied(EgressRefused):
    """It is not granted, a person said no, or it leads to an address that no box may reach."""

    code = "ERR_EGRESS_DENIED"
    status = 403


class EgressUnreachable(EgressRefused):
    """It is granted, and could not be resolved or did not answer."""

    code = "ERR_EGRESS_UNREACHABLE"
    status = 502


class EgressBusy(EgressRefused):
    """Too much of it at once, connections or questions to a person; later it may be otherwise."""

    code = "ERR_EGRESS_BUSY"
    status = 503


class EgressSignInRefused(EgressRefused):
    """It was reached, and the session that the membrane wanted to start there for a box did not come about.

    `state` is what the protocol's own error codes call it, where they do (an SQLSTATE); `advice` stands in the text.
    """

    code = "ERR_EGRESS_SIGN_IN"
    status = 502

    def __init__(self, host: str, port: int, why: str, advice: str = "", *, state: str = "") -> None:
        super().__init__(host, port, why, advice)
        self.advice = advice
        self.state = state
