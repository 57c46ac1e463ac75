"""The texts that a toolset is given, each with its place: what is shown to people and enters the box as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kagura_kernel.kit.definitions.problems import shown_key

_KEYS = ("args", "env", "headers", "url")


class Given(NamedTuple):
    """One text.

    Attributes:
        place: `env.TOKEN`, `args[1]`.
        name: What its value is called, `TOKEN`; of an argument and a URL nothing better than the key.
        text: The value.
    """

    place: str
    name: str
    text: str


def given_texts(toolset: Mapping[str, Any]) -> Iterator[Given]:
    """The texts in a toolset's fields; what is of another kind than it should be is passed over."""
    for key in _KEYS:
        value = toolset.get(key)
        if isinstance(value, Mapping):
            for name, text in value.items():
                if isinstance(text, str):
                    yield Given(f"{key}.{shown_key(str(name))}", str(name), text)
        elif isinstance(value, list | tuple):
            for at, text in enumerate(value):
                if isinstance(text, str):
                    yield Given(f"{key}[{at}]", key, text)
        elif isinstance(value, str):
            yield Given(key, key, value)
