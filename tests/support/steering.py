"""A `%kagura` line for a cockpit of a test's own."""

from typing import Any

import pytest

from kagura_kernel import assembly
from kagura_kernel.jupyter.steering import run_line


def steer(cockpit: Any, shell: Any, line: str) -> Any:
    """Carry the line out; returns its value, if it has one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembly, "get_cockpit", lambda: cockpit)
        return run_line(shell, line)
