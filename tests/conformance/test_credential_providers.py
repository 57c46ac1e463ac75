"""The real providers with their real client libraries, towards services on the loopback."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import ClassVar

import pytest

from kagura_kernel.testing.conformance.credentials import ProviderConformance, ask
from kagura_kernel.testing.credential_service import ProviderRig
from tests.support.credential_rigs import aws_rig, cloudflare_rig, gcp_rig, github_rig, memory_cloud_rig


class Provided(ProviderConformance):
    rig_of: ClassVar[Callable[[], AbstractContextManager[ProviderRig]]]

    @pytest.fixture
    def rig(self) -> Iterator[ProviderRig]:
        with type(self).rig_of() as rig:
            yield rig


class TestCloudflare(Provided):
    rig_of = cloudflare_rig


class TestGitHubApp(Provided):
    rig_of = github_rig


class TestMemoryCloud(Provided):
    rig_of = memory_cloud_rig


class TestGoogleCloud(Provided):
    rig_of = gcp_rig


@pytest.mark.skipif(find_spec("moto") is None, reason="moto is not installed")
class TestAwsSts(Provided):
    rig_of = aws_rig


@pytest.mark.parametrize("rig_of", [cloudflare_rig, gcp_rig, aws_rig], ids=["httpx", "google-auth", "boto3"])
async def test_what_stays_on_this_machine_goes_through_no_proxy_of_it(
    rig_of: Callable[[], AbstractContextManager[ProviderRig]], monkeypatch: pytest.MonkeyPatch
) -> None:
    if rig_of is aws_rig:
        pytest.importorskip("moto")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with rig_of() as rig:
        assert (await rig.provider().mint(ask())).lives > 0
