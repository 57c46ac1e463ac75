"""What differs from run to run and from machine to machine, taken out of a text; and data as text that can be read."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

_ID = re.compile(r"\b(run|ses|box|app|call|lea|mem|con|jail)-([0-9abcdefghjkmnpqrstvwxyz]{14})\b")
_DIGEST = re.compile(r"\b[0-9a-f]{32,128}\b")
_OWNER = re.compile(r"\b[\w.-]+:\d+:\d+\.[0-9a-f]+\.\d+\b")
_LESSON = re.compile(r"\bmem-([a-z]+)-[0-9a-f]{24}\b")
_BOX = re.compile(r"[^\s\"'(]*/kagura-host-[a-z0-9_-]+")
_SCOPE = re.compile(r"\bproject:([\w.-]+)-[0-9a-f]{8}\b")
_PORT = re.compile(r"\b127\.0\.0\.1:\d+")
_PLANTED = re.compile(r'"injectionAttempts":\s+\[.*?\]', re.DOTALL)
_UUID = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b")
_ROW = re.compile(r"^- (\S+):\n(?:    .*\n){4,}", re.MULTILINE)
_WHEN = re.compile(r"^    at: '(.*)'\n", re.MULTILINE)
_STYLE = re.compile(r"(<style\b[^>]*>).*?(</style>)", re.DOTALL)


class Plain:
    """Takes out of texts what nobody could compare.

    Ids and digests are numbered as they appear in each text, so that what is equal stays equal.

    Args:
        names: What stands for what: paths, ids with a name.
        port: That of the one service.
    """

    def __init__(self, names: Mapping[str, str], port: int) -> None:
        self.names = dict(names)
        self._port = port

    def __call__(self, text: str) -> str:
        """The text as it can be kept."""
        # The longest first: a folder lies in another one.
        for name in sorted(self.names, key=len, reverse=True):
            text = text.replace(name, self.names[name])
        # Which traps are laid for an auditor is left to chance.
        text = _PLANTED.sub('"injectionAttempts": "the planted ones"', text)
        seen: dict[str, str] = {}
        counts: dict[str, int] = {}

        def numbered(kind: str, found: str) -> str:
            if found not in seen:
                counts[kind] = counts.get(kind, 0) + 1
                seen[found] = f"{kind}-{counts[kind]}"
            return seen[found]

        text = _ID.sub(lambda found: numbered(found[1], found[0]), text)
        text = _LESSON.sub(
            lambda found: numbered(f"mem-{found[1]}", found[0]), _BOX.sub("<box>", _OWNER.sub("<owner>", text))
        )
        text = _SCOPE.sub(r"project:\1-<digest>", _PORT.sub("127.0.0.1:<port>", text))
        text = _UUID.sub(lambda found: numbered("uuid", found[0]), text)
        text = _DIGEST.sub(lambda found: numbered("digest", found[0]), text)
        return re.sub(rf"\b{self._port}\b", "<port>", text)


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes texts of several lines as such."""


def _text(dumper: Any, text: str) -> Any:
    # YAML has no block for a text with blanks at the end of a line.
    lines = "\n" in text and not re.search(r"[ \t]\n|[ \t]$|^\s|[^\x20-\x7e\n\u00a0-\ud7ff]", text)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if lines else None)


_Dumper.add_representer(str, _text)


def data(value: Any) -> str:
    """JSON data as text, sorted by name."""
    return str(
        yaml.dump(json.loads(json.dumps(value)), Dumper=_Dumper, sort_keys=True, allow_unicode=True, width=10**6)
    )


FEW = 6
"""Records of a list that are shown: those that follow are made of other rows in the same way."""


def few(value: Any) -> Any:
    """JSON data, with the first `FEW` records of each list, and how many follow."""
    if isinstance(value, dict):
        return {name: few(one) for name, one in value.items()}
    if not isinstance(value, list):
        return value
    records = len(value) > FEW and all(isinstance(one, dict) for one in value)
    return [*map(few, value[:FEW]), f"and {len(value) - FEW} more"] if records else [few(one) for one in value]


def readable(text: str) -> str:
    """JSON, or lines of it, as text that can be read, shortened as `few` says; anything else as it is."""
    if text[:1] not in {"{", "["}:
        return text
    try:
        return data(few(json.loads(text)))
    except ValueError:
        pass
    try:
        lines = [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return text
    return f"{len(lines)} lines, the first of them:\n{data(lines[:FEW])}"


def once(text: str, name: str, known: dict[str, str]) -> str:
    """Rows of a run as text, of which those that an earlier run has in the same words, but for the time, are named.

    Args:
        text: The rows, as `data` writes them.
        name: The run.
        known: The first run that has each; new ones are added.
    """

    def told(found: re.Match[str]) -> str:
        kind, at = found[1], _WHEN.search(found[0])
        if at is None:
            return found[0]
        first = known.setdefault(found[0].replace(at[0], ""), name)
        return found[0] if first == name else f"- {kind}: as in {first}, at {at[1]}\n"

    return _ROW.sub(told, text)


def sections(parts: Iterable[tuple[str, str]]) -> str:
    """Several texts as one, each with a head."""
    return "\n".join(f"=== {head}\n{text.rstrip()}\n" for head, text in parts)


def markup(text: str) -> str:
    """HTML with a line for each element, without the style sheet that every card brings along."""
    text = _STYLE.sub(r"\1\2", text)
    return re.sub(r">(?=<)", ">\n", text)


def bundle(data_by_type: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> dict[str, str]:
    """What a cell shows, by the ending of the file that keeps it."""
    found: dict[str, str] = {}
    rest: dict[str, Any] = {}
    for kind, content in data_by_type.items():
        if kind == "text/plain":
            found["txt"] = content
        elif kind == "text/html":
            found["html"] = markup(content)
        elif kind != "application/vnd.jupyter.widget-view+json":
            rest[kind] = content
    if metadata:
        rest["metadata"] = metadata
    if rest:
        found["yaml"] = data(rest)
    return found


def words(text: str) -> str:
    """What can be read of HTML."""
    return html.unescape(re.sub(r"<[^>]+>", " ", _STYLE.sub("", text)))
