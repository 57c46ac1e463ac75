"""What an approval would let happen, taken apart for reading.

A card shows the very values that would be used. A text composed of several of them is never taken apart again: what
a model writes could imitate the seams.
"""

from __future__ import annotations

from dataclasses import dataclass

from kagura_kernel.domain.events import ApprovalRequested
from kagura_kernel.jupyter.cards.hosts import shown_place


@dataclass(frozen=True, slots=True)
class Asked:
    """The parts that a reader has to see, each exactly as it would be used.

    Attributes:
        subject: The whole command, host (an international one in both spellings) or text.
        stdin: What a command would read; empty without.
        place: The host directory it would work in; empty where there is none.
        means: What it would mean, in the words of whoever composed the question; empty where the subject is all.
    """

    subject: str
    stdin: str = ""
    place: str = ""
    means: str = ""


def asks_for_host(request: ApprovalRequested) -> bool:
    """Whether it is about one host and port, known apart."""
    given = request.arguments
    return request.subject == "network" and isinstance(given.get("host"), str) and isinstance(given.get("port"), int)


def asked(request: ApprovalRequested) -> Asked:
    """The parts of one request; where they are not known apart, the detail as a whole."""
    given = request.arguments
    if asks_for_host(request):
        return Asked(shown_place(str(given["host"]), int(given["port"])), means=request.detail)
    if request.subject != "host_command" or not isinstance(given.get("command"), str):
        return Asked(request.detail)
    return Asked(given["command"], str(given.get("stdin") or ""), str(given.get("directory") or ""))
