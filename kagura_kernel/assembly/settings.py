"""The user's settings, checked by everything that they speak of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from kagura_kernel.assembly.brains import check_endpoints
from kagura_kernel.assembly.memories import check_memory
from kagura_kernel.assembly.places import redactor_of
from kagura_kernel.assembly.telemetry import check_telemetry
from kagura_kernel.domain.settings import Problem, Settings, parse_settings
from kagura_kernel.journal.place import read_settings
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.membrane.credentials.secret import live_secrets
from kagura_kernel.membrane.grant import check_settings
from kagura_kernel.runs.redacting import Redacting
from kagura_kernel.telemetry.logs import StructuredLog, problem_with_place


def check_log(settings: Settings) -> list[Problem]:
    """What keeps the log from being where the settings want it."""
    problem = problem_with_place(settings.log_place)
    return [("log_place", problem)] if problem else []


def open_log(settings: Settings, home: Path) -> StructuredLog:
    """The log, opened; the caller closes it."""
    log = StructuredLog(settings.log_place, settings.log_level, cleaner(home))
    log.open()
    return log


def cleaner(home: Path) -> Callable[[], Callable[[str], str]]:
    """What is called when something is about to be written, and gives what takes secrets out of it then and later."""
    redacting = Redacting(redactor_of(home))

    def now() -> Callable[[str], str]:
        # Whoever gives a secret back while this waits must not make it one that nobody knows.
        secrets = live_secrets()

        def clean(text: str) -> str:
            return redacting.text(Scrubber(lambda: secrets).scrub(text))

        return clean

    return now


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
    problems = [*check_settings(settings), *check_endpoints(settings), *check_telemetry(settings), *check_log(settings)]
    if settings.transports:
        from kagura_kernel.assembly.transports import check_transports

        problems += check_transports(settings)
    return problems
