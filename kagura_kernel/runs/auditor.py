"""One question to a brain that is to audit: no tools, one answer, and an end to its silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from kagura_kernel.brain.provider import BrainDone, BrainEvent, BrainProvider, BrainText, BrainUsage, Turn
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import BrainLost
from kagura_kernel.domain.events import TextStreamed, TextWritten
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.plugins.audit.parsing import MAX_ANSWER
from kagura_kernel.plugins.audit.prompt import AuditPrompt
from kagura_kernel.runs.counting import Books

SILENCE_SECONDS = 120.0
"""How long an auditor may say nothing."""


class AuditorSilent(Exception):
    """The brain has said nothing for too long. Not for people: they are asked what now."""


async def ask_auditor(brain: BrainProvider, prompt: AuditPrompt, books: Books, *, model: str) -> str:
    """The answer, as it was; one that grows beyond every report is cut off there.

    Args:
        brain: Who is asked, in a session of its own.
        prompt: What.
        books: Where it is recorded and paid.
        model: The model asked for; empty is the brain's own choice.

    Raises:
        AuditorSilent: it said nothing for too long.
        BrainError: it could not answer.
        BudgetExhausted: it has cost what it may.
    """
    turn = Turn(
        task=prompt.task,
        system=prompt.system,
        tools=(),
        call_tool=_no_tools,
        model=model,
        budget_usd=books.account.left_usd,
        max_turns=1,
    )
    stream: AsyncGenerator[BrainEvent, None] = brain.run(turn)  # type: ignore[assignment]
    whole, growing = "", ""
    async with aclosing(stream):
        while True:
            match await _next(stream, books.clock):
                case BrainText(text, partial=True):
                    growing += text[: MAX_ANSWER + 1]
                    books.recorder.record(TextStreamed, text=text[:MAX_ANSWER])
                case BrainText(text):
                    whole, growing = whole + text[: MAX_ANSWER + 1], ""
                    books.recorder.record(TextWritten, text=text[:MAX_ANSWER])
                case BrainUsage(usage, answering):
                    books.count(usage, answering)
                    books.account.check()
                case BrainDone() as done:
                    books.close(done)
                    return whole or done.text
                case None:
                    raise BrainLost(brain.name, "it fell silent without finishing")
            if len(whole) + len(growing) > MAX_ANSWER:
                return whole + growing


async def _next(stream: AsyncGenerator[BrainEvent, None], clock: Clock) -> BrainEvent | None:
    coming = asyncio.ensure_future(_one(stream))
    silence = asyncio.ensure_future(clock.sleep(SILENCE_SECONDS))
    try:
        await asyncio.wait({coming, silence}, return_when=asyncio.FIRST_COMPLETED)
        if not coming.done():
            raise AuditorSilent
        return coming.result()
    finally:
        silence.cancel()
        if not coming.done():
            coming.cancel()
            await asyncio.wait({coming})


async def _one(stream: AsyncGenerator[BrainEvent, None]) -> BrainEvent | None:
    try:
        return await anext(stream)
    except StopAsyncIteration:
        return None


async def _no_tools(call: ToolCall) -> ToolResult:
    return ToolResult(
        f"There is no tool {call.name!r}: an audit is one answer, without tools.", is_error=True, route=""
    )
