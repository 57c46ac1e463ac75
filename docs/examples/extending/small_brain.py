"""A brain of one's own: the loop around a model that is asked with a list of messages and answers with one."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from kagura_kernel.brain.provider import AuthContext, BrainCapabilities, BrainDone, BrainText, BrainUsage
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.identity import new_call_id
from kagura_kernel.domain.tools import ToolCall


@dataclass
class Answer:
    """What a model said: text, the tools that it wants (names and arguments), and the tokens that this took."""

    text: str
    calls: tuple = ()
    usage: Usage = field(default_factory=lambda: Usage(input_tokens=100, output_tokens=10))


Ask = Callable[[list[dict], list], Awaitable[Answer]]


async def polite(messages, tools):
    """Stands for your model's client: says how often it was spoken to."""
    return Answer(f"You said: {messages[1]['content']}")


class SmallBrain:
    name = "small"

    def __init__(self, ask: Ask = polite, usd_per_turn: float = 0.01):
        self._ask = ask
        self._price = usd_per_turn

    def resolve_auth(self):
        return AuthContext(ready=True, method="none needed", reason="its model is in this process")

    def capabilities(self):
        return BrainCapabilities(streaming=False, reports_cost=True, budget=True)

    async def run(self, turn):
        messages = [{"role": "system", "content": turn.system}, {"role": "user", "content": turn.prompt}]
        usage, rounds, stopped = Usage(), 0, ""
        while True:
            answer = await self._ask(messages, list(turn.tools))
            rounds, usage = rounds + 1, usage + answer.usage
            if answer.text:
                yield BrainText(answer.text)
            yield BrainUsage(answer.usage, self.name)
            if not answer.calls:
                break
            # Each call goes through the turn: that is where it is recorded, approved and carried out.
            calls = [ToolCall(new_call_id(), name, arguments) for name, arguments in answer.calls]
            try:
                async with asyncio.TaskGroup() as together:
                    tasks = [together.create_task(turn.call_tool(call)) for call in calls]
            except BaseExceptionGroup as raised:
                # What a call raises ends the run, as it is.
                raise raised.exceptions[0] from None
            messages += [{"role": "tool", "content": task.result().text} for task in tasks]
            if turn.budget_usd is not None and rounds * self._price >= turn.budget_usd:
                stopped = "budget"
                break
            if turn.max_turns is not None and rounds >= turn.max_turns:
                stopped = "turns"
                break
        yield BrainDone(
            text=answer.text,
            usage=usage,
            model=self.name,
            turns=rounds,
            reported_usd=rounds * self._price,
            stopped=stopped,
        )
