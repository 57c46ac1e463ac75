"""Every real provider beside the fake it is tested against: what the conformance suite and the tests of leases need."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.membrane.credentials.provider import CredentialProvider
from kagura_kernel.membrane.credentials.providers import aws_sts, cloudflare, gcp, github_app, memory_cloud
from kagura_kernel.membrane.credentials.secret import SecretReader, SecretReference
from kagura_kernel.testing.credential_service import PATIENCE, SCOPE, Call, LoopbackService, ProviderRig, Reply, Trouble
from tests.support import credential_cloudflare

# Keys that open nothing, made when they are first needed, for services that check signatures.


@cache
def _key(number: int) -> rsa.RSAPrivateKey:
    del number  # only tells keys apart
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def private_pem(number: int = 1) -> str:
    """The private key of this number, the same each time within a process."""
    return _key(number).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def public_pem(number: int = 1) -> str:
    return _key(number).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def service_account(token_uri: str, number: int = 1) -> str:
    """A Google service account's key file around the private key of this number."""
    return json.dumps(
        {
            "type": "service_account",
            "project_id": "project",
            "private_key_id": f"key-{number}",
            "private_key": private_pem(number),
            "client_email": "robot@project.iam.gserviceaccount.com",
            "client_id": "1",
            "token_uri": token_uri,
        }
    )


TARGET = "target@project.iam.gserviceaccount.com"
_IMPERSONATE = f"/v1/projects/-/serviceAccounts/{TARGET}:generateAccessToken"
_LONGEST = 3600


class FakeGoogle(LoopbackService):
    """Gives tokens to whoever signs with the service account's key, and tokens of `TARGET` to whoever shows one.

    Trouble waits for the second step.
    """

    def __init__(self) -> None:
        super().__init__()
        self._callers: set[str] = set()
        self._tokens: dict[str, datetime] = {}

    def live(self) -> dict[str, str]:
        """The tokens that work now."""
        with self.lock:
            return {token: "" for token, ends in self._tokens.items() if ends > self.now()}

    def next_trouble(self, call: Call) -> Trouble | None:
        """None for the first step."""
        return None if call.path == "/token" else super().next_trouble(call)

    def respond(self, call: Call) -> Reply:
        """The answer to one request."""
        if call.path == "/token":
            return self._token(call)
        if call.path != _IMPERSONATE:
            return Reply(404, {"error": {"code": 404}})
        if call.bearer not in self._callers and not _signed_well(call.bearer):
            return Reply(401, {"error": {"code": 401, "status": "UNAUTHENTICATED"}})
        seconds = int(str(call.json().get("lifetime", "3600s")).rstrip("s"))
        if not 0 < seconds <= _LONGEST:
            return Reply(400, {"error": {"code": 400}})
        token, ends = "ya29." + secrets.token_urlsafe(40), self.now() + timedelta(seconds=seconds)
        self._tokens[token] = ends
        return Reply(200, {"accessToken": token, "expireTime": ends.strftime("%Y-%m-%dT%H:%M:%SZ")})

    def _token(self, call: Call) -> Reply:
        assertion = parse_qs(call.body.decode()).get("assertion", [""])[0]
        if not _signed_well(assertion):
            return Reply(401, {"error": "invalid_grant"})
        token = "ya29.caller-" + secrets.token_urlsafe(20)
        self._callers.add(token)
        return Reply(200, {"access_token": token, "expires_in": 3600, "token_type": "Bearer"})


def _signed_well(token: str) -> bool:
    try:
        jwt.decode(token, public_pem(), algorithms=["RS256"], options={"verify_aud": False})
    except jwt.PyJWTError:
        return False
    return True


APP_ID = "1234"
INSTALLATION = 5678
_MINT = f"/app/installations/{INSTALLATION}/access_tokens"
_LONGEST_JWT = 600


class FakeGitHub(LoopbackService):
    """Mints for whoever signs with the App's key, and revokes for whoever shows the token."""

    def __init__(self) -> None:
        super().__init__()
        self._tokens: dict[str, datetime] = {}

    def live(self) -> dict[str, str]:
        """The tokens that work now; GitHub knows no names for them."""
        with self.lock:
            return {token: "" for token, ends in self._tokens.items() if ends > self.now()}

    def respond(self, call: Call) -> Reply:
        """The answer to one request."""
        if (call.method, call.path) == ("POST", _MINT):
            if not self._signed_well(call.bearer):
                return Reply(401, {"message": "A JSON web token could not be decoded"})
            token, ends = "ghs_" + secrets.token_hex(18), self.now() + timedelta(hours=1)
            self._tokens[token] = ends
            body = {"token": token, "expires_at": ends.strftime("%Y-%m-%dT%H:%M:%SZ"), **call.json()}
            return Reply(201, body)
        if (call.method, call.path) == ("DELETE", "/installation/token"):
            if call.bearer not in self.live():
                return Reply(401, {"message": "Bad credentials"})
            del self._tokens[call.bearer]
            return Reply(204)
        return Reply(404, {"message": "Not Found"})

    def _signed_well(self, token: str) -> bool:
        options = {"verify_exp": False, "verify_iat": False, "require": ["iat", "exp", "iss"]}
        try:
            claims = jwt.decode(token, public_pem(), algorithms=["RS256"], issuer=APP_ID, options=options)  # type: ignore[arg-type]
        except jwt.PyJWTError:
            return False
        now = self.now().timestamp()
        return bool(claims["iat"] <= now < claims["exp"] <= now + _LONGEST_JWT)


