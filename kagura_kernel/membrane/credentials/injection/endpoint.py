"""The reverse proxy: one loopback URL in the box, and the upstream that it stands for.

Leases and the service of a sealed brain are reached through it. Each request gets the credential's header on its way
out. The credential is asked for anew for each request, so a renewal is not noticed and an ended lease is. Whatever goes
wrong before the answer has begun is told in words; whatever goes wrong after it cuts the connection, so that nobody
takes a part for the whole. Bodies stream both ways, one chunk at a time.
"""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from collections.abc import AsyncIterator, Callable

import h11

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import (
    EgressRefused,
    GrantMissing,
    InjectionFailed,
    KaguraError,
    LeaseEnded,
)
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass
from kagura_kernel.membrane.credentials.injection.caller import (
    BadRequest,
    Caller,
    InjectedRequest,
    InjectionLimits,
    RecordRequest,
    RequestEnd,
    check_request,
)
from kagura_kernel.membrane.credentials.injection.settings import HeaderInjection, fill
from kagura_kernel.membrane.credentials.injection.upstream import (
    Forms,
    GateFor,
    RequestWatch,
    Upstream,
    UpstreamConnection,
    UpstreamPool,
    censored,
    incoming,
    outgoing,
    policy_for,
)
from kagura_kernel.membrane.credentials.lease import Lease
from kagura_kernel.membrane.credentials.secret import Credential, Secret
from kagura_kernel.membrane.egress.stream import Meter, Pace
from kagura_kernel.sandbox.backend import GuestStream

Both = tuple[asyncio.Task[None], asyncio.Task[None]]
"""What sends the request, and what watches whether anybody waits for its answer."""

_REPEATABLE = frozenset({b"GET", b"HEAD", b"OPTIONS"})


class Refusal(Exception):
    """No answer of the upstream can be given; while nothing was answered yet the program is told why."""

    def __init__(
        self, status: int, text: str, *, code: str = InjectionFailed.code, ended: RequestEnd, close: bool = False
    ) -> None:
        super().__init__(text)
        self.status = status  # HTTP status
        self.code = code  # An error's code
        self.text = text  # Why, in words for a person
        self.ended = ended  # For the record
        self.close = close  # Whether the connection is not to be used further


