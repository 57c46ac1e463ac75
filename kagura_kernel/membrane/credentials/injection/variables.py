"""The variables by which programs in a box find what was injected; safe to show, for they never hold a secret. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kagura_kernel.membrane.credentials.injection.settings import FileInjection, HeaderInjection, fill

GitSetting = tuple[str, str]
"""A key of git's configuration and its value."""

_COUNT = "GIT_CONFIG_COUNT"
_GIT = re.compile(r"GIT_CONFIG_(?:COUNT|KEY_\d+|VALUE_\d+)")
_MOST_GIT = 1000
_NO_NAME = re.compile(r"[^A-Z0-9]+")


def own_name(provider: str, scope: str, what: str) -> str:
    """The variable that every lease has, whoever else uses a program's own: `KAGURA_GITHUB_READ_URL`."""
    return "KAGURA_" + _NO_NAME.sub("_", f"{provider}_{scope}_{what}".upper())


def header_variables(injection: HeaderInjection, base: str) -> dict[str, str]:
    """Of one loopback URL.

    Args:
        injection: What stands behind it.
        base: The URL without a slash at its end.
    """
    found = {name: fill(template, {"url": base}) for name, template in injection.variables.items()}
    return found | git_variables(git_settings(injection, base))


def git_settings(injection: HeaderInjection, base: str) -> list[GitSetting]:
    """What makes git go to the loopback URL instead, and not through a proxy."""
    if not injection.git:
        return []
    moved = [(f"url.{base}/.insteadOf", beginning) for beginning in injection.git]
    return [*moved, (f"http.{base}/.proxy", "")]


def file_variables(injection: FileInjection, path: str) -> dict[str, str]:
    """Of one file."""
    return {name: fill(template, {"path": path}) for name, template in injection.variables.items()}


def git_variables(settings: Iterable[GitSetting]) -> dict[str, str]:
    """Settings of git as variables; empty for none."""
    listed = list(settings)
    if not listed:
        return {}
    found = {_COUNT: str(len(listed))}
    for number, (key, value) in enumerate(listed):
        found[f"GIT_CONFIG_KEY_{number}"] = key
        found[f"GIT_CONFIG_VALUE_{number}"] = value
    return found


def merge_variables(*sets: Mapping[str, str]) -> dict[str, str]:
    """All of them, the first one winning where two have the same name, and git's settings counted on.

    Git takes one place for the beginning of a remote, so there too the first one wins. A setting of git whose variables
    are not whole is left out.
    """
    merged: dict[str, str] = {}
    settings: list[GitSetting] = []
    moved: set[str] = set()
    for variables in sets:
        for key, value in _settings_in(variables):
            instead = key.lower().endswith(".insteadof")
            if (key, value) in settings or (instead and value in moved):
                continue
            settings.append((key, value))
            if instead:
                moved.add(value)
        for name, value in variables.items():
            if not _GIT.fullmatch(name):
                merged.setdefault(name, value)
    return merged | git_variables(settings)


def _settings_in(variables: Mapping[str, str]) -> list[GitSetting]:
    count = variables.get(_COUNT, "")
    if not count.isdecimal():
        return []
    pairs = (
        (variables.get(f"GIT_CONFIG_KEY_{number}"), variables.get(f"GIT_CONFIG_VALUE_{number}"))
        for number in range(min(int(count), _MOST_GIT))
    )
    return [(key, value) for key, value in pairs if key is not None and value is not None]
