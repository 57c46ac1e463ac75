"""One row of what the doctor found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

State = Literal["ok", "warn", "fail"]
OK: Final = "ok"
WARN: Final = "warn"
FAIL: Final = "fail"

BRAIN, MEMORY, SANDBOX, TRANSPORT = "brain", "memory", "sandbox", "transport"
"""What `kagura-kernel setup` can be asked for; every other row is of the machine."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one look found.

    Attributes:
        name: What was looked at.
        state: `ok`; `warn`: it works without, but less, or somebody waits; `fail`: it does not work, or somebody has to
            look.
        said: What was found; one line, or one for each of several problems.
        then: The one thing that mends it, mostly a command; empty when there is nothing to do.
        part: What `kagura-kernel setup` calls it; empty for what belongs to none of its parts.
    """

    name: str
    state: State
    said: str
    then: str = ""
    part: str = ""