OWNER_KEY = "kagura_owner_" + "1" * 24
WORKSPACE = "7f1c2f0e-3c1c-4d7e-9a51-0f6d3b1a2c4d"
MEMBER = "google_1234"
_PATH = re.compile(rf"/api/v1/workspaces/{WORKSPACE}/members/(?P<user>[^/]+)/credentials(?P<rest>/api-keys(/.+)?)?")


@dataclass(slots=True)
class _Key:
    name: str
    value: str
    user: str
    expires_at: datetime
    revoked_at: datetime | None = None


class FakeMemoryCloud(LoopbackService):
    """Mints, lists and revokes keys of one member for whoever shows `OWNER_KEY`."""

    def __init__(self) -> None:
        super().__init__()
        self._keys: dict[str, _Key] = {}

    def live(self) -> dict[str, str]:
        """Names of the keys that work now, by their values."""
        with self.lock:
            found = (one for one in self._keys.values() if one.revoked_at is None and one.expires_at > self.now())
            return {one.value: one.name for one in found}

    def respond(self, call: Call) -> Reply:
        """The answer to one request."""
        if call.bearer != OWNER_KEY:
            return Reply(401, {"detail": "Invalid API key"})
        found = _PATH.fullmatch(call.path)
        if found is None or found["user"] != MEMBER:
            return Reply(404, {"detail": "Not found"})
        rest = found["rest"] or ""
        if call.method == "GET" and not rest:
            return Reply(200, {"api_keys": [self._row(key) for key in self._keys], "target_user_role": "member"})
        if call.method == "POST" and rest == "/api-keys":
            return self._mint(call, found["user"])
        key = self._keys.get(rest.removeprefix("/api-keys/"))
        if call.method == "DELETE" and key is not None and key.revoked_at is None:
            key.revoked_at = self.now()
            return Reply(200, {"status": "revoked"})
        return Reply(404, {"detail": "Not found"})

    def _mint(self, call: Call, user: str) -> Reply:
        body = call.json()
        days = body.get("expires_days")
        if not isinstance(days, int) or not body.get("name"):
            return Reply(422, {"detail": "expires_days"})
        key, value = "akey_" + secrets.token_hex(8), "kagura_" + secrets.token_hex(20)
        self._keys[key] = _Key(body["name"], value, user, self.now() + timedelta(days=days))
        return Reply(201, {**self._row(key), "plaintext_key": value})

    def _row(self, key: str) -> dict[str, object]:
        one = self._keys[key]
        return {
            "id": key,
            "name": one.name,
            "key_prefix": one.value[:10],
            "plaintext_key": None,
            "expires_at": one.expires_at.isoformat(),
            "revoked_at": one.revoked_at.isoformat() if one.revoked_at else None,
        }


_SYSTEM = SystemClock()


@contextmanager
def cloudflare_rig() -> Iterator[ProviderRig]:
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
    return cloudflare.CloudflareProvider(
        "cloudflare", settings, {"key": reference()}, reader, clock=clock, timeout=timeout
    )


@contextmanager
def github_rig() -> Iterator[ProviderRig]:
    with FakeGitHub() as service:
        settings = github_app.GitHubSettings.model_validate(
            {
                "api_url": service.url,
                "app_id": APP_ID,
                "installation_id": INSTALLATION,
                "scopes": {SCOPE: {"permissions": {"contents": "read"}, "repositories": ["one"]}},
            }
        )
        yield ProviderRig(
            service,
            service.live,
            lambda reader, clock, timeout: github_app.GitHubAppProvider(
                "github", settings, {"key": reference()}, reader, clock=clock, timeout=timeout
            ),
            {"KEY": private_pem(1)},
            {"KEY": private_pem(2)},
        )


@contextmanager
def memory_cloud_rig() -> Iterator[ProviderRig]:
    with FakeMemoryCloud() as service:
        settings = memory_cloud.MemoryCloudSettings.model_validate(
            {
                "api_url": service.url,
                "workspace_id": WORKSPACE,
                "scopes": {SCOPE: {"user_id": MEMBER}},
            }
        )
        yield ProviderRig(
            service,
            service.live,
            lambda reader, clock, timeout: memory_cloud.MemoryCloudProvider(
                "memory", settings, {"key": reference()}, reader, clock=clock, timeout=timeout
            ),
            {"KEY": OWNER_KEY},
            {"KEY": "kagura_wrong_" + "2" * 24},
        )


@contextmanager
def gcp_rig() -> Iterator[ProviderRig]:
    """Google Cloud."""
    with FakeGoogle() as service:
        settings = gcp.GcpSettings.model_validate(
            {
                "api_url": service.url,
                "scopes": {
                    SCOPE: {
                        "service_account": TARGET,
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
                "google", settings, {"key": reference()}, reader, clock=clock, timeout=timeout
            ),
            {"KEY": service_account(token_uri, 1)},
            {"KEY": service_account(token_uri, 2)},
        )


@contextmanager
def aws_rig() -> Iterator[ProviderRig]:
    """AWS STS; needs moto."""
    from tests.support import credential_aws

    with credential_aws.FakeAws() as service:
        settings = aws_sts.AwsSettings.model_validate(
            {"endpoint_url": service.url, "scopes": {SCOPE: {"role_arn": credential_aws.ROLE}}}
        )
        both = {"access_key_id": reference("KEY_ID"), "secret_access_key": reference("KEY")}
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
    return SecretReference("providers.test.key", "env", variable)
