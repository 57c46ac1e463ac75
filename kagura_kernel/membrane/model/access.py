"""The API of a brain that thinks in its box: a loopback URL there, the key added here, every answer counted here.

The box has a placeholder where the program insists on a key. A request that is not the API's own way of thinking goes
nowhere (`rules`), what an answer cost is read from the service's own words (`usage`), and the key is covered in
whatever comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import ValidationError

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import BrainNotConfigured
from kagura_kernel.domain.events import ModelCalled
from kagura_kernel.membrane.credentials.budget import Budget
from kagura_kernel.membrane.credentials.grants import Scope
from kagura_kernel.membrane.credentials.injection.endpoint import Endpoint
from kagura_kernel.membrane.credentials.injection.head import BadRequest
from kagura_kernel.membrane.credentials.injection.records import InjectedRequest, InjectionLimits
from kagura_kernel.membrane.credentials.injection.rewriting import Headers
from kagura_kernel.membrane.credentials.injection.settings import HeaderInjection
from kagura_kernel.membrane.credentials.injection.summing import Summing
from kagura_kernel.membrane.credentials.injection.upstream import GateFor
from kagura_kernel.membrane.credentials.injection.watching import AnswerWatch
from kagura_kernel.membrane.credentials.lease import Lease
from kagura_kernel.membrane.credentials.secret import Credential, Secret
from kagura_kernel.membrane.model.rules import LONGEST, MESSAGES, check_body, check_head, kept_headers
from kagura_kernel.membrane.model.usage import Counted, UsageReader
from kagura_kernel.membrane.parts import RecordFact
from kagura_kernel.sandbox.backend import Box
from kagura_kernel.sandbox.guest_streams import Failed, Listener

MOST_AT_ONCE = 8
"""Answers that may be under way at once: so many may pass a budget before anybody knows what they cost."""

_LIMITS = InjectionLimits(connections=64, bytes_out=LONGEST + 2**20, idle=600.0)
_NAME = "model"
_IN_A_THREAD = 64 * 1024
_FINE = range(200, 300)


@dataclass(frozen=True, slots=True)
class ModelApi:
    """Where a brain thinks.

    Attributes:
        url: Base URL of the service.
        header: The header that carries the key: `x-api-key`, or `authorization` for a token.
        key: What is added to each request.
    """

    url: str
    header: str
    key: Secret = field(repr=False)

    @property
    def injection(self) -> HeaderInjection:
        """How the key is added.

        Raises:
            BrainNotConfigured: a key must not be sent to such a URL.
        """
        try:
            return HeaderInjection(upstream=self.url, header=self.header)
        except ValidationError as error:
            why = "; ".join(detail["msg"].removeprefix("Value error, ") for detail in error.errors(include_input=False))
            message = f"A sealed brain cannot use the base URL that is set: {why}. Correct ANTHROPIC_BASE_URL."
            raise BrainNotConfigured(message) from None


@dataclass(frozen=True, slots=True)
class Counting:
    """Who keeps the books of what a model is asked.

    Attributes:
        counted: Told of each answer of the service as soon as it is over; None where it told of no tokens.
        refused: Why nothing more may be asked, a sentence; empty while something may.
        refused_model: Why a model may not be asked, a sentence; empty where it may.
    """

    counted: Callable[[Counted | None], None]
    refused: Callable[[], str] = lambda: ""
    refused_model: Callable[[str], str] = lambda _model: ""


class ModelAccess:
    """The API of one run; belongs to the loop of its box.

    Args:
        api: Where it is, and the key.
        gate_for: Makes the gate of the upstream from a policy that grants only it.
        record: Where every request is written down.
        counting: Keeps the books.
        clock: Measures requests.
    """

    def __init__(
        self, api: ModelApi, gate_for: GateFor, record: RecordFact, counting: Counting, *, clock: Clock
    ) -> None:
        self._record = record
        self._under_way = 0
        self._calls = Summing(self._called)
        self._counting = counting
        self._endpoint = Endpoint(
            api.injection,
            _Key(api.key),
            gate_for,
            self._calls.add,
            limits=_LIMITS,
            clock=clock,
            watch=lambda: _Request(self),
        )

    @property
    def url(self) -> str:
        """The base URL in the box, without a slash at its end."""
        return self._endpoint.base

    async def open(self, box: Box, failed: Failed) -> None:
        """Let programs in the box ask.

        Raises:
            SandboxUnavailable: there is no port to be had, or the box is gone.
        """
        self._endpoint.port = await box.listen(Listener(0, "raw", _NAME), self._endpoint.serve, failed)
        self._endpoint.open(_lease())

    async def close(self) -> None:
        """From now on nothing is asked; what is under way is cut. May be called twice.

        Raises:
            JournalError: not every request could be written down.
        """
        try:
            await self._endpoint.close()
        finally:
            self._calls.end()

    # ------------------------------------------------------- from the requests

    def begin(self) -> None:
        """Another answer is asked for.

        Raises:
            BadRequest: not now, or not any more.
        """
        if why := self._counting.refused():
            raise BadRequest(400, why)
        if self._under_way >= MOST_AT_ONCE:
            raise BadRequest(429, f"{MOST_AT_ONCE} answers are under way already: wait for one of them.")
        self._under_way += 1

    def check_model(self, model: str) -> None:
        """It is asked for.

        Raises:
            BadRequest: nobody could say what it costs.
        """
        if why := self._counting.refused_model(model):
            raise BadRequest(400, why)

    def end(self) -> None:
        """It is over."""
        self._under_way -= 1

    def counted(self, answer: Counted | None) -> None:
        """What it cost."""
        self._counting.counted(answer)

    def _called(self, request: InjectedRequest, times: int) -> None:
        self._record(ModelCalled, times=times, **request.facts())


class _Key:
    """Gives the key to the one endpoint that adds it."""

    def __init__(self, key: Secret) -> None:
        self._credential = Credential({"token": key})

    def credential(self, lease_id: str) -> Credential:
        """The key; there is one."""
        del lease_id
        return self._credential


class _Request:
    """Looks into one request."""

    longest = LONGEST

    def __init__(self, access: ModelAccess) -> None:
        self._access = access
        self._asks = False
        self._posts = False

    def admit(self, method: bytes, target: bytes) -> None:
        """Only the API's own paths, and only while something may be asked."""
        check_head(method, target)
        self._posts = method == b"POST"
        if target.partition(b"?")[0] == MESSAGES:
            self._access.begin()
            self._asks = True

    def headers(self, headers: Headers) -> Headers:
        """Those that are known."""
        return kept_headers(headers)

    async def body(self, body: bytes) -> None:
        """Only what the service answers without reaching out."""
        if not self._posts:
            if body:
                raise BadRequest(400, "Such a request has no body.")
            return
        long = len(body) > _IN_A_THREAD
        self._access.check_model(await asyncio.to_thread(check_body, body) if long else check_body(body))

    def answer(self, status: int) -> AnswerWatch:
        """Count what costs something."""
        return _Answer(self._access if self._asks and status in _FINE else None)

    def ended(self) -> None:
        """Make room for the next."""
        if self._asks:
            self._asks = False
            self._access.end()


class _Answer:
    """Hears one answer; counts it where it costs something."""

    def __init__(self, access: ModelAccess | None) -> None:
        self._access = access
        self._reader = UsageReader()

    def heard(self, piece: bytes) -> None:
        """A piece of it."""
        if self._access is not None:
            self._reader.feed(piece)

    def ended(self) -> None:
        """Tell the books."""
        if self._access is not None:
            self._access.counted(self._reader.finish())


def _lease() -> Lease:
    """What the endpoint takes for its lease: the key is the person's own, is not minted, and has no end."""
    now = datetime.now(UTC)
    return Lease("model", _NAME, Scope("messages"), now, now, Budget())
