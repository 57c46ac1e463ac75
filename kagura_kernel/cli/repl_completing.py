"""What the tab key gives in a conversation: the commands behind a slash, with their options and names."""

from __future__ import annotations

from collections.abc import Callable

from kagura_kernel.cockpit.lines.completing import complete_command
from kagura_kernel.cockpit.lines.lookup import Names
from kagura_kernel.domain.grammar import Surface
from kagura_kernel.jupyter.completion.names import ShellNames


def completer(
    line: Callable[[], str], end: Callable[[], int], names: Names | None = None
) -> Callable[[str, int], str | None]:
    """For readline: asked with a word and a number until it has nothing more.

    Args:
        line: The whole line, as readline has it.
        end: Where the cursor is in it.
        names: Looked up for values; None knows the journal, the settings and the working directory.
    """
    known = names or ShellNames(None, blink=1.0)
    found: list[str] = []

    def complete(word: str, number: int) -> str | None:
        if number == 0:
            found[:] = _fitting(line()[: end()], word, known)
        return found[number] if number < len(found) else None

    return complete


def _fitting(text: str, word: str, names: Names) -> list[str]:
    if not text.lstrip().startswith("/"):
        return []
    command = text.lstrip()[1:]
    completions = complete_command(command, Surface.TERMINAL, names)
    # Readline replaces its own word, which may begin before the part that is completed.
    kept = word[: max(0, len(word) - (completions.end - completions.start))]
    return [f"{kept}{item.text}" for item in completions.items]
