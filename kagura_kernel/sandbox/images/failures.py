"""Why a build failed, read from what it printed: decides, does nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LOCK = re.compile(
    r"(?m:^)LOCK-UNMET (?P<file>\S+): (?P<floor>.+)"
    r"|E: (?P<apt>Version .+ was not found|Unable to locate package .+|Package .+ has no installation candidate)"
    r"|(?P<pip>THESE PACKAGES DO NOT MATCH THE HASHES|No matching distribution found for \S+)"
    r"|(?P<npm>EINTEGRITY|ETARGET|npm (?:error|ERR!) .*can only install packages when .+)"
)
_NETWORK = re.compile(
    r"Temporary failure|Could not resolve|Could not connect|Connection (?:timed out|reset|refused|failed|broken)"
    r"|Failed to fetch|Read timed out|NewConnectionError|Hash Sum mismatch|Mirror sync in progress|Undetermined Error"
    r"|\b50[234]\b .*(?:Bad Gateway|Unavailable|Time-?out)|ETIMEDOUT|ECONNRESET|EAI_AGAIN|ENOTFOUND|TLS handshake",
    re.IGNORECASE,
)
_CERTIFICATE = re.compile(r"CERTIFICATE_VERIFY_FAILED|SELF_SIGNED_CERT|self-signed certificate|UNABLE_TO_GET_ISSUER")
# The daemon repeats the whole step, what it would have said in every other case among it.
_STEP = re.compile(r"The command '.*' returned a non-zero code: (\d+)", re.DOTALL)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_USERINFO = re.compile(r"(\w+://)[^/\s@]+@")
_LINES = 8


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong.

    Attributes:
        reason: One line, or the last few of what was printed; no secret of an address in it.
        advice: What to do next; may be empty.
        passing: Whether the same attempt may work a moment later.
    """

    reason: str
    advice: str = ""
    passing: bool = False


def failure_of(printed: str, error: str, recipe: str) -> Failure:
    """The failure of a build that printed this and ended with that error."""
    ended = _STEP.sub(r"its exit code was \1", error)
    text = _USERINFO.sub(r"\1***@", _COLOUR.sub("", f"{printed}\n{ended}"))
    if found := _CERTIFICATE.search(text):
        return Failure(
            f"a server's certificate was not trusted ({found[0]})",
            "Let PIP_CERT or SSL_CERT_FILE name the certificate of your package mirror or proxy.",
        )
    network = _NETWORK.search(text)
    if (found := _LOCK.search(text)) and not network:
        what = next(value for key, value in found.groupdict().items() if value and key != "file")
        return Failure(
            f"the lock cannot be met: {what.strip()}",
            f"Renew it with `dev/images.sh lock {recipe}`, or build on a base whose archive still has these "
            "versions (a snapshot).",
        )
    if network:
        return Failure(f"packages could not be fetched ({network[0].strip()})", "Try again.", passing=True)
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return Failure("; ".join(lines[-_LINES:]))
