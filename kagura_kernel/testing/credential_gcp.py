"""Google's token endpoint and IAM Credentials API: signatures are checked for real."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from urllib.parse import parse_qs

import jwt

from kagura_kernel.testing.credential_keys import public_pem
from kagura_kernel.testing.credential_service import Call, LoopbackService, Reply, Trouble

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
