"""A database put into a box: a port of its loopback, behind which the membrane signs in and then only carries bytes.

The program in the box is the client of a server that asks for no password. What it names as user and database counts
for nothing. It reaches this one host and port. Where a person typed it, an address in a private network may be meant;
the addresses that nobody can mean stay refused. A session begins read-only and with a limit on the time of one
statement. Both are defaults that its SQL may change: what the user of the URL may do is what counts in the end. A
program never learns a server's key: it is told one of ours, and can cancel what this box does and nothing else.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from itertools import count
from typing import TYPE_CHECKING

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import EgressSignInRefused
from kagura_kernel.domain.events import EgressClosed, EgressDecided
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.membrane.credentials.secret import in_thread
from kagura_kernel.membrane.egress.egress import Egress
from kagura_kernel.membrane.egress.gate import Address, Admitted, Gate, Resolver
from kagura_kernel.membrane.egress.hosts import Target, why_never, why_refused
from kagura_kernel.membrane.egress.policy import EgressRuling, EgressVerdict
from kagura_kernel.membrane.egress.stream import BoxStream, Bytes, EgressLimits, SocketStream
from kagura_kernel.membrane.postgres.login import (
    CancelStream,
    ClientStream,
    TlsStream,
    ask,
    make_context,
    sign_in,
    wishes,
)
from kagura_kernel.membrane.postgres.service import PostgresService
from kagura_kernel.membrane.postgres.wire import (
    BROKEN,
    Key,
    Startup,
    WireBroken,
    cancel_request,
    key_data,
    read_exactly,
    ssl_request,
)
from kagura_kernel.sandbox.backend import Box, Failed, GuestStream, Listener

if TYPE_CHECKING:
    import socket


class Keys:
    """Those of one box's sessions that are open."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[Key, Key]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def tell(self, real: Key) -> Key:
        """A key to be told in place of the real one, good until it is forgotten."""
        process = 0
        while not process or process in self._open:
            process = secrets.randbits(31)
        told = Key(process, secrets.randbits(32))
        self._open[process] = (told, real)
        return told

    def real(self, told: Key) -> Key | None:
        """The server's key for one that was told; None for every other."""
        known = self._open.get(told.process)
        if known is None:
            return None
        same = hmac.compare_digest(known[0].secret.to_bytes(4), told.secret.to_bytes(4))
        return known[1] if same else None

    def forget(self, told: Key) -> None:
        """Its session is over; may be called twice."""
        self._open.pop(told.process, None)


@dataclass(frozen=True, slots=True)
class ServicePolicy:
    """Opens one host and port; `EgressRules`."""

    target: Target  # The database's
    # Whether an address outside the public network may be meant, behind a name too; the addresses that nobody can mean
    # stay refused
    private: bool
    rule: str  # What stands in the records
    # None: the database was configured, and no word of a run opens another one
    sets: None = field(default=None, init=False)
    # No: a person has named it, in a network where names have many addresses
    all_answers: bool = field(default=False, init=False)

    def decide(self, target: Target) -> EgressRuling:
        """Allowed if it is the database."""
        if target != self.target:
            return EgressRuling(target, EgressVerdict.DENY, "is not the database that was configured")
        return EgressRuling(target, EgressVerdict.ALLOW, "a database that was configured", self.rule)

    def refuse_address(self, address: IPv4Address | IPv6Address, port: int) -> str | None:
        """Why this answer of a resolver must not be dialled; None when it may be."""
        del port
        return why_never(address) if self.private else why_refused(address)


class Cancelled(SocketStream):
    """A connection over which a session was asked to stop: it has nothing more to say, and hears nothing."""

    async def read(self, limit: int) -> bytes:
        """The end."""
        del limit
        return b""

    async def write(self, data: Bytes) -> None:
        """Dropped."""
        del data

    async def write_eof(self) -> None:
        """Nothing."""


