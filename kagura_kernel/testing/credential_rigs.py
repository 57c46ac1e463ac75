"""Every real provider beside the fake it is tested against: what the conformance suite and the tests of leases need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.membrane.credentials.grants import Scope
from kagura_kernel.membrane.credentials.provider import CredentialProvider
from kagura_kernel.membrane.credentials.providers import aws_sts, cloudflare, gcp, github_app, memory_cloud
from kagura_kernel.membrane.credentials.secret_reference import SecretReader, SecretReference
from kagura_kernel.testing import (
    credential_cloudflare,
    credential_gcp,
    credential_github,
    credential_keys,
    credential_memory_cloud,
)
from kagura_kernel.testing.credential_service import LoopbackService

SCOPE = Scope("read")
PATIENCE = 30.0
_SYSTEM = SystemClock()
Make = Callable[[SecretReader, Clock, float], CredentialProvider]


@dataclass(frozen=True, slots=True)
class ProviderRig:
    """A provider and its service.

    Attributes:
        service: The fake, running.
        live: What works now by the service's own books: names by values.
        make: The provider with a reader, a clock and a time-out.
        secrets: The right secrets, by variable.
        wrong: Secrets that look right and are not.
        shown: The part of a credential by which the books know it.
    """

    service: LoopbackService
    live: Callable[[], dict[str, str]]
    make: Make
    secrets: dict[str, str]
    wrong: dict[str, str]
    shown: str = "token"

    def provider(
        self, *, clock: Clock = _SYSTEM, timeout: float = PATIENCE, wrong_key: bool = False
    ) -> CredentialProvider:
        """The provider, with the right key unless a wrong one is asked for."""
        return self.make(SecretReader(self.wrong if wrong_key else self.secrets), clock, timeout)


@contextmanager
def cloudflare_rig() -> Iterator[ProviderRig]:
    """Cloudflare."""
    with credential_cloudflare.FakeCloudflare() as service:
        yield ProviderRig(
            service,
            service.live,
            lambda reader, clock, timeout: cloudflare_provider(service.url, reader, clock=clock, timeout=timeout),
            {"KEY": credential_cloudflare.PARENT},
            {"KEY": "cf-wrong-" + "9" * 30},
        )


def cloudflare_provider(
    url: str, reader: SecretReader, *, clock: Clock = _SYSTEM, timeout: float = PATIENCE
) -> CredentialProvider:
    """The real provider, towards a fake."""
    scope = {"permission_groups": ["dns-read"], "resources": {"com.cloudflare.api.account.zone.1": "*"}}
    settings = cloudflare.CloudflareSettings.model_validate({"api_url": url, "scopes": {SCOPE: scope}})
    return cloudflare.CloudflareProvider("cloudflare", settings, reference(), reader, clock=clock, timeout=timeout)


@contextmanager
def github_rig() -> Iterator[ProviderRig]:
    """A GitHub App."""
    with credential_github.FakeGitHub() as service:
        settings = github_app.GitHubSettings.model_validate(
            {
                "api_url": service.url,
                "app_id": credential_github.APP_ID,
                "installation_id": credential_github.INSTALLATION,
                "scopes": {SCOPE: {"permissions": {"contents": "read"}, "repositories": ["one"]}},
            }
        )
        yield ProviderRig(
            service,
            service.live,
            lambda reader, clock, timeout: github_app.GitHubAppProvider(
                "github", settings, reference(), reader, clock=clock, timeout=timeout
            ),
            {"KEY": credential_keys.private_pem(1)},
            {"KEY": credential_keys.private_pem(2)},
        )


@contextmanager
def memory_cloud_rig() -> Iterator[ProviderRig]:
    """Kagura Memory Cloud."""
    with credential_memory_cloud.FakeMemoryCloud() as service:
        settings = memory_cloud.MemoryCloudSettings.model_validate(
            {
                "api_url": service.url,
                "workspace_id": credential_memory_cloud.WORKSPACE,
                "scopes": {SCOPE: {"user_id": credential_memory_cloud.MEMBER}},
            }
        )
        yield ProviderRig(
            service,
            service.live,
            lambda reader, clock, timeout: memory_cloud.MemoryCloudProvider(
                "memory", settings, reference(), reader, clock=clock, timeout=timeout
            ),
            {"KEY": credential_memory_cloud.OWNER_KEY},
            {"KEY": "kagura_wrong_" + "2" * 24},
        )


@contextmanager
def gcp_rig() -> Iterator[ProviderRig]:
    """Google Cloud."""
    with credential_gcp.FakeGoogle() as service:
        settings = gcp.GcpSettings.model_validate(
            {
                "api_url": service.url,
                "scopes": {
                    SCOPE: {
                        "service_account": credential_gcp.TARGET,
                        "oauth_scopes": ["https://www.googleapis.com/auth/devstorage.read_only"],
                    }
                },
            }
        )
        token_uri = f"{service.url}/token"
        yield ProviderRig(
            service,
            service.live,
            lambda reader, clock, timeout: gcp.GcpProvider(
                "google", settings, reference(), reader, clock=clock, timeout=timeout
            ),
            {"KEY": credential_keys.service_account(token_uri, 1)},
            {"KEY": credential_keys.service_account(token_uri, 2)},
        )


@contextmanager
def aws_rig() -> Iterator[ProviderRig]:
    """AWS STS; needs moto."""
    from kagura_kernel.testing import credential_aws

    with credential_aws.FakeAws() as service:
        settings = aws_sts.AwsSettings.model_validate(
            {"endpoint_url": service.url, "scopes": {SCOPE: {"role_arn": credential_aws.ROLE}}}
        )
        both = (reference("KEY_ID"), reference("KEY"))
        yield ProviderRig(
            service,
            service.live,
            lambda reader, clock, timeout: aws_sts.AwsStsProvider(
                "aws", settings, both, reader, clock=clock, timeout=timeout
            ),
            {"KEY_ID": credential_aws.ACCESS_KEY_ID, "KEY": credential_aws.SECRET_ACCESS_KEY},
            {"KEY_ID": "AKIAWRONGWRONGWRONGS", "KEY": "wrong-" + "3" * 34},
            shown="AWS_ACCESS_KEY_ID",
        )


def reference(variable: str = "KEY") -> SecretReference:
    """A secret in a variable."""
    return SecretReference("providers.test.key", "env", variable)
