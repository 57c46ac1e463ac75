"""Cloudflare's API for user tokens, as far as leases need it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime

from kagura_kernel.testing.credential_service import Call, LoopbackService, Reply

PARENT = "cf-parent-" + "0" * 30
_TOKENS = "/user/tokens"


@dataclass(slots=True)
class _Token:
    name: str
    value: str
    expires_on: datetime


class FakeCloudflare(LoopbackService):
    """Mints, lists and deletes tokens for whoever shows `PARENT`."""

    def __init__(self) -> None:
        super().__init__()
        self._tokens: dict[str, _Token] = {}

    def live(self) -> dict[str, str]:
        """Names of the tokens that work now, by their values."""
        with self.lock:
            return {one.value: one.name for one in self._tokens.values() if one.expires_on > self.now()}

    def respond(self, call: Call) -> Reply:
        """The answer to one request."""
        if call.bearer != PARENT:
            return _no(401 if call.bearer else 400)
        if call.path == _TOKENS and call.method == "POST":
            return self._mint(call)
        if call.path == _TOKENS and call.method == "GET":
            page, size = int(call.query.get("page", 1)), int(call.query.get("per_page", 20))
            rows = [{"id": key, "name": one.name, "status": "active"} for key, one in self._tokens.items()]
            return _yes(rows[(page - 1) * size : page * size])
        key = call.path.removeprefix(_TOKENS + "/")
        if call.method == "DELETE" and key in self._tokens:
            del self._tokens[key]
            return _yes({"id": key})
        return _no(404)

    def _mint(self, call: Call) -> Reply:
        body = call.json()
        try:
            expires = datetime.fromisoformat(body["expires_on"])
            complete = bool(body["policies"][0]["permission_groups"][0]["id"] and body["policies"][0]["resources"])
        except (KeyError, ValueError, IndexError, TypeError):
            return _no(400)
        if not complete or expires <= self.now():
            return _no(400)
        key, value = secrets.token_hex(16), secrets.token_urlsafe(30)
        self._tokens[key] = _Token(body["name"], value, expires)
        return _yes({"id": key, "name": body["name"], "value": value, "expires_on": body["expires_on"]})


def _yes(result: object) -> Reply:
    return Reply(200, {"success": True, "errors": [], "messages": [], "result": result})


def _no(status: int) -> Reply:
    return Reply(status, {"success": False, "errors": [{"code": 9109, "message": "no"}], "result": None})