SERVICE_LIMITS = EgressLimits(connections=16, waiting=64, rate=20.0, burst=64)
"""A server has some hundred sessions for everybody, and each of them is a process of its own."""

MOST_OF_A_NAME = 63
"""Bytes of an `application_name` that a server keeps."""


@dataclass(frozen=True, slots=True)
class PostgresParts:
    """What a database needs to be put into a box. All callables are used on the box's loop."""

    resolver: Resolver  # Turns its name into addresses
    # Keeps what was decided about its connections, and how each ended
    record: Callable[[EgressDecided | EgressClosed], None]
    plugin: str = ""  # The plugin whose box it is; stands in the records and in the server's list of sessions
    run_id: str = ""  # For the records; empty for a box that belongs to no run
    session_id: str = ""  # Likewise
    statement_seconds: float = 30.0  # How long one statement may take, as the session begins
    limits: EgressLimits = SERVICE_LIMITS  # On its connections, together and each
    clock: Clock = field(default_factory=SystemClock)  # The time
    # Told of an error that is not the program's: a fact could not be recorded. Without it such an error ends the box.
    failed: Failed | None = None


async def open_service(box: Box, service: PostgresService, parts: PostgresParts) -> int:
    """Let programs in the box use the database at a port of their loopback: the port. Lasts as long as the box.

    Nothing is connected to before a program wants a session.

    Raises:
        ConfigurationError: the `sslrootcert` of the service cannot be used.
        SandboxUnavailable: the port is taken in the box, it has no loopback, or it is gone.
    """
    # What a machine trusts is some hundred certificates in files.
    trust = await in_thread(lambda: make_context(service), "kagura-trust")
    door = _Door(service, parts, trust)
    port = await box.listen(Listener(service.jail_port, "raw", f"postgres {service.target}"), door.serve, parts.failed)
    task = asyncio.get_running_loop().create_task(_close_with(box, door, parts.failed))
    _closing.add(task)
    task.add_done_callback(_closing.discard)
    return port


_numbers = count(1)
_closing: set[asyncio.Task[None]] = set()


async def _close_with(box: Box, door: _Door, failed: Failed | None) -> None:
    await box.wait_closed()
    try:
        door.close()
    except Exception as error:
        # There is no connection left to end, and no caller; whoever keeps the facts has to hear that one is lost.
        if failed is None:
            raise
        failed(error)


