"""A run whose brain thinks in its box: what is shown to the box, how the brain is reached there, what it may ask.

Everything that comes out is the box's word, and the box may be in anybody's hands: what crosses is bounded here, and
what has a price is counted where the service answers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kagura_kernel.brain.in_box import SealedNeeds, ThinksInside
from kagura_kernel.brain.provider import BrainToolCalled, BrainToolFinished
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import KaguraError, NotThisTime
from kagura_kernel.domain.events import ImageSent, ToolCalled, ToolFinished
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.tools import CallTool, ToolCall, ToolResult, ToolSpec
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.membrane.egress.stream import SHORTEST, Pace
from kagura_kernel.membrane.grant import Mount, RunGrant
from kagura_kernel.runs.images import sent_fields
from kagura_kernel.runs.ledger import Books
from kagura_kernel.runs.order import Price
from kagura_kernel.sandbox.backend import Box, BoxSpec
from kagura_kernel.tools.toolsets.boxed import Boxed

if TYPE_CHECKING:
    from kagura_kernel.membrane.model_api import Counting, ModelApi
    from kagura_kernel.membrane.model_usage import Counted
    from kagura_kernel.runs.context import RunContext
    from kagura_kernel.runs.exchange import ExchangeDirectory


_ONE = Usage(1, 1)
_SERVICE = "claude-"
"""How the names of the service's models begin."""


class Models:
    """Which models a box may ask, and which of them is the brain's.

    Any program in the box can ask, so one that nobody knows the price of would make the costs of the whole run unknown.
    Those with a price may be asked: they are counted. Of those without one it is the model that was ordered, and one
    of the service's own names, the first: what the brain's program takes where its model is newer than the price list.

    Args:
        ordered: The model that was asked for, in full or in short; empty for the program's own choice.
        price: What tokens cost.
        clock: The time.
    """

    def __init__(self, ordered: str, price: Price, clock: Clock) -> None:
        self._ordered = ordered
        self._price = price
        self._clock = clock
        self._unpriced = ""
        self._brain = ""

    def refused(self, model: str) -> str:
        """Why a model may not be asked; empty where it may."""
        known = model and model in (self._ordered, self._unpriced)
        if known or self._price(_ONE, model, self._clock.now())[0] is not None:
            return ""
        if model.startswith(_SERVICE) and not self._unpriced:
            self._unpriced = model
            return ""
        return (
            f"No price is known for the model {model[:80]!r}, which was not ordered: nobody could count what it costs."
        )

    def of_the_brain(self, answered: str) -> str:
        """The brain's own model after one more answer: the first that is the ordered one; empty while there is none."""
        if not self._brain and self._ordered in answered:
            self._brain = answered
        return self._brain


NOT_OFFERED = frozenset({"read_file", "write_file", "edit_file", "list_files", "glob", "grep"})
"""Our tools for files of the box: the program's own are there."""

MOST_CALLS = 16
"""Calls of our tools that a box may have under way at once."""

CALLS_A_SECOND, CALLS_AT_FIRST = 4.0, 120

_CALL = "sealed"
_LOG_BYTES = 16 * 1024
_MOST_WAITING = 4 * 2**20


def sealed_needs(brain: object) -> SealedNeeds | None:
    """What a brain needs that thinks in its box; None for every other.

    Raises:
        BrainNotConfigured: it is missing.
    """
    return brain.sealed_needs() if isinstance(brain, ThinksInside) else None


def check_service(needs: SealedNeeds) -> None:
    """Find out whether a key may be sent to the brain's service; none is read for it.

    Raises:
        BrainNotConfigured: it must not be.
    """
    from kagura_kernel.membrane.model_api import ModelApi

    _ = ModelApi(needs.url, needs.header, Secret("")).injection


async def model_api(needs: SealedNeeds) -> ModelApi:
    """Where the brain's service is; the key is read now.

    Raises:
        BrainNotConfigured: it cannot be read, or must not be sent there.
    """
    from kagura_kernel.membrane.model_api import ModelApi

    check_service(needs)
    return ModelApi(needs.url, needs.header, Secret(await needs.key()))


def with_program(spec: BoxSpec, grant: RunGrant, needs: SealedNeeds) -> tuple[BoxSpec, RunGrant]:
    """The box that has the brain's program, and the grant that says so."""
    shown = (needs.program, needs.place)
    return (
        replace(spec, extra_read_only=(*spec.extra_read_only, shown)),
        replace(grant, mounts=(*grant.mounts, Mount(*shown, "read"))),
    )


def offered(specs: Sequence[ToolSpec]) -> list[ToolSpec]:
    """Those of our tools that the program has not itself."""
    return [spec for spec in specs if spec.name not in NOT_OFFERED]


def paced(call_tool: CallTool, clock: Clock) -> CallTool:
    """The same, for a caller that may ask without end: a box that floods a person with questions is told to wait."""
    pace, slots = Pace(CALLS_A_SECOND, CALLS_AT_FIRST, SHORTEST), asyncio.Semaphore(MOST_CALLS)

    async def call(asked: ToolCall) -> ToolResult:
        if pace.take(clock.monotonic()) is None:
            text = f"Not called: more than {CALLS_A_SECOND:g} calls a second. Wait a moment, and ask more slowly."
            return ToolResult(text, is_error=True, route="")
        async with slots:
            return await call_tool(asked)

    return call


