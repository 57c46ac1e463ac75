"""Whether runs are told to a collector, and how: settings become one subscriber of the journal, or none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.assembly.places import redactor_of
from kagura_kernel.cockpit.status import PartStatus
from kagura_kernel.domain.settings import Problem, Settings
from kagura_kernel.runs.redacting import Redacting

if TYPE_CHECKING:
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
