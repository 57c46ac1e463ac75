"""Kagura Memory Cloud: an owner's API key mints keys for a member who may do less, with our mark as their name.

The service counts the lives of keys in days, so a key is deleted when its lease ends; a lost one is found by its name.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from pydantic import Field, field_validator

from kagura_kernel.membrane.credentials.provider import Minted, MintRequest, ProviderTraits, Revocation
from kagura_kernel.membrane.credentials.provider_http import ApiProvider, ProviderHttp, Strict, check_url, lifetime
from kagura_kernel.membrane.credentials.secret import Credential

_DAY = 86400.0


class MemoryCloudScope(Strict):
    """As whom a key of one scope acts."""

    user_id: str = Field(min_length=1)  # A member or viewer of the workspace; their role is what the key may do


class MemoryCloudSettings(Strict):
    """Settings beside the owner's key."""

    api_url: str = "https://memory.kagura-ai.com"  # Where the service answers
    workspace_id: str = Field(min_length=1)
    scopes: dict[str, MemoryCloudScope] = Field(min_length=1)  # What can be minted, by name

    _checked = field_validator("api_url")(check_url)


class MemoryCloudProvider(ApiProvider[MemoryCloudSettings]):
    """Mints, finds and revokes members' API keys."""

    kind = "memory_cloud"
    traits = ProviderTraits(
        revocable=True,
        findable=True,
        shortest=_DAY,
        longest=_DAY,
        note="The service counts in days: a key that cannot be revoked at the end of its lease lives up to a day.",
    )

    async def mint(self, request: MintRequest) -> Minted:
        """A key for the scope's member."""
        user = self.settings.scopes[request.scope].user_id
        body = {"name": _name(request.mark), "expires_days": 1}
        answer = await self._ask("POST", f"{self._member(user)}/api-keys", json_body=body)
        key = self._http.object(self._http.require_success(answer))
        value = self._http.text(key, "plaintext_key")
        handle = f"{_key_id(key, self._http)}@{user}"
        lives = _DAY
        if key.get("expires_at"):
            lives = lifetime(self._http.moment(key, "expires_at"), answer.date, self.clock.now(), _DAY)
        return Minted(Credential.token(value), lives, handle)

    async def revoke(self, handle: str) -> Revocation:
        """Delete a key; the service keeps its row and answers 404 from then on."""
        key_id, _, user = handle.partition("@")
        return await self._end(f"{self._member(user)}/api-keys/{quote(key_id, safe='')}")

    async def find(self, mark: str) -> str:
        """The id of the live key with this name, with the member it belongs to."""
        for user in sorted({scope.user_id for scope in self.settings.scopes.values()}):
            answer = await self._ask("GET", self._member(user))
            rows = self._http.object(self._http.require_success(answer)).get("api_keys")
            if not isinstance(rows, list):
                raise self._http.unclear("its list of keys is none")
            for row in rows:
                if isinstance(row, dict) and row.get("name") == _name(mark) and not row.get("revoked_at"):
                    return f"{_key_id(row, self._http)}@{user}"
        return ""

    def _member(self, user: str) -> str:
        workspace = quote(self.settings.workspace_id, safe="")
        return f"/api/v1/workspaces/{workspace}/members/{quote(user, safe='')}/credentials"


def _name(mark: str) -> str:
    return f"kagura-kernel {mark}"


def _key_id(row: dict[str, Any], http: ProviderHttp) -> str:
    # A number in older versions of the service.
    found = row.get("id")
    return str(found) if isinstance(found, int) and not isinstance(found, bool) else http.text(row, "id")