async def open_inside(context: RunContext, exchange: ExchangeDirectory) -> SealedPlace:
    """Open the way to the brain's service, and say where the brain thinks.

    Raises:
        BrainNotConfigured: its program or its key is missing.
        SandboxUnavailable: the box has no port left, or is gone.
    """
    needs = sealed_needs(context.order.brain)
    context.membrane.model_api = None if needs is None else await model_api(needs)
    api = await context.membrane.open_model(context.box, _counting(context))
    return SealedPlace(
        context.box,
        context.parts.clock,
        api=api,
        environment=exchange.environment(_CALL),
        root=context.membrane.grant.writable_root,
        folder=f"{exchange.root}/{_CALL}",
    )


def _counting(context: RunContext) -> Counting:
    """Every answer goes into the books as it ends, whoever in the box has asked for it."""
    from kagura_kernel.membrane.model_api import Counting

    books = Books(context.account, context.recorder, context.parts.price, context.parts.clock)
    models = Models(context.order.model, context.parts.price, context.parts.clock)

    def counted(answer: Counted | None) -> None:
        try:
            if answer is not None:
                books.count(answer.usage, answer.model)
                context.account.model = models.of_the_brain(answer.model) or context.order.model
            elif context.account.left_usd is not None:
                raise NotThisTime(
                    "A budget cannot be kept: the service does not say what an answer costs. Leave `--budget` out."
                )
            context.account.check()
        except KaguraError as error:
            context.stop(error)

    def refused() -> str:
        account = context.account
        if account.left_usd is None or account.left_usd > 0:
            return ""
        return str(account.exhausted(account.spent_usd))

    return Counting(counted, refused, models.refused)


class OwnTools:
    """Records the tools that the program uses by itself."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._began: dict[str, tuple[float, ToolCall]] = {}

    def called(self, event: BrainToolCalled) -> None:
        """It begins."""
        context = self._context
        context.tool_calls += 1
        context.recorder.record(
            ToolCalled, call_id=event.id, tool=event.name, arguments=dict(event.arguments), offered=event.known
        )
        self._began[event.id] = context.parts.clock.monotonic(), ToolCall(event.id, event.name, event.arguments)

    async def finished(self, event: BrainToolFinished) -> None:
        """It is over: its changes reach the project where that is wanted, and it is stored where the run stands."""
        context = self._context
        began, call = self._began.pop(event.id)
        text = await context.redacting.words(context.membrane.scrubber.scrub(event.text))
        for image in event.images:
            context.recorder.record(ImageSent, **sent_fields(event.id, image))
        context.recorder.record(
            ToolFinished,
            call_id=event.id,
            tool=event.name,
            offered=event.known,
            text=text,
            is_error=event.is_error,
            route="sandbox",
            duration=context.parts.clock.monotonic() - began,
        )
        if context.changes.through:
            await context.changes.write_through(context.box)
        await context.checkpoints.finished(call, ToolResult(text, is_error=event.is_error))


@dataclass(frozen=True)
class SealedPlace:
    """The box as a brain that thinks in it sees it; an `InsideBox`."""

    box: Box  # Itself, behind its membrane
    clock: Clock  # The time
    api: str  # The base URL of the brain's service there
    environment: Mapping[str, str]  # What programs find in their environment beside the box's own
    root: bool  # Whether programs run as the root of the box
    folder: str  # Where texts are kept

    async def put(self, name: str, text: str) -> str:
        """Keep a text in the box: its path there."""
        path = f"{self.folder}/{name}"
        await self.box.files.write(path, text.encode("utf-8", "replace"))
        return path

    async def start(self, argv: Sequence[str], env: Mapping[str, str]) -> BoxedProgram:
        """Start a program in the workspace."""
        program = BoxedProgram(self.box, argv, env, self.clock)
        await program.open()
        return program


class BoxedProgram:
    """A program behind a bridge; an `InsideProgram`. What nobody reads waits in the box, but for a few MiB."""

    def __init__(self, box: Box, argv: Sequence[str], env: Mapping[str, str], clock: Clock) -> None:
        start = {"argv": list(argv), "env": dict(env), "cwd": box.files.root}
        self._boxed = Boxed(_CALL, box, start, self._heard, self._over, clock=clock, log_bytes=_LOG_BYTES)
        self._chunks: deque[bytes] = deque()
        self._waiting = 0
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._gone = False

    async def open(self) -> None:
        """Start it, and wait until it can be spoken to or is gone."""
        await self._boxed.open()

    async def output(self) -> AsyncIterator[bytes]:
        """What it prints, to its end."""
        while True:
            while self._chunks:
                chunk = self._chunks.popleft()
                self._waiting -= len(chunk)
                self._room.set()
                yield chunk
            if self._gone:
                return
            self._news.clear()
            await self._news.wait()

    async def write(self, data: bytes) -> None:
        """Hand it bytes; raises `OSError` when it is gone."""
        await self._boxed.write(data)

    def kill(self) -> None:
        """End it at once, and all that it has started."""
        self._boxed.end("it was stopped")

    async def close(self) -> None:
        """Let it end by itself for a moment, then end it; may be called twice."""
        # Whoever closes reads no more, and a program that waits for room would not see that its input has ended.
        self._waiting = 0
        self._gone = True
        self._room.set()
        self._news.set()
        await self._boxed.close()

    def ending(self) -> str:
        """Why it is gone, half a sentence."""
        return self._boxed.ending

    def last_words(self) -> str:
        """The last line of its standard error."""
        lines = [line for line in self._boxed.log.splitlines() if line.strip()]
        return lines[-1] if lines else ""

    async def _heard(self, data: bytes) -> None:
        if self._gone:
            return
        self._chunks.append(data)
        self._waiting += len(data)
        self._news.set()
        while self._waiting > _MOST_WAITING and not self._gone:
            self._room.clear()
            await self._room.wait()

    def _over(self, why: str) -> None:
        del why
        self._gone = True
        self._news.set()
        self._room.set()
