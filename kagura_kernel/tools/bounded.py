"""Makes texts short enough for a model, and tells it what was left out. Pure."""

from __future__ import annotations

from kagura_kernel.domain.commands import CommandResult, Output
from kagura_kernel.domain.tools import NO_OUTPUT

TEXT_BYTES = 30_000
"""How much of a result a model reads, about 8,000 tokens."""


def shorten_middle(text: str, limit: int = TEXT_BYTES) -> str:
    """The text, or its beginning and its end around a line that says how many characters are missing."""
    if len(text) <= limit:
        return text
    head = _to_line_end(text[: limit * 2 // 3])
    tail = text[-(limit // 3) :]
    missing = len(text) - len(head) - len(tail)
    return f"{head}\n… {missing} characters left out …\n{tail}"


def command_text(result: CommandResult, *, hint: str = "") -> str:
    """What a model reads of a command: its output, its complaints, and how it ended.

    Standard error follows standard output under a line of its own; without any output that is said. An exit code
    other than 0 is the last line but for the hint.
    """
    out, err = _one(result.stdout), _one(result.stderr)
    share = TEXT_BYTES if not (out and err) else TEXT_BYTES // 2
    blocks = []
    if out:
        blocks.append(shorten_middle(out, max(share, TEXT_BYTES - len(err))))
    if err:
        heading = "[stderr]\n" if out else ""
        blocks.append(heading + shorten_middle(err, max(share, TEXT_BYTES - len(out))))
    if not blocks:
        blocks.append(NO_OUTPUT)
    if result.signal is not None:
        blocks.append(f"[ended by signal {result.signal}]")
    elif result.exit_code:
        blocks.append(f"[exit code {result.exit_code}]")
    if spilled := spill_of(result):
        blocks.append(f"[the whole output is kept for the person as {spilled}; redirect to a file to read parts of it]")
    if hint:
        blocks.append(f"[{hint}]")
    return "\n".join(blocks)


def spill_of(result: CommandResult) -> str | None:
    """Name of the file with a command's full output, if there is one."""
    for output in (result.stdout, result.stderr):
        if output.spill is not None:
            return output.spill.name
    return None


def _one(output: Output) -> str:
    return output.text.rstrip("\n")


def _to_line_end(head: str) -> str:
    cut = head.rfind("\n", len(head) * 3 // 4)
    return head if cut < 0 else head[:cut]
