"""A credential provider of one's own: a service of the house that gives short-lived tokens for a long-lived key."""

from pydantic import BaseModel, ConfigDict, Field, field_validator

from kagura_kernel.membrane.credentials.provider import Minted, ProviderTraits
from kagura_kernel.membrane.credentials.provider_http import TIMEOUT, ProviderHttp, check_url
from kagura_kernel.membrane.credentials.registry import Kind
from kagura_kernel.membrane.credentials.revoke import judge
from kagura_kernel.membrane.credentials.secret import Credential


class HouseScope(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    rights: tuple[str, ...] = Field(min_length=1)


class HouseSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    url: str
    scopes: dict[str, HouseScope] = Field(min_length=1)

    _checked = field_validator("url")(check_url)


class HouseTokens:
    kind = "house_tokens"
    traits = ProviderTraits(revocable=True, findable=True, longest=3600.0)

    def __init__(self, name, settings, key, reader, *, timeout=TIMEOUT):
        self.name = name
        self.scopes = frozenset(settings.scopes)
        self._settings, self._key, self._reader = settings, key, reader
        self._http = ProviderHttp(name, settings.url, timeout=timeout)

    async def mint(self, request):
        scope = self._settings.scopes[request.scope]
        order = {"name": request.mark, "rights": list(scope.rights), "seconds": request.seconds}
        answer = await self._http.send("POST", "/tokens", headers=await self._headers(), json_body=order)
        made = self._http.object(self._http.require_success(answer))
        token, handle = self._http.text(made, "token"), self._http.text(made, "id")
        return Minted(Credential.token(token), lives=request.seconds, handle=handle)

    async def revoke(self, handle):
        answer = await self._http.send("DELETE", f"/tokens/{handle}", headers=await self._headers())
        return judge(answer.status, retry_after=answer.retry_after)

    async def find(self, mark):
        answer = await self._http.send("GET", "/tokens", headers=await self._headers(), parameters={"name": mark})
        return str(self._http.object(self._http.require_success(answer)).get("id") or "")

    async def _headers(self):
        return {"authorization": f"Bearer {(await self._reader.read(self._key)).reveal()}"}


def make(name, settings, secrets, reader):
    return HouseTokens(name, settings, secrets["key"], reader)


KIND = Kind(HouseSettings, ("key",), make, lambda settings: ())
