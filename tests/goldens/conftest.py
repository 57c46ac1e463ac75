"""The play is played once, by whichever test asks for it first."""

from __future__ import annotations

import pytest

from tests.goldens.play import Played, play


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """What was seen."""
    return play(tmp_path_factory.mktemp("stage"))