@dataclass(eq=False, repr=False)
class Exchange:
    """One request, from the moment its head was understood."""

    caller: Caller
    request: h11.Request
    way: Endpoint
    watch: RequestWatch | None = None

    def __post_init__(self) -> None:
        self._held: bytes | None = None
        self._limits = self.way.limits
        self._patience = self._limits.idle
        self._idle = asyncio.timeout(self._patience)
        self.status = 0  # What the program was answered; 0 before
        self.out = Meter(self._limits.bytes_out, self.way.out)  # Counts its body,
        self.into = Meter(self._limits.bytes_in, self.way.into)  # and the answer's

    async def carry(self, injected: tuple[bytes, bytes]) -> bool:
        """Carry it to its end with this header added; whether the program's connection can have another request.

        Raises:
            Refusal: there is no answer, or not all of it.
            BadRequest: the program broke its own request's framing.
            EgressRefused: the upstream cannot be reached.
            OSError: the program is gone.
        """
        try:
            async with asyncio.timeout(self._limits.total), self._idle:
                return await self._carried(injected)
        except TimeoutError:
            idle = self._idle.expired()
            why = f"no byte went by for {self._patience:g} s" if idle else f"it lasted {self._limits.total:g} s"
            raise Refusal(504, f"The request was given up: {why}.", ended="time") from None

    async def _carried(self, injected: tuple[bytes, bytes]) -> bool:
        if self.watch is not None:
            await self._hold(self.watch)
        connection = await self.way.pool.connection()
        while True:
            sender = asyncio.create_task(self._send(connection, injected))
            both = sender, asyncio.create_task(self._watch(connection, sender))
            whole = False
            try:
                response = await self._response(connection, both)
                if response is not None:
                    again = await self._deliver(response, connection, both)
                    whole = sender.done()
                    return again
            finally:
                for task in both:
                    task.cancel()
                await asyncio.gather(*both, return_exceptions=True)
                if whole:
                    self.way.pool.give_back(connection)
                else:
                    connection.close()
            connection = await self.way.pool.connection(fresh=True)

    async def _send(self, connection: UpstreamConnection, injected: tuple[bytes, bytes]) -> None:
        """What this raises is the program's fault: an upstream that takes no more may still have answered."""
        try:
            head = self._head(injected)
            if not await _taken(connection, head):
                return
            async for piece in self._body():
                if not await _taken(connection, h11.Data(data=piece)):
                    return
            await _taken(connection, h11.EndOfMessage())
        except BaseException:
            # Half a request must not pass for a whole one, and whoever waits for the answer must not wait on.
            connection.close()
            raise

    async def _hold(self, watch: RequestWatch) -> None:
        """Take the whole body, and let it be looked at before any of the request is sent."""
        held = bytearray()
        async for piece in self._body():
            held += piece
            if len(held) > watch.longest:
                text = f"The body is longer than {watch.longest:,} bytes."
                raise Refusal(413, text, ended="limit", close=True)
        await watch.body(bytes(held))
        self._held = bytes(held)

    async def _body(self) -> AsyncIterator[bytes]:
        """The body piece by piece, each counted once."""
        if self._held is not None:
            if self._held:
                yield self._held
            return
        async for piece in self.caller.body():
            self._count(self.out, piece, "out of the box")
            yield piece

    async def _watch(self, connection: UpstreamConnection, sender: asyncio.Task[None]) -> None:
        """Notice a program that hangs up while the upstream is silent: nobody waits for that answer any more.

        One that only says that it has no more to send may still be listening, but most that do have ended: it is
        waited with for a shorter silence.
        """
        await asyncio.wait({sender})
        if not self.caller.heard:
            return
        try:
            await self.caller.said_all()
        except OSError:
            connection.close()
            raise
        self._patience = min(self._patience, self._limits.parted)
        self._seen()

    def _head(self, injected: tuple[bytes, bytes]) -> h11.Request:
        request = self.request
        headers = list(request.headers) if self.watch is None else self.watch.headers(list(request.headers))
        try:
            return h11.Request(
                method=request.method,
                target=self.way.upstream.path(request.target),
                headers=outgoing(headers, self.way.upstream, injected),
            )
        except h11.LocalProtocolError:
            # Not chained: the library's error repeats the value, and it may be the secret.
            raise Refusal(502, "A header cannot be sent as it is.", ended="refused") from None

    async def _response(self, connection: UpstreamConnection, both: Both) -> h11.Response | None:
        """The head of the answer; None when the request can be sent once more."""
        try:
            response = await connection.response()
        except OSError as error:
            _raise_of(*both)
            if connection.used and self.caller.heard and self.request.method in _REPEATABLE and not self.out.count:
                return None
            why = f"{self.way.upstream.target} gave no answer: {error}"
            raise Refusal(502, f"{why}.", ended="broken") from error
        self._seen()
        encodings = [value.strip().lower() for name, value in response.headers if name == b"content-encoding"]
        if any(encoding != b"identity" for encoding in encodings):
            raise Refusal(
                502,
                f"{self.way.upstream.target} encoded its answer although it was asked not to; what cannot be looked "
                "into is not passed on.",
                ended="broken",
            )
        return response

    async def _deliver(self, response: h11.Response, connection: UpstreamConnection, both: Both) -> bool:
        way = self.way
        asked = way.upstream.path(self.request.target)
        headers = incoming(response.headers, way.upstream, asked, way.base, way.forms.hide)
        self.status = response.status_code
        await self.caller.answer(response.status_code, way.forms.hide(bytes(response.reason)), headers)
        censor = censored(way.forms)
        watch = self.watch
        if watch is not None:
            watch.answer(response.status_code)
        try:
            async for piece in connection.body():
                self._count(self.into, piece, "into the box")
                if watch is not None:
                    watch.heard(piece)
                await self.caller.send(censor.feed(piece))
        except OSError as error:
            _raise_of(*both)
            raise Refusal(502, f"{way.upstream.target} broke off its answer: {error}.", ended="broken") from error
        finally:
            if watch is not None:
                watch.heard_all()
        _raise_of(*both)
        await self.caller.send(censor.finish())
        return await self.caller.finish()

    def _count(self, meter: Meter, piece: bytes, direction: str) -> None:
        self._seen()
        if len(piece) > meter.left:
            text = f"The limit of bytes {direction} was reached after {meter.count}."
            raise Refusal(413, text, ended="limit")
        meter.add(len(piece))

    def _seen(self) -> None:
        if not self._idle.expired():
            self._idle.reschedule(asyncio.get_running_loop().time() + self._patience)


