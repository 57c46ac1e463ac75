"""AWS STS by moto, behind a door that knows one access key and can have trouble."""

from __future__ import annotations

import http.client
import re
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from moto.server import ThreadedMotoServer

from kagura_kernel.testing.credential_service import Call, LoopbackService, Reply, Trouble

ACCESS_KEY_ID = "AKIAIOSFODNN7EXAMPLE"
SECRET_ACCESS_KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
ROLE = "arn:aws:iam::123456789012:role/reader"
_ISSUED = re.compile(
    rb"<AccessKeyId>(?P<key>[^<]+)</AccessKeyId>.*?<Expiration>(?P<ends>[^<]+)</Expiration>", re.DOTALL
)
_ERROR = """<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>{}</Code><Message>No.</Message></Error><RequestId>1</RequestId></ErrorResponse>"""


class FakeAws(LoopbackService):
    """Forwards to a moto server of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._sessions: dict[str, datetime] = {}

    def __enter__(self) -> Self:
        """Listening when it returns."""
        self._moto.start()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Everything has ended when it returns."""
        super().__exit__(kind, error, trace)
        self._moto.stop()

    def live(self) -> dict[str, str]:
        """Access key ids of the sessions that work now."""
        with self.lock:
            return {key: "" for key, ends in self._sessions.items() if ends > self.now()}

    def undone(self, trouble: Trouble) -> Reply:
        """AWS says "too often" with 400 and a word."""
        return _refusal(400, "Throttling") if trouble is Trouble.BUSY else super().undone(trouble)

    def respond(self, call: Call) -> Reply:
        """What moto answers."""
        if f"Credential={ACCESS_KEY_ID}/" not in call.headers.get("authorization", ""):
            return _refusal(403, "InvalidClientTokenId")
        host, port = self._moto.get_host_and_port()
        connection = http.client.HTTPConnection(host, port, timeout=20)
        try:
            connection.request(call.method, call.path, call.body, {**call.headers, "host": "sts.amazonaws.com"})
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if issued := _ISSUED.search(body):
            ends = datetime.fromisoformat(issued["ends"].decode())
            self._sessions[issued["key"].decode()] = ends if ends.tzinfo else ends.replace(tzinfo=UTC)
        return Reply(answer.status, body, {"content-type": "text/xml"})


def _refusal(status: int, code: str) -> Reply:
    return Reply(status, _ERROR.format(code).encode(), {"content-type": "text/xml"})
