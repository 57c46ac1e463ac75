"""Which names may be staged, and what they are staged as. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from kagura_kernel.domain.kit import AGENT_NAME
from kagura_kernel.kit.definitions.document import unseen
from kagura_kernel.membrane.names import folded, shown

MAX_PART = 255
"""Bytes of one component, as most file systems have it."""
MAX_PATH = 1024
MAX_SKILL_NAME = 64

# Names that mean a device to some systems that a kit may be unpacked on.
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.ASCII)
_BETWEEN = re.compile(r"[\s_-]+")


def why_not_named(name: str) -> str:
    """Why one component of a path may not be staged, half a sentence; empty when it may."""
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        return "its name is no text"
    if name in ("", ".", "..") or "/" in name:
        return "its name is none"
    if not (name.isascii() and name.isprintable()) and (sign := unseen(name)):
        return f"its name holds {sign}, which nobody would see"
    if "\\" in name:
        return "its name holds a backslash"
    if len(encoded) > MAX_PART:
        return "its name is too long"
    return ""


def why_not_asked(path: str) -> str:
    """Why a prompt file may not be asked for by this name, half a sentence; empty when it may."""
    if path.startswith(("/", "~")) or re.match(r"[A-Za-z]:", path):
        return "a prompt file is named relative to the directories that it is looked for in"
    parts = path.split("/")
    if ".." in parts:
        return "a prompt file's name does not lead upwards with .."
    for part in parts:
        if why := why_not_named(part):
            return why
        if _RESERVED.fullmatch(folded(part)):
            return "its name means a device on some systems"
    return "its name is too long" if len(path) > MAX_PATH else ""


def skill_name(written: str) -> str:
    """A skill's name in kebab-case as it is staged, empty when there is nothing to make one of: `CSV Tools`."""
    plain = unicodedata.normalize("NFKC", written).strip().casefold()
    name = _BETWEEN.sub("-", plain).strip("-")
    return name if len(name) <= MAX_SKILL_NAME and AGENT_NAME.fullmatch(name) else ""


BAD_NAME = "its name holds what looks like a secret"


def without_secret(name: str, plain: Callable[[str], str]) -> str:
    """A name, or what may be seen of it when it is a secret as it is written, or in a form that it may be given.

    Args:
        name: As somebody wrote it.
        plain: Takes secrets out of a text.
    """
    alike = unicodedata.normalize("NFKC", name)
    words = alike.split()
    forms = (name, alike, alike.casefold(), "".join(words), "-".join(words), "-".join(words).casefold())
    return next((clean for form in dict.fromkeys(forms) if (clean := plain(form)) != form), name)


def shown_name(name: str) -> str:
    """A name on one line, whatever is in it, at most 200 characters."""
    plain = "".join(f"⟨U+{ord(sign):04X}⟩" if unseen(sign) else sign for sign in shown(name))
    return plain if len(plain) <= 200 else f"{plain[:199]}…"  # noqa: PLR2004 - as the docstring says


class Names:
    """Names of one directory, told apart as the most forgiving file system would."""

    def __init__(self) -> None:
        self._taken: dict[str, str] = {}

    def clash(self, name: str) -> str:
        """Why a name may not stand beside those before it, half a sentence; empty when it may, and then it does."""
        other = self._taken.setdefault(key := folded(name), "")
        if not other:
            self._taken[key] = name
            return ""
        return (
            "its name is taken"
            if other == name
            else f"its name differs from {shown_name(other)!r} by case or form only"
        )
