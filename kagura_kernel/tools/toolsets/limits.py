"""How much a toolset's server may say, how fast, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolsetLimits:
    """The limits on one toolset; one that its server breaks costs the server, never the run.

    Attributes:
        start_seconds: From the start of its program until it has said what it offers.
        call_seconds: For one call.
        ping_seconds: How long a server that let a call run out may take to show that it still answers.
        message_bytes: Of one message, in either direction.
        rate: Messages a second in the long run.
        burst: Messages that may come as fast as they like before `rate` holds.
        untold_bytes: Of what it says without being asked, as fast as it likes.
        untold_rate: Of that, bytes a second in the long run.
        calls: Under way at once.
        waiting: Calls that may wait for their turn; one more is answered at once, with words.
        questions: Answers to what it asks of us that may wait until it reads them.
        banner_lines: Lines before its first message that need be none: some programs greet.
        tools: It may offer; the rest is withheld.
        pages: Its list of tools may have.
        description: Characters of one tool's description.
        schema_bytes: Of one tool's schema.
        offered_bytes: Of all its descriptions and schemas together: a model reads them at each turn.
        log_bytes: Kept of what it writes to its standard error.
    """

    start_seconds: float = 60.0
    call_seconds: float = 60.0
    ping_seconds: float = 5.0
    message_bytes: int = 4 * 2**20
    rate: float = 1000.0
    burst: int = 2000
    untold_bytes: int = 16 * 2**20
    untold_rate: float = 2.0**20
    calls: int = 8
    waiting: int = 64
    questions: int = 256
    banner_lines: int = 20
    tools: int = 128
    pages: int = 32
    description: int = 2048
    schema_bytes: int = 32 * 1024
    offered_bytes: int = 256 * 1024
    log_bytes: int = 16 * 1024
