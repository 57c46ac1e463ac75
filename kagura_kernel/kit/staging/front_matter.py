"""The front matter of a SKILL.md: what a skill is called and when it is of use. Forgiving, and never surprised."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from kagura_kernel.kit.definitions.wording import unseen

MAX_BYTES = 64 << 10
"""As much of a SKILL.md as is looked at for its front matter."""
MAX_DESCRIPTION = 1024
_MAX_DEPTH = 16
_NOTHING = ("", "~", "null")

_FENCE = re.compile(r"\A\s*---[ \t]*\r?\n(?P<matter>.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^(?P<name>name|description)[ \t]*:[ \t]*(?P<value>.*)$", re.MULTILINE)
_HEADING = re.compile(r"^(?:#.*|\s*)$")
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What a SKILL.md says of its skill.

    Attributes:
        name: As it is written; empty where it says none.
        description: One line, bounded; the first paragraph where it says none.
    """

    name: str
    description: str = field(repr=False)


def read_front_matter(data: bytes) -> FrontMatter:
    """The front matter at the beginning of a SKILL.md; a text without one is taken for what it says first."""
    text = _text(data)
    fence = _FENCE.match(text)
    if fence is None:
        return FrontMatter("", one_line(_first_paragraph(text)))
    fields = _fields(fence["matter"])
    name, description = fields.get("name"), fields.get("description")
    return FrontMatter(
        name=name.strip() if _says(name) else "",
        description=one_line(description if _says(description) else _first_paragraph(text[fence.end() :])),
    )


def _says(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value.strip() not in _NOTHING


def one_line(text: str) -> str:
    """A text as one line without what nobody would see, at most as long as a description may be."""
    line = " ".join("".join(" " if unseen(sign) else sign for sign in text[: MAX_DESCRIPTION * 4]).split())
    return line if len(line) <= MAX_DESCRIPTION else f"{line[: MAX_DESCRIPTION - 1]}…"


def _text(data: bytes) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    try:
        # The piece that is looked at may end in the middle of a character.
        return codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _fields(matter: str) -> dict[str, Any]:
    """The fields of the matter as YAML; line by line where it is not, since many descriptions hold a bare colon."""
    import yaml

    # Every value is a text, whatever it looks like or is said to be: nothing of it is made into something else.
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        if not _is_flat(yaml.parse(matter, loader)):
            return _line_by_line(matter)
        fields = yaml.load(matter, loader)  # noqa: S506 - it makes texts, lists and mappings alone
    except (yaml.YAMLError, ValueError, RecursionError):
        return _line_by_line(matter)
    return fields if isinstance(fields, dict) else _line_by_line(matter)


def _is_flat(events: Iterable[Any]) -> bool:
    """Whether a matter repeats nothing and does not lie deep: the library in C would end the process over depth."""
    import yaml

    depth = 0
    for event in events:
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH or isinstance(event, yaml.AliasEvent):
            return False
    return True


def _line_by_line(matter: str) -> dict[str, Any]:
    return {found["name"]: found["value"].strip().strip("\"'") for found in _FIELD.finditer(matter)}


def _first_paragraph(text: str) -> str:
    lines: list[str] = []
    for line in text.splitlines():
        if not _HEADING.match(line):
            lines.append(line)
        elif lines:
            break
    return " ".join(lines)
