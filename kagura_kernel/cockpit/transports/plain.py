"""Text for a chat: in its words, nothing in it that cannot be seen, and no longer than it may be. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kagura_kernel.cockpit.understanding import COMMANDS
from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.domain.visible import printed

_LISTED = 300
_HERE = {"run the cell again": "say it again", "restart the kernel": "have the server started again"}
"""What errors of a run tell whoever sits at a notebook, and what it is in a chat."""


def one_line(text: str, limit: int = 120) -> str:
    """The text on one line, at most `limit` characters."""
    line = " ".join(printed(text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def cut(text: str, limit: int) -> tuple[str, bool]:
    """The beginning of a visible text, at most `limit` characters, at the end of a line where one is near; and whether
    anything is missing.
    """  # noqa: D205 - one sentence
    shown = printed(text).strip("\n")
    if len(shown) <= limit:
        return shown, False
    head = shown[: limit - 2]
    line_end = head.rfind("\n")
    return (head[:line_end] if line_end > limit // 2 else head) + "\n…", True


def cut_inside(text: str, limit: int) -> tuple[str, bool]:
    """A visible text with its beginning and its end, together at most `limit` characters, and how much is left out
    between them; and whether anything is.
    """  # noqa: D205 - one sentence
    shown = printed(text).strip("\n")
    if len(shown) <= limit:
        return shown, False
    room = limit - len(f"\n… {len(shown)} characters left out …\n")
    tail = shown[-(room // 2) :]
    head = shown[: room - len(tail)]
    return f"{head}\n… {len(shown) - len(head) - len(tail)} characters left out …\n{tail}", True


def listed(lines: Sequence[str], limit: int) -> tuple[str, bool]:
    """As many of these lines as fit, with how many are left; and whether anything is missing."""
    shown = [one_line(line, _LISTED) for line in lines]
    if len(told := "\n".join(shown)) <= limit:
        return told, any(len(printed(line)) > _LISTED for line in lines)
    room = limit - len(f"… and {len(shown)} more")
    kept: list[str] = []
    for line in shown:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join([*kept, f"… and {len(shown) - len(kept)} more"]), True


def told(error: KaguraError) -> str:
    """An error as it is meant in a chat: a notebook's `%kagura runs` is `/status`, and there are no cells."""
    text = error.message
    for there, here in _HERE.items():
        text = text.replace(there, here)
    text = re.sub(r"%kagura (?:runs|approvals)\b", "/status", text)
    text = re.sub(rf"%kagura ({'|'.join(COMMANDS)})\b", r"/\1", text)
    return f"{error.code}: {text.replace('%kagura ', 'kagura-kernel ')}"
