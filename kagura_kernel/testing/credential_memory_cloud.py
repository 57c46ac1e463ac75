"""Kagura Memory Cloud's API for members' keys: revoked ones stay in the list."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from kagura_kernel.testing.credential_service import Call, LoopbackService, Reply

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
