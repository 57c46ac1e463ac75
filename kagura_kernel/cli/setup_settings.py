"""How a person is asked while something is set up, and how a setting is written into their file."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kagura_kernel.assembly import check_settings_text
from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.journal.place import settings_file, text_of

KEYCHAIN = "kagura-kernel"
"""The service under which keys and tokens are kept in the keychain; the user name is the endpoint's, or the chat's and
the token's."""

_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)


Value = str | Sequence[str] | None
"""What a setting is to be: a text, a list of texts, or None to take it away."""


def write_setting(environ: Mapping[str, str], name: str, value: Value, *, table: str = "") -> Path:
    """Set one setting, as `write_settings` does."""
    return write_settings(environ, {name: value}, table=table)


def write_settings(environ: Mapping[str, str], values: Mapping[str, Value], *, table: str = "") -> Path:
    """Set what belongs together, all or nothing, and say where it was written.

    The file is made for this user alone where there is none.

    Args:
        environ: Says which file; a variable that overrides the setting is not touched.
        values: What each setting is to be.
        table: In which table they stand, such as `endpoints.mine`; empty for none.

    Raises:
        ConfigurationError: the file cannot be used, or would not be right with it; then nothing was written.
    """
    path = settings_file(environ)
    changed = text_of(path) if path.exists() else ""
    # Each goes to the head of its table, so that the first is the last to go there.
    for name, value in reversed(list(values.items())):
        changed = with_setting(changed, name, value, table=table)
    check_settings_text(changed, str(path))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, changed.encode())
    except OSError as error:
        raise ConfigurationError(str(path), [f"it cannot be written: {(error.strerror or '').lower()}"]) from error
    return path


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


def _toml(value: str | Sequence[str]) -> str:
    # What JSON writes is TOML, but for characters beyond U+FFFF if they are escaped, and for U+007F if it is not.
    text = json.dumps(value if isinstance(value, str) else list(value), ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")


def replace_file(path: Path, data: bytes) -> None:
    """Put a file, readable for this user alone, in the place of one; raises `OSError`."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(file, data)
        os.fsync(file)
    finally:
        os.close(file)
    beside.replace(path)


@dataclass(frozen=True, slots=True)
class Talk:
    """A talk with a person at a terminal."""

    ask: Callable[[str], str] = input  # Reads one answer; raises EOFError at the end of the input
    ask_secret: Callable[[str], str] = getpass.getpass  # Reads one that nobody sees
    say: Callable[[str], None] = print  # Prints

    def choose(self, question: str, ways: Sequence[str]) -> int:
        """Which of them; an empty answer is the first. What is none of them is asked again."""
        self.say(question)
        for number, way in enumerate(ways, 1):
            self.say(f"  {number}  {way}")
        while True:
            answer = self.ask(f"1 to {len(ways)} [1]: ").strip()
            if not answer:
                return 0
            if answer.isdecimal() and 1 <= int(answer) <= len(ways):
                return int(answer) - 1
            self.say("That is none of them.")

    def ask_until(self, question: str, problem: Callable[[str], str]) -> str:
        """An answer that has no problem; one that has is told, and asked for again. An empty answer is one."""
        while answer := self.ask(question).strip():
            if not (wrong := problem(answer)):
                return answer
            self.say(wrong)
        return ""