@dataclass(eq=False, repr=False)
class _Door:
    """Serves the connections to one database from one box."""

    service: PostgresService
    parts: PostgresParts
    trust: ssl.SSLContext | None

    def __post_init__(self) -> None:
        self._keys = Keys()
        self._name = f"postgres-{next(_numbers)}"
        rule = f"plugin {self.parts.plugin}" if self.parts.plugin else "configured"
        policy = ServicePolicy(self.service.target, self.service.private, rule)
        self._gate = Gate(policy, self.parts.resolver, limits=self.parts.limits)
        self._egress = Egress(
            self._gate,
            self._record,
            run_id=self.parts.run_id,
            session_id=self.parts.session_id,
            limits=self.parts.limits,
            clock=self.parts.clock,
        )

    def close(self) -> None:
        """No more connections; what is not written down yet is."""
        self._egress.close()

    async def serve(self, guest: GuestStream) -> None:
        """One connection of a program to its end."""
        try:
            await guest.accept()
            async with asyncio.timeout(self.parts.limits.answer):
                asked = await ask(guest)
        except OSError:  # a timeout is one too
            guest.abort()
            return
        host, port = self.service.host, self.service.port
        if isinstance(asked, Startup):
            client = ClientStream(guest, asked)
            await self._egress.serve(client, host, port, partial(self._open, client, asked))
        elif asked is not None and (real := self._keys.real(asked)) is not None:
            await self._egress.serve(CancelStream(guest), host, port, partial(self._cancel, real))
        else:
            # A server does not say either whether there is a session of that key.
            await guest.write_eof()
            guest.close()

    def _record(self, fact: EgressDecided | EgressClosed) -> None:
        # A box has other ways out, each with a first connection of its own.
        named = f"{fact.connection_id}-{self._name}"
        self.parts.record(fact.model_copy(update={"plugin": self.parts.plugin, "connection_id": named}))

    # ------------------------------------------------------- towards the server

    async def _open(self, client: ClientStream, asked: Startup, admitted: Admitted) -> tuple[BoxStream, Address]:
        connection, address = await self._gate.connect(admitted)
        async with self._opening(connection):
            stream = await self._secured(connection)
            secure = isinstance(stream, TlsStream) and self.service.sslmode != "prefer"
            welcome = await sign_in(stream, self.service, self._parameters(asked), secure=secure)
        if welcome.key is None:
            client.greeting = welcome.status + welcome.ready
            return stream, address
        told = self._keys.tell(welcome.key)
        client.greeting = welcome.status + key_data(told) + welcome.ready
        stream.over = lambda: self._keys.forget(told)
        return stream, address

    async def _cancel(self, real: Key, admitted: Admitted) -> tuple[BoxStream, Address]:
        connection, address = await self._gate.connect(admitted)
        async with self._opening(connection):
            stream = await self._secured(connection)
            await stream.write(cancel_request(real))
            # It hangs up when it has passed the request on.
            await _until_end(stream)
        return Cancelled(connection), address

    @asynccontextmanager
    async def _opening(self, connection: socket.socket) -> AsyncIterator[None]:
        """A block that has its time, and whose errors are refusals and close the connection."""
        try:
            async with asyncio.timeout(self._seconds):
                yield
        except BaseException as error:
            SocketStream(connection).abort()
            if why := self._why(error):
                raise self._refused(why, BROKEN if isinstance(error, WireBroken) else "") from error
            raise

    async def _secured(self, connection: socket.socket) -> SocketStream:
        plain = SocketStream(connection)
        if self.trust is None:
            return plain
        await plain.write(ssl_request())
        # One byte and not more: whatever else came along in the clear would be taken for a part of TLS.
        answer = await read_exactly(plain, 1)
        if answer == b"S":
            secured = TlsStream(connection, self.trust, self.service.host)
            await secured.shake_hands()
            return secured
        if answer != b"N":
            raise self._refused("does not speak PostgreSQL", BROKEN)
        if self.service.sslmode != "prefer":
            raise self._refused("does not speak TLS, which the URL that was configured demands")
        return plain

    def _parameters(self, asked: Startup) -> dict[str, str]:
        options = self.service.options
        name = options.get("application_name") or f"kagura-kernel plugin {self.parts.plugin}".strip()
        given = {"options": options["options"]} if options.get("options") else {}
        return {
            **wishes(asked.parameters),
            **given,
            # A server sets these after what stands in `options`, so that nothing there undoes them.
            "application_name": name.encode()[:MOST_OF_A_NAME].decode("utf-8", "ignore"),
            "default_transaction_read_only": "on",
            "statement_timeout": str(max(1, int(self.parts.statement_seconds * 1000))),
        }

    @property
    def _seconds(self) -> float:
        return self.service.connect_seconds or self.parts.limits.connect

    def _refused(self, why: str, state: str = "") -> EgressSignInRefused:
        return EgressSignInRefused(self.service.host, self.service.port, why, state=state)

    def _why(self, error: BaseException) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            why = error.verify_message.lower().rstrip(".")
            return f"shows a certificate that is not accepted: {why}"
        if isinstance(error, ssl.SSLError):
            return "does not agree on TLS"
        if isinstance(error, TimeoutError):
            return f"did not open a session within {self._seconds:g} s"
        if isinstance(error, OSError):
            return "broke off the connection"
        return str(error) if isinstance(error, WireBroken) else ""


async def _until_end(stream: BoxStream) -> None:
    try:
        while await stream.read(1):
            pass
    except OSError:
        return  # a server that ends its TLS in the middle has ended as well
