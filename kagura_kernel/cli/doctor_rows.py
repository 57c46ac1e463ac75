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
    """What one look found."""

    name: str  # What was looked at
    # `ok`; `warn`: it works without, but less, or somebody waits; `fail`: it does not work, or somebody has to look
    state: State
    said: str  # What was found; one line, or one for each of several problems
    then: str = ""  # The one thing that mends it, mostly a command; empty when there is nothing to do
    part: str = ""  # What `kagura-kernel setup` calls it; empty for what belongs to none of its parts
