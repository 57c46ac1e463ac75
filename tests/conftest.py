"""Every test runs under the guards that ship with the package."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

pytest_plugins = ["kagura_kernel.testing.guards", "kagura_kernel.testing.fixtures_docker"]

# By itself hypothesis fails an example that takes 0.2 s, which says more about the machine than about the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def no_cockpit_left_open() -> Iterator[None]:
    """The one cockpit of a process is closed by the test that has opened it: its log would take what later ones say."""
    yield
    assembly = sys.modules.get("kagura_kernel.assembly")
    if assembly is not None and assembly._cockpit is not None:
        assembly.close_cockpit()
        pytest.fail("This test has left the cockpit of the process open. It has to call close_cockpit().")
