"""AWS: a user's key assumes a role for a while, with our mark as the session's name.

AWS ends such a session by itself and offers no way to end it earlier, so giving it back does nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from kagura_kernel.domain.errors import LeaseRefused, LeaseUnavailable
from kagura_kernel.membrane.credentials.provider import Minted, MintRequest, ProviderTraits
from kagura_kernel.membrane.credentials.provider_http import (
    Provider,
    Strict,
    check_url,
    is_loopback,
    lifetime,
    parse_date,
)
from kagura_kernel.membrane.credentials.secret import Credential, Secret, in_thread

if TYPE_CHECKING:
    from types_boto3_sts import STSClient

PARTS = ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN")
_SHORTEST = 900.0
_THROTTLED = frozenset({"Throttling", "ThrottlingException", "TooManyRequestsException", "RequestLimitExceeded"})


class AwsScope(Strict):
    """Which role one scope is."""

    role_arn: str = Field(pattern=r"^arn:aws[a-z-]*:iam::\d{12}:role/.+$")
    policy: str = ""  # A session policy, JSON, that takes rights away; empty is none
    external_id: str = ""  # What the role's trust policy asks for; empty is none


class AwsSettings(Strict):
    """Settings beside the user's key."""

    region: str = Field(default="us-east-1", pattern=r"^[a-z0-9-]+$")  # Region of the STS endpoint
    endpoint_url: str = ""  # Where STS answers; empty is AWS
    scopes: dict[str, AwsScope] = Field(min_length=1)  # What can be assumed, by name

    @field_validator("endpoint_url")
    @classmethod
    def _checked(cls, url: str) -> str:
        return check_url(url) if url else url


class AwsStsProvider(Provider[AwsSettings]):
    """Assumes roles."""

    kind = "aws_sts"
    traits = ProviderTraits(
        revocable=False,
        findable=False,
        shortest=_SHORTEST,
        longest=43200.0,
        note="AWS cannot end a session early: its keys live for at least 15 minutes, whatever becomes of the lease.",
    )

    async def mint(self, request: MintRequest) -> Minted:
        """Keys of an assumed role: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`."""
        key_id, key = [await self.reader.read(self.secrets[name]) for name in ("access_key_id", "secret_access_key")]
        # The library blocks; a thread that nobody waits for any more ends with its time-outs.
        answer = await in_thread(lambda: self._assume(request, key_id, key), "kagura-aws")
        return self._minted(answer, request)

    def _assume(self, request: MintRequest, key_id: Secret, key: Secret) -> dict[str, Any]:
        from botocore import exceptions as failures
        from botocore.parsers import ResponseParserError

        scope = self.settings.scopes[request.scope]
        asked: dict[str, Any] = {
            "RoleArn": scope.role_arn,
            "RoleSessionName": request.mark,
            "DurationSeconds": int(request.seconds),
        }
        if scope.policy:
            asked["Policy"] = scope.policy
        if scope.external_id:
            asked["ExternalId"] = scope.external_id
        client = self._client(key_id, key)
        try:
            return dict(client.assume_role(**asked))
        except failures.ClientError as error:
            raise self._translated(error.response) from None
        except failures.ReadTimeoutError as error:
            raise LeaseUnavailable(self.name, "it did not answer in time", uncertain=True) from error
        except failures.ConnectionError as error:
            raise LeaseUnavailable(self.name, "it cannot be reached") from error
        except failures.HTTPClientError as error:
            raise LeaseUnavailable(self.name, "the connection broke", uncertain=True) from error
        except ResponseParserError:
            raise LeaseUnavailable(self.name, "its answer makes no sense", uncertain=True) from None
        except failures.BotoCoreError as error:
            raise LeaseRefused(self.name, f"the request cannot be made ({type(error).__name__})") from None
        finally:
            client.close()

    def _client(self, key_id: Secret, key: Secret) -> STSClient:
        import boto3
        import botocore.session
        from botocore.config import Config

        # Nothing of the person's own set-up: neither their profile nor their files.
        core = botocore.session.Session(session_vars={"profile": (None, None, None, None)})
        for name in ("config_file", "credentials_file"):
            core.set_config_variable(name, os.devnull)
        core.set_config_variable("ignore_configured_endpoint_urls", True)  # noqa: FBT003 - the library's way
        session = boto3.session.Session(
            aws_access_key_id=key_id.reveal(),
            aws_secret_access_key=key.reveal(),
            region_name=self.settings.region,
            botocore_session=core,
        )
        # What may be plain HTTP because it stays on this machine goes through no proxy.
        direct: dict[str, str] | None = {} if is_loopback(self.settings.endpoint_url) else None
        config = Config(
            connect_timeout=self.timeout,
            read_timeout=self.timeout,
            retries={"total_max_attempts": 1},
            proxies=direct,
        )
        return session.client("sts", endpoint_url=self.settings.endpoint_url or None, config=config)

    def _translated(self, response: Any) -> LeaseRefused | LeaseUnavailable:
        code = str(response.get("Error", {}).get("Code", ""))
        status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        shown = code if code.isidentifier() and len(code) < 60 else f"HTTP {status}"  # noqa: PLR2004 - a word's length
        if status == 429 or code in _THROTTLED:  # noqa: PLR2004 - HTTP
            return LeaseUnavailable(self.name, f"it is asked too often ({shown})")
        if not 400 <= status < 500:  # noqa: PLR2004 - HTTP
            return LeaseUnavailable(self.name, f"it has trouble of its own ({shown})", uncertain=True)
        return LeaseRefused(self.name, f"it said {shown}")

    def _minted(self, answer: dict[str, Any], request: MintRequest) -> Minted:
        keys = answer.get("Credentials", {})
        try:
            parts = {
                "AWS_SECRET_ACCESS_KEY": Secret(keys["SecretAccessKey"]),
                "AWS_ACCESS_KEY_ID": Secret(keys["AccessKeyId"]),
                "AWS_SESSION_TOKEN": Secret(keys["SessionToken"]),
            }
            expires = keys["Expiration"]
        except KeyError:
            raise LeaseUnavailable(self.name, "its answer has no keys", uncertain=True) from None
        date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date", "")
        return Minted(Credential(parts), lifetime(expires, parse_date(date), self.clock.now(), request.seconds))
