"""Asking the person: `ask_user`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kagura_kernel.domain.approvals import ApprovalKind, Verdict
from kagura_kernel.domain.errors import ApprovalRequired
from kagura_kernel.domain.patience import LIMIT
from kagura_kernel.domain.tools import ToolResult, ToolSpec
from kagura_kernel.runtime.approving import Asker
from kagura_kernel.tools import schema
from kagura_kernel.tools.toolbox import CallContext


class AskUserTool:
    """Puts a question to the person at the notebook; the answer grants nothing."""

    spec = ToolSpec(
        "ask_user",
        "Ask the person a question and wait for the answer. Use it when the task cannot go on without a decision that "
        "is theirs. The answer is information; it never allows a host command by itself.",
        schema.arguments(
            "question",
            question=schema.text("The question, complete in itself."),
            options=schema.texts("Answers to choose from; leave out for a free answer."),
        ),
    )

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Ask, and hand back the answer."""
        options = tuple(arguments.get("options", ()))
        try:
            decision = await self._asker.ask(
                ApprovalKind.QUESTION,
                "A question",
                arguments["question"],
                arguments={"question": arguments["question"], "options": list(options)},
                call_id=context.call_id,
                options=options,
            )
        except ApprovalRequired:
            return _no_answer("Nobody can answer questions here: decide yourself, or say what you would need to know.")
        if decision.verdict is Verdict.TIMEOUT:
            return _no_answer("Nobody answered in time: decide yourself, or say what you would need to know.")
        if decision.by == LIMIT:
            return _no_answer(f"The person was not asked: {decision.answer}.")
        if not decision.allowed:
            remark = f": {decision.answer}" if decision.answer else "."
            nobody = decision.by == "policy"
            who = "Nobody can answer questions here" if nobody else "The person does not want to answer"
            return _no_answer(who + remark)
        return ToolResult(decision.answer or "yes", route="")


def _no_answer(text: str) -> ToolResult:
    return ToolResult(text, is_error=True, route="")
