"""A model on the loopback: it speaks the Anthropic Messages API and answers from a script.

With `ANTHROPIC_BASE_URL` set to its `url` and any `ANTHROPIC_API_KEY`, the real Claude program runs end to end without
the internet::

    with ModelServer([calls("bash", {"command": "ls"}), says("Three files.")]) as server:
        environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "dummy"}

It runs in threads of its own and listens on 127.0.0.1 at a free port. It keeps what it was sent, never a key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import urlsplit

from kagura_kernel.testing.loopback_listener import OwnedListener
from kagura_kernel.testing.model_script import ModelTurn, Refusal, Script, says
from kagura_kernel.testing.model_wire import error_body, message_body, stream_events
from kagura_kernel.testing.scripted_server import ScriptedHandler, ScriptedServer


class ModelServer(ScriptedServer):
    """A scripted Messages API; a context manager that may be entered once. Its `url` is for `ANTHROPIC_BASE_URL`."""

    def __init__(self, script: Script = (), *, key: str = "") -> None:
        """A server that is not running yet.

        Args:
            script: What to answer; when a list is used up, the next request gets a 400 that says so.
            key: The only key or token that is accepted; empty accepts any, and none is a 401 always.
        """
        super().__init__(script)
        self._key = key

    def listen(self) -> OwnedListener[ModelServer]:
        """Its listener."""
        return OwnedListener(self, _Handler)

    def admit(self, headers: Mapping[str, str]) -> bool:
        """Whether a request with these headers carries an accepted key."""
        sent = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        return bool(sent) and self._key in ("", sent)


class _Handler(ScriptedHandler):
    server: OwnedListener[ModelServer]
    stream_headers: ClassVar = {"connection": "close", "request-id": "req_scripted"}

    def got(self) -> None:
        self.record({}, side=True)
        self.send_json(200, {"data": [], "has_more": False})

    def posted(self, body: Mapping[str, Any], size: int) -> None:
        path = urlsplit(self.path).path
        side = path != "/v1/messages" or _beside_the_conversation(body)
        if not self.server.owner.admit(self.record(body, side=side)):
            self.refuse(Refusal(401))
        elif path == "/v1/messages/count_tokens":
            self.send_json(200, {"input_tokens": max(1, size // 4)})
        elif path != "/v1/messages":
            self.send_json(200, {})
        else:
            self.give(says("ok", output_tokens=1) if side else self.server.owner.answer(body), body)

    def message(self, turn: ModelTurn, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return message_body(turn, body)

    def error(self, refusal: Refusal) -> Mapping[str, Any]:
        return error_body(refusal)

    def pieces(self, turn: ModelTurn, body: Mapping[str, Any]) -> Sequence[str]:
        return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in stream_events(turn, body)]


def _beside_the_conversation(body: Mapping[str, Any]) -> bool:
    """Whether the program asks for its own sake (a quota probe, a title), which no script should answer."""
    return not body.get("stream") and not body.get("tools") and body.get("max_tokens") == 1
