"""GitHub App: the App's private key signs a short JWT, which mints installation tokens; each can be revoked.

GitHub revokes a token only when shown that token. So that a crash can be cleaned up, the handle is the token sealed
with a key made from the App's private key: whoever can open it could mint tokens anyway, and nobody else can. A token
whose answer was lost cannot be found; it dies after an hour.
"""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator

from kagura_kernel.domain.errors import LeaseRefused, SecretUnavailable
from kagura_kernel.membrane.credentials.provider import Minted, MintRequest, ProviderTraits, Revocation, Verdict
from kagura_kernel.membrane.credentials.provider_http import Answer, ApiProvider, Strict, check_url, lifetime
from kagura_kernel.membrane.credentials.revoke import judge
from kagura_kernel.membrane.credentials.secret import Credential

if TYPE_CHECKING:
    from cryptography.fernet import Fernet
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

_HOUR = 3600.0
_BACKDATED = timedelta(seconds=60)
_JWT_LIVES = timedelta(minutes=8)
_NOTICEABLE = 30.0


class GitHubScope(Strict):
    """What a token of one scope may do."""

    # As GitHub names them; at least one, since none would mean all that the App has
    permissions: dict[str, Literal["read", "write", "admin"]] = Field(min_length=1)
    repositories: tuple[str, ...] = ()  # Names of repositories; empty is all that the installation has


class GitHubSettings(Strict):
    """Settings beside the private key."""

    api_url: str = "https://api.github.com"  # Where the API answers
    app_id: str = Field(min_length=1)  # The App's id or client id
    installation_id: int = Field(gt=0)  # Whose repositories
    scopes: dict[str, GitHubScope] = Field(min_length=1)  # What can be minted, by name

    _checked = field_validator("api_url")(check_url)


class GitHubAppProvider(ApiProvider[GitHubSettings]):
    """Mints and revokes installation tokens."""

    kind = "github_app"
    traits = ProviderTraits(
        revocable=True,
        findable=False,
        shortest=_HOUR,
        longest=_HOUR,
        note="GitHub's tokens live an hour unless they are revoked, as they are at the end of the lease.",
    )

    async def mint(self, request: MintRequest) -> Minted:
        """An installation token of the scope's rights. A clock that is wrong here is corrected by GitHub's."""
        key = await self._rsa_key()
        now = self.clock.now()
        answer = await self._order(request, self._jwt(key, now))
        if answer.status == 401 and (theirs := answer.date) and abs((theirs - now).total_seconds()) > _NOTICEABLE:  # noqa: PLR2004 - HTTP
            answer = await self._order(request, self._jwt(key, theirs))
        value = self._http.object(self._http.require_success(answer))
        token = self._http.text(value, "token")
        expires = self._http.moment(value, "expires_at")
        lives = lifetime(expires, answer.date, self.clock.now(), _HOUR)
        return Minted(Credential.token(token), lives, _seal(key).encrypt(token.encode()).decode())

    async def revoke(self, handle: str) -> Revocation:
        """Revoke the token that is sealed in the handle."""
        from cryptography.fernet import InvalidToken

        try:
            token = _seal(await self._rsa_key()).decrypt(handle.encode()).decode()
        except InvalidToken:
            return Revocation(Verdict.RETRY, "it was sealed with another private key")
        answer = await self._http.send("DELETE", "/installation/token", headers=_headers(token))
        return judge(answer.status, retry_after=answer.retry_after)

    async def _order(self, request: MintRequest, jwt: str) -> Answer:
        scope = self.settings.scopes[request.scope]
        body: dict[str, Any] = {"permissions": dict(scope.permissions)}
        if scope.repositories:
            body["repositories"] = list(scope.repositories)
        path = f"/app/installations/{self.settings.installation_id}/access_tokens"
        return await self._http.send("POST", path, headers=_headers(jwt), json_body=body)

    async def _rsa_key(self) -> RSAPrivateKey:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        pem = await self.reader.read(self._key)
        try:
            key = load_pem_private_key(pem.reveal().encode(), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise SecretUnavailable(self._key.setting, "it is no private key in PEM form") from None
        if not isinstance(key, RSAPrivateKey):
            raise SecretUnavailable(self._key.setting, "it is no RSA key, as GitHub's are")
        return key

    def _jwt(self, key: RSAPrivateKey, now: datetime) -> str:
        import jwt

        claims = {"iat": now - _BACKDATED, "exp": now + _JWT_LIVES, "iss": self.settings.app_id}
        try:
            return jwt.encode(claims, key, algorithm="RS256")
        except (jwt.PyJWTError, TypeError, ValueError):
            raise LeaseRefused(self.name, "its private key does not sign") from None


def _headers(token: str) -> dict[str, str]:
    return {
        "authorization": f"Bearer {token}",
        "accept": "application/vnd.github+json",
        "x-github-api-version": "2022-11-28",
    }


def _seal(key: RSAPrivateKey) -> Fernet:
    from cryptography.fernet import Fernet
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    root = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    derived = HKDF(SHA256(), length=32, salt=None, info=b"kagura-kernel lease handle").derive(root)
    return Fernet(base64.urlsafe_b64encode(derived))
