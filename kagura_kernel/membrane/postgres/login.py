"""Signing in to a server for a program in the box, and that program, seen from its own side.

The password is proved, not told, where the server lets it be: by SCRAM-SHA-256 (RFC 5802, RFC 7677), without channel
binding, since the address was checked before, and who wants the server's name checked asks for verify-full. It is told
in clear text only through TLS that the URL demands: with `prefer` whoever sits in between could ask for it. Whatever
the server says out of turn ends the attempt, and so does a server that lets us in without having proved that it knows
the password, once it has begun to.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import hmac
import re
import secrets
import socket
import ssl
import stringprep
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import ConfigurationError, EgressRefused, EgressSignInRefused
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass
from kagura_kernel.membrane.credentials.secret import Secret, in_thread
from kagura_kernel.membrane.egress.stream import CHUNK, BoxStream, Bytes, GuestBoxStream, SocketStream
from kagura_kernel.membrane.postgres.service import SYSTEM_TRUST, PostgresService
from kagura_kernel.membrane.postgres.wire import (
    BROKEN,
    GSS_REQUEST,
    SSL_REQUEST,
    Key,
    Startup,
    WireBroken,
    fatal,
    message,
    negotiated,
    parse_code,
    parse_fields,
    parse_key,
    read_message,
    read_packet,
    refused_by_server,
    signed_in,
    startup,
    told,
)

if TYPE_CHECKING:
    from kagura_kernel.sandbox.backend import GuestStream

_RECORD = 16 * 1024


def make_context(service: PostgresService) -> ssl.SSLContext | None:
    """What TLS with this database is done with; None when there is to be none. Reads files of this machine.

    Raises:
        ConfigurationError: its `sslrootcert` cannot be used.
    """
    if service.sslmode == "disable":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["postgresql"])
    root = service.options.get("sslrootcert", "")
    context.check_hostname = service.sslmode == "verify-full"
    if not root and not context.check_hostname:
        # What these two modes promise: nobody reads along, and no more than that.
        context.verify_mode = ssl.CERT_NONE
    elif root in ("", SYSTEM_TRUST):
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        try:
            context.load_verify_locations(Path(root).expanduser())
        except (OSError, RuntimeError) as error:
            why = getattr(error, "strerror", None) or "it holds no certificate"
            problem = f"sslrootcert cannot be read: {why.lower()}"
            raise ConfigurationError(f"The database on {service.target}", [problem]) from error
    return context


class TlsStream(SocketStream):
    """A connected stream socket, spoken to in TLS, as a `BoxStream` from `shake_hands` on; it owns the socket.

    What waits in memory is at most one chunk each way. Every method raises `OSError` when the other side is gone.
    """

    def __init__(self, connection: socket.socket, context: ssl.SSLContext, host: str) -> None:
        super().__init__(connection)
        # Python 3.11.2, which is Debian's, takes a connection that broke for one whose end was said.
        context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
        self._received = ssl.MemoryBIO()
        self._to_send = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_hostname=host)
        self._sending = asyncio.Lock()

    async def shake_hands(self) -> None:
        """Agree on keys, and check the certificate as far as the context says."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._receive()
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    await self._flush()  # tells the server why
                raise
            else:
                await self._flush()
                return

    async def read(self, limit: int) -> bytes:
        """Bytes of the other side; empty when it said that there are no more."""
        while True:
            try:
                data = self._tls.read(min(limit, _RECORD))
            except ssl.SSLWantReadError:
                await self._flush()  # an answer to what only TLS itself said
                await self._receive()
            except ssl.SSLZeroReturnError:
                return b""
            else:
                # Read after its end, this gives nothing rather than an error.
                return data

    async def write(self, data: Bytes) -> None:
        """Bytes for the other side."""
        rest = memoryview(data)
        while rest:
            written = self._tls.write(rest[:CHUNK])
            rest = rest[written:]
            await self._flush()

    async def write_eof(self) -> None:
        """Say that no more bytes come; the other side may go on sending."""
        # It wants the other side's word too, which comes when it comes.
        with contextlib.suppress(OSError):
            try:
                self._tls.unwrap()
            except ssl.SSLError:
                await self._flush()

    async def _flush(self) -> None:
        async with self._sending:
            while data := self._to_send.read(CHUNK):
                await super().write(data)

    async def _receive(self) -> None:
        if data := await super().read(CHUNK):
            self._received.write(data)
        else:
            self._received.write_eof()


NO = b"N"
"""There is no encryption on the way to the membrane: it is a pipe."""

PASSED_ON = frozenset({"client_encoding", "datestyle", "extra_float_digits", "intervalstyle", "timezone"})
"""What a client may wish for its session: how values are written. The rest is the service's, or nobody's."""

MOST_OF_A_WISH = 100
EARLY = 4096
"""Bytes that are taken from a program before it is let in; the rest waits in the box."""


async def ask(guest: GuestStream) -> Startup | Key | None:
    """What the program wants, a session or to cancel one; None when it hung up, or was told that it cannot be.

    Raises:
        OSError: the program is gone.
    """
    encryption = {SSL_REQUEST, GSS_REQUEST}
    problem = "asks for encryption again"
    try:
        while isinstance(packet := await read_packet(guest), int) and packet in encryption:
            # Each is asked for once: who asks on and on wants no session.
            encryption.discard(packet)
            await guest.write(NO)
    except WireBroken as error:
        packet, problem = 0, str(error)
    if not isinstance(packet, int):
        return packet
    await guest.write(fatal(BROKEN, problem))
    await guest.write_eof()
    return None


