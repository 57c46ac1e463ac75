"""The user's settings, checked by everything that they speak of."""

from __future__ import annotations

from collections.abc import Mapping

from kagura_kernel.assembly.brains import check_endpoints
from kagura_kernel.assembly.logs import check_log
from kagura_kernel.assembly.memories import check_memory
from kagura_kernel.assembly.telemetry import check_telemetry
from kagura_kernel.domain.settings import Problem, Settings, parse_settings
from kagura_kernel.journal.place import read_settings
from kagura_kernel.membrane.settings import check_settings


def load_settings(environ: Mapping[str, str]) -> Settings:
    """The user's settings: `KAGURA_CONFIG` or the usual place for configuration, overridden by `KAGURA_…` variables.

    Where memories are kept is looked at by who needs it: one that cannot be had is `MemoryUnavailable`, whatever the
    reason.

    Raises:
        ConfigurationError: with every problem.
    """
    return read_settings(environ, _problems)


def check_settings_text(text: str, source: str) -> None:
    """Return when a file of settings with this text would be right, whatever variables say.

    Args:
        text: TOML.
        source: Where it is to stand, for errors.

    Raises:
        ConfigurationError: with every problem.
    """
    parse_settings(text, {}, source, lambda settings: [*_problems(settings), *check_memory(settings)])


def _problems(settings: Settings) -> list[Problem]:
    problems = [
        *check_settings(settings),
        *check_endpoints(settings),
        *check_telemetry(settings),
        *check_log(settings),
    ]
    if settings.transports:
        from kagura_kernel.assembly.transports import check_transports

        problems += check_transports(settings)
    return problems
