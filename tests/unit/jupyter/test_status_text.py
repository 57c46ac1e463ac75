from __future__ import annotations

from kagura_kernel.cockpit.status import PartStatus, StatusReport
from kagura_kernel.jupyter.status import status_text


def test_what_else_was_configured_stands_in_the_status():
    parts = (
        PartStatus("telemetry", ok=True, reason="to http://localhost:4318: 2 batches sent"),
        PartStatus("brain small", ok=False, reason="of house 1.0: the name is built in\x1b[2J"),
    )
    lines = status_text(StatusReport(others=parts)).splitlines()
    assert "also      telemetry    ready  to http://localhost:4318: 2 batches sent." in lines
    [broken] = [line for line in lines if "brain small" in line]
    assert " no " in broken
    assert "\x1b" not in broken
