"""Signing in to a server: from a connection that stands to a session that is ready for queries.

The password is proved, not told, where the server lets it be: by SCRAM-SHA-256 (RFC 5802, RFC 7677), without channel
binding, since the address was checked before, and who wants the server's name checked asks for verify-full. It is told
in clear text only through TLS that the URL demands: with `prefer` whoever sits in between could ask for it. Whatever
the server says out of turn ends the attempt, and so does a server that lets us in without having proved that it knows
the password, once it has begun to.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import stringprep
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from kagura_kernel.domain.errors import EgressSignInRefused
from kagura_kernel.membrane.credentials.secret import Secret, in_thread
from kagura_kernel.membrane.egress.stream import BoxStream
from kagura_kernel.membrane.postgres.service import PostgresService
from kagura_kernel.membrane.postgres.wire import (
    BROKEN,
    Key,
    WireBroken,
    message,
    parse_code,
    parse_fields,
    parse_key,
    read_message,
    refused_by_server,
    startup,
)

MECHANISM = "SCRAM-SHA-256"
MOST_ITERATIONS = 1_000_000
"""Under half a second of work; a server's default is 4,096. More than that is asked for to keep us busy."""

_FIRST = re.compile(r"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/=]+),i=([1-9][0-9]{0,9})(?:,.*)?", re.ASCII)
_FINAL = re.compile(r"v=([A-Za-z0-9+/=]+)(?:,.*)?", re.ASCII)
_MAPPED_TO_NOTHING = stringprep.in_table_b1
_PROHIBITED = (
    stringprep.in_table_a1,
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


class ScramBroken(Exception):
    """The server broke the exchange, or does not know the password; the text is half a sentence."""


class ScramExchange:
    """One exchange: `first`, then `answer`, then `check`, each once and in this order.

    Args:
        password: As the person wrote it.
        nonce: Ours, fresh and printable.
    """

    def __init__(self, password: Secret, nonce: str) -> None:
        self._password = password
        self._nonce = nonce
        self._expected = b""

    @property
    def first(self) -> bytes:
        """The client's first message. The user name stands in the startup packet and is ignored here."""
        return f"n,,{self._bare}".encode("ascii")

    def answer(self, challenge: bytes) -> bytes:
        """The client's final message for the server's first one; computes for up to half a second.

        Raises:
            ScramBroken: the challenge is none, or none to this exchange.
        """
        text = _ascii(challenge)
        found = _FIRST.fullmatch(text)
        if found is None or not found[1].startswith(self._nonce) or len(found[1]) == len(self._nonce):
            raise ScramBroken("sent a SCRAM challenge that is none")
        iterations = int(found[3])
        if iterations > MOST_ITERATIONS:
            raise ScramBroken(f"asks for {iterations} rounds of SCRAM, more than {MOST_ITERATIONS}")
        salted = hashlib.pbkdf2_hmac("sha256", prepare(self._password.reveal()), _base64(found[2]), iterations)
        without_proof = f"c=biws,r={found[1]}"
        said = f"{self._bare},{text},{without_proof}".encode("ascii")
        client_key = _hmac(salted, b"Client Key")
        signature = _hmac(hashlib.sha256(client_key).digest(), said)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._expected = _hmac(_hmac(salted, b"Server Key"), said)
        return f"{without_proof},p={base64.b64encode(proof).decode('ascii')}".encode("ascii")

    def check(self, final: bytes) -> None:
        """Check the server's final message: only who knows the password can have made it.

        Raises:
            ScramBroken: it did not.
        """
        found = _FINAL.fullmatch(_ascii(final))
        if not self._expected or found is None or not hmac.compare_digest(_base64(found[1]), self._expected):
            raise ScramBroken("does not know the password itself: its SCRAM signature is wrong")

    @property
    def _bare(self) -> str:
        return f"n=,r={self._nonce}"


def prepare(password: str) -> bytes:
    """The password as both sides hash it: by SASLprep (RFC 4013), or as it is where that refuses it, as servers do."""
    if password.isascii():
        # Control letters are refused, the rest stays as it is: either way these very bytes.
        return password.encode("ascii")
    mapped = "".join(
        " " if stringprep.in_table_c12(sign) else sign for sign in password if not _MAPPED_TO_NOTHING(sign)
    )
    text = unicodedata.normalize("NFKC", mapped)
    refused = not text or any(table(sign) for sign in text for table in _PROHIBITED) or not _one_direction(text)
    return (password if refused else text).encode("utf-8")


def _one_direction(text: str) -> bool:
    """Whether letters that run from right to left stand alone and at both ends (RFC 3454, section 6)."""
    if not any(map(stringprep.in_table_d1, text)):
        return True
    ends = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
    return ends and not any(map(stringprep.in_table_d2, text))


def _ascii(data: bytes) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError as error:
        raise ScramBroken("sent a SCRAM message that is none") from error


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ScramBroken("sent a SCRAM message that is none") from error


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


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
    """What a server said when it let us in."""

    status: bytes  # Its ParameterStatus and NoticeResponse messages, as they came
    key: Key | None  # Cancels what the session does; None when it gave none
    ready: bytes  # Its ReadyForQuery, as it came


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
