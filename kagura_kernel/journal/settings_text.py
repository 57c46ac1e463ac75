"""A setting in the text of a person's file of settings: what else stands there, comments included, stays as it is."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import tomllib
from collections.abc import Sequence
from pathlib import Path

Value = str | float | Sequence[str] | None
"""What a setting is to be: a text, a truth, a number, a list of texts, or None to take it away."""

_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)


def with_setting(text: str, name: str, value: Value, *, table: str = "") -> str:
    """A TOML text with this setting in it, in place of the one that stood there. Pure."""
    line = "" if value is None else f"{name} = {_toml(value)}\n"
    begin, end = _section(text, table)
    if begin is None:
        if not line:
            return text
        gap = "\n" if text and not text.endswith("\n\n") else ""
        return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{gap}[{table}]\n{line}"
    section = text[begin:end]
    if (found := _setting(section, name)) is not None:
        section = section[: found[0]] + line + section[found[1] :]
    elif line:
        section = (
            f"\n{line}{section.removeprefix(chr(10))}" if table else _appended(section, line, last=end == len(text))
        )
    return text[:begin] + section + text[end:]


def _appended(section: str, line: str, *, last: bool) -> str:
    kept = section.rstrip("\n")
    gap = "" if last else "\n"
    return f"{kept}\n{line}{gap}" if kept else f"{line}{gap}"


def _setting(section: str, name: str) -> tuple[int, int] | None:
    """Where a setting stands, to the end of its last line: a list may go over several."""
    found = re.search(rf"^[ \t]*{re.escape(name)}[ \t]*=", section, re.MULTILINE)
    if found is None:
        return None
    for line in re.finditer(r"\n|\Z", section[found.start() :]):
        end = found.start() + line.end()
        with contextlib.suppress(tomllib.TOMLDecodeError):
            tomllib.loads(section[found.start() : end])
            return found.start(), end
    return found.start(), len(section)


def _section(text: str, table: str) -> tuple[int | None, int]:
    """Where a table's lines begin and end; for the top of the file, up to the first table."""
    begin: int | None = 0
    if table:
        head = re.search(rf"^[ \t]*\[[ \t]*{re.escape(table)}[ \t]*\][ \t]*(?:#.*)?$", text, re.MULTILINE)
        begin = head.end() if head else None
    following = _TABLE.search(text, begin or 0)
    return begin, following.start() if following else len(text)


def _toml(value: str | float | Sequence[str]) -> str:
    # What JSON writes is TOML, but for characters beyond U+FFFF if they are escaped, and for U+007F if it is not.
    text = json.dumps(value if isinstance(value, (str, int, float)) else list(value), ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")


def replace_file(path: Path, data: bytes) -> None:
    """Put a file, readable for this user alone, in the place of one; raises `OSError`. Its folder is made if needed."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # By chance: what a process of the same number has left that was killed is in nobody's way.
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        # On a disk that is nearly full the system may write a part and call that well.
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
