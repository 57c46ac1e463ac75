"""The real providers with their real client libraries, towards services on the loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kagura_kernel.testing.conformance.credentials import ProviderConformance
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
