from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.intents import LaunchCell, LaunchRun
from kagura_kernel.domain.errors import UsageError

UNWRITABLE = "half \ud800"


def test_what_no_text_can_hold_is_refused_before_anything_begins(
    cockpit_with: Callable[..., Cockpit], project: Path
) -> None:
    cockpit = cockpit_with()
    for intent in (LaunchRun(task=UNWRITABLE, project=project), LaunchCell(code=UNWRITABLE, project=project)):
        with pytest.raises(UsageError, match="no text in UTF-8"):
            cockpit.launch(intent)
    assert cockpit.runs() == []
