"""A talk with the program in a box; apart from the brain, which is made without the SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kagura_kernel.brain.claude_sealed_events import NAME, SealedReading
from kagura_kernel.brain.claude_sealed_transport import SealedProgram
from kagura_kernel.brain.claude_talk import Talk
from kagura_kernel.brain.provider import Turn


def sealed_talk(
    turn: Turn,
    line: Sequence[str],
    environ: Mapping[str, str],
    *,
    system: str,
    secrets: Sequence[str],
    silence: float,
) -> Talk:
    """A talk that has not begun.

    Args:
        turn: What to do, with its box.
        line: The program and its arguments.
        environ: What it finds in its environment beside the box's own.
        system: What is added to its system prompt.
        secrets: Texts that must not stand in an error message.
        silence: Seconds without a word, and without a tool under way, after which it counts as lost.
    """
    if turn.inside is None:
        message = "a sealed brain needs the box of its run"
        raise ValueError(message)
    program = SealedProgram(turn.inside, line, environ, system)
    reading = SealedReading(secrets, turn.max_turns)
    return Talk(turn, program, reading, secrets=secrets, silence=silence, name=NAME)
