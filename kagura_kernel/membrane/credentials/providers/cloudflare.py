"""Cloudflare: a parent token mints user tokens with fewer rights, an end, and our mark as their name.

The parent needs "User API Tokens: Edit". A token whose answer was lost is found again by its name and revoked.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from pydantic import Field, field_validator

from kagura_kernel.domain.errors import LeaseUnavailable
from kagura_kernel.membrane.credentials.provider import Minted, MintRequest, ProviderTraits, Revocation
from kagura_kernel.membrane.credentials.provider_http import Answer, ApiProvider, Strict, check_url, lifetime
from kagura_kernel.membrane.credentials.secret import Credential

_PAGE = 50
_NOTICEABLE = 30.0
_MOST_PAGES = 40


class CloudflareScope(Strict):
    """What a token of one scope may do."""

    permission_groups: tuple[str, ...] = Field(min_length=1)  # Ids of Cloudflare's permission groups
    # What they are allowed on, as Cloudflare writes it (`{"com.cloudflare.api.account.zone.…" = "*"}`)
    resources: dict[str, str] = Field(min_length=1)


class CloudflareSettings(Strict):
    """Settings beside the parent token."""

    api_url: str = "https://api.cloudflare.com/client/v4"  # Where the API answers
    scopes: dict[str, CloudflareScope] = Field(min_length=1)  # What can be minted, by name

    _checked = field_validator("api_url")(check_url)


class CloudflareProvider(ApiProvider[CloudflareSettings]):
    """Mints, finds and deletes Cloudflare API tokens."""

    kind = "cloudflare"
    traits = ProviderTraits(revocable=True, findable=True, shortest=60.0, longest=86400.0)

    async def mint(self, request: MintRequest) -> Minted:
        """A token of the scope's rights that ends at the time asked for, by Cloudflare's clock if ours is far off."""
        now = self.clock.now()
        answer = await self._order(request, now)
        if answer.status == 400 and (theirs := answer.date) and abs((theirs - now).total_seconds()) > _NOTICEABLE:  # noqa: PLR2004 - HTTP
            answer = await self._order(request, theirs)
        result = self._result(self._http.object(self._http.require_success(answer)))
        if not isinstance(result, dict):
            raise self._http.unclear("its answer has no token")
        value = self._http.text(result, "value")
        handle = self._http.text(result, "id")
        lives = request.seconds
        if result.get("expires_on"):
            lives = lifetime(self._http.moment(result, "expires_on"), answer.date, self.clock.now(), lives)
        return Minted(Credential.token(value), lives, handle)

    async def revoke(self, handle: str) -> Revocation:
        """Delete a token by its id."""
        return await self._end(f"/user/tokens/{quote(handle, safe='')}")

    async def find(self, mark: str) -> str:
        """The id of the token with this name."""
        for page in range(1, _MOST_PAGES + 1):
            asked = {"page": str(page), "per_page": str(_PAGE)}
            answer = await self._ask("GET", "/user/tokens", parameters=asked)
            rows = self._result(self._http.object(self._http.require_success(answer)))
            if not isinstance(rows, list):
                raise self._http.unclear("its list of tokens is none")
            for row in rows:
                if isinstance(row, dict) and row.get("name") == _name(mark):
                    return self._http.text(row, "id")
            if len(rows) < _PAGE:
                return ""
        raise LeaseUnavailable(self.name, f"it lists more than {_PAGE * _MOST_PAGES} tokens")

    async def _order(self, request: MintRequest, now: datetime) -> Answer:
        scope = self.settings.scopes[request.scope]
        ends = (now + timedelta(seconds=request.seconds)).astimezone(UTC)
        body = {
            "name": _name(request.mark),
            "expires_on": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "policies": [
                {
                    "effect": "allow",
                    "permission_groups": [{"id": group} for group in scope.permission_groups],
                    "resources": dict(scope.resources),
                }
            ],
        }
        return await self._ask("POST", "/user/tokens", json_body=body)

    def _result(self, value: dict[str, Any]) -> Any:
        if value.get("success") is not True:
            raise self._http.unclear("its answer says neither yes nor no")
        return value.get("result")


def _name(mark: str) -> str:
    return f"kagura-kernel {mark}"
