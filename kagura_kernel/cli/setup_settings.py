"""Writes single settings into this person's file: what else stands there, remarks included, stays as it is."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from kagura_kernel.domain.errors import ConfigurationError

_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)


def write_setting(environ: Mapping[str, str], name: str, value: str, *, table: str = "") -> Path:
    """Set one text, and say where it was written; the file is made for this user alone where there is none.

    Args:
        environ: Says which file; a variable that overrides the setting is not touched.
        name: Of the setting.
        value: What it is to be.
        table: In which table it stands, such as `endpoints.mine`; empty for none.

    Raises:
        ConfigurationError: the file cannot be used, or would not be right with it; then nothing was written.
    """
    from kagura_kernel.assembly import check_settings_text
    from kagura_kernel.journal.place import settings_file, text_of

    path = settings_file(environ)
    text = text_of(path) if path.exists() else ""
    changed = with_setting(text, name, value, table=table)
    check_settings_text(changed, str(path))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(path, changed)
    except OSError as error:
        raise ConfigurationError(str(path), [f"it cannot be written: {(error.strerror or '').lower()}"]) from error
    return path


def with_setting(text: str, name: str, value: str, *, table: str = "") -> str:
    """A TOML text with this setting in it, in place of the one that stood there. Pure."""
    line = f"{name} = {_quoted(value)}"
    begin, end = _section(text, table)
    if begin is None:
        gap = "\n" if text and not text.endswith("\n\n") else ""
        return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{gap}[{table}]\n{line}\n"
    section = text[begin:end]
    # A value over several lines is an array or a long text; none of the settings that are written here is one.
    found = re.compile(rf"^[ \t]*{re.escape(name)}[ \t]*=.*$", re.MULTILINE)
    if found.search(section):
        section = found.sub(lambda _: line, section, count=1)
    elif table:
        section = f"\n{line}{section}"
    else:
        kept = section.rstrip("\n")
        gap = "\n" if end < len(text) else ""
        section = f"{kept}\n{line}\n{gap}" if kept else f"{line}\n{gap}"
    return text[:begin] + section + text[end:]


def _section(text: str, table: str) -> tuple[int | None, int]:
    """Where a table's lines begin and end; for the top of the file, up to the first table."""
    begin: int | None = 0
    if table:
        head = re.search(rf"^[ \t]*\[[ \t]*{re.escape(table)}[ \t]*\][ \t]*(?:#.*)?$", text, re.MULTILINE)
        begin = head.end() if head else None
    following = _TABLE.search(text, begin or 0)
    return begin, following.start() if following else len(text)


def _quoted(value: str) -> str:
    # Every escape of JSON is one of TOML's basic strings.
    return json.dumps(value)


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(file, text.encode())
        os.fsync(file)
    finally:
        os.close(file)
    beside.replace(path)
