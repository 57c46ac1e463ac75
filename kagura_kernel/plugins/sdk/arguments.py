"""Checks of what guest code and a configuration hand in. Nothing is converted silently and nothing is trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .faults import ArgumentRefused, ConfigRefused, PluginFault

Refusal = type[PluginFault]

SHOWN = 80
"""Characters of a caller's text that an error repeats."""


def shown(text: str) -> str:
    """A caller's text as an error may repeat it: quoted, ASCII, cut."""
    return ascii(text if len(text) <= SHOWN else text[: SHOWN - 1] + "…")


def text_of(name: str, value: Any, *, most: int, fault: Refusal = ArgumentRefused) -> str:
    """A text of at most so many bytes in UTF-8.

    Raises `ArgumentRefused`: it is no text, too long, or holds half a character; or what `fault` says.
    """
    if not isinstance(value, str):
        raise fault(f"{name} must be a text, not {type(value).__name__}.")
    # Before it is encoded: a text of many times the bound need not be copied to be refused.
    if len(value) > most or len(encoded(name, value, fault)) > most:
        raise fault(f"{name} is longer than {most:,} bytes.")
    return value


def encoded(name: str, value: str, fault: Refusal = ArgumentRefused) -> bytes:
    """A text in UTF-8. Raises `ArgumentRefused`: it holds half a character (a lone surrogate); or what `fault` says."""
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise fault(f"{name} holds half a character, which UTF-8 cannot write.") from error


def whole_of(name: str, value: Any, *, least: int, most: int, fault: Refusal = ArgumentRefused) -> int:
    """A whole number in a range; `3.0` is one, `True` and `"3"` are none.

    Raises `ArgumentRefused`: it is none, or outside; or what `fault` says.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_whole(value):
        raise fault(f"{name} must be a whole number, not {type(value).__name__}.")
    if not least <= value <= most:
        raise fault(f"{name} must be from {least:,} to {most:,}.")
    return int(value)


def flag_of(name: str, value: Any, *, fault: Refusal = ArgumentRefused) -> bool:
    """A truth value. Raises `ArgumentRefused`: it is anything else; or what `fault` says."""
    if not isinstance(value, bool):
        raise fault(f"{name} must be true or false, not {type(value).__name__}.")
    return value


def items_of(name: str, value: Any, *, most: int, fault: Refusal = ArgumentRefused) -> list[Any]:
    """A list of at most so many things. Raises `ArgumentRefused`: it is none, or too long; or what `fault` says."""
    if not isinstance(value, list | tuple):
        raise fault(f"{name} must be a list, not {type(value).__name__}.")
    if len(value) > most:
        raise fault(f"{name} holds more than {most:,} things.")
    return list(value)


class Config:
    """A plugin's configuration, read with checks; every mistake is the person's to mend and is told as one."""

    def __init__(self, values: Mapping[str, Any] | None) -> None:
        self._values = dict(values or {})

    def text(self, name: str, default: str | None = None, *, most: int = 4096) -> str:
        """A text that is not empty. Raises `ConfigRefused`: it is missing, empty, too long or no text."""
        value = text_of(name, self._get(name, default), most=most, fault=ConfigRefused)
        if not value:
            raise ConfigRefused(f"{name} is empty.")
        return value

    def whole(self, name: str, default: int, *, least: int, most: int) -> int:
        """A whole number in a range. Raises `ConfigRefused`: it is none, or outside."""
        return whole_of(name, self._get(name, default), least=least, most=most, fault=ConfigRefused)

    def texts(self, name: str, default: tuple[str, ...] | None = None, *, most: int = 256) -> tuple[str, ...]:
        """A list of texts, at least one. Raises `ConfigRefused`: it is missing, empty or no such list."""
        found = items_of(name, self._get(name, default), most=most, fault=ConfigRefused)
        if not found:
            raise ConfigRefused(f"{name} is empty.")
        return tuple(text_of(f"each of {name}", one, most=4096, fault=ConfigRefused) for one in found)

    def _get(self, name: str, default: Any) -> Any:
        value = self._values.get(name, default)
        if value is None:
            raise ConfigRefused(f"{name} is not configured.")
        return value


def _is_whole(value: float) -> bool:
    # Neither infinity nor what is no number has a whole part.
    return isinstance(value, int) or value.is_integer()
