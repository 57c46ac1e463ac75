"""One request of a program in the box and its answer, carried both ways at once, counted, limited and censored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import h11

from kagura_kernel.domain.errors import InjectionFailed
from kagura_kernel.membrane.credentials.injection.caller import Caller
from kagura_kernel.membrane.credentials.injection.censor import Censor, Forms
from kagura_kernel.membrane.credentials.injection.records import InjectionLimits, RequestEnd
from kagura_kernel.membrane.credentials.injection.rewriting import Upstream, incoming, outgoing
from kagura_kernel.membrane.credentials.injection.upstream import UpstreamConnection, UpstreamPool
from kagura_kernel.membrane.credentials.injection.watching import RequestWatch
from kagura_kernel.membrane.egress.limits import Meter

Both = tuple[asyncio.Task[None], asyncio.Task[None]]
"""What sends the request, and what watches whether anybody waits for its answer."""

_REPEATABLE = frozenset({b"GET", b"HEAD", b"OPTIONS"})


class Refusal(Exception):
    """No answer of the upstream can be given; while nothing was answered yet the program is told why.

    Attributes:
        status: HTTP status.
        code: An error's code.
        text: Why, in words for a person.
        ended: For the record.
        close: Whether the connection is not to be used further.
    """

    def __init__(
        self, status: int, text: str, *, code: str = InjectionFailed.code, ended: RequestEnd, close: bool = False
    ) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.text = text
        self.ended = ended
        self.close = close


@dataclass(frozen=True, slots=True)
class Way:
    """What all requests of one loopback URL have in common.

    Attributes:
        upstream: Where they go,
        pool: over these connections.
        base: The loopback URL without a slash at its end.
        forms: What the answers must not show.
        limits: On each.
        out: Counts all bodies that go out,
        into: and all that come in.
    """

    upstream: Upstream
    pool: UpstreamPool
    base: str
    forms: Forms
    limits: InjectionLimits
    out: Meter
    into: Meter


class Exchange:
    """One request, from the moment its head was understood.

    Attributes:
        status: What the program was answered; 0 before.
        out: Counts its body,
        into: and the answer's.
    """

    def __init__(self, caller: Caller, request: h11.Request, way: Way, watch: RequestWatch | None = None) -> None:
        self._caller = caller
        self._request = request
        self._watched = watch
        self._held: bytes | None = None
        self._way = way
        self._limits = way.limits
        self._patience = way.limits.idle
        self._idle = asyncio.timeout(self._patience)
        self.status = 0
        self.out = Meter(way.limits.bytes_out, way.out)
        self.into = Meter(way.limits.bytes_in, way.into)

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
        if self._watched is not None:
            await self._hold(self._watched)
        connection = await self._way.pool.connection()
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
                    self._way.pool.give_back(connection)
                else:
                    connection.close()
            connection = await self._way.pool.connection(fresh=True)

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
        async for piece in self._caller.body():
            self._count(self.out, piece, "out of the box")
            yield piece

    async def _watch(self, connection: UpstreamConnection, sender: asyncio.Task[None]) -> None:
        """Notice a program that hangs up while the upstream is silent: nobody waits for that answer any more.

        One that only says that it has no more to send may still be listening, but most that do have ended: it is
        waited with for a shorter silence.
        """
        await asyncio.wait({sender})
        if not self._caller.heard:
            return
        try:
            await self._caller.said_all()
        except OSError:
            connection.close()
            raise
        self._patience = min(self._patience, self._limits.parted)
        self._seen()

    def _head(self, injected: tuple[bytes, bytes]) -> h11.Request:
        request = self._request
        headers = list(request.headers) if self._watched is None else self._watched.headers(list(request.headers))
        try:
            return h11.Request(
                method=request.method,
                target=self._way.upstream.path(request.target),
                headers=outgoing(headers, self._way.upstream, injected),
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
            if connection.used and self._caller.heard and self._request.method in _REPEATABLE and not self.out.count:
                return None
            why = f"{self._way.upstream.target} gave no answer: {error}"
            raise Refusal(502, f"{why}.", ended="broken") from error
        self._seen()
        encodings = [value.strip().lower() for name, value in response.headers if name == b"content-encoding"]
        if any(encoding != b"identity" for encoding in encodings):
            raise Refusal(
                502,
                f"{self._way.upstream.target} encoded its answer although it was asked not to; what cannot be looked "
                "into is not passed on.",
                ended="broken",
            )
        return response

    async def _deliver(self, response: h11.Response, connection: UpstreamConnection, both: Both) -> bool:
        way = self._way
        asked = way.upstream.path(self._request.target)
        headers = incoming(response.headers, way.upstream, asked, way.base, way.forms.hide)
        self.status = response.status_code
        await self._caller.answer(response.status_code, way.forms.hide(bytes(response.reason)), headers)
        censor = Censor(way.forms)
        heard = None if self._watched is None else self._watched.answer(response.status_code)
        try:
            async for piece in connection.body():
                self._count(self.into, piece, "into the box")
                if heard is not None:
                    heard.heard(piece)
                await self._caller.send(censor.feed(piece))
        except OSError as error:
            _raise_of(*both)
            raise Refusal(502, f"{way.upstream.target} broke off its answer: {error}.", ended="broken") from error
        finally:
            if heard is not None:
                heard.ended()
        _raise_of(*both)
        await self._caller.send(censor.finish())
        return await self._caller.finish()

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