def wishes(parameters: Mapping[str, str]) -> dict[str, str]:
    """Those of a client's parameters that a server is told."""
    return {
        name: value
        for name, value in parameters.items()
        if name.lower() in PASSED_ON and value.isascii() and value.isprintable() and len(value) <= MOST_OF_A_WISH
    }


class ClientStream(GuestBoxStream):
    """A program that has asked for a session, as a `BoxStream`: accepted it hears the greeting, refused an error."""

    def __init__(self, guest: GuestStream, asked: Startup) -> None:
        super().__init__(guest)
        self._asked = asked
        self._early: Bytes = b""
        self.greeting = b""  # What it hears after it was let in; set before `accept`

    async def gone(self) -> None:
        """Return when the program has hung up before it was answered.

        It has nothing to say before it is let in, so that one which only stops sending has left as well.
        """
        try:
            if not self._early:
                # Cancelled, this has taken nothing.
                self._early = bytes(await self._stream.read(EARLY))
                if not self._early:
                    return
        except OSError:
            return
        await self._stream.gone()

    async def accept(self) -> None:
        """Let it in."""
        older = negotiated(self._asked.unknown) if self._asked.newer or self._asked.unknown else b""
        await self.write(older + signed_in() + self.greeting)

    async def refuse(self, refusal: EgressRefused) -> None:
        """Tell it why it is not let in."""
        await self.write(told(refusal))
        await self.write_eof()

    async def read(self, limit: int) -> Bytes:
        """Bytes of the program."""
        if self._early:
            data, self._early = self._early[:limit], self._early[limit:]
            return data
        return await self._stream.read(limit)


class CancelStream(ClientStream):
    """A program that has asked to cancel: it says nothing more, and hears nothing but the end."""

    def __init__(self, guest: GuestStream) -> None:
        super().__init__(guest, Startup({}))

    async def gone(self) -> None:
        """Never: what it asked for is done even if it does not wait for the end."""
        await asyncio.get_running_loop().create_future()

    async def accept(self) -> None:
        """Nothing is said."""

    async def refuse(self, refusal: EgressRefused) -> None:
        """A server does not say it either."""
        del refusal
        await self.write_eof()

    async def read(self, limit: int) -> Bytes:
        """Nothing."""
        del limit
        return b""


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
    """One exchange: `first`, then `answer`, then `check`, each once and in this order."""

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

    The parameters are those of the startup packet, without user and database. `secure` says whether a password may be
    told: the connection is TLS, and the URL demands that.

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


@dataclass(eq=False, repr=False)
class _Talk:
    stream: BoxStream
    service: PostgresService
    _: KW_ONLY
    secure: bool

    def __post_init__(self) -> None:
        self._bytes = 0
        self._messages = 0

    def refusal(self, why: str, state: str = "", advice: str = "") -> EgressSignInRefused:
        return EgressSignInRefused(self.service.host, self.service.port, why, advice, state=state)

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
        if not self.secure:
            raise self.refusal(_NEEDS_DEMAND, advice="Add sslmode=verify-full, or require, to the URL.")
        await self._answer(self._password().encode() + b"\0")

    async def _digest(self, salt: bytes) -> None:
        if len(salt) != _SALT_BYTES:
            raise WireBroken("does not speak PostgreSQL")
        inner = _md5((self._password() + self.service.user).encode())
        await self._answer(b"md5" + _md5(inner + salt) + b"\0")

    async def _scram(self, offered: bytes) -> None:
        if MECHANISM.encode() not in offered.split(b"\0"):
            raise self.refusal(f"offers no way to sign in by {MECHANISM}")
        self._password()
        exchange = ScramExchange(self.service.password, secrets.token_urlsafe(24))
        first = exchange.first
        await self._answer(MECHANISM.encode() + b"\0" + len(first).to_bytes(4) + first)
        challenge = await self._expect(SASL_CONTINUE)
        # Of the server's choice is how long it takes; the loop has others to serve.
        await self._answer(await in_thread(lambda: exchange.answer(challenge), "kagura-scram"))
        exchange.check(await self._expect(SASL_FINAL))

    def _password(self) -> str:
        if not self.service.password:
            raise self.refusal("asks for a password, and the URL that was configured has none", "28P01")
        return self.service.password.reveal()

    async def _answer(self, body: bytes) -> None:
        await self.stream.write(message(b"p", body))

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
        kind, body = await read_message(self.stream)
        self._bytes += len(body)
        self._messages += 1
        if self._bytes > MOST_BYTES or self._messages > MOST_MESSAGES:
            raise WireBroken("talks without end")
        if kind == b"E":
            raise refused_by_server(self.service.target, parse_fields(body))
        return kind, body


def _md5(data: bytes) -> bytes:
    # The server's choice; a URL that wants better has a server that asks for SCRAM.
    return hashlib.md5(data, usedforsecurity=False).hexdigest().encode("ascii")
