"""One loopback URL in the box and the upstream it stands for: each request gets the lease's header on its way out.

The credential is asked for anew for each request, so a renewal is not noticed and an ended lease is. Whatever goes
wrong before the answer has begun is told in words; whatever goes wrong after it cuts the connection, so that nobody
takes a part for the whole.
"""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from collections.abc import Callable
from typing import Protocol

import h11

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import (
    EgressRefused,
    GrantMissing,
    InjectionFailed,
    KaguraError,
    LeaseEnded,
)
from kagura_kernel.membrane.credentials.injection.caller import Caller
from kagura_kernel.membrane.credentials.injection.censor import Forms
from kagura_kernel.membrane.credentials.injection.exchange import Exchange, Refusal, Way
from kagura_kernel.membrane.credentials.injection.head import BadRequest, check_request
from kagura_kernel.membrane.credentials.injection.records import (
    InjectedRequest,
    InjectionLimits,
    RecordRequest,
    RequestEnd,
)
from kagura_kernel.membrane.credentials.injection.rewriting import Upstream
from kagura_kernel.membrane.credentials.injection.settings import HeaderInjection, fill
from kagura_kernel.membrane.credentials.injection.upstream import GateFor, UpstreamPool
from kagura_kernel.membrane.credentials.injection.watching import RequestWatch
from kagura_kernel.membrane.credentials.lease import Lease
from kagura_kernel.membrane.credentials.secret import Credential, Secret
from kagura_kernel.membrane.egress.limits import Meter, Pace
from kagura_kernel.sandbox.guest_streams import GuestStream

LONGEST_PATH = 500
_NOT_IN_A_HEADER = re.compile(r"[\x00-\x1f\x7f]")


class CredentialSource(Protocol):
    """Where a credential comes from each time it is used; `CredentialBroker` is one."""

    def credential(self, lease_id: str) -> Credential:
        """The live credential of a lease.

        Raises:
            LeaseEnded: the lease is over or on hold.
            GrantMissing: the run may not have it any more.
        """
        ...


class Endpoint:
    """Serves what connects to one port in the box; belongs to one loop.

    Args:
        injection: What is added, and for which upstream.
        source: Gives the credential.
        gate_for: Makes the upstream's gate.
        record: Takes each request when it is over.
        limits: On connections and requests.
        clock: Measures how long a request took.
        trust: For TLS; None is what this machine trusts.
        watch: Makes what looks into each request and its answer; None lets all pass that is well formed.
    """

    def __init__(
        self,
        injection: HeaderInjection,
        source: CredentialSource,
        gate_for: GateFor,
        record: RecordRequest,
        *,
        limits: InjectionLimits,
        clock: Clock,
        trust: ssl.SSLContext | None = None,
        watch: Callable[[], RequestWatch] | None = None,
    ) -> None:
        self.injection = injection
        self._watch = watch
        self.upstream = Upstream.parse(injection.upstream)
        self.port = 0
        self._source = source
        self._record = record
        self._limits = limits
        self._clock = clock
        self._forms = Forms()
        self._pool = UpstreamPool(
            self.upstream, gate_for, addresses=injection.addresses, seconds=limits.connect, trust=trust
        )
        self._out = Meter(limits.lease_bytes_out)
        self._into = Meter(limits.lease_bytes_in)
        self._pace = Pace(limits.rate, limits.burst, 0.0)
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
            self._pool.close()

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
            caller = Caller(stream, self._limits)
            if len(self._work) > self._limits.connections:
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
        text = f"More than {self._limits.connections} connections are open; close some first."
        self._note(None, None, self._clock.monotonic(), 503, "refused", f"{InjectionFailed.code}: {text}")
        await caller.refuse(503, InjectionFailed.code, text, close=True)

    async def _one(self, caller: Caller) -> bool:
        """One request; whether there can be another."""
        began = self._clock.monotonic()
        try:
            request = await caller.request()
        except BadRequest as error:
            self._note(None, None, began, error.status, "refused", f"{InjectionFailed.code}: {error.text}")
            await caller.refuse(error.status, InjectionFailed.code, error.text, close=True)
            return False
        if request is None:
            return False
        began = self._clock.monotonic()
        way = Way(self.upstream, self._pool, self.base, self._forms, self._limits, self._out, self._into)
        watch = None if self._watch is None else self._watch()
        exchange = Exchange(caller, request, way, watch)
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
            if self._pace.take(self._clock.monotonic()) is None:
                text = f"More than {self._limits.rate:g} requests a second; wait a moment, and ask more slowly."
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
            provider, scope = (
                (self._last.provider, self._last.scope) if self._last else ("the lease", "of this address")
            )
            raise LeaseEnded(provider, scope, "it was given back")
        credential = self._source.credential(lease.id)
        self._forms.add(tuple(credential))
        try:
            value = fill(self.injection.value, {name: credential.part(name).reveal() for name in credential.names})
        except KeyError:
            raise InjectionFailed(
                lease.provider, lease.scope, "its header needs a part that it does not have"
            ) from None
        if self.injection.basic_user:
            pair = base64.b64encode(f"{self.injection.basic_user}:{value}".encode()).decode("ascii")
            self._forms.add([Secret(pair)])
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
        method, path = b"", b""
        if request is not None:
            method, path = bytes(request.method), self._forms.hide(bytes(request.target).partition(b"?")[0])
        self._record(
            InjectedRequest(
                lease_id=lease.id if lease else "",
                provider=lease.provider if lease else "",
                scope=lease.scope if lease else "",
                method=method.decode("ascii")[:40],
                host=self.upstream.target,
                path=path.decode("ascii", "replace")[:LONGEST_PATH],
                status=status,
                bytes_out=exchange.out.count if exchange else 0,
                bytes_in=exchange.into.count if exchange else 0,
                duration=self._clock.monotonic() - began,
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
