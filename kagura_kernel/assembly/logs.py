"""The log of this process: where the settings want it, without any secret that is held here or looks like one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kagura_kernel.assembly.places import redactor_of
from kagura_kernel.domain.settings import Problem, Settings
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.membrane.credentials.secret import live_secrets
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
