"""Names that a change from a box may never have, however they are disguised. Pure.

A name is compared as the most forgiving file system would: without characters that nobody sees, in one Unicode form,
without case, without the blanks and dots at its end that some systems drop.
"""

from __future__ import annotations

import re
import unicodedata

PROTECTED_NAMES = frozenset(
    {".bzr", ".envrc", ".git", ".hg", ".jj", ".kagura", ".pijul", ".repo", ".sl", ".svn", "_darcs"}
)
"""Files and directories that tell a program of the host what to run; protected wherever they lie."""

# What is left of such a name where a file system keeps a short one beside it.
_SHORT = re.compile(r"(git|kagura|envrc)~[0-9]+")
_CONTROL = frozenset({"Cc", "Zl", "Zp"})
_UNSHOWN = _CONTROL | {"Cs"}
_REORDERS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that show a text in another order than it has."""


def folded(name: str) -> str:
    """A name as the most forgiving file system compares it; two that may be the same file fold to the same text."""
    if name.isascii():
        plain = name
    else:
        plain = unicodedata.normalize("NFKC", _seen(unicodedata.normalize("NFKC", _seen(name))).casefold())
    return plain.casefold().rstrip(" .")


def folded_path(path: str) -> str:
    """A path, component by component as `folded`."""
    return "/".join(folded(part) for part in path.split("/"))


def has_control(text: str) -> bool:
    """Whether a text holds a control character, a line end or a tab: it could pose as more than one line."""
    return any(unicodedata.category(char) in _CONTROL for char in text)


def shown(text: str) -> str:
    """A text on one line, in the order in which it was written: each control character is told, as `⟨U+000A⟩`."""
    odd = {char for char in text if char in _REORDERS or unicodedata.category(char) in _UNSHOWN}
    return "".join(f"⟨U+{ord(char):04X}⟩" if char in odd else char for char in text)


def is_protected_name(path: str) -> bool:
    """Whether any component of a path is a protected name, or may be taken for one."""
    return any(_is_protected(part) for part in re.split(r"[/\\]", path))


def is_below(path: str, root: str) -> bool:
    """Whether a path is `root` or lies below it, both as `folded_path`."""
    inner, outer = folded_path(path), folded_path(root)
    return inner == outer or inner.startswith(f"{outer}/")


def _is_protected(part: str) -> bool:
    # What follows a colon names a stream of the same file on some systems.
    name = folded(folded(part).partition(":")[0])
    return name in PROTECTED_NAMES or _SHORT.fullmatch(name) is not None


def _seen(name: str) -> str:
    return "".join(char for char in name if unicodedata.category(char) != "Cf")
