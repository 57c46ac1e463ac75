"""The play is played once, by whichever test asks for it first."""

import tempfile
from pathlib import Path

import pytest

from tests.goldens.play import Played, play


@pytest.fixture(scope="session")
def played() -> Played:
    """What was seen."""
    # Columns are as wide as the paths in them, so the stage's has the same length wherever the tests' own folder lies.
    with tempfile.TemporaryDirectory(prefix="kagura-stage-", dir="/tmp") as folder:
        return play(Path(folder))
