"""How much a toolset's server may say, how fast, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolsetLimits:
    """The limits on one toolset; one that its server breaks costs the server, never the run."""

    start_seconds: float = 60.0  # From the start of its program until it has said what it offers
    call_seconds: float = 60.0  # For one call
    ping_seconds: float = 5.0  # How long a server that let a call run out may take to show that it still answers
    message_bytes: int = 4 * 2**20  # Of one message, in either direction
    rate: float = 1000.0  # Messages a second in the long run
    burst: int = 2000  # Messages that may come as fast as they like before `rate` holds
    untold_bytes: int = 16 * 2**20  # Of what it says without being asked, as fast as it likes
    untold_rate: float = 2.0**20  # Of that, bytes a second in the long run
    calls: int = 8  # Under way at once
    waiting: int = 64  # Calls that may wait for their turn; one more is answered at once, with words
    questions: int = 256  # Answers to what it asks of us that may wait until it reads them
    banner_lines: int = 20  # Lines before its first message that need be none: some programs greet
    tools: int = 128  # It may offer; the rest is withheld
    pages: int = 32  # Its list of tools may have
    description: int = 2048  # Characters of one tool's description
    schema_bytes: int = 32 * 1024  # Of one tool's schema
    offered_bytes: int = 256 * 1024  # Of all its descriptions and schemas together: a model reads them at each turn
    log_bytes: int = 16 * 1024  # Kept of what it writes to its standard error