async def _taken(connection: UpstreamConnection, event: h11.Event) -> bool:
    try:
        await connection.send(event)
    except OSError:
        return False
    return True


def _raise_of(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()):
            raise error


LONGEST_PATH = 500
_NOT_IN_A_HEADER = re.compile(r"[\x00-\x1f\x7f]")


CredentialSource = Callable[[str], Credential]
"""Gives the live credential of a lease, by its id, each time it is used; `CredentialBroker.credential` is one.

Raises `LeaseEnded` when the lease is over or on hold, `GrantMissing` when the run may not have it any more.
"""


@dataclass(eq=False, repr=False)
class Endpoint:
    """Serves what connects to one port in the box; belongs to one loop."""

    injection: HeaderInjection  # What is added, and for which upstream
    source: CredentialSource  # Gives the credential
    gate_for: GateFor  # Makes the upstream's gate
    record: RecordRequest  # Takes each request when it is over
    _: KW_ONLY
    limits: InjectionLimits  # On connections and requests
    clock: Clock  # Measures how long a request took
    trust: ssl.SSLContext | None = None  # For TLS; None is what this machine trusts
    # Makes what looks into each request and its answer; None lets all pass that is well formed
    watch: Callable[[], RequestWatch] | None = None

    def __post_init__(self) -> None:
        self.upstream = Upstream.parse(self.injection.upstream)
        self.port = 0
        self.forms = Forms()  # What the answers must not show
        gate = self.gate_for(policy_for(self.upstream, self.injection.addresses))
        self.pool = UpstreamPool(self.upstream, gate, self.limits.connect, self.trust)
        self.out = Meter(self.limits.lease_bytes_out)  # Counts all bodies that go out,
        self.into = Meter(self.limits.lease_bytes_in)  # and all that come in
        self._pace = Pace(self.limits.rate, self.limits.burst, 0.0)
        self._lease: Lease | None = None
        self._last: Lease | None = None
        self._work: set[asyncio.Task[None]] = set()

    @property
    def base(self) -> str:
        """The URL in the box, without a slash at its end."""
        return f"http://127.0.0.1:{self.port}"

    def open(self, lease: Lease) -> None:
        """From now on requests use this lease."""
        self._lease = self._last = lease.without_credential()

    async def close(self) -> None:
        """From now on every request is refused; those under way are cut. It may be opened again."""
        self._lease = None
        work = [task for task in self._work if task is not asyncio.current_task()]
        for task in work:
            task.cancel()
        try:
            await asyncio.gather(*work, return_exceptions=True)
        finally:
            # Last: a request that is cut after its answer gives its connection back.
            self.pool.close()

    async def serve(self, stream: GuestStream) -> None:
        """One connection of a program in the box, to its end."""
        work = asyncio.create_task(self._conversation(stream))
        self._work.add(work)
        work.add_done_callback(self._work.discard)
        try:
            await work
        except asyncio.CancelledError:
            this = asyncio.current_task()
            # Cut by `close`, and not because the box goes.
            if this is None or this.cancelling():
                raise

    async def _conversation(self, stream: GuestStream) -> None:
        orderly = False
        try:
            await stream.accept()
            caller = Caller(stream, self.limits)
            if len(self._work) > self.limits.connections:
                await self._one_too_many(caller)
            else:
                while await self._one(caller):
                    pass
            await caller.part()
            orderly = True
        except OSError:
            orderly = False  # one side broke it off, or the answer was cut; the record says which
        finally:
            if orderly:
                stream.close()
            else:
                stream.abort()

    async def _one_too_many(self, caller: Caller) -> None:
        """Told before a word was read: whoever opens connections only to hold them gets none."""
        text = f"More than {self.limits.connections} connections are open; close some first."
        self._note(None, None, self.clock.monotonic(), 503, "refused", f"{InjectionFailed.code}: {text}")
        await caller.refuse(503, InjectionFailed.code, text, close=True)

    async def _one(self, caller: Caller) -> bool:
        """One request; whether there can be another."""
        began = self.clock.monotonic()
        try:
            request = await caller.request()
        except BadRequest as error:
            self._note(None, None, began, error.status, "refused", f"{InjectionFailed.code}: {error.text}")
            await caller.refuse(error.status, InjectionFailed.code, error.text, close=True)
            return False
        if request is None:
            return False
        began = self.clock.monotonic()
        watch = None if self.watch is None else self.watch()
        exchange = Exchange(caller, request, self, watch)
        ended: RequestEnd = "broken"
        detail = ""
        try:
            again = await self._answered(caller, request, exchange, watch)
            ended = "done"
        except Refusal as refusal:
            ended, detail = refusal.ended, f"{refusal.code}: {refusal.text}"
            if caller.answered:
                raise OSError("the answer was cut") from refusal
            exchange.status = refusal.status
            again = await caller.refuse(refusal.status, refusal.code, refusal.text, close=refusal.close)
        except OSError:
            detail = "The program in the box broke it off."
            raise
        except asyncio.CancelledError:
            ended, detail = "ended", "The lease was closed, or the box is going."
            raise
        finally:
            if watch is not None:
                watch.ended()
            self._note(request, exchange, began, exchange.status, ended, detail)
        return again

    async def _answered(
        self, caller: Caller, request: h11.Request, exchange: Exchange, watch: RequestWatch | None
    ) -> bool:
        """Carry a request, with everything that speaks against it as a `Refusal`."""
        try:
            check_request(request, self.port)
            if self._pace.take(self.clock.monotonic()) is None:
                text = f"More than {self.limits.rate:g} requests a second; wait a moment, and ask more slowly."
                raise Refusal(429, text, ended="refused", close=True)
            if watch is not None:
                watch.admit(bytes(request.method), bytes(request.target))
            return await exchange.carry(self._header())
        except BadRequest as error:
            # What is misunderstood once is not listened to further.
            ended: RequestEnd = "refused" if caller.heard else "broken"
            raise Refusal(error.status, error.text, ended=ended, close=True) from error
        except KaguraError as error:
            raise Refusal(
                _status(error, open_=self._lease is not None), error.message, code=error.code, ended="refused"
            ) from error

    def _header(self) -> tuple[bytes, bytes]:
        """The header with the secret as it is now.

        Raises:
            LeaseEnded: the lease is over or on hold.
            GrantMissing: the run may not have it any more.
            InjectionFailed: a header cannot carry this secret.
        """
        lease = self._lease
        if lease is None:
            last = self._last
            raise LeaseEnded(
                *((last.provider, last.scope) if last else ("the lease", "of this address")), "it was given back"
            )
        credential = self.source(lease.id)
        self.forms.add(tuple(credential))
        try:
            value = fill(self.injection.value, {name: credential.part(name).reveal() for name in credential.names})
        except KeyError:
            raise InjectionFailed(
                lease.provider, lease.scope, "its header needs a part that it does not have"
            ) from None
        if self.injection.basic_user:
            pair = base64.b64encode(f"{self.injection.basic_user}:{value}".encode()).decode("ascii")
            self.forms.add([Secret(pair)])
            value = f"Basic {pair}"
        if _NOT_IN_A_HEADER.search(value):
            raise InjectionFailed(lease.provider, lease.scope, "its secret has several lines, which no header carries")
        return self.injection.header.encode(), value.strip().encode()

    def _note(
        self,
        request: h11.Request | None,
        exchange: Exchange | None,
        began: float,
        status: int,
        ended: RequestEnd,
        detail: str,
    ) -> None:
        lease = self._lease or self._last
        named = (lease.id, lease.provider, lease.scope) if lease is not None else ("", "", "")
        method, path = b"", b""
        if request is not None:
            method, path = bytes(request.method), self.forms.hide(bytes(request.target).partition(b"?")[0])
        self.record(
            InjectedRequest(
                *named,
                method=method.decode("ascii")[:40],
                host=self.upstream.target,
                path=path.decode("ascii", "replace")[:LONGEST_PATH],
                status=status,
                bytes_out=exchange.out.count if exchange else 0,
                bytes_in=exchange.into.count if exchange else 0,
                duration=self.clock.monotonic() - began,
                ended=ended,
                detail=detail,
            )
        )


def _status(error: KaguraError, *, open_: bool) -> int:
    match error:
        case GrantMissing():
            return 403
        case LeaseEnded():
            # On hold it may come back.
            return 503 if open_ else 403
        case EgressRefused():
            return error.status
        case _:
            return 503
