"""The real providers with their real client libraries, towards services on the loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from kagura_kernel.testing.conformance.credentials import ProviderConformance, ask
from kagura_kernel.testing.credential_service import ProviderRig
from tests.support.credential_rigs import aws_rig, cloudflare_rig, gcp_rig, github_rig, memory_cloud_rig


class TestCloudflare(ProviderConformance):
    @pytest.fixture
    def rig(self) -> Iterator[ProviderRig]:
        with cloudflare_rig() as rig:
            yield rig


class TestGitHubApp(ProviderConformance):
    @pytest.fixture
    def rig(self) -> Iterator[ProviderRig]:
        with github_rig() as rig:
            yield rig


class TestMemoryCloud(ProviderConformance):
    @pytest.fixture
    def rig(self) -> Iterator[ProviderRig]:
        with memory_cloud_rig() as rig:
            yield rig


class TestGoogleCloud(ProviderConformance):
    @pytest.fixture
    def rig(self) -> Iterator[ProviderRig]:
        with gcp_rig() as rig:
            yield rig


class TestAwsSts(ProviderConformance):
    @pytest.fixture
    def rig(self) -> Iterator[ProviderRig]:
        pytest.importorskip("moto")
        with aws_rig() as rig:
            yield rig


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
