"""Google Cloud: a service account's key impersonates another account for a while.

Google ends such a token by itself and offers no way to end it earlier, so giving it back does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Self

from pydantic import Field, field_validator

from kagura_kernel.domain.errors import LeaseRefused, LeaseUnavailable, SecretUnavailable
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.membrane.credentials.provider import Minted, MintRequest, ProviderTraits
from kagura_kernel.membrane.credentials.provider_http import (
    AS_IT_IS,
    DIRECT,
    LARGEST,
    Answer,
    Provider,
    Strict,
    check_url,
    lifetime,
    parse_date,
)
from kagura_kernel.membrane.credentials.secret import Credential, Secret, in_thread

_HOUR = 3600.0


class GcpScope(Strict):
    """As whom a token of one scope acts, and how far."""

    service_account: str = Field(pattern=r"^[^@/\s]+@[^@/\s]+$")  # E-mail address of the account to impersonate
    oauth_scopes: tuple[str, ...] = Field(min_length=1)  # What the token may be used for


class GcpSettings(Strict):
    """Settings beside the key."""

    api_url: str = "https://iamcredentials.googleapis.com"  # Where the IAM Credentials API answers
    scopes: dict[str, GcpScope] = Field(min_length=1)  # What can be minted, by name

    _checked = field_validator("api_url")(check_url)


class GcpProvider(Provider[GcpSettings]):
    """Impersonates service accounts."""

    kind = "gcp"
    traits = ProviderTraits(
        revocable=False,
        findable=False,
        longest=_HOUR,
        note="Google cannot end a token early: it lives for as long as it was minted, whatever becomes of the lease.",
    )

    async def mint(self, request: MintRequest) -> Minted:
        """An access token of the scope's account."""
        key = await self.reader.read(self.secrets["key"])
        # The library blocks; a thread that nobody waits for any more ends with its time-outs.
        token, expires, answered_at = await in_thread(lambda: self._impersonate(request, key), "kagura-gcp")
        return Minted(
            Credential.token(token.reveal()), lifetime(expires, answered_at, self.clock.now(), request.seconds)
        )

    def _impersonate(self, request: MintRequest, key: Secret) -> tuple[Secret, datetime, datetime | None]:
        from google.auth import impersonated_credentials
        from google.auth.exceptions import GoogleAuthError, TransportError
        from google.oauth2 import service_account

        scope = self.settings.scopes[request.scope]
        try:
            source = service_account.Credentials.from_service_account_info(  # type: ignore[no-untyped-call]
                self._account(key), scopes=["https://www.googleapis.com/auth/iam"]
            )
        except (ValueError, GoogleAuthError):
            raise SecretUnavailable(self.secrets["key"].setting, "it is no key of a service account") from None
        target = impersonated_credentials.Credentials(  # type: ignore[no-untyped-call]
            source_credentials=source,
            target_principal=scope.service_account,
            target_scopes=list(scope.oauth_scopes),
            lifetime=max(1, int(request.seconds)),
            iam_endpoint_override=(
                f"{self.settings.api_url.rstrip('/')}/v1/projects/-/serviceAccounts/"
                f"{scope.service_account}:generateAccessToken"
            ),
        )
        with _Transport(self.timeout) as transport:
            try:
                target.refresh(transport)  # type: ignore[no-untyped-call]
            except TransportError:
                raise LeaseUnavailable(self.name, "it cannot be reached in time", uncertain=True) from None
            except (GoogleAuthError, TypeError, ValueError, OverflowError, RecursionError):
                # All but the first where an answer makes no sense. Not chained: their texts repeat it.
                raise self._translated(transport.last.status, transport.last.headers) from None
        token, expiry = target.token, target.expiry
        if not isinstance(token, str) or not token or not isinstance(expiry, datetime):
            raise LeaseUnavailable(self.name, "its answer has no token", uncertain=True)
        return Secret(token), expiry.replace(tzinfo=UTC), parse_date(transport.last.headers.get("date", ""))

    def _account(self, key: Secret) -> Mapping[str, Any]:
        try:
            value = json.loads(key.reveal())
            check_url(value["token_uri"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SecretUnavailable(self.secrets["key"].setting, "it is no key of a service account") from None
        return dict(value)

    def _translated(self, status: int, headers: Mapping[str, str]) -> LeaseRefused | LeaseUnavailable:
        if status == 429:  # noqa: PLR2004 - HTTP
            after = Answer(status, b"", headers).retry_after
            return LeaseUnavailable(self.name, "it is asked too often (HTTP 429)", retry_after=after)
        if 400 <= status < 500:  # noqa: PLR2004 - HTTP
            return LeaseRefused(self.name, f"it answered HTTP {status}")
        why = "its answer makes no sense" if status == 200 else f"it has trouble of its own (HTTP {status})"  # noqa: PLR2004 - HTTP
        return LeaseUnavailable(self.name, why, uncertain=True)


@dataclass(frozen=True, slots=True)
class _Response:
    """An answer as google-auth wants it."""

    status: int = 0  # 0 before there is one
    headers: Mapping[str, str] = field(default_factory=dict)  # Names in lower case
    data: bytes = b""


class _Transport:
    """How google-auth speaks HTTP with us: over httpx, without redirects; a context manager."""

    def __init__(self, timeout: float) -> None:
        import httpx

        self._client = httpx.Client(timeout=timeout, follow_redirects=False, mounts=DIRECT)
        self.last = _Response()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **_: Any,
    ) -> _Response:
        import httpx
        from google.auth.exceptions import TransportError

        del timeout  # ours is shorter
        try:
            with self._client.stream(method, url, content=body, headers={**(headers or {}), **AS_IT_IS}) as answer:
                data = bytearray()
                for piece in answer.iter_raw():
                    data += piece
                    if len(data) > LARGEST:
                        raise TransportError("the answer is too large")  # type: ignore[no-untyped-call]
        # The last of them for a host whose xn-- part stands for no name.
        except (httpx.HTTPError, httpx.StreamError, UnicodeError) as error:
            raise TransportError(type(error).__name__) from error  # type: ignore[no-untyped-call]
        self.last = _Response(answer.status_code, dict(answer.headers), bytes(data))
        return self.last
