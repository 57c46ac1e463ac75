"""Whether a text is what its form says."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from configparser import RawConfigParser
from typing import Any
from xml.etree import ElementTree as ET

import yaml

from tests.support.redaction_corpus.sample import Form

_ENV_LINE = re.compile(r"(?:export )?[A-Za-z_]\w*=(?:'[^']*'|\"(?:[^\"\\]|\\.)*\"|[^'\"]*)")


def _env(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    if wrong := [line for line in lines if not _ENV_LINE.fullmatch(line)]:
        raise ValueError(f"{len(wrong)} lines assign nothing")
    return [line.partition("=")[0] for line in lines]


def _ini(text: str) -> list[str]:
    parser = RawConfigParser()
    parser.read_string(text)
    return parser.sections()


_READERS: Mapping[str, Callable[[str], Any]] = {
    "json": json.loads,
    "ipynb": json.loads,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
    "toml": tomllib.loads,
    "xml": lambda text: _outline(ET.fromstring(text)),
    "env": _env,
    "ini": _ini,
}


def _outline(element: ET.Element) -> list[Any]:
    return [element.tag, sorted(element.attrib), [_outline(child) for child in element]]


def read(text: str, form: Form) -> Any:
    """What the text holds; None for a text that nothing parses.

    Raises:
        Exception: It does not parse; the parser's own.
    """
    return _READERS[form](text) if form else None


def shape(value: Any) -> Any:
    """Its keys and their order, its lists and their lengths: what redaction leaves as it was."""
    match value:
        case dict():
            return [(key, shape(part)) for key, part in value.items()]
        case list():
            return [shape(part) for part in value]
        case _:
            return None
