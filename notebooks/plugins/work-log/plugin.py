"""Adds lines to one log file of the project, and reads them back."""

from collections.abc import Callable, Mapping
from typing import Any

from kagura_plugin.arguments import Config, text_of
from kagura_plugin.reading import ReadJail
from kagura_plugin.writing import WriteJail

SCHEMA = {
    "folder": {"type": "string", "description": "The directory of the log", "promptKey": True},
    "longest": {"type": "number", "description": "Letters of a line at most", "default": 200, "minimum": 1},
}

NAME = "log.md"


def create_host_functions(config: Mapping[str, Any]) -> dict[str, dict[str, Callable[..., Any]]]:
    """The module `work_log` for one configured directory."""
    given = Config(config)
    folder = given.text("folder")
    longest = given.whole("longest", 200, least=1, most=1000)
    log, shelf = WriteJail(folder), ReadJail(folder)

    def add(text: str) -> dict[str, int]:
        """Add a line: {lines}, how many there are then."""
        line = " ".join(text_of("text", text, most=longest).split())
        log.append(NAME, f"- {line}\n")
        return {"lines": len(lines()["lines"])}

    def lines() -> dict[str, list[str]]:
        """All lines: {lines}."""
        return {"lines": shelf.text(NAME)["text"].splitlines()}

    return {"work_log": {"add": add, "lines": lines}}
