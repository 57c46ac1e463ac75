"""The user's settings, checked by everything that they speak of; log, telemetry and credential providers by them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.assembly.brains import check_endpoints
from kagura_kernel.assembly.memories import check_memory
from kagura_kernel.assembly.places import redactor_of
from kagura_kernel.cockpit.status import PartStatus
from kagura_kernel.domain.settings import NOTHING_SHARED, Problem, Settings, SharedSettings, parse_settings
from kagura_kernel.journal.place import read_settings, settings_file, text_of
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.membrane.credentials.secret import SecretReader, live_secrets
from kagura_kernel.membrane.grant import check_settings
from kagura_kernel.telemetry.logs import StructuredLog, problem_with_place

if TYPE_CHECKING:
    from kagura_kernel.membrane.credentials.provider import CredentialProvider
    from kagura_kernel.membrane.credentials.registry import Registry
    from kagura_kernel.telemetry.telemetry import Telemetry


def check_telemetry(settings: Settings) -> list[Problem]:
    """What keeps telemetry that is wanted from being sent."""
    if not is_wanted(settings):
        return []
    from kagura_kernel.telemetry.telemetry import problems

    return [("telemetry", problem) for problem in problems()]


def is_wanted(settings: Settings) -> bool:
    """Whether anything is to be told; OpenTelemetry's own switch for everything in a process counts, too."""
    return settings.telemetry and os.environ.get("OTEL_SDK_DISABLED", "").lower() != "true"


def open_telemetry(settings: Settings, home: Path) -> Telemetry | None:
    """What tells of the events of this process; None where nothing is to be told. The caller closes it."""
    if not is_wanted(settings):
        return None
    from importlib.metadata import version

    from kagura_kernel.runs.redaction import Redacting
    from kagura_kernel.telemetry.telemetry import Telemetry

    # What the journal holds is redacted. Done once more, no mistake of whoever stored something leaves this machine.
    content = Redacting(redactor_of(home)).text if settings.telemetry_content else None
    telemetry = Telemetry(version("kagura-kernel"), content=content)
    telemetry.warm()
    return telemetry


def telemetry_status(telemetry: Telemetry | None) -> PartStatus | None:
    """How it goes; None where nothing is told."""
    if telemetry is None:
        return None
    report = telemetry.report()
    return PartStatus("telemetry", report.ok, report.reason)


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
    from kagura_kernel.runs.redaction import Redacting

    redacting = Redacting(redactor_of(home))

    def now() -> Callable[[str], str]:
        # Whoever gives a secret back while this waits must not make it one that nobody knows.
        secrets = live_secrets()

        def clean(text: str) -> str:
            return redacting.text(Scrubber(lambda: secrets).scrub(text))

        return clean

    return now


def load_settings(environ: Mapping[str, str], *, logs: bool = True) -> Settings:
    """The settings in `KAGURA_CONFIG` or the usual place, overridden by `KAGURA_…` variables, over the shared ones.

    Where memories are kept is looked at by who needs it: one that cannot be had is `MemoryUnavailable`, whatever the
    reason. So is the place of the log by a caller that does not log.

    Raises:
        ConfigurationError: with every problem.
    """
    return read_settings(environ, lambda settings: [*_problems(settings), *(check_log(settings) if logs else ())])


def check_settings_text(text: str, source: str, shared: SharedSettings = NOTHING_SHARED) -> None:
    """Return when a file of settings with this text would be right, whatever variables say.

    Raises:
        ConfigurationError: with every problem.
    """
    parse_settings(
        text, {}, source, lambda settings: [*_problems(settings), *check_log(settings), *check_memory(settings)], shared
    )


def _problems(settings: Settings) -> list[Problem]:
    problems = [*check_settings(settings), *check_endpoints(settings), *check_telemetry(settings)]
    if settings.transports:
        from kagura_kernel.assembly.transports import check_transports

        problems += check_transports(settings)
    return problems


def providers_file(environ: Mapping[str, str]) -> Path:
    """Where the user's credential providers are written down; it need not be there."""
    return settings_file(environ).with_name("credentials.toml")


def load_registry(environ: Mapping[str, str]) -> Registry:
    """The user's credential providers, from `credentials.toml` beside the settings; empty where there is none.

    Raises:
        ConfigurationError: with every problem; values are never repeated.
    """
    path = providers_file(environ)
    from kagura_kernel.membrane.credentials.registry import Registry, parse_registry

    if not path.exists():
        return Registry(source=str(path))

    return parse_registry(text_of(path), SecretReader(environ), str(path))


def kept_registry(environ: Mapping[str, str]) -> Callable[[], Registry]:
    """Reads the credential providers when they are first needed, and anew when their file has changed since.

    What is made raises as `load_registry`, for as long as the file is wrong.
    """
    path = providers_file(environ)

    @lru_cache(maxsize=1)
    def read(stamp: tuple[int, ...]) -> Registry:
        del stamp
        return load_registry(environ)

    def registry() -> Registry:
        try:
            found = path.stat()
        except OSError:
            return read(())
        return read((found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))

    return registry


def load_providers(environ: Mapping[str, str]) -> Mapping[str, CredentialProvider]:
    """Where the user's credentials come from, by name; raises as `load_registry`."""
    # Most people have none, and what reads them takes a while to import.
    return load_registry(environ).providers if providers_file(environ).exists() else {}
