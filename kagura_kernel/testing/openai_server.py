"""A model on the loopback that speaks the OpenAI-compatible APIs (chat completions, responses), from a script.

What runs against OpenAI, Ollama, LM Studio or vLLM runs against it without the internet::

    with OpenAIServer([calls("bash", {"command": "ls"}), says("Three files.")]) as server:
        endpoint = server.url  # http://127.0.0.1:…/v1

Scripts are those of `testing.model_script`. It runs in threads of its own and listens on 127.0.0.1 at a free port. It
keeps what it was sent, never a key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import urlsplit

from kagura_kernel.testing.loopback_listener import OwnedListener
from kagura_kernel.testing.model_script import ModelTurn, Refusal, Script
from kagura_kernel.testing.openai_wire import chunks, completion, error_body
from kagura_kernel.testing.responses_wire import as_chat, stream_events
from kagura_kernel.testing.scripted_server import ScriptedHandler, ScriptedServer


class OpenAIServer(ScriptedServer):
    """A scripted chat-completions API; a context manager that may be entered once."""

    def __init__(
        self,
        script: Script = (),
        *,
        key: str = "",
        models: Sequence[str] = ("scripted",),
        tells_usage: bool = True,
        moved_to: str = "",
    ) -> None:
        """A server that is not running yet.

        Args:
            script: What to answer; when a list is used up, the next request gets a 400 that says so.
            key: The only key that is accepted; empty accepts any and none, as a server on one's own machine does.
            models: What it says that it has.
            tells_usage: Whether it tells how many tokens were used.
            moved_to: Where it sends whoever asks for an answer, instead of answering; empty for nowhere.
        """
        super().__init__(script)
        self.models = tuple(models)
        self.tells_usage = tells_usage
        self.moved_to = moved_to
        self._key = key

    @property
    def url(self) -> str:
        """The base URL, with the `/v1` that such services have."""
        return f"{super().url}/v1"

    def listen(self) -> OwnedListener[OpenAIServer]:
        """Its listener."""
        return OwnedListener(self, _Handler)

    def admit(self, headers: Mapping[str, str]) -> bool:
        """Whether a request with these headers carries an accepted key."""
        return self._key in ("", headers.get("authorization", "").removeprefix("Bearer "))


class _Handler(ScriptedHandler):
    server: OwnedListener[OpenAIServer]
    stream_headers: ClassVar = {"transfer-encoding": "chunked"}

    def got(self) -> None:
        if not self.server.owner.admit(self.record({})):
            self.refuse(Refusal(401))
        elif urlsplit(self.path).path == "/v1/models":
            self.send_json(200, {"object": "list", "data": [{"id": name} for name in self.server.owner.models]})
        else:
            self.refuse(Refusal(404, message="there is nothing here"))

    def posted(self, body: Mapping[str, Any], size: int) -> None:
        del size
        path = urlsplit(self.path).path
        responses = path == "/v1/responses"
        asked = as_chat(body) if responses else body
        headers = self.record(asked)
        if self.server.owner.moved_to:
            self.send(307, b"", {"location": self.server.owner.moved_to})
        elif not self.server.owner.admit(headers):
            self.refuse(Refusal(401))
        elif path != "/v1/chat/completions" and not responses:
            self.refuse(Refusal(404, message="there is nothing here"))
        else:
            self.give(self.server.owner.answer(asked), body)

    def message(self, turn: ModelTurn, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return completion(turn, body)

    def error(self, refusal: Refusal) -> Mapping[str, Any]:
        return error_body(refusal)

    def pieces(self, turn: ModelTurn, body: Mapping[str, Any]) -> Sequence[str]:
        if "input" in body:
            return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in stream_events(turn, body)]
        told = self.server.owner.tells_usage
        return [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks(turn, body, tells_usage=told)]

    def write(self, text: str) -> None:
        data = text.encode()
        super().write(f"{len(data):x}\r\n{text}\r\n")

    def end_stream(self) -> None:
        self.write("data: [DONE]\n\n")
        self.write("")
