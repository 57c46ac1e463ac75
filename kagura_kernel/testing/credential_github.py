"""GitHub's API for installation tokens: JWTs are checked for real, tokens live an hour."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

import jwt

from kagura_kernel.testing.credential_keys import public_pem
from kagura_kernel.testing.credential_service import Call, LoopbackService, Reply

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
