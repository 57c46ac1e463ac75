from pathlib import Path

import pytest


@pytest.fixture
def root(project: Path) -> Path:
    """The project whose files are read and written."""
    return project
