"""Which categories a question to a person is about. Pure: kind and exact arguments, no text that anybody has written.

A server that looks any name up for a program in the box (DNS over HTTPS) is a host like any other: whoever may ask it
for one name may ask it for all.

What is asked for has parts: a command, a host, each credential of a grant. A question belongs to a category when every
one of its parts does; it touches the category of each part. The first is what an earned grant answers, the second what
a lock holds for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest
from kagura_kernel.domain.categories import CATEGORIES, Category
from kagura_kernel.patterns.host_deeds import host_deed, names_in

NONE = ""
"""A part that belongs to no category."""

BY_NAME: Mapping[str, Category] = {category.name: category for category in CATEGORIES}

_COMMAND = frozenset({"command", "directory"})
_READS = frozenset({"get", "list", "read", "readonly", "view"})


def categorise(request: ApprovalRequest, held: Collection[str] = ()) -> str | None:
    """The one category that all of it belongs to; None where there is none, or a part that is not understood.

    Args:
        request: What is asked.
        held: The credentials that runs have held before, each as `provider:scope`.
    """
    found = set(_parts(request, held))
    return found.pop() if len(found) == 1 and NONE not in found else None


def touched(request: ApprovalRequest, held: Collection[str] = ()) -> frozenset[str]:
    """The categories that some part of it belongs to; see `categorise`."""
    return frozenset(_parts(request, held)) - {NONE}


def goes_to(request: ApprovalRequest) -> frozenset[str]:
    """The names in it that something would leave the machine for; empty where it names nobody."""
    if request.kind is not ApprovalKind.HOST_COMMAND:
        return frozenset()
    return names_in(str(request.arguments.get("command", "")))


def asks_anew(credential: str) -> bool:
    """Whether a credential, `provider:scope`, belongs to a locked category however often it was held."""
    return any(part and not BY_NAME[part].included for part in _credential_parts(credential, (credential,)))


def names_credentials(request: ApprovalRequest) -> bool:
    """Whether it matters which credentials runs have held before."""
    return bool(_credentials(request))


def _parts(request: ApprovalRequest, held: Collection[str]) -> list[str]:
    arguments = request.arguments
    match request.kind:
        case ApprovalKind.HOST_COMMAND:
            return [host_deed(str(arguments["command"])) if arguments.keys() == _COMMAND else NONE]
        case ApprovalKind.CREDENTIAL | ApprovalKind.LAUNCH:
            parts = [part for name in _credentials(request) for part in _credential_parts(name, held)]
            if arguments.get("writable_root"):
                parts.append("packages")
            # More time for one is a budget that was used up; what a definition asks for is somebody else's wish.
            return [*parts, NONE] if "provider" in arguments or arguments.get("asked") else parts
        case _:
            return [NONE]


def _credentials(request: ApprovalRequest) -> tuple[str, ...]:
    if request.kind not in {ApprovalKind.CREDENTIAL, ApprovalKind.LAUNCH}:
        return ()
    arguments = request.arguments
    if "provider" in arguments:
        return (f"{arguments['provider']}:{arguments.get('scope', '')}",)
    return tuple(map(str, arguments.get("credentials", ())))


def _credential_parts(name: str, held: Collection[str]) -> list[str]:
    provider, _, scope = name.partition(":")
    parts = [] if name in held else ["cloud-credentials"]
    words = set(re.split(r"[^a-z0-9]+", scope.lower()))
    if words & {"dns", "zone"} or "dns" in re.split(r"[^a-z0-9]+", provider.lower()):
        # The names are the person's own; whatever does not say that it only reads may write.
        parts.append("dns-read" if words & _READS and words <= _READS | {"dns", "zone", "zones"} else "dns-write")
    return parts or [NONE]
