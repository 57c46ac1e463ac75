"""Rows of `doctor` about what other packages bring, and about what watches runs: telemetry and the log."""

from __future__ import annotations

from collections.abc import Iterator

from kagura_kernel.cli.doctor_rows import FAIL, OK, WARN, Finding
from kagura_kernel.domain.settings import Settings


def extension_findings(settings: Settings) -> Iterator[Finding]:
    """A row for each extension, which is loaded for it, and what the settings say of watching.

    Args:
        settings: The user's; what they name has to work.
    """
    from kagura_kernel.assembly.extensions import tried

    named = {f"brain {settings.brain}", f"back-end {settings.box}", *(f"tool {name}" for name in settings.own_tools)}
    named |= {f"memory {settings.memory.partition('://')[0]}", *(f"transport {name}" for name in settings.transports)}
    for part in tried():
        package = part.reason.removeprefix("of ").split(" ")[0]
        then = "" if part.ok else f"mend it, or `pip uninstall {package}`"
        yield Finding(part.name, OK if part.ok else FAIL if part.name in named else WARN, part.reason, then)
    yield _telemetry(settings)
    yield Finding("log", OK, f"{settings.log_level} and above, to {settings.log_place or 'standard error'}")


def _telemetry(settings: Settings) -> Finding:
    from kagura_kernel.assembly.telemetry import is_wanted

    if not is_wanted(settings):
        return Finding("telemetry", OK, "off")
    from kagura_kernel.telemetry.telemetry import endpoint

    words = "with tasks and answers" if settings.telemetry_content else "without any word of a run"
    where = endpoint()
    if not _answers(where):
        then = "start the collector, or set OTEL_EXPORTER_OTLP_ENDPOINT to one that runs"
        return Finding("telemetry", WARN, f"on, {words}: nobody answers at {where}", then)
    return Finding("telemetry", OK, f"on, {words}: to {where}")


def _answers(where: str) -> bool:
    """Whether somebody listens there; nothing is sent."""
    import socket
    from urllib.parse import urlsplit

    parts = urlsplit(where)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), timeout=1.0):
            return True
    except OSError:
        return False
