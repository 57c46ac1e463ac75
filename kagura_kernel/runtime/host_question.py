"""The question whether a command may run on the host, in words and in values. Pure.

The values are what would be used, and what a card shows. The words are for readers without a card: each part stands
under its own heading, and each of its lines behind a bar, so that no text can pose as another part.
"""

from __future__ import annotations

import base64
import re


def host_arguments(command: str, directory: str, stdin: bytes) -> dict[str, str]:
    r"""What would be used, exactly: `command`, `directory`, and `stdin` if it reads anything.

    Input that is no UTF-8 is told for reading in `stdin`, with odd bytes as `\xff`, and exactly in `stdin_base64`.
    """
    arguments = {"command": command, "directory": directory}
    if stdin:
        try:
            arguments["stdin"] = stdin.decode()
        except UnicodeDecodeError:
            arguments["stdin"] = stdin.decode("utf-8", "backslashreplace")
            arguments["stdin_base64"] = base64.b64encode(stdin).decode()
    return arguments


def host_detail(command: str, directory: str, stdin: str) -> str:
    """All of it as one text, with characters that cannot be seen written out as `⟨U+000D⟩`."""
    parts = [("Command", command), ("Directory", directory)]
    if stdin:
        parts.append(("Standard input", stdin))
    return "\n\n".join(f"{heading}:\n{_barred(text)}" for heading, text in parts)


def _barred(text: str) -> str:
    return "\n".join(f"| {_visible(line)}" for line in text.split("\n"))


def _visible(line: str) -> str:
    return re.sub(r"[^\t]", lambda found: found[0] if found[0].isprintable() else f"⟨U+{ord(found[0]):04X}⟩", line)
