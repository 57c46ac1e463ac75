"""Signing in to a server: from a connection that stands to a session that is ready for queries.

The password is proved, not told, where the server lets it be. It is told in clear text only through TLS that the URL
demands: with `prefer` whoever sits in between could ask for it. Whatever the server says out of turn ends the attempt,
and so does a server that lets us in without having proved that it knows the password, once it has begun to.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from kagura_kernel.domain.errors import EgressSignInRefused
from kagura_kernel.membrane.credentials.threads import in_thread
from kagura_kernel.membrane.egress.stream import BoxStream
from kagura_kernel.membrane.postgres.scram import MECHANISM, ScramBroken, ScramExchange
from kagura_kernel.membrane.postgres.service import PostgresService
from kagura_kernel.membrane.postgres.telling import BROKEN, refused_by_server
from kagura_kernel.membrane.postgres.wire import (
    Key,
    WireBroken,
    message,
    parse_code,
    parse_fields,
    parse_key,
    read_message,
    startup,
)

OK = 0
CLEAR_TEXT = 3
MD5 = 5
SASL = 10
SASL_CONTINUE = 11
SASL_FINAL = 12

MOST_BYTES = 256 * 1024
"""That a server may say before it is ready."""

MOST_MESSAGES = 1000
_SALT_BYTES = 4
_NEEDS_DEMAND = "asks for the password in clear text, which is told only through TLS that the URL demands"


@dataclass(frozen=True, slots=True)
class Welcome:
    """What a server said when it let us in.

    Attributes:
        status: Its ParameterStatus and NoticeResponse messages, as they came.
        key: Cancels what the session does; None when it gave none.
        ready: Its ReadyForQuery, as it came.
    """

    status: bytes
    key: Key | None
    ready: bytes


async def sign_in(
    stream: BoxStream, service: PostgresService, parameters: Mapping[str, str], *, secure: bool
) -> Welcome:
    """Start a session; on an error the caller closes the connection.

    Args:
        stream: The connection, TLS included.
        service: Who signs in where.
        parameters: Of the startup packet, without user and database.
        secure: Whether a password may be told: the connection is TLS, and the URL demands that.

    Raises:
        EgressSignInRefused: the server refuses, breaks the protocol, or asks for what it is not given.
        OSError: the server is gone.
    """
    talk = _Talk(stream, service, secure=secure)
    try:
        await stream.write(startup({"user": service.user, "database": service.database, **parameters}))
        await talk.prove()
        return await talk.welcome()
    except WireBroken as error:
        raise talk.refusal(str(error), BROKEN) from error
    except ScramBroken as error:
        raise talk.refusal(str(error)) from error


class _Talk:
    def __init__(self, stream: BoxStream, service: PostgresService, *, secure: bool) -> None:
        self._stream = stream
        self._service = service
        self._secure = secure
        self._bytes = 0
        self._messages = 0

    def refusal(self, why: str, state: str = "", advice: str = "") -> EgressSignInRefused:
        return EgressSignInRefused(self._service.host, self._service.port, why, advice, state=state)

    async def prove(self) -> None:
        """Do what the server asks for until it lets us in."""
        code, body = await self._request()
        if code == OK:
            return
        ways = {CLEAR_TEXT: self._tell, MD5: self._digest, SASL: self._scram}
        if code not in ways:
            raise self.refusal("asks for a way to sign in other than a password (Kerberos, SSPI)")
        await ways[code](body)
        code, _ = await self._request()
        if code != OK:
            raise WireBroken("asks for one proof after another")

    async def welcome(self) -> Welcome:
        """Everything from being let in to being ready."""
        status = bytearray()
        key: Key | None = None
        while True:
            kind, body = await self._next()
            if kind in (b"S", b"N"):
                status += message(kind, body)
            elif kind == b"K" and key is None:
                key = parse_key(body)
            elif kind == b"Z" and body == b"I":
                return Welcome(bytes(status), key, message(kind, body))
            else:
                raise WireBroken("does not speak PostgreSQL 3.0")

    async def _tell(self, _body: bytes) -> None:
        if not self._secure:
            raise self.refusal(_NEEDS_DEMAND, advice="Add sslmode=verify-full, or require, to the URL.")
        await self._answer(self._password().encode() + b"\0")

    async def _digest(self, salt: bytes) -> None:
        if len(salt) != _SALT_BYTES:
            raise WireBroken("does not speak PostgreSQL")
        inner = _md5((self._password() + self._service.user).encode())
        await self._answer(b"md5" + _md5(inner + salt) + b"\0")

    async def _scram(self, offered: bytes) -> None:
        if MECHANISM.encode() not in offered.split(b"\0"):
            raise self.refusal(f"offers no way to sign in by {MECHANISM}")
        self._password()
        exchange = ScramExchange(self._service.password, secrets.token_urlsafe(24))
        first = exchange.first
        await self._answer(MECHANISM.encode() + b"\0" + len(first).to_bytes(4) + first)
        challenge = await self._expect(SASL_CONTINUE)
        # Of the server's choice is how long it takes; the loop has others to serve.
        await self._answer(await in_thread(lambda: exchange.answer(challenge), "kagura-scram"))
        exchange.check(await self._expect(SASL_FINAL))

    def _password(self) -> str:
        if not self._service.password:
            raise self.refusal("asks for a password, and the URL that was configured has none", "28P01")
        return self._service.password.reveal()

    async def _answer(self, body: bytes) -> None:
        await self._stream.write(message(b"p", body))

    async def _expect(self, wanted: int) -> bytes:
        code, body = await self._request()
        if code != wanted:
            raise ScramBroken("broke off the SCRAM exchange, without proof that it knows the password")
        return body

    async def _request(self) -> tuple[int, bytes]:
        while True:
            kind, body = await self._next()
            if kind == b"R":
                return parse_code(body), body[4:]
            if kind != b"N":
                raise WireBroken("does not speak PostgreSQL 3.0")

    async def _next(self) -> tuple[bytes, bytes]:
        kind, body = await read_message(self._stream)
        self._bytes += len(body)
        self._messages += 1
        if self._bytes > MOST_BYTES or self._messages > MOST_MESSAGES:
            raise WireBroken("talks without end")
        if kind == b"E":
            raise refused_by_server(self._service.target, parse_fields(body))
        return kind, body


def _md5(data: bytes) -> bytes:
    # The server's choice; a URL that wants better has a server that asks for SCRAM.
    return hashlib.md5(data, usedforsecurity=False).hexdigest().encode("ascii")
