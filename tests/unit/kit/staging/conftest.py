import pytest

from tests.support.kit_rig import HomeRig


@pytest.fixture
def rig(tmp_path):
    return HomeRig(tmp_path)
