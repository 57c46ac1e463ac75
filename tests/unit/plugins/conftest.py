from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.plugin_rig import PluginRig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[PluginRig]:
    rig = PluginRig(tmp_path)
    yield rig
    await rig.close()
    assert rig.jails.open == []
